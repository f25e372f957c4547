# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Direct reads: a write that was lost earlier is no error of the read."""

from __future__ import annotations

import errno
import os

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import block_device


@pytest.mark.parametrize(
    ("errors", "calls", "raised"),
    [
        ([], 1, None),
        ([errno.EIO], 2, None),
        ([errno.EIO, errno.EIO], 2, errno.EIO),
        ([errno.ENXIO], 1, errno.ENXIO),
    ],
)
def test_a_lost_write_is_told_once(tmp_path, monkeypatch, errors, calls, raised):
    path, left, done = tmp_path / "disk", list(errors), []
    path.write_bytes(os.urandom(8192))
    read = os.preadv

    def preadv(handle, buffers, offset):
        done.append(offset)
        if left:
            raise OSError(left.pop(0), "as the kernel says")
        return read(handle, buffers, offset)

    monkeypatch.setattr(block_device.os, "preadv", preadv)
    if raised is None:
        assert block_device.read_direct(str(path), 4096) == path.read_bytes()[:4096]
    else:
        with pytest.raises(OSError) as caught:
            block_device.read_direct(str(path), 4096)
        assert caught.value.errno == raised
    assert len(done) == calls
