# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many hosts: fio's client and servers with real processes, sockets and loop devices, all on this machine.

Who can reach a server, what is left when it ends or is disturbed, and what one result says of several hosts.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import jsonschema
import places
import pytest
from actions import checked
from ansible_collections.storlab.testbed.plugins.action import benchmark
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio, fio_distributed
from ansible_collections.storlab.testbed.plugins.module_utils.run import fio_server, runner
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise, workload_id
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import plan
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import archive
from loop_device import attached, bytes_of
from loop_device import layer as layer_of
from unchanged import refused
from waiting import until

FIO = shutil.which("fio")
SIZE = 3 << 20
EVERYWHERE = "0.0.0.0"  # noqa: S104, to see it refused


@contextlib.contextmanager
def loop_device(folder, name, size=SIZE):
    with attached(Path(folder, name), size) as device:
        yield layer_of(device, size, name=f"backing-{name}", detail={})


@pytest.fixture
def loop(tmp_path):
    with loop_device(tmp_path, "x") as layer:
        yield layer


@pytest.fixture
def two(tmp_path):
    """Layers of two sizes, called by the names of two hosts."""
    with loop_device(tmp_path, "one", 3 << 20) as one, loop_device(tmp_path, "other", 5 << 20) as other:
        yield [{**one, "host": "host01"}, {**other, "host": "host02"}]


@pytest.fixture
def base(tmp_path):
    folder = tmp_path / "state"
    yield str(folder)
    runner.stop("t", remove=True, base=str(folder), discard=True)
    fio_server.stop("t", base=str(folder))


def free_port(address="127.0.0.1"):
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def asked(layer, **other):
    return {
        "testbed_id": "t",
        "layer": layer,
        "layers": [layer],
        "allow_device": [],
        "address": "127.0.0.1",
        "port": free_port(),
        "allow_any_address": False,
        "deadline_s": 60,
        **other,
    }


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
    job.write_text(
        f"[long]\nioengine=psync\nthread=1\nfilename={layer['path']}\nallow_file_create=0\nrw=read\nrate_iops=50\nbs=4k\nsize={SIZE}\n"
        f"time_based=1\nruntime={runtime_s}\n",
        encoding="utf-8",
    )
    client = subprocess.Popen(
        [FIO, f"--client=ip:{server['address']},{server['port']}", str(job)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    # The server, the process of the connection, and the job's own.
    until(lambda: len(processes(f"--server=ip:127.0.0.1,{server['port']}")) == 3)
    return client


def test_it_listens_on_the_given_address_only_until_it_is_stopped(base, loop):
    wanted = asked(loop)
    done = fio_server.start(wanted, FIO, base)
    server = done["server"]
    assert done["changed"] and server["layer"] == "backing-x"
    assert (
        server["version"]
        == subprocess.run([FIO, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    )
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


@pytest.mark.parametrize(
    ("address", "code"),
    [
        (EVERYWHERE, "bad_value"),
        ("::", "bad_value"),
        ("", "bad_value"),
        ("target01", "bad_value"),
        ("192.0.2.77", "address_missing"),
    ],
)
def test_addresses_that_are_not_one_of_this_host_are_refused(base, loop, address, code):
    with refused(Path(base), bytes_of(loop)) as failure:
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
        with refused(Path(base), bytes_of(loop)) as failure:
            fio_server.start(asked(loop, port=other.getsockname()[1]), FIO, base)
    assert failure.value.code == "port_in_use"


def test_a_device_that_is_not_the_layers_is_refused_and_nothing_listens(base, loop):
    wanted = asked({**loop, "size_bytes": SIZE + 512})
    with refused(Path(base), bytes_of(loop)) as failure:
        fio_server.start(wanted, FIO, base)
    assert failure.value.code == "wrong_size"
    assert not reachable("127.0.0.1", wanted["port"])


def test_another_layer_on_the_same_port_is_refused(base, loop):
    wanted = asked(loop)
    fio_server.start(wanted, FIO, base)
    with refused(
        bytes_of(loop), lambda: [path.read_text(encoding="utf-8") for path in Path(base).rglob("server.json")]
    ) as failure:
        fio_server.start({**wanted, "layer": {**loop, "name": "backing-y"}}, FIO, base)
    assert failure.value.code == "server_exists"
    assert "backing-x" in str(failure.value)


def test_it_ends_at_its_deadline(base, loop):
    wanted = asked(loop)
    fio_server.start(wanted, FIO, base)
    # Given only now: a busy machine needs longer than a second to start a server.
    fio_server.start({**wanted, "deadline_s": 1}, FIO, base)
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
    assert not [
        line for line in processes(f",{server['port']}").values() if any(word.startswith("--server") for word in line)
    ]
    client.wait(20)


# ---------------------------------------------------------------- one measurement of several hosts


def serve(base, layers, addresses=("127.0.0.1", "127.0.0.2")):
    found = [
        fio_server.start(asked(layer, address=address), FIO, base)["server"]
        for layer, address in zip(layers, addresses)
    ]
    return [{key: server[key] for key in fio_distributed.SERVER_KEYS} for server in found]


def distributed_plan(layers, servers, **given):
    workload = normalise({"runtime_s": 1, "ramp_s": 0, "read_percent": 60, "queue_depth": 2, **given})
    group = fio_distributed.group_layer("backing-many", layers, "here")
    point = {
        "point_id": "many",
        "layer": group["name"],
        "workload": workload,
        "workload_id": workload_id(workload),
        "repetition": 1,
        "seed": 17,
        "servers": servers,
    }
    return {
        "testbed_id": "t",
        "run_id": "one",
        "points": [point],
        "layers": [group],
        "known_layers": [*layers, group],
        "repetitions": 1,
        "prepare": {"fill": True},
        "allow_device": [],
        "grace_s": 20,
    }


def measured(base, plan):
    """(the runner's note, the one result, fio's own text) of the only point."""
    folder = Path(runner.start(plan, base)["state_dir"])
    until(lambda: not runner.status("t", "one", base)["alive"])
    note = json.loads((folder / "points" / "many" / "meta.json").read_text())
    text = (folder / "points" / "many" / "fio.json").read_text() if "exit_code" in note else ""
    return note, fio_distributed.results(text, plan["points"][0]["servers"])[0] if text else None, text


def test_two_hosts_give_one_result_that_is_the_sum(base, two):
    note, whole, text = measured(base, distributed_plan(two, serve(base, two)))
    assert (note["exit_code"], note["failures"], whole["status"]) == (0, [], "measured")
    said = json.loads(text[text.index("\n{") :])["client_stats"]
    own, everybody = (
        [row for row in said if row["jobname"] != "All clients"],
        [row for row in said if row["jobname"] == "All clients"],
    )
    assert len(own) == 2 and len(everybody) == 1
    for name in ("read", "write"):
        assert whole[name]["ios"] == sum(row[name]["total_ios"] for row in own) == everybody[0][name]["total_ios"]
        assert whole[name]["iops"] == pytest.approx(sum(row[name]["iops"] for row in own))
        bins: dict = {}
        for row in own:
            for nanoseconds, number in row[name]["lat_ns"]["bins"].items():
                bins[nanoseconds] = bins.get(nanoseconds, 0) + number
        assert whole[name]["histogram"]["bins"] == {key: bins[key] for key in sorted(bins, key=int)}
    assert [one["host"] for one in whole["clients"]] == ["host01", "host02"]
    assert sum(one["total"]["ios"] for one in whole["clients"]) == whole["total"]["ios"]
    assert all(one["status"] == "measured" and "histogram" not in one["total"] for one in whole["clients"])


def test_every_layer_is_written_once_before_it_is_read(base, two):
    measured(base, distributed_plan(two, serve(base, two), read_percent=100))
    fio_server.stop("t", base=base)
    for layer in two:
        with open(layer["path"], "rb") as device:
            blocks = [device.read(4096) for _ in range(layer["size_bytes"] // 4096)]
        assert bytes(4096) not in blocks


def test_the_job_file_on_record_is_what_each_server_was_told(base, two):
    servers = serve(base, two)
    measured(base, distributed_plan(two, servers))
    text = Path(base, "t", "bench", "one", "points", "many", "job.fio").read_text()
    parts = text.split("; ")[1:]
    assert [part.splitlines()[0] for part in parts] == ["host01, layer backing-one", "host02, layer backing-other"]
    for part, layer in zip(parts, two):
        assert f"filename={layer['path']}\n" in part and f"size={layer['size_bytes']}\n" in part
    assert (
        subprocess.run([FIO, "--parse-only", "-"], input=text, text=True, capture_output=True, check=False).returncode
        == 0
    )


def test_a_server_that_dies_in_the_middle_is_named_and_the_point_fails(base, two):
    servers = serve(base, two)
    # Without a fill, whose jobs are no less three processes.
    plan = {**distributed_plan(two, servers, runtime_s=4, read_percent=0), "prepare": {"fill": False}}
    folder = Path(runner.start(plan, base)["state_dir"])
    port = servers[1]["port"]
    until(lambda: len(processes(f"--server=ip:127.0.0.2,{port}")) == 3)
    fio_server.stop("t", port, base)
    until(lambda: not runner.status("t", "one", base)["alive"])
    (whole,) = fio_distributed.results((folder / "points" / "many" / "fio.json").read_text(), servers)
    assert whole["status"] == "failed"
    assert ["host02" in failure["message"] for failure in whole["failures"]] == [True]
    first, second = whole["clients"]
    assert (first["host"], first["status"], second["host"], second["status"]) == (
        "host01",
        "measured",
        "host02",
        "failed",
    )
    assert whole["total"]["ios"] == first["total"]["ios"] > 0
    assert "total" not in second


def test_a_server_that_refuses_is_named(base, two):
    """fio itself exits with 0 then."""
    servers = serve(base, two)
    fio_server.stop("t", servers[0]["port"], base)
    # A fill would meet it first.
    _note, whole, _text = measured(base, {**distributed_plan(two, servers, read_percent=0), "prepare": {"fill": False}})
    assert [(one["host"], one["status"]) for one in whole["clients"]] == [("host01", "failed"), ("host02", "measured")]
    assert whole["status"] == "failed" and "host01" in whole["failures"][0]["message"]


def test_a_server_that_refuses_is_named_when_the_layer_is_filled(base, two):
    servers = serve(base, two)
    fio_server.stop("t", servers[1]["port"], base)
    note, whole, _text = measured(base, distributed_plan(two, servers))
    assert whole is None
    (failure,) = note["failures"]
    assert failure["code"] == "fill_failed" and "host02" in failure["message"] and "host01" not in failure["message"]


def test_two_servers_at_one_address_are_told_apart(base, two):
    """As behind a tunnel, where all are at 127.0.0.1."""
    servers = serve(base, [{**layer, "host": "host07"} for layer in two], ("127.0.0.1", "127.0.0.1"))
    _note, whole, _text = measured(base, distributed_plan(two, servers))
    assert [(one["host"], one["status"]) for one in whole["clients"]] == [
        ("host07 backing-one", "measured"),
        ("host07 backing-other", "measured"),
    ]


@contextlib.contextmanager
def tunnel(port):
    """What ssh -L does, without SSH: a port of this host that leads to another one."""

    def pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                near, _address = entrance.accept()
                far = socket.create_connection(("127.0.0.1", port))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as entrance:
        threading.Thread(target=accept, daemon=True).start()
        yield entrance.getsockname()[1]


def test_servers_are_reached_through_tunnels(base, two):
    servers = serve(base, two, ("127.0.0.1", "127.0.0.1"))
    with tunnel(servers[0]["port"]) as one, tunnel(servers[1]["port"]) as other:
        _note, whole, _text = measured(
            base, distributed_plan(two, [{**server, "port": port} for server, port in zip(servers, (one, other))])
        )
    assert whole["failures"] == []
    assert [(client["host"], client["status"]) for client in whole["clients"]] == [
        ("host01", "measured"),
        ("host02", "measured"),
    ]


def test_stopping_the_run_ends_the_jobs_on_the_servers(base, two):
    servers = serve(base, two)
    argvs = [f"--server=ip:{server['address']},{server['port']}" for server in servers]
    runner.start(distributed_plan(two, servers, runtime_s=60, read_percent=0), base)
    until(lambda: [len(processes(argv)) for argv in argvs] == [3, 3])
    runner.stop("t", "one", base=base)
    until(lambda: [len(processes(argv)) for argv in argvs] == [1, 1])


def test_another_version_is_refused_before_anything_runs(base, two):
    servers = serve(base, two)
    servers[1]["version"] = "fio-3.1"
    with refused(bytes_of(*two), lambda: sorted(Path(base, "t").glob("bench*/*"))) as failure:
        runner.start(distributed_plan(two, servers), base)
    assert failure.value.code == "engine_version_differs"
    assert "host02 has fio-3.1" in str(failure.value)


def test_layers_that_cannot_be_one_group_are_refused(two):
    first, second = two
    with refused(two, match=r"backing, initiator"):
        fio_distributed.group_layer("many", [first, {**second, "kind": "initiator"}], "here")
    with refused(two, match=r"backing-other"):
        fio_distributed.group_layer("many", [first, {**second, "purpose": "data"}], "here")
    assert fio_distributed.group_layer("many", two, "here")["size_bytes"] == 8 << 20


def test_what_a_client_says_is_small(base, two):
    _note, whole, _text = measured(base, distributed_plan(two, serve(base, two)))
    assert all(len(json.dumps(one)) < 2000 for one in whole["clients"])
    assert fio.results(_text)[0]["total"]["ios"] < whole["total"]["ios"]


# ---------------------------------------------------------------- plan and results on the controller


def asked_many(servers, **changes):
    given = {
        "testbed_id": "t",
        "run_id": "one",
        "results_dir": "/tmp/r",
        "workload": {"read_percent": 60, "runtime_s": 1},
        "servers": servers,
        **changes,
    }
    return plan.validate(checked(benchmark, **given))


def servers_of(layers, port=8765):
    return [
        {
            "host": layer["host"],
            "address": f"192.0.2.{number}",
            "port": port,
            "version": "fio-3.33",
            "layer": layer["name"],
        }
        for number, layer in enumerate(layers, start=1)
    ]


def test_the_layers_of_all_servers_are_measured_as_one(two):
    asked_for = asked_many(servers_of(two), repetitions=2)
    layers = plan.choose_servers(asked_for["servers"], None, two, {}, "here")
    points = plan.planned(asked_for, layers["measured"])
    assert [point["point_id"] for point in points] == [
        "backing-many.4k-r60-rnd100-qd1-w1.r1",
        "backing-many.4k-r60-rnd100-qd1-w1.r2",
    ]
    assert [server["layer"] for server in points[0]["servers"]] == ["backing-one", "backing-other"]
    assert {layer["name"] for layer in layers["known"]} == {"backing-one", "backing-other", "backing-many"}
    assert not asked_for["series"]


def test_a_point_is_the_same_wherever_its_servers_listen_but_not_on_another_device(two):
    def fingerprint(layers, port):
        asked_for = asked_many(servers_of(layers, port))
        return plan.planned(asked_for, plan.choose_servers(asked_for["servers"], None, layers, {}, "here")["measured"])[
            0
        ]["fingerprint"]

    changed = [two[0], {**two[1], "identity": {"major_minor": "99:9"}}]
    assert fingerprint(two, 8765) == fingerprint(two, 8766) != fingerprint(changed, 8765)


def test_what_cannot_be_had_of_many_hosts_is_refused(two):
    with refused(two, match="steady_state"):
        asked_many(servers_of(two), steady_state=True)
    with refused(two, match="nope"):
        plan.choose_servers([{**servers_of(two)[0], "layer": "nope"}], None, two, {}, "here")
    with refused(two, match="backing-one"):
        plan.choose_servers(servers_of(two), "backing-one", two, {}, "here")


def test_the_stored_result_names_its_clients_and_is_of_the_schema(base, two):
    servers = serve(base, two)
    asked_for = asked_many(servers)
    layers = plan.choose_servers(asked_for["servers"], None, two, {}, "here")
    points = plan.planned(asked_for, layers["measured"])
    host_plan = {
        **distributed_plan(two, servers),
        "points": points,
        "layers": layers["measured"],
        "known_layers": layers["known"],
        "series": False,
    }
    folder = Path(runner.start(host_plan, base)["state_dir"]) / "points" / points[0]["point_id"]
    until(lambda: not runner.status("t", "one", base)["alive"])
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = archive.read_point(points[0], layers["measured"][0], asked_for, files)
    assert found["failures"] == [] and found["status"] == "measured"
    assert [(client["host"], client["status"]) for client in found["clients"]] == [
        ("host01", "measured"),
        ("host02", "measured"),
    ]
    assert found["engine"]["ioengine"] == "libaio"
    # What the coordinating host did meanwhile is not what the I/O costs.
    assert "us_per_io" not in found["cpu"] and "counters" not in found
    schema = json.loads((places.ROOT / "docs/schema/storlab.result-1.schema.json").read_text())
    jsonschema.validate(json.loads(json.dumps(found)), schema)
