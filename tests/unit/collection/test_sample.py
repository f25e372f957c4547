# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sample of long suites: repeated by its seed, and no test of it is out of reach."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest
import sample
from places import TESTS

NUMBERS = {"test_a": 3, "test_b": 5}


class Item(SimpleNamespace):
    __hash__ = object.__hash__

    def get_closest_marker(self, name):
        return name in self.marks or None


def suite() -> list:
    """Ten tests of a file with a number, four of one whose number is larger, six of another file; two of ten and two of six are long. Three always run."""
    sizes = {"test_a": 10, "test_b": 4, "test_c": 6, "test_d": 3}
    return [
        Item(
            name=f"{stem}{number}",
            path=Path(f"/x/{stem}.py"),
            marks={"long"} if number < 2 and stem in ("test_a", "test_c") else set(),
        )
        for stem, size in sizes.items()
        for number in range(size)
    ]


def taken(monkeypatch, seed: str | None) -> tuple[list[str], list[str]]:
    """(names that are left, names that were reported as left out)"""
    monkeypatch.delenv("SAMPLE_SEED", raising=False)
    if seed is not None:
        monkeypatch.setenv("SAMPLE_SEED", seed)
    out: list = []
    config = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: out.extend(items)))
    items = suite()
    sample.take(config, items, NUMBERS, long_taken=1)
    return [item.name for item in items], [item.name for item in out]


def in_their_order() -> list[str]:
    """The files in their order; the tests backwards in those of which some can be left out."""
    return [
        *(f"test_a{number}" for number in range(9, -1, -1)),
        *(f"test_b{number}" for number in range(3, -1, -1)),
        *(f"test_c{number}" for number in range(5, -1, -1)),
        *(f"test_d{number}" for number in range(3)),
    ]


@pytest.mark.parametrize("seed", [None, ""])
def test_without_a_seed_nothing_is_left_out(monkeypatch, seed):
    assert taken(monkeypatch, seed) == (in_their_order(), [])


def test_a_sample_has_its_numbers_keeps_the_order_and_is_repeated_by_its_seed(monkeypatch):
    left, out = taken(monkeypatch, "7")
    everything = in_their_order()
    long = {"test_a0", "test_a1", "test_c0", "test_c1"}
    assert [name for name in everything if name in left] == left
    assert [name for name in everything if name not in left] == out
    assert {"test_d0", "test_d1", "test_d2"} <= set(left)
    assert len(long.intersection(left)) == 1
    others = [name for name in left if name not in long]
    counts = {stem: len([name for name in others if name.startswith(stem)]) for stem in ("test_a", "test_b", "test_c")}
    assert counts == {"test_a": 3, "test_b": 4, "test_c": 4}
    assert taken(monkeypatch, "7") == (left, out)


def test_every_test_is_reached_by_some_seed(monkeypatch):
    reached: set = set()
    for seed in range(60):
        reached.update(taken(monkeypatch, str(seed))[0])
    assert reached == {item.name for item in suite()}


@pytest.mark.parametrize("room", ["integration", "unit"])
def test_every_file_of_which_a_sample_is_taken_is_there_once(room):
    tree = ast.parse((TESTS / room / "conftest.py").read_text(encoding="utf-8"))
    (numbers,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and [target.id for target in node.targets] == ["SAMPLED"]
    ]
    files = {stem: len(list((TESTS / room).rglob(f"{stem}.py"))) for stem in numbers}
    assert files == dict.fromkeys(numbers, 1) and min(numbers.values()) > 0
