# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dip that an event leaves in a steady load: the longest stall, the I/Os that are missing, and when the old rate is back.

The load is an open loop: I/Os arrive at a rate, whether or not earlier ones have ended. So the counts of equal intervals before the event say what the counts
after it would have been. Arrivals by chance (Poisson) leave counts that vary; a device of its own may let them vary more. A count is too low only where
chance leaves one so low in less than one series out of 1/CHANCE.

An event may take effect later than it comes, as a dead path that is noticed late. Therefore all of the time after it is looked through.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import TypedDict

CHANCE = 0.001
# Fewer intervals before the event do not show a rate, nor how much its counts vary.
LEAST_BEFORE = 10
# The rate is judged over so many intervals that so many I/Os are expected in them: of fewer, none at all may be chance.
LEAST_EXPECTED = 20.0
# Stretches of so many lengths are judged, each four times as long as the one before.
SCALES = 4


class Dip(TypedDict, total=False):
    """Times are in seconds since the event. Without an effect there is no stall, no begin and no end; an end that did not come is absent.

    The stall is stall_least_s to stall_most_s long: its first and its last interval may have had a pause of their own. The begin and the end are known
    to resolution_s. made_up_ios: how many more than expected came after the end, which were waiting in the dip.
    """

    steady_iops: float
    resolution_s: float
    affected: bool
    stall_least_s: float
    stall_most_s: float
    stalled_at_s: float
    begun_s: float
    recovered_s: float
    missing_ios: float
    made_up_ios: float


def counts_of(rates: Iterable[tuple[float, float]], window: float) -> tuple[float, float, list[int]]:
    """(begin of the first window, true length of one, I/Os in one window after another) of the rates in the windows of a log, in ms.

    rates: (end of a window in ms, I/Os per second in it), of any number of workers and directions. Windows without I/O are missing, and each comes a
    little late, so that after some hundred they are one off an even grid: their order decides. An I/O stays in the window that it was counted in.
    """
    known = sorted(rates)
    if not known:
        return 0.0, window, []
    # The windows that follow each other show it; a stall is many windows long.
    apart = [
        later - end for (end, _rate), (later, _next) in zip(known, known[1:]) if round((later - end) / window) == 1
    ]
    true = statistics.fmean(apart) if apart else window
    shares, last = [0.0], known[0][0]
    for end, rate in known:
        missed = round((end - last) / true)
        if missed:
            shares += [0.0] * missed
            last = end
        shares[-1] += rate * window / 1000
    counts, total, before = [], 0.0, 0
    for share in shares:
        # Rounded over all of them, so that none is lost; one with I/O keeps some.
        total += share
        counts.append(max(round(total) - before, 1 if share else 0))
        before += counts[-1]
    return known[0][0] - true, true, counts


def dip(counts: Sequence[int], interval_s: float, event_s: float, uncertain_s: float = 0.0) -> Dip | None:
    """The dip of a series; None where too little is known of the rate before the event.

    counts: I/Os that were completed in one interval after another. event_s: when the event came, in seconds since the first interval began, known to
    uncertain_s. An interval that the event may have come in counts as one after it.
    """
    first = math.floor((event_s - uncertain_s) / interval_s)
    before, after = counts[: max(first, 0)], counts[max(first, 0) :]
    if len(before) < LEAST_BEFORE or not sum(before) or not after:
        return None
    mean = statistics.fmean(before)
    # Counts that vary more than chance lets them are taken as bundles of so many.
    bundle = max(1.0, statistics.variance(before, mean) / mean)
    width = max(1, math.ceil(LEAST_EXPECTED * bundle / mean))
    begin_s = first * interval_s - event_s
    known: Dip = {"steady_iops": mean / interval_s, "resolution_s": width * interval_s, "affected": False}
    stall = _stall(after, mean / bundle)
    low = _low(after, mean, len(before), bundle, width)
    if stall:
        place, length = stall
        known["stall_least_s"] = length * interval_s
        # The interval before the empty ones and the one behind them may have had I/O at their far ends alone.
        known["stall_most_s"] = (length + 2) * interval_s
        known["stalled_at_s"] = max(0.0, begin_s + place * interval_s)
        low.update(dict.fromkeys(range(place, place + length), width))
    if not low:
        return known
    start, end = min(low), max(low) + 1
    known["affected"] = True
    known["begun_s"] = max(0.0, begin_s + start * interval_s)
    known["missing_ios"] = max(0.0, mean * (end - start) - sum(after[start:end]))
    # It is back when so much has passed as the stretch that showed it low, and all of that together is not low. At the end of the series nothing shows that.
    rest = after[end:]
    whole, share = (sum(rest) + sum(before)) / bundle, len(rest) / (len(rest) + len(before))
    if len(rest) >= low[end - 1] and at_most(sum(rest) / bundle, whole, share) >= CHANCE:
        known["recovered_s"] = max(0.0, begin_s + end * interval_s)
        known["made_up_ios"] = max(0.0, sum(rest) - mean * len(rest))
    return known


def _stall(counts: Sequence[int], expected: float) -> tuple[int, int] | None:
    """(place, length) of the longest stretch of empty intervals that chance does not leave; None without any. expected: independent arrivals in one."""
    place, longest, begun = 0, 0, 0
    for index, count in enumerate(counts):
        if count:
            begun = index + 1
        elif index + 1 - begun > longest:
            place, longest = begun, index + 1 - begun
    by_chance = len(counts) * math.exp(-expected * longest)
    return (place, longest) if longest and by_chance < CHANCE else None


def _low(counts: Sequence[int], mean: float, before: int, bundle: float, width: int) -> dict[int, int]:
    """{interval: length of the stretch that shows it} of the stretches with fewer I/Os than chance leaves, without the ends that have their share.

    Short stretches show a stall to the interval. A rate that is a little too low is seen in longer ones alone, in which what is known counts as it should be,
    so that they do not make a short dip longer. before: how many intervals the mean is of; the rate is known from them no better than chance lets it be, which
    matters in stretches as long as they are.
    """
    low: dict[int, int] = {}
    expected = [float(count) for count in counts]
    lengths = [width * 4**step for step in range(SCALES) if width * 4**step <= len(counts)]
    for length in lengths:
        stretches = len(counts) - length + 1
        fresh: set[int] = set()
        for start in range(stretches):
            number = sum(expected[start : start + length])
            whole = number / bundle + mean * before / bundle
            if at_most(number / bundle, whole, length / (length + before)) * stretches * len(lengths) < CHANCE:
                own = [place for place in range(start, start + length) if expected[place] < mean]
                fresh |= set(range(own[0], own[-1] + 1))
        for place in fresh:
            low.setdefault(place, length)
            expected[place] = mean
    return low


def at_most(number: float, whole: float, share: float) -> float:
    """The probability that of so many independent arrivals so many or fewer fall into a share of the time (binomial distribution).

    Of arrivals by chance (Poisson) in two times, those in one of them are distributed so whatever the rate is.
    """
    number, whole = math.floor(number), math.floor(whole)
    if number >= whole * share:
        # Such a number is not low; so much is certain, and enough.
        return 1.0
    term = (
        math.lgamma(whole + 1)
        - math.lgamma(number + 1)
        - math.lgamma(whole - number + 1)
        + number * math.log(share)
        + (whole - number) * math.log1p(-share)
    )
    total, odds = 0.0, (1 - share) / share
    term = math.exp(term)
    # Below the mean each term is less than the one above it.
    while number >= 0 and term > 1e-9 * total:
        total += term
        term *= number / (whole - number + 1) * odds
        number -= 1
    return min(total, 1.0)
