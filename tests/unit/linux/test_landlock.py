# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wall that the kernel keeps around an engine: everything outside of its folder stays as it is, and is read all the same."""

from __future__ import annotations

import os
import subprocess

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import landlock


@pytest.fixture
def folder(tmp_path):
    """The folder that may be written to, beside something of others."""
    (tmp_path / "theirs").write_text("as it was", encoding="ascii")
    inside = tmp_path / "inside"
    inside.mkdir()
    return inside


@pytest.fixture
def wall(folder):
    try:
        made = landlock.Wall(str(folder))
    except OSError as error:
        pytest.skip(f"The kernel of the tests has no Landlock: {error}")
    yield made
    made.close()


def behind(wall, folder, command: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, preexec_fn=wall.enter, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "command",
    [
        "echo x >> ../theirs",
        "echo x > ../new",
        "rm ../theirs",
        "mv ../theirs own",
        "ln ../theirs own",
        "mkdir ../new",
        "ln -s /nowhere ../new",
        "mkfifo ../new",
        "echo x > /dev/zero",
        # Its children are behind the wall, too.
        "sh -c 'exec sh -c \"echo x >> ../theirs\"'",
    ],
)
def test_nothing_outside_is_changed(wall, folder, command):
    before = sorted(os.listdir(folder.parent))
    done = behind(wall, folder, command)
    assert done.returncode != 0 and ("ermission denied" in done.stderr or "cross-device" in done.stderr), done.stderr
    assert sorted(os.listdir(folder.parent)) == before
    assert (folder.parent / "theirs").read_text(encoding="ascii") == "as it was"


def test_everything_is_read_and_the_folder_is_written(wall, folder):
    done = behind(wall, folder, "cat ../theirs > copy && mkdir deep && mv copy deep/ && echo more >> deep/copy")
    assert done.returncode == 0, done.stderr
    assert (folder / "deep" / "copy").read_text(encoding="ascii") == "as it wasmore\n"


def test_who_made_the_wall_is_not_behind_it(wall, folder):
    behind(wall, folder, "true")
    (folder.parent / "theirs").write_text("mine", encoding="ascii")


def test_the_first_version_of_the_interface_is_enough(folder, monkeypatch):
    real = landlock._call

    def first(number, *given):
        return 1 if given[-1] == landlock.ASK_VERSION else real(number, *given)

    monkeypatch.setattr(landlock, "_call", first)
    try:
        wall = landlock.Wall(str(folder))
    except OSError as error:
        pytest.skip(f"The kernel of the tests has no Landlock: {error}")
    assert behind(wall, folder, "echo x >> ../theirs").returncode != 0
    wall.close()
    assert (folder.parent / "theirs").read_text(encoding="ascii") == "as it was"


def test_a_wall_holds_where_it_was_tried(wall, folder):
    assert landlock.holds(str(folder)) is True
    assert os.listdir(folder) == []


@pytest.mark.parametrize("way", ["no interface", "open", "closed on all sides", "not entered", "unknown machine"])
def test_a_wall_that_does_not_hold_is_not_called_one(folder, monkeypatch, way):
    class Fake:
        def __init__(self, _folder):
            if way == "no interface":
                raise OSError(38, "Function not implemented")

        def enter(self):
            if way == "not entered":
                raise OSError(1, "Operation not permitted")

        def close(self):
            pass

    real = os.open

    def closed(path, *given, **more):
        if way == "closed on all sides" and "wall-" in str(path):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *given, **more)

    if way == "unknown machine":
        monkeypatch.setattr(landlock, "OTHER_NUMBERS", (os.uname().machine,))
    else:
        monkeypatch.setattr(landlock, "Wall", Fake)
    monkeypatch.setattr(landlock.os, "open", closed)
    assert landlock.holds(str(folder)) is False
    assert os.listdir(folder) == []
