# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The interfaces of a host by which the guard of devices looks at it: files, links, claims of devices, sockets, programs."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import time

from .sought import loop_backing


class System:
    """The host's own interfaces; tests give a folder as root and answer ``stat``, ``exclusive`` and ``run`` themselves."""

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def real(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def read(self, path: str) -> str | None:
        """Text of a small file, None when the kernel does not have it."""
        raw = self.read_bytes(path)
        return None if raw is None else raw.decode("utf-8", "replace").strip("\x00 \n")

    def read_bytes(self, path: str) -> bytes | None:
        try:
            with open(self.real(path), "rb") as handle:
                return handle.read()
        except OSError as error:
            # sysfs attributes a driver does not implement exist and fail on reading, each driver in its own way.
            if error.errno in (
                errno.ENOENT,
                errno.ENOTDIR,
                errno.EINVAL,
                errno.EIO,
                errno.ENODEV,
                errno.ENXIO,
                errno.EOPNOTSUPP,
                errno.ESRCH,
            ):
                return None
            raise

    def head(self, path: str, count: int) -> bytes:
        """The first bytes of a file or device, empty when it cannot be read."""
        try:
            with open(self.real(path), "rb", buffering=0) as handle:
                return handle.read(count) or b""
        except OSError:
            return b""

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.real(path)))
        except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
            return []
        except PermissionError:
            if path.startswith("/proc/"):
                return []  # a process this user may not look into
            raise

    def resolve(self, path: str) -> str:
        if self.root == "/":
            return os.path.realpath(path)
        # Links in a folder that stands for the root are followed as if it were the root.
        seen = 0
        while os.path.islink(self.real(path)) and seen < 40:
            path, seen = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(self.real(path)))), seen + 1
        return path

    def stat(self, path: str) -> os.stat_result:
        return os.stat(self.real(path))

    def read_link(self, path: str) -> str | None:
        """Where a symbolic link leads, None when there is none or this user may not know."""
        try:
            return os.readlink(self.real(path))
        except OSError:  # gone meanwhile, or a process this user may not look into
            return None

    def exclusive(self, path: str) -> str | None:
        """None when the block device can be claimed, else the reason: 'EBUSY' when the kernel gave it to somebody else.

        Other programs claim a device for less than a millisecond while they look at it, so one refusal is not an answer.
        """
        for pause_s in (0.02, 0.02, None):
            try:
                os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_NONBLOCK | os.O_CLOEXEC))
                return None
            except OSError as error:
                if error.errno != errno.EBUSY or pause_s is None:
                    return error_name(error)
            time.sleep(pause_s)
        return None

    def loop_backing(self, name: str) -> tuple[str, int, str] | None:
        """The file behind a loop device by number, which no path of sysfs shows: it may be one of another root."""
        return loop_backing(self.real(f"/dev/{name}"))

    def listens(self, path: str) -> bool:
        """Whether somebody serves a Unix socket, or may: only a socket that its process left behind is refused."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            try:
                connection.connect(self.real(path))
            except (ConnectionRefusedError, FileNotFoundError):
                return False
            except OSError:
                return True
        return True

    def run(self, argv: list[str]) -> tuple[int, str, str] | None:
        """(exit code, stdout, stderr), or None when the tool is not installed."""
        tool = shutil.which(argv[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin")
        if tool is None:
            return None
        try:
            done = subprocess.run(
                [tool, *argv[1:]],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=60,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 124, "", f"{argv[0]} did not end within 60 s"
        return done.returncode, done.stdout, done.stderr


def error_name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error.errno))
