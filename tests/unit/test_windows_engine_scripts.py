# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts that run an engine on a Windows host: that they and those who call and stand in for them mean the same, and what they must not do."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fake_windows"))

from test_windows_scripts import SCRIPTS, commands, declared
from world import Host

TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in SCRIPTS}
KINDS = {"string": str, "string[]": list, "int": int, "int64": int, "uint32": int, "uint64": int, "bool": bool, "char": str}


@pytest.mark.parametrize("name", [name for name in TEXTS if hasattr(Host, f"script_{name}")])
def test_stand_in_takes_the_parameters_that_the_script_declares(name):
    taken = inspect.signature(getattr(Host, f"script_{name}")).parameters
    assert list(taken)[1:] == list(declared(TEXTS[name])) or set(list(taken)[1:]) - set(declared(TEXTS[name])) == {"Chap"}
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


def test_what_puts_things_back_is_the_same_in_both_places():
    def function(name: str) -> str:
        return re.search(r"^function Stop-Engine \{\n.*?^\}$", TEXTS[name], re.M | re.S)[0]

    assert function("engine_run") == function("engine_remove")
    for record in ("process.json", "link.json", "licence.json", "ended.json"):
        assert f"Write-Record -Name {record}" in TEXTS["engine_run"]
        assert record in TEXTS["engine_remove"]
    assert TEXTS["engine_run"].rstrip().endswith("Write-Record -Name ended.json -Values $ended\n    }\n}")


def test_task_measures_at_normal_priority_and_ends_after_its_engine():
    text = TEXTS["engine_start"]
    assert "-Priority 4 -ExecutionTimeLimit (New-TimeSpan -Seconds ($LimitS + 300))" in text
    assert "RestartCount" not in text
    assert [name for name, _parameters in commands(text) if name == "register-scheduledtask"] == ["register-scheduledtask"]


def test_run_that_starts_or_ends_between_two_looks_is_not_taken_for_lost():
    text = TEXTS["engine_status"]
    assert text.index("Get-ScheduledTaskInfo") < text.index("Get-ScheduledTask ") < text.index("ended.json")


def test_folder_stays_until_the_licence_key_could_be_put_back():
    text = TEXTS["engine_remove"]
    assert text.index("OpenSubKey($was.hive)) { throw") < text.index("Remove-Item -LiteralPath $Folder")


def test_nothing_is_ended_by_name():
    for name, text in TEXTS.items():
        assert not re.search(r"taskkill|Stop-Process -Name|Get-Process", text, re.I), name
    for name in ("engine_run", "engine_remove"):
        assert [parameters for command, parameters in commands(TEXTS[name]) if command == "stop-process"] == [["id", "force", "erroraction"]]


def test_only_administrators_may_change_what_runs():
    text = TEXTS["engine_start"]
    made, first_file = text.index("CreateDirectory($place, $security)"), text.index("WriteAllText")
    for check in ("SetAccessRuleProtection($true, $false)", "GetOwner(", "ReparsePoint", "AreAccessRulesProtected"):
        assert text.index(check) < first_file
    assert text.index("SetAccessRuleProtection") < made
    private = TEXTS["folder_private"].partition("param([string]$Folder)\n")[2]
    assert private in text
    # Well-known numbers of the administrators and of the system, which have other names in other languages.
    assert re.findall(r"'(S-1-[0-9-]+)'", text) == ["S-1-5-32-544", "S-1-5-18"]


def test_exit_code_is_kept_and_output_goes_to_files():
    text = TEXTS["engine_run"]
    assert text.index("Start-Process") < text.index("$process.Handle") < text.index("$process.ExitCode")
    # Neither is there any more when the program has ended at once, and PowerShell does not say so.
    assert text.index("$ticks = [DateTime]::UtcNow.Ticks") < text.index("Start-Process")
    assert "if (-not $process.Handle) { throw" in text
    (parameters,) = [parameters for name, parameters in commands(text) if name == "start-process"]
    assert {"redirectstandardoutput", "redirectstandarderror", "workingdirectory", "passthru"} < set(parameters)
    assert "wait" not in parameters
