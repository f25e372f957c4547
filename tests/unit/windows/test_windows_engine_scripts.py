# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts that run an engine on a Windows host: that they and those who call and stand in for them mean the same, and what they must not do."""

from __future__ import annotations

import inspect
import re

import pytest
from test_windows_scripts import WHOLE, commands, declared
from world import Host

TEXTS = WHOLE
KINDS = {
    "string": str,
    "string[]": list,
    "int": int,
    "int64": int,
    "int64[]": list,
    "uint32": int,
    "uint64": int,
    "bool": bool,
    "char": str,
}


@pytest.mark.parametrize("name", [name for name in TEXTS if hasattr(Host, f"script_{name}")])
def test_stand_in_takes_the_parameters_that_the_script_declares(name):
    taken = inspect.signature(getattr(Host, f"script_{name}")).parameters
    assert list(taken)[1:] == list(declared(TEXTS[name])) or set(list(taken)[1:]) - set(declared(TEXTS[name])) == {
        "Chap"
    }
    for parameter, kind in declared(TEXTS[name]).items():
        if kind != "pscredential":
            assert taken[parameter].annotation == KINDS[kind].__name__


def test_every_script_of_an_engine_has_a_stand_in():
    engines = {name for name in TEXTS if name.startswith("engine_")} | {"file_read"}
    assert {name for name in engines if not hasattr(Host, f"script_{name}")} == {"engine_run"}


def test_runner_reads_the_plan_that_is_written_for_it():
    written = re.search(r"^\$plan = @\{ (.*) \}$", TEXTS["engine_start"], re.M)[1]
    keys = {part.partition(" = ")[0] for part in written.split("; ")}
    assert set(re.findall(r"\$plan\.(\w+)", TEXTS["engine_run"])) == keys
    assert set(re.findall(r"\$plan\.(\w+)", TEXTS["engine_remove"])) < keys


def test_every_record_that_the_runner_makes_is_read_by_what_removes_a_run():
    for record in ("process", "link", "licence", "ended"):
        assert f"Write-Record -Name {record}.json" in TEXTS["engine_run"]
        assert f"$records['{record}']" in TEXTS["engine_remove"]
    assert TEXTS["engine_run"].rstrip().endswith("Write-Record -Name ended.json -Values $ended\n}")


def test_task_measures_at_normal_priority_and_ends_after_its_engine():
    text = TEXTS["engine_start"]
    assert "-Priority 4 -ExecutionTimeLimit (New-TimeSpan -Seconds ($LimitS + 300))" in text
    assert "RestartCount" not in text
    assert [name for name, _parameters in commands(text) if name == "register-scheduledtask"] == [
        "register-scheduledtask"
    ]


def test_run_that_starts_or_ends_between_two_looks_is_not_taken_for_lost():
    text = TEXTS["engine_status"]
    assert (
        text.index("Get-ScheduledTaskInfo")
        < text.index("Get-ScheduledTask ")
        < text.index("Test-Path -LiteralPath $record")
    )


def test_folder_stays_until_the_licence_key_could_be_put_back():
    text = TEXTS["engine_remove"]
    assert text.index("Test-UserHive -Hive $hive)) { throw") < text.index("Remove-Item -LiteralPath $Folder")


def test_nothing_is_ended_by_name():
    for name, text in TEXTS.items():
        assert not re.search(r"taskkill|Stop-Process -Name|Get-Process", text, re.I), name
    for name in ("engine_run", "engine_remove"):
        assert [parameters for command, parameters in commands(TEXTS[name]) if command == "stop-process"] == [
            ["id", "force", "erroraction"]
        ]


def test_exit_code_is_kept_and_output_goes_to_files():
    text = TEXTS["engine_run"]
    order = [
        "$run.ticks = [DateTime]::UtcNow.Ticks",
        "Start-Process",
        "-Name Handle",
        "Write-Record -Name process.json",
        "-Name ExitCode",
    ]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    # What a process that has ended does not say costs nothing else: each property is asked for by the function that goes on without it.
    assert set(re.findall(r"Get-Fact -Process \$run\.process -Name (\w+)", text)) == {
        "Handle",
        "StartTime",
        "ExitCode",
        "ExitTime",
    }
    assert set(re.findall(r"\$run\.process\.(\w+)", text)) == {"Id", "WaitForExit"}
    (parameters,) = [parameters for name, parameters in commands(text) if name == "start-process"]
    assert {"redirectstandardoutput", "redirectstandarderror", "workingdirectory", "passthru"} < set(parameters)
    assert "wait" not in parameters
