# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a run folder back. Readable files are read; the others are listed with the reason, never skipped in silence."""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, cast

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.core.layers import Layer
from ...module_utils.esxi.installation_plan import SCHEMA as INSTALLATION
from ...module_utils.result import histogram
from ...module_utils.result.result import PARTS
from ...module_utils.result.schema import Result
from . import additions, beats, csv_cells, ledger, networks, point_index, run_folder, store, verify
from . import installations as installations_store
from .alike import FILES, Ordered, lend, share, share_files
from .collector import without_collector

OPTIONAL: dict[str, Callable[[], Any]] = {
    "engine": dict,
    "cpu": dict,
    "errors": dict,
    "flags": list,
    "failures": list,
    "path": lambda: None,
    "started_utc": str,
    "finished_utc": str,
}
# An index is written once it lacks so many points, and this part of those that there are: a hundred hosts that end one after another write a few.
LACKING, LACKING_SHARE = 64, 0.05
FILE_KEYS = ("path", "name", "sha256", "state")
PARSED = 128  # points whose texts are parsed at once: their keys are in memory once


@dataclass
class Run:
    folder: str
    testbed_id: str
    run_id: str
    layers: dict[str, Layer] = field(default_factory=dict)
    environments: dict[str, Any] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    record: dict[str, Any] = field(default_factory=dict)  # run.json: what was asked; empty for runs without one
    installations: list[Any] = field(default_factory=list)  # of operating systems, as docs/results.md says
    networks: list[Any] = field(default_factory=list)  # what the network alone carried, see networks.py
    beats: list[Any] = field(default_factory=list)  # what hosts played before rounds, see beats.py
    damaged: list[Any] = field(default_factory=list)  # {file, reason}
    verified: dict[str, Any] | None = None  # the last verdict of verify_results, see verify.py

    def forget_bins(self) -> None:
        """For those who have made of the histograms what they need: of ten thousand points they take a fifth of the memory."""
        for result in self.results:
            for direction in PARTS:
                (result.get(direction) or {}).pop("histogram", None)


def find_run(results_dir: str, testbed_id: str, run_id: str) -> str:
    """The folder of a run; 'latest' is the one whose first point started last."""
    check_testbed(testbed_id)
    base = os.path.join(results_dir, testbed_id)
    if os.path.dirname(run_id) or run_id in ("", ".", ".."):
        raise bad_value("run_id", run_id, "Give the name of a run or latest, not a path.")
    runs = run_names(results_dir, testbed_id)
    if run_id != "latest" and run_id in runs:
        return os.path.join(base, run_id)
    if run_id == "latest" and runs:
        return os.path.join(base, max(runs, key=lambda name: (_first_start(os.path.join(base, name)), name)))
    raise Failure(
        "run_missing",
        f"{results_dir} holds no run{'' if run_id == 'latest' else ' ' + run_id} of testbed {testbed_id}.",
        f"Run benchmark first, or name one of: {', '.join(runs)}."
        if runs
        else "Run benchmark first, or correct results_dir and testbed_id.",
        results_dir=results_dir,
        testbed_id=testbed_id,
        run_id=run_id,
        runs=runs,
    )


def named_runs(results_dir: str, testbed_id: str, run_ids: list[str], others: list[str]) -> list[str]:
    """The folders of these runs. A name with * stands for all runs whose names fit, in order, without the folders in others."""
    folders: list[str] = []
    for run_id in run_ids:
        if "*" not in run_id:
            folders.append(find_run(results_dir, testbed_id, run_id))
            continue
        base = os.path.join(results_dir, testbed_id)
        fitting = [
            os.path.join(base, name)
            for name in run_names(results_dir, testbed_id)
            if fnmatch.fnmatchcase(name, run_id) and not _is_of(os.path.join(base, name), others)
        ]
        if not fitting:
            # Its message lists the runs that there are.
            find_run(results_dir, testbed_id, run_id)
        folders += fitting
    return list(dict.fromkeys(folders)) if any("*" in run_id for run_id in run_ids) else folders


def runs_before(results_dir: str, testbed_id: str, candidates: list[str], count: int) -> list[str]:
    """The folders of the last ``count`` runs that began before each of the candidates (folders of runs), the oldest first."""
    check_testbed(testbed_id)
    base = os.path.join(results_dir, testbed_id)
    until = min(map(_first_start, candidates), default="")
    began = sorted(
        (start, folder)
        for name in run_names(results_dir, testbed_id)
        if not _is_of(folder := os.path.join(base, name), candidates)
        and (start := _first_start(folder))
        and (not until or start < until)
    )
    if not began:
        raise Failure(
            "run_missing",
            f"{results_dir} holds no run of testbed {testbed_id} that began before the candidate.",
            "Run benchmark on the baseline first; a history takes 8 runs or more.",
            results_dir=results_dir,
            testbed_id=testbed_id,
        )
    return [folder for _start, folder in began[-count:]]


def _is_of(folder: str, others: list[str]) -> bool:
    return os.path.realpath(folder) in map(os.path.realpath, others)


def run_names(results_dir: str, testbed_id: str) -> list[str]:
    """The names of a testbed's runs."""
    base = os.path.join(results_dir, testbed_id)
    names = os.listdir(base) if os.path.isdir(base) else []
    return sorted(name for name in names if os.path.isdir(os.path.join(base, name, "points")))


def find_runs(results_dir: str, testbed_id: str | None, run_ids: list[str]) -> list[str]:
    """The folders of these runs, each once; without names the folders of all runs of the testbed, without a testbed of all testbeds."""
    if testbed_id is None:
        folders = store.runs(results_dir)
    else:
        check_testbed(testbed_id)
        known = set(run_names(results_dir, testbed_id)) if run_ids else set()  # listed once for ten thousand names
        folders = [
            os.path.join(results_dir, testbed_id, run_id)
            if run_id in known
            else find_run(results_dir, testbed_id, run_id)
            for run_id in run_ids
        ] or store.runs(results_dir, testbed_id)
    if not folders:
        raise Failure(
            "run_missing",
            f"{results_dir} holds no run{f' of testbed {testbed_id}' if testbed_id else ''}.",
            "Run benchmark first, or correct results_dir and testbed_id.",
            results_dir=results_dir,
            testbed_id=testbed_id,
        )
    return list(dict.fromkeys(folders))


def check_testbed(testbed_id: str) -> None:
    if os.path.dirname(testbed_id) or testbed_id in ("", ".", ".."):
        raise bad_value("testbed_id", testbed_id, "Give the name of a testbed, not a path.")


def _first_start(folder: str) -> str:
    for point in sorted(os.listdir(os.path.join(folder, "points"))):
        try:
            with open(os.path.join(folder, "points", point, "result.json"), encoding="utf-8") as handle:
                return str(json.load(handle).get("started_utc") or "")
        except (OSError, ValueError, AttributeError):
            continue  # read_run lists it; here only a date is wanted
    return ""


def under(layer: Layer, *variants: str) -> Layer:
    """The layer as it was in the first of these variants in which it was measured, else as it was in the end."""
    variants_of = layer.get("variants")
    known: dict[str, Any] = variants_of if isinstance(variants_of, dict) else {}
    snapshot = next((known[name] for name in variants if isinstance(known.get(name), dict)), layer)
    return cast(Layer, {key: value for key, value in snapshot.items() if key != "variants"})


def read_around(folder: str) -> Run:
    """The run without its results: its layers, hosts, and what was asked for."""
    folder = os.path.abspath(folder)
    run = Run(folder, testbed_id=os.path.basename(os.path.dirname(folder)), run_id=os.path.basename(folder))
    layers = _read(run, "layers.json", (dict, list)) or {}
    # Both shapes are met in the field: a mapping by name, and a plain list.
    listed: list[Any] = layers if isinstance(layers, list) else list(layers.values())
    run.layers = {
        layer["name"]: cast(Layer, layer) for layer in listed if isinstance(layer, dict) and layer.get("name")
    }
    hosts = os.path.join(folder, "hosts")
    for entry in sorted(os.listdir(hosts)) if os.path.isdir(hosts) else []:
        if entry.endswith(".json"):
            run.environments[entry[: -len(".json")]] = _read(run, f"hosts/{entry}", (dict,)) or {}
    if os.path.exists(os.path.join(folder, "run.json")):
        run.record = _read(run, "run.json", (dict,)) or {}
    # Files that an import could not use, as importer.py lists it.
    unread = run.record.get("unread")
    run.damaged += [
        {"file": str(row.get("file")), "reason": str(row.get("reason"))}
        for row in (unread if isinstance(unread, list) else ())
        if isinstance(row, dict)
    ]
    return run


@without_collector()
def read_run(folder: str) -> Run:
    folder = os.path.abspath(folder)
    points = store.points_of(folder)
    run, added = read_around(folder), additions.Additions(folder, store.parse)
    run.results, damaged, rows = point_index.retried(folder, lambda index: _results(index, folder, points, added))
    run.damaged += [*added.damaged, *damaged, *verify.renamed(folder, run.record)]
    if not run.results:
        raise Failure(
            "run_empty",
            f"{folder} holds no readable result of {len(run.damaged)} found.",
            "Run benchmark again, or restore the run from a copy.",
            run_dir=folder,
            damaged=run.damaged,
        )
    run.testbed_id, run.run_id = str(run.results[0]["testbed_id"]), str(run.results[0]["run_id"])
    run.installations = _installations(run, added)
    run.verified = verify.kept(folder, rows)
    run.beats, damaged = beats.read(folder, store.parse)
    run.damaged += damaged
    run.networks, damaged = networks.read(folder, store.parse)
    run.damaged += damaged
    return run


def keep_index(folder: str) -> None:
    """Write the index of a run that has grown by many points, so that its first report need not read them all again.

    When several end at the same time, one does it for all. The index is a cache: a failure to write it is ignored, and the report reads the run.
    """
    try:
        points = store.points_of(folder)
        with run_folder.alone(points) as mine:
            if not mine:
                return
            there = len(os.listdir(points))
            with point_index.Index(folder) as index:
                [(known,)] = index.db.execute("SELECT count(*) FROM point WHERE rest IS NOT NULL")
            if there - known >= max(LACKING, there * LACKING_SHARE):
                added = additions.Additions(folder, store.parse)
                point_index.retried(folder, lambda index: _results(index, folder, points, added))
    except (Failure, OSError, sqlite3.Error, ValueError, KeyError, TypeError, IndexError):
        return


def _results(
    index: point_index.Index, folder: str, points: str, added: additions.Additions
) -> tuple[list[Result], list[dict[str, Any]], str]:
    """(results, damaged, checksum of the rows) by name. The index keeps each result without its bins, and the bins as the sums of each cell."""
    sums, fresh = _Sums(), set()

    def describe(name: str, status: os.stat_result) -> dict[str, Any]:
        content, reason, sha256 = store.read_hashed(f"{points}/{name}/result.json")
        entry = store.entry_of(index, name, status, content, reason, sha256)
        if content is None:
            return entry
        fresh.add(entry["point"])
        files = _files(folder, name, content)
        seen = [(file["path"], status and index.trusted(status)) for file, status in files.values()]
        # The bins of a point that was failed later are in no sum.
        taking = sums if added.to(content)["status"] == content["status"] else _Sums()
        own = {kind: file for kind, (file, _status) in files.items()}
        return {**entry, "files": _seen(seen), **_whole(content, own, taking)}

    names = sorted(store.folders(points))
    missing = point_index.refresh(index, points, names, describe, _outdated(index, folder))
    reasons, results = dict.fromkeys(missing, "it is missing"), []
    cells: dict[tuple[str, ...], list[tuple[Any, ...]]] = {}
    once: dict[Any, Any] = {}
    digests, rows, form = {}, hashlib.sha256(), verify.form_of_rows(folder)
    for (point, reason, identity, sha256, whole, row), texts in _parsed(index):
        name = point_index.name_of(point)
        digests[f"points/{name}/result.json"] = sha256
        if form is not None:
            rows.update(store.digested(point, row, form))
        if reason:
            reasons[name] = reason
            continue
        result, bins = texts
        # One that is made of lines has been completed already.
        if whole and (problem := completed(result)):
            reasons[name] = problem
            continue
        share_files(result, once)
        apart = name in added.by_point
        if apart:
            result = added.to(result)
            completed(result)
        share(result, once)
        if summed := bins and result["status"] == "measured":
            bins = _share_bins(result, bins, once)
        if not apart:
            result = Ordered(dict(sorted(result.items()))) if whole else Ordered(result, point)
        if summed:
            cells.setdefault(_cell(result), []).append((point, identity, bins, result))
        results.append(result)
    _summed(index, points, cells, sums, fresh)
    index.save()
    lend(results, index.texts())
    damaged = [{"file": f"points/{name}/result.json", "reason": reason} for name, reason in sorted(reasons.items())]
    known = {entry["file"] for entry in damaged}
    damaged += [entry for entry in ledger.unlike(folder, digests) if entry["file"] not in known]
    return cast("list[Result]", results), damaged, f"{form or ''}{rows.hexdigest()}"


def _whole(content: dict[str, Any], files: Mapping[str, object], sums: _Sums) -> dict[str, str | None]:
    """The columns of the index that make a row a whole result: the lines that it lacks, where its bins are, and its CSV. Completes the result."""
    lines = point_index.lines_of(store.row_of(content))
    problem = completed(content)
    bins = {} if problem else sums.take(content)
    whole = {**content, **store.row_of(content), "files": files}
    return {
        "rest": json.dumps(bins, separators=(",", ":"), sort_keys=True),
        "more": point_index.lacking(None if problem else lines, whole),
        "cells": None if problem else csv_cells.kept(whole),
    }


def _share_bins(result: dict[str, object], bins: dict[str, object], once: dict[Any, Any]) -> dict[str, object]:
    """Have in memory once where bins are, and figures that are their own total."""
    if all(isinstance(way, str) for way in bins.values()):
        bins = once.setdefault(tuple(bins.items()), bins)
    way = bins.get("total")
    if isinstance(way, str) and way != "total" and result["total"] == result[way]:
        result["total"] = result[way]
    return bins


def _seen(files: list[tuple[str | None, str | None]]) -> str | None:
    """Path and identity of each of these files, None where one of them is to be read again each time."""
    text = "\0".join(word or "" for file in files for word in file)
    return text if all(path and seen for path, seen in files) and point_index.has_bytes(text) else None


def _outdated(index: point_index.Index, folder: str) -> set[bytes]:
    """The points of which the index does not know enough, or of which another file than result.json changed."""
    outdated = set()
    for point, rest, files in index.select("point, rest IS NOT NULL AND more IS NOT NULL, files", "reason IS NULL"):
        words = files.split("\0") if files else []
        if not rest or files is None or not all(map(_unchanged, repeat(folder), words[::2], words[1::2])):
            outdated.add(point)
    return outdated


def _unchanged(folder: str, path: str, seen: str) -> bool:
    try:
        return point_index.identity(os.stat(f"{folder}/{path}")) == seen
    except (OSError, ValueError):
        return False


def _summed(
    index: point_index.Index,
    points: str,
    cells: dict[tuple[str, ...], list[tuple[Any, ...]]],
    sums: _Sums,
    fresh: set[bytes],
) -> None:
    """Give the results of each cell the sums of their bins: from the index, where they are of exactly these files, else added up.

    cells: [(point, identity, where the bins of each direction are, result)]. fresh: points whose bins are among the sums already.
    """
    stored: dict[bytes, dict[str, Any]] = {}
    for of, direction, count, edges, counts in index.sums():
        packed = histogram.Packed.of_bytes(edges, counts)
        stored.setdefault(of, {})[direction] = {"bins": packed, "points": count}
    current, added_up = set(), []
    for cell, members in cells.items():
        known = all(identity for _point, identity, _bins, _result in members)
        of = hashlib.sha256(
            b"".join(b"%b\0%b\0" % (point, (identity or "").encode()) for point, identity, *_ in members)
        ).digest()
        pooled = stored.get(of) if known else None
        if pooled is None:
            for point, *_rest in members:
                if point not in fresh:
                    content, reason = store.read_result(f"{points}/{point_index.name_of(point)}/result.json")
                    if content is None:
                        raise ValueError(reason)  # it went away meanwhile
                    sums.take(content)
            sums.pack()
            pooled = sums.cells[cell]
            if known:
                added_up += [
                    (of, direction, part["points"], *part["bins"].as_bytes()) for direction, part in pooled.items()
                ]
        current.add(of)
        for _point, _identity, bins, result in members:
            for direction, way in bins.items():
                result[direction]["histogram"] = pooled[way] if isinstance(way, str) else way
    if added_up or not current.issuperset(stored):
        index.keep_sums(added_up, current)


def _installations(run: Run, added: additions.Additions) -> list[dict[str, Any]]:
    """Each with what was added to it, and the samples that its figures are of as files: {raw}, as the points have theirs."""
    folder, installations = os.path.join(run.folder, "installations"), []
    for entry in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        name = f"installations/{entry}"
        timed = _read(run, name, (dict,)) if entry.endswith(".json") else None
        if timed is None:
            continue
        timed = added.to(timed)
        if timed.get("schema") != INSTALLATION or not _timed(timed) or not installations_store.named(name, timed):
            run.damaged.append({"file": name, "reason": f"it is not an installation of schema {INSTALLATION}"})
            continue
        raw = (timed.get("counters") or {}).get("raw")
        raw = raw if isinstance(raw, dict) and raw.get("file") else {}
        place = os.path.normpath(f"installations/{raw.get('file')}")
        places = [place] if place.startswith("installations/") else []
        timed["files"] = {"raw": _file(run.folder, raw, places)[0]} if raw else {}
        installations.append(timed)
    return installations


def _timed(timed: dict[str, Any]) -> bool:
    """Whether it has what a table of installations shows, and figures where figures belong."""
    try:
        counters = timed.get("counters") or {}
        rates = (counters.get("datastore") or {}).get("commands_s") or {}
        figures = [
            timed["duration_s"],
            counters.get("samples", 0),
            *(rates[key] for key in ("mean", "p95", "max") if rates),
        ]
        words = [timed[key] for key in ("guest", "datastore", "iso", "ended_by")]
    except (AttributeError, KeyError, TypeError):
        return False
    return all(isinstance(figure, (int, float)) for figure in figures) and all(isinstance(word, str) for word in words)


def _read(run: Run, name: str, kinds: tuple[type, ...]) -> Any:
    """The content of one JSON file, or None and a line in run.damaged."""
    try:
        with open(os.path.join(run.folder, name), "rb") as handle:
            content = store.parse(handle.read())
        reason = None if isinstance(content, kinds) else f"it is a {type(content).__name__}, not a mapping"
    except FileNotFoundError:
        content, reason = None, "it is missing"
    except (OSError, ValueError, RecursionError) as error:
        content, reason = None, f"it cannot be read: {error}"
    if reason:
        run.damaged.append({"file": name, "reason": reason})
        return None
    return content


def read_series(folder: str, result: Result) -> dict[str, object] | None:
    """The samples of one point, {interval_s, columns, rows}; None when there are none that can be used."""
    file = result["files"].get("series")
    if not file or file["state"] in ("missing", "differs"):
        return None
    try:
        with open(os.path.join(folder, file["path"]), "rb") as handle:
            content = store.parse(handle.read())
        columns, rows = content["columns"], content["rows"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(columns, list) or "t_s" not in columns or not isinstance(rows, list):
        return None
    return content if all(isinstance(row, list) and len(row) == len(columns) for row in rows) else None


def _parsed(index: point_index.Index) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """((point, reason, identity, sha256, whether it is not made of lines, row), [result, bins]) by name; in place of the texts None where there is a reason."""
    selected = index.select("point, reason, identity, sha256, row, more, rest")
    while batch := list(itertools.islice(selected, PARSED)):
        texts = [
            f"[{point_index.composed(row, more)},{rest}]" for _, reason, *_, row, more, rest in batch if not reason
        ]
        parsed = store.parse(f"[{','.join(texts)}]")
        if [len(each) for each in parsed] != [2] * len(texts):
            raise ValueError("a text of the index is not one value")
        parts = iter(parsed)
        for *names, row, more, _rest in batch:
            whole = not names[1] and point_index.is_whole(more)
            yield (*names, whole, row), None if names[1] else next(parts)


def _cell(result: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(str(result.get(key) or "") for key in ("layer", "variant", "workload_id"))


class _Sums:
    """The bins of measured points added up by cell: {bins, points}, which is in each point of a cell in the place of its own.

    The bins of ten thousand points take a gigabyte, and nothing but their sums is asked for (cells.pool). The points of a cell mostly follow one
    another, so the sums of one cell grow while the sums of all others are packed.
    """

    def __init__(self) -> None:
        self.cells: dict[tuple[str, ...], dict[str, Any]] = {}
        self.growing: dict[str, Any] = {}

    def take(self, result: dict[str, Any]) -> dict[str, object]:
        """{direction: whose sum its bins are in}, or the bins themselves where they are in none. The bins leave the result."""
        ways: dict[str, Any] = {}
        if result["status"] != "measured":
            return ways
        sums = self.cells.setdefault(_cell(result), {})
        if sums is not self.growing:
            self.pack()
            self.growing = sums
        own: dict[str, Any] = {
            direction: packed
            for direction in PARTS
            if (packed := (result.get(direction) or {}).get("histogram")) and packed.get("bins")
        }
        share = result["workload"].get("read_percent")
        # Reads alone are their own total.
        way = "read" if share == 100 else "write" if share == 0 else None
        for direction, packed in own.items():
            if direction == "total" and way:
                ways[direction] = way if own.get(way) == packed else packed
                continue
            pooled = sums.setdefault(direction, {"bins": {}, "points": 0})
            if isinstance(pooled["bins"], histogram.Packed):
                pooled["bins"] = dict(pooled["bins"].items())
            histogram.add(pooled["bins"], packed["bins"])
            pooled["points"] += 1
            ways[direction] = direction
        return ways

    def pack(self) -> None:
        for pooled in self.growing.values():
            if not isinstance(pooled["bins"], histogram.Packed):
                pooled["bins"] = histogram.Packed(pooled["bins"])


def completed(result: dict[str, object]) -> str | None:
    """Give a result of store.py the keys that the report relies on; why that cannot be when it cannot."""
    for key, kind in (("counters", dict), ("steady_state", dict), ("stall", dict), ("event", dict), ("checks", list)):
        if not isinstance(result.get(key) or kind(), kind):
            return f"its {key} is a {type(result[key]).__name__}"
    for key, empty in OPTIONAL.items():
        if not result.get(key) and (key not in result or result[key] != empty()):
            result[key] = empty()
    return None


def _files(
    folder: str, point: str, result: Mapping[str, object]
) -> dict[str, tuple[dict[str, Any], os.stat_result | None]]:
    """Where the raw output, the job file and the samples are, seen from the run's folder, and whether they are what was recorded."""
    places = {}
    for kind in FILES:
        record = result.get(kind)
        if not isinstance(record, dict) or not record.get("file"):
            continue
        places[kind] = _file(folder, record, _places(point, str(record["file"])))
    return places


def _file(folder: str, record: Mapping[str, object], paths: list[str]) -> tuple[dict[str, Any], os.stat_result | None]:
    """The first of these files that there is, set against what was recorded of it; its status before it was read, if no other may come before it."""
    relative = sha256 = status = None
    for path in paths:
        try:
            with open(os.path.join(folder, path), "rb", buffering=0) as handle:
                status = os.fstat(handle.fileno()) if path == paths[0] else None
                relative, sha256 = path, hashlib.sha256(handle.read()).hexdigest()
            break
        except OSError:
            continue  # said by the state
    state = (
        "missing"
        if relative is None
        else "unrecorded"
        if not record.get("sha256")
        else "matches"
        if sha256 == record["sha256"]
        else "differs"
    )
    return dict(zip(FILE_KEYS, (relative, str(record["file"]), record.get("sha256"), state))), status


def _places(point: str, file: str) -> list[str]:
    """Where a file may be, relative to the folder of the run: beside its result, or as older runs say it. Never outside of the run."""
    if "/" not in file:
        return [f"points/{point}/{file}"]
    paths = (os.path.normpath(f"points/{point}/{file}"), os.path.normpath(file))
    return [path for path in paths if not path.startswith(("..", "/"))]
