# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Observers: cutting what was counted to a benchmark's time, clocks that differ, and the daemon itself."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import actions
import pytest
from ansible_collections.storlab.testbed.plugins.action import benchmark_observer as action
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.times import unix_s
from ansible_collections.storlab.testbed.plugins.module_utils.linux import daemon
from ansible_collections.storlab.testbed.plugins.module_utils.result import result as schema
from ansible_collections.storlab.testbed.plugins.module_utils.run import observer
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import run_folder
from unchanged import refused
from waiting import until

# The clock of the samples began to count at BOOT.
BOOT = 1_795_000_000.0
TICKS = os.sysconf("SC_CLK_TCK")


def sample(second, busy_s, received, unix_s=None):
    """What a host with two processors would have counted: busy seconds since boot, all of them user time of the first."""
    idle = int(second * 2 * TICKS - busy_s * TICKS)
    return {
        "monotonic_s": float(second),
        "unix_s": BOOT + second if unix_s is None else unix_s,
        "cpu_ticks": {
            "all": [int(busy_s * TICKS), 0, 0, idle, 0, 0, 0, 0],
            "0": [int(busy_s * TICKS), 0, 0, int((second - busy_s) * TICKS), 0, 0, 0, 0],
            "1": [0, 0, 0, int(second * TICKS), 0, 0, 0, 0],
        },
        "interrupts": second * 7,
        "context_switches": second * 11,
        "network": {"eth0": [received, 3 * second]},
    }


# Idle until second 103, then half a second busy in each second and 1000 bytes received, until 108.
SAMPLES = [
    sample(second, 10 + 0.5 * min(max(second - 103, 0), 5), 1000 * min(max(second - 103, 0), 5))
    for second in range(100, 112)
]


def test_whole_seconds_are_cut_as_counted():
    found = observer.cut(SAMPLES, BOOT + 103, BOOT + 107)
    assert found["interval_s"] == 4.0
    assert found["cpu"]["host_busy_s"] == 2.0
    assert found["cpu"]["host_busy_percent"] == 25.0
    assert found["cpu"]["busiest_core_percent"] == 50.0
    assert found["network"] == {"eth0": {"rx_bytes": 4000, "tx_bytes": 12}}
    assert (found["interrupts"], found["context_switches"]) == (28, 44)
    assert found["edges"] == "interpolated"


def counting(second, busy_from, busy_to):
    """A sample with a device that does 200 reads a second, each 3 ms, in these seconds only; counts of other fields grow all the time."""
    active = min(max(second - busy_from, 0), busy_to - busy_from)
    counts = [7 + 200 * active, 0, 1600 * active, 600 * active, 0, 0, 0, 0, 0, 1, 5]
    return {**sample(second, 0, 0), "layers": {"raid": {"name": "md0", "counts": counts}}}


def test_layers_are_counted_by_samples_that_lie_inside():
    """The I/O stops at 107.5, between two samples: interpolation would miss a third of its last second, the samples inside miss nothing."""
    samples = [counting(second, 100, 107.5) for second in range(100, 112)]
    layer = observer.cut(samples, BOOT + 102.5, BOOT + 107.5)["layers"]["raid"]
    assert (layer["interval_s"], layer["read"]["ios"], layer["in_flight"]) == (4.0, 800, 0.6)
    assert observer.cut(samples, BOOT + 102.5, BOOT + 107.5, 0.0, 0.75)["layers"]["raid"]["interval_s"] == 2.0
    assert "layers" not in observer.cut(samples, BOOT + 102.25, BOOT + 103.75)


def test_the_edges_are_interpolated():
    found = observer.cut(SAMPLES, BOOT + 102.5, BOOT + 104.25)
    assert found["interval_s"] == 1.75
    assert found["network"]["eth0"]["rx_bytes"] == 1250
    assert found["cpu"]["host_busy_s"] == pytest.approx(0.62, abs=0.011)


@pytest.mark.parametrize("ahead_s", [-4000.75, 0.25])
def test_the_clocks_difference_is_taken_into_account(ahead_s):
    moved = [{**one, "unix_s": one["unix_s"] + ahead_s} for one in SAMPLES]
    assert observer.cut(moved, BOOT + 104, BOOT + 106, ahead_s) == observer.cut(SAMPLES, BOOT + 104, BOOT + 106)


@pytest.mark.parametrize(("started", "finished"), [(99.0, 105.0), (105.0, 111.5), (120.0, 130.0)])
def test_time_that_was_not_observed_is_refused(started, finished):
    with pytest.raises(Failure) as failure:
        observer.cut(SAMPLES, BOOT + started, BOOT + finished)
    assert failure.value.code == "not_observed"


def test_a_gap_in_the_samples_is_refused():
    with pytest.raises(Failure, match=r"gap of 5\.0 s"):
        observer.cut([one for one in SAMPLES if not 104 < one["monotonic_s"] < 109], BOOT + 102, BOOT + 110)


def test_a_clock_that_was_set_meanwhile_is_refused():
    moved = [one if one["monotonic_s"] < 105 else {**one, "unix_s": one["unix_s"] + 0.75} for one in SAMPLES]
    with pytest.raises(Failure) as failure:
        observer.cut(moved, BOOT + 102, BOOT + 108)
    assert failure.value.code == "clock_set"


def test_no_samples_at_all_is_refused():
    with pytest.raises(Failure):
        observer.cut([], BOOT, BOOT + 1)


def test_times_of_results_are_read_as_utc():
    assert unix_s("2026-11-21T16:33:10.123Z") == pytest.approx(1795278790.123)
    assert unix_s("2026-11-21T16:33:10Z") == 1795278790


def result(**other):
    return {"schema": schema.SCHEMA, "host": "initiator", "flags": [], "total": {"iops": 500.0, "ios": 2000}, **other}


def test_the_time_to_cut_to_is_what_the_measuring_host_counted_itself():
    counted = {
        "started_utc": "2026-11-21T16:33:11.250Z",
        "finished_utc": "2026-11-21T16:33:15.000Z",
        "interval_s": 3.75,
    }
    assert observer.measured_interval(result(counters=counted)) == (
        pytest.approx(1795278791.25),
        pytest.approx(1795278795.0),
    )


@pytest.mark.parametrize(
    "counted",
    [
        {},
        {"interval_s": 3.75},
        {"started_utc": "2026-11-21T16:33:11.250Z", "finished_utc": "2026-11-21T16:33:15.000Z", "interval_s": 3.0},
    ],
)
def test_a_time_that_nobody_counted_or_that_has_pauses_is_none(counted):
    assert observer.measured_interval(result(counters=counted)) is None


def test_of_many_hosts_the_time_that_all_certainly_measured():
    """Started at 10, a ramp of 2 s, measured for 9 and 9.5 s, ended at 24.5: it began before 15.5 and went on until 21 at least."""
    times = {
        "started_utc": "2026-11-21T16:33:10.000Z",
        "finished_utc": "2026-11-21T16:33:24.500Z",
        "workload": {"ramp_s": 2},
    }
    told = result(clients=[{"runtime_s": 9.5}, {"runtime_s": 9.0}], **times)
    assert observer.measured_interval(told) == (pytest.approx(1795278795.5), pytest.approx(1795278801.0))
    assert observer.measured_interval({**told, "clients": [{"runtime_s": 6.0}]}) is None
    assert observer.measured_interval({**told, "clients": [{"host": "lost"}]}) is None


def test_all_exchanges_together_bound_the_clocks_difference():
    """The first says between -1 and 5, the second between 1.9 and 2.1, the third, whose answer came late, at most 2.04."""
    assert observer.clock_offset([(10.0, 15.0, 16.0), (20.0, 22.1, 20.2), (30.0, 32.04, 31.5)]) == (
        pytest.approx(1.97),
        pytest.approx(0.07),
    )


def test_exchanges_that_contradict_each_other_are_refused():
    with pytest.raises(Failure) as failure:
        observer.clock_offset([(20.0, 22.1, 20.2), (30.0, 35.1, 30.2)])
    assert failure.value.code == "clock_set"


def test_the_processors_cost_is_of_the_results_io():
    """2 busy seconds in 4 s are half a processor: at 500 IOPS 1000 us an I/O, and with 2400 MHz 2.4 MHz for each I/O per second."""
    figures = observer.cut(SAMPLES, BOOT + 103, BOOT + 107)
    figures["cpu"]["mhz"] = 2400.0
    found = observer.addition(result(layer="initiator-a"), "target", figures, {})["counters"]
    assert "layers" not in found["hosts"]["target"]
    assert (found["hosts"]["target"]["cpu"]["us_per_io"], found["hosts"]["target"]["cpu"]["mhz_per_iops"]) == (
        1000.0,
        2.4,
    )


def test_layers_that_the_io_does_not_go_through_are_not_added():
    layers = {
        name: {"name": name, "parent": parent, "host": host}
        for name, parent, host in (
            ("guest", "lun", "vm"),
            ("lun", "raid", "hypervisor"),
            ("raid", None, "target"),
            ("other", None, "target"),
        )
    }
    # The LUN is another host's, which speaks for it.
    counted = {"raid": {"name": "md0"}, "other": {}, "lun": {"name": "sdb"}}
    figures = {**observer.cut(SAMPLES, BOOT + 103, BOOT + 107), "layers": counted}
    added = observer.addition(result(layer="guest"), "target", figures, layers)["counters"]["hosts"]["target"]
    assert added["layers"] == {"raid": {"name": "md0"}}


def test_only_layers_of_the_host_that_can_be_read_are_counted():
    layers = {
        name: {"host": host, "path": path, "kind": kind}
        for name, host, path, kind in (
            ("raid", "target", "/dev/md0", "backing"),
            ("export", "target", None, "target"),
            ("lun", "initiator", "/dev/sdb", "initiator"),
            ("ceiling", "target", None, "ceiling"),
        )
    }
    assert action.paths_of(layers, "target") == {"raid": "/dev/md0"}


# ---------------------------------------------------------------- the controller's files


def test_results_of_others_that_lack_this_host_are_found(tmp_path):
    folder = tmp_path / "points"
    for name, one in {
        "a": {"host": "initiator"},
        "b": {"host": "target"},
        "c": {"host": "initiator", "counters": {"hosts": {"target": {}}}},
        "d": {"host": "initiator", "total": None},
    }.items():
        (folder / name).mkdir(parents=True)
        content = {**result(), **one}
        (folder / name / "result.json").write_text(
            json.dumps({key: value for key, value in content.items() if value is not None})
        )
    assert {host: list(points) for host, points in action.unobserved(str(tmp_path), "target").items()} == {
        "initiator": ["a"]
    }
    assert action.unobserved(str(tmp_path / "none"), "target") == {}


def test_clocks_are_compared_through_the_controllers(tmp_path):
    run_folder.remember_clock(str(tmp_path), "target", {"offset_s": 1.25, "uncertain_s": 0.01})
    run_folder.remember_clock(str(tmp_path), "initiator", {"offset_s": -0.5, "uncertain_s": 0.03})
    clocks = run_folder.clocks(str(tmp_path))
    assert run_folder.clock_between(clocks["target"], clocks["initiator"]) == {
        "clock_offset_s": 1.75,
        "clock_uncertain_s": 0.04,
    }
    assert run_folder.clock_between(clocks["target"], None) is None


@pytest.fixture
def started(tmp_path, monkeypatch):
    """started(): what is kept of the host target once its observer has answered with this fingerprint."""

    def run(fingerprint, check=False):
        asked = {"testbed_id": "lab", "run_id": "r", "results_dir": str(tmp_path), "layers": {}}
        started = actions.make(action, asked, check=check)
        monkeypatch.setattr(started, "_clock", lambda host: {"offset_s": 0.0, "uncertain_s": 0.01})
        monkeypatch.setattr(
            started,
            "_execute_module",
            lambda module_name, module_args, task_vars: {
                "changed": True,
                "layers": [],
                "environment": fingerprint,
            },
        )
        assert not started.run(task_vars={"inventory_hostname": "target"}).get("failed")
        return run_folder.environment(str(tmp_path / "lab/r"), "target")

    return run


def test_a_host_that_is_not_measured_itself_is_described(started):
    """Of a run that measures nothing but disks of a guest: what its storage server was is known, too."""
    assert started({"kernel": {"release": "6.1.7"}}) == {"host": "target", "kernel": {"release": "6.1.7"}}
    # A run goes on after the host has got another kernel: it is as it was last.
    assert started({"kernel": {"release": "6.1.9"}}) == {"host": "target", "kernel": {"release": "6.1.9"}}


def test_what_a_measured_host_told_of_itself_stays(started, tmp_path):
    run_folder.write_host(
        str(tmp_path / "lab/r"), "target", {"kernel": {"release": "6.1.7"}, "engine": {"name": "fio"}}
    )
    assert started({"kernel": {"release": "6.1.8"}})["engine"] == {"name": "fio"}


def test_check_mode_describes_nothing(started):
    assert started({"kernel": {"release": "6.1.7"}}, check=True) == {}


# ---------------------------------------------------------------- the daemon


@pytest.fixture
def base(tmp_path):
    folder = str(tmp_path / "state")
    yield folder
    observer.stop("t", folder)


def kept(base):
    folder = Path(observer.observer_dir("t", base))
    return observer.read_samples(str(folder))


def pid_of(base):
    return json.loads(Path(observer.observer_dir("t", base), "supervisor.json").read_text())["pid"]


def test_it_counts_once_a_second_until_it_is_stopped(base):
    assert observer.start("t", {"gone": "/dev/nope"}, 60, base) == {"changed": True, "layers": []}
    until(lambda: len(kept(base)) >= 4)
    first, *_between, last = kept(base)
    spins = time.process_time()
    while time.process_time() - spins < 1.2:
        pass
    until(lambda: kept(base)[-1]["monotonic_s"] > last["monotonic_s"] + 2.5)
    seen = observer.collect(
        "t", {"x": [last["unix_s"], last["unix_s"] + 2.2], "before": [first["unix_s"] - 9, first["unix_s"]]}, 0.0, base
    )
    assert seen["observed"]["x"]["cpu"]["host_busy_s"] >= 0.9
    assert seen["observed"]["x"]["interval_s"] == pytest.approx(2.2, abs=0.05)
    assert list(seen["missed"]) == ["before"]
    pid = pid_of(base)
    assert observer.start("t", {}, 60, base) == {"changed": False, "layers": []}
    assert pid_of(base) == pid
    assert observer.stop("t", base, dry_run=True) == {"changed": True}
    assert daemon.start_ticks(pid)
    assert observer.stop("t", base) == {"changed": True}
    assert daemon.start_ticks(pid) is None and not os.path.exists(base)
    assert observer.stop("t", base) == {"changed": False}
    with refused(Path(base)) as failure:
        observer.collect("t", {}, 0.0, base)
    assert failure.value.code == "observer_missing"


def test_dry_run_starts_nothing(base):
    assert observer.start("t", {}, 60, base, dry_run=True) == {"changed": True, "layers": []}
    assert not os.path.exists(base)


def test_it_ends_at_its_deadline_and_leaves_what_it_counted(base):
    observer.start("t", {}, 1, base)
    pid = pid_of(base)
    until(lambda: daemon.start_ticks(pid) is None)
    assert kept(base)


def test_it_is_quiet_while_its_own_host_is_measured(base):
    """A run is a folder of the testbed with a supervisor that lives; here a process of the test stands in for it."""
    run = Path(base, "t", "bench", "one")
    run.mkdir(parents=True)
    other = subprocess.Popen(["sleep", "60"])
    (run / "supervisor.json").write_text(json.dumps({"pid": other.pid, "start_ticks": daemon.start_ticks(other.pid)}))
    observer.start("t", {}, 60, base)
    folder = Path(observer.observer_dir("t", base))
    until(lambda: (folder / "deadline.json").exists())
    moment = time.monotonic()
    until(lambda: time.monotonic() > moment + 2.2)
    assert kept(base) == []
    other.kill()
    other.wait()
    until(lambda: len(kept(base)) >= 2)
    (run / "supervisor.json").unlink()
    run.rmdir()


def test_what_is_kept_is_bounded(base, tmp_path, monkeypatch):
    monkeypatch.setattr(observer, "FILE_BYTES", 300)
    one = observer.Observer(str(tmp_path), {})
    for number in range(100):
        one._keep(json.dumps({"number": number}))
    numbers = [found["number"] for found in observer.read_samples(str(tmp_path))]
    assert numbers == list(range(numbers[0], 100)) and 15 < len(numbers) <= 40
    assert sum(path.stat().st_size for path in tmp_path.glob("samples*")) <= 600
