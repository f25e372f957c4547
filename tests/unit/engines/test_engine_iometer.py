# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs IOMeter on a testbed's layers needs to know of its files: which test is which workload, and what a layer is called."""

from __future__ import annotations

import re

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import icf, icf_writer
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise


def cells(sizes, depths, outermost: str) -> list:
    pairs = (
        [(size, depth) for size in sizes for depth in depths]
        if outermost == "size"
        else [(size, depth) for depth in depths for size in sizes]
    )
    return [normalise({"block_size": size, "queue_depth": depth, "workers": 2}) for size, depth in pairs]


def said(workloads: list) -> list:
    return [(one["block_size_bytes"], one["queue_depth"]) for one in workloads]


def test_steps_of_a_cycle_are_all_depths_of_one_specification_after_the_other():
    found = icf_writer.steps(cells(("4k", "64k"), (1, 4, 16), "size"))
    assert found == [
        ("4096 B; 100% Read; 100% random", 1),
        ("4096 B; 100% Read; 100% random", 4),
        ("4096 B; 100% Read; 100% random", 16),
        ("65536 B; 100% Read; 100% random", 1),
        ("65536 B; 100% Read; 100% random", 4),
        ("65536 B; 100% Read; 100% random", 16),
    ]


def test_a_cycle_is_put_into_the_order_in_which_iometer_runs_it():
    mixed = cells(("4k", "64k"), (8, 16, 24), "depth")
    files = icf_writer.group(mixed)
    assert [said(one) for one in files] == [[(4096, 8), (4096, 16), (4096, 24), (65536, 8), (65536, 16), (65536, 24)]]
    assert [entry["workload"] for entry in icf.workloads(icf_writer.write(files[0], ['1: "X"']))] == files[0]
    for refuses in (icf_writer.write, lambda workloads, _targets: icf_writer.steps(workloads)):
        with pytest.raises(Failure, match="one access pattern after the other") as caught:
            refuses(mixed, ['1: "X"'])
        assert caught.value.code == "workload_unsupported"


def test_steps_without_a_cycle_are_the_assigned_specifications_repetitions_included():
    repeated = [normalise({"block_size": size, "queue_depth": 8, "read_percent": 30}) for size in ("4k", "8k", "4k")]
    assert icf_writer.group(repeated) == [repeated]
    written = icf_writer.write(repeated, ['1: "X"'])
    assigned = re.search(r"'Assigned access specs\n(.*?)'End assigned", written, re.DOTALL)[1].split("\n\t")
    assert [name.strip() for name in assigned] == [name for name, depth in icf_writer.steps(repeated)]
    assert [depth for name, depth in icf_writer.steps(repeated)] == [8, 8, 8] and icf_writer.steps(repeated)[
        0
    ] == icf_writer.steps(repeated)[2] != icf_writer.steps(repeated)[1]
    assert written.count("'Access specification name,default assignment") == 2


def test_group_refuses_what_iometer_cannot_do_before_it_divides():
    with pytest.raises(Failure, match="block_size_range"):
        icf_writer.group([normalise({"block_size": "4k-64k", "queue_depth": depth}) for depth in (1, 2)])
    with pytest.raises(Failure, match="workloads"):
        icf_writer.steps([])


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (r"\\.\PhysicalDrive3", '3: "storlab"'),
        (r"\\.\PhysicalDrive0", '0: "storlab"'),
        (r"T:\storlab-benchmark.dat", 'T: "storlab"'),
        ("q:\\deep\\file.dat", 'Q: "storlab"'),
    ],
)
def test_target_of_a_layer(path, name):
    assert icf_writer.target_of(path) == name
    assert icf.workloads(icf_writer.write([normalise({})], [icf_writer.target_of(path)]))[0]["targets"] == [name]


@pytest.mark.parametrize(
    "path",
    [
        r"\\.\PhysicalDrive10",
        r"\\.\PhysicalDrive",
        r"\\.\PhysicalDrive1\x",
        "/dev/sdb",
        "T:",
        "T:file",
        "",
        r"\\server\share\file",
    ],
)
def test_target_that_iometer_could_not_tell_from_another(path):
    with pytest.raises(Failure, match="drives 0 to 9") as caught:
        icf_writer.target_of(path)
    assert caught.value.code == "bad_value"
