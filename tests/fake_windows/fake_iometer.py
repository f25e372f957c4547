# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""To come."""

from __future__ import annotations

from fake_program import Outcome, Started, said


def run(started: Started) -> Outcome:
    return said("not yet\n")
