#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the page of all runs of a testbed costs: processor time the first time, and when the runs' own indexes are there. See runs_index.md.

The runs are synthetic (tests/standins/synthetic_run.py): each is the same chain on another day, every tenth on another kernel.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = 6  # of the synthetic chain


def write(base: str, runs: int, points: int) -> str:
    """The folder of a testbed with so many runs of at least so many points."""
    sys.path[:0] = [str(ROOT / "tests" / room) for room in ("", "support", "standins")]
    import synthetic_run

    original = Path(synthetic_run.write_run(base, "chain", -(-points // LAYERS)))
    results = {
        path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in original.glob("points/*/result.json")
    }
    for number in range(1, runs):
        day = datetime(2026, 11, 21) + timedelta(days=number)
        run = original.parent / day.strftime("%Y%m%dT140000Z")
        for name, result in results.items():
            changed = {
                **result,
                "run_id": run.name,
                **{key: f"{day:%Y-%m-%d}{result[key][10:]}" for key in ("started_utc", "finished_utc")},
            }
            target = run / "points" / name
            target.mkdir(parents=True)
            (target / "result.json").write_text(json.dumps(changed), encoding="utf-8")
        (run / "hosts").mkdir()
        for path in (original / "hosts").iterdir():
            facts = json.loads(path.read_text(encoding="utf-8"))
            facts["kernel"]["release"] = f"6.1.0-{50 + number // 10}-cloud-amd64"
            (run / "hosts" / path.name).write_text(json.dumps(facts), encoding="utf-8")
        for name in ("layers.json", "run.json"):
            (run / name).write_bytes((original / name).read_bytes())
    return str(original.parent)


def measure(folder: str) -> None:
    """In a process of its own."""
    from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder

    _AnsibleCollectionFinder(paths=[str(ROOT / ".cache" / "collections")])._install()
    from ansible_collections.storlab.testbed.plugins.plugin_utils.report import index

    began = time.process_time()
    found = index.build(folder, set())
    built = time.process_time()
    files = index.files(found)
    print(
        json.dumps(
            {
                "runs": len(found["runs"]),
                "points": sum(run["points"] for run in found["runs"]),
                "cpu_s": [built - began, time.process_time() - built],
                "rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "page_bytes": len(files["index.html"].encode()),
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure)
        return
    print(f"{'runs':>5} {'points':>7} {'':>12} {'read s':>7} {'draw s':>7} {'MB of memory':>13} {'kB of page':>11}")
    for runs in arguments.runs:
        with tempfile.TemporaryDirectory() as base:
            folder = write(base, runs, arguments.points)
            for when in ("first time", "from then on"):
                done = subprocess.run(
                    [sys.executable, __file__, "--measure", folder], check=True, capture_output=True, text=True
                )
                found = json.loads(done.stdout)
                read, drawn = found["cpu_s"]
                print(
                    f"{found['runs']:>5} {found['points']:>7} {when:>12} {read:>7.2f} {drawn:>7.2f} {found['rss_bytes'] / 1e6:>13.0f} "
                    f"{found['page_bytes'] / 1e3:>11.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
