# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The failure of a benchmark whose points failed, of a task alone and of all turns of a host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...module_utils.core.failure import Failure, Fault, messages


def points_failed(host: str, run_dir: str, failed: Mapping[str, Sequence[Fault]], count: int) -> Failure:
    """failed: by point; count: of all points, those that were measured among them."""
    first, faults = next(iter(failed.items()))
    return Failure(
        "points_failed",
        f"{len(failed)} of {count} points on {host} failed, first {first}: {messages(faults)}",
        f"The measured points are kept in {run_dir}; repair it and run again, only the missing ones are measured.",
        failed=dict(failed),
        measured=count - len(failed),
        run_dir=run_dir,
    )


def of_turns(host: str, failures: Sequence[Failure], count: int) -> Failure:
    """failures: points_failed of the turns in which points failed; count: of the points of all turns."""
    failed = {point: faults for failure in failures for point, faults in failure.details["failed"].items()}
    return points_failed(host, failures[0].details["run_dir"], failed, count)
