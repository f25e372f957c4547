# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results out of what real fio left behind (fixtures/fio/make_fixtures.py made it)."""

from __future__ import annotations

import json

import places
import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.storlab.testbed.plugins.filter.fio_results import FilterModule
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio, fio_documents, fio_figures
from ansible_collections.storlab.testbed.plugins.module_utils.result import histogram, result

FIXTURES = places.FIXTURES / "fio"


def text(name: str) -> str:
    # newline="" keeps the carriage returns that fio on Windows writes.
    with open(FIXTURES / name, encoding="utf-8", errors="surrogateescape", newline="") as handle:
        return handle.read()


def told_percentiles(document: dict):
    for record in document.get("jobs", []) + document.get("client_stats", []):
        for name in ("read", "write", "mixed"):
            latency = record.get(name, {}).get("lat_ns", {})
            if latency.get("bins") and latency.get("percentile"):
                yield latency["bins"], latency["percentile"]


def test_percentiles_from_bins_are_those_of_fio_bit_for_bit():
    compared = 0
    for path in sorted(FIXTURES.glob("*.[jt]*")):
        if path.name == "terse.txt":
            continue
        for document in fio_documents.parse(text(path.name))[0]:
            for bins, told in told_percentiles(document):
                wanted = {float(key): value for key, value in told.items()}
                assert histogram.percentiles(bins, wanted) == wanted, path.name
                compared += len(wanted)
    assert compared > 100


def test_merged_clients_are_what_fio_reports_for_all_clients():
    name = "client_server.txt"
    document = fio_documents.parse(text(name))[0][0]
    everybody = next(record for record in document["client_stats"] if record["jobname"] == fio.ALL_CLIENTS)
    clients = fio.results(text(name))
    assert len(clients) == 2
    for direction in ("read", "write"):
        merged = result.merge_directions([client[direction] for client in clients])
        assert merged["ios"] == everybody[direction]["total_ios"]
        assert merged["latency_mean_ns"] == pytest.approx(everybody[direction]["lat_ns"]["mean"], rel=1e-3)
        assert merged["latency_stddev_ns"] == pytest.approx(everybody[direction]["lat_ns"]["stddev"], rel=1e-3)


def test_mixed_job():
    (found,) = fio.results(text("mixed_group.json"))
    raw = json.loads(text("mixed_group.json"))["jobs"][0]
    assert found["status"] == "measured"
    assert found["read"]["iops"] == raw["read"]["iops"]
    assert found["write"]["latency_p99_ns"] == raw["write"]["lat_ns"]["percentile"]["99.000000"]
    assert found["total"]["ios"] == raw["read"]["total_ios"] + raw["write"]["total_ios"]
    assert sum(found["total"]["histogram"]["bins"].values()) == raw["read"]["lat_ns"]["N"] + raw["write"]["lat_ns"]["N"]
    assert found["workload"]["read_percent"] == 70
    assert found["workload"]["workers"] == 2
    assert found["engine"]["latency"] == "total"


def test_four_records_of_one_name_are_four_results():
    assert len(fio.results(text("four_records.json"))) == 4


def test_cumulative_documents_count_once():
    documents, _between = fio_documents.parse(text("status_interval.json"))
    assert len(documents) > 2
    (found,) = fio.results(text("status_interval.json"))
    assert found["total"]["ios"] == documents[-1]["jobs"][0]["write"]["total_ios"]


def test_two_runs_in_one_text_are_two_results():
    found = fio.results(text("killed.json") + "\nsome words\n" + text("mixed_group.json"))
    assert [one["job_name"] for one in found] == ["killed", "mixed"]


@pytest.mark.parametrize(
    ("name", "job_name"),
    [
        ("normal_json.txt", "both"),
        ("tab_in_description.json", "tab"),
        ("windows_3.42_thread.json", "job1"),
        ("windows_3.42_nothread_warning.json", "job1"),
    ],
)
def test_dirty_text_is_read(name, job_name):
    (found,) = fio.results(text(name))
    assert (found["job_name"], found["status"]) == (job_name, "measured")
    assert found["total"]["iops"] > 0


@pytest.mark.parametrize(
    ("options", "contents"),
    [
        ({}, None),
        ({"scramble_buffers": "1"}, "scrambled"),
        ({"scramble_buffers": "0"}, None),
        ({"scramble_buffers": "1", "refill_buffers": "1"}, "refilled"),
    ],
)
def test_how_the_blocks_of_a_job_differ_is_told(options, contents):
    document = json.loads(text("mixed_group.json"))
    for given in (document.get("global options", {}), *(job["job options"] for job in document["jobs"])):
        for name in ("scramble_buffers", "refill_buffers"):
            given.pop(name, None)
    for job in document["jobs"]:
        job["job options"].update(options)
    (read,) = fio.results(json.dumps(document))
    assert read["engine"].get("contents") == contents


def test_windows_figures_of_our_own_job_files_are_read():
    """Told by the files themselves: counts of I/Os, of bytes, the longest and the median in nanoseconds."""
    (mixed,), (verified,) = fio.results(text("windows_3.42_mixed.json")), fio.results(text("windows_3.42_verify.json"))
    assert (mixed["status"], verified["status"]) == ("measured", "measured")
    assert mixed["engine"] == {
        "name": "fio",
        "version": "3.42",
        "ioengine": "windowsaio",
        "latency": "total",
        "contents": "refilled",
    }
    assert [
        (mixed[way]["ios"], mixed[way]["latency_max_ns"], mixed[way]["latency_p50_ns"]) for way in ("read", "write")
    ] == [(240, 9652181, 189440), (80, 8250198, 171008)]
    # 2 workers, 60 and 20 I/Os per second each.
    assert (mixed["read"]["iops"], mixed["write"]["iops"], mixed["runtime_s"]) == (
        pytest.approx(120, rel=0.01),
        pytest.approx(40, rel=0.01),
        2.012,
    )
    # What is read back is no part of the workload.
    assert ("read" in verified, verified["write"]["bytes"], verified["total"]["ios"], verified["runtime_s"]) == (
        False,
        64 * 65536,
        64,
        0.013,
    )


@pytest.mark.parametrize(
    ("name", "codes"),
    [("missing_file.txt", ["no_io"]), ("verify_errors.txt", ["io_errors"]), ("killed.json", ["engine_exit"])],
)
def test_failed_runs_are_failed(name, codes):
    (found,) = fio.results(text(name))
    assert (found["status"], [failure["code"] for failure in found["failures"]]) == ("failed", codes)


def test_io_that_failed_is_no_io_of_a_job_that_goes_on():
    """fio's own document has 150 I/Os, 70 errors, and the bytes and latencies of 80."""
    (went_on,) = fio.results(text("went_on.txt"))
    write = went_on["write"]
    assert (write["ios"], write["bytes"], went_on["errors"]) == (80, 80 * 4096, {"total": 70, "first": 27})
    assert write["iops"] == pytest.approx(80 / 2.155, rel=0.001)
    assert sum(write["histogram"]["bins"].values()) == 80


def test_a_direction_without_io_is_absent():
    (found,) = fio.results(text("normal_json.txt"))
    assert "write" not in found
    assert found["total"]["ios"] == found["read"]["ios"]


def test_a_latency_that_was_not_measured_is_absent():
    (found,) = fio.results(text("no_latency.json"))
    assert found["status"] == "measured"
    assert not [key for key in found["total"] if key.startswith("latency")]


def test_unified_reporting_is_not_counted_twice():
    (mixed,), (both,) = fio.results(text("unified_mixed.json")), fio.results(text("unified_both.json"))
    assert "read" not in mixed
    assert mixed["status"] == "measured"
    assert both["total"]["ios"] == both["read"]["ios"] + both["write"]["ios"]


def test_old_units():
    """fio 2.x reports microseconds; before 2.21 io_bytes is KiB and bins cannot be read."""
    record = {
        "jobname": "old",
        "error": 0,
        "elapsed": 3,
        "read": {
            "io_bytes": 4000,
            "bw": 2000,
            "iops": 500.0,
            "runtime": 2000,
            "total_ios": 1000,
            "lat": {"min": 5, "max": 900, "mean": 70.5, "stddev": 3.25},
            "clat": {
                "min": 4,
                "max": 800,
                "mean": 60.5,
                "stddev": 2.5,
                "percentile": {"50.000000": 61, "99.000000": 210},
            },
        },
    }
    (found,) = fio.results(json.dumps({"fio version": "fio-2.16", "jobs": [record]}))
    assert found["read"]["bytes"] == 4000 * 1024
    assert found["read"]["bandwidth_bytes_s"] == 2000 * 1024
    assert (found["read"]["latency_mean_ns"], found["read"]["latency_p99_ns"]) == (70500, 210000)
    assert found["engine"]["latency"] == "completion"
    assert "completion_percentiles" in found["flags"]


def test_the_mean_is_of_total_latency_whatever_the_percentiles_are_of():
    """fio's default JSON has a distribution of completion latency only. Its mean would break Little's law: one I/O in flight is one."""
    iops, submission, completion = 9216.59, 90_100.0, 18_400.0
    record = {
        "jobname": "default",
        "error": 0,
        "job options": {"rw": "randread", "bs": "4k", "iodepth": "1", "ioengine": "libaio"},
        "read": {
            "io_bytes": 75_497_472,
            "bw_bytes": 37_748_736,
            "iops": iops,
            "runtime": 2000,
            "total_ios": 18_432,
            "slat_ns": {"min": 70_000, "max": 99_000, "mean": submission, "stddev": 1000.0, "N": 18_432},
            "clat_ns": {
                "min": 9_000, "max": 400_000, "mean": completion, "stddev": 900.0, "N": 18_432,
                "percentile": {"50.000000": 17_000, "99.000000": 31_000},
            },
            "lat_ns": {"min": 80_000, "max": 500_000, "mean": submission + completion, "stddev": 1500.0, "N": 18_432},
        },
    }  # fmt: skip
    (found,) = fio.results(json.dumps({"fio version": "fio-3.33", "jobs": [record]}))
    read = found["read"]
    assert iops * read["latency_mean_ns"] / 1e9 == pytest.approx(1, rel=0.01)
    assert (read["latency_min_ns"], read["latency_max_ns"], read["latency_p99_ns"]) == (80_000, 500_000, 31_000)
    assert found["flags"] == ["synchronous_submission", "completion_percentiles"]
    # Where total latency was not recorded at all, completion is all there is.
    del record["read"]["lat_ns"]
    (without,) = fio.results(json.dumps({"fio version": "fio-3.33", "jobs": [record]}))
    assert without["read"]["latency_mean_ns"] == completion


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("", "empty"),
        ("fio: failed parsing bs=4kk\n", "failed parsing bs=4kk"),
        ('fio: a warning\n{"fio version": "fio-3.33",\n "jobs": [', "begins in line 2 breaks off in line 3"),
        ('{"some": "json"}', "keys are 'some'"),
        ('{"jobs":' * 200_000, "nested too deep"),
        ('{"fio version":"fio-3.1","jobs":[' * 50_000, "nested too deep"),
    ],
)
def test_text_without_a_result_says_what_fio_said(broken, said):
    with pytest.raises(Failure, match=said) as caught:
        fio.results(broken)
    assert caught.value.code == "no_result"


def test_terse_output_is_refused_by_name():
    with pytest.raises(Failure, match="terse"):
        fio.results(text("terse.txt"))


@pytest.mark.parametrize(
    "change",
    [
        {"total_ios": "many"},
        {"total_ios": [1]},
        {"iops": {}},
        {"iops": -1},
        {"io_bytes": 1 << 65},
        {"lat_ns": {"mean": 1, "N": 2, "bins": {"5": -1}}},
        {"lat_ns": {"mean": 1, "N": 2, "bins": {"5x": 1}}},
        {"lat_ns": {"mean": 1, "N": 2, "percentile": {"nan": 1}}},
    ],
)
def test_damaged_numbers_are_refused_not_invented(change):
    record = {"jobname": "x", "read": {"total_ios": 5, "io_bytes": 5, "iops": 1.0, "runtime": 1000, **change}}
    with pytest.raises(Failure) as caught:
        fio.results(json.dumps({"fio version": "fio-3.33", "jobs": [record]}))
    assert caught.value.code == "fio_output_unreadable"


def test_nan_is_not_measured():
    (found,) = fio.results(
        '{"fio version": "fio-3.33", "jobs": [{"jobname": "x", "usr_cpu": NaN, "sys_cpu": 3.5, "read": {"total_ios": 5, "io_bytes": 5, '
        '"iops": 1.0, "bw_bytes": 5, "runtime": 1000}}]}'
    )
    assert found["cpu"] == {"system_percent": 3.5}


def test_filter_gives_results_or_one_sentence():
    fio_results = FilterModule().filters()["fio_results"]
    assert [one["job_name"] for one in fio_results(text("mixed_group.json").encode())] == ["mixed"]
    with pytest.raises(AnsibleFilterError, match="terse"):
        fio_results(text("terse.txt"))
    with pytest.raises(AnsibleFilterError, match="text of fio's output"):
        fio_results({"a": 1})


@pytest.mark.parametrize(
    ("line", "iops"),
    [
        (b"Jobs: 2 (f=2): [m(2)][50.0%][r=2042MiB/s,w=875MiB/s][r=523k,w=224k IOPS][eta 00m:03s]\r", 747000),
        (b"[r=1002 IOPS][eta 00m:01s]\rJobs: 1 [r=4MiB/s][r=1.5M IOPS][eta", 1500000),
        (b"Jobs: 1 (f=0)\r", None),
    ],
)
def test_live_iops(line, iops):
    assert fio.live_iops(line) == iops


def test_a_release_that_did_not_count_its_io_is_read():
    """fio 2.1.4 gives rate, time and size of a direction, and no total_ios."""
    record = {
        "jobname": "old",
        "error": 0,
        "read": {"io_bytes": 81_920, "bw": 40_960, "iops": 10_240.0, "runtime": 2000},
        "write": {"io_bytes": 0, "bw": 0, "iops": 0.0, "runtime": 0},
    }
    (found,) = fio.results(json.dumps({"fio version": "fio-2.1.4", "jobs": [record]}))
    assert (found["status"], found["read"]["ios"], "write" in found) == ("measured", 20_480, False)
    record["read"].update(io_bytes=0, bw=0, iops=0.0)
    (idle,) = fio.results(json.dumps({"fio version": "fio-2.1.4", "jobs": [record]}))
    assert [failure["code"] for failure in idle["failures"]] == ["no_io"]


@pytest.mark.parametrize(
    ("more", "codes"),
    [
        ({}, ["too_short"]),
        ({"steadystate": "iops:5%"}, []),
        ({"ss": "iops_slope:1%"}, []),
        ({"latency_target": "2ms"}, []),
    ],
)
def test_a_job_that_fio_ends_by_itself_is_not_too_short(more, codes):
    options = {"rw": "read", "bs": "4k", "runtime": "30", "time_based": "1", "direct": "1", **more}
    part = {"io_bytes": 40_960_000, "bw_bytes": 4_096_000, "iops": 1000.0, "runtime": 10_000, "total_ios": 10_000}
    record = {"jobname": "early", "error": 0, "job options": options, "read": part}
    (found,) = fio.results(json.dumps({"fio version": "fio-3.33", "jobs": [record]}))
    assert [failure["code"] for failure in found["failures"]] == codes


@pytest.mark.parametrize(
    ("ioengine", "number", "words"),
    [
        ("windowsaio", 28, "28 (No space left on device)"),
        ("windowsaio", 138, "138 of Windows' C library"),
        ("libaio", 110, "110 (Connection timed out)"),
    ],
)
def test_an_error_number_is_not_explained_by_another_system(ioengine, number, words):
    part = {"io_bytes": 4096, "bw_bytes": 4096, "iops": 1.0, "runtime": 1000, "total_ios": 1}
    record = {"jobname": "e", "error": number, "job options": {"rw": "read", "ioengine": ioengine}, "read": part}
    (found,) = fio.results(json.dumps({"fio version": "fio-3.33", "jobs": [record]}))
    assert words in found["failures"][0]["message"]


def test_a_bin_is_looked_through_however_many_were_before():
    """Bins that were sound once are not looked through again; another among them is, each time."""
    sound, damaged = ({"5": 3, edge: 2} for edge in ("6113", "06113"))
    for bins in (sound, damaged, sound, damaged):
        if bins is sound:
            assert fio_figures._bins(dict(bins), 1) == sound
            continue
        with pytest.raises(Failure, match="a key of bins") as caught:
            fio_figures._bins(dict(bins), 1)
        assert caught.value.code == "fio_output_unreadable"


def test_the_rates_of_a_log_are_of_the_directions_that_were_asked_for():
    log = "1795939170892, 100, 1, 0, 0\n1795939170892, 7, 0, 0, 0\n1795939171192, 56, 1, 0, 0\n17959391"
    assert fio.log_rates(log, ("write",)) == [(1795939170892, 100.0), (1795939171192, 56.0)]
    assert fio.log_rates(log, ("read",)) == [(1795939170892, 7.0)]
    # A log without that clock.
    assert fio.log_rates("300, 100, 1, 0, 0\n", ("write",)) == []
