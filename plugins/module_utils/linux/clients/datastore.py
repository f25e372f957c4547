# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Datastores: file systems of the testbed on its LUNs, known by UUIDs derived from the testbed and the datastore's name, and such file systems of
another host over NFS (nfs_mount.py)."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
from typing import Any

from ...core import converge
from ...core.failure import Failure
from ...core.files import naming
from ...core.layers import Layer
from ...core.names import benchmark_files, check_testbed_id
from ...core.steps import Step, diff_of
from .. import mounts
from ..disks import block_device, device_safety, nfs_volumes
from ..host import load_module, loaded_modules, read_text, run, wait_for
from ..nouns import Mount, Store
from ..record import NFS_MODULES, Record
from ..watch import probe
from . import benchmark_file, nfs_mount
from .benchmark_file import MIB
from .datastore_plan import (
    FILE,
    PARTIAL,
    foreign_entries,
    impossible,
    layers_of,
    mount_point_used,
    plan,
    refuse_not_empty,
    resolve,
)
from .filesystem import read_superblock

# EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN are one number; 2 = write nothing any more, not even the journal.
SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
BLKFLSBUF = 0x1261


class Datastores:
    """The datastores of one testbed on this host."""

    def __init__(self, testbed_id: str) -> None:
        self.testbed_id = testbed_id
        self.record = Record(testbed_id, "datastore")

    @staticmethod
    def mount_of(mount_point: str) -> Mount | None:
        return mounts.mounted_at(mounts.read(), mount_point)

    def current(self, wanted: Store) -> dict[str, Any]:
        if wanted["filesystem"] == "nfs":
            return self._current_over_nfs(wanted)
        device = os.path.realpath(wanted["device"])
        mounted, numbers = self.mount_of(wanted["mount_point"]), block_device.device_numbers(device)
        if numbers is None:
            raise Failure(
                "device_missing",
                f"{wanted['device']} of datastore {wanted['name']} is not a block device.",
                "Build the layer below again.",
                device=wanted["device"],
            )
        file_bytes = _file_bytes(wanted) if mounted else None
        recorded = self.record.data.get("datastores", {}).get(wanted["name"], {})
        if mounted and not recorded and mounted["numbers"] != numbers:
            raise mount_point_used(wanted, mounted)
        try:
            superblock = read_superblock(device)
        except OSError as error:
            raise Failure(
                "device_unreadable",
                f"{wanted['device']} of datastore {wanted['name']} cannot be read: {error.strerror}.",
                "Build the layer below again.",
                device=wanted["device"],
            ) from error
        return {
            "superblock": superblock,
            "mounted": mounted,
            "numbers": numbers,
            "file_bytes": file_bytes,
            "options": recorded.get("mount_options"),
            "generation": recorded.get("generation"),
        }

    def _current_over_nfs(self, wanted: Store) -> dict[str, Any]:
        mounted = self.mount_of(wanted["mount_point"])
        recorded = self.record.data.get("datastores", {}).get(wanted["name"], {})
        if mounted and not recorded:
            raise mount_point_used(wanted, mounted)
        return {
            "mounted": mounted,
            "fsid": nfs_volumes.fsid_of(mounted),
            "options": recorded.get("mount_options"),
            "generation": recorded.get("generation"),
        }

    def refuse_unsafe(self, wanted: Store, steps: list[Step]) -> None:
        """The device guard before mkfs: blank, unused, and proven to be the layer it was published as."""
        device = os.path.realpath(wanted["device"])
        facts = device_safety.inspect(device)
        layer: Layer = wanted["expected"]
        tolerated = set()
        if any(step["op"] == "detach" for step in steps):
            tolerated |= {"device_mounted", "device_in_use", "device_busy", "device_claimed"}
        if (facts.get("signature") or {}).get("UUID") == wanted["uuid"]:
            # Our own signature on a device that was replaced: what was in memory of the old one.
            tolerated.add("signature_present")
        if not layer:
            what = f"datastore {wanted['name']}"
            proof = wanted["proof"]
            device_safety.refuse_named(what, "datastore_datastores", wanted["device"], proof, "data", facts, tolerated)
            return
        reasons = [
            refusal
            for refusal in device_safety.refusals(facts, layer, testbed_id=self.testbed_id, overwrite=False)
            if refusal.code not in tolerated
        ]
        if reasons:
            raise device_safety.not_touched({**layer, "path": wanted["device"]}, reasons)

    # -- change

    def apply(self, wanted: Store, steps: list[Step]) -> list[Any]:
        """Apply the steps of one datastore; returns the processes that were ended."""
        before = loaded_modules()
        self.ended: list[Any] = []
        operations = {
            "make_filesystem": self._make_filesystem,
            "mount": self._mount,
            "remount": self._remount,
            "detach": self._detach,
            "write_benchmark_file": self._write_benchmark_file,
        }
        recorded = self.record.data.setdefault("datastores", {}).setdefault(
            wanted["name"], {"mount_point": wanted["mount_point"], "uuid": wanted["uuid"], "folders": []}
        )
        self.record.save()
        if (
            any(step["op"] in ("make_filesystem", "mount") for step in steps)
            and wanted["filesystem"] not in read_text("/proc/filesystems").split()
        ):
            load_module(wanted["filesystem"], intend=self.record.intend_modules)
        if wanted["filesystem"] == "nfs":
            self.record.intend(*NFS_MODULES)
            nfs_mount.refuse_silent(wanted["server"], f"datastore {wanted['name']}")
            recorded["server"] = wanted["server"]
        else:
            recorded["device"] = os.path.realpath(wanted["device"])
        try:
            if any(step["op"] == "mount" for step in steps) and not self.mount_of(wanted["mount_point"]):
                # First of all: a device whose file system could not be mounted stays as it is. A dead mount is not to be touched.
                self._make_mount_point(wanted)
            for step in steps:
                operations[step["op"]](wanted)
            over_nfs = wanted["filesystem"] == "nfs"
            recorded["mount_options"] = nfs_mount.options(wanted) if over_nfs else wanted["mount_options"]
            if over_nfs:
                recorded["generation"] = wanted["generation"]
        finally:
            self.record.note_modules(before)
        return self.ended

    def _make_filesystem(self, wanted: Store) -> None:
        device = os.path.realpath(wanted["device"])
        if wanted["filesystem"] == "ext4":
            argv = [
                "mkfs.ext4",
                "-q",
                "-F",
                "-U",
                wanted["uuid"],
                "-L",
                wanted["label"],
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
                device,
            ]
        else:
            # -f, because pages of a replaced file system may have reached the device on its way out; the guard has proven it blank.
            argv = ["mkfs.xfs", "-q", "-f", "-K", "-m", f"uuid={wanted['uuid']}", "-L", wanted["label"], device]
        run(
            argv,
            timeout_s=600,
            what=f"{wanted['filesystem']} cannot be made on {device}",
            remedy="Look at the message; the LUN may be too small, or the package with the command missing.",
        )
        self.record.data["datastores"][wanted["name"]]["generation"] = wanted["generation"]
        self.record.save()

    def refuse_mount_point(self, wanted: Store) -> None:
        """Before anything is written to the device: the mount point is an empty folder, or one that can be made."""
        folder = wanted["mount_point"]
        if self.mount_of(folder):
            return  # what is mounted there has been looked at already
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder):
            raise impossible(wanted, f"{folder} is not a folder")
        if folder == wanted["mount_point"]:
            refuse_not_empty(wanted)
        elif os.statvfs(folder).f_flag & os.ST_RDONLY:
            raise impossible(wanted, f"the file system of {folder} is mounted read-only")
        elif not os.access(folder, os.W_OK | os.X_OK):
            raise impossible(wanted, f"user {os.geteuid()} may not write to {folder}")

    def _make_mount_point(self, wanted: Store) -> None:
        recorded, folder = self.record.data["datastores"][wanted["name"]], wanted["mount_point"]
        missing = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        recorded["folders"] += [folder for folder in missing if folder not in recorded["folders"]]
        self.record.save()
        try:
            os.makedirs(wanted["mount_point"], mode=0o755, exist_ok=True)
        except OSError as error:
            raise impossible(wanted, f"{error.strerror} ({error.filename})") from None

    def _mount(self, wanted: Store) -> None:
        self._make_mount_point(wanted)
        refuse_not_empty(wanted)
        # Not in fstab: a LUN on a RAM disk is a new one after the next boot of its target.
        if wanted["filesystem"] == "nfs":
            nfs_mount.mount(wanted)
            return
        device, options = os.path.realpath(wanted["device"]), wanted["mount_options"]
        run(
            ["mount", "-t", wanted["filesystem"], "-o", options, device, wanted["mount_point"]],
            what=f"Datastore {wanted['name']} cannot be mounted on {wanted['mount_point']}",
        )

    def _remount(self, wanted: Store) -> None:
        run(
            ["mount", "-o", f"remount,{wanted['mount_options']}", wanted["mount_point"]],
            what=f"Datastore {wanted['name']} cannot take the options {wanted['mount_options']}",
        )

    def refuse_other(self, wanted: Store) -> None:
        """The file system mounted over NFS must be the file system that is meant, with the benchmark files that its host has made."""
        fsid = nfs_volumes.fsid_of(self.mount_of(wanted["mount_point"]))
        if fsid not in nfs_volumes.fsids(wanted["uuid"]):
            raise Failure(
                "wrong_uuid",
                f"{nfs_mount.source(wanted)} of datastore {wanted['name']} has the fsid {fsid or 'none'}, which is not the file system {wanted['uuid']}.",
                "Build the target again.",
                datastore=wanted["name"],
            )
        nfs_mount.refuse_wrong_connections(wanted)
        if wanted["benchmark_bytes"] and _file_bytes(wanted) != wanted["benchmark_bytes"]:
            raise Failure(
                "benchmark_file_missing",
                f"{nfs_mount.source(wanted)} of datastore {wanted['name']} has not just {wanted['benchmark_files']} benchmark files of "
                f"{wanted['benchmark_file_mib']} MiB.",
                "Give benchmark_file_mib and benchmark_files here as on the server, whose role datastore makes them.",
                datastore=wanted["name"],
            )

    def _detach(self, wanted: Store) -> None:
        """Take away a mount whose device was replaced, with what still holds it: its pages must never reach the new device."""
        point = wanted["mount_point"]
        there = self.mount_of(point)
        if there and there.get("filesystem", "").startswith("nfs"):
            server = there["source"].rpartition(":/")[0].strip("[]")
            if probe.reach(server, nfs_mount.PORT) == "open" and _umounted(point):
                return
            # A server that does not answer must not be asked, and of one that was recreated nothing is left there to be written.
            run(
                ["umount", "--internal-only", "--force", "--lazy", point],
                what=f"The mount on {point} cannot be detached",
            )
            return
        while mount := self.mount_of(point):
            try:
                handle = os.open(point, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    fcntl.ioctl(handle, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
                finally:
                    os.close(handle)
            except OSError:  # it shut itself down already, or cannot be opened any more
                pass
            self._end_holders(mount)
            run(["umount", point], ok=(0, 32))
            if self.mount_of(point) == mount:
                run(["umount", "--lazy", point], what=f"The dead file system on {point} cannot be detached")
        if os.path.exists(wanted["device"]):
            handle = os.open(wanted["device"], os.O_RDONLY)
            try:
                fcntl.ioctl(handle, BLKFLSBUF, 0)
            finally:
                os.close(handle)

    def _end_holders(self, mount: Mount) -> None:
        """End the processes that hold files of the dead file system; what they hold is gone, and they would keep its device claimed."""
        major, minor = (int(number) for number in mount["numbers"].split(":"))
        for sign, patience_s in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
            holders = _holders(os.makedev(major, minor))
            for pid, command in holders:
                if {"pid": pid, "command": command} not in self.ended:
                    self.ended.append({"pid": pid, "command": command})
                try:
                    os.kill(pid, sign)
                except ProcessLookupError:
                    continue
            if not holders or wait_for(lambda: not _holders(os.makedev(major, minor)), timeout_s=patience_s):
                return

    def _write_benchmark_file(self, wanted: Store) -> None:
        """The benchmark files that are missing; those that are no longer wanted go."""
        folder, size = wanted["mount_point"], wanted["benchmark_bytes"]
        names = benchmark_files(wanted["benchmark_files"])
        there = {
            name: os.stat(os.path.join(folder, name)).st_size
            for name in os.listdir(folder)
            if FILE.fullmatch(name) or name == PARTIAL
        }
        for name in there:
            if name not in names or there[name] != size:
                os.unlink(os.path.join(folder, name))
        missing = [name for name in names if there.get(name) != size]
        space, needed = os.statvfs(folder), size * len(missing)
        if space.f_bavail * space.f_frsize < needed:
            what = "benchmark file needs" if len(missing) == 1 else f"{len(missing)} benchmark files need"
            raise Failure(
                "datastore_full",
                f"The {what} {needed // MIB} MiB and datastore {wanted['name']} has {space.f_bavail * space.f_frsize // MIB} MiB free.",
                "Make benchmark_file_mib smaller or the LUN bigger.",
                datastore=wanted["name"],
                needed_bytes=needed,
            )
        for number, name in enumerate(missing):
            self._write_file(os.path.join(folder, name), os.path.join(folder, PARTIAL), size, number * size)

    @staticmethod
    def _write_file(path: str, partial: str, size: int, stamp: int) -> None:
        """Written under another name and renamed when it is complete, so that a file of that name is a finished one."""
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o600)
        try:
            with naming(partial):
                os.posix_fallocate(handle, 0, size)
                benchmark_file.fill(handle, size, stamp)
        finally:
            os.close(handle)
        os.rename(partial, path)

    # -- away with it

    def plan_absent(self, discard: bool) -> list[Step]:
        """The steps of a removal; raises datastore_not_empty or device_in_use."""
        steps: list[Step] = []
        for name, recorded in sorted(self.record.data.get("datastores", {}).items()):
            mount = self.mount_of(recorded["mount_point"])
            if mount:
                alive = self._alive(mount, recorded)
                # Things on another host stay there.
                looked_at = alive and not recorded.get("server")
                foreign = foreign_entries(os.listdir(recorded["mount_point"])) if looked_at else []
                if foreign and not discard:
                    raise Failure(
                        "datastore_not_empty",
                        f"Datastore {name} ({recorded['mount_point']}) holds {', '.join(foreign[:10])}.",
                        "Remove these first, or set datastore_discard_contents to true.",
                        datastore=name,
                        found=foreign[:100],
                    )
                major, minor = (int(number) for number in mount["numbers"].split(":"))
                holders = _holders(os.makedev(major, minor)) if alive else []
                if holders:
                    raise Failure(
                        "device_in_use",
                        f"Datastore {name} ({recorded['mount_point']}) is used by {', '.join(f'{command} (pid {pid})' for pid, command in holders)}.",
                        "End these processes first.",
                        datastore=name,
                    )
            steps.append(
                {
                    "op": "remove",
                    "datastore": name,
                    "was": recorded["mount_point"] if mount else "not mounted",
                    "will": None,
                }
            )
        return steps

    @staticmethod
    def _alive(mount: Mount, recorded: dict[str, Any]) -> bool:
        if recorded.get("server"):
            return probe.reach(recorded["server"], nfs_mount.PORT) == "open"
        try:
            return bool(read_superblock(mount["source"])["uuid"] == recorded["uuid"])
        except OSError:  # the device is gone or dead
            return False

    def remove(self) -> list[Any]:
        self.ended = []
        for recorded in self.record.data.get("datastores", {}).values():
            mount = self.mount_of(recorded["mount_point"])
            if mount and self._alive(mount, recorded):
                run(["umount", recorded["mount_point"]], what=f"{recorded['mount_point']} cannot be unmounted")
                if not recorded.get("server"):
                    wipe(mount["source"], recorded["uuid"])
            elif mount:
                self._detach({"mount_point": recorded["mount_point"], "device": mount["source"]})
            elif os.path.exists(recorded.get("device", "")):
                wipe(recorded["device"], recorded["uuid"])
            for folder in recorded["folders"]:
                if os.path.isdir(folder) and not os.listdir(folder):
                    os.rmdir(folder)
        self.record.unload_modules()
        self.record.remove()
        return self.ended


def _file_bytes(wanted: Store) -> int | None:
    """The size of every benchmark file; None when they are not just those that are wanted, or not alike."""
    folder, names = wanted["mount_point"], benchmark_files(wanted["benchmark_files"])
    try:
        sizes = {
            name: os.stat(os.path.join(folder, name)).st_size for name in os.listdir(folder) if FILE.fullmatch(name)
        }
    except OSError:  # the file system beneath it is dead
        return None
    return sizes[names[0]] if sorted(sizes) == sorted(names) and len(set(sizes.values())) == 1 else None


def _holders(device: int) -> list[Any]:
    """Processes with an open file, a working folder or a program on the file system of that device number: [(pid, command)]"""
    holders = []
    for pid in sorted((entry for entry in os.listdir("/proc") if entry.isdigit()), key=int):
        folder = f"/proc/{pid}"
        try:
            links = [f"{folder}/fd/{handle}" for handle in os.listdir(f"{folder}/fd")] + [
                f"{folder}/cwd",
                f"{folder}/root",
                f"{folder}/exe",
            ]
        except OSError:  # ended meanwhile
            continue
        if int(pid) != os.getpid() and any(_on_device(link, device) for link in links):
            holders.append((int(pid), read_text(f"{folder}/comm", default="?")))
    return holders


def _on_device(link: str, device: int) -> bool:
    try:
        return os.stat(link).st_dev == device
    except OSError:  # closed meanwhile, or a kernel thread without a program
        return False


def wipe(device: str, fs_uuid: str) -> None:
    """Overwrite our file system's signatures; nothing happens when the device holds anything else."""
    if read_superblock(device)["uuid"] == fs_uuid:
        run(["wipefs", "--all", "--quiet", device], what=f"The signature on {device} cannot be wiped")


# ---- the module

# The state of a datastore whose device does not exist yet (check mode on a fresh host).
UNBORN = {
    "superblock": {"filesystem": None, "uuid": None, "label": ""},
    "mounted": None,
    "numbers": None,
    "file_bytes": None,
    "options": None,
    "generation": None,
    "fsid": None,
}

SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "layers": {"type": "dict", "default": {}},
    "discard_contents": {"type": "bool", "default": False},
    "datastores": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "layer": {"type": "str"},
            "device": {"type": "path"},
            **{key: {"type": "str"} for key in device_safety.PROOFS},
            "filesystem": {"type": "str", "choices": ["ext4", "xfs", "nfs"], "default": "ext4"},
            "server": {"type": "str"},
            "export": {"type": "str"},
            "nfs_version": {"type": "str", "choices": ["3", "4.2"], "default": "4.2"},
            "nconnect": {"type": "int"},
            "mount_point": {"type": "path", "required": True},
            "mount_options": {"type": "str", "default": "noatime"},
            "benchmark_file_mib": {"type": "int", "default": 0},
            "benchmark_files": {"type": "int", "default": 1},
        },
    },
}


def _umounted(point: str) -> bool:
    """Without the helper of mount(8), which would ask the daemons of version 3 on the server: they may be gone already."""
    return run(["umount", "--internal-only", point], ok=(0, 1, 16, 32)).returncode == 0


def _detaches(entry: Store, steps: list[Step]) -> bool:
    """Whether a mount over NFS is unmounted first of all."""
    return entry["filesystem"] == "nfs" and any(step["op"] == "detach" for step in steps[:1])


def _plan_of(entry: Store) -> Any:
    return nfs_mount.plan if entry["filesystem"] == "nfs" else plan


def _is_there(entry: Store) -> bool:
    """Whether there is anything to look at. A layer that a check of a first build did not make has no path, or the one that it will probably get."""
    if entry["filesystem"] == "nfs":
        return bool(entry["expected"])
    return bool(entry["device"] and (not entry["expected"] or os.path.exists(entry["device"])))


class Area(converge.Area):
    """The datastores of a testbed on a Linux host, for the module datastore_filesystem."""

    def plan(self) -> list[Step]:
        self.stores = Datastores(check_testbed_id("datastore_testbed_id", self.params["testbed_id"]))
        self.ended: list[Any] = []
        self.plans: list[tuple[Store, bool, list[Step]]] = []
        if not self.present:
            steps = self.stores.plan_absent(self.params["discard_contents"])
            self.changed = bool(steps or self.stores.record.data)
            return steps
        self.wanted = resolve(self.params, self.check_mode)
        for entry in self.wanted:
            unborn = self.check_mode and not _is_there(entry)
            self.plans.append((entry, unborn, _plan_of(entry)(UNBORN if unborn else self.stores.current(entry), entry)))
        steps = [step for _entry, _unborn, its_steps in self.plans for step in its_steps]
        self.changed = bool(steps)
        return steps

    def guard(self, steps: list[Step]) -> None:
        leaving = {entry["mount_point"] for entry, _unborn, its_steps in self.plans if _detaches(entry, its_steps)}
        for entry, unborn, its_steps in self.plans:
            if not unborn and any(step["op"] == "make_filesystem" for step in its_steps):
                self.stores.refuse_unsafe(entry, its_steps)
            if any(step["op"] == "mount" for step in its_steps):
                self.stores.refuse_mount_point(entry)
                if entry["filesystem"] == "nfs":
                    nfs_mount.refuse_shared(mounts.read(), entry, leaving)

    def apply(self, steps: list[Step]) -> None:
        if not self.present and self.changed:
            self.ended = self.stores.remove()
        # Mounts that share their connections all go before the first of them comes back with others.
        for entry, _unborn, its_steps in self.plans:
            if _detaches(entry, its_steps):
                self.ended += self.stores.apply(entry, its_steps[:1])
        for entry, _unborn, its_steps in self.plans:
            left = its_steps[1:] if _detaches(entry, its_steps) else its_steps
            if left:
                self.ended += self.stores.apply(entry, left)
            if entry["filesystem"] == "nfs":
                # Also what was mounted before: an attempt that was refused leaves it mounted, and the next one must not take it.
                nfs_mount.refuse_silent(entry["server"], f"datastore {entry['name']}")
                self.stores.refuse_other(entry)

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        diff = diff_of(steps, lambda step: f"{step['op']} {step['datastore']}")
        layers = {"layers": layers_of(self.wanted)} if self.present else {}
        return {"changed": self.changed, "steps": steps, "ended": self.ended, "diff": diff, **layers}
