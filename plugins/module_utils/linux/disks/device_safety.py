# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proof that a path is the testbed's own device before anything is written to it. Rules and codes: docs/safety.md.

``usage`` reads who uses a path; ``inspect`` adds what the host knows about the device itself. Two judgements use them: ``refusals`` is
pure and says why it must not be overwritten (verdicts.py has each reason), and ``block_device.users`` says why it must not go.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from ...core.failure import Failure
from ...core.layers import Layer
from .. import mounts
from ..nouns import Mount
from . import cache_stamp, designators, exported, nfs_volumes, scsi_pages, verdicts
from .facts import Facts
from .sought import Sought, btrfs_members, numbers, twins
from .system import System, error_name

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
            facts.update({"type": "unknown", "claim": error_name(error)})
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
                for export in exported.of_host(system)
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
    reasons = verdicts.purpose_refusals(facts, layer) if overwrite else []
    if facts["type"] == "missing":
        reasons.append(
            Failure(
                "device_missing",
                f"{facts['path']} does not exist.",
                "Build the testbed again; fio would create a file of that name.",
            )
        )
    elif facts["type"] == "unknown":
        reasons.append(verdicts.unreadable(facts))
    elif facts["type"] not in ("block", "file"):
        reasons.append(
            Failure("not_a_device", f"{facts['path']} is a {facts['type']}.", "Name a block device or a regular file.")
        )
    else:
        reasons += verdicts.final_refusals(facts)
        reasons += (
            verdicts.block_refusals(facts, layer) if facts["type"] == "block" else verdicts.file_refusals(facts, layer)
        )
        reasons += verdicts.size_refusals(facts, layer) + verdicts.use_refusals(facts, layer, testbed_id, layers)
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
