# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""VMFS and NFS datastores of an ESXi host: their state as plain data, a plan for each, and the calls that carry it out.

A datastore belongs to a testbed when a file in its root says so; unmounting keeps it, destroying needs that file.

State::

    {volumes: [{name, type: VMFS|NFS, uuid, naa: [..], remote, mounted, accessible, version, vms: [names]}],
     disks: {naa: {device, size_bytes, state}}}
"""

from __future__ import annotations

import json

from .esxi import STAMP_KEY, Session
from .failure import Failure, bad_value

STAMP_FILE = ".storlab.json"
VMFS_VERSIONS = (5, 6)


# ---------------------------------------------------------------- reading


def read(session: Session, host) -> dict:
    with session.doing("read the datastores"):
        storage = host.configManager.storageSystem
        info, volumes = storage.storageDeviceInfo, storage.fileSystemVolumeInfo
        vms = {}
        for store in host.datastore:
            vms[store.name] = [vm.name for vm in store.vm]
        found = []
        for entry in volumes.mountInfo or []:
            volume = entry.volume
            vmfs, nas = isinstance(volume, session.vim.host.VmfsVolume), isinstance(volume, session.vim.host.NasVolume)
            if not vmfs and not nas:
                continue
            found.append({
                "name": volume.name, "type": "VMFS" if vmfs else "NFS", "uuid": volume.uuid if vmfs else None,
                "naa": [plain_naa(extent.diskName) for extent in volume.extent] if vmfs else [],
                "remote": None if vmfs else f"{volume.remoteHost}:{volume.remotePath}", "version": volume.majorVersion if vmfs else None,
                "size_bytes": volume.capacity, "mounted": bool(entry.mountInfo.mounted), "accessible": bool(entry.mountInfo.accessible),
                "vms": vms.get(volume.name, [])})
        disks = {plain_naa(lun.canonicalName): {"device": lun.devicePath, "size_bytes": lun.capacity.block * lun.capacity.blockSize,
                                                "state": ",".join(lun.operationalState or [])}
                 for lun in info.scsiLun or [] if isinstance(lun, session.vim.host.ScsiDisk)}
        return {"volumes": found, "disks": disks}


def plain_naa(name: str) -> str:
    """'naa.6001…' as '6001…', which is how layers carry it; other names as they are."""
    return name[4:] if name.startswith("naa.") else name


def datastore(session: Session, host, name: str):
    with session.doing(f"find the datastore {name}"):
        return next((store for store in host.datastore if store.name == name), None)


def stamp_of(session: Session, host, name: str) -> str | None:
    """The testbed whose file lies in the datastore's root; None when there is no such file."""
    store = datastore(session, host, name)
    content = session.file("GET", store, STAMP_FILE) if store is not None else None
    if content is None:
        return None
    try:
        return json.loads(content)[STAMP_KEY]
    except (ValueError, KeyError, TypeError):
        return None


# ---------------------------------------------------------------- planning


def plan(state: dict, want: dict, stamp) -> list:
    """Steps for one datastore: [{op, target, was, will}].

    want: {name, type: vmfs|nfs, naa, version, server, path, state: present|unmounted|absent, testbed_id}.
    stamp: a function of the datastore's name that says which testbed's it is; asked only when that matters.
    """
    volume = next((volume for volume in state["volumes"] if volume["name"] == want["name"]), None)
    if want["state"] == "present":
        return _present_vmfs(state, want, volume, stamp) if want["type"] == "vmfs" else _present_nfs(want, volume)
    if volume is None:
        return []
    if not fits(volume, want):
        raise Failure("datastore_foreign", f"The datastore {want['name']} is another one: {where(volume)}.",
                      "Name the testbed's datastore; this one stays as it is.", name=want["name"])
    if volume["type"] == "NFS":
        return [{"op": "release_nfs", "target": want["name"], "was": "mounted", "will": None}]
    if want["state"] == "unmounted":
        return [{"op": "unmount", "target": want["name"], "was": "mounted", "will": "unmounted", "uuid": volume["uuid"]}] if volume["mounted"] else []
    return _destroy(volume, want, stamp)


def foreign(name: str, owner: str | None) -> Failure:
    return Failure("datastore_foreign", f"The datastore {name} does not carry this testbed's stamp" + (f" but that of {owner}." if owner else "."),
                   "It stays as it is; choose another name, or destroy it by hand if nobody needs it.", name=name, owner=owner)


def fits(volume: dict, want: dict) -> bool:
    if want["type"] == "nfs":
        return volume["remote"] == f"{want['server']}:{want['path']}"
    return want["naa"] is None or want["naa"] in volume["naa"]


def where(volume: dict) -> str:
    return f"NFS from {volume['remote']}" if volume["type"] == "NFS" else f"VMFS on {', '.join(volume['naa'])}"


def _present_nfs(want: dict, volume: dict | None) -> list:
    if volume is None:
        return [{"op": "create_nfs", "target": want["name"], "was": None, "will": f"NFS from {want['server']}:{want['path']}"}]
    if not fits(volume, want):
        raise Failure("datastore_name_taken", f"There is a datastore {want['name']} already: {where(volume)}.", "Choose another name.", name=want["name"])
    return []


def _present_vmfs(state: dict, want: dict, volume: dict | None, stamp) -> list:
    disk = state["disks"].get(want["naa"])
    if disk is None and want["check_mode"]:
        # Nothing is logged in to yet: the LUN would be there by now.
        return [{"op": "create_vmfs", "target": want["name"], "was": None, "will": f"VMFS {want['version']} on the LUN"}] if volume is None else []
    if disk is None or disk["state"] != "ok":
        raise Failure("lun_missing", f"The host has no working device {want['naa']} for the datastore {want['name']}.",
                      "Run iscsi_initiator first, and look whether the target exports the LUN to this host.", naa=want["naa"])
    create = {"op": "create_vmfs", "target": want["name"], "was": None, "will": f"VMFS {want['version']} on {want['naa']}", "device": disk["device"]}
    if volume is None:
        taken = next((other for other in state["volumes"] if want["naa"] in other["naa"]), None)
        if taken:
            raise Failure("device_in_use", f"The device {want['naa']} carries the datastore {taken['name']}.",
                          "Give the testbed a LUN of its own.", name=taken["name"])
        return [create]
    if not fits(volume, want):
        raise Failure("datastore_name_taken", f"There is a datastore {want['name']} already: {where(volume)}.", "Choose another name.", name=want["name"])
    if not volume["mounted"]:
        return [{"op": "mount", "target": want["name"], "was": "unmounted", "will": "mounted", "uuid": volume["uuid"]}]
    if not volume["accessible"]:
        # Name and device are the testbed's, and the device answers: the disk behind it is a new one, and what was on the old one is gone.
        return [{"op": "forget_lost", "target": want["name"], "was": "lost with its disk", "will": None}, create]
    owner = stamp(want["name"])
    if owner != want["testbed_id"]:
        raise foreign(want["name"], owner)
    return []


def _destroy(volume: dict, want: dict, stamp) -> list:
    steps = []
    if not volume["mounted"]:
        steps.append({"op": "mount", "target": want["name"], "was": "unmounted", "will": "mounted", "uuid": volume["uuid"]})
    elif volume["accessible"]:
        owner = stamp(want["name"])
        if owner != want["testbed_id"]:
            raise foreign(want["name"], owner)
    if volume["vms"]:
        raise Failure("datastore_in_use", f"Virtual machines lie on the datastore {want['name']}: {', '.join(sorted(volume['vms']))}.",
                      "Remove them first; the role guest_vm removes the testbed's.", name=want["name"], vms=sorted(volume["vms"]))
    return [*steps, {"op": "destroy", "target": want["name"], "was": where(volume), "will": None}]


# ---------------------------------------------------------------- doing


class Datastores:
    """Carries steps out, one call each."""

    def __init__(self, session: Session, host):
        self.session, self.host = session, host
        self.system, self.storage = host.configManager.datastoreSystem, host.configManager.storageSystem

    def apply(self, step: dict, want: dict) -> None:
        with self.session.doing(f"{step['op'].replace('_', ' ')} the datastore {want['name']}"):
            getattr(self, f"_{step['op']}")(step, want)

    def offer(self, step: dict, want: dict):
        """The host's own proposal for a VMFS on the whole device; changes nothing."""
        offers = self.system.QueryVmfsDatastoreCreateOptions(step["device"], want["version"])
        whole = [offer for offer in offers if isinstance(offer.info, self.session.vim.host.VmfsDatastoreOption.AllExtentInfo)]
        if not whole:
            raise Failure("device_unfit", f"The host offers no VMFS {want['version']} on {want['naa']}: it is too small, or it carries something already.",
                          "Give a blank LUN; ESXi wants at least 1.3 GiB.", naa=want["naa"])
        return whole[0].spec

    def _create_vmfs(self, step: dict, want: dict) -> None:
        spec = self.offer(step, want)
        spec.vmfs.volumeName = want["name"]
        store = self.system.CreateVmfsDatastore(spec)
        self.write_stamp(store, want)

    def write_stamp(self, store, want: dict) -> None:
        try:
            self.session.file("PUT", store, STAMP_FILE, json.dumps({STAMP_KEY: want["testbed_id"]}).encode())
        except Failure:
            # Without its stamp nobody could remove it again.
            self.system.RemoveDatastore(store)
            raise

    def _create_nfs(self, _step: dict, want: dict) -> None:
        spec = self.session.vim.host.NasVolume.Specification(remoteHost=want["server"], remotePath=want["path"], localPath=want["name"],
                                                             accessMode="readWrite", type="NFS")
        self.system.CreateNasDatastore(spec)

    def _mount(self, step: dict, want: dict) -> None:
        self.storage.MountVmfsVolume(step["uuid"])
        owner = stamp_of(self.session, self.host, want["name"])
        if owner != want["testbed_id"]:
            self.storage.UnmountVmfsVolume(step["uuid"])
            raise foreign(want["name"], owner)

    def _unmount(self, step: dict, _want: dict) -> None:
        self.storage.UnmountVmfsVolume(step["uuid"])

    def _remove(self, _step: dict, want: dict) -> None:
        store = datastore(self.session, self.host, want["name"])
        if store is not None:
            self.system.RemoveDatastore(store)

    _destroy = _release_nfs = _forget_lost = _remove


def layer_of(want: dict, volume: dict | None, parent: str | None) -> dict:
    """The datastore as a layer, without its host. Files on it are reached through guests only, so it has no path."""
    volume = volume or {}
    identity = {"naa": want["naa"], "uuid": volume.get("uuid"), "datastore": want["name"]}
    detail = {"provider": want["type"], "filesystem": f"VMFS {want['version']}" if want["type"] == "vmfs" else "NFS" if want["type"] == "nfs" else None,
              "compatibility": want.get("compatibility"), "remote": volume.get("remote")}
    return {"name": f"datastore-{want['name']}", "kind": "datastore", "path": None, "parent": parent, "purpose": "data", "size_bytes": volume.get("size_bytes"),
            "identity": {key: value for key, value in identity.items() if value}, "detail": {key: value for key, value in detail.items() if value}}


def check(entry: dict, layers: dict, variable: str, testbed_id: str, state: str, check_mode: bool = False) -> dict:
    """What is wanted of one datastore; raises bad_value. In check mode the layer may not be published yet."""
    kind = entry["type"]
    want = {"name": entry["name"], "type": kind, "version": entry["version"], "server": entry.get("server"), "path": entry.get("path"), "naa": None,
            "compatibility": entry.get("compatibility") if kind == "rdm" else None, "testbed_id": testbed_id, "state": state,
            "check_mode": check_mode}
    if not entry["name"] or len(entry["name"]) > 42 or set(entry["name"]) & set("/\\%"):
        raise bad_value(f"{variable} name", entry["name"], "Use 1 to 42 characters without / \\ and %.")
    if kind == "nfs":
        for key in ("server", "path"):
            if not entry.get(key):
                raise bad_value(f"{variable} {entry['name']} {key}", entry.get(key), "NFS datastores need server and path.")
        return want
    if kind == "vmfs" and entry["version"] not in VMFS_VERSIONS:
        raise bad_value(f"{variable} {entry['name']} version", entry["version"], "Use 5 or 6.")
    layer = layers.get(entry["layer"] or "")
    naa = (layer or {}).get("identity", {}).get("naa")
    if naa is None and state == "present" and not (check_mode and entry["layer"]):
        raise bad_value(f"{variable} {entry['name']} layer", entry["layer"],
                        "Name a layer of iscsi_initiator that has an NAA identifier; known are: " + (", ".join(sorted(layers)) or "none") + ".")
    want["naa"] = naa
    return want
