# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Daemons of our own: which process is one, and how it is ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any


def read_cmdline(pid: int) -> list[Any]:
    """The process's command line; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return stream.read().decode("utf-8", "surrogateescape").split("\0")[:-1]
    except (FileNotFoundError, ProcessLookupError):
        return []


def read_pid(path: str) -> int | None:
    try:
        with open(path, encoding="utf-8") as stream:
            return int(stream.read().split()[0])
    except (FileNotFoundError, ValueError, IndexError):
        return None


def names_pidfile(cmdline: list[Any], option: str, path: str) -> bool:
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


def instance(pid: int) -> str:
    """Tells this process from every other one that ever had its pid, on this host or on one that took its place."""
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as stream:
        boot_id = stream.read().strip()
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
        started = stream.read().rpartition(")")[2].split()[19]
    return f"{boot_id}:{pid}:{started}"


def wait_until_gone(find: Callable[[], Any], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while find():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def end(find: Callable[[], int | None], timeout_s: float) -> bool:
    """End the process that ``find`` names: TERM, then KILL, each with its own deadline. ``find`` proves each time that it is ours."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        pid = find()
        if pid is None:
            return True
        os.kill(pid, number)
        if wait_until_gone(find, timeout_s):
            return True
    return False
