# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers of a run that are beside each other: how many times the IOPS of one the other does.

For two layers where the I/O of neither goes through the other, there is not a step, only a ratio. It is the geometric mean over the workloads that both did:
with d the logarithm of the ratio of one workload in one repetition, and n of these of each of W workloads,

    ratio = exp(mean over workloads of the mean d),  error² = s² (1/n_1 + … + 1/n_W) / W²,

where s² is the variance of the d around the mean of their own workload, all workloads together, with (n_1 - 1) + … + (n_W - 1) degrees of freedom. So the
interval, by Student's t, is of these workloads and of the variation of repetitions; that between workloads is reported by the least and the most ratio.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ...module_utils.result.schema import Result
from ..compare.stats import Shift


class Beside(NamedTuple):
    most: str  # the layer that does the more I/Os
    least: str
    ratio: float  # of the IOPS
    between: tuple[float, float] | None  # 95 %; None where no workload was repeated
    by_workload: tuple[float, float]  # the least and the most of the workloads
    workloads: int


def extremes(results: Sequence[Result], names: Sequence[str]) -> Beside | None:
    """The layer with the most IOPS against the one with the least, of these; None when fewer than two did the same workload.

    results: measured ones. Layers that share no workload with the others are left out: the largest group that shares some is taken. With more than two
    layers the interval is of these two as if no others had been measured, so it is left out.
    """
    rates: dict[str, dict[str, dict[int, float]]] = {name: defaultdict(dict) for name in names}
    for result in results:
        iops = (result.get("total") or {}).get("iops")
        if result["layer"] in rates and isinstance(iops, (int, float)) and iops > 0:
            rates[result["layer"]][result["workload_id"]][result["repetition"]] = math.log(iops)
    groups: dict[tuple[str, ...], list[str]] = {}
    for workload in sorted({workload for of_layer in rates.values() for workload in of_layer}):
        groups.setdefault(tuple(name for name in names if workload in rates[name]), []).append(workload)
    together = max(groups, key=lambda group: (len(group), len(groups[group])), default=())
    if len(together) < 2:
        return None
    common = groups[together]
    rates = {name: rates[name] for name in together}
    means = {
        name: statistics.fmean(statistics.fmean(of_layer[workload].values()) for workload in common)
        for name, of_layer in rates.items()
    }
    least, most = min(together, key=lambda name: means[name]), max(reversed(together), key=lambda name: means[name])
    by_workload = [_differences(rates[most][workload], rates[least][workload]) for workload in common]
    middles = [statistics.fmean(differences) for differences in by_workload]
    return Beside(
        most,
        least,
        math.exp(statistics.fmean(middles)),
        _interval(by_workload) if len(together) == 2 else None,
        (math.exp(min(middles)), math.exp(max(middles))),
        len(common),
    )


def _differences(upper: dict[int, float], lower: dict[int, float]) -> list[float]:
    """By repetition; where the sides have none in common, of their means."""
    common = sorted(upper.keys() & lower.keys())
    if common:
        return [upper[repetition] - lower[repetition] for repetition in common]
    return [statistics.fmean(upper.values()) - statistics.fmean(lower.values())]


def _interval(by_workload: list[list[float]]) -> tuple[float, float] | None:
    freedom = sum(len(differences) - 1 for differences in by_workload)
    if not freedom:
        return None
    spread = sum(_squares(differences) for differences in by_workload) / freedom
    error = math.sqrt(spread * sum(1 / len(differences) for differences in by_workload)) / len(by_workload)
    middle = statistics.fmean(statistics.fmean(differences) for differences in by_workload)
    low, high = Shift(middle, error, float(freedom)).interval()
    return math.exp(low), math.exp(high)


def _squares(differences: list[float]) -> float:
    middle = statistics.fmean(differences)
    return sum((difference - middle) ** 2 for difference in differences)
