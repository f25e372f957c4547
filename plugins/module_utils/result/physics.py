# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What no engine can have done, whatever device it measured: figures that contradict each other or the workload.

- *Little's law*: with N places for I/Os in flight and a run of T seconds, all latencies together are at most N x T, and what the first I/O of each place
  lasted before the measured time began, which is at most the greatest latency. J. D. C. Little, "A proof for the queuing formula: L = lambda W",
  Operations Research 9 (1961). The mean number in flight is I/Os x mean latency / T.
- *bytes for each I/O*: between the smallest and the largest block of the workload.

An engine that breaks one has lost count or its clock has stepped. That IOPS and run time give the number of I/Os is held where an engine's output is read.
"""

from __future__ import annotations

from typing import Any

from ..core.failure import Failure, Fault
from ..workload.workload import Workload, block_bounds

# Engines round: run times to whole milliseconds, means to a few digits.
TOLERANCE = 0.01
# I/Os that were under way when the measured time began or ended may be counted without their bytes, or the other way round.
EDGES = 2


def checks(
    total: dict[str, Any], runtime_s: float, in_flight: int, block_bytes: tuple[int, int]
) -> list[dict[str, Any]]:
    """[{name, ok, …}] of the figures of one run of the engine, as far as they are there; none of them when nothing was done.

    total: the figures of both directions together (result.py). in_flight: queue depth x workers. block_bytes: the smallest and the largest block.
    littles_law: in_flight is the mean number, limit what it can have been at most. block_size: bytes_per_io, least_bytes and most_bytes.
    """
    ios, made = total.get("ios") or 0, []
    mean_ns, longest_ns = total.get("latency_mean_ns"), total.get("latency_max_ns")
    if ios and runtime_s and mean_ns is not None and longest_ns is not None:
        mean = ios * mean_ns / 1e9 / runtime_s
        limit = in_flight * (1 + longest_ns / 1e9 / runtime_s)
        made.append(
            {
                "name": "littles_law",
                "ok": mean <= limit * (1 + TOLERANCE),
                "in_flight": float(f"{mean:.4g}"),
                "limit": float(f"{limit:.4g}"),
            }
        )
    size_bytes, (least, most) = total.get("bytes"), block_bytes
    if ios and size_bytes is not None:
        edges = EDGES * in_flight * most
        made.append(
            {
                "name": "block_size",
                "ok": least * ios - edges <= size_bytes <= most * ios + edges,
                "bytes_per_io": float(f"{size_bytes / ios:.6g}"),
                "least_bytes": least,
                "most_bytes": most,
            }
        )
    return made


def judged(workload: Workload, parts: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Fault]]:
    """(checks, failures) of a point: of several parts the check that failed, else the last; failures [{code, message}].

    parts: each run of the engine that the point's figures are of, on each host of many: {runtime_s, total, …}.
    """
    in_flight, bounds = workload["queue_depth"] * workload["workers"], block_bounds(workload)
    made: dict[str, dict[str, Any]] = {}
    for part in parts:
        for check in (
            checks(part.get("total", {}), part["runtime_s"], in_flight, bounds) if part.get("runtime_s") else []
        ):
            if made.setdefault(check["name"], check)["ok"]:
                made[check["name"]] = check
    failed = [check for check in made.values() if not check["ok"]]
    return list(made.values()), [Failure("impossible_figures", words(check)).as_fault() for check in failed]


def words(check: dict[str, Any]) -> str:
    """Why a check that failed cannot be true."""
    if check["name"] == "littles_law":
        return (
            f"{check['in_flight']:g} I/Os were in flight on average by count and latency, but never more than {check['limit']:g} can have been: "
            "the engine lost count, or its clock stepped."
        )
    return (
        f"An I/O had {check['bytes_per_io']:g} bytes on average, but the workload's have {check['least_bytes']} to {check['most_bytes']}: "
        "the engine lost count, or did another workload."
    )
