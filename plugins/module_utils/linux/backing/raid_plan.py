# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of RAID arrays: pure functions of what is there and what is wanted."""

from __future__ import annotations

from ...core.failure import Failure
from ...core.raid_levels import CHUNK_KIB
from ...core.steps import Step
from ..nouns import ActiveArray, ArrayState
from ..params import RaidArrayOption

# Marks in a record: mdadm makes the array, or puts it together again, and it was not seen running yet; the first one also that it is being removed.
MARKS = ("unfinished", "assembling")
IDLE = "idle"
# The kernel compares members that hold the same data, as many systems let it once a month; nothing is rebuilt.
SCRUBS = ("check", "repair")


def runs(array: ActiveArray) -> bool:
    return array["array_state"] not in ("", "clear", "inactive")


def synchronising(array: ActiveArray) -> bool:
    """Whether members do not hold the same data yet: the kernel is at it, or has it before itself."""
    return array["sync_action"] not in (IDLE, "frozen", *SCRUBS) or array["resync_start"] != "none"


def settled(array: ActiveArray) -> bool:
    """Whether all members are there and hold the same data. RAID 5 is born with one missing, which the kernel then fills."""
    return not synchronising(array) and not array["degraded"]


def words(level: int | str, members: list[str], chunk_bytes: int, bitmap: str) -> str:
    """An array in one line of a diff or message."""
    chunks = f" in chunks of {chunk_bytes // 1024} KiB" if chunk_bytes else ""
    kept = " with a bitmap" if bitmap == "internal" else ""
    return f"RAID {level} of {len(members)} members ({', '.join(members)}){chunks}{kept}"


def _words_of(array: ActiveArray) -> str:
    paths = [member["path"] for member in array["members"]]
    return words(array["level"], paths, array["chunk_bytes"], array["bitmap"])


def chunk_bytes(wanted: RaidArrayOption) -> int:
    """For a wanted array; a mirror of two whole disks (RAID 1) has no chunks, and the kernel says 0."""
    return 0 if wanted["level"] == 1 else (wanted["chunk_kib"] or CHUNK_KIB) * 1024


def differences(active: ActiveArray, wanted: RaidArrayOption, paths: list[str]) -> list[str]:
    """The differences between the array and the wish, in words; empty when there are none."""
    differing = []
    if active["level"] != wanted["level"]:
        differing.append(f"its level is {active['level']} instead of {wanted['level']}")
    if wanted["level"] == active["level"] and active["chunk_bytes"] != chunk_bytes(wanted):
        differing.append(
            f"its chunks have {active['chunk_bytes'] // 1024} KiB instead of {chunk_bytes(wanted) // 1024} KiB"
        )
    have = [member["path"] for member in active["members"]]
    if set(have) != set(paths):
        differing.append(f"its members are {', '.join(have)} instead of {', '.join(paths)}")
    elif active["raid_disks"] != len(paths):
        differing.append(f"it has places for {active['raid_disks']} members instead of {len(paths)}")
    if active["bitmap"] != wanted["bitmap"]:
        bitmaps = {"none": "no bitmap", "internal": "a bitmap"}
        differing.append(f"it has {bitmaps[active['bitmap']]} instead of {bitmaps[wanted['bitmap']]}")
    return differing


def plan(current: dict[str, ArrayState], wanted: list[RaidArrayOption]) -> list[Step]:
    """Steps from what is to the wanted arrays, removals first; raises array_differs, array_incomplete or array_degraded.

    current: {name: {active, memberless, found, paths, unfinished}} of the arrays that are wanted or recorded: ``active`` what ``read_array`` says of
    this testbed's own array or None, ``memberless`` the path of an array without members that a cut making has left or None, ``found``
    {path: {uuid, stamp} or None} of the superblocks on its members, those that are this testbed's, ``paths`` of the wanted members, ``unfinished``
    whether this testbed began to make it and never saw it run, or began to remove it. Each step has op, target, was
    and will; 'wait' changes nothing.
    """
    names = [array["name"] for array in wanted]
    removals = [
        _step("remove", name, _words_of(state["active"]) if state["active"] else _left(state), None)
        for name, state in current.items()
        if name not in names and (state["active"] or state["memberless"] or any(state["found"].values()))
    ]
    steps = [step for array in wanted for step in _steps(current[array["name"]], array)]
    # All arrays synchronise at once.
    return removals + sorted(steps, key=lambda step: step["op"] == "wait")


def _step(op: str, name: str, was: str | None, will: str | None) -> Step:
    return {"op": op, "target": f"RAID {name}", "array": name, "was": was, "will": will}


def _left(state: ArrayState) -> str:
    carriers = [path for path, superblock in state["found"].items() if superblock]
    parts = [f"{state['memberless']} without members"] if state["memberless"] else []
    return " and ".join([*parts, *([f"superblocks on {', '.join(carriers)}"] if carriers else [])])


def has_remains(state: ArrayState) -> bool:
    """Whether there is something of an array whose making was cut before it ran, or whose removal was. Nothing was ever written through it, or all of it
    was to go."""
    there = state["active"] or state["memberless"] or any(state["found"].values())
    return bool(state["unfinished"] and there and not (state["active"] and runs(state["active"])))


def _steps(state: ArrayState, wanted: RaidArrayOption) -> list[Step]:
    name, active, paths = wanted["name"], state["active"], state["paths"]
    text = words(wanted["level"], paths, chunk_bytes(wanted), wanted["bitmap"])
    cache = wanted.get("stripe_cache")
    more = [_step("set_stripe_cache", name, None, cache)] if cache else []
    wait = [_step("wait", name, "members that differ", "the same data")] if wanted["resync"] == "wait" else []
    if active and runs(active):
        differing = differences(active, wanted, paths)
        if differing:
            raise Failure(
                "array_differs",
                f"RAID {name} ({active['device']}) is not what raid_arrays says: {' and '.join(differing)}.",
                "An array is never reshaped: describe it as it is, or run teardown and build, which recreate it and lose its contents.",
                array=name,
                device=active["device"],
                differences=differing,
            )
        if active["degraded"] and not synchronising(active):
            raise Failure(
                "array_degraded",
                f"RAID {name} ({active['device']}) has lost {active['degraded']} of {active['raid_disks']} members.",
                "Look at the kernel log of the host; put a good member in with mdadm --add, or run teardown and build.",
                array=name,
                device=active["device"],
            )
        if cache and active["stripe_cache"] != cache:
            more[0]["was"] = active["stripe_cache"]
        else:
            more = []
        return more + (wait if synchronising(active) else [])
    carriers = [path for path in paths if state["found"].get(path)]
    remains = has_remains(state)
    if remains or not carriers:
        return [
            *([_step("remove", name, _left(state), None)] if remains else []),
            _step("create", name, None, text),
            *more,
            *(wait if wanted["level"] and not wanted["assume_clean"] else []),
        ]
    if len(carriers) < len(paths) or len({state["found"][path]["uuid"] for path in paths}) > 1:
        raise Failure(
            "array_incomplete",
            f"RAID {name} was begun and not finished: {', '.join(carriers)} of {', '.join(paths)} carry its superblock.",
            "Run teardown, which removes its remains, and then build.",
            array=name,
            members=carriers,
        )
    return [_step("assemble", name, _left(state), text), *more, *wait]
