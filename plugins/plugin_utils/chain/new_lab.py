# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory of a new lab: a pure function of a few answers and of what its hosts have."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.core.names import check_testbed_id
from . import offers
from .description import size_mib
from .doctor import short
from .nouns import Probe
from .testbed import is_address

# Storage that is there already, which no host of the lab makes.
EXISTING = "existing"
KINDS = (EXISTING, "local", "linux", "kvm", "esxi", "windows_esxi")
GROUPS = {
    EXISTING: "clients",
    "linux": "clients",
    "kvm": "hypervisors",
    "esxi": "hypervisors",
    "windows_esxi": "hypervisors",
}
# Systems of the hosts that have storage already, each with their group.
PLATFORMS = {"linux": "clients", "windows": "clients", "esxi": "hypervisors"}
# The group of machines whose own disks and folders are measured.
GUESTS = "guests"
# The share of the target's free memory when no size is given, and the size when the free memory is unknown.
MEMORY_SHARE = 0.4
UNKNOWN_MIB, LEAST_MIB, MOST_MIB = 4096, 64, 64 << 10
ESXI_LEAST_MIB = 2048
# The default profile of a new lab: minutes. Profiles whose figures are worth keeping take hours.
FIRST_LOOK = "first_look"
# The profile of storage that is there: 4 KiB and 1 MiB reads, one at a time and 32 at a time.
READING = "existing_read"
# The messages of ssh and Ansible when a host answers and does not let the user in.
REFUSED = (
    "Permission denied",
    "Authentication failed",
    "Invalid/incorrect password",
    "Too many authentication failures",
)
INTERPRETER = 'ansible_python_interpreter: "{{ ansible_playbook_python }}"'


def answers(given: dict[str, Any]) -> dict[str, Any]:
    """The answers, checked: kind, testbed_id, target, clients (a list), group (theirs), size_mib (None: as the target allows), user, profile, storage."""
    kind = str(given.get("kind") or "linux").strip()
    if kind not in KINDS:
        raise bad_value("new_lab_kind", kind, f"Use one of {', '.join(KINDS)}.")
    target = str(given.get("target") or "").strip()
    if kind == EXISTING and target:
        why = "Storage that is there needs no storage server of the lab: leave it out, and give the hosts that see it as new_lab_clients."
        raise bad_value("new_lab_target", target, why)
    if not target and kind != EXISTING:
        raise bad_value("new_lab_target", target, "Give the name or address of the storage server.")
    clients = given.get("clients") or []
    clients = [
        text.strip() for text in (clients.split(",") if isinstance(clients, str) else clients) if str(text).strip()
    ]
    if kind == "local" and clients:
        raise bad_value(
            "new_lab_clients",
            ", ".join(clients),
            "A lab of kind local has no other host: leave it out, or use kind linux.",
        )
    if kind != "local" and not clients:
        hosts_that = "see the storage" if kind == EXISTING else "log in"
        raise bad_value(
            "new_lab_clients",
            "",
            f"Give the names or addresses of the hosts that {hosts_that}, with commas between them.",
        )
    for name in [*([target] if target else []), *clients]:
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?", name):
            raise bad_value(
                "new_lab_target" if name == target else "new_lab_clients", name, "Give a host name or an IP address."
            )
    platform = str(given.get("platform") or "linux").strip()
    if platform not in PLATFORMS or (platform != "linux" and kind != EXISTING):
        words = (
            f"Use one of {', '.join(PLATFORMS)}." if kind == EXISTING else f"Leave it out; it is for kind {EXISTING}."
        )
        raise bad_value("new_lab_platform", platform, words)
    usual = PLATFORMS[platform] if kind == EXISTING else GROUPS.get(kind, "")
    group = str(given.get("group") or usual).strip()
    if group != usual and not (kind == EXISTING and group == GUESTS and platform != "esxi"):
        raise bad_value("new_lab_group", group, f"Leave it out; with kind {EXISTING} it may be {GUESTS}.")
    size = str(given.get("size") or "auto").strip()
    if size != "auto" and size_mib(size) is None:
        raise bad_value("new_lab_size", size, "Write a size with its unit, such as 4GiB, or auto.")
    return {
        "kind": kind,
        "testbed_id": check_testbed_id("new_lab_id", str(given.get("id") or _id_of_folder(given.get("path")))),
        "target": target,
        "clients": clients,
        "group": group,
        "platform": platform,
        "size_mib": None if size == "auto" else size_mib(size),
        "user": str(given.get("user") or "root"),
        "profile": str(given.get("profile") or (READING if kind == EXISTING else FIRST_LOOK)),
        "storage": _storage(kind, given.get("storage")),
        "thumbprints": given.get("thumbprints") or {},
    }


def _storage(kind: str, given: Any) -> list[str]:
    """The names of the storage that is wanted of what is there, empty for all of it."""
    listed = given.split(",") if isinstance(given, str) else [str(name) for name in given or []]
    names = [name.strip() for name in listed if name.strip()]
    if names and kind != EXISTING:
        raise bad_value("new_lab_storage", ", ".join(names), f"Leave it out, or use kind {EXISTING}.")
    return [] if names == [offers.ALL] else names


def _id_of_folder(path: Any) -> str:
    """The id of a lab that was given none: labs in folders side by side are two."""
    name = os.path.basename(os.path.normpath(str(path))) if path else "lab"
    # No underscores, which a Windows target does not take.
    testbed_id = re.sub(r"[^a-z0-9.-]+", "-", name.lower())[:32].strip("-.")
    if not testbed_id:
        raise bad_value(
            "new_lab_path", name, "Give the testbed a name with new_lab_id, because this folder's name has none in it."
        )
    return testbed_id


def hosts(lab: dict[str, Any]) -> dict[str, Any]:
    """{inventory name: address} of the new lab's hosts, the target first where there is one."""
    kinds = {
        EXISTING: "esxi" if lab["platform"] == "esxi" else lab["group"].removesuffix("s"),
        "linux": "client",
        "kvm": "hypervisor",
        "esxi": "esxi",
        "windows_esxi": "esxi",
    }
    names = {_name(lab["target"], "target01"): lab["target"]} if lab["target"] else {}
    for number, address in enumerate(lab["clients"], 1):
        name = _name(address, f"{kinds[lab['kind']]}{number:02}")
        if name in names:
            raise bad_value(
                "new_lab_clients", address, f"There is a host {name} already; give each its full name once."
            )
        names[name] = address
    return names


def compose(given: dict[str, Any], probes: Mapping[str, Probe]) -> dict[str, Any]:
    """{file in the inventory's folder: text}. probes: {inventory name: probe of storlab.testbed.host_probe}, of those that were reached."""
    lab = answers(given)
    names = hosts(lab)
    if lab["kind"] == EXISTING:
        storage = offers.gather(probes, lab["group"] == GUESTS)
        taken = offers.chosen(storage, lab["storage"], given.get("reasons") or {}, names)
        return {
            "hosts.yml": "\n".join(
                ["---", "# Made by new_lab.", "all:", "  children:", *_others(lab, names, probes), ""]
            ),
            "group_vars/all.yml": _page_of_existing(lab, names, storage, taken),
        }
    target = next(iter(names))
    return {
        "hosts.yml": _hosts(lab, names, target, probes),
        "group_vars/all.yml": _page(lab, names, target, probes),
    }


def summary(given: dict[str, Any], folder: str, probes: Mapping[str, Probe], reasons: dict[str, Any]) -> list[str]:
    """The lines to print about a lab that was written to the folder. reasons: {inventory name: why Ansible did not reach it}."""
    lab = answers(given)
    names = hosts(lab)
    lines = [
        f"{folder} describes a lab of kind {lab['kind']}. Its disks are RAM disks: no device is OVERWRITTEN or FORMATTED."
    ]
    if lab["kind"] == EXISTING:
        storage = offers.chosen(offers.gather(probes, lab["group"] == GUESTS), lab["storage"], reasons, names)
        lines = [
            f"{folder} describes storage that is there: {', '.join(offer.name for offer in storage)}. It is only read."
        ]
    if probes:
        lines.append(f"Reached: {', '.join(probes)}.")
    elif not reasons:
        lines.append("No host was reached yet.")
    for name, reason in reasons.items():
        text, refused = short(reason), any(sign in reason for sign in REFUSED)
        what = f"refused {lab['user']}: give new_lab_user." if refused else "was not reached."
        lines.append(f"{name} ({names[name]}) {what} ({text})")
    if reasons:
        lines.append(
            f"The lab was written without a look at {' and '.join(reasons)}. To have one, remove {folder} and run new_lab again."
        )
    marked = sum(text.count("# fill in") for text in compose(given, probes).values())
    if marked:
        lines.append(f"Fill in the marked values ({marked}), then")
    elif not reasons:
        lines.append("Nothing is left to fill in. Next:")
    else:
        lines.append("Or correct its values, then")
    path = given.get("path") or folder
    return [*lines, *(f"  ansible-playbook -i {path} storlab.testbed.{name}" for name in ("doctor", "site"))]


def _name(address: str, plain: str) -> str:
    """A host is called by the first part of its name; one that is known by its address alone by what it is."""
    return plain if is_address(address) or address == "localhost" else address.split(".")[0].lower()


def _hosts(lab: dict[str, Any], names: dict[str, Any], target: str, probes: Mapping[str, Probe]) -> str:
    kind = lab["kind"]
    lines = [
        "---",
        f"# Made by new_lab: a lab of kind {kind}. Fill in the marked values.",
        "all:",
        "  children:",
        "    targets:",
        "      hosts:",
        f"        {target}:",
    ]
    lines += [
        f"          {line}"
        for line in (_windows if kind == "windows_esxi" else _linux)(lab, target, names[target], probes, storage=True)
    ]
    others = {name: address for name, address in names.items() if name != target}
    return "\n".join([*lines, *(_others(lab, others, probes) if others else [])]) + "\n"


def _others(lab: dict[str, Any], others: dict[str, Any], probes: Mapping[str, Probe]) -> list[str]:
    """The lines of the group of hosts that log in."""
    esxi = "esxi" in (lab["kind"] + lab["platform"])
    lines = [f"    {lab['group']}:"]
    if esxi:
        lines += [
            "      vars:",
            "        # Everything about an ESXi host is done from the controller, over its API.",
            "        ansible_connection: local",
            f"        {INTERPRETER}",
        ]
    lines.append("      hosts:")
    for name, address in others.items():
        lines.append(f"        {name}:")
        if esxi:
            own = _esxi(lab, name, address)
        elif lab["platform"] == "windows":
            own = _windows(lab, name, address, probes, storage=False)
        else:
            own = _linux(lab, name, address, probes, storage=False)
        lines += [f"          {line}" for line in own]
    return lines


def _page_of_existing(
    lab: dict[str, Any], names: dict[str, Any], storage: list[offers.Offer], taken: list[offers.Offer]
) -> str:
    reading = lab["profile"] == READING
    return "\n".join(
        [
            "---",
            "# Storage that was there before, as its hosts show it. It is only read (docs/existing.md).",
            f"testbed_id: {lab['testbed_id']}",
            "testbed:",
            "  existing:",
            *offers.lines(storage, taken, list(names)),
            "",
            *(["# 4 KiB and 1 MiB reads, one at a time and 32 at a time."] if reading else []),
            f"benchmark_profile: {lab['profile']}",
            "benchmark_repetitions: 4",
            "",
        ]
    )


def _linux(lab: dict[str, Any], name: str, address: str, probes: Mapping[str, Probe], storage: bool) -> list[Any]:
    local = address in ("localhost", "127.0.0.1")
    lines = (
        ["ansible_connection: local", INTERPRETER]
        if local
        else [f"ansible_host: {address}", f"ansible_user: {lab['user']}"]
    )
    if not local and lab["user"] != "root":
        lines.append("ansible_become: true")
    own = (probes.get(name) or {}).get("addresses") or []
    if not storage or lab["kind"] == "local":
        return lines
    if local or not is_address(address):
        known = own[0] if own else "192.0.2.11  # fill in: address in the storage network"
        return [*lines, f"testbed_address: {known}", *([f"# Its addresses: {', '.join(own)}."] if own[1:] else [])]
    others = [other for other in own if other != address]
    if others:
        lines.append(f"# Its addresses: {', '.join(own)}. Name the one in the storage network, when it is another:")
        lines.append(f"# testbed_address: {others[0]}")
    return lines


def _windows(lab: dict[str, Any], _name: str, address: str, _probes: Mapping[str, Probe], storage: bool) -> list[Any]:
    portal = address if is_address(address) else "192.0.2.11  # fill in: address in the storage network"
    lines = [
        f"ansible_host: {address}" + ("  # fill in: the name in its certificate" if is_address(address) else ""),
        f"testbed_address: {portal}",
        "# How Ansible reaches the server: see docs/windows.md for the other ways.",
        "ansible_connection: psrp",
        "ansible_user: Administrator",
        'ansible_password: "{{ vault_windows_password }}"  # fill in: with ansible-vault',
        'ansible_psrp_ca_cert: "{{ inventory_dir | dirname }}/windows_ca.pem"  # fill in: the certificate that signed the server\'s',
        "iscsi_target_windows_networks: [192.0.2.0/24]  # fill in: the storage network, which the firewall lets in",
    ]
    # Who exports nothing needs neither a portal nor a hole in the firewall.
    return lines if storage else [*lines[:1], "testbed_windows: true", *lines[2:-1]]


def _esxi(lab: dict[str, Any], name: str, address: str) -> list[Any]:
    thumbprint = lab["thumbprints"].get(address, "")
    note = (
        "  # compare it with what the host itself shows"
        if thumbprint
        else "  # fill in: SHA-256 of its certificate; the first failure says what to compare"
    )
    return [
        "testbed_esxi:",
        f"  hostname: {address}",
        "  username: root",
        '  password: "{{ vault_esxi_password }}"  # fill in: with ansible-vault',
        f'  thumbprint: "{thumbprint}"{note}',
    ]


def _page(lab: dict[str, Any], names: dict[str, Any], target: str, probes: Mapping[str, Probe]) -> str:
    kind, probe = lab["kind"], probes.get(target) or {}
    clients = ", ".join(name for name in names if name != target)
    size = lab["size_mib"] or _fitting(kind, probe)
    text, half = _text(size), _text(max(size // 2, 1))
    raw, share = kind != "windows_esxi", f", exported to {clients}" if clients else ""
    what = "the one is measured raw, the other carries a datastore" if raw else "it carries a datastore"
    lines = ["---", f"# {'Two RAM disks' if raw else 'A RAM disk'} on {target}{share}: {what}."]
    if probe:
        lines.append(
            f"# {target} runs {probe.get('system', 'Linux')} and had {probe['memory_available_mib']} of {probe['memory_mib']} MiB free."
        )
    lines += [f"testbed_id: {lab['testbed_id']}", "testbed:", "  disks:"]
    lines += [f"    - {{name: bench, size: {text}}}"] if raw else []
    lines.append(f"    - {{name: ds1, size: {text}}}")
    # A device is seen by those who log in alone, and one without a serial proves nothing.
    unused = [disk for disk in probe.get("disks", []) if not disk["used"] and disk["size_bytes"] and disk["serial"]]
    if unused and kind != "local":
        lines.append(
            "    # A device that you take from here is FORMATTED under a datastore and OVERWRITTEN with purpose: scratch; else its contents stay."
        )
        lines += [
            f"    # Seems unused: - {{name: {disk['path'].rpartition('/')[2]}, kind: device, path: {disk['path']}, serial: {disk['serial']}}}"
            for disk in unused
        ]
    store = {"esxi": "{disk: ds1}", "windows_esxi": "{disk: ds1}"}.get(kind, f"{{disk: ds1, benchmark_file: {half}}}")
    if kind in ("linux", "kvm") and len(lab["clients"]) > 1:
        # ext4 belongs to one host.
        store = store.replace("disk: ds1", f"disk: ds1, hosts: {next(name for name in names if name != target)}")
        lines[lines.index(f"    - {{name: ds1, size: {text}}}")] = (
            f"    - {{name: ds1, size: {text}, to: {next(name for name in names if name != target)}}}"
        )
    lines += [
        "  datastores:",
        f"    - {store}",
        "",
        "# The workloads for every layer: a profile of docs/workloads.md, or benchmark_workloads of your own.",
    ]
    quick = lab["profile"] == FIRST_LOOK
    lines += ["# This one takes minutes, to see that all works; its figures are none to publish."] if quick else []
    lines += [f"benchmark_profile: {lab['profile']}", f"benchmark_repetitions: {3 if quick else 5}"]
    if kind == "windows_esxi":
        lines += ["# The engine for Windows hosts: fio, diskspd or iometer.", "benchmark_engine: diskspd"]
    return "\n".join(lines) + "\n"


def _text(mib: int) -> str:
    return f"{mib // 1024}GiB" if mib % 1024 == 0 else f"{mib}MiB"


def _fitting(kind: str, probe: Probe) -> int:
    """MiB for each RAM disk, of what is free on the target."""
    count = 1 if kind == "windows_esxi" else 2
    free = probe.get("memory_available_mib")
    if not free:
        return UNKNOWN_MIB
    size = min(int(free * MEMORY_SHARE / count), MOST_MIB)
    # Whole GiB where there are some, else whole powers of two.
    size = size // 1024 * 1024 if size >= 1024 else 1 << max(size.bit_length() - 1, 0)
    if size < (ESXI_LEAST_MIB if "esxi" in kind else LEAST_MIB):
        raise Failure(
            "memory_low",
            f"The target has {free} MiB free, too little for {count} RAM disks of a lab of kind {kind}.",
            "Free memory there, or set new_lab_size.",
        )
    return size
