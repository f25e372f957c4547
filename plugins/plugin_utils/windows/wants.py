# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the things that a Windows host is to have, as the checks make them of the modules' parameters (params.py)."""

from __future__ import annotations

from typing import Any, TypedDict

from ...module_utils.core.layers import Layer
from .params import NtfsDatastoreOption, RamdiskDiskOption, TargetTargetLunOption
from .state import TargetPortal


class DiskWant(RamdiskDiskOption):
    size_bytes: int


class StoreWant(NtfsDatastoreOption):
    letter: str
    label: str
    expected: Layer  # of the disk that it is on
    benchmark_bytes: int


class LunWant(TargetTargetLunOption, total=False):
    path: str  # of the virtual disk
    size_bytes: Any
    parent: str | None
    label: str | None  # of the volume that a file is on


class TargetWant(TypedDict):
    name: str  # Windows' own
    iqn: str
    luns: list[LunWant]
    auth: dict[str, str]
    initiators: list[str]  # type:value
    portals: list[TargetPortal]
