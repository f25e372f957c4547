# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Means of esxtop's counters, worked out by hand. The files are synthetic, in esxtop's grammar."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc

import places
import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.storlab.testbed.plugins.filter.esxtop_results import FilterModule
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import esxtop
from hypothesis import given, settings
from hypothesis import strategies as st
from unchanged import refused

SAMPLE = (places.FIXTURES / "esxtop" / "SYNTHETIC_batch.csv").read_text(encoding="utf-8")
DEVICE = r"\\esx7\Physical Disk SCSI Device(naa.1)"
DISK = r"\\esx7\Virtual Disk(a (b), c:scsi0:1)"
COLUMNS = {
    DEVICE + r"\Commands/sec": (9, 100, 300),
    DEVICE + r"\Average Guest MilliSec/Command": (9, "2.5", "0.5"),
    DEVICE + r"\Average Kernel MilliSec/Command": (9, "0.25", "0.05"),
    DEVICE + r"\MBytes Read/sec": (9, 1, 2),
    DISK + r"\Reads/sec": (9, 0, 0),
    DISK + r"\Average MilliSec/Read": (9, 0, 0),
    DISK + r"\Writes/sec": (9, "", 50),
    DISK + r"\Average MilliSec/Write": (9, "", "1.5"),
    r"\\esx7\Group Cpu(1234:vm)\% Used": (9, 40, 60),
    r"\\esx7\Memory\Memory Overcommit": (9, 1, 2),
}


def written(columns: dict, times=("02/03/2026 04:05:00", "02/03/2026 04:05:05", "02/03/2026 04:05:10")) -> str:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(["(PDH-CSV 4.0) (UTC)(0)", *columns])
    writer.writerows([at, *(values[position] for values in columns.values())] for position, at in enumerate(times))
    return out.getvalue()


@pytest.mark.parametrize(
    ("zone", "times", "began", "ended"),
    [
        ("(UTC)(0)", None, "2026-02-03T04:05:00Z", "2026-02-03T04:05:10Z"),
        ("(EST)(300)", None, "2026-02-03T09:05:00Z", "2026-02-03T09:05:10Z"),
        # As relog writes it, with milliseconds; the day before in UTC.
        (
            "(W. Europe Standard Time)(-60)",
            ("03/01/2026 00:10:00.250", "03/01/2026 00:10:04.250", "03/01/2026 00:10:12.250"),
            "2026-02-28T23:10:00Z",
            "2026-02-28T23:10:12Z",
        ),
    ],
)
def test_times_are_utc_whatever_zone_the_file_has(zone, times, began, ended):
    text = (written(COLUMNS, times) if times else written(COLUMNS)).replace("(UTC)(0)", zone, 1)
    found = esxtop.read(text)
    assert (found["started_utc"], found["finished_utc"]) == (began, ended)
    # A time window is in UTC, too: the second sample alone.
    middle = "2026-02-28T23:10:04Z" if times else began[:-3] + "05Z"
    assert esxtop.read(text, started_utc=middle)["samples"] == 1


def test_a_file_that_does_not_say_its_zone_is_refused():
    with pytest.raises(Failure) as caught:
        esxtop.read(written(COLUMNS).replace(" (UTC)(0)", "", 1))
    assert caught.value.code == "no_result"


def test_rates_are_means_of_samples_and_latencies_of_commands_without_the_first_sample():
    found = esxtop.read(written(COLUMNS))
    assert {
        key: found[key] for key in ("host", "samples", "sample_s", "interval_s", "started_utc", "finished_utc")
    } == {
        "host": "esx7",
        "samples": 2,
        "sample_s": 5,
        "interval_s": 10,
        "started_utc": "2026-02-03T04:05:00Z",
        "finished_utc": "2026-02-03T04:05:10Z",
    }
    assert "resets" not in found and "truncated" not in found
    # (100 · 2.5 + 300 · 0.5) / 400 = 1 ms; (100 · 0.25 + 300 · 0.05) / 400 = 0.1 ms
    assert found["devices"] == {
        "naa.1": {
            "iops": 200,
            "gavg_ns": pytest.approx(1_000_000),
            "kavg_ns": pytest.approx(100_000),
            "read_bandwidth_bytes_s": 1.5 * (1 << 20),
        }
    }
    # No read was done, so there is no latency of reads; and of the writes there is one sample.
    assert found["virtual_disks"] == {
        "a (b), c:scsi0:1": {"read_iops": 0, "write_iops": 50, "write_latency_mean_ns": 1_500_000}
    }
    assert found["groups"] == {"1234:vm": {"used_percent": 50}} and "processors" not in found


def test_sample_with_nested_parentheses_and_commas():
    found = esxtop.read(SAMPLE)
    assert found["samples"] == 1 and found["devices"]["naa.60000000000000000000000000000001"][
        "gavg_ns"
    ] == pytest.approx(410_000)
    assert found["virtual_disks"] == {
        "SQL02 (df09cdf2-1e74-45fb-9ccc-90d1c402fc6b):scsi0:0": {"read_iops": pytest.approx(340.1)}
    }
    assert FilterModule().filters()["esxtop_results"](SAMPLE) == found


def test_a_last_line_that_breaks_off_is_left_out_and_said():
    whole = written(COLUMNS)
    for cut in (whole[:-3], whole[:-60], whole[: whole.index("04:05:10") + 4]):
        found = esxtop.read(cut)
        assert found["truncated"] is True and found["samples"] == 1 and found["devices"]["naa.1"]["iops"] == 100
    # Without its line feed the last line is as whole as before.
    assert esxtop.read(whole.rstrip()) == esxtop.read(whole)


def test_values_of_counters_that_began_anew_are_in_no_mean():
    reset = {
        **COLUMNS,
        DEVICE + r"\Average Guest MilliSec/Command": (9, "18446744073709551.61", "0.5"),
        DEVICE + r"\MBytes Read/sec": (9, 1, "-3.00"),
    }
    found = esxtop.read(written(reset))
    assert (
        found["resets"] == 2
        and found["devices"]["naa.1"]["gavg_ns"] == 500_000
        and found["devices"]["naa.1"]["read_bandwidth_bytes_s"] == 1 << 20
    )


def test_adapters_are_read_as_devices_are():
    adapter = r"\\esx7\Physical Disk Adapter(vmhba64)"
    found = esxtop.read(
        written(
            {
                adapter + r"\Commands/sec": (9, 50, 150),
                adapter + r"\Average Queue MilliSec/Command": (9, "0.04", "0.02"),
            }
        )
    )
    assert found["adapters"] == {"vmhba64": {"iops": 100, "qavg_ns": pytest.approx(25_000)}}


@pytest.mark.parametrize(
    ("since", "until", "samples", "iops"),
    [
        ("04:05:00", None, 2, 200),
        ("04:05:01", None, 1, 300),
        (None, "04:05:09", 1, 100),
        ("04:05:05", "04:05:10", 1, 300),
    ],
)
def test_a_time_has_the_samples_that_lie_in_it(since, until, samples, iops):
    found = esxtop.read(written(COLUMNS), *(moment and f"2026-02-03T{moment}Z" for moment in (since, until)))
    assert (found["samples"], found["devices"]["naa.1"]["iops"]) == (samples, iops)


def test_a_time_without_samples_or_that_is_none_is_refused():
    with pytest.raises(Failure, match="in the time that was asked for"):
        esxtop.read(written(COLUMNS), "2026-02-03T04:05:06Z")
    with pytest.raises(Failure, match="yesterday"):
        esxtop.read(written(COLUMNS), finished_utc="yesterday")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_is_read_as_its_text(tmp_path, encoding):
    (tmp_path / "counters.csv").write_text(written(COLUMNS), encoding=encoding)
    read = FilterModule().filters()["esxtop_results"]
    assert read(str(tmp_path / "counters.csv"), file=True) == esxtop.read(written(COLUMNS))
    with refused(tmp_path, kind=AnsibleFilterError, match=r"none\.csv"):
        read(str(tmp_path / "none.csv"), file=True)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "no_result"),
        ("a,b\n1,2\n", "no_result"),
        ("\n".join(SAMPLE.splitlines()[:2]), "no_result"),
        (SAMPLE[:-40], "no_result"),
        (SAMPLE[:-40] + "\n" + SAMPLE.splitlines()[2], "esxtop_output_unreadable"),
        (SAMPLE.replace('"1199.00"', '"1199.00","1"'), "esxtop_output_unreadable"),
        (SAMPLE.replace("12/11/2012", "2012-12-11"), "esxtop_output_unreadable"),
        (SAMPLE.replace("1199.00", "1,199"), "esxtop_output_unreadable"),
        (
            written(COLUMNS, ("02/03/2026 04:05:00", "02/03/2026 04:05:05", "02/03/2026 04:05:05")),
            "esxtop_output_unreadable",
        ),
    ],
)
def test_other_and_damaged_files_are_refused(text, code):
    with pytest.raises(Failure) as caught:
        esxtop.read(text)
    assert caught.value.code == code
    with pytest.raises(AnsibleFilterError):
        FilterModule().filters()["esxtop_results"](text)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 1 << 16), st.integers(0, 20), st.text('0123456789,."\\()/%-e \nN', max_size=4))
def test_damage_is_a_failure_or_sound_figures(position, length, replacement):
    original = written(COLUMNS)
    at = position % (len(original) + 1)
    try:
        found = esxtop.read(original[:at] + replacement + original[at + length :])
    except Failure as failure:
        assert failure.what
        return
    json.dumps(found, allow_nan=False)


def wide(machines: int, samples: int):
    """The lines of a file as large hosts write it: of ten columns of a machine two are read."""
    names = [
        rf"\\esx7\{group}"
        for machine in range(machines)
        for group in (
            *(f"Vcpu({machine}:vm{machine}:{vcpu})\\% Used" for vcpu in range(8)),
            f"Virtual Disk(vm{machine}:scsi0:0)\\Reads/sec",
            f"Group Cpu({machine}:vm{machine})\\% Used",
        )
    ]
    yield ",".join(f'"{name}"' for name in ["(PDH-CSV 4.0) (UTC)(0)", *names]) + "\n"
    for sample in range(samples):
        row = [
            value
            for machine in range(machines)
            for value in (*("1.00" for _vcpu in range(8)), f"{machine + sample}.50", "12.25")
        ]
        yield ",".join(f'"{cell}"' for cell in [f"02/03/2026 04:{sample // 60:02}:{sample % 60:02}", *row]) + "\n"


def test_a_file_of_sixteen_thousand_columns_takes_no_more_memory_when_it_is_longer():
    peaks = []
    for samples in (3, 9):
        tracemalloc.start()
        found = esxtop.read(wide(1600, samples))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        # Machine 1599 has 1599.5 and the number of the sample; the first sample does not count.
        assert (
            found["virtual_disks"]["vm1599:scsi0:0"]["read_iops"] == 1599.5 + samples / 2
            and len(found["groups"]) == 1600
        )
    assert peaks[1] < 1.1 * peaks[0]
