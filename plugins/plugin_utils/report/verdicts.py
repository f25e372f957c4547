# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a run met its targets (module_utils/result/targets.py): met, missed, or not shown where no measurement can show it."""

from __future__ import annotations

from collections.abc import Collection

from ...module_utils.core import units
from ...module_utils.core.failure import bad_value
from ...module_utils.result import targets
from ..store.cells import Cell
from .nouns import Report, Step

MET, MISSED, NOT_SHOWN = "met", "missed", "not shown"


def parsed(texts: Collection[object]) -> list[targets.Target]:
    """The targets, or a failure that names the first text that says none."""
    pairs = [(text, targets.parse(text)) for text in texts]
    for text, target in pairs:
        if target is None:
            raise bad_value("targets", text, targets.EXAMPLE)
    return [target for _text, target in pairs if target]


def judge(report: Report, wanted: list[targets.Target]) -> list[dict[str, str]]:
    """[{target, verdict, why}]: missed if any figure it is about is beyond it, met if there is one and all are within."""
    return [{"target": target.text, **_judged(report, target)} for target in wanted]


def _judged(report: Report, target: targets.Target) -> dict[str, str]:
    cells = [
        (waterfall.workload_id, step.cell)
        for waterfall in report.waterfalls
        if target.workload_id in (None, waterfall.workload_id)
        for step in _steps(waterfall.steps, target.layer)
    ]
    if not cells:
        return _verdict(NOT_SHOWN, "nothing relevant to it was measured")
    loaded = [(workload, cell) for workload, cell in cells if (cell.value("iops") or 0) >= target.at_iops]
    if not loaded:
        most = max(cell.value("iops") or 0 for _workload, cell in cells)
        return _verdict(NOT_SHOWN, f"no more than {units.iops(most)} IOPS were done")
    judgements = [(_judged_cell(cell, target), workload, cell) for workload, cell in loaded]
    # The worst decides: one that missed, then one that cannot tell.
    verdict = next(
        word for word in (MISSED, NOT_SHOWN, MET) if any(judgement[0] == word for (judgement, _w, _c) in judgements)
    )
    words = [
        f"{judgement[1]} on {cell.layer} under {workload}"
        for judgement, workload, cell in judgements
        if judgement[0] == verdict
    ]
    return _verdict(verdict, "; ".join(words[:3]) + (f" and {len(words) - 3} more" if len(words) > 3 else ""))


def _steps(steps: list[Step], layer: str | None) -> list[Step]:
    """The steps of this layer or kind; without one, the top of the chain."""
    devices = [step for step in steps if step.cell.kind != "ceiling"]
    return devices[-1:] if layer is None else [step for step in steps if layer in (step.cell.layer, step.cell.kind)]


def _judged_cell(cell: Cell, target: targets.Target) -> tuple[str, str]:
    """(verdict, the figure in words) of one cell. For a percentile between bounds, both bounds have to be on the same side."""
    limits = cell.between(target.metric, target.part)
    if limits:
        low, high = limits
        verdict = MET if high <= target.limit else MISSED if low > target.limit else NOT_SHOWN
        return verdict, units.latency_between(limits)
    value = cell.value(target.metric, target.part)
    if value is None:
        return NOT_SHOWN, "not measured, or of too few I/Os,"
    word = {
        "iops": lambda rate: f"{units.iops(rate)} IOPS",
        "bandwidth_bytes_s": lambda rate: f"{units.bandwidth(rate)} MB/s",
    }
    met = value <= target.limit if target.at_most else value >= target.limit
    return MET if met else MISSED, word.get(target.metric, units.latency)(value)


def _verdict(verdict: str, why: str) -> dict[str, str]:
    return {"verdict": verdict, "why": why}
