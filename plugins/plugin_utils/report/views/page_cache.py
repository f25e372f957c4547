# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same matrix once direct and once through the page cache: both surfaces, and the ratio between them."""

from __future__ import annotations

import statistics

from ....module_utils.core import units
from ....module_utils.workload.workload import Workload
from ...store.cells import Cell
from .. import charts
from ..nouns import Report
from ..sentences import workload_words
from ..tables import Table, cell
from .base import LEAST_FIELDS, Choices, Panel, Picture, cells_of, matrices

Field = tuple[int, int]  # queue depth, workers


def panels_of(report: Report, choices: Choices) -> list[Panel]:
    """A panel for each layer that has the same matrix both ways."""
    known, panels = matrices(report), []
    for index, (common, points) in enumerate(known):
        twin = next((other for workload, other in known if workload == {**common, "direct": False}), None)
        if common.get("direct") is not True or twin is None:
            continue
        buffered = cells_of(twin)
        for layer, cells in cells_of(points).items():
            measured = (cells, buffered.get(layer, {}))
            sides = [{point: rate for point, own in side.items() if (rate := own.value("iops"))} for side in measured]
            both = sorted(sides[0].keys() & sides[1].keys())
            if len(both) >= LEAST_FIELDS:
                ident = f"b{index}-{choices.layers[layer]}"
                spans = [
                    {point: span for point in both if (span := _span(side[point])) is not None} for side in measured
                ]
                panels.append(_panel(ident, layer, common, sides, spans, both, choices))
    return panels


def _span(cell: Cell) -> float | None:
    """How far the IOPS of the repetitions are apart, as a share of their median; None for a single one."""
    figure = cell.figure("iops")
    return (figure.high - figure.low) / figure.value if figure and cell.repetitions > 1 else None


def _constancy(spans: list[dict[Field, float]]) -> str:
    """How constant both surfaces are, in a sentence; empty where nothing was repeated."""
    if not all(spans):
        return ""
    direct, cached = (units.percent(statistics.median(side.values())) for side in spans)
    return f" Slowest and fastest repetition are {direct} apart direct and {cached} through the page cache (median of the fields)."


def _panel(
    ident: str,
    layer: str,
    common: Workload,
    sides: list[dict[Field, float]],
    spans: list[dict[Field, float]],
    both: list[Field],
    choices: Choices,
) -> Panel:
    """sides: the IOPS of each field, direct and through the page cache; spans: how far its repetitions are apart; both: the fields that both have."""
    columns, rows = ([*dict.fromkeys(sorted(point[place] for point in both))] for place in (0, 1))
    values = [side[point] for side in sides for point in both]
    ratios = {point: sides[1][point] / sides[0][point] for point in both}
    heading, axes = f"{layer}: {workload_words(common)}", (choices.only(layer), "queue depth", "workers")
    drawn = [
        Picture(
            "M-iops",
            name,
            charts.heat_map(
                f"{ident}{number}",
                f"IOPS by queue depth and workers, {name}, {heading}",
                columns,
                rows,
                {point: (side[point], units.iops(side[point]), "") for point in both},
                *axes,
                (min(values), max(values)),
            ),
        )
        for number, (name, side) in enumerate(zip(("Direct", "Through the page cache"), sides))
    ]
    between = charts.ratio_map(
        f"{ident}2",
        f"IOPS through the page cache over IOPS direct, by queue depth and workers, {heading}",
        columns,
        rows,
        {point: (ratio, f"× {units.significant(ratio)}", "") for point, ratio in ratios.items()},
        *axes,
    )
    more = sum(ratio > 1 for ratio in ratios.values())
    return Panel(
        f"{heading}, direct and through the page cache",
        f"{choices.only(layer)} {choices.pattern(common)}",
        [*drawn, Picture("M-iops", "Through the page cache over direct", between)],
        [],
        _table(heading, sides, spans, both, ratios),
        f"Both surfaces have the same shades. The page cache is faster in {more} of {len(both)} fields.{_constancy(spans)}",
    )


def _table(
    heading: str,
    sides: list[dict[Field, float]],
    spans: list[dict[Field, float]],
    both: list[Field],
    ratios: dict[Field, float],
) -> Table:
    rows = [
        (
            "",
            str(point[1]),
            [
                cell(point[0], str(point[0])),
                *(cell(side[point], units.iops(side[point])) for side in sides),
                cell(ratios[point], units.significant(ratios[point])),
                *(cell(side.get(point), units.percent(side.get(point))) for side in spans),
            ],
        )
        for point in both
    ]
    numbers = (
        "Workers",
        "Queue depth",
        "direct, IOPS",
        "page cache, IOPS",
        "ratio",
        "repetitions apart, direct",
        "repetitions apart, page cache",
    )
    return Table(f"Direct and through the page cache: {heading}", [(text, True) for text in numbers], rows)
