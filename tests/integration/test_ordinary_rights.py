# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host of somebody else's lab: an ordinary user with sudo or su and a password, and everything on the way prints something."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from pathlib import Path

import pytest
import yaml
from sudo_host import HOME, NO_PASSWORD, NOISE, PASSWORD, ROOTS_PASSWORD, USER, USERS_PASSWORD, SudoHost
from waiting import until

SUDO = {"ansible_become_password": USERS_PASSWORD, "ansible_ssh_pipelining": False}
SU = {"ansible_become_method": "su", "ansible_become_password": ROOTS_PASSWORD, "ansible_ssh_pipelining": False}
CEILING = {"kind": "ceiling", "host": "target01", "path": None, "parent": None, "purpose": "scratch", "identity": {}}
LAYER = {**CEILING, "name": "ceiling-target01", "size_bytes": 1 << 30}


@pytest.fixture
def lab(tmp_path):
    """make(rights, become) -> a host that is up; in the end nothing of it is left on the machine."""
    name, hosts = f"rights-{os.getpid()}", []

    def make(rights: str, become: dict) -> SudoHost:
        host = SudoHost(name, tmp_path / "lab", rights, become)
        context = host.up()
        hosts.append((host, context))
        return context.__enter__()

    yield make
    for host, context in hosts:
        rows = host.inside("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE").stdout.splitlines()
        left = [row.split()[0] for row in rows if f"/run/storlab/{name}/" in row]
        for device in left:
            host.inside("losetup", "--detach", device)
        context.__exit__(None, None, None)
        assert left == []


def steps(host: SudoHost, repetitions: int) -> str:
    """A play of actions that read commands' output on the host: what it measures, counts and keeps. Its name for Lab.play."""
    run = {"testbed_id": host.name, "run_id": "one", "results_dir": str(host.results)}
    workload = {"ramp_s": 0, "runtime_s": 1, "block_size": 8192}
    measured = {**run, "layers": [LAYER], "workload": workload, "repetitions": repetitions, "progress": "none"}
    tasks = [
        {"storlab.testbed.benchmark_observer": {**run, "state": "started", "layers": {}}},
        {"storlab.testbed.benchmark": measured},
        {"storlab.testbed.benchmark_observer": {**run, "state": "collected"}},
        {"storlab.testbed.benchmark_observer": {"testbed_id": host.name, "state": "stopped"}},
        {"storlab.testbed.benchmark_collect": {"testbed_id": host.name, "results_dir": str(host.results)}},
    ]
    path = host.folder / "steps.yml"
    path.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]), encoding="utf-8")
    return str(path.with_suffix(""))


def played(host: SudoHost, *books: str, **more):
    done = host.play(*books, **more)
    assert (done.returned, done.failures) == (0, []), done.failures
    return done


@contextlib.contextmanager
def umask(mask: int):
    """That of whoever calls playbooks."""
    before = os.umask(mask)
    yield
    os.umask(before)


def measured(host: SudoHost, run: str = "one") -> list:
    return [(result["layer"], result["status"]) for result, _raw in host.points(run)]


def test_sudo_with_a_password_builds_measures_and_takes_down(lab):
    host = lab(PASSWORD, SUDO)
    # The host is as unkind as it is meant to be.
    assert NOISE in host.inside("setpriv", "--reuid", USER, "--clear-groups", "bash", "-c", f". {HOME}/.bashrc").stdout
    assert host.inside("setpriv", "--reuid", USER, "--clear-groups", "touch", f"{HOME}/x").returncode == 1
    assert host.inside("setpriv", "--reuid", USER, "--clear-groups", "sudo", "-n", "true").returncode == 1
    with umask(0):
        played(host, "build")
    assert host.inside("find", f"/run/storlab/{host.name}", "-name", "ramdisk.json").stdout
    with umask(0):
        played(host, "benchmark", "report", testbed_run_id="first")
    assert sorted(measured(host, "first")) == [("backing-bench", "measured"), ("ceiling-target01", "measured")]
    kept = [*host.results.rglob("*"), *(host.folder / "state").rglob("*")]
    assert [path for path in kept if not path.is_symlink() and path.stat().st_mode & 0o022] == []
    assert any(path.name == "index.html" for path in kept) and any(path.name == "result.json" for path in kept)
    played(host, "teardown", "verify_clean")
    assert host.inside("find", "/run/storlab").stdout == ""
    assert not [row for row in host.inside("findmnt", "--list").stdout.splitlines() if host.name in row]


@pytest.mark.parametrize(
    ("rights", "become"), [("", SU), (NO_PASSWORD, {"ansible_ssh_pipelining": True})], ids=["su", "sudo-prints"]
)
def test_what_su_and_sudo_print_is_not_taken_for_an_answer(lab, rights, become):
    host = lab(rights, become)
    played(host, steps(host, 1))
    assert measured(host) == [("ceiling-target01", "measured")]
    assert host.inside("find", "/run/storlab", "-type", "f").stdout == ""
    clock = json.loads((host.results / host.name / "one" / "clocks.json").read_text(encoding="utf-8"))
    assert abs(clock["target01"]["offset_s"]) < 60


class Revoked:
    """The user loses his rights once a point is on the controller's disk."""

    def __init__(self, host: SudoHost):
        self.host, self.over = host, threading.Event()
        self.thread = threading.Thread(target=self._revoke)

    def kept(self) -> list[Path]:
        return sorted((self.host.results / self.host.name / "one" / "points").glob("*/result.json"))

    def _revoke(self) -> None:
        until(lambda: self.kept() or self.over.is_set())
        self.host.rights("")

    def begin(self) -> None:
        self.thread.start()

    def finish(self) -> None:
        self.over.set()
        self.thread.join()


def test_rights_that_are_lost_meanwhile_cost_no_point(lab):
    host = lab(PASSWORD, SUDO)
    revoked = Revoked(host)
    done = host.play(steps(host, 5), strike=revoked)
    [failure] = done.failures
    assert failure["failure"]["code"] == "command_refused" and "target01" in failure["msg"]
    assert f"{USER} is not in the sudoers file" in failure["msg"]
    first = {path: path.read_bytes() for path in revoked.kept()}
    assert 1 <= failure["failure"]["details"]["taken"] == len(first) < 5
    host.rights(PASSWORD)
    played(host, steps(host, 5))
    assert measured(host) == [("ceiling-target01", "measured")] * 5
    assert {path: path.read_bytes() for path in first} == first
    assert host.inside("find", "/run/storlab", "-type", "f").stdout == ""
