# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host keeps of its runs: which are joined, refused, ended, removed and collected. A process that waits stands in for the supervisor."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import run_plan
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux import daemon, memory_limits
from ansible_collections.storlab.testbed.plugins.module_utils.run import runner
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from unchanged import refused, unchanged
from waiting import until

CEILING = {"name": "ceiling-x", "kind": "ceiling", "host": "here", "path": None, "size_bytes": 2 << 20}
OTHER = {**CEILING, "name": "ceiling-y"}
POINTS = [run_plan.point("ceiling-x", normalise({"runtime_s": seconds})) for seconds in (5, 7)]
PLAN = run_plan.plan([CEILING], POINTS)


class Host:
    """A host's folder for testbeds, and the runs in it."""

    def __init__(self, base: Path) -> None:
        self.base, self.processes = base, []

    def run(self, plan: dict = PLAN, running: bool = False, done: tuple = (), boot_id: str | None = None) -> Path:
        folder = Path(runner.state_dir(plan["testbed_id"], plan["run_id"], str(self.base)))
        (folder / "done").mkdir(parents=True)
        for number in done:
            (folder / "done" / str(number)).write_text("packed")
        (folder / "plan.json").write_text(json.dumps({"plan": plan, "boot_id": boot_id or runner.boot_id()}))
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL)
        self.processes.append(process)
        until(lambda: daemon.start_ticks(process.pid))
        record = {"pid": process.pid, "start_ticks": daemon.start_ticks(process.pid)}
        (folder / "supervisor.json").write_text(json.dumps(record))
        if not running:
            process.kill()
            process.wait()
        return folder


@pytest.fixture
def host(tmp_path):
    made = Host(tmp_path / "base")
    yield made
    for process in made.processes:
        process.kill()
        process.wait()


# ---------------------------------------------------------------- what covers what


@pytest.mark.parametrize(
    ("change", "covered"),
    [
        ({}, True),
        ({"points": POINTS[1:]}, True),
        ({"points": []}, True),
        ({"points": [*POINTS, run_plan.point("ceiling-x", normalise({"runtime_s": 9}))]}, False),
        ({"layers": [CEILING, OTHER]}, False),
        ({"layers": [{**CEILING, "size_bytes": 4 << 20}]}, False),
        ({"prepared": {"ceiling-x": {"filled": True}}}, True),
        ({"repetitions": 3}, True),
        ({"beat": True}, True),
        ({"prepare": {"fill": True}}, False),
        ({"steady_state": {"window": 3}}, False),
    ],
)
def test_a_plan_covers_what_it_measures_in_the_same_way(change, covered):
    assert runner.covers(PLAN, {**PLAN, **change}) is covered


# ---------------------------------------------------------------- start


def test_a_run_that_measures_these_points_is_joined(host):
    folder = host.run(running=True)
    with unchanged(host.base):
        assert runner.start({**PLAN, "points": POINTS[1:]}, str(host.base)) == {
            "state_dir": str(folder),
            "pid": host.processes[0].pid,
            "joined": True,
            "alive": True,
            "boot_id": runner.boot_id(),
        }


def test_a_run_that_measures_something_else_is_left_alone(host):
    host.run(running=True)
    with refused(host.base) as caught:
        runner.start({**PLAN, "prepare": {"fill": True}}, str(host.base))
    assert caught.value.code == "run_exists"
    with refused(host.base) as caught:
        runner.start({**PLAN, "run_id": "two"}, str(host.base))
    assert (caught.value.code, caught.value.details["state_dir"]) == ("run_active", str(host.base / "t/bench/one"))
    with refused(host.base) as caught:
        runner.start({**PLAN, "testbed_id": "other"}, str(host.base))
    assert caught.value.code == "run_active"
    assert host.processes[0].poll() is None


def test_points_that_no_controller_has_are_joined_whatever_is_wanted(host):
    host.run(done=(1, 2))
    other = {**PLAN, "points": [run_plan.point("ceiling-x", normalise({"runtime_s": 9}))]}
    with unchanged(host.base):
        joined = runner.start(other, str(host.base))
    assert (joined["joined"], joined["alive"], joined["pid"]) == (True, False, host.processes[0].pid)


def test_a_process_of_an_earlier_start_of_the_machine_is_somebody_elses(host):
    folder = host.run(running=True, done=(1,), boot_id="before")
    joined = runner.start(PLAN, str(host.base))
    assert (joined["alive"], joined["boot_id"], joined["state_dir"]) == (False, "before", str(folder))


def test_what_is_left_of_a_run_without_points_makes_room(host, monkeypatch):
    folder, other = host.run(), host.run({**PLAN, "run_id": "two"}, done=(1,))
    monkeypatch.setattr(runner, "find_engine", lambda _name: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # the search for the engine begins when it is gone
        runner.start(PLAN, str(host.base))
    assert not folder.exists()
    assert runner.uncollected(str(other)) == [1]


@pytest.mark.parametrize("limit", ["", "/sys/fs/cgroup/a/memory.max"])
def test_buffers_that_the_host_has_no_memory_for_are_refused(limit, monkeypatch):
    monkeypatch.setattr(
        memory_limits, "memory", lambda _read: memory_limits.Memory(4096 << 20, 3 << 20, limit, 9 << 20)
    )
    point = run_plan.point("ceiling-x", normalise({"block_size": "1M", "queue_depth": 2, "workers": 2}))
    with pytest.raises(Failure) as caught:
        runner.check_layers(run_plan.plan([CEILING], [point]))
    assert caught.value.code == "memory_short"
    assert (caught.value.details["needed_bytes"], caught.value.details["available_bytes"]) == (4 << 20, 3 << 20)
    assert caught.value.details["limit"] == limit and limit in str(caught.value)
    monkeypatch.setattr(
        memory_limits, "memory", lambda _read: memory_limits.Memory(4096 << 20, 4 << 20, limit, 9 << 20)
    )
    runner.check_layers(run_plan.plan([CEILING], [point]))


def test_points_of_many_hosts_are_measured_once():
    point = {**POINTS[0], "servers": [{"host": "a"}]}
    runner.check_layers(run_plan.plan([CEILING], [point]))
    with pytest.raises(Failure) as caught:
        runner.check_layers(run_plan.plan([CEILING], [point], steady_state={"window": 3}))
    assert caught.value.details["variable"] == "steady_state"
    runner.check_layers(run_plan.plan([CEILING], POINTS, steady_state={"window": 3}))


# ---------------------------------------------------------------- stop


def test_a_run_is_ended_and_its_folder_stays(host):
    folder = host.run(running=True, done=(2,))
    with unchanged(host.base):
        assert runner.stop("t", base=str(host.base), dry_run=True)["stopped"] == [str(folder)]
    assert host.processes[0].poll() is None
    # The stand-in is a child of the test, which has to take note of its end.
    assert runner.stop("t", "one", base=str(host.base)) == {
        "changed": True,
        "stopped": [str(folder)],
        "removed": [],
        "areas": ["bench"],
        "uncollected": {"one": 1},
    }
    assert host.processes[0].wait() == -15
    assert runner.uncollected(str(folder)) == [2]
    again = runner.stop("t", "one", base=str(host.base))
    assert (again["changed"], again["stopped"]) == (False, [])


def test_points_that_nobody_has_are_deleted_only_when_that_is_wanted(host):
    one, two = host.run(done=(1, 4)), host.run({**PLAN, "run_id": "two"})
    with refused(host.base) as caught:
        runner.stop("t", remove=True, base=str(host.base))
    assert (caught.value.code, caught.value.details["runs"]) == ("run_uncollected", {"one": 2})
    assert "2 finished points" in str(caught.value)
    # The other run alone has none.
    assert runner.stop("t", "two", remove=True, base=str(host.base))["removed"] == [str(two)]
    assert one.exists()
    (one / "done/1").unlink()
    with refused(host.base, match="1 finished point on"):
        runner.stop("t", remove=True, base=str(host.base))
    answer = runner.stop("t", remove=True, base=str(host.base), discard=True)
    assert (answer["removed"], answer["areas"]) == ([str(one)], [])
    assert not host.base.exists()


def test_what_others_keep_beside_the_runs_stays(host):
    host.run()
    (host.base / "t/observer").mkdir()
    assert runner.stop("t", remove=True, base=str(host.base))["areas"] == ["observer"]
    assert [path.name for path in (host.base / "t").iterdir()] == ["observer"]
    assert runner.stop("t", remove=True, base=str(host.base))["changed"] is False
    assert runner.stop("nothing", base=str(host.base))["changed"] is False


# ---------------------------------------------------------------- collect


def test_an_archive_comes_in_pieces_with_its_digest_once(host, monkeypatch):
    folder = host.run()
    (folder / "points/p1").mkdir(parents=True)
    (folder / "points/p1/fio.json").write_bytes(os.urandom(5000))
    (folder / "host.json").write_text("{}")
    monkeypatch.setattr(runner, "CHUNK_BYTES", 2000)
    pieces = [runner.collect("t", "one", base=str(host.base))]
    while "next_offset" in pieces[-1]:
        pieces.append(runner.collect("t", "one", pieces[-1]["next_offset"], str(host.base)))
    whole = b"".join(base64.b64decode(piece["content"]) for piece in pieces)
    assert len(pieces) == -(-len(whole) // 2000) >= 3
    assert {piece["size_bytes"] for piece in pieces} == {len(whole)}
    assert [piece.get("sha256") for piece in pieces] == [hashlib.sha256(whole).hexdigest()] + [None] * (len(pieces) - 1)
    with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
        assert sorted(archive.getnames()) == ["host.json", "points", "points/p1", "points/p1/fio.json"]
        assert archive.extractfile("points/p1/fio.json").read() == (folder / "points/p1/fio.json").read_bytes()


def test_a_run_that_goes_on_or_never_was_is_not_collected(host):
    host.run(running=True)
    for run_id, code in (("one", "run_active"), ("two", "run_missing")):
        with refused(host.base) as caught:
            runner.collect("t", run_id, base=str(host.base))
        assert caught.value.code == code
