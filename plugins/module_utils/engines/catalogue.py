# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller has to know of each engine: the files of a point, what it can express, and how its output is read."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from ..core.failure import Failure, bad_value
from ..workload.point import Point
from ..workload.workload import extent
from . import diskspd, fio, icf, iometer


class Engine(NamedTuple):
    name: str
    job: str  # file with what it was asked to do
    raw: str  # file with what it said
    # (point with path and size_bytes): Failure 'workload_unsupported' or 'bad_value' for what it cannot do
    check: Callable[..., Any]
    results: Callable[[str], list[Any]]  # (text of raw) -> results of schema storlab.result/1
    # (text of raw) -> contents of series.json, one for each result; where the host does not count itself
    series: Callable[[str], Any] | None
    begins: str  # how its figures begin in raw; what stands before them are words
    ceiling: bool  # whether it can run without a device
    linux: bool  # whether it runs on Linux hosts, too
    seeded: bool  # whether the point's seed decides on offsets
    distributions: bool  # whether it keeps latencies of which the percentiles of several repetitions can be told
    shares_runs: bool  # whether one run of it can measure several points of a layer


def _check_diskspd(point: Point) -> None:
    extent(point["workload"], point["size_bytes"])
    diskspd.check(point["workload"], point["path"], point["size_bytes"])


def _check_iometer(point: Point) -> None:
    extent(point["workload"], point["size_bytes"])
    icf.target_of(point["path"])
    icf.check([point["workload"]])


def _own_diskspd(text: str) -> list[Any]:
    """What it measured; where it could not begin, its exit code and its words say more than its XML.

    That does not say either that it was told to write random data, as diskspd.argv always does, so its reader suspects what it was not told.
    """
    return [
        {**result, "flags": [flag for flag in result["flags"] if flag != "repeating_data"]}
        for result in diskspd.results(text)
        if "runtime_s" in result
    ]


ENGINES = {
    engine.name: engine
    for engine in (
        Engine(
            "fio",
            "job.fio",
            "fio.json",
            fio.check,
            fio.results,
            None,
            "{",
            ceiling=True,
            linux=True,
            seeded=True,
            distributions=True,
            shares_runs=False,
        ),
        Engine(
            "diskspd",
            "diskspd.txt",
            "diskspd.xml",
            _check_diskspd,
            _own_diskspd,
            diskspd.series,
            "<Results>",
            ceiling=False,
            linux=False,
            seeded=True,
            distributions=False,
            shares_runs=False,
        ),
        Engine(
            "iometer",
            "iometer.icf",
            "iometer.csv",
            _check_iometer,
            iometer.results,
            None,
            "'",
            ceiling=False,
            linux=False,
            seeded=False,
            distributions=False,
            shares_runs=True,
        ),
    )
}


def check_host(args: dict[str, Any], windows: bool) -> None:
    """Failure 'bad_value' for what cannot be measured on hosts of this kind. args: the arguments of the task benchmark."""
    if not windows:
        if not ENGINES[args["engine"]].linux:
            raise bad_value("engine", args["engine"], "It runs on Windows hosts only; use fio on this one.")
        return
    if args["servers"]:
        raise bad_value(
            "servers",
            [server.get("host") for server in args["servers"]],
            "Many hosts are measured at once from a Linux host; leave it out.",
        )
    if args["steady_state"] is not None:
        raise Failure(
            "bad_value",
            f"steady_state is {args['steady_state']!r}.",
            "It is not judged on Windows hosts; leave it out there.",
        )
