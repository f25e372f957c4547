# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network below software iSCSI in an ESXi host: standard switches, port groups and VMkernel interfaces, as plain data and a plan.

The plan is carried out by the modules of community.vmware, one call per step; ``arguments`` of a step are the arguments of its module, without the login.

State::

    {host: its name, management: [vmk], bound: [vmk], nics: [vmnic],
     switches: {name: {uplinks: [vmnic], mtu}},
     port_groups: {name: {switch, vlan, active: [vmnic], standby: [vmnic]}},
     interfaces: {vmk: {port_group, address, netmask, mtu}}}

Record: what this testbed has made, or is about to make, by name::

    {switches|port_groups|interfaces: {name: {made: bool, ...as it was asked for}}, settings: see settings.py, host, testbed_id: with settings}

An interface is recorded by the name of its port group, because the host names it only when it is there. A thing that was asked for and never confirmed
(``made: false``: a run broke off) counts as made by this testbed only if it is there exactly so.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.kept_record import KeptRecord
from ..core.steps import Step, shown
from . import scsi, settings, trust
from .params import NetworkParams, NetworkPortOption, NetworkSwitchOption
from .session import Session
from .states import HostSystem, Interface, NetworkState, NetworkWant, PortGroup

LEAST_MTU, MOST_MTU, MOST_VLAN, LONGEST_SWITCH_NAME = 1280, 9000, 4095, 31
AREAS = ("switches", "port_groups", "interfaces")
# Its first interface carries the management of a host, whatever the services that are ticked say.
FIRST = "vmk0"


# ---------------------------------------------------------------- reading


def read(session: Session, host: HostSystem) -> NetworkState:
    with session.doing("read the network"):
        info = host.configManager.networkSystem.networkInfo
        interfaces = {nic.device: _interface(nic) for nic in info.vnic or []}
        services = host.configManager.virtualNicManager.info.netConfig or []
        return {
            "host": host.name,
            "management": sorted({FIRST, *_selected(services), *_reached(session, interfaces)} & set(interfaces)),
            "bound": _bound(session, host),
            "nics": sorted(nic.device for nic in info.pnic or []),
            "switches": {
                switch.name: {
                    "uplinks": sorted(getattr(switch.spec.bridge, "nicDevice", None) or []),
                    "mtu": switch.mtu,
                }
                for switch in info.vswitch or []
            },
            "port_groups": {group.spec.name: _port_group(group) for group in info.portgroup or []},
            "interfaces": interfaces,
        }


def _interface(nic: Any) -> Interface:
    return {
        "port_group": nic.spec.portgroup or nic.portgroup or None,
        "address": nic.spec.ip.ipAddress,
        "netmask": nic.spec.ip.subnetMask,
        "mtu": nic.spec.mtu,
    }


def _port_group(group: Any) -> PortGroup:
    """With the adapters that it uses in the end: its own order, or that of its switch."""
    order = group.computedPolicy.nicTeaming.nicOrder if group.computedPolicy.nicTeaming else None
    return {
        "switch": group.spec.vswitchName,
        "vlan": group.spec.vlanId,
        "active": list(order.activeNic or []) if order else [],
        "standby": list(order.standbyNic or []) if order else [],
    }


def _selected(services: Any) -> list[str]:
    """The interfaces that are ticked for management. A host writes a selected one by its key, with or without the service before it."""
    return [
        nic.device
        for service in services
        if service.nicType == "management"
        for nic in service.candidateVnic or []
        if {nic.key, f"management.{nic.key}"} & set(service.selectedVnic or [])
    ]


def _reached(session: Session, interfaces: dict[str, Interface]) -> list[str]:
    """The interface with the address over which this session came."""
    return [device for device, nic in interfaces.items() if nic["address"] == session.params["hostname"]]


def _bound(session: Session, host: HostSystem) -> list[str]:
    manager, bound = host.configManager.iscsiManager, set()
    for adapter in scsi.Devices(session, host, "adapters").adapters:
        if manager is not None and isinstance(adapter, session.vim.host.InternetScsiHba):
            bound |= {port.vnicDevice for port in manager.QueryBoundVnics(adapter.device) or []}
    return sorted(bound)


# ---------------------------------------------------------------- what is wanted


def check(switches: list[NetworkSwitchOption], ports: list[NetworkPortOption]) -> NetworkWant:
    """{switches: {name: {uplinks, mtu}}, ports: {port group: {switch, vlan, uplink, address, netmask, mtu}}}; raises bad_value."""
    wanted: NetworkWant = {"switches": {}, "ports": {}}
    for switch in switches:
        name, variable = switch["name"], f"esxi_network_switches {switch['name']}"
        if not 1 <= len(name) <= LONGEST_SWITCH_NAME:
            raise bad_value("esxi_network_switches name", name, f"Give 1 to {LONGEST_SWITCH_NAME} characters.")
        if name in wanted["switches"]:
            raise bad_value("esxi_network_switches", name, "Name each switch once.")
        if not switch["uplinks"] or len(set(switch["uplinks"])) != len(switch["uplinks"]):
            raise bad_value(
                f"{variable} uplinks", switch["uplinks"], "Name its physical adapters, such as vmnic1, each once."
            )
        _mtu(variable, switch["mtu"])
        wanted["switches"][name] = {"uplinks": sorted(switch["uplinks"]), "mtu": switch["mtu"]}
    taken: dict[Any, str] = {}
    for port in ports:
        name, variable = port["port_group"], f"esxi_network_ports {port['port_group']}"
        if not name:
            raise bad_value("esxi_network_ports port_group", name, "Name the port group.")
        if name in wanted["ports"]:
            raise bad_value("esxi_network_ports", name, "Give each interface a port group of its own.")
        entry: dict[str, Any] = {
            "switch": port["switch"],
            "vlan": port["vlan"],
            "uplink": port["uplink"],
            "mtu": port["mtu"],
        }
        entry |= _address(variable, port["address"])
        if entry["address"] in taken:
            raise bad_value(
                f"{variable} address", port["address"], f"{taken[entry['address']]} has it; give each its own."
            )
        taken[entry["address"]] = name
        if not 0 <= port["vlan"] <= MOST_VLAN:
            raise bad_value(f"{variable} vlan", port["vlan"], f"Give 0 to {MOST_VLAN}.")
        _mtu(variable, port["mtu"])
        there = wanted["switches"].get(port["switch"])
        if there and port["uplink"] not in there["uplinks"]:
            raise bad_value(
                f"{variable} uplink", port["uplink"], f"{port['switch']} has {', '.join(there['uplinks'])}."
            )
        if there and port["mtu"] > there["mtu"]:
            raise bad_value(
                f"{variable} mtu", port["mtu"], f"Give no more than that of {port['switch']}, {there['mtu']}."
            )
        wanted["ports"][name] = entry
    return wanted


def _mtu(variable: str, mtu: int) -> None:
    if not LEAST_MTU <= mtu <= MOST_MTU:
        raise bad_value(f"{variable} mtu", mtu, f"Give {LEAST_MTU} to {MOST_MTU}.")


def _address(variable: str, text: str) -> dict[str, object]:
    try:
        interface = ipaddress.IPv4Interface(text)
    except ValueError:
        interface = None
    if (
        interface is None
        or "/" not in text
        or interface.network.prefixlen > 30
        or interface.ip == interface.network.network_address
    ):
        raise bad_value(
            f"{variable} address", text, "Give an IPv4 address with the length of its network, such as 192.0.2.21/24."
        )
    return {"address": str(interface.ip), "netmask": str(interface.netmask)}


# ---------------------------------------------------------------- whose is what


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


# ---------------------------------------------------------------- the plan


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


# ---------------------------------------------------------------- steps, as the modules of community.vmware take them


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
        "was": was and _text(was),
        "will": will and _text(will),
        "arguments": {**arguments, "state": "absent" if will is None else "present"},
    }


def _text(entry: Mapping[str, object]) -> str:
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


# ---------------------------------------------------------------- the module

SWITCH = {
    "name": {"type": "str", "required": True},
    "uplinks": {"type": "list", "elements": "str", "required": True},
    "mtu": {"type": "int", "default": 1500},
}
PORT = {
    "port_group": {"type": "str", "required": True},
    "switch": {"type": "str", "required": True},
    "uplink": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "vlan": {"type": "int", "default": 0},
    "mtu": {"type": "int", "default": 1500},
}
SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "confirm": {"type": "bool", "default": False},
    "state_dir": {"type": "path", "required": True},
    "switches": {"type": "list", "elements": "dict", "default": [], "options": SWITCH},
    "ports": {"type": "list", "elements": "dict", "default": [], "options": PORT},
    "power_policy": {
        "type": "str",
        "choices": [settings.AS_IS, *settings.POLICIES.values()],
        "default": settings.AS_IS,
    },
    "ntp_servers": {"type": "list", "elements": "str", "default": []},
    "wait_s": {"type": "int", "default": 60},
}


def ensure(session: Session, params: NetworkParams, check_mode: bool) -> dict[str, object]:
    """The work of the module esxi_network: the plan, or with ``confirm`` that nothing is left of it. The result may have ``warnings``."""
    host = session.host()
    present = params["state"] == "present"
    want = check(params["switches"], params["ports"]) if present else {"switches": {}, "ports": {}}
    want["settings"] = settings.check(params["power_policy"], params["ntp_servers"]) if present else {}
    with session.doing("read its name"):
        name = host.name
    record = KeptRecord(params["state_dir"], f"network-{params['testbed_id']}", name)

    def look() -> NetworkState:
        # A login that is to change none of the host's settings need not be allowed to read them.
        concerned = want["settings"] or record.data.get("settings")
        return {**read(session, host), "settings": settings.read(session, host) if concerned else {}}

    def steps_of(now: NetworkState) -> list[Step]:
        steps = plan(now, want, record.data) if present else absent_plan(now, record.data)
        return steps + settings_of(now)

    def settings_of(now: NetworkState) -> list[Step]:
        if not now["settings"]:
            return []
        others = settings.of_others(record, now["settings"])
        return settings.plan(now["settings"], want["settings"], record.data.get("settings", {}), others)

    state = look()
    if not params["confirm"]:
        steps, noted = steps_of(state), record.data.get("settings", {})
        warnings = settings.warnings(state["settings"], want["settings"], noted)
        warnings += [] if present else kept_text(state, record.data)
        if steps and not check_mode:
            record.data = {**record.data, **(recorded(record.data, want, state) if present else {})}
            _note_settings(record, params, state, settings.noted(state["settings"], noted, settings_of(state)))
            record.save()
        if not steps and not present and not check_mode and not kept(state, record.data)["interfaces"]:
            record.forget()
        calls = [
            {key: step[key] for key in ("kind", "target", "arguments")}
            for step in steps
            if step["kind"] != "ntp_service"
        ]
        file = os.path.join(params["state_dir"], KeptRecord.FOLDER, f"certificate-{params['hostname']}.pem")
        login = trust.handed_on(params, file) if steps and not check_mode else {}
        answer = {"calls": calls, "login": login, "interfaces": _interfaces(state, want)}
        return {**shown(steps), **answer, "warnings": warnings}
    if not check_mode:
        settings.serve(session, host, settings_of(state))

    def left_of(now: NetworkState) -> list[Step]:
        # The restart was made and does not show.
        return [step for step in steps_of(now) if step["op"] != "restart"]

    state = session.until(look, lambda now: not left_of(now), params["wait_s"])
    left = left_of(state)
    if left:
        raise Failure(
            "change_unseen",
            f"{state['host']} does not show a change {params['wait_s']} s after it was made: {left[0]['op']} {left[0]['target']}.",
            "Look at the host's events, and run again.",
        )
    noted = settings.confirmed(state["settings"], want["settings"], record.data.get("settings", {}))
    record.data = confirmed(record.data, state)
    _note_settings(record, params, state, noted)
    if record.data:
        record.save()
    else:
        record.forget()
    return {"changed": False, "interfaces": _interfaces(state, want)}


def _note_settings(record: KeptRecord, params: NetworkParams, state: NetworkState, kept: Mapping[str, object]) -> None:
    """Put the settings into the record, with whose they are on which host, for other testbeds to see."""
    record.data = {key: value for key, value in record.data.items() if key in AREAS}
    if kept:
        record.data |= {"settings": kept, "host": state["host"], "testbed_id": params["testbed_id"]}


def _interfaces(state: NetworkState, want: NetworkWant) -> dict[str, str]:
    """{port group: interface} of what is wanted and there."""
    return {name: nic["device"] for name, nic in by_group(state).items() if name in want["ports"]}


def lines(state: NetworkState) -> list[str]:
    """The network for people, and for seeing whether a host is as it was before."""
    return [
        *(f"switch {name}: {_text(each)}" for name, each in state["switches"].items()),
        *(f"port group {name}: {_text(each)}" for name, each in state["port_groups"].items()),
        *(f"interface {device}: {_text(each)}" for device, each in state["interfaces"].items()),
    ]


def devices_of(session: Session, host: HostSystem, names: list[str]) -> list[str]:
    """The interfaces that are meant by their own name or by that of the port group that they are on."""
    groups = by_group(read(session, host)) if names else {}
    return [groups[name]["device"] if name in groups else name for name in names]
