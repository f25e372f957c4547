# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A device whose truth is known: an NBD server on a Unix socket that takes for each request as long as a law says, and records what it saw.

Whoever measures it sees more than the server gave, because a busy machine adds to both ends. So the truth is a pair of bounds that hold under any load,
from the server's own clock: an I/O lasted at least as long as the server kept it, and no longer than from the moment at which its predecessor in the
queue was answered to the moment at which its successor arrived (``Run.least_ns``, ``Run.most_ns``).

The protocol: github.com/NetworkBlockDevice/nbd, doc/proto.md; fixed newstyle negotiation, simple replies.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import multiprocessing
import os
import select
import signal
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

GREETING, OPTION, REPLY, REQUEST, ANSWER = (
    0x4E42444D41474943,
    0x49484156454F5054,
    0x3E889045565A9,
    0x25609513,
    0x67446698,
)
EXPORT_NAME, ABORT, INFO, GO = 1, 2, 6, 7
ACK, TOLD, UNKNOWN = 1, 3, (1 << 31) + 1
READ, WRITE, DISCONNECT, FLUSH, TRIM = range(5)
HAS_FLAGS, SENDS_FLUSH, SENDS_TRIM, MANY_CONNECTIONS = 1, 4, 32, 256

# How long (s) the device takes for a request: of what export, the how-many-th of this export (from 0), seconds since the first one of it.
Law = Callable[[str, int, float], float]


class Run:
    """What came in under one export name: one run of the engine, where each has a name of its own.

    connections: [{opened_ns, closed_ns, requests: [{arrived_ns, answered_ns, kind, offset, length, in_flight, content}]}] of all that sent requests, in
    their order; in_flight counts those of the connection with itself.
    """

    def __init__(self, connections: list[dict[str, Any]]) -> None:
        self.connections = [one for one in connections if one["requests"]]

    def requests(self, *kinds: int) -> list[dict[str, Any]]:
        """All I/Os (or those of the kinds), connection by connection in the order of arrival."""
        return [one for each in self.connections for one in each["requests"] if one["kind"] in (kinds or (READ, WRITE))]

    def least_ns(self) -> list[int]:
        """How long each I/O lasted at least, in order of size."""
        return sorted(one["answered_ns"] - one["arrived_ns"] for one in self.requests())

    def most_ns(self, depth: int) -> list[int]:
        """How long each lasted at most, in order of size, for a client that keeps ``depth`` of them under way on each connection and never more.

        Its k-th request was made when k - depth + 1 had been answered, and the answer of rank r had been taken when the (r + depth)-th arrived.
        """
        found = []
        for each in self.connections:
            requests = [one for one in each["requests"] if one["kind"] in (READ, WRITE)]
            answers = sorted(one["answered_ns"] for one in requests)
            ranks = {moment: rank for rank, moment in enumerate(answers)}
            for number, one in enumerate(requests):
                begun = answers[number - depth] if number >= depth else each["opened_ns"]
                later = ranks[one["answered_ns"]] + depth
                ended = requests[later]["arrived_ns"] if later < len(requests) else each["closed_ns"]
                found.append(ended - begun)
        return sorted(found)

    def lasted_s(self) -> tuple[float, float]:
        """(at least, at most): how long the engine issued I/O, of its workers the one that took longest. They need not begin together."""
        least = most = 0
        for each in self.connections:
            requests = each["requests"]
            least = max(least, max(one["answered_ns"] for one in requests) - requests[0]["arrived_ns"])
            most = max(most, each["closed_ns"] - each["opened_ns"])
        return least / 1e9, most / 1e9


class Device:
    def __init__(self, socket_path: str, record: Path) -> None:
        self.socket_path, self._record = socket_path, record
        self._process: Any = None

    def uri(self, export: str) -> str:
        return f"nbd+unix:///{export}?socket={self.socket_path}"

    def runs(self) -> dict[str, Run]:
        """{export: Run}; ends the server, which writes its record then."""
        if self._process.is_alive():
            os.kill(self._process.pid, signal.SIGTERM)
        self._process.join(60)
        assert self._process.exitcode == 0
        found: dict[str, list[Any]] = {}
        for connection in json.loads(self._record.read_text()):
            found.setdefault(connection.pop("export"), []).append(connection)
        return {export: Run(connections) for export, connections in found.items()}


@contextlib.contextmanager
def scripted(folder: Path, size_bytes: int, law: Law, name: str = "device") -> Iterator[Device]:
    """A device of zeros, served by a process of its own until the end."""
    device = Device(str(folder / f"{name}.sock"), folder / f"{name}.json")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(device.socket_path)
    listener.listen(64)
    device._process = multiprocessing.get_context("fork").Process(
        target=_Server(listener, size_bytes, law, folder / f"{name}.json").serve, daemon=True
    )
    device._process.start()
    listener.close()
    try:
        yield device
    finally:
        device._process.terminate()
        device._process.join(60)


def content(data: bytes) -> str:
    """zero, compressible or random"""
    if not any(data):
        return "zero"
    return "random" if len(zlib.compress(data, 1)) > 0.75 * len(data) else "compressible"


class _Server:
    def __init__(self, listener: socket.socket, size_bytes: int, law: Law, record: Path) -> None:
        self.listener, self.law, self.record = listener, law, record
        self.data = bytearray(size_bytes)
        self.connections: list[_Connection] = []
        self.due: list[Any] = []
        self.counts: dict[str, int] = {}
        self.first_ns: dict[str, int] = {}
        self.ending = False

    def serve(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_given: setattr(self, "ending", True))
        while not self.ending:
            wait_s = max(0.0, (self.due[0][0] - time.monotonic_ns()) / 1e9) if self.due else 0.2
            # select, because epoll of Python counts in whole milliseconds.
            ready, _writable, _odd = select.select([self.listener, *self._open()], [], [], min(wait_s, 0.2))
            for one in ready:
                if one is self.listener:
                    self.connections.append(_Connection(self.listener.accept()[0], self))
                else:
                    one.receive()
            while self.due and self.due[0][0] <= time.monotonic_ns():
                _moment, _number, connection, request, handle, answer = heapq.heappop(self.due)
                connection.answer(request, handle, answer)
        told = [one.told() for one in self.connections if one.export is not None]
        self.record.write_text(json.dumps(told))

    def _open(self) -> list[Any]:
        return [one for one in self.connections if one.closed_ns is None]

    def delay_ns(self, export: str, arrived_ns: int) -> int:
        number = self.counts.get(export, 0)
        self.counts[export] = number + 1
        begun = self.first_ns.setdefault(export, arrived_ns)
        return round(1e9 * self.law(export, number, (arrived_ns - begun) / 1e9))


class _Connection:
    def __init__(self, stream: socket.socket, server: _Server) -> None:
        self.stream, self.server = stream, server
        self.opened_ns, self.closed_ns = time.monotonic_ns(), None
        self.export: str | None = None
        self.requests: list[dict[str, Any]] = []
        self.in_flight = 0
        self.received = bytearray()
        self.negotiation = self._negotiated()
        self.wanted = next(self.negotiation)

    def fileno(self) -> int:
        return self.stream.fileno()

    def told(self) -> dict[str, Any]:
        return {
            "export": self.export,
            "opened_ns": self.opened_ns,
            "closed_ns": self.closed_ns or time.monotonic_ns(),
            "requests": [one for one in self.requests if one["answered_ns"] is not None],
        }

    def receive(self) -> None:
        try:
            piece = self.stream.recv(1 << 20)
        except OSError:
            piece = b""
        if not piece:
            self._close()
            return
        self.received += piece
        while self.closed_ns is None and len(self.received) >= self.wanted:
            whole = bytes(self.received[: self.wanted])
            del self.received[: self.wanted]
            self.wanted = self.negotiation.send(whole)

    def _close(self) -> None:
        if self.closed_ns is None:
            self.closed_ns = time.monotonic_ns()
            self.stream.close()

    def _send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # whoever asked has gone
            self.stream.sendall(data)

    def _negotiated(self) -> Any:
        """Takes what is received in pieces of the sizes that it yields: the negotiation, then requests without end."""
        self._send(struct.pack(">QQH", GREETING, OPTION, 3))
        yield 4
        while self.export is None:
            _magic, option, length = struct.unpack(">QII", (yield 16))
            data = (yield length) if length else b""
            flags = HAS_FLAGS | SENDS_FLUSH | SENDS_TRIM | MANY_CONNECTIONS
            size = len(self.server.data)
            if option == EXPORT_NAME:
                self._send(struct.pack(">QH", size, flags) + bytes(124))
                self.export = data.decode()
            elif option in (INFO, GO):
                told = struct.pack(">HQH", 0, size, flags)
                self._reply(option, TOLD, told)
                self._reply(option, ACK)
                if option == GO:
                    self.export = data[4 : 4 + struct.unpack(">I", data[:4])[0]].decode()
            elif option == ABORT:
                self._reply(option, ACK)
                self._close()
                yield 1 << 62
            else:
                self._reply(option, UNKNOWN)
        while True:
            _magic, _flags, kind, handle, offset, length = struct.unpack(">IHHQQI", (yield 28))
            data = (yield length) if kind == WRITE and length else b""
            if kind == DISCONNECT:
                self._close()
                yield 1 << 62
            self._request(kind, handle, offset, length, data)

    def _reply(self, option: int, kind: int, data: bytes = b"") -> None:
        self._send(struct.pack(">QIII", REPLY, option, kind, len(data)) + data)

    def _request(self, kind: int, handle: int, offset: int, length: int, data: bytes) -> None:
        arrived_ns = time.monotonic_ns()
        self.in_flight += 1
        request = {
            "arrived_ns": arrived_ns,
            "answered_ns": None,
            "kind": kind,
            "offset": offset,
            "length": length,
            "in_flight": self.in_flight,
        }
        if kind == WRITE:
            self.server.data[offset : offset + length] = data
            request["content"] = content(data)
        answer = bytes(self.server.data[offset : offset + length]) if kind == READ else b""
        self.requests.append(request)
        delay = self.server.delay_ns(self.export or "", arrived_ns) if kind in (READ, WRITE) else 0
        heapq.heappush(
            self.server.due, (arrived_ns + delay, len(self.requests) + (id(self) << 40), self, request, handle, answer)
        )

    def answer(self, request: dict[str, Any], handle: int, data: bytes) -> None:
        # Before it is sent: whoever is answered may have the answer before the clock is read again.
        request["answered_ns"] = time.monotonic_ns()
        self.in_flight -= 1
        self._send(struct.pack(">IIQ", ANSWER, 0, handle) + data)


def reached(job: str, uri: str) -> str:
    """A job file of the collection for this device: fio reaches it by another engine than a disk, and nothing else of the job is changed."""
    swaps = {"ioengine": "ioengine=nbd", "filename": f"uri={uri}"}
    lines = job.splitlines()
    for name, swap in swaps.items():
        (place,) = [number for number, line in enumerate(lines) if line.startswith(f"{name}=")]
        lines[place] = swap
    return "\n".join([*lines, ""])
