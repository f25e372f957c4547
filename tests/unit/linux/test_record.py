# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of what the testbed made on a host, where it cannot be written."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.record import Record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import claims
from places import ROOT
from unchanged import refused


def test_a_record_that_cannot_be_kept_is_a_failure_that_names_it(tmp_path):
    kept = Record("lab", "ramdisk", str(tmp_path))
    (tmp_path / "lab").write_text("no folder", encoding="utf-8")
    with refused(tmp_path) as failed:
        kept.save()
    assert failed.value.code == "record_unwritable"
    assert str(tmp_path / "lab" / "ramdisk.json") in str(failed.value)


def test_a_record_that_is_kept_is_read_again(tmp_path):
    kept = Record("lab", "ramdisk", str(tmp_path))
    kept.data = {"modules": ["brd"]}
    kept.save()
    assert Record("lab", "ramdisk", str(tmp_path)).data["modules"] == ["brd"]


# ---------------------------------------------------------------- what is read back

WRONG = {
    "ramdisk": [
        {"disks": "x"},
        {"disks": {"a": 7}},
        {"disks": {"a": {"path": 3}}},
        {"order": "ab"},
        {"disks": {"a": {}}},
    ],
    "raid": [{"arrays": []}, {"arrays": {"a": "b"}}, {"arrays": {"a": {"uuid": "u", "members": ["/dev/sda"]}}}],
    "cache_tier": [{"caches": {"a": {"origin": "/dev/a", "fast": {"device": "/dev/b"}}}}],
    "lio_target": [{"targets": "iqn"}, {"core": {"iblock_0": "x"}}, {"core": []}, {"modules": "brd"}],
    "tgt_target": [{"accounts": ["a"]}, {"accounts": {"a": "b"}}],
    "nfs_export": [{"exports": ["/srv"]}, {"exports": {"/srv": "10.0.0.1"}}, {"daemons": {"rpc": 7}}],
    "iscsi_session": [{"logins": []}, {"folders": "/etc"}, {"multipath": "x"}],
    "datastore": [{"datastores": {"ds1": "x"}}, {"datastores": {"ds1": {"uuid": "u"}}}],
    "database": [{"pid": "7"}, {"folder": 3}, {"segments": "12"}],
    "another": [{"modules": [3]}],
}
WHOLE = ["7", '"x"', "[]", "null", "true", "not json", '{"a": ' * 5000]


@pytest.mark.parametrize("area", sorted(WRONG))
def test_a_record_of_a_wrong_shape_is_named(tmp_path, area):
    path = tmp_path / "lab" / f"{area}.json"
    path.parent.mkdir()
    boot = Record("other", area, str(tmp_path)).boot_id
    for text in [*WHOLE[:3], *WHOLE[4:], *(json.dumps({**data, "boot_id": boot}) for data in WRONG[area])]:
        path.write_text(text, encoding="utf-8")
        with refused(tmp_path) as failed:
            Record("lab", area, str(tmp_path))
        assert failed.value.code == "record_damaged" and str(path) in str(failed.value), text


def test_every_area_has_a_shape():
    used = set()
    for path in sorted((ROOT / "plugins" / "module_utils").rglob("*.py")):
        used |= set(re.findall(r'Record\(\w+, "(\w+)"\)', path.read_text(encoding="utf-8")))
    assert used == set(record.SHAPES) and len(used) > 7


def test_what_another_testbed_cannot_read_stops_nobody(tmp_path):
    (tmp_path / "theirs").mkdir()
    mine = Record("lab", "ramdisk", str(tmp_path))
    mine.data = {"modules": ["brd"]}
    mine.save()
    assert mine.has_heirs() is False
    (tmp_path / "theirs" / "ramdisk.json").write_text("7", encoding="utf-8")
    before = (tmp_path / "theirs" / "ramdisk.json").read_bytes()
    # It may use what is shared, and nobody can ask it.
    assert mine.has_heirs() is True
    mine.bequeath(modules=["brd"])
    mine.remove()
    assert not (tmp_path / "lab").exists() and (tmp_path / "theirs" / "ramdisk.json").read_bytes() == before


def test_the_kept_copy_takes_the_place_of_a_damaged_record(tmp_path):
    mine = Record("lab", "datastore", str(tmp_path))
    mine.data = {"datastores": {"ds1": {"mount_point": "/srv/a", "uuid": "u-5", "folders": []}}}
    mine.save()
    kept = claims.kept("lab", str(tmp_path))
    path = tmp_path / "lab" / "datastore.json"
    for text in ('"x"', json.dumps({"boot_id": mine.boot_id, "datastores": {"ds1": "x"}})):
        path.write_text(text, encoding="utf-8")
        assert claims.restore("lab", kept, run_dir=str(tmp_path))["restored"] == ["datastore"]
        assert Record("lab", "datastore", str(tmp_path)).data["datastores"] == mine.data["datastores"]
