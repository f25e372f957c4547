# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Datastores of an ESXi host that were there before the testbed."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import check, devices, expand
from chain_lab import expanded, lab_of

LAB = """
all:
  testbed_id: lab
  testbed:
    disks: [{name: ds1, size: 8GiB}]
    datastores: [{disk: ds1}, {type: existing, name: RAID 10}]
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
        {"name": "RAID 10", "type": "existing"},
    ]
    guests = {guest["name"]: guest["esxi"] for guest in host.variables["guest_vm_guests"]}
    assert guests["raid"]["datastore"] == guests["raid"]["disks"][0]["datastore"] == "RAID 10"
    layers = {layer["name"]: layer["parent"] for layer in testbed.layers}
    assert layers["datastore-RAID 10"] is None and layers["guest-raid"] == "datastore-RAID 10"
    # It is not among what a build overwrites.
    assert not any("RAID" in str(device) for device in devices.named(testbed))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("type: existing, name: RAID 10", "type: existing", "testbed.datastores[1].name is not set"),
        ("type: existing,", "type: existing, disk: ds1,", "testbed.datastores[1].disk is 'ds1'"),
        ("type: existing,", "type: existing, version: 5,", "testbed.datastores[1].version is 5"),
        ("{is: set}", "{}", "testbed.datastores[1]"),
    ],
    ids=["no name", "a disk", "a version", "no ESXi host"],
)
def test_what_would_make_one_is_refused(before, after, expected):
    lab = lab_of(LAB.replace(before, after))
    sentences = [problem.sentence() for problem in check.check(lab, expand.expand(lab))]
    assert any(expected in sentence for sentence in sentences), sentences
