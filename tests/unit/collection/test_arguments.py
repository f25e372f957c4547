# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an action accepts is what ansible-doc says of it: names, types, choices, defaults, and the same below each option."""

from __future__ import annotations

import ast
import copy
import importlib
import json
import subprocess

import pytest
from actions import answer, checked, make
from ansible_collections.storlab.testbed.plugins.module_utils.workload import words
from places import ROOT

PLUGINS = "ansible_collections.storlab.testbed.plugins"
# Their arguments are those of the module that they start, which checks them itself.
OF_THEIR_MODULE = {"host_probe", "lab_image"}
# An option that is the description of the testbed, which plugin_utils/chain checks as a whole.
OF_THE_DESCRIPTION = {"chain": "testbed"}
# Arguments whose words are documented, and checked by their meaning: each value may be a list of values.
OF_WORDS = {"benchmark": ("workload", words.OF)}
# They do their part around a module whose arguments are theirs.
AROUND = {"esxi_counters", "esxi_installation"}
NAMES = sorted(path.stem for path in (ROOT / "plugins" / "action").glob("*.py"))
CHECKED = [name for name in NAMES if name not in OF_THEIR_MODULE]


# Read before any test runs: Ansible looks for the C library with a program when it is imported, and tests start none but those of their recipe.
SPECIFICATIONS = {name: importlib.import_module(f"{PLUGINS}.action.{name}").ActionModule.SPEC for name in CHECKED}


@pytest.fixture(scope="module")
def documented() -> dict:
    """{action: its options} as ansible-doc prints them."""
    done = subprocess.run(
        ["ansible-doc", "--json", "--type", "module", *(f"storlab.testbed.{name}" for name in CHECKED)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    options = {name: found[f"storlab.testbed.{name}"]["doc"]["options"] for name in CHECKED}
    for name, (option, shown) in OF_WORDS.items():
        assert set(options[name][option].pop("suboptions")) == set(shown)
    return options


def differences(spec: dict, options: dict, above: str = "") -> list:
    """Every respect in which a specification and a documentation disagree, in words."""
    found = [
        f"{above}{name} is only {'accepted' if name in spec else 'documented'}" for name in set(spec) ^ set(options)
    ]
    for name in set(spec) & set(options):
        one, other = spec[name], options[name]
        for key, empty in (("type", "str"), ("elements", None), ("required", False), ("default", None)):
            if one.get(key, empty) != other.get(key, empty):
                found.append(f"{above}{name}: {key} is {one.get(key, empty)!r}, documented {other.get(key, empty)!r}")
        if set(one.get("choices") or ()) != set(other.get("choices") or ()):
            found.append(f"{above}{name}: choices are {one.get('choices')!r}, documented {other.get('choices')!r}")
        below = f"{above}{name}."
        found += differences(one.get("options") or {}, other.get("suboptions") or {}, below)
    return sorted(found)


@pytest.mark.parametrize("name", CHECKED)
def test_what_is_accepted_is_documented_and_the_other_way_round(name, documented):
    spec, options, whole = dict(SPECIFICATIONS[name]), dict(documented[name]), OF_THE_DESCRIPTION.get(name)
    if whole:
        assert (spec.pop(whole), options.pop(whole)["type"]) == ({"type": "raw"}, "dict")
    assert differences(spec, options) == []


def own_ways(source: str) -> list:
    """Functions of an action that take a task's arguments as they were given; whoever hands them all on has another check them."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and "_task.args" in ast.unparse(node)
    ]


def test_every_action_takes_its_arguments_checked():
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "plugins" / "action").glob("*.py")}
    found = {name: ways for name, source in sources.items() if (ways := own_ways(source))}
    # _watch: reads how far the module is, in the folder that the task names.
    assert found == {"host_probe": ["run"], "lab_image": ["_watch"]}


def test_arguments_that_are_not_checked_are_noticed():
    assert own_ways(
        "class A:\n    def run(self):\n        return self._task.args['x']\n    def perform(self, params): pass\n"
    ) == ["run"]


def test_what_is_given_around_a_module_is_checked_before_anything_else(tmp_path):
    action = importlib.import_module(f"{PLUGINS}.action.esxi_counters")
    for wrong in ({"state": "recrded"}, {"wait_s": "soon"}, {"naem": "x"}):
        made = make(action, {"run_dir": str(tmp_path), **wrong})
        made._execute_module = None  # whatever would start it fails
        failure = answer(made, {"inventory_hostname": "esxi01"}, tmp_path)["failure"]
        assert failure["code"] == "bad_value"


@pytest.mark.parametrize("name", sorted(AROUND))
def test_what_is_left_out_is_left_to_the_module(name):
    action = importlib.import_module(f"{PLUGINS}.action.{name}")
    assert checked(action, port="443") == {"port": 443}


def test_a_difference_anywhere_is_seen(documented):
    spec = SPECIFICATIONS["benchmark"]
    for change in (
        lambda one: one["prepare"]["options"]["drop_caches"].update(default=False),
        lambda one: one["search"]["options"]["knee"]["options"].pop("refine"),
        lambda one: one["steady_state"]["options"]["metric"]["choices"].remove("iops"),
        lambda one: one["order"].update(type="raw"),
        lambda one: one.update(more={"type": "str"}),
    ):
        other = copy.deepcopy(spec)
        change(other)
        assert len(differences(other, documented["benchmark"])) == 1
