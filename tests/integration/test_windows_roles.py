# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks with a Windows server that logs in to itself and a client with a drive in memory, both stand-ins of tests/fake_windows."""

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
IQN, SECRET = "iqn.2026-11.test.storlab:loop", "secret-loop-1"
SERVER, CLIENT = "iqn.1991-05.com.microsoft:win01", "iqn.1991-05.com.microsoft:win02"
PORTAL = {"address": "192.0.2.11", "port": 3260}
CHAP = {"chap_user": "both", "chap_password": SECRET}


@pytest.fixture
def lab(tmp_path):
    """run(*playbooks) -> {host: changed}, and the hosts' own data."""
    world = World(tmp_path / "state" / "world.json")
    with world.open():
        world.add("win01", reboot_after_feature=True, initiator={"iqn": SERVER, "portals": [], "sessions": {}})
        world.add(
            "win02",
            server=False,
            feature=None,
            addresses=["192.0.2.21"],
            initiator={"iqn": CLIENT, "portals": [], "sessions": {}},
            aim={"program": "aim_ll.exe", "folder": "C:\\aim", "installed": False, "restart": True, "devices": {}},
        )
    targets = {
        "hosts": {"win01": None},
        "vars": {
            "iscsi_target_targets": [
                {
                    "name": IQN,
                    "portals": [PORTAL],
                    "luns": [{"lun": 2, "name": "bench", "layer": "backing-bench", "purpose": "scratch"}],
                    "initiators": [{"iqn": SERVER, **CHAP}, {"address": "192.0.2.21", **CHAP}],
                }
            ],
        },
    }
    everybody = {
        "ansible_connection": "fake_windows",
        "ansible_fake_windows_world": str(world.path),
        "testbed_windows": True,
        "testbed_id": "loop",
        "testbed_state_dir": str(tmp_path / "state"),
        "testbed": {"disks": [{"name": "bench", "size": "64MiB", "loopback": True}]},
        "iscsi_initiator_windows_wait_s": 1,
    }
    groups = {"targets": targets, "clients": {"hosts": {"win02": {"testbed_address": "192.0.2.21"}}}}
    (tmp_path / "lab.yml").write_text(
        yaml.safe_dump({"all": {"vars": everybody, "children": groups}}), encoding="utf-8"
    )
    for state in ("present", "absent"):
        role = {
            "ansible.builtin.import_role": {"name": "storlab.testbed.ramdisk"},
            "name": "A drive in memory",
            "vars": {
                "ramdisk_state": state,
                "ramdisk_testbed_id": "loop",
                "ramdisk_state_dir": "{{ testbed_state_dir }}",
                "ramdisk_provider": "aim",
                "ramdisk_aim_driver_folder": "C:\\aim",
                "ramdisk_disks": [{"name": "raw", "size_mib": 48}],
            },
        }
        (tmp_path / f"{state}.yml").write_text(
            yaml.safe_dump([{"hosts": "clients", "gather_facts": False, "tasks": [role]}]), encoding="utf-8"
        )
    (tmp_path / "ansible.cfg").write_text(
        f"[defaults]\ncollections_path = {ROOT}/.cache/collections\nconnection_plugins = {ROOT}/tests/fake_windows/connection\n"
        f"inject_facts_as_vars = false\nstdout_callback = ansible.posix.json\nlog_path = {tmp_path}/ansible.log\n",
        encoding="utf-8",
    )

    def run(*books: str, check: bool = False, options: tuple = ()) -> dict:
        paths = [
            str(ROOT / "playbooks" / book if (ROOT / "playbooks" / book).exists() else tmp_path / book)
            for book in books
        ]
        book = tmp_path / "all.yml"
        book.write_text(yaml.safe_dump([{"ansible.builtin.import_playbook": path} for path in paths]), encoding="utf-8")
        done = subprocess.run(
            ["ansible-playbook", "-i", tmp_path / "lab.yml", *(["--check", "--diff"] if check else []), *options, book],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")},
            capture_output=True,
            text=True,
            check=False,
        )
        stats = json.loads(done.stdout)["stats"]
        took_part = [host for host in ("win01", "win02") if host in stats]
        assert [stats[host]["failures"] for host in took_part] == [0] * len(took_part), done.stdout[-3000:]
        assert SECRET not in done.stdout + (tmp_path / "ansible.log").read_text(encoding="utf-8")
        return {host: stats[host]["changed"] for host in took_part}

    def host(name: str) -> dict:
        return json.loads(world.path.read_text(encoding="utf-8"))["hosts"][name]

    def layers() -> dict:
        return {
            path.stem: json.loads(path.read_text(encoding="utf-8"))
            for path in (tmp_path / "state" / "layers").glob("*.json")
        }

    return run, host, layers


@pytest.mark.long
def test_built_twice_and_taken_down(lab):
    run, host, layers = lab
    before = {name: host(name) for name in ("win01", "win02")}
    told = run("build.yml", check=True)
    assert all(told.values())
    assert {name: host(name) for name in before} == before

    # A part of it, of one host: what is on the other stays, and the rest of this one.
    run("build.yml", options=("--tags", "state,ramdisk", "--limit", "win01"))
    assert host("win01")["virtual_disks"] and not host("win01")["targets"]
    assert host("win02") == before["win02"]

    built = run("present.yml", "build.yml")
    assert all(built.values())
    assert (host("win01")["boot"], host("win02")["boot"]) == (2, 2)
    paths = {name: (layer["host"], layer["kind"], layer["parent"], layer["path"]) for name, layer in layers().items()}
    [loop] = [number for number, disk in host("win01")["disks"].items() if disk["bus"] == "iSCSI"]
    [drive] = host("win02")["aim"]["devices"].values()
    [lun] = [number for number, disk in host("win02")["disks"].items() if disk["bus"] == "iSCSI"]
    assert paths == {
        "backing-bench": ("win01", "backing", None, None),
        "target-bench": ("win01", "target", "backing-bench", f"\\\\.\\PhysicalDrive{loop}"),
        "initiator-bench": ("win02", "initiator", "target-bench", f"\\\\.\\PhysicalDrive{lun}"),
        "backing-raw": ("win02", "backing", None, f"\\\\.\\PhysicalDrive{drive}"),
    }
    published = layers()
    assert run("present.yml", "build.yml") == {"win01": 0, "win02": 0}
    assert layers() == published
    assert run("build.yml", options=("--tags", "initiator")) == {"win01": 0, "win02": 0}
    assert run("build.yml", options=("--limit", "win02"), check=True) == {"win02": 0}

    run("teardown.yml", "verify_clean.yml", "absent.yml")
    assert layers() == {}
    for name in before:
        kept = (
            "aim",
            "disks",
            "feature",
            "files",
            "firewall_rules",
            "initiator",
            "loopback",
            "portals",
            "services",
            "targets",
            "virtual_disks",
        )
        after = host(name)
        assert {key: after.get(key) for key in kept} == {key: before[name].get(key) for key in kept}
