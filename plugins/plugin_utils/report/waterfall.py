# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One workload at every layer: repetitions pooled, each layer set against what its I/O goes through next."""

from __future__ import annotations

from typing import Any

from ...module_utils.core.layers import Layer, down
from ...module_utils.result.derived import BEYOND, supported
from ...module_utils.result.result import GENERATOR_PERCENT, PERCENTILES, generator_percent
from ...module_utils.result.schema import Figures, Part, Result
from ...module_utils.workload.workload import Workload
from ..store.cells import Cell, directions_of, pool
from . import sentences
from . import split as splitting
from .nouns import Report, Step, Waterfall


def waterfall_of(workload_id: str, layers: list[Layer], measured: list[Any], failed: list[Any]) -> Waterfall:
    """measured, failed: the results of this workload."""
    cells, means, thin = {}, {}, {}
    by_layer: dict[str, list[Any]] = {}
    for result in measured:
        by_layer.setdefault(result["layer"], []).append(result)
    for layer in layers:
        results = by_layer.get(layer["name"])
        if results:
            taken = [directions_of(result) for result in results]
            means[layer["name"]] = _means(results, taken)
            cells[layer["name"]] = cell = pool(
                sorted(results, key=lambda result: (result["repetition"], result["point_id"]))
            )
            _weigh_ceiling(cell, results)
            thin[layer["name"]] = _without_thin_percentiles(cell, taken)
    by_name = {layer["name"]: layer for layer in layers}
    notes: list[Any] = []
    steps = [_step(cells[layer["name"]], by_name, cells, means, notes) for layer in layers if layer["name"] in cells]
    for step in steps:
        for note in thin[step.cell.layer]:
            notes.append(note)
            step.notes.append(len(notes) - 1)
    _shares(steps)
    _generator_bound(steps)
    missing = []
    for layer in layers:
        reasons = [sentences.reason(result) for result in failed if result["layer"] == layer["name"]]
        if layer["name"] not in cells and (reasons or layer["path"]):
            missing.append(
                {
                    "layer": layer["name"],
                    "kind": layer["kind"],
                    "host": layer["host"],
                    "failed": bool(reasons),
                    "reason": "; ".join(dict.fromkeys(reasons)) or sentences.unmeasured(layer),
                }
            )
    # A difference that may be noise is shown with its remark, and is not a headline.
    costs = [step for step in steps if step.comparable and not step.overlap and (step.added_mean_ns or 0) > 0]
    workloads: list[Workload] = [result["workload"] for result in measured + failed]
    workload: Workload = workloads[0] if workloads else {}
    splits = [
        shares
        for step in _tops(steps)
        if (shares := _split(step.cell.layer, measured, by_name, cells, means)) is not None
    ]
    return Waterfall(
        workload_id,
        workload,
        steps,
        missing,
        notes,
        max(costs, key=lambda step: step.added_mean_ns or 0, default=None),
        splits,
    )


def _tops(steps: list[Step]) -> list[Step]:
    """The measured layers that no other one goes through; a ceiling is none."""
    carried = {step.below.layer for step in steps if step.below}
    return [step for step in steps if step.cell.layer not in carried and step.cell.kind != "ceiling"]


def lane(report: Report) -> list[Cell]:
    """The measured layers of one lane of the headline, top first: of that with the most expensive step, else of that in which most was measured."""
    steps = report.headline.steps if report.headline else []
    cells = {step.cell.layer: step.cell for step in steps}
    layers = {layer["name"]: layer for layer in report.layers}
    lanes = [
        [cells[layer["name"]] for layer in down(layers, layers[top.cell.layer]) if layer["name"] in cells]
        for top in steps
        if top.cell.layer in layers and top.cell.kind != "ceiling"
    ]
    step = report.headline.costliest if report.headline else None
    costliest = step.cell if step else None
    return max(lanes, key=lambda of: (costliest in of, len(of)), default=[])


def _split(
    name: str, measured: list[Result], layers: dict[str, Layer], cells: dict[str, Cell], means: dict[str, Any]
) -> splitting.Split | None:
    """The counters of the devices below a layer while it was measured, beside the measurements of these devices, or of their twins, by themselves."""
    chain = down(layers, layers[name])
    stands = {layer["name"]: cells.get(layer["name"]) or _twin(layer, layers, cells) for layer in chain}
    waterfall = {
        layer: (latency, means[cell.layer])
        for layer, cell in stands.items()
        if cell and (latency := cell.value("latency_mean_ns")) is not None
    }
    return splitting.split([result for result in measured if result["layer"] == name], chain, waterfall)


def _weigh_ceiling(cell: Cell, results: list[Result]) -> None:
    """That a layer was faster than its ceiling is said of it only if most repetitions were."""
    faster = sum("faster_than_ceiling" in (result.get("flags") or []) for result in results)
    if faster and 2 * faster <= len(results):
        cell.flags[cell.flags.index("faster_than_ceiling")] = "sometimes_faster_than_ceiling"


def _without_thin_percentiles(cell: Cell, taken: list[dict[Part, Figures]]) -> list[str]:
    """Take from the cell the percentiles with fewer than BEYOND I/Os above them, that is of fewer than BEYOND / (1 - p) I/Os; notes that say which."""
    notes = []
    for direction, figures in cell.figures.items():
        counts = [part[direction].get("ios") for part in taken if direction in part]
        known = [count for count in counts if count is not None]
        if len(known) < len(counts) or not counts:
            continue
        ios = sum(known)
        few = [(percent, metric) for percent, metric in PERCENTILES.items() if not supported(ios, percent)]
        gone = [percent for percent, metric in few if metric in figures or metric in cell.bounds.get(direction, {})]
        for _percent, metric in few:
            figures.pop(metric, None)
            cell.bounds.get(direction, {}).pop(metric, None)
        what = {"total": "I/Os", "sync": "flushes"}.get(direction)
        if gone and what:
            notes.append(
                f"{cell.layer} did {ios:.0f} {what} in all, too few for {' and '.join(f'p{percent:g}' for percent in gone)}: "
                f"a percentile p needs {BEYOND} / (1 − p), so that {BEYOND} {what} are beyond it."
            )
    return notes


def _means(results: list[dict[str, Any]], taken: list[dict[Part, Figures]]) -> dict[str, Any]:
    """{repetition: mean latency} of a layer; imports may have several results of one number, and none of those is paired."""
    latencies: dict[str, Any] = {}
    for result, parts in zip(results, taken):
        latencies.setdefault(result["repetition"], []).append(parts["total"].get("latency_mean_ns"))
    return {number: values[0] for number, values in latencies.items() if len(values) == 1 and values[0] is not None}


def _difference_between(ours: dict[int, float], theirs: dict[int, float]) -> tuple[float, float] | None:
    """95 % interval of the mean difference of paired repetitions, by Student's t; None when fewer than two are in both.

    A repetition is a round in which every layer is measured once, so what a round has in common, such as a warm machine, is in neither side.
    """
    return splitting.interval([ours[number] - theirs[number] for number in sorted(ours.keys() & theirs.keys())])


def _step(
    cell: Cell, layers: dict[str, Layer], cells: dict[str, Cell], means: dict[str, Any], notes: list[str]
) -> Step:
    below, relation, between = _below(cell, layers, cells)
    # The lowest of the unmeasured layers of another lane is what the twin stands for.
    step = Step(cell, below, relation, {"through": between, "other_lane": between[:-1]}.get(relation, []))
    if below is None:
        return step
    step.comparable = relation != "ceiling" and (below.ioengine, below.engine) == (cell.ioengine, cell.engine)
    ours, theirs = cell.value("latency_mean_ns"), below.value("latency_mean_ns")
    if ours is not None and theirs is not None:
        step.added_mean_ns = ours - theirs
        step.added_between_ns = _difference_between(means[cell.layer], means[below.layer])
        step.latency_ratio = ours / theirs if theirs else None
        own, other = cell.figure("latency_mean_ns"), below.figure("latency_mean_ns")
        if own and other:
            step.overlap = own.low <= other.high and other.low <= own.high and cell.repetitions + below.repetitions > 2
    rate, rate_below = cell.value("iops"), below.value("iops")
    if rate is not None and rate_below:
        step.iops_ratio = rate / rate_below
    for text in sentences.notes_of(step, layers, between):
        if text not in notes:
            notes.append(text)
        step.notes.append(notes.index(text))
    return step


def _below(cell: Cell, layers: dict[str, Layer], cells: dict[str, Cell]) -> tuple[Cell | None, str, list[str]]:
    """(what the cell is set against, how they are related, the unmeasured layers between them).

    The nearest measured layer down the parents. A parent that was not measured may have a twin: the same kind by the same
    provider on the same host in another lane of the same chain, as a scratch LUN is to a data LUN.
    """
    between: list[str] = []
    name, seen = (layers.get(cell.layer) or {}).get("parent"), {cell.layer}
    while name is not None and name not in seen:
        seen.add(name)
        if name in cells:
            return cells[name], "through" if between else "parent", between
        layer = layers.get(name)
        if layer is None:
            break
        between.append(name)
        twin = _twin(layer, layers, cells)
        if twin:
            return twin, "other_lane", between
        name = layer["parent"]
    ceilings = [other for other in cells.values() if other.kind == "ceiling"]
    if cell.kind == "ceiling" or not ceilings:
        return None, "bottom", []
    return next((other for other in ceilings if other.host == cell.host), ceilings[0]), "ceiling", []


def _twin(layer: Layer, layers: dict[str, Layer], cells: dict[str, Cell]) -> Cell | None:
    """The layer in the place of one that was not measured: the same kind by the same provider on the same host in another lane."""
    made_by = sentences.detail(layers, layer["name"]).get("provider")
    return next(
        (
            other
            for other in cells.values()
            if (other.kind, other.host) == (layer["kind"], layer["host"])
            and sentences.detail(layers, other.layer).get("provider") == made_by
        ),
        None,
    )


def _shares(steps: list[Step]) -> None:
    """Each step's share of the mean latency at the top of the chain it belongs to."""
    by_layer = {step.cell.layer: step for step in steps}
    for top in reversed(_tops(steps)):
        total = top.cell.value("latency_mean_ns")
        step: Step | None = top
        while total and step is not None and step.share is None:
            step.share_of = top.cell.layer
            if step.relation == "ceiling" or step.below is None:
                own = step.cell.value("latency_mean_ns")
                step.share = own / total if own is not None and step.cell.kind != "ceiling" else None
                break
            step.share = step.added_mean_ns / total if step.added_mean_ns is not None else None
            step = by_layer.get(step.below.layer)


def _generator_bound(steps: list[Step]) -> None:
    ceilings = {step.cell.host: step.cell.value("iops") for step in steps if step.cell.kind == "ceiling"}
    for step in steps:
        ceiling, iops = ceilings.get(step.cell.host), step.cell.value("iops")
        if (
            step.cell.kind != "ceiling"
            and ceiling
            and iops
            and generator_percent(iops, ceiling) > GENERATOR_PERCENT
            and "generator_bound" not in step.cell.flags
        ):
            step.cell.flags.append("generator_bound")
