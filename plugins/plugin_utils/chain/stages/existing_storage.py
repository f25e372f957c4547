# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage that was there before the testbed (``testbed.existing``): which hosts use it, what is wrong in its description, how it is drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

from ....module_utils.core.failure import Failure
from ....module_utils.core.iscsi_names import check_iqn
from ....module_utils.core.layers import Layer
from ....module_utils.core.luns import CHAP_SPEC
from ....module_utils.core.windows_names import DISK_PROOFS, is_below, is_folder
from ....module_utils.esxi.datastore import NAME_RULE, is_name
from ....module_utils.linux.clients import smb
from ....module_utils.linux.clients.attached import NEEDED, PORTS
from ....module_utils.linux.disks.device_safety import PROOFS
from ....module_utils.workload.workload import Workload, directions, workload_id
from ..device import OVERWRITTEN, Device, given_of
from ..nouns import Lab
from ..shape import Problem, did_you_mean, shown
from ..stage import Judge, Needs, Stage
from ..testbed import Context, Host, Store, Testbed, is_by_hand, mappings

STAGE = "existing_storage"
VARIABLE = "existing_storage_entries"
# How large the file is that is written in a folder of the testbed's own.
OWN_SIZE = "benchmark_file"


class Kind(NamedTuple):
    """A kind of storage: the kind of its layer outside of guests, the words that it has, the words that it needs, and the platform of its hosts."""

    layer: str
    words: tuple[str, ...]
    needed: tuple[str, ...] = ()
    platform: str = "linux"


KINDS = {
    "device": Kind("initiator", ("path", *PROOFS)),
    "disk": Kind("initiator", DISK_PROOFS, platform="windows"),
    "esxi_datastore": Kind("datastore", (), platform="esxi"),
    "guest": Kind("guest", ("path", *PROOFS, "file", OWN_SIZE)),
    "iscsi": Kind("initiator", ("portal", "iqn", "lun", "serial", "naa", *CHAP_SPEC), ("portal", "iqn")),
    "nfs": Kind("datastore", ("server", "export", "nfs_version", "mount_options", "file", OWN_SIZE), NEEDED["nfs"]),
    "path": Kind("datastore", ("path", "file", OWN_SIZE), ("path",)),
    "smb": Kind(
        "datastore",
        ("server", "share", "smb_version", "user", "password", "domain", "mount_options", "file", OWN_SIZE),
        NEEDED["smb"],
    ),
    "volume": Kind("datastore", ("path", "file", OWN_SIZE), ("path",), "windows"),
}
# The role datastore publishes it, as it does every datastore of an ESXi host.
STORE = "esxi_datastore"
# {platform: the provider of the role existing_storage}
PROVIDERS = {"linux": "linux", "windows": "windows"}
# The names of platforms, for sentences.
PLATFORMS = {"linux": "Linux", "windows": "Windows", "esxi": "ESXi"}
# Kinds that are a disk as a whole.
DISKS = ("device", "disk")
# Kinds outside of guests: inside of them both are of kind guest.
OUTSIDE = ("device", "path")
# An address with a port or without; one of IPv6 is in brackets.
PORTAL = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+))(?::([0-9]{1,5}))?")
# {kind: the role that attaches it}, of all that the role existing_storage does not.
ELSEWHERE = {"iscsi": "iscsi_initiator", STORE: "datastore"}
COMMON = ("name", "kind", "hosts", "on", "access")
# {kind of the role: the command that its host needs}
COMMANDS = {"nfs": "mount.nfs", "smb": "mount.cifs", "device": "blkid"}
# {kind of the role: {word of the description: word of the role}} where they differ.
OWN = {OWN_SIZE: "benchmark_file_mib"}
RENAMED = {
    "device": {"path": "device"},
    "nfs": OWN,
    "path": {"path": "folder", **OWN},
    "smb": OWN,
    "volume": {"path": "folder", **OWN},
}
Entry = dict[str, Any]


class Hosts(NamedTuple):
    """The hosts of a testbed, as far as existing storage depends on them. suffixes: what the names of layers of an ESXi host's datastores end in."""

    platforms: dict[str, str]
    initiators: list[str]
    guests: list[str]
    groups: dict[str, list[str]]
    suffixes: dict[str, str]

    def readers(self, kind: str) -> list[str]:
        return [name for name, platform in self.platforms.items() if platform == KINDS[kind].platform]

    def of(self, entry: Entry) -> list[str]:
        """The hosts that read an entry: those that it names, by default all clients and hypervisors, or without these all guests; of kind guest all guests."""
        readers = self.readers(entry["kind"])
        if "hosts" not in entry:
            guests = [name for name in readers if name in self.guests]
            return (
                guests if entry["kind"] == "guest" else [name for name in readers if name in self.initiators] or guests
            )
        wanted = {name for word in entry["hosts"] for name in (word, *self.groups.get(word, []))}
        return [name for name in readers if name in wanted]


def with_words(description: Any) -> Any:
    """The description with the word ``on`` where YAML 1.1 reads a truth value."""
    if not isinstance(description, dict) or not isinstance(description.get("existing"), list):
        return description
    entries = [
        {"on" if str(key) == "True" else key: value for key, value in entry.items()}
        if isinstance(entry, dict)
        else entry
        for entry in description["existing"]
    ]
    return {**description, "existing": entries}


def moved(description: Any, problems: list[Problem]) -> Any:
    """The description without datastores in the words of before kind esxi_datastore, each a problem that says the words of today."""
    if not isinstance(description, dict) or not isinstance(description.get("datastores"), list):
        return description
    kept = []
    for index, entry in enumerate(description["datastores"]):
        if isinstance(entry, dict) and entry.get("type") == "existing":
            why = "and storage that was there before is described in testbed.existing"
            name = entry.get("name") or "the name that the ESXi host shows"
            remedy = f"write {{name: {name}, kind: {STORE}, access: write}} there, and leave this entry out"
            problems.append(Problem(f"testbed.datastores[{index}].type", "'existing'", why, remedy))
        else:
            kept.append(entry)
    return {**description, "datastores": kept}


def derived(described: list[Entry], hosts: Hosts) -> dict[str, list[Entry]]:
    """{host: entries of the role existing_storage}; LUNs that a host logs in to are sessions of the role iscsi_initiator."""
    return _derived(described, hosts)[0]


def _derived(described: list[Entry], hosts: Hosts) -> tuple[dict[str, list[Entry]], dict[tuple[str, str], str]]:
    """derived(), and {(name of an entry, host): name of its layer}, with the empty host for its first one."""
    by_host: dict[str, list[Entry]] = {}
    names: dict[tuple[str, str], str] = {}
    suffixes = _lun_suffixes(described, hosts)
    for entry in described:
        known_kind = KINDS[entry["kind"]]
        role_kind = _role_kind(entry)
        renamed = RENAMED.get(role_kind, {})
        words = {renamed.get(key, key): value for key, value in entry.items() if key in known_kind.words}
        for place, host in enumerate(hosts.of(entry)):
            kind = "guest" if host in hosts.guests else known_kind.layer
            # Hosts that share it need names of their own for their layers: the first keeps the plain one.
            suffix = f"-{host}" if place else ""
            if entry["kind"] in ELSEWHERE:
                suffix = (hosts.suffixes if entry["kind"] == STORE else suffixes).get(host, "")
            name = f"{entry['name']}{suffix}"
            names[entry["name"], host] = f"{kind}-{name}"
            names.setdefault((entry["name"], ""), f"{kind}-{name}")
            access = {"access": "write"} if written(entry) else {}
            known = {"name": name, "kind": role_kind, "layer_kind": kind, **access, **words}
            if entry["kind"] not in ELSEWHERE:
                by_host.setdefault(host, []).append({**known, "on": entry.get("on")})
    for host, listed in by_host.items():
        for known in listed:
            below = known.pop("on")
            parent = names.get((below, host)) or names.get((below, ""))
            known.update({"parent": parent} if below and parent else {})
    return by_host, names


def datastores(testbed: Testbed) -> list[Store]:
    """The datastores of ESXi hosts that were there before."""
    hosts = hosts_of(testbed)
    return [
        Store(entry["name"], entry["name"], entry, index, None, hosts.of(entry), there=True)
        for index, entry in enumerate(testbed.description["existing"])
        if entry["kind"] == STORE
    ]


def below_datastore(testbed: Testbed, store: Store, host: str) -> str | None:
    """The layer that a datastore of an ESXi host is on by its description."""
    names = _derived(testbed.description["existing"], hosts_of(testbed))[1]
    below = store.entry.get("on")
    return (names.get((below, host)) or names.get((below, ""))) if below else None


def _role_kind(entry: Entry) -> str:
    """The kind of an entry for its role, which attaches a disk or a folder in the same way inside of a guest as outside."""
    if entry["kind"] != "guest":
        return str(entry["kind"])
    return "path" if entry.get("path") else "device"


def _lun_suffixes(described: list[Entry], hosts: Hosts) -> dict[str, str]:
    """{host: what the role iscsi_initiator adds to the names of its layers}: its own name, where a host before it has one of its LUNs."""
    taken: set[Any] = set()
    suffixes = {}
    for host in hosts.initiators:
        luns = [entry for entry in described if entry["kind"] == "iscsi" and host in hosts.of(entry)]
        mine = {(entry.get("iqn"), entry.get("lun", 0)) for entry in luns}
        suffixes[host] = f"-{host}" if mine & taken else ""
        taken |= mine
    return suffixes


def sessions(described: list[Entry], hosts: Hosts, host: str) -> list[dict[str, Any]]:
    """The sessions of a host with targets of others, each LUN once, for the role iscsi_initiator."""
    by_target: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in described:
        portal = portal_of(entry.get("portal"))
        if entry["kind"] != "iscsi" or host not in hosts.of(entry) or portal is None:
            continue
        chap = {key: entry[key] for key in CHAP_SPEC if entry.get(key)}
        proofs = {key: entry[key] for key in ("serial", "naa") if entry.get(key)}
        lun = {
            "lun": entry.get("lun", 0),
            "name": entry["name"],
            "layer_kind": "initiator",
            **proofs,
            "purpose": "scratch" if written(entry) else "read",
        }
        key = (entry.get("iqn"), *portal.values(), *chap.values())
        session = by_target.setdefault(key, {"iqn": entry.get("iqn"), "portal": portal, **chap, "luns": []})
        session["luns"].append(lun)
    return list(by_target.values())


def written(entry: Entry) -> bool:
    """Whether the user allows writing to the storage, which by default is only read."""
    return entry.get("access") == "write"


def only_read(session: dict[str, Any]) -> bool:
    """Whether a session is one with a target of others."""
    luns = session.get("luns") or []
    return bool(luns) and all(isinstance(lun, dict) and lun.get("purpose") == "read" for lun in luns)


def reads_a_lun(session: dict[str, Any]) -> bool:
    """Whether a session has a LUN that is only read."""
    return any(isinstance(lun, dict) and lun.get("purpose") == "read" for lun in session.get("luns") or [])


def portal_of(text: Any) -> dict[str, Any] | None:
    """{address, port} of 192.0.2.10, nas:3260 or [2001:db8::10]:3260; None otherwise."""
    match = PORTAL.fullmatch(str(text or ""))
    if match is None or int(match[3] or 3260) > 65535:
        return None
    return {"address": match[1] or match[2], "port": int(match[3] or 3260)}


def layers(by_host: dict[str, list[Entry]]) -> list[Layer]:
    """The layers that a build is going to publish, each with the words for the drawing."""
    return [
        {
            "name": f"{entry.get('layer_kind')}-{entry.get('name')}",
            "kind": str(entry.get("layer_kind")),
            "host": host,
            "parent": entry.get("parent"),
            "purpose": "scratch" if written(entry) else "read",
            "what": f"{_words(entry)}, which was there before, {_use(entry)}{' (link declared)' if entry.get('parent') else ''}",
        }
        for host, entries in by_host.items()
        for entry in entries
    ]


def _words(entry: Entry) -> str:
    if entry.get("kind") == "nfs":
        return f"NFS export {entry.get('server')}:{entry.get('export')}"
    if entry.get("kind") == "smb":
        return f"SMB share //{entry.get('server')}/{entry.get('share')}"
    if entry.get("kind") in ("path", "volume"):
        return f"folder {entry.get('folder')}"
    return f"disk of {', '.join(f'{key} {entry[key]}' for key in (*PROOFS, *DISK_PROOFS[:1]) if entry.get(key))}"


def _use(entry: Entry) -> str:
    if not written(entry):
        return "only read"
    return "written to" if entry.get("kind") in DISKS else "written to in a file of its own"


def commands(entries: list[Entry]) -> list[str]:
    """The commands that a host needs to read them."""
    kinds = {entry.get("kind") for entry in entries}
    return [command for kind, command in COMMANDS.items() if kind in kinds]


def servers(entries: list[Entry]) -> list[tuple[Any, int]]:
    """(address, port) of the servers that a host reads from."""
    return [
        (entry["server"], PORTS[entry["kind"]])
        for entry in entries
        if entry.get("kind") in PORTS and entry.get("server")
    ]


# ---------------------------------------------------------------- what is wrong


def problems(described: list[Entry], hosts: Hosts, layer_names: list[str]) -> list[Problem]:
    """layer_names: of all layers of the testbed."""
    wrong: list[Problem] = []
    for index, entry in enumerate(described):
        variable = f"testbed.existing[{index}]"
        wrong += _unfit(variable, entry) + _hosts(variable, entry, hosts) + _on(variable, entry, described)
        wrong += _session(variable, entry, hosts) if entry["kind"] == "iscsi" else []
        if entry["name"] in [other["name"] for other in described[:index]]:
            wrong.append(
                Problem(f"{variable}.name", shown(entry["name"]), "which is there twice", "choose another name")
            )
    ours = [layer["name"] for layer in layers(derived(described, hosts))]
    twice = next((name for name in ours if layer_names.count(name) > 1), None)
    if twice and not wrong:
        why = f"has a name that makes a second layer {twice}"
        wrong.append(Problem("testbed.existing", None, why, "choose another name"))
    return wrong


def _unfit(variable: str, entry: Entry) -> list[Problem]:
    """Words that storage of this kind does not have, or lacks."""
    kind, wrong = entry["kind"], []
    for word in entry:
        if word not in (*COMMON, *KINDS[kind].words):
            kinds = " or ".join(name for name, known in KINDS.items() if word in known.words)
            why = f"is not a word for storage of kind {kind}"
            wrong.append(Problem(f"{variable}.{word}", None, why, f"remove it, or use kind {kinds}"))
    for word in KINDS[kind].needed:
        if not entry.get(word):
            wrong.append(Problem(f"{variable}.{word}", None, "is not set", f"storage of kind {kind} needs it"))
    for word in ("path", "export"):
        if entry.get(word) and kind != "volume" and not str(entry[word]).startswith("/"):
            wrong.append(Problem(f"{variable}.{word}", shown(entry[word]), "", "write an absolute path"))
    if written(entry) and entry.get("file"):
        why = "but with access: write no file of others is used"
        wrong.append(Problem(f"{variable}.file", shown(entry["file"]), why, "remove it"))
    size = entry.get(OWN_SIZE)
    if size is not None and not written(entry):
        why = "but nothing is written without access: write"
        wrong.append(Problem(f"{variable}.{OWN_SIZE}", f"'{size}MiB'", why, "remove it, or add access: write"))
    if kind == STORE and not is_name(entry["name"]):
        wrong.append(
            Problem(
                f"{variable}.name",
                shown(entry["name"]),
                "",
                f"write the name that the ESXi host shows, which has {NAME_RULE}",
            )
        )
    if written(entry) and kind == "iscsi" and not any(entry.get(key) for key in ("serial", "naa")):
        why = "does not identify the LUN that is to be overwritten"
        wrong.append(Problem(variable, None, why, "add the serial or naa that it has"))
    wrong += _on_windows(variable, entry) if KINDS[kind].platform == "windows" else []
    wrong += _inside(variable, entry) if kind == "guest" else []
    wrong += _share(variable, entry) if kind == "smb" else []
    if kind == "device" and not any(entry.get(key) for key in PROOFS):
        remedy = "add the serial, naa, wwid or uuid that the disk has"
        path = shown(entry["path"]) if entry.get("path") else None
        why = f"{'which ' if path else ''}does not identify a disk"
        wrong.append(Problem(f"{variable}.path" if path else variable, path, why, remedy))
    return wrong


def _on_windows(variable: str, entry: Entry) -> list[Problem]:
    """The problems of a disk or a volume of a Windows host."""
    wrong, path, file = [], entry.get("path"), entry.get("file")
    if entry["kind"] == "disk" and not any(entry.get(key) for key in DISK_PROOFS):
        remedy = "add the unique_id or the serial that Get-Disk shows"
        wrong.append(Problem(variable, None, "does not identify a disk", remedy))
    if path and not is_folder(str(path)):
        wrong.append(
            Problem(f"{variable}.path", shown(path), "", "write a drive such as E:, or a folder such as E:\\data")
        )
    if file and not is_below(str(file)):
        wrong.append(Problem(f"{variable}.file", shown(file), "", "write the path of a file below the folder"))
    return wrong


def _inside(variable: str, entry: Entry) -> list[Problem]:
    """The problems of a disk or a folder inside of a guest."""
    proofs, path = [key for key in PROOFS if entry.get(key)], entry.get("path")
    if path and proofs:
        why = f"is set beside {proofs[0]}, but one entry is a disk or a folder"
        return [Problem(f"{variable}.path", shown(path), why, "remove one of them, or write two entries")]
    if not path and not proofs:
        why = "does not say what of the guest is measured"
        return [
            Problem(variable, None, why, "add the serial, naa, wwid or uuid of a disk in it, or the path of a folder")
        ]
    words = [word for word in ("file", OWN_SIZE) if entry.get(word) and not path]
    return [Problem(f"{variable}.{word}", None, "is not a word for a disk", "remove it") for word in words]


def _share(variable: str, entry: Entry) -> list[Problem]:
    """The problems of a share of an SMB server. One that its module would refuse is refused here, in the words of the description."""
    pairs = (("user", "password"), ("password", "user"), ("domain", "user"))
    wrong = [
        Problem(f"{variable}.{lacking}", None, "is not set", f"write it beside {given}")
        for given, lacking in pairs
        if entry.get(given) and not entry.get(lacking)
    ]
    if wrong or not (entry.get("server") and entry.get("share")):
        return wrong
    words = {**dict.fromkeys(("user", "password", "domain"), ""), "mount_options": "", **entry}
    try:
        smb.check(variable, words)
    except Failure as failure:
        return [Problem(variable, None, "cannot be mounted", failure.remedy)]
    return []


def _session(variable: str, entry: Entry, hosts: Hosts) -> list[Problem]:
    """The problems of a LUN that hosts log in to."""
    wrong = []
    if entry.get("on"):
        why = "but a LUN of kind iscsi is on its target alone"
        wrong.append(Problem(f"{variable}.on", shown(entry["on"]), why, "remove it"))
    if entry.get("portal") and portal_of(entry["portal"]) is None:
        remedy = "write an address, with a port where it is not 3260, such as 192.0.2.10:3260"
        wrong.append(Problem(f"{variable}.portal", shown(entry["portal"]), "", remedy))
    if entry.get("iqn"):
        try:
            check_iqn(f"{variable}.iqn", str(entry["iqn"]))
        except Failure as failure:
            wrong.append(Problem(f"{variable}.iqn", shown(entry["iqn"]), "", failure.remedy))
    for user, password in (("chap_user", "chap_password"), ("mutual_chap_user", "mutual_chap_password")):
        for given, lacking in ((user, password), (password, user)):
            if entry.get(given) and not entry.get(lacking):
                wrong.append(Problem(f"{variable}.{lacking}", None, "is not set", f"write it beside {given}"))
    if entry.get("mutual_chap_user") and not entry.get("chap_user"):
        wrong.append(Problem(f"{variable}.chap_user", None, "is not set", "mutual CHAP needs it"))
    strangers = [name for name in hosts.of(entry) if name not in hosts.initiators]
    if strangers:
        why = f"but {strangers[0]} is neither in clients nor in hypervisors, whose hosts log in"
        wrong.append(Problem(f"{variable}.hosts", None, why, "put it there, or name other hosts"))
    return wrong


def _hosts(variable: str, entry: Entry, hosts: Hosts) -> list[Problem]:
    wrong, readers = [], hosts.readers(entry["kind"])
    wanted = KINDS[entry["kind"]].platform
    for word in entry.get("hosts", []):
        for name in hosts.groups.get(word, [word]):
            platform = hosts.platforms.get(name)
            if platform is None:
                why, remedy = "which is not a host of this testbed", did_you_mean(word, readers)
                wrong.append(Problem(f"{variable}.hosts", shown(word), why, remedy))
            elif platform != wanted:
                why = f"but {name} runs {PLATFORMS[platform]}, and storage of kind {entry['kind']} is of {PLATFORMS[wanted]} hosts"
                wrong.append(Problem(f"{variable}.hosts", shown(word), why, f"name {PLATFORMS[wanted]} hosts"))
    if not wrong and not hosts.of(entry):
        why = f"has no {PLATFORMS[wanted]} host that {'has' if wanted == 'esxi' else 'reads'} it"
        where = {"guest": "guests", STORE: "hypervisors"}.get(entry["kind"], "clients")
        wrong.append(Problem(variable, None, why, f"put the host that sees it into the group {where}"))
    misplaced = [name for name in hosts.of(entry) if (name in hosts.guests) != (entry["kind"] == "guest")]
    if not wrong and misplaced and entry["kind"] == "guest":
        why, remedy = f"but {misplaced[0]} is not in the group guests", "put it there, or use kind device or path"
        wrong.append(Problem(f"{variable}.kind", "'guest'", why, remedy))
    elif not wrong and misplaced and entry["kind"] in OUTSIDE:
        why, remedy = f"but {misplaced[0]} is in the group guests", "use kind guest, or name other hosts"
        wrong.append(Problem(f"{variable}.kind", shown(entry["kind"]), why, remedy))
    return wrong


def _on(variable: str, entry: Entry, described: list[Entry]) -> list[Problem]:
    below = {other["name"]: other.get("on") for other in described}
    name, seen = entry.get("on"), [entry["name"]]
    if name and name not in below:
        why = "which is not a name in testbed.existing"
        return [Problem(f"{variable}.on", shown(name), why, did_you_mean(name, list(below)))]
    while name:
        if name in seen:
            return [Problem(f"{variable}.on", shown(entry["on"]), "which is on itself", "name the storage below it")]
        seen.append(name)
        name = below.get(name)
    return []


def writers(host: str, profile: Any, workloads: list[Workload]) -> list[Problem]:
    """A problem for a host that has existing storage without access: write and would be measured by a workload that writes."""
    writer = next((workload for workload in workloads if "write" in directions(workload)), None)
    if writer is None:
        return []
    remedy = "use workloads that only read, such as the profile existing_read, or set access: write of that storage"
    why = f"but {workload_id(writer)} writes, and {host} reads storage that was there before"
    if profile:
        return [Problem(f"benchmark_profile of {host}", shown(profile), why, remedy)]
    return [Problem(f"benchmark_workloads of {host}", "a list", why, remedy)]


def hosts_of(testbed: Testbed) -> Hosts:
    """The hosts that may read storage that was there before."""
    guests = testbed.groups.get("guests", [])
    members = dict.fromkeys([*testbed.targets, *testbed.initiators, *guests])
    platforms = {name: testbed.hosts[name].platform for name in members}
    suffixes = {name: testbed.hosts[name].variables.get("iscsi_initiator_layer_suffix", "") for name in members}
    return Hosts(platforms, testbed.initiators, guests, testbed.groups, suffixes)


class ExistingStorage(Stage):
    name = STAGE
    floor = 6
    describes = VARIABLE
    packages: ClassVar = {
        "mount.nfs": ("nfs-common", "nfs-utils"),
        "mount.cifs": ("cifs-utils", "cifs-utils"),
        "blkid": ("util-linux", "util-linux"),
    }
    variables = ("existing_storage_entries", "existing_storage_provider")

    def derive(self, context: Context) -> None:
        published, testbed = context.lab.get("published", {}), context.testbed
        by_host = derived(context.description["existing"], hosts_of(testbed))
        for name, host in testbed.hosts.items():
            built = any(layer.get("provider") == "existing" for layer in published.get(name, []))
            if name in by_host or built or VARIABLE in host.own:
                context.derive(host, VARIABLE, by_host.get(name, []), "testbed.existing")
                because = f"{name} runs {PLATFORMS[host.platform]}"
                context.derive(host, "existing_storage_provider", PROVIDERS.get(host.platform, "linux"), because)
                host.only_reads = name in testbed.initiators and host.platform in PROVIDERS
            # Its software iSCSI adapter stays off where the testbed has no LUN for it.
            host.only_reads |= any(store.there and name in store.hosts for store in testbed.stores)

    def runs_on(self, context: Context, host: Host) -> bool:
        return VARIABLE in host.variables

    def layers(self, host: Host) -> list[Layer]:
        return layers({host.name: mappings(host.variables.get(VARIABLE))})

    def checks(self) -> dict[str, Judge]:
        return {"existing": _existing}

    def needs(self, testbed: Testbed, host: Host) -> Needs:
        entries = mappings(host.variables[VARIABLE])
        return commands(entries), ["cifs"] if any(entry.get("kind") == "smb" for entry in entries) else []

    def peers(self, host: Host) -> list[tuple[Any, int]]:
        return servers(mappings(host.variables.get(VARIABLE)))

    def devices(self, testbed: Testbed, host: Host) -> Iterator[Device]:
        return _attached(testbed, host)


def _existing(lab: Lab, testbed: Testbed) -> list[Problem]:
    """Storage that was there before, and workloads that would write to it."""
    names = [layer["name"] for layer in testbed.layers]
    wrong = problems(testbed.description["existing"], hosts_of(testbed), names)
    for name, host in testbed.hosts.items():
        sessions = mappings(host.variables.get("iscsi_initiator_targets"))
        kept = [entry for entry in mappings(host.variables.get(VARIABLE)) if not written(entry)]
        if kept or any(map(reads_a_lun, sessions)):
            workloads = lab.get("workloads", {}).get(name, [])
            wrong += writers(name, host.own.get("benchmark_profile"), workloads)
    return wrong


def _attached(testbed: Testbed, host: Host) -> Iterator[Device]:
    """Disks that were there before and that the user allows to be written to."""
    described = {
        entry.get("name"): place
        for place, entry in enumerate(testbed.description["existing"])
        if isinstance(entry, dict)
    }
    for place, entry in enumerate(mappings(host.variables.get(VARIABLE))):
        if entry.get("kind") not in DISKS or entry.get("access") != "write":
            continue
        name = str(entry.get("name"))
        index = described.get(name, described.get(name.removesuffix(f"-{host.name}")))
        by_hand = is_by_hand(host, VARIABLE) or index is None
        variable = f"{VARIABLE}[{place}] of {host.name}" if by_hand else f"testbed.existing[{index}]"
        layer = f"{entry.get('layer_kind')}-{name}"
        word, given = ("device" if by_hand else "path"), given_of(entry, "device")
        yield Device(host.name, variable, word, given, OVERWRITTEN, f"measured raw as {layer}", layer)
