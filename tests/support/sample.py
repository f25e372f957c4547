# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests of long suites a run of `make test` takes: drawn by its seed, so that `make test SEED=number` repeats it. Without SAMPLE_SEED all of them run,
as `make unit` and `make integration` do. A test of a sample needs its fixtures alone, nothing that another test has left. So that one which does fails every
time and not by the seed alone, the tests of a file of which some can be left out run backwards, in samples and in whole suites."""

from __future__ import annotations

import os
import random


def drawn(pool: list, number: int, seed: str) -> set:
    """That many of a pool. Each has the same chance, and every process of a run draws the same ones."""
    return set(random.Random(seed).sample(pool, min(number, len(pool))))  # noqa: S311 no secret


def left_out(items: list, numbers: dict[str, int], long_taken: int) -> set:
    """The tests that this run leaves out: of the tests marked `long` all but `long_taken`, of the others of a file all but the number of it."""
    seed = os.environ.get("SAMPLE_SEED")
    if not seed:
        return set()
    pools = {stem: [item for item in items if item.path.stem == stem and not is_long(item)] for stem in numbers}
    pools["long"] = [item for item in items if is_long(item)]
    taken = {**numbers, "long": long_taken}
    return {item for name, pool in pools.items() for item in set(pool) - drawn(pool, taken[name], f"{seed} {name}")}


def is_long(item) -> bool:
    return item.get_closest_marker("long") is not None


def backwards(items: list, numbers: dict[str, int]) -> list:
    """The files in their order, and in those of which a test can be left out the last test first."""
    stems = {*numbers, *(item.path.stem for item in items if is_long(item))}
    last_first = {stem: iter([item for item in reversed(items) if item.path.stem == stem]) for stem in stems}
    return [next(last_first.get(item.path.stem, iter([item]))) for item in items]


def take(config, items: list, numbers: dict[str, int], long_taken: int = 0) -> None:
    """Leave the sample in what was collected, in the order of `backwards`."""
    items[:] = backwards(items, numbers)
    out = left_out(items, numbers, long_taken)
    if out:
        config.hook.pytest_deselected(items=[item for item in items if item in out])
        items[:] = [item for item in items if item not in out]
