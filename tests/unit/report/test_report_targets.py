# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets: what a text says, whether a run met it, and where that is said."""

from __future__ import annotations

import copy
import json
from xml.etree import ElementTree

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.result import targets
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import (
    html_page,
    junit,
    markdown,
    model,
    nouns,
    results_json,
    terminal,
    verdicts,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from fixtures.report import make_fixture

GUEST, WORKLOAD, OTHER = "guest-guest01", "4k-r70-rnd100-qd8-w1", "64k-r100-rnd0-qd4-w1"


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> load.Run:
    return load.read_run(make_fixture.write_run(str(tmp_path_factory.mktemp("results")), 2, 3))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p99 <= 5 ms at 10k IOPS", ("latency_p99_ns", 5e6, True, 10e3, None, None)),
        ("p99.9 <= 750us on guest", ("latency_p99_9_ns", 750e3, True, 0, "guest", None)),
        ("mean <= 1.5 s at 1.25M IOPS on a-b under w1", ("latency_mean_ns", 1.5e9, True, 1.25e6, "a-b", "w1")),
        ("IOPS >= 20k on initiator", ("iops", 20e3, False, 0, "initiator", None)),
        ("  MB/s   >= 400 under w1", ("bandwidth_bytes_s", 400e6, False, 0, None, "w1")),
    ],
)
def test_what_a_text_says(text, said):
    found = targets.parse(text)
    assert (found.metric, found.limit, found.at_most, found.at_iops, found.layer, found.workload_id) == said


@pytest.mark.parametrize(
    "text",
    [
        "",
        "p99",
        "p99 < 5 ms",
        "p99 >= 5 ms",
        "p98 <= 5 ms",
        "p99 <= 5",
        "p99 <= 5 h",
        "IOPS <= 5k",
        "IOPS >= 5 ms",
        "p99 <= 5 ms at 10k",
        "p99 <= 5 ms on",
        "p99 <= 5 ms please",
        "MB/s >= -3",
        5,
        None,
        ["p99 <= 5 ms"],
    ],
)
def test_what_says_no_target_is_refused(text):
    assert targets.parse(text) is None
    with pytest.raises(Failure) as refused:
        verdicts.parsed(["IOPS >= 1", text])
    assert refused.value.code == "bad_value" and "p99 <= 5 ms at 10k IOPS on guest" in str(refused.value)


def judged(run: load.Run, *texts: str) -> nouns.Report:
    report = model.build(run)
    report.targets = verdicts.judge(report, verdicts.parsed(list(texts)))
    return report


def figures(run: load.Run, layer: str = GUEST, workload: str = WORKLOAD) -> tuple[float, float]:
    """(IOPS, mean latency in ms)"""
    report = model.build(run)
    waterfall = next(one for one in report.waterfalls if one.workload_id == workload)
    cell = next(step.cell for step in waterfall.steps if step.cell.layer == layer)
    return cell.value("iops"), cell.value("latency_mean_ns") / 1e6


@pytest.mark.parametrize(("factor", "verdict"), [(1.01, "met"), (0.99, "missed")])
def test_a_latency_is_met_up_to_its_limit(stored, factor, verdict):
    _iops, mean = figures(stored)
    (found,) = judged(stored, f"mean <= {mean * factor:.6f} ms on {GUEST} under {WORKLOAD}").targets
    assert found["verdict"] == verdict and GUEST in found["why"] and WORKLOAD in found["why"]


@pytest.mark.parametrize(("factor", "verdict"), [(0.99, "met"), (1.01, "missed")])
def test_a_rate_is_met_from_its_limit_on(stored, factor, verdict):
    iops, _mean = figures(stored)
    assert judged(stored, f"IOPS >= {iops * factor:.3f} on guest under {WORKLOAD}").targets[0]["verdict"] == verdict


def test_without_a_layer_the_top_of_the_chain_is_meant_and_without_a_workload_every_one(stored):
    first, second = figures(stored)[1], figures(stored, workload=OTHER)[1]
    assert first != second
    between = (first + second) / 2
    low = WORKLOAD if first < second else OTHER
    texts = [f"mean <= {between:.6f} ms", f"mean <= {between:.6f} ms under {low}"]
    assert [found["verdict"] for found in judged(stored, *texts).targets] == ["missed", "met"]


def test_a_rate_that_was_not_reached_shows_nothing(stored):
    iops, _mean = figures(stored)
    texts = [f"mean <= 900 s at {rate:.0f} IOPS under {WORKLOAD}" for rate in (iops * 0.9, iops * 1.1)]
    found = judged(stored, *texts).targets
    assert [one["verdict"] for one in found] == ["met", "not shown"] and "IOPS were done" in found[1]["why"]


def test_what_was_not_measured_or_of_too_few_ios_is_not_shown(stored):
    run = copy.deepcopy(stored)
    for result in run.results:
        if result["layer"] == GUEST:
            for part in ("read", "write", "total"):
                if part in result:
                    result[part]["ios"] = 100
    found = judged(
        run, "p99.99 <= 900 s", "p50 <= 900 s", "p50 <= 900 s on nowhere", "p50 <= 900 s under nothing"
    ).targets
    assert [one["verdict"] for one in found] == ["not shown", "met", "not shown", "not shown"]


def test_all_forms_say_it(stored):
    report = judged(stored, "IOPS >= 1", "IOPS >= 900M", "p99 <= 1 s on <b>nowhere</b>")
    page, said = html_page.html(report), [found["verdict"] for found in report.targets]
    assert said == ["met", "missed", "not shown"]
    assert '<b class="good">met</b> IOPS &gt;= 1' in page and '<b class="missed">missed</b> IOPS &gt;= 900M' in page
    assert "<b>nowhere" not in page and page.index("IOPS &gt;= 900M") < page.index('<section id="chain">')
    lines = terminal.table(report)[-3:]
    assert [line.partition(":")[0] for line in lines] == ["target met", "target missed", "target not shown"]
    assert "Target **missed**: IOPS &gt;= 900M" in markdown.markdown(report)
    assert json.loads("".join(results_json.results_json(report)))["targets"] == report.targets
    suite = ElementTree.fromstring(junit.junit(report))[0]  # noqa: S314 - it was written a line ago
    cases = [case for case in suite if case.get("classname") == "targets"]
    assert [[failure.get("type") for failure in case] for case in cases] == [
        [],
        ["target_missed"],
        ["target_not_shown"],
    ]
    assert suite.get("failures") == "2" and int(suite.get("tests")) == len(report.points) + 3


def test_without_targets_nothing_is_said(stored):
    report = model.build(stored)
    assert "Target" not in html_page.html(report) and "targets" not in junit.junit(report)
