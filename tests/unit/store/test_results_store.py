# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The store: its rows are the files' whatever the index says, and nothing that is there is passed over."""

from __future__ import annotations

import json
import os
import re
import runpy
import sqlite3
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import point_index, store
from fixtures.report import make_fixture
from unchanged import refused

OLD_NS = 1_700_000_000_123_456_789


def result(point: str, iops: float = 100.5, **more) -> dict:
    layer, workload_id, repetition = point.split(".")
    return {
        "schema": "storlab.result/1",
        "testbed_id": "lab",
        "run_id": "one",
        "point_id": point,
        "layer": layer,
        "layer_kind": layer.partition("-")[0],
        "host": "target01",
        "engine": {"name": "fio", "version": "3.33"},
        "workload": {"block_size_bytes": 4096, "read_percent": 100},
        "workload_id": workload_id,
        "repetition": int(repetition[1:]),
        "status": "measured",
        "failures": [],
        "flags": [],
        "started_utc": "2026-11-21T10:00:00Z",
        "finished_utc": "2026-11-21T10:00:10Z",
        "total": {
            "ios": 7,
            "bytes": 28672,
            "iops": iops,
            "bandwidth_bytes_s": 3.5,
            "histogram": {"unit": "ns", "bins": {"5": 3, "9": 4}},
        },
        **more,
    }


def write(run: Path, content, point: str | None = None, mtime_ns: int = OLD_NS) -> Path:
    path = run / "points" / (point or content["point_id"]) / "result.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    os.utime(path, ns=(mtime_ns, mtime_ns))
    return path


def settle(run: Path) -> None:
    """Until the clock of the file system has gone on so far that nothing of the run could have changed unseen since it was written."""
    newest = max(path.stat().st_ctime_ns for path in run.rglob("*"))
    probe = run / "probe"
    while True:
        probe.touch()
        now = probe.stat().st_mtime_ns
        probe.unlink()
        if now > newest + point_index.TICK_NS:
            return


@pytest.fixture
def run(tmp_path) -> Path:
    folder = tmp_path / "lab" / "one"
    write(folder, result("backing-a.4k.r1", 101.0))
    write(folder, result("backing-a.4k.r2", 102.0))
    write(
        folder,
        result(
            "target-a.8k.r1", 203.0, host="other01", status="failed", failures=[{"code": "no_io", "message": "None."}]
        ),
    )
    settle(folder)
    return folder


@pytest.fixture
def reads(monkeypatch) -> list:
    """The points whose result.json is read."""
    seen, real = [], store.read_hashed
    monkeypatch.setattr(store, "read_hashed", lambda path: seen.append(Path(path).parent.name) or real(path))
    return seen


def iops(found: store.Store) -> dict:
    return {row["point_id"]: row["total"]["iops"] for row in found.rows}


def test_rows_are_the_results_without_histograms(run):
    rows = store.open_run(str(run)).rows
    wanted = result("backing-a.4k.r2", 102.0)
    del wanted["total"]["histogram"]
    assert rows[1] == wanted
    assert [row["point_id"] for row in rows] == ["backing-a.4k.r1", "backing-a.4k.r2", "target-a.8k.r1"]


def test_the_second_time_nothing_is_read_but_the_index(run, reads):
    first = store.open_run(str(run))
    assert len(reads) == 3
    again = store.open_run(str(run))
    assert len(reads) == 3
    assert (again.rows, again.damaged) == (first.rows, first.damaged)


def test_only_what_changed_is_read_anew(run, reads):
    store.open_run(str(run))
    reads.clear()
    write(run, result("backing-a.4k.r2", 777.0), mtime_ns=OLD_NS + 1)
    assert iops(store.open_run(str(run)))["backing-a.4k.r2"] == 777.0
    assert reads == ["backing-a.4k.r2"]


def test_a_change_of_size_alone_is_seen(run):
    store.open_run(str(run))
    write(run, result("backing-a.4k.r2", 12345.0))
    assert iops(store.open_run(str(run)))["backing-a.4k.r2"] == 12345.0


def test_a_change_within_one_tick_of_the_clock_is_seen(run, monkeypatch):
    """Same size and same time as when it was indexed: the index may not trust what had just been written when it was read."""
    monkeypatch.setattr(point_index, "TICK_NS", 10**12)
    path = write(run, result("backing-a.4k.r1", 111.0), mtime_ns=OLD_NS)
    os.utime(path)
    now = path.stat().st_mtime_ns
    store.open_run(str(run))
    write(run, result("backing-a.4k.r1", 999.0), mtime_ns=now)
    assert iops(store.open_run(str(run)))["backing-a.4k.r1"] == 999.0


def test_points_that_came_or_went(run):
    store.open_run(str(run))
    write(run, result("backing-b.4k.r1", 55.0))
    (run / "points" / "backing-a.4k.r1" / "result.json").unlink()
    (run / "points" / "backing-a.4k.r1").rmdir()
    assert set(iops(store.open_run(str(run)))) == {"backing-a.4k.r2", "backing-b.4k.r1", "target-a.8k.r1"}
    assert set(iops(store.open_run(str(run)))) == {"backing-a.4k.r2", "backing-b.4k.r1", "target-a.8k.r1"}


def emptied(kept: bytes) -> bytes:
    return b""


def cut(kept: bytes) -> bytes:
    return kept[: len(kept) // 2]


def overwritten(kept: bytes) -> bytes:
    """The first page, which says what tables there are, is whole."""
    return kept[:4096] + b"\xff" * (len(kept) - 4096)


def no_database(kept: bytes) -> bytes:
    return b'{"schema": "storlab.index/1"}\n'


@pytest.mark.parametrize("damage", [emptied, cut, overwritten, no_database])
def test_a_damaged_index_is_made_anew(run, reads, damage):
    wanted = store.open_run(str(run)).rows
    index = run / point_index.FILE
    index.write_bytes(damage(index.read_bytes()))
    reads.clear()
    assert store.open_run(str(run)).rows == wanted and len(reads) == 3
    assert store.open_run(str(run)).rows == wanted and len(reads) == 3


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE about SET schema = 'storlab.index/9'",
        "DELETE FROM about",
        "CREATE VIEW seen AS SELECT * FROM point",
        "ALTER TABLE point ADD COLUMN another",
        "UPDATE point SET row = '{\"point_id\"'",
        "UPDATE point SET row = NULL",
    ],
)
def test_an_index_of_another_shape_is_made_anew(run, reads, statement):
    wanted = store.open_run(str(run)).rows
    with sqlite3.connect(run / point_index.FILE) as database:
        database.execute(statement)
    database.close()
    reads.clear()
    assert store.open_run(str(run)).rows == wanted and len(reads) == 3


def test_an_index_on_a_disk_that_cannot_be_written_is_done_without(run, monkeypatch):
    def denied(**_where):
        raise PermissionError(13, "denied")

    monkeypatch.setattr(point_index.tempfile, "mkstemp", denied)
    monkeypatch.setattr(point_index.tempfile, "TemporaryFile", denied)
    before = sorted(run.rglob("*"))
    for _time in range(2):
        assert len(store.open_run(str(run)).rows) == 3
    assert sorted(run.rglob("*")) == before


def test_an_index_that_was_kept_serves_where_nothing_can_be_written(run, reads, monkeypatch):
    wanted = store.open_run(str(run)).rows
    (run / point_index.FILE).chmod(0o444)
    run.chmod(0o555)
    reads.clear()
    try:
        assert store.open_run(str(run)).rows == wanted and reads == []
    finally:
        run.chmod(0o755)


def test_a_result_set_back_to_its_old_time_is_read_anew(run):
    """Same size, same time of the last change, same inode: only the time that no program can set tells."""
    store.open_run(str(run))
    path = run / "points" / "backing-a.4k.r1" / "result.json"
    old = path.stat()
    with path.open("r+") as handle:
        text = handle.read().replace("101.0", "909.0")
        handle.seek(0)
        handle.write(text)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    new = path.stat()
    assert (new.st_size, new.st_mtime_ns, new.st_ino) == (old.st_size, old.st_mtime_ns, old.st_ino)
    assert iops(store.open_run(str(run)))["backing-a.4k.r1"] == 909.0


def test_readers_and_writers_at_once_all_see_the_files(run):
    """Each opens, changes a point of its own and opens again, all at the same time; none fails, and the index in the end is whole."""

    def work(number: int) -> list:
        point = f"backing-{number}.4k.r1"
        seen = []
        for value in (1000.0 + number, 2000.0 + number):
            write(run, result(point, value))
            seen.append(iops(store.open_run(str(run)))[point])
        return seen

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(work, range(6))) == [[1000.0 + number, 2000.0 + number] for number in range(6)]
    assert len(store.open_run(str(run)).rows) == 9
    assert [path.name for path in run.iterdir() if ".new" in path.name] == []
    with sqlite3.connect(run / point_index.FILE) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()


def test_names_that_are_no_unicode(run):
    odd = "backing-\udcff\u00e9.4k.r1"
    write(run, json.dumps(result(odd, 7.0)), odd)
    settle(run)
    for _time in range(2):
        assert iops(store.open_run(str(run)))[odd] == 7.0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "cannot be read"),
        ('{"schema": "storlab.result/1"', "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ('{"schema": "storlab.result/1", "x": NaN}', "cannot be read"),
        ([], "it is not a result"),
        ({**result("x.y.r1"), "schema": "storlab.result/2"}, "its schema is 'storlab.result/2'"),
        ({key: found for key, found in result("x.y.r1").items() if key != "layer"}, "it lacks layer"),
        ({**result("x.y.r1"), "workload": []}, "its workload is a list"),
        ({**result("x.y.r1"), "total": {"iops": "many"}}, "its total iops is 'many', not a number"),
        ({**result("x.y.r1"), "total": {"iops": True}}, "its total iops is True, not a number"),
        ({**result("x.y.r1"), "read": {"histogram": {"bins": {"5": -1}}}}, "its read histogram is not made of"),
        ({**result("x.y.r1"), "read": {"histogram": []}}, "its read histogram is not made of"),
        (result("other.y.r1"), "it is the result of point 'other.y.r1'"),
    ],
)
def test_what_is_damaged_is_listed_with_the_reason(run, content, reason):
    write(run, content, "x.y.r1")
    for found in (store.open_run(str(run)), store.open_run(str(run))):
        assert [item["file"] for item in found.damaged] == ["points/x.y.r1/result.json"]
        assert reason in found.damaged[0]["reason"]
        assert len(found.rows) == 3
    write(run, result("x.y.r1", 5.0), mtime_ns=OLD_NS + 7)
    assert (store.open_run(str(run)).damaged, len(store.open_run(str(run)).rows)) == ([], 4)


def test_a_point_without_a_result_is_listed(run):
    (run / "points" / "empty").mkdir()
    assert store.open_run(str(run)).damaged == [{"file": "points/empty/result.json", "reason": "it is missing"}]


def test_rows_are_the_same_without_orjson(run, monkeypatch):
    wanted = store.open_run(str(run))
    (run / point_index.FILE).unlink()
    monkeypatch.setattr(store, "orjson", None)
    assert store.open_run(str(run)) == wanted
    write(run, '{"schema": "storlab.result/1", "x": NaN}', "x.y.r1")
    assert "NaN is not a number" in store.open_run(str(run)).damaged[0]["reason"]


@pytest.mark.parametrize(
    ("filters", "points"),
    [
        ({"layer": "backing-a"}, ["backing-a.4k.r1", "backing-a.4k.r2"]),
        ({"layer": ["backing-a", "target-a"], "repetition": 1}, ["backing-a.4k.r1", "target-a.8k.r1"]),
        ({"total__iops": lambda found: found > 101.5, "status": "measured"}, ["backing-a.4k.r2"]),
        ({"workload__read_percent": 100, "host": "other01"}, ["target-a.8k.r1"]),
        ({"variant": "a"}, []),
        ({}, ["backing-a.4k.r1", "backing-a.4k.r2", "target-a.8k.r1"]),
    ],
)
def test_select(run, filters, points):
    assert [row["point_id"] for row in store.open_run(str(run)).select(**filters)] == points


def test_full_brings_the_histograms(run):
    assert store.open_run(str(run)).full("backing-a.4k.r2") == result("backing-a.4k.r2", 102.0)


@pytest.mark.parametrize("point", ["nowhere", "../../etc", "", ".."])
def test_full_of_what_is_not_a_point(run, point):
    opened = store.open_run(str(run))
    with refused(run) as caught:
        opened.full(point)
    assert caught.value.code == "result_unreadable"


def test_overview(run):
    write(run, "", "broken.4k.r1")
    assert store.open_run(str(run)).overview() == {
        "folder": str(run),
        "testbed_id": "lab",
        "run_id": "one",
        "started_utc": "2026-11-21T10:00:00Z",
        "finished_utc": "2026-11-21T10:00:10Z",
        "points": 3,
        "measured": 2,
        "failed": 1,
        "damaged": 1,
        "layers": ["backing-a", "target-a"],
        "hosts": ["other01", "target01"],
        "workloads": ["4k", "8k"],
    }


def test_runs_of_all_testbeds_or_of_one(run, tmp_path):
    write(tmp_path / "lab" / "two", result("a.b.r1"))
    write(tmp_path / "yard" / "three", result("a.b.r1"))
    (tmp_path / "lab" / "no_run").mkdir()
    assert [os.path.relpath(folder, tmp_path) for folder in store.runs(str(tmp_path))] == [
        "lab/one",
        "lab/two",
        "yard/three",
    ]
    assert [os.path.relpath(folder, tmp_path) for folder in store.runs(str(tmp_path), "yard")] == ["yard/three"]
    assert store.runs(str(tmp_path / "nowhere")) == []


def test_the_manual_shows_what_works(tmp_path, root, monkeypatch):
    make_fixture.write_run(str(tmp_path / "results"), 2, 1)
    monkeypatch.chdir(tmp_path)
    text = (root / "docs" / "results.md").read_text(encoding="utf-8")
    code = re.search(r"## The store[^#]*?\n\n((?:    [^\n]*\n|\n)+)", text).group(1)
    lines = textwrap.dedent(code).strip().splitlines()
    shown = "".join(f"{line.partition('  #')[0]},\n" for line in lines[3:])
    (tmp_path / "manual.py").write_text("\n".join([*lines[:3], f"shown = [{shown}]"]))
    overview, rows, selected, full, damaged, runs = runpy.run_path(str(tmp_path / "manual.py"))["shown"]
    assert (overview["points"], len(rows), damaged, len(runs)) == (12, 12, [], 1)
    assert {row["layer"] for row in selected} == {"backing-bench"}
    assert "histogram" in full["total"]


def test_a_folder_that_is_no_run(tmp_path):
    with refused(tmp_path) as caught:
        store.open_run(str(tmp_path))
    assert caught.value.code == "run_missing"
