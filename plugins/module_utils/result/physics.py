# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures that no engine can have measured, whatever the device: they contradict each other or the workload.

- *Little's law*: with N places for I/Os in flight and a run of T seconds, all latencies together are at most N x T, and what the first I/O of each place
  lasted before the measured time began, which is at most the greatest latency. J. D. C. Little, "A proof for the queuing formula: L = lambda W",
  Operations Research 9 (1961). The mean number in flight is I/Os x mean latency / T.
- *bytes for each I/O*: between the smallest and the largest block of the workload.
  An engine that is not held back has at least one I/O on its way, but for its own work between two I/Os.
- *share of reads*: a workload of one direction does nothing of the other. Engines draw the direction of each I/O of a mixture by lot, so its reads are
  binomial: further from the share than chance allows, the engine did another mixture.
- *latencies*: least <= mean <= greatest, and a mean that lies where the bins of the histogram allow.

An engine that breaks one has lost count or its clock has stepped. That IOPS and run time give the number of I/Os is held where an engine's output is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from ..core.failure import Failure, Fault
from ..workload.workload import DIRECTIONS, Workload, block_bounds
from .schema import Check, Figures, Measured

# Engines round: run times to whole milliseconds, means to a few digits.
TOLERANCE = 0.01
# I/Os that were under way when the measured time began or ended may be counted without their bytes, or the other way round.
EDGES = 2
# How wide a bin of fio's histograms is; the first ones hold single nanoseconds. The last one begins here.
BIN_SHARE, BIN_NS = 1 / 64, 2
LAST_BIN_NS = 17_000_000_000
# With fewer in flight on average, and so long without any for each I/O, the latencies leave out most of the time.
LEAST_IN_FLIGHT, LEAST_IDLE_NS = 0.1, 50_000
RARELY = "rarely_in_flight"
# So many standard deviations from its share a mixture is a different one: by chance it is one point in 500 million. 280 runs of fio's null engine
# were at most 3.1 off.
MOST_DEVIATIONS = 6
OTHER_MIXTURE = "other_mixture"
# Checks that are made only where they fail, and whose cause may be the host or an option that this file does not know: a flag and not a failure.
FLAGGED = {"least_in_flight": RARELY, "mixture": OTHER_MIXTURE}
# Fewer I/Os are too few for an average.
LEAST_IOS = 100
# Keys of a workload, and parts of names of options, that make an engine wait between two I/Os or change the shares of the directions.
_PACED = ("think_time_us", "rate_iops", "rate_bytes_s")
_WAITING = re.compile(
    r"rate|think|lat|delay|flow|poll|sleep|steady|submit|zone|barrier|trim|replay|read_iolog|cpu|sync|lock|thread"
)


def checks(total: Figures, runtime_s: float, in_flight: int, block_bytes: tuple[int, int]) -> list[Check]:
    """[{name, ok, …}] of the figures of one run of the engine, as far as they are there; none of them when nothing was done.

    total: the figures of both directions together (result.py). in_flight: queue depth x workers. block_bytes: the smallest and the largest block.
    littles_law: in_flight is the mean number, limit what it can have been at most. block_size: bytes_per_io, least_bytes and most_bytes.
    """
    ios = total.get("ios") or 0
    made: list[Check] = []
    mean_ns, longest_ns = total.get("latency_mean_ns"), total.get("latency_max_ns")
    if ios and runtime_s and mean_ns is not None and longest_ns is not None:
        mean = ios * mean_ns / 1e9 / runtime_s
        limit = in_flight * (1 + longest_ns / 1e9 / runtime_s)
        made.append(
            {
                "name": "littles_law",
                "ok": mean <= limit * (1 + TOLERANCE),
                "in_flight": float(f"{mean:.4g}"),
                "limit": float(f"{limit:.4g}"),
            }
        )
    size_bytes, (least, most) = total.get("bytes"), block_bytes
    if ios and size_bytes is not None:
        edges = EDGES * in_flight * most
        made.append(
            {
                "name": "block_size",
                "ok": least * ios - edges <= size_bytes <= most * ios + edges,
                "bytes_per_io": float(f"{size_bytes / ios:.6g}"),
                "least_bytes": least,
                "most_bytes": most,
            }
        )
    return made + latency_checks(total)


def latency_checks(total: Figures) -> list[Check]:
    """mean_in_range: least_ns <= mean_ns <= most_ns. bins_and_mean: the same of what the bins of the histogram allow. Only those that fail."""
    mean = total.get("latency_mean_ns")
    made: list[Check] = []
    if mean is None:
        return []
    least, most = total.get("latency_min_ns"), total.get("latency_max_ns")
    if least is not None and most is not None:
        made.append(_range("mean_in_range", mean, least, most))
    bins: dict[str, int] = total["histogram"]["bins"] if total.get("histogram") else {}
    count = sum(bins.values())
    if count:
        middle = sum(int(edge) * number for edge, number in bins.items()) / count
        highest = middle * (1 + BIN_SHARE)
        # The last bin holds all that took longer, too.
        if max(map(int, bins)) >= LAST_BIN_NS:
            highest = max(highest, most or mean, mean)
        made.append(_range("bins_and_mean", mean, middle * (1 - BIN_SHARE), highest))
    return [check for check in made if not check["ok"]]


def _range(name: str, mean: float, least: float, most: float) -> Check:
    allowed = least * (1 - TOLERANCE) - BIN_NS <= mean <= most * (1 + TOLERANCE) + BIN_NS
    mean, least, most = (float(f"{value:.6g}") for value in (mean, least, most))
    return {"name": name, "ok": allowed, "mean_ns": mean, "least_ns": least, "most_ns": most}


def _reads(workload: Workload, part: Measured) -> list[Check]:
    """[read_share] where a workload of one direction did some of the other."""
    read, write = ((part.get(direction) or {}).get("ios") or 0 for direction in DIRECTIONS)
    wanted = workload["read_percent"]
    wrong = write if wanted == 100 else read if wanted == 0 else 0
    if not wrong:
        return []
    share = float(f"{100 * read / (read + write):.4g}")
    return [{"name": "read_share", "ok": False, "read_percent": share, "wanted_percent": wanted}]


def _mixture(workload: Workload, part: Measured) -> list[Check]:
    """[mixture] where reads and writes are not of the share that the workload asks for. Rates of each direction, checks and options may change shares."""
    wanted = workload["read_percent"]
    reads, writes = ((part.get(direction) or {}).get("ios") or 0 for direction in DIRECTIONS)
    ios = reads + writes
    if not 0 < wanted < 100 or not ios or _held_back(workload, {}):
        return []
    share = wanted / 100
    # What is on its way when the measured time begins or ends counts or does not, be it slow reads or slow writes.
    edges = EDGES * workload["queue_depth"] * workload["workers"]
    off = max(abs(reads - ios * share) - edges, 0) / math.sqrt(ios * share * (1 - share))
    if off <= MOST_DEVIATIONS:
        return []
    return [
        {
            "name": "mixture",
            "ok": False,
            "read_percent": float(f"{100 * reads / ios:.4g}"),
            "wanted_percent": wanted,
            "deviations": float(f"{off:.3g}"),
            "limit": MOST_DEVIATIONS,
        }
    ]


def _idle(workload: Workload, part: Measured) -> list[Check]:
    """[least_in_flight] where hardly ever an I/O was on its way, and no option, pause or rate explains it.

    stalled_s of a part: how long no I/O was completed at all. A host that stands still adds to no latency.
    """
    total = part.get("total") or {}
    ios, mean_ns = total.get("ios") or 0, total.get("latency_mean_ns")
    if ios < LEAST_IOS or mean_ns is None or _held_back(workload, part):
        return []
    busy_s = part["runtime_s"] - part.get("stalled_s", 0)
    in_flight = ios * mean_ns / 1e9 / busy_s if busy_s > 0 else LEAST_IN_FLIGHT
    if in_flight >= LEAST_IN_FLIGHT or busy_s * 1e9 / ios - mean_ns < LEAST_IDLE_NS:
        return []
    return [
        {
            "name": "least_in_flight",
            "ok": False,
            "in_flight": float(f"{in_flight:.4g}"),
            "least": LEAST_IN_FLIGHT,
            "depth": workload["queue_depth"] * workload["workers"],
        }
    ]


def flags(checks: Sequence[Mapping[str, object]]) -> list[str]:
    """Flags for the checks that fail without making the point fail."""
    names = {check["name"] for check in checks}
    return [flag for name, flag in FLAGGED.items() if name in names]


def _held_back(workload: Workload, part: Measured) -> bool:
    options = [name for of in (workload.get("engine_options") or {}).values() for name in of]
    return (
        any(workload.get(key) for key in (*_PACED, "sync", "verify"))
        or bool(part.get("sync"))
        or (part.get("engine") or {}).get("ioengine") == "null"
        or any(_WAITING.search(name) for name in options)
    )


def judged(workload: Workload, parts: Sequence[Measured]) -> tuple[list[Check], list[Fault]]:
    """(checks, failures) of a point: of several parts the check that failed, else the last; failures [{code, message}].

    parts: each run of the engine that the point's figures are of, on each host of many: {runtime_s, total, …}.
    """
    in_flight, bounds = workload["queue_depth"] * workload["workers"], block_bounds(workload)
    made: dict[str, Check] = {}
    for part in parts:
        for check in _all(workload, part, in_flight, bounds) if part.get("runtime_s") else []:
            if made.setdefault(check["name"], check)["ok"]:
                made[check["name"]] = check
    failed = [check for check in made.values() if not check["ok"] and check["name"] not in FLAGGED]
    return list(made.values()), [Failure("impossible_figures", words(check)).as_fault() for check in failed]


def _all(workload: Workload, part: Measured, in_flight: int, bounds: tuple[int, int]) -> list[Check]:
    made = checks(part.get("total", {}), part["runtime_s"], in_flight, bounds)
    # Where the bins are of completion alone, the mean of all may be above them.
    if "completion_percentiles" in part.get("flags", ()):
        made = [check for check in made if check["name"] != "bins_and_mean" or check["mean_ns"] < check["least_ns"]]
    return made + _reads(workload, part) + _mixture(workload, part) + _idle(workload, part)


def words(check: Check) -> str:
    """Why a check that failed cannot be true."""
    if check["name"] == "read_share":
        return f"{check['read_percent']:g} % of the I/Os were reads, but the workload's are {check['wanted_percent']} %: the engine did another workload."
    if check["name"] in ("mean_in_range", "bins_and_mean"):
        where = (
            "the least and the greatest latency" if check["name"] == "mean_in_range" else "the bins of the latencies"
        )
        return f"The mean latency is {check['mean_ns']:g} ns, but {where} allow {check['least_ns']:g} to {check['most_ns']:g}: one of them is wrong."
    if check["name"] == "littles_law":
        return (
            f"{check['in_flight']:g} I/Os were in flight on average by count and latency, but never more than {check['limit']:g} can have been: "
            "the engine lost count, or its clock stepped."
        )
    return (
        f"An I/O had {check['bytes_per_io']:g} bytes on average, but the workload's have {check['least_bytes']} to {check['most_bytes']}: "
        "the engine lost count, or did another workload."
    )
