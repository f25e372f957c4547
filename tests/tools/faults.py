# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults while build, benchmark or teardown runs, and whether the testbed and its results come through them (fault_suite.py says what is held).

Each lab is kept up for all of its cells. What came of each cell is a line of .cache/fault_cells.jsonl.

    python tests/tools/faults.py --seed 5 --cells 20                  # 20 cells, drawn by that seed; without --cells all of them, in the order that it gives
    python tests/tools/faults.py --lab windows --lab esxi             # those of these labs
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import random
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TextIO

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins")]

import fault_emulated
import fault_stand_ins
import fault_suite
from places import ROOT

TABLES = {
    "emulated": fault_emulated.TABLE,
    "guest": fault_emulated.GUEST_TABLE,
    "windows": fault_stand_ins.WINDOWS_TABLE,
    "esxi": fault_stand_ins.ESXI_TABLE,
    "here": fault_stand_ins.HERE_TABLE,
}
EMULATED = {"emulated": fault_emulated.Lab, "guest": fault_emulated.GuestLab}
STAND_INS = {"windows": fault_stand_ins.Windows, "esxi": fault_stand_ins.Esxi, "here": fault_stand_ins.Here}
# Two benchmarks at once on one machine are refused, so these follow each other also where labs are taken at the same time.
MEASURED_HERE = {"esxi", "here"}
# What `make test` takes of the quick cells: so many of each lab, by what a cell takes there. A third of this computer is one of `make trials`.
SAMPLE = {"windows": 1, "esxi": 1, "here": 1}
# Beyond any time of a point there.
SAMPLE_OUTAGE_S = 12.0


def sample(every: list, seed: int) -> list:
    """The cells of a run of `make test`: none that the collection itself waits minutes for."""
    quick = [cell for cell in every if str(cell) not in fault_stand_ins.SLOW]
    chosen = [
        cell
        for lab, number in SAMPLE.items()
        for cell in fault_suite.drawn([cell for cell in quick if cell.lab == lab], seed, number)
    ]
    return fault_suite.drawn(chosen, seed)


def apart(chosen: list) -> list:
    """The cells in parts that do not meet."""
    parts: dict = {}
    for cell in chosen:
        parts.setdefault("" if cell.lab in MEASURED_HERE else cell.lab, []).append(cell)
    return list(parts.values())


def of_labs(chosen: list, given: argparse.Namespace, kept: TextIO) -> Counter:
    """Take cells, lab after lab; how many ended how."""
    counts: Counter = Counter()
    for name, group in itertools.groupby(chosen, key=lambda cell: cell.lab):
        counts.update(of_lab(name, list(group), given, kept))
    return counts


def of_lab(name: str, chosen: list, given: argparse.Namespace, kept: TextIO) -> dict:
    """Take cells of one lab; how many ended how."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        lab = EMULATED[name](given.keep) if name in EMULATED else STAND_INS[name](Path(folder))
        if given.sample:
            lab.outage_s = SAMPLE_OUTAGE_S
        with lab:
            return fault_suite.run(fault_suite.Suite(lab, given.seed, say), chosen, kept)


def say(text: str) -> None:
    """In one piece, as labs may speak at the same time."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="Faults while build, benchmark and teardown run.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--cells", type=int, help="how many of them (all)")
    parser.add_argument("--lab", choices=list(TABLES), action="append", help="only those of these labs")
    parser.add_argument("--stage", choices=fault_suite.STAGES, action="append", help="only these")
    parser.add_argument("--only", default="", help="a regular expression for the names of cells, as --list shows them")
    parser.add_argument("--sample", action="store_true", help="only as many as `make test` takes")
    parser.add_argument(
        "--together", action="store_true", help="labs at the same time where they can be, as a sample takes them"
    )
    parser.add_argument("--list", action="store_true", help="show the cells in their order, and do nothing")
    parser.add_argument("--keep", action="store_true", help="leave emulated labs up, for the next call with --keep")
    given = parser.parse_args()
    every = [
        cell
        for cell in fault_suite.cells(TABLES)
        if cell.lab in (given.lab or TABLES)
        and cell.stage in (given.stage or fault_suite.STAGES)
        and re.search(given.only, str(cell))
    ]
    chosen = sample(every, given.seed) if given.sample else fault_suite.drawn(every, given.seed, given.cells)
    print(f"seed {given.seed}, {len(chosen)} of {len(fault_suite.cells(TABLES))} cells", flush=True)
    if given.list:
        print(*chosen, sep="\n")
        return 0
    counts: Counter = Counter()
    beside = given.sample or given.together
    (ROOT / ".cache").mkdir(exist_ok=True)
    with (
        open(ROOT / ".cache" / "fault_cells.jsonl", "a", encoding="utf-8") as kept,
        # Much of a cell is waiting for what is gone to come back.
        concurrent.futures.ThreadPoolExecutor(len(TABLES) if beside else 1) as labs,
    ):
        for count in labs.map(lambda cells: of_labs(cells, given, kept), apart(chosen) if beside else [chosen]):
            counts.update(count)
    print(f"{dict(counts)} (seed {given.seed})")
    # Where nothing struck, nothing was tried.
    return 0 if counts["ok"] and set(counts) <= {"ok", "missed"} else 1


if __name__ == "__main__":
    sys.exit(main())
