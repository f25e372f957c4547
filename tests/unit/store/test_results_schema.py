# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON Schema of results: holds what the code makes, refuses what it must, and has the keys that the manual has."""

from __future__ import annotations

import copy
import json
import re

import jsonschema
import places
import pytest
from fixtures.report import make_fixture

ROOT = places.ROOT
SCHEMA = json.loads((ROOT / "docs" / "schema" / "storlab.result-1.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
GONE = object()


def wrong(result: dict) -> list:
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in VALIDATOR.iter_errors(result)]


def synthetic() -> dict:
    """A mixed workload of the generator of tests, which writes null where it has no path, completed to what the code would have written."""
    result = make_fixture.result(make_fixture.LAYERS[1], make_fixture.WORKLOADS[0], 1, 0)
    digest = "0123456789abcdef" * 4
    return {
        **result,
        "wall_s": 6.2,
        "order": 3,
        "variant": "new",
        "raw": {"file": "fio.json", "sha256": digest},
        "job": {"file": "job.fio", "sha256": digest},
        "series": {"file": "series.json", "sha256": digest},
        "preparation": {
            "filled": True,
            "preconditioned_passes": 2,
            "zeroed_bytes": 4096,
            "zeroed_s": 0.5,
            "warmup_s": 3,
            "page_cache": "dropped",
        },
        "steady_state": {
            "metric": "iops",
            "steady": True,
            "window": 2,
            "rounds": [10.5, 11],
            "round_s": 2,
            "excursion_percent": 4.7,
            "slope_percent": 4.7,
            "limits": {"excursion_percent": 20, "slope_percent": 10},
            "budget_s": 60,
        },
        "counters": {
            "interval_s": 4.5,
            "device": {
                "name": "ram0",
                "read": {"ios": 5, "bytes": 9},
                "write": {"ios": 6, "bytes": 8},
                "busy_percent": 99.5,
            },
            "network": {"eth0": {"rx_bytes": 1, "tx_bytes": 2}},
            "interrupts": 7,
            "context_switches": 8,
            "hosts": {"other": {"cpu": {}}},
        },
        "checks": [{"name": "ceiling", "ok": True, "iops": 5.5}],
        "clients": [{"host": "a", "status": "measured", "failures": [], "total": {"ios": 5, "bytes": 6, "iops": 7}}],
    }


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_synthetic_result_holds():
    assert wrong(synthetic()) == []


def test_failed_result_without_figures_holds():
    result = synthetic()
    for key in ("read", "write", "total", "runtime_s", "started_utc", "finished_utc", "cpu", "raw"):
        del result[key]
    assert (
        wrong(
            {
                **result,
                "status": "failed",
                "failures": [{"code": "stopped", "message": "The run ended before this point."}],
            }
        )
        == []
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema", "storlab.result/2"),
        ("schema", GONE),
        ("point_id", GONE),
        ("point_id", "../x"),
        ("point_id", ""),
        ("layer_kind", "disk"),
        ("host", ""),
        ("host", 5),
        ("repetition", 0),
        ("repetition", "1"),
        ("status", "ok"),
        ("status", "failed"),
        ("failures", [{"code": "no_io", "message": "x"}]),
        ("failures", GONE),
        ("flags", ["a", "a"]),
        ("flags", ["Two words"]),
        ("started_utc", "21.11.2026"),
        ("started_utc", "2026-11-21T10:00:00+01:00"),
        ("runtime_s", None),
        ("runtime_s", -1),
        ("total", GONE),
        ("total.ios", 0),
        ("total.ios", 1.5),
        ("total.iops", "5"),
        ("total.latency_p99_ns", None),
        ("total.bytes", GONE),
        ("total.histogram.unit", "us"),
        ("total.histogram.bins.5x", 1),
        ("total.histogram.bins.05", 1),
        ("total.histogram.bins.7", -1),
        ("total.histogram.bins.9", 1.5),
        ("total.comment", "fast"),
        ("total.latency_mean_ns", GONE),
        ("engine.name", GONE),
        ("engine.latency", "some"),
        ("workload.block_size_bytes", GONE),
        ("workload.read_percent", 101),
        ("workload.queue_depth", 0),
        ("workload.block_sizes", {"read": []}),
        ("raw.file", "/etc/passwd"),
        ("raw.sha256", "abc"),
        ("errors.total", GONE),
        ("checks", [{"name": "x"}]),
        ("preparation.page_cache", "cold"),
        ("steady_state.steady", "yes"),
        ("steady_state.window", 1),
        ("counters.network.eth0.rx_bytes", -1),
        ("counters.device.read", {"ios": 1}),
        ("order", -1),
        ("variant", ""),
        ("clients", []),
        ("clients", [{"host": "a", "status": "measured"}]),
        ("cpu.host_busy_percent", None),
        ("overridden", []),
    ],
)
def test_mutated_results_are_refused(path, value):
    result = copy.deepcopy(synthetic())
    *above, last = path.split(".")
    place = result
    for key in above:
        place = place[key]
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    assert wrong(result)


# ---------------------------------------------------------------- the manual


def documented(head: str) -> set:
    """The keys in the first column of the table of docs/results.md that follows this text."""
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    rows = text[text.index(head) :].splitlines()
    first = next(index for index, row in enumerate(rows) if row.startswith("| key"))
    found: set = set()
    for row in rows[first + 2 :]:
        if not row.startswith("|"):
            break
        found |= set(re.findall(r"`([a-z0-9_]+)`", row.split("|")[1]))
    return found


@pytest.mark.parametrize(
    ("head", "keys"),
    [
        ("| key | meaning |", SCHEMA["properties"]),
        ("A direction:", SCHEMA["$defs"]["direction"]["properties"]),
        ("## Preparation", SCHEMA["properties"]["preparation"]["properties"]),
        ("## Steady state", SCHEMA["properties"]["steady_state"]["properties"]),
        ("| key of `cpu`", SCHEMA["properties"]["cpu"]["properties"]),
        ("| key of `counters`", SCHEMA["properties"]["counters"]["properties"]),
    ],
    ids=["result", "direction", "preparation", "steady state", "cpu", "counters"],
)
def test_the_manual_has_the_keys_of_the_schema(head, keys):
    assert documented(head) == set(keys)


def test_the_manual_names_the_schema():
    assert "schema/storlab.result-1.schema.json" in (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
