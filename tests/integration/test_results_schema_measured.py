# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of points that fio measured here hold what the schema promises."""

from __future__ import annotations

import json
import time
from pathlib import Path

import jsonschema
import places
import pytest
import run_plan
from ansible_collections.storlab.testbed.plugins.module_utils.result.result import of_point
from ansible_collections.storlab.testbed.plugins.module_utils.run import runner
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import archive
from loop_device import attached
from loop_device import layer as layer_of

ROOT = places.ROOT
SCHEMA = json.loads((ROOT / "docs" / "schema" / "storlab.result-1.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def wrong(result: dict) -> list:
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in VALIDATOR.iter_errors(result)]


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> list:
    """Results of points that were really measured: the null engine and a loop device, with steady state and a mix of sizes."""
    folder = tmp_path_factory.mktemp("schema")
    with attached(folder / "image", 8 << 20) as path:
        backing = layer_of(path, 8 << 20, name="backing-here")
        layers = [{**backing, "name": "ceiling-here", "kind": "ceiling", "path": None, "identity": {}}, backing]
        workloads = [
            normalise({"read_percent": 70, "ramp_s": 0, "runtime_s": 1}),
            normalise({"read_percent": 0, "block_size": {"4k": 60, "8k": 40}, "ramp_s": 0, "runtime_s": 1}),
        ]
        points = [run_plan.point(layer["name"], workload) for layer in layers for workload in workloads]
        base = str(folder / "state")
        rounds = {"window": 2, "budget_s": 2, "round_s": 1}
        started = runner.start(run_plan.plan(layers, points, steady_state=rounds), base)
        deadline = time.monotonic() + 120
        while runner.status("t", "one", base)["alive"]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        asked = {"testbed_id": "t", "run_id": "one", "engine": "fio"}
        found = [
            archive.read_point(
                point,
                layers[0] if point["layer"] == "ceiling-here" else layers[1],
                asked,
                {
                    path.name: path.read_bytes()
                    for path in Path(started["state_dir"], "points", point["point_id"]).iterdir()
                    if path.is_file()
                },
            )
            for point in points
        ]
        runner.stop("t", remove=True, base=base, discard=True)
        return json.loads(json.dumps(found))


def test_measured_results_hold(measured):
    assert [result["status"] for result in measured] == ["measured"] * 4
    assert {result["point_id"]: wrong(result) for result in measured} == {result["point_id"]: [] for result in measured}


def test_measured_results_have_no_key_that_the_schema_lacks(measured):
    for result in measured:
        assert set(result) <= set(SCHEMA["properties"])
        for direction in ("read", "write", "total"):
            assert set(result.get(direction, {})) <= set(SCHEMA["$defs"]["direction"]["properties"])
        for key in ("engine", "cpu", "counters", "preparation", "steady_state", "errors"):
            assert set(result.get(key, {})) <= set(SCHEMA["properties"][key]["properties"]), key
    assert any("counters" in result for result in measured)
    assert any("checks" in result for result in measured)


def test_a_point_that_was_never_reached_holds(measured):
    identity = {
        key: measured[0][key]
        for key in (
            "testbed_id",
            "run_id",
            "point_id",
            "layer",
            "layer_kind",
            "host",
            "engine",
            "workload",
            "workload_id",
            "repetition",
        )
    }
    assert wrong(of_point(identity, None, [])) == []
