# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Initiators that a target lets in by their address, and files on volumes that a target makes itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import access, check, expand
from chain_lab import TWO_LINUX, expanded, lab_of

ROOT = Path(__file__).resolve().parents[3]
E1 = """
all:
  testbed_id: e1
  testbed:
    access: address
    disks:
      - {name: ram, model: 'STARWIND*', size: 8GiB, to: []}
      - {name: ds1, kind: vhdx, path: 'R:\\ds1.vhdx', size: 6GiB, allocation: fixed}
      - {name: raid, kind: vhdx, path: 'E:\\raid.vhdx', size: 20GiB}
    datastores:
      - {disk: ram, hosts: [win01], mount_point: 'R:'}
      - {disk: ds1}
      - {disk: raid}
targets: {win01: {ansible_host: 192.0.2.11, ansible_connection: psrp}}
hypervisors: {esxi01: {testbed_esxi: {is: set}}}
"""


def exports(testbed) -> list:
    return testbed.hosts["win01"].variables["iscsi_target_targets"]


def test_the_address_of_vmk0_lets_an_esxi_host_in_once_it_was_read():
    before, after = expanded(E1), expanded(E1, addresses={"esxi01": "192.0.2.31"})
    assert access.without_address(lab_of(E1), before) == access.without_address(lab_of(E1), after) == ["esxi01"]
    entries = [[export["initiators"][0] for export in exports(testbed)] for testbed in (before, after)]
    assert [entry["address"] for entry in entries[0] + entries[1]] == ["vmk0 of esxi01", "192.0.2.31"]
    assert all("iqn" not in entry and entry["chap_user"] == "esxi01" for entry in entries[0] + entries[1])
    # Whether the address is known or not, the host logs in to the same.
    sessions = [testbed.hosts["esxi01"].variables["iscsi_initiator_targets"] for testbed in (before, after)]
    assert sessions[0] == sessions[1]
    assert [lun["name"] for lun in sessions[0][0]["luns"]] == ["ds1", "raid"]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("testbed_address: 192.0.2.41", ["192.0.2.41"]),
        (
            "testbed_network: {uplinks: [vmnic2, vmnic3], addresses: [192.0.2.51/24, 198.51.100.52/24]}",
            ["192.0.2.51", "198.51.100.52"],
        ),
    ],
    ids=["of the inventory", "of its network for iSCSI"],
)
def test_an_address_that_is_described_is_not_asked_for(more, expected):
    text = E1.replace("{is: set}}", f"{{is: set}}, {more}}}")
    testbed = expanded(text)
    assert access.without_address(lab_of(text), testbed) == []
    assert [entry["address"] for entry in exports(testbed)[0]["initiators"]] == expected
    assert len(testbed.hosts["esxi01"].variables["iscsi_initiator_targets"]) == 1


def test_without_the_word_names_let_in():
    testbed = expanded(E1.replace("access: address", "port: 3261"))
    [entry] = exports(testbed)[0]["initiators"]
    assert entry["iqn"].endswith(":e1:esxi01") and "address" not in entry
    assert access.without_address(lab_of(E1), testbed) == []


def test_a_linux_target_is_refused():
    lab = lab_of(TWO_LINUX.replace("testbed:\n", "testbed:\n    access: address\n"))
    sentences = [problem.sentence() for problem in check.check(lab, expand.expand(lab))]
    assert sentences == [
        "testbed.access is 'address', but store01 runs Linux: leave it out, because the targets of Linux let initiators in by their IQN."
    ]


def test_a_file_on_a_volume_of_the_testbed_has_that_below_it():
    testbed = expanded(E1)
    luns = {lun["name"]: lun for lun in exports(testbed)[0]["luns"]}
    assert {name: lun.get("layer") for name, lun in luns.items()} == {"ds1": "datastore-ram", "raid": None}
    parents = {layer["name"]: layer["parent"] for layer in testbed.layers}
    assert parents["target-ds1"] == "datastore-ram" and parents["datastore-ram"] == "backing-ram"
    assert parents["target-raid"] is None


def test_a_fixed_file_that_the_volume_cannot_hold_is_refused():
    lab = lab_of(E1.replace("size: 6GiB", "size: 8GiB"))
    [problem] = [problem.sentence() for problem in check.check(lab, expand.expand(lab))]
    assert problem.startswith(
        "testbed.disks[1].size is '8 GiB', but its file is fixed, and the volume of the disk ram has room for 7782 MiB"
    )
    assert not check.check(
        lab_of(E1), expand.expand(lab_of(E1.replace("size: 6GiB", "size: 8GiB").replace("allocation: fixed", "lun: 5")))
    )


def test_both_descriptions_of_the_page_of_e1_are_right():
    page = (ROOT / "docs" / "experiments" / "e1_windows_esxi.md").read_text(encoding="utf-8")
    blocks = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)]
    hosts = {
        "targets": {"target01": {"ansible_host": "192.0.2.11", "ansible_connection": "psrp"}},
        "hypervisors": {"esxi01": {"testbed_esxi": {"is": "set"}}},
    }
    raw, chain = (
        expanded(yaml.safe_dump({"all": block, **hosts}), profiles=["e1_iometer_4k"], workloads={})
        for block in blocks
        if "testbed" in block
    )
    # The playbook's own words are checked by it.
    assert [sorted(block) for block in blocks if "testbed" not in block] == [
        ["benchmark_windows", "iscsi_target_windows_networks", "testbed_e1_windows"],
        ["testbed_e1_windows"],
    ]
    assert [(layer["name"], layer["purpose"]) for layer in raw.layers] == [("backing-ram", "scratch")]
    assert {layer["name"]: layer["parent"] for layer in chain.layers if layer["kind"] in ("target", "datastore")} == {
        "target-ds1": "datastore-ram",
        "target-raid10": None,
        "datastore-ram": "backing-ram",
        "datastore-e1-esxi-ds1": "initiator-ds1",
        "datastore-e1-esxi-raid10": "initiator-raid10",
    }
