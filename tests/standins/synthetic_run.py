#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes SYNTHETIC runs of every shape that the report has a view for: no figure in them was measured.

A layer takes ``service`` ns for an I/O alone and gains from concurrency up to ``parallel`` I/Os: with N in flight it does
X(N) = limit · N / (N + parallel), so the latency is N / X(N) and IOPS over latency is greatest at N = parallel, which is where the
knee must be found. A block costs ``transfer`` ns a byte besides. There is no random and no clock, so a run made twice is the same.

    python tests/standins/synthetic_run.py FOLDER [SHAPE [REPETITIONS]]      # SHAPE: everything, small, or one of SHAPES
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from written_once import written_once

_specification = importlib.util.spec_from_file_location(
    "make_fixture", Path(__file__).parents[1] / "unit" / "fixtures" / "report" / "make_fixture.py"
)
make_fixture = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(make_fixture)

TESTBED, RUN_ID = "synthetic", "20261121T140000Z"
RUNTIME_S, RAMP_S = 20, 5
#        name              kind         host           parent            path                          service  parallel  transfer  engine
LAYERS = (
    ("ceiling-target01", "ceiling", "target01", None, None, 1_900, 2, 0.0, "null"),
    ("backing-bench", "backing", "target01", None, "/dev/ram0", 21_000, 4, 0.09, "libaio"),
    ("target-bench", "target", "target01", "backing-bench", "/dev/sda", 88_000, 7, 0.31, "libaio"),
    ("initiator-bench", "initiator", "hypervisor01", "target-bench", "/dev/sdb", 160_000, 8, 0.42, "libaio"),
    (
        "datastore-ds1",
        "datastore",
        "hypervisor01",
        "initiator-bench",
        "/srv/storlab/ds1/bench.dat",
        171_000,
        8,
        0.43,
        "libaio",
    ),
    ("guest-guest01", "guest", "guest01", "datastore-ds1", "/dev/vdb", 262_000, 6, 0.55, "libaio"),
)
PATTERNS = ((100, 100), (0, 100), (100, 0), (0, 0))  # read %, random %
PUBLISHED = [
    {
        "metric": "iops",
        "value": 80000,
        "unit": "IOPS",
        "where": "somebody else's RAM disk",
        "note": "synthetic; 4 KiB, 70 % read, queue depth 8",
        "workload": {"block_size_bytes": 4096, "read_percent": 70, "queue_depth": 8},
    },
    {
        "metric": "bandwidth",
        "value": 5469,
        "unit": "MiB/s",
        "where": "somebody else's RAM disk",
        "note": "synthetic; nothing here is like it",
        "workload": {"block_size_bytes": 8192},
    },
]


def workload(block: int = 4096, read: int = 70, random: int = 100, depth: int = 8, workers: int = 1) -> dict:
    return {
        "block_size_bytes": block,
        "read_percent": read,
        "random_percent": random,
        "queue_depth": depth,
        "workers": workers,
        "ramp_s": RAMP_S,
        "runtime_s": RUNTIME_S,
        "alignment_bytes": block,
        "direct": True,
        "range": {"offset_bytes": 0, "size_bytes": None},
    }


def workload_id(asked: dict) -> str:
    return "{}k-r{read_percent}-rnd{random_percent}-qd{queue_depth}-w{workers}".format(
        asked["block_size_bytes"] // 1024, **asked
    )


SHAPES = {
    "blocks": (
        LAYERS[:4],
        [workload(1 << power, read, random, 16) for read, random in PATTERNS for power in (12, 14, 16, 18, 20)],
    ),
    "workers": (LAYERS[1:2], [workload(16384, read, 0, 16, count) for read in (100, 0) for count in (1, 2, 4)]),
    "matrix": (
        LAYERS[1:3],
        [workload(4096, 100, 100, depth, count) for count in (1, 2, 4, 8, 16, 32) for depth in (1, 2, 4, 8, 16, 32)],
    ),
    "load": (LAYERS, [workload(4096, 70, 100, depth) for depth in (1, 2, 4, 8, 16, 32, 64)]),
    "small": (
        LAYERS[1:3],
        [workload(1 << power, read, 100, 16) for read in (100, 0) for power in (12, 15, 18)]
        + [workload(4096, 100, 0, depth, count) for count in (1, 4, 16) for depth in (1, 4, 16)]
        + [workload(8192, 0, 0, 4, count) for count in (1, 2, 4)]
        + [workload(4096, 70, 100, depth) for depth in (1, 4, 8, 16, 64)],
    ),
    "chain": (LAYERS, [workload(4096, 70, 100, 8)]),
    "large": (
        LAYERS,
        [
            workload(4096 << step % 4, (100, 70, 0)[step % 3], (100, 0)[step // 3 % 2], 1 + step // 12, 1)
            for step in range(34)
        ],
    ),
}


def rates(layer: tuple, asked: dict) -> tuple:
    """(IOPS, mean latency ns) of a layer under a workload."""
    _name, _kind, _host, _parent, _path, service, parallel, transfer, _engine = layer
    alone = (
        service * (1 if asked["random_percent"] else 0.82) * (1 if asked["read_percent"] else 1.11)
        + transfer * asked["block_size_bytes"]
    )
    flying = asked["queue_depth"] * asked["workers"]
    limit = (1 + parallel) * 1e9 / alone
    iops = limit * flying / (flying + parallel)
    return iops, flying / iops * 1e9


def series(iops: float, latency_ns: float, busy: float, words: tuple) -> dict:
    """One row per second; the ramp climbs, one second stalls, one has no figure."""
    rows = []
    for second in range(1, RAMP_S + RUNTIME_S + 1):
        part = (0.55 + 0.09 * second if second <= RAMP_S else 1.0) * (
            0.97 + 0.06 * (make_fixture.wobble(*words, second) - 0.94) / 0.12
        )
        part = part * 0.35 if second == 17 else part
        known = second != 12
        rows.append(
            [
                second,
                "ramp" if second <= RAMP_S else "measure",
                round(iops * part, 1) if known else None,
                round(iops * part * 4096, 1) if known else None,
                round(latency_ns / part) if known else None,
                round(min(99.0, busy * part), 1),
            ]
        )
    return {
        "interval_s": 1,
        "columns": ["t_s", "phase", "iops", "bandwidth_bytes_s", "latency_mean_ns", "cpu_busy_percent"],
        "rows": rows,
    }


def result(layer: tuple, asked: dict, repetition: int, index: int) -> dict:
    name, kind, host, _parent, path, *_figures, engine = layer
    named = workload_id(asked)
    wobble = make_fixture.wobble(name, named, repetition)
    iops, latency = rates(layer, asked)
    iops, latency = iops / wobble, latency * wobble
    parts = {}
    for direction, share, factor in (
        ("read", asked["read_percent"] / 100, 0.97),
        ("write", 1 - asked["read_percent"] / 100, 1.05),
    ):
        if share:
            parts[direction] = make_fixture.direction(
                iops * share, RUNTIME_S, asked["block_size_bytes"], latency * factor, 0.42
            )
    total: dict = {}
    for part in parts.values():
        for edge, count in part["histogram"]["bins"].items():
            total[edge] = total.get(edge, 0) + count
    cost = (
        {"ceiling": 0.31, "backing": 3.1, "target": 14.2, "initiator": 9.4, "datastore": 10.6, "guest": 23.5}[kind]
        * wobble
        * (1 + asked["block_size_bytes"] / 131072)
    )
    busy = min(97.0, cost * iops / 2e6 * 100)
    started = 50400 + index * 26
    found = {
        "schema": "storlab.result/1",
        "testbed_id": TESTBED,
        "run_id": RUN_ID,
        "point_id": f"{name}.{named}.r{repetition}",
        "layer": name,
        "layer_kind": kind,
        "host": host,
        "path": path,
        "engine": {"name": "fio", "version": "fio-3.33", "ioengine": engine, "latency": "total"},
        "workload": asked,
        "workload_id": named,
        "repetition": repetition,
        "order": index + 1,
        "status": "measured",
        "failures": [],
        "flags": [],
        "started_utc": make_fixture.stamp(started % 86400),
        "finished_utc": make_fixture.stamp((started + 25) % 86400),
        "runtime_s": float(RUNTIME_S),
        **parts,
        "total": make_fixture.from_bins(total, RUNTIME_S, asked["block_size_bytes"]),
        "errors": {"total": 0},
        "cpu": {
            "user_percent": 9 * wobble,
            "system_percent": 41 * wobble,
            "host_busy_percent": busy,
            "host_steal_percent": 0.1,
            "cores": 2,
            "mhz": 2596,
            "us_per_io": cost,
            "mhz_per_iops": cost * 2596 / 1e6,
            "busiest_core_percent": min(100.0, busy * 1.3),
        },
        "checks": [
            {
                "name": "device_counters",
                "ok": repetition != 2 or kind != "guest",
                "engine_bytes": 4096000,
                "device_bytes": 4096000,
            }
        ],
    }
    if kind in ("initiator", "datastore", "guest"):
        found["counters"] = {
            "hosts": {
                "target01": {
                    "cpu": {
                        "host_busy_percent": busy * 0.8,
                        "us_per_io": cost * 0.7,
                        "mhz_per_iops": cost * 0.7 * 2596 / 1e6,
                    }
                }
            }
        }
    if kind == "guest":
        found["counters"]["esxi"] = {
            "gavg_ns": latency * 0.93,
            "davg_ns": latency * 0.8,
            "kavg_ns": latency * 0.13,
            "qavg_ns": latency * 0.05,
        }
    if kind in ("backing", "guest"):
        rounds = [found["total"]["iops"] * make_fixture.wobble(name, named, repetition, count) for count in range(6)]
        window = rounds[-5:]
        excursion = 100 * (max(window) - min(window)) / (sum(window) / 5)
        found["steady_state"] = {
            "metric": "iops",
            "steady": excursion <= 11,
            "window": 5,
            "rounds": rounds,
            "round_s": 4,
            "excursion_percent": excursion,
            "slope_percent": 1.25,
            "limits": {"excursion_percent": 11, "slope_percent": 10},
            "budget_s": 120,
        }
        if excursion > 11:
            found["flags"].append("not_steady")
    return found


@written_once
def write_run(base: str, shape: str = "everything", repetitions: int = 2) -> str:
    """Write <base>/synthetic/<run>; returns its folder."""
    folder = os.path.join(base, TESTBED, RUN_ID)
    names = {"everything": ("blocks", "workers", "matrix", "load"), "small": ("small", "chain")}.get(shape, (shape,))
    asked = [SHAPES[name] for name in names]
    wanted = {
        (layer[0], workload_id(one)): (layer, one)
        for layers, workloads in asked
        for one in workloads
        for layer in layers
    }
    make_fixture.save(
        os.path.join(folder, "layers.json"),
        {
            name: {
                "name": name,
                "kind": kind,
                "host": host,
                "path": path,
                "parent": parent,
                "purpose": "scratch",
                "size_bytes": 67108864 if path else 0,
                "identity": {},
                "detail": {},
            }
            for name, kind, host, parent, path, *_figures in LAYERS
        },
    )
    for host, memory in (("target01", 8589934592), ("hypervisor01", 805306368), ("guest01", 402653184)):
        make_fixture.save(
            os.path.join(folder, "hosts", f"{host}.json"),
            {**make_fixture.fingerprint(host, memory), "simulated": "synthetic figures, nothing was measured"},
        )
    make_fixture.save(
        os.path.join(folder, "run.json"),
        {
            "testbed_id": TESTBED,
            "run_id": RUN_ID,
            "requests": [
                {
                    "profile": {"name": f"synthetic_{shape}", "version": "1.0", "published": PUBLISHED},
                    "order": "interleaved",
                    "hosts": ["target01"],
                }
            ],
        },
    )
    for guest, datastore, duration_s, rate in (("ram", "lab-ds1", 512.25, 211.5), ("raid", "lab-raid", 1490.5, 187.0)):
        samples = make_fixture.save(
            os.path.join(folder, "installations", "samples", f"{guest}.json"),
            {"host_samples": {"columns": [], "rows": []}},
        )
        make_fixture.save(
            os.path.join(folder, "installations", f"{guest}.json"),
            {
                "schema": "storlab.installation/1",
                "testbed_id": TESTBED,
                "run_id": RUN_ID,
                "guest": guest,
                "host": "hypervisor01",
                "simulated": True,
                "duration_s": duration_s,
                "ended_by": "powered_off",
                "datastore": datastore,
                "iso": f"[{datastore}] setup.iso",
                "counters": {
                    "samples": int(duration_s // 20) - 1,
                    "datastore": {
                        "name": datastore,
                        "commands_s": {"mean": rate, "p95": rate + 170, "max": rate + 190},
                    },
                    "raw": {"file": f"samples/{guest}.json", "sha256": samples},
                },
            },
        )
    index = 0
    for repetition in range(1, repetitions + 1):
        for layer, one in wanted.values():
            content = result(layer, one, repetition, index)
            samples = series(
                content["total"]["iops"],
                content["total"]["latency_mean_ns"],
                content["cpu"]["host_busy_percent"],
                (layer[0], repetition),
            )
            path = os.path.join(folder, "points", content["point_id"], "series.json")
            content["series"] = {"file": "series.json", "sha256": make_fixture.save(path, json.dumps(samples))}
            make_fixture.save_result(folder, content)
            index += 1
    return folder


def knee_depth(layer: tuple, depths: tuple) -> int:
    """The measured depth nearest to where IOPS over latency is greatest."""
    return min(depths, key=lambda depth: abs(math.log(depth / layer[6])))


if __name__ == "__main__":
    print(write_run(sys.argv[1], *(int(argument) if argument.isdigit() else argument for argument in sys.argv[2:])))
