# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio's job files: what they say, and what the real fio does with them."""

from __future__ import annotations

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core import layers
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise

SIZE = 64 << 20


def job_text(path="/dev/ram0", size=SIZE, **workload) -> str:
    return fio.job_file(
        {"point_id": "p", "path": path, "size_bytes": size, "workload": normalise(workload), "seed": 77}
    )


def job(path="/dev/ram0", size=SIZE, **workload) -> dict:
    lines = job_text(path, size, **workload).splitlines()
    assert lines[0] == "[p]"
    return dict(line.split("=", 1) for line in lines[1:])


# ---------------------------------------------------------------- job files


@pytest.mark.parametrize(
    ("read", "random", "rw", "extra"),
    [
        (100, 100, "randread", {}),
        (0, 100, "randwrite", {}),
        (100, 0, "read", {}),
        (0, 0, "write", {}),
        (70, 100, "randrw", {"rwmixread": "70"}),
        (35, 0, "rw", {"rwmixread": "35"}),
        (80, 60, "randrw", {"rwmixread": "80", "percentage_random": "60"}),
        (100, 25, "randread", {"percentage_random": "25"}),
    ],
)
def test_access_pattern(read, random, rw, extra):
    options = job(read_percent=read, random_percent=random)
    assert options["rw"] == rw
    assert {key: value for key, value in options.items() if key in ("rwmixread", "percentage_random")} == extra


def test_job_says_everything_that_decides_the_figure():
    options = job(block_size="8k", queue_depth=16, workers=3, ramp_s=4, runtime_s=30)
    assert {
        key: options[key]
        for key in ("bs", "iodepth", "numjobs", "ramp_time", "runtime", "time_based", "direct", "ioengine")
    } == {
        "bs": "8192",
        "iodepth": "16",
        "numjobs": "3",
        "ramp_time": "4",
        "runtime": "30",
        "time_based": "1",
        "direct": "1",
        "ioengine": "libaio",
    }
    assert {
        key: options[key] for key in ("randrepeat", "randseed", "scramble_buffers", "allow_file_create", "thread")
    } == {"randrepeat": "0", "randseed": "77", "scramble_buffers": "1", "allow_file_create": "0", "thread": "1"}
    assert (options["offset"], options["size"]) == ("0", str(SIZE))


@pytest.mark.parametrize(
    ("data", "reduces", "contents"),
    [
        ({}, False, {"scramble_buffers": "1"}),
        ({}, True, {"refill_buffers": "1"}),
        ({"refill": True}, False, {"refill_buffers": "1"}),
        ({"refill": False}, False, {"scramble_buffers": "1"}),
        ({"compress_percent": 40}, False, {"refill_buffers": "1"}),
        ({"dedupe_percent": 40}, False, {"refill_buffers": "1"}),
        ({"pattern": "zero"}, True, {}),
    ],
)
def test_blocks_are_made_anew_only_where_that_makes_a_difference(data, reduces, contents):
    point = {"path": "/dev/sdq", "size_bytes": SIZE, "seed": 77, "reduces_data": reduces, "layer": "l", "point_id": "p"}
    point["workload"] = normalise({"read_percent": 0, "data": data})
    # A fill is not measured, so its blocks are always made anew.
    filled = {} if data.get("pattern") == "zero" else {"refill_buffers": "1"}
    for text, wanted in ((fio.job_file(point), contents), (fio.fill_file(point), filled)):
        options = dict(line.split("=", 1) for line in text.splitlines()[1:])
        assert {key: options[key] for key in options if key in ("scramble_buffers", "refill_buffers")} == wanted


def test_what_compresses_is_known_through_the_layers_above_it():
    paths = {"backing": ("/dev/zram3", None), "target": ("/dev/sdb", "backing"), "guest": ("/dev/vdb", "target")}
    known = {name: {"name": name, "path": path, "parent": parent} for name, (path, parent) in paths.items()}
    plain = {"name": "x", "path": "/dev/zram3x", "parent": None}
    assert [layers.reduces_data(known, one) for one in (*known.values(), plain)] == [True, True, True, False]
    known["backing"]["path"] = "/dev/ram3"
    assert not layers.reduces_data(known, known["guest"])


def test_ceiling_has_no_device():
    options = job(path=None, size=None)
    assert options["ioengine"] == "null"
    assert "filename" not in options
    assert options["size"] == str(1 << 30)


def test_range_is_kept():
    options = job(range={"offset_bytes": "1m", "size_bytes": "2m"})
    assert (options["offset"], options["size"]) == (str(1 << 20), str(2 << 20))


def test_range_beyond_the_layer_is_refused():
    with pytest.raises(Failure, match=r"workload\.range.*keep offset_bytes") as caught:
        job(range={"offset_bytes": "63m", "size_bytes": "2m"})
    assert caught.value.code == "bad_value"


def test_sequential_workers_get_disjoint_aligned_slices_within_the_layer():
    options = job(block_size="64k", random_percent=0, workers=3, size=10 << 20)
    step = int(options["offset_increment"])
    assert step == int(options["size"])
    assert step % 65536 == 0
    assert 3 * step <= 10 << 20 < 3 * (step + 65536)


def test_random_workers_share_the_range():
    assert "offset_increment" not in job(workers=3)


def test_alignment():
    assert job(block_size="8k", alignment="4k")["blockalign"] == "4096"
    with pytest.raises(Failure) as caught:
        job(block_size="8k", alignment="4k", random_percent=0)
    assert caught.value.code == "workload_unsupported"


def test_colons_in_paths_are_escaped():
    assert (
        job(path="/dev/disk/by-path/ip-10.0.0.1:3260-lun-0")["filename"] == r"/dev/disk/by-path/ip-10.0.0.1\:3260-lun-0"
    )


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (r"T:\storlab-benchmark.dat", r"T\:\storlab-benchmark.dat"),
        (r"q:\a-b\c_1.dat", r"q\:\a-b\c_1.dat"),
        (r"\\.\PhysicalDrive12", r"\\.\PhysicalDrive12"),
    ],
)
def test_paths_of_windows(path, told):
    options = job(path=path)
    assert (options["filename"], options["ioengine"], options["thread"], options["direct"]) == (
        told,
        "windowsaio",
        "1",
        "1",
    )
    text = fio.fill_file({"layer": "l", "path": path, "size_bytes": SIZE, "workload": normalise({}), "seed": 1})
    assert f"\nfilename={told}\n" in text and "\nioengine=windowsaio\n" in text
    assert fio.ioengine(path) == fio.ioengine(path, normalise({})) == "windowsaio"


@pytest.mark.parametrize(
    "path",
    [
        "/dev/a b",
        "/dev/x\nexec_prerun=reboot",
        "/dev/${HOME}",
        "relative",
        "/dev/a;b",
        "T:",
        "T:\\",
        "T:name.dat",
        "T:\\a b.dat",
        "T:\\a:b",
        "T:/a.dat",
        "T:\\a\nunlink=1",
        "\\\\.\\PhysicalDrive",
        "\\\\.\\PhysicalDrive1\\x",
        "\\\\.\\T:",
        "\\\\server\\share\\a",
        "\\\\?\\PhysicalDrive1",
        "TT:\\a.dat",
    ],
)
def test_paths_that_fio_would_read_differently_are_refused(path):
    with pytest.raises(Failure) as caught:
        job(path=path)
    assert caught.value.code == "bad_value"


@pytest.mark.parametrize(("size", "block"), [(SIZE, 1 << 20), ((1 << 20) + 512, 512), (12288, 4096)])
def test_fill_writes_every_byte_once(size, block):
    job_text = fio.fill_file(
        {"layer": "l", "path": "/dev/ram0", "size_bytes": size, "workload": normalise({}), "seed": 1}
    )
    assert f"\nbs={block}\n" in job_text
    assert f"\nsize={size}\n" in job_text
    assert "\nrw=write\n" in job_text
    assert "time_based" not in job_text


def test_preconditioning_writes_more_than_once():
    text = fio.fill_file(
        {"layer": "l", "path": "/dev/ram0", "size_bytes": SIZE, "workload": normalise({}), "seed": 1}, 128 << 10, 2
    )
    assert "\nbs=131072\n" in text
    assert "\nloops=2\n" in text


# ---------------------------------------------------------------- a file per worker

FILES = [f"/srv/ds/storlab-benchmark.{number}.dat" for number in range(3)]


def several(files=FILES, **workload) -> dict:
    return {
        "point_id": "p",
        "layer": "l",
        "path": files[0],
        "files": files,
        "size_bytes": SIZE,
        "workload": normalise(workload),
        "seed": 77,
    }


def options_of(text: str) -> dict:
    return dict(line.split("=", 1) for line in text.splitlines()[1:] if line)


@pytest.mark.parametrize("random", [0, 100])
def test_each_worker_has_a_whole_file_of_its_own(random):
    options = options_of(fio.job_file(several(workers=2, random_percent=random)))
    assert (options["directory"], options["filename_format"]) == ("/srv/ds", "storlab-benchmark.$jobnum.dat")
    assert (options["numjobs"], options["offset"], options["size"]) == ("2", "0", str(SIZE))
    assert not {"filename", "offset_increment"} & set(options)


def test_a_fill_writes_every_file_whatever_the_number_of_workers():
    options = options_of(fio.fill_file(several(workers=1)))
    assert (options["numjobs"], options["size"], options["offset"]) == ("3", str(SIZE), "0")


def test_more_workers_than_files_are_refused():
    with pytest.raises(Failure, match="The layer has 3 files") as caught:
        fio.job_file(several(workers=4))
    assert (caught.value.code, caught.value.details["variable"]) == ("workload_unsupported", "workers")


@pytest.mark.parametrize(
    "files", [["/srv/ds/a.0.dat", "/srv/ds/b.1.dat"], ["/srv/ds/a.1.dat", "/srv/ds/a.2.dat"], ["/s/a.0.d", "/t/a.1.d"]]
)
def test_files_that_fio_would_not_find_by_their_number_are_refused(files):
    with pytest.raises(Failure, match="layer files"):
        fio.job_file(several(files))


# ---------------------------------------------------------------- what fio cannot do, and what it is not given


@pytest.mark.parametrize(
    ("workload", "variable"),
    [
        ({"engine_options": {"fio": {"ioengine": "psync"}}, "queue_depth": 2}, "queue_depth"),
        ({"engine_options": {"fio": {"ioengine": "mmap"}}}, "direct"),
        ({"engine_options": {"fio": {"ioengine": "null"}}}, "engine_options.fio.ioengine"),
        ({"engine_options": {"fio": {"ioengine": "external:/tmp/x.so"}}}, "engine_options.fio.ioengine"),
        ({"engine_options": {"fio": {"hipri": 1}}}, "engine_options.fio.hipri"),
        ({"engine_options": {"fio": {"bs": "4k"}}}, "engine_options.fio.bs"),
        ({"rate_iops": 300, "rate_process": "poisson", "block_size": "4k-8k"}, "rate_process"),
        ({"rate_iops": 3, "workers": 4}, "rate_iops"),
        ({"rate_iops": 10, "read_percent": 99}, "rate_iops"),
        ({"rate_iops": 50, "workers": 4}, "rate_iops"),
        ({"sync": {"fsync_every": 2}, "read_percent": 50}, "sync.fsync_every"),
        ({"sync": {"fdatasync_every": 2}, "read_percent": 50}, "sync.fdatasync_every"),
        ({"verify": "crc32c", "read_percent": 0}, "verify"),
        ({"verify": "crc32c", "loops": 1, "read_percent": 50}, "verify"),
        ({"verify": "crc32c", "loops": 1, "read_percent": 0, "alignment": "512"}, "verify"),
        ({"random_percent": 50, "alignment": "512"}, "alignment"),
        ({"verify": "crc32c", "loops": 1, "read_percent": 0, "block_size": "4k-8k"}, "verify"),
        ({"block_size": {str(512 * number): 1 if number < 65 else 36 for number in range(1, 66)}}, "block_size"),
    ],
)
def test_what_fio_cannot_do_is_said(workload, variable):
    with pytest.raises(Failure) as caught:
        job(**workload)
    assert caught.value.code == "workload_unsupported"
    assert caught.value.details["variable"] == variable
    assert variable in caught.value.what and caught.value.remedy.endswith(".")


def test_a_workload_goes_on_over_errors_of_a_device_alone():
    options = job(read_percent=0, verify="crc32c", loops=1, on_error="continue")
    # Not over a difference in what it reads back.
    assert (options["continue_on_error"], options["error_dump"]) == ("io", "1")
    reads, writes = options["ignore_error"].split(",")
    assert reads == writes == "5:6:19:67:110"
    assert not {"continue_on_error", "ignore_error", "error_dump"} & set(job(read_percent=0))
    assert "continue_on_error" not in job(path=None, size=None, on_error="continue")
    with pytest.raises(Failure, match="on_error"):
        job(path="T:\\f.dat", on_error="continue")


def test_writes_that_may_fail_and_are_compared_are_of_each_block_once():
    """Otherwise fio crashes when it compares them."""
    words = {"read_percent": 0, "on_error": "continue"}
    assert "norandommap" not in job(**words, verify="crc32c", loops=1)
    assert "norandommap" not in job(**words, verify="crc32c", io_bytes=1 << 20)
    # Not compared, or sure not to fail: as ever.
    assert job(**words, loops=1)["norandommap"] == "1"
    assert job(read_percent=0, verify="crc32c", loops=2)["norandommap"] == "1"
    for more in (
        {"loops": 2},
        {"io_bytes": SIZE + 4096},
        {"loops": 1, "random_percent": 50},
        {"loops": 1, "distribution": "zipf:1.2"},
    ):
        with pytest.raises(Failure, match="no block may be written twice"):
            job(**words, verify="crc32c", **more)
    assert "norandommap" not in job(**words, verify="crc32c", io_bytes=SIZE)


def test_the_ceiling_cannot_verify():
    with pytest.raises(Failure, match="leave the ceiling out"):
        job(path=None, size=None, verify="md5", loops=1, read_percent=0)


def through(**options) -> dict:
    return {"engine_options": {"fio": options}}


@pytest.mark.parametrize(
    ("path", "workload", "variable", "remedy"),
    [
        (r"T:\a.dat", through(ioengine="libaio"), "engine_options.fio.ioengine", "sync, windowsaio"),
        (r"\\.\PhysicalDrive1", through(ioengine="psync"), "engine_options.fio.ioengine", "sync, windowsaio"),
        (r"T:\a.dat", through(ioengine="null"), "engine_options.fio.ioengine", "reach another"),
        ("/dev/ram0", through(ioengine="windowsaio"), "engine_options.fio.ioengine", "libaio"),
        (r"T:\a.dat", through(numa_cpu_nodes="0"), "engine_options.fio.numa_cpu_nodes", "leave it out"),
        (r"T:\a.dat", through(prio=3), "engine_options.fio.prio", "leave it out"),
        (r"T:\a.dat", through(io_submit_mode="offload"), "engine_options.fio.io_submit_mode", "leave it out"),
        (r"T:\a.dat", through(ioengine="sync"), "direct", "page cache"),
        (r"T:\a.dat", {**through(ioengine="sync"), "direct": False, "queue_depth": 2}, "queue_depth", "windowsaio"),
        (
            r"T:\a.dat",
            {**through(ioengine="sync"), "direct": False, "read_percent": 0, "sync": {"mode": "sync"}},
            "sync.mode",
            "windowsaio",
        ),
        (r"T:\a.dat", {"read_percent": 0, "sync": {"mode": "dsync"}}, "sync.mode", "the mode sync only"),
    ],
)
def test_what_fio_has_on_one_system_only_is_refused_on_the_other(path, workload, variable, remedy):
    with pytest.raises(Failure) as caught:
        job(path=path, **workload)
    assert (caught.value.code, caught.value.details["variable"]) == ("workload_unsupported", variable)
    assert remedy in caught.value.remedy


def test_what_fio_has_on_both_is_passed_on_to_both():
    same = {"cpus_allowed": "0-3", "nice": 5, "fadvise_hint": 0}
    for path in ("/dev/ram0", r"T:\a.dat"):
        options = job(
            path=path, direct=False, read_percent=0, sync={"fsync_every": 4}, **through(ioengine="sync", **same)
        )
        assert {key: options[key] for key in same} == {key: str(value) for key, value in same.items()}
        assert (options["ioengine"], options["fsync"]) == ("sync", "4")
    assert job(path=r"T:\a.dat", read_percent=0, sync={"mode": "sync"})["sync"] == "sync"


@pytest.mark.parametrize("engine", ["windowsaio", "io_uring"])
def test_the_ceiling_stands_in_for_an_engine_of_either_system(engine):
    assert job(path=None, size=None, queue_depth=4, **through(ioengine=engine))["ioengine"] == "null"


@pytest.mark.parametrize(
    "option",
    [
        "filename",
        "filename_format",
        "directory",
        "opendir",
        "lockfile",
        "exec_prerun",
        "exec_postrun",
        "client",
        "server",
        "output",
        "output-format",
        "write_bw_log",
        "write_lat_log",
        "write_iops_log",
        "write_hist_log",
        "write_iolog",
        "read_iolog",
        "replay_redirect",
        "merge_blktrace_file",
        "include",
        "unlink",
        "unlink_each_loop",
        "allow_mounted_write",
        "allow_file_create",
        "create_only",
        "create_on_open",
        "create_serialize",
        "filetype",
        "trigger-file",
        "trigger",
        "trigger-remote",
        "aux-path",
        "mem",
        "iomem",
        "verify_dump",
        "verify_state_save",
        "verify_state_load",
        "ioscheduler",
        "cgroup",
        "uid",
        "gid",
        "trim_percentage",
        "zonemode",
        "continue_on_error",
        "ignore_error",
        "gtod_reduce",
        "disable_lat",
        "percentile_list",
        "group_reporting",
        "thread",
        "profile",
        "write_barrier_to",
        "fallocate",
        "nrfiles",
        "filesize",
        "file_append",
        "fill_device",
        "overwrite",
        "stonewall",
        "error_dump",
        "pre_read",
        "name",
    ],
)
def test_what_could_reach_elsewhere_or_hide_something_is_not_passed_on(option):
    with pytest.raises(Failure) as caught:
        job(engine_options={"fio": {option: "1"}})
    assert (caught.value.code, caught.value.details["variable"]) == (
        "workload_unsupported",
        f"engine_options.fio.{option}",
    )


def test_options_are_passed_on_and_the_engine_is_known():
    workload = {
        "engine_options": {"fio": {"ioengine": "io_uring", "sqthread_poll": True, "nice": -5}},
        "queue_depth": 4,
    }
    options = job(**workload)
    assert {key: options[key] for key in ("ioengine", "sqthread_poll", "nice")} == {
        "ioengine": "io_uring",
        "sqthread_poll": "1",
        "nice": "-5",
    }
    assert fio.ioengine("/dev/ram0", normalise(workload)) == "io_uring"
    assert fio.ioengine("/dev/ram0") == fio.ioengine("/dev/ram0", normalise({})) == "libaio"


def test_the_ceiling_stays_the_null_engine():
    workload = {"engine_options": {"fio": {"ioengine": "io_uring", "sqthread_poll": True, "nice": 5}}}
    options = job(path=None, size=None, **workload)
    assert (options["ioengine"], options["nice"], "sqthread_poll" in options) == ("null", "5", False)
    assert fio.ioengine(None, normalise(workload)) == "null"
