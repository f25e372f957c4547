# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stored runs, however many points they have: rows without histograms at once, whole results on request.

A run keeps ``index.jsonl`` beside its points: what the rows say, and of each result.json the size and the time of its last change. A row is taken
from there while both are what they were, and read anew otherwise, so the index is a cache that may be deleted, copied or out of date. What was added to
the results later (additions.py) is no part of it and is merged each time.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NoReturn

from ...module_utils.core.failure import Failure
from ...module_utils.core.files import write_whole
from ...module_utils.result.result import PARTS, SCHEMA, without_none
from . import additions

try:
    import orjson
except ImportError:
    orjson = None

INDEX = "index.jsonl"
INDEX_SCHEMA = "storlab.index/1"
# A result with every bin of every histogram has some hundred kilobytes.
LARGEST_BYTES = 64 << 20
REQUIRED = (
    "testbed_id",
    "run_id",
    "point_id",
    "layer",
    "layer_kind",
    "host",
    "workload",
    "workload_id",
    "repetition",
    "status",
)
# What grows with the run or with the number of hosts stays in the results.
NOT_IN_ROWS = ("counters", "clients")
# A file may change twice within one tick of the file system's clock. What was changed this shortly before it was read is read again next time;
# whole seconds are what file systems with a coarse clock give.
TICK_NS, COARSE_TICK_NS = 20_000_000, 2_000_000_000


@dataclass
class Store:
    """One run. rows: results without histograms, by point_id; damaged: [{file, reason}] of what is there and cannot be read."""

    folder: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    damaged: list[dict[str, Any]] = field(default_factory=list)
    added: additions.Additions | None = field(default=None, repr=False, compare=False)

    def select(self, **filters: Any) -> list[dict[str, Any]]:
        """The rows where every filter holds: a value, several values, or a function of the value. ``workload__read_percent`` looks inside.

        A row without the key does not match.
        """
        return [
            row
            for row in self.rows
            if all(_matches(value(row, key.replace("__", ".")), wanted) for key, wanted in filters.items())
        ]

    def full(self, point_id: str) -> dict[str, Any]:
        """The whole result with its histograms; Failure 'result_unreadable' when it is not there or damaged."""
        if os.path.basename(point_id) != point_id or point_id in ("", ".", ".."):
            raise Failure(
                "result_unreadable",
                f"{point_id!r} is not the name of a point.",
                "Name one of the run's points.",
                point_id=point_id,
            )
        path = os.path.join(self.folder, "points", point_id, "result.json")
        content, reason = read_result(path)
        if content is None:
            raise Failure(
                "result_unreadable",
                f"{path} is not a result: {reason}.",
                "Measure the point again or remove the file.",
                path=path,
            )
        return self.added.to(content) if self.added else content

    def overview(self) -> dict[str, Any]:
        """What a list of runs says of this one; the keys that nothing is known of are absent."""
        status = [row["status"] for row in self.rows]
        return without_none(
            {
                "folder": self.folder,
                "testbed_id": self.rows[0]["testbed_id"]
                if self.rows
                else os.path.basename(os.path.dirname(self.folder)),
                "run_id": self.rows[0]["run_id"] if self.rows else os.path.basename(self.folder),
                "started_utc": min((row["started_utc"] for row in self.rows if row.get("started_utc")), default=None),
                "finished_utc": max(
                    (row["finished_utc"] for row in self.rows if row.get("finished_utc")), default=None
                ),
                "points": len(status),
                "measured": status.count("measured"),
                "failed": status.count("failed"),
                "damaged": len(self.damaged),
                "layers": sorted({row["layer"] for row in self.rows}),
                "hosts": sorted({row["host"] for row in self.rows}),
                "workloads": sorted({row["workload_id"] for row in self.rows}),
            }
        )


def value(row: dict[str, Any], path: str) -> Any:
    """What stands under a dotted path (``total.iops``), None when nothing does."""
    place: Any = row
    for key in path.split("."):
        place = place.get(key) if isinstance(place, dict) else None
    return place


def _matches(content: Any, wanted: Any) -> bool:
    if content is None:
        return False
    if callable(wanted):
        return bool(wanted(content))
    return content in wanted if isinstance(wanted, (list, tuple, set, frozenset)) else content == wanted


def runs(results_dir: str, testbed_id: str | None = None) -> list[str]:
    """The folders of all runs below results_dir, or of one testbed's, by name."""
    testbeds = [testbed_id] if testbed_id else sorted(_folders(results_dir))
    return [
        os.path.join(results_dir, testbed, run)
        for testbed in testbeds
        for run in sorted(_folders(os.path.join(results_dir, testbed)))
        if os.path.isdir(os.path.join(results_dir, testbed, run, "points"))
    ]


def points_of(folder: str) -> str:
    """The folder of a run's points; Failure 'run_missing' where there is none."""
    points = os.path.join(folder, "points")
    if not os.path.isdir(points):
        raise Failure(
            "run_missing",
            f"{folder} holds no folder named points.",
            "Name the folder of a run that benchmark wrote.",
            run_dir=folder,
        )
    return points


def open_run(folder: str) -> Store:
    """The run in this folder. Brings its index up to date where the folder can be written."""
    points = points_of(folder)
    known, fresh = _read_index(folder), False
    entries: list[dict[str, Any]] = []
    clock_ns = None
    for name in sorted(_folders(points)):
        path = os.path.join(points, name, "result.json")
        try:
            status = os.stat(path)
        except OSError:
            entries.append({"point": name, "reason": "it is missing"})
            continue
        entry = known.get(name)
        if entry is None or entry.get("mtime_ns") != status.st_mtime_ns or entry.get("size_bytes") != status.st_size:
            if clock_ns is None:
                clock_ns = _clock_ns(folder)
            entry, fresh = _entry(name, path, status, clock_ns), True
        entries.append(entry)
    if fresh or {entry["point"] for entry in entries if "size_bytes" in entry} != set(known):
        _write_index(folder, entries)
    added = additions.Additions(folder, parse)
    return Store(
        os.path.abspath(folder),
        [
            row_of(added.to(entry["row"])) if entry["point"] in added.by_point else entry["row"]
            for entry in entries
            if "row" in entry
        ],
        [
            *(
                {"file": f"points/{entry['point']}/result.json", "reason": entry["reason"]}
                for entry in entries
                if "reason" in entry
            ),
            *added.damaged,
        ],
        added,
    )


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return []


# ---------------------------------------------------------------- the index


def _entry(name: str, path: str, status: os.stat_result, clock_ns: int) -> dict[str, Any]:
    content, reason = read_result(path)
    if content is not None and content["point_id"] != name:
        reason = f"it is the result of point {content['point_id']!r}, and counts there"
    tick = TICK_NS if status.st_mtime_ns % 1_000_000_000 else COARSE_TICK_NS
    entry = {
        "point": name,
        "mtime_ns": status.st_mtime_ns if status.st_mtime_ns < clock_ns - tick else None,
        "size_bytes": status.st_size,
    }
    return {**entry, "row": row_of(content)} if content and not reason else {**entry, "reason": reason}


def row_of(result: dict[str, Any]) -> dict[str, Any]:
    """A result as a row: without the histograms, and without what grows with hosts."""
    row = {key: part for key, part in result.items() if key not in NOT_IN_ROWS}
    for name in PARTS:
        if name in row:
            row[name] = {key: part for key, part in row[name].items() if key != "histogram"}
    return row


def _clock_ns(folder: str) -> int:
    """Now, by the clock of the file system, which may be another machine's. 0, so that nothing is trusted, where nothing can be written."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            return os.fstat(probe.fileno()).st_mtime_ns
    except OSError:
        return 0


def _read_index(folder: str) -> dict[str, Any]:
    known = {}
    try:
        with open(os.path.join(folder, INDEX), "rb") as handle:
            if parse(handle.readline()) != {"schema": INDEX_SCHEMA}:
                return {}
            # Many lines in one go are read faster than one by one, and some at a time do not take the memory of all.
            for lines in iter(lambda: list(islice(handle, 1000)), []):
                known.update(
                    {
                        entry["point"]: entry
                        for entry in parse(b"[" + b",".join(lines) + b"]")
                        if ("row" in entry) != ("reason" in entry)
                    }
                )
    except (OSError, ValueError, KeyError, TypeError):
        return {}  # a cache that is missing or damaged is made anew
    return known


def _write_index(folder: str, entries: list[dict[str, Any]]) -> None:
    lines = [json.dumps({"schema": INDEX_SCHEMA})]
    lines += [json.dumps(entry, separators=(",", ":"), sort_keys=True) for entry in entries if "size_bytes" in entry]
    with contextlib.suppress(OSError):  # an archive that cannot be written is read all the same
        write_whole(os.path.join(folder, INDEX), ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass"))


# ---------------------------------------------------------------- one result


def read_result(path: str) -> tuple[dict[str, Any] | None, str | None]:
    """(result, None), or (None, why it is none)."""
    try:
        with open(path, "rb") as handle:
            raw = handle.read(LARGEST_BYTES + 1)
        if len(raw) > LARGEST_BYTES:
            return None, f"it has more than {LARGEST_BYTES} bytes"
        content = parse(raw)
    except FileNotFoundError:
        return None, "it is missing"
    except (OSError, ValueError, RecursionError) as error:
        return None, f"it cannot be read: {error}"
    reason = problem(content)
    return (None, reason) if reason else (content, None)


def parse(raw: bytes) -> Any:
    """JSON as the standard has it; ValueError for anything else, NaN and Infinity among it."""
    if orjson is not None:
        with contextlib.suppress(ValueError):  # it refuses what fio's words may hold: half a character
            return orjson.loads(raw)
    return json.loads(raw, parse_constant=_not_json)


def _not_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


def problem(content: Any) -> str | None:
    """Why this is not a result of the schema that a table or report can rely on, None when it is one."""
    if not isinstance(content, dict):
        return "it is not a result"
    if content.get("schema") != SCHEMA:
        return f"its schema is {str(content.get('schema'))[:80]!r}, not {SCHEMA!r}"
    missing = [key for key in REQUIRED if key not in content]
    if missing:
        return f"it lacks {', '.join(missing)}"
    for key, kind in (
        ("workload", dict),
        ("engine", dict),
        ("cpu", dict),
        ("errors", dict),
        ("failures", list),
        ("flags", list),
        ("point_id", str),
        ("testbed_id", str),
        ("run_id", str),
        ("layer", str),
        ("host", str),
        ("workload_id", str),
        ("status", str),
    ):
        if not isinstance(content.get(key, kind()), kind):
            return f"its {key} is {_shown(content[key])}"
    for direction in PARTS:
        part = content.get(direction, {})
        if not isinstance(part, dict):
            return f"its {direction} is {_shown(part)}"
        for key, number in part.items():
            if key != "histogram" and not _is_number(number):
                return f"its {direction} {key} is {_shown(number)}, not a number"
        bins = (
            part["histogram"].get("bins", {}) if isinstance(part.get("histogram"), dict) else part.get("histogram", {})
        )
        if not isinstance(bins, dict) or (bins and not _counted(bins)):
            return f"its {direction} histogram is not made of nanoseconds and counts"
    return None


def _counted(bins: dict[str, Any]) -> bool:
    """Whether keys are decimal numbers and values counts. Joined, the keys are looked through at once; an empty one would not be seen."""
    return (
        "".join(bins).isdecimal()
        and "" not in bins
        and set(map(type, bins.values())) == {int}
        and min(bins.values()) >= 0
    )


def _is_number(content: Any) -> bool:
    return type(content) in (int, float) and math.isfinite(content)


def _shown(content: Any) -> str:
    return f"a {type(content).__name__}" if isinstance(content, (dict, list)) else repr(content)[:80]
