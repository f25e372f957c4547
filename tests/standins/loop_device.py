# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loop devices for integration tests: real block devices on files of the test's own. They need root."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def attached(image: Path, size_bytes: int | None = None) -> Iterator[str]:
    """The path of a loop device on this file, detached at the end; with a size the file is made, of zeros.

    A test may detach it itself: then another program may have taken the device, so only what still is on this file is detached.
    """
    if size_bytes is not None:
        image.write_bytes(bytes(size_bytes))
    path = subprocess.run(
        ["losetup", "--find", "--show", str(image)], check=True, capture_output=True, text=True
    ).stdout.strip()
    try:
        yield path
    finally:
        if backing_file(path) == str(image):
            subprocess.run(["losetup", "--detach", path], check=True)


def backing_file(path: str) -> str | None:
    """The file that the loop device is on; None for a device that is detached."""
    try:
        text = Path("/sys/block", os.path.basename(path), "loop/backing_file").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return text.rstrip("\n").removesuffix(" (deleted)")


def bytes_of(*layers: dict) -> Callable[[], list]:
    """For tests of what must not write: reads all that the devices of these layers hold."""

    def contents() -> list:
        return [Path(layer["path"]).read_bytes() for layer in layers]

    return contents


def attach_again(path: str, image: Path) -> None:
    """Put the file on this very device again, waiting for programs that have taken it meanwhile."""
    deadline = time.monotonic() + 60
    while (done := subprocess.run(["losetup", path, str(image)], capture_output=True, text=True)).returncode:
        assert time.monotonic() < deadline, done.stderr
        time.sleep(0.1)


def layer(path: str, size_bytes: int, /, **changes) -> dict:
    """The layer that a role would publish of the device."""
    number = os.stat(path).st_rdev
    return {
        "name": "backing-x",
        "kind": "backing",
        "host": "here",
        "path": path,
        "parent": None,
        "purpose": "scratch",
        "size_bytes": size_bytes,
        "identity": {"major_minor": f"{os.major(number)}:{os.minor(number)}"},
        **changes,
    }
