# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Latencies of fio that cannot be of the same I/Os are named, and those that can are not."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio_latency

BINS = {"bins": {"1000": 90, "2000": 9, "9000": 1}}


def latencies(whole: float, completion: float, **also) -> dict:
    return {"lat_ns": {"N": 100, "mean": whole}, "clat_ns": {"N": 100, "mean": completion, **also}}


@pytest.mark.parametrize(
    ("whole", "completion", "named"), [(500.0, 400.0, False), (500.0, 503.0, False), (500.0, 600.0, True)]
)
def test_completion_is_a_part_of_the_whole(whole, completion, named):
    reason = fio_latency.impossible(latencies(whole, completion), (3, 36))
    assert (reason is not None) is named
    if named:
        assert "600" in reason and "500" in reason


def test_of_different_ios_nothing_follows():
    raw = latencies(500.0, 600.0)
    raw["lat_ns"]["N"] = 99
    assert fio_latency.impossible(raw, (3, 36)) is None


@pytest.mark.parametrize(
    ("percent", "value", "named"),
    [
        ("50.000000", 1000, False),
        ("99.000000", 2000, False),
        ("100.000000", 9000, False),
        ("50.000000", 2000, True),
        ("99.000000", 700, True),
        ("0.00", 0, False),
    ],
)
def test_percentiles_agree_with_the_bins(percent, value, named):
    raw = latencies(1200.0, 1180.0, percentile={percent: value}, **BINS)
    assert (fio_latency.impossible(raw, (3, 36)) is not None) is named


@pytest.mark.parametrize(
    "damage", [{"bins": {"x": 1}, "percentile": {"50.0": 1}}, {"bins": {"1": None}, "percentile": {"50.0": 1}}]
)
def test_damage_is_left_to_the_reader(damage):
    assert fio_latency.impossible({"clat_ns": damage}, (3, 36)) is None
