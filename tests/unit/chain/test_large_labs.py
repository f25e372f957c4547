# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab of twice as many hosts is about twice as much work, counted in calls: no time is measured here, benchmarks/show.py does that."""

from __future__ import annotations

import cProfile
import pstats

import large_lab
import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import devices, expand


def calls(work, *arguments) -> int:
    profiler = cProfile.Profile()
    profiler.runcall(work, *arguments)
    return pstats.Stats(profiler).total_calls


@pytest.mark.parametrize("shape", [(1, 1), (4, 1)], ids=["as many disks as hosts", "many hosts"])
def test_twice_the_lab_is_twice_the_work(shape):
    hosts, disks = (20 * part for part in shape)
    counts = [calls(large_lab.shown, large_lab.lab_of(times * hosts, times * disks)) for times in (1, 2, 4)]
    # From the first to the last the fixed part is ever less: what grows with the square of the lab would be above 3.
    assert counts[2] - counts[1] < 2.5 * (counts[1] - counts[0])


def test_each_client_logs_in_to_its_own_disks_alone():
    testbed = expand.expand(large_lab.lab_of(6, 6))
    targets = {
        host.name: [
            (session["portal"]["address"], [lun["name"] for lun in session["luns"]])
            for session in host.variables["iscsi_initiator_targets"]
        ]
        for host in testbed.hosts.values()
        if host.name.startswith("client")
    }
    assert targets == {
        f"client0000{client}": [(f"10.0.0.{client + 1}", [f"d0000{disk}" for disk in (client, client + 3)])]
        for client in range(3)
    }
    assert testbed.hosts["client00001"].depends_on == ["target00001"]
    assert devices.named(testbed) == []
    assert devices.wanted(testbed, "client00001") == []
