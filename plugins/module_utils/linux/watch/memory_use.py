# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's memory as far as it bears on storage figures: how fast it copies, and what of a layer the page cache holds."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import threading
import time

from ...core.files import naming

# Together, whatever the number of cores: more than most caches hold, and little enough for small machines.
COPY_BYTES = 64 << 20
COPY_S = 0.3
MOST_THREADS = 64
PAGE_BYTES = mmap.PAGESIZE
# mincore(2) answers with a byte a page; so much of a layer is asked about at once.
WINDOW_BYTES = 1 << 30
# The other bits of mincore's answer are reserved.
LOWEST_BIT = bytes(value & 1 for value in range(256))
DROP = "/proc/sys/vm/drop_caches"
_libc = ctypes.CDLL(None, use_errno=True)
for _name, _kinds in (
    ("memcpy", (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
    ("memset", (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)),
    ("mincore", (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)),
    ("munmap", (ctypes.c_void_p, ctypes.c_size_t)),
    ("mmap", (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_longlong)),
):
    getattr(_libc, _name).argtypes = _kinds
_libc.mmap.restype = ctypes.c_void_p
_libc.memcpy.restype = _libc.memset.restype = ctypes.c_void_p


def copy_bytes_s() -> float:
    """Bytes that all cores together can copy from memory to memory in a second, by the C library's memcpy: each byte is read and written once.

    One thread a core, each with buffers of its own that were written before (untouched memory is one page of zeros, which no copy is), all at
    once; the fastest copy of each counts, because others who use the host at the same time make no ceiling lower. Storage that delivers more than
    this does not move the data.
    """
    count = min(len(os.sched_getaffinity(0)), MOST_THREADS)
    size = max(COPY_BYTES // (2 * count), PAGE_BYTES)
    ready, copied = threading.Barrier(count), [0.0] * count

    def work(index: int) -> None:
        source, target = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
        _libc.memset(source, index + 1, size)
        _libc.memset(target, 255, size)
        ready.wait()
        begun = now = time.monotonic()
        while now < begun + COPY_S:
            before = now
            # ctypes lets other threads run at the same time.
            _libc.memcpy(target, source, size)
            now = time.monotonic()
            copied[index] = max(copied[index], size / (now - before))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(copied)


def drop_page_cache() -> bool:
    """Write back and drop the clean page cache of the whole host; False where that is not allowed, as in containers."""
    os.sync()
    try:
        with naming(DROP), open(DROP, "w", encoding="ascii") as handle:
            handle.write("1\n")
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT):
            return False
        raise
    return True


def resident_bytes(path: str, offset: int, size: int) -> int:
    """How much of a file or block device is in the page cache, asked with mincore(2), which looks and does not read."""
    resident, descriptor = 0, os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for start in range(offset // PAGE_BYTES * PAGE_BYTES, offset + size, WINDOW_BYTES):
            resident += _resident_pages(descriptor, start, min(WINDOW_BYTES, offset + size - start)) * PAGE_BYTES
    finally:
        os.close(descriptor)
    return resident


def _resident_pages(descriptor: int, start: int, size: int) -> int:
    # Python's own mmap can only give the address of memory that may be written.
    address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, start)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    try:
        pages = (ctypes.c_ubyte * -(-size // PAGE_BYTES))()
        if _libc.mincore(address, size, pages):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        _libc.munmap(address, size)
    return bytes(pages).translate(LOWEST_BIT).count(1)
