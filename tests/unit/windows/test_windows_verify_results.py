# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of each engine of a Windows host (a stand-in): verify_results finds every single edit of their results."""

from __future__ import annotations

import json
import sys

import edits
import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import verify
from test_windows_benchmark import DISKSPD, FIO, IOMETER, Bench, Clock, windows_runner


@pytest.mark.parametrize("engine", ["fio", "diskspd", "iometer"])
def test_every_single_edit_of_a_result_is_found(tmp_path, monkeypatch, engine):
    clock = Clock()
    monkeypatch.setattr(windows_runner, "time", clock)
    monkeypatch.setattr(sys.modules["engines"], "time", clock)
    program = {"fio": FIO, "diskspd": DISKSPD, "iometer": IOMETER}[engine]
    found = Bench(tmp_path).run(engine=engine, windows={"program": program}, repetitions=2)
    assert not found.get("failed"), found
    run = tmp_path / "results" / "lab" / "one"
    # The ledger would find every edit by itself.
    for path in run.parent.glob("ledger.*"):
        path.unlink()
    whole = verify.verify(str(run))
    assert (whole["verdict"], whole["followed"], whole["findings"]) == ("follows", whole["points"], [])
    path = run / "points" / found["points"][0]["point_id"] / "result.json"
    text = path.read_text(encoding="utf-8")
    # The other points are not looked at for each edit.
    for other in (run / "points").iterdir():
        if other != path.parent:
            other.rename(tmp_path / other.name)
    for field, edited in edits.edits(json.loads(text)):
        path.write_text(json.dumps(edited), encoding="utf-8")
        assert verify.verify(str(run))["findings"], field
