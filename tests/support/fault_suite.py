# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a testbed in which something fails while build, benchmark or teardown runs: cells, what is held of each, and how it is told.

A cell is one fault in one stage on one of the labs of fault_labs.py. Of each cell four things are held:

1. No silent wrong number: what a result says follows from fio's own output and is plausible, or the result is failed or flagged. verify_results agrees.
2. A playbook that failed names a host and a code of docs/troubleshooting.md.
3. With the fault gone, a build succeeds, a second one changes nothing, and a benchmark that failed measures what is missing.
4. Before each cell of build, and after all cells of a stage, a teardown leaves nothing: verify_clean passes.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

from lab_plays import PATIENCE_S
from places import ROOT

STAGES = ("build", "benchmark", "teardown")
# Whether something is built when a stage begins.
BUILT_BEFORE = {"build": False, "benchmark": True, "teardown": True}
# A rate beyond this factor of what is usual is no noise of a busy machine.
IMPLAUSIBLE = 8
USUAL = "are usual"
# What becomes of a point where a machine has too much else to do; it is measured so many times at most.
BUSY = {"too_long", "stalled"}
TRIES = 3


@dataclasses.dataclass(frozen=True)
class Cell:
    lab: str
    stage: str
    fault: str
    where: str
    how: str

    def __str__(self) -> str:
        """Unique, as no host is in two labs."""
        return f"{self.stage} {self.fault} {self.where} {self.how}"


def cells(tables: dict) -> list:
    """tables: {lab: ((fault, where, hows, stages), …)}"""
    return [
        Cell(lab, stage, fault, where, how)
        for lab, table in tables.items()
        for fault, where, hows, stages in table
        for how in hows
        for stage in stages
    ]


def drawn(every: list, seed: int, number: int | None = None) -> list:
    """So many of all cells, in the order of the seed: lab after lab and stage after stage, so that each can end with a teardown."""
    dice = random.Random(seed)  # noqa: S311 no secret
    chosen = dice.sample(every, len(every))[:number]
    labs = sorted({cell.lab for cell in every})
    labs, stages = dice.sample(labs, len(labs)), dice.sample(STAGES, len(STAGES))
    return sorted(chosen, key=lambda cell: (labs.index(cell.lab), stages.index(cell.stage)))


class Strike:
    """One fault: waits for its moment, strikes, and undoes what is not to last. Runs beside the playbook. A subclass knows how."""

    def __init__(self, lab: Any, cell: Cell, moment: int, run: str):
        """moment: the task of the playbook at which to strike, or what else lab.moment() counts; 0 of a benchmark: while the first point is measured."""
        self.lab, self.cell, self.moment, self.run_id = lab, cell, moment, run
        self.ended, self.struck_at, self.undone_at = threading.Event(), 0.0, 0.0
        self.error = ""
        self.thread = threading.Thread(target=self._work)

    def come(self) -> bool:
        """Strike at its moment; False when the playbook ended before."""
        raise NotImplementedError

    def undo(self) -> None:
        """What was hit comes back; not called of what does not."""
        raise NotImplementedError

    def begin(self) -> None:
        self.thread.start()

    def finish(self) -> None:
        """The playbook has ended: nothing strikes any more, and what lasts is undone."""
        self.ended.set()
        self.thread.join()
        if self.struck_at and not self.undone_at:
            self._undo()

    def until(self, condition: Callable[[], Any]) -> bool:
        """Wait for it; False when the playbook ended before."""
        while not condition():
            if self.ended.wait(0.1):
                return False
        return True

    def at_task(self) -> bool:
        """Wait until the playbook has come to the task at which to strike."""
        return self.until(lambda: self.lab.reached() >= self.moment)

    def _work(self) -> None:
        try:
            if self.come():
                self.struck_at = time.monotonic()
                if self.cell.how in ("pause", "outage"):
                    # A playbook that ends before has seen all of it that it could.
                    self.ended.wait(self.lab.outage_s)
                    self._undo()
        except Exception as error:
            self.error = repr(error)

    def _undo(self) -> None:
        if self.cell.how not in ("kill", "gone"):
            self.undo()
        self.undone_at = time.monotonic()


def moment_of(cell: Cell, moments: list, seed: int, early: tuple = ()) -> int:
    """At which task a fault strikes: between the first that changes a host and the last, in the first half for what is soon gone."""
    if cell.stage == "benchmark":
        return 0
    names = [line.split(" ", 2)[2] for line in moments if line.startswith("before ")]
    first = names.index("Lock the host against changes by others") + 2
    last = names.index("Unlock the host")
    last = (first + last) // 2 if cell.fault in early else last
    return random.Random(f"{seed} {cell}").randint(first, last)  # noqa: S311 no secret


# ---------------------------------------------------------------- what is held


# Ansible's own words where no code can be, as the module never came to an answer: {what docs/troubleshooting.md has: what a failure's message is}.
KILLED = "Module result deserialization failed"
OWN_WORDS = {
    KILLED: rf"{KILLED}: No start of json char found",
    "Incorrect su password": r"(Task failed: )?Incorrect su password",
    "Incorrect sudo password": r"(Task failed: )?Incorrect sudo password",
}


def own_word(failure: dict) -> str | None:
    """One that broke off has more than these words."""
    if failure.get("unreachable"):
        return "UNREACHABLE"
    return next((word for word, pattern in OWN_WORDS.items() if re.fullmatch(pattern, failure["msg"])), None)


def codes(page: str) -> set:
    """The codes that docs/troubleshooting.md has, and Ansible's own words for a host that it cannot reach and for a module that never answered."""
    firsts = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `")]
    return {code for first in firsts for code in re.findall(r"`(\w+)`", first)} | {
        word for word in ("UNREACHABLE", *OWN_WORDS) if re.search(f"`{word}!?`", page)
    }


def unnamed(failures: list, known: set, hosts: tuple) -> list:
    """What is wrong with how a playbook that failed says so. A task that stops because of another's failure names that host."""
    problems, explained = [], 0
    for failure in failures:
        code = (failure.get("failure") or {}).get("code") or own_word(failure)
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
    """Wrong numbers that nothing tells. points: [(result, fio's document)]; usual: {iops: [rates], flags} of undisturbed points."""
    problems = []
    for result, text in points:
        name = result["point_id"]
        if result["status"] == "failed":
            problems += [] if result["failures"] else [f"{name} failed, and nothing says why"]
        elif not set(result["flags"]) - set(usual["flags"]):
            problems += [f"{name}: {problem}" for problem in implausible(result, text, usual["iops"])]
    return problems


def implausible(result: dict, text: str, usual_iops: list) -> list:
    """What speaks against a result that says it was measured, told by fio's document and by the rates that are usual."""
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
    # A shorter run is a trial, of which docs/results.md says that only a standstill of all of it fails.
    if longest_s > asked["runtime_s"] / (2 if asked["runtime_s"] >= 6 else 1):
        problems.append(f"an I/O took {longest_s:.1f} s")
    in_flight = sum(part["total_ios"] * part["lat_ns"]["mean"] for part in parts) / 1e9 / runtime_s
    if in_flight > 1.1 * asked["queue_depth"] * asked["workers"] + longest_s:
        problems.append(f"{in_flight:.1f} I/Os were in flight")
    if not any(usual / IMPLAUSIBLE <= total["iops"] <= usual * IMPLAUSIBLE for usual in usual_iops):
        problems.append(f"{total['iops']:.0f} IOPS, and {', '.join(f'{usual:.0f}' for usual in usual_iops)} {USUAL}")
    return problems


# ---------------------------------------------------------------- the suite


class Suite:
    def __init__(self, lab: Any, seed: int, say: Callable[[str], None] = print):
        """lab: one of fault_labs.py."""
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
        usual: dict = {}
        # Nothing can be measured without a build.
        for stage in [stage for stage in STAGES if stage in stages | {"build"}]:
            moments[stage] = self._measure_undisturbed(usual) if stage == "benchmark" else self._undisturbed(stage)
        self.undisturbed = {"moments": moments, **usual}
        self.built = "teardown" not in stages
        path.write_text(json.dumps(self.undisturbed), encoding="utf-8")

    def _undisturbed(self, stage: str, **variables: object) -> list:
        played = self.lab.play(stage, **variables)
        if played.returned:
            raise RuntimeError(f"undisturbed, {stage} fails: {played.failures}")
        self.say(f"undisturbed {stage} of {self.lab.hosts[0]}: {played.seconds:.0f} s")
        return played.moments

    def _measure_undisturbed(self, usual: dict) -> list:
        """The tasks of a benchmark; usual is told what is usually measured."""
        run = f"undisturbed-{time.time_ns()}"
        for left in reversed(range(TRIES)):
            try:
                moments = self._undisturbed("benchmark", testbed_run_id=run)
                break
            except RuntimeError:
                if not left or not self.busy(run):
                    raise
        points = self.lab.points(run)
        results = [result for result, _raw in points]
        if not results or {result["status"] for result in results} != {"measured"}:
            raise RuntimeError(f"undisturbed, points fail: {self.statuses(run)}")
        usual["points"] = len(results)
        usual["usual"] = {
            "iops": [statistics.median(result["total"]["iops"] for result in results)],
            "flags": sorted({flag for result in results for flag in result["flags"]}),
        }
        problems = silent(points, usual["usual"])
        if problems:
            raise RuntimeError(f"undisturbed: {problems}")
        return moments

    def busy(self, run: str) -> bool:
        """Whether the machine was too busy for points of a run, and nothing else was the matter with any."""
        failed = [set(point["codes"]) for point in self.statuses(run) if point["status"] == "failed"]
        return bool(failed) and all(codes <= BUSY for codes in failed)

    def run(self, cell: Cell) -> dict:
        problems = []
        if self.built is not BUILT_BEFORE[cell.stage]:
            problems += self.build() if BUILT_BEFORE[cell.stage] else self.clean()
        if problems:
            return {"outcome": "not begun", "problems": problems}
        run = re.sub(r"\W+", "-", f"{cell}-{time.time_ns()}")
        strike = self.lab.strike(cell, self.lab.moment(cell, self.undisturbed["moments"][cell.stage], self.seed), run)
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
            problems += unnamed(played.failures, self.known, self.lab.hosts)
        problems += self.build()
        record["recovery_s"] = round(self.recovered_at - gone_at, 1)
        if cell.stage == "benchmark":
            problems += self.numbers(run)
            record["points"] = self.statuses(run)
            if played.returned or len(record["points"]) < self.undisturbed["points"]:
                problems += self.again(run, record)
        came = "FAILED" if problems else "ok" if strike.struck_at else "missed"
        return {"outcome": came, **record, "problems": problems}

    def again(self, run: str, record: dict) -> list:
        """Problems of the same benchmark, run once more: it measures what is missing, and where the machine is busy that once more."""
        for _try in range(TRIES):
            played = self.lab.play("benchmark", testbed_run_id=run)
            record["again"] = self.statuses(run)
            if not self.busy(run):
                break
        measured = [point["status"] for point in record["again"]] == ["measured"] * self.undisturbed["points"]
        right = not played.returned and measured
        return [
            *([] if right else [f"once more: {played.returned} {record['again']} {played.failures}"]),
            *self.numbers(run),
        ]

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
        if any(problem.endswith(USUAL) for problem in problems):
            # The machine may have more to do than it had, or less: what it does undisturbed now is usual, too.
            now: dict = {}
            self._measure_undisturbed(now)
            self.undisturbed["usual"]["iops"] += now["usual"]["iops"]
            problems = silent(points, self.undisturbed["usual"])
        if points:
            verified = self.lab.play("verify_results", testbed_run_id=run)
            problems += [f"verify_results: {verified.failures}"] if verified.returned else []
        return problems


def run(suite: Suite, chosen: list, kept: TextIO) -> dict:
    """Run cells of one lab, say what comes of each, and write it down as a line of a file. Returns how many ended how."""
    counts: dict = {}
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
        kept.write(json.dumps({"cell": str(cell), "seed": suite.seed, **record}) + "\n")
        kept.flush()
        suite.say(
            "\n  ".join(
                [
                    f"{number}/{len(chosen)} {cell}: {record['outcome']}, it ended with {record.get('returned')} after "
                    f"{record.get('seconds')} s, recovery {record.get('recovery_s')} s",
                    *record["problems"],
                ]
            )
        )
    return counts
