# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of RAID arrays per level, pure, for the description of a testbed as for the host that makes the array."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# The fewest members of each level, and the module of the kernel that runs it. Level 0 of one member is a single drive that is measured as an array is.
FEWEST = {0: 1, 1: 2, 5: 3, 6: 4, 10: 4}
MODULES = {0: "raid0", 1: "raid1", 5: "raid456", 6: "raid456", 10: "raid10"}
PARITY = (5, 6)
# mdadm's own default.
CHUNK_KIB = 512
# A page of the kernel is the least that it takes.
LEAST_CHUNK_KIB = 4
# Pages for each member that the kernel's raid5.c takes (raid5_set_cache_size).
STRIPE_CACHE = (17, 32768)

_KIB = {"KiB": 1, "MiB": 1024}


def chunk_kib(text: object) -> int | None:
    """KiB of a text such as 64KiB; None when it is not such a text."""
    match = re.fullmatch(r"\s*(\d+)\s*(KiB|MiB)\s*", text) if isinstance(text, str) else None
    return int(match[1]) * _KIB[match[2]] if match else None


def words(level: object, members: object, chunk: int | None) -> str:
    """'RAID 10 of 4 disks in chunks of 64 KiB'; chunk in KiB, None: mdadm's own."""
    count = len(members) if isinstance(members, (list, tuple)) else 0
    chunks = "" if level == 1 else f" in chunks of {chunk or CHUNK_KIB} KiB"
    return f"RAID {level} of {count} {'disk' if count == 1 else 'disks'}{chunks}"


def faults(array: Mapping[str, Any], members: int) -> list[tuple[str, Any, str, str]]:
    """[(key, value, why it is wrong, what to write)] of an array's level, chunk_kib, bitmap and stripe_cache, and of the number of its members."""
    level = array["level"]
    problems: list[tuple[str, Any, str, str]] = []
    if level not in FEWEST:
        return [("level", level, "which it does not support", f"use {', '.join(map(str, sorted(FEWEST)))}")]
    if members < FEWEST[level]:
        problems.append(("members", members, f"RAID {level} needs at least {FEWEST[level]}", "name more"))
    elif level == 10 and members % 2:
        problems.append(("members", members, "RAID 10 mirrors pairs", "name an even number"))
    chunk = array.get("chunk_kib")
    if chunk is not None and level == 1:
        problems.append(("chunk", f"{chunk}KiB", "RAID 1 has no chunks", "leave it out"))
    elif chunk is not None and (chunk < LEAST_CHUNK_KIB or chunk & (chunk - 1)):
        problems.append(("chunk", f"{chunk}KiB", "a chunk is a power of two from 4KiB", "write one, such as 64KiB"))
    if level == 0 and array.get("bitmap") == "internal":
        problems.append(("bitmap", "internal", "RAID 0 has nothing to synchronise", "leave it out"))
    cache = array.get("stripe_cache")
    if cache is not None and level not in PARITY:
        problems.append(
            ("stripe_cache", cache, f"RAID {level} has no stripe cache", "leave it out, or use level 5 or 6")
        )
    elif cache is not None and not STRIPE_CACHE[0] <= cache <= STRIPE_CACHE[1]:
        problems.append(
            ("stripe_cache", cache, "the kernel takes {} to {} pages".format(*STRIPE_CACHE), "write one of these")
        )
    return problems
