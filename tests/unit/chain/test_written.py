# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A named device that is neither blank nor on record as written by a testbed of this state folder is not taken unless the user names it once more."""

from __future__ import annotations

import json

import pytest
import show_testbed
import yaml
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import devices, doctor, expand, written
from chain_lab import TWO_LINUX, expanded, lab_of

DEVICE = "{name: bench, kind: device, path: /dev/nvme1n1, serial: S77, purpose: scratch}"
TEXT = TWO_LINUX.replace("{name: bench, size: 1GiB}", DEVICE)
SHOWN = {"serial": "S77", "wwid": "eui.0025385"}
PROBE = {
    "system": "Debian GNU/Linux 12",
    "kernel": "6.1.0-9",
    "root": True,
    "package_manager": "apt-get",
    "missing_commands": [],
    "missing_modules": [],
    "memory_mib": 8000,
    "memory_available_mib": 7000,
    "addresses": ["192.0.2.11"],
    "peers": [],
    "devices": {},
    "kvm": False,
    "folders": {},
}


def entry(**changes) -> dict:
    """The device as host_probe returns it."""
    [wanted] = devices.wanted(expanded(TEXT), "store01")
    answer = {"type": "block", "shows": SHOWN, "paths": ["/dev/nvme1n1"], "designators": SHOWN, "contents": "data"}
    return {**wanted, **answer, **changes}


def strange(named: dict, notes: dict | None = None, allowed=None) -> list:
    lab = lab_of(TEXT)
    if allowed is not None:
        lab["hosts"]["store01"]["testbed_allow_device"] = allowed
    return written.strange(expand.expand(lab), {"store01": {"named": [named]}}, notes or {})


def test_a_host_is_asked_about_what_will_be_gone():
    assert entry()["fate"] == "OVERWRITTEN"


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, True),
        ({"contents": "blank"}, False),
        ({"contents": "unreadable", "reason": "EIO"}, True),
        # Nobody has looked.
        ({"contents": None}, True),
        # Its contents stay.
        ({"fate": ""}, False),
        # Not there, not the only one, not proven: each is refused for that.
        ({"paths": []}, False),
        ({"paths": ["/dev/sda", "/dev/sdb"]}, False),
        ({"serial": ""}, False),
    ],
)
def test_what_is_not_blank_is_strange(changes, refused):
    assert [host for host, _entry in strange(entry(**changes))] == ["store01"] * refused


@pytest.mark.parametrize(
    ("note", "refused"),
    [
        (SHOWN, False),
        # A kernel or a driver may show less, or more.
        ({"serial": "S77"}, False),
        ({"serial": "S77", "naa": "6001405a"}, False),
        # Another disk with the same serial, and another disk.
        ({"serial": "S77", "wwid": "eui.0099"}, True),
        ({"serial": "S78", "wwid": "eui.0025385"}, True),
        ({"naa": "6001405a"}, True),
        ({}, True),
    ],
)
def test_a_note_is_of_the_device_that_shows_the_same(note, refused):
    assert bool(strange(entry(), {"store01": [note]})) is refused
    # Serials of emulated disks are alike on all hosts.
    assert strange(entry(), {"client01": [note]})


@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        (["S77"], False),
        (["eui.0025385"], False),
        (["/dev/nvme1n1"], False),
        (["/dev/nvme1n10", "S7", "S777", ""], True),
        ([], True),
        (True, True),
        ("S77", True),
    ],
)
def test_a_user_allows_a_device_by_its_name_alone(allowed, refused):
    assert bool(strange(entry(), allowed=allowed)) is refused


def test_the_refusal_names_the_device_and_the_line_to_write():
    failure = written.not_blank(strange(entry()))
    assert failure.code == "device_not_blank"
    assert str(failure) == (
        "/dev/nvme1n1, serial S77 on store01, which would be OVERWRITTEN, is not blank, and it is not on record that this testbed has written to it. "
        'Nothing was touched. Name another device, or, if its contents are not needed, name it in the inventory: testbed_allow_device: ["S77"].'
    )
    unread = written.not_blank(strange(entry(contents="unreadable", reason="EACCES")))
    assert "cannot be read (EACCES), so it may hold something" in str(unread)


def test_a_note_is_kept_once_and_believed_until_it_is_edited(tmp_path):
    folder, probes = str(tmp_path), {"store01": {"named": [entry()]}, "client01": {"named": []}, "esxi01": None}
    assert written.read(folder, probes) == {}
    written.remember(folder, probes, {})
    path = tmp_path / "written" / "store01.json"
    assert written.read(folder, probes) == {"store01": [SHOWN]}
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    first = path.read_bytes()
    written.remember(folder, probes, written.read(folder, probes))
    assert path.read_bytes() == first
    other = {"store01": {"named": [entry(serial="T1", designators={"serial": "T1"})]}}
    written.remember(folder, other, written.read(folder, probes))
    assert written.read(folder, probes) == {"store01": [SHOWN, {"serial": "T1"}]}
    for damaged in (path.read_text().replace("T1", "T2"), "7", '{"devices": 7, "sha256": ""}', "{"):
        path.write_text(damaged)
        assert written.read(folder, probes) == {}


def test_doctor_says_the_same():
    testbed = expanded(TEXT)
    probes = {"store01": {**PROBE, "named": [entry()]}}
    [bad] = [line for line in doctor.findings(testbed, probes) if not line["good"]]
    assert (bad["host"], bad["what"]) == ("store01", "testbed.disks[0]") and "is not blank" in bad["said"]
    assert bad["command"].endswith('testbed_allow_device: ["S77"]')
    assert all(line["good"] for line in doctor.findings(testbed, probes, {"store01": [SHOWN]}))


def test_the_task_refuses_until_the_device_is_allowed_and_then_remembers_it(tmp_path):
    """As build has it: nothing is noted by a refusal or in check mode, and what is noted outlives the permission."""
    page = yaml.safe_load(TEXT)
    inventory = {
        "all": {
            "vars": {**page["all"], "testbed_state_dir": str(tmp_path / "state")},
            "children": {group: {"hosts": page[group]} for group in ("targets", "clients")},
        }
    }
    (tmp_path / "lab.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    probes = {"store01": {**PROBE, "named": [entry()]}}
    task = {"storlab.testbed.chain": {"hold": True, "probes": probes}}
    book = tmp_path / "book.yml"
    book.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]), encoding="utf-8")

    def play(*options: str) -> dict:
        _rc, document, _said = show_testbed.run(tmp_path / "lab.yml", *options, playbook=str(book))
        return document["plays"][0]["tasks"][0]["hosts"]["localhost"]

    allow = ("-e", json.dumps({"testbed_allow_device": ["S77"]}))
    notes = tmp_path / "state" / "written"
    for options in ((), ("--check",)):
        refused = play(*options)
        assert refused["failed"] and refused["failure"]["code"] == "device_not_blank", refused
    assert not play(*allow, "--check").get("failed") and not notes.exists()
    allowed = play(*allow)
    assert not allowed.get("failed"), allowed
    assert json.loads((notes / "store01.json").read_text())["devices"] == [SHOWN]
    assert not play().get("failed")
