# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A workload in the words of a report."""

from __future__ import annotations

from typing import Any

from ..core import units
from .workload import Workload, block_bounds


def describe(workload: Workload) -> str:
    """'4 KiB random, 70 % read, queue depth 8, 1 worker', in as far as the workload (normalised, perhaps in part) says so."""
    size, random, read = _size_words(workload), workload.get("random_percent"), workload.get("read_percent")
    head = [size] if size else []
    if random is not None:
        head.append({0: "sequential", 100: "random"}.get(random, f"{random} % random"))
    if read in (0, 100):
        head.append("read" if read else "write")
    parts = [" ".join(head)] if head else []
    if read not in (None, 0, 100):
        parts.append(f"{read} % read")
    if workload.get("queue_depth") is not None:
        parts.append(f"queue depth {workload['queue_depth']}")
    if workload.get("workers") is not None:
        parts.append(_count(workload["workers"], "worker"))
    if workload.get("direct") is False:
        parts.append("through the page cache")
    return ", ".join([*parts, *_optional_words(workload)]) or "workload"


def _size_words(workload: Workload) -> str:
    if workload.get("block_size_bytes") is not None:
        return units.size(workload["block_size_bytes"])
    if "block_size_range" in workload:
        return " to ".join(map(units.size, block_bounds(workload)))
    if "block_sizes" not in workload:
        return ""
    words = {
        name: ", ".join(f"{part['percent']} % {units.size(part['size_bytes'])}" for part in parts)
        for name, parts in workload["block_sizes"].items()
    }
    if len(set(words.values())) == 1:
        return f"mix of {words.popitem()[1]},"
    return "; ".join(f"{name}s of {text}" for name, text in words.items()) + ";"


def _optional_words(workload: Workload) -> list[str]:
    option: Any = workload.get
    words: list[str] = []
    if option("distribution"):
        distribution = option("distribution")
        zones = distribution["zoned"] if isinstance(distribution, dict) else None
        words.append(
            f"hot spots {option('distribution')}"
            if zones is None
            else ", ".join(f"{zone['access_percent']} % of I/O on {zone['space_percent']} % of space" for zone in zones)
        )
    if option("think_time_us"):
        words.append(f"{option('think_time_us')} µs pause after {_count(workload['burst'], 'I/O')}")
    rate = (
        f"{option('rate_iops')} IOPS"
        if option("rate_iops")
        else f"{units.size(option('rate_bytes_s'))}/s"
        if option("rate_bytes_s")
        else None
    )
    if rate:
        words.append(f"limited to {rate}" + (" (Poisson arrivals)" if option("rate_process") == "poisson" else ""))
    data = option("data", {})
    if data.get("pattern", "random") != "random":
        words.append("zeros" if data["pattern"] == "zero" else f"data repeats 0x{data['hex']}")
    words += [
        f"{data[key]} % {word}"
        for key, word in (("compress_percent", "compressible"), ("dedupe_percent", "duplicates"))
        if key in data
    ]
    words += ["new for each block"] if data.get("refill") else []
    sync = option("sync", {})
    words += [{"sync": "O_SYNC", "dsync": "O_DSYNC"}[sync["mode"]]] if "mode" in sync else []
    words += [
        f"{key[:-6]} after {_count(sync[key], 'write')}" for key in ("fsync_every", "fdatasync_every") if key in sync
    ]
    words += ["fsync at the end"] if "end_fsync" in sync else []
    words += [f"{_count(workload['loops'], 'pass', 'es')} over the range"] if option("loops") else []
    words += [f"{units.size(option('io_bytes'))} in all"] if option("io_bytes") else []
    words += [f"verified by {option('verify')}"] if option("verify") else []
    words += ["goes on over errors"] if option("on_error") else []
    for engine, options in option("engine_options", {}).items():
        words.append(f"{engine} options " + " ".join(f"{key}={value}" for key, value in options.items()))
    return words


def _count(number: int, word: str, plural: str = "s") -> str:
    return f"{number} {word}{'' if number == 1 else plural}"
