# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One block of repetitions after another: how large a difference can be that time alone made.

No test separates the effects of time and of a change, but the effect of time has a size. A difference whose interval is, at its near end too, beyond all of
this is not time's:

- what machines do from one hour to the next with nothing changed: TIME_PERCENT where reference checks of every host that the I/O goes through were played
  on both sides, so that a machine that itself became slower would be seen; TIME_UNSEEN_PERCENT where they were not;
- how far the reference checks say that the machine itself changed;
- how far either side drifted while it was measured, going on until the other side: the fitted line from its first repetition to its last.

The disturbances of benchmarks/verdicts.py, which take up to 20 %, are the measure of the first; the same file simulates the rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Optional

from . import stats
from .nouns import Row

# How far the machine itself changed (a logarithm, 0 where nothing was seen) behind a figure; None where no one looked.
Machines = Callable[[Row], Optional[float]]
TIME_PERCENT = 25.0
TIME_UNSEEN_PERCENT = 50.0


def limit(ordered: list[list[float]], machine: float | None) -> float:
    """The difference of logarithms that time can explain. ordered: the values of each side, in the order of time. machine: see Machines."""
    allowed = math.log1p((TIME_UNSEEN_PERCENT if machine is None else TIME_PERCENT) / 100)
    drift = max(abs(stats.trend([math.log(value) for value in values])[1]) for values in ordered)
    return allowed + (machine or 0.0) + drift
