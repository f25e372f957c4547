# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which views a run has: each appears only when the workloads have its shape. Charts come from charts.py, tables carry the exact figures.

One file per view. One that spans workloads has a function ``view``, and OF_RUN names it; that is all the page needs to show and to link it.
"""

from __future__ import annotations

from ..nouns import Report
from . import (
    base,
    beats,
    blocks,
    checks,
    clients,
    counters,
    cpu,
    drives,
    esxi,
    events,
    figures,
    flushes,
    load,
    matrix,
    networks,
    over_time,
    page_cache,
    published,
    steady,
    workers,
)
from .base import Choices, View

__all__ = [
    "base",
    "beats",
    "blocks",
    "checks",
    "clients",
    "counters",
    "cpu",
    "drives",
    "esxi",
    "events",
    "figures",
    "flushes",
    "load",
    "matrix",
    "networks",
    "of_run",
    "over_time",
    "page_cache",
    "published",
    "steady",
    "workers",
]
# In the order in which they are read.
OF_RUN = (events.view, blocks.view, workers.view, matrix.view, drives.view, load.view)


def of_run(report: Report, choices: Choices) -> list[View]:
    return [view for make in OF_RUN if (view := make(report, choices))]
