# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures against the block size."""

from __future__ import annotations

from ....module_utils.core import units
from ..nouns import Report
from .base import Choices, View
from .lines import sweep


def view(report: Report, choices: Choices) -> View | None:
    return sweep(
        report,
        choices,
        "blocks",
        "block_size_bytes",
        "Block sizes",
        "block size",
        units.size,
        "The same mix with growing blocks. Where bandwidth stops growing, the path is saturated; below that, the cost per I/O decides.",
        ("bandwidth_bytes_s", "iops", "latency_mean_ns", "latency_p99_ns", "us_per_io"),
    )
