# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is taken away from Windows hosts, against the stand-in: told of in check mode, complete on a server that was stopped, and beside another testbed."""

# A fixture of another file is used by its name.
# ruff: noqa: F811

from __future__ import annotations

import copy
import json

import pytest
from ansible_collections.storlab.testbed.plugins.action import (
    win_datastore,
    win_iscsi_session,
    win_iscsi_target,
    win_ramdisk,
    win_target_server,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import script_text
from test_windows_actions import CLIENT, IN, IQN, PORTAL, bench, built, code  # noqa: F401
from world import Host

OTHER_IQN = "iqn.2026-11.test.storlab:other"
CHAP = {"chap_user": "user-in", "chap_password": IN}


def ops(result: dict) -> list:
    return [(step["op"], step["target"]) for step in result["steps"]]


def absent(bench, host: str, module, **arguments) -> dict:
    result = bench.run(host, module, state="absent", **arguments)
    assert not result.get("failed"), result
    return result


def log_out(bench) -> None:
    """The client, behind the collection's back."""
    with bench.world.open():
        client = Host(bench.world, "client")
        for number, session in list(bench.host("client")["initiator"]["sessions"].items()):
            for disk in session["disks"]:
                client.script_disk_offline(disk)
            client.script_session_logout(session["iqn"], number)


def test_check_mode_tells_of_what_is_in_use_until_then(built):
    before = copy.deepcopy(built.world.data["hosts"])
    told = [
        absent(built, host, module, check=True)
        for host, module in (("client", win_iscsi_session), ("server", win_iscsi_target), ("server", win_ramdisk))
    ]
    assert built.world.data["hosts"] == before
    done = list(built.teardown())[1:4]
    assert [ops(result) for result in told] == [ops(result) for result in done]
    assert all(ops(result) for result in told)


@pytest.mark.parametrize("mode", ["Auto", "Manual"])
def test_stopped_server_is_started_to_be_emptied(built, mode):
    with built.world.open():
        Host(built.world, "server").module_win_service(
            {"name": "WinTarget", "state": "stopped", "start_mode": mode.lower()}, False
        )
    assert built.host()["targets"]
    log_out(built)
    told = ops(absent(built, "server", win_iscsi_target, check=True))
    assert told[0] == ("service", "WinTarget")
    done = ops(absent(built, "server", win_iscsi_target))
    assert done[0] == ("service", "WinTarget")
    assert {("remove_target", "storlab-t1-box-one"), ("remove_file", "C:\\lab\\file.vhdx")} <= set(done)
    assert (built.host()["targets"], built.host()["files"]) == ({}, [])
    assert ops(absent(built, "server", win_iscsi_target)) == []


def test_file_goes_also_when_the_role_has_gone(built):
    log_out(built)
    with built.world.open():
        Host(built.world, "server").module_win_feature({"name": ["FS-iSCSITarget-Server"], "state": "absent"}, False)
    assert built.host()["files"] == ["C:\\lab\\file.vhdx"]
    assert ops(absent(built, "server", win_iscsi_target)) == [("remove_file", "C:\\lab\\file.vhdx")]
    assert built.host()["files"] == []


def other_testbed(bench, state: str) -> list:
    """What another testbed on the same two hosts makes, or takes away again."""
    target = {
        "name": OTHER_IQN,
        "portals": [PORTAL],
        "luns": [{"lun": 1, "name": "o", "layer": "backing-o"}],
        "initiators": [{"iqn": CLIENT, **CHAP}],
    }
    login = {"iqn": OTHER_IQN, "portal": PORTAL, **CHAP, "luns": [{"lun": 1, "name": "o"}]}
    parts = [
        ("server", win_target_server, {}),
        ("server", win_ramdisk, {"disks": [{"name": "o", "size_mib": 66}]}),
        ("server", win_iscsi_target, {"targets": [target]}),
        ("client", win_iscsi_session, {"targets": [login], "initiator_name": CLIENT, "wait_s": 0}),
    ]
    if state == "absent":
        return [absent(bench, host, module, testbed_id="t2") for host, module, _given in reversed(parts)]
    done = []
    for host, module, given in parts:
        layers = {"layers": bench.layers} if module in (win_iscsi_target, win_iscsi_session) else {}
        done.append(bench.run(host, module, testbed_id="t2", **given, **layers))
        assert not done[-1].get("failed"), done[-1]
    return done


def test_first_of_two_testbeds_gives_back_what_both_used_once_the_other_has_gone(bench):
    before = bench.states()
    assert [result.get("msg") for result in bench.build()] == [None] * 5
    other_testbed(bench, "present")
    assert [result.get("msg") for result in bench.teardown()] == [None] * 5
    # Nothing of the other one was touched, not even where its target can be reached.
    assert [portal["enabled"] for _address, portal in sorted(bench.host()["portals"].items())] == [True, False]
    assert bench.host("client")["services"]["MSiSCSI"]["state"] == "Running"
    # Where the client looks for targets had been the first one's to name.
    assert [ops(result) for result in other_testbed(bench, "present")] == [[], [], [], [("portal", "192.0.2.11:3260")]]
    assert not any(result["changed"] for result in bench.teardown())

    other_testbed(bench, "absent")
    assert bench.states() != before
    assert [result.get("msg") for result in bench.teardown()] == [None] * 5
    assert bench.states() == before
    assert not list((bench.folder / "state" / "windows").iterdir())


@pytest.mark.parametrize("check", [True, False])
def test_lun_that_is_no_longer_wanted_stays_while_somebody_is_logged_in(built, check):
    built.targets[0]["luns"] = [lun for lun in built.targets[0]["luns"] if lun["name"] != "ds1"]
    before = copy.deepcopy(built.world.data["hosts"])
    refused = built.run("server", win_iscsi_target, check=check, targets=built.targets, layers=built.layers)
    assert (code(refused), refused["failure"]["details"]["path"]) == ("target_in_use", "ramdisk:storlab-t1-ds1.vhdx")
    assert built.world.data["hosts"] == before
    log_out(built)
    assert ops(built.run("server", win_iscsi_target, targets=built.targets, layers=built.layers)) == [
        ("unmap", "storlab-t1-box-one LUN 4")
    ]


def test_only_checking_mode_overlooks_who_is_logged_in(built):
    assert code(built.run("server", win_iscsi_target, state="absent")) == "target_in_use"
    assert code(built.run("server", win_ramdisk, state="absent")) == "device_in_use"
    assert code(built.run("client", win_iscsi_session, state="absent")) == "device_in_use"
    # A target that is only no longer wanted is not torn down, so that nobody logs out of it before.
    assert code(built.run("server", win_iscsi_target, check=True, targets=[])) == "target_in_use"


def test_rule_goes_with_the_networks_and_stays_for_who_does_not_speak_of_them(built):
    assert set(built.host()["firewall_rules"]) == {"storlab t1 iSCSI target"}
    # As the role of the RAM disks does, which knows no networks.
    assert ops(built.run("server", win_target_server)) == []
    assert ops(built.run("server", win_target_server, networks=[], check=True)) == [
        ("firewall", "storlab t1 iSCSI target")
    ]
    assert ops(built.run("server", win_target_server, networks=[])) == [("firewall", "storlab t1 iSCSI target")]
    assert built.host()["firewall_rules"] == {}
    assert ops(built.run("server", win_target_server, networks=[])) == []


def session_calls(bench) -> list:
    return [
        call["script"] for call in bench.world.data["calls"] if call["script"] in ("disk_offline", "session_logout")
    ]


def test_disks_are_set_offline_before_their_session_ends(built):
    absent(built, "client", win_datastore)
    online = [
        number
        for session in built.host("client")["initiator"]["sessions"].values()
        for number in session["disks"]
        if not built.host("client")["disks"][str(number)]["offline"]
    ]
    assert len(online) == 2
    done = absent(built, "client", win_iscsi_session)
    assert [(one["op"], one["target"]) for one in done["steps"][:3]] == [
        ("offline", f"disk {online[0]}"),
        ("offline", f"disk {online[1]}"),
        ("logout", IQN),
    ]
    assert session_calls(built) == ["disk_offline", "disk_offline", "session_logout"]
    assert built.host("client")["initiator"]["sessions"] == {}


@pytest.mark.parametrize(("letter", "folders"), [("Q", []), ("", ["C:\\mnt\\data\\"])], ids=["a letter", "a folder"])
def test_session_with_a_mounted_disk_does_not_end_and_its_disks_stay_online(built, letter, folders):
    absent(built, "client", win_datastore)
    with built.world.open():
        client = built.host("client")
        (session,) = client["initiator"]["sessions"].values()
        number = str(session["disks"][1])
        client["disks"][number].update(
            style="GPT",
            partitions=[{"number": 1, "type": "Basic", "size_bytes": 1 << 20, "letter": letter, "folders": folders}],
        )
    before = copy.deepcopy(built.world.data["hosts"])
    refused = built.run("client", win_iscsi_session, state="absent")
    assert (code(refused), refused["failure"]["details"]["mounts"]) == (
        "device_in_use",
        [f"{letter}:"] if letter else folders,
    )
    assert built.world.data["hosts"] == before


def test_another_powershell_on_the_host_is_named_with_its_remedy(bench):
    sentence = "PowerShell 7.6.5 ran this script; Windows PowerShell 5.1 is needed."
    with bench.world.open():
        bench.world.data["faults"].append({"host": "server", "what": "state", "message": sentence, "times": 1})
    before = copy.deepcopy(bench.world.data["hosts"])
    refused = bench.run("server", win_ramdisk, disks=bench.disks)
    assert code(refused) == "powershell_core"
    assert "ansible_psrp_configuration_name" in refused["msg"]
    assert bench.world.data["hosts"] == before
    # The same words stand in the script that says them.
    assert "ran this script; Windows PowerShell 5.1 is needed." in script_text.script("state")


# ---- sessions of others with the same target


@pytest.fixture
def logged_in(built):
    """The chain without its datastore, and another session of the client with the same target, by somebody else: (bench, our id)."""
    absent(built, "client", win_datastore)
    [own] = built.host("client")["initiator"]["sessions"]
    with built.world.open():
        sessions = built.host("client")["initiator"]["sessions"]
        sessions["another"] = {**sessions[own], "disks": []}
    return built, own


def sessions_of(bench) -> set:
    return set(bench.host("client")["initiator"]["sessions"])


def log_in(bench) -> dict:
    return bench.run(
        "client", win_iscsi_session, targets=bench.sessions, layers=bench.layers, initiator_name=CLIENT, wait_s=0
    )


def test_another_session_with_our_target_is_left(logged_in):
    bench, _own = logged_in
    assert log_in(bench)["steps"] == []
    steps = absent(bench, "client", win_iscsi_session)["steps"]
    assert [step["target"] for step in steps if step["op"] == "logout"] == [IQN]
    assert sessions_of(bench) == {"another"}
    # Nor does the service end that it needs.
    assert bench.host("client")["services"]["MSiSCSI"]["state"] == "Running"


def test_another_session_is_left_where_ours_is_gone(logged_in):
    bench, own = logged_in
    with bench.world.open():
        client = Host(bench.world, "client")
        for disk in bench.host("client")["initiator"]["sessions"][own]["disks"]:
            client.script_disk_offline(disk)
        client.script_session_logout(IQN, own)
    assert code(log_in(bench)) == "session_foreign"
    assert not [op for op, _target in ops(absent(bench, "client", win_iscsi_session)) if op == "logout"]
    assert sessions_of(bench) == {"another"}


def record(bench) -> dict:
    return json.loads((bench.folder / "state" / "windows" / "session-t1-client.json").read_text(encoding="utf-8"))


def without_id(bench) -> None:
    """The record as an interrupted login leaves it, and as it was written before ids were recorded."""
    path = bench.folder / "state" / "windows" / "session-t1-client.json"
    path.write_text(json.dumps({**record(bench), "session_ids": {}}), encoding="utf-8")


def test_two_sessions_of_which_none_is_recorded_are_both_left(logged_in):
    bench, own = logged_in
    without_id(bench)
    refused = bench.run("client", win_iscsi_session, state="absent")
    assert (code(refused), set(refused["failure"]["details"]["sessions"])) == ("session_foreign", {own, "another"})
    assert code(log_in(bench)) == "session_foreign"
    assert sessions_of(bench) == {own, "another"}


@pytest.mark.parametrize("again", [True, False], ids=["built again", "taken down at once"])
def test_the_only_session_of_an_interrupted_login_is_ours(built, again):
    absent(built, "client", win_datastore)
    [own] = sessions_of(built)
    assert record(built)["session_ids"] == {IQN: own}
    without_id(built)
    if again:
        assert log_in(built)["steps"] == []
        assert record(built)["session_ids"] == {IQN: own}
    absent(built, "client", win_iscsi_session)
    assert sessions_of(built) == set()


def test_a_session_that_is_made_anew_is_recorded_by_its_new_id(built):
    absent(built, "client", win_datastore)
    first = sessions_of(built)
    log_out(built)
    assert "login" in [step["op"] for step in log_in(built)["steps"]]
    assert {record(built)["session_ids"][IQN]} == sessions_of(built) != first
    absent(built, "client", win_iscsi_session)
    assert sessions_of(built) == set()
