# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RAM disks of Windows hosts; see the package for the shapes of states and steps.

``iscsi_target``: a virtual disk in memory of the iSCSI target server itself (path ``ramdisk:…``, documented at the method CreateRamWTDisk of its
WMI class WT_Disk). It is not a disk of this host, only a LUN for initiators, so its layer has no path. A restart of the service loses it.

``aim``: a drive that Arsenal Image Mounter makes; see aim.py.

``preinstalled``: a disk that another product made (StarWind RAM Disk and the like), found by its model and size. It gets
an MBR without partitions, because IOMeter does not see disks with a GPT.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Set
from typing import Any

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.core.layers import Layer
from ...module_utils.core.names import check_name
from ...module_utils.core.steps import Step
from . import aim
from .host import RESERVED, check_id, check_size, drive_path, ready_steps, refuse_disk, serving, stamp, stamped, step
from .params import RamdiskParams
from .state import Disk, Remembered, State, VirtualDisk
from .wants import DiskWant

PREFIX = "ramdisk:"
# Unique ids of disks that carry datastores of this testbed: they have partitions, and are left as they are.
Carrying = Set[str]
SPEC = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "state_dir": {"type": "path", "required": True},
    "provider": {"type": "str", "choices": ["iscsi_target", "aim", "preinstalled"], "default": "iscsi_target"},
    **aim.SPEC,
    "disks": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "size_mib": {"type": "int", "required": True},
            "purpose": {"type": "str", "choices": ["scratch", "data"], "default": "data"},
            "model": {"type": "str"},
        },
    },
}


def check(params: RamdiskParams) -> list[DiskWant]:
    """The disks with their size in bytes; raises bad_value."""
    check_id("ramdisk_testbed_id", params["testbed_id"])
    if params["provider"] == "aim":
        aim.check(params)
    names = [disk["name"].lower() for disk in params["disks"]]
    for disk in params["disks"]:
        check_name("ramdisk_disks name", disk["name"])
        # Windows makes no difference between capital and small letters.
        if names.count(disk["name"].lower()) > 1:
            raise bad_value("ramdisk_disks name", disk["name"], "Listed twice; list it once.")
        check_size(f"ramdisk_disks {disk['name']}", disk["size_mib"])
        if (params["provider"] == "preinstalled") != bool(disk["model"]):
            raise bad_value(
                f"ramdisk_disks {disk['name']} model",
                disk["model"],
                "Name the disk's model, as Get-Disk shows it, with the provider preinstalled and with no other.",
            )
    return [{**disk, "size_bytes": disk["size_mib"] << 20} for disk in params["disks"]]


def virtual_path(testbed_id: str, name: str) -> str:
    return f"{PREFIX}storlab-{testbed_id}-{name}.vhdx"


def _virtual(state: State, testbed_id: str) -> dict[str, VirtualDisk]:
    """This testbed's virtual disks in memory by path."""
    return {
        disk["path"].lower(): disk
        for disk in state["virtual_disks"]
        if disk["path"].lower().startswith(PREFIX) and stamped(disk["description"], testbed_id)
    }


def plan(
    state: State,
    provider: str,
    disks: list[DiskWant],
    memory: Remembered,
    testbed_id: str,
    carrying: Carrying = frozenset(),
) -> list[Step]:
    if provider == "iscsi_target":
        return _plan_virtual(state, disks, testbed_id)
    return _plan_preinstalled(state, disks, memory, carrying)


def _plan_virtual(state: State, disks: list[DiskWant], testbed_id: str) -> list[Step]:
    wanted = {virtual_path(testbed_id, disk["name"]).lower(): disk for disk in disks}
    ours = _virtual(state, testbed_id)
    steps = _removed(state, [disk for path, disk in ours.items() if path not in wanted])
    present = {disk["path"].lower() for disk in state["virtual_disks"]}
    for path, disk in wanted.items():
        if path in ours:
            if ours[path]["size_bytes"] != disk["size_bytes"]:
                raise Failure(
                    "wrong_size",
                    f"RAM disk {disk['name']} has {ours[path]['size_bytes']} bytes, not {disk['size_bytes']}.",
                    "Tear the testbed down before you change a size.",
                    name=disk["name"],
                    size_bytes=ours[path]["size_bytes"],
                )
        elif path in present:
            raise Failure(
                "disk_foreign",
                f"Virtual disk {virtual_path(testbed_id, disk['name'])} is on this host already, and not this testbed's.",
                "Use another testbed_id or another name.",
                path=virtual_path(testbed_id, disk["name"]),
            )
        else:
            steps.append(
                step(
                    "make_disk",
                    virtual_path(testbed_id, disk["name"]),
                    None,
                    f"{disk['size_bytes']} bytes",
                    "vdisk_new",
                    Path=virtual_path(testbed_id, disk["name"]),
                    SizeBytes=disk["size_bytes"],
                    Description=stamp(testbed_id, disk["name"]),
                )
            )
    return steps


def _removed(state: State, disks: list[VirtualDisk], expect_free: bool = True) -> list[Any]:
    for disk in disks:
        users = [
            target["name"]
            for target in state["targets"]
            for lun in target["luns"]
            if lun["path"].lower() == disk["path"].lower()
        ]
        if users and expect_free:
            raise Failure(
                "device_in_use",
                f"RAM disk {disk['path']} cannot be removed: target {users[0]} exports it.",
                "Remove that target first.",
                path=disk["path"],
                target=users[0],
            )
    return [
        step("remove_disk", disk["path"], f"{disk['size_bytes']} bytes", None, "vdisk_remove", Path=disk["path"])
        for disk in disks
    ]


def _matching(state: State, disk: DiskWant) -> Disk:
    """The one disk of the host that is meant."""
    matching = [
        candidate
        for candidate in state["disks"]
        if fnmatch.fnmatchcase(candidate["name"].lower(), disk["model"].lower())
        and candidate["size_bytes"] == disk["size_bytes"]
    ]
    if len(matching) != 1:
        raise Failure(
            "device_missing" if not matching else "device_ambiguous",
            f"{len(matching) or 'No'} disks of model {disk['model']} with {disk['size_bytes']} bytes are on this host, for RAM disk {disk['name']}.",
            "Make one with its own product, and correct model and size_mib.",
            name=disk["name"],
            disks=[{key: present[key] for key in ("number", "name", "size_bytes")} for present in state["disks"]],
        )
    (disk_there,) = matching
    refuse_disk(disk_there, f"RAM disk {disk['name']}")
    return disk_there


def _plan_preinstalled(state: State, disks: list[DiskWant], memory: Remembered, carrying: Carrying) -> list[Step]:
    steps = _given_back(
        state,
        {key: value for key, value in memory.get("disks", {}).items() if key not in {disk["name"] for disk in disks}},
    )
    names: dict[int, str] = {}
    for disk in disks:
        present = _matching(state, disk)
        first = names.setdefault(present["number"], disk["name"])
        if first != disk["name"]:
            raise bad_value(
                f"ramdisk_disks {disk['name']} model",
                disk["model"],
                f"It is disk {present['number']}, as that of {first} is; give each disk one name.",
            )
        if present["unique_id"] in carrying:
            continue
        _refuse_used(present, f"RAM disk {disk['name']}")
        steps += ready_steps(present)
        if present["style"] == "GPT":
            steps.append(
                step("clear", f"disk {present['number']}", "GPT", None, "disk_clear", Number=present["number"])
            )
        if present["style"] != "MBR":
            steps.append(
                step(
                    "initialize",
                    f"disk {present['number']}",
                    None,
                    "MBR",
                    "disk_initialize",
                    Number=present["number"],
                    Style="MBR",
                )
            )
    return steps


def _refuse_used(disk: Disk, what: str) -> None:
    if any(part["type"] != RESERVED for part in disk["partitions"]):
        raise Failure(
            "device_partitioned",
            f"{what} is disk {disk['number']}, which has partitions.",
            "Remove them in its own product: a raw benchmark would overwrite them.",
            number=disk["number"],
        )


def _given_back(state: State, recorded: dict[str, Any], carrying: Carrying = frozenset()) -> list[Any]:
    """Each has again what it had before, which a raw benchmark may have overwritten since. recorded: {name: {unique_id, style, read_only}}."""
    steps: list[Step] = []
    for name, before in recorded.items():
        present = next((disk for disk in state["disks"] if disk["unique_id"] == before["unique_id"]), None)
        if not present or all(dict(present)[key] == before[key] for key in before):
            continue
        refuse_disk(present, f"RAM disk {name}", unique_id=before["unique_id"])
        if before["unique_id"] not in carrying:
            _refuse_used(present, f"RAM disk {name}")
        where, restyled = f"disk {present['number']}", present["style"] != before["style"]
        if restyled and present["style"] != "RAW":
            steps.append(step("clear", where, present["style"], None, "disk_clear", Number=present["number"]))
        if restyled and before["style"] != "RAW":
            steps.append(
                step(
                    "initialize",
                    where,
                    None,
                    before["style"],
                    "disk_initialize",
                    Number=present["number"],
                    Style=before["style"],
                )
            )
        if before["read_only"]:
            steps.append(step("read_only", where, "writable", "read-only", "disk_read_only", Number=present["number"]))
    return steps


def absent_plan(
    state: State, memory: Remembered, testbed_id: str, expect_free: bool = True, carrying: Carrying = frozenset()
) -> list[Step]:
    """In check mode nothing was taken away above: without expect_free targets may still export them, and some carry datastores (carrying)."""
    return _removed(state, list(_virtual(state, testbed_id).values()), expect_free) + _given_back(
        state, memory.get("disks", {}), carrying
    )


def remember(memory: Remembered, state: State, provider: str, disks: list[DiskWant]) -> Remembered:
    """The record with how the disks were found; kept before they are changed."""
    if provider != "preinstalled":
        return memory
    known = {
        name: before for name, before in memory.get("disks", {}).items() if name in {disk["name"] for disk in disks}
    }
    for disk in disks:
        present = _matching(state, disk)
        if known.get(disk["name"], {}).get("unique_id") != present["unique_id"]:
            known[disk["name"]] = {key: present[key] for key in ("unique_id", "style", "read_only")}
    return {**memory, "disks": known}


def layers_of(state: State, provider: str, disks: list[DiskWant], testbed_id: str) -> list[Layer]:
    """The disks as layers, without their host."""
    layers: list[Layer] = []
    for disk in disks:
        layer: Layer = {
            "name": f"backing-{disk['name']}",
            "kind": "backing",
            "parent": None,
            "purpose": disk["purpose"],
            "size_bytes": disk["size_bytes"],
            "detail": {"provider": provider},
        }
        if provider == "iscsi_target":
            identity = {
                "virtual_disk": virtual_path(testbed_id, disk["name"]),
                "stamp": stamp(testbed_id, disk["name"]),
            }
            layers.append({**layer, "path": None, "identity": identity})
        else:
            drive = _matching(state, disk)
            identity = {key: drive[key] for key in ("unique_id", "serial") if drive[key]}
            layers.append(
                {
                    **layer,
                    "path": drive_path(drive["number"]),
                    "identity": identity,
                    "detail": {"provider": provider, "model": drive["name"]},
                }
            )
    return layers


def needs_target_server(state: State, provider: str) -> bool:
    return provider == "iscsi_target" and not serving(state)
