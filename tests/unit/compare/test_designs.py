# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The promises of each design, by small simulations with printed seeds: no alarm for what time does, always one for half the speed.

The disturbances and the designs are those of benchmarks/verdicts.py, which prints the large tables of benchmarks/verdicts.md.
"""

from __future__ import annotations

import importlib.util
import math
import random
import sys
import types

import pytest
from places import ROOT

SEED = 38
TRIALS = 25
DESIGNS = {
    "in turns, drawn order, 6 rounds": None,
    "in turns, drawn order, 10 rounds": None,
    "one run of 5 after 8": ("A" * 40 + "B" * 5, 5),
    "one block of 4 after one of 4": ("A" * 4 + "B" * 4, 0),
}
# With one run of 4 repetitions a side; in turns, 4 are too few for pairs, and are compared side by side.
HALF_THE_SPEED = {
    "4 rounds in turns": ("ABBABAAB", 0),
    "6 rounds in turns": ("ABBABAABABBA", 0),
    "one run of 4 after 8": ("A" * 32 + "B" * 4, 4),
    "one block of 4 after one of 4": ("A" * 4 + "B" * 4, 0),
}


@pytest.fixture(scope="module")
def simulated():
    """benchmarks/verdicts.py; what it imports to find the checkout is there already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "conftest", types.ModuleType("conftest"))
        patch.setattr(sys, "path", list(sys.path))
        spec = importlib.util.spec_from_file_location("verdicts_benchmark", ROOT / "benchmarks" / "verdicts.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def compared(simulated, noise, series, labels, run_length, slower_percent=0):
    blocks = not run_length and labels == "".join(sorted(labels))
    values = series(len(labels), run_length or (len(labels) // 2 if blocks else len(labels)))
    shift = math.log1p(-slower_percent / 100)
    changed = [value + shift * (label == "B") for value, label in zip(values, labels)]
    return simulated.ordered(changed, labels, run_length=run_length)


@pytest.mark.parametrize("design", DESIGNS)
def test_what_time_does_is_no_alarm(simulated, design):
    """At most 5 % of all disturbances together, and none of them has many of the alarms."""
    alarms = {}
    for name in simulated.disturbances(random.Random()):  # noqa: S311 noise, no secret
        seed = f"{SEED} {design} {name}"
        noise = random.Random(seed)  # noqa: S311
        series = simulated.disturbances(noise)[name]
        alarms[seed] = 0
        for _trial in range(TRIALS):
            labels, run_length = DESIGNS[design] or (simulated.drawn(noise, int(design.split()[-2])), 0)
            alarms[seed] += simulated.alarm(compared(simulated, noise, series, labels, run_length))
    print(alarms)
    assert sum(alarms.values()) <= 0.05 * TRIALS * len(alarms)
    # Of 25 with a chance of 5 % each, more than 4 are alarms in fewer than one cell of 100.
    assert max(alarms.values()) <= 4


@pytest.mark.parametrize("design", HALF_THE_SPEED)
def test_half_the_speed_is_always_an_alarm(simulated, design):
    labels, run_length = HALF_THE_SPEED[design]
    for name in simulated.disturbances(random.Random()):  # noqa: S311 noise, no secret
        seed = f"{SEED} half {design} {name}"
        print(f"seed {seed}")
        noise = random.Random(seed)  # noqa: S311
        series = simulated.disturbances(noise)[name]
        missed = 0
        for _trial in range(5):
            missed += simulated.verdicts(compared(simulated, noise, series, labels, run_length, 50)) != ["worse"]
        # A block of 4 with outliers of 20 % has a wide interval now and then.
        assert missed <= (name == "one in ten is 20 % slower"), name


def test_a_tenth_is_seen_after_eight_runs(simulated):
    """Whole runs vary by a CV of 2 % beside the 0.5 % of their repetitions."""
    seed = f"{SEED} history"
    print(f"seed {seed}")
    noise, labels, hits = random.Random(seed), "A" * 32 + "B" * 4, 0  # noqa: S311
    for _trial in range(60):
        of_runs = simulated.draws(noise, 9, simulated.log_deviation(2))
        values = [
            noise.gauss(of_runs[place // 4], 0.005) + (math.log1p(-0.1) if label == "B" else 0.0)
            for place, label in enumerate(labels)
        ]
        hits += simulated.verdicts(simulated.ordered(values, labels, run_length=4)) == ["worse"]
    print(f"{hits} of 60")
    assert hits >= 0.95 * 60
