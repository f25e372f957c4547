# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A typical repetition beside the mean of all: the 20 % trimmed mean, from ten repetitions a side on. The verdict is of the mean."""

from __future__ import annotations

import math
import random

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import comparison, stats, words
from scipy import stats as oracle


@pytest.mark.parametrize("counts", [(10, 10), (14, 23)])
def test_it_is_yuens_interval(counts):
    noise = random.Random(str(counts))  # noqa: S311 nothing secret
    a, b = ([noise.gauss(mean, 0.1) for _one in range(count)] for mean, count in zip((0.0, 0.3), counts))
    shift, known = stats.typical(a, b), oracle.ttest_ind(b, a, equal_var=False, trim=stats.TRIMMED)
    assert shift.estimate / shift.error == pytest.approx(known.statistic)
    assert shift.p == pytest.approx(known.pvalue)
    assert shift.freedom == pytest.approx(known.df)


def test_of_pairs_it_is_the_trimmed_mean_of_their_differences():
    differences = [0.01 * number for number in range(9)] + [7.0]
    shift = stats.typical_paired(differences)
    assert shift.estimate == pytest.approx(oracle.trim_mean(differences, stats.TRIMMED)) == pytest.approx(0.045)
    assert (shift.freedom, stats.typical_paired([0.5] * 10).error) == (5, 0.0)


@pytest.mark.parametrize("tail", [0.0, 0.1])
def test_it_holds_the_typical_change_where_one_in_ten_is_far_off(tail):
    """Both sides vary alike, and of the second one in ten is 20 % slower: its mean falls by 2 %, a typical repetition by next to nothing."""
    noise, held, mean_held = random.Random(str(tail)), 0, 0  # noqa: S311
    for _trial in range(300):
        a, b = ([noise.gauss(0, 0.02) for _one in range(15)] for _side in range(2))
        b = [value + math.log(0.8) * (noise.random() < tail) for value in b]
        low, high = stats.typical(a, b).interval()
        # Left out at the lower end is then one in ten that is far off and one in nine of the others.
        held += low <= -0.1626 * 0.02 * (tail > 0) <= high
        mean_held += stats.apart(a, b).interval()[0] <= 0 <= stats.apart(a, b).interval()[1]
    assert held >= 0.92 * 300
    assert mean_held >= 0.92 * 300 or tail


def result(repetition, iops, variant):
    return {
        "layer": "backing-ds1",
        "workload_id": "4k",
        "variant": variant,
        "repetition": repetition,
        "started_utc": f"2026-05-04T10:{repetition:02}:{'00' if variant == 'a' else '30'}Z",
        "total": {"iops": iops},
    }


def row_of(ours, theirs):
    sides = [
        [result(number, value, variant) for number, value in enumerate(side, 1)]
        for variant, side in zip("ab", (ours, theirs))
    ]
    (row,) = comparison.compare(*sides, metrics=["iops"], compared=("variant",))["rows"]
    return row


def values(count, base):
    return [base * (1 + 0.001 * ((number * 7) % 5)) for number in range(count)]


def test_a_row_has_it_from_ten_on_and_says_it_where_the_mean_says_something_else():
    assert "typical" not in row_of(values(9, 1000.0), values(9, 1100.0))
    row = row_of(values(12, 1000.0), values(12, 1100.0))
    assert row["verdict"] == "better"
    assert row["typical"]["low_percent"] < 10.1 < row["typical"]["high_percent"] + 0.2
    assert "typical" not in words.verdict_words(row, 5.0)
    # Two of twelve repetitions of the second side took twice as long: no difference of the means is certain, one of the others is.
    slow = [value / 2 if number in (3, 8) else value for number, value in enumerate(values(12, 1100.0))]
    row = row_of(values(12, 1000.0), slow)
    assert row["verdict"] == "cannot_tell" and row["typical"]["low_percent"] > 5
    assert "; a typical repetition changed by +" in words.verdict_words(row, 5.0)
