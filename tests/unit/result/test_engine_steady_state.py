# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steady state: windows computed by hand, and limits that are met exactly or just missed."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.result import steady_state

SNIA = steady_state.normalise({}, 10)


@pytest.mark.parametrize(
    ("values", "steady", "excursion", "slope"),
    [
        # mean 100; 102 - 98 = 4; sum((x-2)(y-100)) = 0 - 2 + 0 + 1 - 2 = -3, over sum((x-2)^2) = 10 is -0.3 a round, 1.2 over four
        ([100, 102, 98, 101, 99], True, 4, 1.2),
        # A straight line: mean 100, from 95 to 105 in four steps of 2.5: both exactly 10
        ([95, 97.5, 100, 102.5, 105], True, 10, 10),
        # the same a little steeper: excursion still within 20
        ([94, 97, 100, 103, 106], False, 12, 12),
        # one spike in the middle has no slope, but too much excursion: mean 105, 125 - 100 = 25 is 23.81 %
        ([100, 100, 125, 100, 100], False, 23.810, 0),
        # exactly 20 % excursion: mean 100, 88 to 108, sum((x-2)(y-100)) = -2*4 + -1*-12 + 0 + 1*-8 + 2*8 = 12 -> 1.2 a round
        ([104, 88, 108, 92, 108], True, 20, 4.8),
        # only the last five count
        ([1, 1000, 50, 100, 102, 98, 101, 99], True, 4, 1.2),
    ],
)
def test_windows(values, steady, excursion, slope):
    found = steady_state.judge(values, SNIA)
    assert (found["steady"], found["excursion_percent"], found["slope_percent"]) == (
        steady,
        excursion,
        slope,
    )


@pytest.mark.parametrize("values", [[], [100], [100, 100, 100, 100], [0, 0, 0, 0, 0]])
def test_too_little_is_never_steady(values):
    assert steady_state.judge(values, SNIA) == {"steady": False}


def test_limits_are_those_asked_for():
    strict = steady_state.normalise({"window": 3, "excursion_percent": 1, "slope_percent": 50}, 10)
    assert not steady_state.judge([100, 102, 100], strict)["steady"]
    assert steady_state.judge([100, 102, 100], {**strict, "excursion_percent": 2})["steady"]


def test_normalised():
    assert SNIA == {
        "metric": "iops",
        "window": 5,
        "excursion_percent": 20,
        "slope_percent": 10,
        "round_s": 10,
        "budget_s": 250,
    }
    assert steady_state.rounds(SNIA) == 25
    assert steady_state.normalise({"round_s": 2, "window": 3, "budget_s": 6.9}, 10)["budget_s"] == 6.9
    assert steady_state.normalise(SNIA, 30) == SNIA


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ([], "steady_state"),
        ({"windows": 5}, "steady_state.windows"),
        ({"metric": "ios"}, "steady_state.metric"),
        ({"window": 1}, "steady_state.window"),
        ({"window": "5"}, "steady_state.window"),
        ({"round_s": 0}, "steady_state.round_s"),
        ({"round_s": 1.5}, "steady_state.round_s"),
        ({"round_s": "x"}, "steady_state.round_s"),
        ({"excursion_percent": -1}, "steady_state.excursion_percent"),
        ({"slope_percent": True}, "steady_state.slope_percent"),
        ({"budget_s": 49}, "steady_state.budget_s"),
        ({"budget_s": "1h"}, "steady_state.budget_s"),
    ],
)
def test_what_is_wrong_is_named(asked, named):
    with pytest.raises(Failure) as caught:
        steady_state.normalise(asked, 10)
    assert (caught.value.code, caught.value.details["variable"]) == ("bad_value", named)


def test_told_is_the_result_s_part():
    assert steady_state.judgement([7, 5], SNIA) == {
        "metric": "iops",
        "steady": False,
        "window": 5,
        "rounds": [7, 5],
        "round_s": 10,
        "limits": {"excursion_percent": 20, "slope_percent": 10},
        "budget_s": 250,
    }
