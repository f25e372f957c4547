# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a teardown leaves on an ESXi host for others is a note of the proof, by name and for whom, and everything else that differs stays a failure."""

from __future__ import annotations

import copy
import json

import actions
import pytest
from ansible_collections.storlab.testbed.plugins.action import storage_baseline
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import host_state

HOST, OURS, THEIRS = "esx7", "iqn.2026-11.test:esx-7", "iqn.1998-01.com.vmware:esx7-1a"
ARRAY, PORTAL = "iqn.2010-06.test:array", "10.9.9.9:3261"
NAA, LOCAL = "600000000000000000c0ffee00310501", "600000000000000000c0ffee00310502"


def target(method: str, iqn: str | None, parent: str = "vmhba65") -> dict:
    entry = {"method": method, "address": "10.9.9.9", "port": 3261, "iqn": iqn}
    return {**entry, "discovered": bool(iqn), "parent": parent, "chap": {"name": "esx"} if iqn else None}


def volume(name: str, **more) -> dict:
    return {"name": name, "type": "VMFS", "naa": [], "remote": None, "uuid": f"u-{name}", "mounted": True, **more}


class Host:
    """A host with a disk of its own, and what a testbed has recorded of it. changed: what its adapter is like before the build."""

    def __init__(self, folder, **changed) -> None:
        self.folder = folder
        self.adapter = {
            "enabled": True, "device": "vmhba65", "iqn": THEIRS, "alias": "", "chap": None, "options": {"LoginTimeout": 5},
            "bound": [], "targets": [], "luns": [], "host_options": {}, "module_options": "", **changed,
        }  # fmt: skip
        self.stores = {"disks": {LOCAL: {"size_bytes": 4096}}, "volumes": []}
        group = {"switch": "vSwitch0", "vlan": 0, "active": ["vmnic0"], "standby": []}
        nic = {"port_group": "Management Network", "address": "10.7.0.2", "netmask": "255.0.0.0", "mtu": 1500}
        self.network = {
            "host": HOST, "management": ["vmk0"], "bound": [], "switches": {"vSwitch0": {"uplinks": ["vmnic0"], "mtu": 1500}},
            "port_groups": {"Management Network": group}, "interfaces": {"vmk0": nic},
        }  # fmt: skip
        self.baseline("captured")

    def build(self) -> None:
        """And what the teardown keeps of it: the adapter's own, the record of what to give back, and the network beneath a bound interface."""
        before = {key: copy.deepcopy(self.adapter[key]) for key in ("enabled", "iqn", "alias", "options")}
        record = {"before": {**before, "targets": [], "host_options": {}}, "targets": [], "bound": ["vmk3"]}
        self.record("iscsi", {**record, "options": ["LoginTimeout"], "secrets": {}})
        self.adapter.update(enabled=True, iqn=OURS, alias="storlab-mine", options={"LoginTimeout": 17}, bound=["vmk3"])
        nic = {"port_group": "mine-1", "address": "10.8.0.2", "netmask": "255.255.0.0", "mtu": 9000}
        group = {"switch": "vSwitch0", "vlan": 8, "active": ["vmnic0"], "standby": []}
        self.network["interfaces"]["vmk3"], self.network["port_groups"]["mine-1"] = nic, group
        self.network["bound"] = ["vmk3"]
        made = {"port_groups": {"mine-1": {"made": True, **group}}, "interfaces": {"mine-1": {"made": True, **nic}}}
        self.record("network", made)

    def array(self) -> None:
        """What an administrator adds, and what comes with it."""
        self.adapter["targets"] = [target("send", None), target("static", ARRAY, PORTAL)]
        self.adapter["luns"] = [{"iqn": ARRAY, "name": f"naa.{NAA}"}]
        self.stores["disks"][NAA] = {"size_bytes": 8192}
        self.stores["volumes"].append(volume("theirs", naa=[NAA]))

    def gone(self) -> None:
        """The array again, and what a teardown gives back then."""
        self.adapter.update(targets=[], luns=[], iqn=THEIRS, alias="", options={"LoginTimeout": 5}, bound=[])
        del self.stores["disks"][NAA], self.network["interfaces"]["vmk3"], self.network["port_groups"]["mine-1"]
        self.stores["volumes"], self.network["bound"] = [], []
        for area in ("iscsi", "network"):
            (self.folder / "esxi" / f"{area}-mine-{HOST}.json").unlink()

    def record(self, area: str, data: dict) -> None:
        path = self.folder / "esxi" / f"{area}-mine-{HOST}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(data))

    def baseline(self, state: str) -> dict:
        known = host_state.records(str(self.folder), "mine", HOST)
        arguments = {
            "state": state,
            "testbed_id": "mine",
            "state_dir": str(self.folder),
            "storage_state": host_state.lines(self.adapter, self.stores, [], self.network, {}),
            "ours": {"virtual machines": []},
            "kept_for_others": host_state.left(self.adapter, self.stores, self.network, known, HOST),
        }
        return actions.answer(actions.make(storage_baseline, arguments), {"inventory_hostname": HOST}, [])

    def strays(self) -> list:
        answer = self.baseline("verified")
        assert answer["failed"] and answer["failure"]["code"] == "not_clean", answer
        return answer["failure"]["details"]["strays"]


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    """Power policy and time servers are of no account here."""
    monkeypatch.setattr(host_state.settings, "lines", lambda _settings: [])


FOR = f"kept for send {PORTAL}, static {PORTAL} {ARRAY}"
CAME = f"(was not there before, {FOR})"
OF_OTHERS = "(was not there before, of others)"


def test_what_is_kept_for_an_array_is_noted_with_the_array_that_it_is_kept_for(host):
    host.build()
    host.array()
    answer = host.baseline("verified")
    assert not answer.get("failed"), answer
    assert answer["strays"] == [] and sorted(answer["notes"]) == sorted(
        [
            f"iscsi adapter: name {OURS} {CAME}",
            f"iscsi adapter: name {THEIRS} (is gone, {FOR})",
            f"iscsi adapter: alias storlab-mine {CAME}",
            f"iscsi adapter: alias none (is gone, {FOR})",
            f"iscsi adapter: option LoginTimeout 17 {CAME}",
            f"iscsi adapter: option LoginTimeout 5 (is gone, {FOR})",
            f"iscsi adapter: bound vmk3 {CAME}",
            f"iscsi targets: send {PORTAL} {OF_OTHERS}",
            f"iscsi targets: static {PORTAL} {ARRAY} CHAP esx {OF_OTHERS}",
            f"devices: {NAA} 8192 bytes {OF_OTHERS}",
            f"datastores: theirs VMFS on {NAA} {OF_OTHERS}",
            f"network: interface vmk3: port group mine-1, address 10.8.0.2, netmask 255.255.0.0, mtu 9000 {CAME}",
            f"network: port group mine-1: switch vSwitch0, vlan 8, active vmnic0 {CAME}",
        ]
    )


def test_an_adapter_that_stays_enabled_for_others_has_settings_that_did_not_count_before(tmp_path):
    host = Host(tmp_path, enabled=False)
    host.build()
    host.array()
    notes = host.baseline("verified")["notes"]
    assert f"iscsi adapter: software iSCSI disabled (is gone, {FOR})" in notes
    assert f"iscsi adapter: software iSCSI enabled {CAME}" in notes and f"iscsi adapter: name {OURS} {CAME}" in notes
    assert not any(THEIRS in note for note in notes)


def test_without_others_the_same_things_are_left_of_the_testbed(host):
    host.build()
    strays = host.strays()
    assert f"iscsi adapter: name {OURS} (was not there before)" in strays and len(strays) == 9


def change_option(host):
    host.adapter["options"]["LoginTimeout"] = 29
    host.adapter["options"]["NoopInterval"] = 31


@pytest.mark.parametrize(
    ("change", "stray"),
    [
        pytest.param(
            lambda host: host.adapter["bound"].append("vmk5"), "iscsi adapter: bound vmk5 (was not there before)", id="bound"
        ),
        pytest.param(
            lambda host: host.stores["disks"].pop(LOCAL), f"devices: {LOCAL} 4096 bytes (is gone)", id="a device is gone"
        ),
        pytest.param(
            lambda host: host.stores["disks"].update({LOCAL[:-1] + "3": {"size_bytes": 512}}),
            f"devices: {LOCAL[:-1]}3 512 bytes (was not there before)",
            id="a device of no target of others",
        ),
        pytest.param(
            lambda host: host.stores["volumes"].append(volume("half", naa=[NAA, LOCAL])),
            f"datastores: half VMFS on {NAA}, {LOCAL} (was not there before)",
            id="a datastore on more than theirs",
        ),
        pytest.param(change_option, "iscsi adapter: option NoopInterval 31 (was not there before)", id="another option"),
        pytest.param(
            lambda host: host.network["switches"].update({"vSwitch3": {"uplinks": ["vmnic3"], "mtu": 1600}}),
            "network: switch vSwitch3: uplinks vmnic3, mtu 1600 (was not there before)",
            id="a switch",
        ),
    ],
)  # fmt: skip
def test_everything_else_that_differs_stays_a_failure(host, change, stray):
    host.build()
    host.array()
    change(host)
    assert host.strays() == [stray]


def test_a_build_after_a_teardown_that_kept_something_is_proven_by_what_was_there_before_the_first(host):
    host.build()
    host.array()
    assert not host.baseline("verified").get("failed")
    host.baseline("captured")
    host.gone()
    answer = host.baseline("verified")
    assert (answer.get("failed"), answer.get("notes")) == (None, []), answer


def test_a_share_that_the_testbed_has_not_mounted_is_a_note_and_one_that_it_has_is_not(host):
    share = {"type": "NFS", "remote": "192.0.2.7:/export/a", "uuid": "nfs 192.0.2.7:/export/a"}
    host.stores["volumes"] = [volume("shared", **share)]
    (note,) = host.baseline("verified")["notes"]
    assert note == (
        "datastores: shared NFS from 192.0.2.7:/export/a (was not there before, this testbed has not mounted it)"
    )
    recorded = {"name": "shared", "naa": [], "layer": None}
    intended = {"name": "shared", "naa": None, "remote": share["remote"], "host": HOST, "time_s": 7}
    for record in ({"datastores": {share["uuid"]: recorded}}, {"intended": {"shared": intended}}):
        host.record("datastore", record)
        assert host.strays() == ["datastores: shared NFS from 192.0.2.7:/export/a (was not there before)"]


def test_a_share_that_was_there_before_a_build_is_missed_when_it_is_gone(tmp_path):
    host = Host(tmp_path)
    share = {"type": "NFS", "remote": "192.0.2.8:/export/b", "uuid": "nfs 192.0.2.8:/export/b"}
    host.stores["volumes"] = [volume("older", **share)]
    host.baseline("verified")
    host.baseline("captured")
    host.stores["volumes"] = []
    assert host.strays() == ["datastores: older NFS from 192.0.2.8:/export/b (is gone)"]
