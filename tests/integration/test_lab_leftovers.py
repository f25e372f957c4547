# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of embedded labs by `make demo-down` and `make clean`: real processes with the command lines of machines, a real network namespace, and labs of
other checkouts beside them. Only QEMU itself is left out."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import waiting
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.lab import leftovers, netns
from places import ROOT

MACHINES = ("target01", "hypervisor01", "guest01")
# What stands in for QEMU, and for an SSH connection: it waits, whatever its arguments are.
WAITS = "import time\nwhile True: time.sleep(60)"


class Lab:
    """A lab of a checkout, as a build leaves it."""

    def __init__(self, checkout: Path, testbed_id: str = "embedded") -> None:
        self.checkout, self.id = checkout, testbed_id
        self.dir = checkout / ".cache/lab" / testbed_id
        self.state = checkout / ".cache/testbeds" / testbed_id
        self.name = netns.netns_name(testbed_id, str(self.dir))
        self.processes: dict = {}

    def build(self) -> Lab:
        for folder in (self.dir / "ssh", self.state / "layers", self.state / "before"):
            folder.mkdir(parents=True, exist_ok=True)
        (self.dir / "ssh/config").touch()
        for number, (host, kind) in enumerate(
            [("target01", "backing"), ("hypervisor01", "initiator"), ("guest01", "guest")]
        ):
            layer = {"host": host, "kind": kind}
            (self.state / f"layers/layer{number}.json").write_text(json.dumps(layer), encoding="utf-8")
            if kind != "guest":
                (self.state / f"before/{host}.json").write_text("{}", encoding="utf-8")
        netns.apply([("add namespace",)], self.name)
        for machine in MACHINES:
            folder = Path(netns.run_dir(self.name), "vm", machine)
            folder.mkdir(parents=True)
            self.start(machine, "-name", machine, "-pidfile", f"{folder}/pid", "-daemonize")
        (Path(netns.run_dir(self.name)) / "cp").mkdir()
        self.start("connection", title=f"ssh: {netns.run_dir(self.name)}/cp/0123abcd [mux]")
        return self

    def start(self, what: str, *arguments: str, title: str = "") -> None:
        argv = [title or sys.executable, "-c", WAITS, *arguments]
        self.processes[what] = subprocess.Popen(argv, executable=sys.executable, stdin=subprocess.DEVNULL)

    def kill(self, what: str) -> None:
        self.processes[what].kill()
        self.processes[what].wait()

    def running(self) -> set:
        return {what for what, process in self.processes.items() if process.poll() is None}

    def left(self) -> list:
        """What there is of it."""
        places = (self.dir, Path(netns.run_dir(self.name)))
        return [*sorted(self.running()), *(str(path) for path in places if path.exists())]

    def snapshot(self) -> tuple:
        places = (self.dir, self.state, Path(netns.run_dir(self.name)))
        return sorted(self.running()), [sorted(map(str, place.rglob("*"))) for place in places]


@pytest.fixture
def labs(tmp_path, monkeypatch):
    """make(checkout, testbed_id) -> a lab; below a folder of the test's own in the place of /run/storlab."""
    monkeypatch.setattr(netns, "RUN_ROOT", str(tmp_path / "run"))
    made = []

    def make(checkout: str = "mine", testbed_id: str = "embedded") -> Lab:
        made.append(Lab(tmp_path / checkout, testbed_id))
        return made[-1].build()

    yield make
    for lab in made:
        for process in lab.processes.values():
            process.kill()
            process.wait()
        if netns.is_namespace(netns.namespace_path(lab.name)):
            netns.command(["umount", netns.namespace_path(lab.name)])


def end(checkout: Path) -> list:
    found = leftovers.labs_of(f"{checkout}/.cache/lab")
    return [line for one, name in found.items() for line in leftovers.end(f"{checkout}/.cache/lab/{one}", name)]


def subsets(names: tuple) -> list:
    return [one for count in range(len(names) + 1) for one in itertools.combinations(names, count)]


@pytest.mark.parametrize("dead", subsets(MACHINES), ids=lambda names: "+".join(names) or "none")
def test_any_dead_machines_leave_nothing_twice_in_a_row(labs, dead):
    lab, other, prefixed = labs(), labs("theirs"), labs("mine2")
    beside = [one.snapshot() for one in (other, prefixed)]
    for machine in dead:
        lab.kill(machine)
    why = leftovers.broken(str(lab.dir), str(lab.state), lab.name)
    assert (why == "") == (not dead)
    assert not dead or why == f"machine {min(dead)} does not run"
    begun = time.monotonic()
    assert end(lab.checkout)
    assert time.monotonic() - begun < 30
    waiting.until(lambda: lab.left() == [])
    assert end(lab.checkout) == [] and lab.left() == []
    assert [one.snapshot() for one in (other, prefixed)] == beside


GONE = {
    "the cache": lambda lab: shutil.rmtree(lab.checkout / ".cache"),
    "the lab": lambda lab: shutil.rmtree(lab.dir),
    "its configuration": lambda lab: (lab.dir / "ssh/config").unlink(),
    "the state": lambda lab: shutil.rmtree(lab.state),
    "the layers": lambda lab: shutil.rmtree(lab.state / "layers"),
    "one state before": lambda lab: (lab.state / "before/target01.json").unlink(),
    "the machines' folders": lambda lab: shutil.rmtree(Path(netns.run_dir(lab.name), "vm")),
    "the namespace": lambda lab: netns.command(["umount", netns.namespace_path(lab.name)]),
    "all of its folder": lambda lab: (
        netns.command(["umount", netns.namespace_path(lab.name)]),
        shutil.rmtree(netns.run_dir(lab.name)),
    ),
}


@pytest.mark.parametrize("what", GONE)
@pytest.mark.parametrize("dead", [(), ("target01",), MACHINES], ids=lambda names: "+".join(names) or "none")
def test_deleted_state_stops_nothing(labs, what, dead):
    lab, other = labs(), labs("theirs")
    beside = other.snapshot()
    for machine in dead:
        lab.kill(machine)
    GONE[what](lab)
    assert leftovers.broken(str(lab.dir), str(lab.state), lab.name)
    end(lab.checkout)
    waiting.until(lambda: lab.left() == [])
    assert end(lab.checkout) == []
    assert other.snapshot() == beside


def test_a_machine_that_is_stopped_cannot_be_asked_and_is_ended(labs):
    lab = labs()
    lab.processes["guest01"].send_signal(signal.SIGSTOP)
    status = Path(f"/proc/{lab.processes['guest01'].pid}/stat")
    waiting.until(lambda: status.read_text(encoding="utf-8").split()[2] == "T")
    assert leftovers.broken(str(lab.dir), str(lab.state), lab.name) == "machine guest01 is stopped"
    end(lab.checkout)
    waiting.until(lambda: lab.left() == [])


def test_every_lab_of_a_checkout_is_found_and_none_of_another_one(labs, tmp_path):
    mine = [labs("mine", name) for name in ("embedded", "embedded-2", "e2-scaled-down")]
    theirs = labs("theirs", "embedded-2")
    shutil.rmtree(tmp_path / "mine/.cache")
    found = leftovers.labs_of(str(tmp_path / "mine/.cache/lab"))
    assert found == {lab.id: lab.name for lab in mine}
    assert theirs.name not in found.values()
    # A name that only looks like one of ours: the digest is of another folder.
    Path(netns.RUN_ROOT, f"storlab-embedded-{theirs.name[-6:]}").mkdir()
    Path(netns.RUN_ROOT, f"{mine[0].name}.old").mkdir()
    assert leftovers.labs_of(str(tmp_path / "mine/.cache/lab")) == found


@pytest.mark.parametrize(
    "arguments",
    [
        # The pid file of a machine of ours, in other words.
        ["-pidfile", "{folder}/vm/target01/pid.old"],
        ["-pidfile", "{folder}-2/vm/target01/pid"],
        ["-pidfile", "/elsewhere{folder}/vm/target01/pid"],
        ["-pidfile", "{folder}/vm/../vm/target01/pid"],
        ["tail", "{folder}/vm/target01/pid"],
        ["less", "-pidfile={folder}/vm/target01/pid"],
        ["grep", "ssh: {folder}/cp/0123abcd [mux]"],
    ],
)
def test_processes_that_only_mention_a_lab_are_left_alone(labs, arguments):
    lab = labs()
    lab.start("bystander", *(word.format(folder=netns.run_dir(lab.name)) for word in arguments))
    end(lab.checkout)
    waiting.until(lambda: lab.running() == {"bystander"})


def test_a_process_that_does_not_end_is_named(labs, monkeypatch):
    lab = labs()
    with monkeypatch.context() as patches, pytest.raises(Failure) as caught:
        patches.setattr(leftovers, "PATIENCE_S", 0.1)
        patches.setattr(leftovers.os, "kill", lambda _pid, _signal: None)
        end(lab.checkout)
    assert caught.value.code == "lab_hung" and str(lab.processes["target01"].pid) in str(caught.value)
    # Its files are kept as long as it runs.
    assert len(lab.left()) == len(lab.processes) + 2


# ---- the recipes themselves, on /run/storlab


# A proof is kept, as the playbook of the lab does it.
PLAY = """#!/bin/sh
echo "played $*" >> "$SAID"
case "$*" in *embedded_lab.yml*) sed -i 's/false/true/' .cache/testbeds/embedded/lab/before/*.json ;; esac
"""


@pytest.fixture
def checkout(tmp_path):
    """A clone's folder with what the recipes need; ``run(target)`` makes it: (exit code, what was said, what was played)."""
    folder = tmp_path / "my clone"
    (folder / ".venv/bin").mkdir(parents=True)
    shutil.copytree(ROOT / ".config", folder / ".config")
    shutil.copytree(ROOT / "plugins/module_utils", folder / "plugins/module_utils")
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copytree(ROOT / "make", folder / "make")
    (folder / ".venv/bin/ansible-playbook").write_text(PLAY, encoding="utf-8")
    (folder / ".venv/bin/ansible-playbook").chmod(0o755)

    def run(target: str) -> tuple:
        said = tmp_path / "said"
        said.write_text("", encoding="utf-8")
        # What sets the machine up is made already.
        done = subprocess.run(
            ["make", target, "-o", "setup"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "SAID": str(said)},
        )
        return done.returncode, done.stdout + done.stderr, said.read_text(encoding="utf-8").splitlines()

    run.folder = folder
    lab = Lab(folder, "embedded")
    run.lab = lab
    yield run
    for process in lab.processes.values():
        process.kill()
        process.wait()
    if netns.is_namespace(netns.namespace_path(lab.name)):
        netns.command(["umount", netns.namespace_path(lab.name)])
    shutil.rmtree(netns.run_dir(lab.name), ignore_errors=True)


NO_LAB = "played -i inventories/embedded playbooks/embedded_lab.yml -e testbed_lab_state=absent"
TEARDOWN = NO_LAB.replace("playbooks/", "playbooks/teardown.yml playbooks/verify_clean.yml playbooks/")


def test_a_whole_lab_is_taken_down_and_a_broken_one_ends(checkout):
    """Ansible is started once, as its start takes seconds; and not at all where it was proven before that nothing is left."""
    kept = checkout.lab.state / "lab/before/controller01.json"
    for dead, playbooks in ((None, TEARDOWN), ("hypervisor01", NO_LAB)):
        checkout.lab.build()
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text('{"verified": false}', encoding="utf-8")
        if dead:
            checkout.lab.kill(dead)
        code, said, played = checkout("demo-down")
        assert (code, played) == (0, [playbooks]), said
        assert ("machine hypervisor01 does not run" in said) is bool(dead)
        waiting.until(lambda: checkout.lab.left() == [])
        code, said, played = checkout("demo-down")
        assert (code, played) == (0, []) and "there is nothing to take down" in said


@pytest.mark.parametrize("content", ['{"verified": false}', '{"verified": tr', "{}", "[]"])
def test_what_was_not_proven_is_proven_by_the_next_call(checkout, content):
    kept = checkout.lab.state / "lab/before/controller01.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(content, encoding="utf-8")
    code, said, played = checkout("demo-down")
    assert (code, played) == (0, [NO_LAB]), said


def test_where_nothing_is_nothing_is_made(checkout):
    for _twice in range(2):
        before = sorted(checkout.folder.rglob("*"))
        code, said, played = checkout("demo-down")
        assert (code, played) == (0, []) and "there is nothing to take down" in said
        assert sorted(checkout.folder.rglob("*")) == before


def test_clean_leaves_no_machine_without_cache_and_without_ansible(checkout):
    checkout.lab.build()
    shutil.rmtree(checkout.folder / ".cache")
    shutil.rmtree(checkout.folder / ".venv")
    code, said, _played = checkout("clean")
    assert code == 0, said
    waiting.until(lambda: checkout.lab.left() == [])
    assert checkout("clean")[0] == 0
