#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes playbooks/vars/testbed.yml: the variables that the stages of the chain derive, by the names that the roles know.

python tests/tools/write_vars.py
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "playbooks" / "vars" / "testbed.yml"
HEAD = """---
# What playbook check has worked out, by the names that the roles know. What the inventory sets is in it, too. Written by tests/tools/write_vars.py.
# A task that is delegated to a host that --limit leaves out needs its connection, which may follow from words of the testbed.
__testbed_whole: "{{ __testbed if __testbed is defined else hostvars[ansible_play_hosts_all[0]].__testbed }}"
testbed_id: "{{ __testbed_whole.testbed_id }}"
testbed_state_dir: "{{ __testbed_whole.state_dir }}"
testbed_results_dir: "{{ __testbed_whole.results_dir }}"
testbed_platform: "{{ __testbed.hosts[inventory_hostname].platform }}"
testbed_stages: "{{ __testbed.hosts[inventory_hostname].stages }}"
__testbed_variables: "{{ __testbed.hosts[inventory_hostname].variables }}"
"""
# {end of a role's variable: the word of the whole testbed}, in this order.
WORDS = {
    "testbed_id": "testbed_id",
    "state_dir": "testbed_state_dir",
    "results_dir": "testbed_results_dir",
    "run_id": "testbed_run_id | default('')",
}
# Those that differ, and roles whose login the playbooks give.
OTHERS = {"report_run_id": "testbed_run_id | default('latest')"}
LOGINS = {"esxi_network_login": "testbed_esxi | default({})"}


def current() -> str:
    from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import inventory
    from ansible_collections.storlab.testbed.plugins.plugin_utils.chain.stages import STAGES

    derived = {name: f"__testbed_variables.{name}" for stage in STAGES for name in stage.variables}
    parts = [HEAD]
    for role, options in sorted(inventory.role_options().items()):
        words = {f"{role}_{end}": word for end, word in WORDS.items()} | LOGINS
        given = {name: OTHERS.get(name, word) for name, word in words.items() if name in options}
        own = {name: derived[name] for name in sorted(derived) if name in options}
        lines = [f'{name}: "{{{{ {value} }}}}"\n' for name, value in {**given, **own}.items()]
        parts += ["\n", *lines] if lines else []
    return "".join(parts)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / ".cache" / "collections"))
    PATH.write_text(current(), encoding="utf-8")
    print(PATH)
