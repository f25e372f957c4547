# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What strangers had before, while and after a testbed was among them, as files/foreign.py read it of the machines; and what verify_clean named."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from plays import outcome
from unchanged import differences

FOLDER = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"]) / ".cache/testbeds/mby/bystanders"
testinfra_hosts = ["local://"]
MACHINES = ("target01", "hypervisor01")
CASES, ROUNDS = 20, (1, 2)


def answer(name: str, machine: str) -> dict | list:
    return json.loads((FOLDER / f"{name}-{machine}.json").read_text(encoding="utf-8"))


def looks(case: int, machine: str) -> list:
    """[(moment, what this case has on this machine)] from the first time that it was looked at; none where it has nothing there."""
    names = [f"{number}-{moment}" for number in ROUNDS for moment in ("before", "up", "after")]
    seen = [(name, answer(name, machine).get(str(case), {}).get("things")) for name in names]
    return [(name, things) for name, things in seen if things]


@pytest.mark.parametrize("case", range(CASES))
def test_what_a_stranger_has_is_the_same_to_the_byte(case):
    things = 0
    for machine in MACHINES:
        (_first, before), *later = looks(case, machine) or [("", {})]
        things += len(before)
        assert "gone: " not in json.dumps(before)
        assert not before or later
        for moment, after in later:
            assert differences(before, after) == [], f"{moment} on {machine}"
    assert things >= 6


def test_each_was_there_before_or_came_while_the_testbed_was_up():
    for number in ROUNDS:
        for machine in MACHINES:
            before, up = answer(f"{number}-before", machine), answer(f"{number}-up", machine)
            new = {case for case in up if case not in before}
            assert len(new) == 3 and all(up[case]["came"] for case in new)


def test_every_kind_of_thing_was_among_them():
    kinds = {
        thing.split(" ", 1)[1]
        for machine in MACHINES
        for case in answer("2-after", machine).values()
        for thing in case["things"]
    }
    made = {
        line
        for line in (Path(__file__).parent.parent / "files/foreign.py").read_text().split()
        if line.startswith("make_")
    }
    assert kinds == {line.removeprefix("make_").partition("(")[0] for line in made if "(self)" in line}
    sessions = [
        entry
        for case in answer("2-after", "hypervisor01").values()
        for thing in case["things"].values()
        for entry in thing.get("session", [])
    ]
    assert len(sessions) == CASES / 2 and all(entry["state"] == "LOGGED_IN" and entry["disks"] for entry in sessions)


@pytest.mark.parametrize("number", ROUNDS)
def test_verify_names_what_the_testbed_left_and_nothing_of_strangers(number):
    _stats, failures = outcome((FOLDER / f"{number}-verify.txt").read_text(encoding="utf-8"))
    assert {failure["host"] for failure in failures} == set(MACHINES)
    for failure in failures:
        assert failure["failure"]["code"] == "not_clean"
        planted = answer(f"{number}-planted", failure["host"])
        assert len(planted) >= 5
        assert sorted(failure["failure"]["details"]["strays"]) == sorted(planted)


def test_the_least_change_is_noticed():
    """As many as side_effect.yml has changed, and in no other case."""
    for machine in MACHINES:
        before, after = answer("2-after", machine), answer("tampered-look", machine)
        changed = sorted(int(case) for case in before if differences(before[case], after[case]))
        assert changed == answer("tampered", machine)
    assert len(answer("tampered", "target01")) == 3 and len(answer("tampered", "hypervisor01")) == 2
