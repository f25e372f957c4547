# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of cache tiers: pure functions of what is there and what is wanted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ...core.cache_modes import DM_CACHE, words
from ...core.failure import Failure
from ...core.layers import Layer
from ...core.steps import Step
from ..disks import cache_stamp
from ..nouns import Cache, CacheStamp, CacheState, CacheTable
from .cache_provider import CLEANER, POLICY, gave_up, parse_cache_table

SECTOR = 512
ALONE = words(False, None, None)


def table_of(targets: list[dict[str, Any]]) -> CacheTable | None:
    """The parts of a tier's table: {cached, origin, size_bytes, …}, None for a table that no tier has."""
    if len(targets) != 1:
        return None
    target = targets[0]
    size_bytes = target["length"] * SECTOR
    if target["type"] == "linear":
        return {"cached": False, "origin": target["text"].split()[0], "size_bytes": size_bytes}
    if target["type"] != "cache":
        return None
    return {"cached": True, "size_bytes": size_bytes, **parse_cache_table(target["text"])}


def digest_of(shown: Mapping[str, object], layer: Layer | None) -> str:
    """The identity of an origin, in 32 characters: the disk's own, or the layer and the generation of the disk below it."""
    if layer:
        detail = layer.get("detail") or {}
        proof = [
            layer["name"],
            detail.get("generation"),
            layer["identity"].get("uuid"),
            layer["identity"].get("serial"),
        ]
    else:
        proof = [shown.get(key) for key in ("serial", "naa", "wwid", "mapped_uuid")]
    return hashlib.sha256(repr(proof).encode()).hexdigest()[:32]


def _words_of(table: CacheTable) -> str:
    return words(table["cached"], table.get("mode"), table.get("block_bytes", 0) // 1024, table.get("provider"))


def _step(op: str, name: str, was: str | None, will: str | None) -> Step:
    return {"op": op, "target": f"cache {name}", "cache": name, "was": was, "will": will}


def plan(current: dict[str, CacheState], wanted: list[Cache]) -> list[Step]:
    """Steps from what is to the wanted tiers, removals first; raises cache_differs, cache_failed or cache_origin_missing.

    current: {name: {table, status, stamp, origin, fast}} of the tiers that are wanted or recorded: ``table`` what ``table_of`` says of this testbed's
    own tier or None, ``status`` of its cache, ``stamp`` what the fast device carries of it or None, ``origin`` and ``fast`` {path, numbers, size_bytes,
    digest} or None. Each step has op, target, was and will.
    """
    names = [cache["name"] for cache in wanted]
    steps = [step for name, state in current.items() if name not in names for step in _removal(name, state)]
    return steps + [step for cache in wanted for step in _steps(current[cache["name"]], cache)]


def _removal(name: str, state: CacheState) -> list[Step]:
    table, stamp = state["table"], state["stamp"]
    if not table and not stamp:
        return []
    steps: list[Step] = []
    if stamp and not table and must_flush(stamp):
        _refuse_other_origin(name, state)
        steps.append(_step("assemble", name, f"stamp on {state['fast']['path']}", _words_of(_stamped(stamp))))
        table = _stamped(stamp)
    refuse_failed(name, state)
    if table and table["cached"]:
        steps.append(_step("take_out", name, _words_of(table), ALONE))
    was = ALONE if table else f"stamp on {state['fast']['path']}"
    return [*steps, _step("remove", name, was, None)]


def must_flush(stamp: CacheStamp) -> bool:
    """Whether only the cache may have what was written."""
    return bool(stamp["state"] == cache_stamp.CACHED and stamp["mode"] == "writeback")


def _stamped(stamp: Cache | CacheStamp) -> CacheTable:
    return {
        "cached": True,
        "mode": stamp["mode"],
        "block_bytes": stamp["block_kib"] * 1024,
        "provider": provider_of(stamp),
    }


def provider_of(described: Mapping[str, object]) -> str:
    """Who puts a cache in, by its stamp or description. A text without one is older than the others."""
    return str(described.get("provider") or DM_CACHE)


def failed(state: CacheState) -> bool:
    """Whether the kernel gave a cache up."""
    cached, status = state["table"] and state["table"]["cached"], state["status"]
    return bool(cached and (status is None or status["needs_check"]))


def refuse_failed(name: str, state: CacheState) -> None:
    """A cache that failed and wrote through is taken out; for one that wrote back the loss is unknown."""
    if failed(state) and (not state["stamp"] or must_flush(state["stamp"])):
        raise gave_up(name)


def _refuse_other_origin(name: str, state: CacheState) -> None:
    """The fast device has what its origin lacks, so they belong together."""
    origin, stamp = state["origin"], state["stamp"]
    if origin and origin["digest"] == stamp["origin"] and origin["size_bytes"] == stamp["origin_bytes"]:
        return
    path = state["fast"]["path"]
    raise Failure(
        "cache_origin_missing",
        f"{path} may hold what the origin of cache {name} lacks, and that origin is {'another disk' if origin else 'not there'}.",
        f"Attach it, or name it. If its contents may be lost, zero the first {cache_stamp.BYTES} bytes of {path}.",
        cache=name,
        path=path,
    )


def differences(state: CacheState) -> list[str]:
    """The changes that a tier cannot follow, in words; mode, size of the blocks and whether there is a cache can."""
    table, origin, fast, stamp = state["table"], state["origin"], state["fast"], state["stamp"]
    differing = []
    if table and table["origin"] != origin["numbers"]:
        differing.append(f"its origin is {table['origin']} instead of {origin['path']} ({origin['numbers']})")
    if table and table["size_bytes"] != origin["size_bytes"]:
        differing.append(f"it has {table['size_bytes']} bytes instead of {origin['size_bytes']}")
    if table and table["cached"] and state["fast_numbers"] not in (None, fast["numbers"]):
        differing.append(f"its fast device is {state['fast_numbers']} instead of {fast['path']} ({fast['numbers']})")
    if table and not stamp:
        differing.append(f"{fast['path']} does not carry its stamp")
    return differing


def _steps(state: CacheState, wanted: Cache) -> list[Step]:
    name, table, stamp = wanted["name"], state["table"], state["stamp"]
    aim: CacheTable = {**_stamped(wanted), "cached": wanted["cached"]}
    steps: list[Step] = []
    differing = differences(state)
    if differing:
        raise Failure(
            "cache_differs",
            f"Cache {name} is not what cache_tier_caches says: {' and '.join(differing)}.",
            "Describe it as it is, or run teardown and build.",
            cache=name,
            differences=differing,
        )
    refuse_failed(name, state)
    if not table:
        begun: CacheTable = _stamped(stamp) if stamp and must_flush(stamp) else {"cached": False}
        if begun["cached"]:
            _refuse_other_origin(name, state)
        was = f"stamp on {state['fast']['path']}" if stamp else None
        steps.append(_step("assemble" if stamp else "create", name, was, _words_of(begun)))
        table = begun
    if table["cached"] and (failed(state) or not _is(table, aim)):
        steps.append(_step("take_out", name, _words_of(table), ALONE))
        table = {"cached": False}
    if aim["cached"] and not table["cached"]:
        steps.append(_step("put_in", name, ALONE, _words_of(aim)))
    return steps


def _is(table: CacheTable, aim: CacheTable) -> bool:
    """Whether a cached tier is the wanted one; one that is being emptied is none."""
    alike = aim["cached"] and all(table[key] == aim[key] for key in ("provider", "mode", "block_bytes"))
    return bool(alike and table.get("policy", POLICY) != CLEANER)
