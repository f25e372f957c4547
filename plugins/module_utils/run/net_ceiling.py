# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The capacity of the network between two hosts without any storage: TCP throughput each way, and the time there and back, over an address of the target.

The target listens on that one address, on a port that is free, for one measurement: a child process that ends on request, or after its time.
Who does not open with the random token is turned away. The other host measures: ``SECONDS`` each way with ``STREAMS`` connections, and single bytes
sent and sent back. Bytes are counted where they arrive, and the time runs from the first that is sent until the last has arrived.
"""

from __future__ import annotations

import hmac
import os
import re
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from ..core.failure import Failure
from ..core.times import utc

SECONDS = 3.0
STREAMS = 4
BUFFER = 1 << 20
ECHOES, ECHO_S = 500, 2.0
PATIENCE_S = 20.0
TOKEN_BYTES = 32  # as hexadecimal digits
# The purpose of a connection, sent after the token.
ECHO, TAKE, GIVE, END = b"e", b"t", b"g", b"x"
COUNT = struct.Struct("!Q")


def check_token(token: str) -> None:
    if not re.fullmatch(f"[0-9a-f]{{{TOKEN_BYTES}}}", token):
        raise Failure(
            "bad_value",
            f"The token has not {TOKEN_BYTES} hexadecimal digits.",
            "Give a random one, such as a new uuid without dashes.",
        )


# ---------------------------------------------------------------- the target


def listen(address: str) -> socket.socket:
    """A listening socket on this address alone; raises Failure address_missing."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.bind((address, 0))
    except OSError as error:
        listener.close()
        raise Failure(
            "address_missing",
            f"This host cannot listen on {address}: {error.strerror or error}.",
            "Correct testbed_address of the target.",
        ) from None
    listener.listen(64)
    return listener


def serve(listener: socket.socket, token: str, deadline_s: float) -> None:
    """Answer connections until one of them says END, or the time is over."""
    ended, deadline = threading.Event(), time.monotonic() + deadline_s
    listener.settimeout(0.2)
    while not ended.is_set() and time.monotonic() < deadline:
        try:
            line, _peer = listener.accept()
        except socket.timeout:
            continue
        threading.Thread(target=_answer, args=(line, token, ended, deadline), daemon=True).start()
    listener.close()


def _answer(line: socket.socket, token: str, ended: threading.Event, deadline: float) -> None:
    with line:
        try:
            line.settimeout(PATIENCE_S)
            opening = _exactly(line, TOKEN_BYTES + 1)
            if not hmac.compare_digest(opening[:-1], token.encode()):
                return
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            what = opening[-1:]
            if what == END:
                ended.set()
            elif what == ECHO:
                while time.monotonic() < deadline:
                    line.sendall(_exactly(line, 1))
            elif what == TAKE:
                line.sendall(COUNT.pack(_drain(line)))
            elif what == GIVE:
                _pour(line, min(deadline, time.monotonic() + SECONDS))
        except OSError:
            pass  # the other side has ended


def in_child(listener: socket.socket, token: str, deadline_s: float) -> int:
    """Serve in a process of its own, which outlives this one and ends by itself. Returns its process id."""
    read, write = os.pipe()
    middle = os.fork()
    if middle:
        os.close(write)
        os.waitpid(middle, 0)
        with os.fdopen(read, "rb") as stream:
            return int(stream.read() or b"0")
    try:
        os.setsid()
        child = os.fork()
        if child:
            os.write(write, str(child).encode())
            os._exit(0)
        os.close(write)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.chdir("/")
        serve(listener, token, deadline_s)
    finally:
        os._exit(0)


# ---------------------------------------------------------------- who measures


def measure(address: str, port: int, token: str) -> dict[str, Any]:
    """{started_utc, seconds, streams, to_target_bits_s, from_target_bits_s, round_trip_ns, round_trip_least_ns} or {started_utc, note}. Never fails."""
    begun = utc()
    figures: dict[str, Any]
    try:
        figures = {
            **_echoes(address, port, token),
            "to_target_bits_s": _both_ends(lambda: _give(address, port, token)),
            "from_target_bits_s": _both_ends(lambda: _take(address, port, token)),
        }
    except (OSError, struct.error) as error:
        figures = {"note": f"{address} port {port} was not reached: {error}"}
    try:
        _connect(address, port, token, END).close()
    except OSError:
        pass  # it ends by itself
    if "note" in figures:
        return {"started_utc": begun, **figures}
    return {"started_utc": begun, "seconds": SECONDS, "streams": STREAMS, **figures}


def _connect(address: str, port: int, token: str, what: bytes) -> socket.socket:
    line = socket.create_connection((address, port), timeout=PATIENCE_S)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.sendall(token.encode() + what)
    return line


def _echoes(address: str, port: int, token: str) -> dict[str, int]:
    taken: list[int] = []
    deadline = time.monotonic() + ECHO_S
    with _connect(address, port, token, ECHO) as line:
        while len(taken) < ECHOES and (not taken or time.monotonic() < deadline):
            begun = time.perf_counter_ns()
            line.sendall(b".")
            _exactly(line, 1)
            taken.append(time.perf_counter_ns() - begun)
    # The first found the way.
    counted = taken[1:] or taken
    return {"round_trip_ns": round(statistics.median(counted)), "round_trip_least_ns": min(counted)}


def _both_ends(stream: Callable[[], int]) -> int:
    """Bits a second that arrive, over all streams at once."""
    counts: list[int] = []
    errors: list[OSError] = []

    def take_part() -> None:
        try:
            counts.append(stream())
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=take_part, daemon=True) for _ in range(STREAMS)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begun
    if errors:
        raise errors[0]
    return round(8 * sum(counts) / took)


def _give(address: str, port: int, token: str) -> int:
    """Bytes that arrived at the target, as it counted them."""
    with _connect(address, port, token, TAKE) as line:
        _pour(line, time.monotonic() + SECONDS)
        line.shutdown(socket.SHUT_WR)
        (count,) = COUNT.unpack(_exactly(line, COUNT.size))
        return int(count)


def _take(address: str, port: int, token: str) -> int:
    with _connect(address, port, token, GIVE) as line:
        return _drain(line)


def _pour(line: socket.socket, until: float) -> None:
    content = memoryview(bytes(BUFFER))
    while time.monotonic() < until:
        line.sendall(content)


def _drain(line: socket.socket) -> int:
    """How many bytes came until the other side had no more."""
    space, count = bytearray(BUFFER), 0
    while True:
        got = line.recv_into(space)
        if not got:
            return count
        count += got


def _exactly(line: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        got = line.recv(size - len(content))
        if not got:
            raise ConnectionResetError("the other side has ended the connection")
        content += got
    return content
