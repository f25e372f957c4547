# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A command's output is told from everything else that is printed on the way. The shell is a real one."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import marks

TOKEN = "0123456789abcdef"
BEFORE = ("", "\n", "Welcome to target01\n\n", "[sudo] password for lab: \n", "no newline at its end")


def printed(command: str, before: str = "", after: str = "") -> str:
    done = subprocess.run(["sh", "-c", marks.marked(command, TOKEN)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return before + done.stdout + after


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("after", ["", "\nlogout\n", "Shared connection to 192.0.2.7 closed.\n"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r\r\n"])
def test_noise_around_a_command_is_not_its_output(before, after, line_end):
    text = printed("printf 'one\\n\\ntwo'; echo wrong >&2; (exit 7)", before, after).replace("\n", line_end)
    assert marks.between(text, TOKEN) == (7, "one\n\ntwo", "wrong")


@pytest.mark.parametrize(
    ("command", "right"),
    [
        ("true", (0, "", "")),
        ("cat /no/such/file && echo .", (1, "", "cat: /no/such/file: No such file or directory")),
        ("if [ -e / ]; then echo root; fi", (0, "root\n", "")),
        ("printf '%s' '100%% of \\n'", (0, "100%% of \\n", "")),
        ("echo a; exit 3", (3, "a\n", "")),
        ("seq 3 >&2", (0, "", "1\n2\n3")),
    ],
)
def test_streams_and_the_exit_code_are_the_commands(command, right):
    assert marks.between(printed(command), TOKEN) == right


def test_an_output_that_was_cut_is_none():
    whole = printed("echo 12")
    for length in range(len(whole) - 1):
        assert marks.between(whole[:length], TOKEN) is None
    assert marks.between(whole[:-1], TOKEN) == (0, "12\n", "")
    assert marks.between(whole, TOKEN[::-1]) is None


def test_a_shell_that_shows_what_it_runs_is_not_taken_for_a_mark():
    shown = f"+ {marks.marked('echo 12', TOKEN)}\n"
    assert not marks.begun(shown, TOKEN) and marks.between(shown, TOKEN) is None
    assert marks.between(printed("echo 12", before=shown), TOKEN) == (0, "12\n", "")
    assert marks.begun(printed("echo 12"), TOKEN)
