# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What both kernels say of a hundred LUNs, and how long each step took; the times are shown and not judged."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
import testinfra

HOME = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
PREFIX = "iqn.2026-11.test.storlab.molecule:scale-"
TARGETS, LUNS, INITIATORS = 20, 5, 50


@pytest.fixture(scope="module")
def machine():
    config = HOME / ".cache" / "lab" / "molecule" / "ssh" / "config"
    return lambda name: testinfra.get_host(f"ssh://{name}", ssh_config=str(config), timeout=120)


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("core/iblock_*/storlab-mscale-s*", TARGETS * LUNS),
        (f"iscsi/{PREFIX}*", TARGETS),
        (f"iscsi/{PREFIX}*/tpgt_1/lun/lun_*", TARGETS * LUNS),
        (f"iscsi/{PREFIX}*/tpgt_1/acls/iqn.*", TARGETS * INITIATORS),
        (f"iscsi/{PREFIX}*/tpgt_1/acls/iqn.*/lun_*", TARGETS * INITIATORS * LUNS),
    ],
)
def test_the_target_has_all_of_it(machine, pattern, count):
    found = machine("target01").check_output(
        f'cd /sys/kernel/config/target && set -- {pattern}; test -e "$1" && echo $#'
    )
    assert int(found) == count


def test_each_disk_of_the_initiator_is_another_ram_disk(machine):
    """Each backing device has its own number in the first sector, and each disk of the initiator shows another."""
    target, initiator = machine("target01"), machine("hypervisor01")
    target.check_output(
        "for n in $(seq 0 99); do printf 'mark-%04d' $n | dd of=/dev/ram$n bs=512 count=1 conv=sync,fsync oflag=direct status=none; done"
    )
    disks = initiator.check_output("ls -d /sys/class/iscsi_session/session*/device/target*/*/block/sd*").split()
    assert len({path.rsplit("/", 1)[1] for path in disks}) == len(disks) == TARGETS * LUNS
    names = " ".join(path.rsplit("/", 1)[1] for path in disks)
    read = "dd if=/dev/$disk bs=512 count=1 iflag=direct status=none | head -c 9; echo"
    marks = initiator.check_output(f"for disk in {names}; do {read}; done").split()
    assert sorted(marks) == [f"mark-{number:04}" for number in range(TARGETS * LUNS)]


def test_sessions_are_one_a_target(machine):
    names = machine("hypervisor01").check_output("cat /sys/class/iscsi_session/session*/targetname").split()
    assert sorted(names) == sorted(f"{PREFIX}{number}" for number in range(TARGETS))


def test_how_long_each_step_took(capsys):
    lines = (HOME / ".cache/testbeds/molecule/scale.txt").read_text().splitlines()
    moments = [(float(line.split(" ", 1)[0]), line.split(" ", 1)[1]) for line in lines]
    begin = max(index for index, (_moment, step) in enumerate(moments) if step == "begin")
    steps = moments[begin : begin + 4]
    assert [step for _moment, step in steps] == ["begin", "5 targets", "10 targets", "20 targets"]
    with capsys.disabled():
        for (before, _), (after, step) in itertools.pairwise(steps):
            print(f"\n{step}: {after - before:.0f} s", end="")
