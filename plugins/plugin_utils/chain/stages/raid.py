# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``raid``: arrays of a target's disks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ....module_utils.core.layers import Layer
from ....module_utils.core.raid_levels import MODULES, chunk_kib, faults
from ....module_utils.core.raid_levels import words as raid_words
from ..changes import Change, Changes, each, entries_kept, word_of
from ..device import OVERWRITTEN, Device, disk_of, given_of
from ..emulated import emulated_disk, limits, serial
from ..nouns import Kept
from ..shape import Problem, repeated, shown
from ..stage import Needs, Stage
from ..testbed import Context, Disk, Host, Testbed, is_by_hand, layer_of, mappings, targets_of


class Raid(Stage):
    name = "raid"
    kinds = ("raid",)
    words: ClassVar = {"raid": ("raid",)}
    describes = "raid_arrays"
    kept = ("raid_arrays",)
    packages: ClassVar = {"mdadm": ("mdadm", "mdadm"), "blkid": ("util-linux", "util-linux")}
    variables = ("raid_arrays",)

    def emulated(self, disk: Disk) -> list[dict[str, Any]]:
        wanted = disk.entry.get("raid", {}).get("emulated")
        return [emulated_disk(disk, number, wanted) for number in range(1, wanted["count"] + 1)] if wanted else []

    def derive(self, context: Context) -> None:
        for host, disks in context.disks_of_targets():
            arrays = [_array(disk) for disk in disks if disk.entry["kind"] == "raid"]
            context.derive(host, "raid_arrays", arrays, "testbed.disks")

    def runs_on(self, context: Context, host: Host) -> bool:
        return host.name in context.testbed.targets and bool(
            host.variables["raid_arrays"] or "raid" in context.published_providers(host)
        )

    def layers(self, host: Host) -> list[Layer]:
        layers = []
        for array in mappings(host.variables.get("raid_arrays")):
            what = raid_words(array.get("level"), array.get("members"), array.get("chunk_kib"))
            layers.append(layer_of("backing", array.get("name"), host, None, array.get("purpose"), what))
        return layers

    def check_entry(self, testbed: Testbed, variable: str, entry: dict[str, Any]) -> list[Problem]:
        return [*_unfit_raid(variable, entry, testbed), *not_on_windows(testbed, variable, entry)]

    def changes(self) -> dict[str, Changes]:
        return {"parts": _arrays_kept}

    def devices(self, testbed: Testbed, host: Host) -> Iterator[Device]:
        return _members(testbed, host)

    def needs(self, testbed: Testbed, host: Host) -> Needs:
        levels = [array.get("level") for array in mappings(host.variables["raid_arrays"])]
        return (["mdadm", "blkid"], [MODULES[level] for level in levels if level in MODULES]) if levels else ([], [])

    def device_paths(self, testbed: Testbed, host: Host) -> list[str]:
        arrays = mappings(host.variables.get("raid_arrays"))
        members = [member for array in arrays for member in mappings(array.get("members"))]
        return [member["device"] for member in members if member.get("device")]


def _serials(disk: Disk) -> list[str]:
    """The disks that the embedded lab makes for an array."""
    emulated = disk.entry.get("raid", {}).get("emulated")
    return [serial(disk, number) for number in range(1, emulated["count"] + 1)] if emulated else []


def _array(disk: Disk) -> dict[str, Any]:
    """An entry of raid_arrays; what is not said is the role's default."""
    raid = disk.entry.get("raid") or {}
    members = [
        {"device" if key == "path" else key: value for key, value in member.items()}
        for member in raid.get("members") or [{"serial": serial} for serial in _serials(disk)]
    ]
    chunk = chunk_kib(raid.get("chunk"))
    delay = limits(raid.get("emulated") or {})
    return {
        "name": disk.name,
        "level": raid.get("level"),
        "members": members,
        **({"chunk_kib": chunk} if chunk else {}),
        **{key: raid[key] for key in ("bitmap", "assume_clean", "stripe_cache", "resync") if key in raid},
        "purpose": disk.purpose,
        **({"emulated_delay": {"by": "QEMU", **delay}} if delay else {}),
    }


def _unfit_raid(variable: str, entry: dict[str, Any], testbed: Testbed) -> list[Problem]:
    raid, where = entry.get("raid"), f"{variable}.raid"
    if not raid:
        reported = any(problem.variable.startswith(where) for problem in testbed.problems)
        remedy = "write its level and members, such as raid: {level: 10, members: [{serial: Z1F0A7QK}, …]}"
        return [] if reported else [Problem(where, None, "is not set", remedy)]
    problems, members, emulated = [], raid.get("members"), raid.get("emulated")
    if emulated and not testbed.embedded:
        remedy = "name the target's disks as members, each with its serial, naa, wwid or uuid"
        problems.append(Problem(f"{where}.emulated", None, "is for the embedded lab, which makes such disks", remedy))
    if bool(members) == bool(emulated):
        why = "is not set" if not members else "is set beside emulated"
        remedy = "name the disks, each with its serial, naa, wwid or uuid" if not members else "set only one of them"
        problems.append(Problem(f"{where}.members", None, why, remedy))
    for index, member in enumerate(members or []):
        if not any(key in member for key in ("serial", "naa", "wwid", "uuid")):
            remedy = "add the serial, naa, wwid or uuid that the disk has"
            path = shown(member["path"]) if "path" in member else None
            why = "which does not identify a device" if path else "does not identify a disk"
            problems.append(Problem(f"{where}.members[{index}]" + (".path" if path else ""), path, why, remedy))
    for key in ("serial", "naa", "wwid", "uuid", "path"):
        for value in repeated(member[key] for member in members or [] if key in member):
            problems.append(Problem(f"{where}.members", f"a list with {shown(value)} twice", "", "name each disk once"))
    chunk = raid.get("chunk")
    if chunk is not None and chunk_kib(chunk) is None:
        problems.append(Problem(f"{where}.chunk", shown(chunk), "", "write a size with KiB or MiB, such as 64KiB"))
    count = len(members or []) or (emulated or {}).get("count", 0)
    if members or emulated:
        for key, value, why, remedy in faults({**raid, "chunk_kib": chunk_kib(chunk)}, count):
            name = "emulated.count" if key == "members" and emulated else key
            text = f"{value} disks" if key == "members" and not emulated else shown(value)
            problems.append(Problem(f"{where}.{name}", text, f"but {why}", remedy))
    return problems


def not_on_windows(testbed: Testbed, variable: str, entry: dict[str, Any]) -> list[Problem]:
    """Refuses on Windows a disk that only Linux targets make."""
    return [
        Problem(f"{variable}.kind", shown(entry["kind"]), f"but {name} runs Windows", "use ramdisk, vhdx or device")
        for name in targets_of(testbed, entry)
        if testbed.hosts[name].platform == "windows"
    ]


def _arrays_kept(before: Kept, after: Kept, testbed: Testbed) -> list[Change]:
    changes: list[Any] = []
    keys = ("level", "members", "chunk_kib", "bitmap", "purpose")
    for host, was, now in each(before, after, "raid_arrays"):
        changes += entries_kept(word_of(testbed, host, "raid_arrays", "testbed.disks"), "array", was, now, keys, host)
    return changes


def _members(testbed: Testbed, host: Host) -> Iterator[Device]:
    for place, array in enumerate(mappings(host.variables.get("raid_arrays"))):
        disk = disk_of(testbed, host, array.get("name"))
        by_hand = is_by_hand(host, "raid_arrays") or disk is None
        if not by_hand and disk and (disk.entry.get("raid") or {}).get("emulated"):
            continue
        for number, member in enumerate(mappings(array.get("members"))):
            variable = f"testbed.disks[{disk.index}].raid.members[{number}]" if disk else ""
            variable = f"raid_arrays[{place}].members[{number}] of {host.name}" if by_hand else variable
            what = f"becomes part of the RAID array {array.get('name')}"
            word, given = ("device" if by_hand else "path"), given_of(member, "device")
            if given:
                yield Device(host.name, variable, word, given, OVERWRITTEN, what, f"backing-{array.get('name')}")
