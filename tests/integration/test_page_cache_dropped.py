# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page cache is dropped for real."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import memory_use as memory
from cached_file import MIB, middle_cached


@pytest.fixture
def cached(tmp_path):
    """A file of 3 MiB whose middle MiB alone is cached."""
    return middle_cached(tmp_path / "file")


def test_the_cache_is_dropped(cached):
    assert memory.drop_page_cache()
    assert memory.resident_bytes(cached, 0, 3 * MIB) == 0
