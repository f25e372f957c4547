# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of a cache tier, pure, for the description of a testbed as for the host that makes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# As people call them. dm-cache has no write-around: its "passthrough" caches no reads.
MODES = {"writethrough": "write-through", "writeback": "write-back", "writearound": "write-around"}
DM_CACHE, LVM, BCACHE = "dm_cache", "lvm", "bcache"
PROVIDERS = {DM_CACHE: ("writethrough", "writeback"), LVM: ("writethrough", "writeback"), BCACHE: tuple(MODES)}
# From dm-cache (Documentation/admin-guide/device-mapper/cache.rst).
LEAST_BLOCK_KIB, MOST_BLOCK_KIB = 32, 1 << 20
BLOCK_KIB = 64
# From bcache: buckets are powers of two in a 16-bit number of sectors, and the kernel takes no device of fewer than this many (bch_cache_alloc).
MOST_BUCKET_KIB = 16 << 10
FEWEST_BLOCKS = {DM_CACHE: 16, LVM: 16, BCACHE: 513}
MIGRATION_KIB, FEWEST_MOVED = 1024, 8
STAMP_BYTES = 1 << 20
# dm-cache's metadata: 4 MiB and 16 bytes per block by its documentation, and as much again for the hints of its policy.
METADATA_BYTES, METADATA_BYTES_A_BLOCK = 4 << 20, 32
# For providers that want a header before the data that they cache: it is on the fast device, so the origin keeps its first byte and is as long as it was.
FRONT_BYTES = 1 << 20
# An LVM volume is made of whole extents. The rest of its last one is on the fast device, too.
EXTENT_BYTES = 4 << 20
SECTOR = 512


def geometry(fast_bytes: int, block_kib: int, provider: str = DM_CACHE) -> dict[str, int]:
    """Where things are on a fast device, in sectors of 512 bytes: {blocks_start, blocks_sectors, blocks} and {metadata_start, metadata_sectors} of dm-cache,
    else {front_start, front_sectors, tail_start}. blocks: those that cache, the most there can be with LVM, which takes its own metadata from them.
    """
    block = block_kib * 1024
    if provider != DM_CACHE:
        tail = EXTENT_BYTES if provider == LVM else 0
        start = STAMP_BYTES + FRONT_BYTES + tail
        room = max(0, fast_bytes - start)
        # LVM's own header and the extents that do not fill up.
        room = max(0, room - FRONT_BYTES) // EXTENT_BYTES * EXTENT_BYTES + FRONT_BYTES if provider == LVM else room
        # The least that LVM gives the metadata of a cache.
        used = FRONT_BYTES + 2 * EXTENT_BYTES if provider == LVM else 0
        return {
            "front_start": STAMP_BYTES // SECTOR,
            "front_sectors": FRONT_BYTES // SECTOR,
            "tail_start": (STAMP_BYTES + FRONT_BYTES) // SECTOR,
            "blocks_start": start // SECTOR,
            "blocks_sectors": (room if provider == LVM else room // block * block) // SECTOR,
            "blocks": max(0, room - used) // block,
        }
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


def migration_kib(cache: Mapping[str, Any]) -> int:
    """How much may be on its way between both devices at once: what is asked for, the kernel's own, or as much as it needs at least."""
    return int(cache.get("migration_kib") or max(MIGRATION_KIB, FEWEST_MOVED * cache["block_kib"]))


def words(cached: Any, mode: Any, block_kib: Any, provider: Any = DM_CACHE) -> str:
    """'write-back cache in blocks of 64 KiB', with ' by bcache' after it where it is not the kernel's dm-cache itself."""
    by = {LVM: " by LVM", BCACHE: " by bcache"}.get(provider, "")
    return f"{MODES.get(mode, mode)} cache in blocks of {block_kib} KiB{by}" if cached else "the origin alone"


def faults(cache: Mapping[str, Any]) -> list[tuple[str, Any, str, str]]:
    """[(key, value, why it is wrong, what to write)] of a cache's provider, mode, block_kib and migration_kib."""
    problems: list[tuple[str, Any, str, str]] = []
    block, migration = cache.get("block_kib"), cache.get("migration_kib")
    provider, mode = cache.get("provider") or DM_CACHE, cache.get("mode")
    if mode in MODES and provider in PROVIDERS and mode not in PROVIDERS[provider]:
        able = " or ".join(name for name, modes in PROVIDERS.items() if mode in modes)
        problems.append(
            (
                "mode",
                mode,
                f"{provider} has no {MODES[mode]}",
                f"write {' or '.join(PROVIDERS[provider])}, or provider {able}",
            )
        )
    if provider == BCACHE and migration is not None:
        why = "bcache moves nothing that this could hold back"
        problems.append(("migration", f"{migration}KiB", why, "leave it out, or write another provider"))
    if provider == BCACHE and block is not None and (block & (block - 1) or block > MOST_BUCKET_KIB):
        why = "a bucket of bcache is a power of two from 32KiB to 16MiB"
        problems.append(("block", f"{block}KiB", why, "write one, such as 64KiB"))
        return problems
    if block is not None and (block % LEAST_BLOCK_KIB or not LEAST_BLOCK_KIB <= block <= MOST_BLOCK_KIB):
        problems.append(
            ("block", f"{block}KiB", "a block is a multiple of 32KiB, up to 1GiB", "write one, such as 64KiB")
        )
    elif provider != BCACHE and migration is not None and block is not None and migration < FEWEST_MOVED * block:
        why = f"the kernel moves no blocks of {block}KiB with fewer than eight of them under way"
        problems.append(("migration", f"{migration}KiB", why, f"write {FEWEST_MOVED * block}KiB or more"))
    return problems
