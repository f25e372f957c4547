# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the description of a testbed to the variables of the roles on every host: a pure function, without clock and chance.

A lab is what is known before anything is touched::

    groups      {group: [host]}, in the order of the inventory
    hosts       {host: {variable: value}}: what the inventory (or the command line) sets
    base_dir    folder on the controller beside the inventory, for state and results unless the inventory names others
    secrets     {'chap': text, 'mutual_chap': text, 'nbd': text}, for what the description leaves to the collection
    roles       {role: {variable: option}}: the roles' argument specifications
    profiles    names of the known profiles
    workloads   {host: [workload]}: what would be measured there, as far as it is known
    published   {host: [{name, kind, host, purpose}]}: the layers that an earlier build has published
    others      {variable: [host]}: names of all other variables of the inventory, for what is written almost like one of ours
    facts       {host: {'addresses': [address], 'memory_mib': number}}, as far as they are known

What comes out is a Testbed. A variable that the inventory sets is taken as it is, and what follows from it is derived from that.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from dataclasses import dataclass, field
from typing import Any

from ...module_utils.core.cache_modes import BLOCK_KIB
from ...module_utils.core.cache_modes import words as cache_words
from ...module_utils.core.failure import Failure
from ...module_utils.core.iscsi_names import same_iqn
from ...module_utils.core.layers import Layer
from ...module_utils.core.raid_levels import chunk_kib
from ...module_utils.core.raid_levels import words as raid_words
from ...module_utils.esxi import network as esxi_network
from ...module_utils.esxi import settings as esxi_settings
from . import existing_storage
from .description import GROUPS, NETWORK, OPTIONS, WORDS
from .shape import UNFIT, Problem, did_you_mean, fit, fit_mapping, shown

IQN_AUTHORITY = "iqn.2026-11.test.storlab"
WINDOWS_AUTHORITY = "iqn.1991-05.com.microsoft"
LAB_ADDRESS = "10.213.0.1/24"
# What a machine of the embedded lab needs besides what it holds, and where its hosts' addresses begin.
MACHINE_MIB = 384
FIRST_ADDRESS = 10
INTERFACE_NAME = 15
# Of a virtio disk, which the embedded lab makes.
SERIAL_BYTES = 20
# Of all machines of the embedded lab. Without no_timer_check the kernel counts ticks while it starts, and panics where a busy computer held them back.
KERNEL_OPTIONS = "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on no_timer_check"
# {end of the serial: part of a cache tier} of such disks.
CACHE_PARTS = {"slow": "origin", "fast": "fast"}
NBD_PORT = 10809
NFS_VERSION = "4.2"
OVERRIDDEN = "set in the inventory"
INITIATOR_GROUPS = ("hypervisors", "clients")
INITIATOR_PROVIDERS = {"linux": "open_iscsi", "esxi": "esxi", "windows": "windows"}
DATASTORE_PROVIDERS = {"linux": "filesystem", "esxi": "esxi", "windows": "ntfs"}


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


@dataclass
class Disk:
    """One disk of one target. ``hosts`` may log in to it; ``index`` is its place in testbed.disks."""

    name: str
    entry: dict[str, Any]
    index: int
    target: str
    purpose: str
    lun: int
    hosts: list[Any]
    loopback: bool


@dataclass
class Store:
    """One datastore: on one disk (None: NFS), on ``hosts``. ``label`` is what the host calls it; ``over`` is the datastore that it is over NFS."""

    name: str
    label: str
    entry: dict[str, Any]
    index: int
    disk: Disk | None
    hosts: list[Any]
    over: Store | None = None

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

    def members(self, *groups: str) -> list[str]:
        return list(dict.fromkeys(name for group in groups for name in self.groups.get(group, [])))

    @property
    def targets(self) -> list[str]:
        return self.members("targets")

    @property
    def initiators(self) -> list[str]:
        return [name for name in self.members(*INITIATOR_GROUPS) if name not in self.targets]


def expand(lab: dict[str, Any]) -> Testbed:
    """The testbed that the lab's inventory describes. What is wrong is in its ``problems``, and left out of the rest."""
    problems: list[Any] = []
    groups = {name: list(members) for name, members in lab["groups"].items()}
    words = _lab_wide(lab, groups)
    testbed_id = words.get("testbed_id")
    testbed_id = str(testbed_id) if testbed_id not in (None, "") else "testbed"
    description = existing_storage.with_words(words.get("testbed"))
    if isinstance(description, dict):
        if not {"disks", "existing"} & set(description):
            remedy = "write a list, or describe storage that was there before as testbed.existing"
            problems.append(Problem("testbed.disks", None, "is not set", remedy))
        description = fit_mapping("testbed", description, OPTIONS, problems)
    elif description is not None:
        problems.append(Problem("testbed", shown(description), "", "write a mapping with disks, datastores and guests"))
    if not isinstance(description, dict):
        description = {
            "disks": [],
            "datastores": [],
            "guests": [],
            "existing": [],
            "port": 3260,
            "chap": "mutual",
            "nbd": "plain",
        }
    testbed = Testbed(
        testbed_id=testbed_id,
        state_dir=str(words.get("testbed_state_dir") or f"{lab['base_dir']}/{testbed_id}-testbed/state"),
        results_dir=str(words.get("testbed_results_dir") or f"{lab['base_dir']}/{testbed_id}-testbed/results"),
        description=description,
        hosts={},
        disks=[],
        stores=[],
        layers=[],
        problems=problems,
        groups=groups,
        embedded=next(iter(groups.get("embedded_controllers", [])), None),
    )
    _Expansion(lab, testbed).run()
    return testbed


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


def _lab_wide(lab: dict[str, Any], groups: dict[str, Any]) -> dict[str, Any]:
    """The variables of the whole testbed, as its first host has them."""
    first = next((name for group in (*GROUPS, *groups) for name in groups.get(group, [])), None)
    own = lab["hosts"].get(first, {}) if first else next(iter(lab["hosts"].values()), {})
    return {name: own[name] for name in WORDS if name in own}


class _Expansion:
    def __init__(self, lab: dict[str, Any], testbed: Testbed) -> None:
        self.lab, self.testbed, self.description = lab, testbed, testbed.description
        self.specification = {name: option for role in lab["roles"].values() for name, option in role.items()}

    def run(self) -> None:
        testbed = self.testbed
        known = testbed.members(*GROUPS, "guest_hosts", "embedded_controllers")
        unfit: dict[str, list[Problem]] = {}
        for name in known:
            own = self.lab["hosts"].get(name, {})
            testbed.hosts[name] = Host(name, platform_of(own), self._fitted(own, unfit.setdefault(name, [])))
        # What is wrong on all hosts was most likely said once.
        for problem in dict.fromkeys(problem for problems in unfit.values() for problem in problems):
            hosts = [name for name in known if problem in unfit[name]]
            where = "" if len(hosts) == len(known) else f" of {', '.join(hosts)}"
            testbed.problems.append(problem.about(f"{problem.variable}{where}"))
        self._embedded_addresses()
        self._disks()
        self._stores()
        self._over_nfs()
        for name in testbed.targets:
            self._target(testbed.hosts[name])
        for name in testbed.targets + testbed.initiators:
            self._sessions(testbed.hosts[name])
        for host in testbed.hosts.values():
            self._esxi_network(host)
        self._suffixes()
        for name in testbed.targets + testbed.initiators:
            self._datastores(testbed.hosts[name])
        self._guests()
        self._existing()
        self._measured()
        if testbed.embedded:
            self._machines(testbed.hosts[testbed.embedded])
        self._stages()
        self._layers()

    # ---- what the inventory says

    def _fitted(self, own: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
        """The host's variables as their types; what does not fit is a problem, and left out."""
        result = {}
        for variable, value in own.items():
            option = self.specification.get(variable)
            fitted = value if option is None else fit(variable, value, option, problems)
            if fitted is not UNFIT:
                result[variable] = fitted
        return result

    def derive(self, host: Host, variable: str, value: Any, because: str) -> Any:
        """Set a role's variable of a host, unless its inventory does; returns what holds."""
        if variable in host.own:
            value, because = host.own[variable], OVERRIDDEN
        host.variables[variable], host.because[variable] = value, because
        return value

    def problem(self, variable: str, value: Any, why: str, remedy: str) -> None:
        self.testbed.problems.append(Problem(variable, value if value is None else shown(value), why, remedy))

    def _resolve(self, variable: str, names: list[str], among: list[str], what: str) -> list[str]:
        """The hosts that names of hosts or groups mean, in the order of the inventory."""
        wanted, groups = set(), self.testbed.groups
        for name in names:
            members = [name] if name in among else [host for host in groups.get(name, []) if host in among]
            if not members and not (name in groups and not among):
                self.problem(variable, name, f"which is not a {what}", did_you_mean(name, among))
            wanted.update(members)
        return [name for name in among if name in wanted]

    # ---- disks and datastores

    def _disks(self) -> None:
        testbed = self.testbed
        tgt = [name for name in testbed.targets if testbed.hosts[name].own.get("iscsi_target_provider") == "tgt"]
        # LUN 0 of tgt is its own controller.
        used = {name: int(name in tgt) for name in testbed.targets}
        for index, entry in enumerate(self.description.get("disks", [])):
            variable = f"testbed.disks[{index}]"
            targets = self._resolve(
                f"{variable}.targets", entry["targets"], testbed.targets, "target of this inventory"
            )
            for target in targets:
                name = entry["name"] if len(targets) == 1 else f"{entry['name']}-{target}"
                carries = bool(self._stores_on(name, entry)) or self._is_raw(name, entry)
                # A RAM disk or VHDX file is made empty. What a device of the user's holds, only the user knows.
                kept = carries or entry["kind"] == "device"
                purpose = entry.get("purpose") or ("data" if kept else "scratch")
                if self._is_raw(name, entry):
                    # It is measured in its guest, and meanwhile nowhere else.
                    purpose = "data"
                hosts = [host for host in testbed.initiators if carries or testbed.hosts[host].platform != "esxi"]
                if any(self._is_exported(store) for store in self._stores_on(name, entry)):
                    # It is mounted on the target.
                    hosts = []
                if "to" in entry:
                    hosts = self._resolve(f"{variable}.to", entry["to"], testbed.initiators, "host that logs in")
                # tgt shows every LUN to everyone who logs in, and a datastore's is not for the target itself.
                alone = testbed.hosts[target].platform == "linux" and target not in tgt
                loopback = bool(testbed.initiators) and purpose == "scratch" and alone
                testbed.disks.append(
                    Disk(
                        name=name,
                        entry=entry,
                        index=index,
                        target=target,
                        purpose=purpose,
                        lun=entry.get("lun", used[target]),
                        hosts=hosts,
                        loopback=entry.get("loopback", loopback),
                    )
                )
                used[target] += 1

    def _stores_on(self, name: str, disk: dict[str, Any]) -> list[Any]:
        """What is described of datastores on a disk."""
        return [store for store in self.description["datastores"] if store.get("disk") in (name, disk["name"])]

    def _is_raw(self, name: str, disk: dict[str, Any]) -> bool:
        """Whether a guest has the disk whole."""
        return any(guest.get("raw") in (name, disk["name"]) for guest in self.description["guests"] if guest.get("raw"))

    def _is_exported(self, store: dict[str, Any]) -> bool:
        names = {store.get("name"), store.get("disk")} - {None}
        return any(other.get("nfs") in names for other in self.description["datastores"])

    def _over_nfs(self) -> None:
        """The datastores that are others over NFS, once these are known."""
        testbed = self.testbed
        bases = [store for store in testbed.stores if store.disk and store.disk.target in store.hosts]
        for index, entry in enumerate(self.description.get("datastores", [])):
            if not entry.get("nfs"):
                continue
            variable = f"testbed.datastores[{index}]"
            base = next((store for store in bases if entry["nfs"] in (store.name, store.label)), None)
            if base is None:
                names = [store.name for store in bases]
                self.problem(
                    f"{variable}.nfs",
                    entry["nfs"],
                    "which is not a datastore of a target",
                    did_you_mean(entry["nfs"], names),
                )
                continue
            hosts = self._resolve(
                f"{variable}.hosts",
                entry.get("hosts", testbed.initiators),
                testbed.initiators,
                "host of this inventory",
            )
            name = entry.get("name") or f"{base.name}-nfs"
            testbed.stores.append(Store(name, name, entry, index, None, hosts, base))

    def _stores(self) -> None:
        testbed = self.testbed
        for index, entry in enumerate(self.description.get("datastores", [])):
            variable = f"testbed.datastores[{index}]"
            if entry.get("nfs"):
                continue
            if entry.get("type") == "nfs":
                hosts = self._resolve(
                    f"{variable}.hosts",
                    entry.get("hosts", testbed.initiators),
                    testbed.initiators,
                    "host of this inventory",
                )
                name = entry.get("name") or "nfs"
                testbed.stores.append(Store(name, name, entry, index, None, hosts))
                continue
            on = entry.get("disk")
            disks = [disk for disk in testbed.disks if on in (disk.name, disk.entry["name"])]
            if not disks:
                self.problem(
                    f"{variable}.disk",
                    on,
                    "which is not a disk" if on else "is not set",
                    did_you_mean(on or "", [disk.name for disk in testbed.disks]),
                )
            for disk in disks:
                local = self._is_exported(entry) or not testbed.initiators
                hosts = disk.hosts or ([disk.target] if local else [])
                if "hosts" in entry:
                    hosts = self._resolve(
                        f"{variable}.hosts",
                        entry["hosts"],
                        [*disk.hosts, disk.target],
                        f"host that has the disk {disk.name}",
                    )
                name = entry.get("name") or disk.name
                if entry.get("name") and len(disks) > 1:
                    name = f"{name}-{disk.target}"
                esxi = any(testbed.hosts[host].platform == "esxi" for host in hosts)
                label = f"{testbed.testbed_id}-{name}" if esxi and not entry.get("name") else name
                testbed.stores.append(Store(name, label, entry, index, disk, hosts))

    # ---- targets

    def _target(self, host: Host) -> None:
        disks = [disk for disk in self.testbed.disks if disk.target == host.name]
        windows = host.platform == "windows"
        self.derive(
            host,
            "ramdisk_disks",
            [
                {
                    "name": disk.name,
                    "size_mib": disk.entry.get("size", 0),
                    "purpose": disk.purpose,
                    **({"model": disk.entry["model"]} if "model" in disk.entry else {}),
                }
                for disk in disks
                if disk.entry["kind"] == "ramdisk"
            ],
            "testbed.disks",
        )
        self.derive(
            host, "raid_arrays", [_array(disk) for disk in disks if disk.entry["kind"] == "raid"], "testbed.disks"
        )
        self.derive(
            host,
            "cache_tier_caches",
            [_cache(disk) for disk in disks if disk.entry["kind"] == "cache"],
            "testbed.disks",
        )
        model = any("model" in disk.entry for disk in disks)
        provider = ("preinstalled" if model else "iscsi_target") if windows else "auto"
        self.derive(host, "ramdisk_provider", provider, f"{host.name} runs {host.platform.capitalize()}")
        self.derive(
            host,
            "iscsi_target_provider",
            "windows" if windows else "lio",
            f"{host.name} runs {host.platform.capitalize()}",
        )
        loopback = any(disk.loopback for disk in disks)
        for variable in ("ramdisk_windows_loopback", "iscsi_target_windows_loopback"):
            self.derive(host, variable, windows and loopback, "testbed.disks")
        self.derive(
            host,
            "iscsi_target_allow_no_chap",
            self.description["chap"] == "none",
            "testbed.chap",
        )
        exported = [disk for disk in disks if disk.hosts or disk.loopback]
        targets = (self._windows_targets if windows else self._linux_targets)(host, exported)
        self.derive(
            host,
            "iscsi_target_targets",
            targets,
            f"testbed.disks, testbed_address of {host.name}, and who is in hypervisors and clients",
        )
        self._exports(host)

    def _exports(self, host: Host) -> None:
        """What clients have over NFS of a target."""
        stores = [store for store in self.testbed.stores if store.over and store.over.target == host.name]
        because = "the datastores with nfs in testbed.datastores"
        exports = [
            {
                "name": store.label,
                "layer": f"datastore-{store.over.label}",
                "clients": [
                    address for name in store.hosts for address, _port in addresses_of(self.testbed.hosts[name].own)
                ],
            }
            for store in stores
        ]
        versions = sorted({store.entry.get("nfs_version", NFS_VERSION) for store in stores}) or [NFS_VERSION]
        self.derive(host, "nfs_export_exports", exports, f"{because}, and testbed_address of their hosts")
        self.derive(host, "nfs_export_versions", versions, because)
        self.derive(
            host,
            "nfs_export_addresses",
            [address for address, _port in addresses_of(host.own)],
            f"testbed_address of {host.name}",
        )

    def _linux_targets(self, host: Host, disks: list[Disk]) -> list[dict[str, Any]]:
        """One target; each initiator sees the LUNs that are its."""
        if not disks:
            return []
        initiators = [
            self._initiator(
                self._initiator_name(self.testbed.hosts[name]),
                name,
                host,
                [disk for disk in disks if name in disk.hosts],
                luns=True,
            )
            for name in self.testbed.initiators
            if any(name in disk.hosts for disk in disks)
        ]
        own = [disk for disk in disks if disk.loopback]
        if own:
            initiators.append(self._initiator(self._initiator_name(host), "loopback", host, own, luns=True))
        return [self._export(host, f"{self.prefix}:{_iqn_part(host.name)}", disks, initiators)]

    def _windows_targets(self, host: Host, disks: list[Disk]) -> list[dict[str, Any]]:
        """A Windows target shows all its LUNs to everyone who may log in: one for each set of LUNs, and one for the server itself."""
        sets: dict[tuple[str, ...], list[str]] = {}
        for name in self.testbed.initiators:
            seen = tuple(disk.name for disk in disks if name in disk.hosts)
            if seen:
                sets.setdefault(seen, []).append(name)
        targets: list[dict[str, Any]] = []
        prefix = f"{self.prefix}:{_iqn_part(host.name)}"
        for seen, members in sets.items():
            user = members[0] if len(members) == 1 else self.testbed.testbed_id
            mine = [disk for disk in disks if disk.name in seen]
            mutual = any(self.testbed.hosts[member].platform != "windows" for member in members)
            initiators = [
                self._initiator(self._initiator_name(self.testbed.hosts[member]), user, host, mine, mutual=mutual)
                for member in members
            ]
            targets.append(self._export(host, f"{prefix}-{len(targets) + 1}" if targets else prefix, mine, initiators))
        own = [disk for disk in disks if disk.loopback]
        if own:
            initiators = [self._initiator(self._initiator_name(host), "loopback", host, own, mutual=False)]
            targets.append(self._export(host, f"{prefix}-loopback", own, initiators))
        return targets

    def _export(self, host: Host, name: str, disks: list[Disk], initiators: list[dict[str, Any]]) -> dict[str, Any]:
        portals = [
            {"address": address, "port": port or self.description["port"]} for address, port in addresses_of(host.own)
        ]
        return {"name": name, "portals": portals, "luns": [_lun(disk) for disk in disks], "initiators": initiators}

    def _initiator(
        self, iqn: str, user: str, target: Host, disks: list[Disk], luns: bool = False, mutual: bool = True
    ) -> dict[str, Any]:
        chap = self.description["chap"]
        result: dict[str, Any] = {"iqn": iqn}
        if luns:
            result["luns"] = [disk.lun for disk in disks]
        if chap != "none":
            result.update(chap_user=user, chap_password=self._secret("chap"))
        if chap == "mutual" and mutual:
            result.update(mutual_chap_user=target.name, mutual_chap_password=self._secret("mutual_chap"))
        return result

    def _secret(self, kind: str) -> str:
        return str(self.description.get(f"{kind}_password") or self.lab["secrets"][kind])

    @property
    def prefix(self) -> str:
        return self.description.get("iqn_prefix") or f"{IQN_AUTHORITY}:{_iqn_id(self.testbed.testbed_id)}"

    def _initiator_name(self, host: Host) -> str:
        if "iscsi_initiator_name" in host.own:
            return str(host.own["iscsi_initiator_name"])
        if host.platform == "windows":
            return f"{WINDOWS_AUTHORITY}:{_iqn_part(host.name)}"
        loopback = "-loopback" if host.name in self.testbed.targets else ""
        return f"{self.prefix}:{_iqn_part(host.name)}{loopback}"

    # ---- initiators

    def _esxi_network(self, host: Host) -> None:
        """What iSCSI stands on in an ESXi host: one interface an uplink, each with a port group of its own, which are then bound."""
        variable, words = f"testbed_network of {host.name}", host.own.get("testbed_network")
        switches: list[dict[str, Any]] = []
        ports: list[dict[str, Any]] = []
        if words is not None and host.platform != "esxi":
            self.problem(variable, None, "is for ESXi hosts only", "remove it; networks of other hosts are their own")
        elif isinstance(words, dict):
            network = fit_mapping(variable, words, NETWORK, self.testbed.problems)
            if network is not UNFIT:
                switches, ports = self._switches_and_ports(variable, network)
        elif words is not None:
            self.problem(variable, words, "", "write a mapping with uplinks and addresses")
        if host.platform == "esxi":
            because = "testbed_network" if words else "no network is described for it"
            self.derive(host, "esxi_network_switches", switches, because)
            ports = self.derive(host, "esxi_network_ports", ports, because)
            self._esxi_settings(host)
        if host.name in self.testbed.targets + self.testbed.initiators:
            bound = [port["port_group"] for port in mappings(ports) if port.get("port_group")]
            because = "the interfaces of its network" if bound else "no interfaces of its own for iSCSI"
            self.derive(host, "iscsi_initiator_esxi_port_binding", bound, because)

    def _esxi_settings(self, host: Host) -> None:
        """Nothing follows from these; the role takes them as they are."""
        policy = host.own.get("esxi_network_power_policy") or esxi_settings.AS_IS
        try:
            esxi_settings.check(policy, host.own.get("esxi_network_ntp_servers") or [])
        except Failure as failure:
            wrong = failure.details
            self.problem(f"{wrong['variable']} of {host.name}", wrong["value"], "", failure.remedy)

    def _switches_and_ports(
        self, variable: str, network: dict[str, Any]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        uplinks, addresses, name = network["uplinks"], network["addresses"], f"storlab-{self.testbed.testbed_id}"
        if not uplinks or len(uplinks) != len(addresses):
            self.problem(
                f"{variable} addresses",
                addresses,
                f"for the uplinks {', '.join(uplinks) or 'none'}",
                "write one address for each uplink",
            )
            return [], []
        switch = network.get("switch") or name
        switches = [] if network.get("switch") else [{"name": name, "uplinks": uplinks, "mtu": network["mtu"]}]
        same = {"switch": switch, "vlan": network["vlan"], "mtu": network["mtu"]}
        ports = [
            {"port_group": f"{name}-{number}", "uplink": uplink, "address": address, **same}
            for number, (uplink, address) in enumerate(zip(uplinks, addresses), 1)
        ]
        try:
            esxi_network.check(switches, ports)
        except Failure as failure:
            wrong = failure.details
            variable = f"{variable} (from which follows {wrong['variable']})"
            self.problem(variable, wrong["value"], "", failure.remedy)
            return [], []
        return switches, ports

    def _sessions(self, host: Host) -> None:
        """Sessions follow from the targets' access lists: whoever is in one logs in, to what it may see there."""
        name = self._initiator_name(host)
        self.derive(host, "iscsi_initiator_name", name, "testbed.iqn_prefix and the host's name")
        self.derive(
            host,
            "iscsi_initiator_provider",
            INITIATOR_PROVIDERS[host.platform],
            f"{host.name} runs {host.platform.capitalize()}",
        )
        sessions = []
        for target in self.testbed.targets:
            for export in mappings(self.testbed.hosts[target].variables["iscsi_target_targets"]):
                mine = next(
                    (access for access in mappings(export.get("initiators")) if _names(access, name, host)), None
                )
                portals = mappings(export.get("portals"))
                if mine is None or not portals:
                    continue
                # An ESXi host finds all portals of a target by itself. What a target says to itself needs one way.
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
        self.derive(
            host, "iscsi_initiator_targets", sessions, "the targets whose iscsi_target_targets name this initiator"
        )

    def _suffixes(self) -> None:
        """Hosts that share a LUN need names of their own for their layers: the first keeps the plain ones."""
        taken: set[Any] = set()
        for name in self.testbed.targets + self.testbed.initiators:
            host = self.testbed.hosts[name]
            mine = {
                (session.get("iqn"), lun.get("lun"))
                for session in mappings(host.variables["iscsi_initiator_targets"])
                for lun in mappings(session.get("luns"))
                if lun.get("layer_kind", "initiator") == "initiator"
            }
            mine |= {("nfs", store.label) for store in self.testbed.stores if store.over and name in store.hosts}
            shared = bool(mine & taken)
            taken |= mine
            suffix = self.derive(
                host,
                "iscsi_initiator_layer_suffix",
                f"-{name}" if shared else "",
                "whether another host before it has the same LUN",
            )
            self.derive(host, "datastore_layer_suffix", suffix, "iscsi_initiator_layer_suffix")

    def _datastores(self, host: Host) -> None:
        stores = [store for store in self.testbed.stores if host.name in store.hosts]
        self.derive(
            host,
            "datastore_provider",
            DATASTORE_PROVIDERS[host.platform],
            f"{host.name} runs {host.platform.capitalize()}",
        )
        described = [
            self._store_over_nfs(store, store.over)
            if store.over
            else _STORES[host.platform](self._below(store, host), store, place)
            for place, store in enumerate(stores)
        ]
        self.derive(host, "datastore_datastores", described, "testbed.datastores")
        self.derive(
            host,
            "datastore_esxi_hosts",
            self._esxi_names() if host.platform == "esxi" else [],
            "the ESXi hosts of the testbed",
        )

    def _esxi_names(self) -> list[str]:
        """What the testbed's ESXi hosts are called where they are reached: they alone may mount its datastores."""
        hosts = [host for host in self.testbed.hosts.values() if host.platform == "esxi"]
        return sorted({host.own["testbed_esxi"]["host"] for host in hosts if host.own["testbed_esxi"].get("host")})

    def _store_over_nfs(self, store: Store, base: Store) -> dict[str, Any]:
        """The benchmark files are those that the target has made. base: the datastore that this one is over NFS."""
        target, below, entry = self.testbed.hosts[base.target], base.entry, store.entry
        address = next((address for address, _port in addresses_of(target.own)), None)
        described = _linux_store(f"target-{store.label}", store, 0)
        return {
            **described,
            "filesystem": "nfs",
            "server": address,
            "export": below.get("mount_point", f"/srv/storlab/{base.label}"),
            "nfs_version": entry.get("nfs_version", NFS_VERSION),
            "benchmark_file_mib": below.get("benchmark_file", 0),
            "benchmark_files": below.get("benchmark_files", 1),
        }

    def _below(self, store: Store, host: Host) -> str | None:
        """The layer that a datastore lies on."""
        if store.disk is None:
            return None
        if store.disk.target == host.name:
            return f"backing-{store.disk.name}"
        return f"initiator-{store.disk.name}{host.variables['iscsi_initiator_layer_suffix']}"

    # ---- guests

    def _guests(self) -> None:
        testbed = self.testbed
        by_host: dict[str, list[dict[str, Any]]] = {}
        guests = testbed.groups.get("guests", [])
        for index, entry in enumerate(self.description.get("guests", [])):
            variable = f"testbed.guests[{index}]"
            inventory_name = entry.get("host", entry["name"])
            if inventory_name not in guests:
                word = f"{variable}.host" if "host" in entry else f"{variable}.name"
                self.problem(
                    word,
                    inventory_name,
                    "which is not a host of the group guests",
                    did_you_mean(inventory_name, guests),
                )
            stores = [store for store in testbed.stores if store.hosts]
            store = next((store for store in stores if entry.get("datastore") in (store.name, store.label)), None)
            if store is None:
                why = "which is not a datastore" if entry.get("datastore") else "is not set"
                self.problem(
                    f"{variable}.datastore",
                    entry.get("datastore"),
                    why,
                    did_you_mean(entry.get("datastore") or "", [store.name for store in stores]),
                )
                continue
            runs = testbed.hosts[store.hosts[0]]
            if "hypervisor" in entry:
                named = self._resolve(
                    f"{variable}.hypervisor",
                    [entry["hypervisor"]],
                    store.hosts,
                    f"host with the datastore {store.name}",
                )
                runs = testbed.hosts[named[0]] if named else runs
            keeper = runs
            if testbed.embedded and runs.platform == "linux":
                runs = testbed.hosts[testbed.embedded]
            maker = self._esxi_guest if runs.platform == "esxi" else self._qemu_guest
            guest = maker(entry, inventory_name, store, keeper)
            if "raw" in entry:
                self._raw_disk(f"{variable}.raw", entry["raw"], guest, keeper)
            served = [disk for other in by_host.get(runs.name, []) for disk in _served(other, keeper)]
            for place, disk in enumerate(_served(guest, keeper), len(served)):
                if place:
                    disk["port"] = NBD_PORT + place
            by_host.setdefault(runs.name, []).append(guest)
        for name in list(dict.fromkeys([*testbed.groups.get("guest_hosts", []), *by_host])):
            host = testbed.hosts[name]
            self.derive(host, "guest_vm_guests", by_host.get(name, []), "testbed.guests")
            esxi = host.platform == "esxi"
            self.derive(
                host, "guest_vm_provider", "esxi" if esxi else "qemu", f"{name} runs {host.platform.capitalize()}"
            )
            self._guest_folders(host)
        testbed.groups["guest_hosts"] = [
            name for name in testbed.hosts if "guest_vm_guests" in testbed.hosts[name].variables
        ]

    def _guest_folders(self, host: Host) -> None:
        """Where the QEMU processes of guests keep what they need; the embedded lab has a network of its own."""
        embedded = host.name == self.testbed.embedded
        netns, folder = host.own.get("embedded_lab_netns", ""), host.own.get("embedded_lab_dir", "")
        qemu = host.variables["guest_vm_provider"] == "qemu"
        here = f"/run/storlab/{netns if embedded else self.testbed.testbed_id}" if qemu else ""
        because = "embedded_lab_dir and embedded_lab_netns" if embedded else "testbed_id"
        self.derive(host, "guest_vm_run_dir", f"{here}/vm" if qemu else "", because)
        self.derive(host, "guest_vm_netns", netns if embedded else "", because)
        self.derive(host, "guest_vm_accel_cache", f"{folder}/accel.json" if embedded else "", because)
        self.derive(host, "guest_vm_ssh_control_dir", f"{here}/cp" if embedded else "", because)
        self.derive(host, "guest_vm_console_dir", f"{folder}/console" if embedded else "", because)
        self.derive(host, "guest_vm_boot_timeout_s", 300 if qemu else 600, because)
        tls = qemu and self.description["nbd"] == "tls"
        self.derive(host, "guest_vm_nbd_secret", self.lab["secrets"]["nbd"] if tls else "", "testbed.nbd")

    def _qemu_guest(self, entry: dict[str, Any], host: str, store: Store, keeper: Host) -> dict[str, Any]:
        embedded = self.testbed.embedded is not None
        own = self.testbed.hosts[host].own if host in self.testbed.hosts else {}
        address = entry.get("address") or next((address for address, _port in addresses_of(own)), None)
        described = next(
            (
                datastore
                for datastore in mappings(keeper.variables["datastore_datastores"])
                if datastore.get("name") == store.label
            ),
            {},
        )
        disk = {
            "datastore_layer": f"datastore-{store.label}{keeper.variables['datastore_layer_suffix']}",
            "host": keeper.name,
            "directory": described.get("mount_point"),
            "size_mib": entry.get("disk_size", 0),
            "transport": "nbd" if embedded else "file",
        }
        guest = {"name": entry["name"], "host": host}
        if address:
            guest["address"] = address
        guest["memory_mib"], guest["vcpus"] = entry.get("memory", 0), entry.get("vcpus", 1)
        if embedded:
            lab = self.testbed.hosts[str(self.testbed.embedded)].own
            image, prefix = f"{lab.get('embedded_lab_dir', '')}/image", self._network().split("/")[1]
            guest["boot"] = {
                "kernel": f"{image}/vmlinuz",
                "initrd": f"{image}/initrd.img",
                "append": f"{KERNEL_OPTIONS} storlab.hostname={host} storlab.address={address}/{prefix}",
                "image": f"{image}/root.ext4",
                "image_serial": "storlab-root",
                "readonly": True,
            }
            guest["nics"] = [{"tap": tap_name(host)}]
            disk["address"] = next((address for address, _port in addresses_of(keeper.own)), None)
        else:
            guest["boot"] = {"image": entry.get("image"), "image_format": entry.get("image_format", "raw")}
            guest["nics"] = [{"tap": tap} for tap in entry.get("taps", [])]
        return {**guest, "data_disk": disk}

    def _raw_disk(self, variable: str, name: str, guest: dict[str, Any], keeper: Host) -> None:
        """The LUN that a guest has whole, as its host sees it."""
        if keeper.platform == "esxi":
            remedy = f"give {guest['name']} a datastore of type rdm on it instead"
            self.problem(variable, name, f"but {keeper.name} is an ESXi host", remedy)
            return
        here = [disk for disk in self.testbed.disks if keeper.name in (*disk.hosts, disk.target)]
        disk = next((disk for disk in here if name in (disk.name, disk.entry["name"])), None)
        if disk is None:
            why = f"which is not a disk of {keeper.name}"
            self.problem(variable, name, why, did_you_mean(name, [disk.name for disk in here]))
            return
        local = disk.target == keeper.name
        below = guest["data_disk"]
        guest["raw_disk"] = {
            "layer": f"backing-{disk.name}"
            if local
            else f"initiator-{disk.name}{keeper.variables['iscsi_initiator_layer_suffix']}",
            **{key: below[key] for key in ("host", "transport", "address") if key in below},
        }

    def _esxi_guest(self, entry: dict[str, Any], host: str, store: Store, keeper: Host) -> dict[str, Any]:
        own = self.testbed.hosts[host].own if host in self.testbed.hosts else {}
        address = entry.get("address") or own.get("ansible_host")
        extra = entry.get("esxi", {})
        system = "template" in extra or "ova" in extra
        layer = f"datastore-{store.label}{keeper.variables['datastore_layer_suffix']}"
        disk = {
            "name": "data",
            "datastore": store.label,
            "size_mib": entry.get("disk_size", 0),
            "controller": "pvscsi",
            "provisioning": "eager",
        }
        if store.entry.get("type") == "rdm":
            disk = {"name": "data", "controller": "lsilogic", "rdm": {"layer": layer}}
        guest = {"name": entry["name"], "host": host}
        if address:
            guest["address"] = address
        if "vcpus" in entry:
            guest["vcpus"] = entry["vcpus"]
        if "memory" in entry:
            guest["memory_mib"] = entry["memory"]
        guest["esxi"] = {
            "datastore": store.label,
            "datastore_layer": layer,
            "disks": [disk],
            **({"nics": [{"network": "VM Network"}]} if not system else {}),
            "wait_for_address": system,
            "find_disk": system,
            **extra,
        }
        return guest

    # ---- storage that was there before

    def _existing(self) -> None:
        published, described = self.lab.get("published", {}), self.description["existing"]
        derived = existing_storage.derived(described, existing_hosts(self.testbed))
        for name, host in self.testbed.hosts.items():
            built = any(layer.get("provider") == "existing" for layer in published.get(name, []))
            if name in derived or built or existing_storage.VARIABLE in host.own:
                self.derive(host, existing_storage.VARIABLE, derived.get(name, []), "testbed.existing")

    # ---- the embedded lab

    def _network(self) -> str:
        own = self.testbed.hosts[str(self.testbed.embedded)].own.get("embedded_lab_network") or {}
        return str(own.get("address", LAB_ADDRESS))

    def _embedded_addresses(self) -> None:
        """Machines of the embedded lab get the addresses of its network in the order of the groups."""
        if not self.testbed.embedded:
            return
        network = ipaddress.IPv4Interface(self._network()).network
        listed = self.testbed.hosts[self.testbed.embedded].own
        given = {
            machine.get("name"): machine.get("address")
            for key in ("embedded_lab_machines", "embedded_lab_ports")
            for machine in mappings(listed.get(key))
        }
        for place, name in enumerate(self.testbed.members(*GROUPS), 1):
            own = self.testbed.hosts[name].own
            own.setdefault("testbed_address", given.get(name) or str(network[FIRST_ADDRESS + place]))

    def _machines(self, host: Host) -> None:
        self.derive(host, "embedded_lab_name", self.testbed.testbed_id, "testbed_id")
        machines = []
        for name in self.testbed.targets + self.testbed.initiators:
            machine = self.testbed.hosts[name]
            held = sum(disk.get("size_mib", 0) for disk in mappings(machine.variables.get("ramdisk_disks")))
            disks = [
                emulated for disk in self.testbed.disks if disk.target == name for emulated in emulated_disks(disk)
            ]
            machines.append(
                {
                    "name": name,
                    "address": addresses_of(machine.own)[0][0],
                    "tap": tap_name(name),
                    "memory_mib": MACHINE_MIB + held,
                    "vcpus": 1,
                    **({"disks": disks} if disks else {}),
                }
            )
        self.derive(
            host, "embedded_lab_machines", machines, "the groups targets, hypervisors and clients, and testbed.disks"
        )
        guests = [
            {"name": name, "address": addresses_of(self.testbed.hosts[name].own)[0][0], "tap": tap_name(name)}
            for name in self.testbed.groups.get("guests", [])
        ]
        self.derive(host, "embedded_lab_ports", guests, "the group guests")

    # ---- measuring

    def _links(self, host: Host) -> list[dict[str, str]]:
        """[{target, address}] of the Linux targets on other machines that a host's sessions and mounts go to, each once."""
        links = []
        for target in self.testbed.targets:
            exports = mappings(self.testbed.hosts[target].variables.get("iscsi_target_targets"))
            names = {export.get("name") for export in exports}
            for session in mappings(host.variables.get("iscsi_initiator_targets")):
                if session.get("iqn") in names:
                    ways = [session.get("portal"), *mappings(session.get("other_portals"))]
                    links += [(target, way.get("address")) for way in mappings(ways)]
        for store in self.testbed.stores:
            if store.over and host.name in store.hosts:
                addresses = addresses_of(self.testbed.hosts[store.over.target].own)
                links += [(store.over.target, address) for address, _port in addresses[:1]]
        return [
            {"target": target, "address": str(address)}
            for target, address in dict.fromkeys(links)
            if address and target != host.name and self.testbed.hosts[target].platform == "linux"
        ]

    def _measured(self) -> None:
        # The embedded lab makes its guests: one that nobody describes is not there.
        listed = [mappings(host.variables.get("guest_vm_guests")) for host in self.testbed.hosts.values()]
        made = {guest.get("host") for guests in listed for guest in guests}
        unmade = set(self.testbed.groups.get("guests", [])) - made if self.testbed.embedded else set()
        for name in self.testbed.targets + self.testbed.initiators + self.testbed.groups.get("guests", []):
            host = self.testbed.hosts[name]
            if name in unmade:
                continue
            windows = host.platform == "windows"
            runs = f"{name} runs {host.platform.capitalize()}"
            # Nothing is measured on an ESXi host; what it counts is kept after each round.
            self.derive(host, "benchmark_platform", host.platform, runs)
            links = self._links(host) if host.platform == "linux" else []
            because = (
                "the targets that it logs in to or mounts from"
                if links
                else "no Linux target that it reaches over a network"
            )
            self.derive(host, "benchmark_networks", links, because)
            profile = self.derive(host, "benchmark_profile", "", "none is named")
            if profile and host.own.get("benchmark_workloads"):
                host.own["benchmark_workloads"] = []
            self.derive(host, "benchmark_workloads", [], "benchmark_profile")
            target, fio = name in self.testbed.targets, host.own.get("benchmark_engine", "fio") == "fio"
            if host.platform == "esxi":
                self.derive(host, "benchmark_ceiling", False, runs)
            elif self.testbed.embedded:
                # The machines have the same emulated processor.
                self.derive(
                    host,
                    "benchmark_ceiling",
                    target,
                    "all machines have the same processor, so only the targets matter",
                )
            else:
                self.derive(host, "benchmark_ceiling", not windows or (fio and not target), runs)
            own = addresses_of(host.own)
            self.derive(host, "benchmark_server_address", own[0][0] if own else "", f"testbed_address of {name}")

    # ---- what runs where

    def _stages(self) -> None:
        testbed, published = self.testbed, self.lab.get("published", {})
        for name, host in testbed.hosts.items():
            own = [layer for layer in published.get(name, []) if layer.get("provider") != "existing"]
            values, kinds = host.variables, {layer["kind"] for layer in own}
            target, initiator = name in testbed.targets, name in testbed.initiators
            # A host that only reads what was there before needs no initiator.
            alone = initiator and host.platform == "linux" and existing_storage.VARIABLE in values
            if target:
                host.stages += ["ramdisk", "iscsi_target"]
            providers = {layer.get("provider") for layer in published.get(name, [])}
            if target and (values["raid_arrays"] or "raid" in providers):
                host.stages.insert(1, "raid")
            if target and (values["cache_tier_caches"] or "cache_tier" in providers):
                host.stages.insert(host.stages.index("iscsi_target"), "cache_tier")
            # What was made of its network is recorded on the controller, whatever is described by now.
            if host.platform == "esxi" and initiator:
                host.stages.append("esxi_network")
            # A target logs in to itself, or has datastores, only where that is described, or was when it was built.
            sessions = values.get("iscsi_initiator_targets") or {"target", "initiator"} & kinds
            if (initiator and not alone) or ((target or alone) and sessions):
                host.stages.append("iscsi_initiator")
            stores = values.get("datastore_datastores") or "datastore" in kinds
            if (initiator and not alone) or ((target or alone) and stores):
                host.stages.append("datastore")
            # What is built tells by its clients: an export has no path that could be measured.
            over_nfs = any(layer.get("provider") == "nfs" for layers in published.values() for layer in layers)
            if target and host.platform == "linux" and (values["nfs_export_exports"] or over_nfs):
                host.stages.append("nfs_export")
            if "guest_vm_guests" in values:
                host.stages.append("guest_vm")
            if existing_storage.VARIABLE in values:
                host.stages.append(existing_storage.STAGE)
            if "benchmark_platform" in values:
                host.stages.append("benchmark")
            if "iscsi_initiator_targets" in values:
                names = {session.get("iqn") for session in mappings(values["iscsi_initiator_targets"])}
                host.depends_on += [
                    other
                    for other in testbed.targets
                    if other != name
                    and names
                    & {
                        export.get("name")
                        for export in mappings(testbed.hosts[other].variables["iscsi_target_targets"])
                    }
                ]
            servers = [store.over.target for store in testbed.stores if store.over and name in store.hosts]
            host.depends_on += [server for server in dict.fromkeys(servers) if server not in host.depends_on]
            keepers = [(guest.get("data_disk") or {}).get("host") for guest in mappings(values.get("guest_vm_guests"))]
            host.depends_on += [other for other in dict.fromkeys(keepers) if other in testbed.hosts and other != name]

    def _layers(self) -> None:
        """The layers that a build is going to publish, bottom first."""
        add, hosts = self.testbed.layers.append, self.testbed.hosts.values()
        for host in hosts:
            for disk in mappings(host.variables.get("ramdisk_disks")):
                add(
                    _layer(
                        "backing",
                        disk.get("name"),
                        host,
                        None,
                        disk.get("purpose"),
                        f"RAM disk, {disk.get('size_mib')} MiB",
                    )
                )
            for array in mappings(host.variables.get("raid_arrays")):
                what = raid_words(array.get("level"), array.get("members"), array.get("chunk_kib"))
                add(_layer("backing", array.get("name"), host, None, array.get("purpose"), what))
            for cache in mappings(host.variables.get("cache_tier_caches")):
                what = cache_words(
                    cache.get("cached", True),
                    cache.get("mode"),
                    cache.get("block_kib", BLOCK_KIB),
                    cache.get("provider"),
                )
                below = (cache.get("origin") or {}).get("layer")
                add(_layer("backing", cache.get("name"), host, below, cache.get("purpose"), what))
        for host in hosts:
            for export in mappings(host.variables.get("iscsi_target_targets")):
                for lun in mappings(export.get("luns")):
                    add(
                        _layer(
                            "target",
                            lun.get("name"),
                            host,
                            lun.get("layer"),
                            lun.get("purpose"),
                            f"LUN {lun.get('lun')} of {export.get('name')}",
                        )
                    )
        for host in hosts:
            suffix = host.variables.get("iscsi_initiator_layer_suffix", "")
            for session in mappings(host.variables.get("iscsi_initiator_targets")):
                for lun in mappings(session.get("luns")):
                    if lun.get("layer_kind") != "target":
                        add(
                            _layer(
                                "initiator",
                                f"{lun.get('name')}{suffix}",
                                host,
                                lun.get("parent"),
                                lun.get("purpose"),
                                f"LUN {lun.get('lun')} of {session.get('iqn')}",
                            )
                        )
        for host in hosts:
            for export in mappings(host.variables.get("nfs_export_exports")):
                clients = ", ".join(str(client) for client in export.get("clients") or [])
                add(_layer("target", export.get("name"), host, export.get("layer"), "data", f"over NFS to {clients}"))
        for host in hosts:
            suffix = host.variables.get("datastore_layer_suffix", "")
            for store in mappings(host.variables.get("datastore_datastores")):
                what = store.get("filesystem") or store.get("type") or ("VMFS" if host.platform == "esxi" else "NTFS")
                where = f" at {store['mount_point']}" if store.get("mount_point") else ""
                add(
                    _layer(
                        "datastore",
                        f"{store.get('name')}{suffix}",
                        host,
                        store.get("layer"),
                        "scratch",
                        f"{what}{where}",
                    )
                )
        for host in hosts:
            for guest in mappings(host.variables.get("guest_vm_guests")):
                parent = (guest.get("data_disk") or guest.get("esxi") or {}).get("datastore_layer")
                add(
                    {
                        **_layer(
                            "guest", guest.get("name"), host, parent, "scratch", f"a virtual machine on {host.name}"
                        ),
                        "host": guest.get("host"),
                    }
                )
                if guest.get("raw_disk"):
                    parent, what = guest["raw_disk"].get("layer"), "the whole LUN"
                    add(
                        {
                            **_layer("guest", f"{guest.get('name')}-raw", host, parent, "scratch", what),
                            "host": guest.get("host"),
                        }
                    )
        by_host = {host.name: mappings(host.variables.get(existing_storage.VARIABLE)) for host in hosts}
        for layer in existing_storage.layers(by_host):
            add(layer)


def existing_hosts(testbed: Testbed) -> existing_storage.Hosts:
    """The hosts that may read storage that was there before."""
    guests = testbed.groups.get("guests", [])
    members = dict.fromkeys([*testbed.targets, *testbed.initiators, *guests])
    platforms = {name: testbed.hosts[name].platform for name in members}
    return existing_storage.Hosts(platforms, testbed.initiators, guests, testbed.groups)


def _served(guest: dict[str, Any], keeper: Host) -> list[dict[str, Any]]:
    """The disks of a guest that the host serves over NBD."""
    disks = [guest[key] for key in ("data_disk", "raw_disk") if key in guest]
    return [disk for disk in disks if disk.get("transport") == "nbd" and disk.get("host") == keeper.name]


_CHAP = ("chap_user", "chap_password", "mutual_chap_user", "mutual_chap_password")


def _names(initiator: dict[str, Any], iqn: str, host: Host) -> bool:
    """Whether an entry of a target's access list means this host, by its IQN, address or host name."""
    addresses = [address for address, _port in addresses_of(host.own)]
    given = initiator.get("iqn"), initiator.get("address") or initiator.get("dns_name")
    return same_iqn(given[0], iqn) or (given[1] is not None and given[1] in addresses)


def tap_name(host: str) -> str:
    """Name of a machine's tap interface, for which the kernel has 15 characters."""
    plain = f"tap-{host}"
    # Names of hosts mostly differ in what stands at their end.
    return plain if len(plain) <= INTERFACE_NAME else f"tap-{host[:6]}-{host[-4:]}"


def _iqn_part(name: str) -> str:
    """A host's name as far as iSCSI names can have it. Two names may become one, which chain/identifiers.py refuses."""
    return re.sub(r"[^a-z0-9.-]", "-", name.lower())


def _iqn_id(testbed_id: str) -> str:
    """The testbed's name. Nobody sees two testbeds in one inventory, so no two names may become one: a colon is in none of them."""
    return ":".join(map(_iqn_part, testbed_id.split("_")))


def mappings(value: Any) -> list[dict[str, Any]]:
    """The mappings of a list; what the user wrote instead is told of elsewhere."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, (list, tuple)) else []


def _lun(disk: Disk) -> dict[str, Any]:
    lun, entry = {"lun": disk.lun, "name": disk.name}, disk.entry
    if entry["kind"] in ("ramdisk", "raid", "cache"):
        lun["layer"] = f"backing-{disk.name}"
    elif entry["kind"] == "device":
        lun["device"] = entry.get("path")
        lun.update({key: entry[key] for key in ("serial", "naa", "wwid", "uuid") if key in entry})
    else:
        allocation = {"allocation": entry["allocation"]} if "allocation" in entry else {}
        lun["vhdx"] = {"path": entry.get("path"), "size_mib": entry.get("size", 0), **allocation}
    return {**lun, "purpose": disk.purpose}


def _serial(disk: Disk, end: Any) -> str:
    """Of a disk that the embedded lab makes: the name of what it is for and an end, in the 20 characters of a virtio serial."""
    most = SERIAL_BYTES - len(f"-{end}")
    stem = disk.name if len(disk.name) <= most else hashlib.sha256(disk.name.encode()).hexdigest()[:most]
    return f"{stem}-{end}"


def _serials(disk: Disk) -> list[str]:
    """Of the disks that the embedded lab makes for an array."""
    emulated = disk.entry.get("raid", {}).get("emulated")
    return [_serial(disk, number) for number in range(1, emulated["count"] + 1)] if emulated else []


def _limits(emulated: dict[str, Any]) -> dict[str, Any]:
    return {key: emulated[key] for key in ("iops", "mib_s") if key in emulated}


def emulated_disks(disk: Disk) -> list[dict[str, Any]]:
    array = disk.entry.get("raid", {}).get("emulated") or {}
    wanted = [(serial, array) for serial in _serials(disk)]
    for end, part in CACHE_PARTS.items():
        emulated = disk.entry.get("cache", {}).get(part, {}).get("emulated")
        wanted += [(_serial(disk, end), emulated)] if emulated else []
    return [{"serial": serial, "size_mib": emulated["size"], **_limits(emulated)} for serial, emulated in wanted]


def _array(disk: Disk) -> dict[str, Any]:
    """An entry of raid_arrays; what is not said is the role's default."""
    raid = disk.entry.get("raid") or {}
    members = [
        {"device" if key == "path" else key: value for key, value in member.items()}
        for member in raid.get("members") or [{"serial": serial} for serial in _serials(disk)]
    ]
    chunk = chunk_kib(raid.get("chunk"))
    limits = _limits(raid.get("emulated") or {})
    return {
        "name": disk.name,
        "level": raid.get("level"),
        "members": members,
        **({"chunk_kib": chunk} if chunk else {}),
        **{key: raid[key] for key in ("bitmap", "assume_clean", "stripe_cache", "resync") if key in raid},
        "purpose": disk.purpose,
        **({"emulated_delay": {"by": "QEMU", **limits}} if limits else {}),
    }


def _cache(disk: Disk) -> dict[str, Any]:
    """An entry of cache_tier_caches; what is not said is the role's default."""
    cache = disk.entry.get("cache") or {}
    parts: dict[str, Any] = {}
    for end, part in CACHE_PARTS.items():
        given = cache.get(part) or {}
        named = {"device" if key == "path" else key: value for key, value in given.items() if key != "emulated"}
        parts[part] = {"serial": _serial(disk, end)} if "emulated" in given else named
    sizes = {f"{key}_kib": chunk_kib(cache[key]) for key in ("block", "migration") if key in cache}
    limits = _limits((cache.get("origin") or {}).get("emulated") or {})
    return {
        "name": disk.name,
        **parts,
        **{key: cache[key] for key in ("provider", "mode", "cached") if key in cache},
        **{key: value for key, value in sizes.items() if value},
        "purpose": disk.purpose,
        **({"emulated_delay": {"by": "QEMU", **limits}} if limits else {}),
    }


def _seen(lun: dict[str, Any], platform: str, loopback: bool) -> dict[str, Any]:
    """A LUN as the one who logs in is told of it."""
    kind = {"layer_kind": "target" if loopback else "initiator"} if loopback or platform == "linux" else {}
    parent = lun.get("layer") if loopback else f"target-{lun.get('name')}"
    return {
        "lun": lun.get("lun"),
        "name": lun.get("name"),
        **kind,
        "parent": parent,
        "purpose": lun.get("purpose", "data"),
    }


def _layer(kind: str, name: str | None, host: Host, parent: str | None, purpose: str | None, what: str) -> Layer:
    return {
        "name": f"{kind}-{name}",
        "kind": kind,
        "host": host.name,
        "parent": parent,
        "purpose": purpose,
        "what": what,
    }


def _linux_store(layer: str | None, store: Store, _place: int) -> dict[str, Any]:
    entry = store.entry
    return {
        "name": store.label,
        "layer": layer,
        "filesystem": entry.get("type", "ext4"),
        "mount_point": entry.get("mount_point", f"/srv/storlab/{store.label}"),
        **({"mount_options": entry["mount_options"]} if "mount_options" in entry else {}),
        **({"benchmark_file_mib": entry["benchmark_file"]} if "benchmark_file" in entry else {}),
        **({"benchmark_files": entry["benchmark_files"]} if "benchmark_files" in entry else {}),
    }


def _windows_store(layer: str | None, store: Store, place: int) -> dict[str, Any]:
    entry = store.entry
    return {
        "name": store.label,
        "layer": layer,
        "mount_point": entry.get("mount_point", f"{chr(ord('T') + place % 7)}:"),
        **({"benchmark_file_mib": entry["benchmark_file"]} if "benchmark_file" in entry else {}),
    }


def _esxi_store(layer: str | None, store: Store, _place: int) -> dict[str, Any]:
    entry, kind = store.entry, store.entry.get("type", "vmfs")
    if kind == "nfs":
        return {"name": store.label, "type": "nfs", "server": entry.get("server"), "path": entry.get("path")}
    if kind == "rdm":
        return {
            "name": store.label,
            "type": "rdm",
            "layer": layer,
            "compatibility": entry.get("compatibility", "physical"),
        }
    return {"name": store.label, "layer": layer, "version": entry.get("version", 6)}


_STORES = {"linux": _linux_store, "windows": _windows_store, "esxi": _esxi_store}
