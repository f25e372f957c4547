# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Points of many runs, filtered and summarised by the runs' indexes: what did not change since it was indexed is not read again.

The index is brought up to date first, so the answer is as the files say. Flags and failures that were added later (additions.py) count as the result's own.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from ...module_utils.core import times
from ...module_utils.workload import words
from . import additions, point_index, store

# Filter: column of the index.
NAMES = {
    "layer": "layer",
    "layer_kind": "layer_kind",
    "host": "host",
    "workload": "workload_id",
    "variant": "variant",
    "status": "status",
}
SETTINGS = {word.name: words.stored_names(word)[0] for word in words.WORDS if word.indexed}
TIMES = {"started_from": "started_s >= ?", "started_before": "started_s < ?"}
# The keys of groups: the place of the points, or a column.
PLACES = ("testbed_id", "run_id")
GROUPS = (*PLACES, *NAMES.values(), *point_index.SETTINGS)
# The columns read of each point, before the columns that groups are made by.
COLUMNS = ("point", "measurement", "flags", "status", "workload_id", "layer", "host", "variant", *point_index.FIGURES)
AT = {name: place for place, name in enumerate(COLUMNS)}
Row = tuple[Any, ...]


def query(folders: Iterable[str], where: dict[str, Any], by: Sequence[str], limit: int = 0) -> dict[str, Any]:
    """{matched, groups, points, runs, damaged} of the points of these runs for which all of ``where`` holds.

    where: filters of NAMES and SETTINGS with lists of values; TIMES in seconds since 1970; profile: names, of which the run asked for one; flagged: true or
    false; flags: names, of which the point has one. by: names of GROUPS. limit: so many points are listed.
    """
    where = {name: value for name, value in where.items() if value is not None}
    members: dict[Row, list[tuple[Row, list[str]]]] = {}
    listed: list[dict[str, Any]] = []
    runs, damaged, matched = [], [], 0
    for folder in folders:
        if "profile" in where and not _profiles(folder).intersection(where["profile"]):
            continue
        rows, broken = _chosen(folder, where, by)
        damaged += [{"run_dir": folder, **entry} for entry in broken]
        if not rows:
            continue
        place = dict(zip(PLACES, _place(folder)))
        key_of = _key(place, by)
        for row, flags in rows:
            members.setdefault(key_of(row), []).append((row, flags))
        listed += [{**place, **_point(row, flags)} for row, flags in rows[: limit - len(listed)]]
        runs.append({**place, "points": len(rows)})
        matched += len(rows)
    groups = [
        {**{name: word for name, word in zip(by, map(_plain, key)) if word not in (None, "")}, **_summary(members[key])}
        for key in sorted(members, key=_order)
    ]
    return {"matched": matched, "groups": groups, "points": listed, "runs": runs, "damaged": damaged}


def unmet(folders: Iterable[str], where: dict[str, Any]) -> list[str]:
    """Why nothing matches: a sentence for each filter that no point of these runs meets by itself, with what there is instead."""
    names = {name: values for name, values in where.items() if values and name in (*NAMES, *SETTINGS, "profile")}
    there: dict[str, set[Any]] = {name: set() for name in names}
    for folder in folders:
        if "profile" in names:
            there["profile"] |= _profiles(folder)
        for name in names:
            if column := NAMES.get(name) or SETTINGS.get(name):
                there[name] |= {_plain(value) for value in _distinct(folder, column)} - {None, ""}
    return [
        f"No point has {name} {' or '.join(map(str, values))}; there are: {', '.join(map(str, sorted(there[name]))) or 'none'}."
        for name, values in names.items()
        if not there[name].intersection(values)
    ]


# ---------------------------------------------------------------- points of one run


def _chosen(
    folder: str, where: dict[str, Any], by: Sequence[str]
) -> tuple[list[tuple[Row, list[str]]], list[dict[str, str]]]:
    """([(row, flags)] by name, [{file, reason}] of what cannot be read)."""
    points = store.points_of(folder)
    added = additions.Additions(folder, store.parse)
    # The index knows how a point was measured, and not what failed it later.
    changed = added.fail()
    condition, values = _condition({name: value for name, value in where.items() if not (changed and name == "status")})
    names = (*COLUMNS, *(name for name in by if name not in PLACES))
    columns = ", ".join(names)

    def use(index: point_index.Index) -> tuple[list[tuple[Row, list[str]]], dict[str, str]]:
        reasons = dict.fromkeys(store.refreshed(index, points), "it is missing")
        for point, reason in index.select(
            "point, coalesce(reason, elsewhere)", "coalesce(reason, elsewhere) IS NOT NULL"
        ):
            reasons[point_index.name_of(point)] = reason
        return [(row, _flags(row, added)) for row in index.select(columns, condition, values)], reasons

    rows, reasons = point_index.retried(folder, use)
    if changed:
        rows = [(_failed(row, names, added), flags) for row, flags in rows]
        if "status" in where:
            rows = [(row, flags) for row, flags in rows if _plain(row[AT["status"]]) in where["status"]]
    if "flagged" in where:
        rows = [(row, flags) for row, flags in rows if bool(flags) == where["flagged"]]
    if "flags" in where:
        wanted = set(where["flags"])
        rows = [(row, flags) for row, flags in rows if not wanted.isdisjoint(flags)]
    broken = [{"file": f"points/{name}/result.json", "reason": reason} for name, reason in sorted(reasons.items())]
    return rows, [*broken, *added.damaged]


def _condition(where: dict[str, Any]) -> tuple[str, list[Any]]:
    """The filters that the index knows as a condition with question marks, and their values."""
    conditions = ["reason IS NULL", "elsewhere IS NULL"]
    values: list[Any] = []
    for columns, kind in ((NAMES, point_index.key), (SETTINGS, float)):
        for name, column in columns.items():
            if name in where:
                conditions.append(f"{column} IN ({', '.join('?' * len(where[name]))})")
                values += map(kind, where[name])
    for name, condition in TIMES.items():
        if name in where:
            conditions.append(condition)
            values.append(where[name])
    return " AND ".join(conditions), values


def _flags(row: Row, added: additions.Additions) -> list[str]:
    text = row[AT["flags"]]
    flags = json.loads(text) if text else []
    if added.by_point and point_index.name_of(row[AT["point"]]) in added.by_point:
        flags = added.to({**_part(row), "flags": flags})["flags"]
    return [str(flag) for flag in flags]


def _failed(row: Row, names: tuple[str, ...], added: additions.Additions) -> Row:
    """The row, whose values have these names, with the status that the additions give it."""
    if not added.to(_part(row)).get("failures"):
        return row
    return tuple(point_index.key("failed") if name == "status" else value for name, value in zip(names, row))


def _part(row: Row) -> dict[str, object]:
    """As much of the result as says whether an addition is of this measurement."""
    return {"point_id": point_index.name_of(row[AT["point"]]), "raw": {"sha256": _plain(row[AT["measurement"]])}}


def _distinct(folder: str, column: str) -> list[object]:
    points = store.points_of(folder)

    def use(index: point_index.Index) -> list[object]:
        store.refreshed(index, points)
        return [value for (value,) in index.select(f"DISTINCT {column}", "reason IS NULL AND elsewhere IS NULL")]

    return point_index.retried(folder, use)


def _profiles(folder: str) -> set[str]:
    """Names of the profiles that were asked for in this run."""
    try:
        with open(os.path.join(folder, "run.json"), "rb") as handle:
            requests = store.parse(handle.read())["requests"]
        return {str(request["profile"]["name"]) for request in requests if request.get("profile")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set()  # a run without a record of what was asked for asked for no profile


# ---------------------------------------------------------------- the report on them


def _place(folder: str) -> tuple[str, str]:
    testbed, run = os.path.split(os.path.abspath(folder))
    return os.path.basename(testbed), run


def _key(place: dict[str, str], by: Sequence[str]) -> Callable[[Row], Row]:
    """The key of the group of a row of this run."""
    behind = iter(range(len(COLUMNS), len(COLUMNS) + len(by)))
    parts = [None if name in PLACES else next(behind) for name in by]
    fixed = [place.get(name) for name in by]
    if not by:
        return lambda _row: ()
    if None not in parts:
        taken = itemgetter(*[at for at in parts if at is not None])
        return taken if len(parts) > 1 else lambda row: (taken(row),)
    return lambda row: tuple(known if at is None else row[at] for at, known in zip(parts, fixed))


def _order(key: Row) -> list[object]:
    """Numbers by size, names as they are, what is not known first."""
    return [
        (value is not None, isinstance(value, (str, bytes)), 0 if value is None else _plain(value)) for value in key
    ]


def _plain(value: object) -> object:
    """A value of the index as people write it."""
    if isinstance(value, bytes):
        return point_index.name_of(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _point(row: Row, flags: list[str]) -> dict[str, Any]:
    named = {name: _plain(row[AT[name]]) for name in ("layer", "host", "workload_id", "variant", "status")}
    figures = {name: row[AT[name]] for name in point_index.FIGURES}
    content = {"point_id": _plain(row[AT["point"]]), **named, **figures}
    return {**{name: value for name, value in content.items() if value not in (None, "")}, "flags": flags}


def _summary(members: list[tuple[Row, list[str]]]) -> dict[str, object]:
    """Numbers of points, and the figures of those that were measured; a figure that none of them has is absent.

    Rates: median and mean. Mean latency: weighted by the number of I/Os. A percentile: the middle one of the points' own and never their mean; that of
    all I/Os needs their histograms, which reports and comparisons merge.
    """
    measured = [row for row, _flags in members if row[AT["status"]] == b"measured"]
    counts: dict[str, int] = {}
    for _row, flags in members:
        for flag in flags:
            counts[flag] = counts.get(flag, 0) + 1
    summary: dict[str, Any] = {
        "points": len(members),
        "measured": len(measured),
        "flagged": sum(1 for _row, flags in members if flags),
        "flags": dict(sorted(counts.items())),
        "workloads": len({row[AT["workload_id"]] for row, _flags in members}),
    }
    for name in ("iops", "bandwidth_bytes_s"):
        if values := _values(measured, name):
            middle = statistics.median(values)
            summary[name] = {"median": middle, "mean": statistics.fmean(values), **_extremes(values)}
            if middle > 0:
                summary[name]["spread_percent"] = 100 * (values[-1] - values[0]) / middle
    if values := _values(measured, "latency_mean_ns"):
        pairs = [(row[AT["latency_mean_ns"]], row[AT["ios"]] or 0) for row in measured]
        pairs = [(mean, ios) for mean, ios in pairs if mean is not None]
        weight = sum(ios for _mean, ios in pairs)
        summary["latency_mean_ns"] = {
            **({"mean": sum(mean * ios for mean, ios in pairs) / weight} if weight else {}),
            **_extremes(values),
        }
    if values := _values(measured, "latency_p99_ns"):
        summary["latency_p99_ns"] = {"median": statistics.median(values), **_extremes(values)}
    return summary


def _values(rows: list[Row], name: str) -> list[float]:
    at = AT[name]
    return sorted(row[at] for row in rows if row[at] is not None)


def _extremes(values: list[float]) -> dict[str, float]:
    return {"low": values[0], "high": values[-1]}


def moment_s(text: str) -> float:
    """Seconds since 1970 of a day, 2026-11-21, or of a time in UTC, 2026-11-21T16:33:10Z; ValueError for anything else."""
    text = text.strip().replace(" ", "T").removesuffix("Z").removesuffix("+00:00")
    return times.unix_s(text if "T" in text else f"{text}T00:00:00")
