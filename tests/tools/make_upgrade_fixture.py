#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes tests/integration/made_by_0.3.0.tar.xz: release 0.3.0, from this repository's history, builds and measures a testbed of its own stand-ins.

python tests/tools/make_upgrade_fixture.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASE = "57c407eb"
IQN = "iqn.2026-11.test.storlab.upgraded:data"
SERVER, CLIENT = (f"iqn.1991-05.com.microsoft:{name}" for name in ("win01", "win02"))
PORTAL = {"address": "192.0.2.11", "port": 3260}
CHAP = {"chap_user": "user-data", "chap_password": "secret-data-1"}
DISKSPD = "C:\\tools\\diskspd.exe"
WORLD = """
import shutil, sys
sys.path.insert(0, sys.argv[1] + "/tests/fake_windows")
from pathlib import Path
from world import World
live, programs = Path(sys.argv[2]) / "live", {sys.argv[3]: {"engine": "diskspd", "version": "2.2.0"}}
world = World(live / "world.json")
with world.open():
    world.add("win01", programs=programs, initiator={"iqn": sys.argv[4], "portals": [], "sessions": {}})
    world.add("win02", server=False, feature=None, addresses=["192.0.2.21"], programs=programs,
              initiator={"iqn": sys.argv[5], "portals": [], "sessions": {}})
shutil.copy(live / "world.json", live.parent / "before.json")
"""


def luns(word: str, below: str) -> list:
    return [
        {"lun": 2, "name": "bench", word: f"{below}-bench"},
        {"lun": 3, "name": "ds1", word: f"{below}-ds1", "purpose": "data"},
    ]


def inventory(live: Path) -> dict:
    everybody = {
        "ansible_connection": "fake_windows",
        "ansible_fake_windows_world": str(live / "world.json"),
        "testbed_windows": True,
        "testbed_id": "upgraded",
        "testbed_state_dir": str(live / "state"),
        "testbed_results_dir": str(live / "results"),
        "testbed_disks": [{"name": "bench", "size_mib": 64}, {"name": "ds1", "size_mib": 192}],
        "ramdisk_provider": "iscsi_target",
        "iscsi_target_provider": "windows",
        "testbed_initiator_provider": "windows",
        "testbed_datastore_provider": "ntfs",
        "testbed_guests": [],
        "iscsi_initiator_windows_wait_s": 1,
        "testbed_initiator_name": CLIENT,
        "testbed_targets": [
            {
                "name": IQN,
                "portals": [PORTAL],
                "luns": luns("layer", "backing"),
                "initiators": [{"iqn": CLIENT, **CHAP}],
            }
        ],
        "testbed_engine": "diskspd",
        "testbed_benchmark_windows": {"program": DISKSPD},
        "testbed_ceiling": False,
        "testbed_prepare": {"fill": False},
        "testbed_repetitions": 3,
        "testbed_workloads": [{"block_size": "4k", "read_percent": 60, "queue_depth": 3, "ramp_s": 0, "runtime_s": 1}],
    }
    client = {
        "testbed_sessions": [{"iqn": IQN, "portal": PORTAL, **CHAP, "luns": luns("parent", "target")}],
        "testbed_datastores": [
            {
                "name": "ds1",
                "layer": "initiator-ds1",
                "mount_point": "T:",
                "filesystem": "ntfs",
                "benchmark_file_mib": 48,
            }
        ],
    }
    groups = {
        "targets": {"hosts": {"win01": {"testbed_sessions": []}}},
        "hypervisors": {"hosts": {"win02": client}},
        "guest_hosts": {"hosts": {}},
        "guests": {"hosts": {}},
    }
    return {"all": {"vars": everybody, "children": groups}}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        old, made = Path(folder) / "collections/ansible_collections/storlab/testbed", Path(folder) / "made"
        for path in (old, made):
            path.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", RELEASE], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "x", "-C", str(old)], input=archive, check=True)
        world = [sys.executable, "-c", WORLD, str(old), str(made), DISKSPD, SERVER, CLIENT]
        subprocess.run(world, check=True)
        (made / "lab.json").write_text(json.dumps(inventory(made / "live")), encoding="utf-8")
        (made / "ansible.cfg").write_text(
            f"[defaults]\ncollections_path = {folder}/collections\nconnection_plugins = {old}/tests/fake_windows/connection\ninject_facts_as_vars = false\n",
            encoding="utf-8",
        )
        for book, run in (("build", "none"), ("benchmark", "old-a"), ("benchmark", "old-b")):
            command = ["ansible-playbook", "-i", str(made / "lab.json"), "-e", f"testbed_run_id={run}"]
            environment = {**os.environ, "ANSIBLE_CONFIG": str(made / "ansible.cfg")}
            subprocess.run([*command, str(old / "playbooks" / f"{book}.yml")], cwd=old, env=environment, check=True)
        for path in made.rglob("*.lock"):
            path.unlink()
        target = ROOT / "tests/integration/made_by_0.3.0.tar.xz"
        subprocess.run(["tar", "cJf", str(target), "-C", str(made), "live", "before.json"], check=True)


if __name__ == "__main__":
    main()
