# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of the facts that a testbed is judged by: the inventory, the records of earlier builds, and the answers of its hosts."""

from __future__ import annotations

from typing import Any, TypedDict

from ...module_utils.workload.workload import Workload
from .shape import Problem


class _Lab(TypedDict):
    groups: dict[str, list[str]]
    hosts: dict[str, dict[str, Any]]  # the variables of each host, which are the user's
    roles: dict[str, dict[str, Any]]  # the options of each role, as its argument specification has them
    profiles: list[str]
    base_dir: str
    secrets: dict[str, str]


class Lab(_Lab, total=False):
    """An inventory, and what is known beside it."""

    others: dict[str, list[str]]
    unreadable: list[Problem]
    facts: dict[str, Facts]
    workloads: dict[str, list[Workload]]
    addresses: dict[str, str]
    published: dict[str, list[Published]]


class Published(TypedDict):
    """A layer that an earlier build has published and that can be measured, in as far as the description needs it."""

    name: str
    kind: str
    host: str
    purpose: str
    provider: str | None


class Facts(TypedDict, total=False):
    """Answers of a host that the check of the description uses."""

    addresses: list[str]
    memory_mib: int


class Kept(TypedDict):
    """The content of built.json."""

    groups: dict[str, list[str]]
    hosts: dict[str, dict[str, object]]


class Finding(TypedDict):
    """A line of what the doctor finds on a host; command: the remedy, empty where it is good."""

    host: str
    what: str
    good: bool
    said: str
    command: str


class Refused(Finding, total=False):
    """sentence: what a build would refuse it with."""

    sentence: str


class Peer(TypedDict):
    """The way from a host to a port of another. mtu_passes: None where no size of packets is asked for."""

    address: str
    port: int
    way: str
    mtu_bytes: int | None
    mtu_passes: bool | None


class Named(TypedDict, total=False):
    """A device that the inventory names, and what the host shows of it. The words of its proof are PROOFS of device_safety.py."""

    variable: str
    path: str
    path_word: str  # of the description, where it is not path
    serial: str
    naa: str
    wwid: str
    uuid: str
    fate: str  # what becomes of its contents
    type: str  # of the path itself
    paths: list[str]  # all that show what is said
    shows: dict[str, str]
    contents: str
    reason: str  # why they cannot be read
    designators: dict[str, str]


class SeenDisk(TypedDict, total=False):
    name: str
    path: str
    size_bytes: int
    sector_bytes: int
    serial: str
    used: bool


class SeenVolume(TypedDict, total=False):
    letter: str
    label: str
    size_bytes: int


class Place(TypedDict, total=False):
    """A folder that cannot become a mount point; empty where it can."""

    problem: str
    at: str


class Probe(TypedDict, total=False):
    """Answers of one host to the check: host_probe of a Linux host, win_state of a Windows host, esxi_state of an ESXi host. unreached: why there are none."""

    unreached: str
    system: str
    # Linux
    root: bool
    kernel: str
    kvm: bool
    machine_id: str
    boot_id: str
    package_manager: str
    missing_commands: list[str]
    missing_modules: list[str]
    memory_mib: int
    memory_available_mib: int
    clock_ahead_s: float
    addresses: list[str]
    peers: list[Peer]
    devices: dict[str, SeenDisk]
    named: list[Named]
    folders: dict[str, Place]
    existing: list[Any]  # offers of storage, which nothing has checked yet
    published: list[Published]
    # Linux with ``unused``, and Windows
    disks: list[SeenDisk]
    # Windows
    volumes: list[SeenVolume]
    # ESXi
    product: str
    version: str
    read_only_licence: str
    stand_in: bool
    room: Any
