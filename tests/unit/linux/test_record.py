# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of what the testbed made on a host, where it cannot be written."""

from __future__ import annotations

from ansible_collections.storlab.testbed.plugins.module_utils.linux.record import Record
from unchanged import refused


def test_a_record_that_cannot_be_kept_is_a_failure_that_names_it(tmp_path):
    record = Record("lab", "ramdisk", str(tmp_path))
    (tmp_path / "lab").write_text("no folder", encoding="utf-8")
    with refused(tmp_path) as failed:
        record.save()
    assert failed.value.code == "record_unwritable"
    assert str(tmp_path / "lab" / "ramdisk.json") in str(failed.value)


def test_a_record_that_is_kept_is_read_again(tmp_path):
    record = Record("lab", "ramdisk", str(tmp_path))
    record.data = {"modules": ["brd"]}
    record.save()
    assert Record("lab", "ramdisk", str(tmp_path)).data["modules"] == ["brd"]
