# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published figures of an experiment beside the measured ones."""

from __future__ import annotations

from collections.abc import Mapping

from ....module_utils.core import units
from .. import ratios
from ..nouns import Report
from ..tables import Field, Table, cell, words
from .base import METRIC_WORDS, Choices
from .figures import FLUSHES, PUBLISHED_METRICS, UNITS, figures_of, limited, measured_for, of_workload, value_of

CPU_RATIO = "CPU cost per I/O on a file relative to a whole LUN"
RATIO_COSTS = {"vm_mhz_per_iops": "VM MHz per IOPS", "us_per_io": "CPU time of the hypervisor"}


def table(report: Report, choices: Choices) -> Table | None:
    """Published figures of an experiment, beside the measured ones here in the same unit. They are not goals."""
    figures = figures_of(report)
    layers = [name for name in choices.layers if choices.kinds.get(name) != "ceiling"]
    rows = []
    for figure in figures:
        metric, factor = PUBLISHED_METRICS.get(str(figure.get("metric"))), UNITS.get(str(figure.get("unit")))
        if figure.get("metric") == ratios.METRIC:
            rows.append(("", CPU_RATIO, _of_ratios(figure, report, layers, choices)))
            continue
        beside = measured_for(figure, report) if metric and factor else []
        for load, cells in beside or [("", {})]:
            values = {layer: value_of(measured, metric or "") for layer, measured in cells.items()}
            fields = [
                (
                    None if factor is None or (value := values.get(layer)) is None else value / factor,
                    choices.only(layer),
                )
                for layer in layers
            ]
            flushes = f"{FLUSHES[metric]} of flushes" if metric in FLUSHES and any(values.values()) else ""
            what = METRIC_WORDS.get(metric or "", flushes or str(figure.get("metric")))
            rows.append(
                (
                    "",
                    what + (f", {figure.get('unit')}" if metric != "iops" else ""),
                    [
                        words("; ".join(filter(None, [figure.get("note"), load and f"here {load}"]))),
                        words(figure.get("where") or ""),
                        words(limited(figure)),
                        *(
                            cell(value, units.significant(value) if value is not None else "", only)
                            for value, only in fields
                        ),
                    ],
                )
            )
    head = [
        ("Metric", False),
        ("What", False),
        ("Where", False),
        ("Published", True),
        *((layer, True) for layer in layers),
    ]
    return Table("Published figures", head, rows, "published") if rows else None


def _of_ratios(figure: Mapping[str, object], report: Report, layers: list[str], choices: Choices) -> list[Field]:
    """The fields of a published ratio, with the measured one in the column of the layer that is on a file."""
    of = {waterfall.workload_id for waterfall in report.waterfalls if of_workload(figure, waterfall)}
    measured = {ratio.on_files: ratio for ratio in ratios.ratios(report.layers, report.points, of)}
    return [
        words(figure.get("note") or ""),
        words(figure.get("where") or ""),
        words(limited(figure)),
        *(
            cell(measured[layer].value, _ratio_words(measured[layer]), choices.only(layer))
            if layer in measured
            else cell(None, "", choices.only(layer))
            for layer in layers
        ),
    ]


def _ratio_words(ratio: ratios.Ratio) -> str:
    between = f"{ratio.between[0]:.2f} to {ratio.between[1]:.2f}" if ratio.between else "no interval"
    pairs = f"{ratio.pairs} pair{'' if ratio.pairs == 1 else 's'}"
    return f"{ratio.value:.2f} ({between}) to {ratio.whole}, {pairs}, {RATIO_COSTS[ratio.metric]}"
