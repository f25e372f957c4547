# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proof that a path is the storage of others that a layer means, before it is read. Nothing here allows anybody to write.

Such storage is in use, mounted, partitioned, exported and full of data, so none of that is a reason. Another device or another file under the same name is.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from ...core.failure import Failure
from ...core.layers import Layer, only_read
from . import contents, device_safety, verdicts
from .facts import Facts
from .system import System

BUILD_AGAIN = "Build the testbed again, which looks for it again."


def refusals(facts: Facts, layer: Layer) -> list[Failure]:
    """Why a path is not what the layer means, empty when it is. facts: as device_safety.inspect reads them."""
    path = facts["path"]
    if not only_read(layer):
        return [
            Failure(
                "purpose_data",
                f"{path} is not storage that may only be read.",
                "Measure the layers that are meant to be.",
            )
        ]
    if facts["type"] == "missing":
        return [Failure("device_missing", f"{path} does not exist.", BUILD_AGAIN)]
    if facts["type"] == "unknown":
        return [
            Failure(
                "device_unreadable",
                f"{path} cannot be opened ({facts['claim']}).",
                "Check the user's rights to read it.",
            )
        ]
    if facts["type"] not in ("block", "file"):
        return [
            Failure("not_a_device", f"{path} is a {facts['type']}.", "Name a block device, or a folder with files.")
        ]
    return _device(facts, layer) if facts["type"] == "block" else _file(facts, layer)


def guard(layer: Layer, system: System | None = None) -> Facts:
    """The facts of a path that is what the layer means; raises the first refusal as a Failure."""
    facts = device_safety.inspect(layer["path"], system=system)
    reasons = refusals(facts, layer)
    if reasons:
        raise device_safety.not_touched(layer, reasons)
    return facts


def hold(facts: Facts) -> int:
    """The judged device or file, open for reading alone, so that its number cannot be given to another device while it is measured."""
    return device_safety.hold(facts)


def sampled(path: str, size_bytes: int) -> dict[str, object]:
    """Facts about storage of others for its results: the share of zeros or holes."""
    zeros = contents.zero_percent(path, size_bytes)
    holes = contents.hole_percent(path, size_bytes) if stat.S_ISREG(os.stat(path).st_mode) else 0.0
    return {} if zeros is None else {"zero_percent": max(zeros, holes)}


def _device(facts: Facts, layer: Layer) -> list[Failure]:
    if layer["identity"].get("mount_point"):
        what = f"{facts['path']} is a block device, but the layer is a file."
        return [Failure("not_a_device", what, BUILD_AGAIN)]
    return verdicts.identity_refusals(facts, layer) + verdicts.size_refusals(facts, layer)


def _file(facts: Facts, layer: Layer) -> list[Failure]:
    path, identity = facts["path"], layer["identity"]
    if not identity.get("mount_point"):
        return [Failure("not_a_device", f"{path} is a regular file, but the layer is a device.", BUILD_AGAIN)]
    if (facts.get("mount_point"), facts.get("source")) != (identity["mount_point"], identity.get("source")):
        where = f"{facts.get('source', 'nothing')} on {facts.get('mount_point', 'no mount')}"
        what = f"{path} is a file of {where}, not of {identity.get('source')} on {identity['mount_point']}."
        return [Failure("wrong_mount", what, BUILD_AGAIN)]
    reasons = []
    if facts.get("inode") != identity.get("inode"):
        reasons.append(
            Failure("file_replaced", f"{path} is another file than when the testbed was built.", BUILD_AGAIN)
        )
    if facts["size_bytes"] < layer["size_bytes"]:
        what = f"{path} has {facts['size_bytes']} bytes now, the layer has {layer['size_bytes']}."
        reasons.append(Failure("wrong_size", what, BUILD_AGAIN))
    return reasons


def refuse_writing_points(points: list[Any], layers: dict[str, Layer], prepare: dict[str, Any]) -> None:
    """The controller refuses these, too; the host decides by itself."""
    for point in points:
        if only_read(layers[point["layer"]]) and (
            point["workload"].get("read_percent") != 100
            or "verify" in point["workload"]
            or prepare.get("precondition_passes")
            or prepare.get("zero_before", "nothing") != "nothing"
        ):
            raise Failure(
                "layer_read_only",
                f"{point['point_id']} would write to storage that was there before the testbed.",
                "Use workloads that only read.",
                layer=point["layer"],
            )
