# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make trials` holds of a testbed that is tried on machines: cells, what is asserted in each, and how it is told.

A cell is one setting. Of each one five things are held:

1. A playbook that fails names the host and a code of docs/troubleshooting.md, whose line has the remedy, or Ansible's own word for a host that is not reached.
2. Points that were measured before are there afterwards, unchanged.
3. A build mends, and one more changes nothing.
4. A teardown ends well, and verify_clean proves that nothing is left.
5. What somebody else has on the machines is as it was, read by nothing of the collection.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
import re
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fault_suite import codes, unnamed
from lab_plays import PATIENCE_S, Played
from places import ROOT


class Ended(Exception):
    """The cell cannot go on; its problems are noted."""


class Trial:
    """One cell while it is tried."""

    def __init__(self, lab: Any, seed: int, say: Callable[[str], None] = print):
        self.lab, self.say = lab, say
        self.dice = random.Random(seed)  # noqa: S311 no secret
        self.problems: list = []
        self.plays: list = []
        self.known = codes((ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8"))
        self.points: dict = {}
        self.before: dict = {}

    def begin(self) -> None:
        self.lab.put_others()
        self.before = self._look()

    def _look(self) -> dict:
        return {machine: self.lab.look(machine) for machine in self.lab.machines}

    # ---- playbooks

    def note(self, name: str, played: Played) -> Played:
        """What every playbook is held to, however it ended."""
        failures = [
            {
                "host": failure["host"],
                "code": (failure.get("failure") or {}).get("code")
                or ("UNREACHABLE!" if failure.get("unreachable") else None),
                "msg": failure["msg"][:400],
            }
            for failure in played.failures
        ]
        self.plays.append({"play": name, "returned": played.returned, "seconds": played.seconds, "failures": failures})
        self.say(
            f"    {name}: {played.returned} after {played.seconds:.0f} s {[(each['host'], each['code']) for each in failures]}"
        )
        if played.returned is None:
            self.problems.append(f"{name} did not end within {PATIENCE_S} s")
        elif played.returned > 0:
            self.problems += [f"{name}: {problem}" for problem in unnamed(played.failures, self.known, self.lab.hosts)]
        return played

    def play(self, *books: str, **variables: object) -> Played:
        """It may fail, in words that can be looked up."""
        return self.note(" ".join(books), self.lab.play(*books, **variables))

    def must(self, *books: str, lab: Any = None, **variables: object) -> Played:
        """It ends well."""
        played = self.note(" ".join(books), (lab or self.lab).play(*books, **variables))
        if played.returned:
            self.problems.append(f"{' '.join(books)} fails: {played.failures}")
            raise Ended
        return played

    def fails(self, played: Played, *hosts_and_codes: tuple) -> None:
        """It has failed, on these hosts with one of these codes."""
        if not played.returned:
            self.problems.append("the playbook does not fail")
        seen = self.plays[-1]["failures"]
        for host, wanted in hosts_and_codes:
            if not any(each["host"] == host and each["code"] in wanted for each in seen):
                self.problems.append(f"no failure of {host} with {wanted}: {seen}")

    def between(self, stage: str, *books: str, strike: Callable[[], None], **variables: object) -> Played:
        """A playbook, with something that is done before the first task of one of its stages."""
        played = self.lab.held(stage, *books, strike=strike, **variables)
        return self.note(f"{' '.join(books)}, held before {stage}", played)

    def measure(self, lab: Any = None) -> str:
        """A benchmark that ends well; its points are kept in mind."""
        lab, run = lab or self.lab, f"trial-{time.time_ns()}"
        self.must("benchmark", lab=lab, testbed_run_id=run)
        statuses = [result["status"] for result, _raw in lab.points(run)]
        if not statuses or set(statuses) != {"measured"}:
            self.problems.append(f"the benchmark measured {statuses}")
        self.keep_in_mind(lab)
        return run

    def keep_in_mind(self, lab: Any = None) -> None:
        """Points that are measured by now."""
        self.points.update(digests((lab or self.lab).results))

    # ---- what is held

    def mend(self) -> None:
        """One build repairs, and a second one has nothing to do."""
        self.must("build")
        again = self.must("build")
        if again.changed:
            self.problems.append(f"a second build changes {again.changed} tasks")

    def end(self, lab: Any = None) -> None:
        """Teardown, and the proof that nothing is left."""
        self.must("teardown", "verify_clean", lab=lab)

    def hold(self) -> None:
        """Nothing of others has changed, and no point is lost."""
        for machine, seen in self._look().items():
            if seen != self.before[machine]:
                self.problems.append(f"{machine}: {differences(self.before[machine], seen)}")
        self.problems += lost(self.points)


def digests(folder: Path) -> dict:
    """{path: SHA-256} of the points below a folder."""
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*/*/points/*/result.json"))
    }


def lost(points: dict) -> list:
    """Which of these points are gone, or are other ones."""
    problems = []
    for path, digest in points.items():
        if not path.exists():
            problems.append(f"the point {path} is lost")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            problems.append(f"the point {path} was changed")
    return problems


def differences(before: Sequence[str], after: Sequence[str]) -> str:
    gone, new = sorted(set(before) - set(after)), sorted(set(after) - set(before))
    return "; ".join([*(f"gone: {line}" for line in gone), *(f"new: {line}" for line in new)])


@dataclasses.dataclass(frozen=True)
class Cell:
    """One setting. lab: which of the labs it is tried on. minutes: what it takes undisturbed on two cores without KVM, for those who choose."""

    name: str
    lab: str
    minutes: int
    work: Callable[[Trial], None]

    def __str__(self) -> str:
        return self.name


def chosen(every: Sequence[Cell], names: str, seed: int) -> list:
    """The cells whose names the words of a text begin, or match as regular expressions; lab after lab, in the order of the seed."""
    words = [re.compile(word) for word in names.split(",") if word]
    cells = [cell for cell in every if not words or any(word.fullmatch(cell.name) for word in words)]
    dice = random.Random(seed)  # noqa: S311 no secret
    cells = dice.sample(cells, len(cells))
    labs = sorted({cell.lab for cell in every})
    return sorted(cells, key=lambda cell: labs.index(cell.lab))


def run(cell: Cell, lab: Any, seed: int, say: Callable[[str], None] = print) -> dict:
    """Try one cell; a record of what came of it."""
    trial, begun = Trial(lab, seed, say), time.monotonic()
    # What an earlier cell left is not what this one is about. What a teardown refuses goes as remedies say.
    for book in ("teardown", "build", "teardown") if lab.dirty else ():
        if trial.note(f"{book} of what was left", lab.play(book)).returned == 0 and book == "teardown":
            break
    lab.dirty = True
    try:
        trial.begin()
        cell.work(trial)
        trial.hold()
    except Ended:
        pass
    except Exception:
        trial.problems.append(traceback.format_exc(limit=-4))
    record = {
        "cell": cell.name,
        "seed": seed,
        "outcome": "FAILED" if trial.problems else "ok",
        "seconds": round(time.monotonic() - begun),
        "plays": trial.plays,
        "problems": trial.problems,
    }
    lab.dirty = bool(trial.problems)
    say("\n  ".join([f"{cell.name}: {record['outcome']} after {record['seconds']} s", *map(str, trial.problems)]))
    return record
