# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether esxi_datastore formats, destroys or gives up what it should not, against the simulated ESXi and a real tgtd.

What is on a LUN is read in its file. Each refusal is also held to having changed nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shutil
import ssl
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.storlab.testbed.plugins.modules import esxi_datastore, esxi_iscsi, esxi_state, esxi_vm
from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import vim

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins")]
import esxsim_process
import tgt_process
from unchanged import Watch, unchanged

PASSWORD, IN, OUT = "sl-esxsim-pw-1101", "secret-in-1102", "secret-out-1103"
IQN = "iqn.2026-11.test.storlab:contents"
NAA, NEXT = "600000000000000000c0ffee00110101", "600000000000000000c0ffee00110102"
LARGE = "600000000000000000c0ffee00110103"
PLACE = {"target_iqn": IQN, "lun": 1}
# As if this testbed had exported the LUN.
EXPORT = {"target-big": {"kind": "target", "identity": PLACE}}


class Lab:
    """A simulated ESXi (or vCenter), and a real target with one LUN."""

    def __init__(self, home: Path, ready: dict, array: tgt_process.Array, esxi_host: str | None = None):
        self.home, self.ready, self.array, self.shared = home, ready, array, None
        self.naa = NAA
        address, port = ready["address"].split(":")
        self.login = {
            "hostname": address,
            "port": int(port),
            "username": "root",
            "password": PASSWORD,
            "ca_path": ready["certificate"],
            "esxi_host": esxi_host,
        }
        context = ssl.create_default_context(cafile=ready["certificate"])
        self.instance = SmartConnect(host=address, port=int(port), user="root", pwd=PASSWORD, sslContext=context)
        self.content = self.instance.RetrieveContent()
        hosts = self.content.viewManager.CreateContainerView(self.content.rootFolder, [vim.HostSystem], True).view
        self.host = next(host for host in hosts if esxi_host in (None, host.name))
        self.storage, self.stores = self.host.configManager.storageSystem, self.host.configManager.datastoreSystem

    def on(self, esxi_host: str) -> Lab:
        return Lab(self.home, self.ready, self.array, esxi_host)

    def call(self, module, check: bool = False, **arguments) -> dict:
        given = {**self.login, **arguments, "_ansible_check_mode": check, "_ansible_remote_tmp": str(self.home)}
        output = io.StringIO()
        with patch_module_args(given), contextlib.redirect_stdout(output), pytest.raises(SystemExit):
            module.main()
        return json.loads(output.getvalue())

    def connect(self) -> dict:
        """Log in to the target, and see its LUN as it is now."""
        done = self.call(
            esxi_iscsi,
            testbed_id="tb-co",
            state_dir=str(self.home / "state"),
            initiator_name=f"iqn.2026-11.test.storlab:{self.login['esxi_host'] or 'esx'}".lower().replace("_", "-"),
            targets=[
                {
                    "iqn": IQN,
                    "portal": self.array.portal,
                    "chap_user": "esx",
                    "chap_password": IN,
                    "mutual_chap_user": "array",
                    "mutual_chap_password": OUT,
                    "luns": [{"lun": 1, "name": "big", "naa": self.naa}],
                }
            ],
        )
        assert not done.get("failed"), done
        return done

    def rescan(self) -> None:
        """Rescan by hand, and have the host finish with it."""
        self.storage.RescanAllHba()
        self.storage.RescanVmfs()
        self.order("settle")

    def datastore(self, naa: str = NAA, check: bool = False, **changes) -> dict:
        return self.call(
            esxi_datastore,
            check=check,
            **{
                "testbed_id": "tb-co",
                "state_dir": str(self.home / "state"),
                "layers": {"initiator-big": {"parent": "target-big", "identity": {"naa": naa, **PLACE}}, **EXPORT},
                "datastores": [{"name": "tb-ds", "layer": "initiator-big"}],
                "hosts": ["DC0_H0", "DC0_H1"],
                **changes,
            },
        )

    def built(self, *arguments, **changes) -> list:
        """The steps of a build that succeeds."""
        done = self.datastore(*arguments, **changes)
        assert not done.get("failed"), done
        return [step["op"] for step in done["steps"]]

    def put(self, path: str, content: bytes = b"theirs") -> None:
        """A file of somebody else on the datastore, in a folder of its own where the path says so."""
        (self.root() / path).parent.mkdir(exist_ok=True)
        (self.root() / path).write_bytes(content)

    def root(self) -> Path:
        """Where the files of the only volume lie."""
        (uuid,) = self.volumes()
        return (self.shared or self.home / "esxsim" / "volumes") / uuid

    def refused(self, *arguments, **changes) -> dict:
        """The failure, the same in check mode, after which host and LUN are as they were."""
        watch = Watch(self.everything)
        answers = [self.datastore(*arguments, check=check, **changes) for check in (True, False)]
        assert [answer.get("failed") for answer in answers] == [True, True], answers
        assert answers[0]["failure"] == answers[1]["failure"]
        watch.assert_unchanged()
        return {**answers[1]["failure"], "msg": answers[1]["msg"]}

    def everything(self) -> tuple:
        """What the host knows and what is on the LUN."""
        self.order("settle")
        content = hashlib.sha256(self.array.contents(1)).hexdigest()
        machines = sorted(vm.name for vm in self.host.vm)
        folders = [self.home / "esxsim" / "volumes", *([self.shared] if self.shared else [])]
        files = {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}
        return self.call(esxi_state)["storage_state"], content, self.volumes(), machines, files

    def volumes(self) -> dict:
        """{uuid: (name, device, mounted, accessible, reason)} of all VMFS."""
        self.order("settle")
        return {
            entry.volume.uuid: (
                entry.volume.name,
                entry.volume.extent[0].diskName,
                entry.mountInfo.mounted,
                entry.mountInfo.accessible,
                entry.mountInfo.inaccessibleReason,
            )
            for entry in self.storage.fileSystemVolumeInfo.mountInfo or []
            if isinstance(entry.volume, vim.host.VmfsVolume)
        }

    def offered(self, naa: str = NAA) -> bool:
        """Whether the host offers to make a VMFS of the whole device."""
        return bool(self.stores.QueryVmfsDatastoreCreateOptions(f"/vmfs/devices/disks/naa.{naa}", 6))

    def machine(self, state: str = "present", **changes) -> dict:
        wanted = {"testbed_id": "tb-co", "name": "tb-guest", "state": state, **changes}
        if state == "present":
            wanted = {"datastore": "tb-ds", "guest_id": "debian10_64Guest", "vcpus": 1, "memory_mib": 64, **wanted}
        done = self.call(esxi_vm, **wanted)
        assert not done.get("failed"), done
        return done

    def order(self, what: str, **order) -> None:
        request = urllib.request.Request(
            f"http://{self.ready['control']}/{what}", data=json.dumps(order).encode(), method="POST"
        )
        urllib.request.urlopen(request).close()  # noqa: S310, of this machine

    def next_generation(self) -> None:
        """What a rebuilt target shows: the same LUN with new contents and so with another identifier."""
        self.array.blank(1)
        self.array.identify(1, NEXT, "SN1101B")
        self.naa = NEXT


@pytest.fixture
def array(tmp_path):
    (tmp_path / "luns").mkdir()
    with tgt_process.Array(tmp_path / "luns", IQN, IN, OUT) as found:
        found.add(1, 96, NAA, "SN1101A")
        yield found


@pytest.fixture
def lab(tmp_path, array):
    with esxsim_process.running(tmp_path / "esxsim", PASSWORD) as ready:
        found = Lab(tmp_path, ready, array)
        yield found
        Disconnect(found.instance)


@pytest.fixture
def vcenter(tmp_path, array):
    with esxsim_process.running(tmp_path / "esxsim", PASSWORD, "vpx") as ready:
        found = Lab(tmp_path, ready, array, "DC0_H0")
        yield found
        Disconnect(found.instance)


# ---------------------------------------------------------------- what is on a LUN


@pytest.mark.parametrize("label", ["dos", "gpt"])
def test_a_lun_with_a_partition_is_formatted_only_when_it_is_named(lab, label):
    lab.array.partition(1, label)
    lab.connect()
    # The host offers to overwrite it, so that an offer is no proof.
    assert lab.offered()
    found = lab.refused()
    assert found["code"] == "device_not_blank"
    assert f"datastore_allow_device: [naa.{NAA}]" in found["msg"]
    assert lab.refused(allow_device=[f"naa.{NEXT}"])["code"] == "device_not_blank"
    done = lab.datastore(allow_device=[f"naa.{NAA}"])
    assert [step["op"] for step in done["steps"]] == ["create_vmfs"]
    assert "partitions (1 " in done["steps"][0]["was"]
    assert lab.built() == []


def test_another_testbeds_volume_is_not_formatted_where_this_host_has_not_seen_it_yet(vcenter):
    """Two hosts on one LUN: the second has not rescanned since the first made the volume."""
    second = vcenter.on("DC0_H1")
    second.connect()
    vcenter.connect()
    assert vcenter.built() == ["create_vmfs"]
    first = vcenter.volumes()
    assert second.volumes() == {}
    assert second.offered()
    other = {"testbed_id": "other", "datastores": [{"name": "tb-other", "layer": "initiator-big"}]}
    with unchanged(vcenter.volumes):
        assert second.datastore(check=True, **other)["failure"]["code"] == "device_not_blank"
        # It looks before it plans, and may be told of the volume later than it asks.
        assert second.datastore(**other)["failure"]["code"] == "device_in_use"
    assert second.volumes() == first
    assert second.built() == []


def test_a_host_that_has_not_rescanned_takes_the_volume_that_another_has_made(vcenter):
    """What build does on two hosts, one after the other, with nothing in between."""
    second = vcenter.on("DC0_H1")
    second.connect()
    vcenter.connect()
    assert vcenter.built() == ["create_vmfs"]
    assert second.built() == []
    assert second.volumes() == vcenter.volumes() != {}
    # And destroyed by the one it is gone for the other, which finds that out by itself.
    assert second.built(state="absent") == ["destroy"]
    assert vcenter.built(state="absent") == []
    assert vcenter.volumes() == second.volumes() == {}


def test_a_copy_of_a_volume_is_not_formatted(lab):
    lab.connect()
    lab.built()
    lab.array.identify(1, NEXT, "SN1101B")
    lab.rescan()
    assert [volume.vmfsLabel for volume in lab.storage.QueryUnresolvedVmfsVolume()] == ["tb-ds"]
    assert lab.offered(NEXT)
    # Its own record would let go of the lost datastore, but not of what is on the LUN.
    found = lab.refused(NEXT)
    assert found["code"] == "device_not_blank"
    assert "copy of the VMFS tb-ds" in found["msg"]


def test_a_lun_that_is_mapped_to_a_machine_is_not_formatted(lab):
    lab.connect()
    raw = {"name": "raw", "controller": "pvscsi", "rdm": {"naa": NAA}}
    lab.machine(datastore=lab.host.datastore[0].name, disks=[raw], allow_device=[f"naa.{NAA}"])
    assert lab.refused()["code"] == "device_in_use"
    assert lab.refused(allow_device=[f"naa.{NAA}"])["code"] == "device_in_use"


def mapped(lab, naa: str = NAA, check: bool = False, **changes) -> dict:
    """What becomes of a guest that is to get the LUN raw."""
    layer = {"kind": "initiator", "parent": "target-big", "identity": {"naa": naa, **PLACE}}
    return lab.call(
        esxi_vm,
        check=check,
        **{
            "testbed_id": "tb-co",
            "name": "tb-raw",
            "datastore": lab.host.datastore[0].name,
            "guest_id": "debian10_64Guest",
            "vcpus": 1,
            "memory_mib": 64,
            "layers": {"initiator-big": layer, **EXPORT},
            "disks": [{"name": "raw", "controller": "pvscsi", "rdm": {"layer": "initiator-big"}}],
            **changes,
        },
    )


def not_mapped(lab, naa: str = NAA, **changes) -> str:
    """The code of a refusal, the same in check mode, after which host and LUN are as they were."""
    watch = Watch(lab.everything)
    answers = [mapped(lab, naa, check, **changes) for check in (True, False)]
    assert [answer.get("failed") for answer in answers] == [True, True], answers
    assert answers[0]["failure"] == answers[1]["failure"]
    watch.assert_unchanged()
    return answers[1]["failure"]["code"]


@pytest.mark.parametrize("label", ["dos", "gpt"])
def test_a_lun_with_a_partition_is_mapped_raw_only_when_it_is_named(lab, label):
    lab.array.partition(1, label)
    lab.connect()
    assert not_mapped(lab) == "device_not_blank"
    assert not_mapped(lab, allow_device=[f"naa.{NEXT}"]) == "device_not_blank"
    before = lab.array.contents(1)
    foreseen = mapped(lab, check=True, allow_device=[f"naa.{NAA}"])
    done = mapped(lab, allow_device=[f"naa.{NAA}"])
    assert done["steps"] == foreseen["steps"]
    (added,) = [step for step in done["steps"] if step["op"] == "add_disk"]
    assert "partitions (1 " in added["was"] and f"physical mapping of {NAA}" in added["will"]
    # It is the guest that writes, and the machine that has it keeps it.
    assert lab.array.contents(1) == before
    assert mapped(lab)["changed"] is False


def test_a_copy_of_a_volume_is_not_mapped_raw(lab):
    lab.connect()
    lab.built()
    lab.array.identify(1, NEXT, "SN1101B")
    lab.rescan()
    assert [volume.vmfsLabel for volume in lab.storage.QueryUnresolvedVmfsVolume()] == ["tb-ds"]
    assert not_mapped(lab, NEXT) == "device_not_blank"


def test_a_lun_with_a_datastore_or_of_another_array_is_not_mapped_raw(lab):
    lab.connect()
    assert not_mapped(lab, layers={"initiator-big": {"kind": "initiator", "identity": {"naa": NAA, **PLACE}}}) == (
        "device_unproven"
    )
    lab.order("withhold", name=f"naa.{NAA}", holds=True)
    assert not_mapped(lab, allow_device=[f"naa.{NAA}"]) == "device_unfit"
    lab.order("withhold", name=f"naa.{NAA}", holds=False)
    lab.built()
    assert not_mapped(lab, allow_device=[f"naa.{NAA}"]) == "device_in_use"
    assert lab.built(state="absent") == ["destroy"]
    assert not mapped(lab).get("failed")


def test_a_host_that_gives_its_adapter_back_lists_the_lun_of_an_unmounted_volume_no_more(vcenter):
    """Its device goes with the rescan after the one that makes the host forget the volume."""
    second = vcenter.on("DC0_H1")
    before = second.everything()[0]
    vcenter.connect()
    vcenter.built()
    second.connect()
    assert second.built() == []
    assert second.built(state="unmounted") == ["unmount"]
    gone = second.call(esxi_iscsi, state="absent", testbed_id="tb-co", state_dir=str(second.home / "state"))
    assert gone["changed"] is True
    assert second.call(esxi_state)["storage_state"] == before
    assert len(vcenter.volumes()) == 1


# ---------------------------------------------------------------- inaccessible and lost


def test_a_datastore_whose_paths_are_down_is_left_alone_and_comes_back(lab):
    lab.connect()
    lab.built()
    lab.array.admit(False)
    lab.rescan()
    ((_name, _device, mounted, accessible, reason),) = lab.volumes().values()
    assert (mounted, accessible, reason) == (True, False, "AllPathsDown_Start")
    for state in ("present", "absent"):
        found = lab.refused(state=state)
        assert found["code"] == "datastore_inaccessible"
        assert all(word in found["msg"] for word in ("unregister", "unmount", "rescan"))
    lab.array.admit()
    lab.rescan()
    assert lab.built() == []
    assert lab.built(state="absent") == ["destroy"]
    assert lab.volumes() == {}


def test_a_datastore_that_is_lost_for_good_is_given_up_only_when_it_was_ours_and_nobody_is_on_it(lab, tmp_path):
    lab.connect()
    lab.built()
    lab.machine()
    lab.array.remove(1)
    lab.rescan()
    ((_name, _device, mounted, accessible, reason),) = lab.volumes().values()
    assert (mounted, accessible, reason) == (True, False, "PermanentDeviceLoss")
    assert lab.refused(state="absent")["code"] == "datastore_in_use"
    lab.machine(state="released")
    # A host does not remove a datastore that it cannot reach.
    with pytest.raises(vim.fault.HostConfigFault):
        lab.stores.RemoveDatastore(next(store for store in lab.host.datastore if store.name == "tb-ds"))
    assert lab.refused(state="absent", state_dir=str(tmp_path / "another"))["code"] == "datastore_inaccessible"
    assert lab.refused(state="absent", testbed_id="other")["code"] == "datastore_inaccessible"
    assert lab.built(state="absent") == ["release"]
    assert lab.volumes() == {}
    assert not list(lab.home.glob("state/esxi/datastore-*"))


def test_new_contents_behind_the_same_identifier_are_not_taken_for_a_lost_datastore_unless_blank(lab, tmp_path):
    lab.connect()
    lab.built()
    lab.array.blank(1)
    lab.array.partition(1, "dos")
    lab.rescan()
    for state in ("present", "absent"):
        found = lab.refused(state=state)
        assert found["code"] == "datastore_inaccessible"
    lab.array.blank(1)
    lab.rescan()
    assert lab.refused(state_dir=str(tmp_path / "another"))["code"] == "datastore_inaccessible"
    assert lab.built(check=True) == ["release", "create_vmfs"]
    assert lab.built() == ["release", "create_vmfs"]
    assert lab.built() == []


# ---------------------------------------------------------------- the next generation of a LUN


@pytest.mark.parametrize("seen", ["before", "after"])
def test_a_rebuilt_disk_gets_the_datastore_of_the_same_name(lab, seen):
    """seen: whether the host finds the target gone before it finds the new disk there."""
    lab.connect()
    lab.built()
    (old,) = lab.volumes()
    if seen == "before":
        lab.array.admit(False)
        lab.rescan()
        lab.array.admit()
    lab.next_generation()
    lab.connect()
    assert lab.built(NEXT, check=True) == ["release", "create_vmfs"]
    assert lab.built(NEXT) == ["release", "create_vmfs"]
    ((new, (name, device, mounted, accessible, _reason)),) = lab.volumes().items()
    assert (name, device, mounted, accessible) == ("tb-ds", f"naa.{NEXT}", True, True)
    assert new != old
    assert lab.built(NEXT) == []
    assert lab.connect()["changed"] is False
    assert lab.built(NEXT, state="absent") == ["destroy"]


def test_the_name_of_a_lost_datastore_is_not_taken_from_others_or_from_beneath_machines(lab, tmp_path):
    lab.connect()
    lab.built()
    lab.machine()
    lab.next_generation()
    lab.connect()
    assert lab.refused(NEXT, state_dir=str(tmp_path / "another"))["code"] == "datastore_name_taken"
    assert lab.refused(NEXT)["code"] == "datastore_in_use"
    lab.machine(state="released")
    assert lab.built(NEXT) == ["release", "create_vmfs"]


def test_a_teardown_after_the_target_was_rebuilt_gives_up_the_lost_datastore(lab):
    lab.connect()
    lab.built()
    lab.next_generation()
    lab.connect()
    assert lab.built(NEXT, state="absent") == ["release"]
    assert lab.volumes() == {}


# ---------------------------------------------------------------- machines


def test_a_machine_that_is_turned_off_holds_its_datastore(lab):
    lab.connect()
    lab.built()
    lab.machine()
    for state in ("unmounted", "absent"):
        found = lab.refused(state=state)
        assert (found["code"], found["details"]["vms"]) == ("datastore_in_use", ["tb-guest"])
    (uuid,) = lab.volumes()
    with pytest.raises(vim.fault.ResourceInUse):
        lab.storage.UnmountVmfsVolume(uuid)
    lab.machine(state="absent")
    assert lab.built(state="unmounted") == ["unmount"]
    assert lab.built() == ["mount"]


def test_a_machine_that_was_moved_to_another_host_holds_the_datastore_there(vcenter):
    second = vcenter.on("DC0_H1")
    vcenter.connect()
    assert vcenter.built() == ["create_vmfs"]
    second.connect()
    second.rescan()
    assert second.built() == []
    vcenter.machine()
    vcenter.order("move", name="tb-guest", host="DC0_H1")
    assert second.refused(state="unmounted")["code"] == "datastore_in_use"
    assert vcenter.refused(state="absent")["code"] == "datastore_in_use"
    # This host has no machine on it any more.
    assert vcenter.built(state="unmounted") == ["unmount"]
    assert vcenter.built() == ["mount"]


def test_files_of_high_availability_are_told_when_the_host_refuses(lab):
    lab.connect()
    lab.built()
    lab.order("fault", method="UnmountVmfsVolume", fault="ResourceInUse")
    with unchanged(lab.everything):
        assert lab.datastore(state="unmounted")["failure"]["code"] == "in_use"
    lab.content.fileManager.MakeDirectory(
        name="[tb-ds] .vSphere-HA", datacenter=lab.content.rootFolder.childEntity[0], createParentDirectories=True
    )
    with unchanged(lab.everything):
        found = lab.datastore(state="unmounted")
    assert found["failure"]["code"] == "datastore_in_use"
    assert "vSphere HA" in found["msg"]


def test_a_task_that_has_not_begun_is_waited_for(lab):
    """Until it begins, the simulator names the browser as what the task works on, which pyVmomi takes for no entity."""
    lab.connect()
    lab.built()
    lab.content.fileManager.MakeDirectory(
        name="[tb-ds] .vSphere-HA", datacenter=lab.content.rootFolder.childEntity[0], createParentDirectories=True
    )
    lab.order("fault", method="UnmountVmfsVolume", fault="ResourceInUse")
    lab.order("late", method="SearchDatastore", seconds=1)
    with unchanged(lab.everything):
        assert lab.datastore(state="unmounted")["failure"]["code"] == "datastore_in_use"


# ---------------------------------------------------------------- what others have on it


def test_a_folder_that_no_machine_is_registered_in_keeps_the_datastore(lab):
    lab.connect()
    lab.built()
    lab.put("web01/web01.vmx")
    lab.put("golden.vmdk")
    for state in ("present", "unmounted"):
        assert lab.built(state=state) == ([] if state == "present" else ["unmount"])
    # Nobody can look into what is not mounted, so it is mounted, looked into, and unmounted again.
    with unchanged(lab.everything):
        found = lab.datastore(state="absent")
    assert (found["failure"]["code"], found["failure"]["details"]["entries"]) == (
        "datastore_not_empty",
        ["golden.vmdk", "web01"],
    )
    assert lab.built() == ["mount"]
    assert lab.refused(state="absent")["code"] == "datastore_not_empty"
    # An open file keeps it whatever may be discarded.
    lab.order("open", name="[tb-ds] golden.vmdk")
    with unchanged(lab.everything):
        assert lab.datastore(state="absent", discard_contents=True)["failure"]["code"] == "in_use"
    lab.order("close", name="[tb-ds] golden.vmdk")
    done = lab.datastore(state="absent", discard_contents=True)
    assert [(step["op"], step["was"]) for step in done["steps"]] == [
        ("destroy", f"VMFS on {NAA} with golden.vmdk, web01")
    ]
    assert lab.volumes() == {}


def test_two_hosts_on_their_own_do_not_see_each_others_machines_but_their_files(tmp_path, array):
    """Each has a login of its own and knows of no vCenter; they share the LUN and so the volume."""
    shared = tmp_path / "shared"
    with (
        esxsim_process.running(tmp_path / "one" / "esxsim", PASSWORD, volumes=shared) as one,
        esxsim_process.running(tmp_path / "two" / "esxsim", PASSWORD, volumes=shared) as two,
    ):
        first, second = (Lab(tmp_path / name, ready, array) for name, ready in (("one", one), ("two", two)))
        first.shared = second.shared = shared
        first.connect()
        assert first.built() == ["create_vmfs"]
        second.connect()
        assert second.built() == []
        second.machine(name="theirs")
        assert [vm.name for vm in second.host.vm] == ["theirs"]
        assert [vm.name for vm in first.host.vm] == []
        found = first.refused(state="absent")
        assert (found["code"], found["details"]["entries"]) == ("datastore_not_empty", ["theirs"])
        second.machine(name="theirs", state="absent")
        assert first.built(state="absent") == ["destroy"]
        for lab in (first, second):
            Disconnect(lab.instance)


def test_a_datastore_that_another_host_mounts_is_destroyed_only_when_the_testbed_names_that_host(vcenter):
    second = vcenter.on("DC0_H1")
    vcenter.connect()
    vcenter.built()
    second.connect()
    assert second.built() == []
    found = vcenter.refused(state="absent", hosts=["DC0_H0", "DC0_H10"])
    assert (found["code"], found["details"]["hosts"]) == ("datastore_shared", ["DC0_H1"])
    assert vcenter.refused(state="absent", hosts=[], discard_contents=True)["code"] == "datastore_shared"
    assert second.built(state="unmounted") == ["unmount"]
    assert vcenter.built(state="absent", hosts=[]) == ["destroy"]


# ---------------------------------------------------------------- a call that was cut


def cut(lab: Lab) -> None:
    """A build whose call takes longer than the time limit: the host makes the volume a while after nobody waits for it any more."""
    lab.connect()
    lab.order("slow", method="CreateVmfsDatastore", seconds=5)
    done = lab.datastore(long_timeout_s=1)
    assert done.get("failed") and "broke while trying to create vmfs" in done["msg"], done
    lab.order("slow", method="CreateVmfsDatastore", seconds=0)


def test_what_a_cut_call_has_made_is_taken_by_the_next_build(lab):
    cut(lab)
    kept = json.loads(next(lab.home.glob("state/esxi/datastore-*")).read_text())["intended"]["tb-ds"]
    assert (kept["naa"], kept["name"], kept["host"]) == (NAA, "tb-ds", lab.host.name) and kept["time_s"] > 0
    assert lab.built() == ["stamp"]
    assert (lab.root() / ".storlab.json").read_text() == '{"storlab.testbed": "tb-co"}'
    assert lab.built() == []
    assert "intended" not in next(lab.home.glob("state/esxi/datastore-*")).read_text()
    assert lab.built(state="absent") == ["destroy"]


def test_what_a_cut_call_has_made_is_taken_down_and_only_while_it_is_empty_and_ours(lab, tmp_path):
    cut(lab)
    deadline = time.monotonic() + 60
    while not lab.volumes():
        assert time.monotonic() < deadline, "the host does not make it"
        time.sleep(0.1)
    for another in ({"testbed_id": "other"}, {"state_dir": str(tmp_path / "another")}):
        assert lab.refused(state="absent", **another)["code"] == "datastore_foreign"
    lab.put("web01/web01.vmx")
    for state in ("present", "absent"):
        found = lab.refused(state=state, discard_contents=True)
        assert (found["code"], found["details"]["users"]) == ("datastore_foreign", ["web01"])
    shutil.rmtree(lab.root() / "web01")
    assert lab.built(state="absent") == ["destroy"]
    assert lab.volumes() == {}
    assert not list(lab.home.glob("state/esxi/datastore-*"))


# ---------------------------------------------------------------- a LUN of others


def test_a_file_system_without_a_partition_table_is_not_formatted_on_a_lun_of_others(lab):
    lab.array.write(1, 0, b"XFSB" + bytes(508))
    lab.connect()
    others = {"layers": {"initiator-big": {"parent": None, "identity": {"naa": NAA, **PLACE}}}}
    found = lab.refused(**others)
    assert found["code"] == "device_unproven" and f"datastore_allow_device: [naa.{NAA}]" in found["msg"]
    assert lab.array.contents(1)[:4] == b"XFSB"
    done = lab.datastore(allow_device=[f"naa.{NAA}"], **others)
    assert [step["was"] for step in done["steps"]] == ["anything on it without a partition table"]
    assert lab.built(**others) == []


# ---------------------------------------------------------------- the simulation itself


def test_a_lun_below_the_least_size_of_a_vmfs_is_refused(tmp_path, array):
    array.add(2, 1300, NEXT, "SN1101B")
    array.add(3, 1400, LARGE, "SN1101C")
    with esxsim_process.running(tmp_path / "esxsim", PASSWORD, small_luns=False) as ready:
        lab = Lab(tmp_path, ready, array)
        lab.connect()
        with unchanged(lab.everything):
            assert lab.datastore(NEXT)["failure"]["code"] == "device_unfit"
        assert lab.built(LARGE) == ["create_vmfs"]
        Disconnect(lab.instance)


def test_each_way_of_being_strict_can_be_switched_off(tmp_path, array):
    """So that a test can show what it is for; what is named wrongly is refused."""
    array.partition(1, "dos")
    lenient = ("used-disks-offered", "registered-machines-block-unmount", "unresolved-volumes", "device-loss")
    with esxsim_process.running(tmp_path / "esxsim", PASSWORD, lenient=lenient) as ready:
        lab = Lab(tmp_path, ready, array)
        lab.connect()
        assert not lab.offered()
        array.blank(1)
        lab.rescan()
        lab.built()
        lab.machine()
        (uuid,) = lab.volumes()
        lab.storage.UnmountVmfsVolume(uuid)
        lab.storage.MountVmfsVolume(uuid)
        array.admit(False)
        lab.rescan()
        assert [volume[4] for volume in lab.volumes().values()] == ["PermanentDeviceLoss"]
        array.admit()
        array.identify(1, NEXT, "SN1101B")
        lab.rescan()
        assert not lab.storage.QueryUnresolvedVmfsVolume()
        Disconnect(lab.instance)
    with pytest.raises(SystemExit, match="-lenient"):
        esxsim_process.start(tmp_path / "wrong", PASSWORD, lenient=("offered",))
