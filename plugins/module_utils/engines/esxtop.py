# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
r"""esxtop in batch mode (``esxtop -b -d 5 -n 72``): what an ESXi host counted while something was measured.

The file is a CSV of Windows' performance monitor: the first line names the columns, \\host\Group(instance)\Counter, often more than ten
thousand of them; then one line a sample, times in UTC. The first sample is an average since the host was started and is left out.
"""

from __future__ import annotations

import csv
import datetime
import io
import re

from ..failure import Failure

_COLUMN = re.compile(r"\\\\(?P<host>[^\\]+)\\(?P<group>[^\\(]+?)(?:\((?P<instance>.*)\))?\\(?P<counter>[^\\]+)")
_MS, _MIB = 1_000_000, 1 << 20
# Counter: (key, factor, the counter that a mean is weighted by; None for rates and shares)
_DISK = {
    "Reads/sec": ("read_iops", 1, None),
    "Writes/sec": ("write_iops", 1, None),
    "MBytes Read/sec": ("read_bandwidth_bytes_s", _MIB, None),
    "MBytes Written/sec": ("write_bandwidth_bytes_s", _MIB, None),
}
_GROUPS = {
    "Physical Disk SCSI Device": ("devices", {
        **_DISK,
        "Commands/sec": ("iops", 1, None),
        "Average Driver MilliSec/Command": ("davg_ns", _MS, "Commands/sec"),
        "Average Kernel MilliSec/Command": ("kavg_ns", _MS, "Commands/sec"),
        "Average Guest MilliSec/Command": ("gavg_ns", _MS, "Commands/sec"),
        "Average Queue MilliSec/Command": ("qavg_ns", _MS, "Commands/sec"),
    }),
    "Virtual Disk": ("virtual_disks", {
        **_DISK,
        "Average MilliSec/Read": ("read_latency_mean_ns", _MS, "Reads/sec"),
        "Average MilliSec/Write": ("write_latency_mean_ns", _MS, "Writes/sec"),
    }),
    "Group Cpu": ("groups", {"% Used": ("used_percent", 1, None)}),
    "Physical Cpu": ("processors", {"% Util Time": ("util_percent", 1, None), "% Processor Time": ("busy_percent", 1, None)}),
}


def read(text: str) -> dict:
    """{host, samples, interval_s, started_utc, finished_utc, devices, virtual_disks, groups, processors}, the last four {instance: {key: mean}}.

    Rates and shares are means over the samples, latencies means over the commands. An instance's used_percent is of one core. What the file has
    no column for, and latencies without any command, are absent. Failure 'no_result' when it is no such file, 'esxtop_output_unreadable' when damaged.
    """
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        names = next(rows, [])
        if not names or not names[0].startswith("(PDH-CSV 4.0)"):
            raise Failure("no_result", "This is no batch output of esxtop: it does not start with (PDH-CSV 4.0).", "Run esxtop -b and keep its whole output.")
        columns = _wanted(names)
        samples = [_sample(row, names, columns, number) for number, row in enumerate(rows, 2) if row]
    except csv.Error as error:
        raise _unreadable(f"it is no CSV: {error}") from error
    if len(samples) < 2:
        raise Failure("no_result", "The esxtop output has no sample besides the first, which is an average since the host was started.",
                      "Take at least two samples (-n 2).")
    times = [at for at, values in samples[1:]]
    if times != sorted(set(times)):
        raise _unreadable("its samples are not in the order of time")
    found: dict = {"samples": len(times), "started_utc": f"{times[0]:%Y-%m-%dT%H:%M:%SZ}", "finished_utc": f"{times[-1]:%Y-%m-%dT%H:%M:%SZ}",
                   "interval_s": (times[-1] - samples[0][0]).total_seconds() / len(times)}
    hosts = {column["host"] for column in columns.values()}
    if len(hosts) == 1:
        found["host"] = hosts.pop()
    for group, (section, counters) in _GROUPS.items():
        instances = dict.fromkeys(column["instance"] for column in columns.values() if column["group"] == group)
        means = {instance: _means(group, instance, counters, columns, [values for at, values in samples[1:]]) for instance in instances}
        means = {instance or "": values for instance, values in means.items() if values}
        if means:
            found[section] = means
    return found


def _wanted(names: list) -> dict:
    """{position: {host, group, instance, counter}} of the columns that are read. Of thousands only some are."""
    found = {}
    for position, name in enumerate(names[1:], 1):
        match = _COLUMN.fullmatch(name)
        if match and match["counter"] in _GROUPS.get(match["group"], ("", {}))[1]:
            found[position] = match.groupdict()
    return found


def _sample(row: list, names: list, columns: dict, number: int) -> tuple:
    """(time, {position: value}) of a line."""
    if len(row) != len(names):
        raise _unreadable(f"line {number} has {len(row)} fields, but the first has {len(names)}; perhaps it was cut off or a spreadsheet saved it")
    try:
        at = datetime.datetime.strptime(row[0], "%m/%d/%Y %H:%M:%S")
    except ValueError as error:
        raise _unreadable(f"line {number} begins with {row[0][:30]!r}, not with a time") from error
    return at, {position: _value(row[position], number) for position in columns}


def _value(cell: str, number: int):
    """The number in a cell; None for an empty one, which stands where an instance was not there yet, or no more."""
    if not cell.strip():
        return None
    if not re.fullmatch(r"\d{1,15}(\.\d{1,9})?", cell.strip()):
        raise _unreadable(f"line {number} has {cell[:30]!r} for a number")
    return float(cell)


def _means(group: str, instance, counters: dict, columns: dict, samples: list) -> dict:
    places = {column["counter"]: position for position, column in columns.items() if (column["group"], column["instance"]) == (group, instance)}
    found = {}
    for counter, (key, factor, weight) in counters.items():
        if counter not in places or (weight and weight not in places):
            continue
        pairs = [(sample[places[counter]], sample[places[weight]] if weight else 1) for sample in samples]
        pairs = [(value, share) for value, share in pairs if value is not None and share is not None]
        total = sum(share for value, share in pairs)
        if total:
            found[key] = sum(value * share for value, share in pairs) / total * factor
    return found


def _unreadable(why: str) -> Failure:
    return Failure("esxtop_output_unreadable", f"The esxtop output cannot be read: {why}.", "Use the file as esxtop -b wrote it.")
