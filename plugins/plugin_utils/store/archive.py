# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that a host left of a run, taken out of its archive and read as results."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import re
import tarfile
import zlib
from collections.abc import Iterator
from typing import Any, cast

from ...module_utils.core.failure import Failure, exit_words
from ...module_utils.core.layers import Layer
from ...module_utils.core.shape import NUMBER, misfit, parse
from ...module_utils.engines.catalogue import ENGINES
from ...module_utils.result import result as schema
from ...module_utils.result.schema import Meta, Result
from ...module_utils.workload.point import Point
from .run_folder import FILES

LARGEST_FILE_BYTES = 64 << 20
# The limit for all files together from one archive: a few kilobytes can expand to any amount.
LARGEST_ARCHIVE_BYTES = 256 << 20
# The round, its points and their preparation have some tens.
MOST_MEMBERS = 4096
# Values of one file, each of which takes up to a hundred bytes: fio's histograms of a hundred clients have some hundred thousand.
MOST_VALUES = 4_000_000
# The notes of a runner about a host, a round or a point.
LARGEST_NOTE_BYTES, MOST_NOTED = 4 << 20, 100_000
BLOCK_BYTES, CHUNK_BYTES = 512, 1 << 20
# The members that the runner writes: files, folders, and before a member its time with fractions or its long name, which is not needed.
FILE_TYPES, FOLDER_TYPES, EXTRA_TYPES = (tarfile.REGTYPE, tarfile.AREGTYPE), (tarfile.DIRTYPE,), (tarfile.XHDTYPE,)
LARGEST_EXTRA_BYTES = 4096
# fill-<layer>, precondition-<layer>, zero-<layer>, warmup-<layer>.<workload>
_PREPARATION = re.compile(r"[a-z]+-[A-Za-z0-9._-]+")
ENVIRONMENT = {
    **dict.fromkeys(("kernel?", "cpu?", "engine?", "virtualisation?"), dict),
    **{key: {str: dict} for key in ("devices?", "network?")},
    "fio_choices?": {str: NUMBER},
    **dict.fromkeys(("memory_bytes?", "memory_copy_bytes_s?", "load_1min?"), NUMBER),
    **dict.fromkeys(("clocksource?", "fio_clock?", "python?", "distribution?"), str),
}
META = {
    "failures": [{"code": str, "message": str}],
    "flags": [str],
    "overridden": [str],
    "exit_code?": (int, type(None)),
    **dict.fromkeys(("started_utc?", "finished_utc?", "raw_sha256?", "job_sha256?", "series_sha256?"), str),
    **dict.fromkeys(("wall_s?", "late_s?", "stopped_s?"), NUMBER),
    **dict.fromkeys(("preparation?", "memory?", "steady_state?"), dict),
    "prepared?": {"utc": str},
    "windows?": list,
    "test?": (int, type(None)),
}


def unpack(
    archive: bytes, point_ids: set[str]
) -> tuple[dict[str, dict[str, bytes]], dict[str, dict[str, bytes]], dict[str, Any], dict[str, Any]]:
    """({point_id: {file name: content}}, the same of what preceded the points, the host's fingerprint, the beat of the round that begins with them).

    Only names that are expected are taken out of the archive; what the runner never writes is refused.
    """
    points: dict[str, Any] = {}
    preparations: dict[str, Any] = {}
    noted: dict[str, Any] = {"host.json": {}, "beat.json": {}}
    shapes = {"host.json": ENVIRONMENT, "beat.json": {}}
    for name, content in _files(archive):
        parts = name.split("/")
        if name in noted:
            noted[name] = _noted(name, content, shapes[name])
        elif len(parts) == 3 and parts[2] in FILES:
            if parts[0] == "points" and parts[1] in point_ids:
                points.setdefault(parts[1], {})[parts[2]] = content
            elif parts[0] == "preparation" and _PREPARATION.fullmatch(parts[1]):
                preparations.setdefault(parts[1], {})[parts[2]] = content
    return points, preparations, noted["host.json"], noted["beat.json"]


def _files(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the archive's files but those that are too large.

    Read here and not by tarfile, which follows headers of its extensions without bounds: 400 bytes of them keep it busy for a minute, or take gigabytes.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(archive)) as stream:
            yield from _members(stream)
    except (OSError, EOFError, zlib.error, tarfile.HeaderError) as error:
        raise _damaged(f"The archive of a host cannot be read: {error}.") from error


def _members(stream: gzip.GzipFile) -> Iterator[tuple[str, bytes]]:
    taken = 0
    for number in itertools.count():
        header = stream.read(BLOCK_BYTES)
        if not header:
            raise EOFError("it ends too early")
        if not header.strip(b"\0"):
            return
        member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        if number >= MOST_MEMBERS or member.type not in FILE_TYPES + FOLDER_TYPES + EXTRA_TYPES or member.size < 0:
            raise _damaged(f"The archive of a host holds a file that no runner writes: {member.name[:80]!r}.")
        if member.type in EXTRA_TYPES and member.size > LARGEST_EXTRA_BYTES:
            raise _damaged(f"The archive of a host holds a header of {member.size} bytes.")
        padded = -(-member.size // BLOCK_BYTES) * BLOCK_BYTES
        taken += padded
        if taken > LARGEST_ARCHIVE_BYTES:
            raise _damaged(f"The archive of a host unpacks to more than {LARGEST_ARCHIVE_BYTES} bytes.")
        if member.type in FILE_TYPES and member.size <= LARGEST_FILE_BYTES:
            content = stream.read(padded)
            if len(content) < member.size:
                raise EOFError(f"{member.name[:80]!r} is cut short")
            yield member.name, content[: member.size]
        else:
            for left in range(padded, 0, -CHUNK_BYTES):
                stream.read(min(left, CHUNK_BYTES))


def _noted(name: str, content: bytes, shape: object) -> dict[str, object]:
    """A note of the runner: a mapping of this shape."""
    try:
        note = parse(content, LARGEST_NOTE_BYTES, MOST_NOTED)
        reason = misfit(note, shape)
    except ValueError as error:
        reason = str(error)
    if reason:
        raise _damaged(f"{name} of a host cannot be used: {reason}.")
    mapping: dict[str, Any] = note
    return mapping


def _damaged(what: str) -> Failure:
    return Failure(
        "transfer_damaged", what, "Look at the files of the run on that host, and at who else can write there."
    )


def meta_of(files: dict[str, bytes]) -> Meta | None:
    """The runner's note of a point, None where there is nothing; one that cannot be used fails its point and no other."""
    if "meta.json" not in files:
        return None
    try:
        return cast(Meta, _noted("meta.json", files["meta.json"], META))
    except Failure as failure:
        return _unusable(failure.what)


def _unusable(why: str) -> Meta:
    return {"failures": [Failure("files_unusable", why).as_fault()], "flags": [], "overridden": []}


def read_point(point: Point, layer: Layer, request: dict[str, Any], files: dict[str, bytes]) -> Result:
    """The result of a point out of the files its host left."""
    meta = meta_of(files)
    servers, kept = point.get("servers"), {key: value for key, value in point.items() if key not in ("seed", "servers")}
    path = layer["detail"]["members"][0]["path"] if servers else layer["path"]
    engine = ENGINES[request["engine"]]
    identity: Any = {
        "testbed_id": request["testbed_id"],
        "run_id": request["run_id"],
        **kept,
        "layer_kind": layer["kind"],
        "host": layer["host"],
        "path": layer["path"],
        "engine": engine.settings(path, point),
    }
    for name, key, where in (
        (engine.raw_file, "raw_sha256", "raw"),
        (engine.job_file, "job_sha256", "job"),
        ("series.json", "series_sha256", "series"),
    ):
        if name in files:
            digest = hashlib.sha256(files[name]).hexdigest()
            if meta and meta.get(key, digest) != digest:
                raise Failure(
                    "transfer_damaged",
                    f"{name} of point {point['point_id']} arrived damaged.",
                    "Run the task again; the host still has it.",
                )
            identity[where] = {"file": name, "sha256": digest}
    measured = []
    raw = files.get(engine.raw_file, b"")
    text = raw.decode("utf-8", "surrogateescape")
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > MOST_VALUES:
        meta = _unusable(f"{engine.raw_file} has more than {MOST_VALUES} values.")
    elif text:
        try:
            measured = engine.results(text, servers)
        except Failure as failure:
            if meta and not meta["failures"]:
                # Why it breaks off, when it is known.
                if meta.get("exit_code"):
                    meta["failures"].append(
                        Failure("engine_exit", f"{engine.name} {exit_words(meta['exit_code'] or 0)}.").as_fault()
                    )
                meta["failures"].append(failure.as_fault())
    if meta and "test" in meta:
        # One file of several points; which of its tests is this one's is noted, None when it has none.
        measured = [] if meta["test"] is None else measured[meta["test"] : meta["test"] + 1]
        if measured:
            identity["raw"]["test"] = meta["test"]
    output = first_words(files.get("stderr.txt", b"").decode("utf-8", "replace") + text, engine.begins)
    try:
        result = schema.of_point(identity, meta, measured, output)
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # A note that is deeper has another shape than any runner gives it.
        why = f"The notes of the host on this point cannot be used: {type(error).__name__} {error}."
        result = schema.of_point(identity, _unusable(why), [], output)
    result["flags"] += [flag for flag in engine.meanings(point["workload"]) if flag not in result["flags"]]
    return result


def first_words(text: str, begins: str = "{") -> str | None:
    """The messages of an engine before its figures, if any."""
    lines = [line.strip() for line in text.partition(begins)[0].splitlines() if line.strip()]
    return lines[0][:300] if lines else None
