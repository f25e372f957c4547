# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio's options, as others wrote them, are the workload that fio's manual says they are."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio, fio_options
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise, workload_id
from hypothesis import given, settings
from hypothesis import strategies as st

PLAIN = {"random_percent": 0, "ramp_s": 0, "direct": False}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rw": "randread"}, {"random_percent": 100}),
        ({"name": "x"}, {}),
        ({"rw": "readwrite", "rwmixread": "80", "bs": "64k"}, {"read_percent": 80, "block_size": "64k"}),
        ({"rw": "randrw", "rwmixwrite": "30", "percentage_random": "75"}, {"read_percent": 70, "random_percent": 75}),
        (
            {"rw": "randrw", "bs": "4k,64k"},
            {"random_percent": 100, "read_percent": 50, "block_size": {"read": "4k", "write": "64k"}},
        ),
        # What follows was run with fio 3.33: the later of two options wins, and kb_base holds for what comes after it.
        ({"rw": "rw", "rwmixread": "80", "rwmixwrite": "30"}, {"read_percent": 70}),
        ({"rw": "rw", "rwmixwrite": "30", "rwmixread": "80"}, {"read_percent": 80}),
        ({"rw": "read", "buffered": "0"}, {"direct": True}),
        ({"rw": "read", "direct": "1", "buffered": "1"}, {"direct": False}),
        ({"rw": "read", "buffered": "1", "direct": "1"}, {"direct": True}),
        ({"rw": "read", "kb_base": "1000", "bs": "4kib"}, {"block_size": 4096}),
        ({"rw": "read", "bs": "12288B"}, {"block_size": 12288}),
        ({"rw": "read", "kb_base": "1000", "bs": "512kb"}, {"block_size": 512000}),
        ({"rw": "read", "bs": "8kb", "kb_base": "1000"}, {"block_size": 8192}),
        ({"rw": "read", "bs": "512kib"}, {"block_size": 512000}),
        ({"rw": "randread", "bssplit": "4k/60:64k/40"}, {"random_percent": 100, "block_size": {"4k": 60, "64k": 40}}),
        (
            {"rw": "randread", "bssplit": "4k/60:64k/:1m/"},
            {"random_percent": 100, "block_size": {"4k": 60, "64k": 20, "1m": 20}},
        ),
        ({"rw": "randread", "bsrange": "4k-64k"}, {"random_percent": 100, "block_size": "4k-64k"}),
        (
            {"rw": "read", "iodepth": "32", "ioengine": "libaio", "numjobs": "4", "direct": ""},
            {"queue_depth": 32, "workers": 4, "direct": True},
        ),
        # Depth means nothing to an engine that waits.
        ({"rw": "read", "iodepth": "32", "ioengine": "psync"}, {"queue_depth": 1}),
        ({"rw": "read", "runtime": "5m", "ramp_time": "30s"}, {"runtime_s": 300, "ramp_s": 30}),
        ({"rw": "write", "fsync": "1"}, {"read_percent": 0, "sync": {"fsync_every": 1}}),
        (
            {"rw": "write", "sync": "dsync", "end_fsync": "1"},
            {"read_percent": 0, "sync": {"mode": "dsync", "end_fsync": True}},
        ),
        ({"rw": "randread", "random_distribution": "zipf:1.2"}, {"random_percent": 100, "distribution": "zipf:1.2"}),
        ({"rw": "randread", "random_distribution": "random", "loops": "1", "fsync": "0"}, {"random_percent": 100}),
        ({"rw": "read", "thinktime": "2000", "thinktime_blocks": "8"}, {"think_time_us": 2000, "burst": 8}),
        ({"rw": "read", "rate_iops": "50", "numjobs": "4"}, {"rate_iops": 200, "workers": 4}),
        ({"rw": "write", "zero_buffers": "1"}, {"read_percent": 0, "data": {"pattern": "zero"}}),
        (
            {"rw": "write", "verify": "md5", "loops": "3"},
            {"read_percent": 0, "engine_options": {"fio": {"verify": "md5", "loops": "3"}}},
        ),
    ],
)
def test_options_are_the_workload(options, said):
    expected = normalise({**PLAIN, **said})
    if "runtime" not in options:
        # Nobody said how long, and a default of ours would be made up.
        del expected["runtime_s"]
    assert fio_options.workload(options) == expected


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ({}, {"ramp_s": 0}),
        ({"runtime": "0"}, {"ramp_s": 0}),
        ({"runtime": "7"}, {"ramp_s": 0, "runtime_s": 7}),
        ({"runtime": "12000ms"}, {"ramp_s": 0, "runtime_s": 12}),
        ({"runtime": "2500MSEC", "ramp_time": "500ms"}, {"ramp_s": 0.5, "runtime_s": 2.5}),
        ({"runtime": "1500000us"}, {"ramp_s": 0, "runtime_s": 1.5}),
        ({"runtime": "3usec"}, {"ramp_s": 0, "runtime_s": 0.000003}),
        ({"timeout": "90sec"}, {"ramp_s": 0, "runtime_s": 90}),
        ({"runtime": "2H", "ramp_time": "3m"}, {"ramp_s": 180, "runtime_s": 7200}),
        ({"runtime": "1d"}, {"ramp_s": 0, "runtime_s": 86400}),
    ],
)
def test_times_are_those_of_the_options_in_all_units_of_fio(options, times):
    workload = fio_options.workload({"rw": "read", **options})
    assert {key: workload[key] for key in ("ramp_s", "runtime_s") if key in workload} == times
    # A name can be made of it, and time is no part of that.
    assert workload_id(workload) == workload_id(fio_options.workload({"rw": "read"}))


def test_numbers_are_read_as_fio_reads_them():
    workload = fio_options.workload({"rw": "randrw", "rwmixread": "30.0", "bs": "0x2000", "iodepth": "0x10"})
    assert (workload["read_percent"], workload["block_size_bytes"], workload["queue_depth"]) == (30, 8192, 16)


def test_where_the_io_begins_is_part_of_the_workload():
    whole, later = (fio_options.workload({"rw": "randread", **more}) for more in ({}, {"offset": "48M"}))
    assert later["range"] == {"offset_bytes": 48 << 20, "size_bytes": None}
    assert whole["range"] == {"offset_bytes": 0, "size_bytes": None}
    share = fio_options.workload({"rw": "randread", "offset": "50%"})
    assert share["engine_options"] == {"fio": {"offset": "50%"}}
    odd = fio_options.workload({"rw": "randread", "offset": "100"})
    assert odd["engine_options"] == {"fio": {"offset": "100"}}
    assert len({workload_id(workload) for workload in (whole, later, share, odd)}) == 4


def test_every_result_has_a_workload_of_its_own():
    one = fio_options.workload({"rw": "randread", "name": "one"})
    one["range"]["offset_bytes"] = 4096
    other = fio_options.workload({"name": "other", "rw": "randread"})
    assert other["range"]["offset_bytes"] == 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rw": "trim"},
        {"rw": "randtrimwrite"},
        {"rw": "read", "bs": "many"},
        {"rw": "randrw", "iodepth": "1,2"},
        {"rw": "read", "bssplit": "4k/60:64k/60"},
        {"rw": "read", "bssplit": "4k/x"},
        {"rw": "randread", "bs": "513", "direct": "1"},
    ],
)
def test_options_that_do_not_say_it_plainly_are_no_workload(options):
    assert fio_options.workload(options) is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "it has no options of the job"),
        ({"rw": "randtrim"}, "its option rw=randtrim is neither reading nor writing"),
        ({"rw": "read", "bs": "many"}, "its option bs=many is not a size"),
        ({"rw": "read", "bs": "4096bb"}, "its option bs=4096bb is not a size"),
        ({"rw": "randrw", "iodepth": "1,2"}, "its option iodepth=1,2 is not one whole number"),
        ({"rw": "randrw", "rwmixread": "50.5"}, "its option rwmixread=50.5 is not one whole number"),
        ({"rw": "read", "runtime": "soon"}, "its option runtime=soon is not a time"),
        ({"rw": "read", "read_iolog": "/tmp/trace"}, "its option read_iolog=/tmp/trace replays a trace"),
        (
            {"rw": "read", "bssplit": "4k/60:64k/60"},
            "its option bssplit=4k/60:64k/60 does not give sizes with whole percents that add up to 100",
        ),
    ],
)
def test_the_option_that_is_not_plain_is_named_with_its_value(options, reason):
    assert fio_options.reading(options) == (None, reason)
    assert fio_options.reading({"rw": "randread"})[1] is None


def test_options_that_change_the_io_make_another_workload():
    names = {
        workload_id(fio_options.workload({"rw": "randwrite", **more}))
        for more in ({}, {"fsync": "1"}, {"zonemode": "strided"}, {"rate": "10m"}, {"dedupe_percentage": "40"})
    }
    assert len(names) == 5


CHANGES = (
    {},
    {"latency_target": "200us", "latency_window": "200ms", "latency_percentile": "90"},
    {"latency_target": "300us", "latency_window": "200ms", "latency_percentile": "90"},
    {"iodepth_batch": "8"},
    {"offset_increment": "1g"},
    {"flow": "8"},
    {"io_submit_mode": "offload"},
    {"rw": "randread:8"},
    {"an_option_of_tomorrow": "1"},
    {"invalidate": "0"},
    {"buffer_pattern": '"odd text"', "rw": "randwrite"},
    {"buffer_pattern": '"other text"', "rw": "randwrite"},
)


def test_an_option_that_nobody_knows_keeps_points_apart():
    names = {workload_id(fio_options.workload({"rw": "randread", **more})) for more in CHANGES}
    assert len(names) == len(CHANGES)


@given(st.dictionaries(st.sampled_from(sorted(fio_options.HARMLESS)), st.sampled_from(["0", "1", "x"])))
def test_options_that_leave_the_io_as_it_is_make_no_other_workload(more):
    assert fio_options.workload({"rw": "randread", **more}) == fio_options.workload({"rw": "randread"})
    assert fio_options.HARMLESS.isdisjoint({name for options in CHANGES for name in options})


@st.composite
def plain(draw):
    return normalise(
        {
            "block_size": draw(st.sampled_from(["512b", "4k", "1m", "4k-64k"])),
            "read_percent": draw(st.integers(0, 100)),
            "random_percent": draw(st.integers(0, 100)),
            "queue_depth": draw(st.integers(1, 256)),
            "workers": draw(st.integers(1, 8)),
            "ramp_s": draw(st.integers(0, 90)),
            "runtime_s": draw(st.integers(1, 900)),
            "direct": draw(st.booleans()),
        }
    )


@settings(deadline=None, max_examples=100)
@given(plain())
def test_what_a_job_file_says_is_read_back(workload):
    text = fio.job_file({"point_id": "p", "path": "/dev/ram0", "size_bytes": 64 << 20, "workload": workload, "seed": 7})
    options = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    known = fio_options.workload(options)
    # Workers whose I/O is sequential get a part each, and a warm page cache is left alone: of other people's jobs neither goes without saying.
    kept = {"offset_increment": None, "invalidate": None} | known.pop("engine_options", {}).get("fio", {})
    apart = workload["workers"] > 1 and workload["random_percent"] < 100
    assert (kept.pop("offset_increment") is not None) == apart
    assert (kept.pop("invalidate") == "0") == (not workload["direct"])
    assert (known, kept) == (workload, {})
