# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is noted of points whose engine fails, hangs, is stopped or says nothing. A shell script stands in for fio, and a file for a device."""

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
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio, fio_distributed
from ansible_collections.storlab.testbed.plugins.module_utils.linux import landlock
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import device_safety, reading_guard
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import counters
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import memory_use as memory
from ansible_collections.storlab.testbed.plugins.module_utils.run import before_point, execution, runner, supervisor
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from unchanged import refused

SIZE = 3 << 20
CEILING = {"name": "ceiling-x", "kind": "ceiling", "host": "here", "path": None, "size_bytes": 2 << 20, "identity": {}}
# It ends after an amount, so that no test waits for a time.
AMOUNT = normalise({"ramp_s": 0, "loops": 1})


def document(iops: float = 2000, written: int = 0) -> str:
    """As much of fio's output as a reader needs, of a job that read for half a second, or wrote so many bytes."""
    count = round(iops / 2)
    none = dict.fromkeys(("total_ios", "io_bytes", "iops", "bw_bytes", "runtime"), 0)
    read = {"total_ios": count, "io_bytes": 4096 * count, "iops": iops, "bw_bytes": 4096 * iops, "runtime": 500}
    wrote = {"total_ios": 7, "io_bytes": written, "iops": 14, "bw_bytes": 2 * written, "runtime": 500}
    job = {"jobname": "job", "error": 0, "job options": {}}
    job.update({"read": none, "write": wrote} if written else {"read": read, "write": none})
    return json.dumps({"fio version": "fio-3.33", "jobs": [job]})


class Run:
    """A run in a folder of its own, whose engine is a script that tests write."""

    def __init__(self, top: Path) -> None:
        self.top, self.folder = top, top / "state"
        self.folder.mkdir()
        (self.folder / "points").mkdir()
        (self.folder / "done").mkdir()
        (self.folder / "host.json").write_text(json.dumps({"cpu": {"governor": "performance"}}), encoding="utf-8")
        (top / "good").write_text(document(), encoding="utf-8")

    def go(self, plan: dict, script: str) -> dict:
        """The state at its end. The script runs in the folder of its job, and can take the document GOOD."""
        engine = self.top / "fio"
        engine.write_text(f"#!/bin/sh\nGOOD={self.top}/good\n{script}\n", encoding="utf-8")
        engine.chmod(0o755)
        supervisor.Supervisor(str(self.folder), plan, str(engine)).run()
        return json.loads((self.folder / "state.json").read_text(encoding="utf-8"))

    def meta(self, point: dict) -> dict:
        return json.loads((self.folder / "points" / point["point_id"] / "meta.json").read_text(encoding="utf-8"))

    def log(self) -> str:
        path = self.folder / "supervisor.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def handed_over(self) -> list:
        return sorted(int(path.name) for path in (self.folder / "done").iterdir())

    def packed(self, number: int) -> list:
        content = base64.b64decode((self.folder / "done" / str(number)).read_bytes())
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            return sorted(archive.getnames())


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "COPY_S", 0.01)
    # Nobody's page cache is dropped by a unit test.
    monkeypatch.setattr(memory, "drop_page_cache", lambda: False)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield Run(tmp_path)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A layer whose device is a file, which the guard lets pass."""
    path = tmp_path / "disk"
    path.write_bytes(b"\1" * SIZE)
    monkeypatch.setattr(device_safety, "judge", lambda *_arguments: ([], []))
    # Not every machine has the programs that look into a device.
    monkeypatch.setattr(device_safety.System, "run", lambda _self, _argv: None)
    return {
        **CEILING,
        "name": "backing-x",
        "kind": "backing",
        "path": str(path),
        "size_bytes": SIZE,
        "purpose": "scratch",
    }


def points_of(layer: dict, *workloads: dict) -> list:
    return [run_plan.point(layer["name"], workload) for workload in workloads or (AMOUNT,)]


def two(**more) -> dict:
    """A plan of two points of the null engine."""
    return run_plan.plan([CEILING], points_of(CEILING, AMOUNT, normalise({"ramp_s": 0, "loops": 2})), **more)


# ---------------------------------------------------------------- a run


FIRST_MS = 1795939170892
LOG = "".join(f"{FIRST_MS + place * 200}, {rate}, 1, 0, 0\\n" for place, rate in ((0, 50), (1, 40), (4, 60)))


@pytest.mark.parametrize("fails", [True, False])
def test_of_a_workload_that_goes_on_the_counts_and_the_first_error_are_kept(run, disk, fails):
    goes_on = normalise({"ramp_s": 0, "loops": 1, "runtime_s": 40, "read_percent": 0, "on_error": "continue"})
    plan = run_plan.plan([disk], points_of(disk, goes_on), prepare={"fill": False})
    before_s = time.time()
    word = "io_u error on file x: Link has been severed" if fails else "a warning"
    run.go(plan, f"echo 'fio: {word}' >&2; printf '{LOG}' > windows_iops.log; cat $GOOD > fio.json")
    (windows,) = run.meta(plan["points"][0])["windows"]
    assert (windows["counts"], windows["counts_from_unix_s"]) == ([10, 8, 0, 0, 12], FIRST_MS / 1000 - 0.2)
    assert windows["counts_window_s"] == 0.2
    assert (windows["window_s"], windows["longest_s"], windows["longest_at_s"]) == (0.2, 0.4, 0.4)
    noted = windows.get("first_error_unix_s")
    if fails:
        assert before_s <= noted[0] <= noted[1] <= time.time()
    else:
        assert noted is None


def test_of_another_workload_no_counts_are_kept(run, disk):
    plan = run_plan.plan(
        [disk], points_of(disk, normalise({"ramp_s": 0, "loops": 1, "runtime_s": 40})), prepare={"fill": False}
    )
    run.go(plan, "echo 'fio: io_u error' >&2; printf '200, 50, 0, 0, 0\\n' > windows_iops.log; cat $GOOD > fio.json")
    (windows,) = run.meta(plan["points"][0])["windows"]
    assert windows["busy"] == 1
    assert not {"counts", "counts_from_unix_s", "counts_window_s", "first_error_unix_s"} & set(windows)


def over_nfs(disk: dict, detail: dict, drop_caches: bool = True) -> dict:
    """A plan of two points on a layer over an NFS export of the testbed's own."""
    layer = {**disk, "kind": "datastore", "identity": {"mount_point": "/mnt/share"}, "detail": detail}
    layer["parent"] = "target-share"
    export = {**CEILING, "name": "target-share", "kind": "target", "host": "server", "detail": {"provider": "nfs"}}
    points = points_of(layer, AMOUNT, normalise({"ramp_s": 0, "loops": 2}))
    plan = run_plan.plan([layer], points, prepare={"fill": False, "drop_caches": drop_caches})
    return {**plan, "known_layers": [layer, {**export, "parent": None, "purpose": "data"}]}


@pytest.mark.parametrize(
    ("detail", "drop_caches", "answers", "states", "times"),
    [
        ({"provider": "nfs"}, True, [True, True], ["dropped", "dropped"], 2),
        # A server that does not answer is not waited for again.
        ({"provider": "nfs"}, True, [False, True], ["unknown", "unknown"], 1),
        ({"provider": "nfs"}, True, [True, False], ["dropped", "unknown"], 2),
        ({"provider": "nfs"}, False, [True, True], ["unknown", "unknown"], 0),
        # A guest cannot ask the server of its disk.
        ({}, True, [True, True], ["unknown", "unknown"], 0),
    ],
)
def test_the_cache_of_a_server_is_dropped_before_each_point_or_called_unknown(
    run, disk, monkeypatch, detail, drop_caches, answers, states, times
):
    places = []
    monkeypatch.setattr(
        supervisor.server_cache, "dropped", lambda place: places.append(place) or answers[len(places) - 1]
    )
    plan = over_nfs(disk, detail, drop_caches)
    run.go(plan, "cat $GOOD > fio.json")
    metas = [run.meta(point) for point in plan["points"]]
    assert [meta["preparation"]["storage_cache"] for meta in metas] == states
    assert ["cache_unknown" in meta["flags"] for meta in metas] == [state == "unknown" for state in states]
    assert places == ["/mnt/share"] * times


def test_a_disk_of_the_host_has_no_cache_of_a_server(run, disk):
    plan = run_plan.plan([disk], points_of(disk), prepare={"fill": False})
    run.go(plan, "cat $GOOD > fio.json")
    meta = run.meta(plan["points"][0])
    assert "storage_cache" not in meta["preparation"] and "cache_unknown" not in meta["flags"]


def reading(disk: dict, monkeypatch, **identity) -> dict:
    """A plan of a point on storage of others, whose proof is somebody else's test, and that no check keeps from being written to."""
    monkeypatch.setattr(reading_guard, "refusals", lambda *_given: [])
    layer = {**disk, "purpose": "read", "identity": identity}
    return run_plan.plan([layer], points_of(layer, normalise({"ramp_s": 0, "loops": 1, "read_percent": 100})))


WRITING = "echo theirs > {path} || exit 7; cat $GOOD > fio.json"


def test_the_kernel_keeps_an_engine_from_writing_to_a_disk_of_others(run, disk, monkeypatch):
    if not landlock.holds(str(run.folder)):
        pytest.skip("The kernel of the tests has no Landlock.")
    before, plan = Path(disk["path"]).read_bytes(), reading(disk, monkeypatch)
    state = run.go(plan, WRITING.format(path=disk["path"]))
    meta = run.meta(plan["points"][0])
    assert (state["failed"], meta["exit_code"], meta["preparation"]["wall"]) == (1, 7, "landlock")
    assert Path(disk["path"]).read_bytes() == before
    folder = run.folder / "points" / plan["points"][0]["point_id"]
    assert "ermission denied" in (folder / "stderr.txt").read_text(encoding="utf-8")


def test_a_kernel_without_that_wall_is_named_in_the_result(run, disk, monkeypatch):
    monkeypatch.setattr(landlock, "holds", lambda _folder: False)
    plan = reading(disk, monkeypatch)
    state = run.go(plan, WRITING.format(path=disk["path"]))
    meta = run.meta(plan["points"][0])
    assert (state["failed"], meta["exit_code"], meta["preparation"]["wall"]) == (0, 0, "read_only_open")
    # So the other test's disk was saved by the wall alone.
    assert Path(disk["path"]).read_bytes() == b"theirs\n"


def test_a_mount_that_is_held_read_only_is_the_wall_of_a_file(run, disk, monkeypatch):
    plan = reading(disk, monkeypatch, mount_point="/srv/storlab-existing/t/nas")
    run.go(plan, "cat $GOOD > fio.json")
    assert run.meta(plan["points"][0])["preparation"]["wall"] == "read_only_mount"


def test_nothing_is_started_where_a_wall_that_held_cannot_be_made(run, disk, monkeypatch):
    monkeypatch.setattr(landlock, "holds", lambda _folder: True)

    def fails(_folder):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(landlock, "Wall", fails)
    before, plan = Path(disk["path"]).read_bytes(), reading(disk, monkeypatch)
    state = run.go(plan, f"touch {run.top}/started; cat $GOOD > fio.json")
    (failure,) = run.meta(plan["points"][0])["failures"]
    assert (state["failed"], failure["code"]) == (1, "unexpected") and "allocate" in failure["message"]
    assert not (run.top / "started").exists() and Path(disk["path"]).read_bytes() == before


def test_a_disk_of_the_testbed_has_no_wall(run, disk):
    plan = run_plan.plan([disk], points_of(disk), prepare={"fill": False})
    state = run.go(plan, WRITING.format(path=disk["path"]))
    assert state["failed"] == 0 and "wall" not in run.meta(plan["points"][0])["preparation"]
    assert Path(disk["path"]).read_bytes() == b"theirs\n"


@pytest.mark.parametrize(("governor", "flags"), [("performance", []), ("powersave", ["governor"])])
def test_each_point_is_measured_noted_and_packed(run, governor, flags):
    (run.folder / "host.json").write_text(json.dumps({"cpu": {"governor": governor}}), encoding="utf-8")
    plan = two()
    state = run.go(plan, "cat $GOOD > fio.json")
    assert (state["status"], state["point"], state["failed"], state["done"]) == ("finished", 2, 0, 2)
    for number, point in enumerate(plan["points"], start=1):
        meta = run.meta(point)
        assert (meta["exit_code"], meta["failures"], meta["flags"]) == (0, [], flags)
        # The file of words is kept only when there are some.
        assert run.packed(number) == sorted(
            ["host.json", f"points/{point['point_id']}"]
            + [f"points/{point['point_id']}/{name}" for name in ("fio.json", "job.fio", "meta.json", "series.json")]
        )
    assert json.loads((run.folder / "host.json").read_text(encoding="utf-8"))["memory_copy_bytes_s"] > 0


def test_an_engine_that_fails_is_a_failed_point_and_the_next_is_measured(run):
    plan = two()
    state = run.go(
        plan,
        f'test -e {run.top}/second && exec cat $GOOD > fio.json; touch {run.top}/second; echo "no room" >&2; exit 3',
    )
    assert (state["status"], state["failed"], run.handed_over()) == ("finished", 1, [1, 2])
    first, second = (run.meta(point) for point in plan["points"])
    assert (first["exit_code"], second["exit_code"]) == (3, 0)
    assert "raw_sha256" not in first and len(second["raw_sha256"]) == 64
    kept = run.folder / "points" / plan["points"][0]["point_id"] / "stderr.txt"
    assert kept.read_text(encoding="utf-8") == "no room\n"


def test_a_run_without_its_host_says_that_it_crashed_and_why(run):
    (run.folder / "host.json").unlink()
    state = run.go(two(), "cat $GOOD > fio.json")
    assert (state["status"], run.handed_over()) == ("crashed", [])
    assert "Traceback" in run.log() and "_know_host" in run.log()


@pytest.mark.parametrize("number", ["TERM", "INT"])
def test_a_run_that_is_told_to_stop_hands_over_nothing_that_was_interrupted(run, number):
    state = run.go(two(), f"kill -{number} $PPID; exec sleep 600")
    assert (state["status"], state["point"], run.handed_over()) == ("stopped", 1, [])


def test_a_hang_up_stops_nothing(run):
    state = run.go(two(), "kill -HUP $PPID; cat $GOOD > fio.json")
    assert (state["status"], run.handed_over()) == ("finished", [1, 2])


def test_a_run_that_is_stopped_during_its_beat_measures_no_point(run, monkeypatch):
    def play(_engine, _folder, _prepare, _clock):
        os.kill(os.getpid(), signal.SIGTERM)
        return {"note": "interrupted"}

    monkeypatch.setattr(runner.beat, "play", play)
    state = run.go(two(beat=True), "cat $GOOD > fio.json")
    assert (state["status"], run.handed_over(), list((run.folder / "points").iterdir())) == ("stopped", [], [])


@pytest.mark.parametrize("clock", ["cpu", "clock_gettime", None])
def test_every_job_and_the_beat_read_the_clock_of_the_host(run, monkeypatch, clock):
    played = []
    monkeypatch.setattr(runner.beat, "play", lambda *arguments: played.append(arguments[3]) or {"null_iops": 5})
    host = {"cpu": {}, **({"fio_clock": clock} if clock else {})}
    (run.folder / "host.json").write_text(json.dumps(host), encoding="utf-8")
    named = normalise({"ramp_s": 0, "loops": 3, "engine_options": {"fio": {"clocksource": "gettimeofday"}}})
    plan = run_plan.plan([CEILING], points_of(CEILING, AMOUNT, named), beat=True)
    run.go(plan, "cat $GOOD > fio.json")
    jobs = [(run.folder / "points" / point["point_id"] / "job.fio").read_text("utf-8") for point in plan["points"]]
    lines = [[line for line in job.splitlines() if line.startswith("clocksource=")] for job in jobs]
    # A workload that names a clock keeps it.
    assert lines == [[f"clocksource={clock}"] if clock else [], ["clocksource=gettimeofday"]]
    assert played == [clock]


def test_a_beat_is_packed_with_the_first_point_of_its_round(run, monkeypatch):
    monkeypatch.setattr(runner.beat, "play", lambda *_arguments: {"null_iops": 5})
    plan = two(beat=True)
    plan["points"][0]["variant"] = "b"
    run.go(plan, "cat $GOOD > fio.json")
    kept = json.loads((run.folder / runner.beat.FILE).read_text(encoding="utf-8"))
    assert kept == {"round": 1, "variant": "b", "null_iops": 5}
    assert [runner.beat.FILE in run.packed(number) for number in (1, 2)] == [True, False]


def test_what_the_engine_says_while_it_measures_is_the_state(run, monkeypatch):
    monkeypatch.setattr(execution, "STATE_INTERVAL_S", 0.02)
    points = points_of(CEILING)
    words = "Jobs: 1 (f=1): [m(1)][50.0%][r=9B/s,w=2B/s][r=12.5k,w=3 IOPS][eta 00m:01s]"
    # It ends when the state shows the sum of both directions.
    script = f"echo '{words}'; until grep -q '12503' {run.folder}/state.json; do sleep 0.05; done; cat $GOOD > fio.json"
    assert run.go(run_plan.plan([CEILING], points), script)["failed"] == 0
    series = json.loads((run.folder / "points" / points[0]["point_id"] / "series.json").read_text(encoding="utf-8"))
    assert 12503 in [row[series["columns"].index("iops")] for row in series["rows"]]
    assert {row[series["columns"].index("phase")] for row in series["rows"]} == {"measure"}


@pytest.mark.parametrize(("more", "kept"), [({}, True), ({"series": True}, True), ({"series": False}, False)])
def test_a_series_is_kept_unless_it_is_not_wanted(run, more, kept):
    points = points_of(CEILING)
    run.go(run_plan.plan([CEILING], points, **more), "cat $GOOD > fio.json")
    assert (run.folder / "points" / points[0]["point_id"] / "series.json").exists() is kept
    assert ("series_sha256" in run.meta(points[0])) is kept


@pytest.mark.parametrize("moments", [None, "40, 7, 0\n980, 8, 0\n99"])
def test_in_which_windows_io_was_completed_is_noted_and_the_log_is_not_kept(run, moments):
    log = run.top / "log"
    log.write_text(moments or "", encoding="utf-8")
    workload = normalise({"ramp_s": 0, "runtime_s": 1})
    points = points_of(CEILING, workload)
    copy = f"cat {log} > {fio.WINDOWS_LOG};" if moments else ""
    run.go(run_plan.plan([CEILING], points), f"{copy} cat $GOOD > fio.json")
    (windows,) = run.meta(points[0])["windows"]
    if moments:
        assert (windows["first_s"], windows["last_s"], windows["busy"]) == (0.04, 0.98, 2)
    else:
        assert windows is None
    assert not (run.folder / "points" / points[0]["point_id"] / fio.WINDOWS_LOG).exists()


# ---------------------------------------------------------------- an engine that does not end


@pytest.mark.parametrize("script", ["exec sleep 600", "trap '' TERM; while :; do sleep 600; done"])
def test_an_engine_that_does_not_end_is_ended_and_that_is_said(run, monkeypatch, script):
    monkeypatch.setattr(execution, "POLITE_S", 0.2)
    workload = normalise({"ramp_s": 0, "runtime_s": 1})
    plan = run_plan.plan([CEILING], points_of(CEILING, workload), grace_s=0)
    state = run.go(plan, f"echo $$ > {run.top}/pid\n{script}")
    (failure,) = run.meta(plan["points"][0])["failures"]
    assert (failure["code"], state["failed"], state["status"]) == ("engine_timeout", 1, "finished")
    assert "did not end within" in failure["message"]
    assert not os.path.exists(f"/proc/{(run.top / 'pid').read_text(encoding='ascii').strip()}")


def test_an_engine_that_has_just_ended_needs_no_signal():
    process = subprocess.Popen(["true"], start_new_session=True)
    process.wait()
    execution.end_group(process)
    assert process.returncode == 0


# ---------------------------------------------------------------- what the guard and probes say


def test_a_device_that_the_guard_refuses_fails_its_points_alone(run, disk, monkeypatch):
    refusal = Failure("device_mounted", "It is mounted on /srv.", "Unmount it.")
    monkeypatch.setattr(device_safety, "judge", lambda *_arguments: ([refusal], []))
    points = points_of(disk) + points_of(CEILING)
    state = run.go(run_plan.plan([CEILING, disk], points), "cat $GOOD > fio.json")
    (failure,) = run.meta(points[0])["failures"]
    assert failure["code"] == "device_mounted" and "It is mounted on /srv." in failure["message"]
    assert (state["failed"], run.meta(points[1])["failures"], run.meta(points[1])["exit_code"]) == (1, [], 0)
    assert not (run.folder / "points" / points[0]["point_id"] / "job.fio").exists()


def test_what_was_overridden_is_noted_once_however_many_files_it_is_of(run, disk, tmp_path, monkeypatch):
    files = [str(tmp_path / f"disk.{number}.raw") for number in range(3)]
    for path in files:
        Path(path).write_bytes(b"\2" * SIZE)
    codes = dict(zip(files, (["device_signature", "device_exported"], ["device_signature"], [])))
    monkeypatch.setattr(
        device_safety,
        "judge",
        lambda facts, *_rest: ([], [Failure(code, "It is so.") for code in codes[facts["path"]]]),
    )
    several = {**disk, "path": files[0], "detail": {"files": files}}
    points = points_of(several, normalise({"ramp_s": 0, "loops": 1, "workers": 2}))
    run.go(run_plan.plan([several], points, prepare={"fill": False}), "cat $GOOD > fio.json")
    meta = run.meta(points[0])
    assert (meta["failures"], meta["overridden"]) == ([], ["device_signature", "device_exported"])


def test_what_nobody_expected_fails_its_point_and_lies_in_the_log(run, disk, monkeypatch):
    def hangs(_layer, *_rest):
        raise OSError("the probe hangs.")

    monkeypatch.setattr(device_safety, "guard", hangs)
    points = points_of(disk) + points_of(CEILING)
    state = run.go(run_plan.plan([CEILING, disk], points), "cat $GOOD > fio.json")
    assert run.meta(points[0])["failures"] == [
        {"code": "unexpected", "message": "OSError: the probe hangs. The supervisor's log has all of it."}
    ]
    assert points[0]["point_id"] in run.log() and "Traceback" in run.log()
    assert (state["failed"], state["status"]) == (1, "finished")


@pytest.mark.parametrize(("step_s", "flags"), [(0.4, []), (-0.6, ["clock_stepped"]), (3600.0, ["clock_stepped"])])
def test_a_clock_that_steps_while_a_point_is_measured_is_told(run, monkeypatch, step_s, flags):
    ahead = iter([100.0, 100.0 + step_s])
    monkeypatch.setattr(before_point, "clock_ahead_s", lambda: next(ahead))
    points = points_of(CEILING)
    run.go(run_plan.plan([CEILING], points), "cat $GOOD > fio.json")
    assert run.meta(points[0])["flags"] == flags


# ---------------------------------------------------------------- preparation


def filling(run: Run, fill: str) -> str:
    """An engine that does so when it fills a layer, and measures otherwise."""
    (run.top / "whole").write_text(document(written=SIZE), encoding="utf-8")
    (run.top / "short").write_text(document(written=SIZE - 512), encoding="utf-8")
    return f"case $PWD in */preparation/*) {fill};; *) cat $GOOD > fio.json;; esac"


def test_a_layer_is_filled_once_and_its_points_are_measured(run, disk):
    points = points_of(disk, AMOUNT, normalise({"ramp_s": 0, "loops": 2}))
    state = run.go(
        run_plan.plan([disk], points), filling(run, f"echo >> {run.top}/fills; cat {run.top}/whole > fio.json")
    )
    assert (state["failed"], (run.top / "fills").read_text(encoding="ascii")) == (0, "\n")
    for point in points:
        assert run.meta(point)["preparation"]["filled"] is True and run.meta(point)["flags"] == []
    # What was written goes to the controller with the first point.
    written = "preparation/fill-backing-x/fio.json"
    assert [written in run.packed(number) for number in (1, 2)] == [True, False]


@pytest.mark.parametrize(
    ("fill", "words"),
    [
        ("cat {top}/short > fio.json", f"{SIZE - 512} of {SIZE} bytes were written."),
        (
            "echo 'fio: pid=7, err=28: no space' > fio.json; cat $GOOD >> fio.json; exit 4",
            "It says: fio: pid=7, err=28",
        ),
        ("echo 'disk is read-only' >&2; exit 5", "It says: disk is read-only."),
        ("exit 6", "6"),
    ],
)
def test_a_layer_that_cannot_be_filled_fails_all_its_points_after_one_attempt(run, disk, fill, words):
    points = points_of(disk, AMOUNT, normalise({"ramp_s": 0, "loops": 2})) + points_of(CEILING)
    script = filling(run, f"echo >> {run.top}/fills; {fill.format(top=run.top)}")
    state = run.go(run_plan.plan([CEILING, disk], points), script)
    for point in points[:2]:
        (failure,) = run.meta(point)["failures"]
        assert failure["code"] == "fill_failed" and words in failure["message"] and "exit_code" not in run.meta(point)
    assert (run.top / "fills").read_text(encoding="ascii") == "\n"
    assert (state["failed"], run.meta(points[2])["failures"]) == (2, [])


def test_a_precondition_writes_in_the_blocks_and_passes_that_were_wanted(run, disk):
    (run.top / "twice").write_text(document(written=2 * SIZE), encoding="utf-8")
    points = points_of(disk)
    prepare = {"precondition_passes": 2, "precondition_block_bytes": 65536}
    run.go(run_plan.plan([disk], points, prepare=prepare), filling(run, f"cat {run.top}/twice > fio.json"))
    assert run.meta(points[0])["preparation"]["preconditioned_passes"] == 2
    job = (run.folder / "preparation/precondition-backing-x/job.fio").read_text(encoding="utf-8")
    assert "bs=65536" in job.replace(" ", "").replace("64k", "65536")


def test_a_warm_up_that_fails_is_the_reason_of_its_points(run, disk):
    points = points_of(disk)
    prepare = {"fill": False, "warmup_s": 0.5}
    run.go(run_plan.plan([disk], points, prepare=prepare), filling(run, "echo 'device is gone' >&2; exit 9"))
    (failure,) = run.meta(points[0])["failures"]
    assert failure["code"] == "warmup_failed" and "It says: device is gone." in failure["message"]


def test_a_host_without_a_cache_is_warmed_up_once_whatever_number_of_turns(run, disk):
    points = points_of(disk)
    prepare = {"fill": False, "warmup_s": 0.5, "warmup_turns": 4}
    run.go(
        run_plan.plan([disk], points, prepare=prepare),
        filling(run, f"echo >> {run.top}/turns; cat $GOOD > fio.json"),
    )
    meta = run.meta(points[0])
    assert (run.top / "turns").read_text(encoding="ascii") == "\n"
    assert meta["preparation"]["warmup_s"] == 0.5 and "warmup_hit_percent" not in meta["preparation"]
    # Nobody wrote what is read.
    assert meta["flags"] == ["not_filled"]


def test_a_cache_is_warmed_up_until_two_turns_are_alike(run, disk, monkeypatch):
    rates = iter([40.0, 75.0, 76.5, 99.0])
    monkeypatch.setattr(counters, "hit_percent", lambda _changed: next(rates))
    # On a busy machine a turn may have no seconds in which the engine surely measured: what the cache did meanwhile is known all the same.
    monkeypatch.setattr(supervisor.Meter, "changed", lambda _self: {})
    points = points_of(disk)
    prepare = {"fill": False, "warmup_s": 0.5, "warmup_turns": 4}
    run.go(run_plan.plan([disk], points, prepare=prepare), filling(run, "cat $GOOD > fio.json"))
    assert run.meta(points[0])["preparation"]["warmup_hit_percent"] == [40.0, 75.0, 76.5]


# ---------------------------------------------------------------- the page cache

BUFFERED = normalise({"ramp_s": 0, "loops": 1, "direct": False})


@pytest.mark.parametrize(
    ("dropping", "left_bytes", "cache", "flags"),
    [
        (True, supervisor.RESIDENT_BYTES, "dropped", []),
        (True, supervisor.RESIDENT_BYTES + 4096, "not_dropped", ["page_cache_not_dropped"]),
        (False, 0, "not_dropped", ["page_cache_not_dropped"]),
    ],
)
def test_a_page_cache_counts_as_dropped_when_nearly_nothing_is_left(
    run, disk, monkeypatch, dropping, left_bytes, cache, flags
):
    monkeypatch.setattr(memory, "drop_page_cache", lambda: dropping)
    monkeypatch.setattr(memory, "resident_bytes", lambda *_where: left_bytes)
    points = points_of(disk, BUFFERED)
    run.go(run_plan.plan([disk], points), filling(run, f"cat {run.top}/whole > fio.json"))
    meta = run.meta(points[0])
    assert (meta["preparation"]["page_cache"], meta["flags"]) == (cache, flags)
    assert meta["memory"]["cached_bytes"] == left_bytes


@pytest.mark.parametrize(("cached", "flags"), [(SIZE, []), (SIZE - 4096, ["partly_cached"])])
def test_a_cache_that_is_kept_and_lacks_a_part_is_told(run, disk, monkeypatch, cached, flags):
    monkeypatch.setattr(memory, "resident_bytes", lambda *_where: cached)
    points = points_of(disk, BUFFERED)
    plan = run_plan.plan([disk], points, prepare={"drop_caches": False})
    run.go(plan, filling(run, f"cat {run.top}/whole > fio.json"))
    assert run.meta(points[0])["flags"] == flags


def test_direct_io_says_nothing_of_a_page_cache(run, disk):
    points = points_of(disk)
    run.go(run_plan.plan([disk], points), filling(run, f"cat {run.top}/whole > fio.json"))
    meta = run.meta(points[0])
    assert meta["preparation"]["page_cache"] == "not_used"
    assert set(meta["memory"]) == {"available_bytes"}


# ---------------------------------------------------------------- rounds


def rounds(run: Run, *lines: str) -> str:
    """An engine that does one of the lines in each round, the last again and again."""
    cases = "\n".join(f"{number}) {line};;" for number, line in enumerate(lines[:-1], start=1))
    return f"echo >> {run.top}/n; case $(wc -l < {run.top}/n) in\n{cases}\n*) {lines[-1]};;\nesac"


def gives(run: Run, iops: int) -> str:
    (run.top / f"iops{iops}").write_text(document(iops), encoding="utf-8")
    return f"cat {run.top}/iops{iops} > fio.json"


def steady(workload: dict | None = None) -> dict:
    points = points_of(CEILING, workload or normalise({"ramp_s": 0, "runtime_s": 1}))
    return run_plan.plan([CEILING], points, steady_state={"window": 2, "budget_s": 5})


def test_rounds_end_when_they_are_steady_and_all_of_them_are_kept(run):
    plan = steady()
    run.go(plan, rounds(run, gives(run, 100), gives(run, 4000), gives(run, 4100)))
    meta = run.meta(plan["points"][0])
    assert (meta["steady_state"]["rounds"], meta["steady_state"]["steady"]) == ([100, 4000, 4100], True)
    # The figures are those of the window.
    assert len(meta["windows"]) == 2
    folder = run.folder / "points" / plan["points"][0]["point_id"]
    job = (folder / "job.fio").read_text(encoding="utf-8")
    assert [line for line in job.splitlines() if line.startswith("; round")] == [f"; round {n}" for n in (1, 2, 3)]
    assert (folder / "fio.json").read_text(encoding="utf-8").count("fio version") == 3
    assert not (folder / "round").exists()


def test_only_the_first_round_has_a_ramp(run):
    plan = steady(normalise({"ramp_s": 2, "runtime_s": 1}))
    run.go(plan, gives(run, 4000))
    job = (run.folder / "points" / plan["points"][0]["point_id"] / "job.fio").read_text(encoding="utf-8")
    _before, first, second = job.split("; round")
    assert "ramp_time=2" in first.replace(" ", "") and "ramp_time=2" not in second.replace(" ", "")


def test_rounds_that_never_are_steady_end_with_the_budget(run):
    plan = steady()
    run.go(plan, rounds(run, *(gives(run, iops) for iops in (100, 900, 200, 1700, 300))))
    told = run.meta(plan["points"][0])["steady_state"]
    assert (told["rounds"], told["steady"]) == ([100, 900, 200, 1700, 300], False)


@pytest.mark.parametrize(
    ("line", "exit_code"),
    [("exit 8", 8), ("true", 0), ("echo none > fio.json", 0)],
    ids=["it fails", "it leaves nothing", "it leaves words"],
)
def test_a_round_without_figures_is_the_last(run, line, exit_code):
    plan = steady()
    run.go(plan, rounds(run, gives(run, 100), line, gives(run, 4000)))
    meta = run.meta(plan["points"][0])
    assert (meta["steady_state"]["rounds"], meta["steady_state"]["steady"]) == ([100], False)
    assert (meta["exit_code"], (run.top / "n").read_text(encoding="ascii")) == (exit_code, "\n\n")


# ---------------------------------------------------------------- start


def test_a_run_is_refused_before_anything_is_made_where_there_is_no_engine(tmp_path, monkeypatch):
    monkeypatch.setattr(runner.shutil, "which", lambda _name: None)
    with refused(tmp_path) as caught:
        runner.start(two(), str(tmp_path / "base"))
    assert caught.value.code == "engine_missing"
    assert "benchmark_install_packages" in str(caught.value)


def test_a_run_is_refused_before_anything_is_made_where_a_layer_is_not_safe(tmp_path, run, disk, monkeypatch):
    refusal = Failure("device_swap", "It is swap.", "Choose another.")
    monkeypatch.setattr(device_safety, "judge", lambda *_arguments: ([refusal], []))
    monkeypatch.setattr(runner, "find_engine", lambda _name: "/usr/bin/fio")
    plan = run_plan.plan([CEILING, disk], points_of(CEILING) + points_of(disk))
    with refused(tmp_path) as caught:
        runner.start(plan, str(tmp_path / "base"))
    assert caught.value.code == "device_swap"


def test_what_a_started_run_needs_lies_in_a_folder_of_its_own_before_it_is_left_alone(tmp_path, monkeypatch):
    seen = {}

    def detach(_work, folder):
        seen.update(
            {path.name: path.is_dir() or json.loads(path.read_text("utf-8")) for path in Path(folder).iterdir()}
        )
        return 4711

    monkeypatch.setattr(runner, "find_engine", lambda _name: "/usr/bin/true")
    monkeypatch.setattr(runner.environment, "fingerprint", lambda _layers, engine: {"engine": engine})
    monkeypatch.setattr(runner, "detach", detach)
    plan, base = two(), str(tmp_path / "base")
    assert runner.start(plan, base) == {
        "state_dir": f"{base}/t/bench/one",
        "pid": 4711,
        "joined": False,
        "alive": True,
        "boot_id": runner.boot_id(),
    }
    assert seen["plan.json"] == {"plan": plan, "boot_id": runner.boot_id()}
    # true passes every test of a clock.
    assert seen["host.json"] == {"engine": "/usr/bin/true", "fio_clock": "cpu"}
    assert (seen["state.json"]["status"], seen["state.json"]["points"]) == ("running", 2)
    assert seen["points"] is True and seen["done"] is True
    # It is as the supervisor left it until something is alive there.
    assert runner.status("t", "one", base)["alive"] is False
    assert runner.status("t", "two", base)["state"] is None


def test_an_engine_is_named_by_its_own_file(tmp_path, monkeypatch):
    (tmp_path / "fio-3.33").write_text("", encoding="utf-8")
    (tmp_path / "fio").symlink_to("fio-3.33")
    monkeypatch.setattr(runner.shutil, "which", lambda name: str(tmp_path / name))
    assert runner.find_engine() == str(tmp_path / "fio-3.33")


# ---------------------------------------------------------------- many hosts


def test_of_a_fill_on_many_hosts_the_one_that_failed_is_named(tmp_path, monkeypatch):
    output = tmp_path / "fio.json"
    output.write_text("words", encoding="utf-8")
    servers = [{"host": "a"}, {"host": "b"}]
    results = [{"failures": [{"message": "b was lost."}, {"message": "b is slow."}]}]
    monkeypatch.setattr(fio_distributed, "results", lambda text, _servers: results if text == "words" else [])
    work = supervisor.Supervisor(str(tmp_path), two(), "fio")
    assert work._of_servers(str(output), servers) == "b was lost. b is slow."
    assert work._of_servers(str(output), []) == ""

    def nothing(_text, _servers):
        raise Failure("no_result", "Nothing.", "Look.")

    monkeypatch.setattr(fio_distributed, "results", nothing)
    assert work._of_servers(str(output), servers) == ""
