# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of folders, files and disks of a Windows host, as a user writes them."""

from __future__ import annotations

import re

# The words that prove a disk there, the stronger one first.
DISK_PROOFS = ("unique_id", "serial")
_PART = r'[^\\/:*?"<>|\x00-\x1f]+'
_FOLDER = re.compile(rf"[A-Za-z]:(\\{_PART})*\\?")
_BELOW = re.compile(rf"{_PART}(\\{_PART})*")


def is_folder(text: str) -> bool:
    """Whether a text is a drive, or a folder with its drive, and has no way up."""
    return bool(_FOLDER.fullmatch(text)) and not {".", ".."} & set(text.split("\\"))


def is_below(text: str) -> bool:
    """Whether a text is the path of a file below a folder."""
    return bool(_BELOW.fullmatch(text)) and not {".", ".."} & set(text.split("\\"))
