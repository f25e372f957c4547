# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a plan takes, as far as can be said before: for the estimate in check mode and for what the runner says is left."""

from __future__ import annotations

from typing import Any

from ..core.layers import only_read, parts
from ..result import steady_state
from ..workload.point import Point
from ..workload.workload import Workload, expected_s
from . import beat, preparation

# Writing a layer once: its speed is unknown, so something between a disk and a flash disk.
WRITE_BYTES_S = 500e6


def point_s(workload: Workload, steady: dict[str, Any] | None = None) -> float:
    """One point; at most, when it is to become steady."""
    if steady is None:
        return expected_s(workload)
    runtime_s: float = workload["runtime_s"]
    budget_s: float = steady_state.normalise(steady, runtime_s)["budget_s"]
    return expected_s(workload) - runtime_s + budget_s


class _Estimate:
    """Executor of a Preparation that does nothing and adds up how long it would take."""

    remedy = ""

    def __init__(self, earlier: dict[str, Any]) -> None:
        self.earlier, self.seconds = earlier, 0.0

    def instance(self, job: Point) -> str | None:
        """The device that was written earlier, as far as anybody can say without looking."""
        instance: str | None = self.earlier.get(job["layer"], {}).get("instance")
        return instance

    def write(self, job: Point, writing: preparation.Writing, _instance: str | None) -> preparation.Written:
        self.seconds += writing.passes * len(job["parts"]) * (job["size_bytes"] or 0) / WRITE_BYTES_S
        return preparation.Written(None, None)

    def hit_percent(self) -> float | None:
        return None

    def warm_up(self, job: Point, seconds: float) -> None:
        self.seconds += expected_s({**job["workload"], "ramp_s": 0, "runtime_s": seconds})

    def drop_page_cache(self, _job: Point) -> bool:
        return True


def steps_s(plan: dict[str, Any]) -> list[float]:
    """Seconds of each point of a plan in its order, each with the preparation that is done, and the beat that is played, just before it."""
    layers, estimate = {layer["name"]: layer for layer in plan["layers"]}, _Estimate(plan.get("prepared", {}))
    prepared, steps = preparation.Preparation(plan, estimate), []
    rounds = beat.begins(plan["points"]) if plan.get("beat") else set()
    points: list[Point] = plan["points"]
    for place, point in enumerate(points):
        layer, estimate.seconds = layers[point["layer"]], beat.EXPECTED_S if place in rounds else 0.0
        job: Point = {**point, "path": layer["path"], "size_bytes": layer["size_bytes"], "parts": parts(layer)}
        if only_read(layer):
            job["sampled"] = {}
        prepared.before([job], {"flags": []})
        steps.append(estimate.seconds + point_s(point["workload"], plan.get("steady_state")))
    return steps


def plan_s(plan: dict[str, object]) -> float:
    return sum(steps_s(plan))


def remaining_s(steps: list[float], number: int, gone_s: float, before_s: float) -> float:
    """Seconds that are left. steps: as of steps_s; number: of the point that runs, from 1, for ``gone_s``; before_s: what those before it took.

    A host that took twice as long for the first points takes twice as long for the rest.
    """
    planned = sum(steps[: number - 1])
    scale = before_s / planned if planned > 0 else 1.0
    return max(steps[number - 1] * scale - gone_s, 0.0) + sum(steps[number:]) * scale
