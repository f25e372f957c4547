# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NTFS on a disk of a Windows host, with the file that benchmarks overwrite; see the package for the shapes of states and steps.

The label marks a volume as the testbed's own. A killed build leaves a disk between blank and labelled; the record names it by its unique id.
"""

from __future__ import annotations

import re
from collections.abc import Set

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.core.iscsi_names import filesystem_uuid
from ...module_utils.core.layers import Layer
from ...module_utils.core.names import BENCHMARK_FILE, check_name
from ...module_utils.core.steps import Step
from .host import RESERVED, check_id, refuse_disk, step
from .params import NtfsParams
from .state import Disk, Remembered, State, Volume
from .wants import StoreWant

AREA = "datastore"
# What Windows itself puts into every volume.
SYSTEM_ENTRIES = ("$recycle.bin", "system volume information")
# RAM disks of the testbed that have an MBR without partitions, because IOMeter sees no others.
WITH_MBR = ("preinstalled", "aim")
# Room for the file system's own tables on the volume, beside the file.
OVERHEAD_BYTES = 32 << 20
SPEC = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "state_dir": {"type": "path", "required": True},
    "layers": {"type": "dict", "default": {}},
    "discard_contents": {"type": "bool", "default": False},
    "datastores": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "layer": {"type": "str", "required": True},
            "mount_point": {"type": "str", "required": True},
            "filesystem": {"type": "str", "choices": ["ntfs"], "default": "ntfs"},
            "benchmark_file_mib": {"type": "int", "default": 0},
        },
    },
}


def label(testbed_id: str, name: str) -> str:
    """A volume label: NTFS takes 32 characters, so the names themselves may not fit."""
    return "storlab-" + filesystem_uuid(testbed_id, name)[:8]


def check(params: NtfsParams) -> list[StoreWant]:
    """The datastores with their disk's layer; raises bad_value or layer_missing. Each adds {letter, label, expected, benchmark_bytes}."""
    check_id("datastore_testbed_id", params["testbed_id"])
    datastores: list[StoreWant] = []
    seen = set()
    for wanted in params["datastores"]:
        variable = f"datastore_datastores {wanted['name']}"
        check_name("datastore_datastores name", wanted["name"])
        letter = re.fullmatch(r"([A-Za-z]):\\?", wanted["mount_point"])
        if not letter or letter[1].upper() in "ABC":
            raise bad_value(f"{variable} mount_point", wanted["mount_point"], "Use a drive letter from D: to Z:.")
        for key in (f"name {wanted['name']}", f"mount_point {letter[1].upper()}:", f"layer {wanted['layer']}"):
            if key in seen:
                raise bad_value(f"datastore_datastores {key.split()[0]}", key.split()[1], "Listed twice; list it once.")
            seen.add(key)
        layer = params["layers"].get(wanted["layer"])
        if not layer:
            raise Failure(
                "layer_missing",
                f"Datastore {wanted['name']} is on layer {wanted['layer']}, which was never published on this host.",
                "Run the role that makes that layer first.",
                layer=wanted["layer"],
            )
        if layer["purpose"] != "data":
            raise bad_value(
                f"{variable} layer",
                wanted["layer"],
                "Use a layer of purpose data: raw benchmarks overwrite the others.",
            )
        size = wanted["benchmark_file_mib"] << 20
        if size < 0:
            raise bad_value(
                f"{variable} benchmark_file_mib", wanted["benchmark_file_mib"], "Give 0 for none, or a size."
            )
        if size and layer["size_bytes"] is not None and size + OVERHEAD_BYTES > layer["size_bytes"]:
            raise bad_value(
                f"{variable} benchmark_file_mib",
                wanted["benchmark_file_mib"],
                f"The layer has {layer['size_bytes'] >> 20} MiB; leave {OVERHEAD_BYTES >> 20} MiB to the file system.",
            )
        datastores.append(
            {
                **wanted,
                "letter": letter[1].upper(),
                "label": label(params["testbed_id"], wanted["name"]),
                "expected": layer,
                "benchmark_bytes": size,
            }
        )
    return datastores


def _disk(state: State, wanted: StoreWant) -> Disk | None:
    """The disk of the layer; None while it is not there yet, in check mode."""
    layer = wanted["expected"]
    if layer["path"] is None:
        return None
    number = int(layer["path"].rpartition("PhysicalDrive")[2])
    disk = next((disk for disk in state["disks"] if disk["number"] == number), None)
    if disk is None:
        raise Failure(
            "device_missing",
            f"Disk {number} of layer {wanted['layer']} is not on this host.",
            "Run build again.",
            layer=wanted["layer"],
        )
    refuse_disk(disk, f"Layer {wanted['layer']}", layer["size_bytes"], layer["identity"].get("unique_id"))
    return disk


def volume_of(state: State, letter: str) -> Volume | None:
    return next((volume for volume in state["volumes"] if volume["letter"].upper() == letter), None)


def plan(state: State, wanted: list[StoreWant], memory: Remembered) -> list[Step]:
    """Steps from the state to these datastores; only a disk that is blank, or was begun by this testbed, is written to."""
    steps: list[Step] = []
    for datastore in wanted:
        disk, volume = _disk(state, datastore), volume_of(state, datastore["letter"])
        number = disk["number"] if disk else None
        where = f"disk {number}" if disk else f"layer {datastore['layer']}"
        parts = [part for part in (disk["partitions"] if disk else []) if part["type"] != RESERVED]
        mounted = next((part for part in parts if part["letter"].upper() == datastore["letter"]), None)
        if volume and not mounted:
            raise Failure(
                "mount_point_taken",
                f"The drive letter {datastore['letter']}: of datastore {datastore['name']} is in use on this host.",
                "Use another drive letter.",
                mount_point=f"{datastore['letter']}:",
            )
        done = volume is not None and volume["label"] == datastore["label"] and volume["filesystem"] == "NTFS"
        begun = disk is not None and memory.get("disks", {}).get(datastore["name"]) == disk["unique_id"]
        if not done and not begun and disk and (parts or disk["style"] not in _blank_styles(datastore["expected"])):
            raise Failure(
                "signature_present",
                f"Datastore {datastore['name']} would overwrite disk {number}, which has {'partitions' if parts else disk['style']}.",
                "Use a blank LUN, or clear that one by hand.",
                number=number,
            )
        if begun and volume and disk:
            _refuse_foreign(volume, datastore["name"], datastore["label"], disk["number"])
        if begun and len(parts) == 1 and parts[0]["letter"] and not mounted:
            raise bad_value(
                f"datastore_datastores {datastore['name']} mount_point",
                datastore["mount_point"],
                f"It is mounted as {parts[0]['letter']}:; tear it down before you change that.",
            )
        if len(parts) > 1 or (parts and not mounted):
            raise Failure(
                "signature_present",
                f"Disk {number} of datastore {datastore['name']} has partitions that this testbed did not make.",
                "Clear the disk by hand.",
                number=number,
            )
        # A disk of which only the layer is known has the MBR that its role gives it.
        if disk["style"] == "RAW" if disk else "MBR" not in _blank_styles(datastore["expected"]):
            steps.append(step("initialize", where, None, "GPT", "disk_initialize", Number=number, Style="GPT"))
        if not parts:
            steps.append(
                step(
                    "partition",
                    where,
                    None,
                    f"{datastore['letter']}:",
                    "partition_new",
                    Number=number,
                    Letter=datastore["letter"],
                )
            )
        if not done:
            steps.append(
                step(
                    "format",
                    f"{datastore['letter']}:",
                    None,
                    f"NTFS {datastore['label']}",
                    "volume_format",
                    Letter=datastore["letter"],
                    Label=datastore["label"],
                )
            )
        size = next(
            (
                entry["size_bytes"]
                for entry in (volume["entries"] if volume and done else [])
                if entry["name"].lower() == BENCHMARK_FILE
            ),
            None,
        )
        if datastore["benchmark_bytes"] and size != datastore["benchmark_bytes"]:
            steps.append(
                step(
                    "write_file",
                    file_path(datastore),
                    None if size is None else f"{size} bytes",
                    f"{datastore['benchmark_bytes']} bytes",
                    "file_write",
                    Path=file_path(datastore),
                    SizeBytes=datastore["benchmark_bytes"],
                )
            )
    return steps


def _blank_styles(layer: Layer) -> tuple[str, ...]:
    """How a disk without partitions looks on which nothing is kept."""
    ours = layer["kind"] == "backing" and (layer.get("detail") or {}).get("provider") in WITH_MBR
    return ("RAW", "MBR") if ours else ("RAW",)


def _entries_of_others(volume: Volume) -> list[str]:
    names = [entry["name"] for entry in volume["entries"]]
    return [name for name in names if name.lower() not in (*SYSTEM_ENTRIES, BENCHMARK_FILE)]


def _refuse_foreign(volume: Volume, name: str, label: str, number: int) -> None:
    """Refuse a volume that somebody else has made on a disk which a build had begun.

    What a build leaves that was cut has no file system, or one without a label and without files.
    """
    if not volume["filesystem"] or volume["label"] == label or not (volume["label"] or _entries_of_others(volume)):
        return
    raise Failure(
        "datastore_foreign",
        f"Disk {number} carries volume {volume['label'] or volume['letter']}, and not datastore {name}.",
        "Remove it by hand.",
        number=number,
    )


def file_path(wanted: StoreWant) -> str:
    return f"{wanted['letter']}:\\{BENCHMARK_FILE}"


def absent_plan(state: State, memory: Remembered, discard_contents: bool, going: Set[str] = frozenset()) -> list[Step]:
    """Steps that make this testbed's disks blank again; memory: {disks: {name: unique_id}, labels: {name: label}, styles: {name: style}}.

    going: paths in small letters of files of the testbed that are gone by then; in check mode they are still there.
    """
    steps: list[Step] = []
    for name, unique_id in sorted(memory.get("disks", {}).items()):
        disk = next((disk for disk in state["disks"] if disk["unique_id"] == unique_id), None)
        before = memory.get("styles", {}).get(name, "RAW")
        if disk is None or (disk["style"] == before and not disk["partitions"]):
            continue
        refuse_disk(disk, f"Datastore {name}", unique_id=unique_id)
        parts = [part for part in disk["partitions"] if part["type"] != RESERVED]
        if len(parts) > 1 and not discard_contents:
            # One is the datastore. The contents of volumes without a drive letter are unknown.
            raise Failure(
                "datastore_not_empty",
                f"Disk {disk['number']} of datastore {name} has {len(parts)} partitions, and this testbed made one.",
                "Remove those that are not its own, or set datastore_discard_contents to true.",
                number=disk["number"],
                entries=[f"partition {part['number']}" for part in parts],
            )
        for part in disk["partitions"]:
            volume = volume_of(state, part["letter"].upper()) if part["letter"] else None
            if volume:
                _refuse_foreign(volume, name, memory["labels"][name], disk["number"])
            entries = _entries_of_others(volume) if volume else []
            others = [entry for entry in entries if f"{part['letter']}:\\{entry}".lower() not in going]
            if others and not discard_contents:
                raise Failure(
                    "datastore_not_empty",
                    f"Datastore {name} still holds {', '.join(sorted(others)[:5])}.",
                    "Move it away, or set datastore_discard_contents to true.",
                    entries=sorted(others),
                )
        where, number = f"disk {disk['number']}", disk["number"]
        if disk["style"] != "RAW":
            steps.append(step("clear", where, f"datastore {name}", None, "disk_clear", Number=number))
        if before != "RAW":
            steps.append(step("initialize", where, None, before, "disk_initialize", Number=number, Style=before))
    return steps


def remember(memory: Remembered, state: State, wanted: list[StoreWant]) -> Remembered:
    """The record with the disks that will carry datastores; kept before they are changed."""
    there = {datastore["name"]: _disk(state, datastore) for datastore in wanted}
    disks, styles = {**memory.get("disks", {})}, {**memory.get("styles", {})}
    for name, disk in there.items():
        if disk and disks.get(name) != disk["unique_id"]:
            # One that carries the datastore already was blank when that was made.
            disks[name], styles[name] = disk["unique_id"], "RAW" if disk["partitions"] else disk["style"]
    return {
        "disks": disks,
        "styles": styles,
        "labels": {**memory.get("labels", {}), **{datastore["name"]: datastore["label"] for datastore in wanted}},
    }


def layers_of(wanted: list[StoreWant]) -> list[Layer]:
    """The datastores as layers, without their host: what is measured is the benchmark files. One without is a layer that holds data and has no path."""
    return [
        {
            "name": f"datastore-{datastore['name']}",
            "kind": "datastore",
            "parent": datastore["layer"],
            **(
                {"path": file_path(datastore), "purpose": "scratch", "size_bytes": datastore["benchmark_bytes"]}
                if datastore["benchmark_bytes"]
                else {"path": None, "purpose": "data", "size_bytes": None}
            ),
            "identity": {"mount_point": f"{datastore['letter']}:\\", "stamp": datastore["label"]},
            "detail": {"provider": "ntfs", "filesystem": "ntfs", "device": datastore["expected"]["path"]},
        }
        for datastore in wanted
    ]
