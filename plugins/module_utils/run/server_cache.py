# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page cache of the testbed's own NFS server, which direct I/O of a client does not pass: dropped before each point, and proven with mincore(2).

The client asks by a file in the export itself, so neither side needs a port or a login. The observer that counts on the server during a benchmark looks
once a second, drops the benchmark files and nothing else from the page cache, and writes the answer into the file that the client made for it. A client
that gets no answer says that the cache is unknown.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ..core.failure import Failure
from ..core.layers import Layer
from ..core.names import CACHE_ANSWER as ANSWER
from ..core.names import CACHE_REQUEST as REQUEST
from ..linux.clients.datastore_plan import FILE
from ..linux.record import Record
from ..linux.watch.memory_use import resident_bytes

TOKEN = re.compile(r"[0-9a-f]{16}")
MOST_BYTES = 200
# The observer looks once a second; a busy server needs longer, and a file of many GiB, too.
WAIT_S, LOOK_S = 10.0, 0.05
# Pages that were just read may be on their way into the cache.
TRIES = 3


def over_own_export(below: Sequence[Layer]) -> bool:
    """Whether I/O goes over an NFS export of the testbed's own. below: the layer and those that it is on."""
    return any(layer["kind"] == "target" and (layer.get("detail") or {}).get("provider") == "nfs" for layer in below)


# ---------------------------------------------------------------- the client


def dropped(folder: str, wait_s: float = WAIT_S) -> bool:
    """Ask the server of this mount to drop the page cache of the benchmark files; whether it says that nothing of them is left in it."""
    token = secrets.token_hex(8)
    request, answer = os.path.join(folder, REQUEST), os.path.join(folder, ANSWER)
    try:
        # The answer's file is made first: the client would remember for a while that there is none.
        _write_new(answer, b"")
        _write_new(request, token.encode("ascii"))
        end = time.monotonic() + wait_s
        while time.monotonic() < end:
            with open(answer, "rb") as handle:
                known = _answer(handle.read(MOST_BYTES))
            if known.get("token") == token:
                return known.get("resident_bytes") == 0 and bool(known.get("files"))
            time.sleep(LOOK_S)
    except OSError:
        # Such as an export that may only be read.
        return False
    finally:
        for path in (request, answer):
            with contextlib.suppress(OSError):
                os.unlink(path)
    return False


def _write_new(path: str, content: bytes) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, content)
    finally:
        os.close(handle)


def _answer(content: bytes) -> dict[str, Any]:
    try:
        known = json.loads(content)
    except ValueError:
        return {}
    return known if isinstance(known, dict) else {}


# ---------------------------------------------------------------- the server


def serve(base: str, testbed_id: str) -> None:
    """Answer the requests in the exports of a testbed on this host. An export that is gone, or with other things than plain files, is passed over."""
    try:
        exports = Record(testbed_id, "nfs_export", base).data.get("exports", {})
    except Failure:
        return
    for path in exports:
        with contextlib.suppress(OSError, ValueError):
            _serve_export(path)


def _serve_export(path: str) -> None:
    with _opened(path, os.O_RDONLY | os.O_DIRECTORY) as folder:
        with _opened(REQUEST, os.O_RDONLY, folder) as request:
            token = _plain(request) and os.read(request, MOST_BYTES).decode("ascii")
        if not token or not TOKEN.fullmatch(token):
            return
        with _opened(ANSWER, os.O_RDWR, folder) as answer:
            if not _plain(answer) or _answer(os.read(answer, MOST_BYTES)).get("token") == token:
                return
            names = sorted(filter(FILE.fullmatch, os.listdir(folder)))
            resident = sum(_drop(name, folder) for name in names)
            content = {"token": token, "files": len(names), "resident_bytes": resident}
            os.ftruncate(answer, 0)
            os.pwrite(answer, json.dumps(content).encode("ascii"), 0)


@contextlib.contextmanager
def _opened(path: str, flags: int, folder: int | None = None) -> Iterator[int]:
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


def _plain(handle: int) -> bool:
    """Clients may write to the export, so a name of ours may be anything there, or a second name of another file."""
    known = os.fstat(handle)
    return stat.S_ISREG(known.st_mode) and known.st_nlink == 1


def _drop(name: str, folder: int) -> int:
    """Bytes of a file that are in the page cache after it was dropped."""
    with _opened(name, os.O_RDONLY, folder) as handle:
        size = os.fstat(handle).st_size
        if not _plain(handle) or not size:
            return 0
        os.fsync(handle)
        for _try in range(TRIES):
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            left = resident_bytes(f"/proc/self/fd/{handle}", 0, size)
            if not left:
                break
        return left
