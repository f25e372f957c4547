# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A comparison in words: titles of metrics, amounts, the verdict of a figure and the headline over all of them."""

from __future__ import annotations

import math
import re

from . import stats
from .nouns import Change, Drift, Row

TITLES = {
    "iops": "IOPS",
    "bandwidth_bytes_s": "Bandwidth",
    "latency_mean_ns": "Mean latency",
    "us_per_io": "Processor time per I/O",
    "mhz_per_iops": "Processor MHz per IOPS",
    "running_percent": "Time with I/O",
    "stall_longest_s": "Longest stall",
    "event_stalled_s": "Stall of the event",
    "event_error_s": "Time until I/O failed",
    "event_recovered_s": "Time until the old rate",
    "event_missing_ios": "I/Os missing in the dip",
    "event_failed_ios": "I/Os failed",
    "tpm": "Transactions per minute",
    "nopm": "New orders per minute",
}
# Figures of a reference beat.
BEATS = {"null_iops": "fio's null engine", "memory_copy_bytes_s": "memory copies"}


def title(metric: str) -> str:
    """'latency_p99_9_ns' -> 'Latency p99.9', 'write.iops' -> 'IOPS of writes'."""
    part, _dot, last = metric.rpartition(".")
    match = re.fullmatch(r"latency_p(\d+)(?:_(\d+))?_ns", last)
    name = f"Latency p{match[1]}{'.' + match[2] if match[2] else ''}" if match else TITLES.get(last, last)
    return name + {"": "", "total": "", "read": " of reads", "write": " of writes", "sync": " of flushes"}.get(
        part, f" ({part})"
    )


def _inside(name: str) -> str:
    """A title in the middle of a sentence; what is written in capitals stays."""
    return name if name[1:2].isupper() else name[:1].lower() + name[1:]


def amount(percent: float) -> str:
    """'0.3 %', '4.7 %', '160 %', and from tenfold on '×58', which is easier to imagine than 5700 %."""
    if percent >= 900:
        return f"×{1 + percent / 100:.0f}"
    if 99 < percent < 100:
        # Rounded it would be all of it, and nothing falls by that much.
        return f"{math.floor(10 * percent) / 10:.1f} %"
    return (f"{percent:.1f}" if abs(percent) < 9.95 else f"{percent:.0f}") + " %"


def margin_words(percent: float) -> str:
    """'5 %', '2.5 %': as the user gave it."""
    return f"{percent:g} %"


def interval(row: Row) -> str:
    """'2.1 to 7.5 %': how much better or worse, nearer end first."""
    ends = sorted((abs(row["change_low_percent"]), abs(row["change_high_percent"])))
    near, far = map(amount, ends)
    return f"{near.removesuffix(' %') if far.endswith('%') else near} to {far}"


def verdict_words(row: Row, margin_percent: float) -> str:
    """The verdict as a reader gets it, with what it would take where there is none, and how far the host itself changed where it did."""
    notes = [typical_words(row), machine_words(row["machine"]) if "machine" in row else ""]
    return "; ".join([_verdict(row, margin_percent), *filter(None, notes)])


def typical_words(row: Row) -> str:
    """'a typical repetition changed by −0.3 % to +1.2 %' where that and the mean of all do not say the same of whether anything changed, else ''."""
    if "typical" not in row:
        return ""
    mean = (row["change_low_percent"], row["change_high_percent"])
    typical = (row["typical"]["low_percent"], row["typical"]["high_percent"])
    apart = max(mean[0], typical[0]) > min(mean[1], typical[1])
    if _direction(mean) == _direction(typical) and not apart:
        return ""
    low, high = (f"{'−' if end < 0 else '+'}{amount(abs(end))}" for end in typical)
    return f"a typical repetition changed by {low} to {high}"


def _direction(ends: tuple[float, float]) -> int:
    """1 and −1 for an interval above and below zero, 0 for one that holds it."""
    return (ends[0] > 0) - (ends[1] < 0)


def machine_words(change: Change) -> str:
    """'the machine itself changed by −12 % (hypervisor01, fio's null engine)': one of beats.changes."""
    sign = "−" if change["change_percent"] < 0 else "+"
    return f"the machine itself changed by {sign}{amount(abs(change['change_percent']))} ({change['host']}, {BEATS[change['figure']]})"


def _verdict(row: Row, margin_percent: float) -> str:
    verdict = row["verdict"]
    if verdict in ("better", "worse"):
        beyond = f", more than time explains ({amount(row['time_percent'])})" if "time_percent" in row else ""
        return f"{verdict}, by {interval(row)}{beyond}"
    if verdict == "no_difference":
        return f"no difference larger than {margin_words(margin_percent)}"
    if verdict == "different":
        return f"different, by {interval(row)}, but may be drift"
    if verdict == "cannot_tell" and "drift" in row:
        return f"cannot tell: it drifted, {drift_words(row['drift'])}"
    of_runs = " runs" if "runs" in row["baseline"] else ""
    more = f"run {row['run_more']} more{of_runs}" if row.get("run_more") else None
    if verdict == "cannot_tell":
        return (
            f"cannot tell: {more or f'even {stats.MOST_REPETITIONS} repetitions may not settle it, so lower the noise'}"
        )
    return f"no verdict: {row['why']}" + (f", {more}" if more else "")


def drift_words(drift: Drift) -> str:
    """'the baseline by −9.2 % from first to last': what drifted, and how far."""
    if drift["kind"] == "trend":
        sign = "−" if drift["change_percent"] < 0 else "+"
        return f"the {drift['side']} by {sign}{amount(abs(drift['change_percent']))} from first to last"
    return f"repetitions of the {drift['side']} are like those before them"


def design_words(order: str, method: str, counts: tuple[int, int]) -> str:
    """How the sides were measured, as the first sentence of every headline. counts: the fewest rounds, repetitions or runs per side."""
    least = min(counts)
    if order == "interleaved":
        how = f"compared round by round, {least} rounds" if method == "pairs" else f"{least} repetitions per side"
        return f"Measured in turns ({how})."
    if order == "alternating":
        return f"Measured in alternating runs ({counts[0]} against {counts[1]})."
    if order == "history":
        return f"Measured after {counts[0]} runs of the baseline, whose own variation is the measure."
    time = "so any difference may be drift"
    if order == "blocks":
        return f"Measured one block after the other, {time} unless it is more than time explains."
    return f"When each was measured is not recorded, {time}."


def line_of_counts(counts: dict[str, int], margin_percent: float) -> str:
    """The comparison in one line: '3 of 28 figures worse, 1 better, 20 within 5 %, 4 without a verdict'."""
    total = sum(counts.values())
    parts = [
        (counts["worse"], "worse"),
        (counts["better"], "better"),
        (counts["different"], "different (may be drift)"),
        (counts["no_difference"], f"within {margin_words(margin_percent)}"),
        (counts["cannot_tell"] + counts["no_verdict"], "without a verdict"),
    ]
    known = [(count, words) for count, words in parts if count]
    if len(known) == 1 and total > 1:
        return f"All {total} figures {known[0][1]}"
    unit = f" of {total} figures" if total != 1 else " figure"
    return (
        ", ".join(f"{count}{unit if not at else ''} {words}" for at, (count, words) in enumerate(known)) or "No figures"
    )


def headline(rows: list[Row], margin_percent: float, design: str) -> str:
    """The whole comparison in a few sentences; the first, ``design``, is how it was measured."""
    total = len(rows)
    sentences = []
    for verdict in ("worse", "better"):
        changed = [row for row in rows if row["verdict"] == verdict]
        if changed:
            most = max(changed, key=lambda row: abs(math.log1p(max(row["change_percent"], -99.999) / 100)))
            what = f"{_inside(title(most['metric']))} of {most['point']} ({verdict_words(most, margin_percent)})"
            sentences.append(
                f"{len(changed)} of {total} figures {'is' if len(changed) == 1 else 'are'} {verdict}, "
                f"{'namely' if len(changed) == 1 else 'most of all'} {what}."
            )
    apart = sum(row["verdict"] == "different" for row in rows)
    if apart:
        sentences.append(
            f"{apart} of {total} figures {'differs' if apart == 1 else 'differ'}, but may be drift: measure in turns to know."
        )
    same = sum(row["verdict"] == "no_difference" for row in rows)
    if same:
        sentences.append(
            f"{'None' if same == total else same} of {total} figures {'differs' if same == total else 'can be shown not to differ'} "
            f"by more than {margin_words(margin_percent)}."
        )
    open_rows = [row for row in rows if row["verdict"] in ("cannot_tell", "no_verdict")]
    if open_rows:
        advice = max((row.get("run_more", 0) for row in open_rows), default=0)
        drifted = sum("drift" in row for row in open_rows)
        noisy = sum(row["verdict"] == "cannot_tell" and not {"run_more", "drift"} & set(row) for row in open_rows)
        unit = "run" if any("runs" in row["baseline"] for row in open_rows) else "repetition"
        steps = [f"run {advice} more {unit}{'' if advice == 1 else 's'} per side"] if advice else []
        if drifted:
            steps.append(f"{drifted} drifted, so measure in turns")
        if noisy:
            which = f"{noisy} of them" if noisy < len(open_rows) else "it"
            steps.append(f"even {stats.MOST_REPETITIONS} {unit}s may not settle {which}, so lower the noise")
        sentences.append(
            f"{'Nothing' if len(open_rows) == total else f'For {len(open_rows)} of {total} nothing'} can be concluded yet"
            + (f": {'; '.join(steps)}." if steps else ".")
        )
    return " ".join([design, *sentences] if sentences else ["Nothing that both sides measured can be compared."])
