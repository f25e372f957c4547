# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files written whole or not at all, because others read them while they are written, and a run may end at any moment."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

from .failure import Failure
from .shape import misfit

# For a file that says what something is, whatever its other words are.
MAPPING: dict[Any, Any] = {}


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """An error of the system in this block names the file: that of a full disk names none by itself."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise


def write_whole(path: str, content: bytes | Iterable[bytes], mode: int = 0o644, beside: str | None = None) -> None:
    """Replace the file, or make it.

    content: all of it, or its pieces. beside: the folder of the same file system to write in, when others read every file beside this one.
    """
    handle, temporary = tempfile.mkstemp(
        dir=beside or os.path.dirname(path) or ".", prefix=f".{os.path.basename(path)}.", suffix=".new"
    )
    try:
        with naming(path), os.fdopen(handle, "wb") as stream:
            stream.writelines([content] if isinstance(content, bytes) else content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def make_folder(path: str, mode: int = 0o755) -> None:
    """Make the folder and what is missing above it, each with this mode whatever the umask; one that is there stays as it is."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(os.path.abspath(path))
    make_folder(above, mode)
    try:
        # Until its mode is set, no one else gets in.
        os.mkdir(path, mode & 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    else:
        os.chmod(path, mode)


def write_json(path: str, value: Any, mode: int = 0o644, indent: int | None = None) -> None:
    """Keys are sorted, so that the same value is the same file."""
    write_whole(path, json.dumps(value, indent=indent, sort_keys=True).encode(), mode)


def read_json(path: str, remedy: str = "Restore it from a copy, or remove it.", kind: object = MAPPING) -> Any:
    """None when there is no such file. Failure record_damaged when it is not JSON of this shape (core/shape.py)."""
    try:
        with open(path, encoding="utf-8") as handle:
            content = json.load(handle)
        reason = misfit(content, kind)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        content, reason = None, f"{error}"
    if reason:
        raise Failure("record_damaged", f"{path} cannot be read: {reason}.", remedy, path=path)
    return content
