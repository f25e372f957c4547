# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The private network of a lab: a network namespace with one bridge and a tap for each machine.

The namespace is held by a file of our own below ``/run/storlab``, not below ``/run/netns``: ``ip netns`` would turn that folder into a
mount point that outlives the namespace, and a teardown must leave nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import ipaddress
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from ..core.failure import Failure, bad_value

RUN_ROOT = "/run/storlab"
BRIDGE = "br-lab"
# Folder beside the namespace in which SSH keeps the sockets of open connections.
CONNECTIONS = "cp"
CLONE_NEWNET = 0x40000000
LONGEST_TRY_S = 60.0


def netns_name(lab_name: str, lab_dir: str) -> str:
    """Name of a lab's namespace: two checkouts with a lab of the same name never meet."""
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", lab_name):
        raise bad_value(
            "lab name", lab_name, "Use up to 32 lower-case letters, digits, _ and -, beginning with a letter."
        )
    if not os.path.isabs(lab_dir):
        raise bad_value("lab folder", lab_dir, "Give an absolute path.")
    return f"storlab-{lab_name}-{hashlib.sha256(os.path.normpath(lab_dir).encode()).hexdigest()[:6]}"


def mac_address(seed: str) -> str:
    """The same address for the same machine, each time; 52:54:00 is the range QEMU's machines use."""
    digest = hashlib.sha256(seed.encode()).hexdigest()
    return f"52:54:00:{digest[0:2]}:{digest[2:4]}:{digest[4:6]}"


def check_address(variable: str, value: str) -> str:
    """An IPv4 interface address with its prefix, such as 10.213.0.1/24."""
    try:
        interface = ipaddress.IPv4Interface(value)
    except ValueError:
        interface = None
    if (
        interface is None
        or "/" not in value
        or interface.network.prefixlen > 30
        or interface.ip in (interface.network.network_address, interface.network.broadcast_address)
    ):
        raise bad_value(variable, value, "Give a host address with the prefix of its network, such as 10.213.0.1/24.")
    return str(interface)


def run_dir(netns: str) -> str:
    return os.path.join(RUN_ROOT, netns)


def namespace_path(netns: str) -> str:
    """The file that holds the namespace; one that already is a path is taken as it is."""
    return netns if netns.startswith("/") else os.path.join(run_dir(netns), "net")


def enter_argv(netns: str | None) -> list[Any]:
    """The words before a command so that it runs in the namespace."""
    return ["nsenter", f"--net={namespace_path(netns)}", "--"] if netns else []


def is_namespace(path: str) -> bool:
    """Whether the file holds a namespace; after a reboot it is an empty file."""
    try:
        return os.stat(path).st_dev == os.stat("/proc/self/ns/net").st_dev
    except FileNotFoundError:
        return False


def command(argv: list[str]) -> str:
    """Run a network tool and return what it printed."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    tool = shutil.which(argv[0], path=path)
    if not tool:
        raise Failure(
            "tool_missing",
            f"The command {argv[0]} is not on this host.",
            "Install the packages iproute2 and util-linux.",
            tool=argv[0],
        )
    done = subprocess.run(
        [tool, *argv[1:]], check=False, capture_output=True, text=True, env={**os.environ, "PATH": path, "LC_ALL": "C"}
    )
    if done.returncode != 0:
        raise Failure(
            "network",
            f"{' '.join(argv)} failed: {done.stderr.strip()}.",
            "Correct the cause and run this again; it needs root rights.",
            argv=argv,
        )
    return done.stdout


def read_state(netns: str) -> dict[str, Any]:
    """The state: namespace, bridge, its addresses, its ports, and what is down."""
    if not is_namespace(namespace_path(netns)):
        return {
            "folder": os.path.isdir(run_dir(netns)),
            "netns": False,
            "bridge": False,
            "addresses": [],
            "taps": [],
            "down": [],
        }
    return {"folder": True, **parse_state(json.loads(command([*enter_argv(netns), "ip", "-j", "address", "show"])))}


def parse_state(links: list[Any]) -> dict[str, object]:
    """The state from ``ip -j address show``."""
    by_name = {link["ifname"]: link for link in links}
    bridge = by_name.get(BRIDGE, {})
    return {
        "netns": True,
        "bridge": bool(bridge),
        "addresses": sorted(
            f"{info['local']}/{info['prefixlen']}" for info in bridge.get("addr_info", []) if info["family"] == "inet"
        ),
        "taps": sorted(name for name, link in by_name.items() if link.get("master") == BRIDGE),
        "down": sorted(name for name, link in by_name.items() if "UP" not in link["flags"]),
    }


def plan(current: dict[str, Any], desired: dict[str, Any]) -> list[Any]:
    """Steps from what is to what is wanted. ``desired``: {"netns": False} or {"netns": True, "address": …, "taps": […]}."""
    if not desired["netns"]:
        return [("remove namespace",)] * current["netns"] + [("remove folder",)] * current["folder"]
    steps: list[tuple[str, ...]] = [] if current["netns"] else [("add namespace",)]
    if not current["bridge"]:
        steps.append(("add bridge",))
    steps += [("remove address", address) for address in current["addresses"] if address != desired["address"]]
    if desired["address"] not in current["addresses"]:
        steps.append(("add address", desired["address"]))
    steps += [("remove tap", tap) for tap in current["taps"] if tap not in desired["taps"]]
    steps += [("add tap", tap) for tap in desired["taps"] if tap not in current["taps"]]
    new = (
        ["lo"] * (not current["netns"])
        + [BRIDGE] * (not current["bridge"])
        + [tap for tap in desired["taps"] if tap not in current["taps"]]
    )
    down = [name for name in current["down"] if name in ("lo", BRIDGE, *desired["taps"])]
    return steps + [("set up", name) for name in [*new, *down]]


def commands(step: tuple[Any, ...], netns: str) -> list[Any]:
    """The commands of one step."""
    inside = enter_argv(netns)
    return {
        "add namespace": [["unshare", f"--net={namespace_path(netns)}", "true"]],
        "remove namespace": [["umount", namespace_path(netns)]],
        "remove folder": [],
        # No forwarding delay: a port must pass traffic as soon as it is up.
        "add bridge": [
            [*inside, "ip", "link", "add", BRIDGE, "type", "bridge", "forward_delay", "0", "stp_state", "0"]
        ],
        "add address": [[*inside, "ip", "address", "add", *step[1:], "dev", BRIDGE]],
        "remove address": [[*inside, "ip", "address", "del", *step[1:], "dev", BRIDGE]],
        "add tap": [
            [*inside, "ip", "tuntap", "add", "dev", *step[1:], "mode", "tap"],
            [*inside, "ip", "link", "set", *step[1:], "master", BRIDGE],
        ],
        "remove tap": [[*inside, "ip", "link", "del", *step[1:]]],
        "set up": [[*inside, "ip", "link", "set", *step[1:], "up"]],
    }[step[0]]


def close_connections(folder: str) -> None:
    """End the SSH connections whose control sockets are in the folder: with their machine gone they would keep callers waiting."""
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        path = os.path.join(folder, name)
        # One that has ended by itself leaves a socket without a listener, and ssh says so; either way it is gone afterwards.
        argv = [shutil.which("ssh") or "/usr/bin/ssh", "-F", "none", "-S", path, "-O", "exit", "lab"]
        subprocess.run(argv, check=False, capture_output=True, stdin=subprocess.DEVNULL)
        # The master removes its socket itself when it ends, and may do so at this very moment.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def apply(steps: list[Any], netns: str) -> None:
    path = namespace_path(netns)
    for step in steps:
        if step[0] == "add namespace":
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(path, "a", encoding="utf-8"):
                pass
        elif step[0] == "remove namespace":
            close_connections(os.path.join(run_dir(netns), CONNECTIONS))
        for argv in commands(step, netns):
            command(argv)
        if step[0] == "remove folder":
            shutil.rmtree(run_dir(netns))
            if not os.listdir(RUN_ROOT):
                os.rmdir(RUN_ROOT)


def _setns(handle: int) -> None:
    # os.setns exists since Python 3.12 only.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(handle, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise Failure("netns", f"A network namespace could not be entered: {os.strerror(number)}.", "Run this as root.")


@contextlib.contextmanager
def entered(netns: str | None) -> Iterator[Any]:
    """Within the block sockets are made in the namespace; they stay in it afterwards."""
    if not netns:
        yield
        return
    with (
        open("/proc/self/ns/net", encoding="utf-8") as outside,
        open(namespace_path(netns), encoding="utf-8") as inside,
    ):
        _setns(inside.fileno())
        try:
            yield
        finally:
            _setns(outside.fileno())


def banner(netns: str | None, address: str, port: int, timeout_s: float) -> str:
    """The first bytes a server sends; an empty string when it does not answer within the time."""
    with entered(netns):
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with client:
        client.settimeout(timeout_s)
        try:
            client.connect((address, port))
            return client.recv(256).decode("ascii", "replace")
        except OSError:
            return ""


def wait_for_banner(
    netns: str | None,
    address: str,
    port: int,
    deadline: float,
    expected: str = "SSH-",
    still_alive: Any = lambda: True,
    patience_s: float = 2.0,
) -> bool:
    """Wait until the server greets as expected; give up at the deadline (time.monotonic) or when the machine is gone.

    Each try has more patience than the one before: a server that starts a process for each connection would be asked
    over and over, and never be done with any, where the machine is slow.
    """
    while time.monotonic() < deadline and still_alive():
        left_s = max(0.1, deadline - time.monotonic())
        if banner(netns, address, port, min(patience_s, left_s)).startswith(expected):
            return True
        patience_s = min(2 * patience_s, LONGEST_TRY_S)
        time.sleep(0.1)
    return False
