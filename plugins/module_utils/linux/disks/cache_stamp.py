# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbed's stamp at the beginning of a cache's fast device. It outlives a boot, which mappings and records do not."""

from __future__ import annotations

import json
from collections.abc import Mapping

# The name that the device guard gives it, as blkid does with other signatures.
TYPE = "storlab_cache"
# Prefixes of the UUIDs of device-mapper mappings: a tier, a part of one.
MAPPINGS = ("STORLAB-CACHE", "STORLAB-CACHE-PART")
MAGIC = b"storlab cache 1\n"
BYTES = 4096
# As much as a disk writes whole.
MOST = 512
# 'cached': the metadata that follow count, and in write-back mode the origin may lack what only the cache has. 'clean': the origin has everything, and what
# the cache holds is worth nothing.
CACHED, CLEAN = "cached", "clean"


def pack(fields: Mapping[str, object]) -> bytes:
    text = MAGIC + json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    if len(text) > MOST:
        raise ValueError(f"a stamp of {len(text)} bytes")
    return text.ljust(BYTES, b"\0")


def unpack(head: bytes | None) -> dict[str, object] | None:
    """The contents of a stamp; None when there is none."""
    if not head or not head.startswith(MAGIC):
        return None
    try:
        fields = json.loads(head[len(MAGIC) : MOST].rstrip(b"\0"))
    except ValueError:
        fields = None
    # One that cannot be read is somebody's all the same.
    return fields if isinstance(fields, dict) else {}
