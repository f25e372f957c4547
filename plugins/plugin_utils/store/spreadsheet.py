# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cells of CSV files that a spreadsheet may open: a text is never taken for a formula."""

from __future__ import annotations

import re

# The characters that spreadsheets take for the beginning of a formula; the two blanks are left out by some before they look.
_BEGINS = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def harmless(value: object) -> object:
    """The value; a text that a spreadsheet would work out has an apostrophe before it. Numbers stay numbers."""
    if isinstance(value, str) and value.startswith(_BEGINS) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value
