# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that software of a host offers to others, ours or not: what each target shows of itself."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from .facts import Export, Offered
from .system import System


def _lio_exports(system: System) -> list[Offered]:
    core = "/sys/kernel/config/target/core"
    exports: list[Offered] = []
    for adapter in system.names(core):
        for name in system.names(f"{core}/{adapter}"):
            device = system.read(f"{core}/{adapter}/{name}/udev_path")
            if device:
                serial = (system.read(f"{core}/{adapter}/{name}/wwn/vpd_unit_serial") or "").rpartition(":")[2].strip()
                exports.append(
                    {
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


def _nvmet_exports(system: System) -> list[Offered]:
    """Namespaces of the kernel's NVMe target. It opens a device without claiming it, so nothing else shows it."""
    core = "/sys/kernel/config/nvmet/subsystems"
    exports: list[Offered] = []
    for name in system.names(core):
        for number in system.names(f"{core}/{name}/namespaces"):
            device = system.read(f"{core}/{name}/namespaces/{number}/device_path")
            if device and system.read(f"{core}/{name}/namespaces/{number}/enable") == "1":
                named = system.read(f"{core}/{name}/namespaces/{number}/device_uuid")
                exports.append(
                    {
                        "name": f"{name} namespace {number}",
                        # As the disk of whoever is connected shows it.
                        "serial": f"uuid.{named}" if named else "",
                        "device": system.resolve(device),
                    }
                )
    return exports


def _tgt_exports(system: System) -> list[Offered]:
    """LUNs of every tgtd of this host, asked for through each one's control socket."""
    exports: list[Offered] = []
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
                shown: Offered = {**export, "device": system.resolve(export["device"])}
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


def parse_tgt(text: str) -> list[Offered]:
    """[{name, serial, device}] from ``tgtadm --mode target --op show``; the tgt of RHEL 5 wrote 'Backing store' without 'path'."""
    exports: list[Offered] = []
    target, serial = "", ""
    for line in text.splitlines():
        key, _colon, value = line.strip().partition(": ")
        if line.startswith("Target "):
            target = value
        elif key == "SCSI SN":
            serial = value
        elif key in ("Backing store path", "Backing store") and value.startswith("/"):
            exports.append({"name": target, "serial": serial, "device": value})
    return exports


@dataclass(frozen=True)
class Software:
    """How a target shows what it exports, and the program that holds the devices open for it; kernels export without one."""

    read: Callable[[System], list[Offered]]
    daemon: str | None = None


# All targets that a Linux host is known to have: a device may be exported by one that this collection never starts.
SOFTWARE = {
    "lio": Software(_lio_exports),
    "nvmet": Software(_nvmet_exports),
    "tgt": Software(_tgt_exports, daemon="tgtd"),
}


def of_host(system: System) -> list[Export]:
    """All exports of the host, each with the name of its software."""
    return [{"software": name, **offered} for name, software in SOFTWARE.items() for offered in software.read(system)]


def holders(exports: Collection[Export]) -> set[str]:
    """The programs that have a device open because of these exports."""
    daemons = (SOFTWARE[export["software"]].daemon for export in exports if export["software"] in SOFTWARE)
    return {daemon for daemon in daemons if daemon}
