# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What fio writes now is read as its older output is."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio
from ansible_collections.storlab.testbed.plugins.module_utils.result import histogram, result

# ---------------------------------------------------------------- a real fio, once merged by itself and once by us


def bin_of(nanoseconds: int) -> int:
    """The bin that fio puts a latency into, by the description in its stat.h: 64 bins each power of two, named by their middle."""
    if nanoseconds < 128:
        return nanoseconds
    shift = nanoseconds.bit_length() - 7
    return ((nanoseconds >> shift) << shift) + (1 << (shift - 1))


def run(folder: Path, *more: str) -> tuple:
    """(output, the latency of every single I/O by job, in ns) of four jobs on a file."""
    (folder / "data").write_bytes(bytes(4 << 20))
    said = subprocess.run(
        [
            "fio",
            "--name=job",
            "--filename=data",
            "--size=4m",
            "--bs=4k",
            "--rw=randread",
            "--ioengine=psync",
            "--numjobs=4",
            "--thread",
            "--time_based",
            "--runtime=1",
            "--rate_iops=800",
            "--lat_percentiles=1",
            "--output-format=json+",
            "--percentile_list=50:95:99:99.9:99.99",
            "--write_lat_log=all",
            *more,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return said, [
        [int(line.split(",")[1]) for line in (folder / f"all_lat.{job}.log").read_text().splitlines()]
        for job in (1, 2, 3, 4)
    ]


def nearest_rank(values: list, percent: float) -> int:
    return sorted(values)[math.ceil(percent / 100 * len(values)) - 1]


def bins_of(values: list) -> dict:
    found: dict = {}
    for value in values:
        found[str(bin_of(value))] = found.get(str(bin_of(value)), 0) + 1
    return {key: found[key] for key in sorted(found, key=int)}


def test_four_records_merged_are_the_distribution_of_all_their_io(tmp_path):
    said, jobs = run(tmp_path)
    found = fio.results(said)
    assert [one["read"]["histogram"]["bins"] for one in found] == [bins_of(values) for values in jobs]
    merged = fio.together(found)
    everything = [value for values in jobs for value in values]
    assert merged["total"]["ios"] == len(everything)
    assert merged["total"]["iops"] == pytest.approx(sum(one["read"]["iops"] for one in found))
    assert merged["total"]["latency_mean_ns"] == pytest.approx(sum(everything) / len(everything), rel=1e-6)
    for percent, key in result.PERCENTILES.items():
        assert merged["total"][key] == bin_of(nearest_rank(everything, percent))


def test_group_reporting_of_fio_is_our_merge_of_its_jobs(tmp_path):
    said, jobs = run(tmp_path, "--group_reporting")
    (group,) = fio.results(said)
    merged = histogram.merge([bins_of(values) for values in jobs])
    assert group["read"]["histogram"]["bins"] == merged
    told = raw_percentiles(said)
    assert histogram.percentiles(merged, told) == told


def raw_percentiles(said: str) -> dict:
    return {
        float(key): value
        for key, value in json.loads(said[said.index("{") :])["jobs"][0]["read"]["lat_ns"]["percentile"].items()
    }


def test_an_option_given_twice_is_the_later_one_as_in_fio():
    said = subprocess.run(
        ["fio", "--name=x", "--bs=4k", "--bs=8k", "--rw=read", "--ioengine=null", "--size=64k", "--output-format=json"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.count('"bs" :') == 2
    (found,) = fio.results(said)
    assert found["workload"]["block_size_bytes"] == 8192
    assert found["read"]["bytes"] / found["read"]["ios"] == 8192


@pytest.mark.parametrize("version", ["2", "3", "4", "5"])
def test_terse_output_of_every_version_is_refused_even_after_messages(version):
    said = subprocess.run(
        [
            "fio",
            "--name=t",
            "--rw=read",
            "--ioengine=null",
            "--size=64k",
            "--output-format=terse",
            f"--terse-version={version}",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    with pytest.raises(Failure, match="terse") as caught:
        fio.results("fio: a warning\n" + said)
    assert caught.value.code == "no_result"
