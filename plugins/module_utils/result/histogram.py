# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Latency histograms: exact merging, and percentiles by fio's own rule.

Bins are ``{"<nanoseconds>": count}`` as in fio's json+ output. The bins of fio are the same in every run, so adding them
up by key is exact, and percentiles of merged bins are the percentiles of all I/O taken together. Percentiles themselves
are never averaged.
"""

from __future__ import annotations

import contextlib
from array import array
from bisect import bisect_left
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from itertools import accumulate, repeat
from operator import add as plus

# fio has less than two thousand bins, the same in every file.
REMEMBERED = 1 << 14


class _Numbers(dict[str, int]):
    """The nanoseconds of a key. Looked up, fio's keys take half the time that it takes to work them out."""

    def __missing__(self, edge: str) -> int:
        number = int(edge)
        if len(self) < REMEMBERED:
            self[edge] = number
        return number


number_of = _Numbers().__getitem__


class Packed(Mapping[str, int]):
    """Bins that no longer change, ascending, mostly in 8 bytes each, where a dict takes 150."""

    __slots__ = ("counts", "edges")

    def __init__(self, bins: Mapping[str, int]):
        ascending = sorted(bins, key=number_of)
        self.edges = _whole(map(number_of, ascending))
        self.counts = _whole(map(bins.__getitem__, ascending))

    @classmethod
    def of_bytes(cls, edges: bytes, counts: bytes) -> Packed:
        """What ``as_bytes`` made, on a machine of the same byte order."""
        packed = cls.__new__(cls)
        packed.edges, packed.counts = (_unpacked(part) for part in (edges, counts))
        return packed

    def as_bytes(self) -> tuple[bytes, bytes]:
        """Edges and counts: the type of the array, and what it holds."""
        return _bytes(self.edges), _bytes(self.counts)

    def __getitem__(self, edge: str) -> int:
        at = bisect_left(self.edges, int(edge))
        if at == len(self.edges) or self.edges[at] != int(edge):
            raise KeyError(edge)
        return self.counts[at]

    def __iter__(self) -> Iterator[str]:
        return map(str, self.edges)

    def __len__(self) -> int:
        return len(self.edges)

    # Those of Mapping look every bin up by its key.
    def items(self) -> ItemsView[str, int]:
        return dict(zip(self, self.counts)).items()

    def values(self) -> ValuesView[int]:
        return dict(zip(self, self.counts)).values()


def _whole(numbers: Iterable[int]) -> Sequence[int]:
    """In 4 bytes each where that is enough, in 8 where it is not, and in a list beyond, which nothing that was measured reaches."""
    numbers = list(numbers)
    for typecode in ("I", "Q"):
        with contextlib.suppress(OverflowError):
            return array(typecode, numbers)
    return numbers


def _bytes(numbers: Sequence[int]) -> bytes:
    if isinstance(numbers, array):
        return numbers.typecode.encode() + numbers.tobytes()
    return b"-" + " ".join(map(str, numbers)).encode()


def _unpacked(packed: bytes) -> Sequence[int]:
    kind, numbers = packed[:1].decode(), packed[1:]
    return list(map(int, numbers.split())) if kind == "-" else array(kind, numbers)


def merge(histograms: Iterable[dict[str, int]]) -> dict[str, int]:
    """The sum of several bins mappings, keys in ascending order."""
    total: dict[str, int] = {}
    for bins in histograms:
        add(total, bins)
    # fio writes them in this order, and sorting what is sorted, or two such rows, costs little.
    edges = sorted(total, key=number_of)
    return total if edges == list(total) else dict(zip(edges, map(total.__getitem__, edges)))


def add(total: dict[str, int], bins: Mapping[str, int]) -> None:
    """The same in place, without the order."""
    if not total:
        total.update(bins)
        return
    # As a loop over the keys, at half its cost: reports spend more time here than on anything else.
    total.update(zip(bins, map(plus, bins.values(), map(total.get, bins, repeat(0)))))


def percentiles(bins: Mapping[str, int], percents: Iterable[float], ordered: bool = False) -> dict[float, int | None]:
    """``{percent: nanoseconds}``: the first bin whose cumulative count reaches percent / 100 * N, by which that share of the I/O completed.

    None for empty bins.

    ordered: the keys ascend, as ``merge`` leaves them, and need not be looked through.
    """
    edges: Sequence[int] | Sequence[str]
    counts: Iterable[int]
    if isinstance(bins, Packed):
        edges, counts = bins.edges, bins.counts
    else:
        edges = list(bins) if ordered else sorted(bins, key=number_of)
        counts = bins.values() if ordered else map(bins.__getitem__, edges)
    values: dict[float, int | None] = dict.fromkeys(percents)
    cumulative = list(accumulate(counts))
    total = cumulative[-1] if cumulative else 0
    if not total:
        return values
    for percent in values:
        # Exactly, because where the rank is a whole number a rounding error picks the neighbouring bin. The percent itself is the
        # double that fio was given: 99.9 is a little more than 99.9. That of 0 is the first bin that holds anything.
        above, below = float(percent).as_integer_ratio()
        rank = max(1, -(-above * total // (below * 100)))
        values[percent] = int(edges[bisect_left(cumulative, rank)])
    return values
