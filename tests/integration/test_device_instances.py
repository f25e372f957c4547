# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One device is told from the next of its name."""

from __future__ import annotations

from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import block_device
from loop_device import attached


def test_an_instance_is_told_from_the_next_of_its_name(tmp_path):
    image = tmp_path / "image"
    seen = []
    for _ in range(2):
        with attached(image, 1 << 20) as path:
            seen.append(block_device.instance(path))
            assert block_device.instance(path) == seen[-1]
    assert len(set(seen)) == 2
    one = block_device.instance(str(image))
    image.rename(tmp_path / "kept")
    image.write_bytes(bytes(1 << 20))
    assert block_device.instance(str(image)) != one == block_device.instance(str(tmp_path / "kept"))
