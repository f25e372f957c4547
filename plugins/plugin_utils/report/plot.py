# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Axes and frames of charts, as SVG text that fits every width.

A chart has a height in pixels and no width: what is drawn across is placed in percent, lines are drawn in a nested picture that
stretches (its strokes do not), and text keeps its size, so one picture serves screen, phone and paper. Margins are CSS: the outer
picture is exactly the plot area and its labels reach beyond it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

ACROSS, UP = 1000, 9999  # units of the nested picture: whole numbers fine enough for three digits on four decades
CHARACTER = 6.9  # width of a character of the 12 px label text, measured in Chromium
LABEL_GAP = 15
# Pixels across a chart of its own, one of a pair, and any on a phone: only for labels, which must not overlap.
ABOUT, PAIRED, PHONE = 850, 320, 280
NINES = ((0.0, "0"), (0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99"), (0.99999, "99.999"))


@dataclass(frozen=True)
class Axis:
    """kind: linear, log or nines. ticks: [(value, label)]. unit tells the page's script how to write a value."""

    kind: str
    low: float
    high: float
    ticks: tuple
    title: str
    unit: str = ""

    def at(self, value: float) -> float:
        """0..1 along the axis; what lies beyond an end is drawn at the end."""
        position = (_scale(self.kind, value) - _scale(self.kind, self.low)) / (
            _scale(self.kind, self.high) - _scale(self.kind, self.low)
        )
        return min(1.0, max(0.0, position))


def _scale(kind: str, value: float) -> float:
    if kind == "log":
        return math.log10(max(value, 1e-300))
    return nines(value) if kind == "nines" else value


def nines(share: float) -> float:
    """0 -> 0, 0.9 -> 1, 0.99 -> 2: the axis that gives the tail as much room as the bulk."""
    return -math.log10(max(1 - share, 1e-9))


def log_axis(values, label, title: str, unit: str = "", room: int = 10) -> Axis:
    """From the 1, 2 or 5 of a decade below the values to the one above; labels at 1, 2, 5 if there is room, else at decades and the ends."""
    low, high = _round_down(min(values)), _round_up(max(values))
    if high <= low:
        low, high = low / 2, high * 2
    decades = [10.0**power for power in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)]
    ticks = [step * decade for decade in decades for step in (1, 2, 5) if low * 0.999 <= step * decade <= high * 1.001]
    if len(ticks) > room:
        ticks = [low, *(tick for tick in decades if low * 1.9 <= tick <= high / 1.9), high]
    return Axis("log", low, high, tuple((tick, label(tick)) for tick in ticks), title, unit)


def _round_down(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value) + 1e-9)
    return next(step * power for step in (5, 2, 1) if step * power <= value * 1.000001)


def _round_up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value) + 1e-9)
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.999999)


def linear_axis(high: float, label, title: str, unit: str = "", low: float = 0.0) -> Axis:
    """From low (0 unless told) in four to six round steps."""
    rough = (high - low) / 5 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= rough * 0.999999)
    count = max(1, math.ceil((high - low) / step - 1e-9))
    marks = [low + index * step for index in range(count + 1)]
    return Axis("linear", low, marks[-1], tuple((mark, label(mark) if mark else "0") for mark in marks), title, unit)


def steps_axis(values, label, title: str, unit: str = "") -> Axis:
    """A log axis whose ticks are the very values that were measured: block sizes, queue depths, workers."""
    ordered = sorted(set(values))
    room = (ordered[-1] / ordered[0]) ** 0.04 if len(ordered) > 1 else 2.0
    return Axis(
        "log", ordered[0] / room, ordered[-1] * room, tuple((value, label(value)) for value in ordered), title, unit
    )


def nines_axis(end: float, title: str) -> Axis:
    """Percentiles up to the share that holds ``end`` nines."""
    high = 1 - 10.0**-end
    return Axis(
        "nines",
        0.0,
        high,
        tuple((share, label) for share, label in NINES if share <= high + 1e-12),
        title,
        "percentile",
    )


# -- what stands in a chart ------------------------------------------------------------------------------------------


def line(points: list, x: Axis, y: Axis, css: str) -> str:
    """A polyline of [(x, y)] for the stretching part of a chart."""
    drawn = " ".join(f"{round(ACROSS * x.at(left))},{UP - round(UP * y.at(value))}" for left, value in points)
    return f'<polyline class="line {css}" points="{drawn}"/>'


def steps(points: list, x: Axis, y: Axis, css: str) -> str:
    """A staircase of [(x, y)]: each value holds up to the next x; the first point is where it starts from, the last where it comes down to."""
    left, value = points[0]
    drawn, level = f"M{round(ACROSS * x.at(left))} {UP - round(UP * y.at(value))}", value
    for left, value in points[1:]:
        if value != level:
            drawn += f"H{round(ACROSS * x.at(left))}V{UP - round(UP * y.at(value))}"
            level = value
    return f'<path class="line {css}" d="{drawn}"/>'


def stripe(begin: float, end: float, x: Axis, css: str, title: str) -> str:
    """A part of the x axis marked over the full height, for the stretching part of a chart."""
    left, right = round(ACROSS * x.at(begin)), round(ACROSS * x.at(end))
    return f'<rect class="{css}" x="{left}" width="{right - left}" y="0" height="{UP}"><title>{escape(title)}</title></rect>'


def bars(points: list, x: Axis, y: Axis, css: str) -> str:
    """Bars over the repetitions, for the stretching part. points: [((x, low, high), (y, low, high))]."""
    drawn = ""
    for (left, first, last), (value, low, high) in points:
        if low != high:
            drawn += f"M{round(ACROSS * x.at(left))} {UP - round(UP * y.at(low))}V{UP - round(UP * y.at(high))}"
        if first != last:
            drawn += f"M{round(ACROSS * x.at(first))} {UP - round(UP * y.at(value))}H{round(ACROSS * x.at(last))}"
    return f'<path class="bars {css}" d="{drawn}"/>' if drawn else ""


def dot(
    left: float, value: float, x: Axis, y: Axis, height: int, text: str = "", radius: float = 4, css: str = "dot"
) -> str:
    """A dot with its words, which the page's script shows under the pointer and a browser without it after a while."""
    title = f"<title>{escape(text)}</title>" if text else ""
    return f'<circle class="{css}" cx="{_percent(x.at(left))}%" cy="{_pixels((1 - y.at(value)) * height)}" r="{radius:g}">{title}</circle>'


def beside(ends: list, x: Axis, y: Axis, height: int) -> str:
    """The names of lines at their last points, for lines that do not end at the edge. ends: [(x value, y value, name, css)]."""
    out, taken = [], []
    for left, value, name, css in sorted(ends, key=lambda end: (end[1], end[2])):
        at, up, wide = x.at(left) * ABOUT, (1 - y.at(value)) * height + 4, CHARACTER * len(name)
        # Upwards, until it stands free of those below it.
        while any(abs(up - other) < LABEL_GAP and at < right and begin < at + wide for begin, right, other in taken):
            up -= 1
        taken.append((at, at + wide, up))
        out.append(f'<text class="name {css}" x="{_percent(x.at(left))}%" y="{up:.0f}" dx="11">{escape(name)}</text>')
    return "".join(out)


def room_beside(ends: list, x: Axis) -> float:
    """Pixels right of the plot that these names need."""
    return max(16.0, *(20 + CHARACTER * len(name) - (1 - x.at(left)) * ABOUT for left, _value, name, _css in ends))


def _percent(share: float) -> str:
    return f"{100 * share:.2f}".rstrip("0").rstrip(".")


def _pixels(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


def frame(
    ident: str,
    title: str,
    said: str,
    x: Axis,
    y: Axis,
    height: int,
    lines: str,
    marks: str = "",
    ends: list | None = None,
    css: str = "",
    right: float = 16.0,
    about: int = PAIRED,
) -> str:
    """The whole chart. lines: what stretches; marks: what keeps its size; about: how wide it will be.

    ends: [(name, css, y position 0..1 from the bottom)], labels at the right edge, which make their own room; right: pixels of room otherwise.
    """
    if ends:
        right = min(200.0, 24 + CHARACTER * max(len(name) for name, _css, _at in ends))
    return (
        f'<svg class="chart plot {css}" style="height:{height}px;--r:{right:.0f}px" role="img" aria-labelledby="{ident}-t {ident}-d" '
        f'data-x="{x.kind} {x.low:.6g} {x.high:.9g} {x.unit}" data-y="{y.kind} {y.low:.6g} {y.high:.6g} {y.unit}">'
        f'<title id="{ident}-t">{escape(title)}</title><desc id="{ident}-d">{escape(said)}</desc>{labels(x, y, height, about)}'
        f'<svg class="area" viewBox="0 0 {ACROSS} {UP}" preserveAspectRatio="none" width="100%" height="{height}">{rules(x, y)}{lines}</svg>'
        f"{marks}{_ends(ends or [], height)}</svg>"
    )


def rules(x: Axis, y: Axis) -> str:
    """The lines at the ticks, as one path of the stretching part."""
    across = "".join(f"M0 {UP - round(UP * y.at(value))}H{ACROSS}" for value, _label in y.ticks)
    return f'<path class="grid" d="{across}{"".join(f"M{round(ACROSS * x.at(value))} 0V{UP}" for value, _label in x.ticks)}"/>'


def labels(x: Axis, y: Axis, height: int, about: int) -> str:
    """Titles of the axes and the labels of their ticks; those that a phone has no room for are of the class roomy."""
    kept = _thinned([(x.at(value), label) for value, label in x.ticks], about)
    slim = _thinned(kept, PHONE)
    ups, last = "", math.inf
    for up, label in [((1 - y.at(value)) * height, label) for value, label in y.ticks]:
        if label and last - up >= LABEL_GAP - 2:
            ups, last = ups + f'<text y="{_pixels(up + 4)}">{escape(label)}</text>', up
    acrosses = "".join(
        f'<text x="{_percent(at)}%" y="{height + 18}"{"" if (at, label) in slim else " class=" + chr(34) + "roomy" + chr(34)}>{escape(label)}</text>'
        for at, label in kept
    )
    return (
        f'<g class="axis"><text class="up" x="-54" y="-9">{escape(y.title)}</text><text x="50%" y="{height + 36}">{escape(x.title)}</text></g>'
        f'<g class="ups">{ups}</g><g class="ticks">{acrosses}</g>'
    )


def _thinned(labels: list, width: int) -> list:
    """The labels that stand free of each other at this width; the first and the last are kept before any between."""
    kept: list = []
    for at, label in labels:
        if not kept or at * width - kept[-1][0] * width >= (len(label) + len(kept[-1][1])) * CHARACTER / 2 + 6:
            kept.append((at, label))
    if labels and kept[-1] != labels[-1]:
        while (
            len(kept) > 1
            and (labels[-1][0] - kept[-1][0]) * width < (len(labels[-1][1]) + len(kept[-1][1])) * CHARACTER / 2 + 6
        ):
            kept.pop()
        kept.append(labels[-1])
    return kept


def _ends(ends: list, height: int) -> str:
    """Names beside the line ends, pushed apart, joined to their line by a thin leader."""
    if not ends:
        return ""
    placed, previous = [], -LABEL_GAP * 0.5
    for name, css, at in sorted(ends, key=lambda end: (-end[2], end[0])):
        up = (1 - at) * height
        previous = max(up, previous + LABEL_GAP)
        placed.append([name, css, up, previous])
    limit = height + 4.0
    for entry in reversed(placed):
        entry[3] = min(entry[3], limit)
        limit = entry[3] - LABEL_GAP
    return (
        '<svg class="ends" x="100%" overflow="visible">'
        + "".join(
            f'<g class="{css}"><path d="M2 {up:.0f}L13 {label:.0f}"/><text x="17" y="{label + 4:.0f}">{escape(name)}</text></g>'
            for name, css, up, label in placed
        )
        + "</svg>"
    )


def end_of(points: list, y: Axis) -> float:
    """Where the label of a line belongs: at its right-most point."""
    return y.at(max(points)[1])
