# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make faults` holds the lab to: the table of faults is whole, its order follows from the seed, and a wrong number or an unnamed failure is seen."""

from __future__ import annotations

import copy
import io
import json
import re
from collections import Counter
from types import SimpleNamespace

import fault_stand_ins
import fault_suite
import pytest
import yaml
from fault_emulated import EARLY, ON_MACHINE, fill
from fault_suite import (
    BUILT_BEFORE,
    KILLED,
    OWN_WORDS,
    STAGES,
    Cell,
    Strike,
    Suite,
    cells,
    codes,
    drawn,
    moment_of,
    silent,
    unnamed,
)
from faults import EMULATED, MEASURED_HERE, SAMPLE, STAND_INS, TABLES, apart, sample
from lab_plays import Played, told
from places import ROOT
from small_lab import WORKLOAD

HERE = {"machine", "link", "results_full"}
HOSTS = ("target01", "hypervisor01", "controller01", "localhost")
EVERY = cells(TABLES)


def test_the_tables_are_complete_and_unique():
    names = [str(cell) for cell in EVERY]
    assert len(names) == len(set(names)) >= 60
    assert {cell.stage for cell in EVERY} == set(STAGES) == set(BUILT_BEFORE)
    assert {cell.fault for cell in EVERY if cell.lab in EMULATED} == set(ON_MACHINE) | HERE
    assert {cell.how for cell in EVERY} == {"pause", "outage", "lasting", "kill", "gone", "cut"}
    assert {cell.fault for cell in EVERY} >= set(EARLY)
    assert set(TABLES) == {*EMULATED, *STAND_INS}


def test_the_page_has_each_lab_with_its_cells_and_each_fault():
    page = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    for lab, number in Counter(cell.lab for cell in EVERY).items():
        assert re.search(rf"^\| `{lab}` \| .* \| {number} \|$", page, re.MULTILINE), (lab, number)
    assert f"{len(EVERY)} of them" in page
    firsts = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `")]
    assert {cell.fault for cell in EVERY} <= set(re.findall(r"`(\w+)`", " ".join(firsts)))


def test_each_host_is_in_one_lab():
    labs = {where: {cell.lab for cell in EVERY if cell.where == where} for where in {cell.where for cell in EVERY}}
    # The guest's lab is an emulated lab, too, with faults of its own.
    assert labs.pop("hypervisor01") == {"emulated", "guest"}
    assert [len(found) for found in labs.values()] == [1] * len(labs)


def test_each_lab_knows_the_hosts_of_its_cells():
    for name, lab in {**EMULATED, **STAND_INS}.items():
        assert {cell.where for cell in EVERY if cell.lab == name} <= set(lab.hosts)


def test_what_does_not_last_can_be_undone():
    for fault, _where, hows, _stages in [row for name in EMULATED for row in TABLES[name]]:
        if fault in ON_MACHINE:
            _condition, strikes, undo = ON_MACHINE[fault]
            assert all(how in strikes or None in strikes for how in hows)
            assert bool(undo) == bool({"pause", "outage", "lasting"} & set(hows)) or fault == "iscsid"


def test_one_seed_is_one_order_and_another_seed_another():
    assert drawn(EVERY, 7) == drawn(EVERY, 7) != drawn(EVERY, 8)
    assert sorted(map(str, drawn(EVERY, 7))) == sorted(map(str, EVERY))
    assert len(drawn(EVERY, 7, 5)) == 5


def test_labs_and_stages_do_not_mix():
    order = [(cell.lab, cell.stage) for cell in drawn(EVERY, 7)]
    assert len([1 for before, after in zip(order, order[1:]) if before != after]) == len(set(order)) - 1


def test_a_sample_has_some_of_each_lab_and_nothing_that_takes_minutes():
    assert set(fault_stand_ins.SLOW) <= {str(cell) for cell in EVERY}
    for seed in range(50):
        chosen = sample(EVERY, seed)
        assert Counter(cell.lab for cell in chosen) == SAMPLE
        assert len({str(cell) for cell in chosen}) == sum(SAMPLE.values())
        assert not {str(cell) for cell in chosen} & set(fault_stand_ins.SLOW)
    assert sample(EVERY, 1) == sample(EVERY, 1) != sample(EVERY, 2)


def test_no_two_labs_measure_this_machine_at_the_same_time():
    assert {name for name, lab in STAND_INS.items() if issubclass(lab, fault_stand_ins.Here)} == MEASURED_HERE
    parts = apart(drawn(EVERY, 7))
    assert sorted(sorted({cell.lab for cell in part}) for part in parts) == [
        ["emulated"],
        ["esxi", "here"],
        ["guest"],
        ["windows"],
    ]
    assert sorted(map(str, (cell for part in parts for cell in part))) == sorted(map(str, EVERY))


def test_an_esxi_host_is_given_a_lun_whose_target_can_fail(tmp_path):
    """It is given only what carries a datastore; without one there was no target, and nothing struck."""
    fault_stand_ins.Esxi(tmp_path)
    described = yaml.safe_load((tmp_path / "lab.yml").read_text(encoding="utf-8"))["all"]["vars"]["testbed"]
    given = [disk["name"] for disk in described["disks"] if disk.get("to") != []]
    assert given and given == [store["disk"] for store in described["datastores"]]


MOMENTS = [
    f"{moment} {number} {name}"
    for number, name in enumerate(
        ["Check", "Lock the host against changes by others", *"abcdefgh", "Unlock the host", "End"],
        start=1,
    )
    for moment in ("before", "after")
]


def test_a_fault_strikes_while_hosts_are_changed():
    machine = Cell("emulated", "build", "machine", "target01", "kill")
    assert {moment_of(machine, MOMENTS, seed, EARLY) for seed in range(200)} == set(range(3, 11))
    session = Cell("emulated", "teardown", "session", "hypervisor01", "gone")
    assert {moment_of(session, MOMENTS, seed, EARLY) for seed in range(200)} == set(range(3, 7))


# ---------------------------------------------------------------- wrong numbers

USUAL = {"iops": [1000.0], "flags": ["directions_apart"]}


def point(runtime_ms: int = 6003, ios: int = 6000, mean_ns: float = 4e6, longest_ns: float = 9e7) -> tuple:
    side = {"total_ios": ios // 2, "runtime": runtime_ms, "lat_ns": {"mean": mean_ns, "max": longest_ns}}
    result = {
        "point_id": "p",
        "status": "measured",
        "failures": [],
        "flags": ["directions_apart"],
        "workload": {**WORKLOAD, "workers": 1},
        "total": {"ios": ios, "iops": ios / runtime_ms * 1000},
    }
    return result, json.dumps({"jobs": [{"error": 0, "read": side, "write": side}]})


def changed(**news) -> tuple:
    result, text = point()
    result = copy.deepcopy(result)
    result["total"].update({key: value for key, value in news.items() if key in result["total"]})
    return {**result, **{key: value for key, value in news.items() if key not in result["total"]}}, text


def test_a_right_number_is_right():
    assert silent([point()], USUAL) == []


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (changed(ios=6001), "the result says 6001"),
        (changed(iops=1100.0), "the result says 1100"),
        (point(runtime_ms=36000, ios=36000), "36.0 s, and 6 s"),
        (point(runtime_ms=3000, ios=3000), "3.0 s, and 6 s"),
        (point(longest_ns=4e9), "an I/O took 4.0 s"),
        (point(mean_ns=40e6), "40.0 I/Os were in flight"),
        (point(ios=600), "100 IOPS"),
        (point(ios=60000, mean_ns=4e5), "9995 IOPS"),
        ((point()[0], ""), "no document"),
        ((point()[0], json.dumps({"jobs": []})), "no I/O"),
        ((point()[0], point()[1].replace('"error": 0', '"error": 5')), "fio had errors"),
    ],
)
def test_a_wrong_number_is_seen(wrong, word):
    problems = silent([point(), wrong], USUAL)
    assert problems and word in " ".join(problems)


def test_one_late_answer_of_a_trial_is_no_wrong_number():
    """docs/results.md: of a run of less than 6 s only a standstill of the whole run fails."""
    result, text = point(runtime_ms=3003, ios=3000, longest_ns=2.5e9)
    asked = {**result, "workload": {**result["workload"], "runtime_s": 3}}
    assert silent([(asked, text)], USUAL) == []
    assert "an I/O took 3.1 s" in str(silent([(asked, point(3003, 3000, longest_ns=3.1e9)[1])], USUAL))


@pytest.mark.parametrize(
    "told_of", [{"flags": ["clock_stepped"]}, {"status": "failed", "failures": [{"code": "too_long"}]}]
)
def test_a_wrong_number_that_is_told_is_not_silent(told_of):
    result, text = point(runtime_ms=36000)
    assert silent([({**result, **told_of}, text)], USUAL) == []


def test_a_failed_point_has_a_reason():
    assert silent([({**point()[0], "status": "failed"}, "")], USUAL) == ["p failed, and nothing says why"]


# ---------------------------------------------------------------- what a failure says

PAGE = "| code | means |\n| `run_lost`, `run_exists` | x |\n\n`UNREACHABLE!` is Ansible's own.\n"
LOST = {"host": "hypervisor01", "msg": "x", "failure": {"code": "run_lost"}}


def test_codes_of_the_page():
    assert codes(PAGE) == {"run_lost", "run_exists", "UNREACHABLE"}
    assert {"points_failed", "UNREACHABLE", *OWN_WORDS} <= codes(
        (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    )


def test_a_failure_that_is_named_is_named():
    follows = {"host": "target01", "msg": "hypervisor01 failed, and target01 stands on it", "failure": None}
    assert unnamed([LOST, follows], codes(PAGE), HOSTS) == []
    assert unnamed([{"host": "target01", "msg": "ssh", "unreachable": True}], codes(PAGE), HOSTS) == []
    killed = {"host": "target01", "msg": f"{KILLED}: No start of json char found"}
    assert unnamed([killed], codes(f"{PAGE}\n`{KILLED}` is, too."), HOSTS) == []
    refused = {"host": "target01", "msg": "Task failed: Incorrect su password"}
    assert unnamed([refused], codes(f"{PAGE}\n`Incorrect su password` is, too."), HOSTS) == []
    # On a page without it, and with a traceback, nothing can be looked up.
    assert (
        unnamed([killed], codes(PAGE), HOSTS)
        != []
        != unnamed([{**killed, "msg": f"{KILLED}: Traceback"}], codes(f"{PAGE}\n`{KILLED}` is, too."), HOSTS)
    )


@pytest.mark.parametrize(
    ("failures", "word"),
    [
        ([], "no failure has a code"),
        ([{**LOST, "failure": {"code": "run_lots"}}], "has no code run_lots"),
        ([LOST, {"host": "target01", "msg": "MODULE FAILURE", "failure": None}], "has no code None"),
        ([{**LOST, "host": ""}], "no host is named"),
        ([{"host": "target01", "msg": "target01 is sad", "failure": None}], "no failure has a code"),
    ],
)
def test_a_failure_that_nobody_can_look_up_is_seen(failures, word):
    assert word in " ".join(unnamed(failures, codes(PAGE), HOSTS))


def test_failures_are_read_from_what_ansible_prints():
    answers = {"target01": {"unreachable": True, "msg": "away"}, "hypervisor01": {"changed": True}}
    plays = [{"tasks": [{"task": {"name": "Log in"}, "hosts": answers}]}]
    first = {"plays": [], "stats": {"target01": {"changed": 5}}}
    text = "[WARNING]: x\n" + "".join(
        json.dumps(document, indent=4) + "\n"
        for document in (first, {"plays": plays, "stats": {"hypervisor01": {"changed": 2}}})
    )
    changes, failures = told(text)
    assert changes == 2
    assert [(failure["host"], failure["task"], failure["unreachable"]) for failure in failures] == [
        ("target01", "Log in", True)
    ]


def test_output_that_is_no_document_is_a_failure_of_nobody():
    assert re.search("no host", " ".join(unnamed(told("Traceback: boom")[1], codes(PAGE), HOSTS)))


def test_filling_ends_when_nothing_is_left():
    with open("/dev/full", "rb"):
        fill("/dev/full")


# ---------------------------------------------------------------- a cell, with playbooks that are told how to end


class Lab:
    """plays: for each that is to come what it is called and (what it returns, how many tasks change something, failures)."""

    hosts = HOSTS

    def __init__(self, *plays):
        self.plays, self.stored, self.struck_at = list(plays), [], 1.0

    def moment(self, cell, moments, seed):
        return moment_of(cell, moments, seed)

    def strike(self, _cell, moment, _run):
        return SimpleNamespace(moment=moment, struck_at=self.struck_at, error="")

    def play(self, *books, strike=None, **_variables):
        name, (returned, changes, failures) = self.plays.pop(0)
        assert name == books[0], self.plays
        return Played(returned, 1.0, changes, failures, MOMENTS)

    def points(self, _run):
        return self.stored


GOOD = (0, 0, [])
CELL = Cell("emulated", "benchmark", "fio", "hypervisor01", "kill")


def suite_of(lab, built=True):
    suite = Suite(lab, 7, lambda _text: None)
    suite.built, suite.undisturbed = (
        built,
        {"moments": dict.fromkeys(STAGES, MOMENTS), "points": 2, "usual": copy.deepcopy(USUAL)},
    )
    return suite


def record_of(lab, cell=CELL):
    record = suite_of(lab).run(cell)
    assert lab.plays == []
    return record


def test_a_cell_that_comes_through():
    lab = Lab(("benchmark", GOOD), ("build", (0, 4, [])), ("build", GOOD), ("verify_results", GOOD))
    lab.stored = [point(), point()]
    assert record_of(lab)["outcome"] == "ok"


def test_a_benchmark_that_failed_is_run_once_more():
    lab = Lab(
        ("benchmark", (2, 0, [{**LOST, "failure": {"code": "run_lost"}}])),
        ("build", GOOD),
        ("build", GOOD),
        ("verify_results", GOOD),
        ("benchmark", GOOD),
        ("verify_results", GOOD),
    )
    lab.stored = [point(), point()]
    assert record_of(lab)["outcome"] == "ok"


def failed(*codes: str) -> tuple:
    result, text = point()
    return {**result, "status": "failed", "failures": [{"code": code} for code in codes]}, text


@pytest.mark.parametrize(
    ("second", "tries", "outcome"),
    [
        (failed("stalled"), 3, "FAILED"),
        (failed("too_long", "stalled"), 3, "FAILED"),
        (failed("engine_failed"), 1, "FAILED"),
        (failed("stalled", "engine_failed"), 1, "FAILED"),
        (point(), 1, "ok"),
    ],
)
def test_a_busy_machine_is_given_time_and_nothing_else_is(second, tries, outcome):
    lost = (2, 0, [{**LOST, "failure": {"code": "run_lost"}}])
    lab = Lab(
        ("benchmark", lost),
        *[("build", GOOD)] * 2,
        ("verify_results", GOOD),
        *[("benchmark", GOOD)] * tries,
        ("verify_results", GOOD),
    )
    lab.stored = [point(), second]
    assert record_of(lab)["outcome"] == outcome


def looked(tmp_path, *plays, stored=(), stages=("benchmark",)):
    """What is known of undisturbed playbooks. stored: of the run after each benchmark."""
    lab = Lab(*plays)
    lab.folder, kept = tmp_path, list(stored)
    play = lab.play

    def play_and_store(*books, **given):
        if books[0] == "benchmark":
            lab.stored = kept.pop(0)
        return play(*books, **given)

    lab.play = play_and_store
    suite = Suite(lab, 7, lambda _text: None)
    suite.look(set(stages))
    assert lab.plays == []
    return suite


def test_what_is_usual_is_measured_undisturbed(tmp_path):
    suite = looked(tmp_path, ("build", GOOD), ("benchmark", GOOD), stored=[[point(), point()]])
    assert suite.undisturbed["points"] == 2 and suite.undisturbed["usual"]["iops"] == [pytest.approx(1000, rel=0.01)]
    assert set(suite.undisturbed["moments"]) == {"build", "benchmark"} and suite.built


def test_nothing_is_measured_where_no_benchmark_is_disturbed(tmp_path):
    suite = looked(tmp_path, ("build", GOOD), ("teardown", GOOD), stages=("teardown",))
    assert set(suite.undisturbed["moments"]) == {"build", "teardown"} and not suite.built


def test_what_is_usual_is_not_what_a_busy_machine_did(tmp_path):
    lost = ("benchmark", (2, 0, [{**LOST, "failure": {"code": "points_failed"}}]))
    stored = [[point(), failed("stalled")], [point(), point()]]
    looked(tmp_path, ("build", GOOD), lost, ("benchmark", GOOD), stored=stored)
    with pytest.raises(RuntimeError, match="undisturbed, benchmark fails"):
        looked(tmp_path / "other", ("build", GOOD), lost, stored=[[failed("engine_failed")]])


@pytest.mark.parametrize(
    ("now", "outcome"),
    [(point(ios=300), "ok"), (point(), "FAILED")],
)
def test_a_rate_is_wrong_only_where_it_is_not_usual_now(now, outcome):
    """A machine that became busy does less, and so does a layer that a fault broke: what is undisturbed tells them apart."""
    lab = Lab(
        ("benchmark", GOOD),
        *[("build", GOOD)] * 2,
        ("benchmark", GOOD),
        ("verify_results", GOOD),
    )
    stored = {"of the cell": [point(ios=600), point()], "undisturbed": [now, now]}
    lab.points = lambda run: stored["undisturbed" if run.startswith("undisturbed") else "of the cell"]
    assert record_of(lab)["outcome"] == outcome


def test_what_never_struck_is_missed():
    lab = Lab(("benchmark", GOOD), ("build", GOOD), ("build", GOOD), ("verify_results", GOOD))
    lab.stored, lab.struck_at = [point(), point()], 0.0
    assert record_of(lab)["outcome"] == "missed"


@pytest.mark.parametrize(
    ("plays", "stored", "word"),
    [
        ([("build", GOOD), ("build", (0, 1, [])), ("verify_results", GOOD)], point(), "a second build: 0, 1 changed"),
        ([("build", (2, 0, [LOST])), ("build", GOOD), ("build", GOOD), ("verify_results", GOOD)], point(), "the build"),
        ([("build", GOOD), ("build", GOOD), ("verify_results", (2, 0, [LOST]))], point(), "verify_results"),
        ([("build", GOOD), ("build", GOOD), ("verify_results", GOOD)], point(runtime_ms=36000), "36.0 s"),
    ],
)
def test_a_cell_that_does_not_come_through_is_seen(plays, stored, word):
    lab = Lab(("benchmark", GOOD), *plays)
    lab.stored = [stored, stored]
    record = record_of(lab)
    assert record["outcome"] == "FAILED" and word in " ".join(record["problems"])


def test_a_build_begins_with_nothing_built():
    cell = Cell("emulated", "build", "machine", "target01", "kill")
    lab = Lab(("teardown", GOOD), ("build", (4, 0, [LOST])), ("build", GOOD), ("build", GOOD))
    assert record_of(lab, cell)["outcome"] == "ok"
    lab = Lab(("teardown", (2, 0, [LOST])))
    assert record_of(lab, cell)["outcome"] == "not begun"


def test_a_playbook_that_does_not_end_is_seen():
    cell = Cell("emulated", "teardown", "machine", "target01", "lasting")
    lab = Lab(("teardown", (None, 0, [])), ("build", GOOD), ("build", GOOD))
    record = record_of(lab, cell)
    assert record["outcome"] == "FAILED" and "did not end" in " ".join(record["problems"])


def test_what_comes_of_cells_is_counted_said_and_written_down(monkeypatch):
    said, kept = [], io.StringIO()
    suite = suite_of(Lab(("teardown", (2, 0, [LOST])), ("teardown", GOOD)))
    suite.say = said.append
    suite.look = lambda stages: said.append(sorted(stages))
    outcomes = iter([{"outcome": "ok", "problems": []}, {"outcome": "ok", "problems": []}, ZeroDivisionError("x")])

    def comes(_cell):
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(suite, "run", comes)
    chosen = [
        CELL,
        Cell("emulated", "benchmark", "fio", "hypervisor01", "pause"),
        Cell("emulated", "build", "x", "y", "z"),
    ]
    # After the last cell of a stage something is left; the second cell is the last of its stage.
    assert fault_suite.run(suite, chosen, kept) == {"ok": 1, "FAILED": 2}
    assert said[0] == ["benchmark", "build"]
    records = [json.loads(line) for line in kept.getvalue().splitlines()]
    assert [(record["cell"], record["seed"], record["outcome"]) for record in records] == [
        ("benchmark fio hypervisor01 kill", 7, "ok"),
        ("benchmark fio hypervisor01 pause", 7, "FAILED"),
        ("build x y z", 7, "FAILED"),
    ]
    assert "verify_clean" in records[1]["problems"][0] and "ZeroDivisionError" in records[2]["problems"][0]


# ---------------------------------------------------------------- a fault beside a playbook


class Noted(Strike):
    def come(self):
        if not self.at_task():
            return False
        self.lab.notes.append("struck")
        return True

    def undo(self):
        self.lab.notes.append("undone")


def notes_of(how: str, reached: int = 5) -> tuple:
    lab = SimpleNamespace(notes=[], outage_s=0.0, reached=lambda: reached)
    strike = Noted(lab, Cell("emulated", "build", "machine", "target01", how), 5, "run")
    strike.begin()
    if reached >= 5:
        while "struck" not in lab.notes:
            pass
    strike.finish()
    assert strike.error == ""
    return lab.notes, bool(strike.struck_at)


@pytest.mark.parametrize("how", ["pause", "outage", "lasting"])
def test_what_comes_back_is_undone_once(how):
    assert notes_of(how) == (["struck", "undone"], True)


@pytest.mark.parametrize("how", ["kill", "gone"])
def test_what_does_not_come_back_is_left(how):
    assert notes_of(how) == (["struck"], True)


def test_what_comes_too_late_never_strikes():
    assert notes_of("lasting", reached=4) == ([], False)
