# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The login of a Windows target server to itself, against the stand-in: allowed before RAM disks are made, measured as layer target, given back."""

# A fixture of another file is used by its name.
# ruff: noqa: F811

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.action import (
    win_iscsi_session,
    win_iscsi_target,
    win_ramdisk,
    win_target_server,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import device_safety, target
from test_windows_actions import CLIENT, IN, IQN, NAME, PORTAL, bench, code  # noqa: F401
from world import Host

SERVER = "iqn.1991-05.com.microsoft:server"


@pytest.fixture
def loop(bench):
    """The chain of one server that logs in to itself: run(name) carries out one part of it, build() all of them."""
    bench.disks = bench.disks[:1]
    bench.targets[0]["luns"] = bench.targets[0]["luns"][:1]
    bench.targets[0]["initiators"] = [
        {"iqn": iqn, "chap_user": "user-in", "chap_password": IN} for iqn in (CLIENT, SERVER)
    ]
    session = {
        "iqn": IQN,
        "portal": PORTAL,
        "chap_user": "user-in",
        "chap_password": IN,
        "luns": [{"lun": 2, "name": "bench", "layer_kind": "target", "parent": "backing-bench"}],
    }

    def run(part: str, **arguments) -> dict:
        module, known = {
            "server": (win_target_server, {"loopback": True}),
            "disks": (win_ramdisk, {"disks": bench.disks}),
            "target": (win_iscsi_target, {"targets": bench.targets, "layers": bench.layers}),
            "session": (
                win_iscsi_session,
                {"targets": [session], "layers": bench.layers, "initiator_name": SERVER, "wait_s": 0},
            ),
        }[part]
        return bench.run(
            "server", module, **({**known, **arguments} if arguments.get("state") != "absent" else arguments)
        )

    def build(**arguments) -> list:
        return [run(part, **arguments) for part in ("server", "disks", "server", "target", "session")]

    def teardown() -> list:
        return [run(part, state="absent") for part in ("session", "target", "server", "disks", "server")]

    return SimpleNamespace(
        bench=bench,
        run=run,
        build=build,
        teardown=teardown,
        session=session,
        host=bench.host,
        world=bench.world,
        state=lambda: bench.states()[0],
    )


def ops(result: dict) -> list:
    return [step["op"] for step in result["steps"]]


@pytest.mark.parametrize("reboot", [False, True])
@pytest.mark.parametrize("was", [None, 0])
def test_server_logs_in_to_itself_and_everything_is_given_back(loop, was, reboot):
    with loop.world.open():
        loop.host().update(loopback=was, reboot_after_feature=reboot)
    before = loop.state()
    first = loop.run("server")
    assert ops(first) == (["feature", "loopback"] if reboot else ["feature", "loopback", "restart"])
    if first["reboot_required"]:
        with loop.world.open():
            Host(loop.world, "server").restart()
    results = loop.build()
    assert [result.get("msg") for result in results] == [None] * 5
    [layer] = results[-1]["layers"]
    number = next(int(number) for number, disk in loop.host()["disks"].items() if disk["bus"] == "iSCSI")
    assert (layer["name"], layer["kind"], layer["parent"], layer["path"]) == (
        "target-bench",
        "target",
        "backing-bench",
        f"\\\\.\\PhysicalDrive{number}",
    )
    assert set(layer["identity"]) == {"target_iqn", "lun", "unique_id"}
    assert not any(result["changed"] for result in loop.build())
    assert not any(result.get("failed") for result in loop.teardown())
    assert loop.state() == before
    assert loop.host()["loopback"] == was
    assert list((loop.bench.folder / "state" / "windows").iterdir()) == []


def test_guard_lets_a_benchmark_write_to_the_layer(loop):
    [layer] = loop.build()[-1]["layers"]
    with loop.world.open():
        state = Host(loop.world, "server").state([])
    assert device_safety.judge(state, layer) == ([], [])


def test_running_service_is_restarted_once(loop):
    loop.run("server", loopback=False)
    assert ops(loop.run("server")) == ["loopback", "restart"]
    assert loop.host()["loopback_read"] == 1
    assert loop.run("server")["changed"] is False


def test_restart_that_failed_is_made_up_for(loop):
    loop.run("server", loopback=False)
    with loop.world.open():
        loop.world.data["faults"].append({"host": "server", "what": "win_service", "message": "busy", "times": 1})
    assert code(loop.run("server")) == "restart_failed"
    assert loop.host()["loopback_read"] is None
    assert ops(loop.run("server")) == ["restart"]
    assert loop.host()["loopback_read"] == 1


def test_stopped_service_is_started_and_not_restarted(loop):
    loop.run("server", loopback=False)
    with loop.world.open():
        loop.host()["services"]["WinTarget"]["state"] = "Stopped"
    assert ops(loop.run("server")) == ["loopback", "service"]
    assert loop.host()["loopback_read"] == 1
    assert loop.run("server")["changed"] is False


@pytest.mark.parametrize("who", ["t1", "others"])
def test_ram_disks_of_anybody_are_not_lost(loop, who):
    loop.run("server", loopback=False)
    loop.bench.run("server", win_ramdisk, disks=loop.bench.disks, testbed_id=who)
    before = copy.deepcopy(loop.host())
    refused = loop.run("server")
    assert (code(refused), f"ramdisk:storlab-{who}-bench.vhdx" in refused["msg"]) == ("service_in_use", True)
    assert loop.host() == before


def test_sessions_of_others_are_not_torn(loop):
    loop.run("server", loopback=False)
    with loop.world.open():
        loop.host()["targets"]["theirs"] = {
            "iqn": "iqn.2026-11.test:theirs",
            "description": "",
            "enabled": True,
            "initiators": ["IQN:*"],
            "luns": {},
            "chap": None,
            "reverse_chap": None,
            "sessions": ["iqn.2026-11.test:somebody"],
        }
    refused = loop.run("server")
    assert (code(refused), refused["failure"]["details"]["users"]) == (
        "service_in_use",
        ["the session of iqn.2026-11.test:somebody with theirs"],
    )
    assert loop.host()["loopback"] is None


def test_service_that_others_use_by_now_is_not_restarted_when_the_switch_is_given_back(loop):
    loop.build()
    loop.bench.run("server", win_ramdisk, disks=[{"name": "theirs", "size_mib": 30}], testbed_id="others")
    assert not any(result.get("failed") for result in loop.teardown())
    assert (loop.host()["loopback"], loop.host()["loopback_read"], list(loop.host()["virtual_disks"])) == (
        None,
        1,
        ["ramdisk:storlab-others-theirs.vhdx"],
    )
    # The role came with this testbed, and goes once the others are gone.
    assert loop.host()["feature"] == "Installed"
    loop.bench.run("server", win_ramdisk, state="absent", testbed_id="others")
    assert ops(loop.run("server", state="absent")) == ["feature"]


def test_switch_stays_while_something_of_the_testbed_is_left(loop):
    loop.build()
    loop.run("session", state="absent")
    loop.run("target", state="absent")
    assert loop.run("server", state="absent")["changed"] is False
    assert loop.host()["loopback"] == 1


def test_switch_that_was_on_before_stays_on(loop):
    with loop.world.open():
        loop.host()["loopback"] = 1
    assert ops(loop.run("server")) == ["feature"]
    loop.teardown()
    assert loop.host()["loopback"] == 1


def test_login_to_itself_without_the_switch_is_refused_before_anything_is_changed(loop):
    *results, refused = [loop.run("server", loopback=False), loop.run("disks"), loop.run("target"), loop.run("session")]
    assert not any(result.get("failed") for result in results)
    assert (code(refused), "iscsi_target_windows_loopback" in refused["msg"]) == ("loopback_off", True)
    assert loop.host()["services"]["MSiSCSI"]["state"] == "Stopped"


def test_service_that_has_not_read_the_switch_lets_nobody_in(loop):
    """What the stand-in holds against the collection."""
    for part in ("server", "disks", "target"):
        loop.run(part, **({"loopback": False} if part == "server" else {}))
    with loop.world.open():
        loop.host()["loopback"] = 1
    refused = loop.run("session")
    assert (code(refused), "hidden from login" in refused["msg"]) == ("windows_script_failed", True)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1"])
def test_address_of_the_loopback_interface_is_refused(loop, address):
    loop.session["portal"] = {"address": address, "port": 3260}
    refused = loop.build()[-1]
    assert (code(refused), "the host's network" in refused["msg"]) == ("bad_value", True)


def test_check_mode_tells_of_the_whole_chain_and_changes_nothing(loop):
    before = copy.deepcopy(loop.host())
    results = loop.build(check=True)
    assert [result.get("msg") for result in results] == [None] * 5
    assert ops(results[0]) == ["feature", "loopback"]
    assert loop.host() == before
    assert not (loop.bench.folder / "state").exists()


def test_path_of_an_earlier_login_stays_with_the_export_and_only_with_that_one():
    wanted = [
        {
            "iqn": IQN,
            "portals": [PORTAL],
            "luns": [
                {"lun": 2, "name": "bench", "path": "ramdisk:x", "size_bytes": 5, "parent": None, "purpose": "scratch"}
            ],
        }
    ]
    seen = {
        "target-bench": {"path": "\\\\.\\PhysicalDrive3", "identity": {"target_iqn": IQN, "lun": 2, "unique_id": "U"}}
    }
    [kept] = target.layers_of(wanted, seen)
    assert (kept["path"], kept["identity"]["unique_id"]) == ("\\\\.\\PhysicalDrive3", "U")
    seen["target-bench"]["identity"]["lun"] = 4
    [other] = target.layers_of(wanted, seen)
    assert (other["path"], other["identity"]) == (None, {"target_iqn": IQN, "lun": 2})


def test_client_needs_no_switch(loop):
    results = [loop.run("server", loopback=False), loop.run("disks"), loop.run("target")]
    assert not any(result.get("failed") for result in results)
    sessions = [{**loop.session, "luns": [{"lun": 2, "name": "bench", "parent": "target-bench"}]}]
    joined = loop.bench.run(
        "client", win_iscsi_session, targets=sessions, layers=loop.bench.layers, initiator_name=CLIENT, wait_s=0
    )
    assert joined["layers"][0]["name"] == "initiator-bench"
    assert loop.host()["targets"][NAME]["sessions"] == [CLIENT]
