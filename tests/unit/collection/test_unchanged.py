# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of refusals rely on: a change of anything that could change is noticed, and named."""

from __future__ import annotations

from types import SimpleNamespace

import actions
import pytest
from ansible_collections.storlab.testbed.plugins.action import storage_baseline
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure, bad_value
from unchanged import Watch, differences, refused, tree, unchanged


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "data").write_bytes(b"old")
    (tmp_path / "link").symlink_to("in/data")
    (tmp_path / "in" / "other").write_bytes(b"other")
    return tmp_path


CHANGES = {
    "contents of the same size": lambda folder: (folder / "in" / "data").write_bytes(b"new"),
    "a new file": lambda folder: (folder / "in" / "more").write_bytes(b""),
    "a new empty folder": lambda folder: (folder / "in" / "empty").mkdir(),
    "a file is gone": lambda folder: (folder / "in" / "other").unlink(),
    "a mode": lambda folder: (folder / "in" / "data").chmod(0o640),
    "a link points elsewhere": lambda folder: ((folder / "link").unlink(), (folder / "link").symlink_to("in/other")),
    "a file in place of a link": lambda folder: ((folder / "link").unlink(), (folder / "link").write_bytes(b"old")),
    "all of it is gone": lambda folder: folder.rename(folder.parent / "away"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_a_folder_is_noticed(folder, change):
    with pytest.raises(AssertionError, match="yet something changed"), unchanged(folder):
        change(folder)


def test_what_is_only_read_or_written_again_alike_is_no_change(folder):
    with unchanged(folder, folder / "not there"):
        (folder / "in" / "data").write_bytes((folder / "in" / "data").read_bytes())
    assert tree(folder)["link"] == ("lrwxrwxrwx", "in/data")


def test_what_a_test_double_keeps_is_compared_as_it_was(folder):
    commands, state, host = [["blkid"]], {"luns": {"a": [1]}}, SimpleNamespace(disks={"sda": "GPT"})
    with unchanged(commands, state, lambda: host.disks):
        pass
    for change in (
        lambda: commands.append(["mkfs"]),
        lambda: state["luns"]["a"].append(2),
        lambda: host.disks.update(sda="MBR"),
    ):
        with pytest.raises(AssertionError), unchanged(commands, state, lambda: host.disks):
            change()


def test_differences_name_their_places():
    before, after = {"a": {"x": 1, "gone": 2}, "b": [3]}, {"a": {"x": 4, "new": 5}, "b": [3]}
    assert differences(before, after, "host") == [
        "host['a']['x'] was 1 and is 4",
        "host['a']['gone'] is gone, it was 2",
        "host['a']['new'] is new: 5",
    ]
    assert differences(before, before) == []


def test_a_refusal_is_one_only_if_it_is_raised_and_nothing_changed(folder):
    def refuses():
        raise bad_value("size", 0, "Use at least 1.")

    def too_late():
        (folder / "in" / "data").write_bytes(b"new")
        refuses()

    with refused(folder, match="Use at least 1") as caught:
        refuses()
    assert caught.value.code == "bad_value"
    with refused(folder, kind=OSError):
        (folder / "nowhere").read_bytes()
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"), refused(folder):
        pass
    with pytest.raises(AssertionError, match="yet something changed"), refused(folder):
        too_late()


def test_nothing_to_look_at_is_an_error():
    with pytest.raises(TypeError):
        Watch()


def broken(code: str, changes: list):
    """An action that changes something and then fails with this code."""

    def perform(_params):
        changes.append("changed")
        raise Failure(code, "It did not work.", "Try again.")

    action = actions.make(storage_baseline, {"state": "captured", "state_dir": "/x"})
    action.perform = perform
    return action


def test_an_action_that_fails_has_changed_nothing_unless_a_step_broke_off():
    changes = []
    with pytest.raises(AssertionError, match="yet something changed"):
        actions.answer(broken("bad_value", changes), {"inventory_hostname": "a"}, changes, broke_off=("step_failed",))
    answer = actions.answer(
        broken("step_failed", changes), {"inventory_hostname": "a"}, changes, broke_off=("step_failed",)
    )
    assert answer["failure"]["code"] == "step_failed" and len(changes) == 2


@pytest.mark.parametrize("arguments", [{}, {"state": "captured", "state_dir": "/x", "more": 1}, {"state": "gone"}])
def test_an_action_made_for_a_test_checks_its_arguments(arguments):
    answer = actions.answer(actions.make(storage_baseline, arguments), {"inventory_hostname": "a"}, [])
    assert answer["failure"]["code"] == "bad_value"
