# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order the two sides were measured, from the start times alone, and what follows for the method.

Time changes machines. A difference between sides that took turns cannot be what time did; one between blocks can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ...module_utils.result.schema import Result
from .nouns import Group, Pair, Repetition, RunName

# With five rounds no relabelling of pairs can reach 5 %: the best p is 0.0625.
LEAST_ROUNDS = 6
# Runs of a baseline whose own variation says what a later run can be without any change. With six, a machine that remembers what it was
# (AR(1) 0.9) raises 6 % false alarms; with eight, 5 % (benchmarks/verdicts.md).
LEAST_HISTORY = 8
# With fewer runs of a candidate there is nothing to set run by run.
LEAST_RUNS = 3
# Sides that took turns are on average no further apart than this share of the whole sequence; one block after the other is half of it.
BALANCE = 0.25


@dataclass(frozen=True)
class Design:
    """The order of the sides in time, and how they can therefore be compared.

    order: 'interleaved' (repetitions took turns), 'alternating' (whole runs did), 'history' (a candidate after many runs of the baseline),
    'blocks' (one after the other), 'unknown' (no start times).
    method: 'pairs' (round by round), 'groups' (all repetitions of a side together), 'runs' (one value per run, so that runs may differ by themselves),
    'history' (one value per run of the baseline, and one for all of the candidate).
    """

    order: str
    method: str

    @property
    def turns(self) -> bool:
        """Whether what time does is not taken for a difference: it drops out, or is part of what the runs of the baseline vary by."""
        return self.order in ("interleaved", "alternating", "history")


def design_of(pairs: list[Pair]) -> Design:
    """For all points together: the weakest order that one of them has. pairs: [(baseline, candidate)], see points.groups_of."""
    runs = any(len(runs_of(group)) > 1 for pair in pairs for group in pair)
    if not all(started(result) for pair in pairs for group in pair for result in group.values()):
        return Design("unknown", "runs" if runs else "groups")
    if runs:
        first: dict[tuple[int, RunName], list[str]] = {}
        for pair in pairs:
            for side, group in enumerate(pair):
                for run, results in runs_of(group).items():
                    first.setdefault((side, run), []).extend(map(started, results))
        times = sorted((min(starts), side) for (side, _run), starts in first.items())
        sides = [side for _start, side in times]
        if in_turns(sides) and sides.count(1) >= LEAST_RUNS:
            return Design("alternating", "runs")
        # One block after the other, the baseline first.
        if sides == sorted(sides) and (sides.count(0) >= LEAST_HISTORY or sides.count(1) < LEAST_RUNS):
            return Design("history", "history")
        return Design("alternating" if in_turns(sides) else "blocks", "runs")
    rounds = all(map(in_rounds, *zip(*pairs)))
    if not rounds and not all(
        in_turns(
            [
                side
                for _start, side in sorted(
                    (started(result), side) for side, group in enumerate(pair) for result in group.values()
                )
            ]
        )
        for pair in pairs
    ):
        return Design("blocks", "groups")
    enough = rounds and all(len(set(ours) & set(theirs)) >= LEAST_ROUNDS for ours, theirs in pairs)
    return Design("interleaved", "pairs" if enough else "groups")


def started(result: Result) -> str:
    return str(result.get("started_utc") or "")


def run_of(result: Result) -> RunName:
    return str(result.get("testbed_id") or ""), str(result.get("run_id") or "")


def runs_of(group: Group) -> dict[RunName, list[Result]]:
    """{run: [result]} of a point's results."""
    results: dict[RunName, list[Result]] = {}
    for result in group.values():
        results.setdefault(run_of(result), []).append(result)
    return results


def in_rounds(ours: Group, theirs: Group) -> bool:
    """Whether every round measured both sides before the next round began."""
    times = [(started(ours[number]), started(theirs[number])) for number in sorted(set(ours) & set(theirs))]
    return len(times) > 1 and all(max(early) < min(late) for early, late in zip(times, times[1:]))


def in_turns(sides: list[int]) -> bool:
    """Whether a sequence of 0 and 1 takes turns: its ones and zeros lie equally early, and it changes as often as the shorter side is long."""
    places = [[place for place, side in enumerate(sides) if side == which] for which in (0, 1)]
    if not all(places):
        return False
    apart = abs(sum(places[0]) / len(places[0]) - sum(places[1]) / len(places[1]))
    changes = sum(early != late for early, late in zip(sides, sides[1:]))
    return apart <= BALANCE * len(sides) and changes >= min(map(len, places))


def in_time(group: Group, values: dict[Repetition, float]) -> list[float]:
    """The values of a group's repetitions in the order in which they were measured."""
    return [values[number] for number in sorted(values, key=lambda number: (started(group[number]), number))]


def times_of(ours: Group, theirs: Group, rounds: Sequence[Repetition]) -> tuple[list[float], list[float]]:
    """(seconds of the baseline's starts, of the candidate's) in these rounds; their places in the sequence where a stamp is not a time."""
    stamps = [[started(group[number]) for number in rounds] for group in (ours, theirs)]
    try:
        seconds = [
            [datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp() for stamp in side] for side in stamps
        ]
    except ValueError:
        known = sorted({stamp for side in stamps for stamp in side})
        seconds = [[float(known.index(stamp)) for stamp in side] for side in stamps]
    return seconds[0], seconds[1]
