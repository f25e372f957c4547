# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The faults of real machines: an embedded lab, whose processes, machines, network, target and file systems fail."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import fault_suite
import small_lab
from fault_suite import Cell

ALL = fault_suite.STAGES
MEASURED = ("benchmark",)
# What is hit, where, how, and in which stages. pause: SIGSTOP, and SIGCONT after 30 s. outage: gone for 30 s. lasting: until the playbook has ended.
# kill and gone: what is hit does not come back by itself.
TABLE = (
    ("fio", "hypervisor01", ("pause", "kill", "lasting"), MEASURED),
    ("supervisor", "hypervisor01", ("pause", "kill", "lasting"), MEASURED),
    ("machine", "target01", ("pause", "kill", "lasting"), ALL),
    ("machine", "hypervisor01", ("pause", "kill", "lasting"), ALL),
    ("link", "target01", ("outage", "lasting"), ALL),
    ("link", "hypervisor01", ("outage", "lasting"), ALL),
    ("target", "target01", ("outage", "lasting"), ALL),
    ("session", "hypervisor01", ("gone",), ALL),
    ("iscsid", "hypervisor01", ("kill",), ALL),
    ("lun", "target01", ("gone",), ALL),
    ("chap", "target01", ("gone",), ALL),
    ("results_full", "controller01", ("outage",), MEASURED),
    ("results_full", "controller01", ("lasting",), ALL),
    ("run_full", "hypervisor01", ("outage",), MEASURED),
    ("run_full", "hypervisor01", ("lasting",), ALL),
    ("clock_ahead", "hypervisor01", ("lasting",), ALL),
    ("clock_back", "hypervisor01", ("lasting",), MEASURED),
)
# In a lab of its own, whose builds take longer for it: the machine, and what its disk comes from.
GUEST_TABLE = (
    ("machine", "guest01", ("pause", "kill", "lasting"), ALL),
    ("export", "hypervisor01", ("pause", "kill", "lasting"), ALL),
)
# What is gone when the later half of a teardown comes.
EARLY = ("target", "session", "lun", "chap", "iscsid", "export")
# An hour; no clock that is merely steered does that.
CLOCK_STEP_S = 3600

TPG = "/sys/kernel/config/target/iscsi/iqn*/tpgt_1"
# {fault: (what must be there, what strikes, what undoes it)}, shell of the machine.
ON_MACHINE = {
    "fio": ("pgrep -x fio", {"kill": "pkill -KILL -x fio", None: "pkill -STOP -x fio"}, "pkill -CONT -x fio || true"),
    "supervisor": (
        "test -e {run}/supervisor.json",
        {"kill": "kill -KILL $({pid})", None: "kill -STOP $({pid})"},
        "kill -CONT $({pid}) || true",
    ),
    "iscsid": (
        "pgrep -x iscsid",
        {"kill": "pkill -KILL -x iscsid", None: "pkill -STOP -x iscsid"},
        "pkill -CONT -x iscsid || true",
    ),
    "target": (
        f"grep -qx 1 {TPG}/enable",
        {None: f"for tpg in {TPG}; do echo 0 > $tpg/enable; done"},
        f"for tpg in {TPG}; do if test -e $tpg; then echo 1 > $tpg/enable; fi; done",
    ),
    "session": ("ls -d /sys/class/iscsi_session/session*", {None: "iscsiadm -m session -u"}, ""),
    "lun": (
        f"ls -d {TPG}/acls/*/lun_*/*/",
        {None: f"for lun in {TPG}/acls/*/lun_*; do find $lun -maxdepth 1 -type l -delete; rmdir $lun; done"},
        "",
    ),
    # Who is logged in stays so, and is sent away to log in anew.
    "chap": (
        f"ls {TPG}/acls/*/auth/password && grep -qx 1 {TPG}/enable",
        {
            None: f"for acl in {TPG}/acls/*; do printf another-secret-1 > $acl/auth/password; done; "
            f"for tpg in {TPG}; do echo 0 > $tpg/enable; echo 1 > $tpg/enable; done"
        },
        "",
    ),
    # As full as it is, without a byte of memory for it. What the lab's own Python keeps in /run is no part of the testbed, and moves.
    "run_full": (
        "true",
        {
            None: "cd /run && if ! test -L python-archives; then mv python-archives /dev/shm && "
            "ln -s /dev/shm/python-archives .; fi; mount -o remount,size=$(( $(df -k --output=used /run | tail -n 1) + 4 ))k /run"
        },
        "mount -o remount,size=50% /run",
    ),
    "clock_ahead": ("true", {None: f"date -s @$(( $(date +%s) + {CLOCK_STEP_S} ))"}, "date -s @{now}"),
    "clock_back": ("true", {None: f"date -s @$(( $(date +%s) - {CLOCK_STEP_S} ))"}, "date -s @{now}"),
    "export": (
        "pgrep -x qemu-nbd",
        {"kill": "pkill -KILL -x qemu-nbd", None: "pkill -STOP -x qemu-nbd"},
        "pkill -CONT -x qemu-nbd || true",
    ),
}
WAIT = "until {condition} >/dev/null 2>&1; do read -r -t 0.3 _; test $? -gt 128 || exit 9; done; "


class Strike(fault_suite.Strike):
    def come(self) -> bool:
        cell, benchmark, measurer = self.cell, self.cell.stage == "benchmark", self.lab.measurer
        if not self.at_task():
            return False
        condition, strike = self._texts()
        # While the first point is measured.
        measuring = f"""grep -q '"phase": *"measure"' {self._folder()}/state.json"""
        if strike and not (benchmark and cell.where != measurer):
            return self._on(cell.where, f"{measuring} && {condition}" if benchmark else condition, strike)
        if benchmark and not self._on(measurer, measuring, "true"):
            return False
        if strike:
            return self._on(cell.where, condition, strike)
        return self._here()

    def _folder(self) -> str:
        return f"/run/storlab/{self.lab.name}/bench/{self.run_id}"

    def _texts(self) -> tuple:
        if self.cell.fault not in ON_MACHINE:
            return "true", ""
        condition, strikes, _undo = ON_MACHINE[self.cell.fault]
        return self._filled(condition), self._filled(strikes.get(self.cell.how, strikes[None]))

    def _filled(self, script: str) -> str:
        pid = f"""sed -n 's/.*"pid": *\\([0-9]*\\).*/\\1/p' {self._folder()}/supervisor.json"""
        filled = script.replace("{run}", self._folder()).replace("{pid}", pid)
        return filled.replace("{now}", str(round(time.time())))

    def _on(self, machine: str, condition: str, script: str) -> bool:
        process = self.lab.shell(machine, WAIT.format(condition=f"{{ {condition}; }}") + f"{script} && echo struck")
        assert process.stdin and process.stdout
        while process.poll() is None:
            if self.ended.wait(0.05):
                process.stdin.close()
                break
        output = process.stdout.read()
        process.wait()
        if "struck" in output:
            return True
        if not self.ended.is_set():
            raise RuntimeError(f"{machine}: {script!r}: {output}")
        return False

    def _runs(self) -> bool:
        self.pid = self.lab.pid(self.cell.where)
        return bool(self.pid)

    def _here(self) -> bool:
        cell = self.cell
        if cell.fault == "machine":
            # A guest is not there yet when a build begins, and not any more when a teardown ends.
            if not self.until(self._runs):
                return False
            os.kill(self.pid, signal.SIGKILL if cell.how == "kill" else signal.SIGSTOP)
        elif cell.fault == "link":
            self.lab.network("ip", "link", "set", self.lab.tap(cell.where), "down")
        else:
            assert cell.fault == "results_full", cell
            fill(self.lab.results / "full")
        return True

    def undo(self) -> None:
        cell = self.cell
        if cell.fault == "machine":
            # What was stopped may have been ended meanwhile.
            if self.lab.pid(cell.where) == self.pid:
                os.kill(self.pid, signal.SIGCONT)
        elif cell.fault == "link":
            self.lab.network("ip", "link", "set", self.lab.tap(cell.where), "up")
        elif cell.fault == "results_full":
            (self.lab.results / "full").unlink()
        elif ON_MACHINE[cell.fault][2]:
            self.lab.run(cell.where, self._filled(ON_MACHINE[cell.fault][2]))


def fill(path: Path) -> None:
    """Take all that is left of a file system."""
    with open(path, "ab", buffering=0) as handle:
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    handle.write(b"\0" * size)


@contextlib.contextmanager
def small_results(folder: Path):
    """The results in a file system of their own, which can be full without anybody else noticing."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=0755", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


class Lab(small_lab.Lab):
    """Up for all cells."""

    hosts = (*small_lab.MACHINES, "controller01", "localhost")
    outage_s, measurer = 30.0, "hypervisor01"

    def __init__(self, keep: bool = False, name: str = "faults", guest: bool = False):
        """keep: leave it up, for the next time."""
        super().__init__(name, guest)
        self.keep, self.open = keep, contextlib.ExitStack()

    def __enter__(self) -> Lab:
        self.open.enter_context(small_results(self.results))
        if not self.keep:
            (self.folder / "undisturbed.json").unlink(missing_ok=True)
        return self

    def __exit__(self, *_exception: object) -> None:
        with self.open:
            gone = None if self.keep else self.play("embedded_lab", testbed_lab_state="absent")
        if gone and gone.returned:
            raise RuntimeError(f"The lab does not go: {gone.failures}")

    def strike(self, cell: Cell, moment: int, run: str) -> Strike:
        return Strike(self, cell, moment, run)

    def moment(self, cell: Cell, moments: list, seed: int) -> int:
        return fault_suite.moment_of(cell, moments, seed, EARLY)


class GuestLab(Lab):
    """Only the guest's disk is measured."""

    hosts = (*Lab.hosts, "guest01")
    measurer = "guest01"

    def __init__(self, keep: bool = False):
        super().__init__(keep, "faultguest", guest=True)
