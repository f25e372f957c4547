# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Points of the load on a database: how they are named, and the result of one out of what its host kept."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ...module_utils.core.failure import messages
from ...module_utils.core.layers import Layer
from ...module_utils.engines import databases, hammerdb_load
from ...module_utils.result.result import SCHEMA, STEAL_PERCENT, without_none
from ...module_utils.result.schema import Result
from ...module_utils.workload.point import Point

# A figure of such a load that others have published, as an argument.
PUBLISHED: dict[str, dict[str, Any]] = {
    "metric": {"type": "str", "choices": ["tpm", "nopm"], "required": True},
    "value": {"type": "float", "required": True},
    **{key: {"type": "str", "required": True} for key in ("unit", "where")},
    "note": {"type": "str"},
}
CHOSEN = ("warehouses", "virtual_users", "ramp_s", "runtime_s", "isolation")


def is_database(result: Result) -> bool:
    """Whether a result is of transactions, not of I/O."""
    workload = result.get("workload")
    return isinstance(workload, dict) and workload.get("kind") == "tproc_c"


def title_of(workload: dict[str, object]) -> str:
    """The name of its database for a reader; one that only another version of the collection knows has its own word."""
    name = databases.of_workload(workload)
    return databases.LOADS[name].title if name in databases.LOADS else name


def workload_id(workload: dict[str, object]) -> str:
    database = databases.of_workload(workload)
    named = f"-{workload['driver']}" if "driver" in workload else ""
    named += "" if database == databases.DEFAULT else f"-{database}"
    isolation = "" if workload["isolation"] == "read_committed" else f"-{workload['isolation']}"
    return f"tproc_c{named}-w{workload['warehouses']}-vu{workload['virtual_users']}{isolation}"


def point_of(params: dict[str, Any]) -> dict[str, object]:
    """The point that the arguments of database_measure ask for."""
    database = params["database"]
    of_another = {} if database == databases.DEFAULT else {"database": database}
    if params["hammerdb_dir"]:
        of_another["driver"] = hammerdb_load.NAME
    workload = {"kind": "tproc_c", **of_another, **{key: params[key] for key in CHOSEN}}
    name, variant = workload_id(workload), params["variant"]
    same = {
        "layer": params["layer"],
        "workload": workload,
        "engine": databases.engine_of(workload),
        "repetition": params["repetition"],
        **({"variant": variant} if variant else {}),
    }
    return {
        "point_id": ".".join([params["layer"], name, *([variant] if variant else []), f"r{params['repetition']}"]),
        "layer": params["layer"],
        "workload": workload,
        "workload_id": name,
        "repetition": params["repetition"],
        **({"variant": variant} if variant else {}),
        "fingerprint": hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest(),
    }


def planned(point: Point, layer: Layer, testbed_id: str, run_id: str) -> dict[str, object]:
    """point.json: what the result is made with, beside what the host kept."""
    return {
        "point": point,
        "layer": {
            "kind": layer["kind"],
            "host": layer["host"],
            "path": (layer.get("identity") or {}).get("mount_point"),
        },
        "asked": {"engine": databases.engine_of(point["workload"]), "testbed_id": testbed_id, "run_id": run_id},
    }


def read_point(point: Point, layer: Layer, request: dict[str, str], files: dict[str, bytes]) -> dict[str, object]:
    """The result, of the files meta.json and what the driver said, such as pgbench.json."""
    file = databases.RAWS[request["engine"]]
    raw, meta = json.loads(files[file]), json.loads(files["meta.json"])
    counted = dict(meta.get("counters") or {})
    cpu = counted.pop("cpu", {})
    figures = databases.measured(request["engine"], raw)
    flags = ["steal"] if cpu.get("host_steal_percent", 0) > STEAL_PERCENT else []
    return without_none(
        {
            "schema": SCHEMA,
            "testbed_id": request["testbed_id"],
            "run_id": request["run_id"],
            **point,
            "workload": {**point["workload"], "settings": raw["settings"]},
            "layer_kind": layer["kind"],
            "host": layer["host"],
            "path": layer["path"],
            **figures,
            "started_utc": meta.get("started_utc"),
            "finished_utc": meta.get("finished_utc"),
            "cpu": cpu,
            "counters": counted or None,
            "errors": {"total": 0},
            "flags": flags,
            "raw": {"file": file, "sha256": hashlib.sha256(files[file]).hexdigest()},
            "status": "failed" if figures["failures"] else "measured",
        }
    )


def summary(result: Result) -> dict[str, object]:
    """The result as a fact: without histograms."""
    kinds = {
        kind: {key: value for key, value in figures.items() if key != "histogram"}
        for kind, figures in result.get("transactions", {}).items()
    }
    kept = {key: value for key, value in result.items() if key not in ("transactions", "checks", "raw", "counters")}
    return {**kept, **({"transactions": kinds} if kinds else {})}


def line(result: dict[str, Any]) -> str:
    """The point in a line for a terminal."""
    if result["status"] != "measured":
        return f"{result['point_id']}: {messages(result['failures'])}"
    rates = f"{result['point_id']}: {result['tpm']:.0f} TPM, {result['nopm']:.0f} NOPM"
    if "transactions" not in result:
        return f"{rates}, by {result['engine']['name']}"
    total = result["transactions"]["total"]
    again = f", {total['retried']} tried again" if total["retried"] else ""
    lost = f", {total['failed']} given up" if total["failed"] else ""
    return f"{rates}, p99 {total['latency_p99_ns'] / 1e6:.1f} ms of all transactions{again}{lost}"
