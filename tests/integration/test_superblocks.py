# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""File systems made by their own tools are recognised."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.iscsi_names import filesystem_uuid
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import filesystem

MIB = 1 << 20
UUID = filesystem_uuid("tb", "ds1")
BLANK = {"filesystem": None, "uuid": None, "label": ""}


@pytest.mark.parametrize(
    ("kind", "mib", "argv"),
    [
        ("ext4", 8, ["mkfs.ext4", "-q", "-F", "-U", UUID, "-L", "storlab-abcd"]),
        ("xfs", 320, ["mkfs.xfs", "-q", "-m", f"uuid={UUID}", "-L", "storlab-abcd"]),
    ],
)
def test_real_superblocks_are_read(tmp_path, kind, mib, argv):
    image = tmp_path / "image"
    with image.open("wb") as handle:
        handle.truncate(mib * MIB)
    assert filesystem.parse_superblock(image.open("rb").read(65536)) == BLANK
    subprocess.run([*argv, str(image)], check=True)
    assert filesystem.parse_superblock(image.open("rb").read(65536)) == {
        "filesystem": kind,
        "uuid": UUID,
        "label": "storlab-abcd",
    }


def test_an_xfs_whose_making_was_cut_off_is_told_from_a_finished_one(tmp_path):
    """mkfs.xfs sets a mark first and takes it away last; its own tools know it."""
    image = tmp_path / "image"
    with image.open("wb") as handle:
        handle.truncate(320 * MIB)
    subprocess.run(["mkfs.xfs", "-q", "-m", f"uuid={UUID}", str(image)], check=True)
    with image.open("r+b") as handle:
        handle.seek(filesystem.XFS_IN_PROGRESS)
        handle.write(b"\1")
    looked = subprocess.run(["xfs_repair", "-n", str(image)], check=False, capture_output=True, text=True)
    assert "mkfs-in-progress bit set" in looked.stdout + looked.stderr
    superblock = filesystem.parse_superblock(image.open("rb").read(65536))
    assert (superblock["uuid"], superblock["unfinished"]) == (UUID, True)
