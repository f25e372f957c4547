# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mean latency of a layer divided among those below it, by the counters of their devices."""

from __future__ import annotations

from ....module_utils.core import units
from ..nouns import Waterfall
from ..split import Split
from ..tables import Table, cell, words


def tables(waterfall: Waterfall) -> list[dict[str, object]]:
    """[{layer, verdict, notes, table}]: the mean latency of the layers at the top divided among the layers below, as the devices counted at that time."""
    return [
        {
            "layer": shares.layer,
            "verdict": shares.verdict,
            "notes": shares.notes,
            "table": _split_table(waterfall, shares),
        }
        for shares in waterfall.splits
    ]


def _split_table(waterfall: Waterfall, shares: Split) -> Table:
    rows = []
    for part in shares.parts:
        rows.append(
            (
                "",
                ", ".join(part.layers),
                [
                    words(f"{part.device} on {part.host}" if part.device else f"the engine on {part.host}"),
                    cell(part.ios_per_io, "" if part.ios_per_io is None else f"{part.ios_per_io:.2f}"),
                    cell(part.at_ns, units.latency(part.at_ns)),
                    cell(part.own_ns, _with_interval(part.own_ns, part.own_between_ns)),
                    cell(part.share, units.percent(part.share)),
                    cell(part.above_ns, units.latency(part.above_ns)),
                    cell(part.waterfall_ns, units.added_latency(part.waterfall_ns)),
                    cell(
                        part.against_ns,
                        _with_interval(part.against_ns, part.against_between_ns),
                        "warn" if part.apart else "",
                    ),
                ],
            )
        )
    head = [
        ("Layers", False),
        ("counted from", False),
        ("requests per I/O", True),
        ("here and below", True),
        ("their part (95 %)", True),
        ("share", True),
        ("in engine and kernel", True),
        ("waterfall adds", True),
        ("counters − waterfall (95 %)", True),
    ]
    return Table(f"Split by counters, {shares.layer}, {waterfall.workload_id}", head, rows, "split")


def _with_interval(value: float | None, between: tuple[float, float] | None) -> str:
    """'+1.21 ms (+1.10 ms to +1.32 ms)'; one repetition has no interval."""
    ends = f" ({units.added_latency(between[0])} to {units.added_latency(between[1])})" if between else ""
    return f"{units.added_latency(value)}{ends}"
