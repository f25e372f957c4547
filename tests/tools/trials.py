# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Testbeds on real machines that are restarted, cut off, filled and shared while they are built and removed (trial_suite.py says what is held, trial_cells.py
what is done). The machines of a lab are up for all of its cells. What came of each cell is a line of .cache/trial_cells.jsonl.

    python tests/tools/trials.py --seed 5 --cells limit               # one cell; without --cells all of them, in the order that the seed gives
    python tests/tools/trials.py --cells 'restart-.*,two-labs'        # those that these regular expressions match as a whole
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / room) for room in ("support", "standins")]

import trial_cells
import trial_lab
import trial_suite
from places import ROOT


def say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Testbeds on machines that are restarted, cut off, filled and shared.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument(
        "--cells", default="", help="regular expressions for whole names of cells, with commas between them (all)"
    )
    parser.add_argument("--sample", action="store_true", help="one cell that needs no machine, as `make test` takes it")
    parser.add_argument("--list", action="store_true", help="show the cells in their order, and do nothing")
    parser.add_argument("--keep", action="store_true", help="leave the machines up, for the next call with --keep")
    given = parser.parse_args()
    # A suite that is ended takes the playbook with it.
    signal.signal(signal.SIGTERM, lambda *_arguments: sys.exit(143))
    cells = trial_suite.chosen(trial_cells.CELLS, given.cells, given.seed)
    if given.sample:
        cells = trial_cells.sample(cells)
    say(
        f"seed {given.seed}, {len(cells)} of {len(trial_cells.CELLS)} cells, about {sum(cell.minutes for cell in cells)} minutes"
    )
    if given.list:
        say("\n".join(f"{cell.name} ({cell.lab}, about {cell.minutes} minutes)" for cell in cells))
        return 0
    counts: Counter = Counter()
    (ROOT / ".cache").mkdir(exist_ok=True)
    with open(ROOT / ".cache" / "trial_cells.jsonl", "a", encoding="utf-8") as kept:
        for name, group in itertools.groupby(cells, key=lambda cell: cell.lab):
            with (
                tempfile.TemporaryDirectory(prefix="trials-") as folder,
                trial_lab.up(trial_cells.LABS[name](Path(folder)), given.keep) as lab,
            ):
                for cell in group:
                    say(f"{cell.name} …")
                    record = trial_suite.run(cell, lab, given.seed, say)
                    kept.write(json.dumps(record) + "\n")
                    kept.flush()
                    counts[record["outcome"]] += 1
    say(f"{dict(counts)} (seed {given.seed})")
    return 0 if set(counts) == {"ok"} else 1


if __name__ == "__main__":
    sys.exit(main())
