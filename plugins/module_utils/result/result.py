# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One point's measurement in one schema, whatever the engine. Documented in docs/results.md.

A metric that was not measured is absent, never 0.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..core.failure import Failure, Fault, exit_words
from ..workload.workload import Direction, by_time, directions
from . import choices, histogram, physics, standstill
from .derived import cpu_cost
from .schema import Addition, Check, Figures, Latency, Measured, Meta, Part, Result, Seen

SCHEMA = "storlab.result/1"
DIRECTIONS: tuple[Direction, ...] = ("read", "write")
# Groups with latencies: I/O by its direction and together, and the flushes (fsync, fdatasync), which are not I/O.
PARTS: tuple[Part, ...] = (*DIRECTIONS, "total", "sync")
PERCENTILES = {
    50.0: "latency_p50_ns",
    95.0: "latency_p95_ns",
    99.0: "latency_p99_ns",
    99.9: "latency_p99_9_ns",
    99.99: "latency_p99_99_ns",
}
# Below this share of the requested time the rates describe something else than the workload.
MINIMUM_RUNTIME_SHARE = 0.95
# An engine ends within so much more than the requested time; one that took longer stood still for a while, and its rates are of the stall.
MAXIMUM_RUNTIME_SHARE = 1.05
MAXIMUM_RUNTIME_EXTRA_S = 1
# The counts of the engine and of the device may differ by so much: other users of the device, I/O in flight at the edges.
DEVICE_TOLERANCE_PERCENT = 2
# Whenever somebody who wrote to a device closes it, udev looks for what is on it now (blkid reads 1 MiB in 48 requests, loop device, Linux 6.18).
PROBE = {"bytes": 2 << 20, "ios": 128}
# A device that did the I/O has seen at least this share of the engine's claim.
DEVICE_LEAST_SHARE = 0.5
# Above this share of what the generator alone does on the host, partly the generator is measured.
GENERATOR_PERCENT = 30
# The checks of against_ceiling.
CEILING_FLAGS = ("faster_than_ceiling", "generator_bound", choices.FLAG)
# A host whose hypervisor takes more than this away measures its neighbours.
STEAL_PERCENT = 1
# A host that stood still for this share of a pause, or was kept from its processors for as long, caused it.
EVIDENCE_SHARE = 0.5
# The checks of of_point, with the figures that it puts into the result.
JUDGED = ("engine_exit", "io_errors", "no_io", "too_short", "too_long", "stalled")
# The parts that a result must keep when it becomes a fact: everything a table needs, nothing whose size grows with the run.
SUMMARY_KEYS = (
    "point_id",
    "layer",
    "layer_kind",
    "host",
    "path",
    "workload_id",
    "repetition",
    "variant",
    "status",
    "failures",
    "flags",
    "overridden",
    "started_utc",
    "runtime_s",
    "errors",
)
SUMMARY_WITHOUT = ("histogram", "latency_min_ns")
SUMMARY_CPU = ("user_percent", "system_percent", "host_busy_percent", "host_steal_percent", "us_per_io", "mhz_per_iops")


def without_none(mapping: Mapping[str, object]) -> dict[str, Any]:
    """The mapping without the keys that were not measured."""
    return {key: value for key, value in mapping.items() if value is not None}


def direction(
    ios: int,
    size_bytes: int | None,
    iops: float | None,
    bandwidth_bytes_s: float | None,
    latency: Latency | None = None,
    bins: dict[str, int] | None = None,
) -> Figures:
    """One of PARTS. ``latency`` may hold mean, min, max, stddev (ns), ``samples`` and, where there are no bins, percentiles.

    Flushes have neither size nor rates.
    """
    latency = latency or {}
    values: dict[str, Any] = {"ios": ios, "bytes": size_bytes, "iops": iops, "bandwidth_bytes_s": bandwidth_bytes_s}
    if latency.get("samples"):
        values.update({f"latency_{key}_ns": latency.get(key) for key in ("mean", "min", "max", "stddev")})
        known = latency.get("percentiles", {})
        if bins:
            bins = histogram.merge([bins])
            known = histogram.percentiles(bins, PERCENTILES, ordered=True)
            values["histogram"] = {"unit": "ns", "bins": bins}
        values.update({name: known.get(percent) for percent, name in PERCENTILES.items()})
    return cast(Figures, without_none(values))


def merge_directions(parts: Sequence[Figures], concurrent: bool = True, runtime_s: float | None = None) -> Figures:
    """Several directions, jobs, hosts, rounds or repetitions taken as one: counts added, means weighted, deviations pooled, histograms merged.

    Rates are added when the parts ran at the same time. When they ran one after another, rates are what was done in runtime_s, which is how
    long all of it lasted, with what did nothing in this direction; without runtime_s they are left out, unless there is only one part.
    A latency figure that cannot be had exactly (percentiles without bins) is left out.
    """
    merged: Any = {"ios": sum(part["ios"] for part in parts)}
    flushes = parts and all("bytes" not in part for part in parts)
    if not flushes:
        merged["bytes"] = sum(part["bytes"] for part in parts)
    if runtime_s and not concurrent and not flushes:
        merged.update({"iops": merged["ios"] / runtime_s, "bandwidth_bytes_s": merged["bytes"] / runtime_s})
    if len(parts) == 1:
        return cast(Figures, {**parts[0], **merged})
    if concurrent and not flushes:
        merged["iops"] = sum(part["iops"] for part in parts)
        merged["bandwidth_bytes_s"] = sum(part["bandwidth_bytes_s"] for part in parts)
    if parts and merged["ios"] and all("latency_mean_ns" in part for part in parts):
        mean = sum(part["latency_mean_ns"] * part["ios"] for part in parts) / merged["ios"]
        merged["latency_mean_ns"] = mean
        if all("latency_min_ns" in part for part in parts):
            merged["latency_min_ns"] = min(part["latency_min_ns"] for part in parts)
        if all("latency_max_ns" in part for part in parts):
            merged["latency_max_ns"] = max(part["latency_max_ns"] for part in parts)
        if merged["ios"] > 1 and all("latency_stddev_ns" in part for part in parts):
            squares = sum(
                part["latency_stddev_ns"] ** 2 * (part["ios"] - 1) + part["ios"] * (part["latency_mean_ns"] - mean) ** 2
                for part in parts
            )
            merged["latency_stddev_ns"] = math.sqrt(squares / (merged["ios"] - 1))
        if all("histogram" in part for part in parts):
            bins = histogram.merge(part["histogram"]["bins"] for part in parts)
            merged.update(
                {
                    PERCENTILES[percent]: value
                    for percent, value in histogram.percentiles(bins, PERCENTILES, ordered=True).items()
                }
            )
            merged["histogram"] = {"unit": "ns", "bins": bins}
    return cast(Figures, merged)


def in_a_row(rounds: list[Measured]) -> Measured:
    """Results of the same job that ran one after another, taken as one; only the keys that ``of_point`` uses."""
    if len(rounds) == 1:
        return rounds[0]
    runtime_s = sum(part["runtime_s"] for part in rounds)
    whole: Any = {
        "engine": rounds[0]["engine"],
        "runtime_s": runtime_s,
        "flags": list(dict.fromkeys(flag for part in rounds for flag in part["flags"])),
        "failures": [failure for part in rounds for failure in part["failures"]],
    }
    for name in PARTS:
        parts = [part[name] for part in rounds if name in part]
        if parts:
            whole[name] = merge_directions(parts, concurrent=False, runtime_s=runtime_s)
    errors = [part["errors"] for part in rounds]
    whole["errors"] = {
        **next((error for error in errors if "first" in error), {}),
        "total": sum(error["total"] for error in errors),
    }
    whole["cpu"] = {
        key: round(sum(part["cpu"][key] * part["runtime_s"] for part in rounds) / runtime_s, 3)
        for key in rounds[0]["cpu"]
        if all(key in part["cpu"] for part in rounds)
    }
    return cast(Measured, whole)


def failures(
    result: Result,
    exit_code: int | None,
    expected: Sequence[Direction],
    runtime_s: float | None,
    goes_on: bool = False,
) -> list[Fault]:
    """Why this result does not count as measured; an empty list when it does.

    fio exits 0 after I/O errors that it was set to ignore, reports error 0 for a file it could not open, and gives
    plausible rates for a run that ended after 4 ms: so everything must hold at once. goes_on: the workload is there to go on over errors.
    """
    reasons: list[Fault] = []
    if exit_code:
        reasons.append(Failure("engine_exit", f"{result['engine']['name']} {exit_words(exit_code)}.").as_fault())
    errors = result.get("errors", {})
    if errors.get("total") and not goes_on:
        first = f", the first of number {error_words(errors['first'], result['engine'])}" if "first" in errors else ""
        reasons.append(
            Failure("io_errors", f"{errors['total']} I/O error{'s' * (errors['total'] != 1)}{first}.").as_fault()
        )
    for name in expected:
        if not result.get(name, {}).get("ios"):
            reasons.append(Failure("no_io", f"The workload has a {name} share, but no {name} I/O was done.").as_fault())
    measured = result.get("runtime_s", 0)
    if runtime_s and measured < MINIMUM_RUNTIME_SHARE * runtime_s:
        reasons.append(Failure("too_short", f"Ran {measured:g} s of the {runtime_s:g} s asked for.").as_fault())
    if runtime_s and measured > max(MAXIMUM_RUNTIME_SHARE * runtime_s, runtime_s + MAXIMUM_RUNTIME_EXTRA_S):
        message = f"Ran {measured:g} s instead of the {runtime_s:g} s asked for."
        reasons.append(Failure("too_long", message).as_fault())
    return reasons


def error_words(number: int, engine: Mapping[str, object]) -> str:
    """An error number with its meaning. Windows' C library counts as others do up to 34 (ERANGE) only, so there a higher one stays a number."""
    if engine.get("ioengine") == "windowsaio" and number > 34:
        return f"{number} of Windows' C library"
    return f"{number} ({os.strerror(number)})"


def of_point(identity: Result, meta: Meta | None, measured: list[Measured], output: str | None = None) -> Result:
    """The complete result of one point.

    identity: the keys the plan knows (point_id, layer, workload …). meta: what the runner noted, None when it never came to this point.
    measured: what the engine's reader made of its output, one entry when all went well, one a round when steady state was waited for.
    output: the engine's own words when it failed.
    """
    result: Any = {"schema": SCHEMA, **identity, "failures": [], "flags": []}
    if meta is None:
        result["failures"].append(Failure("stopped", "The run ended before this point.").as_fault())
    else:
        result.update(
            {
                key: meta[key]
                for key in (
                    "started_utc",
                    "finished_utc",
                    "wall_s",
                    "preparation",
                    "prepared",
                    "memory",
                    "steady_state",
                )
                if key in meta
            }
        )
        result["failures"] += meta["failures"]
        result["flags"] += meta["flags"] + (["guard_overridden"] if meta["overridden"] else [])
        if meta["overridden"]:
            result["overridden"] = meta["overridden"]
        window, planned_s = _window(meta, measured), None
        if window:
            own: Any = in_a_row(window)
            result.update(
                {key: own[key] for key in ("runtime_s", *PARTS, "errors", "clients", "latency_bins") if key in own}
            )
            # For several clients, which of them failed; for one engine, the faults that only its reader can know. The rest is judged here.
            result["failures"] += [
                failure for failure in own.get("failures", []) if "clients" in own or failure["code"] not in JUDGED
            ]
            result["engine"] = {**own["engine"], **identity["engine"]}
            result["flags"] += own["flags"]
            if "cpu" in own:
                result["cpu"] = own["cpu"]
            workload = identity["workload"]
            planned_s = (
                meta.get("steady_state", {}).get("round_s", workload["runtime_s"]) * len(window)
                if by_time(workload)
                else None
            )
            goes_on = "on_error" in workload
            result["flags"] += ["io_errors"] if goes_on and result.get("errors", {}).get("total") else []
            result["failures"] += failures(result, meta.get("exit_code"), directions(workload), planned_s, goes_on)
        elif not result["failures"]:
            name = identity["engine"]["name"]
            result["failures"].append(
                Failure(
                    "no_result", f"{name} left {len(measured)} results and {exit_words(meta['exit_code'] or 0)}."
                ).as_fault()
            )
        # The counters of a host that only coordinates others show nothing of their I/O.
        if "clients" not in result:
            _add_counters(result, meta)
        if window:
            _weigh_length(result, meta, planned_s)
            _add_standstill(result, meta, window)
            _add_stop(result, meta)
            _add_physics(result, window)
        if "steady_state" in meta and not meta["steady_state"]["steady"]:
            result["flags"].append("not_steady")
        if result["failures"] and output:
            result["failures"][-1] = {**result["failures"][-1], "said": output}
    result["status"] = "failed" if result["failures"] else "measured"
    return cast(Result, without_none(result))


def _window(meta: Meta, measured: list[Measured]) -> list[Measured]:
    """The rounds that the figures are of; none when the engine left another number of results than it was started."""
    steady = meta.get("steady_state")
    if steady is None:
        return measured if len(measured) == 1 else []
    return measured[-steady["window"] :] if len(measured) == len(steady["rounds"]) else []


def _add_standstill(result: Result, meta: Meta, window: list[Measured]) -> None:
    """Whether nothing at all was completed for too long, in any run of the engine that the figures are of, on any host of many."""
    workload = result["workload"]
    in_flight, pause_s = workload["queue_depth"] * workload["workers"], workload.get("think_time_us", 0) / 1e6
    checks: list[Check] = []
    logged = list(zip(window, meta.get("windows", [None] * len(window))))
    stalls = [
        standstill.stalls(windows, whole["runtime_s"], whole.get("total", {}).get("ios", 0) / in_flight, pause_s)
        for whole, windows in logged
        if "clients" not in whole and whole.get("runtime_s")
    ]
    known = [stall for stall in stalls if stall]
    if known and len(known) == len(logged):
        total_s = sum(stall["total_s"] for stall in known)
        longest_s = max(stall["longest_s"] for stall in known)
        result["stall"] = standstill.of_total(total_s, longest_s, sum(whole["runtime_s"] for whole in window))
    elif not known:
        parts = [part for whole in window for part in whole.get("clients", [whole])]
        by_latency = [
            standstill.longest(part.get("total", {}), part["runtime_s"], in_flight) if part.get("runtime_s") else None
            for part in parts
        ]
        # The pauses of the workload itself are in no latency.
        if by_latency and None not in by_latency:
            result["stall"] = {"longest_s": max(value for value in by_latency if value is not None)}
    for whole, windows in logged:
        for part in whole.get("clients", [whole]):
            if part.get("runtime_s"):
                total = part.get("total", {})
                check = standstill.of_windows(windows, part["runtime_s"], total.get("ios", 0) / in_flight, pause_s)
                check = check or standstill.of_latency(total, part["runtime_s"], in_flight)
                earlier = standstill.before(total, part["runtime_s"], in_flight)
                checks += [judged for judged in (check, earlier) if judged]
    if not checks:
        return
    worst = min(checks, key=lambda check: (check["ok"], -check["longest_s"]))
    result.setdefault("checks", []).append(worst)
    if not worst["ok"]:
        message = f"No I/O was completed for {worst['longest_s']:g} s on end"
        _weigh_pause(result, meta, "stalled", message, worst["longest_s"])


def _weigh_pause(result: Result, meta: Meta, code: str, message: str, longest_s: float) -> None:
    """A pause fails a point only where the host shows that it stood still itself; a pause of the storage is data, and a flag."""
    reason = host_stood_still(result, meta, longest_s)
    if reason:
        result["failures"].append(Failure(code, f"{message}: {reason}.").as_fault())
    else:
        result["flags"].append(code)


def host_stood_still(result: Result, meta: Meta, longest_s: float) -> str | None:
    """The evidence that the host, and not its storage, caused a pause of this length; None without any.

    Of many hosts at once there is none: the one that coordinates them may stand still while they go on.
    """
    if "clients" in result:
        return None
    late_s, steal = meta.get("late_s", 0), result.get("cpu", {}).get("host_steal_percent", 0)
    stopped_s = _stopped_s(result, meta)
    if late_s >= longest_s * EVIDENCE_SHARE:
        return f"the runner on this host was not run for {late_s:g} s"
    if stopped_s >= longest_s * EVIDENCE_SHARE:
        return f"the engine's process on this host was stopped for {stopped_s:g} s"
    if "clock_stepped" in result["flags"]:
        return "the clock of the host was set during the point"
    if steal / 100 * result.get("runtime_s", 0) >= longest_s * EVIDENCE_SHARE:
        return f"the hypervisor of the host took {steal:g} % of its processor time"
    if result.get("layer_kind") == "ceiling":
        return "no device was asked, so the engine or the host stood still"
    return None


def _add_stop(result: Result, meta: Meta) -> None:
    """An engine that somebody stopped measured less than its run time, even where the pause is too short to be found in the I/O."""
    stopped_s, known = _stopped_s(result, meta), {failure["code"] for failure in result["failures"]}
    if stopped_s and not known & {"stalled", "too_long"}:
        name = result["engine"]["name"]
        message = f"{name} was stopped by a signal or a debugger for {stopped_s:g} s, so its figures are not of the whole time."
        result["failures"].append(Failure("engine_stopped", message).as_fault())


def _stopped_s(result: Result, meta: Meta) -> float:
    """How long the process that does the I/O was stopped. The one that only coordinates several hosts may stop without holding them up."""
    return 0.0 if "clients" in result else float(meta.get("stopped_s", 0))


def _weigh_length(result: Result, meta: Meta, planned_s: float | None) -> None:
    """The same of an engine that ran longer than it was asked to, because an answer was late."""
    late = [failure for failure in result["failures"] if failure["code"] == "too_long"]
    if late and planned_s:
        result["failures"] = [failure for failure in result["failures"] if failure["code"] != "too_long"]
        _weigh_pause(result, meta, "too_long", late[0]["message"].rstrip("."), result["runtime_s"] - planned_s)


def _add_physics(result: Result, window: list[Measured]) -> None:
    """Whether the figures can be true at all."""
    parts = [part for whole in window for part in whole.get("clients", [whole])]
    if "total_s" in result.get("stall", {}):
        # Rounds are alike enough to share it.
        share = result["stall"]["total_s"] / sum(part["runtime_s"] for part in parts)
        parts = [{**part, "stalled_s": share * part["runtime_s"]} for part in parts]
    checks, wrong = physics.judged(result["workload"], parts)
    if checks:
        result.setdefault("checks", []).extend(checks)
    result["failures"] += wrong
    result["flags"] += physics.flags(checks)


def _add_counters(result: Result, meta: Meta) -> None:
    """The host's counters beside the engine, the processor's cost of an I/O, and whether the device saw what the engine claims."""
    counted = dict(meta.get("counters", {}))
    cpu = counted.pop("cpu", {})
    if cpu:
        total: Any = result.get("total", {})
        cost = cpu_cost(cpu, counted["interval_s"], total.get("iops"), cpu.get("mhz"))
        result["cpu"] = {**result.get("cpu", {}), **cpu, **cost}
        if cpu.get("host_steal_percent", 0) > STEAL_PERCENT:
            result["flags"].append("steal")
    if counted:
        result["counters"] = counted
    if "device_seen" in meta and "total" in result:
        check = device_check(result, meta["device_seen"])
        result.setdefault("checks", []).append(check)
        if not check["ok"]:
            result["flags"].append("device_counters_differ")
        claimed, seen = (
            sum(check[name][key] for name in DIRECTIONS if name in check) for key in ("bytes", "device_bytes_max")
        )
        if seen < DEVICE_LEAST_SHARE * claimed:
            name = result["engine"]["name"]
            message = f"{name} reports {claimed} bytes, but the device has seen at most {seen}: the I/O went elsewhere."
            result["failures"].append(Failure("device_counters_differ", message).as_fault())


def device_check(result: Result, seen: Seen) -> Check:
    """Whether the device counted what the engine reports, direction by direction.

    seen: {least: {read: {ios, bytes}, write: …}, most: {…}, ios_comparable}. The device counts during the ramp too and no one tells it to
    the millisecond when that ended, so what it saw of the measured time is known between two bounds; without a ramp they are one.
    I/Os are compared only where the kernel does not split them. A look at what is on the device may have come on top of what it read.
    """
    check: Check = {"name": "device_counters", "ok": True, "limit_percent": DEVICE_TOLERANCE_PERCENT}
    for name in DIRECTIONS:
        if name not in result:
            continue
        check[name] = {}
        for key in ("bytes", "ios") if seen["ios_comparable"] else ("bytes",):
            value, least, most = result[name][key], seen["least"][name][key], seen["most"][name][key]
            check[name].update({key: value, f"device_{key}_min": least, f"device_{key}_max": most})
            share = DEVICE_TOLERANCE_PERCENT / 100
            others = PROBE[key] if name == "read" else 0
            check["ok"] = check["ok"] and least * (1 - share) - others <= value <= most * (1 + share)
    return check


def generator_percent(iops: float, ceiling_iops: float) -> float:
    """The share of what the generator alone does, both with the same workload."""
    return round(100 * iops / ceiling_iops, 2)


def against_ceiling(results: Mapping[str, Result], host: dict[str, Any]) -> dict[str, Addition]:
    """{point_id: addition} to the results {point_id: result} of one host and run: the checks and flags that need the others or the host.

    'ceiling': no more bytes per second than the host's memory copies (host: hosts/<host>.json with memory_copy_bytes_s) and no more I/O than
    the null engine issued with the same workload; more is a cache, or no data was moved. 'generator': the share of that null engine figure.
    'choice': see choices.check (host: fio_choices).
    """
    best: dict[str, float] = {}
    for result in results.values():
        if result["layer_kind"] == "ceiling" and result["status"] == "measured":
            best[result["workload_id"]] = max(best.get(result["workload_id"], 0), result["total"]["iops"])
    judged = {
        name: _against(
            result, best.get(result["workload_id"]), host.get("memory_copy_bytes_s"), host.get("fio_choices") or {}
        )
        for name, result in results.items()
    }
    return {name: addition for name, addition in judged.items() if addition}


def _against(
    result: Result, ceiling_iops: float | None, copy_bytes_s: float | None, figures: Mapping[str, object]
) -> Addition:
    # The sum of several hosts is not bound by the limit of one.
    if result["layer_kind"] == "ceiling" or "total" not in result or "clients" in result:
        return {}
    iops, bandwidth = result["total"]["iops"], result["total"]["bandwidth_bytes_s"]
    checks: list[Check] = []
    flags: list[str] = []
    limits: Any = without_none({"ceiling_iops": ceiling_iops, "memory_copy_bytes_s": copy_bytes_s})
    if limits:
        faster = bool((ceiling_iops and iops > ceiling_iops) or (copy_bytes_s and bandwidth > copy_bytes_s))
        check: Any = {"name": "ceiling", "ok": not faster, "iops": iops, "bandwidth_bytes_s": bandwidth, **limits}
        checks.append(check)
        flags += ["faster_than_ceiling"] if faster else []
    if ceiling_iops:
        percent = generator_percent(iops, ceiling_iops)
        checks.append(
            {
                "name": "generator",
                "ok": percent <= GENERATOR_PERCENT,
                "share_percent": percent,
                "limit_percent": GENERATOR_PERCENT,
            }
        )
        flags += ["generator_bound"] if percent > GENERATOR_PERCENT else []
    choice = choices.check(result, figures)
    if choice:
        checks.append(choice)
        flags += [] if choice["ok"] else [choices.FLAG]
    return {"checks": checks, "flags": flags, "replaced_flags": list(CEILING_FLAGS)} if checks else {}


def summary(result: Result) -> dict[str, Any]:
    """The result without what only files should carry (histograms, counters, workload): small enough to be a fact."""
    short: dict[str, Any] = {
        key: value for key, value in result.items() if key in SUMMARY_KEYS and value not in (None, [], {})
    }
    if "cpu" in result:
        short["cpu"] = {key: round(result["cpu"][key], 4) for key in SUMMARY_CPU if key in result["cpu"]}
    for name in PARTS:
        part: Any = result.get(name)
        if name in result:
            short[name] = {
                key: round(value) if key.endswith("_ns") else round(value, 1)
                for key, value in part.items()
                if key not in SUMMARY_WITHOUT
            }
    if "steady_state" in result:
        short["steady"] = result["steady_state"]["steady"]
    if "raw" in result:
        short["raw"] = result["raw"]
    return short


def dump(result: Mapping[str, object]) -> str:
    return json.dumps(result, indent=1, sort_keys=True) + "\n"


def load(path: str) -> dict[str, Any]:
    """Read a result.json; Failure 'result_unreadable' when it is not one of this schema."""
    try:
        with open(path, encoding="utf-8") as handle:
            result = json.load(handle)
    except (OSError, ValueError) as error:
        raise Failure(
            "result_unreadable",
            f"{path} cannot be read as a result: {error}.",
            "Measure the point again or remove the file.",
            path=path,
        ) from error
    if not isinstance(result, dict) or result.get("schema") != SCHEMA:
        raise Failure(
            "result_unreadable",
            f"{path} is not a result of schema {SCHEMA}.",
            "Measure the point again or remove the file.",
            path=path,
        )
    return result
