# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio itself does what our job files say: shares, sizes, pace, contents, verification."""

from __future__ import annotations

import collections
import json
import random
import re
import subprocess
import threading
import zlib

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio, fio_job
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from random_workloads import random_workload

SYNC, DATASYNC = 3, 4  # fio's numbers of what is neither read (0) nor write (1)


def fio_options() -> set:
    """The names of all options that this fio knows, aliases too."""
    told = subprocess.run(["fio", "--cmdhelp=all"], capture_output=True, text=True, check=True).stdout
    # The alias of a name that fills its column is told by the option's own help.
    names = {line.split()[0].rstrip(":") for line in told.splitlines() if line.strip()}
    for engine in fio_job.IOENGINES:
        told = subprocess.run(["fio", f"--enghelp={engine}"], capture_output=True, text=True).stdout
        names |= {line.split()[0] for line in told.splitlines() if " : " in line}
    return names


def test_options_are_those_of_fio():
    known = fio_options()
    assert len(known) > 150
    aliases = {"blocksize", "blocksize_range", "blockalign", "readwrite", "timeout", "io_limit", "iodepth_batch_submit"}
    named = fio_job.ALLOWED | set(fio_job.WORKLOAD_KEYS) | set().union(*fio_job.IOENGINES.values())
    assert named - known - aliases == set()
    assert not fio_job.ALLOWED & set(fio_job.WORKLOAD_KEYS)


# ---------------------------------------------------------------- what fio makes of them


def test_fio_takes_every_job_file(tmp_path):
    """Random workloads over all features, on a file and on the ceiling."""
    generator, files = random.Random(7), []  # noqa: S311
    while len(files) < 150:
        try:
            workload = normalise(random_workload(generator))
            path = generator.choice(["/dev/shm/x", None])
            text = fio.job_file({"point_id": "p", "path": path, "size_bytes": 1 << 30, "workload": workload, "seed": 5})
        except Failure as failure:
            assert failure.code in ("bad_value", "workload_unsupported")
            continue
        files.append(tmp_path / f"{len(files)}.fio")
        files[-1].write_text(text)
    done = subprocess.run(["fio", "--parse-only", *files], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


@pytest.fixture
def disk(tmp_path):
    """A file that stands in for a small device; nothing is measured on it."""
    path = tmp_path / "disk"
    path.write_bytes(bytes(8 << 20))
    return path


def run(disk, *arguments, fill=False, **workload) -> tuple:
    """(the record of the job, all that fio said)."""
    point = {
        "point_id": "p",
        "layer": "l",
        "path": str(disk),
        "size_bytes": disk.stat().st_size,
        "seed": 77,
        "workload": normalise({"direct": False, "ramp_s": 0, **workload}),
    }
    path = disk.with_suffix(".fio")
    path.write_text(fio.fill_file(point) if fill else fio.job_file(point))
    output = disk.with_suffix(".json")
    done = subprocess.run(
        ["fio", "--output-format=json", f"--output={output}", *arguments, path],
        capture_output=True,
        text=True,
        cwd=disk.parent,
    )
    text = output.read_text()
    return json.JSONDecoder().raw_decode(text, text.index("{\n"))[0]["jobs"][0], done.stdout + done.stderr + text


def issued(disk, **workload) -> list:
    """[(offset, length, direction)] of each I/O, in order."""
    _record, said = run(disk, "--debug=io", **workload)
    found = re.findall(r"prep: io_u 0x[0-9a-f]+: off=0x([0-9a-f]+),len=0x([0-9a-f]+),ddir=(\d)", said)
    return [(int(offset, 16), int(length, 16), int(direction)) for offset, length, direction in found]


def shares(values) -> dict:
    counted = collections.Counter(values)
    return {value: count / sum(counted.values()) for value, count in counted.items()}


def test_sizes_of_a_mix_have_their_shares_in_each_direction(disk):
    found = issued(
        disk, read_percent=50, io_bytes="16m", block_size={"read": {"4k": 75, "8k": 25}, "write": {"512": 40, "2k": 60}}
    )
    for direction, expected in ((0, {4096: 0.75, 8192: 0.25}), (1, {512: 0.4, 2048: 0.6})):
        assert shares(length for _offset, length, way in found if way == direction) == pytest.approx(expected, abs=0.05)
    assert {offset % 512 for offset, _length, _way in found} == {0}
    assert {offset % 1024 for offset, _length, _way in found} != {0}


@pytest.mark.parametrize("unit", [4096, 1536])
def test_sizes_of_a_range_are_its_multiples_and_equally_likely(disk, unit):
    found = issued(disk, io_bytes="32m", block_size=f"{unit}-{4 * unit}")
    assert shares(length for _offset, length, _way in found) == pytest.approx(
        {unit * times: 0.25 for times in range(1, 5)}, abs=0.05
    )


def test_sequential_mixes_leave_nothing_out(disk):
    found = issued(disk, io_bytes="4m", random_percent=0, block_size={"4k": 50, "12k": 50})
    assert all(before + length == after for (before, length, _way), (after, _length, _other) in zip(found, found[1:]))


def test_zones_get_their_share(disk):
    found = issued(
        disk,
        io_bytes="8m",
        distribution={
            "zoned": [{"access_percent": 80, "space_percent": 10}, {"access_percent": 20, "space_percent": 90}]
        },
    )
    border = disk.stat().st_size // 10
    assert shares(offset < border for offset, _length, _way in found)[True] == pytest.approx(0.8, abs=0.04)


@pytest.mark.parametrize("law", ["zipf:1.2", "pareto:0.2"])
def test_hot_spots_are_hot(disk, law):
    def busiest(**workload) -> float:
        counted = sorted(
            shares(offset for offset, _length, _way in issued(disk, io_bytes="8m", **workload)).values(), reverse=True
        )
        return sum(counted[:20])

    assert busiest(distribution=law) > 3 * busiest()


def test_workers_that_verify_do_not_share_blocks(disk):
    record, _said = run(disk, workers=3, read_percent=0, verify="crc32c", io_bytes="6m")
    assert record["write"]["io_bytes"] == 6 << 20
    assert int(record["job options"]["offset_increment"]) * 3 <= 8 << 20


@pytest.mark.parametrize(
    ("workload", "moved"),
    [
        ({"io_bytes": "3m"}, 3 << 20),
        ({"io_bytes": "20m", "workers": 2}, 20 << 20),
        ({"loops": 3}, 24 << 20),
        ({"loops": 2, "workers": 2, "random_percent": 0}, 16 << 20),
    ],
)
def test_an_amount_is_moved_whole(disk, workload, moved):
    record, _said = run(disk, block_size="16k", **workload)
    assert record["read"]["io_bytes"] == moved


@pytest.mark.parametrize(
    ("workload", "direction", "unit", "limit"),
    [
        ({"rate_iops": 400, "read_percent": 75, "workers": 2}, "read", "iops", 300),
        ({"rate_iops": 400, "read_percent": 75, "workers": 2}, "write", "iops", 100),
        ({"rate_bytes_s": "2m", "block_size": {"4k": 50, "12k": 50}}, "read", "bw_bytes", 2 << 20),
        (
            {"rate_iops": 250, "block_size": {"read": {"4k": 50, "12k": 50}, "write": "16k"}, "read_percent": 80},
            "read",
            "iops",
            200,
        ),
        ({"rate_iops": 500, "rate_process": "poisson"}, "read", "iops", 500),
        ({"think_time_us": 20000, "burst": 4, "queue_depth": 1}, "read", "iops", 200),
    ],
)
def test_pace_is_kept(disk, workload, direction, unit, limit):
    """Never faster; slower only as long as a busy machine makes it."""
    depth, rates = workload.pop("queue_depth", 8), []
    while not rates or rates[-1] <= 0.6 * limit:
        record, _said = run(disk, runtime_s=1, queue_depth=depth, **workload)
        rates.append(record[direction][unit])
        assert rates[-1] < 1.15 * limit
        assert len(rates) <= 10, f"always too slow: {rates}"


def test_poisson_arrivals_are_uneven(disk):
    """Of evenly spaced I/Os each 20 ms hold four; the number of those that arrive by chance varies as much as it is big."""

    def variance_over_mean(process: str) -> float:
        log = disk.with_name("log")
        _record, _said = run(
            disk, f"--write_lat_log={log}", runtime_s=2, rate_iops=200, rate_process=process, queue_depth=16
        )
        counted = collections.Counter(
            int(line.split(",")[0]) // 20 for line in log.with_name("log_lat.1.log").read_text().splitlines()
        )
        numbers = [counted[number] for number in range(5, 95)]
        mean = sum(numbers) / len(numbers)
        return sum((number - mean) ** 2 for number in numbers) / len(numbers) / mean

    assert variance_over_mean("poisson") > 0.5
    # A busy machine holds I/Os back and lets them go together, so one undisturbed try in many is enough.
    assert any(variance_over_mean("linear") < 0.25 for _try in range(20))


@pytest.mark.parametrize(
    ("sync", "kind", "every"), [({"fsync_every": 8}, SYNC, 8), ({"fdatasync_every": 5}, DATASYNC, 5)]
)
def test_every_so_many_writes_are_made_to_last(disk, sync, kind, every):
    _record, said = run(
        disk, "--debug=io", read_percent=0, io_bytes="640k", sync=sync, engine_options={"fio": {"ioengine": "psync"}}
    )
    counted = collections.Counter(
        int(way) for way in re.findall(r"queue: io_u 0x[0-9a-f]+: off=0x[0-9a-f]+,len=0x[0-9a-f]+,ddir=(\d)", said)
    )
    assert counted[1] == 160
    assert counted[kind] == pytest.approx(160 / every, abs=1)


@pytest.mark.parametrize("mode", ["sync", "dsync"])
def test_synchronous_writes(disk, mode):
    record, _said = run(disk, read_percent=0, io_bytes="64k", sync={"mode": mode, "end_fsync": True})
    assert (record["error"], record["write"]["io_bytes"], record["job options"]["sync"]) == (0, 65536, mode)


def content(disk, **data) -> bytes:
    run(disk, fill=True, read_percent=0, **({"data": data} if data else {}))
    return disk.read_bytes()


def compressed(data: bytes) -> float:
    return len(zlib.compress(data, 1)) / len(data)


def test_data_is_incompressible_unless_asked_for(disk):
    data = content(disk)
    assert compressed(data) > 0.98
    assert len({data[at : at + 4096] for at in range(0, len(data), 4096)}) == len(data) // 4096


def test_measured_writes_differ_in_every_block_and_are_random_only_within_one_unless_made_anew(disk):
    asked = {"read_percent": 0, "random_percent": 0, "loops": 1, "block_size": "4k"}
    run(disk, **asked)
    data = disk.read_bytes()
    blocks = {data[at : at + 4096] for at in range(0, len(data), 4096)}
    assert len(blocks) == len(data) // 4096 and min(map(compressed, blocks)) > 0.8
    assert compressed(data) < 0.5
    run(disk, **asked, data={"refill": True})
    assert compressed(disk.read_bytes()) > 0.98


def test_data_of_zeros(disk):
    disk.write_bytes(b"x" * (8 << 20))
    assert content(disk, pattern="zero") == bytes(8 << 20)


def test_data_that_repeats(disk):
    assert content(disk, pattern="repeat", hex="0badc0de") == bytes.fromhex("0badc0de") * (2 << 20)


def test_data_that_compresses(disk):
    assert compressed(content(disk, compress_percent=60)) == pytest.approx(0.4, abs=0.05)


def test_data_with_duplicates(disk):
    record, _said = run(disk, read_percent=0, loops=1, random_percent=0, data={"dedupe_percent": 70})
    data = disk.read_bytes()
    assert record["write"]["io_bytes"] == len(data)
    assert len({data[at : at + 4096] for at in range(0, len(data), 4096)}) / (len(data) // 4096) == pytest.approx(
        0.3, abs=0.05
    )


@pytest.mark.parametrize(
    "how", [{"io_bytes": "24m"}, {"loops": 2, "random_percent": 0}, {"io_bytes": "12m", "workers": 2, "queue_depth": 8}]
)
def test_what_was_written_is_read_back_and_counts_as_written_only(disk, how):
    record, _said = run(disk, read_percent=0, verify="crc32c", **how)
    assert (record["error"], record["write"]["io_bytes"] > 0, record["read"]["io_bytes"] > 0) == (0, True, True)
    (found,) = fio.results(disk.with_suffix(".json").read_text())
    assert (found["status"], "read" in found, found["total"]["ios"]) == (
        "measured",
        False,
        record["write"]["total_ios"],
    )
    assert found["runtime_s"] == record["write"]["runtime"] / 1000
    assert {path.suffix for path in disk.parent.iterdir()} == {"", ".fio", ".json"}


def test_damage_is_found(disk):
    """Somebody else writes over the blocks while they are measured."""
    ended = threading.Event()

    def damage():
        while not ended.wait(0.002):
            with open(disk, "r+b") as handle:
                handle.write(bytes(8 << 20))

    thread = threading.Thread(target=damage)
    thread.start()
    try:
        record, said = run(disk, read_percent=0, verify="crc32c", io_bytes="16m")
    finally:
        ended.set()
        thread.join()
    assert record["error"] == 84
    assert "verify: bad" in said
    (found,) = fio.results(disk.with_suffix(".json").read_text())
    assert (found["status"], "io_errors" in {failure["code"] for failure in found["failures"]}) == ("failed", True)


# ---------------------------------------------------------------- a file per worker


def unwritten(content: bytes) -> int:
    """How many blocks of 4 KiB are still all zero."""
    return sum(not any(content[offset : offset + 4096]) for offset in range(0, len(content), 4096))


def test_each_worker_has_its_file_and_touches_no_other(tmp_path):
    """Written by three workers, each file has contents of its own; a fourth one stays as it is, and none is made."""
    size = 1 << 20
    files = [tmp_path / f"storlab-benchmark.{number}.dat" for number in range(4)]
    for path in files:
        path.write_bytes(bytes(size))
    workload = normalise({"workers": 3, "read_percent": 0, "random_percent": 0, "direct": False, "loops": 1})
    names = [str(path) for path in files]
    point = {
        "point_id": "p",
        "layer": "l",
        "path": names[0],
        "files": names,
        "size_bytes": size,
        "workload": workload,
        "seed": 5,
    }
    job = tmp_path / "job.fio"
    job.write_text(fio.job_file(point))
    subprocess.run(["fio", "--output=/dev/null", str(job)], cwd=tmp_path, check=True)
    contents = [path.read_bytes() for path in files]
    assert contents[3] == bytes(size) and len(set(contents)) == 4
    assert not any(unwritten(content) for content in contents[:3])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.fio", *(path.name for path in files)]
    # A fill writes all of them, whatever the number of workers.
    job.write_text(fio.fill_file({**point, "workload": normalise({})}))
    subprocess.run(["fio", "--output=/dev/null", str(job)], cwd=tmp_path, check=True)
    assert not any(unwritten(path.read_bytes()) for path in files)
