# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of the tests: every file is in a room, and tests/README.md names each room."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from places import ROOT, TESTS

PROGRAMS = sorted(path for path in (TESTS / "tools").glob("*.py"))


def test_no_helper_is_loose():
    # docs/lend.md gives play_recording.py to people who lend a recording.
    assert {path.name for path in TESTS.glob("*.py")} == {"conftest.py", "play_recording.py"}


def test_the_readme_names_every_room():
    table = "".join(line for line in (TESTS / "README.md").read_text().splitlines() if line.startswith("| `"))
    named = {name.partition("/")[0] for name in re.findall(r"`([a-z_]+/[^`]*)`", table)}
    there = {path.name for path in TESTS.iterdir() if path.is_dir() and not path.name.startswith((".", "__"))}
    assert named == there


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_tool_is_started_by_something_that_is_written_down(path):
    """A recipe, a workflow, a page, a test, or the words at its own head name it."""
    texts = [ROOT / "Makefile", *(ROOT / "make").glob("*.mk"), ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    texts += [path, *(TESTS / "unit").rglob("*.py"), *(TESTS / "integration").rglob("*.py")]
    assert any(
        re.search(rf"\b{path.stem}\b", text.read_text(encoding="utf-8")) for text in texts if text != Path(__file__)
    )


def test_helpers_of_one_name_do_not_hide_each_other():
    names = [path.stem for room in ("support", "standins", "tools") for path in (TESTS / room).glob("*.py")]
    assert len(names) == len(set(names)) and not set(names) & set(sys.stdlib_module_names)
