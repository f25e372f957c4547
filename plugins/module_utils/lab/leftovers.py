# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The remains of the embedded labs of one checkout, found without any file of theirs, and ended.

The name of a lab has a digest of the folder that it belongs to (`netns.netns_name`), so its name alone proves whose it is: a folder below ``/run/storlab``
or the command line of a process that carries the exact name of a lab in this folder is ours, and every other one is somebody else's.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator

from ..core.failure import Failure
from ..linux import daemon
from . import netns

NAME = re.compile(r"storlab-(?P<id>.+)-[0-9a-f]{6}")
# How long processes may take to be gone once they were killed.
PATIENCE_S = 10.0
# How long a machine may take to greet who connects to it: an emulated one on a busy computer takes seconds.
GREETING_S = 30.0
SSH_PORT = 22
# Hosts of layers of these kinds were looked at before the build.
BUILT_KINDS = ("backing", "target", "initiator", "datastore")


def _owner(name: str, lab_root: str) -> str | None:
    """The testbed whose lab in this folder has this very name."""
    match = NAME.fullmatch(name)
    if not match:
        return None
    with contextlib.suppress(Failure):
        if netns.netns_name(match["id"], os.path.join(lab_root, match["id"])) == name:
            return match["id"]
    return None


def _parts(cmdline: list[str]) -> Iterator[tuple[str, str]]:
    """(lab, machine) of everything in a lab's folder that the command line is about: a machine by its pid file; "" for the control socket of a connection."""
    root = re.escape(netns.RUN_ROOT)
    for word, following in zip(cmdline, cmdline[1:]):
        machine = re.fullmatch(rf"{root}/([^/]+)/vm/([^/]+)/pid", following)
        if machine and word == "-pidfile":
            yield machine[1], machine[2]
    # The name that ssh gives the process that keeps a connection open.
    title = cmdline[0].rstrip() if cmdline else ""
    connection = re.fullmatch(rf"ssh: {root}/([^/]+)/{netns.CONNECTIONS}/[^/]+ \[mux\]", title)
    if connection:
        yield connection[1], ""


def processes() -> dict[str, dict[int, str]]:
    """{lab: {pid: machine}} of all labs, also of other checkouts; the machine is empty for a connection to one."""
    labs: dict[str, dict[int, str]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and daemon.start_ticks(int(entry)):
            for lab, machine in _parts(daemon.read_cmdline(int(entry))):
                labs.setdefault(lab, {})[int(entry)] = machine
    return labs


def labs_of(lab_root: str) -> dict[str, str]:
    """{testbed_id: name of its lab} of the labs in this folder of which a file, a folder, a namespace or a process is left."""
    names = {*processes(), *(os.listdir(netns.RUN_ROOT) if os.path.isdir(netns.RUN_ROOT) else [])}
    labs = {owner: name for name in sorted(names) if (owner := _owner(name, lab_root))}
    for testbed_id in sorted(os.listdir(lab_root)) if os.path.isdir(lab_root) else []:
        with contextlib.suppress(Failure):
            labs[testbed_id] = netns.netns_name(testbed_id, os.path.join(lab_root, testbed_id))
    return labs


def broken(lab_dir: str, state_dir: str, name: str) -> str:
    """Why no playbook can take down what is built on this lab; empty when one can. lab_dir: folder of the lab, state_dir: of the testbed built on it."""
    folder = os.path.join(netns.run_dir(name), "vm")
    machines = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    running = {machine: pid for pid, machine in processes().get(name, {}).items() if machine}
    if not machines and not running:
        return "it has no machines"
    for what, there in (
        ("the folder of the lab", os.path.isfile(os.path.join(lab_dir, "ssh", "config"))),
        ("its network", netns.is_namespace(netns.namespace_path(name))),
    ):
        if not there:
            return f"{what} is gone"
    for machine in sorted({*machines, *running}):
        if machine not in machines:
            return f"the folder of machine {machine} is gone"
        if machine not in running:
            return f"machine {machine} does not run"
        if _stopped(running[machine]):
            return f"machine {machine} is stopped"
    for machine, address in _addresses(os.path.join(lab_dir, "ssh", "config")).items():
        if machine in machines and not netns.wait_for_banner(name, address, SSH_PORT, time.monotonic() + GREETING_S):
            return f"machine {machine} does not answer"
    hosts = _built_hosts(os.path.join(state_dir, "layers"))
    if not hosts:
        return "nothing is known to be built on it"
    for host in sorted(hosts):
        if not os.path.isfile(os.path.join(state_dir, "before", f"{host}.json")):
            return f"nothing is kept of what {host} was like before the build"
    return ""


def _addresses(configuration: str) -> dict[str, str]:
    """{machine: address} of the lab's SSH configuration."""
    with open(configuration, encoding="utf-8") as handle:
        return dict(re.findall(r"^Host (\S+)\n\s+HostName (\S+)$", handle.read(), re.MULTILINE))


def _stopped(pid: int) -> bool:
    stat = daemon.read_stat(pid)
    return not stat or stat[0] in "Tt"


def _built_hosts(folder: str) -> set[str]:
    hosts = set()
    for entry in os.listdir(folder) if os.path.isdir(folder) else []:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            with open(os.path.join(folder, entry), encoding="utf-8") as handle:
                layer = json.load(handle)
            if layer["kind"] in BUILT_KINDS:
                hosts.add(str(layer["host"]))
    return hosts


def verified(path: str) -> bool:
    """Whether a kept state of the time before a build was found again after it; not so when the file is damaged."""
    try:
        with open(path, encoding="utf-8") as handle:
            kept = json.load(handle)
    except (OSError, ValueError):
        return False
    return isinstance(kept, dict) and kept.get("verified") is True


def end(lab_dir: str, name: str) -> list[str]:
    """Kill the processes of the lab, and remove its network and folders; one line per thing. The memory of machines goes with them."""
    gone = []
    for pid, machine in sorted(processes().get(name, {}).items()):
        gone.append(f"machine {machine} (process {pid})" if machine else f"connection (process {pid})")
        # It may have become somebody else's since it was found.
        if any(lab == name for lab, _machine in _parts(daemon.read_cmdline(pid))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if not daemon.wait_until_gone(lambda: processes().get(name), PATIENCE_S):
        raise Failure(
            "lab_hung",
            f"Processes {', '.join(map(str, sorted(processes().get(name, {}))))} of the lab {name} do not end, not even killed.",
            "Free the storage they wait for, or restart this host.",
            lab=name,
        )
    there = {"netns": netns.is_namespace(netns.namespace_path(name)), "folder": os.path.isdir(netns.run_dir(name))}
    steps = netns.plan(there, {"netns": False})
    netns.apply(steps, name)
    gone += [f"{' '.join(step).removeprefix('remove ')} {netns.run_dir(name)}" for step in steps]
    if os.path.isdir(lab_dir):
        shutil.rmtree(lab_dir)
        gone.append(f"folder {lab_dir}")
    return gone
