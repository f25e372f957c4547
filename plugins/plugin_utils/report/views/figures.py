# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published figures of a run's profiles, and which measured workload is beside each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...store.cells import Cell
from ..nouns import Report, Waterfall
from .base import without
from .load import LOADS, amount

# As the profiles name them: the metric here, and what one of the unit is in the metric's own.
PUBLISHED_METRICS = {
    "iops": "iops",
    "bandwidth": "bandwidth_bytes_s",
    "latency_mean": "latency_mean_ns",
    "latency_p99": "latency_p99_ns",
    "sync_latency_mean": "sync.latency_mean_ns",
    "sync_latency_p50": "sync.latency_p50_ns",
    "sync_latency_p95": "sync.latency_p95_ns",
    "sync_latency_p99": "sync.latency_p99_ns",
    "sync_latency_p99_9": "sync.latency_p99_9_ns",
}
FLUSHES = {
    f"sync.latency_{name}_ns": words
    for name, words in (("mean", "mean"), ("p50", "p50"), ("p95", "p95"), ("p99", "p99"), ("p99_9", "p99.9"))
}
UNITS = {
    "IOPS": 1,
    "B/s": 1,
    "kB/s": 1e3,
    "MB/s": 1e6,
    "GB/s": 1e9,
    "KiB/s": 1024,
    "MiB/s": 1 << 20,
    "GiB/s": 1 << 30,
    "ns": 1,
    "µs": 1e3,
    "us": 1e3,
    "ms": 1e6,
    "s": 1e9,
}


def profiles(report: Report) -> list[dict[str, Any]]:
    """The profiles that the run was asked for, each once."""
    requests = [
        report.record,
        *(request for request in report.record.get("requests") or [] if isinstance(request, dict)),
    ]
    named = {
        str(request["profile"].get("name")): request["profile"]
        for request in requests
        if isinstance(request.get("profile"), dict)
    }
    return list(named.values())


LIMITS = {"at_most": "at most", "at_least": "at least"}


def limited(figure: Mapping[str, object]) -> str:
    """'80000', and of a limit 'at most 10'."""
    return f"{LIMITS.get(str(figure.get('limit')), '')} {figure.get('value')}".strip()


def value_of(measured: Cell, metric: str) -> float | None:
    """The value of 'latency_p99_ns', or of 'sync.latency_p99_ns'."""
    part, _dot, name = metric.rpartition(".")
    return measured.value(name, part or "total")


def figures_of(report: Report) -> list[dict[str, Any]]:
    """The published figures of the run's profiles."""
    return [
        figure for profile in profiles(report) for figure in profile.get("published") or [] if isinstance(figure, dict)
    ]


def of_workload(figure: Mapping[str, object], waterfall: Waterfall) -> bool:
    """Whether a published figure is of this workload."""
    of = figure.get("workload") or {}
    return isinstance(of, dict) and all(waterfall.workload.get(key) == value for key, value in of.items())


def measured_for(figure: Mapping[str, object], report: Report) -> list[tuple[str, dict[str, Any]]]:
    """[(the words of its workload beside the figure, {layer: Cell})] of the results beside a published figure: of the workload that its
    profile asked for, or of the most that a search of it found.

    Where workloads differ in nothing but their load, which few publish, each of them has its place: ("queue depth 8", …). Empty where several would do
    that differ in more: none of them is the one that was published.
    """
    mine = [waterfall for waterfall in report.waterfalls if of_workload(figure, waterfall)]
    requests = [
        request
        for request in (report.record, *(report.record.get("requests") or []))
        if isinstance(request, dict) and figure in ((request.get("profile") or {}).get("published") or [])
    ]
    keys = {(request.get("search") or {}).get("key") for request in requests}
    wanted = [(workload, key) for request in requests for workload in request.get("workloads") or [] for key in keys]
    if wanted:
        mine = [
            waterfall
            for waterfall in mine
            if any(without(waterfall.workload, key) == without(own, key) for own, key in wanted)
        ]
    if len(mine) == 1 or keys - {None}:
        return [("", _most(mine))]
    for key, label in LOADS if wanted else ():
        if len({str(without(waterfall.workload, key)) for waterfall in mine}) == 1:
            ordered = sorted(mine, key=lambda waterfall: amount(waterfall.workload, key))
            return [(label.format(waterfall.workload.get(key)), _most([waterfall])) for waterfall in ordered]
    return []


def _most(waterfalls: list[Waterfall]) -> dict[str, object]:
    """layer -> its Cell with the most IOPS."""
    cells: dict[str, Any] = {}
    for step in (step for waterfall in waterfalls for step in waterfall.steps):
        known = cells.get(step.cell.layer)
        if known is None or (step.cell.value("iops") or 0) > (known.value("iops") or 0):
            cells[step.cell.layer] = step.cell
    return cells
