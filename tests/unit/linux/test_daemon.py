# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import daemon


@pytest.fixture
def program(tmp_path):
    """Starts a process with '-pidfile <path>' on its command line and writes its pid there."""
    started = []

    def start(name: str, code: str = "import signal; print('up', flush=True); signal.pause()") -> tuple:
        path = tmp_path / name
        child = subprocess.Popen([sys.executable, "-c", code, "-pidfile", str(path)], stdout=subprocess.PIPE, text=True)
        started.append(child)
        assert child.stdout.readline() == "up\n"
        path.write_text(f"{child.pid}\n")
        return child, path

    yield start
    for child in started:
        child.kill()
        child.wait()
        child.stdout.close()


def test_the_process_is_found_by_its_pid_file(program):
    child, path = program("one")
    assert daemon.running_pid("-pidfile", str(path)) == child.pid


def test_a_strangers_pid_in_the_file_is_not_the_machine(program, tmp_path):
    stranger, path = program("stranger")
    ours = tmp_path / "ours"
    ours.write_text(path.read_text())
    assert daemon.running_pid("-pidfile", str(ours)) is None
    assert daemon.end_process(lambda: daemon.running_pid("-pidfile", str(ours)), daemon.patience(1)) is True
    assert stranger.poll() is None


def test_the_process_is_found_although_the_pid_file_is_lost_or_wrong(program):
    child, path = program("lost")
    path.write_text("not a pid")
    assert daemon.running_pid("-pidfile", str(path)) == child.pid
    path.unlink()
    assert daemon.running_pid("-pidfile", str(path)) == child.pid


@contextlib.contextmanager
def closed(folder):
    """While files of the folder may not be read by this process, whoever runs the tests."""
    user = os.geteuid()
    folder.chmod(0)
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o700)


def test_the_process_is_found_by_a_user_who_may_not_read_its_pid_file(program, tmp_path):
    """The machines of `make demo` are of root, and its report is made as the user who called it."""
    child, path = program("of-root")
    with closed(tmp_path):
        found_it = daemon.running_pid("-pidfile", str(path))
        found_another = daemon.running_pid("-pidfile", f"{path}-2")
    assert (found_it, found_another) == (child.pid, None)


def test_a_path_that_only_begins_like_ours_is_another_process(program, tmp_path):
    program("guest10")
    assert daemon.running_pid("-pidfile", str(tmp_path / "guest1")) is None


def test_a_process_that_ignores_term_is_killed(program):
    child, path = program(
        "stubborn",
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()",
    )

    def find():
        child.poll()  # as its parent we have to collect it
        return daemon.running_pid("-pidfile", str(path))

    assert daemon.end_process(find, daemon.patience(0.3)) is True
    assert child.wait() == -9


def test_two_processes_are_two_instances(program):
    first, _path = program("first")
    second, _path = program("second")
    assert daemon.instance(first.pid) == daemon.instance(first.pid)
    assert daemon.instance(first.pid) != daemon.instance(second.pid)


def test_no_such_process_has_no_command_line_and_is_no_instance():
    assert daemon.read_cmdline(2**22 + 1) == []
    assert daemon.instance(2**22 + 1) == ""
