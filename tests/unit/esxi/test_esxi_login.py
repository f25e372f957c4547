# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's iSCSI adapter that is logged in and given back, and what is left on the host and in the record when a step of it fails.

The host is its state, which each step changes as the adapter would. The calls are tried in tests/integration/test_esxi_storage_simulated.py.
"""

from __future__ import annotations

import contextlib
import copy
import json
from functools import partial
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.iscsi_names import portal_text
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import adapter, adapter_plan, login
from test_esxi_iscsi import FRESH as UNTOUCHED
from test_esxi_iscsi import IQN, NAME, OTHER
from unchanged import broken_off, refused, unchanged

FRESH = {
    **UNTOUCHED,
    "host_options": {"ISCSI.MaxIoSizeKB": 128, "Disk.QFullSampleSize": 0},
    "module_options": "iscsivmk_HostQDepth=500",
    "boot_time": "2026-11-20T08:00:00+00:00",
}
ADAPTERS = {"device": "vmhba65", "iqn": "iqn.1998-01.com.vmware:esx7", "options": {"DelayedAck": True}}
SECRET = "secret-one-11"


class Host:
    """An adapter by its state. faults: {step: the failure that it ends with, once}; deaf: steps that show no effect."""

    name = "esx7"

    def __init__(self) -> None:
        self.state, self.done, self.faults, self.deaf = copy.deepcopy(FRESH), [], {}, set()
        self.exports = {IQN: [3], OTHER: [5]}
        self.rescans_late = 0
        self.datastores, self.mapped = {}, {}

    def read(self, keys) -> dict:
        state = copy.deepcopy(self.state)
        state["host_options"] = {key: value for key, value in state["host_options"].items() if key in keys}
        return state

    def apply(self, step: dict) -> None:
        op = step["op"]
        if op in self.faults:
            raise self.faults.pop(op)
        if op not in adapter_plan.LOOKING:
            self.done.append(op)
        if op not in self.deaf:
            # A host has a name besides the step that gives its adapter one.
            getattr(self, "name_adapter" if op == "name" else op)(step, step["target"])

    def enable(self, _step, _target) -> None:
        self.state.update(copy.deepcopy({**ADAPTERS, "enabled": True}))

    def disable(self, _step, _target) -> None:
        self.state.update(copy.deepcopy({key: FRESH[key] for key in (*ADAPTERS, "enabled", "alias")}))

    def name_adapter(self, step, _target) -> None:
        self.state["iqn"] = step["will"]

    def alias(self, step, _target) -> None:
        self.state["alias"] = step["will"]

    def options(self, step, _target) -> None:
        self.state["options"].update(step["will"])

    def host_option(self, step, target) -> None:
        self.state["host_options"][target] = step["will"]

    def queue_depth(self, step, _target) -> None:
        self.state["module_options"] = step["will"]

    def bind(self, _step, target) -> None:
        self.state["bound"].append(target)

    def unbind(self, _step, target) -> None:
        self.state["bound"].remove(target)

    def add_target(self, step, _target) -> None:
        entry = {key: step["entry"][key] for key in ("method", "address", "port", "iqn")}
        self.state["targets"].append({**entry, "discovered": False, "parent": "vmhba65", "chap": None})

    def remove_target(self, _step, target) -> None:
        self.state["targets"] = [each for each in self.state["targets"] if adapter_plan.entry_key(each) != target]

    def chap(self, step, target) -> None:
        entry = step["entry"]
        names = {"name": entry["chap_user"], "mutual_name": entry["mutual_chap_user"]} if entry["chap_user"] else None
        if target == adapter_plan.ADAPTER:
            self.state["chap"] = names
        for each in self.state["targets"]:
            if adapter_plan.entry_key(each) == target:
                each["chap"] = names

    chap_found = chap

    def discover(self, _step, _target) -> None:
        known = {adapter_plan.entry_key(each) for each in self.state["targets"]}
        for send in [each for each in self.state["targets"] if each["method"] == "send"]:
            for iqn in self.exports:
                entry = {"method": "static", "address": send["address"], "port": send["port"], "iqn": iqn}
                if adapter_plan.entry_key(entry) not in known:
                    parent = portal_text(send["address"], send["port"])
                    self.state["targets"].append({**entry, "discovered": True, "parent": parent, "chap": None})

    def rescan(self, _step, _target) -> None:
        if self.rescans_late:
            self.rescans_late -= 1
            return
        self.state["luns"] = [
            {
                "iqn": each["iqn"],
                "lun": lun,
                "naa": f"6001405{lun}",
                "name": f"naa.6001405{lun}",
                "serial": f"sn-{lun}",
                "size_bytes": lun << 30,
                "device": f"/d{lun}",
                "uuid": f"02{lun}",
                "datastores": self.datastores.get(lun, []),
                "state": "ok",
            }
            for each in self.state["targets"]
            if each["method"] == "static"
            for lun in self.exports.get(each["iqn"], [])
        ]

    end_sessions = rescan


class Adapter:
    """Carries steps out on the host's state, in place of the calls."""

    def __init__(self, _session, host, _wait_s, known) -> None:
        self.host, self.known = host, known or "vmhba65"

    def apply(self, step) -> None:
        self.host.apply(step)

    def wait(self, targets) -> list:
        lost = adapter_plan.missing(self.host.state["luns"], targets)
        if lost:
            raise adapter.lun_missing(lost, self.host.state["luns"])
        return copy.deepcopy(self.host.state["luns"])


@pytest.fixture
def host(monkeypatch):
    made = Host()
    monkeypatch.setattr(login, "read", lambda _session, host, keys: host.read(keys))
    monkeypatch.setattr(login, "Adapter", Adapter)
    limits = {"ISCSI.MaxIoSizeKB": {"read_only": False, "min": 128, "max": 512, "at_start": True}}
    monkeypatch.setattr(
        login, "host_limits", lambda _session, _host, keys: {key: limits[key] for key in keys if key in limits}
    )
    monkeypatch.setattr(login, "mapped", lambda session: session.here.mapped)
    monkeypatch.setattr(login, "RESCAN_EVERY_S", 0)
    monkeypatch.setattr(login.network, "devices_of", lambda _session, _host, names: names)
    return made


class Session:
    def __init__(self, host) -> None:
        self.here = host

    def host(self):
        return self.here

    def doing(self, _what):
        return contextlib.nullcontext()

    def until(self, look, done, _timeout_s):
        """As often as a host that is late may need."""
        for _attempt in range(3):
            seen = look()
            if done(seen):
                break
        return seen


def lun(number: int, **more) -> dict:
    return {
        "lun": number,
        "name": f"l{number}",
        "parent": None,
        "purpose": None,
        "serial": f"sn-{number}",
        "naa": None,
        "size_bytes": number << 30,
        **more,
    }


def target(iqn: str = IQN, number: int = 3, **more) -> dict:
    return {
        "iqn": iqn,
        "portal": {"address": "10.0.0.1", "port": 3260},
        "discovery": "static",
        "discovery_chap": False,
        "chap_user": "u7",
        "chap_password": SECRET,
        "mutual_chap_user": None,
        "mutual_chap_password": None,
        "luns": [lun(number)],
        **more,
    }


WHOLE = {
    "options": {"DelayedAck": False},
    "host_options": {"ISCSI.MaxIoSizeKB": 512, "Disk.QFullSampleSize": 32},
    "queue_depth": 64,
    "port_binding": ["vmk3"],
    "targets": [target()],
}


@pytest.fixture
def call(host, tmp_path):
    def run(state: str = "present", check_mode: bool = False, **more) -> dict:
        given = {
            "testbed_id": "mine",
            "state": state,
            "state_dir": str(tmp_path),
            "initiator_name": NAME,
            "layers": {},
            "options": {},
            "host_options": {},
            "queue_depth": None,
            "port_binding": [],
            "adapter_chap": None,
            "wait_s": 0,
            "targets": [target()],
            **more,
        }
        return converge(partial(login.Area, Session(host)), given, check_mode)

    return run


@pytest.fixture
def record(tmp_path):
    """The testbed's record of the host; None when there is none."""

    def read() -> dict | None:
        path = Path(tmp_path, "esxi", "iscsi-mine-esx7.json")
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    return read


def refusal(code: str = "refused") -> Failure:
    return Failure(code, f"It ended with {code}.", "Run again.")


def ops(result: dict) -> list:
    return [step["op"] for step in result["steps"]]


# ---------------------------------------------------------------- in and out


def test_what_was_built_is_left_alone_and_all_of_it_is_given_back(host, call, record):
    built = call(**WHOLE)
    assert built["changed"] and [layer["name"] for layer in built["layers"]] == ["initiator-l3"]
    assert (host.state["iqn"], host.state["alias"], host.state["bound"]) == (NAME, "storlab-mine", ["vmk3"])
    assert host.state["module_options"].split() == ["iscsivmk_HostQDepth=500", "iscsivmk_LunQDepth=64"]
    assert SECRET not in json.dumps(record())
    assert call(**WHOLE)["changed"] is False
    # Two options hold from the next start of the host on, and what is measured until then says so.
    assert built["reboot_required"] is True
    (layer,) = call(**WHOLE)["layers"]
    assert "ISCSI.MaxIoSizeKB: 512 is configured, 128 holds" in layer["detail"]["restart_pending"]
    given_back = call("absent")
    assert (host.state, record()) == (FRESH, None)
    assert given_back["reboot_required"] is False
    assert call("absent")["changed"] is False


@pytest.mark.parametrize("check_mode", [True, False])
def test_what_a_start_of_the_host_has_put_in_force_needs_another_one_to_go(host, call, check_mode):
    call(**WHOLE)
    host.state["boot_time"] = "2026-11-20T09:30:00+00:00"
    built = call(**WHOLE)
    assert (built["changed"], built["reboot_required"]) == (False, False)
    gone = call("absent", check_mode)
    # Check mode tells what the teardown would.
    assert gone["reboot_required"] is True
    waiting = {item["option"]: (item["running"], item["configured"]) for item in gone["restart_pending"]}
    assert waiting["ISCSI.MaxIoSizeKB"] == (512, 128)


def test_an_option_that_holds_at_once_needs_no_restart(host, call):
    built = call(host_options={"Disk.QFullSampleSize": 16})
    assert (built["reboot_required"], host.state["host_options"]["Disk.QFullSampleSize"]) == (False, 16)
    assert "restart_pending" not in built["layers"][0]["detail"]


def test_what_is_found_by_asking_a_portal_goes_with_all_that_it_told_of(host, call, record):
    asked = {"targets": [target(discovery="dynamic")]}
    call(**asked)
    static = f"static {portal_text('10.0.0.1', 3260)}"
    assert {adapter_plan.entry_key(each) for each in host.state["targets"] if each["discovered"]} == {
        f"{static} {IQN}",
        f"{static} {OTHER}",
    }
    assert list(record()["secrets"]) == [f"{static} {IQN}"]
    assert call(**asked)["changed"] is False
    call("absent")
    assert (host.state, record()) == (FRESH, None)


def test_an_adapter_that_was_in_use_keeps_what_others_have(host, call):
    host.enable(None, None)
    host.state["alias"] = "theirs"
    host.state["iqn"] = NAME
    host.state["targets"] = [
        {"method": "static", "address": "10.9.9.9", "port": 3260, "iqn": "iqn.t:z", "discovered": False, "chap": None}
    ]
    before = copy.deepcopy(host.state)
    call(options={"DelayedAck": False})
    assert "name" not in host.done
    call("absent")
    assert host.state == {**before, "luns": []}


def array(address: str, iqn: str) -> list:
    """What an administrator adds for an array of his, and what its portal reports."""
    portal = portal_text(address, 3260)
    entry = {"address": address, "port": 3260, "chap": None}
    return [
        {**entry, "method": "send", "iqn": None, "discovered": False, "parent": "vmhba65"},
        {**entry, "method": "static", "iqn": iqn, "discovered": True, "parent": portal},
    ]


def test_an_array_that_was_added_later_keeps_its_targets_and_the_adapter_as_it_knows_it(host, call, record):
    call(**WHOLE)
    theirs = array("10.9.9.9", "iqn.2010-06.test:array")
    host.state["targets"] += theirs
    foreseen = call("absent", check_mode=True)
    result = call("absent")
    assert foreseen["kept_for_others"] == result["kept_for_others"] and foreseen["steps"] == result["steps"]
    assert host.state["targets"] == theirs and host.state["enabled"] is True
    assert (host.state["iqn"], host.state["alias"], host.state["bound"]) == (NAME, "storlab-mine", ["vmk3"])
    assert host.state["options"] == {"DelayedAck": False}
    assert host.state["host_options"] == FRESH["host_options"]
    assert [item["setting"] for item in result["kept_for_others"]] == [
        "option DelayedAck", "name", "alias", "bound vmk3", "adapter",
    ]  # fmt: skip
    (warning,) = result["warnings"]
    assert "send 10.9.9.9:3260" in warning and "name" in warning and "Run teardown again" in warning
    # Once more, while they are there, nothing changes; and when they are gone all of it is given back.
    again = call("absent")
    assert (again["changed"], again["kept_for_others"]) == (False, result["kept_for_others"])
    host.state["targets"], host.state["luns"] = [], []
    last = call("absent")
    assert (last["kept_for_others"], last["warnings"]) == ([], [])
    assert (host.state, record()) == (FRESH, None)


def test_a_build_after_a_teardown_that_kept_something_still_knows_what_was_there_before(host, call, record):
    call(**WHOLE)
    host.state["targets"] += array("10.9.9.9", "iqn.2010-06.test:array")
    call("absent")
    assert call(**WHOLE)["changed"] is True and call(**WHOLE)["changed"] is False
    host.state["targets"] = [each for each in host.state["targets"] if each["address"] != "10.9.9.9"]
    assert call("absent")["kept_for_others"] == []
    assert (host.state, record()) == (FRESH, None)


SECOND = {"testbed_id": "second", "targets": [target(OTHER, 5, portal={"address": "10.0.0.2", "port": 3260})]}


@pytest.mark.parametrize("order", [("mine", "second"), ("second", "mine")])
def test_two_testbeds_that_share_a_name_are_taken_down_in_either_order(host, call, order):
    call()
    call(**SECOND)
    both = copy.deepcopy(host.state)
    assert (call()["changed"], call(**SECOND)["changed"], host.state) == (False, False, both)
    for testbed in (*order, *order):
        call("absent", testbed_id=testbed)
    assert host.state == FRESH


def test_a_second_testbed_of_another_name_changes_nothing(host, call, record):
    call()
    kept = record()
    for check_mode in (True, False):
        with refused(host.done, lambda: host.state) as caught:
            call(check_mode=check_mode, initiator_name="iqn.2026-11.test:esx-2", **SECOND)
        assert caught.value.code == "adapter_in_use" and caught.value.details["testbeds"] == ["mine", "second"]
    assert record() == kept


def test_a_lun_under_a_datastore_is_not_taken_from_the_host(host, call, record):
    call()
    host.datastores, kept = {3: ["theirs"]}, record()
    host.rescan(None, None)
    for state, more in (("absent", {}), ("present", {"targets": []})):
        with refused(host.done, lambda: host.state) as caught:
            call(state, **more)
        assert caught.value.code == "in_use" and "theirs" in str(caught.value) and record() == kept
    # Nothing is unmounted yet in check mode.
    assert call("absent", check_mode=True)["changed"] is True
    host.datastores, host.mapped = {}, {"023": ["vm7"]}
    host.rescan(None, None)
    with refused(host.done, lambda: host.state) as caught:
        call("absent")
    assert "vm7" in str(caught.value)
    host.mapped = {}
    call("absent")
    assert (host.state, record()) == (FRESH, None)


def test_check_mode_says_all_of_it_and_does_nothing(host, call, record):
    with unchanged(host.done, lambda: host.state):
        result = call(check_mode=True, **WHOLE)
        assert call("absent", check_mode=True)["changed"] is False
    assert result["changed"] and result["reboot_required"] and result["layers"][0]["path"] is None
    assert record() is None
    call(**WHOLE)
    done = list(host.done)
    assert "disable" in ops(call("absent", check_mode=True)) and host.done == done and record() is not None


# ---------------------------------------------------------------- refused


def test_a_target_that_others_configured_is_not_taken(host, call, record):
    host.enable(None, None)
    host.state["iqn"] = NAME
    entry = {"method": "static", "address": "10.0.0.1", "port": 3260, "iqn": IQN}
    host.state["targets"] = [{**entry, "discovered": False, "chap": None}]
    with refused(host.done, lambda: host.state) as caught:
        call()
    assert (caught.value.code, record()) == ("target_foreign", None)
    # One that a portal told of is nobody's.
    host.state["targets"][0]["discovered"] = True
    assert call()["changed"] is True


@pytest.mark.parametrize(
    ("change", "variable"),
    [
        ({"queue_depth": 0}, "iscsi_initiator_queue_depth"),
        ({"queue_depth": 256}, "iscsi_initiator_queue_depth"),
        ({"initiator_name": "esx7"}, "iscsi_initiator_name"),
        ({"targets": [target(iqn="a")]}, "iscsi_initiator_targets iqn"),
        ({"targets": [target(portal={"address": "10.0.0", "port": 1})]}, f"iscsi_initiator_targets {IQN} portal"),
        ({"targets": [target(chap_password=None)]}, f"iscsi_initiator_targets {IQN}"),
        (
            {"adapter_chap": dict.fromkeys(("chap_user", "mutual_chap_user", "mutual_chap_password"), None)},
            "iscsi_initiator_esxi_adapter_chap",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_the_variables_name(host, call, change, variable):
    if "adapter_chap" in change:
        change["adapter_chap"]["chap_password"] = None
    with refused(host.done) as caught:
        call(**change)
    assert caught.value.code == "bad_value" and caught.value.details["variable"].startswith(variable)


@pytest.mark.parametrize("depth", [1, 255])
def test_the_least_and_the_greatest_queue_are_taken(host, call, depth):
    call(queue_depth=depth)
    assert f"iscsivmk_LunQDepth={depth}" in host.state["module_options"]


# ---------------------------------------------------------------- what fails

FIRST = ["enable", "name", "alias", "options", "host_option", "queue_depth", "bind", "add_target", "chap", "rescan"]


@pytest.mark.parametrize("op", FIRST)
def test_a_step_that_fails_leaves_the_host_as_it_was(host, call, record, op):
    host.faults[op] = refusal()
    with broken_off(match="It ended with refused"):
        call(**WHOLE)
    assert (host.state, record()) == (FRESH, None)


@pytest.mark.parametrize("op", FIRST)
@pytest.mark.parametrize("code", ["connection_lost", "session_lost"])
def test_a_step_whose_outcome_nobody_knows_is_gone_on_from(host, call, record, op, code):
    host.faults[op] = refusal(code)
    with broken_off() as caught:
        call(**WHOLE)
    assert caught.value.code == code and record()["before"]["enabled"] is False
    # Nothing was undone over a line that is lost.
    assert not {"disable", "unbind", "remove_target"} & set(host.done)
    assert call(**WHOLE)["layers"][0]["name"] == "initiator-l3"
    call("absent")
    assert (host.state, record()) == (FRESH, None)


def test_a_lun_that_does_not_come_is_the_failure_that_is_told(host, call, record):
    host.exports[IQN] = [4]
    with broken_off() as caught:
        call(**WHOLE)
    assert caught.value.code == "lun_missing" and "LUN 4" in str(caught.value)
    assert (host.state, record()) == (FRESH, None)


def test_what_cannot_be_undone_now_is_undone_by_the_teardown(host, call, record):
    host.exports[IQN] = []
    host.faults["unbind"] = refusal("in_use")
    with broken_off() as caught:
        call(**WHOLE)
    # The first failure is the one to hear of.
    assert caught.value.code == "lun_missing"
    assert host.state["bound"] == ["vmk3"] and record()["bound"] == ["vmk3"]
    call("absent")
    assert (host.state, record()) == (FRESH, None)


def test_a_later_build_that_fails_leaves_the_earlier_one(host, call, record):
    call(**WHOLE)
    kept, there = record(), copy.deepcopy(host.state)
    host.exports[OTHER] = []
    with broken_off() as caught:
        call(**{**WHOLE, "port_binding": ["vmk3", "vmk4"], "targets": [target(), target(OTHER, 5)]})
    assert caught.value.code == "lun_missing"
    assert (record(), host.state) == (kept, there)
    assert call(**WHOLE)["changed"] is False
    call("absent")
    assert host.state == FRESH


def test_a_secret_that_was_being_changed_is_not_believed(host, call, record):
    call()
    host.faults["rescan"] = refusal()
    changed = {"targets": [target(chap_password="secret-two-22")]}
    with broken_off():
        call(**changed)
    assert record()["secrets"] == {}
    # Both are set again, whichever the host has.
    assert [op for op in ops(call()) if op not in adapter_plan.LOOKING] == ["chap"]


@pytest.mark.parametrize("op", ["alias", "options", "host_option"])
def test_a_change_that_the_host_never_shows_is_named(host, call, record, op):
    host.deaf.add(op)
    with broken_off() as caught:
        call(**WHOLE)
    assert caught.value.code == "change_unseen" and f"it was made: {op}" in str(caught.value)
    assert (host.state["targets"], record()) == ([], None)


def test_devices_that_go_with_a_later_rescan_are_waited_for(host, call, monkeypatch):
    call(**WHOLE)
    monkeypatch.setattr(login.time, "monotonic", lambda: 0.0)
    host.rescans_late = 2
    call("absent")
    assert (host.rescans_late, host.state) == (0, FRESH)


def test_the_adapters_own_chap_is_given_back(host, call, record):
    chap = {"chap_user": "a7", "chap_password": "secret-own-33", "mutual_chap_user": None, "mutual_chap_password": None}
    wanted = {"adapter_chap": chap, "targets": [target(chap_user=None, chap_password=None)]}
    call(**wanted)
    assert host.state["chap"] == {"name": "a7", "mutual_name": ""} and call(**wanted)["changed"] is False
    assert "secret-own-33" not in json.dumps(record())
    call("absent")
    assert (host.state, record()) == (FRESH, None)


def test_a_lun_with_a_path_down_is_taken_told_and_marked_until_it_is_whole(host, call, monkeypatch):
    call()
    whole = Host.rescan

    def rescan(self, step, target) -> None:
        whole(self, step, target)
        for each in self.state["luns"]:
            each.update(state="ok,degraded", ways={"active": 1, "dead": 1})

    monkeypatch.setattr(Host, "rescan", rescan)
    result = call()
    assert result["changed"] is False
    (layer,) = result["layers"]
    assert layer["detail"]["paths_degraded"] == "paths: 1 active, 1 dead"
    (warning,) = result["warnings"]
    assert f"LUN 3 of {IQN}" in warning and "1 dead" in warning
    monkeypatch.setattr(Host, "rescan", whole)
    result = call()
    assert (result["warnings"], "paths_degraded" in result["layers"][0]["detail"]) == ([], False)


def test_a_target_is_found_in_whatever_case_its_portal_writes_it(host, call, record):
    as_reported, as_given = "iqn.2000-01.test:Lab.Target-1", "iqn.2000-01.test:lab.target-1"
    host.exports = {as_reported: [3]}
    wanted = {"targets": [target(iqn=as_given, discovery="dynamic")], "initiator_name": "iqn.1998-01.test:ESX7"}
    built = call(**wanted)
    assert [layer["identity"]["target_iqn"] for layer in built["layers"]] == [as_given]
    assert [each["iqn"] for each in host.state["targets"] if each["discovered"]] == [as_reported]
    assert call(**wanted)["changed"] is False
    assert call(**{**wanted, "initiator_name": "iqn.1998-01.test:esx7"})["changed"] is False
    call("absent")
    assert (host.state, record()) == (FRESH, None)


def test_a_serial_that_the_host_writes_in_another_way_is_told(host, call):
    layers = {
        "target-l3": {
            "identity": {"target_iqn": IQN, "lun": 3, "naa": "60014053", "serial": "elsewhere"},
            "size_bytes": 3 << 30,
        }
    }
    result = call(layers=layers, targets=[target(luns=[lun(3, serial=None, size_bytes=None)])])
    assert len(result["warnings"]) == 1 and "elsewhere" in result["warnings"][0]
    assert call()["warnings"] == []
