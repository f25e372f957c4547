# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IOMeter's configuration files (.icf), read as workloads; icf_writer.py writes them.

The grammar is that of IOMeter 1.1.0's own reader and writer (PageSetup, AccessSpecList, ManagerList and Worker of its source); files of
2006.07.27 are read too. A line that starts with ' is a key, what follows it up to the next such line is its value.

An access specification is a list of lines. Before each burst IOMeter draws a line, by '% of size'; the line says size, share of reads,
share of random offsets, pause, burst and alignment. One workload has a mix of sizes for reads and one for writes, but one of everything
else, so lines that differ in anything else are not one workload.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..core.failure import Failure, bad_value
from ..workload.meanings import DIFFERENCES, meanings
from ..workload.workload import SECTOR_BYTES, Range, Workload, normalise, unsupported

LINE_COMMENT = "'size,% of size,% reads,% random,delay,burst,align,reply"
LINE_KEYS = ("size", "of_size", "reads", "random", "delay", "burst", "align", "reply")
# The specification that IOMeter always has, in which a worker rests.
IDLE = "Idle"
# 'Data pattern' of the target settings, by position. Only the last is what a workload writes unless set otherwise.
PATTERNS = ("the same byte throughout an I/O", "pseudo random data", "random data")
RANDOM_DATA = 2
CYCLES = {"NORMAL": None, "CYCLE_OUTSTANDING_IOS": "queue depth cycling", "CYCLE_WORKERS": "worker cycling"}


# ---------------------------------------------------------------- access specifications


def access_line(line: str, where: str) -> dict[str, int]:
    """One line of an access specification by LINE_KEYS; sizes in bytes, delay in milliseconds, burst in I/Os."""
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(LINE_KEYS) or not all(re.fullmatch(r"\d{1,10}", cell) for cell in cells):
        raise _unreadable(where, f"{line[:60]!r} is not a line of an access specification (8 whole numbers)")
    values = dict(zip(LINE_KEYS, map(int, cells)))
    for key in ("of_size", "reads", "random"):
        if values[key] > 100:
            raise _unreadable(where, f"a share is {values[key]} %")
    return values


def workload(name: str, lines: list[dict[str, int]], common: Mapping[str, object]) -> Workload:
    """The normalised workload of an access specification (access_line's mappings) and of what else is known of it (workload keys)."""
    variable = f"access specification {name!r}"
    lines = [line for line in lines if line["of_size"]]
    if sum(line["of_size"] for line in lines) != 100:
        raise _unreadable(variable, "the shares of its lines do not add up to 100 %")
    for key, words in (
        ("random", "share of random offsets"),
        ("delay", "delay"),
        ("burst", "burst"),
        ("align", "alignment"),
    ):
        values = sorted({line[key] for line in lines})
        if len(values) > 1:
            raise unsupported(
                "One workload", f"{variable}: {words}", values, "Give each value a specification of its own."
            )
    if any(line["reply"] for line in lines):
        raise unsupported(
            "A workload",
            f"{variable}: reply",
            [line["reply"] for line in lines],
            "Replies are of network targets; set it to 0.",
        )
    first = lines[0]
    settings: dict[str, object] = {**_mix(variable, lines), "random_percent": first["random"], **common}
    if first["delay"]:
        settings.update(think_time_us=first["delay"] * 1000, burst=max(1, first["burst"]))
    if first["align"]:
        settings["alignment_bytes"] = first["align"]
    elif first["random"]:
        settings["alignment_bytes"] = SECTOR_BYTES
    # Sequential I/O without a word on alignment follows its sizes, which is what a workload says by saying nothing.
    return normalise(settings, variable)


def _mix(variable: str, lines: list[dict[str, int]]) -> dict[str, object]:
    reads = sum(line["of_size"] * line["reads"] for line in lines)
    if reads % 100:
        raise unsupported(
            "A workload",
            f"{variable}: share of reads over all lines",
            reads / 100,
            "Choose shares that give whole percents.",
        )
    mix = {"read_percent": reads // 100}
    if len({line["size"] for line in lines}) == 1:
        return {"block_size": lines[0]["size"], **mix}
    if len({line["reads"] for line in lines}) == 1:
        return {"block_size": _shares(variable, [(line["size"], line["of_size"]) for line in lines]), **mix}
    parts = {
        "read": [(line["size"], line["of_size"] * line["reads"]) for line in lines],
        "write": [(line["size"], line["of_size"] * (100 - line["reads"])) for line in lines],
    }
    return {
        "block_size": {
            direction: _shares(variable, sizes)
            for direction, sizes in parts.items()
            if any(weight for size, weight in sizes)
        },
        **mix,
    }


def _shares(variable: str, sizes: list[tuple[int, int]]) -> dict[int, int]:
    """{size: percent} of [(size, weight)]."""
    total = sum(weight for size, weight in sizes)
    weights: dict[int, int] = {}
    for size, weight in sizes:
        if weight:
            weights[size] = weights.get(size, 0) + weight
    for size, weight in weights.items():
        if weight * 100 % total:
            raise unsupported(
                "A workload",
                f"{variable}: share of {size} bytes",
                f"{weight / total:.2%}",
                "Choose shares that give whole percents.",
            )
    return {size: weight * 100 // total for size, weight in weights.items()}


def disk_range(start_sector: int, size_sectors: int) -> dict[str, Range]:
    """{range: …} of 'starting sector' and 'disk maximum size' (0 = to the end); nothing when it is everything.

    IOMeter counts sectors of the device; 512 bytes is what all but native 4 KiB disks have.
    """
    if not start_sector and not size_sectors:
        return {}
    return {"range": {"offset_bytes": start_sector * SECTOR_BYTES, "size_bytes": size_sectors * SECTOR_BYTES or None}}


# ---------------------------------------------------------------- reading a file


def _unreadable(where: str, why: str) -> Failure:
    return Failure(
        "icf_unreadable",
        f"The IOMeter configuration cannot be read at {where}: {why}.",
        "Use a file that IOMeter 2006.07.27 to 1.1.0 saved, or correct the line.",
        where=where,
    )


_IGNORED = (
    "results display",
    "end results display",
    "test setup",
    "end test setup",
    "access specifications",
    "end access specifications",
    "manager list",
    "end manager list",
    "default disk workers to spawn",
    "default network workers to spawn",
    "record results",
    "hours minutes seconds",
    "start step step type",
    "start end step step type",
    "manager network address",
    "end manager",
    "end worker",
    "end default target settings for worker",
    "default target settings for worker",
    "end assigned access specs",
    "target assignments",
    "target type",
    "end target",
    "end target assignments",
    "disk cycling",
    "update frequency,update type",
    "record last update results,update frequency,update type",
)
_VALUES_BELOW_A_COMMENT = ("run time", "worker cycling", "queue depth cycling", "disk cycling")


def read(text: str) -> dict[str, Any]:
    """The contents of the file, unchanged:

    {description, runtime_s, ramp_s, test_type, cycling: {<key>: [words]}, specs: {name: [access_line]},
    workers: [{manager, name, type, queue_depth, reconnects, size_sectors, start_sector, data_pattern, specs: [name], targets: [name]}]}
    """
    file: dict[str, Any] = {
        "description": "",
        "runtime_s": None,
        "ramp_s": None,
        "test_type": "NORMAL",
        "cycling": {},
        "specs": {},
        "workers": [],
    }
    key = manager = None
    spec: list[dict[str, Any]] | None = None
    waiting = None
    if not re.match(r"\s*Version \d", text):
        raise _unreadable("line 1", "it does not start with a line 'Version …'")
    for number, raw in enumerate(text.splitlines(), 1):
        where, line = f"line {number}", raw.strip()
        if not line or line.startswith("Version "):
            continue
        if line.startswith("'"):
            key = re.sub(r"\s*=+$", "", " ".join(line[1:].split()).lower())
            if key in _VALUES_BELOW_A_COMMENT:
                waiting = key
            if key == "worker":
                file["workers"].append(
                    {
                        "manager": manager,
                        "name": "",
                        "type": "DISK",
                        "queue_depth": 1,
                        "reconnects": False,
                        "size_sectors": 0,
                        "start_sector": 0,
                        "data_pattern": 0,
                        "specs": [],
                        "targets": [],
                    }
                )
        elif key == "hours minutes seconds" and waiting == "run time":
            hours, minutes, seconds = _numbers(line.split(), 3, where)
            file["runtime_s"] = hours * 3600 + minutes * 60 + seconds
        elif key in ("start step step type", "start end step step type"):
            file["cycling"][waiting] = line.split()
        elif key == "test description":
            file["description"] = line
        elif key == "ramp up time (s)":
            file["ramp_s"] = _numbers([line], 1, where)[0]
        elif key == "test type":
            file["test_type"] = line
        elif key == "access specification name,default assignment":
            spec = file["specs"][line.rsplit(",", 1)[0]] = []
        elif key == LINE_COMMENT[1:] and spec is not None:
            spec.append(access_line(line, where))
        elif key == "manager id, manager name":
            manager = line.split(",", 1)[-1]
        elif file["workers"] and _of_worker(file["workers"][-1], key, line, where):
            continue
        elif key not in _IGNORED and not (key or "").startswith("bar chart "):
            raise _unreadable(where, f"there is no key {key!r} here")
    return file


def _of_worker(worker: dict[str, Any], key: Any, line: str, where: str) -> bool:
    """Take up a value of a worker; False when the key is none of a worker's."""
    if key == "worker":
        worker["name"] = line
    elif key == "worker type":
        worker["type"] = line
    elif (key or "").startswith("number of outstanding ios,"):
        cells = line.split(",")
        worker["queue_depth"] = _numbers(cells[:1], 1, where)[0]
        worker["reconnects"] = "ENABLED" in cells[1:2]
    elif (key or "").startswith("disk maximum size,starting sector"):
        numbers = _numbers(line.split(","), None, where)
        worker["size_sectors"], worker["start_sector"], worker["data_pattern"] = [*numbers, 0, 0][:3]
    elif key == "assigned access specs":
        worker["specs"].append(line)
    elif key == "target":
        worker["targets"].append(line)
    else:
        return False
    return True


def _numbers(cells: list[str], count: int | None, where: str) -> list[int]:
    if (count is not None and len(cells) != count) or not all(re.fullmatch(r"\s*\d{1,15}\s*", cell) for cell in cells):
        raise _unreadable(where, f"{' '.join(cells)[:60]!r} is not {'a number' if count == 1 else 'numbers'}")
    return [int(cell) for cell in cells]


def workloads(text: str, runtime_s: int | None = None, ramp_s: int | None = None) -> list[Any]:
    """[{name, workload (normalised), targets, notes}] of a file, in the order in which IOMeter would run them.

    runtime_s and ramp_s replace the file's own; the first is needed where the file says 'run until stopped'.
    Without workers the file is a library, and every specification is one workload at queue depth 1.
    notes: what IOMeter would do otherwise than an engine that is given the workload.
    """
    file = read(text)
    common = {
        "runtime_s": file["runtime_s"] if runtime_s is None else runtime_s,
        "ramp_s": (file["ramp_s"] or 0) if ramp_s is None else ramp_s,
    }
    if not common["runtime_s"]:
        raise bad_value(
            "run time of the IOMeter configuration",
            common["runtime_s"],
            "The file says to run until stopped; give runtime_s.",
        )
    if file["test_type"] not in CYCLES:
        raise unsupported(
            "A workload",
            "test type",
            file["test_type"],
            "Save the file with test type NORMAL, or with outstanding I/Os or workers cycling.",
        )
    workers = [
        worker
        for worker in file["workers"]
        if worker["type"] == "DISK" and any(name != IDLE for name in worker["specs"])
    ]
    others = sorted({worker["type"] for worker in file["workers"]} - {"DISK"})
    if others:
        raise unsupported("A workload", "worker type", others, "Remove the network workers from the file.")
    if file["workers"] and not workers:
        raise bad_value(
            "access specifications of the workers in the IOMeter configuration",
            [],
            "No worker is assigned any, so IOMeter would do nothing; assign one, or remove the workers to have every specification of the file.",
        )
    if not file["workers"] and not set(file["specs"]) - {IDLE}:
        raise bad_value(
            "access specifications of the IOMeter configuration", [], "The file has none; save it with at least one."
        )
    if not workers:
        return [
            _entry(file, name, [], {**common, "queue_depth": 1, "workers": 1}, None)
            for name in file["specs"]
            if name != IDLE
        ]
    entries = []
    for position in range(max(len(worker["specs"]) for worker in workers)):
        active = [worker for worker in workers if worker["specs"][position : position + 1] not in ([], [IDLE])]
        if active:
            entries += _step(file, position, active, common)
    return entries


def _step(file: dict[str, Any], position: int, active: list[Any], common: dict[str, Any]) -> list[Any]:
    """The workloads of one step: what all active workers do at the same time."""

    def common_value(what: str, values: list[Any]) -> Any:
        if any(value != values[0] for value in values):
            raise unsupported(
                "One workload",
                f"what the workers do at step {position + 1} at the same time ({what})",
                sorted(set(map(str, values))),
                "Give all workers the same, or one file each.",
            )
        return values[0]

    name = common_value("access specification", [worker["specs"][position] for worker in active])
    if name not in file["specs"]:
        raise _unreadable(f"worker {active[0]['name']!r}", f"there is no access specification {name!r}")
    depth = common_value("outstanding I/Os", [worker["queue_depth"] for worker in active])
    span = common_value(
        "maximum size and starting sector", [(worker["size_sectors"], worker["start_sector"]) for worker in active]
    )
    pattern = common_value("data pattern", [worker["data_pattern"] for worker in active])
    if any(worker["reconnects"] for worker in active):
        raise unsupported("A workload", "test connection rate", "ENABLED", "Save the file with it disabled.")
    # Targets are layers, and a workload is of one layer: how many workers each target has is its number of workers.
    assigned = [(worker["manager"], target) for worker in active for target in worker["targets"]]
    shares = {place: assigned.count(place) for place in assigned}
    count = common_value("workers a target", list(shares.values())) if shares else len(active)
    targets = [target for manager, target in shares]
    depths = (
        _cycle(file, "queue depth cycling", None) if CYCLES[file["test_type"]] == "queue depth cycling" else [depth]
    )
    counts = _cycle(file, "worker cycling", count) if CYCLES[file["test_type"]] == "worker cycling" else [count]
    common = {**common, **disk_range(span[1], span[0])}
    return [
        _entry(
            file, name, targets, {**common, "queue_depth": each, "workers": number}, pattern, _together(active, number)
        )
        for number in counts
        for each in depths
    ]


def _together(active: list[Any], workers: int) -> list[str]:
    """Settings of workers with several targets, which a workload of one target cannot express."""
    most = max(len(worker["targets"]) for worker in active)
    if most < 2:
        return []
    return [
        f"One worker of IOMeter drives {most} targets at the same time, each at this queue depth; this workload is of one of them, "
        f"with {workers} worker{'' if workers == 1 else 's'} of its own."
    ]


def _cycle(file: dict[str, Any], key: str, end: int | None) -> list[int]:
    """The values of a cycle: start, then added to or multiplied by the step, up to the end."""
    words = file["cycling"].get(key, [])
    numbers = [int(word) for word in words if re.fullmatch(r"\d{1,6}", word)]
    kind = words[-1].upper() if words else ""
    if len(numbers) != (3 if end is None else 2) or kind not in ("LINEAR", "EXPONENTIAL") or not numbers[0]:
        raise _unreadable(key, f"{' '.join(words)!r} is not a cycle")
    start, step, last = numbers[0], numbers[-1], numbers[1] if end is None else end
    if not step or (kind == "EXPONENTIAL" and step == 1):
        raise _unreadable(key, f"{' '.join(words)!r} never ends")
    value = start
    values: list[int] = []
    while value <= last and len(values) <= 1000:
        values.append(value)
        value = value + step if kind == "LINEAR" else value * step
    return values


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _entry(
    file: dict[str, Any],
    name: str,
    targets: list[Any],
    common: dict[str, Any],
    pattern: Any,
    notes: Iterable[str] = (),
) -> dict[str, Any]:
    translated = workload(name, file["specs"][name], common)
    notes = [*notes, *(_sentence(DIFFERENCES[flag]) for flag in meanings(translated, workers_apart=False))]
    if pattern not in (None, RANDOM_DATA) and translated["read_percent"] < 100:
        pattern_words = PATTERNS[pattern] if pattern < len(PATTERNS) else f"data pattern {pattern}"
        notes.append(f"IOMeter writes {pattern_words}; this workload writes random data.")
    return {"name": name, "workload": translated, "targets": targets, "notes": notes}
