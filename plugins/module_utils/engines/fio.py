# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio: results out of its JSON; job files are made in fio_job.

The reader takes what fio 2.x and 3.x really leave behind: messages before, between and after the documents, several
documents, control characters inside strings, client/server output, and error exits.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any, Literal, cast

from ..core.failure import Failure, Fault
from ..core.times import utc
from ..result import result as schema
from ..result.schema import Measured, Part
from ..workload.point import Server
from ..workload.workload import Workload, directions
from . import fio_latency, fio_options
from .fio_documents import first_line, parse
from .fio_figures import RATE_TOLERANCE, direction_of, flushes_of, number_at, rates_disagree, text_at, unreadable
from .fio_figures import log_rates as log_rates
from .fio_job import WINDOWS_LOG as WINDOWS_LOG  # both halves of fio are found here
from .fio_job import check as check
from .fio_job import escape as escape
from .fio_job import fill_file as fill_file
from .fio_job import ioengine as ioengine
from .fio_job import job_file as job_file

ALL_CLIENTS = "All clients"
TIMED: tuple[Part | Literal["trim"], ...] = (*schema.PARTS, "trim")
# No clock of a file that is read shows more: seconds since 1970 in 32 bits.
LAST_MOMENT_S = 1 << 32
# Options with which fio may end a job before its runtime.
ENDS_EARLY = {"steadystate", "ss", "latency_target"}

# ---------------------------------------------------------------- reading documents


_ENDED = re.compile(r"^fio: terminating on signal (\d+)", re.MULTILINE)
_REFUSED = re.compile(r"^<([^<>\s]{1,255})> (?:fio: )?error: ([^\n]{1,400})", re.MULTILINE)
_SERVER_STARTED = re.compile(r"^<[^<>\s]{1,255}> Starting \d+ (?:process|thread)", re.MULTILINE)
_BROKE_OFF = re.compile(r"^(?:client: host=(\S+) disconnected|fio: client (\S+) timed out)", re.MULTILINE)
_NOT_CONNECTED = re.compile(r"^fio: failed to connect to (\S+?):(\d+)$", re.MULTILINE)


def records(document: dict[str, object]) -> list[dict[str, object]]:
    """The job records of a document. The sum over all clients is left out: it repeats what the others say."""
    rows = document.get("jobs") or document.get("client_stats") or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise unreadable("jobs", rows)
    return [row for row in rows if row.get("jobname") != ALL_CLIENTS]


def version(document: dict[str, object]) -> tuple[int, int]:
    match = re.match(r"fio-(\d{1,4})\.(\d{1,4})", text_at(document, "fio version") or "")
    if not match:
        raise unreadable("fio version", document["fio version"])
    return int(match.group(1)), int(match.group(2))


def results(text: str) -> list[Measured]:
    """One result of schema storlab.result/1 for every job of every run in the text, without the keys that only a testbed knows.

    Also: job_name; targets and working_set, see fio_options.place; run, the number of the run in the text; group,
    fio's number for jobs that it starts together; span_ms [start, end], from fio 3.36
    on; started_utc, finished_utc; host and port in client/server output, where a server that was lost is a failed result with nothing but its name.
    Documents that --status-interval wrote of one run are cumulative: the last one counts.
    """
    last: list[dict[str, object]] = []
    documents, messages = parse(text)
    for document in documents:
        if last and _same_run(last[-1], document):
            last[-1] = document
        else:
            last.append(document)
    runs: list[list[Any]] = [
        [
            {
                **fio_options.place(_options(record, document)),
                **_result(record, document),
                **_finished(document),
                "run": number,
            }
            for record in records(document)
        ]
        for number, document in enumerate(last)
    ]
    for row, document in zip(runs, last):
        for result, started_utc in zip(row, _starts(document, row)):
            result.update({"started_utc": started_utc} if started_utc else {})
    if not any(runs):
        raise Failure(
            "no_result", f"fio left a document without any job: {first_line(messages)}", "Look at what fio says."
        )
    # A run that was ended early has a sound document and error 0; only this line shows it.
    ended = _ENDED.search(messages)
    if ended:
        for result in runs[-1]:
            _fail(result, "engine_exit", f"fio was ended by signal {ended.group(1)}.")
    everything = [result for row in runs for result in row]
    return everything + _lost(
        messages, last[-1], len({(row.get("host"), row.get("port"), row["run"]) for row in everything})
    )


def _stamp_s(document: dict[str, object]) -> float:
    """When fio stamped its document, in seconds since 1970; 0 where it does not say so, or says what no clock can have shown."""
    stamp_s, finer_s = number_at(document, "timestamp") or 0, (number_at(document, "timestamp_ms") or 0) / 1000
    if int(finer_s) == stamp_s or not stamp_s:
        stamp_s = finer_s
    return stamp_s if 0 < stamp_s < LAST_MOMENT_S else 0


def _finished(document: dict[str, object]) -> dict[str, str]:
    """finished_utc: fio stamps its document when it writes it, a client when it starts."""
    stamp_s = int(_stamp_s(document))
    if not stamp_s or "client_stats" in document:
        return {}
    return {"finished_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(stamp_s))}


def _starts(document: dict[str, object], jobs: list[Measured]) -> list[str | None]:
    """When each job of a document began, None where nothing shows it: as fio reports for each from 3.36 on, else by the document's stamp and the run times.

    Jobs of one group began together, the jobs of the next when they had ended; fio writes its document after the last.
    """
    stamp_s = _stamp_s(document)
    lasted_s: dict[Any, float] = {}
    for job in jobs:
        group = job.get("group") or 0
        lasted_s[group] = max(lasted_s.get(group, 0), job.get("runtime_s", 0))
    starts: list[str | None] = []
    for job in jobs:
        group, span_ms = job.get("group") or 0, job.get("span_ms")
        begun_s: float = 0
        if span_ms:
            begun_s = span_ms[0] / 1000
        elif stamp_s and "client_stats" in document:
            begun_s = stamp_s + sum(seconds for earlier, seconds in lasted_s.items() if earlier < group)
        elif stamp_s and job.get("runtime_s"):
            begun_s = stamp_s - job["runtime_s"] - sum(seconds for later, seconds in lasted_s.items() if later > group)
        # Half a millisecond more, because utc cuts and fractions of seconds are not exact.
        starts.append(utc(begun_s + 0.0005) if 0 < begun_s < LAST_MOMENT_S else None)
    return starts


def _fail(result: Measured, code: str, message: str) -> None:
    result["failures"].append({"code": code, "message": message})
    result["status"] = "failed"


def _lost(messages: str, document: dict[str, object], answered: int) -> list[Measured]:
    """A failed result for every server that left no record, named as fio names it. fio says so in plain words only, and still exits 0.

    answered: how many servers left one. The lines of a server are behind its own name for itself, which need not be the client's name for it.
    """
    engine = {"name": "fio", "version": ".".join(map(str, version(document)))}
    lost = [
        _lost_client(host, "fio could not connect to it.", engine, int(port))
        for host, port in _NOT_CONNECTED.findall(messages)
    ]
    broken = [
        _lost_client(closed or silent, "The connection to it broke off.", engine)
        for closed, silent in _BROKE_OFF.findall(messages)
    ]
    refused = [
        _lost_client(server, f"It refused the job: {words.strip()}.", engine)
        for server, words in _REFUSED.findall(messages)
    ]
    started = len(_SERVER_STARTED.findall(messages))
    missing = started - answered - len(broken)
    return [
        *lost,
        *broken,
        *refused,
        *(
            _lost_client("unknown", f"{started} servers started, but one left no result.", engine)
            for _server in range(missing)
        ),
    ]


def _same_run(document: dict[str, object], other: dict[str, object]) -> bool:
    """Whether the other document is about the same run, some time later."""

    def progress(document: dict[str, object]) -> tuple[list[str | None], float, float]:
        rows = records(document)
        moved = sum(number_at(row.get(name) or {}, "io_bytes") or 0 for row in rows for name in schema.DIRECTIONS)
        return (
            [text_at(row, "jobname") for row in rows],
            max((number_at(row, "elapsed") or 0 for row in rows), default=0),
            moved,
        )

    (names, elapsed, moved), (other_names, other_elapsed, other_moved) = progress(document), progress(other)
    if names != other_names or other_moved < moved or other_elapsed < elapsed:
        return False
    if "client_stats" in other:
        # There the time stamp is that of the start.
        return bool(number_at(document, "timestamp") == number_at(other, "timestamp"))
    if "timestamp_ms" in document and "timestamp_ms" in other:
        passed_s = ((number_at(other, "timestamp_ms") or 0) - (number_at(document, "timestamp_ms") or 0)) / 1000
        # elapsed is cut to whole seconds. In another run, be it one second long, time goes on and elapsed begins again.
        return -1 < passed_s - (other_elapsed - elapsed) < 1
    passed_s = (number_at(other, "timestamp") or 0) - (number_at(document, "timestamp") or 0)
    return abs(passed_s - (other_elapsed - elapsed)) <= 1


# ---------------------------------------------------------------- many clients


def client_results(text: str, servers: Sequence[Server] = ()) -> tuple[list[Measured], Measured, list[str]]:
    """(clients, everybody, missing) of a run with --client.

    clients: a result for each server {host, port, status, failures, read, write, total …}, the lost ones included. everybody: all of them taken as one,
    failed when one of them is. missing: names of those that left no result.
    servers: [{host, address, port}] of those that were asked, host being the name to give them. Without it only those are missing that fio names,
    and of several at one address it does not say which.
    """
    everything = results(text)
    answered, lost = (
        [result for result in everything if not _is_lost(result)],
        [result for result in everything if _is_lost(result)],
    )
    names = {(server["address"], int(server["port"])): server["host"] for server in servers}
    places = {(result.get("host"), result.get("port")) for result in answered}
    if servers:
        lost = [
            _lost_client(host, f"{address}, port {port}, left no result.", everything[0]["engine"], port)
            for (address, port), host in names.items()
            if (address, port) not in places
        ]
    addresses = [address for address, _port in places]
    groups: dict[str, list[Measured]] = {}
    for result in answered:
        address, port = result.get("host"), result.get("port")
        place = f"{address}:{port}" if addresses.count(address) > 1 else str(address)
        name = next((own for where, own in names.items() if where == (address, port)), "") or place
        groups.setdefault(name, []).append(result)
    clients = [together(rows) for rows in groups.values()] + lost
    for client, name in zip(clients, groups):
        client["host"] = name
    attributed: list[Measured] = [
        {
            **client,
            "failures": [
                {**failure, "message": f"{client['host']}: {failure['message']}"} for failure in client["failures"]
            ],
        }
        for client in clients
    ]
    # They were started together; their clocks, which span_ms is of, need not agree.
    everybody = together(attributed, concurrent=True)
    everybody.pop("host", None)
    everybody.pop("port", None)
    return clients, everybody, [result["host"] for result in lost]


def _lost_client(host: str, message: str, engine: dict[str, str], port: int | None = None) -> Measured:
    lost = schema.without_none(
        {
            "schema": schema.SCHEMA,
            "engine": engine,
            "host": host,
            "port": port,
            "cpu": {},
            "errors": {"total": 0},
            "flags": [],
            "status": "failed",
            "failures": [{"code": "client_lost", "message": message}],
        }
    )
    return cast(Measured, lost)


def _is_lost(result: Measured) -> bool:
    return any(failure["code"] == "client_lost" for failure in result["failures"])


def together(jobs: list[Measured], concurrent: bool | None = None) -> Measured:
    """Results of several jobs or hosts taken as one: schema of results(), without what cannot be added (the processor time of different hosts).

    concurrent: whether they ran at the same time, so that rates are added; None: as their spans or their groups say.
    """
    if len(jobs) == 1:
        return cast(Measured, dict(jobs[0]))
    if concurrent is None:
        concurrent = _overlapped(jobs)
    whole: Any = {
        key: value for key, value in jobs[0].items() if key in ("schema", "engine", "job_name", "host", "port")
    }
    for name in TIMED:
        parts = [job[name] for job in jobs if name in job]
        if parts:
            whole[name] = schema.merge_directions(parts, concurrent)
    times = [job["runtime_s"] for job in jobs if "runtime_s" in job]
    if times:
        whole["runtime_s"] = max(times) if concurrent else sum(times)
    whole["cpu"] = {}
    whole["errors"] = schema.without_none(
        {
            "total": sum(job["errors"].get("total", 0) for job in jobs),
            "first": next((job["errors"]["first"] for job in jobs if "first" in job["errors"]), None),
        }
    )
    whole["flags"] = list(dict.fromkeys(flag for job in jobs for flag in job["flags"]))
    whole["failures"] = [failure for job in jobs for failure in job["failures"]]
    whole["status"] = "failed" if whole["failures"] else "measured"
    return cast(Measured, whole)


def _overlapped(jobs: list[Measured]) -> bool:
    spans = [span for job in jobs if (span := job.get("span_ms"))]
    if len(spans) == len(jobs):
        return bool(max(start for start, _end in spans) < min(end for _start, end in spans))
    # Older fio does not say when. Jobs of another group may have waited for the one before (stonewall), which is not among the options that it prints.
    return len({job.get("group") for job in jobs}) == 1


# ---------------------------------------------------------------- reading one record


def _result(record: dict[str, object], document: dict[str, object]) -> dict[str, Any]:
    release = version(document)
    options = _options(record, document)
    if options.get("verify", "0") != "0" and options.get("rw") in ("write", "randwrite"):
        # Data that it reads back to compare with what it wrote is not a read of the workload.
        record = {key: value for key, value in record.items() if key != "read"}
    if options.get("continue_on_error", "none") != "none":
        record = _answered(record)
    engine = {"name": "fio", "version": ".".join(map(str, release)), "ioengine": options.get("ioengine")}
    result: Any = {
        "schema": schema.SCHEMA,
        "engine": schema.without_none(engine),
        "job_name": text_at(record, "jobname"),
        "host": text_at(record, "hostname"),
        "port": number_at(record, "port"),
        "group": number_at(record, "groupid"),
        "span_ms": _span(record),
    }
    parts, total = (
        {},
        _set(options, "lat_percentiles")
        or (_set(options, "clat_percentiles") is False and "lat_percentiles" not in options),
    )
    for name in (*schema.DIRECTIONS, "trim"):
        part, source = direction_of(record.get(name), release, name, total)
        if part:
            parts[name] = part
            result["engine"].setdefault("latency", source)
    if not parts and record.get("mixed"):
        # unified_rw_reporting=mixed reports nothing else; =both reports it beside the directions, where it would count twice.
        part, source = direction_of(record["mixed"], release, "mixed", total)
        parts = {"total": part} if part else {}
    contents = _contents(options)
    if "write" in parts and contents:
        result["engine"]["contents"] = contents
    result.update(parts)
    if parts and "total" not in parts:
        result["total"] = schema.merge_directions(list(parts.values()))
    flushes = flushes_of(record, release, options)
    if flushes:
        result["sync"] = flushes
    result["runtime_s"] = (
        max(
            (number_at(record.get(name) or {}, "runtime") or 0 for name in (*schema.DIRECTIONS, "trim", "mixed")),
            default=0,
        )
        / 1000
    )
    result["cpu"] = schema.without_none(
        {"user_percent": number_at(record, "usr_cpu"), "system_percent": number_at(record, "sys_cpu")}
    )
    result["errors"] = _errors(record)
    known, why = _workload(record, options, release)
    if known:
        result["workload"] = known
    else:
        result["workload_unknown"] = why
    result["flags"] = _flags(record, options)
    if result["engine"].get("latency") == "completion":
        result["flags"].append("completion_percentiles")
    if parts and not flushes and any(options.get(name, "0") != "0" for name in ("fsync", "fdatasync")):
        result["flags"].append("sync_latency_unknown")
    expected = directions(known) if known and list(parts) != ["total"] else ()
    # A run that fio ends by itself when it is steady or has found the depth for a latency ends before its time.
    by_time = known and options.get("time_based", "0") != "0" and not ENDS_EARLY & set(options)
    result["failures"] = schema.failures(result, 0, expected, known.get("runtime_s") if by_time else None)
    if not parts and not expected:
        result["failures"].append({"code": "no_io", "message": "No I/O was done."})
    result["failures"] += _contradictions(result, known, options)
    # For several sections fio then gives one record, with the options of the last.
    if _set(options, "group_reporting"):
        result["grouped"] = True
    disagreement = rates_disagree(record)
    if disagreement:
        _fail(result, "rates_disagree", disagreement)
    for name in (*schema.DIRECTIONS, "trim", "mixed"):
        impossible = fio_latency.impossible(record.get(name) or {}, release)
        if impossible:
            _fail(result, "impossible_figures", f"Of {name}: {impossible}")
    result["status"] = "failed" if result["failures"] else "measured"
    return schema.without_none(result)


def _answered(record: dict[str, object]) -> dict[str, object]:
    """The record of a job that went on over errors without the I/Os that failed: fio counts them as I/Os, but neither their bytes nor their latency."""
    if not _errors(record)["total"]:
        return record
    answered = dict(record)
    for name in (*schema.DIRECTIONS, "trim"):
        part: Any = record.get(name)
        ios = number_at(part, "total_ios") if isinstance(part, dict) else None
        latency: dict[str, object] = next(
            (part[key] for key in ("lat_ns", "clat_ns") if ios and isinstance(part.get(key), dict)), {}
        )
        known = number_at(latency, "N")
        if ios and known is not None and known < ios:
            answered[name] = {**part, "total_ios": known, "iops": (number_at(part, "iops") or 0) * known / ios}
    return answered


def _workload(
    record: dict[str, object], options: dict[str, str], release: tuple[int, ...]
) -> tuple[Workload, str | None]:
    """(the workload that the options describe, {} where they do not; then why not)."""
    if not options and release < (2, 3):
        return {}, f"fio {'.'.join(map(str, release))} wrote no options of the job, which fio does from 2.3 on"
    known, why = fio_options.reading(options)
    if known is None:
        return {}, why
    levels = record.get("iodepth_level")
    if "ioengine" not in options and isinstance(levels, dict) and (number_at(levels, "1") or 0) >= 100:
        # fio's default engine on Linux waits for each I/O, whatever iodepth asks for.
        known["queue_depth"] = 1
    return known, None


def _contradictions(result: Measured, known: Workload, options: dict[str, str]) -> list[Fault]:
    """Failures [{code, message}] for what was done and the options rule out; the usual cause is a record of several sections."""
    if not known:
        return []
    expected, wrong = directions(known), []
    for name in schema.DIRECTIONS:
        ios = result.get(name, {}).get("ios", 0)
        if ios and name not in expected:
            wrong.append(f"{ios:g} {name} I/Os were done, but the options ask for {expected[0]} I/O only")
        most = _most_ios(result, known, options)
        if ios and most is not None and ios > most:
            wrong.append(f"{ios:g} {name} I/Os were done, but the options allow {most:g} in that time")
    return [
        {
            "code": "options_contradicted",
            "message": f"{text}: with group_reporting fio puts several sections into one record and gives the options of the last; "
            "measure without it, or one section at a time.",
        }
        for text in wrong
    ]


def _most_ios(result: Measured, known: Workload, options: dict[str, str]) -> float | None:
    """How many I/Os of a direction the options allow in the time that was measured; None where they set no plain limit.

    What a rate falls behind by in the ramp is made up for later; Poisson arrivals have no limit.
    """
    seconds, workers = result.get("runtime_s", 0) + known["ramp_s"], known["workers"]
    limits = []
    if (
        str(options.get("rate_iops", "")).isdecimal()
        and int(options["rate_iops"])
        and options.get("rate_process", "linear") == "linear"
    ):
        limits.append(int(options["rate_iops"]) * workers * seconds)
    if known.get("think_time_us"):
        limits.append((seconds / (known["think_time_us"] / 1e6) + 1) * known["burst"] * workers)
    return min(limits) * (1 + RATE_TOLERANCE) + known["queue_depth"] * workers if limits else None


def _contents(options: dict[str, str]) -> str | None:
    """How the blocks that a job writes differ from each other, where it says so: recreated, or one scrambled a little each time."""
    if _set(options, "refill_buffers"):
        return "refilled"
    return "scrambled" if _set(options, "scramble_buffers") else None


def _span(record: dict[str, object]) -> list[float] | None:
    """[start, end] of a job in ms since 1970, None where fio does not say it (before 3.36)."""
    start = number_at(record, "job_start")
    if start is None:
        return None
    return [
        start,
        start
        + max(
            (number_at(record.get(name) or {}, "runtime") or 0 for name in (*schema.DIRECTIONS, "trim", "mixed")),
            default=0,
        ),
    ]


def _errors(record: dict[str, object]) -> dict[str, int]:
    error, total = number_at(record, "error") or 0, number_at(record, "total_err") or 0
    errors = {"total": int(max(total, 1 if error else 0))}
    if errors["total"]:
        errors["first"] = int(number_at(record, "first_error") or error)
    return errors


def _options(record: dict[str, object], document: dict[str, object]) -> dict[str, str]:
    shared = document.get("global options")
    # With two or more servers the global options are a list, one a server.
    if isinstance(shared, list):
        place = (record.get("hostname"), record.get("port"))
        shared = next(
            (row for row in shared if isinstance(row, dict) and (row.get("hostname"), row.get("port")) == place), {}
        )
    own = record.get("job options")
    options: dict[str, Any] = {}
    for part in (shared, own):
        for key, value in part.items() if isinstance(part, dict) else ():
            if isinstance(value, str):
                # At its own place: a later option wins over an earlier one of another name, too.
                options.pop(key, None)
                options[key] = value
    return options


def _set(options: dict[str, str], name: str) -> bool | None:
    """A yes-or-no option of a job: given bare it means yes. None when it is not given."""
    return None if name not in options else str(options[name]) != "0"


def _flags(record: dict[str, object], options: dict[str, str]) -> list[str]:
    flags: list[str] = []
    if options.get("ioengine") == "null":
        return flags
    if fio_options.direct(options) is False:
        flags.append("buffered_io")
    if any(_submits_slowly(record.get(name)) for name in schema.DIRECTIONS):
        flags.append("synchronous_submission")
    return flags


def _submits_slowly(raw: object) -> bool:
    if not isinstance(raw, dict) or not raw.get("total_ios"):
        return False
    submission, completion = (number_at(raw.get(name) or {}, "mean") or 0 for name in ("slat_ns", "clat_ns"))
    return submission > completion


# ---------------------------------------------------------------- logs


def log_moments_ms(text: str) -> list[int]:
    """The first column of a log of fio (milliseconds since it began to measure); a line that breaks off is left out."""
    return [int(line.partition(",")[0]) for line in text.splitlines() if _LOG_LINE.match(line)]


_LOG_LINE = re.compile(r"\d{1,12}, *\d")

# ---------------------------------------------------------------- live progress

_ETA = re.compile(rb"\[((?:[rwt]=[\d.]+[kMG]?,?)+) IOPS\]")
_RATE = re.compile(rb"=([\d.]+)([kMG]?)")
_THOUSANDS = {b"": 1, b"k": 1_000, b"M": 1_000_000, b"G": 1_000_000_000}


def live_iops(status: bytes) -> float | None:
    """The I/O rate in fio's last status line, None when it has none."""
    lines = _ETA.findall(status)
    return sum(float(number) * _THOUSANDS[unit] for number, unit in _RATE.findall(lines[-1])) if lines else None


_ETA_BYTES = re.compile(rb"\[((?:[rwt]=[\d.]+[KMGT]?i?B/s,?)+)\]")
_RATE_BYTES = re.compile(rb"=([\d.]+)([KMGT]?)(i?)B/s")


def live_bandwidth_bytes_s(status: bytes) -> float | None:
    """The bandwidth in fio's last status line, None when it has none."""
    lines = _ETA_BYTES.findall(status)
    if not lines:
        return None
    return sum(
        float(number) * float(1024 if binary else 1000) ** b" KMGT".index(unit or b" ")
        for number, unit, binary in _RATE_BYTES.findall(lines[-1])
    )
