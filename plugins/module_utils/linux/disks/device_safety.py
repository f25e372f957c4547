# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proof that a path is the testbed's own device before anything is written to it. Rules and codes: docs/safety.md.

``usage`` reads who uses a path; ``inspect`` adds what the host knows about the device itself. Two judgements use them: ``refusals`` is
pure and says why it must not be overwritten, and ``block_device.users`` says why it must not go.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from ...core.failure import Failure
from ...core.iscsi_names import unit_serial
from ...core.layers import Layer, generation
from .. import mounts
from ..nouns import Mount
from . import cache_stamp, designators, nfs_volumes, scsi_pages
from .facts import Export, Facts
from .sought import Sought, btrfs_members, loop_backing, numbers, twins

# The program that holds a device open because software exports it; kernels export without one.
DAEMONS = {"tgt": "tgtd"}
# Refusals that cannot be overridden: there is nothing to measure, or writing would destroy what is in use this very moment.
FINAL = (
    "device_missing",
    "not_a_device",
    "device_unreadable",
    "device_mounted",
    "device_swap",
    "device_claimed",
    "wrong_size",
    "purpose_data",
)


class System:
    """The host's own interfaces; tests give a folder as root and answer ``stat``, ``exclusive`` and ``run`` themselves."""

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def real(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def read(self, path: str) -> str | None:
        """Text of a small file, None when the kernel does not have it."""
        raw = self.read_bytes(path)
        return None if raw is None else raw.decode("utf-8", "replace").strip("\x00 \n")

    def read_bytes(self, path: str) -> bytes | None:
        try:
            with open(self.real(path), "rb") as handle:
                return handle.read()
        except OSError as error:
            # sysfs attributes a driver does not implement exist and fail on reading, each driver in its own way.
            if error.errno in (
                errno.ENOENT,
                errno.ENOTDIR,
                errno.EINVAL,
                errno.EIO,
                errno.ENODEV,
                errno.ENXIO,
                errno.EOPNOTSUPP,
                errno.ESRCH,
            ):
                return None
            raise

    def head(self, path: str, count: int) -> bytes:
        """The first bytes of a file or device, empty when it cannot be read."""
        try:
            with open(self.real(path), "rb", buffering=0) as handle:
                return handle.read(count) or b""
        except OSError:
            return b""

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.real(path)))
        except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
            return []
        except PermissionError:
            if path.startswith("/proc/"):
                return []  # a process this user may not look into
            raise

    def resolve(self, path: str) -> str:
        if self.root == "/":
            return os.path.realpath(path)
        # Links in a folder that stands for the root are followed as if it were the root.
        seen = 0
        while os.path.islink(self.real(path)) and seen < 40:
            path, seen = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(self.real(path)))), seen + 1
        return path

    def stat(self, path: str) -> os.stat_result:
        return os.stat(self.real(path))

    def read_link(self, path: str) -> str | None:
        """Where a symbolic link leads, None when there is none or this user may not know."""
        try:
            return os.readlink(self.real(path))
        except OSError:  # gone meanwhile, or a process this user may not look into
            return None

    def exclusive(self, path: str) -> str | None:
        """None when the block device can be claimed, else the reason: 'EBUSY' when the kernel gave it to somebody else.

        Other programs claim a device for less than a millisecond while they look at it, so one refusal is not an answer.
        """
        for pause_s in (0.02, 0.02, None):
            try:
                os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_NONBLOCK | os.O_CLOEXEC))
                return None
            except OSError as error:
                if error.errno != errno.EBUSY or pause_s is None:
                    return _error_name(error)
            time.sleep(pause_s)
        return None

    def loop_backing(self, name: str) -> tuple[str, int, str] | None:
        """The file behind a loop device by number, which no path of sysfs shows: it may be one of another root."""
        return loop_backing(self.real(f"/dev/{name}"))

    def listens(self, path: str) -> bool:
        """Whether somebody serves a Unix socket, or may: only a socket that its process left behind is refused."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            try:
                connection.connect(self.real(path))
            except (ConnectionRefusedError, FileNotFoundError):
                return False
            except OSError:
                return True
        return True

    def run(self, argv: list[str]) -> tuple[int, str, str] | None:
        """(exit code, stdout, stderr), or None when the tool is not installed."""
        tool = shutil.which(argv[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin")
        if tool is None:
            return None
        try:
            done = subprocess.run(
                [tool, *argv[1:]],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=60,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 124, "", f"{argv[0]} did not end within 60 s"
        return done.returncode, done.stdout, done.stderr


def _error_name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error.errno))


# ---------------------------------------------------------------- reading


def usage(path: str, system: System | None = None, with_openers: bool = True) -> Facts:
    """Who uses a path, as far as this host's kernel and its tgtd know. Never opens the device: a dead one would keep the reader waiting.

    Says ``type``, ``resolved``, and for a block device or file all that counts for it and for every device on it (partitions,
    LVM, RAID, multipath, loop devices), and on its ``twins``, other paths to the same LUN: ``mounts`` (mount points, of every mount
    namespace), ``swap``, ``partitions``, ``holders``, ``loops``, ``exports`` ({software, name, serial, device, claims}), ``openers``
    ({pid, command, writes}) and ``above``, the devices at the top. All of it by number, see sought.py.
    """
    system = system or System()
    resolved = system.resolve(path)
    facts: Facts = {"path": path, "resolved": resolved, "type": "missing"}
    try:
        status = system.stat(resolved)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            facts.update({"type": "unknown", "claim": _error_name(error)})
        return facts
    facts["type"] = _type(status.st_mode)
    if facts["type"] not in ("block", "file"):
        return facts
    facts["held_as"] = _held_as(status)
    bottoms: list[tuple[str, str | None]] = [(resolved, None)]
    bottom = (numbers(status.st_dev), status.st_ino) if facts["type"] == "file" else None
    if facts["type"] == "block":
        folder = system.resolve(f"/sys/dev/block/{numbers(status.st_rdev)}")
        bottoms = [(resolved, folder), *((f"/dev/{os.path.basename(twin)}", twin) for twin in twins(system, folder))]
    stack = _stack(system, bottoms, bottom)
    sought = Sought(system, set(stack) | {resolved}, {item["number"] for item in stack.values()} - {None}, bottom)
    own = stack[resolved]
    facts.update(
        {
            "twins": {node: stack[node]["holders"] for node, _folder in bottoms[1:]},
            "above": [node for node, item in stack.items() if node != resolved and not item["holders"]],
            "loops": sorted(name for item in stack.values() for name in item["loops"]),
            "partitions": own["partitions"],
            "holders": own["holders"],
            "holders_above": sorted(
                {name for item in stack.values() for name in item["holders"]} - set(own["holders"])
            ),
            "mounts": _mount_points(system, sought),
            "swap": any(
                system.resolve(name) in sought.nodes or sought.at(name)
                for name in mounts.swap_spaces(system.read("/proc/swaps") or "")
            ),
            "exports": [
                export
                for export in _lio_exports(system) + _nvmet_exports(system) + _tgt_exports(system)
                if export.get("number") in sought.devices or sought.at(export["device"])
            ],
        }
    )
    if with_openers:
        facts["openers"] = sought.openers()
    return facts


def inspect(path: str, root: str = "/", system: System | None = None) -> Facts:
    """Everything the guard needs to know about a path: who uses it, and what it is; reads only."""
    system = system or System(root)
    facts = usage(path, system)
    if facts["type"] == "block":
        status = system.stat(facts["resolved"])
        folder = system.resolve(f"/sys/dev/block/{numbers(status.st_rdev)}")
        facts.update(_block_facts(system, facts["resolved"], folder, status.st_rdev))
        facts["claimed_above"] = [
            node for node in facts["above"] if system.exclusive(node) == "EBUSY" and _signature(system, node) != BLANK
        ]
    elif facts["type"] == "file":
        facts.update(_file_facts(system, facts["resolved"], system.stat(facts["resolved"])))
    return facts


def _held_as(status: os.stat_result) -> str:
    """The mark that distinguishes the opened thing from another of that name: a device's numbers, or a file's inode on its file system."""
    if stat.S_ISBLK(status.st_mode):
        return numbers(status.st_rdev)
    return f"inode {status.st_ino} on {numbers(status.st_dev)}"


def hold(facts: Facts, flags: int = 0) -> int:
    """The judged device or file, open for reading; raises device_changed when something else took its name since it was judged."""
    held = os.open(facts["resolved"], os.O_RDONLY | os.O_CLOEXEC | flags)
    opened = _held_as(os.fstat(held))
    if opened != facts["held_as"]:
        os.close(held)
        raise Failure(
            "device_changed",
            f"{facts['resolved']} was replaced while it was looked at: it was {facts['held_as']} and is {opened}.",
            "Find out what changes devices on this host, and run again.",
            path=facts["resolved"],
        )
    return held


def identity(path: str, system: System | None = None) -> Facts:
    """The proof of which device a path is: {path, type, major_minor, serial, naa, wwid, designators, mapped, mapped_uuid}; never opens it."""
    system = system or System()
    facts: Facts = {"path": path, "type": "missing"}
    try:
        status = system.stat(path)
    except OSError:
        return facts
    facts["type"] = _type(status.st_mode)
    if facts["type"] == "block":
        folder = system.resolve(f"/sys/dev/block/{numbers(status.st_rdev)}")
        facts.update({"major_minor": numbers(status.st_rdev)})
        facts.update(_identity_facts(system, folder))
    return facts


def _type(mode: int) -> str:
    for name, test in (
        ("block", stat.S_ISBLK),
        ("file", stat.S_ISREG),
        ("directory", stat.S_ISDIR),
        ("character device", stat.S_ISCHR),
    ):
        if test(mode):
            return name
    return "special file"


def _stack(system: System, bottoms: list[tuple[str, str | None]], file: tuple[str, int] | None) -> dict[str, Any]:
    """{node: {number, partitions, holders, loops}} of these and every device above them.

    bottoms: (path, folder in sysfs), without a folder for a file; file: the mark that distinguishes that file from all others.
    """
    loops = [
        (name, system.resolve(backing), system.loop_backing(name))
        for name in system.names("/sys/block")
        if (backing := system.read(f"/sys/block/{name}/loop/backing_file"))
    ]
    stack: dict[str, Any] = {}
    todo = list(bottoms)
    while todo:
        node, folder = todo.pop(0)
        if node in stack:
            continue
        entries = system.names(folder) if folder else []
        partitions = [entry for entry in entries if system.read(f"{folder}/{entry}/partition")]
        holders = system.names(f"{folder}/holders") if folder else []
        number = system.read(f"{folder}/dev") if folder else None
        this = Sought(system, {node}, {number} if number else set(), None if folder else file)
        stack[node] = {
            "number": number,
            "partitions": partitions,
            "holders": holders,
            "loops": [name for name, path, backing in loops if path == node or this.behind_loop(backing)],
        }
        upper = [f"{folder}/{entry}" for entry in partitions]
        upper += [system.resolve(f"{folder}/holders/{name}") for name in holders]
        upper += [system.resolve(f"/sys/block/{name}") for name in stack[node]["loops"]]
        todo += [(f"/dev/{os.path.basename(above)}", above) for above in upper]
    return stack


def _mount_points(system: System, sought: Sought) -> list[str]:
    """Where it is mounted, in whatever mount namespace a process lives in: a container's mounts are in use, too."""
    points: dict[Any, Any] = {}
    for pid in _process_per_view(system):
        for mount in _mounts(system, pid):
            if mount["mount_point"] not in points and sought.mounted(mount, pid):
                elsewhere = "" if pid == "self" else f" (as process {pid} sees it)"
                points[mount["mount_point"]] = f"{mount['mount_point']}{elsewhere}"
    several = [uuid for uuid, devices in btrfs_members(system).items() if sought.devices.intersection(devices)]
    return list(points.values()) or [f"a folder, as part of the Btrfs file system {uuid}" for uuid in several]


def _process_per_view(system: System) -> list[str]:
    """'self', then one process for each other mount namespace and root: they see other mounts."""
    seen, pids = set(), ["self", *sorted((pid for pid in system.names("/proc") if pid.isdigit()), key=int)]
    views = []
    for pid in pids:
        view = (system.read_link(f"/proc/{pid}/ns/mnt"), system.read_link(f"/proc/{pid}/root"))
        if pid == "self" or (view[0] is not None and view not in seen):
            views.append(pid)
        seen.add(view)
    return views


def _block_facts(system: System, resolved: str, folder: str, rdev: int) -> Facts:
    entries = system.names(folder)
    facts: Facts = {
        "major_minor": numbers(rdev),
        "name": os.path.basename(folder),
        "size_bytes": int(system.read(f"{folder}/size") or 0) * 512,
        "read_only": system.read(f"{folder}/ro") == "1",
        "partition": "partition" in entries,
        "whole_device": f"/dev/{os.path.basename(os.path.dirname(folder) if 'partition' in entries else folder)}",
        "claim": system.exclusive(resolved),
        **_identity_facts(system, folder),
    }
    facts.update(_signature(system, resolved))
    return facts


def _identity_facts(system: System, folder: str) -> Facts:
    """serial, naa, wwid and designators as far as the kernel knows them."""
    serial = scsi_pages.unit_serial(system.read_bytes(f"{folder}/device/vpd_pg80") or b"")
    naa = scsi_pages.naa_names(system.read_bytes(f"{folder}/device/vpd_pg83") or b"")
    identity: dict[str, object] = {
        "serial": serial or system.read(f"{folder}/serial") or system.read(f"{folder}/device/serial"),
        "naa": naa[0] if naa else None,
        "wwid": system.read(f"{folder}/wwid") or system.read(f"{folder}/device/wwid"),
        # The forms that the wwid has on other kernels.
        "designators": tuple(designators.of(system, folder)),
        "model": system.read(f"{folder}/device/model"),
    }
    entries, mapped = system.names(folder), system.read(f"{folder}/dm/uuid")
    if mapped and mapped.startswith("mpath-"):
        # The several paths to one LUN: it is what all of them are.
        paths = [system.resolve(f"{folder}/slaves/{name}") for name in system.names(f"{folder}/slaves")]
        ways = [_identity_facts(system, path) for path in paths]
        identity = {key: ways[0].get(key) for key in identity if len({way.get(key) for way in ways}) == 1}
    shown = {key: value for key, value in identity.items() if value}
    shown["mapped"] = "dm" in entries or "md" in entries
    shown["mapped_uuid"] = mapped or system.read(f"{folder}/md/uuid") or _array_uuid(system, folder)
    return cast(Facts, shown)


def _array_uuid(system: System, folder: str) -> str | None:
    """UUID of an MD array of a kernel that does not show it itself."""
    if "md" not in system.names(folder):
        return None
    done = system.run(["mdadm", "--detail", "--export", f"/dev/{os.path.basename(folder)}"])
    lines = done[1].splitlines() if done and done[0] == 0 else []
    return next((line.partition("=")[2] for line in lines if line.startswith("MD_UUID=")), None)


def _file_facts(system: System, resolved: str, status: os.stat_result) -> Facts:
    facts: Facts = {"size_bytes": status.st_size, "allocated_bytes": status.st_blocks * 512, "inode": status.st_ino}
    mount = mounts.holding(_mounts(system), resolved)
    if mount:
        facts.update(
            {"mount_point": mount["mount_point"], "filesystem": mount["filesystem"], "source": mount["source"]}
        )
        if mount["filesystem"].startswith("nfs"):
            facts["fsid"] = nfs_volumes.volumes(system.read(nfs_volumes.VOLUMES) or "").get(mount["numbers"])
        elif mounts.sources(mount):
            # Every device of a file system carries its UUID.
            facts["uuid"] = _signature(system, mounts.sources(mount)[0]).get("signature", {}).get("UUID")
    return facts


def _mounts(system: System, pid: str = "self") -> list[Mount]:
    return mounts.parse(system.read(f"/proc/{pid}/mountinfo") or "")


BLANK: Facts = {"signature": {}}


def _signature(system: System, device: str) -> Facts:
    """The result of a low-level probe: {'signature': {...}} (empty = blank) or {'signature_error': text}."""
    # -p reads the device itself; without it blkid answers from a cache that may describe another device of this name.
    done = system.run(["blkid", "-p", "-o", "export", device])
    if done is None:
        return {"signature_error": "blkid is not installed (package util-linux)"}
    code, out, err = done
    if code == 2 and not err.strip():
        stamp = cache_stamp.unpack(system.head(device, cache_stamp.BYTES))
        return BLANK.copy() if stamp is None else {"signature": {"TYPE": cache_stamp.TYPE}}
    if code == 8:
        return {"signature": {"TYPE": "several signatures"}}
    if code:
        return {"signature_error": err.strip() or f"blkid ended with exit code {code}"}
    pairs = dict(line.partition("=")[::2] for line in out.splitlines() if "=" in line)
    return {
        "signature": {key: value for key, value in pairs.items() if key in ("TYPE", "PTTYPE", "USAGE", "UUID", "LABEL")}
    }


def _lio_exports(system: System) -> list[Export]:
    core = "/sys/kernel/config/target/core"
    exports: list[Export] = []
    for adapter in system.names(core):
        for name in system.names(f"{core}/{adapter}"):
            device = system.read(f"{core}/{adapter}/{name}/udev_path")
            if device:
                serial = (system.read(f"{core}/{adapter}/{name}/wwn/vpd_unit_serial") or "").rpartition(":")[2].strip()
                exports.append(
                    {
                        "software": "lio",
                        "name": name,
                        "serial": serial,
                        "device": system.resolve(device),
                        "number": _iblock_number(system.read(f"{core}/{adapter}/{name}/info") or ""),
                        # Only iblock claims its device; then no one else can have it mounted or in a RAID.
                        "claims": adapter.startswith("iblock_"),
                    }
                )
    return exports


def _iblock_number(text: str) -> str | None:
    """The number of the device that an iblock backstore really has, whatever path it was given."""
    match = re.search(r"Major: (\d+) Minor: (\d+)", text)
    return f"{match.group(1)}:{match.group(2)}" if match else None


def _nvmet_exports(system: System) -> list[Export]:
    """Namespaces of the kernel's NVMe target. It opens a device without claiming it, so nothing else shows it."""
    core = "/sys/kernel/config/nvmet/subsystems"
    exports: list[Export] = []
    for name in system.names(core):
        for number in system.names(f"{core}/{name}/namespaces"):
            device = system.read(f"{core}/{name}/namespaces/{number}/device_path")
            if device and system.read(f"{core}/{name}/namespaces/{number}/enable") == "1":
                exports.append(
                    {
                        "software": "nvmet",
                        "name": f"{name} namespace {number}",
                        "serial": "",
                        "device": system.resolve(device),
                    }
                )
    return exports


def _tgt_exports(system: System) -> list[Export]:
    """LUNs of every tgtd of this host, asked for through each one's control socket."""
    exports: list[Export] = []
    for name in system.names("/run/tgtd"):
        port = re.fullmatch(r"socket\.(\d+)", name)
        done = (
            system.run(["tgtadm", "-C", port.group(1), "--lld", "iscsi", "--mode", "target", "--op", "show"])
            if port and system.listens(f"/run/tgtd/{name}")
            else None
        )
        if done and done[0] == 0:
            for export in parse_tgt(done[1]):
                number = _passed_through(system, export["device"])
                shown: Export = {**export, "device": system.resolve(export["device"])}
                exports.append({**shown, "number": number} if number else shown)
    return exports


def _passed_through(system: System, path: str) -> str | None:
    """The number of the disk whose commands tgt hands on through a character device of its own, /dev/sg3 or /dev/bsg/3:0:0:1."""
    match = re.fullmatch(r"/dev/(sg\d+|bsg/[\d:]+)", path)
    if not match:
        return None
    kind = "bsg" if match.group(1).startswith("bsg/") else "scsi_generic"
    folder = f"{system.resolve(f'/sys/class/{kind}/{os.path.basename(path)}/device')}/block"
    return next((system.read(f"{folder}/{name}/dev") for name in system.names(folder)), None)


def parse_tgt(text: str) -> list[Export]:
    """[{software, name, serial, device}] from ``tgtadm --mode target --op show``; the tgt of RHEL 5 wrote 'Backing store' without 'path'."""
    exports: list[Export] = []
    target, serial = "", ""
    for line in text.splitlines():
        key, _colon, value = line.strip().partition(": ")
        if line.startswith("Target "):
            target = value
        elif key == "SCSI SN":
            serial = value
        elif key in ("Backing store path", "Backing store") and value.startswith("/"):
            exports.append({"software": "tgt", "name": target, "serial": serial, "device": value})
    return exports


# ---------------------------------------------------------------- judging


def refusals(
    facts: Facts,
    layer: Layer,
    allow: Collection[str] = (),
    testbed_id: str = "",
    layers: Sequence[Layer] = (),
    overwrite: bool = True,
) -> list[Failure]:
    """Why the path must not be written to as this layer, empty when it is proven to be the testbed's own.

    allow: paths the user named to override what may be overridden.
    layers: the published layers; an export by one of their targets is the testbed's own.
    overwrite: False for uses that keep what a data layer holds or is made to hold (exporting it, making its file system).
    """
    return judge(facts, layer, allow, testbed_id, layers, overwrite)[0]


def judge(
    facts: Facts,
    layer: Layer,
    allow: Collection[str] = (),
    testbed_id: str = "",
    layers: Sequence[Layer] = (),
    overwrite: bool = True,
) -> tuple[list[Failure], list[Failure]]:
    """(refusals, overridden): the second are refusals that were lifted because ``allow`` names the device."""
    reasons = purpose_refusals(facts, layer) if overwrite else []
    if facts["type"] == "missing":
        reasons.append(
            Failure(
                "device_missing",
                f"{facts['path']} does not exist.",
                "Build the testbed again; fio would create a file of that name.",
            )
        )
    elif facts["type"] == "unknown":
        reasons.append(_unreadable(facts))
    elif facts["type"] not in ("block", "file"):
        reasons.append(
            Failure("not_a_device", f"{facts['path']} is a {facts['type']}.", "Name a block device or a regular file.")
        )
    else:
        reasons += _final_use(facts)
        reasons += _block(facts, layer) if facts["type"] == "block" else _file(facts, layer)
        reasons += size_refusals(facts, layer) + _use(facts, layer, testbed_id, layers)
    return lift(reasons, facts["path"] in allow or facts["resolved"] in allow, FINAL)


def lift(reasons: list[Failure], named: bool, final: Collection[str]) -> tuple[list[Failure], list[Failure]]:
    """(refusals, overridden): naming a device lifts all but what is final."""
    kept = [item for item in reasons if not named or item.code in final]
    return kept, [item for item in reasons if item not in kept]


def guard(
    layer: Layer,
    allow: Collection[str] = (),
    testbed_id: str = "",
    layers: Sequence[Layer] = (),
    overwrite: bool = True,
    system: System | None = None,
) -> tuple[Facts, list[Failure]]:
    """Inspect and judge in one: (facts, overridden); raises the first refusal as a Failure with all of them in its details."""
    facts = inspect(layer["path"], system=system)
    reasons, overridden = judge(facts, layer, allow, testbed_id, layers, overwrite)
    if reasons:
        raise not_touched(layer, reasons)
    return facts, overridden


def prove_whole(layer: Layer, testbed_id: str, layers: dict[str, Layer]) -> None:
    """Raise the guard's Failure unless a LUN may be handed to a guest, which overwrites it, though on its host it is a data layer. layers: by name."""
    guard({**layer, "purpose": "scratch"}, (), testbed_id, list(layers.values()))


def not_touched(layer: Layer, reasons: Sequence[Failure]) -> Failure:
    """The first reason as the failure of the layer, with all of them in its details."""
    return Failure(
        reasons[0].code,
        f"Layer {layer['name']} on {layer['host']} is not touched: {reasons[0].what}",
        reasons[0].remedy,
        layer=layer["name"],
        path=layer["path"],
        refusals=[reason.as_fault() for reason in reasons],
    )


def _unreadable(facts: Facts) -> Failure:
    return Failure(
        "device_unreadable",
        f"{facts['path']} cannot be opened ({facts['claim']}).",
        "Check the device and the rights of the user.",
    )


def purpose_refusals(facts: Mapping[str, object], layer: Layer) -> list[Failure]:
    if layer.get("purpose") == "scratch":
        return []
    return [
        Failure(
            "purpose_data",
            f"{facts['path']} is a data layer, it holds something.",
            "Measure it through a file on it, or a scratch layer.",
        )
    ]


def _final_use(facts: Facts) -> list[Failure]:
    path, reasons = facts["path"], []
    if facts["mounts"]:
        reasons.append(
            Failure(
                "device_mounted",
                f"{path} or something on it is mounted on {', '.join(facts['mounts'])}.",
                "Unmount it, or name another device.",
            )
        )
    if facts["swap"]:
        reasons.append(Failure("device_swap", f"{path} or something on it is swap space.", "Name another device."))
    return reasons


def size_refusals(facts: Mapping[str, object], layer: Layer) -> list[Failure]:
    if facts["size_bytes"] == layer["size_bytes"]:
        return []
    return [
        Failure(
            "wrong_size",
            f"{facts['path']} has {facts['size_bytes']} bytes, the layer has {layer['size_bytes']}.",
            "Build the testbed again; this is another device, or it was replaced.",
        )
    ]


def _block(facts: Facts, layer: Layer) -> list[Failure]:
    path, reasons = facts["path"], []
    if layer["identity"].get("mount_point"):
        reasons.append(
            Failure("not_a_device", f"{path} is a block device, but the layer is a file.", "Build the testbed again.")
        )
    # A RAM disk of several sizes is one device in partitions that the testbed itself made.
    foreign_partition = facts["partition"] and layer["identity"].get("whole_device") != facts["whole_device"]
    if facts["partitions"] or foreign_partition:
        what = f"has partitions ({', '.join(facts['partitions'])})" if facts["partitions"] else "is a partition"
        reasons.append(Failure("device_partitioned", f"{path} {what}.", "Name a whole, empty device."))
    if facts["holders"]:
        reasons.append(
            Failure(
                "device_held",
                f"{path} is part of {', '.join(facts['holders'])} (LVM, RAID, multipath or device mapper).",
                "Name the device on top of it.",
            )
        )
    for twin, holders in facts.get("twins", {}).items():
        if set(holders) - set(facts["holders"]):
            reasons.append(
                Failure(
                    "device_held",
                    f"{path} is the same disk as {twin}, which is part of {', '.join(holders)}.",
                    "Name the device on top of it.",
                )
            )
    if facts["mapped"] and not same_uuid(layer["identity"].get("uuid"), facts["mapped_uuid"]):
        reasons.append(
            Failure(
                "device_mapped",
                f"{path} is the device mapper or RAID device {facts['mapped_uuid'] or 'without UUID'}, which the layer does not name.",
                "Give the layer that uuid if it is the one, or name another device.",
            )
        )
    if facts["claim"] not in (None, "EBUSY"):
        reasons.append(_unreadable(facts))
    if facts["read_only"]:
        reasons.append(Failure("device_read_only", f"{path} is read-only.", "Name a device that can be written."))
    if facts.get("signature_error"):
        reasons.append(
            Failure(
                "signature_unknown",
                f"It cannot be determined whether {path} is empty: {facts['signature_error']}.",
                "Make blkid work on this host.",
            )
        )
    elif facts.get("signature"):
        kind = facts["signature"].get("TYPE") or facts["signature"].get("PTTYPE") or "something"
        reasons.append(
            Failure(
                "signature_present",
                f"{path} carries a signature of {kind}.",
                "Wipe it if it may be lost, or name another device.",
            )
        )
    return reasons + identity_refusals(facts, layer)


# The properties by which a user may prove a device. A number or a size is not a proof: the next disk of that name has them, too.
PROOFS: dict[str, str] = {"serial": "serial", "naa": "naa", "wwid": "wwid", "uuid": "mapped_uuid"}


def refuse_named(
    what: str,
    variable: str,
    device: str,
    given: Mapping[str, object],
    purpose: str,
    facts: Facts,
    tolerated: Collection[str] = frozenset(),
) -> None:
    """The guard for a device that the user names instead of a layer; raises the first refusal, or identity_missing with the line to add.

    what: the thing on it, such as 'LUN bench'. given: what the user says of it; any of the keys of PROOFS. tolerated: codes that are not a reason.
    """
    identity = {key: given[key] for key in PROOFS if given.get(key)}
    layer: Layer = {
        "name": what,
        "host": "this host",
        "path": device,
        "parent": None,
        "purpose": purpose,
        "size_bytes": facts.get("size_bytes"),
        "identity": identity,
    }
    reasons = [item for item in refusals(facts, layer, overwrite=False) if item.code not in tolerated]
    # A device that is in use is not to be proven first.
    plain = [item for item in reasons if identity or item.code not in ("identity_missing", "device_mapped")]
    if plain:
        raise not_touched(layer, plain)
    if not identity:
        shown = hints(facts)
        lines = " or ".join(f"{key}: {value}" for key, value in shown.items())
        raise Failure(
            "identity_missing",
            f"Nothing proves that {device} is the device that you mean for {what}: tomorrow another disk may have that name.",
            f"If it is the right one, add its identifiers to that entry of {variable}: {lines}."
            if shown
            else "It shows no serial, NAA identifier, WWID or UUID: name one that does, such as a logical volume (LVM) on it.",
            path=device,
            identity=shown,
        )


def hints(facts: Facts, given: Collection[str] = ()) -> dict[str, str]:
    """The words that a user may write for a device. Other kernels write another WWID, so it is named only where nothing else is, or where the user gave one."""
    known = cast("dict[str, str]", facts)
    shown = {key: known[fact] for key, fact in PROOFS.items() if known.get(fact)}
    better = {key: value for key, value in shown.items() if key != "wwid" or key in given}
    return better or shown


def same_uuid(given: str | None, shown: str | None) -> bool:
    """Whether both are one UUID of a device mapper or RAID device, written as LVM, mdadm or the kernel do.

    The kernel writes LVM-<volume group><logical volume> without dashes, lvs the logical volume's part with them; mdadm writes colons.
    """
    if not given or not shown:
        return False
    if shown.startswith("LVM-") and len(shown) >= 68:
        return given == shown or given.replace("-", "") == shown[36:68]
    digits = [re.sub(r"[-:]", "", text).lower() for text in (given, shown)]
    return given == shown or (digits[0] == digits[1] and re.fullmatch(r"[0-9a-f]{32}", digits[0]) is not None)


def identity_refusals(facts: Facts, layer: Layer) -> list[Failure]:
    """Every identity the layer was published with must hold, and one of them at least must distinguish it from other devices."""
    path, identity, proven, reasons = facts["path"], layer["identity"], False, []
    for key, code in (
        ("serial", "wrong_serial"),
        ("naa", "wrong_naa"),
        ("wwid", "wrong_wwid"),
        ("major_minor", "wrong_number"),
    ):
        if not identity.get(key):
            continue
        proven = True
        names = [facts.get(key), *(facts.get("designators", ()) if key == "wwid" else ())]
        if designators.plain(identity[key]) not in map(designators.plain, names):
            reasons.append(
                Failure(
                    code,
                    f"{path} has {key.replace('_', ':')} {facts.get(key, 'none')}, the layer has {identity[key]}.",
                    "Build the testbed again; this is another device.",
                )
            )
    if not proven and not (facts["mapped"] and identity.get("uuid")):
        reasons.append(
            Failure(
                "identity_missing",
                f"Nothing proves that {path} is the device of layer {layer['name']}.",
                "Publish the layer with a serial, naa, wwid or major_minor.",
            )
        )
    return reasons


def _file(facts: Facts, layer: Layer) -> list[Failure]:
    path, identity = facts["path"], layer["identity"]
    if not identity.get("mount_point"):
        return [
            Failure(
                "not_a_device",
                f"{path} is a regular file, but the layer is a device.",
                "Build the testbed again; the device is gone and a file took its name.",
            )
        ]
    if not identity.get("uuid"):
        return [
            Failure(
                "identity_missing",
                f"Nothing proves that the file system under {path} is the testbed's.",
                "Publish the layer with the uuid of its file system.",
            )
        ]
    if facts.get("mount_point") != identity["mount_point"]:
        where = f"{facts['resolved']} on {facts.get('mount_point', 'no mount')}"
        return [
            Failure(
                "wrong_mount",
                f"{path} is really {where}, not below {identity['mount_point']}.",
                "Mount the datastore again.",
            )
        ]
    if "fsid" in facts:
        if facts["fsid"] in nfs_volumes.fsids(identity["uuid"]):
            return []
        return [
            Failure(
                "wrong_uuid",
                f"{identity['mount_point']} has the fsid {facts['fsid'] or 'none'} over NFS, the layer has {identity['uuid']}.",
                "Mount the datastore again.",
            )
        ]
    if designators.plain(facts.get("uuid")) != designators.plain(identity["uuid"]):
        return [
            Failure(
                "wrong_uuid",
                f"{identity['mount_point']} has the file system {facts.get('uuid', 'without UUID')}, the layer has {identity['uuid']}.",
                "Mount the datastore again.",
            )
        ]
    return []


def _use(facts: Facts, layer: Layer, testbed_id: str, layers: Sequence[Layer]) -> list[Failure]:
    path, reasons = facts["path"], []
    targets = [other for other in layers if other["kind"] == "target" and other["parent"] == layer["name"]]
    serials = {designators.plain(target["identity"].get("serial")) for target in targets} - {""}
    # Testbed a with a disk b-c and testbed a-b with a disk c call their backstores alike; the serial distinguishes them.
    generations = {None, generation({other["name"]: other for other in [*layers, layer]}, layer)}
    labels = {other["name"].partition("-")[2] for other in [layer, *targets]} if testbed_id else set()
    stamps = {
        (f"storlab-{testbed_id}-{name}", unit_serial(testbed_id, name, known))
        for name in labels
        for known in generations
    }
    foreign = []
    for export in facts["exports"]:
        # A scratch layer is measured underneath the testbed's own export: that is what the tool is for.
        if not (
            layer.get("purpose") == "scratch"
            and ((export["name"], export["serial"]) in stamps or designators.plain(export["serial"]) in serials)
        ):
            foreign.append(f"{export['name']} ({export['software']})")
    if foreign:
        reasons.append(
            Failure(
                "device_exported",
                f"{path} is exported as {', '.join(foreign)}.",
                "Remove that export, or name another device.",
            )
        )
    if facts["loops"]:
        reasons.append(
            Failure(
                "device_held",
                f"{path} is the backing store of {', '.join(facts['loops'])}.",
                "Name the loop device, or detach it.",
            )
        )
    exporters = {DAEMONS.get(export["software"]) for export in facts["exports"]}
    writers = [opener for opener in facts["openers"] if opener["writes"] and opener["command"] not in exporters]
    if writers:
        names = ", ".join(f"{writer['command']} (process {writer['pid']})" for writer in writers)
        reasons.append(
            Failure("device_in_use", f"{path} is open for writing by {names}.", "Stop it, or name another device.")
        )
    return reasons + _claims(facts)


def _claims(facts: Facts) -> list[Failure]:
    """The kernel gave the device, or one above it, to somebody whom nothing else shows."""
    path = facts["path"]
    if facts.get("mounts") or facts.get("swap") or any(export.get("claims") for export in facts["exports"]):
        return []
    busy = facts.get("claim") == "EBUSY" and not facts["holders"]
    if facts.get("claimed_above") or (busy and (facts.get("signature") or facts.get("signature_error"))):
        # Such as the disk of the system below an overlay: mounted, and in no table that a process can read.
        what = ", ".join(facts.get("claimed_above") or [path])
        return [
            Failure(
                "device_claimed",
                f"{what} carries data and is held by something in the kernel, such as a mount that is not shown or ZFS.",
                "Find out what uses it, or name another device.",
            )
        ]
    if busy:
        return [
            Failure(
                "device_busy",
                f"{path} is held by something else in the kernel.",
                "Find out what uses it (ZFS, bcache, DRBD …), or name another device.",
            )
        ]
    return []
