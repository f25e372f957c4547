# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page cache holds, against files whose caching is known, and the copy bandwidth against a copy of our own."""

from __future__ import annotations

import os
import time

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import memory_use as memory
from cached_file import MIB, middle_cached


@pytest.fixture
def cached(tmp_path):
    """A function that makes a file of 3 MiB whose middle MiB alone is cached, and gives what is asked of it.

    The kernel may keep a page that it is told to drop, and others may drop one, so a machine that is busy gets a few attempts.
    """

    def ask(question, expected):
        for attempt in range(8):
            answer = question(middle_cached(tmp_path / f"file{attempt}"))
            if answer == expected:
                break
        return answer

    return ask


@pytest.mark.parametrize(
    ("offset", "size", "expected"), [(0, 3 * MIB, MIB), (0, MIB, 0), (MIB + 8192, MIB, MIB - 8192)]
)
def test_resident_bytes(cached, offset, size, expected):
    assert cached(lambda path: memory.resident_bytes(path, offset, size), expected) == expected


def test_a_layer_larger_than_a_window(cached, monkeypatch):
    monkeypatch.setattr(memory, "WINDOW_BYTES", 640 << 10)
    assert cached(lambda path: memory.resident_bytes(path, 0, 3 * MIB), MIB) == MIB


def test_where_dropping_is_not_allowed(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "DROP", str(tmp_path / "missing" / "drop_caches"))
    assert memory.drop_page_cache() is False


def test_copying_is_as_fast_as_memory_is(monkeypatch):
    monkeypatch.setattr(memory, "COPY_S", 0.1)
    buffers = bytearray(os.urandom(MIB) * 16), bytearray(16 * MIB)
    alone = 0.0
    # The best of several, as there: the first one also gets the memory, and on a busy machine others come between.
    for _ in range(20):
        begun = time.monotonic()
        buffers[1][:] = buffers[0]
        alone = max(alone, 16 * MIB / (time.monotonic() - begun))
    # Not the page of zeros, not the cache of a core, not a copy of one byte: within an order of magnitude of one plain copy for each core.
    assert alone / 10 < memory.copy_bytes_s() < alone * 10 * os.cpu_count()
