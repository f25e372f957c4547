# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the results of a stored run follow from the files they were made of.

A result.json is what ``archive.read_point`` makes of ``point.json`` (what was to be measured), ``meta.json`` (what the host noted) and the engine's own
output. It is made again here, and each field that differs is named. So an edit of a single field of a result is always found; of an edit of the files that
it is made of, each that matters for a figure is. The ledger (ledger.py) knows the checksums of all files of the run, of the hosts' facts too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from ...module_utils.core.failure import Failure
from ...module_utils.engines import databases
from ...module_utils.result import result as schema
from . import csv_cells, database, ledger, point_index, run_folder, store
from .archive import read_point

FILE = "verified.json"
SCHEMA = "storlab.verified/1"
# Sums of floating-point numbers differ by so much between versions of Python (3.12 adds more exactly); nothing is rounded as finely.
RELATIVE = 1e-12
# Columns of the index that depend on more than result.json, or say where it is.
OF_REPORTS = ("identity", "cells", "rest", "more", "files", "seal")
# Keys of a result whose files are beside it.
FILES_OF = ("raw", "job", "series")


def verify(run_dir: str) -> dict[str, Any]:
    """{verdict, points, followed, ledger, findings, unproven}.

    ledger: 'holds', 'broken' or 'silent', when it does not name the run.
    verdict: 'differs' when there is a finding, else 'unproven' when something could not be made again, else 'follows'.
    findings: [{file, field?, found?, follows?, reason}], file relative to the run. unproven: [{file, reason}].
    """
    findings, unproven = [], []
    points = os.path.join(run_dir, "points")
    names = sorted(os.listdir(points)) if os.path.isdir(points) else []
    recorded = _read(os.path.join(run_dir, "run.json"))
    recorded = recorded if isinstance(recorded, dict) else {}
    followed = 0
    for name in names:
        wrong, missing = _point(points, name, recorded)
        findings += wrong
        unproven += missing
        followed += not wrong and not missing
    findings += renamed(run_dir, recorded)
    # A damaged index is recreated by whoever needs it.
    with contextlib.suppress(sqlite3.Error):
        findings += _index(run_dir, points)
    ledger_verdict, wrong = ledger.against(run_dir, run_folder.ledger_files(run_dir))
    # A finding about a field need not be repeated for its file.
    findings += [mismatch for mismatch in wrong if mismatch["file"] not in {finding["file"] for finding in findings}]
    return {
        "verdict": "differs" if findings else "unproven" if unproven or not names else "follows",
        "points": len(names),
        "followed": followed,
        "ledger": ledger_verdict,
        "findings": findings,
        "unproven": unproven,
        "rows": rows_of(run_dir) if names else "",
    }


def renamed(run_dir: str, recorded: Mapping[str, object]) -> list[dict[str, object]]:
    """The finding of a run that is in the folder of another name: the ledger names runs by the names of their folders."""
    name, run_id = os.path.basename(os.path.abspath(run_dir)), recorded.get("run_id")
    if run_id in (None, name):
        return []
    return [
        {
            "file": "run.json",
            "field": "run_id",
            "found": run_id,
            "follows": name,
            "reason": "its folder has another name",
        }
    ]


def rows_of(run_dir: str) -> str:
    """A checksum of what the index says of the run, once it is up to date."""

    def digest(index: point_index.Index) -> str:
        store.refreshed(index, os.path.join(run_dir, "points"), keep=False)
        return store.rows_digest((point, row) for point, row in index.select("point, row"))

    return point_index.retried(run_dir, digest)


def _index(run_dir: str, points: str) -> list[dict[str, object]]:
    """Rows of the index on the disk that say something else than the result.json which they say they are of."""
    columns = [column for column in point_index.COLUMNS if column not in OF_REPORTS]
    findings = []
    with point_index.Index(run_dir) as index:
        for values in index.select(", ".join(point_index.COLUMNS)):
            row = dict(zip(point_index.COLUMNS, values))
            name = point_index.name_of(row["point"])
            path = os.path.join(points, name, "result.json")
            content, reason, sha256 = store.read_hashed(path)
            if row["seal"] != point_index.sealed(values[:-1]):
                findings.append(_finding_of_row(name, "was changed since it was written"))
            # One of another file than the one that is there is out of date, and no one uses it.
            elif sha256 and sha256 == row["sha256"]:
                entry = store.entry_of(index, name, os.stat(path), content, reason, sha256)
                if any(entry.get(column) != row[column] for column in columns) or not _same_cells(row):
                    findings.append(_finding_of_row(name, "does not follow from result.json"))
    return findings


def _same_cells(row: dict[str, Any]) -> bool:
    """Whether the CSV of a row says the same as its JSON."""
    if row["cells"] is None:
        return True
    try:
        return bool(csv_cells.kept(store.parse(point_index.composed(row["row"], row["more"]))) == row["cells"])
    except (AttributeError, TypeError, ValueError):
        return False


def _finding_of_row(name: str, what: str) -> dict[str, object]:
    return {"file": point_index.FILE, "field": name, "reason": f"the row {what}; remove the file; it is written again"}


def state_of(run_dir: str) -> str:
    """A checksum of all results of the run: what a verdict is of."""
    whole, points = hashlib.sha256(), os.path.join(run_dir, "points")
    for name in sorted(os.listdir(points)) if os.path.isdir(points) else []:
        with contextlib.suppress(OSError), open(os.path.join(points, name, "result.json"), "rb") as handle:
            whole.update(f"{name}\0{hashlib.sha256(handle.read()).hexdigest()}\n".encode())
    return whole.hexdigest()


def form_of_rows(run_dir: str) -> str | None:
    """How the last verdict's checksum of the rows begins, which is how it was made; None where there is no verdict, so that no one needs one."""
    verdict = _read(os.path.join(run_dir, FILE))
    if not isinstance(verdict, dict):
        return None
    rows = verdict.get("rows")
    return "" if isinstance(rows, str) and rows and not rows.startswith(store.LINES) else store.LINES


def kept(run_dir: str, rows: str | None = None) -> dict[str, Any] | None:
    """The last verdict on this run, with ``outdated: true`` when its results are not those any more; None when there is none that can be read.

    rows: a checksum of what the index says now, for those who show what it says.
    """
    verdict = _read(os.path.join(run_dir, FILE))
    shape = (
        ("verdict", str),
        ("points", int),
        ("followed", int),
        ("findings", list),
        ("unproven", list),
        ("checked_utc", str),
    )
    if not isinstance(verdict, dict) or verdict.get("schema") != SCHEMA:
        return None
    if not all(isinstance(verdict.get(key), kind) for key, kind in shape):
        return None
    other_rows = rows is not None and verdict.get("rows") != rows
    return {**verdict, "outdated": other_rows or verdict.get("of") != state_of(run_dir)}


def sentence(verdict: dict[str, Any]) -> str:
    """The verdict in words, without a name of anything."""
    of = f"{verdict['followed']} of {verdict['points']} results follow from their raw files"
    count = len(verdict["findings"])
    if verdict["verdict"] == "differs":
        return f"{of}; {count} thing{'s' * (count != 1)} do{'es' * (count == 1)} not."
    if verdict["verdict"] == "unproven":
        return f"{of}; of the rest not everything is there that they were made of."
    known = "the ledger holds" if verdict.get("ledger") == "holds" else "the ledger has nothing about this run"
    return f"Every result follows from its raw files; {known}."


def _point(points: str, name: str, recorded: Mapping[str, object]) -> tuple[list[Any], list[Any]]:
    """(findings, unproven) of one point."""
    path, place = os.path.join(points, name), f"points/{name}"
    result, reason = store.read_result(os.path.join(path, "result.json"))
    if result is None:
        return [{"file": f"{place}/result.json", "reason": reason}], []
    files = {}
    # A pipe or a device of a stranger's run would be read for ever.
    for file in (file for file in run_folder.KEPT if os.path.isfile(os.path.join(path, file))):
        with contextlib.suppress(OSError), open(os.path.join(path, file), "rb") as handle:
            files[file] = handle.read()
    findings = list(_checksums(place, result, files))
    if findings:
        return findings, []
    if run_folder.POINT not in files:
        return [], [
            {
                "file": f"{place}/result.json",
                "reason": f"{run_folder.POINT} is missing, so it is unknown what was requested",
            }
        ]
    try:
        planned = store.parse(files[run_folder.POINT])
        reader = database.read_point if planned["asked"]["engine"] in databases.RAWS else read_point
        follows = json.loads(schema.dump(reader(planned["point"], planned["layer"], planned["asked"], files)))
    except Failure as failure:
        return [{"file": f"{place}/result.json", "reason": failure.what}], []
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        return [
            {"file": place, "reason": f"its files cannot be read as files of a point: {type(error).__name__} {error}"}
        ], []
    if "meta.json" not in files and result["status"] == "measured":
        return [{"file": f"{place}/meta.json", "reason": "it is missing"}], []
    expected: dict[str, Any] = {
        "point_id": name,
        **{key: recorded[key] for key in ("testbed_id", "run_id") if key in recorded},
    }
    findings = [
        {
            "file": f"{place}/result.json",
            "field": field,
            **sides,
            "reason": "it does not follow from the files beside it",
        }
        for field, sides in differences(result, follows)
    ]
    findings += [
        {
            "file": f"{place}/{run_folder.POINT}",
            "field": key,
            "found": follows.get(key),
            "follows": value,
            "reason": "it is of another point or run",
        }
        for key, value in expected.items()
        if follows.get(key) != value
    ]
    return findings, []


def _checksums(place: str, result: Mapping[str, object], files: dict[str, bytes]) -> Iterator[dict[str, object]]:
    """The differences from the time when the result was made."""
    for key in FILES_OF:
        record = result.get(key)
        if not isinstance(record, dict):
            continue
        file = str(record.get("file"))
        if file not in files:
            yield {"file": f"{place}/{file}", "reason": "it is missing"}
            continue
        digest = hashlib.sha256(files[file]).hexdigest()
        if digest != record.get("sha256"):
            yield {
                "file": f"{place}/{file}",
                "field": f"{key}.sha256",
                "found": record.get("sha256"),
                "follows": digest,
                "reason": "its checksum is not the one that the result was made with",
            }


def differences(stored: object, follows: object, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """(dotted path, {found?, follows?}) of every leaf that is not the same; what is on one side only has one side."""
    if isinstance(stored, dict) and isinstance(follows, dict):
        for key in sorted({*stored, *follows}):
            inner = f"{path}.{key}" if path else key
            if key not in stored:
                yield inner, {"follows": follows[key]}
            elif key not in follows:
                yield inner, {"found": stored[key]}
            else:
                yield from differences(stored[key], follows[key], inner)
    elif isinstance(stored, list) and isinstance(follows, list) and len(stored) == len(follows):
        for number, (own, other) in enumerate(zip(stored, follows)):
            yield from differences(own, other, f"{path}[{number}]")
    elif not _same(stored, follows):
        yield path, {"found": stored, "follows": follows}


def _same(own: Any, other: Any) -> bool:
    if isinstance(own, float) or isinstance(other, float):
        numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (own, other))
        return numbers and math.isclose(own, other, rel_tol=RELATIVE)
    return type(own) is type(other) and bool(own == other)


def _read(path: str) -> Any:
    try:
        with open(path, "rb") as handle:
            return store.parse(handle.read())
    except (OSError, ValueError, RecursionError):
        return None
