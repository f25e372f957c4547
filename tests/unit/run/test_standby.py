# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A supervisor that stays between two turns: it takes the plan of the next one from whoever claims it, once, and ends by itself when no one does."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import threading
from pathlib import Path

import pytest
import run_plan
from ansible_collections.storlab.testbed.plugins.module_utils.linux import daemon
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import memory_use as memory
from ansible_collections.storlab.testbed.plugins.module_utils.run import beat, observer, runner, standby
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import linux_runner, theirs
from unchanged import refused
from waiting import until

CEILING = {"name": "ceiling-x", "kind": "ceiling", "host": "here", "path": None, "size_bytes": 2 << 20, "identity": {}}
AMOUNT = normalise({"ramp_s": 0, "loops": 1})
NONE = dict.fromkeys(("total_ios", "io_bytes", "iops", "bw_bytes", "runtime"), 0)
READ = {"total_ios": 1000, "io_bytes": 4096000, "iops": 2000, "bw_bytes": 8192000, "runtime": 500}
JOB = {"jobname": "job", "error": 0, "job options": {}, "read": READ, "write": NONE}


def turn(number: int, **more) -> dict:
    point = {**run_plan.point("ceiling-x", AMOUNT), "point_id": f"ceiling-x.r{number}", "repetition": number}
    return run_plan.plan([CEILING], [point], **more)


@pytest.fixture
def base(tmp_path, monkeypatch):
    """A folder for testbeds, and a script in the place of fio that counts its starts."""
    (tmp_path / "good").write_text(json.dumps({"fio version": "fio-3.33", "jobs": [JOB]}), encoding="utf-8")
    engine = tmp_path / "bin" / "fio"
    engine.parent.mkdir()
    engine.write_text(
        f'#!/bin/sh\nfor argument; do case $argument in --output=*) cp {tmp_path}/good "${{argument#--output=}}";; esac; done\n',
        encoding="utf-8",
    )
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", str(engine.parent), prepend=os.pathsep)
    monkeypatch.setattr(memory, "COPY_S", 0.01)
    monkeypatch.setattr(standby, "LOOK_S", 0.01)
    yield str(tmp_path / "base")
    runner.stop("t", remove=True, base=str(tmp_path / "base"), discard=True)


class Controller:
    """The controller's half, with the host's own shell; starts counts the calls of the module."""

    def __init__(self, base, tmp_path):
        self.base, self.results, self.starts, self.taken = base, str(tmp_path / "results"), 0, []

    def module(self, arguments):
        if arguments["action"] == "status":
            return runner.status("t", "one", self.base)
        self.starts += 1
        return runner.start(arguments["plan"], self.base)

    def command(self, text):
        done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
        return {"rc": done.returncode, "stdout": done.stdout, "stderr": done.stderr}

    def of_run(self) -> linux_runner.LinuxRun:
        span = theirs.Span("here", None)
        take = lambda archive, _plan: self.taken.append(archive)  # noqa: E731
        return linux_runner.LinuxRun(
            "here", self.results, self.module, lambda: None, self.command, take, lambda _state: None, span
        )

    def play(self, plan, waiting=None):
        """The supervisor that waits after this turn."""
        run = self.of_run()
        assert run.run(plan, 0.1, waiting) is False
        return run.runner


@pytest.fixture
def controller(base, tmp_path, monkeypatch):
    monkeypatch.setattr(linux_runner, "LAST_POLL_S", 0.01)
    return Controller(base, tmp_path)


def test_one_process_measures_all_turns_of_a_host_and_is_gone_after_the_last(controller, base):
    first = controller.play(turn(1, stays=True))
    folder = Path(first["state_dir"])
    assert daemon.alive(str(folder)) and standby.waits(str(folder)) and not list((folder / "done").iterdir())
    second = controller.play(turn(2, stays=True), first)
    assert second == first and [path.name for path in (folder / "points").iterdir()] == ["ceiling-x.r2"]
    assert controller.play(turn(3), second) is None
    assert (controller.starts, len(controller.taken)) == (1, 3)
    assert not folder.exists()
    until(lambda: daemon.start_ticks(first["pid"]) is None)


def test_a_turn_begins_with_a_start_where_the_process_is_gone(controller):
    first = controller.play(turn(1, stays=True))
    os.kill(first["pid"], signal.SIGKILL)
    until(lambda: daemon.start_ticks(first["pid"]) is None)
    assert controller.play(turn(2, stays=True), first)["pid"] != first["pid"]
    assert (controller.starts, len(controller.taken)) == (2, 2)


@pytest.mark.parametrize("change", [{"boot_id": "another"}, {"pid": 1}, {"state_dir": "/nowhere/one"}])
def test_the_process_of_another_start_is_not_claimed(controller, change):
    first = controller.play(turn(1, stays=True))
    controller.play(turn(2), {**first, **change})
    assert controller.starts == 2


def test_a_turn_that_is_refused_fails_with_the_reason_and_keeps_what_was_measured(controller):
    first = controller.play(turn(1, stays=True))
    broken = turn(2)
    broken["layers"] = [{**CEILING, "path": "/nowhere/disk", "purpose": "scratch"}]
    with refused("device_missing"):
        controller.play(broken, first)
    assert len(controller.taken) == 1 and not Path(first["state_dir"]).exists()
    until(lambda: daemon.start_ticks(first["pid"]) is None)


def test_a_turn_that_does_not_come_ends_the_process(controller):
    first = controller.play(turn(1, stays=True))
    controller.of_run().dismiss(first)
    until(lambda: daemon.start_ticks(first["pid"]) is None)
    assert not Path(first["state_dir"]).exists()


@pytest.mark.parametrize("untaken", [[], [1]])
def test_a_process_that_nobody_claims_ends_and_leaves_only_what_is_not_taken(base, monkeypatch, untaken):
    monkeypatch.setattr(standby, "WAIT_S", 0.0)
    monkeypatch.setattr(runner, "uncollected", lambda _folder: untaken)
    began = runner.start(turn(1, stays=True), base)
    until(lambda: daemon.start_ticks(began["pid"]) is None)
    assert Path(began["state_dir"]).exists() is bool(untaken)
    assert not untaken or not standby.waits(began["state_dir"])


def test_a_waiting_process_is_no_run_that_measures(controller, base):
    """For the observer of its host, for another run of its testbed and for the same one after its playbook was killed; for others it is one."""
    first = controller.play(turn(1, stays=True))
    watch = observer.Observer(str(Path(base) / "t" / "observer"), {})
    assert watch._measured_here() is False
    with refused("run_active"):
        runner.start({**turn(1), "testbed_id": "other"}, base)
    assert daemon.alive(first["state_dir"]) and standby.waits(first["state_dir"])
    again = runner.start(turn(2, stays=True), base)
    assert again["joined"] is False and again["pid"] != first["pid"]
    until(lambda: standby.waits(again["state_dir"]))
    other = runner.start({**turn(1), "run_id": "two"}, base)
    assert other["joined"] is False and daemon.start_ticks(again["pid"]) is None


def test_stop_ends_a_process_that_waits(controller, base):
    first = controller.play(turn(1, stays=True))
    assert runner.stop("t", remove=True, base=base)["stopped"] == [first["state_dir"]]
    assert daemon.start_ticks(first["pid"]) is None and not Path(first["state_dir"]).exists()


def test_a_plan_that_no_command_can_carry_is_started(controller, monkeypatch):
    monkeypatch.setattr(linux_runner, "LARGEST_PLAN_CHARACTERS", 10)
    first = controller.play(turn(1, stays=True))
    controller.play(turn(2), first)
    assert controller.starts == 2


# ---------------------------------------------------------------- the claim by itself


def test_one_claim_in_the_last_moment_is_still_served(tmp_path, monkeypatch):
    monkeypatch.setattr(standby, "WAIT_S", 0.0)
    monkeypatch.setattr(standby, "LOOK_S", 0.01)
    standby.announce(str(tmp_path))
    (tmp_path / standby.WAITING).rename(tmp_path / standby.CLAIMED)

    def leave():
        (tmp_path / "new").write_text(standby.packed({"points": [7]}))
        (tmp_path / "new").rename(tmp_path / standby.NEXT)

    late = threading.Timer(0.1, leave)
    late.start()
    assert standby.next_plan(str(tmp_path), lambda: False) == {"points": [7]}
    late.join()


def test_a_plan_of_the_turn_before_is_not_taken_again(tmp_path):
    (tmp_path / standby.NEXT).write_text(standby.packed({"points": [5]}))
    standby.announce(str(tmp_path))
    assert standby.waits(str(tmp_path)) and stat.S_IMODE((tmp_path / standby.WAITING).stat().st_mode) == 0o600
    assert standby.next_plan(str(tmp_path), lambda: True) is None


def test_the_beat_of_the_turn_before_is_gone(controller):
    first = controller.play(turn(1, stays=True))
    old = Path(first["state_dir"], beat.FILE)
    old.write_text("{}")
    controller.play(turn(2, stays=True), first)
    assert not old.exists()
