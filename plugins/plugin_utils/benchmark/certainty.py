# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How sure the answer of a search for a limit is: the probability that the load keeps the limit, and between which loads the limit is crossed.

A search takes the greatest load whose measurement is within the limit, so it prefers a load that was lucky. The loads beside it know better: a straight
line through the repetitions of the nearest ones (logarithms of latency over logarithms of load) says what the load keeps without its luck.
Source: Draper and Smith, Applied Regression Analysis, 1998, 1.4 and 3.2 (inverse regression). How often it is right is
measured by tests/unit/benchmark/test_certainty.py.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from ...module_utils.result.student import t_quantile, t_tails

CONFIDENCE = 0.95
# The line is laid through so many loads: over all loads, latency is not a straight line. With fewer than these there is no answer.
NEAREST = 4
# So finely the crossing is looked for, as a share of a load, and no further away than this factor beyond the nearest loads.
FINENESS, FURTHEST = 0.005, 2.0


@dataclass(frozen=True)
class Certainty:
    """probability: that the load keeps the limit. low, high: loads between which it is crossed, None: nothing measured bounds it on that side."""

    probability: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Line:
    """A fitted line: value and slope at the middle, the variance of one repetition, its degrees of freedom, and how much the loads spread."""

    middle: float
    value: float
    slope: float
    variance: float
    freedom: int
    count: int
    spread: float

    def at(self, place: float) -> tuple[float, float]:
        """(value, standard error) of the line there."""
        away = place - self.middle
        return self.value + self.slope * away, math.sqrt(self.variance * (1 / self.count + away * away / self.spread))


def certainty(latencies: dict[float, list[float]], limit: float, load: float) -> Certainty | None:
    """Of ``load``, whose repetitions are one of ``latencies`` {load: [latency of a repetition]}; None where too few loads were measured."""
    if min(value for values in latencies.values() for value in values) <= 0:
        return None
    nearest = sorted(latencies, key=lambda other: abs(math.log(other / load)))[:NEAREST]
    line = _line([(math.log(other), [math.log(value) for value in latencies[other]]) for other in sorted(nearest)])
    if line is None:
        return None
    value, error = line.at(math.log(load))
    distance = math.log(limit) - value
    tail = t_tails(distance / error, line.freedom) / 2 if error else (0.0 if distance else 0.5)
    ends = (math.log(min(nearest) / FURTHEST), math.log(max(nearest) * FURTHEST))
    low, high = _crossing(line, math.log(limit), ends)
    return Certainty(
        1 - tail if distance >= 0 else tail,
        None if low is None else math.exp(low),
        None if high is None else math.exp(high),
    )


def _line(points: list[tuple[float, list[float]]]) -> Line | None:
    """Least squares through all repetitions. Where the loads lie off the line by more than their repetitions scatter, that is the noise."""
    every = [(place, value) for place, values in points for value in values]
    if len(points) < NEAREST:
        return None
    count, freedom = len(every), len(every) - 2
    middle, mean = (statistics.fmean(part) for part in zip(*every))
    spread = sum((place - middle) ** 2 for place, _value in every)
    slope = sum((place - middle) * (value - mean) for place, value in every) / spread
    left = sum((value - mean - slope * (place - middle)) ** 2 for place, value in every)
    off = sum(
        len(values) * (statistics.fmean(values) - mean - slope * (place - middle)) ** 2 for place, values in points
    )
    return Line(middle, mean, slope, max(left / freedom, off / (len(points) - 2)), freedom, count, spread)


def _crossing(line: Line, limit: float, ends: tuple[float, float]) -> tuple[float | None, float | None]:
    """The places at which the line may cross the limit; None where it may still do so at the end of what is looked at."""
    reach = t_quantile((1 + CONFIDENCE) / 2, line.freedom)

    def below(place: float, sign: int) -> bool:
        value, error = line.at(place)
        return value + sign * reach * error <= limit

    steps = math.ceil((ends[1] - ends[0]) / FINENESS)
    places = [ends[0] + (ends[1] - ends[0]) * step / steps for step in range(steps + 1)]
    open_places = [place for place in places if below(place, -1) and not below(place, 1)]
    if not open_places:
        # Nothing scatters: two neighbouring places have the crossing between them.
        first = next((place for place in places if not below(place, 1)), None)
        return first, first
    low, high = open_places[0], open_places[-1]
    return (None if low == places[0] else low), (None if high == places[-1] else high)
