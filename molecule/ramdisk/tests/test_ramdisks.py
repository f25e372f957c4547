# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel says of the RAM disks, after the refusals of side_effect.yml."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

testinfra_hosts = ["ssh://target01"]
MIB = 1024 * 1024


def sectors(host, device: str) -> int:
    return int(host.file(f"/sys/block/{device}/size").content_string)


@pytest.mark.parametrize("device", ["ram0", "ram1"])
def test_brd_disks_have_the_exact_size(host, device):
    assert sectors(host, device) * 512 == 17 * MIB


def test_brd_has_no_more_disks_than_asked_for(host):
    assert not host.file("/sys/block/ram2").exists


def test_zram_disk_has_the_exact_size(host):
    sizes = [sectors(host, name) * 512 for name in host.file("/sys/block").listdir() if name.startswith("zram")]
    assert 19 * MIB in sizes


def loops(host) -> dict:
    return {
        host.file(f"/sys/block/{name}/loop/backing_file").content_string.strip(): name
        for name in host.file("/sys/block").listdir()
        if host.file(f"/sys/block/{name}/loop/backing_file").exists
    }


def test_tmpfs_disks_are_loop_devices_of_the_exact_size(host):
    found = loops(host)
    assert sorted(sectors(host, name) * 512 for name in found.values()) == [23 * MIB, 29 * MIB]
    assert all("m-tmpfs" in path for path in found)


def test_layers_say_whether_the_loop_devices_use_direct_io(host):
    """Kernels before 6.6 have no direct I/O on tmpfs: the page cache is then part of what is measured, and the report must know."""
    home = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
    for name in ("t1", "t2"):
        layer = json.loads((home / f".cache/testbeds/molecule/ramdisk/tmpfs/layers/backing-{name}.json").read_text())
        shown = host.file(f"/sys/block/{layer['path'].rsplit('/', 1)[1]}/loop/dio").content_string.strip()
        assert layer["detail"]["direct_io"] is (shown == "1")


def test_file_of_a_tmpfs_disk_is_allocated(host):
    """A hole would be read at the speed of nothing, and could run out of memory later. (The other disk was formatted, which discards.)"""
    path = next(path for path, name in loops(host).items() if sectors(host, name) * 512 == 23 * MIB)
    size, blocks = host.check_output("stat --format='%%s %%b' %s", path).split()
    assert int(blocks) * 512 >= int(size) == 23 * MIB


def test_refused_requests_left_nothing(host):
    assert not host.file("/run/storlab/other").exists
    assert host.run("findmnt /mnt").rc != 0
