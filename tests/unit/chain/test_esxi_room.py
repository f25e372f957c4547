# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The room of an ESXi host for guests, before anything is made: memory to reserve, free space on its own datastores, images."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import doctor
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain.stages import esxi_room
from chain_lab import expanded

LAB = """
all:
  testbed_id: lab
  testbed:
    disks: [{name: ds1, size: 80GiB}]
    datastores: [{disk: ds1}]
    existing: [{name: RAID 10, kind: esxi_datastore, access: write}]
    guests:
      - name: ram
        datastore: ds1
        disk_size: 50GiB
        memory: 3GiB
        esxi: {datastore: local1, iso: {path: iso/win.iso}}
      - name: raid
        datastore: RAID 10
        disk_size: 17GiB
        memory: 5GiB
        esxi: {iso: {src: /images/raid.iso, datastore: local2}}
targets: {target01: {ansible_host: 192.0.2.11}}
hypervisors: {esxi01: {testbed_esxi: {is: set}}}
guests: {ram: {ansible_host: 192.0.2.41}, raid: {ansible_host: 192.0.2.42}}
"""
ROOM = {
    "memory_mib": 8 << 10,
    "machines": ["somebody"],
    "datastores": {
        "local1": {"free_mib": 7, "accessible": True},
        "RAID 10": {"free_mib": 17 << 10, "accessible": True},
    },
    "missing": [],
}
ABOUT = {"product": "VMware ESXi", "version": "8.0.2", "kind": "HostAgent"}


def table(**changes) -> dict:
    """{what: (good, in words, what mends it)} of the host with this room."""
    room = {**copy.deepcopy(ROOM), **changes}
    lines = doctor.findings(expanded(LAB), {"esxi01": {**ABOUT, "room": room}})
    return {line["what"]: (line["good"], line["said"], line["command"]) for line in lines}


def test_what_just_fits_is_good():
    lines = table()
    assert all(good for good, _text, _command in lines.values())
    assert lines["memory to reserve"][1] == "8 GiB can be reserved, guests reserve 8 GiB"
    assert lines["room on RAID 10"][1] == "17 GiB free, disks of guests take 17 GiB"
    assert {"datastore RAID 10", "image [local1] iso/win.iso", "image /images/raid.iso"} <= lines.keys()
    # The testbed makes that one as large as its LUN.
    assert not any("ds1" in what and what.startswith("room on lab") for what in lines)


@pytest.mark.parametrize(
    ("what", "changes", "sentence", "remedy"),
    [
        (
            "memory to reserve",
            {"memory_mib": (8 << 10) - 1},
            "8191 MiB can be reserved, guests reserve 8 GiB",
            "turn off machines that reserve memory, or make the guests smaller",
        ),
        (
            "room on RAID 10",
            {"datastores": {"RAID 10": {"free_mib": (17 << 10) - 1, "accessible": True}}},
            "17407 MiB free, disks of guests take 17 GiB",
            "free space on RAID 10, or make the disks smaller",
        ),
        (
            "datastore RAID 10",
            {"datastores": {"raid-10": {"free_mib": 1, "accessible": True}, "a": {"free_mib": 2, "accessible": True}}},
            "is not there",
            "write one of the host's datastores in testbed.existing[0].name: a, raid-10",
        ),
        (
            "datastore RAID 10",
            {"datastores": {"RAID 10": {"free_mib": 99 << 10, "accessible": False}}},
            "is there, and the host cannot reach it",
            "bring its device back",
        ),
        (
            "image [local1] iso/win.iso",
            {"missing": ["[local1] iso/win.iso"]},
            "is missing",
            "upload it, or set src so that a build does",
        ),
        (
            "image /images/raid.iso",
            {"missing": ["/images/raid.iso"]},
            "is missing",
            "copy the image there, or correct src",
        ),
    ],
    ids=["memory", "space", "no datastore", "unreachable", "no image", "no file"],
)
def test_what_is_missing_is_named_with_what_mends_it(what, changes, sentence, remedy):
    lines = table(**changes)
    assert lines[what] == (False, sentence, remedy)
    assert [other for other, (good, _text, _command) in lines.items() if not good] == [what]


def test_guests_that_are_there_take_nothing_more():
    lines = table(
        machines=["storlab-lab-ram", "storlab-lab-raid"],
        memory_mib=0,
        datastores={"RAID 10": {"free_mib": 0, "accessible": True}},
    )
    assert all(good for good, _text, _command in lines.values())
    assert not {"memory to reserve", "room on RAID 10"} & lines.keys()


def test_each_image_is_asked_for_once():
    host = expanded(LAB.replace("{src: /images/raid.iso, datastore: local2}", "{path: iso/win.iso, datastore: local1}"))
    assert esxi_room.images(host.hosts["esxi01"]) == [{"datastore": "local1", "path": "iso/win.iso"}]
    assert doctor.needs(host, "esxi01") == {"images": [{"datastore": "local1", "path": "iso/win.iso"}]}


def test_a_host_that_reports_no_room_has_no_finding_about_it():
    assert not any(what.startswith(("memory to", "room on")) for what in table(memory_mib=None, datastores={}))
