# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults in a real embedded lab while build, benchmark or teardown runs, and whether the testbed and its results come through them.

A cell of TABLE is one fault in one stage. The lab (machines target01 and hypervisor01, one RAM disk, one session, one datastore) is kept up for all cells.
A fault strikes a benchmark while fio measures its first point, and a build or teardown at a task that the seed chooses. Of each cell four things are held:

1. No silent wrong number: what a result says follows from fio's own output and is plausible, or the result is failed or flagged. verify_results agrees.
2. A playbook that failed names a host and a code of docs/troubleshooting.md.
3. With the fault gone, a build succeeds, a second one changes nothing, and a benchmark that failed measures what is missing.
4. Before each cell of build, and after all cells of a stage, a teardown leaves nothing: verify_clean passes.

What came of each cell is a line of .cache/faults/cells.jsonl.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from places import ROOT
from small_lab import MACHINES, PATIENCE_S, REPETITIONS, Lab

LAB = "faults"
STAGES = ("build", "benchmark", "teardown")
# Whether something is built when a stage begins.
BUILT_BEFORE = {"build": False, "benchmark": True, "teardown": True}
OUTAGE_S = 30
# An hour; no clock that is merely steered does that.
CLOCK_STEP_S = 3600
# A rate beyond this factor of what is usual is no noise of a busy machine.
IMPLAUSIBLE = 8

ALL = STAGES
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


@dataclasses.dataclass(frozen=True)
class Cell:
    stage: str
    fault: str
    where: str
    how: str

    def __str__(self) -> str:
        return f"{self.stage} {self.fault} {self.where} {self.how}"


def cells() -> list:
    return [Cell(stage, fault, where, how) for fault, where, hows, stages in TABLE for how in hows for stage in stages]


def drawn(seed: int, number: int | None = None, stages: tuple = STAGES, only: str = "") -> list:
    """Cells in the order of the seed: stage after stage, so that each can end with a teardown. number: so many of all."""
    dice = random.Random(seed)  # noqa: S311 no secret
    chosen = [
        cell for cell in dice.sample(cells(), len(cells())) if cell.stage in stages and re.search(only, str(cell))
    ]
    order = dice.sample(STAGES, len(STAGES))
    return sorted(chosen[:number], key=lambda cell: order.index(cell.stage))


# ---------------------------------------------------------------- faults

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
}
# What is gone when the later half of a teardown comes.
EARLY = ("target", "session", "lun", "chap", "iscsid")
WAIT = "until {condition} >/dev/null 2>&1; do read -r -t 0.3 _; test $? -gt 128 || exit 9; done; "


class Strike:
    """One fault: waits for its moment, strikes, and undoes what is not to last. Runs beside the playbook."""

    def __init__(self, lab: Lab, cell: Cell, moment: int, run: str):
        self.lab, self.cell, self.moment, self.run_id = lab, cell, moment, run
        self.ended, self.struck_at, self.undone_at = threading.Event(), 0.0, 0.0
        self.error = ""
        self.waiting: subprocess.Popen | None = None
        self.thread = threading.Thread(target=self._work)

    def begin(self) -> None:
        self.thread.start()

    def finish(self) -> None:
        """The playbook has ended: nothing strikes any more, and what lasts is undone."""
        self.ended.set()
        self.thread.join()
        if self.struck_at and not self.undone_at:
            self._undo()

    def _work(self) -> None:
        try:
            if self._come():
                self.struck_at = time.monotonic()
                if self.cell.how in ("pause", "outage"):
                    # A playbook that ends before has seen all of it that it could.
                    self.ended.wait(OUTAGE_S)
                    self._undo()
        except Exception as error:
            self.error = repr(error)

    def _come(self) -> bool:
        """Wait for the moment and strike; False when the playbook ended before."""
        cell, benchmark = self.cell, self.cell.stage == "benchmark"
        if not benchmark:
            while len(self._reached()) < self.moment:
                if self.ended.wait(0.1):
                    return False
        condition, strike = self._texts()
        # While the first point is measured.
        measuring = f"""grep -q '"phase": *"measure"' {self._folder()}/state.json"""
        if strike and not (benchmark and cell.where != "hypervisor01"):
            return self._on(cell.where, f"{measuring} && {condition}" if benchmark else condition, strike)
        if benchmark and not self._on("hypervisor01", measuring, "true"):
            return False
        if strike:
            return self._on(cell.where, condition, strike)
        self._here()
        return True

    def _reached(self) -> list:
        lines = self.lab.moments.read_text(encoding="utf-8").splitlines() if self.lab.moments.exists() else []
        return [line for line in lines if line.startswith("before ")]

    def _folder(self) -> str:
        return f"/run/storlab/{LAB}/bench/{self.run_id}"

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

    def _here(self) -> None:
        cell = self.cell
        if cell.fault == "machine":
            os.kill(self.lab.pid(cell.where), signal.SIGKILL if cell.how == "kill" else signal.SIGSTOP)
        elif cell.fault == "link":
            self.lab.network("ip", "link", "set", self.lab.tap(cell.where), "down")
        else:
            assert cell.fault == "results_full", cell
            fill(self.lab.results / "full")

    def _undo(self) -> None:
        cell = self.cell
        if cell.how not in ("kill", "gone"):
            if cell.fault == "machine":
                os.kill(self.lab.pid(cell.where), signal.SIGCONT)
            elif cell.fault == "link":
                self.lab.network("ip", "link", "set", self.lab.tap(cell.where), "up")
            elif cell.fault == "results_full":
                (self.lab.results / "full").unlink()
            elif ON_MACHINE[cell.fault][2]:
                self.lab.run(cell.where, self._filled(ON_MACHINE[cell.fault][2]))
        self.undone_at = time.monotonic()


def fill(path: Path) -> None:
    """Take all that is left of a file system."""
    with open(path, "ab", buffering=0) as handle:
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    handle.write(b"\0" * size)


# ---------------------------------------------------------------- what is held


def codes(page: str) -> set:
    """The codes that docs/troubleshooting.md has, and Ansible's own word for a host that it cannot reach."""
    firsts = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `")]
    return {code for first in firsts for code in re.findall(r"`(\w+)`", first)} | set(
        re.findall(r"`(UNREACHABLE)!`", page)
    )


def unnamed(failures: list, known: set, hosts: tuple = (*MACHINES, "controller01", "localhost")) -> list:
    """What is wrong with how a playbook that failed says so. A task that stops because of another's failure names that host."""
    problems, explained = [], 0
    for failure in failures:
        code = (failure.get("failure") or {}).get("code") or ("UNREACHABLE" if failure.get("unreachable") else None)
        if failure["host"] not in hosts:
            problems.append(f"no host is named: {failure}")
        elif code in known:
            explained += 1
        elif code or not any(host in failure["msg"] for host in hosts):
            problems.append(f"docs/troubleshooting.md has no code {code}: {failure}")
    if not explained:
        problems.append(f"no failure has a code: {failures}")
    return problems


def silent(points: list, usual: dict) -> list:
    """Wrong numbers that nothing tells. points: [(result, fio's document)]; usual: {iops, flags} of undisturbed points."""
    problems = []
    for result, text in points:
        name = result["point_id"]
        if result["status"] == "failed":
            problems += [] if result["failures"] else [f"{name} failed, and nothing says why"]
        elif not set(result["flags"]) - set(usual["flags"]):
            problems += [f"{name}: {problem}" for problem in implausible(result, text, usual["iops"])]
    return problems


def implausible(result: dict, text: str, usual_iops: float) -> list:
    """What speaks against a result that says it was measured, told by fio's document alone."""
    try:
        jobs = json.loads(text[text.index("{") :])["jobs"]
    except ValueError:
        return ["fio left no document"]
    parts = [job[side] for job in jobs for side in ("read", "write") if job[side]["total_ios"]]
    ios, total, asked = sum(part["total_ios"] for part in parts), result["total"], result["workload"]
    runtime_s = max((part["runtime"] for part in parts), default=0) / 1000
    if not ios or not runtime_s:
        return ["fio did no I/O"]
    problems = []
    if total["ios"] != ios:
        problems.append(f"fio did {ios} I/Os, the result says {total['ios']}")
    if abs(total["iops"] / (ios / runtime_s) - 1) > 0.02:
        problems.append(f"fio did {ios / runtime_s:.0f} IOPS, the result says {total['iops']:.0f}")
    if any(job["error"] for job in jobs):
        problems.append("fio had errors")
    if not 0.95 * asked["runtime_s"] <= runtime_s <= asked["runtime_s"] + max(1, 0.05 * asked["runtime_s"]):
        problems.append(f"fio ran {runtime_s} s, and {asked['runtime_s']} s were asked for")
    longest_s = max(part["lat_ns"]["max"] for part in parts) / 1e9
    if longest_s > asked["runtime_s"] / 2:
        problems.append(f"an I/O took {longest_s:.1f} s")
    in_flight = sum(part["total_ios"] * part["lat_ns"]["mean"] for part in parts) / 1e9 / runtime_s
    if in_flight > 1.1 * asked["queue_depth"] * asked["workers"] + longest_s:
        problems.append(f"{in_flight:.1f} I/Os were in flight")
    if not usual_iops / IMPLAUSIBLE <= total["iops"] <= usual_iops * IMPLAUSIBLE:
        problems.append(f"{total['iops']:.0f} IOPS, and {usual_iops:.0f} are usual")
    return problems


def moment_of(cell: Cell, moments: list, seed: int) -> int:
    """At which task a fault strikes: between the first that changes a host and the last, in the first half for what is soon gone."""
    names = [line.split(" ", 2)[2] for line in moments if line.startswith("before ")]
    first = names.index("Let nobody else change the host meanwhile") + 2
    last = names.index("Let others change the host")
    last = (first + last) // 2 if cell.fault in EARLY else last
    return random.Random(f"{seed} {cell}").randint(first, last)  # noqa: S311 no secret


# ---------------------------------------------------------------- the suite


class Suite:
    def __init__(self, lab: Lab, seed: int, say: Callable[[str], None] = print):
        self.lab, self.seed, self.say = lab, seed, say
        self.known = codes((ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8"))
        self.built: bool | None = None
        self.undisturbed: dict = {}

    def clean(self) -> list:
        """Take down what is built, and prove that nothing is left."""
        played = self.lab.play("teardown", "verify_clean")
        self.built = played.returned != 0
        return [] if played.returned == 0 else [f"teardown and verify_clean: {played.failures}"]

    def build(self) -> list:
        """(problems) of two builds: the first succeeds, the second changes nothing."""
        first = self.lab.play("build")
        self.built, self.build_s = True, first.seconds
        problems = [] if first.returned == 0 else [f"the build fails: {first.failures}"]
        if problems:
            first = self.lab.play("build")
            problems.append(f"one more build ends with {first.returned}: {first.failures}")
        self.recovered_at = time.monotonic()
        second = self.lab.play("build")
        if second.returned or second.changed:
            problems.append(f"a second build: {second.returned}, {second.changed} changed: {second.failures}")
        return problems

    def look(self, stages: set) -> None:
        """What happens undisturbed: the tasks of each of these stages, and what is usually measured."""
        path = self.lab.folder / "undisturbed.json"
        if path.exists():
            self.undisturbed = json.loads(path.read_text(encoding="utf-8"))
            if stages <= set(self.undisturbed["moments"]):
                return
        moments = {}
        run = f"undisturbed-{time.time_ns()}"
        # Nothing can be measured without a build.
        for stage in [stage for stage in STAGES if stage in stages | {"build", "benchmark"}]:
            played = self.lab.play(stage, **({"testbed_run_id": run} if stage == "benchmark" else {}))
            if played.returned:
                raise RuntimeError(f"undisturbed, {stage} fails: {played.failures}")
            moments[stage] = played.moments
            self.say(f"undisturbed {stage}: {played.seconds:.0f} s")
        results = [result for result, _raw in self.lab.points(run)]
        if [result["status"] for result in results] != ["measured"] * REPETITIONS:
            raise RuntimeError(f"undisturbed, points fail: {results}")
        self.undisturbed = {
            "moments": moments,
            "usual": {
                "iops": statistics.median(result["total"]["iops"] for result in results),
                "flags": sorted({flag for result in results for flag in result["flags"]}),
            },
        }
        self.built = "teardown" not in stages
        problems = silent(self.lab.points(run), self.undisturbed["usual"])
        if problems:
            raise RuntimeError(f"undisturbed: {problems}")
        path.write_text(json.dumps(self.undisturbed), encoding="utf-8")

    def run(self, cell: Cell) -> dict:
        problems = []
        if self.built is not BUILT_BEFORE[cell.stage]:
            problems += self.build() if BUILT_BEFORE[cell.stage] else self.clean()
        if problems:
            return {"outcome": "not begun", "problems": problems}
        run = re.sub(r"\W+", "-", f"{cell}-{time.time_ns()}")
        strike = Strike(self.lab, cell, moment_of(cell, self.undisturbed["moments"][cell.stage], self.seed), run)
        if cell.stage == "benchmark":
            strike.moment = 0
        variables = {"testbed_run_id": run} if cell.stage == "benchmark" else {}
        self.built = None
        played = self.lab.play(cell.stage, strike=strike, **variables)
        if strike.error:
            problems.append(f"the fault: {strike.error}")
        gone_at = time.monotonic()
        task = played.moments[-1] if played.moments and played.returned else ""
        record = {
            "returned": played.returned,
            "seconds": played.seconds,
            "moment": strike.moment,
            "failures": [
                {
                    "host": failure["host"],
                    "code": (failure.get("failure") or {}).get("code"),
                    "unreachable": failure.get("unreachable"),
                    "msg": failure["msg"][:300],
                }
                for failure in played.failures
            ],
            "task": task,
        }
        if played.returned is None:
            problems.append(f"{cell.stage} did not end within {PATIENCE_S} s, at {task}")
        elif played.returned:
            problems += unnamed(played.failures, self.known)
        problems += self.build()
        record["recovery_s"] = round(self.recovered_at - gone_at, 1)
        if cell.stage == "benchmark":
            problems += self.numbers(run)
            record["points"] = self.statuses(run)
            if played.returned or len(record["points"]) < REPETITIONS:
                again = self.lab.play("benchmark", **variables)
                record["again"] = self.statuses(run)
                if again.returned or [point["status"] for point in record["again"]] != ["measured"] * REPETITIONS:
                    problems.append(f"once more: {again.returned} {record['again']} {again.failures}")
                problems += self.numbers(run)
        came = "FAILED" if problems else "ok" if strike.struck_at else "missed"
        return {"outcome": came, **record, "problems": problems}

    def statuses(self, run: str) -> list:
        return [
            {
                "status": result["status"],
                "codes": [failure["code"] for failure in result["failures"]],
                "flags": result["flags"],
                **({"iops": round(result["total"]["iops"])} if result["status"] == "measured" else {}),
            }
            for result, _raw in self.lab.points(run)
        ]

    def numbers(self, run: str) -> list:
        points = self.lab.points(run)
        problems = silent(points, self.undisturbed["usual"])
        if points:
            verified = self.lab.play("verify_results", testbed_run_id=run)
            problems += [f"verify_results: {verified.failures}"] if verified.returned else []
        return problems


@contextlib.contextmanager
def small_results(lab: Lab):
    """The results in a file system of their own, which can be full without anybody else noticing."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=0755", "tmpfs", str(lab.results)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(lab.results)], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Faults in an embedded lab while build, benchmark and teardown run.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--cells", type=int, help="how many of them (all)")
    parser.add_argument("--stage", choices=STAGES, action="append", help="only these")
    parser.add_argument("--only", default="", help="a regular expression for the names of cells, as --list shows them")
    parser.add_argument("--list", action="store_true", help="show the cells in their order, and do nothing")
    parser.add_argument("--keep", action="store_true", help="leave the lab up, for the next call with --keep")
    given = parser.parse_args()
    chosen = drawn(given.seed, given.cells, tuple(given.stage or STAGES), given.only)
    print(f"seed {given.seed}, {len(chosen)} of {len(cells())} cells", flush=True)
    if given.list:
        print(*chosen, sep="\n")
        return 0
    lab = Lab(LAB)
    suite = Suite(lab, given.seed, lambda text: print(text, flush=True))
    counts: dict = {}
    with small_results(lab), open(lab.folder / "cells.jsonl", "a", encoding="utf-8") as kept:
        if not given.keep:
            (lab.folder / "undisturbed.json").unlink(missing_ok=True)
        try:
            suite.look({cell.stage for cell in chosen})
            for number, cell in enumerate(chosen, start=1):
                try:
                    record = suite.run(cell)
                except Exception as error:
                    suite.built, record = None, {"outcome": "FAILED", "problems": [repr(error)]}
                if number == len(chosen) or chosen[number].stage != cell.stage:
                    left = suite.clean()
                    record["problems"] += left
                    record["outcome"] = "FAILED" if left else record["outcome"]
                counts[record["outcome"]] = counts.get(record["outcome"], 0) + 1
                kept.write(json.dumps({"cell": str(cell), "seed": given.seed, **record}) + "\n")
                kept.flush()
                print(
                    f"{number}/{len(chosen)} {cell}: {record['outcome']}, it ended with {record.get('returned')} after "
                    f"{record.get('seconds')} s, recovery {record.get('recovery_s')} s",
                    *record["problems"],
                    sep="\n  ",
                    flush=True,
                )
        finally:
            if not given.keep:
                gone = lab.play("embedded_lab", testbed_lab_state="absent")
                if gone.returned:
                    print(f"The lab does not go: {gone.failures}", flush=True)
                    counts["left"] = 1
    print(f"{counts} (seed {given.seed})")
    # Where nothing struck, nothing was tried.
    return 0 if counts.get("ok") and set(counts) <= {"ok", "missed"} else 1


if __name__ == "__main__":
    sys.exit(main())
