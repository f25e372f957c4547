# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Summaries of stored points (store/query.py) as lines for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...module_utils.core import units
from ...module_utils.workload.workload import format_size

FIGURES: tuple[tuple[str, str, str, Callable[[Any], str]], ...] = (
    ("IOPS", "iops", "median", units.iops),
    ("least", "iops", "low", units.iops),
    ("most", "iops", "high", units.iops),
    ("spread", "iops", "spread_percent", lambda value: units.percent(None if value is None else value / 100)),
    ("MB/s", "bandwidth_bytes_s", "median", units.bandwidth),
    ("mean", "latency_mean_ns", "mean", units.latency),
    ("p99", "latency_p99_ns", "median", units.latency),
)


def table(groups: list[dict[str, Any]], by: Sequence[str]) -> list[str]:
    """A line per group below the head, the groups' own words first."""
    rows = [[*by, "points", "failed", "flagged", *(head for head, *_place in FIGURES)]]
    for group in groups:
        counts = (group["points"], group["points"] - group["measured"], group["flagged"])
        figures = [word(group.get(metric, {}).get(which)) for _head, metric, which, word in FIGURES]
        rows.append([*(_word(name, group.get(name)) for name in by), *map(str, counts), *figures])
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(
            text.ljust(width) if at < len(by) else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def _word(name: str, value: object) -> str:
    if value is None:
        return units.ABSENT
    return format_size(value) if name == "block_size_bytes" and isinstance(value, int) else str(value)
