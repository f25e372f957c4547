# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Student's distribution and that of chi-square, in pure Python."""

from __future__ import annotations

import math
import statistics
from functools import lru_cache


def t_tails(score: float, freedom: float) -> float:
    """Two-sided p of Student's t with any degrees of freedom: the incomplete beta function of freedom / (freedom + score²)."""
    square = score * score
    if square < 1:
        # Near the middle the other argument is 1 but for rounding.
        return 1 - _beta_share(square / (freedom + square), 0.5, freedom / 2)
    return _beta_share(freedom / (freedom + square), freedom / 2, 0.5)


def _beta_share(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function, by its continued fraction. Source: Abramowitz and Stegun 26.5.8; evaluated as Lentz 1976."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_share(1 - x, b, a)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)) / a
    value, above, below = 1.0, 1.0, 0.0
    for step in range(1, 1000):
        half = step // 2
        ahead = -(a + half) * (a + b + half) if step % 2 else half * (b - half)
        part = ahead * x / ((a + step - 1) * (a + step))
        below = 1 / ((1 + part * below) or 1e-300)
        above = (1 + part / above) or 1e-300
        value *= above * below
        if abs(above * below - 1) < 1e-15:
            break
    return front / value


@lru_cache(maxsize=4096)
def t_quantile(probability: float, freedom: float) -> float:
    """Student's t below which this probability (> 0.5) lies.

    Newton's method from the normal quantile, which is lower: the tail is convex there, so that no step goes too far.
    """
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    score = statistics.NormalDist().inv_cdf(probability)
    for _step in range(200):
        density = math.exp(scale - (freedom + 1) / 2 * math.log1p(score * score / freedom))
        step = (t_tails(score, freedom) / 2 - (1 - probability)) / density
        score += step
        if abs(step) <= 1e-12 * score:
            break
    return score


def chi_square_quantile(probability: float, freedom: float) -> float:
    """Chi-square below which this probability lies, within 2 % for the middle three fifths and from 3 degrees of freedom on.

    Source: Wilson and Hilferty 1931.
    """
    score, part = statistics.NormalDist().inv_cdf(probability), 2 / (9 * freedom)
    return freedom * (1 - part + score * math.sqrt(part)) ** 3
