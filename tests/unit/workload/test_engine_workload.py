# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads and sweeps: what is taken, what is refused, and how it is named."""

from __future__ import annotations

import json
import random

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.workload.description import describe
from ansible_collections.storlab.testbed.plugins.module_utils.workload.sweep import expand, expand_all
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import (
    KEYS,
    by_time,
    directions,
    expected_s,
    extent,
    mean_block_bytes,
    normalise,
    parse_size,
    workload_id,
)
from random_workloads import FEATURES, random_workload


def test_defaults_are_complete():
    assert normalise({}) == {
        "block_size_bytes": 4096,
        "read_percent": 100,
        "random_percent": 100,
        "queue_depth": 1,
        "workers": 1,
        "ramp_s": 2,
        "runtime_s": 10,
        "alignment_bytes": 4096,
        "direct": True,
        "range": {"offset_bytes": 0, "size_bytes": None},
    }


def test_normalising_twice_changes_nothing():
    once = normalise(
        {
            "block_size": "8k",
            "alignment": 512,
            "read_percent": "35",
            "direct": False,
            "range": {"offset_bytes": "1m", "size_bytes": "2m"},
        }
    )
    assert normalise(once) == once
    assert (once["block_size_bytes"], once["alignment_bytes"], once["read_percent"]) == (8192, 512, 35)


def test_what_is_accepted_stays_the_same_when_it_is_read_back():
    generator, accepted = random.Random(20261121), 0  # noqa: S311
    for _ in range(3000):
        given = random_workload(generator)
        try:
            once = normalise(given)
        except Failure as failure:
            assert failure.code == "bad_value"
            continue
        accepted += 1
        stored = json.loads(json.dumps(once))
        assert normalise(stored) == once
        assert workload_id(stored) == workload_id(given)
        assert describe(once) == describe(stored)
    assert accepted > 500


def test_every_key_has_values_in_these_tests():
    assert set(FEATURES) == set(KEYS)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512", 512),
        ("4k", 4096),
        ("4K", 4096),
        ("4 KiB", 4096),
        ("1m", 1 << 20),
        ("2G", 2 << 30),
        ("1tb", 1 << 40),
        (7, 7),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("given", "variable"),
    [
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
        ({"block_size": 2300}, "workload.block_size"),
        ({"block_size": {"4k": 60, "8k": 30}}, "workload.block_size"),
        ({"block_size": {"4k": 60, "4096": 40}}, "workload.block_size"),
        ({"block_size": {"4k": 100, "read": "8k"}}, "workload.block_size"),
        ({"block_size": {}}, "workload.block_size"),
        ({"block_size": {"4k": 0, "8k": 100}}, "workload.block_size"),
        ({"block_size": {"write": "8k"}}, "workload.block_sizes"),
        ({"block_size": "64k-4k"}, "workload.block_size"),
        ({"block_size": "4k-6k"}, "workload.block_size"),
        ({"block_size": "4k-"}, "workload.block_size"),
        ({"block_size": "4k", "block_sizes": {"read": "4k"}}, "workload.block_size"),
        ({"block_size_range": {"min_bytes": 4096}}, "workload.block_size_range"),
        ({"distribution": "zipf:1"}, "workload.distribution"),
        ({"distribution": "zipf:0"}, "workload.distribution"),
        ({"distribution": "pareto:1.2"}, "workload.distribution"),
        ({"distribution": "normal:5"}, "workload.distribution"),
        ({"distribution": {"zoned": []}}, "workload.distribution"),
        ({"distribution": {"zoned": [{"access_percent": 90, "space_percent": 100}]}}, "workload.distribution.zoned"),
        ({"distribution": {"zoned": [{"access_percent": 100}]}}, "workload.distribution.zoned"),
        ({"distribution": "zipf:1.1", "random_percent": 0}, "workload.distribution"),
        ({"burst": 4}, "workload.burst"),
        ({"think_time_us": 0}, "workload.think_time_us"),
        ({"rate_iops": 0}, "workload.rate_iops"),
        ({"rate_bytes_s": 0}, "workload.rate_bytes_s"),
        ({"rate_bytes_s": "4x"}, "workload.rate_bytes_s"),
        ({"rate_iops": 5, "rate_bytes_s": "4k"}, "workload.rate_bytes_s"),
        ({"rate_process": "poisson"}, "workload.rate_process"),
        ({"rate_iops": 5, "rate_process": "bursty"}, "workload.rate_process"),
        ({"data": {"pattern": "ones"}}, "workload.data.pattern"),
        ({"data": {"pattern": "repeat"}}, "workload.data"),
        ({"data": {"hex": "00"}}, "workload.data"),
        ({"data": {"pattern": "repeat", "hex": "abc"}}, "workload.data.hex"),
        ({"data": {"pattern": "repeat", "hex": 3735928559}}, "workload.data.hex"),
        ({"data": {"pattern": "zero", "dedupe_percent": 20}}, "workload.data.dedupe_percent"),
        ({"data": {"pattern": "repeat", "hex": "00", "compress_percent": 20}}, "workload.data.compress_percent"),
        ({"data": {"compress_percent": 101}}, "workload.data.compress_percent"),
        ({"data": "zero"}, "workload.data"),
        ({"read_percent": 0, "sync": "dsync"}, "workload.sync"),
        ({"read_percent": 0, "sync": {"mode": "always"}}, "workload.sync.mode"),
        ({"read_percent": 0, "sync": {"fsync_every": 0}}, "workload.sync.fsync_every"),
        ({"sync": {"mode": "dsync"}}, "workload.sync"),
        ({"verify": "crc32c"}, "workload.verify"),
        ({"read_percent": 0, "verify": "md4"}, "workload.verify"),
        ({"read_percent": 0, "verify": "md5", "data": {"pattern": "zero"}}, "workload.data"),
        ({"loops": 0}, "workload.loops"),
        ({"loops": 2, "io_bytes": "1m"}, "workload.io_bytes"),
        ({"io_bytes": "4k", "workers": 2}, "workload.io_bytes"),
        ({"engine_options": {"-": {"nice": 1}}}, "workload.engine_options"),
        ({"engine_options": "fio"}, "workload.engine_options"),
        ({"engine_options": {"fio": ["nice"]}}, "workload.engine_options.fio"),
        ({"engine_options": {"fio": {"nice": [1]}}}, "workload.engine_options.fio.nice"),
        ({"engine_options": {"fio": {"nice": "1\nfilename=/etc/passwd"}}}, "workload.engine_options.fio.nice"),
        ({"engine_options": {"fio": {"nice": "$ncpus"}}}, "workload.engine_options.fio.nice"),
        ({"engine_options": {"fio": {"nice=1 ": 2}}}, "workload.engine_options.fio.nice=1 "),
    ],
)
def test_bad_values_name_variable_value_and_remedy(given, variable):
    with pytest.raises(Failure) as caught:
        normalise(given)
    assert caught.value.code == "bad_value"
    assert caught.value.details["variable"] == variable
    assert str(caught.value).startswith(f"{variable} is ")
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("workload", "name"),
    [
        ({"block_size": "4k", "read_percent": 70, "queue_depth": 8}, "4k-r70-rnd100-qd8-w1"),
        ({"block_size": "1m", "random_percent": 0, "workers": 2}, "1m-r100-rnd0-qd1-w2"),
        ({"block_size": 1536}, "1536b-r100-rnd100-qd1-w1"),
        ({"runtime_s": 99, "ramp_s": 9}, "4k-r100-rnd100-qd1-w1"),
    ],
)
def test_names(workload, name):
    assert workload_id(workload) == name


def test_unusual_settings_have_names_of_their_own():
    names = {
        workload_id(workload)
        for workload in (
            {},
            {"direct": False},
            {"alignment": "8k"},
            {"alignment": 512},
            {"range": {"offset_bytes": 4096}},
            {"range": {"size_bytes": 8192}},
        )
    }
    assert len(names) == 6
    assert all(name.startswith("4k-r100-rnd100-qd1-w1") for name in names)


def test_every_feature_has_a_name_of_its_own():
    base = {"read_percent": 50}
    workloads = [
        base,
        *(
            {**base, key: value}
            for key in (
                "block_size",
                "distribution",
                "think_time_us",
                "rate_iops",
                "rate_bytes_s",
                "sync",
                "loops",
                "io_bytes",
                "verify",
                "engine_options",
                "data",
            )
            for value in FEATURES[key]
        ),
        {**base, "think_time_us": 250, "burst": 7},
        {**base, "rate_iops": 5000, "rate_process": "poisson"},
    ]
    different = {json.dumps(normalise(workload), sort_keys=True) for workload in workloads}
    names = {workload_id(workload) for workload in workloads}
    # One value each of data, sync and engine_options says what the default says, and so does {4k: 100}.
    assert len(names) == len(different) == len(workloads) - 4
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_") and len(name) < 60 for name in names)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"data": {"pattern": "random"}}, "data"),
        ({"sync": {"mode": "none"}, "read_percent": 0}, "sync"),
        ({"engine_options": {"fio": {}}}, "engine_options"),
        ({"distribution": None}, "distribution"),
        ({"block_size": {"4k": 100}}, "block_sizes"),
        ({"block_size": "4k-4k"}, "block_size_range"),
    ],
)
def test_what_is_not_used_is_absent(given, key):
    assert key not in normalise(given)


def test_names_of_before_are_the_names_of_now():
    """Stored results are found by these names."""
    assert workload_id({"direct": False}) == "4k-r100-rnd100-qd1-w1-097539"
    assert workload_id({"alignment": "8k", "range": {"offset_bytes": 4096}}) == "4k-r100-rnd100-qd1-w1-e5f878"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (
            {"4k": 60, "64k": 40},
            {
                name: [{"size_bytes": 4096, "percent": 60}, {"size_bytes": 65536, "percent": 40}]
                for name in ("read", "write")
            },
        ),
        (
            {"64k": 40, "4k": "60"},
            {
                name: [{"size_bytes": 4096, "percent": 60}, {"size_bytes": 65536, "percent": 40}]
                for name in ("read", "write")
            },
        ),
        (
            {"read": "32k", "write": {"512": 5, "1k": 95}},
            {
                "read": [{"size_bytes": 32768, "percent": 100}],
                "write": [{"size_bytes": 512, "percent": 5}, {"size_bytes": 1024, "percent": 95}],
            },
        ),
    ],
)
def test_mixes_of_sizes(given, found):
    assert normalise({"block_size": given, "read_percent": 50})["block_sizes"] == found


@pytest.mark.parametrize(
    ("given", "alignment"), [({"4k": 60, "6k": 40}, 2048), ("8k-32k", 8192), ({"read": "512", "write": "64k"}, 512)]
)
def test_alignment_follows_from_the_sizes(given, alignment):
    assert normalise({"block_size": given, "read_percent": 50})["alignment_bytes"] == alignment


def test_mean_sizes():
    mixed = normalise({"block_size": {"read": {"4k": 75, "8k": 25}, "write": "64k"}, "read_percent": 80})
    assert (mean_block_bytes(mixed, "read"), mean_block_bytes(mixed, "write")) == (5120, 65536)


def test_only_the_page_cache_takes_any_length():
    assert normalise({"block_size": 2300, "direct": False})["alignment_bytes"] == 2300


def test_an_amount_is_measured_whole():
    amount = normalise({"io_bytes": "1g"})
    assert (amount["ramp_s"], amount["runtime_s"], by_time(amount)) == (0, 3600, False)
    assert normalise({"loops": 2, "ramp_s": 3, "runtime_s": 40})["runtime_s"] == 40
    assert by_time(normalise({}))


def test_expected_duration():
    assert expected_s(normalise({"ramp_s": 4, "runtime_s": 30})) == pytest.approx(34, abs=1)


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({}, "4 KiB random read, queue depth 1, 1 worker"),
        ({"read_percent": 70, "queue_depth": 8, "workers": 2}, "4 KiB random, 70 % read, queue depth 8, 2 workers"),
        (
            {"block_size": "128k", "read_percent": 0, "random_percent": 0, "direct": False},
            "128 KiB sequential write, queue depth 1, 1 worker, through the page cache",
        ),
        (
            {"block_size": "4k-64k", "rate_iops": 300, "rate_process": "poisson"},
            "4 KiB to 64 KiB random read, queue depth 1, 1 worker, limited to 300 IOPS (Poisson arrivals)",
        ),
        ({"block_size": {"4k": 60, "64k": 40}}, "mix of 60 % 4 KiB, 40 % 64 KiB, random read, queue depth 1, 1 worker"),
        (
            {"block_size": {"read": "32k", "write": "8k"}, "read_percent": 60, "random_percent": 30},
            "reads of 100 % 32 KiB; writes of 100 % 8 KiB; 30 % random, 60 % read, queue depth 1, 1 worker",
        ),
        (
            {
                "read_percent": 0,
                "sync": {"fdatasync_every": 1, "mode": "dsync", "end_fsync": True},
                "think_time_us": 40,
                "verify": "md5",
            },
            "4 KiB random write, queue depth 1, 1 worker, 40 µs pause after 1 I/O, O_DSYNC, fdatasync after 1 write, fsync at the end, verified by md5",
        ),
        (
            {
                "loops": 2,
                "data": {"compress_percent": 50, "dedupe_percent": 20},
                "engine_options": {"fio": {"ioengine": "psync"}},
            },
            "4 KiB random read, queue depth 1, 1 worker, 50 % compressible, 20 % duplicates, 2 passes over the range, fio options ioengine=psync",
        ),
        (
            {"io_bytes": "3m", "rate_bytes_s": "1m", "data": {"pattern": "zero"}, "distribution": "zipf:1.2"},
            "4 KiB random read, queue depth 1, 1 worker, hot spots zipf:1.2, limited to 1 MiB/s, zeros, 3 MiB in all",
        ),
        (
            {
                "distribution": {
                    "zoned": [{"access_percent": 95, "space_percent": 5}, {"access_percent": 5, "space_percent": 95}]
                },
                "data": {"pattern": "repeat", "hex": "AB"},
            },
            "4 KiB random read, queue depth 1, 1 worker, 95 % of I/O on 5 % of space, 5 % of I/O on 95 % of space, data repeats 0xab",
        ),
    ],
)
def test_words(workload, words):
    assert describe(normalise(workload)) == words


def test_words_of_a_part():
    assert describe({}) == "workload"
    assert describe({"block_size_bytes": 8192, "random_percent": 60, "read_percent": 100}) == "8 KiB 60 % random read"


@pytest.mark.parametrize(("share", "expected"), [(100, ("read",)), (0, ("write",)), (1, ("read", "write"))])
def test_directions(share, expected):
    assert directions(normalise({"read_percent": share})) == expected


def test_extent():
    assert extent(normalise({}), 8192) == (0, 8192)
    assert extent(normalise({"range": {"offset_bytes": 4096}}), 12288) == (4096, 8192)


@pytest.mark.parametrize(
    ("workload", "size"),
    [({"range": {"offset_bytes": 8192}}, 8192), ({"range": {"size_bytes": 8704}}, 8192), ({"workers": 3}, 8192)],
)
def test_extent_that_does_not_fit(workload, size):
    with pytest.raises(Failure) as caught:
        extent(normalise(workload), size)
    assert caught.value.code == "bad_value"


def test_sweep_is_multiplied_out_in_the_order_it_is_written():
    found = expand({"block_size": ["4k", "8k"], "runtime_s": 5}, {"queue_depth": [1, 32], "read_percent": [100, 0]})
    assert [workload_id(one) for one in found] == [
        "4k-r100-rnd100-qd1-w1",
        "4k-r0-rnd100-qd1-w1",
        "4k-r100-rnd100-qd32-w1",
        "4k-r0-rnd100-qd32-w1",
        "8k-r100-rnd100-qd1-w1",
        "8k-r0-rnd100-qd1-w1",
        "8k-r100-rnd100-qd32-w1",
        "8k-r0-rnd100-qd32-w1",
    ]
    assert {one["runtime_s"] for one in found} == {5}


def test_sweep_replaces_the_workloads_value():
    assert [one["queue_depth"] for one in expand({"queue_depth": 7}, {"queue_depth": [2, 3]})] == [2, 3]


@pytest.mark.parametrize(
    ("workload", "sweep", "variable"),
    [
        ({}, {"queue_depth": 4}, "sweep.queue_depth"),
        ({}, {"queue_depth": []}, "sweep.queue_depth"),
        ({"workers": []}, None, "workload.workers"),
        ({}, {"queue_depth": [4, 4]}, "sweep"),
        ({"runtime_s": [5, 10]}, None, "workload"),
        ({}, {"depth": [1]}, "workload.depth"),
        ({}, ["queue_depth"], "sweep"),
    ],
)
def test_bad_sweeps(workload, sweep, variable):
    with pytest.raises(Failure) as caught:
        expand(workload, sweep)
    assert caught.value.details["variable"] == variable


def test_a_sweep_of_a_value_within_another():
    found = expand(
        {"read_percent": 0, "sync": {"mode": "dsync"}}, {"sync.fsync_every": [1, 8], "data.compress_percent": [30]}
    )
    assert [one["sync"] for one in found] == [{"mode": "dsync", "fsync_every": 1}, {"mode": "dsync", "fsync_every": 8}]
    assert {one["data"]["compress_percent"] for one in found} == {30}


def test_mixes_are_an_axis():
    assert [workload_id(one)[:3] for one in expand({}, {"block_size": ["8k", {"4k": 50, "8k": 50}, "4k-8k"]})] == [
        "8k-",
        "mix",
        "4k_",
    ]


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        ([{"queue_depth": 32}], [("4k", 1), ("8k", 1)]),
        ([{"queue_depth": "32", "block_size": 4096}], [("4k", 1), ("8k", 1), ("8k", 32)]),
        ([{"block_size_bytes": 8192}, {"queue_depth": 1}], [("4k", 32)]),
        (
            [{"block_size": {"4k": 100}, "alignment": "4k"}, {"block_size": "8k", "direct": True, "queue_depth": 1}],
            [("8k", 32)],
        ),
        ([], [("4k", 1), ("4k", 32), ("8k", 1), ("8k", 32)]),
        (None, [("4k", 1), ("4k", 32), ("8k", 1), ("8k", 32)]),
    ],
)
def test_exclusions_are_compared_by_what_they_mean(exclude, left):
    found = expand({"block_size": ["4k", "8k"], "queue_depth": [1, 32]}, exclude=exclude)
    assert [(one["block_size_bytes"], one["queue_depth"]) for one in found] == [
        (parse_size(size), depth) for size, depth in left
    ]


def test_an_exclusion_is_of_all_workloads():
    found = expand_all(
        [{"queue_depth": [1, 2]}, {"read_percent": 0, "sync": {"mode": "dsync"}}, {"read_percent": 0}],
        exclude=[{"queue_depth": 2}, {"sync": {"mode": "dsync"}}],
    )
    assert [workload_id(one) for one in found] == ["4k-r100-rnd100-qd1-w1", "4k-r0-rnd100-qd1-w1"]


@pytest.mark.parametrize(
    ("exclude", "variable"),
    [
        ([{"queue_depth": 5}], "exclude[0]"),
        ([{"queue_depth": 1}, {"block_size": "8k"}], "exclude[1]"),
        ([{"queue_depth": [1]}], "exclude[0].queue_depth"),
        ([{"queue_depth": "many"}], "exclude[0].queue_depth"),
        ([{"depth": 1}], "exclude[0].depth"),
        ([{}], "exclude[0]"),
        (["queue_depth"], "exclude[0]"),
        ({"queue_depth": 1}, "exclude"),
        ([{"queue_depth": 1}, {"queue_depth": 32}], "exclude"),
    ],
)
def test_bad_exclusions(exclude, variable):
    with pytest.raises(Failure) as caught:
        expand({}, {"queue_depth": [1, 32]}, exclude=exclude)
    assert (caught.value.code, caught.value.details["variable"]) == ("bad_value", variable)


@pytest.mark.parametrize("workloads", [[], {}, None, [{"queue_depth": 1}, {"queue_depth": [1, 2]}]])
def test_bad_lists_of_workloads(workloads):
    with pytest.raises(Failure) as caught:
        expand_all(workloads)
    assert caught.value.details["variable"] == "workloads"
