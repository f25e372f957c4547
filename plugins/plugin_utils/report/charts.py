# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures as SVG text. Colours are CSS classes (k-<kind>), so that one picture serves light, dark and print.

Charts stretch to any width (plot.py). The chain of layers is in chain_chart.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ...module_utils.core import units
from ..store.cells import Figure
from . import plot
from .markup import joined, shapes
from .series import Course, Curve, Lane, Line, Load


def log_ticks(low: float, high: float) -> list[float]:
    """The decades that enclose low..high, at least one apart."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def log_position(value: float, ticks: list[float]) -> float:
    """0..1 along the axis whose ends are the first and last tick."""
    return (math.log10(value) - math.log10(ticks[0])) / (math.log10(ticks[-1]) - math.log10(ticks[0]))


def tint(kind: str) -> str:
    """The CSS class of a kind's colour; a kind comes out of a file, so only letters of it reach the page."""
    return "k-" + re.sub(r"[^a-z]", "", str(kind))


# -- bars of the waterfall -------------------------------------------------------------------------------------------


def rate_mark(figure: Figure, ticks: list[float]) -> Markup:
    """A dot on a log axis with the extremes of the repetitions: a bar would need a zero, and log axes have no zero."""
    at, low, high = (100 * log_position(value, ticks) for value in (figure.value, figure.low, figure.high))
    markup: Markup = shapes().rate(f"{at:.2f}", f"{low:.2f}", f"{high:.2f}", high - low > 0.05)
    return markup


def added_mark(below: float, own: float, full: float, comparable: bool) -> Markup:
    """A floating bar on a linear axis: the part below, pale, and what this layer adds, in full colour."""
    start, end = 100 * min(below, own) / full, 100 * max(below, own) / full
    width = max(end - start, 0.4)
    classes = "added" + ("" if comparable else " pale") + (" faster" if own < below else "")
    base = f"{start:.2f}" if start > 0.05 else ""
    markup: Markup = shapes().added(classes, base, f"{min(start, 99.6):.2f}", f"{width:.2f}")
    return markup


# -- latency distribution --------------------------------------------------------------------------------------------

TAIL = 5.0  # nines: the axis ends at 99.999 %
CURVE_STEP = 1.15  # ratio of latencies
COLUMNS = 20  # of a histogram, in a decade: each is 12 % wide, many times a bin of fio's
LANE, LANES = 46, 320  # least pixels of a layer in the histogram, and of all


def percentile_curve(bins: Mapping[str, int], room: int = 60) -> list[tuple[Any, ...]]:
    """[(share of all I/Os, latency_ns)], thinned to about ``room`` points, ending where the samples end."""
    pairs = sorted((int(edge), count) for edge, count in bins.items() if count)
    total, seen = sum(count for _edge, count in pairs), 0
    # A percentile finer than one I/O in all cannot be known.
    finest = min(1 - 0.5 / total, 1 - 10**-TAIL) if total else 0
    kept: list[tuple[Any, ...]] = []
    last_at = last_edge = 0.0
    step = CURVE_STEP ** (60 / room)
    for edge, count in pairs:
        # Each bin is a flat step: it begins where the one below it ends.
        for share in (seen / total, (seen + count) / total):
            if share >= finest:
                return [*kept, (finest, edge)]
            # Kept is what moves by a visible step, sideways or up: without the second a steep rise would be cut across.
            at = plot.nines(share)
            if not kept or at - last_at >= TAIL / room or edge >= last_edge * step:
                kept.append((share, edge))
                last_at, last_edge = at, max(1.0, edge)
        seen += count
    return kept


def percentile_chart(ident: str, title: str, series: list[Curve]) -> plot.Chart | None:
    """Drawn in that order, each named at the end of its line."""
    if not series:
        return None
    y = plot.log_axis(
        [max(1, value) for curve in series for _share, value in (curve.points[0], curve.points[-1])],
        _tick_latency,
        "latency",
        "ns",
    )
    end = min(TAIL, max(plot.nines(curve.points[-1][0]) for curve in series))
    x = plot.nines_axis(max(2.0, math.ceil(end * 2) / 2), "percentile of all I/Os")
    description = "Latency on a log axis against the percentile. " + " ".join(
        f"{curve.name} ends at {units.latency(curve.points[-1][1])}." for curve in series
    )
    lines = joined(plot.line(curve.points, x, y, curve.css) for curve in series)
    return plot.frame(
        ident,
        title,
        description,
        x,
        y,
        320,
        lines,
        ends=[(curve.name, curve.css, plot.end_of(curve.points, y)) for curve in series],
    )


def histogram_columns(bins: Mapping[str, int]) -> dict[int, float]:
    """Column (by the logarithm of the latency) -> share of all I/Os."""
    total = sum(bins.values())
    columns: dict[int, float] = {}
    for edge, count in bins.items():
        column = math.floor(math.log10(max(1, int(edge))) * COLUMNS)
        columns[column] = columns.get(column, 0) + count / total
    return columns


def histogram_chart(ident: str, title: str, series: list[Lane]) -> plot.Chart | None:
    """One lane per layer on a common latency axis, each lane filled to its own height; ticks at p50 and p99."""
    if not series:
        return None
    columns = [histogram_columns(lane.bins) for lane in series]
    first, last = min(min(heights) for heights in columns), max(max(heights) for heights in columns)
    x = plot.log_axis([10 ** (first / COLUMNS), 10 ** ((last + 1) / COLUMNS)], _tick_latency, "latency", "ns")
    high = max(LANE, LANES // len(series))
    height = high * len(series)
    y = plot.Axis(
        "linear",
        0,
        len(series),
        tuple((line, "") for line in range(len(series))),
        "share of I/Os, each layer to its own height",
    )
    outlines, marks = [], []
    for index, (lane, heights) in enumerate(zip(series, columns)):
        base, top = len(series) - 1 - index, max(heights.values())
        steps = [
            (10 ** (column / COLUMNS), base + round(0.82 * heights.get(column, 0) / top, 2))
            for column in range(min(heights), max(heights) + 2)
        ]
        outlines.append(plot.steps([(10 ** (min(heights) / COLUMNS), base), *steps], x, y, f"fill {lane.css}"))
        ticks = "".join(
            f"M{round(plot.ACROSS * x.at(value))} {round(plot.UP * (index + 0.9) / len(series))}V{round(plot.UP * (index + 1) / len(series))}"
            for value in (lane.p50_ns, lane.p99_ns)
            if value
        )
        outlines.append(shapes().path(f"median {lane.css}", ticks))
        # The name is on the side where its shape does not.
        left = x.at(lane.p50_ns or 1) > 0.5
        marks.append(shapes().lane_name(lane.css, not left, index * high + 16, lane.name))
    description = " ".join(
        f"{lane.name}: half below {units.latency(lane.p50_ns)}, 99 % below {units.latency(lane.p99_ns)}."
        for lane in series
    )
    return plot.frame(ident, title, description, x, y, height, joined(outlines), joined(marks), css="lanes")


def _tick_latency(value: float) -> str:
    return units.tick(units.latency(value))


# -- sweeps ----------------------------------------------------------------------------------------------------------

RISE = 30.0  # from this ratio of largest to smallest on, a linear axis hides the small ones


def value_axis(
    values: list[Any], label: Callable[[float], str], title: str, unit: str, log: bool | None = None, room: int = 10
) -> plot.Axis:
    """Linear from zero, or logarithmic when that is asked for or the values need it; the title says when it is."""
    positive = [value for value in values if value > 0]
    if log is None:
        log = bool(positive) and max(positive) > RISE * min(positive)
    if log and positive:
        return plot.log_axis(positive, lambda value: units.tick(label(value)), f"{title}, log", unit, room)
    return plot.linear_axis(max(values, default=1.0) or 1.0, lambda value: units.tick(label(value)), title, unit)


def sweep_chart(
    ident: str,
    title: str,
    x: plot.Axis,
    y: plot.Axis,
    series: list[Line],
    word: Callable[[Figure], str],
    height: int = 260,
) -> plot.Chart:
    """A dot per measurement, a bar over the repetitions. word(Figure) -> text."""
    drawn = joined(
        plot.line([(at, figure.value) for at, figure in line.points], x, y, line.css)
        + plot.bars(
            [((at, at, at), (figure.value, figure.low, figure.high)) for at, figure in line.points], x, y, line.css
        )
        for line in series
    )
    labels = dict(x.ticks)
    marks = joined(
        shapes().group(
            line.css,
            [
                plot.dot(at, figure.value, x, y, height, f"{line.name}, {labels[at]}: {word(figure)}")
                for at, figure in line.points
            ],
        )
        for line in series
    )
    description = " ".join(
        f"{line.name}: from {word(line.points[0][1])} at {labels[line.points[0][0]]} "
        f"to {word(line.points[-1][1])} at {labels[line.points[-1][0]]}."
        for line in series
    )
    ends = [
        (line.name, line.css, plot.end_of([(at, figure.value) for at, figure in line.points], y)) for line in series
    ]
    return plot.frame(ident, title, description, x, y, height, drawn, marks, ends=ends)


@dataclass(frozen=True, kw_only=True)
class Heat(plot.Chart):
    """fields: [(left %, top, width %, middle %, opacity, best, text, text below, class)]; ups, ticks: as of a plot."""

    x: plot.Axis
    y: plot.Axis
    ups: list[Any]
    ticks: list[Any]
    fields: list[Any]

    @property
    def body(self) -> Markup:
        markup: Markup = shapes().fields(self)
        return markup


ROW = 46  # pixels of a row of a heat map


def heat_map(
    ident: str,
    title: str,
    columns: list[Any],
    rows: list[Any],
    cells: dict[tuple[Any, Any], tuple[float, str, str]],
    css: str,
    x_title: str,
    y_title: str,
    between: tuple[Any, ...] | None = None,
) -> plot.Chart:
    """cells: (column, row) -> (value, text, text below). Shade by the logarithm of the value; every field carries its figure.

    between: least and greatest value of the shades, where several maps have the same; else the values of the cells.
    """
    values = [value for value, _text, _below in cells.values()]
    low, high = between or (min(values), max(values))
    shades = {
        place: (math.log(value / low) / math.log(high / low) if high > low > 0 else 0, value == max(values), "")
        for place, (value, _text, _below) in cells.items()
    }
    return _fields(ident, title, columns, rows, cells, shades, css, x_title, y_title)


def ratio_map(
    ident: str,
    title: str,
    columns: list[Any],
    rows: list[Any],
    cells: dict[tuple[Any, Any], tuple[float, str, str]],
    css: str,
    x_title: str,
    y_title: str,
) -> plot.Chart:
    """cells: (column, row) -> (ratio of two values, text, text below). The farther from 1, the stronger the shade; below 1 it is another colour."""
    farthest = max(abs(math.log(ratio)) for ratio, _text, _below in cells.values())
    shades = {
        place: (abs(math.log(ratio)) / farthest if farthest else 0, False, "less" if ratio < 1 else "")
        for place, (ratio, _text, _below) in cells.items()
    }
    return _fields(ident, title, columns, rows, cells, shades, css, x_title, y_title)


def _fields(
    ident: str,
    title: str,
    columns: list[str],
    rows: Sequence[object],
    cells: dict[tuple[Any, Any], tuple[float, str, str]],
    shades: dict[tuple[Any, Any], tuple[float, bool, str]],
    css: str,
    x_title: str,
    y_title: str,
) -> plot.Chart:
    """shades: (column, row) -> (strength from 0 to 1, whether it is the best, class)."""
    height, wide = ROW * len(rows), 100 / len(columns)
    fields = []
    for line, row in enumerate(reversed(rows)):
        for index, column in enumerate(columns):
            if (column, row) in cells:
                (_value, text, below), (strength, best, kind) = cells[column, row], shades[column, row]
                left, middle = f"{index * wide:.2f}", f"{(index + 0.5) * wide:.2f}"
                shade = f"{0.06 + 0.44 * strength:.2f}"
                fields.append((left, ROW * line, f"{wide:.2f}", middle, shade, best, text, below, kind))
    return Heat(
        ident,
        title,
        " ".join(
            f"{x_title} {column}, {y_title} {row}: {cells[column, row][1]} {cells[column, row][2]}."
            for row in rows
            for column in columns
            if (column, row) in cells
        ),
        f"plot heat {css}",
        height,
        x=plot.Axis("places", 0, len(columns), (), x_title),
        y=plot.Axis("places", 0, len(rows), (), y_title),
        ups=[(ROW * line + 27, row) for line, row in enumerate(reversed(rows))],
        ticks=[(f"{(index + 0.5) * wide:.2f}", column, False) for index, column in enumerate(columns)],
        fields=fields,
    )


LOAD_HEIGHT = 300  # pixels


def load_chart(ident: str, title: str, series: list[Load]) -> plot.Chart:
    """Latency against load."""
    points = [point for line in series for point in line.points]
    x = value_axis(
        [rate.high for _label, rate, _wait in points] + [rate.low for _label, rate, _wait in points],
        units.iops,
        "IOPS",
        "iops",
    )
    y = value_axis(
        [value for _label, _rate, wait in points for value in (wait.low, wait.high)],
        units.latency,
        "mean latency",
        "ns",
    )
    lines = joined(
        plot.line([(rate.value, wait.value) for _label, rate, wait in line.points], x, y, line.css)
        + plot.bars(
            [
                ((rate.value, rate.low, rate.high), (wait.value, wait.low, wait.high))
                for _label, rate, wait in line.points
            ],
            x,
            y,
            line.css,
        )
        for line in series
    )
    ends = [(line.points[-1][1].value, line.points[-1][2].value, line.name, line.css) for line in series]
    marks = [*(_load_dots(line, x, y) for line in series), plot.beside(ends, x, y, LOAD_HEIGHT)]
    return plot.frame(
        ident,
        title,
        " ".join(map(_load_words, series)),
        x,
        y,
        LOAD_HEIGHT,
        lines,
        joined(marks),
        right=plot.room_beside(ends, x),
        about=plot.ABOUT,
    )


def _load_dots(line: Load, x: plot.Axis, y: plot.Axis) -> Markup:
    """A dot per load, and a ring around the knee."""
    inside = []
    for index, (label, rate, wait) in enumerate(line.points):
        words = f"{line.name}, {label}: {units.iops(rate.value)} IOPS at {units.latency(wait.value)}"
        if index == line.knee:
            inside.append(plot.dot(rate.value, wait.value, x, y, LOAD_HEIGHT, radius=9, css="knee"))
            words += " (knee)"
        inside.append(plot.dot(rate.value, wait.value, x, y, LOAD_HEIGHT, words))
    markup: Markup = shapes().group(line.css, inside)
    return markup


def _load_words(line: Load) -> str:
    first, last = (
        f"{units.iops(rate.value)} IOPS, {units.latency(wait.value)} at {label}"
        for label, rate, wait in (line.points[0], line.points[-1])
    )
    knee = "no knee within the loads." if line.knee is None else f"knee at {line.points[line.knee][0]}."
    return f"{line.name}: from {first} to {last}; {knee}"


# -- time ------------------------------------------------------------------------------------------------------------

SECONDS = "seconds since the point began"


def time_chart(
    ident: str, title: str, y: plot.Axis, seconds: float, ramp: list[Any], series: list[Course], last: bool
) -> plot.Chart:
    """A gap in the samples is a gap in the line."""
    height = 150
    # At least a second: a series of one sample has no length.
    x = plot.linear_axis(max(seconds, 1.0), lambda value: f"{value:.5g}", SECONDS, "s")
    stripes = joined(plot.stripe(begin, end, x, "ramp", "ramp, not measured") for begin, end in ramp)
    lines = joined(plot.line(piece, x, y, line.css) for line in series for piece in line.pieces if len(piece) > 1)
    marks = shapes().dots(
        [
            plot.dot(t_s, value, x, y, height, radius=2)
            for line in series
            for piece in line.pieces
            if len(piece) == 1
            for t_s, value in piece
        ]
    )
    windows = [(line, line.window) for line in series if line.window]
    for index, (line, window) in enumerate(windows):
        up, (begin, end) = height - 3 - 5 * index, (100 * x.at(second) for second in window)
        marks += shapes().window(line.css, f"{begin:.2f}", f"{end:.2f}", up, f"{line.name}: steady-state window")
    return plot.frame(
        ident,
        title,
        f"{y.title} over {seconds:g} s of " + ", ".join(line.name for line in series) + ".",
        x,
        y,
        height,
        stripes + lines,
        marks,
        [(line.name, line.css, y.at(line.pieces[-1][-1][1])) for line in series if line.pieces],
        css="time" + ("" if last else " upper"),
        about=plot.ABOUT,
        upper=not last,
    )


def dip_chart(
    ident: str, title: str, y: plot.Axis, seconds: float, away: tuple[float, float], series: list[Course]
) -> plot.Chart:
    """The load over the seconds of several rounds that were set to the same event; away: the seconds from the event until it was undone."""
    height = 150
    x = plot.linear_axis(
        seconds, lambda value: f"{value:.5g}", "seconds, the event in each round at the same place", "s"
    )
    lines = joined(plot.line(piece, x, y, line.css) for line in series for piece in line.pieces if len(piece) > 1)
    return plot.frame(
        ident,
        title,
        f"{y.title} over {seconds:g} s of " + ", ".join(line.name for line in series) + ".",
        x,
        y,
        height,
        plot.stripe(*away, x, "ramp", "from the event until it was undone") + lines,
        shapes().dots([]),
        [(line.name, line.css, y.at(line.pieces[-1][-1][1])) for line in series if line.pieces],
        css="time",
        about=plot.ABOUT,
    )


def sparkline(values: list[Any], low: float, high: float) -> Markup:
    """The rounds of a steady-state check between the limits low and high, which are drawn as a band."""
    floor, ceiling = min(*values, low), max(*values, high)
    room = (ceiling - floor) or 1.0

    def up(value: float) -> str:
        return f"{22 - 20 * (value - floor) / room:.1f}"

    wide = 96 / max(1, len(values) - 1)
    dots = "".join(f"M{2 + index * wide:.0f} {up(value)}h0" for index, value in enumerate(values))
    markup: Markup = shapes().spark(up(high), f"{20 * (high - low) / room:.1f}", dots)
    return markup


def split_bar(parts: list[Any], full: float) -> Markup:
    """Stacked parts [(css, value)] of a whole that is at most ``full``."""
    placed, at = [], 0.0
    for css, value in parts:
        wide = 100 * value / full if full else 0
        placed.append((css, f"{at:.2f}", f"{wide:.2f}"))
        at += wide
    markup: Markup = shapes().split(placed)
    return markup
