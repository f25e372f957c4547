# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A virtual machine of an ESXi host, read as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..core.failure import Failure
from ..core.names import plain_naa
from . import belongings, scsi
from .datastore import on_disks
from .machine_plan import BUILDING_KEY
from .session import STAMP_KEY, Session
from .states import HostSystem, MachineFacts, MachineState, VirtualMachine

# Steps that are parts of one and the same reconfiguration.
CONFIGURED = (
    "guest_id",
    "vcpus",
    "memory_mib",
    "reserve_memory",
    "disk_uuids",
    "add_disk",
    "add_cdrom",
    "mount_iso",
    "add_nic",
    "replace_nic",
    "move_nic",
    "extra_config",
    "record_disks",
    "detach",
    "eject",
    "delete_disk",
)
CONTROLLER_TYPES = {
    "lsilogic": "VirtualLsiLogicController",
    "pvscsi": "ParaVirtualSCSIController",
    "lsisas": "VirtualLsiLogicSASController",
    "buslogic": "VirtualBusLogicController",
    "ide": "VirtualIDEController",
    "nvme": "VirtualNVMEController",
    "sata": "VirtualAHCIController",
}
NIC_TYPES = {"vmxnet3": "VirtualVmxnet3", "e1000e": "VirtualE1000e", "e1000": "VirtualE1000"}
# Devices with a file other than disks and CD-ROM drives, in a user's words.
FILE_KINDS = {
    "VirtualFloppy": "floppy image",
    "VirtualSerialPort": "file of a serial port",
    "VirtualParallelPort": "file of a parallel port",
    "VirtualNVDIMM": "persistent memory",
}
MODES = {"physicalMode": "physical", "virtualMode": "virtual"}


def find(session: Session, host: HostSystem, name: str) -> Any:
    """(the virtual machine of that name or None, whether it is on this host). One on this host goes before others."""
    with session.doing(f"look for the virtual machine {name}"):
        named = [
            (vm, values.get("runtime.host") == host)
            for vm, values in session.all(session.vim.VirtualMachine, "name", "runtime.host")
            if values.get("name") == name
        ]
    return max(named, key=lambda each: each[1], default=(None, False))


def read(session: Session, host: HostSystem, vm: VirtualMachine) -> MachineState:
    """Its state, see module_utils/esxi/machine_plan.py."""
    with session.doing("read the virtual machine"):
        config, runtime = vm.config, vm.runtime
        if config is None:
            raise Failure(
                "vm_unreadable",
                f"The host cannot read the configuration of the virtual machine {vm.name}, so that nothing proves whose it is.",
                "Make its datastore accessible again, or remove it from the host's inventory by hand.",
                name=vm.name,
            )
        extra = {option.key: str(option.value) for option in config.extraConfig}
        # Parts that a machine does not have are left out.
        more = session.properties(vm, "snapshot", "layoutEx")
        parts = hardware(session, host, config, config.hardware.device)
        # '[name] path'; a datastore that is not there at all is lost as well.
        files = [
            config.files.vmPathName,
            *(disk["path"] for disk in parts["disks"]),
            *(drive["iso"] for drive in parts["cdroms"]),
        ]
        there = {
            values["name"]
            for _store, values in session.all(session.vim.Datastore, "name", "summary.accessible")
            if values["summary.accessible"]
        }
        lost = sorted({file[1:].partition("] ")[0] for file in files if file and file.startswith("[")} - there)
        gone = (
            str(runtime.connectionState) in ("inaccessible", "orphaned", "invalid")
            or config.files.vmPathName[1:].partition("] ")[0] in lost
        )
        power = {"poweredOn": "on", "poweredOff": "off"}.get(str(runtime.powerState), "suspended")
        state: MachineState = {
            "power": power,
            "owner": extra.get(STAMP_KEY),
            "building": BUILDING_KEY in extra,
            "accessible": not gone,
            "lost": lost,
            "path": config.files.vmPathName,
            "uuid": config.uuid,
            "extra": extra,
            "snapshots": _snapshots(session.vim, more.get("snapshot")),
            "layout": [
                {"path": file.name, "type": file.type} for file in getattr(more.get("layoutEx"), "file", None) or []
            ],
            "folder": [],
        }
        state.update(cast(MachineState, parts))
        return state


def _snapshots(vim: Any, taken: Any) -> list[Any]:
    snapshots, left = [], list(taken.rootSnapshotList) if taken else []
    while left:
        item = left.pop(0)
        left += item.childSnapshotList or []
        disks = [
            {"uuid": getattr(device.backing, "uuid", None), "chain": _chain(device.backing)}
            for device in item.snapshot.config.hardware.device
            if isinstance(device, vim.vm.device.VirtualDisk)
        ]
        snapshots.append({"name": item.name, "disks": disks})
    return snapshots


def look_beside(session: Session, vm: VirtualMachine, state: MachineState) -> MachineState:
    """The state with the names of everything in the machine's folder; as it is when that cannot be reached."""
    folder = belongings.folder_of(state["path"])
    if not state["accessible"] or not folder:
        return state
    with session.doing(f"look into the folder {folder}"):
        store = next(store for store in vm.datastore if folder.startswith(f"[{store.name}] "))
    return {**state, "folder": listing(session, store, folder) or []}


def listing(session: Session, store: Any, folder: str) -> list[str] | None:
    """The contents of a folder '[store] path'; None when there is none."""
    what = f"look into the folder {folder}"
    with session.doing(what):
        spec = session.vim.host.DatastoreBrowser.SearchSpec(matchPattern=["*"])
        task = store.browser.SearchDatastore_Task(datastorePath=folder, searchSpec=spec)
    try:
        return [file.path for file in session.wait(task, what).file or []]
    except Failure as failure:
        if "FileNotFound" in str(failure.details.get("fault")):
            return None
        raise


def hardware(session: Session, host: HostSystem, config: Any, devices: Any) -> dict[str, Any]:
    """The part of a state that says what a machine consists of. config: its own, or a specification of one to come."""
    vim = session.vim
    kinds = [(kind, getattr(vim.vm.device, name)) for kind, name in CONTROLLER_TYPES.items()]
    controllers = [
        {"key": device.key, "kind": kind, "bus": device.busNumber}
        for device in devices
        for kind, its in kinds
        if type(device) is its
    ]
    by_key = {each["key"]: each for each in controllers}
    names = (
        {**{lun.uuid: plain_naa(lun.canonicalName) for lun in _luns(session, host)}}
        if any(_is_raw(vim, device) for device in devices)
        else {}
    )
    disks, cdroms, nics, files = [], [], [], []
    for device in devices:
        at = by_key.get(device.controllerKey)
        spot = {
            "key": device.key,
            "controller": at["kind"] if at else "unknown",
            "bus": at["bus"] if at else -1,
            "unit": device.unitNumber,
        }
        if isinstance(device, vim.vm.device.VirtualDisk):
            disks.append({**spot, **_disk(vim, device, names)})
        elif isinstance(device, vim.vm.device.VirtualCdrom):
            cdroms.append({**spot, "iso": getattr(device.backing, "fileName", None)})
        elif isinstance(device, vim.vm.device.VirtualEthernetCard):
            kind = next(
                (kind for kind, name in NIC_TYPES.items() if type(device) is getattr(vim.vm.device, name)),
                type(device).__name__.rsplit(".", 1)[-1],
            )
            nics.append({"key": device.key, "type": kind, "network": _network_of(host, device)})
        elif isinstance(device.backing, vim.vm.device.VirtualDevice.FileBackingInfo) and device.backing.fileName:
            kind = type(device).__name__.rsplit(".", 1)[-1]
            files.append({"key": device.key, "kind": FILE_KINDS.get(kind, kind), "path": device.backing.fileName})
    own = getattr(config, "hardware", config)
    allocation = config.memoryAllocation
    return {
        "guest_id": config.guestId,
        "vcpus": getattr(own, "numCPU", None) or config.numCPUs,
        "memory_mib": own.memoryMB,
        "locked": bool(config.memoryReservationLockedToMax),
        "reservation_mib": (allocation.reservation if allocation else None) or 0,
        "controllers": controllers,
        "disks": disks,
        "cdroms": cdroms,
        "nics": nics,
        "files": files,
    }


def usable_address(reported: str | None) -> str | None:
    """The address that a guest reports, unless it is link-local or loopback."""
    return reported if reported and not reported.lower().startswith(("fe80:", "169.254.", "127.", "::1")) else None


def _luns(session: Session, host: HostSystem) -> list[Any]:
    return [lun for lun in scsi.Devices(session, host, "luns").luns if lun.lunType == "disk"]


def _is_raw(vim: Any, device: Any) -> bool:
    return isinstance(device.backing, vim.vm.device.VirtualDisk.RawDiskMappingVer1BackingInfo)


def _disk(vim: Any, device: Any, names: Mapping[str, object]) -> dict[str, object]:
    backing, raw = device.backing, _is_raw(vim, device)
    provisioning = None
    if not raw:
        thin = getattr(backing, "thinProvisioned", None)
        provisioning = "thin" if thin else "eager" if getattr(backing, "eagerlyScrub", None) else "lazy"
    return {
        "size_bytes": device.capacityInBytes or device.capacityInKB * 1024,
        "provisioning": provisioning,
        "uuid": getattr(backing, "uuid", None) or None,
        "path": getattr(backing, "fileName", None),
        "chain": _chain(backing),
        "naa": names.get(backing.lunUuid) or plain_naa((backing.deviceName or "").rsplit("/", 1)[-1]) if raw else None,
        "compatibility": MODES.get(backing.compatibilityMode) if raw else None,
    }


def _chain(backing: object) -> list[str]:
    """The file of a disk and those below it, which it has from its snapshots."""
    paths = []
    while backing is not None:
        paths.append(getattr(backing, "fileName", None))
        backing = getattr(backing, "parent", None)
    return [path for path in paths if path]


def _network_of(host: HostSystem, card: Any) -> str | None:
    port = getattr(card.backing, "port", None)
    if port is None:
        return getattr(card.backing, "deviceName", None)
    return next((network.name for network in host.network if getattr(network, "key", None) == port.portgroupKey), None)


def read_facts(session: Session, host: HostSystem, naas: Sequence[str]) -> MachineFacts:
    """The offer of the host, see module_utils/esxi/machine_plan.py. naas: the LUNs that are to be mapped; only these are looked at."""
    vim = session.vim
    with session.doing("read what the host offers"):
        mine = host.datastore
        stores = {
            values["name"]: {"free_bytes": values["summary.freeSpace"], "accessible": values["summary.accessible"]}
            for store, values in session.all(vim.Datastore, "name", "summary.freeSpace", "summary.accessible")
            if store in mine
        }
        facts: MachineFacts = {
            "datastores": stores,
            "networks": [network.name for network in host.network],
            "luns": {},
        }
        if not naas:
            return facts
        volumes = {
            plain_naa(extent.diskName): entry.volume.name
            for entry in host.configManager.storageSystem.fileSystemVolumeInfo.mountInfo or []
            for extent in getattr(entry.volume, "extent", None) or []
        }
        users: dict[str, Any] = {}
        for _vm, values in session.all(vim.VirtualMachine, "name", "config.hardware.device"):
            for device in values.get("config.hardware.device", []):
                if isinstance(device, vim.vm.device.VirtualDisk) and _is_raw(vim, device):
                    users.setdefault(device.backing.lunUuid, []).append(values["name"])
        known = {plain_naa(lun.canonicalName): lun for lun in _luns(session, host)}
        working = {naa: lun for naa, lun in known.items() if naa in naas and scsi.works(scsi.state_of(lun))}
        proofs = on_disks(session, host, {naa: lun.devicePath for naa, lun in working.items()})
        offered = _mappable(host) if working else set()
        for naa, lun in working.items():
            mapped: Any = {
                "size_bytes": lun.capacity.block * lun.capacity.blockSize,
                "device": lun.deviceName,
                "uuid": lun.uuid,
                "volume": volumes.get(naa),
                "users": users.get(lun.uuid, []),
                "offered": naa in offered,
                **proofs[naa],
            }
            facts["luns"][naa] = mapped
        return facts


def _mappable(host: HostSystem) -> set[str]:
    """The devices that the host offers for raw mappings."""
    target = host.parent.environmentBrowser.QueryConfigTarget(host)
    disks = [each.disk for each in (target.scsiDisk if target else None) or []]
    return {plain_naa(disk.canonicalName) for disk in disks if disk}


def stamped(vm: VirtualMachine, testbed_id: str) -> bool:
    """Whether the testbed made this virtual machine. One that the host cannot read has no configuration."""
    options = vm.config.extraConfig if vm.config else []
    return any(option.key == STAMP_KEY and option.value == testbed_id for option in options)


def ours(host: HostSystem, testbed_id: str) -> dict[str, list[str]]:
    """The lines of a host's state of what the testbed made, by the sections that say whose things are (linux/watch/leftovers.py)."""
    machines = [vm.name for vm in host.vm if stamped(vm, testbed_id)] if testbed_id else []
    return {"virtual machines": sorted(machines)} if testbed_id else {}
