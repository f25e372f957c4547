# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PowerShell scripts where there is no PowerShell: each is parsed, and each parameter of each cmdlet is looked up in Microsoft's documentation.

tests/powershell runs them.
"""

from __future__ import annotations

import json
import re

import places
import pytest
import tree_sitter
import tree_sitter_pwsh
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import script_text

WINDOWS = places.ROOT / "plugins" / "plugin_utils" / "windows"
SCRIPTS = sorted((WINDOWS / "scripts").glob("*.ps1"))
PARTS = sorted((WINDOWS / "scripts" / "parts").rglob("*.ps1"))
# Each script as it is sent.
WHOLE = {path.stem: script_text.script(path.stem) for path in SCRIPTS}
CMDLETS = json.loads((places.TESTS / "powershell" / "cmdlets.json").read_text(encoding="utf-8"))["cmdlets"]
DOCUMENTED = {
    name.lower(): {
        spelling.lower()
        for parameter, about in cmdlet["parameters"].items()
        for spelling in (parameter, *about.get("aliases", []))
    }
    for name, cmdlet in CMDLETS.items()
}
# PowerShell's own cmdlets, from the reference of Microsoft.PowerShell.Core, .Management and .Utility and of CimCmdlets; those parameters that are used.
BUILT_IN = {
    "convertfrom-json": {"inputobject"},
    "convertto-json": {"inputobject"},
    "foreach-object": {"process"},
    "get-acl": {"literalpath"},
    "add-type": {"memberdefinition", "name", "namespace", "passthru"},
    "get-childitem": {"literalpath", "force", "directory", "file"},
    "get-ciminstance": {"classname", "filter", "namespace"},
    "get-command": {"name", "commandtype"},
    "get-item": {"literalpath", "force"},
    "move-item": {"literalpath", "destination", "force"},
    "new-item": {"itemtype", "path", "value"},
    "new-object": {"typename", "argumentlist"},
    "new-timespan": {"seconds"},
    "remove-item": {"literalpath", "force", "recurse"},
    "select-object": {"first"},
    "sort-object": {"property"},
    "start-process": {
        "filepath",
        "argumentlist",
        "workingdirectory",
        "redirectstandardoutput",
        "redirectstandarderror",
        "passthru",
    },
    "start-service": {"name"},
    "start-sleep": {"milliseconds"},
    "stop-process": {"id", "force"},
    "stop-service": {"name", "force"},
    "test-path": {"literalpath"},
    "wait-process": {"id", "timeout"},
    "where-object": {"property", "eq", "value", "filterscript"},
}
COMMON = {"erroraction"}
READERS = {"foreach-object", "where-object", "select-object", "test-path", "convertfrom-json", "new-object"}
# What only reads; and what makes, does and undoes one thing that takes more than one cmdlet.
READING = {
    "state",
    "aim_list",
    "engine_host",
    "engine_status",
    "engine_list",
    "file_read",
    "own_look",
    "volume_look",
    "zero_look",
}
LONGER = {
    "own_new",
    "own_remove",
    "file_write",
    "folder_remove",
    "aim_run",
    "folder_private",
    "engine_start",
    "engine_run",
    "engine_remove",
}
# Functions of parts that change nothing.
READING_PARTS = {
    "assert-windowspowershell",
    "open-rawstream",
    "get-text",
    "read-hostvalue",
    "read-productversion",
    "invoke-program",
}
# Where an error means that something is not there, and nothing worse; each was thought about. In the state it could make a disk look blank.
SILENT = {
    "aim_list": {"get-command"},
    "engine_host": {"get-ciminstance", "get-command"},
    "engine_list": {"get-item", "get-scheduledtask"},
    "engine_remove": {"get-scheduledtask", "remove-item", "stop-process", "wait-process"},
    "engine_run": {"stop-process", "wait-process"},
    "engine_start": {"get-scheduledtask"},
    "engine_status": {"get-item", "get-scheduledtask", "get-scheduledtaskinfo"},
    "own_look": {"get-item", "get-volume"},
    "volume_look": {"get-childitem", "get-item", "get-volume"},
}
PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_pwsh.language()))


def walk(node):
    yield node
    for child in node.children:
        yield from walk(child)


def commands(text: str) -> list:
    """[(cmdlet, [parameter])] of a script, in lower case."""
    found = []
    for node in walk(PARSER.parse(text.encode()).root_node):
        # A block of the script's own that it calls has no name.
        if node.type == "command" and not node.text.startswith(b"& $"):
            name = next((child.text.decode().lower() for child in node.children if child.type == "command_name"), "")
            elements = [child for child in node.children if child.type == "command_elements"]
            found.append(
                (
                    name,
                    [
                        part.text.decode().lstrip("-").rstrip(":").lower()
                        for element in elements
                        for part in element.children
                        if part.type == "command_parameter"
                    ],
                )
            )
    return found


def functions(text: str) -> dict:
    """{function: its parameters} of those that a script defines itself, in lower case."""
    found = {}
    for node in walk(PARSER.parse(text.encode()).root_node):
        if node.type == "function_statement":
            name = next(child.text.decode().lower() for child in node.children if child.type == "function_name")
            block = re.search(r"\bparam\((.*)\)$", node.text.decode(), re.M)
            found[name] = {parameter.lower() for parameter in re.findall(r"\$(\w+)", block[1])} if block else set()
    return found


def problems(text: str) -> list:
    """What is wrong with a script; empty when nothing is found."""
    # The parser lets a quote pass that is lost after a parameter; no text of these scripts goes over a line.
    if PARSER.parse(text.encode()).root_node.has_error or any(line.count('"') % 2 for line in text.splitlines()):
        return ["syntax"]
    found, own = [], functions(text)
    for name, parameters in commands(text):
        known = DOCUMENTED.get(name, BUILT_IN.get(name, own.get(name)))
        if known is None:
            found.append(f"unknown cmdlet {name}")
            continue
        found += [f"{name} has no parameter {parameter}" for parameter in parameters if parameter not in known | COMMON]
    return found


def declared(text: str) -> dict:
    """{parameter: type} of a script's param block."""
    block = re.search(r"^param\((.*)\)$", text, re.M)
    return {name: kind for kind, name in re.findall(r"\[([a-z0-9\[\]]+)\]\$(\w+)", block[1])} if block else {}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_parses_and_uses_documented_parameters_only(path):
    assert problems(WHOLE[path.stem]) == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_says_its_name_and_uses_every_parameter_it_takes(path):
    text = path.read_text(encoding="utf-8")
    assert text.splitlines()[0] == f"# storlab: {path.stem}"
    for name in declared(text):
        assert len(re.findall(rf"\${name}\b", text)) > 1, name


@pytest.mark.parametrize(
    "path", [path for path in SCRIPTS if path.stem not in READING | LONGER], ids=lambda path: path.stem
)
def test_writing_script_is_one_cmdlet(path):
    text = path.read_text(encoding="utf-8")
    assert len(commands(text)) == 1
    assert script_text.parts(text) == []


@pytest.mark.parametrize("path", [path for path in SCRIPTS if path.stem in READING], ids=lambda path: path.stem)
def test_reading_script_only_reads_and_runs_in_check_mode(path):
    text = path.read_text(encoding="utf-8")
    called = [name for name, _parameters in commands(text)]
    assert [name for name in called if not name.startswith("get-") and name not in READERS | READING_PARTS] == []
    assert re.findall(r"\[System\.IO\.File(?:Mode|Access)?\]::(\w+)", text) in (
        [],
        ["ReadAllText"],
        ["Open", "Open", "Read"],
    )
    assert "[CmdletBinding(SupportsShouldProcess)]" in text
    assert "$Ansible.Changed = $false" in text
    assert "$Ansible.Result = @{" in text


def test_only_reading_scripts_run_in_check_mode():
    assert {path.stem for path in SCRIPTS if "SupportsShouldProcess" in path.read_text(encoding="utf-8")} == READING


def test_scripts_are_ascii():
    # Windows PowerShell takes a file without a mark for one of the host's own code page.
    assert [path.stem for path in SCRIPTS + PARTS if not path.read_text(encoding="utf-8").isascii()] == []


def test_errors_are_passed_over_only_where_that_was_thought_about():
    silent: dict = {}
    for script, text in WHOLE.items():
        for name, parameters in commands(text):
            if "erroraction" in parameters:
                silent.setdefault(script, set()).add(name)
    assert silent == SILENT


@pytest.mark.parametrize("path", SCRIPTS + PARTS, ids=lambda path: path.stem)
def test_times_are_written_alike_in_every_language(path):
    # Some have another calendar, and others no colon between hours and minutes.
    assert re.findall(r"ToString\('[^']*'\)", path.read_text(encoding="utf-8")) == []


def test_folder_has_no_size():
    """PowerShell says of whatever has no length that it is 1."""
    for path in SCRIPTS + PARTS:
        for line in path.read_text(encoding="utf-8").splitlines():
            if "$_.Length" in line:
                assert "-File" in line or "if ($_.PSIsContainer) { $null }" in line, path.stem


# ---- parts


@pytest.mark.parametrize("path", PARTS, ids=lambda path: path.stem)
def test_part_says_its_name_and_only_makes_functions(path):
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(WINDOWS / "scripts" / "parts").with_suffix("").as_posix()
    assert text.splitlines()[0] == f"# part: {name}"
    assert text.endswith("}\n")
    outside = [line for line in text.splitlines() if line and not line.startswith(("#", " ", "}", "function "))]
    assert outside == (["$licenceKey = 'Software\\iometer.org\\Iometer\\Settings'"] if name == "licence" else [])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_has_the_parts_that_it_uses_and_no_others(path):
    text = path.read_text(encoding="utf-8")
    named = script_text.parts(text)
    made = {part: functions(script_text.read(f"parts/{part}")) for part in named}
    assert all(made.values())
    called = {name for name, _parameters in commands(WHOLE[path.stem])}
    assert [part for part in named if not called & set(made[part])] == []


def test_no_function_is_written_twice():
    made = [name for path in SCRIPTS + PARTS for name in functions(path.read_text(encoding="utf-8"))]
    assert sorted(made) == sorted(set(made))


def test_parts_stand_behind_the_parameters_and_before_the_work():
    lines = WHOLE["engine_remove"].splitlines()
    assert lines[3].startswith("param([string]$Folder")
    assert lines[4] == "# part: stop_engine"
    assert lines.index("# part: windows_only/registry") < lines.index("$left = @()")
    run = WHOLE["engine_run"].splitlines()
    assert run.index("# part: stop_engine") < run.index("$ErrorActionPreference = 'Stop'")


def test_parts_for_windows_alone_can_be_left_out():
    without = script_text.script("engine_remove", windows_only=False)
    assert "function Restore-Licence" in without
    assert "[Microsoft.Win32.Registry]" not in without


def test_what_only_windows_has_is_asked_for_in_its_own_parts_alone():
    only = (
        "[Microsoft.Win32",
        "[System.Security.Principal",
        "[System.Security.AccessControl",
        "DirectorySecurity",
        "Get-Acl",
        "HKLM",
        "VersionInfo",
        "PSEdition",
        "DllImport",
    )
    others = SCRIPTS + [path for path in PARTS if path.parent.name != "windows_only"]
    assert [(path.stem, word) for path in others for word in only if word in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize(
    "path", SCRIPTS + [path for path in PARTS if path.parent.name != "windows_only"], ids=lambda path: path.stem
)
def test_paths_are_joined_by_dotnet(path):
    # A backslash in a text is that of the registry, of a pattern, of a drive's root, or of the folder of all tasks.
    text = re.sub(r"'[^']*'|\$\(\$_\.DriveLetter\):\\", "", path.read_text(encoding="utf-8"))
    assert [line for line in text.splitlines() if "\\" in line and not line.startswith("#")] == []


def test_another_powershell_is_refused_before_anything_is_read_or_made():
    for name in ("state", "engine_host", "engine_start", "folder_private"):
        own = [
            line
            for line in script_text.read(name).splitlines()
            if line and not line.startswith(("#", "[Cmdlet", "param(", "$Ansible.Changed"))
        ]
        assert own[0] == "Assert-WindowsPowerShell"


def test_secrets_come_as_credentials_only():
    for path in SCRIPTS:
        for name, kind in declared(path.read_text(encoding="utf-8")).items():
            assert (kind == "pscredential") == (name == "Chap"), path


# ---- the gate itself


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("Stop-It -Id 1", []),
        ("Stop-It -Number 1", ["stop-it has no parameter number"]),
        ("Stop-Them -Id 1", ["unknown cmdlet stop-them"]),
        ("Write-Output -InputObject 1", ["unknown cmdlet write-output"]),
        ('Stop-It -Id $Folder\\x"', ["syntax"]),
    ],
    ids=["its own", "another parameter", "another function", "not looked up", "a lost quote"],
)
def test_gate_knows_the_functions_of_a_script(call, found):
    assert problems(f"function Stop-It {{\n    param([int]$Id)\n    Stop-Process -Id $Id\n}}\n{call}\n") == found


def mutants(text: str, pattern: str, replacement) -> list:
    return [text[: match.start()] + replacement(match) + text[match.end() :] for match in re.finditer(pattern, text)]


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (
            r"(?<=\s)-(?=[A-Za-z]+Path\b|Name\b|TargetName\b|Number\b|SizeBytes\b|Lun\b|ComputerName\b)",
            lambda match: "-X",
        ),
        (r"(?<!-Name )\b(?:New|Set|Add|Remove|Connect|Get)-(?=[A-Z])", lambda match: f"{match[0]}X"),
    ],
    ids=["a parameter that is not documented", "a cmdlet that is not documented"],
)
def test_gate_finds_every_wrong_name(pattern, replacement):
    tried = [mutant for path in SCRIPTS for mutant in mutants(path.read_text(encoding="utf-8"), pattern, replacement)]
    assert len(tried) > 30
    assert [mutant for mutant in tried if not problems(mutant)] == []


# Inside a text a lost parenthesis or quote is only another text; those are left out.
@pytest.mark.parametrize("character", [r"\{", r"\}", r"(?<!\$)(?<!\$\()\(", r"\)", r"'(?!\")(?!.*'\")", r'"'])
def test_gate_finds_every_lost_character(character):
    tried = [
        mutant
        for path in SCRIPTS
        for mutant in mutants(path.read_text(encoding="utf-8").partition("\n")[2], character, lambda match: "")
    ]
    assert len(tried) > 8
    assert [mutant for mutant in tried if not problems(mutant)] == []
