# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of databases take for left behind, while tests beside them have databases that run."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from database_host import traces


def test_a_segment_is_left_behind_when_nobody_has_it_mapped_and_it_is_that_users():
    path = Path(f"/dev/shm/PostgreSQL.test{os.getpid()}")
    path.write_bytes(b"\0" * mmap.PAGESIZE)
    try:
        mine, others = os.getuid(), os.getuid() + 4711
        assert path.name in traces("none", mine)["files"] and path.name not in traces("none", others)["files"]
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ):
            assert path.name not in traces("none", mine)["files"]
        assert path.name in traces("none", mine)["files"]
    finally:
        path.unlink()
