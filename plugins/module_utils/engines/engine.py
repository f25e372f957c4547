# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The class of all engines, one for Linux and Windows; each is a file of its own, and catalogue.py lists them.

A *start* is one run of the engine's program. A *fill* writes a layer from its first byte to its last: an engine that knows an amount is started once,
and one that only knows a time (ByTime) is started again from where it came to until everything has been written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from ..core.failure import Failure, Fault
from ..core.layers import Layer
from ..result.schema import Measured, Series
from ..workload.meanings import meanings
from ..workload.point import Point, Server
from ..workload.workload import Direction, Workload, normalise

# A point may take this much longer than was asked for: starting up, waiting for I/O in flight.
GRACE_S = 60
# No disk worth measuring writes slower than this.
FILL_BYTES_S = 1 << 20
FILL_BLOCK_BYTES = 1 << 20
FILL_FIRST_S = 10
FILL_MOST_S = 3600
FILL_DEPTH = 8


class Place(NamedTuple):
    """Where and how an engine is started once."""

    folder: str  # the engine runs there
    windows: bool = False
    version: str = ""  # of the program, where the engine has to be told
    log_ms: int | None = None  # completed I/O is logged in windows of this length, for engines with a moments_file
    clock: str | None = None  # of fio on this host, see run/beat.py
    layers: dict[str, Layer] | None = None  # every known layer by name, for a point that is measured on many hosts


class Start(TypedDict):
    """One start of an engine's program."""

    arguments: list[str]  # behind the program's name
    files: dict[str, str]  # what it reads, by name in its folder
    job: dict[str, str]  # what was asked for, kept with the results
    limit_s: int  # a Windows host ends it then
    output: str  # the file that gets what it prints, or ''; of a Windows host
    link: str  # a second name for the measured file, or ''
    link_target: str
    licence_version: str  # whose licence counts as accepted meanwhile, or ''
    leaves: str  # the name of a program that it starts and may leave behind, or ''
    mark: str  # what stands in that one's command line


Make = Callable[[Place], Start]


def start(arguments: list[str], job: dict[str, str], limit_s: float, **more: dict[str, str] | str) -> Start:
    """A Start without what few engines have."""
    usual: dict[str, Any] = {
        "files": {},
        "output": "",
        "link": "",
        "link_target": "",
        "licence_version": "",
        "leaves": "",
        "mark": "",
    }
    made: Any = {**usual, **more, "arguments": arguments, "job": job, "limit_s": math.ceil(limit_s)}
    started: Start = made
    return started


class Engine:
    """A generator of I/O. The attributes say what it is and can do; the methods that raise NotImplementedError have to be written."""

    name = ""
    job_file = ""  # what it was asked for
    raw_file = ""  # what it answered
    begins = ""  # how its figures begin in raw_file; what stands before them are words
    comment = "# "  # begins a line of job_file that says nothing to the engine
    linux = False
    program = ""  # on Linux hosts
    package = ""  # of Debian, that brings the program, or ''
    moments_file = ""  # its log of when I/O ended, as Place.log_ms asks for it, or ''
    windows = True
    programs: tuple[str, ...] = ()  # on Windows hosts, where to look for it
    session = "service"  # or interactive: what it needs on a Windows host
    silence = ""  # what may be the matter when it wrote nothing until its end on a Windows host
    ceiling = False  # whether it can run without a device
    many_hosts = False  # whether it can measure one point on many hosts at once
    seeded = False  # whether the point's seed decides on offsets
    distributions = False  # whether it keeps latencies of which the percentiles of several repetitions can be told
    shares_runs = False  # whether one start of it can measure several points of a layer
    zeroes = True  # whether it can write zeroes
    opens_for_reading = True  # whether it opens what it only reads for reading alone, and changes nothing beside it
    workers_apart = False  # whether workers with sequential I/O each have a part of the range

    def check(self, point: Point) -> None:
        """Failure 'workload_unsupported' or 'bad_value' for what it cannot do. point: with path and size_bytes."""
        raise NotImplementedError

    def command(self, points: list[Point], place: Place) -> Start:
        """The start that measures these points, which are one unless it shares_runs."""
        raise NotImplementedError

    def fill(
        self, job: Point, block_bytes: int, position: int = 0, bytes_s: float | None = None, passes: int = 1
    ) -> tuple[Make, Point]:
        """(what makes the start, the point that it is of): writes the job's layer from a position on.

        bytes_s: how fast that was until now, None at the beginning. The point says in least_bytes what must be written for it to count.
        passes: how often, of an engine that takes the number in one start; it is started once for each otherwise.
        """
        raise NotImplementedError

    def results(self, text: str, servers: Sequence[Server] | None = None) -> list[Measured]:
        """Results of schema storlab.result/1 out of raw_file. servers: of a point on many hosts."""
        raise NotImplementedError

    # ---- what an engine may leave as it is

    def filled(self, text: str, _point: Point) -> tuple[int, float | None]:
        """(bytes that one fill has written for sure, bytes per second) out of its raw_file."""
        (result,) = self.results(text)
        return result.get("write", {}).get("bytes", 0), None

    def live(self, _printed: bytes) -> tuple[float | None, float | None]:
        """(IOPS, bytes per second) of the last moment, out of the end of what it printed so far."""
        return None, None

    def reports_error(self, _printed: str) -> bool:
        """Whether the engine has printed that an I/O failed."""
        return False

    def counted(self, _text: str, _directions: Sequence[Direction]) -> list[tuple[int, float]]:
        """(end of a window in ms since 1970, I/Os per second in it) of these directions, out of moments_file of a workload that goes on over errors."""
        return []

    def moments_ms(self, _text: str) -> list[int]:
        """When I/O ended, out of moments_file, as result/standstill.py takes it."""
        return []

    def series(self, _text: str) -> Sequence[Series | None]:
        """Contents of series.json, one for each result of raw_file; where the host does not count itself."""
        return []

    def settings(self, path: str | None, point: Point) -> dict[str, int | str]:
        """A result says this of the engine, beside its version."""
        return {"name": self.name, **({"randseed": point["seed"]} if self.seeded else {})}

    def check_program(self, _program: str, _points: list[Point]) -> None:
        """Failure when this program cannot measure these points."""

    def installed(self, folder: str, _kind: str) -> str:
        """Where the program is when a file of this kind (msi, zip, exe) was installed into a folder of a Windows host."""
        return f"{folder}\\{self.programs[0]}"

    def check_disk(self, path: str, disk: Mapping[str, object]) -> None:
        """Failure when it cannot keep to sizes on the disk that holds the path. disk: as scripts/state.ps1 reads it."""

    def batches(self, points: list[Point]) -> list[list[Point]]:
        """Points by starts, in the order of the plan."""
        return [[point] for point in points]

    def tests(self, _text: str, points: list[Point]) -> tuple[dict[str, int | None], list[Fault]]:
        """({point_id: position of its result in raw_file, None when it has none}, failures of no point in particular)."""
        return {point["point_id"]: 0 for point in points}, []

    def meanings(self, workload: Workload) -> list[str]:
        """Flags: how it reads a workload otherwise than other engines."""
        return meanings(workload, self.workers_apart)


class ByTime(Engine):
    """An engine that takes a time and no amount."""

    def fill(
        self, job: Point, block_bytes: int, position: int = 0, bytes_s: float | None = None, passes: int = 1
    ) -> tuple[Make, Point]:
        left, block = job["size_bytes"] - position, math.gcd(job["size_bytes"], block_bytes)
        seconds = FILL_FIRST_S if bytes_s is None else min(FILL_MOST_S, math.ceil(left / bytes_s * 1.1) + 1)
        workload = normalise(
            {
                "block_size": block,
                "read_percent": 0,
                "random_percent": 0,
                "queue_depth": FILL_DEPTH,
                "ramp_s": 0,
                "runtime_s": seconds,
                "range": {"offset_bytes": position, "size_bytes": left},
                **({"data": job["workload"]["data"]} if "data" in job["workload"] else {}),
            }
        )
        point: Point = {**job, "workload": workload, "least_bytes": block}
        return lambda place: self.command([point], place), point

    @staticmethod
    def written(result: Measured, point: Point) -> tuple[int, float | None]:
        """The answer of filled, out of a result."""
        if result["failures"]:
            raise Failure(
                result["failures"][0]["code"],
                result["failures"][0]["message"],
                "Look at the device, and at the host's event log.",
            )
        workload, size = point["workload"], result["write"]["bytes"]
        # I/O that was on its way at the end may be anywhere in the last blocks. Beyond the end of the range it began again.
        sure = max(0, size // workload["block_size_bytes"] - FILL_DEPTH) * workload["block_size_bytes"]
        return min(sure, workload["range"]["size_bytes"] or 0), size / result["runtime_s"]
