# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import scsi_pages


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


def test_the_names_of_a_unit_as_kernels_write_them():
    serial, model = b"WX9-4471".rjust(20), b"SLOWDISK 9000".ljust(40)
    ata = b"ATA     " + model + serial
    parts = [
        bytes([2, 1, 0, len(ata)]) + ata,
        bytes([1, 3, 0, 8]) + bytes.fromhex("5000c500aabbccdd"),
        bytes([1, 2, 0, 8]) + bytes.fromhex("0025385b71b0a1c2"),
        bytes([3, 8, 0, 24]) + b"naa.5000C500AABBCCD0" + bytes(4),
        # Of a port, and of the target device.
        bytes([0x61, 0x93, 0, 8]) + bytes.fromhex("5000000000000001"),
        bytes([0x63, 0xA8, 0, 24]) + b"naa.5000CCA26128B1F7" + bytes(4),
        # Local: what tgt makes of the numbers of target and LUN.
        bytes([1, 3, 0, 8]) + bytes.fromhex("3000000100000001"),
    ]
    body = b"".join(parts)
    assert scsi_pages.designators(bytes([0, 0x83]) + len(body).to_bytes(2, "big") + body) == [
        f"t10.{ata.decode()}",
        "naa.5000c500aabbccdd",
        "eui.0025385b71b0a1c2",
        "naa.5000c500aabbccd0",
    ]
    assert scsi_pages.designators(b"") == []
