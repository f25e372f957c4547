# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of refusals look at more than the words: a test that hands the code something it could change says that it did not.

What a test hands over are its fixtures: a folder, a host, a simulator. A test that has none, or only patches, calls a function with values; there
is nothing that this function could change, and `pytest.raises(Failure)` is enough.
"""

from __future__ import annotations

import ast

import pytest
from places import ROOT

TESTS = sorted([*(ROOT / "tests" / "unit").rglob("*.py"), *(ROOT / "tests" / "integration").rglob("*.py")])
# Fixtures that are values.
VALUES = {"self", "root", "monkeypatch"}
# Tests of what broke off when it had begun, which is no refusal, and of text that a fixture names. `broken_off` says it in the test itself.
OTHERS = {
    "test_a_cache_that_is_not_clean_in_time_stays_and_says_how_much_is_left",
    "test_a_device_of_other_disks_is_not_taken",
    "test_a_full_disk_fails_the_load_and_is_taken_down",
    "test_a_server_that_does_not_start_is_quoted",
    "test_a_folder_that_somebody_removed_is_no_restart",
    "test_a_foreign_array_beside_ours_stays",
    "test_a_process_that_does_not_end_is_named",
    "test_a_host_that_dies_takes_only_the_point_that_it_was_measuring",
    "test_a_supervisor_that_lives_and_says_nothing_is_not_waited_for_for_ever",
    "test_a_resync_that_takes_too_long_is_a_failure_that_says_how_far_it_is",
    "test_nobody_says_that_a_run_goes_on_which_nobody_can_see",
    "test_what_arrives_damaged_stays_there_too",
    "test_what_cannot_be_kept_stays_on_the_host",
    "test_a_tool_that_fails_is_quoted_with_its_last_words",
    "test_a_tool_that_is_not_there_is_named",
    "test_mmdebstrap_mounts_where_the_host_does_not_see_it",
    "test_what_a_spreadsheet_saved_is_refused",
}
# Modules as a whole against a simulated ESXi: they answer with a failure.
SIMULATED = sorted((ROOT / "tests" / "integration").glob("test_esxi_*_simulated.py"))
# Tests of what broke off there when it had begun, and of what is left then.
BROKEN_OFF = {
    "test_a_line_that_is_lost_leaves_what_is_built_to_the_next_run",
    "test_a_machine_that_is_turned_off_before_its_tools_ran_is_no_installation",
    "test_address_is_waited_for",
    "test_creation_that_was_cut_off_is_made_anew",
    "test_host_that_stays_away_fails_and_the_next_run_joins",
    "test_image_that_is_gone_is_noticed_when_the_machine_is_turned_on",
    "test_machine_that_took_too_long_is_turned_off_when_that_is_wanted",
    "test_question_of_the_host_is_told_and_the_answered_machine_is_joined",
    "test_time_that_is_over_leaves_the_machine_as_it_is_and_can_be_extended",
}
FAILURES = {"Failure", "lio.Failure", "AnsibleFilterError"}


def parameters(function: ast.FunctionDef) -> set:
    """Names that decorators give values to."""
    names: set = set()
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("parametrize"):
            given = ast.literal_eval(decorator.args[0])
            names |= {name.strip() for name in given.split(",")} if isinstance(given, str) else set(given)
    return names


def careless(source: str) -> list:
    """Names of tests that have something which can change, expect a failure, and do not look whether it changed."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef) or not function.name.startswith("test_"):
            continue
        handed = {argument.arg for argument in function.args.args} - parameters(function) - VALUES
        expects = any(
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "pytest.raises"
            and node.args
            and ast.unparse(node.args[0]) in FAILURES
            for node in ast.walk(function)
        )
        if handed and expects and function.name not in OTHERS:
            found.append(function.name)
    return found


def unwatched(source: str) -> list:
    """Names of functions that read the failure of an answer and do not look whether anything changed; `broken` reads what had begun."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef) or function.name == "broken":
            continue
        reads = any(
            isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "'failure'" for node in ast.walk(function)
        )
        calls = {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
        reads = reads or any(call.split(".")[-1] == "broken" for call in calls)
        if reads and not calls & {"unchanged", "Watch"}:
            found.append(function.name)
    return found


def bypasses(source: str) -> list:
    """Lines that make an action without its constructor, or replace what Ansible itself checks."""
    return [
        line.strip()
        for line in source.splitlines()
        if "ActionModule.__new__" in line or ('ActionBase, "run"' in line) or "validate_argument_spec =" in line
    ]


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT / "tests")))
def test_refusals_are_followed_by_a_look_at_what_could_change(path):
    assert careless(path.read_text(encoding="utf-8")) == []


def test_arguments_of_actions_are_checked_as_ansible_does():
    found = {
        str(path.relative_to(ROOT)): bypasses(path.read_text(encoding="utf-8"))
        for path in (ROOT / "tests").rglob("*.py")
        if path.name != "test_refusals.py"
    }
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize("path", SIMULATED, ids=lambda path: path.stem)
def test_what_a_simulated_host_refuses_leaves_it_as_it_was(path):
    assert [name for name in unwatched(path.read_text(encoding="utf-8")) if name not in BROKEN_OFF] == []


def test_an_unwatched_refusal_is_noticed():
    assert unwatched("def refused(self):\n    return self.call()['failure']\n") == ["refused"]
    assert unwatched("def test_it(lab):\n    assert lab.broken() == 'x'\n") == ["test_it"]
    assert unwatched("def refused(self):\n    with unchanged(a):\n        return self.broken()\n") == []
    assert unwatched("def broken(self):\n    return self.call()['failure']\n") == []


def test_a_careless_test_is_noticed():
    body = "    with pytest.raises(Failure):\n        work()\n"
    assert careless(f"def test_it(tmp_path):\n{body}") == ["test_it"]
    assert careless(f"@pytest.mark.parametrize('x', [1])\ndef test_it(host, x):\n{body}") == ["test_it"]
    assert careless(f"@pytest.mark.parametrize(('x', 'y'), [(1, 2)])\ndef test_it(x, y, monkeypatch):\n{body}") == []
    assert careless(f"def test_it():\n{body}") == careless(f"def helper(host):\n{body}") == []
    assert careless("def test_it(tmp_path):\n    with refused(tmp_path):\n        work()\n") == []
    assert bypasses("action = x.ActionModule.__new__(x.ActionModule)\n") != []
