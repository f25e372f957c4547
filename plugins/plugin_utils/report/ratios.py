# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of an I/O on the hypervisor where a guest's disk is a file, over its cost where the guest has the LUN whole.

Source of the figure: VMware, Performance Characterization of VMFS and RDM Using a SAN (2008), whose CPU cost is the MHz used divided by the IOPS.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...module_utils.core.layers import Layer
from ...module_utils.result.schema import Result
from ...module_utils.result.student import t_quantile
from ..compare.stats import paired
from ..store.cells import is_measured

# As profiles name it among what was published.
METRIC = "cpu_cost_ratio"
# The cost of an I/O, the first that both sides have: of the guest's own machine, as ESXi counts it; of the host that has the LUN.
COSTS = ("vm_mhz_per_iops", "us_per_io")


class Ratio(NamedTuple):
    """The geometric mean over pairs of points of one workload and repetition, and its 95 % interval, None where a single pair has none."""

    on_files: str
    whole: str
    metric: str
    value: float
    between: tuple[float, float] | None
    pairs: int


def sides(layers: list[Layer]) -> list[tuple[Layer, Layer]]:
    """[(guest's layer on a file, guest's layer that is a whole LUN)] of each host of guests that has both, by the layers below."""
    known = {layer["name"]: layer for layer in layers}
    guests = [layer for layer in layers if layer["kind"] == "guest" and layer.get("parent") in known]

    def is_whole(layer: Layer) -> bool:
        below = known[layer["parent"]]
        return below["kind"] != "datastore" or (below.get("detail") or {}).get("provider") == "rdm"

    return [
        (on_file, whole)
        for on_file in guests
        for whole in guests
        if on_file["host"] == whole["host"] and not is_whole(on_file) and is_whole(whole)
    ]


def ratios(layers: list[Layer], results: list[Result], workload_ids: set[str]) -> list[Ratio]:
    """The ratio of each pair of sides over the points of these workloads. layers, results: of the run."""
    hosts = {layer["name"]: layer["host"] for layer in layers}
    measured = [result for result in results if result["workload_id"] in workload_ids and is_measured(result)]
    per_pair = []
    for on_file, whole in sides(layers):
        for metric in COSTS:
            ours, theirs = (
                _costs(measured, layer["name"], hosts[layer["parent"]], metric) for layer in (on_file, whole)
            )
            logs = [math.log(ours[point] / theirs[point]) for point in sorted(ours.keys() & theirs.keys())]
            if logs:
                per_pair.append(_ratio(on_file["name"], whole["name"], metric, logs))
                break
    return per_pair


def _ratio(on_files: str, whole: str, metric: str, logs: list[float]) -> Ratio:
    if len(logs) < 2:
        return Ratio(on_files, whole, metric, math.exp(logs[0]), None, 1)
    shift = paired(logs)
    reach = t_quantile(0.975, shift.freedom) * shift.error
    between = math.exp(shift.estimate - reach), math.exp(shift.estimate + reach)
    return Ratio(on_files, whole, metric, math.exp(shift.estimate), between, len(logs))


def _costs(results: list[Result], layer: str, host: str, metric: str) -> dict[tuple[str, int], float]:
    """{(workload, repetition): cost of an I/O} of what the hypervisor counted while the layer was measured."""
    costs = {}
    for result in results:
        counted = ((result.get("counters") or {}).get("hosts") or {}).get(host) or {}
        value = (counted.get("cpu") or {}).get(metric)
        if result["layer"] == layer and isinstance(value, (int, float)) and value > 0:
            costs[result["workload_id"], result["repetition"]] = value
    return costs
