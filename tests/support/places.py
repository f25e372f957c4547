# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the tests find what lies beside them, however deep in the folders a test itself lies."""

from __future__ import annotations

import os
from pathlib import Path

MEMORY = "/dev/shm"
TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
FIXTURES = TESTS / "unit" / "fixtures"


def in_memory() -> str | None:
    """The folder for temporary files in memory, where there is one: some disks take a millisecond to remove a file, and some tests make thousands."""
    return MEMORY if os.access(MEMORY, os.W_OK) else None
