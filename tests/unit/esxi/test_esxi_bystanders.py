# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever else is on an ESXi host, however alike its names: targets at the same address, switches, port groups and interfaces, datastores, and the disks
of machines. All of ours goes, and what is not ours is never in a plan of removal. 500 random mixtures of both each."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import (
    adapter_plan,
    datastore_plan,
    machine_plan,
    network_plan,
)
from hypothesis import given, settings
from hypothesis import strategies as st

CASES = settings(max_examples=500, deadline=None)
# What begins, ends or goes on like ours.
ALIKE = ("iscsi", "iscsi-a", "iscsi-a2", "iscsi-", "scsi-a", "ISCSI-A", "iscsi_a", "iscsi a")

ENTRIES = st.tuples(
    st.sampled_from(("static", "send")),
    st.sampled_from(("10.0.0.1", "10.0.0.11", "10.0.0.2")),
    st.sampled_from((3260, 32600)),
    st.sampled_from(("iqn.t:id", "iqn.t:id2", "iqn.t:id-2", "iqn.t:id:one", "iqn.t:i")),
)


def entry(one: tuple) -> dict:
    method, address, port, iqn = one
    return {
        "method": method,
        "address": address,
        "port": port,
        "iqn": iqn if method == "static" else "",
        "discovered": False,
    }


@CASES
@given(ours=st.lists(ENTRIES, max_size=3), foreign=st.lists(ENTRIES, max_size=6), was_enabled=st.booleans())
def test_targets(ours, foreign, was_enabled):
    mine = {adapter_plan.entry_key(entry(one)): entry(one) for one in ours}
    others = {adapter_plan.entry_key(entry(one)): entry(one) for one in foreign}
    others = {key: one for key, one in others.items() if key not in mine}
    state = {
        "targets": [*others.values(), *mine.values()],
        "bound": ["vmk1", "vmk11"],
        "chap": None,
        "options": {},
        "device": "vmhba64",
        "iqn": "iqn.a",
        "alias": "",
        "host_options": {},
        "module_options": "",
        "luns": [],
        "enabled": True,
    }
    before = {
        "targets": sorted(others),
        "options": {},
        "iqn": "iqn.a",
        "alias": "",
        "host_options": {},
        "enabled": was_enabled,
    }
    steps = adapter_plan.absent_plan(state, {"before": before, "targets": sorted(mine), "bound": ["vmk1"]})
    assert {step["target"] for step in steps if step["op"] == "remove_target"} == set(mine)
    assert [step["target"] for step in steps if step["op"] == "unbind"] == ["vmk1"]
    assert any(step["op"] == "disable" for step in steps) == (not was_enabled and not others)


PORTALS = ("10.0.0.1:3260", "10.0.0.1:32600", "10.0.0.11:3260", "10.0.0.2:3260")


@CASES
@given(
    mine=st.sets(st.sampled_from(PORTALS)),
    reported=st.lists(
        st.tuples(st.sampled_from((*PORTALS, "vmhba64", None)), st.sampled_from(PORTALS), st.sampled_from("abc")),
        max_size=8,
        unique_by=lambda one: one[1:],
    ),
)
def test_targets_that_were_reported_go_with_the_send_target_that_reported_them(mine, reported):
    def found(portal: str, iqn: str | None, parent: str | None) -> dict:
        address, port = portal.rsplit(":", 1)
        method = "static" if iqn else "send"
        entry = {"method": method, "address": address, "port": int(port), "iqn": iqn, "chap": None}
        return {**entry, "discovered": bool(iqn), "parent": parent}

    sends = [found(portal, None, "vmhba64") for portal in PORTALS]
    statics = [found(portal, f"iqn.t:{name}", parent) for parent, portal, name in reported]
    quiet = {
        "chap": None,
        "options": {},
        "host_options": {},
        "host_limits": {},
        "module_options": "",
        "luns": [],
        "bound": [],
    }
    state = {**quiet, "targets": sends + statics, "device": "vmhba64", "iqn": "iqn.a", "alias": "", "enabled": True}
    before = {**quiet, "targets": [], "iqn": "iqn.b", "alias": "", "enabled": False}
    memory = {"before": before, "targets": [f"send {portal}" for portal in mine]}
    gone = {step["target"] for step in adapter_plan.absent_plan(state, memory) if step["op"] == "remove_target"}
    assert gone == {
        adapter_plan.entry_key(each) for each in sends if adapter_plan.entry_key(each) in memory["targets"]
    } | {adapter_plan.entry_key(each) for each in statics if each["parent"] in mine}
    ops = {step["op"] for step in adapter_plan.absent_plan(state, memory)}
    # Others are left exactly when a portal is not ours, or something came from elsewhere.
    others = mine != set(PORTALS) or any(each["parent"] not in mine for each in statics)
    assert ("name" in ops, "disable" in ops, bool(adapter_plan.kept(state, memory))) == (not others, not others, others)


def nothing_of(area: dict, names: set) -> dict:
    return {name: value for name, value in area.items() if name not in names}


@CASES
@given(
    groups=st.dictionaries(
        st.sampled_from(ALIKE),
        # (its switch, whose it is, whether it has an interface, and whose that is, whether our record was confirmed)
        st.tuples(
            st.sampled_from(ALIKE),
            st.booleans(),
            st.sampled_from((None, "ours", "theirs")),
            st.booleans(),
            st.booleans(),
        ),
        max_size=6,
    ),
    switches=st.sets(st.sampled_from(ALIKE)),
    management=st.booleans(),
)
def test_networks(groups, switches, management):
    state = {
        "host": "esx7",
        "management": ["vmk0"],
        "bound": [],
        "switches": {"vSwitch0": {"uplinks": ["vmnic0"], "mtu": 1500}},
        "port_groups": {"Management Network": {"switch": "vSwitch0", "vlan": 0, "active": ["vmnic0"], "standby": []}},
        "interfaces": {
            "vmk0": {"port_group": "Management Network", "address": "10.7.0.2", "netmask": "255.0.0.0", "mtu": 1500}
        },
    }
    record: dict = {"switches": {}, "port_groups": {}, "interfaces": {}}
    ours: dict = {"switches": set(switches), "port_groups": set(), "interfaces": set()}
    for name in sorted({*switches, *(group[0] for group in groups.values())}):
        state["switches"][name] = {"uplinks": [f"nic-{name}"], "mtu": 9000}
        if name in switches:
            record["switches"][name] = {"made": True, **state["switches"][name]}
    for number, (name, (switch, mine, interface, confirmed, same)) in enumerate(sorted(groups.items()), start=1):
        state["port_groups"][name] = {"switch": switch, "vlan": number, "active": [f"nic-{switch}"], "standby": []}
        if mine:
            # What was not confirmed is ours only when it is exactly what was asked for.
            vlan = number if confirmed or same else number + 100
            record["port_groups"][name] = {"made": confirmed, **state["port_groups"][name], "vlan": vlan}
            ours["port_groups"] |= {name} if confirmed or same else set()
        if interface:
            nic = {"port_group": name, "address": f"192.0.2.{number}", "netmask": "255.255.255.0", "mtu": 9000}
            state["interfaces"][f"vmk{number}"] = nic
            if interface == "ours":
                record["interfaces"][name] = {"made": True, **nic}
                ours["interfaces"].add(f"vmk{number}")
    if management:
        state["management"] = sorted(state["interfaces"])
    before, kept = copy.deepcopy(state), copy.deepcopy(record)
    by_group = {nic["port_group"]: device for device, nic in state["interfaces"].items()}
    # What of others, or the management network, stands on something of ours.
    held = {
        group for group in ours["port_groups"] if by_group.get(group, "") in set(by_group.values()) - ours["interfaces"]
    }
    crowded = {each["switch"] for name, each in state["port_groups"].items() if name not in ours["port_groups"]} & ours[
        "switches"
    ]
    try:
        steps = network_plan.absent_plan(state, record)
    except Failure as failure:
        assert failure.code in ("in_use", "management_network")
        assert held or crowded or (management and ours["interfaces"])
        steps = None
    else:
        assert not held and not crowded and not (management and ours["interfaces"])
    assert (state, record) == (before, kept)
    if steps is None:
        return
    gone: dict = {"switch": set(), "port_group": set(), "interface": set()}
    for step in steps:
        arguments = step["arguments"]
        assert arguments["state"] == "absent"
        key = {"switch": "switch", "port_group": "portgroup", "interface": "device"}[step["kind"]]
        gone[step["kind"]].add(arguments[key])
    assert gone == {"switch": ours["switches"], "port_group": ours["port_groups"], "interface": ours["interfaces"]}
    # And what is left is a host that works: no port group without its switch, no interface without its port group.
    left = {area: nothing_of(state[area], ours[area]) for area in ours}
    assert {each["switch"] for each in left["port_groups"].values()} <= set(left["switches"])
    assert {each["port_group"] for each in left["interfaces"].values()} <= set(left["port_groups"])


NAAS = ("600140501", "6001405010", "60014050")
VOLUMES = st.fixed_dictionaries(
    {
        "name": st.sampled_from(("ds1", "ds10", "ds", "DS1", "ds1 (1)", "ds-1")),
        "type": st.sampled_from(("VMFS", "NFS")),
        "uuid": st.sampled_from(("u-1", "u-10", "u")),
        "naa": st.lists(st.sampled_from(NAAS), unique=True, min_size=1, max_size=2),
        "remote": st.sampled_from(("10.0.0.5:/srv/ds1", "10.0.0.5:/srv/ds10", "10.0.0.50:/srv/ds1")),
        "mounted": st.booleans(),
        "accessible": st.booleans(),
        "vms": st.sampled_from(([], ["vm1"])),
        "reason": st.sampled_from(("", datastore_plan.PERMANENT)),
        "entries": st.sampled_from(([], ["golden.vmdk"])),
        "hosts": st.sampled_from(([], ["esx2"], ["esx9"])),
        "owner": st.sampled_from(("mine", "mine-2", "min", "MINE", None)),
    }
)


@CASES
@given(
    there=st.lists(VOLUMES, max_size=5, unique_by=lambda volume: volume["name"]),
    kind=st.sampled_from(("vmfs", "nfs")),
    state=st.sampled_from(("absent", "unmounted")),
    recorded=st.sets(st.sampled_from(("u-1", "u-10", "u"))),
    answering=st.sets(st.sampled_from(NAAS)),
    layered=st.booleans(),
    discard=st.booleans(),
)
def test_datastores(there, kind, state, recorded, answering, layered, discard):
    volumes = [
        {
            **volume,
            "vms_here": volume["vms"],
            "version": 6,
            "size_bytes": 1 << 30,
            "naa": volume["naa"] if volume["type"] == "VMFS" else [],
            "remote": volume["remote"] if volume["type"] == "NFS" else None,
        }
        for volume in there
    ]
    disks = {
        naa: {
            "device": naa,
            "size_bytes": 1 << 30,
            "state": "ok",
            "available": True,
            "partitions": [],
            "unresolved": None,
        }
        for naa in answering
    }
    want = {
        "name": "ds1",
        "type": kind,
        # What is taken down need not name its LUN, whose layer may be forgotten.
        "naa": NAAS[0] if kind == "vmfs" and layered else None,
        "version": 6,
        "server": "10.0.0.5" if kind == "nfs" else None,
        "path": "/srv/ds1" if kind == "nfs" else None,
        "state": state,
        "testbed_id": "mine",
        "layer": "initiator-ds1",
        "allowed": False,
        "discard": discard,
        "hosts": ["esx1", "esx2"],
        "remembers": True,
        "check_mode": False,
    }
    owners = {volume["name"]: volume["owner"] for volume in there}
    known = {uuid: {"name": "ds1", "naa": [NAAS[0]], "layer": "initiator-ds1"} for uuid in recorded}
    asked: list = []
    before = copy.deepcopy(volumes)
    look = SimpleNamespace(
        stamp=lambda name: asked.append(name) or owners[name],
        entries=lambda name: next(volume["entries"] for volume in there if volume["name"] == name),
    )
    try:
        steps = datastore_plan.plan({"volumes": volumes, "disks": disks}, want, look, known)
    except Failure:
        steps = []
    assert volumes == before and set(asked) <= {"ds1"}
    named = next((volume for volume in volumes if volume["name"] == "ds1"), None)
    for step in steps:
        # Of all that is there, only what is called so; and never with machines on it.
        assert named and step["target"] == "ds1" and step.get("uuid", named["uuid"]) == named["uuid"]
        assert not named["vms"]
        if named["type"] == "NFS":
            assert (kind, named["remote"]) == ("nfs", "10.0.0.5:/srv/ds1") and named["uuid"] in recorded
        elif named["mounted"] and named["accessible"]:
            assert owners["ds1"] == "mine"
        elif step["op"] == "destroy":
            # Mounting it reads the stamp, and takes the mount back when it is another's.
            assert steps[0]["op"] == "mount"
        elif step["op"] != "mount":
            assert named["uuid"] in recorded and not named["accessible"]
        if step["op"] == "destroy":
            assert named["type"] == "VMFS" and named["hosts"] != ["esx9"]
            # What is unmounted is looked into when it is mounted.
            assert discard or not named["entries"] or steps[0]["op"] == "mount"
    mine = named and named["type"] == "VMFS" and kind == "vmfs" and owners["ds1"] == "mine"
    mine = mine and (not layered or NAAS[0] in named["naa"])
    bare = (
        mine
        and not named["vms"]
        and (state == "unmounted" or (named["hosts"] != ["esx9"] and (discard or not named["entries"])))
    )
    if bare and named["mounted"] and named["accessible"]:
        assert [step["op"] for step in steps] == (["destroy"] if state == "absent" else ["unmount"])


PLACES = st.sampled_from(
    (
        "[ds1] vm1/a.vmdk",
        "[ds10] vm1/a.vmdk",
        "[ds] vm1/a.vmdk",
        "[ds1]vm1/a.vmdk",
        "[ds1 ] vm1/a.vmdk",
        "[other] [ds1] a.vmdk",
    )
)


@CASES
@given(
    disks=st.lists(st.tuples(PLACES, st.booleans()), max_size=5),
    beside=st.sets(st.sampled_from(("a.vmdk", "vm1.vmdk", "vm1.vmx", "notes.txt")), max_size=2),
    images=st.lists(st.one_of(st.none(), PLACES), max_size=2),
    lost=st.sets(st.sampled_from(("ds1", "ds10", "ds", "ds1 ", "other"))),
    owner=st.sampled_from(("mine", "mine-2", "min", None)),
    accessible=st.booleans(),
    power=st.sampled_from(("on", "off")),
)
def test_machines(disks, beside, images, lost, owner, accessible, power):
    """disks: [(path, whether the machine has a record of it)]."""
    state = {
        "owner": owner,
        "accessible": accessible,
        "power": power,
        "path": "[ds1] vm1/vm1.vmx",
        "lost": sorted(lost),
        "disks": [
            {
                "path": path,
                "chain": [path],
                "key": 2000 + unit,
                "uuid": f"U-{unit}",
                "controller": "nvme",
                "bus": 1,
                "unit": unit,
            }
            for unit, (path, _mine) in enumerate(disks)
        ],
        "extra": {
            f"storlab.disk.{unit}": f"nvme 1:{unit} eager u-{unit}" for unit, (_path, mine) in enumerate(disks) if mine
        },
        "files": [{"key": 4000, "kind": "floppy image", "path": "[ds1] theirs/a.flp"}],
        "snapshots": [],
        "layout": [{"path": "[ds1] vm1/vm1.vmx", "type": "config"}],
        "folder": sorted(beside),
        "cdroms": [{"iso": path, "key": 3000 + number} for number, path in enumerate(images)],
    }
    want, before = {"name": "vm1", "testbed_id": "mine"}, copy.deepcopy(state)
    released = machine_plan.released_plan(state, want)
    try:
        steps = machine_plan.absent_plan(state, want)
    except Failure as failure:
        assert failure.code == "vm_foreign" and owner != "mine"
        assert released == [] and state == before
        return
    assert owner == "mine" and state == before
    # A disk lies where its path says, between the brackets: a disk on a datastore that works stays with its files.
    gone = {
        2000 + number
        for number, (path, _mine) in enumerate(disks)
        if path[1 : path.index("] ") if "] " in path else 1] in lost
    } | {
        3000 + number
        for number, path in enumerate(images)
        if path and path[1 : path.index("] ") if "] " in path else 1] in lost
    }
    assert {step["key"] for step in released if "key" in step} == (gone if accessible else set())
    if not accessible:
        assert [step["op"] for step in steps if step["op"] != "kill"] == ["unregister"]
        return
    theirs = {2000 + number for number, (_path, mine) in enumerate(disks) if not mine} | {4000}
    theirs |= {3000 + number for number, path in enumerate(images) if path}
    let_go = {step["key"] for step in steps if step["op"] in ("detach", "eject")}
    assert let_go == gone | theirs
    # A host that destroys a machine deletes what is attached to it, and perhaps the folder.
    ours = {path.rpartition("/")[2] for path, mine in disks if mine and path.startswith("[ds1] vm1/")} | {"vm1.vmx"}
    if beside <= ours:
        assert steps[-1]["op"] == "destroy" and "delete_disk" not in [step["op"] for step in steps]
    else:
        assert "destroy" not in [step["op"] for step in steps]
        assert {step["key"] for step in steps if step["op"] == "delete_disk"} == {
            2000 + number for number, (_path, mine) in enumerate(disks) if mine
        } - gone
        assert [step["target"] for step in steps if step["op"] == "delete_file"] == ["[ds1] vm1/vm1.vmx"]


def test_a_share_of_others_that_has_the_name_of_a_datastore_stays():
    """Where the LUN's layer is forgotten nothing but the name is left to compare, and whether it is a VMFS at all."""
    share = {
        "name": "ds1",
        "type": "NFS",
        "uuid": "u",
        "naa": [],
        "remote": "10.0.0.9:/home",
        "mounted": True,
        "accessible": True,
        "vms_here": [],
    }
    want = {"name": "ds1", "type": "vmfs", "naa": None, "state": "absent", "testbed_id": "mine", "layer": None}
    with pytest.raises(Failure) as caught:
        datastore_plan.plan({"volumes": [share], "disks": {}}, want, None, {})
    assert caught.value.code == "datastore_foreign" and "10.0.0.9:/home" in str(caught.value)
