# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real iSCSI target (tgtd) on loopback for tests, with LUNs in files, which tests change as hardware does."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
import uuid
import zlib
from pathlib import Path

PATIENCE_S = 20
SOCKETS = Path("/var/run/tgtd")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def free_numbers() -> tuple[int, int]:
    """(TCP port, number of the control socket) that nobody has; tgtd knows no number above 32767. A tgtd that was killed leaves its socket."""
    while True:
        port = _free_port()
        if not any(path.exists() for path in control_files(port % 32768)):
            return port, port % 32768


def control_files(control: int) -> tuple[Path, Path]:
    """The files of a tgtd's control socket."""
    return SOCKETS / f"socket.{control}", SOCKETS / f"socket.{control}.lock"


class Array:
    """A tgtd with one target, that wants CHAP in both directions."""

    def __init__(self, folder: Path, iqn: str, secret: str, mutual_secret: str, address: str = "127.0.0.1"):
        self.address = address
        self.folder, self.iqn, self.secrets = (
            folder,
            iqn,
            (("esx", secret, ()), ("array", mutual_secret, ("--outgoing",))),
        )

    def __enter__(self) -> Array:
        port, number = free_numbers()
        self.control, self.portal = str(number), {"address": self.address, "port": port}
        self.daemon = subprocess.Popen(
            ["tgtd", "-f", "-C", self.control, "--iscsi", f"portal={self.address}:{port}"], stderr=subprocess.DEVNULL
        )
        try:
            deadline = time.monotonic() + PATIENCE_S
            while self.admin("--mode", "target", "--op", "show", check=False):
                assert time.monotonic() < deadline, "tgtd does not answer"
                time.sleep(0.05)
            self.admin("--mode", "target", "--op", "new", "--tid", "1", "--targetname", self.iqn)
            self.admit()
            for user, secret, extra in self.secrets:
                self.admin("--mode", "account", "--op", "new", "--user", user, "--password", secret)
                self.admin("--mode", "account", "--op", "bind", "--tid", "1", "--user", user, *extra)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception) -> None:
        self.admin("--mode", "target", "--op", "delete", "--force", "--tid", "1", check=False)
        # It ignores a polite signal.
        self.daemon.kill()
        self.daemon.wait()
        for path in control_files(int(self.control)):
            path.unlink(missing_ok=True)

    def admin(self, *arguments: str, check: bool = True) -> int:
        return subprocess.run(
            ["tgtadm", "-C", self.control, "--lld", "iscsi", *arguments], check=check, capture_output=True
        ).returncode

    def admit(self, everyone: bool = True) -> None:
        """Let initiators log in, or none any more: then their paths are down."""
        self.admin(
            "--mode", "target", "--op", "bind" if everyone else "unbind", "--tid", "1", "--initiator-address", "ALL"
        )

    def file(self, lun: int) -> Path:
        return self.folder / str(lun)

    def add(self, lun: int, size_mib: int, naa: str, serial: str) -> None:
        """A LUN of this size, all zeroes. tgt makes the identifier's second half of the SCSI id that it is given."""
        with open(self.file(lun), "wb") as handle:
            handle.truncate(size_mib << 20)
        self._unit(lun, "new", "--backing-store", str(self.file(lun)))
        self.identify(lun, naa, serial)

    def identify(self, lun: int, naa: str, serial: str) -> None:
        self._unit(lun, "update", "--params", f"scsi_id={naa[16:]},scsi_sn={serial}")

    def remove(self, lun: int) -> None:
        self._unit(lun, "delete")

    def _unit(self, lun: int, operation: str, *arguments: str) -> None:
        self.admin("--mode", "logicalunit", "--op", operation, "--tid", "1", "--lun", str(lun), *arguments)

    def blank(self, lun: int) -> None:
        """Other contents, all zeroes, as memory has after a restart."""
        size = os.path.getsize(self.file(lun))
        with open(self.file(lun), "r+b") as handle:
            handle.truncate(0)
            handle.truncate(size)

    def partition(self, lun: int, label: str) -> None:
        """One partition of Linux from sector 2048 to 4095 in a table of this kind, dos or gpt (UEFI 2.10, chapter 5)."""
        last = os.path.getsize(self.file(lun)) // 512 - 1
        kind, start, end = (0x83, 2048, 4095) if label == "dos" else (0xEE, 1, last)
        slot = struct.pack("<B3sB3sII", 0, bytes(3), kind, bytes(3), start, end - start + 1)
        blocks = {0: bytes(446) + slot + bytes(48) + b"\x55\xaa"}
        if label == "gpt":
            linux = uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4").bytes_le
            entries = struct.pack("<16s16sQQQ72s", linux, uuid.uuid4().bytes_le, 2048, 4095, 0, b"").ljust(
                128 * 128, b"\0"
            )
            header = struct.pack(
                "<8s4sIIIQQQQ16sQIII",
                *(b"EFI PART", b"\0\0\1\0", 92, 0, 0, 1, last, 34, last - 33),
                *(uuid.uuid4().bytes_le, 2, 128, 128, zlib.crc32(entries)),
            )
            checked = header[:16] + struct.pack("<I", zlib.crc32(header)) + header[20:]
            blocks.update({1: checked, 2: entries})
        with open(self.file(lun), "r+b") as handle:
            for sector, content in blocks.items():
                handle.seek(sector * 512)
                handle.write(content)

    def write(self, lun: int, offset: int, content: bytes) -> None:
        with open(self.file(lun), "r+b") as handle:
            handle.seek(offset)
            handle.write(content)

    def contents(self, lun: int) -> bytes:
        return self.file(lun).read_bytes()
