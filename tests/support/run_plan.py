# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a run on one host, as the runner takes it."""

from __future__ import annotations

from typing import Any

from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import workload_id


def point(layer: str, workload: dict[str, Any], repetition: int = 1) -> dict[str, Any]:
    """A point of a normalised workload; each repetition has a seed of its own."""
    return {
        "point_id": f"{layer}.{workload_id(workload)}.r{repetition}",
        "layer": layer,
        "workload": workload,
        "workload_id": workload_id(workload),
        "repetition": repetition,
        "seed": 10 + repetition,
    }


def plan(layers: list[dict[str, Any]], points: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """more: what differs from a run "one" of the testbed "t" that prepares nothing."""
    return {
        "testbed_id": "t",
        "run_id": "one",
        "points": points,
        "layers": layers,
        "known_layers": layers,
        "repetitions": 1,
        "prepare": {},
        "allow_device": [],
        "grace_s": 20,
        **more,
    }
