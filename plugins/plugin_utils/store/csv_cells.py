# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells of a line of results.csv that follow from a point alone, whichever points are beside it. The index of a run keeps them as text.

Writing the digits of ten thousand points takes longer than reading them back.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils.result.derived import supported, thin
from ...module_utils.result.result import PERCENTILES
from .spreadsheet import harmless

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
STEADY = ("steady", "metric", "excursion_percent", "slope_percent")
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
ENGINE = {"engine": "name", "engine_version": "version", "ioengine": "ioengine"}
RECORDED = ("raw", "job")
BEFORE = (*FIXED, *ENGINE)
# The columns of a workload are between these: their number depends on all workloads of a run.
AFTER = (
    *(f"{direction}_{metric}" for direction in DIRECTIONS for metric in METRICS),
    *(f"cpu_{key}" for key in CPU),
    *(f"steady_state_{key}" for key in STEADY),
    *(f"{kind}_{key}" for kind in RECORDED for key in ("file", "sha256", "state")),
    "flags",
    "failures",
)
BETWEEN = "\x1e"  # of the two texts of a point


class _Pieces:
    """A list of pieces, in the place of the file that csv.writer takes."""

    def __init__(self, pieces: list[str]) -> None:
        self.write = pieces.append


_written: list[str] = []
_writer = csv.writer(_Pieces(_written), lineterminator="\n")


def text(values: Iterable[object]) -> str:
    """Cells as they are in a longer line, each with the comma before it."""
    cells = [None, *values]
    if len(cells) == 1:
        return ""
    _writer.writerow(cells)
    return _written.pop()[:-1]


def before(point: Mapping[str, Any]) -> str:
    engine = point["engine"]
    return text(map(safe, (*map(point.get, FIXED), *map(engine.get, ENGINE.values()))))


def after(point: Mapping[str, Any]) -> str:
    steady = point.get("steady_state") or {}
    parts = (without_thin(part) if (part := point.get(direction)) else {} for direction in DIRECTIONS)
    files = [point["files"].get(kind) or {} for kind in RECORDED]
    return text(
        [
            *(part.get(metric) for part in parts for metric in METRICS),
            *map(point["cpu"].get, CPU),
            *map(safe, map(steady.get, STEADY)),
            *(
                safe(value)
                for file in files
                for value in (file.get("path") or file.get("name"), file.get("sha256"), file.get("state"))
            ),
            safe(" ".join(map(str, point["flags"]))),
            safe("; ".join(str(failure.get("message") or failure.get("code")) for failure in point["failures"])),
        ]
    )


def kept(point: Mapping[str, Any]) -> str | None:
    """Both texts for an index; None of a point whose line is to be made each time."""
    try:
        texts = (before(point), after(point))
        "".join(texts).encode()
    except (AttributeError, KeyError, TypeError, ValueError, csv.Error):
        return None  # a stranger's point, whose index serves others than the writer of this file, too
    return None if BETWEEN in "".join(texts) else BETWEEN.join(texts)


def safe(value: object) -> object:
    return harmless(value) if type(value) is str else value


def without_thin(part: dict[str, object]) -> dict[str, Any]:
    """A direction without the percentiles that too few I/Os are beyond."""
    ios = part.get("ios")
    if isinstance(ios, (int, float)) and supported(ios, HIGHEST):
        return part
    gone = thin(part, PERCENTILES)
    return {key: value for key, value in part.items() if key not in gone} if gone else part
