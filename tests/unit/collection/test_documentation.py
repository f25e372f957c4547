# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference manual (ansible-doc) is complete, and its examples are accepted by what they are examples of."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
from pathlib import Path

import places
import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from test_arguments import AROUND, CHECKED, PLUGINS, differences

ROOT = places.ROOT
MODULES = sorted(path for path in (ROOT / "plugins" / "modules").glob("*.py"))
BLOCKS = ("DOCUMENTATION", "EXAMPLES", "RETURN")
FILTERS = sorted((ROOT / "plugins" / "filter").glob("*.yml"))


def texts_of(path: Path) -> dict:
    """The texts of YAML in a file, by the name they are assigned to: a module's blocks, or the sections of a fragment."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "").isupper() and is_text(node.value)
    }


def blocks_of(path: Path) -> dict:
    """The same, read."""
    return {name: yaml.safe_load(text) for name, text in texts_of(path).items()}


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def documented(path: Path) -> dict:
    """The documentation blocks of a module with what its fragments add, read without importing it."""
    blocks = {name: value for name, value in blocks_of(path).items() if name in BLOCKS}
    own = blocks["DOCUMENTATION"]
    for fragment in own.get("extends_documentation_fragment", []):
        name, _, section = fragment.removeprefix("storlab.testbed.").partition(".")
        shared = blocks_of(ROOT / "plugins" / "doc_fragments" / f"{name}.py")[section.upper() or "DOCUMENTATION"]
        for part in ("options", "attributes"):
            if part in shared:
                own[part] = {**shared[part], **(own.get(part) or {})}
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
    assert set(blocks) == set(BLOCKS)
    documentation = blocks["DOCUMENTATION"]
    assert documentation["module"] == path.stem
    assert {"check_mode", "diff_mode", "idempotent", "async"} <= set(documentation["attributes"])
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


KINDS = {"str": str, "int": int, "float": (int, float), "bool": bool, "list": list, "dict": dict, "raw": object}


def untold(values: dict, above: str = "") -> list:
    """What of return values a reader does not learn: dicts without keys, values without a sample, samples of another kind."""
    found = []
    for name, value in values.items():
        where = above + name
        of_dicts = value["type"] == "dict" or value.get("elements") == "dict"
        if value["type"] == "list" and "elements" not in value:
            found.append(f"{where}: no elements")
        if not ("contains" in value and of_dicts) and "sample" not in value:
            found.append(f"{where}: no sample")
        if "sample" in value and value["sample"] is not None and not isinstance(value["sample"], KINDS[value["type"]]):
            found.append(f"{where}: the sample is no {value['type']}")
        found += untold(value.get("contains") or {}, f"{where}.")
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_what_a_module_returns_is_shown(path):
    assert untold(documented(path)["RETURN"]) == []


# What many modules return. A fragment brings options and attributes, no return values, so each says it itself, and all say it alike.
SHARED = ("about", "failure", "layers", "steps")
# Where a module has more to say of one of them than the others.
MORE = {
    "failure.code": {
        *("compare", "database_measure", "experiments_index", "import_results", "report"),
        *("results_export", "results_query", "verify_results"),
    },
    **{key: {"cache_tier", "nfs_export", "raid"} for key in ("layers.detail", "layers.parent")},
    "layers.identity": {"cache_tier", "existing_storage", "nfs_export", "raid", "win_existing"},
    "layers.purpose": {"existing_storage", "win_existing"},
    **{key: {"cache_tier", "existing_storage", "raid", "win_existing"} for key in ("layers.path", "layers.size_bytes")},
    "steps.op": {"cache_tier", "database_load", "nfs_export", "raid", "ramdisk"},
    "steps.target": {"cache_tier", "database_load", "existing_storage", "iscsi_target", "nfs_export", "raid"},
}


def told_differently(returns: dict) -> dict:
    """{value: {description: [modules]}} of what is described in several ways. returns: RETURN of each module."""
    told: dict = {}
    for module, values in returns.items():
        for name in set(SHARED) & set(values):
            for key, value in (values[name].get("contains") or {}).items():
                if module not in MORE.get(f"{name}.{key}", ()):
                    told.setdefault(f"{name}.{key}", {}).setdefault(str(value["description"]), []).append(module)
            # One module per platform describes the host, and the others refer to it, in the same words and with the same sample.
            if name == "about" and not module.endswith("_state"):
                whole = json.dumps({**values[name], "returned": None}, sort_keys=True)
                told.setdefault(f"about of {module.partition('_')[0]}", {}).setdefault(whole, []).append(module)
    return {name: texts for name, texts in told.items() if len(texts) > 1}


def test_what_many_modules_return_is_described_in_the_same_words():
    returns = {path.stem: documented(path)["RETURN"] or {} for path in MODULES}
    assert told_differently(returns) == {}
    families = {name: [module for module, values in returns.items() if name in values] for name in SHARED}
    assert {name: len(modules) >= 13 for name, modules in families.items()} == dict.fromkeys(SHARED, True)


def test_other_words_for_the_same_return_value_are_noticed():
    about = {"description": "What it is.", "contains": {"version": {"description": "Its version."}}}
    other = {"description": "What it is.", "contains": {"version": {"description": "The version."}}}
    assert told_differently({"win_a": {"about": about}, "win_b": {"about": dict(about, returned="always")}}) == {}
    assert set(told_differently({"win_a": {"about": about}, "win_b": {"about": other}})) == {
        "about.version",
        "about of win",
    }
    assert told_differently({"raid": {"steps": {"contains": {"op": {"description": "V(create)."}}}}}) == {}


def test_what_is_not_shown_is_noticed():
    values = {
        "a": {"type": "dict", "contains": {"b": {"type": "str"}}},
        "c": {"type": "int", "sample": "7"},
        "d": {"type": "list", "sample": []},
    }
    assert untold(values) == ["a.b: no sample", "c: the sample is no int", "d: no elements"]


class Taken(Exception):
    """Stands in for a running module: carries what it would have been given."""


@pytest.mark.parametrize(
    "path", [path for path in MODULES if path.stem not in CHECKED or path.stem in AROUND], ids=lambda path: path.stem
)
def test_a_module_takes_exactly_what_is_documented(path, monkeypatch):
    """Names, types, choices and defaults, the same below each option; test_arguments.py has the actions with a specification."""
    module = importlib.import_module(f"{PLUGINS}.modules.{path.stem}")

    def take(**keywords):
        raise Taken(keywords["argument_spec"])

    monkeypatch.setattr(module, "AnsibleModule", take)
    with pytest.raises(Taken) as taken:
        module.main()
    assert differences(taken.value.args[0], documented(path)["DOCUMENTATION"].get("options") or {}) == []


def repeated_keys(text: str) -> list:
    """Keys that one mapping of a YAML text has twice: the last one counts, and whoever reads the documentation is warned."""
    found, waiting = [], [yaml.compose(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _value in node.value if isinstance(key, yaml.ScalarNode)]
            found += [key for key in dict.fromkeys(keys) if keys.count(key) > 1]
            waiting += [value for _key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
    return found


def test_no_key_is_documented_twice():
    paths = [*MODULES, *(ROOT / "plugins" / "doc_fragments").glob("*.py")]
    repeated = {path.stem: [key for text in texts_of(path).values() for key in repeated_keys(text)] for path in paths}
    assert {name: keys for name, keys in repeated.items() if keys} == {}


def test_a_key_that_stands_twice_is_noticed():
    assert repeated_keys("a: {b: 1, c: [{d: 1, d: 2}], b: 3}\ne: {b: 1}\n") == ["b", "d"]


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
