# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures out of one direction of a record of fio: counts, rates and latencies, in the units of every release."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, cast

from ..core.failure import Failure
from ..result import histogram
from ..result import result as schema
from ..result.schema import Figures, Latency
from ..workload.workload import Direction
from .fio_job import SYNCHRONOUS
from .fio_job import WINDOWS_LOG as WINDOWS_LOG  # both halves of fio are found here
from .fio_job import check as check
from .fio_job import escape as escape
from .fio_job import fill_file as fill_file
from .fio_job import ioengine as ioengine
from .fio_job import job_file as job_file

# fio computes its rates from the counts it reports; where they are this far apart the counters ran over (fio issue 672).
RATE_TOLERANCE = 0.05
# Without leading zeros: 5 and 05 would be one bin, and one of their counts lost.
_EDGES = re.compile(r"(?:0|[1-9][0-9]{0,18})(?:,(?:0|[1-9][0-9]{0,18}))*")
# Those that were looked through already.
_SOUND_EDGES: set[str] = set()


def direction_of(raw: object, release: tuple[int, ...], name: str, total: bool) -> tuple[Figures | None, str | None]:
    """(direction, what its latency is of), (None, None) when there was no I/O. total: see _latency."""
    if raw is None:
        return None, None
    if not isinstance(raw, dict):
        raise unreadable(name, raw)
    ios = int(_ios(raw))
    if not ios:
        return None, None
    # Before 2.21 io_bytes held KiB; bw_bytes came with 3.2.
    size = int(_needed(raw, "io_bytes") * (1 if release >= (2, 21) else 1024))
    bandwidth = number_at(raw, "bw_bytes")
    if bandwidth is None:
        bandwidth = _needed(raw, "bw") * 1024
    latency, bins, source = _latency(raw, release, total)
    return schema.direction(ios, size, _needed(raw, "iops"), bandwidth, latency, bins), source


def flushes_of(record: dict[str, object], release: tuple[int, ...], options: dict[str, str]) -> Figures | None:
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
    count = (number_at(latencies, "N") if isinstance(latencies, dict) else None) or sum((bins or {}).values())
    count = int(count or number_at(raw, "total_ios") or 0)
    return schema.direction(count, None, None, None, latency, bins) if count and latency.get("samples") else None


def _ios(raw: dict[str, object]) -> float:
    """How many I/Os a direction did. Before 2.2 fio gave their rate and its time only."""
    if "total_ios" in raw or not number_at(raw, "io_bytes"):
        return number_at(raw, "total_ios") or 0
    return round((number_at(raw, "iops") or 0) * (number_at(raw, "runtime") or 0) / 1000)


def _needed(raw: dict[str, object], key: str) -> float:
    """A number that fio gives of every direction with I/O: without it the record is damaged, and 0 would be made up."""
    value = number_at(raw, key)
    if value is None:
        raise unreadable(key, raw.get(key))
    return value


def rates_disagree(record: dict[str, object]) -> str | None:
    """The faults in the rates of a record: they must be its counts over its time."""
    for name in (*schema.DIRECTIONS, "trim", "mixed"):
        raw = record.get(name)
        if not isinstance(raw, dict):
            continue
        ios, iops, runtime_s = (
            _ios(raw),
            number_at(raw, "iops") or 0,
            (number_at(raw, "runtime") or 0) / 1000,
        )
        if ios and abs(iops * runtime_s - ios) > RATE_TOLERANCE * ios:
            return f"fio reports {iops:g} {name} I/O per second, but {ios:g} of them in {runtime_s:g} s."
    return None


def _latency(
    raw: dict[str, object], release: tuple[int, ...], total: bool
) -> tuple[Latency, dict[str, int] | None, str | None]:
    """(latency for result.direction, bins, 'total' or 'completion'). total: the job asked for the distribution of total latency.

    Mean, least, most and deviation are of total latency, from submission to completion, wherever fio gives it: only with it does Little's law
    hold. The distribution is of total latency where that was recorded, else of completion latency: which of them is the third part of the answer.
    """
    scale = 1 if release >= (3, 0) else 1000
    suffix = "_ns" if release >= (3, 0) else ""
    choices: list[tuple[str, dict[str, Any]]] = [
        (kind, cast("dict[str, Any]", raw[f"{kind}{suffix}"]))
        for kind in ("lat", "clat")
        if isinstance(raw.get(f"{kind}{suffix}"), dict)
    ]
    if not choices:
        return {}, None, None
    if total and release < (3, 13) and len(choices) == 2:
        # There the distribution of total latency stands under clat, all of it or without the bins.
        (_lat, whole), (_clat, completion) = choices
        choices = [("lat", {**{key: completion[key] for key in ("percentile", "bins") if key in completion}, **whole})]
    figures = next((values for _kind, values in choices if _samples(values)), choices[0][1])
    latency: Any = {key: _scaled(number_at(figures, key), scale) for key in ("mean", "min", "max", "stddev")}
    latency["samples"] = _samples(figures)
    kind, distribution = next(
        ((kind, values) for kind, values in choices if values.get("bins") or _percentiles(values, scale)), choices[0]
    )
    # Before 2.20 the keys of bins are positions in an array whose layout is not given.
    readable = isinstance(distribution.get("bins"), dict) and release >= (2, 20)
    bins = _bins(distribution["bins"], scale) if readable else None
    latency["percentiles"] = {} if bins else _percentiles(distribution, scale)
    return latency, bins, "total" if kind == "lat" else "completion"


def _samples(values: dict[str, object]) -> float | None:
    """How many latencies were recorded. N came with 3.18; before, a latency that was not recorded is all zero."""
    return number_at(values, "N") if "N" in values else number_at(values, "max")


def _percentiles(values: dict[str, object], scale: int) -> dict[float, float | None]:
    by_percent = values.get("percentile")
    if not isinstance(by_percent, dict):
        return {}
    return {_key(key): _scaled(number_at(by_percent, key), scale) for key in by_percent}


def _key(text: str) -> float:
    """The percent that a key of a percentile mapping is."""
    if not re.fullmatch(r"\d{1,3}(\.\d{1,12})?", text):
        raise unreadable("a key of percentile", text)
    return float(text)


def _bins(raw: dict[str, int], scale: int) -> dict[str, int]:
    """{"<ns>": count}, checked as a whole: there are a thousand in a document."""
    if not _SOUND_EDGES.issuperset(raw):
        edges = ",".join(raw)
        if not (_EDGES.fullmatch(edges) and edges.count(",") == len(raw) - 1):
            raise unreadable("a key of bins", next(key for key in raw if "," in key or not _EDGES.fullmatch(key)))
        if len(_SOUND_EDGES) + len(raw) <= histogram.REMEMBERED:
            _SOUND_EDGES.update(raw)
    counts = raw.values()
    if not set(map(type, counts)) <= {int} or not 0 <= min(counts, default=0) <= max(counts, default=0) < 1 << 64:
        raise unreadable("bins", raw)
    return raw if scale == 1 else {str(int(key) * scale): raw[key] for key in raw}


def _scaled(value: float | None, scale: int) -> float | None:
    return value if value is None or scale == 1 else value * scale


def number_at(mapping: object, key: str) -> float | None:
    """The number under the key, None when there is none. NaN and infinity are what fio writes for 'not measured'.

    Everything read here is a count, a time or a rate, so what is negative or beyond 64 bits is damage.
    """
    if not isinstance(mapping, dict):
        raise unreadable(key, mapping)
    value = mapping.get(key)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1 << 64:
        return value
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise unreadable(key, value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    raise unreadable(key, value)


def text_at(mapping: dict[str, object], key: str) -> str | None:
    value = mapping.get(key)
    if value is not None and not isinstance(value, str):
        raise unreadable(key, value)
    return value


def unreadable(where: str, value: object) -> Failure:
    shown = f"a {type(value).__name__}" if isinstance(value, (dict, list)) else repr(str(value)[:80])
    return Failure(
        "fio_output_unreadable",
        f"The fio output has {shown} as {where!r}.",
        "Measure again; the file is damaged or not from fio.",
        key=where,
    )


def log_rates(text: str, wanted: Sequence[Direction]) -> list[tuple[int, float]]:
    """(end of a window in ms since 1970, I/Os per second in it) of a log of fio with that clock; a line that breaks off is left out."""
    numbers = {str(schema.DIRECTIONS.index(name)) for name in wanted}
    lines = (match.groups() for match in map(_RATE_LINE.match, text.splitlines()) if match)
    return [(int(end), float(rate)) for end, rate, number in lines if number in numbers]


# Time, value, direction, block size.
_RATE_LINE = re.compile(r"(\d{13}), *(\d+), *(\d), *\d")
