# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio, diskspd and IOMeter on the stand-in."""

from __future__ import annotations


class Engines:
    """Scripts that run an engine."""
