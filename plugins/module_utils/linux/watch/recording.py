# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers of a Linux host that this collection's readers use: files of /proc, /sys and /etc, and what commands print that only look.

A recording is ``{files: {path without the first slash: text | {link: target} | {latin1: bytes}}, outputs: {command line: {rc, out}}}``.
The form of the files is that of other people's recorded trees, so both can be played by the same program.
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any

from ...core.failure import Failure
from ...core.pseudonyms import Pseudonyms
from ..host import run

MOST_BYTES, MOST_FILE_BYTES, COMMAND_S = 8 << 20, 64 << 10, 20.0
FILES = (
    "etc/os-release",
    "etc/debian_version",
    "etc/exports",
    "etc/iscsi/initiatorname.iscsi",
    "etc/mdadm/mdadm.conf",
    "etc/mdadm.conf",
    "etc/multipath.conf",
    "proc/cpuinfo",
    "proc/filesystems",
    "proc/fs/nfs/exports",
    "proc/fs/nfsd/pool_threads",
    "proc/fs/nfsd/threads",
    "proc/fs/nfsd/versions",
    "proc/fs/nfsd/clients/*/info",
    "proc/fs/nfsd/clients/*/states",
    "proc/fs/nfsfs/servers",
    "proc/fs/nfsfs/volumes",
    "proc/mdstat",
    "proc/meminfo",
    "proc/modules",
    "proc/partitions",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "proc/self/mountstats",
    "proc/swaps",
    "proc/sys/kernel/osrelease",
    "proc/uptime",
    "proc/version",
    "sys/devices/system/clocksource/clocksource0/*_clocksource",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_*",
    "sys/devices/system/cpu/smt/active",
    "sys/devices/system/cpu/vulnerabilities/*",
    "sys/devices/virtual/dmi/id/sys_vendor",
    "sys/devices/virtual/dmi/id/product_name",
    "sys/fs/cgroup/memory.max",
    "sys/hypervisor/type",
    "var/lib/nfs/etab",
)
# Folders that are read as a whole, {folder: how deep}. Links in them lead to the devices, of which DEVICE says what is read.
FOLDERS = {
    "sys/class/iscsi_session": 3,
    "sys/class/iscsi_host": 3,
    "sys/class/iscsi_connection": 3,
    "sys/kernel/config/target": 8,
    "sys/kernel/config/nvmet": 6,
}
DEVICE = (
    "alignment_offset",
    "capability",
    "dev",
    "ro",
    "removable",
    "size",
    "stat",
    "uuid",
    "wwid",
    "serial",
    "partition",
    "bcache/*",
    "device/address",
    "device/model",
    "device/rev",
    "device/serial",
    "device/state",
    "device/type",
    "device/vendor",
    "device/vpd_pg*",
    "device/wwid",
    "device/transport",
    "device/subsysnqn",
    "device/queue_depth",
    "dm/*",
    "holders",
    "loop/*",
    "md/*",
    "md/dev-*/*",
    "queue/*",
    "slaves",
)
COMMANDS = (
    "blkid -o export",
    "dmsetup info -c --noheadings --separator | -o name,uuid,major,minor,attr,open,segments",
    "dmsetup status",
    "dmsetup table",
    "dpkg-query -W -f ${Package}|${Version}\\n fio tgt targetcli-fb open-iscsi mdadm nfs-kernel-server multipath-tools lvm2",
    "exportfs -v",
    "fio --version",
    "ip -json address show",
    "iscsiadm -m iface",
    "iscsiadm -m node",
    "iscsiadm -m session -P 3",
    "lsblk -J -O -b",
    "lvs --reportformat json -o +devices",
    "mdadm --detail --scan",
    "mdadm --examine --scan",
    "multipath -ll",
    "nvme list -o json",
    "pvs --reportformat json",
    "rpm -q fio targetcli iscsi-initiator-utils mdadm nfs-utils device-mapper-multipath",
    "systemd-detect-virt",
    "tgtadm --lld iscsi --mode target --op show",
    "uname -a",
    "xfs_info -V",
)
# Never read: secrets of CHAP, also of names that a later kernel may give them.
SECRET = re.compile(r"(^|/)(auth|.*password.*|.*secret.*|dhchap.*|.*\buserid.*)(/|$)", re.IGNORECASE)
# Files that name clients of exports.
EXPORTS = ("etc/exports", "var/lib/nfs/etab", "proc/fs/nfs/exports")
# Files that hold a serial number and nothing else.
_SERIAL_IN_OUTPUT = re.compile(
    r'"serial"\s*:\s*"([^"]+)"|ID_SERIAL(?:_SHORT)?=(\S+)|SerialNumber"\s*:\s*"([^"]+)"|SCSI SN: (\S+)'
)
SERIALS = ("*/serial", "*/vpd_unit_serial", "*/device/vpd_pg80", "*/product_serial")


def paths(root: str) -> Iterator[str]:
    """Below root, without a first slash: every file that is read, and every link on the way to a device."""
    for pattern in FILES:
        yield from _matching(root, "", pattern.split("/"))
    for folder, depth in FOLDERS.items():
        yield from _below(root, folder, depth)
    for name in _names(root, "sys/class/block"):
        yield f"sys/class/block/{name}"
    # Where the links of sys/class/block lead to.
    for device in sorted({_real(root, f"sys/class/block/{name}") for name in _names(root, "sys/class/block")}):
        for pattern in DEVICE:
            for path in _matching(root, device, pattern.split("/")):
                if os.path.isdir(os.path.join(root, path)) and not os.path.islink(os.path.join(root, path)):
                    yield from _below(root, path, 1)
                else:
                    yield path
        yield from (f"sys/block/{name}" for name in [os.path.basename(device)] if name in _names(root, "sys/block"))
    for name in _names(root, "sys/class/net"):
        yield from (f"sys/class/net/{name}/{file}" for file in ("mtu", "operstate", "speed", "carrier"))


def _names(root: str, folder: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(root, folder)))
    except OSError:
        return []


def _real(root: str, path: str) -> str:
    return os.path.relpath(os.path.realpath(os.path.join(root, path)), root)


def _matching(root: str, folder: str, parts: list[str]) -> Iterator[str]:
    names = _names(root, folder) if "*" in parts[0] else [parts[0]]
    for name in fnmatch.filter(names, parts[0]):
        path = f"{folder}/{name}" if folder else name
        if len(parts) > 1:
            yield from _matching(root, path, parts[1:])
        elif os.path.lexists(os.path.join(root, path)):
            yield path


def _below(root: str, folder: str, depth: int) -> Iterator[str]:
    for name in _names(root, folder):
        path = f"{folder}/{name}"
        full = os.path.join(root, path)
        if os.path.islink(full) or not os.path.isdir(full):
            yield path
        elif depth > 1:
            yield from _below(root, path, depth - 1)


def _content(full: str) -> object:
    """Its text, other bytes as {latin1}, a link as {link}; None where it cannot be read."""
    try:
        if os.path.islink(full):
            return {"link": os.readlink(full)}
        handle = os.open(full, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            data = os.read(handle, MOST_FILE_BYTES)
            while len(data) < MOST_FILE_BYTES:
                more = os.read(handle, MOST_FILE_BYTES)
                if not more:
                    break
                data += more
        finally:
            os.close(handle)
    except OSError:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"latin1": data.decode("latin1")}
    return {"latin1": text} if "\0" in text else text


def record(root: str = "/") -> dict[str, Any]:
    files: dict[str, Any] = {}
    total = 0
    for path in paths(root):
        if path in files or SECRET.search(path):
            continue
        value = _content(os.path.join(root, path))
        if value is None:
            continue
        total += len(value if isinstance(value, str) else str(value))
        if total > MOST_BYTES:
            break
        files[path] = value
    outputs = {}
    for line in COMMANDS if root == "/" else ():
        try:
            done: subprocess.CompletedProcess[str] = run(line.split(" "), ok=tuple(range(256)), timeout_s=COMMAND_S)
            outputs[line] = {"rc": done.returncode, "out": done.stdout[:MOST_FILE_BYTES]}
        except Failure:
            continue
    return {"files": files, "outputs": outputs}


# ---------------------------------------------------------------- without what identifies the lab


def names_in(recording: dict[str, Any]) -> set[str]:
    """Names of this host, of NFS servers and of NFS clients, as the answers show them."""
    names: set[str] = set()
    words = str(recording["outputs"].get("uname -a", {}).get("out", "")).split()
    names.update(words[1:2])
    table = recording["files"].get("proc/self/mountinfo")
    for info in table.splitlines() if isinstance(table, str) else []:
        source = info.partition(" - ")[2].split(" ")[1:2]
        server, colon, _folder = (source[0] if source else "").partition(":/")
        if colon:
            names.add(server.strip("[]"))
    texts = [recording["files"].get(path) for path in EXPORTS] + [
        recording["outputs"].get("exportfs -v", {}).get("out")
    ]
    for text in texts:
        names.update(
            client.lstrip("@") for client in re.findall(r"\s([^\s()*]+)\(", text if isinstance(text, str) else "")
        )
    for path, value in recording["files"].items():
        if fnmatch.fnmatch(path, "proc/fs/nfsd/clients/*/info") and isinstance(value, str):
            names.update(name.split()[-1] for name in re.findall(r'^name: "([^"]+)"', value, re.MULTILINE))
    return names


def scrubbed(recording: dict[str, Any], key: bytes, names: set[str]) -> dict[str, object]:
    """The recording with other names, addresses, identifiers and serial numbers, each the same everywhere."""
    serials = {
        value.strip()
        for path, value in recording["files"].items()
        if isinstance(value, str) and value.strip() and any(fnmatch.fnmatch(path, pattern) for pattern in SERIALS)
    }
    for output in recording["outputs"].values():
        serials.update(part for groups in _SERIAL_IN_OUTPUT.findall(output["out"]) for part in groups if part)
    for path, value in recording["files"].items():
        if path.endswith("/vpd_pg80") and isinstance(value, dict):
            serials.add(value["latin1"][4:].strip(" \0"))
    pseudonyms = Pseudonyms(key, names_in(recording) | names | serials)

    def value_of(path: str, value: Any) -> object:
        if isinstance(value, str):
            return pseudonyms.text(value)
        kind, text = next(iter(value.items()))
        # Identifiers in pages of vital product data are bytes, and text in some designators.
        return {kind: _page(pseudonyms, path, text) if kind == "latin1" else pseudonyms.text(text)}

    return {
        "files": {pseudonyms.text(path): value_of(path, value) for path, value in recording["files"].items()},
        "outputs": {
            line: {**output, "out": pseudonyms.text(output["out"])} for line, output in recording["outputs"].items()
        },
    }


def _page(pseudonyms: Pseudonyms, path: str, text: str) -> str:
    """A binary file with other identifiers. Page 0x83 (SPC-4, 7.8.6): designators of {code set, type, reserved, length, identifier}."""
    if not path.endswith("/vpd_pg83"):
        return pseudonyms.text(text)
    data, new, at = text.encode("latin1"), text.encode("latin1")[:4], 4
    while at + 4 <= len(data):
        head, length = data[at : at + 4], data[at + 3]
        body = data[at + 4 : at + 4 + length]
        if head[0] & 15 == 1:
            # Binary: as the same digits are replaced where other files show them as text.
            body = bytes.fromhex(pseudonyms.digits(body.hex()))
        else:
            body = pseudonyms.text(body.decode("latin1")).encode("latin1").ljust(length)[:length]
        new += head + body
        at += 4 + length
    return new.decode("latin1")
