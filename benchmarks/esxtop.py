#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What reading a large file of esxtop costs, in CPU seconds and memory. See esxtop.md."""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / room) for room in ("", "support", "standins")]
importlib.import_module("conftest")  # lets the collection be imported from the checkout
from ansible_collections.storlab.testbed.plugins.module_utils.engines import esxtop

DEVICE = (
    "Commands/sec",
    "Reads/sec",
    "Writes/sec",
    "MBytes Read/sec",
    "MBytes Written/sec",
    "Average Driver MilliSec/Command",
    "Average Kernel MilliSec/Command",
    "Average Guest MilliSec/Command",
    "Average Queue MilliSec/Command",
)


def write(path: str, columns: int, samples: int) -> None:
    """A synthetic file: 64 devices with nine counters each, the rest are virtual processors."""
    names = [rf"\\esx7\Physical Disk SCSI Device(naa.{device})\{counter}" for device in range(64) for counter in DEVICE]
    names += [rf"\\esx7\Vcpu({number}:vm)\% Used" for number in range(columns - len(names) - 1)]
    with open(path, "w", encoding="ascii") as handle:
        handle.write(",".join(f'"{name}"' for name in ["(PDH-CSV 4.0) (UTC)(0)", *names]) + "\n")
        for sample in range(samples):
            values = ",".join(f'"{(sample * 37 + place) % 997}.{place % 100:02}"' for place in range(len(names)))
            handle.write(f'"02/03/2026 {sample // 3600:02}:{sample // 60 % 60:02}:{sample % 60:02}",{values}\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, default=16000)
    parser.add_argument("--samples", type=int, default=1500)
    asked = parser.parse_args()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "counters.csv")
        # In a process of its own, so that this one's peak is the reader's.
        child = os.fork()
        if child == 0:
            write(path, asked.columns, asked.samples)
            os._exit(0)
        os.waitpid(child, 0)
        started = time.process_time()
        with open(path, encoding="utf-8") as handle:
            found = esxtop.read(handle)
        spent = time.process_time() - started
        size = os.path.getsize(path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{asked.columns} columns, {found['samples']} samples, {size / 1e6:.0f} MB: {spent:.1f} s CPU, {size / 1e6 / spent:.0f} MB/s, "
        f"peak {peak / 1024:.0f} MiB, of which {before / 1024:.0f} MiB before reading"
    )


if __name__ == "__main__":
    main()
