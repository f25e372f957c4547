# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the end of `make coverage` says: the files that have too few of their branches taken, and all of them."""

from __future__ import annotations

import json
import subprocess
import sys

import places


def end_of(tmp_path, files: dict) -> list[str]:
    """files: {name: (branches that no test takes, branches)}."""
    report = {
        "files": {
            name: {"summary": {"missing_branches": missing, "num_branches": branches, "percent_covered": 1.0}}
            for name, (missing, branches) in files.items()
        }
    }
    (tmp_path / "coverage.json").write_text(json.dumps(report))
    command = [sys.executable, str(places.TESTS / "tools" / "show_coverage.py"), str(tmp_path / "coverage.json"), "95"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_files_with_too_few_branches_taken_are_listed_most_missing_first(tmp_path):
    files = {"b.py": (2, 4), "exactly.py": (5, 100), "a.py": (6, 100), "straight.py": (0, 0)}
    assert end_of(tmp_path, files) == [
        " 94.0 %     6 of  100 missing  a.py",
        " 50.0 %     2 of    4 missing  b.py",
        "2 of 4 files below 95 %; all files: 93.6 % of 204 branches, 13 missing",
    ]


def test_without_such_a_file_only_the_sum_is_shown(tmp_path):
    assert end_of(tmp_path, {"a.py": (1, 20), "straight.py": (0, 0)}) == [
        "0 of 2 files below 95 %; all files: 95.0 % of 20 branches, 1 missing"
    ]
