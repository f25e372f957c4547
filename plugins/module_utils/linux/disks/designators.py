# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names that a disk gives itself, however the kernel at hand picks and writes one of them.

The attribute ``wwid`` has one name of several, and which one depends on the kernel: of one SATA disk Linux 4.16 shows ``t10.ATA …`` and Linux 6.17
``naa.…``. All of them are on the page that the name is picked from.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from ...core.names import naa_of, plain_naa
from . import scsi_pages

T10 = "t10."


def of(system: Any, folder: str) -> list[str]:
    """The names of the disk of a folder in sysfs, the one that the kernel shows first; none that several disks may share."""
    shown = system.read(f"{folder}/wwid") or system.read(f"{folder}/device/wwid")
    serial = scsi_pages.unit_serial(system.read_bytes(f"{folder}/device/vpd_pg80") or b"")
    names = scsi_pages.designators(system.read_bytes(f"{folder}/device/vpd_pg83") or b"")
    # A T10 name without the serial may be that of a model.
    own = [name for name in names if is_worldwide(name) or (serial and name.startswith(T10) and serial in name)]
    return list(dict.fromkeys([*([shown] if shown else []), *_of_nvme(system, folder), *own]))


def _of_nvme(system: Any, folder: str) -> list[str]:
    """Names of a namespace as ``wwid`` would have them."""
    values = {key: (system.read(f"{folder}/{key}") or "").lower() for key in ("uuid", "nguid", "eui")}
    digits = {key: re.sub(r"[^0-9a-f]", "", value) for key, value in values.items()}
    named = {"uuid": f"uuid.{values['uuid']}", "nguid": f"eui.{digits['nguid']}", "eui": f"eui.{digits['eui']}"}
    return [named[key] for key in named if digits[key].strip("0")]


def is_worldwide(name: str) -> bool:
    return naa_of(name) is not None or name.startswith(("eui.", "uuid."))


def worldwide(names: Collection[str]) -> set[str]:
    """Those of a disk's names that no other disk in the world has; cheap ones all have one serial, and so one T10 name."""
    return {plain(name) for name in names if is_worldwide(name)}


def plain(name: object) -> str:
    """A name in one spelling: naa.6001…, 0x6001… and 6001… are one, and so are the blanks and the underscores that udev makes of them in t10.… names."""
    text = plain_naa(str(name or "").strip().lower())
    if text.startswith(T10):
        return re.sub(r"[\s_]+", "_", text).strip("_")
    return text[2:] if text.startswith("0x") else text
