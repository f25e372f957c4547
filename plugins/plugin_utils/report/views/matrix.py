# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Queue depth and workers: every measured pair as a field, and the same surface from its side."""

from __future__ import annotations

from ....module_utils.core import units
from ....module_utils.workload.workload import Workload
from ...store.cells import Cell, Figure
from .. import charts, plot
from ..nouns import Report
from ..sentences import workload_words
from ..series import Line
from ..tables import Table, cell
from . import page_cache
from .base import LEAST_FIELDS, Choices, Panel, Picture, View, cells_of, matrices, numbered, spread, workers_words

LEAD = (
    "Each field is a measured pair; the stronger its colour, the more IOPS, on a logarithmic scale. "
    "Requests beyond a layer's capacity only wait: IOPS stop growing, latency does not."
)


def view(report: Report, choices: Choices) -> View | None:
    """Every field of queue depth × workers, and the same as lines: the surface seen from its side."""
    panels = page_cache.panels_of(report, choices)
    for index, (common, points) in enumerate(matrices(report)):
        for layer, cells in cells_of(points).items():
            measured = {point: own for point, own in cells.items() if own.value("iops")}
            if len(measured) >= LEAST_FIELDS:
                panels.append(_panel(f"m{index}-{choices.layers[layer]}", layer, common, measured, choices))
    return View("matrix", "Queue depth and workers", LEAD, panels) if panels else None


def _panel(ident: str, layer: str, common: Workload, measured: dict[tuple[int, int], Cell], choices: Choices) -> Panel:
    """measured: (queue depth, workers) -> Cell, of one layer."""
    heading = f"{layer}: {workload_words(common)}"
    depths, workers = sorted({point[0] for point in measured}), sorted({point[1] for point in measured})
    heat = charts.heat_map(
        f"{ident}h",
        f"IOPS and mean latency by queue depth and workers, {heading}",
        depths,
        workers,
        {
            point: (own.value("iops") or 0, units.iops(own.value("iops")), units.latency(own.value("latency_mean_ns")))
            for point, own in measured.items()
        },
        choices.only(layer),
        "queue depth",
        "workers",
    )
    series = [
        Line(
            workers_words(count),
            numbered(number),
            [(depth, rate) for depth in depths if (rate := _rate(measured, depth, count))],
        )
        for number, count in enumerate(workers)
    ]
    y = charts.value_axis(
        [value for line in series for _at, figure in line.points for value in (figure.low, figure.high)],
        units.iops,
        "IOPS",
        "",
    )
    lines = charts.sweep_chart(
        f"{ident}l",
        f"IOPS against queue depth, one line per number of workers, {heading}",
        plot.steps_axis(depths, str, "queue depth per worker"),
        y,
        series,
        lambda figure: spread(figure, units.iops),
        46 * len(workers) if len(workers) > 4 else 200,
    )
    best = max(measured, key=lambda point: measured[point].value("iops") or 0)
    return Panel(
        heading,
        f"{choices.only(layer)} {choices.pattern(common)}",
        [
            Picture("M-iops M-latency_mean_ns", "IOPS and mean latency", heat),
            Picture("M-iops", "The surface from its side", lines),
        ],
        [(line.name, line.css) for line in series],
        _table(heading, measured),
        f"Most: {units.iops(measured[best].value('iops'))} IOPS at queue depth {best[0]} with {workers_words(best[1])}.",
    )


def _rate(measured: dict[tuple[int, int], Cell], depth: int, count: int) -> Figure | None:
    own = measured.get((depth, count))
    return own.figure("iops") if own else None


def _table(heading: str, measured: dict[tuple[int, int], Cell]) -> Table:
    rows = [
        (
            "",
            str(point[1]),
            [
                cell(point[0], str(point[0])),
                cell(own.value("iops"), units.iops(own.value("iops"))),
                *(
                    cell(own.value(metric), units.latency(own.value(metric)))
                    for metric in ("latency_mean_ns", "latency_p99_ns")
                ),
            ],
        )
        for point, own in measured.items()
    ]
    head = [("Workers", True), ("Queue depth", True), ("IOPS", True), ("mean", True), ("p99", True)]
    return Table(f"Queue depth and workers: {heading}", head, rows)
