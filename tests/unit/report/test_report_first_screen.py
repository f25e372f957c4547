# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first screen: what was measured, with what, whether it can be trusted and what to do next; and nothing on it that the figures do not carry."""

from __future__ import annotations

import copy
import dataclasses
import re

import pytest
import synthetic_run
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import (
    html_page,
    markdown,
    model,
    nouns,
    results_json,
    views,
    waterfall,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from fixtures.report import make_fixture

BACKING, GUEST = "backing-bench", "guest-guest01"
CACHE = "a cache answers, not the layer"


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> load.Run:
    return load.read_run(make_fixture.write_run(str(tmp_path_factory.mktemp("results")), 1, 5))


@pytest.fixture
def run(stored) -> load.Run:
    return copy.deepcopy(stored)


@pytest.fixture(scope="module")
def sampled(tmp_path_factory) -> nouns.Report:
    return model.build(load.read_run(synthetic_run.write_run(str(tmp_path_factory.mktemp("results")), "chain", 1)))


def of(run: load.Run, layer: str) -> list:
    return [result for result in run.results if result["layer"] == layer]


def step(report: nouns.Report, layer: str) -> nouns.Step:
    return next(step for step in report.headline.steps if step.cell.layer == layer)


def warnings(report: nouns.Report) -> list:
    return [flag["text"] for flag in report.flags if flag["level"] == "warning"]


# -- faster than the ceiling ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("often", "headline"), [(1, False), (2, False), (3, True), (5, True)])
def test_a_cache_is_named_only_when_most_repetitions_were_too_fast(run, often, headline):
    for result in of(run, BACKING)[:often]:
        result["flags"] = ["faster_than_ceiling"]
    report = model.build(run)
    assert any(CACHE in text for text in warnings(report)) is headline
    assert ("cache that serves the I/O" in report.next_step) is headline
    assert any("at most half of the repetitions" in flag["text"] for flag in report.flags) is not headline


@pytest.mark.parametrize(
    ("load_1min", "cores", "said"), [(3.25, 2, True), (1.0, 2, True), (0.9, 2, False), (None, 2, False)]
)
def test_a_memory_measured_under_load_is_said_to_be(run, load_1min, cores, said):
    for result in of(run, BACKING):
        result["flags"] = ["faster_than_ceiling"]
    run.environments["target01"].update(load_1min=load_1min)
    run.environments["target01"]["cpu"]["cores"] = cores
    (text,) = [text for text in warnings(model.build(run)) if CACHE in text]
    assert ("measured under load" in text) is said
    assert not said or f"target01: load {load_1min:.1f} on 2 cores" in text


# -- percentiles of too few I/Os --------------------------------------------------------------------------------------


def limited(run: load.Run, ios: int) -> nouns.Report:
    """The same run in which the guest did so many I/Os in each of its five repetitions."""
    for result in of(run, GUEST):
        for part in ("read", "write", "total"):
            result[part]["ios"] = ios
    return model.build(run)


@pytest.mark.parametrize(
    ("ios", "absent"),
    [(90, ["p99", "p99.9", "p99.99"]), (1_999, ["p99.9", "p99.99"]), (2_000, ["p99.99"]), (20_000, [])],
)
def test_a_percentile_needs_ten_ios_beyond_it(run, ios, absent):
    report = limited(run, ios)
    found = step(report, GUEST)
    metrics = {"p99": "latency_p99_ns", "p99.9": "latency_p99_9_ns", "p99.99": "latency_p99_99_ns"}
    assert [name for name, metric in metrics.items() if found.cell.value(metric) is None] == absent
    notes = [report.headline.notes[index] for index in found.notes if "too few" in report.headline.notes[index]]
    assert len(notes) == bool(absent)
    if notes:
        assert f"{5 * ios} I/Os" in notes[0] and f"for {' and '.join(absent)}:" in notes[0]
    assert step(report, BACKING).cell.value("latency_p99_9_ns") is not None, "another layer keeps its own"


def test_what_is_too_few_is_a_dash_on_the_page_and_stays_in_the_points(run):
    report = limited(run, 90)
    page = html_page.html(report)
    row = re.search(r'<tr class="[^"]*" data-layer="guest-guest01">.*?</tr>', page, re.DOTALL)
    row = row or re.search(r'<tr class="[^"]*costliest" data-layer="guest-guest01">.*?</tr>', page, re.DOTALL)
    assert re.search(r'data-metric="latency_p99_ns"><span class="absent"', row[0])
    assert not re.search(r'data-metric="latency_p50_ns"><span class="absent"', row[0])
    assert all(result["total"]["latency_p99_ns"] for result in of(run, GUEST))


# -- the headline -----------------------------------------------------------------------------------------------------


def overlapping(run: load.Run, *layers: str) -> nouns.Report:
    """The repetitions of these layers reach from nothing to a second, so nothing parts them from their neighbours."""
    for layer in layers:
        first, last = of(run, layer)[0], of(run, layer)[-1]
        first["total"]["latency_mean_ns"], last["total"]["latency_mean_ns"] = 1e3, 1e9
    return model.build(run)


def test_a_step_whose_repetitions_overlap_is_no_headline(run):
    before = model.build(copy.deepcopy(run)).headline.costliest.cell.layer
    report = overlapping(run, before)
    found = step(report, before)
    assert found.overlap and found.added_mean_ns > 0, "it would be the most expensive"
    assert report.headline.costliest.cell.layer != before and f"→ {before} adds" not in report.verdict


def test_where_all_overlap_none_is_called_the_most_expensive(run):
    report = overlapping(run, *{result["layer"] for result in run.results if result["layer_kind"] != "ceiling"})
    assert report.headline.costliest is None and "repetitions of the layers overlap" in report.verdict
    assert "Most expensive step" not in html_page.html(report) and "Measure more repetitions" in report.next_step


# -- the figures to take home -----------------------------------------------------------------------------------------


def tiles(report: nouns.Report) -> dict:
    """{label: (value, line below, whether the value is set apart as unsure)} as the page shows them."""
    found = re.findall(
        r'<div class="tile[^"]*"><span>(.*?)</span><b( class="unsure")?>(.*?)</b><small>(.*?)</small>',
        html_page.html(report),
    )
    return {label: (value, below, bool(unsure)) for label, unsure, value, below in found}


def with_interval(report: nouns.Report, between: tuple | None) -> nouns.Report:
    report.headline.costliest.added_mean_ns = 1.04e6
    report.headline.costliest.added_between_ns = between
    return report


@pytest.mark.parametrize(
    ("between", "value", "below", "unsure"),
    [
        ((0.9e6, 1.2e6), "+1.04 ms", "95 %: +900 µs to +1.20 ms · {step}", False),
        (
            (-0.35e6, 2.4e6),
            "−350 µs to +2.40 ms",
            "95 % interval; with 5 repetitions this may be noise (+1.04 ms measured) · {step}",
            True,
        ),
        (
            (0.0, 2.1e6),
            "+0 ns to +2.10 ms",
            "95 % interval; with 5 repetitions this may be noise (+1.04 ms measured) · {step}",
            True,
        ),
        (None, "+1.04 ms", "one repetition, no interval · {step}", False),
    ],
)
def test_the_card_of_the_most_expensive_step_has_its_interval(run, between, value, below, unsure):
    report = with_interval(model.build(run), between)
    step_words = f"{report.headline.costliest.below.layer} → {report.headline.costliest.cell.layer}"
    assert tiles(report)["Most expensive step"] == (value, below.format(step=step_words), unsure)


@pytest.mark.parametrize(
    ("costliest", "top", "lowest"),
    [
        # The lane of the step, whatever stands higher or lower in the other one.
        ("target-bench", "initiator-bench", "backing-bench"),
        ("initiator-bench", "initiator-bench", "backing-bench"),
        (GUEST, GUEST, "datastore-ds1"),
        ("datastore-ds1", GUEST, "datastore-ds1"),
        # Without one the lane in which most was measured.
        (None, "initiator-bench", "backing-bench"),
    ],
)
def test_top_and_lowest_are_of_one_lane(run, costliest, top, lowest):
    report = model.build(run)
    report.headline.costliest = step(report, costliest) if costliest else None
    shown = tiles(report)
    assert shown["Top of the lane"][1].startswith(f"{top} · ")
    assert shown["Lowest measured in it"][1].startswith(f"{lowest} · ")


def test_a_lane_of_one_measured_layer_has_no_ends(run):
    run.results = [result for result in run.results if result["layer"] in ("ceiling-target01", BACKING)]
    report = model.build(run)
    assert [cell.layer for cell in waterfall.lane(report)] == [BACKING]
    assert set(tiles(report)) <= {"Most expensive step", "Points measured"}


# -- what, with what, trust, next -------------------------------------------------------------------------------------


def hero(report: nouns.Report) -> dict:
    page = html_page.html(report)
    part = page[page.index('<section class="hero">') : page.index('<div class="tiles">')]
    return {
        name: re.sub(r"<[^>]+>", "", text)
        for name, text in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", part, re.DOTALL)
    }


def test_the_first_screen_says_what_it_is_about(run):
    for result in run.results:
        result["engine"]["version"] = "fio-3.41"
    report = model.build(run)
    said = hero(report)
    assert said["Run"] == run.run_id and said["With"].startswith("fio-3.41 · ")
    assert report.ios == sum(result["total"]["ios"] for result in run.results)
    assert report.title == f"Testbed {run.testbed_id}: what each layer costs"
    assert said["Trust"] == report.trust and said["Next"] == report.next_step
    assert report.trust in markdown.markdown(report) and '"next_step": ' in "".join(results_json.results_json(report))


def test_two_engines_are_both_named(run):
    for result, version in zip(run.results, ["fio-3.33", "2.2"] * len(run.results)):
        name = "fio" if version.startswith("fio") else "diskspd"
        result["engine"] = {**result["engine"], "name": name, "version": version}
    assert model.build(run).engines == ["fio-3.33", "diskspd 2.2"]


def test_trust_follows_what_was_found(run):
    for fingerprint in run.environments.values():
        fingerprint["virtualisation"] = {"guest": False}
        fingerprint["cpu"]["model"] = "EPYC"
    assert "No check found a problem" in model.build(run).trust
    run.results[0]["files"]["raw"]["state"] = "differs"
    assert "1 warning," in model.build(run).trust


def test_what_failed_is_repaired_before_anything_is_concluded(run):
    healthy = model.build(copy.deepcopy(run))
    assert healthy.next_step.startswith("Change one thing in the step from")
    assert healthy.headline.costliest.below.layer in healthy.next_step
    run.results[3].update(status="failed", failures=[{"code": "x", "message": "broken"}])
    assert model.build(run).next_step.startswith(f"Fix the cause of the failures of 1 of {len(run.results)} points")


def test_few_repetitions_call_for_more(run):
    run.results = [result for result in run.results if result["repetition"] <= 3]
    report = model.build(run)
    assert "4 repetitions or more (benchmark_repetitions)" in report.next_step


# -- over time --------------------------------------------------------------------------------------------------------


def test_layers_without_samples_are_named(sampled):
    choices = views.base.Choices(sampled)
    whole = views.over_time.pictures("x", sampled.headline, sampled, choices, 300)
    assert whole["left_out"] == []
    gone = step(sampled, "target-bench").cell.shown
    fewer = {point: series for point, series in sampled.samples.items() if point != gone}
    report = dataclasses.replace(sampled, samples=fewer)
    assert views.over_time.pictures("x", sampled.headline, report, choices, 300)["left_out"] == ["target-bench"]
    assert "Not drawn, because no samples were stored: target-bench." in html_page.html(report)
    assert "Not drawn" not in html_page.html(sampled)


def test_a_second_without_io_is_drawn_at_zero(sampled):
    report = dataclasses.replace(sampled, samples=copy.deepcopy(sampled.samples))
    series = report.samples[step(report, GUEST).cell.shown]
    at = series["columns"].index("iops")
    choices = views.base.Choices(report)
    assert views.over_time.pictures("x", report.headline, report, choices, 300)["charts"][0].chart.y.kind == "log"
    series["rows"][9][at] = 0
    axis = views.over_time.pictures("x", report.headline, report, choices, 300)["charts"][0].chart.y
    assert (axis.kind, axis.at(0), axis.ticks[0][1]) == ("linear", 0, "0")
