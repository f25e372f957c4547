# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio as an engine. fio_job.py writes its job files, fio.py reads its output, fio_distributed.py is about many hosts at once."""

from __future__ import annotations

from collections.abc import Sequence

from ..result.schema import Measured
from ..workload.point import Point, Server
from ..workload.workload import Direction
from . import fio, fio_distributed
from .engine import FILL_BYTES_S, GRACE_S, Engine, Make, Place, Start, start


class Fio(Engine):
    name, job_file, raw_file, begins, comment = "fio", "job.fio", "fio.json", "{", "; "
    linux, program, package, moments_file = True, "fio", "fio", fio.WINDOWS_LOG
    # Its package adds itself to the search path, which shells that are open already do not notice.
    programs = ("fio.exe", "C:\\Program Files\\fio\\fio.exe")
    ceiling = many_hosts = seeded = distributions = workers_apart = True

    def check(self, point: Point) -> None:
        fio.check(point)

    def command(self, points: list[Point], place: Place) -> Start:
        (point,) = points
        workload = point["workload"]
        limit_s = workload["ramp_s"] + workload["runtime_s"] + GRACE_S
        if "servers" in point:
            return self._many(point["servers"], fio_distributed.job_files(point, place.layers or {}), limit_s)
        return self._start(fio.job_file(point, place.log_ms, place.clock), limit_s, place.windows, "sampled" in point)

    def fill(
        self, job: Point, block_bytes: int, position: int = 0, bytes_s: float | None = None, passes: int = 1
    ) -> tuple[Make, Point]:
        how = {"block_bytes": block_bytes, "passes": passes}
        limit_s = passes * job["size_bytes"] / FILL_BYTES_S + GRACE_S

        def make(place: Place) -> Start:
            if "servers" in job:
                return self._many(job["servers"], fio_distributed.fill_files(job, place.layers or {}, **how), limit_s)
            return self._start(fio.fill_file(job, **how), limit_s, place.windows)

        return make, {**job, "least_bytes": passes * job["size_bytes"]}

    def _start(self, text: str, limit_s: float, windows: bool, only_read: bool = False) -> Start:
        job = {self.job_file: text}
        # fio itself refuses to write then, whatever the job says.
        words = [*self._arguments(windows), *(["--readonly"] if only_read else []), self.job_file]
        return start(words, job, limit_s, files=job)

    def _many(self, servers: list[Server], texts: list[str], limit_s: float) -> Start:
        arguments, files = fio_distributed.arguments(servers, texts)
        job = {self.job_file: fio_distributed.joined(servers, texts)}
        return start([*self._arguments(False), *arguments], job, limit_s, files=files)

    def _arguments(self, windows: bool) -> list[str]:
        # The supervisor of a Linux host shows what it prints while it runs.
        live = [] if windows else ["--eta=always", "--eta-newline=1"]
        return ["--output-format=json+", f"--output={self.raw_file}", *live]

    def results(self, text: str, servers: Sequence[Server] | None = None) -> list[Measured]:
        return fio_distributed.results(text, servers) if servers else fio.results(text)

    def live(self, printed: bytes) -> tuple[float | None, float | None]:
        return fio.live_iops(printed), fio.live_bandwidth_bytes_s(printed)

    def reports_error(self, printed: str) -> bool:
        return "io_u error" in printed

    def counted(self, text: str, directions: Sequence[Direction]) -> list[tuple[int, float]]:
        return fio.log_rates(text, directions)

    def moments_ms(self, text: str) -> list[int]:
        return fio.log_moments_ms(text)

    def settings(self, path: str | None, point: Point) -> dict[str, int | str]:
        return {"name": self.name, "ioengine": fio.ioengine(path, point["workload"]), "randseed": point["seed"]}

    def check_program(self, program: str, points: list[Point]) -> None:
        fio_distributed.check_versions([server for point in points for server in point.get("servers", ())], program)

    def installed(self, _folder: str, _kind: str) -> str:
        return self.programs[1]
