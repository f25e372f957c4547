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
import run_plan
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio
from ansible_collections.storlab.testbed.plugins.module_utils.linux import daemon
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import counters
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import memory_use as memory
from ansible_collections.storlab.testbed.plugins.module_utils.result import result
from ansible_collections.storlab.testbed.plugins.module_utils.run import execution, runner, supervisor
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from loop_device import attach_again, attached, backing_file, bytes_of
from loop_device import layer as layer_of
from unchanged import refused
from waiting import until

SIZE = 2 << 20
CEILING = {
    "name": "ceiling-x",
    "kind": "ceiling",
    "host": "here",
    "path": None,
    "parent": None,
    "purpose": "scratch",
    "size_bytes": SIZE,
    "identity": {},
}


# What the machine that runs the tests does to a measurement, such as a hypervisor that gives its processor to others: no test knows it beforehand.
OF_THE_MACHINE = {"faster_than_ceiling", "generator_bound", "governor", "steal", "synchronous_submission"}


def flags_of(record: dict, *also: str) -> list:
    """The flags of a point that the test alone decides, in order; `also` names flags of the machine that this test brings about."""
    return [flag for flag in record["flags"] if flag not in OF_THE_MACHINE.difference(also)]


@pytest.fixture
def loop(tmp_path):
    with attached(tmp_path / "image", SIZE) as path:
        yield layer_of(path, SIZE)


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "COPY_S", 0.01)
    folder = tmp_path / "state"
    yield str(folder)
    for testbed in os.listdir(folder) if folder.exists() else ():
        runner.stop(testbed, remove=True, base=str(folder), discard=True)


def make_plan(*layers, run_id="one", prepare=None, workloads=({},), grace_s=20, repetitions=1, **more):
    points = []
    for repetition in range(1, repetitions + 1):
        for given in workloads:
            # One pass over the layer takes a moment; tests of what happens in a time say how long.
            workload = normalise({"ramp_s": 0, **({} if "runtime_s" in given else {"loops": 1}), **given})
            for layer in layers:
                points.append(run_plan.point(layer["name"], workload, repetition))
    limits = {"repetitions": repetitions, "prepare": prepare or {}, "grace_s": grace_s}
    return run_plan.plan(list(layers), points, run_id=run_id, **limits, **more)


def finished(base, run_id="one"):
    until(lambda: not runner.status("t", run_id, base)["alive"])
    return runner.status("t", run_id, base)["state"]


def meta(base, point_id, run_id="one"):
    return json.loads(
        Path(runner.state_dir("t", run_id, base), "points", point_id, "meta.json").read_text(encoding="utf-8")
    )


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
    plan = make_plan(
        CEILING,
        loop,
        workloads=({"read_percent": 50, "queue_depth": 2, "runtime_s": 1}, {"block_size": "8k", "runtime_s": 1}),
    )
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
        assert (noted["exit_code"], noted["failures"], flags_of(noted), noted["overridden"]) == (0, [], [], [])
        folder = Path(started["state_dir"], "points", point["point_id"])
        (found,) = fio.results((folder / "fio.json").read_text(encoding="utf-8"))
        assert found["status"] == "measured"
        assert found["workload"] == point["workload"] or point["layer"] == "ceiling-x"
        if "counters" not in noted:
            # A busy machine may begin so late that in no part of a second the engine surely measured.
            continue
        assert ("device" in noted["counters"]) == (point["layer"] == "backing-x")
        counted = noted["counters"].get("layers", {})
        assert set(counted) == ({"backing-x"} if point["layer"] == "backing-x" else set())
        for layer in counted.values():
            assert layer["name"] == noted["counters"]["device"]["name"]
            assert 0 <= layer["in_flight"] <= 1.5 * point["workload"]["queue_depth"]
    filled = fio.results(
        Path(started["state_dir"], "preparation", "fill-backing-x", "fio.json").read_text(encoding="utf-8")
    )
    assert filled[0]["write"]["bytes"] == SIZE
    assert (
        json.loads(Path(started["state_dir"], "host.json").read_text(encoding="utf-8"))["devices"]["backing-x"][
            "size_bytes"
        ]
        == SIZE
    )
    assert runner.stop("t", remove=True, base=base, discard=True)["removed"] == [started["state_dir"]]
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
    assert [flags_of(meta(base, point["point_id"])) for point in plan["points"]] == [["not_filled"], []]


def test_one_refused_layer_stops_everything_before_any_io(base, loop):
    with refused(Path(base), bytes_of(loop)) as caught:
        runner.start(make_plan(CEILING, {**loop, "size_bytes": SIZE * 2}), base)
    assert caught.value.code == "wrong_size"
    assert not os.path.exists(base)


def test_missing_path_makes_no_file(base, loop, tmp_path):
    missing = str(tmp_path / "ram7")
    with refused(tmp_path) as caught:
        runner.start(make_plan({**loop, "path": missing}), base)
    assert caught.value.code == "device_missing"
    assert not os.path.exists(missing)


def test_missing_engine_is_one_sentence(base, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with refused(Path(base), match="Install the package fio") as caught:
        runner.start(make_plan(CEILING), base)
    assert caught.value.code == "engine_missing"


def test_device_that_becomes_unsafe_fails_its_points_only(base, loop):
    plan = make_plan(CEILING, loop, workloads=({"runtime_s": 1}, {"read_percent": 0}))
    started = runner.start(plan, base)
    claimed = os.open(loop["path"], os.O_RDONLY | os.O_EXCL)
    try:
        state = finished(base)
    finally:
        os.close(claimed)
    assert (state["status"], state["failed"]) == ("finished", 2)
    assert [meta(base, point["point_id"])["failures"][:1] != [] for point in plan["points"]] == [
        False,
        True,
        False,
        True,
    ]
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
    assert runner.stop("t", "one", base=base) == {
        "changed": True,
        "stopped": [started["state_dir"]],
        "removed": [],
        "areas": ["bench"],
        "uncollected": {"one": 1},
    }
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
    (tools / "fio").write_text(
        "#!/bin/sh\ncase $1 in --version) echo fio-0.0; exit;; --cpuclock-test) exit 1;; esac\n"
        "trap '' TERM\nwhile :; do sleep 1; done\n",
        encoding="ascii",
    )
    (tools / "fio").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setattr(execution, "POLITE_S", 0.2)
    plan = make_plan(CEILING, workloads=({"runtime_s": 1},), grace_s=-0.5)
    started = runner.start(plan, base)
    finished(base)
    noted = meta(base, plan["points"][0]["point_id"])
    assert [failure["code"] for failure in noted["failures"]] == ["engine_timeout"]
    until(lambda: not engine_processes(started["state_dir"]))


def test_the_same_plan_joins_the_run_and_another_is_refused(base):
    plan = make_plan(CEILING, workloads=({"runtime_s": 60},))
    first = runner.start(plan, base)
    assert runner.start(plan, base) == {**first, "joined": True}
    # The controller asks for fewer points the more of them it has.
    assert runner.start({**plan, "points": [], "prepared": {"x": {}}}, base)["joined"]

    def plans() -> dict:
        """All that was ever begun; what a run that goes on writes of itself changes all the time."""
        return {str(path): path.read_text(encoding="utf-8") for path in Path(base).rglob("plan.json")}

    assert len(plans()) == 1
    with refused(plans) as caught:
        runner.start(make_plan(CEILING, workloads=({"runtime_s": 59},)), base)
    assert caught.value.code == "run_exists"
    with refused(plans) as caught:
        runner.start(make_plan(CEILING, run_id="two"), base)
    assert caught.value.code == "run_active"
    with refused(plans) as caught:
        runner.collect("t", "one", base=base)
    assert caught.value.code == "run_active"


def test_a_finished_run_is_joined_for_its_results(base):
    plan = make_plan(CEILING)
    runner.start(plan, base)
    finished(base)
    again = runner.start(plan, base)
    assert (again["joined"], again["alive"]) == (True, False)


def packed(state_dir, number):
    """{name: content} of a finished point as it lies there for the controller."""
    text = Path(state_dir, "done", str(number)).read_bytes()
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(text))) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive if one.isfile()}


def test_each_finished_point_lies_there_by_itself(base, loop):
    plan = make_plan(loop, CEILING, prepare={"fill": True}, workloads=({"runtime_s": 1},))
    started = runner.start(plan, base)
    assert finished(base)["done"] == 2
    assert runner.uncollected(started["state_dir"]) == [1, 2]
    first, second = (packed(started["state_dir"], number) for number in (1, 2))
    names = [point["point_id"] for point in plan["points"]]
    assert json.loads(first[f"points/{names[0]}/meta.json"])["point_id"] == names[0]
    assert f"preparation/fill-{loop['name']}/fio.json" in first
    assert f"points/{names[1]}/fio.json" in second
    # What precedes a point comes with it, once.
    assert not [name for name in second if name.startswith("preparation")]
    assert not [name for name in second if names[0] in name]


def test_a_changed_plan_deletes_no_finished_point(base):
    first = runner.start(make_plan(CEILING, workloads=({"runtime_s": 1},)), base)
    finished(base)
    other = runner.start(make_plan(CEILING, workloads=({"runtime_s": 2},)), base)
    assert (other["joined"], other["alive"], other["pid"]) == (True, False, first["pid"])
    assert runner.uncollected(first["state_dir"]) == [1]
    os.unlink(Path(first["state_dir"], "done", "1"))
    assert not runner.start(make_plan(CEILING, workloads=({"runtime_s": 2},)), base)["joined"]


def test_finished_points_that_nobody_has_are_not_removed_unless_told_to(base):
    started = runner.start(make_plan(CEILING, workloads=({"runtime_s": 1}, {"runtime_s": 60, "read_percent": 0})), base)
    until(lambda: runner.uncollected(started["state_dir"]) == [1])
    with refused(lambda: runner.uncollected(started["state_dir"])) as caught:
        runner.stop("t", remove=True, base=base)
    assert (caught.value.code, caught.value.details["runs"]) == ("run_uncollected", {"one": 1})
    assert "benchmark_discard" in str(caught.value)
    assert runner.status("t", "one", base)["alive"]
    # Once the controller has it, nothing is lost; a point that is interrupted was not finished.
    os.unlink(Path(started["state_dir"], "done", "1"))
    assert runner.stop("t", remove=True, base=base)["removed"] == [started["state_dir"]]


def test_what_nobody_expected_fails_its_point_alone(base, loop, monkeypatch):
    guard = supervisor.device_safety.guard

    def hangs(layer, *others):
        if os.path.exists(Path(runner.state_dir("t", "one", base), "points", f"{layer['name']}.{names[0]}")):
            raise subprocess.TimeoutExpired(["blkid"], 30)
        return guard(layer, *others)

    plan = make_plan(loop, CEILING)
    names = [point["point_id"].partition(".")[2] for point in plan["points"]]
    monkeypatch.setattr(supervisor.device_safety, "guard", hangs)
    started = runner.start(plan, base)
    state = finished(base)
    assert (state["status"], state["failed"], state["done"]) == ("finished", 1, 2)
    one, other = results(plan, base)[0].values()
    assert [failure["code"] for failure in one["failures"]] == ["unexpected"]
    assert "blkid" in one["failures"][0]["message"]
    assert other["status"] == "measured"
    assert "TimeoutExpired" in Path(started["state_dir"], "supervisor.log").read_text(encoding="utf-8")


@pytest.mark.parametrize(("step_s", "flags"), [(0.0, []), (3.0, ["clock_stepped"]), (-3.0, ["clock_stepped"])])
def test_a_clock_that_is_set_meanwhile_is_told(base, monkeypatch, step_s, flags):
    true, told = supervisor.before_point.clock_ahead_s, []

    def ahead():
        told.append(true())
        return told[-1] + (step_s if len(told) > 1 else 0)

    monkeypatch.setattr(supervisor.before_point, "clock_ahead_s", ahead)
    plan = make_plan(CEILING)
    runner.start(plan, base)
    finished(base)
    (found,) = results(plan, base)[0].values()
    assert flags_of(found) == flags


def test_leftovers_of_a_dead_run_are_replaced(base):
    plan = make_plan(CEILING, workloads=({"runtime_s": 1},))
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


# ---------------------------------------------------------------- with the result that the controller makes of it


def results(plan, base):
    """{point_id: result} as the controller makes them, and the host's fingerprint."""
    folder, layers, found = (
        Path(runner.state_dir("t", plan["run_id"], base)),
        {layer["name"]: layer for layer in plan["layers"]},
        {},
    )
    for point in plan["points"]:
        own = folder / "points" / point["point_id"]
        layer = layers[point["layer"]]
        text = (own / "fio.json").read_text(encoding="utf-8") if (own / "fio.json").exists() else ""
        identity = {
            **point,
            "layer_kind": layer["kind"],
            "host": "here",
            "path": layer["path"],
            "engine": {"name": "fio"},
        }
        try:
            measured = fio.results(text)
        except Failure:
            measured = []
        found[point["point_id"]] = result.of_point(
            identity, json.loads((own / "meta.json").read_text(encoding="utf-8")), measured
        )
    return found, json.loads((folder / "host.json").read_text(encoding="utf-8"))


def documents(path):
    """The JSON documents in a file, one after another, with nothing else between them."""
    text, found, decoder = path.read_text(encoding="utf-8").strip(), [], json.JSONDecoder()
    while text:
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].lstrip()
    return found


def series(base, point_id):
    return json.loads(
        Path(runner.state_dir("t", "one", base), "points", point_id, "series.json").read_text(encoding="utf-8")
    )


def test_counters_and_series_beside_a_point(base, loop):
    plan = make_plan(loop, workloads=({"ramp_s": 1, "runtime_s": 6, "read_percent": 60, "queue_depth": 4},))
    runner.start(plan, base)
    finished(base)
    found, host = results(plan, base)
    (on_loop,) = found.values()
    assert on_loop["status"] == "measured"
    assert on_loop["wall_s"] > 6.9
    # Within the measured time, from half a second after the ramp on; a busy machine begins later.
    assert 0 < on_loop["counters"]["interval_s"] <= 5.5
    device = on_loop["counters"]["device"]
    assert device["name"] == os.path.basename(loop["path"])
    assert device["read"]["bytes"] / device["write"]["bytes"] == pytest.approx(1.5, rel=0.1)
    cpu = on_loop["cpu"]
    assert 0 < cpu["engine_busy_s"] <= cpu["host_busy_s"] <= cpu["cores"] * on_loop["counters"]["interval_s"] * 1.05
    assert cpu["us_per_io"] == pytest.approx(
        1e6 * cpu["host_busy_s"] / on_loop["counters"]["interval_s"] / on_loop["total"]["iops"], rel=0.01
    )
    assert cpu["mhz_per_iops"] == pytest.approx(cpu["us_per_io"] * cpu["mhz"] / 1e6, rel=0.01)
    assert host["memory_copy_bytes_s"] > 1e8
    told = series(base, plan["points"][0]["point_id"])
    assert told["columns"][:5] == ["t_s", "phase", "iops", "bandwidth_bytes_s", "latency_mean_ns"]
    assert told["columns"][5:] == ["cpu_busy_percent", "load_1min", "load_5min", "load_15min", "memory_used_percent"]
    assert all(min(row[6:9]) >= 0 and 0 < row[9] < 100 for row in told["rows"])
    phases = [row[1] for row in told["rows"]]
    assert set(phases) == {"ramp", "measure"} and phases == sorted(phases, reverse=True)
    # Each second's rate is of I/O of one size; a busy machine may leave a second without any.
    working = [row for row in told["rows"] if row[2]]
    assert working and all(row[3] / row[2] == pytest.approx(4096, rel=0.01) for row in working)


def handed_over(base, run_id="one") -> list:
    """[(names of what lies packed for a point, the beat among them)] in the order of the points."""
    folder = Path(runner.state_dir("t", run_id, base), "done")
    found = []
    for path in sorted(folder.iterdir(), key=lambda path: int(path.name)):
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(path.read_bytes()))) as archive:
            names = archive.getnames()
            beat = json.load(archive.extractfile("beat.json")) if "beat.json" in names else None
            found.append((names, beat))
    return found


def test_a_beat_is_played_before_each_round_and_goes_with_its_first_point(base):
    runner.start(make_plan(CEILING, workloads=({}, {"block_size": "8k"}), repetitions=2, beat=True), base)
    assert finished(base)["status"] == "finished"
    played = [beat for _names, beat in handed_over(base)]
    assert [beat and beat["round"] for beat in played] == [1, None, 2, None]
    for beat in filter(None, played):
        assert beat["null_iops"] > 0 and beat["memory_copy_bytes_s"] > 1e8 and "note" not in beat
    assert played[0]["started_utc"] < played[2]["started_utc"]
    # Memory is not copied once more for the host, and the host keeps what was known first.
    host = json.loads(Path(runner.state_dir("t", "one", base), "host.json").read_text(encoding="utf-8"))
    assert host["memory_copy_bytes_s"] == played[0]["memory_copy_bytes_s"] != played[2]["memory_copy_bytes_s"]


def test_no_beat_is_played_that_was_not_asked_for(base):
    runner.start(make_plan(CEILING, repetitions=2), base)
    finished(base)
    assert [beat for _names, beat in handed_over(base)] == [None, None]


def test_a_run_goes_on_where_the_beat_cannot_be_played(base, loop, tmp_path, monkeypatch):
    program = tmp_path / "bin" / "fio"
    program.parent.mkdir()
    real = runner.find_engine()
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *ioengine=null*) echo "fio: engine null not loadable"; exit 1;; esac\nexec {real} "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setattr(runner, "find_engine", lambda _name: str(program))
    plan = make_plan(loop, beat=True)
    runner.start(plan, base)
    state = finished(base)
    assert (state["status"], state["failed"]) == ("finished", 0)
    ((_names, beat),) = handed_over(base)
    assert "null_iops" not in beat and "engine null not loadable" in beat["note"]
    assert meta(base, plan["points"][0]["point_id"])["exit_code"] == 0


def test_series_can_be_switched_off(base):
    plan = make_plan(CEILING, series=False)
    started = runner.start(plan, base)
    finished(base)
    assert not os.path.exists(
        os.path.join(started["state_dir"], "points", plan["points"][0]["point_id"], "series.json")
    )
    assert "series_sha256" not in meta(base, plan["points"][0]["point_id"])


def test_the_device_confirms_what_the_engine_says(base, loop):
    plan = make_plan(
        loop,
        workloads=(
            {"read_percent": 50, "queue_depth": 8, "runtime_s": 1},
            {"read_percent": 0, "ramp_s": 1, "runtime_s": 1, "block_size": "64k"},
            {"random_percent": 0, "block_size": "4k", "queue_depth": 16, "direct": False},
        ),
    )
    runner.start(plan, base)
    finished(base)
    exact, ramped, buffered = results(plan, base)[0].values()
    assert all(one["status"] == "measured" for one in (exact, ramped, buffered))
    check = exact["checks"][0]
    assert [(one["name"], one["ok"]) for one in exact["checks"]] == [
        ("device_counters", True),
        ("standstill", True),
        ("littles_law", True),
        ("block_size", True),
    ]
    for name in ("read", "write"):
        assert check[name]["device_bytes_min"] == check[name]["device_bytes_max"] == exact[name]["bytes"]
        assert check[name]["device_ios_min"] == check[name]["device_ios_max"] == exact[name]["ios"]
    assert all(one["ok"] for one in ramped["checks"])
    check = ramped["checks"][0]
    assert check["write"]["device_bytes_min"] < check["write"]["device_bytes_max"]
    assert [check["name"] for check in buffered["checks"]] == ["standstill", "littles_law", "block_size"]


def test_io_that_went_elsewhere_is_found_out(base, loop, tmp_path, monkeypatch):
    with attached(tmp_path / "other", SIZE) as idle:
        subprocess.run(
            ["dd", f"if={idle}", "of=/dev/null", "bs=4k", "count=1", "iflag=direct"], check=True, capture_output=True
        )
        number = counters.device_number(idle)
        monkeypatch.setattr(counters, "device_number", lambda path: number)
        plan = make_plan(loop)
        runner.start(plan, base)
        finished(base)
    (found,) = results(plan, base)[0].values()
    assert (found["status"], flags_of(found), found["failures"][0]["code"]) == (
        "failed",
        ["device_counters_differ"],
        "device_counters_differ",
    )


# ---------------------------------------------------------------- preparation


def prepared_files(base):
    return sorted(os.listdir(os.path.join(runner.state_dir("t", "one", base), "preparation")))


def test_preconditioning_fills_and_is_done_once(base, loop):
    plan = make_plan(
        loop,
        workloads=({"read_percent": 0}, {"block_size": "8k", "runtime_s": 1}),
        prepare={"precondition_passes": 2, "precondition_block_bytes": 65536, "warmup_s": 1},
        repetitions=2,
    )
    started = runner.start(plan, base)
    finished(base)
    found = list(results(plan, base)[0].values())
    assert [one["status"] for one in found] == ["measured"] * 4
    assert found[0]["preparation"] == {
        "filled": True,
        "preconditioned_passes": 2,
        "warmup_s": 1,
        "page_cache": "not_used",
    }
    assert {one["prepared"]["utc"] for one in found} == {found[3]["prepared"]["utc"]}
    assert found[0]["prepared"]["utc"] <= found[0]["started_utc"]
    short = [point["workload_id"] for point in plan["points"][:2]]
    assert prepared_files(base) == ["precondition-backing-x", *sorted(f"warmup-backing-x.{name}" for name in short)]
    (done,) = documents(Path(started["state_dir"], "preparation", "precondition-backing-x", "fio.json"))
    assert done["jobs"][0]["write"]["io_bytes"] == 2 * SIZE
    assert done["jobs"][0]["write"]["total_ios"] == 2 * SIZE // 65536
    (warm,) = documents(Path(started["state_dir"], "preparation", f"warmup-backing-x.{short[1]}", "fio.json"))
    assert (warm["jobs"][0]["job options"]["bs"], warm["jobs"][0]["read"]["runtime"]) == (
        "8192",
        pytest.approx(1000, abs=50),
    )


def test_every_point_finds_zeroes_whatever_the_one_before_it_wrote(base, loop):
    writes = {"read_percent": 0}
    plan = make_plan(loop, workloads=(writes,), prepare={"zero_before": "point"}, repetitions=2)
    runner.start(plan, base)
    finished(base)
    for found in results(plan, base)[0].values():
        assert found["status"] == "measured"
        assert (found["preparation"]["filled"], found["preparation"]["zeroed_bytes"]) == (True, SIZE)
        assert 0 < found["preparation"]["zeroed_s"] < 600 and "prepared" not in found
    assert any(Path(loop["path"]).read_bytes())
    # Nothing is written by what only reads, so the zeroes are still there afterwards.
    runner.stop("t", remove=True, base=base, discard=True)
    plan = make_plan(loop, workloads=({"runtime_s": 1},), prepare={"zero_before": "round"})
    runner.start(plan, base)
    finished(base)
    (found,) = results(plan, base)[0].values()
    assert (found["preparation"]["zeroed_bytes"], flags_of(found)) == (SIZE, [])
    assert not any(Path(loop["path"]).read_bytes())
    assert prepared_files(base) == ["zero-backing-x"]


def test_a_layer_is_written_before_its_first_point_and_not_between_points(base, loop):
    plan = make_plan(loop, workloads=({"read_percent": 0}, {}))
    runner.start(plan, base)
    finished(base)
    wrote, read = results(plan, base)[0].values()
    assert wrote["preparation"] == read["preparation"] == {"filled": True, "page_cache": "not_used"}
    assert wrote["prepared"]["utc"] == read["prepared"]["utc"] <= wrote["started_utc"]


def test_what_is_only_written_is_filled_too(base, loop):
    plan = make_plan(loop, workloads=({"read_percent": 0},))
    runner.start(plan, base)
    finished(base)
    (found,) = results(plan, base)[0].values()
    assert found["preparation"] == {"filled": True, "page_cache": "not_used"}
    assert found["prepared"]["utc"] <= found["started_utc"]
    assert found["engine"]["contents"] == "scrambled"


def test_a_resumed_run_writes_again_only_when_the_device_is_another(base, loop):
    plan = make_plan(loop)
    runner.start(plan, base)
    finished(base)
    (first,) = results(plan, base)[0].values()
    earlier = {"backing-x": {**first["preparation"], **first["prepared"]}}
    runner.stop("t", remove=True, base=base, discard=True)
    runner.start({**plan, "prepared": earlier}, base)
    finished(base)
    (second,) = results(plan, base)[0].values()
    assert not os.path.exists(os.path.join(runner.state_dir("t", "one", base), "preparation"))
    assert (second["prepared"], flags_of(second)) == (first["prepared"], [])
    # The same number, the same file, another instance: what was written may be gone.
    image = Path(backing_file(loop["path"]))
    subprocess.run(["losetup", "--detach", loop["path"]], check=True)
    attach_again(loop["path"], image)
    runner.stop("t", remove=True, base=base, discard=True)
    runner.start({**plan, "prepared": earlier}, base)
    finished(base)
    (third,) = results(plan, base)[0].values()
    assert prepared_files(base) == ["fill-backing-x"]
    assert third["prepared"]["instance"] != first["prepared"]["instance"]


@pytest.mark.parametrize(
    ("dropping", "cache", "flags"),
    [
        (True, "dropped", ["buffered_io"]),
        (False, "not_dropped", ["page_cache_not_dropped", "buffered_io"]),
    ],
)
def test_the_page_cache_is_dropped_and_looked_at(base, loop, monkeypatch, dropping, cache, flags):
    if not dropping:
        monkeypatch.setattr(memory, "drop_page_cache", lambda: True)
    plan = make_plan(
        loop, prepare={"drop_caches": True}, workloads=({"direct": False, "random_percent": 0, "block_size": "64k"},)
    )
    with open(loop["path"], "rb") as held:
        # A device that nobody has open loses its cache by itself.
        held.read()
        runner.start(plan, base)
        finished(base)
    (found,) = results(plan, base)[0].values()
    assert (found["preparation"]["page_cache"], flags_of(found)) == (cache, flags)
    cached = found["memory"]["cached_bytes"]
    # What is left at the ends of a device whenever somebody has closed it is 256 KiB at most.
    assert (cached <= 256 << 10) is dropping and cached <= loop["size_bytes"]
    assert 0 < found["memory"]["available_bytes"] < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize("share", [1, 2])
def test_a_kept_cache_is_flagged_only_when_a_part_of_what_is_read_is_missing(base, loop, share):
    # A fill goes through the page cache as the workload does, and would leave all of it there.
    plan = make_plan(loop, prepare={"drop_caches": False, "fill": False}, workloads=({"direct": False},))
    with open(loop["path"], "rb") as held:
        # What is read in order is read ahead as well, beyond what was asked for.
        os.posix_fadvise(held.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        held.read(loop["size_bytes"] // share)
        runner.start(plan, base)
        finished(base)
    (found,) = results(plan, base)[0].values()
    assert found["preparation"]["page_cache"] == "not_dropped"
    # A kernel with other things to do may drop a page of the whole on its own.
    whole = found["memory"]["cached_bytes"] == loop["size_bytes"]
    assert not (whole and share > 1)
    assert flags_of(found) == ["not_filled", *([] if whole else ["partly_cached"]), "buffered_io"]


# ---------------------------------------------------------------- steady state


def steady(**limits):
    return {"metric": "iops", "window": 2, "round_s": 1, "excursion_percent": 190, "slope_percent": 190, **limits}


def test_rounds_until_steady_and_merged_exactly(base, loop):
    plan = make_plan(
        loop, steady_state=steady(window=3), workloads=({"ramp_s": 1, "runtime_s": 60, "read_percent": 50},)
    )
    started = runner.start(plan, base)
    finished(base)
    (found,) = results(plan, base)[0].values()
    folder = Path(started["state_dir"], "points", plan["points"][0]["point_id"])
    rounds = [document["jobs"][0] for document in documents(folder / "fio.json")]
    assert found["status"] == "measured"
    assert found["steady_state"]["steady"]
    assert found["steady_state"]["rounds"] == pytest.approx(
        [one["read"]["iops"] + one["write"]["iops"] for one in rounds]
    )
    # On a busy machine it may take more than three to become steady; the figures are of the last three.
    count = len(rounds)
    assert count >= 3
    assert [one["job options"].get("ramp_time", "0") for one in rounds] == ["1"] + ["0"] * (count - 1)
    assert len({one["job options"]["randseed"] for one in rounds}) == count
    rounds = rounds[-3:]
    for name in ("read", "write"):
        assert found[name]["ios"] == sum(one[name]["total_ios"] for one in rounds)
        assert found[name]["bytes"] == sum(one[name]["io_bytes"] for one in rounds)
        assert found[name]["iops"] == pytest.approx(
            found[name]["ios"] / (sum(one[name]["runtime"] for one in rounds) / 1000), rel=2e-3
        )
        assert sum(found[name]["histogram"]["bins"].values()) == sum(
            sum(one[name]["lat_ns"]["bins"].values()) for one in rounds
        )
        assert found[name]["latency_max_ns"] == max(one[name]["lat_ns"]["max"] for one in rounds)
    assert found["runtime_s"] == pytest.approx(sum(one["read"]["runtime"] for one in rounds) / 1000, rel=1e-3)
    assert 3 <= found["runtime_s"] + 0.05 < 4
    assert found["checks"][0]["ok"]
    assert [line for line in (folder / "job.fio").read_text(encoding="utf-8").splitlines() if line.startswith(";")] == [
        f"; round {number}" for number in range(1, count + 1)
    ]
    phases = [row[1] for row in series(base, plan["points"][0]["point_id"])["rows"]]
    assert phases[0] == "ramp"
    assert set(phases[1:]) == {"measure"}
    assert sorted(os.listdir(folder)) == ["fio.json", "job.fio", "meta.json", "series.json"]


def test_what_does_not_become_steady_says_so_when_the_budget_is_used_up(base):
    plan = make_plan(
        CEILING,
        steady_state=steady(excursion_percent=1e-9, slope_percent=1e-9, budget_s=3),
        workloads=({"runtime_s": 1},),
    )
    started = runner.start(plan, base)
    finished(base)
    (found,) = results(plan, base)[0].values()
    assert (found["status"], flags_of(found), found["steady_state"]["steady"]) == ("measured", ["not_steady"], False)
    folder = Path(started["state_dir"], "points", plan["points"][0]["point_id"])
    runtimes = [document["jobs"][0]["read"]["runtime"] for document in documents(folder / "fio.json")]
    assert len(found["steady_state"]["rounds"]) == len(runtimes) == 3
    # The figures are of the last two rounds.
    assert found["runtime_s"] == pytest.approx(sum(runtimes[1:]) / 1000, abs=0.002) and min(runtimes) > 900
    assert found["total"]["iops"] == pytest.approx(sum(found["steady_state"]["rounds"][1:]) / 2, rel=0.01)


def test_an_engine_killed_in_a_later_round_fails_the_point(base):
    plan = make_plan(CEILING, steady_state=steady(excursion_percent=1e-9, budget_s=60), workloads=({"runtime_s": 1},))
    started = runner.start(plan, base)
    folder = Path(started["state_dir"], "points", plan["points"][0]["point_id"])
    until(lambda: (folder / "job.fio").exists() and "; round 2" in (folder / "job.fio").read_text(encoding="ascii"))
    until(lambda: engine_processes(started["state_dir"]))
    os.kill(engine_processes(started["state_dir"])[0], signal.SIGKILL)
    finished(base)
    (found,) = results(plan, base)[0].values()
    assert (found["status"], found["failures"][0]["code"]) == ("failed", "engine_exit")


# ---------------------------------------------------------------- what stands still


def measuring(base):
    """Wait until fio itself says that it does I/O; there must be no ramp."""
    until(lambda: (runner.status("t", "one", base)["state"] or {}).get("iops"))


def test_an_engine_that_ended_in_time_is_not_late_because_nobody_looked(base):
    """The supervisor is stopped from before the end of fio until after the time by which fio had to end."""
    plan = make_plan(CEILING, workloads=({"runtime_s": 1, "rate_iops": 500},), grace_s=1)
    started = runner.start(plan, base)
    until(lambda: engine_processes(started["state_dir"]))
    os.kill(started["pid"], signal.SIGSTOP)
    begun = time.monotonic()
    until(lambda: not engine_processes(started["state_dir"]))
    time.sleep(max(0.0, begun + 3 - time.monotonic()))
    os.kill(started["pid"], signal.SIGCONT)
    finished(base)
    noted = meta(base, plan["points"][0]["point_id"])
    assert (noted["failures"], noted["exit_code"]) == ([], 0)


def seen_stopped_s(base, plan):
    """The supervisor looks every quarter of a second, and may itself wait for a processor, which it notes."""
    noted = meta(base, plan["points"][0]["point_id"])
    return noted["stopped_s"] + noted["late_s"]


@pytest.mark.parametrize(("runtime_s", "stopped_s"), [(6, 3), (4, 9)])
def test_a_stopped_engine_is_no_measurement(base, runtime_s, stopped_s):
    plan = make_plan(CEILING, workloads=({"runtime_s": runtime_s, "rate_iops": 500},))
    started = runner.start(plan, base)
    measuring(base)
    (engine,) = engine_processes(started["state_dir"])
    os.kill(engine, signal.SIGSTOP)
    time.sleep(stopped_s)
    os.kill(engine, signal.SIGCONT)
    finished(base)
    (found,) = results(plan, base)[0].values()
    assert found["status"] == "failed"
    assert "stalled" in [failure["code"] for failure in found["failures"]]
    (check,) = [check for check in found["checks"] if check["name"] == "standstill"]
    assert seen_stopped_s(base, plan) > 1
    # The log's windows are the only thing that tells: the null engine had no I/O on its way.
    assert check["longest_s"] > stopped_s - 0.2
    assert not list(Path(started["state_dir"]).rglob(fio.WINDOWS_LOG))


def test_a_pause_of_a_stopped_engine_is_not_the_storages(base, tmp_path):
    """The device answers all the time; only fio is stopped, and the supervisor that watches it is not."""
    with attached(tmp_path / "disk", SIZE) as path:
        plan = make_plan(layer_of(path, SIZE), workloads=({"runtime_s": 6, "rate_iops": 300},))
        started = runner.start(plan, base)
        measuring(base)
        (engine,) = engine_processes(started["state_dir"])
        os.kill(engine, signal.SIGSTOP)
        time.sleep(2)
        os.kill(engine, signal.SIGCONT)
        finished(base)
        (found,) = results(plan, base)[0].values()
    assert (found["status"], "stalled" in found["flags"]) == ("failed", False)
    assert seen_stopped_s(base, plan) > 1
    assert "stalled" in [failure["code"] for failure in found["failures"]]


@pytest.fixture
def frozen(tmp_path):
    """A layer on a loop device, and the folder of the file system beneath it, which can be frozen."""
    below = tmp_path / "below"
    below.mkdir()
    with attached(tmp_path / "disk", 16 << 20) as disk:
        subprocess.run(["mkfs.ext4", "-q", disk], check=True)
        subprocess.run(["mount", disk, str(below)], check=True)
        with attached(below / "image", SIZE) as path:
            yield layer_of(path, SIZE), str(below)
        subprocess.run(["umount", str(below)], check=True)


def test_a_device_that_stops_answering_is_measured_with_its_pause(base, frozen):
    layer, folder = frozen
    plan = make_plan(layer, workloads=({"runtime_s": 6, "read_percent": 0},))
    runner.start(plan, base)
    measuring(base)
    subprocess.run(["fsfreeze", "--freeze", folder], check=True)
    try:
        time.sleep(3)
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", folder], check=True)
    finished(base)
    (found,) = results(plan, base)[0].values()
    assert meta(base, plan["points"][0]["point_id"])["stopped_s"] == 0
    # A machine that is busy may itself have stood still as long.
    assert "stalled" in [*found["flags"], *(failure["code"] for failure in found["failures"])]
    assert found["stall"]["longest_s"] > 2.5


# ---------------------------------------------------------------- devices that fail


@pytest.fixture
def small_loop(tmp_path):
    """A loop device whose backing file has holes, on a file system that is too small to fill them."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE // 2}", "none", str(folder)], check=True)
    with open(folder / "image", "wb") as image:
        image.truncate(SIZE)
    with attached(folder / "image") as path:
        yield layer_of(path, SIZE, name="backing-small"), folder / "image"
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_fails_its_points_with_the_reason_and_the_others_go_on(base, small_loop):
    plan = make_plan(small_loop[0], CEILING, workloads=({}, {"read_percent": 0}))
    runner.start(plan, base)
    assert finished(base)["failed"] == 2
    read, ceiling, wrote, other = results(plan, base)[0].values()
    assert (ceiling["status"], other["status"]) == ("measured", "measured")
    assert (read["failures"][0]["code"], wrote["failures"][0]["code"]) == ("fill_failed", "fill_failed")
    assert "No space left on device" in read["failures"][0]["message"]
    plan = make_plan(small_loop[0], workloads=({"read_percent": 0},), run_id="two", prepare={"fill": False})
    runner.start(plan, base)
    finished(base, "two")
    (wrote,) = results(plan, base)[0].values()
    # ENOSPC: what this loop device answers when its file cannot grow.
    assert {"engine_exit", "io_errors"} <= {failure["code"] for failure in wrote["failures"]}
    assert wrote["errors"]["first"] == 28


def test_a_device_that_is_lost_in_the_middle(base, loop):
    plan = make_plan(loop, CEILING, workloads=({"runtime_s": 3}, {"read_percent": 0}))
    started = runner.start(plan, base)
    until(
        lambda: (
            runner.status("t", "one", base)["state"].get("phase") == "measure"
            and engine_processes(started["state_dir"])
        )
    )
    backing = backing_file(loop["path"])
    os.truncate(backing, 0)
    subprocess.run(["losetup", "--detach", loop["path"]], check=True)
    finished(base)
    lost, ceiling, gone, other = results(plan, base)[0].values()
    assert (ceiling["status"], other["status"]) == ("measured", "measured")
    assert {failure["code"] for failure in lost["failures"]} & {"engine_exit", "io_errors"}
    # Detached for good when the engine and the runner had let go of it: the guard does not take it for the layer any more.
    assert gone["failures"][0]["code"] in ("wrong_size", "device_unreadable", "device_missing")
    assert len(gone["failures"]) == 1


def test_a_warm_cache_stays_warm_unless_dropped(base, loop):
    """fio itself must not empty the cache: then the device would be read again, as it is after dropping."""
    workload = {"direct": False, "random_percent": 0, "block_size": "64k", "loops": 1}
    for run_id, drop in (("warm", False), ("cold", True)):
        plan = make_plan(loop, run_id=run_id, prepare={"drop_caches": drop, "warmup_s": 1}, workloads=(workload,))
        with open(loop["path"], "rb") as held:
            held.read()
            before = counters.device_counts(counters.device_number(loop["path"]))["counts"]
            runner.start(plan, base)
            finished(base, run_id)
            after = counters.device_counts(counters.device_number(loop["path"]))["counts"]
        (found,) = results(plan, base)[0].values()
        assert (found["status"], found["read"]["bytes"]) == ("measured", SIZE)
        read_bytes = (after[2] - before[2]) * 512
        assert read_bytes >= SIZE if drop else read_bytes < SIZE / 2


@pytest.mark.parametrize(("governor", "flags"), [("powersave", ["governor"]), ("performance", []), (None, [])])
def test_a_processor_whose_speed_follows_the_load_is_flagged(base, monkeypatch, governor, flags):
    cpu = {"model": "x", **({"governor": governor} if governor else {})}
    monkeypatch.setattr(runner.environment, "fingerprint", lambda *_given: {"cpu": cpu})
    plan = make_plan(CEILING)
    runner.start(plan, base)
    finished(base)
    assert flags_of(meta(base, plan["points"][0]["point_id"]), "governor") == flags
