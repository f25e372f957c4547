# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The chain of experiment E1 by the shipped playbooks: a RAM disk with a volume, a file on it that Windows exports, and a datastore of ESXi on that.

Windows and ESXi are stand-ins. As the one for Windows exports nothing, a tgtd has the name, the secrets and the LUN that its target should have.
"""

from __future__ import annotations

import copy
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import vim

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins", "fake_windows")]
import esxsim_process
import tgt_process
from places import ROOT
from world import World, drive

PASSWORD, IN, OUT = "sl-esxsim-pw-3301", "secret-in-3302", "secret-out-3303"
# The names of the hosts are those of the accounts, as the collection derives them and tgtd has them.
WINDOWS, ESXI = "array", "esx"
IQN, NAA = f"iqn.2026-11.test.storlab:e1w:{WINDOWS}", "600000000000000000c0ffee00330101"
DRIVE = drive("STARWIND RAMDISK", "RAM-3304", 8 << 30, style="MBR")
TESTBED = {
    "access": "address",
    "chap_password": IN,
    "mutual_chap_password": OUT,
    "disks": [
        {"name": "ram", "model": "STARWIND*", "size": "8GiB", "to": []},
        {"name": "ds1", "kind": "vhdx", "path": "R:\\ds1.vhdx", "size": "6GiB", "allocation": "fixed", "lun": 1},
    ],
    "datastores": [
        {"disk": "ram", "hosts": [WINDOWS], "mount_point": "R:"},
        {"disk": "ds1", "version": 5},
    ],
}


class Lab:
    def __init__(self, folder: Path, ready: dict, array: tgt_process.Array):
        self.folder, self.world = folder, World(folder / "world" / "world.json")
        address = array.portal["address"]
        with self.world.open():
            self.world.add(WINDOWS, addresses=[address])["disks"]["1"] = copy.deepcopy(DRIVE)
        name, port = ready["address"].split(":")
        self.login = {"hostname": name, "port": int(port), "username": "root", "password": PASSWORD}
        self.login["ca_path"] = ready["certificate"]
        windows = {
            "ansible_connection": "fake_windows",
            "ansible_fake_windows_world": str(self.world.path),
            "testbed_windows": True,
            "testbed_address": f"{address}:{array.portal['port']}",
        }
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        everybody = {
            "testbed_id": "e1w",
            "testbed": TESTBED,
            "testbed_state_dir": str(folder / "state"),
            "testbed_results_dir": str(folder / "results"),
        }
        groups = {
            "targets": {"hosts": {WINDOWS: windows}},
            "hypervisors": {"hosts": {ESXI: {**local, "testbed_esxi": self.login}}},
        }
        (folder / "lab.yml").write_text(yaml.safe_dump({"all": {"vars": everybody, "children": groups}}))
        (folder / "ansible.cfg").write_text(
            f"[defaults]\ncollections_path = {ROOT}/.cache/collections\nconnection_plugins = {ROOT}/tests/fake_windows/connection\n"
            "inject_facts_as_vars = false\nstdout_callback = ansible.posix.json\n"
        )

    def play(self, *books: str, options: tuple = ()) -> dict:
        """{host: how many tasks changed something}, of playbooks one after the other."""
        done = subprocess.run(
            ["ansible-playbook", "-i", self.folder / "lab.yml", *options, *(f"playbooks/{name}.yml" for name in books)],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert IN not in done.stdout and OUT not in done.stdout and PASSWORD not in done.stdout
        document = json.JSONDecoder().raw_decode(done.stdout, done.stdout.index("{"))[0]
        assert done.returncode == 0, [
            result["msg"]
            for play in document["plays"]
            for task in play["tasks"]
            for result in task["hosts"].values()
            if result.get("failed")
        ]
        return {host: counts["changed"] for host, counts in document["stats"].items() if host in (WINDOWS, ESXI)}

    def host(self) -> dict:
        return json.loads(self.world.path.read_text())["hosts"][WINDOWS]

    def volumes(self) -> list:
        """[(name, version, mounted)] of the VMFS that the simulated ESXi host has."""
        context = ssl.create_default_context(cafile=self.login["ca_path"])
        host, port = self.login["hostname"], self.login["port"]
        instance = SmartConnect(host=host, port=port, user="root", pwd=PASSWORD, sslContext=context)
        try:
            content = instance.RetrieveContent()
            [host] = content.viewManager.CreateContainerView(content.rootFolder, [vim.HostSystem], True).view
            info = host.configManager.storageSystem.fileSystemVolumeInfo.mountInfo or []
            return [
                (entry.volume.name, entry.volume.majorVersion, entry.mountInfo.mounted)
                for entry in info
                if isinstance(entry.volume, vim.host.VmfsVolume)
            ]
        finally:
            Disconnect(instance)

    def layers(self) -> dict:
        folder = self.folder / "state" / "layers"
        return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


@pytest.fixture
def lab(tmp_path):
    (tmp_path / "luns").mkdir()
    with (
        tgt_process.Array(tmp_path / "luns", IQN, IN, OUT, "127.0.0.2") as array,
        esxsim_process.running(tmp_path / "esxsim", PASSWORD, "esx") as ready,
    ):
        array.add(1, 6144, NAA, "SN3301A")
        yield Lab(tmp_path, ready, array)


def test_from_the_ram_disk_to_the_datastore_and_back(lab):
    before, none = lab.host(), lab.volumes()
    told = lab.play("build", options=("--check",))
    assert all(told.values()) and (lab.host(), lab.volumes()) == (before, none)

    assert all(lab.play("build").values())
    [target] = lab.host()["targets"].values()
    assert target["iqn"] == IQN and target["luns"] == {"R:\\ds1.vhdx": 1}
    # The address was read from the ESXi host.
    assert target["initiators"] == ["IPAddress:127.0.0.1"]
    disk = lab.host()["disks"]["1"]
    assert (disk["style"], [part["letter"] for part in disk["partitions"]]) == ("MBR", ["R"])
    assert lab.volumes() == [("e1w-ds1", 5, True)]
    assert {name: layer["parent"] for name, layer in lab.layers().items()} == {
        "backing-ram": None,
        "datastore-ram": "backing-ram",
        "target-ds1": "datastore-ram",
        "initiator-ds1": "target-ds1",
        "datastore-e1w-ds1": "initiator-ds1",
    }
    assert lab.play("build") == {WINDOWS: 0, ESXI: 0}

    lab.play("teardown", "verify_clean")
    after = lab.host()
    assert {key: after[key] for key in ("disks", "targets", "virtual_disks", "files", "feature")} == {
        key: before[key] for key in ("disks", "targets", "virtual_disks", "files", "feature")
    }
    assert lab.volumes() == [] and lab.layers() == {}
