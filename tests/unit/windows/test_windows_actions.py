# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The actions for Windows hosts against the stand-in of tests/fake_windows: what they make, repair, refuse and give back. Not against Windows."""

from __future__ import annotations

import copy
import json
from itertools import islice
from pathlib import Path

import actions
import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.storlab.testbed.plugins.action import (
    win_datastore,
    win_iscsi_session,
    win_iscsi_target,
    win_ramdisk,
    win_state,
    win_target_server,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import action as windows_action
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import device_safety, script_text
from world import Host, World

IN, OUT, OTHER = "first-secret-1", "second-secret-2", "third-secret-33"
CLIENT = "iqn.1991-05.com.microsoft:client"
IQN = "iqn.2026-11.test.storlab:box:one"
NAME = "storlab-t1-box-one"
PORTAL = {"address": "192.0.2.11", "port": 3260}
# Failures of a step that was begun. All others are refusals, after which everything is as it was.
BROKE_OFF = ("aim_failed", "feature_failed", "firewall_failed", "restart_failed", "windows_script_failed")


class Bench:
    """A server and a client, and the actions as a playbook would run them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.world = World(folder / "world.json")
        with self.world.open():
            self.world.add(
                "server", initiator={"iqn": "iqn.1991-05.com.microsoft:server", "portals": [], "sessions": {}}
            )
            self.world.add(
                "client",
                server=False,
                addresses=["192.0.2.21"],
                initiator={"iqn": CLIENT, "portals": [], "sessions": {}},
            )
        self.layers: dict = {}
        self.disks = [
            {"name": "bench", "size_mib": 70, "purpose": "scratch"},
            # What is not called scratch holds data; LUNs have the purpose of their disk.
            {"name": "ds1", "size_mib": 200},
        ]
        self.targets = [
            {
                "name": IQN,
                "portals": [PORTAL],
                "luns": [
                    {"lun": 2, "name": "bench", "layer": "backing-bench"},
                    {"lun": 4, "name": "ds1", "layer": "backing-ds1"},
                    {
                        "lun": 6,
                        "name": "file",
                        "vhdx": {"path": "C:\\lab\\file.vhdx", "size_mib": 90, "allocation": "fixed"},
                    },
                ],
                "initiators": [
                    {
                        "iqn": CLIENT,
                        "chap_user": "user-in",
                        "chap_password": IN,
                        "mutual_chap_user": "user-out",
                        "mutual_chap_password": OUT,
                    }
                ],
            }
        ]
        self.sessions = [
            {
                "iqn": IQN,
                "portal": PORTAL,
                "chap_user": "user-in",
                "chap_password": IN,
                "luns": [
                    {"lun": 2, "name": "bench"},
                    {"lun": 4, "name": "ds1", "parent": "target-ds1"},
                ],
            }
        ]
        self.datastores = [{"name": "ds1", "layer": "initiator-ds1", "mount_point": "T:\\", "benchmark_file_mib": 60}]

    def hosts(self) -> dict:
        """What a refusal must not change."""
        return self.world.data["hosts"]

    def host(self, name: str = "server") -> dict:
        """A host's own data; change it within ``with bench.world.open()``."""
        return self.world.data["hosts"][name]

    def run(self, host: str, module, check: bool = False, testbed_id: str = "t1", **arguments) -> dict:
        if module is not win_state:
            arguments = {"state_dir": str(self.folder / "state"), **arguments}
        arguments["testbed_id"] = testbed_id
        action = actions.make(module, copy.deepcopy(arguments), check, windows=True)

        def answer(name: str, given: dict) -> dict:
            with self.world.open():
                return Host(self.world, host).module(name, json.loads(json.dumps(given)), check)

        action.module = answer
        result = actions.answer(
            action, {"inventory_hostname": host}, self.hosts, self.folder / "state", broke_off=BROKE_OFF
        )
        assert not any(secret in json.dumps(result) for secret in (IN, OUT, OTHER))
        self.layers.update({layer["name"]: {"host": host, **layer} for layer in result.get("layers", [])})
        return result

    def build(self, check: bool = False):
        """The results of the chain, up to the first failure."""
        for host, module, arguments in (
            ("server", win_target_server, {"networks": ["192.0.2.0/24"]}),
            ("server", win_ramdisk, {"disks": self.disks}),
            ("server", win_iscsi_target, {"targets": self.targets, "layers": self.layers}),
            (
                "client",
                win_iscsi_session,
                {"targets": self.sessions, "layers": self.layers, "initiator_name": CLIENT, "wait_s": 0},
            ),
            ("client", win_datastore, {"datastores": self.datastores, "layers": self.layers}),
        ):
            result = self.run(host, module, check, **arguments)
            yield result
            if result.get("failed"):
                return

    def teardown(self):
        for host, module in (
            ("client", win_datastore),
            ("client", win_iscsi_session),
            ("server", win_iscsi_target),
            ("server", win_ramdisk),
            ("server", win_target_server),
        ):
            yield self.run(host, module, state="absent")

    def states(self) -> list:
        return [self.run(host, win_state)["storage_state"] for host in ("server", "client")]


@pytest.fixture
def bench(tmp_path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def built(bench) -> Bench:
    assert [result.get("msg") for result in bench.build()] == [None] * 5
    return bench


def code(result: dict) -> str | None:
    return result.get("failure", {}).get("code")


def test_build_changes_and_a_second_one_does_not(bench):
    assert [result["changed"] for result in bench.build()] == [True] * 5
    again = list(bench.build())
    assert [result["steps"] for result in again] == [[]] * 5
    assert not any(result["changed"] for result in again)


def test_teardown_gives_everything_back(bench):
    before = bench.states()
    list(bench.build())
    assert bench.states() != before
    assert [result.get("msg") for result in bench.teardown()] == [None] * 5
    assert bench.states() == before
    assert bench.host()["files"] == []
    assert list((bench.folder / "state" / "windows").iterdir()) == []
    assert not any(result["changed"] for result in bench.teardown())


def test_check_mode_changes_nothing_and_tells_of_the_steps(bench):
    before = copy.deepcopy(bench.host()), copy.deepcopy(bench.host("client"))
    results = list(bench.build(check=True))
    assert [result["changed"] for result in results] == [True] * 5
    assert [step["op"] for step in results[2]["steps"]] == [
        "make_disk",
        "make_target",
        "name",
        "chap",
        "reverse_chap",
        "map",
        "map",
        "map",
    ]
    assert (bench.host(), bench.host("client")) == before
    assert not (bench.folder / "state").exists()


def test_luns_are_mapped_last_and_chap_is_on_before(bench):
    steps = [step["op"] for step in list(bench.build())[2]["steps"]]
    assert steps.index("map") > max(
        steps.index(op)
        for op in ("initiators" if "initiators" in steps else "make_target", "chap", "reverse_chap", "portal")
    )


SCRIPTS = [
    "vdisk_new",
    "vdisk_new_fixed",
    "portal_set",
    "target_new",
    "target_name",
    "target_chap",
    "target_reverse_chap",
    "lun_map",
    "service_start",
    "initiator_portal_new",
    "session_login_chap",
    "disk_online",
    "disk_writable",
    "disk_initialize",
    "partition_new",
    "volume_format",
    "file_write",
    "win_feature",
    "win_firewall_rule",
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_build_that_broke_anywhere_is_finished_by_the_next_and_can_be_taken_down(bench, script):
    before = bench.states()
    client = SCRIPTS.index("service_start") <= SCRIPTS.index(script) < SCRIPTS.index("win_feature")
    # A message may repeat what it was given.
    said = {"target_chap": IN, "target_reverse_chap": OUT, "session_login_chap": IN}.get(script, "nothing")
    with bench.world.open():
        bench.world.data["faults"].append(
            {"host": "client" if client else "server", "what": script, "message": f"broken, said {said}.", "times": 1}
        )
    broken = list(bench.build())[-1]
    assert code(broken) in ("windows_script_failed", "feature_failed", "firewall_failed")
    # Taken down at once, or finished first: both end where it began.
    if SCRIPTS.index(script) % 2:
        assert not any(result.get("failed") for result in bench.teardown())
        assert bench.states() == before
    assert [result.get("msg") for result in bench.build()] == [None] * 5
    assert not any(result["changed"] for result in bench.build())
    assert not any(result.get("failed") for result in bench.teardown())
    assert bench.states() == before


@pytest.mark.parametrize(
    ("change", "op"),
    [
        ({"chap_password": OTHER}, "chap"),
        ({"chap_user": "user-new"}, "chap"),
        ({"mutual_chap_password": OTHER}, "reverse_chap"),
        ({"mutual_chap_user": "user-new"}, "reverse_chap"),
    ],
    ids=str,
)
def test_the_initiators_are_asked_before_a_target_gets_other_secrets(built, change, op):
    """Their sessions go on with the former ones, and end for good when the connection breaks."""

    def build(**more) -> dict:
        return built.run("server", win_iscsi_target, targets=built.targets, layers=built.layers, **more)

    before = copy.deepcopy(built.hosts())
    built.targets[0]["initiators"][0].update(change)
    for check in (True, False):
        refused = build(check=check)
        assert code(refused) == "target_in_use" and built.hosts() == before
        assert "The CHAP names and secrets for LUN 2 of" in refused["msg"] and CLIENT in refused["msg"]
    luns = refused["failure"]["details"]["withdrawn"]
    assert [(lun["lun"], lun["initiator"], lun["credentials"]) for lun in luns] == [
        (number, CLIENT, True) for number in (2, 4, 6)
    ]
    keys = [lun["key"] for lun in luns]
    assert (
        code(build(uses={**{key: [] for key in keys}, keys[1]: ["mounted on /srv"]})) == "target_in_use"
        and built.hosts() == before
    )
    assert [step["op"] for step in build(uses={key: [] for key in keys})["steps"]] == [op]
    # It is noted: the same again changes nothing and needs no answer.
    assert build()["steps"] == []


def test_changed_secret_is_set_and_nothing_else(built):
    built.targets[0]["initiators"][0]["chap_password"] = OTHER
    with built.world.open():
        built.host()["targets"][NAME]["sessions"] = []
    results = list(built.build())
    assert [[step["op"] for step in result["steps"]] for result in results[:3]] == [[], [], ["chap"]]


def test_wrong_secret_fails_at_the_login(bench):
    bench.sessions[0]["chap_password"] = OTHER
    failed = list(bench.build())[-1]
    assert code(failed) == "windows_script_failed"
    assert "authentication failure" in failed["msg"]


def test_restarted_service_loses_ram_disks_and_build_repairs(built):
    assert not any(result.get("failed") for result in islice(built.teardown(), 2))
    with built.world.open():
        Host(built.world, "server").restart()
    refused = built.run("server", win_iscsi_target, targets=built.targets, layers=built.layers)
    assert code(refused) == "device_missing"
    assert [result.get("msg") for result in built.build()] == [None] * 5


def test_restarted_server_is_repaired_below_a_client_that_stays_logged_in(built, monkeypatch):
    monkeypatch.setattr(windows_action, "RETRY_EVERY_S", 0)
    before = dict(built.layers)
    with built.world.open():
        Host(built.world, "server").restart()
    assert {disk["bus"] for disk in built.host("client")["disks"].values()} == {"SATA", "iSCSI"}
    assert [result.get("msg") for result in islice(built.build(), 3)] == [None] * 3
    # The LUN of a file was there all the time.
    sessions = built.run(
        "client", win_iscsi_session, targets=built.sessions, layers=built.layers, initiator_name=CLIENT, wait_s=30
    )
    assert [step["op"] for step in sessions["steps"]] == ["online", "writable"] * 2
    datastores = built.run("client", win_datastore, datastores=built.datastores, layers=built.layers)
    assert [step["op"] for step in datastores["steps"]] == ["initialize", "partition", "format", "write_file"]
    changed = {name for name, layer in built.layers.items() if layer["identity"] != before[name]["identity"]}
    assert changed == {"initiator-bench", "initiator-ds1"}
    assert [result["steps"] for result in built.build()] == [[]] * 5


@pytest.mark.parametrize(
    ("change", "ops"),
    [
        ({"initiators": ["IQN:*"]}, ["initiators"]),
        ({"chap": None}, ["chap"]),
        ({"reverse_chap": None}, ["reverse_chap"]),
        ({"enabled": False}, ["enable"]),
        ({"iqn": "iqn.2026-11.test:else"}, ["name"]),
        (
            {"luns": {"ramdisk:storlab-t1-bench.vhdx": 4, "ramdisk:storlab-t1-ds1.vhdx": 2, "C:\\lab\\file.vhdx": 6}},
            ["unmap", "unmap", "map", "map"],
        ),
        # The same name without its type is how a real host may show it.
        ({"initiators": [CLIENT]}, []),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_drift_is_repaired_step_by_step(built, change, ops):
    with built.world.open():
        built.host()["targets"][NAME].update(change)
    assert [
        step["op"]
        for step in built.run("server", win_iscsi_target, targets=built.targets, layers=built.layers)["steps"]
    ] == ops


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        (lambda host: host["targets"].update({NAME: {**TARGET, "description": "mine"}}), "foreign_target"),
        (lambda host: host["targets"].update({"other": {**TARGET, "iqn": IQN}}), "foreign_target"),
        (
            lambda host: host["targets"].update({"other": {**TARGET, "luns": {"ramdisk:storlab-t1-ds1.vhdx": 0}}}),
            "disk_exported",
        ),
        (lambda host: host["targets"].update({"other": TARGET}), "portals_shared"),
        (lambda host: host["files"].append("C:\\lab\\file.vhdx"), "file_foreign"),
        (
            lambda host: host["virtual_disks"].update(
                {"C:\\lab\\file.vhdx": {"size_bytes": 90 << 20, "description": "storlab testbed t11: file"}}
            ),
            "disk_foreign",
        ),
        (lambda host: host["virtual_disks"]["ramdisk:storlab-t1-ds1.vhdx"].update(size_bytes=100 << 20), "wrong_size"),
        (lambda host: host["portals"].pop("192.0.2.11"), "address_missing"),
        (lambda host: host["services"]["WinTarget"].update(state="Stopped"), "service_stopped"),
    ],
    ids=["name", "iqn", "disk of others", "portals of others", "file", "virtual disk", "size", "address", "service"],
)
def test_what_belongs_to_others_is_refused_and_stays(bench, prepare, expected):
    list(islice(bench.build(), 2))
    with bench.world.open():
        prepare(bench.host())
    before = copy.deepcopy(bench.host())
    assert code(bench.run("server", win_iscsi_target, targets=bench.targets, layers=bench.layers)) == expected
    assert bench.host() == before


TARGET = {
    "iqn": "iqn.2026-11.test:others",
    "description": "",
    "enabled": True,
    "initiators": ["IQN:*"],
    "luns": {},
    "chap": None,
    "reverse_chap": None,
    "sessions": [],
}


def test_portals_of_others_stay_when_every_address_is_allowed(built):
    with built.world.open():
        built.host()["targets"]["other"] = dict(TARGET)
        built.host()["portals"]["198.51.100.11"]["enabled"] = True
    result = built.run("server", win_iscsi_target, targets=built.targets, layers=built.layers, allow_any_address=True)
    assert result["steps"] == []
    assert not any(answer.get("failed") for answer in built.teardown())
    assert set(built.host()["targets"]) == {"other"}
    assert built.host()["feature"] == "Installed"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"chap_password": "short"}, "12"),
        ({"chap_password": "x" * 17}, "12 to 16"),
        ({"chap_user": ""}, "both"),
        ({"luns": [2]}, "all its LUNs"),
        ({"mutual_chap_password": IN}, "another secret"),
        ({"iqn": "Client"}, "iSCSI name"),
    ],
)
def test_bad_initiators_are_refused(bench, change, says):
    bench.targets[0]["initiators"][0].update(change)
    refused = list(bench.build())[2]
    assert code(refused) == "bad_value"
    assert says in refused["msg"]


def test_initiators_with_different_secrets_are_refused(bench):
    first = bench.targets[0]["initiators"][0]
    bench.targets[0]["initiators"].append({**first, "iqn": "iqn.2026-11.test:second", "chap_password": OTHER})
    assert "one of each" in list(bench.build())[2]["msg"]


@pytest.mark.parametrize(
    "path", ["raid.vhdx", "\\\\server\\share\\x.vhdx", "C:\\lab\\x.vhd", "C:\\lab\\..\\x.vhdx", "C:/lab/x.vhdx"]
)
def test_bad_paths_are_refused(bench, path):
    bench.targets[0]["luns"][2]["vhdx"]["path"] = path
    assert code(list(bench.build())[2]) == "bad_value"


def test_testbed_id_with_an_underscore_is_refused(bench):
    assert code(bench.run("server", win_ramdisk, testbed_id="my_lab", disks=bench.disks)) == "bad_value"


def test_initiators_refusals(built):
    run = {"layers": built.layers, "initiator_name": CLIENT, "wait_s": 0}
    shouted = built.run(
        "client", win_iscsi_session, targets=built.sessions, **{**run, "initiator_name": CLIENT.upper()}
    )
    assert shouted["changed"] is False, shouted
    renamed = {**run, "initiator_name": "iqn.2026-11.test:else"}
    assert code(built.run("client", win_iscsi_session, targets=built.sessions, **renamed)) == "initiator_name_differs"
    mutual = {**built.sessions[0], "mutual_chap_user": "user-out", "mutual_chap_password": OUT}
    assert code(built.run("client", win_iscsi_session, targets=[mutual], **run)) == "bad_value"
    assert (
        code(built.run("client", win_iscsi_session, targets=built.sessions, testbed_id="t2", **run))
        == "session_foreign"
    )
    missing = {**built.sessions[0], "luns": [{"lun": 9, "name": "nine"}]}
    failed = built.run("client", win_iscsi_session, targets=[missing], **run)
    assert (code(failed), failed["failure"]["details"]["missing"]) == ("lun_missing", [9])
    with built.world.open():
        built.host("client")["services"]["MSiSCSI"].update(state="Stopped", start_mode="Disabled")
    assert code(built.run("client", win_iscsi_session, targets=built.sessions, **run)) == "service_disabled"


def test_portals_go_also_after_a_restart_that_stopped_the_service(built):
    with built.world.open():
        Host(built.world, "client").restart()
    assert built.host("client")["services"]["MSiSCSI"]["state"] == "Stopped"
    before = copy.deepcopy(built.host("client"))
    told = built.run("client", win_iscsi_session, check=True, state="absent")
    assert [(step["op"], step["will"]) for step in told["steps"]] == [("service", "running")]
    assert built.host("client") == before
    result = built.run("client", win_iscsi_session, state="absent")
    assert [(step["op"], step["will"]) for step in result["steps"]] == [
        ("service", "running"),
        ("portal", None),
        ("service", "stopped"),
    ]
    assert built.host("client")["initiator"]["portals"] == []
    assert built.host("client")["services"]["MSiSCSI"]["state"] == "Stopped"


def test_lun_that_is_mapped_later_appears_without_a_new_login(built, monkeypatch):
    monkeypatch.setattr(windows_action, "RETRY_EVERY_S", 0)
    built.sessions[0]["luns"].append({"lun": 6, "name": "file", "parent": "target-file"})
    with built.world.open():
        session = next(iter(built.host("client")["initiator"]["sessions"].values()))
        late = next(
            number
            for number, disk in built.host("client")["disks"].items()
            if disk["bus"] == "iSCSI" and disk["lun"] == 6
        )
        session["disks"].remove(int(late))
        del built.host("client")["disks"][late]
    result = built.run(
        "client", win_iscsi_session, targets=built.sessions, layers=built.layers, initiator_name=CLIENT, wait_s=30
    )
    assert [step["op"] for step in result["steps"]] == ["online", "writable"]
    assert {layer["name"]: layer["size_bytes"] for layer in result["layers"]}["initiator-file"] == 90 << 20


def sessions_only(bench: Bench) -> dict:
    """The chain without its datastore; returns the disk of ds1."""
    list(islice(bench.build(), 4))
    return next(disk for disk in bench.host("client")["disks"].values() if disk["lun"] == 4)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"style": "MBR", "partitions": [{"number": 1, "type": "IFS", "size_bytes": 7 << 20, "letter": ""}]},
            "signature_present",
        ),
        ({"style": "GPT"}, "signature_present"),
        ({"boot": True}, "disk_boot"),
        ({"system": True}, "disk_system"),
        ({"clustered": True}, "disk_clustered"),
        ({"page_file": True}, "disk_page_file"),
        ({"size_bytes": 201 << 20}, "wrong_size"),
        ({"unique_id": "ANOTHER"}, "wrong_unique_id"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_disks_that_are_not_proven_blank_are_not_formatted(bench, change, expected):
    sessions_only(bench)
    with bench.world.open():
        next(disk for disk in bench.host("client")["disks"].values() if disk["lun"] == 4).update(change)
    before = copy.deepcopy(bench.host("client"))
    assert code(bench.run("client", win_datastore, datastores=bench.datastores, layers=bench.layers)) == expected
    assert bench.host("client") == before


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"mount_point": "C:"}, "bad_value"),
        ({"mount_point": "/srv"}, "bad_value"),
        ({"layer": "initiator-none"}, "layer_missing"),
        ({"layer": "initiator-bench"}, "bad_value"),
        ({"benchmark_file_mib": 190}, "bad_value"),
    ],
)
def test_bad_datastores_are_refused(bench, change, expected):
    sessions_only(bench)
    assert (
        code(bench.run("client", win_datastore, datastores=[{**bench.datastores[0], **change}], layers=bench.layers))
        == expected
    )


def test_guard_takes_the_layers_as_they_were_published_and_nothing_else(built):
    with built.world.open():
        state = Host(built.world, "client").state([])
    layers = {name: layer for name, layer in built.layers.items() if layer["path"]}
    judged = {
        name: [
            item.code for item in device_safety.judge(state, layer, testbed_id="t1", layers=list(layers.values()))[0]
        ]
        for name, layer in layers.items()
    }
    assert judged == {
        "initiator-bench": [],
        "datastore-ds1": [],
        "initiator-ds1": ["purpose_data", "device_mounted", "device_partitioned"],
    }
    # The numbers of the two disks are swapped, as after a restart.
    numbers = sorted(int(layers[name]["path"][-1]) for name in ("initiator-bench", "initiator-ds1"))
    for disk in state["disks"]:
        if disk["number"] in numbers:
            disk["number"] = sum(numbers) - disk["number"]
    swapped = [
        item.code for item in device_safety.judge(state, layers["initiator-bench"], ["\\\\.\\PhysicalDrive1"])[0]
    ]
    assert "device_mounted" in swapped
    assert "wrong_size" in swapped
    assert device_safety.judge(state, layers["datastore-ds1"], testbed_id="t1", layers=list(layers.values())) == (
        [],
        [],
    )


def test_files_of_others_keep_a_volume(built):
    with built.world.open():
        disk = next(disk for disk in built.host("client")["disks"].values() if disk["lun"] == 4)
        disk["volumes"]["T"]["entries"].append({"name": "thesis.docx", "size_bytes": 12345})
    refused = built.run("client", win_datastore, state="absent")
    assert (code(refused), refused["failure"]["details"]["entries"]) == ("datastore_not_empty", ["thesis.docx"])
    assert code(built.run("client", win_iscsi_session, state="absent")) == "device_in_use"
    assert built.run("client", win_datastore, state="absent", discard_contents=True)["changed"] is True


DRIVE = {
    "name": "STARWIND RAMDISK",
    "lun": 0,
    "serial": "",
    "unique_id": "RAM-1",
    "size_bytes": 80 << 20,
    "bus": "SCSI",
    "style": "RAW",
    "offline": False,
    "read_only": True,
    "boot": False,
    "system": False,
    "clustered": False,
    "partitions": [],
    "volumes": {},
}


def preinstalled(bench: Bench, drives: dict, **arguments) -> dict:
    with bench.world.open():
        bench.host("client")["disks"].update(copy.deepcopy(drives))
    return bench.run("client", win_ramdisk, provider="preinstalled", **arguments)


def test_preinstalled_disk_gets_an_mbr_and_loses_it_again(bench):
    disks = [{"name": "local", "size_mib": 80, "model": "starwind*"}]
    result = preinstalled(
        bench, {"1": DRIVE, "2": {**DRIVE, "unique_id": "RAM-2", "size_bytes": 90 << 20}}, disks=disks
    )
    assert [step["op"] for step in result["steps"]] == ["writable", "initialize"]
    assert result["layers"][0]["path"] == "\\\\.\\PhysicalDrive1"
    assert result["layers"][0]["identity"] == {"unique_id": "RAM-1"}
    assert bench.host("client")["disks"]["1"]["style"] == "MBR"
    assert bench.run("client", win_ramdisk, provider="preinstalled", disks=disks)["changed"] is False
    assert bench.run("client", win_ramdisk, provider="preinstalled", state="absent")["changed"] is True
    assert bench.host("client")["disks"]["1"]["style"] == "RAW"


RESERVED = {"number": 1, "type": "Reserved", "size_bytes": 16 << 20, "letter": ""}
OTHERS = {"number": 1, "type": "IFS", "size_bytes": 7 << 20, "letter": ""}


@pytest.mark.parametrize(
    ("was", "measured"),
    [
        ({"style": "GPT", "partitions": [RESERVED]}, {}),
        ({"style": "GPT", "partitions": [RESERVED]}, {"style": "RAW"}),
        ({"style": "MBR"}, {"style": "RAW"}),
        ({"style": "MBR"}, {}),
        ({"style": "RAW", "read_only": True}, {"style": "RAW"}),
        ({"style": "MBR", "read_only": True}, {}),
    ],
    ids=["gpt", "gpt, overwritten", "mbr, overwritten", "mbr", "raw and read-only, overwritten", "read-only"],
)
def test_preinstalled_disk_gets_back_what_it_had(bench, was, measured):
    disks = [{"name": "local", "size_mib": 80, "model": "starwind*"}]
    assert not preinstalled(bench, {"1": {**DRIVE, "read_only": False, **was}}, disks=disks).get("failed")
    before = {"partitions": [], "read_only": False, **was}
    with bench.world.open():
        # A raw benchmark begins at the first sector.
        bench.host("client")["disks"]["1"].update(measured)
    told = bench.run("client", win_ramdisk, provider="preinstalled", state="absent", check=True)
    done = bench.run("client", win_ramdisk, provider="preinstalled", state="absent")
    assert told["steps"] == done["steps"]
    found = bench.host("client")["disks"]["1"]
    assert {key: found[key] for key in before} == before
    assert bench.run("client", win_ramdisk, provider="preinstalled", state="absent")["steps"] == []


def test_preinstalled_disk_that_others_use_since_is_not_cleared(bench):
    preinstalled(bench, {"1": DRIVE}, disks=[{"name": "local", "size_mib": 80, "model": "starwind*"}])
    with bench.world.open():
        bench.host("client")["disks"]["1"]["partitions"] = [OTHERS]
    assert code(bench.run("client", win_ramdisk, provider="preinstalled", state="absent")) == "device_partitioned"
    assert bench.host("client")["disks"]["1"]["partitions"] == [OTHERS]


def test_two_preinstalled_disks_are_not_one(bench):
    result = preinstalled(
        bench,
        {"1": DRIVE},
        disks=[{"name": "a", "size_mib": 80, "model": "starwind*"}, {"name": "b", "size_mib": 80, "model": "*RAMDISK"}],
    )
    assert (code(result), bench.host("client")["disks"]["1"]["style"]) == ("bad_value", "RAW")
    assert (
        result["msg"] == "ramdisk_disks b model is '*RAMDISK'. It is disk 1, as that of a is; give each disk one name."
    )


@pytest.mark.parametrize(
    ("drives", "expected"),
    [
        ({}, "device_missing"),
        ({"1": DRIVE, "2": DRIVE}, "device_ambiguous"),
        ({"1": {**DRIVE, "boot": True}}, "disk_boot"),
        # Known by its model and size only, it may be somebody's that is kept offline.
        ({"1": {**DRIVE, "offline": True}}, "disk_offline"),
        ({"1": {**DRIVE, "page_file": True}}, "disk_page_file"),
        ({"1": {**DRIVE, "style": "MBR", "partitions": [OTHERS]}}, "device_partitioned"),
    ],
    ids=["none", "two", "boot", "offline", "page file", "partitioned"],
)
def test_preinstalled_disk_must_be_the_one_and_empty(bench, drives, expected):
    assert (
        code(preinstalled(bench, drives, disks=[{"name": "local", "size_mib": 80, "model": "STARWIND*"}])) == expected
    )


def test_other_testbeds_are_not_seen_and_not_touched(built):
    assert (
        built.run("server", win_ramdisk, testbed_id="t2", disks=[{"name": "bench", "size_mib": 50}])["changed"] is True
    )
    lines = built.run("server", win_state)["storage_state"]
    assert [line for section in lines.values() for line in section if "t2" in line] == []
    assert [line for line in lines["virtual_disks"] if "storlab-t1-bench" in line]
    assert not any(result.get("failed") for result in built.teardown())
    assert set(built.host()["virtual_disks"]) == {"ramdisk:storlab-t2-bench.vhdx"}


def test_a_host_without_server_roles_is_no_target(bench):
    assert code(bench.run("client", win_target_server)) == "not_a_server"


@pytest.mark.parametrize("networks", [["192.0.2.1/24"], ["everywhere"]])
def test_bad_networks_are_refused(bench, networks):
    assert code(bench.run("server", win_target_server, networks=networks)) == "bad_value"


def test_stand_in_says_what_it_is(built):
    assert "stand-in" in built.run("server", win_state)["about"]["product"]
    assert "storage_state" in built.run("server", win_state)


@pytest.mark.parametrize("text", [script_text.script("vdisk_new") + "\n", "# storlab: vdisk_new\nGet-Disk", "Get-Disk"])
def test_stand_in_refuses_scripts_that_are_not_the_collections(bench, text):
    with bench.world.open():
        answer = Host(bench.world, "server").module("ansible.windows.win_powershell", {"script": text}, False)
    assert "does not know this script" in answer["msg"]


def test_host_that_is_not_reached_as_windows_is_refused(bench):
    action = actions.make(win_state, {})
    assert code(action.run(task_vars={"inventory_hostname": "linux01"})) == "not_windows"


def test_missing_collection_is_named(bench):
    action = actions.make(win_state, {}, windows=True)

    def nothing(**_arguments):
        raise AnsibleError("The module ansible.windows.win_powershell was not found in configured module paths.")

    action._execute_module = nothing
    failed = action.run(task_vars={"inventory_hostname": "server"})
    assert code(failed) == "collection_missing"
    assert "ansible-galaxy collection install ansible.windows" in failed["msg"]


@pytest.mark.parametrize(
    "answer", [{"changed": False, "result": {}}, {"changed": False}, {"changed": False, "result": "text"}]
)
def test_answer_that_is_no_state_is_a_clear_failure(bench, monkeypatch, answer):
    monkeypatch.setattr(Host, "module", lambda self, name, arguments, check_mode: answer)
    assert code(bench.run("server", win_state)) == "state_unreadable"


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (win_ramdisk, {"disks": [{"name": "x"}]}),
        (win_ramdisk, {"disks": [{"name": "x", "size_mib": "much"}]}),
        (win_iscsi_target, {"state": "gone"}),
        (win_ramdisk, {"disks": [{"name": "x", "size_mib": 5}, {"name": "x", "size_mib": 6}]}),
        (win_ramdisk, {"disks": [{"name": "x", "size_mib": 5, "model": "A*"}]}),
    ],
)
def test_bad_arguments_are_one_sentence(bench, module, arguments):
    assert code(bench.run("server", module, **arguments)) == "bad_value"


def test_two_sessions_to_one_target_are_two_lines(built):
    before = built.run("client", win_state)["storage_state"]["initiator"]
    with built.world.open():
        sessions = built.host("client")["initiator"]["sessions"]
        [(key, session)] = sessions.items()
        sessions["another"] = {**session, "disks": []}
    after = built.run("client", win_state)["storage_state"]["initiator"]
    assert [line for line in after if line not in before] == [f"session another with {IQN}"]
    assert f"session {key} with {IQN}" in before


def test_virtual_disks_and_targets_tell_whose_they_are(built):
    """Those of the testbed by their stamp; what another testbed's stamp names is not listed, and what has none is nobody's."""
    answer = built.run("server", win_state, testbed_id="t1")
    sections = ("virtual_disks", "targets")
    assert set(answer["ours"]) == set(sections)
    assert all(answer["ours"][name] and answer["ours"][name] == answer["storage_state"][name] for name in sections)
    assert built.run("server", win_state, testbed_id="")["ours"] == {}
    other = built.run("server", win_state, testbed_id="t")
    assert other["ours"] == {"virtual_disks": [], "targets": []}


class PsrpError(Exception):
    """What pypsrp raises is no error of Ansible's."""

    __module__ = "pypsrp.exceptions"


def answered(loss: Exception, module=win_state) -> dict:
    """What a task answers in which a call ends with this error."""
    action = actions.make(module, {"testbed_id": "t1"}, windows=True)

    def lost(**_given):
        raise loss

    action._execute_module = lost
    return action.run(task_vars={"inventory_hostname": "client"})


@pytest.mark.parametrize("loss", [ConnectionResetError(104, "reset by peer"), PsrpError("no such shell")])
def test_a_connection_that_broke_in_a_call_is_named_with_its_host(loss):
    result = answered(loss)
    assert code(result) == "connection_lost"
    assert "client" in result["msg"] and str(loss) in result["msg"]


def test_a_host_that_is_not_reached_is_left_to_ansible_to_name():
    with pytest.raises(AnsibleConnectionFailure):
        answered(AnsibleConnectionFailure("no route"))


def test_a_mistake_is_no_lost_connection():
    with pytest.raises(ZeroDivisionError):
        answered(ZeroDivisionError("a mistake"))


class Silent:
    """An action whose host answers after so many looks, on a clock that only its waiting moves."""

    def __init__(self, bench: Bench, monkeypatch, looks: int, error: Exception, wait_s: float):
        self.now_s, self.looks, self.left, self.resets = 0.0, [], looks, 0
        monkeypatch.setattr(win_state.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(win_state.time, "sleep", self.sleep)
        self.action = actions.make(win_state, {"wait_s": wait_s}, windows=True)
        self.action._connection.reset = self.reset
        self.bench, self.error = bench, error
        self.action._execute_module = self.answer

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def reset(self) -> None:
        self.resets += 1

    def answer(self, module_name: str, module_args: dict, task_vars: dict) -> dict:
        self.looks.append(self.now_s)
        if self.left:
            self.left -= 1
            raise self.error
        with self.bench.world.open():
            return Host(self.bench.world, "server").module(module_name, json.loads(json.dumps(module_args)), False)

    def run(self) -> dict:
        return actions.answer(self.action, {"inventory_hostname": "server"}, self.bench.hosts)


@pytest.mark.parametrize("error", [AnsibleConnectionFailure("no route"), ConnectionResetError(104, "reset")])
def test_windows_that_installs_itself_is_waited_for(bench, monkeypatch, error):
    silent = Silent(bench, monkeypatch, 3, error, wait_s=60)
    assert "storage_state" in silent.run()
    # The third look after the first failed, too; then it is read once more for the answer.
    assert silent.looks == [0, 10, 20, 30, 30] and silent.resets == 3


def test_windows_that_stays_silent_is_a_failure_with_a_limit_and_a_remedy(bench, monkeypatch):
    silent = Silent(bench, monkeypatch, 100, AnsibleConnectionFailure("no route"), wait_s=25)
    result = silent.run()
    assert result["failed"] and result["failure"]["code"] == "windows_silent"
    assert "Windows on server has not answered for 25 s: no route. Look at the console" in result["msg"]
    assert silent.looks == [0, 10, 20, 25]


def test_another_failure_of_the_wait_is_not_waited_out(bench, monkeypatch):
    silent = Silent(bench, monkeypatch, 100, AnsibleError("ansible.windows.win_powershell was not found"), wait_s=25)
    assert silent.run()["failure"]["code"] == "collection_missing" and silent.looks == [0]


def test_a_target_stays_for_a_host_that_was_not_taken_down(built):
    """Its session has ended by itself, as of a host that is cut off; a teardown forgets its layers else."""
    for module in (win_datastore, win_iscsi_session):
        assert built.run("client", module, state="absent")["changed"] is True
    before = copy.deepcopy(built.host("server"))
    refused = built.run("server", win_iscsi_target, state="absent", layers=built.layers)
    assert (code(refused), refused["failure"]["details"]["hosts"]) == ("target_in_use", ["client"])
    assert 'iscsi_target_gone_hosts: ["client"]' in refused["msg"] and built.host("server") == before
    forgotten = {name: layer for name, layer in built.layers.items() if layer["kind"] != "initiator"}
    assert built.run("server", win_iscsi_target, state="absent", layers=forgotten)["changed"] is True
    assert built.host("server")["targets"] == {}
