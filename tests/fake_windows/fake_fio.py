# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio for Windows on the stand-in: takes a job file with one job, and writes the JSON of fio 3.42, figures made up.

What it holds against the collection, as fio's HOWTO and fio itself say it: options that it does not know or have on Windows, ':' in a file name,
missing files, disks that are not to be written, sizes beyond the end, and the warning without threads.
"""

from __future__ import annotations

import re
import time

import fake_figures as figures
from fake_program import Outcome, Started, said
from refused import Refused

KNOWN = {
    "ioengine",
    "thread",
    "group_reporting",
    "randrepeat",
    "randseed",
    "zero_buffers",
    "buffer_pattern",
    "refill_buffers",
    "scramble_buffers",
    "buffer_compress_percentage",
    "buffer_compress_chunk",
    "dedupe_percentage",
    "dedupe_mode",
    "dedupe_global",
    "dedupe_working_set_percentage",
    "lat_percentiles",
    "clat_percentiles",
    "percentile_list",
    "filename",
    "direct",
    "allow_file_create",
    "invalidate",
    "time_based",
    "runtime",
    "ramp_time",
    "loops",
    "io_size",
    "norandommap",
    "rw",
    "rwmixread",
    "percentage_random",
    "blockalign",
    "random_distribution",
    "bs",
    "bsrange",
    "bssplit",
    "iodepth",
    "numjobs",
    "offset",
    "offset_increment",
    "size",
    "thinktime",
    "thinktime_blocks",
    "rate",
    "rate_iops",
    "rate_process",
    "sync",
    "fsync",
    "fdatasync",
    "end_fsync",
    "verify",
    "serialize_overlap",
    "verify_state_save",
    "cpumask",
    "cpus_allowed",
    "cpus_allowed_policy",
    "iodepth_batch",
    "iodepth_batch_submit",
    "iodepth_low",
    "random_generator",
    "rw_sequencer",
    "clocksource",
}
ENGINES = ("windowsaio", "sync", "null")
WARNING = (
    "fio: this platform does not support process shared mutexes, forcing use of threads. "
    "Use the 'thread' option to get rid of this warning.\n"
)
FILL_BYTES_S = 2 << 30
STATISTICS_EVERY_S = 0.5


class _Bad(Exception):
    """What fio says before it ends with exit code 1."""


def run(started: Started) -> Outcome:
    output, files, form, only_read = None, [], "normal", False
    for argument in started.arguments:
        if argument.startswith("--output="):
            output = argument.partition("=")[2]
        elif argument.startswith("--output-format="):
            form = argument.partition("=")[2]
        elif argument == "--readonly":
            only_read = True
        elif argument.startswith("--"):
            return said(f"fio: unrecognized option '{argument}'\n")
        else:
            files.append(argument)
    try:
        if len(files) != 1 or files[0] not in started.files:
            raise _Bad(f"fio: unable to open '{files[0] if files else ''}' job file\n")
        if form not in ("json", "json+") or not output or "\\" in output:
            raise _Bad("the stand-in's fio writes JSON into a file of its folder only\n")
        name, options = _job(started.files[files[0]].decode())
        if only_read and _reads(options) < 100:
            raise _Bad(f"fio: job <{name}> has write bit set, but fio is in read-only mode\n")
        return _measure(started, name, options, form == "json+", output)
    except _Bad as bad:
        return said(str(bad), name=output or "stderr.txt")


def _job(text: str) -> tuple:
    sections: dict = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        if line.startswith((";", "#")):
            continue
        header = re.fullmatch(r"\[(.+)\]", line)
        if header:
            sections[header[1]] = options = {}
            continue
        key, _, value = line.partition("=")
        if not sections or key not in KNOWN:
            raise _Bad(f"Bad option <{line}>\nfio: job {next(reversed(sections), '')} dropped\n")
        options[key] = value
    if len(sections) != 1:
        raise _Bad("the stand-in's fio runs one job\n")
    return next(iter(sections.items()))


def number(text: str) -> int:
    """A size as fio takes it: k, m and g are of 1024."""
    found = re.fullmatch(r"(\d+)([kmg]?)(?:i?b)?", text.lower())
    if not found:
        raise _Bad(f"fio: failed parsing {text}\n")
    return int(found[1]) << (10 * " kmg".index(found[2] or " "))


def _paths(text: str) -> list:
    return [part.replace("\\:", ":") for part in re.split(r"(?<!\\):", text)]


def _measure(started: Started, name: str, options: dict, bins: bool, output: str) -> Outcome:
    engine = options.get("ioengine", "windowsaio")
    if engine not in ENGINES:
        raise _Bad(f"fio: engine {engine} not loadable\nfio: failed to load engine\n")
    reads = _reads(options)
    blocks = _blocks(options)
    size, offset = number(options.get("size", "0")), number(options.get("offset", "0"))
    workers, depth = int(options.get("numjobs", "1")), int(options.get("iodepth", "1"))
    last = offset + size + (workers - 1) * number(options.get("offset_increment", "0"))
    before = "" if "thread" in options else WARNING
    if engine == "sync":
        depth = 1
    places, errors = _places(started, options, engine, reads, last, blocks)
    if errors:
        begins = before + errors
        return _ended(started, 0.0, begins, _document(started, name, options, {}, 0.0, 0.0, bins, 0), output, 1, {})
    ramp, seconds, most = _times(options, blocks, size, reads, workers)
    found = {}
    if seconds:
        key = " ".join([started.host.name, *(f"{key}={value}" for key, value in options.items())])
        found = figures.measured(key, seconds, blocks, reads, depth * workers, most)
    if "time_based" not in options:
        # An amount is an amount, whatever time it takes.
        amount = (
            number(options["io_size"]) * workers
            if "io_size" in options
            else size * int(options.get("loops", "1")) * workers
        )
        ios = max(1, round(amount / blocks["write" if not reads else "read"]))
        found = {
            direction: {
                "ios": ios,
                "bytes": amount,
                "values": figures.latencies(figures.mean(values["values"]), ios, name),
            }
            for direction, values in found.items()
        }
    if started.fault == "pause":
        found = figures.paused(found, seconds, 0.3, depth * workers)
    broken = started.fault == "io_errors"
    text = _document(started, name, options, found, ramp, seconds, bins, 5 if broken else 0)
    if broken:
        before += f"fio: io_u error on file {places[0] if places else ''}: Input/output error: read offset=4096, buflen=4096\n"
    written = {started.host.written_to(place): figures.written(found) for place in places[:1] if figures.written(found)}
    return _ended(started, ramp + seconds, before, text, output, 1 if broken else 0, written)


def _ended(
    started: Started, seconds: float, before: str, text: str, output: str, exit_code: int, written: dict
) -> Outcome:
    return Outcome(seconds, exit_code, [(seconds, output, (before + text).replace("\n", "\r\n").encode())], written)


def _reads(options: dict) -> int:
    kind = options.get("rw", "read")
    if kind.removeprefix("rand") not in ("read", "write", "rw"):
        raise _Bad(f"fio: failed parsing rw={kind}\n")
    return {"read": 100, "write": 0, "rw": int(options.get("rwmixread", "50"))}[kind.removeprefix("rand")]


def _blocks(options: dict) -> dict:
    """{read: mean size, write: mean size}."""
    if "bssplit" in options:
        parts = options["bssplit"].split(",")
        sizes = [
            sum(number(part.partition("/")[0]) * int(part.partition("/")[2]) / 100 for part in side.split(":"))
            for side in parts
        ]
        return {"read": sizes[0], "write": sizes[-1]}
    if "bsrange" in options:
        low, high = map(number, options["bsrange"].split("-"))
        return dict.fromkeys(("read", "write"), (low + high) / 2)
    return dict.fromkeys(("read", "write"), number(options.get("bs", "4k")))


def _places(started: Started, options: dict, engine: str, reads: int, last: int, blocks: dict) -> tuple:
    """(what is read and written, what fio says when that cannot be)."""
    if engine == "null":
        return [], ""
    places = _paths(options.get("filename", ""))
    for place in places:
        drive = re.fullmatch(r"\\\\\.\\PhysicalDrive(\d+)", place)
        try:
            size = (
                started.host.raw_disk(int(drive[1]), reads < 100)["size_bytes"]
                if drive
                else started.host.file_size(place)
            )
        except Refused as refused:
            return [], f"fio: pid=4242, err=13/file:filesetup.c:814, func=open({place}), error={refused}\n"
        if size is None and options.get("allow_file_create", "1") == "0":
            return [], "fio: file creation disallowed by allow_file_create=0\n"
        if size is not None and last > size:
            return [], f"fio: file {place} is of {size} bytes, and {last} are asked for\n"
        if options.get("direct", "0") != "0" and any(block % 512 for block in blocks.values()) and "bs" in options:
            return [], f"fio: pid=4242, err=22/file:io_u.c:1900, func=io_u error, error=Invalid argument {place}\n"
    return places, ""


def _times(options: dict, blocks: dict, size: int, reads: int, workers: int) -> tuple:
    """(ramp, seconds that are measured, most I/Os per second)."""
    mix = (blocks["read"] * reads + blocks["write"] * (100 - reads)) / 100
    most = None
    if "rate_iops" in options:
        most = sum(map(int, filter(None, options["rate_iops"].split(",")))) * workers
    elif "rate" in options:
        most = sum(map(number, filter(None, options["rate"].split(",")))) * workers / mix
    elif "thinktime" in options:
        most = workers * 1e6 / int(options["thinktime"]) * int(options.get("thinktime_blocks", "1"))
    if "time_based" in options:
        return float(options.get("ramp_time", "0")), float(options["runtime"]), most
    amount = (number(options["io_size"]) if "io_size" in options else size * int(options.get("loops", "1"))) * workers
    return 0.0, max(0.001, amount / FILL_BYTES_S), most


# ---------------------------------------------------------------- the document


def edge(value: int) -> int:
    """The bin of fio's histograms that a latency falls into: 64 of the same width for each power of two."""
    shift = max(0, value.bit_length() - 7)
    return value if not shift else (value >> shift << shift) + (1 << (shift - 1))


def binned(values: dict) -> dict:
    total: dict = {}
    for value, count in sorted(values.items()):
        total[edge(value)] = total.get(edge(value), 0) + count
    return total


def _clock(values: dict, percents: list, bins: bool) -> dict:
    if not values:
        return {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}
    found = {
        "min": min(values),
        "max": max(values),
        "mean": figures.mean(values),
        "stddev": figures.deviation(values),
        "N": sum(values.values()),
    }
    if percents:
        counted = binned(values)
        found["percentile"] = {f"{percent:f}": figures.percentile(counted, percent) for percent in percents}
        if bins:
            found["bins"] = {str(key): count for key, count in counted.items()}
    return found


def _direction(found: dict | None, seconds: float, percents: dict, bins: bool) -> dict:
    values = found["values"] if found else {}
    ios, size, ms = (found["ios"], found["bytes"], max(1, round(seconds * 1000))) if found else (0, 0, 0)
    iops, rate = (ios / ms * 1000, size / ms * 1000) if found else (0.0, 0.0)
    submitted = {max(1, value // 50): count for value, count in values.items()}
    completed = {value - value // 50: count for value, count in values.items()}
    samples = int(seconds / STATISTICS_EVERY_S) if found else 0

    def swing(mean: float, names: tuple) -> dict:
        values = (int(mean * 0.94), int(mean * 1.05), mean, mean * 0.03) if samples else (0, 0, 0.0, 0.0)
        return dict(zip(names, values))

    width, counts = (
        swing(rate / 1024, ("bw_min", "bw_max", "bw_mean", "bw_dev")),
        swing(iops, ("iops_min", "iops_max", "iops_mean", "iops_stddev")),
    )
    return {
        "io_bytes": size,
        "io_kbytes": size // 1024,
        "bw_bytes": int(rate),
        "bw": int(rate / 1024),
        "iops": iops,
        "runtime": ms,
        "total_ios": ios,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": _clock(submitted, [], bins),
        "clat_ns": _clock(completed, percents["clat"], bins),
        "lat_ns": _clock(values, percents["lat"], bins),
        "bw_min": width["bw_min"],
        "bw_max": width["bw_max"],
        "bw_agg": 100.0 if samples else 0.0,
        "bw_mean": width["bw_mean"],
        "bw_dev": width["bw_dev"],
        "bw_samples": samples,
        **counts,
        "iops_samples": samples,
    }


def _document(
    started: Started, name: str, options: dict, found: dict, ramp: float, seconds: float, bins: bool, error: int
) -> str:
    now = started.begun + ramp + seconds
    listed = [
        float(part)
        for part in options.get("percentile_list", "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99").split(
            ":"
        )
    ]
    percents = {
        "lat": listed if options.get("lat_percentiles", "0") != "0" else [],
        "clat": listed if options.get("clat_percentiles", "1") != "0" else [],
    }
    values = figures.both(*(one["values"] for one in found.values()))
    depth = int(options.get("iodepth", "1"))
    level = next(
        (text for text, most in (("1", 1), ("2", 3), ("4", 7), ("8", 15), ("16", 31), ("32", 63)) if depth <= most),
        ">=64",
    )
    record = {
        "jobname": name,
        "groupid": 0,
        "job_start": int(started.begun * 1000),
        "error": error,
        "eta": 0,
        "elapsed": int(ramp + seconds) + 1,
        "job options": {"name": name, **options},
        "read": _direction(found.get("read"), seconds, percents, bins),
        "write": _direction(found.get("write"), seconds, percents, bins),
        "trim": _direction(None, 0, {"lat": [], "clat": []}, bins),
        "sync": {"total_ios": 0, "lat_ns": _clock({}, [], bins)},
        "job_runtime": int(seconds * 1000),
        "usr_cpu": 3.0 if found else 0.0,
        "sys_cpu": 9.0 if found else 0.0,
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        "iodepth_level": {
            text: 100.0 if found and text == level else 0.0 for text in ("1", "2", "4", "8", "16", "32", ">=64")
        },
        "iodepth_submit": _batches(found),
        "iodepth_complete": _batches(found),
        "latency_ns": _shares(values, [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000], 0, 1),
        "latency_us": _shares(values, [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000], 1000, 1000),
        "latency_ms": _shares(
            values, [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000], 1000_000, 1000_000, last=">=2000"
        ),
        "latency_depth": depth,
        "latency_target": 0,
        "latency_target_ns": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
        "latency_window_us": 0,
    }
    if error:
        record = {**record, "total_err": 1, "first_error": error}
    document = {
        "fio version": f"{started.version}-stand-in",
        "timestamp": int(now),
        "timestamp_ms": int(now * 1000),
        "time": time.strftime("%a %b %d %H:%M:%S %Y", time.gmtime(now)),
        "jobs": [record],
    }
    return _rendered(document, 0) + "\n"


def _batches(found: dict) -> dict:
    return {text: 100.0 if found and text == "4" else 0.0 for text in ("0", "4", "8", "16", "32", "64", ">=64")}


def _shares(values: dict, edges: list, above_ns: int, unit_ns: int, last: str = "") -> dict:
    """Percent of the I/Os that took so long; keys are upper bounds."""
    total, found, low = max(1, sum(values.values())), {}, above_ns
    for top in edges:
        found[str(top)] = 100.0 * sum(count for value, count in values.items() if low <= value < top * unit_ns) / total
        low = top * unit_ns
    if last:
        found[last] = 100.0 * sum(count for value, count in values.items() if value >= low) / total
    return found


def _rendered(value, depth: int) -> str:
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict):
        return (
            "{\n"
            + ",\n".join(f'{inner}"{key}" : {_rendered(each, depth + 1)}' for key, each in value.items())
            + f"\n{outer}}}"
        )
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + _rendered(each, depth + 1) for each in value) + f"\n{outer}]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{value:f}" if isinstance(value, float) else str(value)
