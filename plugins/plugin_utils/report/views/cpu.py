# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of an I/O in processor time at each end."""

from __future__ import annotations

from ....module_utils.core import units
from ..markup import NOTHING, shapes
from ..nouns import Waterfall
from ..tables import Field, Table, cell, words
from .base import Choices, spread


def table(waterfall: Waterfall, choices: Choices) -> Table | None:
    """The processor time of an I/O at each end; None when nothing was counted."""
    ends = []
    for step in waterfall.steps:
        own = step.cell
        if "us_per_io" in own.cpu:
            ends.append((own.layer, own.host, own.cpu))
        ends += [(own.layer, host, figures) for host, figures in own.others.items()]
    if not ends:
        return None
    full = max((figures["us_per_io"].value for _layer, _host, figures in ends if "us_per_io" in figures), default=0)
    rows = []
    of_machines = any("vm_mhz_per_iops" in figures for _layer, _host, figures in ends)
    for layer, host, figures in ends:
        cost = figures.get("us_per_io")
        bar = shapes().share(f"{100 * cost.value / full:.1f}") if cost and full else NOTHING
        fields = [
            words(host),
            Field(bar, css="c-bar"),
            cell(cost.value if cost else None, spread(cost, units.microseconds) if cost else ""),
        ]
        for metric, word in (
            ("mhz_per_iops", units.significant),
            *((("vm_mhz_per_iops", units.significant),) if of_machines else ()),
            ("host_busy_percent", units.whole_percent),
            ("busiest_core_percent", units.whole_percent),
        ):
            value = figures[metric].value if metric in figures else None
            fields.append(cell(value, "" if value is None else word(value)))
        rows.append((choices.only(layer), layer, fields))
    numbers = (
        "CPU per I/O",
        "MHz per IOPS",
        *(("VM MHz per IOPS",) if of_machines else ()),
        "host busy",
        "busiest core",
    )
    head = [*((text, False) for text in ("Layer", "CPU of host", "relative")), *((text, True) for text in numbers)]
    return Table(f"CPU cost per I/O, {waterfall.workload_id}", head, rows, "cpu")
