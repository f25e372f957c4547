# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which labs are left, whose they are, what is missing of them, and how they are ended; processes that wait stand in for machines, a file for a namespace."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.lab import leftovers, netns
from unchanged import refused
from waiting import until

WAITS = "import time\nwhile True: time.sleep(60)"


class Lab:
    """A lab in the folder `lab` of the test, with two machines and a connection."""

    def __init__(self, folder: Path, testbed_id: str) -> None:
        self.root = folder / "lab"
        self.dir, self.state = self.root / testbed_id, folder / "state" / testbed_id
        self.name = netns.netns_name(testbed_id, str(self.dir))
        self.run_dir = Path(netns.run_dir(self.name))
        self.processes: dict = {}
        for path in (self.dir / "ssh", self.state / "layers", self.state / "before"):
            path.mkdir(parents=True)
        (self.dir / "ssh/config").touch()
        for name in ("target01", "guest01"):
            (self.run_dir / "vm" / name).mkdir(parents=True)
            self.start(name, sys.executable, "-pidfile", f"{self.run_dir}/vm/{name}/pid", "-daemonize")
        self.start("connection", f"ssh: {self.run_dir}/cp/0123abcd [mux]")
        (self.run_dir / "net").touch()
        layers = {"backing": "target01", "guest": "guest01"}
        for kind, host in layers.items():
            (self.state / f"layers/{kind}.json").write_text(json.dumps({"kind": kind, "host": host}))
        (self.state / "before/target01.json").write_text("{}")

    def start(self, what: str, title: str, *arguments: str) -> None:
        self.processes[what] = subprocess.Popen(
            [title, "-c", WAITS, *arguments], executable=sys.executable, stdin=subprocess.DEVNULL
        )
        # Until then it has the command line of the one that starts it.
        until(lambda: self.processes[what].pid in leftovers.processes().get(self.name, {}))

    def kill(self, what: str) -> None:
        self.processes[what].kill()
        self.processes[what].wait()

    def broken(self) -> str:
        return leftovers.broken(str(self.dir), str(self.state), self.name)


@pytest.fixture
def make(tmp_path, monkeypatch):
    """make(testbed_id) -> a lab."""
    monkeypatch.setattr(netns, "RUN_ROOT", str(tmp_path / "run"))
    monkeypatch.setattr(netns, "is_namespace", lambda path: Path(path).exists())
    labs = []

    def made(testbed_id: str = "embedded", checkout: str = "mine") -> Lab:
        labs.append(Lab(tmp_path / checkout, testbed_id))
        return labs[-1]

    yield made
    for lab in labs:
        for what in lab.processes:
            lab.kill(what)


def test_a_lab_that_is_whole_is_found_and_can_be_taken_down(make):
    lab = make()
    assert lab.broken() == ""
    assert leftovers.labs_of(str(lab.root)) == {"embedded": lab.name}
    assert leftovers.processes()[lab.name] == {
        lab.processes["target01"].pid: "target01",
        lab.processes["guest01"].pid: "guest01",
        lab.processes["connection"].pid: "",
    }


def test_a_lab_of_another_checkout_is_not_ours(make):
    ours, theirs = make(), make(checkout="theirs")
    assert leftovers.labs_of(str(ours.root)) == {"embedded": ours.name}
    assert leftovers.labs_of(str(theirs.root)) == {"embedded": theirs.name}
    # Names that are none of a lab, a lab in a folder that is not there, and a folder that no lab can have.
    (ours.run_dir.parent / "storlab-x").mkdir()
    (ours.run_dir.parent / "storlab-Embedded-012345").mkdir()
    (ours.root / "No lab").mkdir()
    assert leftovers.labs_of(str(ours.root)) == {"embedded": ours.name}
    assert leftovers.labs_of(str(ours.root / "nothing")) == {}


def test_a_lab_whose_files_are_gone_is_found_by_its_processes(make):
    lab = make()
    lab.dir.joinpath("ssh/config").unlink()
    lab.dir.joinpath("ssh").rmdir()
    lab.dir.rmdir()
    for path in sorted(lab.run_dir.parent.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    lab.run_dir.parent.rmdir()
    assert leftovers.labs_of(str(lab.root)) == {"embedded": lab.name}
    for what in lab.processes:
        lab.kill(what)
    assert leftovers.labs_of(str(lab.root)) == {}


def test_a_word_that_only_looks_like_a_machine_is_none(make, tmp_path):
    lab = make()
    before = leftovers.processes()[lab.name]
    for option, path in (("-file", f"{lab.run_dir}/vm/target01/pid"), ("-pidfile", f"{lab.run_dir}/vm/target01/pid2")):
        other = subprocess.Popen([sys.executable, "-c", WAITS, option, path], stdin=subprocess.DEVNULL)
        try:
            until(lambda: path.encode() in Path(f"/proc/{other.pid}/cmdline").read_bytes())  # noqa: B023
            assert leftovers.processes()[lab.name] == before
        finally:
            other.kill()
            other.wait()


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda lab: lab.dir.joinpath("ssh/config").unlink(), "the folder of the lab is gone"),
        (lambda lab: lab.run_dir.joinpath("net").unlink(), "its network is gone"),
        (lambda lab: lab.run_dir.joinpath("vm/guest01").rmdir(), "the folder of machine guest01 is gone"),
        (lambda lab: lab.kill("guest01"), "machine guest01 does not run"),
        (lambda lab: lab.state.joinpath("layers/backing.json").unlink(), "nothing is known to be built on it"),
        (lambda lab: lab.state.joinpath("layers/backing.json").write_text("[]"), "nothing is known to be built on it"),
        (
            lambda lab: lab.state.joinpath("before/target01.json").unlink(),
            "nothing is kept of what target01 was like before the build",
        ),
        # What no build changes needs nothing kept.
        (lambda lab: lab.state.joinpath("layers/guest.json").unlink(), ""),
    ],
)
def test_what_is_missing_of_a_lab_is_said(make, damage, why):
    lab = make()
    damage(lab)
    assert lab.broken() == why


CONFIGURATION = """\
Host target01
  HostName 10.213.0.11

Host guest01
  HostName 10.213.0.13

Host *
  User root
"""


@pytest.mark.parametrize("silent", ["target01", "guest01", None])
def test_a_machine_that_runs_and_says_nothing_cannot_be_taken_down(make, monkeypatch, silent):
    """As one whose memory is used up; a playbook would wait minutes for it, and fail."""
    lab, asked = make(), []
    (lab.dir / "ssh/config").write_text(CONFIGURATION)
    addresses = {"target01": "10.213.0.11", "guest01": "10.213.0.13"}

    def greets(name, address, port, deadline):
        asked.append((name, address, port))
        assert deadline > time.monotonic()
        return address != addresses.get(silent)

    monkeypatch.setattr(netns, "wait_for_banner", greets)
    assert lab.broken() == (f"machine {silent} does not answer" if silent else "")
    assert set(asked) <= {(lab.name, address, 22) for address in addresses.values()} and asked


def test_a_machine_that_is_stopped_cannot_be_taken_down(make):
    lab = make()
    lab.processes["target01"].send_signal(19)
    until(lambda: lab.broken() == "machine target01 is stopped")


def test_a_lab_without_machines_says_so(make, tmp_path):
    lab = make()
    for name in ("target01", "guest01"):
        lab.kill(name)
        lab.run_dir.joinpath("vm", name).rmdir()
    assert lab.broken() == "it has no machines"
    lab.run_dir.joinpath("vm").rmdir()
    assert lab.broken() == "it has no machines"


def test_the_end_of_a_lab_leaves_nothing_of_it_and_all_of_others(make, monkeypatch):
    lab, other = make(), make("second")
    lab.run_dir.joinpath("net").unlink()
    lines = leftovers.end(str(lab.dir), lab.name)
    assert sorted(lines) == sorted(
        [
            f"machine target01 (process {lab.processes['target01'].pid})",
            f"machine guest01 (process {lab.processes['guest01'].pid})",
            f"connection (process {lab.processes['connection'].pid})",
            f"folder {lab.run_dir}",
            f"folder {lab.dir}",
        ]
    )
    assert [process.wait() for process in lab.processes.values()] == [-9, -9, -9]
    assert not lab.run_dir.exists()
    assert not lab.dir.exists()
    assert leftovers.end(str(lab.dir), lab.name) == []
    assert other.broken() == ""
    assert all(process.poll() is None for process in other.processes.values())


def test_a_process_that_became_somebody_elses_is_not_killed(make, monkeypatch):
    lab, other = make(), make("second")
    victim = other.processes["target01"]
    really, first = leftovers.processes, [True]

    def once_wrong():
        """The number of a machine that has ended meanwhile, taken by a process of another lab."""
        if first:
            first.clear()
            return {lab.name: {victim.pid: "target01"}}
        return {name: pids for name, pids in really().items() if name != lab.name}

    monkeypatch.setattr(leftovers, "processes", once_wrong)
    lab.run_dir.joinpath("net").unlink()
    leftovers.end(str(lab.dir), lab.name)
    assert victim.poll() is None


def test_a_process_that_does_not_end_is_named(make, monkeypatch):
    lab = make()
    with monkeypatch.context() as patch, refused(lab.root.parent, kind=Failure) as caught:
        patch.setattr(leftovers, "PATIENCE_S", 0)
        patch.setattr(leftovers.os, "kill", lambda pid, number: None)
        leftovers.end(str(lab.dir), lab.name)
    assert (caught.value.code, caught.value.details["lab"]) == ("lab_hung", lab.name)
    assert str(lab.processes["guest01"].pid) in str(caught.value)
