# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook new_lab on hosts that have storage and are not Linux: the simulated ESXi host, and the stand-in for Windows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins", "fake_windows")]

import esxsim_process
from world import World, drive

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "sl-esxsim-pw-3707"


def new_lab(folder: Path, **given) -> tuple[int, str]:
    config = folder / "ansible.cfg"
    config.write_text(
        f"[defaults]\ncollections_path = {ROOT}/.cache/collections\nconnection_plugins = {ROOT}/tests/fake_windows/connection\n"
        "inject_facts_as_vars = false\n"
    )
    words = {"new_lab_kind": "existing", "new_lab_target": "", "new_lab_size": "auto", **given}
    done = subprocess.run(
        ["ansible-playbook", "-i", "localhost,", "playbooks/new_lab.yml", "-e", json.dumps(words)],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(config)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def written(folder: Path) -> tuple[dict, dict]:
    """(hosts, variables) of an inventory."""
    hosts = yaml.safe_load((folder / "hosts.yml").read_text())["all"]["children"]
    return hosts, yaml.safe_load((folder / "group_vars/all.yml").read_text())


@pytest.mark.long
def test_datastores_of_an_esxi_host_are_offered(tmp_path):
    with esxsim_process.running(tmp_path / "esx", PASSWORD, "esx") as ready:
        address, port = ready["address"].split(":")
        login = {"username": "root", "password": PASSWORD, "port": int(port), "ca_path": ready["certificate"]}
        mine = tmp_path / "mine"
        given = {"new_lab_path": str(mine), "new_lab_clients": address, "new_lab_platform": "esxi"}
        rc, text = new_lab(tmp_path, **given, new_lab_login=login)
        assert rc == 0, text[-3000:]
        hosts, page = written(mine)
        assert list(hosts) == ["hypervisors"] and list(hosts["hypervisors"]["hosts"]) == ["esxi01"]
        names = [entry["name"] for entry in page["testbed"]["existing"]]
        assert "LocalDS_0" in names
        assert all(
            set(entry) == {"name", "kind"} and entry["kind"] == "esxi_datastore"
            for entry in page["testbed"]["existing"]
        )
        files = "".join(path.read_text() for path in mine.rglob("*") if path.is_file())
        assert PASSWORD not in files + text
        # A wrong password is a reason, and nothing is written.
        wrong = tmp_path / "wrong"
        given["new_lab_path"] = str(wrong)
        rc, text = new_lab(tmp_path, **given, new_lab_login={**login, "password": "another-3708"})
        assert rc != 0 and "esxi01 was not reached" in text and not wrong.exists()


@pytest.mark.long
def test_volumes_and_disks_of_a_windows_host_are_offered(tmp_path):
    world = World(tmp_path / "world" / "world.json")
    with world.open():
        host = world.add("new_lab_client01", server=False)
        lun = drive("Array LUN", "6001405AABB0037", 96 << 20, serial="S-3701", style="GPT")
        lun["partitions"] = [{"number": 2, "type": "Basic", "size_bytes": 95 << 20, "letter": "E"}]
        lun["volumes"] = {"E": {"label": "My data", "filesystem": "NTFS", "size_bytes": 95 << 20, "entries": []}}
        host["disks"]["1"] = lun
    before = json.loads(world.path.read_text())["hosts"]
    mine = tmp_path / "mine"
    rc, text = new_lab(
        tmp_path,
        new_lab_path=str(mine),
        new_lab_clients="192.0.2.37",
        new_lab_platform="windows",
        new_lab_login={"connection": "fake_windows"},
        ansible_fake_windows_world=str(world.path),
    )
    assert rc == 0, text[-3000:]
    hosts, page = written(mine)
    assert hosts["clients"]["hosts"]["client01"]["testbed_windows"] is True
    # The disk of Windows itself is not among them.
    assert page["testbed"]["existing"] == [
        {"name": "My-data", "kind": "volume", "path": "E:"},
        {"name": "disk-1", "kind": "disk", "unique_id": "6001405AABB0037"},
    ]
    assert json.loads(world.path.read_text())["hosts"] == before
