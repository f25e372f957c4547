# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of a result, as docs/results.md describes them. A key that only one kind of point or host has is absent elsewhere."""

from __future__ import annotations

from typing import Any, TypedDict

from ..workload.workload import Workload


class Result(TypedDict, total=False):
    schema: str
    # Which point.
    testbed_id: str
    run_id: str
    point_id: str
    layer: str
    layer_kind: str
    host: Any
    path: Any
    workload: Workload
    workload_id: str
    repetition: int
    variant: str
    order: int
    fingerprint: str
    engine: dict[str, Any]
    # How it went.
    status: str
    failures: list[Any]
    flags: list[str]
    overridden: list[Any]
    started_utc: Any
    finished_utc: Any
    runtime_s: float
    wall_s: float
    preparation: dict[str, Any]
    prepared: dict[str, Any]
    memory: dict[str, int]
    steady_state: dict[str, Any]
    # The figures.
    read: dict[str, Any]
    write: dict[str, Any]
    total: dict[str, Any]
    sync: dict[str, Any]
    latency_bins: dict[str, Any]
    cpu: dict[str, Any]
    counters: dict[str, Any]
    checks: list[Any]
    stall: dict[str, float]
    errors: dict[str, Any]
    clients: list[Any]
    by_target: dict[str, Any]
    # The files it was made of.
    raw: dict[str, Any]
    job: dict[str, Any]
    series: dict[str, Any]
    # For a database, an installation or another program's file.
    transactions: dict[str, Any]
    transactional_iops: float
    database: dict[str, Any]
    targets: list[Any]
    sources: list[Any]
    job_name: Any
    grouped: Any
    workload_unknown: Any
    clock_stepped: Any
    nopm: float
    tpm: float
    active_virtual_users: int
