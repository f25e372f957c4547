# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of plain values and figures in words, which every form of a report shares."""

from __future__ import annotations

from typing import Any

from ...module_utils.core import units
from ...module_utils.result.result import PERCENTILES
from ..store.cells import Cell
from . import views
from .markup import added_between
from .nouns import Report, Step, Waterfall


def summary(report: Report) -> list[dict[str, object]]:
    """One row per layer and workload, plain values; what was not measured is absent."""
    return [row(step) for waterfall in report.waterfalls for step in waterfall.steps]


def row(step: Step) -> dict[str, object]:
    cell = step.cell
    known = {
        "workload_id": cell.workload_id,
        "layer": cell.layer,
        "layer_kind": cell.kind,
        "host": cell.host,
        "ioengine": cell.ioengine,
        "repetitions": cell.repetitions,
        **{
            metric: cell.value(metric)
            for metric in ("iops", "bandwidth_bytes_s", "latency_mean_ns", *PERCENTILES.values())
        },
        **{
            f"{metric.removesuffix('_ns')}_{edge}_ns": value
            for metric, limits in cell.bounds.get("total", {}).items()
            for edge, value in zip(("lower", "upper"), limits)
        },
        "below": step.below.layer if step.below else None,
        "relation": step.relation,
        "comparable": step.comparable if step.below else None,
        "overlap": step.overlap if step.below and step.comparable else None,
        "added_mean_ns": step.added_mean_ns,
        "added_mean_between_ns": step.added_between_ns,
        "latency_ratio": step.latency_ratio,
        "iops_ratio": step.iops_ratio,
        "share": step.share,
    }
    return {key: value for key, value in known.items() if value is not None}


def latency(cell: Cell, metric: str) -> str:
    """A latency in words; for a percentile without a histogram, the bounds around it."""
    return units.latency_between(cell.between(metric)) if cell.between(metric) else units.latency(cell.value(metric))


def not_measured(waterfall: Waterfall) -> list[str]:
    """'backing-ds1, initiator-ds1: it holds data …', one line a reason."""
    reasons: dict[str, Any] = {}
    for entry in waterfall.missing:
        reasons.setdefault(entry["reason"], []).append(entry["layer"])
    return [f"{', '.join(layers)}: {reason}" for reason, layers in reasons.items()]


def flushes(report: Report, waterfall: Waterfall, choices: views.base.Choices) -> list[str]:
    """'guest-guest01, flushes: mean 1.2 ms, p99 5.5 ms', one line per layer, and what was published of them."""
    flushed = views.flushes.table(waterfall, report, choices)
    names = [name for name, _number in flushed.head[1:]] if flushed else []
    return [
        f"{first}, flushes: "
        + ", ".join(f"{name} {field.text}" for name, field in zip(names, fields) if field.value is not None)
        for _css, first, fields in (flushed.rows if flushed else ())
    ]


def takes_away(step: Step) -> str:
    """'+1.21 ms (95 %: +1.10 ms to +1.32 ms), IOPS 0.31× of target-bench'."""
    if step.below is None:
        return units.ABSENT
    if not step.comparable:
        return f"not comparable, IOPS {units.ratio(step.iops_ratio)} of {step.below.layer}"
    return f"{units.added_latency(step.added_mean_ns)}{added_between(step)}, IOPS {units.ratio(step.iops_ratio)} of {step.below.layer}"
