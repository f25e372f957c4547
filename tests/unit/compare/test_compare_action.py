# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a comparison, and the task, the playbook and the filter, run by Ansible itself."""

from __future__ import annotations

import csv
import html
import io
import json
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import places
import plays
import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.storlab.testbed.plugins.filter.compare_results import compare_results
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import comparison, gate, points, words
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import compare_render
from fixtures.compare import make_runs

ROOT = places.ROOT
SMALL, LARGE = make_runs.WORKLOADS
MEDIANS = {("backing-a", SMALL): 20_000, ("backing-a", LARGE): 7_000}
SLOWER = {**MEDIANS, ("backing-a", SMALL): 16_000}


@pytest.fixture
def runs(tmp_path) -> Path:
    """before and after: one point a fifth slower on another scheduler, one point that failed once."""
    before, after = make_runs.results(5, MEDIANS), make_runs.results(5, SLOWER, seed=2, run_id="after", start=3605)
    after[9].update(status="failed", failures=[{"code": "io_errors", "message": "3 <b>I/O</b> errors | # bad."}])
    make_runs.write_run(tmp_path / "results", before)
    make_runs.write_run(tmp_path / "results", after, make_runs.environment("none [mq-deadline]", load=2.0))
    return tmp_path / "results" / "synthetic"


def compared(**changes) -> dict:
    """A comparison as the action hands it to the renderer."""
    before, after = make_runs.results(5, MEDIANS), make_runs.results(5, SLOWER, seed=2, run_id="after")
    found = comparison.compare(before, after)
    return {
        **found,
        "baseline": {"label": "before", "testbed_id": "synthetic", "run_id": "before"},
        "environment": [],
        "under_test": [],
        "damaged": [],
        "candidate": {"label": "after", "testbed_id": "synthetic", "run_id": "after"},
        "under_test_same": [],
        **gate.concluded([], [], []),
        **changes,
    }


# -- files ------------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_figures_of_the_comparison():
    found = compared()
    page = compare_render.html(found)
    rows = re.findall(r'<tr role="row" class="v-(\w+)" data-point="([^"]+)".*?</tr>', page, re.S)
    in_order = [one for metric in points.DEFAULT for one in found["rows"] if one["metric"] == metric]
    assert [(html.unescape(point), verdict) for verdict, point in rows] == [
        (one["point"], one["verdict"]) for one in in_order
    ]
    values = {float(text) for text in re.findall(r'<data (?:hidden )?value="([^"]+)"', page)}
    for one in found["rows"]:
        assert {
            one["change_percent"],
            one["p_corrected"],
            one["visible_percent"],
            one["baseline"]["value"],
            one["candidate"]["value"],
        } <= values
    assert page.count('class="estimate"') == len(found["rows"]) == page.count('class="band"')


def test_the_page_needs_nothing_from_elsewhere_and_no_script():
    page = compare_render.html(compared())
    assert not re.search(r'(?:src|href)="(?!#|data:,|comparison\.|report\.md|junit\.xml)', page)
    assert set(re.findall(r"https?://[^'\"]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert "worse, by" in page.split("<script>")[0]


@pytest.mark.parametrize("gap", [0, 36_000])
def test_how_it_was_measured_stands_in_every_form(gap):
    before = make_runs.results(5, MEDIANS)
    after = make_runs.results(5, SLOWER, seed=2, run_id="after", start=3605 + gap)
    found = compared(**comparison.compare(before, after))
    said = (
        "one block after the other, so any difference may be drift"
        if gap
        else "Measured in turns (5 repetitions per side)"
    )
    files = compare_render.render(found)
    suite = ET.fromstring(files["junit.xml"])[0]  # noqa: S314 our own text
    in_junit = {one.get("name"): one.get("value") for one in suite.findall("properties/property")}
    page = html.unescape(re.sub(r"<[^>]+>", "", files["index.html"]))
    for text in (page, files["report.md"], files["comparison.json"], in_junit["headline"]):
        assert said in " ".join(text.split())
    assert in_junit["design"] == found["design"] == ("blocks" if gap else "interleaved")
    assert (" worse, by " in files["report.md"]) is not bool(gap)
    assert ("but may be drift |" in files["report.md"]) is bool(gap)
    assert ('class="v-different"' in files["index.html"]) is bool(gap)


def test_text_from_files_stays_text():
    evil = '<script>alert("x")</script>|*#\x07'
    found = compared(
        environment=[{"fact": evil, "baseline": evil, "status": "under_test"}],
        damaged=[{"side": "baseline", "file": evil, "reason": evil}],
        failed=[{"side": "candidate", "point_id": evil, "reason": evil}],
        unmatched=[{"side": "baseline", "point": evil, "metric": evil}],
        **gate.concluded(["missing"], [{"rule": "missing", "point": evil, "metric": "", "text": evil}], []),
    )
    found["rows"][0].update(point=evil)
    files = compare_render.render(found)
    assert "<script>alert" not in files["index.html"] and "&lt;script&gt;alert" in files["index.html"]
    assert "<script>" not in re.sub(r"`[^`]*`", "", files["report.md"])
    lines = [line.replace("\\|", "") for line in files["report.md"].splitlines() if line.startswith("| ")]
    assert len(lines) == 2 * 2 + 14 and {line.count("|") for line in lines} == {10}
    assert ET.fromstring(files["junit.xml"])[0].find("testcase").get("classname").startswith("<script>")  # noqa: S314 our own text


def test_the_same_comparison_gives_the_same_bytes():
    assert compare_render.render(compared()) == compare_render.render(compared())
    assert tuple(compare_render.render(compared())) == (
        "index.html",
        "report.md",
        "comparison.csv",
        "comparison.json",
        "junit.xml",
        "github.txt",
    )


def test_csv_and_json_carry_full_precision_and_leave_out_what_is_unknown():
    found = comparison.compare(make_runs.results(2, MEDIANS), make_runs.results(2, SLOWER, run_id="after"))
    rows = list(csv.DictReader(io.StringIO(compare_render.comparison_csv({**compared(), "rows": found["rows"]}))))
    assert (
        rows[0]["change_percent"] == rows[0]["p"] == ""
        and rows[0]["run_more"] == "2"
        and rows[0]["verdict"] == "no_verdict"
    )
    full = list(csv.DictReader(io.StringIO(compare_render.comparison_csv(compared()))))
    assert [float(one["change_percent"]) for one in full] == [one["change_percent"] for one in compared()["rows"]]
    assert [float(one["baseline_value"]) for one in full] == [one["baseline"]["value"] for one in compared()["rows"]]
    assert json.loads(compare_render.comparison_json(compared()))["rows"] == compared()["rows"]


def test_junit_counts_what_it_holds():
    found = compared()
    hits = gate.hits(found, gate.rules(["iops regression > 5 %", "iops regression"]))
    suite = ET.fromstring(compare_render.junit({**found, "hits": hits}))[0]  # noqa: S314
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("14", "1", "0")
    broken = suite.find("testcase[failure]")
    assert (broken.get("classname"), broken.get("name")) == (f"backing-a {SMALL}", "iops")
    assert "iops regression > 5 %: worse, by" in broken.find("failure").get(
        "message"
    ) and "; iops regression: " in broken.find("failure").get("message")
    few = comparison.compare(make_runs.results(3, MEDIANS), make_runs.results(3, SLOWER, run_id="after"))
    lost = {"rule": "missing", "point": "gone", "metric": "", "text": "measured in the baseline only"}
    suite = ET.fromstring(  # noqa: S314 - our own output
        compare_render.junit(
            {
                **compared(),
                **few,
                "hits": [lost],
                "baseline": {"label": "a"},
                "candidate": {"label": "b"},
            }
        )
    )[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("15", "1", "14")
    assert len(suite.findall("testcase/skipped")) == 14


@pytest.mark.parametrize(
    ("metric", "title", "number", "text"),
    [
        ("latency_p99_9_ns", "Latency p99.9", 1_234_567, "1.23 ms"),
        ("write.iops", "IOPS of writes", 43_210, "43.2k"),
        ("read.latency_p50_ns", "Latency p50 of reads", 890, "890 ns"),
        ("bandwidth_bytes_s", "Bandwidth", 82.9e6, "82.9 MB/s"),
        ("us_per_io", "Processor time per I/O", 4.94, "4.94 µs"),
        ("database.orders_s", "orders_s (database)", 12.3, "12.3"),
    ],
)
def test_metrics_in_words(metric, title, number, text):
    assert (words.title(metric), compare_render.value(metric, number)) == (title, text)


@pytest.mark.parametrize(
    ("changes", "least"), [((0.0,), 3), ((-3.0, 4.0), 3), ((-95.0, 900.0), 3), ((0.1, 0.2), 3), ((-60.0, -20.0), 3)]
)
def test_axes_have_marks_on_both_sides_with_room_between(changes, least):
    base = {"metric": "iops", "better": "higher", "verdict": "worse", "point": "p"}
    rows = [
        {**base, "change_percent": one, "change_low_percent": one - 0.5, "change_high_percent": one + 0.5}
        for one in changes
    ]
    ticks = compare_render.sections({"rows": rows, "margin_percent": 5.0})[0]["ticks"]
    places = [place for place, _text in ticks]
    assert len(ticks) >= least and "0" in [text for _place, text in ticks]
    assert (
        all(late - early >= 50 * compare_render.TICK_GAP - 1e-9 for early, late in zip(places, places[1:]))
        and places[0] > 0
        and places[-1] < 100
    )


# -- the task ---------------------------------------------------------------------------------------------------------


def task(tmp_path: Path, *options: str, **arguments) -> dict:
    return plays.play(tmp_path, {"storlab.testbed.compare": arguments}, *options)[0]


def both(runs: Path) -> dict:
    return {
        "baseline": {"results_dir": str(runs.parent), "testbed_id": "synthetic", "run_id": "before"},
        "candidate": {"run_dir": str(runs / "after")},
        "under_test": ["hosts.*.devices.*.queue.scheduler"],
    }


def test_writes_once_beside_the_candidate_and_then_finds_nothing_to_do(tmp_path, runs):
    first = task(tmp_path, **both(runs))
    assert first["changed"] and first["compare_dir"] == str(runs / "compare" / "after-vs-before")
    assert sorted(os.listdir(first["compare_dir"])) == [
        "comparison.csv",
        "comparison.json",
        "github.txt",
        "index.html",
        "junit.xml",
        "report.md",
    ]
    assert first["verdict"] == "worse" and first["counts"]["worse"] == 7 and len(first["table"]) == 1 + 2 + 14
    # The figures fit into 80 columns, and each verdict may go on below them.
    figures = [line for line in first["table"][1:] if line.startswith("  ")]
    assert len(figures) == 14 and all(len(re.sub(r"  (better|worse|no |cannot).*", "", line)) <= 80 for line in figures)
    assert [entry["fact"] for entry in first["differences"]] == ["hosts.target01.devices.backing-a.queue.scheduler"]
    assert first["failed_points"][0]["reason"].startswith("3 <b>I/O</b>")
    before = {path: Path(path).read_bytes() for path in first["files"].values()}
    again = task(tmp_path, **both(runs))
    assert (
        not again["changed"] and again["written"] == [] and {path: Path(path).read_bytes() for path in before} == before
    )


def test_check_mode_gives_the_verdicts_and_writes_nothing(tmp_path, runs):
    found = task(tmp_path, "--check", "--diff", **both(runs))
    assert (
        found["changed"]
        and found["verdict"] == "worse"
        and len(found["written"]) == 6
        and not (runs / "compare").exists()
    )
    assert "worse, by" in found["diff"][0]["after"]


def test_a_regression_fails_the_task_after_the_files_are_written(tmp_path, runs):
    found = task(tmp_path, **both(runs), fail_on=["latency_p99_ns regression > 5 %"], output_dir=str(tmp_path / "out"))
    assert (
        found["failed"]
        and found["failure"]["code"] == "regression"
        and "latency_p99_ns" in found["msg"]
        and "rc" not in found
    )
    junit = ET.parse(tmp_path / "out" / "after-vs-before" / "junit.xml").getroot()  # noqa: S314
    assert junit[0].get("failures") == "1"
    passed = task(tmp_path, **both(runs), fail_on=["latency_p99_ns regression > 60 %"])
    assert not passed.get("failed") and passed["hits"] == []
    assert (found["outcome"], passed["outcome"]) == ("failed", "passed")
    assert passed["conclusion"] == "Passed: no figure meets latency_p99_ns regression > 60 %."
    stopped = (tmp_path / "out" / "after-vs-before" / "github.txt").read_text(encoding="utf-8")
    assert re.fullmatch(
        r"::error title=storlab\.testbed::backing-a \S+, Latency p99: worse, by [\d.]+ to [\d.]+ %25\n", stopped
    )
    assert "rc" not in passed and "outcome" not in task(tmp_path, **both(runs))


def test_a_rule_that_could_not_be_judged_is_neither_passed_nor_failed():
    before = make_runs.results(5, MEDIANS)
    after = make_runs.results(5, SLOWER, seed=2, run_id="after", start=39_605)
    found = compared(**comparison.compare(before, after))
    rules = gate.rules(["regression > 5 %"])
    found.update(gate.concluded(["regression > 5 %"], gate.hits(found, rules), gate.unjudged(found, rules)))
    assert found["outcome"] == "inconclusive" and found["hits"] == []
    files = compare_render.render(found)
    suite = ET.fromstring(files["junit.xml"])[0]  # noqa: S314 our own text
    assert suite.get("failures") == "0" and int(suite.get("skipped")) == len(found["unjudged"]) > 0
    assert {one.get("name"): one.get("value") for one in suite.findall("properties/property")}[
        "outcome"
    ] == "inconclusive"
    sentence = f"Inconclusive: regression > 5 % could not be judged for {len(found['unjudged'])} figures."
    assert f"**{sentence}**" in html.unescape(files["report.md"].replace("\\", ""))
    assert 'class="gate open"' in files["index.html"] and "Passed" not in files["index.html"]
    lines = files["github.txt"].splitlines()
    assert len(lines) == len(found["unjudged"]) and all(line.startswith("::warning ") for line in lines)


def test_a_page_is_not_green_beside_a_figure_that_is_worse():
    found = compared()
    assert found["counts"]["worse"]
    passed = {**found, **gate.concluded(["regression > 90 %"], [], [])}
    page = compare_render.html(passed)
    assert "Passed: no figure meets regression &gt; 90 %." in page and 'class="gate open"' in page
    alike = comparison.compare(make_runs.results(5, MEDIANS), make_runs.results(5, MEDIANS, seed=2, run_id="after"))
    assert 'class="gate clear"' in compare_render.html({**passed, **alike})


def stored(results: Path, run_id: str, hour: int, factor: float = 1.0, seed: int = 1) -> None:
    slower = {key: rate * factor for key, rate in MEDIANS.items()}
    make_runs.write_run(results, make_runs.results(4, slower, seed=seed, run_id=run_id, start=3600 * hour))


def test_a_history_is_the_last_runs_before_the_candidate(tmp_path):
    results = tmp_path / "results"
    for number in range(9):
        stored(results, f"nightly-{number}", number, 1 + 0.01 * (number % 3), seed=number + 1)
    stored(results, "candidate", 20, 0.5, seed=30)
    stored(results, "nightly-after", 30, 2.0, seed=31)
    here = {"results_dir": str(results), "testbed_id": "synthetic"}
    gated = {"candidate": {**here, "run_id": "candidate"}, "fail_on": ["regression > 5 %"]}
    found = task(tmp_path, baseline={**here, "last": 8}, **gated)
    assert "design" in found, found["msg"]
    assert (found["design"], found["outcome"], found["failure"]["code"]) == ("history", "failed", "regression")
    # The eight before it: not the oldest, none that came later, and not itself.
    written = json.loads(Path(found["files"]["comparison.json"]).read_text(encoding="utf-8"))
    assert written["baseline"]["run_id"].split(", ") == [f"nightly-{number}" for number in range(1, 9)]
    named = task(tmp_path, baseline={**here, "run_ids": ["weekly-*"]}, **gated)
    assert named["failure"]["code"] == "run_missing"
    few = task(tmp_path, baseline={**here, "last": 3}, **gated)
    assert (
        few["outcome"] == "inconclusive" and "3 of at least 8 runs of the baseline, run 5 more runs" in few["table"][2]
    )
    pattern = task(tmp_path, baseline={**here, "run_ids": ["nightly-*"]}, candidate={**here, "run_id": "nightly-after"})
    assert pattern["rows"][0]["baseline"]["runs"] == 9


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"under_test": []}, "unlike_runs", "queue.scheduler ([none] mq-deadline → none [mq-deadline])"),
        ({"candidate": {"run_dir": "/nonexistent"}}, "run_missing", "/nonexistent"),
        ({"candidate": {"run_id": "after"}}, "bad_value", "candidate"),
        ({"candidate": {"run_dir": "/x", "testbed_id": "y"}}, "bad_value", "either run_dir"),
        ({"fail_on": ["slower"]}, "bad_value", "fail_on"),
        ({"margin_percent": 0}, "bad_value", "margin_percent"),
        ({"metrics": ["speed"]}, "bad_value", "speed"),
        ({"fail_on": ["tpm regression"]}, "metric_missing", "tpm"),
    ],
)
def test_failures_have_a_code_and_name_the_cause(tmp_path, runs, changes, code, words):
    found = task(tmp_path, **{**both(runs), **changes})
    assert found["failed"] and found["failure"]["code"] == code and words in found["msg"] and "rc" not in found
    assert "Traceback" not in json.dumps(found) and not (runs / "compare").exists()


def test_lists_of_runs_a_side(tmp_path):
    for index, label in enumerate("ababab"):
        results = make_runs.results(
            4, SLOWER if label == "b" else MEDIANS, seed=index, run_id=f"{label}{index}", start=3600 * (index + 1)
        )
        make_runs.write_run(tmp_path / "results", results)
    here = {"results_dir": str(tmp_path / "results"), "testbed_id": "synthetic"}
    sides = {
        name: {**here, "run_ids": [f"{label}{index}" for index in places]}
        for name, label, places in (("baseline", "a", (0, 2, 4)), ("candidate", "b", (1, 3, 5)))
    }
    found = task(tmp_path, **sides)
    assert (found["design"], found["method"], found["verdict"]) == ("alternating", "runs", "worse")
    assert found["compare_dir"].endswith("/synthetic/compare/b1_b3_b5-vs-a0_a2_a4")
    assert "b1, b3, b5" in Path(found["index"]).read_text(encoding="utf-8")
    twice = task(tmp_path, **{**sides, "candidate": {**here, "run_ids": ["b1", "b1", "b3"]}})
    assert twice["failure"]["code"] == "bad_value" and "listed twice" in twice["msg"]
    none = task(tmp_path, **{**sides, "candidate": {**here, "run_ids": []}})
    assert none["failure"]["code"] == "bad_value" and "run_ids" in none["msg"]


def test_damaged_files_are_listed(tmp_path, runs):
    (runs / "after" / "points" / f"backing-a.{SMALL}.r5" / "result.json").write_text("{", encoding="utf-8")
    found = task(tmp_path, **both(runs))
    assert found["damaged"][0]["side"] == "candidate" and found["rows"][0]["candidate"]["repetitions"] == 4


def test_the_playbook_prints_the_table_and_fails_with_the_gate(tmp_path, runs):
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(
        yaml.safe_dump(
            {
                "controllers": {
                    "hosts": {"localhost": {"ansible_connection": "local"}},
                    "vars": {
                        "testbed_id": "synthetic",
                        "testbed_results_dir": str(runs.parent),
                        "testbed_baseline": "before",
                        "testbed_under_test": ["hosts.*.devices.*.queue.scheduler"],
                    },
                }
            }
        ),
        encoding="utf-8",
    )
    book = ROOT / "playbooks" / "compare.yml"
    code, steps = plays.run(tmp_path, book, "-i", str(inventory))
    assert "Measured in turns (4 repetitions per side)." in steps[-1]["msg"]
    assert code == 0 and steps[-1]["msg"].splitlines()[-1] == f"Comparison: {runs}/compare/after-vs-before/index.html"
    assert "worse, by" in steps[-1]["msg"]
    gates = json.dumps(
        {"testbed_compare_fail_on": ["regression > 5 %"], "testbed_candidate": {"run_dir": str(runs / "after")}}
    )
    code, steps = plays.run(tmp_path, book, "-i", str(inventory), "-e", gates)
    assert code == 2 and steps[0]["failure"]["code"] == "regression" and "worse, by" in steps[-1]["msg"]


# -- the filter -------------------------------------------------------------------------------------------------------


def test_the_filter_takes_summaries_in_hand():
    def summaries(results):
        return [
            {
                **{key: one[key] for key in ("layer", "workload_id", "repetition", "status", "started_utc")},
                "total": {key: value for key, value in one["total"].items() if key != "histogram"},
            }
            for one in results
        ]

    before, after = (
        summaries(make_runs.results(5, MEDIANS)),
        summaries(make_runs.results(5, SLOWER, seed=2, run_id="after")),
    )
    found = compare_results(after, before, metrics=["iops"], margin_percent=3)
    assert {one["point"]: one["verdict"] for one in found["rows"]} == {
        f"backing-a {SMALL}": "worse",
        f"backing-a {LARGE}": "no_difference",
    }
    # Nothing says any more that the sides took turns.
    bare = [
        [{key: value for key, value in one.items() if key != "started_utc"} for one in of] for of in (after, before)
    ]
    assert compare_results(*bare, metrics=["iops"])["verdict"] == "different"
    with pytest.raises(AnsibleFilterError, match="baseline"):
        compare_results(after, [])
