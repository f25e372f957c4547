# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A RAM disk with a volume, and a file on that which the same host exports, on the stand-in of tests/fake_windows. Not against Windows."""

from __future__ import annotations

import copy
import json

import actions
import pytest
from ansible_collections.storlab.testbed.plugins.action import (
    win_datastore,
    win_iscsi_target,
    win_ramdisk,
    win_target_server,
)
from world import Host, World, drive

DRIVE = drive("STARWIND RAMDISK", "RAM-17", 120 << 20)
DISKS = [{"name": "ram", "size_mib": 120, "purpose": "data", "model": "starwind*"}]
STORES = [{"name": "ram", "layer": "backing-ram", "mount_point": "R:"}]
FILE = {"lun": 3, "name": "ds1", "layer": "datastore-ram", "vhdx": {"path": "R:\\ds1.vhdx", "size_mib": 64}}
TARGET = {
    "name": "iqn.2026-11.test.storlab:e1:win",
    "portals": [{"address": "192.0.2.11", "port": 3260}],
    "luns": [FILE],
    "initiators": [{"address": "192.0.2.77", "chap_user": "esx", "chap_password": "secret-of-17-00"}],
}


class Server:
    def __init__(self, folder):
        self.folder, self.layers = folder, {}
        self.world = World(folder / "world.json")
        with self.world.open():
            self.world.add("win")

    @property
    def data(self) -> dict:
        return self.world.data["hosts"]["win"]

    def run(self, module, check: bool = False, **arguments) -> dict:
        arguments |= {"state_dir": str(self.folder / "state"), "testbed_id": "e1"}
        action = actions.make(module, copy.deepcopy(arguments), check, windows=True)

        def answer(name: str, given: dict) -> dict:
            with self.world.open():
                return Host(self.world, "win").module(name, json.loads(json.dumps(given)), check)

        action.module = answer
        names = {"inventory_hostname": "win"}
        result = actions.answer(action, names, lambda: self.world.data["hosts"], self.folder / "state", broke_off=())
        self.layers.update({layer["name"]: {"host": "win", **layer} for layer in result.get("layers", [])})
        return result

    def ram(self, **more) -> dict:
        return self.run(win_ramdisk, provider="preinstalled", **({"disks": DISKS} | more))

    def store(self, **more) -> dict:
        return self.run(win_datastore, **({"datastores": STORES, "layers": self.layers} | more))

    def target(self, lun: dict | None = None, **more) -> dict:
        targets = [{**TARGET, "luns": [lun or FILE]}]
        return self.run(win_iscsi_target, **({"targets": targets, "layers": self.layers} | more))


@pytest.fixture(params=["RAW", "MBR"])
def server(tmp_path, request) -> Server:
    made = Server(tmp_path)
    with made.world.open():
        made.data["disks"]["1"] = {**copy.deepcopy(DRIVE), "style": request.param}
    made.was = request.param
    return made


def ops(result: dict) -> list:
    assert not result.get("failed"), result
    return [step["op"] for step in result["steps"]]


def build(server: Server, check: bool = False) -> list:
    server.run(win_target_server, check=check)
    return [ops(part(check=check)) for part in (server.ram, server.store, server.target)]


def test_volume_of_an_unformatted_ram_disk_is_exported_and_all_is_given_back(server):
    before = copy.deepcopy(server.data["disks"])
    made = build(server)
    assert made[0] == (["initialize"] if server.was == "RAW" else [])
    assert made[1] == ["partition", "format"]
    assert made[2][0] == "make_disk" and made[2][-1] == "map"
    disk = server.data["disks"]["1"]
    assert (disk["style"], len(disk["partitions"])) == ("MBR", 1)
    assert [entry["name"] for entry in disk["volumes"]["R"]["entries"]] == ["System Volume Information", "ds1.vhdx"]
    chain = {name: layer["parent"] for name, layer in server.layers.items()}
    assert chain == {"backing-ram": None, "datastore-ram": "backing-ram", "target-ds1": "datastore-ram"}
    assert build(server) == [[], [], []]
    # In check mode nothing was removed above, and all of it is listed.
    told = [ops(part(state="absent", check=True)) for part in (server.target, server.store, server.ram)]
    assert told[0][:4] == ["unmap", "remove_target", "remove_disk", "remove_file"]
    assert told[1:] == [["clear", "initialize"], ["clear"] if server.was == "RAW" else []]
    assert server.data["disks"]["1"] == disk
    ops(server.target(state="absent"))
    assert ops(server.store(state="absent")) == ["clear", "initialize"]
    assert ops(server.ram(state="absent")) == (["clear"] if server.was == "RAW" else [])
    assert server.data["disks"] == before


def test_the_volume_goes_after_what_lies_on_it(server):
    build(server)
    before = copy.deepcopy(server.data)
    assert server.store(state="absent")["failure"]["code"] == "datastore_not_empty"
    if server.was == "RAW":
        assert server.ram(state="absent")["failure"]["code"] == "device_partitioned"
    assert server.data == before


def test_teardown_that_was_cut_after_the_clearing_gives_the_mbr_back(server):
    build(server)
    ops(server.target(state="absent"))
    with server.world.open():
        server.data["disks"]["1"].update(style="RAW", partitions=[], volumes={})
    assert ops(server.store(state="absent")) == ["initialize"]
    assert server.data["disks"]["1"]["style"] == "MBR"


@pytest.mark.parametrize(
    ("lun", "code"),
    [
        ({**FILE, "layer": "backing-ram"}, "layer_not_exportable"),
        ({**FILE, "layer": "datastore-other"}, "layer_missing"),
        ({**FILE, "vhdx": {"path": "C:\\ds1.vhdx", "size_mib": 64}}, "bad_value"),
        ({**FILE, "vhdx": {"path": "R:\\ds1.vhdx", "size_mib": 121, "allocation": "fixed"}}, "bad_value"),
    ],
    ids=["not a volume", "not published", "on another volume", "larger than the disk"],
)
def test_a_file_that_is_not_on_the_volume_of_its_layer_is_refused(server, lun, code):
    server.run(win_target_server)
    ops(server.ram())
    ops(server.store())
    before = copy.deepcopy(server.data)
    assert server.target(lun)["failure"]["code"] == code
    assert server.data == before


def test_a_volume_that_is_another_by_now_gets_no_file(server):
    server.run(win_target_server)
    ops(server.ram())
    ops(server.store())
    with server.world.open():
        server.data["disks"]["1"]["volumes"]["R"]["label"] = "theirs"
    before = copy.deepcopy(server.data)
    assert server.target()["failure"]["code"] == "datastore_foreign"
    assert server.data == before


def test_an_mbr_on_a_disk_that_is_not_the_testbeds_ram_disk_is_no_blank_disk(server):
    layer = {**server.ram()["layers"][0], "host": "win", "kind": "initiator"}
    with server.world.open():
        server.data["disks"]["1"]["style"] = "MBR"
    before = copy.deepcopy(server.data)
    assert server.store(layers={"backing-ram": layer})["failure"]["code"] == "signature_present"
    assert server.data == before
