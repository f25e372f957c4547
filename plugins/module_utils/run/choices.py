# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rate of each way of issuing I/O on this host when nothing waits: measured once per host and run, see result/choices.py.

One start of fio with a job for each choice, one after the other, on /dev/zero: it is read without waiting, leaves nothing behind, and is no
file of ours. A host that cannot do one of them is measured all the same, and its figure is absent.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from ..core.failure import Failure
from ..engines import fio, fio_documents
from ..result.choices import CHOICES, Choice

FIGURES = "fio_choices"  # in a plan, and in what a host shows of itself
PATH = "/dev/zero"
RUNTIME_S = 0.2
PATIENCE_S = 60
LEAST_IOS = 100


def arguments(path: str = PATH, clock: str | None = None, runtime_s: float = RUNTIME_S) -> list[str]:
    """fio's arguments: what all jobs share, then the jobs."""
    shared = [
        f"--filename={path}",
        "--size=16777216",
        "--rw=randread",
        "--norandommap",
        "--bs=4k",
        "--thread",
        "--time_based",
        f"--runtime={runtime_s * 1000:.0f}ms",
        *([f"--clocksource={clock}"] if clock else []),
    ]
    return [
        "--output-format=json",
        *(argument for choice in CHOICES for argument in _job(choice, shared)),
    ]


def _job(choice: Choice, shared: list[str]) -> list[str]:
    batch = [f"--iodepth_batch_submit={choice.batch}", f"--iodepth_batch_complete_min={choice.batch}"]
    return [
        f"--name={choice.name}",
        *shared,
        f"--ioengine={choice.ioengine}",
        f"--iodepth={choice.depth}",
        *(batch if choice.batch > 1 else []),
        "--stonewall",
    ]


def figures(output: str) -> dict[str, int]:
    """{name of a choice: I/Os per second} out of what fio wrote; empty when it cannot be read."""
    try:
        document, _messages = fio_documents.parse(output)
        jobs = [job for part in document for job in fio.records(part)]
    except (Failure, KeyError, TypeError, ValueError):
        return {}
    known, names = {}, {choice.name for choice in CHOICES}
    for job in jobs:
        read = job.get("read")
        if not isinstance(read, dict):
            continue
        iops, ios = read.get("iops"), read.get("total_ios")
        if job.get("jobname") in names and not job.get("error") and iops and (ios or 0) >= LEAST_IOS:
            known[str(job["jobname"])] = round(iops)
    return known


def play(
    engine: str,
    folder: str,
    in_child: Callable[[], None] | None = None,
    clock: str | None = None,
    path: str = PATH,
    runtime_s: float = RUNTIME_S,
) -> dict[str, int]:
    """The figures of this host, measured now. engine: path of fio; folder: where it runs; clock: as of beat.clock_of. Never fails."""
    try:
        done = subprocess.run(
            [engine, *arguments(path, clock, runtime_s)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            start_new_session=True,
            preexec_fn=in_child,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return figures(done.stdout.decode("utf-8", "replace"))
