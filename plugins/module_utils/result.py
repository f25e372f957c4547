# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One point's measurement in one schema, whatever the engine. Documented in docs/results.md.

A metric that was not measured is absent, never 0.
"""

from __future__ import annotations

import json
import math

from . import histogram
from .failure import Failure
from .workload import directions

SCHEMA = "storlab.result/1"
DIRECTIONS = ("read", "write")
PERCENTILES = {50.0: "latency_p50_ns", 95.0: "latency_p95_ns", 99.0: "latency_p99_ns", 99.9: "latency_p99_9_ns", 99.99: "latency_p99_99_ns"}
# Below this share of the requested time the rates describe something else than the workload.
MINIMUM_RUNTIME_SHARE = 0.95
# What a result must keep when it becomes a fact: everything a table needs, nothing whose size grows with the run.
SUMMARY_KEYS = ("point_id", "layer", "layer_kind", "host", "path", "workload_id", "repetition", "status", "failures", "flags", "overridden",
                "started_utc", "runtime_s", "cpu", "errors")


def without_none(mapping: dict) -> dict:
    """The mapping without the keys that were not measured."""
    return {key: value for key, value in mapping.items() if value is not None}


def direction(ios: int, size_bytes: int, iops: float, bandwidth_bytes_s: float, latency: dict | None = None, bins: dict | None = None) -> dict:
    """One direction of a result. ``latency`` may hold mean, min, max, stddev (ns), ``samples`` and, where there are no bins, percentiles."""
    latency = latency or {}
    values = {"ios": ios, "bytes": size_bytes, "iops": iops, "bandwidth_bytes_s": bandwidth_bytes_s}
    if latency.get("samples"):
        values.update({f"latency_{key}_ns": latency.get(key) for key in ("mean", "min", "max", "stddev")})
        known = latency.get("percentiles", {})
        if bins:
            known = histogram.percentiles(bins, PERCENTILES)
            values["histogram"] = {"unit": "ns", "bins": histogram.merge([bins])}
        values.update({name: known.get(percent) for percent, name in PERCENTILES.items()})
    return without_none(values)


def merge_directions(parts: list, concurrent: bool = True) -> dict:
    """Several directions, jobs, hosts or repetitions taken as one: counts added, means weighted, deviations pooled, histograms merged.

    Rates are added when the parts ran at the same time and left out when they did not. A latency figure that cannot be
    had exactly (percentiles without bins) is left out.
    """
    if len(parts) == 1:
        return dict(parts[0])
    merged = {"ios": sum(part["ios"] for part in parts), "bytes": sum(part["bytes"] for part in parts)}
    if concurrent:
        merged["iops"] = sum(part["iops"] for part in parts)
        merged["bandwidth_bytes_s"] = sum(part["bandwidth_bytes_s"] for part in parts)
    if parts and merged["ios"] and all("latency_mean_ns" in part for part in parts):
        mean = sum(part["latency_mean_ns"] * part["ios"] for part in parts) / merged["ios"]
        merged["latency_mean_ns"] = mean
        for key, choose in (("latency_min_ns", min), ("latency_max_ns", max)):
            if all(key in part for part in parts):
                merged[key] = choose(part[key] for part in parts)
        if merged["ios"] > 1 and all("latency_stddev_ns" in part for part in parts):
            squares = sum(part["latency_stddev_ns"] ** 2 * (part["ios"] - 1) + part["ios"] * (part["latency_mean_ns"] - mean) ** 2 for part in parts)
            merged["latency_stddev_ns"] = math.sqrt(squares / (merged["ios"] - 1))
        if all("histogram" in part for part in parts):
            bins = histogram.merge(part["histogram"]["bins"] for part in parts)
            merged.update({PERCENTILES[percent]: value for percent, value in histogram.percentiles(bins, PERCENTILES).items()})
            merged["histogram"] = {"unit": "ns", "bins": bins}
    return merged


def failures(result: dict, exit_code, expected: tuple, runtime_s) -> list:
    """Why this result does not count as measured; an empty list when it does.

    fio exits 0 after I/O errors that were told to be ignored, reports error 0 for a file it could not open, and gives
    plausible rates for a run that ended after 4 ms: so everything must hold at once.
    """
    found = []
    if exit_code:
        found.append({"code": "engine_exit", "message": f"{result['engine']['name']} ended with exit code {exit_code}."})
    errors = result.get("errors", {})
    if errors.get("total"):
        found.append({"code": "io_errors", "message": f"{errors['total']} I/O errors, the first with error number {errors.get('first', 'unknown')}."})
    for name in expected:
        if not result.get(name, {}).get("ios"):
            found.append({"code": "no_io", "message": f"The workload has a {name} share, but no {name} I/O was done."})
    measured = result.get("runtime_s", 0)
    if runtime_s and measured < MINIMUM_RUNTIME_SHARE * runtime_s:
        found.append({"code": "too_short", "message": f"Ran {measured:g} s of the {runtime_s:g} s asked for."})
    return found


def of_point(identity: dict, meta: dict | None, measured: list, said: str | None = None) -> dict:
    """The complete result of one point.

    identity: the keys the plan knows (point_id, layer, workload …). meta: what the runner noted, None when it never came to this point.
    measured: what the engine's reader made of its output, one entry when all went well. said: the engine's own words when it failed.
    """
    found = {"schema": SCHEMA, **identity, "failures": [], "flags": []}
    if meta is None:
        found["failures"].append({"code": "stopped", "message": "The run ended before this point."})
    else:
        found.update({key: meta[key] for key in ("started_utc", "finished_utc") if key in meta})
        found["failures"] += meta["failures"]
        found["flags"] += meta["flags"] + (["guard_overridden"] if meta["overridden"] else [])
        if meta["overridden"]:
            found["overridden"] = meta["overridden"]
        if len(measured) == 1:
            own = measured[0]
            found.update({key: own[key] for key in ("runtime_s", *DIRECTIONS, "total", "errors") if key in own})
            found["engine"] = {**own["engine"], **identity["engine"]}
            found["cpu"] = {**own["cpu"], **{key: meta[key] for key in ("host_busy_percent", "host_steal_percent") if key in meta}}
            found["flags"] += own["flags"]
            found["failures"] += failures(found, meta.get("exit_code"), directions(identity["workload"]), identity["workload"]["runtime_s"])
        elif not found["failures"]:
            found["failures"].append({"code": "no_result", "message": f"fio left {len(measured)} results and ended with exit code {meta.get('exit_code')}."})
        if found["failures"] and said:
            found["failures"][-1] = {**found["failures"][-1], "said": said}
    found["status"] = "failed" if found["failures"] else "measured"
    return without_none(found)


def summary(result: dict) -> dict:
    """The result without what only files should carry (histograms, job, workload): small enough to be a fact."""
    short = {key: result[key] for key in SUMMARY_KEYS if result.get(key) not in (None, [], {})}
    for name in (*DIRECTIONS, "total"):
        if name in result:
            short[name] = {key: round(value, 3) for key, value in result[name].items() if key != "histogram"}
    if "raw" in result:
        short["raw"] = result["raw"]
    return short


def dump(result: dict) -> str:
    return json.dumps(result, indent=1, sort_keys=True) + "\n"


def load(path: str) -> dict:
    """Read a result.json; Failure 'result_unreadable' when it is not one of this schema."""
    try:
        with open(path, encoding="utf-8") as handle:
            result = json.load(handle)
    except (OSError, ValueError) as error:
        raise Failure("result_unreadable", f"{path} cannot be read as a result: {error}.", "Measure the point again or remove the file.", path=path) from error
    if not isinstance(result, dict) or result.get("schema") != SCHEMA:
        raise Failure("result_unreadable", f"{path} is not a result of schema {SCHEMA}.", "Measure the point again or remove the file.", path=path)
    return result
