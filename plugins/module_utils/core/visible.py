# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that others wrote, on its way to a terminal or a page: control characters are shown, never obeyed."""

from __future__ import annotations

import re

# C0 without tab and line feed, DEL, C1, what begins a line or a paragraph, and what turns the direction of writing round (Unicode Standard Annex 9).
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """The text with each control character as its escape, such as ``\\x1b``."""
    return CONTROLS.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    number = ord(match.group())
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
