# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel counts of a device, on a loop device whose I/O is known."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import counters
from loop_device import attached


def test_device_counts_are_exact(loop_device):
    number = counters.device_number(loop_device)
    handle = os.open(loop_device, os.O_RDWR)
    try:
        os.pwrite(handle, os.urandom(4096), 0)
        os.fsync(handle)
        before = counters.sample(number)
        os.pwrite(handle, os.urandom(3 * 65536), 65536)
        os.fsync(handle)
        device = counters.delta(before, counters.sample(number))["device"]
    finally:
        os.close(handle)
    assert device["name"] == os.path.basename(loop_device)
    assert device["write"]["bytes"] == 3 * 65536
    assert device["read"] == {"ios": 0, "bytes": 0}


def test_a_device_that_counts_nothing_is_absent(loop_device):
    switch = Path("/sys/block", os.path.basename(loop_device), "queue/iostats")
    switch.write_text("0", encoding="ascii")
    try:
        assert "device" not in counters.sample(counters.device_number(loop_device))
    finally:
        switch.write_text("1", encoding="ascii")
    assert counters.device_counts("0:999") is None


def test_the_device_beneath_a_file(loop_device, tmp_path):
    beneath = os.stat(tmp_path).st_dev
    found = counters.device_number(str(tmp_path))
    assert found in (f"{os.major(beneath)}:{os.minor(beneath)}", None)
    assert counters.device_number("/dev/shm") is None
    assert counters.device_number(None) is None
    number = os.stat(loop_device).st_rdev
    assert counters.device_number(loop_device) == f"{os.major(number)}:{os.minor(number)}"


@pytest.fixture
def loop_device(tmp_path):
    with attached(tmp_path / "image", 1 << 20) as path:
        # A device that was never used counts nothing yet.
        subprocess.run(
            ["dd", f"if={path}", "of=/dev/null", "bs=64k", "count=1", "iflag=direct"], check=True, capture_output=True
        )
        yield path
