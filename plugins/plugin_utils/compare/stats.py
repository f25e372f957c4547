# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The statistics of a comparison: studentised differences, correction for many points, drift, and how many repetitions it takes.

All in pure Python, all deterministic. Samples are logarithms, so that a difference of two of them is a ratio of what was measured.
The purpose of each method is in docs/methods.md; how often it is wrong, benchmarks/verdicts.py measures.
"""

from __future__ import annotations

import itertools
import math
import operator
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...module_utils.result.student import chi_square_quantile, t_quantile, t_tails

# The rate of errors of a whole comparison, and the complement of the intervals shown.
ALPHA = 0.05
# The level of a verdict at each look: who looks, runs as many more as advised, and looks again, is wrong in ALPHA of cases.
# Pocock's constant for two looks is 0.0294; the relabellings of few repetitions are stricter than their level, so that a little more will do.
LOOK = 0.032
LEAST_LEVEL = 1e-12
# A change of the size that a comparison says it could see is found in four of five cases at least, also where the noise has tails that Student's t
# does not know: reckoned with less, benchmarks/verdicts.md found 74 to 79 %.
POWER = 0.90
# From so many values on, this share at either end is left out of the centre of a side, see typical.
LEAST_TYPICAL = 10
TRIMMED = 0.2
# Standard deviation of the difference of two places, each anywhere in a bin, as a share of half the width of both bins together.
BIN_SCATTER = 1 / math.sqrt(6)
# So many relabellings are enumerated; of more, a sample is drawn, always the same one.
LARGEST_ENUMERATION = 3500
SAMPLED = 1999
# About so many of them show what a cell has to reach.
CRITICAL_SAMPLE = 500
SEED = 20260101
# More repetitions than these are not worth advising: less noise is.
MOST_REPETITIONS = 60
# The chance of a verdict after as many more as advised. benchmarks/verdicts.py shows how often that is kept.
ASSURANCE = 0.95
# So many values stand for the noise that few repetitions leave possible.
NODES = 9


# -- one point: how large is the difference, and how sure -------------------------------------------------------------


@dataclass(frozen=True)
class Shift:
    """How far the candidate is above the baseline (logarithms), its standard error, the degrees of freedom of that, and the uncertainty of bins.

    bins: half the width of the bins of both sides together, see reach; 0 for values that are not a place in a bin.
    """

    estimate: float
    error: float
    freedom: float
    bins: float = 0.0

    @property
    def p(self) -> float:
        """Two-sided p of Student's t test that there is no shift."""
        away = abs(self.estimate)
        if not self.error and away > self.bins:
            return 0.0
        whole = math.hypot(self.error, BIN_SCATTER * self.bins)
        scores = [away / whole] if whole else [0.0]
        if self.error:
            scores.append((away - self.bins) / self.error)
        return t_tails(max(scores), self.freedom)

    def interval(self, confidence: float = 1 - ALPHA) -> tuple[float, float]:
        """(low, high) that hold the true shift with this confidence."""
        away = reach(t_quantile((1 + confidence) / 2, self.freedom), self.error, self.bins)
        return self.estimate - away, self.estimate + away


def reach(score: float, error: float, bins: float) -> float:
    """How far an interval goes to either side, for a quantile of Student's t.

    Repetitions that scatter less than a bin is wide all fall into the same bins. Where in them they lie, no number of repetitions says: it is an error
    of its own, which adds to that of the mean as an independent one, and is never more than the bins are wide.
    """
    return min(score * math.hypot(error, BIN_SCATTER * bins), score * error + bins)


def apart(a: list[float], b: list[float]) -> Shift:
    """``b`` against ``a``, each of at least two values. The sides may differ in noise and in number.

    Source: Welch, The generalization of Student's problem when several different population variances are involved, 1947;
    degrees of freedom by Satterthwaite 1946.
    """
    parts = [statistics.variance(side) / len(side) for side in (a, b)]
    freedom = float(len(a) + len(b) - 2)
    if sum(parts):
        freedom = sum(parts) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (a, b)))
    return Shift(statistics.fmean(b) - statistics.fmean(a), math.sqrt(sum(parts)), freedom)


def typical(a: list[float], b: list[float]) -> Shift:
    """How far a typical value of ``b`` is above one of ``a``: the difference of their 20 % trimmed means.

    A side of which one in ten is far off has another mean, but nearly the same trimmed mean. Source: Yuen, The two-sample trimmed t for unequal population
    variances, 1974.
    """
    sides = [_trimmed(side) for side in (a, b)]
    whole = sum(error**2 for _mean, error, _freedom in sides)
    freedom = min(known for _mean, _error, known in sides)
    if whole:
        freedom = whole**2 / sum(error**4 / known for _mean, error, known in sides)
    return Shift(sides[1][0] - sides[0][0], math.sqrt(whole), freedom)


def typical_paired(differences: list[float]) -> Shift:
    """The 20 % trimmed mean of differences within rounds. Source: Tukey and McLaughlin 1963."""
    return Shift(*_trimmed(differences))


def _trimmed(values: list[float]) -> tuple[float, float, float]:
    """(trimmed mean, its standard error, degrees of freedom) of at least LEAST_TYPICAL values."""
    ordered, count = sorted(values), len(values)
    cut = math.floor(TRIMMED * count)
    kept = count - 2 * cut
    lowest, highest = ordered[cut], ordered[-cut - 1]
    winsorised = [min(max(value, lowest), highest) for value in ordered]
    error = math.sqrt((count - 1) * statistics.variance(winsorised) / (kept * (kept - 1)))
    return statistics.fmean(ordered[cut : count - cut]), error, kept - 1.0


def predicted(history: list[float], value: float) -> Shift:
    """``value``, one more run, against those before, at least two: how far off would a run lie with which nothing changed?

    The prediction interval of one observation, whose error is that of the runs themselves and of their mean. Source: Hahn and Meeker, Statistical
    Intervals, 1991, 4.7.
    """
    error = statistics.stdev(history) * math.sqrt(1 + 1 / len(history))
    return Shift(value - statistics.fmean(history), error, len(history) - 1.0)


def paired(differences: list[float]) -> Shift:
    """The mean of differences within rounds. Source: Student, The probable error of a mean, 1908."""
    count = len(differences)
    return Shift(statistics.fmean(differences), statistics.stdev(differences) / math.sqrt(count), count - 1.0)


def common_slope(series: list[list[tuple[float, float]]]) -> float:
    """The slope that several series [(time, value)] share, each around its own mean, by least squares; 0 where time stands still."""
    above = below = 0.0
    for points in series:
        middle, mean = (statistics.fmean(part) for part in zip(*points))
        above += sum((time - middle) * (value - mean) for time, value in points)
        below += sum((time - middle) ** 2 for time, _value in points)
    return above / below if below else 0.0


# -- inside a side: did it stand still --------------------------------------------------------------------------------


def trend(values: list[float]) -> tuple[float, float]:
    """(p, change): two-sided p that ``values``, in the order of time, have no linear trend, and how far the fitted line goes from first to last.

    Least squares, Student's t test of the slope. Three values or fewer show nothing: p is 1.
    """
    count = len(values)
    slope = common_slope([list(enumerate(values))])
    if count < 4:
        return 1.0, slope * (count - 1)
    middle, mean = (count - 1) / 2, statistics.fmean(values)
    left = sum((value - mean - slope * (place - middle)) ** 2 for place, value in enumerate(values))
    spread = (count**3 - count) / 12
    if left <= 1e-18 * sum((value - mean) ** 2 for value in values):
        return (0.0 if slope else 1.0), slope * (count - 1)
    return t_tails(slope / math.sqrt(left / (count - 2) / spread), count - 2), slope * (count - 1)


def memory(values: list[float]) -> float:
    """One-sided p that neighbours in time are no more alike than others, from the ratio of their squared differences to the squared deviations.

    Source: von Neumann 1941; its mean 2 and variance 4(n-2)/(n²-1) under independence, normal approximation. Fewer than 5 values: 1.
    """
    count, mean = len(values), statistics.fmean(values)
    whole = sum((value - mean) ** 2 for value in values)
    if count < 5 or not whole:
        return 1.0
    ratio = sum((late - early) ** 2 for early, late in zip(values, values[1:])) / whole
    score = (2 - ratio) / math.sqrt(4 * (count - 2) / (count**2 - 1))
    return statistics.NormalDist().cdf(-score)


# -- many points ------------------------------------------------------------------------------------------------------


def family(cells: list[Any], method: str) -> dict[str, Any]:
    """{p: [one a cell], critical: share}: the p of each cell, corrected for there being many.

    cells: [(a, b)], each a mapping of round (or run) to logarithm. The alternatives if nothing differed depend on ``method``:
    'groups': the labels baseline and candidate are dealt out again to whole rounds, at all cells alike; 'pairs': they are exchanged within rounds;
    'runs': so few cannot be dealt out, so the difference of the sides is replaced by differences in random directions, which is Student's t test.
    A cell's statistic is the share of its variance that the labels explain, studentised, which orders like |t|. A corrected p is the share of
    relabellings in which *any* cell not yet rejected reaches the observed share: the chance of one false alarm in the whole comparison
    stays below it, and metrics that say the same cost nothing. ``critical`` is the share that a cell must reach for a p of LOOK, None when these
    repetitions cannot give one; it is found on what is left when each group's mean is taken away.
    Sources: Westfall and Young, Resampling-Based Multiple Testing, 1993, step-down maxT; algorithm as in Ge, Dudoit and Speed 2003. Studentised
    relabelling: Janssen 1997. Rotation: Langsrud, Rotation tests, 2005.
    """
    if not cells:
        return {"p": [], "critical": None}
    rounds = [sorted({name for cell in cells for name in cell[side]}) for side in (0, 1)]
    counts = tuple(map(len, rounds))
    if method == "pairs":
        labellings = _exchanges(counts[0])
        samples = [[[_difference(cell, name) for name in rounds[0]]] for cell in cells]
        shares: Callable[[list[Any], tuple[Any, ...]], list[float]] = _paired_shares
    else:
        labellings = _rotations(*counts) if method == "runs" else _deals(*counts)
        samples = [[[values.get(name) for name in names] for values, names in zip(cell, rounds)] for cell in cells]
        shares = _rotated_shares if method == "runs" else _shares
    reached = [shares(_joined(sample), labellings) for sample in samples]
    order = sorted(range(len(cells)), key=lambda index: reached[index][0])
    corrected, most = [1.0] * len(cells), [0.0] * len(labellings)
    for index in order:
        most = list(map(max, most, reached[index]))
        # Equal but for rounding counts as reached.
        corrected[index] = sum(value >= reached[index][0] - 1e-12 for value in most) / len(labellings)
    floor = 0.0
    for index in reversed(order):
        floor = corrected[index] = max(floor, corrected[index])
    some = labellings[:: max(1, len(labellings) // CRITICAL_SAMPLE)]
    calm = [shares(_joined([_centred(group) for group in sample]), some) for sample in samples]
    highest = sorted((max(values) for values in zip(*calm)), reverse=True)
    allowed = math.floor(LOOK * len(some))
    critical = next(
        (value for value in reversed(highest[:allowed]) if sum(other >= value - 1e-12 for other in highest) <= allowed),
        None,
    )
    return {"p": corrected, "critical": critical}


@lru_cache(maxsize=8)
def _deals(count_a: int, count_b: int) -> tuple[tuple[int, ...], ...]:
    """Ways to give the label baseline (1) to count_a of all rounds, the true one first."""
    total = count_a + count_b
    true = (1,) * count_a + (0,) * count_b
    if math.comb(total, count_a) <= LARGEST_ENUMERATION:
        ways = [
            tuple(int(place in chosen) for place in range(total))
            for chosen in map(set, itertools.combinations(range(total), count_a))
        ]
        return (true, *(way for way in ways if way != true))
    generator = random.Random(SEED)  # noqa: S311 a sample, no secret
    return (true, *(tuple(generator.sample(true, total)) for _index in range(SAMPLED)))


@lru_cache(maxsize=8)
def _exchanges(count: int) -> tuple[Any, ...]:
    """Ways to exchange (-1) the labels within rounds, the true one first. The first round stays: exchanging all changes no share."""
    if 2 ** (count - 1) <= LARGEST_ENUMERATION:
        return tuple((1, *signs) for signs in itertools.product((1, -1), repeat=count - 1))
    generator = random.Random(SEED)  # noqa: S311
    return ((1,) * count, *((1, *generator.choices((1, -1), k=count - 1)) for _index in range(SAMPLED)))


@lru_cache(maxsize=8)
def _rotations(count_a: int, count_b: int) -> tuple[Any, ...]:
    """Directions at right angles to the mean, the one from baseline to candidate first, the others with no preference."""
    generator = random.Random(SEED)  # noqa: S311
    true = (1.0,) * count_a + (0.0,) * count_b
    return (true, *(tuple(generator.gauss(0, 1) for _run in true) for _index in range(SAMPLED)))


def _shares(values: list[Any], labellings: tuple[Any, ...]) -> list[Any]:
    """For each labelling the share of the variance of ``values`` (None: not measured) that is between the two groups it makes, studentised.

    Where the groups are of one size this is the squared correlation with the labels, t² / (t² + count - 2); else t is Welch's.
    """
    present = [int(value is not None) for value in values]
    count, known = sum(present), [value or 0.0 for value in _centred(values)]
    squares = [value * value for value in known]
    whole = sum(squares)
    if not whole:
        return [0.0] * len(labellings)
    if count == len(values) == 2 * sum(labellings[0]):
        # The sum of the other group is the same with the other sign, because all of them together are 0.
        factor = 4 / (count * whole)
        return [sum(map(operator.mul, labelling, known)) ** 2 * factor for labelling in labellings]
    shares = []
    for labelling in labellings:
        inside = sum(map(operator.mul, labelling, present))
        outside = count - inside
        if min(inside, outside) < 2:
            shares.append(0.0)
            continue
        total, within = sum(map(operator.mul, labelling, known)), sum(map(operator.mul, labelling, squares))
        noise = (within - total**2 / inside) / (inside * (inside - 1)) + (whole - within - total**2 / outside) / (
            outside * (outside - 1)
        )
        difference = total / inside + total / outside
        shares.append(difference**2 / (difference**2 + max(noise, 0.0) * (count - 2)))
    return shares


def _rotated_shares(values: list[Any], directions: tuple[Any, ...]) -> list[Any]:
    """The same for directions: the squared correlation of the values with each."""
    places = [place for place, value in enumerate(values) if value is not None]
    known = [value for value in _centred(values) if value is not None]
    whole = sum(value * value for value in known)
    shares = []
    for direction in directions:
        mine = [direction[place] for place in places]
        mean = statistics.fmean(mine)
        length = sum((part - mean) ** 2 for part in mine) * whole
        shares.append(sum(map(operator.mul, mine, known)) ** 2 / length if length else 0.0)
    return shares


def _paired_shares(differences: list[Any], labellings: tuple[Any, ...]) -> list[Any]:
    """The same for differences within rounds: how much of their squares their common shift makes up."""
    known = [value or 0.0 for value in differences]
    whole = sum(value * value for value in known) * sum(value is not None for value in differences)
    return (
        [sum(map(operator.mul, signs, known)) ** 2 / whole for signs in labellings]
        if whole
        else [0.0] * len(labellings)
    )


def _centred(values: list[float | None]) -> list[float | None]:
    known = [value for value in values if value is not None]
    mean = statistics.fmean(known) if known else 0.0
    return [None if value is None else value - mean for value in values]


def _joined(groups: list[Any]) -> list[Any]:
    return [value for group in groups for value in group]


def _difference(cell: tuple[dict[Any, float], dict[Any, float]], name: Any) -> float | None:
    return cell[1][name] - cell[0][name] if name in cell[0] and name in cell[1] else None


# -- what could have been seen, and what it would take ----------------------------------------------------------------


def share_of_level(critical: float | None, freedom: float, cells: int) -> float:
    """The level that each of the cells has when all of them together have LOOK: as the relabellings show it, evenly divided where they cannot."""
    if not critical:
        return LOOK / cells
    level = t_tails(math.sqrt(freedom * critical / max(1 - critical, 1e-15)), freedom)
    # Sides that hardly scatter have levels that no floating-point number beside 1 can express.
    return min(LOOK, max(level, LEAST_LEVEL))


def visible(error: float, freedom: float, each: float, bins: float = 0.0) -> float:
    """Smallest difference of logarithms that a comparison finds with POWER where the noise is normal, when it has to be found at the level ``each``.
    bins: see Shift.

    The usual two-term formula with Student's t in place of the normal quantiles. benchmarks/verdicts.py checks it by simulation.
    """
    return reach(t_quantile(1 - each / 2, freedom) + t_quantile(POWER, freedom), error, bins)


def same_sign(differences: list[float]) -> float:
    """Smallest difference of logarithms that gives all differences within rounds one sign; 0 where a verdict does not need that.

    So few rounds have a verdict only if all their differences have one sign (LOOK allows but that relabelling and its mirror image). One round that is
    far off then hides a change, whatever the scatter is.
    """
    if math.floor(LOOK * 2 ** len(differences)) > 2:
        return 0.0
    centre = statistics.median(differences)
    return max(abs(difference - centre) for difference in differences)


def repetitions_needed(
    estimate: float, scatters: list[tuple[float, float]], each: float, margin: float, count: int, bins: float = 0.0
) -> int | None:
    """Repetitions per side that bring a verdict with ASSURANCE; None where up to MOST_REPETITIONS do not.

    scatters: [(standard deviation, degrees of freedom it was estimated with)], one a side, or one of the differences within rounds. bins: see Shift.
    """
    return _needed(_Outlook(estimate, scatters, each, margin, count, bins, candidate=0))


def runs_needed(
    estimate: float, scatter: float, each: float, margin: float, count: int, bins: float = 0.0
) -> int | None:
    """Runs of a history that bring a verdict, see repetitions_needed; None where more runs do not help: a single run varies too much."""
    return _needed(_Outlook(estimate, [(scatter, count - 1.0)], each, margin, count, bins, candidate=1))


@dataclass(frozen=True)
class _Outlook:
    """How likely more repetitions bring a verdict: the difference becomes clear, or its interval fits into +-margin (all logarithms).

    Neither the true difference nor the noise is known, so the answer is of all that these repetitions leave possible: the noise has the distribution of
    a variance that was estimated so (chi-square), and the mean of all N repetitions has the mean that the first of them had, with the variance of one
    repetition times 1/count - 1/N around it. Source: assurance, O'Hagan, Stevens and Campbell 2005, with flat priors.

    candidate: 1 where one more run, which is measured already, is set against a history; its own noise does not become less.
    """

    estimate: float
    scatters: list[tuple[float, float]]
    each: float
    margin: float
    count: int
    bins: float
    candidate: int

    def variances(self) -> list[float]:
        """Equally likely values of the variance of all sides together."""
        parts = [scatter**2 for scatter, _freedom in self.scatters]
        whole = sum(parts)
        if not whole:
            return [0.0]
        freedom = whole**2 / sum(part**2 / known for part, (_scatter, known) in zip(parts, self.scatters))
        return [whole * freedom / chi_square_quantile((place + 0.5) / NODES, freedom) for place in range(NODES)]

    def freedom(self, number: int) -> float:
        parts = [scatter**2 for scatter, _freedom in self.scatters]
        return (number - 1) * sum(parts) ** 2 / sum(part**2 for part in parts) if sum(parts) else number - 1.0

    def chance(self, number: int, variances: list[float]) -> float:
        freedom = self.freedom(number)
        clear, inside = (t_quantile(1 - level / 2, freedom) for level in (self.each, 2 * min(self.each, ALPHA / 2)))
        chances = []
        for variance in variances:
            error = math.sqrt(variance * (self.candidate + 1 / number))
            moved = math.sqrt(variance * (1 / self.count - 1 / number))
            beyond = reach(clear, error, self.bins)
            within = min(self.margin - reach(inside, error, self.bins), beyond)
            chances.append(1 - self._between(beyond, moved) + self._between(within, moved))
        return statistics.fmean(chances)

    def _between(self, limit: float, moved: float) -> float:
        """The chance that the estimate is then at most this far from zero."""
        if limit <= 0 or not moved:
            return float(abs(self.estimate) < limit)
        normal = statistics.NormalDist(self.estimate, moved)
        return normal.cdf(limit) - normal.cdf(-limit)


def _needed(outlook: _Outlook) -> int | None:
    variances = outlook.variances()
    few, many = outlook.count, MOST_REPETITIONS
    if many <= few or outlook.chance(many, variances) < ASSURANCE:
        return None
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if outlook.chance(middle, variances) >= ASSURANCE else (middle, many)
    return many
