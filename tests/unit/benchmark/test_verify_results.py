# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run as benchmark keeps it, in which one thing is edited at a time: verify_results names it. Windows' engines: tests/unit/windows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import actions
import edits
import pytest
from ansible_collections.storlab.testbed.plugins.action import report, verify_results
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark.keep import keep
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import run_folder, verify
from ansible_collections.storlab.testbed.plugins.plugin_utils.store.archive import read_point
from test_engine_action import FIXTURES, LAYERS, plan, point_files
from unchanged import unchanged

ASKED = {"engine": "fio", "testbed_id": "embedded", "run_id": "first"}
POINTS = [
    point
    for point in plan(workload={"read_percent": 50, "runtime_s": 1, "ramp_s": 0}, repetitions=2, run_id="first")[
        "points"
    ]
    if point["layer"] == "backing-bench"
]
IDS = [point["point_id"] for point in POINTS]
# All that a supervisor may note, with values that tell each other apart.
NOTED = {
    "finished_utc": "2026-01-02T03:04:09.1Z",
    "wall_s": 1.375,
    "flags": ["not_filled"],
    "overridden": ["device_signature"],
    "preparation": {"filled": True, "warmup_s": 2, "page_cache": "not_used"},
    "prepared": {"utc": "2026-01-02T03:03:00Z", "instance": "boot-7"},
    "counters": {
        "interval_s": 0.75,
        "cpu": {"host_busy_s": 0.5, "host_busy_percent": 33.25, "host_steal_percent": 1.5, "cores": 2, "mhz": 2596},
        "device": {"name": "ram0", "read": {"ios": 31, "bytes": 126976}, "busy_percent": 41.5},
        "interrupts": 1234,
    },
    "device_seen": {
        "least": {"read": {"ios": 11, "bytes": 45056}, "write": {"ios": 5, "bytes": 20480}},
        "most": {"read": {"ios": 999999, "bytes": 1 << 40}, "write": {"ios": 999998, "bytes": 1 << 39}},
        "ios_comparable": True,
    },
}


@pytest.fixture
def run(tmp_path) -> Path:
    folder = tmp_path / "results" / "embedded" / "first"
    run_folder.add_request(str(folder), {"testbed_id": "embedded", "run_id": "first"}, {}, "target01")
    series = b'{"interval_s": 1, "columns": ["t_s"], "rows": [[1]]}'
    files = {
        IDS[0]: {**point_files(**NOTED), "series.json": series},
        IDS[1]: point_files(exit_code=1, failures=[{"code": "fill_failed", "message": "The disk is full."}]),
    }
    keep(str(folder), ASKED, POINTS, {"backing-bench": LAYERS["backing-bench"]}, files, {})
    # The ledger would find every edit by itself; test_ledger.py is about that.
    for path in folder.parent.glob("ledger.*"):
        path.unlink()
    return folder


def verdict(run: Path, check: bool = False) -> dict:
    return actions.make(verify_results, {"run_dir": str(run)}, check=check).run(task_vars={})


def edited(path: Path, content: bytes) -> list:
    """The findings with another content of this file."""
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        return verify.verify(str(path.parents[2]))["findings"]
    finally:
        path.write_bytes(before)


def test_a_run_as_it_was_kept_follows_from_its_files(run):
    found = verdict(run)
    assert (found.get("failed"), found["verdict"], found["points"], found["findings"]) == (None, "follows", 2, [])
    kept = json.loads((run / "verified.json").read_text(encoding="utf-8"))
    assert (found["changed"], kept["verdict"], kept["followed"]) == (True, "follows", 2)
    with unchanged(run):
        assert verdict(run)["changed"] is False


def test_in_check_mode_no_verdict_is_kept(run):
    with unchanged(run):
        assert verdict(run, check=True)["changed"] is True


@pytest.mark.parametrize("point", IDS)
def test_every_single_edit_of_a_result_is_found_and_named(run, point, monkeypatch):
    made = {}

    def once(told, *rest):
        # The files that a result is made of stay the same.
        if told["point_id"] not in made:
            made[told["point_id"]] = read_point(told, *rest)
        return made[told["point_id"]]

    monkeypatch.setattr(verify, "read_point", once)
    path = run / "points" / point / "result.json"
    result, count = json.loads(path.read_text(encoding="utf-8")), 0
    for field, other in edits.edits(result):
        findings = edited(path, json.dumps(other).encode())
        assert findings, field
        assert all(finding["file"].startswith(f"points/{point}/") for finding in findings)
        named = [finding["field"] for finding in findings if "field" in finding]
        # Where the file is no result any more, or names a file that is not there, that is what is told.
        assert not named or any(
            one.startswith(name) or name.startswith(one)
            for name in named
            for one in (field, field.rpartition("[")[0] or field)
        ), (field, named)
        count += 1
    # Each leaf twice or once, each key away, one more in each mapping and list.
    assert count > 2 * len(list(edits.leaves(result)))


@pytest.mark.parametrize("name", ["fio.json", "job.fio", "series.json"])
def test_every_byte_of_the_files_counts(run, name):
    path = run / "points" / IDS[0] / name
    content = path.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 50)):
        other = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        assert any(finding["file"].endswith(name) for finding in edited(path, other)), place


def test_what_the_host_noted_is_part_of_the_result(run):
    path = run / "points" / IDS[0] / "meta.json"
    noted = json.loads(path.read_text(encoding="utf-8"))
    # No part of a result: which point the host thought it was, and a checksum that was compared on arrival with another one.
    free = ("point_id",)
    for key in noted:
        if key not in free:
            for other in (
                edits.changed(noted[key]) if not isinstance(noted[key], (dict, list)) else [type(noted[key])()]
            ):
                if other != noted[key]:
                    assert edited(path, json.dumps({**noted, key: other}).encode()), key


def test_what_was_to_be_measured_is_part_of_the_result(run):
    path = run / "points" / IDS[0] / "point.json"
    told = json.loads(path.read_text(encoding="utf-8"))
    for field, other in edits.edits(told):
        # Nothing that was added there is used.
        if not field.endswith(".added") and field != "added":
            assert edited(path, json.dumps(other).encode()), field


@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b"null", b'{"point": 1}', b"\xff"])
@pytest.mark.parametrize("name", ["result.json", "point.json", "meta.json", "fio.json"])
def test_damaged_files_are_findings_and_no_traces(run, name, damage):
    assert edited(run / "points" / IDS[0] / name, damage)


def test_missing_files_are_told(run):
    for name in ("fio.json", "meta.json", "result.json"):
        path = run / "points" / IDS[0] / name
        content = path.read_bytes()
        path.unlink()
        assert [finding["file"] for finding in verify.verify(str(run))["findings"]] == [f"points/{IDS[0]}/{name}"]
        path.write_bytes(content)


def test_a_point_in_the_folder_of_another_is_found(run):
    shutil.rmtree(run / "points" / IDS[1])
    (run / "points" / IDS[0]).rename(run / "points" / IDS[1])
    assert "point_id" in {finding.get("field") for finding in verify.verify(str(run))["findings"]}


def test_a_run_of_another_name_is_found(run):
    (run / "run.json").write_text(json.dumps({"testbed_id": "embedded", "run_id": "other"}), encoding="utf-8")
    assert {finding["field"] for finding in verify.verify(str(run))["findings"]} == {"run_id"}


@pytest.mark.parametrize("content", ["[]", "7", '"run_id"', "{"])
def test_a_run_json_of_another_shape_is_none(run, content):
    (run / "run.json").write_text(content, encoding="utf-8")
    assert verify.verify(str(run))["verdict"] == "follows"


def test_the_failure_names_the_first_field_and_what_follows(run):
    path = run / "points" / IDS[0] / "result.json"
    result = json.loads(path.read_text(encoding="utf-8"))
    before, result["total"]["iops"] = result["total"]["iops"], 90000
    path.write_text(json.dumps(result), encoding="utf-8")
    found = verdict(run)
    assert (found["failed"], found["failure"]["code"], found["verdict"]) == (True, "results_differ", "differs")
    assert f"points/{IDS[0]}/result.json, total.iops" in found["msg"]
    assert [(one["found"], one["follows"]) for one in found["findings"]] == [(90000, before)]


def test_what_cannot_be_made_again_is_told_and_is_no_failure(run):
    (run / "points" / IDS[0] / "point.json").unlink()
    found = verdict(run)
    assert (found.get("failed"), found["verdict"], len(found["unproven"])) == (None, "unproven", 1)


def test_no_folder_of_a_run_is_refused(tmp_path):
    with unchanged(tmp_path):
        assert verdict(tmp_path)["failure"]["code"] == "run_missing"


def test_the_report_tells_the_verdict_and_links_to_it(run):
    def html() -> str:
        found = actions.make(report, {"run_dir": str(run), "index": False}).run(task_vars={})
        assert not found.get("failed"), found
        return Path(found["index"]).read_text(encoding="utf-8")

    assert "verified.json" not in html()
    verdict(run)
    page = html()
    assert 'href="../verified.json"' in page
    assert "Every result follows from its raw files; the ledger has nothing about this run." in page
    path = run / "points" / IDS[0] / "result.json"
    path.write_text(
        path.read_text(encoding="utf-8").replace("2026-01-02T03:04:09.1Z", "2026-01-02T03:04:09.2Z"), encoding="utf-8"
    )
    assert "run verify_results again" in html()
    verdict(run)
    assert "1 thing does not." in html()


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"schema": "storlab.verified/1"}', '{"schema": "storlab.verified/1", "verdict": 5}']
)
def test_a_strangers_verdict_of_another_shape_is_none(run, content):
    (run / "verified.json").write_text(content, encoding="utf-8")
    assert verify.kept(str(run)) is None


def test_nothing_of_a_result_is_rounded_away():
    follows = {"a": 1.0, "b": [True, {"c": "x"}], "d": 5}
    assert list(verify.differences({"a": 1, "b": [True, {"c": "x"}], "d": 5.0}, follows)) == []
    assert dict(verify.differences({"a": 1.0 + 1e-11, "b": [1, {"c": "x"}], "d": True}, follows)).keys() == {
        "a",
        "b[0]",
        "d",
    }
    assert FIXTURES.is_dir()
