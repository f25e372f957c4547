# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What IOMeter, diskspd and HammerDB leave behind, and what they are told to do. Figures are worked out by hand from the files in fixtures/."""

from __future__ import annotations

import json
import re
from pathlib import Path

import places
import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.storlab.testbed.plugins.filter.diskspd_results import FilterModule as DiskspdFilter
from ansible_collections.storlab.testbed.plugins.filter.hammerdb_results import FilterModule as HammerdbFilter
from ansible_collections.storlab.testbed.plugins.filter.icf_workloads import FilterModule as IcfFilter
from ansible_collections.storlab.testbed.plugins.filter.iometer_results import FilterModule as IometerFilter
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import diskspd, hammerdb, icf, icf_writer, iometer
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from hypothesis import given, settings
from hypothesis import strategies as st

FIXTURES = places.FIXTURES
MODERN, OLD, INST = (
    FIXTURES / "iometer" / name
    for name in ("SYNTHETIC_1.1.0.csv", "SYNTHETIC_2006.07.27.csv", "instSYNTHETIC_1.1.0.csv")
)
FORK = FIXTURES / "iometer" / "fork_batch_linux.csv"
DISKSPD = FIXTURES / "diskspd" / "SYNTHETIC_v2.2.xml"
DISKSPD_MIX, DISKSPD_TWO, DISKSPD_NOT_OPENED = (
    FIXTURES / "diskspd" / f"real_v2.2_{name}.xml" for name in ("random_mix", "two_targets", "not_opened")
)
HAMMERDB = FIXTURES / "hammerdb" / "SYNTHETIC_two_runs.log"
JOB = FIXTURES / "hammerdb" / "SYNTHETIC_job.json"
BLOG = FIXTURES / "iometer" / "blog_raw.icf"


def text(path: Path) -> str:
    return path.read_bytes().decode()


def numbers(value):
    """Every number in a structure."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for part in value for number in numbers(part)]
    return [value] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


# ---------------------------------------------------------------- IOMeter's results


def test_iometer_counts_rates_and_units():
    one = iometer.results(text(MODERN))[0]
    assert one["status"] == "measured" and one["engine"] == {"name": "iometer", "version": "1.1.0", "latency": "total"}
    assert (
        one["job_name"] == "4 KiB; 80% Read; 80% random"
        and one["host"] == "STORAGE01"
        and one["targets"] == ['1: "( VENDOR PRODUCT 1.0"']
    )
    assert one["runtime_s"] == 30 and one["cpu"] == {"host_busy_percent": 37.25}
    read, write, total = one["read"], one["write"], one["total"]
    assert (read["ios"], read["bytes"], read["iops"], read["bandwidth_bytes_s"]) == (240000, 983040000, 8000, 32768000)
    assert (write["ios"], write["iops"], write["latency_mean_ns"], write["latency_max_ns"]) == (
        60000,
        2000,
        3_500_000,
        4_812_500_000,
    )
    # (240000 · 1.25 ms + 60000 · 3.5 ms) / 300000
    assert total["latency_mean_ns"] == pytest.approx(1_700_000) and total["iops"] == 10000
    workload = one["workload"]
    assert (
        workload["block_size_bytes"],
        workload["read_percent"],
        workload["random_percent"],
        workload["queue_depth"],
    ) == (4096, 80, 80, 16)
    assert workload["runtime_s"] == 30 and workload["alignment_bytes"] == 4096


def test_iometer_percentiles_are_bounds_by_the_wider_of_name_and_timer():
    total = iometer.results(text(MODERN))[0]["total"]
    assert [key for key in total if re.fullmatch(r"latency_p[0-9_]+_ns", key)] == []
    assert (total["latency_p50_lower_ns"], total["latency_p50_upper_ns"]) == (1_000_000, 2_000_000)
    assert (total["latency_p99_lower_ns"], total["latency_p99_upper_ns"]) == (2_000_000, 5_000_000)
    # 299000 of 300000 are below 10 ms, which is less than 99.9 %.
    assert (total["latency_p99_9_lower_ns"], total["latency_p99_9_upper_ns"]) == (10_000_000, 15_000_000)
    # Named 4.7 to 5 s, compared with 4 s; and nothing took longer than the longest.
    assert (total["latency_p99_99_lower_ns"], total["latency_p99_99_upper_ns"]) == (4_000_000_000, 4_812_500_000)
    assert sum(iometer.results(text(MODERN))[0]["latency_bins"]["counts"]) == total["ios"]


def test_iometer_mix_of_sizes_several_workers_and_reads_only():
    one = iometer.results(text(MODERN))[1]
    assert "write" not in one and one["total"]["bytes"] == 20000 * 28672
    mix = one["workload"]["block_sizes"]["read"]
    assert mix == [{"size_bytes": 4096, "percent": 60}, {"size_bytes": 65536, "percent": 40}]
    assert (one["workload"]["workers"], one["workload"]["queue_depth"]) == (2, 16)
    assert "host_busy_percent" not in one["cpu"]
    assert "several_targets" not in one["flags"]


def test_iometer_runs_that_broke_off_had_no_target_or_said_error():
    found = iometer.results(text(MODERN))
    assert [one["status"] for one in found] == ["measured", "measured", "failed", "failed", "failed"]
    assert [one["failures"][0]["code"] for one in found[2:]] == ["no_result", "no_target", "engine_error"]
    assert "HOST2" in found[4]["failures"][0]["message"]
    assert all("total" not in one for one in found[2:])


def test_iometer_old_release_with_two_managers():
    (one,) = iometer.results(text(OLD))
    assert (
        one["status"] == "measured"
        and one["engine"]["version"] == "2006.07.27"
        and "host" not in one
        and "latency_bins" not in one
    )
    assert one["total"]["bandwidth_bytes_s"] == pytest.approx(12000 * 65536 / 60)
    assert [
        (client["host"], client["write"]["ios"], client["write"]["latency_mean_ns"]) for client in one["clients"]
    ] == [("HOSTA", 9000, 5_250_000), ("HOSTB", 3000, 15_750_000)]
    # Two workers with two targets each and 8 outstanding a target.
    assert (one["workload"]["workers"], one["workload"]["queue_depth"]) == (2, 16)
    assert "several_targets" in one["flags"]
    assert one["workload"]["range"] == {"offset_bytes": 2048 * 512, "size_bytes": 1048576 * 512}
    assert one["targets"] == ["PHYSICALDRIVE:1", "PHYSICALDRIVE:2"]


def test_iometer_figures_without_counts_are_no_measurement():
    (one,) = iometer.results(text(FORK))
    assert one["status"] == "failed" and one["failures"][0]["code"] == "figures_incomplete" and "total" not in one


def test_iometer_counts_and_rates_that_disagree_are_no_measurement():
    broken = text(MODERN).replace("8000.000000,2000.000000", "8000.000000,4000.000000", 1)
    one = iometer.results(broken)[0]
    assert one["failures"][0]["code"] == "figures_disagree" and "total" not in one


def test_iometer_abort_of_the_last_run_is_told_though_its_tests_are_kept():
    cut = text(MODERN).split("'End Test")[0]
    found = iometer.results(cut)
    assert [one["status"] for one in found] == ["measured", "measured", "failed"] and found[2]["failures"][0][
        "code"
    ] == "no_result"


@pytest.mark.parametrize(("path", "tests"), [(MODERN, 2), (OLD, 1)])
def test_iometer_test_in_which_a_run_was_aborted_is_no_measurement(path, tests):
    """IOMeter writes the figures up to then, and Aborted test after them; every release does."""
    cut = text(path).split("'End Test")[0].rstrip() + "\nAborted test\n"
    found = iometer.results(cut)
    assert [one["status"] for one in found] == ["measured"] * (tests - 1) + ["failed"]
    assert found[-1]["failures"][0]["code"] == "no_result" and "total" not in found[-1]
    assert found[-1]["job_name"] == iometer.results(text(path))[tests - 1]["job_name"]


def test_iometer_run_that_was_aborted_before_it_measured_is_told_once_in_every_release():
    first = text(OLD).split("'Results")[0].rstrip() + "\r\nAborted test\r\n"
    assert [one["failures"][0]["code"] for one in iometer.results(first)] == ["no_result"]
    assert [one["status"] for one in iometer.results(text(OLD) + first)] == ["measured", "failed"]


def test_iometer_updates_are_a_time_series():
    (one,) = iometer.series(text(INST))
    assert one["interval_s"] == 2 and one["columns"][:3] == ["t_s", "phase", "iops"]
    assert [row[0] for row in one["rows"]] == [0, 2, 4] and [row[2] for row in one["rows"]] == [10000, 10500, 9500]
    assert one["rows"][0][3:] == [pytest.approx(40_960_000), pytest.approx(1_600_000), 37.5]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda content: content.replace(",", ";"), "iometer_output_unreadable"),
        (lambda content: content.replace("10000.000000", '"10000,000000"', 1), "iometer_output_unreadable"),
        (lambda content: content.replace("4096,100,80,80,0,1,4096,0,", "4096,100,80", 1), "icf_unreadable"),
        (lambda content: "nothing of the kind\n", "no_result"),
        (lambda content: "", "no_result"),
    ],
)
def test_iometer_refuses_what_a_spreadsheet_or_accident_made_of_it(change, code):
    with pytest.raises(Failure) as caught:
        iometer.results(change(text(MODERN)))
    assert caught.value.code == code


def test_iometer_file_with_nothing_but_an_error():
    (one,) = iometer.results("\nERROR: Could not open the configuration.\n")
    assert one["failures"] == [{"code": "engine_error", "message": "IOMeter said: Could not open the configuration."}]


# ---------------------------------------------------------------- IOMeter's configuration


def test_icf_of_the_blog_is_the_workload_it_describes():
    (one,) = icf.workloads(text(BLOG))
    assert one["targets"] == ['1: "RAM"']
    assert [words in note for words, note in zip(("last of their own direction", "same byte"), one["notes"])] == [
        True
    ] * 2
    assert one["workload"] == normalise(
        {"block_size": "4k", "read_percent": 80, "random_percent": 80, "queue_depth": 16, "ramp_s": 10, "runtime_s": 60}
    )


def grid() -> list:
    return [
        normalise(
            {
                "block_size": size,
                "read_percent": read,
                "random_percent": random,
                "queue_depth": 64,
                "ramp_s": 60,
                "runtime_s": 300,
            }
        )
        for size in ("4k", "8k", "16k", "32k", "64k")
        for random in (0, 50, 100)
        for read in (0, 50, 100)
    ]


def test_icf_of_a_grid_is_one_file_and_one_worker():
    assert icf_writer.group(grid()) == [grid()]
    written = icf_writer.write(grid(), ['1: "RAM"'], description="VMFS, RDM")
    assert written.startswith("Version 1.1.0 \n") and written.endswith("Version 1.1.0 \n")
    assert written.count("'Access specification name,default assignment") == 45 and written.count("\n'Worker\n") == 1
    assert (
        "\n\t64,DISABLED,1,DISABLED,0\n" in written
        and "\t0          5          0\n" in written
        and "\tVMFS- RDM\n" in written
    )
    names = re.findall(r"assignment\n\t([^\n]*),NONE\n", written)
    assert len(set(names)) == 45 and all("," not in name and len(name) < 128 for name in names)
    assert [entry["workload"] for entry in icf.workloads(written)] == grid()


@pytest.mark.parametrize(
    ("depths", "cycle"), [([1, 2, 4, 8, 16, 32], "EXPONENTIAL"), ([4, 8, 12], "LINEAR"), ([8], None)]
)
def test_icf_cycles_outstanding_ios(depths, cycle):
    wanted = [normalise({"block_size": size, "queue_depth": depth}) for size in ("4k", "64k") for depth in depths]
    assert len(icf_writer.group(wanted)) == 1
    written = icf_writer.write(wanted, ['G: "DATA"'])
    assert ("CYCLE_OUTSTANDING_IOS" in written) == (cycle is not None) and (cycle is None or cycle in written)
    assert [entry["workload"] for entry in icf.workloads(written)] == wanted


def test_icf_depths_that_are_no_cycle_take_a_file_each():
    wanted = [normalise({"queue_depth": depth}) for depth in (1, 7, 8)]
    assert icf_writer.group(wanted) == [[one] for one in wanted]
    with pytest.raises(Failure, match=r"queue_depth \[1, 7, 8\]"):
        icf_writer.write(wanted, ['1: "RAM"'])


def test_icf_divides_what_one_file_cannot_hold():
    wanted = [normalise({"workers": workers, "queue_depth": depth}) for workers in (1, 4) for depth in (1, 2)]
    assert icf_writer.group(wanted) == [wanted[:2], wanted[2:]]
    written = icf_writer.write(wanted[2:], ['1: "RAM"'])
    assert written.count("\n'Worker\n") == 4
    with pytest.raises(Failure, match="workers, run time, ramp and range"):
        icf_writer.write(wanted, ['1: "RAM"'])


def test_icf_sectors_are_of_512_bytes():
    one = normalise({"range": {"offset_bytes": 1 << 20, "size_bytes": 20971520 * 512}})
    written = icf_writer.write([one], ["/dev/ram0"])
    assert "\n\t20971520,2048,2\n" in written
    assert icf.workloads(written)[0]["workload"] == one


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"block_size": "4k-64k"}, "block_size_range"),
        ({"distribution": "zipf:1.1"}, "distribution"),
        ({"rate_iops": 100}, "rate_iops"),
        ({"read_percent": 0, "sync": {"fsync_every": 1}}, "sync"),
        ({"read_percent": 0, "data": {"pattern": "zero"}}, "data"),
        ({"direct": False}, "direct"),
        ({"think_time_us": 1500}, "think_time_us"),
        ({"io_bytes": "1g"}, "io_bytes"),
        ({"engine_options": {"fio": {"ioengine": "io_uring"}}}, "engine_options"),
        ({"random_percent": 0, "alignment": "64k"}, "alignment_bytes"),
        ({"read_percent": 50, "block_size": {"read": {"4k": 33, "8k": 67}, "write": "4k"}}, "block_sizes"),
    ],
)
def test_icf_refuses_what_iometer_cannot_do(said, name):
    with pytest.raises(Failure) as caught:
        icf_writer.write([normalise(said)], ['1: "RAM"'])
    assert caught.value.code == "workload_unsupported" and caught.value.details["variable"] == name


SIZES = st.sampled_from([512, 1024, 4096, 8192, 65536, 1 << 20])


@st.composite
def expressible(draw):
    """A workload that IOMeter can run."""
    said = {
        "read_percent": draw(st.integers(0, 100)),
        "random_percent": draw(st.integers(0, 100)),
        "queue_depth": draw(st.integers(1, 256)),
        "workers": draw(st.integers(1, 5)),
        "ramp_s": draw(st.integers(0, 200)),
        "runtime_s": draw(st.integers(1, 90000)),
    }
    kind = draw(st.sampled_from(["one", "same", "each"]))
    if kind == "one":
        said["block_size"] = draw(SIZES)
    else:
        first, second = draw(st.lists(SIZES, min_size=2, max_size=2, unique=True))
        share = draw(st.integers(1, 99))
        if kind == "same":
            said["block_size"] = {first: share, second: 100 - share}
        else:
            said.update(
                read_percent=50,
                block_size={
                    "read": {first: 2 * (share % 49 + 1), second: 100 - 2 * (share % 49 + 1)},
                    "write": {second: 100},
                },
            )
    if draw(st.booleans()):
        said.update(think_time_us=1000 * draw(st.integers(1, 60000)), burst=draw(st.integers(1, 1000)))
    if draw(st.booleans()):
        said["range"] = {
            "offset_bytes": 512 * draw(st.integers(0, 1 << 40)),
            "size_bytes": 512 * draw(st.integers(1, 1 << 40)),
        }
    if said["random_percent"] and draw(st.booleans()):
        said["alignment_bytes"] = 512 * draw(st.integers(1, 2048))
    return normalise(said)


@settings(deadline=None, max_examples=200)
@given(expressible())
def test_icf_written_and_read_is_the_same_workload(workload):
    (entry,) = icf.workloads(icf_writer.write([workload], ['1: "ANY"']))
    pauses = "think_time_us" in workload and workload["queue_depth"] > 1
    together = workload["workers"] > 1 and workload["random_percent"] < 100
    assert entry["workload"] == workload and entry["targets"] == ['1: "ANY"']
    mixed = 0 < workload["read_percent"] < 100 and workload["random_percent"] < 100
    assert len(entry["notes"]) == pauses + together + mixed


def specification(*lines: str) -> str:
    return icf_writer.write([normalise({})], ['1: "RAM"']).replace(
        "\t4096,100,100,100,0,1,4096,0", "\n".join("\t" + line for line in lines)
    )


def test_icf_lines_that_differ_in_reads_become_a_mix_for_each_direction():
    # 30 % reads of 4 KiB, 20 % reads of 8 KiB, 50 % writes of 64 KiB.
    (one,) = icf.workloads(
        specification("4096,30,100,100,0,1,4096,0", "8192,20,100,100,0,1,4096,0", "65536,50,0,100,0,1,4096,0")
    )
    assert one["workload"]["read_percent"] == 50
    assert one["workload"]["block_sizes"] == {
        "read": [{"size_bytes": 4096, "percent": 60}, {"size_bytes": 8192, "percent": 40}],
        "write": [{"size_bytes": 65536, "percent": 100}],
    }


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("4096,50,100,100,0,1,4096,0", "8192,50,100,0,0,1,4096,0"), "share of random offsets"),
        (("4096,50,100,100,0,1,4096,0", "8192,50,100,100,0,1,8192,0"), "alignment"),
        (("4096,50,100,100,0,1,4096,0", "8192,50,100,100,5,1,4096,0"), "delay"),
        (("4096,50,33,100,0,1,4096,0", "4096,50,0,100,0,1,4096,0"), "whole percents"),
        (("4096,100,100,100,0,1,4096,512",), "reply"),
        (("4096,60,100,100,0,1,4096,0",), "do not add up to 100"),
    ],
)
def test_icf_specifications_that_are_no_single_workload(lines, words):
    with pytest.raises(Failure, match=words):
        icf.workloads(specification(*lines))


def test_icf_alignment_0_means_sectors_for_random_and_the_size_for_sequential_io():
    assert icf.workloads(specification("4096,100,100,100,0,1,0,0"))[0]["workload"]["alignment_bytes"] == 512
    assert icf.workloads(specification("4096,100,100,0,0,1,0,0"))[0]["workload"]["alignment_bytes"] == 4096


def test_icf_workers_with_targets_of_their_own_and_cycles_of_workers():
    two = icf_writer.write([normalise({"workers": 3, "queue_depth": 4})], ['1: "RAM"'])
    assert [entry["workload"]["workers"] for entry in icf.workloads(two.replace("\tNORMAL", "\tCYCLE_WORKERS"))] == [
        1,
        2,
        3,
    ]
    apart = two.replace('\t1: "RAM"', '\t2: "RAM"', 1)
    with pytest.raises(Failure, match="workers a target"):
        icf.workloads(apart)
    other = two.replace("\t4,DISABLED", "\t8,DISABLED", 1)
    with pytest.raises(Failure, match="outstanding I/Os"):
        icf.workloads(other)


def test_icf_of_2006_without_seed_and_pattern_and_with_an_endless_run():
    old = (
        text(BLOG)
        .replace(",use fixed seed,fixed seed value", "")
        .replace("16,DISABLED,1,DISABLED,0", "16,DISABLED,1")
        .replace(",Data pattern", "")
    )
    old = (
        old.replace("\n\t0,0,0\n", "\n\t0,0\n")
        .replace("0          1          0", "0          0          0")
        .replace("Version 1.1.0", "Version 2006.07.27")
    )
    with pytest.raises(Failure, match="until stopped"):
        icf.workloads(old)
    (one,) = icf.workloads(old.replace("\n", "\r\n"), runtime_s=45, ramp_s=5)
    assert (one["workload"]["runtime_s"], one["workload"]["ramp_s"], one["workload"]["queue_depth"]) == (45, 5, 16)


def test_icf_library_without_workers_gives_every_specification():
    library = re.sub(r"'Worker\n.*'End worker\n", "", text(BLOG), flags=re.DOTALL)
    (one,) = icf.workloads(library)
    assert one["workload"]["queue_depth"] == 1 and one["targets"] == []


def test_icf_workers_of_one_name_are_two_workers():
    two = icf_writer.write([normalise({"workers": 2, "queue_depth": 3})], ['1: "RAM"'])
    same = two.replace("\tWorker 2", "\tWorker 1")
    assert same != two
    (one,) = icf.workloads(same)
    assert (one["workload"]["workers"], one["workload"]["queue_depth"], one["targets"]) == (2, 3, ['1: "RAM"'])


def test_icf_without_any_access_specification_is_refused():
    """Of a file whose workers rest, or that has no specification at all, no workload is made up."""
    written = icf_writer.write([normalise({"workers": 2})], ['1: "RAM"'])
    unassigned = re.sub(r"('Assigned access specs\n).*?('End assigned)", r"\1\2", written, flags=re.DOTALL)
    assert unassigned.count("'Assigned access specs\n'End assigned") == 2
    empty = re.sub(r"'Access specification name.*?('END access)", r"\1", unassigned, flags=re.DOTALL)
    library = re.sub(r"'Worker\n.*'End worker\n", "", empty, flags=re.DOTALL)
    for content, words in (
        (unassigned, "No worker is assigned any"),
        (empty, "No worker is assigned any"),
        (library, "The file has none"),
    ):
        with pytest.raises(Failure, match=words) as caught:
            icf.workloads(content)
        assert caught.value.code == "bad_value"


def test_icf_says_what_a_worker_with_three_targets_does_besides():
    three = icf_writer.write([normalise({"queue_depth": 7})], ['1: "A"', '2: "B"', '3: "C"'])
    (one,) = icf.workloads(three)
    assert (one["workload"]["queue_depth"], one["workload"]["workers"]) == (7, 1)
    assert one["targets"] == ['1: "A"', '2: "B"', '3: "C"']
    (note,) = one["notes"]
    assert "drives 3 targets at the same time, each at this queue depth" in note
    assert icf.workloads(icf_writer.write([normalise({"queue_depth": 7})], ['1: "A"']))[0]["notes"] == []


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"think_time_us": 3000, "burst": 4, "queue_depth": 5}, "fio lets all of them end first"),
        ({"workers": 4, "random_percent": 0}, "fio gives each a part of the range"),
        ({"workers": 4, "random_percent": 30}, "fio gives each a part of the range"),
        ({"read_percent": 60, "random_percent": 0}, "from where the last of their own direction ended"),
    ],
)
def test_icf_says_what_other_engines_make_of_it(said, words):
    (one,) = icf.workloads(icf_writer.write([normalise(said)], ['1: "RAM"']))
    assert [words in note for note in one["notes"]] == [True]


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.replace("Version 1.1.0", "Hello", 1),
        lambda content: content.replace("'Ramp Up Time (s)", "'Ramp Down Time"),
        lambda content: content.replace("\t16,DISABLED", "\tmany,DISABLED"),
        lambda content: content.replace("'Assigned access specs\n\t4 KiB", "'Assigned access specs\n\t5 KiB"),
    ],
)
def test_icf_that_is_damaged_names_the_place(change):
    with pytest.raises(Failure) as caught:
        icf.workloads(change(text(BLOG)))
    assert caught.value.code == "icf_unreadable"


# ---------------------------------------------------------------- diskspd


def test_diskspd_command_line():
    one = normalise(
        {
            "block_size": "8k",
            "read_percent": 75,
            "random_percent": 60,
            "queue_depth": 16,
            "workers": 2,
            "ramp_s": 7,
            "runtime_s": 20,
            "range": {"offset_bytes": 1 << 20, "size_bytes": 1 << 26},
        }
    )
    assert diskspd.argv(one, r"\\.\PhysicalDrive1", 11) == [
        "diskspd.exe",
        "-b8192",
        "-r8192",
        "-rs60",
        "-w25",
        "-o16",
        "-t2",
        "-W7",
        "-d20",
        "-Su",
        "-B1048576:67108864",
        "-Zr",
        "-z11",
        "-L",
        "-D1000",
        "-Rxml",
        "#1",
    ]


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ({"random_percent": 100}, ["-r4096", "-w0"]),
        ({"block_size": "8k", "alignment": "2k"}, ["-b8192", "-r2048"]),
        ({"random_percent": 0}, ["-s4096"]),
        ({"direct": False}, ["-Sb"]),
        ({"random_percent": 0, "workers": 4}, ["-s4096", "-T67108864"]),
        ({"read_percent": 0, "sync": {"mode": "dsync"}}, ["-Suw", "-w100", "-Zr"]),
        ({"read_percent": 0, "data": {"pattern": "zero"}}, ["-Z"]),
        ({"think_time_us": 3000, "burst": 5}, ["-i5", "-j3"]),
        ({"think_time_us": 4000, "burst": 6, "workers": 3}, ["-i18", "-j4"]),
        ({"rate_iops": 1000, "workers": 4}, ["-g250i"]),
        ({"rate_bytes_s": 8_000_000}, ["-g8000"]),
        (
            {
                "distribution": {
                    "zoned": [{"access_percent": 90, "space_percent": 10}, {"access_percent": 10, "space_percent": 90}]
                }
            },
            ["-rdpct90/10:10/90"],
        ),
    ],
)
def test_diskspd_options(said, options):
    found = diskspd.argv(normalise(said), "#3", 1, size_bytes=256 << 20)
    assert [option for option in options if option not in found] == []


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"block_size": {"4k": 50, "8k": 50}}, "block_sizes"),
        ({"distribution": "zipf:1.1"}, "distribution"),
        ({"rate_iops": 7, "workers": 2}, "rate_iops"),
        ({"rate_iops": 8, "rate_process": "poisson"}, "rate_process"),
        ({"think_time_us": 10}, "think_time_us"),
        ({"random_percent": 0, "alignment": "8k"}, "alignment_bytes"),
        ({"random_percent": 60, "block_size": "8k", "alignment": "4k"}, "alignment_bytes"),
        ({"rate_iops": 1, "block_size": 512}, "rate_iops"),
        ({"rate_iops": 70000, "block_size": "64k"}, "rate_iops"),
        ({"rate_iops": 3, "block_size": 512}, "rate_iops"),
        ({"rate_iops": 9, "think_time_us": 1000}, "think_time_us"),
        ({"read_percent": 0, "sync": {"fsync_every": 4}}, "sync"),
        ({"read_percent": 0, "data": {"pattern": "repeat", "hex": "ab"}}, "data"),
        ({"loops": 2}, "loops"),
    ],
)
def test_diskspd_refuses_what_it_cannot_do(said, name):
    with pytest.raises(Failure) as caught:
        diskspd.argv(normalise(said), "#1", 1)
    assert caught.value.code == "workload_unsupported" and caught.value.details["variable"] == name


@pytest.mark.parametrize("target", ["-c1G", "relative.dat", 'C:\\a"b', "#x", "/dev/sda", ""])
def test_diskspd_refuses_targets_that_are_none(target):
    with pytest.raises(Failure, match="diskspd target"):
        diskspd.argv(normalise({}), target, 1)


def test_diskspd_result():
    (one,) = diskspd.results(text(DISKSPD))
    assert one["status"] == "measured" and one["host"] == "WIN-BENCH" and one["started_utc"] == "2026-02-03T04:05:06Z"
    assert one["engine"] == {"name": "diskspd", "version": "2.2", "latency": "total", "randseed": 11} and one[
        "targets"
    ] == ["#1"]
    assert (one["read"]["ios"], one["read"]["bytes"], one["read"]["iops"]) == (600000, 4915200000, 30000)
    assert (one["write"]["ios"], one["write"]["iops"], one["write"]["bandwidth_bytes_s"]) == (200000, 10000, 81_920_000)
    assert [
        one["read"][f"latency_{name}_ns"] for name in ("mean", "stddev", "min", "max", "p50", "p99_99")
    ] == pytest.approx([800_000, 250_000, 51_000, 20_116_000, 701_000, 9_113_000])
    assert [
        one["total"][f"latency_{name}_ns"] for name in ("mean", "p50", "p95", "p99", "p99_9", "max")
    ] == pytest.approx([1_000_000, 803_000, 1_806_000, 3_309_000, 7_012_000, 30_117_000])
    # 25 % of 4 processors for 20 s, over 800000 I/Os.
    assert one["cpu"] == {
        "host_busy_percent": 25,
        "busiest_core_percent": 60,
        "cores": 4,
        "host_busy_s": 20,
        "us_per_io": 25,
    }
    assert one["workload"] == normalise(
        {
            "block_size": "8k",
            "read_percent": 75,
            "random_percent": 60,
            "queue_depth": 16,
            "workers": 2,
            "ramp_s": 7,
            "runtime_s": 20,
            "range": {"offset_bytes": 1 << 20, "size_bytes": 64 << 20},
        }
    )
    (series,) = diskspd.series(text(DISKSPD))
    assert series["rows"][0][:3] == [1, "measure", 40000] and series["rows"][0][4] == pytest.approx(900_000)


def test_real_diskspd_result():
    """The real_v2.2_*.xml were printed by diskspd 2.2 itself (MIT), cross-built with MinGW and run under Wine on files; ETW and -X were left out of it."""
    content = text(DISKSPD_MIX)
    (one,) = diskspd.results(content)
    wanted = normalise(
        {
            "block_size": "8k",
            "read_percent": 75,
            "random_percent": 60,
            "queue_depth": 16,
            "workers": 2,
            "ramp_s": 1,
            "runtime_s": 3,
            "range": {"offset_bytes": 8 << 20, "size_bytes": 24 << 20},
        }
    )
    assert (one["status"], one["runtime_s"], one["targets"], one["started_utc"]) == (
        "measured",
        3.0,
        ["C:\\t\\a.dat"],
        "2026-11-21T21:22:10Z",
    )
    # -Zr leaves no trace: the pattern is what it would be without.
    assert (one["workload"], one["flags"]) == (wanted, ["repeating_data"])
    assert one["engine"] == {"name": "diskspd", "version": "2.2.0", "latency": "total", "randseed": 11}
    assert one["read"]["ios"] == sum(map(int, re.findall(r"<ReadCount>(\d+)", content))) == 45122
    assert one["write"]["bytes"] == 15321 * 8192 and one["total"]["iops"] == pytest.approx(60443 / 3)
    assert [
        one["total"][f"latency_{name}_ns"] for name in ("mean", "stddev", "min", "p50", "p99_9", "max")
    ] == pytest.approx([99_000, 488_000, 23_000, 32_000, 7_943_000, 15_015_000])
    assert one["cpu"]["cores"] == 2 and one["cpu"]["host_busy_percent"] == 99.67
    (series,) = diskspd.series(content)
    assert sum(row[2] for row in series["rows"]) == pytest.approx(60443, rel=0.001)


def test_real_diskspd_result_of_two_targets():
    """Asked for zones, 100 IOPS per worker, zeros, written through, and for a path that makes its XML none."""
    (one,) = diskspd.results(text(DISKSPD_TWO))
    assert one["targets"] == ["C:\\t\\R&D.dat", "C:\\t\\a.dat"] and one["flags"] == one["failures"] == []
    assert one["workload"] == normalise(
        {
            "block_size": "4k",
            "read_percent": 50,
            "random_percent": 50,
            "queue_depth": 3,
            "workers": 4,
            "ramp_s": 1,
            "runtime_s": 2,
            "direct": False,
            "rate_iops": 400,
            "data": {"pattern": "zero"},
            "sync": {"mode": "sync"},
            "distribution": {
                "zoned": [{"access_percent": 60, "space_percent": 20}, {"access_percent": 40, "space_percent": 80}]
            },
        }
    )
    assert one["total"]["iops"] == 400
    assert {path: part["read"]["ios"] for path, part in one["by_target"].items()} == {
        "C:\\t\\R&D.dat": 204,
        "C:\\t\\a.dat": 217,
    }
    assert diskspd.series(text(DISKSPD_TWO))[0]["interval_s"] == 0.5


def test_real_diskspd_result_of_a_file_that_was_not_there():
    (one,) = diskspd.results(text(DISKSPD_NOT_OPENED))
    assert (
        one["status"],
        [failure["code"] for failure in one["failures"]],
        diskspd.series(text(DISKSPD_NOT_OPENED)),
    ) == ("failed", ["no_result"], [None])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "<Throughput>0<",
            "<BurstSize>18</BurstSize><ThinkTime>4</ThinkTime><Throughput>0<",
            {"think_time_us": 4000, "burst": 9},
        ),
        # It divides the burst among the workers, and does not pause when it limits a rate.
        (
            "<Throughput>0<",
            "<BurstSize>1</BurstSize><ThinkTime>4</ThinkTime><Throughput>0<",
            {"think_time_us": 4000, "burst": 1},
        ),
        ("<Throughput>0<", "<BurstSize>18</BurstSize><ThinkTime>4</ThinkTime><Throughput>7<", {"rate_bytes_s": 14000}),
        ("<RandomRatio>60</RandomRatio>", "", {"random_percent": 100}),
    ],
)
def test_diskspd_is_read_as_what_it_did(old, new, expected):
    content = text(DISKSPD_MIX)
    assert content.count(old) == 1
    before, after = (diskspd.results(one)[0]["workload"] for one in (content, content.replace(old, new)))
    assert {key: value for key, value in after.items() if before.get(key) != value} == expected


def test_diskspd_goes_on_at_its_alignment_which_is_not_sequential():
    content = text(DISKSPD_MIX).replace("<Random>8192", "<Random>4096")
    assert "workload" not in diskspd.results(content)[0]
    assert (
        diskspd.results(content.replace("<RandomRatio>60</RandomRatio>", ""))[0]["workload"]["alignment_bytes"] == 4096
    )


def test_diskspd_takes_clocks_that_disagree_for_idle_processors():
    (one,) = diskspd.results(re.sub(r"<UsagePercent>[\d.]+", "<UsagePercent>-0.02", text(DISKSPD_MIX)))
    assert (one["cpu"]["host_busy_percent"], one["cpu"]["busiest_core_percent"]) == (0, 0)


def test_diskspd_latency_is_absent_without_L_and_failures_are_told():
    plain = re.sub(r"<Latency .*</Latency>", "", text(DISKSPD), flags=re.DOTALL)
    assert not any(key.startswith("latency") for key in diskspd.results(plain)[0]["total"])
    short = text(DISKSPD).replace("<TestTimeSeconds>20.00", "<TestTimeSeconds>2.00")
    assert diskspd.results(short)[0]["failures"][0]["code"] == "too_short"
    stopped = re.sub(
        r"(</Profile>\s*<TimeSpan>).*(</TimeSpan>\s*</Results>)",
        r"\1<Error>The test was interrupted.</Error>\2",
        text(DISKSPD),
        flags=re.DOTALL,
    )
    (one,) = diskspd.results(stopped)
    assert one["status"] == "failed" and "total" not in one and "interrupted" in one["failures"][0]["message"]


def test_diskspd_two_targets_are_one_workload_when_they_are_alike():
    target = re.search(r"<Target>\s*<Path>#1</Path>\s*<BlockSize>.*?</Target>", text(DISKSPD), re.DOTALL).group(0)
    two = text(DISKSPD).replace(target, target + target.replace("#1", "#2"))
    one = diskspd.results(two)[0]
    assert one["workload"]["workers"] == 4 and "by_target" not in one
    assert (
        "workload"
        not in diskspd.results(
            text(DISKSPD).replace(target, target + target.replace("<WriteRatio>25", "<WriteRatio>50"))
        )[0]
    )


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda content: "Command Line: diskspd.exe -b4K\n\nInput parameters:\n", "no_result"),
        (lambda content: "", "no_result"),
        (lambda content: content.replace("</Thread>", "", 1), "diskspd_output_unreadable"),
        (lambda content: '<!DOCTYPE x [<!ENTITY a "aaaa">]>' + content, "diskspd_output_unreadable"),
        (lambda content: content.replace("<ReadCount>300000", "<ReadCount>3e5", 1), "diskspd_output_unreadable"),
        (lambda content: content.replace("0.803", "fast", 1), "diskspd_output_unreadable"),
    ],
)
def test_diskspd_refuses_other_output(change, code):
    with pytest.raises(Failure) as caught:
        diskspd.results(change(text(DISKSPD)))
    assert caught.value.code == code


def test_diskspd_of_two_targets_tells_each():
    second = text(DISKSPD).rindex("<Path>#1</Path>")
    content = text(DISKSPD)[:second] + "<Path>#2</Path>" + text(DISKSPD)[second + len("<Path>#1</Path>") :]
    for thread, mean in (("300000</ReadCount>", "0.500"), ("300000</ReadCount>", "1.100")):
        content = content.replace(
            f"<ReadCount>{thread}",
            f"<ReadCount>300000 </ReadCount><AverageReadLatencyMilliseconds>{mean}</AverageReadLatencyMilliseconds>",
            1,
        )
    (one,) = diskspd.results(content)
    assert (
        one["targets"] == ["#1", "#2"]
        and one["by_target"]["#1"]["read"]["ios"] == 300000
        and one["by_target"]["#2"]["write"]["iops"] == 5000
    )
    assert [one["by_target"][path]["read"]["latency_mean_ns"] for path in ("#1", "#2")] == pytest.approx(
        [500_000, 1_100_000]
    )
    assert "latency_mean_ns" not in one["by_target"]["#1"]["write"]


# ---------------------------------------------------------------- HammerDB


def test_hammerdb_reads_both_orders_and_the_job():
    first, second = hammerdb.results(text(HAMMERDB))
    assert first == {
        "engine": {"name": "hammerdb", "version": "4.12"},
        "status": "measured",
        "failures": [],
        "tpm": 17790,
        "nopm": 7845,
        "database": "PostgreSQL",
        "virtual_users": 2,
        "ramp_s": 60,
        "runtime_s": 120,
    }
    assert (second["tpm"], second["nopm"], second["database"], second["virtual_users"]) == (
        31536,
        12128,
        "SQL Server",
        4,
    )
    assert second["status"] == "failed" and second["failures"] == [
        {"code": "users_failed", "message": "Virtual users that failed: 4."}
    ]
    (job,) = hammerdb.results(text(JOB))
    assert (job["tpm"], job["nopm"], job["database"], job["virtual_users"]) == (3567, 1533, "MariaDB", 8)


def test_hammerdb_without_result_is_a_failure():
    with pytest.raises(Failure) as caught:
        hammerdb.results(text(HAMMERDB).replace("TEST RESULT", "TEST") + "\nError: Jobs Disabled\n")
    assert caught.value.code == "no_result" and "Jobs Disabled" in caught.value.what
    half = hammerdb.results(text(HAMMERDB).replace("TEST RESULT", "TEST", 1))
    assert (
        [run["status"] for run in half] == ["failed", "failed"]
        and half[0]["failures"][0]["code"] == "no_result"
        and "tpm" not in half[0]
    )
    nothing = hammerdb.results(text(JOB).replace("1533", "0").replace("3567", "0"))
    assert nothing[0]["failures"][0]["code"] == "no_transactions"


STEPS = """HammerDB CLI v4.12
Vuser 1:RUNNING
Vuser 1:Beginning rampup time of 3 minutes
Starting 1 replica HammerDB instance
Vuser 1:RUNNING
Vuser 1:Beginning rampup time of 0 minutes
Vuser 1:Timing test period of 2 in minutes
Vuser 1:TEST RESULT : System achieved 11000 NOPM from 29000 MariaDB TPM
Vuser 1:Timing test period of 6 in minutes
Vuser 1:TEST RESULT : System achieved 23000 NOPM from 51000 MariaDB TPM
"""


def test_hammerdb_monitors_that_ran_together_are_two_runs_without_settings():
    runs = hammerdb.results(STEPS)
    assert [(run["nopm"], run["tpm"], run["status"]) for run in runs] == [
        (11000, 29000, "measured"),
        (23000, 51000, "measured"),
    ]
    # Whose ramp and whose time a line gives, nobody can say.
    assert not [run for run in runs if {"ramp_s", "runtime_s", "virtual_users"} & set(run)]
    broken = hammerdb.results(STEPS + "Vuser 2:FINISHED FAILED\n")
    assert [run["status"] for run in broken] == ["failed", "failed"]


def test_hammerdb_tpm_of_zero_beside_new_orders_is_unknown():
    (job,) = hammerdb.results('["1", "TEST RESULT : System achieved 0 Oracle TPM at 26111 NOPM"]')
    assert (job["nopm"], job["status"], job["failures"], "tpm" in job) == (26111, "measured", [], False)


SUMMARY = {
    "schema": "hammerdb-job-report-v1",
    "job": {"hdb_version": "v5.1", "database": "MariaDB", "benchmark": "TPROC-C"},
    "benchmark_config": {"warehouses": 80, "virtual_users": 12, "rampup_minutes": 3, "duration_minutes": 7},
    "result": {"type": "tproc_c_result", "active_virtual_users": 12, "nopm": 44001, "tpm": 99002},
}


def test_hammerdb_summary_of_a_job_is_read():
    (run,) = hammerdb.results("Job summary:\n" + json.dumps(SUMMARY, indent=1) + "\n")
    assert run == {
        "engine": {"name": "hammerdb", "version": "5.1"},
        "status": "measured",
        "failures": [],
        "nopm": 44001,
        "tpm": 99002,
        "database": "MariaDB",
        "virtual_users": 12,
        "ramp_s": 180,
        "runtime_s": 420,
    }
    (empty,) = hammerdb.results(json.dumps({**SUMMARY, "result": {}}))
    assert (empty["status"], empty["failures"][0]["code"]) == ("failed", "no_result")
    with pytest.raises(Failure, match="summaryjson"):
        hammerdb.results(json.dumps(SUMMARY)[:-20])


# ---------------------------------------------------------------- filters and damage


def test_filters_take_text_and_bytes_and_fail_in_one_sentence():
    for module, name, path in (
        (IometerFilter, "iometer_results", MODERN),
        (DiskspdFilter, "diskspd_results", DISKSPD),
        (HammerdbFilter, "hammerdb_results", HAMMERDB),
        (IcfFilter, "icf_workloads", BLOG),
    ):
        found = module().filters()[name]
        assert found(text(path)) == found(path.read_bytes()) and json.dumps(found(text(path)))
        # What PowerShell's > makes of it.
        assert found(text(path).encode("utf-16")) == found(text(path)) == found("\ufeff" + text(path))
        for wrong in (7, "nothing of the kind"):
            with pytest.raises(AnsibleFilterError):
                found(wrong)
    assert IcfFilter().filters()["icf_workloads"](text(BLOG), runtime_s=9)[0]["workload"]["runtime_s"] == 9
    with pytest.raises(AnsibleFilterError, match="the input of icf_workloads is 'dict'"):
        IcfFilter().filters()["icf_workloads"](type("_Tagged", (dict,), {})())


CHANGES = st.lists(
    st.tuples(st.integers(0, 1 << 20), st.integers(0, 40), st.text("0123456789,.'\"<>/=-eEnai \t\nERO:%", max_size=6)),
    min_size=1,
    max_size=4,
)


def damaged(content: str, changes: list) -> str:
    for position, length, replacement in changes:
        at = position % (len(content) + 1)
        content = content[:at] + replacement + content[at + length :]
    return content


@pytest.mark.parametrize(
    ("read", "path"),
    [
        (iometer.results, MODERN),
        (iometer.results, OLD),
        (iometer.series, INST),
        (icf.workloads, BLOG),
        (diskspd.results, DISKSPD),
        (diskspd.results, DISKSPD_TWO),
        (diskspd.series, DISKSPD),
        (hammerdb.results, HAMMERDB),
    ],
    ids=["iometer", "iometer-2006", "inst", "icf", "diskspd", "diskspd-real", "diskspd-series", "hammerdb"],
)
def test_damage_is_a_failure_or_sound_figures_never_a_traceback(read, path):
    original = text(path)

    @settings(deadline=None, max_examples=100)
    @given(CHANGES)
    def check(changes):
        try:
            found = read(damaged(original, changes))
        except Failure as failure:
            assert failure.code and failure.what
            return
        assert all(number == number and number >= 0 for number in numbers(found)), found
        json.dumps(found, allow_nan=False)
        for one in found:
            if isinstance(one, dict) and "total" in one and {"read", "write"} <= set(one):
                assert one["total"]["ios"] == one["read"]["ios"] + one["write"]["ios"]

    check()
