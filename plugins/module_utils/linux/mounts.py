# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mount table of a process, /proc/<pid>/mountinfo (proc_pid_mountinfo(5)).

A mount is ``{numbers: 'major:minor', mount_point, filesystem, source, options: what mount(8) shows behind the type}``. Tables are oldest first, so of
two mounts on one mount point the last one is what is seen.
"""

from __future__ import annotations

import errno
import os
import re

from .nouns import Mount

TABLE = "/proc/self/mountinfo"
# Where the kernel is configured by folders: the targets of LIO.
CONFIGFS = "/sys/kernel/config"
# File systems that the kernel shows, in which no one makes folders.
WITHOUT_FOLDERS = ("proc", "sysfs", "devpts", "debugfs", "tracefs", "securityfs", "pstore", "bpf", "efivarfs")
# Options of the file system as a whole that come before the options of the one mount (fs/proc_namespace.c, show_sb_opts).
FIRST = ("sync", "dirsync", "mand", "lazytime")
REMOVED = " (deleted)"
# Options by which the kernel shows who is logged in to a share of an SMB server.
OF_USER = ("username", "domain", "cruid")


def parse(text: str) -> list[Mount]:
    """The mounts of a table; a line that is cut short, as from a process that ends at that time, is left out.

    The kernel writes as octal what separates lines and fields, and nothing else: a carriage return is part of a name. A source may be empty.
    """
    mounts: list[Mount] = []
    for line in text.split("\n"):
        left, _, right = line.partition(" - ")
        fields, tail = left.split(" "), right.split(" ")
        if len(fields) > 5 and len(tail) > 1:
            mounts.append(
                {
                    "numbers": fields[2],
                    "mount_point": unescape(fields[4]),
                    "filesystem": tail[0],
                    "source": unescape(tail[1]),
                    "options": _options(fields[5], tail[2] if len(tail) > 2 else ""),
                }
            )
    return mounts


def read(path: str = TABLE) -> list[Mount]:
    """The mounts of a process; empty when it has no table (it ended, or a test gives another root)."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as stream:
            return parse(stream.read())
    except (FileNotFoundError, ProcessLookupError):
        return []


def without_user(text: str) -> str:
    """Options as the kernel shows them, for results: who logged in to a share is left out."""
    return ",".join(option for option in text.split(",") if option.partition("=")[0] not in OF_USER)


def sources(mount: Mount) -> list[str]:
    """The devices of a mount. A file system of several shows one of them (Btrfs) or all, with colons between: '/dev/sdc1:/dev/sdc2' (bcachefs)."""
    return re.split(r":(?=/)", mount["source"]) if mount["source"].startswith("/") else []


def swap_spaces(text: str) -> list[str]:
    """Devices and files of /proc/swaps, which escapes as mount tables do. One that was removed since is listed under the name that it had."""
    names = [unescape(re.split(r"[ \t]", line, maxsplit=1)[0]) for line in text.split("\n")[1:] if line]
    return [name[: -len(REMOVED)] if name.endswith(REMOVED) else name for name in names]


def unescape(field: str) -> str:
    """Mount tables write blanks, tabs, newlines, backslashes and # as octal."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), field)


def _options(of_mount: str, of_file_system: str) -> str:
    """Options as /proc/mounts has them, which are in two fields here, each with a ro or rw of its own."""
    mount, whole = of_mount.split(","), of_file_system.split(",")
    access = "ro" if "ro" in (mount[0], whole[0]) else "rw"
    return ",".join(
        [
            access,
            *(option for option in whole[1:] if option in FIRST),
            *mount[1:],
            *(option for option in whole[1:] if option not in FIRST),
        ]
    )


def mounted_at(mounts: list[Mount], mount_point: str) -> Mount | None:
    """The mount seen at a mount point; None when nothing is mounted there."""
    return next((mount for mount in reversed(mounts) if mount["mount_point"] == mount_point), None)


def holding(mounts: list[Mount], path: str) -> Mount | None:
    """The mount whose file system holds a resolved path: of those above it, or at it, the lowest and of these the last."""
    above = [mount for mount in mounts if os.path.join(path, "").startswith(os.path.join(mount["mount_point"], ""))]
    return max(enumerate(above), key=lambda pair: (len(pair[1]["mount_point"]), pair[0]), default=(0, None))[1]


def no_place(path: str, table: str = TABLE) -> dict[str, str]:
    """Why a path can be no mount point: {problem, at: the path that is in the way}, or {} when it can be one. Changes nothing.

    problem: below_file, no_folders, not_empty, not_permitted, read_only or unusable. A mount that is there already is judged by callers who know what
    should be.
    """
    place, mounts = os.path.abspath(path), read(table)
    mount = holding(mounts, place)
    if mount and (mount["mount_point"] == place or mount["filesystem"].startswith("nfs")):
        # A server that does not answer must not be asked: who looks at its folders waits for it.
        return {}
    try:
        if os.path.isdir(place) and not os.path.islink(place):
            return {"problem": "not_empty", "at": place} if os.listdir(place) else {}
        while not os.path.lexists(place):
            place = os.path.dirname(place)
        if not os.path.isdir(place):
            return {"problem": "below_file", "at": place}
        mount = holding(mounts, os.path.realpath(place))
        if mount and mount["filesystem"] in WITHOUT_FOLDERS:
            return {"problem": "no_folders", "at": place}
        if os.statvfs(place).f_flag & os.ST_RDONLY:
            return {"problem": "read_only", "at": mount["mount_point"] if mount else place}
        return {} if os.access(place, os.W_OK | os.X_OK) else {"problem": "not_permitted", "at": place}
    except OSError as error:
        return {"problem": "not_permitted" if error.errno in (errno.EACCES, errno.EPERM) else "unusable", "at": place}


def inside(mounts: list[Mount], folder: str) -> list[str]:
    """Mount points below a resolved folder, without the folder itself."""
    below = os.path.join(folder, "")
    return [
        mount["mount_point"]
        for mount in mounts
        if mount["mount_point"] != folder and mount["mount_point"].startswith(below)
    ]
