# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All workloads that are asked for, out of a profile or of workloads, with what replaces some of their values; and what they take of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.failure import bad_value
from .sweep import expand, expand_all
from .workload import Workload, block_bounds, workload_id


def wanted_workloads(args: dict[str, Any], profile: dict[str, Any] | None) -> list[Workload]:
    """All normalised workloads of {workload, workloads, sweep, exclude}, each None where not given.

    A profile's are taken as they are, except for what ``workload`` and ``sweep`` replace in each.
    """
    if args["workloads"] is not None and (profile is not None or args["workload"] is not None):
        raise bad_value(
            "workloads",
            args["workloads"],
            "Give it alone, or leave it out; with profile, workload gives the differences from it.",
        )
    exclude = args["exclude"] or None
    if profile is not None:
        values = {**(args["workload"] or {}), **(args["sweep"] or {})}
        workloads = [replaced(workload, values) for workload in profile["workloads"]]
        # Workloads that differed only in the replaced words are one workload now.
        workloads = [workload for index, workload in enumerate(workloads) if workload not in workloads[:index]]
        # The profile alone is sound, so what is wrong is what replaces its values.
        variable = " and ".join(name for name in ("workload", "sweep") if args[name])
        return expand_all(
            workloads,
            None,
            f"{variable} on profile {profile['name']}" if variable else f"profile {profile['name']}",
            exclude,
        )
    if args["workloads"] is not None:
        return expand_all(args["workloads"], args["sweep"], "workloads", exclude)
    if args["workload"] is None and args["sweep"] is None:
        raise bad_value("workload", None, "Give profile, workload, workloads or sweep.")
    return expand(args["workload"], args["sweep"], exclude=exclude)


def replaced(workload: Mapping[str, object], values: Mapping[str, object]) -> dict[str, object]:
    """The workload with other values; a value takes the place of what says the same in other words (block_size, block_size_bytes, block_sizes …)."""
    rival = {
        "block_size": ("block_size", "block_size_bytes", "block_sizes", "block_size_range"),
        "alignment": ("alignment", "alignment_bytes"),
    }
    gone = {other for key in values for name, others in rival.items() if key.startswith(name) for other in others}
    if any(key.startswith("block_size") for key in values) and workload.get("alignment_bytes") == workload.get(
        "block_size_bytes"
    ):
        # It was the block size because nothing else was said.
        gone.add("alignment_bytes")
    return {**{key: value for key, value in workload.items() if key not in gone}, **values}


def buffer_bytes(workload: Workload) -> int:
    """The memory of an engine for I/O in flight: a buffer of the largest size for each, of every worker."""
    return int(workload["workers"] * workload["queue_depth"] * block_bounds(workload)[1])


def greatest_buffers(workloads: list[Workload]) -> tuple[int, str]:
    """(bytes, arithmetic) of the workload that needs most; (0, '') of none."""
    most = max(workloads, key=buffer_bytes, default=None)
    if most is None:
        return 0, ""
    count, size = most["workers"], block_bounds(most)[1]
    workers = f"{count} worker{'s' * (count != 1)}"
    return buffer_bytes(most), f"{workload_id(most)}: {workers} × {most['queue_depth']} in flight × {size / 1024:g} KiB"
