# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Vital product data pages of SCSI disks (SPC-4, 7.8), as sysfs has them in ``device/vpd_pg80`` and ``device/vpd_pg83``."""

from __future__ import annotations

# Types of designators.
T10, EUI, NAA, NAME = 1, 2, 3, 8


def _body(page: bytes, code: int) -> bytes:
    """The contents of a page after its header; empty when it is another page. Bytes behind its own length do not belong to it."""
    if len(page) < 4 or page[1] != code:
        return b""
    return page[4 : 4 + int.from_bytes(page[2:4], "big")]


def unit_serial(page: bytes) -> str:
    """The unit serial in VPD page 0x80; empty when there is none."""
    return _body(page, 0x80).decode("ascii", "replace").strip(" \0")


def naa_names(page: bytes) -> list[str]:
    """The NAA identifiers of the logical unit in VPD page 0x83, as hexadecimal text, in the order of the page."""
    return [content.hex() for kind, content in _of_unit(page) if kind == NAA]


def designators(page: bytes) -> list[str]:
    """The names of the logical unit in VPD page 0x83 as the kernel would write them, in the order of the page, but for NAA names of type 3."""
    names = []
    for kind, content in _of_unit(page):
        if kind in (NAA, EUI):
            names.append(f"{'naa' if kind == NAA else 'eui'}.{content.hex()}")
        elif kind == T10:
            names.append("t10." + content.decode("ascii", "replace").rstrip("\0"))
        elif kind == NAME:
            names.append(content.decode("utf-8", "replace").rstrip("\0").lower())
    # Type 3 is assigned by whoever set up the target, and no name of a disk: tgt makes it of the numbers of target and LUN.
    return [name for name in names if not name.startswith("naa.3")]


def _of_unit(page: bytes) -> list[tuple[int, bytes]]:
    """(type, content) of each designator of the logical unit, which is association 0; others name ports and targets."""
    body, units, position = _body(page, 0x83), [], 0
    while position + 4 <= len(body):
        length = body[position + 3]
        if body[position + 1] & 0x30 == 0:
            units.append((body[position + 1] & 0x0F, body[position + 4 : position + 4 + length]))
        position += 4 + length
    return units
