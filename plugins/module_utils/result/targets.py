# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The goals of a testbed, as its owner writes them: 'p99 <= 5 ms at 10k IOPS on guest'.

METRIC <= TIME      mean, p50, p95, p99, p99.9 or p99.99 of the latency, in ns, µs (us), ms or s; 'sync p99' of flushes
IOPS >= NUMBER      a rate; k and M are thousands and millions
MB/s >= NUMBER      a bandwidth, 10^6 bytes per second
at NUMBER IOPS      only where at least so many I/Os per second were done (of a latency)
on LAYER            name or kind of a layer; else the top of the chain
under WORKLOAD      id of a workload; else every workload
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TIMES = {"ns": 1.0, "µs": 1e3, "us": 1e3, "ms": 1e6, "s": 1e9}
FACTORS = {"": 1.0, "k": 1e3, "M": 1e6}
LATENCIES = {
    "mean": "latency_mean_ns",
    "p50": "latency_p50_ns",
    "p95": "latency_p95_ns",
    "p99": "latency_p99_ns",
    "p99.9": "latency_p99_9_ns",
    "p99.99": "latency_p99_99_ns",
}
RATES = {"IOPS": ("iops", 1.0), "MB/s": ("bandwidth_bytes_s", 1e6)}
EXAMPLE = (
    "Write it like 'p99 <= 5 ms at 10k IOPS on guest', 'IOPS >= 20k on initiator' or 'MB/s >= 400 under WORKLOAD'."
)

_NUMBER = r"(\d+(?:\.\d+)?)"
_LATENCY = re.compile(
    rf"(sync )?({'|'.join(re.escape(name) for name in LATENCIES)}) <= {_NUMBER} ?(ns|µs|us|ms|s)(?: at {_NUMBER}([kM]?) IOPS)?"
)
_RATE = re.compile(rf"(IOPS|MB/s) >= {_NUMBER}([kM]?)")
_PLACE = re.compile(r"(?: on (\S+))?(?: under (\S+))?")


@dataclass(frozen=True)
class Target:
    """text: as it was written; metric: of part (read, write, total or sync) of a result; limit: in the metric's unit.

    at_iops: least rate at which it holds, 0 for any.
    """

    text: str
    metric: str
    limit: float
    at_most: bool
    at_iops: float = 0.0
    layer: str | None = None
    workload_id: str | None = None
    part: str = "total"


def parse(value: object) -> Target | None:
    """The target that a text says; None when it says none."""
    text = " ".join(value.split()) if isinstance(value, str) else ""
    match = _LATENCY.match(text) or _RATE.match(text)
    place = _PLACE.fullmatch(text[match.end() :]) if match else None
    if not match or not place:
        return None
    layer, workload = place.groups()
    if match.re is _LATENCY:
        sync, name, number, unit, rate, factor = match.groups()
        at_iops, part = float(rate) * FACTORS[factor] if rate else 0.0, "sync" if sync else "total"
        return Target(text, LATENCIES[name], float(number) * TIMES[unit], True, at_iops, layer, workload, part)
    name, number, factor = match.groups()
    metric, metric_unit = RATES[name]
    return Target(text, metric, float(number) * FACTORS[factor] * metric_unit, False, 0.0, layer, workload)
