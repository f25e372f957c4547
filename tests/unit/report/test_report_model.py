# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pooling of repetitions, what each layer is set against, and what is said about it."""

from __future__ import annotations

import copy
import re
import statistics

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import model, rows, sentences
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from ansible_collections.storlab.testbed.plugins.plugin_utils.store.cells import pool
from fixtures.report import make_fixture


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return load.read_run(make_fixture.write_run(str(tmp_path_factory.mktemp("results")), 2, 3))


@pytest.fixture
def run(stored):
    return copy.deepcopy(stored)


def steps(run, workload=0) -> dict:
    return {step.cell.layer: step for step in model.build(run).waterfalls[workload].steps}


def results_of(run, layer, workload_id="4k-r70-rnd100-qd8-w1") -> list:
    return [result for result in run.results if result["layer"] == layer and result["workload_id"] == workload_id]


def fail(result: dict, message: str) -> None:
    for direction in ("read", "write", "total"):
        result.pop(direction, None)
    result.update(status="failed", failures=[{"code": "engine_exit", "message": message}])


# -- pooling ---------------------------------------------------------------------------------------------------------


def test_rates_are_medians_with_their_extremes(run):
    rates = [result["total"]["iops"] for result in results_of(run, "guest-guest01")]
    figure = steps(run)["guest-guest01"].cell.figure("iops")
    assert len(set(rates)) == 3
    assert (figure.value, figure.low, figure.high) == (statistics.median(rates), min(rates), max(rates))


def test_mean_latency_is_weighted_by_the_number_of_ios():
    def part(ios, mean):
        return {"ios": ios, "iops": ios / 5, "latency_mean_ns": mean}

    cell = pool([result_of(part(1000, 10_000), 1), result_of(part(9000, 30_000), 2)])
    assert cell.value("latency_mean_ns") == 28_000
    assert cell.figure("latency_mean_ns").low == 10_000


def result_of(total: dict, repetition: int, **more) -> dict:
    return {
        "layer": "target-a",
        "layer_kind": "target",
        "host": "h",
        "workload_id": "w",
        "repetition": repetition,
        "point_id": f"p{repetition}",
        "status": "measured",
        "total": total,
        **more,
    }


def test_percentiles_come_from_merged_histograms_never_from_an_average():
    # 990 fast I/Os in one repetition, 10 fast and 990 slow ones in the other: half of all is slow.
    quick = {"ios": 1000, "latency_p99_ns": 100, "latency_p50_ns": 100, "histogram": {"bins": {"100": 1000}}}
    slow = {
        "ios": 1000,
        "latency_p99_ns": 9000,
        "latency_p50_ns": 9000,
        "histogram": {"bins": {"100": 10, "9000": 990}},
    }
    cell = pool([result_of(quick, 1), result_of(slow, 2)])
    assert cell.value("latency_p50_ns") == 100, "an average would say 4550"
    assert cell.value("latency_p99_ns") == 9000, "an average would say 4550"
    assert cell.bins == {"100": 1010, "9000": 990}


def test_without_histograms_one_repetition_speaks_and_several_are_silent():
    part = {"ios": 10, "latency_p99_ns": 4711}
    assert pool([result_of(part, 1)]).value("latency_p99_ns") == 4711
    two = pool([result_of(part, 1), result_of({"ios": 10, "latency_p99_ns": 4712}, 2)])
    assert two.value("latency_p99_ns") is None
    assert "percentiles_not_mergeable" in two.flags


def test_what_was_not_measured_is_absent():
    cell = pool([result_of({"ios": 10, "iops": 2.0}, 1)])
    assert cell.value("latency_mean_ns") is None and cell.value("iops", "write") is None
    assert "read" not in cell.figures


def test_a_single_direction_is_its_own_total():
    cell = pool([{**result_of({}, 1), "total": None, "read": {"ios": 10, "iops": 2.5}}])
    assert cell.value("iops") == cell.value("iops", "read") == 2.5


# -- what a layer is set against -------------------------------------------------------------------------------------


def test_each_layer_is_set_against_what_its_io_goes_through(run):
    found = {name: (step.below.layer if step.below else None, step.relation) for name, step in steps(run).items()}
    assert found == {
        "ceiling-target01": (None, "bottom"),
        "backing-bench": ("ceiling-target01", "ceiling"),
        "target-bench": ("backing-bench", "parent"),
        "initiator-bench": ("target-bench", "parent"),
        "datastore-ds1": ("initiator-bench", "other_lane"),
        "guest-guest01": ("datastore-ds1", "parent"),
    }


def test_the_other_lane_is_said_in_a_note(run):
    waterfall = model.build(run).waterfalls[0]
    step = next(step for step in waterfall.steps if step.cell.layer == "datastore-ds1")
    text = waterfall.notes[step.notes[0]]
    assert "initiator-bench" in text and "initiator-ds1" in text and "scratch LUN" in text


def test_a_layer_in_between_that_was_not_measured_is_said(run):
    run.results = [result for result in run.results if result["layer"] != "target-bench"]
    waterfall = model.build(run).waterfalls[0]
    step = next(step for step in waterfall.steps if step.cell.layer == "initiator-bench")
    assert (step.below.layer, step.relation) == ("backing-bench", "through")
    assert any("between them target-bench was not measured" in note for note in waterfall.notes)


def without(run, *names: str):
    run.results = [result for result in run.results if result["layer"] not in names]
    return run


def test_a_step_that_holds_more_than_its_layer_is_called_so(run):
    built = model.build(without(run, "target-bench", "initiator-bench"))
    step = next(step for step in built.waterfalls[0].steps if step.cell.layer == "datastore-ds1")
    assert (step.below.layer, step.relation) == ("backing-bench", "other_lane")
    assert step.holds == ["initiator-ds1", "target-ds1"]
    assert any(
        "datastore-ds1 and backing-bench are initiator-ds1 and target-ds1, which were not measured, so the step includes"
        in note
        for note in (built.waterfalls[0].notes[number] for number in step.notes)
    )
    measured_as(run, backing_bench=[100, 101, 102], datastore_ds1=[9000, 9010, 9020])
    assert "the file system together with initiator-ds1 and target-ds1: backing-bench" in model.build(run).verdict


def test_a_layer_of_another_provider_is_no_twin(run):
    """An array of disks has no twin in a RAM disk beside it."""
    run.layers["backing-ds1"]["detail"]["provider"] = "mdadm"
    step = steps(without(run, "target-bench", "initiator-bench"))["datastore-ds1"]
    assert (step.below.layer, step.relation, step.comparable) == ("ceiling-target01", "ceiling", False)


def test_added_latency_telescopes_to_the_top(run):
    found = steps(run)
    top = found["guest-guest01"].cell.value("latency_mean_ns")
    added = sum(
        found[name].added_mean_ns for name in ("target-bench", "initiator-bench", "datastore-ds1", "guest-guest01")
    )
    assert found["backing-bench"].cell.value("latency_mean_ns") + added == pytest.approx(top)
    assert sum(step.share for step in found.values() if step.share is not None) == pytest.approx(1)


def measured_as(run, **means) -> None:
    """Leave the run with these layers alone, with these mean latencies, one a repetition."""
    chosen = []
    for name, values in means.items():
        template = results_of(run, name.replace("_", "-"))[0]
        chosen += [
            {
                **template,
                "repetition": number,
                "point_id": f"{name}.r{number}",
                "total": {**template["total"], "latency_mean_ns": value},
            }
            for number, value in enumerate(values, 1)
        ]
    run.results = chosen


def with_means(run, **means):
    """The step of target-bench in the run in which these layers have these mean latencies, and nothing else was measured."""
    measured_as(run, **means)
    return steps(run)["target-bench"]


def test_every_layer_cost_has_the_interval_of_its_paired_repetitions(run):
    # A machine that slows down by half from round to round takes nothing from the step: the differences are 10, 12 and 14 us.
    step = with_means(run, backing_bench=[20_000.0, 30_000.0, 45_000.0], target_bench=[30_000.0, 42_000.0, 59_000.0])
    # Their standard deviation is 2 us, and Student's t of two degrees of freedom is 4.3027 (any table).
    reach = 4.3027 * 2_000 / 3**0.5
    assert step.added_between_ns == pytest.approx((12_000 - reach, 12_000 + reach), rel=1e-4)
    assert rows.takes_away(step).startswith("+12.0 µs (95 %: +7.03 µs to +17.0 µs), IOPS")


def test_a_single_repetition_has_no_interval(run):
    step = with_means(run, backing_bench=[20_000.0], target_bench=[30_000.0])
    assert step.added_between_ns is None
    assert "(one repetition, no interval)" in rows.takes_away(step)


def test_only_repetitions_of_both_layers_are_paired(run):
    step = with_means(run, backing_bench=[20_000.0, 21_000.0], target_bench=[30_000.0])
    assert step.added_between_ns is None


def test_the_null_engine_is_never_a_cost(run):
    step = steps(run)["backing-bench"]
    assert not step.comparable and step.iops_ratio < 0.1
    assert model.build(run).waterfalls[0].costliest.cell.kind != "backing"


def test_another_engine_is_not_comparable(run):
    for result in results_of(run, "initiator-bench"):
        result["engine"] = {**result["engine"], "ioengine": "io_uring"}
    report = model.build(run)
    found = {step.cell.layer: step for step in report.waterfalls[0].steps}
    assert not found["initiator-bench"].comparable and not found["datastore-ds1"].comparable
    assert found["target-bench"].comparable
    assert any("io_uring" in note and "not comparable" in note for note in report.waterfalls[0].notes)
    assert report.waterfalls[0].costliest.cell.layer == "guest-guest01"


def test_a_layer_faster_than_the_one_below_is_called_so(run):
    for result in results_of(run, "guest-guest01"):
        result["total"].update(latency_mean_ns=5_000.0)
    waterfall = model.build(run).waterfalls[0]
    step = next(step for step in waterfall.steps if step.cell.layer == "guest-guest01")
    assert step.added_mean_ns < 0
    assert any("cannot save time" in waterfall.notes[note] for note in step.notes)


def test_differences_within_the_spread_of_repetitions_are_called_so(run):
    assert not steps(run)["initiator-bench"].overlap
    results_of(run, "initiator-bench")[0]["total"]["latency_mean_ns"] = 1_000_000.0
    waterfall = model.build(run).waterfalls[0]
    step = next(step for step in waterfall.steps if step.cell.layer == "initiator-bench")
    assert step.overlap and any("may be noise" in waterfall.notes[note] for note in step.notes)


def test_the_way_to_the_layer_below_is_said(run):
    run.layers["guest-guest01"]["detail"] = {"transport": "nbd"}
    notes = model.build(run).waterfalls[0].notes
    assert any("over nbd" in note and "guest-guest01" in note for note in notes)


def test_a_page_cache_in_the_way_is_said_where_it_is(run):
    def where():
        waterfall = model.build(run).waterfalls[0]
        told = {waterfall.notes.index(note) for note in waterfall.notes if "page cache" in note}
        return {step.cell.layer for step in waterfall.steps if told & set(step.notes)}

    run.layers["target-bench"]["detail"] = {"provider": "lio", "page_cache": "bypassed"}
    assert where() == set()
    run.layers["target-bench"]["detail"] = {"provider": "tgt", "page_cache": "used"}
    assert where() == {"target-bench"}
    # Where the target itself was not measured, the step above holds its cache.
    for result in results_of(run, "target-bench"):
        run.results.remove(result)
    assert where() == {"initiator-bench"}


def test_what_was_done_to_the_disks_at_the_bottom_is_said(run):
    """Made slow on purpose, still synchronising, or never made equal."""

    def flags(**detail):
        run.layers["backing-bench"]["detail"] = detail
        return [
            (flag["level"], flag["text"]) for flag in model.build(run).flags if flag["text"].startswith("backing-bench")
        ]

    array = {"level": 10, "members": [{}, {}, {}, {}]}
    assert flags(provider="raid", raid={**array, "resync": "done"}) == flags(provider="brd") == []
    slow = {"by": "QEMU", "iops": 300, "mib_s": 7}
    assert flags(emulated_delay=slow) == [
        (
            "note",
            "backing-bench: its disks were made slow on purpose, by QEMU to 300 I/Os per second and 7 MiB per second each.",
        )
    ]
    [(level, text)] = flags(raid={**array, "resync": "running"})
    assert level == "warning" and "still synchronising" in text
    [(level, text)] = flags(raid={**array, "resync": "done", "scrub": "check"})
    assert level == "warning" and "compared the members of the RAID array (check)" in text
    [(level, text)] = flags(raid={**array, "resync": "skipped"})
    assert level == "note" and "assumed to be in sync" in text


def test_hosts_and_ceilings_stand_in_the_order_of_the_chain(run):
    run.layers["ceiling-guest01"] = {**run.layers["ceiling-target01"], "name": "ceiling-guest01", "host": "guest01"}
    report = model.build(run)
    assert [machine["host"] for machine in report.machines] == ["target01", "hypervisor01", "guest01"]
    assert [layer["name"] for layer in report.layers][:2] == ["ceiling-target01", "ceiling-guest01"]


def test_a_loop_of_parents_ends(run):
    run.layers["backing-bench"]["parent"] = "initiator-bench"
    assert steps(run)["backing-bench"].below.layer == "initiator-bench"


def test_a_lost_layers_file_loses_no_figures(run):
    run.layers = {}
    report = model.build(run)
    assert len(report.waterfalls[0].steps) == 6
    assert {layer["name"] for layer in report.layers} == {result["layer"] for result in run.results}


# -- failures and flags ----------------------------------------------------------------------------------------------


def test_failed_points_count_in_no_figure(run):
    broken, *rest = results_of(run, "target-bench")
    fail(broken, "fio ended with exit code 1.")
    cell = steps(run)["target-bench"].cell
    assert cell.repetitions == 2
    assert cell.value("iops") == statistics.median(result["total"]["iops"] for result in rest)


def test_a_layer_that_failed_throughout_is_missing_with_the_reason(run):
    for result in results_of(run, "guest-guest01"):
        fail(result, "The device /dev/vdb is mounted.")
    waterfall = model.build(run).waterfalls[0]
    entry = next(entry for entry in waterfall.missing if entry["layer"] == "guest-guest01")
    assert entry["failed"] and entry["reason"] == "The device /dev/vdb is mounted."
    assert max(model.KINDS.index(step.cell.kind) for step in waterfall.steps) == model.KINDS.index("datastore")


def test_data_layers_are_missing_for_a_reason_and_layers_without_a_path_are_not_expected(run):
    missing = {entry["layer"]: entry for entry in model.build(run).waterfalls[0].missing}
    assert set(missing) == {"backing-ds1", "initiator-ds1"}
    assert not missing["backing-ds1"]["failed"] and "contains data" in missing["backing-ds1"]["reason"]


def test_a_run_in_which_all_failed_is_still_a_report(run):
    for result in run.results:
        fail(result, "No.")
    report = model.build(run)
    assert report.headline is None and "Nothing was measured" in report.verdict
    assert len(report.failed) == len(run.results) == 36


def test_emulation_is_said_first(run):
    flags = model.build(run).flags
    assert flags[0]["level"] == "warning" and "emulated" in flags[0]["text"]
    for name in ("target01", "hypervisor01", "guest01"):
        assert name in flags[0]["text"]


@pytest.mark.parametrize(
    ("fingerprint", "kind"),
    [
        ({"virtualisation": {"guest": True, "emulated": True}}, "emulated"),
        ({"cpu": {"model": "QEMU TCG CPU version 2.5+"}}, "emulated"),
        ({"virtualisation": {"guest": True, "emulated": False}, "cpu": {"model": "AMD EPYC"}}, "virtual"),
        ({"virtualisation": {"guest": False, "emulated": False}}, "physical"),
        ({}, "unknown"),
        (None, "unknown"),
    ],
)
def test_kind_of_machine(fingerprint, kind):
    assert model.environment.describe("h", fingerprint)["machine"] == kind


def test_few_repetitions_are_said_and_four_are_enough(run, tmp_path):
    assert any("too few" in flag["text"] for flag in model.build(run).flags)
    four = model.build(load.read_run(make_fixture.write_run(str(tmp_path), 1, 4)))
    assert not any("too few" in flag["text"] for flag in four.flags)


def test_a_layer_near_the_ceiling_is_generator_bound(run):
    ceiling = statistics.median(result["total"]["iops"] for result in results_of(run, "ceiling-target01"))
    for share, expected in ((0.29, False), (0.31, True)):
        for result in results_of(run, "backing-bench"):
            result["total"]["iops"] = share * ceiling
        assert ("generator_bound" in steps(run)["backing-bench"].cell.flags) is expected


def test_changed_raw_files_are_a_warning(run):
    run.results[0]["files"]["raw"]["state"] = "differs"
    assert any("differ from the checksum" in flag["text"] for flag in model.build(run).flags)


def test_verdict_names_the_step_and_its_share(run):
    report = model.build(run)
    step = max(
        (step for step in report.headline.steps if step.comparable and step.added_mean_ns),
        key=lambda step: step.added_mean_ns,
    )
    assert f"{step.below.layer} → {step.cell.layer}" in report.verdict
    assert f"{step.share:.0%}".replace("%", " %") in report.verdict


def test_the_share_of_a_step_is_of_the_wait_at_the_top_of_its_own_chain(run):
    """Beside it stands another datastore, which is as high in the chain and does not wait for the step."""
    measured_as(run, backing_bench=[100, 101, 102], datastore_ds1=[9000, 9010, 9020])
    run.layers["datastore-ab"] = {**run.layers["datastore-ds1"], "name": "datastore-ab", "parent": "backing-bench"}
    run.results += [
        {
            **result,
            "layer": "datastore-ab",
            "point_id": f"ab.{result['point_id']}",
            "total": {**result["total"], "latency_mean_ns": 150},
        }
        for result in run.results
        if result["layer"] == "datastore-ds1"
    ]
    assert "99 % of what datastore-ds1 waits" in model.build(run).verdict


def test_the_words_of_a_step_follow_who_provides_its_layer(run):
    run.results = results_of(run, "backing-bench") + results_of(run, "target-bench")
    layer = run.layers["target-bench"]
    for provider, words in {"nfs": "the export over NFS", "lio": "the export over iSCSI"}.items():
        layer["detail"] = {**layer.get("detail", {}), "provider": provider}
        assert f"The most expensive step is {words}: backing-bench → target-bench" in model.build(run).verdict
    assert [sentences.step_words("datastore", provider) for provider in ("nfs", "filesystem", None)] == [
        "the export over NFS and the network",
        "the file system",
        "the file system",
    ]
    assert [sentences.step_words("backing", provider) for provider in ("raid", "brd")] == [
        "the RAID array itself",
        "the RAM disk itself",
    ]


def test_verdict_without_comparable_layers(run):
    run.results = results_of(run, "ceiling-target01")
    assert "cannot be compared with each other" in model.build(run).verdict


def test_verdict_of_a_single_layer(run):
    run.results = results_of(run, "backing-bench") + results_of(run, "ceiling-target01")
    assert (
        model.build(run).verdict
        == "Only backing-bench was measured, so the cost of the layers below and above it is unknown."
    )


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        (
            {"block_size_bytes": 4096, "random_percent": 100, "read_percent": 70, "queue_depth": 8, "workers": 1},
            "4 KiB random, 70 % read, queue depth 8, 1 worker",
        ),
        (
            {"block_size_bytes": 131072, "random_percent": 0, "read_percent": 0, "queue_depth": 1, "workers": 2},
            "128 KiB sequential write, queue depth 1, 2 workers",
        ),
        ({"block_size_bytes": 8192, "random_percent": 60, "read_percent": 100}, "8 KiB 60 % random read"),
        ({}, "workload"),
    ],
)
def test_workload_in_words(workload, words):
    assert sentences.workload_words(workload) == words


def test_every_flag_that_the_documentation_knows_has_words(root):
    page = (root / "docs/results.md").read_text(encoding="utf-8")
    table = page[page.index("| flag | meaning |") :].split("\n\n")[0]
    flags = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert len(flags) > 20
    assert [flag for flag in flags if flag not in sentences.FLAG_WORDS] == []
