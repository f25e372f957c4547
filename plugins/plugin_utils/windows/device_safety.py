# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proof that a path of a Windows host is the testbed's own before anything is written to it. Rules and codes: docs/safety.md.

As the guard for Linux hosts, ../device_safety.py, but over the state that scripts/state.ps1 has read, and so on the controller.
"""

from __future__ import annotations

import re
from typing import Any

from ...module_utils.core.failure import Failure
from ...module_utils.core.layers import Layer
from ...module_utils.linux.disks.device_safety import lift, not_touched
from ...module_utils.linux.disks.verdicts import purpose_refusals, size_refusals
from .host import RESERVED, drive_path, never_touched, plain_serial
from .ntfs import label, volume_of
from .state import Disk, State

# Refusals that cannot be overridden. A volume with another label is not looked into, so that it is unknown whether the file is there at all.
FINAL = (
    "device_missing",
    "not_a_device",
    "disk_boot",
    "disk_system",
    "disk_page_file",
    "disk_clustered",
    "device_mounted",
    "device_exported",
    "wrong_stamp",
    "wrong_size",
    "purpose_data",
)


def inspect(state: State, path: str) -> dict[str, Any]:
    """The state's facts about a path: {path, resolved, type: disk, file, missing or what it is instead, size_bytes, disk, same, volume}.

    disk: the one with the path, or below the file. same: the numbers under which Windows has this very disk, too.
    """
    facts: dict[str, Any] = {
        "path": path,
        "resolved": path,
        "type": "missing",
        "size_bytes": None,
        "disk": None,
        "same": [],
        "volume": None,
    }
    drive = re.fullmatch(r"\\\\\.\\PhysicalDrive(\d+)", path, re.IGNORECASE)
    file = re.fullmatch(r'([A-Za-z]):\\([^\\/:*?"<>|]+)', path)
    if drive:
        facts["resolved"] = drive_path(int(drive[1]))
        facts["disk"] = next((disk for disk in state["disks"] if disk["number"] == int(drive[1])), None)
        if facts["disk"]:
            facts.update(type="disk", size_bytes=facts["disk"]["size_bytes"])
    elif file:
        facts["volume"], facts["disk"] = volume_of(state, file[1].upper()), disk_below(state, path)
        entry: Any = next(
            (entry for entry in (facts["volume"] or {}).get("entries", []) if entry["name"].lower() == file[2].lower()),
            {},
        )
        if facts["volume"] and facts["disk"]:
            facts.update(
                type="file", size_bytes=entry.get("size_bytes"), folder=bool(entry) and entry["size_bytes"] is None
            )
    else:
        facts["type"] = "path that is neither a drive nor a file at the top of one"
    unique_id = (facts["disk"] or {}).get("unique_id")
    facts["same"] = [
        disk["number"]
        for disk in state["disks"]
        if unique_id and disk["unique_id"] == unique_id and disk is not facts["disk"]
    ]
    return facts


def _places(disk: Disk) -> list[str]:
    """Where the disk is mounted, as the beginnings of paths."""
    return [
        place
        for part in disk["partitions"]
        for place in ([f"{part['letter']}:\\"] if part["letter"] else []) + part["folders"]
    ]


def disk_below(state: State, path: str) -> Disk | None:
    """The disk with a file: the one that is mounted nearest to it."""
    mounted = [
        (len(place), disk)
        for disk in state["disks"]
        for place in _places(disk)
        if path.lower().startswith(place.lower().rstrip("\\") + "\\")
    ]
    return max(mounted, key=lambda pair: pair[0], default=(0, None))[1]


def judge(
    state: State,
    layer: Layer,
    allow: Any = (),
    testbed_id: str = "",
    layers: Any = (),
    overwrite: bool = True,
) -> tuple[list[Failure], list[Failure]]:
    """(refusals, overridden), as on Linux hosts.

    layers: the published layers; a file is on the disk of the layer below its own.
    """
    facts = inspect(state, layer["path"])
    path, refusals = facts["path"], purpose_refusals(facts, layer) if overwrite else []
    if facts["type"] == "missing":
        refusals.append(
            Failure(
                "device_missing",
                f"{path} does not exist on this host.",
                "Build the testbed again; a file of that name is never made.",
            )
        )
    elif facts["type"] not in ("disk", "file"):
        refusals.append(
            Failure(
                "not_a_device", f"{path} is a {facts['type']}.", "Name a path like \\\\.\\PhysicalDrive1 or T:\\file."
            )
        )
    else:
        refusals += _never(state, facts)
        refusals += _disk(state, facts, layer) if facts["type"] == "disk" else _file(facts, layer, testbed_id, layers)
        refusals += _usable(facts) + _virtual_disks(state, facts)
    return lift(refusals, facts["resolved"].lower() in {name.lower() for name in allow}, FINAL)


def guard(
    state: State,
    layer: Layer,
    allow: object = (),
    testbed_id: str = "",
    layers: object = (),
    overwrite: bool = True,
) -> tuple[dict[str, Any], list[Failure]]:
    """(facts, overridden); raises the first refusal as a Failure with all of them in its details."""
    refusals, overridden = judge(state, layer, allow, testbed_id, layers, overwrite)
    if refusals:
        raise not_touched(layer, refusals)
    return inspect(state, layer["path"]), overridden


def instance(state: State, layer: Layer) -> str | None:
    """The mark that distinguishes this very disk or file from a later one of the same name and identity; None when there is none.

    Targets give the LUN that follows another the same unique id, but only a new session shows it.
    """
    facts = inspect(state, layer["path"])
    if not (facts["disk"] or {}).get("unique_id"):
        return None
    session = next(
        (session["id"] for session in state["initiator"]["sessions"] if facts["disk"]["number"] in session["disks"]), ""
    )
    return "/".join((state["about"]["boot"], facts["disk"]["unique_id"], session, facts["resolved"].lower()))


def _all_of(state: State, facts: dict[str, Any]) -> list[Disk]:
    """The disk under each of its numbers."""
    return [facts["disk"], *(disk for disk in state["disks"] if disk["number"] in facts["same"])]


def _never(state: State, facts: dict[str, object]) -> list[Failure]:
    reasons = {code: words for disk in _all_of(state, facts) for code, words in never_touched(disk)}
    return [
        Failure(code, f"{facts['path']} is on {words} of this host.", "Name another disk.")
        for code, words in reasons.items()
    ]


def _disk(state: State, facts: dict[str, Any], layer: Layer) -> list[Failure]:
    path, disk, identity, refusals = facts["path"], facts["disk"], layer["identity"], []
    everywhere = _all_of(state, facts)
    places = [place for disk_there in everywhere for place in _places(disk_there)]
    if places:
        refusals.append(
            Failure(
                "device_mounted",
                f"{path} is mounted as {', '.join(places)}.",
                "Take its drive letter and its data away, or name another disk.",
            )
        )
    if identity.get("mount_point"):
        refusals.append(
            Failure("not_a_device", f"{path} is a disk, but the layer is a file.", "Build the testbed again.")
        )
    if any(part["type"] != RESERVED for disk_there in everywhere for part in disk_there["partitions"]):
        refusals.append(Failure("device_partitioned", f"{path} has partitions.", "Name a disk without them."))
    if facts["same"]:
        refusals.append(
            Failure(
                "device_held",
                f"{path} and disk {', '.join(map(str, facts['same']))} have one unique id: they may be one disk.",
                "Leave one path to it, or install MPIO.",
            )
        )
    if not identity.get("unique_id"):
        refusals.append(
            Failure(
                "identity_missing",
                f"Nothing proves that {path} is the disk of layer {layer['name']}.",
                "Publish the layer with the unique id of its disk.",
            )
        )
    elif identity["unique_id"] != disk["unique_id"]:
        refusals.append(_other_disk(facts, identity["unique_id"]))
    if identity.get("serial") and plain_serial(identity["serial"]) != plain_serial(disk["serial"]):
        refusals.append(
            Failure(
                "wrong_serial",
                f"{path} has serial {disk['serial'] or 'none'}, the layer has {identity['serial']}.",
                "Build the testbed again; this is another disk.",
            )
        )
    return refusals + size_refusals(facts, layer)


def _other_disk(facts: dict[str, Any], wanted: str) -> Failure:
    return Failure(
        "wrong_unique_id",
        f"{facts['path']} is on a disk with unique id {facts['disk']['unique_id'] or 'none'}, the layer's has {wanted}.",
        "Build the testbed again; this is another disk.",
    )


def _file(facts: dict[str, Any], layer: Layer, testbed_id: str, layers: list[Layer]) -> list[Failure]:
    path, identity, volume = facts["path"], layer["identity"], facts["volume"]
    if not identity.get("mount_point"):
        return [Failure("not_a_device", f"{path} is a file, but the layer is a disk.", "Build the testbed again.")]
    if not identity.get("stamp"):
        return [
            Failure(
                "identity_missing",
                f"Nothing proves that the volume of {path} is the testbed's.",
                "Publish the layer with the label of its volume.",
            )
        ]
    ours = (
        {identity["stamp"], label(testbed_id, layer["name"].partition("-")[2])} if testbed_id else {identity["stamp"]}
    )
    if ours != {volume["label"]}:
        return [
            Failure(
                "wrong_stamp",
                f"The volume of {path} is called {volume['label'] or 'nothing'}, the testbed's is called {' and '.join(sorted(ours))}.",
                "Build the testbed again; this is another volume.",
            )
        ]
    if facts["folder"]:
        return [Failure("not_a_device", f"{path} is a folder.", "Build the testbed again.")]
    if facts["size_bytes"] is None:
        return [
            Failure(
                "device_missing",
                f"{path} does not exist.",
                "Build the testbed again; a file of that name is never made.",
            )
        ]
    beneath = next(
        (
            other["identity"].get("unique_id")
            for other in layers
            if other["name"] == layer["parent"] and other["host"] == layer["host"]
        ),
        None,
    )
    refusals = [_other_disk(facts, beneath)] if beneath and beneath != facts["disk"]["unique_id"] else []
    return refusals + size_refusals(facts, layer)


def _usable(facts: dict[str, Any]) -> list[Failure]:
    path, disk, refusals = facts["path"], facts["disk"], []
    if disk["offline"]:
        reason = disk["offline_reason"] or "no reason reported"
        refusals.append(
            Failure("disk_offline", f"{path} is on a disk that is offline ({reason}).", "Build the testbed again.")
        )
    if disk["read_only"]:
        refusals.append(
            Failure("device_read_only", f"{path} is on a disk that is read-only.", "Build the testbed again.")
        )
    return refusals


def _virtual_disks(state: State, facts: dict[str, Any]) -> list[Failure]:
    """The target server's virtual disks that are on the disk, or are the file."""
    if facts["type"] == "file":
        files = [disk["path"] for disk in state["virtual_disks"] if disk["path"].lower() == facts["path"].lower()]
    else:
        numbers = {disk["number"] for disk in _all_of(state, facts)}
        files = [
            disk["path"]
            for disk in state["virtual_disks"]
            if (below := disk_below(state, disk["path"])) and below["number"] in numbers
        ]
    if not files:
        return []
    known = {file.lower() for file in files}
    targets = [target["name"] for target in state["targets"] if known & {lun["path"].lower() for lun in target["luns"]}]
    if targets:
        return [
            Failure(
                "device_exported",
                f"{facts['path']} holds {', '.join(files)}, which target {', '.join(targets)} exports.",
                "Remove that export, or name another disk.",
            )
        ]
    return [
        Failure(
            "device_held",
            f"{facts['path']} holds the virtual disk {', '.join(files)}.",
            "Remove it, or name another disk.",
        )
    ]
