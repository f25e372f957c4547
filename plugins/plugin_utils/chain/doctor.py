# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The things that a lab lacks before a build, and the command that mends it: pure functions of the testbed and of the hosts' answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from . import devices, windows_devices, written
from .finding import line
from .nouns import Facts, Finding, Peer, Place, Probe, Refused, SeenDisk
from .shape import Problem, shown
from .stages import STAGES
from .testbed import Host, Testbed, addresses_of, is_address

INSTALL = {
    "apt-get": "apt-get install --yes",
    "dnf": "dnf install -y",
    "yum": "yum install -y",
    "zypper": "zypper install -y",
    "apk": "apk add",
}
SECTOR_BYTES = 512
# {command: (package of Debian, package of the Red Hat family)}
PACKAGES = {command: packages for stage in STAGES for command, packages in stage.packages.items()}
# {finding of module_utils/linux/mounts.py about a folder: (why it is not a mount point, what to do)}
NO_PLACE = {
    "below_file": ("and {at} on {host} is not a folder", "name another mount_point, or move that file away"),
    "no_folders": ("and in {at} of {host} no folder can be created", "name another mount_point"),
    "not_empty": (
        "and {at} on {host} is a folder with something in it",
        "name another mount_point, or empty that folder",
    ),
    "not_permitted": (
        "and the user of the task may not make it in {at} on {host}",
        "name another mount_point, or set ansible_become",
    ),
    "read_only": (
        "and {at} on {host} is mounted read-only",
        "name another mount_point, or mount that file system for writing",
    ),
    "unusable": ("and {host} cannot make it below {at}", "name another mount_point"),
}
REASON_LETTERS = 400
# Ansible's own prompt for sudo, with a random key.
PROMPT = re.compile(r"\[sudo via ansible, key=\w+\] password:")
# (what Ansible gives as the reason why it could not look at a host, what mends that), the first that fits.
REMEDIES = (
    (r"vault secrets", "give the password of the vault with --ask-vault-pass or --vault-password-file"),
    (
        r"Missing \w+ password|a password is required",
        "give the password with --ask-become-pass, or set ansible_become_password in a vault",
    ),
    (r"Incorrect \w+ password|try again", "correct ansible_become_password, or what --ask-become-pass was given"),
    (r"Permission denied \(", "correct ansible_user and its key or password; try: ssh {address}"),
)
CLOCK_S = 2.0


def needs(testbed: Testbed, name: str) -> dict[str, Any]:
    """The options of storlab.testbed.host_probe for a Linux host, the images that the doctor looks for on an ESXi host, and nothing of others."""
    host = testbed.hosts[name]
    if host.platform != "linux":
        images = [image for stage in STAGES for image in stage.images(host)]
        return {"images": images} if host.platform == "esxi" else {}
    running = [stage for stage in STAGES if stage.name in host.stages]
    wanted = [stage.needs(testbed, host) for stage in running]
    peers = {peer for stage in STAGES for peer in stage.peers(host)}
    # From the exported disks down.
    paths = [
        path for stage in sorted(STAGES, key=lambda stage: -stage.floor) for path in stage.device_paths(testbed, host)
    ]
    return {
        "named": devices.wanted(testbed, name),
        "folders": [path for _variable, path in mount_points(testbed, name)],
        "commands": list(dict.fromkeys(command for commands, _modules in wanted for command in commands)),
        "modules": list(dict.fromkeys(module for _commands, modules in wanted for module in modules)),
        "peers": [{"address": address, "port": port} for address, port in sorted(peers)],
        "devices": paths,
    }


def mount_points(testbed: Testbed, name: str) -> list[tuple[str, str]]:
    """[(variable, path)] of the folders of a host that something is mounted on, by the words that set them."""
    return [point for stage in STAGES for point in stage.mount_points(testbed, testbed.hosts[name])]


def _of_stages(topic: str, testbed: Testbed, host: Host, probe: Probe) -> list[Finding]:
    looks = [stage.findings().get(topic) for stage in STAGES]
    return [finding for look in looks if look for finding in look(testbed, host, probe)]


def findings(testbed: Testbed, probes: Mapping[str, Probe], notes: dict[str, Any] | None = None) -> list[Finding]:
    """[{host, what, good, said, command}]. notes: of devices that a testbed of this state folder has written to (written.py).

    probes: {host: probe of host_probe (Linux), about of esxi_state; about and seen of win_state; {'unreached': reason}, or None, of one that was not reached}.
    """
    lines, double = [], dict(several_names(testbed, probes))
    for name, host in testbed.hosts.items():
        if name not in probes:
            continue
        probe = probes[name] or {}
        if "unreached" in probe or not probe:
            reason = short(probe.get("unreached") or "the host does not answer Ansible")
            lines.append(line(name, "reached", False, reason, _way(host, reason)))
            continue
        lines.append(
            line(name, "reached", True, probes[name].get("system") or probes[name].get("product", host.platform))
        )
        lines += [_problem_line(name, double[name])] if name in double else []
        if host.platform == "linux":
            lines += _linux(testbed, name, probes[name])
            for host, entry in written.strange(testbed, {name: probes[name]}, notes or {}):
                lines.append(line(host, entry["variable"], False, *written.sentence(host, entry)))
        elif host.platform == "esxi":
            lines += _esxi(testbed, name, probes[name])
        else:
            lines += [_problem_line(name, problem) for problem in _missing_on_windows(testbed, name, probes[name])]
    return lines


def short(reason: str) -> str:
    """What Ansible gives as a reason, as one sentence without its end."""
    text = " ".join(PROMPT.sub("", reason).split()).rstrip(".").removeprefix("Task failed: ")
    return text if len(text) <= REASON_LETTERS else f"{text[: REASON_LETTERS - 1]}…"


def _way(host: Host, reason: str) -> str:
    """The remedy for a host that was not reached."""
    address = host.own.get("ansible_host") or host.name
    for sign, remedy in REMEDIES:
        if re.search(sign, reason):
            return remedy.format(address=address)
    # About an ESXi host the controller itself is asked, which always answers; the module's sentence has the remedy.
    return "" if host.platform == "esxi" else f"ansible {host.name} -i <inventory> -m ping -vvv"


def _linux(testbed: Testbed, name: str, probe: Probe) -> list[Finding]:
    host = testbed.hosts[name]
    root = "root" if probe["root"] else "not root"
    lines = [line(name, "rights", probe["root"], root, "set ansible_user: root, or ansible_become: true")]
    wanted = needs(testbed, name)
    if wanted["commands"]:
        lines.append(_programs(name, wanted["commands"], probe))
    if wanted["modules"]:
        lines.append(_modules(name, wanted["modules"], probe))
    lines += _of_stages("memory", testbed, host, probe)
    if "clock_ahead_s" in probe:
        ahead = probe["clock_ahead_s"]
        remedy = "timedatectl set-ntp true, or chronyc makestep"
        lines.append(line(name, "time", abs(ahead) <= CLOCK_S, f"{ahead:+.1f} s off the controller's", remedy))
    for peer in probe["peers"]:
        lines += _peer(testbed, name, peer)
    lines += _named(testbed, name, probe) + _folders(testbed, name, probe)
    for path, device in probe["devices"].items():
        lines += _device(testbed, name, path, device)
    lines += _of_stages("others", testbed, host, probe)
    return lines


def _programs(name: str, commands: list[str], probe: Probe) -> Finding:
    missing, manager = probe["missing_commands"], probe["package_manager"]
    packages = sorted({PACKAGES[command][0 if manager == "apt-get" else 1] for command in missing})
    remedy = f"{INSTALL.get(manager, 'install the packages')} {' '.join(packages)}"
    text = f"{', '.join(missing)} missing" if missing else ", ".join(commands)
    return line(name, "programs", not missing, text, remedy)


def _modules(name: str, modules: list[str], probe: Probe) -> Finding:
    missing, manager = probe["missing_modules"], probe["package_manager"]
    remedy = f"{INSTALL.get(manager, 'install')} kernel-modules-extra"
    if manager == "apt-get":
        # Debian's small kernels for clouds lack them; Ubuntu keeps them apart.
        ubuntu = "Ubuntu" in probe.get("system", "")
        remedy = f"{INSTALL[manager]} {'linux-modules-extra-' + probe['kernel'] if ubuntu else 'linux-image-amd64, and start it'}"
    text = f"{', '.join(missing)} missing in {probe['kernel']}" if missing else ", ".join(modules)
    return line(name, "kernel modules", not missing, text, remedy)


def _peer(testbed: Testbed, name: str, peer: Peer) -> list[Finding]:
    """The way to a port of another host, and the size of packets on it where one is asked for."""
    address, way = peer["address"], peer["way"]
    text = {
        "open": "answers",
        "refused": "reached, but nothing listens on it yet",
        "filtered": "no answer: a firewall is in the way",
        "unreachable": "no route to it",
    }[way]
    owners = [
        other for other in testbed.targets if address in [own for own, _port in addresses_of(testbed.hosts[other].own)]
    ]
    owner = owners[0] if owners else address
    remedy = f"on {owner}: firewall-cmd --permanent --add-port={peer['port']}/tcp && firewall-cmd --reload, or ufw allow {peer['port']}/tcp"
    if way == "unreachable":
        remedy = f"ip route get {address}, and give {name} an address in that network"
    lines = [line(name, f"way to {address}:{peer['port']}", way in ("open", "refused"), text, remedy)]
    if peer["mtu_passes"] is not None:
        passes = peer["mtu_passes"]
        text = f"{peer['mtu_bytes']} bytes {'pass' if passes else 'do not pass'} unfragmented"
        remedy = f"ip link set <interface> mtu {peer['mtu_bytes']} on {owner} and on every switch between, or mtu 1500 on {name}"
        lines.append(line(name, f"MTU to {address}", passes, text, remedy))
    return lines


def impossible(testbed: Testbed, name: str, folders: Mapping[str, Place]) -> list[Problem]:
    """The mount points that a host cannot have. folders: as the host was probed."""
    problems = []
    for variable, path in mount_points(testbed, name):
        answer = folders.get(path) or {}
        if answer:
            why, remedy = NO_PLACE[answer["problem"]]
            problems.append(Problem(variable, shown(path), why.format(at=answer["at"], host=name), remedy))
    return problems


def unfit(testbed: Testbed, probes: Mapping[str, Probe]) -> list[Problem]:
    """The faults that the hosts show in their names, and with devices and mount points that the inventory names."""
    return [problem for _host, problem in several_names(testbed, probes)] + [
        problem
        for name, probe in probes.items()
        if probe and name in testbed.hosts
        for problem in [
            *devices.missing(name, probe.get("named") or []),
            *_missing_on_windows(testbed, name, probe),
            *impossible(testbed, name, probe.get("folders") or {}),
        ]
    ]


def _missing_on_windows(testbed: Testbed, name: str, probe: Probe) -> list[Problem]:
    seen = testbed.hosts[name].platform == "windows" and "volumes" in probe
    return list(windows_devices.missing(testbed, testbed.hosts[name], probe)) if seen else []


def several_names(testbed: Testbed, probes: Mapping[str, Probe]) -> list[tuple[str, Problem]]:
    """(its first name, what is wrong) for each machine that has several names in the inventory.

    Clones of one image share the machine-id and containers of one machine the boot-id, so both must be the same.
    """
    names: dict[tuple[str, ...], list[str]] = {}
    for name, probe in probes.items():
        ids = tuple(str((probe or {}).get(key) or "") for key in ("machine_id", "boot_id"))
        if name in testbed.hosts and all(ids):
            names.setdefault(ids, []).append(name)
    return [
        (
            together[0],
            Problem(
                f"hosts {', '.join(together[:-1])} and {together[-1]}",
                None,
                "are one machine, because their machine-id and their boot-id are the same",
                "name it once, and put that name into every group that it belongs to; containers need a machine-id each",
            ),
        )
        for together in names.values()
        if len(together) > 1
    ]


def _problem_line(host: str, problem: Problem) -> Refused:
    text = ", ".join(part for part in (problem.value, problem.why) if part)
    return {**line(host, problem.variable, False, text, problem.instead), "sentence": problem.sentence()}


def _named(testbed: Testbed, name: str, probe: Probe) -> list[Finding]:
    lines: list[Finding] = []
    for entry in probe.get("named") or []:
        wrong = list(devices.missing(name, [entry]))
        lines += [_problem_line(name, problem) for problem in wrong]
        if not wrong:
            lines.append(line(name, entry["variable"], True, entry["paths"][0]))
    return lines


def _folders(testbed: Testbed, name: str, probe: Probe) -> list[Finding]:
    folders = probe.get("folders") or {}
    wrong = {problem.value: problem for problem in impossible(testbed, name, folders)}
    return [
        _problem_line(name, wrong[shown(path)]) if shown(path) in wrong else line(name, path, True, "can be mounted on")
        for path in folders
    ]


def _device(testbed: Testbed, name: str, path: str, device: SeenDisk) -> list[Finding]:
    if not device:
        # Told of where it is named.
        return []
    readers = [host for disk in testbed.disks if disk.entry.get("path") == path for host in disk.hosts]
    esxi = [host for host in readers if testbed.hosts[host].platform == "esxi"]
    good = not esxi or device["sector_bytes"] == SECTOR_BYTES
    text = f"sectors of {device['sector_bytes']} bytes" + ("" if good else f", which {esxi[0]} refuses")
    return [
        line(
            name,
            path,
            good,
            text,
            f"nvme format {path} --lbaf 0 (destroys what is on it), or take a device with sectors of 512 bytes",
        )
    ]


def _esxi(testbed: Testbed, name: str, about: Probe) -> list[Finding]:
    lines: list[Finding] = []
    version = str(about.get("version", "0"))
    numbers = tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])
    lines.append(line(name, "version", numbers >= (6, 5), version, "upgrade the host to ESXi 6.5 or later"))
    licence = about.get("read_only_licence")
    lines.append(
        line(
            name,
            "licence",
            not licence,
            f"{licence} makes the API of the host read-only" if licence else "lets the host be changed",
            "give the host a licence whose API may change it, or evaluate one",
        )
    )
    lines += _of_stages("esxi", testbed, testbed.hosts[name], about)
    return lines


def facts(probes: Mapping[str, Probe]) -> dict[str, Facts]:
    """The faults of the description that the check of the whole can find."""
    known: dict[str, Facts] = {}
    for name, probe in probes.items():
        if probe and "addresses" in probe and any(map(is_address, probe["addresses"])):
            known[name] = {"addresses": probe["addresses"]}
            if "memory_mib" in probe:
                known[name]["memory_mib"] = probe["memory_mib"]
    return known


def printed(lines: list[Refused], wrong: list[str]) -> list[str]:
    """The findings as a table, and below it the commands that mend what is missing. wrong: what the hosts show to be wrong in the description."""
    rows = [("host", "check", "good", "details")]
    rows += [(line["host"], line["what"], "yes" if line["good"] else "NO", line["said"]) for line in lines]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    table = ["  ".join([*(text.ljust(width) for text, width in zip(row, widths)), row[3]]) for row in rows]
    mending = [
        line.get("sentence") or f"{line['host']}: {line['what']}: {line['said']}. {line['command']}".rstrip()
        for line in lines
        if not line["good"]
    ]
    return table + (["", "To fix it:", *(f"- {text}" for text in [*mending, *wrong])] if mending or wrong else [])
