# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image of a guest's disk from the first look to its removal; real mounts are in molecule."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.lab import disk_image
from unchanged import refused

MIB, STAMP = 1 << 20, "storlab-tb-"


def folder(path: str) -> Path:
    return Path(path).parent


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Of an image on a datastore, which is mounted at the folder above."""
    monkeypatch.setattr(disk_image.os.path, "ismount", lambda place: place == str(tmp_path))
    (tmp_path / "guests").mkdir()
    return str(tmp_path / "guests" / f"{STAMP}guest01.img")


def test_an_image_is_made_whole_and_goes(path, tmp_path):
    before = disk_image.observe(path)
    assert (before["mount_point"], before["size_bytes"], before["regular"]) == (str(tmp_path), None, None)
    assert disk_image.plan(path, before, None) == []
    steps = disk_image.plan(path, before, 3 * MIB)
    disk_image.apply(path, steps, 3 * MIB)
    made = disk_image.observe(path)
    assert (steps, made["size_bytes"], made["regular"]) == (["create"], 3 * MIB, True)
    assert made["allocated_bytes"] >= 3 * MIB and os.stat(path).st_mode & 0o777 == 0o600
    with open(path, "rb") as handle:
        assert any(handle.read(MIB))
    assert disk_image.plan(path, made, 3 * MIB) == []
    with refused(folder(path)) as caught:
        disk_image.plan(path, made, 5 * MIB)
    assert (caught.value.code, caught.value.details["wanted_bytes"]) == ("size_differs", 5 * MIB)
    # What was cut short goes with it.
    (tmp_path / "guests" / f"{STAMP}guest01.img.part").write_text("cut short")
    disk_image.apply(path, disk_image.plan(path, made, None), None)
    assert os.listdir(tmp_path / "guests") == []


def test_what_is_no_file_is_left_alone(path, tmp_path):
    os.symlink(tmp_path / "elsewhere", path)
    seen = disk_image.observe(path)
    assert seen["regular"] is False
    with refused(folder(path), match="not a regular file"):
        disk_image.plan(path, seen, seen["size_bytes"])


def test_a_folder_that_is_not_there_or_not_on_a_datastore(path):
    seen = disk_image.observe(f"{os.path.dirname(path)}/none/{STAMP}a.img")
    assert seen["mount_point"] is None and "free_bytes" not in seen
    for place in (None, "/"):
        with refused(folder(path)) as caught:
            disk_image.plan(path, {**seen, "mount_point": place}, MIB)
        assert caught.value.code == "no_datastore"
    with refused(folder(path)) as caught:
        disk_image.plan(path, {**seen, "mount_point": "/mnt", "free_bytes": MIB - 1}, MIB)
    assert (caught.value.code, caught.value.details["free_bytes"]) == ("datastore_full", MIB - 1)


@pytest.mark.parametrize(
    ("place", "stamp", "size_bytes"),
    [
        ("/mnt/storlab-tb-a", "storlab-tb", MIB),
        ("storlab-tb-a", STAMP, MIB),
        ("/mnt/other-a", STAMP, MIB),
        ("/mnt/storlab-tb-a", STAMP, 0),
        ("/mnt/storlab-tb-a", STAMP, MIB + 1),
    ],
)
def test_names_and_sizes_that_are_refused(place, stamp, size_bytes):
    with pytest.raises(Failure) as caught:
        disk_image.check(place, stamp, size_bytes)
    assert caught.value.code == "bad_value"
    disk_image.check("/mnt/storlab-tb-a", STAMP, 2 * MIB)
    disk_image.check("/mnt/storlab-tb-a", STAMP, None)
