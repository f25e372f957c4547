# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures as SVG text. Colours are CSS classes (k-<kind>), so that one picture serves light, dark and print.

Charts stretch to any width (plot.py). The chain is drawn twice, wide and narrow, because on a phone it runs from top to bottom.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ...module_utils.core import units
from ...module_utils.core.cache_modes import words as cache_words
from ...module_utils.core.layers import Layer
from ..store.cells import Figure
from . import plot
from .markup import joined, shapes
from .plot import CHARACTER


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


def _fit(text: str, width: float) -> str:
    room = max(4, int(width / CHARACTER))
    return text if len(text) <= room else text[: room - 1] + "…"


def _figures(line: str, width: float) -> str:
    """'20.9k IOPS · 184 µs', without its first unit where that takes the room of a figure: half a figure is none."""
    return _fit(line if len(line) <= int(width / CHARACTER) else line.replace(" IOPS ·", " ·"), width)


def _tail(path: str, width: float) -> str:
    """The end of a path says which; its beginning can go."""
    room = max(6, int(width / CHARACTER))
    return path if len(path) <= room else "…" + path[1 - room :]


# -- bars of the waterfall -------------------------------------------------------------------------------------------


def rate_mark(figure: Figure, ticks: list[float]) -> Markup:
    """A dot on a log axis with the extremes of the repetitions: a bar would need a zero, and log axes have no zero."""
    at, low, high = (100 * log_position(value, ticks) for value in (figure.value, figure.low, figure.high))
    markup: Markup = shapes().rate(f"{at:.2f}", f"{low:.2f}", f"{high:.2f}", high - low > 0.05)
    return markup


def added_mark(below: float, own: float, full: float, comparable: bool) -> Markup:
    """A floating bar on a linear axis: what lies below, pale, and what this layer adds, in full colour."""
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


def percentile_chart(ident: str, title: str, series: list[tuple[Any, ...]]) -> plot.Chart | None:
    """series: [(name, css, percentile_curve)], drawn in that order, each named at the end of its line."""
    if not series:
        return None
    y = plot.log_axis(
        [max(1, value) for _name, _css, curve in series for _share, value in (curve[0], curve[-1])],
        _tick_latency,
        "latency",
        "ns",
    )
    end = min(TAIL, max(plot.nines(curve[-1][0]) for _name, _css, curve in series))
    x = plot.nines_axis(max(2.0, math.ceil(end * 2) / 2), "percentile of all I/Os")
    description = "Latency on a log axis against the percentile. " + " ".join(
        f"{name} ends at {units.latency(curve[-1][1])}." for name, _css, curve in series
    )
    lines = joined(plot.line(curve, x, y, css) for _name, css, curve in series)
    return plot.frame(
        ident,
        title,
        description,
        x,
        y,
        320,
        lines,
        ends=[(name, css, plot.end_of(curve, y)) for name, css, curve in series],
    )


def histogram_columns(bins: Mapping[str, int]) -> dict[int, float]:
    """Column (by the logarithm of the latency) -> share of all I/Os."""
    total = sum(bins.values())
    columns: dict[int, float] = {}
    for edge, count in bins.items():
        column = math.floor(math.log10(max(1, int(edge))) * COLUMNS)
        columns[column] = columns.get(column, 0) + count / total
    return columns


def histogram_chart(ident: str, title: str, series: list[tuple[Any, ...]]) -> plot.Chart | None:
    """series: [(name, css, bins, p50, p99)]. One lane a layer on a common latency axis, each lane filled to its own height; ticks at p50 and p99."""
    if not series:
        return None
    columns = [histogram_columns(bins) for _name, _css, bins, _p50, _p99 in series]
    first, last = min(min(heights) for heights in columns), max(max(heights) for heights in columns)
    x = plot.log_axis([10 ** (first / COLUMNS), 10 ** ((last + 1) / COLUMNS)], _tick_latency, "latency", "ns")
    lane = max(LANE, LANES // len(series))
    height = lane * len(series)
    y = plot.Axis(
        "linear",
        0,
        len(series),
        tuple((line, "") for line in range(len(series))),
        "share of I/Os, each layer to its own height",
    )
    outlines, marks = [], []
    for index, ((name, css, _bins, p50, p99), heights) in enumerate(zip(series, columns)):
        base, top = len(series) - 1 - index, max(heights.values())
        steps = [
            (10 ** (column / COLUMNS), base + round(0.82 * heights.get(column, 0) / top, 2))
            for column in range(min(heights), max(heights) + 2)
        ]
        outlines.append(plot.steps([(10 ** (min(heights) / COLUMNS), base), *steps], x, y, f"fill {css}"))
        ticks = "".join(
            f"M{round(plot.ACROSS * x.at(value))} {round(plot.UP * (index + 0.9) / len(series))}V{round(plot.UP * (index + 1) / len(series))}"
            for value in (p50, p99)
            if value
        )
        outlines.append(shapes().path(f"median {css}", ticks))
        # The name stands on the side where its shape does not.
        left = x.at(p50 or 1) > 0.5
        marks.append(shapes().lane_name(css, not left, index * lane + 16, name))
    description = " ".join(
        f"{name}: half below {units.latency(p50)}, 99 % below {units.latency(p99)}."
        for name, _css, _bins, p50, p99 in series
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
    series: list[tuple[Any, ...]],
    word: Callable[[Figure], str],
    height: int = 260,
) -> plot.Chart:
    """series: [(name, css, [(x value, Figure)])]: a line, a dot a measurement, a bar over the repetitions. word(Figure) -> text."""
    lines = joined(
        plot.line([(at, figure.value) for at, figure in points], x, y, css)
        + plot.bars([((at, at, at), (figure.value, figure.low, figure.high)) for at, figure in points], x, y, css)
        for _name, css, points in series
    )
    labels = dict(x.ticks)
    marks = joined(
        shapes().group(
            css,
            [
                plot.dot(at, figure.value, x, y, height, f"{name}, {labels[at]}: {word(figure)}")
                for at, figure in points
            ],
        )
        for name, css, points in series
    )
    description = " ".join(
        f"{name}: from {word(points[0][1])} at {labels[points[0][0]]} to {word(points[-1][1])} at {labels[points[-1][0]]}."
        for name, _css, points in series
    )
    return plot.frame(
        ident,
        title,
        description,
        x,
        y,
        height,
        lines,
        marks,
        ends=[
            (name, css, plot.end_of([(at, figure.value) for at, figure in points], y)) for name, css, points in series
        ],
    )


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

    between: least and greatest value of the shades, where several maps have the same; else those of the cells.
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
    columns: list[Any],
    rows: list[Any],
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


def load_chart(ident: str, title: str, series: list[tuple[Any, ...]]) -> plot.Chart:
    """Latency against load. series: [(name, css, [(label, iops Figure, latency Figure)], index of the knee or None)]."""
    x = value_axis(
        [figure.high for _name, _css, points, _knee in series for _label, figure, _latency in points]
        + [figure.low for _name, _css, points, _knee in series for _label, figure, _latency in points],
        units.iops,
        "IOPS",
        "iops",
    )
    y = value_axis(
        [
            value
            for _name, _css, points, _knee in series
            for _label, _iops, figure in points
            for value in (figure.low, figure.high)
        ],
        units.latency,
        "mean latency",
        "ns",
    )
    height, marks, sentences = 300, [], []
    for name, css, points, knee in series:
        inside = []
        for index, (label, rate, wait) in enumerate(points):
            words = f"{name}, {label}: {units.iops(rate.value)} IOPS at {units.latency(wait.value)}"
            if index == knee:
                inside.append(plot.dot(rate.value, wait.value, x, y, height, radius=9, css="knee"))
            inside.append(plot.dot(rate.value, wait.value, x, y, height, words + (" (knee)" if index == knee else "")))
        marks.append(shapes().group(css, inside))
        first, last = (
            f"{units.iops(rate.value)} IOPS, {units.latency(wait.value)} at {label}"
            for label, rate, wait in (points[0], points[-1])
        )
        sentences.append(
            f"{name}: from {first} to {last}; "
            + (f"knee at {points[knee][0]}." if knee is not None else "no knee within the loads.")
        )
    lines = joined(
        plot.line([(rate.value, wait.value) for _label, rate, wait in points], x, y, css)
        + plot.bars(
            [((rate.value, rate.low, rate.high), (wait.value, wait.low, wait.high)) for _label, rate, wait in points],
            x,
            y,
            css,
        )
        for _name, css, points, _knee in series
    )
    ends = [(points[-1][1].value, points[-1][2].value, name, css) for name, css, points, _knee in series]
    marks.append(plot.beside(ends, x, y, height))
    return plot.frame(
        ident,
        title,
        " ".join(sentences),
        x,
        y,
        height,
        lines,
        joined(marks),
        right=plot.room_beside(ends, x),
        about=plot.ABOUT,
    )


# -- time ------------------------------------------------------------------------------------------------------------

SECONDS = "seconds since the point began"


def time_chart(
    ident: str, title: str, y: plot.Axis, seconds: float, ramp: list[Any], series: list[tuple[Any, ...]], last: bool
) -> plot.Chart:
    """series: [(name, css, [[(t_s, value)] a piece], steady window (from, to) or None)]. A gap in the samples is a gap in the line."""
    height = 150
    # At least a second: a series of one sample has no length.
    x = plot.linear_axis(max(seconds, 1.0), lambda value: f"{value:.5g}", SECONDS, "s")
    stripes = joined(plot.stripe(begin, end, x, "ramp", "ramp, not measured") for begin, end in ramp)
    lines = joined(
        plot.line(piece, x, y, css) for _name, css, pieces, _window in series for piece in pieces if len(piece) > 1
    )
    marks = shapes().dots(
        [
            plot.dot(t_s, value, x, y, height, radius=2)
            for _name, _css, pieces, _window in series
            for piece in pieces
            if len(piece) == 1
            for t_s, value in piece
        ]
    )
    windows = [(name, css, window) for name, css, _pieces, window in series if window]
    for index, (name, css, window) in enumerate(windows):
        up, (begin, end) = height - 3 - 5 * index, (100 * x.at(second) for second in window)
        marks += shapes().window(css, f"{begin:.2f}", f"{end:.2f}", up, f"{name}: steady-state window")
    description = f"{y.title} over {seconds:g} s of " + ", ".join(name for name, _css, _pieces, _window in series) + "."
    ends = [(name, css, y.at(pieces[-1][-1][1])) for name, css, pieces, _window in series if pieces]
    return plot.frame(
        ident,
        title,
        description,
        x,
        y,
        height,
        stripes + lines,
        marks,
        ends,
        css="time" + ("" if last else " upper"),
        about=plot.ABOUT,
        upper=not last,
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


# -- the chain -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Chain(plot.Chart):
    """Frames of hosts [(x, y, width, height)] with their names [(x, y, name)], arrows [path] and nodes [{css, title, x, y, wide, high, texts}]."""

    hosts: list[Any]
    arrows: list[Any]
    hostnames: list[Any]
    nodes: list[Any]

    @property
    def body(self) -> Markup:
        markup: Markup = shapes().chain(self)
        return markup


def chain_chart(ident: str, layers: list[Layer], measured: dict[str, Any], width: int) -> plot.Chart | None:
    """The chain as it really is: one lane a chain of parents, one band a host, an arrow along each parent.

    layers: bottom first. measured: layer name -> one line of figures; the others are drawn dim and said to be unmeasured.
    Wide, the I/O runs from the guest on the right to the backing on the left; narrow, from top to bottom.
    """
    if not layers:
        return None
    narrow = width < 500
    slots, lanes, bands = _layout(layers, narrow)
    count_slots, count_lanes = bands[-1][2] + 1, max(lanes.values()) + 1
    pad, head, gap = 12, 26, 14 if narrow else 34
    if narrow:
        box_w = (width - 2 * pad - (count_lanes - 1) * 10) / count_lanes
        box_h = 62
        # A band per host, top = the layers nearest the guest.
        tops, at = {}, 0.0
        for host, first, last in reversed(bands):
            tops[host] = at
            at += head + (last - first + 1) * (box_h + gap) + 6
        height = at
        place = {
            layer["name"]: (
                pad + lanes[layer["name"]] * (box_w + 10),
                next(
                    tops[host] + head + (last - slots[layer["name"]]) * (box_h + gap)
                    for host, first, last in bands
                    if first <= slots[layer["name"]] <= last
                ),
            )
            for layer in layers
        }
        frames: list[tuple[Any, ...]] = [
            (host, 2, tops[host], width - 4, head + (last - first + 1) * (box_h + gap) - gap + 8)
            for host, first, last in bands
        ]
    else:
        box_h, row = 62, 78
        inner = width - len(bands) * 2 * pad - (len(bands) - 1) * 18
        box_w = (inner - (count_slots - len(bands)) * gap) / count_slots
        starts, at = {}, 0.0
        for host, first, last in bands:
            starts[host] = at
            at += 2 * pad + (last - first + 1) * box_w + (last - first) * gap + 18
        height = head + count_lanes * row + 4
        place = {
            layer["name"]: (
                next(
                    starts[host] + pad + (slots[layer["name"]] - first) * (box_w + gap)
                    for host, first, last in bands
                    if first <= slots[layer["name"]] <= last
                ),
                head + lanes[layer["name"]] * row,
            )
            for layer in layers
        }
        frames = [
            (host, starts[host], 1, 2 * pad + (last - first + 1) * box_w + (last - first) * gap, height - 2)
            for host, first, last in bands
        ]

    names = ", ".join(
        f"{layer['name']} on {layer['host']}"
        + (f" through {layer['parent']}" if layer.get("parent") else "")
        + ("" if layer["name"] in measured else " (not measured)")
        for layer in layers
    )
    nodes = []
    for layer in layers:
        left, top = place[layer["name"]]
        line = measured.get(layer["name"])
        path, detail = (
            layer.get("path") or ("no device" if layer["kind"] == "ceiling" else "no path"),
            layer.get("detail") or {},
        )
        made = str(detail.get("filesystem") or detail.get("provider") or "") if layer["kind"] != "ceiling" else ""
        array = detail.get("raid") or {}
        made = f"RAID {array.get('level')} of {len(array.get('members') or [])}" if array else made
        tier = detail.get("cache_tier") or {}
        made = (
            cache_words(tier.get("cached"), tier.get("mode"), tier.get("block_bytes", 0) // 1024, tier.get("provider"))
            if tier
            else made
        )
        made += ", page cache" if detail.get("page_cache") == "used" else ""
        where = (
            f"{made} · {_tail(str(path), box_w - 16 - (len(made) + 3) * CHARACTER)}"
            if made
            else _tail(str(path), box_w - 16)
        )
        texts = (
            ("node-name", 19, _fit(layer["name"], box_w - 16)),
            ("node-path", 35, _fit(where, box_w - 16)),
            ("node-figure", 52, _figures(line, box_w - 14) if line else "not measured"),
        )
        nodes.append(
            {
                "css": tint(layer["kind"]) + ("" if line else " dim"),
                "title": f"{layer['name']}: {path}",
                "x": f"{left:.1f}",
                "y": f"{top:.1f}",
                "wide": f"{box_w:.1f}",
                "high": box_h,
                "texts": [(css, f"{left + 12:.1f}", f"{top + down:.1f}", text) for css, down, text in texts],
            }
        )
    return Chain(
        ident,
        "The chain of layers",
        names,
        f"chain {'narrow' if narrow else 'wide'}",
        round(height),
        width,
        hosts=[
            (f"{left + 0.5:.1f}", f"{top + 0.5:.1f}", f"{wide - 1:.1f}", f"{high - 1:.1f}")
            for _host, left, top, wide, high in frames
        ],
        arrows=[
            _arrow(place[layer["name"]], place[layer["parent"]], box_w, box_h, narrow)
            for layer in layers
            if layer.get("parent") in place
        ],
        hostnames=[
            (f"{left + pad:.1f}", f"{top + 17:.1f}", _fit(host, wide - 2 * pad))
            for host, left, top, wide, _high in frames
        ],
        nodes=nodes,
    )


def _layout(layers: list[Layer], narrow: bool) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """Slot (place along the chain) and lane of every layer by name, and [(host, first slot, last slot)] with each host in one piece.

    Between the ends of a chain nothing else stands in its lane, or an arrow would run through it and tell of a way that is not there.
    """
    devices = [layer for layer in layers if layer["kind"] != "ceiling"]
    slots, bands = _slots(devices, layers)
    lanes, taken = _lanes(devices, slots)
    for layer in layers:
        if layer["kind"] == "ceiling":
            first, last = next((first, last) for host, first, last in bands if host == layer["host"])
            lane_limit = max(lanes.values(), default=0) + 1
            free = [
                (slot, lane)
                for slot in range(last, first - 1, -1)
                for lane in range(lane_limit)
                if (lane, slot) not in taken
            ]
            if not narrow or not (free or first == 0):
                # A lane of its own, if need be.
                slots[layer["name"]], lanes[layer["name"]] = (
                    first,
                    next(lane for lane in range(lane_limit + 1) if (lane, first) not in taken),
                )
            else:
                # A phone has no room for a lane more: a free place, else one below the whole chain, where no arrow passes.
                below = next(lane for lane in range(len(layers)) if (lane, -1) not in taken)
                slots[layer["name"]], lanes[layer["name"]] = free[0] if free else (-1, below)
            taken.add((lanes[layer["name"]], slots[layer["name"]]))
    if -1 in slots.values():
        slots = {name: slot + 1 for name, slot in slots.items()}
        bands = [(host, first + 1 if first else 0, last + 1) for host, first, last in bands]
    return slots, lanes, bands


def _slots(devices: list[Layer], layers: list[Layer]) -> tuple[dict[str, Any], list[Any]]:
    """Hosts in chain order, in each a slot a kind, or beyond what stands below it; a host with nothing but a ceiling has one slot."""
    slots, bands, position = {}, [], 0
    for host in dict.fromkeys(layer["host"] for layer in devices + layers):
        mine = [layer for layer in devices if layer["host"] == host]
        kinds = list(dict.fromkeys(layer["kind"] for layer in mine))
        places = _places({layer["name"]: layer for layer in mine}, kinds)
        columns = sorted(set(places.values()))
        slots.update({name: position + columns.index(place) for name, place in places.items()})
        bands.append((host, position, position + max(1, len(columns)) - 1))
        position += max(1, len(columns))
    return slots, bands


def _places(mine: dict[str, Any], kinds: list[str]) -> dict[str, float]:
    """Where each layer of a host stands by its kind; one that stands on a layer of a later kind, such as an export over NFS, just beyond that."""
    places: dict[str, float] = {}
    for name in mine:
        way, at = [], name
        while at in mine and at not in way:
            way.append(at)
            at = mine[at].get("parent")
        place = -1.0
        for at in reversed(way):
            place = max(float(kinds.index(mine[at]["kind"])), place + 1 / (len(mine) + 1))
        places[name] = place
    return places


def _lanes(devices: list[Layer], slots: dict[str, Any]) -> tuple[dict[str, Any], set[Any]]:
    """Longest chains first; a layer shared by several chains stays in the first; a lane is used again where it is free."""
    by_name = {layer["name"]: layer for layer in devices}
    parents = {layer.get("parent") for layer in devices}
    chains = []
    for leaf in [layer for layer in devices if layer["name"] not in parents] + devices:
        chain: list[Any] = []
        name: Any = leaf["name"]
        while name in by_name and name not in chain:
            chain.append(name)
            name = by_name[name].get("parent")
        chains.append(chain)
    lanes: dict[str, Any] = {}
    taken: set[Any] = set()
    for chain in sorted(chains, key=lambda chain: (-len(chain), chain[0])):
        mine = [name for name in chain if name not in lanes]
        if not mine:
            continue
        places = [slots[name] for name in mine]
        span = range(min(places), max(places) + 1)
        lane = 0
        while any((lane, slot) in taken for slot in span):
            lane += 1
        lanes.update(dict.fromkeys(mine, lane))
        taken.update((lane, slot) for slot in span)
    return lanes, taken


def _arrow(child: tuple[Any, ...], parent: tuple[Any, ...], box_w: float, box_h: float, narrow: bool) -> str:
    """The path of an arrow."""
    if narrow:
        x1, y1, x2, y2 = child[0] + box_w / 2, child[1] + box_h, parent[0] + box_w / 2, parent[1] - 2
        middle = (y1 + y2) / 2
        return f"M{x1:.1f} {y1:.1f}C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}"
    x1, y1, x2, y2 = child[0], child[1] + box_h / 2, parent[0] + box_w + 2, parent[1] + box_h / 2
    middle = (x1 + x2) / 2
    return f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
