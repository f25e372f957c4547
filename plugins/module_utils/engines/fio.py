# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio: job files out of workloads, results out of its JSON.

The reader takes what fio 2.x and 3.x really leave behind: messages before, between and after the documents, several
documents, control characters inside strings, client/server output, and error exits.
"""

from __future__ import annotations

import json
import math
import re

from .. import result as schema
from ..failure import Failure, bad_value
from ..workload import directions, extent, normalise, parse_size

PERCENTILE_LIST = ":".join(f"{percent:g}" for percent in schema.PERCENTILES)
# The null engine needs a size to choose offsets from; nothing of it is ever stored.
CEILING_BYTES = 1 << 30
FILL_BLOCK_BYTES = 1 << 20
ALL_CLIENTS = "All clients"
# Every broken start is read to where it breaks. A truncated file has a few; this bounds the time on what was never fio's.
MOST_BROKEN = 100

# ---------------------------------------------------------------- job files


def ioengine(path) -> str:
    return "null" if path is None else "libaio"


def job_file(point: dict) -> str:
    """The job file of a point: {point_id, path (None = ceiling), size_bytes, workload (normalised), seed}."""
    workload, path = point["workload"], point["path"]
    offset, size = extent(workload, point["size_bytes"] or CEILING_BYTES)
    options = {**_common(path, workload["direct"], point["seed"]), "time_based": 1, "runtime": workload["runtime_s"], "ramp_time": workload["ramp_s"]}
    # Full coverage is the fill's business. A random map costs memory and processor time that would be charged to the storage.
    options["norandommap"] = 1
    options.update(_access(workload))
    options.update({"bs": workload["block_size_bytes"], "iodepth": workload["queue_depth"], "numjobs": workload["workers"], "offset": offset})
    if workload["random_percent"] < 100 and workload["workers"] > 1:
        # Sequential workers get a slice each: on one range each would read what another has just brought in.
        step = max(workload["block_size_bytes"], workload["alignment_bytes"])
        size = size // workload["workers"] // step * step
        options["offset_increment"] = size
    options["size"] = size
    return _render(point["point_id"], options)


def fill_file(point: dict) -> str:
    """The job file that writes every block of a point's layer once."""
    size = point["size_bytes"]
    block = math.gcd(size, FILL_BLOCK_BYTES)
    options = {**_common(point["path"], point["workload"]["direct"], point["seed"]), "rw": "write", "bs": block, "iodepth": 4, "offset": 0, "size": size}
    # Buffered writes that are still on their way would be charged to the first point.
    options["end_fsync"] = 1
    return _render(f"fill-{point['layer']}", options)


def _common(path, direct: bool, seed: int) -> dict:
    options = {
        "ioengine": ioengine(path),
        # Threads, because fio gives every forked worker a session of its own and a killed fio would leave them behind.
        "thread": 1,
        "group_reporting": 1,
        # Another seed in every repetition, or a cache would be shown the same offsets again; recorded, so that a run can be repeated.
        "randrepeat": 0,
        "randseed": seed,
        "refill_buffers": 1,
        "lat_percentiles": 1,
        "clat_percentiles": 0,
        "percentile_list": PERCENTILE_LIST,
    }
    if path is not None:
        options.update({"filename": escape(path), "direct": int(direct), "allow_file_create": 0})
    return options


def _access(workload: dict) -> dict:
    read, random = workload["read_percent"], workload["random_percent"]
    names = {0: "write", 100: "read"}
    options = {"rw": ("rand" if random else "") + names.get(read, "rw")}
    if read not in names:
        options["rwmixread"] = read
    if random not in (0, 100):
        options["percentage_random"] = random
    if workload["alignment_bytes"] != workload["block_size_bytes"]:
        if random < 100:
            raise Failure("workload_unsupported", f"fio cannot align sequential I/O to {workload['alignment_bytes']} bytes.",
                          "Set alignment to the block size, or random_percent to 100.")
        options["blockalign"] = workload["alignment_bytes"]
    return options


def escape(path: str) -> str:
    """The path as fio's filename option wants it. fio has no way to quote some characters, so those are refused."""
    if not re.fullmatch(r"/[A-Za-z0-9/._:+@=,%-]*", path):
        raise bad_value("layer path", path, "fio cannot be given this path; use one of letters, digits and / . _ : + @ = , % - only.")
    return path.replace(":", "\\:")


def _render(name: str, options: dict) -> str:
    return "\n".join([f"[{name}]", *(f"{key}={value}" for key, value in options.items()), ""])


# ---------------------------------------------------------------- reading documents

# fio writes its version first; other tools that store its output sort the keys.
_START = re.compile(r'\{\s*"(?:fio version|client_stats|disk_util|global options|jobs|time|timestamp|timestamp_ms)"')

_ENDED = re.compile(r"^fio: terminating on signal (\d+)", re.MULTILINE)


def parse(text: str) -> list:
    """Every complete fio document in the text, in order. Failure 'no_result' when there is none."""
    decoder, documents, position, broken = json.JSONDecoder(strict=False), [], 0, 0
    while True:
        match = _START.search(text, position)
        if not match:
            break
        try:
            document, position = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            position, broken = match.end(), broken + 1
            if broken > MOST_BROKEN:
                raise Failure("no_result", "fio left no result: its output is damaged in too many places.", "Measure again.") from None
            continue
        if "fio version" in document:
            documents.append(document)
    if not documents:
        raise Failure("no_result", f"fio left no result: {_first_line(text)}", "Look at what fio says; its output must be of --output-format=json or json+.")
    return documents


def _first_line(text: str) -> str:
    if re.match(r"\d+;fio-", text.lstrip()):
        return "this is terse output."
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"it says {lines[0][:200]!r}." if lines else "its output is empty."


def records(document: dict) -> list:
    """The job records of a document. The sum over all clients is left out: it repeats what the others say."""
    rows = document.get("jobs") or document.get("client_stats") or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _unreadable("jobs", rows)
    return [row for row in rows if row.get("jobname") != ALL_CLIENTS]


def version(document: dict) -> tuple:
    match = re.match(r"fio-(\d+)\.(\d+)", str(document["fio version"]))
    if not match:
        raise _unreadable("fio version", document["fio version"])
    return int(match.group(1)), int(match.group(2))


def results(text: str) -> list:
    """One result of schema storlab.result/1 for every job of every run in the text, without the keys that only a testbed knows.

    Documents that --status-interval wrote of one run are cumulative: the last one counts.
    """
    last: list = []
    for document in parse(text):
        if last and _same_run(last[-1], document):
            last[-1] = document
        else:
            last.append(document)
    found = [[_result(record, document) for record in records(document)] for document in last]
    # A run that was ended early has a sound document and error 0; only this line tells.
    ended = _ENDED.search(text)
    for one in found[-1] if ended else ():
        one["failures"].append({"code": "engine_exit", "message": f"fio was ended by signal {ended.group(1)}."})
        one["status"] = "failed"
    return [one for row in found for one in row]


def _same_run(one: dict, other: dict) -> bool:
    def told(document):
        rows = records(document)
        elapsed = max((_number(row, "elapsed") or 0 for row in rows), default=0)
        moved = sum(_number(row.get(name) or {}, "io_bytes") or 0 for row in rows for name in schema.DIRECTIONS)
        return [row.get("jobname") for row in rows], (_number(document, "timestamp") or 0) - elapsed, moved

    (names, start, moved), (other_names, other_start, other_moved) = told(one), told(other)
    # Both are whole seconds, so one start may seem two seconds apart.
    return names == other_names and abs(start - other_start) <= 2 and other_moved >= moved


# ---------------------------------------------------------------- reading one record


def _result(record: dict, document: dict) -> dict:
    release = version(document)
    options = _options(record, document)
    engine = {"name": "fio", "version": ".".join(map(str, release)), "ioengine": options.get("ioengine")}
    found = {"schema": schema.SCHEMA, "engine": schema.without_none(engine), "job_name": record.get("jobname"), "host": record.get("hostname")}
    parts = {}
    for name in (*schema.DIRECTIONS, "trim"):
        part, source = _direction(record.get(name), release, name)
        if part:
            parts[name] = part
            found["engine"].setdefault("latency", source)
    if not parts and record.get("mixed"):
        # unified_rw_reporting=mixed reports nothing else; =both reports it besides the directions, where it would count twice.
        part, source = _direction(record["mixed"], release, "mixed")
        parts = {"total": part} if part else {}
    found.update(parts)
    if parts and "total" not in parts:
        found["total"] = schema.merge_directions(list(parts.values()))
    found["runtime_s"] = max((_number(record.get(name) or {}, "runtime") or 0 for name in (*schema.DIRECTIONS, "trim", "mixed")), default=0) / 1000
    found["cpu"] = schema.without_none({"user_percent": _number(record, "usr_cpu"), "system_percent": _number(record, "sys_cpu")})
    found["errors"] = _errors(record)
    known = _workload(options)
    if known:
        found["workload"] = known
    found["flags"] = _flags(record, options)
    expected = directions(known) if known and list(parts) != ["total"] else ()
    found["failures"] = schema.failures(found, 0, expected, known.get("runtime_s") if known and options.get("time_based", "0") != "0" else None)
    if not parts and not expected:
        found["failures"].append({"code": "no_io", "message": "No I/O was done."})
    found["status"] = "failed" if found["failures"] else "measured"
    return schema.without_none(found)


def _errors(record: dict) -> dict:
    error, total = _number(record, "error") or 0, _number(record, "total_err") or 0
    errors = {"total": int(max(total, 1 if error else 0))}
    if errors["total"]:
        errors["first"] = int(_number(record, "first_error") or error)
    return errors


def _direction(raw, release: tuple, name: str) -> tuple:
    """(direction, what its latency is of), (None, None) when there was no I/O."""
    if raw is None:
        return None, None
    if not isinstance(raw, dict):
        raise _unreadable(name, raw)
    ios = int(_number(raw, "total_ios") or 0)
    if not ios:
        return None, None
    # Before 2.21 io_bytes held KiB.
    size = int((_number(raw, "io_bytes") or 0) * (1 if release >= (2, 21) else 1024))
    bandwidth = _number(raw, "bw_bytes")
    if bandwidth is None:
        bandwidth = (_number(raw, "bw") or 0) * 1024
    latency, bins, source = _latency(raw, release)
    return schema.direction(ios, size, _number(raw, "iops") or 0, bandwidth, latency, bins), source


def _latency(raw: dict, release: tuple) -> tuple:
    """(latency for result.direction, bins, 'total' or 'completion').

    Total latency where its distribution was recorded, else completion latency where that was, else the total's mean:
    mean and percentiles must be of the same thing.
    """
    scale = 1 if release >= (3, 0) else 1000
    suffix = "_ns" if release >= (3, 0) else ""
    choices = [(kind, raw[f"{kind}{suffix}"]) for kind in ("lat", "clat") if isinstance(raw.get(f"{kind}{suffix}"), dict)]
    if not choices:
        return {}, None, None
    kind, chosen = next(((kind, values) for kind, values in choices if values.get("bins") or _percentiles(values, scale)), choices[0])
    values = {key: _scaled(_number(chosen, key), scale) for key in ("mean", "min", "max", "stddev")}
    # N came with 3.18; before, a latency that was not recorded is all zero.
    values["samples"] = _number(chosen, "N") if "N" in chosen else chosen.get("max")
    values["percentiles"] = _percentiles(chosen, scale)
    bins = None
    # Before 2.20 the keys are positions in an array whose layout is not told.
    if isinstance(chosen.get("bins"), dict) and release >= (2, 20):
        bins = {str(int(_key(key)) * scale): int(_number(chosen["bins"], key) or 0) for key in chosen["bins"]}
    return values, bins, "total" if kind == "lat" else "completion"


def _percentiles(values: dict, scale: int) -> dict:
    told = values.get("percentile")
    if not isinstance(told, dict):
        return {}
    return {_key(key): _scaled(_number(told, key), scale) for key in told}


def _key(text: str) -> float:
    """The number that a key of a mapping is."""
    if not re.fullmatch(r"\d{1,19}(\.\d{1,12})?", text):
        raise _unreadable("a key of bins or percentile", text)
    return float(text) if "." in text else int(text)


def _scaled(value, scale: int):
    return value if value is None or scale == 1 else value * scale


def _options(record: dict, document: dict) -> dict:
    shared = document.get("global options")
    # With two or more servers the global options are a list, one a server.
    if isinstance(shared, list):
        shared = next((row for row in shared if isinstance(row, dict) and row.get("hostname") == record.get("hostname")), {})
    own = record.get("job options")
    return {**(shared if isinstance(shared, dict) else {}), **(own if isinstance(own, dict) else {})}


def _workload(options: dict) -> dict | None:
    """The workload as far as the job's options say it plainly; None when they do not."""
    mode = re.fullmatch(r"(rand)?(read|write|rw)", str(options.get("rw") or options.get("readwrite") or ""))
    block = options.get("bs") or options.get("blocksize")
    if not mode or not block or not re.fullmatch(r"\d+[kmKM]?", str(block)):
        return None
    reads = {"read": 100, "write": 0}.get(mode.group(2), options.get("rwmixread", 50))
    try:
        return normalise(schema.without_none({
            "block_size": block,
            "read_percent": reads,
            "random_percent": options.get("percentage_random", 100) if mode.group(1) else 0,
            "queue_depth": options.get("iodepth", 1),
            "workers": options.get("numjobs", 1),
            "ramp_s": _seconds(options.get("ramp_time", 0)),
            "runtime_s": _seconds(options.get("runtime")),
            "alignment": _size(options.get("blockalign")),
            "direct": str(options.get("direct", "0")) not in ("0", ""),
        }))
    except Failure:
        return None


def _size(value):
    return None if value is None else parse_size(value)


def _seconds(value):
    return None if value is None else re.sub(r"s$", "", str(value))


def _flags(record: dict, options: dict) -> list:
    flags = []
    if options.get("ioengine") == "null":
        return flags
    if options.get("direct", "1") == "0":
        flags.append("buffered_io")
    if str(options.get("iodepth", "1")) != "1" and any(_submits_slowly(record.get(name)) for name in schema.DIRECTIONS):
        flags.append("synchronous_submission")
    return flags


def _submits_slowly(raw) -> bool:
    if not isinstance(raw, dict) or not raw.get("total_ios"):
        return False
    submission, completion = (_number(raw.get(name) or {}, "mean") or 0 for name in ("slat_ns", "clat_ns"))
    return submission > completion


def _number(mapping: dict, key: str):
    """The number under the key, None when there is none. NaN and infinity are what fio writes for 'not measured'.

    Everything read here is a count, a time or a rate, so what is negative or beyond 64 bits is damage.
    """
    if not isinstance(mapping, dict):
        raise _unreadable(key, mapping)
    value = mapping.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _unreadable(key, value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if not 0 <= value < 1 << 64:
        raise _unreadable(key, value)
    return value


def _unreadable(where: str, value) -> Failure:
    return Failure("fio_output_unreadable", f"The fio output has {str(value)[:80]!r} as {where!r}.",
                   "Measure again; the file is damaged or not from fio.", key=where)


# ---------------------------------------------------------------- live progress

_ETA = re.compile(rb"\[((?:[rwt]=[\d.]+[kMG]?,?)+) IOPS\]")
_RATE = re.compile(rb"=([\d.]+)([kMG]?)")
_THOUSANDS = {b"": 1, b"k": 1_000, b"M": 1_000_000, b"G": 1_000_000_000}


def live_iops(status: bytes):
    """The I/O rate in fio's last status line, None when it tells none."""
    lines = _ETA.findall(status)
    return sum(float(number) * _THOUSANDS[unit] for number, unit in _RATE.findall(lines[-1])) if lines else None
