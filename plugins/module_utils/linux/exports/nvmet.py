# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVMe target of the Linux kernel (nvmet) over TCP, through its own interface, configfs.

As in lio.py a configuration is a flat mapping of paths, here below ``/sys/kernel/config/nvmet``: directories (DIR), links (Link) and attributes. The wanted
configuration is an ordered list of the same things. Only what the record names is read into the snapshot, so what others configured is never touched.

The kernel lets hosts into a subsystem, not to single namespaces. It does not say who is connected; only the addresses are known, from its TCP connections.
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from ...core import nvme_names
from ...core.failure import Failure, bad_value
from ...core.iscsi_names import portal_text
from ...core.layers import Layer
from ...core.steps import Step
from .. import mounts
from ..host import load_module, loaded_modules, read_text, run, unload_modules, write_text
from ..nouns import ExportedLun, ExportedTarget, LostLun, Portal
from ..record import Record
from .lio import DIR, MASK, Entry, Link

Configuration = Mapping[str, str | Link]
MODULES = ("nvmet", "nvmet_tcp")
# {attribute of a host: (the initiator's key for it)}
KEYS = {"dhchap_key": "chap_password", "dhchap_ctrl_key": "mutual_chap_password"}
PORT_ATTRIBUTES = ("addr_trtype", "addr_adrfam", "addr_traddr", "addr_trsvcid")
# A namespace that is in use keeps these.
FIXED = ("device_path", "device_uuid")
ESTABLISHED = "01"
HIGHEST_PORT = 65535


def wanted_entries(testbed_id: str, targets: list[ExportedTarget], numbers: Mapping[str, int]) -> list[Entry]:
    """The wanted configuration in the order in which it is made. numbers: {portal: number of its port}."""
    entries: list[Entry] = []
    initiators = {entry["iqn"]: entry for target in targets for entry in target["initiators"]}
    for iqn, initiator in sorted(initiators.items()):
        host = nvme_names.nqn_of(iqn)
        entries.append(Entry(f"hosts/{host}", DIR))
        entries += [Entry(f"hosts/{host}/{name}", key) for name, key in keys_of(initiator).items()]
    for target in targets:
        nqn = nvme_names.nqn_of(target["name"])
        base = f"subsystems/{nqn}"
        entries += [
            Entry(base, DIR),
            # Else every host that reaches the port would be let in.
            Entry(f"{base}/attr_allow_any_host", "0"),
            Entry(f"{base}/attr_serial", nvme_names.subsystem_serial(nqn)),
        ]
        for lun in target["luns"]:
            namespace = f"{base}/namespaces/{lun['lun']}"
            entries += [
                Entry(namespace, DIR),
                Entry(f"{namespace}/device_path", lun["device"]),
                Entry(
                    f"{namespace}/device_uuid",
                    nvme_names.namespace_uuid(testbed_id, lun["name"], lun.get("generation")),
                ),
                Entry(f"{namespace}/enable", "1"),
            ]
        for initiator in target["initiators"]:
            host = nvme_names.nqn_of(initiator["iqn"])
            entries.append(Entry(f"{base}/allowed_hosts/{host}", Link(f"hosts/{host}")))
    # The ports come last: no one can connect to a subsystem that is only half described.
    for portal in {portal_text(**portal): portal for target in targets for portal in target["portals"]}.values():
        entries += _port(f"ports/{numbers[portal_text(**portal)]}", portal)
    for target in targets:
        nqn = nvme_names.nqn_of(target["name"])
        entries += [
            Entry(f"ports/{numbers[portal_text(**portal)]}/subsystems/{nqn}", Link(f"subsystems/{nqn}"))
            for portal in target["portals"]
        ]
    return entries


def _port(base: str, portal: Portal) -> list[Entry]:
    family = "ipv6" if ":" in portal["address"] else "ipv4"
    values = ("tcp", family, portal["address"], str(portal["port"]))
    return [Entry(base, DIR), *(Entry(f"{base}/{name}", value) for name, value in zip(PORT_ATTRIBUTES, values))]


def keys_of(initiator: Mapping[str, Any]) -> dict[str, str]:
    """{attribute: key} of an initiator with secrets; nothing without."""
    host = nvme_names.nqn_of(initiator["iqn"])
    return {name: nvme_names.dhchap_key(initiator[key], host) for name, key in KEYS.items() if initiator.get(key)}


def check_targets(targets: list[ExportedTarget]) -> None:
    """Raises bad_value for what nvmet cannot do, though an iSCSI target could."""
    secrets: dict[str, Any] = {}
    for target in targets:
        variable = f"iscsi_target_targets {target['name']}"
        nvme_names.nqn_of(target["name"])
        numbers = {lun["lun"] for lun in target["luns"]}
        for lun in target["luns"]:
            if lun["lun"] < nvme_names.FIRST_NAMESPACE:
                raise bad_value(f"{variable} lun {lun['name']}", lun["lun"], "Number from 1: NVMe has no namespace 0.")
        for initiator in target["initiators"]:
            name = f"{variable} initiator {initiator['iqn']}"
            keys = keys_of(initiator)
            if initiator.get("luns") is not None and set(initiator["luns"]) != numbers:
                raise bad_value(
                    f"{name} luns",
                    initiator["luns"],
                    "Show it all LUNs of this target, and put the others into another target: NVMe lets hosts into whole subsystems.",
                )
            if secrets.setdefault(initiator["iqn"], keys) != keys:
                raise bad_value(
                    f"{name} chap_password",
                    "not the same as in another target",
                    "Give an initiator the same secrets in all targets: NVMe keeps them for the host.",
                )


def plan(current: Configuration, entries: list[Entry]) -> list[Step]:
    """Steps {op, path, was, will}: what is not wanted goes first, innermost first, then the wanted is made in its order."""
    wanted = {entry.path: entry.value for entry in entries}
    gone = doomed(current, wanted)
    steps: list[Step] = [
        {
            "op": "unlink" if isinstance(current[path], Link) else "rmdir",
            "path": path,
            "was": _shown(path, current[path]),
            "will": None,
        }
        for path in sorted(gone, key=_removal_order)
    ]
    kept = {path: value for path, value in current.items() if not _below(path, gone)}
    for entry in entries:
        was = kept.get(entry.path)
        if was != entry.value:
            op = "mkdir" if entry.value == DIR else "symlink" if isinstance(entry.value, Link) else "write"
            steps.append(
                {"op": op, "path": entry.path, "was": _shown(entry.path, was), "will": _shown(entry.path, entry.value)}
            )
    return steps


def doomed(current: Configuration, wanted: Mapping[str, Any]) -> set[str]:
    """The directories and links that have to go: what is not wanted, and what cannot become what is wanted."""
    gone = {path for path, value in current.items() if _is_thing(value) and wanted.get(path) != value}
    for path, value in current.items():
        folder, _slash, name = path.rpartition("/")
        # A namespace cannot be given another device, nor a port another address, while they are in use: they are made again.
        fixed = name in FIXED or name in PORT_ATTRIBUTES
        if fixed and value and folder in wanted and wanted.get(path) != value:
            gone.add(folder)
        # Nor is there a way to take a key back from a host.
        if name in KEYS and folder in wanted and path not in wanted:
            gone.add(folder)
    gone |= {path for path, value in current.items() if _is_thing(value) and _below(path, gone)}
    # A link does not outlive what it names.
    return gone | {path for path, value in current.items() if isinstance(value, Link) and value.to in gone}


def _is_thing(value: str | Link) -> bool:
    return value == DIR or isinstance(value, Link)


def _below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _removal_order(path: str) -> tuple[object, ...]:
    """Ports before hosts are shut out, that before namespaces, these before subsystems, and the hosts themselves last; children before parents."""
    kinds = ("ports/", "/allowed_hosts/", "/namespaces/", "subsystems/", "hosts/")
    return (next(place for place, kind in enumerate(kinds) if kind in path), -path.count("/"), path)


def _shown(path: str, value: Any) -> Any:
    if isinstance(value, Link):
        return value.to
    return MASK if value and path.rpartition("/")[2] in KEYS else value


def newly_exported(
    current: Configuration, steps: list[Step], targets: list[ExportedTarget]
) -> list[tuple[ExportedTarget, ExportedLun]]:
    """[(target, LUN)] of the namespaces that the steps make on a device that no namespace of ours is on now: the guard has to see it."""
    ours = {value for path, value in current.items() if path.endswith("/device_path")}
    made = {step["path"] for step in steps if step["op"] == "mkdir"}
    return [
        (target, lun)
        for target in targets
        for lun in target["luns"]
        if _namespace(target["name"], lun["lun"]) in made and lun["device"] not in ours
    ]


def _namespace(iqn: str, number: int) -> str:
    return f"subsystems/{nvme_names.nqn_of(iqn)}/namespaces/{number}"


def exported_luns(steps: list[Step]) -> set[tuple[str, int]]:
    """(target, LUN) that the steps remove."""
    paths = [step["path"].split("/") for step in steps if step["op"] == "rmdir" and "/namespaces/" in step["path"]]
    return {(nvme_names.iqn_of(path[1]), int(path[3])) for path in paths}


def lost_luns(
    current: Configuration, steps: list[Step], peers: Mapping[str, set[str]], layers: Mapping[str, Layer]
) -> tuple[list[LostLun], list[LostLun]]:
    """(the LUNs that the steps take from connected hosts, if only for a moment; the LUNs of hosts whose keys they replace).

    peers: {portal: addresses of those who are connected there}. Whose they are is not known, so they are taken for the hosts that the subsystem lets in
    and that published the LUN, else for all that it lets in.
    """
    gone = {step["path"] for step in steps if step["op"] in ("rmdir", "unlink")}
    renewed = {step["path"].split("/")[1] for step in steps if step["op"] == "write" and _is_key(step["path"])}
    renewed = {host for host in renewed if f"hosts/{host}" in current}
    lost: list[LostLun] = []
    cut: list[LostLun] = []
    for nqn in sorted(path.split("/")[1] for path in current if re.fullmatch(r"subsystems/[^/]+", path)):
        ports = sorted(path for path in current if re.fullmatch(rf"ports/\d+/subsystems/{re.escape(nqn)}", path))
        addresses = sorted({peer for port in ports for peer in peers.get(_portal(current, port), ())})
        if not addresses:
            continue
        base = f"subsystems/{nqn}"
        for namespace in sorted(path for path in current if re.fullmatch(rf"{re.escape(base)}/namespaces/\d+", path)):
            number = int(namespace.rpartition("/")[2])
            for host in _users(current, layers, nqn, number):
                entry: LostLun = {
                    "target": nvme_names.iqn_of(nqn),
                    "initiator": nvme_names.iqn_of(host),
                    "address": ", ".join(addresses),
                    "lun": number,
                }
                if namespace in gone or set(ports) & gone or f"{base}/allowed_hosts/{host}" in gone:
                    lost.append(entry)
                elif host in renewed:
                    cut.append(entry)
    return lost, cut


def _is_key(path: str) -> bool:
    return path.startswith("hosts/") and path.rpartition("/")[2] in KEYS


def _portal(current: Configuration, link: str) -> str:
    """The portal of the port that a subsystem is linked at."""
    base = "/".join(link.split("/")[:2])
    port = str(current.get(f"{base}/addr_trsvcid"))
    return portal_text(str(current.get(f"{base}/addr_traddr")), int(port) if port.isdigit() else 0)


def _users(current: Configuration, layers: Mapping[str, Layer], nqn: str, number: int) -> list[str]:
    prefix = f"subsystems/{nqn}/allowed_hosts/"
    allowed = sorted(path[len(prefix) :] for path in current if path.startswith(prefix))
    published = {
        nvme_names.nqn_of(iqn)
        for layer in layers.values()
        if layer["identity"].get("target_iqn") == nvme_names.iqn_of(nqn)
        and layer["identity"].get("lun") == number
        and (iqn := str((layer.get("detail") or {}).get("initiator_iqn") or "")).startswith("iqn.")
    }
    return [host for host in allowed if host in published] or allowed


def connected(portals: Iterable[Portal], tables: Iterable[str]) -> dict[str, set[str]]:
    """{portal: addresses of those who are connected there}. tables: /proc/net/tcp and tcp6."""
    wanted = {(ipaddress.ip_address(portal["address"]), portal["port"]): portal_text(**portal) for portal in portals}
    peers: dict[str, set[str]] = {text: set() for text in wanted.values()}
    for line in (line.split() for table in tables for line in table.splitlines()[1:]):
        if len(line) > 3 and line[3] == ESTABLISHED:
            here, there = _endpoint(line[1]), _endpoint(line[2])
            if here in wanted:
                peers[wanted[here]].add(str(there[0]))
    return peers


def _endpoint(text: str) -> tuple[Any, int]:
    """The address and port of 0100007F:1144: the address in words of 32 bits, each as this machine has numbers."""
    digits, _colon, port = text.partition(":")
    words = [int(digits[place : place + 8], 16).to_bytes(4, sys.byteorder) for place in range(0, len(digits), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address, int(port, 16)


def lun_identity(testbed_id: str, target: ExportedTarget, lun: ExportedLun) -> dict[str, Any]:
    name = nvme_names.namespace_uuid(testbed_id, lun["name"], lun.get("generation"))
    return {"target_iqn": target["name"], "lun": lun["lun"], "wwid": f"uuid.{name}"}


class NvmeTarget:
    """The NVMe subsystems of one testbed on this host."""

    def __init__(self, testbed_id: str, root: str = f"{mounts.CONFIGFS}/nvmet") -> None:
        self.testbed_id = testbed_id
        self.root = root
        self.record = Record(testbed_id, "nvme_target")

    def at(self, path: str) -> str:
        return os.path.join(self.root, path)

    def _names(self, path: str) -> list[str]:
        folder = self.at(path)
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def _recorded(self, key: str) -> list[str]:
        return list(self.record.data.get(key, []))

    # -- what is there

    def current(self) -> dict[str, str | Link]:
        """This testbed's configuration: what the record names, with everything of it that this collection manages."""
        entries: dict[str, str | Link] = {}
        for host in self._recorded("hosts"):
            entries.update(self._attributes(f"hosts/{host}", KEYS))
        for nqn in self._recorded("subsystems"):
            base = f"subsystems/{nqn}"
            entries.update(self._attributes(base, ("attr_allow_any_host", "attr_serial")))
            for number in self._names(f"{base}/namespaces"):
                entries.update(self._attributes(f"{base}/namespaces/{number}", (*FIXED, "enable")))
            entries.update(self._links(f"{base}/allowed_hosts"))
        for number in self.record.data.get("ports", {}).values():
            base = f"ports/{number}"
            entries.update(self._attributes(base, PORT_ATTRIBUTES))
            entries.update(self._links(f"{base}/subsystems"))
        return entries

    def _attributes(self, base: str, names: Iterable[str]) -> dict[str, str | Link]:
        if not os.path.isdir(self.at(base)):
            return {}
        values = {f"{base}/{name}": read_text(self.at(f"{base}/{name}"), default="") for name in names}
        return {base: DIR, **{path: value for path, value in values.items() if value}}

    def _links(self, base: str) -> dict[str, str | Link]:
        root = os.path.realpath(self.root)
        return {
            f"{base}/{name}": Link(os.path.relpath(os.path.realpath(self.at(f"{base}/{name}")), root))
            for name in self._names(base)
            if os.path.islink(self.at(f"{base}/{name}"))
        }

    def peers(self) -> dict[str, set[str]]:
        """{portal: addresses of those who are connected to this testbed's ports}"""
        current = self.current()
        bases = [path for path in current if re.fullmatch(r"ports/\d+", path)]
        portals: list[Portal] = [
            {"address": str(current[f"{base}/addr_traddr"]), "port": int(str(current[f"{base}/addr_trsvcid"]))}
            for base in bases
            if f"{base}/addr_traddr" in current and f"{base}/addr_trsvcid" in current
        ]
        return connected(portals, [read_text(f"/proc/net/{name}", default="") for name in ("tcp", "tcp6")])

    # -- what is wanted

    def refuse_foreign(self, targets: list[ExportedTarget]) -> None:
        """Raises foreign_target for a wanted name that exists on the host without being this testbed's."""
        hosts = {nvme_names.nqn_of(entry["iqn"]) for target in targets for entry in target["initiators"]}
        subsystems = {nvme_names.nqn_of(target["name"]) for target in targets}
        for kind, wanted in (("subsystems", subsystems), ("hosts", hosts)):
            strangers = sorted((wanted & set(self._names(kind))) - set(self._recorded(kind)))
            if strangers:
                what = "subsystem" if kind == "subsystems" else "host"
                raise Failure(
                    "foreign_target",
                    f"The NVMe {what} {strangers[0]} exists already, and not by this testbed.",
                    "Use another name, or remove it.",
                    target=strangers[0],
                )

    def numbers(self, targets: list[ExportedTarget]) -> dict[str, int]:
        """{portal: number of its port}: those that are recorded, and free ones."""
        numbers = dict(self.record.data.get("ports", {}))
        wanted = sorted({portal_text(**portal) for target in targets for portal in target["portals"]})
        taken = {*self._names("ports"), *map(str, numbers.values())}
        free = (number for number in range(1, HIGHEST_PORT) if str(number) not in taken)
        return {text: numbers[text] if text in numbers else next(free) for text in wanted}

    # -- change

    def apply(self, targets: list[ExportedTarget], steps: list[Step], entries: list[Entry]) -> None:
        before, data = loaded_modules(), self.record.data
        names = {
            "subsystems": [nvme_names.nqn_of(target["name"]) for target in targets],
            "hosts": sorted({nvme_names.nqn_of(entry["iqn"]) for target in targets for entry in target["initiators"]}),
        }
        numbers = self.numbers(targets)
        for kind, several in names.items():
            data[kind] = sorted({*data.get(kind, []), *several})
        data["ports"] = {**data.get("ports", {}), **numbers}
        self.record.save()
        load_module("configfs", intend=self.record.intend_modules, provides=mounts.CONFIGFS)
        if mounts.mounted_at(mounts.read(), mounts.CONFIGFS) is None:
            data["mounted_configfs"] = True
            self.record.save()
            run(["mount", "-t", "configfs", "configfs", mounts.CONFIGFS], what="configfs cannot be mounted")
        try:
            for module in MODULES:
                load_module(module, intend=self.record.intend_modules)
            self._carry_out(steps, entries)
            data.update({**{kind: sorted(several) for kind, several in names.items()}, "ports": numbers})
        finally:
            self.record.note_modules(before)

    def _carry_out(self, steps: list[Step], entries: list[Entry]) -> None:
        values = {entry.path: entry.value for entry in entries}
        for step in steps:
            path, value = self.at(step["path"]), values.get(step["path"])
            try:
                if step["op"] == "mkdir":
                    os.mkdir(path)
                elif step["op"] == "rmdir":
                    os.rmdir(path)
                elif step["op"] == "unlink":
                    os.unlink(path)
                elif step["op"] == "symlink":
                    os.symlink(self.at(value.to), path)  # type: ignore[union-attr]
                else:
                    write_text(path, str(value))
            except OSError as error:
                raise self._explained(step, error) from error

    def _explained(self, step: Step, error: OSError) -> Failure:
        path = step["path"]
        if _is_key(path) and not os.path.exists(self.at(path)):
            return Failure(
                "authentication_missing",
                "The kernel of this host has no authentication for its NVMe target (CONFIG_NVME_TARGET_AUTH).",
                "Let hosts in by their names alone with testbed.chap: none, or use a kernel that has it, 6.0 or later.",
                path=path,
            )
        if path.startswith("ports/") and step["op"] == "symlink":
            base = "/".join(path.split("/")[:2])
            portal = portal_text(
                read_text(self.at(f"{base}/addr_traddr")), int(read_text(self.at(f"{base}/addr_trsvcid")))
            )
            return Failure(
                "portal_unavailable",
                f"The NVMe target cannot listen on {portal}: {error.strerror}.",
                "Use an address of this host, and a port nothing else listens on.",
                portal=portal,
            )
        return Failure(
            "configfs_refused",
            f"The kernel refuses to {step['op']} {path} in the NVMe target's configuration: {error.strerror}.",
            "Look at the kernel log of the target host.",
            path=path,
            operation=step["op"],
        )

    def remove_all(self, steps: list[Step]) -> None:
        self._carry_out(steps, [])
        unload_modules(self.record.data.get("modules", []))
        if self.record.data.get("mounted_configfs") and not any(
            os.listdir(os.path.join(mounts.CONFIGFS, name)) for name in os.listdir(mounts.CONFIGFS)
        ):
            run(["umount", mounts.CONFIGFS], what="configfs cannot be unmounted")
        self.record.unload_modules()
        if self.record.data.get("mounted_configfs") and os.path.isdir(self.root):
            self.record.bequeath(mounted_configfs=True)
        self.record.remove()
