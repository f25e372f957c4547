# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A comparison in words: titles of metrics, amounts, the verdict of a figure and the headline over all of them."""

from __future__ import annotations

import math
import re

from . import stats

TITLES = {
    "iops": "IOPS",
    "bandwidth_bytes_s": "Bandwidth",
    "latency_mean_ns": "Mean latency",
    "us_per_io": "Processor time per I/O",
    "mhz_per_iops": "Processor MHz per IOPS",
    "tpm": "Transactions per minute",
    "nopm": "New orders per minute",
}


def title(metric: str) -> str:
    """'latency_p99_9_ns' -> 'Latency p99.9', 'write.iops' -> 'IOPS of writes'."""
    part, _dot, last = metric.rpartition(".")
    match = re.fullmatch(r"latency_p(\d+)(?:_(\d+))?_ns", last)
    name = f"Latency p{match[1]}{'.' + match[2] if match[2] else ''}" if match else TITLES.get(last, last)
    return name + {"": "", "total": "", "read": " of reads", "write": " of writes"}.get(part, f" ({part})")


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


def interval(row: dict) -> str:
    """'2.1 to 7.5 %': how much better or worse, nearer end first."""
    ends = sorted((abs(row["change_low_percent"]), abs(row["change_high_percent"])))
    near, far = map(amount, ends)
    return f"{near.removesuffix(' %') if far.endswith('%') else near} to {far}"


def verdict_words(row: dict, margin_percent: float) -> str:
    """The verdict as a reader gets it, with what it would take where there is none."""
    verdict = row["verdict"]
    if verdict in ("better", "worse"):
        return f"{verdict}, by {interval(row)}"
    if verdict == "no_difference":
        return f"no difference larger than {margin_words(margin_percent)}"
    more = f"run {row['run_more']} more" if row.get("run_more") else None
    if verdict == "cannot_tell":
        return f"cannot tell: {more or f'it would take over {stats.MOST_REPETITIONS} repetitions, so lower the noise'}"
    return f"no verdict: {row['why']}" + (f", {more}" if more else "")


def headline(rows: list, margin_percent: float) -> str:
    """The whole comparison in a sentence or two."""
    total = len(rows)
    said = []
    for verdict in ("worse", "better"):
        found = [row for row in rows if row["verdict"] == verdict]
        if found:
            most = max(found, key=lambda row: abs(math.log1p(max(row["change_percent"], -99.999) / 100)))
            what = f"{_inside(title(most['metric']))} of {most['point']} ({verdict_words(most, margin_percent)})"
            said.append(
                f"{len(found)} of {total} figures {'is' if len(found) == 1 else 'are'} {verdict}, "
                f"{'namely' if len(found) == 1 else 'most of all'} {what}."
            )
    same = sum(row["verdict"] == "no_difference" for row in rows)
    if same:
        said.append(
            f"{'None' if same == total else same} of {total} figures {'differs' if same == total else 'can be shown not to differ'} "
            f"by more than {margin_words(margin_percent)}."
        )
    open_rows = [row for row in rows if row["verdict"] in ("cannot_tell", "no_verdict")]
    if open_rows:
        advice = max((row.get("run_more", 0) for row in open_rows), default=0)
        noisy = sum(row["verdict"] == "cannot_tell" and "run_more" not in row for row in open_rows)
        steps = [f"run {advice} more repetition{'' if advice == 1 else 's'}"] if advice else []
        if noisy:
            which = f"{noisy} of them" if noisy < len(open_rows) else "it"
            steps.append(f"{which} would take over {stats.MOST_REPETITIONS} repetitions, so lower the noise")
        said.append(
            f"{'Nothing' if len(open_rows) == total else f'For {len(open_rows)} of {total} nothing'} can be told yet"
            + (f": {'; '.join(steps)}." if steps else ".")
        )
    return " ".join(said) or "Nothing that both sides measured can be compared."
