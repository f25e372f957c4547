# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Searches: what to measure next, decided from what has been measured and nothing else.

So a search that was interrupted goes on where it was: the stored results lead to the same decisions again.

    max_iops      the most I/Os per second, whatever they wait (doubling, until more load brings nothing)
    max_iops_at   the greatest load at which a latency stays within a limit (doubling, then bisection)
    knee          the load at which more load begins to cost more latency than it brings I/O
    rate_ladder   the peak, then fixed rates at shares of it with Poisson arrival: an open loop, in which a stall is not hidden

A *load* is the value of the one workload key that the search varies. A *step* is what is known of one load, all its repetitions
taken as one: counts added, histograms merged, rates weighted by time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, cast

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.result.derived import power
from ...module_utils.result.result import PERCENTILES, merge_directions
from ...module_utils.result.schema import Result
from ...module_utils.workload import words
from ...module_utils.workload.workload import Workload, normalise, workload_id
from .certainty import certainty

LOADS = tuple(words.loads())
METRICS = ("latency_mean_ns", *PERCENTILES.values())
LIMITS = {"limit_ns": 1, "limit_us": 1_000, "limit_ms": 1_000_000}
# An open loop that brings less than this share of its rate did not have the load it is named after.
REACHED_SHARE = 0.95
# So many doublings in a row without more I/O end the search for the most: one alone may be chance.
IN_VAIN = 2
# As argument specs have them; one of the four is given.
OPTIONS: dict[str, Any] = {
    "max_iops": {
        "type": "dict",
        "options": {
            "key": {"type": "str", "choices": ["queue_depth", "workers"], "default": "queue_depth"},
            "low": {"type": "int", "default": 1},
            "high": {"type": "int", "default": 256},
            "precision_percent": {"type": "float", "default": 5},
        },
    },
    "max_iops_at": {
        "type": "dict",
        "options": {
            "limit_ms": {"type": "float"},
            "limit_us": {"type": "float"},
            "limit_ns": {"type": "float"},
            "metric": {"type": "str", "choices": list(METRICS), "default": "latency_p99_ns"},
            "key": {"type": "str", "choices": list(LOADS), "default": "queue_depth"},
            "low": {"type": "int", "default": 1},
            "high": {"type": "int", "default": 256},
            "precision_percent": {"type": "float", "default": 5},
        },
    },
    "knee": {
        "type": "dict",
        "options": {
            "values": {"type": "list", "elements": "int", "required": True},
            "key": {"type": "str", "choices": list(LOADS), "default": "queue_depth"},
            "refine": {"type": "int", "default": 3},
        },
    },
    "rate_ladder": {
        "type": "dict",
        "options": {"percents": {"type": "list", "elements": "float", "default": [20, 40, 60, 80, 90, 95]}},
    },
}


class Search(TypedDict, total=False):
    """A complete search: its kind, and the options of that kind (OPTIONS), a limit in ns."""

    kind: str
    key: str
    low: int
    high: int
    precision_percent: float
    metric: str
    limit_ns: float
    values: list[int]
    refine: int
    percents: list[float]


# By workload_id the results of its repetitions on one layer.
Measured = dict[str, list[Result]]


# ---------------------------------------------------------------- what is asked for


def validate(search: object) -> Search:
    """The complete search, {kind, …}; Failure 'bad_value' names what is wrong. A validated search validates to itself."""
    if isinstance(search, dict) and search.get("kind") in OPTIONS:
        search = {search["kind"]: {key: value for key, value in search.items() if key != "kind"}}
    given = {key: value for key, value in search.items() if value is not None} if isinstance(search, dict) else {}
    if len(given) != 1 or next(iter(given)) not in OPTIONS:
        raise bad_value("search", search, f"Give a mapping of one of {', '.join(OPTIONS)}.")
    kind, options = next(iter(given.items()))
    known = OPTIONS[kind]["options"]
    if not isinstance(options, dict):
        raise bad_value(f"search.{kind}", options, f"Give a mapping of {', '.join(known)}.")
    for key in options:
        if key not in known:
            raise bad_value(f"search.{kind}.{key}", options[key], f"There is no such key; use {', '.join(known)}.")
    defaults = {key: option["default"] for key, option in known.items() if "default" in option}
    options = {**defaults, **{key: value for key, value in options.items() if value is not None}}
    look = {
        "max_iops": _validate_most,
        "max_iops_at": _validate_limit,
        "knee": _validate_knee,
        "rate_ladder": _validate_ladder,
    }[kind]
    return cast(Search, {"kind": kind, **look(options)})


def _validate_most(options: Mapping[str, object]) -> dict[str, object]:
    name = "search.max_iops"
    if options["key"] == "rate_iops":
        raise bad_value(f"{name}.key", "rate_iops", "A requested rate is not a maximum; use queue_depth or workers.")
    _check_key(options["key"], name)
    return {"key": options["key"], **_validate_reach(options, name)}


def _validate_reach(options: Mapping[str, object], name: str) -> dict[str, float]:
    reach = {
        "low": _whole(options["low"], f"{name}.low", 1),
        "high": _whole(options["high"], f"{name}.high", 1),
        "precision_percent": _positive(options["precision_percent"], f"{name}.precision_percent"),
    }
    if reach["low"] >= reach["high"]:
        raise bad_value(f"{name}.high", reach["high"], f"Use more than low, which is {reach['low']}.")
    return reach


def _validate_limit(options: Mapping[str, object]) -> dict[str, object]:
    name = "search.max_iops_at"
    given = [key for key in LIMITS if options.get(key) is not None]
    if len(given) != 1:
        raise bad_value(
            f"{name}.limit_ms", {key: options[key] for key in given}, "Give one of limit_ms, limit_us and limit_ns."
        )
    limit = {
        "metric": options["metric"],
        "key": options["key"],
        "limit_ns": _positive(options[given[0]], f"{name}.{given[0]}") * LIMITS[given[0]],
        **_validate_reach(options, name),
    }
    if limit["metric"] not in METRICS:
        raise bad_value(f"{name}.metric", limit["metric"], f"Use one of {', '.join(METRICS)}.")
    _check_key(limit["key"], name)
    return limit


def _validate_knee(options: Mapping[str, object]) -> dict[str, object]:
    name = "search.knee"
    values = options.get("values")
    if not isinstance(values, list) or len(set(map(str, values))) < 3:
        raise bad_value(f"{name}.values", values, "Give at least three different loads, such as [1, 4, 16, 64].")
    knee = {
        "key": options["key"],
        "values": sorted({_whole(value, f"{name}.values", 1) for value in values}),
        "refine": _whole(options["refine"], f"{name}.refine", 0),
    }
    _check_key(knee["key"], name)
    return knee


def _validate_ladder(options: Mapping[str, object]) -> dict[str, object]:
    name = "search.rate_ladder.percents"
    percents = options["percents"]
    if not isinstance(percents, list) or not percents:
        raise bad_value(name, percents, "Give a list of shares of the peak, such as [20, 50, 80, 95].")
    rates = sorted({_positive(value, name) for value in percents})
    if rates[-1] > 100:
        raise bad_value(name, percents, "Use shares of at most 100.")
    return {"percents": rates}


def _check_key(key: object, name: str) -> None:
    if key not in LOADS:
        raise bad_value(f"{name}.key", key, f"Use one of {', '.join(LOADS)}.")


def _whole(value: object, variable: str, least: int) -> int:
    value = int(value) if isinstance(value, str) and value.isdigit() else value
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise bad_value(variable, value, f"Use a whole number of at least {least}.")
    return value


def _positive(value: object, variable: str) -> float:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            pass  # refused below, with what was given
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise bad_value(variable, value, "Use a number above 0.")
    return value


# ---------------------------------------------------------------- what to measure


def wanted(search: Search, base: Workload, repetitions: int, measured: Measured) -> list[tuple[Workload, int]]:
    """[(workload, repetitions)] to have, given what there is: when all of it is there, the search has ended.

    base: the normalised workload that is varied. measured: {workload_id: [results]}.
    """
    loads = {
        "max_iops": _wanted_most,
        "max_iops_at": _wanted_limit,
        "knee": _wanted_knee,
        "rate_ladder": _wanted_ladder,
    }[search["kind"]](search, base, repetitions, measured)
    return [(at_load(search, base, load), count) for load, count in loads]


def at_load(search: Search, base: Workload, load: float | None) -> Workload:
    """The workload at one load. The load None of a ladder is its peak: as fast as it goes."""
    if search["kind"] == "rate_ladder":
        return base if load is None else normalise({**base, "rate_iops": load, "rate_process": "poisson"})
    return normalise({**base, search["key"]: load})


def most_points(search: Search, repetitions: int) -> int:
    """How many points a search of one workload on one layer may take, unless the device contradicts itself."""
    if search["kind"] == "knee":
        return repetitions * (len(search["values"]) + int(search["refine"]))
    if search["kind"] == "rate_ladder":
        return repetitions * (1 + len(search["percents"]))
    if search["kind"] == "max_iops":
        return repetitions * len(_doubled(search))
    doublings: int = (search["high"] // search["low"]).bit_length() + 1
    # The last doubling leaves at most half of `high` to be halved, until the precision is reached or nothing is between.
    halvings: int = min((search["high"] // 2).bit_length(), int(100 / search["precision_percent"]).bit_length() + 1)
    return 2 * repetitions * (doublings + halvings)


def _steps(search: Search, base: Workload, loads: Iterable[float | None], measured: Measured) -> list[dict[str, Any]]:
    """The results of these loads, in their order; those without a result are left out."""
    steps = []
    for load in loads:
        results = measured.get(workload_id(at_load(search, base, load)))
        if results:
            steps.append(step(load, results))
    return steps


def _known_loads(search: Search, base: Workload, measured: Measured) -> list[float]:
    """The loads, ascending, of the measured workloads that are the base at another load."""
    loads: set[float] = set()
    for results in measured.values():
        load = dict(results[0]["workload"]).get(search["key"])
        if isinstance(load, (int, float)) and workload_id(at_load(search, base, load)) in measured:
            loads.add(load)
    return sorted(load for load in loads if search["low"] <= load <= search["high"])


def step(load: float | None, results: list[Result]) -> dict[str, object]:
    """All repetitions of one load as one: {load, repetitions, iops, bandwidth_bytes_s, latency_…_ns, points}."""
    merged = merge_directions(
        [result["total"] for result in results],
        concurrent=False,
        runtime_s=sum(result["runtime_s"] for result in results),
    )
    figures = {key: value for key, value in merged.items() if key in ("iops", "bandwidth_bytes_s", *METRICS)}
    return {"load": load, "repetitions": len(results), **figures, "points": [result["point_id"] for result in results]}


# ---------------------------------------------------------------- the most I/Os per second


def _doubled(search: Search) -> list[int]:
    """The loads from low to high, each twice the one before; high is the last."""
    loads = [search["low"]]
    while loads[-1] < search["high"]:
        loads.append(min(search["high"], 2 * loads[-1]))
    return loads


def _wanted_most(
    search: Search, base: Workload, repetitions: int, measured: Measured
) -> list[tuple[float | None, int]]:
    loads: list[tuple[float | None, int]] = []
    most, in_vain = 0.0, 0
    for load in _doubled(search):
        loads.append((load, repetitions))
        known = _steps(search, base, [load], measured)
        if not known:
            break
        in_vain = 0 if known[0]["iops"] > most * (1 + search["precision_percent"] / 100) else in_vain + 1
        most = max(most, known[0]["iops"])
        if in_vain == IN_VAIN:
            break
    return loads


# ---------------------------------------------------------------- the greatest load within a limit


def _wanted_limit(
    search: Search, base: Workload, repetitions: int, measured: Measured
) -> list[tuple[float | None, int]]:
    known = _judged(search, base, measured)
    if not known:
        return [(search["low"], repetitions)]
    place = cut(known)
    counts = {entry["load"]: max(repetitions, entry["repetitions"]) for entry in known}
    doubtful = [
        entry["load"]
        for index, entry in enumerate(known)
        if entry["within"] != (index < place) or (entry["disagree"] and index in (place - 1, place))
    ]
    again = [load for load in doubtful if counts[load] < 2 * repetitions]
    if again:
        # Measured as often once more before anything is concluded from it.
        counts.update(dict.fromkeys(again, 2 * repetitions))
    elif place == len(known):
        if known[-1]["load"] < search["high"]:
            counts[min(search["high"], 2 * known[-1]["load"])] = repetitions
    elif place:
        low, high = known[place - 1]["load"], known[place]["load"]
        if high - low > max(1, low * search["precision_percent"] / 100):
            counts[(low + high) // 2] = repetitions
    return sorted(counts.items())


def _judged(search: Search, base: Workload, measured: Measured) -> list[dict[str, Any]]:
    """Every measured load with the verdict on it: the step, `within`, and whether its repetitions `disagree`."""
    judged = []
    for load in _known_loads(search, base, measured):
        results = measured[workload_id(at_load(search, base, load))]
        whole = step(load, results)
        verdicts = {_within(search, step(load, [result])) for result in results}
        judged.append({**whole, "within": _within(search, whole), "disagree": len(verdicts) > 1})
    return judged


def _within(search: Search, step: dict[str, Any]) -> bool:
    if search["metric"] not in step:
        raise Failure(
            "metric_missing",
            f"{step['points'][0]} was measured without {search['metric']}.",
            "Search by a latency that the engine records.",
            point_id=step["points"][0],
            metric=search["metric"],
        )
    return _reached(search, step) and bool(step[search["metric"]] <= search["limit_ns"])


def _reached(search: Search, step: dict[str, Any]) -> bool:
    return search["key"] != "rate_iops" or bool(step["iops"] >= REACHED_SHARE * step["load"])


def cut(known: list[dict[str, Any]]) -> int:
    """How many of the loads, ascending, are below the limit: the place that contradicts the fewest measured repetitions.

    Latency grows with load, but a single measurement may say otherwise. This is the least-deviation fit of a step function to
    verdicts; of equally good places the lowest is taken. The load before it is always within, the one after it never.
    """

    def contradicted(place: int) -> int:
        return sum(entry["repetitions"] for index, entry in enumerate(known) if entry["within"] != (index < place))

    return min(range(len(known) + 1), key=contradicted)


# ---------------------------------------------------------------- the knee


def _wanted_knee(
    search: Search, base: Workload, repetitions: int, measured: Measured
) -> list[tuple[float | None, int]]:
    coarse = _steps(search, base, search["values"], measured)
    loads = list(search["values"])
    if len(coarse) == len(loads):
        loads += _between(search, coarse)
    return [(load, repetitions) for load in sorted(loads)]


def _between(search: Search, coarse: list[dict[str, Any]]) -> list[Any]:
    """Loads between the neighbours of the coarse knee, spread evenly by ratio, without those that are there."""
    loads = [entry["load"] for entry in coarse]
    top = loads.index(max(coarse, key=power)["load"])
    low, high = loads[max(top - 1, 0)], loads[min(top + 1, len(loads) - 1)]
    ratio = (high / low) ** (1 / (search["refine"] + 1))
    return sorted({round(low * ratio**number) for number in range(1, search["refine"] + 1)} - set(loads))


# ---------------------------------------------------------------- the ladder


def _wanted_ladder(
    search: Search, base: Workload, repetitions: int, measured: Measured
) -> list[tuple[float | None, int]]:
    loads: list[float | None] = [None, *_rates(search, base, measured)]
    return [(load, repetitions) for load in loads]


def _rates(search: Search, base: Workload, measured: Measured) -> dict[float, Any]:
    """{rate: percent of the peak}, empty before the peak is known."""
    peak = _steps(search, base, [None], measured)
    return {max(1, round(peak[0]["iops"] * percent / 100)): percent for percent in search["percents"]} if peak else {}


# ---------------------------------------------------------------- the answer


def answer(search: Search, base: Workload, measured: Measured) -> dict[str, object]:
    """{search, outcome, found?, steps} of a search that has ended; ``outcome`` says when there is nothing to be found.

    max_iops: found, at_highest. max_iops_at: found, lowest_breaks_limit, highest_within_limit. knee: found, at_lowest, at_highest. rate_ladder: found.
    """
    return {
        "search": search,
        "workload_id": workload_id(base),
        **{
            "max_iops": _answer_most,
            "max_iops_at": _answer_limit,
            "knee": _answer_knee,
            "rate_ladder": _answer_ladder,
        }[search["kind"]](search, base, measured),
    }


def _answer_most(search: Search, base: Workload, measured: Measured) -> dict[str, Any]:
    steps = _steps(search, base, [load for load, _count in _wanted_most(search, base, 1, measured)], measured)
    best = max(steps, key=lambda entry: entry["iops"])
    return {"outcome": "at_highest" if best["load"] == search["high"] else "found", "found": best, "steps": steps}


def _answer_limit(search: Search, base: Workload, measured: Measured) -> dict[str, object]:
    known = _judged(search, base, measured)
    place = cut(known)
    steps = [{key: value for key, value in entry.items() if key != "disagree"} for entry in known]
    if place == 0:
        return {"outcome": "lowest_breaks_limit", "steps": steps}
    best = steps[place - 1]
    return {
        "outcome": "highest_within_limit" if place == len(known) else "found",
        "found": {**best, **_certainty(search, base, measured, known, best["load"])},
        "steps": steps,
    }


def _certainty(
    search: Search, base: Workload, measured: Measured, known: list[dict[str, Any]], load: float
) -> dict[str, float]:
    """{probability, limit_low, limit_high} of the load, as far as they are known; a load that did not reach its rate has no latency of that rate."""
    latencies = {
        float(entry["load"]): [cast(float, step(entry["load"], [result])[search["metric"]]) for result in results]
        for entry in known
        if _reached(search, entry)
        for results in [measured[workload_id(at_load(search, base, entry["load"]))]]
    }
    sure = certainty(latencies, search["limit_ns"], load)
    if sure is None:
        return {}
    ends = {"limit_low": sure.low, "limit_high": sure.high}
    return {
        "probability": round(sure.probability, 3),
        **{key: float(f"{value:.4g}") for key, value in ends.items() if value is not None},
    }


def _answer_knee(search: Search, base: Workload, measured: Measured) -> dict[str, Any]:
    loads = [load for load, _count in _wanted_knee(search, base, 1, measured)]
    steps = [{**entry, "power": power(entry)} for entry in _steps(search, base, loads, measured)]
    best = max(steps, key=lambda entry: entry["power"])
    outcome = {0: "at_lowest", len(steps) - 1: "at_highest"}.get(steps.index(best), "found")
    return {"outcome": outcome, "found": best, "steps": steps}


def _answer_ladder(search: Search, base: Workload, measured: Measured) -> dict[str, object]:
    rates = _rates(search, base, measured)
    steps = [
        {**entry, "percent": rates[entry["load"]], "reached": entry["iops"] >= REACHED_SHARE * entry["load"]}
        for entry in _steps(search, base, rates, measured)
    ]
    return {"outcome": "found", "found": _steps(search, base, [None], measured)[0], "steps": steps}
