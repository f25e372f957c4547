# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A result.json is written once; what is known later lies beside it, and every reader gives both as one result."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import additions, load, run_folder, store
from test_results_store import result, write
from unchanged import refused

POINT = "backing-a.4k.r1"
RAW = {"file": "fio.json", "sha256": "ab" * 32}
COUNTED = {"interval_s": 9.5, "cpu": {"us_per_io": 3.25}}


def measured(**more) -> dict:
    return result(POINT, raw=RAW, flags=["buffered_io"], **more)


@pytest.fixture
def run(tmp_path):
    write(tmp_path, measured())
    write(tmp_path, result("backing-b.4k.r2", raw={"file": "fio.json", "sha256": "cd" * 32}))
    return tmp_path


def add(run: Path, source: str, **addition) -> None:
    run_folder.add(str(run), source, dict(run_folder.results(str(run))), {POINT: addition})


def read(run: Path) -> list:
    """The point as each reader gives it."""
    return [
        store.open_run(str(run)).full(POINT),
        dict(run_folder.results(str(run)))[POINT],
        run_folder.stored(str(run), [{"point_id": POINT, "fingerprint": None}])[POINT],
        next(one for one in load.read_run(str(run)).results if one["point_id"] == POINT),
    ]


def test_every_reader_gives_what_was_added_and_the_result_stays_as_it_was_measured(run):
    path = run / "points" / POINT / "result.json"
    before = path.read_bytes()
    add(run, "observer.target01", counters={"hosts": {"target01": COUNTED}}, flags=["clocks_differ"])
    add(run, "esxi.esxi01", counters={"hosts": {"esxi01": {"interval_s": 20}}, "esxi": {"host": "esxi01"}})
    add(run, "ceiling.here", checks=[{"name": "ceiling", "ok": False}], flags=["faster_than_ceiling"])
    assert path.read_bytes() == before
    for point in read(run):
        assert point["counters"]["hosts"] == {"target01": COUNTED, "esxi01": {"interval_s": 20}}
        assert point["counters"]["esxi"] == {"host": "esxi01"}
        assert point["checks"] == [{"name": "ceiling", "ok": False}]
        assert point["flags"] == ["buffered_io", "faster_than_ceiling", "clocks_differ"]
    other = store.open_run(str(run)).full("backing-b.4k.r2")
    assert "counters" not in other and other["flags"] == []


def test_rows_that_come_from_the_index_have_what_was_added_since(run):
    assert store.open_run(str(run)).rows[0]["flags"] == ["buffered_io"]
    add(run, "observer.target01", counters={"hosts": {"target01": COUNTED}}, flags=["clock_unknown"])
    for row in (store.open_run(str(run)).rows[0], store.open_run(str(run)).rows[0]):
        assert row["flags"] == ["buffered_io", "clock_unknown"] and "counters" not in row


def test_a_failure_that_was_added_makes_the_point_a_failed_one(run):
    why = {"code": "commands_aborted", "message": "esxi01 aborted 3 commands."}
    add(run, "esxi.esxi01", failures=[why])
    assert run_folder.stored(str(run), [{"point_id": POINT, "fingerprint": None}]) == {}
    points = [
        store.open_run(str(run)).full(POINT),
        store.open_run(str(run)).rows[0],
        dict(run_folder.results(str(run)))[POINT],
        next(one for one in load.read_run(str(run)).results if one["point_id"] == POINT),
    ]
    assert all((point["status"], point["failures"]) == ("failed", [why]) for point in points)
    overview = store.open_run(str(run)).overview()
    assert (overview["measured"], overview["failed"]) == (1, 1)
    # Measured again it is another measurement.
    write(run, {**measured(), "raw": {"file": "fio.json", "sha256": "ef" * 32}})
    assert all((point["status"], point["failures"]) == ("measured", []) for point in read(run))


def test_a_source_replaces_what_it_added_and_leaves_what_others_did(run):
    add(run, "observer.target01", flags=["clock_unknown"])
    add(run, "observer.other", counters={"hosts": {"other": {"interval_s": 4}}})
    add(run, "observer.target01", counters={"hosts": {"target01": COUNTED}})
    (point, *_others) = read(run)
    assert point["flags"] == ["buffered_io"] and set(point["counters"]["hosts"]) == {"target01", "other"}


def test_judging_again_takes_the_place_of_the_judgement(run):
    owned = ["faster_than_ceiling", "generator_bound"]
    write(run, measured(checks=[{"name": "device_counters", "ok": True}, {"name": "ceiling", "ok": False}]))
    add(run, "ceiling.here", checks=[{"name": "ceiling", "ok": True}], flags=["generator_bound"], replaced_flags=owned)
    for point in read(run):
        assert point["checks"] == [{"name": "device_counters", "ok": True}, {"name": "ceiling", "ok": True}]
        assert point["flags"] == ["buffered_io", "generator_bound"]
    add(run, "ceiling.here", checks=[{"name": "ceiling", "ok": True}], flags=[], replaced_flags=owned)
    assert all(point["flags"] == ["buffered_io"] for point in read(run))


@pytest.mark.parametrize("raw", [{"file": "fio.json", "sha256": "ef" * 32}, None])
def test_what_was_added_to_one_measurement_does_not_pass_to_the_next_of_its_name(run, raw):
    add(run, "observer.target01", counters={"hosts": {"target01": COUNTED}}, flags=["clocks_differ"])
    again = {**measured(), "raw": raw} if raw else {key: value for key, value in measured().items() if key != "raw"}
    write(run, again)
    for point in read(run):
        assert not point.get("counters") and point["flags"] == ["buffered_io"]


def test_runs_of_earlier_versions_hold_it_in_their_results(run):
    inside = {"hosts": {"target01": COUNTED, "older": {"interval_s": 2}}, "interrupts": 5}
    write(run, measured(counters=inside))
    assert all(point["counters"] == inside for point in read(run))
    add(run, "observer.target01", counters={"hosts": {"target01": {"interval_s": 7}}})
    for point in read(run):
        assert point["counters"] == {**inside, "hosts": {"target01": {"interval_s": 7}, "older": {"interval_s": 2}}}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"schema": "other/1", "points": {}}',
        '{"schema": "storlab.additions/1", "points": {"p": []}}',
        '{"schema": "storlab.additions/1", "points": {"p": {"counters": {"hosts": []}}}}',
        '{"schema": "storlab.additions/1", "points": {"p": {"checks": ["ceiling"]}}}',
        '{"schema": "storlab.additions/1", "points": {"p": {"failures": ["aborted"]}}}',
    ],
)
def test_what_cannot_be_read_is_listed_and_never_written_over(run, text):
    (run / "added").mkdir()
    (run / "added" / "observer.target01.json").write_text(text, encoding="utf-8")
    listed = [store.open_run(str(run)).damaged, load.read_run(str(run)).damaged]
    assert [entry["file"] for damaged in listed for entry in damaged if entry["file"].startswith("added/")] == [
        "added/observer.target01.json"
    ] * 2
    with refused(run) as raised:
        list(run_folder.results(str(run)))
    assert raised.value.code == "run_damaged"


def test_merging_changes_nothing_that_it_was_given():
    given = measured(counters={"hosts": {"a": {}}}, checks=[{"name": "x"}])
    addition = {"of": RAW["sha256"], "counters": {"hosts": {"b": {}}}, "checks": [{"name": "y"}], "flags": ["z"]}
    before = copy.deepcopy((given, addition))
    merged = additions.merged(given, [addition])
    assert (given, addition) == before and merged != given
    assert json.loads(json.dumps(merged)) == merged
