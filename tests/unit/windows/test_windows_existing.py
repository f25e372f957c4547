# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks and volumes of a Windows host that were there before: found, proven, only read. The host is the stand-in of tests/fake_windows, not Windows."""

from __future__ import annotations

import copy
import json

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


# ---------------------------------------------------------------- written to

OWN = {
    "name": "data",
    "kind": "volume",
    "layer_kind": "datastore",
    "folder": "E:\\vms",
    "access": "write",
    "benchmark_file_mib": 3,
}
PLACE = "E:\\vms\\storlab.tb+data"
FILE = f"{PLACE}\\storlab-benchmark.dat"
BLANK = {**OTHERS, "unique_id": "6001405ABLANK", "partitions": [], "volumes": {}, "serial": "S37"}
WRITE = {**READ, "read_percent": 30}


def own(host, tmp_path, **more) -> dict:
    return host.run(
        module=win_existing, **{"entries": [OWN], "state_dir": str(tmp_path / "state"), "testbed_id": "tb", **more}
    )


def entries_of(host) -> dict:
    return {entry["name"]: entry for entry in host.data()["disks"]["3"]["volumes"]["E"]["entries"]}


def test_a_file_of_our_own_is_made_measured_and_gone(host, tmp_path):
    before = entries_of(host)
    planned = own(host, tmp_path, check=True)
    assert [step["op"] for step in planned["steps"]] == ["make", "write"] and entries_of(host) == before
    assert not list((tmp_path / "state").glob("windows/*"))
    made = own(host, tmp_path)
    assert made["changed"] and [step["op"] for step in made["steps"]] == ["make", "write"]
    (layer,) = made["layers"]
    assert (layer["path"], layer["purpose"], layer["size_bytes"]) == (FILE, "scratch", 3 * MIB)
    now = entries_of(host)
    assert {name: now[name] for name in before} == before and len(now) == len(before) + 3
    again = own(host, tmp_path)
    assert not again["changed"] and again["layers"] == made["layers"]
    (point,) = measured(run(host, [{**layer, "host": "win01"}], workload=WRITE, prepare={"fill": True}))
    result = host.result(point)
    assert result["write"]["ios"] > 0 and result["preparation"]["filled"] is True
    assert result["preparation"]["storage_cache"] == "unknown" and "cache_unknown" in result["flags"]
    assert {key for key, count in host.data()["written"].items() if count} == {FILE}
    gone = own(host, tmp_path, entries=[], state="absent", layers=[layer])
    assert gone["changed"] and gone["kept"] == [] and entries_of(host) == before
    assert not own(host, tmp_path, entries=[], state="absent")["changed"]


def test_a_folder_is_known_by_its_published_layer_and_another_size_is_followed(host, tmp_path):
    before = entries_of(host)
    (layer,) = own(host, tmp_path)["layers"]
    lost = {"state_dir": str(tmp_path / "other"), "layers": [layer]}
    larger = own(host, tmp_path, **lost, entries=[{**OWN, "benchmark_file_mib": 5}])
    assert [step["op"] for step in larger["steps"]] == ["write"] and larger["layers"][0]["size_bytes"] == 5 * MIB
    renamed = own(host, tmp_path, **lost, entries=[{**OWN, "name": "new"}])
    assert [step["op"] for step in renamed["steps"]] == ["remove", "make", "write"]
    assert (
        own(host, tmp_path, state_dir=lost["state_dir"], entries=[], state="absent")["changed"]
        and entries_of(host) == before
    )


def test_what_is_killed_before_the_stamp_is_put_right(host, tmp_path):
    before = entries_of(host)
    own(host, tmp_path)
    # As a call leaves it that is killed right behind the folder: on record, without a stamp.
    (record,) = (tmp_path / "state" / "windows").glob("existing-*.json")
    content = json.loads(record.read_text(encoding="utf-8"))
    content["folders"]["data"]["stamped"] = False
    record.write_text(json.dumps(content), encoding="utf-8")
    disks = host.data()["disks"]
    volume = disks["3"]["volumes"]["E"]
    volume["entries"] = [entry for entry in volume["entries"] if not entry["name"].startswith("vms\\storlab.tb+data\\")]
    host.change(disks=disks)
    assert [step["op"] for step in own(host, tmp_path)["steps"]] == ["make", "write"]
    assert own(host, tmp_path, entries=[], state="absent")["changed"] and entries_of(host) == before


@pytest.mark.parametrize(
    ("theirs", "more", "expected"),
    [
        ([{"name": "vms\\storlab.tb+data", "size_bytes": None}], {}, "folder_foreign"),
        ([{"name": "vms\\storlab.tb+data", "size_bytes": 7}], {}, "folder_foreign"),
        ([{"name": "full", "size_bytes": 26 * MIB}], {}, "space_short"),
        ([], {"entries": [{**OWN, "folder": "Q:\\vms"}]}, "folder_missing"),
        ([], {"entries": [{**OWN, "file": "one.vhdx"}]}, "bad_value"),
        ([], {"entries": [{**OWN, "benchmark_file_mib": 0}]}, "bad_value"),
        ([], {"state_dir": None}, "bad_value"),
    ],
)
def test_a_file_of_our_own_is_refused_and_nothing_is_made(host, tmp_path, theirs, more, expected):
    disks = host.data()["disks"]
    disks["3"]["volumes"]["E"]["entries"] += theirs
    host.change(disks=disks)
    before = entries_of(host)
    result = own(host, tmp_path, **more)
    assert code(result) == expected, result
    assert entries_of(host) == before and not host.calls("own_new") and not host.calls("file_write")


def change_entry(host, name: str, change: dict) -> None:
    disks = host.data()["disks"]
    entries = disks["3"]["volumes"]["E"]["entries"]
    next(entry for entry in entries if entry["name"] == f"vms\\storlab.tb+data{name}").update(change)
    host.change(disks=disks)


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("\\.storlab-owner.json", {"text": '{"token": "theirs"}'}, "folder_foreign"),
        ("\\.storlab-owner.json", {"text": "no stamp"}, "folder_foreign"),
        ("", {"link": True}, "folder_foreign"),
        ("\\storlab-benchmark.dat", {"link": True}, "wrong_size"),
        ("\\storlab-benchmark.dat", {"size_bytes": 4 * MIB}, "wrong_size"),
    ],
)
def test_what_is_not_proven_ours_is_not_written_and_stays(host, tmp_path, name, change, expected):
    (layer,) = own(host, tmp_path)["layers"]
    change_entry(host, name, change)
    before = entries_of(host)
    result = run(host, [{**layer, "host": "win01"}], workload=WRITE, testbed_id="tb")
    assert code(result) == expected, result
    assert host.calls("engine_start") == 0 and entries_of(host) == before
    gone = own(host, tmp_path, entries=[], state="absent", layers=[layer])
    if "size_bytes" not in change:
        assert gone["kept"] and entries_of(host) == before


def test_what_others_put_into_the_folder_stays_and_is_named(host, tmp_path):
    own(host, tmp_path)
    disks = host.data()["disks"]
    disks["3"]["volumes"]["E"]["entries"].append({"name": "vms\\storlab.tb+data\\letter.txt", "size_bytes": 7})
    host.change(disks=disks)
    before = entries_of(host)
    gone = own(host, tmp_path, entries=[], state="absent")
    assert gone["kept"] == [f"{PLACE}\\letter.txt"] and entries_of(host) == before


def test_iometer_is_refused_in_a_folder_of_others(host, tmp_path):
    (layer,) = own(host, tmp_path)["layers"]
    given = {"engine": "iometer", "windows": {"program": IOMETER}, "workload": WRITE, "testbed_id": "tb"}
    assert code(run(host, [{**layer, "host": "win01"}], **given)) == "workload_unsupported"
    assert host.calls("engine_start") == 0


def test_a_blank_disk_is_overwritten_and_one_in_use_is_not(host, tmp_path):
    entry = {**DISK, "access": "write"}
    before = host.data()["disks"]
    used = host.run(module=win_existing, entries=[entry])
    assert code(used) == "device_mounted" and host.data()["disks"] == before
    host.change(disks={**before, "4": copy.deepcopy(BLANK)})
    result = host.run(module=win_existing, entries=[{**entry, "unique_id": BLANK["unique_id"]}])
    (layer,) = result["layers"]
    assert not result["changed"] and (layer["path"], layer["purpose"]) == ("\\\\.\\PhysicalDrive4", "scratch")
    (point,) = measured(run(host, [{**layer, "host": "win01"}], workload=WRITE, prepare={"fill": True}))
    measured_point = host.result(point)
    assert measured_point["write"]["ios"] > 0 and "cache_unknown" in measured_point["flags"]
    assert {key for key, count in host.data()["written"].items() if count} == {layer["path"]}
