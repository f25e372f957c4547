# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import device_safety

HOLDER = "import sys; held = open(sys.argv[1], 'r+b'); print('open', flush=True); sys.stdin.readline()"


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(4096))
    return str(path)


@contextlib.contextmanager
def holding(path):
    """Another process that has the file open for writing until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "open\n"
        try:
            yield process
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()


def test_a_process_that_keeps_a_file_open_is_named(image):
    with holding(image) as process:
        openers = device_safety.usage(image)["openers"]
    assert [(opener["pid"], opener["writes"]) for opener in openers] == [(process.pid, True)]


def test_a_program_that_passes_by_is_not_a_user(image, monkeypatch):
    looks = []

    def look(sought):
        """What the kernel shows, and after the first look the other program ends."""
        openers = real(sought)
        looks.append([opener["pid"] for opener in openers])
        if len(looks) == 1:
            process.stdin.close()
            process.wait()
        return openers

    real = device_safety.Sought._openers
    monkeypatch.setattr(device_safety.Sought, "_openers", look)
    # Whatever the machine's speed: the process counts as one that has just begun.
    monkeypatch.setattr(device_safety.Sought, "_just_started", lambda sought, pid: True)
    with holding(image) as process:
        assert device_safety.usage(image)["openers"] == []
    assert looks == [[process.pid], []]


def test_who_has_run_for_a_while_is_not_waited_for(image, monkeypatch):
    looks = []
    real = device_safety.Sought._openers
    monkeypatch.setattr(device_safety.Sought, "_openers", lambda sought: looks.append(1) or real(sought))
    monkeypatch.setattr(device_safety.Sought, "_just_started", lambda sought, pid: False)
    with holding(image) as process:
        assert [opener["pid"] for opener in device_safety.usage(image)["openers"]] == [process.pid]
    assert len(looks) == 1


def test_the_age_of_a_process_is_read_from_the_kernel(monkeypatch):
    texts = {"/proc/uptime": "1000.50 3.2", "/proc/7/stat": "7 (a (b) c) S " + " ".join(["0"] * 18) + " 99990 0 0"}

    class Host:
        def read(self, path):
            return texts.get(path)

    monkeypatch.setattr("os.sysconf", lambda name: 100)
    sought = device_safety.Sought(Host(), set(), set())
    assert sought._just_started(7)
    texts["/proc/7/stat"] = texts["/proc/7/stat"].replace("99990", "99940")
    assert not sought._just_started(7)
    assert not sought._just_started(8)
