# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Searches on simulated devices: what is measured is computed here from a formula, so that the right answer is known beforehand."""

from __future__ import annotations

import random

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise, workload_id
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import search

BASE = normalise({"block_size": "4k", "runtime_s": 3})


def result(workload, repetition, iops, latency_ns, tail=3, runtime_s=3):
    """All I/O takes latency_ns, but for one in fifty, which takes `tail` times as long: so p99 is tail * latency."""
    ios = round(iops * runtime_s)
    slow = ios // 50
    bins = {str(round(latency_ns)): ios - slow, str(round(tail * latency_ns)): slow}
    total = {
        "ios": ios,
        "bytes": ios * 4096,
        "iops": iops,
        "bandwidth_bytes_s": iops * 4096,
        "latency_mean_ns": latency_ns,
        "histogram": {"unit": "ns", "bins": bins},
        "latency_p99_ns": round(tail * latency_ns),
    }
    return {
        "point_id": f"x.{workload_id(workload)}.r{repetition}",
        "workload": workload,
        "workload_id": workload_id(workload),
        "repetition": repetition,
        "runtime_s": runtime_s,
        "total": total,
    }


def run(asked, device, repetitions=1, base=BASE, limit=400):
    """Follow the search to its end; returns the answer and the points in the order they were measured."""
    spec, measured, points = search.validate(asked), {}, []
    while True:
        new = [
            (workload, number)
            for workload, count in search.wanted(spec, base, repetitions, measured)
            for number in range(1, count + 1)
            if number > len(measured.get(workload_id(workload), []))
        ]
        if not new:
            return search.answer(spec, base, measured), points
        for workload, number in new:
            points.append((workload_id(workload), number))
            measured.setdefault(workload_id(workload), []).append(device(workload, number))
        assert len(points) < limit, "the search does not end"


def saturating(servers, service_ns):
    """Serves so many at once at constant latency; what is more has to wait (Little's law)."""

    def device(workload, repetition):
        depth = workload["queue_depth"] * workload["workers"]
        latency = service_ns * max(1, depth / servers)
        return result(workload, repetition, depth / latency * 1e9, latency)

    return device


def queue(service_rate):
    """M/M/1 under an open load: latency 1/(mu - lambda); above the rate it falls behind."""

    def device(workload, repetition):
        offered = workload.get("rate_iops", service_rate * 0.999)
        iops = min(offered, service_rate * 0.999)
        return result(workload, repetition, iops, 1e9 / (service_rate - iops))

    return device


LIMIT = {"max_iops_at": {"limit_us": 900, "key": "queue_depth", "low": 1, "high": 1000}}


# ---------------------------------------------------------------- the greatest load within a limit


def test_the_greatest_depth_within_the_limit_is_found():
    # p99 is 3 * 100 us * depth / 4: 900 us at depth 12.
    found, points = run(LIMIT, saturating(4, 100_000))
    assert (found["outcome"], found["found"]["load"]) == ("found", 12)
    assert found["found"]["iops"] == pytest.approx(4 / 100e-6)
    assert found["found"]["latency_p99_ns"] == 900_000
    over = [one for one in found["steps"] if not one["within"]]
    assert over[0]["load"] == 13
    assert len(points) <= 10


def test_precision_saves_steps():
    wide = {"max_iops_at": {**LIMIT["max_iops_at"], "limit_us": 60_000, "precision_percent": 20}}
    exact = {"max_iops_at": {**LIMIT["max_iops_at"], "limit_us": 60_000, "precision_percent": 0.1}}
    coarse, few = run(wide, saturating(4, 100_000))
    fine, many = run(exact, saturating(4, 100_000))
    assert fine["found"]["load"] == 800
    assert 640 <= coarse["found"]["load"] <= 800
    assert len(few) < len(many)


def test_open_load_of_a_queue():
    # p99 = 3e9 / (mu - lambda) ns <= 3 ms at lambda = 9000 of 10000.
    asked = {"max_iops_at": {"limit_ms": 3, "key": "rate_iops", "low": 1000, "high": 50000, "precision_percent": 1}}
    found, _points = run(asked, queue(10_000))
    assert 8910 <= found["found"]["load"] <= 9000


def test_a_rate_that_is_not_reached_is_not_within_the_limit():
    """A generator that falls behind keeps its latency: the I/Os that are never issued would not show."""

    def device(workload, repetition):
        return result(workload, repetition, min(workload["rate_iops"], 5000), 1000)

    found, _points = run(
        {"max_iops_at": {"limit_ms": 3, "key": "rate_iops", "low": 100, "high": 100_000, "precision_percent": 1}},
        device,
    )
    assert found["outcome"] == "found"
    assert 5000 * 0.98 <= found["found"]["load"] <= 5000 / 0.95


def test_a_limit_that_even_the_lowest_load_breaks():
    found, points = run({"max_iops_at": {"limit_ns": 299_999, "high": 64}}, saturating(4, 100_000))
    assert found["outcome"] == "lowest_breaks_limit"
    assert "found" not in found
    assert points == [("4k-r100-rnd100-qd1-w1", 1)]


def test_a_limit_that_even_the_highest_load_keeps():
    found, points = run({"max_iops_at": {"limit_ms": 300, "high": 100}}, saturating(4, 100_000))
    assert (found["outcome"], found["found"]["load"]) == ("highest_within_limit", 100)
    assert len(points) == 8


@pytest.mark.parametrize("seed", range(20))
def test_noise_of_the_tail_does_not_mislead_much(seed):
    """p99 is disturbed by a factor of up to 1.3 either way, and now and then by 3: the answer stays near the true one, 48."""
    noise = random.Random(seed)  # noqa: S311, nothing secret
    quiet = saturating(16, 100_000)

    def device(workload, repetition):
        one = quiet(workload, repetition)
        factor = 3 if noise.random() < 0.05 else noise.uniform(1 / 1.3, 1.3)
        return result(workload, repetition, one["total"]["iops"], one["total"]["latency_mean_ns"], tail=3 * factor)

    found, points = run({"max_iops_at": {**LIMIT["max_iops_at"]}}, device, repetitions=3)
    assert found["outcome"] == "found"
    assert 48 / 1.6 <= found["found"]["load"] <= 48 * 1.6
    assert found["found"]["latency_p99_ns"] <= 900_000
    assert len(points) <= search.most_points(search.validate(LIMIT), 3)


def test_a_single_outlier_is_measured_again_and_outvoted():
    """The first measurement at depth 4 is three times too slow; the loads above it say otherwise only when they are measured."""
    quiet = saturating(64, 100_000)

    def device(workload, repetition):
        one = quiet(workload, repetition)
        bad = workload["queue_depth"] == 4 and repetition == 1
        return result(
            workload, repetition, one["total"]["iops"], one["total"]["latency_mean_ns"], tail=30 if bad else 3
        )

    found, points = run({"max_iops_at": {"limit_us": 900, "high": 1000}}, device, repetitions=3)
    assert [number for name, number in points if "-qd4-" in name] == [1, 2, 3, 4, 5, 6]
    assert found["found"]["load"] == 192


@pytest.mark.parametrize(
    ("verdicts", "place"),
    [
        ("", 0),
        ("+", 1),
        ("-", 0),
        ("++--", 2),
        ("++-+--", 2),
        ("+-+++-", 5),
        ("-+", 0),
        ("+-+-", 1),
    ],
)
def test_the_cut_contradicts_the_fewest_measurements(verdicts, place):
    known = [{"load": load, "within": verdict == "+", "repetitions": 1} for load, verdict in enumerate(verdicts)]
    assert search.cut(known) == place


def test_the_cut_counts_repetitions():
    known = [
        {"within": True, "repetitions": 3},
        {"within": False, "repetitions": 2},
        {"within": True, "repetitions": 3},
        {"within": False, "repetitions": 3},
    ]
    assert search.cut(known) == 3


# ---------------------------------------------------------------- the knee


def test_the_knee_of_a_device_that_serves_24_at_once():
    found, points = run({"knee": {"values": [1, 4, 16, 64, 256], "refine": 6}}, saturating(24, 100_000))
    loads = [one["load"] for one in found["steps"]]
    assert loads == sorted(loads) and len(points) == 11
    nearest = min(loads, key=lambda load: abs(load - 24))
    assert (found["outcome"], found["found"]["load"]) == ("found", nearest)
    assert abs(nearest - 24) <= 6


def test_the_knee_of_a_queue_is_at_half_its_rate():
    """Kleinrock: the power of M/M/1 is greatest at a utilisation of one half."""
    found, _points = run(
        {"knee": {"key": "rate_iops", "values": [1000, 3000, 5000, 7000, 9000], "refine": 0}}, queue(10_000)
    )
    assert found["found"]["load"] == 5000


def test_a_device_that_gains_nothing_from_depth_has_its_knee_at_the_lowest():
    found, _points = run({"knee": {"values": [1, 2, 4, 8], "refine": 2}}, saturating(1, 50_000))
    assert (found["outcome"], found["found"]["load"]) == ("at_lowest", 1)


def test_a_device_that_never_saturates_has_its_knee_at_the_highest():
    found, _points = run({"knee": {"values": [1, 2, 4, 8], "refine": 2}}, saturating(10_000, 50_000))
    assert (found["outcome"], found["found"]["load"]) == ("at_highest", 8)


# ---------------------------------------------------------------- the ladder


def test_the_ladder_measures_the_peak_and_then_its_shares():
    found, points = run({"rate_ladder": {"percents": [90, 50, 20]}}, queue(10_000), repetitions=2)
    assert found["found"]["iops"] == pytest.approx(9990)
    assert [(one["percent"], one["load"]) for one in found["steps"]] == [(20, 1998), (50, 4995), (90, 8991)]
    assert [one["reached"] for one in found["steps"]] == [True, True, True]
    assert found["steps"][1]["latency_mean_ns"] == pytest.approx(1e9 / 5005)
    assert [number for _name, number in points[:2]] == [1, 2]
    assert len({name for name, _number in points}) == 4


def test_the_ladder_offers_its_load_at_random_moments():
    spec = search.validate({"rate_ladder": {"percents": [50]}})
    offered = search.at_load(spec, BASE, 1234)
    assert (offered["rate_iops"], offered["rate_process"]) == (1234, "poisson")
    assert search.at_load(spec, BASE, None) == BASE


# ---------------------------------------------------------------- going on, and steps


def test_what_is_stored_is_not_asked_for_again_and_leads_to_the_same_decisions():
    """A search begun anew with the results of the first half goes on with the second half."""
    _found, points = run(LIMIT, saturating(4, 100_000))
    device, spec, measured = saturating(4, 100_000), search.validate(LIMIT), {}
    loads = {workload_id(normalise({**BASE, "queue_depth": load})): load for load in range(1, 1001)}
    for name, number in points[:5]:
        measured.setdefault(name, []).append(device(normalise({**BASE, "queue_depth": loads[name]}), number))
    rest = []
    while True:
        new = [
            workload
            for workload, _count in search.wanted(spec, BASE, 1, measured)
            if workload_id(workload) not in measured
        ]
        if not new:
            break
        rest += [(workload_id(workload), 1) for workload in new]
        measured.update({workload_id(workload): [device(workload, 1)] for workload in new})
    assert rest == points[5:]


def test_other_workloads_of_the_layer_do_not_disturb():
    other = normalise({"block_size": "64k", "queue_depth": 7})
    measured = {workload_id(other): [result(other, 1, 10, 10)]}
    assert search.wanted(search.validate(LIMIT), BASE, 2, measured) == [(normalise({**BASE, "queue_depth": 1}), 2)]


def test_a_step_merges_histograms_and_weighs_rates_by_time():
    fast, slow = result(BASE, 1, 3000, 100, runtime_s=1), result(BASE, 2, 400, 5000, runtime_s=3)
    one = search.step(1, [fast, slow])
    assert one["iops"] == pytest.approx((3000 * 1 + 400 * 3) / 4)
    # 3000 I/Os of 100 ns (60 of them 300), 1200 of 5000 ns (24 of them 15000): the 4158th of 4200 is of 5000.
    assert one["latency_p99_ns"] == 5000
    assert one["latency_mean_ns"] == pytest.approx((3000 * 100 + 1200 * 5000) / 4200)


def test_a_metric_that_was_not_measured_is_said():
    def device(workload, repetition):
        found = result(workload, repetition, 100, 100)
        found["total"] = {
            key: value for key, value in found["total"].items() if not key.startswith(("latency", "histogram"))
        }
        return found

    with pytest.raises(Failure) as caught:
        run(LIMIT, device)
    assert caught.value.code == "metric_missing"


# ---------------------------------------------------------------- what is asked for


@pytest.mark.parametrize("asked", [LIMIT, {"knee": {"values": ["1", 4, 16, 4]}}, {"rate_ladder": {}}])
def test_what_was_validated_validates_to_itself(asked):
    found = search.validate(asked)
    assert search.validate(found) == found


@pytest.mark.parametrize(
    ("asked", "variable"),
    [
        ({}, "search"),
        ([], "search"),
        ({"knee": {"values": [1, 2, 3]}, "rate_ladder": {}}, "search"),
        ({"peak": {}}, "search"),
        ({"knee": [1, 2, 3]}, "search.knee"),
        ({"knee": {"values": [1, 2]}}, "search.knee.values"),
        ({"knee": {"values": [1, 2, 0]}}, "search.knee.values"),
        ({"knee": {"values": [1, 2, 4], "refine": -1}}, "search.knee.refine"),
        ({"knee": {"values": [1, 2, 4], "key": "block_size"}}, "search.knee.key"),
        ({"knee": {"values": [1, 2, 4], "value": 3}}, "search.knee.value"),
        ({"max_iops_at": {}}, "search.max_iops_at.limit_ms"),
        ({"max_iops_at": {"limit_ms": 1, "limit_us": 1000}}, "search.max_iops_at.limit_ms"),
        ({"max_iops_at": {"limit_ms": "fast"}}, "search.max_iops_at.limit_ms"),
        ({"max_iops_at": {"limit_us": 0}}, "search.max_iops_at.limit_us"),
        ({"max_iops_at": {"limit_us": 5, "metric": "p99"}}, "search.max_iops_at.metric"),
        ({"max_iops_at": {"limit_us": 5, "key": "read_percent"}}, "search.max_iops_at.key"),
        ({"max_iops_at": {"limit_us": 5, "low": 8, "high": 8}}, "search.max_iops_at.high"),
        ({"max_iops_at": {"limit_us": 5, "low": 0}}, "search.max_iops_at.low"),
        ({"max_iops_at": {"limit_us": 5, "precision_percent": 0}}, "search.max_iops_at.precision_percent"),
        ({"rate_ladder": {"percents": []}}, "search.rate_ladder.percents"),
        ({"rate_ladder": {"percents": [50, 101]}}, "search.rate_ladder.percents"),
    ],
)
def test_what_cannot_be_searched_is_refused(asked, variable):
    with pytest.raises(Failure) as caught:
        search.validate(asked)
    assert (caught.value.code, caught.value.details["variable"]) == ("bad_value", variable)


# ---------------------------------------------------------------- the most, whatever the wait


def test_the_most_is_found_where_more_load_brings_nothing():
    found, points = run({"max_iops": {"high": 64}}, saturating(4, 100_000), repetitions=2)
    assert (found["outcome"], found["found"]["load"], found["found"]["iops"]) == ("found", 4, 40_000)
    # Two doublings without more, and no further.
    assert [one["load"] for one in found["steps"]] == [1, 2, 4, 8, 16]
    assert len(points) == 10 <= search.most_points(search.validate({"max_iops": {"high": 64}}), 2)


def test_one_doubling_in_vain_is_chance():
    def device(workload, repetition):
        iops = {1: 1000, 2: 2000, 4: 1900, 8: 5000, 16: 5100, 20: 5200}[workload["workers"]]
        return result(workload, repetition, iops, 1000)

    found, _points = run({"max_iops": {"key": "workers", "high": 20}}, device)
    assert [one["load"] for one in found["steps"]] == [1, 2, 4, 8, 16, 20]
    assert (found["outcome"], found["found"]["load"]) == ("at_highest", 20)


def test_the_most_of_a_device_that_only_falls_is_its_first():
    found, _points = run({"max_iops": {"low": 3, "high": 50}}, lambda w, r: result(w, r, 9000 / w["queue_depth"], 1000))
    assert (found["outcome"], found["found"]["load"], len(found["steps"])) == ("found", 3, 3)


@pytest.mark.parametrize(
    ("options", "variable"),
    [
        ({"key": "rate_iops"}, "search.max_iops.key"),
        ({"low": 8, "high": 8}, "search.max_iops.high"),
        ({"limit_us": 5}, "search.max_iops.limit_us"),
    ],
)
def test_what_is_wrong_with_a_search_for_the_most_is_named(options, variable):
    with pytest.raises(Failure) as raised:
        search.validate({"max_iops": options})
    assert raised.value.code == "bad_value" and variable in raised.value.as_result()["msg"]
