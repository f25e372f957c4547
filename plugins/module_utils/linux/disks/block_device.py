# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Block devices as the kernel shows them: exact size, numbers, and who uses them."""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Sequence
from typing import Any

from ...core.failure import Failure
from ..host import read_text
from . import device_safety
from .system import System


def device_numbers(path: str) -> str | None:
    """'major:minor' of a block device node, None when path is not a block device."""
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


def logical_block_bytes(path: str, root: str = "/") -> int | None:
    """The unit in which direct I/O on a block device goes; a partition has that of its disk."""
    folder = os.path.realpath(os.path.join(root, "sys/class/block", os.path.basename(os.path.realpath(path))))
    texts = (read_text(f"{place}/queue/logical_block_size", default="") for place in (folder, os.path.dirname(folder)))
    return next((int(text) for text in texts if text), None)


def read_direct(path: str, length: int, offset: int = 0) -> bytes:
    """Bytes of a device or file from the storage itself, past every cache. length, offset: multiples of the sector size. Raises OSError.

    Before a direct read the kernel looks at what it wrote from its cache, and the first one reports a write that was lost, whenever that was
    (filemap_check_errors() in mm/filemap.c). It reports it once, so an error of input and output counts when it comes again.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        # Direct I/O needs an aligned buffer: a fresh mapping is one.
        with mmap.mmap(-1, length) as buffer:
            try:
                read_bytes = os.preadv(handle, [buffer], offset)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                read_bytes = os.preadv(handle, [buffer], offset)
            return buffer[:read_bytes]
    finally:
        os.close(handle)


def users(path: str, with_openers: bool = True, system: System | None = None) -> list[Any]:
    """Everything that uses the device or the devices on it, in words that a message can show; empty when it is free."""
    facts = device_safety.usage(path, system, with_openers)
    if facts["type"] != "block":
        return []
    uses = [f"mounted on {mount}" for mount in facts["mounts"]]
    uses += ["swap space"] if facts["swap"] else []
    uses += [f"held by {holder}" for holder in facts["holders"] + facts["holders_above"]]
    uses += [f"exported as {export['name']} ({export['software']})" for export in facts["exports"]]
    uses += [f"backs {loop}" for loop in facts["loops"]]
    return uses + [f"open in {opener['command']} (pid {opener['pid']})" for opener in facts.get("openers", [])]


def in_use(what: str, path: str, uses: Sequence[str]) -> Failure:
    """The failure for a device that cannot go because of its users."""
    code = "device_mounted" if any("mounted on" in use for use in uses) else "device_in_use"
    return Failure(code, f"{what}: it is {', '.join(uses)}.", "Remove what uses it first.", path=path, users=uses)


def instance(path: str) -> str | None:
    """The mark that distinguishes this very device or file from one of the same name and number that came after it; None when the kernel has none.

    diskseq (Linux 5.15, Documentation/ABI/stable/sysfs-block) is never given twice until the next boot.
    """
    status, boot = os.stat(path), read_text("/proc/sys/kernel/random/boot_id", default="").strip()
    if not stat.S_ISBLK(status.st_mode):
        return f"{boot}/{status.st_dev}/{status.st_ino}" if boot else None
    folder = os.path.realpath(f"/sys/dev/block/{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}")
    # A partition has the sequence number of its disk.
    sequence = next(
        filter(
            None, (read_text(f"{place}/diskseq", default="").strip() for place in (folder, os.path.dirname(folder)))
        ),
        None,
    )
    return f"{boot}/{sequence}/{os.path.basename(folder)}" if boot and sequence else None
