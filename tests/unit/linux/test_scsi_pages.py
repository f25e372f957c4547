# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.storlab.testbed.plugins.module_utils.linux import scsi_pages


def test_vpd_pages():
    page80 = bytes([0, 0x80, 0, 6]) + b"ab12  "
    assert scsi_pages.unit_serial(page80) == "ab12"
    assert scsi_pages.unit_serial(b"") == "" and scsi_pages.unit_serial(b"\0\x83\0\x02xx") == ""
    local = bytes([1, 3, 0, 8]) + bytes.fromhex("3000000100000001")
    vendor = bytes([2, 1, 0, 4]) + b"abcd"
    port = bytes([0x61, 0x93, 0, 8]) + bytes.fromhex("5000000000000001")
    world = bytes([1, 3, 0, 16]) + bytes.fromhex("60000ab07d29fe78f19c51de566bd8ee")
    body = vendor + port + local + world
    page83 = bytes([0, 0x83]) + len(body).to_bytes(2, "big") + body
    assert scsi_pages.naa_names(page83) == ["3000000100000001", "60000ab07d29fe78f19c51de566bd8ee"]
    assert scsi_pages.naa_names(page83[:9]) == [] and scsi_pages.naa_names(b"") == []
    # What stands behind the page's own length, as sysfs shows it, is not its; nor is another page.
    assert scsi_pages.naa_names(page83 + world) == ["3000000100000001", "60000ab07d29fe78f19c51de566bd8ee"]
    assert scsi_pages.naa_names(b"\0\x80" + page83[2:]) == []
