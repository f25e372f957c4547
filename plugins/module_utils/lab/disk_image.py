# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Image files on a datastore: a guest's disk as one raw file, written in full once and never overwritten."""

from __future__ import annotations

import os
import re
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.files import naming

BLOCK = 1024 * 1024


def check(path: str, stamp: str, size_bytes: int | None) -> None:
    if not re.fullmatch(r"storlab-[A-Za-z0-9_.-]{1,80}-", stamp):
        raise bad_value("stamp", stamp, "Give storlab-<testbed>-.")
    if not os.path.isabs(path) or not os.path.basename(path).startswith(stamp):
        raise bad_value(
            "path",
            path,
            f"Give an absolute path of a file whose name begins with {stamp}: only such files are made and removed.",
        )
    if size_bytes is not None and (size_bytes <= 0 or size_bytes % BLOCK):
        raise bad_value("size_bytes", size_bytes, f"Give a multiple of {BLOCK}.")


def mount_point(path: str) -> str:
    """The mount point that holds the path."""
    path = os.path.realpath(path)
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


def observe(path: str) -> dict[str, object]:
    """The state of the path. ``mount_point`` is None when the folder is not there."""
    folder = os.path.dirname(path)
    seen: dict[str, Any] = {
        "mount_point": mount_point(folder) if os.path.isdir(folder) else None,
        "size_bytes": None,
        "allocated_bytes": None,
        "regular": None,
    }
    if os.path.lexists(path):
        info = os.lstat(path)
        seen.update(
            regular=os.path.isfile(path) and not os.path.islink(path),
            size_bytes=info.st_size,
            allocated_bytes=info.st_blocks * 512,
        )
    if seen["mount_point"]:
        room = os.statvfs(folder)
        seen["free_bytes"] = room.f_bavail * room.f_frsize
    return seen


def plan(path: str, seen: dict[str, Any], size_bytes: int | None) -> list[str]:
    """Steps to an image of that size (None: to no image); refuses what would write over something or beside the datastore."""
    if size_bytes is None:
        return ["remove"] if seen["size_bytes"] is not None else []
    if seen["mount_point"] is None:
        raise Failure("no_datastore", f"The folder of {path} does not exist.", "Make the datastore first.", path=path)
    if seen["mount_point"] == "/":
        raise Failure(
            "no_datastore",
            f"{path} would be on the root file system, not on a datastore.",
            "Mount the datastore first, or name a folder on it.",
            path=path,
        )
    if seen["size_bytes"] is None:
        if seen["free_bytes"] < size_bytes:
            raise Failure(
                "datastore_full",
                f"{seen['mount_point']} has {seen['free_bytes']} bytes free, {path} needs {size_bytes}.",
                "Make the datastore larger or the disk smaller.",
                path=path,
                free_bytes=seen["free_bytes"],
                size_bytes=size_bytes,
            )
        return ["create"]
    if not seen["regular"]:
        raise Failure("not_an_image", f"{path} is not a regular file.", "Remove it or use another name.", path=path)
    if seen["size_bytes"] != size_bytes:
        raise Failure(
            "size_differs",
            f"{path} has {seen['size_bytes']} bytes, {size_bytes} are wanted, and an image is never overwritten.",
            "Take the guest down first, which removes the file, or ask for the size it has.",
            path=path,
            size_bytes=seen["size_bytes"],
            wanted_bytes=size_bytes,
        )
    return []


def create(path: str, size_bytes: int) -> None:
    """Write the whole file, then give it its name: a half-written file never looks like an image."""
    part = f"{path}.part"
    # Data no layer can compress or leave out; one block of it is enough, for the same block twice is stored twice.
    block = os.urandom(BLOCK)
    with naming(part), open(part, "wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, size_bytes)
        for _ in range(size_bytes // BLOCK):
            stream.write(block)
        stream.flush()
        os.fsync(stream.fileno())
    os.chmod(part, 0o600)
    os.rename(part, path)


def apply(path: str, steps: list[str], size_bytes: int | None) -> None:
    for step in steps:
        if step == "create" and size_bytes is not None:
            create(path, size_bytes)
        elif step == "remove":
            os.unlink(path)
    if size_bytes is None and os.path.exists(f"{path}.part"):
        os.unlink(f"{path}.part")
