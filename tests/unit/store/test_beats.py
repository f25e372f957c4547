# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of a run's reference beats: lines are added once and never changed, and what cannot be used is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import beats, ledger, load, run_folder
from fixtures.report import make_fixture

FIRST = {"round": 1, "started_utc": "2026-01-02T03:04:05Z", "null_iops": 1_900_000, "memory_copy_bytes_s": 9_000_000}
SECOND = {**FIRST, "round": 2, "started_utc": "2026-01-02T03:09:05Z", "null_iops": 1_800_000}
NOTE = {"note": "no beat is played here"}


def test_lines_are_added_once_and_the_ledger_knows_the_file(tmp_path):
    folder = tmp_path / "embedded" / "first"
    file = folder / beats.FILE
    run_folder.add_beat(str(folder), "target01", SECOND)
    before = file.read_bytes()
    for host, beat in (("guest01", NOTE), ("target01", FIRST), ("target01", SECOND), ("guest01", NOTE), ("x", {})):
        run_folder.add_beat(str(folder), host, beat)
    assert file.read_bytes().startswith(before) and len(file.read_bytes().splitlines()) == 3
    # By host, in the order of time, however they came.
    assert beats.read(str(folder), json.loads) == (
        [{"host": "guest01", **NOTE}, {"host": "target01", **FIRST}, {"host": "target01", **SECOND}],
        [],
    )
    assert ledger.against(str(folder), run_folder.ledger_files(str(folder))) == ("holds", [])
    file.write_bytes(file.read_bytes().replace(b"1800000", b"1900001"))
    assert [found["file"] for found in ledger.against(str(folder), run_folder.ledger_files(str(folder)))[1]] == [
        beats.FILE
    ]


def test_a_run_without_beats_has_none(tmp_path):
    assert beats.read(str(tmp_path), json.loads) == ([], [])


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        json.dumps(FIRST).encode(),
        *(
            json.dumps({"host": "h", **change}).encode()
            for change in (
                {},
                {**FIRST, "null_iops": 0},
                {**FIRST, "null_iops": "fast"},
                {**FIRST, "memory_copy_bytes_s": True},
                {**FIRST, "round": "one"},
                {**FIRST, "started_utc": 5},
                {"null_iops": 5},
                {"note": ["x"]},
            )
        ),
    ],
)
def test_a_line_that_is_no_beat_is_said_and_the_others_count(tmp_path, line):
    Path(tmp_path, beats.FILE).write_bytes(line + b"\n" + json.dumps({"host": "h", **SECOND}).encode() + b"\n")
    lines, damaged = beats.read(str(tmp_path), json.loads)
    assert lines == [{"host": "h", **SECOND}]
    assert [entry["file"] for entry in damaged] == [beats.FILE] and damaged[0]["reason"].startswith("line 1: ")


def test_a_run_is_read_with_its_beats_and_their_damage(tmp_path):
    folder = make_fixture.write_run(str(tmp_path), 1, 1)
    assert load.read_run(folder).beats == []
    Path(folder, beats.FILE).write_text(json.dumps({"host": "target01", **FIRST}) + "\nnothing\n", encoding="utf-8")
    run = load.read_run(folder)
    assert run.beats == [{"host": "target01", **FIRST}]
    assert [entry["file"] for entry in run.damaged] == [beats.FILE]
