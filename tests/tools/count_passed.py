# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adds up the JUnit files in a folder; says what was skipped and why, and closes with 'N passed, M failed'. Fails when nothing ran or something failed."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
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


if __name__ == "__main__":
    for reason, number in sorted(skipped(Path(sys.argv[1])).items()):
        print(f"{number} skipped: {reason}")
    good, bad = count(Path(sys.argv[1]))
    print(f"{good} passed, {bad} failed")
    sys.exit(bool(bad) or not good)
