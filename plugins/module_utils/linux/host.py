# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the storage modules need from a Linux host: commands, kernel modules, waiting, and the testbed's record.

The record is one JSON file an area under /run/storlab/<testbed_id>/: what this testbed made on this host, and nothing
else made it ours. It is written before the thing it describes, so that a killed run leaves nothing unclaimed, and it
carries the boot id, because RAM disks and targets do not outlive a boot even where /run does.
"""

from __future__ import annotations

import os
import subprocess
import time

from ..core.failure import Failure
from ..core.files import read_json, write_json

RUN_DIR = "/run/storlab"
UNREADABLE = "Restore it, or remove it when nothing of the testbed is left on this host."
AREAS = ("ramdisk", "lio_target", "tgt_target", "iscsi_session", "datastore")


def run(
    argv: list,
    ok: tuple = (0,),
    timeout_s: float = 120,
    what: str = "",
    remedy: str = "",
    environment: dict | None = None,
) -> subprocess.CompletedProcess:
    """Run argv without input; raise Failure command_missing, command_timeout or command_failed."""
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
        said = " ".join((done.stderr or done.stdout).split())[-400:]
        raise Failure(
            "command_failed",
            f"{what or argv[0] + ' failed'}: exit {done.returncode}, {said or 'no message'}.",
            remedy or "Look at the message and at the kernel log of the host.",
            command=argv[0],
            exit_code=done.returncode,
        )
    return done


def wait_for(condition, timeout_s: float, interval_s: float = 0.1):
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
        os.write(handle, text.encode())
    finally:
        os.close(handle)


# ---- kernel modules


def loaded_modules(root: str = "/") -> set:
    """Names of the loadable modules that are loaded (built-in ones are not in the list)."""
    text = read_text(os.path.join(root, "proc/modules"), default="")
    return {line.split()[0] for line in text.splitlines() if line}


def load_module(name: str, *parameters: str, provides: str | None = None) -> None:
    """Load a kernel module unless it is there already, built in, or what it provides exists."""
    if (provides and os.path.exists(provides)) or os.path.isdir(f"/sys/module/{name}"):
        return
    run(
        ["modprobe", name, *parameters],
        what=f"The kernel module {name} cannot be loaded",
        remedy="Use a kernel that has it (Debian: linux-image-amd64 or linux-image-cloud-amd64), or choose another provider.",
    )


def module_available(name: str) -> bool:
    """Whether modprobe would find the module; loads nothing."""
    if os.path.isdir(f"/sys/module/{name}"):
        return True
    try:
        return run(["modprobe", "--dry-run", "--quiet", name], ok=(0, 1)).returncode == 0
    except Failure:
        return False


def unload_modules(names) -> list:
    """Unload those of our modules that nothing uses; what is still used by others stays. Returns what went."""
    gone, remaining = [], sorted(set(names) & loaded_modules())
    progress = True
    while remaining and progress:
        progress = False
        for name in list(remaining):
            if (
                read_text(f"/sys/module/{name}/refcnt", default="1") == "0"
                and run(["rmmod", name], ok=(0, 1)).returncode == 0
            ):
                remaining.remove(name)
                gone.append(name)
                progress = True
    return gone


# ---- the record


class Record:
    """The testbed's record of one area on this host; a dict in ``data``."""

    def __init__(self, testbed_id: str, area: str, run_dir: str = RUN_DIR):
        self.folder = os.path.join(run_dir, testbed_id)
        self.path = os.path.join(self.folder, f"{area}.json")
        self.boot_id = read_text("/proc/sys/kernel/random/boot_id", default="")
        data = read_json(self.path, UNREADABLE) or {}
        # A record of an earlier boot describes things that are gone.
        self.data = data if data.get("boot_id") == self.boot_id else {}

    def save(self) -> None:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        write_json(self.path, {**self.data, "boot_id": self.boot_id}, mode=0o600, indent=1)

    def note_modules(self, before: set) -> None:
        """Remember the modules that appeared since ``before``, the kernel's own dependencies included."""
        self.data["modules"] = sorted(set(self.data.get("modules", [])) | (loaded_modules() - before))
        self.save()

    def unload_modules(self) -> None:
        """Unload the modules that came with this testbed; what another testbed still uses becomes that one's to unload."""
        unload_modules(self.data.get("modules", []))
        self.bequeath(modules=sorted(set(self.data.get("modules", [])) & loaded_modules()))

    def bequeath(self, **left) -> None:
        """Leave what others on this host still use to their records, so that the last one removes it."""
        run_dir, area = os.path.dirname(self.folder), os.path.basename(self.path)[: -len(".json")]
        others = [
            record
            for testbed_id in (sorted(os.listdir(run_dir)) if os.path.isdir(run_dir) else [])
            for record in (Record(testbed_id, other, run_dir) for other in (area, *AREAS))
            if record.path != self.path and record.data
        ]
        for key, value in left.items():
            # Modules can be in use by any layer; the rest is understood by the same one only.
            heirs = [record for record in others if key == "modules" or record.path.endswith(f"/{area}.json")]
            if value and heirs:
                heir = min(heirs, key=lambda record: not record.path.endswith(f"/{area}.json"))
                heir.data[key] = sorted(set(heir.data.get(key, [])) | set(value)) if isinstance(value, list) else value
                heir.save()

    def remove(self) -> None:
        """Forget the area, and the testbed's folder with the last area."""
        if os.path.exists(self.path):
            os.unlink(self.path)
        for folder in (self.folder, os.path.dirname(self.folder)):
            try:
                os.rmdir(folder)
            except OSError:  # missing, or another area or testbed still has its record there
                return
