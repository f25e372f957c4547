# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Single elements of diskspd's output: what is read of them, and what they must not hold."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import diskspd
from unchanged import broken_off


def element(text: str):
    return ElementTree.fromstring(f"<All>{text}</All>")  # noqa: S314, it is the test's own


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("7.25", 7.25),
        ("nan", None),
        ("-inf", None),
        ("-1.#IND", None),
        ("1.#QNAN00", None),
        ("nan(ind)", None),
    ],
)
def test_numbers_as_programs_of_windows_write_them(text, value):
    assert diskspd._value("x", text) == value


@pytest.mark.parametrize("text", ["", "7,5", "1e9", "-7.5", "0x10", "7.", "1" * 21])
def test_what_is_no_number(text):
    with broken_off(match="cannot be read"):
        diskspd._value("x", text)


@pytest.mark.parametrize(("inside", "count"), [("<N>18446744073709551615</N>", (1 << 64) - 1), ("<N>0</N>", 0)])
def test_counts(inside, count):
    assert diskspd._count(element(inside), "N") == count


@pytest.mark.parametrize("inside", ["", "<N> </N>", "<N>7.5</N>", "<N>18446744073709551616</N>", "<N>nan</N>"])
def test_what_is_no_count(inside):
    with broken_off(match="not a count"):
        diskspd._count(element(inside), "N")


@pytest.mark.parametrize(
    ("text", "moment"), [("2026/11/4 3:07:09 UTC", "2026-11-04T03:07:09Z"), ("yesterday", None), ("", None)]
)
def test_when_it_started(text, moment):
    root = element(f"<System><RunTime>{text}</RunTime></System>")
    assert diskspd._times(root, [(None, element(""))]) == [{"started_utc": moment} if moment else {}]


def span_of(seconds):
    return element(f"<TestTimeSeconds>{seconds}</TestTimeSeconds>")


def profile_of(warm_up, cool_down):
    return element(f"<Warmup>{warm_up}</Warmup><Cooldown>{cool_down}</Cooldown>")


def test_time_spans_follow_one_another():
    """A baseline and a candidate that one profile of diskspd measured in turns have their own times, and so a design."""
    root = element("<System><RunTime>2026/11/4 23:59:50 UTC</RunTime></System>")
    rows = [
        (profile_of(5, 2), span_of("30.02")),
        (profile_of(7, 0), span_of("11.00")),
        (profile_of(1, 1), span_of("4")),
    ]
    assert diskspd._times(root, rows) == [
        {"started_utc": "2026-11-04T23:59:50Z", "finished_utc": "2026-11-05T00:00:25Z"},
        {"started_utc": "2026-11-05T00:00:27Z", "finished_utc": "2026-11-05T00:00:45Z"},
        {"started_utc": "2026-11-05T00:00:45Z", "finished_utc": "2026-11-05T00:00:50Z"},
    ]
    # Without the profile of one, only the start of that one is known; without a time of the document, nothing is.
    rows[0] = (None, span_of("30.02"))
    assert diskspd._times(root, rows) == [{"started_utc": "2026-11-04T23:59:50Z"}, {}, {}]
    assert diskspd._times(element("<System/>"), rows) == [{}, {}, {}]


def test_a_time_span_longer_than_a_calendar():
    root = element("<System><RunTime>2026/11/4 3:07:09 UTC</RunTime></System>")
    with broken_off(match="longer than a calendar"):
        diskspd._times(root, [(profile_of("9" * 18, 0), span_of("4"))])


def test_a_day_that_no_year_has():
    with broken_off(match="RunTime is '2026/13/4 3:07:09 UTC'"):
        diskspd._started(element("<System><RunTime>2026/13/4 3:07:09 UTC</RunTime></System>"))


BUCKETS = "".join(
    f"<Bucket><Percentile>{percent}</Percentile><ReadMilliseconds>{value}</ReadMilliseconds></Bucket>"
    for percent, value in (("0", "0.250"), ("50", "0.500"), ("99.9", "nan"), ("100", "7.000"))
)


def test_latencies_of_one_direction():
    mean = "<AverageReadMilliseconds>0.750</AverageReadMilliseconds><ReadLatencyStdev>0.125</ReadLatencyStdev>"
    span = element(f"<Latency>{mean}{BUCKETS}</Latency>")
    read = diskspd._latency(span, "Read", 11)
    assert {key: read[key] for key in ("samples", "mean", "stddev", "min", "max")} == {
        "samples": 11,
        "mean": 750_000,
        "stddev": 125_000,
        "min": 250_000,
        "max": 7_000_000,
    }
    assert read["percentiles"] == {0.0: 250_000, 50.0: 500_000, 100.0: 7_000_000}
    assert diskspd._latency(span, "Write", 11) == diskspd._latency(element(""), "Read", 11) == {}


def test_processors_that_are_not_told():
    shares = "".join(f"<CPU><UsagePercent>{share}</UsagePercent></CPU>" for share in ("12.50", "-0.02"))
    average = "<Average><UsagePercent>6.25</UsagePercent></Average>"
    whole = f"<CpuUtilization>{shares}{average}</CpuUtilization>"
    cpu = diskspd._cpu(element(f"<ProcCount>2</ProcCount>{whole}"), 8.0, 1000)
    assert cpu == {
        "host_busy_percent": 6.25,
        "busiest_core_percent": 12.5,
        "cores": 2,
        "host_busy_s": 1.0,
        "us_per_io": 1000.0,
    }
    # Without their number a share says nothing of time.
    assert diskspd._cpu(element(whole), 8.0, 1000) == {"host_busy_percent": 6.25, "busiest_core_percent": 12.5}
    assert diskspd._cpu(element(""), 8.0, 1000) == {}


def test_what_each_target_did():
    def target(reads: int, mean: str) -> str:
        return (
            f"<Target><ReadCount>{reads}</ReadCount><ReadBytes>{reads * 512}</ReadBytes>{mean}"
            "<WriteCount>0</WriteCount><WriteBytes>0</WriteBytes></Target>"
        )

    def mean(text: str) -> str:
        return f"<AverageReadLatencyMilliseconds>{text}</AverageReadLatencyMilliseconds>"

    both = element(target(10, mean("1.000")) + target(30, mean("3.000"))).findall("Target")
    measured = diskspd._of_path(both, 4.0)
    assert set(measured) == {"read"} and measured["read"]["ios"] == 40 and measured["read"]["iops"] == 10.0
    assert measured["read"]["latency_mean_ns"] == 2_500_000
    # One thread that does not tell its mean leaves none of all.
    partly = element(target(10, mean("1.000")) + target(30, "")).findall("Target")
    assert "latency_mean_ns" not in diskspd._of_path(partly, 4.0)["read"]


def test_words_that_a_workload_has_not():
    given = (
        "<BlockSize>4096</BlockSize><Random>4096</Random><WriteRatio>30</WriteRatio><ThreadsPerFile>2</ThreadsPerFile>"
    )
    assert diskspd._of_target(element(given)) is not None
    for odd in (
        "<InterlockedSequential>true</InterlockedSequential>",
        "<MemoryMappedIo>true</MemoryMappedIo>",
        "<ThreadTargets/>",
        "<Distribution><Absolute/></Distribution>",
    ):
        assert diskspd._of_target(element(given + odd)) is None


def test_sequential_workers_need_the_size_of_their_target():
    workload = {"block_size_bytes": 4096, "alignment_bytes": 4096, "random_percent": 0, "workers": 3}
    with pytest.raises(Failure, match="say how big the target is"):
        diskspd._access(workload, None)
    assert diskspd._access({**workload, "workers": 1}, None) == ["-s4096"]
