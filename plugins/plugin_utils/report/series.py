# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines, curves and lanes of charts: a series is one line, curve or lane of a chart, with its name and the classes of its colour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..store.cells import Figure


@dataclass(frozen=True)
class Series:
    name: str
    css: str


@dataclass(frozen=True)
class Line(Series):
    """Figures against a value on the x axis."""

    points: list[tuple[Any, Figure]]


@dataclass(frozen=True)
class Load(Series):
    """Points of (the load in words, IOPS, mean latency) by rising load; knee: the index of its bend, None without one."""

    points: list[tuple[str, Figure, Figure]]
    knee: int | None


@dataclass(frozen=True)
class Course(Series):
    """Pieces of (second, value), with a gap between them where samples are missing; window: the seconds that the figures are of."""

    pieces: list[list[tuple[float, float]]]
    window: tuple[float, float] | None


@dataclass(frozen=True)
class Curve(Series):
    """A latency distribution as (share of all I/Os, latency_ns)."""

    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Lane(Series):
    """A latency distribution as a histogram's bins."""

    bins: Mapping[str, int]
    p50_ns: float | None
    p99_ns: float | None
