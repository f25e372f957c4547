# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How engines are run on Windows hosts: which points share a run, what it is told, and how a layer is written once by what only knows time."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.times import unix_s
from ansible_collections.storlab.testbed.plugins.module_utils.engines import engine, icf, iometer
from ansible_collections.storlab.testbed.plugins.module_utils.engines.catalogue import ENGINES
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import engines
from hypothesis import given
from hypothesis import strategies as st

SETTINGS = {"program": None, "root": "C:\\storlab", "session": "auto", "iometer_version": "1.1.0"}
FIO, DISKSPD, IOMETER = (ENGINES[name] for name in ("fio", "diskspd", "iometer"))
MIB = 1 << 20


def job(
    number: int = 1,
    layer: str = "backing-bench",
    path: str = "\\\\.\\PhysicalDrive3",
    size_bytes: int = 96 * MIB,
    **workload,
) -> dict:
    known = normalise({"block_size": "4k", "ramp_s": 2, "runtime_s": 7, **workload})
    return {
        "point_id": f"{layer}.{number}",
        "layer": layer,
        "path": path,
        "size_bytes": size_bytes,
        "seed": 40 + number,
        "workload": known,
    }


def place(folder: str) -> engine.Place:
    return engine.Place(folder, windows=True, version="1.1.0")


def numbers(batches: list) -> list:
    return [[int(point["point_id"].rpartition(".")[2]) for point in batch] for batch in batches]


@pytest.mark.parametrize("single", [FIO, DISKSPD])
def test_fio_and_diskspd_run_one_point_at_a_time(single):
    assert numbers(single.batches([job(1), job(2, block_size="8k")])) == [[1], [2]]


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([job(1), job(2, block_size="8k"), job(3, read_percent=30)], [[1, 2, 3]]),
        ([job(1), job(2, layer="initiator-bench"), job(3)], [[1], [2], [3]]),
        ([job(1), job(2, runtime_s=8), job(3, runtime_s=8)], [[1], [2, 3]]),
        ([job(1), job(2, workers=3)], [[1], [2]]),
        # All depths of one pattern, then all of the next: that is how IOMeter goes through them.
        (
            [
                job(1, queue_depth=1),
                job(2, queue_depth=4),
                job(3, queue_depth=16),
                job(4, block_size="8k", queue_depth=1),
                job(5, block_size="8k", queue_depth=4),
                job(6, block_size="8k", queue_depth=16),
            ],
            [[1, 2, 3, 4, 5, 6]],
        ),
        # The other way round it is another order, which is kept.
        (
            [
                job(1, queue_depth=2),
                job(2, block_size="8k", queue_depth=2),
                job(3, queue_depth=5),
                job(4, block_size="8k", queue_depth=5),
            ],
            [[1, 2], [3, 4]],
        ),
        # The same point again, as with order as_listed.
        ([job(1), job(2), job(3)], [[1, 2, 3]]),
    ],
)
def test_iometer_takes_together_what_one_configuration_runs_in_this_order(points, expected):
    assert numbers(IOMETER.batches(points)) == expected


def test_a_run_of_iometer_has_a_limited_number_of_tests():
    many = [job(number, block_size=512 * number) for number in range(1, 71)]
    assert [len(batch) for batch in IOMETER.batches(many)] == [iometer.MOST_TESTS, 70 - iometer.MOST_TESTS]


def test_fio_is_given_a_job_file():
    run = FIO.command([job()], place("C:\\storlab\\t\\r-1"))
    assert run["arguments"] == ["--output-format=json+", "--output=fio.json", "job.fio"]
    lines = run["files"]["job.fio"].splitlines()
    assert "filename=\\\\.\\PhysicalDrive3" in lines
    assert "ioengine=windowsaio" in lines
    assert "thread=1" in lines
    assert run["limit_s"] == 2 + 7 + 60
    assert (run["link"], run["licence_version"], run["output"]) == ("", "", "")


def test_diskspd_is_given_a_command_line_and_its_output_is_kept():
    run = DISKSPD.command([job(read_percent=70, queue_depth=9)], place("C:\\storlab\\t\\r-1"))
    assert run["arguments"][:6] == ["-b4096", "-r4096", "-w30", "-o9", "-t1", "-W2"]
    assert run["arguments"][-1] == "#3"
    assert "-z41" in run["arguments"]
    assert run["output"] == "diskspd.xml"
    assert run["job"] == {"diskspd.txt": " ".join(["diskspd.exe", *run["arguments"]]) + "\n"}
    assert run["files"] == {}


def test_iometer_is_given_a_drive_by_its_number():
    run = IOMETER.command([job(), job(2, block_size="8k")], place("C:\\storlab\\t\\r-1"))
    assert run["arguments"] == [
        "/c",
        "C:\\storlab\\t\\r-1\\iometer.icf",
        "/r",
        "C:\\storlab\\t\\r-1\\iometer.csv",
        "/t",
        "60",
        "/p",
        run["mark"].removeprefix("-p "),
    ]
    assert run["leaves"] == "Dynamo.exe"
    assert 20000 <= int(run["mark"].removeprefix("-p ")) < 30000
    # Another run meets its Dynamo elsewhere.
    assert IOMETER.command([job()], place("C:\\storlab\\t\\r-2"))["mark"] != run["mark"]
    text = run["files"]["iometer.icf"]
    assert "\r\n\t3: " in text
    assert text.count("\n") == text.count("\r\n")
    assert [one["workload"]["block_size_bytes"] for one in icf.workloads(text)] == [4096, 8192]
    assert run["limit_s"] == 60 + 2 * (2 + 7 + 10) + 60
    assert run["licence_version"] == "1.1.0"
    assert run["link"] == ""


def test_iometer_measures_a_file_through_a_second_name_and_no_larger_than_it_is():
    run = IOMETER.command(
        [job(path="T:\\storlab-benchmark.dat", size_bytes=48 * MIB, range={"offset_bytes": MIB})],
        place("C:\\storlab\\t\\r-1"),
    )
    assert (run["link"], run["link_target"]) == ("T:\\iobw.tst", "T:\\storlab-benchmark.dat")
    (found,) = icf.workloads(run["files"]["iometer.icf"])
    assert found["workload"]["range"] == {"offset_bytes": MIB, "size_bytes": 47 * MIB}
    assert found["targets"][0].startswith("T:")


@pytest.mark.parametrize(
    "settings",
    [
        {"root": "/srv/storlab"},
        {"root": "C:\\two words"},
        {"root": "C:\\"},
        {"root": "\\\\server\\share"},
        {"iometer_version": "1.1.0;"},
    ],
)
def test_settings_that_cannot_work_are_refused(settings):
    with pytest.raises(Failure) as caught:
        engines.check({**SETTINGS, **settings})
    assert caught.value.code == "bad_value"
    assert next(iter(settings.values())) in str(caught.value) or repr(next(iter(settings.values()))) in str(
        caught.value
    )


def test_fio_writes_a_layer_in_one_run():
    make, point = FIO.fill(job(size_bytes=5 * MIB), engine.FILL_BLOCK_BYTES, 0, None)
    text = make(place("C:\\storlab\\t\\r-1"))["files"]["job.fio"]
    assert point["least_bytes"] == 5 * MIB
    assert "rw=write" in text
    assert f"size={5 * MIB}" in text


def test_writing_nothing_is_a_failure():
    _make, point = DISKSPD.fill(job(), engine.FILL_BLOCK_BYTES, 0, None)
    with pytest.raises(Failure) as caught:
        DISKSPD.written({"failures": [{"code": "no_io", "message": "No I/O was done."}]}, point)
    assert caught.value.code == "no_io"


@given(
    size_mib=st.integers(1, 400),
    bytes_s=st.floats(2 * MIB, 900 * MIB),
    on_its_way=st.integers(0, engine.FILL_DEPTH),
    jitter=st.lists(st.floats(0.3, 1.6), min_size=1, max_size=5),
)
def test_what_only_knows_time_still_writes_every_byte(size_mib, bytes_s, on_its_way, jitter):
    """The device is a row of blocks; each run writes from its start on, begins anew at its end, and leaves gaps among the last ones."""
    size, written, position, rate = size_mib * MIB, set(), 0, None
    for turn in range(1000):
        _make, point = DISKSPD.fill(job(size_bytes=size), engine.FILL_BLOCK_BYTES, position, rate)
        workload = point["workload"]
        assert workload["range"] == {"offset_bytes": position, "size_bytes": size - position}
        assert (workload["read_percent"], workload["random_percent"], workload["workers"]) == (0, 0, 1)
        span = (size - position) // MIB
        done = max(1, int(workload["runtime_s"] * bytes_s * jitter[turn % len(jitter)] / MIB))
        first = position // MIB
        # Those that had not ended are the last of those that were begun, but not in order.
        issued = range(done + on_its_way)
        finished = [block for block in issued if not on_its_way or block != done - 1][:done]
        written.update(first + block % span for block in finished)
        sure, rate = DISKSPD.written(
            {"failures": [], "runtime_s": float(workload["runtime_s"]), "write": {"bytes": len(finished) * MIB}}, point
        )
        if sure < point["least_bytes"]:
            # Too slow for its queue; told as a failure.
            assert done <= engine.FILL_DEPTH + 1
            return
        position += sure
        if position >= size:
            break
    assert position == size
    assert written == set(range(size_mib))


def test_time_of_the_host_is_read():
    assert unix_s("2026-11-21T08:15:30.250Z") - unix_s("2026-11-21T08:15:29.125Z") == pytest.approx(1.125)
