# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's storage looks like, in a form that two moments can be compared in.

A state is a mapping of section to a sorted list of lines. Lines are plain text, so that the difference of two states is
a difference of sets and each stray reads as it would be told to a person. Everything that changes by itself (usage counts,
process ids, log files) is left out.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import stat

# Mounts that systems make and drop by themselves and that never carry a testbed's data.
PSEUDO_FILE_SYSTEMS = frozenset((
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "debugfs", "devpts", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs",
    "overlay", "proc", "pstore", "ramfs", "rpc_pipefs", "securityfs", "sysfs", "tracefs",
))
OTHERS_MOUNTS = ("/run/netns/", "/run/user/", "/run/credentials/", "/run/docker/", "/var/lib/docker/", "/var/lib/containers/", "/snap/")
CONFIGURATION = (
    "etc/exports", "etc/exports.d/*", "etc/fstab", "etc/initiatorname.iscsi", "etc/iscsi/**", "etc/lvm/devices/*", "etc/lvm/lvm.conf",
    "etc/mdadm.conf", "etc/mdadm/mdadm.conf", "etc/modprobe.d/*", "etc/modules-load.d/*", "etc/multipath.conf", "etc/multipath/**",
    "etc/rtslib-fb-target/**", "etc/systemd/system/**", "etc/target/**", "etc/tgt/**", "etc/udev/rules.d/*", "var/lib/iscsi/**",
)
DAEMONS = frozenset((
    "dmeventd", "fio", "iscsid", "mdadm", "mdmon", "multipathd", "nbd-server", "nfsd", "qemu-nbd", "qemu-storage-daemon", "qemu-system-x86", "tgtd",
))
OWN_FOLDERS = ("run/storlab", "var/lib/storlab", "var/tmp/storlab")


def _of_another_testbed(text: str, testbed_id: str) -> bool:
    """Whether the text carries this collection's stamp but not this testbed's id: several testbeds may share a host."""
    return bool(testbed_id) and "storlab" in text and not re.search(rf"(?<![A-Za-z0-9]){re.escape(testbed_id)}(?![A-Za-z0-9])", text)


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


def _block_devices(root: str) -> list[str]:
    lines = []
    for name in _list(os.path.join(root, "sys/block")):
        base = os.path.join(root, "sys/block", name)
        sectors = _read(os.path.join(base, "size")) or "0"
        backing = _read(os.path.join(base, "loop/backing_file"))
        if name.startswith("loop") and not backing:
            continue
        lines.append(f"{name} {int(sectors) * 512} bytes" + (f" on {backing}" if backing else ""))
        for part in _list(base):
            if part.startswith(name) and os.path.exists(os.path.join(base, part, "partition")):
                lines.append(f"{part} {int(_read(os.path.join(base, part, 'size')) or 0) * 512} bytes")
    return lines


def _mounts(root: str) -> list[str]:
    lines = []
    for line in _read(os.path.join(root, "proc/self/mountinfo")).splitlines():
        left, _, right = line.partition(" - ")
        where, (kind, source) = left.split()[4], right.split()[:2]
        if kind in PSEUDO_FILE_SYSTEMS or (where + "/").startswith(OTHERS_MOUNTS):
            continue
        lines.append(f"{source} on {where} type {kind}")
    return lines


def _iscsi_sessions(root: str) -> list[str]:
    lines = []
    for name in _list(os.path.join(root, "sys/class/iscsi_session")):
        base = os.path.join(root, "sys/class/iscsi_session", name)
        lines.append(_read(os.path.join(base, "targetname")))
    return lines


def _targets(root: str) -> list[str]:
    core = os.path.join(root, "sys/kernel/config/target")
    backstores = glob.glob(os.path.join(core, "core", "*_*", "*", "udev_path"))
    exports = [path for kind in ("iqn", "naa", "eui") for path in glob.glob(os.path.join(core, "iscsi", f"{kind}.*"))]
    return ([f"LIO backstore {os.path.basename(os.path.dirname(path))}" for path in backstores]
            + [f"LIO target {os.path.basename(path)}" for path in exports])


def _files(root: str, patterns) -> list[str]:
    lines = []
    for pattern in patterns:
        for path in glob.glob(os.path.join(root, pattern), recursive=True):
            shown = "/" + os.path.relpath(path, root)
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


def _own_files(root: str) -> list[str]:
    lines = []
    for folder in OWN_FOLDERS:
        for base, folders, files in os.walk(os.path.join(root, folder)):
            # A socket comes and goes with its process, and processes are listed.
            lines.extend("/" + os.path.relpath(os.path.join(base, name), root) for name in folders + files if not _is_socket(os.path.join(base, name)))
    return lines


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def _processes(root: str, testbed_id: str) -> list[str]:
    counts: dict = {}
    for pid in _list(os.path.join(root, "proc")):
        if pid.isdigit():
            name = _read(os.path.join(root, "proc", pid, "comm"))
            command = _read(os.path.join(root, "proc", pid, "cmdline"))
            if name in DAEMONS and not _of_another_testbed(command, testbed_id):
                line = f"{name} of storlab {testbed_id}".strip() if "storlab" in command else name
                counts[line] = counts.get(line, 0) + 1
    return [f"{line} running {count} times" if count > 1 else f"{line} running" for line, count in counts.items()]


def _network(root: str, addresses_json: str) -> list[str]:
    lines = [f"network namespace {name}" for name in _list(os.path.join(root, "run/netns"))]
    for link in json.loads(addresses_json or "[]"):
        # Containers come and go by themselves, with an interface each.
        if link.get("ifname", "").startswith("veth"):
            continue
        lines.append(f"interface {link['ifname']}")
        lines.extend(f"interface {link['ifname']} address {item['local']}/{item['prefixlen']}"
                     for item in link.get("addr_info", []) if item.get("scope") != "link")
    return lines


def gather(root: str = "/", addresses_json: str = "", testbed_id: str = "") -> dict:
    """The storage state of the system under ``root``.

    testbed_id: what another testbed of this collection has there is left out.
    addresses_json: output of ``ip -json address show``; without it interfaces are left out.
    """
    state = {
        "block_devices": _block_devices(root),
        "mounts": _mounts(root),
        "swaps": [line.split()[0] for line in _read(os.path.join(root, "proc/swaps")).splitlines()[1:]],
        "device_mapper": [_read(path) for path in glob.glob(os.path.join(root, "sys/block/dm-*/dm/name"))],
        "iscsi_sessions": _iscsi_sessions(root),
        "targets": _targets(root),
        "configuration_files": _files(root, CONFIGURATION),
        "own_files": _own_files(root),
        "kernel_modules": [line.split()[0] for line in _read(os.path.join(root, "proc/modules")).splitlines()],
        "processes": _processes(root, testbed_id),
        "network": _network(root, addresses_json),
    }
    return {section: sorted({line for line in lines if not _of_another_testbed(line, testbed_id)}) for section, lines in state.items()}


def strays(before: dict, after: dict, ignore=()) -> list[str]:
    """What differs, one sentence fragment each; empty when the states are equal.

    ignore: regular expressions; a line that one of them matches (``re.search``) is passed over.
    """
    found = []
    for section in sorted(set(before) | set(after)):
        old, new = set(before.get(section, ())), set(after.get(section, ()))
        title = section.replace("_", " ")
        found += [f"{title}: {line} (was not there before)" for line in sorted(new - old)]
        found += [f"{title}: {line} (is gone)" for line in sorted(old - new)]
    return [line for line in found if not any(re.search(pattern, line) for pattern in ignore)]
