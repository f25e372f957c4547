# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads written as a configuration file of IOMeter."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..core.failure import bad_value
from ..workload.words import expressed_by
from ..workload.workload import SECTOR_BYTES, Direction, Workload, block_bounds, directions, unsupported
from .icf import LINE_COMMENT, RANDOM_DATA

VERSION = "1.1.0"
EXPRESSIBLE = expressed_by("iometer")


def group(normalised: list[Workload]) -> list[list[Workload]]:
    """The workloads in as few lists as files are needed: one file has one range, one duration and one number of workers.

    Several queue depths share a file when IOMeter can cycle through them: the same depths, evenly or geometrically spaced, for all. Then all
    depths of an access specification follow each other; the order is kept otherwise.
    """
    for workload in normalised:
        _refuse(workload)
    groups = []
    for members in _by(normalised, _of_file):
        in_a_row = [member for same in _by(members, _lines) for member in same]
        if _depth_cycle(members):
            groups.append(members)
        elif _depth_cycle(in_a_row):
            groups.append(in_a_row)
        else:
            groups += _by(members, lambda member: member["queue_depth"])
    return groups


def _by(normalised: list[Workload], key: Callable[[Workload], object]) -> list[list[Workload]]:
    """The workloads in a list for each value of the key, in the order of their first ones."""
    groups: dict[object, list[Workload]] = {}
    for member in normalised:
        groups.setdefault(key(member), []).append(member)
    return list(groups.values())


def _of_file(workload: Workload) -> tuple[object, ...]:
    return (
        workload["workers"],
        workload["runtime_s"],
        workload["ramp_s"],
        workload["range"]["offset_bytes"],
        workload["range"]["size_bytes"],
    )


def _depth_cycle(members: list[Workload]) -> tuple[int, int, int, str] | None:
    """(start, end, step, kind) when all run at one depth, or one access specification after the other at the same depths of a cycle; else None."""
    if len({member["queue_depth"] for member in members}) == 1:
        return members[0]["queue_depth"], members[0]["queue_depth"], 1, "LINEAR"
    patterns = _by(members, _lines)
    values = [member["queue_depth"] for member in patterns[0]]
    if members != [member for same in patterns for member in same] or any(
        [member["queue_depth"] for member in same] != values for same in patterns
    ):
        return None
    start, second, end = values[0], values[1], values[-1]
    if values == list(range(start, end + 1, max(1, second - start))):
        return start, end, second - start, "LINEAR"
    step = second // start
    if step > 1 and values == [start * step**power for power in range(len(values))]:
        return start, end, step, "EXPONENTIAL"
    return None


def write(
    normalised: list[Workload], targets: list[str], description: str = "storlab.testbed", manager: str = "localhost"
) -> str:
    """The .icf that runs the workloads (normalised, see group) on targets named as IOMeter names them.

    Targets are '<n>: "<name>"' for physical drive n, 'G: "<label>"' for the file iobw.tst on drive G, or a device's name on Linux. Every
    worker gets all of them. Failure 'workload_unsupported' for what IOMeter cannot do.
    """
    for label, value in (
        ("description", description),
        ("manager", manager),
        *(("target", target) for target in targets),
    ):
        if not isinstance(value, str) or not value.strip() or re.search(r"[\r\n]", value) or value.startswith("'"):
            raise bad_value(label, value, "Give one line of text that does not start with '.")
    if not targets:
        raise bad_value("targets", targets, "Give at least one.")
    cycle = _checked(normalised)
    specs = _named(normalised)
    first = normalised[0]
    cycles = cycle[0] != cycle[1]
    # Where depths cycle, one assignment of a specification stands for all of them.
    assigned = [name for name, depth in steps(normalised) if depth == cycle[0]]
    lines = [f"Version {VERSION} ", *_setup(description, first, cycle, cycles), "'ACCESS SPECIFICATIONS " + "=" * 57]
    for name, rows in specs.items():
        lines += [
            "'Access specification name,default assignment",
            f"\t{name},NONE",
            LINE_COMMENT,
            *("\t" + ",".join(map(str, row)) for row in rows),
        ]
    lines += [
        "'END access specifications",
        "'MANAGER LIST " + "=" * 66,
        "'Manager ID, manager name",
        f"\t1,{manager}",
        "'Manager network address",
        "\t",
    ]
    for number in range(first["workers"]):
        lines += _worker(f"Worker {number + 1}", first, assigned, targets)
    return "\n".join([*lines, "'End manager", "'END manager list", f"Version {VERSION} ", ""])


def steps(normalised: list[Workload]) -> list[tuple[str, int]]:
    """[(name of the access specification, queue depth)] of the tests that IOMeter makes of write(normalised, …), one for each workload, in their order.

    Each test is one block of results in the CSV, so that the n-th block is of the n-th workload; a block names both (iometer.results:
    job_name, workload.queue_depth). The order is that of GalileoView.cpp of IOMeter's source: the assigned specifications one after the other
    (access_index), and each at all depths from the start of the cycle on before the next (CycleQueue, InitAccessSpecRun).
    """
    _checked(normalised)
    names = {lines: name for name, lines in _named(normalised).items()}
    return [(names[_lines(member)], member["queue_depth"]) for member in normalised]


def target_of(path: str) -> str:
    """IOMeter's name of a drive, or of the volume that a file is on: there its file is iobw.tst in the root directory, whatever the path's is.

    IOMeter compares no more than the first two characters of such a name (Worker::LoadConfigTargets of its source), so the rest is ours.
    """
    drive = re.fullmatch(r"\\\\\.\\PhysicalDrive(\d)|([A-Za-z]):\\.*", path, re.DOTALL)
    if not drive:
        raise bad_value(
            "IOMeter target",
            path,
            r"IOMeter finds drives 0 to 9 by their number only: give \\.\PhysicalDrive0 to 9, or a file like T:\name.dat.",
        )
    return f'{drive[1] or drive[2].upper()}: "storlab"'


def check(normalised: list[Workload]) -> None:
    """Failure for what write() cannot say of these workloads. The text is made where it is run, and only there."""
    _checked(normalised)
    _named(normalised)


def _checked(normalised: list[Workload]) -> tuple[int, int, int, str]:
    """The cycle of queue depths of one file. Failure when the workloads do not fit into one."""
    if not normalised:
        raise bad_value("workloads", normalised, "Give at least one.")
    for member in normalised:
        _refuse(member)
    if len(_by(normalised, _of_file)) > 1:
        raise unsupported(
            "One IOMeter configuration",
            "workers, run time, ramp and range",
            sorted({str(_of_file(member)) for member in normalised}),
            "Write one file for each, as group() divides them.",
        )
    cycle = _depth_cycle(normalised)
    if not cycle:
        raise unsupported(
            "One IOMeter configuration",
            "queue_depth",
            [member["queue_depth"] for member in normalised],
            "Give one access pattern after the other, each at the same evenly or geometrically spaced depths, or write one file a depth.",
        )
    return cycle


def _setup(description: str, first: Workload, cycle: tuple[int, int, int, str], cycles: bool) -> list[str]:
    hours, minutes, seconds = first["runtime_s"] // 3600, first["runtime_s"] // 60 % 60, first["runtime_s"] % 60
    start, end, step, kind = cycle if cycles else (1, 32, 2, "EXPONENTIAL")
    row = "{:<11}{:<11}{}".format
    return [
        "'TEST SETUP " + "=" * 68,
        "'Test Description",
        "\t" + description.replace(",", "-"),
        "'Run Time",
        "'\t" + row("hours", "minutes", "seconds"),
        "\t" + row(hours, minutes, seconds),
        "'Ramp Up Time (s)",
        f"\t{first['ramp_s']}",
        "'Default Disk Workers to Spawn",
        f"\t{first['workers']}",
        "'Default Network Workers to Spawn",
        "\t0",
        "'Record Results",
        "\tALL",
        "'Worker Cycling",
        "'\t" + row("start", "step", "step type"),
        "\t" + row(1, 1, "LINEAR"),
        "'Disk Cycling",
        "'\t" + row("start", "step", "step type"),
        "\t" + row(1, 1, "LINEAR"),
        "'Queue Depth Cycling",
        "'\t{:<11}{:<11}{:<11}{}".format("start", "end", "step", "step type"),
        f"\t{start:<11}{end:<11}{step:<11}{kind}",
        "'Test Type",
        "\tCYCLE_OUTSTANDING_IOS" if cycles else "\tNORMAL",
        "'END test setup",
        "'RESULTS DISPLAY " + "=" * 63,
        "'Record Last Update Results,Update Frequency,Update Type",
        "\tDISABLED,1,WHOLE_TEST",
        "'END results display",
    ]


def _worker(name: str, first: Workload, specs: list[str], targets: list[str]) -> list[str]:
    text = [
        "'Worker",
        f"\t{name}",
        "'Worker type",
        "\tDISK",
        "'Default target settings for worker",
        "'Number of outstanding IOs,test connection rate,transactions per connection,use fixed seed,fixed seed value",
        f"\t{first['queue_depth']},DISABLED,1,DISABLED,0",
        "'Disk maximum size,starting sector,Data pattern",
        f"\t{(first['range']['size_bytes'] or 0) // SECTOR_BYTES},{first['range']['offset_bytes'] // SECTOR_BYTES},{RANDOM_DATA}",
        "'End default target settings for worker",
        "'Assigned access specs",
        *("\t" + spec for spec in specs),
        "'End assigned access specs",
        "'Target assignments",
    ]
    for target in targets:
        text += ["'Target", f"\t{target}", "'Target type", "\tDISK", "'End target"]
    return [*text, "'End target assignments", "'End worker"]


def _refuse(workload: Workload) -> None:
    """Failure 'workload_unsupported' when the workload says what IOMeter has no word for."""
    for key, value in workload.items():
        if key not in EXPRESSIBLE:
            raise unsupported("IOMeter", key, value, "Leave it out, or use another engine.")
    if not workload["direct"]:
        raise unsupported("IOMeter", "direct", False, "It always bypasses the cache; set direct to true.")
    if workload.get("think_time_us", 0) % 1000:
        raise unsupported(
            "IOMeter",
            "think_time_us",
            workload["think_time_us"],
            "It pauses for whole milliseconds; use a multiple of 1000.",
        )
    if not workload["random_percent"] and workload["alignment_bytes"] > block_bounds(workload)[0]:
        raise unsupported(
            "IOMeter",
            "alignment_bytes",
            workload["alignment_bytes"],
            "Sequential I/O aligned to more than a block leaves gaps; use the block size.",
        )


def _lines(workload: Workload) -> tuple[Any, ...]:
    """The lines of the access specification, as tuples by LINE_KEYS."""
    tail = (
        workload["random_percent"],
        workload.get("think_time_us", 0) // 1000,
        workload.get("burst", 1),
        workload["alignment_bytes"],
        0,
    )
    if "block_sizes" not in workload:
        return ((workload["block_size_bytes"], 100, workload["read_percent"], *tail),)
    mixes = {name: workload["block_sizes"][name] for name in directions(workload)}
    if len({str(mix) for mix in mixes.values()}) == 1:
        mix = next(iter(mixes.values()))
        return tuple((part["size_bytes"], part["percent"], workload["read_percent"], *tail) for part in mix)
    rows = []
    sides: tuple[tuple[Direction, int, int], ...] = (
        ("read", workload["read_percent"], 100),
        ("write", 100 - workload["read_percent"], 0),
    )
    for name, share, reads in sides:
        for part in mixes[name]:
            if share * part["percent"] % 100:
                raise unsupported(
                    "IOMeter",
                    "block_sizes",
                    workload["block_sizes"],
                    f"{part['percent']} % of {share} % {name}s is not a whole percent of all I/Os; "
                    "choose shares that are.",
                )
            rows.append((part["size_bytes"], share * part["percent"] // 100, reads, *tail))
    return tuple(sorted(rows))


def _named(normalised: list[Any]) -> dict[str, Any]:
    """{name: lines} with a name that says what it is; IOMeter's names have no comma and fewer than 128 characters."""
    names: dict[str, Any] = {}
    for lines in dict.fromkeys(map(_lines, normalised)):
        size, _share, reads, random, delay, burst, align, _reply = lines[0]
        mixed = len(lines) > 1
        reads = sum(line[1] * line[2] for line in lines) // 100
        name = f"{f'mix of {len(lines)}' if mixed else f'{size} B'}; {reads}% Read; {random}% random"
        if mixed or align != size:
            name += f"; aligned {align} B"
        if delay:
            name += f"; {delay} ms after {burst}"
        number = 2
        unique = name
        while unique in names:
            unique, number = f"{name} #{number}", number + 1
        names[unique] = lines
    return names
