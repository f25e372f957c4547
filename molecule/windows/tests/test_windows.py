# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stand-ins for Windows hold after the build, looked at in their own file. It proves nothing about Windows itself."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

STATE = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"]) / ".cache" / "windows"
IN, OUT = "secret-win-in-1", "secret-win-out2"


@pytest.fixture(scope="module")
def world() -> dict:
    return json.loads((STATE / "world.json").read_text())


def layer(name: str) -> dict:
    return json.loads((STATE / "layers" / f"{name}.json").read_text())


def test_target_is_as_described_after_it_was_changed(world):
    targets = world["hosts"]["win01"]["targets"]
    assert set(targets) == {"storlab-windows-target01", "storlab-windows-own"}
    target = targets["storlab-windows-target01"]
    assert target["iqn"] == "iqn.2026-11.test.storlab.windows:target01"
    assert target["initiators"] == ["IQN:iqn.1991-05.com.microsoft:win02"]
    assert target["enabled"] is True
    assert target["luns"] == {
        "ramdisk:storlab-windows-bench.vhdx": 0,
        "ramdisk:storlab-windows-ds1.vhdx": 3,
        "C:\\storlab\\raid.vhdx": 5,
    }
    assert target["chap"] == {"user": "user-win02", "secret_digest": hashlib.sha256(IN.encode()).hexdigest()}
    assert target["reverse_chap"] == {"user": "server-win01", "secret_digest": hashlib.sha256(OUT.encode()).hexdigest()}


def test_server_listens_and_lets_in_only_where_it_was_asked_to(world):
    server = world["hosts"]["win01"]
    assert {address for address, portal in server["portals"].items() if portal["enabled"]} == {"192.0.2.11"}
    assert {name: rule["remoteip"] for name, rule in server["firewall_rules"].items()} == {
        "storlab windows iSCSI target": "192.0.2.0/24"
    }


def test_server_was_restarted_once(world):
    assert world["hosts"]["win01"]["boot"] == 2
    assert world["hosts"]["win02"]["boot"] == 1


def test_disks_of_the_client_are_those_of_the_layers(world):
    disks = world["hosts"]["win02"]["disks"]
    seen = {}
    for name, lun, size_mib in (("bench", 0, 64), ("ds1", 3, 192), ("raid", 5, 96)):
        found = layer(f"initiator-{name}")
        disk = disks[found["path"].removeprefix("\\\\.\\PhysicalDrive")]
        assert (
            (disk["lun"], disk["size_bytes"])
            == (lun, size_mib << 20)
            == (found["identity"]["lun"], found["size_bytes"])
        )
        assert disk["unique_id"] == found["identity"]["unique_id"]
        assert not disk["offline"]
        assert not disk["read_only"]
        seen[name] = disk
    assert seen["bench"]["style"] == "RAW"
    volume = seen["ds1"]["volumes"]["T"]
    assert {"name": "storlab-benchmark.dat", "size_bytes": 48 << 20} in volume["entries"]
    assert layer("datastore-ds1")["path"] == "T:\\storlab-benchmark.dat"
    assert layer("datastore-ds1")["parent"] == "initiator-ds1"


def test_server_sees_its_own_export(world):
    server = world["hosts"]["win01"]
    found = layer("target-own")
    disk = server["disks"][found["path"].removeprefix("\\\\.\\PhysicalDrive")]
    assert (disk["lun"], disk["size_bytes"], disk["offline"]) == (1, 80 << 20, False)
    assert disk["unique_id"] == found["identity"]["unique_id"]
    assert (found["kind"], found["parent"], found["host"]) == ("target", "backing-own", "win01")
    assert server["loopback"] == 1


def results(run_id: str) -> dict:
    return {
        path.parent.name: json.loads(path.read_text())
        for path in (STATE / "results" / "windows" / run_id / "points").glob("*/result.json")
    }


@pytest.mark.parametrize(
    ("run_id", "raw", "points"), [("fio", "fio.json", 8), ("diskspd", "diskspd.xml", 3), ("iometer", "iometer.csv", 12)]
)
def test_every_engine_measured_the_drive_and_the_file(run_id, raw, points):
    found = results(run_id)
    assert len(found) == points
    assert {one["status"] for one in found.values()} == {"measured"}
    assert {one["layer"] for one in found.values()} - {"ceiling-win02"} == {
        "target-own",
        "initiator-bench",
        "datastore-ds1",
    }
    assert {one["engine"]["name"] for one in found.values()} == {run_id}
    for name, one in found.items():
        text = (STATE / "results" / "windows" / run_id / "points" / name / raw).read_bytes()
        assert hashlib.sha256(text).hexdigest() == one["raw"]["sha256"]
        assert one["read" if one["workload"]["read_percent"] else "write"]["ios"] > 0


def test_layers_of_fio_were_written_before_they_were_read():
    assert all(one["preparation"]["filled"] for one in results("fio").values() if one["layer"] != "ceiling-win02")


def test_each_run_was_started_once(world):
    started = [call for call in world["calls"] if call["script"] == "engine_start"]
    # fio: three layers written, eight points; diskspd: three points; IOMeter: a grid of four on three layers, each in one run;
    # two variants of fio in two rounds on three layers, which were written already.
    assert len(started) == 3 + 8 + 3 + 3 + 2 * 2 * 3
    for layer_name in ("target-own", "initiator-bench", "datastore-ds1"):
        assert sorted(one["raw"]["test"] for one in results("iometer").values() if one["layer"] == layer_name) == [
            0,
            1,
            2,
            3,
        ]


def test_runs_leave_nothing_but_the_engine_that_was_brought(world):
    for host in world["hosts"].values():
        assert host["tasks"] == {}
        assert not [folder for folder, files in host["folders"].items() if "plan.json" in files]
        assert "C:\\Program Files\\fio\\fio.exe" in host["programs"]
        assert not host.get("links")
        assert not host.get("licences")


def test_report_says_that_it_is_of_a_stand_in():
    page = (STATE / "results" / "windows" / "iometer" / "report" / "index.html").read_text()
    assert "win01: simulated (Fake Windows Server (a stand-in of the tests); its figures are made up)" in page
    assert "initiator-bench" in page


def test_check_mode_came_first_and_looked_only_afterwards(world):
    flags = [call["check_mode"] for call in world["calls"]]
    first = flags.index(False)
    assert first > 5
    assert {call["script"] for call in world["calls"][first:] if call["check_mode"]} == {"state"}


def test_secrets_are_in_no_log_and_no_record():
    texts = {path: path.read_bytes() for path in STATE.rglob("*") if path.is_file()}
    assert (STATE / "ansible.log") in texts
    assert len(texts) > 8
    for path, text in texts.items():
        assert IN.encode() not in text, path
        assert OUT.encode() not in text, path
