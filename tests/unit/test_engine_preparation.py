# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is prepared, when it is spared, and how long a plan takes with it."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils import duration, preparation, runner
from ansible_collections.storlab.testbed.plugins.module_utils.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.workload import expected_s, normalise

GB = 10 ** 9
DISK = {"name": "disk", "path": "/dev/x", "size_bytes": 5 * GB}
CEILING = {"name": "ceiling", "path": None, "size_bytes": None}
READ = normalise({"ramp_s": 3, "runtime_s": 20})
WRITE = normalise({"ramp_s": 3, "runtime_s": 30, "read_percent": 0})
OVERHEAD_S = expected_s(READ) - 23


def plan(*points, **more):
    return {"layers": [DISK, CEILING], "points": [{"point_id": f"p{number}", "layer": layer["name"], "workload": workload, "workload_id": name}
                                                  for number, (layer, workload, name) in enumerate(points)], **more}


def test_without_preparation():
    found = duration.steps_s(plan((DISK, READ, "r"), (CEILING, WRITE, "w"), prepare={"fill": False}))
    assert found == pytest.approx([23 + OVERHEAD_S, 33 + OVERHEAD_S])


def test_each_layer_is_written_once_and_each_workload_warmed_once():
    points = [(CEILING, READ, "r"), (DISK, WRITE, "w"), (DISK, READ, "r"), (DISK, READ, "r")]
    found = duration.steps_s(plan(*points, prepare={"precondition_passes": 2, "warmup_s": 7}))
    # Two passes of 5 GB at 500 MB/s; a warm-up takes its own start as well.
    assert found == pytest.approx([23 + OVERHEAD_S, 33 + OVERHEAD_S + 20 + 7 + OVERHEAD_S, 23 + OVERHEAD_S + 7 + OVERHEAD_S, 23 + OVERHEAD_S])
    assert duration.plan_s(plan(*points, prepare={})) == pytest.approx(23 * 3 + 33 + 4 * OVERHEAD_S + 10)
    assert duration.plan_s(plan(*points, prepare={}, prepared={"disk": {"filled": True}})) == pytest.approx(23 * 3 + 33 + 4 * OVERHEAD_S)


def test_what_is_only_written_is_not_filled():
    assert duration.plan_s(plan((DISK, WRITE, "w"))) == pytest.approx(33 + OVERHEAD_S)


def test_steady_state_takes_at_most_its_budget():
    assert duration.point_s(READ, {"budget_s": 600}) == pytest.approx(3 + 600 + OVERHEAD_S)
    assert duration.point_s(READ, {}) == pytest.approx(3 + 25 * 20 + OVERHEAD_S)


@pytest.mark.parametrize(("earlier", "wanted", "spared"), [
    ({"filled": True}, {"filled": True}, True),
    ({"filled": True}, {"filled": True, "preconditioned_passes": 2}, False),
    ({"filled": True, "preconditioned_passes": 1}, {"filled": True, "preconditioned_passes": 2}, False),
    ({"filled": True, "preconditioned_passes": 2}, {"filled": True, "preconditioned_passes": 2}, True),
    ({"filled": True, "preconditioned_passes": 2}, {"filled": True}, True),
    ({}, {"filled": True}, False),
])
def test_what_was_prepared_earlier(earlier, wanted, spared):
    assert preparation.covers(earlier, wanted) is spared


def test_an_instance_is_told_from_the_next_of_its_name(tmp_path):
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    seen = []
    for _ in range(2):
        name = subprocess.run(["losetup", "--find", "--show", str(image)], check=True, capture_output=True, text=True).stdout.strip()
        seen.append(preparation.instance(name))
        assert preparation.instance(name) == seen[-1]
        subprocess.run(["losetup", "--detach", name], check=True)
    assert len(set(seen)) == 2
    one = preparation.instance(str(image))
    image.rename(tmp_path / "kept")
    image.write_bytes(bytes(1 << 20))
    assert preparation.instance(str(image)) != one == preparation.instance(str(tmp_path / "kept"))


def test_many_hosts_at_once_are_not_repeated_until_steady():
    point = {"point_id": "p", "layer": "ceiling", "workload": READ, "workload_id": "r", "servers": [{}]}
    with pytest.raises(Failure, match="leave it out"):
        runner.check_layers({"layers": [CEILING], "known_layers": [], "points": [point], "steady_state": {}, "allow_device": [], "testbed_id": "t"})
