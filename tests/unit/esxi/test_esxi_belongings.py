# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a virtual machine is the testbed's, and what of others must be there after it is gone.

What a host then does is tried in tests/integration/test_esxi_vm_simulated.py.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import belongings, machine, machine_plan, transfer
from pyVmomi import vim
from test_esxi_machine import KIND, World, ended, new_world, ops, present
from test_esxi_vm import DISK, FACTS, MIB, UUID, failure, want, with_disk


@pytest.fixture
def world(monkeypatch):
    return new_world(monkeypatch)


GOLDEN = {
    "key": 2007,
    "controller": "pvscsi",
    "bus": 0,
    "unit": 9,
    "size_bytes": 7 * MIB,
    "provisioning": "thin",
    "uuid": "6000C297-0000-0000-0000-00000000c0de",
    "path": "[LocalDS_0] golden/dataset.vmdk",
    "chain": ["[LocalDS_0] golden/dataset.vmdk"],
    "naa": None,
    "compatibility": None,
}


def with_golden(**more) -> dict:
    """A machine of the testbed, to which somebody attached a disk of his own."""
    state = with_disk()
    state["disks"].append({**GOLDEN, **more})
    return state


# ---------------------------------------------------------------- which disks are ours


def test_a_disk_without_a_record_is_detached_and_named_before_the_machine_is_destroyed():
    steps = machine_plan.absent_plan(with_golden(), want())
    assert [(step["op"], step["target"], step.get("key")) for step in steps] == [
        ("detach", GOLDEN["path"], 2007),
        ("destroy", "vm1", None),
    ]
    assert belongings.kept(steps, with_golden()) == [GOLDEN["path"]]


def test_a_disk_at_the_place_of_ours_is_not_ours():
    state = with_disk(uuid="6000C297-somebody", path="[ds1] vm1/vm1_7.vmdk")
    assert machine_plan.made_disks(state) == []
    assert failure(machine_plan.zero_plan, state, want(), ["data"]).code == "bad_value"
    refused = failure(machine_plan.plan, state, want(disks=[DISK]), FACTS)
    assert (refused.code, refused.details["path"]) == ("disk_replaced", "[ds1] vm1/vm1_7.vmdk")
    assert [step["op"] for step in machine_plan.absent_plan(state, want())] == ["detach", "destroy"]


def test_our_disk_is_known_wherever_it_is_attached():
    state = with_disk(bus=0, unit=5)
    assert [disk["unit"] for disk in machine_plan.made_disks(state)] == [5]
    assert machine_plan.plan(state, want(disks=[DISK]), FACTS) == []
    assert [step["op"] for step in machine_plan.absent_plan(state, want())] == ["destroy"]
    asked = want(disks=[{**DISK, "bus": 0, "unit": 0}])
    assert failure(machine_plan.plan, state, asked, FACTS).details["key"] == "unit"


def test_of_two_disks_of_one_uuid_the_one_at_its_place_is_ours():
    state = with_disk()
    copy = {
        **state["disks"][0],
        "key": 2001,
        "unit": 3,
        "path": "[ds1] copies/vm1.vmdk",
        "chain": ["[ds1] copies/vm1.vmdk"],
    }
    state["disks"].insert(0, copy)
    assert [step["target"] for step in machine_plan.absent_plan(state, want())] == ["[ds1] copies/vm1.vmdk", "vm1"]
    # When neither is, nothing says which.
    state["disks"][1]["unit"] = 4
    assert len(machine_plan.absent_plan(state, want())) == 3


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        ("[ds1] vm1/vm1.vmdk", True),
        ("[ds2] vm1/vm1.vmdk", True),
        ("[ds1] vm10/vm1.vmdk", False),
        ("[ds1] x/vm1/vm1.vmdk", False),
        ("[ds1] golden/dataset.vmdk", False),
        ("[ds1] vm1.vmdk", False),
    ],
)
def test_a_record_without_a_uuid_means_a_disk_at_its_place_and_in_the_machines_folder(path, ours):
    """As it was kept before there were UUIDs in it, or by a step that was cut off."""
    state = with_disk(path=path, chain=[path])
    state["extra"]["storlab.disk.data"] = "pvscsi 0:0 eager"
    assert [disk["path"] for disk in machine_plan.made_disks(state)] == [path] * ours
    if ours:
        (step,) = machine_plan.plan(state, want(disks=[DISK]), FACTS)
        assert (step["op"], step["values"]) == ("record_disks", {"storlab.disk.data": f"pvscsi 0:0 eager {UUID}"})
        assert (
            machine_plan.plan({**state, "extra": {**state["extra"], **step["values"]}}, want(disks=[DISK]), FACTS) == []
        )
    else:
        assert [step["op"] for step in machine_plan.absent_plan(state, want())] == ["detach", "destroy"]


def test_disks_of_a_template_are_ours_and_never_filled():
    state = with_golden(path="[ds1] vm1/system.vmdk", chain=["[ds1] vm1/system.vmdk"])
    state["extra"].update(belongings.of_source({"disks": [GOLDEN]}))
    assert state["extra"]["storlab.source.0"] == "pvscsi 0:9 source"
    assert [step["op"] for step in machine_plan.absent_plan(state, want())] == ["destroy"]
    assert [step["target"] for step in machine_plan.zero_plan(state, want(), [])] == ["vm1 data"]
    assert belongings.completed(state) == {"storlab.source.0": f"pvscsi 0:9 source {GOLDEN['uuid']}"}


def test_images_of_others_are_taken_out_and_our_own_goes_its_own_way():
    state = with_disk()
    state["cdroms"] = [
        {"key": 3000 + number, "controller": "ide", "bus": 0, "unit": number, "iso": path}
        for number, path in enumerate(["[ds1] iso/tb.iso", "[nfs] iso/tools.iso", None, "/dev/cdrom"])
    ]
    state["files"] = [{"key": 8000, "kind": "floppy image", "path": "[nfs] boot.flp"}]
    steps = machine_plan.absent_plan(state, {**want(), "iso": {"backing": "[ds1] iso/tb.iso"}})
    assert [(step["op"], step["target"]) for step in steps] == [
        ("eject", "[nfs] iso/tools.iso"),
        ("detach", "[nfs] boot.flp"),
        ("destroy", "vm1"),
    ]


# ---------------------------------------------------------------- snapshots


def test_a_snapshot_with_a_disk_of_others_is_refused_and_one_of_our_own_is_named():
    delta = "[ds1] vm1/vm1-000002.vmdk"
    state = with_disk(path=delta, chain=[delta, "[ds1] vm1/vm1.vmdk"])
    state["snapshots"] = [{"name": "s-one", "disks": [{"uuid": UUID.upper(), "chain": ["[ds1] vm1/vm1.vmdk"]}]}]
    (step,) = machine_plan.absent_plan(state, want())
    assert step["op"] == "destroy" and "s-one" in step["was"]
    state["snapshots"].append({"name": "s-two", "disks": [{"uuid": GOLDEN["uuid"], "chain": GOLDEN["chain"]}]})
    refused = failure(machine_plan.absent_plan, state, want())
    assert (refused.code, refused.details["snapshot"], refused.details["path"]) == (
        "snapshot_foreign",
        "s-two",
        GOLDEN["path"],
    )


# ---------------------------------------------------------------- the machine's folder


def in_folder(*names: str) -> dict:
    state = with_disk()
    state["layout"] = [
        {"path": f"[ds1] vm1/{name}", "type": kind}
        for name, kind in (
            ("vm1.vmx", "config"),
            ("vm1.nvram", "nvram"),
            ("vmware-3.log", "log"),
            ("console.log", "log"),
            ("vm1.vmdk", "diskDescriptor"),
            ("theirs.vmdk", "diskDescriptor"),
        )
    ]
    own = ["vm1.vmx", "vm1.vmsd", "vm1.nvram", "vmware-3.log", "vm1.vmdk", "vm1-flat.vmdk", "vm1-ctk.vmdk"]
    return {**state, "folder": [*own, *names]}


def test_a_folder_with_nothing_but_the_machine_goes_with_it():
    assert belongings.beside(in_folder()) == []
    assert [step["op"] for step in machine_plan.absent_plan(in_folder(), want())] == ["destroy"]


@pytest.mark.parametrize("name", ["theirs.vmdk", "console.log", "vm1.iso", "vm10.vmx", "vm1_2.vmdk", "notes"])
def test_what_lies_beside_a_machine_has_it_taken_away_file_by_file(name):
    state = in_folder(name)
    steps = machine_plan.absent_plan(state, want())
    assert [(step["op"], step["target"]) for step in steps] == [
        ("delete_disk", "[ds1] vm1/vm1.vmdk"),
        ("unregister", "vm1"),
        ("delete_file", "[ds1] vm1/vm1.vmx"),
        ("delete_file", "[ds1] vm1/vm1.nvram"),
        ("delete_file", "[ds1] vm1/vmware-3.log"),
    ]
    assert belongings.kept(steps, state) == [f"[ds1] vm1/{name}"]


def test_snapshots_of_ours_go_before_their_disks_are_deleted_one_by_one():
    state = in_folder("notes")
    state["snapshots"] = [{"name": "s", "disks": [{"uuid": UUID, "chain": ["[ds1] vm1/vm1.vmdk"]}]}]
    assert [step["op"] for step in machine_plan.absent_plan(state, want())][:2] == ["remove_snapshots", "delete_disk"]


# ---------------------------------------------------------------- as a host is asked for it


def attach(world: World, path: str, **more) -> vim.vm.device.VirtualDisk:
    backing = KIND.VirtualDisk.FlatVer2BackingInfo(fileName=path, uuid="6000C297-theirs", **more)
    controller = world.devices(KIND.ParaVirtualSCSIController)[0]
    disk = KIND.VirtualDisk(
        key=2999, controllerKey=controller.key, unitNumber=12, capacityInBytes=MIB, capacityInKB=1024, backing=backing
    )
    world.machines[-1].config.hardware.device.append(disk)
    return disk


def requests(world: World, monkeypatch) -> list:
    """[(operation, what becomes of the file, its path)] of the disks in later reconfigurations."""
    seen, change = [], type(world.machines[-1]).change

    def watched(vm, spec):
        seen.extend(
            (each.operation, each.fileOperation, each.device.backing.fileName)
            for each in spec.deviceChange or []
            if isinstance(each.device, KIND.VirtualDisk)
        )
        change(vm, spec)

    monkeypatch.setattr(type(world.machines[-1]), "change", watched)
    return seen


def test_a_disk_of_others_is_removed_without_touching_its_file(world, monkeypatch):
    present(world, disks=[DISK])
    (ours,) = world.devices(KIND.VirtualDisk)
    assert world.settings()["storlab.disk.data"] == f"pvscsi 0:0 eager {ours.backing.uuid}"
    attach(world, "[ds2] golden/dataset.vmdk")
    seen = requests(world, monkeypatch)
    world.calls.clear()
    result = ended(world, "absent")
    assert (world.changes(), world.machines) == (["reconfigure", "destroy"], [])
    assert seen == [("remove", None, "[ds2] golden/dataset.vmdk")]
    assert (ops(result), result["kept_for_others"]) == (["detach", "destroy"], ["[ds2] golden/dataset.vmdk"])


def test_beside_files_of_others_only_our_disks_are_deleted(world, monkeypatch):
    present(world, disks=[DISK])
    (ours,) = world.devices(KIND.VirtualDisk)
    deleted = []

    def delete(name, datacenter):
        deleted.append((name, datacenter is not None))
        return SimpleNamespace(look=lambda: {"info.state": "success", "info.result": None})

    world.content.fileManager = SimpleNamespace(DeleteDatastoreFile_Task=delete)
    attach(world, "[ds1] vm1/added.vmdk")
    world.beside = ["vm1.vmx", ours.backing.fileName.rpartition("/")[2], "added.vmdk", "added-flat.vmdk"]
    world.machines[-1].layoutEx = SimpleNamespace(
        file=[
            SimpleNamespace(name=f"[ds1] vm1/{name}", type=kind)
            for name, kind in (("vm1.vmx", "config"), ("added.vmdk", "diskDescriptor"))
        ]
    )
    seen = requests(world, monkeypatch)
    world.calls.clear()
    result = ended(world, "absent")
    assert world.changes() == ["reconfigure", "unregister"] and deleted == [("[ds1] vm1/vm1.vmx", True)]
    assert seen == [("remove", None, "[ds1] vm1/added.vmdk"), ("remove", "destroy", ours.backing.fileName)]
    assert result["kept_for_others"] == ["[ds1] vm1/added.vmdk"]


def test_a_half_made_machine_is_made_anew_without_what_somebody_attached_to_it(world):
    present(world, disks=[DISK])
    world.machines[-1].config.extraConfig.append(vim.option.OptionValue(key=machine.BUILDING_KEY, value="TRUE"))
    attach(world, "[ds2] golden/dataset.vmdk")
    foreseen = present(world, check_mode=True, disks=[DISK])
    result = present(world, disks=[DISK])
    assert foreseen["steps"] == result["steps"] and ops(result)[:3] == ["detach", "destroy", "create"]
    assert [disk.backing.fileName.partition("] ")[0] for disk in world.devices(KIND.VirtualDisk)] == ["[ds1"]


def test_a_clone_that_is_cut_off_knows_its_disks_by_their_places(world, monkeypatch):
    world.kind = "VirtualCenter"
    gold = world.add("gold")
    controller = KIND.ParaVirtualSCSIController(key=1000, busNumber=0, sharedBus="noSharing")
    backing = KIND.VirtualDisk.FlatVer2BackingInfo(fileName="[ds1] vm1/system.vmdk", uuid="6000C29-of-the-clone")
    system = KIND.VirtualDisk(key=2000, controllerKey=1000, unitNumber=6, capacityInKB=1024, backing=backing)
    gold.config.hardware.device += [controller, system]
    gold.config.guestId, gold.config.hardware.memoryMB = "debian12_64Guest", 512
    given = {"template": "gold", "vcpus": None, "memory_mib": None, "guest_id": None}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.Machine, "finish", lambda *_given, **_named: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            present(world, **given)
    assert world.settings()["storlab.source.0"] == "pvscsi 0:6 source"
    assert ops(present(world, check_mode=True, **given))[:2] == ["destroy", "create"]
    present(world, **given)
    assert world.settings()["storlab.source.0"] == "pvscsi 0:6 source 6000C29-of-the-clone"


def test_an_archive_of_a_testbeds_machine_brings_no_records_with_it():
    config = vim.vm.ConfigSpec(
        extraConfig=[
            vim.option.OptionValue(key=key, value="x") for key in ("storlab.disk.data", "storlab.testbed", "kept.key")
        ]
    )
    stamps = [vim.option.OptionValue(key="storlab.testbed", value="tb")]

    class Refused(Failure):
        pass

    def import_app(**_given):
        raise Refused("ova_refused", "No.", "Look.")

    session = World()
    ours = transfer.Import.__new__(transfer.Import)
    ours.session, ours.host, ours.ova = session, session.here, SimpleNamespace(path="/srv/a.ova")
    ours.pool, ours.spec = SimpleNamespace(ImportVApp=import_app), SimpleNamespace(configSpec=config)
    with pytest.raises(Refused):
        ours.run(stamps, session.folder)
    assert [(option.key, option.value) for option in config.extraConfig] == [
        ("kept.key", "x"),
        ("storlab.testbed", "tb"),
    ]


def test_folders_of_our_disks_elsewhere_are_those_that_may_be_left_empty():
    state = with_golden()
    far = {
        **GOLDEN,
        "key": 2003,
        "unit": 2,
        "uuid": "far",
        "path": "[ds2] vm1/far.vmdk",
        "chain": ["[ds2] vm1/far.vmdk"],
    }
    gone = {**far, "key": 2004, "unit": 3, "uuid": "gone", "path": "[ds3] vm1/a.vmdk", "chain": ["[ds3] vm1/a.vmdk"]}
    state["disks"] += [far, gone]
    state["extra"].update({"storlab.disk.far": "pvscsi 0:2 thin far", "storlab.disk.gone": "pvscsi 0:3 thin gone"})
    state["lost"] = ["ds3"]
    assert belongings.folders_elsewhere(state) == ["[ds2] vm1"]
