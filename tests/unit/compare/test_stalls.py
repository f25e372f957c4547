# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stalls are compared where a side has any, and left out where neither has."""

from __future__ import annotations

from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import comparison


def side(begin: int, pauses: list[float] | None) -> list[dict]:
    results = []
    for number in range(1, 9):
        one = {
            "layer": "backing-a",
            "workload_id": "w",
            "repetition": number,
            "started_utc": f"2026-01-01T00:{number:02d}:{begin:02d}Z",
            "finished_utc": f"2026-01-01T00:{number:02d}:{begin + 9:02d}Z",
            "total": {"ios": 50_000, "iops": 1000.0 + number % 3},
        }
        if pauses is not None:
            longest_s = pauses[number % len(pauses)]
            one["stall"] = {"total_s": longest_s, "longest_s": longest_s, "running_percent": 100 - 10 * longest_s}
        results.append(one)
    return results


def verdicts(baseline, candidate) -> dict:
    made = comparison.compare(side(10, baseline), side(40, candidate))
    assert {row["metric"] for row in made["rows"]} >= {"iops"}
    named = {entry.get("metric") for entry in made["unmatched"]}
    rows = {
        row["metric"]: row["verdict"] for row in made["rows"] if row["metric"] in ("running_percent", "stall_longest_s")
    }
    return {**rows, **({"unmatched": named} if named else {})}


def test_a_candidate_that_pauses_is_worse():
    assert verdicts([0.0], [1.0, 1.2, 0.9]) == {"running_percent": "worse", "stall_longest_s": "worse"}


def test_sides_without_a_pause_say_nothing_of_it():
    assert verdicts([0.0], [0.0]) == verdicts(None, None) == verdicts(None, [0.0]) == {}


def test_a_pause_that_only_one_side_was_looked_at_for_is_listed():
    assert verdicts(None, [1.0, 1.2])["unmatched"] == {"running_percent", "stall_longest_s"}
