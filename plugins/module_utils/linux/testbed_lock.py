# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One playbook at a time changes a testbed: who does is written in a file on the controller, and in one on every Linux host of the testbed.

    <testbed_state_dir>/lock    /run/storlab-<testbed_id>.lock    {process, user, purpose, since_utc} as JSON

A lock is held by a process, and lasts as long as that process does, however it ends: whether it still runs is looked up by boot id, pid and start time.
How old a lock is proves nothing. The file itself is changed by one process at a time, under flock, which the kernel gives back when that one is killed.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..core.failure import Failure
from ..core.files import make_folder, naming
from ..core.times import utc
from .daemon import read_stat, start_ticks
from .host import read_text
from .own_folder import base_dir

MINE, ALIVE, GONE, UNSEEN = "mine", "alive", "gone", "unseen"


def host_path(testbed_id: str, base: str | None = None) -> str:
    """Beside the folder of the records: the state of a host before a build must not have the build's own lock in it."""
    return f"{base or base_dir()}-{testbed_id}.lock"


# ---- who holds it


def process(pid: int) -> dict[str, object]:
    """Tells a process from all others, of this host and of others: {host, machine_id, boot_id, pid_namespace, pid, start_ticks}."""
    return {
        "host": os.uname().nodename,
        "machine_id": read_text("/etc/machine-id", default=""),
        "boot_id": read_text("/proc/sys/kernel/random/boot_id"),
        "pid_namespace": os.readlink("/proc/self/ns/pid"),
        "pid": pid,
        "start_ticks": start_ticks(pid),
    }


def holder(pid: int, purpose: str) -> dict[str, object]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return {"process": process(pid), "user": user, "purpose": purpose, "since_utc": utc()}


def standing(other: dict[str, Any]) -> str:
    """The state of a holder's process as seen here: mine (this one, or one that it descends from), alive, gone, or unseen (on another machine)."""
    its = other["process"]
    here = process(its["pid"])
    if (its["host"], its["machine_id"]) != (here["host"], here["machine_id"]):
        return UNSEEN
    if its["boot_id"] != here["boot_id"]:
        # Without a machine id, as in containers, a host of that name may be a different host.
        return GONE if here["machine_id"] else UNSEEN
    if its["pid_namespace"] != here["pid_namespace"]:
        return UNSEEN
    if its["start_ticks"] is None or its != here:
        return GONE
    return MINE if its["pid"] in _ancestors() else ALIVE


def _ancestors() -> Iterator[int]:
    pid = os.getpid()
    while pid > 0:
        yield pid
        stat = read_stat(pid)
        pid = int(stat[1]) if stat else 0


def name(lock: dict[str, Any]) -> str:
    """The name of a holder in messages: <pid>@<host>."""
    return f"{lock['process']['pid']}@{lock['process']['host']}"


def busy(testbed_id: str, where: str, other: dict[str, Any]) -> Failure:
    seen = standing(other) != UNSEEN
    return Failure(
        "testbed_busy",
        f"Testbed {testbed_id} is in use ({where}): {other['purpose']} by {other['user']} on {other['process']['host']}, process {other['process']['pid']}, "
        f"since {other['since_utc']}.",
        "Wait for it, or end it."
        if seen
        else f"Whether that process still runs cannot be seen from here. Wait for it; where it certainly is gone, set testbed_take_over to {name(other)}.",
        testbed_id=testbed_id,
        where=where,
        holder=other,
    )


# ---- the file


def take(
    path: str, mine: Mapping[str, object], instead_of: Mapping[str, object] | None = None
) -> dict[str, object] | None:
    """Write ``mine`` into the lock unless somebody else is in it; that one is returned then. instead_of: whom to replace, once judged to be gone."""
    with _opened(path) as descriptor:
        other = _read(descriptor)
        if other is not None and other["process"] == mine["process"]:
            return None
        if other is not None and other != instead_of:
            return other
        text = json.dumps(mine, sort_keys=True).encode()
        with naming(path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text, 0)
        return None


def release(path: str, mine: dict[str, object]) -> bool:
    """Remove the lock, if this process took it for this purpose; whether it did."""
    if not os.path.exists(path):
        return False
    with _opened(path) as descriptor:
        other = _read(descriptor)
        ours = other is not None and all(other[key] == mine[key] for key in ("process", "purpose"))
        if ours or other is None:
            os.unlink(path)
        return ours


def _foreign(path: str) -> Failure:
    return Failure("lock_foreign", f"{path} belongs to someone else.", "Remove it.", path=path)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """The file, for this process alone. It may be removed by who had it before, so it is looked at again."""
    make_folder(os.path.dirname(path), 0o700)
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            # Some kernels let no one, not even root, open another user's file in a folder like /var/tmp.
            if os.path.lexists(path) and os.lstat(path).st_uid != os.geteuid():
                raise _foreign(path) from error
            raise
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid():
                raise _foreign(path)
            try:
                there = os.path.samestat(status, os.stat(path))
            except FileNotFoundError:
                there = False
            if there:
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _read(descriptor: int) -> dict[str, Any] | None:
    """None for an empty file, and for one whose writer was killed while it wrote: it had the file for itself, as we do now."""
    try:
        content = json.loads(os.pread(descriptor, 1 << 16, 0))
    except ValueError:
        return None
    return content if isinstance(content, dict) and isinstance(content.get("process"), dict) else None
