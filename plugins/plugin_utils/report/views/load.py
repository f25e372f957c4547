# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Latency against load, and where the knee is."""

from __future__ import annotations

from typing import Any

from ....module_utils.core import units
from ....module_utils.result.derived import power
from ....module_utils.workload.words import loads
from ....module_utils.workload.workload import Workload
from ...store.cells import Figure
from .. import charts
from ..nouns import Report
from ..sentences import workload_words
from ..series import Load
from ..tables import Table, cell, words
from .base import (
    LEAST_STEPS,
    Choices,
    Panel,
    Picture,
    View,
    cells_of,
    families,
    matrices,
    numbered,
    same,
    spread,
    workers_words,
)

LOADS = tuple(loads().items())


def amount(workload: Workload, load: str) -> float:
    """How much of a load a workload has; 0 where it says nothing of it."""
    value = workload.get(load)
    return value if isinstance(value, (int, float)) else 0


Point = tuple[str, Figure, Figure]  # the load in words, IOPS, mean latency


def knee(points: list[Point]) -> int | None:
    """Index of the greatest power, IOPS over latency (search.power), among [(label, iops Figure, latency Figure)].

    None when it is the first or the last load: then the bend is outside of the measured loads, or there is none.
    """
    powers = [power({"iops": rate.value, "latency_mean_ns": wait.value}) for _label, rate, wait in points]
    best = powers.index(max(powers))
    return best if 0 < best < len(points) - 1 else None


LEAD = (
    "The gain and the cost of each further I/O in flight. The ring marks the knee, the load with the greatest ratio of IOPS to latency: "
    "beyond it latency grows faster than the rate. Bars span the repetitions in both directions."
)


def view(report: Report, choices: Choices) -> View | None:
    """One panel per pattern with a line per layer; of a matrix one panel per layer with a line per number of workers.

    Without the ceiling: it does no I/O, so its latency is the generator's own.
    """
    # [(heading, css, [(name, css, points)], whether the lines are layers)]
    wanted: list[tuple[str, str, list[tuple[str, str, list[Point]]], bool]] = []
    known = matrices(report)
    for common, points in known:
        for layer, cells in _devices(points, choices):
            lines = [
                (
                    workers_words(count),
                    numbered(number),
                    _points({point[:1]: own for point, own in cells.items() if point[1] == count}, LOADS[0][1]),
                )
                for number, count in enumerate(sorted({point[1] for point in cells}))
            ]
            heading = f"{layer}: {workload_words(common)}"
            wanted.append((heading, f"{choices.only(layer)} {choices.pattern(common)}", lines, False))
    for key, wording in LOADS:
        for common, points in families(report.waterfalls, (key,)):
            if any(same(common, matrix, other) for matrix, _points in known for other in ("queue_depth", "workers")):
                continue
            lines = [
                (layer, choices.layer(layer), _points(cells, wording)) for layer, cells in _devices(points, choices)
            ]
            wanted.append((workload_words(common), choices.pattern(common), lines, True))
    panels = [panel for number, row in enumerate(wanted) if (panel := _panel(number, *row))]
    return View("load", "Latency against load", LEAD, panels) if panels else None


def _devices(points: dict[Any, Any], choices: Choices) -> list[tuple[str, dict[Any, Any]]]:
    return [(layer, cells) for layer, cells in cells_of(points).items() if choices.kinds.get(layer) != "ceiling"]


def _points(cells: dict[Any, Any], wording: str) -> list[Point]:
    """[(label, iops Figure, latency Figure)] by rising load."""
    return [
        (wording.format(f"{point[0]:g}"), rate, wait)
        for point, measured in cells.items()
        if (rate := measured.figure("iops")) and (wait := measured.figure("latency_mean_ns")) and wait.value > 0
    ]


def _panel(
    number: int, heading: str, css: str, lines: list[tuple[str, str, list[Point]]], layered: bool
) -> Panel | None:
    """layered: the lines are layers, so that their rows can be hidden with them."""
    series = [
        Load(name, classes, points, knee(points)) for name, classes, points in lines if len(points) >= LEAST_STEPS
    ]
    if not series:
        return None
    rows = [
        (
            line.css if layered else "",
            line.name,
            [
                words(label),
                cell(rate.value, spread(rate, units.iops)),
                cell(wait.value, spread(wait, units.latency)),
                words("knee" if index == line.knee else ""),
            ],
        )
        for line in series
        for index, (label, rate, wait) in enumerate(line.points)
    ]
    head = [("Line", False), ("Load", False), ("IOPS", True), ("mean latency", True), ("Knee", False)]
    chart = charts.load_chart(f"load{number}", f"Mean latency against IOPS: {heading}", series)
    return Panel(
        heading,
        css,
        [Picture("M-iops M-latency_mean_ns", "", chart)],
        [(line.name, line.css) for line in series],
        Table(f"Latency against load: {heading}", head, rows),
        _bends(series),
    )


def _bends(series: list[Load]) -> str:
    bends = [
        f"{line.name} at {label} ({units.iops(rate.value)} IOPS, {units.latency(wait.value)})"
        for line in series
        if line.knee is not None
        for label, rate, wait in [line.points[line.knee]]
    ]
    if not bends:
        return "No knee: the greatest ratio of IOPS to latency is at the first or the last load."
    return f"Knee: {'; '.join(bends)}."
