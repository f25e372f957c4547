# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses that hosts log in from, where targets let initiators in by address.

An ESXi host whose inventory names none logs in from its first VMkernel interface. A build reads the address from the host and keeps it beside the
secrets of the testbed, so that later playbooks derive the same without the host.
"""

from __future__ import annotations

import os

from ...module_utils.core.files import read_json
from .nouns import Lab
from .testbed import Host, Testbed, addresses_of, mappings

# The VMkernel interface that every ESXi host has.
INTERFACE = "vmk0"
RECORD = "addresses.json"


def login_addresses(lab: Lab, host: Host) -> list[str]:
    """As the inventory says, or as the host was asked; words in their place before it was."""
    if host.platform != "esxi":
        return [address for address, _port in addresses_of(host.own)]
    # The interfaces of its network for iSCSI are bound, and it uses only these.
    network = host.own.get("testbed_network")
    given = network.get("addresses") if isinstance(network, dict) else None
    ports = [port.get("address") for port in mappings(host.own.get("esxi_network_ports"))]
    own = [str(address).partition("/")[0] for address in (given if isinstance(given, list) else ports)]
    if not own and host.own.get("testbed_address"):
        own = [address for address, _port in addresses_of(host.own)]
    return own or [lab.get("addresses", {}).get(host.name) or words(host)]


def words(host: Host) -> str:
    return f"{INTERFACE} of {host.name}"


def without_address(lab: Lab, testbed: Testbed) -> list[str]:
    """The hosts that a build has to ask for their address."""
    if testbed.description.get("access") != "address":
        return []
    hosts = [testbed.hosts[name] for name in testbed.initiators]
    without: Lab = {**lab, "addresses": {}}
    return [host.name for host in hosts if login_addresses(without, host) == [words(host)]]


def recorded(state_dir: str) -> dict[str, str]:
    """{host: address} as hosts were asked."""
    return read_json(os.path.join(state_dir, RECORD), kind={str: str}) or {}
