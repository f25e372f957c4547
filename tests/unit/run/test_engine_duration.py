# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left of a run is told by what its first points took."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.run.duration import remaining_s

STEPS = [10.0, 20.0, 30.0, 40.0]


@pytest.mark.parametrize(
    ("number", "gone_s", "before_s", "left_s"),
    [
        # Nothing is known yet: as planned.
        (1, 3, 0, 97),
        (1, 13, 0, 90),
        # As planned, three times as slow, and half as slow.
        (3, 0, 30, 70),
        (3, 12, 90, 198),
        (3, 0, 15, 35),
        # A point that takes longer than it should leaves the others.
        (3, 99, 30, 40),
        (4, 120, 180, 0),
    ],
)
def test_the_rest_goes_as_the_first_points_went(number, gone_s, before_s, left_s):
    assert remaining_s(STEPS, number, gone_s, before_s) == pytest.approx(left_s)
