# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio's server on a host: where it may listen, which one is joined or refused, and what is ended. Processes that wait stand in for it and its supervisor."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux import daemon
from ansible_collections.storlab.testbed.plugins.module_utils.run import fio_server
from unchanged import refused, unchanged
from waiting import until

LAYER = {"name": "initiator-bench", "host": "hypervisor01", "path": None}
WAITS = [sys.executable, "-c", "import time; time.sleep(600)"]
ROW = "  sl  local_address rem_address   st\n"


class Host:
    def __init__(self, base: Path) -> None:
        self.base, self.processes = base, []

    def start(self) -> subprocess.Popen:
        self.processes.append(subprocess.Popen(WAITS, stdin=subprocess.DEVNULL, start_new_session=True))
        # Until then it has the command line of the one that starts it.
        until(lambda: daemon.read_cmdline(self.processes[-1].pid) == WAITS)
        return self.processes[-1]

    def server(self, port: int, supervised: bool = True) -> tuple:
        """(supervisor, fio's server) of a testbed "t"."""
        folder = self.base / f"t/server/{port}"
        folder.mkdir(parents=True)
        supervisor, server = self.start(), self.start()
        record = {"pid": supervisor.pid, "start_ticks": daemon.start_ticks(supervisor.pid)}
        (folder / "supervisor.json").write_text(json.dumps(record))
        known = {"host": "hypervisor01", "address": "127.0.0.1", "port": port, "version": "fio-3.33"}
        known.update(layer="initiator-bench", pid=server.pid, argv=WAITS)
        (folder / "server.json").write_text(json.dumps(known))
        if not supervised:
            supervisor.kill()
            supervisor.wait()
        return supervisor, server

    def wanted(self, port: int = 8765, dry_run: bool = False, **more) -> dict:
        options = {
            "testbed_id": "t",
            "layer": LAYER,
            "layers": {},
            "allow_device": [],
            "address": "127.0.0.1",
            "port": port,
            "allow_any_address": False,
            "deadline_s": 600,
            **more,
        }
        return fio_server.start(options, "/usr/bin/fio", str(self.base), dry_run)


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(fio_server.fio_distributed, "version", lambda engine: "fio-3.33")
    made = Host(tmp_path / "base")
    yield made
    for process in made.processes:
        process.kill()
        process.wait()


# ---------------------------------------------------------------- where it listens


@pytest.mark.parametrize("address", ["localhost", "", "10.0.0.256", "10.0.0.1/24"])
def test_an_address_is_given_as_numbers(address):
    with pytest.raises(Failure) as caught:
        fio_server.check_address(address, True)
    assert caught.value.details == {"variable": "address", "value": address}


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])  # noqa: S104 - what is refused
def test_every_address_only_when_that_is_wanted(address):
    with pytest.raises(Failure, match="allow_any_address"):
        fio_server.check_address(address, False)
    fio_server.check_address(address, True)


def test_an_address_that_the_host_has_not_is_refused():
    fio_server.check_address("127.0.0.1", False)
    with pytest.raises(Failure) as caught:
        fio_server.check_address("203.0.113.7", False)
    assert (caught.value.code, caught.value.details["address"]) == ("address_missing", "203.0.113.7")


def test_a_port_that_somebody_listens_on_is_refused():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(Failure) as caught:
            fio_server.check_free("127.0.0.1", port)
        assert (caught.value.code, caught.value.details) == ("port_in_use", {"address": "127.0.0.1", "port": port})
    fio_server.check_free("127.0.0.1", port)


@pytest.mark.parametrize(
    ("address", "port", "file", "row", "listens"),
    [
        ("10.213.0.2", 8765, "tcp", "0200D50A:223D 00000000:0000 0A", True),
        ("10.213.0.2", 8766, "tcp", "0200D50A:223D 00000000:0000 0A", False),
        ("10.213.0.3", 8765, "tcp", "0200D50A:223D 00000000:0000 0A", False),
        # A connection of the port is nobody who listens, nor is one to it.
        ("10.213.0.2", 8765, "tcp", "0200D50A:223D 0300D50A:A001 01", False),
        ("10.213.0.2", 8765, "tcp", "0300D50A:A001 0200D50A:223D 0A", False),
        ("fd00::2", 8765, "tcp6", "000000FD000000000000000002000000:223D 00000000:0000 0A", True),
        ("fd00::2", 8765, "tcp", "0200D50A:223D 00000000:0000 0A", False),
    ],
)
def test_who_listens_is_read_from_the_kernel(tmp_path, address, port, file, row, listens):
    folder = tmp_path / "proc/net"
    folder.mkdir(parents=True)
    for name in ("tcp", "tcp6"):
        (folder / name).write_text(ROW + (f"   0: {row}\n" if name == file else ""))
    assert fio_server.is_listening(address, port, str(tmp_path)) is listens


# ---------------------------------------------------------------- start


def test_the_same_server_gets_the_new_deadline_only(host):
    supervisor, server = host.server(8765)
    with unchanged(host.base):
        assert host.wanted(dry_run=True)["changed"] is False
    answer = host.wanted(deadline_s=5000)
    assert (answer["changed"], answer["server"]["pid"]) == (False, server.pid)
    shorter = json.loads((host.base / "t/server/8765/deadline.json").read_text())
    host.wanted(deadline_s=9000)
    assert json.loads((host.base / "t/server/8765/deadline.json").read_text()) > shorter + 3000
    assert (supervisor.poll(), server.poll()) == (None, None)


@pytest.mark.parametrize(
    "other", [{"layer": {**LAYER, "name": "backing-bench"}}, {"layer": {**LAYER, "host": "other"}}]
)
def test_another_server_on_the_port_stays(host, other):
    _supervisor, server = host.server(8765)
    with refused(host.base) as caught:
        host.wanted(**other)
    assert (caught.value.code, caught.value.details["server"]["layer"]) == ("server_exists", "initiator-bench")
    assert server.poll() is None


def test_a_layer_without_a_path_is_refused(host):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with refused(host.base) as caught:
        host.wanted(port=port)
    assert caught.value.details == {"variable": "layer", "value": "initiator-bench"}


def test_in_check_mode_a_new_server_is_only_said(host, monkeypatch):
    monkeypatch.setattr(fio_server, "guarded", lambda options: {})
    monkeypatch.setattr(fio_server, "check_free", lambda address, port: None)
    with unchanged(host.base):
        answer = host.wanted(port=8767, dry_run=True)
    assert answer["changed"] is True
    assert answer["server"]["port"] == 8767
    assert "pid" not in answer["server"]


# ---------------------------------------------------------------- stop


def test_servers_are_listed_by_port_while_their_supervisors_live(host):
    for port, supervised in ((10001, True), (9001, True), (9002, False)):
        host.server(port, supervised)
    (host.base / "t/server/9001/server.json").rename(host.base / "t/server/9001/server.json.later")
    assert [server["port"] for server in fio_server.running("t", str(host.base))] == [10001]
    (host.base / "t/server/9001/server.json.later").rename(host.base / "t/server/9001/server.json")
    assert [server["port"] for server in fio_server.running("t", str(host.base))] == [9001, 10001]
    assert fio_server.running("other", str(host.base)) == []


def test_one_server_is_ended_with_its_folder_and_others_stay(host):
    first, second = host.server(9001), host.server(9002)
    with unchanged(host.base):
        assert fio_server.stop("t", 9001, str(host.base), dry_run=True) == {"changed": True, "stopped": [9001]}
        assert fio_server.stop("t", 900, str(host.base)) == {"changed": False, "stopped": []}
    assert [process.poll() for process in (*first, *second)] == [None] * 4
    assert fio_server.stop("t", 9001, str(host.base)) == {"changed": True, "stopped": [9001]}
    assert [process.wait() for process in first] == [-15, -15]
    assert [process.poll() for process in second] == [None, None]
    assert [path.name for path in (host.base / "t/server").iterdir()] == ["9002"]


def test_a_server_whose_supervisor_was_killed_is_ended_too(host):
    _supervisor, server = host.server(9001, supervised=False)
    other = host.start()
    assert fio_server.stop("t", base=str(host.base)) == {"changed": True, "stopped": [9001]}
    assert server.wait() == -15
    # Of the same command line, in a session of its own.
    assert other.poll() is None
    assert not host.base.exists()
    assert fio_server.stop("t", base=str(host.base))["changed"] is False


def test_a_process_that_does_not_end_is_named(host, monkeypatch):
    server = host.start()
    now = iter(range(0, 1000, 20))
    with monkeypatch.context() as patch, refused(server.poll) as caught:
        patch.setattr(fio_server.os, "kill", lambda pid, number: None)
        patch.setattr(fio_server.time, "monotonic", lambda: next(now))
        fio_server._end_session(server.pid, WAITS)
    assert caught.value.code == "daemon_hung"
    assert str(server.pid) in str(caught.value)
