# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures that follow from other figures of the same result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BEYOND = 10  # I/Os beyond a percentile that it needs to be known


def cpu_cost(cpu: dict[str, float], interval_s: float, iops: float, mhz: float | None = None) -> dict[str, float]:
    """Processor time of the whole host for each I/O, from the busy time of an interval and the rate of I/O in it.

    us_per_io = busy seconds per second / IOPS. mhz_per_iops = busy share x cores x nominal MHz / IOPS, the 'CPU cost' of VMware's
    'Performance Characterization of VMFS and RDM Using a SAN' (2008); busy share x cores is busy seconds per second.
    """
    if not cpu.get("host_busy_s") or not iops or interval_s <= 0:
        return {}
    seconds = cpu["host_busy_s"] / interval_s / iops
    return {
        "us_per_io": float(f"{seconds * 1e6:.4g}"),
        **({"mhz_per_iops": float(f"{seconds * mhz:.4g}")} if mhz else {}),
    }


def thin(part: Mapping[str, object], percents: dict[float, str]) -> set[str]:
    """The percentiles (values of ``percents``) that too few I/Os of a direction are beyond for them to be known: fewer than BEYOND of them."""
    ios = part.get("ios")
    if not isinstance(ios, (int, float)):
        return set()
    return {name for percent, name in percents.items() if not supported(ios, percent)}


def supported(ios: float, percent: float) -> bool:
    """Whether so many I/Os have BEYOND of them beyond a percentile."""
    return ios * (100 - percent) >= 100 * BEYOND * (1 - 1e-9)


def power(figures: dict[str, Any]) -> float:
    """I/O per second over seconds of latency. It is greatest where the curve of latency over throughput bends.

    L. Kleinrock, "Power and deterministic rules of thumb for probabilistic problems in computer communications", ICC 1979 (cited from memory; the
    abstract of "On Kleinrock's power metric for queueing systems", ICCCN 2011, doi 10.1109/ICCCN.2011.6006104, says the same of it). Nothing has to be
    chosen or scaled for it, unlike for curvature: below saturation throughput grows faster than latency, above it only latency grows. A device
    that serves N requests at once at constant latency has its greatest power exactly at N.
    """
    return float(figures["iops"] / (figures["latency_mean_ns"] / 1e9))
