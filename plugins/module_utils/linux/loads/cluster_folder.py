# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and processes of a database's folder."""

from __future__ import annotations

import os
import pwd
import shutil

from ...core.failure import Failure, bad_value
from ...core.files import naming
from .. import mounts

STAMP = "storlab.json"
MIB = 1 << 20


def replace(path: str, text: str, user: pwd.struct_passwd | None = None) -> None:
    """A small file whose owner stays, or becomes the user. The folder is the database's alone, so no one puts a link there."""
    with naming(path), open(path, "w", encoding="utf-8") as handle:
        handle.write(text)
    if user:
        os.chown(path, user.pw_uid, user.pw_gid)


def append(path: str, text: str) -> None:
    with naming(path), open(path, "a", encoding="utf-8") as handle:
        handle.write(text)


def free_bytes(path: str) -> int:
    """A place that is not there yet is not full."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return MIB
    return disk.f_bavail * disk.f_frsize


def remove_cluster(folder: str) -> None:
    """The stamp goes last: what a cut removal leaves still says whose it is."""
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            remove_tree(path)
        elif name != STAMP:
            os.unlink(path)
    remove_tree(folder)


def remove_tree(path: str) -> None:
    """The folder with all in it; what is mounted below is another file system's, and refused."""
    inside = mounts.inside(mounts.read(), os.path.realpath(path))
    if inside:
        raise Failure(
            "database_foreign",
            f"{inside[0]} is mounted in {path}.",
            "Unmount it first.",
            path=path,
            mount_point=inside[0],
        )
    shutil.rmtree(path)


def runs_as(pid: int, program: str, uid: int) -> bool:
    """Whether a process runs this program as this user."""
    try:
        return os.readlink(f"/proc/{pid}/exe") == program and os.stat(f"/proc/{pid}").st_uid == uid
    except OSError:  # ended meanwhile
        return False


def processes_in(folder: str) -> list[int]:
    """Processes that work in a folder, as a server's processes do."""
    pids = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                place = os.readlink(f"/proc/{entry}/cwd")
            except OSError:
                continue
            if place == os.path.realpath(folder) or place.startswith(os.path.realpath(folder) + os.sep):
                pids.append(int(entry))
    return pids


def user_of(name: str, usual: tuple[str, ...]) -> pwd.struct_passwd:
    """The user that the server runs as; raises bad_value. It refuses to run as root."""
    for candidate in [name] if name else usual:
        try:
            user = pwd.getpwnam(candidate)
        except KeyError:
            continue
        if user.pw_uid != 0:
            return user
    raise bad_value("database_load_user", name, "Name a user of this host other than root.")
