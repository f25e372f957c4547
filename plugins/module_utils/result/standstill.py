# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether everything stood still while a point was measured: the engine, its machine, the path to the device or the device itself.

The rates of such a point are of the standstill, and nothing else in it shows that: the engine ends in time and reports no error. The sign is a stretch in
which no I/O was completed at all. Two kinds of evidence of the longest one are judged by the same rule:

- *windows*: the measured time cut into short windows, and in which of them I/O was completed (fio's log of IOPS, the series of diskspd);
- *latency*: of engines that leave no windows. Whoever waits for an answer completes nothing else, so the longest answer is the longest stretch.

The windows see nothing of a standstill that ended just when the measured time began (in the ramp), but the I/Os that waited in it are counted with all of
their latency. That is judged by latency, too, where it is certain that part of it lies before the measured time.

A stretch counts as a standstill when it is at least LEAST_SHARE of the run time and at least LEAST_S, and when as many answers as there were leave so
long a stretch by chance in less than one run out of 1/CHANCE. A device that answers once in a while is not standing still. In a run shorter than
TRIAL_S the stretch has to be the whole run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from .schema import Check, Figures, Stall, Windows

LEAST_SHARE = 0.1
# For shorter than that a machine with other things to do stands still by itself.
LEAST_S = 0.5
# In a shorter run, which is a trial, one such pause is a good part already: there, only nothing at all counts.
TRIAL_S = 6.0
CHANCE = 0.001
# The run time is cut into so many windows, but none is shorter than WINDOW_LEAST_MS.
WINDOWS = 200
WINDOW_LEAST_MS = 20
# A stretch without I/O is a stall from this length and two windows on. Only the longest stretches are kept.
STALL_LEAST_S = 0.1
MOST_STRETCHES = 100
# Fewer are not evidence: the shortest stretch that counts would be a window or two.
WINDOWS_LEAST = 20


def window_ms(runtime_s: float) -> int:
    """How long the windows of a measurement of runtime_s are."""
    return max(WINDOW_LEAST_MS, math.ceil(1000 * runtime_s / WINDOWS))


def seen(moments_ms: Iterable[float], window: float) -> Windows | None:
    """The content of a log: {window_s, busy, longest_s, longest_at_s, first_s, last_s, stretches_s}, or None when it is empty.

    moments_ms: the ends of windows in which I/O was completed, of all workers and directions together, in any order; windows without I/O are not
    among them. A log that was itself held up has the window after the stop longer by it, which is a stretch as well. busy: how many windows had I/O.
    """
    ends = sorted(moments_ms)
    if not ends:
        return None
    # One of several workers that log at nearly the same moment is enough.
    busy = len({int(moment // window) for moment in ends})
    gaps = [(later - earlier, earlier) for earlier, later in zip(ends, ends[1:])]
    longest, begun = max(gaps, default=(0, ends[0]))
    long = sorted((gap - window for gap, _begun in gaps if gap - window >= window), reverse=True)
    return {
        "window_s": window / 1000,
        "busy": busy,
        "longest_s": round(max(longest - window, 0) / 1000, 3),
        "longest_at_s": round(begun / 1000, 3),
        "first_s": ends[0] / 1000,
        "last_s": ends[-1] / 1000,
        "stretches_s": [round(gap / 1000, 3) for gap in long[:MOST_STRETCHES]],
    }


def of_windows(windows: Windows | None, runtime_s: float, answers: float, pause_s: float = 0) -> Check | None:
    """The check of one run of the engine, see ``check``; None when its windows are not evidence. pause_s: what the workload itself waits in between.

    windows: as ``seen`` makes it. The run time before the first and after the last window with I/O is a stretch like any other.
    answers: I/Os over how many of them were on their way at once. Those of one window count once, or one burst would make every pause suspicious;
    but some tens are known to be some tens even when all of them came in one window, after which nothing came any more.
    """
    if windows is None or windows["window_s"] * WINDOWS_LEAST > runtime_s:
        return None
    window_s = windows["window_s"]
    outside = runtime_s - (windows["last_s"] - windows["first_s"] + window_s)
    longest_s = max(windows["longest_s"], outside) - pause_s
    return check(longest_s, runtime_s, max(windows["busy"], min(answers, WINDOWS_LEAST)), 2 * window_s)


def stalls(windows: Windows | None, runtime_s: float, answers: float, pause_s: float = 0) -> Stall | None:
    """{total_s, longest_s, running_percent} of the stretches without I/O in one run of the engine; None without windows that are fine enough.

    Arguments as of ``of_windows``. A stretch that so few answers may leave by chance does not count. running_percent: the rest of the run time.
    """
    if windows is None or "stretches_s" not in windows or windows["window_s"] * WINDOWS_LEAST > runtime_s:
        return None
    window_s = windows["window_s"]
    outside = runtime_s - (windows["last_s"] - windows["first_s"] + window_s)
    answers = max(windows["busy"], min(answers, WINDOWS_LEAST))
    stretches = [stretch - pause_s for stretch in (*windows["stretches_s"], outside)]
    counted = [
        stretch
        for stretch in stretches
        if stretch >= max(STALL_LEAST_S, 2 * window_s) and _chance(stretch, runtime_s, answers) < CHANCE
    ]
    return of_total(sum(counted), max(counted, default=0.0), runtime_s)


def of_total(total_s: float, longest_s: float, runtime_s: float) -> Stall:
    return {
        "total_s": round(min(total_s, runtime_s), 3),
        "longest_s": round(min(longest_s, runtime_s), 3),
        "running_percent": round(100 * max(0.0, 1 - total_s / runtime_s), 3),
    }


def of_latency(total: Figures, runtime_s: float, in_flight: int) -> Check | None:
    """The same by the longest I/O of ``total`` (a direction of a result), of which so many are on their way at once; None when nothing shows it."""
    if not total.get("ios") or "latency_max_ns" not in total:
        return None
    longest_s = total["latency_max_ns"] / 1e9
    bins = total.get("histogram", {}).get("bins")
    if bins:
        # One answer that got lost is not a standstill while others come in: all that were on their way have to be as late.
        # The last bin holds all that is longer than it.
        least = min(total["latency_max_ns"] / 2, max(map(int, bins)))
        late = sum(number for edge, number in bins.items() if int(edge) >= least)
        if 2 * late < in_flight:
            longest_s = 0.0
    # As if those on their way at once came back at once, which makes answers as rare as they can be.
    return check(longest_s, runtime_s, total["ios"] / in_flight, 0)


def longest(total: Figures, runtime_s: float, in_flight: int) -> float | None:
    """The longest stretch without I/O by the latencies, 0 where it is none that ``stalls`` counts; None where they cannot tell.

    Of several that are on their way at once only a histogram shows whether all of them were late. Arguments as of ``of_latency``.
    """
    by_latency = of_latency(total, runtime_s, in_flight)
    if by_latency is None or not (in_flight == 1 or total.get("histogram", {}).get("bins")):
        return None
    longest_s = min(by_latency["longest_s"], runtime_s)
    counts = longest_s >= STALL_LEAST_S and _chance(longest_s, runtime_s, total["ios"] / in_flight) < CHANCE
    return round(longest_s, 3) if counts else 0.0


def before(total: Figures, runtime_s: float, in_flight: int) -> Check | None:
    """The check of a standstill that lay before the measured time and is in its latencies; None when there was none. Arguments as of ``of_latency``.

    It is certain where an I/O took longer than the run, and where all latencies together are longer than the time of all places in flight (Little's law, see
    physics.py): what is beyond that was waited before. Half of LEAST_SHARE is asked for, as some I/Os of the end are not counted. As an answer may take
    longer than the run here, its chance is that of answers that come independently (exponential times).
    """
    by_latency = of_latency(total, runtime_s, in_flight)
    if by_latency is None or by_latency["ok"]:
        return None
    answers, waited_s = total["ios"] / in_flight, total["ios"] * total.get("latency_mean_ns", 0) / 1e9 / in_flight
    certain = by_latency["longest_s"] >= runtime_s or waited_s >= (1 + LEAST_SHARE / 2) * runtime_s
    chance = (answers + 1) * math.exp(-answers * by_latency["longest_s"] / runtime_s)
    return by_latency if certain and chance < CHANCE else None


def _chance(longest_s: float, runtime_s: float, answers: float) -> float:
    """The probability that so many random moments leave a stretch of this length."""
    return float((answers + 1) * (1 - min(max(longest_s / runtime_s, 0), 1)) ** answers)


def check(longest_s: float, runtime_s: float, answers: float, coarse_s: float) -> Check:
    """{name: standstill, ok, longest_s, limit_s} as in ``checks`` of a result.

    answers: at how many moments I/O was completed. coarse_s: by how much the stretch may have been longer than what was seen.

    Of n moments that fall by chance into a time, the longest stretch between them and its ends is the share x or more of it with a probability of at
    most (n + 1) (1 - x)^n: each of the n + 1 stretches is with (1 - x)^n (H. A. David, Order Statistics, on spacings of uniform variables).
    """
    limit_s = runtime_s if runtime_s < TRIAL_S else max(LEAST_SHARE * runtime_s, LEAST_S)
    stood = longest_s >= max(limit_s - coarse_s, LEAST_S) and _chance(longest_s, runtime_s, answers) < CHANCE
    return {
        "name": "standstill",
        "ok": not stood,
        "longest_s": round(max(longest_s, 0), 3),
        "limit_s": round(limit_s, 3),
    }
