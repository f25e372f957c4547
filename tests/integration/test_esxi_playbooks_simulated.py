# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped playbooks on two simulated ESXi hosts that share a LUN of a real tgtd: both at once, as a user runs them.

What has happened is read with pyVmomi. Nothing is in the group `targets`: the target stands already.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import vim

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins")]
import esxsim_process
import tgt_process
from places import ROOT

PASSWORD, IN, OUT = "sl-esxsim-pw-2201", "secret-in-2202", "secret-out-2203"
IQN, NAA = "iqn.2026-11.test.storlab:playbooks", "600000000000000000c0ffee00220101"


class Lab:
    def __init__(self, folder: Path, ready: dict, array: tgt_process.Array):
        self.folder, self.array = folder, array
        name, port = ready["address"].split(":")
        context = ssl.create_default_context(cafile=ready["certificate"])
        self.instance = SmartConnect(host=name, port=int(port), user="root", pwd=PASSWORD, sslContext=context)
        content = self.instance.RetrieveContent()
        found = content.viewManager.CreateContainerView(content.rootFolder, [vim.HostSystem], True).view
        self.hosts = sorted(found, key=lambda host: host.name)
        session = {
            "iqn": IQN,
            "portal": array.portal,
            "chap_user": "esx",
            "chap_password": IN,
            "mutual_chap_user": "array",
            "mutual_chap_password": OUT,
            "luns": [{"lun": 1, "name": "big", "naa": NAA, "purpose": "data"}],
        }
        self.variables = {
            "testbed_id": "tb-pl",
            "testbed_state_dir": str(folder / "state"),
            "testbed_results_dir": str(folder / "results"),
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
        }
        esxi = {
            "testbed_esxi": {
                "hostname": name,
                "port": int(port),
                "username": "root",
                "password": PASSWORD,
                "thumbprint": ready["thumbprint"],
                "esxi_host": "{{ esxi_host }}",
            },
            "iscsi_initiator_name": "iqn.2026-11.test.storlab:{{ inventory_hostname }}",
            "iscsi_initiator_layer_suffix": "-{{ inventory_hostname }}",
            "datastore_layer_suffix": "-{{ inventory_hostname }}",
            "iscsi_initiator_targets": [session],
            "datastore_datastores": [{"name": "tb-shared", "layer": "initiator-big-{{ inventory_hostname }}"}],
            # No target of the testbed exports it.
            "datastore_allow_device": [f"naa.{NAA}"],
            "iscsi_initiator_esxi_port_binding": ["vmk0"],
            "iscsi_initiator_esxi_host_options": {"ISCSI.MaxIoSizeKB": "512"},
            "iscsi_initiator_esxi_options": {"LoginTimeout": "17"},
        }
        names = {f"esx{number}": {"esxi_host": host.name} for number, host in enumerate(self.hosts)}
        groups = {
            "controllers": {"hosts": {"controller01": {}}},
            "targets": {"hosts": {}},
            "guests": {"hosts": {}},
            "hypervisors": {"hosts": names, "vars": esxi},
            "guest_hosts": {"children": {"hypervisors": {}}},
            "embedded_controllers": {"hosts": {}},
        }
        self.inventory = folder / "inventory.json"
        self.inventory.write_text(json.dumps({"all": {"children": groups, "vars": self.variables}}))

    def play(self, name: str, *arguments: str, check: bool = True) -> dict:
        """Play a shipped playbook; {host: its counts}."""
        done = subprocess.run(
            ["ansible-playbook", "-i", str(self.inventory), f"playbooks/{name}.yml", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
                "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
            },
        )
        document = json.JSONDecoder().raw_decode(done.stdout, done.stdout.index("{"))[0]
        self.output = done.stdout
        if check:
            assert done.returncode == 0, [
                task["hosts"][host]["msg"]
                for play in document["plays"]
                for task in play["tasks"]
                for host in task["hosts"]
                if task["hosts"][host].get("failed")
            ]
        return document["stats"]

    def notes(self) -> dict:
        """{host: what the last play of verify_clean has reported of others}"""
        document = json.JSONDecoder().raw_decode(self.output, self.output.index("{"))[0]
        return {
            host: result["notes"]
            for play in document["plays"]
            for task in play["tasks"]
            for host, result in task["hosts"].items()
            if result.get("notes")
        }

    def volumes(self, host) -> list:
        """[(uuid, name, mounted, accessible)] of the VMFS of a host."""
        return [
            (entry.volume.uuid, entry.volume.name, entry.mountInfo.mounted, entry.mountInfo.accessible)
            for entry in host.configManager.storageSystem.fileSystemVolumeInfo.mountInfo or []
            if isinstance(entry.volume, vim.host.VmfsVolume)
        ]


@pytest.fixture
def lab(tmp_path):
    (tmp_path / "luns").mkdir()
    with (
        tgt_process.Array(tmp_path / "luns", IQN, IN, OUT) as array,
        esxsim_process.running(tmp_path / "esxsim", PASSWORD, "vpx") as ready,
    ):
        array.add(1, 96, NAA, "SN2201A")
        made = Lab(tmp_path, ready, array)
        yield made
        Disconnect(made.instance)


@pytest.mark.long
def test_two_hosts_that_are_built_at_once_share_one_volume_until_it_is_taken_down(lab):
    lab.play("build")
    first, second = (lab.volumes(host) for host in lab.hosts)
    assert len(first) == 1
    assert first == second
    assert first[0][1:] == ("tb-shared", True, True)
    again = lab.play("build")
    assert {host: again[host]["changed"] for host in ("esx0", "esx1")} == {"esx0": 0, "esx1": 0}
    assert [lab.volumes(host) for host in lab.hosts] == [first, first]
    # An administrator gives the first host an array of his and a share, which keep its adapter as the testbed has set it.
    storage, system = lab.hosts[0].configManager.storageSystem, lab.hosts[0].configManager.datastoreSystem
    theirs = vim.host.InternetScsiHba.SendTarget(address="198.51.100.7", port=3260)
    storage.AddInternetScsiSendTargets(adapter_of(lab.hosts[0]).device, [theirs])
    share = vim.host.NasVolume.Specification(
        remoteHost="198.51.100.8", remotePath="/export/iso", localPath="isos", accessMode="readOnly", type="NFS"
    )
    share = system.CreateNasDatastore(share)
    wait(lambda: adapter_of(lab.hosts[0]).configuredSendTarget[1:])
    lab.play("teardown")
    assert [lab.volumes(host) for host in lab.hosts] == [[], []]
    lab.play("verify_clean")
    (notes,) = lab.notes().values()
    kept = "(was not there before, kept for send 198.51.100.7:3260)"
    assert "iscsi targets: send 198.51.100.7:3260 (was not there before, of others)" in notes
    assert f"iscsi adapter: name iqn.2026-11.test.storlab:esx0 {kept}" in notes
    assert f"iscsi adapter: bound vmk0 {kept}" in notes and f"iscsi adapter: option LoginTimeout 17 {kept}" in notes
    assert any(note.startswith("datastores: isos NFS from 198.51.100.8:/export/iso (was not") for note in notes)
    assert list(lab.notes()) == ["esx0"]
    # Nobody needs it any more, so it is the testbed's to give back.
    storage.RemoveInternetScsiSendTargets(adapter_of(lab.hosts[0]).device, [theirs])
    system.RemoveDatastore(share)
    wait(lambda: not adapter_of(lab.hosts[0]).configuredSendTarget)
    assert lab.play("verify_clean", check=False)["esx0"]["failures"] == 1
    lab.play("teardown")
    lab.play("verify_clean")
    assert lab.notes() == {}


@pytest.mark.long
def test_a_lab_check_changes_nothing_that_build_has_made_and_says_what_works(lab):
    """It looks at the session with the bound interfaces and options of the inventory; without them it would take them back."""
    lab.play("lab_check")
    report = (lab.folder / "state" / "lab_check.md").read_text()
    rows = [line.split(" | ") for line in report.splitlines() if line.startswith("| ") and "---" not in line]
    works = {row[0].removeprefix("| "): row[1] for row in rows}
    expected = ["build in check mode", "build", "second build", "teardown", "every host as it was before"]
    expected += [
        f"{host}: {what}"
        for host in ("esx0", "esx1")
        for what in ("session unchanged when looked at again", "datastores unmount and keep their contents")
    ]
    assert {what: works.get(what) for what in expected} == dict.fromkeys(expected, "yes")
    assert "not in force before a restart: ISCSI.MaxIoSizeKB" in report
    assert PASSWORD not in report
    assert [lab.volumes(host) for host in lab.hosts] == [[], []]


def test_a_lab_check_leaves_an_adapter_alone_that_carries_other_storage(lab):
    host = lab.hosts[1]
    storage = host.configManager.storageSystem
    storage.UpdateSoftwareInternetScsiEnabled(True)

    def adapter():
        return adapter_of(host)

    wait(adapter)
    send = vim.host.InternetScsiHba.SendTarget(address="198.51.100.9", port=3260)
    storage.AddInternetScsiSendTargets(adapter().device, [send])
    wait(lambda: adapter().configuredSendTarget)
    name = adapter().iScsiName
    stats = lab.play("lab_check", check=False)
    assert stats["esx1"]["failures"] == 1 and not (lab.folder / "state" / "lab_check.md").exists()
    assert adapter().iScsiName == name and [each.address for each in adapter().configuredSendTarget] == ["198.51.100.9"]
    first = lab.hosts[0].configManager.storageSystem.storageDeviceInfo
    assert first.softwareInternetScsiEnabled is False


def adapter_of(host):
    """The software adapter of a host; None while it shows none."""
    shown = host.configManager.storageSystem.storageDeviceInfo.hostBusAdapter
    return next((each for each in shown if isinstance(each, vim.host.InternetScsiHba)), None)


def wait(ready) -> None:
    deadline = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < deadline, "the host does not show it"
        time.sleep(0.1)


def guest_on(store: str, name: str, disk: dict) -> str:
    """-e: one host with a datastore on the LUN, and a guest with its disk there, whose own files lie on another datastore."""
    own = {
        "datastore": store,
        "datastore_layer": f"datastore-tb-{name}-esx0",
        "guest_id": "other6xLinux64Guest",
        "power": "off",
        "disks": [disk],
        "data_disk": "data",
    }
    kind = {"type": "rdm"} if "rdm" in disk else {}
    return json.dumps(
        {
            "datastore_datastores": [{"name": f"tb-{name}", "layer": "initiator-big-{{ inventory_hostname }}", **kind}],
            "guest_vm_provider": "esxi",
            # No target of the inventory exports the LUN.
            "guest_vm_allow_device": [f"naa.{NAA}"],
            "guest_vm_guests": "{{ guests_of_esx0 if inventory_hostname == 'esx0' else [] }}",
            "guests_of_esx0": [{"name": name, "host": "guest01", "vcpus": 1, "memory_mib": 64, "esxi": own}],
        }
    )


@pytest.mark.long
def test_the_same_lun_is_a_datastore_and_then_mapped_without_a_hand_in_between(lab):
    """What experiment E3 does on an ESXi host, without its I/O."""
    host = lab.hosts[0]
    local = next(store.name for store in host.datastore)
    on_file = {"name": "data", "datastore": "tb-vmfs", "size_mib": 8, "controller": "lsilogic", "provisioning": "eager"}
    mapped = {"name": "data", "controller": "lsilogic", "rdm": {"layer": "datastore-tb-rdm-esx0"}}
    found = {}
    for name, disk in (("vmfs", on_file), ("rdm", mapped)):
        lab.play("build", "--limit", "esx0,localhost,controller01", "-e", guest_on(local, name, disk))
        (machine,) = [vm for vm in host.vm if vm.name == f"storlab-tb-pl-{name}"]
        (made,) = [device for device in machine.config.hardware.device if isinstance(device, vim.vm.device.VirtualDisk)]
        layer = json.loads((lab.folder / "state" / "layers" / f"guest-{name}.json").read_text())
        found[name] = (made.backing, layer, [volume[1] for volume in lab.volumes(host)])
        lab.play("teardown", "--limit", "esx0,localhost,controller01", "-e", guest_on(local, name, disk))
        assert not [vm for vm in host.vm if vm.name.startswith("storlab-")] and lab.volumes(host) == []
    backing, layer, volumes = found["vmfs"]
    assert (backing.eagerlyScrub, volumes) == (True, ["tb-vmfs"]) and backing.fileName.startswith("[tb-vmfs]")
    assert (layer["parent"], layer["detail"]["machine"]) == ("datastore-tb-vmfs-esx0", "storlab-tb-pl-vmfs")
    backing, layer, volumes = found["rdm"]
    assert backing.compatibilityMode == "physicalMode" and volumes == []
    # It is the LUN that the datastore was on.
    assert (layer["parent"], layer["identity"]["naa"]) == ("datastore-tb-rdm-esx0", NAA)


@pytest.mark.long
def test_doctor_says_why_a_host_lets_nobody_in_or_lets_nothing_be_changed(tmp_path):
    (tmp_path / "luns").mkdir()
    with (
        tgt_process.Array(tmp_path / "luns", IQN, IN, OUT) as array,
        esxsim_process.running(tmp_path / "esxsim", PASSWORD, "esx") as ready,
    ):
        lab = Lab(tmp_path, ready, array)
        Disconnect(lab.instance)

        def doctor(situation: str, holds: bool) -> str:
            order = json.dumps({"name": situation, "holds": holds}).encode()
            request = urllib.request.Request(f"http://{ready['control']}/situation", data=order, method="POST")
            urllib.request.urlopen(request).close()  # noqa: S310, of this machine
            lab.play("doctor", check=False)
            return lab.output

        def row(check: str, good: str, said: str) -> str:
            """The details of a line of doctor's table, which the output has as texts in JSON."""
            [details] = set(re.findall(rf'"esx0 +{check} +{good} +([^"]*)"', said))
            return details

        said = doctor("licence-read-only", True)
        assert row("licence", "NO", said) == "VMware vSphere Hypervisor makes the API of the host read-only"
        assert "give the host a licence whose API may change it" in said
        said = doctor("licence-read-only", False)
        assert row("licence", "yes", said)
        said = doctor("lockdown", True)
        assert "lockdown mode" in row("reached", "NO", said) and PASSWORD not in said
