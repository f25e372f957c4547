# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Block devices as the kernel shows them: exact size, numbers, and who uses them."""

from __future__ import annotations

import os
import stat

from .failure import Failure
from .host import read_text


def device_numbers(path: str) -> str | None:
    """'major:minor' of a block device node, None when path is no block device."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if stat.S_ISBLK(status.st_mode) else None


def size_bytes(path: str, root: str = "/") -> int | None:
    """Exact size of a block device from sysfs (512-byte sectors whatever the block size)."""
    name = os.path.basename(os.path.realpath(path))
    text = read_text(os.path.join(root, "sys/class/block", name, "size"), default="")
    return int(text) * 512 if text else None


def unescape_mount(field: str) -> str:
    """Mount tables write blanks, tabs, newlines and backslashes as octal."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field


def mounts(root: str = "/") -> list:
    """Mounts of this namespace: [{numbers, mount_point, filesystem, source, options}], oldest first."""
    found = []
    for line in read_text(os.path.join(root, "proc/self/mountinfo"), default="").splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        found.append(
            {
                "numbers": fields[2],
                "mount_point": unescape_mount(fields[4]),
                "filesystem": tail[0],
                "source": unescape_mount(tail[1]),
                "options": sorted(set(fields[5].split(",")) | set(tail[2].split(","))),
            }
        )
    return found


def openers(numbers: str, root: str = "/") -> list:
    """Processes that hold the block device open: ['tgtd (pid 71)']."""
    found = []
    for pid in sorted((entry for entry in os.listdir(os.path.join(root, "proc")) if entry.isdigit()), key=int):
        folder = os.path.join(root, "proc", pid, "fd")
        try:
            handles = os.listdir(folder)
        except OSError:  # ended meanwhile
            continue
        if pid != str(os.getpid()) and any(_same_device(os.path.join(folder, handle), numbers) for handle in handles):
            found.append(f"{read_text(os.path.join(root, 'proc', pid, 'comm'), default='?')} (pid {pid})")
    return found


def _same_device(path: str, numbers: str) -> bool:
    try:
        return device_numbers(path) == numbers
    except OSError:  # closed meanwhile
        return False


def users(path: str, root: str = "/", with_openers: bool = True) -> list:
    """Everything that uses the device, in words a message can show; empty when it is free."""
    real = os.path.realpath(path)
    numbers, name = device_numbers(real), os.path.basename(real)
    if numbers is None:
        return []
    block = os.path.join(root, "sys/class/block", name)
    found = [f"mounted on {mount['mount_point']}" for mount in mounts(root) if mount["numbers"] == numbers]
    found += ["swap space" for line in read_text(os.path.join(root, "proc/swaps"), default="").splitlines()[1:] if line.split()[0] == real]
    holders = os.path.join(block, "holders")
    found += [f"held by {holder}" for holder in (sorted(os.listdir(holders)) if os.path.isdir(holders) else [])]
    for part in sorted(os.listdir(block)) if os.path.isdir(block) else []:
        if os.path.exists(os.path.join(block, part, "partition")):
            found += [f"partition {part} {use}" for use in users(f"/dev/{part}", root, with_openers)]
    found += lio_exports(real, root)
    found += _loop_backing(real, root)
    if with_openers:
        found += [f"open in {process}" for process in openers(numbers, root)]
    return found


def in_use(what: str, path: str, found: list) -> Failure:
    """The failure for a device that cannot go because of its users."""
    code = "device_mounted" if any("mounted on" in use for use in found) else "device_in_use"
    return Failure(code, f"{what}: it is {', '.join(found)}.", "Remove what uses it first.", path=path, users=found)


def lio_exports(path: str, root: str = "/") -> list:
    core = os.path.join(root, "sys/kernel/config/target/core")
    found = []
    for hba in sorted(os.listdir(core)) if os.path.isdir(core) else []:
        if hba.startswith("iblock_"):
            for store in sorted(os.listdir(os.path.join(core, hba))):
                file = os.path.join(core, hba, store, "udev_path")  # beside the backstores lies a file, hba_info
                exported = read_text(file) if os.path.exists(file) else ""
                if exported and os.path.realpath(exported) == path:
                    found.append(f"exported as backstore {store}")
    return found


def _loop_backing(path: str, root: str) -> list:
    folder = os.path.join(root, "sys/block")
    return [
        f"backs {name}"
        for name in (sorted(os.listdir(folder)) if os.path.isdir(folder) else [])
        if name.startswith("loop") and read_text(os.path.join(folder, name, "loop/backing_file"), default="") == path
    ]
