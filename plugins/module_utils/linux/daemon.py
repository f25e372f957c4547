# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that a module leaves running on a managed host: each in a folder of its own, where it is on record and can be ended.

<base_dir>/<testbed_id>/<area>/…/supervisor.json {pid, start_ticks}   supervisor.log
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable

from ..core.failure import Failure
from ..core.files import read_json, write_json

# How long a daemon may take to end when it is asked to, and when it is made to.
PATIENCE_S = {signal.SIGTERM: 30, signal.SIGKILL: 10}


def base_dir() -> str:
    """/run/storlab, which does not survive a reboot, as daemons do not; a private folder for users who may not write there."""
    if os.access("/run", os.W_OK):
        return "/run/storlab"
    return f"/var/tmp/storlab-{os.getuid()}"  # noqa: S108, private_folder checks whose it is


def private_folder(base: str, folder: str) -> None:
    """Make the folder below ``base`` for this user alone; refuse a base that somebody else put there."""
    os.makedirs(base, mode=0o755, exist_ok=True)
    found = os.lstat(base)
    if found.st_uid != os.getuid() or os.path.islink(base):
        raise Failure("state_dir_foreign", f"{base} belongs to somebody else.", "Remove it.", state_dir=base)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    os.chmod(folder, 0o700)


def remove_empty(*folders: str) -> None:
    """Remove those that are empty; other daemons and roles keep their records beside ours."""
    for path in folders:
        if os.path.isdir(path) and not os.listdir(path):
            os.rmdir(path)


def start_ticks(pid: int) -> str | None:
    """When the process started, which tells it from a later one of the same number. None when there is none, or only its corpse."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
            fields = handle.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields[19]


def alive(folder: str) -> bool:
    known = read_json(os.path.join(folder, "supervisor.json"))
    return bool(known) and start_ticks(known["pid"]) == known["start_ticks"]


def detach(work: Callable[[], None], folder: str) -> int:
    """Run ``work`` in a process of its own session that belongs to nobody; returns its pid once it is on record."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()
            if os.fork() == 0:
                _become_daemon(folder, writing)
                work()
            code = 0
        except BaseException:
            log(folder, traceback.format_exc())
        finally:
            # Never back into the module: its answer is the parent's to give.
            os._exit(code)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    if not answer:
        raise Failure(
            "daemon_not_started",
            f"The supervisor did not start: {log_tail(folder)}",
            "See supervisor.log on the host.",
            state_dir=folder,
        )
    return int(answer)


def _become_daemon(folder: str, ready: int) -> None:
    os.chdir(folder)
    os.umask(0o077)
    write_json(os.path.join(folder, "supervisor.json"), {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())})
    os.write(ready, str(os.getpid()).encode())
    os.close(ready)
    # A pipe of the connection kept open would keep the connection waiting.
    null, logged = (
        os.open(os.devnull, os.O_RDWR),
        os.open("supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
    )
    for descriptor, source in ((0, null), (1, logged), (2, logged)):
        os.dup2(source, descriptor)
    os.closerange(3, 65536)


def log(folder: str, text: str) -> None:
    with open(os.path.join(folder, "supervisor.log"), "a", encoding="utf-8") as handle:
        handle.write(text)


def log_tail(folder: str) -> str:
    try:
        with open(os.path.join(folder, "supervisor.log"), encoding="utf-8", errors="replace") as handle:
            return handle.read()[-2000:].strip()
    except FileNotFoundError:
        return ""


def end(folder: str) -> None:
    """Ask the daemon of the folder to stop, and make it when it does not."""
    pid = read_json(os.path.join(folder, "supervisor.json"))["pid"]
    for number, patience_s in PATIENCE_S.items():
        if not alive(folder):
            return
        os.kill(pid, number)
        deadline = time.monotonic() + patience_s
        while alive(folder) and time.monotonic() < deadline:
            time.sleep(0.05)
    if alive(folder):
        raise Failure(
            "daemon_hung",
            f"Process {pid} cannot be ended.",
            "Its device does not answer; repair or detach the device.",
            state_dir=folder,
        )
