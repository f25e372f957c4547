# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner with a real fio, a real loop device and real processes: what it measures, and what is left when it is disturbed."""

from __future__ import annotations

import base64
import io
import json
import os
import signal
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils import daemon, runner
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio
from ansible_collections.storlab.testbed.plugins.module_utils.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.workload import normalise, workload_id

CEILING = {"name": "ceiling-x", "kind": "ceiling", "host": "here", "path": None, "parent": None, "purpose": "scratch", "size_bytes": 1 << 30, "identity": {}}
SIZE = 2 << 20


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
           "identity": {"major_minor": f"{os.major(number)}:{os.minor(number)}"}}
    subprocess.run(["losetup", "--detach", name], check=True)


@pytest.fixture
def base(tmp_path):
    folder = tmp_path / "state"
    yield str(folder)
    for testbed in os.listdir(folder) if folder.exists() else ():
        runner.stop(testbed, remove=True, base=str(folder))


def make_plan(*layers, run_id="one", prepare=None, workloads=({},), grace_s=20, repetitions=1, **more):
    points = []
    for repetition in range(1, repetitions + 1):
        for given in workloads:
            workload = normalise({"runtime_s": 1, "ramp_s": 0, **given})
            for layer in layers:
                points.append({"point_id": f"{layer['name']}.{workload_id(workload)}.r{repetition}", "layer": layer["name"], "workload": workload,
                               "workload_id": workload_id(workload), "repetition": repetition, "seed": 10 + repetition})
    return {"testbed_id": "t", "run_id": run_id, "points": points, "layers": list(layers), "known_layers": list(layers), "repetitions": repetitions,
            "prepare": prepare or {}, "allow_device": [], "grace_s": grace_s, **more}


def finished(base, run_id="one"):
    until(lambda: not runner.status("t", run_id, base)["alive"])
    return runner.status("t", run_id, base)["state"]


def meta(base, point_id, run_id="one"):
    return json.loads(Path(runner.state_dir("t", run_id, base), "points", point_id, "meta.json").read_text(encoding="utf-8"))


def engine_processes(state_dir):
    """fio processes that work in this run's folders."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            folder = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            continue
        if folder.startswith(f"{state_dir}/") and daemon.start_ticks(int(pid)):
            found.append(int(pid))
    return found


def test_points_are_measured_and_collected(base, loop):
    plan = make_plan(CEILING, loop, workloads=({"read_percent": 50, "queue_depth": 2}, {"block_size": "8k"}))
    started = runner.start(plan, base)
    assert not started["joined"]
    state = finished(base)
    assert (state["status"], state["point"], state["points"], state["failed"]) == ("finished", 4, 4, 0)
    answer = runner.collect("t", "one", base=base)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(answer["content"]))) as archive:
        names = set(archive.getnames())
    for point in plan["points"]:
        assert {f"points/{point['point_id']}/{name}" for name in ("fio.json", "job.fio", "meta.json")} <= names
        noted = meta(base, point["point_id"])
        assert (noted["exit_code"], noted["failures"], noted["flags"], noted["overridden"]) == (0, [], [], [])
        folder = Path(started["state_dir"], "points", point["point_id"])
        (found,) = fio.results((folder / "fio.json").read_text(encoding="utf-8"))
        assert found["status"] == "measured"
        assert found["workload"] == point["workload"] or point["layer"] == "ceiling-x"
    filled = fio.results(Path(started["state_dir"], "preparation", "fill-backing-x", "fio.json").read_text(encoding="utf-8"))
    assert filled[0]["write"]["bytes"] == SIZE
    assert json.loads(Path(started["state_dir"], "host.json").read_text(encoding="utf-8"))["devices"]["backing-x"]["size_bytes"] == SIZE
    assert runner.stop("t", remove=True, base=base)["removed"] == [started["state_dir"]]
    assert not os.path.exists(base)


def test_the_layer_holds_no_zeros_after_the_fill(base, loop):
    runner.start(make_plan(loop), base)
    finished(base)
    with open(loop["path"], "rb") as device:
        blocks = [device.read(4096) for _ in range(SIZE // 4096)]
    assert bytes(4096) not in blocks


def test_without_fill_the_result_says_so(base, loop):
    plan = make_plan(loop, prepare={"fill": False}, workloads=({}, {"read_percent": 0}))
    runner.start(plan, base)
    finished(base)
    assert [meta(base, point["point_id"])["flags"] for point in plan["points"]] == [["not_filled"], []]


def test_one_refused_layer_stops_everything_before_any_io(base, loop):
    with pytest.raises(Failure) as caught:
        runner.start(make_plan(CEILING, {**loop, "size_bytes": SIZE * 2}), base)
    assert caught.value.code == "wrong_size"
    assert not os.path.exists(base)


def test_missing_path_makes_no_file(base, loop, tmp_path):
    missing = str(tmp_path / "ram7")
    with pytest.raises(Failure) as caught:
        runner.start(make_plan({**loop, "path": missing}), base)
    assert caught.value.code == "device_missing"
    assert not os.path.exists(missing)


def test_missing_engine_is_one_sentence(base, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Failure, match="Install the package fio") as caught:
        runner.start(make_plan(CEILING), base)
    assert caught.value.code == "engine_missing"


def test_device_that_becomes_unsafe_fails_its_points_only(base, loop):
    plan = make_plan(CEILING, loop, workloads=({}, {"read_percent": 0}))
    started = runner.start(plan, base)
    claimed = os.open(loop["path"], os.O_RDONLY | os.O_EXCL)
    try:
        state = finished(base)
    finally:
        os.close(claimed)
    assert (state["status"], state["failed"]) == ("finished", 2)
    assert [meta(base, point["point_id"])["failures"][:1] != [] for point in plan["points"]] == [False, True, False, True]
    assert meta(base, plan["points"][1]["point_id"])["failures"][0]["code"] == "device_busy"
    assert not os.path.exists(os.path.join(started["state_dir"], "points", plan["points"][1]["point_id"], "fio.json"))


def test_killed_engine_is_a_failed_point_and_the_others_go_on(base):
    plan = make_plan(CEILING, workloads=({"runtime_s": 30}, {"read_percent": 0}))
    started = runner.start(plan, base)
    until(lambda: engine_processes(started["state_dir"]))
    os.kill(engine_processes(started["state_dir"])[0], signal.SIGKILL)
    state = finished(base)
    assert (state["status"], state["failed"]) == ("finished", 1)
    assert [meta(base, point["point_id"])["exit_code"] for point in plan["points"]] == [-9, 0]


def test_killed_supervisor_takes_the_engine_with_it(base):
    started = runner.start(make_plan(CEILING, workloads=({"runtime_s": 60, "workers": 2},)), base)
    until(lambda: engine_processes(started["state_dir"]))
    os.kill(started["pid"], signal.SIGKILL)
    until(lambda: not engine_processes(started["state_dir"]))
    assert not runner.status("t", "one", base)["alive"]
    assert base64.b64decode(runner.collect("t", "one", base=base)["content"])


def test_stop_ends_everything_and_keeps_what_was_measured(base):
    plan = make_plan(CEILING, workloads=({"runtime_s": 1}, {"runtime_s": 60, "read_percent": 0}))
    started = runner.start(plan, base)
    until(lambda: runner.status("t", "one", base)["state"].get("point") == 2)
    assert runner.stop("t", "one", base=base) == {"changed": True, "stopped": [started["state_dir"]], "removed": []}
    assert not engine_processes(started["state_dir"])
    assert runner.status("t", "one", base)["state"]["status"] == "stopped"
    assert meta(base, plan["points"][0]["point_id"])["exit_code"] == 0
    assert runner.stop("t", "one", base=base)["changed"] is False


def test_stop_in_check_mode_only_says_so(base):
    started = runner.start(make_plan(CEILING, workloads=({"runtime_s": 60},)), base)
    assert runner.stop("t", remove=True, base=base, dry_run=True)["stopped"] == [started["state_dir"]]
    assert runner.status("t", "one", base)["alive"]


def test_engine_that_does_not_end_is_ended_at_the_deadline(base, tmp_path, monkeypatch):
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "fio").write_text("#!/bin/sh\n[ \"$1\" = --version ] && echo fio-0.0 && exit\ntrap '' TERM\nwhile :; do sleep 1; done\n", encoding="ascii")
    (tools / "fio").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setattr(runner, "POLITE_S", 0.2)
    plan = make_plan(CEILING, grace_s=-0.5)
    started = runner.start(plan, base)
    finished(base)
    noted = meta(base, plan["points"][0]["point_id"])
    assert [failure["code"] for failure in noted["failures"]] == ["engine_timeout"]
    assert noted["wall_s"] < 5
    until(lambda: not engine_processes(started["state_dir"]))


def test_the_same_plan_joins_the_run_and_another_is_refused(base):
    plan = make_plan(CEILING, workloads=({"runtime_s": 60},))
    first = runner.start(plan, base)
    assert runner.start(plan, base) == {"state_dir": first["state_dir"], "pid": first["pid"], "joined": True}
    with pytest.raises(Failure) as caught:
        runner.start(make_plan(CEILING, workloads=({"runtime_s": 59},)), base)
    assert caught.value.code == "run_exists"
    with pytest.raises(Failure) as caught:
        runner.start(make_plan(CEILING, run_id="two"), base)
    assert caught.value.code == "run_active"
    with pytest.raises(Failure) as caught:
        runner.collect("t", "one", base=base)
    assert caught.value.code == "run_active"


def test_a_finished_run_is_joined_for_its_results(base):
    plan = make_plan(CEILING)
    runner.start(plan, base)
    finished(base)
    assert runner.start(plan, base)["joined"]


def test_leftovers_of_a_dead_run_are_replaced(base):
    plan = make_plan(CEILING)
    first = runner.start(plan, base)
    os.kill(first["pid"], signal.SIGKILL)
    until(lambda: not runner.status("t", "one", base)["alive"])
    assert not runner.start(plan, base)["joined"]
    assert finished(base)["status"] == "finished"


def test_a_pid_that_now_is_somebody_else_is_not_alive(base):
    folder = runner.state_dir("t", "one", base)
    os.makedirs(folder)
    runner.write_json(os.path.join(folder, "supervisor.json"), {"pid": os.getpid(), "start_ticks": "1"})
    assert not runner.alive(folder)
    assert runner.stop("t", remove=True, base=base)["stopped"] == []


def test_archive_in_pieces(base, monkeypatch):
    runner.start(make_plan(CEILING), base)
    finished(base)
    whole = runner.collect("t", "one", base=base)
    monkeypatch.setattr(runner, "CHUNK_BYTES", 1000)
    pieces, offset = b"", 0
    while offset is not None:
        answer = runner.collect("t", "one", offset, base)
        pieces, offset = pieces + base64.b64decode(answer["content"]), answer.get("next_offset")
    assert pieces == base64.b64decode(whole["content"])
    assert len(pieces) > 2000


def test_collecting_what_is_not_there():
    with pytest.raises(Failure) as caught:
        runner.collect("t", "nothing", base="/nonexistent")
    assert caught.value.code == "run_missing"
