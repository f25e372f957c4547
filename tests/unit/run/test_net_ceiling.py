# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both ends of the measurement of a network, over loopback. What they find there is not looked at, but that they find it and end."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.run import net_ceiling

TOKEN, OTHER = "ab" * 16, "cd" * 16


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(net_ceiling, "SECONDS", 0.2)


@pytest.fixture
def target():
    """(port, thread) of a target that serves in this process."""
    listener = net_ceiling.listen("127.0.0.1")
    port = listener.getsockname()[1]
    thread = threading.Thread(target=net_ceiling.serve, args=(listener, TOKEN, 60), daemon=True)
    thread.start()
    return port, thread


def test_both_ways_and_the_time_there_and_back_are_measured_once(target):
    port, thread = target
    found = net_ceiling.measure("127.0.0.1", port, TOKEN)
    assert "note" not in found
    assert found["streams"] == 4 and found["seconds"] == 0.2
    assert 0 < found["round_trip_least_ns"] <= found["round_trip_ns"]
    assert min(found["to_target_bits_s"], found["from_target_bits_s"]) > 0
    thread.join(30)
    assert not thread.is_alive()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_who_does_not_know_the_token_measures_nothing_and_ends_nothing(target):
    port, thread = target
    found = net_ceiling.measure("127.0.0.1", port, OTHER)
    assert "was not reached" in found["note"]
    assert not {"to_target_bits_s", "round_trip_ns"} & set(found)
    assert thread.is_alive()
    assert "note" not in net_ceiling.measure("127.0.0.1", port, TOKEN)


def test_bytes_are_counted_where_they_arrive(monkeypatch):
    here, there = socket.socketpair()
    with here, there:
        sender = threading.Thread(target=lambda: (here.sendall(b"x" * 70001), here.close()))
        sender.start()
        assert net_ceiling._drain(there) == 70001
        sender.join()


def test_a_target_ends_when_its_time_is_over():
    listener = net_ceiling.listen("127.0.0.1")
    port = listener.getsockname()[1]
    net_ceiling.serve(listener, TOKEN, 0)
    assert "was not reached" in net_ceiling.measure("127.0.0.1", port, TOKEN)["note"]


def test_it_listens_on_one_address_alone():
    with net_ceiling.listen("127.0.0.2") as listener:
        port = listener.getsockname()[1]
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
    with pytest.raises(Failure) as raised:
        net_ceiling.listen("192.0.2.77")
    assert raised.value.code == "address_missing" and "192.0.2.77" in raised.value.what


def test_a_target_in_a_process_of_its_own_is_no_child_and_ends_with_the_measurement():
    listener = net_ceiling.listen("127.0.0.1")
    port = listener.getsockname()[1]
    pid = net_ceiling.in_child(listener, TOKEN, 60)
    listener.close()
    assert pid != os.getpid()
    assert Path(f"/proc/{pid}").exists()
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    assert "note" not in net_ceiling.measure("127.0.0.1", port, TOKEN)
    process = Path(f"/proc/{pid}/stat")
    for _ in range(600):
        if not process.exists() or process.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        threading.Event().wait(0.05)
    raise AssertionError("it still runs")
