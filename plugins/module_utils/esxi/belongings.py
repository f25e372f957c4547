# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a virtual machine that are the testbed's, and those that others attached to it or put beside it: pure functions of its state.

A host that destroys a machine deletes every disk that is attached to it, whoever attached it. So the machine itself keeps a record of each disk that came
with it, in its extraConfig::

    storlab.disk.<name>:   <controller> <bus>:<unit> <eager|lazy|thin|physical|virtual>[ <uuid>]   the testbed made it
    storlab.source.<n>:    <controller> <bus>:<unit> source[ <uuid>]                               it came with the template or the OVA

The UUID is that of the disk's backing, which the disks of its snapshots share. A record without one was written before the disk was there, or of a disk that
has none: then it means the disk at that place, when its file is in the folder of the machine. See machine_plan.py for the state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.failure import Failure
from ..core.steps import Step
from .states import MachineState

DISK_KEY = "storlab.disk."
SOURCE_KEY = "storlab.source."
PLACE = ("controller", "bus", "unit")
# The files of a machine other than its disks, by the types of VirtualMachineFileLayoutEx.
OWN_TYPES = (
    "config",
    "extendedConfig",
    "nvram",
    "log",
    "stat",
    "snapshotData",
    "snapshotList",
    "snapshotManifestList",
    "snapshotMemory",
    "suspend",
    "suspendMemory",
    "swap",
    "uwswap",
    "core",
    "screenshot",
)
OWN_LOG = re.compile(r"vmware(-\d+)?\.log")
# Files that a host makes beside the configuration, of its name, and takes away by itself.
PASSING = (".vmx", ".vmx~", ".vmx.lck", ".vmxf", ".nvram", ".vmsd", ".vswp", ".vmss", ".hlog", ".scoreboard")
EXTENTS = ("", "-flat", "-rdm", "-rdmp", "-delta", "-sesparse", "-ctk")


def records(state: MachineState) -> dict[str, Any]:
    """{key: {controller, bus, unit, made, uuid}} of all records."""
    by_key = {}
    for key, text in state["extra"].items():
        if key.startswith((DISK_KEY, SOURCE_KEY)):
            match = re.fullmatch(r"(\w+) (\d+):(\d+) (\w+)(?: (\S+))?", text)
            if match:
                by_key[key] = {
                    "controller": match[1],
                    "bus": int(match[2]),
                    "unit": int(match[3]),
                    "made": match[4],
                    "uuid": match[5],
                }
    return by_key


def record_text(spot: Mapping[str, object], made: str, uuid: str | None = None) -> str:
    return f"{spot['controller']} {spot['bus']}:{spot['unit']} {made}{' ' + uuid if uuid else ''}"


def of_source(source: dict[str, Any] | None) -> dict[str, object]:
    """Records of the disks that a machine is going to be made with; source: state of its template or of what its OVA describes."""
    disks = source["disks"] if source else []
    return {f"{SOURCE_KEY}{number}": record_text(disk, "source") for number, disk in enumerate(disks)}


def folder_of(path: str | None) -> str:
    """'[ds1] vm1' of '[ds1] vm1/vm1.vmx'."""
    return (path or "").rpartition("/")[0]


def in_own_folder(state: MachineState, path: str | None) -> bool:
    """Whether a file is in the machine's folder, or in the folder of the same name on another datastore."""
    own = folder_of(state["path"]).partition("] ")[2]
    return bool(own) and folder_of(path).partition("] ")[2] == own


def same_uuid(left: str | None, right: str | None) -> bool:
    return bool(left and right) and str(left).lower() == str(right).lower()


def owned(state: MachineState) -> dict[str, Any]:
    """{key of a record: its disk} of the attached disks that are the testbed's."""
    mine = {}
    for key, record in records(state).items():
        here = [disk for disk in state["disks"] if all(disk[part] == record[part] for part in PLACE)]
        if record["uuid"]:
            same = [disk for disk in state["disks"] if same_uuid(disk["uuid"], record["uuid"])]
            # A copy of the file has the same UUID.
            disk = same[0] if len(same) == 1 else next((disk for disk in here if disk in same), None)
        else:
            disk = next((disk for disk in here if in_own_folder(state, disk["path"])), None)
        if disk is not None:
            mine[key] = disk
    return mine


def completed(state: MachineState, added: Any = ()) -> dict[str, Any]:
    """{key: text} of records that lack the UUID of their disk, with it. added: keys of those whose disks have just been added, and so are at their places."""
    known, disks = records(state), owned(state)
    for key in added:
        here = [disk for disk in state["disks"] if all(disk[part] == known[key][part] for part in PLACE)]
        if here and not known[key]["uuid"]:
            disks[key] = here[0]
    return {
        key: record_text(disk, known[key]["made"], disk["uuid"])
        for key, disk in disks.items()
        if disk["uuid"] and not known[key]["uuid"]
    }


def lost(state: MachineState, path: str | None) -> bool:
    return any((path or "").startswith(f"[{name}] ") for name in state["lost"])


def letting_go(state: MachineState, images: Sequence[str]) -> list[Any]:
    """Steps that take out what others attached, so that it is there after the machine is gone. images: the testbed's own ISO images."""
    mine = [disk["key"] for disk in owned(state).values()]
    steps = [
        _let_go("detach", disk, disk["path"], "disk")
        for disk in state["disks"]
        if disk["key"] not in mine and not lost(state, disk["path"])
    ]
    steps += [
        _let_go("eject", drive, drive["iso"], "image")
        for drive in state["cdroms"]
        if (drive["iso"] or "").startswith("[") and drive["iso"] not in images and not lost(state, drive["iso"])
    ]
    return steps + [_let_go("detach", device, device["path"], device["kind"]) for device in state["files"]]


def _let_go(op: str, device: Mapping[str, object], path: str, kind: str) -> dict[str, object]:
    return {
        "op": op,
        "target": path,
        "was": f"{kind} that the testbed did not attach",
        "will": "kept",
        "key": device["key"],
    }


def refuse_snapshots(state: MachineState, name: str) -> None:
    """A snapshot holds the disks of its moment, which go with it: raises snapshot_foreign for one that holds a disk of others."""
    uuids = [record["uuid"] for record in records(state).values()]
    own_paths = {path for disk in owned(state).values() for path in disk["chain"]}
    for snapshot in state["snapshots"]:
        for disk in snapshot["disks"]:
            if not own_paths & set(disk["chain"]) and not any(same_uuid(disk["uuid"], uuid) for uuid in uuids):
                raise Failure(
                    "snapshot_foreign",
                    f"The snapshot {snapshot['name']} of the virtual machine {name} holds {disk['chain'][-1]}, a disk that the testbed did not "
                    "attach; destroying the machine would delete it.",
                    "Delete the machine's snapshots in the host's client, and run again: the disk is then detached and kept.",
                    name=name,
                    snapshot=snapshot["name"],
                    path=disk["chain"][-1],
                )


def folders_elsewhere(state: MachineState) -> list[str]:
    """The folders of the testbed's disks on other datastores; none of a datastore that is lost."""
    folders = {folder_of(path) for disk in owned(state).values() for path in disk["chain"] if not lost(state, path)}
    return sorted(folders - {folder_of(state["path"]), ""})


def own_files(state: MachineState) -> list[str]:
    """Paths of the files of the machine other than its disks."""
    return [
        file["path"]
        for file in state["layout"]
        if file["type"] in OWN_TYPES
        and (file["type"] != "log" or OWN_LOG.fullmatch(file["path"].rpartition("/")[2]))
        and file["path"] not in {device["path"] for device in state["files"]}
    ]


def beside(state: MachineState) -> list[str]:
    """Paths of files in the machine's folder that are not the machine's. A host may delete the folder with all that is in it."""
    home = folder_of(state["path"])
    stem = state["path"].rpartition("/")[2].removesuffix(".vmx")
    known = {path.rpartition("/")[2] for path in own_files(state) if folder_of(path) == home}
    known |= {stem + suffix for suffix in PASSING}
    for disk in owned(state).values():
        for path in disk["chain"]:
            file = path.rpartition("/")[2].removesuffix(".vmdk")
            known |= {f"{file}{extent}.vmdk" for extent in EXTENTS if folder_of(path) == home}
    return [f"{home}/{name}" for name in sorted(state["folder"]) if name not in known]


def kept(steps: list[Step], state: MachineState | None) -> list[str]:
    """Paths of all that is left for others when the steps of a teardown are done."""
    paths = {step["target"] for step in steps if step["will"] == "kept"}
    if any(step["op"] == "unregister" for step in steps) and state:
        paths |= set(beside(state))
    # The descriptor of a disk is named, which is the file that a user attaches.
    extents = {path.removesuffix(".vmdk") + extent + ".vmdk" for path in paths for extent in EXTENTS[1:]}
    return sorted(paths - extents)
