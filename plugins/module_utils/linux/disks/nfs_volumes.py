# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which file system of its server an NFS mount shows, as the guard and the mounts of the clients compare it.

The kernel shows the fsid of every mount in /proc/fs/nfsfs/volumes.
"""

from __future__ import annotations

from typing import Any

from ..host import read_text
from ..nouns import Mount

VOLUMES = "/proc/fs/nfsfs/volumes"


def volumes(text: str) -> dict[str, str]:
    """{'major:minor' of a mount: fsid} of /proc/fs/nfsfs/volumes."""
    rows = [line.split() for line in text.splitlines()[1:]]
    return {row[3]: row[4] for row in rows if len(row) > 4}


def fsids(uuid: str) -> set[str]:
    """How clients may show an fsid that is a UUID (nfsd4_encode_fattr, encode_fsid in fs/nfsd).

    Version 4 sends it whole, as two numbers. Version 3 has 8 bytes: both halves, as numbers in the server's byte order, laid over each other.
    """
    digits = bytes.fromhex(uuid.replace("-", ""))
    halves = digits[:8], digits[8:]
    whole = ":".join(f"{int.from_bytes(half, 'big'):x}" for half in halves)
    orders: tuple[Any, ...] = ("little", "big")
    folded = {int.from_bytes(halves[0], order) ^ int.from_bytes(halves[1], order) for order in orders}
    return {whole, *(f"{number:x}:0" for number in folded)}


def fsid_of(mounted: Mount | None) -> str | None:
    return volumes(read_text(VOLUMES, default="")).get(mounted["numbers"]) if mounted else None
