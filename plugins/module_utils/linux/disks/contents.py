# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a device holds anything, by samples of it: a disk image or a database on a raw disk has no signature that blkid knows. Changes nothing."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from typing import Any

from . import block_device

# Nearly everything has something at one of its ends; the middle is seen by chance only.
EDGE_BYTES = 1 << 20
SAMPLE_BYTES = 4096
SAMPLES_BETWEEN = 62
# One in so many of the blocks at both ends is a sample.
EDGE_STEP = 64

BLANK, DATA, UNREADABLE = "blank", "data", "unreadable"


def places(size_bytes: int) -> list[tuple[int, int]]:
    """[(offset, length)] of what is read of a device of this size: its ends, and blocks at even distances between them."""
    edge = min(EDGE_BYTES, size_bytes)
    last = size_bytes - edge
    even = (size_bytes * number // (SAMPLES_BETWEEN + 1) for number in range(1, SAMPLES_BETWEEN + 1))
    blocks = [offset // SAMPLE_BYTES * SAMPLE_BYTES for offset in even]
    between = [(offset, SAMPLE_BYTES) for offset in blocks if edge <= offset <= last - SAMPLE_BYTES]
    return [(0, edge), *between, *([(last, edge)] if last else [])]


def blank(samples: Iterable[bytes]) -> bool:
    """Whether all of it is one byte again and again, as on a new disk (zeros) or on erased flash (ones). False for nothing."""
    filling = None
    for sample in samples:
        filling = sample[:1] if filling is None else filling
        if not sample or sample.count(filling) != len(sample):
            return False
    return filling is not None


def zero_percent(path: str, size_bytes: int) -> float | None:
    """The share of the samples of a device or file that hold only zeros, as unwritten blocks do; None when it cannot be read past the cache."""
    zeros = total = 0
    try:
        for begin in sampled_at(size_bytes):
            sample = block_device.read_direct(path, min(SAMPLE_BYTES, size_bytes), begin)
            zeros, total = zeros + (not any(sample)), total + 1
    except OSError:
        return None
    return share_percent(zeros, total)


def sampled_at(size_bytes: int) -> list[int]:
    """Where the blocks begin that decide about the share of zeros."""
    return [
        begin
        for offset, length in places(size_bytes)
        for begin in range(offset, offset + length, SAMPLE_BYTES * (1 if length == SAMPLE_BYTES else EDGE_STEP))
    ]


def share_percent(zeros: int, total: int) -> float | None:
    return round(100 * zeros / total, 1) if total else None


def hole_percent(path: str, size_bytes: int) -> float:
    """The share of a file that has no storage, as far as its file system knows: a read of it needs no device."""
    data = position = 0
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while position < size_bytes:
            begin = os.lseek(handle, position, os.SEEK_DATA)
            position = os.lseek(handle, begin, os.SEEK_HOLE)
            data += min(position, size_bytes) - min(begin, size_bytes)
    except OSError as error:
        # Nothing but a hole is left, or the file system knows of none.
        if error.errno != errno.ENXIO:
            return 0.0
    finally:
        os.close(handle)
    return round(100 * (1 - data / size_bytes), 1) if size_bytes else 0.0


def look(path: str) -> dict[str, Any]:
    """{contents: blank, data or unreadable, and then the reason}. Reads past the page cache, so the device is neither changed nor held."""
    try:
        if not stat.S_ISBLK(os.stat(path).st_mode):
            return {"contents": UNREADABLE, "reason": "it is not a block device"}
        size = block_device.size_bytes(path)
        if not size:
            return {"contents": UNREADABLE, "reason": "it has no size"}
        is_blank = blank(block_device.read_direct(path, length, offset) for offset, length in places(size))
    except OSError as error:
        return {"contents": UNREADABLE, "reason": errno.errorcode.get(error.errno or 0, str(error))}
    return {"contents": BLANK if is_blank else DATA}
