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
