# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage that a host has already, each as an entry of ``testbed.existing``: exports, shares and folders that are mounted, LUNs that it is logged in to, and
disks that seem unused.

It reads the mount table and sysfs and changes nothing. No server is asked, because who looks at a mount whose server is silent waits for it.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from typing import Any, TypedDict

from .. import mounts
from ..disks import designators, device_safety, wanted_disks
from ..disks.system import System
from ..host import read_text
from ..nouns import Mount
from .attached import NFS_PORT, PLACE, VERSIONS

# File systems of servers: hosts that have one from the same source see the same files.
SHARED = ("cifs", "smb3", "ceph", "lustre", "beegfs", "gpfs", "fuse.glusterfs")
LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "bcachefs", "f2fs", "ntfs3")
# Mount points of the system itself, and folders below which everything is its own.
SYSTEM = ("/", "/boot", "/efi", "/usr", "/var", "/var/log")
SYSTEM_FOLDERS = ("/boot", "/dev", "/etc", "/proc", "/run", "/snap", "/sys", "/usr", "/var/lib/docker", PLACE)
# Names of other mount points that hold nothing to measure.
SCRATCH = ("tmp",)


class Offer(TypedDict):
    """One thing that may be measured: a name to begin with, the words of its entry, what it is, and whether other hosts may see the same."""

    name: str
    entry: dict[str, Any]
    what: str
    shared: bool


def look(root: str = "/", disks: Callable[[], list[Any]] = wanted_disks.disks) -> list[Offer]:
    """All that this host has, exports first and disks last."""
    system = System(root)
    table = mounts.read(os.path.join(root, mounts.TABLE.lstrip("/")))
    return [*mounted(table, lambda path: os.path.isdir(system.real(path))), *disks_of(disks(), luns(root), system)]


# ---------------------------------------------------------------- what is mounted


def mounted(table: list[Mount], is_folder: Callable[[str], bool] = os.path.isdir) -> list[Offer]:
    """Offers of a mount table, each file system once, servers before local ones. is_folder: asked about local file systems alone."""
    exports: dict[tuple[str, str], Offer] = {}
    folders: dict[str, Offer] = {}
    for mount in table:
        place, kind = mount["mount_point"], mount["filesystem"]
        if mounts.mounted_at(table, place) is not mount or _below(place, (PLACE,)):
            continue  # another mount hides it, or it is one of a testbed
        if kind in ("nfs", "nfs4"):
            exports.setdefault((kind, mount["source"]), _nfs(mount))
        elif kind in SHARED:
            exports.setdefault((kind, mount["source"]), _folder(mount, shared=True))
        elif kind in LOCAL:
            # A second mount of one file system shows the same files; the first may be the system's own.
            first = mount["numbers"] not in folders
            folders.setdefault(mount["numbers"], _folder(mount, shared=False))
            if first and (
                place in SYSTEM
                or os.path.basename(place) in SCRATCH
                or _below(place, SYSTEM_FOLDERS)
                or not is_folder(place)
            ):
                folders[mount["numbers"]]["entry"] = {}
    return [*exports.values(), *(offer for offer in folders.values() if offer["entry"])]


def _below(place: str, folders: tuple[str, ...]) -> bool:
    """Whether a path is one of the folders, or in one of them."""
    return any(os.path.join(place, "").startswith(os.path.join(folder, "")) for folder in folders)


def _nfs(mount: Mount) -> Offer:
    """An export as kind nfs where the testbed's own mount can be like this one, else as the folder where it is mounted."""
    server, _, export = mount["source"].partition(":/")
    options = dict(option.partition("=")[::2] for option in mount["options"].split(","))
    version = options.get("vers", "")
    version = f"4.{options.get('minorversion', '0')}" if version == "4" else version
    plain = options.get("proto", "tcp") in ("tcp", "tcp6") and options.get("port", "0") in ("0", str(NFS_PORT))
    if not (server and plain and version in VERSIONS):
        return _folder(mount, shared=True)
    security = options.get("sec", "sys")
    entry = {
        "kind": "nfs",
        "server": server.strip("[]"),
        "export": f"/{export}",
        "nfs_version": version,
        **({} if security == "sys" else {"mount_options": f"sec={security}"}),
    }
    what = f"NFS export {mount['source']}, mounted on {mount['mount_point']}"
    return {"name": os.path.basename(export.rstrip("/")) or server, "entry": entry, "what": what, "shared": True}


def _folder(mount: Mount, shared: bool) -> Offer:
    place = mount["mount_point"]
    what = f"folder {place}, {mount['filesystem']} of {mount['source']}"
    return {"name": os.path.basename(place), "entry": {"kind": "path", "path": place}, "what": what, "shared": shared}


# ---------------------------------------------------------------- disks


def luns(root: str = "/") -> dict[str, tuple[str, int]]:
    """{disk: (IQN, LUN)} of all iSCSI sessions, whoever logged in."""
    result = {}
    for folder in sorted(glob.glob(os.path.join(root, "sys/class/iscsi_session/session*"))):
        iqn = read_text(f"{folder}/targetname", default="")
        for disk in sorted(glob.glob(f"{folder}/device/target*/*:*:*:*/block/*")):
            number = os.path.basename(os.path.dirname(os.path.dirname(disk))).rpartition(":")[2]
            result[f"/dev/{os.path.basename(disk)}"] = (iqn, int(number))
    return result


def disks_of(disks: list[Any], of_sessions: dict[str, tuple[str, int]], system: System | None = None) -> list[Offer]:
    """Offers of LUNs, used or not, because reading takes nothing from who uses them, and of other disks that seem unused.

    One that shows nothing of itself is left out: its name is another disk's tomorrow. Several paths to one LUN are one offer. The namespaces of an NVMe
    subsystem all show the serial of that, so a serial that several disks show is the word for none.
    """
    offers: dict[tuple[str, str], Offer] = {}
    serials = [disk["serial"] for disk in disks]
    for disk in disks:
        path, session = disk["path"], of_sessions.get(disk["path"])
        if not disk["size_bytes"] or (disk["used"] and not session):
            continue
        facts = device_safety.identity(path, system)
        shown = device_safety.hints(facts)
        if disk["serial"] and serials.count(disk["serial"]) > 1:
            wwid = facts.get("wwid") or ""
            shown = {"naa": shown.get("naa", ""), "wwid": wwid if designators.is_worldwide(wwid) else ""}
        word = next((key for key in ("naa", "serial", "wwid") if shown.get(key)), None)
        if word is None:
            continue
        size = f"{disk['size_bytes'] / 2**30:.1f} GiB"
        what = f"disk {path} of {size}, which seems unused"
        name = os.path.basename(path)
        if session:
            what = f"LUN {session[1]} of {session[0]}, {size}, logged in to as {path}"
            name = f"{session[0].rpartition(':')[2]}-lun{session[1]}"
        offer: Offer = {
            "name": name,
            "entry": {"kind": "device", word: shown[word]},
            "what": what,
            # Serials may repeat on other hosts; an NAA name is one LUN's in the whole world.
            "shared": word == "naa",
        }
        offers.setdefault((word, shown[word]), offer)
    return list(offers.values())
