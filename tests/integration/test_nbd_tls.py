# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk served by TLS with a secret: a real qemu-nbd, a real QEMU as its client, and clients of libnbd, which is other code, as strangers.

Between them stands a relay on the loopback interface that keeps what goes by, as somebody on the storage network could.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.lab import machine, nbd, qemu
from ansible_collections.storlab.testbed.plugins.module_utils.linux import daemon
from ansible_collections.storlab.testbed.plugins.modules import nbd_export
from unchanged import broken_off
from waiting import until

NAME = "storlab-tls-guest01"
SECRET = "of-both-sides-0123456789"
OTHER = "of-nobody-0123456789-0123"
MARK = b"what the disk of the guest holds"
HELLO = b"the boot sector was read"
# For the BIOS: writes the text behind it to the serial console and halts. 7c15 is where the text lies.
BOOT = bytes.fromhex("31c0 8ed8 be157c baf803 ac 84c0 7403 ee ebf8 f4 ebfd") + HELLO + b"\0"


def port_of_nobody() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Relay:
    """Hands each connection on to the export, and keeps all bytes of both directions."""

    def __init__(self, port: int) -> None:
        self.to, self.seen, self.lock = port, bytearray(), threading.Lock()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):  # closed by the test
            while True:
                client, _from = self.server.accept()
                server = socket.create_connection(("127.0.0.1", self.to))
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self.hand_on, args=(one, other), daemon=True).start()

    def hand_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):  # either side may end the connection
            while data := one.recv(65536):
                with self.lock:
                    self.seen += data
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)


class Export:
    def __init__(self, top: Path) -> None:
        self.top, self.port, self.path = top, port_of_nobody(), top / "disk.img"
        sector = BOOT.ljust(510, b"\0") + b"\x55\xaa"
        self.path.write_bytes(sector + MARK.ljust(512) * 2047)

    def ensure(self, secret: str | None = None, state: str = "present") -> dict:
        params = {
            "name": NAME,
            "state": state,
            "path": str(self.path),
            "layer": None,
            "layers": {},
            "testbed_id": "tls",
        }
        at = {"address": "127.0.0.1", "port": self.port, "aio": "threads", "stop_timeout_s": 60}
        return nbd_export.ensure({**params, **at, "secret": secret}, False)

    def uri(self, scheme: str, secret: str = SECRET, user: str = nbd.USER, port: int | None = None) -> str:
        """As libnbd takes it."""
        place = f"127.0.0.1:{port or self.port}/{NAME}"
        if scheme == "nbd":
            return f"nbd://{place}"
        keys = self.top / f"{secret}-{user}.psk"
        keys.write_text(f"{user}:{secret.encode().hex()}\n", encoding="ascii")
        return f"nbds://{user}@{place}?tls-psk-file={keys}"


@pytest.fixture
def export(tmp_path, monkeypatch) -> Iterator[Export]:
    monkeypatch.setattr(nbd, "RUN_DIR", str(tmp_path / "run" / "nbd"))
    # Where tests keep their files the disk beneath may be out of reach, as in a container.
    monkeypatch.setattr(nbd, "storage_problem", lambda _path: None)
    yield Export(tmp_path)
    daemon.end_process(lambda: nbd.running_pid(NAME), daemon.patience(60))


@pytest.fixture
def client(tmp_path) -> Iterator:
    """ensure(url, secret, state) of a machine whose one disk is the export."""
    folder = tmp_path / "vm"
    params = {name: option.get("default") for name, option in machine.SPEC.items()}
    params |= {"name": "guest01", "run_dir": str(folder), "accel": "tcg", "memory_mib": 32, "stop_timeout_s": 60}
    disk = {name: option.get("default") for name, option in machine.DISK.items()}

    def ensure(url: str, secret: str | None = None, state: str = "present") -> dict:
        disks = [{**disk, "url": url, "serial": "s1"}]
        return machine.ensure({**params, "disks": disks, "nbd_secret": secret, "state": state}, False)

    yield ensure
    daemon.end_process(lambda: qemu.running_pid(str(folder)), daemon.patience(60))


def run(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("secret", [SECRET, None], ids=["tls", "plain"])
def test_only_without_a_secret_somebody_on_the_way_reads_the_disk(export, secret):
    url = export.ensure(secret)["url"]
    assert url == f"{'nbds' if secret else 'nbd'}://127.0.0.1:{export.port}/{NAME}"
    relay, copy = Relay(export.port), export.top / "copy.img"
    done = run("nbdcopy", export.uri("nbds" if secret else "nbd", port=relay.port), str(copy))
    assert done.returncode == 0, done.stderr
    assert copy.read_bytes() == export.path.read_bytes()
    assert len(relay.seen) > export.path.stat().st_size
    # The same look finds it where it is to be found.
    assert (MARK in relay.seen) is (secret is None)
    assert SECRET.encode() not in relay.seen and SECRET.encode().hex().encode() not in relay.seen


@pytest.mark.parametrize(
    "stranger", [("nbd",), ("nbds", OTHER), ("nbds", SECRET, "somebody")], ids=["plain", "secret", "user"]
)
def test_strangers_are_refused_and_see_nothing(export, stranger):
    export.ensure(SECRET)
    relay = Relay(export.port)
    for words in (("nbdinfo", "--size"), ("nbdcopy",)):
        to = [str(export.top / "stolen.img")] if words == ("nbdcopy",) else []
        done = run(*words, export.uri(*stranger, port=relay.port), *to)
        assert done.returncode != 0 and str(export.path.stat().st_size) not in done.stdout
    assert relay.seen and MARK not in relay.seen
    # Whoever was refused took nobody's place.
    done = run("nbdinfo", "--size", export.uri("nbds"))
    assert (done.stdout.strip(), done.stderr) == (str(export.path.stat().st_size), "")


def test_another_secret_takes_the_place_of_the_first_and_nothing_is_left(export):
    first = export.ensure(SECRET)
    again = export.ensure(SECRET)
    assert (first["steps"], again["steps"]) == (["start"], []), again
    words = daemon.read_cmdline(nbd.running_pid(NAME))
    environment = Path(f"/proc/{nbd.running_pid(NAME)}/environ").read_text(encoding="utf-8")
    for secret in (SECRET, SECRET.encode().hex()):
        assert not any(secret in text for text in (*words, environment, str(first)))
    second = export.ensure(OTHER)
    assert second["steps"] == ["stop", "start"] and second["instance"] != first["instance"]
    assert run("nbdinfo", "--size", export.uri("nbds", SECRET)).returncode != 0
    assert run("nbdinfo", "--size", export.uri("nbds", OTHER)).returncode == 0
    # Without --size it guesses what the random bytes are, and shows some of them.
    assert export.ensure(None)["steps"] == ["stop", "start"]
    assert run("nbdinfo", "--size", export.uri("nbd")).returncode == 0
    assert export.ensure(OTHER)["steps"] == ["stop", "start"]
    os.kill(nbd.running_pid(NAME), 9)
    until(lambda: nbd.running_pid(NAME) is None)
    assert Path(nbd.secret_dir(NAME), "keys.psk").exists()
    assert export.ensure(state="absent")["steps"] == ["stop"]
    assert not Path(nbd.RUN_DIR).parent.exists() and export.ensure(state="absent")["steps"] == []


def test_a_guest_starts_from_a_disk_that_is_served_by_tls(export, client):
    export.ensure(SECRET)
    relay = Relay(export.port)
    console = export.top / "vm/console.log"
    client(f"nbds://127.0.0.1:{relay.port}/{NAME}", SECRET)
    until(lambda: HELLO in console.read_bytes())
    assert relay.seen and HELLO not in relay.seen
    client("nbds://127.0.0.1:1/x", SECRET, state="absent")
    assert not (export.top / "vm").exists()


@pytest.mark.parametrize(
    ("scheme", "of_export", "of_guest"),
    [("nbds", SECRET, OTHER), ("nbds", None, SECRET), ("nbd", SECRET, None)],
    ids=["secret", "no_tls_there", "no_tls_here"],
)
def test_a_guest_does_not_start_where_the_sides_differ(export, client, scheme, of_export, of_guest):
    """A guest that asks for TLS is never content with less."""
    export.ensure(of_export)
    with broken_off() as caught:
        client(f"{scheme}://127.0.0.1:{export.port}/{NAME}", of_guest)
    told = str(caught.value.as_result())
    assert caught.value.code == "vm_start" and not any(secret in told for secret in (SECRET, OTHER))
