# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of an event on the way to a layer, out of the counts of the load and of the times that the event's host noted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .dip import dip

# Figures of a dip that are kept as they are.
KEPT = (
    "steady_iops",
    "resolution_s",
    "affected",
    "stall_least_s",
    "stall_most_s",
    "stalled_at_s",
    "begun_s",
    "recovered_s",
    "missing_ios",
    "made_up_ios",
)


def of_event(
    result: Mapping[str, Any], windows: Mapping[str, Any], event: Mapping[str, Any], clock: Mapping[str, float]
) -> dict[str, Any] | str:
    """The key ``event`` of a result (docs/results.md), or why there is none.

    windows: the runner's notes on the load, by the clock of its host. event: as path_event.events has it, by the clock of its own. clock: how far
    that one is ahead of the other, {clock_offset_s, clock_uncertain_s}.
    """
    if "missed" in event:
        return str(event["missed"])
    if not windows.get("counts"):
        return "The load left no counts, so nothing is known of its dip."
    least, most = event["begun_unix_s"]
    begun_s = (least + most) / 2 - clock["clock_offset_s"]
    uncertain_s = (most - least) / 2 + clock["clock_uncertain_s"]
    window_s, from_s = windows["counts_window_s"], windows["counts_from_unix_s"]
    # The load ended in the middle of the last window, so its few I/Os do not show a low rate.
    seen = dip(windows["counts"][:-1], window_s, begun_s - from_s, uncertain_s)
    if seen is None:
        return "The event came before enough of the load was known, or after it."
    of_dip: Any = seen
    figures: dict[str, Any] = {
        "kind": event["kind"],
        "for_s": round(sum(event["undone_unix_s"]) / 2 - (least + most) / 2, 3),
        "uncertain_s": round(uncertain_s, 3),
        "window_s": window_s,
        "from_s": round(from_s - begun_s, 3),
        "counts": list(windows["counts"]),
        "failed_ios": result.get("errors", {}).get("total", 0),
        **{
            key: of_dip[key] if isinstance(of_dip[key], bool) else round(of_dip[key], 3)
            for key in KEPT
            if key in of_dip
        },
    }
    # One figure for tables, beside its bounds.
    figures["stalled_s"] = (
        round((figures["stall_least_s"] + figures["stall_most_s"]) / 2, 3) if "stall_least_s" in figures else 0.0
    )
    first = windows.get("first_error_unix_s")
    if first:
        figures["error_least_s"], figures["error_most_s"] = (
            round(first[0] - begun_s - uncertain_s, 3),
            round(first[1] - begun_s + uncertain_s, 3),
        )
        figures["error_s"] = round((figures["error_least_s"] + figures["error_most_s"]) / 2, 3)
    if "verify" in result.get("workload", {}):
        figures["verified"] = result.get("status") == "measured"
    return figures


def name_of(variant: object, repetition: object) -> str:
    """The name of the event that happens while this is measured."""
    return f"{variant}.r{repetition}"
