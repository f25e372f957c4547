# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A percentile that hardly an I/O is beyond has no verdict."""

from __future__ import annotations

from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import comparison, points


def group(ios: int, p99_9: int, first: int = 1) -> list[dict]:
    return [
        {
            "layer": "backing-a",
            "workload_id": "w",
            "repetition": number,
            "total": {"ios": ios, "iops": 100.0 + number, "latency_p99_9_ns": p99_9 + number},
        }
        for number in range(first, first + 6)
    ]


def row_of(ios: int, metric: str) -> dict:
    made = comparison.compare(group(ios, 1_000), group(ios, 9_000), metrics=[metric])
    return next(row for row in made["rows"] if row["metric"] == metric)


def test_twenty_ios_have_no_p99_9():
    row = row_of(20, "latency_p99_9_ns")
    assert (row["verdict"], "120 I/Os, too few for p99.9" in row["why"]) == ("no_verdict", True)
    assert row_of(2_000, "latency_p99_9_ns")["verdict"] != "no_verdict"
    assert row_of(20, "iops")["verdict"] != "no_verdict"


def test_a_percentile_without_a_count_stays():
    metric = points.KNOWN["latency_p99_ns"]
    assert points.thin({1: {"total": {"latency_p99_ns": 5}}}, metric) is None
    assert points.thin({1: {"total": {"ios": 999}}}, metric)
    assert points.thin({1: {"total": {"ios": 400}}, 2: {"total": {"ios": 600}}}, metric) is None
