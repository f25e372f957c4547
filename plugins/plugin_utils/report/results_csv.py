# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The points of a report as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

from ...module_utils.result.derived import thin
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
        self.workload = sorted(
            {key for point in points for key, value in point["workload"].items() if not isinstance(value, (dict, list))}
        )
        self.bounds = sorted(
            {
                (direction, key)
                for direction in DIRECTIONS
                for key in set().union(*(point.get(direction) or {} for point in points))
                if key.endswith(("_lower_ns", "_upper_ns"))
            }
        )
        self.stall = [key for key in STALL if any(key in (point.get("stall") or {}) for point in points)]
        self.sync = [metric for metric in METRICS if any(metric in (point.get("sync") or {}) for point in points)]

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
        steady = point.get("steady_state") or {}
        parts = {direction: without_thin(part) if (part := point.get(direction)) else {} for direction in DIRECTIONS}
        files = [point["files"].get(kind) or {} for kind in ("raw", "job")]
        return [
            *map(point.get, FIXED),
            *map(point["engine"].get, ("name", "version", "ioengine")),
            *map(point["workload"].get, self.workload),
            *(figure for part in parts.values() for figure in map(part.get, METRICS)),
            *map(point["cpu"].get, CPU),
            *map(steady.get, STEADY),
            *(
                value
                for file in files
                for value in (file.get("path") or file.get("name"), file.get("sha256"), file.get("state"))
            ),
            " ".join(map(str, point["flags"])),
            "; ".join(str(failure.get("message") or failure.get("code")) for failure in point["failures"]),
            *(parts[direction].get(key) for direction, key in self.bounds),
            *(without_thin(point.get("sync") or {}).get(metric) for metric in self.sync),
            *map((point.get("stall") or {}).get, self.stall),
        ]


def without_thin(part: dict[str, object]) -> dict[str, Any]:
    """A direction without the percentiles that too few I/Os are beyond."""
    gone = thin(part, PERCENTILES)
    return {key: value for key, value in part.items() if key not in gone} if gone else part


def results_csv(report: Report) -> Iterator[str]:
    """One row per point, full precision, an empty cell where nothing was measured; a row per piece."""
    columns = _Columns(report.points)
    written: list[str] = []
    writer = csv.writer(_Pieces(written), lineterminator="\n")
    writer.writerow(columns.head())
    for point in report.points:
        writer.writerow([harmless(value) if type(value) is str else value for value in columns.row(point)])
        yield "".join(written)
        written.clear()
