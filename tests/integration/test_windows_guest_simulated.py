# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role guest_vm with a guest that runs Windows: the machine is on the simulated ESXi, and what answers inside it is the stand-in for Windows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins")]
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fake_windows"))

import esxsim_process
from world import World

TESTS = Path(__file__).resolve().parents[1]
PASSWORD = "sl-esxsim-pw-0816"
SIZE = 13 << 20


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("windows_guest")
    with esxsim_process.running(folder / "esx", PASSWORD, "esx") as ready:
        yield Lab(folder, ready)


class Lab:
    def __init__(self, folder: Path, ready: dict):
        self.folder, self.world = folder, World(folder / "world.json")
        with self.world.open():
            self.world.add("guest01", server=False)
        address, port = ready["address"].split(":")
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        (folder / "hosts.yml").write_text(
            yaml.safe_dump(
                {
                    "all": {
                        "hosts": {
                            "esxi01": local,
                            "guest01": {
                                "ansible_connection": "fake_windows",
                                "ansible_fake_windows_world": str(self.world.path),
                                "ansible_fake_windows_host": "guest01",
                                "testbed_windows": True,
                            },
                        }
                    }
                }
            )
        )
        self.login = {
            "hostname": address,
            "port": int(port),
            "username": "root",
            "password": PASSWORD,
            "ca_path": ready["certificate"],
        }

    def run(self, find_disk: bool, *options: str, state: str = "present") -> tuple:
        """(the guest's layer, how many tasks changed something on the ESXi host)."""
        guest = {
            "name": "one",
            "host": "guest01",
            "vcpus": 2,
            "memory_mib": 1024,
            "esxi": {
                "datastore": "LocalDS_0",
                "guest_id": "windows2019srv_64Guest",
                "disks": [{"name": "data", "size_mib": 13, "controller": "pvscsi"}],
                "find_disk": find_disk,
            },
        }
        told = self.folder / "layers.json"
        (self.folder / "play.yml").write_text(
            yaml.safe_dump(
                [
                    {
                        "hosts": "esxi01",
                        "gather_facts": False,
                        "module_defaults": {"group/storlab.testbed.esxi": self.login},
                        "tasks": [
                            {
                                "import_role": {"name": "storlab.testbed.guest_vm"},
                                "vars": {
                                    "guest_vm_provider": "esxi",
                                    "guest_vm_testbed_id": "tb-win",
                                    "guest_vm_state": state,
                                    "guest_vm_guests": [guest],
                                    "guest_vm_state_dir": str(self.folder / "state"),
                                },
                            },
                            {
                                "copy": {
                                    "content": "{{ ansible_facts.storlab_layers | to_json }}",
                                    "dest": str(told),
                                    "mode": "0600",
                                },
                                "changed_when": False,
                                "check_mode": False,
                            },
                        ],
                    }
                ]
            )
        )
        done = subprocess.run(
            ["ansible-playbook", "-i", self.folder / "hosts.yml", *options, self.folder / "play.yml"],
            cwd=TESTS.parent,
            text=True,
            env={**os.environ, "ANSIBLE_CONNECTION_PLUGINS": str(TESTS / "fake_windows" / "connection")},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(told.read_text()).get("guest-one"), int(re.search(r"esxi01 .*changed=(\d+)", done.stdout)[1])

    def disk(self) -> dict:
        with self.world.open():
            return self.world.data["hosts"]["guest01"]["disks"].get("1")


def test_disk_of_a_windows_guest_is_published_with_path_and_unique_id(lab):
    layer, _changed = lab.run(find_disk=False)
    assert layer["path"] is None
    serial = layer["identity"]["serial"]
    # So the guest shows it: with another notation of the serial, and offline.
    unlike = {
        "serial": f"{serial[:8]}-{serial[8:]}".upper(),
        "offline": True,
        "read_only": True,
        "offline_reason": "Policy",
    }
    with lab.world.open():
        lab.world.data["hosts"]["guest01"]["disks"]["1"] = {
            "name": "VMware Virtual disk",
            "lun": 0,
            "unique_id": "EUI-OF-VMWARE",
            "size_bytes": SIZE,
            "bus": "SAS",
            "style": "RAW",
            "boot": False,
            "system": False,
            "clustered": False,
            "partitions": [],
            "volumes": {},
            **unlike,
        }
    _layer, changed = lab.run(True, "--check")
    assert changed == 1
    assert lab.disk()["offline"] is True

    layer, changed = lab.run(find_disk=True)
    assert changed == 1
    assert (layer["path"], layer["host"], layer["size_bytes"]) == ("\\\\.\\PhysicalDrive1", "guest01", SIZE)
    assert (layer["identity"]["serial"], layer["identity"]["unique_id"]) == (serial, "EUI-OF-VMWARE")
    assert "path_unknown" not in layer["detail"]
    assert "simulated" in layer["detail"]["hypervisor"]
    assert (lab.disk()["offline"], lab.disk()["read_only"]) == (False, False)
    assert lab.run(find_disk=True) == (layer, 0)

    before = lab.disk()
    assert lab.run(True, state="absent")[0] is None
    # Nothing is undone in the guest, which is destroyed.
    assert lab.disk() == before
