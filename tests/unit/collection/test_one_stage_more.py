# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stage more is its file and the shared places that CONTRIBUTING names: its text is carried out on a copy of the collection."""

from __future__ import annotations

import ast
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import write_vars
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import expand
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain.stages import STAGES
from chain_lab import EMBEDDED, ESXI, TWO_LINUX, lab_of
from places import ROOT

SECTION = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Adding a stage\n")[1].split("\n## ")[0]
FILE = "plugins/plugin_utils/chain/stages/pattern.py"
ROLE = """---
argument_specs:
  main:
    options:
      pattern_testbed_id: {type: str, required: true, description: Name of the testbed.}
      pattern_bytes: {type: int, default: 0, description: Length of the pattern.}
"""
# {shared place: (where, the text after which the addition comes)}
ADDITIONS = {
    "plugins/plugin_utils/chain/stages/__init__.py": (
        ("from .nfs_export import NfsExport\n", "from .pattern import Pattern\n"),
        ("    Ramdisk(),\n", "    Pattern(),\n"),
    ),
    "plugins/doc_fragments/testbed.py": (
        (
            "        description: TCP port of the targets.\n        type: int\n        default: 3260\n",
            "      pattern_bytes:\n        description: Length of the pattern.\n        type: int\n        default: 0\n",
        ),
    ),
    "playbooks/build.yml": (
        (
            "      tags: [ramdisk]\n",
            "\n    - name: Patterns\n      ansible.builtin.import_role:\n        name: storlab.testbed.pattern\n"
            "      when: \"'pattern' in testbed_stages\"\n",
        ),
    ),
    "playbooks/teardown.yml": (
        (
            "    ramdisk_state: absent\n  tasks:\n",
            "    - name: Patterns\n      ansible.builtin.import_role:\n        name: storlab.testbed.pattern\n"
            "      when: \"'pattern' in testbed_stages\"\n\n",
        ),
    ),
}
# Run in the copy: everything that the chain makes of a lab with the new word.
LOOK = """
import copy, json
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import built, check, doctor, drawing, expand
from chain_lab import TWO_LINUX, lab_of
import write_vars

def described(size):
    lab = lab_of(TWO_LINUX)
    for own in lab["hosts"].values():
        own["testbed"] = {**own["testbed"], "pattern_bytes": size}
    return lab

made = {}
for size in (512, 640, 8192):
    lab = described(size)
    testbed = expand.expand(lab)
    made[size] = {
        "problems": [problem.sentence() for problem in check.check(lab, testbed)],
        "stages": testbed.hosts["store01"].stages,
        "others": testbed.hosts["client01"].stages,
        "value": testbed.hosts["store01"].variables.get("pattern_bytes"),
        "drawing": drawing.draw(testbed),
        "record": built.record(testbed)["hosts"]["store01"].get("pattern_bytes"),
        "commands": doctor.needs(testbed, "store01")["commands"],
        "package": doctor.PACKAGES.get("xxd"),
    }
    if size == 640:
        before = built.record(expand.expand(described(512)))
        made[size]["changes"] = [problem.why for problem in built.problems(before, testbed, "/built.json")]
made["vars"] = write_vars.current()
print(json.dumps(made))
"""


def copied(folder: Path) -> Path:
    copy = folder / "ansible_collections" / "storlab" / "testbed"
    for part in ("plugins", "roles", "playbooks", "tests/support", "tests/tools", "profiles", "meta"):
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "galaxy.yml", copy)
    return copy


def looked_at(copy: Path) -> dict:
    paths = [copy.parents[2], copy / "tests" / "support", copy / "tests" / "tools"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", LOOK]
    done = subprocess.run(command, env=environment, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def differing(copy: Path) -> set[str]:
    files = [path for path in copy.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    names = [path.relative_to(copy).as_posix() for path in files]
    return {name for name in names if not ((ROOT / name).is_file() and filecmp.cmp(ROOT / name, copy / name, False))}


@pytest.fixture(scope="module")
def one_more(tmp_path_factory) -> tuple[Path, dict]:
    copy = copied(tmp_path_factory.mktemp("collections"))
    (text,) = re.findall(r"```python\n(.*?)```", SECTION, re.S)
    (copy / FILE).write_text(text, encoding="utf-8")
    (copy / "roles" / "pattern" / "meta").mkdir(parents=True)
    (copy / "roles" / "pattern" / "meta" / "argument_specs.yml").write_text(ROLE, encoding="utf-8")
    for place, additions in ADDITIONS.items():
        content = (copy / place).read_text(encoding="utf-8")
        for after, addition in additions:
            assert content.count(after) == 1, (place, after)
            content = content.replace(after, after + addition)
        (copy / place).write_text(content, encoding="utf-8")
    return copy, looked_at(copy)


def test_the_text_names_four_shared_places_and_nothing_else_changes(one_more):
    copy, _made = one_more
    places = set(re.findall(r"^\| `([^`]+)` \|", SECTION, re.M))
    assert places == set(ADDITIONS) and len(places) <= 4
    own = {FILE, "roles/pattern/meta/argument_specs.yml"}
    assert differing(copy) == places | own


def test_it_is_derived_run_drawn_kept_and_needed(one_more):
    made = one_more[1]["512"]
    assert made["problems"] == []
    assert "pattern" in made["stages"] and "pattern" not in made["others"]
    assert made["value"] == made["record"] == 512
    assert any("backing-pattern on store01: pattern of 512 bytes" in line for line in made["drawing"])
    assert "xxd" in made["commands"] and made["package"] == ["xxd", "vim-common"]


def test_its_wrong_value_and_its_changes_are_refused(one_more):
    made = one_more[1]
    assert made["8192"]["problems"] == ["testbed.pattern_bytes is 8192: use at most 4096."]
    assert made["640"]["problems"] == [] and made["640"]["changes"] == ["but the built testbed has 512"]


def test_its_role_gets_its_variable(one_more):
    lines = one_more[1]["vars"].splitlines()
    assert 'pattern_bytes: "{{ __testbed_variables.pattern_bytes }}"' in lines
    assert 'pattern_testbed_id: "{{ testbed_id }}"' in lines


def test_without_the_line_in_the_list_it_is_not_there(tmp_path):
    """The places that are named are needed: a word of the description alone does nothing."""
    copy = copied(tmp_path)
    place = "plugins/doc_fragments/testbed.py"
    after, addition = ADDITIONS[place][0]
    (copy / place).write_text(
        (copy / place).read_text(encoding="utf-8").replace(after, after + addition), encoding="utf-8"
    )
    made = looked_at(copy)["512"]
    assert made["value"] is None and "pattern" not in made["stages"] and made["package"] is None


def test_the_variables_of_roles_are_written_from_the_stages():
    """To renew it: python tests/tools/write_vars.py"""
    assert write_vars.PATH.read_text(encoding="utf-8") == write_vars.current()


@pytest.mark.parametrize("text", [TWO_LINUX, ESXI, EMBEDDED], ids=["linux", "esxi", "embedded"])
def test_a_stage_derives_no_variable_that_it_does_not_name(text):
    named = {name for stage in STAGES for name in stage.variables}
    derived = {name for host in expand.expand(lab_of(text)).hosts.values() for name in host.variables}
    assert derived and derived <= named


def test_no_provider_is_known_by_its_name_in_the_chain():
    """A trait of a provider is said in its own file (FIRST_LUN, SHARES_LUNS, check_targets)."""
    chain = ROOT / "plugins" / "plugin_utils" / "chain"
    compared = {
        value.value
        for path in chain.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare)
        for value in ast.walk(node)
        if isinstance(value, ast.Constant)
    }
    assert "vhdx" in compared and not {"tgt", "lio"} & compared
