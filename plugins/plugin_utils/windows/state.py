# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the state of a Windows host, as scripts/state.ps1 reads it, and of the records of it on the controller."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, TypedDict, cast


class About(TypedDict):
    product: str
    version: str
    boot: str  # when it was started


class Service(TypedDict):
    name: str
    state: str
    start_mode: str


class VirtualDisk(TypedDict):
    path: str
    size_bytes: int
    description: str
    status: str
    serial: str


class Lun(TypedDict):
    path: str
    lun: int


class Target(TypedDict):
    name: str
    iqn: str
    description: str
    status: str
    initiators: list[str]  # type:value
    luns: list[Lun]
    chap: bool
    chap_user: str
    reverse_chap: bool
    reverse_chap_user: str
    sessions: list[str]


class Portal(TypedDict):
    address: str
    port: int
    enabled: bool  # whether it listens there


class TargetPortal(TypedDict):
    address: str
    port: int


class Session(TypedDict):
    id: str
    iqn: str
    connected: bool
    persistent: bool
    authentication: str
    disks: list[int]


class Initiator(TypedDict):
    iqn: str
    portals: list[TargetPortal]
    sessions: list[Session]


class Partition(TypedDict):
    number: int
    type: str
    size_bytes: int
    letter: str
    folders: list[str]  # where it is mounted besides


class Disk(TypedDict):
    number: int
    lun: int | None
    name: str
    serial: str
    unique_id: str
    size_bytes: int
    sector_bytes: int
    bus: str
    style: str
    offline: bool
    offline_reason: str  # 'Policy' …, or ''
    read_only: bool
    boot: bool
    system: bool
    clustered: bool
    page_file: bool  # whether a volume of it holds one
    partitions: list[Partition]


class Entry(TypedDict):
    name: str
    size_bytes: int | None


class Volume(TypedDict):
    letter: str
    label: str
    filesystem: str
    size_bytes: int
    entries: list[Entry]


class State(TypedDict):
    about: About
    feature: str | None  # Installed, Available, InstallPending …; null where there are no server roles
    services: list[Service]
    virtual_disks: list[VirtualDisk]
    targets: list[Target]
    portals: list[Portal]
    loopback: int | None  # 1 when the host may be its own initiator, null where that was never set
    firewall_rules: list[str]
    initiator: Initiator
    disks: list[Disk]
    volumes: list[Volume]
    files: list[str]  # those of the asked ones that exist


class Remembered(TypedDict, total=False):
    """The record of one area (RAM disks, file systems, targets, sessions …); each has its own of these keys."""

    service_was: Any  # of targets the service as it was, of sessions its state alone
    feature_was: str | None
    loopback_was: int | None
    unread_since: str
    portals: Any  # of sessions a list of [address, port], of targets what each was
    sessions: list[str]
    session_ids: dict[str, str]
    logins: dict[str, dict[str, Any]]
    targets: list[str]
    secrets: dict[str, Any]
    files: list[str]
    disks: dict[str, Any]  # of file systems a unique id, of RAM disks what the disk was
    labels: dict[str, str]
    styles: dict[str, str]  # of file systems how their disks were before
    devices: dict[str, dict[str, Any]]
    driver: Any
    brought: list[Any]


def without(memory: Remembered, keys: Set[str]) -> Remembered:
    return cast(Remembered, {key: value for key, value in memory.items() if key not in keys})
