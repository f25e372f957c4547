# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adds up the JUnit files in a folder; says what was skipped and why, names each test that failed, and closes with 'N passed, M failed'.

Fails when nothing ran or something failed. The two lanes of `make test` end in any order, so what failed in one of them stands far above the end of the other;
of a long log often only the very end is read.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from pathlib import Path


def suites(folder: Path):
    for path in sorted(folder.glob("*.xml")):
        yield from ElementTree.parse(path).getroot().iter("testsuite")  # noqa: S314 - files that our own tests wrote


def count(folder: Path) -> tuple[int, int]:
    """(passed, failed) over every suite in every JUnit file of the folder; skipped tests are neither."""
    passed = failed = 0
    for suite in suites(folder):
        bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        failed += bad
        passed += int(suite.get("tests", 0)) - bad - int(suite.get("skipped", 0))
    return passed, failed


def skipped(folder: Path) -> Counter:
    """{why: how many tests were skipped for it}. Pytest writes the place before the reason of some; that is left out."""
    why: Counter = Counter()
    for suite in suites(folder):
        for one in suite.iter("skipped"):
            reason = one.get("message") or re.sub(r"^\S+?\.py:\d+: ", "", (one.text or "").strip()) or "no reason given"
            why[re.sub(r"^Skipped: ", "", reason)] += 1
    return why


# How many characters of what a test says of its failure are repeated.
MOST_CHARACTERS = 300


def failed(folder: Path) -> Iterator[tuple[str, str]]:
    """(test, the first line of what it says) of each that failed or broke off, in the order in which they ran."""
    for suite in suites(folder):
        for case in suite.iter("testcase"):
            for kind in ("failure", "error"):
                for end in case.iter(kind):
                    lines = (end.get("message") or end.text or "").strip().splitlines() or ["nothing said"]
                    test = f"{case.get('classname', '')}::{case.get('name', '')}"
                    yield test, lines[0][:MOST_CHARACTERS]


if __name__ == "__main__":
    for reason, number in sorted(skipped(Path(sys.argv[1])).items()):
        print(f"{number} skipped: {reason}")
    for test, why in failed(Path(sys.argv[1])):
        print(f"failed: {test}: {why}")
    good, bad = count(Path(sys.argv[1]))
    print(f"{good} passed, {bad} failed")
    sys.exit(bool(bad) or not good)
