# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network below software iSCSI in an ESXi host: standard switches, port groups and VMkernel interfaces, as plain data.

The plan (network_plan.py) is carried out by the modules of community.vmware, one call per step; ``arguments`` of a step are the arguments of its module,
without the login.

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
from typing import Any, cast

from ..core.failure import Failure, bad_value
from ..core.kept_record import KeptRecord
from ..core.steps import Step, shown
from . import scsi, settings, trust
from .area import HostArea
from .network_plan import AREAS, absent_plan, by_group, confirmed, in_words, kept, kept_text, plan, recorded
from .params import NetworkParams, NetworkPortOption, NetworkSwitchOption
from .session import Session
from .states import HostSystem, Interface, NetworkState, NetworkWant, PortGroup

LEAST_MTU, MOST_MTU, MOST_VLAN, LONGEST_SWITCH_NAME = 1280, 9000, 4095, 31
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


class Area(HostArea):
    """The calls that others' modules carry out; ``confirm`` looks for what they did. The answer may have ``warnings``."""

    def begin(self) -> None:
        """Checks the arguments and reads the host."""
        params, present = self.params, self.present
        self.host = self.session.host()
        self.want = want = check(params["switches"], params["ports"]) if present else {"switches": {}, "ports": {}}
        want["settings"] = settings.check(params["power_policy"], params["ntp_servers"]) if present else {}
        with self.session.doing("read its name"):
            name = self.host.name
        self.record = KeptRecord(params["state_dir"], f"network-{params['testbed_id']}", name)
        self.state = self.look()

    def plan(self) -> list[Step]:
        self.begin()
        steps = self.steps_of(self.state)
        self.noted = self.record.data.get("settings", {})
        self.warnings = settings.warnings(self.state["settings"], self.want["settings"], self.noted)
        self.warnings += [] if self.present else kept_text(self.state, self.record.data)
        return steps

    def look(self) -> NetworkState:
        # A login that is to change none of the host's settings need not be allowed to read them.
        concerned = self.want["settings"] or self.record.data.get("settings")
        return {
            **read(self.session, self.host),
            "settings": settings.read(self.session, self.host) if concerned else {},
        }

    def steps_of(self, now: NetworkState) -> list[Step]:
        steps = plan(now, self.want, self.record.data) if self.present else absent_plan(now, self.record.data)
        return steps + self.settings_of(now)

    def settings_of(self, now: NetworkState) -> list[Step]:
        if not now["settings"]:
            return []
        others = settings.of_others(self.record, now["settings"])
        return settings.plan(now["settings"], self.want["settings"], self.record.data.get("settings", {}), others)

    def apply(self, steps: list[Step]) -> None:
        record, state = self.record, self.state
        if steps:
            record.data = {**record.data, **(recorded(record.data, self.want, state) if self.present else {})}
            of_settings = self.settings_of(state)
            _note_settings(record, self.params, state, settings.noted(state["settings"], self.noted, of_settings))
            record.save()
        elif not self.present and not kept(state, record.data)["interfaces"]:
            record.forget()

    def answer(self, steps: list[Step]) -> dict[str, Any]:
        calls = [
            {key: step[key] for key in ("kind", "target", "arguments")}
            for step in steps
            if step["kind"] != "ntp_service"
        ]
        params = self.params
        file = os.path.join(params["state_dir"], KeptRecord.FOLDER, f"certificate-{params['hostname']}.pem")
        login = trust.handed_on(params, file) if steps and not self.check_mode else {}
        answer = {"calls": calls, "login": login, "interfaces": _interfaces(self.state, self.want)}
        return {**shown(steps), **answer, "warnings": self.warnings}


def confirm(session: Session, params: NetworkParams, check_mode: bool) -> dict[str, object]:
    """Proves that the host shows what the calls did, and notes it."""
    area = Area(session, cast("dict[str, Any]", params), check_mode)
    area.begin()
    record = area.record
    if not check_mode:
        settings.serve(session, area.host, area.settings_of(area.state))

    def left_of(now: NetworkState) -> list[Step]:
        # The restart was made and does not show.
        return [step for step in area.steps_of(now) if step["op"] != "restart"]

    state: NetworkState = session.until(area.look, lambda now: not left_of(now), params["wait_s"])
    left = left_of(state)
    if left:
        raise Failure(
            "change_unseen",
            f"{state['host']} does not show a change {params['wait_s']} s after it was made: {left[0]['op']} {left[0]['target']}.",
            "Look at the host's events, and run again.",
        )
    noted = settings.confirmed(state["settings"], area.want["settings"], record.data.get("settings", {}))
    record.data = confirmed(record.data, state)
    _note_settings(record, params, state, noted)
    if record.data:
        record.save()
    else:
        record.forget()
    return {"changed": False, "interfaces": _interfaces(state, area.want)}


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
        *(f"switch {name}: {in_words(each)}" for name, each in state["switches"].items()),
        *(f"port group {name}: {in_words(each)}" for name, each in state["port_groups"].items()),
        *(f"interface {device}: {in_words(each)}" for device, each in state["interfaces"].items()),
    ]


def devices_of(session: Session, host: HostSystem, names: list[str]) -> list[str]:
    """The interfaces that are meant by their own name or by that of the port group that they are on."""
    groups = by_group(read(session, host)) if names else {}
    return [groups[name]["device"] if name in groups else name for name in names]
