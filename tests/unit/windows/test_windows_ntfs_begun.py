# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk that a build had begun to make a datastore of: what the build left is taken, and what somebody else has made of it since is not."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import ntfs

LABEL = ntfs.label("lab", "ds1")
BEGUN = {"disks": {"ds1": "60003FF4BEGUN"}, "labels": {"ds1": LABEL}}
LAYER = {
    "name": "initiator-ds1",
    "kind": "initiator",
    "path": "\\\\.\\PhysicalDrive3",
    "purpose": "data",
    "size_bytes": 96 << 20,
    "identity": {"unique_id": "60003FF4BEGUN"},
}
WANTED = {
    "name": "ds1",
    "layer": "initiator-ds1",
    "mount_point": "T:",
    "letter": "T",
    "label": LABEL,
    "expected": LAYER,
    "benchmark_bytes": 0,
}


def state_of(label: str | None, filesystem: str = "NTFS", entries: tuple = ()) -> dict:
    """A disk with one partition at T:, with a volume of that label; None for one that was not formatted yet."""
    part = {"number": 2, "type": "Basic", "letter": "T", "folders": []}
    disk = {
        "number": 3,
        "unique_id": "60003FF4BEGUN",
        "style": "GPT",
        "size_bytes": 96 << 20,
        "offline": False,
        "offline_reason": "",
        "read_only": False,
        "partitions": [part],
        **dict.fromkeys(("boot", "system", "clustered", "page_file"), False),
    }
    volume = {
        "letter": "T",
        "label": label or "",
        "filesystem": "" if label is None else filesystem,
        "size_bytes": 95 << 20,
        "entries": [{"name": name, "size_bytes": 17} for name in entries],
    }
    return {"disks": [disk], "volumes": [volume]}


def ops(state: dict) -> list:
    return [step["op"] for step in ntfs.plan(state, [WANTED], BEGUN)]


@pytest.mark.parametrize(
    "state, expected",
    [
        pytest.param(state_of(None), ["format"], id="a partition and no file system"),
        pytest.param(state_of(""), ["format"], id="an empty file system without a label"),
        pytest.param(
            state_of("", entries=("System Volume Information",)), ["format"], id="with what Windows puts there"
        ),
        pytest.param(state_of(LABEL), [], id="finished, and not recorded so"),
        pytest.param(state_of(LABEL, entries=("thesis.docx",)), [], id="finished, with files of somebody else"),
    ],
)
def test_what_a_cut_build_has_left_is_taken(state, expected):
    assert ops(state) == expected
    steps = [step["op"] for step in ntfs.absent_plan(state, BEGUN, discard_contents=True)]
    assert steps == ["clear"]


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(state_of("thesis", entries=("thesis.docx",)), id="another label, with files"),
        pytest.param(state_of("thesis"), id="another label, empty"),
        pytest.param(state_of("", entries=("thesis.docx",)), id="no label, with files"),
        pytest.param(state_of("thesis", filesystem="ReFS"), id="another file system"),
    ],
)
def test_what_somebody_else_has_made_of_the_disk_since_is_not(state):
    before = copy.deepcopy(state)
    for plan in (
        lambda: ntfs.plan(state, [WANTED], BEGUN),
        lambda: ntfs.absent_plan(state, BEGUN, discard_contents=True),
    ):
        with pytest.raises(Failure) as caught:
            plan()
        assert caught.value.code == "datastore_foreign" and "disk 3" in str(caught.value).lower()
    assert state == before
