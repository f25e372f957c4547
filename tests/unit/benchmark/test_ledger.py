# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ledger of a testbed: every line that is changed, removed or put in is found, and every file of a run that is not as it was written."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import sqlite3
from pathlib import Path

import actions
import pytest
from ansible_collections.storlab.testbed.plugins.action import verify_results
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark.keep import keep
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import (
    ledger,
    load,
    point_index,
    run_folder,
    store,
    verify,
)
from test_engine_action import LAYERS, point_files
from test_verify_results import ASKED, IDS, NOTED, POINTS


@pytest.fixture
def run(tmp_path) -> Path:
    folder = tmp_path / "embedded" / "first"
    run_folder.add_request(str(folder), {"testbed_id": "embedded", "run_id": "first"}, {"engine": "fio"}, "target01")
    run_folder.add_layers(str(folder), {"backing-bench": LAYERS["backing-bench"]})
    run_folder.note(str(folder), "started", host="target01")
    run_folder.write_host(str(folder), "target01", {"kernel": {"release": "6.1"}})
    files = {IDS[0]: point_files(**NOTED), IDS[1]: point_files(exit_code=5)}
    keep(
        str(folder),
        ASKED,
        POINTS,
        {"backing-bench": LAYERS["backing-bench"]},
        files,
        {"fill-backing-bench": {"job.fio": b"[fill]\n"}},
    )
    run_folder.add(
        str(folder), "observer.esx01", dict(run_folder.results(str(folder))), {IDS[0]: {"flags": ["clock_unknown"]}}
    )
    return folder


@pytest.fixture
def indexed(run) -> Path:
    """With an index whose rows are trusted, as some time after they were measured."""
    for path in run.glob("points/*/result.json"):
        os.utime(path, (1_700_000_000.5, 1_700_000_000.5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(point_index, "TICK_NS", -(10**12))
        load.read_run(str(run))
    assert verdict_of(run)["verdict"] == "follows"
    return run


def verdict_of(run: Path) -> dict:
    return actions.make(verify_results, {"run_dir": str(run)}).run(task_vars={})


def shown_iops(run: Path) -> list:
    return [row["total"]["iops"] for row in store.open_run(str(run)).rows if row["point_id"] == IDS[0]]


def edit_row(run: Path, seal: bool) -> float:
    """A hundred times as many IOPS in the index, with or without a seal that fits; what the result says."""
    columns = point_index.COLUMNS
    with sqlite3.connect(run / "index.sqlite") as database:
        values = database.execute(f"SELECT {', '.join(columns)} FROM point ORDER BY point").fetchone()  # noqa: S608
        entry = dict(zip(columns, values))
        row = json.loads(entry["row"])
        honest = row["total"]["iops"]
        row["total"]["iops"] = honest * 100
        entry.update(row=json.dumps(row, separators=(",", ":")), iops=honest * 100)
        if seal:
            entry["seal"] = point_index.sealed([entry[column] for column in columns[:-1]])
        database.execute("DELETE FROM point WHERE point = ?", (entry["point"],))
        marks = ", ".join("?" * len(columns))
        database.execute(f"INSERT INTO point VALUES ({marks})", [entry[key] for key in columns])  # noqa: S608
    database.close()
    return honest


def test_a_row_that_was_edited_in_place_is_found_and_not_shown(indexed):
    honest = edit_row(indexed, seal=False)
    found = verdict_of(indexed)["findings"]
    assert [(entry["file"], entry["field"]) for entry in found] == [("index.sqlite", IDS[0])]
    assert shown_iops(indexed) == [honest]
    # Whoever reads makes it anew.
    assert verdict_of(indexed)["verdict"] == "follows"


def test_a_row_with_a_seal_of_its_own_is_found_and_ends_the_verdict(indexed):
    honest = edit_row(indexed, seal=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(point_index, "TICK_NS", -(10**12))
        assert shown_iops(indexed) == [honest * 100]
        assert load.read_run(str(indexed)).verified["outdated"] is True
    found = verdict_of(indexed)
    assert found["failure"]["code"] == "results_differ"
    assert [(entry["file"], entry["field"]) for entry in found["findings"]] == [("index.sqlite", IDS[0])]
    (indexed / "index.sqlite").unlink()
    assert (verdict_of(indexed)["verdict"], shown_iops(indexed)) == ("follows", [honest])


def test_bins_that_were_edited_in_place_are_added_up_anew(indexed):
    before = load.read_run(str(indexed)).results
    with sqlite3.connect(indexed / "index.sqlite") as database:
        assert database.execute("UPDATE sums SET points = points + 7").rowcount > 0
    database.close()
    after = load.read_run(str(indexed)).results
    assert [one.get("total", {}).get("histogram", {}).get("points") for one in after] == [
        one.get("total", {}).get("histogram", {}).get("points") for one in before
    ]


def reasons(run: Path) -> dict:
    return {entry["file"]: entry["reason"] for entry in load.read_run(str(run)).damaged}


def test_a_report_tells_what_the_ledger_does_not_cover(indexed):
    assert reasons(indexed) == {}
    path = indexed / "points" / IDS[0] / "result.json"
    before = path.read_bytes()
    path.write_bytes(before.replace(b'"wall_s": 1.375', b'"wall_s": 9.375'))
    assert path.read_bytes() != before
    assert reasons(indexed) == {f"points/{IDS[0]}/result.json": "it was changed since it was written, by the ledger"}
    path.write_bytes(before)
    shutil.copytree(indexed / "points" / IDS[0], indexed / "points" / "more")
    assert reasons(indexed)["points/more/result.json"] == "the ledger does not know it"
    shutil.rmtree(indexed / "points" / "more")
    shutil.rmtree(indexed / "points" / IDS[1])
    assert reasons(indexed) == {f"points/{IDS[1]}/result.json": "it is missing, by the ledger"}
    assert verdict_of(indexed)["verdict"] is not None and verdict_of(indexed)["failure"]["code"] == "results_differ"


def test_a_run_in_the_folder_of_another_name_is_told(indexed):
    other = indexed.with_name("second")
    shutil.move(indexed, other)
    assert reasons(other)["run.json"] == "its folder has another name"
    found = verdict_of(other)
    entry = next(entry for entry in found["findings"] if entry["file"] == "run.json")
    assert (found["verdict"], entry["found"], entry["follows"]) == ("differs", "first", "second")


@pytest.mark.parametrize(
    "line", [b"7", b'"x"', b"{}", b'{"number": "x"}', b"\xff\xfe", b"[" * 5000, b'{"run": "first", "files": 7}']
)
def test_a_foreign_line_is_named_and_stops_nothing(run, line):
    path = run.parent / "ledger.jsonl"
    path.write_bytes(path.read_bytes() + line + b"\n")
    assert any("ledger.jsonl" in entry["file"] for entry in findings(run))
    assert ledger.claimed(ledger.read(str(run.parent))[0], "target01") == ""
    ledger.append(str(run.parent), "removed")
    assert lines(run)[-2] == line + b"\n" and json.loads(lines(run)[-1])["event"] == "removed"


def findings(run: Path) -> list:
    return ledger.against(str(run), run_folder.ledger_files(str(run)))[1]


def lines(run: Path) -> list:
    return (run.parent / "ledger.jsonl").read_bytes().splitlines(keepends=True)


def rewritten(run: Path, content: list) -> list:
    """The findings with these lines in the place of those that are there."""
    path = run.parent / "ledger.jsonl"
    before = path.read_bytes()
    path.write_bytes(b"".join(content))
    try:
        return findings(run)
    finally:
        path.write_bytes(before)


def test_what_happened_stands_there_in_order(run):
    told = [json.loads(line) for line in lines(run)]
    assert [line["event"] for line in told if line["event"] != "noted"] == [
        "asked",
        "started",
        "collected",
        "collected",
    ]
    assert [line["number"] for line in told] == list(range(1, len(told) + 1))
    collected = {line["point"]: line for line in told if line["event"] == "collected"}
    assert {name: (line["status"], line.get("failures")) for name, line in collected.items()} == {
        IDS[0]: ("measured", None),
        IDS[1]: ("failed", ["engine_exit"]),
    }
    names = {"result.json", "meta.json", "point.json", "fio.json", "job.fio"}
    assert set(collected[IDS[0]]["files"]) == {f"points/{IDS[0]}/{name}" for name in names}
    assert (findings(run), verify.verify(str(run))["ledger"], verify.verify(str(run))["verdict"]) == (
        [],
        "holds",
        "follows",
    )


def test_every_line_that_is_changed_or_removed_or_put_in_is_found(run):
    whole = lines(run)
    assert len(whole) > 8
    assert rewritten(run, whole) == []
    for place, line in enumerate(whole):
        assert rewritten(run, whole[:place] + whole[place + 1 :]), f"without line {place + 1}"
        assert rewritten(run, whole[: place + 1] + whole[place:]), f"line {place + 1} twice"
        assert rewritten(run, [*whole[:place], b"{}\n", *whole[place:]]), f"another before line {place + 1}"
        for byte in range(0, len(line) - 1, 7):
            other = line[:byte] + bytes([line[byte] ^ 1]) + line[byte + 1 :]
            assert rewritten(run, [*whole[:place], other, *whole[place + 1 :]]), (place, byte)
        if place:
            assert rewritten(run, [*whole[: place - 1], whole[place], whole[place - 1], *whole[place + 1 :]])
    # However many of the last ones.
    for kept in range(len(whole)):
        assert rewritten(run, whole[:kept]), kept


def test_a_ledger_that_went_on_after_lines_were_removed_tells_it(run):
    path = run.parent / "ledger.jsonl"
    path.write_bytes(b"".join(lines(run)[:-2]))
    ledger.append(str(run.parent), "built")
    reasons = {finding["reason"] for finding in findings(run)}
    assert "lines before it were gone when it was written" in reasons


@pytest.mark.parametrize("full", ["ledger.jsonl", "ledger.head"])
def test_lines_that_a_full_disk_did_not_keep_are_not_there_and_break_nothing(run, monkeypatch, full):
    """Of a full file system a line may still find room that the head beside it does not, or a part of a line."""

    def head(*_given):
        raise OSError(errno.ENOSPC, "No space left on device")

    def line(number, content):
        if room:
            return write(number, content[: room.pop()])
        raise OSError(errno.ENOSPC, "No space left on device")

    whole, write = lines(run), os.write
    with monkeypatch.context() as patch:
        if full == "ledger.head":
            patch.setattr(ledger, "write_json", head)
        else:
            patch.setattr(ledger.os, "write", line)
        for left in (20, 7):
            room = [left]
            with pytest.raises(OSError, match="No space"):
                ledger.append(str(run.parent), "fault", host="target01")
    assert lines(run) == whole
    ledger.append(str(run.parent), "built")
    assert len(lines(run)) == len(whole) + 1
    assert findings(run) == []


def test_every_file_of_the_run_that_is_not_as_it_was_written_is_found(run):
    names = run_folder.ledger_files(str(run))
    for name in (
        "run.json",
        "layers.json",
        "prepared.json",
        "hosts/target01.json",
        "added/observer.esx01.json",
        "preparation/fill-backing-bench/job.fio",
    ):
        assert name in names
    for name in names:
        path = run / name
        before = path.read_bytes()
        path.write_bytes(before + b" ")
        assert [finding["file"] for finding in findings(run)] == [name]
        path.unlink()
        assert [finding["reason"] for finding in findings(run)] == ["it is missing, by the ledger"]
        path.write_bytes(before)
    (run / "points" / "made-up").mkdir()
    (run / "points" / "made-up" / "result.json").write_text("{}", encoding="utf-8")
    assert [(one["file"], one["reason"]) for one in findings(run)] == [
        ("points/made-up/result.json", "the ledger does not know it")
    ]


def test_a_result_and_its_host_changed_alike_follow_from_each_other_but_not_from_the_ledger(run):
    """What recomputing alone cannot find: both sides were edited."""
    for name in ("result.json", "meta.json"):
        path = run / "points" / IDS[0] / name
        path.write_text(
            path.read_text(encoding="utf-8").replace("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:06.678Z"),
            encoding="utf-8",
        )
    found = verify.verify(str(run))
    assert (found["verdict"], found["followed"], found["ledger"]) == ("differs", 2, "broken")
    answer = actions.make(verify_results, {"run_dir": str(run)}).run(task_vars={})
    assert answer["failure"]["code"] == "results_differ"


def test_what_is_written_again_as_it_was_is_no_event(run):
    before = lines(run)
    run_folder.write_host(str(run), "target01", {"kernel": {"release": "6.1"}})
    assert lines(run) == before
    run_folder.write_host(str(run), "target01", {"kernel": {"release": "6.2"}})
    assert (len(lines(run)), findings(run)) == (len(before) + 1, [])


def test_a_point_that_is_measured_again_leaves_both_lines_and_the_last_one_counts(run):
    keep(str(run), ASKED, POINTS[:1], {"backing-bench": LAYERS["backing-bench"]}, {IDS[0]: point_files()}, {})
    told = [json.loads(line) for line in lines(run)]
    assert [line["point"] for line in told if line["event"] == "collected"] == [*IDS, IDS[0]]
    assert findings(run) == []


def test_a_line_that_was_cut_off_while_it_was_written_is_no_line(run):
    with (run.parent / "ledger.jsonl").open("ab") as handle:
        handle.write(b'{"number": 99, "eve')
    ledger.append(str(run.parent), "built", layers=["a"])
    assert (findings(run), json.loads(lines(run)[-1])["event"]) == ([], "built")


def test_a_controller_that_died_between_line_and_head_lost_nothing(run):
    head = run.parent / "ledger.head"
    before = head.read_bytes()
    ledger.append(str(run.parent), "built")
    head.write_bytes(before)
    assert findings(run) == []
    ledger.append(str(run.parent), "removed")
    assert findings(run) == []


def test_a_line_is_on_the_disk_before_the_files_that_it_tells_of(run, monkeypatch):
    synced: list = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))

    def refused(path, *_rest, **_more):
        assert synced == [str(run.parent / "ledger.jsonl")]
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(run_folder, "write_whole", refused)
    with pytest.raises(Exception, match="No space left"):
        run_folder.add_answers(str(run), {"a": 1})
    monkeypatch.undo()
    assert [finding["file"] for finding in findings(run)] == ["search.json"]
    run_folder.add_answers(str(run), {"a": 1})
    assert findings(run) == []


def test_lines_of_many_processes_at_once_are_one_chain(tmp_path):
    def write(by: str) -> None:
        for number in range(20):
            ledger.append(str(tmp_path), "noted", by=by, size="x" * 5000 * number)

    fork = multiprocessing.get_context("fork")
    running = [fork.Process(target=write, args=(str(one),)) for one in range(4)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0] * 4
    found, wrong = ledger.read(str(tmp_path))
    assert (len(found), wrong) == (80, [])
    assert [[line["by"] for line in found].count(str(one)) for one in range(4)] == [20] * 4


@pytest.mark.parametrize("content", [b"", b"\n", b"[]\n", b"[" * 5000 + b"\n", b'{"number": "x"}\n', b"\xff\n"])
def test_a_damaged_ledger_is_told_and_written_on(run, content):
    (run.parent / "ledger.jsonl").write_bytes(content)
    assert findings(run)
    ledger.append(str(run.parent), "built")
    assert findings(run)
    (run.parent / "ledger.head").write_bytes(b"no JSON")
    assert findings(run)
    ledger.append(str(run.parent), "built")


def test_a_strangers_ledger_leads_nowhere(run):
    """Neither is opened: reading them would never end."""
    (run / "pipe").symlink_to("/dev/zero")
    for name in ("../../../../../../dev/zero", "/dev/zero", "pipe"):
        ledger.append(str(run.parent), "noted", run="first", files={name: "0" * 64})
    assert [one["file"] for one in findings(run)] == ["../../../../../../dev/zero", "/dev/zero", "pipe"]
    path = run / "points" / IDS[0] / "series.json"
    path.symlink_to("/dev/zero")
    assert verify.verify(str(run))["verdict"] == "differs"


def test_a_run_that_was_copied_without_its_ledger_is_verified_all_the_same(run, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    run.rename(tmp_path / "elsewhere" / "first")
    found = verify.verify(str(tmp_path / "elsewhere" / "first"))
    assert (found["verdict"], found["ledger"]) == ("follows", "silent")
    assert "the ledger has nothing about this run" in verify.sentence(found)
