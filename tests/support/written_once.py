# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are worked out once in a process, although many tests ask for them."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path


def written_once(write):
    """For a function that writes the same files into a folder whenever its other arguments are the same, and returns a path in that folder."""
    kept: dict = {}

    @functools.wraps(write)
    def written(base: str, *arguments) -> str:
        if arguments not in kept:
            with tempfile.TemporaryDirectory() as place:
                returned = os.path.relpath(write(place, *arguments), place)
                files = {
                    path.relative_to(place): path.read_bytes() for path in Path(place).rglob("*") if path.is_file()
                }
            kept[arguments] = (returned, files)
        returned, files = kept[arguments]
        for name, content in files.items():
            path = Path(base, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return os.path.join(base, returned)

    return written
