# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proof that a path is the testbed's own device before anything is written to it. Rules and codes: docs/safety.md.

``inspect`` reads what the host knows about a path; ``refusals`` is pure and says why it must not be overwritten.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import subprocess

from .failure import Failure

# What cannot be overridden: there is nothing to measure, or writing would destroy what is in use this very moment.
FINAL = ("device_missing", "not_a_device", "device_unreadable", "device_mounted", "device_swap", "wrong_size", "purpose_data")


class System:
    """The host's own interfaces; tests give a folder as root and answer ``stat``, ``exclusive`` and ``run`` themselves."""

    def __init__(self, root: str = "/"):
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
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.EIO, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP, errno.ESRCH):
                return None
            raise

    def names(self, path: str) -> list:
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

    def stat(self, path: str):
        return os.stat(self.real(path))

    def exclusive(self, path: str) -> str | None:
        """None when the block device can be claimed, else the reason: 'EBUSY' when the kernel gave it to somebody else."""
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            return errno.errorcode.get(error.errno, str(error.errno))
        return None

    def run(self, argv: list):
        """(exit code, stdout, stderr), or None when the tool is not installed."""
        tool = shutil.which(argv[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin")
        if tool is None:
            return None
        done = subprocess.run([tool, *argv[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr


# ---------------------------------------------------------------- reading


def inspect(path: str, root: str = "/", system: System | None = None) -> dict:
    """Everything the guard needs to know about a path; reads only."""
    system = system or System(root)
    resolved = system.resolve(path)
    facts = {"path": path, "resolved": resolved, "type": "missing"}
    try:
        status = system.stat(resolved)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            facts.update(type="unknown", claim=errno.errorcode.get(error.errno, str(error.errno)))
        return facts
    facts["type"] = _type(status.st_mode)
    if facts["type"] not in ("block", "file"):
        return facts
    facts["loops"] = [name for name in system.names("/sys/block") if system.read(f"/sys/block/{name}/loop/backing_file") == resolved]
    folders = [system.resolve(f"/sys/block/{name}") for name in facts["loops"]]
    if facts["type"] == "block":
        folder = system.resolve(f"/sys/dev/block/{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}")
        facts.update(_block_facts(system, resolved, folder, status.st_rdev))
        folders.append(folder)
    else:
        facts.update(_file_facts(system, resolved, status))
    facts.update(_in_use(system, resolved, folders))
    facts["exports"] = _lio_exports(system, resolved) + _nvmet_exports(system, resolved) + _tgt_exports(system, resolved)
    facts["writers"] = _writers(system, resolved)
    return facts


def _type(mode: int) -> str:
    for name, test in (("block", stat.S_ISBLK), ("file", stat.S_ISREG), ("directory", stat.S_ISDIR), ("character device", stat.S_ISCHR)):
        if test(mode):
            return name
    return "special file"


def _in_use(system: System, resolved: str, folders: list) -> dict:
    """Where the path, or what stands on it however high, is mounted, and whether it is swap: the volume group of a system may be on a partition of it.

    folders: in sysfs, of the device itself and of loop devices on it.
    """
    above, todo = [], list(folders)
    while todo:
        folder = todo.pop()
        above.append(folder)
        upper = [f"{folder}/{entry}" for entry in system.names(folder) if system.read(f"{folder}/{entry}/partition")]
        upper += [system.resolve(f"{folder}/holders/{name}") for name in system.names(f"{folder}/holders")]
        todo += [folder for folder in upper if folder not in above + todo]
    numbers = {system.read(f"{folder}/dev") for folder in above}
    nodes = {resolved} | {f"/dev/{os.path.basename(folder)}" for folder in above}
    return {
        "mounts": [mount["mount_point"] for mount in _mounts(system) if mount["number"] in numbers or system.resolve(mount["source"]) in nodes],
        "swap": any(system.resolve(line.split()[0]) in nodes for line in (system.read("/proc/swaps") or "").splitlines()[1:]),
    }


def _block_facts(system: System, resolved: str, folder: str, rdev: int) -> dict:
    entries = system.names(folder)
    partitions = [entry for entry in entries if system.read(f"{folder}/{entry}/partition")]
    facts = {
        "major_minor": f"{os.major(rdev)}:{os.minor(rdev)}",
        "name": os.path.basename(folder),
        "size_bytes": int(system.read(f"{folder}/size") or 0) * 512,
        "read_only": system.read(f"{folder}/ro") == "1",
        "partition": "partition" in entries,
        "whole_device": f"/dev/{os.path.basename(os.path.dirname(folder) if 'partition' in entries else folder)}",
        "partitions": partitions,
        "holders": system.names(f"{folder}/holders"),
        "mapped_uuid": system.read(f"{folder}/dm/uuid") or system.read(f"{folder}/md/uuid"),
        "mapped": "dm" in entries or "md" in entries,
        "claim": system.exclusive(resolved),
        **_identity_facts(system, folder),
    }
    facts.update(_signature(system, resolved))
    return facts


def _identity_facts(system: System, folder: str) -> dict:
    """serial, naa and wwid as far as the kernel knows them."""
    page80, page83 = system.read_bytes(f"{folder}/device/vpd_pg80"), system.read_bytes(f"{folder}/device/vpd_pg83")
    serial = page80[4:].decode("ascii", "replace").strip("\x00 ") if page80 and len(page80) > 4 else None
    found = {
        "serial": serial or system.read(f"{folder}/serial") or system.read(f"{folder}/device/serial"),
        "naa": _naa(page83 or b""),
        "wwid": system.read(f"{folder}/wwid") or system.read(f"{folder}/device/wwid"),
        "model": system.read(f"{folder}/device/model"),
    }
    return {key: value for key, value in found.items() if value}


def _naa(page83: bytes) -> str | None:
    """The logical unit's NAA name from SCSI VPD page 0x83 (SPC-4, 7.8.6)."""
    position = 4
    while position + 4 <= len(page83):
        length, descriptor = page83[position + 3], page83[position + 1]
        if descriptor & 0x3F == 3:  # association: logical unit; designator type: NAA
            return page83[position + 4:position + 4 + length].hex()
        position += 4 + length
    return None


def _file_facts(system: System, resolved: str, status) -> dict:
    facts = {"size_bytes": status.st_size, "allocated_bytes": status.st_blocks * 512}
    above = [mount for mount in _mounts(system) if resolved.startswith(mount["mount_point"].rstrip("/") + "/")]
    if above:
        # Of two mounts on one mount point the later one is what is seen.
        mount = max(enumerate(above), key=lambda pair: (len(pair[1]["mount_point"]), pair[0]))[1]
        facts.update({"mount_point": mount["mount_point"], "filesystem": mount["filesystem"], "source": mount["source"]})
        if mount["source"].startswith("/"):
            facts["uuid"] = _signature(system, mount["source"]).get("signature", {}).get("UUID")
    return facts


def _mounts(system: System) -> list:
    found = []
    for line in (system.read("/proc/self/mountinfo") or "").splitlines():
        left, _dash, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) > 4 and len(tail) > 1:
            found.append({"number": fields[2], "mount_point": _unescape(fields[4]), "filesystem": tail[0], "source": _unescape(tail[1])})
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def _signature(system: System, device: str) -> dict:
    """What a low-level probe finds: {'signature': {...}} (empty = blank) or {'signature_error': text}."""
    # -p reads the device itself; without it blkid answers from a cache that may describe another device of this name.
    done = system.run(["blkid", "-p", "-o", "export", device])
    if done is None:
        return {"signature_error": "blkid is not installed (package util-linux)"}
    code, out, err = done
    if code == 2 and not err.strip():
        return {"signature": {}}
    if code == 8:
        return {"signature": {"TYPE": "several signatures"}}
    if code:
        return {"signature_error": err.strip() or f"blkid ended with exit code {code}"}
    pairs = dict(line.partition("=")[::2] for line in out.splitlines() if "=" in line)
    return {"signature": {key: value for key, value in pairs.items() if key in ("TYPE", "PTTYPE", "USAGE", "UUID", "LABEL")}}


def _lio_exports(system: System, resolved: str) -> list:
    core, found = "/sys/kernel/config/target/core", []
    for adapter in system.names(core):
        for name in system.names(f"{core}/{adapter}"):
            device = system.read(f"{core}/{adapter}/{name}/udev_path")
            if device and system.resolve(device) == resolved:
                serial = (system.read(f"{core}/{adapter}/{name}/wwn/vpd_unit_serial") or "").rpartition(":")[2].strip()
                # Only iblock claims its device; then nobody else can have it mounted or in a RAID.
                found.append({"software": "lio", "name": name, "serial": serial, "claims": adapter.startswith("iblock_")})
    return found


def _nvmet_exports(system: System, resolved: str) -> list:
    """Namespaces of the kernel's NVMe target. It opens a device without claiming it, so nothing else tells."""
    core, found = "/sys/kernel/config/nvmet/subsystems", []
    for name in system.names(core):
        for number in system.names(f"{core}/{name}/namespaces"):
            device = system.read(f"{core}/{name}/namespaces/{number}/device_path")
            if device and system.read(f"{core}/{name}/namespaces/{number}/enable") == "1" and system.resolve(device) == resolved:
                found.append({"software": "nvmet", "name": f"{name} namespace {number}", "serial": ""})
    return found


def _tgt_exports(system: System, resolved: str) -> list:
    """LUNs of every tgtd of this host that stand on the path, asked through each one's control socket."""
    found = []
    for name in system.names("/run/tgtd"):
        port = re.fullmatch(r"socket\.(\d+)", name)
        done = system.run(["tgtadm", "-C", port.group(1), "--lld", "iscsi", "--mode", "target", "--op", "show"]) if port else None
        if done and done[0] == 0:
            found += [export for export in parse_tgt(done[1]) if system.resolve(export.pop("device")) == resolved]
    return found


def parse_tgt(text: str) -> list:
    """[{software, name, serial, device}] from ``tgtadm --mode target --op show``."""
    found, target, serial = [], "", ""
    for line in text.splitlines():
        key, _colon, value = line.strip().partition(": ")
        if line.startswith("Target "):
            target = value
        elif key == "SCSI SN":
            serial = value
        elif key == "Backing store path" and value.startswith("/"):
            found.append({"software": "tgt", "name": target, "serial": serial, "device": value})
    return found


def _writers(system: System, resolved: str) -> list:
    """Other processes that have the path open for writing, e.g. a machine whose disk it is."""
    found = []
    for pid in system.names("/proc"):
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        folder = system.real(f"/proc/{pid}/fd")
        for descriptor in system.names(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"{folder}/{descriptor}")
            except (FileNotFoundError, PermissionError):
                continue  # closed meanwhile, or a process this user may not look into
            if target == resolved:
                flags = re.search(r"flags:\s*(\d+)", system.read(f"/proc/{pid}/fdinfo/{descriptor}") or "")
                if flags and int(flags.group(1), 8) & os.O_ACCMODE:
                    found.append({"pid": int(pid), "command": system.read(f"/proc/{pid}/comm") or "?"})
                    break
    return found


# ---------------------------------------------------------------- judging


def refusals(facts: dict, layer: dict, allow=(), testbed_id: str = "", layers=(), overwrite: bool = True) -> list:
    """Why the path must not be written to as this layer: [{code, message}], empty when it is proven to be the testbed's own.

    allow: paths the user named to override what may be overridden.
    layers: the published layers; an export by one of their targets is the testbed's own.
    overwrite: False for uses that keep what a data layer holds or is made to hold (exporting it, making its file system).
    """
    return judge(facts, layer, allow, testbed_id, layers, overwrite)[0]


def judge(facts: dict, layer: dict, allow=(), testbed_id: str = "", layers=(), overwrite: bool = True) -> tuple:
    """(refusals, overridden): the second are refusals that were lifted because ``allow`` names the device."""
    found = purpose_refusals(facts, layer) if overwrite else []
    if facts["type"] == "missing":
        found.append(refusal("device_missing", f"{facts['path']} does not exist.", "Build the testbed again; fio would create a file of that name."))
    elif facts["type"] == "unknown":
        found.append(_unreadable(facts))
    elif facts["type"] not in ("block", "file"):
        found.append(refusal("not_a_device", f"{facts['path']} is a {facts['type']}.", "Name a block device or a regular file."))
    else:
        found += _final_use(facts)
        found += _block(facts, layer) if facts["type"] == "block" else _file(facts, layer)
        found += size_refusals(facts, layer) + _use(facts, layer, testbed_id, layers)
    return lift(found, facts["path"] in allow or facts["resolved"] in allow, FINAL)


def lift(found: list, named: bool, final: tuple) -> tuple:
    """(refusals, overridden): naming a device lifts all but what is final."""
    kept = [item for item in found if not named or item["code"] in final]
    return kept, [item for item in found if item not in kept]


def guard(layer: dict, allow=(), testbed_id: str = "", layers=(), overwrite: bool = True, system: System | None = None) -> tuple:
    """Inspect and judge in one: (facts, overridden); raises the first refusal as a Failure with all of them in its details."""
    facts = inspect(layer["path"], system=system)
    found, overridden = judge(facts, layer, allow, testbed_id, layers, overwrite)
    if found:
        raise as_failure(layer, found)
    return facts, overridden


def as_failure(layer: dict, found: list) -> Failure:
    return Failure(found[0]["code"], f"Layer {layer['name']} on {layer['host']} is not touched: {found[0]['what']}", found[0]["remedy"],
                   layer=layer["name"], path=layer["path"], refusals=[{"code": item["code"], "message": item["message"]} for item in found])


def refusal(code: str, what: str, remedy: str) -> dict:
    return {"code": code, "message": f"{what} {remedy}", "what": what, "remedy": remedy}


def _unreadable(facts: dict) -> dict:
    return refusal("device_unreadable", f"{facts['path']} cannot be opened ({facts['claim']}).", "Check the device and the rights of the user.")


def purpose_refusals(facts: dict, layer: dict) -> list:
    if layer.get("purpose") == "scratch":
        return []
    return [refusal("purpose_data", f"{facts['path']} is a data layer, it holds something.", "Measure it through a file on it, or a scratch layer.")]


def _final_use(facts: dict) -> list:
    path, found = facts["path"], []
    if facts["mounts"]:
        found.append(refusal("device_mounted", f"{path} or what stands on it is mounted on {', '.join(facts['mounts'])}.",
                             "Unmount it, or name another device."))
    if facts["swap"]:
        found.append(refusal("device_swap", f"{path} or what stands on it is swap space.", "Name another device."))
    return found


def size_refusals(facts: dict, layer: dict) -> list:
    if facts["size_bytes"] == layer["size_bytes"]:
        return []
    return [refusal("wrong_size", f"{facts['path']} has {facts['size_bytes']} bytes, the layer has {layer['size_bytes']}.",
                    "Build the testbed again; this is another device, or it was replaced.")]


def _block(facts: dict, layer: dict) -> list:
    path, found = facts["path"], []
    if layer["identity"].get("mount_point"):
        found.append(refusal("not_a_device", f"{path} is a block device, but the layer is a file.", "Build the testbed again."))
    # A RAM disk of several sizes is one device in partitions that the testbed itself made.
    foreign_partition = facts["partition"] and layer["identity"].get("whole_device") != facts["whole_device"]
    if facts["partitions"] or foreign_partition:
        what = f"has partitions ({', '.join(facts['partitions'])})" if facts["partitions"] else "is a partition"
        found.append(refusal("device_partitioned", f"{path} {what}.", "Name a whole, empty device."))
    if facts["holders"]:
        found.append(refusal("device_held", f"{path} is part of {', '.join(facts['holders'])} (LVM, RAID, multipath or device mapper).",
                             "Name the device on top of it."))
    if facts["mapped"] and (not facts["mapped_uuid"] or facts["mapped_uuid"] != layer["identity"].get("uuid")):
        found.append(refusal("device_mapped", f"{path} is a device mapper or RAID device that this testbed did not make.", "Name another device."))
    if facts["claim"] not in (None, "EBUSY"):
        found.append(_unreadable(facts))
    if facts["read_only"]:
        found.append(refusal("device_read_only", f"{path} is read-only.", "Name a device that can be written."))
    if facts.get("signature_error"):
        found.append(refusal("signature_unknown", f"Nobody can say whether {path} is empty: {facts['signature_error']}.", "Make blkid work on this host."))
    elif facts.get("signature"):
        kind = facts["signature"].get("TYPE") or facts["signature"].get("PTTYPE") or "something"
        found.append(refusal("signature_present", f"{path} carries a signature of {kind}.", "Wipe it if it may be lost, or name another device."))
    return found + _identity(facts, layer)


def _identity(facts: dict, layer: dict) -> list:
    """Every identity the layer was published with must hold, and one of them at least must tell it from other devices."""
    path, identity, proven, found = facts["path"], layer["identity"], False, []
    for key, code in (("serial", "wrong_serial"), ("naa", "wrong_naa"), ("wwid", "wrong_wwid"), ("major_minor", "wrong_number")):
        if not identity.get(key):
            continue
        proven = True
        if _plain(identity[key]) != _plain(facts.get(key)):
            found.append(refusal(code, f"{path} has {key.replace('_', ':')} {facts.get(key, 'none')}, the layer has {identity[key]}.",
                                 "Build the testbed again; this is another device."))
    if not proven and not (facts["mapped"] and identity.get("uuid")):
        found.append(refusal("identity_missing", f"Nothing proves that {path} is the device of layer {layer['name']}.",
                             "Publish the layer with a serial, naa, wwid or major_minor."))
    return found


def _plain(value) -> str:
    """Names of one device are written in several ways: naa.6001…, 0x6001…, 6001…."""
    text = str(value or "").strip().lower()
    for prefix in ("naa.", "0x"):
        text = text[len(prefix):] if text.startswith(prefix) else text
    return text


def _file(facts: dict, layer: dict) -> list:
    path, identity = facts["path"], layer["identity"]
    if not identity.get("mount_point"):
        return [refusal("not_a_device", f"{path} is a regular file, but the layer is a device.",
                        "Build the testbed again; the device is gone and a file took its name.")]
    if not identity.get("uuid"):
        return [refusal("identity_missing", f"Nothing proves that the file system under {path} is the testbed's.",
                        "Publish the layer with the uuid of its file system.")]
    if facts.get("mount_point") != identity["mount_point"]:
        where = f"{facts['resolved']} on {facts.get('mount_point', 'no mount')}"
        return [refusal("wrong_mount", f"{path} really is {where}, not beneath {identity['mount_point']}.",
                        "Mount the datastore again.")]
    if _plain(facts.get("uuid")) != _plain(identity["uuid"]):
        return [refusal("wrong_uuid", f"{identity['mount_point']} has the file system {facts.get('uuid', 'without UUID')}, the layer has {identity['uuid']}.",
                        "Mount the datastore again.")]
    return []


def _use(facts: dict, layer: dict, testbed_id: str, layers) -> list:
    path, found = facts["path"], []
    targets = [other for other in layers if other["kind"] == "target" and other["parent"] == layer["name"]]
    serials = {_plain(target["identity"].get("serial")) for target in targets} - {""}
    stamps = {f"storlab-{testbed_id}-{other['name'].partition('-')[2]}" for other in [layer, *targets]} if testbed_id else set()
    foreign = []
    for export in facts["exports"]:
        # A scratch layer is measured underneath the testbed's own export: that is what the tool is for.
        if not (layer.get("purpose") == "scratch" and (export["name"] in stamps or _plain(export["serial"]) in serials)):
            foreign.append(f"{export['name']} ({export['software']})")
    if foreign:
        found.append(refusal("device_exported", f"{path} is exported as {', '.join(foreign)}.", "Remove that export, or name another device."))
    if facts["loops"]:
        found.append(refusal("device_held", f"{path} is the backing store of {', '.join(facts['loops'])}.", "Name the loop device, or detach it."))
    tgt = any(export["software"] == "tgt" for export in facts["exports"])
    writers = [writer for writer in facts["writers"] if not (tgt and writer["command"] == "tgtd")]
    if writers:
        names = ", ".join(f"{writer['command']} (process {writer['pid']})" for writer in writers)
        found.append(refusal("device_in_use", f"{path} is open for writing by {names}.", "Stop it, or name another device."))
    explained = facts.get("mounts") or facts.get("swap") or facts.get("holders") or any(export.get("claims") for export in facts["exports"])
    if facts.get("claim") == "EBUSY" and not explained:
        found.append(refusal("device_busy", f"{path} is held by something else in the kernel.",
                             "Find out what uses it (ZFS, bcache, DRBD …), or name another device."))
    return found
