# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IOPS, latency and the state of the host over the seconds of one repetition per layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....module_utils.core import units
from ...store.cells import Cell
from .. import charts, plot
from ..nouns import Report, Waterfall
from ..sentences import workload_words
from ..series import Course
from .base import Choices, Picture

# column: (axis title, how it is written, unit)
COLUMNS: dict[str, tuple[str, Callable[[Any], str], str]] = {
    "iops": ("IOPS", units.iops, "iops"),
    "latency_mean_ns": ("mean latency", units.latency, "ns"),
    "cpu_busy_percent": ("CPU busy of the host, %", lambda value: f"{value:.0f} %", "%"),
    "load_1min": ("load of the host, mean of a minute", lambda value: f"{value:.3g}", ""),
    "load_5min": ("load of the host, mean of 5 minutes", lambda value: f"{value:.3g}", ""),
    "load_15min": ("load of the host, mean of 15 minutes", lambda value: f"{value:.3g}", ""),
    "memory_used_percent": ("memory of the host in use, %", lambda value: f"{value:.0f} %", "%"),
    "cache_hit_percent": ("hits of the cache, %", lambda value: f"{value:.0f} %", "%"),
}


def pictures(ident: str, waterfall: Waterfall, report: Report, choices: Choices, room: int) -> dict[str, object] | None:
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
    rows = [
        (name, lines, values)
        for name in COLUMNS
        for lines, values in [_lines(name, drawn, report, choices, room)]
        if lines
    ]
    if not rows:
        return None
    seconds = max(max(times) for _measured, _series, times in drawn)
    ramps = _ramps(drawn[0][1], drawn[0][2])
    charted = [
        Picture(
            f"M-{name}",
            "",
            charts.time_chart(
                f"{ident}-s{index}",
                f"{COLUMNS[name][0]} over time, {workload_words(waterfall.workload)}",
                _axis(name, values),
                seconds,
                ramps,
                lines,
                index == len(rows) - 1,
            ),
        )
        for index, (name, lines, values) in enumerate(rows)
    ]
    shown = {line.name for _name, lines, _values in rows for line in lines}
    return {
        "charts": charted,
        "legend": [(measured.layer, choices.layer(measured.layer)) for measured, _series, _times in drawn],
        "left_out": [step.cell.layer for step in waterfall.steps if step.cell.layer not in shown],
        "ramp": bool(ramps),
        "window": any(report.judged.get(measured.shown) for measured, _series, _times in drawn),
    }


def _lines(
    name: str, drawn: list[tuple[Cell, dict[str, Any], list[Any]]], report: Report, choices: Choices, room: int
) -> tuple[list[Course], list[float]]:
    """(the lines of one column, all their values). One sample is a figure, not a course."""
    lines, values = [], []
    for measured, series, times in drawn:
        samples = column_of(series, name)
        known = [value for value in samples or () if value is not None]
        if samples and len(known) > 1:
            values += known
            pieces = _pieces(list(zip(times, samples)), room)
            window = _window(report.judged.get(measured.shown), max(times))
            lines.append(Course(measured.layer, choices.layer(measured.layer), pieces, window))
    return lines, values


def _axis(name: str, values: list[float]) -> plot.Axis:
    title, word, unit = COLUMNS[name]
    if unit == "%":
        return plot.linear_axis(100, lambda value: f"{value:.0f}", title, unit)
    # A log axis has no zero, and a second without any I/O is what the picture is there for.
    return charts.value_axis(values, word, title, unit, False if 0 in values else None, room=6)


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
