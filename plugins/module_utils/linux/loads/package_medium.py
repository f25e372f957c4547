# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages of an installation as one file, which is put behind the file system of the disk that they are installed on: what an ISO image is elsewhere.

All of it is proven by SHA-256: the index by whoever made the file, each package by the index::

    magic, length of the index, SHA-256 of the index; the index as JSON: [{file, offset, bytes, sha256}]; the packages, each at a multiple of 4 KiB
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

from ...core.failure import Failure
from ...core.files import naming

MAGIC = b"STORLAB-PACKAGES"
HEAD = struct.Struct(f"<{len(MAGIC)}sQ32s")
ALIGN = 4096
PIECE = 1 << 20
# No index of a few thousand packages is longer; what says so is none.
MOST_INDEX_BYTES = 4 << 20


def aligned(count: int, to: int = ALIGN) -> int:
    return -(-count // to) * to


def index_of(files: list[tuple[str, int, str]]) -> bytes:
    """The index of [(file name, bytes, SHA-256)], as it is written; offsets are from the end of the index, aligned."""
    entries, offset = [], 0
    for name, size_bytes, sha256 in files:
        entries.append({"file": name, "offset": offset, "bytes": size_bytes, "sha256": sha256})
        offset += aligned(size_bytes)
    return json.dumps(entries, sort_keys=True).encode()


def whole_bytes(index: bytes) -> int:
    """The length of a medium with this index."""
    entries = json.loads(index)
    last = entries[-1]["offset"] + aligned(entries[-1]["bytes"]) if entries else 0
    return int(aligned(HEAD.size + len(index)) + last)


def pieces(index: bytes, paths: list[str]) -> Iterator[bytes]:
    """The medium, piece by piece: of these files, in the order of the index."""
    head = HEAD.pack(MAGIC, len(index), hashlib.sha256(index).digest()) + index
    yield head + bytes(aligned(len(head)) - len(head))
    for path in paths:
        with open(path, "rb") as handle:
            while piece := handle.read(PIECE):
                yield piece + bytes(aligned(len(piece)) - len(piece))


def read_index(handle: BinaryIO, begin: int) -> tuple[list[dict[str, Any]], str] | None:
    """(entries, SHA-256 of the index) of the medium that begins there; None when there is no whole index. Offsets are from the start of the device."""
    handle.seek(begin)
    head = handle.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    magic, length, digest = HEAD.unpack(head)
    if magic != MAGIC or length > MOST_INDEX_BYTES:
        return None
    index = handle.read(length)
    if hashlib.sha256(index).digest() != digest:
        return None
    first = begin + aligned(HEAD.size + length)
    return [{**entry, "offset": first + entry["offset"]} for entry in json.loads(index)], digest.hex()


def retrieve(handle: BinaryIO, entry: dict[str, Any], path: str) -> None:
    """Copy one package to a file; raises medium_damaged."""
    handle.seek(entry["offset"])
    digest, left = hashlib.sha256(), entry["bytes"]
    with naming(path), open(path, "wb") as copy:
        while left:
            piece = handle.read(min(left, PIECE))
            if not piece:
                break
            digest.update(piece)
            copy.write(piece)
            left -= len(piece)
    if left or digest.hexdigest() != entry["sha256"]:
        os.unlink(path)
        raise Failure(
            "medium_damaged",
            f"The package {entry['file']} on the disk is not the one that was copied there.",
            "Run it again: the packages are copied again.",
            file=entry["file"],
        )
