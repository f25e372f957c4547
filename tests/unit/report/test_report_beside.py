# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers that lie beside each other: the ratio, its interval against SciPy and by simulation, and what a report says of them."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import model, sentences
from ansible_collections.storlab.testbed.plugins.plugin_utils.report.beside import extremes
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from fixtures.report import make_fixture


def point(layer, workload, repetition, iops):
    return {"layer": layer, "workload_id": workload, "repetition": repetition, "total": {"iops": iops}}


def points(rates):
    """rates: {layer: {workload: [IOPS of each repetition]}}"""
    return [
        point(layer, workload, number, iops)
        for layer, workloads in rates.items()
        for workload, values in workloads.items()
        for number, iops in enumerate(values, 1)
    ]


def test_the_ratio_is_the_geometric_mean_over_the_workloads_that_both_did():
    rates = {"file": {"4k": [100, 100], "64k": [50], "1m": [3]}, "lun": {"4k": [200, 200], "64k": [400]}}
    sides = extremes(points(rates), ["file", "lun"])
    assert (sides.most, sides.least, sides.workloads) == ("lun", "file", 2)
    assert sides.ratio == pytest.approx(4) and sides.by_workload == pytest.approx((2, 8))


def test_the_interval_of_one_workload_is_that_of_a_paired_t_test():
    stats = pytest.importorskip("scipy.stats")
    file, lun = [101.0, 97.0, 110.0, 104.0], [120.0, 131.0, 119.0, 133.0]
    sides = extremes(points({"file": {"4k": file}, "lun": {"4k": lun}}), ["file", "lun"])
    logs = [math.log(b / a) for a, b in zip(file, lun)]
    interval = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    assert sides.between == pytest.approx((math.exp(interval.low), math.exp(interval.high)))


def test_workloads_that_differ_do_not_widen_the_interval():
    alike = {"file": {"4k": [100, 101], "64k": [100, 101]}, "lun": {"4k": [200, 204], "64k": [200, 204]}}
    unlike = {**alike, "lun": {"4k": [200, 204], "64k": [900, 918]}}
    widths = [
        math.log(sides.between[1] / sides.between[0])
        for sides in (extremes(points(rates), ["file", "lun"]) for rates in (alike, unlike))
    ]
    assert widths[0] == pytest.approx(widths[1])


def test_the_interval_holds_the_truth_as_often_as_it_says():
    chance, hits, trials = random.Random(1907), 0, 600  # noqa: S311 noise, no secret
    for _trial in range(trials):
        rates = {
            layer: {
                workload: [level * math.exp(chance.gauss(0, 0.05)) for _ in range(3)]
                for workload, level in zip(("4k", "16k", "64k"), levels)
            }
            for layer, levels in (("file", (900.0, 500.0, 70.0)), ("lun", (990.0, 650.0, 63.0)))
        }
        truth = (1.1 * 1.3 * 0.9) ** (1 / 3)
        sides = extremes(points(rates), ["file", "lun"])
        low, high = sides.between if sides.most == "lun" else (1 / sides.between[1], 1 / sides.between[0])
        hits += low <= truth <= high
    assert 0.93 <= hits / trials <= 0.97


def test_a_single_repetition_has_no_interval_and_three_layers_none_either():
    single = {"a": {"4k": [10]}, "b": {"4k": [30]}}
    assert extremes(points(single), ["a", "b"]).between is None
    three = {name: {"4k": [rate, rate + 1]} for name, rate in (("a", 10), ("b", 40), ("c", 20))}
    sides = extremes(points(three), ["a", "b", "c"])
    assert (sides.most, sides.least, sides.between) == ("b", "a", None)


def test_a_layer_that_did_other_workloads_is_left_out():
    rates = {"surface": {"4k": [7]}, "2 drives": {"128k": [11], "1m": [3]}, "4 drives": {"128k": [22], "1m": [12]}}
    sides = extremes(points(rates), list(rates))
    assert (sides.most, sides.least, sides.workloads) == ("4 drives", "2 drives", 2)
    assert sides.ratio == pytest.approx(math.sqrt(8))


def test_no_common_workload_or_one_layer_says_nothing():
    assert extremes(points({"a": {"4k": [10]}, "b": {"64k": [30]}}), ["a", "b"]) is None
    assert extremes(points({"a": {"4k": [10]}}), ["a"]) is None


@pytest.fixture
def run(tmp_path):
    return load.read_run(make_fixture.write_run(str(tmp_path), 1, 3))


def beside_each_other(run, factor):
    """The run of which only two layers are left that stand on nothing."""
    names = ("backing-bench", "guest-guest01")
    run.layers = {name: {**run.layers[name], "parent": None, "kind": "backing"} for name in names}
    run.results = [
        {
            **result,
            "layer_kind": "backing",
            "total": {**result["total"], "iops": (1000.0 + result["repetition"]) * (factor if number else 1)},
        }
        for number, name in enumerate(names)
        for result in run.results
        if result["layer"] == name and result["status"] == "measured"
    ]
    return run


def test_a_report_of_layers_beside_each_other_says_so_first(run):
    report = model.build(beside_each_other(run, 2.5))
    assert report.verdict.startswith("guest-guest01 does 2.50 times the IOPS of backing-bench (95 %: ")
    assert "may be noise" not in report.verdict
    assert report.title == f"Testbed {run.testbed_id}: guest-guest01 beside backing-bench"


def test_the_headline_says_when_the_repetitions_do_not_tell_a_step_from_none(run):
    step = next(step for waterfall in model.build(run).waterfalls for step in waterfall.steps if step.below)
    sentence = sentences._open(replace(step, added_between_ns=(-1.28e6, 9.68e6)))
    assert sentence == " The repetitions cannot yet distinguish it from zero (95 %: −1.28 ms to +9.68 ms)."
    for told in ((1.5e6, 9.0e6), (-9.0e6, -2.0e6), None):
        assert sentences._open(replace(step, added_between_ns=told)) == ""


def test_a_chain_is_no_pair_of_sides(run):
    assert model.build(run).beside is None
