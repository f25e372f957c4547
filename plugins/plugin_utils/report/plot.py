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
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from markupsafe import Markup

from .markup import NOTHING, shapes

ACROSS, UP = 1000, 9999  # units of the nested picture: whole numbers fine enough for three digits on four decades
CHARACTER = 6.9  # width of a character of the 12 px label text, measured in Chromium
LABEL_GAP = 15
# Pixels across a chart of its own, one of a pair, and any on a phone: only for labels, which must not overlap.
ABOUT, PAIRED, PHONE = 850, 320, 280
NINES = ((0.0, "0"), (0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99"), (0.99999, "99.999"))


@dataclass(frozen=True)
class Axis:
    """kind: linear, log or nines. ticks: [(value, label)]. unit shows the page's script how to write a value."""

    kind: str
    low: float
    high: float
    ticks: tuple[Any, ...]
    title: str
    unit: str = ""

    def at(self, value: float) -> float:
        """0..1 along the axis; a value beyond an end is drawn at the end."""
        low, high = self._ends
        return min(1.0, max(0.0, (_scale(self.kind, value) - low) / (high - low)))

    @cached_property
    def _ends(self) -> tuple[float, float]:
        return _scale(self.kind, self.low), _scale(self.kind, self.high)


def _scale(kind: str, value: float) -> float:
    if kind == "log":
        return math.log10(max(value, 1e-300))
    return nines(value) if kind == "nines" else value


def nines(share: float) -> float:
    """0 -> 0, 0.9 -> 1, 0.99 -> 2: the axis that gives the tail as much room as the bulk."""
    return -math.log10(max(1 - share, 1e-9))


def log_axis(
    values: Iterable[float], label: Callable[[float], str], title: str, unit: str = "", room: int = 10
) -> Axis:
    """From the 1, 2 or 5 of a decade below the values to the one above; labels at 1, 2, 5 if there is room, else at decades and the ends."""
    known = list(values)
    low, high = _round_down(min(known)), _round_up(max(known))
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


def linear_axis(high: float, label: Callable[[float], str], title: str, unit: str = "", low: float = 0.0) -> Axis:
    """From low (0 unless given) in four to six round steps."""
    rough = (high - low) / 5 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= rough * 0.999999)
    count = max(1, math.ceil((high - low) / step - 1e-9))
    marks = [low + index * step for index in range(count + 1)]
    return Axis("linear", low, marks[-1], tuple((mark, label(mark) if mark else "0") for mark in marks), title, unit)


def steps_axis(values: Iterable[float], label: Callable[[float], str], title: str, unit: str = "") -> Axis:
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


# -- the parts of a chart ------------------------------------------------------------------------------------------


def line(points: list[Any], x: Axis, y: Axis, css: str) -> Markup:
    """A polyline of [(x, y)] for the stretching part of a chart."""
    drawn = " ".join(f"{round(ACROSS * x.at(left))},{UP - round(UP * y.at(value))}" for left, value in points)
    markup: Markup = shapes().line(css, drawn)
    return markup


def steps(points: list[tuple[float, float]], x: Axis, y: Axis, css: str) -> Markup:
    """A staircase of [(x, y)]: each value holds up to the next x; the first point is where it starts from, the last where it comes down to."""
    left, value = points[0]
    drawn, level = f"M{round(ACROSS * x.at(left))} {UP - round(UP * y.at(value))}", value
    for left, value in points[1:]:
        if value != level:
            drawn += f"H{round(ACROSS * x.at(left))}V{UP - round(UP * y.at(value))}"
            level = value
    markup: Markup = shapes().path(f"line {css}", drawn)
    return markup


def stripe(begin: float, end: float, x: Axis, css: str, title: str) -> Markup:
    """A part of the x axis marked over the full height, for the stretching part of a chart."""
    left, right = round(ACROSS * x.at(begin)), round(ACROSS * x.at(end))
    markup: Markup = shapes().stripe(css, left, right - left, UP, title)
    return markup


def bars(points: list[Any], x: Axis, y: Axis, css: str) -> Markup:
    """Bars over the repetitions, for the stretching part. points: [((x, low, high), (y, low, high))]."""
    drawn = ""
    for (left, first, last), (value, low, high) in points:
        if low != high:
            drawn += f"M{round(ACROSS * x.at(left))} {UP - round(UP * y.at(low))}V{UP - round(UP * y.at(high))}"
        if first != last:
            drawn += f"M{round(ACROSS * x.at(first))} {UP - round(UP * y.at(value))}H{round(ACROSS * x.at(last))}"
    return shapes().path(f"bars {css}", drawn) if drawn else NOTHING


def dot(
    left: float, value: float, x: Axis, y: Axis, height: int, text: str = "", radius: float = 4, css: str = "dot"
) -> tuple[str, ...]:
    """A dot for shapes().dots or group, with its words, which the page's script shows under the pointer and a browser without it after a while."""
    return css, percent(x.at(left)), _pixels((1 - y.at(value)) * height), f"{radius:g}", text


def beside(ends: list[Any], x: Axis, y: Axis, height: int) -> Markup:
    """The names of lines at their last points, for lines that do not end at the edge. ends: [(x value, y value, name, css)]."""
    placed = []
    taken: list[tuple[float, float, float]] = []
    for left, value, name, css in sorted(ends, key=lambda end: (end[1], end[2])):
        at, up, wide = x.at(left) * ABOUT, (1 - y.at(value)) * height + 4, CHARACTER * len(name)
        # Upwards, until it stands free of those below it.
        while any(abs(up - other) < LABEL_GAP and at < right and begin < at + wide for begin, right, other in taken):
            up -= 1
        taken.append((at, at + wide, up))
        placed.append((css, percent(x.at(left)), f"{up:.0f}", name))
    markup: Markup = shapes().names(placed)
    return markup


def room_beside(ends: list[Any], x: Axis) -> float:
    """Pixels right of the plot that these names need."""
    return max(16.0, *(20 + CHARACTER * len(name) - (1 - x.at(left)) * ABOUT for left, _value, name, _css in ends))


def percent(share: float) -> str:
    return f"{100 * share:.2f}".rstrip("0").rstrip(".")


def _pixels(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class Chart:
    """The parts of every chart, wherever it is drawn. width: in pixels, None where the chart is as wide as its place; right: pixels right of the plot area."""

    ident: str
    title: str
    description: str
    css: str
    height: int
    width: int | None = None
    right: str = "16"
    scales: tuple[Any, ...] | None = None  # of the axes, for the page's script

    @property
    def body(self) -> Markup:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Plot(Chart):
    """lines: parts that stretch; marks: parts that keep their size; about, phone: how wide it will be; upper: another is below it that names their common axis.

    ends: [(name, css, y position 0..1 from the bottom)], labels at the right edge, which make their own room.
    """

    ACROSS, UP = ACROSS, UP
    x: Axis
    y: Axis
    lines: Markup = NOTHING
    marks: Markup = NOTHING
    ends: list[Any] = field(default_factory=list)
    about: int = PAIRED
    upper: bool = False
    phone: int = PHONE

    @property
    def body(self) -> Markup:
        markup: Markup = shapes().plot(self)
        return markup

    @property
    def rules(self) -> str:
        """The lines at the ticks, as one path of the stretching part."""
        across = "".join(f"M0 {UP - round(UP * self.y.at(value))}H{ACROSS}" for value, _label in self.y.ticks)
        return across + "".join(f"M{round(ACROSS * self.x.at(value))} 0V{UP}" for value, _label in self.x.ticks)

    @property
    def ups(self) -> list[tuple[str, str]]:
        """[(pixels from the top, label)] of the ticks of y that have room."""
        ticks, last = [], math.inf
        for up, label in [((1 - self.y.at(value)) * self.height, label) for value, label in self.y.ticks]:
            if label and last - up >= LABEL_GAP - 2:
                ticks.append((_pixels(up + 4), label))
                last = up
        return ticks

    @property
    def ticks(self) -> list[tuple[str, str, bool]]:
        """[(percent from the left, label, whether a phone has no room for it)] of the ticks of x."""
        kept = _thinned([(self.x.at(value), label) for value, label in self.x.ticks], self.about)
        slim = _thinned(kept, self.phone)
        return [(percent(at), label, (at, label) not in slim) for at, label in kept]

    @property
    def leaders(self) -> list[object]:
        """[(css, y of the line's end, y of the leader's, y of the text, name)]: names beside the line ends, pushed apart."""
        placed, previous = [], -LABEL_GAP * 0.5
        for name, css, at in sorted(self.ends, key=lambda end: (-end[2], end[0])):
            up = (1 - at) * self.height
            previous = max(up, previous + LABEL_GAP)
            placed.append([name, css, up, previous])
        limit = self.height + 4.0
        for entry in reversed(placed):
            entry[3] = min(entry[3], limit)
            limit = entry[3] - LABEL_GAP
        return [(css, f"{up:.0f}", f"{label:.0f}", f"{label + 4:.0f}", name) for name, css, up, label in placed]


def frame(
    ident: str,
    title: str,
    description: str,
    x: Axis,
    y: Axis,
    height: int,
    lines: Markup,
    marks: Markup = NOTHING,
    ends: list[tuple[str, str, float]] | None = None,
    css: str = "",
    right: float = 16.0,
    about: int = PAIRED,
    upper: bool = False,
    phone: int = PHONE,
) -> Plot:
    """The whole chart; right: pixels of room where no ends make their own."""
    if ends:
        right = min(200.0, 24 + CHARACTER * max(len(name) for name, _css, _at in ends))
    return Plot(
        ident,
        title,
        description,
        f"plot {css}",
        height,
        right=f"{right:.0f}",
        scales=(
            f"{x.kind} {x.low:.6g} {x.high:.9g} {x.unit}",
            f"{y.kind} {y.low:.6g} {y.high:.6g} {y.unit}",
        ),
        x=x,
        y=y,
        lines=lines,
        marks=marks,
        ends=ends or [],
        about=about,
        upper=upper,
        phone=phone,
    )


def _thinned(labels: list[tuple[float, str]], width: int) -> list[tuple[float, str]]:
    """The labels that stand free of each other at this width; the first and the last are kept before any between."""
    kept: list[Any] = []
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


def end_of(points: list[tuple[float, float]], y: Axis) -> float:
    """Where the label of a line belongs: at its right-most point."""
    return y.at(max(points)[1])
