# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The power policy of an ESXi host and the servers that its clock goes by, as plain data and a plan.

Policy and servers are set by modules of community.vmware, one call per step. The time service ntpd is started, restarted and stopped here: the module for
services, vmware_host_service_manager, is deprecated, and ends well when the host has refused.

State::

    {host: its name, power_policy: name, power_policies: [name] that it offers, ntp_servers: [server],
     ntp_service: {running: bool, policy: on|off|automatic}}

A setting that the host does not have is None. Record: what this testbed has set, or is about to set, by setting::

    {power_policy|ntp_servers|ntp_service: {was: value, ours: [value], done: bool}}

``ours`` has more than one value only while a change is not done: the host may have either. A setting is given back only while it has one of them.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.files import read_json
from ..core.kept_record import KeptRecord
from ..core.steps import Step
from .session import Session
from .states import HostSystem, SettingsWant

# Settings that are not asked for stay as they are.
AS_IS = "as_is"
# The policies as users and vmware_host_powermgmt_policy name them, by what a host calls them.
POLICIES = {"dynamic": "balanced", "static": "high-performance", "low": "low-power", "custom": "custom"}
SERVICE = "ntpd"
# Under either a service runs again once the host has been restarted.
STARTS_WITH_HOST = ("on", "automatic")
NAMES = {"power_policy": "power policy", "ntp_servers": "time servers", "ntp_service": "time service"}
# An IP address, or the name of a host.
_SERVER = re.compile(r"[0-9A-Za-z]([0-9A-Za-z.:-]*[0-9A-Za-z])?|[0-9A-Fa-f:]+")


# ---------------------------------------------------------------- reading


def read(session: Session, host: HostSystem) -> dict[str, Any]:
    with session.doing("read the power policy and the time servers"):
        manager = host.configManager
        power, clock, services = manager.powerSystem, manager.dateTimeSystem, manager.serviceSystem
        ntp = clock.dateTimeInfo.ntpConfig if clock else None
        current = power.info.currentPolicy if power else None
        known = {each.key: each for each in services.serviceInfo.service or []} if services else {}
        service = known.get(SERVICE)
        return {
            "host": host.name,
            "power_policy": _policy(current) if current else None,
            "power_policies": [_policy(each) for each in power.capability.availablePolicy or []] if power else [],
            "ntp_servers": list(ntp.server or []) if ntp else None,
            "ntp_service": {"running": service.running, "policy": service.policy} if service else None,
        }


def _policy(policy: Any) -> str:
    name: str = policy.shortName
    return POLICIES.get(name, name)


def lines(state: Mapping[str, object]) -> list[str]:
    """The settings for people, and for seeing whether a host is as it was before."""
    return [f"{NAMES[name]}: {text_of(state[name])}" for name in NAMES if state[name] is not None]


def text_of(value: object) -> str:
    if isinstance(value, dict):
        return f"{SERVICE} {'running' if value['running'] else 'stopped'}, policy {value['policy']}"
    return (", ".join(value) or "none") if isinstance(value, list) else str(value)


# ---------------------------------------------------------------- what is wanted


def check(power_policy: str, ntp_servers: list[str]) -> SettingsWant:
    """{setting: value} of what shall not stay as it is; raises bad_value."""
    for server in ntp_servers:
        if not _SERVER.fullmatch(server) or ntp_servers.count(server) > 1:
            remedy = "Name each time server once, by its IP address or its host name."
            raise bad_value("esxi_network_ntp_servers", server, remedy)
    wanted: SettingsWant = {}
    if power_policy and power_policy != AS_IS:
        wanted["power_policy"] = power_policy
    if ntp_servers:
        wanted["ntp_servers"] = list(ntp_servers)
    return wanted


def _values(state: dict[str, Any], want: SettingsWant) -> dict[str, object]:
    """The wish with the service that follows from the servers; raises a failure for a wish that the host cannot have."""
    values = dict(want)
    if "power_policy" in want:
        policy, offered = want["power_policy"], state["power_policies"]
        if policy not in offered:
            remedy = f"{state['host']} offers {', '.join(offered) or 'none'}."
            raise bad_value("esxi_network_power_policy", policy, remedy)
        if state["power_policy"] not in POLICIES.values():
            # The module knows four policies, and breaks off at any other.
            remedy = f"{state['host']} has {state['power_policy']}, which could not be given back; leave it as it is."
            raise bad_value("esxi_network_power_policy", policy, remedy)
    if "ntp_servers" in want:
        if state["ntp_servers"] is None or state["ntp_service"] is None:
            remedy = f"{state['host']} has no service {SERVICE} that could use them; leave them out."
            raise bad_value("esxi_network_ntp_servers", want["ntp_servers"], remedy)
        start = state["ntp_service"]["policy"]
        values["ntp_service"] = {"running": True, "policy": start if start in STARTS_WITH_HOST else "on"}
    return values


# ---------------------------------------------------------------- the plan


def left(state: dict[str, Any], want: SettingsWant, kept: dict[str, Any]) -> list[str]:
    """The settings that this testbed has set and wants no more, and that others have changed since. They stay."""
    return [name for name, entry in kept.items() if name not in _values(state, want) and not _known(entry, state[name])]


def _known(entry: dict[str, Any], now: object) -> bool:
    """Whether the host has what was there before, or what this testbed has set; a service may be halfway when a run breaks off."""
    values = [entry["was"], *entry["ours"]]
    if isinstance(now, dict) and not entry["done"]:
        return all(part in [value[key] for value in values] for key, part in now.items())
    return now in values


def warnings(state: dict[str, Any], want: SettingsWant, kept: dict[str, Any]) -> list[str]:
    return [
        f"Somebody has changed the {NAMES[name]} of {state['host']} from {text_of(kept[name]['ours'][-1])} to {text_of(state[name])}, "
        f"and this testbed leaves that. Before the testbed: {text_of(kept[name]['was'])}."
        for name in left(state, want, kept)
    ]


def plan(state: dict[str, Any], want: SettingsWant, kept: dict[str, Any], others: dict[str, str]) -> list[Step]:
    """The steps from the state to what is wanted, and to what was before of what is wanted no more; raises what must not be done.

    others: {setting: testbed} that other testbeds have set.
    """
    wills = _wills(state, want, kept)
    for name in want:
        if wills[name] != state[name] and name in others:
            raise Failure(
                "setting_foreign",
                f"The testbed {others[name]} has set the {NAMES[name]} of {state['host']} to {text_of(state[name])}.",
                f"Tear that testbed down first, or give both the same esxi_network_{name}.",
                name=name,
            )
    steps = [
        _step(state, name, wills[name])
        for name in ("power_policy", "ntp_servers")
        if name in wills and wills[name] != state[name]
    ]
    now, will = state["ntp_service"], wills.get("ntp_service", state["ntp_service"])
    # The service reads its servers when it starts.
    begun = "ntp_servers" in kept and not kept["ntp_servers"]["done"]
    unread = begun or any(step["kind"] == "ntp_servers" for step in steps)
    if now and (now != will or (unread and now["running"])):
        steps.append(_service_step(now, will, unread))
    return steps


def _wills(state: dict[str, object], want: SettingsWant, kept: dict[str, Any]) -> dict[str, Any]:
    """{setting: value} of all that this testbed has a say in."""
    values, stay = _values(state, want), left(state, want, kept)
    # Servers that others have set need the service that is there.
    stay += ["ntp_service"] if "ntp_servers" in stay else []
    return {
        **{name: entry["was"] for name, entry in kept.items() if name not in stay},
        **values,
    }


def _step(state: Mapping[str, object], name: str, will: object) -> Step:
    now, arguments = state[name], {"esxi_hostname": state["host"]}
    if name == "power_policy":
        arguments["policy"] = will
    elif will:
        arguments["ntp_servers"] = will
    else:
        # The module takes no list for nothing to do; it needs the names to remove.
        arguments |= {"ntp_servers": now, "state": "absent"}
    return {
        "op": "update",
        "kind": name,
        "target": NAMES[name],
        "was": text_of(now),
        "will": text_of(will),
        "arguments": arguments,
        "value": will,
    }


def _service_step(now: Mapping[str, object], will: Mapping[str, object], unread: bool) -> Step:
    act = "restart" if unread and will["running"] else None
    if now["running"] != will["running"]:
        act = "start" if will["running"] else "stop"
    return {
        "op": "update" if now != will else "restart",
        "kind": "ntp_service",
        "target": NAMES["ntp_service"],
        "was": text_of(now) if now != will else None,
        "will": text_of(will) if now != will else "restarted",
        "arguments": {"act": act, "policy": will["policy"] if now["policy"] != will["policy"] else None},
        "value": will,
    }


def noted(state: dict[str, Any], kept: dict[str, Any], steps: list[Step]) -> dict[str, Any]:
    """The record with what these steps are about to change."""
    result = dict(kept)
    for step in steps:
        if step["op"] == "restart":
            continue
        name = step["kind"]
        entry, now = kept.get(name), state[name]
        if entry is None or not _known(entry, now):
            # Somebody has changed it since: that is what was there before.
            entry = {"was": now, "ours": []}
        ours = entry["ours"] + ([step["value"]] if step["value"] not in (*entry["ours"], entry["was"]) else [])
        result[name] = {"was": entry["was"], "ours": ours, "done": False}
    return result


def confirmed(state: dict[str, object], want: SettingsWant, kept: dict[str, Any]) -> dict[str, Any]:
    """The record once all is there: what is wanted, and was otherwise before."""
    result = {}
    for name, value in _values(state, want).items():
        if name in kept:
            was, ours = kept[name]["was"], kept[name]["ours"]
            result[name] = {"was": was, "ours": [value] if value in (*ours, was) else ours, "done": True}
    return result


# ---------------------------------------------------------------- on the host


def serve(session: Session, host: HostSystem, steps: list[Step]) -> None:
    """Carry out the steps of the time service."""
    for arguments in [step["arguments"] for step in steps if step["kind"] == "ntp_service"]:
        with session.doing(f"{arguments['act'] or 'set'} the time service {SERVICE}"):
            services = host.configManager.serviceSystem
            if arguments["policy"]:
                services.UpdateServicePolicy(id=SERVICE, policy=arguments["policy"])
            if arguments["act"] == "start":
                services.StartService(id=SERVICE)
            elif arguments["act"] == "stop":
                services.StopService(id=SERVICE)
            elif arguments["act"] == "restart":
                services.RestartService(id=SERVICE)


def of_others(record: KeptRecord, state: Mapping[str, object]) -> dict[str, str]:
    """{setting: testbed} that other testbeds with the same folder have set on this host, as far as it still is as they set it."""
    result = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(os.path.dirname(record.path)), "network-*.json"))):
        if path == record.path:
            continue
        remedy = "Restore it, or remove it when nothing of that testbed is left on its host."
        other = read_json(path, remedy, {"settings?": {str: {"ours": [object]}}}) or {}
        if other.get("host") == state["host"]:
            for name, entry in other.get("settings", {}).items():
                if state[name] in entry["ours"]:
                    result[name] = other["testbed_id"]
    return result
