# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Dips that were planted into a load are found again: where, how long, how deep; and none where none was planted."""

from __future__ import annotations

import random

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.result.dip import at_most, counts_of, dip

RATE, INTERVAL_S, EVENT_S, END_S = 100.0, 0.2, 20.0, 80.0


def arrivals(seed: int, rate: float = RATE, end_s: float = END_S) -> list[float]:
    """Moments that fall by chance, so many in a second."""
    generator, moments, now_s = random.Random(seed), [], 0.0  # noqa: S311 no secret
    while (now_s := now_s + generator.expovariate(rate)) < end_s:
        moments.append(now_s)
    return moments


def counted(moments: list[float], interval_s: float = INTERVAL_S, end_s: float = END_S) -> list[int]:
    counts = [0] * round(end_s / interval_s)
    for moment in moments:
        if moment < end_s:
            counts[int(moment / interval_s)] += 1
    return counts


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("stall_s", [5.0, 10.0, 20.0])
@pytest.mark.parametrize("late_s", [0.0, 3.1])
def test_a_planted_stall_is_within_its_bounds(seed, stall_s, late_s):
    begin_s = EVENT_S + late_s
    lost = [moment for moment in arrivals(seed) if begin_s <= moment < begin_s + stall_s]
    kept = [moment for moment in arrivals(seed) if not begin_s <= moment < begin_s + stall_s]
    seen = dip(counted(kept), INTERVAL_S, EVENT_S)
    assert seen["affected"]
    # The last I/O before it and the first one after it are a few hundredths of a second from its ends, as the rate has it.
    assert seen["stall_least_s"] <= stall_s + 0.1 and seen["stall_most_s"] >= stall_s
    assert seen["stall_most_s"] - seen["stall_least_s"] == pytest.approx(2 * INTERVAL_S)
    assert seen["stalled_at_s"] == pytest.approx(late_s, abs=INTERVAL_S)
    assert seen["begun_s"] == pytest.approx(late_s, abs=2 * seen["resolution_s"])
    assert seen["recovered_s"] == pytest.approx(late_s + stall_s, abs=2 * seen["resolution_s"])
    assert seen["missing_ios"] == pytest.approx(len(lost), abs=5 * len(lost) ** 0.5)


@pytest.mark.parametrize("seed", range(40))
def test_an_event_without_effect_has_none(seed):
    seen = dip(counted(arrivals(seed)), INTERVAL_S, EVENT_S)
    assert seen["affected"] is False
    assert set(seen) == {"steady_iops", "resolution_s", "affected"}
    assert seen["steady_iops"] == pytest.approx(RATE, rel=0.1)


def test_most_series_without_effect_show_none():
    """Also at a rate that leaves many intervals empty by chance."""
    wrong = [seed for seed in range(300) if dip(counted(arrivals(seed, 4.0)), INTERVAL_S, EVENT_S)["affected"]]
    assert len(wrong) <= 3


@pytest.mark.parametrize("seed", range(5))
def test_a_rate_that_never_comes_back_has_no_end(seed):
    half = [moment for place, moment in enumerate(arrivals(seed)) if moment < EVENT_S or place % 2]
    seen = dip(counted(half), INTERVAL_S, EVENT_S)
    assert seen["affected"] and "recovered_s" not in seen and "made_up_ios" not in seen
    assert "stall_least_s" not in seen
    assert seen["missing_ios"] == pytest.approx(RATE / 2 * (END_S - EVENT_S), rel=0.1)


def test_a_load_that_ends_with_the_event_has_a_stall_and_no_end():
    seen = dip(counted([moment for moment in arrivals(1) if moment < EVENT_S]), INTERVAL_S, EVENT_S)
    assert seen["stall_least_s"] == pytest.approx(END_S - EVENT_S) and "recovered_s" not in seen


def test_what_waited_comes_after_the_end():
    """As fio makes up for what it could not issue."""
    held = [moment if not EVENT_S <= moment < EVENT_S + 5 else EVENT_S + 5 + 0.001 for moment in arrivals(3)]
    waited = sum(1 for moment in arrivals(3) if EVENT_S <= moment < EVENT_S + 5)
    seen = dip(counted(held), INTERVAL_S, EVENT_S)
    assert seen["recovered_s"] == pytest.approx(5.0, abs=2 * seen["resolution_s"])
    assert seen["missing_ios"] == pytest.approx(500, rel=0.15)
    # Beside it all that came by chance in the rest of the series.
    assert seen["made_up_ios"] == pytest.approx(waited, abs=5 * 5500**0.5)


def test_a_pause_before_the_event_is_not_of_it():
    moments = [moment for moment in arrivals(4) if not 5 <= moment < 8]
    seen = dip(counted(moments), INTERVAL_S, EVENT_S)
    assert "stall_least_s" not in seen


def test_a_time_of_the_event_that_is_known_badly_takes_nothing_from_the_dip():
    kept = [moment for moment in arrivals(5) if not EVENT_S <= moment < EVENT_S + 5]
    exact, vague = (dip(counted(kept), INTERVAL_S, EVENT_S + late, late) for late in (0.0, 0.4))
    assert vague["stall_least_s"] == exact["stall_least_s"]
    assert vague["missing_ios"] == pytest.approx(exact["missing_ios"], rel=0.05)


@pytest.mark.parametrize(
    ("counts", "event_s"), [([], 1.0), ([5] * 9, 0.5), ([5] * 9 + [0] * 9, 1.8), ([0] * 50, 4.0), ([5] * 50, 10.0)]
)
def test_too_little_before_or_after_the_event_says_nothing(counts, event_s):
    assert dip(counts, 0.2, event_s) is None


@pytest.mark.parametrize(
    ("number", "whole", "share", "probability"),
    [(0, 10, 0.1, 0.348678), (2, 10, 0.5, 0.0546875), (2, 20, 0.25, 0.091260), (12, 10, 0.5, 1.0), (6, 10, 0.5, 1.0)],
)
def test_probabilities_are_those_of_tables(number, whole, share, probability):
    assert at_most(number, whole, share) == pytest.approx(probability, rel=1e-4)


def test_a_rate_that_is_known_from_a_short_time_is_not_held_against_a_long_one():
    """20 s before the event and 88 s after it, all by chance: in no more series than that allows is there a dip."""
    wrong = []
    for seed in range(300):
        moments = arrivals(seed, 50.0, 108.0)
        seen = dip(counted(moments, 0.9, 108.0), 0.9, 20.0)
        wrong += [seed] if seen["affected"] else []
    assert len(wrong) <= 3


@pytest.mark.parametrize("seed", range(20))
def test_after_a_stall_the_rate_is_back_even_where_the_rate_before_it_was_high_by_chance(seed):
    kept = [moment for moment in arrivals(seed, 50.0, 108.0) if not 20 <= moment < 50]
    seen = dip(counted(kept, 0.9, 108.0), 0.9, 20.0)
    # To a stretch of four intervals, in which the one that the stall ended in was.
    assert seen["recovered_s"] == pytest.approx(30, abs=3.6)


# ---------------------------------------------------------------- out of a log


def logged(moments: list[float], window_s: float, drift_s: float) -> list[tuple[float, float]]:
    """(end in ms, I/Os per second) of each window in which there was I/O, as fio writes it, of a log that is a little later each time."""
    lines, end_s = [], window_s
    while end_s < END_S:
        number = sum(end_s - window_s <= moment < end_s for moment in moments)
        if number:
            lines.append((1.7e12 + end_s * 1000, number / window_s))
        end_s += window_s + drift_s
    return lines


@pytest.mark.parametrize("drift_s", [0.0, 0.0011, 0.0025])
@pytest.mark.parametrize("begin_s", [30.0, 30.07, 30.15])
def test_a_stall_in_a_log_that_drifts_is_within_its_bounds(drift_s, begin_s):
    kept = [moment for moment in arrivals(3) if not begin_s <= moment < begin_s + 10]
    lines = logged(kept, 0.2, drift_s)
    begin, window, counts = counts_of(reversed(lines), 200)
    assert begin == pytest.approx(1.7e12, abs=3) and window == pytest.approx(200 + 1000 * drift_s, abs=0.5)
    assert sum(counts) == pytest.approx(sum(rate * 0.2 for _end, rate in lines), abs=1)
    # No other window is empty, however far the log is off an even grid.
    assert counts.count(0) in range(46, 51)
    seen = dip(counts, window / 1000, begin_s)
    assert seen["stall_least_s"] <= 10.0 <= seen["stall_most_s"]
    assert seen["stalled_at_s"] == pytest.approx(0, abs=0.4)


def test_workers_and_directions_of_a_log_are_added():
    assert counts_of([(1000, 10.0), (1004, 30.0), (2003, 20.0)], 1000)[2] == [40, 20]
    assert counts_of([(1000, 10.0)], 1000) == (0.0, 1000, [10])


def test_of_an_empty_log_there_are_no_counts():
    assert counts_of([], 200) == (0.0, 200, [])
