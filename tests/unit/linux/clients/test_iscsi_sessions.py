# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All sessions of a testbed on one host: what becomes of those that are there when one cannot be logged in, is in use, or is no longer wanted.

The host keeps its records and sessions in memory; plans are open_iscsi's own. Real sessions are in molecule/iscsi.
"""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.iscsi_names import portal_text
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import iscsi_sessions, open_iscsi
from unchanged import refused, unchanged

A, B, NAME = "iqn.2026-11.test:a", "iqn.2026-11.test:b", "iqn.2026-11.test:client"


def place(target: dict) -> tuple:
    return target["iqn"], portal_text(**target["portal"])


class Host:
    """open-iscsi of a host. refuses: {iqn: code that its login fails with}; lost: portals whose disks were given up until a new login."""

    def __init__(self) -> None:
        self.name, self.runs, self.nodes, self.sessions, self.calls = None, False, {}, {}, []
        self.refuses, self.lost, self.busy, self.in_use, self.noted = {}, set(), [], None, {}


class Sessions:
    """What iscsi_sessions asks of OpenIscsi, on such a host."""

    def __init__(self, host: Host, tuning: dict) -> None:
        self.host, self.tuning = host, tuning
        self.record = type("Record", (), {"data": host.noted})

    def empty_records(self) -> list:
        return []

    def iface_name(self):
        return self.host.name

    def daemon_runs(self):
        return self.host.runs

    def records(self) -> list:
        return list(self.host.nodes.values())

    def record_file(self, target):
        # One that cannot be read, as of a host that has none.
        return f"/nonexistent/{place(target)}" if place(target) in self.host.nodes else None

    def current(self, target) -> dict:
        if place(target) not in self.host.sessions:
            state = {"record": None, "session": None, "luns": {}, "in_force": None}
        else:
            settings, depth = self.host.sessions[place(target)], str(self.tuning["queue_depth"])
            state = {
                "record": settings,
                "session": {
                    "sid": "1",
                    "state": "LOGGED_IN",
                    "recovery_tmo": str(self.tuning["replacement_timeout_s"]),
                },
                "luns": {lun["lun"]: {"queue_depth": depth} for lun in target["luns"]},
                "in_force": settings.get(f"{open_iscsi.AUTH}password", "") == (target["chap_password"] or ""),
            }
        return {**state, "multipath": False, "busy": self.host.busy}

    def apply(self, steps, target) -> None:
        for step in steps:
            self.host.calls.append((step["op"], target["iqn"]))
            if step["op"] == "create_record":
                self.host.nodes[place(target)] = {"iqn": target["iqn"], "portal": target["portal"]}
            if step["op"] in ("login", "relogin"):
                if target["iqn"] in self.host.refuses:
                    raise Failure(self.host.refuses[target["iqn"]], f"{target['iqn']} was refused.", "Look.")
                self.host.lost.discard(place(target))
            if step["op"] in ("login", "relogin", "update_record"):
                self.host.sessions[place(target)] = open_iscsi.node_settings(target, self.tuning)

    def offline(self, target) -> bool:
        return place(target) in self.host.lost

    def disks(self, target) -> dict:
        return {
            lun["lun"]: {
                "path": f"/dev/sd{lun['lun']}",
                "serial": f"sn-{lun['lun']}",
                "naa": None,
                "size_bytes": 7 << 20,
            }
            for lun in target["luns"]
        }

    def undo(self, target, before) -> None:
        self.host.calls.append(("undo", target["iqn"]))
        self.host.sessions.pop(place(target), None)
        if before is None:
            self.host.nodes.pop(place(target), None)

    def refuse_used(self, targets) -> None:
        for target in targets:
            if target["iqn"] == self.host.in_use:
                raise Failure("device_in_use", f"{target['iqn']} is mounted.", "Unmount it.")

    def remove(self, targets) -> None:
        for target in targets:
            self.host.calls.append(("remove", target["iqn"]))
            self.host.sessions.pop(place(target), None)
            self.host.nodes.pop(place(target), None)

    def remove_all(self) -> None:
        self.refuse_used(self.records())
        self.remove(self.records())
        self.host.calls.append(("remove_all", ""))
        self.host.name, self.host.runs = None, False

    def prepare(self, name) -> None:
        self.host.calls.append(("prepare", name))
        self.host.name, self.host.runs = name, True

    def join(self, _target, _lun, paths, _steps, _warnings) -> dict:
        return {**paths[0], "paths": [portal_text(**path["portal"]) for path in paths]}

    def seen(self, paths) -> dict:
        return {
            (path["iqn"], lun): disk
            for path in paths
            if place(path) in self.host.sessions
            for lun, disk in self.disks(path).items()
        }


@pytest.fixture
def host(monkeypatch):
    made = Host()
    monkeypatch.setattr(iscsi_sessions, "OpenIscsi", lambda _testbed_id, tuning: Sessions(made, tuning))
    monkeypatch.setattr(iscsi_sessions, "read_text", lambda path: f"record of {path}")
    return made


def target(iqn: str = A, number: int = 3, **more) -> dict:
    lun = {"lun": number, "name": f"l{number}", "layer_kind": "initiator", "parent": None, "purpose": None}
    return {
        "iqn": iqn,
        "portal": {"address": "10.0.0.1", "port": 3260},
        "other_portals": [],
        "luns": [{**lun, "serial": None, "naa": None, "size_bytes": None}],
        **dict.fromkeys(open_iscsi.CHAP),
        **more,
    }


def call(state: str = "present", check_mode: bool = False, warnings: list | None = None, **more) -> dict:
    given = {
        "testbed_id": "tb",
        "state": state,
        "initiator_name": NAME,
        "layers": {},
        **iscsi_sessions.TUNING,
        "targets": [target()],
        **more,
    }
    result = converge(iscsi_sessions.Area, given, check_mode)
    if warnings is not None:
        warnings += result["warnings"]
    return result


def ops(result: dict) -> list:
    return [step["op"] for step in result["steps"]]


def made(host: Host) -> dict:
    """What of a host could change."""
    return {"name": host.name, "runs": host.runs, "nodes": host.nodes, "sessions": host.sessions}


# ---------------------------------------------------------------- in and out


def test_sessions_are_made_once_and_all_of_them_go(host):
    both = {"targets": [target(), target(B, 5)]}
    first = call(**both)
    assert ops(first)[:2] == ["set_initiator_name", "start"] and ("prepare", NAME) in host.calls
    assert [(layer["name"], layer["path"]) for layer in first["layers"]] == [
        ("initiator-l3", "/dev/sd3"),
        ("initiator-l5", "/dev/sd5"),
    ]
    host.calls.clear()
    second = call(**both)
    assert (second["changed"], host.calls) == (False, []) and second["layers"] == first["layers"]
    gone = call("absent")
    assert (gone["changed"], ops(gone), host.sessions) == (True, ["logout", "logout"], {})
    assert call("absent")["changed"] is False


def test_a_lun_with_several_portals_is_one_layer(host):
    result = call(targets=[target(other_portals=[{"address": "10.0.1.1", "port": 3262}])])
    (layer,) = result["layers"]
    assert layer["detail"]["paths"] == ["10.0.0.1:3260", "10.0.1.1:3262"]
    assert len(host.sessions) == 2


def test_check_mode_says_what_would_be_done_and_knows_the_disks_that_are_there(host):
    with unchanged(lambda: made(host), host.calls):
        fresh = call(check_mode=True)
        assert fresh["changed"] and fresh["layers"][0]["path"] is None
    call()
    with unchanged(lambda: made(host), host.calls):
        later = call(check_mode=True, targets=[target(), target(B, 5)])
        assert [layer["path"] for layer in later["layers"]] == ["/dev/sd3", None] and later["changed"]
        assert ops(call("absent", check_mode=True)) == ["logout"]


def test_what_is_no_longer_wanted_goes_and_the_rest_stays(host):
    call(targets=[target(), target(B, 5)])
    host.calls.clear()
    result = call(targets=[target(B, 5)])
    assert (ops(result), host.calls[0]) == (["logout"], ("remove", A))
    assert [iqn for iqn, _portal in host.sessions] == [B]


def test_another_name_needs_new_sessions(host):
    call()
    host.calls.clear()
    renamed = "iqn.2026-11.test:renamed"
    result = call(initiator_name=renamed)
    assert result["steps"][0] == {"op": "set_initiator_name", "target": "", "was": NAME, "will": renamed}
    assert [op for op, _iqn in host.calls] == ["remove", "prepare", "create_record", "login"]
    assert host.name == renamed


@pytest.mark.parametrize("state", ["record", "interface"])
def test_what_is_left_of_a_build_that_was_killed_goes(host, state):
    if state == "record":
        host.noted["folders"] = ["/var/lib/iscsi/nodes"]
    else:
        host.name = NAME
    assert call("absent", check_mode=True)["changed"] is True and ("remove_all", "") not in host.calls
    assert call("absent")["changed"] is True and ("remove_all", "") in host.calls


# ---------------------------------------------------------------- what fails


def test_the_first_login_that_fails_leaves_nothing(host):
    host.refuses[A] = "chap_rejected"
    with refused(lambda: made(host)) as caught:
        call()
    assert caught.value.code == "chap_rejected"
    assert ("undo", A) in host.calls and ("remove_all", "") in host.calls


def test_a_later_login_that_fails_leaves_the_earlier_session(host):
    call()
    host.refuses[B] = "portal_unreachable"
    with refused(lambda: host.sessions) as caught:
        call(targets=[target(), target(B, 5)])
    assert caught.value.code == "portal_unreachable" and ("undo", B) in host.calls
    assert ("undo", A) not in host.calls and ("remove_all", "") not in host.calls
    assert call()["changed"] is False


def test_a_failure_without_a_login_undoes_none(host, monkeypatch):
    call()
    monkeypatch.setattr(Sessions, "disks", _no_disks)
    with refused(lambda: made(host)) as caught:
        call()
    assert caught.value.code == "lun_missing" and ("undo", A) not in host.calls


def _no_disks(_self, target):
    raise Failure("lun_missing", f"{target['iqn']} shows no LUN.", "Look.")


def test_a_disk_that_the_kernel_gave_up_is_logged_in_anew(host):
    call()
    host.calls.clear()
    host.lost.add((A, "10.0.0.1:3260"))
    call()
    assert host.calls == [("relogin", A)] and not host.lost


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize(
    "wanted",
    [{"state": "absent"}, {"targets": [target(B, 5)]}, {"initiator_name": "iqn.2026-11.test:renamed"}],
)
def test_a_session_in_use_is_not_ended(host, wanted, check_mode):
    call()
    host.in_use = A
    with refused(lambda: made(host)) as caught:
        call(check_mode=check_mode, **wanted)
    assert caught.value.code == "device_in_use"


def test_a_login_with_another_secret_that_fails_leaves_the_record(host):
    call()
    host.refuses[A] = "chap_rejected"
    with refused(lambda: host.nodes) as caught:
        call(targets=[target(chap_user="u7", chap_password="secret-one-11")])
    assert caught.value.code == "chap_rejected" and ("undo", A) in host.calls
    assert ("remove_all", "") not in host.calls


def test_what_changes_under_a_session_in_use_is_told(host):
    call()
    host.busy = ["mounted on /srv/x"]
    warnings = []
    call(warnings=warnings, noop_timeout_s=9)
    assert len(warnings) == 1 and A in warnings[0] and "at its next login" in warnings[0]
    host.busy, warnings = [], []
    call(warnings=warnings, noop_timeout_s=8)
    assert warnings == []


@pytest.mark.parametrize(
    ("change", "variable"),
    [
        ({"queue_depth": 0}, "iscsi_initiator_queue_depth"),
        ({"login_timeout_s": 0}, "iscsi_initiator_login_timeout_s"),
        ({"initiator_name": "client"}, "iscsi_initiator_name"),
        ({"targets": [target("a")]}, "iscsi_initiator_targets iqn"),
        ({"targets": [target(chap_user="u7")]}, f"iscsi_initiator_targets {A}"),
        ({"targets": [target(portal={"address": "10.0.0", "port": 1})]}, f"iscsi_initiator_targets {A} portal"),
        (
            {"targets": [target(other_portals=[{"address": "nowhere/", "port": 1}])]},
            f"iscsi_initiator_targets {A} portal",
        ),
        ({"testbed_id": "../x"}, "iscsi_initiator_testbed_id"),
    ],
)
def test_what_cannot_be_is_refused_by_the_variables_name(host, change, variable):
    with refused(host.calls) as caught:
        call(**change)
    assert caught.value.code == "bad_value" and caught.value.details["variable"].startswith(variable)
