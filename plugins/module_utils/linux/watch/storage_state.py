# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a host's storage, in a form that two moments can be compared in.

A state is a mapping of section to a sorted list of lines. Lines are plain text, so that the difference of two states is
a difference of multisets and each stray reads as a person would say it. Everything that changes by itself (usage counts,
process ids, log files) is left out.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from .. import mounts
from ..disks import cache_stamp, multipath
from ..host import NVME_TCP
from . import ownership
from .ownership import FOLDERS, Names, listed, read, session_interfaces, within

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
KERNEL_DAEMONS = frozenset(("nfsd",))
Claim = Callable[[Names], bool]
Line = tuple[str, Claim]


class State(NamedTuple):
    """lines: {section: [line]} of what no other testbed's records name. ours: those among them that this testbed has made, or that carry its mark."""

    lines: dict[str, list[str]]
    ours: dict[str, list[str]]


def _raid_superblocks(scan: str) -> Iterator[Line]:
    """Arrays whose superblocks are on disks of the host, assembled or not."""
    for line in scan.splitlines():
        words = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
        if line.startswith("ARRAY "):
            uuid, name = words.get("UUID", "none"), words.get("name", "an array without a name")
            yield f"superblocks of {name}, UUID {uuid}", partial(_is_array, uuid, name)


def _is_array(uuid: str, name: str, names: Names) -> bool:
    return uuid in names["arrays"] or name.partition(":")[0] in {f"storlab-{testbed_id}" for testbed_id in names["ids"]}


def _cache_stamps(root: str) -> Iterator[Line]:
    """Caches whose stamps are on disks of the host, put in or not."""
    for name in listed(os.path.join(root, "sys/block")):
        if name.startswith("dm-") or int(read(os.path.join(root, "sys/block", name, "size")) or 0) == 0:
            continue
        try:
            with open(os.path.join(root, "dev", name), "rb", buffering=0) as handle:
                stamp = cache_stamp.unpack(handle.read(cache_stamp.BYTES))
        except OSError:
            continue
        if stamp is not None:
            testbed_id = str(stamp.get("testbed_id", "?"))
            yield f"stamp of cache {testbed_id}/{stamp.get('name', '?')} on {name}", partial(_has, "ids", testbed_id)


def _has(kind: str, name: str, names: Names) -> bool:
    return name in names[kind]


def _block_devices(root: str) -> Iterator[Line]:
    for name in listed(os.path.join(root, "sys/block")):
        base = os.path.join(root, "sys/block", name)
        sectors = read(os.path.join(base, "size")) or "0"
        backing = read(os.path.join(base, "loop/backing_file"))
        if re.fullmatch(r"loop\d+", name) and not backing:
            continue
        claim = partial(_is_device, name, backing)
        yield f"{name} {int(sectors) * 512} bytes" + (f" on {backing}" if backing else ""), claim
        for part in listed(base):
            if os.path.exists(os.path.join(base, part, "partition")):
                yield f"{part} {int(read(os.path.join(base, part, 'size')) or 0) * 512} bytes", claim


def _is_device(name: str, backing: str, names: Names) -> bool:
    return name in names["devices"] or (bool(backing) and within(backing, names["folders"]))


def _mounts(root: str) -> Iterator[Line]:
    for mount in mounts.read(os.path.join(root, "proc/self/mountinfo")):
        where, kind, source = mount["mount_point"], mount["filesystem"], mount["source"]
        if kind not in PSEUDO_FILE_SYSTEMS and not (where + "/").startswith(OTHERS_MOUNTS):
            yield f"{source} on {where} type {kind}", partial(_is_mount, where)


def _is_mount(where: str, names: Names) -> bool:
    return where in names["mount_points"] or within(where, names["folders"])


def _device_mapper(root: str) -> Iterator[Line]:
    for path in sorted(glob.glob(os.path.join(root, "sys/block/dm-*/dm/name"))):
        yield read(path), partial(_has, "devices", path.split("/")[-3])


def _iscsi_sessions(root: str) -> Iterator[Line]:
    for name, iface in session_interfaces(root).items():
        base, number = os.path.join(root, "sys/class/iscsi_session", name), name[len("session") :]
        connection = os.path.join(root, f"sys/class/iscsi_connection/connection{number}:0")
        address, port = (read(os.path.join(connection, f"persistent_{part}")) for part in ("address", "port"))
        line = f"{read(os.path.join(base, 'targetname'))} at {address}:{port}, session {number}"
        yield line, partial(_is_interface, iface)


def _is_interface(iface: str, names: Names) -> bool:
    return iface in {f"storlab-{testbed_id}" for testbed_id in names["ids"]}


def _nvme_connections(root: str) -> Iterator[Line]:
    for name, host in ownership.nvme_controllers(root).items():
        base = os.path.join(root, "sys/class/nvme", name)
        words = dict(word.partition("=")[::2] for word in read(os.path.join(base, "address")).split(","))
        place = f"{read(os.path.join(base, 'subsysnqn'))} at {words.get('traddr', '')}:{words.get('trsvcid', '')}"
        yield f"{place} as {host}, controller {name}", partial(_has, "targets", host)


def _nvme_targets(root: str) -> Iterator[Line]:
    """All that nvmet, the NVMe target of the kernel, has: what is offered, where and to whom."""
    base = os.path.join(root, "sys/kernel/config/nvmet")
    for nqn in listed(os.path.join(base, "subsystems")):
        folder = os.path.join(base, "subsystems", nqn)
        claim = partial(_has, "targets", nqn)
        yield f"subsystem {nqn}", claim
        for number in listed(os.path.join(folder, "namespaces")):
            device = read(os.path.join(folder, "namespaces", number, "device_path"))
            yield f"subsystem {nqn} namespace {number} on {device}", claim
        for host in listed(os.path.join(folder, "allowed_hosts")):
            yield f"subsystem {nqn} for {host}", claim
    for number in listed(os.path.join(base, "ports")):
        folder = os.path.join(base, "ports", number)
        address, port = (read(os.path.join(folder, f"addr_{part}")) for part in ("traddr", "trsvcid"))
        claim = partial(_has, "targets", ownership.nvme_port(number))
        yield f"port {number} at {address} {port}", claim
        for nqn in listed(os.path.join(folder, "subsystems")):
            yield f"port {number} at {address} {port} with {nqn}", partial(_has, "targets", nqn)
    for host in listed(os.path.join(base, "hosts")):
        yield f"host {host}", partial(_has, "targets", host)


def _targets(root: str) -> Iterator[Line]:
    core = os.path.join(root, "sys/kernel/config/target")
    for path in glob.glob(os.path.join(core, "core", "*_*", "*", "udev_path")):
        name = os.path.basename(os.path.dirname(path))
        yield f"LIO backstore {name}", partial(_has, "stores", name)
    for kind in ("iqn", "naa", "eui"):
        for name in (os.path.basename(path) for path in glob.glob(os.path.join(core, "iscsi", f"{kind}.*"))):
            yield f"LIO target {name}", partial(_has, "targets", name)


def _files(root: str, patterns: Iterable[str]) -> Iterator[Line]:
    for pattern in patterns:
        for path in glob.glob(os.path.join(root, pattern), recursive=True):
            shown = "/" + os.path.relpath(path, root)
            link = os.path.islink(path)
            claim = partial(_is_file, shown, link)
            if link:
                yield f"{shown} -> {os.readlink(path)}", claim
            elif os.path.isfile(path):
                try:
                    with open(path, "rb") as handle:
                        content = handle.read()
                    digest = hashlib.sha256(content).hexdigest()[:16]
                except OSError:
                    content, digest = b"unreadable", "unreadable"
                # A multipathd that runs makes its files again, with comments alone, whenever it looks for a name.
                if shown in multipath.FILES and not multipath.wwids_of(shown, content.decode(errors="replace")):
                    continue
                yield f"{shown} sha256 {digest}", claim


def _is_file(shown: str, link: bool, names: Names) -> bool:
    # open-iscsi keeps a file of the interface's name for the interface and for each of its records; exports have one file. For a record that was
    # added by hand it keeps a link, too: target,address,port,tag,interface.
    own = {f"storlab-{testbed_id}{end}" for testbed_id in names["ids"] for end in ("", ".exports", ".exports.new")}
    return shown in names["files"] or os.path.basename(shown) in own or (link and shown.rpartition(",")[2] in own)


def _own_files(root: str) -> Iterator[Line]:
    for top in [path for folder in FOLDERS for path in sorted(glob.glob(os.path.join(root, folder)))]:
        for base, folders, files in os.walk(top):
            for path in (os.path.join(base, name) for name in folders + files):
                # A socket comes and goes with its process, and processes are listed.
                if not _is_socket(path):
                    shown = "/" + os.path.relpath(path, root)
                    yield shown, partial(_is_own_file, shown)


def _is_own_file(shown: str, names: Names) -> bool:
    return within(shown, names["folders"] | names["exports"])


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def _modules(text: str) -> Iterator[Line]:
    for line in text.splitlines():
        yield line.split()[0], partial(_has, "modules", line.split()[0])


class Process(NamedTuple):
    """A storage daemon and the paths that its command line names."""

    name: str
    paths: list[str]

    def of(self, names: Names) -> bool:
        if self.name in names["daemons"]:
            return True
        return any(within(path, names["folders"] | names["mount_points"]) for path in self.paths)


def _processes(root: str) -> list[Process]:
    processes = []
    for pid in listed(os.path.join(root, "proc")):
        name = read(os.path.join(root, "proc", pid, "comm")) if pid.isdigit() else ""
        words = read(os.path.join(root, "proc", pid, "cmdline")).split("\0") if name in DAEMONS else []
        # One without a command line has just ended, or is a thread of the kernel.
        if any(words) or name in KERNEL_DAEMONS:
            # Such as --pid-file /run/x and file=/run/x,readonly=on.
            paths = [part for word in words for part in re.split(r"[=,:]", word) if part.startswith("/")]
            processes.append(Process(name, paths))
    return processes


def _network(root: str, addresses_json: str) -> Iterator[Line]:
    lines = [f"network namespace {name}" for name in listed(os.path.join(root, "run/netns"))]
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
    # None of a testbed's: its interfaces are in a namespace of its own, below its folder.
    return ((line, _nobodys) for line in lines)


def _nobodys(_names: Names) -> bool:
    return False


def examine(
    root: str = "/",
    addresses_json: str = "",
    testbed_id: str = "",
    own_names: Iterable[str] = (),
    raid_scan: str = "",
    made: dict[str, object] | None = None,
) -> State:
    """The storage state of the system under ``root``, and what of it is this testbed's.

    testbed_id: what the records of other testbeds of this collection name is left out. Without it everything is listed, and nothing is ours.
    own_names: further names under which this testbed keeps folders below /run/storlab, such as its lab's.
    addresses_json: output of ``ip -json address show``; without it interfaces are left out.
    raid_scan: output of ``mdadm --examine --scan``.
    made: names (ownership.py) of what this testbed is known to have made, whose records may be gone with it.
    """
    own = {testbed_id, *own_names} - {""}
    if testbed_id and not own_names:
        # The testbed's lab is not named: every lab of its name may be.
        lab = re.compile(rf"storlab-{re.escape(testbed_id)}-[0-9a-f]{{6}}")
        own |= {name for name in listed(os.path.join(root, ownership.RECORDS)) if lab.fullmatch(name)}
    others, ours = ownership.nothing(), ownership.nothing()
    if testbed_id:
        others, ours = _whose(root, testbed_id, own, made or {})
    processes = _processes(root)
    for names in (others, ours):
        names["exports"] |= {
            path for item in processes if item.of(names) for path in item.paths if within(path, {"/run/storlab/nbd"})
        }
    modules = read(os.path.join(root, "proc/modules"))
    if set(ownership.nvme_controllers(root).values()) - ours["targets"]:
        # Connections of others, which are not counted as uses of it.
        ours["modules"] -= {NVME_TCP}
    ours["modules"] -= ownership.held_modules(modules, ours["modules"])
    sections: dict[str, Iterable[Line]] = {
        "block_devices": _block_devices(root),
        "mounts": _mounts(root),
        "swaps": [(name, _nobodys) for name in mounts.swap_spaces(read(os.path.join(root, "proc/swaps")))],
        "device_mapper": _device_mapper(root),
        "raid": _raid_superblocks(raid_scan),
        "cache_stamps": _cache_stamps(root),
        "iscsi_sessions": _iscsi_sessions(root),
        "nvme_connections": _nvme_connections(root),
        "nvme_targets": _nvme_targets(root),
        "targets": _targets(root),
        "configuration_files": _files(root, CONFIGURATION),
        "own_files": _own_files(root),
        "kernel_modules": _modules(modules),
        "processes": _process_lines(processes, testbed_id, ours["folders"] | ownership.places_of(root, own)),
        "network": _network(root, addresses_json),
    }
    state = State({}, {})
    for section, lines in sections.items():
        kept = [(line, claim(ours)) for line, claim in lines if not claim(others)]
        # Two lines that read alike are two things.
        state.lines[section] = sorted(line for line, _mine in kept)
        state.ours[section] = sorted(line for line, mine in kept if mine)
    return state


def _process_lines(processes: list[Process], testbed_id: str, places: set[str]) -> Iterator[Line]:
    folders = {**ownership.nothing(), "folders": places}
    for process in processes:
        mark = f" of storlab {testbed_id}" if process.of(folders) else ""
        yield f"{process.name}{mark} running", process.of


def _whose(root: str, testbed_id: str, own: set[str], made: dict[str, Any]) -> tuple[Names, Names]:
    """(names of other testbeds, names of this one)"""
    foreign = [path for path in ownership.folders_on_host(root) if os.path.basename(path) not in own]
    records = os.path.join(root, ownership.RECORDS)
    others = ownership.on_host(root, {os.path.basename(path) for path in foreign if os.path.dirname(path) == records})
    others["folders"] |= {"/" + os.path.relpath(path, root) for path in foreign}
    # A lab of machines is there before its testbed is built, and ends after the proof: it is compared like anything else.
    mine = {testbed_id}
    ours = ownership.union(ownership.on_host(root, mine), {kind: set(made.get(kind, ())) for kind in ownership.KINDS})
    ours["ids"] |= mine
    ours["folders"] |= ownership.places_of(root, mine)
    ours = ownership.with_devices(root, ours)
    if glob.glob(os.path.join(root, "sys/class/iscsi_session/session*")):
        # Somebody's session needs it, so it stays for him.
        ours["daemons"] -= {"iscsid"}
    if read(os.path.join(root, "var/lib/nfs/etab")).strip():
        # Whose exports are left, his is the server that was started for ours (nfs_export leaves it).
        ours["daemons"] -= {"nfsd"}
        ours["mount_points"] -= {"/proc/fs/nfsd"}
    return others, ours
