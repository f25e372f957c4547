# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Points in time as results carry them, and as seconds since 1970."""

from __future__ import annotations

import calendar
import time

# A clock that is set right while a point is measured steps by more than this; one that is only steered stays far below.
CLOCK_STEP_S = 0.5


def utc(now: float | None = None) -> str:
    """ISO 8601 to the millisecond; of a moment in seconds since 1970, or of now."""
    now = time.time() if now is None else now
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"


def unix_s(utc: str) -> float:
    """Seconds since 1970 of a result's time, 2026-11-21T16:33:10.123Z."""
    whole, _dot, parts = utc.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{parts or 0}")
