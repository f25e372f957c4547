# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says which files have less than so many percent of their branches taken, worst first, and how many of all are, from what `coverage json` wrote."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def counts(report: dict) -> list[tuple[int, int, str]]:
    """(branches that no test takes, branches, file) of each file, most missing first."""
    rows = [
        (entry["summary"]["missing_branches"], entry["summary"]["num_branches"], name)
        for name, entry in report["files"].items()
    ]
    return sorted(rows, key=lambda row: (-row[0], row[2]))


def taken(missing: int, branches: int) -> float:
    return 100 * (branches - missing) / branches if branches else 100.0


def lines(report: dict, wanted: float) -> list[str]:
    rows = counts(report)
    below = [row for row in rows if taken(row[0], row[1]) < wanted]
    missing, branches = sum(row[0] for row in rows), sum(row[1] for row in rows)
    return [
        *(f"{taken(*row[:2]):5.1f} %  {row[0]:4} of {row[1]:4} missing  {row[2]}" for row in below),
        f"{len(below)} of {len(rows)} files below {wanted:g} %; all files: {taken(missing, branches):.1f} % of {branches} branches, {missing} missing",
    ]


if __name__ == "__main__":
    print("\n".join(lines(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), float(sys.argv[2]))))
