# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders with a name that others can guess: somebody else's until they are proven to be this user's.

A folder is ours when this user or root owns it, no one else may write to it, and it is not a link. All of that is asked of the open folder, and each folder
is opened in the one above it, so nothing can be exchanged on the way. Everything below a proven folder was made by its owner.
"""

from __future__ import annotations

import json
import os
import stat
from typing import Any

from ..core.failure import Failure
from ..core.files import make_folder
from .host import read_text

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
NO_LINK = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
RUN_DIR = "/run/storlab"


def base_dir() -> str:
    """/run/storlab, which does not survive a reboot, as daemons do not; for users who may not write there, a folder of their own state.

    That of XDG_RUNTIME_DIR would be removed when the last session of the user ends, which a run outlives.
    """
    if os.access(os.path.dirname(RUN_DIR), os.W_OK):
        return RUN_DIR
    state = os.environ.get("XDG_STATE_HOME", "")
    state = state if os.path.isabs(state) else os.path.join(os.path.expanduser("~"), ".local", "state")
    above = state
    while not os.path.isdir(above) and above != os.path.dirname(above):
        above = os.path.dirname(above)
    if os.access(above, os.W_OK) and _ours(os.stat(above)):
        # Homes are shared between hosts.
        return os.path.join(state, f"storlab-{read_text('/etc/machine-id', default='') or os.uname().nodename}")
    return f"/var/tmp/storlab-{os.geteuid()}"  # noqa: S108, proven before it is used


def proven(base: str, *names: str) -> str:
    """The path of <base>/<names…>, whether it is there or not, once each folder on the way that is there is proven; Failure 'state_dir_foreign'."""
    path, above = os.path.dirname(base), None
    try:
        above = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        _refuse_exchangeable(path, os.fstat(above))
        for name in (os.path.basename(base), *names):
            path = os.path.join(path, name)
            below = os.open(name, NO_LINK | os.O_DIRECTORY, dir_fd=above)
            os.close(above)
            above = below
            _refuse_foreign(path, os.fstat(above))
    except FileNotFoundError:
        pass
    except (NotADirectoryError, PermissionError) as error:
        # A file of ours in the way is not an attack: whoever makes the folder meets it, and says so.
        if not (os.path.isfile(path) and not os.path.islink(path) and _ours(os.lstat(path))):
            raise _foreign(path, f"is not a folder of this user ({error.strerror})") from None
    finally:
        if above is not None:
            os.close(above)
    return os.path.join(base, *names)


def private_folder(base: str, *names: str) -> str:
    """Make <base>/<names…>, each folder for this user alone, whatever the umask; returns its path."""
    proven(base, *names)
    make_folder(base, 0o755 if base == RUN_DIR else 0o700)
    folder = proven(base, *names)
    make_folder(folder, 0o700)
    return proven(base, *names)


def read_own_json(folder: str, name: str) -> Any:
    """The contents of a file that this user or root wrote, in a folder of theirs; None when it is not there, or is not JSON. Failure 'state_dir_foreign'."""
    try:
        above = os.open(folder, NO_LINK | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    except (NotADirectoryError, PermissionError) as error:
        raise _foreign(folder, f"is not a folder of this user ({error.strerror})") from None
    path = os.path.join(folder, name)
    try:
        _refuse_foreign(folder, os.fstat(above))
        # A pipe would be waited for.
        file = os.open(name, NO_LINK | os.O_NONBLOCK, dir_fd=above)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _foreign(path, f"is not a file of this user ({error.strerror})") from None
    finally:
        os.close(above)
    with open(file, encoding="utf-8") as stream:
        status = os.fstat(file)
        _refuse_foreign(path, status)
        if not stat.S_ISREG(status.st_mode):
            raise _foreign(path, "is not a file")
        try:
            return json.load(stream)
        except ValueError:
            return None


def _ours(status: os.stat_result) -> bool:
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & WRITABLE_BY_OTHERS


def _refuse_foreign(path: str, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise _foreign(path, f"belongs to user {status.st_uid}")
    if not _ours(status):
        raise _foreign(path, f"can be written to by others (mode {stat.S_IMODE(status.st_mode):04o})")


def _refuse_exchangeable(path: str, status: os.stat_result) -> None:
    """In a folder that others may write to, and that has no sticky bit, they may put another folder in the place of ours."""
    if not _ours(status) and not (status.st_uid in (0, os.geteuid()) and status.st_mode & stat.S_ISVTX):
        raise _foreign(
            path, f"lets others replace its contents (user {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o})"
        )


def _foreign(path: str, why: str) -> Failure:
    return Failure(
        "state_dir_foreign",
        f"{path} {why}, so nothing there is read, ended or removed.",
        "Look who made it; then remove it, or give it to this user with mode 0700.",
        state_dir=path,
    )
