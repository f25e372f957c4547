# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``iscsi_target``: the exports of targets, each with its initiators."""

from __future__ import annotations

from typing import Any

from ....module_utils.core.layers import Layer
from ..access import login_addresses
from ..description import size_text
from ..iqns import initiator_name, iqn_part, prefix
from ..stage import Stage
from ..testbed import Context, Disk, Host, addresses_of, is_address, layer_of, mappings
from .datastore import volume_of

# The part of a volume that its file system leaves to a file.
VOLUME_PERCENT = 95


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
            if exported and context.description["access"] == "address" and not windows:
                remedy = "leave it out, because the targets of Linux let initiators in by their IQN"
                context.problem("testbed.access", "address", f"but {host.name} runs Linux", remedy)
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
        hosts = [context.testbed.hosts[member] for member in members]
        initiators = [
            _initiator(context, iqn, user, host, mine, mutual=mutual, address=address)
            for iqn, address in _let_in(context, hosts)
        ]
        targets.append(_export(context, host, f"{name}-{len(targets) + 1}" if targets else name, mine, initiators))
    own = [disk for disk in disks if disk.loopback]
    if own:
        initiators = [_initiator(context, initiator_name(context.testbed, host), "loopback", host, own, mutual=False)]
        targets.append(_export(context, host, f"{name}-loopback", own, initiators))
    return targets


def _let_in(context: Context, hosts: list[Host]) -> list[tuple[str, str | None]]:
    """[(IQN, address)] of initiators; the address where that lets them in."""
    if context.description["access"] == "iqn":
        return [(initiator_name(context.testbed, host), None) for host in hosts]
    by_address: list[tuple[str, str | None]] = []
    for host in hosts:
        addresses = login_addresses(context.lab, host)
        if not addresses:
            remedy = "write the address that it logs in from, or leave access out"
            context.problem(
                f"testbed_address of {host.name}", None, "is not set, but testbed.access is address", remedy
            )
        by_address += [(initiator_name(context.testbed, host), address) for address in addresses]
    return by_address


def _export(
    context: Context, host: Host, name: str, disks: list[Disk], initiators: list[dict[str, Any]]
) -> dict[str, Any]:
    portals = [
        {"address": address, "port": port or context.description["port"]} for address, port in addresses_of(host.own)
    ]
    return {
        "name": name,
        "portals": portals,
        "luns": [_lun(context, host, disk) for disk in disks],
        "initiators": initiators,
    }


def _initiator(
    context: Context,
    iqn: str,
    user: str,
    target: Host,
    disks: list[Disk],
    luns: bool = False,
    mutual: bool = True,
    address: str | None = None,
) -> dict[str, Any]:
    chap = context.description["chap"]
    named = address is not None and not is_address(address) and " " not in address
    result: dict[str, Any] = {"iqn": iqn} if address is None else {"dns_name" if named else "address": address}
    if luns:
        result["luns"] = [disk.lun for disk in disks]
    if chap != "none":
        result.update(chap_user=user, chap_password=_secret(context, "chap"))
    if chap == "mutual" and mutual:
        result.update(mutual_chap_user=target.name, mutual_chap_password=_secret(context, "mutual_chap"))
    return result


def _secret(context: Context, kind: str) -> str:
    return str(context.description.get(f"{kind}_password") or context.lab["secrets"][kind])


def _lun(context: Context, host: Host, disk: Disk) -> dict[str, Any]:
    lun, entry = {"lun": disk.lun, "name": disk.name}, disk.entry
    if disk.layer:
        lun["layer"] = disk.layer
    elif entry["kind"] == "device":
        lun["device"] = entry.get("path")
        lun.update({key: entry[key] for key in ("serial", "naa", "wwid", "uuid") if key in entry})
    else:
        allocation = {"allocation": entry["allocation"]} if "allocation" in entry else {}
        path, size = str(entry.get("path")), entry.get("size", 0)
        volume = volume_of(context, host, path) if host.platform == "windows" else None
        if volume:
            # The file is on a volume that the testbed makes itself, so it has that below it.
            lun["layer"] = volume[0]
            _refuse_larger(context, disk, volume[1].disk if volume[1] else None, size)
        lun["vhdx"] = {"path": entry.get("path"), "size_mib": size, **allocation}
    return {**lun, "purpose": disk.purpose}


def _refuse_larger(context: Context, disk: Disk, below: Disk | None, size: int) -> None:
    """A fixed file takes its size from the volume; below: the disk of that."""
    room = (below.entry.get("size") or 0) * VOLUME_PERCENT // 100 if below else 0
    if room and disk.entry.get("allocation") == "fixed" and size > room:
        why = f"but its file is fixed, and the volume of the disk {below.name if below else ''} has room for {size_text(room)}"
        context.problem(
            f"testbed.disks[{disk.index}].size", size_text(size), why, "make it smaller, or that disk larger"
        )
