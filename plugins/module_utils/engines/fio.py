# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio: results out of its JSON; job files are made in fio_job.

The reader takes what fio 2.x and 3.x really leave behind: messages before, between and after the documents, several
documents, control characters inside strings, client/server output, and error exits.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import time
from collections.abc import Iterable
from typing import Any

from ..core.failure import Failure
from ..core.times import utc
from ..result import histogram
from ..result import result as schema
from ..workload.workload import Workload, directions
from . import fio_latency, fio_options
from .fio_job import SYNCHRONOUS
from .fio_job import WINDOWS_LOG as WINDOWS_LOG  # both halves of fio are found here
from .fio_job import check as check
from .fio_job import escape as escape
from .fio_job import fill_file as fill_file
from .fio_job import ioengine as ioengine
from .fio_job import job_file as job_file

ALL_CLIENTS = "All clients"
# fio computes its rates from the counts it reports; where they are this far apart the counters ran over (fio issue 672).
RATE_TOLERANCE = 0.05
# Lines before a document that may begin one. More of them are not a file of results.
MOST_WRAPPERS = 64
# No clock of a file that is read shows more: seconds since 1970 in 32 bits.
LAST_MOMENT_S = 1 << 32
# Options with which fio may end a job before its runtime.
ENDS_EARLY = {"steadystate", "ss", "latency_target"}

# ---------------------------------------------------------------- reading documents

# fio writes its version first; other tools that store its output sort the keys.
_START = re.compile(r'\{\s*"(?:fio version|client_stats|disk_util|global options|jobs|time|timestamp|timestamp_ms)"')
# A wrapper may put keys of its own first. Documents begin a line, what is nested in them is indented.
_MAY_START = re.compile(r'^\{\s*"', re.MULTILINE)
_VERSION_KEY = re.compile(r'"fio version"\s*:')

_ENDED = re.compile(r"^fio: terminating on signal (\d+)", re.MULTILINE)
_TERSE = re.compile(r"^\d;(?:[^;\n]*;){20}", re.MULTILINE)
_HUMAN = re.compile(r"^\S[^\n]{0,200}: (?:\(groupid=\d+, jobs=\d+\): err=|\(g=\d+\): rw=)", re.MULTILINE)
_REFUSED = re.compile(r"^<([^<>\s]{1,255})> (?:fio: )?error: ([^\n]{1,400})", re.MULTILINE)
_SERVER_STARTED = re.compile(r"^<[^<>\s]{1,255}> Starting \d+ (?:process|thread)", re.MULTILINE)
_BROKE_OFF = re.compile(r"^(?:client: host=(\S+) disconnected|fio: client (\S+) timed out)", re.MULTILINE)
_NOT_CONNECTED = re.compile(r"^fio: failed to connect to (\S+?):(\d+)$", re.MULTILINE)
# What C prints for a number that is none; JSON has no word for it.
_NOT_A_NUMBER = re.compile(r"-?(?:nan|inf)\b")
_STRING_OR_NOT_A_NUMBER = re.compile(rf'"(?:[^"\\]|\\.)*"|{_NOT_A_NUMBER.pattern}', re.DOTALL)
# Without leading zeros: 5 and 05 would be one bin, and one of their counts lost.
_EDGES = re.compile(r"(?:0|[1-9][0-9]{0,18})(?:,(?:0|[1-9][0-9]{0,18}))*")
# Those that were looked through already.
_SOUND_EDGES: set[str] = set()
# The options as the user wrote them: a later one wins, as it does in fio.
_OPTION_LISTS = ("job options", "global options")
# fio 2.x and 3.0-3.1 fill a percentile list that is shorter than theirs with it, as often as it takes.
_PADDING = "0.00"


def parse(text: str) -> tuple[list[dict[str, Any]], str]:
    """(every fio document in the text, in order, what is said in plain words before, between and after them).

    Failure 'no_result' when there is none, 'fio_output_unreadable' when one breaks off or gives a figure twice: which of two is meant, or what
    the missing part said, no one knows.
    """
    documents: list[dict[str, Any]] = []
    between: list[str] = []
    position = 0
    repeated: dict[int, tuple[str, dict[str, Any]]] = {}

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            key = _first_repeated(key for key, _value in pairs if key != _PADDING)
            if key is not None:
                # With the mapping itself, or its id could become another's.
                repeated[id(values)] = (key, values)
        return values

    decoder = json.JSONDecoder(strict=False, object_pairs_hook=mapping)
    while True:
        match = _START.search(text, position)
        start = _own_keys_first(decoder, text, position, match.start() if match else len(text))
        repeated.clear()
        if start is None:
            if not match:
                break
            start = match.start()
        between.append(text[position:start])
        document, position = _document(decoder, text, start, bool(documents))
        if "fio version" in document:
            where = _repeated(document, repeated) if repeated else None
            if where:
                raise Failure(
                    "fio_output_unreadable",
                    f"The fio output gives {where} twice in the document that begins in line {_line(text, start)}.",
                    "Measure again; the file was put together from several or is damaged.",
                    key=where,
                )
            documents.append(document)
        repeated.clear()
    if not documents:
        raise Failure(
            "no_result",
            f"fio left no result: {_first_line(text)}",
            "Look at what fio says, and run it with --output-format=json+ (or json).",
        )
    return documents, "\n".join([*between, text[position:]])


def _own_keys_first(decoder: json.JSONDecoder, text: str, position: int, limit: int) -> int | None:
    """Where before limit a document of fio begins with other keys than fio's own; None where none does."""
    for match in itertools.islice(_MAY_START.finditer(text, position, limit), MOST_WRAPPERS):
        if not _VERSION_KEY.search(text, match.start()):
            return None
        try:
            document, _end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        if "fio version" in document:
            return match.start()
    return None


def _first_repeated(keys: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


def _document(decoder: json.JSONDecoder, text: str, start: int, others: bool) -> tuple[dict[str, Any], int]:
    """(document, position after it) of the JSON that starts there; others: there are documents before it."""
    try:
        return decoder.raw_decode(text, start)
    except RecursionError:
        why = "is nested too deep"
    except ValueError as error:
        at = getattr(error, "pos", start)
        if _NOT_A_NUMBER.match(text, at):
            return _document(
                decoder, text[:start] + _STRING_OR_NOT_A_NUMBER.sub(_python_nan, text[start:]), start, others
            )
        why = f"breaks off in line {_line(text, at)}"
    raise Failure(
        "fio_output_unreadable" if others else "no_result",
        f"The fio output is damaged: the document that begins in line {_line(text, start)} {why}.",
        "Measure again; fio was interrupted, or the file is not whole.",
        line=_line(text, start),
    )


def _python_nan(match: re.Match[str]) -> str:
    # As long as it was, so that positions stay what they are.
    return match[0] if match[0].startswith('"') else "NaN".rjust(len(match[0]))


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _repeated(document: dict[str, Any], repeated: dict[int, tuple[str, dict[str, Any]]]) -> str | None:
    """The path of a key that a document gives twice, None when only the options of a job do. repeated: {id of a mapping: (its first such key, it)}."""
    todo: list[tuple[str, Any]] = [("", document)]
    while todo:
        where, value = todo.pop()
        if id(value) in repeated:
            return f"{where}{repeated[id(value)][0]}"
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        todo += [
            (f"{where}{key}.", below)
            for key, below in inner
            if isinstance(below, (dict, list)) and key not in _OPTION_LISTS
        ]
    return None


def _first_line(text: str) -> str:
    if _TERSE.search(text):
        return "this is terse output, which has no distribution."
    if _HUMAN.search(text):
        return "this is the output for people, which has no distribution."
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"it says {lines[0][:200]!r}." if lines else "its output is empty."


def records(document: dict[str, Any]) -> list[Any]:
    """The job records of a document. The sum over all clients is left out: it repeats what the others say."""
    rows = document.get("jobs") or document.get("client_stats") or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _unreadable("jobs", rows)
    return [row for row in rows if row.get("jobname") != ALL_CLIENTS]


def version(document: dict[str, Any]) -> tuple[int, int]:
    match = re.match(r"fio-(\d{1,4})\.(\d{1,4})", _text(document, "fio version") or "")
    if not match:
        raise _unreadable("fio version", document["fio version"])
    return int(match.group(1)), int(match.group(2))


def results(text: str) -> list[Any]:
    """One result of schema storlab.result/1 for every job of every run in the text, without the keys that only a testbed knows.

    Also: job_name; targets and working_set, see fio_options.place; run, the number of the run in the text; group,
    fio's number for jobs that it starts together; span_ms [start, end], from fio 3.36
    on; started_utc, finished_utc; host and port in client/server output, where a server that was lost is a failed result with nothing but its name.
    Documents that --status-interval wrote of one run are cumulative: the last one counts.
    """
    last: list[Any] = []
    documents, messages = parse(text)
    for document in documents:
        if last and _same_run(last[-1], document):
            last[-1] = document
        else:
            last.append(document)
    runs = [
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
            "no_result", f"fio left a document without any job: {_first_line(messages)}", "Look at what fio says."
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


def _stamp_s(document: dict[str, Any]) -> float:
    """When fio stamped its document, in seconds since 1970; 0 where it does not say so, or says what no clock can have shown."""
    stamp_s, finer_s = _number(document, "timestamp") or 0, (_number(document, "timestamp_ms") or 0) / 1000
    if int(finer_s) == stamp_s or not stamp_s:
        stamp_s = finer_s
    return stamp_s if 0 < stamp_s < LAST_MOMENT_S else 0


def _finished(document: dict[str, Any]) -> dict[str, str]:
    """finished_utc: fio stamps its document when it writes it, a client when it starts."""
    stamp_s = int(_stamp_s(document))
    if not stamp_s or "client_stats" in document:
        return {}
    return {"finished_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(stamp_s))}


def _starts(document: dict[str, Any], jobs: list[Any]) -> list[str | None]:
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


def _fail(result: dict[str, Any], code: str, message: str) -> None:
    result["failures"].append({"code": code, "message": message})
    result["status"] = "failed"


def _lost(messages: str, document: dict[str, Any], answered: int) -> list[Any]:
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


def _same_run(document: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether the other document is about the same run, some time later."""

    def progress(document: dict[str, Any]) -> tuple[list[str | None], float, float]:
        rows = records(document)
        moved = sum(_number(row.get(name) or {}, "io_bytes") or 0 for row in rows for name in schema.DIRECTIONS)
        return (
            [_text(row, "jobname") for row in rows],
            max((_number(row, "elapsed") or 0 for row in rows), default=0),
            moved,
        )

    (names, elapsed, moved), (other_names, other_elapsed, other_moved) = progress(document), progress(other)
    if names != other_names or other_moved < moved or other_elapsed < elapsed:
        return False
    if "client_stats" in other:
        # There the time stamp is that of the start.
        return bool(_number(document, "timestamp") == _number(other, "timestamp"))
    if "timestamp_ms" in document and "timestamp_ms" in other:
        passed_s = ((_number(other, "timestamp_ms") or 0) - (_number(document, "timestamp_ms") or 0)) / 1000
        # elapsed is cut to whole seconds. In another run, be it one second long, time goes on and elapsed begins again.
        return -1 < passed_s - (other_elapsed - elapsed) < 1
    passed_s = (_number(other, "timestamp") or 0) - (_number(document, "timestamp") or 0)
    return abs(passed_s - (other_elapsed - elapsed)) <= 1


# ---------------------------------------------------------------- many clients


def client_results(text: str, servers: Any = ()) -> tuple[Any, ...]:
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
    groups: dict[str, Any] = {}
    for result in answered:
        address, port = result.get("host"), result.get("port")
        name = names.get((address, port)) or (f"{address}:{port}" if addresses.count(address) > 1 else address)
        groups.setdefault(name, []).append(result)
    clients = [{**together(rows), "host": name} for name, rows in groups.items()] + lost
    attributed = [
        {
            **client,
            "failures": [
                {**failure, "message": f"{client['host']}: {failure['message']}"} for failure in client["failures"]
            ],
        }
        for client in clients
    ]
    # They were started together; their clocks, which span_ms is of, need not agree.
    everybody = {
        key: value for key, value in together(attributed, concurrent=True).items() if key not in ("host", "port")
    }
    return clients, everybody, [result["host"] for result in lost]


def _lost_client(host: str, message: str, engine: dict[str, str], port: int | None = None) -> dict[str, Any]:
    return schema.without_none(
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


def _is_lost(result: dict[str, Any]) -> bool:
    return any(failure["code"] == "client_lost" for failure in result["failures"])


def together(jobs: list[Any], concurrent: bool | None = None) -> dict[str, Any]:
    """Results of several jobs or hosts taken as one: schema of results(), without what cannot be added (the processor time of different hosts).

    concurrent: whether they ran at the same time, so that rates are added; None: as their spans or their groups say.
    """
    if len(jobs) == 1:
        return dict(jobs[0])
    if concurrent is None:
        concurrent = _overlapped(jobs)
    whole = {key: jobs[0][key] for key in ("schema", "engine", "job_name", "host", "port") if key in jobs[0]}
    for name in (*schema.PARTS, "trim"):
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
    return whole


def _overlapped(jobs: list[Any]) -> bool:
    spans = [job.get("span_ms") for job in jobs]
    if all(spans):
        return bool(max(start for start, _end in spans) < min(end for _start, end in spans))
    # Older fio does not say when. Jobs of another group may have waited for the one before (stonewall), which is not among the options that it prints.
    return len({job.get("group") for job in jobs}) == 1


# ---------------------------------------------------------------- reading one record


def _result(record: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    release = version(document)
    options = _options(record, document)
    if options.get("verify", "0") != "0" and options.get("rw") in ("write", "randwrite"):
        # Data that it reads back to compare with what it wrote is not a read of the workload.
        record = {key: value for key, value in record.items() if key != "read"}
    engine = {"name": "fio", "version": ".".join(map(str, release)), "ioengine": options.get("ioengine")}
    result: dict[str, Any] = {
        "schema": schema.SCHEMA,
        "engine": schema.without_none(engine),
        "job_name": _text(record, "jobname"),
        "host": _text(record, "hostname"),
        "port": _number(record, "port"),
        "group": _number(record, "groupid"),
        "span_ms": _span(record),
    }
    parts, total = (
        {},
        _set(options, "lat_percentiles")
        or (_set(options, "clat_percentiles") is False and "lat_percentiles" not in options),
    )
    for name in (*schema.DIRECTIONS, "trim"):
        part, source = _direction(record.get(name), release, name, total)
        if part:
            parts[name] = part
            result["engine"].setdefault("latency", source)
    if not parts and record.get("mixed"):
        # unified_rw_reporting=mixed reports nothing else; =both reports it beside the directions, where it would count twice.
        part, source = _direction(record["mixed"], release, "mixed", total)
        parts = {"total": part} if part else {}
    contents = _contents(options)
    if "write" in parts and contents:
        result["engine"]["contents"] = contents
    result.update(parts)
    if parts and "total" not in parts:
        result["total"] = schema.merge_directions(list(parts.values()))
    flushes = _flushes(record, release, options)
    if flushes:
        result["sync"] = flushes
    result["runtime_s"] = (
        max(
            (_number(record.get(name) or {}, "runtime") or 0 for name in (*schema.DIRECTIONS, "trim", "mixed")),
            default=0,
        )
        / 1000
    )
    result["cpu"] = schema.without_none(
        {"user_percent": _number(record, "usr_cpu"), "system_percent": _number(record, "sys_cpu")}
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
    disagreement = _rates_disagree(record)
    if disagreement:
        _fail(result, "rates_disagree", disagreement)
    for name in (*schema.DIRECTIONS, "trim", "mixed"):
        impossible = fio_latency.impossible(record.get(name) or {}, release)
        if impossible:
            _fail(result, "impossible_figures", f"Of {name}: {impossible}")
    result["status"] = "failed" if result["failures"] else "measured"
    return schema.without_none(result)


def _workload(record: dict[str, Any], options: dict[str, str], release: tuple[Any, ...]) -> tuple[Workload, str | None]:
    """(the workload that the options describe, {} where they do not; then why not)."""
    if not options and release < (2, 3):
        return {}, f"fio {'.'.join(map(str, release))} wrote no options of the job, which fio does from 2.3 on"
    known, why = fio_options.reading(options)
    if known is None:
        return {}, why
    levels = record.get("iodepth_level")
    if "ioengine" not in options and isinstance(levels, dict) and (_number(levels, "1") or 0) >= 100:
        # fio's default engine on Linux waits for each I/O, whatever iodepth asks for.
        known["queue_depth"] = 1
    return known, None


def _contradictions(result: dict[str, Any], known: Workload, options: dict[str, str]) -> list[dict[str, str]]:
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


def _most_ios(result: dict[str, Any], known: Workload, options: dict[str, str]) -> float | None:
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


def _span(record: dict[str, Any]) -> list[Any] | None:
    """[start, end] of a job in ms since 1970, None where fio does not say it (before 3.36)."""
    start = _number(record, "job_start")
    if start is None:
        return None
    return [
        start,
        start
        + max(
            (_number(record.get(name) or {}, "runtime") or 0 for name in (*schema.DIRECTIONS, "trim", "mixed")),
            default=0,
        ),
    ]


def _errors(record: dict[str, Any]) -> dict[str, int]:
    error, total = _number(record, "error") or 0, _number(record, "total_err") or 0
    errors = {"total": int(max(total, 1 if error else 0))}
    if errors["total"]:
        errors["first"] = int(_number(record, "first_error") or error)
    return errors


def _direction(raw: Any, release: tuple[Any, ...], name: str, total: bool) -> tuple[Any, ...]:
    """(direction, what its latency is of), (None, None) when there was no I/O. total: see _latency."""
    if raw is None:
        return None, None
    if not isinstance(raw, dict):
        raise _unreadable(name, raw)
    ios = int(_ios(raw))
    if not ios:
        return None, None
    # Before 2.21 io_bytes held KiB; bw_bytes came with 3.2.
    size = int(_needed(raw, "io_bytes") * (1 if release >= (2, 21) else 1024))
    bandwidth = _number(raw, "bw_bytes")
    if bandwidth is None:
        bandwidth = _needed(raw, "bw") * 1024
    latency, bins, source = _latency(raw, release, total)
    return schema.direction(ios, size, _needed(raw, "iops"), bandwidth, latency, bins), source


def _flushes(record: dict[str, Any], release: tuple[Any, ...], options: dict[str, str]) -> dict[str, Any] | None:
    """The durations of fsync, fdatasync and sync_file_range; None where fio did none, or does not report them truly.

    It reports nothing before 3.4. Until 3.31 it took the time of a flush by an engine that is not synchronous from when that had ended (tens of
    nanoseconds), so there only what synchronous engines did is read.
    """
    raw = record.get("sync")
    if not isinstance(raw, dict) or (release < (3, 31) and options.get("ioengine") not in SYNCHRONOUS):
        return None
    latency, bins, _source = _latency(raw, release, False)
    latencies = raw.get("lat_ns")
    # total_ios counts what submits alone; N came with 3.18.
    count = (_number(latencies, "N") if isinstance(latencies, dict) else None) or sum((bins or {}).values())
    count = int(count or _number(raw, "total_ios") or 0)
    return schema.direction(count, None, None, None, latency, bins) if count and latency.get("samples") else None


def _ios(raw: dict[str, Any]) -> Any:
    """How many I/Os a direction did. Before 2.2 fio gave their rate and its time only."""
    if "total_ios" in raw or not _number(raw, "io_bytes"):
        return _number(raw, "total_ios") or 0
    return round((_number(raw, "iops") or 0) * (_number(raw, "runtime") or 0) / 1000)


def _needed(raw: dict[str, Any], key: str) -> Any:
    """A number that fio gives of every direction with I/O: without it the record is damaged, and 0 would be made up."""
    value = _number(raw, key)
    if value is None:
        raise _unreadable(key, raw.get(key))
    return value


def _rates_disagree(record: dict[str, Any]) -> str | None:
    """The faults in the rates of a record: they must be its counts over its time."""
    for name in (*schema.DIRECTIONS, "trim", "mixed"):
        raw = record.get(name) or {}
        ios, iops, runtime_s = (
            _ios(raw),
            _number(raw, "iops") or 0,
            (_number(raw, "runtime") or 0) / 1000,
        )
        if ios and abs(iops * runtime_s - ios) > RATE_TOLERANCE * ios:
            return f"fio reports {iops:g} {name} I/O per second, but {ios:g} of them in {runtime_s:g} s."
    return None


def _latency(raw: dict[str, Any], release: tuple[int, int], total: bool) -> tuple[Any, ...]:
    """(latency for result.direction, bins, 'total' or 'completion'). total: the job asked for the distribution of total latency.

    Mean, least, most and deviation are of total latency, from submission to completion, wherever fio gives it: only with it does Little's law
    hold. The distribution is of total latency where that was recorded, else of completion latency: which of them is the third part of the answer.
    """
    scale = 1 if release >= (3, 0) else 1000
    suffix = "_ns" if release >= (3, 0) else ""
    choices = [
        (kind, raw[f"{kind}{suffix}"]) for kind in ("lat", "clat") if isinstance(raw.get(f"{kind}{suffix}"), dict)
    ]
    if not choices:
        return {}, None, None
    if total and release < (3, 13) and len(choices) == 2:
        # There the distribution of total latency stands under clat, all of it or without the bins.
        (_lat, whole), (_clat, completion) = choices
        choices = [("lat", {**{key: completion[key] for key in ("percentile", "bins") if key in completion}, **whole})]
    figures = next((values for _kind, values in choices if _samples(values)), choices[0][1])
    latency = {key: _scaled(_number(figures, key), scale) for key in ("mean", "min", "max", "stddev")}
    latency["samples"] = _samples(figures)
    kind, distribution = next(
        ((kind, values) for kind, values in choices if values.get("bins") or _percentiles(values, scale)), choices[0]
    )
    # Before 2.20 the keys of bins are positions in an array whose layout is not given.
    readable = isinstance(distribution.get("bins"), dict) and release >= (2, 20)
    bins = _bins(distribution["bins"], scale) if readable else None
    latency["percentiles"] = {} if bins else _percentiles(distribution, scale)
    return latency, bins, "total" if kind == "lat" else "completion"


def _samples(values: dict[str, Any]) -> Any:
    """How many latencies were recorded. N came with 3.18; before, a latency that was not recorded is all zero."""
    return _number(values, "N") if "N" in values else _number(values, "max")


def _percentiles(values: dict[str, Any], scale: int) -> dict[float, Any]:
    by_percent = values.get("percentile")
    if not isinstance(by_percent, dict):
        return {}
    return {_key(key): _scaled(_number(by_percent, key), scale) for key in by_percent}


def _key(text: str) -> float:
    """The percent that a key of a percentile mapping is."""
    if not re.fullmatch(r"\d{1,3}(\.\d{1,12})?", text):
        raise _unreadable("a key of percentile", text)
    return float(text)


def _bins(raw: dict[str, int], scale: int) -> dict[str, Any]:
    """{"<ns>": count}, checked as a whole: there are a thousand in a document."""
    if not _SOUND_EDGES.issuperset(raw):
        edges = ",".join(raw)
        if not (_EDGES.fullmatch(edges) and edges.count(",") == len(raw) - 1):
            raise _unreadable("a key of bins", next(key for key in raw if "," in key or not _EDGES.fullmatch(key)))
        if len(_SOUND_EDGES) + len(raw) <= histogram.REMEMBERED:
            _SOUND_EDGES.update(raw)
    counts = raw.values()
    if not set(map(type, counts)) <= {int} or not 0 <= min(counts, default=0) <= max(counts, default=0) < 1 << 64:
        raise _unreadable("bins", raw)
    return raw if scale == 1 else {str(int(key) * scale): raw[key] for key in raw}


def _scaled(value: Any, scale: int) -> Any:
    return value if value is None or scale == 1 else value * scale


def _options(record: dict[str, Any], document: dict[str, Any]) -> dict[str, str]:
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


def _flags(record: dict[str, Any], options: dict[str, str]) -> list[Any]:
    flags: list[Any] = []
    if options.get("ioengine") == "null":
        return flags
    if fio_options.direct(options) is False:
        flags.append("buffered_io")
    if any(_submits_slowly(record.get(name)) for name in schema.DIRECTIONS):
        flags.append("synchronous_submission")
    return flags


def _submits_slowly(raw: Any) -> bool:
    if not isinstance(raw, dict) or not raw.get("total_ios"):
        return False
    submission, completion = (_number(raw.get(name) or {}, "mean") or 0 for name in ("slat_ns", "clat_ns"))
    return submission > completion


def _number(mapping: dict[str, Any], key: str) -> float | None:
    """The number under the key, None when there is none. NaN and infinity are what fio writes for 'not measured'.

    Everything read here is a count, a time or a rate, so what is negative or beyond 64 bits is damage.
    """
    if not isinstance(mapping, dict):
        raise _unreadable(key, mapping)
    value = mapping.get(key)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1 << 64:
        return value
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _unreadable(key, value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    raise _unreadable(key, value)


def _text(mapping: dict[str, Any], key: str) -> str | None:
    value = mapping.get(key)
    if value is not None and not isinstance(value, str):
        raise _unreadable(key, value)
    return value


def _unreadable(where: str, value: Any) -> Failure:
    shown = f"a {type(value).__name__}" if isinstance(value, (dict, list)) else repr(str(value)[:80])
    return Failure(
        "fio_output_unreadable",
        f"The fio output has {shown} as {where!r}.",
        "Measure again; the file is damaged or not from fio.",
        key=where,
    )


# ---------------------------------------------------------------- logs


def log_moments_ms(text: str) -> list[int]:
    """The first column of a log of fio (milliseconds since it began to measure); a line that breaks off is left out."""
    return [int(line.partition(",")[0]) for line in text.splitlines() if _LOG_LINE.match(line)]


_LOG_LINE = re.compile(r"\d{1,12}, *\d")

# ---------------------------------------------------------------- live progress

_ETA = re.compile(rb"\[((?:[rwt]=[\d.]+[kMG]?,?)+) IOPS\]")
_RATE = re.compile(rb"=([\d.]+)([kMG]?)")
_THOUSANDS = {b"": 1, b"k": 1_000, b"M": 1_000_000, b"G": 1_000_000_000}


def live_iops(status: bytes) -> Any:
    """The I/O rate in fio's last status line, None when it has none."""
    lines = _ETA.findall(status)
    return sum(float(number) * _THOUSANDS[unit] for number, unit in _RATE.findall(lines[-1])) if lines else None


_ETA_BYTES = re.compile(rb"\[((?:[rwt]=[\d.]+[KMGT]?i?B/s,?)+)\]")
_RATE_BYTES = re.compile(rb"=([\d.]+)([KMGT]?)(i?)B/s")


def live_bandwidth_bytes_s(status: bytes) -> Any:
    """The bandwidth in fio's last status line, None when it has none."""
    lines = _ETA_BYTES.findall(status)
    if not lines:
        return None
    return sum(
        float(number) * (1024 if binary else 1000) ** b" KMGT".index(unit or b" ")
        for number, unit, binary in _RATE_BYTES.findall(lines[-1])
    )
