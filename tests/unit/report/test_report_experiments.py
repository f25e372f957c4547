# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of several experiments: what each found, what failed with its message, and nothing that was not measured."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import synthetic_run
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import experiments, model
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from fixtures.report import make_fixture
from plays import play
from report_page import Page
from test_report_databases import VALUES, write

HOSTILE = "<img src=x onerror=alert(1)> & {{ 7 * 7 }} \"'"
# As ansible-core 2.19 writes it with callback_result_format=json.
LOG = """
PLAY [Build] *******************************************************************

TASK [storlab.testbed.raid : Look at the disks] ********************************
fatal: [hypervisor01]: FAILED! => {"changed": false, "msg": "this one was ignored"}
...ignoring

TASK [Try the other way] *******************************************************
fatal: [controller01]: FAILED! => {"changed": false, "msg": "this one was rescued"}

TASK [storlab.testbed.raid : Make the arrays] **********************************
[ERROR]: Task failed: Module failed: /dev/vdc holds a file system.
Origin: /srv/roles/raid/tasks/present.yml:8:3

failed: [target01] (item=e5) => {"ansible_loop_var": "item", "changed": false, "item": "e5", "msg": "/dev/vdc holds a file system."}
fatal: [target01]: FAILED! => {"msg": "One or more items failed", "results": []}

TASK [Log in] ******************************************************************
fatal: [client01 -> target01]: UNREACHABLE! => {"changed": false, "msg": "No route to\\n host", "unreachable": true}

PLAY RECAP *********************************************************************
client01                   : ok=3    changed=0    unreachable=1    failed=0    skipped=0    rescued=0    ignored=0
controller01               : ok=7    changed=1    unreachable=0    failed=0    skipped=0    rescued=1    ignored=0
hypervisor01               : ok=9    changed=2    unreachable=0    failed=0    skipped=1    rescued=0    ignored=1
target01                   : ok=5    changed=1    unreachable=0    failed=1    skipped=0    rescued=0    ignored=0
"""


def told(name: str, rc: int = 0, log: str = "", **more) -> dict:
    return {
        "name": name,
        "title": f"what {name} is",
        "run_id": synthetic_run.RUN_ID,
        "rc": rc,
        "attempts": 1,
        "started_utc": "2026-11-22T23:58:30Z",
        "finished_utc": "2026-11-23T00:11:09Z",
        "words": {},
        "log": log,
        "log_href": f"{name}.log",
        **more,
    }


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> experiments.Outcome:
    folder = synthetic_run.write_run(str(tmp_path_factory.mktemp("results")), "small", 1)
    return experiments.Outcome(model.build(load.read_run(folder)), "../e2/x/report/index.html", "e2-scaled-down")


def page_of(ran: list, left: dict) -> tuple:
    index = experiments.build(ran, left)
    return index["experiments"], experiments.files(index, left)["index.html"]


def test_what_ended_an_experiment_is_told_and_neither_what_was_ignored_nor_what_was_rescued():
    assert experiments.failures(LOG) == [
        {
            "host": "target01",
            "task": "storlab.testbed.raid : Make the arrays",
            "message": "/dev/vdc holds a file system.",
        },
        {"host": "client01", "task": "Log in", "message": "No route to host"},
    ]


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("", "It said nothing."),
        ("one\ntwo\n\nthree\nfour\n", "two three four"),
        (
            "PLAY [Lock] ***\n[ERROR]: User interrupted execution\nTASKS RECAP ***\n[ERROR]: User interrupted execution\n",
            "[ERROR]: User interrupted execution",
        ),
        (
            "one\n\ntwo\nthree\n  [ERROR]: the playbook could not be found\n",
            "[ERROR]: the playbook could not be found",
        ),
        ('TASK [Read] ***\nfatal: [t1]: FAILED! => {"msg": broken}\n', '{"msg": broken}'),
        ('fatal: [t1]: FAILED! => {"changed": false}\n', '{"changed": false}'),
    ],
)
def test_an_experiment_that_failed_otherwise_has_a_message_as_well(log, message):
    assert [failure["message"] for failure in experiments.failures(log)] == [message]


def test_a_message_that_every_host_says_is_told_once():
    log = "".join(f'TASK [{host}] *\nfatal: [{host}]: FAILED! => {{"msg": "no space"}}\n' for host in ("t1", "t2"))
    assert experiments.failures(log) == [{"host": "t1", "task": "t1", "message": "no space"}]


def test_an_experiment_that_ended_is_on_the_page_with_what_it_measured_and_what_was_published(found):
    ran = told("e2", words={"disk": "192MiB", "block_sizes": ["4k", "1m"]})
    (row,), html = page_of([ran], {"e2": found})
    count = len(found.report.points)
    assert count > 0 and (row["points"], row["points_failed"], row["failed"], row["took_s"]) == (count, 0, False, 759)
    assert row["scaled_down"] and row["machines"] == {"simulated": ["target01", "hypervisor01", "guest01"]}
    text = Page(html).text
    for said in (
        "1 of 1 experiment ended without a failure, in 12 min 39 s.",
        f"{count} measured, 0 failed; 1 repetition of each",
        "simulated: target01, hypervisor01, guest01",
        "testbed_e2: {block_sizes: [4k, 1m], disk: 192MiB}",
        found.report.verdict,
        "somebody else's RAM disk",
    ):
        assert said in text, said
    assert html.count(f'href="{found.href}"') == 2
    # Beside the published 80000 stands what was measured of that workload, not rounded.
    measured = next(
        step.cell.value("iops")
        for waterfall in found.report.waterfalls
        for step in waterfall.steps
        if step.cell.layer == "guest-guest01" and waterfall.workload_id == "4k-r70-rnd100-qd8-w1"
    )
    row_of = next(part for part in html.split("<tr") if "80000" in part)
    assert pytest.approx(measured, abs=0.001) in [float(value) for value in re.findall(r'value="([0-9.]+)"', row_of)]


def test_one_that_failed_stands_beside_the_others_with_its_message_and_without_figures(found):
    rows, html = page_of([told("e1", 2, LOG), told("e2")], {"e2": found})
    assert [row["failed"] for row in rows] == [True, False] and "points" not in rows[0]
    text = Page(html).text
    assert "1 of 2 experiments ended without a failure, in 25 min 18 s; failed: e1." in text
    assert "Failed: /dev/vdc holds a file system. storlab.testbed.raid : Make the arrays, on target01" in text
    assert "this one was" not in text and 'href="e1.log"' in html
    section = html[html.index('<section id="e1"') : html.index('<section id="e2"')]
    assert "Published figures" not in section and "Report of run" not in section
    assert (
        experiments.summary({"experiments": rows})[0]
        == "e1: failed (rc 2): /dev/vdc holds a file system. (no report, 12 min 39 s)"
    )


def test_what_was_measured_before_one_failed_is_there(found):
    (row,), html = page_of([told("e2", 2, LOG)], {"e2": found._replace(href="")})
    assert row["failed"] and row["points"] == len(found.report.points) and "report" not in row
    assert "Report of run" not in html and found.report.verdict in Page(html).text


def test_one_that_was_started_twice_says_so(found):
    _rows, html = page_of([told("e2", attempts=2)], {"e2": found})
    assert "return code 0; started 2 times, measuring failed points again" in Page(html).text
    assert "started" not in Page(page_of([told("e2")], {"e2": found})[1]).text


def test_an_experiment_without_published_figures_has_no_table_of_them(tmp_path):
    run = load.read_run(make_fixture.write_run(str(tmp_path), 1, 1))
    (row,), html = page_of([told("e9")], {"e9": experiments.Outcome(model.build(run), "r.html", "e9")})
    assert not row["scaled_down"] and "Published figures" not in html and "scaled down" not in html
    assert "as published" in Page(html).text


LOADS = [
    {"metric": "tpm", "value": 17790, "unit": "TPM", "where": "lab without cache", "note": "by HammerDB"},
    {"metric": "nopm", "value": 7845, "unit": "NOPM", "where": "lab without cache", "note": "by HammerDB"},
    {"metric": "tpm", "value": 31536, "unit": "TPM", "where": "lab with cache", "note": "by HammerDB"},
    {"metric": "nopm", "value": 12128, "unit": "NOPM", "where": "lab with cache", "note": "by HammerDB"},
]


def outcome_of(folder: str) -> experiments.Outcome:
    return experiments.Outcome(model.build(load.read_run(folder)), "r.html", "e4-scaled-down")


def loads_table(html: str) -> tuple:
    """(the words of the table of a database's load, [what each of its figures is for programs])."""
    table = html.partition('aria-label="Published database loads"')[2].partition("</table>")[0]
    assert table
    return Page(table.partition(">")[2]).text, [float(value) for value in re.findall(r'<data value="([^"]+)"', table)]


def test_published_loads_of_a_database_stand_beside_those_that_were_measured(tmp_path):
    folder = synthetic_run.write_run(str(tmp_path), "small", 1)
    write(folder, VALUES[:2], variant="baseline")
    write(folder, VALUES[2:4], variant="cached")
    (row,), html = page_of([told("e4", published=LOADS)], {"e4": outcome_of(folder)})
    assert row["database"]["published"] == [
        {"where": "lab without cache", "note": "by HammerDB", "tpm": 17790, "nopm": 7845},
        {"where": "lab with cache", "note": "by HammerDB", "tpm": 31536, "nopm": 12128},
    ]
    # Medians of two: (300 + 290, 310 + 280) and (400 + 270, 320 + 260) transactions per minute.
    assert [(part["layer"], part["tpm"], part["nopm"]) for part in row["database"]["measured"]] == [
        ("datastore-ds1 (baseline)", 590, 305),
        ("datastore-ds1 (cached)", 625, 360),
    ]
    text, values = loads_table(html)
    assert values == [17790, 590, 625, 7845, 305, 360, 31536, 590, 625, 12128, 305, 360]
    assert text.count("by HammerDB") == 4 and "lab without cache" in text and "not measured" not in text
    assert "datastore-ds1 (baseline)" in text and "datastore-ds1 (cached)" in text


def test_published_loads_of_a_database_that_was_not_measured_say_so(found):
    (row,), html = page_of([told("e4", published=LOADS)], {"e4": found})
    text, values = loads_table(html)
    assert values == [17790, 7845, 31536, 12128] and text.count("not measured") == 4
    assert row["database"]["measured"] == [] and len(row["database"]["published"]) == 2
    # The figures of its I/O stay.
    assert "80000" in html


def test_a_load_that_failed_is_not_taken_for_a_measured_one(tmp_path):
    folder = synthetic_run.write_run(str(tmp_path), "small", 1)
    write(folder, VALUES[4:], variant="cached")
    (row,), html = page_of([told("e4", published=LOADS)], {"e4": outcome_of(folder)})
    assert row["database"]["measured"] == [] and loads_table(html)[0].count("not measured") == 4


def test_what_a_run_itself_knows_as_published_is_not_there_twice(tmp_path):
    folder = synthetic_run.write_run(str(tmp_path), "small", 1)
    write(folder, VALUES[:1])
    left = outcome_of(folder)
    left.report.record = {"requests": [{"published": [*LOADS[:2], {**LOADS[0], "where": "elsewhere", "value": 5}]}]}
    (row,), _html = page_of([told("e4", published=LOADS)], {"e4": left})
    assert [part["where"] for part in row["database"]["published"]] == [
        "lab without cache",
        "lab with cache",
        "elsewhere",
    ]


def test_loads_at_one_layer_have_columns_of_their_own(tmp_path):
    folder = synthetic_run.write_run(str(tmp_path), "small", 1)
    write(folder, VALUES[:1])
    left = outcome_of(folder)
    other = {**left.report.databases[0], "workload_id": "tproc_c-w9-vu9", "tpm": 7}
    left.report.databases = [*left.report.databases, other]
    text, values = loads_table(page_of([told("e4", published=LOADS[:1])], {"e4": left})[1])
    assert values == [17790, 590, 7]
    assert "datastore-ds1, tproc_c-w3-vu5" in text and "datastore-ds1, tproc_c-w9-vu9" in text


@pytest.mark.parametrize("published", [[], [{"metric": "iops", "value": 5, "unit": "IOPS", "where": "x"}]])
def test_an_experiment_without_a_published_load_of_a_database_says_nothing_of_one(tmp_path, published):
    folder = synthetic_run.write_run(str(tmp_path), "small", 1)
    write(folder, VALUES[:1])
    (row,), html = page_of([told("e2", published=published)], {"e2": outcome_of(folder)})
    assert "database" not in row and "loads of a database" not in html


def test_hostile_text_stays_text(found):
    log = f"TASK [{HOSTILE}] ***\nfatal: [t1]: FAILED! => {json.dumps({'msg': HOSTILE})}\n"
    loads = [{**LOADS[0], "where": HOSTILE, "note": HOSTILE}]
    ran = [
        told("e2", 1, log, title=HOSTILE, words={"disk": HOSTILE}, log_href='"><b>', published=loads),
        told("e3", 1, HOSTILE),
    ]
    _rows, html = page_of(ran, {"e2": found._replace(href='javascript"onclick="x')})
    assert "<img" not in html and "<b>" not in html and 'onclick="x' not in html and "49" not in html
    assert Page(html).text.count(HOSTILE) >= 6


def test_the_page_is_one_file_that_asks_nothing_of_anybody(found):
    _rows, html = page_of([told("e2")], {"e2": found})
    assert (
        not re.search(r'(?:src|href)="(?:https?:)?//', html)
        and "@import" not in html
        and '<link rel="stylesheet' not in html
    )


def task(tmp_path: Path, *options: str, **more) -> dict:
    ran = {key: value for key, value in told("synthetic").items() if key != "log_href"}
    log = tmp_path / "results" / "experiments" / "synthetic.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(LOG, encoding="utf-8")
    given = {"results_dir": str(tmp_path / "results"), "experiments": [{**ran, "log": str(log), **more}]}
    return play(tmp_path, {"storlab.testbed.experiments_index": given}, *options)[0]


def test_the_page_lies_in_the_folder_of_the_results_and_is_written_once(tmp_path):
    run = Path(synthetic_run.write_run(str(tmp_path / "results"), "small", 1))
    would = task(tmp_path, "--check")
    assert would["changed"] and not os.path.exists(would["index"])
    first = task(tmp_path)
    assert first["changed"] and first["index"] == str(tmp_path / "results" / "experiments" / "index.html")
    assert first["failed_experiments"] == [] and first["summary"][0].startswith("synthetic: done (")
    assert "Report of run" not in Path(first["index"]).read_text(encoding="utf-8"), "there is none yet"
    assert not task(tmp_path)["changed"]
    play(tmp_path, {"storlab.testbed.report": {"run_dir": str(run)}})
    again = task(tmp_path, rc=4)
    assert again["changed"] and again["failed_experiments"] == ["synthetic"]
    link = f"../synthetic/{synthetic_run.RUN_ID}/report/index.html"
    assert f'href="{link}"' in Path(again["index"]).read_text(encoding="utf-8")
    assert os.path.isfile(os.path.join(os.path.dirname(again["index"]), link))


def test_what_was_compared_within_the_run_is_linked_and_nothing_else(tmp_path):
    results = tmp_path / "results"
    run_id = Path(synthetic_run.write_run(str(results), "small", 1)).name
    compared = results / "synthetic" / "compare"
    here, other = {"run_id": run_id}, {"run_id": "another"}
    for name, content in {
        "one": {"headline": "one against one", "baseline": here, "candidate": here},
        "several": {"headline": "2 sides <b>", "baseline": here, "sides": [{"candidate": here}, {"candidate": here}]},
        "runs": {"headline": "of two runs", "baseline": other, "candidate": here},
        "mixed": {"headline": "of some runs", "baseline": here, "sides": [{"candidate": here}, {"candidate": other}]},
        "lists": {"headline": "of a list", "baseline": [], "sides": 5},
    }.items():
        (compared / name).mkdir(parents=True)
        (compared / name / "index.html").write_text("", encoding="utf-8")
        (compared / name / "comparison.json").write_text(json.dumps(content), encoding="utf-8")
    (compared / "broken").mkdir()
    (compared / "broken" / "comparison.json").write_text("{", encoding="utf-8")
    answer = task(tmp_path)
    (row,) = json.loads(Path(answer["index"]).with_name("index.json").read_text(encoding="utf-8"))["experiments"]
    assert row["comparisons"] == [
        {"headline": "one against one", "href": "../synthetic/compare/one/index.html"},
        {"headline": "2 sides <b>", "href": "../synthetic/compare/several/index.html"},
    ]
    page = Path(answer["index"]).read_text(encoding="utf-8")
    assert "<b>" not in page and "one against one" in Page(page).text and "2 sides <b>" in Page(page).text
    assert page.count('/compare/several/index.html"') == 1 and "of two runs" not in page and "of some" not in page


def test_words_of_an_inventory_are_shown_as_they_may_stand_there(tmp_path):
    """Ansible hands them over in types of its own."""
    run = Path(synthetic_run.write_run(str(tmp_path / "results"), "small", 1))
    run.parent.rename(run.parent.with_name("e2-scaled-down"))
    words = {"disk": "192MiB", "block_sizes": ["4k", "1m"], "workload": {"ramp_s": 0}}
    page = Path(task(tmp_path, name="e2", words=words)["index"]).read_text(encoding="utf-8")
    assert "testbed_e2: {block_sizes: [4k, 1m], disk: 192MiB, workload: {ramp_s: 0}}" in Page(page).text


def test_published_loads_are_handed_to_the_page(tmp_path):
    synthetic_run.write_run(str(tmp_path / "results"), "small", 1)
    page = Path(task(tmp_path, published=LOADS)["index"]).read_text(encoding="utf-8")
    assert loads_table(page)[1] == [17790, 7845, 31536, 12128]
    answer = task(tmp_path, published=[{**LOADS[0], "metric": "iops"}])
    assert answer["failed"] and "iops" in answer["msg"]


def test_a_run_of_another_experiment_or_time_is_not_taken_for_this_one(tmp_path):
    synthetic_run.write_run(str(tmp_path / "results"), "small", 1)
    for other in ({"run_id": "20261121T140001Z"}, {"name": "synth"}):
        answer = task(tmp_path, **other)
        assert "(no report, " in answer["summary"][0] and not answer.get("failed")


def test_a_page_that_cannot_be_written_is_said_so(tmp_path):
    (tmp_path / "results").write_text("a file", encoding="utf-8")
    ran = {key: value for key, value in told("e1").items() if key != "log_href"}
    given = {"results_dir": str(tmp_path / "results"), "experiments": [{**ran, "log": str(tmp_path / "none.log")}]}
    answer = play(tmp_path, {"storlab.testbed.experiments_index": given})[0]
    assert answer["failed"] and answer["failure"]["code"] == "report_unwritable"
