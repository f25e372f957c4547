# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done to a layer before it is measured, so that figures are of the layer and not of its being new.

- *fill*: every block is written once before anything is read. What was never written is read from nowhere, and fast.
- *precondition*: the whole layer is written so many times in a row, sequentially, in blocks of 128 KiB: SNIA's workload-independent
  preconditioning, which takes two passes. It fills too.
- *warm-up*: the point's own workload for a while, before its first repetition; its figures are kept apart.
- *dropped caches*: before each buffered point, and checked.

Filling and preconditioning are done before the first point of a layer, never between points: that would end the state in which the others
were measured. Written once is written, so a layer that an earlier part of the same run prepared is not written again, provided that the very
same instance of the device is still there.
"""

from __future__ import annotations

import os
import stat

from . import memory
from .workload import directions, extent

DEFAULTS = {"fill": True, "precondition_passes": 0, "precondition_block_bytes": 128 << 10, "warmup_s": 0, "drop_caches": False}
# The kernel looks at the ends of a device whenever somebody has closed it.
RESIDENT_BYTES = 256 << 10
RESIDENT_SHARE = 0.001

# ---------------------------------------------------------------- pure


def of_plan(plan: dict) -> dict:
    return {**DEFAULTS, **plan.get("prepare", {})}


def read_layers(plan: dict) -> set:
    """The layers from which the plan reads."""
    return {point["layer"] for point in plan["points"] if "read" in directions(point["workload"])}


def passes(prepare: dict, is_read: bool) -> int:
    """How often a layer is written before it is measured."""
    return prepare["precondition_passes"] or int(prepare["fill"] and is_read)


def can_be_prepared(point: dict, plan: dict) -> bool:
    """There is nothing to write where no device is, except on the hosts of the point's servers."""
    return "servers" in point or any(layer["name"] == point["layer"] and layer["path"] is not None for layer in plan["layers"])


def told(prepare: dict, is_read: bool) -> dict:
    """The ``preparation`` of a result, as far as it is about writing the layer."""
    found = {}
    if passes(prepare, is_read):
        found["filled"] = True
    if prepare["precondition_passes"]:
        found["preconditioned_passes"] = prepare["precondition_passes"]
    return found


def covers(earlier: dict, wanted: dict) -> bool:
    """Whether a layer that was prepared so earlier need not be prepared as wanted."""
    return bool(earlier.get("filled")) and earlier.get("preconditioned_passes", 0) >= wanted.get("preconditioned_passes", 0)


# ---------------------------------------------------------------- the host


def instance(path: str) -> str | None:
    """What tells this very device or file from one of the same name and number that came after it; None when the kernel does not.

    diskseq (Linux 5.15, Documentation/ABI/stable/sysfs-block) is never given twice until the next boot.
    """
    found = os.stat(path)
    boot = _first_line("/proc/sys/kernel/random/boot_id")
    if not stat.S_ISBLK(found.st_mode):
        return f"{boot}/{found.st_dev}/{found.st_ino}" if boot else None
    folder = os.path.realpath(f"/sys/dev/block/{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}")
    # A partition has the sequence number of its disk.
    sequence = _first_line(f"{folder}/diskseq") or _first_line(f"{os.path.dirname(folder)}/diskseq")
    return f"{boot}/{sequence}/{os.path.basename(folder)}" if boot and sequence else None


def _first_line(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as handle:
            return handle.readline().strip()
    except OSError:
        return None


def page_cache(job: dict, drop: bool) -> str:
    """'not_used', 'dropped' or 'not_dropped' for a point on a device or file of this host; drops the cache when asked, and looks whether it is gone."""
    if job["workload"]["direct"]:
        return "not_used"
    if not drop or not memory.drop_page_cache():
        return "not_dropped"
    offset, size = extent(job["workload"], job["size_bytes"])
    return "dropped" if memory.resident_bytes(job["path"], offset, size) <= max(RESIDENT_BYTES, RESIDENT_SHARE * size) else "not_dropped"
