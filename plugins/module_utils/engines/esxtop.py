# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
r"""esxtop in batch mode (``esxtop -b -d 5 -n 72``): what an ESXi host counted while something was measured.

The file is a CSV of Windows' performance monitor: the first line names the columns, \\host\Group(instance)\Counter, often more than ten
thousand of them; then one line a sample, times in UTC. The first sample is an average since the host was started and is left out.
Files of hundreds of megabytes are met, so lines are read one by one and of each only the sums of the wanted columns are kept.
"""

from __future__ import annotations

import csv
import datetime
import re
from collections.abc import Iterable, Iterator
from typing import Any, Optional

from ..core.failure import Failure, bad_value

_COLUMN = re.compile(r"\\\\(?P<host>[^\\]+)\\(?P<group>[^\\(]+?)(?:\((?P<instance>.*)\))?\\(?P<counter>[^\\]+)")
# Minutes to add for UTC, as Windows counts them.
_ZONE = re.compile(r"\(PDH-CSV 4\.0\) \([^()]*\)\((-?\d{1,4})\)")
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_MS, _MIB = 1_000_000, 1 << 20
# Differences of counters that began again are negative, or like 2^64; nothing real is so large.
_LARGEST = 1e15
# Counter: (key, factor, the counter that a mean is weighted by; None for rates and shares)
_Counters = dict[str, tuple[str, int, Optional[str]]]
_DISK: _Counters = {
    "Reads/sec": ("read_iops", 1, None),
    "Writes/sec": ("write_iops", 1, None),
    "MBytes Read/sec": ("read_bandwidth_bytes_s", _MIB, None),
    "MBytes Written/sec": ("write_bandwidth_bytes_s", _MIB, None),
}
_COMMANDS: _Counters = {
    **_DISK,
    "Commands/sec": ("iops", 1, None),
    "Average Driver MilliSec/Command": ("davg_ns", _MS, "Commands/sec"),
    "Average Kernel MilliSec/Command": ("kavg_ns", _MS, "Commands/sec"),
    "Average Guest MilliSec/Command": ("gavg_ns", _MS, "Commands/sec"),
    "Average Queue MilliSec/Command": ("qavg_ns", _MS, "Commands/sec"),
}
_GROUPS: dict[str, tuple[str, _Counters]] = {
    "Physical Disk SCSI Device": ("devices", _COMMANDS),
    "Physical Disk Adapter": ("adapters", _COMMANDS),
    "Virtual Disk": (
        "virtual_disks",
        {
            **_DISK,
            "Average MilliSec/Read": ("read_latency_mean_ns", _MS, "Reads/sec"),
            "Average MilliSec/Write": ("write_latency_mean_ns", _MS, "Writes/sec"),
        },
    ),
    "Group Cpu": ("groups", {"% Used": ("used_percent", 1, None)}),
    "Physical Cpu": (
        "processors",
        {"% Util Time": ("util_percent", 1, None), "% Processor Time": ("busy_percent", 1, None)},
    ),
}


def read(lines: str | Iterable[str], started_utc: str | None = None, finished_utc: str | None = None) -> dict[str, Any]:
    """The counts, from the lines of the file, or its text.

    {host, samples, sample_s, interval_s, started_utc, finished_utc, devices, adapters, virtual_disks, groups, processors}, the last five
    {instance: {key: mean}}. Rates and shares are means over the samples, latencies means over the commands. An instance's used_percent is of one core.
    What the file has no column for, and latencies without any command, are absent. ``resets`` counts values that say nothing because their counter
    began again, ``truncated`` says that the last line breaks off; neither is in any mean. With started_utc or finished_utc: only samples that are between
    them as a whole. Failure 'no_result' when it is not such a file or has no sample, 'esxtop_output_unreadable' when it is damaged.
    """
    since, until = (_given_time("started_utc", started_utc), _given_time("finished_utc", finished_utc))
    lines = iter(lines.splitlines() if isinstance(lines, str) else lines)
    names = _cells(next(lines, "")) or [""]
    zone = _ZONE.fullmatch(names[0].strip())
    if not zone:
        raise Failure(
            "no_result",
            "This is not batch output of esxtop: it does not start with (PDH-CSV 4.0) and the zone of its times, such as (UTC)(0).",
            "Run esxtop -b and keep its whole output.",
        )
    behind_utc = datetime.timedelta(minutes=int(zone[1]))
    means, truncated = _Means(names), False
    previous: datetime.datetime | None = None
    began: datetime.datetime | None = None
    ended: datetime.datetime | None = None
    for number, row in _rows(lines, len(names)):
        if row is None:
            truncated = True
            break
        at = _time(row[0], number) + behind_utc
        if previous is not None and at <= previous:
            raise _unreadable("its samples are not in the order of time")
        # A sample is of the time since the one before it, the first since the host was started.
        if previous is not None and (since is None or previous >= since) and (until is None or at <= until):
            means.add(row, number)
            began, ended = began or previous, at
        previous = at
    if began is None or ended is None:
        where = " in the time that was asked for" if since or until else ""
        raise Failure(
            "no_result",
            f"The esxtop output has no sample{where} after the first, which is an average since the host was started.",
            "Start esxtop before the benchmark and end it afterwards."
            if where
            else "Take at least two samples (-n 2).",
        )
    interval_s = (ended - began).total_seconds()
    return {
        **means.host(),
        "samples": means.samples,
        "sample_s": interval_s / means.samples,
        "interval_s": interval_s,
        "started_utc": f"{began:{_TIME}}",
        "finished_utc": f"{ended:{_TIME}}",
        **({"resets": means.resets} if means.resets else {}),
        **({"truncated": True} if truncated else {}),
        **means.figures(),
    }


class _Means:
    """Sums of the columns that are read. Only some of thousands are."""

    def __init__(self, names: list[str]) -> None:
        self.samples = self.resets = 0
        self.hosts: set[str] = set()
        places: dict[tuple[str, str], dict[str, int]] = {}
        for position, name in enumerate(names[1:], 1):
            match = _COLUMN.fullmatch(name)
            if match and match["counter"] in _GROUPS.get(match["group"], ("", {}))[1]:
                self.hosts.add(match["host"])
                places.setdefault((match["group"], match["instance"] or ""), {})[match["counter"]] = position
        # [section, instance, key, factor, position, position of the weight or None, sum, sum of weights]
        self.wanted: list[list[Any]] = [
            [
                _GROUPS[group][0],
                instance,
                key,
                factor,
                counters[counter],
                counters[weight] if weight else None,
                0.0,
                0.0,
            ]
            for (group, instance), counters in places.items()
            for counter, (key, factor, weight) in _GROUPS[group][1].items()
            if counter in counters and (not weight or weight in counters)
        ]
        self.positions = sorted({position for counters in places.values() for position in counters.values()})

    def add(self, row: list[str], number: int) -> None:
        values = {position: self._value(row[position], number) for position in self.positions}
        for column in self.wanted:
            value, weight = values[column[4]], 1 if column[5] is None else values[column[5]]
            if value is not None and weight is not None:
                column[6] += value * weight
                column[7] += weight
        self.samples += 1

    def _value(self, cell: str, number: int) -> float | None:
        """The number in a cell; None for an empty one, as it is where an instance was not there yet, or no longer, and where a counter began again."""
        if not cell.strip():
            return None
        if not _NUMBER.fullmatch(cell.strip()):
            raise _unreadable(f"line {number} has {cell[:30]!r} for a number")
        value = float(cell)
        if 0 <= value < _LARGEST:
            return value
        self.resets += 1
        return None

    def host(self) -> dict[str, Any]:
        return {"host": next(iter(self.hosts))} if len(self.hosts) == 1 else {}

    def figures(self) -> dict[str, dict[str, dict[str, float]]]:
        figures: dict[str, Any] = {}
        for section, instance, key, factor, _position, _weight, total, weights in self.wanted:
            if weights:
                figures.setdefault(section, {}).setdefault(instance, {})[key] = total / weights * factor
        return figures


def _rows(lines: Iterable[str], width: int) -> Iterator[tuple[int, list[str] | None]]:
    """(number, cells) of each line; (number, None) for the last one when it breaks off: esxtop was ended while it wrote."""
    broken = None
    for number, line in enumerate(lines, 2):
        if not line.strip():
            continue
        if broken:
            raise broken[1]
        row = _cells(line)
        if row is not None and len(row) == width:
            yield number, row
            continue
        what = "is not CSV" if row is None else f"has {len(row)} fields, but the first has {width}"
        broken = (number, _unreadable(f"line {number} {what}; perhaps a spreadsheet saved it"))
        if row is not None and len(row) > width:
            raise broken[1]
    if broken:
        yield broken[0], None


def _cells(line: str) -> list[str] | None:
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return None


def _time(cell: str, number: int) -> datetime.datetime:
    try:
        return datetime.datetime.strptime(cell, "%m/%d/%Y %H:%M:%S.%f" if "." in cell else "%m/%d/%Y %H:%M:%S")
    except ValueError as error:
        raise _unreadable(f"line {number} begins with {cell[:30]!r}, not with a time") from error


def _given_time(name: str, value: str | None) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(value, _TIME) if value else None
    except (TypeError, ValueError):
        raise bad_value(name, value, "Give a time in UTC as 2026-11-21T16:33:10Z.") from None


def _unreadable(why: str) -> Failure:
    return Failure(
        "esxtop_output_unreadable", f"The esxtop output cannot be read: {why}.", "Use the file as esxtop -b wrote it."
    )
