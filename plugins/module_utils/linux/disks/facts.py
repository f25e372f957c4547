# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the facts of a path of a Linux host, as device_safety.py reads them."""

from __future__ import annotations

from typing import TypedDict


class _Offered(TypedDict):
    name: str
    serial: str | None
    device: str


class Offered(_Offered, total=False):
    """A device that a target exports, as the target itself shows it. number: of its block device; claims: the kernel keeps the device for it."""

    number: str | None
    claims: bool


class Export(Offered):
    """The same with the software that exports it."""

    software: str


class Opener(TypedDict):
    pid: int
    command: str
    writes: bool


class Facts(TypedDict, total=False):
    """Every path has the first three; the others are of block devices or files."""

    path: str
    resolved: str
    type: str  # missing, unknown, block, file, or what it is instead
    held_as: str
    claim: str | None  # why it cannot be opened, EBUSY when the kernel gave it to another
    claimed_above: list[str]
    twins: dict[str, list[str]]
    above: list[str]
    loops: list[str]
    partitions: list[str]
    holders: list[str]
    holders_above: list[str]
    mounts: list[str]
    swap: bool
    exports: list[Export]
    openers: list[Opener]
    major_minor: str
    name: str
    size_bytes: int
    allocated_bytes: int
    inode: int
    read_only: bool
    partition: bool
    whole_device: str
    signature: dict[str, str]
    signature_error: str
    serial: str | None
    naa: str | None
    wwid: str | None
    designators: tuple[str, ...]
    model: str
    mapped: bool
    mapped_uuid: str | None
    mount_point: str
    filesystem: str
    source: str
    fsid: str | None
    uuid: str | None
