# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Means of esxtop's counters, worked out by hand. The files are synthetic, in esxtop's grammar."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.storlab.testbed.plugins.filter.esxtop_counters import FilterModule
from ansible_collections.storlab.testbed.plugins.module_utils.engines import esxtop
from ansible_collections.storlab.testbed.plugins.module_utils.failure import Failure
from hypothesis import given, settings
from hypothesis import strategies as st

SAMPLE = (Path(__file__).parent / "fixtures" / "esxtop" / "SYNTHETIC_batch.csv").read_text(encoding="utf-8")
DEVICE = r"\\esx7\Physical Disk SCSI Device(naa.1)"
DISK = r"\\esx7\Virtual Disk(a (b), c:scsi0:1)"
COLUMNS = {
    DEVICE + r"\Commands/sec": (9, 100, 300), DEVICE + r"\Average Guest MilliSec/Command": (9, "2.5", "0.5"),
    DEVICE + r"\Average Kernel MilliSec/Command": (9, "0.25", "0.05"), DEVICE + r"\MBytes Read/sec": (9, 1, 2),
    DISK + r"\Reads/sec": (9, 0, 0), DISK + r"\Average MilliSec/Read": (9, 0, 0), DISK + r"\Writes/sec": (9, "", 50),
    DISK + r"\Average MilliSec/Write": (9, "", "1.5"), r"\\esx7\Group Cpu(1234:vm)\% Used": (9, 40, 60), r"\\esx7\Memory\Memory Overcommit": (9, 1, 2),
}


def written(columns: dict, times=("02/03/2026 04:05:00", "02/03/2026 04:05:05", "02/03/2026 04:05:10")) -> str:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(["(PDH-CSV 4.0) (UTC)(0)", *columns])
    writer.writerows([at, *(values[position] for values in columns.values())] for position, at in enumerate(times))
    return out.getvalue()


def test_rates_are_means_of_samples_and_latencies_of_commands_without_the_first_sample():
    found = esxtop.read(written(COLUMNS))
    assert (found["host"], found["samples"], found["interval_s"], found["started_utc"], found["finished_utc"]) == (
        "esx7", 2, 5, "2026-02-03T04:05:05Z", "2026-02-03T04:05:10Z")
    # (100 · 2.5 + 300 · 0.5) / 400 = 1 ms; (100 · 0.25 + 300 · 0.05) / 400 = 0.1 ms
    assert found["devices"] == {"naa.1": {"iops": 200, "gavg_ns": pytest.approx(1_000_000), "kavg_ns": pytest.approx(100_000),
                                          "read_bandwidth_bytes_s": 1.5 * (1 << 20)}}
    # No read was done, so there is no latency of reads; and of the writes there is one sample.
    assert found["virtual_disks"] == {"a (b), c:scsi0:1": {"read_iops": 0, "write_iops": 50, "write_latency_mean_ns": 1_500_000}}
    assert found["groups"] == {"1234:vm": {"used_percent": 50}} and "processors" not in found


def test_sample_with_nested_parentheses_and_commas():
    found = esxtop.read(SAMPLE)
    assert found["samples"] == 1 and found["devices"]["naa.60000000000000000000000000000001"]["gavg_ns"] == pytest.approx(410_000)
    assert found["virtual_disks"] == {"SQL02 (df09cdf2-1e74-45fb-9ccc-90d1c402fc6b):scsi0:0": {"read_iops": pytest.approx(340.1)}}
    assert FilterModule().filters()["esxtop_counters"](SAMPLE) == found


@pytest.mark.parametrize(("text", "code"), [
    ("", "no_result"), ("a,b\n1,2\n", "no_result"), ("\n".join(SAMPLE.splitlines()[:2]), "no_result"), (SAMPLE[:-40], "esxtop_output_unreadable"),
    (SAMPLE.replace("12/11/2012", "2012-12-11"), "esxtop_output_unreadable"), (SAMPLE.replace("1199.00", "1,199"), "esxtop_output_unreadable"),
    (written(COLUMNS, ("02/03/2026 04:05:00", "02/03/2026 04:05:05", "02/03/2026 04:05:05")), "esxtop_output_unreadable"),
])
def test_other_and_damaged_files_are_refused(text, code):
    with pytest.raises(Failure) as caught:
        esxtop.read(text)
    assert caught.value.code == code
    with pytest.raises(AnsibleFilterError):
        FilterModule().filters()["esxtop_counters"](text)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 1 << 16), st.integers(0, 20), st.text("0123456789,.\"\\()/%-e \nN", max_size=4))
def test_damage_is_a_failure_or_sound_figures(position, length, replacement):
    original = written(COLUMNS)
    at = position % (len(original) + 1)
    try:
        found = esxtop.read(original[:at] + replacement + original[at + length:])
    except Failure as failure:
        assert failure.what
        return
    json.dumps(found, allow_nan=False)
