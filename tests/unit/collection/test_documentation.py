# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference manual (ansible-doc) is complete, and its examples are accepted by what they are examples of."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path

import places
import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from test_arguments import CHECKED

ROOT = places.ROOT
MODULES = sorted(path for path in (ROOT / "plugins" / "modules").glob("*.py"))
FILTERS = sorted((ROOT / "plugins" / "filter").glob("*.yml"))


def documented(path: Path) -> dict:
    """The documentation blocks of a module with what its fragments add, read without importing it."""
    blocks = {
        node.targets[0].id: yaml.safe_load(ast.literal_eval(node.value))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assign)
        and getattr(node.targets[0], "id", "") in ("DOCUMENTATION", "EXAMPLES", "RETURN")
    }
    for fragment in blocks["DOCUMENTATION"].get("extends_documentation_fragment", []):
        shared = documented(ROOT / "plugins" / "doc_fragments" / f"{fragment.rsplit('.', 1)[1]}.py")["DOCUMENTATION"]
        blocks["DOCUMENTATION"]["options"] = {**shared["options"], **blocks["DOCUMENTATION"].get("options", {})}
    return blocks


def argument_spec(options: dict) -> dict:
    """An argument specification as the documentation states it."""
    spec = {}
    for name, option in options.items():
        spec[name] = {
            key: option[key]
            for key in ("type", "required", "default", "choices", "elements", "aliases")
            if key in option
        }
        if "suboptions" in option:
            spec[name]["options"] = argument_spec(option["suboptions"])
    return spec


def example_tasks(path: Path):
    for entry in documented(path)["EXAMPLES"]:
        yield from entry.get("tasks", [entry])


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_module_documentation_is_complete(path):
    blocks = documented(path)
    assert set(blocks) == {"DOCUMENTATION", "EXAMPLES", "RETURN"}
    documentation = blocks["DOCUMENTATION"]
    assert documentation["module"] == path.stem
    assert {"check_mode", "diff_mode"} <= set(documentation["attributes"])
    assert documentation["version_added"] and documentation["author"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_examples_are_accepted_by_the_documented_arguments(path):
    name = f"storlab.testbed.{path.stem}"
    options = documented(path)["DOCUMENTATION"].get("options") or {}
    ours = [task for task in example_tasks(path) if name in task]
    assert ours, f"no example uses {name}"
    for task in ours:
        arguments = task[name] or {}
        templated = any("{{" in str(value) for value in arguments.values())
        result = ArgumentSpecValidator(argument_spec(options)).validate(
            {key: value for key, value in arguments.items() if "{{" not in str(value)}
        )
        messages = [message for message in result.error_messages if not (templated and "missing required" in message)]
        assert messages == []
        assert set(arguments) <= set(options)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_module_is_in_the_action_group(path):
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text(encoding="utf-8"))
    assert path.stem in runtime["action_groups"]["testbed"]


@pytest.mark.parametrize("path", [path for path in MODULES if path.stem not in CHECKED], ids=lambda path: path.stem)
def test_implementation_takes_exactly_what_is_documented(path):
    """A module's argument_spec, or the _VALID_ARGS of the action plugin that stands before it; test_arguments.py has the actions with a specification."""
    documented_names = set(documented(path)["DOCUMENTATION"].get("options") or {})
    action = ROOT / "plugins" / "action" / path.name
    accepted = [
        ast.literal_eval(node.value.args[0])
        for node in ast.walk(ast.parse(action.read_text(encoding="utf-8") if action.exists() else ""))
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_VALID_ARGS"
    ]
    if accepted:
        assert set(accepted[0]) == documented_names
        return
    code = path.read_text(encoding="utf-8").split("EXAMPLES")[-1]
    shared = "".join(
        (ROOT / "plugins" / "module_utils" / path).read_text(encoding="utf-8")
        for name, path in (("iscsi_target", "linux/iscsi_target.py"), ("esxi", "esxi/session.py"))
        if f"{name}.SPEC" in code or f"{name}.spec(" in code
    )
    assert [name for name in documented_names if f'"{name}"' not in code + shared] == []


def test_ansible_doc_shows_every_plugin():
    listing = subprocess.run(
        ["ansible-doc", "--json", "--list", "storlab.testbed"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {f"storlab.testbed.{path.stem}" for path in MODULES} <= set(json.loads(listing.stdout))
    for path in FILTERS:
        shown = subprocess.run(
            ["ansible-doc", "--type", "filter", f"storlab.testbed.{path.stem}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "EXAMPLES" in shown.stdout
