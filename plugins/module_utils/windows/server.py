# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role iSCSI Target Server of Windows Server, its service and its firewall rule: which of the three have to change.

Calls are of Ansible's own modules: ``{op, target, was, will, module, arguments}``.
"""

from __future__ import annotations

import ipaddress

from ..failure import Failure, bad_value
from . import FEATURE, TARGET_SERVICE, check_id, service

SPEC = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "state_dir": {"type": "path", "required": True},
    "networks": {"type": "list", "elements": "str", "default": []},
    "ports": {"type": "list", "elements": "int", "default": [3260]},
}
RULES = "community.windows.win_firewall_rule"


def check(params: dict) -> list:
    """The networks in one notation; raises bad_value."""
    check_id("iscsi_target_testbed_id", params["testbed_id"])
    try:
        return sorted(str(ipaddress.ip_network(network)) for network in params["networks"])
    except ValueError as error:
        raise bad_value("iscsi_target_windows_networks", params["networks"], f"Use networks such as 192.0.2.0/24: {error}.") from None


def rule_name(testbed_id: str) -> str:
    return f"storlab {testbed_id} iSCSI target"


def _call(op: str, target: str, was, will, module: str, **arguments) -> dict:
    return {"op": op, "target": target, "was": was, "will": will, "module": module, "arguments": arguments}


def plan(state: dict, networks: list, ports: list, testbed_id: str) -> list:
    if state["feature"] is None:
        raise Failure("not_a_server", f"{state['about']['product']} has no server roles.", "Use Windows Server 2016 or later for the target.")
    calls = []
    if state["feature"] != "Installed":
        calls.append(_call("feature", FEATURE, state["feature"], "Installed", "ansible.windows.win_feature",
                           name=[FEATURE], state="present", include_management_tools=True))
    else:
        found = service(state, TARGET_SERVICE)
        if found and (found["state"], found["start_mode"]) != ("Running", "Auto"):
            calls.append(_call("service", TARGET_SERVICE, f"{found['state']}, {found['start_mode']}", "Running, Auto", "ansible.windows.win_service",
                               name=TARGET_SERVICE, state="started", start_mode="auto"))
    if networks:
        # The module compares the rule itself, whose filters are slow to read; it says whether it changed one.
        calls.append(_call("firewall", rule_name(testbed_id), None, f"TCP {', '.join(map(str, ports))} from {', '.join(networks)}", RULES,
                           name=rule_name(testbed_id), localport=",".join(map(str, ports)), protocol="tcp", direction="in", action="allow",
                           remoteip=",".join(networks), enabled=True, state="present"))
    return calls


def absent_plan(state: dict, memory: dict, testbed_id: str) -> list:
    """The rule goes, and the role when it came with this testbed and nobody uses it any more."""
    calls = []
    if rule_name(testbed_id) in state["firewall_rules"]:
        calls.append(_call("firewall", rule_name(testbed_id), "allowed", None, RULES,
                           name=rule_name(testbed_id), state="absent", direction="in", action="allow", protocol="tcp"))
    if memory.get("feature_was") and state["feature"] == "Installed" and not state["targets"] and not state["virtual_disks"]:
        calls.append(_call("feature", FEATURE, "Installed", memory["feature_was"], "ansible.windows.win_feature", name=[FEATURE], state="absent"))
    elif memory.get("service_was") and state["feature"] == "Installed" and not state["targets"] and not state["virtual_disks"]:
        before = memory["service_was"]
        calls.append(_call("service", TARGET_SERVICE, "Running, Auto", f"{before['state']}, {before['start_mode']}", "ansible.windows.win_service",
                           name=TARGET_SERVICE, state="started" if before["state"] == "Running" else "stopped",
                           start_mode={"Auto": "auto", "Manual": "manual", "Disabled": "disabled"}[before["start_mode"]]))
    return calls


def remember(memory: dict, state: dict, calls: list) -> dict:
    after, ops = dict(memory), {call["op"] for call in calls}
    if "feature" in ops:
        after.setdefault("feature_was", state["feature"])
    if "service" in ops and "feature_was" not in after:
        after.setdefault("service_was", service(state, TARGET_SERVICE))
    return after
