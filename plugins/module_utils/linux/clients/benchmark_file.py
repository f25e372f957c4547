# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contents of a benchmark file, on a datastore of the testbed as on storage of others."""

from __future__ import annotations

import errno
import mmap
import os
import struct

MIB = 1 << 20
# Storage recognises equal blocks at this size and at multiples of it.
BLOCK = 4096


def fill(file: int, size: int, stamp: int = 0) -> None:
    """Write exactly so many bytes, a multiple of 1 MiB: reading blocks that were never written would measure nothing.

    file: opened for writing, with direct I/O or without. stamp: where the numbers of the blocks begin, so that the blocks of several files differ, too.
    No two blocks of 4 KiB are equal. Raises OSError, also where the storage takes a part of a block only.
    """
    with mmap.mmap(-1, MIB) as buffer:
        buffer.write(os.urandom(MIB))
        for offset in range(0, size, MIB):
            for place in range(0, MIB, BLOCK):
                struct.pack_into("<Q", buffer, place, stamp + offset + place)
            if os.pwritev(file, [buffer], offset) != MIB:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(file)
