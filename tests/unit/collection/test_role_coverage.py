# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tasks of roles were executed: what the callback writes in real runs, and what the end of `make role-coverage` says of it."""

from __future__ import annotations

import os
import subprocess
import sys

import places
import pytest
import role_coverage

pytestmark = pytest.mark.ansible

MAIN = """---
- name: Static
  ansible.builtin.import_tasks: static.yml

- name: Both ways
  block:
    - name: Fails
      ansible.builtin.command: "false"
      when: fails | default(false)
  rescue:
    - name: Mends
      ansible.builtin.debug:
        msg: mended
- name: Included for one host only
  ansible.builtin.include_tasks: more.yml
  when: more | default(false)
- ansible.builtin.debug:
    msg: has no name
"""


@pytest.fixture
def roles(tmp_path):
    folder = tmp_path / "roles" / "sample" / "tasks"
    folder.mkdir(parents=True)
    (folder / "main.yml").write_text(MAIN)
    for name in ("static", "more"):
        (folder / f"{name}.yml").write_text(f"---\n- name: In {name}\n  ansible.builtin.debug:\n    msg: here\n")
    return tmp_path / "roles"


def run(roles, *options: str) -> list[str]:
    """What is said after one more run."""
    written, book = roles.parent / "written", roles.parent / "play.yml"
    book.write_text("- hosts: all\n  gather_facts: false\n  connection: local\n  roles: [sample]\n")
    variables = {
        "ANSIBLE_CALLBACK_PLUGINS": str(places.TESTS / "executed_tasks"),
        "ANSIBLE_ROLES_PATH": str(roles),
        "EXECUTED_TASKS": str(written),
    }
    command = ["ansible-playbook", "-i", "localhost,", str(book), "-e", f"ansible_python_interpreter={sys.executable}"]
    subprocess.run([*command, *options], env={**os.environ, **variables}, capture_output=True, check=True)
    return role_coverage.lines(role_coverage.known(roles), role_coverage.executed(written.read_text()))


def test_what_was_skipped_was_not_executed_and_runs_add_up(roles):
    name = "roles/sample/tasks"
    assert run(roles) == [
        f"{name}/main.yml:7  Fails",
        f"{name}/main.yml:11  Mends",
        f"{name}/main.yml:14  Included for one host only",
        f"{name}/more.yml:2  In more",
        "33.3 % of 6 tasks of the roles executed, 4 never",
    ]
    assert run(roles, "-e", '{"more": true}') == [
        f"{name}/main.yml:7  Fails",
        f"{name}/main.yml:11  Mends",
        "66.7 % of 6 tasks of the roles executed, 2 never",
    ]
    assert run(roles, "-e", '{"fails": true}') == ["100.0 % of 6 tasks of the roles executed, 0 never"]


def test_a_task_of_no_role_or_at_a_line_without_a_task_counts_nothing(roles):
    reached = role_coverage.executed("/x/playbooks/build.yml:3\n/x/roles/sample/tasks/main.yml:3\n")
    assert (
        role_coverage.lines(role_coverage.known(roles), reached)[-1]
        == "0.0 % of 6 tasks of the roles executed, 6 never"
    )


def test_without_any_run_it_says_how_to_make_one(tmp_path):
    command = [sys.executable, str(places.TESTS / "tools" / "role_coverage.py"), str(tmp_path / "none")]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 1 and "TASKS=yes" in answer.stderr
