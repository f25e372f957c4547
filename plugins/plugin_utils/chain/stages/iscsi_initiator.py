# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``iscsi_initiator``: the logins of each host, with the LUNs that it sees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from ....module_utils.core.iscsi_names import iqn_key, portal_text, same_iqn
from ....module_utils.core.layers import Layer
from .. import protocols
from ..access import login_addresses
from ..changes import Change, Changes, each, entries_kept, values_kept, word_of
from ..device import Device, fate_of, given_of
from ..identifiers import shared
from ..iqns import initiator_name, unfit_iqn, unfit_secrets
from ..nouns import Kept, Lab
from ..shape import Problem, did_you_mean, shown
from ..stage import Judge, Needs, Stage
from ..testbed import Context, Host, Testbed, is_by_hand, layer_of, mappings
from . import existing_storage
from .iscsi_target import PARTS

PROVIDERS = {"linux": "open_iscsi", "esxi": "esxi", "windows": "windows"}
# Those of a testbed with another protocol than iSCSI, which Linux hosts alone have.
OF_PROTOCOLS = {"nvme": "nvme_tcp"}
# {provider: (commands, kernel modules)}
NEEDS = {"open_iscsi": (["iscsiadm"], ["iscsi_tcp"]), "nvme_tcp": ([], ["nvme_tcp"])}
_CHAP = ("chap_user", "chap_password", "mutual_chap_user", "mutual_chap_password")


class IscsiInitiator(Stage):
    name = "iscsi_initiator"
    floor = 2
    describes = "iscsi_initiator_targets"
    kept = ("iscsi_initiator_name", "iscsi_initiator_targets")
    packages: ClassVar = {"iscsiadm": ("open-iscsi", "iscsi-initiator-utils")}
    variables = (
        "iscsi_initiator_esxi_port_binding",
        "iscsi_initiator_layer_suffix",
        "iscsi_initiator_name",
        "iscsi_initiator_provider",
        "iscsi_initiator_targets",
    )

    def derive(self, context: Context) -> None:
        hosts = [context.testbed.hosts[name] for name in context.testbed.targets + context.testbed.initiators]
        exports, existing = Exports(context.testbed), existing_storage.hosts_of(context.testbed)
        context.testbed.exporters = exports.targets
        for host in hosts:
            _sessions(context, host, exports, existing)
            ports = host.variables.get("esxi_network_ports") if host.platform == "esxi" else []
            bound = [port["port_group"] for port in mappings(ports) if port.get("port_group")]
            because = "the interfaces of its network" if bound else "no interfaces of its own for iSCSI"
            context.derive(host, "iscsi_initiator_esxi_port_binding", bound, because)
        _suffixes(context, hosts)

    def runs_on(self, context: Context, host: Host) -> bool:
        # A target logs in to itself only where that is described, or was when it was built.
        if host.name in context.testbed.initiators and not host.only_reads:
            return True
        built = {"target", "initiator"} & {layer["kind"] for layer in context.published(host)}
        members = context.testbed.targets + context.testbed.initiators
        return host.name in members and bool(host.variables["iscsi_initiator_targets"] or built)

    def stands_on(self, testbed: Testbed, host: Host) -> list[str]:
        sessions = mappings(host.variables.get("iscsi_initiator_targets"))
        below = {target for session in sessions for target in testbed.exporters.get(session.get("iqn"), [])}
        return [target for _place, target in sorted(below) if target != host.name]

    def layers(self, host: Host) -> list[Layer]:
        suffix = host.variables.get("iscsi_initiator_layer_suffix", "")
        return [
            layer_of(
                "initiator",
                f"{lun.get('name')}{suffix}",
                host,
                lun.get("parent"),
                lun.get("purpose"),
                protocols.named(_protocol(host), lun.get("lun"), session.get("iqn")),
            )
            for session in mappings(host.variables.get("iscsi_initiator_targets"))
            for lun in mappings(session.get("luns"))
            if lun.get("layer_kind") != "target"
        ]

    def checks(self) -> dict[str, Judge]:
        return {
            "initiators": _unfit_name,
            "sessions": _unknown_targets,
            "initiator names": _doubled_name,
            "own secrets": _own_secrets,
        }

    def changes(self) -> dict[str, Changes]:
        return {"sessions": _sessions_kept}

    def devices(self, testbed: Testbed, host: Host) -> Iterator[Device]:
        return _luns_of_others(testbed, host)

    def needs(self, testbed: Testbed, host: Host) -> Needs:
        commands, modules = NEEDS.get(host.variables["iscsi_initiator_provider"], NEEDS[PROVIDERS["linux"]])
        return list(commands), list(modules)

    def peers(self, host: Host) -> set[tuple[Any, int]]:
        return {
            (portal.get("address"), portal.get("port", 3260))
            for session in mappings(host.variables.get("iscsi_initiator_targets"))
            for portal in mappings([session.get("portal"), *(session.get("other_portals") or [])])
        }

    def remarks(self, testbed: Testbed, host: Host) -> list[str]:
        return _ways(testbed, host)


class Exports:
    """All that the targets export, looked up by who may log in: a lab of 2 000 hosts has too many to ask each of them about each host."""

    def __init__(self, testbed: Testbed) -> None:
        self.all: list[tuple[str, dict[str, Any]]] = []
        # {name: [(place among the targets, target)]}
        self.targets: dict[Any, list[tuple[int, str]]] = {}
        self._known: dict[tuple[str, str], list[int]] = {}
        for place, target in enumerate(testbed.targets):
            for export in mappings(testbed.hosts[target].variables["iscsi_target_targets"]):
                self.targets.setdefault(export.get("name"), []).append((place, target))
                for entry in mappings(export.get("initiators")):
                    address = entry.get("address") or entry.get("dns_name")
                    for key in (("iqn", iqn_key(entry.get("iqn"))), ("address", str(address))):
                        self._known.setdefault(key, []).append(len(self.all))
                self.all.append((target, export))

    def named(self, iqn: str, addresses: list[str]) -> list[tuple[str, dict[str, Any]]]:
        """(target, export) of those whose access list names a host, in the order of the targets."""
        keys = [("iqn", iqn_key(iqn)), *(("address", address) for address in addresses)]
        return [self.all[number] for number in sorted({number for key in keys for number in self._known.get(key, [])})]


def _sessions(context: Context, host: Host, exports: Exports, existing: existing_storage.Hosts) -> None:
    """Sessions follow from the targets' access lists: whoever is in one logs in, to what it may see there."""
    name = initiator_name(context.testbed, host)
    context.derive(host, "iscsi_initiator_name", name, "testbed.iqn_prefix and the host's name")
    context.derive(
        host,
        "iscsi_initiator_provider",
        OF_PROTOCOLS.get(context.description["protocol"], PROVIDERS["linux"])
        if host.platform == "linux"
        else PROVIDERS[host.platform],
        f"{host.name} runs {host.platform.capitalize()}",
    )
    sessions = []
    addresses = login_addresses(context.lab, host)
    for target, export in exports.named(name, addresses):
        entries = mappings(export.get("initiators"))
        mine = next((access for access in entries if _names(access, name, addresses)), None)
        portals = mappings(export.get("portals"))
        if mine is None or not portals:
            continue
        # An ESXi host finds all portals of a target by itself. A login of a target to itself needs one way.
        ways = portals if host.platform == "linux" and target != host.name else portals[:1]
        luns = [
            _seen(lun, host.platform, target == host.name)
            for lun in mappings(export.get("luns"))
            if "luns" not in mine or lun.get("lun") in (mine["luns"] or [])
        ]
        chap = {
            key: mine[key]
            for key in _CHAP
            if key in mine and not (host.platform == "windows" and key.startswith("mutual"))
        }
        others = {"other_portals": ways[1:]} if ways[1:] else {}
        sessions.append({"iqn": export.get("name"), "portal": ways[0], **others, **chap, "luns": luns})
    if host.platform == "linux":
        described = context.testbed.description["existing"]
        sessions += existing_storage.sessions(described, existing, host.name)
    context.derive(
        host, "iscsi_initiator_targets", sessions, "the targets whose iscsi_target_targets name this initiator"
    )


def _suffixes(context: Context, hosts: list[Host]) -> None:
    """Hosts that share a LUN need names of their own for their layers: the first keeps the plain ones."""
    taken: set[Any] = set()
    for host in hosts:
        mine = {
            (session.get("iqn"), lun.get("lun"))
            for session in mappings(host.variables["iscsi_initiator_targets"])
            for lun in mappings(session.get("luns"))
            if lun.get("layer_kind", "initiator") == "initiator"
        }
        mine |= {
            ("store", store.label)
            for store in context.testbed.stores
            if (store.over or store.there) and host.name in store.hosts
        }
        suffix = f"-{host.name}" if mine & taken else ""
        taken |= mine
        because = "whether another host before it has the same LUN"
        context.derive(host, "iscsi_initiator_layer_suffix", suffix, because)


def _protocol(host: Host) -> str:
    provider = host.variables.get("iscsi_initiator_provider")
    return next((protocol for protocol, name in OF_PROTOCOLS.items() if name == provider), "iscsi")


def _names(initiator: dict[str, Any], iqn: str, addresses: list[str]) -> bool:
    """Whether an entry of a target's access list means this host, by its IQN, address or host name."""
    given = initiator.get("iqn"), initiator.get("address") or initiator.get("dns_name")
    return same_iqn(given[0], iqn) or (given[1] is not None and given[1] in addresses)


def _seen(lun: dict[str, Any], platform: str, loopback: bool) -> dict[str, Any]:
    """A LUN as an initiator sees it."""
    kind = {"layer_kind": "target" if loopback else "initiator"} if loopback or platform == "linux" else {}
    parent = lun.get("layer") if loopback else f"target-{lun.get('name')}"
    return {
        "lun": lun.get("lun"),
        "name": lun.get("name"),
        **kind,
        "parent": parent,
        "purpose": lun.get("purpose", "data"),
    }


def _unfit_name(_lab: Lab, _testbed: Testbed, host: Host) -> list[Problem]:
    variable = "iscsi_initiator_name"
    given = host.variables.get(variable) if variable in host.own else None
    return unfit_iqn(f"{variable} of {host.name}", given) if given else []


def _unknown_targets(_lab: Lab, testbed: Testbed) -> list[Problem]:
    exports = [
        export for host in testbed.hosts.values() for export in mappings(host.variables.get("iscsi_target_targets"))
    ]
    known = {export["name"] for export in exports if all(part in export for part in PARTS)}
    keys = {iqn_key(str(name)) for name in known}
    return [
        Problem(
            f"iscsi_initiator_targets[{index}].iqn of {host.name}",
            shown(session.get("iqn")),
            "which is not a target of this testbed",
            did_you_mean(str(session.get("iqn")), sorted(known)),
        )
        for host in testbed.hosts.values()
        for index, session in enumerate(mappings(host.variables.get("iscsi_initiator_targets")))
        # A target that is none of the inventory's hosts is somebody else's.
        if testbed.targets and iqn_key(str(session.get("iqn"))) not in keys
    ]


def _own_secrets(_lab: Lab, _testbed: Testbed, host: Host) -> list[Problem]:
    variable = "iscsi_initiator_targets"
    sessions = mappings(host.variables[variable]) if is_by_hand(host, variable) else []
    return [
        problem
        for index, session in enumerate(sessions)
        for problem in unfit_secrets(f"{variable}[{index}]", host, session)
    ]


def _doubled_name(_lab: Lab, testbed: Testbed) -> Iterator[Problem]:
    names = [
        (host.variables["iscsi_initiator_name"], host.name)
        for host in testbed.hosts.values()
        if host.variables.get("iscsi_initiator_name")
    ]
    for name, hosts in shared(names):
        yield Problem(
            f"iscsi_initiator_name of {' and '.join(hosts)}",
            shown(name),
            "so each would get the LUNs of the other",
            f"set another iscsi_initiator_name for {hosts[-1]}, or rename one of these hosts",
        )


def _sessions_kept(before: Kept, after: Kept, testbed: Testbed) -> list[Change]:
    changes: list[Any] = values_kept("iscsi_initiator_name")(before, after, testbed)
    for host, was, now in each(before, after, "iscsi_initiator_targets"):
        word = word_of(testbed, host, "iscsi_initiator_targets", "testbed.disks")
        # Nothing of the testbed is on LUNs that are only read.
        was, now = (
            [session for session in mappings(sessions) if not existing_storage.only_read(session)]
            for sessions in (was, now)
        )
        changes += entries_kept(word, "session with", was, now, ("portal",), host, "iqn")
    return changes


def _luns_of_others(testbed: Testbed, host: Host) -> Iterator[Device]:
    """LUNs of targets that are none of the inventory's hosts."""
    suffix = host.variables.get("iscsi_initiator_layer_suffix", "")
    for place, session in enumerate(mappings(host.variables.get("iscsi_initiator_targets"))):
        if session.get("iqn") in testbed.exporters:
            continue
        for number, lun in enumerate(mappings(session.get("luns"))):
            variable = f"iscsi_initiator_targets[{place}].luns[{number}] of {host.name}"
            given = {"path": f"LUN {lun.get('lun')} of {session.get('iqn')}", **given_of(lun, "")}
            layer = f"initiator-{lun.get('name')}{suffix}"
            yield Device(host.name, variable, "", given, *fate_of(testbed, layer), layer, here=False)


def _ways(testbed: Testbed, host: Host) -> list[str]:
    """How a host reaches targets that have several portals."""
    lines, name = [], host.name
    for session in mappings(host.variables.get("iscsi_initiator_targets")):
        target, listed = None, []
        for _place, target in testbed.exporters.get(session.get("iqn"), []):
            exports = mappings(testbed.hosts[target].variables["iscsi_target_targets"])
            listed = [
                portal
                for export in exports
                if export.get("name") == session.get("iqn")
                for portal in mappings(export.get("portals"))
            ]
        portals = [portal_text(portal["address"], portal.get("port", 3260)) for portal in listed]
        used = (
            "of which its login to itself uses the first alone"
            if target == name
            else {
                "linux": "with a session each: one device where its multipathd runs, else the first alone"
                if _protocol(testbed.hosts[name]) == "iscsi"
                else "with a connection each, which its kernel makes one disk of",
                "esxi": "which it discovers by itself",
                "windows": f"of which Windows uses {portals[0] if portals else ''} alone: this collection does not set up MPIO",
            }[host.platform]
        )
        if len(portals) > 1:
            lines.append(f"{name} reaches {session['iqn']} through {' and '.join(portals)}, {used}")
    return lines
