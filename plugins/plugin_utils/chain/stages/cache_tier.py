# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``cache_tier``: slow disks of a target behind fast ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ....module_utils.core.cache_modes import BLOCK_KIB
from ....module_utils.core.cache_modes import faults as cache_faults
from ....module_utils.core.cache_modes import words as cache_words
from ....module_utils.core.layers import Layer
from ....module_utils.core.raid_levels import chunk_kib
from ....module_utils.linux.backing.cache_plan import provider_of
from ....module_utils.linux.backing.cache_tier import CLASSES
from ..changes import Change, Changes, each, entries_kept, word_of
from ..device import OVERWRITTEN, Device, disk_of, fate_of, given_of
from ..emulated import emulated_disk, limits, serial
from ..nouns import Kept
from ..shape import Problem, shown
from ..stage import Needs, Stage
from ..testbed import Context, Disk, Host, Testbed, is_by_hand, layer_of, mappings
from .raid import not_on_windows

# {end of the serial: part of a cache tier} of disks that the embedded lab makes.
CACHE_PARTS = {"slow": "origin", "fast": "fast"}


class CacheTier(Stage):
    name = "cache_tier"
    kinds = ("cache",)
    words: ClassVar = {"cache": ("cache",)}
    describes = "cache_tier_caches"
    kept = ("cache_tier_caches",)
    packages: ClassVar = {
        "dmsetup": ("dmsetup", "device-mapper"),
        "lvm": ("lvm2", "lvm2"),
        "blkid": ("util-linux", "util-linux"),
    }
    variables = ("cache_tier_caches",)

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

    def check_entry(self, testbed: Testbed, variable: str, entry: dict[str, Any]) -> list[Problem]:
        return [*_unfit_cache(variable, entry, testbed), *not_on_windows(testbed, variable, entry)]

    def changes(self) -> dict[str, Changes]:
        return {"parts": _caches_kept}

    def devices(self, testbed: Testbed, host: Host) -> Iterator[Device]:
        return _parts(testbed, host)

    def needs(self, testbed: Testbed, host: Host) -> Needs:
        if not host.variables["cache_tier_caches"]:
            return [], []
        makers = [CLASSES.get(provider_of(cache)) for cache in mappings(host.variables["cache_tier_caches"])]
        commands = [command for maker in makers if maker for command in maker.COMMANDS]
        return [*commands, "blkid"], [module for maker in makers if maker for module in maker.MODULES]

    def device_paths(self, testbed: Testbed, host: Host) -> list[str]:
        caches = mappings(host.variables.get("cache_tier_caches"))
        parts = [cache.get(part) or {} for cache in caches for part in ("origin", "fast")]
        return [part["device"] for part in parts if part.get("device")]


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


def _unfit_cache(variable: str, entry: dict[str, Any], testbed: Testbed) -> list[Problem]:
    cache, where = entry.get("cache"), f"{variable}.cache"
    if not cache:
        reported = any(problem.variable.startswith(where) for problem in testbed.problems)
        remedy = "write both disks, such as cache: {origin: {serial: Z1F0A7QK}, fast: {serial: S2HRNX0J4}}"
        return [] if reported else [Problem(where, None, "is not set", remedy)]
    problems = []
    for part in ("origin", "fast"):
        given, proofs = cache[part], [key for key in ("serial", "naa", "wwid", "uuid") if key in cache[part]]
        if "emulated" in given and not testbed.embedded:
            remedy = "name a disk of the target by its serial, naa, wwid or uuid"
            problems.append(
                Problem(f"{where}.{part}.emulated", None, "is for the embedded lab, which makes such disks", remedy)
            )
        elif "emulated" in given and len(given) > 1:
            problems.append(Problem(f"{where}.{part}.emulated", None, "is set beside a disk", "set only one of them"))
        elif "emulated" not in given and not proofs:
            remedy = "add the serial, naa, wwid or uuid that the disk has"
            problems.append(Problem(f"{where}.{part}", shown(given), "which does not identify a disk", remedy))
    same = [
        key
        for key in ("path", "serial", "naa", "wwid", "uuid")
        if cache["origin"].get(key, 0) == cache["fast"].get(key)
    ]
    for key in same[:1]:
        problems.append(
            Problem(f"{where}.fast.{key}", shown(cache["fast"][key]), "which is the origin", "name another disk")
        )
    sizes = {key: cache[key] for key in ("block", "migration") if key in cache}
    unfit = [key for key, text in sizes.items() if chunk_kib(text) is None]
    for key in unfit:
        remedy = "write a size with KiB or MiB, such as 64KiB"
        problems.append(Problem(f"{where}.{key}", shown(sizes[key]), "", remedy))
    if not unfit:
        kib = {"block_kib": BLOCK_KIB, **{f"{key}_kib": chunk_kib(text) for key, text in sizes.items()}}
        for key, _value, why, remedy in cache_faults({**cache, **kib}):
            value = cache.get(key) if key == "mode" else sizes.get(key)
            problems.append(Problem(f"{where}.{key}", shown(value), f"but {why}", remedy))
    return problems


def _caches_kept(before: Kept, after: Kept, testbed: Testbed) -> list[Change]:
    changes: list[Any] = []
    for host, was, now in each(before, after, "cache_tier_caches"):
        word = word_of(testbed, host, "cache_tier_caches", "testbed.disks")
        changes += entries_kept(word, "cache tier", was, now, ("origin", "fast", "purpose"), host)
    return changes


def _parts(testbed: Testbed, host: Host) -> Iterator[Device]:
    for place, tier in enumerate(mappings(host.variables.get("cache_tier_caches"))):
        disk = disk_of(testbed, host, tier.get("name"))
        by_hand = is_by_hand(host, "cache_tier_caches") or disk is None
        for part in ("origin", "fast"):
            if not by_hand and disk and ((disk.entry.get("cache") or {}).get(part) or {}).get("emulated"):
                continue
            variable = f"testbed.disks[{disk.index}].cache.{part}" if disk else ""
            variable = f"cache_tier_caches[{place}].{part} of {host.name}" if by_hand else variable
            layer = f"backing-{tier.get('name')}"
            fate = fate_of(testbed, layer)
            if part == "fast":
                # A cache that is not in yet may be put in later, and then nothing is asked any more.
                when = "" if tier.get("cached", True) else " once it is put in"
                fate = (OVERWRITTEN, f"caches for the disk {tier.get('name')}{when}")
            word, given = ("device" if by_hand else "path"), given_of(tier.get(part) or {}, "device")
            if given:
                yield Device(host.name, variable, word, given, *fate, layer)
