# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdicts on rows that have repetitions enough, all of them together."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from typing import Any

from . import blocks, gate, stats
from .nouns import SIDES, Drift, Row

# fio's histograms have bins of 1 ns up to 127 ns; above, they are at most this share of a value wide.
BIN_SHARE = 1 / 64
# A side that moved by less than this share of the difference does not explain it.
DRIFT = 0.25
# Figures are shown with this precision, and nothing finer is claimed to be visible.
LEAST_VISIBLE_PERCENT = 0.1


def judge(
    rows: list[Row],
    method: str,
    margin_percent: float,
    candidates: int = 1,
    machines: blocks.Machines | None = None,
) -> None:
    """Adds effect, interval, p and verdict to the rows that have repetitions enough, all of them together.

    candidates: how many the rows set against one baseline. The intervals of one figure hold the truth of all of them with the confidence that
    a single one has, and the correction for many figures counts the figures of all of them.
    """
    judged: list[Any] = [row for row in rows if "_logs" in row]
    margin = math.log1p(margin_percent / 100)
    alpha = stats.ALPHA / candidates
    together = stats.family([row["_logs"] for row in judged], "runs" if method == "history" else method)
    for row, corrected in zip(judged, together["p"]):
        a, b = row["_logs"]
        least = 0.0
        if method == "pairs":
            differences = [b[number] - a[number] for number in sorted(set(a) & set(b))]
            change, samples, least = stats.paired(differences), [differences], stats.same_sign(differences)
        elif method == "history":
            change, samples = stats.predicted(list(a.values()), next(iter(b.values()))), [list(a.values())]
        else:
            samples = [list(a.values()), list(b.values())]
            change = stats.apart(*samples)
        bins = _half_bins(row)
        change = replace(change, bins=bins)
        scatters: list[tuple[float, float]] = [(statistics.stdev(sample), len(sample) - 1) for sample in samples]
        error = math.sqrt(sum(scatter**2 / len(sample) for (scatter, _freedom), sample in zip(scatters, samples)))
        if method == "history":
            # The candidate is one run more, which varies as those before.
            error = math.hypot(error, scatters[0][0])
        freedom = sum(len(sample) - 1.0 for sample in samples)
        each = stats.share_of_level(together["critical"], freedom, len(judged))
        low, high = _widened(change.interval(1 - alpha), row["_rest"])
        row.update(
            change_percent=_percent(change.estimate),
            change_low_percent=_percent(low),
            change_high_percent=_percent(high),
            confidence_percent=100 * (1 - alpha),
            p=change.p,
            p_corrected=max(change.p, corrected),
            visible_percent=max(
                LEAST_VISIBLE_PERCENT, _percent(max(least, stats.visible(error, change.freedom, each, bins)))
            ),
        )
        _add_typical(row, method, samples, alpha)
        # Each figure's share of what the whole comparison may be wrong in, as for differences; alone it is the interval that is shown.
        inner, outer = _widened(change.interval(1 - 2 * min(each, alpha / 2)), row["_rest"])
        row.update(joint_low_percent=_percent(inner), joint_high_percent=_percent(outer))
        beyond = False
        if row["_order"] == "blocks":
            limit = blocks.limit(row["_ordered"], machines(row) if machines else None)
            beyond = inner > limit or outer < -limit
            row["time_percent"] = _percent(limit)
        row["verdict"] = gate.verdict(row, -margin <= inner and outer <= margin, row["_turns"] or beyond)
        if not (row["_turns"] or beyond) and row["verdict"] in ("different", "no_difference"):
            drift = _drift(
                row["_ordered"], margin if row["verdict"] == "no_difference" else DRIFT * abs(change.estimate)
            )
            if drift:
                row.update(verdict="cannot_tell", drift=drift)
        if row["verdict"] == "cannot_tell" and "drift" not in row:
            count = min(map(len, samples))
            needed = (
                stats.runs_needed(change.estimate, scatters[0][0], each, margin, count, bins)
                if method == "history"
                else stats.repetitions_needed(change.estimate, scatters, each, margin, count, bins)
            )
            if needed:
                row["run_more"] = needed - count


def _add_typical(row: Row, method: str, samples: list[list[float]], alpha: float) -> None:
    """``typical`` {change_percent, low_percent, high_percent}: the change of a typical repetition, see stats.typical. The verdict is of the mean of all."""
    if method not in ("groups", "pairs") or min(map(len, samples)) < stats.LEAST_TYPICAL:
        return
    change = stats.typical_paired(samples[0]) if method == "pairs" else stats.typical(*samples)
    low, high = _widened(replace(change, bins=_half_bins(row)).interval(1 - alpha), row["_rest"])
    row["typical"] = {
        "change_percent": _percent(change.estimate),
        "low_percent": _percent(low),
        "high_percent": _percent(high),
    }


def _widened(interval: tuple[float, float], rest: float) -> tuple[float, float]:
    """The interval, wide enough to hold what lies ``rest`` above its middle too."""
    return interval[0] + min(rest, 0.0), interval[1] + max(rest, 0.0)


def _drift(ordered: list[list[float]], beyond: float) -> Drift | None:
    """{side, kind, p, change_percent}: what moved inside a side while it was measured, by more than ``beyond`` (a logarithm); None where both stood still."""
    for side, values in zip(SIDES, ordered):
        logs = [math.log(value) for value in values]
        p, change = stats.trend(logs)
        if p <= stats.ALPHA and abs(change) > beyond:
            return {"side": side, "kind": "trend", "p": p, "change_percent": _percent(change)}
        p = stats.memory(logs)
        if p <= stats.ALPHA and max(logs) - min(logs) > beyond:
            return {"side": side, "kind": "memory", "p": p, "change_percent": _percent(logs[-1] - logs[0])}
    return None


def _half_bins(row: Row) -> float:
    """Half the width of the bins (logarithms) in which both sides of a percentile lie, together: that all repetitions fell into one makes them not equal."""
    if not row["metric"].rpartition(".")[2].startswith("latency_p"):
        return 0.0
    return sum(math.log1p(max(BIN_SHARE, 1 / row[side]["value"])) / 2 for side in SIDES)


def _percent(logarithm: float) -> float:
    return 100 * math.expm1(logarithm)
