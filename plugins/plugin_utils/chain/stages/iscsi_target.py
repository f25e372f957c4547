# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``iscsi_target``: the exports of targets, each with its initiators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ....module_utils.core.layers import Layer
from ....module_utils.linux.disks.device_safety import PROOFS
from ....module_utils.linux.exports import iscsi_target as export_module
from ....module_utils.linux.exports.target_providers import (
    DEFAULTS,
    PROVIDERS,
    lun_0,
    refuse_targets,
    shares_luns,
    splits_targets,
)
from .. import protocols
from ..access import login_addresses
from ..changes import Change, Changes, each, entries_kept, values_kept, word_of
from ..description import size_text
from ..device import Device, disk_of, fate_of, given_of
from ..identifiers import shared
from ..iqns import initiator_name, iqn_part, prefix, unfit_iqn, unfit_prefix, unfit_secrets, unfit_testbed_secrets
from ..nouns import Kept, Lab
from ..shape import Problem, did_you_mean, repeated, shown
from ..stage import Judge, LookAhead, Needs, Stage
from ..testbed import (
    OVERRIDDEN,
    Context,
    Disk,
    Host,
    Testbed,
    addresses_of,
    is_address,
    is_by_hand,
    layer_of,
    mappings,
    targets_of,
)
from .datastore import volume_of

# An export has these.
PARTS = ("name", "portals", "luns", "initiators")
# The part of a volume that its file system leaves to a file.
VOLUME_PERCENT = 95


class IscsiTarget(Stage):
    name = "iscsi_target"
    floor = 1
    words: ClassVar = {"device": ("path", *PROOFS), "vhdx": ("path", "allocation")}
    sized = ("vhdx",)
    of_windows = ("vhdx",)
    describes = "iscsi_target_targets"
    kept = ("iscsi_target_provider", "iscsi_target_targets")
    packages: ClassVar = {
        command: packages for provider in PROVIDERS.values() for command, packages in provider.COMMANDS.items()
    }
    variables = (
        "iscsi_target_allow_no_chap",
        "iscsi_target_provider",
        "iscsi_target_targets",
        "iscsi_target_windows_loopback",
    )

    def derive(self, context: Context) -> None:
        for host, disks in context.disks_of_targets():
            windows = host.platform == "windows"
            runs = f"{host.name} runs {host.platform.capitalize()}"
            context.derive(
                host, "iscsi_target_provider", "windows" if windows else DEFAULTS[context.description["protocol"]], runs
            )
            loopback = windows and any(disk.loopback for disk in disks)
            context.derive(host, "iscsi_target_windows_loopback", loopback, "testbed.disks")
            open_to_all = context.description["chap"] == "none"
            context.derive(host, "iscsi_target_allow_no_chap", open_to_all, "testbed.chap")
            exported = [disk for disk in disks if disk.hosts or disk.loopback]
            if exported and context.description["access"] == "address" and not windows:
                remedy = "leave it out, because the targets of Linux let initiators in by their IQN"
                context.problem("testbed.access", "address", f"but {host.name} runs Linux", remedy)
            split = splits_targets(host.variables["iscsi_target_provider"])
            make = _split_targets if split else _windows_targets if windows else _linux_targets
            targets = make(context, host, exported)
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
                protocols.named(protocols.of(host), lun.get("lun"), export.get("name")),
            )
            for export in mappings(host.variables.get("iscsi_target_targets"))
            for lun in mappings(export.get("luns"))
        ]

    def check_entry(self, testbed: Testbed, variable: str, entry: dict[str, Any]) -> list[Problem]:
        problems, kind = [], entry["kind"]
        if "path" not in entry:
            remedy = f"name the {'device' if kind == 'device' else 'VHDX file'}"
            problems.append(Problem(f"{variable}.path", None, "is not set", remedy))
        if kind == "device" and not any(key in entry for key in PROOFS):
            remedy = "add the serial, naa, wwid or uuid that the device has"
            why = "which does not identify a device"
            problems.append(Problem(f"{variable}.path", shown(entry.get("path")), why, remedy))
        for name in targets_of(testbed, entry) if kind == "vhdx" else []:
            if testbed.hosts[name].platform != "windows":
                why = f"but {name} does not run Windows"
                problems.append(Problem(f"{variable}.kind", "'vhdx'", why, "use ramdisk or device"))
        return problems

    def check_disk(self, testbed: Testbed, disk: Disk) -> list[Problem]:
        if not disk.loopback or disk.purpose != "data" or testbed.hosts[disk.target].platform != "linux":
            return []
        why, remedy = "but the disk contains data, which would appear twice", "use it with disks that are measured raw"
        return [Problem(f"testbed.disks[{disk.index}].loopback", "true", why, remedy)]

    def checks(self) -> dict[str, Judge]:
        return {
            "names of iSCSI": unfit_prefix,
            "protocol": protocols.unfit,
            "unused disks": _unused,
            "exports": _unfit_exports,
            "target names": _doubled_target,
            "portals": _portals,
            "secrets": unfit_testbed_secrets,
            "own secrets": _own_secrets,
        }

    def changes(self) -> dict[str, Changes]:
        return {"providers": values_kept("iscsi_target_provider"), "exports": _targets_kept}

    def devices(self, testbed: Testbed, host: Host) -> Iterator[Device]:
        return _luns(testbed, host)

    def needs(self, testbed: Testbed, host: Host) -> Needs:
        provider = PROVIDERS.get(host.variables["iscsi_target_provider"])
        if provider is None or not host.variables["iscsi_target_targets"]:
            return [], []
        return list(provider.COMMANDS), list(provider.KERNEL_MODULES)

    def device_paths(self, testbed: Testbed, host: Host) -> list[str]:
        disks = [disk.entry for disk in testbed.disks if disk.target == host.name and disk.entry["kind"] == "device"]
        return [entry["path"] for entry in disks if "path" in entry]

    def looks_ahead(self) -> list[LookAhead]:
        return [("iscsi_target_targets", export_module.SPEC["targets"], _check_targets)]


def _linux_targets(context: Context, host: Host, disks: list[Disk]) -> list[dict[str, Any]]:
    """One target; each initiator sees the LUNs that are its."""
    if not disks:
        return []
    seen_by = {name for disk in disks for name in disk.hosts}
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
        if name in seen_by
    ]
    own = [disk for disk in disks if disk.loopback]
    if own:
        initiators.append(_initiator(context, initiator_name(context.testbed, host), "loopback", host, own, luns=True))
    return [_export(context, host, f"{prefix(context.testbed)}:{iqn_part(host.name)}", disks, initiators)]


def _split_targets(context: Context, host: Host, disks: list[Disk]) -> list[dict[str, Any]]:
    """A target for each set of initiators, with the disks that just these see: whoever may see one LUN of it sees all."""
    sets: dict[Any, list[Disk]] = {}
    for disk in disks:
        seen_by = tuple(name for name in context.testbed.initiators if name in disk.hosts)
        sets.setdefault((seen_by, disk.loopback), []).append(disk)
    name = f"{prefix(context.testbed)}:{iqn_part(host.name)}"
    targets: list[dict[str, Any]] = []
    for (members, loopback), mine in sets.items():
        hosts = [(context.testbed.hosts[member], member) for member in members]
        hosts += [(host, "loopback")] if loopback else []
        initiators = [
            _initiator(context, initiator_name(context.testbed, member), user, host, mine) for member, user in hosts
        ]
        targets.append(_export(context, host, f"{name}-{len(targets) + 1}" if targets else name, mine, initiators))
    return targets


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


def _unused(_lab: Lab, testbed: Testbed) -> list[Problem]:
    """Devices and files of a target are seen by those who log in alone; the target itself has RAM disks, arrays and cache tiers."""
    problems = []
    for disk in testbed.disks:
        kind, variable = disk.entry["kind"], f"testbed.disks[{disk.index}].kind"
        own = testbed.hosts[disk.target].because.get("iscsi_target_targets") == OVERRIDDEN
        if kind not in ("device", "vhdx") or own:
            continue
        here = [store.name for store in testbed.stores if store.disk is disk and disk.target in store.hosts]
        if here:
            why = f"but the datastore {here[0]} is on it on {disk.target} itself"
            problems.append(
                Problem(variable, shown(kind), why, "use ramdisk, raid or cache, or let another host log in")
            )
        elif not disk.hosts and not disk.loopback:
            why = f"but no host logs in to {disk.target} for it, so it would be neither exported nor measured"
            problems.append(Problem(variable, shown(kind), why, _who_logs_in(testbed, disk.entry)))
    return problems


def _who_logs_in(testbed: Testbed, entry: dict[str, Any]) -> str:
    if not testbed.initiators:
        return "put a host into clients or hypervisors"
    return "name a host in to" if "to" in entry else "put a datastore on it, or a Linux or Windows host into clients"


def _unfit_exports(_lab: Lab, testbed: Testbed, host: Host) -> list[Problem]:
    problems: list[Problem] = []
    for index, export in enumerate(mappings(host.variables.get("iscsi_target_targets"))):
        variable = f"iscsi_target_targets[{index}]"
        missing = [key for key in PARTS if key not in export]
        if missing:
            remedy = "add it, or remove the variable to have it derived"
            problems.append(Problem(f"{variable} of {host.name}", None, f"has no {', '.join(missing)}", remedy))
            continue
        if host.because.get("iscsi_target_targets") == OVERRIDDEN:
            problems += unfit_iqn(f"{variable}.name of {host.name}", export["name"])
        problems += _unfit_luns(testbed, host, variable, mappings(export["luns"]))
        if host.platform == "windows":
            problems += _windows_target(export, variable, host)
        problems += _of_provider(export, variable, host)
    return problems


def _unfit_luns(testbed: Testbed, host: Host, variable: str, luns: list[dict[str, Any]]) -> list[Problem]:
    problems: list[Problem] = []
    backing = [layer["name"] for layer in testbed.layers if layer["kind"] == "backing"]
    # A file is on a volume.
    volumes = [layer["name"] for layer in testbed.layers if layer["kind"] == "datastore"]
    for number in repeated(lun.get("lun") for lun in luns):
        names = " and ".join(str(lun.get("name")) for lun in luns if lun.get("lun") == number)
        what = f"LUN number of {names} on {host.name}"
        problems.append(Problem(what, str(number), "", "give each disk a lun of its own"))
    for place, lun in enumerate(luns):
        below = volumes if lun.get("vhdx") else backing
        if "layer" in lun and lun["layer"] not in below:
            word, why = f"{variable}.luns[{place}].layer of {host.name}", "which is not a layer of this testbed"
            problems.append(Problem(word, shown(lun["layer"]), why, did_you_mean(lun["layer"], below)))
        if "lun" in lun and not (isinstance(lun["lun"], int) and 0 <= lun["lun"] <= 255):
            word = f"LUN number of {lun.get('name')} on {host.name}"
            problems.append(Problem(word, shown(lun["lun"]), "", "use 0 to 255"))
    return problems


def _windows_target(export: dict[str, Any], variable: str, host: Host) -> list[Problem]:
    users = {
        (initiator.get("chap_user"), initiator.get("chap_password")) for initiator in mappings(export["initiators"])
    }
    if len(users) > 1:
        return [
            Problem(
                f"{variable}.initiators of {host.name}",
                None,
                "have different CHAP names or secrets, and a Windows target has one",
                "give them the same, or make two targets",
            )
        ]
    return []


def _portals(lab: Lab, testbed: Testbed) -> list[Problem]:
    problems, facts = [], lab.get("facts", {})
    for name in testbed.targets:
        host, targets = testbed.hosts[name], mappings(testbed.hosts[name].variables.get("iscsi_target_targets"))
        given = [address for address, _port in addresses_of(host.own)]
        word = "testbed_address" if "testbed_address" in host.own else "ansible_host"
        if targets and not given and host.because["iscsi_target_targets"] != OVERRIDDEN:
            problems.append(
                Problem(
                    f"testbed_address of {name}",
                    None,
                    "is not set",
                    "give the target's IP address in the storage network",
                )
            )
        for address, port in repeated(
            (address, port or testbed.description["port"]) for address, port in addresses_of(host.own)
        ):
            problems.append(
                Problem(
                    f"{word} of {name}",
                    f"a list with {address}:{port} twice",
                    "",
                    "name each portal once",
                )
            )
        if host.platform == "windows":
            problems += _ports_of_windows(name, targets)
        known = facts.get(name, {}).get("addresses") or [address for address in given if is_address(address)]
        seen = set()
        for index, export in enumerate(targets):
            for place, portal in enumerate(mappings(export.get("portals"))):
                address = str(portal.get("address"))
                own = host.because["iscsi_target_targets"] == OVERRIDDEN
                variable = (
                    f"iscsi_target_targets[{index}].portals[{place}].address of {name}" if own else f"{word} of {name}"
                )
                if (variable, address) in seen:
                    continue
                seen.add((variable, address))
                if not is_address(address):
                    problems.append(
                        Problem(
                            variable,
                            shown(address),
                            "which is not an IP address",
                            f"set testbed_address of {name} to its IP address in the storage network",
                        )
                    )
                elif known and address not in known and not host.variables.get("iscsi_target_allow_any_address"):
                    problems.append(
                        Problem(
                            variable,
                            shown(address),
                            f"which is none of the addresses of {name}",
                            f"use {' or '.join(known)}",
                        )
                    )
    return problems


def _ports_of_windows(name: str, targets: list[dict[str, Any]]) -> list[Problem]:
    """A Windows target server has one port for each of its addresses."""
    ports: dict[str, set[int]] = {}
    for export in targets:
        for portal in mappings(export.get("portals")):
            ports.setdefault(str(portal.get("address")), set()).add(portal.get("port", 3260))
    return [
        Problem(
            f"testbed_address of {name}",
            f"a list with {address} at the ports {' and '.join(map(str, sorted(several)))}",
            "and Windows listens at one port of an address",
            "name each address once; a second portal needs an address of its own",
        )
        for address, several in ports.items()
        if len(several) > 1
    ]


def _own_secrets(_lab: Lab, _testbed: Testbed, host: Host) -> list[Problem]:
    problems: list[Problem] = []
    variable = "iscsi_target_targets"
    for index, export in enumerate(mappings(host.variables[variable]) if is_by_hand(host, variable) else []):
        for place, initiator in enumerate(mappings(export.get("initiators"))):
            problems += unfit_secrets(f"{variable}[{index}].initiators[{place}]", host, initiator)
    return problems


def _of_provider(export: dict[str, Any], variable: str, host: Host) -> list[Problem]:
    """The problems that its provider alone has with it, in the words of the description."""
    provider = host.variables.get("iscsi_target_provider")
    numbers = {lun.get("lun") for lun in mappings(export["luns"])}
    problems = [
        Problem(f"LUN number of {lun.get('name')} on {host.name}", "0", f"which is {own}", "number from 1")
        for lun in mappings(export["luns"])
        if (own := lun_0(provider)) and lun.get("lun") == 0
    ]
    others = [name for name in PROVIDERS if not shares_luns(name)]
    if shares_luns(provider) and any(
        initiator.get("luns") is not None and set(initiator["luns"]) != numbers
        for initiator in mappings(export["initiators"])
    ):
        problems.append(
            Problem(
                f"{variable}.initiators of {host.name}",
                None,
                f"see different LUNs, and {provider} shows all LUNs of a target to all its initiators",
                f"show them the same disks, or set iscsi_target_provider: {' or '.join(others)}",
            )
        )
    return problems


def _doubled_target(_lab: Lab, testbed: Testbed) -> Iterator[Problem]:
    names = [
        (export.get("name"), host.name)
        for host in testbed.hosts.values()
        for export in mappings(host.variables.get("iscsi_target_targets"))
        if export.get("name")
    ]
    for name, hosts in shared(names):
        if len(set(hosts)) == 1:
            remedy = "give each target an IQN of its own"
            yield Problem("iscsi_target_targets", f"a list with {shown(name)} twice", "", remedy)
        else:
            yield Problem(
                f"the name of the target of {' and '.join(dict.fromkeys(hosts))}",
                shown(name),
                "one name for several targets",
                "rename one of these hosts, or set iscsi_target_targets of one",
            )


def _targets_kept(before: Kept, after: Kept, testbed: Testbed) -> list[Change]:
    changes = []
    for host, was, now in each(before, after, "iscsi_target_targets"):
        word = word_of(testbed, host, "iscsi_target_targets", "testbed")
        changes += entries_kept(word, "target", was, now, (), host)
        want = {export["name"]: export for export in mappings(now)}
        for export in mappings(was):
            if export["name"] not in want:
                continue
            new = want[export["name"]]
            if export["portals"] != new["portals"][: len(export["portals"])]:
                own = "testbed_address" in testbed.hosts[host].own or not addresses_of(testbed.hosts[host].own)
                address = word_of(
                    testbed,
                    host,
                    "iscsi_target_targets",
                    f"{'testbed_address' if own else 'ansible_host'} of {host} or testbed.port",
                )
                texts = [
                    ", ".join(f"{portal['address']}:{portal.get('port', 3260)}" for portal in portals)
                    for portals in (export["portals"], new["portals"])
                ]
                changes.append((address, None, f"has changed the portals from {texts[0]} to {texts[1]}"))
            keys = ("lun", "layer", "device", "vhdx", "purpose")
            changes += entries_kept(
                f"{word}.disks" if word == "testbed" else word, "LUN", export["luns"], new["luns"], keys, host
            )
            for initiator in mappings(export["initiators"]):
                # Who may log in stays, and sees what it saw.
                same = next((other for other in mappings(new["initiators"]) if _key(other) == _key(initiator)), None)
                lost = sorted(_seen(initiator, export) - _seen(same, new)) if same else []
                if same is None or lost:
                    what = f"LUN {', '.join(map(str, lost))} from {_key(initiator)}" if same else _key(initiator)
                    changes.append(
                        (f"{word}.disks" if word == "testbed" else word, None, f"has taken {what} on {host}")
                    )
    return changes


def _seen(initiator: dict[str, Any], export: dict[str, Any]) -> set[Any]:
    """The numbers of the LUNs that an initiator sees: those that are named, else all of the target."""
    named = initiator.get("luns")
    return set(named if named is not None else (lun["lun"] for lun in export["luns"]))


def _key(initiator: dict[str, Any]) -> str:
    return str(initiator.get("iqn") or initiator.get("address") or initiator.get("dns_name"))


def _luns(testbed: Testbed, host: Host) -> Iterator[Device]:
    by_hand = is_by_hand(host, "iscsi_target_targets")
    for place, export in enumerate(mappings(host.variables.get("iscsi_target_targets"))):
        for number, lun in enumerate(mappings(export.get("luns"))):
            if not lun.get("device"):
                continue
            disk, layer = disk_of(testbed, host, lun.get("name")), f"target-{lun.get('name')}"
            variable = f"iscsi_target_targets[{place}].luns[{number}] of {host.name}"
            variable = f"testbed.disks[{disk.index}]" if disk and not by_hand else variable
            word, given = ("device" if by_hand or disk is None else "path"), given_of(lun, "device")
            yield Device(host.name, variable, word, given, *fate_of(testbed, layer), layer)


def _check_targets(testbed: Testbed, host: Host, targets: list[Any]) -> None:
    values, here = host.variables, [layer for layer in testbed.layers if layer["host"] == host.name]
    # As the role ramdisk publishes them.
    layers: dict[str, Layer] = {layer["name"]: {**layer, "path": None, "parent": None, "detail": {}} for layer in here}
    checked = export_module.check_targets(
        targets,
        layers,
        bool(values.get("iscsi_target_allow_no_chap")),
        bool(host.own.get("iscsi_target_allow_any_address")),
    )
    refuse_targets(values.get("iscsi_target_provider"), checked)
