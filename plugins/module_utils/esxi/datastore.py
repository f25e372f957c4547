# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VMFS and NFS datastores of an ESXi host: their state as plain data, and the calls that carry out the plan (datastore_plan.py).

A datastore belongs to a testbed when a file in its root says so; unmounting keeps it, destroying needs that file, and that nothing of others is there: no
machine, no other file, no host that is not of the testbed. Where the file cannot be read the controller's record of the volume's UUID replaces it, and
then nothing is destroyed: the host only forgets what it has lost. What a call has left that was cut carries no stamp yet: there the intention replaces it
(intentions.py), as long as nothing is on the volume.

A disk is blank when three things say so: the host names it as available, its partition table is empty, and it carries no copy of a VMFS. That the host offers a
VMFS on the whole of it says nothing: it does so for disks that hold data, which would be overwritten. None of the three sees a file system that is on the
disk without a partition table. Where this testbed's own target has exported the LUN, that has looked; else the user must name the device.

State::

    {volumes: [{name, type: VMFS|NFS, uuid: of NFS one of our own making, naa: [..], remote, mounted, accessible, reason: why it is not accessible, version,
                vms: [names of all registered machines], vms_here: [machines of this host], hosts: [names of the other hosts that mount it]}],
     disks: {naa: {device, size_bytes, state, and where they matter: available: bool, partitions: ['1 vmfs'] | None = unreadable,
                   unresolved: name of the VMFS of which it has a copy | None}}}
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.layers import Layer
from ..core.names import plain_naa
from ..core.steps import Step
from . import scsi
from .datastore_contents import HA_FOLDER, STAMP_FILE, Contents, datastore, refuse_left, stores_of
from .datastore_plan import fits, foreign, refuse_contents, refuse_taken
from .params import DatastoresDatastoreOption
from .session import STAMP_KEY, Session
from .states import HostSystem, Store, StoreDisk, StoresState, StoreWant, Volume

VMFS_VERSIONS = (5, 6)
RELEASE_PATIENCE_S, RELEASE_POLL_S = 120.0, 1.0


# ---------------------------------------------------------------- reading


def read(session: Session, host: HostSystem, names: Any = (), naas: Any = ()) -> StoresState:
    """The state. names, naas: the datastores and devices that matter; what is on the disks of others is not asked for."""
    with session.doing("read the datastores"):
        storage = host.configManager.storageSystem
        devices, volumes = scsi.Devices(session, host, "luns"), storage.fileSystemVolumeInfo
        machines = {
            vm: (values["name"], values.get("runtime.host") == host)
            for vm, values in session.all(session.vim.VirtualMachine, "name", "runtime.host")
        }
        stores = {
            values["name"]: values for _store, values in stores_of(session, host, "name", "vm", "host", "summary")
        }
        vms = {name: [machines[vm] for vm in values.get("vm", []) if vm in machines] for name, values in stores.items()}
        hosts = {each: values["name"] for each, values in session.all(session.vim.HostSystem, "name")}
        described: list[Volume] = []
        for entry in volumes.mountInfo or []:
            volume = entry.volume
            vmfs, nas = isinstance(volume, session.vim.host.VmfsVolume), isinstance(volume, session.vim.host.NasVolume)
            if not vmfs and not nas:
                continue
            described.append(
                {
                    "name": volume.name,
                    "type": "VMFS" if vmfs else "NFS",
                    "uuid": volume.uuid if vmfs else f"nfs {volume.remoteHost}:{volume.remotePath}",
                    "naa": [plain_naa(extent.diskName) for extent in volume.extent] if vmfs else [],
                    "remote": None if vmfs else f"{volume.remoteHost}:{volume.remotePath}",
                    "version": volume.majorVersion if vmfs else None,
                    "size_bytes": volume.capacity,
                    "mounted": bool(entry.mountInfo.mounted),
                    "accessible": bool(entry.mountInfo.accessible),
                    "reason": entry.mountInfo.inaccessibleReason or "",
                    "vms": sorted(name for name, _here in vms.get(volume.name, [])),
                    "vms_here": sorted(name for name, here in vms.get(volume.name, []) if here),
                    "hosts": mounting(stores.get(volume.name, {}).get("host", []), hosts, host),
                }
            )
        disks: dict[str, StoreDisk] = {
            plain_naa(lun.canonicalName): {
                "device": lun.devicePath,
                "size_bytes": lun.capacity.block * lun.capacity.blockSize,
                "state": scsi.state_of(lun),
            }
            for lun in devices.luns
            if isinstance(lun, session.vim.host.ScsiDisk)
        }
        concerned = {*naas, *(naa for volume in described if volume["name"] in names for naa in volume["naa"])}
        working = {
            naa: disks[naa]["device"] for naa in sorted(concerned & set(disks)) if scsi.works(disks[naa]["state"])
        }
        for naa, facts in on_disks(session, host, working).items():
            disks[naa].update(facts)
        return {
            "volumes": described,
            "disks": disks,
            "stores": {name: offered(values["summary"]) for name, values in stores.items() if "summary" in values},
        }


def offered(summary: Any) -> Store:
    """A datastore as its summary describes it."""
    return {
        "type": summary.type,
        "accessible": bool(summary.accessible),
        "size_bytes": summary.capacity,
        "free_bytes": summary.freeSpace,
    }


def on_disks(session: Session, host: HostSystem, devices: dict[str, Any]) -> dict[str, Any]:
    """{naa: {available, partitions, unresolved}} of devices, {naa: path}: what the host knows of their contents."""
    if not devices:
        return {}
    storage = host.configManager.storageSystem
    free = {
        plain_naa(disk.canonicalName) for disk in host.configManager.datastoreSystem.QueryAvailableDisksForVmfs() or []
    }
    copies = {
        plain_naa(extent.device.diskName): volume.vmfsLabel
        for volume in storage.QueryUnresolvedVmfsVolume() or []
        for extent in volume.extent
    }
    return {
        naa: {
            "available": naa in free,
            "partitions": _partitions(session, storage, path),
            "unresolved": copies.get(naa),
        }
        for naa, path in devices.items()
    }


def _partitions(session: Session, storage: Any, path: str) -> list[Any] | None:
    try:
        tables = storage.RetrieveDiskPartitionInfo([path]) or []
    except (session.vim.fault.NotFound, session.vim.fault.HostConfigFault):
        return None
    if len(tables) != 1:
        return None
    listed = {(part.partition, part.type) for part in tables[0].spec.partition or []}
    laid_out = {(part.partition, part.type) for part in tables[0].layout.partition or [] if part.type != "none"}
    return [f"{number} {kind}" for number, kind in sorted(listed | laid_out)]


def mounting(mounts: list[Any], names: dict[Any, str], host: HostSystem) -> list[str]:
    """The other hosts that mount a datastore. mounts: what it says of its hosts. names: of hosts, by object; of one that is not shown, its own word for it."""
    return sorted(
        names.get(mount.key) or str(mount.key).strip("'")
        for mount in mounts
        if mount.key != host and mount.mountInfo.mounted is not False
    )


def behind(state: StoresState, want: StoreWant) -> bool:
    """Whether what the host shows of its volumes is behind what is on the device, because another host has made a volume there, or destroyed it.

    want: {type, name, naa}. Without naa, which a teardown may not know, the devices of the datastore of that name are looked at.
    """
    if want["type"] != "vmfs":
        return False
    if want["naa"] is None:
        naas = {naa for volume in state["volumes"] if volume["name"] == want["name"] for naa in volume["naa"]}
        return any(behind(state, {**want, "naa": naa}) for naa in naas)
    disk = state["disks"].get(want["naa"])
    if disk is None or "partitions" not in disk:
        return False
    volumes = [volume for volume in state["volumes"] if want["naa"] in volume["naa"]]
    if not volumes:
        return any("vmfs" in part for part in disk["partitions"] or []) and not disk["unresolved"]
    # A table that is blank, or cannot be read, and a volume that can be reached do not go together.
    return not disk["partitions"] and any(volume["mounted"] and volume["accessible"] for volume in volumes)


def rescanned(session: Session, host: HostSystem, names: list[str], wait_s: float) -> StoresState:
    """The state after a rescan that shows what has become of the datastores of these names: lost with a disk, or back."""
    storage = host.configManager.storageSystem
    with session.doing("rescan for lost datastores"), session.patient():
        storage.RescanAllHba()
        storage.RescanVmfs()

    def any_behind(state: StoresState) -> bool:
        return any(behind(state, {"type": "vmfs", "name": name, "naa": None}) for name in names)

    state: StoresState = session.until(lambda: read(session, host, names), lambda state: not any_behind(state), wait_s)
    return state


def visible(state: StoresState, want: StoreWant) -> bool:
    """Whether the host shows a datastore as it is wanted; it shows a change a while after the call that made it."""
    volume = next(
        (volume for volume in state["volumes"] if volume["name"] == want["name"] and fits(volume, want)), None
    )
    if want["state"] == "present":
        return volume is not None and bool(volume["mounted"] and volume["accessible"])
    return volume is None or (want["state"] == "unmounted" and volume["type"] == "VMFS" and not volume["mounted"])


# ---------------------------------------------------------------- doing


class Datastores:
    """Carries steps out, one call each."""

    def __init__(self, session: Session, host: HostSystem, intentions: Any) -> None:
        self.session, self.host, self.look = session, host, Contents(session, host)
        self.intentions = intentions
        self.system, self.storage = host.configManager.datastoreSystem, host.configManager.storageSystem
        self.calls: dict[str, Callable[[Step, StoreWant], object]] = {
            "create_vmfs": self._create_vmfs,
            "create_nfs": self._create_nfs,
            "stamp": self._stamp,
            "mount": self._mount,
            "unmount": self._unmount,
            "release": self._release,
            "destroy": self._destroy,
            "release_nfs": self._remove,
        }

    def apply(self, step: Step, want: StoreWant) -> None:
        try:
            with self.session.doing(f"{step['op'].replace('_', ' ')} the datastore {want['name']}"):
                self.calls[step["op"]](step, want)
        except Failure as failure:
            if failure.code == "in_use" and self._used_by_ha(want["name"]):
                raise Failure(
                    "datastore_in_use",
                    f"The datastore {want['name']} is in use, and vSphere HA has files on it.",
                    "Choose other heartbeat datastores in the cluster's settings of vSphere HA, and run again.",
                    name=want["name"],
                ) from None
            raise

    def _used_by_ha(self, name: str) -> bool:
        try:
            return self.look.has(name, HA_FOLDER)
        except Failure:
            return False

    def rescan(self) -> None:
        with self.session.doing("look for datastores"), self.session.patient():
            self.storage.RescanVmfs()

    def offer(self, step: Step, want: StoreWant) -> Any:
        """The host's own proposal for a VMFS on the whole device; changes nothing."""
        offers = self.versions_offered(step["device"], want["version"])
        whole = self.whole(offers)
        if not whole:
            raise self.not_offered(step, want)
        return whole[0].spec

    def refuse_unoffered(self, step: Step, want: StoreWant) -> None:
        """Raises the Failure of a device that the host does not offer for a VMFS."""
        self.offer(step, want)

    def whole(self, offers: Any) -> list[Any]:
        kind = self.session.vim.host.VmfsDatastoreOption.AllExtentInfo
        return [offer for offer in offers if isinstance(offer.info, kind)]

    def not_offered(self, step: Step, want: StoreWant) -> Failure:
        """Why a host proposes no VMFS on a device: it makes another version only, or none there."""
        for other in VMFS_VERSIONS:
            if other != want["version"] and self.whole(self.versions_offered(step["device"], other)):
                return Failure(
                    "version_not_offered",
                    f"{self.session.about['product']} offers VMFS {other} on {want['naa']}, and no VMFS {want['version']}.",
                    f"Set version to {other} for the datastore {want['name']}.",
                    naa=want["naa"],
                    offered=other,
                )
        return Failure(
            "device_unfit",
            f"The host offers no VMFS {want['version']} on the whole of {want['naa']}: it may be too small.",
            "Give a larger LUN; ESXi wants at least 1.3 GiB.",
            naa=want["naa"],
        )

    def versions_offered(self, device: str, version: int) -> Any:
        try:
            return self.system.QueryVmfsDatastoreCreateOptions(device, version)
        except self.session.vmodl.fault.InvalidArgument:
            return []

    def _create_vmfs(self, step: Step, want: StoreWant) -> None:
        # Looked at once more: between plan and now another host may have made something of it.
        disk = on_disks(self.session, self.host, {want["naa"]: step["device"]})[want["naa"]]
        refuse_taken(disk, want)
        refuse_contents(disk, want)
        spec = self.offer(step, want)
        spec.vmfs.volumeName = want["name"]
        with self._intended(want), self.session.patient():
            store = self.system.CreateVmfsDatastore(spec)
        try:
            self._write_stamp(store, want)
        except Failure:
            # Without its stamp no teardown could remove it again.
            self.system.RemoveDatastore(store)
            self.intentions.drop(want["name"])
            raise

    @contextlib.contextmanager
    def _intended(self, want: StoreWant) -> Iterator[None]:
        """Around a call that makes something. When the host refuses it nothing comes of it; when its answer does not come, something may."""
        self.intentions.keep(want)
        try:
            yield
        except self.session.vmodl.MethodFault:
            self.intentions.drop(want["name"])
            raise

    def _write_stamp(self, store: object, want: StoreWant) -> None:
        self.session.file("PUT", store, STAMP_FILE, json.dumps({STAMP_KEY: want["testbed_id"]}).encode())

    def _stamp(self, _step: Step, want: StoreWant) -> None:
        self._write_stamp(datastore(self.session, self.host, want["name"]), want)

    def _create_nfs(self, _step: Step, want: StoreWant) -> None:
        spec = self.session.vim.host.NasVolume.Specification(
            remoteHost=want["server"],
            remotePath=want["path"],
            localPath=want["name"],
            accessMode="readWrite",
            type="NFS",
        )
        with self._intended(want):
            self.system.CreateNasDatastore(spec)

    def _mount(self, step: Step, want: StoreWant) -> None:
        self.storage.MountVmfsVolume(step["uuid"])
        try:
            owner = self.look.stamp(want["name"])
            if owner != want["testbed_id"]:
                raise foreign(want["name"], owner)
            if want["state"] == "absent" and not want["discard"]:
                refuse_left(self.look.entries(want["name"]), want["name"])
        except Failure:
            self.storage.UnmountVmfsVolume(step["uuid"])
            raise

    def _unmount(self, step: Step, _want: StoreWant) -> None:
        self.storage.UnmountVmfsVolume(step["uuid"])

    def _release(self, step: Step, want: StoreWant) -> None:
        """Unmount what is lost with its device; a rescan then makes the host forget it. Nothing is written to any device."""
        if step["mounted"]:
            self.storage.UnmountVmfsVolume(step["uuid"])
        deadline = time.monotonic() + RELEASE_PATIENCE_S
        while True:
            with self.session.patient():
                self.storage.RescanAllHba()
                self.storage.RescanVmfs()
            known = [entry.volume for entry in self.storage.fileSystemVolumeInfo.mountInfo or []]
            if step["uuid"] not in {getattr(volume, "uuid", None) for volume in known}:
                return
            if time.monotonic() > deadline:
                raise Failure(
                    "datastore_stays",
                    f"The host still lists the datastore {want['name']}, which is unmounted and lost with its device.",
                    "Unregister the remaining machines and templates on it, rescan, and run again.",
                    name=want["name"],
                )
            time.sleep(RELEASE_POLL_S)

    def _destroy(self, step: Step, want: StoreWant) -> None:
        # Looked at once more: between plan and now somebody may have put something there.
        if not step["discard"]:
            refuse_left(self.look.entries(want["name"]), want["name"])
        self._remove(step, want)

    def _remove(self, _step: Step, want: StoreWant) -> None:
        store = datastore(self.session, self.host, want["name"])
        if store is not None:
            with self.session.patient():
                self.system.RemoveDatastore(store)


def layer_of(want: StoreWant, volume: Volume | None, parent: str | None, store: Store | None = None) -> Layer:
    """The datastore as a layer, without its host. Files on it are reached through guests only, so it has no path.

    store: one of type existing as the host offers it.
    """
    existing = want["type"] == "existing"
    kind = str(store["type"]) if store else ""
    vmfs = want["type"] == "vmfs" or bool(existing and volume and volume["type"] == "VMFS")
    nfs = want["type"] == "nfs" or bool(existing and volume and volume["type"] == "NFS")
    uuid = volume["uuid"] if volume and vmfs else None
    version = volume["version"] if existing and volume else want["version"]
    # A VMFS on one disk is on that one; link() proves by it that a layer of another host is the same disk.
    disks = volume["naa"] if existing and volume and vmfs else []
    naa = disks[0] if len(disks) == 1 else want["naa"]
    identity = {"naa": naa, "uuid": uuid, "datastore": want["name"]}
    detail = {
        "provider": want["type"],
        "generation": want.get("generation"),
        "filesystem": f"VMFS {version}" if vmfs else "NFS" if nfs else kind,
        "compatibility": want.get("compatibility"),
        "remote": volume["remote"] if volume else None,
    }
    return {
        "name": f"datastore-{want['name']}",
        "kind": "datastore",
        "path": None,
        "parent": parent,
        # Guests have disks on it only where the user says so.
        "purpose": "read" if existing and want["access"] == "read" else "data",
        "size_bytes": volume["size_bytes"] if volume else store["size_bytes"] if store else None,
        "identity": {key: value for key, value in identity.items() if value},
        "detail": {key: value for key, value in detail.items() if value},
    }


def remembered(
    recorded: dict[str, Any], wanted: list[StoreWant], state: StoresState, made: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The record after a run, {uuid: {name, naa, layer}}: what is there now of the datastores that are wanted, and the others as they were.

    made: names of those that this run has made. An NFS datastore carries no stamp, so that it is ours only when we made it.
    """
    wants = {want["name"]: want for want in wanted if want["type"] not in ("rdm", "existing")}
    kept = {uuid: known for uuid, known in recorded.items() if known["name"] not in wants}
    for volume in state["volumes"]:
        want, known = wants.get(volume["name"]), recorded.get(volume["uuid"])
        if not want or (volume["type"] == "NFS") != (want["type"] == "nfs"):
            continue
        # That a datastore is this testbed's was proven only where it was to be present.
        proven = want["state"] == "present" and (want["type"] == "vmfs" or want["name"] in made)
        if known or proven:
            layer = want["layer"] or (known or {}).get("layer")
            kept[volume["uuid"]] = {"name": volume["name"], "naa": volume["naa"], "layer": layer}
    return kept


NAME_RULE = "1 to 42 characters without / \\ and %"


def is_name(text: str) -> bool:
    """Whether a datastore of an ESXi host may have this name."""
    return 0 < len(text) <= 42 and not set(text) & set("/\\%")


def check(
    entry: DatastoresDatastoreOption,
    layers: dict[str, Layer],
    variable: str,
    testbed_id: str,
    state: str,
    check_mode: bool = False,
    allow_device: Sequence[str] = (),
    discard_contents: bool = False,
    hosts: Sequence[str] = (),
    remembers: bool = False,
) -> StoreWant:
    """The parameters of one datastore; raises bad_value. In check mode the layer may not be published yet.

    allow_device: devices that may be overwritten whatever is on them, by identifier or path. hosts: names of the hosts that may mount it beside this one.
    remembers: whether there is a record of what this testbed has made.
    """
    kind = entry["type"]
    want: StoreWant = {
        "name": entry["name"],
        "type": kind,
        "access": entry.get("access", "read"),
        "version": entry["version"],
        "server": entry.get("server"),
        "path": entry.get("path"),
        "naa": None,
        "compatibility": entry.get("compatibility") if kind == "rdm" else None,
        "testbed_id": testbed_id,
        "state": state,
        "layer": entry["layer"],
        "allowed": False,
        "exported": False,
        "discard": discard_contents,
        "hosts": list(hosts),
        "remembers": remembers,
        "check_mode": check_mode,
    }
    if not is_name(entry["name"]):
        raise bad_value(f"{variable} name", entry["name"], f"Use {NAME_RULE}.")
    if kind == "nfs":
        for key in ("server", "path"):
            if not entry.get(key):
                raise bad_value(
                    f"{variable} {entry['name']} {key}", entry.get(key), "NFS datastores need server and path."
                )
        return want
    if kind == "existing":
        return want
    if kind == "vmfs" and entry["version"] not in VMFS_VERSIONS:
        raise bad_value(f"{variable} {entry['name']} version", entry["version"], "Use 5 or 6.")
    layer = layers.get(entry["layer"] or "")
    naa = (layer or {}).get("identity", {}).get("naa")
    want["generation"] = ((layer or {}).get("detail") or {}).get("generation")
    if naa is None and state == "present" and not (check_mode and entry["layer"]):
        raise bad_value(
            f"{variable} {entry['name']} layer",
            entry["layer"],
            "Name a layer of iscsi_initiator whose LUN has an NAA, EUI or T10 identifier; known are: "
            + (", ".join(sorted(layers)) or "none")
            + ".",
        )
    want["naa"] = naa
    want["exported"] = exported(layer, layers)
    want["allowed"] = naa is not None and naa in {plain_naa(name.rsplit("/", 1)[-1]) for name in allow_device}
    return want


def exported(layer: Layer | None, layers: dict[str, Layer]) -> bool:
    """Whether a LUN is what this testbed's own target has published: the one below its layer, with the same place at the same target."""
    beneath = layers.get((layer or {}).get("parent") or "")
    if not layer or not beneath or beneath.get("kind") != "target":
        return False
    place, own = ((each["identity"].get("target_iqn"), each["identity"].get("lun")) for each in (layer, beneath))
    return place == own and None not in place
