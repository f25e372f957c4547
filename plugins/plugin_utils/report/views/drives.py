# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures against the number of drives of an array."""

from __future__ import annotations

from typing import Any

from .. import plot
from ..nouns import Report
from ..sentences import workload_words
from .base import Choices, View, numbered
from .lines import panel

LEAST_NUMBERS = 2  # arrays that differ in the number of their drives


def view(report: Report, choices: Choices) -> View | None:
    """Arrays of one host that differ in the number of their members: bandwidth and IOPS against it, a line per workload."""
    arrays: dict[tuple[Any, Any, Any], dict[str, int]] = {}
    for layer in report.layers:
        raid = (layer.get("detail") or {}).get("raid")
        if isinstance(raid, dict) and isinstance(raid.get("members"), list):
            alike = (layer.get("host"), raid.get("level"), raid.get("chunk_bytes"))
            arrays.setdefault(alike, {})[layer["name"]] = len(raid["members"])
    panels = []
    for index, ((host, level, _chunk), counts) in enumerate(arrays.items()):
        lines: list[tuple[str, str, str, dict[Any, Any]]] = []
        for waterfall in report.waterfalls:
            cells = {(counts[step.cell.layer],): step.cell for step in waterfall.steps if step.cell.layer in counts}
            if len(cells) >= LEAST_NUMBERS:
                css = f"{numbered(len(lines))} {choices.pattern(waterfall.workload)}"
                name = next(iter(cells.values())).layer
                lines.append((workload_words(waterfall.workload), css, name, dict(sorted(cells.items()))))
        if not lines:
            continue
        x = plot.steps_axis(
            [point[0] for _line, _css, _layer, cells in lines for point in cells], str, "number of drives"
        )
        heading = f"RAID {level} on {host}"
        metrics = ("bandwidth_bytes_s", "iops", "latency_mean_ns")
        across = (x, "number of drives", str)
        panels.append(
            panel(choices, f"drives{index}", f"Drives: {heading}", heading, "", "Workload", lines, across, metrics)
        )
    lead = "The same workload on arrays of more and more drives. Where the line bends, something other than the drives is saturated. Bars span the repetitions."
    return View("drives", "Drives", lead, panels) if panels else None
