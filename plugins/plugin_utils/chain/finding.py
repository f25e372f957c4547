# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A line of what the doctor finds on a host."""

from __future__ import annotations

from .nouns import Finding


def line(host: str, what: str, good: bool, text: str, command: str = "") -> Finding:
    return {"host": host, "what": what, "good": good, "said": text, "command": "" if good else command}
