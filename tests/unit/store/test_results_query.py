# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stored points filtered and summarised: figures worked out by hand, and the files are right whatever the index says."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import actions
import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.action import results_query
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import point_index, query, store
from places import ROOT
from test_results_store import cut, emptied, overwritten, result, write

SHA = "ab" * 32


def point(name: str, **more) -> dict:
    """A result with one setting of each kind; ``total`` replaces figures."""
    layer, _workload, _repetition = name.split(".")
    figures = {"iops": 100.0, "bandwidth_bytes_s": 409600.0, "latency_mean_ns": 5000.0, "latency_p99_ns": 9000.0}
    content = result(name, raw={"file": "fio.json", "sha256": SHA})
    workload = {
        "block_size_bytes": 4096,
        "read_percent": 100,
        "random_percent": 100,
        "queue_depth": 8,
        "workers": 1,
        **more.pop("workload", {}),
    }
    total = {**content["total"], **figures, **more.pop("total", {})}
    return {**content, "layer": layer, "workload": workload, "total": total, **more}


@pytest.fixture
def results(tmp_path, monkeypatch) -> Path:
    """Three runs of two testbeds."""
    # What was just written counts as settled, so that what is tested is the index and not the patience of the test.
    monkeypatch.setattr(point_index, "TICK_NS", -(10**12))
    one, two, other = (tmp_path / "results" / name for name in ("lab/one", "lab/two", "yard/one"))
    figures = (
        {"iops": 110.0, "ios": 1000, "latency_mean_ns": 2000.0, "latency_p99_ns": 7000.0, "bandwidth_bytes_s": 11.0},
        {"iops": 90.0, "ios": 3000, "latency_mean_ns": 6000.0, "latency_p99_ns": 8000.0, "bandwidth_bytes_s": 9.0},
        {"iops": 130.0, "ios": 4000, "latency_mean_ns": 3000.0, "latency_p99_ns": 12000.0, "bandwidth_bytes_s": 13.0},
    )
    for repetition, total in enumerate(figures, start=1):
        flags = {"flags": ["not_filled", "buffered_io"]} if repetition == 2 else {}
        write(one, point(f"backing-a.4k.r{repetition}", total=total, **flags))
    failed = {"status": "failed", "failures": [{"code": "no_io", "message": "None."}], "total": {"iops": 7.0}}
    write(one, point("backing-a.4k.r4", **failed))
    big = {"block_size_bytes": 8192, "read_percent": 70, "random_percent": 0, "queue_depth": 32, "workers": 4}
    write(one, point("target-a.8k.r1", host="target02", workload=big, total={"iops": 55.0}))
    write(two, point("backing-a.4k.r1", started_utc="2026-12-01T10:00:00.250Z", total={"iops": 210.0}, variant="fast"))
    write(other, point("guest-a.4k.r1", host="guest01", total={"iops": 310.0}))
    (two / "run.json").write_text(json.dumps({"requests": [{}, {"profile": {"name": "four_corners"}}]}))
    return tmp_path / "results"


@pytest.fixture
def reads(monkeypatch) -> list:
    """The points whose result.json is read."""
    seen, real = [], store.read_hashed
    monkeypatch.setattr(store, "read_hashed", lambda path: seen.append(Path(path).parent.name) or real(path))
    return seen


def ask(results: Path, *by: str, **where) -> dict:
    return query.query(store.runs(str(results)), where, by, limit=100)


def names(answer: dict) -> list:
    return ["/".join((row["testbed_id"], row["run_id"], row["point_id"])) for row in answer["points"]]


def test_a_group_is_summarised_by_what_was_measured(results):
    groups = ask(results, "layer", "workload_id")["groups"]
    assert [(group["layer"], group["workload_id"], group["points"]) for group in groups] == [
        ("backing-a", "4k", 5),
        ("guest-a", "4k", 1),
        ("target-a", "8k", 1),
    ]
    (group,) = query.query([str(results / "lab" / "one")], {"layer": ["backing-a"]}, ["layer"])["groups"]
    assert group == {
        "layer": "backing-a",
        "points": 4,
        "measured": 3,
        "flagged": 1,
        "flags": {"buffered_io": 1, "not_filled": 1},
        "workloads": 1,
        "iops": {
            "median": 110.0,
            "mean": 110.0,
            "low": 90.0,
            "high": 130.0,
            "spread_percent": pytest.approx(36.3636, 1e-5),
        },
        "bandwidth_bytes_s": {
            "median": 11.0,
            "mean": 11.0,
            "low": 9.0,
            "high": 13.0,
            "spread_percent": pytest.approx(36.3636, 1e-5),
        },
        # (1000 · 2000 + 3000 · 6000 + 4000 · 3000) / 8000
        "latency_mean_ns": {"mean": 4000.0, "low": 2000.0, "high": 6000.0},
        "latency_p99_ns": {"median": 8000.0, "low": 7000.0, "high": 12000.0},
    }


def test_what_was_not_measured_is_absent(results):
    (group,) = ask(results, "layer", status=["failed"])["groups"]
    assert group == {"layer": "backing-a", "points": 1, "measured": 0, "flagged": 0, "flags": {}, "workloads": 1}


FIRST, SECOND, THIRD, FAILED = (f"lab/one/backing-a.4k.r{repetition}" for repetition in (1, 2, 3, 4))
TARGET, LATER, GUEST = "lab/one/target-a.8k.r1", "lab/two/backing-a.4k.r1", "yard/one/guest-a.4k.r1"


@pytest.mark.parametrize(
    ("where", "points"),
    [
        ({}, [FIRST, SECOND, THIRD, FAILED, TARGET, LATER, GUEST]),
        ({"layer": ["target-a", "guest-a"]}, [TARGET, GUEST]),
        ({"layer": ["target"]}, []),
        ({"layer_kind": ["guest"]}, [GUEST]),
        ({"host": ["target02"]}, [TARGET]),
        ({"workload": ["8k"]}, [TARGET]),
        ({"variant": ["fast"]}, [LATER]),
        ({"variant": [""], "layer": ["backing-a"]}, [FIRST, SECOND, THIRD, FAILED]),
        ({"status": ["failed"]}, [FAILED]),
        ({"block_size": [8192, 512]}, [TARGET]),
        ({"read_percent": [70]}, [TARGET]),
        ({"random_percent": [0]}, [TARGET]),
        ({"queue_depth": [32]}, [TARGET]),
        ({"workers": [4]}, [TARGET]),
        ({"queue_depth": [32], "workers": [1]}, []),
        ({"profile": ["four_corners"]}, [LATER]),
        ({"flagged": True}, [SECOND]),
        ({"flagged": False, "layer": ["backing-a"]}, [FIRST, THIRD, FAILED, LATER]),
        ({"flags": ["buffered_io"]}, [SECOND]),
        ({"flags": ["buffered"]}, []),
        ({"started_from": query.moment_s("2026-12-01T10:00:00.250Z")}, [LATER]),
        ({"started_from": query.moment_s("2026-12-01T10:00:00.251")}, []),
        ({"started_before": query.moment_s("2026-12-01")}, [FIRST, SECOND, THIRD, FAILED, TARGET, GUEST]),
    ],
    ids=str,
)
def test_filters(results, where, points):
    for _time in ("as it is indexed", "by the index"):
        answer = ask(results, **where)
        assert (names(answer), answer["matched"]) == (points, len(points))


def test_groups_by_place_and_by_numbers(results):
    def keys(*by):
        return [(*(group.get(name) for name in by), group["points"]) for group in ask(results, *by)["groups"]]

    assert keys("run_id", "testbed_id") == [("one", "lab", 5), ("one", "yard", 1), ("two", "lab", 1)]
    assert keys("block_size_bytes") == [(4096, 6), (8192, 1)]
    assert keys("variant", "testbed_id") == [(None, "lab", 5), (None, "yard", 1), ("fast", "lab", 1)]
    assert keys() == [(7,)]


def test_numbers_are_in_the_order_of_their_size(results):
    for depth in (4, 16, 128):
        write(results / "lab" / "two", point(f"backing-a.qd{depth}.r1", workload={"queue_depth": depth}))
    assert [group["queue_depth"] for group in ask(results, "queue_depth")["groups"]] == [4, 8, 16, 32, 128]


def test_points_are_listed_up_to_the_limit(results):
    folders = store.runs(str(results))
    answer = query.query(folders, {}, ["layer"], limit=6)
    assert names(answer) == [FIRST, SECOND, THIRD, FAILED, TARGET, LATER] and answer["matched"] == 7
    assert query.query(folders, {}, ["layer"])["points"] == []
    assert answer["points"][5] == {
        "testbed_id": "lab",
        "run_id": "two",
        "point_id": "backing-a.4k.r1",
        "layer": "backing-a",
        "host": "target01",
        "workload_id": "4k",
        "variant": "fast",
        "status": "measured",
        "iops": 210.0,
        "bandwidth_bytes_s": 409600.0,
        "latency_mean_ns": 5000.0,
        "latency_p99_ns": 9000.0,
        "ios": 7.0,
        "flags": [],
    }
    assert answer["runs"] == [
        {"testbed_id": "lab", "run_id": "one", "points": 5},
        {"testbed_id": "lab", "run_id": "two", "points": 1},
        {"testbed_id": "yard", "run_id": "one", "points": 1},
    ]


def test_flags_that_were_added_later_count_for_their_measurement_only(results):
    ask(results)
    added = results / "lab" / "one" / "added"
    added.mkdir()
    additions = {
        "backing-a.4k.r1": {"of": SHA, "flags": ["clock_stepped"]},
        "backing-a.4k.r2": {"of": SHA, "replaced_flags": ["not_filled", "buffered_io"]},
        "backing-a.4k.r3": {"of": "another measurement", "flags": ["clock_stepped"]},
    }
    (added / "own.json").write_text(json.dumps({"schema": "storlab.additions/1", "points": additions}))
    assert names(ask(results, flagged=True)) == [FIRST]
    assert ask(results, flagged=True)["groups"][0]["flags"] == {"clock_stepped": 1}


def test_a_failure_that_was_added_later_counts_as_the_point_s_own(results):
    assert ask(results, status=["failed"])["matched"] == 1
    added = results / "lab" / "one" / "added"
    added.mkdir()
    why = {"of": SHA, "failures": [{"code": "commands_aborted", "message": "Some."}]}
    points = {"backing-a.4k.r1": why, "backing-a.4k.r3": {**why, "of": "another measurement"}}
    (added / "own.json").write_text(json.dumps({"schema": "storlab.additions/1", "points": points}))
    failed = ask(results, status=["failed"])
    assert [row["point_id"] for row in failed["points"]] == ["backing-a.4k.r1", "backing-a.4k.r4"]
    assert {row["status"] for row in failed["points"]} == {"failed"}
    assert "lab/one/backing-a.4k.r1" not in names(ask(results, status=["measured"]))
    groups = {group["status"]: group for group in ask(results, "status", layer=["backing-a"])["groups"]}
    assert {name: group["points"] for name, group in groups.items()} == {"failed": 2, "measured": 3}
    # Only the other two repetitions and the run of its own count: (90 + 130 + 210) / 3.
    assert groups["measured"]["iops"]["mean"] == pytest.approx(430 / 3) and "iops" not in groups["failed"]


def test_what_did_not_change_is_not_read_again(results, reads):
    first = ask(results, "layer")
    assert len(reads) == 7
    reads.clear()
    assert ask(results, "layer") == first and reads == []
    write(results / "lab" / "two", point("backing-a.4k.r1", total={"iops": 1234.0}))
    assert [row["iops"] for row in ask(results, layer=["backing-a"])["points"]][-1] == 1234.0
    assert reads == ["backing-a.4k.r1"]


@pytest.mark.parametrize("damage", [emptied, cut, overwritten])
def test_a_damaged_index_is_made_anew(results, reads, damage):
    wanted = ask(results, "layer")
    index = results / "lab" / "one" / point_index.FILE
    index.write_bytes(damage(index.read_bytes()))
    reads.clear()
    assert ask(results, "layer") == wanted and len(reads) == 5
    reads.clear()
    assert ask(results, "layer") == wanted and reads == []


def test_what_cannot_be_read_is_listed_and_counts_for_nothing(results):
    write(results / "lab" / "two", "{", "x.y.r1")
    (results / "yard" / "one" / "points" / "empty").mkdir()
    answer = ask(results)
    assert answer["matched"] == 7
    assert [(os.path.relpath(entry["run_dir"], results), entry["file"]) for entry in answer["damaged"]] == [
        ("lab/two", "points/x.y.r1/result.json"),
        ("yard/one", "points/empty/result.json"),
    ]


def test_what_matches_nothing_says_what_there_is(results):
    folders = store.runs(str(results))
    where = {"layer": ["backing"], "block_size": [4096], "profile": ["oltp"], "queue_depth": [64, 7], "flagged": True}
    assert query.unmet(folders, where) == [
        "No point has layer backing; there are: backing-a, guest-a, target-a.",
        "No point has profile oltp; there are: four_corners.",
        "No point has queue_depth 64 or 7; there are: 8, 32.",
    ]


# ---------------------------------------------------------------- the task


def task(**arguments) -> dict:
    return actions.make(results_query, arguments).run(task_vars={})


def test_the_task_takes_words_as_people_write_them(results):
    answer = task(
        results_dir=str(results), testbed_id="lab", where={"layer": "backing-a", "block_size": "4k"}, by="run_id"
    )
    assert [(group["run_id"], group["points"]) for group in answer["groups"]] == [("one", 4), ("two", 1)]
    assert [" ".join(line.split()) for line in answer["table"]] == [
        "run_id points failed flagged IOPS least most spread MB/s mean p99",
        "one 4 1 1 110 90.0 130 36 % 0.0000110 4.00 µs 8.00 µs",
        "two 1 0 0 210 210 210 0 % 0.410 5.00 µs 9.00 µs",
    ]
    assert "warnings" not in answer and answer["changed"] is False
    (by_run,) = task(run_dir=str(results / "lab" / "two"), by=[])["groups"]
    assert by_run["points"] == 1
    latest = task(results_dir=str(results), testbed_id="lab", run_ids="latest")
    assert [run["run_id"] for run in latest["runs"]] == ["two"]
    assert task(results_dir=str(results), where={"block_size": 8192})["matched"] == 1


def test_the_task_says_why_nothing_matches_and_what_is_damaged(results):
    write(results / "lab" / "two", "{", "x.y.r1")
    answer = task(results_dir=str(results), where={"host": "nowhere"})
    assert answer["groups"] == [] and not answer.get("failed")
    assert answer["warnings"][0] == "No point has host nowhere; there are: guest01, target01, target02."
    assert answer["warnings"][1].startswith("1 results could not be read and count for nothing, first ")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ({"limit": -1}, "bad_value", "limit is -1."),
        ({"run_ids": ["one"]}, "bad_value", "Name their testbed"),
        ({"where": {"block_size": "4 apples"}}, "bad_value", "where.block_size is '4 apples'."),
        ({"where": {"started_from": "yesterday"}}, "bad_value", "where.started_from is 'yesterday'."),
        ({"where": {"layers": "a"}}, "bad_value", "layers"),
        ({"by": ["colour"]}, "bad_value", "colour"),
        ({"testbed_id": "../lab"}, "bad_value", "not a path"),
        ({"testbed_id": "garden"}, "run_missing", "no run of testbed garden"),
        ({"testbed_id": "lab", "run_ids": ["three"]}, "run_missing", "no run three of testbed lab"),
    ],
    ids=str,
)
def test_what_is_refused(results, arguments, code, words):
    answer = actions.answer(actions.make(results_query, {"results_dir": str(results), **arguments}), {}, results)
    assert answer["failed"] and answer["failure"]["code"] == code and words in answer["msg"]


def test_the_playbook_prints_the_summary(results, tmp_path):
    inventory = tmp_path / "hosts.yml"
    variables = {"testbed_id": "lab", "testbed_results_dir": str(results)}
    inventory.write_text(
        yaml.safe_dump({"controllers": {"hosts": {"localhost": {"ansible_connection": "local"}}, "vars": variables}})
    )
    where = {"testbed_results_where": {"layer": "backing-a", "flagged": False}, "testbed_results_by": ["run_id"]}
    done = subprocess.run(
        ["ansible-playbook", "-i", str(inventory), "-e", json.dumps(where), str(ROOT / "playbooks" / "results.yml")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 points of 2 runs" in done.stdout and "run_id  points  failed  flagged" in done.stdout
