# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host left of a run, taken out of its archive and read as results."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from typing import Any

from ...module_utils.core.failure import Failure, exit_words
from ...module_utils.engines import fio, fio_distributed
from ...module_utils.engines.catalogue import ENGINES
from ...module_utils.result import result as schema
from ...module_utils.workload.meanings import meanings
from .run_folder import FILES

LARGEST_FILE_BYTES = 256 << 20
# Of all files together that are taken out of one archive: a few kilobytes can stand for any amount.
LARGEST_ARCHIVE_BYTES = 1 << 30
# fill-<layer>, precondition-<layer>, zero-<layer>, warmup-<layer>.<workload>
_PREPARATION = re.compile(r"[a-z]+-[A-Za-z0-9._-]+")


def unpack(
    archive: bytes, point_ids: set[str]
) -> tuple[dict[str, dict[str, bytes]], dict[str, dict[str, bytes]], dict[str, Any], dict[str, Any]]:
    """({point_id: {file name: content}}, the same of what preceded the points, the host's fingerprint, the beat of the round that begins with them).

    Only names that are expected are taken out of the archive.
    """
    points: dict[str, Any] = {}
    preparations: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    beat: dict[str, Any] = {}
    taken = 0
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for member in tar:
            parts = member.name.split("/")
            taken += member.size
            if taken > LARGEST_ARCHIVE_BYTES:
                raise Failure(
                    "transfer_damaged",
                    f"What a host has packed stands for more than {LARGEST_ARCHIVE_BYTES} bytes.",
                    "Look at the files of the run on that host; a point has some megabytes.",
                )
            if not member.isfile() or member.size > LARGEST_FILE_BYTES:
                continue
            if member.name == "host.json":
                environment = json.loads(_content(tar, member))
            elif member.name == "beat.json":
                beat = json.loads(_content(tar, member))
            elif len(parts) == 3 and parts[2] in FILES:
                if parts[0] == "points" and parts[1] in point_ids:
                    points.setdefault(parts[1], {})[parts[2]] = _content(tar, member)
                elif parts[0] == "preparation" and _PREPARATION.fullmatch(parts[1]):
                    preparations.setdefault(parts[1], {})[parts[2]] = _content(tar, member)
    return points, preparations, environment, beat


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = tar.extractfile(member)
    # Only what is no file has no content.
    return stream.read() if stream else b""


def read_point(
    point: dict[str, Any], layer: dict[str, Any], request: dict[str, Any], files: dict[str, Any]
) -> dict[str, Any]:
    """The result of a point out of the files its host left."""
    meta = json.loads(files["meta.json"]) if "meta.json" in files else None
    servers, kept = point.get("servers"), {key: value for key, value in point.items() if key not in ("seed", "servers")}
    path = layer["detail"]["members"][0]["path"] if servers else layer["path"]
    engine = ENGINES[request["engine"]]
    settings = {"name": engine.name}
    if engine.name == "fio":
        settings["ioengine"] = fio.ioengine(path, point["workload"])
    if engine.seeded:
        settings["randseed"] = point["seed"]
    identity = {
        "testbed_id": request["testbed_id"],
        "run_id": request["run_id"],
        **kept,
        "layer_kind": layer["kind"],
        "host": layer["host"],
        "path": layer["path"],
        "engine": settings,
    }
    for name, key, where in (
        (engine.raw, "raw_sha256", "raw"),
        (engine.job, "job_sha256", "job"),
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
    text = files.get(engine.raw, b"").decode("utf-8", "surrogateescape")
    if text:
        try:
            measured = fio_distributed.results(text, servers) if servers else engine.results(text)
        except Failure as failure:
            if meta and not meta["failures"]:
                # Why it breaks off, when it is known.
                if meta.get("exit_code"):
                    meta["failures"].append(
                        {"code": "engine_exit", "message": f"{engine.name} {exit_words(meta['exit_code'])}."}
                    )
                meta["failures"].append({"code": failure.code, "message": str(failure)})
    if meta and "test" in meta:
        # One file of several points; which of its tests is this one's is noted, None when it has none.
        measured = [] if meta["test"] is None else measured[meta["test"] : meta["test"] + 1]
        if measured:
            identity["raw"]["test"] = meta["test"]
    result = schema.of_point(
        identity,
        meta,
        measured,
        first_words(files.get("stderr.txt", b"").decode("utf-8", "replace") + text, engine.begins),
    )
    result["flags"] += [flag for flag in meanings(engine.name, point["workload"]) if flag not in result["flags"]]
    return result


def first_words(text: str, begins: str = "{") -> str | None:
    """What an engine said in plain words before its figures, if anything."""
    lines = [line.strip() for line in text.partition(begins)[0].splitlines() if line.strip()]
    return lines[0][:300] if lines else None
