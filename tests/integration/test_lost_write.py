# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A device that lost a write and is well again, by a real kernel: a loop device whose file stands in a file system that was full for a while."""

from __future__ import annotations

import mmap
import os
import subprocess

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import block_device

PAGE = 4096


@pytest.fixture
def full(tmp_path):
    """(device, the file that takes all other room) of a file system of one mebibyte."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], check=True)
    try:
        image, filling = tmp_path / "image", tmp_path / "filling"
        with image.open("wb") as handle:
            handle.truncate(512 << 10)
            handle.write(b"\7" * PAGE)
        shown = subprocess.run(
            ["losetup", "--find", "--show", str(image)], check=True, stdout=subprocess.PIPE, text=True
        )
        device = shown.stdout.strip()
        try:
            with pytest.raises(OSError, match="No space left"), filling.open("wb", buffering=0) as handle:
                while True:
                    handle.write(bytes(PAGE))
            yield device, filling
        finally:
            subprocess.run(["losetup", "--detach", device], check=True)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def once(device: str) -> int:
    handle = os.open(device, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, PAGE) as buffer:
            return os.preadv(handle, [buffer], 0)
    finally:
        os.close(handle)


def lose_a_write(device: str, filling) -> None:
    handle = os.open(device, os.O_WRONLY)
    try:
        os.pwrite(handle, b"\3" * PAGE, 65536)
    finally:
        os.close(handle)
    # Unlike fsync, which would tell of the loss itself.
    os.sync()
    filling.unlink()


def test_it_is_read_though_the_kernel_tells_of_the_loss(full):
    device, filling = full
    # The kernel forgets it with the last who has the device open.
    held = os.open(device, os.O_RDONLY)
    try:
        lose_a_write(device, filling)
        assert block_device.read_direct(device, PAGE) == b"\7" * PAGE
    finally:
        os.close(held)


def test_the_kernel_does_tell_of_it(full):
    """Without this the test above shows nothing."""
    device, filling = full
    held = os.open(device, os.O_RDONLY)
    try:
        lose_a_write(device, filling)
        with pytest.raises(OSError, match="Input/output error"):
            once(device)
        assert once(device) == PAGE
    finally:
        os.close(held)
