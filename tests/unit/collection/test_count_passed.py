# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the end of `make test` says: how many passed, how many were skipped and why."""

from __future__ import annotations

import subprocess
import sys

import places

SUITE = """<testsuites><testsuite tests="{tests}" failures="{failures}" errors="0" skipped="{skipped}">{cases}</testsuite></testsuites>"""
SKIPPED = '<testcase><skipped message="{why}">tests/x.py:7: {why}</skipped></testcase>'


def end_of(folder) -> tuple:
    done = subprocess.run(
        [sys.executable, str(places.TESTS / "tools" / "count_passed.py"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def test_skipped_tests_are_counted_by_their_reason(tmp_path):
    cases = SKIPPED.format(why="no PowerShell: pwsh is missing") * 2 + SKIPPED.format(why="no root") + "<testcase/>" * 4
    (tmp_path / "a.xml").write_text(SUITE.format(tests=7, failures=0, skipped=3, cases=cases))
    (tmp_path / "b.xml").write_text(
        SUITE.format(tests=2, failures=0, skipped=1, cases=SKIPPED.format(why="no root") + "<testcase/>")
    )
    assert end_of(tmp_path) == (
        0,
        ["2 skipped: no PowerShell: pwsh is missing", "2 skipped: no root", "5 passed, 0 failed"],
    )


def test_failures_and_an_empty_run_fail(tmp_path):
    assert end_of(tmp_path) == (1, ["0 passed, 0 failed"])
    (tmp_path / "a.xml").write_text(SUITE.format(tests=3, failures=1, skipped=0, cases="<testcase/>" * 3))
    assert end_of(tmp_path) == (1, ["2 passed, 1 failed"])


def test_tests_that_failed_are_named_with_the_first_line_of_what_they_say(tmp_path):
    cases = (
        '<testcase classname="tests.unit.test_x" name="test_good"/>'
        '<testcase classname="tests.unit.test_x" name="test_bad[7]"><failure message="AssertionError: 7 is not 8&#10;more"/></testcase>'
        '<testcase classname="tests.unit.test_y" name="test_broken"><error>OSError: gone\n  at once</error></testcase>'
    )
    (tmp_path / "a.xml").write_text(SUITE.format(tests=3, failures=2, skipped=0, cases=cases))
    assert end_of(tmp_path) == (
        1,
        [
            "failed: tests.unit.test_x::test_bad[7]: AssertionError: 7 is not 8",
            "failed: tests.unit.test_y::test_broken: OSError: gone",
            "1 passed, 2 failed",
        ],
    )
