# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IOMeter 1.1.0 on the stand-in: takes a configuration as its own reader would, and appends a CSV as its own writer would, figures made up.

What it holds against the collection, as IOMeter's source does: characters in file names and a licence nobody accepted open a window that nobody
closes; disks with partitions are not shown; a worker without a target measures zeros; on a volume it knows one file only.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right

import fake_figures as figures
from fake_program import Outcome, Started
from refused import Refused

WINDOW = Outcome(None)
FILE_NAME = re.compile(r"[a-zA-Z0-9_=+!&%@#$.,;:'\[\]{}()\\ -]+")
TEST_TYPES = {"NORMAL": 0, "CYCLE_OUTSTANDING_IOS": 5}
KEYS = {
    "test description",
    "run time",
    "ramp up time (s)",
    "default disk workers to spawn",
    "default network workers to spawn",
    "record results",
    "worker cycling",
    "disk cycling",
    "queue depth cycling",
    "test type",
    "end test setup",
    "record last update results,update frequency,update type",
    "end results display",
    "access specification name,default assignment",
    "size,% of size,% reads,% random,delay,burst,align,reply",
    "end access specifications",
    "manager id, manager name",
    "manager network address",
    "worker",
    "worker type",
    "default target settings for worker",
    "number of outstanding ios,test connection rate,transactions per connection,use fixed seed,fixed seed value",
    "disk maximum size,starting sector,data pattern",
    "end default target settings for worker",
    "assigned access specs",
    "end assigned access specs",
    "target assignments",
    "target",
    "target type",
    "end target",
    "end target assignments",
    "end worker",
    "end manager",
    "end manager list",
    "test setup",
    "results display",
    "access specifications",
    "manager list",
}
BEFORE_BINS = [
    "'Target Type",
    "Target Name",
    "Access Specification Name",
    "# Managers",
    "# Workers",
    "# Disks",
    "IOps",
    "Read IOps",
    "Write IOps",
    "MiBps (Binary)",
    "Read MiBps (Binary)",
    "Write MiBps (Binary)",
    "MBps (Decimal)",
    "Read MBps (Decimal)",
    "Write MBps (Decimal)",
    "Transactions per Second",
    "Connections per Second",
    "Average Response Time",
    "Average Read Response Time",
    "Average Write Response Time",
    "Average Transaction Time",
    "Average Connection Time",
    "Maximum Response Time",
    "Maximum Read Response Time",
    "Maximum Write Response Time",
    "Maximum Transaction Time",
    "Maximum Connection Time",
    "Errors",
    "Read Errors",
    "Write Errors",
    "Bytes Read",
    "Bytes Written",
    "Read I/Os",
    "Write I/Os",
    "Connections",
    "Transactions per Connection",
    "Total Raw Read Response Time",
    "Total Raw Write Response Time",
    "Total Raw Transaction Time",
    "Total Raw Connection Time",
    "Maximum Raw Read Response Time",
    "Maximum Raw Write Response Time",
    "Maximum Raw Transaction Time",
    "Maximum Raw Connection Time",
    "Total Raw Run Time",
    "Starting Sector",
    "Maximum Size",
    "Queue Depth",
    "% CPU Utilization",
    "% User Time",
    "% Privileged Time",
    "% DPC Time",
    "% Interrupt Time",
    "Processor Speed",
    "Interrupts per Second",
    "CPU Effectiveness",
    "Packets/Second",
    "Packet Errors",
    "Segments Retransmitted/Second",
]
# Upper bounds of the counters in nanoseconds, as IOMeter prints them.
TOPS = [
    us * 1000
    for us in (
        50,
        100,
        200,
        500,
        1000,
        2000,
        5000,
        10_000,
        15_000,
        20_000,
        30_000,
        50_000,
        100_000,
        200_000,
        500_000,
        1_000_000,
        2_000_000,
        4_700_000,
        5_000_000,
        10_000_000,
    )
]
BINS = [
    "0 to 50 uS",
    "50 to 100 uS",
    "100 to 200 uS",
    "200 to 500 uS",
    "0.5 to 1 mS",
    "1 to 2 mS",
    "2 to 5 mS",
    "5 to 10 mS",
    "10 to 15 mS",
    "15 to 20 mS",
    "20 to 30 mS",
    "30 to 50 mS",
    "50 to 100 mS",
    "100 to 200 mS",
    "200 to 500 mS",
    "0.5 to 1 S",
    "1 to 2 s",
    "2 to 4.7 s",
    "4.7 to 5 s",
    "5 to 10 s",
    " >= 10 s",
]
TICKS_S = 2_435_903


class _Bad(Exception):
    """What IOMeter writes into its results as an error."""


def run(started: Started) -> Outcome:
    words = started.arguments
    given = dict(zip(words[::2], words[1::2]))
    if len(words) % 2 or set(given) - {"/c", "/r", "/t", "/p", "/m"} or not {"/c", "/r"} <= set(given):
        return WINDOW
    if not all(FILE_NAME.fullmatch(given[key]) for key in ("/c", "/r")) or started.licence != started.version:
        return WINDOW
    names = {key: given[key].removeprefix(f"{started.folder}\\") for key in ("/c", "/r")}
    if "\\" in names["/r"]:
        return WINDOW
    try:
        if names["/c"] not in started.files:
            raise _Bad(f"Could not open file {given['/c']}.")
        asked = read(started.files[names["/c"]].decode())
        if started.fault == "iometer_error":
            raise _Bad("The stand-in's manager did not log in.")
        return _tests(started, asked, names["/r"])
    except _Bad as bad:
        return Outcome(0.0, 1, [(0.0, names["/r"], f"\r\nERROR: {bad}\r\n".encode())])


# ---------------------------------------------------------------- the configuration


def read(text: str) -> dict:
    """What a configuration asks for: {description, seconds, ramp, type, cycle, specs: {name: [line]}, workers: [{depth, size, start, specs, targets}]}."""
    lines = text.splitlines()
    if not lines or not re.fullmatch(r"Version 1\.1\.0\s*", lines[0]):
        raise _Bad("File is improperly formatted. Expected a version.")
    asked: dict = {"specs": {}, "workers": [], "cycle": [], "description": ""}
    key, spec = "", []
    for line in lines[1:]:
        if line.startswith(("'\t", "Version ")) or not line.strip():
            continue
        if line.startswith("'"):
            key = re.sub(r"\s*=+$", "", line[1:].strip()).lower()
            if key not in KEYS and not re.fullmatch(r"bar chart [1-6] statistic", key):
                raise _Bad(f"File is improperly formatted. Unrecognized key {key}.")
            continue
        if not line.startswith("\t"):
            raise _Bad("File is improperly formatted. Expected a value.")
        spec = _value(asked, key, line.strip(), spec)
    for name, rows in asked["specs"].items():
        if "," in name or len(name) > 127 or not 1 <= len(rows) <= 100 or sum(row[1] for row in rows) != 100:
            raise _Bad(f"Access specification {name} is not correct.")
    for worker in asked["workers"]:
        if not worker["specs"] or set(worker["specs"]) - set(asked["specs"]):
            raise _Bad("You must assign at least one access specification to a worker.")
    if asked.get("type") not in TEST_TYPES or not asked["workers"]:
        raise _Bad("The stand-in's IOMeter runs tests of its workers, and cycles through outstanding I/Os.")
    return asked


def _value(asked: dict, key: str, value: str, spec: list) -> list:
    worker = asked["workers"][-1] if asked["workers"] else {}
    if key == "test description":
        asked["description"] = value
    elif key == "run time":
        hours, minutes, seconds = map(int, value.split())
        asked["seconds"] = hours * 3600 + minutes * 60 + seconds
    elif key == "ramp up time (s)":
        asked["ramp"] = int(value)
    elif key == "queue depth cycling":
        asked["cycle"] = value.split()
    elif key == "test type":
        asked["type"] = value
    elif key.startswith("access specification name"):
        return asked["specs"].setdefault(value.rpartition(",")[0], [])
    elif key.startswith("size,% of size"):
        spec.append([int(cell) for cell in value.split(",")])
    elif key == "worker":
        asked["workers"].append({"name": value, "specs": [], "targets": []})
    elif key.startswith("number of outstanding ios"):
        worker["depth"] = int(value.split(",")[0])
    elif key.startswith("disk maximum size"):
        worker["size"], worker["start"], worker["pattern"] = map(int, value.split(","))
    elif key == "assigned access specs":
        worker["specs"].append(value)
    elif key == "target":
        worker["targets"].append(value)
    return spec


def _depths(asked: dict) -> list:
    """The queue depths of every specification; None: the workers' own."""
    if asked["type"] == "NORMAL":
        return [None]
    start, end, step = map(int, asked["cycle"][:3])
    found = []
    while start <= end:
        found.append(start)
        start = start * step if asked["cycle"][3] == "EXPONENTIAL" else start + step
    return found


# ---------------------------------------------------------------- targets


def _target(started: Started, name: str, worker: dict) -> tuple | None:
    """(name as IOMeter shows it, what is written to) of a target; None when IOMeter does not show it. Only its first two characters count."""
    if not re.match(r"[0-9A-Z]:", name):
        return None
    host = started.host
    if name[0].isdigit():
        try:
            disk = host.raw_disk(int(name[0]), True)
        except Refused:
            return None
        return (f'{name[0]}: "{disk["name"]}"', f"\\\\.\\PhysicalDrive{name[0]}") if not disk["partitions"] else None
    volume = next(
        (disk["volumes"][name[0]] for disk in host.data["disks"].values() if name[0] in disk["volumes"]), None
    )
    if volume is None or not volume["filesystem"]:
        return None
    path = f"{name[0]}:\\iobw.tst"
    if host.file_size(path) is None:
        # Made as large as asked for, or as the volume has room.
        volume["entries"].append(
            {"name": "iobw.tst", "size_bytes": (worker["size"] + worker["start"]) * 512 or volume["size_bytes"]}
        )
    return f'{name[0]}: "{volume["label"]}"', host.written_to(path)


# ---------------------------------------------------------------- the results


def _tests(started: Started, asked: dict, output: str) -> Outcome:
    pieces, at, done, written = [], 0.0, 0, {}
    stop = int(started.fault.partition(":")[2]) if started.fault.startswith("iometer_abort_after:") else None

    def stamp(seconds: float) -> str:
        # Local time, as Windows gives it to IOMeter: the clock of this host is two hours ahead of UTC.
        now = started.begun + seconds + 2 * 3600 + (4 * 86400 if started.fault == "iometer_other_day" else 0)
        return (
            "'Time Stamp\n" + time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now)) + f":{int(now * 1000) % 1000:03d}\n"
        )

    title = f"{TEST_TYPES[asked['type']]},{asked['description']} - by a stand-in"
    pieces.append((0.0, f"'Test Type,Test Description\n{title}\n'Version\n{started.version}\n{stamp(0)}"))
    for position in range(max(len(worker["specs"]) for worker in asked["workers"])):
        active = [worker for worker in asked["workers"] if len(worker["specs"]) > position]
        names = list(dict.fromkeys(worker["specs"][position] for worker in active))
        pieces.append(
            (
                at,
                "'Access specifications\n"
                + "".join(_spec(name, asked["specs"][name]) for name in names)
                + "'End access specifications\n",
            )
        )
        for depth in _depths(asked):
            if done == stop:
                return _outcome(pieces, output, at, written)
            at += asked["ramp"] + asked["seconds"]
            rows, bytes_to = _rows(started, asked, active, names[0] if len(names) == 1 else "", depth)
            for path, size in bytes_to.items():
                written[path] = written.get(path, 0) + size
            pieces.append(
                (
                    at,
                    "'Results\n"
                    + ",".join((*BEFORE_BINS, *BINS))
                    + "\n"
                    + "".join(f"{row}\n" for row in rows)
                    + stamp(at),
                )
            )
            done += 1
    pieces.append((at, "'End Test\n"))
    return _outcome(pieces, output, at, written)


def _outcome(pieces: list, output: str, seconds: float, written: dict) -> Outcome:
    return Outcome(seconds, 0, [(at, output, text.replace("\n", "\r\n").encode()) for at, text in pieces], written)


def _spec(name: str, rows: list) -> str:
    return (
        "'Access specification name,default assignment\n"
        + f"{name},0\n'size,% of size,% reads,% random,delay,burst,align,reply\n"
        + "".join(",".join(map(str, row)) + ",\n" for row in rows)
    )


def _rows(started: Started, asked: dict, active: list, name: str, depth: int | None) -> tuple:
    """(lines of one test, {path: bytes written})."""
    lines = asked["specs"][name or active[0]["specs"][0]]
    share = sum(line[1] * line[2] for line in lines) / 100
    targets = []
    for worker in active:
        found = [_target(started, target, worker) for target in worker["targets"]]
        targets.append([target for target in found if target and started.fault != "iometer_all_zero"])
    disks, workers = sum(map(len, targets)), sum(1 for one in targets if one)
    first = active[0]
    outstanding = depth or first["depth"]
    common = {
        "Access Specification Name": name,
        "Transactions per Connection": -1,
        "Starting Sector": first["start"],
        "Maximum Size": first["size"],
        "Queue Depth": outstanding,
    }
    if not disks:
        nothing = {**dict.fromkeys(BEFORE_BINS[6:36] + BINS, 0), **common, "Queue Depth": -1}
        return [
            _line(
                {**nothing, "'Target Type": "ALL", "Target Name": "All", "# Managers": 0, "# Workers": 0, "# Disks": 0}
            )
        ], {}
    blocks = _blocks(lines)
    key = f"{started.host.name} {lines} {outstanding} {targets} {first['size']} {first['start']} {asked['seconds']}"
    pause = next((line[5] / line[4] * 1000 * workers for line in lines if line[4]), None)
    found = figures.measured(key, asked["seconds"], blocks, round(share), outstanding * disks, pause)
    errors = 7 if started.fault == "io_errors" else 0
    whole = {**_cells(found, asked["seconds"], errors), **common}
    busy = {
        "% CPU Utilization": "23.456000",
        "% User Time": "3.500000",
        "% Privileged Time": "19.956000",
        "% DPC Time": "0.500000",
        "% Interrupt Time": "0.250000",
    }
    rest = {
        **busy,
        "Interrupts per Second": "12345.000000",
        "CPU Effectiveness": "321.000000",
        "Packets/Second": "0.000000",
        "Packet Errors": "0.000000",
        "Segments Retransmitted/Second": "0.000000",
    }
    rows = [
        _line(
            {
                **whole,
                **rest,
                "'Target Type": "ALL",
                "Target Name": "All",
                "# Managers": 1,
                "# Workers": workers,
                "# Disks": disks,
            }
        ),
        _line(
            {
                **whole,
                **rest,
                "'Target Type": "MANAGER",
                "Target Name": f"STAND-IN-{started.host.name}",
                "# Workers": workers,
                "# Disks": disks,
                "Processor Speed": TICKS_S,
            }
        ),
    ]
    for number in range(2):
        # Without the counters of latency.
        rows.append(
            _line(
                {**busy, "'Target Type": "PROCESSOR", "Target Name": f"CPU {number}", "Processor Speed": TICKS_S},
                BEFORE_BINS,
            )
        )
    written: dict = {}
    position = 0
    for worker, own in zip(active, targets):
        parts = [_divided(found, disks, position + number) for number in range(len(own))]
        position += len(own)
        rows.append(
            _line(
                {
                    **_cells(_added(parts), asked["seconds"], 0),
                    **common,
                    "'Target Type": "WORKER",
                    "Target Name": worker["name"],
                    "# Disks": len(own),
                    "Processor Speed": TICKS_S,
                }
            )
        )
        for (shown, path), part in zip(own, parts):
            rows.append(
                _line(
                    {
                        **_cells(part, asked["seconds"], 0),
                        "'Target Type": "DISK",
                        "Target Name": shown,
                        "Processor Speed": TICKS_S,
                    }
                )
            )
            if figures.written(part):
                written[path] = written.get(path, 0) + figures.written(part)
    return rows, written


def _blocks(lines: list) -> dict:
    """{read: mean size, write: mean size}."""
    weights = {"read": [line[1] * line[2] for line in lines], "write": [line[1] * (100 - line[2]) for line in lines]}
    return {
        name: sum(line[0] * weight for line, weight in zip(lines, each)) / sum(each) if sum(each) else 0.0
        for name, each in weights.items()
    }


def _divided(found: dict, disks: int, number: int) -> dict:
    """The share of one of so many disks."""
    parts = {}
    for name, one in found.items():
        values = {value: count // disks + (number < count % disks) for value, count in one["values"].items()}
        values = {value: count for value, count in values.items() if count}
        ios = sum(values.values())
        if ios:
            parts[name] = {"ios": ios, "bytes": round(one["bytes"] / one["ios"] * ios), "values": values}
    return parts


def _added(parts: list) -> dict:
    return {
        name: {
            "ios": sum(part[name]["ios"] for part in parts if name in part),
            "bytes": sum(part[name]["bytes"] for part in parts if name in part),
            "values": figures.both(*(part[name]["values"] for part in parts if name in part)),
        }
        for name in ("read", "write")
        if any(name in part for part in parts)
    }


def _cells(found: dict, seconds: float, errors: int) -> dict:
    """The columns of figures."""
    empty = {"ios": 0, "bytes": 0, "values": {}}
    sides = {"Read ": found.get("read", empty), "Write ": found.get("write", empty)}
    sides[""] = {
        "ios": sum(one["ios"] for one in sides.values()),
        "bytes": sum(one["bytes"] for one in sides.values()),
        "values": figures.both(*(one["values"] for one in sides.values())),
    }
    cells = {
        **dict.fromkeys(
            (
                "Transactions per Second",
                "Connections per Second",
                "Average Transaction Time",
                "Average Connection Time",
                "Maximum Transaction Time",
                "Maximum Connection Time",
            ),
            "0.000000",
        ),
        "Errors": errors,
        "Read Errors": errors,
        "Write Errors": 0,
        "Bytes Read": sides["Read "]["bytes"],
        "Bytes Written": sides["Write "]["bytes"],
        "Read I/Os": sides["Read "]["ios"],
        "Write I/Os": sides["Write "]["ios"],
        "Connections": 0,
    }
    for title, one in sides.items():
        cells.update(
            {
                f"{title}IOps": f"{one['ios'] / seconds:.6f}",
                f"{title}MiBps (Binary)": f"{one['bytes'] / seconds / (1 << 20):.6f}",
                f"{title}MBps (Decimal)": f"{one['bytes'] / seconds / 1e6:.6f}",
                f"Average {title}Response Time": f"{figures.mean(one['values']) / 1e6 if one['values'] else 0:.6f}",
                f"Maximum {title}Response Time": f"{max(one['values'], default=0) / 1e6:.6f}",
            }
        )
    counts = [0] * len(BINS)
    for value, count in sides[""]["values"].items():
        counts[bisect_right(TOPS, value)] += count
    return {**cells, **dict(zip(BINS, counts))}


def _line(cells: dict, columns: list | None = None) -> str:
    return ",".join(str(cells.get(column, "")) for column in columns or [*BEFORE_BINS, *BINS])
