# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The statistics against reference values of SciPy 1.17.1 and against arithmetic by hand."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import stats

A10 = [101.2, 99.8, 100.9, 102.3, 98.7, 100.1, 99.4, 101.7, 100.6, 97.9]
B10 = [103.4, 101.1, 104.2, 102.8, 100.3, 105.0, 101.9, 103.1, 99.9, 102.0]


def seeded(number: int) -> random.Random:
    return random.Random(number)  # noqa: S311 noise, no secret


@pytest.mark.parametrize(
    ("count_a", "count_b", "p"),
    [
        (4, 4, 0.11428571428571428),
        (5, 5, 0.15079365079365079),
        (10, 10, 0.00893069778518695),
        (7, 5, 0.04797979797979798),
    ],
)
def test_mann_whitney_is_exact(count_a, count_b, p):
    assert stats.mann_whitney(A10[:count_a], B10[:count_b]) == pytest.approx(p, rel=1e-12)
    assert stats.mann_whitney(B10[:count_b], A10[:count_a]) == pytest.approx(p, rel=1e-12)


def test_mann_whitney_with_ties_is_the_share_of_all_divisions():
    a, b = [1, 1, 2, 3, 3], [2, 3, 4, 4, 5]

    # By hand: all 252 ways to divide the ten values, by the number of pairs that each side wins.
    def wins(chosen):
        rest = list(a + b)
        for value in chosen:
            rest.remove(value)
        return sum((one > other) + (one == other) / 2 for one in chosen for other in rest)

    ways = [wins([(a + b)[place] for place in places]) for places in itertools.combinations(range(10), 5)]
    expected = sum(abs(one - 12.5) >= abs(wins(a) - 12.5) for one in ways) / 252
    assert stats.mann_whitney(a, b) == pytest.approx(expected)
    # Percentiles come out of bins: complete separation stays what it is when all repetitions fall into one.
    assert stats.mann_whitney([10] * 4, [12] * 4) == pytest.approx(2 / 70)
    assert stats.mann_whitney([7] * 5, [7] * 5) == 1.0


def test_many_values_take_the_normal_approximation_with_corrections():
    a = [round(50 + index * 1.37 % 7, 2) for index in range(40)]
    b = [round(51 + index * 2.11 % 7, 2) for index in range(35)]
    assert stats.mann_whitney(a, b) == pytest.approx(0.09757257975695241)
    assert stats.signed_rank([round((index * 7 % 41) - 16.5, 2) for index in range(70)]) == pytest.approx(
        0.05125929620085157
    )
    assert stats.mann_whitney([7] * 40, [7] * 40) == 1.0


@pytest.mark.parametrize(("count", "p"), [(5, 0.0625), (6, 0.03125), (10, 0.005859375)])
def test_signed_rank_is_exact(count, p):
    assert stats.signed_rank([late - early for early, late in zip(A10[:count], B10[:count])]) == pytest.approx(
        p, rel=1e-12
    )


def test_signed_rank_leaves_zeros_out():
    assert stats.signed_rank([0, 0, 1, 2, 3, 4]) == stats.signed_rank([1, 2, 3, 4]) == 2 / 16
    assert stats.signed_rank([0, 0, 0]) == 1.0


def test_shift_is_the_median_of_all_differences_and_its_interval_inverts_the_test():
    found = stats.shift(A10, B10)
    pairs = sorted(b - a for a in A10 for b in B10)
    assert found["estimate"] == pytest.approx(statistics.median(pairs))
    # Table of Hollander, Wolfe and Chicken: with 10 and 10 values 23 of the 100 differences are cut off at each end.
    assert (found["low"], found["high"]) == (pairs[23], pairs[76])
    assert found["confidence"] == pytest.approx(1 - 2 * 0.0216, abs=1e-4)
    for edge, rejected in (
        (found["low"] - 1e-6, True),
        (found["low"] + 1e-6, False),
        (found["high"] - 1e-6, False),
        (found["high"] + 1e-6, True),
    ):
        assert (stats.mann_whitney(A10, [value - edge for value in B10]) <= 0.05) == rejected


def test_four_values_give_an_interval_and_three_give_none():
    four = stats.shift(A10[:4], B10[:4])
    assert (four["low"], four["high"]) == (min(B10[:4]) - max(A10[:4]), max(B10[:4]) - min(A10[:4]))
    assert four["confidence"] == pytest.approx(1 - 2 / 70)
    assert set(stats.shift(A10[:3], B10[:3])) == {"estimate"}
    assert set(stats.paired_shift([1.0, 2.0, 4.0, 7.0, 11.0])) == {"estimate"}
    six = [1.0, 2.0, 4.0, 7.0, 11.0, -0.5]
    assert (stats.paired_shift(six)["low"], stats.paired_shift(six)["high"]) == (-0.5, 11.0)


@pytest.mark.parametrize(
    ("probability", "freedom", "quantile"),
    [
        (0.975, 1, 12.706204736174694),
        (0.975, 6, 2.4469118511449786),
        (0.8, 8, 0.8888895177670202),
        (0.9995, 18, 3.9216458250852084),
        (0.99, 7, 2.9979515668685277),
    ],
)
def test_quantiles_of_student(probability, freedom, quantile):
    assert stats.t_quantile(probability, freedom) == pytest.approx(quantile, rel=1e-6)


@pytest.mark.parametrize(
    ("score", "freedom", "p"),
    [(2.5, 6, 0.0465282322841673), (4.1, 7, 0.004573040177139946), (0.3, 38, 0.7658121779878068)],
)
def test_tails_of_student(score, freedom, p):
    assert stats.t_tails(score, freedom) == pytest.approx(p, rel=1e-9)


# -- many points ------------------------------------------------------------------------------------------------------


def cell(generator, count, shift=0.0, spread=1.0):
    return tuple({number: generator.gauss(away, spread) for number in range(1, count + 1)} for away in (0, shift))


def test_one_point_is_an_ordinary_permutation_test():
    one = cell(seeded(11), 5, 1.3)
    values = [*one[0].values(), *one[1].values()]
    means = [
        abs(
            statistics.fmean(values[place] for place in chosen)
            - statistics.fmean(values[place] for place in range(10) if place not in chosen)
        )
        for chosen in itertools.combinations(range(10), 5)
    ]
    expected = sum(mean >= means[0] - 1e-9 for mean in means) / 252
    assert 0.01 < expected < 0.9
    assert stats.family([one], paired=False)["p"] == [pytest.approx(expected)]


def test_interleaved_rounds_are_exchanged_one_by_one():
    one = cell(seeded(5), 6, 0.8)
    differences = [one[1][number] - one[0][number] for number in one[0]]
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, differences)))
        for signs in itertools.product((1, -1), repeat=6)
    ]
    assert stats.family([one], paired=True)["p"] == [pytest.approx(sum(value >= sums[0] - 1e-9 for value in sums) / 64)]


def test_metrics_that_say_the_same_cost_nothing_and_others_do():
    generator = seeded(3)
    one = cell(generator, 5, 2.2)
    alone = stats.family([one], paired=False)["p"][0]
    assert alone <= 0.05
    assert stats.family([one] * 30, paired=False)["p"] == [pytest.approx(alone)] * 30
    others = [cell(generator, 5) for _index in range(30)]
    assert stats.family([one, *others], paired=False)["p"][0] > alone


def test_a_clear_difference_at_one_of_many_points_is_found_with_five_repetitions():
    generator = seeded(8)
    cells = [cell(generator, 5, 9.0 if index == 20 else 0.0) for index in range(36)]
    p = stats.family(cells, paired=False)["p"]
    assert p[20] <= 0.02 and min(value for index, value in enumerate(p) if index != 20) > 0.05


def test_false_alarms_of_a_whole_comparison_stay_near_five_percent():
    generator = seeded(42)
    alarms = sum(
        min(stats.family([cell(generator, 5) for _index in range(8)], paired=False)["p"]) <= 0.05
        for _trial in range(200)
    )
    assert alarms <= 18  # 10 are expected; more than 18 come once in 150 times


def test_values_that_never_vary_raise_no_alarm():
    still = ({1: 2.0, 2: 2.0, 3: 2.0, 4: 2.0}, {1: 2.0, 2: 2.0, 3: 2.0, 4: 2.0})
    assert stats.family([still], paired=False)["p"] == [1.0]
    assert stats.family([], paired=False) == {"p": [], "critical": None}


def test_lost_repetitions_of_one_point_do_not_disturb_the_others():
    generator = seeded(9)
    clear, short = cell(generator, 6, 8.0), cell(generator, 6)
    del short[0][2], short[1][5]
    p = stats.family([clear, short], paired=False)["p"]
    assert p[0] <= 0.01 and p[1] > 0.05


def test_more_relabellings_than_can_be_enumerated_are_sampled_the_same_way_each_time():
    cells = [cell(seeded(index), 9, 1.0) for index in range(3)]
    first = stats.family(cells, paired=False)
    assert first == stats.family(cells, paired=False)
    assert all(p >= 1 / (stats.SAMPLED + 1) for p in first["p"])


# -- planning ---------------------------------------------------------------------------------------------------------


def test_the_visible_difference_is_seen_four_times_out_of_five():
    generator, count = seeded(17), 10
    passed = stats.threshold(0.05, count, count, False)
    away = stats.visible(1.0, passed, count, count, False)
    found = 0
    for _trial in range(400):
        early, late = ([generator.gauss(mean, 1.0) for _index in range(count)] for mean in (0.0, away))
        found += stats.shift(early, late)["low"] > 0
    assert 0.74 <= found / 400 <= 0.88


def test_more_noise_less_effect_or_more_points_take_more_repetitions():
    base = stats.repetitions_needed(0.10, 0.05, 0.05, 0.05, 5, False)
    assert 6 <= base <= 12
    assert stats.repetitions_needed(0.10, 0.08, 0.05, 0.05, 5, False) > base
    assert stats.repetitions_needed(0.08, 0.05, 0.05, 0.05, 5, False) > base
    assert stats.repetitions_needed(0.10, 0.05, 0.001, 0.05, 5, False) > base
    # None at all: the interval has to fit into the margin.
    assert stats.repetitions_needed(0.0, 0.02, 0.05, math.log(1.05), 5, False) <= 8
    assert stats.repetitions_needed(0.05, 0.5, 0.05, 0.05, 5, False) is None
