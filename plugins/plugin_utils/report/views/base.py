# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The common parts of all views: their types, the classes by which the page's script chooses, and how many points a page has room for.

A view is a section of the page with panels; a panel has charts, their legend and the table with the exact figures. css holds classes: L<n> a layer,
P<n> a pattern, M-<metric> a metric.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from ....module_utils.core import units
from ....module_utils.core.layers import KINDS
from ....module_utils.workload.workload import Workload
from ...store.cells import Cell, Figure
from .. import plot
from ..model import SECTIONS as SECTIONS
from ..model import ranked
from ..nouns import Report, Waterfall
from ..sentences import workload_words
from ..tables import Table

LEAST_STEPS = 3  # measured values of a key that make a sweep
LEAST_FIELDS = 6  # measured pairs that make a map


LINE_SAMPLES = 9_000  # of all time series of a page together, so that a large run stays one page
CURVE_POINTS = 5_300  # of all latency curves of a page together
# How many workloads have pictures of their own; the figures of all are in the tables, their files are linked.
DISTRIBUTIONS = 16
POINTS_APART = 2_000  # up to so many points each has a row with its figures; beyond them each layer and workload has one that leads to its files


@dataclass(frozen=True)
class Picture:
    """A chart in a panel; css: the metrics that it shows."""

    css: str
    title: str
    chart: plot.Chart


@dataclass(frozen=True)
class Panel:
    """legend: [(name, css)] of the lines, for where there is no room at their ends."""

    title: str
    css: str
    charts: list[Picture]
    legend: list[tuple[str, str]]
    table: Table
    note: str = ""


@dataclass(frozen=True)
class View:
    """A section of the page over several workloads; title is also its name in the page's navigation."""

    id: str
    title: str
    lead: str
    panels: list[Panel]


# -- names, colours, choices -----------------------------------------------------------------------------------------


class Choices:
    """Numbers for layers and patterns, so that no name from a file becomes a class; colours that distinguish the lines of one chart."""

    def __init__(self, report: Report) -> None:
        measured = {step.cell.layer for waterfall in report.waterfalls for step in waterfall.steps}
        self.layers = {
            layer["name"]: index
            for index, layer in enumerate(layer for layer in report.layers if layer["name"] in measured)
        }
        self.kinds = {layer["name"]: layer["kind"] for layer in report.layers}
        patterns = dict.fromkeys(pattern_of(waterfall.workload) for waterfall in report.waterfalls)
        self.patterns = {pattern: index for index, pattern in enumerate(patterns)}

    def layer(self, name: str) -> str:
        """The class of a layer, which has the colour of its kind; the lines of the second of a kind are dashed."""
        same = [other for other in self.layers if self.kinds.get(other) == self.kinds.get(name)]
        dash = same.index(name)
        return f"L{self.layers[name]}{f' d{min(dash, 3)}' if dash else ''}"

    def only(self, name: str) -> str:
        return f"L{self.layers[name]}" if name in self.layers else ""

    def coloured(self) -> list[tuple[str, str]]:
        """[(class of a layer, name of its colour)]; a kind that the page does not know stays grey."""
        return [
            (f"L{index}", self.kinds[name])
            for name, index in self.layers.items()
            if self.kinds[name] in (*KINDS, "imported")
        ]

    def pattern(self, workload: Workload) -> str:
        return f"P{self.patterns[pattern_of(workload)]}"


def pattern_of(workload: Workload) -> str:
    """'random, 70 % read': the mix alone, whatever the sizes and the load."""
    mix = {
        key: value for key, value in workload.items() if key in ("random_percent", "read_percent") and value is not None
    }
    return workload_words(cast(Workload, mix))


def numbered(index: int) -> str:
    """The colour of a line that is not a layer: its place among its like."""
    return f"c{index % 6}{f' d{min(index // 6, 3)}' if index >= 6 else ''}"


# -- shapes of a run -------------------------------------------------------------------------------------------------


def families(
    waterfalls: list[Waterfall], keys: tuple[str, ...], least: int = LEAST_STEPS
) -> list[tuple[Workload, dict[Any, Waterfall]]]:
    """[(what the workloads have in common, {values of keys: Waterfall})] where at least ``least`` workloads differ in nothing but keys."""
    groups: dict[str, Any] = {}
    for waterfall in waterfalls:
        workload = waterfall.workload
        point = tuple(workload.get(key) for key in keys)
        if waterfall.steps and all(isinstance(value, (int, float)) and value > 0 for value in point):
            # An alignment to the block size is not a choice of its own.
            common: dict[str, Any] = {
                key: value
                for key, value in workload.items()
                if key not in keys and not (key == "alignment_bytes" and value == workload.get("block_size_bytes"))
            }
            groups.setdefault(json.dumps(common, sort_keys=True), (common, {}))[1][point] = waterfall
    return [(common, dict(sorted(points.items()))) for common, points in groups.values() if len(points) >= least]


def cells_of(points: dict[str, Any]) -> dict[str, Any]:
    """layer -> {point: Cell}, in the order of the chain."""
    layers: dict[str, Any] = {}
    for point, waterfall in points.items():
        for step in waterfall.steps:
            layers.setdefault(step.cell.layer, {})[point] = step.cell
    return layers


# metric: (title, axis title, how it is written, logarithmic, whether the ceiling belongs in it)
METRICS = {
    "bandwidth_bytes_s": ("Bandwidth", "MB/s", units.bandwidth, None, False),
    "iops": ("I/O operations per second", "IOPS", units.iops, True, True),
    "latency_mean_ns": ("Mean latency", "mean latency", units.latency, None, False),
    "latency_p99_ns": ("99th percentile of latency", "p99 latency", units.latency, None, False),
    "us_per_io": ("CPU cost per I/O", "µs of CPU per I/O", units.microseconds, None, False),
}
METRIC_WORDS = {
    "iops": "IOPS",
    "bandwidth_bytes_s": "bandwidth",
    "latency_mean_ns": "mean latency",
    "latency_p99_ns": "p99",
    "us_per_io": "CPU cost",
}


def figure_of(measured: Cell, metric: str) -> Figure | None:
    return measured.cpu.get(metric) if metric == "us_per_io" else measured.figure(metric)


def spread(figure: Figure, word: Callable[[float], str]) -> str:
    return word(figure.value) + (
        f" ({word(figure.low)}–{word(figure.high)})" if word(figure.low) != word(figure.high) else ""
    )


def matrices(report: Report) -> list[Any]:
    """The families in which queue depth and workers both vary."""
    return [
        (common, points)
        for common, points in families(report.waterfalls, ("queue_depth", "workers"), LEAST_FIELDS)
        if all(len({point[index] for point in points}) > 1 for index in (0, 1))
    ]


def same(common: Workload, matrix: Workload, without: str) -> bool:
    return {key: value for key, value in common.items() if key != without} == matrix


def workers_words(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"


def without(workload: Workload, key: str | None) -> dict[str, object]:
    return {name: value for name, value in workload.items() if name != key}


def drawn(report: Report, most: int) -> set[str]:
    """The ids of the workloads that get pictures of their own."""
    return {waterfall.workload_id for waterfall in ranked(report.waterfalls, report.headline)[:most]}


def room(budget: int, lines: int, least: int, most: int) -> int:
    """How many points a line may have so that all lines together keep to the budget."""
    return max(least, min(most, budget // max(1, lines)))
