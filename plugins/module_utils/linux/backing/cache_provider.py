# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider of a cache in a tier (cache_tier.py): reading it, joining it, emptying it, taking it apart. One file per provider.

A provider never touches the tier's own mapping. It makes a device out of the origin and the fast device, and says the table by which the tier goes through
it; when it has written everything to the origin, the tier goes to the origin again, and the provider takes its device apart.
"""

from __future__ import annotations

from typing import Any

from ...core.cache_modes import DM_CACHE, MODES, SECTOR, geometry
from ...core.failure import Failure
from ..disks import device_mapper
from ..host import load_module, wait_for
from ..nouns import CacheDisk, CacheStamp, CacheState, CacheTable

POLICY, CLEANER = "smq", "cleaner"


def parse_cache_table(text: str) -> CacheTable:
    """{metadata, fast, origin (major:minor), block_bytes, mode, policy} of a cache target's arguments."""
    words = text.split()
    count = int(words[4])
    modes = [word for word in words[5 : 5 + count] if word in ("writethrough", "writeback", "passthrough")]
    return {
        "metadata": words[0],
        "fast": words[1],
        "origin": words[2],
        "block_bytes": int(words[3]) * SECTOR,
        # A cache without a mode writes back.
        "mode": (modes or ["writeback"])[0],
        "policy": words[5 + count],
    }


def emptied(text: str) -> str:
    """The arguments of a cache target as for one that only cleans. It writes through: a block that it has written once is not dirty again."""
    words = text.split()
    features = [word for word in words[5 : 5 + int(words[4])] if word not in (*MODES, "passthrough")]
    return " ".join([*words[:4], str(len(features) + 1), *features, "writethrough", CLEANER, "0"])


def gave_up(name: str) -> Failure:
    return Failure(
        "cache_failed",
        f"The kernel gave up the cache of {name}, which may hold what its origin lacks.",
        "Look at the kernel log of the host. Nothing was changed.",
        cache=name,
    )


def still_dirty(name: str, timeout_s: float, left: str, **details: Any) -> Failure:
    return Failure(
        "cache_dirty",
        f"After {timeout_s:g} s the cache of {name} still has {left} that its origin lacks.",
        "Run this again, which goes on with it, with less I/O on the device or a longer cache_tier_flush_timeout_s. Nothing is lost.",
        cache=name,
        **details,
    )


class Provider:
    """A way to cache. tiers: the testbed's tiers (cache_tier.Caches), which make mappings and write."""

    NAME = ""
    # Mappings of the fast device, and of the origin with a header before it, in the order in which they go. The first one distinguishes providers.
    PARTS: tuple[str, ...] = ()
    MODULES: tuple[str, ...] = ()
    COMMANDS: tuple[str, ...] = ("dmsetup",)

    def __init__(self, tiers: Any) -> None:
        self.tiers = tiers

    def load(self) -> None:
        for module in self.MODULES:
            load_module(module, intend=self.tiers.record.intend_modules)

    def places(self, fast: CacheDisk, block_kib: int) -> dict[str, int]:
        return geometry(fast["size_bytes"], block_kib, self.NAME)

    def read(self, name: str, table: CacheTable, stamp: CacheStamp | None) -> tuple[Any, Any]:
        """(what the tier's table says when the provider's own device is looked into, status {dirty_bytes, blocks, needs_check} of its cache, None of none
        or of one that failed)"""
        raise NotImplementedError

    def join(
        self,
        name: str,
        stamp: CacheStamp,
        origin: CacheDisk,
        fast: CacheDisk,
        migration: int,
        fresh: bool,
    ) -> str:
        """Make the cached device, in the place of one that was left; the tier's table over it. fresh: as an empty cache. migration: in KiB."""
        raise NotImplementedError

    def flush(self, name: str, state: CacheState, timeout_s: float) -> None:
        """Return when the origin has everything and will have; raises cache_dirty or cache_failed."""
        raise NotImplementedError

    def dismantle(self, name: str) -> None:
        """Take the device apart, as far as it is there. The contents of the fast device stay."""
        for part in self.tiers.parts(name).values():
            self.tiers.unmap(part["name"])

    def erase(self, fast: CacheDisk) -> None:
        """Forget what is on the fast device, when the origin has everything."""

    def facts(self, name: str) -> dict[str, Any]:
        """The settings that figures depend on, beside the mode, as far as it can be read."""
        return {}

    # -- for those that put a header before the origin

    def below(self, name: str) -> str | None:
        """major:minor of the origin below the mapping that has the header before it."""
        part = self.tiers.parts(name).get(self.PARTS[0])
        targets = self.tiers.targets(part["numbers"], table=True) if part else []
        return targets[1]["text"].split()[0] if len(targets) > 1 else None


class OnDeviceMapper(Provider):
    """The common part of providers whose cache is a target of device mapper."""

    MODULES = ("dm_mod", "dm_cache", "dm_cache_smq")

    def carrier(self, name: str) -> dict[str, str] | None:
        """{numbers, name} of the mapping that has the cache as its target."""
        raise NotImplementedError

    def status(self, name: str, flush: bool = False) -> dict[str, Any] | None:
        """The status of the cache; None for one that failed, or is not there. flush: when it has written its metadata."""
        mapping = self.carrier(name)
        targets = self.tiers.targets(mapping["numbers"], flush=flush) if mapping else []
        status = device_mapper.cache_status(targets[0]["text"]) if targets else None
        return status and {**status, "dirty_bytes": status["dirty"] * status["block_bytes"]}

    def flush(self, name: str, state: CacheState, timeout_s: float) -> None:
        mapping = self.carrier(name)
        if not mapping:
            raise gave_up(name)
        (target,) = self.tiers.targets(mapping["numbers"], table=True)
        self.tiers.turn(mapping["name"], f"0 {target['length']} cache {emptied(target['text'])}")
        wait_for(lambda: self._dirty(name) == 0, timeout_s, interval_s=0.5)
        left = self._dirty(name)
        if left:
            raise still_dirty(name, timeout_s, f"{left} blocks", dirty=left)

    def _dirty(self, name: str) -> int:
        """Blocks that only the cache has, by what the kernel says after it has written its metadata; raises cache_failed."""
        status = self.status(name, flush=True)
        if status is None or status["needs_check"]:
            raise gave_up(name)
        return int(status["dirty"])


class DmCache(OnDeviceMapper):
    """The kernel's dm-cache, without LVM. The tier's own mapping is the cache."""

    NAME = DM_CACHE
    PARTS = ("metadata", "blocks")

    def carrier(self, name: str) -> dict[str, str] | None:
        tier: dict[str, str] | None = self.tiers.tier(name)
        return tier

    def read(self, name: str, table: CacheTable, stamp: CacheStamp | None) -> tuple[Any, Any]:
        return table, self.status(name) if table["cached"] else None

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
        places = self.places(fast, stamp["block_kib"])
        for part in self.PARTS:
            table = f"0 {places[part + '_sectors']} linear {fast['path']} {places[part + '_start']}"
            self.tiers.make_part(name, part, stamp, table)
        if fresh:
            # Metadata of zeros: what the cache held before is forgotten.
            self.tiers.zero(fast["path"], places["metadata_start"] * SECTOR)
        parts = self.tiers.parts(name)
        more = f"2 migration_threshold {migration * 2}" if migration else "0"
        return (
            f"0 {origin['size_bytes'] // SECTOR} cache {parts['metadata']['device']} {parts['blocks']['device']} {origin['path']} "
            f"{stamp['block_kib'] * 2} 2 metadata2 {stamp['mode']} {POLICY} {more}"
        )

    def erase(self, fast: CacheDisk) -> None:
        self.tiers.zero(fast["path"], self.places(fast, 1)["metadata_start"] * SECTOR)
