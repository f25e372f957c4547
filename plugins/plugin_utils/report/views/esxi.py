# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time by the hypervisor's own counters: device, kernel, and in the kernel the queue."""

from __future__ import annotations

from ....module_utils.core import units
from ...store.cells import ESXI
from .. import charts
from ..nouns import Waterfall
from ..tables import Field, Table, cell, words
from .base import Choices, spread


def table(waterfall: Waterfall, choices: Choices) -> Table | None:
    """Where the hypervisor says the time goes: device, kernel, and in the kernel the queue; None without its counters."""
    cells = [step.cell for step in waterfall.steps if step.cell.esxi or step.cell.esxi_below]
    if not cells:
        return None
    full = max((own.esxi["gavg_ns"].value for own in cells if "gavg_ns" in own.esxi), default=0)
    rows = []
    for own in cells:
        figures = own.esxi
        device, kernel, queue = (
            figures[metric].value if metric in figures else 0 for metric in ("davg_ns", "kavg_ns", "qavg_ns")
        )
        mark = charts.split_bar(
            [("device", device), ("kernel", max(0, kernel - queue)), ("queue", min(queue, kernel))],
            max(full, device + kernel),
        )
        rows.append(
            (
                choices.only(own.layer),
                f"{own.layer} (simulated)" if own.esxi_simulated else own.layer,
                [
                    Field(mark, css="c-bar"),
                    *(
                        cell(figures[metric].value, spread(figures[metric], units.latency))
                        if metric in figures
                        # The hypervisor counts whole milliseconds.
                        else words("< 1 ms", "n")
                        if metric in own.esxi_below
                        else cell(None, "")
                        for metric in ESXI
                    ),
                ],
            )
        )
    return Table(
        f"Kernel, device and queue, {waterfall.workload_id}",
        [
            ("Layer", False),
            ("device, kernel, queue", False),
            ("guest (GAVG)", True),
            ("kernel (KAVG)", True),
            ("device (DAVG)", True),
            ("queue (QAVG)", True),
        ],
        rows,
        "esxi",
    )
