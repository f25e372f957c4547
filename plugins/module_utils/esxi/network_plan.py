# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of the networks of an ESXi host: pure functions of its state and of the record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.steps import Step
from .states import NetworkState, NetworkWant

AREAS = ("switches", "port_groups", "interfaces")


def owned(state: NetworkState, record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The parts of the record that are there, by area and name; interfaces by the name of their port group."""
    there: dict[str, dict[str, Any]] = {
        "switches": {**state["switches"]},
        "port_groups": {**state["port_groups"]},
        "interfaces": by_group(state),
    }
    return {
        area: {
            name: kept
            for name, kept in record.get(area, {}).items()
            if name in there[area] and (kept["made"] or _as_recorded(there[area][name], kept))
        }
        for area in AREAS
    }


def by_group(state: NetworkState) -> dict[str, Any]:
    """The interfaces by the name of their port group."""
    return {nic["port_group"]: {**nic, "device": device} for device, nic in state["interfaces"].items()}


def _as_recorded(there: Mapping[str, object], kept: Mapping[str, object]) -> bool:
    return all(there.get(key) == value for key, value in kept.items() if key != "made")


def recorded(record: dict[str, object], want: NetworkWant, state: NetworkState) -> dict[str, Any]:
    """The record with what is about to be made: what is wanted and neither there nor recorded yet."""
    there, mine = by_group(state), owned(state, record)
    result = {area: {name: {**kept, "made": True} for name, kept in mine[area].items()} for area in AREAS}
    for name, switch in want["switches"].items():
        if name not in state["switches"]:
            result["switches"][name] = {"made": False, **switch}
    for name, port in want["ports"].items():
        if name not in state["port_groups"] or _moves(name, port, state, mine):
            result["port_groups"][name] = {"made": False, **_group_of(port)}
        if name not in there or _moves(name, port, state, mine):
            result["interfaces"][name] = {"made": False, **_nic_of(name, port)}
    return result


def confirmed(record: dict[str, object], state: NetworkState) -> dict[str, Any]:
    """The record once all is there."""
    mine = owned(state, record)
    return {area: {name: {**kept, "made": True} for name, kept in mine[area].items()} for area in AREAS if mine[area]}


def _group_of(port: Mapping[str, object]) -> dict[str, object]:
    return {"switch": port["switch"], "vlan": port["vlan"], "active": [port["uplink"]], "standby": []}


def _nic_of(name: str, port: Mapping[str, object]) -> dict[str, object]:
    return {"port_group": name, **{key: port[key] for key in ("address", "netmask", "mtu")}}


def _moves(name: str, port: dict[str, Any], state: NetworkState, mine: dict[str, Any]) -> bool:
    """Whether a port group of this testbed is wanted on another switch, and so is recreated with what is on it."""
    return name in mine["port_groups"] and state["port_groups"][name]["switch"] != port["switch"]


def plan(state: NetworkState, want: NetworkWant, record: dict[str, Any]) -> list[Step]:
    """The steps from the state to what is wanted; raises what must not be done, before anything is."""
    mine = owned(state, record)
    for name, switch in want["switches"].items():
        _check_switch(name, switch, state, mine)
    for name, port in want["ports"].items():
        _check_port(name, port, state, mine, want)
    there = by_group(state)
    moved = {name for name, port in want["ports"].items() if _moves(name, port, state, mine)}
    gone = {area: {name for name in mine[area] if name not in want["ports"] or name in moved} for area in AREAS}
    gone["switches"] = {name for name in mine["switches"] if name not in want["switches"]}
    steps = removal(state, gone)
    before, after = [], []
    for name, switch in want["switches"].items():
        was = state["switches"].get(name)
        if was is None:
            before.append(_switch_step(state, name, None, switch))
        elif name in mine["switches"] and was != switch:
            # The interfaces on it may still use an uplink or an MTU that it is about to lose.
            wide = {
                "uplinks": sorted({*was["uplinks"], *switch["uplinks"]}),
                "mtu": max(was["mtu"], switch["mtu"]),
            }
            before += [_switch_step(state, name, was, wide)] if wide != was else []
            after += [_switch_step(state, name, wide, switch)] if wide != switch else []
    ports = []
    for name, port in want["ports"].items():
        group, nic = (None, None) if name in moved else (state["port_groups"].get(name), there.get(name))
        if group is None or (name in mine["port_groups"] and group != _group_of(port)):
            ports.append(_group_step(state, name, group, _group_of(port)))
        wanted = _nic_of(name, port)
        if nic is None or (name in mine["interfaces"] and {key: nic[key] for key in wanted} != wanted):
            ports.append(_nic_step(state, name, nic, wanted, port["switch"]))
    return steps + before + ports + after


def absent_plan(state: NetworkState, record: dict[str, object]) -> list[Step]:
    left = kept(state, record)
    return removal(state, {area: set(names) - left[area] for area, names in owned(state, record).items()})


def kept(state: NetworkState, record: dict[str, object]) -> dict[str, set[str]]:
    """The testbed's own things that a teardown leaves, by area: interfaces through which others go on using iSCSI, and what is below them.

    The adapter is given back before the network, so an interface that is bound then is kept for them.
    """
    mine, there = owned(state, record), by_group(state)
    groups = {name for name in mine["interfaces"] if there[name]["device"] in state["bound"]}
    switches = {state["port_groups"][name]["switch"] for name in groups}
    return {
        "interfaces": groups,
        "port_groups": groups & set(mine["port_groups"]),
        "switches": switches & set(mine["switches"]),
    }


def kept_text(state: NetworkState, record: dict[str, object]) -> list[str]:
    devices = [by_group(state)[name]["device"] for name in sorted(kept(state, record)["interfaces"])]
    if not devices:
        return []
    return [
        f"{', '.join(devices)} of {state['host']} stay with the port groups and switches below them, because they are still bound to the iSCSI adapter, "
        "which others use. Run teardown again when they are gone."
    ]


def removal(state: NetworkState, gone: dict[str, set[str]]) -> list[Step]:
    """The steps that remove these, from the top down; raises where something of others, or the management network, is on one of them."""
    there, steps = by_group(state), []
    for name in sorted(gone["interfaces"]):
        nic = there[name]
        if nic["device"] in state["management"]:
            raise _management(f"{nic['device']} of {state['host']} carries the management network by now", "remove it")
        if nic["device"] in state["bound"]:
            raise Failure(
                "in_use",
                f"{nic['device']} of {state['host']} is bound to an iSCSI adapter.",
                "Unbind it first, as teardown does.",
                name=nic["device"],
            )
        steps.append(_nic_step(state, name, nic, None, state["port_groups"][name]["switch"]))
    for name in sorted(gone["port_groups"]):
        if name in there and name not in gone["interfaces"]:
            raise _used(state, f"the port group {name}", f"the interface {there[name]['device']}")
        steps.append(_group_step(state, name, state["port_groups"][name], None))
    for name in sorted(gone["switches"]):
        others = {group for group, each in state["port_groups"].items() if each["switch"] == name}
        others -= gone["port_groups"]
        if others:
            raise _used(state, f"the switch {name}", f"the port group {', '.join(sorted(others))}")
        steps.append(_switch_step(state, name, state["switches"][name], None))
    return steps


def _used(state: NetworkState, what: str, by: str) -> Failure:
    return Failure(
        "in_use",
        f"On {what} of {state['host']} is {by}, which this testbed has not made.",
        "Move it elsewhere, and run again.",
        name=what,
    )


def _management(what: str, action: str) -> Failure:
    return Failure(
        "management_network",
        f"{what}; this testbed does not {action}.",
        "Give iSCSI a port group and an address of its own.",
    )


def _foreign(state: NetworkState, what: str, has: str) -> Failure:
    return Failure(
        "network_foreign",
        f"{what} of {state['host']} was there before and {has}; this testbed changes nothing that it has not made.",
        "Describe it as it is, or give another name.",
    )


def _check_switch(name: str, switch: dict[str, Any], state: NetworkState, mine: dict[str, Any]) -> None:
    variable, now = f"esxi_network_switches {name}", state["switches"].get(name)
    for nic in switch["uplinks"]:
        if nic not in state["nics"]:
            raise bad_value(
                f"{variable} uplinks", nic, f"{state['host']} has {', '.join(state['nics']) or 'no adapter'}."
            )
        holder = next((other for other, each in state["switches"].items() if nic in each["uplinks"]), name)
        if holder != name and holder in _management_switches(state):
            raise _management(f"{nic} of {state['host']} is an uplink of the management network ({holder})", "take it")
        if holder != name and holder not in mine["switches"]:
            raise bad_value(f"{variable} uplinks", nic, f"The switch {holder} has it; name one that is free.")
        if holder != name:
            raise bad_value(
                f"{variable} uplinks", nic, f"The switch {holder} of this testbed has it; tear that down first."
            )
    if now is not None and name not in mine["switches"] and now != switch:
        raise _foreign(
            state, f"The switch {name}", f"has the uplinks {', '.join(now['uplinks']) or 'none'} and MTU {now['mtu']}"
        )


def _management_switches(state: NetworkState) -> set[str]:
    groups = {state["interfaces"][device]["port_group"] for device in state["management"]}
    return {state["port_groups"][group]["switch"] for group in groups if group in state["port_groups"]}


def _check_port(name: str, port: dict[str, Any], state: NetworkState, mine: dict[str, Any], want: NetworkWant) -> None:
    variable, nic = f"esxi_network_ports {name}", by_group(state).get(name)
    switch = want["switches"].get(port["switch"]) or state["switches"].get(port["switch"])
    if switch is None:
        known = sorted({*want["switches"], *state["switches"]})
        raise bad_value(f"{variable} switch", port["switch"], f"{state['host']} has {', '.join(known)}.")
    if port["uplink"] not in switch["uplinks"]:
        raise bad_value(
            f"{variable} uplink", port["uplink"], f"{port['switch']} has {', '.join(switch['uplinks']) or 'none'}."
        )
    if port["mtu"] > switch["mtu"]:
        raise bad_value(f"{variable} mtu", port["mtu"], f"{port['switch']} carries {switch['mtu']}; give no more.")
    if nic and nic["device"] in state["management"]:
        raise _management(f"The port group {name} of {state['host']} belongs to {nic['device']}, which carries the management network", "touch it")  # fmt: skip
    for device, other in state["interfaces"].items():
        if other["address"] == port["address"] and other["port_group"] != name:
            if device in state["management"]:
                raise _management(
                    f"{port['address']} is the address of {device} of {state['host']}, which carries the management network",
                    "touch it",
                )
            if other["port_group"] not in mine["interfaces"] or other["port_group"] in want["ports"]:
                raise bad_value(
                    f"{variable} address", port["address"], f"{device} of {state['host']} has it; give another."
                )
    group = state["port_groups"].get(name)
    if group and name not in mine["port_groups"] and group != _group_of(port):
        raise _foreign(
            state,
            f"The port group {name}",
            f"is on {group['switch']} with VLAN {group['vlan']}, the active uplinks {', '.join(group['active']) or 'none'} "
            f"and {', '.join(group['standby']) or 'none'} standing by",
        )
    wanted = _nic_of(name, port)
    if nic and {key: nic[key] for key in wanted} != wanted:
        if name not in mine["interfaces"]:
            raise _foreign(
                state, nic["device"], f"has the address {nic['address']}, {nic['netmask']} and MTU {nic['mtu']}"
            )
        if nic["device"] in state["bound"] and (nic["address"], nic["netmask"]) != (port["address"], port["netmask"]):
            raise Failure(
                "in_use",
                f"{nic['device']} of {state['host']} is bound to an iSCSI adapter and cannot get another address.",
                "Tear down first, and build again.",
                name=nic["device"],
            )


def _step(
    kind: str,
    name: str,
    was: Mapping[str, object] | None,
    will: Mapping[str, object] | None,
    arguments: Mapping[str, object],
) -> Step:
    op = "create" if was is None else "remove" if will is None else "update"
    return {
        "op": op,
        "kind": kind,
        "target": f"{kind.replace('_', ' ')} {name}",
        "was": was and in_words(was),
        "will": will and in_words(will),
        "arguments": {**arguments, "state": "absent" if will is None else "present"},
    }


def in_words(entry: Mapping[str, object]) -> str:
    plain = {key: ", ".join(value) if isinstance(value, list) else value for key, value in entry.items()}
    return ", ".join(
        f"{key.replace('_', ' ')} {value}" for key, value in plain.items() if value != "" and value is not None
    )


def _switch_step(state: NetworkState, name: str, was: Any, will: Any) -> Step:
    wanted = {"nics": will["uplinks"], "mtu": will["mtu"]} if will else {}
    return _step("switch", name, was, will, {"switch": name, "esxi_hostname": state["host"], **wanted})


def _group_step(state: NetworkState, name: str, was: Any, will: Any) -> Step:
    arguments = {"portgroup": name, "switch": (will or was)["switch"], "hosts": [state["host"]]}
    if will:
        teaming = {"active_adapters": will["active"], "standby_adapters": will["standby"]}
        arguments |= {"vlan_id": will["vlan"], "teaming": teaming}
    return _step("port_group", name, was, will, arguments)


def _nic_step(state: NetworkState, name: str, nic: Any, will: Any, switch: str) -> Step:
    arguments: dict[str, Any] = {"portgroup_name": name, "vswitch_name": switch, "esxi_hostname": state["host"]}
    if nic:
        # Without it the module would look for an interface by its address, and might find another.
        arguments["device"] = nic["device"]
    if will:
        network = {"type": "static", "ip_address": will["address"], "subnet_mask": will["netmask"]}
        arguments |= {"mtu": will["mtu"], "network": {**network, "tcpip_stack": "default"}}
    was = nic and {key: nic[key] for key in ("port_group", "address", "netmask", "mtu")}
    return _step("interface", nic["device"] if nic else f"on {name}", was, will, arguments)
