# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the modules' parameters, written by ``python tests/tools/write_params.py`` from their SPECs; do not edit."""

from __future__ import annotations

from typing import Any, TypedDict

from ..core.layers import Layer


class DiskBySerialParams(TypedDict):
    serial: str
    size_bytes: int
    timeout_s: int


class RaidArrayMemberOption(TypedDict):
    device: Any
    serial: Any
    naa: Any
    wwid: Any
    uuid: Any


class RaidArrayOption(TypedDict):
    name: str
    level: int
    members: list[RaidArrayMemberOption]
    chunk_kib: Any
    bitmap: str
    assume_clean: bool
    stripe_cache: Any
    resync: str
    purpose: str
    emulated_delay: Any


class CacheTierCacheOriginOption(TypedDict):
    device: Any
    serial: Any
    naa: Any
    wwid: Any
    uuid: Any
    layer: Any


class CacheTierCacheFastOption(TypedDict):
    device: Any
    serial: Any
    naa: Any
    wwid: Any
    uuid: Any


class CacheTierCacheOption(TypedDict):
    name: str
    origin: CacheTierCacheOriginOption
    fast: CacheTierCacheFastOption
    provider: str
    mode: str
    cached: bool
    block_kib: int
    migration_kib: Any
    purpose: Any
    emulated_delay: Any


class IscsiTargetTargetPortalOption(TypedDict):
    address: str
    port: int


class IscsiTargetTargetLunOption(TypedDict):
    lun: int
    name: str
    layer: Any
    device: Any
    serial: Any
    naa: Any
    wwid: Any
    uuid: Any
    purpose: Any


class IscsiTargetTargetInitiatorOption(TypedDict):
    iqn: Any
    address: Any
    dns_name: Any
    mac_address: Any
    luns: Any
    chap_user: Any
    chap_password: Any
    mutual_chap_user: Any
    mutual_chap_password: Any


class IscsiTargetTargetOption(TypedDict):
    name: str
    portals: list[IscsiTargetTargetPortalOption]
    luns: list[IscsiTargetTargetLunOption]
    initiators: list[IscsiTargetTargetInitiatorOption]


class NfsExportExportOption(TypedDict):
    name: str
    layer: str
    clients: list[str]
    sync: bool
    read_only: bool


class NfsExportParams(TypedDict):
    testbed_id: str
    state: str
    layers: dict[str, Layer]
    addresses: list[str]
    versions: list[str]
    threads: int
    exports: list[NfsExportExportOption]


class ExistingEntryOption(TypedDict):
    name: str
    kind: str
    layer_kind: str
    parent: Any
    device: Any
    serial: Any
    naa: Any
    wwid: Any
    uuid: Any
    server: Any
    export: Any
    nfs_version: str
    share: Any
    smb_version: str
    user: Any
    password: Any
    domain: Any
    mount_options: str
    folder: Any
    file: Any
    access: str
    benchmark_file_mib: int


class ExistingParams(TypedDict):
    testbed_id: str
    state: str
    entries: list[ExistingEntryOption]
    layers: list[dict[str, Any]]
    below: list[dict[str, Any]]


class IscsiSessionTargetPortalOption(TypedDict):
    address: str
    port: int


class IscsiSessionTargetOtherPortalOption(TypedDict):
    address: str
    port: int


class IscsiSessionTargetLunOption(TypedDict):
    lun: int
    name: str
    parent: Any
    purpose: Any
    serial: Any
    naa: Any
    size_bytes: Any
    layer_kind: str


class IscsiSessionTargetOption(TypedDict):
    iqn: str
    portal: IscsiSessionTargetPortalOption
    other_portals: list[IscsiSessionTargetOtherPortalOption]
    luns: list[IscsiSessionTargetLunOption]
    chap_user: Any
    chap_password: Any
    mutual_chap_user: Any
    mutual_chap_password: Any


class IscsiSessionParams(TypedDict):
    testbed_id: str
    state: str
    initiator_name: Any
    layers: dict[str, Layer]
    queue_depth: int
    replacement_timeout_s: int
    login_timeout_s: int
    noop_interval_s: int
    noop_timeout_s: int
    targets: list[IscsiSessionTargetOption]


class DatastoresDatastoreOption(TypedDict):
    name: str
    layer: Any
    device: Any
    serial: Any
    naa: Any
    wwid: Any
    uuid: Any
    filesystem: str
    server: Any
    export: Any
    nfs_version: str
    nconnect: Any
    mount_point: str
    mount_options: str
    benchmark_file_mib: int
    benchmark_files: int


class DatastoresParams(TypedDict):
    testbed_id: str
    state: str
    layers: dict[str, Layer]
    discard_contents: bool
    datastores: list[DatastoresDatastoreOption]


class DebianInstallationParams(TypedDict):
    action: str
    testbed_id: str
    layer: Layer
    layers: dict[str, Layer]
    index_sha256: str
    bytes: int
    source: Any
    timeout_s: int


class DebianPackagesParams(TypedDict):
    cache_dir: str
    packages: list[str]


class DatabaseLoadParams(TypedDict):
    testbed_id: str
    state: str
    layers: dict[str, Layer]
    layer: str
    warehouses: int
    shared_buffers_mib: int
    max_wal_mib: int
    settings: dict[str, Any]
    bin_dir: Any
    hammerdb_dir: Any
    user: str
