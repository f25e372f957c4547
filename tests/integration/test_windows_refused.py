# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input to the roles of a Windows server, a stand-in of tests/fake_windows: refused before its role is installed and it is restarted."""

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
SECRET = "seventeen-letters"
TARGET = {
    "name": "iqn.2026-11.test.storlab:one",
    "portals": [{"address": "192.0.2.11"}],
    "luns": [{"lun": 1, "name": "file", "vhdx": {"path": "C:\\lab\\file.vhdx", "size_mib": 40}}],
    "initiators": [{"iqn": "iqn.2026-11.test.storlab:client", "chap_user": "client", "chap_password": SECRET}],
}


@pytest.mark.parametrize(
    ("role", "given", "says"),
    [
        (
            "ramdisk",
            {"ramdisk_provider": "iscsi_target", "ramdisk_disks": [{"name": "bench", "size_mib": 1}]},
            "ramdisk_disks bench size_mib is 1. ",
        ),
        (
            "iscsi_target",
            {"iscsi_target_provider": "windows", "iscsi_target_targets": [TARGET]},
            "chap_password is '17 characters long'. ",
        ),
        (
            "iscsi_target",
            {"iscsi_target_provider": "windows", "iscsi_target_windows_networks": ["192.0.2.9/24"]},
            "iscsi_target_windows_networks is ",
        ),
    ],
    ids=["ramdisk", "target", "networks"],
)
def test_server_is_left_alone(tmp_path, role, given, says):
    world = World(tmp_path / "world.json")
    with world.open():
        before = dict(world.add("win01", reboot_after_feature=True))
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump(
            [
                {
                    "hosts": "all",
                    "gather_facts": False,
                    "tasks": [
                        {
                            "import_role": {"name": f"storlab.testbed.{role}"},
                            "vars": {
                                f"{role}_testbed_id": "bad",
                                f"{role}_state_dir": str(tmp_path / "state"),
                                **given,
                            },
                        }
                    ],
                }
            ]
        ),
        encoding="utf-8",
    )
    done = subprocess.run(
        [
            "ansible-playbook",
            "-i",
            "win01,",
            "-e",
            "ansible_connection=fake_windows",
            "-e",
            f"ansible_fake_windows_world={world.path}",
            tmp_path / "play.yml",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ANSIBLE_CONNECTION_PLUGINS": str(ROOT / "tests" / "fake_windows" / "connection")},
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert says in done.stdout.replace("\n", " ")
    assert SECRET not in done.stdout + done.stderr
    assert json.loads(world.path.read_text(encoding="utf-8"))["hosts"]["win01"] == before
    assert not (tmp_path / "state" / "windows").exists()
