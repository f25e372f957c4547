# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller takes of a run while it goes on, and what is left when the host, the connection or another controller is lost.

The host is a folder: its shell is a real one, its supervisor is the test, which finishes a point at every look.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import linux_runner, theirs
from unchanged import broken_off

PLAN = {"points": [f"p{number}" for number in range(1, 6)]}
OLDER = {
    "points": [{"point_id": "older", "layer": "backing-bench", "workload": {}, "repetition": 1}],
    "layers": [{"name": "backing-bench"}],
    "prepare": {},
}


class Host:
    """A run that finishes a point at every look. at: {number of a look: what happens before it}."""

    def __init__(self, folder, at=None, joined=False):
        self.top, self.boot, self.at, self.joined = folder / "t", folder / "boot_id", at or {}, joined
        self.run = self.top / "bench" / "one"
        self.looks, self.finished, self.commands, self.on_disk, self.agreed = 0, 0, [], [], False
        (self.run / "done").mkdir(parents=True)
        self.boot.write_text("boot-7\n", encoding="ascii")
        (self.run / "plan.json").write_text(json.dumps({"plan": OLDER}), encoding="ascii")
        (self.run / "supervisor.log").write_text("", encoding="ascii")
        self.say()

    def say(self):
        status = "finished" if self.finished == len(PLAN["points"]) else "running"
        state = {"status": status, "point": self.finished, "updated": self.looks, "remaining_s": 0}
        (self.run / "state.json").write_text(json.dumps(state), encoding="ascii")

    def finish(self):
        self.finished += 1
        text = base64.encodebytes(f"point {self.finished} ".encode() * 40)
        (self.run / "done" / str(self.finished)).write_bytes(text)
        self.say()

    def dies(self):
        shutil.rmtree(self.top)
        self.boot.write_text("boot-8\n", encoding="ascii")

    def agree(self):
        self.agreed = True

    def module(self, asked):
        if asked["action"] == "status":
            return {"alive": True}
        assert asked["action"] == "start"
        assert not self.agreed, "the request was kept before the host agreed to it"
        return {"state_dir": str(self.run), "joined": self.joined, "alive": True, "boot_id": "boot-7"}

    def command(self, text):
        self.commands.append(text)
        if "state.json" in text:
            self.looks += 1
            if self.looks in self.at:
                self.at[self.looks]()
            elif self.run.exists() and self.finished < len(PLAN["points"]):
                self.finish()
        done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
        return {"rc": done.returncode, "stdout": done.stdout, "stderr": done.stderr}

    def take(self, archive, plan):
        words = archive.decode().split()
        assert self.agreed
        # It still lies on the host while it is written here.
        assert (self.run / "done" / words[1]).exists()
        self.on_disk.append((int(words[1]), plan))


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.setattr(linux_runner, "POLL_S", 0.01)
    monkeypatch.setattr(linux_runner, "LAST_POLL_S", 0.01)
    monkeypatch.setattr(linux_runner, "BOOT_ID", str(tmp_path / "boot_id"))


def follow(host, tmp_path):
    told = []
    run = linux_runner.LinuxRun(
        "target01",
        str(tmp_path / "results"),
        host.module,
        host.agree,
        host.command,
        host.take,
        told.append,
        theirs.Span("target01", None),
    )
    return run.run(PLAN, 1.0)


def test_each_point_is_here_before_the_next_look_and_only_then_gone_there(tmp_path):
    host = Host(tmp_path)
    assert follow(host, tmp_path) is False
    assert [number for number, _plan in host.on_disk] == [1, 2, 3, 4, 5]
    # Of five points none waited for another.
    assert sum("done/" in text and "head" in text and "state.json" not in text for text in host.commands) == 5
    assert not host.top.exists()


def test_a_host_that_dies_takes_only_the_point_that_it_was_measuring(tmp_path):
    host = Host(tmp_path)
    host.at = {4: host.dies}
    with pytest.raises(Failure) as caught:
        follow(host, tmp_path)
    assert [number for number, _plan in host.on_disk] == [1, 2, 3]
    assert (caught.value.code, caught.value.details["taken"]) == ("run_lost", 3)
    assert "target01 was restarted" in str(caught.value)


def test_a_host_is_not_looked_at_every_moment_before_its_first_point(tmp_path, monkeypatch):
    """It plays the beat, and each look takes it from that; once it says how long it still takes, its end is not waited for."""
    monkeypatch.setattr(linux_runner, "POLL_S", 2.0)
    monkeypatch.setattr(linux_runner, "LAST_POLL_S", 0.2)
    host, slept = Host(tmp_path), []
    monkeypatch.setattr(linux_runner.time, "sleep", slept.append)

    def starts():
        (host.run / "state.json").write_text(json.dumps({"status": "running", "phase": "start"}), encoding="ascii")

    host.at = {1: starts, 2: starts}
    assert follow(host, tmp_path) is False
    # The run is expected to take a second.
    assert slept == [1.0, 1.0] + [0.2] * 4
    assert [number for number, _plan in host.on_disk] == [1, 2, 3, 4, 5]


def test_a_host_is_asked_for_its_clock_at_both_ends(tmp_path):
    host = Host(tmp_path)
    follow(host, tmp_path)
    looks = ["date +%s" in text for text in host.commands if "state.json" in text]
    assert looks == [True, *[False] * (len(looks) - 2), True] and len(looks) > 3


def test_a_folder_that_somebody_removed_is_no_restart(tmp_path):
    host = Host(tmp_path)
    host.at = {3: lambda: shutil.rmtree(host.top)}
    with pytest.raises(Failure) as caught:
        follow(host, tmp_path)
    assert (caught.value.code, caught.value.details["taken"]) == ("run_lost", 2)
    assert "restarted" not in str(caught.value)


def test_nobody_says_that_a_run_goes_on_which_nobody_can_see(tmp_path, monkeypatch):
    monkeypatch.setattr(linux_runner, "CONNECTION_PATIENCE_S", 0.05)
    host = Host(tmp_path)

    def gone():
        raise AnsibleConnectionFailure("no route")

    host.at = dict.fromkeys(range(3, 1000), gone)
    with pytest.raises(Failure) as caught:
        follow(host, tmp_path)
    assert (caught.value.code, caught.value.details["taken"]) == ("host_unreachable", 2)
    assert "it is unknown whether it still measures" in str(caught.value)
    assert "still going on" not in str(caught.value).partition("continues a run")[0]


def test_a_connection_that_comes_back_loses_nothing(tmp_path):
    host = Host(tmp_path)

    def gone():
        raise AnsibleConnectionFailure("no route")

    host.at = {2: gone, 3: gone}
    assert follow(host, tmp_path) is False
    assert [number for number, _plan in host.on_disk] == [1, 2, 3, 4, 5]


def test_a_user_who_loses_his_rights_meanwhile_loses_no_point(tmp_path):
    host = Host(tmp_path)

    def refused():
        raise Failure("command_refused", "target01 refuses.", "Ask for the right.", host="target01")

    host.at = {4: refused}
    with broken_off() as caught:
        follow(host, tmp_path)
    assert [number for number, _plan in host.on_disk] == [1, 2, 3]
    assert (caught.value.code, caught.value.details["taken"]) == ("command_refused", 3)
    assert "target01 refuses. Of its run the 3 points that were finished and fetched are kept in" in str(caught.value)
    assert str(caught.value).endswith("Ask for the right.") and host.run.exists()
    # Once the user has his rights again, the same task goes on with it.
    host.at, host.joined, host.agreed = {}, True, False
    assert follow(host, tmp_path) is True
    assert [number for number, _plan in host.on_disk] == [1, 2, 3, 4, 5]


def test_a_supervisor_that_lives_and_says_nothing_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(linux_runner, "SILENCE_S", 0.02)
    monkeypatch.setattr(linux_runner, "SILENT_PATIENCE_S", 0.3)
    host = Host(tmp_path)
    host.at = dict.fromkeys(range(3, 100000), lambda: None)
    with pytest.raises(Failure) as caught:
        follow(host, tmp_path)
    assert (caught.value.code, caught.value.details["taken"]) == ("run_silent", 2)
    assert "target01" in str(caught.value)
    # What it may still finish stays where it is.
    assert host.run.exists()


def test_a_supervisor_that_speaks_again_is_followed_to_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(linux_runner, "SILENCE_S", 0.02)
    host = Host(tmp_path)
    host.at = dict.fromkeys(range(3, 12), lambda: None)
    assert follow(host, tmp_path) is False
    assert [number for number, _plan in host.on_disk] == [1, 2, 3, 4, 5]


def test_a_run_of_another_call_is_taken_by_its_own_plan(tmp_path):
    host = Host(tmp_path, joined=True)
    assert follow(host, tmp_path) is True
    assert {plan["points"][0]["point_id"] for _number, plan in host.on_disk} == {"older"}


def test_what_cannot_be_kept_stays_on_the_host(tmp_path):
    host = Host(tmp_path)

    def full(archive, plan):
        if host.on_disk:
            raise Failure("results_unwritable", "There is no room.", "Make room.")
        host.on_disk.append((1, plan))

    host.take = full
    with pytest.raises(Failure) as caught:
        follow(host, tmp_path)
    assert caught.value.code == "results_unwritable"
    assert [path.name for path in (host.run / "done").iterdir()] == ["2"]


def test_what_arrives_damaged_stays_there_too(tmp_path):
    host = Host(tmp_path)
    host.at = {2: lambda: (host.finish(), (host.run / "done" / "2").write_text("abc", encoding="ascii"))}
    with pytest.raises(Failure) as caught:
        follow(host, tmp_path)
    assert caught.value.code == "transfer_damaged"
    assert (host.run / "done" / "2").exists()


def test_what_the_supervisor_logged_is_kept(tmp_path):
    host = Host(tmp_path)
    (host.run / "supervisor.log").write_text("Traceback: why\n", encoding="ascii")
    follow(host, tmp_path)
    assert (tmp_path / "results" / "hosts" / "target01.log").read_text(encoding="utf-8") == "Traceback: why\n"


HOSTILE = {
    "plan.json": [
        "7",
        '"x"',
        '{"plan": 7}',
        '{"plan": {"points": "p", "layers": [], "prepare": {}}}',
        json.dumps({"plan": {**OLDER, "points": ["older"]}}),
        json.dumps({"plan": {**OLDER, "points": [{**OLDER["points"][0], "repetition": "1"}]}}),
        "[" * 100_000,
    ],
    "state.json": [
        "7",
        "null",
        '{"status": 3}',
        '{"status": "running", "remaining_s": "x"}',
        '{"status": NaN}',
        "[" * 99_999,
    ],
}


@pytest.mark.parametrize(("name", "content"), [(name, text) for name, texts in HOSTILE.items() for text in texts])
def test_what_no_runner_says_is_one_sentence_and_nothing_is_taken(tmp_path, name, content):
    host = Host(tmp_path, joined=True)
    host.at = {1: lambda: (host.finish(), (host.run / name).write_text(content, encoding="ascii"))}
    if name == "plan.json":
        (host.run / name).write_text(content, encoding="ascii")
    with broken_off() as caught:
        follow(host, tmp_path)
    assert (caught.value.code, host.on_disk) == ("host_answer_unfit", [])
    assert f"{name} of the run" in str(caught.value) and len(str(caught.value)) < 400
    assert host.run.exists()


def test_a_host_that_does_not_tell_its_clock_is_not_followed(tmp_path):
    host = Host(tmp_path)
    command = host.command
    host.command = lambda text: (
        {"rc": 0, "stdout": "\x1b[2J", "stderr": ""} if text.startswith("date") else command(text)
    )
    with broken_off() as caught:
        follow(host, tmp_path)
    assert caught.value.code == "host_answer_unfit" and "\x1b" not in str(caught.value)


def test_names_that_are_no_numbers_of_points_are_not_fetched(tmp_path):
    host = Host(tmp_path)
    (host.run / "done" / "\u00b2").write_text("x", encoding="ascii")
    (host.run / "done" / ("9" * 200)).write_text("x", encoding="ascii")
    assert follow(host, tmp_path) is False
    assert [number for number, _plan in host.on_disk] == [1, 2, 3, 4, 5]
