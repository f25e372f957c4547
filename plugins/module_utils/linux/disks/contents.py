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

# Nearly everything has something at one of its ends; what lies between is seen by chance only.
EDGE_BYTES = 1 << 20
SAMPLE_BYTES = 4096
SAMPLES_BETWEEN = 62

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
    """Whether all of it is one byte again and again, as on a new disk (zeros) or on erased flash (ones). Of nothing it says False."""
    filling = None
    for sample in samples:
        filling = sample[:1] if filling is None else filling
        if not sample or sample.count(filling) != len(sample):
            return False
    return filling is not None


def look(path: str) -> dict[str, Any]:
    """{contents: blank, data or unreadable, and then the reason}. Reads past the page cache, so the device is neither changed nor held."""
    try:
        if not stat.S_ISBLK(os.stat(path).st_mode):
            return {"contents": UNREADABLE, "reason": "it is no block device"}
        size = block_device.size_bytes(path)
        if not size:
            return {"contents": UNREADABLE, "reason": "it has no size"}
        is_blank = blank(block_device.read_direct(path, length, offset) for offset, length in places(size))
    except OSError as error:
        return {"contents": UNREADABLE, "reason": errno.errorcode.get(error.errno or 0, str(error))}
    return {"contents": BLANK if is_blank else DATA}
