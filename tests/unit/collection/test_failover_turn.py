# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The setting that the initiator has in each turn of failover, also after a turn with another one.

The tasks of a turn are played with stubs in the place of the role iscsi_initiator and the module path_event, so no host is reached.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from places import ROOT

pytestmark = pytest.mark.ansible

DESCRIBED_S = 77
ROLE = [
    {
        "name": "Note the setting",
        "ansible.builtin.lineinfile": {
            "path": "{{ trace }}",
            "create": True,
            "line": "{{ __benchmark_variant.name }} {{ iscsi_initiator_replacement_timeout_s }}",
        },
    }
]
MODULE = """from ansible.module_utils.basic import AnsibleModule
words = ("testbed_id", "variant", "repetition", "kind", "target", "after_s", "for_s", "deadline_s")
AnsibleModule(argument_spec={word: {} for word in words}).exit_json(changed=True)
"""


def written(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def play(folder: Path, settings: dict) -> list:
    """What the initiator was set to, turn after turn."""
    collection, trace = folder / "collections/ansible_collections/storlab/testbed", folder / "trace"
    written(collection / "galaxy.yml", "namespace: storlab\nname: testbed\nversion: 1.0.0\n")
    written(collection / "roles/iscsi_initiator/tasks/main.yml", yaml.safe_dump(ROLE))
    written(collection / "plugins/modules/path_event.py", MODULE)
    turns = [
        {
            "ansible.builtin.include_tasks": str(ROOT / "playbooks/tasks/failover_turn.yml"),
            "vars": {
                "__benchmark_variant": {"name": name},
                "benchmark_variant_vars": {"setting": setting, "event": {"kind": "target_off", "for_s": 3}},
            },
        }
        for name, setting in settings.items()
    ]
    known = {
        "ansible_python_interpreter": sys.executable,
        "testbed_id": "t7",
        "trace": str(trace),
        "__benchmark_round": 1,
        "__failover": {"target": "iqn.t", "target_host": "localhost", "before_s": 10, "deadline_s": 600},
    }
    # As build derives it from the description.
    described = {"iscsi_initiator_replacement_timeout_s": DESCRIBED_S}
    book = [{"hosts": "localhost", "gather_facts": False, "vars": described, "tasks": turns}]
    written(folder / "book.yml", yaml.safe_dump(book))
    written(folder / "ansible.cfg", f"[defaults]\ncollections_path = {folder / 'collections'}\n")
    done = subprocess.run(
        ["ansible-playbook", "-i", "localhost,", "-c", "local", "-e", json.dumps(known), str(folder / "book.yml")],
        env={**os.environ, "ANSIBLE_CONFIG": str(folder / "ansible.cfg")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return trace.read_text(encoding="utf-8").splitlines() if trace.exists() else []


def test_each_turn_sets_the_initiator_and_one_without_a_setting_as_it_is_described(tmp_path):
    turns = {"away-5s": {"replacement_timeout_s": 5}, "away-usual": {}, "away-20s": {"replacement_timeout_s": 20}}
    assert play(tmp_path, turns) == ["away-5s 5", f"away-usual {DESCRIBED_S}", "away-20s 20"]
