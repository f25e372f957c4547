# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps of a plan as a user sees them, and points in time."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import names, times
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.steps import diff_of, shown, shown_words

MADE = {"op": "make", "target": "lun1", "was": None, "will": "1 GiB", "secret": "hidden-value"}
GONE = {"op": "remove", "target": "lun2", "was": "2 GiB", "will": None}
LOOK = {"op": "rescan", "target": "vmhba64", "was": None, "will": "LUNs"}


def test_a_step_is_shown_without_what_only_its_execution_needs():
    result = shown([MADE, GONE])
    assert result["changed"] is True
    assert result["steps"] == [
        {"op": "make", "target": "lun1", "was": None, "will": "1 GiB"},
        {"op": "remove", "target": "lun2", "was": "2 GiB", "will": None},
    ]
    assert result["diff"] == {"before": "remove lun2: 2 GiB\n", "after": "make lun1: 1 GiB\n"}
    assert "hidden-value" not in str(result)


def test_looking_again_is_no_change():
    assert shown([LOOK], quiet=("rescan",))["changed"] is False
    assert shown([LOOK, GONE], quiet=("rescan",))["changed"] is True
    assert shown([LOOK])["changed"] is True
    assert shown([]) == {"changed": False, "steps": [], "diff": {"before": "", "after": ""}}


def test_a_diff_may_name_its_lines_otherwise():
    steps = [
        {"path": "core/iblock_0/udev_path", "was": "", "will": "/dev/ram0"},
        {"path": "enable", "was": 0, "will": 1},
    ]
    assert diff_of(steps, lambda step: step["path"]) == {
        "before": "enable: 0\n",
        "after": "core/iblock_0/udev_path: /dev/ram0\nenable: 1\n",
    }


def test_steps_that_are_words_are_shown_by_themselves():
    assert shown_words(["stop", "start"], "guest01") == {
        "changed": True,
        "steps": ["stop", "start"],
        "diff": {"before": "", "after": "stop guest01\nstart guest01\n"},
    }
    assert shown_words(["add netns"])["diff"]["after"] == "add netns\n"
    assert shown_words([], "guest01") == {"changed": False, "steps": [], "diff": {"before": "", "after": ""}}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1970-01-01T00:00:00Z", 0), ("2026-11-21T16:33:10.123Z", 1795278790.123), ("2026-11-21T16:33:10Z", 1795278790)],
)
def test_times_are_read(text, seconds):
    assert times.unix_s(text) == pytest.approx(seconds, abs=1e-4)


def test_times_are_written_to_the_millisecond():
    assert times.utc(1795278790.5) == "2026-11-21T16:33:10.500Z"
    assert times.utc(0) == "1970-01-01T00:00:00.000Z"


def test_an_naa_identifier_is_written_without_its_kind():
    assert names.plain_naa("naa.6001405abc") == "6001405abc"
    assert names.plain_naa("mpx.vmhba0:C0:T1:L0") == "mpx.vmhba0:C0:T1:L0"
    assert [names.naa_of(name) for name in ("naa.6001405abc", "eui.0025", "6001405abc", "naa")] == [
        "6001405abc",
        None,
        None,
        None,
    ]


@pytest.mark.parametrize("name", ["", "a/b", "-a", "ü", "a" * 33, "a b"])
def test_names_that_no_tool_takes_are_refused(name):
    with pytest.raises(Failure) as caught:
        names.check_name("ramdisk_disks name", name)
    assert caught.value.code == "bad_value" and "ramdisk_disks name" in str(caught.value)
