# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How each engine is run on a Windows host: which points share a run of it, its files and command line, and what becomes of its output.

A *run* is one start of an engine::

    {arguments: [text], files: {name: text}, output: file for what it prints or '', limit_s: when it is ended,
     link, link_target: a second name for the measured file or '', licence_version: of IOMeter or '', job: {name: text} that says what was asked,
     leaves, mark: the name of a program that it starts and may leave behind, and what stands in that one's command line; or ''}

A *fill* writes a layer once, from its first byte to its last. fio can be told to; the others write for a time, so they are run again from where
they came to until everything has been written.
"""

from __future__ import annotations

import math
import re
import zlib
from typing import Any

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.engines import diskspd, fio, icf, iometer
from ...module_utils.engines.catalogue import ENGINES
from ...module_utils.workload.point import Point
from ...module_utils.workload.workload import SECTOR_BYTES, extent, normalise

# A point may take this much longer than asked for: starting up, waiting for I/O in flight.
GRACE_S = 60
# IOMeter waits so long for its Dynamo, and at least a few seconds pass between two of its tests.
LOGIN_S = 60
BETWEEN_TESTS_S = 10
# IOMeter and its Dynamo meet at a port of their own, which tells that Dynamo from every other. Below those that Windows itself gives out.
FIRST_PORT, PORTS = 20000, 10000
# A run of IOMeter that breaks off loses the test that it was in, and its files are kept for every point.
MOST_TESTS = 64
# No disk worth measuring writes slower than this.
FILL_BYTES_S = 1 << 20
FILL_BLOCK_BYTES = 1 << 20
FILL_FIRST_S = 10
FILL_MOST_S = 3600
FILL_DEPTH = 8
SESSIONS = ("auto", "service", "interactive")
SPEC = {
    "program": {"type": "str"},
    "root": {"type": "str", "default": "C:\\storlab"},
    "session": {"type": "str", "choices": list(SESSIONS), "default": "auto"},
    "iometer_version": {"type": "str", "default": "1.1.0"},
}


def check(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings; raises bad_value."""
    check_root(settings["root"])
    if not re.fullmatch(r"[0-9][0-9.]{0,30}", settings["iometer_version"]):
        raise bad_value(
            "benchmark_windows.iometer_version",
            settings["iometer_version"],
            "Use the version that IOMeter shows, such as 1.1.0.",
        )
    return settings


def check_root(root: str) -> None:
    """IOMeter takes no other characters in the names of files."""
    if not re.fullmatch(r"[A-Za-z]:(\\[A-Za-z0-9_-][A-Za-z0-9_.-]*){1,4}", root):
        raise bad_value(
            "benchmark_windows.root",
            root,
            "Use a folder on a local drive, of letters, digits, dot, dash and underscore, such as C:\\storlab.",
        )


class _AnyDisk:
    """An engine whose sizes are in bytes, so that any sector size of a disk will do."""

    def check_disk(self, path: str, disk: dict[str, Any]) -> None:
        """Failure when it cannot keep to sizes on the disk with the path, or beneath it. disk: as scripts/state.ps1 reads it."""


class Fio(_AnyDisk):
    """One point per run. silence: what may be the matter when it wrote nothing until its end."""

    name, session, shares_runs, silence = "fio", "service", ENGINES["fio"].shares_runs, ""
    # Its package adds itself to the search path, which shells that are open already do not notice.
    programs = ("fio.exe", "C:\\Program Files\\fio\\fio.exe")

    def installed(self, _folder: str, _kind: str) -> str:
        """Where the program is when its package was installed."""
        return self.programs[1]

    def batches(self, points: list[Point]) -> list[Any]:
        return [[point] for point in points]

    def run(self, points: list[Point], _folder: str, _settings: dict[str, Any]) -> dict[str, Any]:
        (point,) = points
        workload = point["workload"]
        return self._run(fio.job_file(point), workload["ramp_s"] + workload["runtime_s"] + GRACE_S)

    def _run(self, text: str, limit_s: float) -> dict[str, Any]:
        engine = ENGINES["fio"]
        return {
            "arguments": ["--output-format=json+", f"--output={engine.raw}", engine.job],
            "files": {engine.job: text},
            "job": {engine.job: text},
            "output": "",
            "limit_s": math.ceil(limit_s),
            "link": "",
            "link_target": "",
            "licence_version": "",
            "leaves": "",
            "mark": "",
        }

    def fill(
        self, job: Point, block_bytes: int, _position: int, _bytes_s: Any, _settings: dict[str, Any]
    ) -> tuple[Any, ...]:
        """(function of the folder that makes the run, point that it is a run of): what writes the layer from a position on.

        bytes_s: how fast that was until now, None at the beginning. The point says in least_bytes what must be written for it to count.
        """
        run = self._run(fio.fill_file(job, block_bytes), job["size_bytes"] / FILL_BYTES_S + GRACE_S)
        return lambda _folder: run, {**job, "least_bytes": job["size_bytes"]}

    def filled(self, text: str, _point: Point) -> tuple[Any, ...]:
        """(bytes that are written for sure, bytes per second)."""
        (result,) = fio.results(text)
        return result.get("write", {}).get("bytes", 0), None


class _ByTime:
    """What cannot be told how much to write."""

    def run(self, points: list[Point], folder: str, settings: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def fill(
        self, job: Point, block_bytes: int, position: int, bytes_s: Any, settings: dict[str, Any]
    ) -> tuple[Any, ...]:
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
        return lambda folder: self.run([point], folder, settings), point

    @staticmethod
    def _written(result: dict[str, Any], point: Point) -> tuple[Any, ...]:
        if result["failures"]:
            raise Failure(
                result["failures"][0]["code"],
                result["failures"][0]["message"],
                "Look at the device, and at the host's event log.",
            )
        workload, size = point["workload"], result["write"]["bytes"]
        # What was on its way at the end may lie anywhere in the last blocks. Beyond the end of the range it began anew.
        sure = max(0, size // workload["block_size_bytes"] - FILL_DEPTH) * workload["block_size_bytes"]
        return min(sure, workload["range"]["size_bytes"]), size / result["runtime_s"]


class Diskspd(_AnyDisk, _ByTime):
    """One point per run."""

    name, session, shares_runs, silence = "diskspd", "service", ENGINES["diskspd"].shares_runs, ""
    programs = ("diskspd.exe",)

    def installed(self, folder: str, kind: str) -> str:
        return f"{folder}\\amd64\\diskspd.exe" if kind == "zip" else f"{folder}\\diskspd.exe"

    def batches(self, points: list[Point]) -> list[Any]:
        return [[point] for point in points]

    def run(self, points: list[Point], _folder: str, _settings: dict[str, Any]) -> dict[str, Any]:
        (point,) = points
        engine, workload = ENGINES["diskspd"], point["workload"]
        argv = diskspd.argv(workload, point["path"], point["seed"], point["size_bytes"])
        return {
            "arguments": argv[1:],
            "files": {},
            "job": {engine.job: " ".join(argv) + "\n"},
            "output": engine.raw,
            "limit_s": math.ceil(workload["ramp_s"] + workload["runtime_s"] + GRACE_S),
            "link": "",
            "link_target": "",
            "licence_version": "",
            "leaves": "",
            "mark": "",
        }

    def filled(self, text: str, point: Point) -> tuple[Any, ...]:
        (result,) = diskspd.results(text)
        return self._written(result, point)


class Iometer(_ByTime):
    """As many points a run as one configuration can hold, as long as the order of the plan is kept."""

    name, session, shares_runs = "iometer", "interactive", ENGINES["iometer"].shares_runs
    programs = ("IOmeter.exe",)
    silence = (
        " It wrote nothing: it may have waited for a dialog, such as its licence. See that benchmark_windows.iometer_version is the version "
        "that it shows."
    )

    def installed(self, folder: str, _kind: str) -> str:
        return f"{folder}\\IOmeter.exe"

    def check_disk(self, path: str, disk: dict[str, Any]) -> None:
        if disk["sector_bytes"] != SECTOR_BYTES:
            raise Failure(
                "workload_unsupported",
                f"IOMeter counts sectors, and those of {path} have {disk['sector_bytes']} bytes, not {SECTOR_BYTES}.",
                "Use another engine for this disk.",
                engine="iometer",
                path=path,
                sector_bytes=disk["sector_bytes"],
            )

    def batches(self, points: list[Point]) -> list[Any]:
        batches, left = [], list(points)
        while left:
            same = next((index for index, point in enumerate(left) if point["layer"] != left[0]["layer"]), len(left))
            count = next(
                count
                for count in range(min(same, MOST_TESTS), 0, -1)
                if self._share_file([point["workload"] for point in left[:count]])
            )
            batches.append(left[:count])
            left = left[count:]
        return batches

    @staticmethod
    def _share_file(workloads: list[Any]) -> bool:
        """Whether one configuration runs these in this order."""
        return icf.group(workloads) == [workloads]

    @staticmethod
    def _workloads(points: list[Point]) -> list[Any]:
        """With their range said, on a file: IOMeter would make it larger until the volume is full."""
        if points[0]["path"].startswith("\\\\"):
            return [point["workload"] for point in points]
        spans = [extent(point["workload"], point["size_bytes"]) for point in points]
        return [
            {**point["workload"], "range": {"offset_bytes": offset, "size_bytes": size}}
            for point, (offset, size) in zip(points, spans)
        ]

    def run(self, points: list[Point], folder: str, settings: dict[str, Any]) -> dict[str, Any]:
        engine, path = ENGINES["iometer"], points[0]["path"]
        on_file = not path.startswith("\\\\")
        port = FIRST_PORT + zlib.crc32(folder.encode()) % PORTS
        workloads = self._workloads(points)
        text = icf.write(workloads, [icf.target_of(path)]).replace("\n", "\r\n")
        limit_s = (
            LOGIN_S
            + sum(workload["ramp_s"] + workload["runtime_s"] + BETWEEN_TESTS_S for workload in workloads)
            + GRACE_S
        )
        return {
            "arguments": [
                "/c",
                f"{folder}\\{engine.job}",
                "/r",
                f"{folder}\\{engine.raw}",
                "/t",
                str(LOGIN_S),
                "/p",
                str(port),
            ],
            # It starts Dynamo as "dynamo -p <port>", through a shell that ends at once, and no other run has this port.
            "leaves": "Dynamo.exe",
            "mark": f"-p {port}",
            "files": {engine.job: text},
            "job": {engine.job: text},
            "output": "",
            "limit_s": math.ceil(limit_s),
            "licence_version": settings["iometer_version"],
            # On a volume IOMeter knows one file only, of this name.
            "link": f"{path[:2]}\\iobw.tst" if on_file else "",
            "link_target": path if on_file else "",
        }

    def tests(self, text: str, points: list[Point]) -> tuple[Any, ...]:
        """({point_id: position of its test in the output, None when it has none}, failures of no test in particular)."""
        tests = list(enumerate(iometer.results(text))) if text else []
        done = [(position, test) for position, test in tests if "job_name" in test or "total" in test]
        places: dict[str, int | None] = {point["point_id"]: None for point in points}
        for point, (name, depth), (position, test) in zip(points, icf.steps(self._workloads(points)), done):
            if (test.get("job_name", name), test.get("workload", {}).get("queue_depth", depth)) != (name, depth):
                break
            places[point["point_id"]] = position
        return places, [failure for pair in tests if pair not in done for failure in pair[1]["failures"]]

    def filled(self, text: str, point: Point) -> tuple[Any, ...]:
        return self._written(iometer.results(text)[0], point)


ENGINES_HERE = {engine.name: engine for engine in (Fio(), Diskspd(), Iometer())}


def environment(host: dict[str, Any], devices: dict[str, Any], engine: str) -> dict[str, Any]:
    """The host's fingerprint in the shape of module_utils/linux/watch/environment.py. host: what scripts/engine_host.ps1 reads."""
    return {
        "distribution": host["product"],
        "kernel": {"release": f"{host['version_os']} build {host['build']}"},
        "cpu": host["cpu"],
        "memory_bytes": host["memory_bytes"],
        "virtualisation": {"guest": host["hypervisor"], "product": host["machine"]},
        "power_plan": host["power_plan"],
        "engine": {"name": engine, "path": host["program"], "version": host["version"]},
        "devices": devices,
        # What stands in for a host announces itself; scripts/engine_host.ps1 says no such thing of a host.
        **({"simulated": f"{host['product']}; its figures are made up"} if host.get("stand_in") else {}),
    }
