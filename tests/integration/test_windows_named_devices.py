# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that the user names and that a Windows host does not have stops the shipped build before anything is made on any host (stand-in)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fake_windows"))

from world import World

ROOT = Path(__file__).resolve().parents[2]


def lab(folder: Path, *there: str) -> World:
    """An inventory of two Windows hosts, of which those are there."""
    world = World(folder / "state" / "world.json")
    with world.open():
        for name in there:
            iqn = f"iqn.1991-05.com.microsoft:{name}"
            world.add(name, reboot_after_feature=True, initiator={"iqn": iqn, "portals": [], "sessions": {}})
    disks = [
        {"name": "bench", "size": "64MiB"},
        {"name": "file", "kind": "vhdx", "path": "Q:\\lab\\file.vhdx", "size": "40MiB"},
    ]
    hosts = {
        "ansible_connection": "fake_windows",
        "ansible_fake_windows_world": str(world.path),
        "testbed_windows": True,
        "testbed_id": "named",
        "testbed_state_dir": str(folder / "state"),
        "testbed": {"disks": disks},
    }
    groups = {
        "targets": {"hosts": {"win01": {"testbed_address": "192.0.2.11"}}},
        "clients": {"hosts": {"win02": {"testbed_address": "192.0.2.21"}}},
    }
    (folder / "lab.yml").write_text(yaml.safe_dump({"all": {"vars": hosts, "children": groups}}), encoding="utf-8")
    (folder / "ansible.cfg").write_text(
        f"[defaults]\ncollections_path = {ROOT}/.cache/collections\nconnection_plugins = {ROOT}/tests/fake_windows/connection\n"
        "inject_facts_as_vars = false\nstdout_callback = ansible.posix.json\n",
        encoding="utf-8",
    )
    return world


def play(folder: Path, *words: str) -> tuple[int, list]:
    """(exit code, the answers of all tasks)."""
    done = subprocess.run(
        ["ansible-playbook", "-i", folder / "lab.yml", *words],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(folder / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
    )
    plays = json.loads(done.stdout)["plays"]
    return done.returncode, [answer for one in plays for task in one["tasks"] for answer in task["hosts"].values()]


@pytest.mark.parametrize("check", [False, True], ids=["build", "check"])
def test_a_build_is_refused_before_anything_is_touched(tmp_path, check):
    world = lab(tmp_path, "win01", "win02")
    before = json.loads(world.path.read_text(encoding="utf-8"))
    rc, answers = play(tmp_path, *(["--check"] if check else []), "playbooks/build.yml")
    failed = [answer["msg"] for answer in answers if answer.get("failed")]
    assert rc == 2 and len(failed) == 1, failed
    assert "testbed.disks[1].path is 'Q:\\\\lab\\\\file.vhdx', and win01 has no volume Q:" in failed[0], failed
    assert "which are C:" in failed[0]
    after = json.loads(world.path.read_text(encoding="utf-8"))
    assert after["hosts"] == before["hosts"] and {call["script"] for call in after["calls"]} == {"state"}


def test_the_doctor_lists_it_beside_a_host_that_does_not_answer(tmp_path):
    world = lab(tmp_path, "win01")
    before = json.loads(world.path.read_text(encoding="utf-8"))
    rc, answers = play(tmp_path, "playbooks/doctor.yml")
    (findings,) = [answer["findings"] for answer in answers if answer.get("findings")]
    bad = {(row["host"], row["what"]) for row in findings if not row["good"]}
    assert rc == 2 and bad == {("win01", "testbed.disks[1].path"), ("win02", "reached")}
    after = json.loads(world.path.read_text(encoding="utf-8"))
    assert after["hosts"] == before["hosts"] and {call["script"] for call in after["calls"]} == {"state"}
