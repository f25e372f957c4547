# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads: what I/O is issued, said without the words of any engine. Documented in docs/workloads.md.

The words are a table in words.py. A normalised workload holds one of SIZES, and of OPTIONAL only what is used: a word that is added there
leaves the names and fingerprints of all earlier workloads as they were.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypedDict, cast

from ..core.failure import Failure, bad_value
from .words import OF, WORDS, stored_names

UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
SECTOR_BYTES = 512
SYNC_MODES = ("none", "sync", "dsync")
PATTERNS = ("random", "zero", "repeat")
# Each workload holds these as integers.
NUMBERS = tuple(word for word in WORDS if word.usual is not None)
OPTIONAL = tuple(word.name for word in WORDS if word.optional)
Direction = Literal["read", "write"]
DIRECTIONS: tuple[Direction, ...] = ("read", "write")
SIZES = stored_names(OF["block_size"])
KEYS = tuple(OF)
# A normalised workload is a workload too, so that stored ones can be read back.
NORMALISED = tuple(name for word in WORDS for name in stored_names(word))
# Starting and ending an engine.
OVERHEAD_S = 0.5


class Range(TypedDict):
    """The part of a layer that is used; without a size all behind the offset."""

    offset_bytes: int
    size_bytes: int | None


class BlockRange(TypedDict):
    min_bytes: int
    max_bytes: int


class BlockShare(TypedDict):
    size_bytes: int
    percent: int


class Workload(TypedDict, total=False):
    """A normalised workload: NORMALISED names the same keys. The first group is always there, with one of the sizes."""

    read_percent: int
    random_percent: int
    queue_depth: int
    workers: int
    ramp_s: float
    runtime_s: float
    alignment_bytes: int
    direct: bool
    range: Range
    block_size_bytes: int
    block_sizes: dict[str, list[BlockShare]]
    block_size_range: BlockRange
    distribution: Any  # the words of a distribution, or {zoned: [{access_percent, space_percent}]}
    think_time_us: int
    burst: int
    rate_iops: int
    rate_bytes_s: int
    rate_process: str
    data: dict[str, Any]
    sync: dict[str, Any]
    loops: int
    io_bytes: int
    verify: str
    on_error: str
    engine_options: dict[str, dict[str, Any]]


WHOLE_RANGE: Range = {"offset_bytes": 0, "size_bytes": None}


# ---------------------------------------------------------------- reading what a user wrote


def normalise(workload: Mapping[str, object], variable: str = "workload") -> Workload:
    """The complete workload: numbers as numbers, sizes in bytes, nothing contradictory. Failure 'bad_value' names what is wrong."""
    if not isinstance(workload, dict):
        raise bad_value(variable, workload, "Give a mapping of workload keys.")
    for key in workload:
        if key not in KEYS and key not in NORMALISED:
            raise bad_value(f"{variable}.{key}", workload[key], f"There is no such key; use {', '.join(KEYS)}.")
    direct = _boolean(workload.get("direct", True), f"{variable}.direct")
    # The page cache takes any length; a device does not.
    sector = SECTOR_BYTES if direct else 1
    complete: Any = _block_size(workload, variable, sector)
    optional = {
        key: _optional(key, workload[key], f"{variable}.{key}") for key in OPTIONAL if workload.get(key) is not None
    }
    optional = {key: value for key, value in optional.items() if value is not None}
    amount = "loops" in optional or "io_bytes" in optional
    for word in NUMBERS:
        # A workload that ends after an amount measures it from its first byte on, and needs a limit rather than a duration.
        default = word.of_amount if amount and word.of_amount is not None else word.usual
        given = workload.get(word.name, default)
        complete[word.name] = _integer(given, f"{variable}.{word.name}", word.low, word.high)
    alignment = _either(workload, "alignment", natural_alignment(complete), variable)
    complete["alignment_bytes"] = _size(alignment, f"{variable}.alignment", sector)
    complete["direct"] = direct
    complete["range"] = _range(workload.get("range") or {}, f"{variable}.range")
    if "think_time_us" in optional:
        optional.setdefault("burst", 1)
    complete.update(optional)
    _refuse_contradictions(complete, variable)
    return cast(Workload, complete)


def parse_size(value: object, variable: str = "size") -> int:
    """Bytes of '4k', '1 MiB', 4096 … Units are powers of 1024."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = (
        re.fullmatch(r"\s*(\d{1,15})\s*([kmgt]?)(?:i?b)?\s*", value, re.IGNORECASE) if isinstance(value, str) else None
    )
    if not match:
        raise bad_value(variable, value, "Write a size in bytes or like 4k, 1m or 2g (powers of 1024).")
    return int(match.group(1)) * UNITS[match.group(2).lower()]


def format_size(size_bytes: int) -> str:
    """The shortest exact way to write a size: 4k, 1m, 512b."""
    for unit in ("t", "g", "m", "k"):
        if size_bytes and size_bytes % UNITS[unit] == 0:
            return f"{size_bytes // UNITS[unit]}{unit}"
    return f"{size_bytes}b"


# ---------------------------------------------------------------- what a normalised workload is


def workload_id(workload: Workload) -> str:
    """Short, deterministic, fit for a file name: '4k-r70-rnd100-qd8-w1'. How long it runs is not part of it."""
    # Other people's results may have run for a fraction of a second.
    full = normalise({key: value for key, value in workload.items() if key not in ("ramp_s", "runtime_s")})
    if "block_size_bytes" in full:
        size = format_size(full["block_size_bytes"])
    else:
        size = "_".join(map(format_size, block_bounds(full))) if "block_size_range" in full else "mix"
    short = "-".join(
        (
            size,
            f"r{full['read_percent']}",
            f"rnd{full['random_percent']}",
            f"qd{full['queue_depth']}",
            f"w{full['workers']}",
        )
    )
    usual = {"alignment_bytes": natural_alignment(full), "direct": True, "range": WHOLE_RANGE}
    words = ("block_size_bytes", "block_size_range", *(word.name for word in NUMBERS))
    unusual = {key: value for key, value in full.items() if key not in words and usual.get(key) != value}
    if unusual:
        short += "-" + hashlib.sha256(json.dumps(unusual, sort_keys=True).encode()).hexdigest()[:6]
    return short


def directions(workload: Workload) -> tuple[Direction, ...]:
    """The directions in which a normalised workload issues I/O."""
    share = workload["read_percent"]
    read: tuple[Direction, ...] = ("read",) if share else ()
    write: tuple[Direction, ...] = ("write",) if share < 100 else ()
    return read + write


def block_bounds(workload: Workload) -> tuple[int, int]:
    """(smallest, largest) size of an I/O in bytes."""
    if "block_size_range" in workload:
        return workload["block_size_range"]["min_bytes"], workload["block_size_range"]["max_bytes"]
    sizes = _all_sizes(workload)
    return min(sizes), max(sizes)


def mean_block_bytes(workload: Workload, direction: str) -> float:
    """The mean size of an I/O of one direction. The sizes of a range are multiples of its smallest, all equally likely."""
    if "block_sizes" in workload:
        return float(sum(part["size_bytes"] * part["percent"] for part in workload["block_sizes"][direction]) / 100)
    smallest, largest = block_bounds(workload)
    return float(smallest + largest) / 2


def natural_alignment(workload: Workload) -> int:
    """The alignment that follows from the sizes: what they are all multiples of, so that sequential I/O has it too."""
    return (
        workload["block_size_range"]["min_bytes"] if "block_size_range" in workload else math.gcd(*_all_sizes(workload))
    )


def by_time(workload: Workload) -> bool:
    """Whether it runs for runtime_s. If not it ends after an amount (loops, io_bytes), and runtime_s is the longest it may take."""
    return "loops" not in workload and "io_bytes" not in workload


def expected_s(workload: Workload) -> float:
    """How long a point takes, as far as can be said before; at most, when it ends after an amount."""
    seconds: float = workload["ramp_s"] + workload["runtime_s"] + OVERHEAD_S
    return seconds


def extent(workload: Workload, size_bytes: int, variable: str = "workload") -> tuple[int, int]:
    """(offset, size) in bytes of what a normalised workload uses of a layer of this size."""
    offset = workload["range"]["offset_bytes"]
    size = workload["range"]["size_bytes"] or size_bytes - offset
    if offset + size > size_bytes or size <= 0:
        raise bad_value(
            f"{variable}.range",
            workload["range"],
            f"The layer has {size_bytes} bytes; keep offset_bytes + size_bytes within them.",
        )
    largest = block_bounds(workload)[1]
    if size < largest * workload["workers"]:
        raise bad_value(
            f"{variable}.block_size",
            largest,
            f"{workload['workers']} workers do not find a block each in {size} bytes; use smaller blocks or a bigger layer.",
        )
    return offset, size


def unsupported(engine: str, variable: str, value: object, remedy: str) -> Failure:
    """The failure for what an engine cannot express: it is never left out silently."""
    return Failure(
        "workload_unsupported",
        f"{engine} cannot do {variable} {value!r}.",
        remedy,
        engine=engine,
        variable=variable,
        value=value,
    )


# ---------------------------------------------------------------- words


# ---------------------------------------------------------------- values


def _either(workload: Mapping[str, object], key: str, default: object, variable: str) -> object:
    if workload.get(key) is not None and workload.get(f"{key}_bytes") is not None:
        raise bad_value(f"{variable}.{key}", workload[key], f"Give {key} or {key}_bytes, not both.")
    for name in (key, f"{key}_bytes"):
        if workload.get(name) is not None:
            return workload[name]
    return default


def _block_size(workload: Mapping[str, object], variable: str, sector: int) -> dict[str, object]:
    """One of SIZES with its value."""
    given = [key for key in ("block_size", *SIZES) if workload.get(key) is not None]
    if len(given) > 1:
        raise bad_value(f"{variable}.{given[0]}", workload[given[0]], f"Give {' or '.join(given)}, not both.")
    key = given[0] if given else "block_size"
    value, where = workload.get(key, "4k"), f"{variable}.{key}"
    if key == "block_size_range":
        return _block_size_range(_exactly(value, ("min_bytes", "max_bytes"), where).values(), where, sector)
    if isinstance(value, str) and "-" in value:
        return _block_size_range(value.split("-", 1), where, sector)
    if isinstance(value, dict):
        return _block_sizes(value, where, sector)
    return {"block_size_bytes": _size(value, where, sector)}


def _block_size_range(bounds: Any, variable: str, sector: int) -> dict[str, object]:
    low, high = (_size(bound, variable, sector) for bound in bounds)
    if low > high or high % low:
        raise bad_value(
            variable,
            f"{format_size(low)}-{format_size(high)}",
            "Write the smallest size first, and a largest that is a multiple of it: the sizes between are its multiples.",
        )
    return {"block_size_bytes": low} if low == high else {"block_size_range": {"min_bytes": low, "max_bytes": high}}


def _block_sizes(value: dict[str, Any], variable: str, sector: int) -> dict[str, object]:
    """Of {size: percent}, the same for both directions, or {read: …, write: …} with one size, {size: percent} or the normalised list each."""
    if set(value) & set(DIRECTIONS):
        if set(value) - set(DIRECTIONS):
            raise bad_value(variable, value, "Give sizes, or read and write with sizes each, not both.")
        mixes = {name: _mix(value[name], f"{variable}.{name}", sector) for name in DIRECTIONS if name in value}
    else:
        mixes = {name: _mix(value, variable, sector) for name in DIRECTIONS}
    only = {part["size_bytes"] for parts in mixes.values() for part in parts}
    return {"block_size_bytes": only.pop()} if len(only) == 1 and len(mixes) == 2 else {"block_sizes": mixes}


def _mix(value: Any, variable: str, sector: int) -> list[Any]:
    if isinstance(value, list):
        given = [tuple(_exactly(part, ("size_bytes", "percent"), variable).values()) for part in value]
    else:
        given = list(value.items()) if isinstance(value, dict) else [(value, 100)]
    parts = [
        {"size_bytes": _size(size, variable, sector), "percent": _integer(percent, variable, 1, 100)}
        for size, percent in given
    ]
    if sum(part["percent"] for part in parts) != 100:
        raise bad_value(
            variable, value, "Write each size with its share of the I/Os in percent; the shares must add up to 100."
        )
    if len({part["size_bytes"] for part in parts}) < len(parts):
        raise bad_value(variable, value, "Write each size once.")
    return sorted(parts, key=lambda part: part["size_bytes"])


def _all_sizes(workload: Workload) -> list[int]:
    if "block_sizes" in workload:
        return [part["size_bytes"] for parts in workload["block_sizes"].values() for part in parts]
    return [workload["block_size_bytes"]]


def _size(value: object, variable: str, multiple: int) -> int:
    size = parse_size(value, variable)
    if size <= 0 or size % multiple:
        raise bad_value(variable, value, f"Use a multiple of {multiple} bytes.")
    if size > UNITS["g"]:
        raise bad_value(variable, value, "Use at most 1g.")
    return size


def _integer(value: object, variable: str, low: int, high: int) -> int:
    if isinstance(value, str) and re.fullmatch(r"\d{1,15}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise bad_value(variable, value, f"Use a whole number from {low} to {high}.")
    return value


def _boolean(value: object, variable: str) -> bool:
    if not isinstance(value, bool):
        raise bad_value(variable, value, "Use true or false.")
    return value


def _choice(value: Any, variable: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise bad_value(variable, value, f"Use one of {', '.join(choices)}.")
    return str(value)


def _keys(value: Any, allowed: tuple[str, ...], variable: str) -> dict[str, object]:
    if not isinstance(value, dict) or set(value) - set(allowed):
        raise bad_value(variable, value, f"Give a mapping with {', '.join(allowed[:-1])} and {allowed[-1]}.")
    return value


def _exactly(value: Any, keys: tuple[str, ...], variable: str) -> dict[str, object]:
    _keys(value, keys, variable)
    if set(value) != set(keys):
        raise bad_value(variable, value, f"Give both {keys[0]} and {keys[1]}.")
    return {key: value[key] for key in keys}


def _range(value: Any, variable: str) -> dict[str, object]:
    _keys(value, ("offset_bytes", "size_bytes"), variable)
    offset = parse_size(value.get("offset_bytes") or 0, f"{variable}.offset_bytes")
    size = None if value.get("size_bytes") is None else parse_size(value["size_bytes"], f"{variable}.size_bytes")
    for name, number in (("offset_bytes", offset), ("size_bytes", size)):
        if number is not None and (number < 0 or number % SECTOR_BYTES or (name == "size_bytes" and not number)):
            raise bad_value(f"{variable}.{name}", number, f"Use a multiple of {SECTOR_BYTES} bytes.")
    return {"offset_bytes": offset, "size_bytes": size}


# ---------------------------------------------------------------- what is present only when used


def _optional(key: str, value: object, variable: str) -> object:
    """The normalised value; None when it says no more than leaving the key out would."""
    word = OF[key]
    if word.kind == "integer":
        return _integer(value, variable, word.low, word.high)
    if word.kind == "size":
        size = parse_size(value, variable)
        if not word.low <= size <= word.high:
            raise bad_value(variable, value, f"Use a size from 1 byte to {format_size(word.high)}.")
        return size
    if word.kind == "choice":
        return _choice(value, variable, word.choices)
    return {"distribution": _distribution, "data": _data, "sync": _sync, "engine_options": _engine_options}[key](
        value, variable
    )


def _distribution(value: object, variable: str) -> object:
    if isinstance(value, dict):
        zones = _keys(value, ("zoned",), variable).get("zoned")
        if not isinstance(zones, list) or not zones:
            raise bad_value(variable, value, "Give zoned a list of {access_percent, space_percent}.")
        checked = [
            {
                name: _integer(part, f"{variable}.zoned.{name}", 1, 100)
                for name, part in _exactly(zone, ("access_percent", "space_percent"), f"{variable}.zoned").items()
            }
            for zone in zones
        ]
        for name in ("access_percent", "space_percent"):
            if sum(zone[name] for zone in checked) != 100:
                raise bad_value(f"{variable}.zoned", zones, f"The {name} of all zones must add up to 100.")
        return {"zoned": checked} if len(checked) > 1 else None
    match = re.fullmatch(r"(zipf|pareto):(\d{1,3}(?:\.\d{1,6})?)", value) if isinstance(value, str) else None
    law, number = (match[1], float(match[2])) if match else ("", 0.0)
    # At 1 the series that a Zipf law sums does not converge, and a Pareto law's parameter is a share.
    if not number or number == 1 or (law == "pareto" and number > 1):
        raise bad_value(
            variable,
            value,
            "Use zipf:<more than 0, not 1>, pareto:<between 0 and 1> or {zoned: [{access_percent, space_percent}, …]}; "
            "leave it out for an even distribution.",
        )
    return f"{law}:{number:g}"


def _data(value: Any, variable: str) -> object:
    _keys(value, ("pattern", "hex", "compress_percent", "dedupe_percent", "refill"), variable)
    pattern = _choice(value.get("pattern", "random"), f"{variable}.pattern", PATTERNS)
    data: dict[str, Any] = {"pattern": pattern}
    if (pattern == "repeat") != (value.get("hex") is not None):
        raise bad_value(variable, value, "Give hex, the bytes that are repeated, only with pattern repeat.")
    if pattern == "repeat":
        # YAML makes a number of what is not quoted.
        if not isinstance(value["hex"], str) or not re.fullmatch(r"([0-9a-fA-F]{2}){1,64}", value["hex"]):
            raise bad_value(
                f"{variable}.hex",
                value["hex"],
                "Write 1 to 64 bytes as pairs of hexadecimal digits between quotes, without 0x.",
            )
        data["hex"] = value["hex"].lower()
    for key in ("compress_percent", "dedupe_percent"):
        share = _integer(value.get(key) or 0, f"{variable}.{key}", 0, 100)
        if share and pattern != "random":
            raise bad_value(
                f"{variable}.{key}",
                share,
                f"Data of pattern {pattern} is as compressible as it is; leave {key} out or use pattern random.",
            )
        if share:
            data[key] = share
    if _boolean(value.get("refill", False), f"{variable}.refill"):
        if pattern != "random":
            raise bad_value(
                f"{variable}.refill", True, f"Data of pattern {pattern} is always the same; leave refill out."
            )
        data["refill"] = True
    return None if data == {"pattern": "random"} else data


def _sync(value: Any, variable: str) -> object:
    _keys(value, ("mode", "fsync_every", "fdatasync_every", "end_fsync"), variable)
    sync = {}
    if _choice(value.get("mode", "none"), f"{variable}.mode", SYNC_MODES) != "none":
        sync["mode"] = value["mode"]
    for key in ("fsync_every", "fdatasync_every"):
        if value.get(key) is not None:
            sync[key] = _integer(value[key], f"{variable}.{key}", 1, 1_000_000)
    if _boolean(value.get("end_fsync", False), f"{variable}.end_fsync"):
        sync["end_fsync"] = True
    return sync or None


def _engine_options(value: object, variable: str) -> object:
    by_engine: dict[Any, Any] = {}
    if not isinstance(value, dict) or not all(re.fullmatch(r"[a-z][a-z0-9_]{0,30}", str(engine)) for engine in value):
        raise bad_value(variable, value, "Give a mapping of an engine's name to a mapping of its options.")
    # Which engines there are is known where they are: engines/catalogue.py refuses options of others.
    for engine, options in value.items():
        if not isinstance(options, dict):
            raise bad_value(f"{variable}.{engine}", options, "Give a mapping of the engine's options.")
        for name, option in options.items():
            where = f"{variable}.{engine}.{name}"
            text = str(int(option)) if isinstance(option, bool) else str(option)
            if (
                not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", str(name))
                or isinstance(option, (dict, list))
                or option is None
            ):
                raise bad_value(where, option, "Give one value to an option of the engine.")
            # No blank, quote, dollar or line end: engines expand variables, run commands and begin new options at them.
            if not re.fullmatch(r"[A-Za-z0-9._:,/%+-]{1,200}", text):
                raise bad_value(where, option, "Use letters, digits and . _ : , / % + - only.")
            by_engine.setdefault(engine, {})[str(name)] = text
    return {engine: dict(sorted(by_engine[engine].items())) for engine in sorted(by_engine)} or None


def _refuse_contradictions(workload: Workload, variable: str) -> None:
    for broken, key, remedy in _contradictions(workload):
        if broken:
            raise bad_value(f"{variable}.{key}", workload.get(key), remedy)


def _contradictions(workload: Workload) -> Iterator[tuple[bool, str, str]]:
    """(whether it is one, key, remedy) of everything that two keys can say against each other."""
    has = workload.__contains__
    missing = [name for name in directions(workload) if name not in workload.get("block_sizes", DIRECTIONS)]
    yield (
        bool(missing),
        "block_sizes",
        f"The workload has a {' and a '.join(missing)} share; give sizes for it, or set read_percent.",
    )
    yield (
        has("burst") and not has("think_time_us"),
        "burst",
        "It is the number of I/Os between two pauses; give think_time_us too, or leave it out.",
    )
    yield has("rate_iops") and has("rate_bytes_s"), "rate_bytes_s", "Give rate_iops or rate_bytes_s, not both."
    limited = has("rate_iops") or has("rate_bytes_s")
    yield (
        has("rate_process") and not limited,
        "rate_process",
        "It says how a rate is kept; give rate_iops or rate_bytes_s too, or leave it out.",
    )
    yield (
        has("distribution") and not workload["random_percent"],
        "distribution",
        "It is of random offsets, and random_percent is 0; leave one of the two out.",
    )
    only_reads = workload["read_percent"] == 100
    for key in ("sync", "verify"):
        yield (
            has(key) and only_reads,
            key,
            "It concerns writes, and read_percent is 100; leave it out or lower read_percent.",
        )
    yield (
        has("verify") and has("data"),
        "data",
        "Verification fills the blocks with checksums and random data; leave data out.",
    )
    yield has("loops") and has("io_bytes"), "io_bytes", "Give loops or io_bytes, not both."
    least = workload["workers"] * block_bounds(workload)[1]
    yield (
        workload.get("io_bytes", least) < least,
        "io_bytes",
        f"One I/O of each worker takes {least} bytes; give at least that.",
    )
