# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A device or a file, and the devices on it, recognised under any name.

A path proves nothing: a container or a jail has nodes of its own for the same device, and other paths to the same file. Only the number of a device counts
(st_rdev), and the inode of a file with the number of its file system.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import struct
import time
from typing import Any

from .. import mounts
from ..nouns import Mount
from . import designators
from .facts import Opener

# include/uapi/linux/loop.h: struct loop_info64 begins with the file system, the inode and, of a block device, the number of what is behind.
LOOP_GET_STATUS64, LOOP_INFO64_BYTES = 0x4C05, 232
# Programs that go through all devices of a host (udev, blkid, `losetup --find` in its race for a free one) have each open for a moment. Who has it
# open is not decided until such a program had the time to end.
PASSING_S, LOOK_S, PATIENCE_S = 1.0, 0.05, 5.0
# Things that are not files of a file system.
NO_FILE = ("socket:", "pipe:", "anon_inode:", "net:", "mnt:")


def numbers(device: int) -> str:
    return f"{os.major(device)}:{os.minor(device)}"


def loop_backing(node: str) -> tuple[str, int, str] | None:
    """(number of the file system, inode, number of the block device or '0:0') of what is behind a loop device; None when that cannot be asked."""
    try:
        handle = os.open(node, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        device, inode, behind = struct.unpack_from(
            "=QQQ", fcntl.ioctl(handle, LOOP_GET_STATUS64, bytes(LOOP_INFO64_BYTES))
        )
    except OSError:
        return None
    finally:
        os.close(handle)
    return numbers(device), inode, numbers(behind)


class Sought:
    """nodes: paths as this process sees them. devices: numbers of block devices. file: (number of its file system, inode) of a regular file, if it is one."""

    def __init__(self, system: Any, nodes: set[str], devices: set[str], file: tuple[str, int] | None = None) -> None:
        self.system, self.nodes, self.devices, self.file = system, nodes, devices, file

    def at(self, path: str) -> bool:
        """Whether this path leads to it; it may be one through another process' root."""
        if path in self.nodes:
            return True
        try:
            status = self.system.stat(path)
        except OSError:  # gone, or not for this user
            return False
        if stat.S_ISBLK(status.st_mode):
            return numbers(status.st_rdev) in self.devices
        return (
            self.file is not None
            and stat.S_ISREG(status.st_mode)
            and (numbers(status.st_dev), status.st_ino) == self.file
        )

    def behind_loop(self, backing: tuple[str, int, str] | None) -> bool:
        """Whether it is what a loop device has behind it, as loop_backing returns it."""
        return backing is not None and (backing[2] in self.devices or backing[:2] == self.file)

    def mounted(self, mount: Mount, pid: str) -> bool:
        """Whether it is what a process sees mounted there. A file system of several devices has a number of its own, so its sources count, too."""
        if mount["numbers"] in self.devices:
            return True
        root = "" if pid == "self" else f"/proc/{pid}/root"
        return any(
            self.system.resolve(source) in self.nodes or self.at(f"{root}{source}") for source in mounts.sources(mount)
        )

    def openers(self) -> list[Opener]:
        """Other processes that have it open and keep it open, e.g. a machine whose disk it is: [{pid, command, writes}]."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            openers = self._openers()
            if not any(self._just_started(opener["pid"]) for opener in openers) or time.monotonic() >= deadline:
                return openers
            time.sleep(LOOK_S)

    def _just_started(self, pid: int) -> bool:
        """Sources: proc_pid_stat(5), field 22 in clock ticks since the boot; proc_uptime(5) in seconds."""
        fields = (self.system.read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
        uptime = (self.system.read("/proc/uptime") or "").split()
        if len(fields) < 20 or not uptime:
            return False
        return float(uptime[0]) - int(fields[19]) / os.sysconf("SC_CLK_TCK") < PASSING_S

    def _openers(self) -> list[Opener]:
        openers: list[Opener] = []
        for pid in sorted((pid for pid in self.system.names("/proc") if pid.isdigit()), key=int):
            if int(pid) == os.getpid():
                continue
            modes = [
                self._writes(pid, descriptor)
                for descriptor in self.system.names(f"/proc/{pid}/fd")
                if self._open(pid, descriptor)
            ]
            if modes:
                command = self.system.read(f"/proc/{pid}/comm") or "?"
                openers.append({"pid": int(pid), "command": command, "writes": any(modes)})
        return openers

    def _open(self, pid: str, descriptor: str) -> bool:
        link = f"/proc/{pid}/fd/{descriptor}"
        target = self.system.read_link(link) or ""
        return target in self.nodes or (not target.startswith(NO_FILE) and self.at(link))

    def _writes(self, pid: str, descriptor: str) -> bool:
        flags = re.search(r"flags:\s*(\d+)", self.system.read(f"/proc/{pid}/fdinfo/{descriptor}") or "")
        return bool(flags and int(flags.group(1), 8) & os.O_ACCMODE)


def btrfs_members(system: Any) -> dict[str, list[str]]:
    """{UUID: [number of each device]} of the Btrfs file systems that are mounted somewhere; a mount table shows but one device of each."""
    members = {}
    for uuid in system.names("/sys/fs/btrfs"):
        folder = f"/sys/fs/btrfs/{uuid}/devices"
        numbers_of = [system.read(f"{system.resolve(f'{folder}/{name}')}/dev") for name in system.names(folder)]
        members[uuid] = [number for number in numbers_of if number]
    return {uuid: devices for uuid, devices in members.items() if devices}


def twins(system: Any, folder: str) -> list[str]:
    """Folders in sysfs of the other disks that are the same one, such as a LUN that was logged in to at two portals without multipath."""
    # The device that several paths were joined to is judged by itself.
    names = set() if "dm" in system.names(folder) else designators.worldwide(designators.of(system, folder))
    size = system.read(f"{folder}/size")
    folders = [system.resolve(f"/sys/block/{name}") for name in system.names("/sys/block")] if names else []
    return [
        other
        for other in folders
        if other != folder
        and system.read(f"{other}/size") == size
        and names & designators.worldwide(designators.of(system, other))
    ]
