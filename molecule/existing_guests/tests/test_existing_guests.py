# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What diagnose said of a guest's disks: the rate that two are held to, that these two are alike, that the others are not held, and what is lost between a
hypervisor's disk and its guest."""

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
HELD_IOPS, CAPPED_IOPS = VARIABLES["existing_held_iops"], VARIABLES["existing_capped_iops"]
# How far QEMU's bucket may be from its rate in a point of two seconds.
NEAR, RUNTIME_S = 0.04, 2
FIGURE = re.compile(r"4 KiB, (1|32) at a time: ([0-9.]+) IOPS \(([0-9.]+) to ([0-9.]+)\)")


def answers(testbed: str) -> dict:
    (page,) = (PROJECT / ".cache/existing_guests").glob(f"{testbed}-testbed/results/{testbed}/*/report/diagnosis.json")
    return {answer["layer"]: answer for answer in json.loads(page.read_text(encoding="utf-8"))}


def results(testbed: str) -> list:
    """The results of a testbed, as they were measured."""
    paths = (PROJECT / ".cache/existing_guests").glob(f"{testbed}-testbed/results/{testbed}/*/points/*/result.json")
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return sorted(found, key=lambda result: result["started_utc"])


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


def test_a_disk_that_gets_what_its_host_gives_is_not_held_by_the_machine():
    host, guest = (answers("hosted")[name] for name in ("initiator-lun", "guest-passed"))
    assert host["answer"] == "storage", host
    _mean, low, high = rates(host)[1]
    assert low * 0.99 <= HELD_IOPS <= high * 1.01, host["figures"]
    (line,) = [line for line in guest["figures"] if re.match("4 KiB, 32 at a time: .* of what initiator-lun", line)]
    low, high = (float(figure) for figure in re.findall(r"\(([0-9]+) to ([0-9]+) %\)", line)[0])
    assert 80 <= low <= 100 <= high, line
    # Three points of 1 MiB may be too uncertain; then it is not called the storage.
    if guest["answer"] == "storage":
        assert guest["why"].startswith("as much arrives as initiator-lun gives on host01"), guest["why"]
    else:
        assert guest["answer"] == "cannot tell" and "1 MiB" in guest["why"], guest
    # The disk shows the same name on both.
    assert [line for line in guest["figures"] if "declared" in line] == []


def test_a_disk_that_the_machine_above_holds_is_the_machine():
    answer = answers("hosted")["guest-capped"]
    assert answer["answer"] == "machine", answer
    (lost,) = re.findall(r"is lost above it, at least ([0-9]+) % with 95 % confidence", answer["why"])
    # At depth 32 a point of both ends with the last of its queue, which takes longer the lower the rate is.
    kept = CAPPED_IOPS / (RUNTIME_S + 32 / CAPPED_IOPS) / (HELD_IOPS / (RUNTIME_S + 32 / HELD_IOPS))
    assert 100 * (1 - kept) - 10 <= int(lost) <= 100 * (1 - kept) + 2, answer["why"]
    (line,) = [line for line in answer["figures"] if "declared" in line]
    assert "guest-capped is declared to be on initiator-lun" in line


def test_a_host_and_its_guest_are_measured_in_turns():
    """All of one repetition precede all of the next, on both."""
    measured = [result for result in results("hosted") if result["layer_kind"] != "ceiling"]
    assert {result["host"] for result in measured} == {"host01", "guest01"}
    repetitions = [result["repetition"] for result in measured]
    assert repetitions == sorted(repetitions) and set(repetitions) == {1, 2, 3}


def test_the_disks_were_read_behind_a_wall_of_the_kernel():
    read = [result for name in VARIABLES["existing_guests"] for result in results(name)]
    walls = {result["preparation"]["wall"] for result in read if result["layer_kind"] != "ceiling"}
    assert walls == {"landlock"}
