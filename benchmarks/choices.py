#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each way of issuing I/O reaches when nothing waits: /dev/zero, as the runner measures it, and a file in tmpfs. See docs/benchmark.md."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "tests" / room) for room in ("", "support", "standins")]
import conftest  # noqa: F401, makes the collection importable
from ansible_collections.storlab.testbed.plugins.module_utils.result.choices import CHOICES
from ansible_collections.storlab.testbed.plugins.module_utils.run import choices

FILE_BYTES = 16 << 20


def table(title: str, rounds: list[dict[str, int]]) -> None:
    """Medians and the share of psync at depth 1, each the median of the rounds' own ratios."""
    print(f"{title}, {len(rounds)} round(s), load average {os.getloadavg()[0]:.1f}\n")
    print("| ioengine | queue depth | submitted at once | I/Os per second | of psync | quartiles |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for choice in CHOICES:
        rates = [figures[choice.name] for figures in rounds if choice.name in figures]
        shares = [
            figures[choice.name] / figures["psync_1"] for figures in rounds if {choice.name, "psync_1"} <= set(figures)
        ]
        if not rates or not shares:
            continue
        low, _middle, high = statistics.quantiles(shares, n=4) if len(shares) > 1 else shares * 3
        print(
            f"| {choice.ioengine} | {choice.depth} | {choice.batch} | {statistics.median(rates):,.0f} | "
            f"{statistics.median(shares):.2f} | {low:.2f}–{high:.2f} |"
        )
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--runtime-s", type=float, default=choices.RUNTIME_S)
    options = parser.parse_args()
    fio = shutil.which("fio")
    if not fio:
        sys.exit("fio is not installed.")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:  # noqa: S108, it is removed
        path = os.path.join(folder, "memory")
        Path(path).write_bytes(os.urandom(1 << 20) * (FILE_BYTES >> 20))
        # In turns, so that what the machine does meanwhile meets both.
        places = {"/dev/zero": choices.PATH, "A file in memory": path}
        rounds: dict[str, list] = {title: [] for title in places}
        for _round in range(options.rounds):
            for title, place in places.items():
                rounds[title].append(choices.play(fio, folder, path=place, runtime_s=options.runtime_s))
    for title, figures in rounds.items():
        table(title, figures)


if __name__ == "__main__":
    main()
