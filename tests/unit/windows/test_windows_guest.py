# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The measured disk of a guest that runs Windows, found by disk_by_serial on the stand-in of tests/fake_windows. Not on Windows."""

from __future__ import annotations

import copy
import json
import re
import shutil
from pathlib import Path

import actions
import pytest
import show_testbed
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.storlab.testbed.plugins.action import disk_by_serial
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import action as windows_action
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import device_safety
from world import Host, World

SERIAL, SIZE = "6000c29f0a1b2c3d4e5f60718293a4b5", 48 << 20
# As a server shows a disk at a paravirtual controller that it has not seen before.
NEW = {
    "name": "VMware Virtual disk",
    "lun": 0,
    "serial": SERIAL,
    "unique_id": SERIAL.upper(),
    "size_bytes": SIZE,
    "bus": "SAS",
    "style": "RAW",
    "offline": True,
    "offline_reason": "Policy",
    "read_only": True,
    "boot": False,
    "system": False,
    "clustered": False,
    "partitions": [],
    "volumes": {},
}
DRIVE = "\\\\.\\PhysicalDrive2"


class Guest:
    """A Windows guest, to which a task for its hypervisor is delegated."""

    def __init__(self, folder: Path):
        self.world = World(folder / "world.json")
        with self.world.open():
            self.world.add("guest01", server=False)

    @property
    def disks(self) -> dict:
        return self.world.data["hosts"]["guest01"]["disks"]

    def put(self, number: int = 2, **changes) -> None:
        with self.world.open():
            self.disks[str(number)] = {**copy.deepcopy(NEW), **changes}

    def run(self, check: bool = False, serial: str = SERIAL, **arguments) -> dict:
        given = {"serial": serial, "size_bytes": SIZE, "timeout_s": 0, **arguments}
        action = actions.make(disk_by_serial, given, check, windows=True, delegate_to="guest01")

        def answer(name: str, given: dict) -> dict:
            with self.world.open():
                return Host(self.world, "guest01").module(name, json.loads(json.dumps(given)), check)

        action.module = answer
        return actions.answer(action, {"inventory_hostname": "esxi01"}, lambda: self.world.data["hosts"])

    def calls(self) -> list:
        return [call["script"] for call in self.world.data["calls"]]


@pytest.fixture
def guest(tmp_path, monkeypatch) -> Guest:
    monkeypatch.setattr(windows_action, "RETRY_EVERY_S", 0)
    return Guest(tmp_path)


def code(result: dict) -> str | None:
    return result.get("failure", {}).get("code")


def test_disk_is_found_and_brought_online_once(guest):
    guest.put()
    result = guest.run()
    assert (result["path"], result["unique_id"], result["changed"]) == (DRIVE, SERIAL.upper(), True)
    assert [(step["op"], step["target"], step["was"], step["will"]) for step in result["steps"]] == [
        ("online", "disk 2", "offline", "online"),
        ("writable", "disk 2", "read-only", "writable"),
    ]
    assert result["diff"] == {
        "before": "online disk 2: offline\nwritable disk 2: read-only\n",
        "after": "online disk 2: online\nwritable disk 2: writable\n",
    }
    assert guest.disks["2"] == {**NEW, "offline": False, "offline_reason": "", "read_only": False}
    again = guest.run()
    assert (again["path"], again["changed"], again["steps"]) == (DRIVE, False, [])
    assert guest.calls() == ["state", "disk_online", "disk_writable", "state"]


def test_check_mode_tells_the_same_and_changes_nothing(guest):
    guest.put()
    planned = guest.run(check=True)
    assert guest.disks["2"] == NEW
    assert planned == guest.run()


@pytest.mark.parametrize(
    "shown", [SERIAL.upper(), " 6000c29f-0a1b-2c3d-4e5f-60718293a4b5 ", "6000 C29F 0A1B 2C3D 4E5F 6071 8293 A4B5"]
)
@pytest.mark.parametrize("asked", [SERIAL, "6000C29F-0a1b-2c3d-4e5f-60718293a4b5"])
def test_serials_are_written_in_several_ways(guest, shown, asked):
    guest.put(serial=shown)
    assert guest.run(serial=asked)["path"] == DRIVE


@pytest.mark.parametrize(
    ("disks", "expected"),
    [
        ({}, "disk_missing"),
        ({2: {"serial": ""}}, "disk_missing"),
        ({2: {"serial": SERIAL[:-1]}}, "disk_missing"),
        ({2: {"size_bytes": SIZE + 512}}, "size_differs"),
        ({2: {}, 4: {"unique_id": "OTHER"}}, "serial_twice"),
        ({2: {"boot": True}}, "disk_boot"),
        ({2: {"system": True}}, "disk_system"),
        ({2: {"page_file": True}}, "disk_page_file"),
        ({2: {"clustered": True}}, "disk_clustered"),
    ],
    ids=["none", "no serial", "part of it", "larger", "two", "boot", "system", "page file", "clustered"],
)
@pytest.mark.parametrize("check", [False, True], ids=["for real", "check mode"])
def test_any_other_disk_is_refused_and_stays(guest, disks, expected, check):
    for number, changes in disks.items():
        guest.put(number, **changes)
    refused = guest.run(check=check)
    assert (refused["failed"], code(refused)) == (True, expected)
    assert "path" not in refused
    assert not set(guest.calls()) & {"disk_online", "disk_writable"}


def test_an_empty_serial_is_no_serial(guest):
    guest.put(serial="")
    assert code(guest.run(serial=" - ")) == "disk_missing"


def test_a_disk_that_windows_has_not_noticed_yet_is_waited_for(guest, monkeypatch):
    monkeypatch.setattr(Host, "script_disk_rescan", lambda self: self.data["disks"].update({"2": copy.deepcopy(NEW)}))
    result = guest.run(timeout_s=30)
    assert (result["path"], result["changed"]) == (DRIVE, True)
    assert guest.calls()[:3] == ["state", "disk_rescan", "state"]


def test_looking_again_is_no_change_in_check_mode(guest):
    assert code(guest.run(check=True)) == "disk_missing"
    assert set(guest.calls()) == {"state"}


def test_failures_name_the_guest_and_not_its_hypervisor(guest):
    guest.put()
    with guest.world.open():
        guest.world.data["faults"].append(
            {"host": "guest01", "what": "disk_online", "message": "access denied", "times": 1}
        )
    failed = guest.run()
    assert code(failed) == "windows_script_failed"
    assert "disk_online failed on guest01" in failed["msg"]
    # What broke is finished by the next run.
    assert guest.run()["changed"] is True
    assert guest.disks["2"]["offline"] is False


def test_bad_arguments_are_refused(guest):
    assert code(guest.run(size_bytes="much")) == "bad_value"
    assert guest.calls() == []


def test_the_guard_takes_the_disk_as_it_was_published(guest):
    guest.put()
    found = guest.run()
    with guest.world.open():
        state = Host(guest.world, "guest01").state([])
    layer = {
        "name": "guest-one",
        "kind": "guest",
        "host": "guest01",
        "path": found["path"],
        "parent": "datastore-ds1",
        "purpose": "scratch",
        "size_bytes": SIZE,
        "identity": {"serial": SERIAL, "unique_id": found["unique_id"]},
    }
    assert device_safety.judge(state, layer) == ([], [])
    without = {**layer, "identity": {"serial": SERIAL}}
    assert [item.code for item in device_safety.judge(state, without)[0]] == ["identity_missing"]


@pytest.mark.parametrize("lab", ["lab_windows_esxi", "lab_linux_esxi"])
def test_windows_guest_of_the_example_inventories_can_be_uncommented(root, tmp_path, lab):
    folder = shutil.copytree(root / "inventories" / lab, tmp_path / "lab")
    for path in (folder / "hosts.yml", folder / "group_vars" / "all.yml"):
        text, count = re.subn(
            r"^ *# A guest (?:that runs Windows|with a disk).*\n((?: *# .*\n)+)",
            lambda found: re.sub(r"^( *)# ", r"\1", found[1], flags=re.M),
            path.read_text(encoding="utf-8"),
            flags=re.M,
        )
        assert count == 1
        path.write_text(text, encoding="utf-8")
    hosts = show_testbed.expansion(folder, "-e", "vault_guest_password=x")["hosts"]
    assert hosts["guest01"]["platform"] == "windows"
    variables = hosts["esxi01"]["variables"]
    options = yaml.safe_load((root / "roles" / "guest_vm" / "meta" / "argument_specs.yml").read_text())[
        "argument_specs"
    ]["main"]["options"]
    assert variables["guest_vm_boot_timeout_s"] > options["guest_vm_boot_timeout_s"]["default"]
    guest_options = options["guest_vm_guests"]["options"]
    checked = ArgumentSpecValidator(
        {"guests": {"type": "list", "elements": "dict", "options": plain(guest_options)}}
    ).validate({"guests": variables["guest_vm_guests"]})
    assert checked.error_messages == []
    [guest] = variables["guest_vm_guests"]
    assert (guest["host"], guest["address"], guest["esxi"]["find_disk"]) == ("guest01", "guest01.lab.example", True)
    assert [disk["datastore"] for disk in guest["esxi"]["disks"]] == ["lab-ds1"]
    assert [store["name"] for store in variables["datastore_datastores"]] == ["lab-ds1"]


def plain(options: dict) -> dict:
    """Options of a role as those of a module."""
    kept = {
        name: {
            key: value for key, value in option.items() if key in ("type", "elements", "required", "choices", "default")
        }
        for name, option in options.items()
    }
    return {
        name: {**kept[name], **({"options": plain(option["options"])} if "options" in option else {})}
        for name, option in options.items()
    }


def test_hosts_with_python_run_the_module_as_before(monkeypatch):
    action = actions.make(disk_by_serial, {"serial": "s1", "size_bytes": SIZE}, delegate_to="guest02")
    seen = []
    monkeypatch.setattr(
        action, "_execute_module", lambda **given: seen.append(given) or {"changed": False, "path": "/dev/vdb"}
    )
    variables = {"inventory_hostname": "hypervisor01"}
    assert action.run(task_vars=variables) == {"changed": False, "path": "/dev/vdb"}
    # The task's own module and arguments, with the variables as they came.
    assert seen == [{"task_vars": variables}]
