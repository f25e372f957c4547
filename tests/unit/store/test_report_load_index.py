# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run read by its index is the run that is read from its files, whatever happened to them in between."""

from __future__ import annotations

import copy
import csv
import hashlib
import io
import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
import synthetic_run
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import model, render
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import (
    csv_cells,
    load,
    point_index,
    run_folder,
    store,
    verify,
)


@pytest.fixture
def run(tmp_path, monkeypatch) -> Path:
    # What was just written counts as settled, so that what is tested is the index and not the patience of the test.
    monkeypatch.setattr(point_index, "TICK_NS", -(10**12))
    return Path(synthetic_run.write_run(str(tmp_path), "chain", 3))


@pytest.fixture
def reads(monkeypatch) -> list:
    """The points whose result.json is read."""
    seen, real = [], store.read_hashed
    monkeypatch.setattr(store, "read_hashed", lambda path: seen.append(Path(path).parent.name) or real(path))
    return seen


def told(folder: Path) -> dict:
    """All that a run says, and its report."""
    run = load.read_run(str(folder))

    def plain(value):
        return dict(value.items()) if hasattr(value, "edges") else str(value)

    said = json.loads(json.dumps([run.results, run.damaged], default=plain, sort_keys=True))
    return {"said": said, "report": render.render(model.build(run))}


def without_index(folder: Path) -> dict:
    """The same in a folder that has no index."""
    kept = folder / point_index.FILE
    aside = folder.parent / "aside"
    if kept.exists():
        kept.rename(aside)
    found = told(folder)
    kept.unlink()
    if aside.exists():
        aside.rename(kept)
    return found


def first(folder: Path, name: str = "result.json") -> Path:
    return sorted(folder.glob(f"points/*/{name}"))[0]


def rewrite(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_nothing_is_read_twice_and_everything_is_the_same(run, reads):
    fresh = told(run)
    assert len(reads) == len(list((run / "points").iterdir()))
    reads.clear()
    assert told(run) == fresh and reads == []
    assert without_index(run) == fresh


def test_a_run_that_was_indexed_when_it_ended_is_reported_without_reading_it(run, reads, monkeypatch):
    monkeypatch.setattr(load, "LACKING", 2)
    load.keep_index(str(run))
    assert len(reads) == len(list((run / "points").iterdir()))
    reads.clear()
    assert told(run) == without_index(run)
    # Only the folder without an index was read.
    assert len(reads) == len(list((run / "points").iterdir()))


def test_an_index_that_lacks_few_points_is_left_as_it_is(run, reads, monkeypatch):
    points = sorted((run / "points").iterdir())
    load.keep_index(str(run))
    assert len(points) < load.LACKING and not (run / point_index.FILE).exists() and reads == []
    monkeypatch.setattr(load, "LACKING", 2)
    shutil.move(points[0], run.parent / "later")
    load.keep_index(str(run))
    kept = (run / point_index.FILE).read_bytes()
    shutil.move(run.parent / "later", points[0])
    reads.clear()
    load.keep_index(str(run))
    assert (run / point_index.FILE).read_bytes() == kept and reads == []
    assert told(run) == without_index(run)


def test_one_of_several_that_end_at_the_same_time_writes_the_index(run, monkeypatch):
    monkeypatch.setattr(load, "LACKING", 2)
    with run_folder.alone(str(run / "points")) as first, run_folder.alone(str(run / "points")) as second:
        assert (first, second) == (True, False)
        load.keep_index(str(run))
        assert not (run / point_index.FILE).exists()
    load.keep_index(str(run))
    assert (run / point_index.FILE).exists()


def test_an_index_that_cannot_be_written_is_no_failure_of_the_run(run, monkeypatch):
    def full(*_arguments):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(load, "LACKING", 2)
    with monkeypatch.context() as patch:
        patch.setattr(point_index.Index, "replace", full)
        load.keep_index(str(run))
    assert sorted(path.name for path in run.iterdir()) == sorted(
        path.name for path in run.iterdir() if path.name[0] != "."
    )
    assert not (run / point_index.FILE).exists()
    assert load.keep_index(str(run / "none")) is None


def test_an_index_of_rows_alone_is_completed(run, reads):
    store.open_run(str(run))
    reads.clear()
    found = told(run)
    assert len(reads) == len(list((run / "points").iterdir()))
    reads.clear()
    assert told(run) == found == without_index(run)
    reads.clear()
    store.open_run(str(run))
    assert reads == []


def gone(run: Path) -> None:
    shutil.rmtree(first(run).parent)


def failed(run: Path) -> None:
    rewrite(first(run), status="failed")


def faster(run: Path) -> None:
    path = first(run)
    result = json.loads(path.read_text())
    result["total"]["iops"] *= 3
    edges = list(result["total"]["histogram"]["bins"])
    result["total"]["histogram"]["bins"][edges[0]] += 1000
    path.write_text(json.dumps(result))


def damaged(run: Path) -> None:
    first(run).write_text("{")


def with_counters_of_another_shape(run: Path) -> None:
    rewrite(first(run), counters=[1])


def raw_edited(run: Path) -> None:
    """One byte, at the time that it had."""
    path = first(run, "fio.json")
    old = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    with path.open("r+b") as handle:
        handle.write(content)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))


def raw_gone(run: Path) -> None:
    first(run, "fio.json").unlink()


def job_edited(run: Path) -> None:
    path = first(run, "job.fio")
    path.write_text(path.read_text() + "\n")


def added_to(run: Path) -> None:
    result = json.loads(first(run).read_text())
    (run / "added").mkdir(exist_ok=True)
    addition = {"of": result["raw"]["sha256"], "flags": ["clock_stepped"], "checks": [{"name": "own", "ok": True}]}
    content = {"schema": "storlab.additions/1", "points": {result["point_id"]: addition}}
    (run / "added" / "own.json").write_text(json.dumps(content))


def failed_later(run: Path) -> None:
    """The bins of a point that was failed by an addition are in no sum."""
    added_to(run)
    path = run / "added" / "own.json"
    content = json.loads(path.read_text())
    for addition in content["points"].values():
        addition["failures"] = [{"code": "commands_aborted", "message": "Some."}]
    path.write_text(json.dumps(content))


CHANGES = (
    gone,
    failed,
    faster,
    damaged,
    with_counters_of_another_shape,
    raw_edited,
    raw_gone,
    job_edited,
    added_to,
    failed_later,
)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("rows_read_before", [False, True])
def test_what_changed_is_seen(run, change, rows_read_before):
    before = told(run)
    change(run)
    if rows_read_before:
        store.open_run(str(run))  # which brings the index up to date as far as rows go
    found = told(run)
    assert found["said"] != before["said"]
    assert found == without_index(run) == told(run)


def test_a_file_that_comes_back_is_seen(run):
    before = told(run)
    path = first(run, "fio.json")
    content = path.read_bytes()
    path.unlink()
    assert "missing" in json.dumps(told(run)["said"])
    path.write_bytes(content)
    assert told(run) == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE point SET rest = '['",
        "UPDATE point SET files = '{\"raw\": []}'",
        "UPDATE sums SET counts = x'4901'",
        "DELETE FROM sums",
        "UPDATE point SET rest = NULL",
    ],
)
def test_an_index_with_something_else_in_it_is_made_anew(run, statement):
    before = told(run)
    with sqlite3.connect(run / point_index.FILE) as database:
        database.execute(statement)
    database.close()
    assert told(run) == before == told(run)


@pytest.mark.parametrize("text", ["{},{}],[{}", "{}],[{},{},{}],[{}", "[", "{}, {}", ""])
def test_a_text_that_is_not_one_value_passes_to_no_other_point(run, text):
    """Texts of many points are parsed together; one whose seal was renewed must not move the others'."""
    before = told(run)
    with sqlite3.connect(run / point_index.FILE) as database:
        point, *_others = row = database.execute("SELECT * FROM point ORDER BY point").fetchone()
        at = point_index.COLUMNS.index("rest")
        values = (*row[:at], text, *row[at + 1 : -1])
        database.execute(
            "UPDATE point SET rest = ?, seal = ? WHERE point = ?", (text, point_index.sealed(values), point)
        )
    database.close()
    assert told(run) == before == told(run)


def test_equal_numbers_of_two_types_stay_what_they_are(run):
    """What results have alike is in memory once, and 1 is not 1.0 in a file."""
    paths = sorted(path for path in (run / "points").glob("*/result.json"))[:2]
    for path, depth in zip(paths, (4, 4.0)):
        result = json.loads(path.read_text())
        result["workload"] = {"queue_depth": depth}
        path.write_text(json.dumps(result))
    for _again in range(2):
        depths = [
            result["workload"]["queue_depth"]
            for result in load.read_run(str(run)).results
            if len(result["workload"]) == 1
        ]
        assert sorted(map(repr, depths)) == ["4", "4.0"]


def test_bins_beyond_every_array_are_kept_too(run):
    """A count of more than 64 bits, which a stranger's file may have."""
    path = first(run)
    result = json.loads(path.read_text())
    for part in ("read", "write", "total"):
        if part in result:
            result[part]["histogram"]["bins"] = {"5": 1 << 70, "9": 1}
    path.write_text(json.dumps(result))
    assert told(run) == told(run) == without_index(run)


def test_what_verifies_results_believes_no_index(run):
    told(run)
    state = verify.state_of(str(run))
    rewrite(first(run), status="failed")
    assert verify.state_of(str(run)) != state
    with_index = verify.verify(str(run))
    assert first(run).parent.name in json.dumps(with_index)
    (run / point_index.FILE).unlink()
    assert verify.verify(str(run)) == with_index


def test_a_report_takes_the_text_of_each_point_from_the_index(run, monkeypatch):
    before = told(run)
    report = model.build(load.read_run(str(run)))
    taken, real = [], point_index.composed
    monkeypatch.setattr(point_index, "composed", lambda *parts: taken.append(parts) or real(*parts))
    assert "".join(render.results_json(report)) == before["report"]["results.json"]
    assert len(taken) == len(report.points)


def test_a_report_takes_the_csv_of_each_point_from_the_index(run, monkeypatch):
    before = told(run)["report"]["results.csv"]
    report = model.build(load.read_run(str(run)))
    made, real = [], csv_cells.after
    monkeypatch.setattr(csv_cells, "after", lambda point: made.append(point["point_id"]) or real(point))
    assert "".join(render.results_csv(report)) == before and made == []
    # A copy may have been changed, so that its line is made of its figures.
    report.points = copy.deepcopy(report.points)
    assert "".join(render.results_csv(report)) == before and len(made) == len(report.points)


def test_csv_that_does_not_follow_from_its_row_is_found(run):
    told(run)
    assert not any(entry["file"] == point_index.FILE for entry in verify.verify(str(run))["findings"])
    with sqlite3.connect(run / point_index.FILE) as database:
        point, *_others = row = database.execute("SELECT * FROM point ORDER BY point").fetchone()
        at = point_index.COLUMNS.index("cells")
        assert ",measured," in row[at]
        values = (*row[:at], row[at].replace(",measured,", ",failed,"), *row[at + 1 : -1])
        database.execute(
            "UPDATE point SET cells = ?, seal = ? WHERE point = ?", (values[at], point_index.sealed(values), point)
        )
    database.close()
    findings = [entry for entry in verify.verify(str(run))["findings"] if entry["file"] == point_index.FILE]
    assert [entry["field"] for entry in findings] == [point_index.name_of(point)]


@pytest.mark.parametrize("gone", ["replaced", "removed", "emptied"])
def test_a_text_of_another_index_is_not_taken(run, gone):
    before = told(run)["report"]
    report = model.build(load.read_run(str(run)))
    kept = run / point_index.FILE
    if gone == "replaced":
        aside = run / "aside"
        shutil.copy(kept, aside)
        with sqlite3.connect(aside) as database:
            database.execute("UPDATE point SET cells = 'x\x1ey', row = '{\"point_id\": 1}'")
        database.close()
        aside.replace(kept)
    elif gone == "removed":
        kept.unlink()
    else:
        kept.write_bytes(b"")
    assert "".join(render.results_json(report)) == before["results.json"]
    assert "".join(render.results_csv(report)) == before["results.csv"]


def test_a_result_that_was_changed_or_copied_is_written_as_it_is(run):
    told(run)
    report = model.build(load.read_run(str(run)))
    first, second, *_others = report.points
    assert first.texts and second.texts
    first["host"] = "elsewhere"
    changed = copy.deepcopy(second)
    changed["total"]["iops"] = 7
    assert type(changed) is dict and second["total"]["iops"] != 7
    report.points = [first, changed]
    points = json.loads("".join(render.results_json(report)))["points"]
    assert [points[0]["host"], points[1]["total"]["iops"]] == ["elsewhere", 7]


@pytest.mark.parametrize(
    "changes",
    [
        {"layer": "half \ud800"},
        {"path": ""},
        {"flags": None},
        {"files": {"raw": 1}},
        {"note 1": 1, "note": 2, "note,\n": ',\n"x": 1'},
        {"series": None, "job": None, "raw": None},
        {"status": "failed", "failures": [{"message": '=1+1, "quoted"\n and \x1e'}]},
        {"workload": {"queue_depth": None}},
    ],
)
def test_whatever_a_result_holds_its_report_is_the_same_from_the_index(run, changes):
    path = first(run)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    fresh = told(run)
    assert told(run) == fresh == without_index(run)
    points = json.loads(fresh["report"]["results.json"])["points"]
    assert all(list(point) == sorted(point) for point in points)
    report = model.build(load.read_run(str(run)))
    report.points = copy.deepcopy(report.points)
    assert "".join(render.results_csv(report)) == fresh["report"]["results.csv"]
    lines = list(csv.reader(io.StringIO(fresh["report"]["results.csv"])))
    assert len(lines) == len(report.points) + 1 and len(set(map(len, lines))) == 1


def test_a_verdict_of_an_earlier_version_holds_while_its_rows_do(run):
    """It has a checksum of rows as they were written then."""
    told(run)
    rows = hashlib.sha256()
    for path in sorted((run / "points").iterdir()):
        result = json.loads((path / "result.json").read_text())
        row = {key: part for key, part in result.items() if key not in ("counters", "clients")}
        for part in ("total", "read", "write", "sync"):
            if part in row:
                row[part] = {key: figure for key, figure in row[part].items() if key != "histogram"}
        text = json.dumps(row, separators=(",", ":"), sort_keys=True)
        rows.update(b"%b\0%b\n" % (path.name.encode(), text.encode()))
    verdict = verify.verify(str(run))
    assert verdict["rows"].startswith("lines ")
    for of, outdated in ((verdict["rows"], False), (rows.hexdigest(), False), ("lines 0", True), ("0", True)):
        words = {**verdict, "rows": of, "checked_utc": "", "of": verify.state_of(str(run)), "schema": verify.SCHEMA}
        (run / verify.FILE).write_text(json.dumps(words))
        assert load.read_run(str(run)).verified["outdated"] is outdated
