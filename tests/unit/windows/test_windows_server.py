# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role iSCSI Target Server: what is installed, started and opened, what is refused, and what is given back to whom."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import server

RULE = "storlab tb iSCSI target"
RUNNING = {"name": "WinTarget", "state": "Running", "start_mode": "Auto"}
STOPPED = {"name": "WinTarget", "state": "Stopped", "start_mode": "Manual"}
OURS, THEIRS = "storlab testbed tb: data", "storlab testbed tb2: data"


def disk(path: str = "ramdisk:a.vhdx", description: str = OURS) -> dict:
    return {"path": path, "description": description}


def target(description: str = OURS, sessions: tuple = ()) -> dict:
    return {"name": "t1", "description": description, "sessions": list(sessions)}


def state(**more) -> dict:
    """A server that has the role, whose service runs, and which nobody uses."""
    return {
        "about": {"product": "Windows Server 2022", "boot": "2026-11-20T08:00:00Z"},
        "feature": "Installed",
        "services": [copy.deepcopy(RUNNING)],
        "virtual_disks": [],
        "targets": [],
        "firewall_rules": [],
        "loopback": None,
        **more,
    }


FRESH = state(feature="Available", services=[])


def plan(of: dict, networks=None, ports=(3260,), loopback: bool = False, memory: dict | None = None) -> list:
    return server.plan(of, networks, list(ports), "tb", loopback, memory)


def ops(calls: list) -> list:
    return [call["op"] for call in calls]


def given(**more) -> dict:
    return {"testbed_id": "tb", "ports": [3260], "networks": None, **more}


# ---------------------------------------------------------------- what is wanted


def test_networks_are_told_in_one_notation():
    assert server.check(given(networks=["2001:DB8::/64", "192.0.2.0/24"])) == ["192.0.2.0/24", "2001:db8::/64"]
    assert server.check(given()) is None and server.check(given(networks=[])) == []


@pytest.mark.parametrize(
    ("change", "variable"),
    [
        ({"testbed_id": "my_lab"}, "iscsi_target_testbed_id"),
        ({"ports": [3260, 0]}, "iscsi_target_targets portal port"),
        ({"ports": [65536]}, "iscsi_target_targets portal port"),
        ({"networks": ["192.0.2.7/24"]}, "iscsi_target_windows_networks"),
        ({"networks": ["anywhere"]}, "iscsi_target_windows_networks"),
    ],
)
def test_what_cannot_be_is_refused_by_the_variables_name(change, variable):
    with pytest.raises(Failure) as caught:
        server.check(given(**change))
    assert (caught.value.code, caught.value.details["variable"]) == ("bad_value", variable)


# ---------------------------------------------------------------- present


def test_a_server_as_it_shall_be_needs_nothing():
    assert plan(state()) == []
    assert plan(state(loopback=1), loopback=True) == []


def test_a_windows_without_server_roles_is_refused():
    with pytest.raises(Failure) as caught:
        plan(state(feature=None, about={"product": "Windows 11 Pro", "boot": "x"}))
    assert caught.value.code == "not_a_server" and "Windows 11 Pro" in str(caught.value)


def test_what_is_missing_is_installed_and_the_service_is_left_to_the_next_look():
    (call,) = plan(FRESH)
    assert (call["op"], call["was"], call["arguments"]["state"]) == ("feature", "Available", "present")
    # Before it is installed the switch may be set: the service reads it when it starts for the first time.
    assert ops(plan(FRESH, loopback=True)) == ["feature", "loopback"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"state": "Stopped"}, "Stopped, Auto"),
        ({"start_mode": "Manual"}, "Running, Manual"),
        ({"start_mode": "Disabled", "state": "Stopped"}, "Stopped, Disabled"),
    ],
)
def test_a_service_that_does_not_run_or_will_not_is_started(change, words):
    (call,) = plan(state(services=[{**RUNNING, **change}]))
    assert (call["op"], call["was"]) == ("service", words)
    assert (call["arguments"]["state"], call["arguments"]["start_mode"]) == ("started", "auto")


@pytest.mark.parametrize("was", [None, 0])
def test_a_server_may_log_in_to_itself_after_its_service_has_read_so(was):
    switch, restart = plan(state(loopback=was), loopback=True)
    assert (switch["was"], switch["will"], switch["arguments"]["data"]) == ("not set" if was is None else "0", "1", 1)
    assert (restart["op"], restart["arguments"]["state"]) == ("restart", "restarted")
    # A service that does not run reads it when it is started.
    assert ops(plan(state(loopback=was, services=[STOPPED]), loopback=True)) == ["loopback", "service"]


@pytest.mark.parametrize(
    ("used", "words"),
    [
        ({"virtual_disks": [disk("RAMDISK:a.vhdx")]}, "RAM disk RAMDISK:a.vhdx"),
        ({"targets": [target(THEIRS, ["iqn.t:c"])]}, "the session of iqn.t:c with t1"),
    ],
)
def test_a_service_that_somebody_uses_is_not_restarted(used, words):
    with pytest.raises(Failure) as caught:
        plan(state(**used), loopback=True)
    assert caught.value.code == "service_in_use" and words in str(caught.value)
    assert caught.value.details["users"] == [words]
    # Nothing has to restart where it is set and read.
    assert plan(state(loopback=1, **used), loopback=True) == []


def test_a_disk_in_a_file_and_a_target_without_sessions_lose_nothing_by_a_restart():
    calm = state(virtual_disks=[disk("C:\\disks\\a.vhdx")], targets=[target()])
    assert ops(plan(calm, loopback=True)) == ["loopback", "restart"]


def test_a_switch_that_was_set_and_not_read_since_this_start_is_read_now():
    memory = {"unread_since": "2026-11-20T08:00:00Z"}
    assert ops(plan(state(loopback=1), loopback=True, memory=memory)) == ["restart"]
    # The host has been restarted, and its service with it.
    assert plan(state(loopback=1), loopback=True, memory={"unread_since": "2026-11-19T08:00:00Z"}) == []
    assert plan(state(loopback=1), loopback=False, memory=memory) == []


def test_the_rule_lets_these_networks_in_at_these_ports():
    (call,) = plan(state(), networks=["192.0.2.0/24", "2001:db8::/64"], ports=(3260, 3261))
    arguments = call["arguments"]
    assert (arguments["name"], arguments["localport"]) == (RULE, "3260,3261")
    assert (arguments["remoteip"], arguments["state"]) == ("192.0.2.0/24,2001:db8::/64", "present")


def test_a_rule_goes_where_no_network_is_wanted_and_stays_where_nobody_speaks_of_it():
    opened = state(firewall_rules=[RULE, f"{RULE} 2", "storlab tb2 iSCSI target"])
    (call,) = plan(opened, networks=[])
    assert (call["arguments"]["name"], call["arguments"]["state"]) == (RULE, "absent")
    assert plan(opened, networks=None) == []
    assert plan(state(firewall_rules=[f"{RULE} 2"]), networks=[]) == []


# ---------------------------------------------------------------- absent


def absent(of: dict, **memory) -> list:
    return server.absent_plan(of, memory, "tb")


def test_what_the_testbed_did_not_change_stays():
    assert absent(state()) == []
    assert absent(state(loopback=1, firewall_rules=["storlab tb2 iSCSI target"])) == []


def test_a_role_that_came_with_the_testbed_goes_when_nobody_uses_it():
    opened = state(firewall_rules=[RULE])
    assert ops(absent(opened, feature_was="Available")) == ["firewall", "feature"]
    for used in ({"targets": [target(THEIRS)]}, {"virtual_disks": [disk("C:\\a.vhdx", THEIRS)]}):
        assert ops(absent({**opened, **used}, feature_was="Available")) == ["firewall"]
    # It is gone already.
    assert absent(state(feature="Available", services=[]), feature_was="Available") == []


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        (STOPPED, ("stopped", "manual")),
        ({**STOPPED, "start_mode": "Disabled"}, ("stopped", "disabled")),
        ({**RUNNING, "start_mode": "Manual"}, ("started", "manual")),
    ],
)
def test_a_service_is_as_it_was_again_when_nobody_uses_it(before, wanted):
    (call,) = absent(state(), service_was=before)
    assert (call["arguments"]["state"], call["arguments"]["start_mode"]) == wanted
    for used in ({"targets": [target(THEIRS)]}, {"virtual_disks": [disk("C:\\a.vhdx", THEIRS)]}):
        assert absent(state(**used), service_was=before) == []


@pytest.mark.parametrize(
    ("was", "argument"), [(None, {"state": "absent"}), (0, {"data": 0, "type": "dword", "state": "present"})]
)
def test_the_switch_is_given_back_and_read_unless_others_use_the_service(was, argument):
    switch, restart = absent(state(loopback=1), loopback_was=was)
    assert argument.items() <= switch["arguments"].items() and restart["op"] == "restart"
    busy = state(loopback=1, targets=[target(THEIRS, ["iqn.t:c"])])
    assert ops(absent(busy, loopback_was=was)) == ["loopback"]
    assert ops(absent(state(loopback=1, services=[STOPPED]), loopback_was=was)) == ["loopback"]
    assert absent(state(loopback=was), loopback_was=was) == []


@pytest.mark.parametrize("own", [{"targets": [target()]}, {"virtual_disks": [disk()]}])
def test_the_switch_stays_while_something_of_this_testbed_is_left(own):
    assert absent(state(loopback=1, **own), loopback_was=0) == []


def test_a_restart_that_windows_waits_for_is_asked_for_only_when_the_testbed_caused_it():
    pending = state(feature="InstallPending")
    (step,) = server.half_installed(pending, {"feature_was": "Available"})
    assert (step["op"], step["was"]) == ("restart_host", "InstallPending")
    assert server.half_installed(pending, {}) == []
    assert server.half_installed(state(), {"feature_was": "Available"}) == []


# ---------------------------------------------------------------- the record


def test_what_was_there_before_is_kept_from_the_first_change_on():
    memory = server.remember({}, FRESH, plan(FRESH, loopback=True))
    assert memory == {"feature_was": "Available", "loopback_was": None, "unread_since": "2026-11-20T08:00:00Z"}
    # A second call finds what the first has made, which is not what was there before.
    later = state(loopback=0, services=[STOPPED], about={"product": "p", "boot": "2026-11-21T08:00:00Z"})
    assert server.remember(memory, later, plan(later, loopback=True)) == {
        **memory,
        "unread_since": "2026-11-21T08:00:00Z",
    }
    assert server.remember({}, state(), []) == {}


def test_the_service_of_a_role_that_was_there_is_kept_as_it_was():
    stopped = state(services=[STOPPED])
    memory = server.remember({}, stopped, plan(stopped))
    assert memory == {"service_was": STOPPED}
    assert server.remember(memory, state(services=[{**STOPPED, "start_mode": "Auto"}]), plan(stopped)) == memory


def test_a_service_that_was_started_has_read_the_switch():
    memory = {"loopback_was": 0, "unread_since": "b"}
    for op in ("restart", "service"):
        assert server.noted(memory, [{"op": op}]) == {"loopback_was": 0}
    assert server.noted(memory, [{"op": "loopback"}]) == memory


def test_what_could_not_be_given_back_is_still_to_be():
    memory = {"feature_was": "Available", "loopback_was": 0, "unread_since": "b"}
    busy = state(loopback=1, targets=[target(THEIRS, ["iqn.t:c"])])
    calls = server.absent_plan(busy, memory, "tb")
    # The switch is given back, the role is still used.
    assert server.still_to_give_back(memory, busy, calls) == {"feature_was": "Available"}
    free = state(loopback=1)
    assert server.still_to_give_back(memory, free, server.absent_plan(free, memory, "tb")) == {}
    kept = {"service_was": STOPPED}
    assert server.still_to_give_back(kept, busy, server.absent_plan(busy, kept, "tb")) == kept
    assert server.still_to_give_back(kept, state(), server.absent_plan(state(), kept, "tb")) == {}


def test_what_a_killed_build_never_changed_is_not_claimed():
    assert server.still_to_give_back({"feature_was": "Available"}, FRESH, []) == {}
    assert server.still_to_give_back({"service_was": STOPPED}, state(services=[STOPPED]), []) == {}
    own = state(loopback=1, targets=[target()])
    assert server.still_to_give_back({"loopback_was": 0}, own, []) == {"loopback_was": 0}
    assert server.still_to_give_back({"loopback_was": 1}, own, []) == {}
