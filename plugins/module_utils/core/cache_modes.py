# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a cache tier can be: pure rules, for the description of a testbed as for the host that makes it."""

from __future__ import annotations

from typing import Any

# Those of dm-cache that a user means, as people call them.
MODES = {"writethrough": "write-through", "writeback": "write-back"}
# Of dm-cache (Documentation/admin-guide/device-mapper/cache.rst).
LEAST_BLOCK_KIB, MOST_BLOCK_KIB = 32, 1 << 20
BLOCK_KIB = 64
FEWEST_BLOCKS = 16
MIGRATION_KIB, FEWEST_MOVED = 1024, 8
STAMP_BYTES = 1 << 20
# Of dm-cache's metadata: 4 MiB and 16 bytes a block by its documentation, and as much again for the hints of its policy.
METADATA_BYTES, METADATA_BYTES_A_BLOCK = 4 << 20, 32
SECTOR = 512


def geometry(fast_bytes: int, block_kib: int) -> dict[str, int]:
    """Where on a fast device metadata and blocks are: {metadata_start, metadata_sectors, blocks_start, blocks_sectors, blocks}, sectors of 512 bytes."""
    block = block_kib * 1024
    metadata = METADATA_BYTES + METADATA_BYTES_A_BLOCK * (fast_bytes // block)
    metadata = -(-metadata // STAMP_BYTES) * STAMP_BYTES
    blocks = max(0, (fast_bytes - STAMP_BYTES - metadata) // block)
    return {
        "metadata_start": STAMP_BYTES // SECTOR,
        "metadata_sectors": metadata // SECTOR,
        "blocks_start": (STAMP_BYTES + metadata) // SECTOR,
        "blocks_sectors": blocks * block // SECTOR,
        "blocks": blocks,
    }


def migration_kib(cache: dict[str, Any]) -> int:
    """How much may be on its way between both devices at once: what is asked for, the kernel's own, or as much as it needs at least."""
    return int(cache.get("migration_kib") or max(MIGRATION_KIB, FEWEST_MOVED * cache["block_kib"]))


def words(cached: Any, mode: Any, block_kib: Any) -> str:
    """'write-back cache in blocks of 64 KiB'"""
    return f"{MODES.get(mode, mode)} cache in blocks of {block_kib} KiB" if cached else "the origin alone"


def faults(cache: dict[str, Any]) -> list[tuple[str, Any, str, str]]:
    """[(key, value, why it is wrong, what to write)] of a cache's mode, block_kib and migration_kib."""
    problems: list[tuple[str, Any, str, str]] = []
    block, migration = cache.get("block_kib"), cache.get("migration_kib")
    if block is not None and (block % LEAST_BLOCK_KIB or not LEAST_BLOCK_KIB <= block <= MOST_BLOCK_KIB):
        problems.append(
            ("block", f"{block}KiB", "a block is a multiple of 32KiB, up to 1GiB", "write one, such as 64KiB")
        )
    elif migration is not None and block is not None and migration < FEWEST_MOVED * block:
        why = f"the kernel moves no blocks of {block}KiB with fewer than eight of them under way"
        problems.append(("migration", f"{migration}KiB", why, f"write {FEWEST_MOVED * block}KiB or more"))
    return problems
