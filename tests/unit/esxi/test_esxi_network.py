# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is planned for the network of an ESXi host, and what is refused, from states as plain data."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import network, network_plan

STATE = {
    "host": "esx7",
    "management": ["vmk0"],
    "bound": [],
    "nics": ["vmnic0", "vmnic4", "vmnic5"],
    "switches": {"vSwitch0": {"uplinks": ["vmnic0"], "mtu": 1500}},
    "port_groups": {"Management Network": {"switch": "vSwitch0", "vlan": 0, "active": ["vmnic0"], "standby": []}},
    "interfaces": {
        "vmk0": {"port_group": "Management Network", "address": "10.7.0.2", "netmask": "255.255.0.0", "mtu": 1500}
    },
}
SWITCH = {"name": "iscsi", "uplinks": ["vmnic4", "vmnic5"], "mtu": 9000}
PORT = {
    "port_group": "iscsi-a",
    "switch": "iscsi",
    "uplink": "vmnic5",
    "address": "192.0.2.33/26",
    "vlan": 12,
    "mtu": 8900,
}


def state_with(record: dict, **more) -> dict:
    """The state once all of a record is there, as recorded."""
    state = copy.deepcopy(STATE)
    for area in ("switches", "port_groups"):
        state[area] |= {
            name: {key: value for key, value in kept.items() if key != "made"}
            for name, kept in record.get(area, {}).items()
        }
    for number, kept in enumerate(record.get("interfaces", {}).values(), 1):
        state["interfaces"][f"vmk{number}"] = {key: value for key, value in kept.items() if key != "made"}
    return {**state, **more}


def built(switches=(SWITCH,), ports=(PORT,)) -> tuple[dict, dict]:
    """(state, record) of a host on which this has been built."""
    want = network.check(list(switches), list(ports))
    record = network_plan.recorded({}, want, STATE)
    state = state_with(record)
    return state, network_plan.confirmed(record, state)


def steps(state, record, switches=(SWITCH,), ports=(PORT,)) -> list:
    plan = network_plan.plan(state, network.check(list(switches), list(ports)), record)
    return [(step["op"], step["target"]) for step in plan]


def test_what_is_missing_is_made_from_the_switch_up():
    assert steps(STATE, {}) == [
        ("create", "switch iscsi"),
        ("create", "port group iscsi-a"),
        ("create", "interface on iscsi-a"),
    ]
    calls = [step["arguments"] for step in network_plan.plan(copy.deepcopy(STATE), network.check([SWITCH], [PORT]), {})]
    assert calls[0] == {
        "switch": "iscsi",
        "esxi_hostname": "esx7",
        "nics": ["vmnic4", "vmnic5"],
        "mtu": 9000,
        "state": "present",
    }
    assert calls[1]["teaming"] == {"active_adapters": ["vmnic5"], "standby_adapters": []}
    assert (calls[2]["network"]["ip_address"], calls[2]["network"]["subnet_mask"]) == ("192.0.2.33", "255.255.255.192")


def test_what_is_there_is_left_alone_and_removed_from_the_top_down():
    state, record = built()
    assert steps(state, record) == []
    assert [(step["op"], step["target"]) for step in network_plan.absent_plan(state, record)] == [
        ("remove", "interface vmk1"),
        ("remove", "port group iscsi-a"),
        ("remove", "switch iscsi"),
    ]
    assert network_plan.absent_plan(state, {}) == []


def test_what_was_never_confirmed_is_ours_only_exactly_as_asked_for():
    """A run broke off; somebody may have made something of that name since."""
    record = network_plan.recorded({}, network.check([SWITCH], []), STATE)
    assert record["switches"]["iscsi"]["made"] is False
    there = state_with(record)
    assert [step["target"] for step in network_plan.absent_plan(there, record)] == ["switch iscsi"]
    there["switches"]["iscsi"]["mtu"] = 1700
    assert network_plan.absent_plan(there, record) == []
    confirmed = network_plan.confirmed(record, state_with(record))
    assert [step["target"] for step in network_plan.absent_plan(there, confirmed)] == ["switch iscsi"]


def test_a_switch_first_gets_what_is_coming_and_loses_last_what_is_going():
    state, record = built()
    switch = {**SWITCH, "uplinks": ["vmnic4"], "mtu": 9000}
    plan = network_plan.plan(state, network.check([switch], [{**PORT, "uplink": "vmnic4"}]), record)
    assert [step["target"] for step in plan] == ["port group iscsi-a", "switch iscsi"]
    plan = network_plan.plan(state, network.check([{**SWITCH, "mtu": 2000}], [{**PORT, "mtu": 1900}]), record)
    assert [step["target"] for step in plan] == ["interface vmk1", "switch iscsi"]
    assert plan[0]["arguments"]["device"] == "vmk1"


def test_a_port_group_that_moves_is_made_anew():
    state, record = built(ports=[{**PORT, "uplink": "vmnic4"}], switches=[{**SWITCH, "uplinks": ["vmnic4"]}])
    other = {"name": "other", "uplinks": ["vmnic5"], "mtu": 9000}
    assert steps(state, record, [{**SWITCH, "uplinks": ["vmnic4"]}, other], [{**PORT, "switch": "other"}]) == [
        ("remove", "interface vmk1"),
        ("remove", "port group iscsi-a"),
        ("create", "switch other"),
        ("create", "port group iscsi-a"),
        ("create", "interface on iscsi-a"),
    ]


def test_an_interface_that_carries_the_management_network_by_now_stays():
    state, record = built()
    with pytest.raises(Failure) as raised:
        network_plan.absent_plan({**state, "management": ["vmk0", "vmk1"]}, record)
    assert raised.value.code == "management_network" and "vmk1" in raised.value.what
    assert network_plan.absent_plan(state, record)


def test_an_interface_that_is_bound_after_the_adapter_was_given_back_is_kept_for_others_with_what_it_stands_on():
    state, record = built()
    whole = network_plan.absent_plan(state, record)
    assert network_plan.kept_text(state, record) == []
    state["bound"] = ["vmk1"]
    left = network_plan.absent_plan(state, record)
    gone = {step["target"] for step in whole} - {step["target"] for step in left}
    assert gone == {"interface vmk1", "port group iscsi-a", f"switch {state['port_groups']['iscsi-a']['switch']}"}
    (text,) = network_plan.kept_text(state, record)
    assert "vmk1" in text and state["host"] in text
    # In a build nothing of it may go: the adapter is the testbed's then.
    with pytest.raises(Failure) as raised:
        steps(state, record, [], [])
    assert raised.value.code == "in_use" and "vmk1" in raised.value.what


def test_a_bound_interface_keeps_its_address_and_may_change_its_mtu():
    state, record = built()
    state["bound"] = ["vmk1"]
    with pytest.raises(Failure) as raised:
        steps(state, record, ports=[{**PORT, "address": "192.0.2.34/26"}])
    assert raised.value.code == "in_use"
    assert steps(state, record, ports=[{**PORT, "mtu": 1400}]) == [("update", "interface vmk1")]


@pytest.mark.parametrize(
    ("switches", "ports", "variable"),
    [
        ([{**SWITCH, "name": "x" * 32}], [], "esxi_network_switches name"),
        ([SWITCH, SWITCH], [], "esxi_network_switches"),
        ([{**SWITCH, "uplinks": []}], [], "esxi_network_switches iscsi uplinks"),
        ([{**SWITCH, "uplinks": ["vmnic4", "vmnic4"]}], [], "esxi_network_switches iscsi uplinks"),
        ([{**SWITCH, "mtu": 9001}], [], "esxi_network_switches iscsi mtu"),
        ([SWITCH], [PORT, PORT], "esxi_network_ports"),
        ([SWITCH], [{**PORT, "vlan": 4096}], "esxi_network_ports iscsi-a vlan"),
        ([SWITCH], [{**PORT, "mtu": 1279}], "esxi_network_ports iscsi-a mtu"),
        ([{**SWITCH, "mtu": 8000}], [PORT], "esxi_network_ports iscsi-a mtu"),
        ([SWITCH], [{**PORT, "uplink": "vmnic0"}], "esxi_network_ports iscsi-a uplink"),
        ([SWITCH], [PORT, {**PORT, "port_group": "b"}], "esxi_network_ports b address"),
        *(
            ([SWITCH], [{**PORT, "address": text}], "esxi_network_ports iscsi-a address")
            for text in ("192.0.2.33", "192.0.2.33/31", "192.0.2.0/24", "fd00::1/64", "192.0.2.256/24")
        ),
    ],
)
def test_bad_words_are_refused_by_name(switches, ports, variable):
    with pytest.raises(Failure) as raised:
        network.check(switches, ports)
    assert (raised.value.code, raised.value.details["variable"]) == ("bad_value", variable)


@pytest.mark.parametrize(
    ("switches", "ports", "variable"),
    [
        ([{**SWITCH, "uplinks": ["vmnic9"]}], [], "esxi_network_switches iscsi uplinks"),
        ([], [PORT], "esxi_network_ports iscsi-a switch"),
        ([], [{**PORT, "switch": "vSwitch0"}], "esxi_network_ports iscsi-a uplink"),
        ([], [{**PORT, "switch": "vSwitch0", "uplink": "vmnic0"}], "esxi_network_ports iscsi-a mtu"),
    ],
)
def test_what_the_host_does_not_have_is_refused_by_name(switches, ports, variable):
    with pytest.raises(Failure) as raised:
        steps(STATE, {}, switches, ports)
    assert (raised.value.code, raised.value.details["variable"]) == ("bad_value", variable)
