# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NBD exports: one image file served by one qemu-nbd, so that a guest's QEMU elsewhere can use it as a disk.

With a secret that both sides know (TLS with a pre-shared key) no one else can connect, and no one on the way can read or change what is sent. QEMU
takes the secret from a file ``keys.psk`` in a folder, so it is in no command line.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import shutil
import stat
import subprocess
import threading
from collections.abc import Collection
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.files import write_whole
from ..linux import daemon, mounts
from ..linux.disks import block_device

RUN_DIR = "/run/storlab/nbd"
QEMU_NBD = "qemu-nbd"
# Where a file system has the bytes by which it is known.
MAGICS = {"ext4": (0x438, b"\x53\xef"), "xfs": (0, b"XFSB")}
# The name that goes with the secret; every client of the testbed has the same one.
USER = "storlab"
SECRET_LENGTHS = (20, 64)


def check_secret(variable: str, secret: str | None) -> None:
    """Refuse, without showing it, a secret that could be guessed or that GnuTLS would cut."""
    low, high = SECRET_LENGTHS
    if secret and (not low <= len(secret) <= high or not re.fullmatch(r"[!-~]+", secret)):
        raise Failure(
            "bad_value",
            f"{variable} is not a valid NBD secret: it has {len(secret)} characters.",
            f"Use {low} to {high} letters, digits and signs, without blanks.",
            variable=variable,
        )


def key_line(secret: str) -> bytes:
    return f"{USER}:{secret.encode().hex()}\n".encode()


def keep_secret(folder: str, secret: str) -> None:
    """Put the secret where QEMU reads it; for this user alone."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    write_whole(os.path.join(folder, "keys.psk"), key_line(secret), 0o600)


def forget_secret(folder: str) -> None:
    if os.path.isdir(folder):
        shutil.rmtree(folder)


def secret_is_kept(folder: str, secret: str | None) -> bool:
    """Whether the folder holds this secret and no one else can read it; without a secret, whether there is none."""
    path = os.path.join(folder, "keys.psk")
    try:
        with open(path, "rb") as stream:
            private = not stat.S_IMODE(os.fstat(stream.fileno()).st_mode) & 0o077
            return bool(secret) and private and stream.read() == key_line(secret or "")
    except FileNotFoundError:
        return not secret


def check(name: str, address: str, port: int, secret: str | None = None) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", name):
        raise bad_value("name", name, "Use up to 80 letters, digits, dots, _ and -.")
    try:
        unspecified = ipaddress.ip_address(address).is_unspecified
    except ValueError:
        raise bad_value("address", address, "Give an IP address of this host.") from None
    if unspecified:
        raise bad_value("address", address, "Name one address: an export never listens on all of them.")
    if not 1 <= port <= 65535:
        raise bad_value("port", port, "Use 1 to 65535.")
    check_secret("secret", secret)


def pid_path(name: str) -> str:
    return os.path.join(RUN_DIR, f"{name}.pid")


def secret_dir(name: str) -> str:
    return os.path.join(RUN_DIR, f"{name}.tls")


def build_url(name: str, address: str, port: int, tls: bool) -> str:
    """nbds is NBD that is never spoken without TLS."""
    return f"{'nbds' if tls else 'nbd'}://{address}:{port}/{name}"


def build_argv(name: str, path: str, address: str, port: int, aio: str, tls: bool = False) -> list[Any]:
    credentials = f"tls-creds-psk,id=tls,endpoint=server,dir={secret_dir(name)}"
    return [
        QEMU_NBD,
        *(["--object", credentials, "--tls-creds", "tls"] if tls else []),
        "--persistent",
        "--fork",
        "--shared=1",
        "--format=raw",
        "--cache=none",
        f"--aio={aio}",
        "--pid-file",
        pid_path(name),
        "--bind",
        address,
        "--port",
        str(port),
        "--export-name",
        name,
        path,
    ]


def running_pid(name: str) -> int | None:
    return daemon.running_pid("--pid-file", pid_path(name))


def served_fd(pid: int, path: str) -> str | None:
    """The open file of the process that was opened at that path, whatever became of the path since."""
    folder = f"/proc/{pid}/fd"
    for number in os.listdir(folder):
        try:
            opened = os.readlink(os.path.join(folder, number))
        except FileNotFoundError:
            continue  # closed since it was listed
        if opened.removesuffix(" (deleted)") == path:
            return os.path.join(folder, number)
    return None


def same_file(fd_path: str, path: str) -> bool:
    try:
        there, here = os.stat(fd_path), os.stat(path)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def read_direct(path: str, offset: int, length: int, timeout_s: float) -> bytes | None:
    """Bytes from the storage itself, past every cache; None when it fails or does not answer in time."""
    answer = []

    def read() -> None:
        with contextlib.suppress(OSError):
            answer.append(block_device.read_direct(path, 4096)[offset : offset + length])

    # Storage that is gone may hold a read for minutes, so it is read by a thread that may be left behind.
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(timeout_s)
    return answer[0] if answer else None


def storage_problem(path: str, timeout_s: float = 5.0) -> str | None:
    """Why the file system under the path is not what the kernel still believes; None when all is well.

    When the disk under a mounted file system was replaced by an empty one (its machine was killed and built again), the kernel goes on
    with what it has in memory. Only the disk itself shows it.
    """
    mount = mounts.holding(mounts.read(), os.path.dirname(path))
    if mount is None or mount["filesystem"] not in MAGICS:
        return None
    source, kind = mount["source"], mount["filesystem"]
    offset, magic = MAGICS[kind]
    content = read_direct(source, offset, len(magic), timeout_s)
    if content is None:
        return f"{source} cannot be read"
    return None if content == magic else f"{source} no longer holds the {kind} that is mounted from it"


def read_state(name: str, argv: Collection[object], path: str, secret: str | None = None) -> dict[str, Any]:
    """The state: its pid, whether it is started as wanted, why what it serves is not the file any more, and whether files of it are left."""
    pid = running_pid(name)
    left = os.path.exists(pid_path(name)) or os.path.isdir(secret_dir(name))
    if pid is None:
        return {"pid": None, "as_wanted": False, "problem": None, "left": left}
    fd_path = served_fd(pid, path)
    problem = storage_problem(path)
    if fd_path is None or not same_file(fd_path, path):
        problem = "it serves a file that is no longer at its path"
    as_wanted = daemon.read_cmdline(pid) == argv and secret_is_kept(secret_dir(name), secret)
    return {"pid": pid, "as_wanted": as_wanted, "problem": problem, "left": left}


def plan(current: dict[str, Any], state: str) -> list[Any]:
    """Steps for ``present``, ``absent``, or ``released`` (ended only when what it serves is not the file any more)."""
    running = current["pid"] is not None
    if state == "absent":
        # One that was killed has left its files.
        return ["stop"] if running or current["left"] else []
    if state == "released":
        return ["stop"] if running and current["problem"] else []
    if running and current["as_wanted"] and not current["problem"]:
        return []
    return ["stop"] * running + ["start"]


def start(name: str, argv: list[str], secret: str | None = None) -> None:
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/bin"])
    tool = shutil.which(QEMU_NBD, path=path)
    if not tool:
        raise Failure(
            "tool_missing",
            f"The command {QEMU_NBD} is not on this host.",
            "Install the package qemu-utils.",
            tool=QEMU_NBD,
        )
    os.makedirs(RUN_DIR, mode=0o700, exist_ok=True)
    forget_secret(secret_dir(name))
    if secret:
        keep_secret(secret_dir(name), secret)
    done = subprocess.run(argv, executable=tool, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0 or running_pid(name) is None:
        forget_secret(secret_dir(name))
        raise Failure(
            "nbd_start",
            f"The export {name} did not start: {done.stderr.strip() or 'qemu-nbd said nothing'}.",
            "Correct its address, port or file and run this again.",
            name=name,
        )


def stop(name: str, timeout_s: float) -> None:
    if not daemon.end_process(lambda: running_pid(name), daemon.patience(timeout_s)):
        raise Failure(
            "nbd_stop",
            f"The process {running_pid(name)} of the export {name} does not end, not even killed.",
            "Free the storage it waits for, or restart this host.",
            name=name,
        )
    if os.path.exists(pid_path(name)):
        os.unlink(pid_path(name))
    forget_secret(secret_dir(name))
    for folder in (RUN_DIR, os.path.dirname(RUN_DIR)):
        if os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)
