# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workload that fio's options describe, as its JSON repeats them: what fio_job writes, read back, and what others wrote.

Names, defaults and units are as in fio's manual. Only the values of options are in the workload: without runtime there is no runtime_s. An option
that a workload has no word for is kept as it is, under engine_options, unless it is known to leave the I/O as it is (HARMLESS): two results are
of one workload only when all other options are the same.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from typing import Any, cast

from ..core.failure import Failure
from ..workload.workload import SECTOR_BYTES, Workload, normalise

# These have, whatever iodepth says, one I/O in flight.
SYNCHRONOUS = ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap")
_US_PER_S = 1_000_000
# In microseconds. Without a unit, runtime and ramp_time are seconds.
_TIME_US = {
    "d": 86400 * _US_PER_S,
    "h": 3600 * _US_PER_S,
    "m": 60 * _US_PER_S,
    "s": _US_PER_S,
    "sec": _US_PER_S,
    "ms": 1000,
    "msec": 1000,
    "us": 1,
    "usec": 1,
}
# Words that are read elsewhere: the keys of a workload, and of place() and result.engine.
_TRANSLATED = (
    "rw",
    "readwrite",
    "rwmixread",
    "rwmixwrite",
    "percentage_random",
    "bs",
    "blocksize",
    "bsrange",
    "blocksize_range",
    "bssplit",
    "kb_base",
    "iodepth",
    "numjobs",
    "ramp_time",
    "runtime",
    "timeout",
    "time_based",
    "direct",
    "buffered",
    "ioengine",
    "fsync",
    "fdatasync",
    "end_fsync",
    "size",
    "filesize",
    "nrfiles",
    "filename",
    "refill_buffers",
    "scramble_buffers",
)
# Options that change neither which I/O is issued nor when: names and places, how files are made before, what is recorded and shown, which of the
# random offsets of one law are drawn, and what starts beside or after the job. An option that is not listed keeps points apart.
HARMLESS = frozenset(
    (
        "name",
        "description",
        "wait_for",
        "stonewall",
        "wait_for_previous",
        "exitall",
        "exitall_on_error",
        "exit_what",
        "continue_on_error",
        "ignore_error",
        "error_dump",
        "new_group",
        "group_reporting",
        "stats",
        "directory",
        "filename_format",
        "unique_filename",
        "allow_file_create",
        "allow_mounted_write",
        "readonly",
        "opendir",
        "create_serialize",
        "create_fsync",
        "create_on_open",
        "create_only",
        "fallocate",
        "unlink",
        "unlink_each_loop",
        "overwrite",
        "randseed",
        "randrepeat",
        "allrandrepeat",
        "norandommap",
        "softrandommap",
        "thread",
        "bwavgtime",
        "iopsavgtime",
        "write_bw_log",
        "write_lat_log",
        "write_iops_log",
        "write_hist_log",
        "log_avg_msec",
        "log_hist_msec",
        "log_hist_coarseness",
        "log_max_value",
        "log_offset",
        "log_prio",
        "log_issue_time",
        "log_entries",
        "log_compression",
        "log_compression_cpus",
        "log_store_compressed",
        "log_unix_epoch",
        "log_alternate_epoch",
        "log_alternate_epoch_clock_id",
        "per_job_logs",
        "block_error_percentiles",
        "lat_percentiles",
        "clat_percentiles",
        "slat_percentiles",
        "percentile_list",
        "significant_figures",
        "disk_util",
        "unit_base",
        "unified_rw_reporting",
        "status_interval",
        "clocksource",
    )
)
# Off unless given, so that 0 says nothing; with these 0 says something.
_ON_BY_DEFAULT = ("invalidate",)
# Said or not, it is the same.
_USUAL = {
    ("loops", "1"),
    ("rate_process", "linear"),
    ("random_distribution", "random"),
    ("zonemode", "none"),
    ("rw_sequencer", "sequential"),
    ("nrfiles", "1"),
    ("invalidate", "1"),
    ("io_submit_mode", "inline"),
    ("file_service_type", "roundrobin"),
}
# The values that engine_options takes as they are; of anything else it holds a digest, which distinguishes two values as well.
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9._:,/%+-]{1,200}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _Unclear(Exception):
    """An option does not say plainly which I/O was issued; the text says which, and why."""


def workload(options: dict[str, str]) -> Workload | None:
    """The normalised workload of a job's options {name: text}; None when they do not say plainly what it was. See reading."""
    return reading(options)[0]


def reading(options: dict[str, str]) -> tuple[Workload | None, str | None]:
    """(the normalised workload of a job's options {name: text}, None), or (None, which option does not say plainly what it was).

    A workload without runtime_s ran until an amount was done, or until it was ended. runtime_s and ramp_s may be fractions of a second.
    The order of the options counts as it does in fio: of two that mean the same the later one wins, and kb_base holds for what follows it.
    """
    if not options:
        return None, "it has no options of the job"
    known, why = json.loads(
        _as_json(tuple((name, text) for name, text in options.items() if name not in HARMLESS and name != "filename"))
    )
    return known, why


@functools.lru_cache(maxsize=256)
def _as_json(options: tuple[tuple[str, str], ...]) -> str:
    """[workload, reason] of (name, text) pairs, as JSON, so that every result gets one of its own.

    Many results are of few workloads, and to understand one takes a fifth of the time that reading its figures does.
    """
    try:
        return json.dumps([_understood(dict(options)), None])
    except _Unclear as unclear:
        return json.dumps([None, str(unclear)])
    except Failure as failure:
        return json.dumps([None, f"its options describe no workload: {failure}"])


def _unclear(name: str, text: str, why: str) -> _Unclear:
    return _Unclear(f"its option {name}={text[:80]} {why}")


def _understood(options: dict[str, str]) -> Workload:
    for name in ("read_iolog", "read_blktrace"):
        if name in options:
            raise _unclear(name, options[name], "replays a trace")
    direction, random = _mode(options)
    reads = _number(options, "rwmixread", 50)
    if _last(options, "rwmixread", "rwmixwrite") == "rwmixwrite":
        reads = 100 - _number(options, "rwmixwrite", 50)
    # timeout is the older name of runtime.
    runtime = _last(options, "runtime", "timeout")
    ramp_s = _seconds(options, "ramp_time") or 0
    runtime_s = _seconds(options, runtime) if runtime else None
    settings = {
        "block_size": _sizes(options),
        "read_percent": {"read": 100, "write": 0}.get(direction, reads),
        "random_percent": _number(options, "percentage_random", 100) if random else 0,
        "queue_depth": 1 if options.get("ioengine") in SYNCHRONOUS else _number(options, "iodepth", 1),
        "workers": _number(options, "numjobs", 1),
        "direct": bool(direct(options)),
        **_range(options),
        **_optional(options, direction),
    }
    # How long it ran is of no account to what a workload is; fio takes fractions of a second, a description whole ones.
    times = {"ramp_s": ramp_s, **({"runtime_s": runtime_s} if runtime_s else {})}
    described = {key: value for key, value in normalise(settings).items() if key not in ("ramp_s", "runtime_s")}
    return cast(Workload, {**described, **times})


def _mode(options: dict[str, str]) -> tuple[str, bool]:
    """(direction: read, write, rw or readwrite; whether offsets are random)."""
    name = _last(options, "rw", "readwrite") or "rw"
    text = options.get(name, "read")
    # The number after a colon is how far each I/O moves on; _rest keeps it.
    mode = re.fullmatch(r"(rand)?(read|write|rw|readwrite)(:[^:]{1,40})?", text)
    if not mode:
        raise _unclear(name, text, "is neither reading nor writing")
    return mode[2], bool(mode[1])


def _range(options: dict[str, str]) -> dict[str, Any]:
    """range, where the I/O begins elsewhere than at the beginning. How far it goes is the working set, see place."""
    offset = _size_bytes(options.get("offset", "0"), options.get("kb_base", "1024"))
    return {"range": {"offset_bytes": offset}} if offset and offset % SECTOR_BYTES == 0 else {}


def direct(options: dict[str, str]) -> bool | None:
    """Whether the page cache is bypassed; None when the options do not say. direct and buffered are opposites, and the later one wins."""
    name = _last(options, "direct", "buffered")
    return None if name is None else _yes(options, name) == (name == "direct")


def place(options: dict[str, Any]) -> dict[str, Any]:
    """Where a job did its I/O and within how much: {targets: [path], working_set: {size, file_size, files}}, in as far as its options say so.

    Sizes are bytes, or the text of the option where it is none (50%).
    """
    names = re.split(r"(?<!\\):", options.get("filename", ""))
    targets = sorted({name.replace("\\:", ":") for name in names} - {""})
    base = options.get("kb_base", "1024")
    working_set = {
        key: _size_bytes(options[name], base) or options[name]
        for key, name in (("size", "size"), ("file_size", "filesize"), ("files", "nrfiles"))
        if options.get(name) and (name, options[name]) not in _USUAL
    }
    return {key: value for key, value in {"targets": targets, "working_set": working_set}.items() if value}


def _last(options: dict[str, str], *names: str) -> str | None:
    """Which of the names was given last, None when none was."""
    return next((name for name in reversed(options) if name in names), None)


def _yes(options: dict[str, str], name: str) -> bool:
    """A yes-or-no option: given bare it means yes."""
    return options.get(name, "0") != "0"


def _number(options: dict[str, str], name: str, default: int) -> int:
    """A whole number, as fio takes them: 50, 50.0 and 0x32 alike. Not one for each direction."""
    text = options.get(name, str(default))
    match = re.fullmatch(r"(\d{1,9})(?:\.0{1,9})?|0x([0-9a-f]{1,8})", text.lower())
    if not match:
        raise _unclear(name, text, "is not one whole number")
    return int(match[2], 16) if match[2] else int(match[1])


def _seconds(options: dict[str, str], name: str) -> int | float | None:
    """Seconds of fio's time, whole where they are; None when it is not given."""
    if name not in options:
        return None
    match = re.fullmatch(r"(\d{1,15})([a-z]*)", options[name].lower())
    if not match or (match[2] or "s") not in _TIME_US:
        raise _unclear(name, options[name], "is not a time")
    us = int(match[1]) * _TIME_US[match[2] or "s"]
    return us // _US_PER_S if us % _US_PER_S == 0 else us / _US_PER_S


def _sizes(options: dict[str, str]) -> Any:
    """block_size as a workload takes it: sizes, a range, or shares in whole percents."""
    if "bssplit" in options:
        parts = [_split(part) for part in options["bssplit"].split(",")]
        if None in parts or len(parts) > 2:
            raise _unclear("bssplit", options["bssplit"], "does not give sizes with whole percents that add up to 100")
        # The second half is of writes, as in bs.
        return parts[0] if len(parts) == 1 else {"read": parts[0], "write": parts[1]}
    ranged = _last(options, "bsrange", "blocksize_range")
    if ranged:
        if not re.fullmatch(r"[0-9a-zA-Z]+-[0-9a-zA-Z]+", options[ranged]):
            raise _unclear(ranged, options[ranged], "is not one range of sizes")
        return options[ranged]
    name = _last(options, "bs", "blocksize")
    names = list(options)
    base = options.get("kb_base", "1024")
    if name and "kb_base" in options and names.index("kb_base") > names.index(name):
        base = "1024"
    sizes = [_size_bytes(size, base) for size in (options[name] if name else "4k").split(",")[:2]]
    if name and None in sizes:
        raise _unclear(name, options[name], "is not a size")
    return sizes[0] if len(set(sizes)) == 1 else {"read": sizes[0], "write": sizes[1]}


def _size_bytes(text: str, kb_base: str) -> int | None:
    """Bytes of a size as fio's manual counts them; None when it is none.

    With kb_base=1024, the default, 4k and 4kb are 4096 bytes and 4kib, the wrong way round for the sake of old scripts, is 4000;
    with kb_base=1000 the units are as in SI and IEC.
    """
    match = re.fullmatch(r"(?:0x([0-9a-f]{1,12})|(\d{1,12})(?:([kmgtp])(ib|b)?|b)?)", text.lower())
    if not match or kb_base not in ("1000", "1024"):
        return None
    hexadecimal, number, unit, suffix = match.groups()
    if hexadecimal:
        return int(hexadecimal, 16)
    binary = (suffix == "ib") == (kb_base == "1000")
    factor: int = (1024 if binary else 1000) ** (" kmgtp".index(unit) if unit else 0)
    return int(number) * factor


def _split(text: str) -> dict[str, int] | None:
    """{size: percent} of '4k/60:64k/40'; sizes without a share divide what is left."""
    parts = dict(entry.partition("/")[::2] for entry in text.split(":"))
    shares = {size: int(share) for size, share in parts.items() if re.fullmatch(r"\d{1,3}", share)}
    open_sizes = [size for size, share in parts.items() if not share]
    left = 100 - sum(shares.values())
    if len(shares) + len(open_sizes) < text.count(":") + 1 or left < 0 or (open_sizes and left % len(open_sizes)):
        return None
    return {
        size: share
        for size, share in {**shares, **{size: left // len(open_sizes) for size in open_sizes}}.items()
        if share
    }


def _optional(options: dict[str, str], direction: str) -> dict[str, object]:
    """Keys of a workload that are present only when used; what is not translated is kept as an option of fio."""
    keys: dict[str, Any] = {}
    rest = _rest(options)
    writes = direction != "read"
    counts = {
        key: _number(options, option, 0) for key, option in (("fsync_every", "fsync"), ("fdatasync_every", "fdatasync"))
    }
    sync: dict[str, Any] = {key: number for key, number in counts.items() if number}
    if rest.get("sync") in ("1", "sync", "dsync"):
        sync["mode"] = "dsync" if rest.pop("sync") == "dsync" else "sync"
    if _yes(options, "end_fsync"):
        sync["end_fsync"] = True
    if sync and writes:
        keys["sync"] = sync
    if re.fullmatch(r"(zipf|pareto):[0-9.]+", rest.get("random_distribution", "")):
        keys["distribution"] = rest.pop("random_distribution")
    if rest.get("thinktime", "").isdecimal():
        keys.update(think_time_us=int(rest.pop("thinktime")), burst=_number(rest, "thinktime_blocks", 1) or 1)
        rest.pop("thinktime_blocks", None)
    if rest.get("thinktime_blocks_type") == "complete":
        rest.pop("thinktime_blocks_type")
    if rest.get("rate_iops", "").isdecimal() and direction in ("read", "write"):
        # fio limits each job, a workload all of them together.
        keys["rate_iops"] = int(rest.pop("rate_iops")) * (_number(options, "numjobs", 1) or 1)
    if re.fullmatch(r"\d{1,12}[kKmM]?", rest.get("blockalign", "")):
        keys["alignment"] = rest.pop("blockalign")
    if _yes(options, "zero_buffers") and writes:
        rest.pop("zero_buffers")
        keys["data"] = {"pattern": "zero"}
    elif not writes:
        for name in ("zero_buffers", "buffer_pattern", "buffer_compress_percentage", "dedupe_percentage"):
            rest.pop(name, None)
    if rest:
        keys["engine_options"] = {"fio": {name: _plain(value) for name, value in rest.items()}}
    return keys


def _rest(options: dict[str, str]) -> dict[str, str]:
    """{name: value} of the options that no key of a workload stands for and that may change the I/O. A bare option is 1."""
    rest = {
        name: value or "1"
        for name, value in options.items()
        if name not in HARMLESS
        and name not in _TRANSLATED
        and (value != "0" or name in _ON_BY_DEFAULT)
        and (name, value or "1") not in _USUAL
    }
    strange = next((name for name in rest if not _PLAIN_NAME.fullmatch(name)), None)
    if strange is not None:
        raise _unclear(strange[:40], rest[strange], "is not an option of fio")
    if _range(options):
        rest.pop("offset", None)
    mode = options.get(_last(options, "rw", "readwrite") or "rw", "")
    return {**rest, "rw": mode} if ":" in mode else rest


def _plain(value: str) -> str:
    return value if _PLAIN_VALUE.fullmatch(value) else f"sha256:{hashlib.sha256(value.encode()).hexdigest()[:16]}"
