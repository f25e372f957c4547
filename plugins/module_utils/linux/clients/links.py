# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether storage is on the disk that its user says it is on, as far as one host can see: a folder's file system, or a device that others were made of.

Where the kernel shows what a device is made of, it decides. Where it shows none, as for a folder of a server or of ZFS, the user's word stands.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from ...core.failure import Failure
from ...core.layers import DECLARED, PROVEN
from .. import mounts
from ..disks.sought import btrfs_members
from ..disks.system import System


def made_of(number: str, system: System) -> set[str]:
    """The numbers of a device and of all that it is made of: the disk of a partition, the members of an array, the paths of a multipath device."""
    numbers: set[str] = set()
    todo = [system.resolve(f"/sys/dev/block/{number}")]
    while todo:
        folder = todo.pop()
        own = system.read(f"{folder}/dev")
        if not own or own in numbers:
            continue
        numbers.add(own)
        if system.read(f"{folder}/partition"):
            todo.append(os.path.dirname(folder))
        todo += [system.resolve(f"{folder}/slaves/{name}") for name in system.names(f"{folder}/slaves")]
        # A loop device is made of a file, which is of another file system.
        backing = system.read(f"{folder}/loop/backing_file")
        todo += [system.resolve(f"/sys/dev/block/{other}") for other in _of_folder(backing, system)] if backing else []
    return numbers


def _of_folder(path: str, system: System) -> list[str]:
    """The numbers of the devices that hold a path; none where its file system is on no device that the kernel shows."""
    table = mounts.parse(system.read("/proc/self/mountinfo") or "")
    mount = mounts.holding(table, system.resolve(path))
    if mount is None:
        return []
    if mount["filesystem"] == "btrfs":
        return next(
            (devices for devices in btrfs_members(system).values() if _is_of(mount["source"], devices, system)), []
        )
    return [] if mount["numbers"].startswith("0:") else [mount["numbers"]]


def _is_of(path: str, devices: list[str], system: System) -> bool:
    try:
        number = system.stat(path).st_rdev
    except OSError:
        return False
    return f"{os.major(number)}:{os.minor(number)}" in devices


def devices_of(path: str, system: System) -> set[str]:
    """The numbers of all devices below a disk or a folder; empty where the kernel shows none."""
    try:
        status = system.stat(path)
    except OSError:
        return set()
    bottoms: Iterable[str] = _of_folder(path, system)
    if status.st_rdev:
        bottoms = [f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"]
    return set().union(*(made_of(number, system) for number in bottoms))


def link(name: str, path: str, below: str, disk: str, system: System) -> str:
    """PROVEN where a disk or folder is on a disk, DECLARED where this host cannot tell; raises on_another where it is on other devices alone.

    below: the name of the layer below, which the failure names; disk: its path.
    """
    devices, wanted = devices_of(path, system), devices_of(disk, system)
    if not devices or not wanted:
        return DECLARED
    if wanted & devices:
        return PROVEN
    names = sorted(os.path.basename(system.resolve(f"/sys/dev/block/{number}")) for number in devices)
    raise Failure(
        "on_another",
        f"{path} of {name} is on {', '.join(names)}, and not on {disk}, which is {below}.",
        "Correct on of that entry in testbed.existing, or leave it out.",
        path=path,
        devices=names,
    )
