# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The statistics of a comparison: rank tests, their confidence intervals, correction for many points, and how many repetitions it takes.

All in pure Python, all deterministic. Samples are logarithms, so that a difference of two of them is a ratio of what was measured.
What each method is for, and how often it is wrong, is measured in docs/comparison.md.
"""

from __future__ import annotations

import itertools
import math
import operator
import random
import statistics
from functools import lru_cache

ALPHA = 0.05
POWER = 0.80
# Above this many values the exact distribution of the ranks is replaced by the normal one; the two then differ by less than 0.001.
LARGEST_EXACT = 60
# So many relabellings are enumerated; of more, a sample is drawn, always the same one.
LARGEST_ENUMERATION = 3500
SAMPLED = 1999
# About so many of them tell what a cell has to reach.
CRITICAL_SAMPLE = 500
SEED = 20260101
# More repetitions than these are not worth advising: less noise is.
MOST_REPETITIONS = 100


# -- one point: is there a difference, and how large ------------------------------------------------------------------


def mann_whitney(a: list, b: list) -> float:
    """Two-sided p of the Mann-Whitney U test that ``a`` and ``b`` come from one distribution.

    Exact, ties included: the share of all ways to deal the ranks out to both groups that lie at least as far from the middle.
    Normal approximation with correction for ties and continuity above LARGEST_EXACT values.
    Source: Mann and Whitney 1947; ties by midranks as in Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, chapter 4.
    """
    total = len(a) + len(b)
    doubled = _doubled_ranks([*a, *b])
    # Twice the distance of the rank sum of a from its mean.
    distance = abs(sum(doubled[: len(a)]) - len(a) * (total + 1))
    if total > LARGEST_EXACT:
        ties = sum(count**3 - count for count in _counts(doubled))
        deviation = math.sqrt(len(a) * len(b) / 12 * (total + 1 - ties / (total * (total - 1))))
        return _normal_tails((distance / 2 - 0.5) / deviation) if deviation else 1.0
    ways = _subset_sums(tuple(sorted(doubled)), len(a))
    extreme = sum(count for place, count in ways.items() if abs(place - len(a) * (total + 1)) >= distance)
    return extreme / math.comb(total, len(a))


def signed_rank(differences: list) -> float:
    """Two-sided p of Wilcoxon's signed-rank test that paired differences are symmetric about 0; zeros are left out. Exact, ties included.

    Normal approximation with correction for ties and continuity above LARGEST_EXACT pairs. Source: Wilcoxon 1945; Hollander et al., chapter 3.
    """
    kept = [value for value in differences if value]
    count = len(kept)
    doubled = _doubled_ranks([abs(value) for value in kept])
    distance = abs(sum(rank if value > 0 else -rank for rank, value in zip(doubled, kept)))
    if count > LARGEST_EXACT:
        ties = sum(many**3 - many for many in _counts(doubled))
        deviation = math.sqrt(count * (count + 1) * (2 * count + 1) / 24 - ties / 48)
        return _normal_tails((distance / 4 - 0.5) / deviation)
    # Any subset of the ranks may be those that carry a plus.
    ways, whole = _subset_sums(tuple(sorted(doubled))), sum(doubled)
    return sum(many for place, many in ways.items() if abs(2 * place - whole) >= distance) / 2**count


def shift(a: list, b: list) -> dict:
    """How far ``b`` lies above ``a``: {estimate, low, high, confidence}, by Hodges and Lehmann.

    The estimate is the median of all differences b - a; low and high are those of them that the Mann-Whitney test does not
    reject at ALPHA, so the interval keeps its confidence whatever the distribution and leaves 0 out when the test rejects it.
    Low and high are absent when so few values cannot give that confidence. Source: Hodges and Lehmann 1963; Moses, in Hollander et al., chapter 4.
    """
    return _interval(sorted(late - early for early in a for late in b), _rank_sum_tails(len(a), len(b)))


def paired_shift(differences: list) -> dict:
    """The same for paired differences: from their pairwise means (Walsh averages) and the signed-rank test. Source: Tukey, in Hollander et al., chapter 3."""
    means = sorted(
        (differences[i] + differences[j]) / 2 for i in range(len(differences)) for j in range(i, len(differences))
    )
    return _interval(means, _signed_rank_tails(len(differences)))


def _interval(ordered: list, tails: tuple) -> dict:
    """Hodges-Lehmann estimate and interval of ordered differences; ``tails`` are the cumulative probabilities of their rank statistic."""
    found = {"estimate": statistics.median(ordered)}
    # The largest number of differences that may be cut off at each end.
    cut = sum(1 for tail in tails if tail <= ALPHA / 2)
    if cut:
        found.update(low=ordered[cut - 1], high=ordered[len(ordered) - cut], confidence=1 - 2 * tails[cut - 1])
    return found


@lru_cache(maxsize=256)
def _rank_sum_tails(count_a: int, count_b: int) -> tuple:
    """P(U <= 0), P(U <= 1) … up to the middle, without ties."""
    if count_a + count_b > LARGEST_EXACT:
        deviation = math.sqrt(count_a * count_b * (count_a + count_b + 1) / 12)
        return tuple(
            _normal_tails((count_a * count_b / 2 - u - 0.5) / deviation) / 2 for u in range(count_a * count_b // 2)
        )
    ways = _subset_sums(tuple(range(1, count_a + count_b + 1)), count_a)
    lowest, total = count_a * (count_a + 1) // 2, math.comb(count_a + count_b, count_a)
    return tuple(
        value / total for value in itertools.accumulate(ways.get(lowest + u, 0) for u in range(count_a * count_b // 2))
    )


@lru_cache(maxsize=256)
def _signed_rank_tails(count: int) -> tuple:
    """P(W <= 0), P(W <= 1) … up to the middle, without ties."""
    whole = count * (count + 1) // 2
    if count > LARGEST_EXACT:
        deviation = math.sqrt(whole * (2 * count + 1) / 12)
        return tuple(_normal_tails((whole / 2 - w - 0.5) / deviation) / 2 for w in range(whole // 2))
    ways = _subset_sums(tuple(range(1, count + 1)))
    return tuple(value / 2**count for value in itertools.accumulate(ways.get(w, 0) for w in range(whole // 2)))


@lru_cache(maxsize=1024)
def _subset_sums(weights: tuple, size: int | None = None) -> dict:
    """{sum: number of subsets of the weights that have it}, of subsets of one size or of all.

    The numbers are the digits of one large integer, so that adding a weight is a shift and an addition.
    """
    digit_bytes = len(weights) // 8 + 1
    packed = [1] + [0] * len(weights)
    for taken, weight in enumerate(weights, 1):
        for number in range(taken, 0, -1):
            packed[number] += packed[number - 1] << (weight * digit_bytes * 8)
    digits = (sum(packed) if size is None else packed[size]).to_bytes((sum(weights) + 1) * digit_bytes, "little")
    ways = (
        (place, int.from_bytes(digits[place * digit_bytes : (place + 1) * digit_bytes], "little"))
        for place in range(sum(weights) + 1)
    )
    return {place: many for place, many in ways if many}


def _doubled_ranks(values: list) -> list:
    """Twice the rank of each value, so that the middle rank of tied values is whole."""
    ordered = sorted(values)
    first: dict = {}
    last: dict = {}
    for place, value in enumerate(ordered, 1):
        first.setdefault(value, place)
        last[value] = place
    return [first[value] + last[value] for value in values]


def _counts(values: list) -> list:
    return [len(list(group)) for _value, group in itertools.groupby(sorted(values))]


def _normal_tails(score: float) -> float:
    return min(1.0, math.erfc(score / math.sqrt(2)))


# -- many points ------------------------------------------------------------------------------------------------------


def family(cells: list, paired: bool) -> dict:
    """{p: [one a cell], critical: share}: the p of each cell, corrected for there being many.

    cells: [(a, b)], each a mapping of round to logarithm. The labels baseline and candidate are dealt out anew to whole rounds, at all
    cells alike (paired: exchanged within each round). A cell's statistic is the share of its variance that the labels explain, which orders like
    Student's |t|. A corrected p is the share of relabellings in which *any* cell not yet rejected reaches the observed share: the chance of one
    false alarm in the whole comparison stays below it, and metrics that say the same cost nothing. ``critical`` is the share that a
    cell must reach for a p of ALPHA, None when these repetitions cannot give one; it is found on what is left when each group's mean is taken away.
    Source: Westfall and Young, Resampling-Based Multiple Testing, 1993, step-down maxT; algorithm as in Ge, Dudoit and Speed 2003.
    """
    if not cells:
        return {"p": [], "critical": None}
    rounds = [sorted({name for cell in cells for name in cell[side]}) for side in (0, 1)]
    if paired:
        labellings = _exchanges(len(rounds[0]))
        samples = [[[_difference(cell, name) for name in rounds[0]]] for cell in cells]
        shares = _paired_shares
    else:
        labellings = _deals(len(rounds[0]), len(rounds[1]))
        samples = [[[values.get(name) for name in names] for values, names in zip(cell, rounds)] for cell in cells]
        shares = _shares
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
    allowed = math.floor(ALPHA * len(some))
    critical = next(
        (value for value in reversed(highest[:allowed]) if sum(other >= value - 1e-12 for other in highest) <= allowed),
        None,
    )
    return {"p": corrected, "critical": critical}


@lru_cache(maxsize=8)
def _deals(count_a: int, count_b: int) -> tuple:
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
def _exchanges(count: int) -> tuple:
    """Ways to exchange (-1) the labels within rounds, the true one first. The first round stays: exchanging all changes no share."""
    if 2 ** (count - 1) <= LARGEST_ENUMERATION:
        return tuple((1, *signs) for signs in itertools.product((1, -1), repeat=count - 1))
    generator = random.Random(SEED)  # noqa: S311
    return ((1,) * count, *((1, *generator.choices((1, -1), k=count - 1)) for _index in range(SAMPLED)))


def _shares(values: list, labellings: tuple) -> list:
    """For each labelling the share of the variance of ``values`` (None: not measured) that lies between the two groups it makes."""
    present = [int(value is not None) for value in values]
    count, known = sum(present), [value or 0.0 for value in _centred(values)]
    whole = sum(value * value for value in known)
    if not whole:
        return [0.0] * len(labellings)
    # The sum of the other group is the same with the other sign, because all of them together are 0.
    if count == len(values):
        inside = sum(labellings[0])
        factor = count / (inside * (count - inside) * whole)
        return [sum(map(operator.mul, labelling, known)) ** 2 * factor for labelling in labellings]
    insides = [sum(map(operator.mul, labelling, present)) for labelling in labellings]
    return [
        sum(map(operator.mul, labelling, known)) ** 2 * count / (inside * (count - inside) * whole)
        if 0 < inside < count
        else 0.0
        for labelling, inside in zip(labellings, insides)
    ]


def _paired_shares(differences: list, labellings: tuple) -> list:
    """The same for differences within rounds: how much of their squares their common shift makes up."""
    known = [value or 0.0 for value in differences]
    whole = sum(value * value for value in known) * sum(value is not None for value in differences)
    return (
        [sum(map(operator.mul, signs, known)) ** 2 / whole for signs in labellings]
        if whole
        else [0.0] * len(labellings)
    )


def _centred(values: list) -> list:
    known = [value for value in values if value is not None]
    mean = statistics.fmean(known) if known else 0.0
    return [None if value is None else value - mean for value in values]


def _joined(groups: list) -> list:
    return [value for group in groups for value in group]


def _difference(cell: tuple, name) -> float | None:
    return cell[1][name] - cell[0][name] if name in cell[0] and name in cell[1] else None


# -- what could have been seen, and what it would take ----------------------------------------------------------------


def noise(a: list, b: list) -> float:
    """Standard deviation within the groups, pooled."""
    squares = sum((value - statistics.fmean(group)) ** 2 for group in (a, b) for value in group)
    return math.sqrt(squares / (len(a) + len(b) - 2))


def critical_t(share: float, freedom: int) -> float:
    """Student's t that belongs to a share of explained variance: t² = df · r² / (1 - r²)."""
    return math.sqrt(freedom * share / max(1 - share, 1e-15))


@lru_cache(maxsize=4096)
def threshold(each: float, count_a: int, count_b: int, paired: bool) -> float:
    """The Student's t that a difference must pass: at ``each``, its share of ALPHA, or at the level that so few ranks can give, if that is stricter."""
    tails = _signed_rank_tails(count_a) if paired else _rank_sum_tails(count_a, count_b)
    reachable = [tail for tail in tails if tail <= ALPHA / 2]
    if not reachable:
        return math.inf
    return t_quantile(1 - min(each / 2, reachable[-1]), degrees(count_a, count_b, paired))


def visible(scatter: float, passed: float, count_a: int, count_b: int, paired: bool) -> float:
    """Smallest difference of logarithms that a comparison finds with POWER, when it has to pass the threshold ``passed``.

    The usual two-term formula with Student's t in place of the normal quantiles, widened by what ranks cost against means (their
    asymptotic efficiency is 3/pi under normal noise). benchmarks/verdicts.py checks it by simulation.
    """
    return (
        (passed + t_quantile(POWER, degrees(count_a, count_b, paired)))
        * scatter
        * _root(count_a, count_b, paired)
        * math.sqrt(math.pi / 3)
    )


def repetitions_needed(
    estimate: float, scatter: float, each: float, margin: float, count: int, paired: bool
) -> int | None:
    """Repetitions a side with which a verdict is to be expected with POWER, if the true difference is the estimate; None above MOST_REPETITIONS.

    Either the difference becomes visible, or its interval fits into +-margin (all logarithms).
    """

    def enough(number: int) -> bool:
        seen, fitting = (
            visible(scatter, threshold(level, number, number, paired), number, number, paired)
            for level in (each, ALPHA)
        )
        return abs(estimate) >= seen or abs(estimate) + fitting <= margin

    few, many = count, MOST_REPETITIONS
    if many <= few or not enough(many):
        return None
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


def degrees(count_a: int, count_b: int, paired: bool) -> int:
    return count_a - 1 if paired else count_a + count_b - 2


def _root(count_a: int, count_b: int, paired: bool) -> float:
    return math.sqrt(1 / count_a) if paired else math.sqrt(1 / count_a + 1 / count_b)


def t_tails(score: float, freedom: int) -> float:
    """Two-sided p of Student's t. Source: Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(abs(score) / math.sqrt(freedom))
    cosine, term, series = math.cos(angle), 1.0, 0.0
    if freedom % 2:
        term = cosine
        for step in range(1, freedom - 1, 2):
            series += term
            term *= cosine**2 * (step + 1) / (step + 2)
        return max(0.0, 1 - 2 / math.pi * (angle + math.sin(angle) * series))
    for step in range(0, freedom - 1, 2):
        series += term
        term *= cosine**2 * (step + 1) / (step + 2)
    return max(0.0, 1 - math.sin(angle) * series)


@lru_cache(maxsize=4096)
def t_quantile(probability: float, freedom: int) -> float:
    """Student's t below which this probability (> 0.5) lies, by bisection."""
    low, high = 0.0, 1e6
    while high - low > 1e-9 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tails(middle, freedom) > 2 * (1 - probability) else (low, middle)
    return high
