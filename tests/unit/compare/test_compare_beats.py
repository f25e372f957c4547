# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reference beats judged: a host that became slower is found, one that only scatters is not, and verdicts say what the machine did."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import beats, comparison
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import words as wording
from test_compare_comparison import pair, run, side


def lines(values, host="x1", figure="null_iops", **more) -> list:
    return [
        {"host": host, "round": number, "started_utc": f"2026-01-02T03:{number:02}:00Z", figure: value, **more}
        for number, value in enumerate(values, start=1)
    ]


def scattered(count: int, percent: float, seed: int, change_percent: float = 0.0) -> list:
    """Rates around a million that fall or rise evenly by so much from first to last."""
    generator = random.Random(seed)  # noqa: S311 noise, no secret
    return [
        1e6 * (1 + change_percent / 100 * place / (count - 1)) * (1 + generator.gauss(0, percent) / 100)
        for place in range(count)
    ]


def verdicts(found) -> dict:
    return {(one["host"], one["figure"]): one["verdict"] for one in found}


def test_a_host_that_became_slower_or_faster_is_found_and_no_other():
    found = beats.drifts(
        [
            *lines(scattered(10, 1, 1, -12), "a"),
            *lines(scattered(10, 1, 2), "b"),
            *lines(scattered(10, 1, 3, 9), "b", "memory_copy_bytes_s"),
            *lines([5e6, 4e6, 3e6], "c"),
        ]
    )
    assert verdicts(found) == {
        ("a", "null_iops"): "slower",
        ("b", "null_iops"): "steady",
        ("b", "memory_copy_bytes_s"): "faster",
        ("c", "null_iops"): "too_few",
    }
    slower = next(one for one in found if one["host"] == "a")
    assert slower["change_percent"] == pytest.approx(-12, abs=2)
    said = beats.moved_words(slower)
    assert said.startswith("a itself became slower while the run was measured: fio's null engine issued 1")
    assert "fewer I/Os per second in the last round than in the first" in said


def test_what_a_beat_scatters_is_no_change_and_neither_is_what_is_too_small():
    # As far from first to last as the one above, but every other beat is a fifth slower.
    noisy = [value * (0.8 if place % 2 else 1.0) for place, value in enumerate(scattered(10, 1, 1, -12))]
    assert verdicts(beats.drifts(lines(noisy))) == {("x1", "null_iops"): "steady"}
    # Certain, and half a percent.
    assert verdicts(beats.drifts(lines(scattered(10, 0.01, 1, -0.5)))) == {("x1", "null_iops"): "steady"}
    assert beats.drifts([]) == []
    assert beats.drifts([{"host": "w1", "note": "none"}]) == []


def test_false_alarms_over_rounds_are_as_rare_as_said():
    runs = 400
    alarms = sum(
        any(
            verdict in ("slower", "faster")
            for verdict in verdicts(
                beats.drifts([line for host in "abc" for line in lines(scattered(8, 3, f"{seed}{host}"), host)])
            ).values()
        )
        for seed in range(runs)
    )
    # 5 % of 400 are 20; 34 are more than three standard deviations above.
    assert alarms <= 34


def test_sides_differ_when_their_beats_do_by_more_than_their_spread():
    slow, fast, noisy = scattered(5, 1, 1), scattered(5, 1, 2, 0), scattered(5, 20, 3)
    fast = [1.12 * value for value in fast]
    (change,) = beats.changes([lines(slow)], [lines(fast)])
    assert (change["host"], change["figure"]) == ("x1", "null_iops")
    assert change["change_percent"] == pytest.approx(12, abs=2)
    assert beats.changes([lines(slow)], [lines(slow[::-1])]) == []
    assert beats.changes([lines(noisy)], [lines([1.12 * value for value in noisy])]) == []
    # Another host is no change of this one, and two beats tell nothing.
    assert beats.changes([lines(slow, "a")], [lines(fast, "b")]) == []
    assert beats.changes([lines(slow[:2])], [lines(fast)]) == []


def test_of_lists_of_runs_each_counts_once():
    """Runs of ten beats each, which scatter from run to run more than within: pooled, they would look certain."""
    sides = [
        [lines([middle * value for value in scattered(10, 0.1, seed)]) for seed, middle in enumerate(middles)]
        for middles in ((1.0, 1.06, 0.95), (1.05, 0.98, 1.07))
    ]
    assert beats.changes(*sides) == []
    assert beats.changes(*([[line for lines_of in side for line in lines_of]] for side in sides)) != []


def beaten(results, values, host="target01", **more):
    return replace(run(results), beats=lines(values, host, **more))


def test_beside_each_verdict_stands_how_far_the_machine_changed():
    before, after = pair(factor=0.85)
    host = before[0]["host"]
    fast, slow = scattered(5, 1, 1), [0.88 * value for value in scattered(5, 1, 2)]
    found = comparison.compare_runs(side(beaten(before, fast, host)), side(beaten(after, slow, host)), [])
    (change,) = found["machines"]
    assert change["change_percent"] == pytest.approx(-12, abs=2)
    said = wording.machine_words(change)
    assert said.startswith("the machine itself changed by −1") and said.endswith(f"({host}, fio's null engine)")
    assert {wording.verdict_words(row, 5).rpartition("; ")[2] for row in found["rows"]} == {said}
    assert found["headline"].endswith(f"Note that {said}: its share of a difference is unknown.")


def test_a_beat_changes_no_verdict_and_one_that_stood_still_is_not_mentioned():
    before, after = pair(factor=0.85)
    host = before[0]["host"]
    fast, slow = scattered(5, 1, 1), [0.88 * value for value in scattered(5, 1, 2)]
    without = comparison.compare_runs(side(run(before)), side(run(after)), [])
    changed = comparison.compare_runs(side(beaten(before, fast, host)), side(beaten(after, slow, host)), [])
    still = comparison.compare_runs(side(beaten(before, fast, host)), side(beaten(after, fast[::-1], host)), [])
    elsewhere = comparison.compare_runs(side(beaten(before, fast, "else")), side(beaten(after, slow, "else")), [])
    plain = [{key: value for key, value in row.items() if key != "machine"} for row in changed["rows"]]
    assert plain == without["rows"] == still["rows"] == elsewhere["rows"]
    assert without["machines"] == still["machines"] == [] and len(elsewhere["machines"]) == 1
    assert still["headline"] == without["headline"]


def test_beats_of_other_variants_do_not_count():
    before, after = pair(factor=1.0)
    host = before[0]["host"]
    slow = [0.5 * value for value in scattered(5, 1, 2)]
    found = comparison.compare_runs(
        side(beaten(before, scattered(5, 1, 1), host)), side(beaten(after, slow, host, variant="other")), []
    )
    assert found["machines"] == []
