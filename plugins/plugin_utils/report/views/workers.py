# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures against the number of workers."""

from __future__ import annotations

from ..nouns import Report
from .base import Choices, View
from .lines import sweep


def view(report: Report, choices: Choices) -> View | None:
    return sweep(
        report,
        choices,
        "workers",
        "workers",
        "Workers",
        "workers",
        str,
        "The same workload issued by more threads. If twice the workers give twice the IOPS, no shared resource is saturated.",
        ("bandwidth_bytes_s", "iops", "latency_mean_ns", "us_per_io"),
        without="queue_depth",
    )
