# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adds up the JUnit files in a folder and closes with 'N passed, M failed'; fails when nothing ran or something failed."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def count(folder: Path) -> tuple[int, int]:
    """(passed, failed) over every suite in every JUnit file of the folder; skipped tests are neither."""
    passed = failed = 0
    for path in sorted(folder.glob("*.xml")):
        for suite in ElementTree.parse(path).getroot().iter("testsuite"):  # noqa: S314 - files that our own tests wrote
            bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            failed += bad
            passed += int(suite.get("tests", 0)) - bad - int(suite.get("skipped", 0))
    return passed, failed


if __name__ == "__main__":
    good, bad = count(Path(sys.argv[1]))
    print(f"{good} passed, {bad} failed")
    sys.exit(bool(bad) or not good)
