# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stored runs, however many points they have: rows without histograms at once, whole results on request.

Rows come from the run's index (point_index.py). Later additions to the results (additions.py) are not in it and are merged each time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ...module_utils.core import times
from ...module_utils.core.failure import Failure
from ...module_utils.result.result import PARTS, SCHEMA, without_none
from . import additions, point_index
from .cells import directions_of

try:
    import orjson
except ImportError:
    orjson = None

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
# How a checksum of rows begins: with these words of rows of lines (index/6), with none of those before.
LINES = "lines "
# Parts that grow with the run or with the number of hosts stay in the results.
NOT_IN_ROWS = ("counters", "clients")


@dataclass
class Store:
    """One run. rows: results without histograms, by point_id; damaged: [{file, reason}] of what is there and cannot be read."""

    folder: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    damaged: list[dict[str, Any]] = field(default_factory=list)
    added: additions.Additions | None = field(default=None, repr=False, compare=False)

    def select(self, **filters: object) -> list[dict[str, Any]]:
        """The rows where every filter holds: a value, several values, or a function of the value. ``workload__read_percent`` looks inside.

        A row without the key does not match.
        """
        return [
            row
            for row in self.rows
            if all(_matches(value(row, key.replace("__", ".")), wanted) for key, wanted in filters.items())
        ]

    def full(self, point_id: str) -> dict[str, object]:
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

    def overview(self) -> dict[str, object]:
        """The entry of this run in a list of runs; keys without a value are absent."""
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


def value(row: Mapping[str, object], path: str) -> Any:
    """The value under a dotted path (``total.iops``), None when there is none."""
    place: Any = row
    for key in path.split("."):
        place = place.get(key) if isinstance(place, dict) else None
    return place


def _matches(content: object, wanted: object) -> bool:
    if content is None:
        return False
    if callable(wanted):
        return bool(wanted(content))
    return content in wanted if isinstance(wanted, (list, tuple, set, frozenset)) else content == wanted


def runs(results_dir: str, testbed_id: str | None = None) -> list[str]:
    """The folders of all runs below results_dir, or of one testbed's, by name."""
    testbeds = [testbed_id] if testbed_id else sorted(folders(results_dir))
    return [
        os.path.join(results_dir, testbed, run)
        for testbed in testbeds
        for run in sorted(folders(os.path.join(results_dir, testbed)))
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
    return point_index.retried(folder, lambda index: _opened(index, folder, points))


def refreshed(index: point_index.Index, points: str, keep: bool = True) -> list[str]:
    """Bring the index up to date as far as rows need it, and keep it; the points that have no result."""
    missing = point_index.refresh(
        index,
        points,
        sorted(folders(points)),
        lambda name, status: entry_of(index, name, status, *read_hashed(os.path.join(points, name, "result.json"))),
    )
    if keep:
        index.save()
    return missing


def rows_digest(rows: Iterable[tuple[bytes, str | None]]) -> str:
    """A checksum of what the index says of the points: [(point, row)] by name. A verdict is of these, too."""
    whole = hashlib.sha256()
    for point, row in rows:
        whole.update(digested(point, row))
    return LINES + whole.hexdigest()


def digested(point: bytes, row: str | None, form: str = LINES) -> bytes:
    """The bytes of one row in rows_digest, for a caller that reads rows one at a time; in the form that another version of the index gave to rows."""
    if row and form != LINES:
        row = json.dumps(parse(row), separators=(",", ":"), sort_keys=True)
    return b"%b\0%b\n" % (point, (row or "").encode("utf-8", "surrogatepass"))


def _opened(index: point_index.Index, folder: str, points: str) -> Store:
    missing = refreshed(index, points)
    added = additions.Additions(folder, parse)
    rows, reasons = [], dict.fromkeys(missing, "it is missing")
    for point, reason, text in index.select("point, coalesce(reason, elsewhere), row"):
        name = point_index.name_of(point)
        if reason:
            reasons[name] = reason
            continue
        row = parse(text)
        rows.append(row_of(added.to(row)) if name in added.by_point else row)
    return Store(
        os.path.abspath(folder),
        rows,
        [
            *({"file": f"points/{name}/result.json", "reason": reason} for name, reason in sorted(reasons.items())),
            *added.damaged,
        ],
        added,
    )


def folders(path: str) -> list[str]:
    """The names of the folders in this folder; none where it is missing."""
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return []


# ---------------------------------------------------------------- the index


def entry_of(
    index: point_index.Index,
    name: str,
    status: os.stat_result,
    content: dict[str, Any] | None,
    reason: str | None,
    sha256: str | None,
) -> dict[str, Any]:
    """The columns that the index keeps of a point, for rows. status: of result.json before it was read; the last three: the answer of read_hashed."""
    entry = {
        "point": point_index.key(name),
        "sha256": sha256,
        "identity": index.trusted(status),
        "reason": reason and _clean(reason),
    }
    if content is None:
        return entry
    if content["point_id"] != name:
        entry["elsewhere"] = _clean(f"it is the result of point {content['point_id']!r}, and counts there")
    total, names = directions_of(content).get("total", {}), {**content, "measurement": additions.measurement(content)}
    return {
        **entry,
        **{column: point_index.key(str(names.get(column) or "")) for column in point_index.NAMES},
        "started_s": _started_s(content.get("started_utc")),
        "flags": json.dumps(content["flags"], separators=(",", ":")) if content.get("flags") else None,
        **{column: _setting(content["workload"].get(column)) for column in point_index.SETTINGS},
        **{column: _real(total.get(column)) for column in point_index.FIGURES},
        "row": point_index.text_of(point_index.lines_of(row_of(content))),
    }


def _clean(reason: str) -> str:
    """Without halves of characters, which no database takes."""
    return reason.encode("utf-8", "backslashreplace").decode()


def _real(number: Any) -> float | None:
    try:
        return None if number is None else float(number)
    except OverflowError:
        return None


def _setting(number: object) -> float | None:
    return _real(number) if _is_number(number) else None


def _started_s(utc: object) -> float | None:
    try:
        return times.unix_s(utc) if isinstance(utc, str) else None
    except ValueError:
        return None


def row_of(result: dict[str, Any]) -> dict[str, Any]:
    """A result as a row: without the histograms, and without what grows with hosts."""
    row = {key: part for key, part in result.items() if key not in NOT_IN_ROWS}
    for name in PARTS:
        if name in row:
            row[name] = {key: part for key, part in row[name].items() if key != "histogram"}
    return row


# ---------------------------------------------------------------- one result


def read_result(path: str) -> tuple[dict[str, Any] | None, str | None]:
    """(result, None), or (None, why it is none)."""
    return read_hashed(path)[:2]


def read_hashed(path: str) -> tuple[dict[str, Any] | None, str | None, str | None]:
    """The answer of read_result, and the SHA-256 of the file as far as it was read."""
    sha256 = None
    try:
        with open(path, "rb") as handle:
            raw = handle.read(LARGEST_BYTES + 1)
        if len(raw) > LARGEST_BYTES:
            return None, f"it has more than {LARGEST_BYTES} bytes", None
        sha256 = hashlib.sha256(raw).hexdigest()
        content = parse(raw)
    except FileNotFoundError:
        return None, "it is missing", None
    except (OSError, ValueError, RecursionError) as error:
        return None, f"it cannot be read: {error}", sha256
    reason = problem(content)
    return (None, reason, sha256) if reason else (content, None, sha256)


def parse(raw: bytes | str) -> Any:
    """JSON as the standard has it; ValueError for anything else, NaN and Infinity among it."""
    if orjson is not None:
        with contextlib.suppress(ValueError):  # it refuses what fio's words may hold: half a character
            return orjson.loads(raw)
    return _decode(raw.decode(json.detect_encoding(raw), "surrogatepass") if isinstance(raw, bytes) else raw)


def _not_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


# json.loads with an option makes a decoder each time.
_decode = json.JSONDecoder(parse_constant=_not_json).decode


def problem(content: object) -> str | None:
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


def _counted(bins: dict[str, int]) -> bool:
    """Whether keys are decimal numbers and values counts. Joined, the keys are looked through at once; an empty one would not be seen."""
    return (
        "".join(bins).isdecimal()
        and "" not in bins
        and set(map(type, bins.values())) == {int}
        and min(bins.values()) >= 0
    )


def _is_number(content: Any) -> bool:
    return type(content) in (int, float) and math.isfinite(content)


def _shown(content: object) -> str:
    return f"a {type(content).__name__}" if isinstance(content, (dict, list)) else repr(content)[:80]
