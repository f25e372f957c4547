# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The task and the role, run by Ansible itself on a stored run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import places
import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import render
from fixtures.report import make_fixture
from plays import play
from plays import report as task

ROOT = places.ROOT


@pytest.fixture
def results(tmp_path) -> Path:
    make_fixture.write_run(str(tmp_path / "results"), 1, 2)
    return tmp_path / "results"


def test_writes_once_and_then_finds_nothing_to_do(tmp_path, results):
    first = task(tmp_path, results_dir=str(results), testbed_id="embedded")
    assert first["changed"] and sorted(os.listdir(first["report_dir"])) == sorted([*render.FILES, "junit.xml"])
    assert first["run_id"] == "20261121T133616Z" and first["points"] == 12 and first["points_failed"] == 0
    assert first["summary"][2]["layer"] == "target-bench" and first["summary"][2]["below"] == "backing-bench"
    before = {name: Path(path).read_bytes() for name, path in first["files"].items()}
    second = task(tmp_path, results_dir=str(results), testbed_id="embedded")
    assert not second["changed"] and second["written"] == []
    assert {name: Path(path).read_bytes() for name, path in first["files"].items()} == before
    assert os.stat(first["index"]).st_mode & 0o777 == 0o644


def test_check_mode_says_what_would_be_written_and_writes_nothing(tmp_path, results):
    found = task(tmp_path, "--check", "--diff", results_dir=str(results), testbed_id="embedded")
    assert found["changed"] and len(found["written"]) == 7 and found["table"]
    assert found["diff"][0]["before"] == "" and "target-bench" in found["diff"][0]["after"]
    assert not os.path.exists(found["report_dir"])


def test_a_changed_file_is_put_right_alone(tmp_path, results):
    first = task(tmp_path, results_dir=str(results), testbed_id="embedded")
    Path(first["files"]["report.md"]).write_text("scribbled over", encoding="utf-8")
    assert task(tmp_path, results_dir=str(results), testbed_id="embedded")["written"] == [first["files"]["report.md"]]


def test_absent_removes_the_report_and_leaves_results_and_what_others_put_there(tmp_path, results):
    first = task(tmp_path, results_dir=str(results), testbed_id="embedded")
    note = Path(first["report_dir"], "note.txt")
    note.write_text("mine", encoding="utf-8")
    gone = task(tmp_path, run_dir=first["run_dir"], state="absent")
    assert gone["changed"] and len(gone["removed"]) == 7
    assert os.listdir(first["report_dir"]) == ["note.txt"]
    note.unlink()
    again = task(tmp_path, run_dir=first["run_dir"], state="absent")
    assert not again["changed"] and len(os.listdir(Path(first["run_dir"], "points"))) == 12


def test_absent_leaves_no_empty_folder(tmp_path, results):
    first = task(tmp_path, results_dir=str(results), testbed_id="embedded")
    task(tmp_path, run_dir=first["run_dir"], state="absent")
    assert not os.path.exists(first["report_dir"])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"run_dir": "/nonexistent/run"}, "run_missing"),
        ({}, "bad_value"),
        ({"run_dir": "/x", "testbed_id": "embedded"}, "bad_value"),
        ({"results_dir": "/nonexistent", "testbed_id": "embedded"}, "run_missing"),
        ({"run_dir": "/x", "state": "gone"}, "bad_value"),
    ],
)
def test_failures_have_a_code_and_no_rc(tmp_path, arguments, code):
    found = task(tmp_path, **arguments)
    assert found["failed"] and found["failure"]["code"] == code and "rc" not in found
    assert "Traceback" not in json.dumps(found)


def test_a_folder_that_cannot_be_written_is_a_failure_with_a_remedy(tmp_path, results):
    run = next((results / "embedded").iterdir())
    (run / "report").write_text("a file where the folder should be", encoding="utf-8")
    found = task(tmp_path, run_dir=str(run))
    assert found["failed"] and found["failure"]["code"] == "report_unwritable" and str(run) in found["msg"]


def test_the_role_prints_the_table_and_the_place(tmp_path, results):
    role = {
        "ansible.builtin.import_role": {"name": "storlab.testbed.report"},
        "vars": {"report_testbed_id": "embedded", "report_results_dir": str(results)},
    }
    message = play(tmp_path, role)[-1]["msg"]
    assert "takes" not in message.splitlines()[0] and "initiator-bench" in message
    *_table, trust, place, next_step = message.splitlines()
    assert trust == "Trust: Only with care: 1 warning, listed first among the findings."
    assert place == f"Report: {results}/embedded/20261121T133616Z/report/index.html"
    assert next_step.startswith("Next: Measure 4 repetitions or more (benchmark_repetitions), so that small")
    assert "Note: target01, hypervisor01, guest01: emulated" in message


def test_the_role_takes_it_away_again(tmp_path, results):
    values = {"report_testbed_id": "embedded", "report_results_dir": str(results)}
    play(tmp_path, {"ansible.builtin.import_role": {"name": "storlab.testbed.report"}, "vars": values})
    last = play(
        tmp_path,
        {
            "ansible.builtin.import_role": {"name": "storlab.testbed.report"},
            "vars": {**values, "report_state": "absent"},
        },
    )[-1]
    assert last["changed"] and len(last["removed"]) == 7
