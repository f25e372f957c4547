# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""diskspd: command lines out of workloads, results out of its XML (-Rxml).

Options and XML are those of diskspd 2.0 to 2.2 (CmdLineParser, XmlResultParser and Common in its source; 2.2 was built from it and tried).
diskspd rounds latencies to microseconds and keeps no distribution, only a table of percentiles: the tables of several runs cannot be merged.
"""

from __future__ import annotations

import datetime
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from typing import Any, cast

from ..core.failure import Failure, bad_value
from ..result import result as schema
from ..result.schema import Figures, Latency, Measured, Series
from ..workload.point import Point, Server
from ..workload.words import expressed_by
from ..workload.workload import Direction, Workload, directions, extent, normalise, unsupported
from .engine import GRACE_S, ByTime, Place, Start, start

EXPRESSIBLE = expressed_by("diskspd")
# Whole seconds, as diskspd notes them; moments of one form have the order of their text.
_MOMENT = "%Y-%m-%dT%H:%M:%SZ"
_MS = 1_000_000
_SERIES_MS = 1000


# ---------------------------------------------------------------- command lines


# The kinds of data that it can write; by default each block is new, too.
_CONTENTS = (None, {"pattern": "zero"}, {"pattern": "random", "refill": True})


def argv(
    workload: Workload, target: str, seed: int, size_bytes: int | None = None, program: str = "diskspd.exe"
) -> list[str]:
    """The command line that runs a normalised workload on a target: '#1' or '\\\\.\\PhysicalDrive1', 'D:', or the path of an existing file.

    size_bytes: of the target; needed where several sequential workers share it. Failure 'workload_unsupported' for what diskspd cannot do.
    """
    _refuse(workload)
    line = [
        program,
        f"-b{workload['block_size_bytes']}",
        *_access(workload, size_bytes),
        f"-w{100 - workload['read_percent']}",
        f"-o{workload['queue_depth']}",
        f"-t{workload['workers']}",
        f"-W{workload['ramp_s']}",
        f"-d{workload['runtime_s']}",
        "-S" + ("u" if workload["direct"] else "b") + ("w" if "sync" in workload else ""),
    ]
    if workload["range"]["offset_bytes"] or workload["range"]["size_bytes"]:
        span = workload["range"]
        line.append(f"-B{span['offset_bytes']}" + (f":{span['size_bytes']}" if span["size_bytes"] else ""))
    if "think_time_us" in workload:
        # It divides the burst among the workers.
        line += [f"-i{workload['burst'] * workload['workers']}", f"-j{workload['think_time_us'] // 1000}"]
    if "rate_iops" in workload:
        line.append(f"-g{workload['rate_iops'] // workload['workers']}i")
    if "rate_bytes_s" in workload:
        line.append(f"-g{workload['rate_bytes_s'] // workload['workers'] // 1000}")
    if "write" in directions(workload):
        line.append("-Z" if workload.get("data", {}).get("pattern") == "zero" else "-Zr")
    return [*line, f"-z{seed}", "-L", f"-D{_SERIES_MS}", "-Rxml", _target(target)]


def check(workload: Workload, target: str, size_bytes: int | None = None) -> None:
    """Failure for what argv() cannot say. The command line is made where it is run, and only there."""
    _refuse(workload)
    _access(workload, size_bytes)
    _target(target)


def _target(target: str) -> str:
    drive = re.fullmatch(r"\\\\[.?]\\PhysicalDrive(\d{1,4})", target, re.IGNORECASE)
    if drive:
        return f"#{drive.group(1)}"
    if re.fullmatch(r"#\d{1,4}|[A-Za-z]:|[A-Za-z]:\\[^<>\"|?*\x00-\x1f]{1,240}", target):
        return target
    raise bad_value(
        "diskspd target",
        target,
        r"Give a drive as #1 or \\.\PhysicalDrive1, a volume as D:, or the absolute path of a file.",
    )


def _access(workload: Workload, size_bytes: int | None) -> list[str]:
    block, alignment, random = workload["block_size_bytes"], workload["alignment_bytes"], workload["random_percent"]
    if random:
        # -rs0 is refused and -rs100 is what -r alone means.
        return [f"-r{alignment}", *([f"-rs{random}"] if random < 100 else []), *_zones(workload)]
    if workload["workers"] == 1:
        return [f"-s{block}"]
    if size_bytes is None:
        raise bad_value("size_bytes", None, "Sequential workers start in a slice each; say how big the target is.")
    size = extent(workload, size_bytes)[1]
    return [f"-s{block}", f"-T{size // workload['workers'] // block * block}"]


def _zones(workload: Workload) -> list[str]:
    if "distribution" not in workload:
        return []
    return [
        "-rdpct"
        + ":".join(f"{zone['access_percent']}/{zone['space_percent']}" for zone in workload["distribution"]["zoned"])
    ]


def _refuse(workload: Workload) -> None:
    for key, value in workload.items():
        if key not in EXPRESSIBLE:
            raise unsupported("diskspd", key, value, "Leave it out, or use another engine.")
    block, workers = workload["block_size_bytes"], workload["workers"]
    # It computes with 32 bits, and cuts off what is less than a byte a millisecond.
    rate = workload.get("rate_iops", 0) // workers * block
    checks = (
        (
            "alignment_bytes",
            workload["random_percent"] < 100 and workload["alignment_bytes"] != block,
            "Its sequential I/O goes on at the next multiple of the alignment, not where the last I/O ended; use the block size, or random I/O only.",
        ),
        ("distribution", isinstance(workload.get("distribution"), str), "It knows zones only; use zoned."),
        ("data", workload.get("data") not in _CONTENTS, "It writes random data, new for each block, or zeros."),
        ("sync", set(workload.get("sync", {})) - {"mode"}, "It can write through (mode), but not flush now and then."),
        ("rate_process", workload.get("rate_process") == "poisson", "It keeps rates evenly; use linear."),
        (
            "think_time_us",
            workload.get("think_time_us", 0) % 1000,
            "It pauses for whole milliseconds; use a multiple of 1000.",
        ),
        (
            "think_time_us",
            "think_time_us" in workload and {"rate_iops", "rate_bytes_s"} & set(workload),
            "It does not pause when it limits a rate; leave one of the two out.",
        ),
        ("rate_iops", workload.get("rate_iops", 0) % workers, "It limits each worker; use a multiple of workers."),
        (
            "rate_iops",
            rate >= 1 << 32 or rate % 1000 * 100 > rate,
            "It limits each worker in whole bytes per millisecond, to less than 4 GiB per second; use another rate or number of workers.",
        ),
        (
            "rate_bytes_s",
            workload.get("rate_bytes_s", 0) % (1000 * workers),
            "It limits each worker in bytes per millisecond; use a multiple of 1000 times workers.",
        ),
    )
    for key, broken, remedy in checks:
        if broken:
            raise unsupported("diskspd", key, dict(workload)[key], remedy)


# ---------------------------------------------------------------- reading

# The document, its time span's profile or None, the time span, {started_utc, finished_utc} as far as known.
Span = tuple[ElementTree.Element, "ElementTree.Element | None", ElementTree.Element, dict[str, str]]


def results(text: str) -> list[Measured]:
    """One result of schema storlab.result/1 for every time span of every XML document in the text, without what only a testbed knows.

    Also: targets (paths), and by_target {path: {read, write}} when there are several.
    Failure 'no_result' when there is none, 'diskspd_output_unreadable' when the XML is damaged.
    """
    return [_result(*span) for span in _spans(text)]


def series(text: str) -> list[Series | None]:
    """One ``{interval_s, columns, rows}`` for every time span, None where -D was not given."""
    return [_series(span) for root, profile, span, _times in _spans(text)]


def _spans(text: str) -> list[Span]:
    """[(root, its time span's profile or None, time span, {started_utc, finished_utc} as far as known)]."""
    if re.search(r"<!(?:DOCTYPE|ENTITY)", text):
        raise _unreadable("it declares entities, which diskspd never does")
    documents = re.findall(r"<Results>.*?</Results>", text, re.DOTALL)
    if not documents:
        remedy = "Run it with -Rxml and keep its standard output whole."
        if re.search(r"^\s*Command Line:|^\s*Input parameters:", text, re.MULTILINE):
            raise Failure(
                "no_result", "This is diskspd's text output, which has fewer figures and rounds them.", remedy
            )
        raise Failure("no_result", "This is not XML output of diskspd: it has no Results.", remedy)
    runs = []
    for document in documents:
        try:
            # Paths come in the code page of the host, so a byte may be no text.
            root = ElementTree.fromstring(_escaped(document).encode("utf-8", "replace"))  # noqa: S314, entities are refused above
        except (ElementTree.ParseError, RecursionError) as error:
            raise _unreadable(f"it is not XML: {error}") from error
        # The profile has time spans of its own.
        profiles = root.findall("Profile/TimeSpans/TimeSpan")
        spans = root.findall("TimeSpan")
        known = profiles if len(profiles) == len(spans) else [None] * len(spans)
        runs += [(root, *row) for row in zip(known, spans, _times(root, list(zip(known, spans))))]
    if not runs:
        raise Failure(
            "no_result",
            "diskspd left a document without any time span: it was given a profile to check, not to run.",
            "Run it without -Rp.",
        )
    return runs


def _escaped(document: str) -> str:
    """diskspd writes names as they are: an unknown power scheme is "<unknown>", and paths may have an ampersand."""
    document = re.sub(r'(<PowerScheme) Name=".*"(?= Guid=)', r"\1", document)
    return re.sub(r"&(?!(?:amp|lt|gt|quot|apos|#\d+);)", "&amp;", document)


def _unreadable(why: str) -> Failure:
    return Failure(
        "diskspd_output_unreadable",
        f"The diskspd output cannot be read: {why}.",
        "Measure again; the file is damaged or not from diskspd.",
    )


def _number(parent: ElementTree.Element, path: str) -> float | None:
    """The number in an element, None when there is none; counts as whole numbers."""
    element = parent.find(path)
    return (
        None
        if element is None or element.text is None or not element.text.strip()
        else _value(path, element.text.strip())
    )


def _value(name: str, text: str) -> float | None:
    if re.fullmatch(r"\d{1,20}", text):
        return int(text)
    if re.fullmatch(r"-?(nan|inf)(\(\w*\))?|-?1\.#\w+", text, re.IGNORECASE):
        return None
    if not re.fullmatch(r"\d{1,20}\.\d{1,9}", text):
        raise _unreadable(f"{name} is {text[:40]!r}")
    return float(text)


def _count(parent: ElementTree.Element, path: str) -> int:
    value = _number(parent, path)
    if not isinstance(value, int) or value >= 1 << 64:
        raise _unreadable(f"{path} is missing or {value!r}, not a count")
    return value


def _result(
    root: ElementTree.Element, profile: ElementTree.Element | None, span: ElementTree.Element, times: dict[str, str]
) -> Measured:
    engine = schema.without_none(
        {
            "name": "diskspd",
            "version": root.findtext("System/Tool/Version"),
            "latency": "total",
            "randseed": None if profile is None else _number(profile, "RandSeed"),
        }
    )
    result: Any = {
        "schema": schema.SCHEMA,
        "engine": engine,
        "host": root.findtext("System/ComputerName") or None,
        **times,
        "flags": [],
        "errors": {"total": 0},
        "cpu": {},
    }
    if span.find("Error") is not None:
        # It has the same words for everything.
        message = "diskspd measured nothing: it was interrupted, or could not open, read or write its target; see its standard error."
        failures = [{"code": "no_result", "message": message}]
        return cast(Measured, {**schema.without_none(result), "status": "failed", "failures": failures})
    runtime = _number(span, "TestTimeSeconds")
    if not runtime:
        raise _unreadable("TestTimeSeconds is missing")
    result["runtime_s"] = runtime
    targets = span.findall("Thread/Target")
    result["targets"] = sorted({target.findtext("Path") or "" for target in targets} - {""})
    parts: dict[Direction, Figures] = {}
    for name in schema.DIRECTIONS:
        title = name.capitalize()
        ios, size = (sum(_count(target, f"{title}{what}") for target in targets) for what in ("Count", "Bytes"))
        if ios:
            parts[name] = schema.direction(ios, size, ios / runtime, size / runtime, _latency(span, title, ios))
    result.update(parts)
    if parts:
        total = schema.merge_directions(list(parts.values()))
        # Merging leaves out percentiles without a distribution; diskspd reports them for everything.
        result["total"] = {
            **total,
            **schema.direction(
                total["ios"],
                total["bytes"],
                total["iops"],
                total["bandwidth_bytes_s"],
                _latency(span, "Total", total["ios"]),
            ),
        }
        result["cpu"] = _cpu(span, runtime, total["ios"])
    if len(result["targets"]) > 1:
        result["by_target"] = {
            path: _of_path([target for target in targets if target.findtext("Path") == path], runtime)
            for path in result["targets"]
        }
    if profile is not None:
        known, flags = _workload(profile)
        result["workload"], result["flags"] = known, flags
    expected = directions(result["workload"]) if result.get("workload") else ()
    result["failures"] = schema.failures(result, 0, expected, result["workload"]["runtime_s"] if expected else None)
    if not parts and not expected:
        result["failures"].append({"code": "no_io", "message": "No I/O was done."})
    result["status"] = "failed" if result["failures"] else "measured"
    return cast(Measured, schema.without_none(result))


def _of_path(targets: list[ElementTree.Element], runtime: float) -> dict[str, Figures]:
    """{read, write} of one target over all threads. diskspd reports its mean latencies, but percentiles of everything only."""
    measured: dict[str, Figures] = {}
    for name in schema.DIRECTIONS:
        title = name.capitalize()
        parts = [
            (
                _count(target, f"{title}Count"),
                _count(target, f"{title}Bytes"),
                _number(target, f"Average{title}LatencyMilliseconds"),
            )
            for target in targets
        ]
        parts = [part for part in parts if part[0]]
        ios, size = sum(count for count, _size, _mean in parts), sum(size for _count, size, _mean in parts)
        if ios:
            sums = [count * mean for count, _size, mean in parts if mean is not None]
            known = len(sums) == len(parts)
            latency: Latency = {"samples": ios, "mean": sum(sums) / ios * _MS} if known else {}
            measured[name] = schema.direction(ios, size, ios / runtime, size / runtime, latency)
    return measured


def _started(root: ElementTree.Element) -> datetime.datetime | None:
    """When diskspd itself began, which it notes before the first time span."""
    match = re.fullmatch(
        r"(\d{4})/(\d\d?)/(\d\d?) (\d\d?):(\d\d):(\d\d) UTC", (root.findtext("System/RunTime") or "").strip()
    )
    if not match:
        return None
    year, month, day, hour, minute, second = map(int, match.groups())
    try:
        return datetime.datetime(year, month, day, hour, minute, second)
    except ValueError as error:
        raise _unreadable(f"RunTime is {root.findtext('System/RunTime')!r}") from error


def _times(
    root: ElementTree.Element, rows: list[tuple[ElementTree.Element | None, ElementTree.Element]]
) -> list[dict[str, str]]:
    """{started_utc, finished_utc} of each time span, as far as known. rows: [(profile or None, time span)].

    Time spans run one after another, each with the warm-up and the cool-down of its profile; without one it is unknown when the next began.
    """
    begun, times = _started(root), []
    for profile, span in rows:
        known = {} if begun is None else {"started_utc": f"{begun:{_MOMENT}}"}
        parts = [None if profile is None else _number(profile, name) for name in ("Warmup", "Cooldown")]
        runtime = _number(span, "TestTimeSeconds")
        try:
            ended = None
            if begun is not None and runtime and parts[0] is not None:
                ended = begun + datetime.timedelta(seconds=parts[0] + runtime)
                known["finished_utc"] = f"{ended:{_MOMENT}}"
            begun = None if ended is None or parts[1] is None else ended + datetime.timedelta(seconds=parts[1])
        except OverflowError as error:
            raise _unreadable("its times are longer than a calendar") from error
        times.append(known)
    return times


def _latency(span: ElementTree.Element, title: str, ios: int) -> Latency:
    """For result.direction. Without -L there is no Latency."""
    latency = span.find("Latency")
    if latency is None:
        return {}
    table = {}
    for bucket in latency.findall("Bucket"):
        percent, value = _number(bucket, "Percentile"), _number(bucket, f"{title}Milliseconds")
        if percent is not None and value is not None:
            table[float(percent)] = value * _MS
    deviation = _number(latency, "LatencyStdev" if title == "Total" else f"{title}LatencyStdev")
    mean = _number(latency, f"Average{title}Milliseconds")
    if mean is None:
        return {}
    return {
        "samples": ios,
        "mean": mean * _MS,
        "stddev": None if deviation is None else deviation * _MS,
        "min": table.get(0.0),
        "max": table.get(100.0),
        "percentiles": table,
    }


def _cpu(span: ElementTree.Element, runtime: float, ios: int) -> dict[str, float]:
    """Keys of a result's cpu. diskspd measures the whole host, in the measured time only."""
    busy, cores = _percent(span, "CpuUtilization/Average/UsagePercent"), _number(span, "ProcCount")
    each = [
        value
        for value in (_percent(core, "UsagePercent") for core in span.findall("CpuUtilization/CPU"))
        if value is not None
    ]
    cpu = {"host_busy_percent": busy, "busiest_core_percent": max(each, default=None), "cores": cores}
    if busy is not None and cores:
        busy_s = busy / 100 * cores * runtime
        cpu.update(host_busy_s=busy_s, us_per_io=busy_s * 1e6 / ios)
    return schema.without_none(cpu)


def _percent(parent: ElementTree.Element, path: str) -> float | None:
    """A share of time. The clocks of idle processors disagree a little, so it may be below nothing."""
    text = (parent.findtext(path) or "").strip()
    return 0.0 if re.fullmatch(r"-\d{1,3}\.\d{1,9}", text) else _number(parent, path)


def _workload(profile: ElementTree.Element) -> tuple[Workload | None, list[str]]:
    """(normalised workload, flags) of what was asked for; (None, []) when it is not one workload, or says what a workload has no word for."""
    targets = profile.findall("Targets/Target")
    flags = sorted(
        {
            "repeating_data"
            for target in targets
            if _number(target, "WriteRatio") and target.findtext("WriteBufferContent/Pattern") == "sequential"
        }
    )
    try:
        each = [_of_target(target) for target in targets]
        # -F and -O: all targets share their threads.
        if not each or any(other is None or other != each[0] for other in each) or _number(profile, "ThreadCount"):
            return None, flags
        whole: Any = dict(each[0] or {})
        # Every target has workers of its own.
        for key in ("workers", "rate_iops", "rate_bytes_s"):
            if key in whole:
                whole[key] *= len(each)
        return normalise(
            {**whole, "runtime_s": _number(profile, "Duration"), "ramp_s": _number(profile, "Warmup")}
        ), flags
    except Failure as failure:
        if failure.code != "bad_value":
            raise
        return None, flags


def _of_target(target: ElementTree.Element) -> dict[str, object] | None:
    """The workload of one target, None when a workload has no word for what it does."""

    def yes(name: str) -> bool:
        return target.findtext(name) == "true"

    block, align = _number(target, "BlockSize"), _number(target, "Random")
    offset, end = _number(target, "BaseFileOffset") or 0, _number(target, "MaxFileSize") or 0
    threads, writes = _number(target, "ThreadsPerFile") or 1, _number(target, "WriteRatio") or 0
    ratio = _number(target, "RandomRatio")
    random = (100 if ratio is None else ratio) if align else 0
    odd = ("InterlockedSequential", "ParallelAsyncIO", "MemoryMappedIo", "DisableLocalCache")
    if any(map(yes, odd)) or any(target.find(path) is not None for path in ("Distribution/Absolute", "ThreadTargets")):
        return None
    if random < 100 and (align or _number(target, "StrideSize")) != block:
        return None
    options: dict[str, object] = {
        "block_size": block,
        "read_percent": 100 - writes,
        "random_percent": random,
        "queue_depth": _number(target, "RequestCount") or 1,
        "workers": threads,
        "direct": yes("DisableOSCache"),
        "alignment": align or block,
    }
    if offset or end:
        # -f<end> and -B<base>:<length> both become the offset at which to stop.
        options["range"] = {"offset_bytes": offset, "size_bytes": end - offset if end else None}
    if yes("WriteThrough") and writes:
        options["sync"] = {"mode": "sync"}
    if writes and target.findtext("WriteBufferContent/Pattern") == "zero":
        options["data"] = {"pattern": "zero"}
    limit = target.find("Throughput")
    if limit is None or not _value("Throughput", limit.text or "0"):
        think_ms = _number(target, "ThinkTime")
        if think_ms:
            options.update(
                think_time_us=think_ms * 1000,
                burst=max(1, (_number(target, "BurstSize") or 1) // threads),
            )
    else:
        # It does not pause when it limits a rate.
        rate = (_value("Throughput", limit.text or "0") or 0) * threads
        options.update({"rate_iops": rate} if limit.get("unit") == "IOPS" else {"rate_bytes_s": rate * 1000})
    zones = target.findall("Distribution/Percent/Range")
    if zones:
        options["distribution"] = {
            "zoned": [
                {
                    "access_percent": _value("Range", zone.get("IO", "")),
                    "space_percent": _value("Range", zone.text or ""),
                }
                for zone in zones
            ]
        }
    return options


def _series(span: ElementTree.Element) -> Series | None:
    buckets = span.findall("Iops/Bucket")
    if not buckets:
        return None

    def number(bucket: ElementTree.Element, name: str) -> float:
        return _value(name, bucket.get(name) or "0") or 0

    rows: list[list[Any]] = []
    for bucket in buckets:
        reads, writes = number(bucket, "Read"), number(bucket, "Write")
        busy = reads * number(bucket, "ReadAvgLatencyMilliseconds") + writes * number(
            bucket, "WriteAvgLatencyMilliseconds"
        )
        rows.append(
            [
                number(bucket, "SampleMillisecond") / 1000,
                "measure",
                reads + writes,
                None,
                busy * _MS / (reads + writes) if busy else None,
                None,
            ]
        )
    times = [row[0] for row in rows]
    if not math.isfinite(sum(times)) or times != sorted(set(times)):
        raise _unreadable("its samples are not in the order of time")
    return {
        "interval_s": times[0],
        "columns": ["t_s", "phase", "iops", "bandwidth_bytes_s", "latency_mean_ns", "cpu_busy_percent"],
        "rows": rows,
    }


# ---------------------------------------------------------------- the engine


class Diskspd(ByTime):
    name, job_file, raw_file, begins = "diskspd", "diskspd.txt", "diskspd.xml", "<Results>"
    programs = ("diskspd.exe",)
    seeded = True

    def check(self, point: Point) -> None:
        extent(point["workload"], point["size_bytes"])
        check(point["workload"], point["path"], point["size_bytes"])

    def command(self, points: list[Point], place: Place) -> Start:
        (point,) = points
        workload = point["workload"]
        words = argv(workload, point["path"], point["seed"], point["size_bytes"])
        job = {self.job_file: " ".join(words) + "\n"}
        limit_s = workload["ramp_s"] + workload["runtime_s"] + GRACE_S
        return start(words[1:], job, limit_s, output=self.raw_file)

    def results(self, text: str, servers: Sequence[Server] | None = None) -> list[Measured]:
        """Its measurement; where it could not begin, its exit code and its words say more than its XML.

        That does not say either that it was asked to write random data, as argv always does, so its reader suspects what it was not asked.
        """
        return [
            {**result, "flags": [flag for flag in result["flags"] if flag != "repeating_data"]}
            for result in results(text)
            if "runtime_s" in result
        ]

    def series(self, text: str) -> list[Series | None]:
        return series(text)

    def filled(self, text: str, point: Point) -> tuple[int, float | None]:
        (result,) = results(text)
        return self.written(result, point)

    def installed(self, folder: str, kind: str) -> str:
        return f"{folder}\\amd64\\diskspd.exe" if kind == "zip" else super().installed(folder, kind)
