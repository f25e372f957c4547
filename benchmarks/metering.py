#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processor time that counters, series and state take while fio measures. See overhead.md. Needs no rights: it uses fio's null engine."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "tests" / room) for room in ("", "support", "standins")]
import conftest  # noqa: F401, makes the collection importable
from ansible_collections.storlab.testbed.plugins.module_utils.run import runner
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise, workload_id

LAYER = {
    "name": "ceiling-here",
    "kind": "ceiling",
    "host": "here",
    "path": None,
    "parent": None,
    "purpose": "scratch",
    "size_bytes": 1 << 30,
    "identity": {},
}


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime-s", type=int, default=20)
    parser.add_argument(
        "--workers",
        type=int,
        default=os.cpu_count(),
        help="threads of fio, each of which is looked at (default: one a core)",
    )
    options = parser.parse_args()
    workload = normalise({"runtime_s": options.runtime_s + 5, "ramp_s": 1, "workers": options.workers})
    plan = {
        "testbed_id": "metering",
        "run_id": "once",
        "layers": [LAYER],
        "known_layers": [LAYER],
        "repetitions": 1,
        "allow_device": [],
        "points": [
            {
                "point_id": "once",
                "layer": "ceiling-here",
                "workload": workload,
                "workload_id": workload_id(workload),
                "repetition": 1,
                "seed": 1,
            }
        ],
    }
    with tempfile.TemporaryDirectory() as base:
        pid = runner.start(plan, base)["pid"]
        try:
            while runner.status("metering", "once", base)["state"].get("phase") != "measure":
                time.sleep(0.1)
            before, begun = processor_s(pid), time.monotonic()
            time.sleep(options.runtime_s)
            spent, wall = processor_s(pid) - before, time.monotonic() - begun
        finally:
            runner.stop("metering", remove=True, base=base, discard=True)
    print(
        f"runner beside fio with {options.workers} threads: {1000 * spent / wall:.1f} ms of processor time a second, {100 * spent / wall:.2f} % of a core"
    )


if __name__ == "__main__":
    main()
