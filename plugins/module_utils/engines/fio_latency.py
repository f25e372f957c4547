# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the latencies that fio gives of one direction can be of the same I/Os."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from itertools import accumulate

# fio's means are rounded, its clock has whole nanoseconds.
TOLERANCE, TOLERANCE_NS = 0.01, 2
# A percentile is the middle of a bin, which is 1/64 wide; releases differ in which of two neighbours they take.
BINS_SHARE = 1 / 32
# From this release on the keys of bins are nanoseconds or microseconds.
READABLE_BINS = (2, 20)


def impossible(raw: object, release: tuple[int, ...]) -> str | None:
    """Why the latencies of a direction, as fio writes them, contradict each other; None where they do not.

    The reader of the file refuses damaged ones.
    """
    if not isinstance(raw, dict):
        return None
    suffix = "_ns" if release >= (3, 0) else ""
    parts = {kind: raw[f"{kind}{suffix}"] for kind in ("lat", "clat") if isinstance(raw.get(f"{kind}{suffix}"), dict)}
    try:
        return _completion(parts) or next(filter(None, (_percentiles(parts[kind], release) for kind in parts)), None)
    except (TypeError, ValueError, IndexError, AttributeError):
        return None


def _completion(parts: dict[str, dict[str, object]]) -> str | None:
    """Completion is a part of the whole latency."""
    if len(parts) < 2 or parts["lat"].get("N") != parts["clat"].get("N"):
        return None
    whole, part = (_number(parts[kind].get("mean")) for kind in ("lat", "clat"))
    if not whole or part is None or part <= whole * (1 + TOLERANCE) + TOLERANCE_NS:
        return None
    return f"completion took {part:g} on average, but the whole I/O {whole:g}."


def _percentiles(values: Mapping[str, object], release: tuple[object, ...]) -> str | None:
    """fio's own percentiles agree with its bins."""
    bins, given = values.get("bins"), values.get("percentile")
    if not bins or not isinstance(bins, dict) or not isinstance(given, dict) or release < READABLE_BINS:
        return None
    pairs = sorted((int(edge), count) for edge, count in bins.items())
    edges, reached = [edge for edge, _count in pairs], list(accumulate(count for _edge, count in pairs))
    for key, value in given.items():
        percent, stated = float(key), _number(value)
        if not 0 < percent <= 100 or stated is None:
            continue
        rank = percent / 100 * reached[-1]
        above = bisect_right(edges, stated * (1 + BINS_SHARE) + 1)
        below = bisect_left(edges, stated * (1 - BINS_SHARE) - 1)
        if (reached[above - 1] if above else 0) < rank - 1 or (reached[below - 1] if below else 0) > rank + 1:
            return f"its percentile {percent:g} is {stated:g}, which its own bins contradict."
    return None


def _number(value: object) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) else None
