# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A LUN that a guest has whole: nothing serves it or starts with it unless the device guard has proven it."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.lab import machine, nbd, qemu
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import device_safety
from ansible_collections.storlab.testbed.plugins.modules import nbd_export
from plays import play
from unchanged import refused


def layer_of(path, size_bytes):
    return {
        "name": "initiator-lun",
        "kind": "initiator",
        "host": "h1",
        "path": str(path),
        "parent": None,
        "purpose": "data",
        "size_bytes": size_bytes,
        "identity": {"serial": "5ef1"},
        "detail": {},
    }


@pytest.fixture
def begun(monkeypatch):
    """What was started, by name."""
    names: list = []
    monkeypatch.setattr(
        nbd, "read_state", lambda *_more: {"pid": None, "as_wanted": False, "left": False, "problem": None}
    )
    monkeypatch.setattr(nbd, "running_pid", lambda _name: None)
    monkeypatch.setattr(nbd, "start", lambda name, _argv, _secret: names.append(name))
    monkeypatch.setattr(qemu, "start", lambda vm, *_more: names.append(vm["name"]))
    return names


def served(layer, **changes):
    params = {
        "name": "storlab-t-g1-raw",
        "state": "present",
        "path": layer["path"] if layer else "/nothing",
        "layer": layer,
        "layers": {},
        "testbed_id": "t",
        "address": "192.0.2.7",
        "port": 10810,
        "secret": None,
        "aio": "threads",
        "stop_timeout_s": 1,
        **changes,
    }
    return nbd_export.ensure(params, False)


@pytest.mark.parametrize(("name", "code"), [("folder", "not_a_device"), ("gone", "device_missing")])
def test_what_is_not_proven_is_not_served(tmp_path, begun, name, code):
    (tmp_path / "folder").mkdir()
    with refused(tmp_path, begun) as caught:
        served(layer_of(tmp_path / name, 8192))
    assert (caught.value.code, caught.value.details["layer"], begun) == (code, "initiator-lun", [])


def test_what_is_proven_is_served_though_on_its_host_it_is_a_data_layer(begun, monkeypatch):
    judged = []
    monkeypatch.setattr(device_safety, "guard", lambda *given: judged.append(given))
    layer, other = layer_of("/dev/sdq", 8192), layer_of("/dev/sdr", 4096)
    served(layer, layers={"other": other})
    assert begun == ["storlab-t-g1-raw"]
    assert judged == [({**layer, "purpose": "scratch"}, (), "t", [other])]
    # An export that ends needs no path and no proof.
    assert served(None, state="absent", path=None)["changed"] is False and len(judged) == 1


def test_a_machine_does_not_start_with_a_lun_that_is_not_proven(tmp_path, begun):
    vm = {
        "name": "g1",
        "netns": None,
        "ssh_control_dir": None,
        "disks": [{"file": "/image"}, {"file": str(tmp_path / "gone"), "layer": layer_of(tmp_path / "gone", 4096)}],
        "testbed_id": "t",
        "layers": {},
    }
    with refused(tmp_path, begun) as caught:
        machine.apply(vm, ["start"], [], "d", {})
    assert (caught.value.code, begun) == ("device_missing", [])
    machine.apply({**vm, "disks": vm["disks"][:1]}, ["start"], [], "d", {})
    assert begun == ["g1"]


@pytest.mark.parametrize(("file", "driver"), [("/dev/sdq", "host_device"), ("/srv/lun.img", "file")])
def test_qemu_is_told_of_devices_and_files_apart(file, driver):
    """The driver for files takes no device any more."""
    disk = qemu.blockdev({"file": file, "serial": "x"}, 3)
    assert (disk["file"]["driver"], disk["file"]["filename"]) == (driver, file)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (None, ""),
        ({"layer": "initiator-lun", "host": "h1"}, ""),
        ({"layer": "initiator-lun", "host": "h1", "transport": "nbd", "address": "192.0.2.7"}, ""),
        ({"layer": "initiator-lun", "host": "h1", "transport": "nbd"}, "give the address at which h1 serves the LUN"),
    ],
    ids=["none", "file", "served", "no address"],
)
def test_the_role_asks_for_an_address_only_of_a_lun_that_is_served(tmp_path, raw, said):
    disk = {"host": "h1", "directory": "/srv/ds1", "size_mib": 8, "transport": "file"}
    guest = {"name": "g1", "address": "192.0.2.9", "memory_mib": 256, "vcpus": 1, "boot": {"image": "/i"}, "nics": []}
    guest |= {"data_disk": disk, **({"raw_disk": raw} if raw else {})}
    variables = {"guest_vm_testbed_id": "t", "guest_vm_run_dir": str(tmp_path), "__guest_vm_guest": guest}
    role = {"name": "storlab.testbed.guest_vm", "tasks_from": "provider_qemu_check.yml", "rolespec_validate": False}
    results = play(tmp_path, {"ansible.builtin.include_role": role, "vars": variables})
    failed = [result["msg"] for result in results if result.get("failed")]
    assert len(results) >= 3 and len(failed) == bool(said) and said in "".join(failed)
