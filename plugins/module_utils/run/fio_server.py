# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio's server on a host that takes part in a measurement of many hosts, for as long as that measurement lasts.

fio's server does whatever anybody who reaches it sends, as the user it runs as. So it listens on one address only, holds the one
layer that the device guard proved, and ends at its deadline even when no one ends it.

    <base>/<testbed_id>/server/<port>/supervisor.json deadline.json server.json supervisor.log
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import shutil
import signal
import socket
import subprocess
import time
from types import FrameType
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.files import read_json, write_json
from ..core.shape import NUMBER
from ..engines import fio_distributed
from ..linux.daemon import (
    alive,
    detach,
    end,
    lives,
    log_tail,
    read_cmdline,
    read_stat,
    remove_empty,
)
from ..linux.disks import device_safety
from ..linux.disks.facts import Facts
from ..linux.own_folder import base_dir, private_folder, proven, read_own_json

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LOOK_S = 0.5
# Emulated machines are slow to start a program.
START_PATIENCE_S = 30


def servers_dir(testbed_id: str, base: str | None = None) -> str:
    return proven(base or base_dir(), testbed_id, "server")


def server_dir(testbed_id: str, port: str, base: str | None = None) -> str:
    return proven(base or base_dir(), testbed_id, "server", port)


# ---------------------------------------------------------------- the module's states


def start(options: dict[str, Any], engine: str, base: str | None = None, dry_run: bool = False) -> dict[str, object]:
    """A server for one layer: {changed, server: {host, address, port, version, layer, pid}}.

    asked: {testbed_id, layer, layers (known ones, for the guard), allow_device, address, port, allow_any_address, deadline_s}.
    The same server that runs already gets the new deadline and is left alone.
    """
    check_address(options["address"], options["allow_any_address"])
    folder = server_dir(options["testbed_id"], str(options["port"]), base)
    wanted = {
        "host": options["layer"]["host"],
        "address": options["address"],
        "port": options["port"],
        "version": fio_distributed.version(engine),
        "layer": options["layer"]["name"],
    }
    known = read_json(os.path.join(folder, "server.json")) if alive(folder) else None
    if known:
        if {key: known[key] for key in wanted} != wanted:
            raise Failure(
                "server_exists",
                f"Port {options['port']} has this testbed's server for {known['layer']} on {known['address']}.",
                "Stop it first, or choose another port.",
                server=known,
            )
        if not dry_run:
            _set_deadline(folder, options["deadline_s"])
        return {"changed": False, "server": known}
    check_free(options["address"], options["port"])
    guarded(options)
    if dry_run:
        return {"changed": True, "server": wanted}
    _end_leftovers(folder)
    private_folder(base or base_dir(), options["testbed_id"], "server", str(options["port"]))
    _set_deadline(folder, options["deadline_s"])
    detach(lambda: Supervisor(folder, options, engine, wanted).run(), folder)
    return {"changed": True, "server": _listening(folder)}


def stop(testbed_id: str, port: int | None = None, base: str | None = None, dry_run: bool = False) -> dict[str, object]:
    """End one server of the testbed, or all of them, with everything they started, and remove their folders."""
    above = servers_dir(testbed_id, base)
    names = sorted(os.listdir(above)) if os.path.isdir(above) else []
    folders = [server_dir(testbed_id, name, base) for name in names if port is None or name == str(port)]
    if not dry_run:
        for folder in folders:
            if alive(folder):
                end(folder)
            _end_leftovers(folder)
        remove_empty(above, os.path.dirname(above), os.path.dirname(os.path.dirname(above)))
    return {"changed": bool(folders), "stopped": [int(os.path.basename(folder)) for folder in folders]}


def running(testbed_id: str, base: str | None = None) -> list[dict[str, object]]:
    """The testbed's servers on this host, by port."""
    above = servers_dir(testbed_id, base)
    names = sorted(os.listdir(above), key=int) if os.path.isdir(above) else []
    folders = [server_dir(testbed_id, name, base) for name in names]
    servers = [read_json(os.path.join(folder, "server.json")) for folder in folders if alive(folder)]
    return [server for server in servers if server]


# ---------------------------------------------------------------- before it listens


def check_address(address: str, allow_any: bool) -> None:
    """One address of this host, so that no one outside the testbed's network reaches the server."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise bad_value("address", address, "Give this host's address in the testbed's network, as numbers.") from None
    if parsed.is_unspecified:
        if not allow_any:
            raise bad_value(
                "address",
                address,
                "Everybody who reaches fio's server can run commands through it: give one address, or set allow_any_address.",
            )
        return
    try:
        with socket.socket(_family(address)) as probe:
            probe.bind((address, 0))
    except OSError as error:
        raise Failure(
            "address_missing",
            f"This host cannot listen on {address} ({error.strerror}).",
            "Give the address that the host has in the testbed's network.",
            address=address,
        ) from error


def check_free(address: str, port: int) -> None:
    try:
        with socket.socket(_family(address)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
    except OSError as error:
        raise Failure(
            "port_in_use",
            f"Port {port} on {address} cannot be had ({error.strerror}).",
            "Choose another port.",
            address=address,
            port=port,
        ) from error


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def guarded(options: dict[str, Any]) -> Facts:
    """The device guard's look at the layer; its refusal as a Failure."""
    if options["layer"]["path"] is None:
        raise bad_value(
            "layer", options["layer"]["name"], "It has no path on this host; name a layer that can be measured."
        )
    return device_safety.guard(options["layer"], options["allow_device"], options["testbed_id"], options["layers"])[0]


def _listening(folder: str) -> dict[str, object]:
    """The server's record, once the kernel says that somebody listens there."""
    deadline = time.monotonic() + START_PATIENCE_S
    while alive(folder) and time.monotonic() < deadline:
        known = read_json(os.path.join(folder, "server.json"))
        if known and is_listening(known["address"], known["port"]):
            server: dict[str, Any] = known
            return server
        time.sleep(0.02)
    words = log_tail(folder)
    if alive(folder):
        end(folder)
    _end_leftovers(folder)
    raise Failure(
        "server_not_started",
        f"fio's server did not start: {words or 'it said nothing.'}",
        "Try fio --server on the host.",
    )


def is_listening(address: str, port: int, root: str = "/") -> bool:
    """Whether a TCP socket listens on exactly this address, by /proc/net/tcp: 32-bit words of the address in the host's byte order, in hex."""
    packed = ipaddress.ip_address(address).packed
    words = "".join(packed[start : start + 4][::-1].hex() for start in range(0, len(packed), 4)).upper()
    path = os.path.join(root, "proc/net/tcp6" if ":" in address else "proc/net/tcp")
    with open(path, encoding="ascii") as handle:
        rows = [line.split() for line in handle]
    return any(row[1] == f"{words}:{port:04X}" and row[3] == "0A" for row in rows[1:])


def _set_deadline(folder: str, deadline_s: float) -> None:
    write_json(os.path.join(folder, "deadline.json"), time.monotonic() + deadline_s)


# ---------------------------------------------------------------- processes


def session(number: int, argv: list[str]) -> list[int]:
    """Processes of a session with this command line: the server, what it forked for each connection and for each job.

    The command line distinguishes them from a later session of the same number.
    """
    processes = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        stat = read_stat(pid)
        if lives(stat) and int(stat[3]) == number and read_cmdline(pid) == argv:
            processes.append(pid)
    return processes


def _end_session(number: int, argv: list[str]) -> None:
    for signal_number, patience_s in ((signal.SIGTERM, 3), (signal.SIGKILL, 10)):
        deadline = time.monotonic() + patience_s
        members = session(number, argv)
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_number)
        while members and time.monotonic() < deadline:
            time.sleep(0.05)
            members = session(number, argv)
        if not members:
            return
    raise Failure(
        "daemon_hung",
        f"Process {members[0]} of fio's server cannot be ended.",
        "Its device does not answer; repair or detach the device.",
    )


def _end_leftovers(folder: str) -> None:
    """The remains of a server whose supervisor was killed, and its folder."""
    known = read_own_json(folder, "server.json")
    if known:
        _end_session(known["pid"], known["argv"])
    if os.path.isdir(folder):
        shutil.rmtree(folder)


def children() -> list[int]:
    """Children of this process. Empty where the kernel does not list them (it is built without CONFIG_PROC_CHILDREN)."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as handle:
            return [int(pid) for pid in handle.read().split()]
    except FileNotFoundError:
        return []


class Supervisor:
    """Holds the layer and keeps the server until it is stopped or its deadline has come."""

    def __init__(self, folder: str, options: dict[str, Any], engine: str, record: dict[str, Any]) -> None:
        self.folder, self.options, self.record = folder, options, record
        self.argv = fio_distributed.server_command(engine, record["address"], record["port"])
        self.prctl = ctypes.CDLL(None).prctl
        self.stopping = False

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        # A job whose client is gone loses its parents and would go on writing; so that it comes to us, and is ended.
        self.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        held = self._hold()
        process = subprocess.Popen(
            self.argv, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=self._die_with_me
        )
        write_json(os.path.join(self.folder, "server.json"), {**self.record, "pid": process.pid, "argv": self.argv})
        while (
            not self.stopping
            and process.poll() is None
            and time.monotonic() < read_json(os.path.join(self.folder, "deadline.json"), kind=NUMBER)
        ):
            self._end_orphans(process.pid)
            time.sleep(LOOK_S)
        _end_session(process.pid, self.argv)
        os.close(held)

    def _hold(self) -> int:
        """The layer, open, so that its number cannot be given to another device; claimed, where the kernel has no other claim, so that no one mounts it."""
        facts = guarded(self.options)
        exclusive = os.O_EXCL if facts["type"] == "block" and facts["claim"] is None else 0
        return device_safety.hold(facts, exclusive)

    def _die_with_me(self) -> None:
        self.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.stopping = True

    def _end_orphans(self, server: int) -> None:
        for pid in children():
            if pid != server:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
