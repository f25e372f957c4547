# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IOMeter's files, generated: grids that are written and read again, and results as the SaveResults of IOMeter's source write them.

The writer of results below knows nothing of the reader: what each release's columns are called, what stands in which kind of row, where fields are
empty or -1, and what follows a run that ended, was stopped, or was killed.
"""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import icf, icf_writer, iometer
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

QUICK = settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example, HealthCheck.data_too_large],
)
SECTORS = (512, 1024, 4096, 8192, 65536, 262144, 1 << 20)

# ---------------------------------------------------------------- configurations


@st.composite
def patterns(draw) -> dict:
    """What an access specification says of a workload."""
    said: dict = {"random_percent": draw(st.integers(0, 100)), "read_percent": draw(st.integers(0, 100))}
    kind = draw(st.sampled_from(["one", "mix", "mix of each direction"]))
    sizes = draw(st.lists(st.sampled_from(SECTORS), min_size=3, max_size=3, unique=True))
    if kind == "one":
        said["block_size"] = sizes[0]
    elif kind == "mix":
        first = draw(st.integers(1, 97))
        second = draw(st.integers(1, 99 - first))
        said["block_size"] = {sizes[0]: first, sizes[1]: second, sizes[2]: 100 - first - second}
    else:
        # Multiples of 10 % of multiples of 10 % are whole percents.
        share, reads = (10 * draw(st.integers(1, 9)) for _number in range(2))
        said.update(
            read_percent=reads, block_size={"read": {sizes[0]: share, sizes[1]: 100 - share}, "write": {sizes[2]: 100}}
        )
    if said["random_percent"] and draw(st.booleans()):
        said["alignment"] = 512 * draw(st.integers(1, 4096))
    if draw(st.booleans()):
        said.update(think_time_us=1000 * draw(st.integers(1, 3_600_000)), burst=draw(st.integers(1, 1_000_000)))
    return said


@st.composite
def depths(draw) -> list:
    """Depths through which IOMeter can cycle, or not."""
    start, step, count = draw(st.integers(1, 64)), draw(st.integers(2, 4)), draw(st.integers(1, 5))
    return draw(
        st.sampled_from(
            [
                [start],
                [start + step * number for number in range(count)],
                [start * step**number for number in range(count)],
                [start, start + 1, start + 3],
                [start + 5, start],
            ]
        )
    )


@st.composite
def grids(draw) -> list:
    """Workloads of a sweep, the depth varying slowest, fastest, or at random."""
    files = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "workers": st.integers(1, 6),
                    "ramp_s": st.integers(0, 600),
                    "runtime_s": st.integers(1, 100_000),
                    "range": st.sampled_from(
                        [
                            {},
                            {"offset_bytes": 512 * 2048, "size_bytes": 512 * 999_424},
                            {"offset_bytes": 0, "size_bytes": 1 << 30},
                        ]
                    ),
                }
            ),
            min_size=1,
            max_size=2,
        )
    )
    shapes, levels = draw(st.lists(patterns(), min_size=1, max_size=4)), draw(depths())
    cells = [{**common, **shape, "queue_depth": depth} for common in files for shape in shapes for depth in levels]
    order = draw(st.sampled_from(["fastest", "slowest", "random"]))
    if order == "slowest":
        cells.sort(key=lambda cell: cell["queue_depth"])
    return [normalise(cell) for cell in (draw(st.permutations(cells)) if order == "random" else cells)]


def as_told(text: str) -> list:
    """[(specification, depth)] that IOMeter would run, by a reading of the file of our own."""
    assigned = (
        re.search(r"'Assigned access specs\n(.*?)\n'End assigned access specs", text, re.DOTALL)[1]
        .replace("\t", "")
        .split("\n")
    )
    start, end, step, kind = re.search(r"'Queue Depth Cycling\n[^\n]*\n\t(\d+) +(\d+) +(\d+) +(\w+)", text).groups()
    levels = [int(re.search(r"\n\t(\d+),DISABLED,1,DISABLED,0\n", text)[1])]
    if "\n'Test Type\n\tCYCLE_OUTSTANDING_IOS\n" in text:
        levels, exponent = [], 0
        while (
            depth := int(start) + int(step) * exponent if kind == "LINEAR" else int(start) * int(step) ** exponent
        ) <= int(end):
            levels.append(depth)
            exponent += 1
    return [(name, depth) for name in assigned for depth in levels]


@QUICK
@given(
    grids(),
    st.lists(st.sampled_from(['0: "A"', '7: "B C"', 'G: "DATA"', "/dev/sdb"]), min_size=1, max_size=3, unique=True),
)
def test_a_grid_written_file_by_file_and_read_again_is_the_same_grid(grid, targets):
    files = icf_writer.group(grid)
    assert sorted(map(str, grid)) == sorted(str(one) for members in files for one in members)
    for members in files:
        written = icf_writer.write(members, targets)
        entries = icf.workloads(written)
        assert [entry["workload"] for entry in entries] == members
        assert all(entry["targets"] == targets for entry in entries)
        for entry in entries:
            # Only what is not the same for other engines is noted.
            workers = entry["workload"]["workers"]
            expected = {
                "Several workers have sequential I/O, in whole or in part": workers > 1
                and entry["workload"]["random_percent"] < 100,
                "The workload pauses with several I/Os in flight": entry["workload"].get("think_time_us", 0) > 0
                and entry["workload"]["queue_depth"] > 1,
                "Reads and writes are mixed and sequential, in whole or in part": 0
                < entry["workload"]["read_percent"]
                < 100
                and entry["workload"]["random_percent"] < 100,
                f"One worker of IOMeter drives {len(targets)} targets at the same time": len(targets) > 1,
            }
            begins = [note.split(":")[0].split(",")[0] for note in entry["notes"]]
            assert sorted(begins) == sorted(text.split(",")[0] for text, there in expected.items() if there)
        assert (
            [(entry["name"], entry["workload"]["queue_depth"]) for entry in entries]
            == icf_writer.steps(members)
            == as_told(written)
        )
        assert written.count("\n'Worker\n") == members[0]["workers"]
        # IOMeter reads lines into a buffer of 200 characters, and keeps 127 of a name.
        assert max(map(len, written.split("\n"))) < 200 and all(
            len(name) < 128 and "," not in name for name, _depth in icf_writer.steps(members)
        )
        assert icf_writer.write([entry["workload"] for entry in entries], targets) == written
        assert [entry["workload"] for entry in icf.workloads(written.replace("\n", "\r\n"))] == members


# ---------------------------------------------------------------- results

FIRST = "'Target Type,Target Name,Access Specification Name,# Managers,# Workers,# Disks,IOps,Read IOps,Write IOps"
SPEEDS = {
    "2006.07.27": "MBps,Read MBps,Write MBps",
    "2008.06.18-RC2": "MBps,Read MBps,Write MBps",
    "1.1.0-rc1": "MBps (Binary),Read MBps (Binary),Write MBps (Binary),MBps (Decimal),Read MBps (Decimal),Write MBps (Decimal)",
    "1.1.0": "MiBps (Binary),Read MiBps (Binary),Write MiBps (Binary),MBps (Decimal),Read MBps (Decimal),Write MBps (Decimal)",
}
REST = (
    "Transactions per Second,Connections per Second,Average Response Time,Average Read Response Time,Average Write Response Time,"
    "Average Transaction Time,Average Connection Time,Maximum Response Time,Maximum Read Response Time,Maximum Write Response Time,"
    "Maximum Transaction Time,Maximum Connection Time,Errors,Read Errors,Write Errors,Bytes Read,Bytes Written,Read I/Os,Write I/Os,"
    "Connections,Transactions per Connection,Total Raw Read Response Time,Total Raw Write Response Time,Total Raw Transaction Time,"
    "Total Raw Connection Time,Maximum Raw Read Response Time,Maximum Raw Write Response Time,Maximum Raw Transaction Time,"
    "Maximum Raw Connection Time,Total Raw Run Time,Starting Sector,Maximum Size,Queue Depth,% CPU Utilization,% User Time,"
    "% Privileged Time,% DPC Time,% Interrupt Time,Processor Speed,Interrupts per Second,CPU Effectiveness,Packets/Second,Packet Errors,"
    "Segments Retransmitted/Second"
)
BINS = (
    "0 to 50 uS,50 to 100 uS,100 to 200 uS,200 to 500 uS,0.5 to 1 mS,1 to 2 mS,2 to 5 mS,5 to 10 mS,10 to 15 mS,15 to 20 mS,20 to 30 mS,"
    "30 to 50 mS,50 to 100 mS,100 to 200 mS,200 to 500 mS,0.5 to 1 S,1 to 2 s,2 to 4.7 s,4.7 to 5 s,5 to 10 s, >= 10 s"
)
RELEASES = sorted(SPEEDS)
ENDS = ("ended", "stopped while it measured", "stopped before it measured", "killed")


def header(release: str) -> str:
    return ",".join([FIRST, SPEEDS[release], REST, *([BINS] if release == "1.1.0" else [])])


def figures(test: dict, share: int = 1) -> list:
    """The cells from IOps to Maximum Connection Time, Errors …, Connections: what every kind of row has. share: of so many alike."""
    counts = [test["reads"] // share, test["writes"] // share]
    rates = [count / test["seconds"] for count in counts]
    rates = [sum(rates), *rates]
    speeds = [rate * test["bytes"] for rate in rates]
    cells = rates + (
        [speed / (1 << 20) for speed in speeds] + [speed / 1e6 for speed in speeds]
        if "1.1.0" in test["release"]
        else [speed / (1 << 20) for speed in speeds]
    )
    means = [test["mean_ms"] * bool(test["reads"]), test["mean_ms"] * 2 * bool(test["writes"])]
    mean = sum(count * value for count, value in zip(counts, means)) / max(1, sum(counts))
    longest = [3 * value for value in means]
    cells += [0.0, 0.0, mean, *means, 0.0, 0.0, max(longest), *longest, 0.0, 0.0]
    errors = [test["errors"] // share, test["errors"] // share, 0]
    return [f"{cell:.6f}" for cell in cells] + [
        str(cell) for cell in [*errors, *(count * test["bytes"] for count in counts), *counts, 0]
    ]


def row(kind: str, name: str, test: dict, counted: tuple, bins: bool = True, share: int = 1) -> str:
    """One row as SaveResults of its kind writes it: ALL and MANAGER have processors, WORKER and DISK a timer, and only ALL and MANAGER name counts."""
    of_many = kind in ("ALL", "MANAGER")
    raw = [""] * 9 if of_many else [str(1000 + number) for number in range(9)]
    # Setting of transactions a connection: -1, where connections are not tested.
    cells = [
        kind,
        name,
        test["spec"] if kind != "DISK" else "",
        *map(str, counted),
        *figures(test, share),
        "-1",
        *raw,
        str(test["start"]),
        str(test["size"]),
        str(test["depth"]),
    ]
    processors = [
        f"{test['cpu']:.6f}",
        "1.000000",
        "2.000000",
        "0.500000",
        "0.250000",
        "",
        "812.125000",
        "99.500000",
        "0.000000",
        "0.000000",
        "0.000000",
    ]
    cells += processors if of_many else ["", "", "", "", "", "2435903", "", "", "", "", ""]
    if test["release"] == "1.1.0" and bins:
        cells += [str(count) for count in test["bins"]]
    return ",".join(cells)


def block(test: dict) -> list:
    """The lines of one test."""
    workers, targets = test["workers"], test["targets"]
    lines = [
        "'Results",
        header(test["release"]),
        row("ALL", "All", test, (1, workers, workers * len(targets))),
        row("MANAGER", test["host"], test, ("", workers, workers * len(targets))),
    ]
    # Processors have no counters.
    columns = header(test["release"]).split(",").index("% CPU Utilization")
    lines.append("PROCESSOR,CPU 0" + "," * (columns - 1) + "3.5,1.0,2.5,0.0,0.0,2435903,11.0,,,,")
    for worker in range(workers):
        lines.append(row("WORKER", f"Worker {worker + 1}", test, ("", "", len(targets)), share=workers))
        lines += [row("DISK", target, test, ("", "", ""), share=workers * len(targets)) for target in targets]
    return [*lines, "'Time Stamp", "2014-05-06 07:08:09:010"]


def specification(test: dict) -> list:
    comma = "," if test["release"] == "1.1.0" else ""
    return [
        "'Access specifications",
        "'Access specification name,default assignment",
        f"{test['spec']},2",
        "'size,% of size,% reads,% random,delay,burst,align,reply",
        f"{test['bytes']},100,{test['share']},{test['random']},0,1,{test['bytes']},0{comma}",
        "'End access specifications",
    ]


@st.composite
def measured(draw, release: str) -> dict:
    """One test, as it was: no rate so small that six decimals lose it."""
    reads, writes = draw(st.sampled_from([(1, 0), (0, 1), (1, 1)]))
    seconds = draw(st.integers(1, 3600))
    reads, writes = (used * seconds * draw(st.integers(1, 500_000)) for used in (reads, writes))
    random = draw(st.integers(0, 100))
    total, cut = reads + writes, draw(st.integers(0, 20))
    bins = [0] * 21
    bins[cut], bins[draw(st.integers(0, 20))] = total // 3, 0
    bins[draw(st.integers(0, 20))] += total - sum(bins)
    return {
        "release": release,
        "reads": reads,
        "writes": writes,
        "seconds": seconds,
        "bytes": draw(st.sampled_from(SECTORS)),
        "random": random,
        "bins": bins,
        "share": 100 * bool(reads) if not (reads and writes) else draw(st.integers(1, 99)),
        "depth": draw(st.integers(1, 512)),
        "workers": draw(st.integers(1, 3)),
        "targets": draw(st.sampled_from([['1: "( VENDOR PRODUCT 1.0"'], ['G: "DATA"'], ["/dev/sda", "/dev/sdb"]])),
        "mean_ms": draw(st.integers(1, 10**7)) / 10**4,
        "cpu": draw(st.integers(1, 9999)) / 100,
        "errors": 6 * max(0, draw(st.integers(-4, 3))),
        "host": "STORAGE01",
        "start": draw(st.sampled_from([0, 2048])),
        "size": draw(st.sampled_from([0, 1 << 20])),
    }


@st.composite
def runs(draw) -> dict:
    """{release, specs: [[test]], end}: the tests of each specification, at one depth or several."""
    release = draw(st.sampled_from(RELEASES))
    specs = draw(st.lists(st.lists(measured(release), min_size=1, max_size=2), min_size=0, max_size=3))
    for number, tests in enumerate(specs):
        for test in tests:
            test.update(
                {key: tests[0][key] for key in ("bytes", "share", "random")}, spec=f"spec {number}; of {len(specs)} %"
            )
            # What is asked for, and what was done, must be the same directions.
            test.update(
                reads=(test["reads"] or test["seconds"]) * bool(test["share"]),
                writes=(test["writes"] or test["seconds"]) * (test["share"] < 100),
            )
            test["bins"] = (
                [0] * 20 + [test["reads"] + test["writes"]]
                if sum(test["bins"]) != test["reads"] + test["writes"]
                else test["bins"]
            )
    return {"release": release, "specs": specs, "end": draw(st.sampled_from(ENDS))}


def lines_of(run: dict) -> list:
    """What IOMeter appends to its file for one run."""
    lines = [
        "'Test Type,Test Description",
        "0,generated",
        "'Version",
        run["release"],
        "'Time Stamp",
        "2014-05-06 07:00:00:001",
    ]
    for tests in run["specs"]:
        lines += specification(tests[0])
        for test in tests:
            lines += block(test)
    if run["end"] == "stopped before it measured":
        # In the ramp of a specification that was not reached yet.
        lines += specification({"release": run["release"], "spec": "never", "bytes": 512, "share": 100, "random": 0})
    if run["end"].startswith("stopped"):
        lines.append("Aborted test")
    if run["end"] == "ended" and run["release"].startswith("1.1.0"):
        lines.append("'End Test")
    return lines


def wanted(run: dict) -> list:
    """The tests of a run in order; None for each that must be a failure."""
    tests = [test for same in run["specs"] for test in same]
    if run["end"] == "stopped while it measured" and tests:
        return [*tests[:-1], None]
    if run["end"].startswith("stopped") or (
        not tests and (run["end"] == "killed" or not run["release"].startswith("1.1.0"))
    ):
        return [*tests, None]
    return [*tests, *([None] if run["end"] == "killed" and run["release"].startswith("1.1.0") else [])]


def check(found: dict, test: dict) -> None:
    codes = ["io_errors"] if test["errors"] else []
    assert (found["status"], [failure["code"] for failure in found["failures"]]) == (
        "failed" if codes else "measured",
        codes,
    )
    assert found["engine"]["version"] == test["release"]
    assert (found["job_name"], found["host"], found["targets"]) == (test["spec"], test["host"], sorted(test["targets"]))
    workload = found["workload"]
    assert (workload["queue_depth"], workload["workers"]) == (test["depth"] * len(test["targets"]), test["workers"])
    assert (workload["block_size_bytes"], workload["read_percent"], workload["random_percent"]) == (
        test["bytes"],
        test["share"],
        test["random"],
    )
    assert workload["range"] == {"offset_bytes": 512 * test["start"], "size_bytes": 512 * test["size"] or None}
    assert found["cpu"]["host_busy_percent"] == pytest.approx(test["cpu"])
    assert found.get("latency_bins", {}).get("counts") == (test["bins"] if test["release"] == "1.1.0" else None)
    check_figures(found, test)


def check_figures(found: dict, test: dict) -> None:
    assert found["runtime_s"] == pytest.approx(test["seconds"], rel=1e-5) and found["errors"] == {
        "total": test["errors"]
    }
    for name, count, factor in (("read", test["reads"], 1), ("write", test["writes"], 2)):
        assert (name in found) == bool(count)
        if count:
            assert (found[name]["ios"], found[name]["bytes"]) == (count, count * test["bytes"])
            assert found[name]["iops"] == pytest.approx(count / test["seconds"], rel=1e-5)
            assert found[name]["bandwidth_bytes_s"] == pytest.approx(count * test["bytes"] / test["seconds"], rel=1e-5)
            assert found[name]["latency_mean_ns"] == pytest.approx(factor * test["mean_ms"] * 1e6)
            assert found[name]["latency_max_ns"] == pytest.approx(3 * factor * test["mean_ms"] * 1e6)
    assert found["total"]["ios"] == test["reads"] + test["writes"]


@QUICK
@given(st.lists(runs(), min_size=1, max_size=3), st.sampled_from(["\n", "\r\n"]))
def test_every_run_in_a_file_is_read_as_it_was_written(appended, newline):
    found = iometer.results(newline.join([*(line for run in appended for line in lines_of(run)), ""]))
    expected = [test for run in appended for test in wanted(run)]
    assert len(found) == len(expected)
    for one, test in zip(found, expected):
        if test is None:
            assert (one["status"], [failure["code"] for failure in one["failures"]], "total" in one) == (
                "failed",
                ["no_result"],
                False,
            )
        else:
            check(one, test)
    json.dumps(found, allow_nan=False)


@QUICK
@given(runs(), st.data())
def test_a_file_that_breaks_off_anywhere_has_what_was_whole_or_is_refused(run, data):
    lines = lines_of(run)
    text = "\n".join(lines)
    cut = text[: data.draw(st.integers(0, len(text)))]
    expected = [test for tests in run["specs"] for test in tests]
    try:
        found = iometer.results(cut)
    except Failure as failure:
        assert failure.code in ("no_result", "iometer_output_unreadable", "icf_unreadable")
        return
    kept = [one for one in found if "total" in one]
    assert len(kept) <= len(expected)
    # Only the last one may have lost rows; what its first row says is whole, or it is no measurement.
    for one, test in zip(kept, expected):
        (check_figures if one is kept[-1] else check)(one, test)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("reads", "writes", "share"), [(123456, 0, 100), (0, 654321, 0), (3030, 9090, 25)])
def test_a_row_that_breaks_off_is_no_measurement(release, reads, writes, share):
    test = {
        "release": release,
        "reads": reads,
        "writes": writes,
        "seconds": 30,
        "bytes": 4096,
        "random": 50,
        "share": share,
        "depth": 8,
        "workers": 1,
        "targets": ['1: "X"'],
        "mean_ms": 1.25,
        "cpu": 12.5,
        "errors": 0,
        "host": "STORAGE01",
        "start": 0,
        "size": 0,
        "spec": "one",
        "bins": [0] * 5 + [reads + writes] + [0] * 15,
    }
    lines = lines_of({"release": release, "specs": [[test]], "end": "killed"})
    everything = next(number for number, line in enumerate(lines) if line.startswith("ALL,"))
    for length in range(lines[everything].rindex(",") + 1):
        found = iometer.results("\n".join([*lines[:everything], lines[everything][:length]]))
        assert not any("total" in one for one in found) and found[0]["status"] == "failed", lines[everything][:length]


@QUICK
@given(runs().filter(lambda run: run["specs"]), st.sampled_from([";", "\t"]))
def test_what_a_spreadsheet_saved_is_refused(run, separator):
    with pytest.raises(Failure) as caught:
        iometer.results("\n".join(lines_of(run)).replace(",", separator))
    assert caught.value.code in ("iometer_output_unreadable", "icf_unreadable")


def test_the_bounds_of_a_counter_are_those_its_name_gives_or_the_wider_ones_of_its_timer():
    """Worked out here from the names alone; 15 ms, 30 ms and 4.7 s are the three that IOMeter's timer puts elsewhere."""
    units = {"uS": 1_000, "mS": 1_000_000, "S": 1_000_000_000, "s": 1_000_000_000}
    elsewhere = {
        ("15 to 20 mS", 0): 10**9 // 67,
        ("20 to 30 mS", 1): -(-(10**9) // 33),
        ("4.7 to 5 s", 0): 4 * 10**9,
    }
    for name, bounds in iometer.BINS.items():
        numbers, unit = re.findall(r"[\d.]+", name), name.split()[-1]
        for end, number in enumerate(numbers):
            assert bounds[end] == elsewhere.get((name, end), round(float(number) * units[unit])), name
    assert list(iometer.BINS.values())[-1] == (10**10, None)


def test_a_response_time_that_is_not_there_is_absent():
    row = iometer.Row(["Average Read Response Time", "Maximum Read Response Time"], 1, ["0.25", ""])
    assert iometer._nanoseconds(row, "Average Read Response Time") == 250_000
    assert iometer._nanoseconds(row, "Maximum Read Response Time") is None
    assert iometer._nanoseconds(row, "Average Write Response Time") is None
