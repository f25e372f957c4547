# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Vital product data pages of SCSI disks (SPC-4, 7.8), as sysfs has them in ``device/vpd_pg80`` and ``device/vpd_pg83``."""

from __future__ import annotations


def _body(page: bytes, code: int) -> bytes:
    """What a page holds after its header; empty when it is another page. Bytes behind its own length are not its."""
    if len(page) < 4 or page[1] != code:
        return b""
    return page[4 : 4 + int.from_bytes(page[2:4], "big")]


def unit_serial(page: bytes) -> str:
    """The unit serial in VPD page 0x80; empty when there is none."""
    return _body(page, 0x80).decode("ascii", "replace").strip(" \0")


def naa_names(page: bytes) -> list[str]:
    """The NAA identifiers of the logical unit in VPD page 0x83, as hexadecimal text, in the order of the page."""
    body, names, position = _body(page, 0x83), [], 0
    while position + 4 <= len(body):
        length = body[position + 3]
        # Association 0 is the logical unit, designator type 3 is NAA.
        if body[position + 1] & 0x3F == 0x03:
            names.append(body[position + 4 : position + 4 + length].hex())
        position += 4 + length
    return names
