# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Made-up figures for the engines of the stand-in: the same request has the same ones, another has others, and they fit together as measured ones do."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from itertools import accumulate
from statistics import NormalDist

# The most that the stand-in's disk moves.
MOST_BYTES_S = 3 << 30
# What share of the I/Os is faster than the next of the values that stand for all of them.
SHARES = [step / 24 for step in range(1, 24)] + [0.97, 0.985, 0.993, 0.998, 0.9993, 0.99993, 1]


def drawn(*words) -> float:
    """A number from 0 to below 1 that belongs to these words."""
    return int.from_bytes(hashlib.sha256("\0".join(map(str, words)).encode()).digest()[:6], "big") / (1 << 48)


def latencies(mean_ns: float, count: int, key: str) -> dict:
    """{nanoseconds: count} of so many I/Os with about that mean: most near it, few far above."""
    spread = 0.3 + 0.3 * drawn(key, "spread")
    middles = [(low + high) / 2 for low, high in zip([0, *SHARES], SHARES)]
    raw = [math.exp(spread * NormalDist().inv_cdf(share)) for share in middles]
    scale = mean_ns / sum(value * (high - low) for value, low, high in zip(raw, [0, *SHARES], SHARES))
    edges = [math.floor(share * count) for share in SHARES]
    return {max(1, round(value * scale)): high - low for value, low, high in zip(raw, [0, *edges], edges) if high > low}


def mean(values: dict) -> float:
    return sum(value * count for value, count in values.items()) / sum(values.values())


def deviation(values: dict) -> float:
    count, middle = sum(values.values()), mean(values)
    return math.sqrt(sum(number * (value - middle) ** 2 for value, number in values.items()) / max(1, count - 1))


def percentile(values: dict, percent: float):
    ordered = sorted(values)
    counts = list(accumulate(values[value] for value in ordered))
    return ordered[bisect_left(counts, max(1, math.ceil(percent / 100 * counts[-1] - 1e-9)))]


def both(*distributions: dict) -> dict:
    total: dict = {}
    for values in distributions:
        for value, count in values.items():
            total[value] = total.get(value, 0) + count
    return total


def measured(
    key: str, seconds: float, block_bytes: dict, read_percent: int, outstanding: int, most_iops: float | None = None
) -> dict:
    """{read: {ios, bytes, values}, write: …} of what is measured in so many seconds; only directions that are asked for.

    block_bytes: {read: mean size, write: …}. The mean latency is what is on its way, divided by I/Os per second.
    """
    share = {"read": read_percent / 100, "write": 1 - read_percent / 100}
    size = sum(share[name] * block_bytes[name] for name in share)
    iops = min(2000 + 40000 * drawn(key, "iops") * 8192 / (8192 + size), MOST_BYTES_S / size, most_iops or math.inf)
    whole = max(2, round(iops * seconds))
    ios = {"read": round(whole * share["read"])}
    ios["write"] = whole - ios["read"]
    # Writes take longer than reads.
    slower = 1.1 + 0.4 * drawn(key, "write")
    read_ns = outstanding / iops * 1e9 / (share["read"] + slower * share["write"])
    means = {"read": read_ns, "write": slower * read_ns}
    return {
        name: {
            "ios": ios[name],
            "bytes": round(ios[name] * block_bytes[name]),
            "values": latencies(means[name], ios[name], f"{key}{name}"),
        }
        for name in ios
        if ios[name]
    }


def paused(found: dict, seconds: float, share: float, outstanding: int) -> dict:
    """The same where the storage completed nothing for that share of the time: what was on its way came after it, and the rest is as much less."""
    late = {}
    for name, figures in found.items():
        values = {value: int(count * (1 - share)) for value, count in figures["values"].items()}
        values = {value: count for value, count in values.items() if count}
        number = max(1, round(outstanding * figures["ios"] / sum(each["ios"] for each in found.values())))
        values[round(share * seconds * 1e9)] = number
        ios = sum(values.values())
        late[name] = {"ios": ios, "bytes": round(figures["bytes"] * ios / figures["ios"]), "values": values}
    return late


def written(found: dict) -> int:
    return found.get("write", {}).get("bytes", 0)
