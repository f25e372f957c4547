# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nouns of a comparison, as docs/comparison.md describes them: the sides, a judged figure, and the whole."""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Union

from ...module_utils.result.schema import Result
from ..store.load import Run

SideName = Literal["baseline", "candidate"]
SIDES: tuple[SideName, SideName] = ("baseline", "candidate")
# (testbed_id, run_id) of a result, and the key of a repetition of a point: its number, with the run where there are several.
RunName = tuple[str, str]
Repetition = Union[int, tuple[RunName, int]]
# The results of one point by repetition, and the logarithms of one figure by repetition or run.
Group = dict[Repetition, Result]
Groups = dict[tuple[str, ...], Group]
Pair = tuple[Group, Group]


class Side(TypedDict, total=False):
    """A side as a user names it: its runs, which layer, variant and workload of them, and its name."""

    runs: list[Run]
    selector: dict[str, Any]
    label: str
    name: str


class SideFigure(TypedDict, total=False):
    """A side's part of a figure."""

    value: float
    low: float
    high: float
    repetitions: int
    points: list[str]
    variation_percent: float
    runs: int


class Interval(TypedDict):
    change_percent: float
    low_percent: float
    high_percent: float


class Drift(TypedDict):
    """A movement inside a side while it was measured."""

    side: SideName
    kind: str
    p: float
    change_percent: float


class Change(TypedDict):
    """How far a host's own figure changed between the sides, by its reference checks."""

    host: str
    figure: str
    change_percent: float
    p: float


class Row(TypedDict, total=False):
    """A figure of a point on both sides, and its verdict; keys with an underscore are for the judge alone."""

    point: str
    layer: str
    workload_id: str
    variant: str
    metric: str
    better: str
    baseline: SideFigure
    candidate: SideFigure
    verdict: str
    why: str
    run_more: int
    change_percent: float
    change_low_percent: float
    change_high_percent: float
    confidence_percent: float
    joint_low_percent: float
    joint_high_percent: float
    time_percent: float
    p: float
    p_corrected: float
    visible_percent: float
    typical: Interval
    drift: Drift
    machine: Change
    # With several candidates: its name, and the part of the point that is the same on all sides.
    side: str
    row: str
    sentence: str
    _baseline: dict[str, str]
    _logs: list[dict[Any, float]]
    _rest: float
    _ordered: list[list[float]]
    _order: str
    _turns: bool


class RunLabel(TypedDict, total=False):
    """The runs of a side, as a report names them, with the chosen layer, workload and variant."""

    label: str
    testbed_id: str
    run_id: str
    run_dir: str
    run_dirs: list[str]
    layer: str
    workload: str
    variant: str


class Comparison(TypedDict, total=False):
    """One candidate against a baseline."""

    schema: str
    name: str
    margin_percent: float
    design: str
    method: str
    counts: dict[str, int]
    verdict: str
    summary: str
    headline: str
    rows: list[Row]
    unmatched: list[dict[str, str]]
    failed: list[dict[str, str]]
    machines: list[Change]
    networks: list[dict[str, str]]
    baseline: RunLabel
    candidate: RunLabel
    environment: list[dict[str, Any]]
    under_test: list[str]
    under_test_same: list[str]
    damaged: list[dict[str, Any]]
    statements: list[dict[str, Any]]
    # The outcome of the rules of fail_on.
    fail_on: list[str]
    hits: list[Any]
    unjudged: list[Any]
    outcome: str


class Compared(TypedDict, total=False):
    """Several candidates against one baseline, each a comparison of its own."""

    schema: str
    margin_percent: float
    method: str
    counts: dict[str, int]
    verdict: str
    headline: str
    baseline: RunLabel
    sides: list[Comparison]
    under_test: list[str]
    under_test_same: list[str]
    fail_on: list[str]
    hits: list[Any]
    unjudged: list[Any]
    outcome: str
