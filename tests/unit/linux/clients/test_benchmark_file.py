# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each block of a benchmark file is written, and storage that recognises equal blocks finds none."""

from __future__ import annotations

import errno
import os

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import benchmark_file

SIZE = 3 << 20


def contents(path, stamp) -> bytes:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        benchmark_file.fill(file, SIZE, stamp)
    finally:
        os.close(file)
    return path.read_bytes()


def test_no_two_blocks_of_two_files_are_equal(tmp_path):
    files = [contents(tmp_path / name, stamp) for name, stamp in (("first", 0), ("second", SIZE))]
    assert [len(data) for data in files] == [SIZE, SIZE]
    blocks = [data[place : place + 4096] for data in files for place in range(0, SIZE, 4096)]
    assert len(set(blocks)) == 2 * SIZE // 4096 == 1536
    # Nothing of a block can be left out or made smaller.
    assert all(len(set(block)) > 200 for block in blocks)


def test_a_write_that_takes_a_part_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "pwritev", lambda _file, buffers, _offset: len(buffers[0]) - 4096)
    with pytest.raises(OSError) as caught:
        contents(tmp_path / "short", 0)
    assert caught.value.errno == errno.ENOSPC and (tmp_path / "short").stat().st_size == 0
