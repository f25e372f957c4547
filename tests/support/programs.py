# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which programs tests may start: what .config/test-packages.txt installs, Python's own tools, and what the tests make themselves.

A test that starts another program works only where somebody happened to install it, so it fails here, on every machine.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / ".config" / "test-packages.txt"


def listed(text: str) -> dict:
    """{program: (package, whether unit tests may start it)}."""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {row[0]: (row[1], row[2:] == ["unit"]) for row in rows}


def objection(program: str, room: str, table: dict, own: tuple) -> str | None:
    """Why a test of this room (`unit`, `integration` …) must not start the program; None when it may.

    own: folders whose programs are always there, such as the virtual environment and the tests' temporary files.
    """
    if not shutil.which(program):
        return None  # it fails by itself, and says why
    if "/" in program and (program == sys.executable or os.path.realpath(program).startswith(own)):
        return None
    name = os.path.basename(program)
    if os.path.exists(os.path.join(os.path.dirname(sys.executable), name)):
        return None
    if name not in table:
        return f"A test starts {name}, which nothing installs: add a line to .config/test-packages.txt."
    if room == "unit" and not table[name][1]:
        return f"A unit test starts {name}, which not every machine has: move the test to tests/integration."
    return None


class Guard:
    """An audit hook of Python that refuses programs while a test runs; `room` is the folder of the test that runs now."""

    def __init__(self) -> None:
        self.table = listed(LIST.read_text(encoding="utf-8"))
        self.own = tuple(os.path.realpath(path) for path in (sys.prefix, ROOT, tempfile.gettempdir()))
        self.room: str | None = None
        self.ansible = False  # whether the test is known to start Ansible, see tests/unit/conftest.py

    def __call__(self, event: str, arguments: tuple) -> None:
        if event == "subprocess.Popen" and self.room in ("unit", "integration"):
            program = os.fsdecode(arguments[0] or arguments[1][0])
            reason = objection(program, self.room, self.table, self.own)
            if self.room == "unit" and not self.ansible and os.path.basename(program).startswith("ansible-"):
                reason = f"A quick test starts {program}, two seconds each time: move it to a file that tests/unit/conftest.py knows to start Ansible."
            if reason:
                raise AssertionError(reason)
