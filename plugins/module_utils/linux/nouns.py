# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the things that a Linux host is to have, and of its state: arrays, caches, targets, logins, datastores.

A thing that is wanted has the keys of its module's options, with those that its check adds; where a key may be left out, its value is of any type.
"""

from __future__ import annotations

from typing import Any, TypedDict

from ..core.layers import Layer

# ---------------------------------------------------------------- backing/raid.py


class ActiveMember(TypedDict):
    path: str
    slot: int | None
    state: str


class ActiveArray(TypedDict):
    """An array as the kernel and mdadm state it."""

    device: str
    uuid: str
    stamp: str
    level: int | str
    chunk_bytes: int
    layout: int | None
    metadata: str
    raid_disks: int
    members: list[ActiveMember]
    array_state: str
    sync_action: str
    sync_percent: int | None
    resync_start: str
    degraded: int
    bitmap: str
    stripe_cache: int | None
    size_bytes: int


class ArrayState(TypedDict):
    """The state of an array that is wanted or recorded."""

    active: Any  # an ActiveArray, or None
    memberless: str | None  # the path of an array without members that a cut making has left
    found: dict[str, Any]  # {path: {uuid, stamp} or None} of the superblocks on its members
    paths: list[str]
    unfinished: bool


# ---------------------------------------------------------------- backing/cache_tier.py


class Cache(TypedDict, total=False):
    """A cache tier that is wanted."""

    name: str
    origin: Any  # each by its device, serial, naa, wwid or uuid, the origin also by its layer
    fast: Any
    provider: str
    mode: str
    cached: bool
    block_kib: int
    migration_kib: int | None
    purpose: Any
    emulated_delay: Any
    layer: Layer | None  # that the origin is


class CacheTable(TypedDict, total=False):
    """A tier's table: which mode its cache has, or that it has none."""

    cached: bool
    origin: str
    size_bytes: int
    mode: str
    block_bytes: int
    provider: str
    policy: str
    fast: str
    metadata: str


class CacheStamp(TypedDict, total=False):
    """The stamp on the fast device of a tier."""

    testbed_id: str
    name: str
    state: str
    mode: str
    block_kib: int
    provider: str
    origin: str
    origin_bytes: int
    uuid: str


class CacheDisk(TypedDict, total=False):
    """The origin or the fast device of a tier."""

    path: str
    numbers: str | None
    size_bytes: int
    digest: str


class CacheState(TypedDict, total=False):
    """The state of a tier that is wanted or recorded; each is None where there is none."""

    tier: Any  # its mapping
    table: Any  # a CacheTable
    status: Any
    stamp: Any  # a CacheStamp
    origin: Any  # a CacheDisk
    fast: Any  # a CacheDisk
    fast_numbers: str | None


# ---------------------------------------------------------------- exports


class Portal(TypedDict):
    address: str
    port: int


class ExportedLun(TypedDict, total=False):
    """A LUN of a target that is wanted: its options and its device."""

    lun: int
    name: str
    layer: str | None
    device: Any
    serial: str | None
    naa: str | None
    wwid: str | None
    uuid: str | None
    purpose: str
    parent: str | None
    expected: Any  # the Layer that it is, or None
    generation: str | None
    block_bytes: int


class ExportedTarget(TypedDict):
    """A target that is wanted."""

    name: str
    portals: list[Portal]
    luns: list[ExportedLun]
    initiators: list[dict[str, Any]]  # each by its IQN, with the LUNs that it sees, and its CHAP


class LostLun(TypedDict, total=False):
    """A LUN that an initiator would lose; the second group is what a user needs to know of it."""

    target: str
    initiator: str
    address: str
    lun: int
    credentials: bool  # it would lose it when its connection breaks
    left_behind: bool  # it is not logged in any more, and its host was not taken down
    key: str
    variable: str
    layer: str | None
    host: str | None
    path: str | None
    users: list[str] | None


class TgtExport(TypedDict, total=False):
    """A target as tgtadm states it; one that is to be made has no sessions."""

    tid: int
    luns: dict[int, dict[str, Any]]
    incoming: set[str]
    outgoing: set[str]
    acl: set[str]
    sessions: dict[str, str]


class TgtState(TypedDict):
    """The state of the testbed's own tgtd."""

    running: bool
    portals: list[str]
    accounts: set[str]
    targets: dict[str, TgtExport]


# ---------------------------------------------------------------- clients


class LoginTarget(TypedDict, total=False):
    """A target that an initiator logs in to, at one of its portals."""

    iqn: str
    portal: Portal
    other_portals: list[Portal]
    luns: list[dict[str, Any]]
    chap_user: str | None
    chap_password: str | None
    mutual_chap_user: str | None
    mutual_chap_password: str | None


class LoginSession(TypedDict):
    """A session of this testbed, as the kernel states it."""

    sid: str
    iqn: str
    state: str
    recovery_tmo: str
    initiator: str
    address: str
    port: str


class SessionDisk(TypedDict):
    path: str
    folder: str
    state: str
    queue_depth: str | None


class LoginState(TypedDict):
    """The state of a login: its node record, its session, and the disks of that."""

    record: dict[str, str] | None
    session: LoginSession | None
    luns: dict[int, SessionDisk]
    multipath: bool
    busy: list[str]
    in_force: bool | None


class Tuning(TypedDict):
    """How the initiator is set."""

    queue_depth: int
    replacement_timeout_s: int
    login_timeout_s: int
    noop_interval_s: int
    noop_timeout_s: int


class Mount(TypedDict):
    """A mount, as the kernel lists it."""

    numbers: str
    mount_point: str
    options: str
    filesystem: str
    source: str


class Store(TypedDict, total=False):
    """A datastore that is wanted: its options and its device."""

    name: str
    filesystem: str
    layer: Any
    device: Any
    mount_point: str
    mount_options: str
    server: Any
    export: Any
    nfs_version: str
    nconnect: int | None
    benchmark_file_mib: int
    benchmark_files: int
    benchmark_bytes: int
    expected: Any  # the Layer that it is on, or None
    serial: Any
    naa: Any
    wwid: Any
    proof: dict[str, Any]
    generation: str | None
    uuid: str
    label: str
