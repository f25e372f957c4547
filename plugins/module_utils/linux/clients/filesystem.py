# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file system of a datastore as its superblock shows it."""

from __future__ import annotations

import struct
import uuid
from typing import Any

from ...core.iscsi_names import filesystem_uuid
from ..disks import block_device

# Where an XFS says that mkfs is at work on it; it is not mounted until then.
XFS_IN_PROGRESS = 126
# fs/ext4/ext4.h: s_feature_compat, s_feature_incompat and s_feature_ro_compat; the journal; what ext3 knows of the others: filetype, recover and
# meta_bg; sparse_super, large_file and btree_dir.
EXT_FEATURES, HAS_JOURNAL, EXT3_INCOMPATIBLE, EXT3_READ_ONLY = 0x45C, 0x4, 0x16, 0x7


def label(testbed_id: str, name: str) -> str:
    """The stamp in the file system's label; XFS takes 12 characters. The UUID is the proof, this is for people."""
    return "storlab-" + filesystem_uuid(testbed_id, name)[:4]


def parse_superblock(head: bytes) -> dict[str, Any]:
    """{filesystem, uuid, label} in the first 2 KiB of a device: ext2, ext3, ext4 or XFS; blank: all zero; else unknown. unfinished: whether mkfs was cut off.

    mkfs.xfs begins with the superblock, in which sb_inprogress is set until the end; mkfs.ext4 ends with it.
    """
    if head[:4] == b"XFSB":
        return {
            **({"unfinished": True} if head[XFS_IN_PROGRESS] else {}),
            "filesystem": "xfs",
            "uuid": str(uuid.UUID(bytes=head[32:48])),
            "label": head[108:120].rstrip(b"\0").decode("ascii", "replace"),
        }
    if head[0x438:0x43A] == b"\x53\xef":
        return {
            "filesystem": _ext(head),
            "uuid": str(uuid.UUID(bytes=head[0x468:0x478])),
            "label": head[0x478:0x488].rstrip(b"\0").decode("ascii", "replace"),
        }
    return {"filesystem": "unknown" if any(head) else None, "uuid": None, "label": ""}


def _ext(head: bytes) -> str:
    """Which of the three a superblock is of, by its features, as blkid distinguishes them."""
    compatible, incompatible, read_only = struct.unpack_from("<III", head, EXT_FEATURES)
    if incompatible & ~EXT3_INCOMPATIBLE or read_only & ~EXT3_READ_ONLY:
        return "ext4"
    return "ext3" if compatible & HAS_JOURNAL else "ext2"


def read_superblock(device: str) -> dict[str, Any]:
    """The contents of the device itself: direct I/O, because a mounted file system's pages would answer for a device that was replaced."""
    return parse_superblock(block_device.read_direct(device, 65536))
