# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The chain of experiment E1 by the shipped playbooks: a RAM disk with a volume, a file on it that Windows exports, and a datastore of ESXi on that.

Windows and ESXi are stand-ins.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / room) for room in ("support", "standins", "fake_windows", "tools")]
import windows_esxi_lab as stand_ins
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
        {"type": "existing", "name": "LocalDS_0"},
    ],
}


@pytest.fixture
def lab(tmp_path):
    with stand_ins.running(tmp_path, "e1w", {"testbed_id": "e1w", "testbed": TESTBED}) as lab:
        yield lab


def test_from_the_ram_disk_to_the_datastore_and_back(lab):
    before = lab.kept()
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
    assert lab.play("build") == {WINDOWS: 0, ESXI: 0}

    lab.play("teardown", "verify_clean")
    assert lab.kept() == before and lab.layers() == {}


def test_a_datastore_that_should_have_been_there_stops_the_build_before_one_is_made(lab):
    before = lab.volumes()
    rc, document, _moments = lab.run("build", options=("-e", _with("LocalDS_7")))
    assert rc != 0
    assert any("has no datastore LocalDS_7" in sentence for sentence in stand_ins.failures(document))
    assert lab.volumes() == before
    lab.play("teardown", "verify_clean")


def _with(name: str) -> str:
    datastores = [*TESTBED["datastores"][:2], {"type": "existing", "name": name}]
    return json.dumps({"testbed": {**TESTBED, "datastores": datastores}})
