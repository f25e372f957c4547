# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of one datastore on a Linux host, and the datastores as they are wanted."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from typing import Any

from ...core.failure import Failure, bad_value
from ...core.iscsi_names import filesystem_uuid
from ...core.layers import Layer, generation
from ...core.names import BENCHMARK_FILE, CACHE_ANSWER, CACHE_REQUEST, benchmark_files, check_name
from ...core.steps import Step
from ..disks import device_safety
from ..nouns import Mount, Store
from ..params import DatastoresParams
from . import nfs_mount
from .benchmark_file import MIB
from .filesystem import label

# Finished benchmark files, and the one that is being written.
FILE = re.compile(re.escape(BENCHMARK_FILE).replace(r"\.dat", r"(\.\d+)?\.dat"))
PARTIAL = f".{BENCHMARK_FILE}.new"
OWN_NAMES = ("lost+found", PARTIAL, CACHE_REQUEST, CACHE_ANSWER)
MOST_FILES = 256


def plan(current: dict[str, Any], wanted: Store) -> list[Step]:
    """Steps for one datastore. current: {superblock, mounted, numbers, file_bytes, options, generation}"""
    steps: list[Step] = []
    name: Step = {"datastore": wanted["name"]}

    def add(op: Any, was: object, will: object) -> None:
        steps.append({"op": op, **name, "was": was, "will": will})

    mounted = current["mounted"]
    # A mounted file system writes its superblock again and again, onto the empty disk of a rebuilt target, too: its UUID alone proves nothing.
    replaced = bool(current["generation"] and wanted["generation"] and current["generation"] != wanted["generation"])
    cut = bool(current["superblock"].get("unfinished")) and current["superblock"]["uuid"] == wanted["uuid"]
    ours = current["superblock"]["uuid"] == wanted["uuid"] and not replaced and not cut
    stale = mounted and (mounted["numbers"] != current["numbers"] or not ours)
    if stale:
        add("detach", "mounted, but its device was replaced", "not mounted")
    if ours and current["superblock"]["filesystem"] != wanted["filesystem"]:
        raise Failure(
            "wrong_filesystem",
            f"Datastore {wanted['name']} is {current['superblock']['filesystem']} instead of {wanted['filesystem']}.",
            "Run teardown first, or keep the file system it has.",
            datastore=wanted["name"],
        )
    if not ours:
        add(
            "make_filesystem",
            "remains of a replaced device"
            if replaced
            else "begun and cut off"
            if cut
            else current["superblock"]["filesystem"] or "blank",
            f"{wanted['filesystem']} {wanted['uuid']}",
        )
    if not mounted or stale:
        add("mount", "not mounted", wanted["mount_point"])
    elif current["options"] is not None and current["options"] != wanted["mount_options"]:
        add("remount", current["options"], wanted["mount_options"])
    kept = ours and not stale
    if wanted["benchmark_bytes"] and (
        not kept or (mounted and current["file_bytes"] != wanted["benchmark_bytes"]) or (not mounted and kept)
    ):
        add("write_benchmark_file", current["file_bytes"] if kept and mounted else None, wanted["benchmark_bytes"])
    return steps


def foreign_entries(names: Collection[str]) -> list[str]:
    """The things on a datastore that are not the collection's own."""
    return sorted(name for name in names if name not in OWN_NAMES and not FILE.fullmatch(name))


MOUNT_OPTIONS = re.compile(r"[A-Za-z][A-Za-z0-9_.,:=@%/+-]*")


def resolve(params: DatastoresParams, check_mode: bool = False) -> list[Store]:
    """The datastores with device, UUID, label and expected layer; raises bad_value or layer_missing.

    In check mode an export may be missing: what its host would have published is known there alone.
    """
    wanted: list[Store] = []
    names, points = set(), set()
    for entry in params["datastores"]:
        name = check_name("datastore_datastores name", entry["name"])
        if name in names or entry["mount_point"] in points:
            raise bad_value("datastore_datastores", name, "Give every datastore another name and mount point.")
        if entry.get("nconnect") is not None and entry["filesystem"] != "nfs":
            raise bad_value(f"datastore_datastores {name} nconnect", entry["nconnect"], "Leave it out: it is for NFS.")
        names.add(name)
        points.add(entry["mount_point"])
        point = entry["mount_point"]
        if not point.startswith("/") or os.path.normpath(point) != point or point.count("/") < 2:
            raise bad_value(
                f"datastore_datastores {name} mount_point",
                entry["mount_point"],
                "Give a clean absolute path at least two folders deep, such as /srv/storlab/ds1.",
            )
        if not MOUNT_OPTIONS.fullmatch(entry["mount_options"]):
            raise bad_value(
                f"datastore_datastores {name} mount_options",
                entry["mount_options"],
                "Write options of mount(8) with commas between them and no blanks, such as noatime,nodev.",
            )
        over_nfs = entry["filesystem"] == "nfs"
        if over_nfs:
            nfs_mount.check(entry)
        elif bool(entry["layer"]) == bool(entry["device"]):
            raise bad_value(
                f"datastore_datastores {name}",
                {"layer": entry["layer"], "device": entry["device"]},
                "Give either layer or device.",
            )
        if entry["benchmark_file_mib"] < 0:
            raise bad_value(
                f"datastore_datastores {name} benchmark_file_mib",
                entry["benchmark_file_mib"],
                "Give 0 for none, or a size.",
            )
        if not 1 <= entry["benchmark_files"] <= MOST_FILES:
            raise bad_value(
                f"datastore_datastores {name} benchmark_files",
                entry["benchmark_files"],
                f"Give a number from 1 to {MOST_FILES}: as many as workers shall have a file to themselves.",
            )
        layer = params["layers"].get(entry["layer"]) if entry["layer"] else None
        if entry["layer"] and not layer and not (over_nfs and check_mode):
            raise Failure(
                "layer_missing",
                f"Datastore {name} is on layer {entry['layer']}, which was never published on this host.",
                "Run the role that makes that layer first" + (", on the server." if over_nfs else ", on this host."),
                layer=entry["layer"],
            )
        if layer and layer["purpose"] != "data":
            raise bad_value(
                f"datastore_datastores {name} layer",
                entry["layer"],
                "Use a layer of purpose data: raw benchmarks overwrite the others.",
            )
        if layer and over_nfs and (layer.get("detail") or {}).get("provider") != "nfs":
            raise bad_value(
                f"datastore_datastores {name} layer", entry["layer"], "Use the layer of an export over NFS."
            )
        wanted.append(
            {
                **entry,
                "device": layer["path"] if layer else entry["device"],
                "expected": layer,
                "proof": {key: entry.get(key) for key in device_safety.PROOFS},
                "generation": generation(params["layers"], layer),
                # Over NFS it is the file system of the server.
                "uuid": layer["identity"]["uuid"]
                if layer and over_nfs
                else filesystem_uuid(params["testbed_id"], name),
                "label": label(params["testbed_id"], name),
                "benchmark_bytes": entry["benchmark_file_mib"] * MIB,
            }
        )
    nfs_mount.check_shared(wanted)
    return wanted


def mount_point_used(wanted: Store, mounted: Mount) -> Failure:
    return Failure(
        "mount_point_used",
        f"{wanted['mount_point']} of datastore {wanted['name']} is already the mount point of {mounted['source']}.",
        "Use another mount_point, or unmount it.",
        mount_point=wanted["mount_point"],
        source=mounted["source"],
    )


def impossible(wanted: Store, why: str) -> Failure:
    return Failure(
        "mount_point_impossible",
        f"The folder {wanted['mount_point']} of datastore {wanted['name']} cannot be made: {why}.",
        "Set mount_point of that datastore to a folder on a file system that can be written to.",
        mount_point=wanted["mount_point"],
    )


def refuse_not_empty(wanted: Store) -> None:
    if os.listdir(wanted["mount_point"]):
        raise Failure(
            "mount_point_used",
            f"{wanted['mount_point']} of datastore {wanted['name']} is not an empty folder.",
            "Use another mount_point.",
            mount_point=wanted["mount_point"],
        )


def layers_of(wanted: list[Store]) -> list[Layer]:
    """The datastores as layers, without their host: what is measured is the benchmark files. One without is a layer all the same, which holds data and has
    no path, because its contents (the disk of a guest) are reached through it."""
    files = {
        entry["name"]: [os.path.join(entry["mount_point"], name) for name in benchmark_files(entry["benchmark_files"])]
        for entry in wanted
    }
    return [
        {
            "name": f"datastore-{entry['name']}",
            "kind": "datastore",
            "parent": entry["layer"],
            **(
                {"path": files[entry["name"]][0], "purpose": "scratch", "size_bytes": entry["benchmark_bytes"]}
                if entry["benchmark_bytes"]
                else {"path": None, "purpose": "data", "size_bytes": None}
            ),
            "identity": {"uuid": entry["uuid"], "mount_point": entry["mount_point"], "stamp": entry["label"]},
            "detail": {
                "filesystem": entry["filesystem"],
                **(
                    {"provider": "nfs", "mount_options": nfs_mount.options(entry), "server": entry["server"]}
                    if entry["filesystem"] == "nfs"
                    else {
                        "provider": "filesystem",
                        "mount_options": entry["mount_options"],
                        "device": entry["device"],
                    }
                ),
                **(
                    {"files": files[entry["name"]]} if entry["benchmark_bytes"] and entry["benchmark_files"] > 1 else {}
                ),
            },
        }
        for entry in wanted
    ]
