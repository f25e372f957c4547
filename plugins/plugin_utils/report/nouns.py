# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...module_utils.core.layers import Layer
from ...module_utils.workload.workload import Workload
from ..store.cells import Cell
from .beside import Beside
from .split import Split


@dataclass
class Step:
    """A cell, and what it takes away from the layer below it."""

    cell: Cell
    below: Cell | None = None
    relation: str = "bottom"  # bottom | parent | through (unmeasured layers between) | other_lane | ceiling
    holds: list[str] = field(default_factory=list)  # unmeasured layers between both, whose cost is in the step too
    comparable: bool = True
    added_mean_ns: float | None = None
    added_between_ns: tuple[Any, ...] | None = (
        None  # 95 % interval of it, by the repetitions of both; None with a single one
    )
    latency_ratio: float | None = None
    iops_ratio: float | None = None
    overlap: bool = False  # the repetitions of both overlap, so the difference may be noise
    share: float | None = None  # of the mean latency at the top of this chain
    share_of: str = ""  # the layer at that top
    notes: list[Any] = field(default_factory=list)  # indexes into Waterfall.notes


@dataclass
class Waterfall:
    workload_id: str
    workload: Workload
    steps: list[Step]
    missing: list[dict[str, Any]]  # {layer, kind, host, failed, reason}
    notes: list[str]
    costliest: Step | None
    splits: list[Split] = field(default_factory=list)  # of the layers at the top, by counters


@dataclass
class Report:
    title: str
    testbed_id: str
    run_id: str
    started_utc: str
    finished_utc: str
    layers: list[Layer]
    waterfalls: list[Waterfall]
    points: list[Any]
    failed: list[Any]
    damaged: list[Any]
    flags: list[Any]
    machines: list[Any]
    repetitions: tuple[Any, ...]
    verdict: str
    headline: Waterfall | None
    record: dict[str, Any] = field(default_factory=dict)  # run.json
    samples: dict[str, Any] = field(
        default_factory=dict
    )  # point_id -> series of the points that stand for their layers
    judged: dict[str, Any] = field(default_factory=dict)  # point_id -> steady_state of the points that were judged
    installations: list[Any] = field(default_factory=list)
    installation_verdicts: list[Any] = field(default_factory=list)  # by compare/installations.py
    databases: list[Any] = field(default_factory=list)  # by databases.py
    engines: list[Any] = field(default_factory=list)  # 'fio-3.33': what issued the I/Os, each once
    ios: int = 0  # of all measured points together
    trust: str = ""  # whether the figures can be believed, in a sentence
    next_step: str = ""
    targets: list[Any] = field(default_factory=list)  # {target, verdict, why}, by verdicts.judge
    beats: list[Any] = field(default_factory=list)  # {host, figure, values, verdict, …}, by compare/beats.py
    networks: list[Any] = field(default_factory=list)  # lines of network.jsonl, each with used, by compare/networks.py
    unplayed: list[Any] = field(default_factory=list)  # {host, note}: which beats were not played, and why
    verified: str = ""  # what verify_results said of these results; empty when it was not asked
    beside: Beside | None = None  # where no measured layer lies beneath another
