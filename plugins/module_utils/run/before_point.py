# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's memory and devices just before a point is measured."""

from __future__ import annotations

import os
import stat
import time
from typing import Any

from ..linux import memory_limits
from ..linux.host import read_text
from ..linux.watch import counters
from ..linux.watch import memory_use as memory
from ..workload.point import Point
from ..workload.workload import block_bounds, extent


def memory_of(job: Point) -> dict[str, object]:
    """The memory that the host has left just before a point; of one through the page cache also how much of its range is there already."""
    host_memory: dict[str, Any] = {"available_bytes": memory_limits.memory(read_text).available_bytes or 0}
    if job["path"] is not None and not job["workload"]["direct"]:
        host_memory["cached_bytes"] = sum(cached_bytes(job))
    return host_memory


def cached_bytes(job: Point) -> list[int]:
    """How much of what a point uses is in the page cache, of each file."""
    offset, size = extent(job["workload"], job["size_bytes"])
    return [memory.resident_bytes(path, offset, size) for path in _used_files(job)]


def _used_files(job: Point) -> list[str]:
    """The files that a point measures: of a layer with a file per worker, as many as it has workers."""
    return list(job["files"][: job["workload"]["workers"]]) if "files" in job else [job["path"]]


def used_bytes(job: Point) -> int:
    return int(extent(job["workload"], job["size_bytes"])[1]) * len(_used_files(job))


def clock_ahead_s() -> float:
    """By how much the clock on the wall is ahead of the one that only counts."""
    return time.time() - time.monotonic()


def seen_by_device(job: Point, device: str | None) -> tuple[bool, bool]:
    """(whether the device counts the bytes of this job and nothing else, whether its I/Os too)."""
    # Data written to a page cache or a file system reach the device in other pieces, and verifying reads are not reads of the workload.
    if (
        device is None
        or not job["workload"]["direct"]
        or "verify" in job["workload"]
        or not stat.S_ISBLK(os.stat(job["path"]).st_mode)
    ):
        return False, False
    whole = counters.unsplit_bytes(device)
    return True, whole is not None and block_bounds(job["workload"])[1] <= whole
