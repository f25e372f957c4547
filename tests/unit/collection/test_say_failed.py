# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a failed `make molecule` repeats what failed, however long the log is and whatever ran after it."""

from __future__ import annotations

import subprocess
import sys

import places

LOG = """\
  \x1b[2m┌──────────\x1b[0m
  \x1b[2m│ ansible-playbook converge.yml\x1b[0m
  \x1b[2m│\x1b[0m fatal: [target01]: FAILED! => a refusal that was expected
  \x1b[2m│\x1b[0m PLAY RECAP ****
  \x1b[32m└─ Return code: 0 ──────────\x1b[0m
  \x1b[2m┌──────────\x1b[0m
  \x1b[2m│ ansible-playbook side_effect.yml\x1b[0m
{many}  \x1b[2m│\x1b[0m fatal: [guest01]: FAILED! => the disk is full
  \x1b[2m│\x1b[0m PLAY RECAP ****
  \x1b[2m│\x1b[0m guest01 : failed=1
  \x1b[31m└─ Return code: 2 ──────────\x1b[0m
CRITICAL Ansible return code was 2
  \x1b[2m┌──────────\x1b[0m
  \x1b[2m│ pytest\x1b[0m
  \x1b[2m│\x1b[0m FAILED tests/test_chain.py::test_sizes
  \x1b[31m└─ Return code: 1 ──────────\x1b[0m
"""


def repeated(tmp_path, log: str) -> list[str]:
    path = tmp_path / "molecule.log"
    path.write_text(log, encoding="utf-8")
    command = [sys.executable, str(places.TESTS / "tools" / "say_failed.py"), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_end_of_each_failed_command_is_repeated(tmp_path):
    lines = repeated(tmp_path, LOG.format(many="".join(f"  │ ok: [host{number}]\n" for number in range(200))))
    assert "  fatal: [guest01]: FAILED! => the disk is full" in lines
    assert "  ok: [host199]" in lines and "  ok: [host7]" not in lines, "the end, not the beginning"
    assert lines[:4] == [
        "What failed:",
        "  pytest",
        "  FAILED tests/test_chain.py::test_sizes",
        "  Return code: 1",
    ]
    assert lines[-2:] == ["  fatal: [guest01]: FAILED! => the disk is full", "  Return code: 2"], "the first comes last"
    assert not [line for line in lines if "expected" in line or "RECAP" in line]


def test_nothing_is_repeated_of_what_succeeded(tmp_path):
    assert repeated(tmp_path, LOG.split("side_effect")[0]) == []
