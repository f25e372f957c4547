# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a run folder back. What can be read is read; what cannot is listed with the reason, never skipped in silence."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field

from ..failure import Failure, bad_value

try:
    import orjson  # three times as fast
except ImportError:
    orjson = None

SCHEMA = "storlab.result/1"
OPTIONAL = {"engine": dict, "cpu": dict, "errors": dict, "flags": list, "failures": list, "path": lambda: None, "started_utc": str, "finished_utc": str}
REQUIRED = ("testbed_id", "run_id", "point_id", "layer", "layer_kind", "host", "workload", "workload_id", "repetition", "status")


@dataclass
class Run:
    folder: str
    testbed_id: str
    run_id: str
    layers: dict = field(default_factory=dict)
    environments: dict = field(default_factory=dict)
    results: list = field(default_factory=list)
    asked: dict = field(default_factory=dict)  # run.json: what was asked; empty for runs without one
    damaged: list = field(default_factory=list)  # {file, reason}


def find_run(results_dir: str, testbed_id: str, run_id: str) -> str:
    """The folder of a run; 'latest' is the one whose first point started last."""
    base = os.path.join(results_dir, testbed_id)
    if os.path.dirname(testbed_id) or testbed_id in ("", ".", ".."):
        raise bad_value("testbed_id", testbed_id, "Give the name of a testbed, not a path.")
    if os.path.dirname(run_id) or run_id in ("", ".", ".."):
        raise bad_value("run_id", run_id, "Give the name of a run or latest, not a path.")
    runs = sorted(name for name in (os.listdir(base) if os.path.isdir(base) else []) if os.path.isdir(os.path.join(base, name, "points")))
    if run_id != "latest" and run_id in runs:
        return os.path.join(base, run_id)
    if run_id == "latest" and runs:
        return os.path.join(base, max(runs, key=lambda name: (_first_start(os.path.join(base, name)), name)))
    raise Failure(
        "run_missing",
        f"{results_dir} holds no run{'' if run_id == 'latest' else ' ' + run_id} of testbed {testbed_id}.",
        f"Run benchmark first, or name one of: {', '.join(runs)}." if runs else "Run benchmark first, or correct results_dir and testbed_id.",
        results_dir=results_dir, testbed_id=testbed_id, run_id=run_id, runs=runs,
    )


def _first_start(folder: str) -> str:
    for point in sorted(os.listdir(os.path.join(folder, "points"))):
        try:
            with open(os.path.join(folder, "points", point, "result.json"), encoding="utf-8") as handle:
                return str(json.load(handle).get("started_utc") or "")
        except (OSError, ValueError, AttributeError):
            continue  # read_run lists it; here only a date is wanted
    return ""


def read_run(folder: str) -> Run:
    folder = os.path.abspath(folder)
    points = os.path.join(folder, "points")
    if not os.path.isdir(points):
        raise Failure("run_missing", f"{folder} holds no folder named points.", "Name the folder of a run that benchmark wrote.", run_dir=folder)
    run = Run(folder, testbed_id=os.path.basename(os.path.dirname(folder)), run_id=os.path.basename(folder))
    layers = _read(run, "layers.json") or {}
    # Both shapes are met in the field: a mapping by name, and a plain list.
    listed = layers if isinstance(layers, list) else list(layers.values())
    run.layers = {layer["name"]: layer for layer in listed if isinstance(layer, dict) and layer.get("name")}
    hosts = os.path.join(folder, "hosts")
    for entry in sorted(os.listdir(hosts)) if os.path.isdir(hosts) else []:
        if entry.endswith(".json"):
            run.environments[entry[: -len(".json")]] = _read(run, f"hosts/{entry}") or {}
    if os.path.exists(os.path.join(folder, "run.json")):
        run.asked = _read(run, "run.json", problem=lambda content: None if isinstance(content, dict) else "it is not a mapping") or {}
    # What an import could not use, as importer.py lists it.
    unread = run.asked.get("unread")
    run.damaged += [{"file": str(row.get("file")), "reason": str(row.get("reason"))} for row in (unread if isinstance(unread, list) else ())
                    if isinstance(row, dict)]
    for entry in sorted(os.listdir(points)):
        if os.path.isdir(os.path.join(points, entry)):
            result = _read(run, f"points/{entry}/result.json", problem=_not_a_result)
            if result is not None:
                for key, empty in OPTIONAL.items():
                    result[key] = result.get(key) or empty()
                result["files"] = _files(run, entry, result)
                run.results.append(result)
    if not run.results:
        raise Failure(
            "run_empty", f"{folder} holds no readable result of {len(run.damaged)} found.",
            "Run benchmark again, or restore the run from a copy.", run_dir=folder, damaged=run.damaged,
        )
    run.testbed_id, run.run_id = str(run.results[0]["testbed_id"]), str(run.results[0]["run_id"])
    return run


def _read(run: Run, name: str, problem=lambda content: None):
    """The content of one JSON file, or None and a line in run.damaged."""
    try:
        with open(os.path.join(run.folder, name), "rb") as handle:
            content = parse(handle.read())
        reason = problem(content)
    except FileNotFoundError:
        content, reason = None, "it is missing"
    except (OSError, ValueError) as error:
        content, reason = None, f"it cannot be read: {error}"
    if reason:
        run.damaged.append({"file": name, "reason": reason})
        return None
    return content


def _no_number(text: str):
    raise ValueError(f"{text} is not a number")


def parse(text: bytes):
    """JSON as the standard has it; ValueError for anything else, NaN and Infinity among it."""
    return orjson.loads(text) if orjson else json.loads(text, parse_constant=_no_number)


def read_series(folder: str, result: dict) -> dict | None:
    """The samples of one point, {interval_s, columns, rows}; None when there are none that can be used."""
    file = result["files"].get("series")
    if not file or file["state"] in ("missing", "differs"):
        return None
    try:
        with open(os.path.join(folder, file["path"]), "rb") as handle:
            content = parse(handle.read())
        columns, rows = content["columns"], content["rows"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(columns, list) or "t_s" not in columns or not isinstance(rows, list):
        return None
    return content if all(isinstance(row, list) and len(row) == len(columns) for row in rows) else None


def _not_a_result(content) -> str | None:
    if not isinstance(content, dict):
        return "it is not a result"
    if content.get("schema") != SCHEMA:
        return f"its schema is {content.get('schema')!r}, not {SCHEMA!r}"
    missing = [key for key in REQUIRED if key not in content]
    if missing:
        return f"it lacks {', '.join(missing)}"
    for key in ("workload", "engine", "cpu", "counters", "steady_state"):
        if not isinstance(content.get(key, {}), dict):
            return f"its {key} is not a mapping"
    for key in ("flags", "failures", "checks"):
        if not isinstance(content.get(key, []), list):
            return f"its {key} is not a list"
    for direction in ("read", "write", "total"):
        part = content.get(direction, {})
        if not isinstance(part, dict):
            return f"its {direction} is not a mapping"
        for key, value in part.items():
            if key != "histogram" and (isinstance(value, bool) or not isinstance(value, (int, float))):
                return f"its {direction} {key} is {value!r}, not a number"
        bins = (part.get("histogram") or {}).get("bins") or {}
        if not (all(map(str.isdigit, bins)) and set(map(type, bins.values())) <= {int} and min(bins.values(), default=0) >= 0):
            return f"its {direction} histogram is not made of nanoseconds and counts"
    return None


def _files(run: Run, point: str, result: dict) -> dict:
    """Where the raw output, the job file and the samples are, seen from the run's folder, and whether they are what was recorded."""
    found = {}
    for kind in ("raw", "job", "series"):
        record = result.get(kind)
        if not isinstance(record, dict) or not record.get("file"):
            continue
        relative = next(
            (path for path in (os.path.normpath(f"points/{point}/{record['file']}"), os.path.normpath(str(record["file"])))
             if not path.startswith(("..", "/")) and os.path.isfile(os.path.join(run.folder, path))), None)
        sha256 = None
        if relative:
            with open(os.path.join(run.folder, relative), "rb") as handle:
                sha256 = hashlib.sha256(handle.read()).hexdigest()
        state = "missing" if relative is None else "unrecorded" if not record.get("sha256") else "matches" if sha256 == record["sha256"] else "differs"
        found[kind] = {"path": relative, "name": str(record["file"]), "sha256": record.get("sha256"), "state": state}
    return found
