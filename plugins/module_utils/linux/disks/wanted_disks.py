# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host has the disks and mount points that an inventory names, and which of its disks seem unused. Changes nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from ...core.layers import Layer
from .. import mounts
from ..host import read_text
from . import contents, device_safety, disk_serial, proven_disk
from .system import System

# Drives of optical media and floppies, which are not disks.
OTHER_DRIVES = re.compile(r"(sr|scd|fd)\d+")


def look(named: list[dict[str, object]], folders: list[str], unused: bool) -> dict[str, Any]:
    """The answer of host_probe about disks and folders. unused: look at every disk, too."""
    system = System()
    return {
        "disks": disks() if unused else [],
        "named": [_sampled(proven_disk.look_up(given, system), system) for given in named],
        "folders": {path: mounts.no_place(path) for path in folders},
    }


def _sampled(entry: dict[str, Any], system: System) -> dict[str, Any]:
    """The entry with what is on its disk, and what that shows of itself, where the contents will be gone (``fate``) and one disk is meant."""
    if not entry.get("fate") or not proven_disk.proofs(entry) or len(entry["paths"]) != 1:
        return entry
    (path,) = entry["paths"]
    return {**entry, "designators": device_safety.hints(device_safety.identity(path, system)), **contents.look(path)}


def taken(path: str) -> bool:
    """Whether the device guard has a reason against a disk, whatever it is to be: what only the host of a container mounts, or a file system on it."""
    facts = device_safety.inspect(path)
    known = {key: facts.get(key) for key in ("size_bytes", "major_minor")}
    identity = {"major_minor": known["major_minor"]} if known["major_minor"] else {}
    layer: Layer = {
        "name": "a new disk",
        "host": "this host",
        "path": path,
        "parent": None,
        "purpose": "scratch",
        "size_bytes": known["size_bytes"],
        "identity": identity,
    }
    return bool(device_safety.refusals(facts, layer))


def disks(root: str = "/sys/block", table: str = mounts.TABLE, held: Callable[[str], bool] = taken) -> list[Any]:
    """[{path, size_bytes, sector_bytes, serial, used}] of the host's disks. used: something says so; False proves nothing."""
    result, sources = [], {source for mount in mounts.read(table) for source in mounts.sources(mount)}
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        folder = f"{root}/{name}"
        # Disks of memory, loops and devices on other disks have no device behind them.
        if not os.path.exists(f"{folder}/device") or OTHER_DRIVES.fullmatch(name):
            continue
        # A path to an NVMe disk that the kernel has joined (nvme0c0n1) has no node.
        if read_text(f"{folder}/hidden", default="0") == "1":
            continue
        parts = [entry for entry in os.listdir(folder) if entry.startswith(name)]
        holders = os.path.isdir(f"{folder}/holders") and os.listdir(f"{folder}/holders")
        mounted = any(re.fullmatch(rf"/dev/{re.escape(name)}(p?\d+)?", source) for source in sources)
        result.append(
            {
                "path": f"/dev/{name}",
                "size_bytes": int(read_text(f"{folder}/size", default="0")) * 512,
                "sector_bytes": int(read_text(f"{folder}/queue/logical_block_size", default="512")),
                "serial": disk_serial.serial_of(folder),
                "used": bool(parts or holders or mounted) or held(f"/dev/{name}"),
            }
        )
    return result
