# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Panels of lines against one key of the workload: a chart per metric, a line per layer, pattern or workload."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import charts, plot
from ..nouns import Report
from ..sentences import workload_words
from ..series import Line
from ..tables import Table, cell
from .base import (
    METRICS,
    Choices,
    Panel,
    Picture,
    View,
    cells_of,
    families,
    figure_of,
    matrices,
    numbered,
    same,
    spread,
)


def sweep(
    report: Report,
    choices: Choices,
    ident: str,
    key: str,
    title: str,
    x_title: str,
    label: Callable[[Any], str],
    lead: str,
    metrics: tuple[str, ...],
    without: str = "",
) -> View | None:
    """One panel per pattern. without: a key that, when it too varies, makes the workloads a matrix, which has a view of its own."""
    sweeps = families(report.waterfalls, (key,))
    if without:
        sweeps = [
            (common, points)
            for common, points in sweeps
            if not any(same(common, matrix, without) for matrix, _points in matrices(report))
        ]
    if not sweeps:
        return None
    single = len({layer for _common, points in sweeps for layer in cells_of(points)}) == 1
    # A single layer: the patterns are the lines of one picture.
    groups = (
        [(None, sweeps)] if single and len(sweeps) > 1 else [(common, [(common, points)]) for common, points in sweeps]
    )
    panels = []
    for index, (common, members) in enumerate(groups):
        lines = []
        for number, (own, points) in enumerate(members):
            for layer, cells in cells_of(points).items():
                if common is None:
                    lines.append((workload_words(own), f"{numbered(number)} {choices.pattern(own)}", layer, cells))
                else:
                    lines.append((layer, choices.layer(layer), layer, cells))
        x = plot.steps_axis(
            [point[0] for _own, points in members for point in points],
            label,
            x_title,
            "bytes" if key.endswith("_bytes") else "",
        )
        heading = workload_words(common) if common is not None else next(iter(lines))[2]
        panels.append(
            panel(
                choices,
                f"{ident}{index}",
                f"{title}: {heading}",
                heading,
                choices.pattern(common) if common is not None else "",
                "Layer" if common is not None else "Pattern",
                lines,
                (x, x_title, label),
                metrics,
            )
        )
    return View(ident, title, lead + " Bars span the repetitions.", panels)


def panel(
    choices: Choices,
    ident: str,
    title: str,
    heading: str,
    css: str,
    first: str,
    lines: list[Any],
    across: tuple[Any, ...],
    metrics: tuple[Any, ...],
) -> Panel:
    """A panel with a chart per metric. lines: [(name, css, layer, {(x,): Cell})]; across: (axis, its title, how x is written); first: what the lines are."""
    x, x_title, label = across
    drawn = []
    for metric in metrics:
        name, y_title, word, log, with_ceiling = METRICS[metric]
        series = [
            Line(
                line,
                css,
                [(point[0], figure) for point, measured in cells.items() if (figure := figure_of(measured, metric))],
            )
            for line, css, layer, cells in lines
            if with_ceiling or choices.kinds.get(layer) != "ceiling"
        ]
        series = [entry for entry in series if entry.points]
        if series:
            values = [value for line in series for _at, figure in line.points for value in (figure.low, figure.high)]
            y = charts.value_axis(
                values,
                word,
                y_title,
                {"bandwidth_bytes_s": "MB/s", "us_per_io": "µs"}.get(metric, "ns" if metric.endswith("_ns") else ""),
                log,
            )
            drawn.append(
                Picture(
                    f"M-{metric}",
                    name,
                    charts.sweep_chart(
                        f"{ident}-{metric[:4]}{metric[-4:-3]}",
                        f"{name} against {x_title}: {heading}",
                        x,
                        y,
                        series,
                        functools.partial(spread, word=word),
                    ),
                )
            )
    legend = [(line, css) for line, css, _layer, _cells_of in lines]
    return Panel(heading, css, drawn, legend, _table(title, first, lines, choices, (x_title, label), metrics))


def _table(
    title: str,
    first: str,
    lines: list[Any],
    choices: Choices,
    across: tuple[str, Callable[[Any], str]],
    metrics: tuple[Any, ...],
) -> Table:
    x_title, label = across
    rows = [
        (
            choices.only(layer),
            line,
            [
                cell(point[0], label(point[0])),
                *(
                    cell(
                        figure.value if (figure := figure_of(measured, metric)) else None,
                        METRICS[metric][2](figure.value) if figure else "",
                    )
                    for metric in metrics
                ),
            ],
        )
        for line, _css, layer, cells in lines
        for point, measured in cells.items()
    ]
    head = [
        (first, False),
        (x_title.capitalize(), True),
        *((METRICS[metric][1], True) for metric in metrics),
    ]
    return Table(title, head, rows)
