# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is planned for the power policy and the clock of an ESXi host, from states as plain data."""

from __future__ import annotations

import contextlib
import json
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import settings

STOPPED, RUNNING = {"running": False, "policy": "off"}, {"running": True, "policy": "on"}
STATE = {
    "host": "esx7",
    "power_policy": "balanced",
    "power_policies": ["high-performance", "balanced", "low-power"],
    "ntp_servers": ["192.0.2.1"],
    "ntp_service": STOPPED,
}
WANT = {"power_policy": "high-performance", "ntp_servers": ["192.0.2.5", "192.0.2.6"]}


def steps(state, want, kept, others=None) -> list:
    plan = settings.plan(state, want, kept, others or {})
    return [(step["op"], step["kind"], step["value"]) for step in plan]


def after(state, want, kept) -> tuple[dict, dict]:
    """(state, record) once the plan is carried out and confirmed."""
    plan = settings.plan(state, want, kept, {})
    kept = settings.noted(state, kept, plan)
    state = {**state, **{step["kind"]: step["value"] for step in plan}}
    return state, settings.confirmed(state, want, kept)


def test_what_is_wanted_is_set_once_and_given_back():
    assert steps(STATE, WANT, {}) == [
        ("update", "power_policy", "high-performance"),
        ("update", "ntp_servers", ["192.0.2.5", "192.0.2.6"]),
        ("update", "ntp_service", RUNNING),
    ]
    state, kept = after(STATE, WANT, {})
    assert steps(state, WANT, kept) == []
    assert steps(state, {}, kept) == [
        ("update", "power_policy", "balanced"),
        ("update", "ntp_servers", ["192.0.2.1"]),
        ("update", "ntp_service", STOPPED),
    ]
    assert after(state, {}, kept) == (STATE, {})


def test_what_is_as_wanted_already_is_nobodys():
    state, kept = after(STATE, {"power_policy": "balanced"}, {})
    assert (state, kept) == (STATE, {})
    # Somebody changes it then: that is none of the testbed's business.
    assert steps({**STATE, "power_policy": "low-power"}, {}, kept) == []


def test_a_description_that_changes_keeps_what_was_there_first():
    state, kept = after(STATE, {"power_policy": "high-performance"}, {})
    state, kept = after(state, {"power_policy": "low-power"}, kept)
    assert kept["power_policy"] == {"was": "balanced", "ours": ["low-power"], "done": True}
    assert steps(state, {}, kept) == [("update", "power_policy", "balanced")]


def test_a_change_that_broke_off_is_known_by_either_value():
    state, kept = after(STATE, {"power_policy": "high-performance"}, {})
    noted = settings.noted(state, kept, settings.plan(state, {"power_policy": "low-power"}, kept, {}))
    for policy in ("high-performance", "low-power"):
        assert steps({**state, "power_policy": policy}, {}, noted) == [("update", "power_policy", "balanced")]
    assert steps({**state, "power_policy": "balanced"}, {}, noted) == []


def test_a_service_that_is_set_by_halves_is_given_back_whole():
    state, want = {**STATE, "ntp_servers": ["192.0.2.5"]}, {"ntp_servers": ["192.0.2.5"]}
    noted = settings.noted(state, {}, settings.plan(state, want, {}, {}))
    state["ntp_service"] = {"running": False, "policy": "on"}
    assert steps(state, {}, noted) == [("update", "ntp_service", STOPPED)]
    state, kept = after(state, want, noted)
    assert (state["ntp_service"], kept["ntp_service"]["was"]) == (RUNNING, STOPPED)


def test_what_somebody_has_changed_since_is_left_and_told():
    state, kept = after(STATE, WANT, {})
    state = {**state, "ntp_servers": ["192.0.2.99"]}
    # The service is needed by the servers that stay.
    assert steps(state, {}, kept) == [("update", "power_policy", "balanced")]
    (warning,) = settings.warnings(state, {}, kept)
    assert all(text in warning for text in ("esx7", "192.0.2.99", "192.0.2.5, 192.0.2.6", "192.0.2.1"))
    # A build sets it anew, and that is then what was there before.
    state, kept = after(state, WANT, kept)
    assert kept["ntp_servers"]["was"] == ["192.0.2.99"]


def test_a_service_that_runs_reads_new_servers_when_it_starts_anew():
    want = {"ntp_servers": ["192.0.2.5"]}
    state = {**STATE, "ntp_service": {"running": True, "policy": "automatic"}}
    plan = settings.plan(state, want, {}, {})
    assert [(step["op"], step["arguments"].get("act")) for step in plan] == [("update", None), ("restart", "restart")]
    # It broke off between the two.
    noted = settings.noted(state, {}, plan)
    assert set(noted) == {"ntp_servers"}
    assert [step["op"] for step in settings.plan({**state, **want}, want, noted, {})] == ["restart"]
    state, kept = after(state, want, {})
    assert steps(state, want, kept) == []
    assert [step["op"] for step in settings.plan(state, {}, kept, {})] == ["update", "restart"]


def test_no_servers_are_given_back_by_naming_those_to_remove():
    """The module takes an empty list for nothing to do."""
    state, kept = after({**STATE, "ntp_servers": []}, {"ntp_servers": ["192.0.2.5"]}, {})
    step = settings.plan(state, {}, kept, {})[0]
    assert step["arguments"] == {"esxi_hostname": "esx7", "ntp_servers": ["192.0.2.5"], "state": "absent"}
    assert settings.plan(STATE, WANT, {}, {})[1]["arguments"].get("state") is None


def test_what_another_testbed_has_set_is_shared_or_refused():
    with pytest.raises(Failure) as raised:
        settings.plan(STATE, WANT, {}, {"power_policy": "tb-other"})
    assert raised.value.code == "setting_foreign" and "tb-other" in raised.value.what
    assert settings.plan(STATE, {"power_policy": "balanced"}, {}, {"power_policy": "tb-other"}) == []


@pytest.mark.parametrize(
    ("changes", "variable"),
    [
        ({"power_policies": ["balanced"]}, "esxi_network_power_policy"),
        ({"power_policies": [], "power_policy": None}, "esxi_network_power_policy"),
        ({"power_policy": "vendor"}, "esxi_network_power_policy"),
        ({"ntp_servers": None}, "esxi_network_ntp_servers"),
        ({"ntp_service": None}, "esxi_network_ntp_servers"),
    ],
)
def test_what_the_host_does_not_have_is_refused_by_name(changes, variable):
    with pytest.raises(Failure) as raised:
        settings.plan({**STATE, **changes}, WANT, {}, {})
    assert (raised.value.code, raised.value.details["variable"]) == ("bad_value", variable)


@pytest.mark.parametrize("server", ["", "-time", "time.lab.example iburst", "time/lab", "#", "192.0.2.7 "])
def test_what_is_no_server_is_refused(server):
    with pytest.raises(Failure) as raised:
        settings.check("as_is", ["192.0.2.1", server])
    assert raised.value.details == {"variable": "esxi_network_ntp_servers", "value": server}


def test_servers_are_addresses_or_names_each_once():
    assert settings.check("as_is", ["2001:db8::1", "::1", "0.pool.lab.example"])["ntp_servers"]
    assert settings.check("as_is", []) == {}
    with pytest.raises(Failure):
        settings.check("as_is", ["192.0.2.1", "192.0.2.1"])


class Services:
    """The time service's part of a host, which notes what is asked of it."""

    def __init__(self) -> None:
        self.asked = []

    def __getattr__(self, name):
        return lambda **given: self.asked.append((name, given.get("policy") or given["id"]))


def test_the_time_service_is_set_and_told_to_act():
    services = Services()
    host = SimpleNamespace(configManager=SimpleNamespace(serviceSystem=services))
    session = SimpleNamespace(doing=lambda _what: contextlib.nullcontext())
    asked = [
        {"act": "start", "policy": "on"},
        {"act": "stop", "policy": "off"},
        {"act": "restart", "policy": None},
        {"act": None, "policy": "automatic"},
    ]
    steps = [{"kind": "ntp_service", "arguments": arguments} for arguments in asked]
    settings.serve(session, host, [{"kind": "ntp_servers", "arguments": {}}, *steps])
    name = settings.SERVICE
    assert services.asked == [
        ("UpdateServicePolicy", "on"),
        ("StartService", name),
        ("UpdateServicePolicy", "off"),
        ("StopService", name),
        ("RestartService", name),
        ("UpdateServicePolicy", "automatic"),
    ]


def test_records_of_other_testbeds_of_this_host_are_looked_at(tmp_path):
    def write(name: str, **more) -> None:
        (tmp_path / f"network-{name}.json").write_text(json.dumps({"testbed_id": name, **more}))

    ours = {"was": "balanced", "ours": ["high-performance"], "done": True}
    write("mine", host="esx7", settings={"power_policy": ours})
    write("other", host="esx7", settings={"power_policy": ours, "ntp_servers": {"was": [], "ours": [["192.0.2.9"]]}})
    write("elsewhere", host="esx8", settings={"ntp_servers": {"was": [], "ours": [["192.0.2.1"]]}})
    write("older", host="esx7")
    record = SimpleNamespace(path=str(tmp_path / "network-mine.json"))
    # What is no longer as they set it is theirs no more.
    assert settings.of_others(record, {**STATE, "power_policy": "high-performance"}) == {"power_policy": "other"}
    assert settings.of_others(record, STATE) == {}
