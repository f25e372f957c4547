# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One moment of build, of benchmark and of teardown at which the controller is killed, other ones in each run; `make interrupted` takes them all."""

from __future__ import annotations

import os
import random

import pytest
from interrupted import CONTINUED, STAGES, Lab, Suite, drawn
from unchanged import differences


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return Suite(tmp_path_factory.mktemp("interrupted"))


@pytest.fixture(scope="module")
def seed() -> int:
    """SAMPLE_SEED=number repeats a run."""
    return int(os.environ.get("SAMPLE_SEED") or random.SystemRandom().randrange(1 << 32))


@pytest.mark.long
@pytest.mark.parametrize("stage", STAGES)
def test_one_more_run_puts_right_what_a_killed_one_left(suite, seed, stage, tmp_path):
    [cell] = drawn([cell for cell in suite.cells() if cell[0] == stage], seed, 1)
    [way] = drawn(CONTINUED[stage], seed, 1)
    print(f"SAMPLE_SEED={seed}: {' '.join(cell)}, then {way}")
    assert suite.run(Lab(tmp_path), cell, (way,))[1] == []


def test_what_is_left_is_seen(suite, tmp_path):
    lab = Lab(tmp_path)
    assert lab.left() == []
    lab.bring_back(suite.folder / "measured")
    assert "state/windows/session-interrupted-win02.json is left" in lab.left()
    assert any("storlab-interrupted-self" in line for line in differences(suite.hosts["nothing"], lab.hosts()))
