# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults that need no emulated machine: Windows hosts of tests/fake_windows whose PowerShell connection is lost, an ESXi host of tests/esxsim whose vSphere
session is, and this machine itself, whose processes, target and file systems fail beneath a real RAM disk, a real tgtd and a real fio."""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import dataclasses
import json
import os
import random
import signal
import ssl
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import esxsim_process
import fault_suite
import lab_plays
import tgt_process
from fault_emulated import fill, small_results
from fault_suite import Cell
from places import ROOT, TESTS

sys.path.insert(0, str(TESTS / "fake_windows"))

from world import World

ALL = fault_suite.STAGES
MEASURED = ("benchmark",)
CHANGED = ("build", "teardown")
# As in fault_emulated.py. kill of a connection: it ends once in the middle of a call; of one to Windows the call has been carried out, and its answer is lost
# with the shell. cut: the call has not come there. pause of one to ESXi: it hangs.
WINDOWS_TABLE = (
    ("powershell", "win01", ("cut", "kill", "outage", "lasting"), CHANGED),
    ("powershell", "win02", ("cut", "kill", "outage", "lasting"), ALL),
)
ESXI_TABLE = (
    ("vsphere_session", "esxi01", ("gone",), ALL),
    ("vsphere", "esxi01", ("kill", "pause", "outage", "lasting"), ALL),
    ("tgtd", "store01", ("pause", "kill", "lasting"), CHANGED),
    ("target", "store01", ("gone",), CHANGED),
)
HERE_TABLE = (
    ("fio", "here01", ("pause", "kill", "lasting"), MEASURED),
    ("supervisor", "here01", ("pause", "kill", "lasting"), MEASURED),
    ("results_full", "here01", ("outage",), MEASURED),
    ("results_full", "here01", ("lasting",), ALL),
)
# Those that the collection itself waits minutes for: a run that says nothing, and a host that measures and is not reached.
SLOW = ("benchmark supervisor here01 lasting", "benchmark powershell win02 lasting")
WORKLOAD = {"block_size": "4k", "read_percent": 60, "queue_depth": 2, "ramp_s": 0, "runtime_s": 3}
# What this machine does at any time, however busy it is: its own noise is to be taken for no wrong number.
HERE_RATE = {"rate_iops": 200}
REPETITIONS = 2
# Nothing outside reaches it.
NETWORK = (
    "ip link set lo up && ip link add storage type veth peer name far && ip address add {address}/24 dev storage && "
    "ip link set storage up && ip link set far up"
)
CONFIGURATION = f"""[defaults]
collections_path = {ROOT}/.cache/collections
connection_plugins = {TESTS}/fake_windows/connection
callback_plugins = {TESTS}/kill_controller
inject_facts_as_vars = false
stdout_callback = ansible.posix.json
[connection]
pipelining = true
"""


class StandIn(lab_plays.Lab):
    hosts: tuple
    outage_s = 30.0
    striking: type[fault_suite.Strike]

    def __init__(self, folder: Path, variables: dict, groups: dict):
        # Two of one name would meet in /run/storlab, also where they belong to two checkouts.
        name = f"faults{uuid.uuid4().hex[:8]}"
        self.state = folder / "state"
        here = {
            "testbed_id": name,
            "testbed_state_dir": str(self.state),
            "testbed_results_dir": str(folder / "results"),
            "benchmark_workloads": [WORKLOAD],
            "benchmark_repetitions": REPETITIONS,
            "benchmark_ceiling": False,
            **variables,
        }
        super().__init__(name, folder, {"all": {"vars": here, "children": groups}}, CONFIGURATION)
        self.open = contextlib.ExitStack()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.open.__exit__(*exception)

    def strike(self, cell: Cell, moment: int, run: str) -> fault_suite.Strike:
        return self.striking(self, cell, moment, run)

    def moment(self, cell: Cell, moments: list, seed: int) -> int:
        return fault_suite.moment_of(cell, moments, seed)


# ---------------------------------------------------------------- Windows


class PowerShellStrike(fault_suite.Strike):
    """Its moment is a call to the host, whenever that comes."""

    def come(self) -> bool:
        how = "down" if self.cell.how in ("outage", "lasting") else self.cell.how
        with self.lab.world.open() as world:
            world.data["hosts"][self.cell.where]["line"] = {"how": how, "after": self.moment}
        return self.until(self._met)

    def finish(self) -> None:
        super().finish()
        self.undo()

    def undo(self) -> None:
        with self.lab.world.open() as world:
            world.data["hosts"][self.cell.where].pop("line", None)

    def _met(self) -> bool:
        data = json.loads(self.lab.world.path.read_text(encoding="utf-8"))
        return bool(data["hosts"][self.cell.where]["line"].get("met"))


class Windows(StandIn):
    """A server that exports a disk, and a client with a datastore on it."""

    hosts = ("win01", "win02", "localhost")
    striking = PowerShellStrike

    def __init__(self, folder: Path):
        server, client = (f"iqn.1991-05.com.microsoft:{name}" for name in ("win01", "win02"))
        fio = "C:\\tools\\fio.exe"
        target = {
            "name": "iqn.2026-11.test.storlab.faults:data",
            "portals": [{"address": "192.0.2.11", "port": 3260}],
            "luns": [{"lun": 2, "name": "ds1", "layer": "backing-ds1", "purpose": "data"}],
            "initiators": [{"iqn": client, "chap_user": "user-data", "chap_password": "secret-data-1"}],
        }
        self.world = World(folder / "world.json")
        variables = {
            "ansible_connection": "fake_windows",
            "ansible_fake_windows_world": str(self.world.path),
            "testbed_windows": True,
            "testbed": {
                "disks": [{"name": "ds1", "size": "192MiB"}],
                "datastores": [{"disk": "ds1", "benchmark_file": "48MiB"}],
            },
            "iscsi_target_targets": [target],
            "iscsi_target_windows_networks": ["192.0.2.0/24"],
            "iscsi_initiator_windows_wait_s": 1,
            "benchmark_engine": "fio",
            "benchmark_windows": {"program": fio},
            "benchmark_prepare": {"fill": False},
        }
        groups = {"targets": {"hosts": {"win01": None}}, "hypervisors": {"hosts": {"win02": None}}}
        super().__init__(folder, variables, groups)
        with self.world.open() as world:
            programs = {fio: {"engine": "fio", "version": "fio-3.42"}}
            world.add("win01", programs=programs, initiator={"iqn": server, "portals": [], "sessions": {}})
            world.add(
                "win02",
                programs=programs,
                server=False,
                feature=None,
                addresses=["192.0.2.21"],
                initiator={"iqn": client, "portals": [], "sessions": {}},
            )

    def play(self, *books: str, **given: Any) -> lab_plays.Played:
        """Among the moments is each call to a host."""
        before = self._calls()
        played = super().play(*books, **given)
        calls = [f"call {host}" for host in self._calls()[len(before) :]]
        return dataclasses.replace(played, moments=calls + played.moments)

    def _calls(self) -> list:
        return [call["host"] for call in json.loads(self.world.path.read_text(encoding="utf-8"))["calls"]]

    def moment(self, cell: Cell, moments: list, seed: int) -> int:
        """After how many calls to the host, but for the last: how often it is asked while it measures is a matter of time."""
        calls = moments.count(f"call {cell.where}")
        return random.Random(f"{seed} {cell}").randrange(max(calls - 1, 1))  # noqa: S311 no secret


# ---------------------------------------------------------------- this machine


class HereStrike(fault_suite.Strike):
    def come(self) -> bool:
        if not self.at_task() or (self.cell.stage == "benchmark" and not self.until(self._measures)):
            return False
        if self.cell.fault == "results_full":
            fill(self.lab.results / "full")
            return True
        if self.cell.fault == "target":
            return self.until(self._delete_target)
        self.pids: list = []
        if not self.until(self._find):
            return False
        self._signal(signal.SIGKILL if self.cell.how == "kill" else signal.SIGSTOP)
        return True

    def _delete_target(self) -> bool:
        """As soon as there is one; whoever is logged in is sent away."""
        delete = ["--mode", "target", "--op", "delete", "--force", "--tid", "1"]
        done = subprocess.run(
            ["tgtadm", "-C", str(self.lab.control), "--lld", "iscsi", *delete], check=False, capture_output=True
        )
        return done.returncode == 0

    def undo(self) -> None:
        if self.cell.fault == "results_full":
            (self.lab.results / "full").unlink()
        else:
            self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        for pid, started in self.pids:
            # Another process may have its number by now.
            if began(pid) == started:
                os.kill(pid, number)

    def _find(self) -> bool:
        self.pids = [(pid, began(pid)) for pid in self.lab.processes(self.cell.fault, self.run_id)]
        return bool(self.pids)

    def _measures(self) -> bool:
        try:
            state = json.loads((self.lab.run_folder(self.run_id) / "state.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return False
        # fio begins a moment later; what is stopped before has only not begun.
        return state.get("phase") == "measure" and any(map(has_read, self.lab.processes("fio", self.run_id)))


def began(pid: int) -> str:
    """When a process began, in ticks; nothing of one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def has_read(pid: int) -> bool:
    """Whether a process has read from a device."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return any(line.startswith("read_bytes: ") and line != "read_bytes: 0" for line in lines)


class Here(StandIn):
    """This machine measures a RAM disk of its own."""

    hosts = ("here01", "localhost")
    machine = "here01"
    address = "198.51.100.1"
    striking: type[fault_suite.Strike] = HereStrike

    def __init__(self, folder: Path, disks: tuple = (), groups: dict | None = None):
        _port, self.control = tgt_process.free_numbers()
        here = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "testbed": {
                "disks": [{"name": "bench", "size": "8MiB", "to": []}, *disks],
                # An ESXi host is given only what carries a datastore.
                "datastores": [{"disk": disk["name"]} for disk in disks],
            },
            "ramdisk_provider": "tmpfs",
            "iscsi_target_provider": "tgt",
            "iscsi_target_tgt_control_port": self.control,
            "benchmark_beat": False,
            "benchmark_networks": [],
            "benchmark_workloads": [{**WORKLOAD, **HERE_RATE}],
        }
        targets = {"targets": {"hosts": {self.machine: {"testbed_address": self.address}}}}
        super().__init__(folder, here, {**targets, **(groups or {})})

    def __enter__(self) -> Any:
        # What has begun ends when the rest does not begin: nobody calls __exit__ then.
        with self.open:
            self.open.enter_context(small_results(self.results))
            self.network = subprocess.Popen(
                [
                    "unshare",
                    "--net",
                    "sh",
                    "-c",
                    f"{NETWORK.format(address=self.address)}; echo ready; exec sleep infinity",
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            self.open.callback(self.network.wait)
            self.open.callback(self.network.kill)
            assert self.network.stdout and self.network.stdout.readline() == "ready\n"
            self.prefix = ("nsenter", f"--net=/proc/{self.network.pid}/ns/net")
            self.open = self.open.pop_all()
        return self

    def __exit__(self, *exception: Any) -> None:
        """Where a cell failed, this machine keeps nothing of it."""
        with self.open:
            left = self.play("teardown") if (Path("/run/storlab") / self.name).exists() else None
            if left and left.returned:
                raise RuntimeError(f"The testbed {self.name} does not go from this machine: {left.failures}")

    def run_folder(self, run: str) -> Path:
        return Path("/run/storlab") / self.name / "bench" / run

    def processes(self, kind: str, run: str) -> list:
        """Pids of what the testbed itself started: tgtd, the supervisor of a run, or its fio."""
        if kind == "tgtd":
            path = Path("/run/storlab") / self.name / "tgtd.pid"
            text = path.read_text(encoding="utf-8").strip() if path.exists() else ""
            return [int(text)] if text else []
        folder = self.run_folder(run)
        if kind == "supervisor":
            path = folder / "supervisor.json"
            return [json.loads(path.read_text(encoding="utf-8"))["pid"]] if path.exists() else []
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{entry}/cwd").startswith(f"{folder}/") and began(int(entry)):
                    found.append(int(entry))
        return found


# ---------------------------------------------------------------- ESXi


class EsxiStrike(HereStrike):
    def come(self) -> bool:
        how = self.cell.how
        if self.cell.where == self.lab.machine:
            return super().come()
        if not self.at_task():
            return False
        if self.cell.fault == "vsphere_session":
            return self.lab.inside(self._end_sessions)
        if how == "kill":
            return self.until(lambda: self.lab.order("cut", seconds=0))
        if how == "pause":
            self.lab.order("hang", seconds=self.lab.outage_s)
        else:
            self.lab.order("cut", seconds=3600)
        return True

    def undo(self) -> None:
        if self.cell.where == self.lab.machine:
            super().undo()
        else:
            self.lab.order("clear")

    def _end_sessions(self) -> bool:
        """As an administrator does: every session but one's own, as soon as there is one."""
        from pyVim.connect import Disconnect, SmartConnect
        from pyVmomi import vim

        address, port = self.lab.ready["address"].split(":")
        trusted = ssl.create_default_context(cafile=self.lab.ready["certificate"])
        instance = SmartConnect(host=address, port=int(port), user="root", pwd=PASSWORD, sslContext=trusted)
        manager = instance.RetrieveContent().sessionManager

        def end() -> bool:
            own = manager.currentSession.key
            others = [session.key for session in manager.sessionList if session.key != own]
            # One that has just ended by itself is not there any more.
            with contextlib.suppress(vim.fault.NotFound):
                if others:
                    manager.TerminateSession(others)
                    return True
            return False

        try:
            return self.until(end)
        finally:
            Disconnect(instance)


PASSWORD = "sl-esxsim-pw-1616"


class Esxi(Here):
    """A RAM disk that this machine exports in a network of its own carries the datastore of a simulated ESXi host."""

    hosts = ("store01", "esxi01", "localhost")
    machine, address = "store01", "198.51.100.2"
    striking = EsxiStrike

    def __init__(self, folder: Path):
        # Its address is known when it has been started.
        login = "{{ lookup('ansible.builtin.file', '" + str(folder / "login.json") + "') | from_json }}"
        super().__init__(
            folder,
            ({"name": "ds1", "size": "96MiB"},),
            # None of its own I/O is measured, so it is only asked for all that it counted.
            {"hypervisors": {"hosts": {"esxi01": {"testbed_esxi": login, "testbed_counters": "recorded"}}}},
        )

    def __enter__(self) -> Any:
        # In the lab's network there is no way to the modules that it is built from.
        esxsim_process.build()
        super().__enter__()
        with self.open:
            self.open.callback(self._simulator, "stop")
            self.ready = json.loads(self._simulator("start"))
            address, port = self.ready["address"].split(":")
            login = {"hostname": address, "port": int(port), "username": "root", "password": PASSWORD, "timeout_s": 20}
            (self.folder / "login.json").write_text(
                json.dumps({**login, "thumbprint": self.ready["thumbprint"]}), encoding="utf-8"
            )
            self.open = self.open.pop_all()
        return self

    def _simulator(self, action: str) -> str:
        return subprocess.run(
            [
                *self.prefix,
                sys.executable,
                str(TESTS / "standins" / "esxsim_process.py"),
                action,
                "--small-luns",
                "--home",
                str(self.folder / "esxsim"),
            ],
            env={**os.environ, "ESXSIM_PASSWORD": PASSWORD},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    def moment(self, cell: Cell, moments: list, seed: int) -> int:
        """One of the tasks that speak with the host, which a benchmark asks for its counters only. What a teardown removes is hit before that."""
        names = [line.split(" ", 2)[2] for line in moments if line.startswith("before ")]
        if cell.where == self.machine:
            last = names.index("storlab.testbed.iscsi_target : Targets of a Linux host") + 1
            return min(last, super().moment(cell, moments, seed))
        said = "Counters of the host" if cell.stage == "benchmark" else "ESXi host"
        speaking = [number for number, name in enumerate(names, start=1) if said in name]
        return random.Random(f"{seed} {cell}").choice(speaking)  # noqa: S311 no secret

    def inside(self, work: Callable[[], Any]) -> Any:
        """What work() returns in the lab's network: a thread of its own enters it."""

        def enter() -> Any:
            with open(f"/proc/{self.network.pid}/ns/net", "rb") as space:
                if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), 0):
                    raise OSError(ctypes.get_errno(), "the network of the lab cannot be entered")
            return work()

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(enter).result()

    def order(self, what: str, **content: Any) -> Any:
        """What the simulator answers to an order of a test (tests/esxsim/control.go)."""
        request = urllib.request.Request(f"http://{self.ready['control']}/{what}", json.dumps(content).encode())

        def ask() -> Any:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 the simulator's own address
                return json.loads(answer.read())

        return self.inside(ask)
