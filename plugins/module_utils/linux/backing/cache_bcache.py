# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Caches by bcache, whose superblock lies before the data it caches. It is put on the fast device, before the origin, by a mapping of both.

So the origin is the cached device's first to last byte, keeps what it holds, and nothing but data is ever written to it. Superblocks are written as in
the kernel's include/uapi/linux/bcache.h, therefore no package is needed.
"""

from __future__ import annotations

import os
import struct
import uuid
from typing import Any

from ...core.cache_modes import BCACHE, SECTOR
from ...core.failure import Failure
from ..host import wait_for, write_text
from ..nouns import CacheDisk, CacheStamp, CacheState, CacheTable
from .cache_provider import CLEANER, Provider, gave_up, still_dirty

REGISTER = "/sys/fs/bcache/register"
# The kernel's rule of eviction, unless another is set.
POLICY = "lru"
SUPERBLOCK, SUPERBLOCK_SECTOR = 4096, 8
MAGIC = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")
CACHE_DEVICE, BACKING_WITH_OFFSET = 0, 4
# offset, version, magic, uuid, uuid of the set, label, flags, sequence, 8 of padding: what both kinds begin with, after the checksum.
BEGIN = struct.Struct("<QQ16s16s16s32sQQ64s")
# buckets, sectors a block, sectors a bucket, caches in the set, this one's number, last mount, first bucket, keys.
OF_CACHE = struct.Struct("<QHHHHIHH")
# first sector of the data, sectors a block, and what of the above says nothing of it.
OF_BACKING = struct.Struct("<QH14s")
POLYNOMIAL = 0x42F0E1EBA9EA3693
PATIENCE_S = 60


def checksum(data: bytes) -> int:
    """CRC-64 (ECMA-182), begun and ended with all ones."""
    mask = (1 << 64) - 1
    value = mask
    for byte in data:
        value ^= byte << 56
        for _bit in range(8):
            value = (value << 1 ^ POLYNOMIAL) & mask if value >> 63 else value << 1
    return value ^ mask


def _superblock(version: int, own: uuid.UUID, of_set: uuid.UUID, rest: bytes) -> bytes:
    begin = BEGIN.pack(SUPERBLOCK_SECTOR, version, MAGIC, own.bytes, of_set.bytes, b"", 0, 0, b"")
    return struct.pack("<Q", checksum(begin + rest)) + begin + rest


def of_cache(own: uuid.UUID, of_set: uuid.UUID, sectors: int, bucket_sectors: int, block_sectors: int) -> bytes:
    """The superblock of a device that caches. Whole buckets precede the first one that is used, for the superblock itself."""
    first = 23 // bucket_sectors + 1
    rest = OF_CACHE.pack(sectors // bucket_sectors, block_sectors, bucket_sectors, 1, 0, 0, first, 0)
    return _superblock(CACHE_DEVICE, own, of_set, rest)


def of_backing(own: uuid.UUID, data_sector: int, block_sectors: int) -> bytes:
    """The superblock of a device that is cached, in no set yet."""
    return _superblock(BACKING_WITH_OFFSET, own, uuid.UUID(int=0), OF_BACKING.pack(data_sector, block_sectors, b""))


def read_size(text: str | None) -> int | None:
    """Bytes of '3.9M', which the kernel rounds down to a tenth."""
    if not text:
        return None
    digits, unit = (text[:-1], text[-1]) if text[-1] in "kMGTPEZY" else (text, "")
    power = "kMGTPEZY".index(unit) + 1 if unit else 0
    try:
        return round(float(digits) * (1 << 10 * power))
    except ValueError:
        return None


class Bcache(Provider):
    NAME = BCACHE
    PARTS = ("backing", "blocks")
    MODULES = ("dm_mod", "bcache")

    def _folder(self, name: str, part: str) -> str | None:
        """The attributes of a part that bcache has."""
        mapping = self.tiers.parts(name).get(part)
        folder = f"/sys/block/{os.path.basename(mapping['device'])}/bcache" if mapping else ""
        return folder if folder and self.tiers.system.names(folder) else None

    def _shown(self, name: str, key: str) -> str:
        folder = self._folder(name, "backing")
        return (folder and self.tiers.system.read(f"{folder}/{key}")) or ""

    def _device(self, name: str) -> str | None:
        """Name of the cached device, such as bcache0."""
        folder = self._folder(name, "backing")
        link = self.tiers.system.read_link(f"{folder}/dev") if folder else None
        return os.path.basename(link) if link else None

    def _tell(self, name: str, part: str, key: str, text: str) -> None:
        write_text(f"{self._folder(name, part)}/{key}", text)

    def read(self, name: str, table: CacheTable, stamp: CacheStamp | None) -> tuple[Any, Any]:
        origin = self.below(name)
        if origin is None or table["origin"] == origin:
            return table, None
        device, state = self._device(name), self._shown(name, "state")
        modes = self._shown(name, "cache_mode").split()
        mode = next((word[1:-1] for word in modes if word.startswith("[")), (stamp or {}).get("mode"))
        # One that is being emptied, or already is, caches no more.
        ending = state not in ("clean", "dirty") or mode != (stamp or {}).get("mode")
        read = {
            "cached": True,
            "origin": origin,
            "mode": mode,
            "block_bytes": (stamp or {}).get("block_kib", 0) * 1024,
            "policy": CLEANER if ending else POLICY,
        }
        there = device and self.tiers.system.read(f"/sys/block/{device}/dev") == table["origin"]
        if not there or state not in ("clean", "dirty", "no cache"):
            return {**table, **read}, None
        return {**table, **read}, {"dirty_bytes": read_size(self._shown(name, "dirty_data")), "needs_check": False}

    def join(
        self,
        name: str,
        stamp: CacheStamp,
        origin: CacheDisk,
        fast: CacheDisk,
        migration: int,
        fresh: bool,
    ) -> str:
        self.dismantle(name)
        places, sectors = self.places(fast, stamp["block_kib"]), origin["size_bytes"] // SECTOR
        of_set = uuid.uuid4()
        if fresh:
            block = max(self.tiers.block_sectors(item["path"]) for item in (origin, fast))
            cache = of_cache(uuid.uuid4(), of_set, places["blocks_sectors"], stamp["block_kib"] * 2, block)
            self.erase(fast)
            for start, superblock in (
                ("front_start", of_backing(uuid.uuid4(), places["front_sectors"], block)),
                ("blocks_start", cache),
            ):
                self.tiers.write(fast["path"], superblock.ljust(SUPERBLOCK, b"\0"), places[start] * SECTOR + SUPERBLOCK)
        self.tiers.make_part(
            name, "blocks", stamp, f"0 {places['blocks_sectors']} linear {fast['path']} {places['blocks_start']}"
        )
        self.tiers.make_part(
            name,
            "backing",
            stamp,
            f"0 {places['front_sectors']} linear {fast['path']} {places['front_start']}",
            f"{places['front_sectors']} {sectors} linear {origin['path']} 0",
        )
        for part in ("blocks", "backing"):
            self._register(name, part)
        if fresh:
            self._tell(name, "backing", "attach", str(of_set))
            self._tell(name, "backing", "cache_mode", stamp["mode"])
        wait_for(lambda: self._shown(name, "state") in ("clean", "dirty") and self._device(name), PATIENCE_S)
        state, device = self._shown(name, "state"), self._device(name)
        if state not in ("clean", "dirty") or not device:
            raise Failure(
                "cache_missing",
                f"bcache took the devices of cache {name}, and its state is {state or 'unknown'} instead of clean or dirty.",
                "Look at the kernel log of the host. Nothing is lost.",
                cache=name,
            )
        return f"0 {sectors} linear /dev/{device} 0"

    def _register(self, name: str, part: str) -> None:
        device = self.tiers.parts(name)[part]["device"]
        try:
            write_text(REGISTER, device)
        except OSError as error:
            # udev may have been quicker.
            if not self._folder(name, part):
                raise Failure(
                    "cache_missing",
                    f"bcache does not take {device} of cache {name}: {error.strerror}.",
                    "Look at the kernel log of the host. Nothing is lost.",
                    cache=name,
                ) from None

    def flush(self, name: str, state: CacheState, timeout_s: float) -> None:
        if not self._folder(name, "backing"):
            raise gave_up(name)
        if self._shown(name, "state") != "no cache":
            self._tell(name, "backing", "cache_mode", "writethrough")
            # The kernel writes all that is dirty, as fast as it can, and lets go of the cache only then.
            self._tell(name, "backing", "detach", "1")
        wait_for(lambda: self._shown(name, "state") == "no cache", timeout_s, interval_s=0.2)
        now = self._shown(name, "state")
        if now not in ("clean", "dirty", "no cache"):
            raise gave_up(name)
        if now != "no cache":
            left = self._shown(name, "dirty_data")
            raise still_dirty(name, timeout_s, f"{left}iB", dirty_bytes=read_size(left))

    def dismantle(self, name: str) -> None:
        # Stopped, it keeps on disk what is dirty; it is never detached here.
        for part, key in (("backing", "stop"), ("blocks", "set/stop")):
            if self._folder(name, part):
                self._tell(name, part, key, "1")
                if not wait_for(lambda part=part: not self._folder(name, part), PATIENCE_S):
                    raise Failure(
                        "cache_in_use",
                        f"bcache does not let go of the {part} of cache {name} within {PATIENCE_S} s.",
                        "Find out what uses it (lsblk), and run again. Nothing is lost.",
                        cache=name,
                    )
        super().dismantle(name)

    def erase(self, fast: CacheDisk) -> None:
        places = self.places(fast, 32)
        for start in ("front_start", "blocks_start"):
            self.tiers.zero(fast["path"], places[start] * SECTOR, 2 * SUPERBLOCK)

    def facts(self, name: str) -> dict[str, Any]:
        cutoff = read_size(self._shown(name, "sequential_cutoff"))
        return {"policy": POLICY, **({} if cutoff is None else {"sequential_cutoff_bytes": cutoff})}
