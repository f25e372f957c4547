# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A failure reaches the user as it was raised, however many modules and actions it passes."""

from __future__ import annotations

import json

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure, messages

# What a split at the first full stop would take apart.
RAISED = Failure("wrong_size", "/dev/disk/by-id/x. y has 3.5 GiB.", "Use a. b.", device="x. y", size_bytes=7)


def test_a_failure_of_a_module_is_the_same_in_the_action():
    again = Failure.of_result(json.loads(json.dumps({"failed": True, **RAISED.as_result()})))
    assert again.as_result() == RAISED.as_result()
    assert (again.code, again.details) == ("wrong_size", {"device": "x. y", "size_bytes": 7})
    assert (again.what, again.remedy) == ("/dev/disk/by-id/x. y has 3.5 GiB.", "Use a. b.")
    assert str(again) == "/dev/disk/by-id/x. y has 3.5 GiB. Use a. b."


def test_a_stored_fault_is_the_code_and_one_text():
    assert RAISED.as_fault() == {"code": "wrong_size", "message": "/dev/disk/by-id/x. y has 3.5 GiB. Use a. b."}
    alone = Failure("no_io", "No I/O was done.").as_fault()
    assert alone == {"code": "no_io", "message": "No I/O was done."}
    assert messages([RAISED.as_fault(), alone]) == "/dev/disk/by-id/x. y has 3.5 GiB. Use a. b. No I/O was done."


def test_a_module_that_broke_off_says_what_it_left():
    failure = Failure.of_result({"failed": True, "msg": "MODULE FAILURE", "module_stderr": "no python3\n"})
    assert failure.code == "module_failed"
    assert "MODULE FAILURE no python3" in str(failure) and "-vvv" in str(failure)


@pytest.mark.parametrize(
    "printed",
    [
        "pyenv: python3.13: command not found",
        "/bin/sh: 1: /usr/bin/python3.7: not found",
        "bash: /usr/local/bin/python: No such file or directory",
    ],
)
def test_a_python_that_does_not_start_names_the_variable(printed):
    failure = Failure.of_result(
        {"msg": "Module result deserialization failed", "module_stderr": printed, "exception": object()}
    )
    assert "ansible_python_interpreter" in failure.remedy and printed in failure.what and "object" not in failure.what
    assert "ansible_python" not in Failure.of_result({"msg": "fio: not found: /srv/python-data"}).remedy


def test_what_others_said_ends_in_one_full_stop():
    failure = Failure("gone", "The file /a..b was not found..", "Make it...")
    assert str(failure) == "The file /a..b was not found. Make it..."
