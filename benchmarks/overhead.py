#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What storlab.testbed.benchmark costs over bare fio: the same job files both ways, interleaved. See overhead.md.

Without --device it uses fio's null engine, which needs no rights and where any disturbance shows best.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", help="block device to overwrite, e.g. a loop device on a tmpfs file")
    parser.add_argument("--rounds", type=int, default=3, help="how often both ways are measured (default 3)")
    parser.add_argument("--runtime-s", type=int, default=2, help="measured seconds of a point (default 2)")
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 8], help="queue depths (default 1 8)")
    parser.add_argument("--sizes", nargs="+", default=["4k", "64k"], help="block sizes (default 4k 64k)")
    return parser.parse_args()


def layer(device: str | None) -> dict:
    base = {"host": "localhost", "parent": None, "purpose": "scratch", "size_bytes": 1 << 30, "identity": {}}
    if device is None:
        return {**base, "name": "ceiling-localhost", "kind": "ceiling", "path": None}
    number = os.stat(device).st_rdev
    with open(device, "rb") as handle:
        size = handle.seek(0, os.SEEK_END)
    return {
        **base,
        "name": "backing-device",
        "kind": "backing",
        "path": device,
        "size_bytes": size,
        "identity": {"major_minor": f"{os.major(number)}:{os.minor(number)}"},
    }


def playbook(folder: Path, round_number: int, options: argparse.Namespace) -> Path:
    path = folder / f"round{round_number}.yml"
    task = {
        "storlab.testbed.benchmark": {
            "testbed_id": "overhead",
            "run_id": f"round{round_number}",
            "results_dir": str(folder),
            "layers": [layer(options.device)],
            "prepare": {"fill": False},
            "workload": {"ramp_s": 0, "runtime_s": options.runtime_s},
            "progress": "none",
            "sweep": {"read_percent": [100, 70, 0], "queue_depth": options.depths, "block_size": options.sizes},
        }
    }
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [task]}
    path.write_text(json.dumps([play]), encoding="utf-8")
    return path


def ours(path: Path, folder: Path, round_number: int) -> tuple:
    """(seconds of the whole command, [seconds between two points], {point: IOPS})."""
    begun = time.monotonic()
    done = subprocess.run(["ansible-playbook", str(path)], cwd=ROOT, capture_output=True, text=True, check=False)
    wall = time.monotonic() - begun
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    stored = [
        json.loads(found.read_text(encoding="utf-8"))
        for found in (folder / "overhead" / f"round{round_number}").glob("points/*/result.json")
    ]
    stored.sort(key=lambda result: result["started_utc"])
    # From fio's end to its next start is all that we add to a point: reading, noting, the guard, the job file.
    gaps = [
        (moment(late["started_utc"]) - moment(early["finished_utc"])).total_seconds()
        for early, late in zip(stored, stored[1:])
    ]
    return wall, gaps, {result["point_id"]: result["total"]["iops"] for result in stored}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def bare(folder: Path, round_number: int, points: list) -> tuple:
    """(seconds of all points, {point: IOPS}) of a loop that only starts fio with the same job files."""
    figures, begun = {}, time.monotonic()
    for point in points:
        job = folder / "overhead" / f"round{round_number}" / "points" / point / "job.fio"
        subprocess.run(
            ["fio", "--output-format=json+", f"--output={folder}/bare.json", str(job)],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        record = json.loads(Path(folder, "bare.json").read_text(encoding="utf-8"))["jobs"][0]
        figures[point] = record["read"]["iops"] + record["write"]["iops"]
    return time.monotonic() - begun, figures


def main() -> None:
    options = arguments()
    walls, gaps, ratios = [], [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for number in range(1, options.rounds + 1):
            wall, found, with_us = ours(playbook(folder, number, options), folder, number)
            bare_wall, without = bare(folder, number, list(with_us))
            walls.append((wall - bare_wall) / len(with_us))
            gaps += found
            ratios += [with_us[point] / without[point] for point in with_us]
            print(
                f"round {number}: {len(with_us)} points, {wall:.1f} s with us (ansible-playbook included), {bare_wall:.1f} s bare fio",
                flush=True,
            )
    low, _median, high = statistics.quantiles(ratios, n=4)
    print(
        f"between two points:               {statistics.median(gaps):.3f} s (median of {len(gaps)}, highest {max(gaps):.3f})"
    )
    print(
        f"whole command over bare fio:      {statistics.median(walls):.3f} s a point, start of ansible-playbook and collecting included"
    )
    print(f"IOPS with us / bare fio:          {statistics.median(ratios):.3f} (quartiles {low:.3f} … {high:.3f})")


if __name__ == "__main__":
    sys.exit(main())
