# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much memory this process can still have: what the host has available, or less where a control group above the process has a limit.

The limits are Linux' control groups, version 2 (memory.max, and memory.high, above which the kernel makes processes wait) and version 1
(memory.limit_in_bytes); the page cache of a group is given back before its limit counts.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from . import mounts
from .host import read_text

Reader = Callable[[str, str], str]
# Version: (files of limits, file of what is used, what of it is given back first, by memory.stat).
FILES = {
    "cgroup2": (("memory.max", "memory.high"), "memory.current", ("inactive_file", "active_file")),
    "cgroup": (("memory.limit_in_bytes",), "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")),
}


class Memory(NamedTuple):
    """total_bytes and available_bytes are None where the kernel does not say. limit: the file of the group that leaves less than the host; empty else."""

    total_bytes: int | None
    available_bytes: int | None
    limit: str = ""
    limit_bytes: int = 0

    def words(self) -> str:
        free_mib = (self.available_bytes or 0) >> 20
        if not self.limit:
            return f"this host has {free_mib} MiB available"
        return f"the control group of the task has {free_mib} MiB available of its limit of {self.limit_bytes >> 20} MiB ({self.limit})"

    def remedy(self) -> str:
        return "raise that limit" if self.limit else "give the host more memory"


def memory(read: Reader = read_text) -> Memory:
    """read(path, default): the text of a file."""
    values = dict(re.findall(r"^(\w+):\s+(\d+) kB", read("/proc/meminfo", ""), re.M))
    total, available = (int(values[key]) << 10 if key in values else None for key in ("MemTotal", "MemAvailable"))
    least = Memory(total, available)
    for left, limit, path in _limits(read):
        if least.available_bytes is None or left < least.available_bytes:
            least = Memory(least.total_bytes, left, path, limit)
        if least.total_bytes is None or limit < least.total_bytes:
            least = least._replace(total_bytes=limit)
    return least


def _limits(read: Reader) -> Iterator[tuple[int, int, str]]:
    """(bytes that are left, limit, its file) of each group above this process that has a limit."""
    for version, folder in _groups(read):
        limits, used, given_back = FILES[version]
        rows = dict(re.findall(r"^(\w+) (\d+)$", _text(read, f"{folder}/memory.stat"), re.M))
        usage = _text(read, f"{folder}/{used}")
        held = int(usage) - sum(int(rows.get(name, 0)) for name in given_back) if usage.isdigit() else 0
        for name in limits:
            limit = _text(read, f"{folder}/{name}")
            if limit.isdigit():
                yield max(int(limit) - max(held, 0), 0), int(limit), f"{folder}/{name}"


def _groups(read: Reader) -> Iterator[tuple[str, str]]:
    """(version, folder) of the process's group and of all above it. In a container some of these cannot be seen, and have no files."""
    table = mounts.parse(_text(read, mounts.TABLE))
    for number, controllers, path in re.findall(r"^(\d+):(.*?):(/.*)$", _text(read, "/proc/self/cgroup"), re.M):
        version = "cgroup2" if number == "0" and not controllers else "cgroup"
        if version == "cgroup" and "memory" not in controllers.split(","):
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for mount in table:
            if mount["filesystem"] == version and (version == "cgroup2" or "memory" in mount["options"].split(",")):
                for length in range(len(parts), -1, -1):
                    yield version, "/".join([mount["mount_point"], *parts[:length]])


def _text(read: Reader, path: str) -> str:
    with contextlib.suppress(OSError):
        return read(path, "")
    return ""
