# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that actions send to a host: what is read of their output, and what is said where the host does not run them."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from actions import make
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.storlab.testbed.plugins.action import benchmark_observer
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from places import ROOT


def action(execute):
    """An action whose connection is execute(command, become): {rc, stdout, stderr}, or what the connection raises."""
    made = make(benchmark_observer, {"state": "stopped", "testbed_id": "t7"})
    made.task_vars = {"inventory_hostname": "target07"}
    made._low_level_execute_command = lambda command, sudoable: execute(command, sudoable)
    return made


def noisy(command, sudoable):
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    stdout = f"\nlecture of sudo {sudoable}\n{done.stdout}\nlogout\n".replace("\n", "\r\n")
    return {"rc": done.returncode, "stdout": stdout, "stderr": "Shared connection closed."}


def test_only_the_commands_own_output_is_read():
    assert action(noisy).on_host("echo 41; echo 43 >&2; exit 5") == {"rc": 5, "stdout": "41\n", "stderr": "43"}
    offset = action(noisy)._clock("target07")
    assert abs(offset["offset_s"]) < 60 and offset["uncertain_s"] > 0


@pytest.mark.parametrize(
    ("out_s", "back_s", "exchanges"),
    [(0.02, 0.02, 3), (0.08, 0.1, 3), (0.2, 0.2, 6), (0.1, 0.4, 6), (0.4, 0.4, 24), (2.0, 0.1, 24)],
)
def test_a_clock_is_asked_for_as_often_as_that_helps(monkeypatch, out_s, back_s, exchanges):
    """The difference is between the bounds that every exchange gives, whatever the way there and the way back take."""
    now, asked = [1000.0], []

    def execute(_command, _sudoable):
        now[0] += out_s
        asked.append(f"{now[0] + 5:.9f}")
        now[0] += back_s
        return {"rc": 0, "stdout": f"{asked[-1]}\n", "stderr": ""}

    monkeypatch.setattr(benchmark_observer.time, "time", lambda: now[0])
    monkeypatch.setattr(benchmark_observer.ActionModule, "on_host", lambda *_args, **_given: execute("", False))
    offset = action(execute)._clock("target07")
    assert len(asked) == exchanges
    assert offset["uncertain_s"] == pytest.approx((out_s + back_s) / 2, abs=1e-3)
    assert abs(offset["offset_s"] - 5) <= offset["uncertain_s"] + 1e-3


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (
            r"exit 1: lab is not in the sudoers file. \\x1b\[2J Sorry",
            {"rc": 1, "stdout": "", "stderr": "lab is not in the sudoers file.\n\x1b[2J Sorry\n"},
        ),
        (
            "exit 1: This account is currently not available",
            {"rc": 1, "stdout": "This account is currently not available", "stderr": ""},
        ),
        ("Incorrect sudo password", AnsibleError("Incorrect sudo password")),
    ],
)
def test_a_host_that_refuses_is_named_with_its_words(words, answer):
    def execute(_command, _sudoable):
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(Failure) as caught:
        action(execute).on_host("rm -rf /srv/seven")
    assert caught.value.code == "command_refused" and caught.value.details == {"host": "target07"}
    assert re.search(words, str(caught.value)) and "\x1b" not in str(caught.value)


@pytest.mark.parametrize("rc", [0, 9])
def test_an_answer_that_was_cut_is_a_lost_connection(rc):
    def execute(command, sudoable):
        whole = noisy(command, sudoable)
        return {**whole, "rc": rc, "stdout": whole["stdout"].partition("4711")[0]}

    with pytest.raises(AnsibleConnectionFailure):
        action(execute).on_host("echo 4711")


def test_no_output_at_all_without_an_error_is_a_lost_connection():
    with pytest.raises(AnsibleConnectionFailure):
        action(lambda *_: {"rc": 0, "stdout": "", "stderr": ""}).on_host("echo 4711")


def test_a_connection_that_breaks_is_no_refusal():
    def execute(_command, _sudoable):
        raise AnsibleConnectionFailure("no route")

    with pytest.raises(AnsibleConnectionFailure, match="no route"):
        action(execute).on_host("true")


@pytest.mark.parametrize("mask", [0, 0o077])
def test_what_the_system_refuses_an_action_is_a_failure_with_a_remedy(mask, tmp_path):
    made = action(noisy)

    def perform(_params):
        (tmp_path / "made").mkdir()
        (tmp_path / "blocked" / "x").mkdir()

    made.perform = perform
    (tmp_path / "blocked").write_text("7", encoding="utf-8")
    before = os.umask(mask)
    try:
        result = made.run(task_vars={"inventory_hostname": "target07"})
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert (result["failed"], result["failure"]["code"]) == (True, "system_refused")
    assert result["failure"]["details"] == {"errno": "ENOTDIR", "path": str(tmp_path / "blocked" / "x")}
    # The task is one of a host, whose file system has nothing to do with it.
    assert f"{tmp_path / 'blocked' / 'x'} failed on the controller: Not a directory." in result["msg"]
    assert "Name a place that is not below a file." in result["msg"]
    # The umask of whoever calls the playbook decides nothing.
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o755


def test_nothing_else_reads_the_output_of_a_bare_command():
    users = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "plugins").rglob("*.py")
        if re.search(r"_low_level_execute_command|\.exec_command", path.read_text(encoding="utf-8"))
    ]
    assert users == ["plugins/plugin_utils/action.py"]
    books = [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").rglob("*.yml")]
    assert [path for path in books if "ansible.builtin.raw" in path.read_text(encoding="utf-8")] == []
