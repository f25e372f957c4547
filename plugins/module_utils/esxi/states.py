# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the states of an ESXi host, which adapter.py, machine_plan.py, network.py and datastore.py read, and of pyVmomi's objects.

pyVmomi comes without types. The protocols here name the used properties of its objects, each of any type.
"""

from __future__ import annotations

from typing import Any, Protocol, TypedDict


class HostSystem(Protocol):
    """vim.HostSystem, as far as it is used."""

    name: str
    configManager: Any
    datastore: Any
    network: Any
    parent: Any
    runtime: Any
    summary: Any
    vm: Any


class VirtualMachine(Protocol):
    """vim.VirtualMachine, as far as it is used."""

    name: str
    config: Any
    datastore: Any
    guest: Any
    runtime: Any
    Destroy_Task: Any
    PowerOffVM_Task: Any
    PowerOnVM_Task: Any
    ReconfigVM_Task: Any
    RelocateVM_Task: Any
    RemoveAllSnapshots_Task: Any
    ShutdownGuest: Any
    UnregisterVM: Any


# ---------------------------------------------------------------- the software iSCSI adapter


class Chap(TypedDict, total=False):
    name: str | None
    mutual_name: str | None


class Limit(TypedDict):
    """The bounds of an option, as its host states them."""

    read_only: bool
    min: int | None
    max: int | None
    at_start: bool


class AdapterTarget(TypedDict):
    method: str  # send or static
    address: str
    port: int
    iqn: str | None  # of a static one
    discovered: bool
    parent: str | None  # the send target that reported it
    chap: Chap | None


class AdapterLun(TypedDict):
    iqn: str
    lun: int
    name: str  # the canonical name
    naa: str | None
    designators: list[str]
    adapter: str
    ways: dict[str, int]
    serial: str | None
    size_bytes: int
    device: str
    state: str
    uuid: str
    datastores: list[str]  # the mounted ones on it


class AdapterState(TypedDict):
    boot_time: str
    enabled: bool
    device: str | None
    iqn: str | None
    alias: str | None
    chap: Chap | None
    options: dict[str, Any]
    bound: list[str]
    targets: list[AdapterTarget]
    luns: list[AdapterLun]
    host_options: dict[str, Any]
    module_options: str
    limits: dict[str, Limit]
    host_limits: dict[str, Limit]


# ---------------------------------------------------------------- the network


class Switch(TypedDict):
    uplinks: list[str]
    mtu: int


class PortGroup(TypedDict):
    switch: str
    vlan: int
    active: list[str]
    standby: list[str]


class Interface(TypedDict):
    port_group: Any  # None where it is on none
    address: str
    netmask: str
    mtu: int


class NetworkState(TypedDict, total=False):
    host: str
    management: list[str]
    bound: list[str]
    nics: list[str]
    switches: dict[str, Switch]
    port_groups: dict[str, PortGroup]
    interfaces: dict[str, Interface]
    settings: dict[str, Any]


# ---------------------------------------------------------------- datastores


class Volume(TypedDict):
    name: str
    type: str  # VMFS or NFS
    uuid: str  # of NFS one of our own making
    naa: list[str]
    remote: str | None
    mounted: bool
    accessible: bool
    reason: str | None  # why it is not accessible
    version: int | None
    size_bytes: int
    vms: list[str]  # all registered machines
    vms_here: list[str]  # those of this host
    hosts: list[str]  # the other hosts that mount it


class DiskContents(TypedDict, total=False):
    """Contents of a disk, as far as they matter."""

    available: bool
    partitions: list[str] | None  # '1 vmfs'; None is unreadable
    unresolved: str | None  # the VMFS of which it has a copy


class StoreDisk(DiskContents):
    device: str
    size_bytes: int
    state: str


class MappedLun(DiskContents):
    """A LUN that a machine may be given raw."""

    size_bytes: int
    device: str
    uuid: str
    volume: str | None
    users: list[str]
    offered: bool


class Store(TypedDict):
    """A datastore of any type as the host offers it to machines."""

    type: str  # VMFS, NFS, vsan and others
    accessible: bool
    size_bytes: int | None
    free_bytes: int | None


class StoresState(TypedDict):
    volumes: list[Volume]
    disks: dict[str, StoreDisk]
    stores: dict[str, Store]  # by name


# ---------------------------------------------------------------- machines


class MachineState(TypedDict, total=False):
    power: str  # on, off or suspended
    owner: str | None
    building: bool
    accessible: bool
    lost: list[str]  # its datastores that are lost
    guest_id: str
    vcpus: int
    memory_mib: int
    locked: bool
    reservation_mib: int
    path: Any
    uuid: str | None
    controllers: list[dict[str, Any]]  # {key, kind, bus}
    disks: list[
        dict[str, Any]
    ]  # {key, controller, bus, unit, size_bytes, provisioning, uuid, path, chain, naa, compatibility}
    cdroms: list[dict[str, Any]]  # {key, controller, bus, unit, iso}
    files: list[dict[str, Any]]  # {key, kind, path} of floppy drives, ports and whatever else has a file
    nics: list[dict[str, Any]]  # {key, type, network}
    extra: dict[str, str]
    snapshots: list[dict[str, Any]]  # {name, disks: [{uuid, chain}]}
    layout: list[dict[str, str]]  # {path, type} of its files
    folder: list[str]  # what lies in its folder, where it is to be destroyed


# ---------------------------------------------------------------- what is wanted, as the checks of the modules' options return it


class AdapterWant(TypedDict, total=False):
    testbed_id: str
    name: Any  # text, or None to keep what there is
    targets: list[dict[str, Any]]
    adapter_chap: Any  # {chap_user, …}, or None
    options: dict[str, Any]
    host_options: dict[str, Any]
    queue_depth: int | None
    port_binding: list[str]


class SettingsWant(TypedDict, total=False):
    """The settings that shall not stay as they are."""

    power_policy: str
    ntp_servers: list[str]


class NetworkWant(TypedDict, total=False):
    switches: dict[str, dict[str, Any]]
    ports: dict[str, dict[str, Any]]
    settings: SettingsWant


class StoreWant(TypedDict, total=False):
    """A datastore that is wanted."""

    name: str
    type: str
    access: str
    version: int
    server: Any
    path: Any
    naa: Any
    compatibility: str | None
    testbed_id: str
    state: str
    layer: Any
    allowed: bool
    exported: bool
    discard: bool
    hosts: list[str]
    remembers: bool
    check_mode: bool
    generation: str | None


class DiskWant(TypedDict):
    """A disk of a machine that is wanted."""

    name: str
    controller: str
    bus: int | None
    unit: int | None
    datastore: str
    provisioning: Any  # None of a LUN that is mapped raw
    size_bytes: Any
    rdm: Any  # {naa, serial, compatibility, layer, exported, allowed}, or None


class IsoWant(TypedDict):
    """The image in a machine's drive: the file that is sent, and where it is put."""

    src: Any
    path: str
    datastore: str
    sidecar: str
    backing: str


class MachineWant(TypedDict, total=False):
    """A machine that is wanted."""

    name: str
    testbed_id: str
    datastore: str
    guest_id: Any
    vcpus: Any
    memory_mib: Any
    power: str
    restart: bool
    template: Any
    ova: Any
    nics: list[dict[str, Any]]
    reserve: bool
    extra: dict[str, str]
    disks: list[DiskWant]
    iso: Any  # an IsoWant, or None
    answers: Any  # the same, of the image with the answer file


class MachineFacts(TypedDict, total=False):
    """The things that a host offers to a machine."""

    datastores: dict[str, dict[str, Any]]
    networks: list[str]
    luns: dict[str, MappedLun]


class InstallationWant(TypedDict):
    testbed_id: str
    name: str
    run_id: str
    until: str
    installation_timeout_s: int
    settle_s: int
    reconnect_s: int
    join: bool
    power_off_at_timeout: bool


# ---------------------------------------------------------------- counters


class Table(TypedDict, total=False):
    """Samples of one entity: each row has its end, its length and a value for each column."""

    columns: list[list[str]]
    rows: list[list[Any]]


class Samples(TypedDict, total=False):
    """The counters of a host, as counters.read reads them."""

    host: str
    product: Any
    simulated: bool
    clock: dict[str, Any]
    sample_s: int
    hardware: dict[str, Any]
    names: dict[str, dict[str, Any]]
    host_samples: Table
    machines: dict[str, Table]
    settings: dict[str, Any]
