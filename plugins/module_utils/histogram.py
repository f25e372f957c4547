# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Latency histograms: exact merging, and percentiles by fio's own rule.

Bins are ``{"<nanoseconds>": count}`` as in fio's json+ output. The bins of fio are the same in every run, so adding them
up by key is exact, and percentiles of merged bins are the percentiles of all I/O taken together. Percentiles themselves
are never averaged.
"""

from __future__ import annotations

import math
from fractions import Fraction


def merge(histograms) -> dict:
    """The sum of several bins mappings, keys in ascending order."""
    total: dict = {}
    for bins in histograms:
        for key, count in bins.items():
            total[int(key)] = total.get(int(key), 0) + count
    return {str(key): total[key] for key in sorted(total)}


def count(bins: dict) -> int:
    return sum(bins.values())


def percentile(bins: dict, percent: float):
    """The value below which ``percent`` of the I/O completed; None for empty bins."""
    return percentiles(bins, [percent])[percent]


def percentiles(bins: dict, percents) -> dict:
    """``{percent: nanoseconds}``: the first bin whose cumulative count reaches percent / 100 * N. None for empty bins."""
    total = count(bins)
    found = dict.fromkeys(percents)
    if not total:
        return found
    # Exactly, because where the rank is a whole number a rounding error picks the neighbouring bin. The percent itself is the
    # double that fio was given: 99.9 is a little more than 99.9.
    wanted = [(math.ceil(Fraction(percent) * total / 100), percent) for percent in sorted(percents)]
    position = cumulative = 0
    for key in sorted(bins, key=int):
        cumulative += bins[key]
        while position < len(wanted) and cumulative >= wanted[position][0]:
            found[wanted[position][1]] = int(key)
            position += 1
    return found
