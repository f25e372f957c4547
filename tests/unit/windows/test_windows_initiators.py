# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Initiators that a Windows target knows by something else than their name, against the stand-in; LIO and tgt refuse them."""

# A fixture of another file is used by its name.
# ruff: noqa: F401, F811

from __future__ import annotations

from itertools import islice

import pytest
from ansible_collections.storlab.testbed.plugins.action import win_iscsi_target
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import iscsi_target
from test_windows_actions import CLIENT, NAME, bench, code

CHAP = {"chap_user": "user-in", "chap_password": "first-secret-1"}


def known_by(bench, **initiator) -> None:
    bench.targets[0]["initiators"] = [{**CHAP, **initiator}]


@pytest.mark.parametrize(
    ("initiator", "kept", "shown"),
    [
        ({"address": "192.0.2.21"}, "IPAddress:192.0.2.21", ["IpAddress:192.0.2.21", "192.0.2.21"]),
        (
            {"address": "2001:DB8:0::0021"},
            "IPv6Address:2001:db8::21",
            ["IPV6Address:2001:0DB8:0000:0000:0000:0000:0000:0021", "2001:db8:0:0:0:0:0:21"],
        ),
        ({"dns_name": "Client.Example"}, "DNSName:client.example", ["DnsName:CLIENT.example", "client.example"]),
        (
            {"mac_address": "00:50:56:ab:CD:ef"},
            "MACAddress:00-50-56-AB-CD-EF",
            ["MacAddress:00:50:56:ab:cd:ef", "005056ABCDEF"],
        ),
        ({"iqn": CLIENT}, f"IQN:{CLIENT}", [f"Iqn:{CLIENT}", CLIENT]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_initiator_is_told_to_windows_with_its_type_and_found_again_in_any_spelling(bench, initiator, kept, shown):
    known_by(bench, **initiator)
    assert not any(result.get("failed") for result in islice(bench.build(), 3))
    assert bench.host()["targets"][NAME]["initiators"] == [kept]
    for spelling in shown:
        with bench.world.open():
            bench.host()["targets"][NAME]["initiators"] = [spelling]
        assert bench.run("server", win_iscsi_target, targets=bench.targets, layers=bench.layers)["steps"] == []


@pytest.mark.parametrize(
    "others", ["IPAddress:192.0.2.22", "IPv6Address:2001:db8::22", "IQN:*", "DNSName:192-0-2-21.example"]
)
def test_another_initiator_is_replaced(bench, others):
    known_by(bench, address="192.0.2.21")
    list(bench.build())
    with bench.world.open():
        bench.host()["targets"][NAME]["initiators"] = [others]
    steps = bench.run("server", win_iscsi_target, targets=bench.targets, layers=bench.layers)["steps"]
    assert [(step["was"], step["will"]) for step in steps] == [(others, "IPAddress:192.0.2.21")]


def test_login_from_that_address_is_let_in_and_from_another_is_not(bench):
    known_by(bench, address="192.0.2.21")
    assert [result.get("msg") for result in bench.build()] == [None] * 5
    list(bench.teardown())
    known_by(bench, address="192.0.2.99")
    assert "authorization failure" in list(bench.build())[-1]["msg"]


@pytest.mark.parametrize(
    ("initiator", "says"),
    [
        ({}, "exactly one of"),
        ({"iqn": CLIENT, "address": "192.0.2.21"}, "exactly one of"),
        ({"dns_name": "a.example", "mac_address": "00:50:56:00:00:01"}, "exactly one"),
        ({"address": "client.example"}, "IPv4 or IPv6"),
        ({"address": "::"}, "IPv4 or IPv6"),
        ({"address": "fe80::1%4"}, "IPv4 or IPv6"),
        ({"address": "192.0.2.0/24"}, "IPv4 or IPv6"),
        ({"mac_address": "00:50:56:ab:cd"}, "six pairs"),
        ({"mac_address": "00:50:56:ab:cd:eg"}, "six pairs"),
        ({"dns_name": "client 1"}, "host name"),
        ({"dns_name": "-client"}, "host name"),
        ({"dns_name": "192.0.2.21"}, "host name"),
        ({"dns_name": "*"}, "host name"),
        ({"address": "192.0.2.21", "chap_user": "", "chap_password": ""}, "chap_user"),
    ],
)
def test_bad_initiators_are_refused_before_anything_is_changed(bench, initiator, says):
    known_by(bench, **initiator)
    before = dict(bench.host()["targets"])
    refused = list(bench.build())[-1]
    assert code(refused) == "bad_value"
    assert says in refused["msg"]
    assert bench.host()["targets"] == before


@pytest.mark.parametrize("key", ["address", "dns_name", "mac_address"])
def test_targets_of_linux_know_initiators_by_name_only(key):
    target = {
        "name": "iqn.2026-11.test.storlab:box",
        "portals": [{"address": "192.0.2.11", "port": 3260}],
        "luns": [],
        "initiators": [{key: "192.0.2.21", **CHAP}],
    }
    with pytest.raises(Failure) as raised:
        iscsi_target.check_targets([target], {})
    assert (raised.value.code, "only by name" in str(raised.value.as_result()["msg"])) == ("bad_value", True)
