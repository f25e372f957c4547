# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a testbed, held by real processes that live, end and are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import actions
import pytest
from ansible_collections.storlab.testbed.plugins.action import testbed_lock as action
from ansible_collections.storlab.testbed.plugins.module_utils.linux import testbed_lock as lock
from unchanged import refused


@pytest.fixture
def other():
    """A process that is none of this one's ancestors, and runs until it is ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "state" / "lock")


def written(path: str, holder: dict) -> dict:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    assert lock.take(path, holder) is None
    return holder


def attempt(path: str, **arguments) -> dict:
    """What the task answers that wants the lock of the controller."""
    given = {"testbed_id": "lab", "state_dir": os.path.dirname(path), "purpose": "build", **arguments}
    return actions.make(action, given).run(task_vars={"inventory_hostname": "t1"})


def holder_in(path: str) -> dict:
    with open(path, encoding="utf-8") as handle:
        return json.load(handle)


def test_a_second_playbook_is_told_who_changes_the_testbed_and_since_when(path, other):
    there = written(path, lock.holder(other.pid, "teardown"))
    answer = attempt(path)
    assert answer["failed"] and answer["failure"]["code"] == "testbed_busy"
    for word in ("teardown", f"process {other.pid}", there["since_utc"], os.uname().nodename, there["user"]):
        assert word in answer["msg"]
    assert holder_in(path) == there


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_lock_of_a_process_that_has_ended_is_taken_however_it_ended(path, other, how):
    written(path, lock.holder(other.pid, "teardown"))
    other.send_signal(how)
    other.wait()
    assert "failed" not in attempt(path)
    assert (holder_in(path)["process"]["pid"], holder_in(path)["purpose"]) == (os.getppid(), "build")


def test_a_process_that_nobody_has_waited_for_holds_nothing(path, other):
    written(path, lock.holder(other.pid, "teardown"))
    os.kill(other.pid, signal.SIGKILL)
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    assert "failed" not in attempt(path)


def test_an_old_lock_is_held_and_a_new_one_of_an_earlier_process_of_that_number_is_not(path, other):
    there = lock.holder(other.pid, "teardown")
    written(path, {**there, "since_utc": "2001-02-03T04:05:06.000Z"})
    assert attempt(path)["failure"]["code"] == "testbed_busy"
    os.unlink(path)
    written(path, {**there, "process": {**there["process"], "start_ticks": "1"}})
    assert "failed" not in attempt(path)


@pytest.mark.parametrize(("machine_id", "held"), [("c" * 32, False), ("", True)])
def test_a_lock_of_an_earlier_boot_is_gone_where_the_machine_has_an_id(path, other, monkeypatch, machine_id, held):
    """Whether this machine has one is not for the test to say: a minimal one has none."""
    read_text = lock.read_text
    monkeypatch.setattr(
        lock,
        "read_text",
        lambda name, **rest: machine_id if name == "/etc/machine-id" else read_text(name, **rest),
    )
    there = lock.holder(other.pid, "teardown")
    written(path, {**there, "process": {**there["process"], "boot_id": "11111111-2222-3333-4444-555555555555"}})
    assert ("failed" in attempt(path)) is held


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"host": "ctl2", "machine_id": "b" * 32, "boot_id": "9"},
        {"pid_namespace": "pid:[1]"},
        # A clone of this machine has its machine id, and a container may have none and any name.
        {"host": "clone", "boot_id": "9"},
        {"machine_id": "", "boot_id": "9"},
    ],
)
def test_what_runs_elsewhere_is_held_until_it_is_named(path, other, elsewhere):
    there = lock.holder(other.pid, "teardown")
    there["process"].update(elsewhere)
    written(path, there)
    answer = attempt(path)
    assert answer["failure"]["code"] == "testbed_busy"
    named = f"{other.pid}@{there['process']['host']}"
    assert f"testbed_take_over to {named}" in answer["msg"]
    assert attempt(path, take_over=f"{other.pid + 1}@ctl9")["failed"] and holder_in(path) == there
    assert "failed" not in attempt(path, take_over=named)
    assert holder_in(path)["purpose"] == "build"


def test_nobody_can_name_away_a_process_that_is_seen_to_run(path, other):
    there = written(path, lock.holder(other.pid, "teardown"))
    assert attempt(path, take_over=lock.name(there))["failure"]["code"] == "testbed_busy"
    assert holder_in(path) == there


def test_the_same_playbook_and_those_that_it_starts_have_it_already(path):
    assert "failed" not in attempt(path) and "failed" not in attempt(path)
    os.unlink(path)
    # This process descends from its parent, as a playbook does that another one runs.
    grandparent = lock.holder(int(lock.read_text(f"/proc/{os.getppid()}/stat").rpartition(")")[2].split()[1]), "check")
    written(path, grandparent)
    assert "failed" not in attempt(path)
    assert holder_in(path) == grandparent


def test_it_is_given_back_by_who_took_it_for_what_it_was_taken(path, other):
    attempt(path, purpose="rebuild")
    attempt(path, state="released", purpose="teardown")
    assert holder_in(path)["purpose"] == "rebuild"
    attempt(path, state="released", purpose="rebuild")
    assert not os.path.exists(path)
    there = written(path, lock.holder(other.pid, "build"))
    attempt(path, state="released", purpose="build")
    assert holder_in(path) == there


def test_giving_back_what_is_not_there_makes_nothing(path):
    assert "failed" not in attempt(path, state="released")
    assert not os.path.exists(os.path.dirname(path))


def test_check_mode_needs_no_lock_and_takes_none(path, other):
    written(path, lock.holder(other.pid, "teardown"))
    given = {"testbed_id": "lab", "state_dir": os.path.dirname(path), "purpose": "build"}
    assert "failed" not in actions.make(action, given, check=True).run(task_vars={})
    assert holder_in(path)["purpose"] == "teardown"


@pytest.mark.parametrize("content", [b"", b'{"process": {"pid"', b"[]", b'{"process": 4}'])
def test_a_file_whose_writer_was_killed_is_nobodys(path, content):
    os.makedirs(os.path.dirname(path))
    with open(path, "wb") as handle:
        handle.write(content)
    assert "failed" not in attempt(path)
    assert holder_in(path)["purpose"] == "build"


def test_a_link_in_its_place_is_not_followed(path, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    os.makedirs(os.path.dirname(path))
    os.symlink(victim, path)
    assert attempt(path)["failure"]["code"] == "lock_unwritable"
    assert victim.read_text(encoding="utf-8") == "precious"


def test_of_many_at_once_one_gets_it(path, other):
    """All judge the same dead holder to be gone, and each wants its place."""
    gone = lock.holder(other.pid, "teardown")
    gone["process"]["start_ticks"] = "1"
    written(path, gone)
    wanting = [{**lock.holder(os.getpid(), "build"), "process": {"pid": number}} for number in range(24)]
    barrier, answers = threading.Barrier(len(wanting)), {}

    def want(one: dict) -> None:
        barrier.wait()
        answers[one["process"]["pid"]] = lock.take(path, one, gone)

    threads = [threading.Thread(target=want, args=(one,)) for one in wanting]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [pid for pid, found in answers.items() if found is None]
    assert len(winners) == 1
    assert holder_in(path)["process"] == {"pid": winners[0]}
    assert {found["process"]["pid"] for found in answers.values() if found} == set(winners)


class Host:
    """What a host answers: its lock is a file in a folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, _module, module_args, task_vars):
        if module_args.get("state") == "released":
            lock.release(self.path, module_args["holder"])
            return {"changed": False}
        found = lock.take(self.path, module_args["holder"], module_args["instead_of"])
        return {"changed": False, **({"holder": found} if found else {})}


def test_the_lock_of_a_host_is_judged_by_the_controller(tmp_path, other):
    path = lock.host_path("lab", str(tmp_path / "storlab"))
    assert path == f"{tmp_path}/storlab-lab.lock"

    def on_host(**arguments) -> dict:
        task = actions.make(action, {"where": "host", "testbed_id": "lab", "purpose": "build", **arguments})
        task._execute_module = Host(path)
        return task.run(task_vars={"inventory_hostname": "t1"})

    there = written(path, lock.holder(other.pid, "benchmark"))
    answer = on_host()
    assert answer["failure"]["code"] == "testbed_busy" and "(t1)" in answer["msg"] and holder_in(path) == there
    other.kill()
    other.wait()
    assert "failed" not in on_host() and holder_in(path)["purpose"] == "build"
    on_host(state="released")
    assert not os.path.exists(path)


def test_the_file_of_somebody_else_is_refused(path, monkeypatch):
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as handle:
        handle.write("{}")
    monkeypatch.setattr(lock.os, "geteuid", lambda: os.getuid() + 1)
    with refused(Path(path).parent) as raised:
        lock.take(path, lock.holder(os.getpid(), "build"))
    assert raised.value.code == "lock_foreign"
