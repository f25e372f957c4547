# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference beat: the same short work on a host before every round, so that a host that itself became slower or faster is not mistaken for its storage.

fio's null engine for ``NULL_S`` (the processor, and what an I/O costs in fio) and the memory copy of memory_use.py. No device and no point takes part in
it, no figure is corrected by it, and a host that cannot play it is measured all the same.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

from ..core.failure import Failure, messages
from ..core.times import utc
from ..engines import fio
from ..linux.watch import memory_use as memory

FILE = "beat.json"  # of the round that began last, in the run's folder on the host
CLOCK = "fio_clock"  # in a plan, and in what a host shows of itself: the clock that fio reads
NULL_S = 0.5
# With the start of fio and the copying of memory.
EXPECTED_S = 1.2
# An emulated machine may need many seconds to start fio.
PATIENCE_S = 60
ARGUMENTS = (
    "--name=beat",
    "--ioengine=null",
    "--size=1073741824",
    "--rw=read",
    "--bs=4k",
    "--iodepth=1",
    "--thread",
    "--time_based",
    f"--runtime={NULL_S * 1000:.0f}ms",
    "--output-format=json+",
)


def begins(points: list[dict[str, Any]]) -> set[int]:
    """Places (from 0) of the points before which a round begins: where the repetition changes; the first alone where each point is repeated at once."""
    repetitions = [point["repetition"] for point in points]
    if repetitions != sorted(repetitions):
        return {0}
    return {place for place, number in enumerate(repetitions) if place == 0 or number != repetitions[place - 1]}


def figures(output: str, copied_bytes_s: float | None) -> dict[str, Any]:
    """{null_iops, memory_copy_bytes_s, note} of a beat, out of what fio said and how fast memory was copied (None: it was not).

    null_iops: I/Os of the null engine per second. Unknown values are absent; note then says why.
    """
    known: dict[str, Any] = {}
    try:
        (result,) = fio.results(output)
        why = messages(result["failures"])
        known["null_iops"] = round(result["total"]["iops"]) if not why else 0
    except Failure as failure:
        why = failure.what
    except (KeyError, ValueError):
        why = "it left no figure of one job"
    if not known.get("null_iops"):
        known = {"note": f"fio's null engine was not measured: {why or 'it issued no I/O'}"}
    if copied_bytes_s:
        known["memory_copy_bytes_s"] = round(copied_bytes_s)
    return known


CLOCKS = ("cpu", "clock_gettime")
# How often fio's test of the processor's clock has to pass, one after another. One test takes about 0.1 s.
PASSES = 8


def clock_of(engine: str) -> str | None:
    """The clock that fio is to read on this host: the processor's if it passes fio's own test PASSES times and is reliable by it, else the system's.
    None without fio.

    The test passes on a processor without an invariant counter (``cs: reliable_tsc: no``, as in an emulated machine), of which every job would write
    that its clock may not be reliable. Left alone fio tests the processor's clock at every start. Where the counters of two processors are a few
    cycles apart, the test passes now and then, more often on a busy machine: 1 time in 30 was seen, and 5 in 16. By one test two runs of such a
    host would read two clocks of different cost. engine: path of fio.
    """
    for _ in range(PASSES):
        try:
            done = subprocess.run(
                [engine, "--cpuclock-test"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        if done.returncode or b"reliable_tsc: no" in done.stdout:
            return "clock_gettime"
    return "cpu"


def play(
    engine: str, folder: str, in_child: Callable[[], None] | None = None, clock: str | None = None
) -> dict[str, Any]:
    """{started_utc} and the figures of a beat played now. engine: path of fio; folder: where it runs; clock: as of clock_of. Never fails."""
    begun, output, copied = utc(), "", None
    try:
        done = subprocess.run(
            [engine, *ARGUMENTS, *([f"--clocksource={clock}"] if clock else [])],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
            start_new_session=True,
            preexec_fn=in_child,
            check=False,
        )
        output = done.stdout.decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError) as error:
        output = f"{type(error).__name__}: {error}"
    try:
        copied = memory.copy_bytes_s()
    except (MemoryError, RuntimeError, OSError):
        pass  # its figure is absent
    return {"started_utc": begun, **figures(output, copied)}
