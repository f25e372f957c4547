# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make soak` calls a leak or a growth."""

from __future__ import annotations

import random

import pytest
from small_lab import MACHINES
from soak import grown, growth, leaks

FIRST = {
    "target01": {"processes": ["init", "sh", "sh"], "files": ["/run/a"], "used_kib": 7, "total_kib": 600},
    "this computer": {"processes": ["qemu"]},
}


@pytest.mark.parametrize(
    ("place", "kind", "things", "leaked"),
    [
        ("target01", "processes", ["init", "sh", "sh", "sh"], "target01: processes: sh"),
        ("target01", "files", ["/run/a", "/run/b"], "target01: files: /run/b"),
        ("target01", "modules", ["brd"], "target01: modules: brd"),
        ("this computer", "processes", ["qemu", "ssh"], "this computer: processes: ssh"),
    ],
)
def test_what_was_not_there_after_the_first_cycle_has_leaked(place, kind, things, leaked):
    assert leaks(FIRST, FIRST) == []
    assert leaks(FIRST, {**FIRST, place: {**FIRST[place], kind: things}}) == [leaked]


def test_what_is_gone_is_no_leak():
    assert leaks(FIRST, {**FIRST, "target01": {"processes": ["init"]}}) == []


def cycles(number: int, of_memory: float = 0, of_time: float = 0) -> list:
    """Noisy cycles; both grow by this much in all."""
    dice = random.Random(5)  # noqa: S311 no secret

    def places(part: float) -> dict:
        return {
            machine: {"used_kib": 90_000 + dice.gauss(0, 300) + part * of_memory, "total_kib": 640_000}
            for machine in MACHINES
        }

    return [
        {"seconds": 200 + dice.gauss(0, 8) + step / (number - 1) * of_time, "places": places(step / (number - 1))}
        for step in range(number)
    ]


def test_noise_is_no_growth():
    assert grown(cycles(50)) == []


def test_memory_that_grows_is_named_with_its_machine():
    problems = grown(cycles(50, of_memory=12_000))
    assert [problem.split(":")[0] for problem in problems] == list(MACHINES)
    assert grown(cycles(50, of_memory=3_000)) == []


def test_a_cycle_that_takes_longer_and_longer_is_told():
    (problem,) = grown(cycles(50, of_time=40))
    assert "longer after 50 cycles" in problem
    assert grown(cycles(50, of_time=5)) == []


def test_a_few_cycles_have_a_growth_and_no_interval():
    assert growth([1, 3, 5]) == (pytest.approx(4), None)
    assert grown(cycles(5, of_memory=12_000, of_time=40)) == []
