# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make trials` holds a testbed on machines to: its cells are whole, one seed is one order, and a lost point, an unnamed failure and a change of what
others have are seen."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import lab_plays
import pytest
import trial_lab
import trial_suite
import waiting
from lab_plays import Played
from places import ROOT, TESTS
from plays import outcome
from trial_cells import CELLS, LABS, STAGES, STAGES_HERE, sample
from trial_lab import Between
from trial_suite import Cell, Ended, Trial, chosen, differences, digests, lost

sys.path.insert(0, str(TESTS / "kill_controller"))

import kill_controller

NAMES = [cell.name for cell in CELLS]
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")


def test_names_are_unique_and_every_lab_has_cells():
    assert len(NAMES) == len(set(NAMES))
    assert {cell.lab for cell in CELLS} == set(LABS)


def test_a_playbook_is_held_between_the_stages_of_a_build():
    build = (ROOT / "playbooks" / "build.yml").read_text(encoding="utf-8")
    places = [build.index(f"name: storlab.testbed.{stage}\n") for stage in STAGES[:2]]
    places.append(build.index(f"\n- name: {STAGES[2]}\n"))
    # Nothing of the clients is done before, and what is done is done then.
    assert places[-1] < build.index("name: storlab.testbed.datastore\n", places[-1])
    assert places[-1] > build.index("- name: Datastores of the targets\n")
    assert places == sorted(places) and build.index("name: storlab.testbed.ramdisk\n") < places[0]
    assert f"- name: {STAGES[3]}\n" in (ROOT / "playbooks" / "unlock.yml").read_text(encoding="utf-8")
    assert ("ramdisk", STAGES[3]) == STAGES_HERE


def test_each_machine_is_restarted_between_the_stages_that_leave_something_on_it():
    ends = ["iscsi_initiator", "datastore", "the-end"]
    for machine, left in (("target01", ends), ("hypervisor01", ends[1:])):
        assert [name for name in NAMES if name.startswith(f"restart-{machine}-before-")] == [
            f"restart-{machine}-before-{end}" for end in left
        ]


@pytest.mark.parametrize(
    "setting",
    [
        "cut-link-target01-20-times",
        "full-var-target01",
        "fills-datastore",
        "full-controller-before-datastore",
        "two-labs",
        "two-testbeds-abab",
        "limit",
        "cut-mdadm-with-a-superblock",
        "lose-become-before-datastore",
    ],
)
def test_each_setting_has_a_cell(setting):
    assert setting in NAMES


def test_the_page_lists_cells_that_are_there_and_says_how_many():
    table = re.findall(r"^\| `([a-z][\w-]+-[\w-]+|limit)` \| [0-9.]+ min", PAGE, re.MULTILINE)
    assert set(table) <= set(NAMES) and len(table) == len(set(table))
    assert f"{len(CELLS)} cells" in PAGE and f"Cells that have run to their end: {len(table)}," in PAGE


def test_the_stage_that_starts_machines_is_left_out_and_nothing_else(tmp_path, monkeypatch):
    tagged = [path.name for path in (ROOT / "playbooks").glob("*.yml") if "tags: [embedded_lab]" in path.read_text()]
    assert tagged == ["embedded_lab.yml"]
    options: list = []
    monkeypatch.setattr(trial_lab, "ROOT", tmp_path)
    monkeypatch.setattr(lab_plays.Lab, "play", lambda self, *_books, **_given: options.append(self.options))
    lab = trial_lab.Lab("trials-cut", trial_lab.impatient)
    lab.options = ("--limit", "target01")
    for book in ("build", "embedded_lab"):
        lab.play(book)
    assert (
        options
        == [("--limit", "target01", "--skip-tags", "embedded_lab"), ("--limit", "target01")]
        == [options[0], lab.options]
    )


def test_one_seed_is_one_order_and_a_name_is_one_cell():
    assert chosen(CELLS, "", 7) == chosen(CELLS, "", 7) != chosen(CELLS, "", 8)
    assert sorted(map(str, chosen(CELLS, "", 7))) == sorted(NAMES)
    assert [str(cell) for cell in chosen(CELLS, "limit", 7)] == ["limit"]
    assert {str(cell) for cell in chosen(CELLS, "two-.*,limit", 7)} == {
        "two-labs",
        "two-testbeds-abab",
        "limit",
    }
    # A part of a name is none.
    assert chosen(CELLS, "limi", 7) == []


def test_labs_do_not_mix():
    labs = [cell.lab for cell in chosen(CELLS, "", 7)]
    assert len([1 for before, after in zip(labs, labs[1:]) if before != after]) == len(LABS) - 1


def test_a_sample_is_one_cell_that_needs_no_machine():
    drawn = {tuple(map(str, sample(chosen(CELLS, "", seed)))) for seed in range(60)}
    assert drawn == {(cell.name,) for cell in CELLS if cell.lab == "here"} and len(drawn) == 4


# ---------------------------------------------------------------- what is held


class Lab:
    """plays: for each that is to come what it is called and how it ends."""

    hosts, machines, dirty = ("target01", "hypervisor01", "localhost"), ("target01",), False

    def __init__(self, folder: Path, *plays):
        self.results, self.plays, self.lines = folder, list(plays), ["letter not yours", "loop /dev/loop0 /x"]

    def play(self, *books, **_variables):
        name, (returned, changes, failures) = self.plays.pop(0)
        assert name == books[0], self.plays
        return Played(returned, 1.0, changes, failures, [])

    def put_others(self):
        pass

    def look(self, _machine):
        return sorted(self.lines)

    def points(self, _run):
        return [({"status": "measured"}, "")]


GOOD = (0, 0, [])
AWAY = {"host": "target01", "msg": "ssh", "failure": None, "unreachable": True}
NAMELESS = {"host": "target01", "msg": "MODULE FAILURE", "failure": None, "unreachable": False}


def record_of(lab: Lab, work) -> dict:
    record = trial_suite.run(Cell("a", "trials", 1, work), lab, 7, lambda _text: None)
    assert lab.plays == []
    return record


def usual(trial: Trial) -> None:
    trial.mend()
    trial.end()


def test_a_cell_that_comes_through(tmp_path):
    lab = Lab(tmp_path, ("build", GOOD), ("build", GOOD), ("teardown", GOOD))
    record = record_of(lab, usual)
    assert (record["outcome"], record["problems"], record["seed"]) == ("ok", [], 7)
    assert [play["play"] for play in record["plays"]] == ["build", "build", "teardown verify_clean"]


@pytest.mark.parametrize(
    ("plays", "word"),
    [
        ([("build", (2, 0, [AWAY]))], "build fails"),
        ([("build", GOOD), ("build", (0, 3, [])), ("teardown", GOOD)], "a second build changes 3 tasks"),
        ([("build", GOOD), ("build", GOOD), ("teardown", (2, 0, [AWAY]))], "teardown verify_clean fails"),
        ([("build", (None, 0, []))], "did not end"),
    ],
)
def test_what_does_not_mend_is_seen(tmp_path, plays, word):
    record = record_of(Lab(tmp_path, *plays), usual)
    assert record["outcome"] == "FAILED" and word in str(record["problems"])


def test_a_failure_is_named_and_a_nameless_one_is_seen(tmp_path):
    named = record_of(Lab(tmp_path, ("build", (4, 0, [AWAY]))), lambda trial: trial.play("build"))
    assert named["outcome"] == "ok" and named["plays"][0]["failures"][0]["code"] == "UNREACHABLE!"
    nameless = record_of(Lab(tmp_path, ("build", (2, 0, [NAMELESS]))), lambda trial: trial.play("build"))
    assert "no failure has a code" in str(nameless["problems"])


def test_a_failure_of_an_item_of_a_loop_is_told_with_its_code():
    used = {"failed": True, "msg": "client01 uses it", "failure": {"code": "target_in_use"}}
    asked = {"failed": True, "msg": "One or more items failed", "results": [{"failed": False, "msg": "fine"}, used]}
    alone = {"failed": True, "msg": "alone"}
    hosts = {"store01": asked, "store02": alone, "store03": {"failed": False, "results": [used]}}
    document = {"stats": {}, "plays": [{"tasks": [{"task": {"name": "Ask"}, "hosts": hosts}]}]}
    _stats, failures = outcome(json.dumps(document, indent=4))
    assert [(each["host"], each["msg"], each["failure"]) for each in failures] == [
        ("store01", "client01 uses it", {"code": "target_in_use"}),
        ("store02", "alone", None),
    ]


def test_what_has_to_fail_fails_where_and_as_it_has_to(tmp_path):
    def work(trial: Trial) -> None:
        trial.fails(trial.play("teardown"), ("target01", ("UNREACHABLE!",)))

    assert record_of(Lab(tmp_path, ("teardown", (4, 0, [AWAY]))), work)["problems"] == []
    assert "does not fail" in str(record_of(Lab(tmp_path, ("teardown", GOOD)), work)["problems"])
    elsewhere = {**AWAY, "host": "hypervisor01"}
    assert "no failure of target01" in str(
        record_of(Lab(tmp_path, ("teardown", (4, 0, [elsewhere]))), work)["problems"]
    )


def test_a_change_of_what_others_have_is_seen(tmp_path):
    lab = Lab(tmp_path)

    def work(_trial: Trial) -> None:
        lab.lines = ["letter yours", "loop /dev/loop0 /x"]

    assert record_of(lab, work)["problems"] == ["target01: gone: letter not yours; new: letter yours"]
    assert differences(["a", "b"], ["b", "a"]) == ""


def test_a_point_that_is_lost_or_changed_is_seen(tmp_path):
    kept, gone, edited = [tmp_path / f"lab/run/points/{name}/result.json" for name in "kge"]
    for number, path in enumerate((kept, gone, edited)):
        path.parent.mkdir(parents=True)
        path.write_text(str(number), encoding="utf-8")
    points = digests(tmp_path)
    assert set(points) == {kept, gone, edited} and lost(points) == []
    gone.unlink()
    edited.write_text("17", encoding="utf-8")
    assert sorted(lost(points)) == sorted([f"the point {gone} is lost", f"the point {edited} was changed"])


def test_a_cell_that_breaks_off_has_failed(tmp_path):
    def work(_trial: Trial) -> None:
        raise ZeroDivisionError("seven")

    record = record_of(Lab(tmp_path), work)
    assert record["outcome"] == "FAILED" and "ZeroDivisionError: seven" in str(record["problems"])


def test_what_a_failed_cell_left_is_taken_down_before_the_next(tmp_path):
    lab = Lab(tmp_path, ("build", (4, 0, [AWAY])))
    assert record_of(lab, lambda trial: trial.must("build"))["outcome"] == "FAILED" and lab.dirty
    lab.plays = [("teardown", GOOD)]
    assert record_of(lab, lambda trial: None)["outcome"] == "ok" and not lab.dirty
    assert record_of(lab, lambda trial: None)["plays"] == []


def test_what_a_teardown_cannot_take_down_is_built_and_taken_down(tmp_path):
    lab = Lab(tmp_path, ("teardown", (2, 0, [AWAY])), ("build", GOOD), ("teardown", GOOD))
    lab.dirty = True
    assert record_of(lab, lambda trial: None)["outcome"] == "ok" and not lab.dirty


def test_what_must_end_well_ends_the_cell(tmp_path):
    trial = Trial(Lab(tmp_path, ("build", (4, 0, [AWAY]))), 7, lambda _text: None)
    with pytest.raises(Ended):
        trial.must("build")
    assert len(trial.problems) == 1


# ---------------------------------------------------------------- between two stages


def task(name: str, role: str | None) -> SimpleNamespace:
    return SimpleNamespace(
        name=name, get_name=lambda: name, _role=SimpleNamespace(get_name=lambda: role) if role else None
    )


@pytest.mark.parametrize("at", ["datastore", "Datastores", "Unlock the host"])
def test_a_playbook_is_held_once_until_it_may_go_on(tmp_path, monkeypatch, at):
    for name, value in (("HOLD_AT", at), ("HOLD", str(tmp_path)), ("MOMENTS", str(tmp_path / "moments"))):
        monkeypatch.setenv(f"KILL_CONTROLLER_{name}", value)
    module, struck = kill_controller.CallbackModule(), []
    between = Between(tmp_path, lambda: struck.append((tmp_path / "held").exists()))
    module.v2_playbook_on_task_start(task("Log in", "storlab.testbed.iscsi_initiator"), False)
    assert not (tmp_path / "held").exists()
    between.begin()
    module.v2_playbook_on_play_start(SimpleNamespace(get_name=lambda: "Datastores"))
    module.v2_playbook_on_task_start(task("Unlock the host", "storlab.testbed.datastore"), False)
    assert (tmp_path / "go").exists()
    (tmp_path / "go").unlink()
    # A second time it does not wait.
    module.v2_playbook_on_task_start(task("Unlock the host", "storlab.testbed.datastore"), False)
    between.finish()
    assert struck == [True] and between.struck and between.error is None


def test_a_strike_that_fails_holds_nobody(tmp_path):
    def fails() -> None:
        raise OSError("full")

    between = Between(tmp_path, fails)
    (tmp_path / "held").touch()
    between.begin()
    between.thread.join()
    between.finish()
    assert (tmp_path / "go").exists() and str(between.error) == "full" and not between.struck


class Ends:
    """Whoever started the suite ends it, once the playbook runs."""

    def __init__(self, pid: Path):
        self.pid = pid

    def begin(self) -> None:
        waiting.until(lambda: self.pid.exists() and self.pid.read_text(encoding="utf-8").endswith("\n"))
        raise KeyboardInterrupt

    def finish(self) -> None:
        pass


def test_a_suite_that_is_ended_ends_its_playbook(tmp_path):
    lab, pid = lab_plays.Lab("lab", tmp_path, {}, ""), tmp_path / "pid"
    lab.prefix = ("sh", "-c", f"echo $$ > '{pid}'; exec sleep 600", "sh")
    with pytest.raises(KeyboardInterrupt):
        lab.play("build", strike=Ends(pid))
    assert not Path("/proc", pid.read_text(encoding="utf-8").strip()).exists()


def test_a_playbook_that_ends_before_is_not_struck(tmp_path):
    between = Between(tmp_path, lambda: None)
    between.begin()
    between.finish()
    assert not between.struck and not (tmp_path / "go").exists()
