# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The embedded lab: its network, names of interfaces, and disks that it makes."""

from __future__ import annotations

import hashlib
from typing import Any

from .testbed import Disk, Testbed

LAB_ADDRESS = "10.213.0.1/24"
INTERFACE_NAME = 15
# For a virtio disk, which the embedded lab makes.
SERIAL_BYTES = 20


def lab_network(testbed: Testbed) -> str:
    own = testbed.hosts[str(testbed.embedded)].own.get("embedded_lab_network") or {}
    return str(own.get("address", LAB_ADDRESS))


def tap_name(host: str) -> str:
    """Name of a machine's tap interface, for which the kernel has 15 characters."""
    plain = f"tap-{host}"
    # Names of hosts mostly differ at their end.
    return plain if len(plain) <= INTERFACE_NAME else f"tap-{host[:6]}-{host[-4:]}"


def serial(disk: Disk, end: Any) -> str:
    """The serial of a disk that the embedded lab makes: the name of what it is for and an end, in the 20 characters of a virtio serial."""
    most = SERIAL_BYTES - len(f"-{end}")
    stem = disk.name if len(disk.name) <= most else hashlib.sha256(disk.name.encode()).hexdigest()[:most]
    return f"{stem}-{end}"


def limits(emulated: dict[str, Any]) -> dict[str, Any]:
    return {key: emulated[key] for key in ("iops", "mib_s") if key in emulated}


def emulated_disk(disk: Disk, end: Any, emulated: dict[str, Any]) -> dict[str, Any]:
    """A disk that the embedded lab makes for one of testbed.disks."""
    return {"serial": serial(disk, end), "size_mib": emulated["size"], **limits(emulated)}
