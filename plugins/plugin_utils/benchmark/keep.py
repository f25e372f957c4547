# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps what a host has measured: the files of its points, what preceded them, and the results that follow from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...module_utils.core.layers import Layer
from ...module_utils.workload.point import Point
from ..store import run_folder
from ..store.archive import read_point, unpack
from . import plan, theirs


def keep(
    run_dir: str,
    request: dict[str, Any],
    points: list[Point],
    layers: dict[str, Layer],
    files: dict[str, dict[str, bytes]],
    preparations: dict[str, dict[str, bytes]],
) -> dict[str, Any]:
    """The results of these points, once they and the files they were made of are on the controller's disk. request: engine, testbed_id and run_id."""
    results = {
        point["point_id"]: read_point(point, layers[point["layer"]], request, files.get(point["point_id"], {}))
        for point in points
    }
    for point in points:
        name = point["point_id"]
        planned = _planned(point, layers[point["layer"]], request)
        run_folder.write_point(run_dir, name, results[name], {**files.get(name, {}), run_folder.POINT: planned})
    for name, left in preparations.items():
        run_folder.write_preparation(run_dir, name, left)
    run_folder.add_prepared(run_dir, plan.prepared_by(results))
    return results


def _planned(point: Point, layer: Layer, request: Mapping[str, object]) -> bytes:
    """The inputs of the result, in addition to the host's files, and nothing more."""
    planned = {
        "point": point,
        "layer": {
            key: dict(layer)[key] for key in ("kind", "host", "path", *(("detail",) if "servers" in point else ()))
        },
        "asked": {key: request[key] for key in ("engine", "testbed_id", "run_id")},
    }
    return json.dumps(planned, indent=1, sort_keys=True).encode()


def keep_of_others(
    run_dir: str,
    host: str,
    request: dict[str, object],
    archive: bytes,
    plan_there: dict[str, object],
    span: theirs.Span,
) -> list[str]:
    """Keep a packed part of a run that another call began, as what it was measured as, and never over a measured point. plan_there: the plan of that call.

    Returns the names of the points.
    """
    known = theirs.points(host, plan_there, request, theirs.known_layers(run_dir))
    files, preparations, environment, beat = unpack(archive, set(known))
    span.refuse_outside(files)
    taken = [known[name][0] for name in files]
    there = run_folder.stored(run_dir, taken)
    run_folder.write_host(
        run_dir, host, environment, next((entry["variant"] for entry in taken if entry.get("variant")), None)
    )
    run_folder.add_beat(run_dir, host, beat)
    layers = {point["layer"]: layer for point, layer in known.values()}
    keep(run_dir, request, [point for point in taken if point["point_id"] not in there], layers, files, preparations)
    return sorted(files)
