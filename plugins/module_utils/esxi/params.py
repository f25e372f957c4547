# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the modules' parameters, written by ``python tests/tools/write_params.py`` from their SPECs; do not edit."""

from __future__ import annotations

from typing import Any, TypedDict

from ..core.layers import Layer


class ConnectionParams(TypedDict):
    hostname: str
    port: int
    username: str
    password: str
    validate_certs: bool
    ca_path: Any
    thumbprint: Any
    timeout_s: int
    long_timeout_s: int
    esxi_host: Any


class DatastoresDatastoreOption(TypedDict):
    name: str
    type: str
    access: str
    layer: Any
    version: int
    compatibility: str
    server: Any
    path: Any


class DatastoresParams(ConnectionParams):
    testbed_id: str
    state: str
    state_dir: Any
    allow_device: list[str]
    discard_contents: bool
    hosts: list[str]
    wait_s: int
    layers: dict[str, Layer]
    datastores: list[DatastoresDatastoreOption]


class InstallationParams(ConnectionParams):
    testbed_id: str
    name: str
    run_id: str
    repetition: Any
    until: str
    installation_timeout_s: int
    power_off_at_timeout: bool
    settle_s: int
    reconnect_s: int
    join: bool
    results_dir: Any
    guest: Any
    layer: Any
    image: Any


class IscsiTargetPortalOption(TypedDict):
    address: str
    port: int


class IscsiTargetLunOption(TypedDict):
    lun: int
    name: str
    parent: Any
    purpose: Any
    serial: Any
    naa: Any
    size_bytes: Any


class IscsiTargetOption(TypedDict):
    iqn: str
    portal: IscsiTargetPortalOption
    discovery: str
    discovery_chap: bool
    chap_user: Any
    chap_password: Any
    mutual_chap_user: Any
    mutual_chap_password: Any
    luns: list[IscsiTargetLunOption]


class IscsiParams(ConnectionParams):
    testbed_id: str
    state: str
    state_dir: str
    initiator_name: Any
    layers: dict[str, Layer]
    options: dict[str, Any]
    host_options: dict[str, Any]
    queue_depth: Any
    port_binding: list[str]
    adapter_chap: Any
    wait_s: int
    targets: list[IscsiTargetOption]


class NetworkSwitchOption(TypedDict):
    name: str
    uplinks: list[str]
    mtu: int


class NetworkPortOption(TypedDict):
    port_group: str
    switch: str
    uplink: str
    address: str
    vlan: int
    mtu: int


class NetworkParams(ConnectionParams):
    testbed_id: str
    state: str
    confirm: bool
    state_dir: str
    switches: list[NetworkSwitchOption]
    ports: list[NetworkPortOption]
    power_policy: str
    ntp_servers: list[str]
    wait_s: int


class VmDiskOption(TypedDict):
    name: str
    size_mib: Any
    controller: str
    bus: Any
    unit: Any
    provisioning: str
    datastore: Any
    rdm: Any


class VmIsoOption(TypedDict):
    src: Any
    path: Any
    datastore: Any


class VmUnattendedOption(TypedDict):
    administrator_password: str
    product_key: Any
    image_name: Any
    image_index: Any
    host_name: Any
    language: str
    locale: Any
    time_zone: str
    address: Any
    gateway: Any
    dns: list[str]
    reachable_from: list[str]


class VmNicOption(TypedDict):
    network: str
    type: str


class VmParams(ConnectionParams):
    testbed_id: str
    state: str
    name: str
    power: str
    restart: bool
    datastore: Any
    guest_id: Any
    vcpus: Any
    memory_mib: Any
    reserve_memory: bool
    disks: list[VmDiskOption]
    iso: Any
    unattended: Any
    nics: list[VmNicOption]
    extra_config: dict[str, Any]
    template: Any
    ova: Any
    layers: dict[str, Layer]
    allow_device: list[str]
    wait_for_address_s: int
