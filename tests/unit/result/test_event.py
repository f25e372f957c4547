# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of an event, whose host has a clock of its own: a planted stall is found where it was planted, and its time-out is found from the first error."""

from __future__ import annotations

import random

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.result import event

RATE, WINDOW_S, FROM_UNIX_S, EVENT_S, END_S = 50.0, 0.4, 1_795_939_170.0, 20.0, 80.0
CLOCK = {"clock_offset_s": 3600.5, "clock_uncertain_s": 0.05}


def windows(stall_s: float = 0.0, seed: int = 1, **more) -> dict:
    counts, generator, now_s = [0] * round(END_S / WINDOW_S), random.Random(seed), 0.0  # noqa: S311 no secret
    while (now_s := now_s + generator.expovariate(RATE)) < END_S:
        if not EVENT_S <= now_s < EVENT_S + stall_s:
            counts[int(now_s / WINDOW_S)] += 1
    return {"counts_window_s": WINDOW_S, "counts": counts, "counts_from_unix_s": FROM_UNIX_S, **more}


def made(for_s: float = 15.0) -> dict:
    """By the clock of its host, which is an hour ahead."""
    begun_s = FROM_UNIX_S + EVENT_S + CLOCK["clock_offset_s"]
    return {
        "kind": "target_off",
        "for_s": for_s,
        "begun_unix_s": [begun_s - 0.02, begun_s + 0.02],
        "undone_unix_s": [begun_s + for_s, begun_s + for_s],
    }


def result(total: int = 0, **workload) -> dict:
    return {"errors": {"total": total}, "status": "measured", "workload": workload}


@pytest.mark.parametrize("stall_s", [5.0, 10.0, 20.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_planted_stall_is_found_by_the_clock_of_another_host(stall_s, seed):
    found = event.of_event(result(), windows(stall_s, seed), made(), CLOCK)
    assert found["affected"] and found["stall_least_s"] <= stall_s <= found["stall_most_s"]
    assert found["stalled_s"] == pytest.approx(stall_s, abs=1.0)
    assert found["recovered_s"] == pytest.approx(stall_s, abs=1.0)
    assert found["missing_ios"] == pytest.approx(RATE * stall_s, rel=0.3)
    assert (found["kind"], found["for_s"], found["uncertain_s"], found["from_s"]) == ("target_off", 15.0, 0.07, -20.0)
    assert "error_s" not in found and "verified" not in found


def test_an_event_without_effect_has_a_stall_of_no_length():
    found = event.of_event(result(), windows(), made(), CLOCK)
    assert (found["affected"], found["stalled_s"], found["failed_ios"]) == (False, 0.0, 0)
    assert "missing_ios" not in found and "recovered_s" not in found


@pytest.mark.parametrize("last", [0, 6, 10])
def test_the_window_in_which_the_load_ended_is_not_judged(last):
    """A log ends in the middle of a window: of 900 ms with 46 I/Os each, 6 and 10 were seen in the last one."""
    known = windows(20.0)
    ended = {**known, "counts_window_s": 0.9, "counts": [*[45, 50, 41] * 8, *[0] * 33, *[44, 52, 39] * 14, last]}
    found = event.of_event(result(), ended, made(), CLOCK)
    assert found["affected"] and found["counts"][-1] == last
    # By hand: it came 20 s after the begin of the first window of 0.9 s, and the 58th is the first with I/O again.
    assert found["recovered_s"] == pytest.approx(57 * 0.9 - EVENT_S, abs=0.1)
    # Two low windows before it are not the end of the load.
    low = {**ended, "counts": [*ended["counts"][:-2], 0, 0, last]}
    assert "recovered_s" not in event.of_event(result(), low, made(), CLOCK)


@pytest.mark.parametrize("timeout_s", [5.0, 10.0, 20.0])
def test_the_time_until_io_failed_is_between_its_bounds(timeout_s):
    first_s = FROM_UNIX_S + EVENT_S + timeout_s
    noted = windows(30.0, first_error_unix_s=[first_s - 0.2, first_s + 0.05])
    found = event.of_event(result(7, verify="crc32c"), noted, made(30.0), CLOCK)
    assert found["error_least_s"] <= timeout_s <= found["error_most_s"]
    assert found["error_s"] == pytest.approx(timeout_s, abs=0.2)
    assert (found["failed_ios"], found["verified"]) == (7, True)


def test_data_that_differ_are_not_verified():
    failed = {**result(verify="crc32c"), "status": "failed"}
    assert event.of_event(failed, windows(5.0), made(), CLOCK)["verified"] is False


@pytest.mark.parametrize(
    ("noted", "happened", "word"),
    [
        (windows(), {"kind": "target_off", "missed": "At no time."}, "At no time"),
        ({"window_s": 0.4}, made(), "no counts"),
        ({**windows(), "counts_from_unix_s": FROM_UNIX_S + 18}, made(), "before enough"),
        ({**windows(), "counts_from_unix_s": FROM_UNIX_S - 100}, made(), "or after it"),
    ],
)
def test_without_an_event_in_the_load_it_is_said_why(noted, happened, word):
    assert word in event.of_event(result(), noted, happened, CLOCK)
