# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does the way in which fio issued I/O bound a figure? Judged by what the same way reaches on the host without a device.

A host's figures (run/choices.py) are I/Os per second of one worker that reads 4 KiB from the kernel's zeroes: nothing waits, so they measure the way of
issuing alone. A result whose worker does more than half of that spends more time on issuing than on the storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..workload.workload import Workload
from .schema import Check, Result


@dataclass(frozen=True)
class Choice:
    """A way of issuing: the I/O engine, the queue depth that was measured, and how many I/Os are submitted at once."""

    ioengine: str
    depth: int
    batch: int = 1

    @property
    def name(self) -> str:
        return f"{self.ioengine}_{self.depth}" + (f"_batch_{self.batch}" if self.batch > 1 else "")

    @property
    def words(self) -> str:
        batch = f" with iodepth_batch_submit and iodepth_batch_complete_min {self.batch}" if self.batch > 1 else ""
        return f"ioengine {self.ioengine}{batch}"


DEEP = 32
CHOICES = (
    Choice("psync", 1),
    Choice("libaio", 1),
    Choice("io_uring", 1),
    Choice("libaio", DEEP),
    Choice("io_uring", DEEP),
    Choice("libaio", DEEP, 8),
)
# From this queue depth on, what was measured at DEEP holds.
LEAST_DEEP = 8
# A worker above this share of what its choice reaches is bound by it, when another way is so much faster.
BOUND_PERCENT, BETTER_PERCENT = 50, 25
FLAG = "choice_bound"


def check(result: Result, figures: Mapping[str, object]) -> Check | None:
    """The check 'choice' of a result on a host with these figures {name: I/Os per second}; None where they say nothing of it."""
    workload, ioengine = result.get("workload") or {}, (result.get("engine") or {}).get("ioengine")
    depth, workers = workload.get("queue_depth"), workload.get("workers")
    iops = (result.get("total") or {}).get("iops")
    if not (isinstance(depth, int) and isinstance(workers, int) and workers and iops):
        return None
    if 1 < depth < LEAST_DEEP or _batched(workload):
        return None
    rivals = {
        choice: figure
        for choice in CHOICES
        if choice.depth == (1 if depth == 1 else DEEP) and (figure := _usable(figures.get(choice.name)))
    }
    ours = next((choice for choice in rivals if choice.ioengine == ioengine and choice.batch == 1), None)
    if ours is None:
        return None
    best = max(rivals, key=lambda choice: rivals[choice])
    share, gain = 100 * iops / workers / rivals[ours], 100 * (rivals[best] / rivals[ours] - 1)
    return {
        "name": "choice",
        "ok": share <= BOUND_PERCENT or gain <= BETTER_PERCENT,
        "share_percent": round(share, 1),
        "limit_percent": BOUND_PERCENT,
        "faster": best.words,
        "faster_percent": round(gain, 1),
    }


def _batched(workload: Workload) -> bool:
    options = (workload.get("engine_options") or {}).get("fio") or {}
    return any(str(name).startswith("iodepth_") for name in options)


def _usable(figure: object) -> float | None:
    """A number above 0, else None."""
    return float(figure) if isinstance(figure, (int, float)) and not isinstance(figure, bool) and figure > 0 else None
