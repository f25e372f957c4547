# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which side of experiment E3 has the LUN of an ESXi host when, and for how many repetitions.

The playbook is played with stubs in the place of build, benchmark and teardown, so no host is reached.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from experiment_book import BOOKS, IMPORT, plays
from places import ROOT

GUEST = {"name": "guest01", "memory": "2GiB", "esxi": {"datastore": "datastore1", "template": "windows2022"}}
STUBS = ("build", "benchmark", "teardown", "verify_clean", "report", "compare")
pytestmark = pytest.mark.ansible


def stub(name: str, trace: Path) -> list:
    line = f"{name} {{{{ testbed.datastores[0].name }}}} {{{{ benchmark_repetitions }}}}"
    task = {"ansible.builtin.shell": f'echo "{line}" >> {trace}', "run_once": True, "changed_when": False}
    return [{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]


@pytest.fixture
def played(tmp_path):
    """played(said, inventory) -> (rc, output, what was done in which order)."""

    def play(said: dict, inventory: str) -> tuple:
        shutil.copytree(BOOKS, tmp_path / "playbooks" / "experiments")
        trace = tmp_path / "trace"
        (tmp_path / "playbooks" / "whole.yml").write_text("- hosts: localhost\n  gather_facts: false\n")
        for name in STUBS:
            book = yaml.safe_dump(stub(name, trace))
            (tmp_path / "playbooks" / f"{name}.yml").write_text(book, encoding="utf-8")
        done = subprocess.run(
            [
                "ansible-playbook",
                "-i",
                str(ROOT / "inventories" / inventory),
                "-e",
                json.dumps({"testbed_e3": said, "vault_esxi_password": "x"}),
                str(tmp_path / "playbooks" / "experiments" / "e3_vmfs_rdm_esxi.yml"),
            ],
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        steps = trace.read_text(encoding="utf-8").splitlines() if trace.exists() else []
        return done.returncode, done.stdout + done.stderr, steps

    return play


# {repetitions: the turns, each (side, repetitions that it has had when the turn ends)}
VMFS, RDM = "e3-vmfs", "e3-rdm"
TURNS = {
    1: [(VMFS, 1), (RDM, 1)],
    6: [(VMFS, 2), (RDM, 3), (VMFS, 5), (RDM, 6), (VMFS, 6)],
}


@pytest.mark.parametrize("repetitions", sorted(TURNS))
def test_the_lun_changes_sides_and_both_have_all_repetitions(played, repetitions):
    rc, output, steps = played({"guest": GUEST, "repetitions": repetitions}, "lab_linux_esxi")
    assert rc == 0, output
    turns, expected, before = TURNS[repetitions], [], None
    for side, most in turns:
        expected += [f"teardown {before[0]} {before[1]}"] if before else []
        expected += [f"build {side} {most}", f"benchmark {side} {most}"]
        before = side, most
    last = f"{turns[-1][0]} {turns[-1][1]}"
    assert steps == [*expected, *(f"{name} {last}" for name in ("teardown", "verify_clean", "report", "compare"))]


def test_a_lab_without_an_esxi_host_is_refused_before_anything_is_built(played):
    rc, output, steps = played({}, "embedded")
    assert rc != 0 and "is not an ESXi host: there a guest has both disks at once" in output and steps == []


def test_both_playbooks_compare_the_same_sentences():
    compared = [
        [play for play in plays(name) if "compare" in play.get(IMPORT, "")]
        for name in ("e3_vmfs_rdm", "e3_vmfs_rdm_esxi")
    ]
    assert compared[0] == compared[1] and len(compared[0]) == 1 and compared[0][0]["vars"]["testbed_compare_statements"]
