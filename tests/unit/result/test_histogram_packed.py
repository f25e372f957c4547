# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packed bins say what a dict of them says, in as few bytes as their greatest figure allows."""

from __future__ import annotations

from array import array

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.result import histogram

FOUR, EIGHT = 2**32 - 1, 2**64 - 1  # the greatest numbers of 4 and of 8 bytes


def held(numbers) -> int | None:
    """Bytes for each number; None when they are in a list."""
    return numbers.itemsize if isinstance(numbers, array) else None


@pytest.mark.parametrize(
    ("bins", "edges", "counts"),
    [
        ({"900": 3, "1000": 5, "70": 2}, 4, 4),
        ({"70": 2, str(FOUR): FOUR}, 4, 4),
        ({"70": 2, str(FOUR + 1): 3}, 8, 4),
        ({"70": FOUR + 1, "900": 3}, 4, 8),
        ({"70": EIGHT, str(EIGHT): 3}, 8, 8),
        ({"70": EIGHT + 1, "900": 3}, 4, None),
        ({"70": 2, str(EIGHT + 1): 3}, None, 4),
    ],
)
def test_bins_come_back_as_they_were_ascending_and_as_small_as_they_may_be(bins, edges, counts):
    packed = histogram.Packed(bins)
    ascending = sorted(bins.items(), key=lambda pair: int(pair[0]))
    assert (held(packed.edges), held(packed.counts)) == (edges, counts)
    assert list(packed.items()) == ascending
    assert (list(packed), list(packed.values())) == ([edge for edge, _ in ascending], [count for _, count in ascending])
    assert dict(packed) == bins and len(packed) == len(bins) and packed == bins
    assert list(histogram.Packed(packed).items()) == ascending


def test_a_bin_that_is_not_there_is_not_its_neighbour():
    packed = histogram.Packed({"70": 2, "900": 3})
    assert packed["900"] == 3 and packed.get("70") == 2
    for missing in ("69", "71", "899", "901"):
        assert missing not in packed
        with pytest.raises(KeyError):
            packed[missing]
    empty = histogram.Packed({})
    assert not empty and list(empty.items()) == [] and "70" not in empty


def test_percentiles_and_sums_are_those_of_the_dict():
    bins = {"900": 3, "70": 90, "5000": 7}
    packed = histogram.Packed(bins)
    assert histogram.percentiles(packed, (50.0, 93.0, 93.1)) == {50.0: 70, 93.0: 900, 93.1: 5000}
    assert histogram.percentiles(histogram.Packed({}), (50.0,)) == {50.0: None}
    total = {"70": 1, "80": 4}
    histogram.add(total, packed)
    assert total == {"70": 91, "80": 4, "900": 3, "5000": 7} and list(packed.items()) == [
        ("70", 90),
        ("900", 3),
        ("5000", 7),
    ]


def test_adding_keeps_what_is_added_and_twice_itself_is_twice_as_much():
    total, bins = {}, {"900": 3, "70": 2}
    histogram.add(total, bins)
    assert total == bins and total is not bins
    histogram.add(total, total)
    assert total == {"900": 6, "70": 4} and bins == {"900": 3, "70": 2}


def test_more_bins_than_are_remembered_are_in_order_all_the_same(monkeypatch):
    monkeypatch.setattr(histogram, "REMEMBERED", 0)
    numbers = [7_000_003, 9, 10_000_000_019, 1_000_000_007, 83]
    bins = {str(number): place for place, number in enumerate(numbers, start=1)}
    assert list(histogram.merge([bins])) == ["9", "83", "7000003", "1000000007", "10000000019"]
    assert list(histogram.Packed(bins).edges) == sorted(numbers)


@pytest.mark.parametrize(
    ("bins", "kinds"),
    [
        ({"70": 2, "900": 3}, (b"I", b"I")),
        ({"70": 1 << 40, str(1 << 33): 3}, (b"Q", b"Q")),
        # More than 8 bytes hold goes as text.
        ({"70": 1 << 70, str((1 << 64) + 5): 3}, (b"-", b"-")),
    ],
)
def test_what_was_packed_comes_back_from_its_bytes(bins, kinds):
    parts = histogram.Packed(bins).as_bytes()
    assert tuple(part[:1] for part in parts) == kinds
    assert list(histogram.Packed.of_bytes(*parts).items()) == list(histogram.Packed(bins).items())
    assert sorted(count for _edge, count in histogram.Packed.of_bytes(*parts).items()) == sorted(bins.values())
