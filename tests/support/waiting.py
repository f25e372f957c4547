# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting in tests: for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

# Much longer than anything waited for takes: a busy machine must not fail a test.
PATIENCE_S = 180.0


def until(condition: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Return when the condition holds; fail the test when it has not within that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this did not happen in time"
        time.sleep(0.02)
