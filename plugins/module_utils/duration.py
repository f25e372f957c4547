# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a plan takes, as far as can be said before: for the estimate in check mode and for what the runner says is left."""

from __future__ import annotations

from . import preparation, steady_state
from .workload import expected_s

# Writing a layer once: nobody knows how fast it is, so something between a disk and a flash disk.
WRITE_BYTES_S = 500e6


def point_s(workload: dict, steady: dict | None = None) -> float:
    """One point; at most, when it is to become steady."""
    if steady is None:
        return expected_s(workload)
    return expected_s(workload) - workload["runtime_s"] + steady_state.normalise(steady, workload["runtime_s"])["budget_s"]


def steps_s(plan: dict) -> list:
    """Seconds of each point of a plan in its order, each with the preparation that is done just before it."""
    prepare, sizes, found = preparation.of_plan(plan), {layer["name"]: layer["size_bytes"] for layer in plan["layers"]}, []
    written, warmed = set(plan.get("prepared", ())), set()
    reading = preparation.read_layers(plan)
    for point in plan["points"]:
        name, seconds = point["layer"], point_s(point["workload"], plan.get("steady_state"))
        if preparation.can_be_prepared(point, plan):
            passes = preparation.passes(prepare, name in reading)
            if passes and name not in written:
                seconds += passes * (sizes[name] or 0) / WRITE_BYTES_S
                written.add(name)
            if prepare["warmup_s"] and (name, point["workload_id"]) not in warmed:
                seconds += expected_s({**point["workload"], "ramp_s": 0, "runtime_s": prepare["warmup_s"]})
                warmed.add((name, point["workload_id"]))
        found.append(seconds)
    return found


def plan_s(plan: dict) -> float:
    return sum(steps_s(plan))
