# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Durations of fsync and fdatasync at each layer."""

from __future__ import annotations

from ....module_utils.core import units
from ..nouns import Report, Waterfall
from ..tables import Table, bounds, cell, words
from .base import Choices
from .figures import FLUSHES, LIMITS, PUBLISHED_METRICS, UNITS, figures_of, of_workload, value_of


def table(waterfall: Waterfall, report: Report, choices: Choices) -> Table | None:
    """How long fsync and fdatasync took at each layer, and what was published of that, in the same units; the ceiling has nothing to flush."""
    cells = [step.cell for step in waterfall.steps if step.cell.kind != "ceiling" and "sync" in step.cell.figures]
    if not cells:
        return None
    rows = [
        (
            choices.only(measured.layer),
            measured.layer,
            [
                bounds(limits)
                if (limits := measured.between(metric.removeprefix("sync."), "sync"))
                else cell(value := value_of(measured, metric), units.latency(value))
                for metric in FLUSHES
            ],
        )
        for measured in cells
    ]
    for figure in figures_of(report):
        metric, factor = PUBLISHED_METRICS.get(str(figure.get("metric"))), UNITS.get(str(figure.get("unit")))
        value = figure.get("value")
        if metric in FLUSHES and factor and isinstance(value, (int, float)) and of_workload(figure, waterfall):
            text = f"{LIMITS.get(str(figure.get('limit')), '')} {units.latency(value * factor)}".strip()
            fields = [cell(value * factor, text) if name == metric else words("") for name in FLUSHES]
            rows.append(("", str(figure.get("where") or "published"), fields))
    return Table("Flushes", [("Layer", False), *((name, True) for name in FLUSHES.values())], rows)
