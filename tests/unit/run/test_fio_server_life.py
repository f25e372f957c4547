# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the supervisor of fio's server does from the first look to the last, with processes, signals and a clock of the test's own."""

from __future__ import annotations

import json
import os
import signal
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.run import fio_server
from unchanged import broken_off

OPTIONS = {
    "testbed_id": "t",
    "layer": {"name": "initiator-a", "host": "h", "path": "/dev/sdz"},
    "layers": {},
    "allow_device": [],
    "address": "127.0.0.1",
    "port": 8765,
    "allow_any_address": False,
    "deadline_s": 600,
}
RECORD = {"host": "h", "address": "127.0.0.1", "port": 8765, "version": "fio-3.33", "layer": "initiator-a"}


class World:
    """A clock that goes on with each sleep; a server that ends after so many looks; children that appear."""

    def __init__(self, monkeypatch, folder) -> None:
        self.now, self.looks, self.ends_after, self.signals, self.killed, self.waited = 100.0, 0, None, {}, [], []
        self.ended, self.orphans, self.prctl, self.started = [], [], [], []
        self.folder = folder
        monkeypatch.setattr(fio_server, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep))
        monkeypatch.setattr(fio_server.signal, "signal", lambda number, what: self.signals.update({number: what}))
        monkeypatch.setattr(fio_server.subprocess, "Popen", self.popen)
        monkeypatch.setattr(fio_server, "_end_session", lambda number, argv: self.ended.append((number, argv)))
        monkeypatch.setattr(fio_server, "children", lambda: [4711, *self.orphans])
        monkeypatch.setattr(fio_server.os, "kill", lambda pid, number: self.killed.append((pid, number)))
        monkeypatch.setattr(fio_server.os, "waitpid", lambda pid, how: self.waited.append((pid, how)))
        monkeypatch.setattr(fio_server.device_safety, "hold", self.hold)
        self.facts, self.held = {"type": "block", "claim": None}, []
        monkeypatch.setattr(fio_server, "guarded", lambda options: self.facts)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.looks += 1
        if self.on_look:
            self.on_look()

    on_look = None

    def popen(self, argv, **how):
        how["preexec_fn"]()
        self.started.append(argv)
        return SimpleNamespace(pid=4711, poll=lambda: 1 if self.looks == self.ends_after else None)

    def hold(self, facts, flags) -> int:
        self.held.append((facts["type"], flags))
        return os.open(self.folder, os.O_RDONLY)

    def supervisor(self, deadline_s: float = 3) -> fio_server.Supervisor:
        (self.folder / "deadline.json").write_text(json.dumps(self.now + deadline_s))
        made = fio_server.Supervisor(str(self.folder), OPTIONS, "/usr/bin/fio", RECORD)
        made.prctl = lambda *words: self.prctl.append(words[:2])
        return made


@pytest.fixture
def world(monkeypatch, tmp_path):
    return World(monkeypatch, tmp_path)


def test_it_ends_at_its_deadline_with_all_that_was_started(world):
    world.supervisor(deadline_s=3).run()
    assert (world.looks, world.now) == (6, 103.0)
    argv = ["/usr/bin/fio", "--server=ip:127.0.0.1,8765"]
    assert (world.started, world.ended) == ([argv], [(4711, argv)])
    assert json.loads((world.folder / "server.json").read_text()) == {**RECORD, "pid": 4711, "argv": argv}
    # Jobs whose parents die come to the supervisor, and its own death ends the server.
    assert world.prctl == [(fio_server.PR_SET_CHILD_SUBREAPER, 1), (fio_server.PR_SET_PDEATHSIG, signal.SIGKILL)]
    assert world.signals[signal.SIGHUP] == signal.SIG_IGN and world.held == [("block", os.O_EXCL)]


def test_a_deadline_that_is_put_off_counts(world):
    supervisor = world.supervisor(deadline_s=1)

    def later():
        if world.looks == 1:
            (world.folder / "deadline.json").write_text(json.dumps(104.0))

    world.on_look = later
    supervisor.run()
    assert world.now == 104.0


def test_it_ends_when_it_is_told_or_when_the_server_ends(world):
    supervisor = world.supervisor()
    world.on_look = lambda: world.signals[signal.SIGTERM](signal.SIGTERM, None) if world.looks == 2 else None
    supervisor.run()
    assert world.looks == 2
    world.on_look, world.ends_after, world.looks = None, 3, 0
    world.supervisor(deadline_s=600).run()
    assert world.looks == 3 and len(world.ended) == 2


def test_jobs_that_lost_their_client_are_ended(world):
    world.orphans = [52, 53]
    world.supervisor(deadline_s=0.5).run()
    assert world.killed == [(52, signal.SIGKILL), (53, signal.SIGKILL)]
    assert world.waited == [(52, os.WNOHANG), (53, os.WNOHANG)]


@pytest.mark.parametrize("facts", [{"type": "file", "claim": None}, {"type": "block", "claim": "md"}])
def test_what_is_no_device_or_claimed_already_is_only_held_open(world, facts):
    world.facts = facts
    world.supervisor(deadline_s=0).run()
    assert world.held == [(facts["type"], 0)]


class Starting:
    """A supervisor that lives, or not; who listens; what is ended."""

    def __init__(self, monkeypatch, lives: bool, listens: bool) -> None:
        self.ended, self.left = [], []
        monkeypatch.setattr(fio_server, "alive", lambda _folder: lives)
        monkeypatch.setattr(fio_server, "is_listening", lambda address, port: listens)
        monkeypatch.setattr(fio_server, "START_PATIENCE_S", 0.05)
        monkeypatch.setattr(fio_server, "end", self.ended.append)
        monkeypatch.setattr(fio_server, "_end_leftovers", self.left.append)
        monkeypatch.setattr(fio_server, "log_tail", lambda _folder: "fio: bind failed" if not lives else "")


@pytest.mark.parametrize("lives", [True, False])
def test_a_server_that_does_not_listen_is_ended_and_told(monkeypatch, tmp_path, lives):
    starting = Starting(monkeypatch, lives=lives, listens=False)
    (tmp_path / "server.json").write_text(json.dumps(RECORD))
    with broken_off() as caught:
        fio_server._listening(str(tmp_path))
    assert caught.value.code == "server_not_started"
    assert ("it said nothing" if lives else "bind failed") in str(caught.value)
    assert (starting.ended, starting.left) == ([str(tmp_path)] if lives else [], [str(tmp_path)])


def test_a_server_is_made_once_all_is_looked_at(monkeypatch, tmp_path):
    Starting(monkeypatch, lives=True, listens=True)
    monkeypatch.setattr(fio_server, "alive", lambda folder: os.path.exists(os.path.join(folder, "server.json")))
    monkeypatch.setattr(fio_server.fio_distributed, "version", lambda engine: "fio-3.33")
    looked_at = []
    monkeypatch.setattr(fio_server, "check_free", lambda address, port: looked_at.append(port))
    monkeypatch.setattr(fio_server, "guarded", lambda options: looked_at.append(options["layer"]["name"]))

    def detach(_work, folder):
        with open(os.path.join(folder, "server.json"), "w", encoding="utf-8") as handle:
            json.dump({**RECORD, "pid": 5}, handle)

    monkeypatch.setattr(fio_server, "detach", detach)
    base = str(tmp_path / "base")
    first = fio_server.start(OPTIONS, "/usr/bin/fio", base)
    assert first == {"changed": True, "server": {**RECORD, "pid": 5}} and looked_at == [8765, "initiator-a"]
    folder = os.path.join(base, "t", "server", "8765")
    assert os.path.exists(os.path.join(folder, "deadline.json")) and os.stat(folder).st_mode & 0o077 == 0
    again = fio_server.start(OPTIONS, "/usr/bin/fio", base)
    assert again == {"changed": False, "server": {**RECORD, "pid": 5}} and len(looked_at) == 2


def test_a_kernel_that_lists_no_children(monkeypatch):
    assert isinstance(fio_server.children(), list)

    def missing(*_path, **_how):
        raise FileNotFoundError

    monkeypatch.setattr(fio_server, "open", missing, raising=False)
    assert fio_server.children() == []
