# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of a folder of others that is read: what a search of it sees, and which of these is taken."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from typing import Any

from ...core.failure import Failure

# A file that is read again and again is to be bigger than what is read at once.
LEAST_FILE_BYTES = 1 << 20
# How far a folder is searched for a file to read.
MOST_ENTRIES, MOST_SECONDS = 20000, 20.0


def readable_files(folder: str, now: Any = time.monotonic) -> Iterator[tuple[int, str]]:
    """(bytes, path below the folder) of regular files of one file system, as far as a search may go. Links are not followed."""
    end, left, device = now() + MOST_SECONDS, MOST_ENTRIES, os.stat(folder).st_dev
    below = [""]
    while below:
        here = below.pop(0)
        try:
            entries = sorted(os.scandir(os.path.join(folder, here)), key=lambda entry: entry.name)
        except OSError:
            continue  # this user may not read the folder, or it has just gone
        for entry in entries:
            left -= 1
            if left < 0 or now() > end:
                return
            path = os.path.join(here, entry.name)
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode) and status.st_dev == device:
                below.append(path)
            elif stat.S_ISREG(status.st_mode):
                yield status.st_size, path


def chosen_file(name: str, folder: str, wanted: str | None, before: str | None) -> str:
    """The file below a folder that is read: the one that is named, else the one of the last build, else the biggest. Raises nothing_to_read."""
    for given in (wanted, before):
        if given and _is_readable(os.path.join(folder, given)):
            return given
        if given and given == wanted:
            raise Failure(
                "nothing_to_read",
                f"{wanted} of {name} is not a readable file of at least {LEAST_FILE_BYTES >> 20} MiB.",
                "Name another file of that folder or export, or leave file out.",
                name=name,
                file=wanted,
            )
    files = sorted(readable_files(folder), key=lambda pair: (-pair[0], pair[1]))
    best = next((path for _size, path in files if _is_readable(os.path.join(folder, path))), None)
    if best is None:
        raise Failure(
            "nothing_to_read",
            f"{name} holds no file of at least {LEAST_FILE_BYTES >> 20} MiB that can be read, among the first {MOST_ENTRIES} entries.",
            "Put a file there that is larger than the server's memory, or name one with file.",
            name=name,
        )
    return best


def _is_readable(path: str) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        status = os.fstat(handle)
        return stat.S_ISREG(status.st_mode) and status.st_size >= LEAST_FILE_BYTES
    finally:
        os.close(handle)
