# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Points: one workload at one layer, measured once. A run is a list of them."""

from __future__ import annotations

from typing import Any, TypedDict

from ..core.layers import Layer
from .workload import Workload


class Server(TypedDict, total=False):
    """An engine's server on a host of a point that is measured on many hosts, as module benchmark_server returns it."""

    host: str
    address: str
    port: int
    version: str
    layer: str


class Point(TypedDict, total=False):
    """The first group is planned and goes to the host as it is; what the engine needs of the layer is added where the layer is at hand."""

    point_id: str
    layer: str
    workload: Workload
    workload_id: str
    repetition: int
    variant: str
    seed: int
    fingerprint: str
    order: int
    servers: list[Server]  # of a point measured on many hosts at once
    # From the layer.
    path: Any  # text, or None of what has no device
    size_bytes: int
    files: list[str]
    reduces_data: bool
    sampled: dict[
        str, Any
    ]  # of storage of others, to which nothing is written: what is known of its contents and its caches
    least_bytes: int  # so much has to be written when the layer is filled
    # As a task shows it.
    duration_s: float
    status: str
    # While it is measured: the devices that count what the layers below carry, how often it was written, its parts.
    counted: dict[str, str]
    parts: list[Layer]
