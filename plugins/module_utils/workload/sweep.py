# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sweeps: lists in place of a workload's values, multiplied out, less what is excluded."""

from __future__ import annotations

import itertools
from typing import Any

from ..core.failure import Failure, bad_value
from .workload import KEYS, NORMALISED, SIZES, normalise, workload_id


def expand(
    workload: dict[str, Any] | None = None,
    sweep: dict[str, Any] | None = None,
    variable: str = "workload",
    exclude: list[Any] | None = None,
) -> list[Any]:
    """All normalised workloads of a workload whose values may be lists, and of a sweep that replaces some of its values by lists.

    The order is that in which a reader would write them down: the last list varies fastest. A key of a sweep may name a
    value within another: ``sync.fsync_every``.
    """
    workloads = _without(_multiplied(workload, sweep, variable), exclude)
    refuse_repeated(workloads, "sweep" if sweep else variable)
    return workloads


def expand_all(
    workloads: list[Any],
    sweep: dict[str, Any] | None = None,
    variable: str = "workloads",
    exclude: list[Any] | None = None,
) -> list[Any]:
    """The workloads of several, each multiplied out. An exclusion is of them all."""
    if not isinstance(workloads, list) or not workloads:
        raise bad_value(variable, workloads, "Give a list of workloads.")
    expanded = _without(
        [
            workload
            for index, base in enumerate(workloads)
            for workload in _multiplied(base, sweep, f"{variable}[{index}]")
        ],
        exclude,
    )
    refuse_repeated(expanded, variable)
    return expanded


def refuse_repeated(workloads: list[Any], variable: str) -> None:
    """Two workloads of one id would write over each other's results."""
    seen = set()
    for workload in workloads:
        name = workload_id(workload)
        if name in seen:
            raise bad_value(variable, name, "This workload is listed twice; remove one, or use repetitions.")
        seen.add(name)


def _multiplied(workload: dict[str, Any] | None, sweep: dict[str, Any] | None, variable: str) -> list[object]:
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
            raise bad_value(
                f"{'sweep' if key in (sweep or {}) else variable}.{key}", values, "Give at least one value."
            )
    return [
        normalise(_placed({**merged, **dict(zip(axes, values))}), variable)
        for values in itertools.product(*axes.values())
    ]


def _placed(workload: dict[str, Any]) -> dict[str, object]:
    """The workload with each dotted key's value put where its name says."""
    placed = {key: value for key, value in workload.items() if "." not in str(key)}
    for key in workload:
        outer, dot, inner = str(key).partition(".")
        if dot and isinstance(placed.get(outer, {}), dict):
            placed[outer] = {**placed.get(outer, {}), inner: workload[key]}
    return placed


def _without(workloads: list[Any], exclude: list[Any] | None) -> list[Any]:
    """The workloads that no exclusion describes. An exclusion is a part of a workload, in any way of writing it."""
    if exclude is not None and not isinstance(exclude, list):
        raise bad_value("exclude", exclude, "Give a list of mappings of workload keys.")
    kept = workloads
    for index, part in enumerate(exclude or []):
        matches = _matching(part, workloads, f"exclude[{index}]")
        if not matches:
            raise bad_value(
                f"exclude[{index}]", part, "It is not one of the workloads; correct its values, or remove it."
            )
        kept = [workload for workload in kept if workload not in matches]
    if not kept:
        raise bad_value("exclude", exclude, "It leaves no workload; exclude less.")
    return kept


def _matching(part: Any, workloads: list[Any], variable: str) -> list[Any]:
    if not isinstance(part, dict) or not part:
        raise bad_value(variable, part, "Give a mapping of workload keys.")
    unknown = [key for key in part if str(key).partition(".")[0] not in (*KEYS, *NORMALISED)]
    if unknown:
        raise bad_value(f"{variable}.{unknown[0]}", part[unknown[0]], f"There is no such key; use {', '.join(KEYS)}.")
    matching, refused = [], []
    for workload in workloads:
        try:
            if normalise(_overlaid(workload, part), variable) == workload:
                matching.append(workload)
        except Failure as failure:
            # A word that contradicts this workload may be a part of another.
            refused.append(failure)
    if len(refused) == len(workloads):
        raise refused[0]
    return matching


def _overlaid(workload: dict[str, Any], part: dict[str, Any]) -> dict[str, object]:
    """The workload with the part's values in place of its own: the same workload, if it has them already."""
    replaced = {"block_size": (*SIZES,), "alignment": ("alignment_bytes",)}
    gone = {name for key in part for name in replaced.get(key, (*SIZES,) if key in SIZES else ())}
    return _placed({**{key: value for key, value in workload.items() if key not in gone}, **part})
