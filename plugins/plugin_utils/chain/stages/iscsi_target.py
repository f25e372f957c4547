# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``iscsi_target``: the exports of targets, each with its initiators."""

from __future__ import annotations

from typing import Any

from ....module_utils.core.layers import Layer
from ..iqns import initiator_name, iqn_part, prefix
from ..stage import Stage
from ..testbed import Context, Disk, Host, addresses_of, layer_of, mappings


class IscsiTarget(Stage):
    name = "iscsi_target"
    floor = 1

    def derive(self, context: Context) -> None:
        for host, disks in context.disks_of_targets():
            windows = host.platform == "windows"
            runs = f"{host.name} runs {host.platform.capitalize()}"
            context.derive(host, "iscsi_target_provider", "windows" if windows else "lio", runs)
            loopback = windows and any(disk.loopback for disk in disks)
            context.derive(host, "iscsi_target_windows_loopback", loopback, "testbed.disks")
            open_to_all = context.description["chap"] == "none"
            context.derive(host, "iscsi_target_allow_no_chap", open_to_all, "testbed.chap")
            exported = [disk for disk in disks if disk.hosts or disk.loopback]
            targets = (_windows_targets if windows else _linux_targets)(context, host, exported)
            because = f"testbed.disks, testbed_address of {host.name}, and who is in hypervisors and clients"
            context.derive(host, "iscsi_target_targets", targets, because)

    def runs_on(self, context: Context, host: Host) -> bool:
        return host.name in context.testbed.targets

    def layers(self, host: Host) -> list[Layer]:
        return [
            layer_of(
                "target",
                lun.get("name"),
                host,
                lun.get("layer"),
                lun.get("purpose"),
                f"LUN {lun.get('lun')} of {export.get('name')}",
            )
            for export in mappings(host.variables.get("iscsi_target_targets"))
            for lun in mappings(export.get("luns"))
        ]


def _linux_targets(context: Context, host: Host, disks: list[Disk]) -> list[dict[str, Any]]:
    """One target; each initiator sees the LUNs that are its."""
    if not disks:
        return []
    initiators = [
        _initiator(
            context,
            initiator_name(context.testbed, context.testbed.hosts[name]),
            name,
            host,
            [disk for disk in disks if name in disk.hosts],
            luns=True,
        )
        for name in context.testbed.initiators
        if any(name in disk.hosts for disk in disks)
    ]
    own = [disk for disk in disks if disk.loopback]
    if own:
        initiators.append(_initiator(context, initiator_name(context.testbed, host), "loopback", host, own, luns=True))
    return [_export(context, host, f"{prefix(context.testbed)}:{iqn_part(host.name)}", disks, initiators)]


def _windows_targets(context: Context, host: Host, disks: list[Disk]) -> list[dict[str, Any]]:
    """A Windows target shows all its LUNs to everyone who may log in: one for each set of LUNs, and one for the server itself."""
    sets: dict[tuple[str, ...], list[str]] = {}
    for member in context.testbed.initiators:
        seen = tuple(disk.name for disk in disks if member in disk.hosts)
        if seen:
            sets.setdefault(seen, []).append(member)
    targets: list[dict[str, Any]] = []
    name = f"{prefix(context.testbed)}:{iqn_part(host.name)}"
    for seen, members in sets.items():
        user = members[0] if len(members) == 1 else context.testbed.testbed_id
        mine = [disk for disk in disks if disk.name in seen]
        mutual = any(context.testbed.hosts[member].platform != "windows" for member in members)
        initiators = [
            _initiator(
                context, initiator_name(context.testbed, context.testbed.hosts[member]), user, host, mine, mutual=mutual
            )
            for member in members
        ]
        targets.append(_export(context, host, f"{name}-{len(targets) + 1}" if targets else name, mine, initiators))
    own = [disk for disk in disks if disk.loopback]
    if own:
        initiators = [_initiator(context, initiator_name(context.testbed, host), "loopback", host, own, mutual=False)]
        targets.append(_export(context, host, f"{name}-loopback", own, initiators))
    return targets


def _export(
    context: Context, host: Host, name: str, disks: list[Disk], initiators: list[dict[str, Any]]
) -> dict[str, Any]:
    portals = [
        {"address": address, "port": port or context.description["port"]} for address, port in addresses_of(host.own)
    ]
    return {"name": name, "portals": portals, "luns": [_lun(disk) for disk in disks], "initiators": initiators}


def _initiator(
    context: Context, iqn: str, user: str, target: Host, disks: list[Disk], luns: bool = False, mutual: bool = True
) -> dict[str, Any]:
    chap = context.description["chap"]
    result: dict[str, Any] = {"iqn": iqn}
    if luns:
        result["luns"] = [disk.lun for disk in disks]
    if chap != "none":
        result.update(chap_user=user, chap_password=_secret(context, "chap"))
    if chap == "mutual" and mutual:
        result.update(mutual_chap_user=target.name, mutual_chap_password=_secret(context, "mutual_chap"))
    return result


def _secret(context: Context, kind: str) -> str:
    return str(context.description.get(f"{kind}_password") or context.lab["secrets"][kind])


def _lun(disk: Disk) -> dict[str, Any]:
    lun, entry = {"lun": disk.lun, "name": disk.name}, disk.entry
    if disk.layer:
        lun["layer"] = disk.layer
    elif entry["kind"] == "device":
        lun["device"] = entry.get("path")
        lun.update({key: entry[key] for key in ("serial", "naa", "wwid", "uuid") if key in entry})
    else:
        allocation = {"allocation": entry["allocation"]} if "allocation" in entry else {}
        lun["vhdx"] = {"path": entry.get("path"), "size_mib": entry.get("size", 0), **allocation}
    return {**lun, "purpose": disk.purpose}
