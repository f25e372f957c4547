# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells of `make trials`: what is done to the real machines of an embedded lab in each of them."""

from __future__ import annotations

import concurrent.futures
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import trial_lab
from fault_emulated import fill
from trial_lab import CLIENT, TARGET
from trial_suite import Cell, Trial

# The stages of a build in their order; a playbook is held before each. The first one is not among them: before it nothing is made.
# The clients' datastores have the name of their play: their role begins in a play of the targets, too, long before, and does nothing there.
STAGES = ("iscsi_target", "iscsi_initiator", "Datastores", "Unlock the host")
NAMED = {"Datastores": "datastore", "Unlock the host": "the end"}
# What this computer does alone, which has a RAM disk and no export.
STAGES_HERE = ("ramdisk", "Unlock the host")
AT = {"trials": "", "here": "here-"}
MINUTES = {"trials": 5, "here": 1}
CYCLES = 20
AWAY = ("UNREACHABLE!", "portal_unreachable", "host_unreachable")
# Where a client has mounted it, as its shell finds out.
DATASTORE = "$(awk '$1 ~ /^.dev.sd/ && $3 == \"ext4\" {print $2}' /proc/mounts)"


# ---------------------------------------------------------------- reboots between the stages


def short(stage: str) -> str:
    """As names of cells have it."""
    return NAMED.get(stage, stage).replace(" ", "-")


def restarted(machine: str, stage: str) -> Cell:
    def work(trial: Trial) -> None:
        trial.between(stage, "build", strike=lambda: trial.lab.restart(machine))
        trial.mend()
        trial.measure()
        trial.end()

    return Cell(f"restart-{machine}-before-{short(stage)}", "trials", 6, work)


def controller_killed(stage: str, where: str = "trials") -> Cell:
    def work(trial: Trial) -> None:
        played = trial.between(stage, "build", strike=trial.lab.kill_controller)
        if played.returned != -signal.SIGKILL:
            trial.problems.append(f"the controller was not killed: {played.returned}")
        # One of both repairs: what is there is built on, or taken down as it is.
        if trial.dice.random() < 0.5:
            trial.mend()
        trial.end()

    return Cell(f"{AT[where]}kill-controller-before-{short(stage)}", where, MINUTES[where], work)


def restarted_when_built(machine: str, then: str) -> Cell:
    """Between the playbooks; what was in memory is gone, and the files of the machine are not."""

    def work(trial: Trial) -> None:
        trial.must("build")
        trial.measure()
        trial.lab.restart(machine)
        if then == "build":
            trial.mend()
        trial.end()

    return Cell(f"restart-{machine}-then-{then}", "trials", 5, work)


# ---------------------------------------------------------------- links, file systems


def link_cut(machine: str, cycles: int = 1, lab: str = "trials") -> Cell:
    """The link is cut for all of a teardown. Whoever is reached is taken down; with the link back a build repairs, and at last all goes.

    A client's target stays, with what somebody else put into the datastore.
    """

    def work(trial: Trial) -> None:
        for number in range(cycles):
            trial.say(f"   cycle {number + 1} of {cycles}")
            trial.must("build")
            if machine == CLIENT:
                trial.lab.run(CLIENT, f"echo kept > {DATASTORE}/theirs && sync -f {DATASTORE}/theirs")
            trial.lab.link(machine, "down")
            try:
                kept = ((TARGET, ("target_in_use",)),) if machine == CLIENT else ()
                trial.fails(trial.play("teardown"), (machine, AWAY), *kept)
            finally:
                trial.lab.link(machine, "up")
        if machine == CLIENT:
            # The session comes back by itself.
            read = f"sync; echo 3 > /proc/sys/vm/drop_caches; grep -qx kept {DATASTORE}/theirs"
            trial.lab.run(CLIENT, f"for try in $(seq 60); do ({read}) && exit 0; sleep 2; done; exit 1")
            trial.fails(trial.play("teardown"), (CLIENT, ("datastore_not_empty",)))
            trial.lab.run(CLIENT, f"rm {DATASTORE}/theirs")
        trial.end()

    return Cell(f"cut-link-{machine}" + (f"-{cycles}-times" if cycles > 1 else ""), lab, 2 + 2 * cycles, work)


@contextmanager
def full(trial: Trial, machine: str, folder: str) -> Iterator[None]:
    """A folder of a machine is a file system of its own, without a byte to spare."""
    trial.lab.run(
        machine,
        f"set -e; mkdir -p /mnt/was; mount --bind {folder} /mnt/was; mount -t tmpfs -o size=64m tmpfs {folder}; cp -a /mnt/was/. {folder}; "
        f"dd if=/dev/zero of={folder}/full bs=64k 2>/dev/null || true; dd if=/dev/zero of={folder}/fuller bs=1 count=70000 2>/dev/null || true; "
        f"test $(df -k --output=avail {folder} | tail -n 1) = 0",
    )
    try:
        yield
    finally:
        # What was written meanwhile stays, as on a disk.
        trial.lab.run(
            machine,
            f"set -e; rm -f {folder}/full {folder}/fuller; cp -a {folder}/. /mnt/was; umount -l {folder}; umount /mnt/was; rmdir /mnt/was",
        )


def folder_full(machine: str, folder: str) -> Cell:
    """It is full before the first build."""

    def work(trial: Trial) -> None:
        with full(trial, machine, folder):
            trial.play("build")
        trial.mend()
        trial.end()

    return Cell(f"full-{folder.strip('/').replace('/', '-')}-{machine}", "trials", 5, work)


def folder_fills(machine: str, folder: str) -> Cell:
    """It fills up when the testbed is there: what needs no room of it goes on, and the testbed can be taken down."""

    def work(trial: Trial) -> None:
        trial.must("build")
        trial.measure()
        with full(trial, machine, folder):
            trial.play("benchmark")
            trial.play("build")
            trial.play("teardown")
        trial.end()

    return Cell(f"fills-{folder.strip('/').replace('/', '-')}-{machine}", "trials", 6, work)


def datastore_fills() -> Cell:
    """Somebody fills the datastore: its file is named, and kept until it is gone."""

    def work(trial: Trial) -> None:
        trial.must("build")
        trial.measure()
        trial.lab.run(
            CLIENT, f"dd if=/dev/zero of={DATASTORE}/theirs bs=64k 2>/dev/null || true; test -s {DATASTORE}/theirs"
        )
        trial.play("benchmark")
        trial.fails(trial.play("teardown"), (CLIENT, ("datastore_not_empty",)))
        trial.lab.run(CLIENT, f"rm {DATASTORE}/theirs")
        trial.mend()
        trial.end()

    return Cell("fills-datastore", "trials", 6, work)


def controller_full(stage: str, where: str = "trials") -> Cell:
    """The disk of the controller fills up in the middle of a build: its state folder and its results take no byte more."""

    def work(trial: Trial) -> None:
        state = trial.lab.state
        state.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "tmpfs", str(state)], check=True)
        try:
            # The lab's own state of before goes on lying below.
            played = trial.between(stage, "build", strike=lambda: fill(state / "full"))
            if stage != STAGES[-1]:
                # At the end all is written.
                trial.fails(played)
            (state / "full").unlink()
            trial.mend()
            trial.end()
        finally:
            subprocess.run(["umount", str(state)], check=True)

    return Cell(f"{AT[where]}full-controller-before-{short(stage)}", where, MINUTES[where], work)


# ---------------------------------------------------------------- more than one


def two_labs() -> Cell:
    """Two complete labs at once, each with machines of its own and the same addresses."""

    def work(trial: Trial) -> None:
        other = trial_lab.Lab("trials2")
        both = (trial.lab, other)

        def together(work: Callable) -> list:
            with concurrent.futures.ThreadPoolExecutor(2) as hands:
                return list(hands.map(work, both))

        with trial_lab.up(other, keep=False):
            other.put_others()
            before = {machine: other.look(machine) for machine in other.machines}
            together(lambda lab: trial.must("build", lab=lab))
            together(lambda lab: trial.measure(lab))
            trial.end()
            # The other one is as it was.
            if trial.must("build", lab=other).changed:
                trial.problems.append("the teardown of one lab changed the other")
            trial.must("build")
            together(lambda lab: trial.end(lab))
            for machine, lines in before.items():
                if other.look(machine) != lines:
                    trial.problems.append(f"{machine} of the second lab: {lines} was, {other.look(machine)} is")

    return Cell("two-labs", "trials", 9, work)


def two_testbeds(order: str) -> Cell:
    """Two testbeds on the same machines, built and taken down in this order: a and b begin, and end, each by its letter."""

    def work(trial: Trial) -> None:
        labs = {"a": trial.lab, "b": trial_lab.second(trial.lab)}
        built: set = set()
        for letter in order:
            lab = labs[letter]
            if letter in built:
                trial.end(lab)
                built.remove(letter)
                for left in sorted(built):
                    if trial.must("build", lab=labs[left]).changed:
                        trial.problems.append(f"the teardown of {letter} changed {left}")
            else:
                trial.must("build", lab=lab)
                built.add(letter)
                trial.measure(lab)

    return Cell(f"two-testbeds-{order}", "trials", 8, work)


def limited() -> Cell:
    """Parts of the testbed by --limit, the first one after a restart of its machine."""

    def work(trial: Trial) -> None:
        lab = trial.lab

        def only(host: str, call: Callable, *books: str) -> object:
            lab.options = ("--limit", host)
            try:
                return call(*books)
            finally:
                lab.options = ()

        trial.must("build")
        only(CLIENT, trial.must, "benchmark")
        trial.keep_in_mind()
        lab.restart(CLIENT)
        only(CLIENT, trial.must, "teardown")
        only(CLIENT, trial.must, "build")
        # The client uses it.
        trial.fails(only(TARGET, trial.play, "teardown"), (TARGET, ("target_in_use",)))  # type: ignore[arg-type]
        only(CLIENT, trial.must, "teardown")
        only(TARGET, trial.must, "teardown")
        trial.must("verify_clean")

    return Cell("limit", "trials", 7, work)


# ---------------------------------------------------------------- a cut mdadm, a lost right

# In place of mdadm: what it is given is done, and it is killed with whoever called it when the array is at the moment that is meant.
CUT = """cat > /usr/local/sbin/mdadm <<'END'
#!/bin/bash
case " $* " in *" --create "*) ;; *) exec /sbin/mdadm "$@" ;; esac
/sbin/mdadm "$@" &
until MOMENT; do kill -0 $! 2>/dev/null || break; read -r -t 0.05 _ < <(:); done
kill -KILL $! $PPID
END
chmod 755 /usr/local/sbin/mdadm; hash -r; test "$(command -v mdadm)" = /usr/local/sbin/mdadm"""
MOMENTS = {
    "at-once": "true",
    "with-a-superblock": "/sbin/mdadm --examine /dev/vdb >/dev/null 2>&1",
    "when-it-runs": "grep -q ^md /proc/mdstat 2>/dev/null",
}


def mdadm_cut(moment: str) -> Cell:
    """mdadm and the module that called it are killed while an array is made, on real md."""

    def work(trial: Trial) -> None:
        lab = trial.lab
        lab.run(TARGET, CUT.replace("MOMENT", MOMENTS[moment]))
        try:
            played = trial.note("build, cut", lab.play("build"))
            if not played.returned:
                trial.problems.append("the cut mdadm went unnoticed")
        finally:
            lab.run(TARGET, "rm /usr/local/sbin/mdadm")
        if trial.dice.random() < 0.5:
            trial.mend()
        trial.end()

    return Cell(f"cut-mdadm-{moment}", "trials-md", 4, work)


def become_lost(stage: str) -> Cell:
    """The password of root is another one from the middle of a build on."""

    def work(trial: Trial) -> None:
        lab = trial.lab
        for machine in lab.machines:
            lab.run(machine, trial_lab.ADMIT)
        trial.fails(
            trial.between(stage, "build", strike=lambda: lab.run(CLIENT, "echo root:another-tall-tree | chpasswd")),
            (CLIENT, ("UNREACHABLE!", "command_refused", None)),
        )
        lab.run(CLIENT, trial_lab.ADMIT)
        trial.mend()
        trial.end()

    return Cell(f"lose-become-before-{short(stage)}", "trials-su", 6, work)


# ---------------------------------------------------------------- all of them

# folder: of what needs none that is kept.
LABS: dict[str, Callable[[Path], trial_lab.Held]] = {
    "here": trial_lab.Here,
    "trials": lambda _folder: trial_lab.Lab(),
    "trials-cut": lambda _folder: trial_lab.Lab("trials-cut", trial_lab.impatient),
    "trials-md": lambda _folder: trial_lab.ArrayLab("trials-md", trial_lab.with_array),
    "trials-su": lambda _folder: trial_lab.Lab("trials-su", trial_lab.by_password),
}
CELLS = (
    # Each leaves another state: disk and export, the client's session, all of it.
    *(restarted(TARGET, stage) for stage in STAGES[1:]),
    *(restarted(CLIENT, stage) for stage in STAGES[2:]),
    restarted_when_built(TARGET, "build"),
    restarted_when_built(CLIENT, "teardown"),
    # `make interrupted` kills it before and after each task, on stand-ins.
    controller_killed("Datastores"),
    *(link_cut(machine) for machine in (TARGET, CLIENT)),
    link_cut(TARGET, CYCLES, "trials-cut"),
    *(folder_full(machine, folder) for machine in (TARGET, CLIENT) for folder in ("/var", "/etc")),
    *(folder_fills(machine, "/var") for machine in (TARGET, CLIENT)),
    datastore_fills(),
    # The other stages are those of this computer alone, below.
    controller_full("Datastores"),
    two_labs(),
    # The other orders are in tests/integration/test_two_testbeds.py.
    two_testbeds("abab"),
    limited(),
    *(mdadm_cut(moment) for moment in MOMENTS),
    *(become_lost(stage) for stage in STAGES[1:3]),
    *(controller_killed(stage, "here") for stage in STAGES_HERE),
    *(controller_full(stage, "here") for stage in STAGES_HERE),
)


def sample(cells: list) -> list:
    """What `make test` takes of cells in an order: the first that needs no machine."""
    return [cell for cell in cells if cell.lab == "here"][:1]
