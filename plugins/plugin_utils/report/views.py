# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which views a run has: each appears only when the workloads have its shape. Charts come from charts.py, tables carry the exact figures.

A view is {id, title, lead, panels}; a panel {title, css, charts: [{css, title, chart}], legend: [(name, css)], table, note}. css holds the classes by which
the page's script chooses: L<n> a layer, P<n> a pattern, M-<metric> a metric.
"""

from __future__ import annotations

import functools
import json
import math
import statistics
from collections.abc import Callable
from typing import Any, Literal, cast

from ...module_utils.core import units
from ...module_utils.core.layers import KINDS
from ...module_utils.result.derived import power
from ...module_utils.workload.workload import Workload
from ..compare.beats import LEAST_TREND, moved_words
from ..compare.networks import rate as bit_rate
from ..compare.words import BEATS
from ..store.cells import ESXI, Cell, Figure, bounds_of
from ..store.flatten import flatten
from . import charts, plot, ratios
from .markup import NOTHING, shapes
from .model import SECTIONS as SECTIONS
from .model import Report, Waterfall, ranked, workload_words
from .split import Split
from .tables import Field, Table, bounds, cell, words

LEAST_STEPS = 3  # measured values of a key that make a sweep
LEAST_FIELDS = 6  # measured pairs that make a map
LEAST_NUMBERS = 2  # arrays that differ in the number of their drives
LINE_SAMPLES = 9_000  # of all time series of a page together, so that a large run stays one page
CURVE_POINTS = 5_300  # of all latency curves of a page together
# How many workloads have pictures of their own; the figures of all are in the tables, their files are linked.
DISTRIBUTIONS = 16
POINTS_APART = 2_000  # up to so many points each has a row with its figures; beyond them each layer and workload has one that leads to its files
CLIENTS_SHOWN = 240  # beyond that a row per point
CLIENT_METRICS = ("iops", "bandwidth_bytes_s", "latency_mean_ns", "latency_p99_ns")
# Figure of a reference beat: how it is written; verdict of beats.drifts: the same in a table.
BEAT_UNITS: dict[str, Callable[[float], str]] = {
    "null_iops": units.iops,
    "memory_copy_bytes_s": lambda value: f"{units.bandwidth(value)} MB/s",
}
BEAT_VERDICTS = {
    "slower": "became slower",
    "faster": "became faster",
    "steady": "no trend",
    "too_few": "too few rounds",
}
ROWS_SHOWN = 60  # beyond that a list of verdicts names only those that are not good


# -- names, colours, choices -----------------------------------------------------------------------------------------


class Choices:
    """Numbers for layers and patterns, so that no name from a file becomes a class; colours that tell lines of one chart apart."""

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
    """The colour of a line that is no layer: its place among its like."""
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
            # An alignment to the block size is no choice of its own.
            common: dict[str, Any] = {
                key: value
                for key, value in workload.items()
                if key not in keys and not (key == "alignment_bytes" and value == workload.get("block_size_bytes"))
            }
            groups.setdefault(json.dumps(common, sort_keys=True), (common, {}))[1][point] = waterfall
    return [(common, dict(sorted(points.items()))) for common, points in groups.values() if len(points) >= least]


def _cells(points: dict[str, Any]) -> dict[str, Any]:
    """layer -> {point: Cell}, in the order of the chain."""
    layers: dict[str, Any] = {}
    for point, waterfall in points.items():
        for step in waterfall.steps:
            layers.setdefault(step.cell.layer, {})[point] = step.cell
    return layers


# -- sweeps ----------------------------------------------------------------------------------------------------------

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


def _figure(measured: Cell, metric: str) -> Figure | None:
    return measured.cpu.get(metric) if metric == "us_per_io" else measured.figure(metric)


def block_sweeps(report: Report, choices: Choices) -> dict[str, Any] | None:
    return _sweep(
        report,
        choices,
        "blocks",
        "block_size_bytes",
        "Block sizes",
        "block size",
        units.size,
        "The same mix with growing blocks. Where bandwidth stops growing, the path is saturated; below that, the cost per I/O decides.",
        ("bandwidth_bytes_s", "iops", "latency_mean_ns", "latency_p99_ns", "us_per_io"),
    )


def worker_sweeps(report: Report, choices: Choices) -> dict[str, Any] | None:
    return _sweep(
        report,
        choices,
        "workers",
        "workers",
        "Workers",
        "workers",
        str,
        "The same workload issued by more threads. If twice the workers give twice the IOPS, no shared resource is saturated.",
        ("bandwidth_bytes_s", "iops", "latency_mean_ns", "us_per_io"),
        without="queue_depth",
    )


def _sweep(
    report: Report,
    choices: Choices,
    ident: str,
    key: str,
    title: str,
    x_title: str,
    label: Callable[[Any], str],
    lead: str,
    metrics: tuple[Any, ...],
    without: str = "",
) -> dict[str, Any] | None:
    """One panel per pattern. without: a key that, when it too varies, makes the workloads a matrix, which has a view of its own."""
    sweeps = families(report.waterfalls, (key,))
    if without:
        sweeps = [
            (common, points)
            for common, points in sweeps
            if not any(_same(common, matrix, without) for matrix, _points in _matrices(report))
        ]
    if not sweeps:
        return None
    single = len({layer for _common, points in sweeps for layer in _cells(points)}) == 1
    # A single layer: the patterns are the lines of one picture.
    groups = (
        [(None, sweeps)] if single and len(sweeps) > 1 else [(common, [(common, points)]) for common, points in sweeps]
    )
    panels = []
    for index, (common, members) in enumerate(groups):
        lines = []
        for number, (own, points) in enumerate(members):
            for layer, cells in _cells(points).items():
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
            _lines(
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
    return {"id": ident, "title": title, "lead": lead + " Bars span the repetitions.", "panels": panels}


def _lines(
    choices: Choices,
    ident: str,
    title: str,
    heading: str,
    css: str,
    first: str,
    lines: list[Any],
    across: tuple[Any, ...],
    metrics: tuple[Any, ...],
) -> dict[str, Any]:
    """A panel with a chart per metric. lines: [(name, css, layer, {(x,): Cell})]; across: (axis, its title, how x is written); first: what the lines are."""
    x, x_title, label = across
    drawn = []
    for metric in metrics:
        name, y_title, word, log, with_ceiling = METRICS[metric]
        series = [
            (
                line,
                css,
                [(point[0], figure) for point, measured in cells.items() if (figure := _figure(measured, metric))],
            )
            for line, css, layer, cells in lines
            if with_ceiling or choices.kinds.get(layer) != "ceiling"
        ]
        series = [entry for entry in series if entry[2]]
        if series:
            values = [
                value for _line, _css, points in series for _at, figure in points for value in (figure.low, figure.high)
            ]
            y = charts.value_axis(
                values,
                word,
                y_title,
                {"bandwidth_bytes_s": "MB/s", "us_per_io": "µs"}.get(metric, "ns" if metric.endswith("_ns") else ""),
                log,
            )
            drawn.append(
                {
                    "css": f"M-{metric}",
                    "title": name,
                    "chart": charts.sweep_chart(
                        f"{ident}-{metric[:4]}{metric[-4:-3]}",
                        f"{name} against {x_title}: {heading}",
                        x,
                        y,
                        series,
                        functools.partial(spread, word=word),
                    ),
                }
            )
    rows = [
        (
            choices.only(layer),
            line,
            [
                cell(point[0], label(point[0])),
                *(
                    cell(
                        figure.value if (figure := _figure(measured, metric)) else None,
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
    return {
        "title": heading,
        "css": css,
        "charts": drawn,
        "legend": [(line, css) for line, css, _layer, _cells_of in lines],
        "table": Table(title, head, rows),
        "note": "",
    }


def spread(figure: Figure, word: Callable[[float], str]) -> str:
    return word(figure.value) + (
        f" ({word(figure.low)}–{word(figure.high)})" if word(figure.low) != word(figure.high) else ""
    )


def _matrices(report: Report) -> list[Any]:
    """The families in which queue depth and workers both vary."""
    return [
        (common, points)
        for common, points in families(report.waterfalls, ("queue_depth", "workers"), LEAST_FIELDS)
        if all(len({point[index] for point in points}) > 1 for index in (0, 1))
    ]


def _same(common: Workload, matrix: Workload, without: str) -> bool:
    return {key: value for key, value in common.items() if key != without} == matrix


# -- queue depth and workers -----------------------------------------------------------------------------------------


def matrix(report: Report, choices: Choices) -> dict[str, Any] | None:
    """Every field of queue depth × workers, and the same as lines: the surface seen from its side."""
    panels = _both_ways(report, choices)
    for index, (common, points) in enumerate(_matrices(report)):
        for layer, cells in _cells(points).items():
            measured = {point: own for point, own in cells.items() if own.value("iops")}
            depths, workers = sorted({point[0] for point in measured}), sorted({point[1] for point in measured})
            if len(measured) < LEAST_FIELDS:
                continue
            ident, heading = f"m{index}-{choices.layers[layer]}", f"{layer}: {workload_words(common)}"
            fields = {
                point: (own.value("iops"), units.iops(own.value("iops")), units.latency(own.value("latency_mean_ns")))
                for point, own in measured.items()
            }
            heat = charts.heat_map(
                f"{ident}h",
                f"IOPS and mean latency by queue depth and workers, {heading}",
                depths,
                workers,
                fields,
                choices.only(layer),
                "queue depth",
                "workers",
            )
            x = plot.steps_axis(depths, str, "queue depth per worker")
            series = [
                (
                    _workers(count),
                    f"{numbered(number)}",
                    [(depth, own.figure("iops")) for depth in depths if (own := measured.get((depth, count)))],
                )
                for number, count in enumerate(workers)
            ]
            y = charts.value_axis(
                [value for _name, _css, line in series for _at, figure in line for value in (figure.low, figure.high)],
                units.iops,
                "IOPS",
                "",
            )
            lines = charts.sweep_chart(
                f"{ident}l",
                f"IOPS against queue depth, one line per number of workers, {heading}",
                x,
                y,
                series,
                lambda figure: spread(figure, units.iops),
                46 * len(workers) if len(workers) > 4 else 200,
            )
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
            best = max(measured, key=lambda point: measured[point].value("iops"))
            panels.append(
                {
                    "title": heading,
                    "css": f"{choices.only(layer)} {choices.pattern(common)}",
                    "charts": [
                        {"css": "M-iops M-latency_mean_ns", "title": "IOPS and mean latency", "chart": heat},
                        {"css": "M-iops", "title": "The surface from its side", "chart": lines},
                    ],
                    "legend": [(name, css) for name, css, _line in series],
                    "table": Table(
                        f"Queue depth and workers: {heading}",
                        [("Workers", True), ("Queue depth", True), ("IOPS", True), ("mean", True), ("p99", True)],
                        rows,
                    ),
                    "note": f"Most: {units.iops(measured[best].value('iops'))} IOPS at queue depth {best[0]} with {_workers(best[1])}.",
                }
            )
    return (
        {
            "id": "matrix",
            "title": "Queue depth and workers",
            "panels": panels,
            "lead": "Each field is a measured pair; the stronger its colour, the more IOPS, on a logarithmic scale. "
            "Requests beyond a layer's capacity only wait: IOPS stop growing, latency does not.",
        }
        if panels
        else None
    )


def _both_ways(report: Report, choices: Choices) -> list[Any]:
    """A panel for each layer with the same matrix once direct and once through the page cache: both surfaces, and what lies between them."""
    matrices, panels = _matrices(report), []
    for index, (common, points) in enumerate(matrices):
        twin = next((other for workload, other in matrices if workload == {**common, "direct": False}), None)
        if common.get("direct") is not True or twin is None:
            continue
        buffered = _cells(twin)
        for layer, cells in _cells(points).items():
            sides = [
                {point: own.value("iops") for point, own in side.items() if own.value("iops")}
                for side in (cells, buffered.get(layer, {}))
            ]
            both = sorted(sides[0].keys() & sides[1].keys())
            if len(both) < LEAST_FIELDS:
                continue
            columns, rows = ([*dict.fromkeys(sorted(point[place] for point in both))] for place in (0, 1))
            values = [side[point] for side in sides for point in both]
            ratios = {point: sides[1][point] / sides[0][point] for point in both}
            ident, heading = f"b{index}-{choices.layers[layer]}", f"{layer}: {workload_words(common)}"
            axes = (choices.only(layer), "queue depth", "workers")
            drawn = [
                {
                    "css": "M-iops",
                    "title": name,
                    "chart": charts.heat_map(
                        f"{ident}{number}",
                        f"IOPS by queue depth and workers, {name}, {heading}",
                        columns,
                        rows,
                        {point: (side[point], units.iops(side[point]), "") for point in both},
                        *axes,
                        (min(values), max(values)),
                    ),
                }
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
            drawn.append({"css": "M-iops", "title": "Through the page cache over direct", "chart": between})
            table_rows = [
                (
                    "",
                    str(point[1]),
                    [
                        cell(point[0], str(point[0])),
                        *(cell(side[point], units.iops(side[point])) for side in sides),
                        cell(ratios[point], units.significant(ratios[point])),
                    ],
                )
                for point in both
            ]
            more = sum(ratio > 1 for ratio in ratios.values())
            panels.append(
                {
                    "title": f"{heading}, direct and through the page cache",
                    "css": f"{choices.only(layer)} {choices.pattern(common)}",
                    "charts": drawn,
                    "legend": [],
                    "table": Table(
                        f"Direct and through the page cache: {heading}",
                        [
                            ("Workers", True),
                            ("Queue depth", True),
                            ("direct, IOPS", True),
                            ("page cache, IOPS", True),
                            ("ratio", True),
                        ],
                        table_rows,
                    ),
                    "note": f"Both surfaces have the same shades. The page cache is faster in {more} of {len(both)} fields.",
                }
            )
    return panels


# -- number of drives ------------------------------------------------------------------------------------------------


def drives(report: Report, choices: Choices) -> dict[str, Any] | None:
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
            _lines(choices, f"drives{index}", f"Drives: {heading}", heading, "", "Workload", lines, across, metrics)
        )
    lead = "The same workload on arrays of more and more drives. Where the line bends, something other than the drives is saturated. Bars span the repetitions."
    return {"id": "drives", "title": "Drives", "lead": lead, "panels": panels} if panels else None


# -- latency against load --------------------------------------------------------------------------------------------

Load = Literal["queue_depth", "workers", "rate_iops"]
LOADS: tuple[tuple[Load, str], ...] = (
    ("queue_depth", "queue depth {}"),
    ("workers", "{} workers"),
    ("rate_iops", "{} IOPS requested"),
)


def _workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"


def knee(points: list[Any]) -> int | None:
    """Index of the greatest power, IOPS over latency (search.power), among [(label, iops Figure, latency Figure)].

    None when it is the first or the last load: then the bend lies outside of what was measured, or there is none.
    """
    powers = [power({"iops": rate.value, "latency_mean_ns": wait.value}) for _label, rate, wait in points]
    best = powers.index(max(powers))
    return best if 0 < best < len(points) - 1 else None


def loads(report: Report, choices: Choices) -> dict[str, Any] | None:
    """One panel per pattern with a line per layer; of a matrix one panel per layer with a line per number of workers.

    Without the ceiling: it does no I/O, so its latency is the generator's own.
    """
    panels: list[dict[str, Any] | None] = []
    matrices = _matrices(report)
    for common, points in matrices:
        for layer, cells in _cells(points).items():
            if choices.kinds.get(layer) == "ceiling":
                continue
            workers = sorted({point[1] for point in cells})
            lines = [
                (
                    _workers(count),
                    numbered(number),
                    _load_line(
                        {point[:1]: measured for point, measured in cells.items() if point[1] == count}, LOADS[0][1]
                    ),
                )
                for number, count in enumerate(workers)
            ]
            panels.append(
                _load_panel(
                    len(panels),
                    f"{layer}: {workload_words(common)}",
                    f"{choices.only(layer)} {choices.pattern(common)}",
                    lines,
                    "",
                )
            )
    for key, wording in LOADS:
        for common, points in families(report.waterfalls, (key,)):
            if not any(
                _same(common, matrix, other) for matrix, _points in matrices for other in ("queue_depth", "workers")
            ):
                lines = [
                    (layer, choices.layer(layer), _load_line(cells, wording))
                    for layer, cells in _cells(points).items()
                    if choices.kinds.get(layer) != "ceiling"
                ]
                panels.append(_load_panel(len(panels), workload_words(common), choices.pattern(common), lines, "L"))
    panels = [panel for panel in panels if panel]
    return (
        {
            "id": "load",
            "title": "Latency against load",
            "panels": panels,
            "lead": "The gain and the cost of each further I/O in flight. The ring marks the knee, the load with the greatest ratio of IOPS to latency: "
            "beyond it latency grows faster than the rate. Bars span the repetitions in both directions.",
        }
        if panels
        else None
    )


def _load_line(cells: dict[str, Any], wording: str) -> list[Any]:
    """[(label, iops Figure, latency Figure)] by rising load."""
    return [
        (wording.format(f"{point[0]:g}"), rate, wait)
        for point, measured in cells.items()
        if (rate := measured.figure("iops")) and (wait := measured.figure("latency_mean_ns")) and wait.value > 0
    ]


def _load_panel(number: int, heading: str, css: str, lines: list[Any], layered: str) -> dict[str, Any] | None:
    """lines: [(name, css, [(label, iops Figure, latency Figure)])]. layered: 'L' when the lines are layers, so that their rows can be hidden with them."""
    series = [(name, classes, line, knee(line)) for name, classes, line in lines if len(line) >= LEAST_STEPS]
    if not series:
        return None
    rows = [
        (
            classes if layered else "",
            name,
            [
                words(label),
                cell(rate.value, spread(rate, units.iops)),
                cell(wait.value, spread(wait, units.latency)),
                words("knee" if index == bend else ""),
            ],
        )
        for name, classes, line, bend in series
        for index, (label, rate, wait) in enumerate(line)
    ]
    bends = [
        f"{name} at {line[bend][0]} ({units.iops(line[bend][1].value)} IOPS, {units.latency(line[bend][2].value)})"
        for name, _css, line, bend in series
        if bend is not None
    ]
    return {
        "title": heading,
        "css": css,
        "legend": [(name, classes) for name, classes, _line, _bend in series],
        "charts": [
            {
                "css": "M-iops M-latency_mean_ns",
                "title": "",
                "chart": charts.load_chart(f"load{number}", f"Mean latency against IOPS: {heading}", series),
            }
        ],
        "table": Table(
            f"Latency against load: {heading}",
            [("Line", False), ("Load", False), ("IOPS", True), ("mean latency", True), ("Knee", False)],
            rows,
        ),
        "note": f"Knee: {'; '.join(bends)}."
        if bends
        else "No knee: the greatest ratio of IOPS to latency is at the first or the last load.",
    }


# -- time ------------------------------------------------------------------------------------------------------------

# column: (axis title, how it is written, unit)
COLUMNS = {
    "iops": ("IOPS", units.iops, "iops"),
    "latency_mean_ns": ("mean latency", units.latency, "ns"),
    "cpu_busy_percent": ("CPU busy of the host, %", lambda value: f"{value:.0f} %", "%"),
    "load_1min": ("load of the host, mean of a minute", lambda value: f"{value:.3g}", ""),
    "memory_used_percent": ("memory of the host in use, %", lambda value: f"{value:.0f} %", "%"),
    "cache_hit_percent": ("hits of the cache, %", lambda value: f"{value:.0f} %", "%"),
}


def time_series(ident: str, waterfall: Waterfall, report: Report, choices: Choices, room: int) -> dict[str, Any] | None:
    """{charts, legend, left_out, ramp, window}: IOPS, latency and what the host says of itself over the seconds of one repetition per layer.
    room: samples a line may have."""
    sampled = [
        (step.cell, report.samples[step.cell.shown]) for step in waterfall.steps if step.cell.shown in report.samples
    ]
    drawn = [
        (measured, series, times)
        for measured, series in sampled
        if (times := column_of(series, "t_s")) and None not in times
    ]
    if not drawn:
        return None
    seconds = max(max(times) for _measured, _series, times in drawn)
    ramps = _ramps(drawn[0][1], drawn[0][2])
    rows = []
    for name, (title, word, unit) in COLUMNS.items():
        lines, values = [], []
        for measured, series, times in drawn:
            samples = column_of(series, name)
            # One sample is a figure, not a course.
            if samples and sum(value is not None for value in samples) > 1:
                values += [value for value in samples if value is not None]
                lines.append(
                    (
                        measured.layer,
                        choices.layer(measured.layer),
                        _pieces(list(zip(times, samples)), room),
                        _window(report.judged.get(measured.shown), max(times)),
                    )
                )
        if lines:
            y = (
                plot.linear_axis(100, lambda value: f"{value:.0f}", title, unit)
                if unit == "%"
                # A log axis has no zero, and a second without any I/O is what the picture is there for.
                else charts.value_axis(values, word, title, unit, False if 0 in values else None, room=6)
            )
            rows.append((name, title, y, lines))
    charted = [
        {
            "css": f"M-{name}",
            "title": "",
            "chart": charts.time_chart(
                f"{ident}-s{index}",
                f"{title} over time, {workload_words(waterfall.workload)}",
                y,
                seconds,
                ramps,
                lines,
                index == len(rows) - 1,
            ),
        }
        for index, (name, title, y, lines) in enumerate(rows)
    ]
    return (
        {
            "charts": charted,
            "legend": [(measured.layer, choices.layer(measured.layer)) for measured, _series, _times in drawn],
            "left_out": [
                step.cell.layer
                for step in waterfall.steps
                if step.cell.layer not in {line[0] for _name, _title, _y, lines in rows for line in lines}
            ],
            "ramp": bool(ramps),
            "window": any(report.judged.get(measured.shown) for measured, _series, _times in drawn),
        }
        if charted
        else None
    )


def column_of(series: dict[str, Any], name: str) -> list[Any] | None:
    """The values of one column, None where it is unknown or no number."""
    if name not in series["columns"]:
        return None
    at = series["columns"].index(name)
    return [
        row[at] if isinstance(row[at], (int, float)) and not isinstance(row[at], bool) else None
        for row in series["rows"]
    ]


def _ramps(series: dict[str, Any], times: list[Any]) -> list[tuple[float, float]]:
    """[(begin, end)] of the seconds that were not measured; a row stands for the interval that ends at its time."""
    if "phase" not in series["columns"]:
        return []
    ramps: list[tuple[float, float]] = []
    at, wide = series["columns"].index("phase"), series.get("interval_s")
    wide = wide if isinstance(wide, (int, float)) else 1
    for row, time in zip(series["rows"], times):
        if row[at] == "ramp":
            if ramps and ramps[-1][1] >= time - 1.5 * wide:
                ramps[-1] = (ramps[-1][0], time)
            else:
                ramps.append((max(0, time - wide), time))
    return ramps


def _window(judged: dict[str, Any] | None, end: float) -> tuple[float, float] | None:
    """The seconds whose rounds the figures are of: the last ones."""
    if not judged or not isinstance(judged.get("window"), int) or not isinstance(judged.get("round_s"), (int, float)):
        return None
    return max(0.0, end - judged["window"] * judged["round_s"]), end


def _pieces(samples: list[tuple[float, float]], room: int) -> list[list[tuple[float, float]]]:
    """[[(t, value)]] without the gaps. Thinned to ``room`` samples by keeping of each stretch the least and the greatest, so that no stall or peak is lost."""
    pieces: list[Any] = [[]]
    stretch = math.ceil(2 * len(samples) / room) if len(samples) > room else 1
    for begin in range(0, len(samples), stretch):
        part = samples[begin : begin + stretch]
        known = [sample for sample in part if sample[1] is not None]
        if len(known) < len(part) and pieces[-1]:
            pieces.append([])
        if known:
            pieces[-1] += sorted({min(known, key=lambda sample: sample[1]), max(known, key=lambda sample: sample[1])})
    return [piece for piece in pieces if piece]


# -- CPU and the hypervisor ------------------------------------------------------------------------------------------


def cpu_cost(waterfall: Waterfall, choices: Choices) -> Table | None:
    """What an I/O costs in processor time at each end; None when nothing was counted."""
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


def splits(waterfall: Waterfall) -> list[dict[str, Any]]:
    """[{layer, verdict, notes, table}]: the mean latency of the layers at the top divided among those below, as the devices counted meanwhile."""
    return [
        {
            "layer": shares.layer,
            "verdict": shares.verdict,
            "notes": shares.notes,
            "table": _split_table(waterfall, shares),
        }
        for shares in waterfall.splits
    ]


def _split_table(waterfall: Waterfall, shares: Split) -> Table:
    rows = []
    for part in shares.parts:
        rows.append(
            (
                "",
                ", ".join(part.layers),
                [
                    words(f"{part.device} on {part.host}" if part.device else f"the engine on {part.host}"),
                    cell(part.ios_per_io, "" if part.ios_per_io is None else f"{part.ios_per_io:.2f}"),
                    cell(part.at_ns, units.latency(part.at_ns)),
                    cell(part.own_ns, _with_interval(part.own_ns, part.own_between_ns)),
                    cell(part.share, units.percent(part.share)),
                    cell(part.above_ns, units.latency(part.above_ns)),
                    cell(part.waterfall_ns, units.added_latency(part.waterfall_ns)),
                    cell(
                        part.against_ns,
                        _with_interval(part.against_ns, part.against_between_ns),
                        "warn" if part.apart else "",
                    ),
                ],
            )
        )
    head = [
        ("Layers", False),
        ("counted from", False),
        ("requests per I/O", True),
        ("here and below", True),
        ("their part (95 %)", True),
        ("share", True),
        ("in engine and kernel", True),
        ("waterfall adds", True),
        ("counters − waterfall (95 %)", True),
    ]
    return Table(f"Split by counters, {shares.layer}, {waterfall.workload_id}", head, rows, "split")


def _with_interval(value: float | None, between: tuple[float, float] | None) -> str:
    """'+1.21 ms (+1.10 ms to +1.32 ms)'; one repetition has no interval."""
    ends = f" ({units.added_latency(between[0])} to {units.added_latency(between[1])})" if between else ""
    return f"{units.added_latency(value)}{ends}"


def esxi_split(waterfall: Waterfall, choices: Choices) -> Table | None:
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


# -- verdicts --------------------------------------------------------------------------------------------------------


def steady_states(report: Report, choices: Choices) -> dict[str, Any] | None:
    """{steady, judged, table, shown}: every verdict of a small run; of a large one those that are not good."""
    judged = [
        (point, report.judged[point["point_id"]]) for point in report.points if point["point_id"] in report.judged
    ]
    if not judged:
        return None
    shown = (
        judged
        if len(judged) <= ROWS_SHOWN
        else [(point, verdict) for point, verdict in judged if not verdict.get("steady")]
    )
    rows = []
    for point, verdict in shown:
        rounds = [value for value in verdict.get("rounds") or [] if isinstance(value, (int, float))]
        limits = verdict.get("limits") if isinstance(verdict.get("limits"), dict) else {}
        mark = NOTHING
        if rounds:
            window = (
                rounds[-verdict["window"] :]
                if isinstance(verdict.get("window"), int) and verdict["window"] > 0
                else rounds
            )
            mean, half = sum(window) / len(window), (limits.get("excursion_percent") or 0) / 200
            mark = charts.sparkline(rounds, mean * (1 - half), mean * (1 + half))
        rows.append(
            (
                choices.only(point["layer"]),
                point["layer"],
                [
                    words(point["workload_id"]),
                    cell(point["repetition"], str(point["repetition"])),
                    words("steady", "good") if verdict.get("steady") else words("not steady", "warn"),
                    Field(mark, css="c-bar"),
                    cell(len(rounds), str(len(rounds))),
                    *(
                        _against_limit(verdict.get(key), limits.get(key))
                        for key in ("excursion_percent", "slope_percent")
                    ),
                ],
            )
        )
    head = [
        ("Layer", False),
        ("Workload", False),
        ("Rep.", True),
        ("Verdict", False),
        ("Rounds", False),
        ("count", True),
        ("excursion (limit)", True),
        ("slope (limit)", True),
    ]
    return {
        "steady": sum(1 for _point, verdict in judged if verdict.get("steady")),
        "judged": len(judged),
        "all": len(shown) == len(judged),
        "metrics": ", ".join(
            sorted(
                {METRIC_WORDS.get(str(verdict.get("metric")), str(verdict.get("metric"))) for _point, verdict in judged}
            )
        ),
        "table": Table("Steady state", head, rows) if rows else None,
    }


def beats(report: Report) -> dict[str, Any] | None:
    """{said, unplayed, table}: the reference beats of each host over the rounds, and what they tell in a sentence each."""
    if not report.beats and not report.unplayed:
        return None
    rows = []
    for move in report.beats:
        values, unit = move["values"], BEAT_UNITS[move["figure"]]
        middle, spread = statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
        change = move.get("change_percent")
        rows.append(
            (
                "",
                move["host"],
                [
                    words(BEATS[move["figure"]]),
                    Field(charts.sparkline(values, middle - spread, middle + spread), css="c-bar"),
                    cell(len(values), str(len(values))),
                    *(cell(value, unit(value)) for value in (min(values), statistics.median(values), max(values))),
                    cell(change, "" if change is None else f"{change:+.1f} %".replace("-", "−")),
                    words(BEAT_VERDICTS[move["verdict"]], "warn" if move["verdict"] in ("slower", "faster") else ""),
                ],
            )
        )
    head = [
        ("Host", False),
        ("Check", False),
        ("Rounds", False),
        ("count", True),
        ("lowest", True),
        ("median", True),
        ("highest", True),
        ("first to last", True),
        ("Verdict", False),
    ]
    return {
        "said": [moved_words(move) for move in report.beats if move["verdict"] in ("slower", "faster")],
        "told": any(move["verdict"] != "too_few" for move in report.beats),
        "least": LEAST_TREND,
        "unplayed": report.unplayed,
        "table": Table("Reference check", head, rows) if rows else None,
    }


def networks(report: Report) -> dict[str, Any] | None:
    """{unmeasured, table}: what the network alone carried between two hosts, and which layer used most of it."""
    if not report.networks:
        return None
    rows = []
    for line in report.networks:
        if "note" in line:
            continue
        most = line.get("used")
        rows.append(
            (
                "",
                line["host"],
                [
                    words(f"{line['target']} ({line['address']})"),
                    *(cell(line[key], bit_rate(line[key])) for key in ("to_target_bits_s", "from_target_bits_s")),
                    cell(line["round_trip_ns"], units.latency(line["round_trip_ns"])),
                    cell(most and 100 * most["share"], units.percent(most["share"]) if most else ""),
                    words(f"{most['layer']}, {most['workload']}, {most['way']}" if most else ""),
                ],
            )
        )
    head = [
        ("Host", False),
        ("Target", False),
        ("to the target", True),
        ("from the target", True),
        ("there and back", True),
        ("most used", True),
        ("by", False),
    ]
    return {
        "unmeasured": [line["sentence"] for line in report.networks if "note" in line],
        "table": Table("Network alone", head, rows) if rows else None,
    }


def _against_limit(value: Any, limit: Any) -> Field:
    if not isinstance(value, (int, float)):
        return cell(None, "")
    return cell(
        value,
        units.whole_percent(value) + (f" ({units.whole_percent(limit)})" if isinstance(limit, (int, float)) else ""),
    )


def passed(point: dict[str, Any]) -> bool:
    """Whether every check that was made of a point was passed."""
    return all(check.get("ok") is True for check in point.get("checks") or [] if isinstance(check, dict))


def checks(report: Report) -> dict[str, Any] | None:
    """{passed, made, rows: [(point, check, figures in words)]} of what was checked about the points; rows are those that failed."""
    made = [(point, check) for point in report.points for check in point.get("checks") or [] if isinstance(check, dict)]
    if not made:
        return None
    failed = [
        (
            point,
            str(check.get("name")),
            ", ".join(
                f"{key} {value}"
                for key, value in flatten({key: check[key] for key in check if key not in ("name", "ok")})
            ),
        )
        for point, check in made
        if check.get("ok") is not True
    ]
    return {
        "made": len(made),
        "passed": len(made) - len(failed),
        "failed": failed,
        "names": ", ".join(sorted({str(check.get("name")) for _point, check in made})),
    }


# -- clients ---------------------------------------------------------------------------------------------------------


def clients(report: Report, choices: Choices) -> dict[str, Any] | None:
    """{table, all} of the points that several clients made together: a row per client, or beyond CLIENTS_SHOWN a row per point."""
    shared = [
        (point, [client for client in point["clients"] if isinstance(client, dict)])
        for point in report.points
        if isinstance(point.get("clients"), list)
    ]
    shared = [(point, parts) for point, parts in shared if parts]
    if not shared:
        return None
    everyone = sum(len(parts) for _point, parts in shared) <= CLIENTS_SHOWN
    rows = []
    for point, parts in shared:
        begin = [words(point["workload_id"]), cell(point["repetition"], str(point["repetition"]))]
        known = [
            (
                part,
                next((figures for key in ("total", "read", "write") if isinstance(figures := part.get(key), dict)), {}),
            )
            for part in parts
        ]
        if everyone:
            rows += [
                (
                    choices.only(point["layer"]),
                    point["layer"],
                    [
                        *begin,
                        words(part.get("host") or "unknown"),
                        _client_state(part),
                        *(_rate(figures, metric) for metric in CLIENT_METRICS),
                    ],
                )
                for part, figures in known
            ]
        else:
            rates = sorted(
                (figures["iops"], str(part.get("host")))
                for part, figures in known
                if isinstance(figures.get("iops"), (int, float))
            )
            failed = sum(part.get("status", "measured") != "measured" for part in parts)
            ends = [Field(units.iops(rate), rate, "n", before=f"{host} ") for rate, host in (rates[:1] + rates[-1:])]
            rows.append(
                (
                    choices.only(point["layer"]),
                    point["layer"],
                    [*begin, cell(len(parts), str(len(parts))), cell(failed, str(failed)), *ends],
                )
            )
    numbers = ("IOPS", "MB/s", "mean", "p99") if everyone else ("clients", "failed", "slowest, IOPS", "fastest, IOPS")
    names = ("Client", "Status") if everyone else ()
    head = [
        ("Layer", False),
        ("Workload", False),
        ("Rep.", True),
        *((text, False) for text in names),
        *((text, True) for text in numbers),
    ]
    return {"table": Table("Clients", head, rows), "all": everyone}


def _client_state(part: dict[str, Any]) -> Field:
    reasons = [
        str(failure.get("message") or failure.get("code"))
        for failure in part.get("failures") or []
        if isinstance(failure, dict)
    ]
    status = str(part.get("status") or "measured")
    return words(": ".join([status, *reasons]), "" if status == "measured" else "warn")


def _rate(figures: dict[str, Any], metric: str) -> Field:
    value = figures.get(metric)
    if not isinstance(value, (int, float)):
        limits = bounds_of([figures], metric)
        return bounds(limits) if limits else cell(None, "")
    return cell(value, METRICS[metric][2](value))


# -- published figures -----------------------------------------------------------------------------------------------

# As the profiles name them: the metric here, and what one of the unit is in the metric's own.
PUBLISHED_METRICS = {
    "iops": "iops",
    "bandwidth": "bandwidth_bytes_s",
    "latency_mean": "latency_mean_ns",
    "latency_p99": "latency_p99_ns",
    "sync_latency_mean": "sync.latency_mean_ns",
    "sync_latency_p50": "sync.latency_p50_ns",
    "sync_latency_p95": "sync.latency_p95_ns",
    "sync_latency_p99": "sync.latency_p99_ns",
    "sync_latency_p99_9": "sync.latency_p99_9_ns",
}
FLUSHES = {
    f"sync.latency_{name}_ns": words
    for name, words in (("mean", "mean"), ("p50", "p50"), ("p95", "p95"), ("p99", "p99"), ("p99_9", "p99.9"))
}
UNITS = {
    "IOPS": 1,
    "B/s": 1,
    "kB/s": 1e3,
    "MB/s": 1e6,
    "GB/s": 1e9,
    "KiB/s": 1024,
    "MiB/s": 1 << 20,
    "GiB/s": 1 << 30,
    "ns": 1,
    "µs": 1e3,
    "us": 1e3,
    "ms": 1e6,
    "s": 1e9,
}


def profiles(report: Report) -> list[dict[str, Any]]:
    """The profiles that the run was asked for, each once."""
    requests = [
        report.record,
        *(request for request in report.record.get("requests") or [] if isinstance(request, dict)),
    ]
    named = {
        str(request["profile"].get("name")): request["profile"]
        for request in requests
        if isinstance(request.get("profile"), dict)
    }
    return list(named.values())


CPU_RATIO = "CPU cost per I/O on a file relative to a whole LUN"
RATIO_COSTS = {"vm_mhz_per_iops": "VM MHz per IOPS", "us_per_io": "CPU time of the hypervisor"}
LIMITS = {"at_most": "at most", "at_least": "at least"}


def limited(figure: dict[str, Any]) -> str:
    """'80000', and of a limit 'at most 10'."""
    return f"{LIMITS.get(str(figure.get('limit')), '')} {figure.get('value')}".strip()


def value_of(measured: Cell, metric: str) -> float | None:
    """The value of 'latency_p99_ns', or of 'sync.latency_p99_ns'."""
    part, _dot, name = metric.rpartition(".")
    return measured.value(name, part or "total")


def flushes(waterfall: Waterfall, report: Report, choices: Choices) -> Table | None:
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


def figures_of(report: Report) -> list[dict[str, Any]]:
    """The published figures of the run's profiles."""
    return [
        figure for profile in profiles(report) for figure in profile.get("published") or [] if isinstance(figure, dict)
    ]


def of_workload(figure: dict[str, Any], waterfall: Waterfall) -> bool:
    """Whether a published figure is of this workload."""
    of = figure.get("workload") or {}
    return isinstance(of, dict) and all(waterfall.workload.get(key) == value for key, value in of.items())


def measured_for(figure: dict[str, Any], report: Report) -> list[tuple[str, dict[str, Any]]]:
    """[(what tells its workload from the others beside the figure, {layer: Cell})] of what stands beside a published figure: of the workload that its
    profile asked for, or of the most that a search of it found.

    Where workloads differ in nothing but their load, which few publish, each of them has its place: ("queue depth 8", …). Empty where several would do
    that differ in more: none of them is the one that was published.
    """
    mine = [waterfall for waterfall in report.waterfalls if of_workload(figure, waterfall)]
    requests = [
        request
        for request in (report.record, *(report.record.get("requests") or []))
        if isinstance(request, dict) and figure in ((request.get("profile") or {}).get("published") or [])
    ]
    keys = {(request.get("search") or {}).get("key") for request in requests}
    wanted = [(workload, key) for request in requests for workload in request.get("workloads") or [] for key in keys]
    if wanted:
        mine = [
            waterfall
            for waterfall in mine
            if any(_without(waterfall.workload, key) == _without(own, key) for own, key in wanted)
        ]
    if len(mine) == 1 or keys - {None}:
        return [("", _most(mine))]
    for key, label in LOADS if wanted else ():
        if len({str(_without(waterfall.workload, key)) for waterfall in mine}) == 1:
            ordered = sorted(mine, key=lambda waterfall: waterfall.workload.get(key) or 0)
            return [(label.format(waterfall.workload.get(key)), _most([waterfall])) for waterfall in ordered]
    return []


def _most(waterfalls: list[Waterfall]) -> dict[str, Any]:
    """layer -> its Cell with the most IOPS."""
    cells: dict[str, Any] = {}
    for step in (step for waterfall in waterfalls for step in waterfall.steps):
        known = cells.get(step.cell.layer)
        if known is None or (step.cell.value("iops") or 0) > (known.value("iops") or 0):
            cells[step.cell.layer] = step.cell
    return cells


def _without(workload: Workload, key: str | None) -> dict[str, Any]:
    return {name: value for name, value in workload.items() if name != key}


def published(report: Report, choices: Choices) -> Table | None:
    """What others have published of an experiment, beside what was measured here in the same unit. No figure is a mark to be reached."""
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


def _of_ratios(figure: dict[str, Any], report: Report, layers: list[str], choices: Choices) -> list[Field]:
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


# -- all of them -----------------------------------------------------------------------------------------------------


def of_run(report: Report, choices: Choices) -> list[dict[str, Any]]:
    """The views over several workloads, in the order in which they are read."""
    return [view for make in (block_sweeps, worker_sweeps, matrix, drives, loads) if (view := make(report, choices))]


def drawn(report: Report, most: int) -> set[str]:
    """The ids of the workloads that get pictures of their own."""
    return {waterfall.workload_id for waterfall in ranked(report.waterfalls, report.headline)[:most]}


def room(budget: int, lines: int, least: int, most: int) -> int:
    """How many points a line may have so that all lines together keep to the budget."""
    return max(least, min(most, budget // max(1, lines)))
