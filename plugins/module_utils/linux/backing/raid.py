# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RAID arrays of the kernel (md), made by mdadm: what is there, and the steps of the plan (raid_plan.py).

An array is this testbed's when its name in the superblocks is the testbed's stamp and, as long as a record of it is kept, its UUID the recorded
one. The superblock outlives a boot, the record does not. Names are compared whole.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from ...core import converge
from ...core import steps as step_words
from ...core.failure import Failure, bad_value, unfit
from ...core.layers import Layer
from ...core.names import check_name, check_testbed_id
from ...core.raid_levels import FEWEST, MODULES, faults
from ...core.steps import Step
from ..disks import block_device, device_safety, proven_disk
from ..disks.system import System
from ..host import load_module, loaded_modules, run, wait_for, write_text
from ..nouns import ActiveArray, ActiveMember, ArrayState
from ..params import RaidArrayOption
from ..record import Record
from .raid_plan import IDLE, MARKS, SCRUBS, chunk_bytes, differences, has_remains, plan, runs, settled

# Name in the superblock with the homehost before it (struct mdp_superblock_1, set_name); mdadm leaves the homehost out when it has no room.
STAMP_BYTES = 31
HIGHEST_NUMBER = 127
COMMAND_S = 600

ARRAY: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "level": {"type": "int", "choices": sorted(FEWEST), "required": True},
    "members": {"type": "list", "elements": "dict", "required": True, "options": proven_disk.OPTIONS},
    "chunk_kib": {"type": "int"},
    "bitmap": {"type": "str", "choices": ["none", "internal"], "default": "none"},
    "assume_clean": {"type": "bool", "default": False},
    "stripe_cache": {"type": "int"},
    "resync": {"type": "str", "choices": ["wait", "run"], "default": "wait"},
    "purpose": {"type": "str", "choices": ["scratch", "data"], "default": "data"},
    "emulated_delay": {"type": "dict"},
}
SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "resync_timeout_s": {"type": "int", "default": 3600},
    "arrays": {"type": "list", "elements": "dict", "default": [], "options": ARRAY},
}


def stamp(testbed_id: str, name: str) -> str:
    """'<homehost>:<name>' of an array's superblocks. Neither part can hold a colon, so no two arrays share one."""
    text = f"storlab-{testbed_id}:{name}"
    if len(text) <= STAMP_BYTES:
        return text
    digest = hashlib.sha256(f"{testbed_id}/{name}".encode()).hexdigest()
    return f"storlab:{digest[: STAMP_BYTES - len('storlab:')]}"


def new_uuid() -> str:
    """A random UUID as mdadm writes it."""
    return _colons(uuid.uuid4().hex)


def _colons(digits: str) -> str:
    return ":".join(digits[place : place + 8] for place in range(0, 32, 8))


def check_arrays(arrays: list[RaidArrayOption]) -> list[RaidArrayOption]:
    """The arrays in the given order; raises bad_value for the first thing that is wrong with them."""
    names: set[Any] = set()
    for array in arrays:
        name = check_name("raid_arrays name", array["name"])
        if name in names:
            raise bad_value("raid_arrays name", name, "Give every array another name.")
        names.add(name)
        for key, value, why, remedy in faults(array, len(array["members"])):
            raise unfit(f"raid_arrays {name} {key}", value, f"but {why}", remedy)
        seen: set[Any] = set()
        for member in array["members"]:
            keys = {(key, value) for key, value in member.items() if key in ("device", *device_safety.PROOFS) and value}
            if not keys:
                raise bad_value(
                    f"raid_arrays {name} members", member, "Say which disk is meant, by its serial, naa, wwid or uuid."
                )
            if seen & keys:
                raise bad_value(f"raid_arrays {name} members", sorted(seen & keys)[0][1], "Name each member once.")
            seen |= keys
    return arrays


# ---------------------------------------------------------------- reading


def parse_export(text: str) -> dict[str, Any]:
    """{key: value} of what ``mdadm --detail --export`` or ``mdadm --examine --export`` prints."""
    return dict(line.strip().partition("=")[::2] for line in text.splitlines() if "=" in line)


def examine(path: str, system: System) -> dict[str, Any] | None:
    """{uuid, stamp} of the superblock on a device, None without one."""
    done = system.run(["mdadm", "--examine", "--export", path])
    if done is None:
        raise Failure(
            "command_missing", "The command mdadm is not on this host.", "Install the package mdadm.", command="mdadm"
        )
    superblock = parse_export(done[1]) if done[0] == 0 else {}
    return (
        {"uuid": superblock["MD_UUID"], "stamp": superblock.get("MD_NAME", "")} if superblock.get("MD_UUID") else None
    )


def read_array(name: str, system: System) -> ActiveArray:
    """One array of the host by its kernel name (md127): what it is made of, and what the kernel does with it."""
    folder = f"/sys/block/{name}/md"

    def read(key: str) -> str:
        return system.read(f"{folder}/{key}") or ""

    def number(key: str) -> int | None:
        # While an array is reshaped: what it becomes, and in brackets what it was.
        match = re.fullmatch(r"(-?\d+)(?: \(-?\d+\))?", read(key))
        return int(match.group(1)) if match else None

    done = system.run(["mdadm", "--detail", "--export", f"/dev/{name}"])
    detail = parse_export(done[1]) if done and done[0] == 0 else {}
    members: list[ActiveMember] = []
    for entry in system.names(folder):
        if entry.startswith("dev-"):
            slot = read(f"{entry}/slot")
            members.append(
                {
                    "path": f"/dev/{entry[len('dev-') :].replace('!', '/')}",
                    "slot": int(slot) if slot.isdigit() else None,
                    "state": read(f"{entry}/state"),
                }
            )
    level = read("level")
    done_sectors, _slash, all_sectors = read("sync_completed").partition(" / ")
    return {
        "device": f"/dev/{name}",
        "uuid": detail.get("MD_UUID") or _colons(read("uuid").replace("-", "")),
        "stamp": detail.get("MD_NAME", ""),
        "level": int(level[len("raid") :]) if re.fullmatch(r"raid\d+", level) else level,
        "chunk_bytes": number("chunk_size") or 0,
        "layout": number("layout"),
        "metadata": read("metadata_version"),
        "raid_disks": number("raid_disks") or 0,
        "members": sorted(members, key=lambda member: (member["slot"] is None, member["slot"], member["path"])),
        "array_state": read("array_state"),
        "sync_action": read("sync_action") or IDLE,
        "sync_percent": 100 * int(done_sectors) // int(all_sectors)
        if all_sectors.isdigit() and int(all_sectors) and done_sectors.isdigit()
        else None,
        "resync_start": read("resync_start") or "none",
        "degraded": number("degraded") or 0,
        "bitmap": "none" if read("bitmap/location") in ("", "none") else "internal",
        "stripe_cache": number("stripe_cache_size"),
        "size_bytes": int(system.read(f"/sys/block/{name}/size") or 0) * 512,
    }


def read_arrays(system: System) -> list[ActiveArray]:
    """All arrays of the host, whoever made them."""
    return [read_array(name, system) for name in system.names("/sys/block") if system.names(f"/sys/block/{name}/md")]


def locate(array: RaidArrayOption, system: System) -> list[str]:
    """The path of every member of a wanted array; raises member_missing or serial_twice."""
    paths = []
    for member in array["members"]:
        paths.append(proven_disk.locate(f"RAID {array['name']}", "raid_arrays", member, system))
    twice = sorted({path for path in paths if paths.count(path) > 1})
    if twice:
        raise bad_value(
            f"raid_arrays {array['name']} members", twice[0], "Two entries lead to it; name each disk once."
        )
    return paths


# ---------------------------------------------------------------- the host's arrays


class Arrays:
    """The arrays of one testbed on this host."""

    def __init__(self, testbed_id: str, system: System | None = None) -> None:
        self.testbed_id = testbed_id
        self.system = system or System()
        self.record = Record(testbed_id, "raid")

    @property
    def recorded(self) -> dict[str, Any]:
        arrays: dict[str, Any] = self.record.data.get("arrays", {})
        return arrays

    def _ours(self, name: str, array: Mapping[str, object] | None) -> bool:
        """Whether an array or superblock is this testbed's array of that name."""
        kept = self.recorded.get(name, {}).get("uuid")
        return array is not None and array["stamp"] == stamp(self.testbed_id, name) and kept in (None, array["uuid"])

    def current(self, described: list[RaidArrayOption], wanted: bool = True) -> dict[str, ArrayState]:
        """What ``plan`` starts from. wanted: whether the described arrays shall be there, so that each of their members must be."""
        if not wanted and not self.recorded and self.system.run(["mdadm", "--version"]) is None:
            return {}  # nothing was made here, and nothing could have been
        names = list(dict.fromkeys([*self.recorded, *(array["name"] for array in described)]))
        unfinished = [kept["uuid"] for kept in self.recorded.values() if kept.get("unfinished")]
        # A module that was killed leaves its mdadm at work.
        wait_for(lambda: not any(self._at_work(array_uuid) for array_uuid in unfinished), COMMAND_S)
        # Without a trace of any array nothing is started on the host, which may not have mdadm.
        arrays = read_arrays(self.system) if names else []
        result: dict[str, ArrayState] = {}
        for name in names:
            array = next((array for array in described if array["name"] == name), None)
            paths = locate(array, self.system) if array and wanted else []
            known = [path for member in self._members(name, array) for path in proven_disk.present(member, self.system)]
            seen = {path: examine(path, self.system) for path in dict.fromkeys([*paths, *known])}
            result[name] = {
                "unfinished": bool(self.recorded.get(name, {}).get("unfinished")),
                "active": next((item for item in arrays if self._ours(name, item)), None),
                "memberless": self._memberless(name, arrays),
                "found": {
                    path: superblock if self._ours(name, superblock) else None for path, superblock in seen.items()
                },
                "paths": paths,
            }
        return result

    def _at_work(self, array_uuid: str) -> bool:
        """Whether a process makes the array of that UUID, which no other array ever had."""
        return any(f"--uuid={array_uuid}" in line and "--create" in line for line in self._commands())

    def _commands(self) -> list[str]:
        """The command lines of all processes."""
        return [self.system.read(f"/proc/{pid}/cmdline") or "" for pid in self.system.names("/proc") if pid.isdigit()]

    def _memberless(self, name: str, arrays: list[ActiveArray]) -> str | None:
        """The path of the array that a cut mdadm has left before it had a member; it has no name and no UUID yet.

        It is ours by the path and the number of members that were recorded before, where no process names that path.
        """
        kept = self.recorded.get(name, {})
        device = kept.get("device") if any(kept.get(mark) for mark in MARKS) else None
        for array in arrays:
            empty = not array["members"] and not array["uuid"].strip("0:") and not runs(array)
            if array["device"] == device and empty and array["raid_disks"] == len(kept["members"]):
                return None if any(device in line.split("\0") for line in self._commands()) else device
        return None

    def _members(self, name: str, array: RaidArrayOption | None) -> list[dict[str, Any]]:
        return [*self.recorded.get(name, {}).get("members", []), *(array["members"] if array else [])]

    # -- refusing

    def refuse_used(self, steps: list[Step], current: dict[str, ArrayState]) -> None:
        """Raises device_mounted or device_in_use when an array that is to go has users."""
        for step in steps:
            active = current[step["array"]]["active"]
            if step["op"] == "remove" and active and runs(active):
                users = block_device.users(active["device"], system=self.system)
                if users:
                    what = f"RAID {step['array']} ({active['device']}) cannot be removed"
                    raise block_device.in_use(what, active["device"], users)

    def refuse_unsafe(self, steps: list[Step], wanted: list[RaidArrayOption], current: dict[str, ArrayState]) -> None:
        """The device guard for every member of an array that is to be made: blank, unused, and the device that is meant.

        One that carries what a cut making has left is judged when that is gone.
        """
        for step in steps:
            if step["op"] == "create":
                array = next(array for array in wanted if array["name"] == step["array"])
                state = current[array["name"]]
                self._refuse_members(array, state["paths"], [path for path in state["paths"] if state["found"][path]])

    def _refuse_members(self, array: RaidArrayOption, paths: list[str], later: Iterable[str] = ()) -> None:
        for member, path in zip(array["members"], paths):
            if path not in later:
                device_safety.refuse_named(
                    f"member of RAID {array['name']}",
                    f"raid_arrays {array['name']} members",
                    path,
                    member,
                    array["purpose"],
                    device_safety.inspect(path, system=self.system),
                )

    # -- changing

    def apply(
        self, steps: list[Step], wanted: list[RaidArrayOption], current: dict[str, ArrayState], timeout_s: float
    ) -> None:
        """Carry out the steps. timeout_s: how long each array may take to synchronise."""
        before = loaded_modules()
        arrays = {array["name"]: array for array in wanted}
        self._adopt(arrays, current)
        makers = {"create": self._create, "assemble": self._assemble}
        try:
            for step in steps:
                name = step["array"]
                if step["op"] == "remove":
                    self._remove(name, current[name])
                elif step["op"] == "wait":
                    self._wait(name, timeout_s)
                elif step["op"] == "set_stripe_cache":
                    folder = f"/sys/block/{os.path.basename(self._active(name)['device'])}/md"
                    write_text(f"{folder}/stripe_cache_size", str(step["will"]))
                else:
                    makers[step["op"]](arrays[name], current[name])
        finally:
            if self.recorded:
                self.record.note_modules(before)

    def _adopt(self, arrays: dict[str, Any], current: dict[str, ArrayState]) -> None:
        """Record an array of ours that an earlier boot has left: what a teardown needs is then known without a description, too.

        One that runs was made, whether or not the run that made it lived to note that.
        """
        for name, array in arrays.items():
            active = current[name]["active"]
            if active and name not in self.recorded:
                self._keep(array, active["uuid"], current[name]["paths"])
            elif active and runs(active):
                self._finished(name)

    def _finished(self, name: str) -> None:
        marks = [self.recorded[name].pop(mark, None) for mark in MARKS]
        if any(marks):
            self.record.save()

    def _keep(self, array: RaidArrayOption, array_uuid: str, paths: list[str], **more: Any) -> None:
        members = [{"device": path, **proven_disk.proofs(member)} for member, path in zip(array["members"], paths)]
        entry = {"uuid": array_uuid, "members": members, **more}
        self.record.data.setdefault("arrays", {})[array["name"]] = entry
        self.record.save()

    def _active(self, name: str) -> ActiveArray:
        active = next((array for array in read_arrays(self.system) if self._ours(name, array) and runs(array)), None)
        if not active:
            raise Failure(
                "array_missing",
                f"RAID {name} is not there, although mdadm said that it started.",
                "Look at the kernel log of the host.",
                array=name,
            )
        return active

    def _free_device(self, promised: Iterable[str] = ()) -> str:
        taken = {*self.system.names("/sys/block"), *(os.path.basename(path) for path in promised)}
        number = next(number for number in range(HIGHEST_NUMBER, -1, -1) if f"md{number}" not in taken)
        return f"/dev/md{number}"

    def _create(self, array: RaidArrayOption, state: ArrayState) -> None:
        device, array_uuid, paths = self._free_device(), new_uuid(), state["paths"]
        if has_remains(state):
            self._refuse_members(array, paths)
        home, _colon, name = stamp(self.testbed_id, array["name"]).partition(":")
        # The intention: until the array runs, what carries this UUID is the remains of this call.
        self._keep(array, array_uuid, paths, device=device, assume_clean=array["assume_clean"], unfinished=True)
        load_module(MODULES[array["level"]], intend=self.record.intend_modules)
        run(
            [
                "mdadm",
                "--create",
                device,
                "--run",
                "--metadata=1.2",
                f"--homehost={home}",
                f"--name={name}",
                f"--uuid={array_uuid}",
                f"--level={array['level']}",
                # mdadm takes a single member for a mistake unless it is forced, and says that this comes before the number.
                *(["--force"] if len(paths) == 1 else []),
                f"--raid-devices={len(paths)}",
                *([f"--chunk={chunk_bytes(array) // 1024}"] if chunk_bytes(array) else []),
                *([f"--bitmap={array['bitmap']}"] if array["level"] else []),
                *(["--assume-clean"] if array["assume_clean"] and array["level"] else []),
                *paths,
            ],
            timeout_s=COMMAND_S,
            what=f"RAID {array['name']} cannot be made",
            remedy="Read the message; the next build or teardown removes its remains.",
        )
        self._expect(array, paths)
        self._finished(array["name"])

    def _assemble(self, array: RaidArrayOption, state: ArrayState) -> None:
        paths = state["paths"]
        array_uuid = state["found"][paths[0]]["uuid"]
        kept = self.recorded.get(array["name"], {})
        if state["active"]:
            # Begun by the host at its start, and not finished: it holds the members.
            self._stop(state["active"]["device"])
        if state["memberless"]:
            self._stop(state["memberless"])
        device = self._free_device()
        self._keep(array, array_uuid, paths, **{**kept, "device": device, "assembling": True})
        load_module(MODULES[array["level"]], intend=self.record.intend_modules)
        run(
            ["mdadm", "--assemble", device, f"--uuid={array_uuid}", *paths],
            timeout_s=COMMAND_S,
            what=f"RAID {array['name']} cannot be put together again",
            remedy="Look at the message and at the kernel log of the host.",
        )
        self._expect(array, paths)
        self._finished(array["name"])

    def _expect(self, array: RaidArrayOption, paths: list[str]) -> None:
        differing = differences(self._active(array["name"]), array, paths)
        if differing:
            raise Failure(
                "array_wrong",
                f"RAID {array['name']} was made, but {' and '.join(differing)}.",
                "Look at the kernel log of the host, and run teardown.",
                array=array["name"],
            )

    def _wait(self, name: str, timeout_s: float) -> None:
        active = self._active(name)
        if active["array_state"] == "read-auto":
            # One that was put together again begins with its first write, or on a command.
            run(["mdadm", "--readwrite", active["device"]], what=f"RAID {name} cannot be made writable")
        wait_for(lambda: settled(self._active(name)), timeout_s, interval_s=0.5)
        active = self._active(name)
        if not settled(active):
            raise Failure(
                "resync_running",
                f"RAID {name} ({active['device']}) still synchronises its members after {timeout_s:g} s"
                + (f": {active['sync_percent']} % is done." if active["sync_percent"] is not None else "."),
                "Run this again, which waits on; give raid_resync_timeout_s more; or set resync of the array to run, and its layer says so.",
                array=name,
                device=active["device"],
                sync_percent=active["sync_percent"],
            )

    def _stop(self, device: str) -> None:
        run(
            ["mdadm", "--stop", device],
            timeout_s=COMMAND_S,
            what=f"{device} cannot be stopped",
            remedy="Remove what uses it first.",
        )
        folder = f"/sys/block/{os.path.basename(device)}"
        wait_for(lambda: not os.path.isdir(f"{folder}/md"), timeout_s=10)

    def _remove(self, name: str, state: ArrayState) -> None:
        if state["active"]:
            self._stop(state["active"]["device"])
        if state["memberless"]:
            self._stop(state["memberless"])
        if name in self.recorded:
            # From here on a build does not put together again what a cut removal leaves.
            self.recorded[name]["unfinished"] = True
            self.record.save()
        for path, superblock in state["found"].items():
            # Looked at again: what is zeroed is what this testbed wrote, and nothing else.
            if superblock and examine(path, self.system) == superblock:
                run(
                    ["mdadm", "--zero-superblock", path],
                    what=f"The superblock of RAID {name} on {path} cannot be removed",
                )
                if examine(path, self.system):
                    raise Failure(
                        "superblock_left",
                        f"{path} still has a superblock after the one of RAID {name} was removed.",
                        "Look at it with mdadm --examine.",
                        path=path,
                    )
        self.recorded.pop(name, None)
        self.record.save()

    def forget(self) -> None:
        """The end of the area: unload the kernel modules that came with it."""
        self.record.unload_modules()
        self.record.remove()

    # -- what to publish

    def layers(self, wanted: list[RaidArrayOption], current: dict[str, ArrayState]) -> list[Layer]:
        """The arrays as layers, without their host; of one that is not there yet its path is predicted, and its size unknown."""
        layers: list[Layer] = []
        for array in wanted:
            active = current[array["name"]]["active"]
            path = active["device"] if active else self._free_device([layer["path"] for layer in layers])
            layers.append(self._layer(array, active, path))
        return layers

    def _layer(self, array: RaidArrayOption, active: ActiveArray | None, path: str) -> Layer:
        name = array["name"]
        kept = self.recorded.get(name, {})
        identity: dict[str, object] = {"stamp": f"{self.testbed_id}/{name}"}
        detail = {"provider": "raid", "raid": self._facts(array, active, kept)}
        if active:
            identity.update(uuid=active["uuid"], size_bytes=active["size_bytes"])
            numbers = block_device.device_numbers(path)
            if numbers:
                identity["major_minor"] = numbers
            # A new making of the array has another UUID; what an earlier boot has left has the same.
            detail["generation"] = active["uuid"].replace(":", "")[:12]
        if array.get("emulated_delay"):
            detail["emulated_delay"] = array["emulated_delay"]
        return {
            "name": f"backing-{name}",
            "kind": "backing",
            "path": path,
            "parent": None,
            "purpose": array["purpose"],
            "size_bytes": active["size_bytes"] if active else None,
            "identity": identity,
            "detail": detail,
        }

    def _facts(self, array: RaidArrayOption, active: ActiveArray | None, kept: dict[str, Any]) -> dict[str, Any]:
        """The settings that figures of the array depend on."""
        facts = {
            "level": array["level"],
            "chunk_bytes": chunk_bytes(array) or None,
            "bitmap": array["bitmap"],
            "members": [proven_disk.proofs(member) for member in array["members"]],
        }
        if active:
            facts.update(
                layout=active["layout"],
                metadata=active["metadata"],
                stripe_cache=active["stripe_cache"],
                assume_clean=kept.get("assume_clean"),
                members=[self._member(member) for member in active["members"]],
            )
            if array["level"]:
                facts["resync"] = "done" if settled(active) else "running"
                if kept.get("assume_clean") and facts["resync"] == "done":
                    facts["resync"] = "skipped"
                facts["scrub"] = active["sync_action"] if active["sync_action"] in SCRUBS else None
        return {key: value for key, value in facts.items() if value is not None}

    def _member(self, member: ActiveMember) -> dict[str, object]:
        shown = device_safety.identity(member["path"], self.system)
        size = self.system.read(f"/sys/class/block/{os.path.basename(member['path'])}/size")
        return {
            "device": member["path"],
            **{key: shown[key] for key in ("serial", "naa", "wwid", "model") if shown.get(key)},
            **({"size_bytes": int(size) * 512} if size else {}),
        }


# ---------------------------------------------------------------- the module


class Area(converge.Area):
    """The arrays of a testbed, for the module raid."""

    def plan(self) -> list[Step]:
        params = self.params
        self.arrays = Arrays(check_testbed_id("raid_testbed_id", params["testbed_id"]))
        self.described = check_arrays(params["arrays"])
        self.wanted = self.described if self.present else []
        self.current = self.arrays.current(self.described, wanted=self.present)
        return plan(self.current, self.wanted)

    def guard(self, steps: list[Step]) -> None:
        self.arrays.refuse_used(steps, self.current)
        self.arrays.refuse_unsafe(steps, self.wanted, self.current)

    def apply(self, steps: list[Step]) -> None:
        self.arrays.apply(steps, self.wanted, self.current, self.params["resync_timeout_s"])
        if not self.wanted:
            self.arrays.forget()
        elif steps:
            self.current = self.arrays.current(self.described)

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        layers = {"layers": self.arrays.layers(self.wanted, self.current)} if self.present else {}
        return {**step_words.shown(steps, quiet=("wait",)), **layers}
