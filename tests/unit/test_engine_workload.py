# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads and sweeps: what is taken, what is refused, and how it is named."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.sweep import expand
from ansible_collections.storlab.testbed.plugins.module_utils.workload import directions, extent, normalise, parse_size, workload_id


def test_defaults_are_complete():
    assert normalise({}) == {
        "block_size_bytes": 4096, "read_percent": 100, "random_percent": 100, "queue_depth": 1, "workers": 1, "ramp_s": 2, "runtime_s": 10,
        "alignment_bytes": 4096, "direct": True, "range": {"offset_bytes": 0, "size_bytes": None}}


def test_normalising_twice_changes_nothing():
    once = normalise({"block_size": "8k", "alignment": 512, "read_percent": "35", "direct": False, "range": {"offset_bytes": "1m", "size_bytes": "2m"}})
    assert normalise(once) == once
    assert (once["block_size_bytes"], once["alignment_bytes"], once["read_percent"]) == (8192, 512, 35)


@pytest.mark.parametrize(("text", "size"), [("512", 512), ("4k", 4096), ("4K", 4096), ("4 KiB", 4096), ("1m", 1 << 20), ("2G", 2 << 30), ("1tb", 1 << 40),
                                              (7, 7)])
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(("given", "variable"), [
    ({"blocksize": "4k"}, "workload.blocksize"),
    ({"block_size": "4x"}, "workload.block_size"),
    ({"block_size": 1000}, "workload.block_size"),
    ({"block_size": 0}, "workload.block_size"),
    ({"block_size": "2g"}, "workload.block_size"),
    ({"block_size": True}, "workload.block_size"),
    ({"block_size": "4k", "block_size_bytes": 4096}, "workload.block_size"),
    ({"read_percent": 101}, "workload.read_percent"),
    ({"read_percent": -1}, "workload.read_percent"),
    ({"random_percent": 50.5}, "workload.random_percent"),
    ({"queue_depth": 0}, "workload.queue_depth"),
    ({"queue_depth": "many"}, "workload.queue_depth"),
    ({"workers": True}, "workload.workers"),
    ({"runtime_s": 0}, "workload.runtime_s"),
    ({"direct": "yes"}, "workload.direct"),
    ({"alignment": 100}, "workload.alignment"),
    ({"range": {"offset": 0}}, "workload.range"),
    ({"range": {"offset_bytes": 100}}, "workload.range.offset_bytes"),
    ({"range": {"size_bytes": 0}}, "workload.range.size_bytes"),
    ([], "workload"),
])
def test_bad_values_name_variable_value_and_remedy(given, variable):
    with pytest.raises(Failure) as caught:
        normalise(given)
    assert caught.value.code == "bad_value"
    assert caught.value.details["variable"] == variable
    assert str(caught.value).startswith(f"{variable} is ")
    assert caught.value.remedy


@pytest.mark.parametrize(("workload", "name"), [
    ({"block_size": "4k", "read_percent": 70, "queue_depth": 8}, "4k-r70-rnd100-qd8-w1"),
    ({"block_size": "1m", "random_percent": 0, "workers": 2}, "1m-r100-rnd0-qd1-w2"),
    ({"block_size": 1536}, "1536b-r100-rnd100-qd1-w1"),
    ({"runtime_s": 99, "ramp_s": 9}, "4k-r100-rnd100-qd1-w1"),
])
def test_names(workload, name):
    assert workload_id(workload) == name


def test_unusual_settings_have_names_of_their_own():
    names = {workload_id(workload) for workload in ({}, {"direct": False}, {"alignment": "8k"}, {"alignment": 512}, {"range": {"offset_bytes": 4096}},
                                                    {"range": {"size_bytes": 8192}})}
    assert len(names) == 6
    assert all(name.startswith("4k-r100-rnd100-qd1-w1") for name in names)


@pytest.mark.parametrize(("share", "expected"), [(100, ("read",)), (0, ("write",)), (1, ("read", "write"))])
def test_directions(share, expected):
    assert directions(normalise({"read_percent": share})) == expected


def test_extent():
    assert extent(normalise({}), 8192) == (0, 8192)
    assert extent(normalise({"range": {"offset_bytes": 4096}}), 12288) == (4096, 8192)


@pytest.mark.parametrize(("workload", "size"), [({"range": {"offset_bytes": 8192}}, 8192), ({"range": {"size_bytes": 8704}}, 8192), ({"workers": 3}, 8192)])
def test_extent_that_does_not_fit(workload, size):
    with pytest.raises(Failure) as caught:
        extent(normalise(workload), size)
    assert caught.value.code == "bad_value"


def test_sweep_is_multiplied_out_in_the_order_it_is_written():
    found = expand({"block_size": ["4k", "8k"], "runtime_s": 5}, {"queue_depth": [1, 32], "read_percent": [100, 0]})
    assert [workload_id(one) for one in found] == [
        "4k-r100-rnd100-qd1-w1", "4k-r0-rnd100-qd1-w1", "4k-r100-rnd100-qd32-w1", "4k-r0-rnd100-qd32-w1",
        "8k-r100-rnd100-qd1-w1", "8k-r0-rnd100-qd1-w1", "8k-r100-rnd100-qd32-w1", "8k-r0-rnd100-qd32-w1"]
    assert {one["runtime_s"] for one in found} == {5}


def test_sweep_replaces_the_workloads_value():
    assert [one["queue_depth"] for one in expand({"queue_depth": 7}, {"queue_depth": [2, 3]})] == [2, 3]


@pytest.mark.parametrize(("workload", "sweep", "variable"), [
    ({}, {"queue_depth": 4}, "sweep.queue_depth"),
    ({}, {"queue_depth": []}, "sweep.queue_depth"),
    ({"workers": []}, None, "workload.workers"),
    ({}, {"queue_depth": [4, 4]}, "sweep"),
    ({"runtime_s": [5, 10]}, None, "workload"),
    ({}, {"depth": [1]}, "workload.depth"),
    ({}, ["queue_depth"], "sweep"),
])
def test_bad_sweeps(workload, sweep, variable):
    with pytest.raises(Failure) as caught:
        expand(workload, sweep)
    assert caught.value.details["variable"] == variable
