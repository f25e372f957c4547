# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on results whose truth is known, what belongs together, and what is refused."""

from __future__ import annotations

import math
import random
import re
import statistics

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import comparison, gate, stats
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import words as wording
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import compare_render
from ansible_collections.storlab.testbed.plugins.plugin_utils.store.load import Run
from fixtures.compare import make_runs

SMALL, LARGE = make_runs.WORKLOADS
MEDIANS = {
    ("backing-a", SMALL): 20_000,
    ("backing-a", LARGE): 7_000,
    ("backing-b", SMALL): 11_000,
    ("backing-b", LARGE): 3_000,
}


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((3, 1, 0, 20, 3, 1), "3 of 28 figures worse, 1 better, 20 within 5 %, 4 without a verdict"),
        ((0, 0, 0, 28, 0, 0), "All 28 figures within 5 %"),
        ((0, 0, 5, 0, 0, 0), "All 5 figures different (may be drift)"),
        ((0, 2, 0, 0, 7, 0), "2 of 9 figures better, 7 without a verdict"),
        ((1, 0, 0, 0, 0, 0), "1 figure worse"),
        ((0, 0, 0, 0, 0, 0), "No figures"),
    ],
)
def test_a_comparison_line_of_counts(counts, words):
    names = ("worse", "better", "different", "no_difference", "cannot_tell", "no_verdict")
    assert wording.line_of_counts(dict(zip(names, counts)), 5) == words


def test_the_line_is_what_a_reader_sees_first():
    compared = comparison.compare(*pair(factor=0.5), margin_percent=5)
    assert compared["summary"].startswith("7 of 28 figures worse") and len(compared["summary"]) <= 80
    assert "\n" not in compared["summary"] and compared["summary"] != compared["headline"]


def changed(factor: float, key: tuple = ("backing-a", SMALL)) -> dict:
    return {**MEDIANS, key: MEDIANS[key] * factor}


def pair(repetitions=5, factor=1.0, variation_percent=1.0, **options):
    before = make_runs.results(repetitions, MEDIANS, variation_percent, seed=1)
    after = make_runs.results(repetitions, changed(factor), variation_percent, seed=2, run_id="after", **options)
    return before, after


def row(found: dict, metric: str, point: str = f"backing-a {SMALL}") -> dict:
    return next(one for one in found["rows"] if one["metric"] == metric and one["point"] == point)


def run(
    results: list,
    host: dict | None = None,
    layers: dict | None = None,
    asked: dict | None = None,
    folder: str | None = None,
) -> Run:
    return Run(
        folder or f"/results/synthetic/{results[0]['run_id']}",
        "synthetic",
        results[0]["run_id"],
        layers=layers or make_runs.layers(),
        environments={"target01": host or make_runs.environment()},
        results=results,
        record=asked or {},
    )


def side(of: Run, **selector) -> dict:
    return {
        "runs": [of],
        "selector": {"layer": None, "variant": None, "workload": None, **selector},
        "label": of.run_id,
    }


# -- verdicts ---------------------------------------------------------------------------------------------------------


def test_the_same_twice_raises_no_alarm():
    found = comparison.compare(*pair())
    assert found["counts"] == {
        "worse": 0,
        "better": 0,
        "different": 0,
        "cannot_tell": 0,
        "no_verdict": 0,
        "no_difference": 28,
    }
    assert found["verdict"] == "no_difference"
    assert (
        found["headline"] == "Measured in turns (5 repetitions per side). None of 28 figures differs by more than 5 %."
    )


def test_a_regression_is_found_where_it_is_and_nowhere_else():
    found = comparison.compare(*pair(factor=0.85, variation_percent=2.0))
    assert {one["point"] for one in found["rows"] if one["verdict"] == "worse"} == {f"backing-a {SMALL}"}
    rate, tail = row(found, "iops"), row(found, "latency_p99_ns")
    assert rate["verdict"] == tail["verdict"] == "worse"
    assert rate["change_low_percent"] < -15 + 3 and -19 < rate["change_percent"] < -11
    assert tail["change_percent"] == pytest.approx(100 / (1 + rate["change_percent"] / 100) - 100, abs=0.01)
    assert rate["change_low_percent"] < rate["change_percent"] < rate["change_high_percent"] < 0
    assert found["verdict"] == "worse" and " 7 of 28 figures are worse, most of all " in found["headline"]


def test_higher_is_better_for_rates_and_lower_for_latencies():
    found = comparison.compare(*pair(factor=1.3))
    assert (
        row(found, "iops")["verdict"],
        row(found, "latency_mean_ns")["verdict"],
        row(found, "us_per_io")["verdict"],
    ) == ("better",) * 3
    assert row(found, "iops")["change_percent"] > 25 and row(found, "latency_mean_ns")["change_percent"] < -20
    assert found["verdict"] == "better"


def test_a_difference_within_the_margin_is_none_however_certain():
    found = comparison.compare(*pair(10, factor=0.98, variation_percent=0.2))
    rate = row(found, "iops")
    assert rate["p_corrected"] < 0.01 and rate["verdict"] == "no_difference"
    assert (
        row(comparison.compare(*pair(10, factor=0.98, variation_percent=0.2), margin_percent=1.0), "iops")["verdict"]
        == "worse"
    )


@pytest.mark.parametrize("repetitions", [1, 2, 3])
def test_fewer_than_four_repetitions_give_no_verdict_however_large_the_difference(repetitions):
    found = comparison.compare(*pair(repetitions, factor=0.2))
    rate = row(found, "iops")
    assert found["counts"]["no_verdict"] == 28 and rate["run_more"] == 4 - repetitions and "change_percent" not in rate
    assert (
        wording.verdict_words(rate, 5)
        == f"no verdict: {repetitions} of at least 4 repetitions, run {4 - repetitions} more"
    )


def test_noise_leaves_it_open_and_says_what_it_would_take():
    found = comparison.compare(*pair(5, factor=0.93, variation_percent=4.0), metrics=["iops"])
    rate = row(found, "iops")
    assert rate["verdict"] == "cannot_tell" and rate["run_more"] > 5 and rate["visible_percent"] > 8
    assert f"run {max(one.get('run_more', 0) for one in found['rows'])} more repetitions per side" in found["headline"]
    # What it asks for is what it takes.
    more = comparison.compare(*pair(5 + rate["run_more"], factor=0.93, variation_percent=4.0), metrics=["iops"])
    assert row(more, "iops")["verdict"] == "worse"


@pytest.mark.parametrize(
    ("percent", "words"),
    [
        (0.26, "0.3 %"),
        (9.94, "9.9 %"),
        (11.4, "11 %"),
        (98.7, "99 %"),
        (99.62, "99.6 %"),
        (99.999, "99.9 %"),
        (100, "100 %"),
        (899, "899 %"),
        (5700, "×58"),
    ],
)
def test_nothing_falls_by_all_of_itself(percent, words):
    assert wording.amount(percent) == words


def test_where_no_number_of_repetitions_helps_the_headline_says_so():
    wild = comparison.compare(*pair(5, factor=0.999, variation_percent=60.0), metrics=["iops"])
    open_rows = [one for one in wild["rows"] if one["verdict"] == "cannot_tell"]
    hopeless = [one for one in open_rows if "run_more" not in one]
    assert hopeless and "even 60 repetitions may not settle" in wild["headline"]
    assert (f"settle {len(hopeless)} of them" in wild["headline"]) == (len(hopeless) < len(open_rows))


def test_p_is_never_smaller_than_that_of_the_point_alone():
    found = comparison.compare(*pair(5, factor=0.97, variation_percent=3.0))
    assert all(0 < one["p"] <= one["p_corrected"] <= 1 for one in found["rows"])


def test_values_shown_are_pooled_and_tests_see_repetitions():
    before, after = pair()
    # One repetition has a tail of its own, which the merged histogram shows and no median does.
    worst = next(
        one for one in after if one["layer"] == "backing-a" and one["workload_id"] == SMALL and one["repetition"] == 3
    )
    worst["total"]["histogram"]["bins"] = {"777777": 100_000}
    found = comparison.compare(before, after)
    mine = [one["total"] for one in after if one["layer"] == "backing-a" and one["workload_id"] == SMALL]
    merged: dict = {}
    for part in mine:
        for edge, count in part["histogram"]["bins"].items():
            merged[int(edge)] = merged.get(int(edge), 0) + count
    seen, wanted = 0, math.ceil(0.99 * sum(merged.values()))
    for edge in sorted(merged):
        seen += merged[edge]
        if seen >= wanted:
            break
    assert row(found, "latency_p99_ns")["candidate"]["value"] == edge == 777777
    assert row(found, "latency_p99_ns")["candidate"]["high"] == max(part["latency_p99_ns"] for part in mine) < edge
    assert row(found, "iops")["candidate"]["value"] == statistics.median(part["iops"] for part in mine)


def test_a_value_of_zero_has_no_ratio():
    before, after = pair()
    for one in after:
        one["cpu"]["us_per_io"] = 0
    found = comparison.compare(before, after, metrics=["us_per_io"])
    assert {one["verdict"] for one in found["rows"]} == {"no_verdict"} and "no ratio" in found["rows"][0]["why"]


# -- metrics ----------------------------------------------------------------------------------------------------------


def test_any_number_of_a_result_can_be_compared():
    before, after = pair()
    for results, rate in ((before, 900.0), (after, 700.0)):
        for index, one in enumerate(results):
            one.update(
                tpm=rate * 60 + index, database={"orders_s": rate + index / 10, "wait_ms": 3000 / rate + index / 1e4}
            )
    found = comparison.compare(before, after, metrics=["tpm", "database.orders_s higher", "database.wait_ms lower"])
    assert {(one["metric"], one["verdict"]) for one in found["rows"]} == {
        ("tpm", "worse"),
        ("database.orders_s", "worse"),
        ("database.wait_ms", "worse"),
    }


def test_directions_are_apart():
    found = comparison.compare(*pair(factor=0.8), metrics=["read.latency_p99_ns", "write.iops"])
    assert [(one["metric"], one["workload_id"]) for one in found["rows"]] == [
        ("read.latency_p99_ns", SMALL),
        ("write.iops", LARGE),
        ("read.latency_p99_ns", SMALL),
        ("write.iops", LARGE),
    ]
    assert found["rows"][0]["verdict"] == "worse"


@pytest.mark.parametrize("metric", ["nonsense", "iops sideways", "read.us_per_io", "", 5, "a b c"])
def test_unknown_metrics_are_refused(metric):
    with pytest.raises(Failure) as caught:
        comparison.compare(*pair(), metrics=[metric])
    assert caught.value.code == "bad_value" and "metrics" in str(caught.value)


@pytest.mark.parametrize("margin", [0, -1, 100, "5", True, None, float("nan")])
def test_margins_that_are_none_are_refused(margin):
    with pytest.raises(Failure) as caught:
        comparison.compare(*pair(), margin_percent=margin)
    assert "margin_percent" in str(caught.value)


# -- what belongs together --------------------------------------------------------------------------------------------


def test_what_one_side_lacks_is_listed():
    before, after = pair()
    after = [one for one in after if (one["layer"], one["workload_id"]) != ("backing-b", LARGE)]
    for one in after:
        if one["layer"] == "backing-b":
            del one["cpu"]["us_per_io"]
    found = comparison.compare(before, after)
    assert len(found["rows"]) == 20
    assert found["unmatched"] == [
        {"side": "baseline", "point": f"backing-b {LARGE}"},
        {"side": "baseline", "point": f"backing-b {SMALL}", "metric": "us_per_io"},
    ]


def test_failed_points_count_in_no_figure_and_are_listed():
    before, after = pair(6)
    after[0].update(status="failed", failures=[{"code": "io_errors", "message": "3 I/O errors."}])
    found = comparison.compare(before, after)
    assert found["failed"] == [{"side": "candidate", "point_id": f"backing-a.{SMALL}.r1", "reason": "3 I/O errors."}]
    assert (row(found, "iops")["baseline"]["repetitions"], row(found, "iops")["candidate"]["repetitions"]) == (6, 5)


def test_nothing_in_common_is_a_failure_that_says_what_there_is():
    before = make_runs.results(4, {("backing-a", SMALL): 100, ("backing-a", LARGE): 100})
    after = make_runs.results(4, {("target-x", SMALL): 100, ("target-y", SMALL): 100})
    with pytest.raises(Failure) as caught:
        comparison.compare(before, after)
    assert caught.value.code == "nothing_to_compare" and f"target-x {SMALL}" in str(caught.value)


def test_a_repetition_that_is_there_twice_is_refused():
    before, after = pair()
    with pytest.raises(Failure) as caught:
        comparison.compare(before, [*after, after[3]])
    assert "twice" in str(caught.value)


@pytest.mark.parametrize("results", [[], None, "results", [{"layer": "x"}], ["x"]])
def test_what_are_no_results_is_refused(results):
    with pytest.raises(Failure) as caught:
        comparison.compare(results, pair()[1])
    assert caught.value.code == "bad_value" and "baseline" in str(caught.value)


def test_two_layers_in_hand_are_compared_by_workload():
    results = pair()[0]
    found = comparison.compare(
        *([one for one in results if one["layer"] == layer] for layer in ("backing-a", "backing-b")), metrics=["iops"]
    )
    assert [one["point"] for one in found["rows"]] == [
        f"backing-a → backing-b {SMALL}",
        f"backing-a → backing-b {LARGE}",
    ]
    assert [one["verdict"] for one in found["rows"]] == ["worse", "worse"]


# -- rounds -----------------------------------------------------------------------------------------------------------


def interleaved(rounds: int, drift_percent: float, factor: float) -> tuple:
    """Two variants that took turns while the machine became slower by drift_percent a round."""
    found = {"plain": [], "tuned": []}
    noise = (
        make_runs.results(rounds, {("backing-a", SMALL): 1.0}, 0.3, seed=4),
        make_runs.results(rounds, {("backing-a", SMALL): 1.0}, 0.3, seed=5),
    )
    for number in range(rounds):
        for index, (variant, better) in enumerate((("plain", 1.0), ("tuned", factor))):
            rate = 20_000 * better * (1 - drift_percent / 100) ** number * noise[index][number]["total"]["iops"]
            one = make_runs.result(
                "backing-a", SMALL, number + 1, rate, second=100 * number + 10 * index, variant=variant
            )
            one["point_id"] += f".{variant}"
            found[variant].append(one)
    return found["plain"], found["tuned"]


def test_interleaved_rounds_see_through_a_drift():
    plain, tuned = interleaved(8, drift_percent=4.0, factor=1.03)
    found = comparison.compare(plain, tuned, metrics=["iops"], margin_percent=1.0)
    assert found["design"] == "interleaved" and found["rows"][0]["verdict"] == "better"
    assert found["rows"][0]["visible_percent"] < 1.5
    # The same figures, but as if measured one after the other: the drift is noise then, and what it leaves could be time's.
    for one in tuned:
        one["started_utc"] = one["started_utc"].replace("T00", "T05")
    blocks = comparison.compare(plain, tuned, metrics=["iops"], margin_percent=1.0)
    assert blocks["design"] == "blocks" and blocks["rows"][0]["verdict"] == "cannot_tell"
    assert blocks["rows"][0]["visible_percent"] > 10


def test_a_steady_drift_within_fixed_rounds_is_no_effect():
    # 3 % a round, half of it between plain and tuned, which always comes second; nothing else differs.
    plain, tuned = interleaved(8, drift_percent=0.0, factor=1.0)
    for number, (ours, theirs) in enumerate(zip(plain, tuned)):
        for one, step in ((ours, 2 * number), (theirs, 2 * number + 1)):
            one["total"]["iops"] *= 0.985**step
            one["started_utc"] = f"2026-11-21T01:{step:02}:00Z"
    fixed = comparison.compare(plain, tuned, metrics=["iops"], margin_percent=1.0)
    assert (fixed["design"], fixed["method"]) == ("interleaved", "pairs")
    assert fixed["rows"][0]["verdict"] == "cannot_tell"
    assert fixed["rows"][0]["change_low_percent"] < -1.3 and fixed["rows"][0]["change_high_percent"] > 0
    # And an effect beyond it is found, with an interval that holds the truth.
    for one in tuned:
        one["total"]["iops"] *= 1.10
    found = comparison.compare(plain, tuned, metrics=["iops"], margin_percent=1.0)["rows"][0]
    assert found["verdict"] == "better" and found["change_low_percent"] < 10 < found["change_high_percent"]


def test_five_rounds_are_too_few_for_pairs_and_enough_for_groups():
    found = comparison.compare(*interleaved(5, drift_percent=0.0, factor=1.2), metrics=["iops"])
    assert (found["design"], found["method"]) == ("interleaved", "groups")
    assert found["rows"][0]["verdict"] == "better"


# -- what time did ----------------------------------------------------------------------------------------------------


def sequence(rates: list, labels: str, run_length: int = 0, stamps: bool = True) -> tuple:
    """Results of one point in the order of time; with a run_length so many in a row are a run of their own."""
    sides: dict = {"A": [], "B": []}
    for place, (rate, label) in enumerate(zip(rates, labels)):
        number = place % run_length + 1 if run_length else len(sides[label]) + 1
        run_id = f"run{place // run_length}" if run_length else label
        one = make_runs.result("backing-a", SMALL, number, rate, run_id, second=30 * place)
        if not stamps:
            del one["started_utc"]
        sides[label].append(one)
    return sides["A"], sides["B"]


def white(count: int, seed: int, percent: float = 0.5) -> list:
    return [
        one["total"]["iops"] for one in make_runs.results(count, {("backing-a", SMALL): 20_000}, percent, seed=seed)
    ]


def test_one_thermal_decay_split_in_two_is_no_regression():
    rates = [rate * (1 + 0.3 * math.exp(-place / 6)) for place, rate in enumerate(white(20, 3))]
    found = comparison.compare(*sequence(rates, "A" * 10 + "B" * 10))
    assert found["design"] == "blocks" and {one["verdict"] for one in found["rows"]} == {"cannot_tell"}
    first = found["rows"][0]
    assert first["p_corrected"] < 0.01 and first["drift"]["side"] == "baseline" and first["drift"]["kind"] == "trend"
    assert wording.verdict_words(first, 5).startswith("cannot tell: it drifted, the baseline by −18 %")
    assert found["headline"].startswith(
        "Measured one block after the other, so any difference may be drift unless it is more than time explains."
    )
    assert "drifted, so measure in turns" in found["headline"]
    assert objections(found, "regression") == set() and objections(found, "iops cannot_tell")


def test_one_block_after_the_other_is_different_where_time_may_have_made_it():
    rates = [rate * (1 if place < 8 else 0.7) for place, rate in enumerate(white(16, 5))]
    found = comparison.compare(*sequence(rates, "A" * 8 + "B" * 8), metrics=["iops"])
    assert found["rows"][0]["verdict"] == found["verdict"] == "different"
    assert re.fullmatch(r"different, by \d+ to 30 %, but may be drift", wording.verdict_words(found["rows"][0], 5))
    assert objections(found, "regression") == set() and objections(found, "cannot_tell")
    turns = comparison.compare(
        *sequence([rates[place // 2 + 8 * (place % 2)] for place in range(16)], "AB" * 8), metrics=["iops"]
    )
    assert turns["design"] == "interleaved" and turns["rows"][0]["verdict"] == "worse"


def blocks(factor: float, machine: float | None = None, count: int = 4, seed: int = 5) -> dict:
    """One run a side, one after the other, the candidate this many times the baseline. machine: by how much the hosts themselves changed."""
    rates = [rate * (1 if place < count else factor) for place, rate in enumerate(white(2 * count, seed))]
    known = None if machine is None else lambda _row: abs(math.log(machine))
    return comparison.compare(
        *sequence(rates, "A" * count + "B" * count), metrics=["iops", "latency_mean_ns"], machines=known
    )


@pytest.mark.parametrize(
    ("factor", "machine", "verdict"),
    [
        # Nobody looked at the machine itself: half is found, a third is not.
        (0.5, None, "worse"),
        (0.7, None, "different"),
        (2.0, None, "better"),
        # The reference checks say that it stood still.
        (0.7, 1.0, "worse"),
        (0.85, 1.0, "different"),
        # They say that it became slower.
        (0.7, 0.8, "different"),
        (0.4, 0.8, "worse"),
    ],
)
def test_blocks_are_worse_where_time_cannot_have_made_it(factor, machine, verdict):
    found = blocks(factor, machine)
    rate = row(found, "iops")
    assert found["design"] == "blocks" and rate["verdict"] == verdict
    words = wording.verdict_words(rate, 5)
    assert ("more than time explains" in words) == (verdict in ("worse", "better"))
    assert ("may be drift" in words) == (verdict == "different")
    # The rule is of the interval's near end.
    if verdict == "worse":
        assert abs(rate["change_high_percent"]) > 100 - 100 / (1 + rate["time_percent"] / 100)


def test_blocks_of_which_one_drifted_are_given_more_room():
    rates = [rate * (1 - 0.06 * place if place < 4 else 0.5) for place, rate in enumerate(white(8, 5))]
    drifting = comparison.compare(*sequence(rates, "AAAABBBB"), metrics=["iops"])
    still = blocks(0.5)
    assert drifting["rows"][0]["time_percent"] > still["rows"][0]["time_percent"] + 15
    assert drifting["rows"][0]["verdict"] in ("different", "cannot_tell") and still["rows"][0]["verdict"] == "worse"


def test_a_gate_fails_passes_or_cannot_tell():
    def outcome(found: dict, *rules: str) -> str:
        wanted = gate.rules(list(rules))
        return gate.outcome(gate.hits(found, wanted), gate.unjudged(found, wanted))

    half, less, same = blocks(0.5), blocks(0.8), blocks(1.0)
    assert [outcome(found, "regression > 5 %") for found in (half, less, same)] == ["failed", "inconclusive", "passed"]
    # Who takes drift for a regression can say so.
    assert [outcome(found, "different > 10 %") for found in (half, less, same)] == ["failed", "failed", "passed"]
    assert outcome(less, "different > 30 %") == "passed"
    assert [outcome(found, "regression > 5 %", "cannot_tell") for found in (less, same)] == ["failed", "passed"]
    # An improvement that may be drift is no reason to stop, and too few repetitions are none to go on.
    assert outcome(blocks(1.2), "regression > 5 %") == "passed"
    assert outcome(blocks(1.0, count=3), "regression > 5 %") == "inconclusive"
    (left, *_others) = gate.unjudged(less, gate.rules(["iops regression > 5 %"]))
    assert left["metric"] == "iops" and "may be drift" in left["text"]


def history(count: int, factor: float = 1.0, per: int = 4, variation: float = 0.02, seed: int = 6) -> dict:
    noise = random.Random(seed)  # noqa: S311 noise, no secret
    of_runs = [math.exp(noise.gauss(0, variation)) for _run in range(count)] + [factor]
    rates = [rate * of_runs[place // per] for place, rate in enumerate(white((count + 1) * per, seed, 0.3))]
    return comparison.compare(
        *sequence(rates, "A" * per * count + "B" * per, run_length=per), metrics=["iops", "latency_mean_ns"]
    )


def test_one_run_against_the_history_of_a_baseline():
    same, worse = history(8), history(8, factor=0.85)
    assert (same["design"], same["method"]) == ("history", "history")
    assert {one["verdict"] for one in same["rows"]} <= {"cannot_tell", "no_difference"}
    assert {one["verdict"] for one in worse["rows"]} == {"worse"}
    assert worse["headline"].startswith("Measured after 8 runs of the baseline, whose own variation is the measure.")
    assert worse["rows"][0]["baseline"]["runs"] == 8
    # A single run of the baseline would have made this certain: what runs vary by is the noise that counts.
    assert row(same, "iops")["visible_percent"] > 5
    assert gate.objections(worse, gate.rules(["regression > 5 %"]))


def test_a_history_that_is_too_short_says_how_many_runs_are_missing():
    found = history(5, factor=0.5)
    assert {one["verdict"] for one in found["rows"]} == {"no_verdict"}
    assert (
        wording.verdict_words(found["rows"][0], 5)
        == "no verdict: 5 of at least 8 runs of the baseline, run 3 more runs"
    )
    assert gate.unjudged(found, gate.rules(["regression > 5 %"]))


def test_a_prediction_interval_is_what_is_worked_out_by_hand():
    # Mean 50.48; squared deviations 2.4964 + 0.1444 + 0.0324 + 0.2704 + 2.6244 = 5.568, so s = 1.1798; t(0.975; 4) = 2.7764.
    shift = stats.predicted([48.9, 50.1, 50.3, 51.0, 52.1], 55.0)
    low, high = shift.interval(0.95)
    assert shift.estimate == pytest.approx(4.52) and high - low == pytest.approx(
        2 * 2.7764 * 1.1798 * math.sqrt(1.2), rel=1e-3
    )


def test_results_without_start_times_prove_no_turns():
    rates = [rate * (1 if place % 2 else 0.7) for place, rate in enumerate(white(16, 5))]
    found = comparison.compare(*sequence(rates, "BA" * 8, stamps=False), metrics=["iops"])
    assert found["design"] == "unknown" and found["rows"][0]["verdict"] == "different"
    assert found["headline"].startswith("When each was measured is not recorded, so any difference may be drift.")


def test_within_the_margin_blocks_are_alike_unless_a_side_moved_by_more():
    still = comparison.compare(*sequence(white(20, 7), "A" * 10 + "B" * 10), metrics=["iops"])
    assert still["rows"][0]["verdict"] == "no_difference"
    # Up and down again: both sides have the same mean.
    hill = [rate * (1 + 0.02 * min(place, 19 - place) / 3) for place, rate in enumerate(white(20, 7))]
    moved = comparison.compare(*sequence(hill, "A" * 10 + "B" * 10), metrics=["iops"])
    assert moved["rows"][0]["verdict"] == "cannot_tell" and "drift" in moved["rows"][0]


@pytest.mark.parametrize(
    ("labels", "design"),
    [
        ("ABABAB", "alternating"),
        ("ABBAAB", "alternating"),
        ("BAABBA", "alternating"),
        ("AAABBB", "blocks"),
        ("AABABB", "blocks"),
        ("ABBBAA", "blocks"),
    ],
)
def test_runs_take_turns_or_do_not(labels, design):
    found = comparison.compare(
        *sequence(white(30, 2), "".join(label * 5 for label in labels), run_length=5), metrics=["iops"]
    )
    assert (found["design"], found["method"]) == (design, "runs")
    assert found["rows"][0]["baseline"]["runs"] == 3 and found["rows"][0]["baseline"]["repetitions"] == 15


def test_runs_that_differ_by_themselves_are_no_effect_and_an_effect_beyond_is_one():
    effects = (1.05, 0.95, 1.00, 1.06, 0.96, 1.01)
    rates = [rate * effects[place // 5] for place, rate in enumerate(white(30, 11, 0.3))]
    labels = "".join(label * 5 for label in "ABABAB")
    calm = comparison.compare(*sequence(rates, labels, run_length=5), metrics=["iops"], margin_percent=1)
    assert calm["rows"][0]["verdict"] == "cannot_tell" and calm["rows"][0]["visible_percent"] > 10
    assert calm["headline"].startswith("Measured in alternating runs (3 against 3).")
    # The same repetitions as those of one run a side, in turns, look certain: the level of runs is what keeps them from it.
    assert statistics.stdev(rates[:5]) / rates[0] < 0.01
    halved = [rate * (0.5 if label == "B" else 1) for rate, label in zip(rates, labels)]
    worse = comparison.compare(*sequence(halved, labels, run_length=5), metrics=["iops"])
    assert worse["rows"][0]["verdict"] == "worse"


def test_two_runs_a_side_are_too_few():
    found = comparison.compare(
        *sequence(white(20, 2), "".join(label * 5 for label in "ABAB"), run_length=5), metrics=["iops"]
    )
    assert found["rows"][0]["verdict"] == "no_verdict" and found["rows"][0]["run_more"] == 1
    assert wording.verdict_words(found["rows"][0], 5) == "no verdict: 2 of at least 3 runs, run 1 more runs"


def test_nothing_finer_than_what_is_shown_is_claimed_to_be_visible():
    rates = [20_000.0] * 10
    found = comparison.compare(*sequence(rates, "AB" * 5), metrics=["iops", "latency_p99_ns"])
    seen = {one["metric"]: one["visible_percent"] for one in found["rows"]}
    # Percentiles are places in bins 1 to 2 % wide: that all lie in one says less than that rates are equal.
    assert seen["iops"] == 0.1 and 0.5 < seen["latency_p99_ns"] < 2
    assert all(wording.amount(percent) != "0.0 %" for percent in seen.values())


def in_bins(noise: random.Random, change: float, deviation: float, count: int) -> dict:
    """The row of p99, 100 to 200 us, of sides that took turns; fio's bins there are 1024 and 2048 ns wide."""
    base, sides = math.log(noise.uniform(100_000, 200_000)), ([], [])
    for number in range(1, count + 1):
        for which, shift in enumerate((0.0, change)):
            one = make_runs.result("backing-a", SMALL, number, 20_000, second=60 * number + 30 * which)
            value_ns = math.exp(noise.gauss(base + shift, deviation))
            width = 1024 if value_ns < 131_072 else 2048
            one["total"]["latency_p99_ns"] = int(value_ns // width * width + width // 2)
            sides[which].append(one)
    return comparison.compare(*sides, metrics=["latency_p99_ns"], margin_percent=0.001)["rows"][0]


@pytest.mark.parametrize("count", [4, 8])
@pytest.mark.parametrize("deviation", [0.001, 0.005, 0.03])
def test_the_interval_of_a_percentile_holds_the_truth_however_little_it_scatters(deviation, count):
    noise = random.Random(f"bins/{deviation}/{count}")  # noqa: S311 noise, no secret
    held, trials = 0, 60
    for _trial in range(trials):
        change = noise.uniform(-0.1, 0.1)
        one = in_bins(noise, change, deviation, count)
        held += one["change_low_percent"] <= 100 * math.expm1(change) <= one["change_high_percent"]
        assert one["change_high_percent"] - one["change_low_percent"] > 1
    assert held / trials >= 0.93


def test_neighbouring_bins_are_no_regression():
    early, late = ([], [])
    for number in range(1, 7):
        for which, (of, value_ns) in enumerate(((early, 150_528), (late, 152_576))):
            one = make_runs.result("backing-a", SMALL, number, 20_000, second=60 * number + 30 * which)
            one["total"].update(latency_p99_ns=value_ns, latency_mean_ns=value_ns)
            of.append(one)
    found = comparison.compare(early, late, metrics=["latency_p99_ns", "latency_mean_ns"], margin_percent=0.5)
    verdicts = {one["metric"]: one["verdict"] for one in found["rows"]}
    assert verdicts == {"latency_p99_ns": "cannot_tell", "latency_mean_ns": "worse"}


def test_equivalence_is_corrected_for_the_number_of_points():
    # Every point is 4 % slower: alone that is within 5 %, and among 24 chances to be wrong it is not sure enough.
    before, after = [], []
    for layer in range(24):
        noise = white(20, 100 + layer, 1.0)
        for place, rate in enumerate(noise):
            one = make_runs.result(f"backing-{layer}", SMALL, place // 2 + 1, rate, second=30 * place)
            one["total"]["iops"] *= 0.965 if place % 2 else 1
            (after if place % 2 else before).append(one)
    many = comparison.compare(before, after, metrics=["iops"])
    alone = {
        name: comparison.compare(
            *([one for one in of if one["layer"] == name] for of in (before, after)), metrics=["iops"]
        )["rows"][0]["verdict"]
        for name in {one["layer"] for one in before}
    }
    alike = {one["layer"] for one in many["rows"] if one["verdict"] == "no_difference"}
    alike_alone = {name for name, verdict in alone.items() if verdict == "no_difference"}
    assert alike < alike_alone and len(alike_alone - alike) >= 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"engine": {"name": "fio", "ioengine": "io_uring"}}, "Its I/O engine is io_uring"),
        ({"targets": ["/dev/sdc"]}, "Its target is"),
        ({"working_set": {"size": 4 << 30}}, "Its size is"),
    ],
)
def test_what_differs_is_never_pooled(change, words):
    before, after = pair()
    before[4].update(change)
    with pytest.raises(Failure) as caught:
        comparison.compare(before, after)
    assert caught.value.code == "bad_value" and words in str(caught.value)


# -- lists of runs ----------------------------------------------------------------------------------------------------


def runs_of(labels: str, factor: float) -> dict:
    """{'A': [Run], 'B': [Run]}: runs of 5 in this order."""
    sides: dict = {"A": [], "B": []}
    for index, label in enumerate(labels):
        results = make_runs.results(
            5,
            changed(factor if label == "B" else 1.0),
            1.0,
            seed=index,
            run_id=f"{label}{index}",
            start=3600 * (index + 1),
        )
        sides[label].append(run(results))
    return sides


def listed(of: list) -> dict:
    return {**side(of[0]), "runs": of}


def test_lists_of_runs_are_compared_run_by_run():
    sides = runs_of("ABABAB", 0.8)
    found = comparison.compare_runs(listed(sides["A"]), listed(sides["B"]), [], metrics=["iops"])
    assert row(found, "iops")["verdict"] == "worse" and found["design"] == "alternating"
    assert found["baseline"]["run_id"] == "A0, A2, A4" and len(found["baseline"]["run_dirs"]) == 3
    assert sum(one["verdict"] == "worse" for one in found["rows"]) == 1


def test_runs_of_one_side_must_be_alike_whatever_is_under_test():
    sides = runs_of("ABABAB", 0.8)
    sides["A"][1].environments["target01"] = make_runs.environment("none [mq-deadline]")
    with pytest.raises(Failure, match=r"A0 \(a run of one side\) and A2 differ in 2 facts"):
        comparison.compare_runs(listed(sides["A"]), listed(sides["B"]), ["*.queue.scheduler"])


def test_a_run_stands_once_and_on_one_side():
    sides = runs_of("ABABAB", 0.8)
    with pytest.raises(Failure, match="listed twice"):
        comparison.compare_runs(listed([sides["A"][0], sides["A"][0]]), listed(sides["B"]), [])
    with pytest.raises(Failure, match="in common"):
        comparison.compare_runs(listed(sides["A"]), listed([*sides["B"], sides["A"][2]]), [])


# -- unlike things ----------------------------------------------------------------------------------------------------


def test_alike_but_for_what_never_matters():
    before, after = pair()
    host = make_runs.environment(load=1.9)
    host["devices"]["backing-a"]["path"] = "/dev/ram7"
    found = comparison.compare_runs(side(run(before)), side(run(after, host)), [])
    assert {entry["status"] for entry in found["environment"]} == {"ignored"}
    assert [entry["fact"] for entry in found["environment"]] == [
        "hosts.target01.devices.backing-a.path",
        "hosts.target01.load_1min",
    ]


def test_what_came_of_a_preparation_makes_no_runs_unlike():
    """A cache has hits on one side only, and zeroes take as long as they take."""
    before, after = pair()
    for results, came in ((before, {"zeroed_s": 4.9}), (after, {"zeroed_s": 52.6, "warmup_hit_percent": [12.5, 26.8]})):
        for result in results:
            result["preparation"] = {"filled": True, "zeroed_bytes": 8388608, **came}
    assert comparison.compare_runs(side(run(before)), side(run(after)), [])["environment"] == []


def test_who_keeps_an_engine_from_writing_makes_no_runs_unlike():
    """Such as an older kernel, or a run of an earlier version that did not note it."""
    before, after = pair()
    for results, wall in ((before, {}), (after, {"wall": "landlock"})):
        for result in results:
            result["preparation"] = {"access": "read", "zero_percent": 0, **wall}
    assert comparison.compare_runs(side(run(before)), side(run(after)), [])["environment"] == []


@pytest.mark.parametrize("known", [["dropped", "unknown"], ["unknown", None], ["dropped", None]])
def test_sides_with_and_without_the_unknown_cache_of_a_server_are_not_comparable(known):
    before, after = pair()
    for results, cache in zip((before, after), known):
        for result in results:
            result["preparation"] = {"filled": True, **({"storage_cache": cache} if cache else {})}
    if "unknown" not in known:
        # A cache that was proven to be empty is none.
        assert comparison.compare_runs(side(run(before)), side(run(after)), [])["environment"] == []
        return
    with pytest.raises(Failure, match=r"preparation\..*storage_cache") as caught:
        comparison.compare_runs(side(run(before)), side(run(after)), [])
    assert caught.value.code == "unlike_runs"


@pytest.mark.parametrize("cache", ["unknown", "dropped", None])
def test_a_cache_that_neither_side_knows_is_named_before_any_difference(cache):
    """Storage of others may have had a cache on one side only, which cannot be looked at."""
    before, after = pair()
    for result in (*before, *after):
        if result["layer"] == "backing-a":
            result["preparation"] = {"filled": True, **({"storage_cache": cache} if cache else {})}
    headline = comparison.compare_runs(side(run(before)), side(run(after)), [])["headline"]
    sentence = "Neither side knows what the caches of the storage held (backing-a): a difference may be theirs."
    assert (sentence in headline) == (cache == "unknown") and "backing-b" not in headline


def test_a_testbed_that_was_built_again_is_the_same_testbed():
    before, after = pair()
    hosts, layers = [make_runs.environment() for _side in range(2)], [make_runs.layers() for _side in range(2)]
    for number in range(2):
        contents = {"serial": f"s{number}", "naa": f"600{number}", "wwid": f"naa.600{number}"}
        layers[number]["backing-a"]["identity"].update(contents)
        layers[number]["backing-a"]["detail"]["generation"] = f"g{number}"
        hosts[number]["devices"]["backing-a"].update(contents)
    sides = [side(run(*each)) for each in zip((before, after), hosts, layers)]
    found = comparison.compare_runs(*sides, [])
    facts = {entry["fact"]: entry["status"] for entry in found["environment"]}
    assert facts["layers.backing-a.of_contents.serial"] == "ignored"
    assert facts["hosts.target01.devices.backing-a.of_contents.naa"] == "ignored"
    assert set(facts.values()) == {"ignored"}
    # Without a generation nothing says that the testbed made it, so that it is another disk.
    for each in layers:
        del each["backing-a"]["detail"]["generation"]
    with pytest.raises(Failure, match=r"layers\.backing-a\.identity\.serial"):
        comparison.compare_runs(*sides, [])


def test_the_numbers_that_the_kernel_gave_to_the_devices_of_several_hosts_never_matter():
    before, after = pair()
    layers = [make_runs.layers() for _side in range(2)]
    for number, side_layers in enumerate(layers):
        side_layers["backing-a"]["identity"]["layers"] = {
            "backing-b": {"identity": {"major_minor": f"7:{number}", "serial": "the same"}}
        }
    found = comparison.compare_runs(side(run(before, layers=layers[0])), side(run(after, layers=layers[1])), [])
    assert [(entry["fact"], entry["status"]) for entry in found["environment"]] == [
        ("layers.backing-a.identity.layers.backing-b.identity.major_minor", "ignored")
    ]
    layers[1]["backing-a"]["identity"]["layers"]["backing-b"]["identity"]["serial"] = "another"
    with pytest.raises(Failure, match=r"identity\.layers\.backing-b\.identity\.serial"):
        comparison.compare_runs(side(run(before, layers=layers[0])), side(run(after, layers=layers[1])), [])


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (
            lambda after, host, layers, asked: host["kernel"].update(release="6.12"),
            "hosts.target01.kernel.release (6.1.0-50 → 6.12)",
        ),
        (
            lambda after, host, layers, asked: host.update(fio_clock="clock_gettime"),
            "hosts.target01.fio_clock (absent → clock_gettime)",
        ),
        (
            lambda after, host, layers, asked: host["cpu"].update(governor="powersave"),
            "hosts.target01.cpu.governor (absent → powersave)",
        ),
        (
            lambda after, host, layers, asked: layers["backing-b"].update(size_bytes=1 << 20),
            "layers.backing-b.size_bytes (134217728 → 1048576)",
        ),
        (
            lambda after, host, layers, asked: layers["backing-b"]["identity"].update(stamp="other"),
            "layers.backing-b.identity.stamp (synthetic/backing-b → other)",
        ),
        (
            lambda after, host, layers, asked: layers["backing-b"].update(detail={"page_cache": "used"}),
            "layers.backing-b.detail.page_cache (absent → used)",
        ),
        (
            lambda after, host, layers, asked: layers["backing-b"].update(detail={"lio": {"emulate_write_cache": "1"}}),
            "layers.backing-b.detail.lio.emulate_write_cache (absent → 1)",
        ),
        (
            lambda after, host, layers, asked: [one["engine"].update(version="3.41") for one in after],
            "engine.backing-a.version (3.33 → 3.41)",
        ),
        (
            lambda after, host, layers, asked: [
                one["engine"].update(ioengine="io_uring") for one in after if one["layer"] == "backing-b"
            ],
            "engine.backing-b.ioengine (libaio → io_uring)",
        ),
        (
            lambda after, host, layers, asked: [one["workload"].update(runtime_s=60) for one in after],
            f"workloads.{SMALL}.runtime_s (5 → 60)",
        ),
        (
            lambda after, host, layers, asked: [one.update(preparation={"filled": False}) for one in after],
            "preparation.backing-a.filled (absent → no)",
        ),
        (
            lambda after, host, layers, asked: asked.update(collection_version="0.3.0"),
            "run.collection_version (0.2.0 → 0.3.0)",
        ),
        (
            lambda after, host, layers, asked: asked["requests"][0].update(order="random"),
            "run.order (interleaved → random)",
        ),
        (
            lambda after, host, layers, asked: [after.remove(one) for one in after[:] if one["repetition"] == 5],
            "repetitions (5 → 4)",
        ),
    ],
)
def test_unlike_runs_are_refused_by_name_unless_it_is_under_test(change, fact):
    before, after = pair()
    host, layers = make_runs.environment(), make_runs.layers()
    asked = {"collection_version": "0.2.0", "requests": [{"order": "interleaved", "seed": 1, "hosts": ["target01"]}]}
    other = {"collection_version": "0.2.0", "requests": [{"order": "interleaved", "seed": 2, "hosts": ["target01"]}]}
    change(after, host, layers, other)
    sides = side(run(before, asked=asked)), side(run(after, host, layers, other))
    with pytest.raises(Failure) as caught:
        comparison.compare_runs(*sides, [])
    assert caught.value.code == "unlike_runs" and fact in str(caught.value)
    names = {entry["fact"] for entry in caught.value.details["differences"]}
    assert fact.split(" (")[0] in names
    found = comparison.compare_runs(*sides, sorted(names))
    assert {entry["fact"] for entry in found["environment"] if entry["status"] == "under_test"} == names and found[
        "under_test_same"
    ] == []


RAID = {
    "level": 10,
    "chunk_bytes": 65536,
    "members": [{"serial": f"s{number}", "device": f"/dev/sd{number}"} for number in range(4)],
}


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"level": 5}, "layers.backing-a.detail.raid.level"),
        ({"chunk_bytes": 131072}, "layers.backing-a.detail.raid.chunk_bytes"),
        ({"members": [*RAID["members"][:3], {"serial": "s9"}]}, "layers.backing-a.detail.raid.members.3.serial"),
        ({"resync": "running"}, "layers.backing-a.detail.raid.resync"),
        ({"members": [{**member, "device": f"/dev/vd{place}"} for place, member in enumerate(RAID["members"])]}, None),
    ],
)
def test_runs_on_different_arrays_are_unlike(change, fact):
    """The kernel may name the members otherwise, and an array that was made anew has another UUID; neither is a difference."""
    before, after = pair()
    sides = []
    for results, raid, number in ((before, RAID, 1), (after, {**RAID, **change}, 2)):
        layers = make_runs.layers()
        layers["backing-a"]["identity"]["uuid"] = f"uuid-{number}"
        layers["backing-a"]["detail"] = {"provider": "raid", "raid": raid, "generation": f"g{number}"}
        sides.append(side(run(results, None, layers)))
    if fact is None:
        comparison.compare_runs(*sides, [])
        return
    with pytest.raises(Failure) as caught:
        comparison.compare_runs(*sides, [])
    assert {entry["fact"] for entry in caught.value.details["differences"]} == {fact}


def test_what_was_named_and_does_not_differ_is_said():
    before, after = pair()
    pattern = "hosts.*.devices.*.queue.scheduler"
    assert comparison.compare_runs(side(run(before)), side(run(after)), [pattern])["under_test_same"] == [pattern]
    changed_host = make_runs.environment("none [mq-deadline]")
    found = comparison.compare_runs(side(run(before)), side(run(after, changed_host)), [pattern])
    assert found["under_test_same"] == [] and len(found["environment"]) == 2


def test_hosts_and_layers_that_are_not_compared_may_differ():
    before, after = pair()
    host, layers = make_runs.environment(), make_runs.layers()
    host["devices"]["initiator-z"] = {"size_bytes": 5}
    layers["initiator-z"] = {"name": "initiator-z", "host": "elsewhere", "parent": "backing-a"}
    found = comparison.compare_runs(side(run(before)), side(run(after, host, layers)), [])
    assert found["environment"] == []


def test_two_layers_of_one_run_are_the_thing_under_test():
    before = pair()[0]
    one = run(before)
    found = comparison.compare_runs(side(one, layer="backing-a"), side(one, layer="backing-b"), [], metrics=["iops"])
    assert [row["layer"] for row in found["rows"]] == ["backing-a → backing-b"] * 2
    assert {(entry["fact"], entry["status"]) for entry in found["environment"]} == {
        ("layers.compared.name", "under_test")
    }
    with pytest.raises(Failure) as caught:
        for result in before:
            result["engine"]["ioengine"] = "null" if result["layer"] == "backing-a" else "libaio"
        comparison.compare_runs(side(one, layer="backing-a"), side(one, layer="backing-b"), [])
    assert "engine.compared.ioengine (null → libaio)" in str(caught.value)


def of_one_layer(results: list, layer: str, **host) -> dict:
    """A side of a run that knows this layer alone."""
    mine = [result for result in results if result["layer"] == layer]
    environment, layers = make_runs.environment(), make_runs.layers()
    environment.update(host)
    environment["devices"] = {layer: {"size_bytes": 1 << 27, "queue": {"scheduler": f"of {layer}"}}}
    return side(run(mine, environment, {layer: layers[layer]}), layer=layer)


def test_two_layers_of_two_runs_that_are_named_are_the_thing_under_test():
    before, after = pair()
    sides = of_one_layer(before, "backing-a"), of_one_layer(after, "backing-b")
    compared = comparison.compare_runs(*sides, [], metrics=["iops"])
    assert [row["layer"] for row in compared["rows"]] == ["backing-a → backing-b"] * 2
    status = {entry["fact"]: entry["status"] for entry in compared["environment"] if entry["status"] != "ignored"}
    assert set(status.values()) == {"under_test"}
    assert {"layers.backing-a.kind", "layers.backing-b.identity.stamp", "layers.compared.name"} <= set(status)
    assert "hosts.target01.devices.backing-b.queue.scheduler" in status
    # Of their hosts nothing may be another.
    kernel = {**make_runs.environment()["kernel"], "release": "6.99"}
    with pytest.raises(Failure, match=r"differ in 1 fact .*hosts\.target01\.kernel\.release"):
        comparison.compare_runs(sides[0], of_one_layer(after, "backing-b", kernel=kernel), [])
    # A name of one side alone says nothing of the other's.
    unnamed = [{**mine, "selector": {**mine["selector"], "layer": None}} for mine in sides]
    with pytest.raises(Failure) as caught:
        comparison.compare_runs(*unnamed, [])
    assert caught.value.code == "nothing_to_compare"
    assert "layer: backing-a for the baseline, layer: backing-b for the candidate" in str(caught.value)


def test_two_workloads_are_compared_when_both_are_named():
    one = run(pair()[0])
    found = comparison.compare_runs(side(one, workload=SMALL), side(one, workload=LARGE), [], metrics=["iops"])
    assert [row["workload_id"] for row in found["rows"]] == [f"{SMALL} → {LARGE}"] * 2
    assert "workloads.compared.queue_depth" in {entry["fact"] for entry in found["environment"]}


def test_variants_are_compared_as_their_hosts_were_then():
    plain, tuned = interleaved(6, 0.0, 1.2)
    host = make_runs.environment()
    host["variants"] = {
        "plain": make_runs.environment(),
        "tuned": make_runs.environment("none [mq-deadline]", load=2.5),
    }
    one = run([*plain, *tuned], host)
    with pytest.raises(Failure) as caught:
        comparison.compare_runs(side(one, variant="plain"), side(one, variant="tuned"), [])
    assert "hosts.target01.devices.backing-a.queue.scheduler ([none] mq-deadline → none [mq-deadline])" in str(
        caught.value
    )
    found = comparison.compare_runs(
        side(one, variant="plain"), side(one, variant="tuned"), ["*.queue.scheduler"], metrics=["iops"]
    )
    assert (
        found["design"] == "interleaved"
        and found["rows"][0]["verdict"] == "better"
        and found["rows"][0]["variant"] == "plain → tuned"
    )


def test_a_layer_of_another_name_is_not_taken_for_the_same():
    before = make_runs.results(4, {("backing-a", SMALL): 100})
    after = make_runs.results(4, {("backing-b", SMALL): 100}, run_id="after")
    with pytest.raises(Failure) as caught:
        comparison.compare_runs(side(run(before)), side(run(after)), [])
    assert caught.value.code == "nothing_to_compare"


@pytest.mark.parametrize(
    ("selector", "words"),
    [({"layer": "nowhere"}, "backing-a, backing-b"), ({"variant": "x"}, "no variants"), ({"workload": "1k"}, SMALL)],
)
def test_a_selector_that_finds_nothing_says_what_there_is(selector, words):
    before, after = pair()
    with pytest.raises(Failure) as caught:
        comparison.compare_runs(side(run(before), **selector), side(run(after)), [])
    assert caught.value.code == "bad_value" and words in str(caught.value)


def test_a_run_is_not_compared_with_itself():
    one = run(pair()[0])
    with pytest.raises(Failure) as caught:
        comparison.compare_runs(side(one), side(one), [])
    assert "baseline itself" in str(caught.value)


# -- gates ------------------------------------------------------------------------------------------------------------


def objections(found: dict, *texts: str) -> set:
    return {(hit["rule"], hit["metric"], hit["point"]) for hit in gate.hits(found, gate.rules(list(texts)))}


def test_gates_meet_what_they_name():
    before, after = pair(factor=0.85)
    after.pop()
    after[0].update(status="failed", failures=[])
    found = comparison.compare(before, after)
    point = f"backing-a {SMALL}"
    assert objections(found, "regression > 10 %", "latency_p99_ns regression > 12.5 %") == {
        *(
            ("regression > 10 %", metric, point)
            for metric in (
                "iops",
                "bandwidth_bytes_s",
                "latency_mean_ns",
                "latency_p50_ns",
                "latency_p99_ns",
                "latency_p99_9_ns",
                "us_per_io",
            )
        ),
        ("latency_p99_ns regression > 12.5 %", "latency_p99_ns", point),
    }
    assert objections(found, "iops regression > 16 %") == set() and objections(found, "iops regression") == {
        ("iops regression", "iops", point)
    }
    assert objections(found, "cannot_tell") == set()
    assert objections(found, "missing") == {("missing", "", f"backing-a.{SMALL}.r1")}


def test_a_gate_on_missing_points():
    before, after = pair(4)
    found = comparison.compare(before, [one for one in after if one["layer"] == "backing-a"])
    assert {point for _rule, _metric, point in objections(found, "missing")} == {
        f"backing-b {SMALL}",
        f"backing-b {LARGE}",
    }
    few = comparison.compare(*pair(2))
    assert len(objections(few, "cannot_tell")) == 28 and len(objections(few, "iops cannot_tell")) == 4


def test_a_gate_that_could_never_object_is_refused():
    with pytest.raises(Failure) as caught:
        objections(comparison.compare(*pair()), "tpm regression")
    assert caught.value.code == "metric_missing"


@pytest.mark.parametrize(
    "text",
    [
        "regression > 5",
        "regression>5%",
        "regresion",
        "regression > -5 %",
        "cannot_tell > 5 %",
        "iops missing",
        "nonsense regression",
        "regression > 5 % iops",
        "",
        None,
    ],
)
def test_gates_have_a_strict_grammar(text):
    with pytest.raises(Failure) as caught:
        gate.rules([text])
    assert caught.value.code == "bad_value" and "fail_on" in str(caught.value)


# -- whatever a file may hold -----------------------------------------------------------------------------------------

ODD = (
    None,
    True,
    0,
    -1,
    3.5,
    "",
    "x",
    [],
    [1, {"a": None}],
    {},
    {"x": {"y": []}},
    float("nan"),
    float("inf"),
    10**30,
    "\u0000<b>",
)


def places(value, path=()):
    """Every place in nested lists and mappings."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield (*path, key)
        if isinstance(value[key], (dict, list)):
            yield from places(value[key], (*path, key))


def test_damaged_content_is_a_failure_or_a_verdict_and_never_a_traceback():
    generator = random.Random(31)  # noqa: S311 mutations, no secret
    refused = answered = 0
    for trial in range(300):
        after = make_runs.results(4, {("backing-a", SMALL): 20_000}, seed=2, run_id="after")
        content = {
            "results": after,
            "host": make_runs.environment(),
            "layers": make_runs.layers(),
            "asked": {
                "collection_version": "0.2.0",
                "requests": [{"order": "random", "profile": {"name": "p", "version": 2}}],
            },
        }
        for _change in range(generator.choice((1, 1, 3))):
            path = generator.choice([path for path in places(content) if len(path) > 1])
            place = content
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = generator.choice(ODD)
        # As load.read_run leaves it: results and layers are mappings, results have the keys that it requires.
        content["layers"] = {name: layer for name, layer in content["layers"].items() if isinstance(layer, dict)}
        results = [one for one in content["results"] if isinstance(one, dict)] or after
        sides = (
            side(run(make_runs.results(4, {("backing-a", SMALL): 20_000}))),
            side(
                Run(
                    "/r",
                    "synthetic",
                    "after",
                    layers=content["layers"],
                    environments={"target01": content["host"]},
                    results=results,
                    record=content["asked"],
                )
            ),
        )
        try:
            found = comparison.compare_runs(*sides, ["*"])
            texts = ["regression", "missing", "cannot_tell", "different > 3 %"]
            rules = gate.rules(texts)
            found.update(gate.concluded(texts, gate.hits(found, rules), gate.unjudged(found, rules)))
            if trial % 10 == 0:
                compare_render.render(found)
            answered += 1
        except Failure as failure:
            assert failure.code in ("bad_value", "nothing_to_compare", "unlike_runs"), failure
            refused += 1
    assert answered > 200 and refused > 0


@pytest.mark.parametrize(
    ("candidate", "baseline", "heading"),
    [
        ("run1.data.4k-qd8", "run1.data.4k-qd1", "4k-qd8 against 4k-qd1"),
        ("run2.data", "run1.data", "run2.data against run1.data"),
        ("run1.data", "run1", "run1.data against run1"),
        ("run1", "run1", "run1 against run1"),
    ],
)
def test_a_heading_says_in_what_the_sides_differ(candidate, baseline, heading):
    assert compare_render.heading(candidate, baseline) == heading
