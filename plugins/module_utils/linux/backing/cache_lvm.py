# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Caches by LVM, in a volume group of the tier's own.

The group is made of two mappings: the origin with LVM's header before it, and the blocks of the fast device. Header and the rest of the last extent are on the
fast device, so the origin is the volume's first to last byte and nothing is written to it. Each command sees these two devices alone, no other of the host.
"""

from __future__ import annotations

from typing import Any

from ...core.cache_modes import EXTENT_BYTES, LVM, SECTOR
from ...core.failure import Failure
from ..host import run
from ..nouns import CacheDisk, CacheStamp, CacheState, CacheTable
from .cache_provider import CLEANER, OnDeviceMapper, parse_cache_table

VOLUME, CACHE = "device", "cache"
CONFIG = (
    'devices {{ dir="/dev" scan=["/dev"] use_devicesfile=0 obtain_device_list_from_udev=0 external_device_info_source="none" scan_lvs=0 '
    "multipath_component_detection=0 md_component_detection=0 filter={only} global_filter={only} }} "
    # No step waits for udev, and no daemon stays. Nothing is kept in /etc/lvm.
    "activation {{ udev_sync=0 udev_rules=0 monitoring=0 }} backup {{ backup=0 archive=0 }} "
    'global {{ cache_check_executable="" use_lvmpolld=0 }}'
)


class Lvm(OnDeviceMapper):
    NAME = LVM
    PARTS = ("volume", "blocks")
    COMMANDS = ("dmsetup", "lvm")

    def _group(self, name: str) -> str:
        """The group's name: the UUID of the tier, which the mappings carry."""
        return "storlab_" + str(self.tiers.parts(name)[self.PARTS[0]]["uuid"].split(":")[4])

    def _lvm(self, name: str, command: str, *words: str, what: str) -> None:
        devices = [part["device"] for part in self.tiers.parts(name).values()]
        only = "[" + ", ".join(f'"a|^{device}$|"' for device in devices) + ', "r|.*|"]'
        argv = ["lvm", command, "--nohints", "--config", CONFIG.format(only=only), "--yes", *words]
        run(argv, what=what, remedy="Look at the message and at the kernel log of the host.")

    def carrier(self, name: str) -> dict[str, str] | None:
        if self.PARTS[0] not in self.tiers.parts(name):
            return None
        # LVM writes a dash of a name twice; there is none in these.
        volume: dict[str, str] | None = self.tiers.mapping_named(f"{self._group(name)}-{VOLUME}")
        return volume

    def read(self, name: str, table: CacheTable, stamp: CacheStamp | None) -> tuple[Any, Any]:
        origin = self.below(name)
        if origin is None or table["origin"] == origin:
            return table, None
        volume = self.carrier(name)
        targets = self.tiers.targets(volume["numbers"], table=True) if volume else []
        if not volume or not targets or targets[0]["type"] != "cache" or volume["numbers"] != table["origin"]:
            # The state when it was made; its cache is gone.
            made = {"mode": (stamp or {}).get("mode"), "block_bytes": (stamp or {}).get("block_kib", 0) * 1024}
            return {**table, "cached": True, "origin": origin, "policy": CLEANER, **made}, None
        return {**table, **parse_cache_table(targets[0]["text"]), "cached": True, "origin": origin}, self.status(name)

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
        if fresh:
            self.erase(fast)
        sectors = origin["size_bytes"] // SECTOR
        tail = -sectors % (EXTENT_BYTES // SECTOR)
        tables = [f"0 {places['front_sectors']} linear {fast['path']} {places['front_start']}"]
        tables += [f"{places['front_sectors']} {sectors} linear {origin['path']} 0"]
        tables += (
            [f"{places['front_sectors'] + sectors} {tail} linear {fast['path']} {places['tail_start']}"] if tail else []
        )
        self.tiers.make_part(name, self.PARTS[0], stamp, *tables)
        self.tiers.make_part(
            name, "blocks", stamp, f"0 {places['blocks_sectors']} linear {fast['path']} {places['blocks_start']}"
        )
        group = self._group(name)
        if fresh:
            self._make(name, group, stamp, migration)
        self._lvm(
            name, "lvchange", "--activate", "y", f"{group}/{VOLUME}", what=f"The cache of {name} cannot be activated"
        )
        volume = self.carrier(name)
        if not volume:
            raise Failure(
                "cache_missing",
                f"Cache {name} is not there, although LVM said that it was activated.",
                "Look at the kernel log of the host.",
                cache=name,
            )
        return f"0 {sectors} linear {volume['device']} 0"

    def _make(self, name: str, group: str, stamp: CacheStamp, migration: int) -> None:
        parts = self.tiers.parts(name)
        volume, blocks = parts["volume"]["device"], parts["blocks"]["device"]
        what = f"The cache of {name} cannot be made"
        self._lvm(name, "pvcreate", "--dataalignment", "1m", volume, blocks, what=what)
        extent = f"{EXTENT_BYTES >> 20}m"
        # A group that nothing activates by itself: the testbed itself begins what is on it.
        self._lvm(
            name,
            "vgcreate",
            "--setautoactivation",
            "n",
            "--physicalextentsize",
            extent,
            group,
            volume,
            blocks,
            what=what,
        )
        # The contents are data: LVM would wipe its beginning.
        quiet = ("--activate", "n", "--zero", "n", "--wipesignatures", "n", "--extents", "100%PVS")
        for title, device in ((VOLUME, volume), (CACHE, blocks)):
            self._lvm(name, "lvcreate", *quiet, "--name", title, group, device, what=what)
        self._lvm(
            name,
            "lvconvert",
            *(
                "--type",
                "cache",
                "--cachevol",
                CACHE,
                "--cachemode",
                stamp["mode"],
                "--chunksize",
                f"{stamp['block_kib']}k",
            ),
            *("--cachepolicy", "smq", "--cachesettings", f"migration_threshold={migration * 2}", f"{group}/{VOLUME}"),
            what=what,
        )

    def flush(self, name: str, state: CacheState, timeout_s: float) -> None:
        # Within the time that is given, which LVM would not keep; later commands of LVM find nothing to write.
        super().flush(name, state, timeout_s)
        self._lvm(
            name,
            "lvchange",
            *("--cachemode", "writethrough", f"{self._group(name)}/{VOLUME}"),
            what=f"The cache of {name} does not write through",
        )
        super().flush(name, state, timeout_s)

    def dismantle(self, name: str) -> None:
        parts = self.tiers.parts(name)
        group = self._group(name) if self.PARTS[0] in parts else ""
        # Those of LVM that an interrupted step left are named after the group, too.
        if group and any(title.startswith(f"{group}-") for title in self.tiers.mapping_names()):
            self._lvm(name, "vgchange", "--activate", "n", group, what=f"The cache of {name} cannot be ended")
        super().dismantle(name)

    def erase(self, fast: CacheDisk) -> None:
        places = self.places(fast, 32)
        for start in ("front_start", "blocks_start"):
            # Labels, and the text of LVM's metadata after them.
            self.tiers.zero(fast["path"], places[start] * SECTOR, places["front_sectors"] * SECTOR)
