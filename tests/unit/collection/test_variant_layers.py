# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that measures knows layers that a variant changed on another host.

The role's own tasks of a variant are played, with a stub in the place of the measurement, which writes down what it was given.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
import yaml
from places import ROOT

pytestmark = pytest.mark.ansible

LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
INVENTORY = {"all": {"hosts": {"target": {}, "guest": {}}, "vars": LOCAL}}


def layer(cached: object) -> dict:
    return {
        "name": "backing-e4",
        "kind": "backing",
        "host": "target",
        "path": None,
        "parent": None,
        "purpose": "data",
        "size_bytes": 1048576,
        "identity": {"stamp": "lab/e4"},
        "detail": {"cached": cached},
    }


# {role: (its file of a variant, its variable that the loop sets, the variable with the words of the variant)}
ROLES = {
    "benchmark": ("variant.yml", "__benchmark_variant", "benchmark_variant_vars"),
    "database_load": ("turn.yml", "__database_load_turn", "database_load_variant_vars"),
}


@pytest.fixture(params=sorted(ROLES))
def role(request):
    return request.param


@pytest.fixture
def played(tmp_path, role):
    """played(given) -> what each host knew of the layer in each variant; given: benchmark_layers of the role."""

    def play(given: dict) -> list:
        trace, state = tmp_path / "trace", str(tmp_path / "state")
        file, looped, words = ROLES[role]
        shutil.copy(ROOT / "roles" / role / "tasks" / file, tmp_path)
        publish = {"storlab.testbed.layer": {"layers": [layer(f"{{{{ {words}.cached }}}}")], "state_dir": state}}
        switch = [{**publish, "when": "inventory_hostname == 'target'"}]
        known = "{{ (benchmark_layers or ansible_facts['storlab_layers'])['backing-e4'].detail.cached }}"
        line = f"{{{{ inventory_hostname }}}} {{{{ ({looped}.variant | default({looped})).name }}}} {known}"
        measure = [{"ansible.builtin.shell": f'echo "{line}" >> {trace}', "changed_when": False}]
        variants = [
            {"name": name, "tasks_file": "switch.yml", "vars": {"cached": name == "with"}}
            for name in ("with", "without")
        ]
        turns = variants if role == "benchmark" else [{"round": 1, "variant": variant} for variant in variants]
        tasks = [
            {"storlab.testbed.layer": {"layers": [layer("as built")], "state_dir": state}},
            {
                "ansible.builtin.include_tasks": file,
                "loop": turns,
                "loop_control": {"loop_var": looped},
            },
        ]
        variables = {"benchmark_layers": given, "benchmark_state_dir": state, "database_load_state_dir": state}
        book = [{"hosts": "all", "gather_facts": False, "vars": variables, "tasks": tasks}]
        for name, content in (("switch", switch), ("measure", measure), ("book", book), ("hosts", INVENTORY)):
            (tmp_path / f"{name}.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
        done = subprocess.run(
            ["ansible-playbook", "-i", str(tmp_path / "hosts.yml"), str(tmp_path / "book.yml")],
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return sorted(trace.read_text(encoding="utf-8").splitlines())

    return play


def test_every_host_knows_a_layer_as_the_variant_has_left_it(played):
    assert played({}) == ["guest with True", "guest without False", "target with True", "target without False"]


@pytest.mark.parametrize("role", ["benchmark"], indirect=True)
def test_layers_that_were_given_to_the_role_stay_those(played):
    said = {"backing-e4": layer("given")}
    assert played(said) == ["guest with given", "guest without given", "target with given", "target without given"]
