# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role iSCSI Target Server of Windows Server, its service, its firewall rule, and whether it lets its own host log in.

The service reads that switch when it starts, and loses all RAM disks when it stops. So it is set before there are any, and refused later.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.core.steps import Step
from .host import FEATURE, TARGET_SERVICE, check_id, check_port, module_call, service, stamped
from .params import ServerParams
from .ramdisk import PREFIX
from .state import Remembered, State, without

SPEC = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "state_dir": {"type": "path", "required": True},
    "networks": {"type": "list", "elements": "str"},
    "ports": {"type": "list", "elements": "int", "default": [3260]},
    "loopback": {"type": "bool", "default": False},
}
LOOPBACK_KEY, LOOPBACK_VALUE = "HKLM:\\SOFTWARE\\Microsoft\\iSCSI Target", "AllowLoopBack"
RULES, REGISTRY, SERVICES = (
    "community.windows.win_firewall_rule",
    "ansible.windows.win_regedit",
    "ansible.windows.win_service",
)


def check(params: ServerParams) -> list[str] | None:
    """The networks in one notation, or None when they are not spoken of; raises bad_value."""
    check_id("iscsi_target_testbed_id", params["testbed_id"])
    for port in params["ports"]:
        check_port("iscsi_target_targets portal", port)
    if params["networks"] is None:
        return None
    try:
        return sorted(str(ipaddress.ip_network(network)) for network in params["networks"])
    except ValueError as error:
        raise bad_value(
            "iscsi_target_windows_networks", params["networks"], f"Use networks such as 192.0.2.0/24: {error}."
        ) from None


def rule_name(testbed_id: str) -> str:
    return f"storlab {testbed_id} iSCSI target"


def plan(
    state: State,
    networks: list[str] | None,
    ports: list[int],
    testbed_id: str,
    loopback: bool = False,
    memory: Remembered | None = None,
) -> list[Step]:
    if state["feature"] is None:
        raise Failure(
            "not_a_server",
            f"{state['about']['product']} has no server roles.",
            "Use Windows Server 2016 or later for the target.",
        )
    calls: list[Step] = []
    if state["feature"] != "Installed":
        calls.append(
            module_call(
                "feature",
                FEATURE,
                state["feature"],
                "Installed",
                "ansible.windows.win_feature",
                name=[FEATURE],
                state="present",
                include_management_tools=True,
            )
        )
    if loopback and state["loopback"] != 1:
        calls.append(_loopback(state["loopback"], 1))
    if state["feature"] == "Installed":
        target_service = service(state, TARGET_SERVICE)
        unread = state["loopback"] != 1 or (memory or {}).get("unread_since") == state["about"]["boot"]
        if loopback and unread and target_service and target_service["state"] == "Running":
            if users(state):
                raise Failure(
                    "service_in_use",
                    f"The service {TARGET_SERVICE} must restart before this host may log in to itself, which would lose {users(state)[0]}.",
                    "Run teardown first, so that the target server is unused, and then build again.",
                    users=users(state),
                )
            calls.append(_restart())
        if target_service and (target_service["state"], target_service["start_mode"]) != ("Running", "Auto"):
            calls.append(
                module_call(
                    "service",
                    TARGET_SERVICE,
                    f"{target_service['state']}, {target_service['start_mode']}",
                    "Running, Auto",
                    SERVICES,
                    name=TARGET_SERVICE,
                    state="started",
                    start_mode="auto",
                )
            )
    if networks:
        # The module compares the rule itself, whose filters are slow to read; it says whether it changed one.
        calls.append(
            module_call(
                "firewall",
                rule_name(testbed_id),
                None,
                f"TCP {', '.join(map(str, ports))} from {', '.join(networks)}",
                RULES,
                name=rule_name(testbed_id),
                localport=",".join(map(str, ports)),
                protocol="tcp",
                direction="in",
                action="allow",
                remoteip=",".join(networks),
                enabled=True,
                state="present",
            )
        )
    elif networks is not None:
        calls += _closed(state, testbed_id)
    return calls


def _closed(state: State, testbed_id: str) -> list[Any]:
    if rule_name(testbed_id) not in state["firewall_rules"]:
        return []
    return [
        module_call(
            "firewall",
            rule_name(testbed_id),
            "allowed",
            None,
            RULES,
            name=rule_name(testbed_id),
            state="absent",
            direction="in",
            action="allow",
            protocol="tcp",
        )
    ]


def users(state: State) -> list[Any]:
    """The sessions that a restart of the service would lose."""
    return [
        f"RAM disk {disk['path']}" for disk in state["virtual_disks"] if disk["path"].lower().startswith(PREFIX)
    ] + [
        f"the session of {initiator} with {target['name']}"
        for target in state["targets"]
        for initiator in target["sessions"]
    ]


def _loopback(was: object, will: object) -> Step:
    given = {"data": will, "type": "dword", "state": "present"} if will is not None else {"state": "absent"}
    return module_call(
        "loopback",
        LOOPBACK_VALUE,
        "not set" if was is None else str(was),
        "not set" if will is None else str(will),
        REGISTRY,
        path=LOOPBACK_KEY,
        name=LOOPBACK_VALUE,
        **given,
    )


def _restart() -> Step:
    return module_call(
        "restart", TARGET_SERVICE, "running", "restarted", SERVICES, name=TARGET_SERVICE, state="restarted"
    )


def _loopback_given_back(state: State, memory: Remembered, testbed_id: str) -> list[Any]:
    """While something of this testbed is left it may still be used. A service that others use is not restarted: it reads the switch when it starts next."""
    own = [item for item in state["virtual_disks"] + state["targets"] if stamped(item["description"], testbed_id)]
    if "loopback_was" not in memory or own or state["loopback"] == memory["loopback_was"]:
        return []
    target_service = service(state, TARGET_SERVICE)
    restart = [_restart()] if target_service and target_service["state"] == "Running" and not users(state) else []
    return [_loopback(state["loopback"], memory["loopback_was"]), *restart]


def absent_plan(state: State, memory: Remembered, testbed_id: str) -> list[Step]:
    """The rule goes, the switch is given back, and the role goes when it came with this testbed and no one uses it any more."""
    calls = _closed(state, testbed_id) + _loopback_given_back(state, memory, testbed_id)
    if (
        memory.get("feature_was")
        and state["feature"] == "Installed"
        and not state["targets"]
        and not state["virtual_disks"]
    ):
        calls.append(
            module_call(
                "feature",
                FEATURE,
                "Installed",
                memory["feature_was"],
                "ansible.windows.win_feature",
                name=[FEATURE],
                state="absent",
            )
        )
    elif (
        memory.get("service_was")
        and state["feature"] == "Installed"
        and not state["targets"]
        and not state["virtual_disks"]
    ):
        before = memory["service_was"]
        calls.append(
            module_call(
                "service",
                TARGET_SERVICE,
                "Running, Auto",
                f"{before['state']}, {before['start_mode']}",
                SERVICES,
                name=TARGET_SERVICE,
                state="started" if before["state"] == "Running" else "stopped",
                start_mode={"Auto": "auto", "Manual": "manual", "Disabled": "disabled"}[before["start_mode"]],
            )
        )
    return calls


def half_installed(state: State, memory: Remembered) -> list[Any]:
    """The restart that Windows waits for since this testbed had the role installed; before it the role cannot be taken away."""
    if not memory.get("feature_was") or state["feature"] != "InstallPending":
        return []
    return [{"op": "restart_host", "target": FEATURE, "was": state["feature"], "will": "Installed"}]


def remember(memory: Remembered, state: State, calls: list[Any]) -> Remembered:
    after, ops = memory.copy(), {call["op"] for call in calls}
    if "feature" in ops:
        after.setdefault("feature_was", state["feature"])
    if "service" in ops and "feature_was" not in after:
        after.setdefault("service_was", service(state, TARGET_SERVICE))
    if "loopback" in ops:
        after.setdefault("loopback_was", state["loopback"])
        # Until it restarts, the service goes by what it read before.
        after["unread_since"] = state["about"]["boot"]
    return after


def noted(memory: Remembered, done: list[Any]) -> Remembered:
    """The record after these calls."""
    started = any(call["op"] in ("restart", "service") for call in done)
    return without(memory, {"unread_since"} if started else set())


def still_to_give_back(memory: Remembered, state: State, calls: list[Any]) -> Remembered:
    """The rest of the record after these calls of absent_plan: while others use the role, its earlier state is still to be given back."""
    ops = {call["op"] for call in calls}
    given = {"feature_was", "service_was"} if ops & {"feature", "service"} else set()
    # A build that was killed before it changed this has nothing to give back; kept, it would claim what others install later.
    if state["feature"] == memory.get("feature_was"):
        given |= {"feature_was"}
    if "service_was" in memory and service(state, TARGET_SERVICE) == memory["service_was"]:
        given |= {"service_was"}
    if "loopback" in ops or state["loopback"] == memory.get("loopback_was"):
        given |= {"loopback_was", "unread_since"}
    return without(memory, given)
