#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a large description costs: a lab of so many hosts and disks is expanded, checked and drawn as the playbook show does. See show.md."""

from __future__ import annotations

import argparse
import cProfile
import io
import pstats
import resource
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / room) for room in ("", "support", "standins")]
import conftest  # noqa: F401, makes the collection importable
import large_lab

SIZES = ("500x500", "2000x200")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), help="hosts x disks, as 500x500")
    parser.add_argument("--profile", action="store_true", help="which functions take the time")
    options = parser.parse_args()
    for size in options.sizes:
        hosts, disks = map(int, size.split("x"))
        lab = large_lab.lab_of(hosts, disks)
        profiler = cProfile.Profile()
        begun = time.process_time()
        layers, drawn = profiler.runcall(large_lab.shown, lab) if options.profile else large_lab.shown(lab)
        seconds = time.process_time() - begun
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(
            f"{hosts} hosts, {disks} disks: {seconds:.1f} s of processor time, {layers} layers, {drawn} characters, {most} MiB",
            flush=True,
        )
        if options.profile:
            text = io.StringIO()
            pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(45)
            print(text.getvalue())


if __name__ == "__main__":
    main()
