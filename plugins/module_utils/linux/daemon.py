# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that a module leaves running on a managed host: which process is ours, and how it is ended.

Other programs (QEMU, qemu-nbd, tgtd) are started with a pid file of ours on their command line. Python of our own has a folder, where it is on record::

    <base_dir>/<testbed_id>/<area>/…/supervisor.json {pid, start_ticks}   supervisor.log
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any

from ..core.failure import Failure
from ..core.files import naming, write_json
from .host import read_text
from .own_folder import read_own_json

# How long a daemon may take to end when it is asked to, and when it is made to.
PATIENCE_S: dict[signal.Signals, float] = {signal.SIGTERM: 30, signal.SIGKILL: 10}


# ---- any process


def read_cmdline(pid: int) -> list[str]:
    """The process's command line; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return stream.read().decode("utf-8", "surrogateescape").split("\0")[:-1]
    except (FileNotFoundError, ProcessLookupError):
        return []


def read_stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on (proc_pid_stat(5)): state, parent, group, session, …; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
            # The name in parentheses may itself hold spaces and parentheses.
            return handle.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def lives(stat: list[str]) -> bool:
    """Whether these are fields of a process, and not only of its corpse."""
    return bool(stat) and stat[0] not in "ZX"


def start_ticks(pid: int) -> str | None:
    """When the process started, which distinguishes it from a later one of the same number. None when there is none, or only a zombie."""
    fields = read_stat(pid)
    return fields[19] if lives(fields) else None


def instance(pid: int) -> str:
    """Tells this process from every other one that ever had its pid, on this host or on one that took its place; empty when it does not run."""
    started = start_ticks(pid)
    return f"{read_text('/proc/sys/kernel/random/boot_id')}:{pid}:{started}" if started else ""


def wait_until_gone(find: Callable[[], object], timeout_s: float) -> bool:
    """Whether ``find`` finds nothing any more within the time."""
    deadline = time.monotonic() + timeout_s
    while find():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def end_process(find: Callable[[], int | None], patience_s: dict[signal.Signals, float]) -> bool:
    """End the process that ``find`` names with one signal after the other, each with its own time. ``find`` proves each time that it is ours."""
    for number, timeout_s in patience_s.items():
        pid = find()
        if pid is None:
            return True
        os.kill(pid, number)
        if wait_until_gone(find, timeout_s):
            return True
    return False


def patience(timeout_s: float) -> dict[signal.Signals, float]:
    """For ``end_process``: the same time to end when asked and when made to."""
    return {signal.SIGTERM: timeout_s, signal.SIGKILL: timeout_s}


# ---- programs with a pid file


def read_pid(path: str) -> int | None:
    """The contents of a pid file; None where it is empty, or closed to this user."""
    try:
        with open(path, encoding="utf-8") as stream:
            return int(stream.read().split()[0])
    except (FileNotFoundError, PermissionError, ValueError, IndexError):
        return None


def names_pidfile(cmdline: list[str], option: str, path: str) -> bool:
    """Whether a command line gives this pid file with this option."""
    return any(word == option and following == path for word, following in zip(cmdline, cmdline[1:]))


def running_pid(option: str, path: str) -> int | None:
    """Process that was started with this pid file; None when it does not run.

    The pid file is only a hint. Pids are used again, so the process's command line decides; and a file may be lost, so all are looked at.
    """
    hint = read_pid(path)
    others = sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return next(
        (pid for pid in [*([hint] if hint else []), *others] if names_pidfile(read_cmdline(pid), option, path)), None
    )


# ---- our own, each in a folder


def remove_empty(*folders: str) -> None:
    """Remove those that are empty; other daemons and roles keep their records beside ours."""
    for path in folders:
        if os.path.isdir(path) and not os.listdir(path):
            os.rmdir(path)


def supervisor_of(folder: str) -> dict[str, Any] | None:
    """The note that the folder's daemon wrote of itself, {pid, start_ticks}; None where that is not there, or is something else."""
    known = read_own_json(folder, "supervisor.json")
    if not isinstance(known, dict) or not isinstance(known.get("pid"), int) or known["pid"] <= 0:
        return None
    return known if isinstance(known.get("start_ticks"), str) else None


def alive(folder: str) -> bool:
    known = supervisor_of(folder)
    return known is not None and start_ticks(known["pid"]) == known["start_ticks"]


def detach(work: Callable[[], None], folder: str) -> int:
    """Run ``work`` in a process of its own session without a parent that waits for it; returns its pid once it is on record."""
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
    path = os.path.join(folder, "supervisor.log")
    with naming(path), open(path, "a", encoding="utf-8") as handle:
        handle.write(text)


def log_tail(folder: str) -> str:
    try:
        with open(os.path.join(folder, "supervisor.log"), encoding="utf-8", errors="replace") as handle:
            return handle.read()[-2000:].strip()
    except FileNotFoundError:
        return ""


def end(folder: str) -> None:
    """Ask the daemon of the folder to stop, and make it when it does not."""
    known = supervisor_of(folder)
    pid = known["pid"] if known else None
    if not end_process(lambda: pid if alive(folder) else None, PATIENCE_S):
        raise Failure(
            "daemon_hung",
            f"Process {pid} cannot be ended.",
            "Its device does not answer; repair or detach the device.",
            state_dir=folder,
        )
