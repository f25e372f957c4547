# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A known delay in one of two stacked devices is found there: real block devices, the kernel's own statistics, fio and the runner.

The upper device lies on a file that keeps each read for a while and then reads the lower device, which lies on such a file itself. What was slept, and
what reading the lower device took, is known from these files' own clocks. Both are bounds that hold under any load: the part of a layer is at least what
was slept in it, and the lower device cannot have taken longer than the read that waited for it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import run_plan
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import memory_use as memory
from ansible_collections.storlab.testbed.plugins.module_utils.run import observer, runner
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import split
from loop_device import attached
from loop_device import layer as layer_of
from slow_file import slow_file
from waiting import until

SIZE, REPETITIONS = 2 << 20, 3
# Requests are counted when they end, and at either edge of the counted seconds one may have begun before or end afterwards.
EDGES = 0.1


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "COPY_S", 0.01)
    folder = tmp_path / "state"
    yield str(folder)
    observer.stop("t", str(folder))
    for testbed in os.listdir(folder) if folder.exists() else ():
        runner.stop(testbed, remove=True, base=str(folder), discard=True)


def measured(base, upper, lower):
    """The results of three repetitions on the upper device, whose layer goes through the lower one."""
    beneath = {**layer_of(lower, SIZE, name="backing-lower"), "kind": "backing"}
    top = {**layer_of(upper, SIZE, name="guest-upper"), "kind": "guest", "parent": "backing-lower"}
    # An amount and no time: a busy machine may take seconds to begin.
    workload = normalise({"read_percent": 100, "ramp_s": 0, "io_bytes": 320 << 10, "queue_depth": 1})
    points = [run_plan.point("guest-upper", workload, repetition) for repetition in range(1, REPETITIONS + 1)]
    plan = run_plan.plan(
        [top], points, known_layers=[top, beneath], repetitions=REPETITIONS, prepare={"fill": False}, grace_s=60
    )
    runner.start(plan, base)
    until(lambda: not runner.status("t", "one", base)["alive"])
    results = []
    for point in points:
        folder = Path(runner.state_dir("t", "one", base), "points", point["point_id"])
        (figures,) = fio.results((folder / "fio.json").read_text(encoding="utf-8"))
        counters = json.loads((folder / "meta.json").read_text(encoding="utf-8"))["counters"]
        results.append(
            {"host": "here", "repetition": point["repetition"], "total": figures["total"], "counters": counters}
        )
    return results, [top, beneath]


@pytest.mark.parametrize(("upper_s", "lower_s"), [(0.023, 0.071), (0.059, 0.017)])
def test_a_delay_is_found_at_its_layer(base, tmp_path, upper_s, lower_s):
    image = tmp_path / "image"
    image.write_bytes(os.urandom(SIZE))
    with (
        slow_file(tmp_path / "lower", image, SIZE, lower_s) as lower_file,
        attached(tmp_path / "lower") as lower,
        slow_file(tmp_path / "upper", lower, SIZE, upper_s) as upper_file,
        attached(tmp_path / "upper") as upper,
    ):
        results, chain = measured(base, upper, lower)
        shares = split.split(results, chain)
        (kept_above_s, waited_s), (kept_below_s, _beneath_s) = upper_file.means_s(), lower_file.means_s()
        above, below = shares.parts
        assert [part.layers for part in shares.parts] == [["guest-upper"], ["backing-lower"]]
        assert (1 - EDGES) * kept_below_s <= below.own_ns / 1e9 <= (1 + EDGES) * waited_s
        assert above.own_ns / 1e9 >= (1 - EDGES) * kept_above_s
        assert above.own_ns + below.own_ns == pytest.approx(shares.latency_mean_ns)
        assert below.own_between_ns[0] < below.own_ns < below.own_between_ns[1]
        # The sum of both delays is nowhere else, and what is the greater of them is.
        assert (above.own_ns > below.own_ns) == (kept_above_s > kept_below_s)
        assert shares.notes == []
