# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bench of tests/powershell itself, without a PowerShell: what it says of an answer, and of a program that does not come back."""

from __future__ import annotations

import copy
import os
import re
import sys
import threading

import places
import pytest

sys.path.insert(0, str(places.TESTS / "powershell"))

import bench
import mutate
from cases import Case, at, call

CASE = Case(
    "file_remove",
    "a case",
    {"Path": at("a")},
    [call("Read-FolderRights", Path=at("run")), call("Stop-Process", Id=[7, 8], Force=True)],
    result={"left": 3},
)


def answer(folder: str) -> dict:
    """What a PowerShell answers when all goes as the case expects. The folders above the case's own are asked about, too."""
    return {
        "failed": False,
        "error": None,
        "changed": True,
        "result": {"left": 3},
        "output": [],
        "registry": {},
        "calls": [
            {"name": "Read-FolderRights", "parameters": {"Path": os.path.dirname(folder)}},
            {"name": "Read-FolderRights", "parameters": {"Path": os.path.join(folder, "run")}},
            {"name": "Stop-Process", "parameters": {"Id": [7, 8], "Force": True}},
        ],
    }


def differences(folder, change=None) -> list:
    given = copy.deepcopy(answer(str(folder)))
    if change:
        change(given)
    return bench.differences(CASE, given, str(folder))


@pytest.mark.parametrize(
    "change",
    [
        lambda given: given["calls"][2]["parameters"].pop("Force"),
        lambda given: given["calls"][1]["parameters"].pop("Path"),
        lambda given: given["calls"][0]["parameters"].pop("Path"),
        lambda given: given["calls"][0]["parameters"].update(Path=["/", "/tmp"]),
        lambda given: given["calls"][2]["parameters"].update(Confirm=False),
        lambda given: given["calls"].append(given["calls"][2]),
        lambda given: given["calls"].pop(1),
        lambda given: given["calls"].reverse(),
        lambda given: given.update(result={}),
        lambda given: given.update(failed=True, error="x"),
        lambda given: given.update(registry={"x": {}}),
        lambda given: given.update(output=["x"]),
    ],
    ids=[
        "missing",
        "no path",
        "no path above",
        "paths",
        "additional",
        "repeated",
        "left out",
        "order",
        "result",
        "error",
        "registry",
        "output",
    ],
)
def test_every_other_answer_is_a_difference(tmp_path, change):
    assert differences(tmp_path) == []
    assert len(differences(tmp_path, change)) >= 1


def test_a_file_that_is_left_is_a_difference(tmp_path):
    (tmp_path / "left").write_text("x", encoding="utf-8")
    assert differences(tmp_path) == ["file left: is there"]


def test_a_shell_that_does_not_come_back_is_ended_without_a_traceback(tmp_path, monkeypatch):
    shell = tmp_path / "pwsh"
    shell.write_text(
        '#!/usr/bin/env python3\nimport time\nprint(\'{"name": "0"}\', flush=True)\ntime.sleep(600)\n', encoding="utf-8"
    )
    shell.chmod(0o755)
    tracebacks: list = []
    monkeypatch.setattr(threading, "excepthook", tracebacks.append)
    monkeypatch.setattr(bench, "LIMIT_S", 2.0)
    threads = threading.active_count()
    answers = bench.Bench(str(shell))._batch(tmp_path)
    assert answers == [{"name": "0"}, {"bench_error": "it did not come back within 2 s"}]
    assert tracebacks == [] and threading.active_count() == threads


def test_what_needs_no_case_is_still_there():
    """A pattern that no line has any more is to be deleted."""
    folder = bench.WINDOWS / "scripts"
    for file, pattern in mutate.NEEDS_NO_CASE:
        mutants = mutate.mutants((folder / f"{file}.ps1").read_text(encoding="utf-8"))
        assert any(re.search(pattern, what) for what, _text in mutants), (file, pattern)
    assert mutate.needs_no_case("aim_list", "7: $found = Get-Command | Select-Object -First 1  [1 -> 2]")
    assert not mutate.needs_no_case("engine_run", "19: $run = @{ linked = $false }  [$false -> $true]")
    assert not mutate.needs_no_case("aim_run", "7: $found = Get-Command | Select-Object -First 1  [1 -> 2]")
