# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the modules' parameters, written by ``python tests/tools/write_params.py`` from their SPECs; do not edit."""

from __future__ import annotations

from typing import Any, TypedDict

from ...module_utils.core.layers import Layer


class InstallDownloadOption(TypedDict):
    url: Any
    checksum: Any
    program: Any


class InstallParams(TypedDict):
    testbed_id: str
    state: str
    state_dir: str
    engine: str
    program: Any
    root: str
    discard: bool
    download: InstallDownloadOption


class NtfsDatastoreOption(TypedDict):
    name: str
    layer: str
    mount_point: str
    filesystem: str
    benchmark_file_mib: int


class NtfsParams(TypedDict):
    testbed_id: str
    state: str
    state_dir: str
    layers: dict[str, Layer]
    discard_contents: bool
    datastores: list[NtfsDatastoreOption]


class RamdiskDiskOption(TypedDict):
    name: str
    size_mib: int
    purpose: str
    model: Any


class RamdiskParams(TypedDict):
    testbed_id: str
    state: str
    state_dir: str
    provider: str
    aim_program: str
    aim_driver_folder: str
    disks: list[RamdiskDiskOption]


class ServerParams(TypedDict):
    testbed_id: str
    state: str
    state_dir: str
    networks: Any
    ports: list[int]
    loopback: bool


class SessionTargetPortalOption(TypedDict):
    address: str
    port: int


class SessionTargetLunOption(TypedDict):
    lun: int
    name: str
    layer_kind: str
    parent: Any
    purpose: Any
    size_bytes: Any


class SessionTargetOption(TypedDict):
    iqn: str
    portal: SessionTargetPortalOption
    chap_user: Any
    chap_password: Any
    mutual_chap_user: Any
    mutual_chap_password: Any
    luns: list[SessionTargetLunOption]


class SessionParams(TypedDict):
    testbed_id: str
    state: str
    state_dir: str
    initiator_name: Any
    layers: dict[str, Layer]
    wait_s: int
    targets: list[SessionTargetOption]


class TargetTargetPortalOption(TypedDict):
    address: str
    port: int


class TargetTargetLunOption(TypedDict):
    lun: int
    name: str
    layer: Any
    vhdx: Any
    purpose: Any


class TargetTargetInitiatorOption(TypedDict):
    iqn: Any
    address: Any
    dns_name: Any
    mac_address: Any
    luns: Any
    chap_user: Any
    chap_password: Any
    mutual_chap_user: Any
    mutual_chap_password: Any


class TargetTargetOption(TypedDict):
    name: str
    portals: list[TargetTargetPortalOption]
    luns: list[TargetTargetLunOption]
    initiators: list[TargetTargetInitiatorOption]


class TargetParams(TypedDict):
    testbed_id: str
    state: str
    layers: dict[str, Layer]
    allow_no_chap: bool
    allow_any_address: bool
    uses: dict[str, Any]
    targets: list[TargetTargetOption]
    state_dir: str
