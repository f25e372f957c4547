# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of one datastore of an ESXi host: pure functions of its state, and what is refused."""

from __future__ import annotations

from typing import Any

from ..core.failure import Failure
from ..core.names import device_name
from ..core.steps import Step
from ..core.times import utc
from . import scsi
from .datastore_contents import listed, refuse_left
from .states import DiskContents, Store, StoreDisk, StoresState, StoreWant, Volume

# The note about a LUN of others that the user has named.
UNSEEN = "anything on it without a partition table"
# HostMountInfo's reason for a datastore whose device its array has declared lost; every other reason may pass.
PERMANENT = "PermanentDeviceLoss"


def plan(
    state: StoresState,
    want: StoreWant,
    look: Any,
    recorded: dict[str, Any],
    intended: Any = lambda _volume: None,
) -> list[Step]:
    """Steps for one datastore: [{op, target, was, will}].

    want: see check(). look: what is on a datastore (see Contents); asked only when that matters.
    recorded: what the controller knows of the volumes that this testbed has made here, {uuid: {name, naa: [..], layer}}. It replaces the stamp
    where that cannot be read. intended: a function of a volume, the intention that it may have come of.
    """
    volume = next((volume for volume in state["volumes"] if volume["name"] == want["name"]), None)
    if want["type"] == "existing":
        if want["state"] == "present":
            _refuse_unusable(state["stores"].get(want["name"]), want)
        return []
    if want["state"] == "present":
        return (
            _present_vmfs(state, want, volume, look, recorded, intended)
            if want["type"] == "vmfs"
            else _present_nfs(want, volume)
        )
    if volume is None:
        return []
    if not fits(volume, want):
        if replaced(state, want, volume, recorded):
            return [_release(want, volume)]
        raise Failure(
            "datastore_foreign",
            f"The datastore {want['name']} is a different one: {where(volume)}.",
            "Name the testbed's datastore; this one stays as it is.",
            name=want["name"],
        )
    if volume["type"] == "NFS":
        if want["remembers"] and volume["uuid"] not in recorded and not intended(volume):
            # It was there before the testbed, which only used it.
            return []
        refuse_used(volume["vms_here"], want)
        return [{"op": "release_nfs", "target": want["name"], "was": "mounted", "will": None}]
    return (_unmount if want["state"] == "unmounted" else _destroy)(state, want, volume, look, recorded, intended)


def _refuse_unusable(store: Store | None, want: StoreWant) -> None:
    """Refuse a datastore of others that the host does not offer to guests."""
    if store is None:
        raise Failure(
            "datastore_missing",
            f"The host has no datastore {want['name']}, which is described as one that was there before.",
            "Correct its name in testbed.existing, or describe a datastore on a disk in testbed.datastores.",
            name=want["name"],
        )
    if not store["accessible"]:
        raise Failure(
            "datastore_inaccessible",
            f"The datastore {want['name']} is there, but the host cannot reach it.",
            "Mount it, or bring its device back; the testbed changes nothing of a datastore that was there before.",
            name=want["name"],
        )


def fits(volume: Volume, want: StoreWant) -> bool:
    if want["type"] == "nfs":
        return volume["remote"] == f"{want['server']}:{want['path']}"
    return volume["type"] == "VMFS" and (want["naa"] is None or want["naa"] in volume["naa"])


def where(volume: Volume) -> str:
    return f"NFS from {volume['remote']}" if volume["type"] == "NFS" else f"VMFS on {', '.join(volume['naa'])}"


def contents(disk: DiskContents) -> list[str]:
    """The signs against a disk being blank, in words; empty when its partition table is, and it carries no copy of a VMFS."""
    reasons = []
    if disk["partitions"] is None:
        reasons.append("a partition table that cannot be read")
    elif disk["partitions"]:
        reasons.append("partitions (" + ", ".join(disk["partitions"]) + ")")
    if disk["unresolved"]:
        reasons.append(f"a copy of the VMFS {disk['unresolved']}")
    return reasons


def refuse_contents(disk: StoreDisk, want: StoreWant) -> list[Any]:
    """Refuse a disk that is not proven blank; what is overwritten when it is named nevertheless."""
    reasons = contents(disk)
    if reasons and not want["allowed"]:
        raise Failure(
            "device_not_blank",
            f"The device {want['naa']} for the datastore {want['name']} has {' and '.join(reasons)}.",
            "Give a blank LUN. If its contents are not needed, allow overwriting it with "
            f"datastore_allow_device: [{device_name(want['naa'])}].",
            naa=want["naa"],
            contents=reasons,
        )
    if want["exported"]:
        return reasons
    if not want["allowed"]:
        raise Failure(
            "device_unproven",
            f"The device {want['naa']} for the datastore {want['name']} is not exported by this testbed, "
            "and a host does not see a file system on a device without a partition table.",
            f"If its contents are not needed, name it: datastore_allow_device: [{device_name(want['naa'])}].",
            naa=want["naa"],
        )
    return [*reasons, UNSEEN]


def refuse_taken(disk: StoreDisk, want: StoreWant) -> None:
    """Refuse a disk that the host does not name as free; no variable helps against that."""
    if not disk["available"]:
        raise Failure(
            "device_in_use",
            f"The device {want['naa']} is not free for the datastore {want['name']}: the host has another datastore on it, "
            "or uses it itself, or it is mapped to a virtual machine.",
            "Give the testbed a LUN of its own.",
            naa=want["naa"],
        )


def refuse_used(vms: list[str], want: StoreWant) -> None:
    if not vms:
        return
    remedy = "Remove them first, those that are turned off, too; the role guest_vm removes the testbed's."
    if any(name.startswith("vCLS") for name in vms):
        remedy += " vCLS machines are vCenter's own: exclude the datastore in the cluster's settings of vSphere Cluster Services."
    raise Failure(
        "datastore_in_use",
        f"Virtual machines are on the datastore {want['name']}: {', '.join(sorted(vms))}.",
        remedy,
        name=want["name"],
        vms=sorted(vms),
    )


def refuse_shared(hosts: list[str], want: StoreWant) -> None:
    """Refuse to destroy what a host mounts that is not of the testbed: whatever it has there would be gone."""
    strangers = sorted(set(hosts) - set(want["hosts"]))
    if strangers:
        raise Failure(
            "datastore_shared",
            f"The datastore {want['name']} is mounted on hosts that this testbed does not name: {', '.join(strangers)}.",
            "Unmount it there. A host that is the testbed's belongs in the inventory, or in datastore_esxi_hosts.",
            name=want["name"],
            hosts=strangers,
        )


def foreign(name: str, owner: str | None) -> Failure:
    return Failure(
        "datastore_foreign",
        f"The datastore {name} does not carry this testbed's stamp" + (f" but that of {owner}." if owner else "."),
        "It stays as it is; choose another name, or destroy it by hand if it is not needed.",
        name=name,
        owner=owner,
    )


def inaccessible(volume: Volume, why: str) -> Failure:
    reason = f" ({volume['reason']})" if volume["reason"] else ""
    return Failure(
        "datastore_inaccessible",
        f"The datastore {volume['name']} cannot be reached{reason}, and {why}.",
        "Bring its target back and run again. If its device is lost for good: power off and unregister the machines on it, "
        "unmount it, rescan, and run again.",
        name=volume["name"],
        reason=volume["reason"],
    )


def name_taken(want: StoreWant, volume: Volume) -> Failure:
    return Failure(
        "datastore_name_taken",
        f"There is a datastore {want['name']} already: {where(volume)}.",
        "Choose another name. If that one is lost with its device: unregister the machines on it, unmount it and rescan.",
        name=want["name"],
    )


def gone(state: StoresState, volume: Volume) -> bool:
    """Whether the host says that the devices of a volume are lost for good. Paths that are down may come up again."""
    return not works(state, volume) and (
        volume["reason"] == PERMANENT or all(naa not in state["disks"] for naa in volume["naa"])
    )


def works(state: StoresState, volume: Volume) -> bool:
    """Whether one of its devices answers."""
    return any(scsi.works(disk["state"]) for naa in volume["naa"] if (disk := state["disks"].get(naa)))


def replaced(state: StoresState, want: StoreWant, volume: Volume, recorded: dict[str, Any]) -> bool:
    """Whether the volume is this testbed's own on a device that cannot come back: it is lost for good, or its LUN is another device now."""
    known = recorded.get(volume["uuid"])
    if volume["type"] != "VMFS" or not known or volume["accessible"] or works(state, volume):
        return False
    refuse_used(volume["vms"], want)
    return gone(state, volume) or (want["naa"] is not None and known["layer"] == want["layer"])


def _release(want: StoreWant, volume: Volume) -> Step:
    return {
        "op": "release",
        "target": want["name"],
        "was": f"lost with its device, {where(volume)}",
        "will": None,
        "uuid": volume["uuid"],
        "mounted": volume["mounted"],
    }


def _present_nfs(want: StoreWant, volume: Volume | None) -> list[Any]:
    if volume is None:
        return [
            {
                "op": "create_nfs",
                "target": want["name"],
                "was": None,
                "will": f"NFS from {want['server']}:{want['path']}",
            }
        ]
    if not fits(volume, want):
        raise name_taken(want, volume)
    return []


def _present_vmfs(
    state: StoresState,
    want: StoreWant,
    volume: Volume | None,
    look: Any,
    recorded: dict[str, object],
    intended: Any,
) -> list[Any]:
    disk = state["disks"].get(want["naa"])
    if disk is None and want["check_mode"]:
        # Nothing is logged in to yet: the LUN would be there by now.
        return (
            [{"op": "create_vmfs", "target": want["name"], "was": None, "will": f"VMFS {want['version']} on the LUN"}]
            if volume is None
            else []
        )
    if disk is None or not scsi.works(disk["state"]):
        if volume and fits(volume, want) and volume["mounted"] and not volume["accessible"]:
            raise inaccessible(volume, f"the host has no working device {want['naa']}")
        raise Failure(
            "lun_missing",
            f"The host has no working device {want['naa']} for the datastore {want['name']}.",
            "Run iscsi_initiator first, and look whether the target exports the LUN to this host.",
            naa=want["naa"],
        )
    if volume is None:
        taken = next((other for other in state["volumes"] if want["naa"] in other["naa"]), None)
        if taken:
            raise Failure(
                "device_in_use",
                f"The device {want['naa']} carries the datastore {taken['name']}.",
                "Give the testbed a LUN of its own.",
                name=taken["name"],
            )
        refuse_taken(disk, want)
        return [_create(disk, want)]
    if not fits(volume, want):
        if not replaced(state, want, volume, recorded):
            raise name_taken(want, volume)
        refuse_taken(disk, want)
        return [_release(want, volume), _create(disk, want)]
    if not volume["mounted"]:
        return [{"op": "mount", "target": want["name"], "was": "unmounted", "will": "mounted", "uuid": volume["uuid"]}]
    if not volume["accessible"]:
        if contents(disk):
            raise inaccessible(volume, f"its device {want['naa']} has {' and '.join(contents(disk))}")
        _own_lost(volume, want, recorded)
        return [_release(want, volume), _create(disk, want)]
    return _unstamped(want, volume, look, intended)


def _unstamped(want: StoreWant, volume: Volume, look: Any, intended: Any) -> list[Any]:
    """The step that gives a datastore of this testbed its stamp; none where it has it. Raises datastore_foreign for one that is somebody else's."""
    owner = look.stamp(want["name"])
    if owner == want["testbed_id"]:
        return []
    intention = intended(volume) if owner is None else None
    if not intention:
        raise foreign(want["name"], owner)
    begun = utc(intention["time_s"])
    users = [*look.entries(want["name"]), *volume["vms"], *sorted(set(volume["hosts"]) - set(want["hosts"]))]
    if users:
        raise Failure(
            "datastore_foreign",
            f"The datastore {want['name']}, which this testbed was about to make at {begun}, does not carry its stamp and is in use: {listed(users)}.",
            "It stays as it is; choose another name, or destroy it by hand if it is not needed.",
            name=want["name"],
            users=users,
        )
    return [{"op": "stamp", "target": want["name"], "was": f"begun at {begun} and cut off", "will": "this testbed's"}]


def _create(disk: StoreDisk, want: StoreWant) -> dict[str, object]:
    return {
        "op": "create_vmfs",
        "target": want["name"],
        "was": " and ".join(refuse_contents(disk, want)) or None,
        "will": f"VMFS {want['version']} on {want['naa']}",
        "device": disk["device"],
    }


def _own_lost(volume: Volume, want: StoreWant, recorded: dict[str, object]) -> None:
    if volume["uuid"] not in recorded:
        raise inaccessible(volume, "nothing proves that it is this testbed's")
    refuse_used(volume["vms"], want)


def _unmount(
    _state: StoresState,
    want: StoreWant,
    volume: Volume,
    look: Any,
    recorded: dict[str, dict[str, str | list[str]]],
    intended: Any,
) -> list[Any]:
    steps: list[Step] = []
    if not volume["mounted"]:
        return steps
    if volume["accessible"]:
        steps = _unstamped(want, volume, look, intended)
    elif volume["uuid"] not in recorded:
        raise inaccessible(volume, "nothing proves that it is this testbed's")
    refuse_used(volume["vms_here"], want)
    unmount = {"op": "unmount", "target": want["name"], "was": "mounted", "will": "unmounted", "uuid": volume["uuid"]}
    return [*steps, unmount]


def _destroy(
    state: StoresState,
    want: StoreWant,
    volume: Volume,
    look: Any,
    recorded: dict[str, Any],
    intended: Any,
) -> list[Any]:
    steps, discard = [], want["discard"]
    if not volume["mounted"]:
        # Mounting looks into it, and takes the mount back when it is not ours, or not empty.
        steps.append(
            {"op": "mount", "target": want["name"], "was": "unmounted", "will": "mounted", "uuid": volume["uuid"]}
        )
    elif volume["accessible"]:
        # A thing that only an intention calls ours is taken while it is empty, whatever else may be discarded.
        discard = not _unstamped(want, volume, look, intended) and discard
    else:
        _own_lost(volume, want, recorded)
        disks = [state["disks"].get(naa) for naa in volume["naa"]]
        if gone(state, volume) or all(disk and scsi.works(disk["state"]) and not contents(disk) for disk in disks):
            return [_release(want, volume)]
        raise inaccessible(volume, "what is on its device may come back")
    refuse_used(volume["vms"], want)
    refuse_shared(volume["hosts"], want)
    was = where(volume)
    if not steps:
        entries = look.entries(want["name"])
        if not discard:
            refuse_left(entries, want["name"])
        elif entries:
            was += f" with {listed(entries)}"
    return [*steps, {"op": "destroy", "target": want["name"], "was": was, "will": None, "discard": discard}]
