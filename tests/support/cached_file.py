# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file of which it is known what the page cache holds."""

from __future__ import annotations

import os
from pathlib import Path

MIB = 1 << 20


def middle_cached(path: Path) -> str:
    """Write 3 MiB of which the middle MiB alone is cached then, as far as the kernel keeps and drops what it is told."""
    path.write_bytes(os.urandom(3 * MIB))
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
    for offset in range(MIB, 2 * MIB, 4096):
        os.pread(handle, 4096, offset)
    os.close(handle)
    return str(path)
