# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action benchmark on a stand-in for a Windows host (tests/fake_windows): what is measured, kept, resumed, refused and given back. Not on Windows."""

from __future__ import annotations

import copy
import hashlib
import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import actions
import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.storlab.testbed.plugins.action import benchmark, win_benchmark
from ansible_collections.storlab.testbed.plugins.module_utils.core import times
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import windows_runner
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import ntfs
from world import HOST, Host, World

MIB = 1 << 20
LABEL = ntfs.label("lab", "ds1")
RAW, FILE = "\\\\.\\PhysicalDrive1", "T:\\storlab-benchmark.dat"
FIO, DISKSPD, IOMETER = "C:\\Program Files\\fio\\fio.exe", "C:\\tools\\diskspd.exe", "C:\\tools\\IOmeter.exe"
ACCOUNT = "WIN01\\Administrator"
DISK = {
    "lun": 0,
    "bus": "SCSI",
    "offline": False,
    "offline_reason": "",
    "read_only": False,
    "boot": False,
    "system": False,
    "clustered": False,
}
DISKS = {
    "1": {
        **DISK,
        "name": "Fake RAM",
        "serial": "RAM1",
        "unique_id": "FAKE-RAM-1",
        "size_bytes": 24 * MIB,
        "style": "MBR",
        "partitions": [],
        "volumes": {},
    },
    "2": {
        **DISK,
        "name": "Fake LUN",
        "serial": "LUN2",
        "unique_id": "FAKE-LUN-2",
        "size_bytes": 80 * MIB,
        "style": "GPT",
        "partitions": [{"number": 2, "type": "Basic", "size_bytes": 63 * MIB, "letter": "T"}],
        "volumes": {
            "T": {
                "label": LABEL,
                "filesystem": "NTFS",
                "size_bytes": 63 * MIB,
                "entries": [{"name": "storlab-benchmark.dat", "size_bytes": 16 * MIB}],
            }
        },
    },
}
LAYERS = [
    {
        "name": "backing-bench",
        "kind": "backing",
        "host": "win01",
        "path": RAW,
        "parent": None,
        "purpose": "scratch",
        "size_bytes": 24 * MIB,
        "identity": {"unique_id": "FAKE-RAM-1", "serial": "RAM1"},
    },
    {
        "name": "datastore-ds1",
        "kind": "datastore",
        "host": "win01",
        "path": FILE,
        "parent": None,
        "purpose": "scratch",
        "size_bytes": 16 * MIB,
        "identity": {"mount_point": "T:\\", "stamp": LABEL},
    },
]
QUICK = {"block_size": "4k", "read_percent": 70, "queue_depth": 3, "ramp_s": 0, "runtime_s": 1}


class Clock:
    """Time for the action and the stand-in alike, which passes when the action waits."""

    strftime, gmtime = staticmethod(time.strftime), staticmethod(time.gmtime)

    def __init__(self):
        self.now = 1_800_000_000.0

    def time(self) -> float:
        return self.now

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self.now += seconds


# Failures after a run had begun. All others are refusals, after which everything is as it was.
BROKE_OFF = ("download_failed", "host_unreachable", "points_failed")


class Bench:
    def __init__(self, folder: Path):
        self.folder, self.world, self.unreachable = folder, World(folder / "world.json"), 0
        self.connected, self.loss = True, AnsibleConnectionFailure("the network is gone")
        with self.world.open():
            self.world.add(
                "win01",
                disks={**HOST["disks"], **DISKS},
                console_user=ACCOUNT,
                account=ACCOUNT,
                programs={
                    FIO: {"engine": "fio", "version": "fio-3.42"},
                    DISKSPD: {"engine": "diskspd", "version": "2.2"},
                    IOMETER: {"engine": "iometer", "version": "1.1.0"},
                },
            )

    def run(self, check: bool = False, module=benchmark, on_windows: bool = True, **arguments) -> dict:
        if module is benchmark:
            arguments = {
                "run_id": "one",
                "results_dir": str(self.folder / "results"),
                "layers": LAYERS,
                "workload": QUICK,
                "progress": "none",
                "prepare": {"fill": False},
                **arguments,
            }
        elif "state_dir" in module.ActionModule.SPEC:
            arguments = {"state_dir": str(self.folder / "state"), **arguments}
        arguments.setdefault("testbed_id", "lab")
        action = actions.make(module, copy.deepcopy(arguments), check, windows=on_windows)
        action._connection.reset = self.reset

        def answer(module_name: str, module_args: dict, task_vars: dict) -> dict:
            if self.unreachable:
                self.unreachable -= 1
                self.connected = False
                raise self.loss
            if not self.connected:
                raise AnsibleConnectionFailure("the shell on the host is gone")
            with self.world.open():
                return Host(self.world, "win01").module(module_name, json.loads(json.dumps(module_args)), check)

        action._execute_module = answer
        variables = {"inventory_hostname": "win01", "ansible_facts": {}}
        return actions.answer(action, variables, self.data, self.folder / "results", broke_off=BROKE_OFF)

    def reset(self) -> None:
        """A new connection, as of the plugins for Windows: the old one never works again."""
        if self.unreachable:
            raise self.loss
        self.connected = True

    def data(self) -> dict:
        return json.loads(self.world.path.read_text())["hosts"]["win01"]

    def calls(self, script: str) -> int:
        return sum(call["script"] == script for call in json.loads(self.world.path.read_text())["calls"])

    def change(self, **settings) -> None:
        with self.world.open():
            self.world.data["hosts"]["win01"].update(settings)

    def result(self, point: dict, run_id: str = "one") -> dict:
        return json.loads(
            (self.folder / "results" / "lab" / run_id / "points" / point["point_id"] / "result.json").read_text()
        )

    def raw(self, result: dict, run_id: str = "one") -> bytes:
        return (
            self.folder / "results" / "lab" / run_id / "points" / result["point_id"] / result["raw"]["file"]
        ).read_bytes()


@pytest.fixture
def bench(tmp_path, monkeypatch) -> Bench:
    clock = Clock()
    monkeypatch.setattr(windows_runner, "time", clock)
    monkeypatch.setattr(sys.modules["engines"], "time", clock)
    return Bench(tmp_path)


def measured(result: dict) -> list:
    assert result.get("failed") is not True, result["msg"]
    assert [point["status"] for point in result["points"]] == ["measured"] * len(result["points"])
    return result["points"]


def code(result: dict) -> str | None:
    return result.get("failure", {}).get("code")


@pytest.mark.parametrize(
    ("engine", "raw", "job"),
    [
        ("fio", "fio.json", "job.fio"),
        ("diskspd", "diskspd.xml", "diskspd.txt"),
        ("iometer", "iometer.csv", "iometer.icf"),
    ],
)
def test_every_engine_measures_a_drive_and_a_file(bench, engine, raw, job):
    points = measured(
        bench.run(engine=engine, windows={"program": {"fio": FIO, "diskspd": DISKSPD, "iometer": IOMETER}[engine]})
    )
    assert [point["layer"] for point in points] == ["backing-bench", "datastore-ds1"]
    results = [bench.result(point) for point in points]
    for found, path in zip(results, (RAW, FILE)):
        assert (found["status"], found["failures"], found["path"], found["host"]) == ("measured", [], path, "win01")
        assert found["engine"]["name"] == engine
        assert found["raw"]["file"] == raw
        assert found["raw"]["sha256"] == hashlib.sha256(bench.raw(found)).hexdigest()
        assert found["job"]["file"] == job
        assert found["flags"] == ["not_filled"]
        share = found["read"]["ios"] / found["total"]["ios"]
        assert share == pytest.approx(0.7, abs=0.05)
        assert found["runtime_s"] == pytest.approx(1, rel=0.06)
    assert results[0]["total"]["iops"] != results[1]["total"]["iops"]
    assert {path for path, size in bench.data()["written"].items() if size} == {RAW, FILE}
    host = json.loads((bench.folder / "results" / "lab" / "one" / "hosts" / "win01.json").read_text())
    assert "stand-in" in json.dumps(host)
    assert host["engine"]["name"] == engine
    # Nothing is left on the host, not even the second name that IOMeter needs for its file.
    assert bench.data()["tasks"] == {}
    assert [entry["name"] for entry in bench.data()["disks"]["2"]["volumes"]["T"]["entries"]] == [
        "storlab-benchmark.dat"
    ]


def test_that_no_beat_is_played_is_noted_once_unless_none_was_wanted(bench):
    measured(bench.run())
    measured(bench.run(force=True))
    (line,) = (bench.folder / "results" / "lab" / "one" / "beats.jsonl").read_text(encoding="utf-8").splitlines()
    assert set(json.loads(line)) == {"host", "note"} and "Windows" in json.loads(line)["note"]


def test_no_beat_is_missed_that_was_not_wanted(bench):
    measured(bench.run(beat=False))
    assert not (bench.folder / "results" / "lab" / "one" / "beats.jsonl").exists()


def test_what_was_measured_is_not_measured_again(bench):
    measured(bench.run())
    before = bench.calls("engine_start")
    again = bench.run()
    assert again["changed"] is False
    assert measured(again)
    assert bench.calls("engine_start") == before == 2


def test_check_mode_lists_the_points_and_does_not_ask_the_host(bench):
    listed = bench.run(check=True)
    assert [point["status"] for point in listed["points"]] == ["planned", "planned"]
    assert listed["changed"] is True
    assert bench.calls("engine_start") == 0


GRID = {
    "workload": None,
    "workloads": [{**QUICK, "block_size": size} for size in ("4k", "16k", "64k")],
    "layers": LAYERS[:1],
    "engine": "iometer",
    "windows": {"program": IOMETER},
}


def test_a_grid_is_one_run_of_iometer(bench):
    points = measured(bench.run(**GRID))
    found = [bench.result(point) for point in points]
    assert bench.calls("engine_start") == 1
    assert [(one["workload"]["block_size_bytes"], one["raw"]["test"]) for one in found] == [
        (4096, 0),
        (16384, 1),
        (65536, 2),
    ]
    assert len({one["total"]["iops"] for one in found}) == 3
    for one in found:
        assert one["total"]["bytes"] == one["total"]["ios"] * one["workload"]["block_size_bytes"]
        assert one["latency_bins"]["unit"] == "ns"
    # Each has the time of its own test, one after the other, within that of the run.
    moments = [moment for one in found for moment in (one["started_utc"], one["finished_utc"])]
    assert moments == sorted(moments)
    assert all(one["started_utc"] < one["finished_utc"] for one in found)


def test_points_of_a_run_have_no_time_that_its_host_cannot_have_measured_them_at(bench):
    """Its engine's clock is days from the host's."""
    bench.change(engine_faults=["iometer_other_day"])
    points = measured(bench.run(**GRID))
    for one in (bench.result(point) for point in points):
        assert "started_utc" not in one and "finished_utc" not in one and one["total"]["ios"] > 0


def test_iometer_that_breaks_off_keeps_what_it_had_measured(bench):
    bench.change(engine_faults=["iometer_abort_after:1"])
    failed = bench.run(**GRID)
    assert code(failed) == "points_failed"
    assert [point["status"] for point in failed["points"]] == ["measured", "failed", "failed"]
    assert "aborted" in bench.result(failed["points"][2])["failures"][0]["message"]
    again = bench.run(**GRID)
    assert len(measured(again)) == 3
    assert [bench.result(point)["raw"]["test"] for point in again["points"]] == [0, 0, 1]


@pytest.mark.parametrize("fault", ["iometer_abort_after:1", "crash", "killed", "hang"])
def test_what_iometer_had_finished_when_its_run_broke_off_has_its_time(bench, fault):
    whole = bench.result(measured(bench.run(**GRID, run_id="whole"))[0], "whole")
    bench.change(engine_faults=[fault])
    kept, *failed = (bench.result(point) for point in bench.run(**GRID)["points"])
    assert [kept["status"], *(point["status"] for point in failed)] == ["measured", "failed", "failed"]
    assert times.unix_s(kept["finished_utc"]) - times.unix_s(kept["started_utc"]) == pytest.approx(
        times.unix_s(whole["finished_utc"]) - times.unix_s(whole["started_utc"]), abs=0.01
    )
    assert whole["finished_utc"] < kept["started_utc"]
    # A point that it had not finished was at no time.
    assert not any("started_utc" in point for point in failed)


@pytest.mark.parametrize(
    ("fault", "engine", "expected"),
    [
        ("crash", "fio", "engine_exit"),
        ("crash", "diskspd", "engine_exit"),
        ("hang", "fio", "engine_timeout"),
        ("killed", "fio", "no_result"),
        ("lost", "fio", "run_lost"),
        ("io_errors", "fio", "io_errors"),
        ("no_output", "diskspd", "no_result"),
        ("iometer_error", "iometer", "engine_error"),
        ("iometer_all_zero", "iometer", "no_target"),
    ],
)
def test_trouble_is_told_and_the_other_points_go_on(bench, fault, engine, expected):
    bench.change(engine_faults=[fault])
    result = bench.run(engine=engine, windows={"program": {"fio": FIO, "diskspd": DISKSPD, "iometer": IOMETER}[engine]})
    assert code(result) == "points_failed"
    assert [point["status"] for point in result["points"]] == ["failed", "measured"]
    failures = bench.result(result["points"][0])["failures"]
    assert expected in [failure["code"] for failure in failures]
    assert fault != "crash" or "exit code 3221225477 (0xc0000005)" in failures[0]["message"]
    assert bench.data()["tasks"] == {}
    again = bench.run(engine=engine, windows={"program": {"fio": FIO, "diskspd": DISKSPD, "iometer": IOMETER}[engine]})
    assert len(measured(again)) == 2
    assert bench.calls("engine_start") == 3


LONG = {**QUICK, "runtime_s": 10}


@pytest.mark.parametrize(
    ("noted", "reason"),
    [
        ({"late_ms": 1600}, "the runner on this host was not run for 1.6 s"),
        ({"clock_step_ms": 900}, "the clock of the host was set during the point"),
    ],
)
def test_a_pause_of_the_windows_host_itself_fails_the_point(bench, noted, reason):
    bench.change(engine_faults=["pause"], **noted)
    result = bench.run(workload=LONG)
    assert [point["status"] for point in result["points"]] == ["failed", "measured"]
    paused = bench.result(result["points"][0])
    assert paused["failures"] == [{"code": "stalled", "message": f"No I/O was completed for 3 s on end: {reason}."}]
    assert "stalled" not in paused["flags"]
    # The same on a host that measured without a pause blames nothing.
    assert bench.result(result["points"][1])["failures"] == []


@pytest.mark.parametrize("noted", [{}, {"late_ms": 1400, "clock_step_ms": 400}])
def test_a_pause_of_the_storage_of_a_windows_host_is_data(bench, noted):
    bench.change(engine_faults=["pause"], **noted)
    paused, other = (bench.result(point) for point in measured(bench.run(workload=LONG)))
    assert ("stalled" in paused["flags"], "clock_stepped" in paused["flags"]) == (True, False)
    assert (paused["stall"], other["stall"]) == ({"longest_s": 3.0}, {"longest_s": 0.0})
    assert "stalled" not in other["flags"]


def test_a_runner_that_notes_neither_is_no_evidence(bench, monkeypatch):
    """Of a run that the version before has started."""
    ended = windows_runner._ended
    notes = ("late_ms", "clock_step_ms")
    monkeypatch.setattr(
        windows_runner,
        "_ended",
        lambda status: {key: value for key, value in (ended(status) or {}).items() if key not in notes} or None,
    )
    bench.change(engine_faults=["pause"], late_ms=2900)
    paused = bench.result(measured(bench.run(workload=LONG))[0])
    assert ("stalled" in paused["flags"], paused["stall"]) == (True, {"longest_s": 3.0})


def test_points_of_one_run_are_not_blamed_for_its_host(bench):
    """Of a grid that IOMeter measures in one run it is not known during which point the host stood still."""
    bench.change(late_ms=9000, clock_step_ms=9000)
    for point in measured(bench.run(**GRID)):
        kept = bench.result(point)
        assert (kept["failures"], "clock_stepped" in kept["flags"]) == ([], False)


def test_diskspd_that_could_not_read_is_told_in_its_own_words(bench):
    bench.change(engine_faults=["io_errors"])
    result = bench.run(engine="diskspd", windows={"program": DISKSPD})
    assert bench.result(result["points"][0])["failures"] == [
        {
            "code": "no_result",
            "message": "diskspd left 0 results and ended with exit code 1.",
            "said": "t[0] error during read error code: 1117)",
        }
    ]


def test_iometer_needs_somebody_at_the_console(bench):
    bench.change(console_user="")
    refused = bench.run(engine="iometer", windows={"program": IOMETER})
    assert code(refused) == "no_session"
    assert ACCOUNT in refused["msg"]
    assert bench.calls("engine_start") == 0


def test_iometer_that_waits_behind_a_dialog_is_ended_and_told(bench):
    """The licence of another version than the one that was agreed to."""
    result = bench.run(
        engine="iometer", layers=LAYERS[:1], windows={"program": IOMETER, "iometer_version": "2006.07.27"}
    )
    (failure,) = bench.result(result["points"][0])["failures"]
    assert failure["code"] == "engine_timeout"
    assert "It wrote nothing" in failure["message"]
    assert "benchmark_windows.iometer_version" in failure["message"]
    bench.change(engine_faults=["hang"])
    other = bench.run(layers=LAYERS[:1], run_id="two")
    assert "iometer" not in bench.result(other["points"][0], "two")["failures"][0]["message"]


def test_layers_are_written_once_before_they_are_read(bench):
    first = measured(bench.run(prepare={"fill": True}))
    found = [bench.result(point) for point in first]
    assert [one["preparation"]["filled"] for one in found] == [True, True]
    assert bench.data()["written"][RAW] >= 24 * MIB
    assert bench.data()["written"][FILE] >= 16 * MIB
    left = bench.folder / "results" / "lab" / "one" / "preparation"
    assert sorted(path.name for path in left.iterdir()) == ["fill-backing-bench", "fill-datastore-ds1"]
    assert bench.calls("engine_start") == 4
    # A layer that this run has written is not written again, unless the host was started anew.
    measured(bench.run(prepare={"fill": True}, force=True))
    assert bench.calls("engine_start") == 6
    bench.change(boot=2)
    measured(bench.run(prepare={"fill": True}, force=True))
    assert bench.calls("engine_start") == 10


@pytest.mark.parametrize("engine", ["diskspd", "iometer"])
def test_what_knows_only_time_writes_the_layer_too(bench, engine):
    result = bench.run(
        engine=engine,
        prepare={"fill": True},
        layers=LAYERS[:1],
        windows={"program": {"diskspd": DISKSPD, "iometer": IOMETER}[engine]},
    )
    assert bench.result(measured(result)[0])["preparation"]["filled"] is True
    assert bench.data()["written"][RAW] >= 24 * MIB


@pytest.mark.parametrize(("engine", "says_how"), [("fio", "zero_buffers"), ("diskspd", "-Z")])
def test_zeroes_are_written_before_every_point(bench, engine, says_how):
    program = {"diskspd": {"program": DISKSPD}}.get(engine, {})
    result = bench.run(
        engine=engine, prepare={"zero_before": "point"}, layers=LAYERS[:1], repetitions=2, windows=program
    )
    for point in measured(result):
        prepared = bench.result(point)["preparation"]
        assert (prepared["filled"], prepared["zeroed_bytes"]) == (True, 24 * MIB)
        assert prepared["zeroed_s"] >= 0
    assert bench.data()["written"][RAW] >= 48 * MIB
    told = bench.folder / "results" / "lab" / "one" / "preparation" / "zero-backing-bench"
    (job,) = [path.read_text() for path in told.iterdir() if path.name in ("job.fio", "diskspd.txt")]
    assert says_how in job.replace("=", " ").split()


def test_points_that_were_not_written_before_say_so(bench):
    assert [bench.result(point)["flags"] for point in measured(bench.run())] == [["not_filled"], ["not_filled"]]


def test_a_device_that_is_not_the_testbeds_own_is_refused_before_anything_runs(bench):
    stranger = {**LAYERS[0], "path": "\\\\.\\PhysicalDrive0"}
    refused = bench.run(layers=[LAYERS[1], stranger])
    assert code(refused) == "disk_boot"
    assert bench.calls("engine_start") == 0
    assert bench.data().get("written", {}) == {}


def test_a_device_that_changes_meanwhile_is_not_written_to(bench, monkeypatch):
    """Of two points the first is measured; then the disk is another one."""
    original, calls = Host.state, []

    def changing(host, files):
        calls.append(1)
        # Asked once before anything runs, and once before each point.
        if len(calls) == 3:
            host.data["disks"]["2"]["volumes"]["T"]["label"] = "somebody"
        return original(host, files)

    monkeypatch.setattr(Host, "state", changing)
    result = bench.run()
    assert [point["status"] for point in result["points"]] == ["measured", "failed"]
    assert bench.result(result["points"][1])["failures"][0]["code"] == "wrong_stamp"
    assert FILE not in bench.data()["written"]


class PsrpError(Exception):
    """What pypsrp raises is no error of Ansible's."""

    __module__ = "pypsrp.exceptions"


@pytest.mark.parametrize(
    "loss",
    [
        AnsibleConnectionFailure("the network is gone"),
        ConnectionResetError("reset by peer"),
        PsrpError("no such shell"),
    ],
)
def test_a_connection_that_is_gone_for_a_while_does_no_harm(bench, loss):
    bench.unreachable, bench.loss = 3, loss
    assert len(measured(bench.run())) == 2


def test_what_is_no_lost_connection_is_not_tried_again(bench):
    bench.unreachable, bench.loss = 1, ZeroDivisionError("a mistake")
    with pytest.raises(ZeroDivisionError):
        bench.run()


@contextmanager
def unreachable_once_started(bench, monkeypatch):
    """The connection goes with the first run that is started, and is there again afterwards."""
    original = Host.module

    def module(host, name, arguments, check_mode):
        answer = original(host, name, arguments, check_mode)
        if arguments.get("script", "").startswith("# storlab: engine_start"):
            bench.unreachable = 10**6
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(Host, "module", module)
        yield
    bench.unreachable, bench.connected = 0, True


def test_a_run_that_lost_its_controller_is_picked_up(bench, monkeypatch):
    """The connection goes right after the first point was started, for longer than anybody waits."""
    with unreachable_once_started(bench, monkeypatch):
        assert code(bench.run(layers=LAYERS[:1])) == "host_unreachable"
    assert len(measured(bench.run(layers=LAYERS[:1]))) == 1
    assert bench.calls("engine_start") == 1
    assert bench.data()["tasks"] == {}


def test_what_another_plan_measured_is_not_deleted(bench, monkeypatch):
    """The controller is lost, the point is finished, and the run's name is used for something else, then torn down."""
    first, other = ({"layers": LAYERS[:1], "workload": {**QUICK, "queue_depth": depth}} for depth in (3, 5))
    with unreachable_once_started(bench, monkeypatch):
        assert code(bench.run(**first)) == "host_unreachable"
    measured(bench.run(**other))
    (folder,) = bench.data()["folders"]
    refused = bench.run(module=win_benchmark, state="absent")
    assert code(refused) == "run_uncollected"
    assert folder.endswith(refused["failure"]["details"]["runs"][0])
    assert list(bench.data()["folders"]) == [folder]
    started = bench.calls("engine_start")
    assert len(measured(bench.run(**first))) == 1
    assert bench.calls("engine_start") == started
    assert not bench.data()["folders"]


def test_what_nobody_took_is_deleted_when_that_is_said(bench, monkeypatch):
    with unreachable_once_started(bench, monkeypatch):
        bench.run(layers=LAYERS[:1])
    # Meanwhile it ends; the points of this one are taken.
    measured(bench.run(layers=LAYERS[:1], workload={**QUICK, "queue_depth": 5}))
    assert code(bench.run(module=win_benchmark, state="absent")) == "run_uncollected"
    assert bench.run(module=win_benchmark, state="absent", discard=True)["changed"] is True
    assert not bench.data()["folders"]


def test_what_was_written_before_a_restart_is_not_taken_for_written(bench, monkeypatch):
    """The controller is lost while the layer is written; then the host restarts, and a disk in memory is another one."""
    with unreachable_once_started(bench, monkeypatch):
        assert code(bench.run(layers=LAYERS[:1], prepare={"fill": True})) == "host_unreachable"
    before = bench.data()["boot"]
    bench.change(boot=before + 1)
    measured(bench.run(layers=LAYERS[:1], prepare={"fill": True}))
    assert bench.calls("engine_start") == 3
    assert not bench.data()["folders"]


def test_beside_another_testbeds_run_nothing_is_measured(bench, monkeypatch):
    with unreachable_once_started(bench, monkeypatch):
        assert (
            code(bench.run(layers=LAYERS[:1], workload={**QUICK, "runtime_s": 600}, testbed_id="other"))
            == "host_unreachable"
        )
    refused = bench.run(layers=LAYERS[:1])
    assert code(refused) == "run_active"
    assert "other" in refused["msg"]
    ended = bench.run(module=win_benchmark, state="absent", testbed_id="other")
    assert ended["changed"] is True
    assert bench.data()["tasks"] == {}
    assert bench.run(module=win_benchmark, state="absent", testbed_id="other")["changed"] is False
    assert len(measured(bench.run(layers=LAYERS[:1]))) == 1


def test_what_cannot_be_measured_on_a_windows_host_is_refused(bench):
    for arguments, variable in (
        ({"steady_state": True}, "steady_state"),
        ({"windows": {"root": "C:\\two words"}}, "benchmark_windows.root"),
        ({"engine": "iometer", "workload": {**QUICK, "rate_iops": 100}}, "rate_iops"),
    ):
        refused = bench.run(**arguments)
        assert refused["failed"]
        assert variable in refused["msg"]
    assert bench.calls("engine_start") == 0


@pytest.mark.parametrize("engine", ["fio", "diskspd", "iometer"])
@pytest.mark.parametrize(
    ("asked", "variable"),
    [
        ({"range": {"offset_bytes": 20 * MIB, "size_bytes": 5 * MIB}}, "workload.range"),
        ({"range": {"offset_bytes": 24 * MIB}}, "workload.range"),
        ({"block_size": "32m"}, "workload.block_size"),
    ],
)
def test_what_lies_beyond_the_end_of_a_layer_is_refused_before_anything_runs(bench, engine, asked, variable):
    refused = bench.run(
        engine=engine,
        windows={"program": {"fio": FIO, "diskspd": DISKSPD, "iometer": IOMETER}[engine]},
        layers=LAYERS[:1],
        workload={**QUICK, **asked},
    )
    assert code(refused) == "bad_value"
    assert refused["msg"].startswith(f"{variable} is ")
    assert bench.calls("engine_start") == 0


@pytest.mark.parametrize(("number", "place"), [("1", 0), ("2", 1)])
def test_iometer_is_not_run_on_disks_whose_sectors_it_would_miscount(bench, number, place):
    disks = {**HOST["disks"], **DISKS, number: {**DISKS[number], "sector_bytes": 4096}}
    bench.change(disks=disks)
    refused = bench.run(engine="iometer", windows={"program": IOMETER}, layers=[LAYERS[place]])
    assert code(refused) == "workload_unsupported"
    assert LAYERS[place]["path"] in refused["msg"]
    assert "4096" in refused["msg"]
    assert bench.calls("engine_start") == 0
    assert len(measured(bench.run(engine="diskspd", windows={"program": DISKSPD}, layers=[LAYERS[place]]))) == 1


def test_names_that_windows_has_no_room_for_are_refused(bench):
    refused = bench.run(run_id="r" * 190)
    assert code(refused) == "bad_value"
    assert refused["msg"].startswith("run_id is 'rrr")
    assert bench.calls("engine_host") == 0
    assert len(measured(bench.run(run_id="r" * 180, layers=LAYERS[:1]))) == 1


def test_engines_of_windows_are_refused_elsewhere(bench):
    refused = bench.run(on_windows=False, engine="diskspd")
    assert code(refused) == "bad_value"
    assert "diskspd" in refused["msg"]


def test_the_ceiling_is_fios_alone(bench):
    ceiling = {
        "name": "ceiling-win01",
        "kind": "ceiling",
        "host": "win01",
        "path": None,
        "parent": None,
        "purpose": "scratch",
        "size_bytes": 1 << 30,
        "identity": {},
    }
    points = measured(bench.run(layers=[ceiling, LAYERS[0]]))
    assert [point["layer"] for point in points] == ["ceiling-win01", "backing-bench"]
    other = bench.run(layers=[ceiling, LAYERS[0]], engine="diskspd", run_id="two", windows={"program": DISKSPD})
    assert [point["layer"] for point in measured(other)] == ["backing-bench"]
    assert other["skipped_layers"] == ["ceiling-win01"]


URL = "https://files.lab.example/fio-3.42-x64.msi"
CHECKSUM = hashlib.sha256(b"fio").hexdigest()


def test_an_engine_is_brought_and_taken_away_again(bench):
    bench.change(
        programs={}, downloads={URL: {"sha256": CHECKSUM, "installs": {FIO: {"engine": "fio", "version": "fio-3.42"}}}}
    )
    missing = bench.run(module=win_benchmark)
    assert code(missing) == "engine_missing"
    wrong = bench.run(module=win_benchmark, download={"url": URL, "checksum": "0" * 64})
    assert code(wrong) == "download_failed"
    assert bench.data()["programs"] == {}
    # What was begun is taken away again.
    assert [step["op"] for step in bench.run(module=win_benchmark, state="absent")["steps"]] == ["folder"]
    ahead = bench.run(module=win_benchmark, check=True, download={"url": URL, "checksum": CHECKSUM})
    assert [step["op"] for step in ahead["steps"]] == ["folder", "download", "install"]
    assert bench.data()["programs"] == {}
    brought = bench.run(module=win_benchmark, download={"url": URL, "checksum": CHECKSUM})
    assert (brought["changed"], brought["program"]) == (True, FIO)
    assert bench.run(module=win_benchmark, download={"url": URL, "checksum": CHECKSUM})["changed"] is False
    gone = bench.run(module=win_benchmark, state="absent")
    assert gone["changed"] is True
    assert bench.data()["programs"] == {}
    assert bench.run(module=win_benchmark, state="absent")["changed"] is False


def test_several_engines_are_taken_away_together(bench):
    other = "https://files.lab.example/DiskSpd.zip"
    bench.change(
        programs={},
        downloads={
            URL: {"sha256": CHECKSUM, "installs": {FIO: {"engine": "fio", "version": "fio-3.42"}}},
            other: {
                "sha256": "ab" * 32,
                "installs": {
                    "C:\\storlab\\tools\\lab\\diskspd\\amd64\\diskspd.exe": {"engine": "diskspd", "version": "2.2"}
                },
            },
        },
    )
    for engine, download in (
        ("fio", {"url": URL, "checksum": CHECKSUM}),
        ("diskspd", {"url": other, "checksum": "ab" * 32}),
    ):
        assert bench.run(module=win_benchmark, engine=engine, download=download)["changed"] is True
        assert bench.run(module=win_benchmark, engine=engine, download=download)["changed"] is False
    assert len(bench.data()["programs"]) == 2
    assert bench.run(module=win_benchmark, state="absent")["changed"] is True
    assert (bench.data()["programs"], bench.data()["folders"]) == ({}, {})


def test_an_engine_that_was_there_stays(bench):
    assert bench.run(module=win_benchmark, program=FIO, download={"url": URL, "checksum": CHECKSUM})["changed"] is False
    assert bench.run(module=win_benchmark, state="absent")["changed"] is False
    assert FIO in bench.data()["programs"]


@pytest.mark.parametrize(
    "download",
    [
        {"url": URL},
        {"url": "ftp://files.lab.example/fio.msi", "checksum": CHECKSUM},
        {"url": "https://x/fio.tar", "checksum": CHECKSUM},
    ],
)
def test_downloads_that_cannot_be_proven_are_refused(bench, download):
    refused = bench.run(module=win_benchmark, download=download)
    assert code(refused) == "bad_value"
    assert "benchmark_windows_download" in refused["msg"]


def test_what_else_runs_beside_the_engine_is_named_and_left(bench, monkeypatch):
    bench.change(beside=["Dynamo.exe (77)"])
    words: list = []
    monkeypatch.setattr(benchmark.display, "warning", words.append)
    measured(bench.run(engine="iometer", layers=LAYERS[:1], windows={"program": IOMETER}))
    assert [line for line in words if "Dynamo.exe (77)" in line and "[win01]" in line]
    words.clear()
    bench.change(beside=[])
    measured(bench.run(engine="iometer", layers=LAYERS[:1], windows={"program": IOMETER}, run_id="two"))
    assert [line for line in words if "left alone" in line] == []
