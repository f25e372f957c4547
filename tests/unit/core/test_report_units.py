# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three significant digits, the right unit, and never a zero for what was not measured."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (599.4, "599"),
        (57432, "57.4k"),
        (5_731_000, "5.73M"),
        (999.4, "999"),
        (999.6, "1.00k"),
        (999_600, "1.00M"),
        (0.5, "0.500"),
        (0, "0"),
        (None, "–"),
    ],
)
def test_iops(value, text):
    assert units.iops(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (87, "87.0 ns"),
        (999.9, "1.00 µs"),
        (1_640_000, "1.64 ms"),
        (17_200_000_000, "17.2 s"),
        (9_996, "10.0 µs"),
        (None, "–"),
    ],
)
def test_latency(value, text):
    assert units.latency(value) == text


@pytest.mark.parametrize(("value", "text"), [(1_210_000, "+1.21 ms"), (-275_000, "−275 µs"), (0, "+0 ns"), (None, "–")])
def test_added_latency_always_carries_its_sign(value, text):
    assert units.added_latency(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(28_501_606, "28.5"), (8_020_000_000, "8,020"), (999_600_000, "1,000"), (512, "0.000512"), (None, "–")],
)
def test_bandwidth_is_in_megabytes(value, text):
    assert units.bandwidth(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.3124, "0.31×"), (0.0153, "0.015×"), (12.34, "12×"), (123.4, "123×"), (None, "–")]
)
def test_ratio(value, text):
    assert units.ratio(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.741, "74 %"), (0.0342, "3.4 %"), (-0.12, "−12 %"), (1.0, "100 %"), (0, "0 %"), (None, "–")]
)
def test_percent(value, text):
    assert units.percent(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(4096, "4 KiB"), (1000, "1000 B"), (67108864, "64 MiB"), (1536, "1.50 KiB"), (None, "–")]
)
def test_size(value, text):
    assert units.size(value) == text


@pytest.mark.parametrize(
    ("text", "tick"), [("10.0k", "10k"), ("1.00 ms", "1 ms"), ("100 µs", "100 µs"), ("100", "100")]
)
def test_ticks_lose_their_zeros_but_not_those_that_count(text, tick):
    assert units.tick(text) == tick


@pytest.mark.parametrize(
    ("stored", "text"), [("2026-11-21T13:36:16Z", "2026-11-21 13:36 UTC"), ("yesterday", "yesterday"), ("", "–")]
)
def test_moment(stored, text):
    assert units.moment(stored) == text
