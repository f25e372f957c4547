# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of turns is drawn by a seed, and a gate that makes no sense is refused with the variable and the value."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare.turns import drawn_order, gate_turns

COMMANDS = {"baseline": {"command": "./switch old"}, "candidate": {"command": "./switch new"}}


def planned(gate: dict, run_id: str = "g1", inventories: tuple = ("/lab",)) -> list:
    return gate_turns(gate, run_id, "/srv/results", list(inventories))


def test_each_round_measures_both_sides_once_in_a_drawn_order():
    turns = planned({**COMMANDS, "rounds": 40})
    rounds = [[turn["side"] for turn in turns if turn["round"] == number] for number in range(1, 41)]
    assert {tuple(sorted(sides)) for sides in rounds} == {("baseline", "candidate")}
    # Neither a fixed order nor forth and back: the first one changes about every other time.
    firsts = [sides[0] for sides in rounds]
    assert 10 <= Counter(firsts)["baseline"] <= 30
    assert 10 <= sum(early != late for early, late in zip(firsts, firsts[1:])) <= 30
    assert [turn["round"] for turn in turns] == [number for number in range(1, 41) for _side in (0, 1)]


def test_the_order_follows_from_the_seed_alone():
    def order(run_id, **more):
        return [turn["side"] for turn in planned({**COMMANDS, "rounds": 40, **more}, run_id)]

    assert order("g1") == order("g1") != order("g2")
    assert order("g1", seed=7) == order("g2", seed=7) != order("g1", seed=8)


def test_more_than_two_sides_are_drawn_each_first_about_as_often():
    variants = [{"name": name, "tasks_file": "x.yml"} for name in ("a", "b", "c")]
    rounds = [drawn_order(variants, "nightly", number) for number in range(1, 601)]
    assert all(sorted(side["name"] for side in sides) == ["a", "b", "c"] for sides in rounds)
    counts = Counter("".join(side["name"] for side in sides) for sides in rounds)
    assert len(counts) == 6 and all(60 <= count <= 140 for count in counts.values())


def test_a_turn_says_what_it_does_and_gives_each_playbook_its_words():
    gate = {
        "baseline": {"inventory": "lab_a", "vars": {"ahead": 0}},
        "candidate": {"inventory": "lab_b", "vars": {"ahead": 128}, "build": True},
        "rounds": "4",
        "arguments": ["--vault-password-file", "secret"],
    }
    turns = planned(gate)
    assert len(turns) == 8
    [second] = [turn for turn in turns if (turn["round"], turn["side"]) == (2, "candidate")]
    build, measure = second["plays"]
    assert build == ["-i", "lab_b", "--vault-password-file", "secret", "-e", '{"ahead": 128}', "storlab.testbed.build"]
    assert measure[:-2] == [*build[:-1], "-e"] and measure[-1] == "storlab.testbed.benchmark"
    assert json.loads(measure[-2]) == {
        "testbed_run_id": "g1-candidate",
        "testbed_results_dir": "/srv/results",
        "benchmark_repetitions": 2,
    }
    assert second["text"] == "round 2, candidate: storlab.testbed.build, then storlab.testbed.benchmark"
    [first] = [turn for turn in turns if (turn["round"], turn["side"]) == (1, "baseline")]
    assert len(first["plays"]) == 1 and first["run_id"] == "g1-baseline" and "lab_a" in first["plays"][0]


def test_a_side_without_an_inventory_uses_those_of_the_gate():
    turn = planned(COMMANDS, inventories=("/lab", "/more"))[0]
    assert turn["plays"][0][:4] == ["-i", "/lab", "-i", "/more"]
    assert turn["text"] == f"round 1, {turn['side']}: {turn['command']}, then storlab.testbed.benchmark"


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ({}, "testbed_gate is {}"),
        ({"baseline": {"command": "x"}}, "Give both sides"),
        ({**COMMANDS, "round": 3}, "testbed_gate.round is 'given'. There is no such key"),
        ({**COMMANDS, "candidate": {"commands": "x"}}, "testbed_gate.candidate.commands"),
        ({"baseline": {"command": "x"}, "candidate": {"command": "x"}}, "Both sides are the same"),
        ({"baseline": {}, "candidate": {"command": "x"}}, "testbed_gate.baseline.command is ''"),
        ({**COMMANDS, "rounds": 3}, "testbed_gate.rounds is 3"),
        ({**COMMANDS, "rounds": True}, "testbed_gate.rounds is True"),
        ({**COMMANDS, "arguments": "-v"}, "testbed_gate.arguments is '-v'"),
        ({**COMMANDS, "baseline": {"command": "echo 'x"}}, 'testbed_gate.baseline.command is "echo \'x"'),
        ({**COMMANDS, "baseline": {"command": "x", "vars": []}}, "testbed_gate.baseline.vars is []"),
        ({**COMMANDS, "baseline": {"command": "x", "build": "yes"}}, "testbed_gate.baseline.build is 'yes'"),
        ({**COMMANDS, "baseline": {"command": 5}}, "testbed_gate.baseline.command is 5"),
    ],
)
def test_a_gate_that_makes_no_sense_is_refused(gate, words):
    with pytest.raises(Failure) as refused:
        planned(gate)
    assert refused.value.code == "bad_value" and words in str(refused.value)
