# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The conclusion from the reference beats of hosts: did a host itself become slower or faster, over a run or from one side of a comparison to the other.

A beat needs no storage, so what changes it is the machine: its clock rate, its heat, its neighbours. Nothing is corrected by it. All tests of one run, or of
one comparison, together are wrong in at most ALPHA (Bonferroni).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection
from typing import Any

from ..store.beats import FIGURES
from . import stats
from .nouns import Change
from .words import amount, machine_words

# So many beats (or runs) per side show whether the sides differ; a trend needs four, see stats.trend.
LEAST = 3
LEAST_TREND = 4
# A change below this is none, however sure it is: no margin of a comparison is as narrow.
LEAST_CHANGE = math.log1p(0.01)
DOES = {
    "null_iops": "fio's null engine issued {amount} {way} I/Os per second",
    "memory_copy_bytes_s": "its memory copied {amount} {way} bytes per second",
}


def drifts(lines: list[dict[str, Any]]) -> list[dict[str, object]]:
    """[{host, figure, values, verdict, change_percent?, p?}] of each figure of each host. lines: as store.beats.read returns them.

    verdict: 'slower' or 'faster' where the beats have a trend over the rounds that their own spread does not explain, 'steady' where they have none that is
    seen, 'too_few' for fewer than four. change_percent: of the fitted line from the first round to the last; p is of one figure, not corrected.
    """
    series = [
        {"host": host, "figure": figure, "values": values}
        for host in dict.fromkeys(line["host"] for line in lines)
        for figure in FIGURES
        if (values := [line[figure] for line in lines if line["host"] == host and figure in line])
    ]
    tested = sum(len(each["values"]) >= LEAST_TREND for each in series)
    moves: list[dict[str, Any]] = []
    for each in series:
        if len(each["values"]) < LEAST_TREND:
            moves.append({**each, "verdict": "too_few"})
            continue
        p, change = stats.trend([math.log(value) for value in each["values"]])
        moved = p <= stats.ALPHA / tested and abs(change) >= LEAST_CHANGE
        verdict = "steady" if not moved else "slower" if change < 0 else "faster"
        moves.append({**each, "verdict": verdict, "change_percent": 100 * math.expm1(change), "p": p})
    return moves


def moved_words(move: dict[str, Any]) -> str:
    """One of drifts() that is slower or faster, as a sentence."""
    change = move["change_percent"]
    does = DOES[move["figure"]].format(amount=amount(abs(change)), way="fewer" if change < 0 else "more")
    return (
        f"{move['host']} itself became {move['verdict']} while the run was measured: {does} in the last round than in the first, "
        "which is more than its own spread allows."
    )


def changes(baseline: list[list[dict[str, Any]]], candidate: list[list[dict[str, Any]]]) -> list[Change]:
    """[{host, figure, change_percent, p}] of the hosts whose beats differ between the sides by more than their spread; the greatest change first.

    Each side: the lines of each of its runs. With several runs on a side each run counts once, with its median.
    """
    runs = max(len(baseline), len(candidate)) > 1
    samples = []
    for host in sorted({line["host"] for side in (baseline, candidate) for lines in side for line in lines}):
        for figure in FIGURES:
            sides = [_logs(side, host, figure, runs) for side in (baseline, candidate)]
            if min(map(len, sides)) >= LEAST:
                samples.append((host, figure, stats.apart(*sides)))
    changed: list[Change] = [
        {"host": host, "figure": figure, "change_percent": 100 * math.expm1(shift.estimate), "p": shift.p}
        for host, figure, shift in samples
        if shift.p <= stats.ALPHA / len(samples) and abs(shift.estimate) >= LEAST_CHANGE
    ]
    return sorted(changed, key=lambda change: -abs(math.log1p(change["change_percent"] / 100)))


def hosts_of_both(baseline: list[list[dict[str, Any]]], candidate: list[list[dict[str, Any]]]) -> set[str]:
    """The hosts of which both sides have so many beats that a change would be seen."""
    runs = max(len(baseline), len(candidate)) > 1
    return {
        host
        for host in {line["host"] for side in (baseline, candidate) for lines in side for line in lines}
        if any(
            min(len(_logs(side, host, figure, runs)) for side in (baseline, candidate)) >= LEAST for figure in FIGURES
        )
    }


def _logs(side: list[list[dict[str, Any]]], host: str, figure: str, runs: bool) -> list[float]:
    of_runs = [[math.log(line[figure]) for line in lines if line["host"] == host and figure in line] for lines in side]
    return [statistics.median(logs) for logs in of_runs if logs] if runs else [log for logs in of_runs for log in logs]


def greatest(changed: list[Change], hosts: Collection[str]) -> Change | None:
    """The first of changes() that is of one of these hosts."""
    return next((change for change in changed if change["host"] in hosts), None)


def headline(changed: list[Change]) -> str:
    """The statement of a comparison about the hosts, as a sentence; empty where none changed."""
    if not changed:
        return ""
    first = machine_words(changed[0])
    others = len({change["host"] for change in changed} - {changed[0]["host"]})
    more = f", and {others} more host{'s' * (others != 1)}" if others else ""
    return f"Note that {first}{more}: its share of a difference is unknown."
