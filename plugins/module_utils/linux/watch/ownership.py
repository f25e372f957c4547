# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a thing on a Linux host is, by the exact names in the records of the testbeds there (record.py).

Names are sets by kind (KINDS). ``names_of`` reads them from records alone, ``on_host`` adds what carries the mark of a testbed and what the kernel
has made of its devices. A thing without such a name has no owner.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Mapping

from .. import mounts
from ..disks import cache_stamp, multipath

KINDS = (
    "folders",
    "ids",
    "stores",
    "targets",
    "mount_points",
    "devices",
    "exports",
    "arrays",
    "daemons",
    "modules",
    "files",
)
RECORDS = "run/storlab"
# Folders that testbeds make below the root of a host, each with a folder per testbed or lab.
FOLDERS = (
    RECORDS,
    "var/lib/storlab",
    "var/tmp/storlab",
    "var/tmp/storlab-[0-9]*",
    "home/*/.local/state/storlab-*",
)
Names = dict[str, set[str]]


def nothing() -> Names:
    return {kind: set() for kind in KINDS}


def union(*several: Names) -> Names:
    return {kind: set().union(*(names.get(kind, ()) for names in several)) for kind in KINDS}


def names_of(records: Mapping[str, object]) -> Names:
    """The names in the records of one testbed. records: {area: record}; a record of another shape names nothing."""
    names = nothing()
    names["modules"] |= {module for record in records.values() for module in _texts(_mapping(record).get("modules"))}
    lio, nfs, iscsi = (_mapping(records.get(area)) for area in ("lio_target", "nfs_export", "iscsi_session"))
    names["stores"] |= {path.split("/")[2] for path in _mapping(lio.get("core")) if path.count("/") == 2}
    names["targets"] |= _texts(lio.get("targets"))
    nvme, connected = (_mapping(records.get(area)) for area in ("nvme_target", "nvme_session"))
    # A subsystem, a host and a port of the NVMe target, and the host's name that a connection was made with.
    names["targets"] |= _texts(nvme.get("subsystems")) | _texts(nvme.get("hosts")) | _texts(connected.get("hosts"))
    names["targets"] |= {nvme_port(number) for number in _mapping(nvme.get("ports")).values()}
    for store in _entries(records, "datastore", "datastores"):
        names["mount_points"] |= _texts([store.get("mount_point")])
    for mount in _entries(records, "existing", "mounts"):
        names["mount_points"] |= _texts([mount.get("mount_point")])
    configfs = lio.get("mounted_configfs") or nvme.get("mounted_configfs")
    for place, made in ((mounts.CONFIGFS, configfs), ("/proc/fs/nfsd", nfs.get("mounted"))):
        names["mount_points"] |= {place} if made else set()
    for daemon, made in (("nfsd", nfs.get("server")), ("iscsid", iscsi.get("daemon"))):
        names["daemons"] |= {daemon} if made else set()
    names["files"] |= set(multipath.FILES) if iscsi.get("multipath") else set()
    for array in _entries(records, "raid", "arrays"):
        names["arrays"] |= _texts([array.get("uuid")])
        names["devices"] |= _device_names(array.get("device"))
    for disk in _entries(records, "ramdisk", "disks"):
        names["devices"] |= _device_names(disk.get("path")) | _device_names(disk.get("whole"))
    return names


def on_host(root: str, testbeds: Iterable[str]) -> Names:
    """The names in the records of these testbeds on the host, and the things that carry their marks."""
    several = [_of_records(root, testbed_id) for testbed_id in sorted(testbeds)]
    return with_devices(root, union(*several))


def folders_on_host(root: str) -> list[str]:
    """Each folder of a testbed or a lab."""
    paths = [path for base in FOLDERS for path in sorted(glob.glob(os.path.join(root, base, "*")))]
    return [path for path in paths if os.path.isdir(path) and os.path.basename(path) != "nbd"]


def places_of(root: str, names: Iterable[str]) -> set[str]:
    """The folders that these testbeds or labs have, or would have."""
    bases = [
        "/" + os.path.relpath(path, root)
        for folder in FOLDERS
        for path in (glob.glob(os.path.join(root, folder)) if "*" in folder else [os.path.join(root, folder)])
    ]
    return {f"{base}/{name}" for base in bases for name in names}


def with_devices(root: str, names: Names) -> Names:
    """The same with the disks of these testbeds' sessions, their mappings, and what the kernel has made of their devices."""
    names = {**names, "devices": set(names["devices"])}
    for session, iface in session_interfaces(root).items():
        if iface in {f"storlab-{testbed_id}" for testbed_id in names["ids"]}:
            disks = glob.glob(os.path.join(root, f"sys/class/iscsi_session/{session}/device/target*/*/block/*"))
            names["devices"] |= {os.path.basename(disk) for disk in disks}
    names["devices"] |= nvme_disks(
        root, {name for name, host in nvme_controllers(root).items() if host in names["targets"]}
    )
    names["devices"] |= {
        os.path.basename(os.path.dirname(os.path.dirname(path)))
        for path in glob.glob(os.path.join(root, "sys/block/dm-*/dm/uuid"))
        if testbed_of_mapping(read(path)) in names["ids"]
    }
    # A device that multipathd, LVM or bcache makes of a testbed's devices goes with them, and the things on it.
    above = [path for kind in ("dm-*", "bcache*") for path in glob.glob(os.path.join(root, "sys/block", kind))]
    for _height in above:
        for path in above:
            below = set(listed(os.path.join(path, "slaves")))
            if below and below <= names["devices"]:
                names["devices"].add(os.path.basename(path))
    return names


def testbed_of_mapping(mapped: str) -> str | None:
    """The testbed that a device mapper device says it is of (cache_tier)."""
    words = mapped.split(":")
    return words[1] if words[0] in cache_stamp.MAPPINGS and len(words) > 1 else None


def session_interfaces(root: str) -> dict[str, str]:
    """{session: its interface record}"""
    base = os.path.join(root, "sys/class/iscsi_session")
    return {name: read(os.path.join(base, name, "ifacename")) for name in listed(base)}


def nvme_controllers(root: str) -> dict[str, str]:
    """{controller: the host NQN that it was connected with} of the connections over a network; a disk in a slot has none."""
    base = os.path.join(root, "sys/class/nvme")
    hosts = {name: read(os.path.join(base, name, "hostnqn")) for name in listed(base)}
    return {name: host for name, host in hosts.items() if host}


def nvme_disks(root: str, controllers: set[str]) -> set[str]:
    """The disks of these connections, with the paths to them that have no node (nvme0c0n1)."""
    disks = set()
    for name in listed(os.path.join(root, "sys/block")):
        above = os.path.dirname(os.path.realpath(os.path.join(root, "sys/block", name)))
        # A disk that the kernel has joined is below its subsystem, and so is each of its controllers.
        if name.startswith("nvme") and {os.path.basename(above), *listed(above)} & controllers:
            disks.add(name)
    return disks


def nvme_port(number: object) -> str:
    """The name of a port of the NVMe target among the names of targets: the kernel has its number alone."""
    return str(number)


def held_modules(text: str, ours: set[str]) -> set[str]:
    """The modules among ours that somebody else uses, of /proc/modules: they stay for him.

    A use that other modules of ours account for is not somebody else's, unless they are used themselves.
    """
    table = {}
    for words in (line.split() for line in text.splitlines()):
        if len(words) > 3:
            table[words[0]] = (
                int(words[2]) if words[2].isdigit() else 0,
                set(filter(None, words[3].split(","))) - {"-"},
            )
    held: set[str] = set()
    for _height in table:
        held |= {
            name
            for name, (uses, holders) in table.items()
            if name in ours and (uses > len(holders) or holders & held or holders - ours)
        }
    return held


def within(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def read(path: str) -> str:
    try:
        # A carriage return is part of a name in the kernel's tables, and no end of a line.
        with open(path, encoding="utf-8", errors="replace", newline="\n") as handle:
            return handle.read().strip()
    except OSError:
        # Devices and processes may go between being listed and being read.
        return ""


def listed(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _of_records(root: str, testbed_id: str) -> Names:
    folder, records = os.path.join(root, RECORDS, testbed_id), {}
    for path in glob.glob(os.path.join(glob.escape(folder), "*.json")):
        try:
            records[os.path.basename(path)[: -len(".json")]] = json.loads(read(path) or "{}")
        except ValueError:  # being written, or damaged: it names nothing
            continue
    names = names_of(records)
    names["ids"] |= {testbed_id} if any(isinstance(record, dict) for record in records.values()) else set()
    return names


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> set[str]:
    return {entry for entry in value if isinstance(entry, str)} if isinstance(value, list) else set()


def _entries(records: Mapping[str, object], area: str, key: str) -> list[dict[str, object]]:
    return [_mapping(entry) for entry in _mapping(_mapping(records.get(area)).get(key)).values()]


def _device_names(path: object) -> set[str]:
    name = os.path.basename(path) if isinstance(path, str) else ""
    # A loop device is known by its file: its number is given to whoever comes next.
    return {name} if name and not re.fullmatch(r"loop\d+(p\d+)?", name) else set()
