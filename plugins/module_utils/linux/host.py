# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The needs of the storage modules from a Linux host: commands, kernel modules and waiting."""

from __future__ import annotations

import glob
import os
import pwd
import subprocess
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from ..core.failure import Failure, exit_words
from ..core.files import naming


def run(
    argv: list[Any],
    ok: tuple[Any, ...] = (0,),
    timeout_s: float = 120,
    what: str = "",
    remedy: str = "",
    environment: dict[str, Any] | None = None,
    user: pwd.struct_passwd | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run argv without input; raise Failure command_missing, command_timeout or command_failed. user: without root's rights, as this user."""
    search = os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin"
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            env={**os.environ, "LC_ALL": "C", "PATH": search, **(environment or {})},
            **as_user(user),
        )
    except FileNotFoundError:
        raise Failure(
            "command_missing",
            f"The command {argv[0]} is not on this host.",
            f"Install the package that has {argv[0]}.",
            command=argv[0],
        ) from None
    except subprocess.TimeoutExpired:
        raise Failure(
            "command_timeout",
            f"{argv[0]} did not end within {timeout_s:g} s.",
            "Look at the kernel log of the host.",
            command=argv[0],
        ) from None
    if done.returncode not in ok:
        message = " ".join((done.stderr or done.stdout).split())[-400:]
        ended = f"exit {done.returncode}" if done.returncode > 0 else exit_words(done.returncode)
        raise Failure(
            "command_failed",
            f"{what or argv[0] + ' failed'}: {ended}, {message or 'no message'}.",
            remedy or "Look at the message and at the kernel log of the host.",
            command=argv[0],
            exit_code=done.returncode,
        )
    return done


def as_user(user: pwd.struct_passwd | None) -> dict[str, Any]:
    """Arguments for subprocess: with this user's rights alone, and where every user may be; nothing for None."""
    if user is None:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": "/"}


def wait_for(condition: Any, timeout_s: float, interval_s: float = 0.1) -> Any:
    """The first true value of condition(), or its last value at the deadline."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value or time.monotonic() >= deadline:
            return value
        time.sleep(interval_s)


def read_text(path: str, default: str | None = None) -> str:
    """The stripped content of a small kernel or configuration file."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read().strip(" \n\0")
    except FileNotFoundError:
        if default is None:
            raise
        return default


def write_text(path: str, text: str) -> None:
    """One write(2), unbuffered: the kernel's attributes report a refusal at the write itself."""
    handle = os.open(path, os.O_WRONLY)
    try:
        with naming(path):
            os.write(handle, text.encode())
    finally:
        os.close(handle)


# ---- kernel modules


def loaded_modules(root: str = "/") -> set[Any]:
    """Names of the loadable modules that are loaded (built-in ones are not in the list)."""
    text = read_text(os.path.join(root, "proc/modules"), default="")
    return {line.split()[0] for line in text.splitlines() if line}


def load_module(name: str, *parameters: str, intend: Callable[[set[str]], None], provides: str | None = None) -> None:
    """Load a kernel module unless it is there already, built in, or what it provides exists. intend: notes whose modules these are, before."""
    if (provides and os.path.exists(provides)) or os.path.isdir(f"/sys/module/{name}"):
        return
    intend(missing_modules(name))
    run(
        ["modprobe", name, *parameters],
        what=f"The kernel module {name} cannot be loaded",
        remedy="Use a kernel that has it (Debian: linux-image-amd64 or linux-image-cloud-amd64), or choose another provider.",
    )


def missing_modules(name: str) -> set[str]:
    """The modules that modprobe would load for this one, itself included; empty where that cannot be known."""
    try:
        shown = run(["modprobe", "--show-depends", name], ok=(0, 1)).stdout
    except Failure:
        return set()
    files = [line.split()[1] for line in shown.splitlines() if line.startswith("insmod ")]
    return {os.path.basename(file).partition(".ko")[0].replace("-", "_") for file in files} - loaded_modules()


def module_available(name: str) -> bool:
    """Whether modprobe would find the module; loads nothing."""
    if os.path.isdir(f"/sys/module/{name}"):
        return True
    try:
        return run(["modprobe", "--dry-run", "--quiet", name], ok=(0, 1)).returncode == 0
    except Failure:
        return False


def modules_that_need(names: Iterable[str], root: str = "/") -> set[str]:
    """Loaded modules that need one of these, directly or through others. A module can be loaded only after all that it needs."""
    holders: set[str] = set()
    ahead = set(names)
    while ahead:
        folders = [os.path.join(root, "sys/module", name, "holders") for name in ahead]
        ahead = {name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)} - holders
        holders |= ahead
    return holders


# An idle RAM disk does not hold its module, which takes the contents with it.
RAM_DISKS = {"brd": "ram", "zram": "zram"}
# The kernel does not count the connections that it has, and ends them all with it.
NVME_TCP = "nvme_tcp"


def nvme_connections() -> list[str]:
    """The folders of all connections over NVMe/TCP of the host, whoever made them."""
    paths = glob.glob("/sys/class/nvme/nvme*/transport")
    return [os.path.dirname(path) for path in sorted(paths) if read_text(path, default="") == "tcp"]


def unload_modules(names: Collection[str]) -> list[Any]:
    """Unload those of our modules that nothing uses and that have no RAM disk; modules that others still use stay. Returns what went."""
    gone, remaining = [], sorted(set(names) & loaded_modules())
    progress = True
    while remaining and progress:
        progress = False
        for name in list(remaining):
            if (
                read_text(f"/sys/module/{name}/refcnt", default="1") == "0"
                and not (name in RAM_DISKS and glob.glob(f"/sys/block/{RAM_DISKS[name]}[0-9]*"))
                and not (name == NVME_TCP and nvme_connections())
                and run(["rmmod", name], ok=(0, 1)).returncode == 0
            ):
                remaining.remove(name)
                gone.append(name)
                progress = True
    return gone
