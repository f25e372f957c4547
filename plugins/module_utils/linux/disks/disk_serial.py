# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one disk with a serial among the disks of a host, whatever its system."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from ...core.failure import Failure
from ..params import DiskBySerialParams
from . import scsi_pages

SYS_BLOCK = "/sys/block"

SPEC: dict[str, Any] = {
    "serial": {"type": "str", "required": True},
    "size_bytes": {"type": "int", "required": True},
    "timeout_s": {"type": "int", "default": 10},
}


def pick(disks: Sequence[tuple[str, str, int]], serial: str, size_bytes: int) -> str | None:
    """Path of the disk among [(path, serial, size_bytes)]; None when it is not there yet."""
    matching = [disk for disk in disks if serial and disk[1] == serial]
    if not matching:
        return None
    if len(matching) > 1:
        raise Failure(
            "serial_twice",
            f"Disks {', '.join(disk[0] for disk in matching)} all have the serial {serial}.",
            "Give each disk a serial of its own.",
            serial=serial,
        )
    path, _serial, actual = matching[0]
    if actual != size_bytes:
        raise Failure(
            "size_differs",
            f"Disk {path} with serial {serial} has {actual} bytes, not {size_bytes}.",
            "Attach the right disk.",
            serial=serial,
            size_bytes=actual,
            wanted_bytes=size_bytes,
        )
    return str(path)


def missing(serial: str) -> Failure:
    return Failure(
        "disk_missing", f"There is no disk with the serial {serial}.", "Attach it and run this again.", serial=serial
    )


def read(folder: str, *names: str) -> str:
    """The first of the files that is there."""
    for name in names:
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                return stream.read().strip()
        except OSError:
            continue
    return ""


def read_page(folder: str) -> bytes:
    """The page of vital product data with the serial of a SCSI disk; empty for other disks."""
    try:
        with open(os.path.join(folder, "device/vpd_pg80"), "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def serial_of(folder: str) -> str:
    """The serial of the disk of a folder in sysfs; empty when it shows none."""
    return scsi_pages.unit_serial(read_page(folder)) or read(folder, "serial", "device/serial")


def disks(sys_block: str = SYS_BLOCK) -> list[tuple[str, str, int]]:
    """(path, serial, size_bytes) of each disk; the kernel counts in sectors of 512 bytes whatever the disk's own are."""
    disks_there = []
    for name in sorted(os.listdir(sys_block)):
        folder = os.path.join(sys_block, name)
        # A path to an NVMe disk that the kernel has joined (nvme0c0n1) shows what the disk shows, and has no node.
        if read(folder, "hidden") == "1":
            continue
        disks_there.append(
            (
                f"/dev/{name}",
                serial_of(folder),
                int(read(folder, "size") or 0) * 512,
            )
        )
    return disks_there


def find(serial: str, size_bytes: int, timeout_s: int) -> str:
    deadline = time.monotonic() + timeout_s
    while True:
        path = pick(disks(), serial, size_bytes)
        if path:
            return path
        if time.monotonic() > deadline:
            raise missing(serial)
        time.sleep(0.2)


def ensure(params: DiskBySerialParams, check_mode: bool) -> dict[str, object]:
    """The work of the module disk_by_serial; it only looks, in check mode too."""
    return {"changed": False, "path": find(params["serial"], params["size_bytes"], params["timeout_s"])}
