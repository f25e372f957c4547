# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Points that several clients measured together."""

from __future__ import annotations

from typing import Any

from ....module_utils.core import units
from ...store.cells import bounds_of
from ..nouns import Report
from ..tables import Field, Table, bounds, cell, words
from .base import METRICS, Choices

CLIENTS_SHOWN = 240  # beyond that a row per point
CLIENT_METRICS = ("iops", "bandwidth_bytes_s", "latency_mean_ns", "latency_p99_ns")


def of_run(report: Report, choices: Choices) -> dict[str, object] | None:
    """{table, all} of the points that several clients made together: a row per client, or beyond CLIENTS_SHOWN a row per point."""
    shared = [
        (point, [client for client in point["clients"] if isinstance(client, dict)])
        for point in report.points
        if isinstance(point.get("clients"), list)
    ]
    shared = [(point, parts) for point, parts in shared if parts]
    if not shared:
        return None
    everyone = sum(len(parts) for _point, parts in shared) <= CLIENTS_SHOWN
    rows = []
    for point, parts in shared:
        begin = [words(point["workload_id"]), cell(point["repetition"], str(point["repetition"]))]
        known = [
            (
                part,
                next((figures for key in ("total", "read", "write") if isinstance(figures := part.get(key), dict)), {}),
            )
            for part in parts
        ]
        if everyone:
            rows += [
                (
                    choices.only(point["layer"]),
                    point["layer"],
                    [
                        *begin,
                        words(part.get("host") or "unknown"),
                        _client_state(part),
                        *(_rate(figures, metric) for metric in CLIENT_METRICS),
                    ],
                )
                for part, figures in known
            ]
        else:
            rates = sorted(
                (figures["iops"], str(part.get("host")))
                for part, figures in known
                if isinstance(figures.get("iops"), (int, float))
            )
            failed = sum(part.get("status", "measured") != "measured" for part in parts)
            ends = [Field(units.iops(rate), rate, "n", before=f"{host} ") for rate, host in (rates[:1] + rates[-1:])]
            rows.append(
                (
                    choices.only(point["layer"]),
                    point["layer"],
                    [*begin, cell(len(parts), str(len(parts))), cell(failed, str(failed)), *ends],
                )
            )
    numbers = ("IOPS", "MB/s", "mean", "p99") if everyone else ("clients", "failed", "slowest, IOPS", "fastest, IOPS")
    names = ("Client", "Status") if everyone else ()
    head = [
        ("Layer", False),
        ("Workload", False),
        ("Rep.", True),
        *((text, False) for text in names),
        *((text, True) for text in numbers),
    ]
    return {"table": Table("Clients", head, rows), "all": everyone}


def _client_state(part: dict[str, Any]) -> Field:
    reasons = [
        str(failure.get("message") or failure.get("code"))
        for failure in part.get("failures") or []
        if isinstance(failure, dict)
    ]
    status = str(part.get("status") or "measured")
    return words(": ".join([status, *reasons]), "" if status == "measured" else "warn")


def _rate(figures: dict[str, Any], metric: str) -> Field:
    value = figures.get(metric)
    if not isinstance(value, (int, float)):
        limits = bounds_of([figures], metric)
        return bounds(limits) if limits else cell(None, "")
    return cell(value, METRICS[metric][2](value))
