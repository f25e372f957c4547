# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which sides take turns, and the turns of a gate.

The order of each round is drawn. A fixed order, forth and back or always the same, can keep step with something that the machine does every minute, and
then all of that falls on one side (benchmarks/verdicts.md). A recorded seed decides, so a run that is continued keeps the order that it began in.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Sequence
from typing import Any

from ...module_utils.core.failure import bad_value
from .nouns import SIDES
from .timeline import LEAST_ROUNDS

DEFAULT_PLAYBOOK = "storlab.testbed.benchmark"
BUILD = "storlab.testbed.build"
SIDE_KEYS = ("command", "inventory", "vars", "build")
KEYS = (*SIDES, "rounds", "seed", "playbook", "arguments")
NAME = "testbed_gate"


def drawn_order(sides: Sequence[str], seed: object, number: int) -> list[str]:
    """The sides (names, or mappings with a name) in the order in which round ``number`` measures them."""

    def place(side: Any) -> str:
        name = side["name"] if isinstance(side, dict) else side
        return hashlib.sha256(f"{seed}/{number}/{name}".encode()).hexdigest()

    return sorted(sides, key=place)


def gate_turns(gate: Any, run_id: str, results_dir: str, inventories: list[str]) -> list[dict[str, object]]:
    """[{round, side, run_id, command, plays: [arguments of ansible-playbook], text}] of all turns, in order.

    Failure 'bad_value' for a gate that makes no sense.

    gate: the variable testbed_gate. run_id: name of the gate; each side has a run of its own. inventories: used by a side that names none.
    """
    gate = checked(gate)
    turns = []
    for number in range(1, gate["rounds"] + 1):
        for side in drawn_order(list(SIDES), gate["seed"] or run_id, number):
            state = gate[side]
            name = f"{run_id}-{side}"
            chosen = [state["inventory"]] if state["inventory"] else inventories
            words = [word for inventory in chosen for word in ("-i", inventory)] + gate["arguments"]
            given = json.dumps(state["vars"], sort_keys=True)
            # Each call measures what the run lacks of so many repetitions: in round 3 the third.
            more = {"testbed_run_id": name, "testbed_results_dir": results_dir, "benchmark_repetitions": number}
            states = ["-e", given] if state["vars"] else []
            plays = [[*words, *states, BUILD]] if state["build"] else []
            plays.append([*words, *states, "-e", json.dumps(more), gate["playbook"]])
            steps = ([state["command"]] if state["command"] else []) + [play[-1] for play in plays]
            turns.append(
                {
                    "round": number,
                    "side": side,
                    "run_id": name,
                    "command": state["command"],
                    "plays": plays,
                    "text": f"round {number}, {side}: {', then '.join(steps)}",
                }
            )
    return turns


def checked(gate: object) -> dict[str, Any]:
    """The complete gate."""
    if not isinstance(gate, dict) or not all(isinstance(gate.get(side), dict) for side in SIDES):
        raise bad_value(
            NAME,
            gate,
            "Give both sides, such as {baseline: {command: ./switch old}, candidate: {command: ./switch new}}.",
        )
    unknown = [f"{NAME}.{key}" for key in gate if key not in KEYS]
    unknown += [f"{NAME}.{side}.{key}" for side in SIDES for key in gate[side] if key not in SIDE_KEYS]
    if unknown:
        raise bad_value(
            unknown[0], "given", f"There is no such key; a gate has {', '.join(KEYS)}, a side {', '.join(SIDE_KEYS)}."
        )
    sides = {side: _side(f"{NAME}.{side}", gate[side]) for side in SIDES}
    if sides["baseline"] == sides["candidate"]:
        raise bad_value(
            NAME, gate, "Both sides are the same; give them different commands, inventories, vars or builds."
        )
    for side, other in (SIDES, SIDES[::-1]):
        if sides[side]["command"] and not sides[other]["command"]:
            raise bad_value(
                f"{NAME}.{other}.command",
                "",
                f"The command of {side} has to be undone here; name the one that does it.",
            )
    rounds = gate.get("rounds", LEAST_ROUNDS)
    if isinstance(rounds, str) and rounds.isdigit():
        rounds = int(rounds)
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 4:
        raise bad_value(
            f"{NAME}.rounds", rounds, f"Use a whole number of at least 4; {LEAST_ROUNDS} or more are compared in pairs."
        )
    arguments = gate.get("arguments", [])
    if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
        raise bad_value(f"{NAME}.arguments", arguments, "Give a list of words that each ansible-playbook gets.")
    return {
        "baseline": sides["baseline"],
        "candidate": sides["candidate"],
        "rounds": rounds,
        "seed": gate.get("seed", 0),
        "playbook": gate.get("playbook", DEFAULT_PLAYBOOK),
        "arguments": arguments,
    }


def _side(name: str, given: dict[str, Any]) -> dict[str, object]:
    side = {"command": "", "inventory": "", "vars": {}, "build": False, **given}
    for key in ("command", "inventory"):
        if not isinstance(side[key], str):
            raise bad_value(f"{name}.{key}", side[key], "Give a text.")
    if not isinstance(side["vars"], dict):
        raise bad_value(f"{name}.vars", side["vars"], "Give a mapping of variables.")
    if not isinstance(side["build"], bool):
        raise bad_value(f"{name}.build", side["build"], "Use true or false.")
    try:
        shlex.split(side["command"])
    except ValueError as error:
        raise bad_value(f"{name}.command", side["command"], f"A shell cannot read it: {error}.") from error
    return side
