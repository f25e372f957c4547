# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a device or a file must not be overwritten, a function for each kind of reason: pure, over the facts that device_safety.py has read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...core.failure import Failure
from ...core.iscsi_names import unit_serial
from ...core.layers import Layer, generation
from . import designators, exported, nfs_volumes
from .facts import Facts


def unreadable(facts: Facts) -> Failure:
    return Failure(
        "device_unreadable",
        f"{facts['path']} cannot be opened ({facts['claim']}).",
        "Check the device and the rights of the user.",
    )


def purpose_refusals(facts: Mapping[str, object], layer: Layer) -> list[Failure]:
    if layer.get("purpose") == "scratch":
        return []
    return [
        Failure(
            "purpose_data",
            f"{facts['path']} is a data layer, it holds something.",
            "Measure it through a file on it, or a scratch layer.",
        )
    ]


def final_refusals(facts: Facts) -> list[Failure]:
    path, reasons = facts["path"], []
    if facts["mounts"]:
        reasons.append(
            Failure(
                "device_mounted",
                f"{path} or something on it is mounted on {', '.join(facts['mounts'])}.",
                "Unmount it, or name another device.",
            )
        )
    if facts["swap"]:
        reasons.append(Failure("device_swap", f"{path} or something on it is swap space.", "Name another device."))
    return reasons


def size_refusals(facts: Mapping[str, object], layer: Layer) -> list[Failure]:
    if facts["size_bytes"] == layer["size_bytes"]:
        return []
    return [
        Failure(
            "wrong_size",
            f"{facts['path']} has {facts['size_bytes']} bytes, the layer has {layer['size_bytes']}.",
            "Build the testbed again; this is another device, or it was replaced.",
        )
    ]


def block_refusals(facts: Facts, layer: Layer) -> list[Failure]:
    path, reasons = facts["path"], []
    if layer["identity"].get("mount_point"):
        reasons.append(
            Failure("not_a_device", f"{path} is a block device, but the layer is a file.", "Build the testbed again.")
        )
    # A RAM disk of several sizes is one device in partitions that the testbed itself made.
    foreign_partition = facts["partition"] and layer["identity"].get("whole_device") != facts["whole_device"]
    if facts["partitions"] or foreign_partition:
        what = f"has partitions ({', '.join(facts['partitions'])})" if facts["partitions"] else "is a partition"
        reasons.append(Failure("device_partitioned", f"{path} {what}.", "Name a whole, empty device."))
    if facts["holders"]:
        reasons.append(
            Failure(
                "device_held",
                f"{path} is part of {', '.join(facts['holders'])} (LVM, RAID, multipath or device mapper).",
                "Name the device on top of it.",
            )
        )
    for twin, holders in facts.get("twins", {}).items():
        if set(holders) - set(facts["holders"]):
            reasons.append(
                Failure(
                    "device_held",
                    f"{path} is the same disk as {twin}, which is part of {', '.join(holders)}.",
                    "Name the device on top of it.",
                )
            )
    if facts["mapped"] and not same_uuid(layer["identity"].get("uuid"), facts["mapped_uuid"]):
        reasons.append(
            Failure(
                "device_mapped",
                f"{path} is the device mapper or RAID device {facts['mapped_uuid'] or 'without UUID'}, which the layer does not name.",
                "Give the layer that uuid if it is the one, or name another device.",
            )
        )
    if facts["claim"] not in (None, "EBUSY"):
        reasons.append(unreadable(facts))
    if facts["read_only"]:
        reasons.append(Failure("device_read_only", f"{path} is read-only.", "Name a device that can be written."))
    if facts.get("signature_error"):
        reasons.append(
            Failure(
                "signature_unknown",
                f"It cannot be determined whether {path} is empty: {facts['signature_error']}.",
                "Make blkid work on this host.",
            )
        )
    elif facts.get("signature"):
        kind = facts["signature"].get("TYPE") or facts["signature"].get("PTTYPE") or "something"
        reasons.append(
            Failure(
                "signature_present",
                f"{path} carries a signature of {kind}.",
                "Wipe it if it may be lost, or name another device.",
            )
        )
    return reasons + identity_refusals(facts, layer)


def same_uuid(given: str | None, shown: str | None) -> bool:
    """Whether both are one UUID of a device mapper or RAID device, written as LVM, mdadm or the kernel do.

    The kernel writes LVM-<volume group><logical volume> without dashes, lvs the logical volume's part with them; mdadm writes colons.
    """
    if not given or not shown:
        return False
    if shown.startswith("LVM-") and len(shown) >= 68:
        return given == shown or given.replace("-", "") == shown[36:68]
    digits = [re.sub(r"[-:]", "", text).lower() for text in (given, shown)]
    return given == shown or (digits[0] == digits[1] and re.fullmatch(r"[0-9a-f]{32}", digits[0]) is not None)


def identity_refusals(facts: Facts, layer: Layer) -> list[Failure]:
    """Every identity the layer was published with must hold, and one of them at least must distinguish it from other devices."""
    path, identity, proven, reasons = facts["path"], layer["identity"], False, []
    for key, code in (
        ("serial", "wrong_serial"),
        ("naa", "wrong_naa"),
        ("wwid", "wrong_wwid"),
        ("major_minor", "wrong_number"),
    ):
        if not identity.get(key):
            continue
        proven = True
        names = [facts.get(key), *(facts.get("designators", ()) if key == "wwid" else ())]
        if designators.plain(identity[key]) not in map(designators.plain, names):
            reasons.append(
                Failure(
                    code,
                    f"{path} has {key.replace('_', ':')} {facts.get(key, 'none')}, the layer has {identity[key]}.",
                    "Build the testbed again; this is another device.",
                )
            )
    if not proven and not (facts["mapped"] and identity.get("uuid")):
        reasons.append(
            Failure(
                "identity_missing",
                f"Nothing proves that {path} is the device of layer {layer['name']}.",
                "Publish the layer with a serial, naa, wwid or major_minor.",
            )
        )
    return reasons


def file_refusals(facts: Facts, layer: Layer) -> list[Failure]:
    path, identity = facts["path"], layer["identity"]
    if not identity.get("mount_point"):
        return [
            Failure(
                "not_a_device",
                f"{path} is a regular file, but the layer is a device.",
                "Build the testbed again; the device is gone and a file took its name.",
            )
        ]
    if not identity.get("uuid"):
        return [
            Failure(
                "identity_missing",
                f"Nothing proves that the file system under {path} is the testbed's.",
                "Publish the layer with the uuid of its file system.",
            )
        ]
    if facts.get("mount_point") != identity["mount_point"]:
        where = f"{facts['resolved']} on {facts.get('mount_point', 'no mount')}"
        return [
            Failure(
                "wrong_mount",
                f"{path} is really {where}, not below {identity['mount_point']}.",
                "Mount the datastore again.",
            )
        ]
    if "fsid" in facts:
        if facts["fsid"] in nfs_volumes.fsids(identity["uuid"]):
            return []
        return [
            Failure(
                "wrong_uuid",
                f"{identity['mount_point']} has the fsid {facts['fsid'] or 'none'} over NFS, the layer has {identity['uuid']}.",
                "Mount the datastore again.",
            )
        ]
    if designators.plain(facts.get("uuid")) != designators.plain(identity["uuid"]):
        return [
            Failure(
                "wrong_uuid",
                f"{identity['mount_point']} has the file system {facts.get('uuid', 'without UUID')}, the layer has {identity['uuid']}.",
                "Mount the datastore again.",
            )
        ]
    return []


def use_refusals(facts: Facts, layer: Layer, testbed_id: str, layers: Sequence[Layer]) -> list[Failure]:
    path, reasons = facts["path"], []
    targets = [other for other in layers if other["kind"] == "target" and other["parent"] == layer["name"]]
    # The disks of an NVMe target have a UUID in the place of a serial.
    serials = {designators.plain(target["identity"].get(key)) for target in targets for key in ("serial", "wwid")} - {
        ""
    }
    # Testbed a with a disk b-c and testbed a-b with a disk c call their backstores alike; the serial distinguishes them.
    generations = {None, generation({other["name"]: other for other in [*layers, layer]}, layer)}
    labels = {other["name"].partition("-")[2] for other in [layer, *targets]} if testbed_id else set()
    stamps = {
        (f"storlab-{testbed_id}-{name}", unit_serial(testbed_id, name, known))
        for name in labels
        for known in generations
    }
    foreign = []
    for export in facts["exports"]:
        # A scratch layer is measured underneath the testbed's own export: that is what the tool is for.
        if not (
            layer.get("purpose") == "scratch"
            and ((export["name"], export["serial"]) in stamps or designators.plain(export["serial"]) in serials)
        ):
            foreign.append(f"{export['name']} ({export['software']})")
    if foreign:
        reasons.append(
            Failure(
                "device_exported",
                f"{path} is exported as {', '.join(foreign)}.",
                "Remove that export, or name another device.",
            )
        )
    if facts["loops"]:
        reasons.append(
            Failure(
                "device_held",
                f"{path} is the backing store of {', '.join(facts['loops'])}.",
                "Name the loop device, or detach it.",
            )
        )
    exporters = exported.holders(facts["exports"])
    writers = [opener for opener in facts["openers"] if opener["writes"] and opener["command"] not in exporters]
    if writers:
        names = ", ".join(f"{writer['command']} (process {writer['pid']})" for writer in writers)
        reasons.append(
            Failure("device_in_use", f"{path} is open for writing by {names}.", "Stop it, or name another device.")
        )
    return reasons + _claims(facts)


def _claims(facts: Facts) -> list[Failure]:
    """The kernel gave the device, or one above it, to somebody whom nothing else shows."""
    path = facts["path"]
    if facts.get("mounts") or facts.get("swap") or any(export.get("claims") for export in facts["exports"]):
        return []
    busy = facts.get("claim") == "EBUSY" and not facts["holders"]
    if facts.get("claimed_above") or (busy and (facts.get("signature") or facts.get("signature_error"))):
        # Such as the disk of the system below an overlay: mounted, and in no table that a process can read.
        what = ", ".join(facts.get("claimed_above") or [path])
        return [
            Failure(
                "device_claimed",
                f"{what} carries data and is held by something in the kernel, such as a mount that is not shown or ZFS.",
                "Find out what uses it, or name another device.",
            )
        ]
    if busy:
        return [
            Failure(
                "device_busy",
                f"{path} is held by something else in the kernel.",
                "Find out what uses it (ZFS, bcache, DRBD …), or name another device.",
            )
        ]
    return []
