# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cases, one file per script or group of scripts."""

from __future__ import annotations

from . import aim, disks, engine, engine_remove, engine_run, existing, files, initiator, parts, state, target

CASES = [
    case
    for group in (aim, disks, engine, engine_remove, engine_run, existing, files, initiator, parts, state, target)
    for case in group.CASES
]
