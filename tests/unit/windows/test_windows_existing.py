# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks and volumes of a Windows host that were there before: found, proven, only read. The host is the stand-in of tests/fake_windows, not Windows."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.storlab.testbed.plugins.action import win_existing, win_state
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import existing
from test_windows_benchmark import DISKS, IOMETER, MIB, bench, code, measured  # noqa: F401  bench is a fixture

OTHERS = {
    **DISKS["2"],
    "name": "Array LUN",
    "serial": "6001-405A abb",
    "unique_id": "6001405AABB",
    "size_bytes": 96 * MIB,
    "partitions": [{"number": 2, "type": "Basic", "size_bytes": 95 * MIB, "letter": "E"}],
    "volumes": {
        "E": {
            "label": "Data of others",
            "filesystem": "NTFS",
            "size_bytes": 95 * MIB,
            "unique_id": "volume-37",
            "entries": [
                {"name": "notes.txt", "size_bytes": 77},
                {"name": "vms\\one.vhdx", "size_bytes": 20 * MIB + 77, "created": "638000000000000037"},
                {"name": "vms\\two.vhdx", "size_bytes": 11 * MIB, "created": "638000000000000038"},
                {"name": "logs\\long.log", "size_bytes": 31 * MIB, "created": "638000000000000039"},
            ],
        }
    },
}
DISK = {"name": "array", "kind": "disk", "layer_kind": "initiator", "unique_id": "6001405AABB"}
VOLUME = {"name": "data", "kind": "volume", "layer_kind": "datastore", "folder": "E:\\vms", "parent": "initiator-array"}
READ = {"block_size": "4k", "read_percent": 100, "queue_depth": 3, "ramp_s": 0, "runtime_s": 1}


@pytest.fixture
def host(bench):  # noqa: F811
    bench.change(disks={**bench.data()["disks"], "3": copy.deepcopy(OTHERS)})
    return bench


def layers_of(host, *entries, layers=()) -> list:
    result = host.run(module=win_existing, entries=list(entries), layers=list(layers))
    assert not result.get("failed"), result["msg"]
    assert result["changed"] is False and result["steps"] == []
    return [{**layer, "host": "win01"} for layer in result["layers"]]


def run(host, layers: list, **arguments) -> dict:
    given = {"workload": READ, "windows": {"program": "C:\\Program Files\\fio\\fio.exe"}, "prepare": {}, **arguments}
    return host.run(layers=layers, **given)


def test_a_disk_and_the_biggest_file_of_a_folder_become_layers(host):
    before = host.data()
    disk, volume = layers_of(host, DISK, VOLUME)
    assert (disk["path"], disk["size_bytes"], disk["purpose"]) == ("\\\\.\\PhysicalDrive3", 96 * MIB, "read")
    assert disk["identity"] == {"unique_id": "6001405AABB", "serial": "6001-405A abb"}
    assert (volume["path"], volume["size_bytes"], volume["purpose"]) == ("E:\\vms\\one.vhdx", 20 * MIB, "read")
    assert volume["identity"] == {"mount_point": "E:\\vms", "volume": "volume-37", "created": "638000000000000037"}
    assert volume["detail"]["link"] == "proven" and "link" not in disk["detail"]
    assert host.data() == before


def test_a_named_file_and_that_of_the_last_build_come_first(host):
    (whole,) = layers_of(host, {**VOLUME, "folder": "E:", "parent": None})
    assert (whole["path"], whole["identity"]["mount_point"]) == ("E:\\logs\\long.log", "E:\\")
    (named,) = layers_of(host, {**VOLUME, "file": "two.vhdx"})
    assert named["path"] == "E:\\vms\\two.vhdx" and named["detail"]["link"] == "declared"
    assert layers_of(host, VOLUME, layers=[named])[0]["path"] == "E:\\vms\\two.vhdx"
    gone = {**named, "path": "E:\\vms\\gone.vhdx"}
    assert layers_of(host, VOLUME, layers=[gone])[0]["path"] == "E:\\vms\\one.vhdx"
    elsewhere = {**named, "identity": {**named["identity"], "mount_point": "E:\\logs"}}
    assert layers_of(host, VOLUME, layers=[elsewhere])[0]["path"] == "E:\\vms\\one.vhdx"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({**DISK, "unique_id": "6001405A"}, "member_missing"),
        ({**DISK, "serial": "other"}, "member_missing"),
        ({**DISK, "unique_id": None}, "bad_value"),
        ({**VOLUME, "folder": "Q:\\vms"}, "folder_missing"),
        ({**VOLUME, "folder": "E:\\none"}, "nothing_to_read"),
        ({**VOLUME, "file": "none.vhdx"}, "nothing_to_read"),
        ({**VOLUME, "folder": "E:\\vms\\..\\logs"}, "bad_value"),
        ({**VOLUME, "folder": "\\\\nas\\share"}, "bad_value"),
        ({**VOLUME, "file": "..\\logs\\long.log"}, "bad_value"),
        ({**VOLUME, "name": "a/b"}, "bad_value"),
    ],
)
def test_what_is_not_there_is_refused(host, entry, expected):
    before = host.data()
    result = host.run(module=win_existing, entries=[entry])
    assert code(result) == expected, result
    assert host.data() == before


def test_one_disk_under_two_numbers_is_refused_and_a_serial_is_read_in_every_spelling(host):
    assert layers_of(host, {**DISK, "unique_id": None, "serial": "6001405AABB"})[0]["path"].endswith("Drive3")
    host.change(disks={**host.data()["disks"], "4": copy.deepcopy(OTHERS)})
    assert code(host.run(module=win_existing, entries=[DISK])) == "serial_twice"


def test_a_folder_on_another_disk_than_declared_is_refused(host):
    other = {**DISK, "unique_id": "FAKE-LUN-2"}
    result = host.run(module=win_existing, entries=[other, VOLUME])
    assert code(result) == "on_another" and "disk 3" in result["msg"]


def test_reading_is_measured_and_nothing_of_the_host_changes(host):
    before = host.data()["disks"]
    layers = layers_of(host, DISK, VOLUME)
    points = measured(run(host, layers))
    results = [host.result(point) for point in points]
    assert [result["path"] for result in results] == ["\\\\.\\PhysicalDrive3", "E:\\vms\\one.vhdx"]
    for result in results:
        assert result["preparation"]["access"] == "read" and result["preparation"]["storage_cache"] == "unknown"
        assert result["preparation"]["zero_percent"] == 0 and "not_filled" not in result["flags"]
        assert "cache_unknown" in result["flags"] and "write" not in result and result["read"]["ios"] > 0
    assert host.data()["disks"] == before and not any(host.data().get("written", {}).values())


def test_a_disk_and_a_file_that_are_mostly_zeros_are_marked(host):
    disks = host.data()["disks"]
    disks["3"]["blank_from"] = 48 * MIB
    disks["3"]["volumes"]["E"]["entries"][1]["blank_from"] = 0
    host.change(disks=disks)
    results = [host.result(point) for point in measured(run(host, layers_of(host, DISK, VOLUME)))]
    # Of 16 blocks at each end and 62 between them: all behind the middle, and all.
    assert [result["preparation"]["zero_percent"] for result in results] == [50.0, 100.0]
    assert all("not_filled" in result["flags"] for result in results)
    assert host.calls("zero_look") == 2 and not any(host.data().get("written", {}).values())


def test_what_cannot_be_looked_at_for_zeros_is_measured_without_their_share(host):
    layers = layers_of(host, VOLUME)
    disks = host.data()["disks"]
    disks["3"]["volumes"]["E"]["entries"][1]["unreadable"] = True
    host.change(disks=disks)
    (point,) = measured(run(host, layers))
    result = host.result(point)
    assert result["status"] == "measured" and "zero_percent" not in result["preparation"]
    # As on Linux hosts: nothing shows that its blocks were ever written.
    assert "not_filled" in result["flags"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"created": "638000000000000040"}, "file_replaced"),
        ({"size_bytes": 19 * MIB}, "wrong_size"),
        ({"name": "vms\\other.vhdx"}, "device_missing"),
    ],
)
def test_another_file_under_the_name_is_not_read(host, change, expected):
    layers = layers_of(host, VOLUME)
    disks = host.data()["disks"]
    disks["3"]["volumes"]["E"]["entries"][1].update(change)
    host.change(disks=disks)
    assert code(run(host, layers)) == expected
    assert host.calls("engine_start") == 0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"unique_id": "6001405ACC"}, "wrong_unique_id"),
        ({"serial": "other"}, "wrong_serial"),
        ({"size_bytes": 97 * MIB}, "wrong_size"),
        ({"offline": True}, "disk_offline"),
    ],
)
def test_another_disk_under_the_number_is_not_read(host, change, expected):
    layers = layers_of(host, DISK)
    disks = host.data()["disks"]
    disks["3"].update(change)
    host.change(disks=disks)
    assert code(run(host, layers)) == expected
    assert host.calls("engine_start") == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"workload": {**READ, "read_percent": 99}},
        {"prepare": {"precondition_passes": 1}},
        {"engine": "iometer", "windows": {"program": IOMETER}},
    ],
    ids=["a workload", "preparation", "an engine that opens for writing"],
)
def test_whatever_writes_is_refused(host, arguments):
    layers = layers_of(host, VOLUME)
    before = host.data()
    result = run(host, layers, **arguments)
    assert code(result) == "layer_read_only", result
    assert host.data()["disks"] == before["disks"] and host.calls("engine_start") == 0
    assert host.data()["folders"] == before["folders"]


def test_a_refusal_names_what_is_shown_and_what_was_expected():
    layer = {"path": "\\\\.\\PhysicalDrive3", "size_bytes": 7, "identity": {"unique_id": "A"}, "purpose": "read"}
    disk = {**OTHERS, "number": 3}
    (identity, size) = existing.refusals(layer, disk)
    assert identity.what == "\\\\.\\PhysicalDrive3 has the unique id 6001405AABB, the layer's disk has A."
    assert isinstance(size, Failure) and size.code == "wrong_size"


def test_what_is_of_windows_itself_or_is_offline_is_not_offered(host):
    disks = host.data()["disks"]
    disks["4"] = {**copy.deepcopy(OTHERS), "unique_id": "OFF", "offline": True, "volumes": {}, "partitions": []}
    host.change(disks=disks)
    result = host.run(module=win_state, testbed_id="")
    entries = [offer["entry"] for offer in result["existing"]]
    assert {"kind": "volume", "path": "E:"} in entries and {"kind": "volume", "path": "C:"} not in entries
    ids = [entry["unique_id"] for entry in entries if entry["kind"] == "disk"]
    assert ids == ["FAKE-RAM-1", "FAKE-LUN-2", "6001405AABB"]
