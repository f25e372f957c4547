# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time-outs that were set are found again from how long I/O waited before it failed; with none that is shorter than the event no I/O fails."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

testinfra_hosts = ["local://"]
RESULTS = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"]) / ".cache/testbeds/molecule-failover/results"
AWAY_S, ROUNDS = 30, 2
# The initiator's daemon notices a lost session within a second or two, and looks for the target again every few seconds.
NOTICED_S, AGAIN_S = 4, 15


@pytest.fixture(scope="module")
def events() -> dict:
    """{variant: [event of each round]}"""
    (run,) = (path.parent for path in RESULTS.glob("molecule-failover/*/run.json"))
    results = {
        path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in run.glob("points/*/result.json")
    }
    assert {result["status"] for result in results.values()} == {"measured"}
    added = json.loads((run / "added/event.target01.json").read_text(encoding="utf-8"))["points"]
    assert added.keys() == results.keys()
    by_variant = defaultdict(list)
    for name, result in results.items():
        by_variant[result["variant"]].append(added[name]["event"])
    return by_variant


def every(events: dict) -> list:
    return [event for rounds in events.values() for event in rounds]


def test_every_setting_was_measured_in_every_round(events):
    assert {name: len(rounds) for name, rounds in events.items()} == dict.fromkeys(
        ("away-5s", "away-10s", "away-20s", "away-120s"), ROUNDS
    )


@pytest.mark.parametrize("timeout_s", [5, 10, 20])
def test_a_time_out_is_found_in_how_long_io_waited(events, timeout_s):
    for event in events[f"away-{timeout_s}s"]:
        assert event["failed_ios"] > 0
        assert event["error_most_s"] >= timeout_s
        assert event["error_least_s"] <= timeout_s + NOTICED_S


def test_with_a_longer_time_out_no_io_fails(events):
    for event in events["away-120s"]:
        assert event["failed_ios"] == 0 and "error_s" not in event


def test_the_stall_is_of_the_event(events):
    for event in every(events):
        assert AWAY_S - 1 <= event["for_s"] <= AWAY_S + 2
        assert event["stall_most_s"] >= AWAY_S and event["stall_least_s"] <= AWAY_S + AGAIN_S
        assert event["recovered_s"] <= AWAY_S + AGAIN_S + NOTICED_S
        assert event["missing_ios"] > 0


def test_all_that_was_answered_is_there(events):
    assert all(event["verified"] for event in every(events))
