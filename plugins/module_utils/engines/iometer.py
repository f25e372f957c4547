# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IOMeter: results out of its CSV file, from 2006.07.27 to 1.1.0. Its configuration is in icf.py.

The file is what IOMeter appends, so it may hold several runs, and runs that broke off. Columns are found by their names, because every
release has others. The grammar is that of IOMeter's own writer (PageSetup, AccessSpecList, ManagerList and Worker of its source).

IOMeter does not report: how long a run was asked to take, its ramp, and exact percentiles. Its 21 latency counters give bounds for a
percentile, and those are what is reported.
"""

from __future__ import annotations

import datetime
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..core.failure import Failure, Fault
from ..result import histogram
from ..result import result as schema
from ..result.schema import Figures, Latency, LatencyBins, Measured, Series
from ..workload.point import Point, Server
from ..workload.workload import SECTOR_BYTES, Range, Workload, extent
from . import icf, icf_writer
from .engine import GRACE_S, ByTime, Place, Start, start
from .iometer_file import Block, Row, Run, Spec, runs_of, unreadable

# IOMeter waits so long for its Dynamo, and at least a few seconds pass between two of its tests.
LOGIN_S = 60
BETWEEN_TESTS_S = 10
# IOMeter and its Dynamo meet at a port of their own, which distinguishes that Dynamo from every other. They are below the ports that Windows itself gives out.
FIRST_PORT, PORTS = 20000, 10000
# A run of IOMeter that breaks off loses the test that it was in, and its files are kept for every point.
MOST_TESTS = 64

# Name of each counter, and the bounds of what it holds in nanoseconds. IOMeter prints round names but compares with fractions of its timer:
# 1/67 s, 1/33 s and 4 s where the names say 15 ms, 30 ms and 4.7 s. A bound must hold either way, so the wider one is taken.
_MS = 1_000_000
BINS = {
    "0 to 50 uS": (0, 50_000),
    "50 to 100 uS": (50_000, 100_000),
    "100 to 200 uS": (100_000, 200_000),
    "200 to 500 uS": (200_000, 500_000),
    "0.5 to 1 mS": (500_000, _MS),
    "1 to 2 mS": (_MS, 2 * _MS),
    "2 to 5 mS": (2 * _MS, 5 * _MS),
    "5 to 10 mS": (5 * _MS, 10 * _MS),
    "10 to 15 mS": (10 * _MS, 15 * _MS),
    "15 to 20 mS": (1000 * _MS // 67, 20 * _MS),
    "20 to 30 mS": (20 * _MS, math.ceil(1000 * _MS / 33)),
    "30 to 50 mS": (30 * _MS, 50 * _MS),
    "50 to 100 mS": (50 * _MS, 100 * _MS),
    "100 to 200 mS": (100 * _MS, 200 * _MS),
    "200 to 500 mS": (200 * _MS, 500 * _MS),
    "0.5 to 1 S": (500 * _MS, 1000 * _MS),
    "1 to 2 s": (1000 * _MS, 2000 * _MS),
    "2 to 4.7 s": (2000 * _MS, 4700 * _MS),
    "4.7 to 5 s": (4000 * _MS, 5000 * _MS),
    "5 to 10 s": (5000 * _MS, 10000 * _MS),
    ">= 10 s": (10000 * _MS, None),
}
# Rates and counts are of one measurement, printed with six decimals: what differs more was not written together.
_AGREES = 0.01


def results(text: str) -> list[Measured]:
    """One result of schema storlab.result/1 for every test in the file, without the keys that only a testbed knows.

    Also: ``stamps`` (local times before and after the test), ``targets`` (written to or read from), ``clients`` (one per manager when there are several),
    and ``latency_bins`` ``{unit, lower, upper, counts}`` with ``latency_p50_lower_ns`` and ``latency_p50_upper_ns`` … in ``total``.
    Failure 'no_result' when the text is not a result of IOMeter, 'iometer_output_unreadable' when it is damaged.
    """
    runs = runs_of(text)
    if not runs:
        raise Failure(
            "no_result",
            "This is not a result file of IOMeter: it has no line that starts with 'Test Type, or 'Results.",
            "Give the CSV file that IOMeter wrote with /r.",
        )
    return [result for run in runs for result in _of_run(run)]


def series(text: str) -> list[Series]:
    """One ``{interval_s, columns, rows}`` for every test in an ``inst*`` file: the updates that IOMeter showed while it ran.

    The interval is the median distance between two updates, absent when there are fewer than two.
    """
    return [_series(block) for run in runs_of(text) for block in run["blocks"]]


# ---------------------------------------------------------------- the lines of the file


# ---------------------------------------------------------------- one test


def _of_run(run: Run) -> list[Measured]:
    engine = schema.without_none({"name": "iometer", "version": run["version"], "latency": "total"})
    tests = [_of_block(block, engine) for block in run["blocks"]]
    if run["errors"]:
        tests.append(_broken(engine, "engine_error", f"IOMeter said: {' '.join(run['errors'])[:400]}"))
    elif _aborted(run) and not any(block["aborted"] for block in run["blocks"]):
        tests.append(_broken(engine, "no_result", "The run was aborted: IOMeter did not write that it ended."))
    return tests


def _aborted(run: Run) -> bool:
    return run["aborted"] or (
        not run["ended"] and (not run["blocks"] or (run["closes"] and _ends_its_runs(run["version"])))
    )


def _ends_its_runs(version: str | None) -> bool:
    """1.1.0 closes a run that ended with 'End Test; releases that are named by a date do not."""
    return bool(re.match(r"1\.1\.", version or ""))


def _broken(engine: dict[str, str], code: str, message: str) -> Measured:
    return {
        "schema": schema.SCHEMA,
        "engine": engine,
        "flags": [],
        "status": "failed",
        "failures": [{"code": code, "message": message}],
    }


def _of_block(block: Block, engine: dict[str, str]) -> Measured:
    rows = [Row(block["header"], number, cells) for number, cells in block["rows"]]
    everything = next((row for row in rows if row.text("'Target Type") == "ALL"), None)
    if everything is None or not everything.whole:
        return _broken(engine, "no_result", "The test was interrupted: its results have no complete row for ALL.")
    result: Measured = {"schema": schema.SCHEMA, "engine": engine, "flags": [], "failures": []}
    spec = _spec(everything.text("Access Specification Name"), block["specs"])
    if spec:
        result["job_name"] = spec["name"]
    if block["aborted"]:
        return {
            **result,
            **_broken(engine, "no_result", "The run was aborted during this test, or before the next one measured."),
        }
    if not everything.count("# Disks"):
        result["failures"].append(
            {
                "code": "no_target",
                "message": "No worker had a target, so IOMeter did no I/O; it does not see disks with partitions or a GPT.",
            }
        )
        return {**result, "status": "failed"}
    figures, failures = _figures(everything)
    result.update(figures)
    result["failures"] += failures
    result.update(_places(rows))
    stamps = [stamp for stamp in block["stamps"] if stamp]
    if len(stamps) == 2:
        result["stamps"] = stamps
    if everything.count("# Disks") > everything.count("# Workers"):
        result["flags"].append("several_targets")
    if spec:
        try:
            result["workload"] = _workload(spec, everything, result)
        except Failure as failure:
            result["workload_unknown"] = str(failure)
    expected = tuple(
        name
        for name in schema.DIRECTIONS
        if any(_has_direction(line, name) for line in (spec or {"lines": []})["lines"])
    )
    result["failures"] += schema.failures(result, 0, expected, None)
    if not expected and not failures and not any(name in result for name in schema.DIRECTIONS):
        result["failures"].append({"code": "no_io", "message": "No I/O was done."})
    result["status"] = "failed" if result["failures"] else "measured"
    return result


def _has_direction(line: dict[str, int], direction: str) -> bool:
    return bool(line["of_size"] and (line["reads"] if direction == "read" else 100 - line["reads"]))


def _spec(name: str, specs: list[Spec]) -> Spec | None:
    """The access specification of a test. The name is blank in inst files and where workers run different ones."""
    named = [spec for spec in specs if spec["name"] == name]
    return named[-1] if named else specs[0] if not name and len(specs) == 1 else None


def _figures(row: Row) -> tuple[Measured, list[Fault]]:
    """(keys of a result, failures) of one row."""
    parts, runtimes = {}, []
    for name, counted, size in (("read", "Read I/Os", "Bytes Read"), ("write", "Write I/Os", "Bytes Written")):
        ios, rate = row.count(counted), row.number_of(f"{name.capitalize()} IOps") or 0
        if bool(ios) != bool(rate):
            return {}, [
                {
                    "code": "figures_incomplete",
                    "message": f"The file has {rate:g} {name} IOps, but counts {ios} {name} I/Os.",
                }
            ]
        if not ios:
            continue
        runtimes.append(ios / rate)
        title = name.capitalize()
        latency: Latency = {
            "samples": ios,
            "mean": _nanoseconds(row, f"Average {title} Response Time"),
            "max": _nanoseconds(row, f"Maximum {title} Response Time"),
        }
        # From the bytes, because MBps is binary in some releases and decimal in others.
        parts[name] = schema.direction(ios, row.count(size), rate, row.count(size) / runtimes[-1], latency)
    figures = cast(Measured, dict(parts))
    if not parts:
        return figures, []
    figures["runtime_s"] = max(runtimes)
    figures["total"] = schema.merge_directions(list(parts.values()))
    rate = row.number_of("IOps") or 0
    if max(runtimes) - min(runtimes) > _AGREES * max(runtimes) or abs(rate - figures["total"]["iops"]) > _AGREES * rate:
        return {}, [
            {
                "code": "figures_disagree",
                "message": "Counts and rates of reads, of writes and of both do not fit together.",
            }
        ]
    bins = _bins(row, figures["total"]["ios"])
    if bins:
        figures["latency_bins"] = bins
        figures["total"].update(bounds(bins, figures["total"].get("latency_max_ns")))
    if row.count("# Managers") <= 1:
        # Who does I/O uses a processor: 0 is what stands where nothing was measured.
        figures["cpu"] = schema.without_none({"host_busy_percent": row.number_of("% CPU Utilization") or None})
    figures["errors"] = {"total": row.count("Errors")}
    return figures, []


def _nanoseconds(row: Row, name: str) -> float | None:
    """Response times are in milliseconds with six decimals; one that rounds to nothing was not measured."""
    return (row.number_of(name) or 0) * _MS or None


def _bins(row: Row, ios: int) -> LatencyBins | None:
    """The latency counters, when the release has them and they count every I/O."""
    counts = [row.count(name) for name in BINS]
    if not ios or sum(counts) != ios:
        return None
    return {
        "unit": "ns",
        "lower": [low for low, high in BINS.values()],
        "upper": [high for low, high in BINS.values()],
        "counts": counts,
    }


def bounds(bins: LatencyBins, longest: float | None) -> Figures:
    """Between which latencies each percentile lies, by the rule of histogram.percentiles. No upper one beyond the last edge."""
    known: Any = {}
    positions = histogram.percentiles(
        {str(position): count for position, count in enumerate(bins["counts"])}, schema.PERCENTILES
    )
    for percent, name in schema.PERCENTILES.items():
        position = positions[percent] or 0
        low, high, stem = bins["lower"][position], bins["upper"][position], name[: -len("_ns")]
        known[f"{stem}_lower_ns"] = low
        upper = min((value for value in (high, longest) if value is not None), default=None)
        if upper is not None:
            known[f"{stem}_upper_ns"] = max(low, upper)
    return cast(Figures, known)


def _places(rows: list[Row]) -> Measured:
    """Who did the I/O, and on what."""
    managers = [row for row in rows if row.text("'Target Type") == "MANAGER"]
    places: Measured = {
        "targets": sorted({row.text("Target Name") for row in rows if row.text("'Target Type") == "DISK"})
    }
    if not places["targets"]:
        del places["targets"]
    if len(managers) == 1:
        places["host"] = managers[0].text("Target Name")
    elif managers:
        places["clients"] = [_client(row) for row in managers]
    return places


def _client(row: Row) -> Measured:
    figures, failures = _figures(row)
    kept: Any = {key: value for key, value in figures.items() if key in ("read", "write", "total")}
    if not kept and not failures:
        failures = [{"code": "no_io", "message": "No I/O was done."}]
    status = "failed" if failures else "measured"
    return cast(Measured, {"host": row.text("Target Name"), "status": status, "failures": failures, **kept})


def _workload(spec: Spec, row: Row, result: Measured) -> Workload:
    """The workload of a test. IOMeter does not write what time was asked for: the measured one is put in its place, and no ramp."""
    depth, workers, disks = row.number_of("Queue Depth"), row.count("# Workers"), row.count("# Disks")
    if not depth or not workers or disks % workers:
        raise Failure(
            "workload_unknown",
            f"Workers of the test {spec['name']!r} differ in targets or outstanding I/Os.",
            "Give all workers the same settings to have one workload.",
        )
    # IOMeter counts outstanding I/Os a target, and a worker may have several.
    return icf.workload(
        spec["name"],
        spec["lines"],
        {
            "queue_depth": int(depth) * disks // workers,
            "workers": workers,
            "runtime_s": max(1, round(result.get("runtime_s", 0))),
            "ramp_s": 0,
            **_range(row),
        },
    )


def _range(row: Row) -> dict[str, Range]:
    return icf.disk_range(int(row.number_of("Starting Sector") or 0), int(row.number_of("Maximum Size") or 0))


# ---------------------------------------------------------------- inst files


def _series(block: Block) -> Series:
    columns = ["t_s", "phase", "iops", "bandwidth_bytes_s", "latency_mean_ns", "cpu_busy_percent"]
    rows: list[list[Any]] = []
    first = None
    for number, cells in block["rows"]:
        row = Row(block["header"], number, cells)
        if row.text("'Target Type") != "ALL":
            continue
        at = _seconds(row)
        first = at if first is None else first
        decimal = row.number_of("MBps (Decimal)")
        # IOMeter records updates of the measured time only; the ramp is over when the first one comes.
        rows.append(
            [
                round(at - first, 3),
                "measure",
                row.number_of("IOps"),
                None if decimal is None else decimal * 1e6,
                _nanoseconds(row, "Average Response Time"),
                row.number_of("% CPU Utilization"),
            ]
        )
    steps = sorted(later[0] - earlier[0] for earlier, later in zip(rows, rows[1:]))
    series: Series = {"columns": columns, "rows": rows}
    if steps:
        series["interval_s"] = steps[len(steps) // 2]
    return series


def _seconds(row: Row) -> float:
    """Seconds of an update's time stamp, for differences: 'YYYY-MM-DD hh:mm:ss:mmm' in local time."""
    match = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d):(\d{1,3})", row.text("TimeStamp"))
    try:
        if match is None:
            raise ValueError("another form")
        year, month, day, hour, minute, second, thousandths = (int(part) for part in match.groups())
        return datetime.datetime(year, month, day, hour, minute, second).timestamp() + thousandths / 1000
    except ValueError as error:
        raise unreadable(row.number, f"TimeStamp is {row.text('TimeStamp')[:40]!r}") from error


# ---------------------------------------------------------------- the engine


class Iometer(ByTime):
    """As many points a run as one configuration can hold, as long as the order of the plan is kept."""

    name, job_file, raw_file, begins, comment = "iometer", "iometer.icf", "iometer.csv", "'", "'"
    programs, session = ("IOmeter.exe",), "interactive"
    silence = (
        " It wrote nothing: it may have waited for a dialog, such as its licence. See that benchmark_windows.iometer_version is the version "
        "that it shows."
    )
    shares_runs, zeroes = True, False
    # On a file it works under a second name, which is a change of its folder. belief: that it opens disks for writing, too, whatever the access pattern.
    opens_for_reading = False

    def check(self, point: Point) -> None:
        extent(point["workload"], point["size_bytes"])
        icf_writer.target_of(point["path"])
        icf_writer.check([point["workload"]])

    def check_disk(self, path: str, disk: Mapping[str, object]) -> None:
        if disk["sector_bytes"] != SECTOR_BYTES:
            raise Failure(
                "workload_unsupported",
                f"IOMeter counts sectors of {SECTOR_BYTES} bytes, and the sectors of {path} have {disk['sector_bytes']}.",
                "Use another engine for this disk.",
                engine="iometer",
                path=path,
                sector_bytes=disk["sector_bytes"],
            )

    def batches(self, points: list[Point]) -> list[list[Point]]:
        batches, left = [], list(points)
        while left:
            same = next((index for index, point in enumerate(left) if point["layer"] != left[0]["layer"]), len(left))
            count = next(
                count
                for count in range(min(same, MOST_TESTS), 0, -1)
                if self._share_file([point["workload"] for point in left[:count]])
            )
            batches.append(left[:count])
            left = left[count:]
        return batches

    @staticmethod
    def _share_file(workloads: list[Workload]) -> bool:
        """Whether one configuration runs these in this order."""
        return icf_writer.group(workloads) == [workloads]

    @staticmethod
    def _workloads(points: list[Point]) -> list[Workload]:
        """With their range said, on a file: IOMeter would make it larger until the volume is full."""
        if points[0]["path"].startswith("\\\\"):
            return [point["workload"] for point in points]
        spans = [extent(point["workload"], point["size_bytes"]) for point in points]
        return [
            {**point["workload"], "range": {"offset_bytes": offset, "size_bytes": size}}
            for point, (offset, size) in zip(points, spans)
        ]

    def command(self, points: list[Point], place: Place) -> Start:
        path, folder = points[0]["path"], place.folder
        on_file = not path.startswith("\\\\")
        port = FIRST_PORT + zlib.crc32(folder.encode()) % PORTS
        workloads = self._workloads(points)
        job = {self.job_file: icf_writer.write(workloads, [icf_writer.target_of(path)]).replace("\n", "\r\n")}
        limit_s: float = LOGIN_S + GRACE_S
        limit_s += sum(workload["ramp_s"] + workload["runtime_s"] + BETWEEN_TESTS_S for workload in workloads)
        files = ["/c", f"{folder}\\{self.job_file}", "/r", f"{folder}\\{self.raw_file}"]
        return start(
            [*files, "/t", str(LOGIN_S), "/p", str(port)],
            job,
            limit_s,
            files=job,
            # It starts Dynamo as "dynamo -p <port>", through a shell that ends at once, and no other run has this port.
            leaves="Dynamo.exe",
            mark=f"-p {port}",
            licence_version=place.version,
            # On a volume IOMeter knows one file only, of this name.
            link=f"{path[:2]}\\iobw.tst" if on_file else "",
            link_target=path if on_file else "",
        )

    def results(self, text: str, servers: Sequence[Server] | None = None) -> list[Measured]:
        return results(text)

    def tests(self, text: str, points: list[Point]) -> tuple[dict[str, int | None], list[Fault]]:
        tests = list(enumerate(results(text))) if text else []
        done = [(position, test) for position, test in tests if "job_name" in test or "total" in test]
        places: dict[str, int | None] = {point["point_id"]: None for point in points}
        for point, (name, depth), (position, test) in zip(points, icf_writer.steps(self._workloads(points)), done):
            if (test.get("job_name", name), test.get("workload", {}).get("queue_depth", depth)) != (name, depth):
                break
            places[point["point_id"]] = position
        return places, [failure for pair in tests if pair not in done for failure in pair[1]["failures"]]

    def filled(self, text: str, point: Point) -> tuple[int, float | None]:
        return self.written(results(text)[0], point)
