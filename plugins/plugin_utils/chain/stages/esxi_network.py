# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``esxi_network``: the interfaces of an ESXi host for iSCSI."""

from __future__ import annotations

from typing import Any

from ....module_utils.core.failure import Failure
from ....module_utils.esxi import network as esxi_network
from ....module_utils.esxi import settings as esxi_settings
from ..description import NETWORK
from ..shape import UNFIT, fit_mapping
from ..stage import Stage
from ..testbed import Context, Host


class EsxiNetwork(Stage):
    name = "esxi_network"
    variables = (
        "esxi_network_ports",
        "esxi_network_switches",
    )

    def derive(self, context: Context) -> None:
        for host in context.testbed.hosts.values():
            _network(context, host)

    def runs_on(self, context: Context, host: Host) -> bool:
        # The parts of its network that were made are recorded on the controller, even if the description has changed.
        return host.platform == "esxi" and host.name in context.testbed.initiators


def _network(context: Context, host: Host) -> None:
    """The interfaces of an ESXi host for iSCSI: one for each uplink, each with a port group of its own, which are then bound."""
    variable, words = f"testbed_network of {host.name}", host.own.get("testbed_network")
    switches: list[dict[str, Any]] = []
    ports: list[dict[str, Any]] = []
    if words is not None and host.platform != "esxi":
        context.problem(variable, None, "is for ESXi hosts only", "remove it; networks of other hosts are their own")
    elif isinstance(words, dict):
        network = fit_mapping(variable, words, NETWORK, context.testbed.problems)
        if network is not UNFIT:
            switches, ports = _switches_and_ports(context, variable, network)
    elif words is not None:
        context.problem(variable, words, "", "write a mapping with uplinks and addresses")
    if host.platform == "esxi":
        because = "testbed_network" if words else "no network is described for it"
        context.derive(host, "esxi_network_switches", switches, because)
        context.derive(host, "esxi_network_ports", ports, because)
        _esxi_settings(context, host)


def _esxi_settings(context: Context, host: Host) -> None:
    """Nothing follows from these; the role takes them as they are."""
    policy = host.own.get("esxi_network_power_policy") or esxi_settings.AS_IS
    try:
        esxi_settings.check(policy, host.own.get("esxi_network_ntp_servers") or [])
    except Failure as failure:
        wrong = failure.details
        context.problem(f"{wrong['variable']} of {host.name}", wrong["value"], "", failure.remedy)


def _switches_and_ports(
    context: Context, variable: str, network: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    uplinks, addresses, name = network["uplinks"], network["addresses"], f"storlab-{context.testbed.testbed_id}"
    if not uplinks or len(uplinks) != len(addresses):
        context.problem(
            f"{variable} addresses",
            addresses,
            f"for the uplinks {', '.join(uplinks) or 'none'}",
            "write one address for each uplink",
        )
        return [], []
    switch = network.get("switch") or name
    switches: list[Any] = [] if network.get("switch") else [{"name": name, "uplinks": uplinks, "mtu": network["mtu"]}]
    same = {"switch": switch, "vlan": network["vlan"], "mtu": network["mtu"]}
    ports: list[Any] = [
        {"port_group": f"{name}-{number}", "uplink": uplink, "address": address, **same}
        for number, (uplink, address) in enumerate(zip(uplinks, addresses), 1)
    ]
    try:
        esxi_network.check(switches, ports)
    except Failure as failure:
        wrong = failure.details
        variable = f"{variable} (from which follows {wrong['variable']})"
        context.problem(variable, wrong["value"], "", failure.remedy)
        return [], []
    return switches, ports
