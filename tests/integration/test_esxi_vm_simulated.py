# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module esxi_vm as Ansible calls it, against the simulated ESXi and the simulated vCenter.

What has happened is read with pyVmomi, in the datastore's folder, and through an upstream module.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import ssl
import subprocess
import sys
import tarfile
import time
import urllib.request
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.storlab.testbed.plugins.modules import esxi_state, esxi_vm
from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import vim

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins")]
import esxsim_process
from unchanged import unchanged

PASSWORD = "sl-esxsim-pw-0815"
HOSTS = {"esx": "localhost.localdomain", "vpx": "DC0_H1"}
GUEST = {"guest_id": "debian10_64Guest", "vcpus": 3, "memory_mib": 1028}


class Simulated:
    """A simulated ESXi or vCenter, and ways to it that are not the module's."""

    def __init__(self, kind: str, home: Path, ready: dict):
        self.kind, self.home, self.ready, self.host_name = kind, home, ready, HOSTS[kind]
        self.address, port = ready["address"].split(":")
        self.port = int(port)
        context = ssl.create_default_context(cafile=ready["certificate"])
        self.instance = SmartConnect(host=self.address, port=self.port, user="root", pwd=PASSWORD, sslContext=context)
        self.content = self.instance.RetrieveContent()
        self.host = next(host for host in self.objects(vim.HostSystem) if host.name == self.host_name)
        self.store = self.host.datastore[0]
        self.network = self.host.network[0].name

    def objects(self, kind) -> list:
        view = self.content.viewManager.CreateContainerView(self.content.rootFolder, [kind], True)
        return list(view.view)

    def vm(self, name: str):
        return next((vm for host in self.objects(vim.HostSystem) for vm in host.vm if vm.name == name), None)

    def settings(self, name: str) -> dict:
        return {option.key: option.value for option in self.vm(name).config.extraConfig}

    def path(self, backing: str) -> Path:
        """Where the simulator keeps a file '[store] path'."""
        name, _bracket, path = backing[1:].partition("] ")
        store = next(store for store in self.objects(vim.Datastore) if store.name == name)
        return Path(store.summary.url) / path

    def disks(self, name: str) -> list:
        return [
            device for device in self.vm(name).config.hardware.device if isinstance(device, vim.vm.device.VirtualDisk)
        ]

    def order(self, what: str, **order) -> None:
        request = urllib.request.Request(
            f"http://{self.ready['control']}/{what}", data=json.dumps(order).encode(), method="POST"
        )
        urllib.request.urlopen(request).close()  # noqa: S310, of this machine

    def upstream(self, module: str, **arguments) -> dict:
        given = {"hostname": self.address, "port": self.port, "username": "root", "password": PASSWORD, **arguments}
        done = subprocess.run(
            [
                "ansible",
                "localhost",
                "-i",
                "localhost,",
                "-c",
                "local",
                "-m",
                module,
                "-a",
                json.dumps(given),
                "-e",
                json.dumps({"ansible_python_interpreter": sys.executable}),
            ],
            env={
                **os.environ,
                "SSL_CERT_FILE": self.ready["certificate"],
                "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
                "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        # Other callbacks may print after it.
        answer = json.JSONDecoder().raw_decode(done.stdout, done.stdout.index("{"))[0]["plays"][0]["tasks"][0]["hosts"][
            "localhost"
        ]
        assert not answer.get("failed"), answer
        return answer

    def call(self, check: bool = False, module=esxi_vm, **arguments) -> dict:
        """What the module answers."""
        given = {
            "hostname": self.address,
            "port": self.port,
            "username": "root",
            "password": PASSWORD,
            "ca_path": self.ready["certificate"],
            "esxi_host": self.host_name,
            **({"testbed_id": "tb-vm"} if module is esxi_vm else {}),
            "_ansible_check_mode": check,
            "_ansible_remote_tmp": str(self.home),
            **(
                {"datastore": self.store.name}
                if module is esxi_vm and arguments.get("state", "present") == "present"
                else {}
            ),
            **arguments,
        }
        output = io.StringIO()
        with patch_module_args(given), contextlib.redirect_stdout(output), pytest.raises(SystemExit):
            module.main()
        assert PASSWORD not in output.getvalue().partition('"invocation"')[0]
        return json.loads(output.getvalue())

    def done(self, check: bool = False, **arguments) -> dict:
        answer = self.call(check, **arguments)
        assert not answer.get("failed"), answer.get("msg")
        return answer

    def refused(self, **arguments) -> dict:
        """The failure, the same in check mode: no call has changed anything, and the datastore's files are as they were."""
        with unchanged(self.files(), esxsim_process.changes(self.ready)):
            foreseen, failure = self.broken(check=True, **arguments), self.broken(**arguments)
        assert foreseen == failure
        return failure

    def broken(self, **arguments) -> dict:
        """The failure of what had begun."""
        answer = self.call(**arguments)
        assert answer.get("failed"), answer
        return answer["failure"]

    def files(self) -> Path:
        return Path(self.store.summary.url)


@pytest.fixture(scope="module", params=["esx", "vpx"])
def sim(request, tmp_path_factory):
    home = tmp_path_factory.mktemp(request.param) / "home"
    with esxsim_process.running(home, PASSWORD, request.param) as ready:
        simulated = Simulated(request.param, home, ready)
        yield simulated
        Disconnect(simulated.instance)


@pytest.fixture
def vm_name(sim, request):
    """A machine's name, gone after the test."""
    name = f"vm-{request.node.originalname.removeprefix('test_')[:40]}"
    yield name
    sim.order("clear")
    left = sim.vm(name)
    if left is not None:
        if left.runtime.powerState == "poweredOn":
            wait(left.PowerOffVM_Task())
        wait(left.Destroy_Task())


def wait(task) -> None:
    while task.info.state in ("queued", "running"):
        time.sleep(0.02)
    assert task.info.state == "success", task.info.error


def ops(answer: dict) -> list:
    return [step["op"] for step in answer["steps"]]


DISKS = [
    {"name": "lsi", "size_mib": 11, "controller": "lsilogic"},
    {"name": "pv", "size_mib": 13, "controller": "pvscsi", "provisioning": "lazy"},
    {"name": "ata", "size_mib": 17, "controller": "ide", "provisioning": "thin"},
    {"name": "nvme", "size_mib": 19, "controller": "nvme", "unit": 3},
]


def test_machine_with_all_controllers_is_made_as_asked_for(sim, vm_name):
    asked = {
        "name": vm_name,
        **GUEST,
        "disks": DISKS,
        "nics": [{"network": sim.network}],
        "extra_config": {"guestinfo.one": "two"},
        "power": "on",
    }
    foreseen = sim.done(check=True, **asked)
    assert sim.vm(vm_name) is None
    made = sim.done(**asked)
    assert foreseen["steps"] == made["steps"]
    assert ops(made) == ["create", *["add_disk"] * 4, "add_nic", "extra_config", "power_on"]

    assert "simulated" in made["about"]["product"]
    config = sim.vm(vm_name).config
    assert (config.hardware.numCPU, config.hardware.memoryMB, config.guestId) == (3, 1028, "debian10_64Guest")
    assert config.memoryReservationLockedToMax is True
    assert config.memoryAllocation.reservation == 1028
    assert sim.vm(vm_name).runtime.powerState == "poweredOn"
    assert sim.vm(vm_name).runtime.host.name == sim.host_name
    extra = sim.settings(vm_name)
    assert (extra["storlab.testbed"], extra["disk.EnableUUID"], extra["guestinfo.one"]) == ("tb-vm", "TRUE", "two")
    assert "storlab.building" not in extra
    controllers = {device.key: type(device).__name__.rsplit(".", 1)[-1] for device in config.hardware.device}
    found = {
        disk.capacityInKB // 1024: (
            controllers[disk.controllerKey],
            disk.unitNumber,
            disk.backing.thinProvisioned,
            disk.backing.eagerlyScrub,
        )
        for disk in sim.disks(vm_name)
    }
    assert found == {
        11: ("VirtualLsiLogicController", 0, False, True),
        13: ("ParaVirtualSCSIController", 0, False, False),
        17: ("VirtualIDEController", 0, True, False),
        19: ("VirtualNVMEController", 3, False, True),
    }

    uuids = {disk.capacityInKB // 1024: disk.backing.uuid for disk in sim.disks(vm_name)}
    told = {disk["name"]: disk for disk in made["disks"]}
    assert told["lsi"]["serial"] == uuids[11].replace("-", "").lower()
    assert told["nvme"]["serial"] is None
    assert told["nvme"]["uuid"] == uuids[19]
    assert sim.path(told["pv"]["path"]).is_file()
    assert len({disk["path"] for disk in made["disks"]}) == 4

    again = sim.done(**asked)
    assert (again["changed"], again["disks"]) == (False, made["disks"])


# The scenario esxi does so with a standalone host.
@pytest.mark.parametrize("sim", ["vpx"], indirect=True)
def test_upstream_module_sees_the_same(sim, vm_name):
    sim.done(name=vm_name, **GUEST, disks=DISKS[:2], nics=[{"network": sim.network}])
    seen = sim.upstream(
        "community.vmware.vmware_guest_info",
        name=vm_name,
        datacenter="DC0",
        schema="vsphere",
        properties=["config.hardware.numCPU", "config.hardware.memoryMB", "config.hardware.device"],
    )["instance"]
    hardware = seen["config"]["hardware"]
    assert (hardware["numCPU"], hardware["memoryMB"]) == (3, 1028)
    assert sorted(device["capacityInKB"] for device in hardware["device"] if "capacityInKB" in device) == [11264, 13312]


def test_drift_is_repaired_and_a_running_machine_is_not_touched_unasked(sim, vm_name):
    first = {"name": vm_name, **GUEST, "disks": DISKS[:1], "nics": [{"network": sim.network}], "power": "on"}
    sim.done(**first)
    more = {
        **first,
        "vcpus": 5,
        "memory_mib": 2052,
        "disks": [*DISKS[:1], {"name": "second", "size_mib": 23, "controller": "lsilogic"}],
    }
    failure = sim.refused(**more)
    assert (failure["code"], failure["details"]["steps"]) == ("needs_power_off", ["vcpus", "memory_mib"])
    assert len(sim.disks(vm_name)) == 1
    changed = sim.done(**more, restart=True)
    assert ops(changed) == ["power_off", "vcpus", "memory_mib", "add_disk", "power_on"]
    config = sim.vm(vm_name).config
    assert (config.hardware.numCPU, config.hardware.memoryMB, config.memoryAllocation.reservation) == (5, 2052, 2052)
    assert sim.vm(vm_name).runtime.powerState == "poweredOn"
    # A disk at a SCSI controller that is there goes in while the machine runs.
    hot = sim.done(**{**more, "disks": [*more["disks"], {"name": "third", "size_mib": 29, "controller": "lsilogic"}]})
    assert ops(hot) == ["add_disk"]
    assert sorted(disk.unitNumber for disk in sim.disks(vm_name)) == [0, 1, 2]
    assert ops(sim.done(**{**more, "power": "off"})) == ["power_off"]


def test_an_existing_disk_is_never_made_anew(sim, vm_name):
    sim.done(name=vm_name, **GUEST, disks=DISKS[:2])
    before = sorted(disk.backing.uuid for disk in sim.disks(vm_name))
    for key, value in (("size_mib", 12), ("provisioning", "thin"), ("provisioning", "lazy"), ("controller", "pvscsi")):
        failure = sim.refused(name=vm_name, **GUEST, disks=[{**DISKS[0], key: value}])
        assert failure["code"] == "disk_differs", (key, value)
    assert sorted(disk.backing.uuid for disk in sim.disks(vm_name)) == before


def test_stranger_is_left_alone_in_every_state(sim, vm_name):
    sim.done(name=vm_name, **GUEST, disks=DISKS[:1], testbed_id="another", power="on")
    before = sim.settings(vm_name)
    for state in ("present", "absent", "zeroed"):
        asked = {"name": vm_name, "state": state, **(GUEST if state == "present" else {})}
        failure = sim.refused(**asked)
        assert (failure["code"], failure["details"]["owner"]) == ("vm_foreign", "another"), state
    assert sim.done(name=vm_name, state="released")["changed"] is False
    assert (sim.settings(vm_name), sim.vm(vm_name).runtime.powerState) == (before, "poweredOn")
    sim.done(name=vm_name, state="absent", testbed_id="another")


def test_absent_takes_everything_and_only_that(sim, vm_name):
    made = sim.done(name=vm_name, **GUEST, disks=DISKS[:2], power="on")
    folder = sim.path(made["vm"]["path"]).parent
    assert folder.is_dir()
    foreseen = sim.done(check=True, name=vm_name, state="absent")
    assert sim.vm(vm_name) is not None
    gone = sim.done(name=vm_name, state="absent")
    assert gone["steps"] == foreseen["steps"]
    assert ops(gone) == ["kill", "destroy"]
    assert sim.vm(vm_name) is None
    assert not folder.exists()
    assert sim.done(name=vm_name, state="absent")["changed"] is False


def test_zeroing_names_what_it_fills_and_wants_the_machine_off(sim, vm_name):
    sim.done(name=vm_name, **GUEST, disks=DISKS[:2], power="on")
    assert sim.refused(name=vm_name, state="zeroed", disks=[{"name": "lsi"}])["code"] == "needs_power_off"
    assert sim.refused(name=vm_name, state="zeroed", disks=[{"name": "nobody"}])["code"] == "bad_value"
    urllib.request.urlopen(f"http://{sim.ready['control']}/calls").close()
    done = sim.done(name=vm_name, state="zeroed", restart=True, disks=[{"name": "lsi"}])
    assert ops(done) == ["power_off", "zero", "power_on"]
    with urllib.request.urlopen(f"http://{sim.ready['control']}/calls") as answer:
        assert json.load(answer)["ZeroFillVirtualDisk_Task"] == 1
    assert ops(sim.done(check=True, name=vm_name, state="zeroed", restart=True)) == [
        "power_off",
        "zero",
        "zero",
        "power_on",
    ]


def test_iso_is_uploaded_once_and_goes_with_the_last_machine(sim, vm_name, tmp_path):
    image = tmp_path / "boot.iso"
    image.write_bytes(os.urandom(300_001))
    asked = {"name": vm_name, **GUEST, "iso": {"src": str(image), "path": "tb-boot.iso"}}
    assert ops(sim.done(check=True, **asked)) == ["upload_iso", "create", "add_cdrom"]
    sim.done(**asked)
    there = sim.path(f"[{sim.store.name}] tb-boot.iso")
    assert there.read_bytes() == image.read_bytes()
    drive = next(
        device for device in sim.vm(vm_name).config.hardware.device if isinstance(device, vim.vm.device.VirtualCdrom)
    )
    assert (drive.backing.fileName, drive.connectable.startConnected) == (f"[{sim.store.name}] tb-boot.iso", True)
    assert sim.done(**asked)["changed"] is False
    image.write_bytes(os.urandom(300_001))
    assert ops(sim.done(**asked)) == ["upload_iso"]
    assert hashlib.sha256(there.read_bytes()).digest() == hashlib.sha256(image.read_bytes()).digest()
    sim.done(**{**asked, "name": f"{vm_name}-2"})
    gone = {"state": "absent", "iso": asked["iso"], "datastore": sim.store.name}
    assert ops(sim.done(name=f"{vm_name}-2", **gone)) == ["destroy"]
    assert there.exists()
    assert ops(sim.done(name=vm_name, **gone)) == ["destroy", "remove_iso"]
    assert not list(there.parent.glob("tb-boot*"))


def test_iso_of_others_is_not_overwritten(sim, vm_name, tmp_path):
    image, there = tmp_path / "x.iso", sim.path(f"[{sim.store.name}] foreign.iso")
    image.write_bytes(b"new")
    there.write_bytes(b"old")
    assert sim.refused(name=vm_name, **GUEST, iso={"src": str(image), "path": "foreign.iso"})["code"] == "iso_foreign"
    assert there.read_bytes() == b"old"
    sim.done(name=vm_name, **GUEST, iso={"path": "foreign.iso"})
    sim.done(name=vm_name, state="absent", iso={"path": "foreign.iso"}, datastore=sim.store.name)
    assert there.read_bytes() == b"old"
    there.unlink()
    assert sim.refused(name=vm_name, **GUEST, iso={"path": "foreign.iso"})["code"] == "iso_missing"
    assert sim.refused(name=vm_name, **GUEST, iso={"path": "no-folder/foreign.iso"})["code"] == "iso_missing"
    assert sim.vm(vm_name) is None


def test_creation_that_fails_half_way_leaves_nothing(sim, vm_name, tmp_path):
    image = tmp_path / "boot.iso"
    image.write_bytes(b"image")
    asked = {
        "name": vm_name,
        **GUEST,
        "disks": DISKS[:1],
        "iso": {"src": str(image), "path": "half.iso"},
        "power": "on",
    }
    for method, fault, code in (
        ("ReconfigVM_Task", "NoPermission", "no_permission"),
        ("PowerOnVM_Task", "ResourceInUse", "in_use"),
        ("ReconfigVM_Task", "NotAuthenticated", "session_lost"),
    ):
        sim.order("fault", method=method, fault=fault, times=1)
        with unchanged(sim.files()):
            assert sim.broken(**asked)["code"] == code
        assert sim.vm(vm_name) is None


def test_creation_that_was_cut_off_is_made_anew(sim, vm_name):
    asked = {"name": vm_name, **GUEST, "disks": DISKS[:1]}
    sim.order("fault", method="ReconfigVM_Task", fault="HostConfigFault", times=1)
    sim.order("fault", method="Destroy_Task", fault="HostConfigFault", times=1)
    assert sim.broken(**asked)["code"] == "refused"
    assert sim.settings(vm_name)["storlab.building"] == "TRUE"
    foreseen = sim.done(check=True, **asked)
    made = sim.done(**asked)
    assert ops(made) == ops(foreseen) == ["destroy", "create", "add_disk"]
    assert "storlab.building" not in sim.settings(vm_name)
    assert sim.done(**asked)["changed"] is False


def test_raw_mapping_of_a_lun(sim, vm_name):
    lun = next(lun for lun in sim.host.configManager.storageSystem.storageDeviceInfo.scsiLun if lun.lunType == "disk")
    size = lun.capacity.block * lun.capacity.blockSize
    layers = {"datastore-raw": {"identity": {"naa": lun.canonicalName, "serial": "LUN-4711"}}}
    asked = {
        "name": vm_name,
        **GUEST,
        "layers": layers,
        "disks": [
            {"name": "file", "size_mib": 7},
            {"name": "raw", "controller": "lsilogic", "rdm": {"layer": "datastore-raw"}},
        ],
    }
    # No target of a testbed exports it.
    failure = sim.refused(**asked)
    assert (failure["code"], failure["details"]["naa"]) == ("device_unproven", lun.canonicalName)
    asked["allow_device"] = [lun.canonicalName]
    sim.order("withhold", name=lun.canonicalName, holds=True)
    assert sim.refused(**asked)["code"] == "device_unfit"
    sim.order("withhold", name=lun.canonicalName, holds=False)
    made = sim.done(**asked)
    told = {disk["name"]: disk for disk in made["disks"]}["raw"]
    assert (told["naa"], told["serial"], told["compatibility"], told["size_bytes"]) == (
        lun.canonicalName,
        "LUN-4711",
        "physical",
        size,
    )
    backing = next(disk.backing for disk in sim.disks(vm_name) if disk.capacityInBytes == size)
    assert (backing.compatibilityMode, backing.lunUuid, backing.diskMode) == (
        "physicalMode",
        lun.uuid,
        "independent_persistent",
    )
    assert sim.done(**asked)["changed"] is False
    assert sim.refused(name=vm_name, state="zeroed")["code"] == "disk_raw"
    assert (
        sim.refused(name=f"{vm_name}-2", **{key: asked[key] for key in asked if key != "name"})["code"]
        == "device_in_use"
    )
    virtual = [asked["disks"][0], {**asked["disks"][1], "rdm": {"layer": "datastore-raw", "compatibility": "virtual"}}]
    assert sim.refused(**{**asked, "disks": virtual})["code"] == "disk_differs"
    assert (
        sim.refused(**{**asked, "disks": [{"name": "none", "rdm": {"naa": "naa.6000dead"}}]})["code"] == "lun_missing"
    )


def test_address_is_waited_for(sim, vm_name):
    asked = {"name": vm_name, **GUEST, "nics": [{"network": sim.network}]}
    assert sim.broken(**asked, wait_for_address_s=1)["details"]["power"] == "poweredOff"
    failure = sim.broken(**asked, power="on", wait_for_address_s=1)
    assert (failure["code"], failure["details"]["power"]) == ("address_missing", "poweredOn")
    sim.done(**asked, power="off")
    told = sim.done(**asked, power="on", extra_config={"guestinfo.storlab.ip": "10.77.1.9"}, wait_for_address_s=5)
    assert told["address"] == "10.77.1.9"


def test_template_is_cloned_by_a_vcenter_only(sim, vm_name):
    asked = {
        "name": f"{vm_name}-clone",
        "template": vm_name,
        "vcpus": 2,
        "disks": [{"name": "data", "size_mib": 31, "controller": "lsilogic"}],
    }
    if sim.kind == "esx":
        assert sim.refused(**asked)["code"] == "template_needs_vcenter"
        return
    sim.done(
        name=vm_name,
        **GUEST,
        disks=[{"name": "system", "size_mib": 37, "controller": "lsilogic"}],
        nics=[{"network": sim.network}],
    )
    sim.vm(vm_name).MarkAsTemplate()
    foreseen = sim.done(check=True, **asked)
    made = sim.done(**asked)
    assert foreseen["steps"] == made["steps"]
    assert ops(made)[0] == "create"
    assert sorted((disk.unitNumber, disk.capacityInKB // 1024) for disk in sim.disks(asked["name"])) == [
        (0, 37),
        (1, 31),
    ]
    extra = sim.settings(asked["name"])
    assert "storlab.disk.system" not in extra
    assert sim.vm(asked["name"]).config.hardware.numCPU == 2
    assert sim.done(**asked)["changed"] is False
    sim.done(name=asked["name"], state="absent")
    assert sim.refused(**{**asked, "template": "nowhere"})["code"] == "bad_value"


OVF = """<?xml version="1.0" encoding="UTF-8"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
 xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
 xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData">
 <References><File ovf:href="system.vmdk" ovf:id="file1" ovf:size="{size}"/></References>
 <DiskSection><Info>d</Info><Disk ovf:capacity="41" ovf:capacityAllocationUnits="byte * 2^20" ovf:diskId="vmdisk1" ovf:fileRef="file1"/></DiskSection>
 <NetworkSection><Info>n</Info><Network ovf:name="nat"><Description>n</Description></Network></NetworkSection>
 <VirtualSystem ovf:id="vm"><Info>v</Info><Name>vm</Name><OperatingSystemSection ovf:id="96"><Info>o</Info></OperatingSystemSection>
 <VirtualHardwareSection><Info>h</Info>
 <System><vssd:ElementName>v</vssd:ElementName><vssd:InstanceID>0</vssd:InstanceID><vssd:VirtualSystemType>vmx-13</vssd:VirtualSystemType></System>
 <Item><rasd:ElementName>cpu</rasd:ElementName><rasd:InstanceID>1</rasd:InstanceID><rasd:ResourceType>3</rasd:ResourceType>
  <rasd:VirtualQuantity>6</rasd:VirtualQuantity></Item>
 <Item><rasd:ElementName>mem</rasd:ElementName><rasd:InstanceID>2</rasd:InstanceID><rasd:ResourceType>4</rasd:ResourceType>
  <rasd:VirtualQuantity>516</rasd:VirtualQuantity></Item>
 <Item><rasd:Address>0</rasd:Address><rasd:ElementName>scsi</rasd:ElementName><rasd:InstanceID>3</rasd:InstanceID>
  <rasd:ResourceSubType>lsilogic</rasd:ResourceSubType><rasd:ResourceType>6</rasd:ResourceType></Item>
 <Item><rasd:AddressOnParent>0</rasd:AddressOnParent><rasd:ElementName>disk</rasd:ElementName><rasd:HostResource>ovf:/disk/vmdisk1</rasd:HostResource>
  <rasd:InstanceID>4</rasd:InstanceID><rasd:Parent>3</rasd:Parent><rasd:ResourceType>17</rasd:ResourceType></Item>
 </VirtualHardwareSection></VirtualSystem></Envelope>"""


def ova(path: Path, disk: bytes, manifest: str | None = None, leave_out: bool = False) -> str:
    descriptor = OVF.format(size=len(disk)).encode()
    said = manifest or "".join(
        f"SHA256({name})= {hashlib.sha256(content).hexdigest()}\n"
        for name, content in (("vm.ovf", descriptor), ("system.vmdk", disk))
    )
    with tarfile.open(path, "w") as tar:
        for name, content in (("vm.ovf", descriptor), ("vm.mf", said.encode()), ("system.vmdk", disk))[
            : 2 if leave_out else 3
        ]:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return str(path)


def test_ova_is_imported(sim, vm_name, tmp_path):
    file = ova(tmp_path / "vm.ova", os.urandom(3_000_017))
    asked = {
        "name": vm_name,
        "ova": file,
        "disks": [{"name": "data", "size_mib": 43, "controller": "lsilogic"}],
        "nics": [{"network": sim.network}],
    }
    foreseen = sim.done(check=True, **asked)
    assert sim.vm(vm_name) is None
    made = sim.done(**asked)
    assert foreseen["steps"] == made["steps"]
    config = sim.vm(vm_name).config
    assert (config.hardware.numCPU, config.hardware.memoryMB, config.memoryReservationLockedToMax) == (6, 516, True)
    assert sorted((disk.unitNumber, disk.capacityInKB // 1024) for disk in sim.disks(vm_name)) == [(0, 41), (1, 43)]
    assert sim.settings(vm_name)["storlab.testbed"] == "tb-vm"
    assert sim.done(**asked)["changed"] is False


def test_bad_ova_leaves_nothing(sim, vm_name, tmp_path):
    text = tmp_path / "no.ova"
    text.write_text("this is no archive")
    wrong = f"SHA256(system.vmdk)= {'0' * 64}\n"
    for file in (
        str(text),
        ova(tmp_path / "wrong.ova", b"disk" * 999, manifest=wrong),
        ova(tmp_path / "short.ova", b"disk", leave_out=True),
    ):
        with unchanged(sim.files()):
            assert sim.broken(name=vm_name, ova=file)["code"] == "ova_damaged", file
        assert sim.vm(vm_name) is None
    assert sim.refused(name=vm_name, ova=str(tmp_path / "none.ova"))["code"] == "bad_value"


def test_what_the_host_lacks_is_named_before_anything_is_made(sim, vm_name):
    assert sim.refused(name=vm_name, **GUEST, nics=[{"network": "no such"}])["code"] == "bad_value"
    assert sim.refused(name=vm_name, **GUEST, datastore="no-such")["code"] == "bad_value"
    assert sim.refused(name=vm_name, **GUEST, disks=[{"name": "big", "size_mib": 1 << 34}])["code"] == "datastore_full"
    assert sim.vm(vm_name) is None


# ---------------------------------------------------------------- what others attached


def theirs(sim, vm_name: str, name: str, folder: str = "golden", **more):
    """Attach a disk of somebody else to the machine, as an administrator would, and return its file."""
    path = f"[{sim.store.name}] {folder}/{name}"
    (sim.files() / folder).mkdir(exist_ok=True)
    spec = vim.VirtualDiskManager.FileBackedVirtualDiskSpec(
        diskType="thin", adapterType="lsiLogic", capacityKb=7 * 1024
    )
    wait(
        sim.content.virtualDiskManager.CreateVirtualDisk_Task(
            name=path, spec=spec, datacenter=sim.objects(vim.Datacenter)[0]
        )
    )
    change(sim, vm_name, disk_device(sim, vm_name, path, **more))
    sim.path(path).write_text("the only copy of a data set")
    return path


def disk_device(sim, vm_name: str, path: str, mode: str = "persistent"):
    controller = next(
        device
        for device in sim.vm(vm_name).config.hardware.device
        if isinstance(device, vim.vm.device.VirtualSCSIController)
    )
    backing = vim.vm.device.VirtualDisk.FlatVer2BackingInfo(fileName=path, diskMode=mode)
    return vim.vm.device.VirtualDisk(key=-55, controllerKey=controller.key, unitNumber=11, backing=backing)


def change(sim, vm_name: str, device, operation: str = "add") -> None:
    spec = vim.vm.device.VirtualDeviceSpec(operation=operation, device=device)
    wait(sim.vm(vm_name).ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[spec])))


@pytest.mark.parametrize("mode", ["persistent", "independent_persistent", "independent_nonpersistent"])
def test_a_disk_that_somebody_attached_is_there_after_the_machine_is_gone(sim, vm_name, mode):
    made = sim.done(name=vm_name, **GUEST, disks=DISKS[:2], power="on")
    golden = theirs(sim, vm_name, "dataset.vmdk", mode=mode)
    try:
        # A build does not mind it, and does not take it for its own.
        again = sim.done(name=vm_name, **GUEST, disks=DISKS[:2])
        assert (again["changed"], again["disks"]) == (False, made["disks"])
        foreseen = sim.done(check=True, name=vm_name, state="absent")
        assert [(step["op"], step["target"], step["will"]) for step in foreseen["steps"]] == [
            ("kill", vm_name, "off"),
            ("detach", golden, "kept"),
            ("destroy", vm_name, None),
        ]
        assert f"detach {golden}: disk that the testbed did not attach" in foreseen["diff"]["before"]
        assert foreseen["kept_for_others"] == [golden]
        gone = sim.done(name=vm_name, state="absent")
        assert (gone["steps"], gone["kept_for_others"]) == (foreseen["steps"], [golden])
        assert sim.vm(vm_name) is None
        assert sim.path(golden).read_text() == "the only copy of a data set"
        assert not [disk["path"] for disk in made["disks"] if sim.path(disk["path"]).exists()]
    finally:
        sim.path(golden).unlink(missing_ok=True)


def test_disks_of_ours_on_another_datastore_go_with_the_machine(sim, vm_name, tmp_path):
    """So that what stays of others stays because it was detached, and not because it lies elsewhere."""
    other = tmp_path / "other"
    other.mkdir()
    store = sim.host.configManager.datastoreSystem.CreateLocalDatastore(f"other-{sim.kind}", str(other))
    try:
        far = {"name": "far", "size_mib": 5, "controller": "lsilogic", "datastore": store.name}
        sim.done(name=vm_name, **GUEST, disks=[DISKS[0], far])
        (disk,) = {path.parent for path in other.rglob("*.vmdk")}
        (disk / "theirs").write_text("put beside it")
        sim.done(name=vm_name, state="absent")
        assert [path.name for path in other.rglob("*") if path.is_file()] == ["theirs"]
        (disk / "theirs").unlink()
        sim.done(name=vm_name, **GUEST, disks=[DISKS[0], far])
        sim.done(name=vm_name, state="absent")
        assert not list(other.rglob("*"))
    finally:
        sim.host.configManager.datastoreSystem.RemoveDatastore(store)


def test_images_and_files_of_ports_that_others_mounted_are_there_after_the_machine_is_gone(sim, vm_name):
    sim.done(name=vm_name, **GUEST, disks=DISKS[:1])
    home, store = sim.vm(vm_name).config.files.vmPathName.rpartition("/")[0], sim.store.name
    paths = [f"[{store}] theirs/tools.iso", f"[{store}] theirs/boot.flp", f"{home}/console.txt"]
    (sim.files() / "theirs").mkdir()
    for path in paths:
        sim.path(path).write_text("theirs")
    backings = vim.vm.device
    drive = backings.VirtualCdrom(
        key=-60, controllerKey=201, unitNumber=0, backing=backings.VirtualCdrom.IsoBackingInfo(fileName=paths[0])
    )
    floppy = backings.VirtualFloppy(
        key=-61, controllerKey=400, unitNumber=0, backing=backings.VirtualFloppy.ImageBackingInfo(fileName=paths[1])
    )
    port = backings.VirtualSerialPort(
        key=-62,
        controllerKey=400,
        unitNumber=0,
        yieldOnPoll=True,
        backing=backings.VirtualSerialPort.FileBackingInfo(fileName=paths[2]),
    )
    for device in (drive, floppy, port):
        change(sim, vm_name, device)
    try:
        foreseen = sim.done(check=True, name=vm_name, state="absent")
        gone = sim.done(name=vm_name, state="absent")
        assert (gone["steps"], gone["kept_for_others"]) == (foreseen["steps"], sorted(paths))
        assert [step["target"] for step in gone["steps"] if step["will"] == "kept"] == paths
        # One of them lies in the machine's own folder, which a host may delete with all that is in it.
        assert "destroy" not in ops(gone)
        assert sim.vm(vm_name) is None
        assert [sim.path(path).read_text() for path in paths] == ["theirs"] * 3
        assert [path.name for path in sim.path(paths[2]).parent.iterdir()] == ["console.txt"]
        assert sim.done(name=vm_name, state="absent")["changed"] is False
    finally:
        for path in paths:
            sim.path(path).unlink(missing_ok=True)
        (sim.files() / "theirs").rmdir()
        sim.path(paths[2]).parent.rmdir()


def test_a_disk_that_somebody_made_in_the_machines_own_folder_is_kept_there(sim, vm_name):
    """What a client proposes for a new disk is a file beside the machine's own."""
    made = sim.done(name=vm_name, **GUEST, disks=DISKS)
    home = sim.vm(vm_name).config.files.vmPathName.rpartition("/")[0]
    folder = sim.path(home)
    added = theirs(sim, vm_name, "added.vmdk", folder=folder.name)
    (folder / "notes.md").write_text("put beside it")
    foreseen = sim.done(check=True, name=vm_name, state="absent")
    gone = sim.done(name=vm_name, state="absent")
    assert gone["steps"] == foreseen["steps"] and foreseen["kept_for_others"] == gone["kept_for_others"]
    assert gone["kept_for_others"] == [added, f"{home}/notes.md"]
    assert sim.vm(vm_name) is None
    left = {path.name for path in folder.iterdir()}
    assert left >= {"added.vmdk", "notes.md"} and left <= {"added.vmdk", "added-flat.vmdk", "notes.md"}
    assert (folder / "added.vmdk").read_text() == "the only copy of a data set"
    assert not [disk["path"] for disk in made["disks"] if sim.path(disk["path"]).exists()]
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_a_snapshot_that_holds_a_disk_of_others_stops_the_teardown(sim, vm_name):
    sim.done(name=vm_name, **GUEST, disks=DISKS[:1])
    golden = theirs(sim, vm_name, "kept-by-snapshot.vmdk")
    wait(sim.vm(vm_name).CreateSnapshot_Task(name="before-test-7", memory=False, quiesce=False))
    try:
        failure = sim.refused(name=vm_name, state="absent")
        assert (failure["code"], failure["details"]["snapshot"]) == ("snapshot_foreign", "before-test-7")
        assert (failure["details"]["path"], sim.path(golden).is_file()) == (golden, True)
        wait(sim.vm(vm_name).RemoveAllSnapshots_Task())
        assert sim.done(name=vm_name, state="absent")["kept_for_others"] == [golden]
        assert sim.path(golden).read_text() == "the only copy of a data set"
    finally:
        sim.path(golden).unlink(missing_ok=True)


def test_snapshots_of_our_own_disks_are_named_and_go_with_the_machine(sim, vm_name):
    sim.done(name=vm_name, **GUEST, disks=DISKS[:1])
    wait(sim.vm(vm_name).CreateSnapshot_Task(name="after-build", memory=False, quiesce=False))
    golden = theirs(sim, vm_name, "later.vmdk")
    try:
        gone = sim.done(name=vm_name, state="absent")
        assert ops(gone) == ["detach", "destroy"] and "after-build" in gone["steps"][-1]["was"]
        assert sim.path(golden).read_text() == "the only copy of a data set"
    finally:
        sim.path(golden).unlink(missing_ok=True)


def test_a_disk_in_place_of_ours_is_neither_filled_nor_destroyed(sim, vm_name):
    sim.done(name=vm_name, **GUEST, disks=DISKS[:1])
    (ours,) = sim.disks(vm_name)
    change(sim, vm_name, ours, operation="remove")
    golden = f"[{sim.store.name}] golden/instead.vmdk"
    theirs(sim, vm_name, "instead.vmdk")
    moved = next(disk for disk in sim.disks(vm_name) if disk.backing.fileName == golden)
    change(sim, vm_name, moved, operation="remove")
    moved.unitNumber, moved.key = 0, -71
    change(sim, vm_name, moved)
    try:
        for asked in (
            {"name": vm_name, **GUEST, "disks": DISKS[:1]},
            {"name": vm_name, "state": "zeroed", "disks": [{"name": "lsi"}]},
        ):
            assert sim.refused(**asked)["code"] in ("disk_replaced", "bad_value")
        assert sim.done(name=vm_name, state="absent")["kept_for_others"][0] == golden
        assert sim.path(golden).read_text() == "the only copy of a data set"
    finally:
        sim.path(golden).unlink(missing_ok=True)
        sim.path(ours.backing.fileName).unlink(missing_ok=True)


# ---------------------------------------------------------------- lockdown mode, a licence


@pytest.fixture
def situation(sim):
    """Puts the host into a situation until the end of the test."""
    begun = []

    def begin(name: str) -> None:
        begun.append(name)
        sim.order("situation", name=name, holds=True)

    yield begin
    for name in begun:
        sim.order("situation", name=name, holds=False)


def test_a_host_in_lockdown_mode_says_so_and_is_not_called_unreachable(sim, vm_name, situation):
    situation("lockdown")
    failure = sim.refused(name=vm_name, **GUEST)
    assert failure["code"] == "no_access"
    assert "lockdown mode" in sim.call(name=vm_name, **GUEST)["msg"]
    assert sim.vm(vm_name) is None


def test_a_licence_that_lets_nothing_be_changed_says_so(sim, vm_name, situation):
    situation("licence-read-only")
    with unchanged(sim.files()):
        answer = sim.call(name=vm_name, **GUEST)
    assert (answer["failure"]["code"], sim.vm(vm_name)) == ("licence_read_only", None)
    assert "makes its API read-only" in answer["msg"]
    # What only looks goes on: that a licence forbids changes is known before one is tried.
    state = sim.call(module=esxi_state)
    assert state.get("read_only_licence") == ("VMware vSphere Hypervisor" if sim.kind == "esx" else None)


def test_a_licence_that_lets_a_host_be_changed_is_no_finding(sim):
    assert "read_only_licence" not in sim.call(module=esxi_state)


# ---------------------------------------------------------------- moved by a cluster, images in folders


@pytest.mark.parametrize("sim", ["vpx"], indirect=True)
def test_a_machine_that_the_cluster_has_moved_is_brought_back(sim, vm_name):
    asked = {"name": vm_name, **GUEST, "disks": DISKS[:1], "power": "on"}
    sim.done(**asked)
    sim.order("move", name=vm_name, host="DC0_H0")
    assert sim.vm(vm_name).runtime.host.name == "DC0_H0"
    foreseen = sim.done(check=True, **asked)
    assert sim.vm(vm_name).runtime.host.name == "DC0_H0"
    assert sim.refused(**asked, testbed_id="another")["code"] == "vm_foreign"
    assert sim.vm(vm_name).runtime.host.name == "DC0_H0"
    done = sim.done(**asked)
    assert done["steps"] == foreseen["steps"]
    assert [(step["op"], step["was"], step["will"]) for step in done["steps"]] == [("move", "DC0_H0", "DC0_H1")]
    assert sim.vm(vm_name).runtime.host.name == "DC0_H1"
    assert sim.vm(vm_name).runtime.powerState == "poweredOn"
    assert sim.done(**asked)["changed"] is False


@pytest.mark.parametrize("sim", ["vpx"], indirect=True)
def test_a_machine_that_the_cluster_has_moved_is_removed_where_it_is(sim, vm_name):
    sim.done(name=vm_name, **GUEST, power="on")
    sim.order("move", name=vm_name, host="DC0_H0")
    assert ops(sim.done(name=vm_name, state="absent")) == ["kill", "destroy"]
    assert sim.vm(vm_name) is None


def test_an_image_goes_into_folders_that_are_made_for_it_and_go_with_it(sim, vm_name, tmp_path):
    image = tmp_path / "setup.iso"
    image.write_bytes(b"an image of its own " * 1000)
    asked = {"name": vm_name, **GUEST, "iso": {"src": str(image), "path": "tb-images/deep/setup.iso"}}
    folder = Path(sim.store.summary.url) / "tb-images"
    foreseen = sim.done(check=True, **asked)
    assert not folder.exists()
    made = sim.done(**asked)
    assert made["steps"] == foreseen["steps"]
    assert (folder / "deep" / "setup.iso").read_bytes() == image.read_bytes()
    assert sim.done(**asked)["changed"] is False
    # What somebody has put there meanwhile stays, and so does its folder.
    (folder / "theirs").write_text("keep")
    sim.done(name=vm_name, state="absent", datastore=sim.store.name, iso=asked["iso"])
    assert [path.name for path in folder.rglob("*")] == ["theirs"]
    (folder / "theirs").unlink()
    folder.rmdir()
    sim.done(**asked)
    sim.done(name=vm_name, state="absent", datastore=sim.store.name, iso=asked["iso"])
    assert not folder.exists()


# ---------------------------------------------------------------- Windows that installs itself; the host is simulated, and no Windows runs in it

WINDOWS_PASSWORD = "sl-Windows-pw-4711"
KEY = "AAAA1-BBBB2-CCCC3-DDDD4-EEEE5"


def unattended(sim, vm_name, tmp_path) -> dict:
    image = tmp_path / "windows.iso"
    image.write_bytes(os.urandom(100_003))
    return {
        "name": vm_name,
        **GUEST,
        "disks": [{"name": "system", "size_mib": 16, "controller": "ide", "provisioning": "thin"}],
        "iso": {"src": str(image), "path": "windows.iso"},
        "unattended": {
            "administrator_password": WINDOWS_PASSWORD,
            "product_key": KEY,
            "image_index": 1,
            "host_name": "RAM01",
        },
        "nics": [{"network": sim.network, "type": "e1000e"}],
        "power": "on",
    }


def drives(sim, vm_name) -> list:
    return [
        getattr(device.backing, "fileName", None)
        for device in sim.vm(vm_name).config.hardware.device
        if isinstance(device, vim.vm.device.VirtualCdrom)
    ]


def test_answer_file_has_a_drive_of_its_own_until_windows_is_installed(sim, vm_name, tmp_path):
    asked = unattended(sim, vm_name, tmp_path)
    foreseen = sim.done(check=True, **asked)
    made = sim.done(**asked)
    assert foreseen["steps"] == made["steps"]
    assert ops(made) == [
        "upload_iso",
        "upload_answers",
        "create",
        "add_disk",
        "add_cdrom",
        "add_cdrom",
        "add_nic",
        "power_on",
    ]
    shown = json.dumps({key: made[key] for key in ("steps", "diff")})
    assert WINDOWS_PASSWORD not in json.dumps(made) and KEY not in json.dumps(made) and "RAM01" in shown
    answers = f"[{sim.store.name}] storlab-tb-vm/{vm_name}-answers.iso"
    assert drives(sim, vm_name) == [f"[{sim.store.name}] windows.iso", answers]
    there = sim.path(answers)
    assert WINDOWS_PASSWORD.encode() in there.read_bytes()
    # The note beside it has no digest, by which a password could be guessed.
    sidecar = json.loads(Path(f"{there}.storlab.json").read_text())
    assert set(sidecar) == {"storlab.testbed", "size_bytes", "folders"}
    # Under a machine that runs nothing is replaced.
    assert sim.done(**asked)["changed"] is False

    ended = {"name": vm_name, "state": "installed", "datastore": sim.store.name}
    planned = sim.done(check=True, **ended)
    assert there.exists()
    assert ops(planned) == ops(sim.done(**ended)) == ["extra_config", "eject", "remove_iso"]
    assert drives(sim, vm_name)[0] == f"[{sim.store.name}] windows.iso" and answers not in drives(sim, vm_name)
    assert not there.parent.exists() and sim.vm(vm_name).runtime.powerState == "poweredOn"
    assert sim.done(**ended)["changed"] is False
    # It is not put back, not even when the machine is off.
    wait(sim.vm(vm_name).PowerOffVM_Task())
    assert ops(sim.done(**asked)) == ["power_on"] and not there.parent.exists()
    gone = {"name": vm_name, "state": "absent", "iso": asked["iso"], "datastore": sim.store.name}
    assert ops(sim.done(**gone)) == ["kill", "destroy", "remove_iso"]


@pytest.mark.parametrize("moment", ["uploaded", "made"])
def test_answer_file_of_a_run_that_was_cut_goes_with_the_teardown(sim, vm_name, tmp_path, moment):
    asked = unattended(sim, vm_name, tmp_path)
    sim.done(**asked)
    there = sim.path(f"[{sim.store.name}] storlab-tb-vm/{vm_name}-answers.iso")
    if moment == "uploaded":
        # As it is when the run ends between the upload and the machine.
        kept = {path.name: path.read_bytes() for path in there.parent.iterdir()}
        wait(sim.vm(vm_name).PowerOffVM_Task())
        wait(sim.vm(vm_name).Destroy_Task())
        there.parent.mkdir(exist_ok=True)
        for name, content in kept.items():
            (there.parent / name).write_bytes(content)
    gone = {"name": vm_name, "state": "absent", "iso": asked["iso"], "datastore": sim.store.name}
    foreseen = sim.done(check=True, **gone)
    assert there.exists()
    ended = sim.done(**gone)
    assert foreseen["steps"] == ended["steps"] and ops(ended).count("remove_iso") == 2
    assert not there.parent.exists() and sim.vm(vm_name) is None
    assert sim.done(**gone)["changed"] is False


def test_answer_file_of_a_creation_that_fails_goes_at_once(sim, vm_name, tmp_path):
    asked = unattended(sim, vm_name, tmp_path)
    there = sim.path(f"[{sim.store.name}] storlab-tb-vm/{vm_name}-answers.iso")
    for method in ("CreateVM_Task", "ReconfigVM_Task"):
        sim.order("fault", method=method, fault="NoPermission", times=1)
        with unchanged(sim.files()):
            assert sim.broken(**asked)["code"] == "no_permission"
        assert not there.parent.exists() and sim.vm(vm_name) is None


def test_file_of_others_in_the_place_of_the_answer_file_is_kept(sim, vm_name, tmp_path):
    asked = unattended(sim, vm_name, tmp_path)
    there = sim.path(f"[{sim.store.name}] storlab-tb-vm/{vm_name}-answers.iso")
    there.parent.mkdir()
    there.write_bytes(b"theirs")
    assert sim.refused(**asked)["code"] == "iso_foreign"
    gone = {"name": vm_name, "state": "absent", "iso": asked["iso"], "datastore": sim.store.name}
    assert sim.done(**gone)["changed"] is False
    assert there.read_bytes() == b"theirs"
    there.unlink()
    there.parent.rmdir()
