# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One layer under one workload, all repetitions pooled: the unit that reports show and comparisons judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ...module_utils.result import histogram
from ...module_utils.result.result import DIRECTIONS, PARTS, PERCENTILES
from ...module_utils.result.schema import Figures, Part, Result

MEDIANS = ("iops", "bandwidth_bytes_s")
MEANS = ("latency_mean_ns",)
# The processor time per I/O; layers are compared by the first two.
CPU = ("us_per_io", "mhz_per_iops", "vm_mhz_per_iops", "host_busy_percent", "busiest_core_percent")
# Where the hypervisor says a command spends its time: gavg (as the guest sees it) = kavg (kernel) + davg (device); qavg is the queue's part of kavg.
ESXI = ("gavg_ns", "kavg_ns", "davg_ns", "qavg_ns")


@dataclass(frozen=True)
class Figure:
    """One metric of one layer under one workload; low and high are the extremes of the repetitions."""

    __slots__ = ("high", "low", "value")  # a report has some fifty thousand

    value: float
    low: float
    high: float


@dataclass
class Cell:
    """One layer under one workload, all repetitions."""

    layer: str
    kind: str
    host: str
    workload_id: str
    engine: str
    ioengine: str
    repetitions: int
    figures: dict[str, dict[str, Figure]]  # direction -> metric -> Figure
    bounds: dict[
        str, dict[str, tuple[float, float]]
    ]  # direction -> metric -> (lower, upper) of the percentiles that no histogram tells
    bins: histogram.Packed  # of all repetitions and directions; empty when one of them has none
    points: list[str]
    flags: list[str] = field(default_factory=list)
    cpu: dict[str, Figure] = field(default_factory=dict)  # metric of CPU -> Figure, on the host that issues the I/O
    others: dict[str, dict[str, Figure]] = field(default_factory=dict)  # other host -> metric of CPU -> Figure
    esxi: dict[str, Figure] = field(default_factory=dict)  # metric of ESXI -> Figure
    esxi_below: list[str] = field(
        default_factory=list
    )  # metrics of ESXI that are below what the hypervisor's counter can tell
    esxi_simulated: bool = False
    shown: str = ""  # the point nearest the median rate, whose samples stand for all

    def figure(self, metric: str, direction: str = "total") -> Figure | None:
        return self.figures.get(direction, {}).get(metric)

    def between(self, metric: str, direction: str = "total") -> tuple[float, float] | None:
        return self.bounds.get(direction, {}).get(metric)

    def value(self, metric: str, direction: str = "total") -> float | None:
        figure = self.figure(metric, direction)
        return figure.value if figure else None


def is_measured(result: Result) -> bool:
    return result["status"] == "measured" and bool(result.get("total") or directions_of(result))


def by_time(results: list[Result]) -> list[Result]:
    return sorted(results, key=lambda result: (str(result.get("started_utc") or ""), result["point_id"]))


def directions_of(result: Mapping[str, object]) -> dict[Part, Figures]:
    """The measured directions, with 'total' always among it: a run in one direction is its own total."""
    parts: Any = {name: part for name in PARTS if (part := result.get(name))}
    if "total" not in parts:
        own = [parts[name] for name in DIRECTIONS if name in parts]
        if len(own) != 1:
            return {}
        parts["total"] = own[0]
    return cast("dict[Part, Figures]", parts)


def pool(results: list[Result]) -> Cell:
    """All repetitions of one layer and workload as one cell.

    Rates: the median. Mean latency: weighted by the number of I/Os. Percentiles: from the merged histograms, never an
    average of percentiles; without histograms a single repetition speaks for itself, and of several is known between which bounds theirs lies.
    """
    first, taken = results[0], [directions_of(result) for result in results]
    figures: dict[str, dict[str, Figure]] = {}
    bounds: dict[str, dict[str, tuple[float, float]]] = {}
    bins: dict[Part, histogram.Packed] = {}
    for direction in PARTS:
        parts: list[Any] = [part[direction] for part in taken if direction in part]
        if not parts:
            continue
        if itself := next((known for known in bins if _are(parts, taken, known)), None):
            # Reads alone are their own total, in memory too.
            figures[direction], bins[direction] = dict(figures[itself]), bins[itself]
            if itself in bounds:
                bounds[direction] = dict(bounds[itself])
            continue
        figures[direction] = own = {
            metric: figure for metric in MEDIANS if (figure := _median(part.get(metric) for part in parts))
        }
        for metric in MEANS:
            pairs = [(part[metric], part.get("ios") or 0) for part in parts if part.get(metric) is not None]
            weight = sum(ios for _value, ios in pairs)
            if pairs and (weight or len(pairs) == 1):
                mean = sum(value * ios for value, ios in pairs) / weight if weight else pairs[0][0]
                own[metric] = Figure(mean, min(value for value, _ios in pairs), max(value for value, _ios in pairs))
        # Reads alone are their own total: what was merged once need not be merged again.
        same = next((known for known in bins if parts == [part.get(known) for part in taken]), None)
        bins[direction] = bins[same] if same else _merged(parts)
        merged = histogram.percentiles(bins[direction], PERCENTILES)
        for percent, metric in PERCENTILES.items():
            values = [part[metric] for part in parts if part.get(metric) is not None]
            value = merged[percent] if merged[percent] is not None or len(parts) > 1 else parts[0].get(metric)
            if value is not None and values:
                own[metric] = Figure(value, min(values), max(values))
            elif limits := bounds_of(parts, metric):
                bounds.setdefault(direction, {})[metric] = limits
    engine = first.get("engine") or {}
    flags = list(dict.fromkeys(flag for result in results for flag in result.get("flags") or []))
    if len(results) > 1 and not bins["total"]:
        flags.append("percentiles_not_mergeable")
    return Cell(
        layer=first["layer"],
        kind=first["layer_kind"],
        host=first["host"],
        workload_id=first["workload_id"],
        engine=" ".join(str(engine[key]) for key in ("name", "version") if engine.get(key)),
        ioengine=" + ".join(sorted({_issuer(result.get("engine") or {}) for result in results})),
        repetitions=len(results),
        figures=figures,
        bounds=bounds,
        bins=bins["total"],
        points=[result["point_id"] for result in results],
        flags=flags,
        cpu=_medians([result.get("cpu") for result in results], CPU),
        others=_others(results),
        **_esxi(results),
        shown=_nearest_median(results, taken),
    )


def _are(parts: list[object], taken: list[dict[Part, Figures]], direction: Part) -> bool:
    """Whether these are the very figures of that direction."""
    return len(parts) == len(taken) and all(part is of.get(direction) for part, of in zip(parts, taken))


def _issuer(engine: Mapping[str, object]) -> str:
    """The issuer of the I/O: fio has several ways to, others are their own."""
    return str(engine.get("ioengine") or (engine.get("name") if engine.get("name") != "fio" else None) or "?")


def bounds_of(parts: Sequence[Mapping[str, object]], metric: str) -> tuple[float, float] | None:
    """(lower, upper): the percentile of all I/Os is between the least and the greatest of the parts', whose own may be known between bounds only."""
    stem = metric.removesuffix("_ns")
    lower, upper = ([part.get(metric, part.get(f"{stem}_{edge}_ns")) for part in parts] for edge in ("lower", "upper"))
    least, most = ([value for value in values if isinstance(value, (int, float))] for values in (lower, upper))
    return (min(least), max(most)) if len(least) == len(most) == len(parts) else None


def _median(values: Iterable[object]) -> Figure | None:
    if not (known := [value for value in values if isinstance(value, (int, float))]):
        return None
    middle, ordered = len(known) // 2, sorted(known)
    # As statistics.median, whose call takes longer than its work.
    median = ordered[middle] if len(known) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return Figure(median, min(known), max(known))


def _medians(parts: Iterable[Mapping[str, object] | None], metrics: tuple[str, ...]) -> dict[str, Figure]:
    """metric -> Figure over the repetitions, of what at least one of them has."""
    known = [part for part in parts if isinstance(part, dict)]
    return {metric: figure for metric in metrics if (figure := _median(part.get(metric) for part in known))}


def _esxi(results: list[Result]) -> dict[str, Any]:
    """The counters of an ESXi host, as fields of Cell."""
    parts = [part for result in results if isinstance(part := (result.get("counters") or {}).get("esxi"), dict)]
    figures = _medians(parts, ESXI)
    below = [
        metric
        for metric in ESXI
        if metric not in figures and any(metric in str(part.get("below_resolution")) for part in parts)
    ]
    return {"esxi": figures, "esxi_below": below, "esxi_simulated": any(part.get("simulated") for part in parts)}


def _others(results: list[Result]) -> dict[str, dict[str, Figure]]:
    """other host -> metric of CPU -> Figure, from the counters there at that time; a simulated host says so in its name."""
    seen = [(result.get("counters") or {}).get("hosts") or {} for result in results]
    figures_by_host = {}
    for host in sorted({str(host) for part in seen for host in part}):
        parts = [part.get(host) or {} for part in seen]
        figures = _medians([part.get("cpu") for part in parts], CPU)
        if figures:
            figures_by_host[f"{host} (simulated)" if any(part.get("simulated") for part in parts) else host] = figures
    return figures_by_host


def _nearest_median(results: list[Result], taken: list[dict[Part, Figures]]) -> str:
    """The point whose rate is the median of the repetitions (the lower of the two middle ones)."""
    order = sorted(
        range(len(results)), key=lambda index: (taken[index]["total"].get("iops") or 0, results[index]["point_id"])
    )
    point_id: str = results[order[(len(order) - 1) // 2]]["point_id"]
    return point_id


def _merged(parts: list[Figures]) -> histogram.Packed:
    """The histograms of all parts as one, or nothing when one of them has none: half a histogram would be a wrong one.

    Parts may share one that load.py has added up. It holds ``points`` parts, and is of no use to fewer.
    """
    shared: dict[int, Any] = {id(packed): packed for part in parts if (packed := part.get("histogram"))}
    histograms = shared.values()
    if sum(packed.get("points", 1) for packed in histograms) != len(parts) or not all(
        packed.get("bins") for packed in histograms
    ):
        return histogram.Packed({})
    bins = [packed["bins"] for packed in histograms]
    if len(bins) == 1:
        return bins[0] if isinstance(bins[0], histogram.Packed) else histogram.Packed(bins[0])
    total: dict[str, Any] = {}
    for counts in bins:
        histogram.add(total, counts)
    return histogram.Packed(total)
