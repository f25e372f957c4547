# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's storage looks like, in a form that two moments can be compared in.

A state is a mapping of section to a sorted list of lines. Lines are plain text, so that the difference of two states is
a difference of multisets and each stray reads as it would be told to a person. Everything that changes by itself (usage counts,
process ids, log files) is left out.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import stat
from collections import Counter
from typing import Any

from . import cache_stamp, mounts

# Mounts that systems make and drop by themselves and that never carry a testbed's data.
PSEUDO_FILE_SYSTEMS = frozenset(
    (
        "autofs",
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "debugfs",
        "devpts",
        "efivarfs",
        "fusectl",
        "hugetlbfs",
        "mqueue",
        "nsfs",
        "overlay",
        "proc",
        "pstore",
        "ramfs",
        "rpc_pipefs",
        "securityfs",
        "sysfs",
        "tracefs",
    )
)
OTHERS_MOUNTS = (
    "/run/netns/",
    "/run/user/",
    "/run/credentials/",
    "/run/docker/",
    "/var/lib/docker/",
    "/var/lib/containers/",
    "/snap/",
)
CONFIGURATION = (
    "etc/exports",
    "etc/exports.d/*",
    "etc/fstab",
    "etc/initiatorname.iscsi",
    "etc/iscsi/**",
    "etc/lvm/devices/*",
    "etc/lvm/lvm.conf",
    "etc/mdadm.conf",
    "etc/mdadm/mdadm.conf",
    "etc/modprobe.d/*",
    "etc/modules-load.d/*",
    "etc/multipath.conf",
    "etc/multipath/**",
    "etc/rtslib-fb-target/**",
    "etc/systemd/system/**",
    "etc/target/**",
    "etc/tgt/**",
    "etc/udev/rules.d/*",
    "var/lib/iscsi/**",
)
DAEMONS = frozenset(
    (
        "dmeventd",
        "fio",
        "iscsid",
        "mdadm",
        "mdmon",
        "multipathd",
        "nbd-server",
        "nfsd",
        "qemu-nbd",
        "qemu-storage-daemon",
        "qemu-system-x86",
        "tgtd",
    )
)
OWN_FOLDERS = ("run/storlab", "var/lib/storlab", "var/tmp/storlab", "var/tmp/storlab-[0-9]*")


# What UUIDs of cache tiers and of their parts begin with.
MAPPINGS = ("STORLAB-CACHE", "STORLAB-CACHE-PART")
RECORDS = "run/storlab"
CLAIMS = ("folders", "ids", "stores", "targets", "mount_points", "devices", "exports", "arrays", "daemons", "modules")


def _others(root: str, own: set[Any]) -> dict[str, Any]:
    """What the records of the host name as other testbeds': {folders, ids, stores, targets, mount_points, devices, exports, arrays, daemons,
    modules}.

    own: this testbed's own names of folders. Names are compared exactly; what no record names is nobody's and stays in the state.
    """
    claims: dict[str, Any] = {key: set() for key in CLAIMS}
    for base in OWN_FOLDERS:
        for path in sorted(glob.glob(os.path.join(root, base, "*"))):
            name = os.path.basename(path)
            if name in own | {"nbd"} or not os.path.isdir(path):
                continue
            claims["folders"].add("/" + os.path.relpath(path, root))
            if os.path.dirname(path) == os.path.join(root, RECORDS):
                _claim_records(path, name, claims)
    for session, iface in _session_interfaces(root).items():
        if iface in {f"storlab-{name}" for name in claims["ids"]}:
            claims["devices"].update(
                os.path.basename(disk)
                for disk in glob.glob(os.path.join(root, f"sys/class/iscsi_session/{session}/device/target*/*/block/*"))
            )
    claims["devices"].update(
        os.path.basename(os.path.dirname(os.path.dirname(path)))
        for path in glob.glob(os.path.join(root, "sys/block/dm-*/dm/uuid"))
        if _testbed_of_mapping(_read(path)) in claims["ids"]
    )
    # A device that multipathd, LVM or bcache makes of another testbed's devices goes with them, and what stands on it.
    made = [path for kind in ("dm-*", "bcache*") for path in glob.glob(os.path.join(root, "sys/block", kind))]
    for _height in made:
        for path in made:
            disks = set(_list(os.path.join(path, "slaves")))
            if disks and disks <= claims["devices"]:
                claims["devices"].add(os.path.basename(path))
    return claims


def _claim_records(folder: str, testbed_id: str, claims: dict[str, Any]) -> None:
    records = {}
    for path in glob.glob(os.path.join(folder, "*.json")):
        try:
            record = json.loads(_read(path) or "{}")
        except ValueError:  # being written, or damaged: it names nothing
            continue
        if isinstance(record, dict):
            records[os.path.basename(path)[: -len(".json")]] = record
    if records:
        claims["ids"].add(testbed_id)
    lio, stores = records.get("lio_target", {}), records.get("datastore", {}).get("datastores", {})
    # What a testbed that went before left to it because it still uses it, too.
    claims["modules"] |= {module for record in records.values() for module in record.get("modules", [])}
    claims["stores"] |= {path.split("/")[2] for path in lio.get("core", {}) if path.count("/") == 2}
    claims["targets"] |= set(lio.get("targets", []))
    claims["mount_points"] |= {store["mount_point"] for store in stores.values()}
    over_nfs = records.get("nfs_export", {})
    claims["daemons"] |= {"nfsd"} if over_nfs.get("server") else set()
    claims["mount_points"] |= {"/proc/fs/nfsd"} if over_nfs.get("mounted") else set()
    for array in records.get("raid", {}).get("arrays", {}).values():
        claims["arrays"].add(array["uuid"])
        claims["devices"].add(os.path.basename(array.get("device", "")))
    for disk in records.get("ramdisk", {}).get("disks", {}).values():
        claims["devices"] |= {os.path.basename(disk[key]) for key in ("path", "whole") if disk.get(key)}


def _raid_superblocks(scan: str, others: dict[str, Any]) -> list[str]:
    """Arrays whose superblocks are on disks of the host, assembled or not."""
    lines = []
    for line in scan.splitlines():
        words = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
        if line.startswith("ARRAY ") and words.get("UUID") not in others["arrays"]:
            lines.append(
                f"superblocks of {words.get('name', 'an array without a name')}, UUID {words.get('UUID', 'none')}"
            )
    return lines


def _testbed_of_mapping(mapped: str) -> str | None:
    """The testbed that a device mapper device says it is of (cache_tier)."""
    words = mapped.split(":")
    return words[1] if words[0] in MAPPINGS and len(words) > 1 else None


def _cache_stamps(root: str, others: dict[str, Any]) -> list[str]:
    """Caches whose stamps are on disks of the host, put in or not."""
    lines = []
    for name in _list(os.path.join(root, "sys/block")):
        if name.startswith("dm-") or int(_read(os.path.join(root, "sys/block", name, "size")) or 0) == 0:
            continue
        try:
            with open(os.path.join(root, "dev", name), "rb", buffering=0) as handle:
                stamp = cache_stamp.unpack(handle.read(cache_stamp.BYTES))
        except OSError:
            continue
        if stamp is not None and stamp.get("testbed_id") not in others["ids"]:
            lines.append(f"stamp of cache {stamp.get('testbed_id', '?')}/{stamp.get('name', '?')} on {name}")
    return lines


def _within(path: str, folders: Any) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _session_interfaces(root: str) -> dict[str, Any]:
    """{session: its interface record}"""
    base = os.path.join(root, "sys/class/iscsi_session")
    return {name: _read(os.path.join(base, name, "ifacename")) for name in _list(base)}


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        # Devices and processes may go between being listed and being read.
        return ""


def _list(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _block_devices(root: str, others: dict[str, Any]) -> list[str]:
    lines = []
    for name in _list(os.path.join(root, "sys/block")):
        base = os.path.join(root, "sys/block", name)
        sectors = _read(os.path.join(base, "size")) or "0"
        backing = _read(os.path.join(base, "loop/backing_file"))
        if re.fullmatch(r"loop\d+", name) and not backing:
            continue
        if name in others["devices"] or (backing and _within(backing, others["folders"])):
            continue
        lines.append(f"{name} {int(sectors) * 512} bytes" + (f" on {backing}" if backing else ""))
        for part in _list(base):
            if os.path.exists(os.path.join(base, part, "partition")):
                lines.append(f"{part} {int(_read(os.path.join(base, part, 'size')) or 0) * 512} bytes")
    return lines


def _mounts(root: str, others: dict[str, Any]) -> list[str]:
    lines = []
    for mount in mounts.read(os.path.join(root, "proc/self/mountinfo")):
        where, kind, source = mount["mount_point"], mount["filesystem"], mount["source"]
        if kind in PSEUDO_FILE_SYSTEMS or (where + "/").startswith(OTHERS_MOUNTS):
            continue
        if where not in others["mount_points"] and not _within(where, others["folders"]):
            lines.append(f"{source} on {where} type {kind}")
    return lines


def _iscsi_sessions(root: str, others: dict[str, Any]) -> list[str]:
    lines, ifaces = [], {f"storlab-{testbed_id}" for testbed_id in others["ids"]}
    for name, iface in _session_interfaces(root).items():
        base, number = os.path.join(root, "sys/class/iscsi_session", name), name[len("session") :]
        connection = os.path.join(root, f"sys/class/iscsi_connection/connection{number}:0")
        address, port = (_read(os.path.join(connection, f"persistent_{part}")) for part in ("address", "port"))
        if iface not in ifaces:
            lines.append(f"{_read(os.path.join(base, 'targetname'))} at {address}:{port}, session {number}")
    return lines


def _targets(root: str, others: dict[str, Any]) -> list[str]:
    core = os.path.join(root, "sys/kernel/config/target")
    stores = [
        os.path.basename(os.path.dirname(path))
        for path in glob.glob(os.path.join(core, "core", "*_*", "*", "udev_path"))
    ]
    targets = [
        os.path.basename(path)
        for kind in ("iqn", "naa", "eui")
        for path in glob.glob(os.path.join(core, "iscsi", f"{kind}.*"))
    ]
    return [f"LIO backstore {name}" for name in stores if name not in others["stores"]] + [
        f"LIO target {name}" for name in targets if name not in others["targets"]
    ]


def _files(root: str, patterns: Any, others: dict[str, Any]) -> list[str]:
    # open-iscsi keeps a file of the interface's name for the interface and for each of its records; exports have one file.
    lines, names = [], {f"storlab-{testbed_id}{end}" for testbed_id in others["ids"] for end in ("", ".exports")}
    for pattern in patterns:
        for path in glob.glob(os.path.join(root, pattern), recursive=True):
            shown = "/" + os.path.relpath(path, root)
            # Of a record that was added by hand it keeps a link, too: target,address,port,tag,interface.
            if os.path.basename(path) in names or (os.path.islink(path) and path.rpartition(",")[2] in names):
                continue
            if os.path.islink(path):
                lines.append(f"{shown} -> {os.readlink(path)}")
            elif os.path.isfile(path):
                try:
                    with open(path, "rb") as handle:
                        digest = hashlib.sha256(handle.read()).hexdigest()[:16]
                except OSError:
                    digest = "unreadable"
                lines.append(f"{shown} sha256 {digest}")
    return lines


def _own_files(root: str, others: dict[str, Any]) -> list[str]:
    lines = []
    for top in [path for folder in OWN_FOLDERS for path in sorted(glob.glob(os.path.join(root, folder)))]:
        for base, folders, files in os.walk(top):
            for path in (os.path.join(base, name) for name in folders + files):
                shown = "/" + os.path.relpath(path, root)
                of_others = _within(shown, others["folders"] | others["exports"])
                # A socket comes and goes with its process, and processes are listed.
                if not of_others and not _is_socket(path):
                    lines.append(shown)
    return lines


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def _processes(root: str, testbed_id: str, own: set[Any], others: dict[str, Any]) -> list[str]:
    """Storage daemons with how often each runs; one whose command line names a folder of another testbed is that one's."""
    counts: dict[str, Any] = {}
    ours = {f"/{base}/{name}" for base in OWN_FOLDERS for name in own}
    for pid in _list(os.path.join(root, "proc")):
        name = _read(os.path.join(root, "proc", pid, "comm")) if pid.isdigit() else ""
        if name not in DAEMONS or name in others["daemons"]:
            continue
        words = _read(os.path.join(root, "proc", pid, "cmdline")).split("\0")
        # Such as --pid-file /run/x and file=/run/x,readonly=on.
        paths = [part for word in words for part in re.split(r"[=,:]", word) if part.startswith("/")]
        if any(_within(path, others["folders"] | others["mount_points"]) for path in paths):
            others["exports"] |= {path for path in paths if _within(path, {"/run/storlab/nbd"})}
            continue
        of_ours = any(_within(path, ours) for path in paths)
        line = f"{name} of storlab {testbed_id}" if of_ours else name
        counts[line] = counts.get(line, 0) + 1
    return [f"{line} running {count} times" if count > 1 else f"{line} running" for line, count in counts.items()]


def _network(root: str, addresses_json: str) -> list[str]:
    lines = [f"network namespace {name}" for name in _list(os.path.join(root, "run/netns"))]
    for link in json.loads(addresses_json or "[]"):
        # Containers come and go by themselves, with an interface each.
        if re.fullmatch(r"veth([0-9]+|[0-9A-Za-z]{6,8})", link.get("ifname", "")):
            continue
        lines.append(f"interface {link['ifname']}")
        lines.extend(
            f"interface {link['ifname']} address {item['local']}/{item['prefixlen']}"
            for item in link.get("addr_info", [])
            if item.get("scope") != "link"
        )
    return lines


def gather(
    root: str = "/", addresses_json: str = "", testbed_id: str = "", own_names: Any = (), raid_scan: str = ""
) -> dict[str, Any]:
    """The storage state of the system under ``root``.

    testbed_id: what the records of other testbeds of this collection name is left out. Without it everything is listed.
    own_names: further names under which this testbed keeps folders below /run/storlab, such as its lab's.
    addresses_json: output of ``ip -json address show``; without it interfaces are left out.
    raid_scan: output of ``mdadm --examine --scan``.
    """
    own = {testbed_id, *own_names} - {""}
    if testbed_id and not own_names:
        # Nobody said which lab is the testbed's: every lab of its name may be.
        lab = re.compile(rf"storlab-{re.escape(testbed_id)}-[0-9a-f]{{6}}")
        own |= {name for name in _list(os.path.join(root, RECORDS)) if lab.fullmatch(name)}
    others = _others(root, own) if testbed_id else {key: set() for key in CLAIMS}
    processes = _processes(root, testbed_id, own, others)
    state = {
        "block_devices": _block_devices(root, others),
        "mounts": _mounts(root, others),
        "swaps": [line.split()[0] for line in _read(os.path.join(root, "proc/swaps")).splitlines()[1:]],
        "device_mapper": [
            _read(path)
            for path in glob.glob(os.path.join(root, "sys/block/dm-*/dm/name"))
            if path.split("/")[-3] not in others["devices"]
        ],
        "raid": _raid_superblocks(raid_scan, others),
        "cache_stamps": _cache_stamps(root, others),
        "iscsi_sessions": _iscsi_sessions(root, others),
        "targets": _targets(root, others),
        "configuration_files": _files(root, CONFIGURATION, others),
        "own_files": _own_files(root, others),
        "kernel_modules": [
            module
            for module in (line.split()[0] for line in _read(os.path.join(root, "proc/modules")).splitlines())
            if module not in others["modules"]
        ],
        "processes": processes,
        "network": _network(root, addresses_json),
    }
    # Two lines that read alike are two things.
    return {section: sorted(lines) for section, lines in state.items()}


def strays(before: dict[str, Any], after: dict[str, Any], ignore: Any = ()) -> list[str]:
    """What differs, one sentence fragment each; empty when the states are equal.

    ignore: regular expressions; a line that one of them matches (``re.search``) is passed over.

    What came is no stray where nobody here can have made it: a loop device on a file outside of this collection's folders, and what is mounted from it.
    What is gone always is one, because a teardown may have taken it.
    """
    lines, foreign = [], _foreign_loops(after)
    for section in sorted(set(before) | set(after)):
        old, new = Counter(before.get(section, ())), Counter(after.get(section, ()))
        title = section.replace("_", " ")
        came = [line for line in sorted((new - old).elements()) if not _of_loop(section, line, foreign)]
        lines += [f"{title}: {line} (was not there before)" for line in came]
        lines += [f"{title}: {line} (is gone)" for line in sorted((old - new).elements())]
    return [line for line in lines if not any(re.search(pattern, line) for pattern in ignore)]


def _foreign_loops(state: dict[str, Any]) -> set[str]:
    """The loop devices on files in none of the folders that this collection makes: the only ones it makes are RAM disks, with files in these."""
    loops = [re.fullmatch(r"(loop\d+) \d+ bytes on (/.*)", line) for line in state.get("block_devices", ())]
    ours = [re.compile(f"/{base.replace('[0-9]*', '[0-9].*')}(/.*)?") for base in OWN_FOLDERS]
    return {loop[1] for loop in loops if loop and not any(folder.fullmatch(loop[2]) for folder in ours)}


def _of_loop(section: str, line: str, loops: set[str]) -> bool:
    """Whether the line is one of these loop devices, a partition of one, or a mount of either."""
    name = (
        re.match(r"(loop\d+)(p\d+)? ", line.removeprefix("/dev/")) if section in ("block_devices", "mounts") else None
    )
    return name is not None and name[1] in loops
