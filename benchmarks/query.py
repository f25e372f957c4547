#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What it costs to filter and summarise all points of a testbed: the first time, from then on, and when every result is read. See query.md.

The runs are synthetic (tests/standins/synthetic_run.py): each is the same chain under the same 34 workloads on another day, every seventh point with a flag.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
POINTS = 1020  # of a run: 6 layers, 34 workloads, 5 repetitions
LAYERS, FLAG = ("backing-bench", "target-bench", "initiator-bench"), "buffered_io"


def write(base: str, points: int) -> str:
    """The folder of a testbed with so many points or a few more, whose files lie there long enough to be trusted."""
    sys.path[:0] = [str(ROOT / "tests" / room) for room in ("", "support", "standins")]
    import synthetic_run

    original = Path(synthetic_run.write_run(base, "large", 5))
    results = {
        path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in original.glob("points/*/result.json")
    }
    for number in range(1, -(-points // POINTS)):
        day = datetime(2026, 11, 21) + timedelta(days=number)
        run = original.parent / day.strftime("%Y%m%dT140000Z")
        for at, (name, result) in enumerate(results.items()):
            changed = {
                **result,
                "run_id": run.name,
                **{key: f"{day:%Y-%m-%d}{result[key][10:]}" for key in ("started_utc", "finished_utc")},
                "flags": [FLAG] if at % 7 == 0 else [],
            }
            target = run / "points" / name
            target.mkdir(parents=True)
            (target / "result.json").write_text(json.dumps(changed), encoding="utf-8")
    return str(original.parent)


def by_index(modules: dict, testbed: str) -> dict:
    """{(layer, workload): (points, median IOPS, flagged)} of the points that are measured and of these layers."""
    folders = modules["store"].runs(os.path.dirname(testbed), os.path.basename(testbed))
    told = modules["query"].query(
        folders, {"layer": LAYERS, "status": ["measured"], "read_percent": [70, 100]}, ["layer", "workload_id"]
    )
    return {
        (group["layer"], group["workload_id"]): (group["points"], group["iops"]["median"], group["flagged"])
        for group in told["groups"]
    }


def by_files(modules: dict, testbed: str) -> dict:
    """The same without any index: every result is read and checked."""
    members: dict = {}
    for path in sorted(Path(testbed).glob("*/points/*/result.json")):
        result, _reason = modules["store"].read_result(str(path))
        if (
            result["layer"] in LAYERS
            and result["status"] == "measured"
            and result["workload"]["read_percent"] in (70, 100)
        ):
            members.setdefault((result["layer"], result["workload_id"]), []).append(
                (result["total"]["iops"], bool(result["flags"]))
            )
    return {
        key: (
            len(values),
            statistics.median([iops for iops, _flag in values]),
            sum(flagged for _iops, flagged in values),
        )
        for key, values in members.items()
    }


def measure(way: str, testbed: str) -> None:
    """In a process of its own."""
    from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder

    _AnsibleCollectionFinder(paths=[str(ROOT / ".cache" / "collections")])._install()
    place = "ansible_collections.storlab.testbed.plugins.plugin_utils.store"
    modules = {name: importlib.import_module(f"{place}.{name}") for name in ("store", "query")}
    began, began_cpu = time.monotonic(), time.process_time()
    groups = {"index": by_index, "files": by_files}[way](modules, testbed)
    print(
        json.dumps(
            {
                "wall_s": time.monotonic() - began,
                "cpu_s": time.process_time() - began_cpu,
                "rss_bytes": peak_bytes(),
                "groups": sorted([*key, *values] for key, values in groups.items()),
            }
        )
    )


def peak_bytes() -> int:
    """Of this program alone: ru_maxrss would begin with that of the one which started it."""
    return int(Path("/proc/self/status").read_text(encoding="utf-8").split("VmHWM:")[1].split()[0]) * 1024


def measured(way: str, testbed: str) -> dict:
    command = [sys.executable, __file__, "--measure", testbed, "--way", way]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3, help="of the query by the index")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--way", choices=["index", "files"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.way, arguments.measure)
        return
    with tempfile.TemporaryDirectory() as base:
        testbed = write(base, arguments.points)
        total = sum(1 for _path in Path(testbed).glob("*/points/*/result.json"))
        taken = {
            "every result read": [measured("files", testbed)],
            "first time, with indexing": [measured("index", testbed)],
            "from then on": [measured("index", testbed) for _round in range(arguments.rounds)],
        }
        index_bytes = sum(path.stat().st_size for path in Path(testbed).glob("*/index.sqlite"))
    answers = {json.dumps(run["groups"]) for runs in taken.values() for run in runs}
    if len(answers) != 1:
        raise SystemExit("The ways do not give the same groups.")
    chosen = sum(group[2] for group in json.loads(answers.pop()))
    print(f"{total} points, {chosen} of them chosen; indexes of {index_bytes / 1e6:.0f} MB")
    whole = min(run["cpu_s"] for run in taken["every result read"])
    for name, runs in taken.items():
        cpu, wall = (min(run[key] for run in runs) for key in ("cpu_s", "wall_s"))
        memory = max(run["rss_bytes"] for run in runs) / 1e6
        print(f"{name:26} {cpu:7.2f} s CPU {wall:7.2f} s {memory:5.0f} MB  ratio {cpu / whole:.3f}")


if __name__ == "__main__":
    main()
