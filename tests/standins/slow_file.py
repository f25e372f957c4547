# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file whose every read takes as long as was asked for, on which a loop device makes a real block device of known slowness. Needs root and /dev/fuse.

The file is a FUSE mount of its own, on top of a plain file: what is read is read from what lies beneath, after the delay, one request after another.
The protocol: the kernel's include/uapi/linux/fuse.h; version 7.31, of which only what a loop device needs is answered.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import multiprocessing
import os
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path

HEADER, ANSWER = struct.Struct("=IIQQIIII"), struct.Struct("=IiQ")
GETATTR, OPEN, READ, STATFS, RELEASE, FSYNC, FLUSH, INIT = 3, 14, 15, 17, 18, 20, 25, 26
SILENT = (2, 36, 42)  # FORGET, INTERRUPT, BATCH_FORGET
DIRECT_IO = 1  # no page cache, so that each read comes here
MOST_BYTES = 128 << 10
LIBC = ctypes.CDLL(None, use_errno=True)


class SlowFile:
    """What became of the requests since the last ``forget``: kept_s is the delay as it was slept, beneath_s what reading beneath it took, both of all."""

    def __init__(self, path: Path, figures: ctypes.Array[ctypes.c_double]) -> None:
        self.path, self._figures = path, figures

    def forget(self) -> None:
        self._figures[:] = [0.0, 0.0, 0.0]

    def means_s(self) -> tuple[float, float]:
        """(kept, beneath) of one request."""
        count, kept_s, beneath_s = self._figures
        return kept_s / count, beneath_s / count


@contextlib.contextmanager
def slow_file(mount_point: Path, beneath: str | Path, size_bytes: int, delay_s: float) -> Iterator[SlowFile]:
    """A file of this size at the mount point; ``beneath`` is a file or a device, which is read past the page cache where it is a device."""
    mount_point.write_bytes(b"")
    source = os.open(beneath, os.O_RDONLY | (os.O_DIRECT if stat.S_ISBLK(os.stat(beneath).st_mode) else 0))
    channel = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={channel},rootmode=100600,user_id=0,group_id=0".encode()
    if LIBC.mount(b"slow", os.fsencode(mount_point), b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), "mount of FUSE")
    figures = multiprocessing.get_context("fork").Array("d", 3, lock=False)
    server = multiprocessing.get_context("fork").Process(
        target=_serve, args=(channel, source, size_bytes, delay_s, figures), daemon=True
    )
    server.start()
    os.close(channel)
    os.close(source)
    try:
        yield SlowFile(mount_point, figures)
    finally:
        # Lazily: what still has it open gets errors when the server is gone.
        LIBC.umount2(os.fsencode(mount_point), 2)
        server.terminate()
        server.join()


def _serve(channel: int, source: int, size_bytes: int, delay_s: float, figures: ctypes.Array[ctypes.c_double]) -> None:
    # Page-aligned, as direct I/O wants it.
    buffer = mmap.mmap(-1, MOST_BYTES)
    while True:
        try:
            request = os.read(channel, MOST_BYTES + 4096)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                continue
            return  # ENODEV: unmounted
        _length, operation, unique, *_rest = HEADER.unpack_from(request)
        if operation in SILENT:
            continue
        body, failure = b"", 0
        if operation == INIT:
            readahead = struct.unpack_from("=I", request, HEADER.size + 8)[0]
            body = struct.pack("=IIIIHHIIHHI28x", 7, 31, readahead, 0, 4, 4, MOST_BYTES, 1, 0, 0, 0)
        elif operation == GETATTR:
            attributes = struct.pack(
                "=QQQQQQIIIIIIIIII", 1, size_bytes, size_bytes // 512, 0, 0, 0, 0, 0, 0, 0o100600, 1, 0, 0, 0, 4096, 0
            )
            body = struct.pack("=QII", 3600, 0, 0) + attributes
        elif operation == OPEN:
            body = struct.pack("=QII", 1, DIRECT_IO, 0)
        elif operation == READ:
            _handle, offset, length = struct.unpack_from("=QQI", request, HEADER.size)
            begun = time.monotonic()
            time.sleep(delay_s)
            slept = time.monotonic()
            with memoryview(buffer) as view:
                count = os.preadv(source, [view[:length]], offset)
            figures[0], figures[1] = figures[0] + 1, figures[1] + slept - begun
            figures[2] += time.monotonic() - slept
            body = buffer[:count]
        elif operation not in (RELEASE, FLUSH, FSYNC):
            failure = -errno.ENOSYS
        os.write(channel, ANSWER.pack(ANSWER.size + len(body), failure, unique) + body)
