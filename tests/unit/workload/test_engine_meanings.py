# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What engines make of one workload otherwise, and which flag a result gets for it."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.engines.catalogue import ENGINES
from ansible_collections.storlab.testbed.plugins.module_utils.workload.meanings import DIFFERENCES
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise

PAUSE, APART, MIXED = "think_time_in_flight", "workers_not_apart", "directions_apart"


@pytest.mark.parametrize(
    ("engine", "said", "flags"),
    [
        ("fio", {}, []),
        ("fio", {"think_time_us": 2000, "queue_depth": 4}, [PAUSE]),
        ("iometer", {"think_time_us": 2000, "burst": 5, "queue_depth": 2}, [PAUSE]),
        ("diskspd", {"think_time_us": 2000, "burst": 5}, []),
        ("iometer", {"workers": 3, "random_percent": 0}, [APART]),
        ("diskspd", {"workers": 3, "random_percent": 0}, [APART]),
        ("diskspd", {"workers": 3, "random_percent": 40}, [APART]),
        ("fio", {"workers": 3, "random_percent": 40}, []),
        ("iometer", {"workers": 3}, []),
        ("iometer", {"workers": 1, "random_percent": 0}, []),
        ("fio", {"read_percent": 50, "random_percent": 0}, [MIXED]),
        ("diskspd", {"read_percent": 99, "random_percent": 99}, [MIXED]),
        ("iometer", {"read_percent": 1, "random_percent": 0, "workers": 2}, [APART, MIXED]),
        ("fio", {"read_percent": 50}, []),
        ("fio", {"read_percent": 0, "random_percent": 0}, []),
        ("fio", {"read_percent": 100, "random_percent": 50}, []),
        ("iometer", {"workers": 2, "random_percent": 0, "think_time_us": 1000, "queue_depth": 2}, [PAUSE, APART]),
    ],
)
def test_what_is_not_the_same_in_every_engine_is_flagged(engine, said, flags):
    assert ENGINES[engine].meanings(normalise(said)) == flags
    assert set(flags) <= set(DIFFERENCES)
