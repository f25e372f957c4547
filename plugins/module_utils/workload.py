# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads: what I/O is issued, said without the words of any engine."""

from __future__ import annotations

import hashlib
import json
import re

from .failure import bad_value

UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
SECTOR_BYTES = 512
# key: (default, minimum, maximum)
NUMBERS = {
    "read_percent": (100, 0, 100),
    "random_percent": (100, 0, 100),
    "queue_depth": (1, 1, 65536),
    "workers": (1, 1, 4096),
    "ramp_s": (2, 0, 86400),
    "runtime_s": (10, 1, 7 * 86400),
}
KEYS = ("block_size", *NUMBERS, "alignment", "direct", "range")
# A normalised workload is a workload too, so that stored ones can be read back.
NORMALISED = ("block_size_bytes", *NUMBERS, "alignment_bytes", "direct", "range")


def normalise(workload: dict, variable: str = "workload") -> dict:
    """The complete workload: every key present, numbers as numbers, sizes in bytes. Failure 'bad_value' names what is wrong."""
    if not isinstance(workload, dict):
        raise bad_value(variable, workload, "Give a mapping of workload keys.")
    for key in workload:
        if key not in KEYS and key not in NORMALISED:
            raise bad_value(f"{variable}.{key}", workload[key], f"There is no such key; use {', '.join(KEYS)}.")
    found = {"block_size_bytes": _size(_either(workload, "block_size", "4k", variable), f"{variable}.block_size", SECTOR_BYTES)}
    for key, (default, low, high) in NUMBERS.items():
        found[key] = _integer(workload.get(key, default), f"{variable}.{key}", low, high)
    alignment = _either(workload, "alignment", found["block_size_bytes"], variable)
    found["alignment_bytes"] = _size(alignment, f"{variable}.alignment", SECTOR_BYTES)
    found["direct"] = _boolean(workload.get("direct", True), f"{variable}.direct")
    found["range"] = _range(workload.get("range") or {}, f"{variable}.range")
    return found


def parse_size(value, variable: str = "size") -> int:
    """Bytes of '4k', '1 MiB', 4096 … Units are powers of 1024."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = re.fullmatch(r"\s*(\d{1,15})\s*([kmgt]?)(?:i?b)?\s*", value, re.IGNORECASE) if isinstance(value, str) else None
    if not match:
        raise bad_value(variable, value, "Write a size in bytes or like 4k, 1m or 2g (powers of 1024).")
    return int(match.group(1)) * UNITS[match.group(2).lower()]


def format_size(size_bytes: int) -> str:
    """The shortest exact way to write a size: 4k, 1m, 512b."""
    for unit in ("t", "g", "m", "k"):
        if size_bytes and size_bytes % UNITS[unit] == 0:
            return f"{size_bytes // UNITS[unit]}{unit}"
    return f"{size_bytes}b"


def workload_id(workload: dict) -> str:
    """Short, deterministic, fit for a file name: '4k-r70-rnd100-qd8-w1'. How long it runs is not part of it."""
    full = normalise(workload)
    short = "-".join((format_size(full["block_size_bytes"]), f"r{full['read_percent']}", f"rnd{full['random_percent']}",
                      f"qd{full['queue_depth']}", f"w{full['workers']}"))
    unusual = {key: full[key] for key in ("alignment_bytes", "direct", "range") if full[key] != normalise({"block_size": full["block_size_bytes"]})[key]}
    if unusual:
        short += "-" + hashlib.sha256(json.dumps(unusual, sort_keys=True).encode()).hexdigest()[:6]
    return short


def directions(workload: dict) -> tuple:
    """The directions in which a normalised workload issues I/O."""
    share = workload["read_percent"]
    return (("read",) if share else ()) + (("write",) if share < 100 else ())


def extent(workload: dict, size_bytes: int, variable: str = "workload") -> tuple:
    """(offset, size) in bytes of what a normalised workload uses of a layer of this size."""
    offset = workload["range"]["offset_bytes"]
    size = workload["range"]["size_bytes"] or size_bytes - offset
    if offset + size > size_bytes or size <= 0:
        raise bad_value(f"{variable}.range", workload["range"], f"The layer has {size_bytes} bytes; keep offset_bytes + size_bytes within them.")
    if size < workload["block_size_bytes"] * workload["workers"]:
        raise bad_value(f"{variable}.block_size", workload["block_size_bytes"],
                        f"{workload['workers']} workers do not find a block each in {size} bytes; use smaller blocks or a bigger layer.")
    return offset, size


def _either(workload: dict, key: str, default, variable: str):
    if workload.get(key) is not None and workload.get(f"{key}_bytes") is not None:
        raise bad_value(f"{variable}.{key}", workload[key], f"Give {key} or {key}_bytes, not both.")
    for name in (key, f"{key}_bytes"):
        if workload.get(name) is not None:
            return workload[name]
    return default


def _size(value, variable: str, multiple: int) -> int:
    size = parse_size(value, variable)
    if size <= 0 or size % multiple:
        raise bad_value(variable, value, f"Use a multiple of {multiple} bytes.")
    if size > UNITS["g"]:
        raise bad_value(variable, value, "Use at most 1g.")
    return size


def _integer(value, variable: str, low: int, high: int) -> int:
    if isinstance(value, str) and re.fullmatch(r"\d{1,15}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise bad_value(variable, value, f"Use a whole number from {low} to {high}.")
    return value


def _boolean(value, variable: str) -> bool:
    if not isinstance(value, bool):
        raise bad_value(variable, value, "Use true or false.")
    return value


def _range(value, variable: str) -> dict:
    if not isinstance(value, dict) or set(value) - {"offset_bytes", "size_bytes"}:
        raise bad_value(variable, value, "Give a mapping with offset_bytes and size_bytes.")
    offset = parse_size(value.get("offset_bytes") or 0, f"{variable}.offset_bytes")
    size = None if value.get("size_bytes") is None else parse_size(value["size_bytes"], f"{variable}.size_bytes")
    for name, number in (("offset_bytes", offset), ("size_bytes", size)):
        if number is not None and (number < 0 or number % SECTOR_BYTES or (name == "size_bytes" and not number)):
            raise bad_value(f"{variable}.{name}", number, f"Use a multiple of {SECTOR_BYTES} bytes.")
    return {"offset_bytes": offset, "size_bytes": size}
