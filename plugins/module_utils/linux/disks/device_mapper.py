# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables and status of device mapper devices, asked of the kernel itself (include/uapi/linux/dm-ioctl.h): no command has to be started for it.

A cache's status is that of Documentation/admin-guide/device-mapper/cache.rst.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Any

CONTROL = "/dev/mapper/control"
# version, data_size, data_start, target_count, open_count, flags, event_nr, padding, dev, name, uuid, data: struct dm_ioctl.
HEAD = struct.Struct("=3I2IIiIIIQ128s129s7s")
# sector_start, length, status, next, target_type: struct dm_target_spec.
TARGET = struct.Struct("=QQiI16s")
# _IOWR(0xfd, 12, struct dm_ioctl)
TABLE_STATUS = 3 << 30 | HEAD.size << 16 | 0xFD << 8 | 12
STATUS_TABLE, BUFFER_FULL, NO_FLUSH = 1 << 4, 1 << 8, 1 << 11
BUFFER_BYTES = 16384


def targets(number: str, table: bool = False, flush: bool = False) -> list[dict[str, Any]]:
    """[{start, length, type, text}] of the active table of device 'major:minor', sectors of 512 bytes; empty without such a device.

    table: its arguments in the place of its status. flush: let the target first write what its status is about (a cache its metadata).
    """
    major, minor = (int(part) for part in number.split(":"))
    flags = (STATUS_TABLE if table else 0) | (0 if flush else NO_FLUSH)
    request = HEAD.pack(4, 0, 0, BUFFER_BYTES, HEAD.size, 0, 0, flags, 0, 0, os.makedev(major, minor), b"", b"", b"")
    buffer = bytearray(request.ljust(BUFFER_BYTES, b"\0"))
    try:
        control = os.open(CONTROL, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # no device mapper in this kernel, or not root
        return []
    try:
        fcntl.ioctl(control, TABLE_STATUS, buffer)
    except OSError:  # no such device
        return []
    finally:
        os.close(control)
    return parse(bytes(buffer))


def parse(buffer: bytes) -> list[dict[str, Any]]:
    """The targets in the kernel's answer; raises ValueError when it did not fit."""
    _a, _b, _c, _size, start, count, _open, flags = HEAD.unpack_from(buffer)[:8]
    if flags & BUFFER_FULL:
        raise ValueError(f"a device mapper table of more than {BUFFER_BYTES} bytes")
    answered, place = [], start
    for _number in range(count):
        begin, length, _status, following, kind = TARGET.unpack_from(buffer, place)
        text = buffer[place + TARGET.size :].split(b"\0", 1)[0].decode("utf-8", "replace")
        answered.append(
            {"start": begin, "length": length, "type": kind.rstrip(b"\0").decode("ascii"), "text": text.strip()}
        )
        # Offsets are from the first target on.
        place = start + following
    return answered


def cache_status(text: str) -> dict[str, Any] | None:
    """The parts of the status of a cache; None for a cache that failed.

    {block_bytes, used, blocks, dirty (blocks), counts: [read hits, read misses, write hits, write misses, demotions, promotions] since its table was
    loaded, mode, policy, migration_threshold (sectors), metadata_mode, needs_check}
    """
    words = text.split()
    if len(words) < 12 or "/" not in words[1]:
        return None  # 'Fail' or 'Error'
    used, blocks = (int(part) for part in words[3].split("/"))
    status: dict[str, Any] = {
        "block_bytes": int(words[2]) * 512,
        "used": used,
        "blocks": blocks,
        "counts": [int(word) for word in words[4:10]],
        "dirty": int(words[10]),
    }
    features, rest = _counted(words[11:])
    core, rest = _counted(rest)
    settings = dict(zip(core[::2], core[1::2]))
    modes = [word for word in features if word in ("writethrough", "writeback", "passthrough")]
    policy = rest[0] if rest else ""
    tail = _counted(rest[1:])[1] if len(rest) > 1 else []
    status.update(
        mode=(modes or [""])[0], policy=policy, migration_threshold=int(settings.get("migration_threshold", 0))
    )
    status.update(metadata_mode=(tail or [""])[0], needs_check="needs_check" in tail)
    return status


def _counted(words: list[str]) -> tuple[list[str], list[str]]:
    """(as many words as the first one says, the rest)"""
    count = int(words[0]) if words and words[0].isdigit() else 0
    return words[1 : 1 + count], words[1 + count :]
