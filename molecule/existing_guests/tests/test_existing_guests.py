# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What diagnose said of a guest's disks: the rate that two are held to, that these two are alike, and that the others are not held."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import yaml

testinfra_hosts = ["local://"]
PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
VARIABLES = yaml.safe_load((PROJECT / "molecule/existing_guests/vars.yml").read_text(encoding="utf-8"))
HELD_IOPS = VARIABLES["existing_held_iops"]
# How far QEMU's bucket may be from its rate in a point of two seconds.
NEAR, RUNTIME_S = 0.04, 2
FIGURE = re.compile(r"4 KiB, (1|32) at a time: ([0-9.]+) IOPS \(([0-9.]+) to ([0-9.]+)\)")


def answers(testbed: str) -> dict:
    (page,) = (PROJECT / ".cache/existing_guests").glob(f"{testbed}-testbed/results/{testbed}/*/report/diagnosis.json")
    return {answer["layer"]: answer for answer in json.loads(page.read_text(encoding="utf-8"))}


def rates(answer: dict) -> dict:
    """{depth: (mean, low, high)} of the figures."""
    found = (FIGURE.match(line) for line in answer["figures"])
    return {int(match[1]): tuple(float(match[place]) for place in (2, 3, 4)) for match in found if match}


@pytest.mark.parametrize("disk", ["held", "twin"])
def test_a_disk_that_is_held_to_a_rate_is_the_storage_at_that_rate(disk):
    answer = answers("held")[f"guest-{disk}"]
    assert answer["answer"] == "storage", answer
    assert set(rates(answer)) == {1, 32}
    for depth, (_mean, low, high) in rates(answer).items():
        # The time of a point ends with the last of the I/Os that were under way, and those of a deep queue wait for each other.
        drained = HELD_IOPS * RUNTIME_S / (RUNTIME_S + depth / HELD_IOPS)
        assert low * (1 - NEAR) <= HELD_IOPS and drained <= high * (1 + NEAR), answer["figures"]
    _mean, low, high = rates(answer)[1]
    assert low * 0.99 <= HELD_IOPS <= high * 1.01, answer["figures"]


def test_two_disks_that_are_held_alike_are_called_alike():
    lines = [line for answer in answers("held").values() for line in answer["figures"] if " of what guest-" in line]
    (line,) = [line for line in lines if line.startswith("4 KiB, 32 at a time")]
    assert line.endswith("alike"), line


def test_the_others_are_answered_and_are_not_held():
    others = answers("others")
    assert set(others) == {f"guest-{name}" for name in VARIABLES["existing_guests"]["others"]}
    for name, answer in others.items():
        assert rates(answer)[32][1] > 1.5 * HELD_IOPS, name
