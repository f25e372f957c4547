# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Caches of the kernel: a fast device before a slow one, put in and taken out below a device that stays. State and steps; cache_plan.py plans.

A tier is one device mapper device over its origin. Without the cache its table is the origin alone; with it, the origin through the fast device, by a provider
(cache_provider.py: dm-cache, LVM, bcache). So the layers on it stay while the cache is put in and taken out, and what it holds is the same. It is this
testbed's when its UUID names the testbed and the tier. The stamp at the beginning of the fast device (cache_stamp) outlives a boot and says whether the cache
may hold what the origin lacks.

Layout of the fast device: 1 MiB with the stamp, what the provider needs, blocks. Nothing but data is written to the origin.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from typing import Any, cast

from ...core import converge
from ...core import steps as step_words
from ...core.cache_modes import (
    BCACHE,
    BLOCK_KIB,
    DM_CACHE,
    FEWEST_BLOCKS,
    LVM,
    MODES,
    PROVIDERS,
    faults,
    geometry,
    migration_kib,
)
from ...core.failure import Failure, bad_value, unfit
from ...core.files import naming
from ...core.layers import Layer, purpose_of
from ...core.names import check_name, check_testbed_id
from ...core.steps import Step
from ..disks import block_device, cache_stamp, device_mapper, device_safety, proven_disk
from ..disks.system import System
from ..host import loaded_modules, run
from ..nouns import Cache, CacheDisk, CacheStamp, CacheState
from ..params import CacheTierCacheOption
from ..record import Record
from .cache_bcache import Bcache
from .cache_lvm import Lvm
from .cache_plan import SECTOR, digest_of, failed, must_flush, plan, provider_of, refuse_failed, table_of
from .cache_provider import POLICY, DmCache, Provider

TIER, PART = cache_stamp.MAPPINGS
CLASSES: dict[str, type[Provider]] = {kind.NAME: kind for kind in (DmCache, Lvm, Bcache)}

DISK: dict[str, Any] = {**proven_disk.OPTIONS}
CACHE: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "origin": {"type": "dict", "required": True, "options": {**DISK, "layer": {"type": "str"}}},
    "fast": {"type": "dict", "required": True, "options": DISK},
    "provider": {"type": "str", "choices": list(PROVIDERS), "default": DM_CACHE},
    "mode": {"type": "str", "choices": sorted(MODES), "default": "writethrough"},
    "cached": {"type": "bool", "default": True},
    "block_kib": {"type": "int", "default": BLOCK_KIB},
    "migration_kib": {"type": "int"},
    "purpose": {"type": "str", "choices": ["scratch", "data"]},
    "emulated_delay": {"type": "dict"},
}
SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "flush_timeout_s": {"type": "int", "default": 3600},
    "layers": {"type": "dict", "default": {}},
    "caches": {"type": "list", "elements": "dict", "default": [], "options": CACHE},
}


def tier_name(testbed_id: str, name: str, part: str = "") -> str:
    """Name of a mapping. No part of it can hold a colon, so no two tiers share one."""
    return ":".join(["storlab", testbed_id, name, *([part] if part else [])])


def check_caches(caches: list[CacheTierCacheOption], layers: dict[str, Layer], present: bool = True) -> list[Cache]:
    """The caches with their purpose and the layer of their origin, which a teardown may have forgotten; raises bad_value or layer_missing."""
    names: set[Any] = set()
    result: list[Cache] = []
    for cache in caches:
        name = check_name("cache_tier_caches name", cache["name"])
        variable = f"cache_tier_caches {name}"
        if name in names:
            raise bad_value("cache_tier_caches name", name, "Give every cache another name.")
        names.add(name)
        for key, value, why, remedy in faults(cache):
            raise unfit(f"{variable} {key}", value, f"but {why}", remedy)
        origin, fast = cache["origin"], cache["fast"]
        named = {key: value for key, value in origin.items() if value and key != "layer"}
        if bool(origin.get("layer")) == bool(named):
            raise bad_value(f"{variable} origin", origin, "Say its layer, or its serial, naa, wwid or uuid.")
        if not any(fast.values()):
            raise bad_value(f"{variable} fast", fast, "Say which disk is meant, by its serial, naa, wwid or uuid.")
        layer = layers.get(origin["layer"]) if origin.get("layer") else None
        if origin.get("layer") and not layer and present:
            raise Failure(
                "layer_missing",
                f"Cache {name} is on layer {origin['layer']}, which was never published on this host.",
                "Run the role that makes that layer first, on this host.",
                layer=origin["layer"],
            )
        described: Cache = {**cache, "layer": layer}
        described["purpose"] = purpose_of(variable, cache.get("purpose"), None)
        result.append(described)
    return result


def _of_stamp(cache: Cache) -> CacheStamp:
    """The part of a description that its stamp has."""
    return {"provider": provider_of(cache), "mode": cache["mode"], "block_kib": cache["block_kib"]}


# ---------------------------------------------------------------- the host's tiers


class Caches:
    """The tiers of one testbed on this host. read_targets: what answers for the kernel, see device_mapper.targets."""

    def __init__(
        self,
        testbed_id: str,
        system: System | None = None,
        read_targets: Callable[..., list[dict[str, Any]]] = device_mapper.targets,
    ) -> None:
        self.testbed_id = testbed_id
        self.system = system or System()
        self.targets = read_targets
        self.record = Record(testbed_id, "cache_tier")
        self.providers = {name: kind(self) for name, kind in CLASSES.items()}

    @property
    def recorded(self) -> dict[str, Any]:
        caches: dict[str, Any] = self.record.data.get("caches", {})
        return caches

    # -- reading

    def mappings(self) -> dict[str, dict[str, str]]:
        """{UUID: {device, numbers, name}} of the tiers and parts of this testbed."""
        mine = {}
        for block in self.system.names("/sys/block"):
            folder = f"/sys/block/{block}"
            mapped = self.system.read(f"{folder}/dm/uuid") or ""
            if mapped.split(":")[:2] in ([TIER, self.testbed_id], [PART, self.testbed_id]):
                mine[mapped] = {
                    "device": f"/dev/{block}",
                    "numbers": self.system.read(f"{folder}/dev") or "",
                    "name": self.system.read(f"{folder}/dm/name") or "",
                }
        return mine

    def tier(self, name: str) -> dict[str, Any] | None:
        """{device, numbers, name, uuid} of the tier."""
        return next(
            (
                {**mapping, "uuid": mapped}
                for mapped, mapping in self.mappings().items()
                if mapped.split(":")[0] == TIER and mapped.split(":")[2] == name
            ),
            None,
        )

    def parts(self, name: str) -> dict[str, dict[str, str]]:
        """{part: {device, numbers, name, uuid}} of the mappings that the tier's provider has made."""
        return {
            mapped.split(":")[3]: {**mapping, "uuid": mapped}
            for mapped, mapping in self.mappings().items()
            if mapped.split(":")[0] == PART and mapped.split(":")[2] == name
        }

    def mapping_named(self, title: str) -> dict[str, str] | None:
        """{device, numbers, name} of a mapping, whoever made it."""
        for block in self.system.names("/sys/block"):
            if self.system.read(f"/sys/block/{block}/dm/name") == title:
                numbers = self.system.read(f"/sys/block/{block}/dev") or ""
                return {"device": f"/dev/{block}", "numbers": numbers, "name": title}
        return None

    def mapping_names(self) -> list[str]:
        """All mappings of the host."""
        names = (self.system.read(f"/sys/block/{block}/dm/name") for block in self.system.names("/sys/block"))
        return [name for name in names if name]

    def block_sectors(self, path: str) -> int:
        """The least that a disk reads and writes, in sectors of 512 bytes."""
        folder = f"/sys/class/block/{os.path.basename(self.system.resolve(path))}"
        return int(self.system.read(f"{folder}/queue/logical_block_size") or SECTOR) // SECTOR

    def maker(self, name: str) -> Provider | None:
        """The provider whose parts a tier has."""
        there = self.parts(name)
        return next((provider for provider in self.providers.values() if provider.PARTS[0] in there), None)

    def _disk(self, path: str, layer: Layer | None = None) -> CacheDisk:
        shown = device_safety.identity(path, self.system)
        size = self.system.read(f"/sys/class/block/{os.path.basename(self.system.resolve(path))}/size")
        return {
            "path": path,
            "numbers": shown.get("major_minor"),
            "size_bytes": int(size or 0) * SECTOR,
            "digest": digest_of(shown, layer),
        }

    def _stamp(self, name: str, path: str) -> CacheStamp | None:
        """The stamp of this testbed's tier of that name on a device."""
        stamp: Any = cache_stamp.unpack(self.system.head(path, cache_stamp.BYTES))
        ours = stamp is not None and (stamp.get("testbed_id"), stamp.get("name")) == (self.testbed_id, name)
        return stamp if ours else None

    def current(self, described: list[Cache], wanted: bool = True) -> dict[str, CacheState]:
        """What ``plan`` starts from. wanted: whether the described tiers shall be there, so that their disks must be."""
        names = [*self.recorded, *(cache["name"] for cache in described)]
        mapped = [uuid_of.split(":")[2] for uuid_of in self.mappings() if uuid_of.split(":")[0] == TIER]
        return {
            name: self._state(name, next((cache for cache in described if cache["name"] == name), None), wanted)
            for name in dict.fromkeys([*names, *mapped])
        }

    def _state(self, name: str, cache: Cache | None, wanted: bool) -> CacheState:
        parts = self.parts(name)
        origin, fast = self._origin(name, cache, wanted), self._fast(name, cache, wanted)
        stamp = self._stamp(name, fast["path"]) if fast else None
        blocks = self.targets(parts["blocks"]["numbers"], table=True) if "blocks" in parts else []
        return {
            **self._live(name, stamp),
            "fast_numbers": blocks[0]["text"].split()[0] if blocks else None,
            "origin": origin,
            "fast": fast,
            "stamp": stamp,
        }

    def _live(self, name: str, stamp: CacheStamp | None) -> CacheState:
        """{tier, table, status} as the kernel has them."""
        tier = self.tier(name)
        table: Any = table_of(self.targets(tier["numbers"], table=True)) if tier else None
        provider = self.maker(name)
        status = None
        if table and provider:
            table, status = provider.read(name, table, stamp)
            table = {**table, "provider": provider.NAME}
        return {"tier": tier, "table": table, "status": status}

    def _origin(self, name: str, cache: Cache | None, wanted: bool) -> CacheDisk | None:
        layer = (cache or {}).get("layer") or self.recorded.get(name, {}).get("layer")
        if layer:
            return self._disk(layer["path"], layer)
        given = [cache["origin"]] if cache else [self.recorded[name]["origin"]] if name in self.recorded else []
        return self._named(name, given, wanted and cache is not None)

    def _fast(self, name: str, cache: Cache | None, wanted: bool) -> CacheDisk | None:
        given = [cache["fast"]] if cache else [self.recorded[name]["fast"]] if name in self.recorded else []
        return self._named(name, given, wanted and cache is not None)

    def _named(self, name: str, given: list[dict[str, Any]], needed: bool) -> CacheDisk | None:
        if needed:
            return self._disk(proven_disk.locate(f"Cache {name}", "cache_tier_caches", given[0], self.system))
        paths = [path for disk in given for path in proven_disk.present(disk, self.system)]
        return self._disk(paths[0]) if len(paths) == 1 else None

    # -- refusing

    def refuse_used(self, steps: list[Step], current: dict[str, CacheState]) -> None:
        """Raises device_mounted or device_in_use when a tier that is to go has users."""
        for step in steps:
            tier = current[step["cache"]]["tier"]
            if step["op"] == "remove" and tier:
                users = block_device.users(tier["device"], system=self.system)
                if users:
                    what = f"Cache {step['cache']} ({tier['device']}) cannot be removed"
                    raise block_device.in_use(what, tier["device"], users)

    def refuse_small(self, steps: list[Step], wanted: list[Cache], current: dict[str, CacheState]) -> None:
        """Raises bad_value when a fast device has too few blocks for a cache that is to be put in."""
        aims = {cache["name"]: cache for cache in wanted}
        for cache in [
            aims[step["cache"]] for step in steps if step["op"] in ("create", "put_in") and step["cache"] in aims
        ]:
            fast, provider = current[cache["name"]]["fast"], provider_of(cache)
            blocks = geometry(fast["size_bytes"], cache["block_kib"], provider)["blocks"]
            if blocks < FEWEST_BLOCKS[provider]:
                raise bad_value(
                    f"cache_tier_caches {cache['name']} fast",
                    fast["path"],
                    f"It has {fast['size_bytes']} bytes, too few for {FEWEST_BLOCKS[provider]} blocks of {cache['block_kib']} KiB"
                    f"{' with ' + provider if provider != DM_CACHE else ''}: name a larger one, or write smaller blocks.",
                )

    def refuse_unsafe(self, steps: list[Step], wanted: list[Cache], current: dict[str, CacheState]) -> None:
        """The device guard for both devices of a tier that is to be made. The fast one is overwritten; what the origin holds stays, and it may hold
        something only when it is the testbed's own: a layer that it published, or what its stamp says is the origin."""
        for step in steps:
            if step["op"] not in ("create", "assemble") or step["cache"] not in {cache["name"] for cache in wanted}:
                continue
            cache = next(cache for cache in wanted if cache["name"] == step["cache"])
            name, state = cache["name"], current[cache["name"]]
            variable, stamp = f"cache_tier_caches {name}", state["stamp"]
            mine = {"signature_present"}
            facts = device_safety.inspect(state["fast"]["path"], system=self.system)
            device_safety.refuse_named(
                f"fast device of cache {name}",
                f"{variable} fast",
                state["fast"]["path"],
                cache["fast"],
                "scratch",
                facts,
                mine if stamp else frozenset(),
            )
            path = state["origin"]["path"]
            facts = device_safety.inspect(path, system=self.system)
            if cache["layer"]:
                all_of_them = device_safety.refusals(facts, cache["layer"], testbed_id=self.testbed_id, overwrite=False)
                reasons = [item for item in all_of_them if item.code not in mine]
                if reasons:
                    raise device_safety.not_touched(cache["layer"], reasons)
                continue
            proven = stamp and stamp["origin"] == state["origin"]["digest"]
            device_safety.refuse_named(
                f"origin of cache {name}",
                f"{variable} origin",
                path,
                cache["origin"],
                cache["purpose"],
                facts,
                mine if proven else frozenset(),
            )

    # -- changing

    def apply(self, steps: list[Step], wanted: list[Cache], current: dict[str, CacheState], timeout_s: float) -> None:
        """Carry out the steps. timeout_s: how long each cache may take to write what only it has."""
        before = loaded_modules()
        caches = {cache["name"]: cache for cache in wanted}
        self._adopt(caches, current)
        try:
            for step in steps:
                name, state = step["cache"], current[step["cache"]]
                if step["op"] == "take_out":
                    self._take_out(name, state, timeout_s)
                elif step["op"] == "remove":
                    self._remove(name, state)
                elif step["op"] == "put_in":
                    self._put_in(caches[name], state)
                else:
                    self._begin(name, caches.get(name), state)
        finally:
            if self.recorded:
                self.record.note_modules(before)

    def _adopt(self, caches: dict[str, Any], current: dict[str, CacheState]) -> None:
        """Record what an earlier boot has left: what a teardown needs is then known without a description, too."""
        for name, cache in caches.items():
            if name not in self.recorded:
                entry = {
                    "origin": {**proven_disk.proofs(cache["origin"]), "device": current[name]["origin"]["path"]},
                    "fast": {**proven_disk.proofs(cache["fast"]), "device": current[name]["fast"]["path"]},
                    "layer": cache["layer"],
                }
                self.record.data.setdefault("caches", {})[name] = entry
                self.record.save()

    def _dmsetup(self, *words: str, what: str) -> None:
        run(["dmsetup", *words], what=what, remedy="Look at the message and at the kernel log of the host.")

    def _map(self, name: str, mapped: str, *table: str) -> None:
        # No step waits for udev: its links are not used, and embedded machines have none.
        what = f"The mapping {name} cannot be made"
        if len(table) == 1:
            self._dmsetup("create", name, "--uuid", mapped, "--noudevsync", "--table", table[0], what=what)
        else:
            # For several targets there is no other way without an input.
            concise = ",".join([name, mapped, "", "rw", *table])
            self._dmsetup("create", "--noudevsync", "--concise", concise, what=what)

    def make_part(self, name: str, part: str, stamp: CacheStamp, *table: str) -> None:
        mapped = f"{PART}:{self.testbed_id}:{name}:{part}:{stamp['uuid']}"
        self._map(tier_name(self.testbed_id, name, part), mapped, *table)

    def unmap(self, name: str) -> None:
        # udev may look into a device that has just changed.
        self._dmsetup("remove", "--retry", "--noudevsync", name, what=f"The mapping {name} cannot be removed")

    def turn(self, name: str, table: str) -> None:
        """Give the tier another table; I/O waits for it."""
        what = f"The table of {name} cannot be changed"
        self._dmsetup("reload", name, "--table", table, what=what)
        self._dmsetup("resume", "--noudevsync", name, what=what)

    def write(self, path: str, content: bytes, offset: int = 0) -> None:
        device = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            with naming(path):
                os.pwrite(device, content, offset)
                os.fsync(device)
        finally:
            os.close(device)

    def zero(self, path: str, offset: int, count: int = cache_stamp.BYTES) -> None:
        self.write(path, bytes(count), offset)

    def _begin(self, name: str, cache: Cache | None, state: CacheState) -> None:
        """Make the tier: with the cache that an earlier boot left when only that has what was written, else the origin alone."""
        stamp: Any = state["stamp"]
        origin, fast = state["origin"], state["fast"]
        if not stamp:
            stamp = {"testbed_id": self.testbed_id, "name": name, "uuid": uuid.uuid4().hex, "state": cache_stamp.CLEAN}
            stamp.update(_of_stamp(cache or {}))
        elif not must_flush(stamp):
            # An origin that has everything may have been written without the cache since.
            stamp = {**stamp, "state": cache_stamp.CLEAN}
        stamp = {**stamp, "origin": origin["digest"], "origin_bytes": origin["size_bytes"]}
        self.write(fast["path"], cache_stamp.pack(stamp))
        mapped, title = f"{TIER}:{self.testbed_id}:{name}:{stamp['uuid']}", tier_name(self.testbed_id, name)
        state["stamp"] = stamp
        provider = self.providers[provider_of(stamp)]
        provider.load()
        if must_flush(stamp):
            self._map(title, mapped, provider.join(name, stamp, origin, fast, migration=0, fresh=False))
        else:
            self._map(title, mapped, self._plain_table(origin))
        self._look(name, state)

    def _plain_table(self, origin: CacheDisk) -> str:
        return f"0 {origin['size_bytes'] // SECTOR} linear {origin['path']} 0"

    def _put_in(self, cache: Cache, state: CacheState) -> None:
        name, fast = cache["name"], state["fast"]
        left = self.maker(name)
        if left:
            left.dismantle(name)
        provider = self.providers[provider_of(cache)]
        provider.load()
        stamp: CacheStamp = {**cast(CacheStamp, state["stamp"]), **_of_stamp(cache), "state": cache_stamp.CLEAN}
        table = provider.join(name, stamp, state["origin"], fast, migration_kib(cache), fresh=True)
        self._mark(fast, state, {**stamp, "state": cache_stamp.CACHED})
        self.turn(tier_name(self.testbed_id, name), table)
        self._look(name, state)
        refuse_failed(name, {**state, "stamp": None})

    def _mark(self, fast: CacheDisk, state: CacheState, stamp: CacheStamp) -> None:
        self.write(fast["path"], cache_stamp.pack(stamp))
        state["stamp"] = stamp

    def _take_out(self, name: str, state: CacheState, timeout_s: float) -> None:
        """Write what only the cache has, prove that nothing is left, then let the origin stand alone."""
        title, provider = tier_name(self.testbed_id, name), self.maker(name)
        if provider and not failed(state):
            provider.flush(name, state, timeout_s)
        # From here on the origin has everything: the cache writes through, and it has no dirty block.
        self._mark(state["fast"], state, {**cast(CacheStamp, state["stamp"]), "state": cache_stamp.CLEAN})
        self.turn(title, self._plain_table(state["origin"]))
        if provider:
            provider.dismantle(name)
            provider.erase(state["fast"])
        self._look(name, state)

    def _look(self, name: str, state: CacheState) -> None:
        """The kernel's state after a step."""
        live = self._live(name, state["stamp"])
        if not live["table"]:
            raise Failure(
                "cache_missing",
                f"Cache {name} is not there, although dmsetup said that it was made.",
                "Look at the kernel log of the host.",
                cache=name,
            )
        state.update(live)

    def _remove(self, name: str, state: CacheState) -> None:
        if state["tier"]:
            self.unmap(state["tier"]["name"])
        left = self.maker(name)
        if left:
            left.dismantle(name)
        fast = state["fast"]
        # Looked at again: what is zeroed is what this testbed wrote, and nothing else.
        stamp = self._stamp(name, fast["path"]) if fast else None
        if fast and stamp is not None:
            (left or self.providers[provider_of(stamp)]).erase(fast)
            self.zero(fast["path"], 0)
        self.recorded.pop(name, None)
        self.record.save()

    def forget(self) -> None:
        """The end of the area: unload the kernel modules that came with it."""
        self.record.unload_modules()
        self.record.remove()

    # -- what to publish

    def layers(self, wanted: list[Cache], current: dict[str, CacheState]) -> list[Layer]:
        """The tiers as layers, without their host; of one that is not there yet its path is predicted."""
        taken = set(self.system.names("/sys/block"))
        layers: list[Layer] = []
        for cache in wanted:
            state = current[cache["name"]]
            number = next(number for number in range(1 << 16) if f"dm-{number}" not in taken)
            device = state["tier"]["device"] if state["tier"] else f"/dev/dm-{number}"
            taken.add(os.path.basename(device))
            layers.append(self._layer(cache, state, device))
        return layers

    def _layer(self, cache: Cache, state: CacheState, path: str) -> Layer:
        name, tier, parent = cache["name"], state["tier"], cache["layer"]
        identity = {"stamp": f"{self.testbed_id}/{name}", "size_bytes": state["origin"]["size_bytes"]}
        detail = {"provider": "cache_tier", "cache_tier": self._facts(cache, state)}
        if tier:
            identity.update(uuid=tier["uuid"], major_minor=tier["numbers"])
            # Its contents are its origin's contents.
            below = ((parent or {}).get("detail") or {}).get("generation")
            detail["generation"] = below or tier["uuid"].split(":")[3][:12]
        delay = cache.get("emulated_delay") or ((parent or {}).get("detail") or {}).get("emulated_delay")
        if delay:
            detail["emulated_delay"] = delay
        return {
            "name": f"backing-{name}",
            "kind": "backing",
            "path": path,
            "parent": parent["name"] if parent else None,
            "purpose": cache["purpose"],
            "size_bytes": state["origin"]["size_bytes"],
            "identity": identity,
            "detail": detail,
        }

    def _facts(self, cache: Cache, state: CacheState) -> dict[str, Any]:
        """The settings that figures of the tier depend on."""
        provider = self.providers[provider_of(cache)]
        facts: dict[str, Any] = {"cached": cache["cached"], "origin": self._shown(state["origin"]["path"])}
        if cache["cached"]:
            facts.update(
                provider=provider.NAME,
                mode=cache["mode"],
                block_bytes=cache["block_kib"] * 1024,
                fast=self._shown(state["fast"]["path"]),
                **provider.facts(cache["name"]),
            )
            # LVM takes from the blocks what it needs for its metadata; before that the number is unknown.
            blocks = (state["status"] or {}).get("blocks")
            if provider.NAME != LVM:
                blocks = provider.places(state["fast"], cache["block_kib"])["blocks"]
            if blocks:
                facts["blocks"] = blocks
            if provider.NAME != BCACHE:
                facts.update(policy=POLICY, migration_bytes=migration_kib(cache) * 1024)
        return facts

    def _shown(self, path: str) -> dict[str, Any]:
        shown = device_safety.identity(path, self.system)
        return {"device": path, **{key: shown[key] for key in ("serial", "naa", "wwid", "model") if shown.get(key)}}


# ---------------------------------------------------------------- the module


class Area(converge.Area):
    """The cache tiers of a testbed, for the module cache_tier."""

    def plan(self) -> list[Step]:
        params = self.params
        self.caches = Caches(check_testbed_id("cache_tier_testbed_id", params["testbed_id"]))
        self.described = check_caches(params["caches"], params["layers"], self.present)
        self.wanted = self.described if self.present else []
        self.current = self.caches.current(self.described, wanted=self.present)
        return plan(self.current, self.wanted)

    def guard(self, steps: list[Step]) -> None:
        self.caches.refuse_used(steps, self.current)
        self.caches.refuse_unsafe(steps, self.wanted, self.current)
        self.caches.refuse_small(steps, self.wanted, self.current)

    def apply(self, steps: list[Step]) -> None:
        self.caches.apply(steps, self.wanted, self.current, self.params["flush_timeout_s"])
        if not self.wanted:
            self.caches.forget()

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        layers = {"layers": self.caches.layers(self.wanted, self.current)} if self.present else {}
        return {**step_words.shown(steps), **layers}
