# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of an ESXi host that its figures depend on, so that runs under other settings are not compared as if they were alike.

Settings, JSON-able; what the host does not have, or does not let this login read, is absent::

    {iscsi_adapter: {DelayedAck: bool, …}: the software adapter's options, iscsi_module: options of its kernel module,
     host_options: {ISCSI.MaxIoSizeKB: int}, power_policy: str,
     network: {vmk1: {mtu}, vSwitch1: {mtu}, vmnic1: {driver, driver_version, speed_mbit_s}}: what iSCSI goes through,
     luns: {canonical name: {path_policy, array_type, paths, degraded: True where paths are down, queue_depth, vaai}}}
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..core.failure import Failure
from . import adapter, scsi
from .session import Session
from .states import HostSystem

# A login that may read counters need not be allowed to read everything; what it may not read differs from nothing.
UNREAD = ("no_permission", "refused")
# vStorageSupported
_VAAI = "vStorage"


def read(session: Session, host: HostSystem) -> dict[str, Any]:
    iscsi = _read(lambda: dict(adapter.read(session, host)))
    settings = {
        "iscsi_adapter": iscsi.get("options"),
        "iscsi_module": iscsi.get("module_options"),
        "host_options": _read(lambda: _host_options(session, host)),
        "power_policy": _read(lambda: _power(session, host)).get("policy"),
        "network": _read(lambda: _network(session, host, iscsi)),
        "luns": _read(lambda: _luns(session, host)),
    }
    return {key: value for key, value in settings.items() if value}


def _read(look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return look()
    except Failure as failure:
        if failure.code not in UNREAD:
            raise
        return {}


def _host_options(session: Session, host: HostSystem) -> dict[str, object]:
    with session.doing("read its options"):
        # ESXi 6.0 to 9.0 have it; what a host does not have differs from nothing.
        return _known({key: adapter.host_option(session, host, key) for key in adapter.HOST_OPTIONS})


def _power(session: Session, host: HostSystem) -> dict[str, object]:
    with session.doing("read its power policy"):
        info = session.properties(host, "config.powerSystemInfo").get("config.powerSystemInfo")
    return {"policy": info.currentPolicy.shortName} if info else {}


def _network(session: Session, host: HostSystem, iscsi: dict[str, Any]) -> dict[str, object]:
    with session.doing("read the network"):
        info = host.configManager.networkSystem.networkInfo
        nics = {nic.key: nic for nic in info.pnic or []}
        switches = {
            # Standard switches are named by their port groups, distributed ones by their UUID.
            **{switch.name: (switch.name, switch) for switch in info.vswitch or []},
            **{switch.dvsUuid: (switch.dvsName, switch) for switch in info.proxySwitch or []},
        }
        groups = {group.spec.name: group.spec.vswitchName for group in info.portgroup or []}
        interfaces = {port.device: port for port in info.vnic or []}
        places = {
            device: (port.spec.ip.ipAddress, port.spec.ip.subnetMask)
            for device, port in interfaces.items()
            if port.spec.ip
        }
        used = carrying(places, iscsi.get("bound", ()), {target["address"] for target in iscsi.get("targets", ())})
        network: dict[str, Any] = {}
        for device in sorted(used & set(interfaces)):
            spec = interfaces[device].spec
            network[device] = {"mtu": spec.mtu}
            distributed = spec.distributedVirtualPort
            key = distributed.switchUuid if distributed else groups.get(spec.portgroup or interfaces[device].portgroup)
            if key not in switches:
                continue
            name, switch = switches[key]
            network[name] = {"mtu": switch.mtu}
            network.update({nics[pnic].device: _nic(nics[pnic]) for pnic in switch.pnic or [] if pnic in nics})
    return {name: _known(facts) for name, facts in network.items()}


def carrying(places: dict[str, tuple[str, str]], bound: Iterable[str], portals: Iterable[str]) -> set[str]:
    """The interfaces that iSCSI goes through: those that are bound to the adapter, else those in whose network a portal is, else any.

    places: {device: (address, netmask)}.
    """
    if bound:
        return set(bound)
    near = set()
    for device, (address, mask) in places.items():
        for portal in portals:
            # A portal may be a name, and an interface without an address has no network.
            with contextlib.suppress(ValueError):
                if ipaddress.ip_address(portal) in ipaddress.ip_network(f"{address}/{mask}", strict=False):
                    near.add(device)
    return near or set(places)


def _nic(nic: Any) -> dict[str, Any]:
    return {
        "driver": nic.driver,
        "driver_version": getattr(nic, "driverVersion", None),
        "speed_mbit_s": nic.linkSpeed.speedMb if nic.linkSpeed else None,
    }


def _luns(session: Session, host: HostSystem) -> dict[str, Any]:
    with session.doing("read the devices"):
        devices = scsi.Devices(session, host, "luns", "units")
        luns = {}
        for lun in devices.luns:
            unit = devices.units.get(lun.key)
            support = lun.vStorageSupport or ""
            luns[lun.canonicalName] = _known(
                {
                    "path_policy": unit.policy.policy if unit and unit.policy else None,
                    "array_type": unit.storageArrayTypePolicy.policy if unit and unit.storageArrayTypePolicy else None,
                    "paths": len(unit.path or []) if unit else None,
                    "degraded": scsi.degraded(scsi.state_of(lun)) or None,
                    "queue_depth": lun.queueDepth,
                    "vaai": support[len(_VAAI) :].lower() if support.startswith(_VAAI) else None,
                }
            )
    return luns


def _known(facts: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in facts.items() if value is not None}
