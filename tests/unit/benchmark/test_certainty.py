# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A load that a search found keeps its limit as often as it is said to, and the limit is crossed where it is said to be."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import progress, search
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark.certainty import certainty
from test_engine_search import result, run

SEED = 20261127


def searched(noise, deviation, repetitions):
    """(answer, load of the true crossing) of a device whose p99 grows with the depth, as a bend or as a curve, and scatters."""
    servers, limit_ns, bend = noise.uniform(2, 20), noise.uniform(2e6, 8e6), noise.random() < 0.5

    def tail_ns(depth):
        return 300_000 * (max(1, depth / servers) if bend else 1 + (depth / servers) ** 1.5)

    def device(workload, repetition):
        depth = workload["queue_depth"]
        latency_ns = 100_000 * max(1, depth / servers)
        tail = tail_ns(depth) / latency_ns * math.exp(noise.gauss(0, deviation))
        return result(workload, repetition, depth / latency_ns * 1e9, latency_ns, tail=tail, runtime_s=0.05)

    answer, _points = run({"max_iops_at": {"limit_ns": limit_ns, "high": 1000}}, device, repetitions=repetitions)
    share = limit_ns / 300_000
    return answer, servers * (share if bend else (share - 1) ** (1 / 1.5))


@pytest.mark.parametrize(("deviation", "repetitions"), [(0.05, 1), (0.05, 3), (0.15, 3)])
def test_the_probability_is_how_often_the_limit_holds(deviation, repetitions):
    seed = f"{SEED} {deviation} {repetitions}"
    print(f"seed {seed}")
    noise = random.Random(seed)  # noqa: S311, nothing secret
    holds, stated, covered = [], [], []
    for _trial in range(50):
        answer, crossing = searched(noise, deviation, repetitions)
        assert answer["outcome"] == "found"
        best = answer["found"]
        holds.append(best["load"] <= crossing)
        stated.append(best["probability"])
        covered.append(best.get("limit_low", 0) <= crossing <= best.get("limit_high", math.inf))
    print(
        f"holds {statistics.fmean(holds):.2f} stated {statistics.fmean(stated):.2f} covered {statistics.fmean(covered):.2f}"
    )
    assert abs(statistics.fmean(holds) - statistics.fmean(stated)) <= 0.12
    # What is called sure is, and what is called doubtful is not.
    sure = [held for held, probability in zip(holds, stated) if probability >= 0.9]
    doubtful = [held for held, probability in zip(holds, stated) if probability <= 0.2]
    assert len(sure) >= 5 and statistics.fmean(sure) >= 0.8
    assert not doubtful or statistics.fmean(doubtful) <= 0.4
    assert statistics.fmean(covered) >= 0.87


def test_the_answer_of_a_line_is_the_line():
    """Latency = 100 x load: the limit of 800 is crossed at 8."""
    latencies = {load: [100.0 * load] for load in (2, 4, 6, 7, 9, 16)}
    sure = certainty(latencies, 800, 7)
    assert sure.probability > 0.999
    assert sure.low == pytest.approx(8, rel=0.02) and sure.high == pytest.approx(8, rel=0.02)
    assert certainty(latencies, 800, 9).probability < 0.001


def test_noise_makes_it_unsure():
    quiet = {4: [400.0, 404.0], 6: [600.0, 594.0], 7: [707.0, 700.0], 8: [800.0, 808.0]}
    loud = {4: [400.0, 600.0], 6: [600.0, 400.0], 7: [1000.0, 700.0], 8: [800.0, 1200.0]}
    narrow, wide = certainty(quiet, 770, 7), certainty(loud, 770, 7)
    assert 0.95 < narrow.probability < 1 and 0.2 < wide.probability < 0.8
    assert narrow.low > 7 and narrow.high < 8
    assert wide.low is None or wide.low < 6
    assert wide.high is None or wide.high > 9


def test_three_loads_are_too_few_to_know():
    assert certainty({1: [1.0], 2: [2.0], 4: [4.0]}, 3, 2) is None


def test_a_search_that_measured_too_few_loads_says_nothing_of_certainty():
    def device(workload, repetition):
        return result(workload, repetition, 1000, 100_000 * workload["queue_depth"])

    answer, _points = run({"max_iops_at": {"limit_us": 650, "high": 3}}, device)
    assert answer["found"]["load"] == 2
    assert not {"probability", "limit_low", "limit_high"} & set(answer["found"])


def test_a_rate_that_was_not_reached_is_no_latency_of_that_rate():
    """Beyond 5,000 I/Os per second the generator falls behind, and everything waits: the line is of the rates that were reached."""

    def device(workload, repetition):
        rate = workload["rate_iops"]
        return result(workload, repetition, min(rate, 5000), 1000 + rate / 10 if rate <= 5000 / 0.95 else 1e9)

    answer, _points = run(
        {"max_iops_at": {"limit_ms": 3, "key": "rate_iops", "low": 1000, "high": 16_000, "precision_percent": 1}},
        device,
    )
    assert 4950 <= answer["found"]["load"] <= 5300
    assert answer["found"]["probability"] > 0.99


def test_the_line_says_how_sure_it_is():
    answer = {
        "layer": "backing-bench",
        "workload_id": "4k",
        "outcome": "found",
        "search": search.validate({"max_iops_at": {"limit_us": 900}}),
        "found": {"load": 14, "iops": 76_300.0, "latency_p99_ns": 3_330_000},
    }
    plain = progress.answered("h", answer)
    assert plain.endswith("p99 3.33 ms, found")
    answer["found"].update(probability=0.86, limit_low=12.51, limit_high=15.2)
    assert (
        progress.answered("h", answer)
        == f"{plain}, keeps the limit with a probability of 86 % (crossed at 12.5 to 15.2)"
    )
    answer["found"].update(probability=1.0)
    del answer["found"]["limit_high"]
    assert progress.answered("h", answer) == f"{plain}, keeps the limit with a probability of 99 % (crossed above 12.5)"
