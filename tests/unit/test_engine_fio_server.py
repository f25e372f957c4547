# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio's server with real processes, sockets and loop devices: who can reach it, and what is left when it ends or is disturbed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils import fio_server
from ansible_collections.storlab.testbed.plugins.module_utils.failure import Failure

FIO = shutil.which("fio")
SIZE = 3 << 20
EVERYWHERE = "0.0.0.0"  # noqa: S104, to see it refused


def until(condition, seconds=20.0):
    """Wait for a condition; the processes under test report to nobody."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def loop(tmp_path):
    image = tmp_path / "image"
    image.write_bytes(bytes(SIZE))
    name = subprocess.run(["losetup", "--find", "--show", str(image)], check=True, capture_output=True, text=True).stdout.strip()
    number = os.stat(name).st_rdev
    yield {"name": "backing-x", "kind": "backing", "host": "here", "path": name, "parent": None, "purpose": "scratch", "size_bytes": SIZE,
           "identity": {"major_minor": f"{os.major(number)}:{os.minor(number)}"}, "detail": {}}
    subprocess.run(["losetup", "--detach", name], check=True)


@pytest.fixture
def base(tmp_path):
    folder = tmp_path / "state"
    yield str(folder)
    fio_server.stop("t", base=str(folder))


def free_port(address="127.0.0.1"):
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def asked(layer, **other):
    return {"testbed_id": "t", "layer": layer, "layers": [layer], "allow_device": [], "address": "127.0.0.1", "port": free_port(), "allow_any_address": False,
            "deadline_s": 60, **other}


def reachable(address, port):
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


def processes(word):
    """Command lines of the processes that have the word among their arguments."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path("/proc", pid, "cmdline").read_bytes().decode().split("\0")
            state = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if any(word in argument for argument in line) and state not in "ZX":
            found[int(pid)] = line
    return found


def long_job(folder, server, layer, runtime_s=60):
    """A client whose job goes on for a minute; returns once the server has started the job."""
    job = Path(folder, "long.fio")
    job.write_text(f"[long]\nioengine=psync\nthread=1\nfilename={layer['path']}\nallow_file_create=0\nrw=read\nrate_iops=50\nbs=4k\nsize={SIZE}\n"
                   f"time_based=1\nruntime={runtime_s}\n", encoding="utf-8")
    client = subprocess.Popen([FIO, f"--client=ip:{server['address']},{server['port']}", str(job)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # The server, the process of the connection, and the job's own.
    until(lambda: len(processes(f"--server=ip:127.0.0.1,{server['port']}")) == 3)
    return client


def test_it_listens_on_the_given_address_only_until_it_is_stopped(base, loop):
    wanted = asked(loop)
    done = fio_server.start(wanted, FIO, base)
    server = done["server"]
    assert done["changed"] and server["layer"] == "backing-x"
    assert server["version"] == subprocess.run([FIO, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    assert reachable("127.0.0.1", wanted["port"]) and not reachable("127.0.0.2", wanted["port"])
    assert fio_server.running("t", base) == [server]
    again = fio_server.start(wanted, FIO, base)
    assert (again["changed"], again["server"]["pid"]) == (False, server["pid"])
    assert fio_server.stop("t", base=base, dry_run=True) == {"changed": True, "stopped": [wanted["port"]]}
    assert reachable("127.0.0.1", wanted["port"])
    assert fio_server.stop("t", base=base) == {"changed": True, "stopped": [wanted["port"]]}
    assert not reachable("127.0.0.1", wanted["port"])
    assert not processes(f",{wanted['port']}") and not os.path.exists(base)
    assert fio_server.stop("t", base=base) == {"changed": False, "stopped": []}


def test_dry_run_starts_nothing(base, loop):
    done = fio_server.start(asked(loop), FIO, base, dry_run=True)
    assert done["changed"] and "pid" not in done["server"]
    assert not os.path.exists(base)


def test_nobody_can_claim_the_layer_while_it_is_served(base, loop):
    fio_server.start(asked(loop), FIO, base)
    with pytest.raises(OSError, match="busy"):
        os.open(loop["path"], os.O_RDONLY | os.O_EXCL)
    fio_server.stop("t", base=base)
    os.close(os.open(loop["path"], os.O_RDONLY | os.O_EXCL))


@pytest.mark.parametrize(("address", "code"), [(EVERYWHERE, "bad_value"), ("::", "bad_value"), ("", "bad_value"), ("target01", "bad_value"),
                                               ("192.0.2.77", "address_missing")])
def test_addresses_that_are_not_one_of_this_host_are_refused(base, loop, address, code):
    with pytest.raises(Failure) as failure:
        fio_server.start(asked(loop, address=address), FIO, base)
    assert failure.value.code == code
    assert repr(address) in str(failure.value) or address in str(failure.value)
    assert not os.path.exists(base)


def test_every_address_can_be_allowed(base, loop):
    wanted = asked(loop, address=EVERYWHERE, allow_any_address=True)
    fio_server.start(wanted, FIO, base)
    assert reachable("127.0.0.2", wanted["port"])


def test_a_port_that_others_use_is_refused(base, loop):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(Failure) as failure:
            fio_server.start(asked(loop, port=other.getsockname()[1]), FIO, base)
    assert failure.value.code == "port_in_use"


def test_a_device_that_is_not_the_layers_is_refused_and_nothing_listens(base, loop):
    wanted = asked({**loop, "size_bytes": SIZE + 512})
    with pytest.raises(Failure) as failure:
        fio_server.start(wanted, FIO, base)
    assert failure.value.code == "wrong_size"
    assert not reachable("127.0.0.1", wanted["port"])


def test_another_layer_on_the_same_port_is_refused(base, loop):
    wanted = asked(loop)
    fio_server.start(wanted, FIO, base)
    with pytest.raises(Failure) as failure:
        fio_server.start({**wanted, "layer": {**loop, "name": "backing-y"}}, FIO, base)
    assert failure.value.code == "server_exists"
    assert "backing-x" in str(failure.value)


def test_it_ends_at_its_deadline(base, loop):
    wanted = asked(loop, deadline_s=1)
    fio_server.start(wanted, FIO, base)
    until(lambda: not reachable("127.0.0.1", wanted["port"]))
    until(lambda: not processes(f",{wanted['port']}"))
    until(lambda: fio_server.running("t", base) == [])


def test_starting_again_gives_the_time_anew(base, loop):
    wanted = asked(loop, deadline_s=5)
    fio_server.start(wanted, FIO, base)
    fio_server.start({**wanted, "deadline_s": 500}, FIO, base)
    left = json.loads(Path(base, "t", "server", str(wanted["port"]), "deadline.json").read_text()) - time.monotonic()
    assert 400 < left <= 500


def test_a_job_whose_client_is_gone_is_ended_and_the_server_stays(base, loop, tmp_path):
    server = fio_server.start(asked(loop), FIO, base)["server"]
    client = long_job(tmp_path, server, loop)
    client.kill()
    client.wait()
    until(lambda: set(processes(f",{server['port']}")) == {server["pid"]})
    assert reachable("127.0.0.1", server["port"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_stopping_ends_a_job_in_the_middle_even_when_the_supervisor_was_killed(base, loop, tmp_path, number):
    server = fio_server.start(asked(loop), FIO, base)["server"]
    client = long_job(tmp_path, server, loop)
    supervisor = json.loads(Path(base, "t", "server", str(server["port"]), "supervisor.json").read_text())["pid"]
    os.kill(supervisor, number)
    fio_server.stop("t", base=base)
    assert not [line for line in processes(f",{server['port']}").values() if any(word.startswith("--server") for word in line)]
    client.wait(20)


def test_listening_sockets_are_found_by_their_address(tmp_path):
    """10.213.0.12:8765 is 0C00D50A:223D on a little-endian machine, as the kernel prints it."""
    net = tmp_path / "proc" / "net"
    net.mkdir(parents=True)
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    (net / "tcp").write_text(head + "   0: 0C00D50A:223D 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
                                    "   1: 0D00D50A:223D 00000000:0000 01 00000000:00000000 00:00000000 00000000     0        0 1 1\n")
    assert fio_server.is_listening("10.213.0.12", 8765, str(tmp_path))
    assert not fio_server.is_listening("10.213.0.13", 8765, str(tmp_path))
    assert not fio_server.is_listening("10.213.0.12", 8766, str(tmp_path))
