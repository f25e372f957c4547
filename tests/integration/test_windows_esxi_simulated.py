# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The chain of experiment E1 by the shipped playbooks: a RAM disk with a volume, a file on it that Windows exports, and a datastore of ESXi on that.

Windows and ESXi are stand-ins.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / room) for room in ("support", "standins", "fake_windows", "tools")]
import windows_esxi_lab as stand_ins
from pyVmomi import vim
from windows_esxi_lab import ESXI, IN, OUT, WINDOWS

TESTBED = {
    "access": "address",
    "chap_password": IN,
    "mutual_chap_password": OUT,
    "disks": [
        {"name": "ram", "model": "STARWIND*", "size": "8GiB", "to": []},
        {"name": "ds1", "kind": "vhdx", "path": "R:\\ds1.vhdx", "size": "6GiB", "allocation": "fixed", "lun": 1},
    ],
    "datastores": [
        {"disk": "ram", "hosts": [WINDOWS], "mount_point": "R:"},
        {"disk": "ds1", "version": 5},
    ],
    "existing": [{"name": "LocalDS_0", "kind": "esxi_datastore", "access": "write"}],
}


@pytest.fixture
def lab(tmp_path):
    with stand_ins.running(tmp_path, "e1w", {"testbed_id": "e1w", "testbed": TESTBED}) as lab:
        yield lab


@pytest.mark.long
def test_from_the_ram_disk_to_the_datastore_and_back(lab):
    before, others = lab.kept(), somebodys_files(lab)
    told = lab.play("build", options=("--check",))
    assert all(told.values()) and lab.kept() == before

    assert all(lab.play("build").values())
    [target] = lab.host()["targets"].values()
    assert target["iqn"] == f"iqn.2026-11.test.storlab:e1w:{WINDOWS}" and target["luns"] == {"R:\\ds1.vhdx": 1}
    # The address was read from the ESXi host.
    assert target["initiators"] == ["IPAddress:127.0.0.1"]
    disk = lab.host()["disks"]["1"]
    assert (disk["style"], [part["letter"] for part in disk["partitions"]]) == ("MBR", ["R"])
    assert lab.volumes() == [*before["volumes"], ("e1w-ds1", 5, True)]
    layers = lab.layers()
    assert {name: layer["parent"] for name, layer in layers.items()} == {
        "backing-ram": None,
        "datastore-ram": "backing-ram",
        "target-ds1": "datastore-ram",
        "initiator-ds1": "target-ds1",
        "datastore-e1w-ds1": "initiator-ds1",
        "datastore-LocalDS_0": None,
    }
    # That one was there, and is not touched from the first task to the last.
    assert layers["datastore-LocalDS_0"]["detail"]["provider"] == "existing"
    assert layers["datastore-LocalDS_0"]["purpose"] == "data" and files_of(place_of(lab)) == others
    assert lab.play("build") == {WINDOWS: 0, ESXI: 0}

    lab.play("teardown", "verify_clean")
    assert lab.kept() == before and lab.layers() == {}


def place_of(lab, name: str = "LocalDS_0") -> Path:
    """The folder of this machine that the simulated host shows as its datastore."""
    with lab.api() as (_content, system):
        [place] = [store.info.url for store in system.datastore if store.name == name]
    return Path(place)


def files_of(place: Path) -> dict:
    """{path: SHA-256} of all that is in a datastore, with its folders."""
    paths = sorted(place.rglob("*"))
    return {
        str(path.relative_to(place)): path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() for path in paths
    }


def somebodys_files(lab) -> dict:
    """Files of somebody else in the datastore that was there before, some of them named almost like the testbed's."""
    place = place_of(lab)
    for name in ("golden/dataset.vmdk", "storlab-e1w-on-raid10-2/notes.txt", "e1w-kept/on-raid10.iso"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(b"not yours 3306 " + name.encode())
    return files_of(place)


# {guest: (its datastore, the controller of its system's disk, MiB of that disk and of the measured one)}. Disks at IDE show no serial, so the measured ones
# are at the other controller.
GUESTS = {"on-ram": ("ds1", "ide", 13, 19), "on-raid10": ("LocalDS_0", "lsilogic", 17, 23)}
RUN = "20261127T033100Z"
IOMETER = "C:\\tools\\IOmeter.exe"


def guests_of(image: Path) -> list:
    return [
        {
            "name": name,
            "datastore": store,
            "memory": "512MiB",
            "vcpus": 1,
            "esxi": {
                "guest_id": "winXPProGuest",
                "disks": [
                    {"name": "system", "size_mib": system, "controller": controller},
                    {"name": "data", "size_mib": data, "controller": "lsilogic"},
                ],
                "data_disk": "data",
                "iso": {"src": str(image), "path": f"e1w/{name}.iso"},
                "find_disk": True,
                "wait_for_address": True,
                "extra_config": {"guestinfo.storlab.ip": f"10.77.3.{data}"},
            },
        }
        for name, (store, controller, system, data) in GUESTS.items()
    ]


def machines(lab) -> dict:
    """{machine: ([(datastore, controller, MiB, UUID) of each disk], its images)} of the simulated ESXi host."""
    result = {}
    with lab.api() as (content, _system):
        view = content.viewManager.CreateContainerView(content.rootFolder, [vim.VirtualMachine], True).view
        for machine in view:
            devices = {device.key: device for device in machine.config.hardware.device}
            disks = [device for device in devices.values() if isinstance(device, vim.vm.device.VirtualDisk)]
            drives = [device for device in devices.values() if isinstance(device, vim.vm.device.VirtualCdrom)]
            result[machine.name] = (
                [
                    (
                        disk.backing.fileName.split("]")[0][1:],
                        type(devices[disk.controllerKey]).__name__.rpartition(".")[2],
                        disk.capacityInKB // 1024,
                        disk.backing.uuid,
                    )
                    for disk in disks
                ],
                [drive.backing.fileName for drive in drives if hasattr(drive.backing, "fileName")],
            )
    return result


@pytest.mark.long
def test_guests_on_both_datastores_are_measured_in_turns(tmp_path):
    image = tmp_path / "install.iso"
    image.write_bytes(b"a stand-in of an image 3305" * 99)
    variables = {
        "testbed_id": "e1w",
        "testbed": {**TESTBED, "guests": guests_of(image)},
        "testbed_run_id": RUN,
        "benchmark_engine": "iometer",
        "benchmark_windows": {"program": IOMETER},
        "benchmark_ceiling": False,
        "benchmark_prepare": {"fill": False},
        "benchmark_repetitions": 2,
        "benchmark_workloads": [{"block_size": "4k", "read_percent": 80, "ramp_s": 0, "runtime_s": 1}],
    }
    settings = {
        "programs": {IOMETER: {"engine": "iometer", "version": "1.1.0"}},
        "console_user": f"{WINDOWS.upper()}\\Administrator",
    }
    guests: dict = {name: {} for name in GUESTS}
    with stand_ins.running(tmp_path, "e1w", variables, settings=settings, guests=guests) as lab:
        before, others = lab.kept(), somebodys_files(lab)
        # Without access: write the guest there is refused, and so are all things that come before it.
        rc, document, _moments = lab.run("build", options=("-e", only_read(variables["testbed"])))
        refused = " ".join(stand_ins.failures(document))
        assert rc != 0 and "would have files on LocalDS_0" in refused and "access: write" in refused
        assert lab.kept() == before and files_of(place_of(lab)) == others and lab.layers() == {}

        with stand_ins.windows_in_guests(lab, {name: (f"storlab-e1w-{name}", GUESTS[name][3]) for name in GUESTS}):
            lab.play("build", "benchmark")
        # The files of others are as they were, beside the files of the guests.
        there = files_of(place_of(lab))
        assert others.items() <= there.items() and any("on-raid10" in name for name in there.keys() - others.keys())
        made = {
            name: ([disk[:3] for disk in disks], images)
            for name, (disks, images) in machines(lab).items()
            if name.startswith("storlab-")
        }
        ide, lsilogic = "VirtualIDEController", "VirtualLsiLogicController"
        assert made == {
            "storlab-e1w-on-ram": (
                [("e1w-ds1", ide, 13), ("e1w-ds1", lsilogic, 19)],
                ["[e1w-ds1] e1w/on-ram.iso"],
            ),
            "storlab-e1w-on-raid10": (
                [("LocalDS_0", lsilogic, 17), ("LocalDS_0", lsilogic, 23)],
                ["[LocalDS_0] e1w/on-raid10.iso"],
            ),
        }
        layers = lab.layers()
        assert {name: layers[f"guest-{name}"]["parent"] for name in GUESTS} == {
            "on-ram": "datastore-e1w-ds1",
            "on-raid10": "datastore-LocalDS_0",
        }
        folder = lab.folder / "results" / "e1w" / RUN / "points"
        points = [json.loads(path.read_text()) for path in folder.glob("guest-*/result.json")]
        assert {point["status"] for point in points} == {"measured"}
        points.sort(key=lambda point: point["started_utc"])
        order = [point["layer"] for point in points]
        # Each guest once, in a drawn order, and then each again.
        assert sorted(order[:2]) == sorted(order[2:]) == ["guest-on-raid10", "guest-on-ram"]
        assert all("simulated" in layers[f"guest-{name}"]["detail"]["hypervisor"] for name in GUESTS)
        lab.play("teardown")
        assert lab.kept() == before and lab.layers() == {}
        assert files_of(place_of(lab)) == others


def only_read(testbed: dict) -> str:
    return json.dumps({"testbed": {**testbed, "existing": [{"name": "LocalDS_0", "kind": "esxi_datastore"}]}})


@pytest.mark.long
def test_a_datastore_that_should_have_been_there_stops_the_build_before_one_is_made(lab):
    before = lab.volumes()
    rc, document, _moments = lab.run("build", options=("-e", _with("LocalDS_7")))
    assert rc != 0
    assert any("has no datastore LocalDS_7" in sentence for sentence in stand_ins.failures(document))
    assert lab.volumes() == before
    lab.play("teardown", "verify_clean")


def _with(name: str) -> str:
    return json.dumps({"testbed": {**TESTBED, "existing": [{"name": name, "kind": "esxi_datastore"}]}})
