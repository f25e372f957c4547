# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The points of a report as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...module_utils.result.derived import supported, thin
from ...module_utils.result.result import PERCENTILES
from ..store.spreadsheet import harmless
from .nouns import Report

METRICS = (
    "ios",
    "bytes",
    "iops",
    "bandwidth_bytes_s",
    "latency_mean_ns",
    "latency_min_ns",
    "latency_max_ns",
    "latency_stddev_ns",
    *PERCENTILES.values(),
)
CPU = ("user_percent", "system_percent", "host_busy_percent", "busiest_core_percent", "us_per_io", "mhz_per_iops")
HIGHEST = max(PERCENTILES)
STALL = ("total_s", "longest_s", "running_percent")
STEADY = ("steady", "metric", "excursion_percent", "slope_percent")


class _Pieces:
    """A list of pieces, in the place of the file that csv.writer takes."""

    def __init__(self, pieces: list[str]) -> None:
        self.write = pieces.append


# Columns of every point, before its workload and its figures.
FIXED = (
    "point_id",
    "layer",
    "layer_kind",
    "host",
    "path",
    "workload_id",
    "repetition",
    "status",
    "variant",
    "order",
    "started_utc",
    "finished_utc",
    "runtime_s",
)
DIRECTIONS = ("total", "read", "write")


class _Columns:
    """The columns that depend on the points: keys of workloads, bounds of percentiles that no histogram has, and figures of flushes."""

    def __init__(self, points: list[dict[str, Any]]) -> None:
        self._made: dict[tuple[int, str], list[object]] = {}
        workloads = {id(point["workload"]): point["workload"] for point in points}
        self.workload = sorted(
            {key for of in workloads.values() for key, value in of.items() if not isinstance(value, (dict, list))}
        )
        self.bounds = sorted(
            (direction, key)
            for direction in DIRECTIONS
            for key in _keys(points, direction)
            if key.endswith(("_lower_ns", "_upper_ns"))
        )
        stall, sync = _keys(points, "stall"), _keys(points, "sync")
        self.stall = [key for key in STALL if key in stall]
        self.sync = [metric for metric in METRICS if metric in sync]

    def head(self) -> list[str]:
        return [
            *FIXED,
            "engine",
            "engine_version",
            "ioengine",
            # The request and the measurement are two columns: runtime_s is the measured one.
            *(f"workload_{key}" if key in FIXED else key for key in self.workload),
            *(f"{direction}_{metric}" for direction in DIRECTIONS for metric in METRICS),
            *(f"cpu_{key}" for key in CPU),
            *(f"steady_state_{key}" for key in STEADY),
            *(f"{kind}_{key}" for kind in ("raw", "job") for key in ("file", "sha256", "state")),
            "flags",
            "failures",
            *(f"{direction}_{key}" for direction, key in self.bounds),
            *(f"sync_{metric}" for metric in self.sync),
            *(f"stall_{key}" for key in self.stall),
        ]

    def row(self, point: dict[str, Any]) -> list[object]:
        steady, stall = point.get("steady_state") or {}, point.get("stall") or {}
        total, read, write = (without_thin(part) if (part := point.get(direction)) else {} for direction in DIRECTIONS)
        parts = {"total": total, "read": read, "write": write}
        flushed = without_thin(point.get("sync") or {}) if self.sync else {}
        files = [point["files"].get(kind) or {} for kind in ("raw", "job")]
        return [
            *map(safe, map(point.get, FIXED)),
            *self._settings(point["engine"], ("name", "version", "ioengine")),
            *self._settings(point["workload"], self.workload),
            *map(total.get, METRICS),
            *map(read.get, METRICS),
            *map(write.get, METRICS),
            *map(point["cpu"].get, CPU),
            *map(safe, map(steady.get, STEADY)),
            *(
                safe(value)
                for file in files
                for value in (file.get("path") or file.get("name"), file.get("sha256"), file.get("state"))
            ),
            safe(" ".join(map(str, point["flags"]))),
            safe("; ".join(str(failure.get("message") or failure.get("code")) for failure in point["failures"])),
            *(parts[direction].get(key) for direction, key in self.bounds),
            *map(flushed.get, self.sync),
            *map(safe, map(stall.get, self.stall)),
        ]

    def _settings(self, part: Mapping[str, object], keys: Sequence[str]) -> list[object]:
        """The cells of a mapping that many points have in common: made once for each in memory."""
        if (known := self._made.get((id(part), keys[0] if keys else ""))) is None:
            known = self._made[id(part), keys[0] if keys else ""] = [safe(part.get(key)) for key in keys]
        return known


def _keys(points: Iterable[dict[str, dict[str, object]]], name: str) -> set[str]:
    """All keys that this part of the points has. Most have the same, so that these are looked through once."""
    return set().union(*{tuple(part) for point in points if (part := point.get(name))})


def safe(value: object) -> object:
    return harmless(value) if type(value) is str else value


def without_thin(part: dict[str, object]) -> dict[str, Any]:
    """A direction without the percentiles that too few I/Os are beyond."""
    ios = part.get("ios")
    if isinstance(ios, (int, float)) and supported(ios, HIGHEST):
        return part
    gone = thin(part, PERCENTILES)
    return {key: value for key, value in part.items() if key not in gone} if gone else part


def results_csv(report: Report) -> Iterator[str]:
    """One row per point, full precision, an empty cell where nothing was measured; a row per piece."""
    columns = _Columns(report.points)
    written: list[str] = []
    writer = csv.writer(_Pieces(written), lineterminator="\n")
    writer.writerow(columns.head())
    for point in report.points:
        writer.writerow(columns.row(point))
        yield "".join(written)
        written.clear()
