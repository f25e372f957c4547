# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sweeps: lists in place of a workload's values, multiplied out."""

from __future__ import annotations

import itertools

from .failure import bad_value
from .workload import normalise, workload_id


def expand(workload: dict | None = None, sweep: dict | None = None, variable: str = "workload") -> list:
    """All normalised workloads of a workload whose values may be lists, and of a sweep that replaces some of its values by lists.

    The order is that in which a reader would write them down: the last list varies fastest.
    """
    for name, value in ((variable, workload), ("sweep", sweep)):
        if value is not None and not isinstance(value, dict):
            raise bad_value(name, value, "Give a mapping of workload keys.")
    for key, values in (sweep or {}).items():
        if not isinstance(values, list):
            raise bad_value(f"sweep.{key}", values, "Give a list of values.")
    merged = {**(workload or {}), **(sweep or {})}
    axes = {key: values for key, values in merged.items() if isinstance(values, list)}
    for key, values in axes.items():
        if not values:
            raise bad_value(f"{'sweep' if key in (sweep or {}) else variable}.{key}", values, "Give at least one value.")
    found = [normalise({**merged, **dict(zip(axes, values))}, variable) for values in itertools.product(*axes.values())]
    refuse_repeated(found, "sweep" if sweep else variable)
    return found


def refuse_repeated(workloads: list, variable: str) -> None:
    """Two workloads of one id would write over each other's results."""
    seen = set()
    for workload in workloads:
        name = workload_id(workload)
        if name in seen:
            raise bad_value(variable, name, "This workload is asked for twice; remove one, or use repetitions.")
        seen.add(name)
