#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What reading many results costs, in CPU seconds and memory. See read_results.md."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), *(str(ROOT / "tests" / room) for room in ("", "support", "standins"))]
importlib.import_module("tests.conftest")  # lets the collection be imported from the checkout
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio
from ansible_collections.storlab.testbed.plugins.module_utils.result import result as schema
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import point_index, store

LAYERS = ("ceiling-a", "backing-a", "target-a", "initiator-a")
DEPTHS = (1, 8, 32)


def measure() -> list:
    """json+ documents of a real fio, mixed reads and writes on its null engine."""
    return [
        subprocess.run(
            [
                "fio",
                "--name=job",
                "--ioengine=null",
                "--rw=randrw",
                "--rwmixread=70",
                "--size=1g",
                "--bs=4k",
                f"--iodepth={depth}",
                "--time_based",
                "--runtime=1",
                "--norandommap",
                "--group_reporting",
                "--numjobs=2",
                "--thread",
                "--lat_percentiles=1",
                "--clat_percentiles=0",
                "--output-format=json+",
                "--percentile_list=50:95:99:99.9:99.99",
            ],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for depth in DEPTHS
    ]


def write_points(run: Path, count: int, documents: list) -> None:
    for number in range(count):
        layer, depth = LAYERS[number % 4], DEPTHS[number % 3]
        point = f"{layer}.4k-r70-rnd100-qd{depth}-w2.r{number + 1}"
        folder = run / "points" / point
        folder.mkdir(parents=True)
        text = documents[number % 3]
        (folder / "fio.json").write_text(text, encoding="utf-8")
        (own,) = fio.results(text) if number < 3 else (CACHE[number % 3],)
        CACHE[number % 3] = own
        found = {
            **own,
            "testbed_id": "lab",
            "run_id": run.name,
            "point_id": point,
            "layer": layer,
            "layer_kind": layer.partition("-")[0],
            "host": "target01",
            "workload_id": f"4k-r70-rnd100-qd{depth}-w2",
            "repetition": number + 1,
            "started_utc": "2026-11-21T10:00:00Z",
            "finished_utc": "2026-11-21T10:00:01Z",
            "raw": {"file": "fio.json", "sha256": "0" * 64},
        }
        (folder / "result.json").write_text(schema.dump(found), encoding="utf-8")
        os.utime(folder / "result.json", (1_700_000_000.5, 1_700_000_000.5))


CACHE: dict = {}


def read_raw(run: Path) -> int:
    """Every fio.json anew, percentiles from the bins, one result in memory at a time as a report keeps its figures."""
    figures = []
    for folder in os.scandir(run / "points"):
        with open(os.path.join(folder.path, "fio.json"), encoding="utf-8") as handle:
            (own,) = fio.results(handle.read())
        figures.append([own["total"][key] for key in ("iops", "latency_mean_ns", *schema.PERCENTILES.values())])
    return len(figures)


def read_results(run: Path) -> int:
    """Every result.json: a store that finds no index, and makes one."""
    (run / point_index.FILE).unlink(missing_ok=True)
    return len(store.open_run(str(run)).rows)


def read_store(run: Path) -> int:
    """Load, filter and summarise by the index."""
    opened = store.open_run(str(run))
    groups: dict = {}
    for row in opened.select(layer=["backing-a", "target-a"], status="measured", workload__read_percent=70):
        groups.setdefault((row["layer"], row["workload_id"]), []).append(row["total"]["iops"])
    medians = {key: sorted(values)[len(values) // 2] for key, values in groups.items()}
    return opened.overview()["points"] if len(medians) == len(DEPTHS) * 2 else 0


def in_a_process(function: str, run: Path) -> tuple:
    """(count, CPU seconds, peak MB more than an empty process) in a process of its own, imports not counted."""
    said = subprocess.run(
        [sys.executable, __file__, "--only", function, "--run", str(run)], check=True, capture_output=True, text=True
    ).stdout
    told = json.loads(said)
    return told["count"], told["cpu_s"], told["peak_mb"]


def only(function: str, run: Path) -> None:
    begun = time.process_time()
    count = globals()[function](run)
    print(
        json.dumps(
            {
                "count": count,
                "cpu_s": time.process_time() - begun,
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, nargs="*", default=[1000, 10000])
    parser.add_argument("--only", choices=["read_raw", "read_results", "read_store"], help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        only(arguments.only, arguments.run)
        return
    documents = measure()
    print(
        f"fio.json of {', '.join(str(len(text) // 1000) for text in documents)} kB; orjson {'is' if store.orjson else 'is not'} installed"
    )
    for points in arguments.points:
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "lab" / "one"
            write_points(run, points, documents)
            for function in ("read_raw", "read_results", "read_store"):
                count, cpu_s, peak_mb = in_a_process(function, run)
                if count != points:
                    raise SystemExit(f"{function} read {count} of {points} points.")
                print(f"{function:13} {points:6} points: {cpu_s:6.2f} s CPU, {peak_mb:5.0f} MB at most")


if __name__ == "__main__":
    main()
