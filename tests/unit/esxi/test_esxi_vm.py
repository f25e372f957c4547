# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of a virtual machine, where its disks are attached, and which steps bring it there.

The calls are tried in tests/integration/test_esxi_vm_simulated.py.
"""

from __future__ import annotations

import copy
import hashlib
import io
import tarfile

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.steps import shown
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import machine_places, machine_want
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import machine_plan as esxi_vm
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import transfer as esxi_transfer

MIB = 1048576
NAA = "600140500000000000000000000000a1"
# A LUN that the testbed's own target exports, as the host sees it.
LAYERS = {
    "target-raw": {"kind": "target", "identity": {"target_iqn": "iqn.t", "lun": 3}},
    "initiator-raw": {"kind": "initiator", "parent": "target-raw", "identity": {"target_iqn": "iqn.t", "lun": 3}},
    "datastore-raw": {
        "kind": "datastore",
        "parent": "initiator-raw",
        "identity": {"naa": NAA, "serial": "a1-serial"},
    },
    "datastore-nfs": {"identity": {}},
}
FACTS = {
    "datastores": {
        "ds1": {"free_bytes": 100 * MIB, "accessible": True},
        "lost": {"free_bytes": 1, "accessible": False},
    },
    "networks": ["VM Network", "storage"],
    "luns": {
        NAA: {
            "size_bytes": 96 * MIB,
            "device": "/dev/x",
            "uuid": "02",
            "volume": None,
            "users": [],
            "offered": True,
            "available": True,
            "partitions": [],
            "unresolved": None,
        }
    },
}
DISK = {
    "name": "data",
    "size_mib": 16,
    "controller": "pvscsi",
    "bus": None,
    "unit": None,
    "provisioning": "eager",
    "datastore": None,
    "rdm": None,
}
UUID = "6000C29a-7b1c-0d2e-3f40-516273849506"
RAW = {
    **DISK,
    "name": "raw",
    "size_mib": None,
    "rdm": {"layer": "datastore-raw", "naa": None, "compatibility": "physical"},
}


def params(**more) -> dict:
    return {
        "name": "vm1",
        "testbed_id": "tb",
        "datastore": "ds1",
        "guest_id": "debian12_64Guest",
        "vcpus": 2,
        "memory_mib": 1024,
        "power": "as_is",
        "restart": False,
        "reserve_memory": True,
        "template": None,
        "ova": None,
        "nics": [],
        "disks": [],
        "iso": None,
        "unattended": None,
        "extra_config": {},
        "layers": LAYERS,
        "allow_device": [],
        **more,
    }


def want(**more) -> dict:
    return machine_want.check(params(**more))


def machine(**more) -> dict:
    """A machine of the testbed as it is after its creation."""
    return {
        **copy.deepcopy(esxi_vm.BLANK),
        "owner": "tb",
        "building": False,
        "path": "[ds1] vm1/vm1.vmx",
        "uuid": "u1",
        "guest_id": "debian12_64Guest",
        "vcpus": 2,
        "memory_mib": 1024,
        "locked": True,
        "reservation_mib": 1024,
        "extra": {"storlab.testbed": "tb", "disk.EnableUUID": "TRUE"},
        **more,
    }


def with_disk(made: str = "eager", provisioning: str | None = "eager", **more) -> dict:
    """The machine with the disk 'data' at pvscsi 0:0."""
    state = machine()
    state["controllers"].append({"key": 1000, "kind": "pvscsi", "bus": 0})
    state["disks"].append(
        {
            "key": 2000,
            "controller": "pvscsi",
            "bus": 0,
            "unit": 0,
            "size_bytes": 16 * MIB,
            "provisioning": provisioning,
            "uuid": UUID,
            "path": "[ds1] vm1/vm1.vmdk",
            "chain": ["[ds1] vm1/vm1.vmdk"],
            "naa": None,
            "compatibility": None,
            **more,
        }
    )
    # Hosts write the letters of a UUID as they like.
    state["extra"]["storlab.disk.data"] = f"pvscsi 0:0 {made} {UUID.upper()}"
    return state


def failure(function, *arguments, **named) -> Failure:
    with pytest.raises(Failure) as caught:
        function(*arguments, **named)
    return caught.value


def ops(steps: list) -> list:
    return [step["op"] for step in steps]


def places(state: dict, *disks: dict, iso: bool = False) -> list:
    asked = want(
        disks=[{**DISK, "name": f"d{number}", **disk} for number, disk in enumerate(disks)],
        iso={"src": None, "path": "a.iso", "datastore": None} if iso else None,
    )
    found, missing = machine_places.place(asked, state)
    return [
        f"{found[disk['name']]['controller']} {found[disk['name']]['bus']}:{found[disk['name']]['unit']}"
        for disk in asked["disks"]
    ] + [f"drive {drive['bus']}:{drive['unit']}" for drive in missing]


# ---------------------------------------------------------------- what is wanted


@pytest.mark.parametrize(
    ("given", "variable"),
    [
        ({"name": "a/b"}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"guest_id": None}, "guest_id"),
        ({"vcpus": 0}, "vcpus"),
        ({"memory_mib": 1023}, "memory_mib"),
        ({"template": "t", "ova": "x.ova"}, "ova"),
        ({"extra_config": {"storlab.testbed": "mine"}}, "extra_config"),
        ({"extra_config": {"disk.EnableUUID": "FALSE"}}, "extra_config"),
        ({"disks": [DISK, DISK]}, "disks"),
        ({"disks": [{**DISK, "name": "a b"}]}, "disk's name"),
        ({"disks": [{**DISK, "size_mib": None}]}, "size_mib"),
        ({"disks": [{**DISK, "size_mib": 0}]}, "size_mib"),
        ({"disks": [{**DISK, "unit": 7}]}, "unit"),
        ({"disks": [{**DISK, "unit": 16}]}, "unit"),
        ({"disks": [{**DISK, "controller": "nvme", "unit": 15}]}, "unit"),
        ({"disks": [{**DISK, "controller": "ide", "unit": 2}]}, "unit"),
        ({"disks": [{**DISK, "bus": 4}]}, "bus"),
        ({"disks": [{**DISK, "controller": "ide", "bus": 2}]}, "bus"),
        ({"disks": [{**DISK, "bus": 0, "unit": 3}, {**DISK, "name": "b", "bus": 0, "unit": 3}]}, "disks"),
        ({"disks": [{**RAW, "size_mib": 16}]}, "size_mib"),
        ({"disks": [{**RAW, "controller": "ide"}]}, "controller"),
        ({"disks": [{**RAW, "rdm": {**RAW["rdm"], "naa": NAA}}]}, "rdm"),
        ({"disks": [{**RAW, "rdm": {**RAW["rdm"], "layer": "datastore-none"}}]}, "rdm layer"),
        ({"disks": [{**RAW, "rdm": {**RAW["rdm"], "layer": "datastore-nfs"}}]}, "rdm layer"),
        ({"disks": [RAW, {**RAW, "name": "raw2"}]}, "disks"),
        ({"iso": {"src": None, "path": None, "datastore": None}}, "iso path"),
        ({"iso": {"src": None, "path": "../other.iso", "datastore": None}}, "iso path"),
    ],
)
def test_what_cannot_be_is_refused_with_the_variables_name(given, variable):
    refused = failure(want, **given)
    assert refused.code == "bad_value"
    assert variable in refused.details["variable"]


def test_a_machine_from_a_template_needs_no_more_than_that():
    asked = want(template="t", guest_id=None, vcpus=None, memory_mib=None)
    assert (asked["vcpus"], asked["template"]) == (None, "t")


def test_truth_values_are_written_as_hosts_write_them():
    assert want(extra_config={"a": True, "b": 3, "c": "x"})["extra"] == {"a": "TRUE", "b": "3", "c": "x"}


# ---------------------------------------------------------------- places


def test_kinds_get_buses_of_their_own_and_disks_the_next_unit():
    assert places(machine(), {}, {"controller": "lsilogic"}, {}, {"controller": "nvme"}, {"controller": "ide"}) == [
        "pvscsi 0:0",
        "lsilogic 1:0",
        "pvscsi 0:1",
        "nvme 0:0",
        "ide 0:0",
    ]


def test_unit_7_is_the_controllers_own():
    assert places(machine(), *[{}] * 9)[6:] == ["pvscsi 0:6", "pvscsi 0:8", "pvscsi 0:9"]


def test_a_full_controller_is_followed_by_another():
    assert places(machine(), *[{}] * 16)[14:] == ["pvscsi 0:15", "pvscsi 1:0"]


def test_what_names_its_place_gets_it_whatever_comes_before():
    assert places(machine(), {}, {"unit": 0}, {"bus": 2, "unit": 0}) == ["pvscsi 0:1", "pvscsi 0:0", "pvscsi 2:0"]


def test_four_ide_devices_are_all_there_can_be():
    assert places(machine(), *[{"controller": "ide"}] * 3, iso=True) == ["ide 0:0", "ide 0:1", "ide 1:0", "drive 1:1"]
    assert failure(places, machine(), *[{"controller": "ide"}] * 5).code == "no_place"
    assert failure(places, machine(), *[{"controller": "ide"}] * 4, iso=True).code == "no_place"


def test_sixty_disks_fill_a_kind():
    assert len(set(places(machine(), *[{}] * 60))) == 60
    assert failure(places, machine(), *[{}] * 61).code == "no_place"
    assert len(set(places(machine(), *[{"controller": "nvme"}] * 60))) == 60


def test_a_bus_of_another_kind_is_no_place():
    refused = failure(places, machine(), {"controller": "lsilogic", "bus": 0}, {"bus": 0})
    assert (refused.code, refused.details["place"]) == ("no_place", "pvscsi 0:any unit")


def test_disks_of_a_template_keep_their_places():
    state = with_disk()
    del state["extra"]["storlab.disk.data"]
    assert places(state, {}, {"controller": "lsilogic"}) == ["pvscsi 0:1", "lsilogic 1:0"]
    assert failure(places, state, {"bus": 0, "unit": 0}).code == "no_place"


# ---------------------------------------------------------------- steps


def test_a_machine_as_it_shall_be_needs_nothing():
    assert esxi_vm.plan(with_disk(), want(disks=[DISK]), FACTS) == []


def test_an_empty_machine_is_made_and_told_with_all_its_parts():
    steps = esxi_vm.plan(
        None, want(disks=[DISK, RAW], nics=[{"network": "storage", "type": "vmxnet3"}], power="on"), FACTS
    )
    assert ops(steps) == ["create", "add_disk", "add_disk", "add_nic", "power_on"]
    assert shown(steps)["diff"]["after"].splitlines()[1:3] == [
        "add_disk vm1 data: pvscsi 0:0, 16 MiB eager on ds1",
        f"add_disk vm1 raw: pvscsi 0:1, physical mapping of {NAA}",
    ]


@pytest.mark.parametrize(
    ("change", "op"),
    [
        ({"vcpus": 3}, "vcpus"),
        ({"memory_mib": 2048}, "memory_mib"),
        ({"guest_id": "rhel9_64Guest"}, "guest_id"),
        ({"reserve_memory": False}, "reserve_memory"),
        ({"disks": [{**DISK, "controller": "nvme"}]}, "add_disk"),
        ({"disks": [{**DISK, "controller": "ide"}]}, "add_disk"),
        ({"disks": [DISK]}, "add_disk"),
        ({"iso": {"src": None, "path": "a.iso", "datastore": None}}, "add_cdrom"),
    ],
)
def test_what_needs_the_machine_off_is_done_only_then(change, op):
    assert ops(esxi_vm.plan(machine(), want(**change), FACTS)) == [op]
    running = machine(power="on")
    refused = failure(esxi_vm.plan, running, want(**change), FACTS)
    assert (refused.code, refused.details["steps"]) == ("needs_power_off", [op])
    assert ops(esxi_vm.plan(running, want(**change, restart=True), FACTS)) == ["power_off", op, "power_on"]
    assert ops(esxi_vm.plan(running, want(**change, power="off"), FACTS)) == ["power_off", op]


@pytest.mark.parametrize(
    ("state", "asked", "steps"),
    [
        ("on", "on", []),
        ("off", "off", []),
        ("off", "as_is", []),
        ("on", "as_is", []),
        ("suspended", "as_is", []),
        ("off", "on", ["power_on"]),
        ("suspended", "on", ["power_on"]),
        ("on", "off", ["power_off"]),
        ("suspended", "off", ["power_off"]),
    ],
)
def test_power(state, asked, steps):
    assert ops(esxi_vm.plan(machine(power=state), want(power=asked), FACTS)) == steps


def test_a_disk_goes_into_a_running_machine_at_a_scsi_controller_that_is_there():
    state = {**with_disk(), "power": "on"}
    assert ops(esxi_vm.plan(state, want(disks=[DISK, {**DISK, "name": "more"}]), FACTS)) == ["add_disk"]


def test_a_reservation_that_does_not_cover_the_memory_is_repaired():
    assert ops(esxi_vm.plan(machine(reservation_mib=512), want(), FACTS)) == ["reserve_memory"]
    assert ops(esxi_vm.plan(machine(locked=False), want(), FACTS)) == ["reserve_memory"]
    assert esxi_vm.plan(machine(locked=False, reservation_mib=0), want(reserve_memory=False), FACTS) == []


def test_serial_numbers_of_disks_are_turned_on():
    state = machine()
    del state["extra"]["disk.EnableUUID"]
    assert ops(esxi_vm.plan(state, want(), FACTS)) == ["disk_uuids"]


@pytest.mark.parametrize(
    ("there", "asked", "key"),
    [
        ({}, {"size_mib": 17}, "size_bytes"),
        ({}, {"provisioning": "lazy"}, "provisioning"),
        ({}, {"provisioning": "thin"}, "provisioning"),
        ({"provisioning": "thin"}, {}, "provisioning"),
        ({}, {"controller": "lsilogic"}, "controller"),
        ({}, {"unit": 3}, "unit"),
        ({}, {"bus": 1}, "bus"),
        ({"naa": NAA, "compatibility": "physical"}, {}, "mapping of"),
    ],
)
def test_a_disk_that_differs_is_never_made_anew(there, asked, key):
    refused = failure(esxi_vm.plan, with_disk(**there), want(disks=[{**DISK, **asked}]), FACTS)
    assert (refused.code, refused.details["key"]) == ("disk_differs", key)


def test_a_host_that_does_not_tell_eager_from_lazy_is_not_believed():
    """Old hosts leave the flag out; the machine's own record says how the disk was made."""
    assert esxi_vm.plan(with_disk(made="eager", provisioning="lazy"), want(disks=[DISK]), FACTS) == []


def test_a_disk_that_was_taken_out_is_added_where_it_was():
    state = with_disk()
    state["disks"] = []
    (step,) = esxi_vm.plan(state, want(disks=[DISK]), FACTS)
    assert (step["op"], step["place"]["bus"], step["place"]["unit"]) == ("add_disk", 0, 0)


def test_cards_are_compared_in_their_order_and_others_left_alone():
    cards = [
        {"key": 4000, "type": "vmxnet3", "network": "VM Network"},
        {"key": 4001, "type": "e1000", "network": "storage"},
        {"key": 4002, "type": "e1000", "network": "storage"},
    ]
    asked = [{"network": "storage", "type": "vmxnet3"}, {"network": "storage", "type": "vmxnet3"}]
    steps = esxi_vm.plan(machine(nics=cards), want(nics=asked), FACTS)
    assert [(step["op"], step["key"]) for step in steps] == [("move_nic", 4000), ("replace_nic", 4001)]


def test_values_of_settings_are_not_shown():
    steps = esxi_vm.plan(machine(), want(extra_config={"guestinfo.key": "hidden-value"}), FACTS)
    assert ops(steps) == ["extra_config"]
    assert "hidden-value" not in str(shown(steps))


@pytest.mark.parametrize(
    ("change", "facts", "code"),
    [
        ({"disks": [{**DISK, "size_mib": 101}]}, {}, "datastore_full"),
        ({"disks": [{**DISK, "size_mib": 60}, {**DISK, "name": "b", "size_mib": 60}]}, {}, "datastore_full"),
        ({"disks": [{**DISK, "datastore": "none"}]}, {}, "bad_value"),
        ({"disks": [{**DISK, "datastore": "lost"}]}, {}, "datastore_lost"),
        ({"datastore": "lost"}, {}, "datastore_lost"),
        ({"nics": [{"network": "none", "type": "e1000"}]}, {}, "bad_value"),
        ({"disks": [RAW]}, {"luns": {}}, "lun_missing"),
        ({"disks": [RAW]}, {"luns": {NAA: {**FACTS["luns"][NAA], "volume": "other"}}}, "device_in_use"),
        ({"disks": [RAW]}, {"luns": {NAA: {**FACTS["luns"][NAA], "users": ["vm2"]}}}, "device_in_use"),
    ],
)
def test_what_the_host_cannot_give_is_said_before_anything_is_made(change, facts, code):
    assert failure(esxi_vm.plan, None, want(**change), {**FACTS, **facts}).code == code


@pytest.mark.parametrize(
    ("lun", "layers", "code", "helps"),
    [
        ({"partitions": ["1 0x83", "2 ntfs"]}, LAYERS, "device_not_blank", True),
        ({"partitions": None}, LAYERS, "device_not_blank", True),
        ({"unresolved": "prod-vmfs"}, LAYERS, "device_not_blank", True),
        ({}, {"datastore-raw": LAYERS["datastore-raw"]}, "device_unproven", True),
        (
            {},
            {**LAYERS, "target-raw": {"kind": "target", "identity": {"target_iqn": "iqn.t", "lun": 4}}},
            "device_unproven",
            True,
        ),
        ({"available": False}, LAYERS, "device_in_use", False),
        ({"offered": False}, LAYERS, "device_unfit", False),
        ({"volume": "prod"}, LAYERS, "device_in_use", False),
        ({"users": ["vm2"]}, LAYERS, "device_in_use", False),
    ],
)
def test_a_lun_is_mapped_raw_only_when_it_is_proven_to_hold_nothing(lun, layers, code, helps):
    facts = {**FACTS, "luns": {NAA: {**FACTS["luns"][NAA], **lun}}}
    assert failure(esxi_vm.plan, machine(), want(disks=[RAW], layers=layers), facts).code == code
    # Another LUN that is named helps nothing.
    other = want(disks=[RAW], layers=layers, allow_device=[f"naa.{NAA[:-1]}2"])
    assert failure(esxi_vm.plan, machine(), other, facts).code == code
    allowed = want(disks=[RAW], layers=layers, allow_device=[f"/vmfs/devices/disks/naa.{NAA}"])
    if not helps:
        assert failure(esxi_vm.plan, machine(), allowed, facts).code == code
        return
    (step,) = esxi_vm.plan(machine(), allowed, facts)
    assert step["op"] == "add_disk"
    # What is overwritten is said in the diff.
    lost = {
        "device_not_blank": ["1 0x83", "cannot be read", "prod-vmfs"],
        "device_unproven": ["without a partition table"],
    }
    assert any(words in step["was"] for words in lost[code])


def test_a_lun_that_a_half_made_machine_has_is_looked_at_again_when_that_is_gone():
    facts = {**FACTS, "luns": {NAA: {**FACTS["luns"][NAA], "users": ["vm1"], "available": False, "offered": False}}}
    assert ops(esxi_vm.plan(machine(building=True), want(disks=[RAW]), facts)) == ["destroy", "create", "add_disk"]
    facts["luns"][NAA]["partitions"] = ["1 vmfs"]
    assert failure(esxi_vm.plan, machine(building=True), want(disks=[RAW]), facts).code == "device_not_blank"


def test_a_thin_disk_may_be_larger_than_the_free_space():
    assert ops(esxi_vm.plan(machine(), want(disks=[{**DISK, "size_mib": 500, "provisioning": "thin"}]), FACTS)) == [
        "add_disk"
    ]


def test_a_machine_of_others_is_refused_in_every_state():
    for owner in (None, "other"):
        state = machine(owner=owner, power="on")
        assert failure(esxi_vm.plan, state, want(), FACTS).code == "vm_foreign"
        assert failure(esxi_vm.absent_plan, state, want()).code == "vm_foreign"
        assert failure(esxi_vm.zero_plan, state, want(), []).code == "vm_foreign"
        assert esxi_vm.released_plan({**state, "accessible": False}, want()) == []


def test_what_was_made_half_is_made_anew():
    assert ops(esxi_vm.plan(machine(building=True), want(), FACTS)) == ["destroy", "create"]


def test_lost_machines_are_let_go_of_and_others_stay():
    lost = machine(accessible=False, power="on")
    assert failure(esxi_vm.plan, lost, want(), FACTS).code == "vm_lost"
    assert ops(esxi_vm.released_plan(lost, want())) == ["kill", "unregister"]
    assert ops(esxi_vm.absent_plan(lost, want())) == ["kill", "unregister"]
    assert esxi_vm.released_plan(machine(), want()) == []
    assert esxi_vm.absent_plan(None, want()) == []


def test_only_the_disks_go_when_only_their_datastore_is_lost():
    state = {**with_disk(), "power": "on", "lost": ["ds2"]}
    state["disks"].append({**state["disks"][0], "key": 2001, "unit": 1, "uuid": "far", "path": "[ds2] vm1/vm1.vmdk"})
    state["cdroms"] = [{"key": 3000, "controller": "ide", "bus": 0, "unit": 0, "iso": "[ds2] a.iso"}]
    assert failure(esxi_vm.plan, state, want(), FACTS).code == "vm_lost"
    steps = esxi_vm.released_plan(state, want())
    assert [(step["op"], step.get("key")) for step in steps] == [("kill", None), ("detach", 2001), ("eject", 3000)]
    assert ops(esxi_vm.absent_plan(state, want())) == ["kill", "detach", "eject", "destroy"]
    assert esxi_vm.released_plan({**state, "lost": ["ds3"]}, want()) == []


def test_zeroing_takes_only_disks_that_the_testbed_made():
    state = with_disk()
    state["disks"].append({**state["disks"][0], "unit": 5, "uuid": "system", "path": "[ds1] vm1/system.vmdk"})
    (step,) = esxi_vm.zero_plan(state, want(), [])
    assert step["path"] == "[ds1] vm1/vm1.vmdk"
    assert failure(esxi_vm.zero_plan, state, want(), ["system"]).code == "bad_value"
    assert failure(esxi_vm.zero_plan, None, want(), []).code == "vm_missing"
    raw = with_disk(made="physical", naa=NAA, compatibility="physical")
    assert failure(esxi_vm.zero_plan, raw, want(), []).code == "disk_raw"


@pytest.mark.parametrize(
    ("disk", "asked", "serial"),
    [
        ({}, DISK, "6000c29a7b1c0d2e3f40516273849506"),
        ({"naa": NAA, "compatibility": "physical"}, {**RAW, "name": "data"}, "a1-serial"),
        (
            {"naa": NAA, "compatibility": "virtual"},
            {**RAW, "name": "data", "rdm": {**RAW["rdm"], "compatibility": "virtual"}},
            "6000c29a7b1c0d2e3f40516273849506",
        ),
    ],
)
def test_the_serial_is_the_one_that_the_guest_sees(disk, asked, serial):
    assert [each["serial"] for each in esxi_vm.disk_facts(with_disk(**disk), want(disks=[asked]))] == [serial]


# ---------------------------------------------------------------- files


ISO = {"src": "/a.iso", "path": "a.iso", "backing": "[ds1] a.iso"}
LOCAL = {"sha256": "ab" * 32, "size_bytes": 700}
OURS = {"storlab.testbed": "tb", **LOCAL}


@pytest.mark.parametrize(
    ("size", "sidecar", "local", "steps"),
    [
        (None, None, LOCAL, ["upload_iso"]),
        (700, OURS, LOCAL, []),
        (699, OURS, LOCAL, ["upload_iso"]),
        (None, OURS, LOCAL, ["upload_iso"]),
        (700, {**OURS, "sha256": "cd" * 32}, LOCAL, ["upload_iso"]),
        (1, None, None, []),
    ],
)
def test_an_image_is_uploaded_when_it_is_not_there_as_it_is(size, sidecar, local, steps):
    assert ops(esxi_transfer.iso_plan(ISO, "tb", size, sidecar, local)) == steps


@pytest.mark.parametrize(
    ("size", "sidecar", "local", "code"),
    [
        (None, None, None, "iso_missing"),
        (700, None, LOCAL, "iso_foreign"),
        (700, {**OURS, "storlab.testbed": "other"}, LOCAL, "iso_foreign"),
    ],
)
def test_an_image_of_others_is_not_overwritten(size, sidecar, local, code):
    assert failure(esxi_transfer.iso_plan, ISO, "tb", size, sidecar, local).code == code


def archive(path, *members) -> str:
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return str(path)


def test_an_ova_is_read_with_its_manifest(tmp_path):
    digest = hashlib.sha1(b"<x/>", usedforsecurity=False).hexdigest()
    path = archive(
        tmp_path / "a.ova",
        ("a.ovf", b"<x/>"),
        ("a.mf", f"SHA1 (a.ovf) = {digest}\nSHA256(a.vmdk)= {'F' * 64}\n".encode()),
        ("a.vmdk", b"disk"),
    )
    read = esxi_transfer.Ova(path)
    assert (read.descriptor, read.digests["a.vmdk"]) == ("<x/>", ("sha256", "f" * 64))
    read.close()


@pytest.mark.parametrize(
    "members",
    [
        [],
        [("a.vmdk", b"x")],
        [("a.ovf", b"x"), ("b.ovf", b"y")],
        [("a.ovf", b"\xff\xfe")],
        [("a.ovf", b"x"), ("a.mf", b"SHA256(a.ovf)= 00\n")],
    ],
)
def test_an_archive_that_is_no_ova_is_refused(tmp_path, members):
    assert failure(esxi_transfer.Ova, archive(tmp_path / "a.ova", *members)).code == "ova_damaged"


def test_a_cut_archive_is_refused(tmp_path):
    path = tmp_path / "a.ova"
    archive(path, ("a.ovf", b"x" * 5000))
    path.write_bytes(path.read_bytes()[:2000])
    assert failure(esxi_transfer.Ova, str(path)).code == "ova_damaged"


KEPT = {
    "name": "datastore-theirs",
    "kind": "datastore",
    "host": "esxi01",
    "path": None,
    "parent": None,
    "purpose": "read",
    "identity": {"datastore": "theirs"},
}
IMAGE = {"src": "/images/debian.iso", "path": None, "datastore": "theirs"}


@pytest.mark.parametrize(
    "more",
    [{"datastore": "theirs"}, {"disks": [{**DISK, "datastore": "theirs"}]}, {"iso": IMAGE}],
    ids=["the machine", "a disk", "an image that is uploaded"],
)
def test_a_machine_on_a_datastore_that_is_only_read_is_refused(more):
    layers = {**LAYERS, KEPT["name"]: KEPT}
    refusal = failure(want, layers=layers, **more)
    assert refusal.code == "layer_read_only" and "theirs" in refusal.what and "access: write" in refusal.remedy
    # With access: write, and where the image is there already, nothing is said against it.
    assert want(layers={**LAYERS, KEPT["name"]: {**KEPT, "purpose": "data"}}, **more)
    assert want(layers=layers, iso={**IMAGE, "src": None, "path": "debian.iso"})
