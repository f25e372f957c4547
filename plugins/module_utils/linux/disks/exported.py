# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that software of a host offers to others, ours or not: what each target shows of itself."""

from __future__ import annotations

import os
import re

from .facts import Export
from .system import System

# The program that holds a device open because software exports it; kernels export without one.
DAEMONS = {"tgt": "tgtd"}


def of_host(system: System) -> list[Export]:
    return _lio_exports(system) + _nvmet_exports(system) + _tgt_exports(system)


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
