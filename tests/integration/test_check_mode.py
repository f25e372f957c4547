# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`build --check --diff` of the embedded lab before it has machines: says what would be made, ends well, and makes nothing."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from places import ROOT

ID = "checked"


def build(tmp_path: Path, *options: str) -> tuple[int, dict, str]:
    return play(tmp_path, "build", *options)


def play(tmp_path: Path, playbook: str, *options: str) -> tuple[int, dict, str]:
    """(exit code, {task: {host: result}}, all that was said) of the shipped playbook on the shipped inventory, with folders of its own."""
    configuration = tmp_path / "ansible.cfg"
    configuration.write_text(
        f"[defaults]\ncollections_path = {ROOT}/.cache/collections:/usr/share/ansible/collections\ninject_facts_as_vars = false\n"
        "stdout_callback = ansible.posix.json\n",
        encoding="utf-8",
    )
    own = {"testbed_id": ID, "testbed_state_dir": f"{tmp_path}/state", "embedded_lab_dir": f"{tmp_path}/lab"}
    done = subprocess.run(
        [
            *("ansible-playbook", "-i", "inventories/embedded", f"playbooks/{playbook}.yml", "-e", json.dumps(own)),
            *options,
        ],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(configuration)},
        capture_output=True,
        text=True,
        check=False,
    )
    tasks: dict = {}
    for play in json.loads(done.stdout)["plays"]:
        for task in play["tasks"]:
            tasks.setdefault(task["task"]["name"].rpartition(" : ")[2], {}).update(task["hosts"])
    return done.returncode, tasks, done.stdout


def nothing_was_made(tmp_path: Path) -> bool:
    runs = list(Path("/run/storlab").glob(f"storlab-{ID}-*"))
    return runs == [] and not (tmp_path / "state").exists() and not (tmp_path / "lab").exists()


COMING = [
    "backing-bench, target01, RAM disk, 128 MiB",
    "datastore-ds1, hypervisor01, ext4 at /srv/storlab/ds1",
    "guest-guest01, guest01, a virtual machine on controller01",
]


@pytest.mark.parametrize(
    ("options", "starts"),
    [((), True), (("--tags", "target"), False), (("--limit", "localhost,target01"), False)],
    ids=["all", "tags", "limit"],
)
def test_a_check_before_there_are_machines_says_what_is_made_and_makes_nothing(tmp_path, options, starts):
    code, tasks, said = build(tmp_path, "--check", "--diff", *options)
    assert code == 0, said
    [told] = [
        one["msg"] for one in tasks["List what will be made on machines that do not exist yet"].values() if "msg" in one
    ]
    assert set(COMING) <= set(told)
    machines = [one for host in tasks.get("Start the machines", {}).values() for one in host.get("results", [])]
    assert [one["item"]["name"] for one in machines if one["changed"]] == (
        ["target01", "hypervisor01"] if starts else []
    )
    assert nothing_was_made(tmp_path)


def test_without_check_a_part_of_the_build_says_what_is_missing(tmp_path):
    code, tasks, said = build(tmp_path, "--tags", "target")
    assert code != 0
    failed = tasks["Stop if a machine is missing that this run does not make"]
    assert failed["target01"]["msg"] == (
        "The machine target01 of the embedded lab does not run, and with these --tags or this --limit it is not made. Make it with --tags embedded_lab "
        "and without --limit, or build without both."
    )
    assert "unreachable" not in said.split('"stats"')[0] and not (tmp_path / "lab").exists()


def test_a_lab_that_never_was_is_taken_away_as_often_as_one_likes(tmp_path):
    for _time in range(2):
        code, _tasks, said = play(tmp_path, "embedded_lab", "-e", "testbed_lab_state=absent")
        assert code == 0, said
    assert not (tmp_path / "lab").exists() and list(Path("/run/storlab").glob(f"storlab-{ID}-*")) == []
