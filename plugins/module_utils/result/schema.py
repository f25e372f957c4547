# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of a result, as docs/results.md describes them. A key that only one kind of point or host has is absent elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from ..core.failure import Fault
from ..workload.workload import Direction, Workload

# Groups of figures: I/O by its direction and together, and the flushes (fsync, fdatasync), which are not I/O.
Part = Literal["read", "write", "total", "sync"]


class Histogram(TypedDict):
    unit: str
    bins: dict[str, int]


class Latency(TypedDict, total=False):
    """Latencies as an engine reports them, in nanoseconds, before they become Figures. samples: the number of recorded ones."""

    mean: float | None
    min: float | None
    max: float | None
    stddev: float | None
    samples: float | None
    percentiles: Mapping[float, float | None]


class Figures(TypedDict, total=False):
    """The figures of a Part. Flushes have neither size nor rates; a figure that was not measured is absent."""

    ios: int
    bytes: int
    iops: float
    bandwidth_bytes_s: float
    latency_mean_ns: float
    latency_min_ns: float
    latency_max_ns: float
    latency_stddev_ns: float
    latency_p50_ns: float
    latency_p95_ns: float
    latency_p99_ns: float
    latency_p99_9_ns: float
    latency_p99_99_ns: float
    # An engine that keeps a few bins only, or an import, has these.
    latency_p50_lower_ns: float
    latency_p50_upper_ns: float
    histogram: Histogram


class Errors(TypedDict, total=False):
    total: int
    first: int


class Series(TypedDict, total=False):
    """Contents of series.json: samples over the time of a point. Without interval_s where there is none."""

    interval_s: float
    columns: list[str]
    rows: list[list[Any]]


class LatencyBins(TypedDict):
    """Counts of latencies between bounds, of which the last has no upper one."""

    unit: str
    lower: list[int]
    upper: list[int | None]
    counts: list[int]


class Check(TypedDict, total=False):
    """A check of a point: its name, whether it passed, and the figures that it compared (docs/results.md)."""

    name: str
    ok: bool
    # littles_law, least_in_flight
    in_flight: float
    limit: float
    least: float
    depth: int
    # block_size
    bytes_per_io: float
    least_bytes: int
    most_bytes: int
    # mean_in_range, bins_and_mean
    mean_ns: float
    least_ns: float
    most_ns: float
    # read_share, mixture
    read_percent: float
    wanted_percent: float
    deviations: float
    # ceiling, generator, choice
    iops: float
    bandwidth_bytes_s: float
    ceiling_iops: float
    memory_copy_bytes_s: float
    share_percent: float
    limit_percent: float
    faster: str
    faster_percent: float
    # standstill
    longest_s: float
    limit_s: float
    # device_counters
    read: dict[str, float]
    write: dict[str, float]


class Addition(TypedDict, total=False):
    """The addition to a result by other results of its run and by its host, see result.against_ceiling."""

    checks: list[Check]
    flags: list[str]
    replaced_flags: list[str]


class Stall(TypedDict, total=False):
    """Engines that leave no log of their I/O know the longest stretch alone."""

    total_s: float
    longest_s: float
    running_percent: float


class Windows(TypedDict, total=False):
    """When I/O was completed, as standstill.seen makes it of a log; runs of earlier versions have no stretches_s.

    A workload that goes on over errors also has the I/Os of each window, the time at which the first window began, and between which times the first
    I/O failed.
    """

    window_s: float
    busy: int
    longest_s: float
    longest_at_s: float
    first_s: float
    last_s: float
    stretches_s: list[float]
    counts: list[int]
    counts_from_unix_s: float
    counts_window_s: float
    first_error_unix_s: list[float]


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
    failures: list[Fault]
    flags: list[str]
    overridden: list[Any]
    started_utc: Any
    finished_utc: Any
    runtime_s: float
    wall_s: float
    preparation: dict[str, Any]
    prepared: dict[str, Any]
    memory: dict[str, int]
    steady_state: SteadyRounds
    # The figures.
    read: Figures
    write: Figures
    total: Figures
    sync: Figures
    latency_bins: LatencyBins
    cpu: dict[str, Any]
    counters: dict[str, Any]
    checks: list[Check]
    stall: Stall
    event: dict[str, Any]
    errors: Errors
    clients: list[Any]
    by_target: dict[str, dict[str, Figures]]
    # The files it was made of.
    raw: dict[str, Any]
    job: dict[str, Any]
    series: dict[str, Any]
    files: dict[str, Any]  # of an index: the records of its files
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


class Measured(Result, total=False):
    """A result as an engine's reader returns it: without the keys that only a testbed knows, with those that distinguish jobs and hosts."""

    port: float
    run: int
    group: float
    span_ms: list[float]
    trim: Figures
    working_set: dict[str, Any]
    stamps: list[str]  # local times before and after it
    # The time in which no I/O was completed, see physics.
    stalled_s: float


class SteadyRounds(TypedDict, total=False):
    """The judgement of rounds and its limits, as steady_state.judgement makes it."""

    metric: str
    steady: bool
    excursion_percent: float
    slope_percent: float
    window: int
    rounds: list[float]
    round_s: float
    limits: dict[str, float]
    budget_s: float


class Seen(TypedDict):
    """The counts of a device in the measured time, between two bounds: {read: {ios, bytes}, write: …} each."""

    least: dict[Direction, dict[str, int]]
    most: dict[Direction, dict[str, int]]
    ios_comparable: bool


class Meta(TypedDict, total=False):
    """The runner's notes on a point (docs/results.md: meta.json)."""

    started_utc: str
    finished_utc: str
    wall_s: float
    preparation: dict[str, Any]
    prepared: dict[str, Any]
    memory: dict[str, int]
    steady_state: SteadyRounds
    failures: list[Fault]
    flags: list[str]
    overridden: list[Any]
    exit_code: int | None
    windows: list[Windows | None]
    late_s: float
    stopped_s: float
    counters: dict[str, Any]
    device_seen: Seen
    # The position of its result in a file of several points; None where it has none.
    test: int | None
