# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Datastores of an ESXi host that were there before the testbed."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import check, devices, drawing, expand
from chain_lab import expanded, lab_of

LAB = """
all:
  testbed_id: lab
  testbed:
    disks: [{name: ds1, size: 8GiB}]
    datastores: [{disk: ds1}]
    existing: [{name: RAID 10, kind: esxi_datastore, access: write}]
    guests:
      - {name: ram, datastore: ds1, disk_size: 2GiB, memory: 1GiB}
      - {name: raid, datastore: RAID 10, disk_size: 900GiB, memory: 1GiB}
targets: {target01: {ansible_host: 192.0.2.11}}
hypervisors: {esxi01: {testbed_esxi: {is: set}}}
guests: {ram: {ansible_host: 192.0.2.41}, raid: {ansible_host: 192.0.2.42}}
"""


def test_guests_lie_on_it_beside_a_datastore_of_the_testbed():
    testbed = expanded(LAB)
    host = testbed.hosts["esxi01"]
    assert host.variables["datastore_datastores"] == [
        {"name": "lab-ds1", "layer": "initiator-ds1", "version": 6},
        {"name": "RAID 10", "type": "existing", "access": "write"},
    ]
    guests = {guest["name"]: guest["esxi"] for guest in host.variables["guest_vm_guests"]}
    assert guests["raid"]["datastore"] == guests["raid"]["disks"][0]["datastore"] == "RAID 10"
    layers = {layer["name"]: layer["parent"] for layer in testbed.layers}
    assert layers["datastore-RAID 10"] is None and layers["guest-raid"] == "datastore-RAID 10"
    # It is not among the disks that a build overwrites.
    assert not any("RAID" in str(device) for device in devices.named(testbed))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("access: write", "version: 5", "testbed.existing[0].version is not a known key"),
        ("access: write", "path: /a, access: write", "testbed.existing[0].path is not a word for storage of kind esxi"),
        ("RAID 10,", "a/b,", "testbed.existing[0].name contains"),
        ("RAID 10,", f"{'n' * 43},", ": write the name that the ESXi host shows, which has 1 to 42 characters without"),
        (
            "access: write",
            "hosts: [target01]",
            "target01 runs Linux, and storage of kind esxi_datastore is of ESXi hosts",
        ),
        ("access: write", "'on': none", "testbed.existing[0].on is 'none'"),
        ("{is: set}", "{}", "testbed.existing[0] has no ESXi host that has it"),
        ("access: write", "access: read", "testbed.guests[1] would have files on RAID 10"),
        ("kind: esxi_datastore", "kind: path", "testbed.guests[1].datastore is 'RAID 10', which is not a datastore"),
    ],
    ids=["version", "path", "name", "long", "host", "on", "no ESXi host", "only read", "another kind"],
)
def test_a_wrong_entry_has_a_sentence(before, after, expected):
    assert before in LAB
    sentences = sentences_of(LAB.replace(before, after))
    assert any(expected in sentence for sentence in sentences), sentences


def sentences_of(text: str) -> list[str]:
    lab = lab_of(text)
    return [problem.sentence() for problem in check.check(lab, expand.expand(lab))]


def test_the_words_of_before_are_refused_with_those_of_today():
    [sentence] = sentences_of(
        LAB.replace("[{disk: ds1}]", "[{disk: ds1}, {type: existing, name: local}]").replace("RAID 10", "r")
    )
    assert sentence.startswith("testbed.datastores[1].type is 'existing', and storage")
    assert "write {name: local, kind: esxi_datastore, access: write} there" in sentence


READ = LAB.replace(", access: write", "").replace("datastore: RAID 10", "datastore: ds1").replace("900GiB", "900MiB")


@pytest.mark.parametrize(
    "esxi",
    [
        "{datastore: RAID 10}",
        "{disks: [{name: system, size_mib: 7}, {name: data, size_mib: 9, datastore: RAID 10}]}",
        "{iso: {src: /images/win.iso, datastore: RAID 10}}",
    ],
    ids=["files of the machine", "a disk", "an image"],
)
def test_nothing_is_put_on_one_that_is_only_read(esxi):
    expanded(READ)
    sentences = sentences_of(READ.replace("900MiB, memory: 1GiB", f"900MiB, memory: 1GiB, esxi: {esxi}"))
    assert any("testbed.guests[1] would have files on RAID 10" in sentence for sentence in sentences), sentences
    assert any("access: write in testbed.existing[0]" in sentence for sentence in sentences)


def test_an_image_that_is_there_is_only_read():
    esxi = "esxi: {iso: {path: iso/win.iso, datastore: RAID 10}}"
    assert expanded(READ.replace("900MiB, memory: 1GiB", f"900MiB, memory: 1GiB, {esxi}"))


def test_it_is_drawn_as_what_it_is():
    lines = drawing.draw(expanded(LAB))
    assert any("which was there before, with disks of guests" in line for line in lines)
    layer = next(layer for layer in expanded(READ).layers if layer["name"] == "datastore-RAID 10")
    assert layer["purpose"] == "read" and layer["what"].endswith("only read")


ALONE = """
all: {testbed_id: lab, testbed: {existing: [
  {name: lun, kind: device, naa: 6001405aa, hosts: [client01], access: write}, {name: local, kind: esxi_datastore, 'on': lun},
  {name: vm, kind: guest, path: /d, 'on': local}]}}
hypervisors: {esxi01: {testbed_esxi: {is: set}}, esxi02: {testbed_esxi: {is: set}}}
clients: {client01: {ansible_host: 192.0.2.21}}
guests: {vm01: {ansible_host: 192.0.2.31}}
"""


def test_a_host_without_luns_keeps_its_adapter_off():
    testbed = expanded(ALONE)
    assert testbed.hosts["esxi01"].stages == ["esxi_network", "datastore", "benchmark"]
    assert "iscsi_initiator" in expanded(LAB).hosts["esxi01"].stages


def test_each_host_has_a_layer_of_its_own_and_links_go_through_it():
    testbed = expanded(ALONE)
    parents = {layer["name"]: layer["parent"] for layer in testbed.layers}
    assert parents == {
        "initiator-lun": None,
        "datastore-local": "initiator-lun",
        "datastore-local-esxi02": "initiator-lun",
        "guest-vm": "datastore-local",
    }
    assert testbed.hosts["esxi01"].variables["datastore_datastores"][0]["layer"] == "initiator-lun"
    # A LUN that somebody's datastore is on is not formatted; that it is overwritten is what its own entry says.
    assert {device.fate for device in devices.named(testbed)} == {"OVERWRITTEN"}
