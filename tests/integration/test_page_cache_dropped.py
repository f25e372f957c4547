# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page cache is dropped for real."""

from __future__ import annotations

import os

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import memory_use as memory

MIB = 1 << 20


@pytest.fixture
def cached(tmp_path):
    """A file of 3 MiB whose middle MiB alone is cached."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(3 * MIB))
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
    for offset in range(MIB, 2 * MIB, 4096):
        os.pread(handle, 4096, offset)
    os.close(handle)
    return str(path)


def test_the_cache_is_dropped(cached):
    assert memory.drop_page_cache()
    assert memory.resident_bytes(cached, 0, 3 * MIB) == 0
