# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one disk with a serial among those of a host, whatever its system."""

from __future__ import annotations

from typing import Any

from ..core.failure import Failure

SPEC = {
    "serial": {"type": "str", "required": True},
    "size_bytes": {"type": "int", "required": True},
    "timeout_s": {"type": "int", "default": 10},
}


def pick(found: list[Any], serial: str, size_bytes: int) -> str | None:
    """Path of the disk among [(path, serial, size_bytes)]; None when it is not there yet."""
    matching = [disk for disk in found if serial and disk[1] == serial]
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
