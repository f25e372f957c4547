# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is derived from names belongs to one owner, or the inventory is refused naming both owners."""

from __future__ import annotations

import json
import re
from itertools import combinations

import pytest
import show_testbed
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.core import iscsi_names
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import check, expand
from chain_lab import ROLES, SECRETS, expanded
from hypothesis import given, settings
from hypothesis import strategies as st

# Letters that fold together in one system or another, and some that do not.
LETTERS = "aAbB01_-.äß日"
NAMES = st.text(LETTERS, min_size=1, max_size=22).filter(lambda name: name[0] not in "-.")
DISK_NAMES = st.text("aAb1-_", min_size=1, max_size=20).filter(
    lambda name: name[0] not in "-_" and name[-1] not in "-_"
)
IDS = st.text("ab1_-.", min_size=1, max_size=12).filter(lambda name: name[0] in "ab1" and name[-1] in "ab1")


def lab(groups: dict, testbed: dict, own: dict | None = None, **everywhere) -> dict:
    everywhere = {"testbed_id": "lab", "testbed": testbed, **everywhere}
    hosts = {name: {**everywhere, **(own or {}).get(name, {})} for members in groups.values() for name in members}
    return {"groups": groups, "hosts": hosts, "base_dir": "/labs", "secrets": SECRETS, "roles": ROLES, "profiles": []}


def judged(described: dict) -> tuple:
    testbed = expand.expand(described)
    return testbed, [problem.sentence() for problem in check.check(described, testbed)]


def disk(name: str, to: str | None = None, **more) -> dict:
    return {"name": name, "size": "64MiB", **({"to": [to]} if to else {}), **more}


def addresses(names: list) -> dict:
    return {name: {"testbed_address": f"192.0.2.{place}"} for place, name in enumerate(names, 11)}


@pytest.mark.parametrize(
    ("first", "second"), [("web_1", "web-1"), ("Web1", "web1"), ("日本", "中国"), ("ä.x", "ö.x"), ("a+b", "a b")]
)
def test_hosts_that_would_have_one_initiator_name_are_refused_naming_both(first, second):
    described = lab(
        {"targets": ["t1"], "clients": [first, second]},
        {"disks": [disk("a", first), disk("b", second)]},
        addresses(["t1"]),
    )
    _testbed, sentences = judged(described)
    assert len(sentences) == 1
    assert sentences[0].startswith(f"iscsi_initiator_name of {first} and {second} is 'iqn.2026-11.test.storlab:lab:")
    assert f"set another iscsi_initiator_name for {second}" in sentences[0]


def test_a_name_of_its_own_settles_it_and_each_gets_its_own_lun():
    described = lab(
        {"targets": ["t1", "t2"], "clients": ["web_1", "web-1"]},
        {"disks": [disk("a", "web_1", targets=["t1"]), disk("b", "web-1", targets=["t2"])]},
        {**addresses(["t1", "t2"]), "web-1": {"iscsi_initiator_name": "iqn.2026-11.test.mine:second"}},
    )
    testbed, sentences = judged(described)
    assert sentences == []
    assert seen(testbed) == {"web_1": {"a"}, "web-1": {"b"}}


def test_two_targets_of_one_name_are_refused_naming_both():
    described = lab({"targets": ["t_1", "t-1"], "clients": ["c1"]}, {"disks": [disk("a")]}, addresses(["t_1", "t-1"]))
    _testbed, sentences = judged(described)
    assert any(
        sentence.startswith("the name of the target of t_1 and t-1 is 'iqn.2026-11.test.storlab:lab:t-1'")
        for sentence in sentences
    )


def test_one_target_that_stands_twice_in_a_variable_is_told_by_that_variable():
    export = {
        "name": "iqn.2026-11.test.mine:t",
        "portals": [{"address": "192.0.2.11"}],
        "luns": [],
        "initiators": [],
    }
    described = lab(
        {"targets": ["t1"], "clients": ["c1"]},
        {"disks": [disk("a")]},
        {"t1": {"testbed_address": "192.0.2.11", "iscsi_target_targets": [export, export]}},
    )
    assert judged(described)[1] == [
        "iscsi_target_targets is a list with 'iqn.2026-11.test.mine:t' twice: give each target an IQN of its own."
    ]


def test_testbeds_have_initiator_names_of_their_own_whatever_they_are_called():
    ids = ["a_b", "a-b", "a.b", "a__b", "a-_b", "a_-b", "ab"]
    names = {
        testbed_id: {
            value
            for host in expanded(
                yaml.safe_dump(
                    {
                        "all": {"testbed_id": testbed_id, "testbed": {"disks": [disk("a")]}},
                        "targets": {"t1": {"testbed_address": "192.0.2.11"}},
                        "clients": {"b": {}, "c1": {}},
                    }
                )
            ).hosts.values()
            for value in (host.variables["iscsi_initiator_name"], *iqns_of(host))
        }
        for testbed_id in ids
    }
    for first, second in combinations(ids, 2):
        assert not names[first] & names[second], (first, second)
    assert all(iscsi_names.check_iqn("name", name) for several in names.values() for name in several)


@given(st.tuples(IDS, IDS), st.tuples(NAMES, NAMES))
@settings(max_examples=150, deadline=None)
def test_no_two_testbeds_share_a_target_or_initiator_name(ids, hosts):
    names = []
    for testbed_id in ids:
        groups = {"targets": ["t-t"], "clients": list(dict.fromkeys(hosts))}
        testbed = expand.expand(lab(groups, {"disks": [disk("a")]}, addresses(["t-t"]), testbed_id=testbed_id))
        names.append({host.variables["iscsi_initiator_name"] for host in testbed.hosts.values()})
    assert ids[0] == ids[1] or not names[0] & names[1]


def iqns_of(host) -> list:
    return [export["name"] for export in host.variables.get("iscsi_target_targets") or []]


def seen(testbed) -> dict:
    """{host: names of the LUNs that it logs in to}, without what a target shows to itself."""
    return {
        name: {
            lun["name"]
            for session in testbed.hosts[name].variables["iscsi_initiator_targets"]
            for lun in session["luns"]
        }
        for name in testbed.initiators
    }


def every_name(testbed) -> list:
    """[(where a name must be the only one, the name as it is compared there)] of all that is derived."""
    names: list = []
    for host in testbed.hosts.values():
        values, alike = host.variables, host.platform in ("windows", "esxi")
        names += [("initiators", name) for name in [values.get("iscsi_initiator_name")] if name]
        names += [("targets", iqn) for iqn in iqns_of(host)]
        for export in values.get("iscsi_target_targets") or []:
            for lun in export["luns"]:
                serial = iscsi_names.unit_serial(testbed.testbed_id, lun["name"])
                if not export["name"].endswith("-loopback"):
                    names += [("serials", serial), ("NAA", iscsi_names.lio_naa(serial))]
                    names.append(("SCSI ids", iscsi_names.scsi_id(testbed.testbed_id, lun["name"])))
        machines = [*(values.get("embedded_lab_machines") or []), *(values.get("embedded_lab_ports") or [])]
        names += [("taps", machine["tap"]) for machine in machines]
        names += [(f"disks of {m['name']}", d["serial"]) for m in machines for d in m.get("disks", [])]
        for store in values.get("datastore_datastores") or []:
            label = store["name"].casefold() if alike else store["name"]
            names.append((f"datastores of {host.name}", label))
            names += [(f"mounts of {host.name}", store["mount_point"])] if "mount_point" in store else []
        files = [entry["name"].lower() if alike else entry["name"] for entry in values.get("ramdisk_disks") or []]
        names += [(f"RAM disks of {host.name}", name) for name in files]
    names += [("layers", layer["name"]) for layer in testbed.layers]
    stores = {(store.label, store.index, store.target) for store in testbed.stores}
    return names + [("UUIDs", iscsi_names.filesystem_uuid(testbed.testbed_id, label)) for label, _, _ in stores]


def hold_each_its_own(described: dict) -> None:
    """Either it is refused, or every name has one owner and every host gets what is its."""
    testbed, sentences = judged(described)
    if sentences:
        assert all(sentence.isprintable() and len(sentence) < 900 for sentence in sentences)
        return
    names = every_name(testbed)
    doubled = {entry for entry in names if names.count(entry) > 1}
    assert not doubled
    wanted = {name: {entry.name for entry in testbed.disks if name in entry.hosts} for name in testbed.initiators}
    assert seen(testbed) == wanted


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_generated_names_are_each_their_own_or_refused(data):
    hosts = data.draw(st.lists(NAMES, min_size=3, max_size=5, unique=True))
    targets, clients = hosts[:2], hosts[2:]
    disks = [
        disk(name, data.draw(st.sampled_from(clients)), targets=[data.draw(st.sampled_from(targets))])
        for name in data.draw(st.lists(DISK_NAMES, min_size=1, max_size=3))
    ]
    stores = [{"disk": disks[0]["name"], "benchmark_file": "16MiB"}] if data.draw(st.booleans()) else []
    windows = data.draw(st.sampled_from([{}, {"testbed_windows": True}]))
    own = addresses(targets)
    own[targets[0]].update(windows)
    hold_each_its_own(lab({"targets": targets, "clients": clients}, {"disks": disks, "datastores": stores}, own))


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_generated_names_of_an_embedded_lab_are_each_their_own_or_refused(data):
    hosts = data.draw(st.lists(NAMES, min_size=3, max_size=4, unique=True))
    raid = {"level": 0, "emulated": {"count": 2, "size": "64MiB"}}
    disks = [
        {"name": name, "kind": "raid", "raid": raid}
        for name in data.draw(st.lists(DISK_NAMES, min_size=1, max_size=3, unique=True))
    ]
    groups = {"targets": hosts[:1], "hypervisors": hosts[1:], "embedded_controllers": ["controller"]}
    lab_of_machines = {"embedded_lab_dir": "/lab", "embedded_lab_netns": "netns1"}
    hold_each_its_own(lab(groups, {"disks": disks}, **lab_of_machines))


def test_names_that_fold_are_refused_for_what_they_are():
    """A host's tap has 15 characters, and Windows does not tell capitals from small letters."""
    machines = lab(
        {
            "targets": ["t1"],
            "hypervisors": ["hyperv-first-or01", "hyperv-second-or01"],
            "embedded_controllers": ["controller"],
        },
        {"disks": [disk("a")]},
        embedded_lab_dir="/lab",
        embedded_lab_netns="netns1",
    )
    assert judged(machines)[1] == [
        "embedded_lab_machines tap of hyperv-first-or01 and hyperv-second-or01 is 'tap-hyperv-or01', which two machines cannot share: "
        "rename one of these hosts."
    ]
    windows = lab(
        {"targets": ["win01"], "clients": ["c1"]},
        {"disks": [disk("Bench"), disk("bench")]},
        {"win01": {"testbed_windows": True, "testbed_address": "192.0.2.11"}},
    )
    assert judged(windows)[1] == [
        "testbed.disks is a list with Bench and bench, which are one file on win01: give each a name that differs in more than capitals."
    ]
    for store in windows["hosts"].values():
        store["testbed_windows"] = False
    assert judged(windows)[1] == [], "a Linux target tells them apart"


def test_mount_points_and_guests_that_two_would_have():
    described = lab(
        {"targets": ["t1"], "clients": ["c1"]},
        {
            "disks": [disk("a"), disk("b")],
            "datastores": [{"disk": "a", "mount_point": "/srv/x"}, {"disk": "b", "mount_point": "/srv//x/"}],
        },
        addresses(["t1"]),
    )
    assert judged(described)[1] == [
        "mount_point of the datastores a and b on c1 is '/srv/x', which only one can have: set mount_point of one in testbed.datastores."
    ]


def test_a_disk_that_stands_there_twice_is_one_problem():
    described = lab(
        {"targets": ["t1"], "clients": ["c1"]},
        {"disks": [disk("a"), disk("a")], "datastores": [{"disk": "a", "benchmark_file": "16MiB"}]},
        addresses(["t1"]),
    )
    assert judged(described)[1] == ["testbed.disks is a list with 'a' twice: give each a name of its own."]


def test_a_datastore_of_two_hosts_with_one_name_is_refused():
    """Its name is in the UUID of its file system; layers' names alone differ where the second host shares a LUN."""
    described = lab(
        {"targets": ["t1"], "clients": ["c1", "c2"]},
        {
            "disks": [disk("raw"), disk("a", "c1"), disk("b", "c2")],
            "datastores": [{"disk": "a", "name": "same"}, {"disk": "b", "name": "same"}],
        },
        addresses(["t1"]),
    )
    assert judged(described)[1] == ["testbed.datastores is a list with 'same' twice: give each a name of its own."]


def test_the_playbook_refuses_before_anything_is_touched(tmp_path):
    page = {
        "testbed_id": "lab",
        "testbed": {"disks": [disk("a", "web_1"), disk("b", "web-1")]},
        "benchmark_profile": "first_look",
    }
    local = {"ansible_connection": "local"}
    hosts = {
        "all": {
            "vars": page,
            "children": {
                "targets": {"hosts": {"t1": {**local, "testbed_address": "192.0.2.11"}}},
                "clients": {"hosts": {"web_1": local, "web-1": local}},
            },
        }
    }
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps(hosts), encoding="utf-8")
    [sentence] = show_testbed.refusal(inventory, playbook="build.yml")
    assert re.match(r"iscsi_initiator_name of web_1 and web-1 is 'iqn\S+:web-1', ", sentence)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hosts.json"]
