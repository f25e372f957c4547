# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workload that fio's options describe, as its JSON repeats them: what fio_job writes, read back, and what others wrote.

Names, defaults and units are those of fio's manual. An option that changes what I/O is issued and that a workload has no word for is kept
as it is, under engine_options: two results are of one workload only when they were told the same.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from ..core.failure import Failure
from ..workload.workload import normalise

# Whatever iodepth says, these have one I/O in flight.
SYNCHRONOUS = ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap")
_TIME_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
# What changes the I/O besides what is translated below.
KEPT = (
    "blockalign",
    "bs_unaligned",
    "buffer_compress_percentage",
    "buffer_pattern",
    "dedupe_percentage",
    "io_size",
    "loops",
    "number_ios",
    "percentage_sequential",
    "random_distribution",
    "rate",
    "rate_iops",
    "rate_process",
    "rw_sequencer",
    "sync",
    "thinktime",
    "thinktime_blocks",
    "verify",
    "zero_buffers",
    "zonemode",
    "zoneskip",
    "zonesize",
)
# Said or not, it is the same.
_USUAL = {
    ("loops", "1"),
    ("rate_process", "linear"),
    ("random_distribution", "random"),
    ("zonemode", "none"),
    ("rw_sequencer", "sequential"),
    ("nrfiles", "1"),
}
# What differs from point to point and is no matter of the workload.
_OF_THE_POINT = ("name", "description", "filename", "randseed")


def workload(options: dict[str, str]) -> dict[str, Any] | None:
    """The normalised workload of a job's options {name: text}; None when they do not say plainly what it was.

    The order of the options counts as it does in fio: of two that mean the same the later one wins, and kb_base holds for what follows it.
    """
    if not options:
        return None
    normalised: dict[str, Any] | None = json.loads(
        _as_json(tuple((name, text) for name, text in options.items() if name not in _OF_THE_POINT))
    )
    return normalised


@functools.lru_cache(maxsize=256)
def _as_json(options: tuple[tuple[str, str], ...]) -> str:
    """The workload of (name, text) pairs, as JSON, so that every result gets one of its own.

    Many results are of few workloads, and to understand one takes a fifth of the time that reading its figures does.
    """
    return json.dumps(_understood(dict(options)))


def _understood(options: dict[str, str]) -> dict[str, Any] | None:
    mode = re.fullmatch(r"(rand)?(read|write|rw|readwrite)", options.get("rw") or options.get("readwrite") or "read")
    sizes = _sizes(options)
    numbers = {
        name: _number(options, option, default)
        for name, option, default in (
            ("queue_depth", "iodepth", 1),
            ("workers", "numjobs", 1),
            ("random", "percentage_random", 100),
            ("reads", "rwmixread", 50),
        )
    }
    times = {
        name: _seconds(options.get(option)) for name, option in (("ramp_s", "ramp_time"), ("runtime_s", "runtime"))
    }
    if not mode or sizes is None or None in numbers.values():
        return None
    reads = numbers["reads"]
    if _last(options, "rwmixread", "rwmixwrite") == "rwmixwrite":
        writes = _number(options, "rwmixwrite", 50)
        if writes is None:
            return None
        reads = 100 - writes
    settings = {
        "block_size": sizes,
        "read_percent": {"read": 100, "write": 0}.get(mode.group(2), reads),
        "random_percent": numbers["random"] if mode.group(1) else 0,
        "queue_depth": 1 if options.get("ioengine") in SYNCHRONOUS else numbers["queue_depth"],
        "workers": numbers["workers"],
        "ramp_s": times["ramp_s"] or 0,
        "direct": bool(direct(options)),
        **({"runtime_s": times["runtime_s"]} if times["runtime_s"] else {}),
        **_optional(options, mode.group(2)),
    }
    try:
        return normalise(settings)
    except Failure:
        return None


def direct(options: dict[str, Any]) -> bool | None:
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


def _number(options: dict[str, str], name: str, default: int) -> int | None:
    """A whole number; None when it is something else, such as one for each direction."""
    text = options.get(name, str(default))
    return int(text) if re.fullmatch(r"\d{1,9}", text) else None


def _seconds(text: str | None) -> int | None:
    """Whole seconds of fio's time, which is in seconds unless it says otherwise; None when it is not given or no whole second."""
    match = re.fullmatch(r"(\d{1,9})([smhd]?)", text or "")
    return int(match[1]) * _TIME_S[match[2]] if match else None


def _sizes(options: dict[str, str]) -> Any:
    """block_size as a workload takes it; None when it is not one of sizes, range or whole percents."""
    if "bssplit" in options:
        parts = [_split(part) for part in options["bssplit"].split(",")]
        if None in parts or len(parts) > 2:
            return None
        # The second half is of writes, as in bs.
        return parts[0] if len(parts) == 1 else {"read": parts[0], "write": parts[1]}
    if "bsrange" in options or "blocksize_range" in options:
        bounds = options.get("bsrange") or options["blocksize_range"]
        return bounds if re.fullmatch(r"[0-9a-zA-Z]+-[0-9a-zA-Z]+", bounds) else None
    name = _last(options, "bs", "blocksize")
    names = list(options)
    base = options.get("kb_base", "1024")
    if name and "kb_base" in options and names.index("kb_base") > names.index(name):
        base = "1024"
    sizes = [_size_bytes(size, base) for size in (options[name] if name else "4k").split(",")[:2]]
    if None in sizes:
        return None
    return sizes[0] if len(set(sizes)) == 1 else {"read": sizes[0], "write": sizes[1]}


def _size_bytes(text: str, kb_base: str) -> int | None:
    """Bytes of a size as fio's manual counts them; None when it is none.

    With kb_base=1024, the default, 4k and 4kb are 4096 bytes and 4kib, the wrong way round for the sake of old scripts, is 4000;
    with kb_base=1000 the units are those of SI and IEC.
    """
    match = re.fullmatch(r"(\d{1,12})(?:([kmg])(ib|b)?)?", text.lower())
    if not match or kb_base not in ("1000", "1024"):
        return None
    number, unit, suffix = match.groups()
    binary = (suffix == "ib") == (kb_base == "1000")
    factor: int = (1024 if binary else 1000) ** (" kmg".index(unit) if unit else 0)
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


def _optional(options: dict[str, str], direction: str) -> dict[str, Any]:
    """Keys of a workload that are present only when used; what is not translated is kept as an option of fio."""
    keys: dict[str, Any] = {}
    rest = {
        name: options[name] or "1"
        for name in KEPT
        if options.get(name, "0") != "0" and (name, options[name]) not in _USUAL
    }
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
        keys["engine_options"] = {"fio": rest}
    return keys
