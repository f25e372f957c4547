# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a device sees of our fio jobs: offsets, sizes, directions, contents, flushes, and how many I/Os are under way when.

fio's column of the table in docs/workloads.md, "What each engine makes of it". The job is the product's, but for the lines that say how fio reaches
the device (scripted_device.py).
"""

from __future__ import annotations

import collections
import itertools
import subprocess

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio
from ansible_collections.storlab.testbed.plugins.module_utils.workload.meanings import meanings
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from scripted_device import FLUSH, READ, WRITE, Run, reached, scripted

SIZE = 32 << 20
PAUSE_US = 20_000


def seen(folder, delay_s: float = 0.0, **workload) -> Run:
    """What the device saw of this workload."""
    point = {
        "point_id": "p",
        "layer": "l",
        "path": "/nowhere",
        "size_bytes": SIZE,
        "seed": 77,
        "workload": normalise({"ramp_s": 0, **workload}),
    }
    with scripted(folder, SIZE, lambda _export, _number, _elapsed_s: delay_s) as device:
        job = folder / "job.fio"
        job.write_text(reached(fio.job_file(point), device.uri("p")))
        done = subprocess.run(["fio", "--output-format=json", str(job)], capture_output=True, text=True, cwd=folder)
        run = device.runs()["p"]
    assert done.returncode == 0, done.stderr + done.stdout
    (result,) = fio.results(done.stdout)
    # Nothing of it was left out, and what fio tells is what was asked of the device.
    assert (result["total"]["ios"], result["total"]["bytes"]) == (
        len(run.requests()),
        sum(one["length"] for one in run.requests()),
    )
    assert len(run.connections) == point["workload"]["workers"]
    return run


def share(values) -> float:
    values = list(values)
    return sum(values) / len(values)


def jumps(requests: list) -> list:
    """Of each I/O but the first, whether it begins elsewhere than where the one before ended."""
    return [one["offset"] + one["length"] != later["offset"] for one, later in itertools.pairwise(requests)]


def test_fio_of_the_package_reaches_such_a_device():
    told = subprocess.run(["fio", "--enghelp"], capture_output=True, text=True, check=True).stdout
    assert "nbd" in told.split(), "this fio was built without libnbd, which the package of Debian has"


@pytest.mark.parametrize("percent", [0, 30, 75, 100])
def test_share_of_random_offsets(tmp_path, percent):
    run = seen(tmp_path, random_percent=percent, io_bytes="8m")
    assert share(jumps(run.requests())) == pytest.approx(percent / 100, abs=0.04 if 0 < percent < 100 else 0.002)
    assert {one["offset"] % 4096 for one in run.requests()} == {0}


def test_share_of_reads_and_sizes_of_each_direction(tmp_path):
    run = seen(
        tmp_path, read_percent=70, io_bytes="24m", block_size={"read": {"4k": 80, "16k": 20}, "write": {"8k": 100}}
    )
    assert share(one["kind"] == READ for one in run.requests()) == pytest.approx(0.7, abs=0.04)
    sizes = {kind: collections.Counter(one["length"] for one in run.requests(kind)) for kind in (READ, WRITE)}
    assert set(sizes[READ]) == {4096, 16384} and set(sizes[WRITE]) == {8192}
    assert sizes[READ][4096] / sizes[READ].total() == pytest.approx(0.8, abs=0.04)


def test_reads_and_writes_go_on_each_from_where_their_own_ended(tmp_path):
    """What others do not, so that every result of such a workload says so."""
    workload = {"read_percent": 50, "random_percent": 0}
    run = seen(tmp_path, io_bytes="8m", **workload)
    assert share(jumps(run.requests(READ))) == share(jumps(run.requests(WRITE))) == 0
    assert share(jumps(run.requests())) == pytest.approx(0.5, abs=0.04)
    assert "directions_apart" in meanings(normalise(workload), workers_apart=True)


def test_alignment_and_range(tmp_path):
    run = seen(
        tmp_path, alignment="64k", range={"offset_bytes": 2 << 20, "size_bytes": 8 << 20}, io_bytes="4m", read_percent=0
    )
    offsets = {one["offset"] for one in run.requests()}
    assert {offset % 65536 for offset in offsets} == {0}
    assert min(offsets) >= 2 << 20 and max(offsets) + 4096 <= 10 << 20
    assert len(offsets) > 0.9 * (8 << 20) / 65536


def areas(run: Run) -> list:
    """[(lowest, highest end)] of each worker, lowest first."""
    return sorted(
        (
            min(one["offset"] for one in each["requests"]),
            max(one["offset"] + one["length"] for one in each["requests"]),
        )
        for each in run.connections
    )


def test_sequential_workers_begin_in_a_part_each_and_stay_there(tmp_path):
    run = seen(tmp_path, workers=4, random_percent=0, block_size="64k", loops=1)
    part = SIZE // 4
    assert areas(run) == [(part * number, part * (number + 1)) for number in range(4)]
    for each in run.connections:
        assert each["requests"][0]["offset"] % part == 0
        assert not any(jumps(each["requests"]))


def test_workers_that_are_partly_random_stay_in_a_part_each(tmp_path):
    run = seen(tmp_path, workers=4, random_percent=40, io_bytes="16m")
    part = SIZE // 4
    for number, (lowest, end) in enumerate(areas(run)):
        assert part * number <= lowest < end <= part * (number + 1)
    assert share(itertools.chain.from_iterable(jumps(each["requests"]) for each in run.connections)) == pytest.approx(
        0.4, abs=0.04
    )


def test_random_workers_share_the_range_and_no_two_do_the_same(tmp_path):
    run = seen(tmp_path, workers=3, io_bytes="12m")
    for lowest, end in areas(run):
        assert lowest < SIZE / 20 and end > SIZE * 19 / 20
    orders = {tuple(one["offset"] for one in each["requests"]) for each in run.connections}
    assert len(orders) == 3


@pytest.mark.parametrize("depth", [1, 8])
def test_as_many_are_under_way_as_asked_for(tmp_path, depth):
    run = seen(tmp_path, delay_s=0.002, queue_depth=depth, workers=2, io_bytes="2m")
    for each in run.connections:
        assert max(one["in_flight"] for one in each["requests"]) == depth


def bursts(requests: list) -> list:
    """How many I/Os came between two pauses: for so long after the last answer none came."""
    found, since, answered = [], 0, 0
    for one in requests:
        if since and one["arrived_ns"] - answered >= PAUSE_US * 1000:
            found.append(since)
            since = 0
        since += 1
        answered = max(answered, one["answered_ns"])
    return found


def test_a_pause_follows_each_burst(tmp_path):
    run = seen(tmp_path, think_time_us=PAUSE_US, burst=6, io_bytes=6 * 15 * 4096)
    # A machine that stood still looks like a pause, so there may be more of them, but at each place where one is asked for there is one.
    assert {6 * number for number in range(1, 15)} <= set(itertools.accumulate(bursts(run.requests())))


def test_a_pause_with_several_under_way_waits_for_all_of_them(tmp_path):
    """What others do not, so that every result of such a workload says so."""
    workload = {"think_time_us": PAUSE_US, "burst": 6, "queue_depth": 4}
    run = seen(tmp_path, delay_s=0.004, io_bytes=6 * 15 * 4096, **workload)
    assert max(one["in_flight"] for one in run.requests()) == 4
    # The whole pause lies after the last answer. Counted are I/Os that have ended, so up to three more belong to a burst.
    found = bursts(run.requests())
    assert max(found) <= 6 + 3 and len(found) >= 90 // 9 - 1
    assert "think_time_in_flight" in meanings(normalise(workload), workers_apart=True)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, "random"),
        ({"refill": True}, "random"),
        ({"compress_percent": 60}, "compressible"),
        ({"pattern": "repeat", "hex": "0badc0de"}, "compressible"),
        ({"pattern": "zero"}, "zero"),
    ],
)
def test_contents(tmp_path, data, expected):
    run = seen(tmp_path, read_percent=0, io_bytes="1m", block_size="16k", **({"data": data} if data else {}))
    assert {one["content"] for one in run.requests()} == {expected}


def test_flushes_come_after_so_many_writes(tmp_path):
    run = seen(tmp_path, read_percent=0, io_bytes=40 * 4096, sync={"fsync_every": 5})
    kinds = [one["kind"] for one in run.requests(WRITE, FLUSH)]
    between = [len(list(group)) for kind, group in itertools.groupby(kinds) if kind == WRITE]
    assert between == [5] * 8 and kinds.count(FLUSH) >= 7
