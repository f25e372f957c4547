# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RAM disks of Arsenal Image Mounter: real drives of the Windows host, made and listed with its program aim_ll; see the package for states and steps.

Its devices carry no mark of their own. The driver draws a new GUID for each (ImScsiGenerateUniqueId), which is the disk's serial and unique id. So the
record on the controller, ``devices: {name: {device, size_bytes, boot, unique_id, serial, ready}}``, distinguishes the testbed's devices from others.
The number of a device is chosen and recorded before it is made, so that one whose making broke off is found again: it has no unique id in the
record, and must look as aim_ll leaves a new device, with its one partition of one size and nothing on it. ``fresh`` are names of devices that this very
run has made, which need no such proof. ``carrying`` are unique ids of disks that carry datastores of this testbed, and are left as they are.

Source: aimcmd.cpp, drvsetup.cpp, srbioctl.cpp and iodisp.cpp of Arsenal Image Mounter, and aim_ll 1.2.29 itself, as far as it runs without its driver.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Any

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.core.layers import Layer
from ...module_utils.core.steps import Step
from .host import RESERVED, drive_path, ready_steps, refuse_disk, step
from .params import RamdiskParams
from .state import Disk, Remembered, State
from .wants import DiskWant

SPEC = {"aim_program": {"type": "str", "default": "aim_ll.exe"}, "aim_driver_folder": {"type": "str", "default": ""}}
PRODUCT = "Arsenal Image Mounter"
NO_DEVICES, NO_DRIVER, RESTART = 1, 4, 1
# Of SCSI targets and units at the first of the driver's buses.
TARGETS, UNITS = 8, 24
# Where aim_ll lets the one partition begin that it makes on every new device.
PARTITION_START = 1 << 20


def check(params: RamdiskParams) -> None:
    if not params["aim_program"]:
        raise bad_value("ramdisk_aim_program", "", "Name the program, such as C:\\aim\\aim_ll.exe.")
    folder = params["aim_driver_folder"]
    if folder and not re.fullmatch(r"[A-Za-z]:\\[^/:*?\"<>|\x00-\x1f]*", folder):
        raise bad_value(
            "ramdisk_aim_driver_folder", folder, "Use a full path on this Windows host, such as C:\\aim\\driver."
        )


# ---------------------------------------------------------------- what the program says


def output_of(answer: dict[str, Any]) -> str:
    return " ".join(f"{answer['errors']} {answer['output']}".split())


def check_answer(arguments: str, answer: dict[str, Any]) -> None:
    """Raise when the program did not do it."""
    code = answer["exit_code"]
    if code == 0 or (code == RESTART and arguments.startswith("--")):
        return
    ended = "did not end in time" if code is None else f"ended with exit code {code}"
    raise Failure(
        "aim_failed",
        f"aim_ll {arguments} {ended}: {(output_of(answer) or 'no message')[:400].rstrip('.')}.",
        "Look at the message.",
        exit_code=code,
    )


def listing(answer: dict[str, Any], program: str) -> dict[str, Any]:
    """{driver: whether it is installed, devices: {number: {drive, size_bytes, in_memory}}} of aim_ll -l."""
    if not answer["found"]:
        raise Failure(
            "program_missing",
            f"The program {program} of {PRODUCT} is not on this host.",
            "Copy aim_ll.exe and aimapi.dll there, and name it in ramdisk_aim_program.",
            program=program,
        )
    code = answer["exit_code"]
    if code == NO_DRIVER:
        return {"driver": False, "devices": {}}
    if code == NO_DEVICES:
        return {"driver": True, "devices": {}}
    if code != 0:
        raise Failure(
            "driver_inaccessible",
            f"{PRODUCT} could not list its devices: {(output_of(answer) or 'no message')[:400].rstrip('.')}.",
            "Restart the host; when it stays so, install the driver and the program of one version.",
            exit_code=code,
        )
    devices = {}
    # At the beginning of lines only: image files have names of any kind.
    parts = re.split(r"^Device number ([0-9A-F]{6})\s*$", answer["output"], flags=re.M)
    for number, text in zip(parts[1::2], parts[2::2]):
        drive, size = (
            re.search(r"^Device is \\\\\?\\PhysicalDrive(\d+)", text, re.M),
            re.search(r"^Size: (\d+) bytes(.*)", text, re.M),
        )
        devices[number] = {
            "drive": int(drive[1]) if drive else None,
            "size_bytes": int(size[1]) if size else None,
            "in_memory": size is not None and ", Virtual Memory," in size[2],
        }
    return {"driver": True, "devices": devices}


# ---------------------------------------------------------------- which devices are ours


def as_made(disk: Disk, state: State) -> bool:
    """Whether a disk looks as aim_ll leaves a new device."""
    filesystems = {volume["letter"]: volume["filesystem"] for volume in state["volumes"]}
    return (
        disk["style"] in ("RAW", "MBR")
        and len(disk["partitions"]) <= 1
        and all(
            part["size_bytes"] == disk["size_bytes"] - PARTITION_START
            and not part["folders"]
            and filesystems.get(part["letter"], "") in ("", "RAW")
            for part in disk["partitions"]
        )
    )


def _disk(kept: dict[str, Any], state: State, listed: dict[str, Any], fresh: bool) -> Disk | None:
    """The disk of a recorded device, or None when it is gone or somebody else's by now."""
    device = listed["devices"].get(kept["device"])
    disk = next((entry for entry in state["disks"] if device and entry["number"] == device["drive"]), None)
    if not disk or not device["in_memory"] or {device["size_bytes"], disk["size_bytes"]} != {kept["size_bytes"]}:
        return None
    this_start = kept["boot"] == state["about"]["boot"]
    if kept["unique_id"] is None:
        return disk if fresh or (this_start and as_made(disk, state)) else None
    # The serial is the GUID that was drawn for the device. Without one the unique id may be that of the place, which a restart gives to the next.
    return (
        disk
        if (disk["unique_id"], disk["serial"]) == (kept["unique_id"], kept["serial"]) and (this_start or kept["serial"])
        else None
    )


def present_disks(
    memory: Remembered, state: State, listed: dict[str, Any], fresh: tuple[str, ...] = ()
) -> dict[str, Disk]:
    """{name: disk} of the recorded devices that are there."""
    disks = {name: _disk(kept, state, listed, name in fresh) for name, kept in memory.get("devices", {}).items()}
    return {name: disk for name, disk in disks.items() if disk}


# ---------------------------------------------------------------- planning


def driver_steps(listed: dict[str, Any], folder: str) -> list[Step]:
    if listed["driver"]:
        return []
    if not folder:
        raise Failure(
            "driver_missing",
            f"The driver of {PRODUCT} is not installed on this host.",
            "Install it, or name the folder with its setup files in ramdisk_aim_driver_folder.",
        )
    path = folder.rstrip("\\")
    return [_run("driver", PRODUCT, None, "driver installed", f'--install "{path}"')]


def _run(op: str, target: str, was: object, will: object, arguments: str) -> Step:
    return step(op, target, was, will, "aim_run", Arguments=arguments)


def with_program(steps: list[Step], program: str) -> list[Any]:
    return [
        {**planned, "parameters": {"Program": program, **planned["parameters"]}}
        if planned["script"] == "aim_run"
        else planned
        for planned in steps
    ]


def plan(
    state: State, listed: dict[str, Any], disks: list[DiskWant], memory: Remembered, carrying: Set[str] = frozenset()
) -> list[Step]:
    """Devices to remove and to make. The further needs of the disks are planned by dressing, once they are there."""
    there, kept = present_disks(memory, state, listed), memory.get("devices", {})
    wanted = {disk["name"]: disk for disk in disks}
    for name, disk in there.items():
        if name in wanted and kept[name]["size_bytes"] != wanted[name]["size_bytes"]:
            raise Failure(
                "wrong_size",
                f"RAM disk {name} has {kept[name]['size_bytes']} bytes, not {wanted[name]['size_bytes']}.",
                "Tear the testbed down before you change a size.",
                name=name,
                size_bytes=kept[name]["size_bytes"],
            )
        if name not in wanted or disk["unique_id"] not in carrying:
            _refuse(name, kept[name], disk, state)
    steps = [_removed(name, kept[name], disk, state) for name, disk in there.items() if name not in wanted]
    free = _free_numbers(set(listed["devices"]))
    for name, want in wanted.items():
        if name not in there:
            device = next(free, None)
            if device is None:
                raise Failure(
                    "devices_exhausted", f"{PRODUCT} has no free device number.", "Remove devices that are not needed."
                )
            # In bytes: a size with a unit is in powers of ten when its letter is a small one.
            make = _run(
                "make_disk",
                f"RAM disk {name}",
                None,
                f"{want['size_bytes']} bytes",
                f"-a -t vm -s {want['size_bytes']} -u {device}",
            )
            steps.append({**make, "name": name, "size_bytes": want["size_bytes"], "device": device})
    return steps


def _free_numbers(taken: set[str]) -> Any:
    """In the order in which the driver gives them out; written as unit, target and bus."""
    numbers = (f"{unit:02X}{target:02X}00" for unit in range(UNITS) for target in range(TARGETS))
    return (number for number in numbers if number not in taken)


def _refuse(name: str, kept: dict[str, Any], disk: Disk, state: State, fresh: bool = False) -> None:
    refuse_disk(disk, f"RAM disk {name}", proven=True)
    if (
        not fresh
        and any(part["type"] != RESERVED for part in disk["partitions"])
        and (kept["ready"] or not as_made(disk, state))
    ):
        raise Failure(
            "device_partitioned",
            f"RAM disk {name} is disk {disk['number']}, which has got partitions.",
            "Remove its contents first: a raw benchmark would overwrite them, and a teardown would lose them.",
            number=disk["number"],
        )


def _removed(name: str, kept: dict[str, Any], disk: Disk, state: State, carrying: Set[str] = frozenset()) -> Step:
    if disk["unique_id"] not in carrying:
        _refuse(name, kept, disk, state)
    # Without a number the program would remove the devices of everybody.
    return _run("remove_disk", f"RAM disk {name}", f"{kept['size_bytes']} bytes", None, f"-d -u {kept['device']}")


def dressing(
    there: dict[str, Disk], memory: Remembered, state: State, fresh: tuple[str, ...], carrying: Set[str] = frozenset()
) -> list[Any]:
    """Steps to disks with an MBR and no partitions: IOMeter does not see disks with any."""
    steps: list[Step] = []
    for name, disk in there.items():
        if disk["unique_id"] in carrying:
            continue
        _refuse(name, memory["devices"][name], disk, state, name in fresh)
        steps += ready_steps(disk)
        if disk["style"] == "GPT" or any(part["type"] != RESERVED for part in disk["partitions"]):
            steps.append(step("clear", f"RAM disk {name}", "partitioned", None, "disk_clear", Number=disk["number"]))
            disk = {**disk, "style": "RAW"}
        if disk["style"] != "MBR":
            steps.append(
                step(
                    "initialize", f"RAM disk {name}", None, "MBR", "disk_initialize", Number=disk["number"], Style="MBR"
                )
            )
    return steps


def new_disk(size_bytes: int) -> dict[str, Any]:
    """A device as aim_ll leaves it, for check mode."""
    return {
        "number": None,
        "unique_id": None,
        "serial": None,
        "size_bytes": size_bytes,
        "style": "MBR",
        "offline": False,
        "read_only": False,
        "boot": False,
        "system": False,
        "clustered": False,
        "page_file": False,
        "partitions": [
            {"number": 1, "type": "IFS", "size_bytes": size_bytes - PARTITION_START, "letter": "", "folders": []}
        ],
    }


def may_be_there(memory: Remembered, state: State) -> bool:
    """Whether the program must be asked before a teardown: after a restart of the host neither may be there any more."""
    shown = {disk["unique_id"] for disk in state["disks"]}
    return bool(memory.get("driver")) or any(
        kept["unique_id"] is None or kept["unique_id"] in shown for kept in memory.get("devices", {}).values()
    )


def absent_plan(
    state: State, listed: dict[str, Any], memory: Remembered, carrying: Set[str] = frozenset()
) -> list[Step]:
    kept, there = memory.get("devices", {}), present_disks(memory, state, listed)
    steps = [_removed(name, kept[name], disk, state, carrying) for name, disk in there.items()]
    others = set(listed["devices"]) - {kept[name]["device"] for name in there}
    if memory.get("driver") and listed["driver"] and not others:
        # It removes the devices of everybody, so it waits until there are none.
        steps.append(_run("driver", PRODUCT, "driver installed", None, "--uninstall"))
    return steps


# ---------------------------------------------------------------- the record


def left(memory: Remembered, listed: dict[str, Any], steps: list[Step]) -> Remembered:
    """The record after a teardown: the driver stays on it while others need it."""
    kept = memory.get("driver") and listed["driver"] and not any(planned["op"] == "driver" for planned in steps)
    return {"driver": True} if kept else {}


def remember(memory: Remembered, state: State, listed: dict[str, Any], steps: list[Step]) -> Remembered:
    """The record with the devices that are about to be made, and without those that are gone; kept before the first step."""
    there = present_disks(memory, state, listed)
    devices = {name: kept for name, kept in memory.get("devices", {}).items() if name in there}
    for planned in (planned for planned in steps if planned["op"] == "make_disk"):
        devices[planned["name"]] = {
            "device": planned["device"],
            "size_bytes": planned["size_bytes"],
            "boot": state["about"]["boot"],
            "unique_id": None,
            "serial": None,
            "ready": False,
        }
    return {**memory, "devices": devices}


def identified(memory: Remembered, there: dict[str, Disk], ready: bool = False) -> Remembered:
    """The record with what proves these devices, which are all that is left of it."""
    kept = memory["devices"]
    return {
        **memory,
        "devices": {
            name: {
                **kept[name],
                "unique_id": disk["unique_id"],
                "serial": disk["serial"],
                "ready": ready or kept[name]["ready"],
            }
            for name, disk in there.items()
        },
    }


def layers_of(disks: list[DiskWant], there: dict[str, Disk], memory: Remembered) -> list[Layer]:
    """The disks as layers, without their host; without a path where they are not there yet, in check mode."""
    layers: list[Layer] = []
    for disk in disks:
        drive = there[disk["name"]]
        layers.append(
            {
                "name": f"backing-{disk['name']}",
                "kind": "backing",
                "parent": None,
                "purpose": disk["purpose"],
                "size_bytes": disk["size_bytes"],
                "path": None if drive["number"] is None else drive_path(drive["number"]),
                "identity": {key: drive[key] for key in ("unique_id", "serial") if drive[key]},
                "detail": {"provider": "aim", "device": memory["devices"][disk["name"]]["device"]},
            }
        )
    return layers
