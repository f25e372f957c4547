# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of a testbed, and the context in which a stage adds to them. Nothing here knows a stage."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...module_utils.core.layers import Layer
from .nouns import Lab, Published
from .shape import Problem, did_you_mean, shown

OVERRIDDEN = "set in the inventory"
INITIATOR_GROUPS = ("hypervisors", "clients")


@dataclass
class Host:
    """One host of the testbed, and what was derived for it."""

    name: str
    platform: str
    own: dict[str, Any]
    variables: dict[str, Any] = field(default_factory=dict)
    because: dict[str, Any] = field(default_factory=dict)
    stages: list[Any] = field(default_factory=list)
    depends_on: list[Any] = field(default_factory=list)
    # It only reads storage that was there before, and needs no initiator for that.
    only_reads: bool = False


@dataclass
class Disk:
    """One disk of one target. ``hosts`` may log in to it; ``index`` is its place in testbed.disks.

    ``layer`` is the backing layer that a stage makes of it (None: a device or a file of the target), ``emulated`` the disks that the embedded lab makes for it.
    """

    name: str
    entry: dict[str, Any]
    index: int
    target: str
    purpose: str
    lun: int
    hosts: list[Any]
    loopback: bool
    layer: str | None = None
    emulated: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Store:
    """One datastore: on one disk (None: NFS), on ``hosts``. ``label`` is what the host calls it; ``over`` is the datastore that it is over NFS.

    ``there``: it was there before, so that ``entry`` and ``index`` are its place in testbed.existing.
    """

    name: str
    label: str
    entry: dict[str, Any]
    index: int
    disk: Disk | None
    hosts: list[Any]
    over: Store | None = None
    there: bool = False

    @property
    def variable(self) -> str:
        """Its entry, as the user knows it."""
        return f"testbed.{'existing' if self.there else 'datastores'}[{self.index}]"

    @property
    def target(self) -> str:
        """The host of its disk; empty for one without."""
        return self.disk.target if self.disk else ""


@dataclass
class Testbed:
    testbed_id: str
    state_dir: str
    results_dir: str
    description: dict[str, Any]
    hosts: dict[str, Any]
    disks: list[Any]
    stores: list[Any]
    layers: list[Layer]
    problems: list[Any]
    groups: dict[str, Any]
    embedded: str | None
    # {name of an export: [(place among the targets, target)]}, as soon as the sessions are derived.
    exporters: dict[Any, list[tuple[int, str]]] = field(default_factory=dict)

    def members(self, *groups: str) -> list[str]:
        return list(dict.fromkeys(name for group in groups for name in self.groups.get(group, [])))

    # Asked for once per host and stage; the groups of an inventory stay as they are.
    @cached_property
    def targets(self) -> list[str]:
        return self.members("targets")

    @cached_property
    def initiators(self) -> list[str]:
        targets = set(self.targets)
        return [name for name in self.members(*INITIATOR_GROUPS) if name not in targets]


class Context:
    """The input of a stage when it derives; ``derive`` and ``problem`` are its only outputs."""

    def __init__(self, lab: Lab, testbed: Testbed) -> None:
        self.lab, self.testbed, self.description = lab, testbed, testbed.description

    def published(self, host: Host) -> list[Published]:
        """The layers of a host that an earlier build has published, without storage that was there before."""
        return [
            layer for layer in self.lab.get("published", {}).get(host.name, []) if layer.get("provider") != "existing"
        ]

    def published_providers(self, host: Host) -> set[str | None]:
        return {layer.get("provider") for layer in self.published(host)}

    def disks_of_targets(self) -> list[tuple[Host, list[Disk]]]:
        """Each target with its disks."""
        testbed = self.testbed
        return [
            (testbed.hosts[name], [disk for disk in testbed.disks if disk.target == name]) for name in testbed.targets
        ]

    def derive(self, host: Host, variable: str, value: Any, because: str) -> Any:
        """Set a role's variable of a host, unless its inventory does; returns what holds."""
        if variable in host.own:
            value, because = host.own[variable], OVERRIDDEN
        host.variables[variable], host.because[variable] = value, because
        return value

    def problem(self, variable: str, value: Any, why: str, remedy: str) -> None:
        self.testbed.problems.append(Problem(variable, value if value is None else shown(value), why, remedy))

    def resolve(self, variable: str, names: list[str], among: list[str], what: str) -> list[str]:
        """The hosts that names of hosts or groups mean, in the order of the inventory."""
        wanted, groups = set(), self.testbed.groups
        for name in names:
            members = [name] if name in among else [host for host in groups.get(name, []) if host in among]
            if not members and not (name in groups and not among):
                self.problem(variable, name, f"which is not a {what}", did_you_mean(name, among))
            wanted.update(members)
        return [name for name in among if name in wanted]


def platform_of(own: dict[str, Any]) -> str:
    """linux, windows or esxi, by what the inventory says of a host."""
    if own.get("testbed_esxi"):
        return "esxi"
    windows = own.get("testbed_windows")
    if windows is None:
        windows = own.get("ansible_connection") in ("psrp", "winrm") or own.get("ansible_shell_type") == "powershell"
    return "windows" if windows in (True, "true", "True", "yes") else "linux"


def addresses_of(own: dict[str, Any]) -> list[tuple[str, int | None]]:
    """[(address, port or None)] of a host in the storage network, as its inventory says; without any, none."""
    given = own.get("testbed_address") or own.get("ansible_host") or []
    result = []
    for text in [given] if isinstance(given, str) else given:
        match = re.fullmatch(r"\[(.+)\]:(\d+)|([^:]+):(\d+)", str(text))
        address, port = (match[1] or match[3], int(match[2] or match[4])) if match else (str(text), None)
        result.append((address, port))
    return result


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def mappings(value: Any) -> list[dict[str, Any]]:
    """The mappings of a list; other values are reported elsewhere."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, (list, tuple)) else []


def layer_of(kind: str, name: str | None, host: Host, parent: str | None, purpose: str | None, what: str) -> Layer:
    return {
        "name": f"{kind}-{name}",
        "kind": kind,
        "host": host.name,
        "parent": parent,
        "purpose": purpose,
        "what": what,
    }


def is_exported(testbed: Testbed, store: dict[str, Any]) -> bool:
    """Whether others have a described datastore over NFS."""
    names = {store.get("name"), store.get("disk")} - {None}
    return any(other.get("nfs") in names for other in testbed.description["datastores"])


def targets_of(testbed: Testbed, entry: dict[str, Any]) -> list[str]:
    """The targets that have the disk of an entry of testbed.disks."""
    return [disk.target for disk in testbed.disks if disk.entry is entry]


def is_by_hand(host: Host, variable: str) -> bool:
    """Whether the inventory sets a variable of a role by itself."""
    return host.because.get(variable) == OVERRIDDEN
