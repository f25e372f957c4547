# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A TPROC-C style load out of the log of its transactions: rates, latencies, and what makes a point fail. pgbench.py and sysbench.py write such logs.

A line of the log is ``client number time_us script epoch_s epoch_us [retries]``, time 'failed' where the transaction was given up
(https://www.postgresql.org/docs/current/pgbench.html, Per-Transaction Logging); script is the place in KINDS, and the epoch is of its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..result import histogram
from ..result.result import PERCENTILES, without_none
from .tproc_c import KINDS

MOST_TRIES = 10


def bin_of(value_us: int) -> int:
    """The upper edge (ns) of the bin that a latency falls into: exact below 128 µs, then at most 1/64 wide."""
    width = max(1, 1 << max(0, value_us.bit_length() - 7))
    return (value_us // width * width + width - 1) * 1000


class Count:
    """The figures of the transactions of one kind in the measured time."""

    def __init__(self) -> None:
        self.count = self.failed = self.retried = self.retries = self.sum_us = self.max_us = 0
        self.min_us: int | None = None
        self.bins: dict[int, int] = {}

    def add(self, time_us: int, retries: int) -> None:
        self.count += 1
        self.retried += retries > 0
        self.retries += retries
        self.sum_us += time_us
        self.max_us = max(self.max_us, time_us)
        self.min_us = time_us if self.min_us is None else min(self.min_us, time_us)
        edge = bin_of(time_us)
        self.bins[edge] = self.bins.get(edge, 0) + 1

    def counts(self) -> dict[str, int | dict[str, int]]:
        return without_none(
            {
                **{key: getattr(self, key) for key in ("count", "failed", "retried", "retries", "sum_us", "min_us")},
                "max_us": self.max_us if self.count else None,
                "bins": {str(edge): self.bins[edge] for edge in sorted(self.bins)},
            }
        )


def read_log(lines: Iterable[str], begin_us: int, end_us: int) -> dict[str, Any]:
    """{kinds: {kind: Count.counts()}, seconds: [[transactions, new orders]], placed, lines, failed_lines, unread} of the log's lines in any order.

    begin_us, end_us: the measured time, since 1970. placed and the lines are of the whole log: New-Orders that were acknowledged, and all transactions.
    """
    kinds = {kind: Count() for kind in KINDS}
    seconds = [[0, 0] for _ in range(max(1, -(-(end_us - begin_us) // 1_000_000)))]
    placed = count = failed = unread = 0
    for line in lines:
        fields = line.split()
        try:
            took, kind = fields[2], KINDS[int(fields[3])]
            ended_us = int(fields[4]) * 1_000_000 + int(fields[5])
            time_us = int(took) if took.isdecimal() else None
            retries = int(fields[6]) if len(fields) > 6 else 0
        except (IndexError, ValueError):
            unread += 1
            continue
        count += 1
        failed += time_us is None
        placed += kind == "new_order" and time_us is not None
        if not begin_us < ended_us <= end_us:
            continue
        if time_us is None:
            kinds[kind].failed += 1
            continue
        kinds[kind].add(time_us, retries)
        second = seconds[min((ended_us - begin_us - 1) // 1_000_000, len(seconds) - 1)]
        second[0] += 1
        second[1] += kind == "new_order"
    return {
        "kinds": {kind: counted.counts() for kind, counted in kinds.items()},
        "seconds": seconds,
        "placed": placed,
        "lines": count,
        "failed_lines": failed,
        "unread": unread,
    }


def figures(counted: list[dict[str, Any]]) -> dict[str, Any]:
    """{count, failed, retried, retries, latency_mean_ns …, histogram} of kinds taken together, each as ``Count.counts`` returns it."""
    known: dict[str, Any] = {
        key: sum(part[key] for part in counted) for key in ("count", "failed", "retried", "retries")
    }
    done = [part for part in counted if part["count"]]
    if not done:
        return known
    bins = histogram.merge(part["bins"] for part in done)
    quantiles = histogram.percentiles(bins, PERCENTILES, ordered=True)
    return {
        **known,
        "latency_mean_ns": 1000 * sum(part["sum_us"] for part in done) / known["count"],
        "latency_min_ns": 1000 * min(part["min_us"] for part in done),
        "latency_max_ns": 1000 * max(part["max_us"] for part in done),
        **{PERCENTILES[percent]: value for percent, value in quantiles.items()},
        "histogram": {"unit": "ns", "bins": bins},
    }


def consistent(raw: dict[str, Any], result: dict[str, Any], failures: list[Any]) -> None:
    """Adds the check of the conditions to a result, and what does not hold to its failures."""
    checks = raw.get("consistency")
    if checks is None:
        return
    result["checks"] = [{"name": "consistency", "ok": all(check["ok"] for check in checks), "conditions": checks}]
    for check in checks:
        if not check["ok"]:
            example = f", such as {check['example']}" if "example" in check else ""
            failures.append(
                {
                    "code": "database_inconsistent",
                    "message": f"Condition {check['condition']} does not hold ({check['text']}): {check['broken']} break it{example}.",
                }
            )


def orders_kept(raw: dict[str, Any], acknowledged: int, result: dict[str, Any], failures: list[Any]) -> None:
    """Adds the check that New-Orders that were acknowledged are there."""
    if "placed_before" not in raw or "placed_after" not in raw:
        return
    placed = raw["placed_after"] - raw["placed_before"]
    check = {"name": "orders_kept", "ok": placed >= acknowledged, "acknowledged": acknowledged, "there": placed}
    result.setdefault("checks", []).append(check)
    if not check["ok"]:
        failures.append(
            {
                "code": "database_orders_lost",
                "message": f"{acknowledged} New-Orders were acknowledged, and {placed} are there.",
            }
        )


def measured(raw: dict[str, Any], driver: Any) -> dict[str, Any]:
    """Keys of a result of schema storlab.result/1 out of what the host kept (``run/database.py``). driver: a Driver of databases.py.

    {runtime_s, tpm, nopm, transactions: {total, <kind>: figures}, checks, failures: [{code, message}], engine}. TPM is of all transactions that ended, those
    rolled back among them, a minute; NOPM of New-Orders that stayed. Neither is there when the point was not measured to its end.
    """
    failures: list[dict[str, Any]] = list(raw.get("failures", ()))
    engine = {"name": driver.name, **({"version": raw["version"]} if "version" in raw else {})}
    result: dict[str, Any] = {"engine": engine, "failures": failures}
    consistent(raw, result, failures)
    log = raw.get("log")
    if log is None:
        return result
    counted = {kind: log["kinds"][kind] for kind in KINDS}
    result["transactions"] = {
        "total": figures(list(counted.values())),
        **{kind: figures([part]) for kind, part in counted.items()},
    }
    result["runtime_s"] = raw["runtime_s"]
    if not failures and (driver.aborted(raw["said"]) or raw["exit_code"]):
        words = " ".join(raw["said_errors"].split())[-300:]
        failures.append({"code": "engine_exit", "message": f"{driver.name} ended early: {words or 'without a word'}."})
    succeeded = log["lines"] - log["failed_lines"]
    processed = driver.succeeded(raw["said"], log["failed_lines"])
    if not failures and (log["unread"] or processed != succeeded):
        failures.append(
            {
                "code": "log_incomplete",
                "message": f"The log has {succeeded} transactions and {log['unread']} unreadable lines, {driver.name} reports "
                f"{'no number' if processed is None else processed}.",
            }
        )
    if "database" in raw:
        result["database"] = raw["database"]
    orders_kept(raw, log["placed"], result, failures)
    if not failures and not counted["new_order"]["count"]:
        failures.append({"code": "no_transactions", "message": "No New-Order was completed in the measured time."})
    if not failures:
        minutes = raw["runtime_s"] / 60
        result["tpm"] = round(result["transactions"]["total"]["count"] / minutes, 3)
        result["nopm"] = round(counted["new_order"]["count"] / minutes, 3)
    return result
