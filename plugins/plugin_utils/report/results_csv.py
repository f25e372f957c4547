# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The points of a report as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..store import csv_cells
from ..store.alike import lent
from ..store.point_index import Texts
from .nouns import Report

STALL = ("total_s", "longest_s", "running_percent")


class _Columns:
    """The columns that depend on the points: keys of workloads, bounds of percentiles that no histogram has, and figures of flushes."""

    def __init__(self, points: list[dict[str, Any]]) -> None:
        self._made: dict[int, str] = {}
        workloads = {id(point["workload"]): point["workload"] for point in points}
        self.workload = sorted(
            {key for of in workloads.values() for key, value in of.items() if not isinstance(value, (dict, list))}
        )
        self.bounds = sorted(
            (direction, key)
            for direction in csv_cells.DIRECTIONS
            for key in _keys(points, direction)
            if key.endswith(("_lower_ns", "_upper_ns"))
        )
        stall, sync = _keys(points, "stall"), _keys(points, "sync")
        self.stall = [key for key in STALL if key in stall]
        self.sync = [metric for metric in csv_cells.METRICS if metric in sync]

    def head(self) -> str:
        # The request and the measurement are two columns: runtime_s is the measured one.
        workload = (f"workload_{key}" if key in csv_cells.FIXED else key for key in self.workload)
        last = [
            *(f"{direction}_{key}" for direction, key in self.bounds),
            *(f"sync_{metric}" for metric in self.sync),
            *(f"stall_{key}" for key in self.stall),
        ]
        return _line(
            csv_cells.text(csv_cells.BEFORE),
            csv_cells.text(workload),
            csv_cells.text(csv_cells.AFTER),
            csv_cells.text(last),
        )

    def line(self, point: dict[str, Any], known: str | None) -> str:
        """known: its text in an index."""
        before, between, after = (known or "").partition(csv_cells.BETWEEN)
        if not between:
            before, after = csv_cells.before(point), csv_cells.after(point)
        return _line(before, self._settings(point["workload"]), after, self._last(point))

    def _settings(self, workload: Mapping[str, object]) -> str:
        """The cells of a workload that many points have in common: made once for each in memory."""
        if (known := self._made.get(id(workload))) is None:
            known = self._made[id(workload)] = csv_cells.text(
                csv_cells.safe(workload.get(key)) for key in self.workload
            )
        return known

    def _last(self, point: dict[str, Any]) -> str:
        if not (self.bounds or self.sync or self.stall):
            return ""
        stall = point.get("stall") or {}
        parts = {
            direction: csv_cells.without_thin(point.get(direction) or {})
            for direction in (*csv_cells.DIRECTIONS, "sync")
        }
        return csv_cells.text(
            [
                *(parts[direction].get(key) for direction, key in self.bounds),
                *map(parts["sync"].get, self.sync),
                *map(csv_cells.safe, map(stall.get, self.stall)),
            ]
        )


def _line(*texts: str) -> str:
    return f"{''.join(texts)[1:]}\n"


def _keys(points: Iterable[dict[str, dict[str, object]]], name: str) -> set[str]:
    """All keys that this part of the points has. Most have the same, so that these are looked through once."""
    return set().union(*{tuple(part) for point in points if (part := point.get(name))})


def results_csv(report: Report) -> Iterator[str]:
    """One row per point, full precision, an empty cell where nothing was measured; a row per piece. From the index where that has it."""
    columns = _Columns(report.points)
    yield columns.head()
    for point, known in lent(report.points, Texts.cells):
        yield columns.line(point, known)
