# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The throughput of the network alone."""

from __future__ import annotations

from ....module_utils.core import units
from ...compare.networks import rate as bit_rate
from ..nouns import Report
from ..tables import Table, cell, words


def of_run(report: Report) -> dict[str, object] | None:
    """{unmeasured, table}: what the network alone carried between two hosts, and which layer used most of it."""
    if not report.networks:
        return None
    rows = []
    for line in report.networks:
        if "note" in line:
            continue
        most = line.get("used")
        rows.append(
            (
                "",
                line["host"],
                [
                    words(f"{line['target']} ({line['address']})"),
                    *(cell(line[key], bit_rate(line[key])) for key in ("to_target_bits_s", "from_target_bits_s")),
                    cell(line["round_trip_ns"], units.latency(line["round_trip_ns"])),
                    cell(most and 100 * most["share"], units.percent(most["share"]) if most else ""),
                    words(f"{most['layer']}, {most['workload']}, {most['way']}" if most else ""),
                ],
            )
        )
    head = [
        ("Host", False),
        ("Target", False),
        ("to the target", True),
        ("from the target", True),
        ("there and back", True),
        ("most used", True),
        ("by", False),
    ]
    return {
        "unmeasured": [line["sentence"] for line in report.networks if "note" in line],
        "table": Table("Network alone", head, rows) if rows else None,
    }
