# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples of a device say whether it is blank; what they say of real devices is in tests/integration/test_device_guard.py."""

from __future__ import annotations

import errno

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import contents

MIB = 1 << 20


@pytest.mark.parametrize("size", [512, 4096, MIB, MIB + 512, 2 * MIB, 3 * MIB, 64 * MIB + 512, 4 << 40])
def test_both_ends_are_read_and_nothing_beyond(size):
    places = contents.places(size)
    assert places[0][0] == 0 and max(offset + length for offset, length in places) == size
    assert all(offset >= 0 and offset + length <= size and length > 0 for offset, length in places)
    # Direct reads begin and end at sectors.
    assert all(offset % 512 == length % 512 == 0 for offset, length in places)
    assert sum(length for _offset, length in places) <= min(2 * size, 2 * MIB + 62 * 4096)


def test_what_lies_between_is_read_at_even_distances():
    places = contents.places(64 << 30)
    assert len(places) == 64 and places == sorted(places)
    distances = {after[0] - before[0] for before, after in zip(places[1:], places[2:-1])}
    assert max(distances) - min(distances) <= 4096 and min(distances) == pytest.approx((64 << 30) / 63, rel=1e-4)


@pytest.mark.parametrize(
    ("samples", "is_blank"),
    [
        ([bytes(4096), bytes(512)], True),
        ([b"\xff" * 4096, b"\xff" * 4096], True),
        ([bytes(4096), b"\xff" * 4096], False),
        ([bytes(4096), bytes(4095) + b"\1"], False),
        ([b"QFI\xfb" + bytes(4092), bytes(4096)], False),
        # What was not read is not blank.
        ([], False),
        ([b""], False),
        ([bytes(4096), b""], False),
    ],
)
def test_blank_is_one_byte_again_and_again(samples, is_blank):
    assert contents.blank(samples) is is_blank


def test_what_cannot_be_read_is_not_called_blank(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(bytes(4096))
    assert contents.look(str(tmp_path / "file")) == {"contents": "unreadable", "reason": "it is not a block device"}
    assert contents.look(str(tmp_path / "none")) == {"contents": "unreadable", "reason": "ENOENT"}
    monkeypatch.setattr(contents.stat, "S_ISBLK", lambda mode: True)
    monkeypatch.setattr(contents.block_device, "size_bytes", lambda path: 0)
    assert contents.look(str(tmp_path / "file"))["reason"] == "it has no size"

    def fails(path, length, offset):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(contents.block_device, "size_bytes", lambda path: 4096)
    monkeypatch.setattr(contents.block_device, "read_direct", fails)
    assert contents.look(str(tmp_path / "file")) == {"contents": "unreadable", "reason": "EIO"}
