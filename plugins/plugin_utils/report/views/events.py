# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load while the way to a layer was lost: the dips of all rounds over each other, and their figures."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from ....module_utils.core import units
from .. import charts
from ..nouns import Report
from ..series import Course
from ..tables import Field, Table, cell, words
from .base import Choices, Panel, Picture, View, numbered

LEAD = (
    "A steady load while a target was switched off and on again. Another host noted the times of the event; each line is a round, set to its event, "
    "and the band lasts from the event until it was undone. The stall is the longest stretch without any I/O, between two bounds."
)


def seconds(value: float) -> str:
    return f"{value:.1f} s"


def count(value: float) -> str:
    return f"{value:.0f}"


# Figure of an event: its title, and how it is written.
FIGURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "stalled_s": ("longest stall", seconds),
    "stall_least_s": ("stall, at least", seconds),
    "stall_most_s": ("stall, at most", seconds),
    "error_s": ("until I/O failed", seconds),
    "failed_ios": ("I/Os failed", count),
    "missing_ios": ("I/Os missing in the dip", count),
    "recovered_s": ("until the old rate", seconds),
}


def view(report: Report, choices: Choices) -> View | None:
    """A panel for each variant and layer that has events."""
    rounds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for point in report.points:
        if point.get("event"):
            rounds.setdefault((point["layer"], str(point.get("variant") or "")), []).append(point)
    panels = [
        _panel(f"event{index}", layer, variant, points, choices)
        for index, ((layer, variant), points) in enumerate(rounds.items())
    ]
    return View("events", "Lost way", LEAD, panels) if panels else None


def _panel(ident: str, layer: str, variant: str, points: list[dict[str, Any]], choices: Choices) -> Panel:
    before_s = max(-point["event"]["from_s"] for point in points)
    lines = [_course(numbered(place), point, before_s) for place, point in enumerate(points)]
    values = [value for line in lines for piece in line.pieces for _t_s, value in piece]
    seconds_s = max(t_s for line in lines for piece in line.pieces for t_s, _value in piece)
    away_s = statistics.median(point["event"]["for_s"] for point in points)
    # A layer that was measured in several variants has its variant in its name already.
    heading = layer if not variant or layer.endswith(f"({variant})") else f"{layer}, {variant}"
    chart = charts.dip_chart(
        ident,
        f"IOPS around the event, {heading}",
        charts.value_axis(values, units.iops, "IOPS", "iops", False, room=6),
        seconds_s,
        (before_s, min(before_s + away_s, seconds_s)),
        lines,
    )
    return Panel(
        heading,
        choices.only(layer),
        [Picture("M-iops", "", chart)],
        [(line.name, line.css) for line in lines],
        _table(heading, points),
        _note(points),
    )


def _course(css: str, point: dict[str, Any], before_s: float) -> Course:
    event = point["event"]
    first_s, window_s = before_s + event["from_s"], event["window_s"]
    samples = [(first_s + (place + 0.5) * window_s, number / window_s) for place, number in enumerate(event["counts"])]
    return Course(f"round {point['repetition']}", css, [samples], None)


def _note(points: list[dict[str, Any]]) -> str:
    """The range over the rounds in a sentence, and what became of the data."""
    events = [point["event"] for point in points]
    stalls = [event["stalled_s"] for event in events]
    text = f"The longest stall is {seconds(min(stalls))}."
    if len(stalls) > 1:
        text = f"The longest stall is {seconds(min(stalls))} to {seconds(max(stalls))}, median {seconds(statistics.median(stalls))}, in {len(stalls)} rounds."
    failed = sum(event["failed_ios"] for event in events)
    text += f" {failed:.0f} I/Os failed." if failed else " No I/O failed."
    late = sum("recovered_s" not in event for event in events if event["affected"])
    text += f" In {late} the old rate did not come back while it was measured." if late else ""
    verified = [event["verified"] for event in events if "verified" in event]
    if verified:
        bad = verified.count(False)
        text += (
            f" In {bad} the data were not verified."
            if bad
            else " All data whose writes were answered were read back and are right."
        )
    return text


def _table(heading: str, points: list[dict[str, Any]]) -> Table:
    head = [("Round", True), *((title, True) for title, _word in FIGURES.values()), ("data", False)]
    rows: list[tuple[str, str, list[Field]]] = []
    for point in points:
        event = point["event"]
        fields = [
            cell(event.get(key), "" if event.get(key) is None else word(event[key]))
            for key, (_title, word) in FIGURES.items()
        ]
        state = {True: "verified", False: "not verified"}.get(event.get("verified"), "")
        rows.append(("", str(point["repetition"]), [*fields, words(state)]))
    return Table(f"Events: {heading}", head, rows)
