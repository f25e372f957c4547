# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pairs of a comparison: the metrics, which results are one point, and which points of the two sides belong together."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...module_utils.core.failure import bad_value
from ...module_utils.core.layers import KINDS
from ...module_utils.result.derived import BEYOND, supported
from ...module_utils.result.result import PERCENTILES
from ...module_utils.result.schema import Result
from .nouns import Group, Groups, Repetition
from .timeline import run_of

# With three a side no relabelling can reach 5 %: the best p is 0.1.
LEAST_REPETITIONS = 4
# The keys that distinguish points, and how a selector names it.
SELECTORS = {"layer": "layer", "workload_id": "workload", "variant": "variant"}
FIELDS = tuple(SELECTORS)
IDENTITY = ("engine", "I/O engine", "target", "size")


@dataclass(frozen=True)
class Metric:
    """One figure of a result: where it stands, and which way is good.

    floor: added to both sides of a ratio, for a figure that may be 0. quiet: where all values are this one, the figure is left out.
    """

    name: str
    path: tuple[str, ...]
    higher_is_better: bool
    floor: float = 0.0
    quiet: float | None = None


def _of_total(name: str, higher: bool) -> Metric:
    return Metric(name, ("total", name), higher)


KNOWN = {
    metric.name: metric
    for metric in (
        _of_total("iops", True),
        _of_total("bandwidth_bytes_s", True),
        _of_total("latency_mean_ns", False),
        _of_total("latency_p50_ns", False),
        _of_total("latency_p95_ns", False),
        _of_total("latency_p99_ns", False),
        _of_total("latency_p99_9_ns", False),
        _of_total("latency_p99_99_ns", False),
        *(Metric(f"sync.{name}", ("sync", name), False) for name in ("latency_mean_ns", *PERCENTILES.values())),
        Metric("us_per_io", ("cpu", "us_per_io"), False),
        Metric("mhz_per_iops", ("cpu", "mhz_per_iops"), False),
        Metric("running_percent", ("stall", "running_percent"), True, quiet=100.0),
        Metric("stall_longest_s", ("stall", "longest_s"), False, floor=0.1, quiet=0.0),
        # The playbook failover measures these.
        Metric("event_stalled_s", ("event", "stalled_s"), False, floor=0.1),
        Metric("event_error_s", ("event", "error_s"), True),
        Metric("event_recovered_s", ("event", "recovered_s"), False, floor=0.1),
        Metric("event_missing_ios", ("event", "missing_ios"), False, floor=1.0),
        Metric("event_failed_ios", ("event", "failed_ios"), False, floor=1.0, quiet=0.0),
        Metric("tpm", ("tpm",), True),
        Metric("nopm", ("nopm",), True),
    )
}
# p99.99 needs more I/Os than a short repetition has; whoever wants it names it.
DEFAULT = (
    "iops",
    "bandwidth_bytes_s",
    "latency_mean_ns",
    "latency_p50_ns",
    "latency_p99_ns",
    "latency_p99_9_ns",
    "sync.latency_mean_ns",
    "sync.latency_p99_ns",
    "us_per_io",
    "mhz_per_iops",
    "running_percent",
    "stall_longest_s",
    "event_stalled_s",
    "event_recovered_s",
    "event_missing_ios",
    "event_failed_ios",
    "tpm",
    "nopm",
)


def wanted_metrics(given: list[str] | None) -> list[Metric]:
    """[Metric] of 'iops', 'write.latency_p99_ns' or 'database.orders_s higher'."""
    metrics = []
    for text in given or DEFAULT:
        match = re.fullmatch(r"([A-Za-z_]\w*(?:\.\w+)*)(?: (higher|lower))?", text) if isinstance(text, str) else None
        if not match:
            raise bad_value(
                "metrics",
                text,
                "Write the name of a metric, or the dotted place of one in a result and higher or lower for what is good.",
            )
        name, better = match.groups()
        part, _dot, last = name.partition(".")
        if better:
            metrics.append(Metric(name, tuple(name.split(".")), better == "higher"))
        elif name in KNOWN:
            metrics.append(KNOWN[name])
        elif part in ("read", "write", "total") and last in KNOWN and KNOWN[last].path[0] == "total":
            metrics.append(Metric(name, (part, last), KNOWN[last].higher_is_better))
        else:
            raise bad_value(
                "metrics", text, f"Add higher or lower for what is better, or use one of {', '.join(KNOWN)}."
            )
    return metrics


def select(results: list[Result], selector: Mapping[str, object], side: str) -> list[Result]:
    """Results of the layer, variant and workload that a selector names; a name that none of them has is a Failure."""
    for key, field in SELECTORS.items():
        wanted = selector.get(field)
        if wanted is None:
            continue
        known = sorted({field_of(result, key) for result in results} - {""})
        results = [result for result in results if field_of(result, key) == wanted]
        if not results:
            raise bad_value(
                f"{side}.{field}", wanted, f"Name one of: {', '.join(known)}." if known else f"The run has no {field}s."
            )
    return results


def field_of(result: Mapping[str, object], key: str) -> str:
    return str(result.get(key) or "")


def mapping(value: object) -> dict[str, object]:
    """A value that should be a mapping in a file that anybody may have written."""
    return value if isinstance(value, dict) else {}


def checked(results: object, side: str) -> None:
    if not isinstance(results, list) or not results:
        raise bad_value(side, results, "Give a list of results that is not empty.")
    for result in results:
        missing = [
            key for key in ("layer", "workload_id", "repetition") if not isinstance(result, dict) or key not in result
        ]
        if missing:
            raise bad_value(
                side,
                name_of(result) if isinstance(result, dict) else result,
                f"It is not a result: it lacks {', '.join(missing)}.",
            )
        if not isinstance(result["repetition"], int) or isinstance(result["repetition"], bool):
            raise bad_value(
                side, name_of(result), f"Its repetition is {result['repetition']!r}; use 1, 2, 3 and so on."
            )


def name_of(result: Mapping[str, object]) -> str:
    return str(
        result.get("point_id") or f"{result.get('layer')}.{result.get('workload_id')}.r{result.get('repetition')}"
    )


def reason_of(result: Result) -> str:
    words = [
        failure.get("message") or failure.get("code")
        for failure in result.get("failures") or []
        if isinstance(failure, dict)
    ]
    return " ".join(map(str, words)) or "no reason was recorded"


def groups_of(results: list[Result], matched_by: list[str], side: str) -> Groups:
    """{what a point is matched by: {repetition: result}} of what was measured; with several runs per side {(run, repetition): result}.

    Repetitions are of one thing: results of several engines, targets or sizes under one name are a Failure, never pooled.
    """
    groups: Groups = {}
    several = len({run_of(result) for result in results}) > 1
    for result in results:
        if result.get("status", "measured") != "measured":
            continue
        repetitions = groups.setdefault(tuple(field_of(result, field) for field in matched_by), {})
        number: Repetition = (run_of(result), result["repetition"]) if several else result["repetition"]
        if number in repetitions:
            raise bad_value(
                side,
                name_of(result),
                f"Repetition {result['repetition']} of this point is there twice; list each run once, with one variant per side.",
            )
        first = next(iter(repetitions.values()), result)
        for what, ours, theirs in zip(IDENTITY, identity_of(first), identity_of(result)):
            if ours != theirs:
                raise bad_value(
                    side,
                    name_of(result),
                    f"Its {what} is {theirs or 'not recorded'}, that of {name_of(first)} {ours or 'not recorded'}, so they are not "
                    "repetitions of one point; name one variant or layer per side, or import the files again.",
                )
        repetitions[number] = result
    return groups


def identity_of(result: Mapping[str, object]) -> tuple[str, ...]:
    """The keys that repetitions of a point must share beside its name, as text, in the order of IDENTITY."""
    engine = mapping(result.get("engine"))
    parts = (engine.get("name"), engine.get("ioengine"), result.get("targets"), result.get("working_set"))
    return tuple(
        json.dumps(part, sort_keys=True, default=str) if isinstance(part, (dict, list)) else str(part or "")
        for part in parts
    )


def order_of(group: Group) -> tuple[object, ...]:
    first = next(iter(group.values()))
    kind, size_bytes = first.get("layer_kind"), mapping(first.get("workload")).get("block_size_bytes")
    return (
        KINDS.index(kind) if kind in KINDS else len(KINDS),
        field_of(first, "layer"),
        size_bytes if isinstance(size_bytes, int) else 0,
        field_of(first, "workload_id"),
        field_of(first, "variant"),
    )


def label(group: Group, other: Group | None = None) -> str:
    """'initiator-bench 4k-r70-rnd100-qd8-w1', and 'a → b' for a field that is compared."""
    ours = next(iter(group.values()))
    theirs = next(iter((other or group).values()))
    return " ".join(text for field in FIELDS if (text := either(field_of(ours, field), field_of(theirs, field))))


def either(ours: str, theirs: str) -> str:
    return ours if ours == theirs else f"{ours or 'none'} → {theirs or 'none'}"


def some_of(groups: Groups) -> str:
    names = sorted(label(group) for group in groups.values())
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") or "none"


def value_of(result: Mapping[str, object], metric: Metric) -> float | None:
    place: Any = result
    for part in metric.path:
        if part == "total" and "total" not in place:
            # A summary of a run in one direction may leave its total out.
            parts = [place[name] for name in ("read", "write") if place.get(name)]
            place = parts[0] if len(parts) == 1 else {}
        else:
            place = place.get(part) if isinstance(place, dict) else None
    return place if isinstance(place, (int, float)) and not isinstance(place, bool) and math.isfinite(place) else None


def thin(group: Group, metric: Metric) -> str | None:
    """Why a percentile of these repetitions is not known: too few I/Os are beyond it. None where it is, and of other metrics."""
    percent = next((percent for percent, name in PERCENTILES.items() if name == metric.path[-1]), None)
    counts = [value_of(result, replace(metric, path=(*metric.path[:-1], "ios"))) for result in group.values()]
    known = [count for count in counts if count is not None]
    if percent is None or len(known) < len(counts) or supported(sum(known), percent):
        return None
    what = "flushes" if metric.path[0] == "sync" else "I/Os"
    return f"{sum(known):.0f} {what}, too few for p{percent:g}: {BEYOND} have to be beyond it"


def place_of(result: Mapping[str, object], compared: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(field_of(result, field) for field in FIELDS if field not in compared)
