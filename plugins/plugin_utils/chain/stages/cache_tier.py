# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``cache_tier``: slow disks of a target behind fast ones."""

from __future__ import annotations

from typing import Any

from ....module_utils.core.cache_modes import BLOCK_KIB
from ....module_utils.core.cache_modes import words as cache_words
from ....module_utils.core.layers import Layer
from ....module_utils.core.raid_levels import chunk_kib
from ..emulated import emulated_disk, limits, serial
from ..stage import Stage
from ..testbed import Context, Disk, Host, layer_of, mappings

# {end of the serial: part of a cache tier} of disks that the embedded lab makes.
CACHE_PARTS = {"slow": "origin", "fast": "fast"}


class CacheTier(Stage):
    name = "cache_tier"
    kinds = ("cache",)

    def emulated(self, disk: Disk) -> list[dict[str, Any]]:
        cache = disk.entry.get("cache", {})
        wanted = {end: cache.get(part, {}).get("emulated") for end, part in CACHE_PARTS.items()}
        return [emulated_disk(disk, end, emulated) for end, emulated in wanted.items() if emulated]

    def derive(self, context: Context) -> None:
        for host, disks in context.disks_of_targets():
            caches = [_cache(disk) for disk in disks if disk.entry["kind"] == "cache"]
            context.derive(host, "cache_tier_caches", caches, "testbed.disks")

    def runs_on(self, context: Context, host: Host) -> bool:
        return host.name in context.testbed.targets and bool(
            host.variables["cache_tier_caches"] or "cache_tier" in context.published_providers(host)
        )

    def layers(self, host: Host) -> list[Layer]:
        layers = []
        for cache in mappings(host.variables.get("cache_tier_caches")):
            block_kib = cache.get("block_kib", BLOCK_KIB)
            what = cache_words(cache.get("cached", True), cache.get("mode"), block_kib, cache.get("provider"))
            below = (cache.get("origin") or {}).get("layer")
            layers.append(layer_of("backing", cache.get("name"), host, below, cache.get("purpose"), what))
        return layers


def _cache(disk: Disk) -> dict[str, Any]:
    """An entry of cache_tier_caches; what is not said is the role's default."""
    cache = disk.entry.get("cache") or {}
    parts: dict[str, Any] = {}
    for end, part in CACHE_PARTS.items():
        given = cache.get(part) or {}
        named = {"device" if key == "path" else key: value for key, value in given.items() if key != "emulated"}
        parts[part] = {"serial": serial(disk, end)} if "emulated" in given else named
    sizes = {f"{key}_kib": chunk_kib(cache[key]) for key in ("block", "migration") if key in cache}
    delay = limits((cache.get("origin") or {}).get("emulated") or {})
    return {
        "name": disk.name,
        **parts,
        **{key: cache[key] for key in ("provider", "mode", "cached") if key in cache},
        **{key: value for key, value in sizes.items() if value},
        "purpose": disk.purpose,
        **({"emulated_delay": {"by": "QEMU", **delay}} if delay else {}),
    }
