# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process on a measured host that measures all points of a round, one after the other."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import functools
import hashlib
import io
import math
import os
import shutil
import signal
import tarfile
import time
import traceback
from types import FrameType
from typing import IO, Any

from ..core.failure import Failure, messages
from ..core.files import naming, read_json, write_json, write_whole
from ..core.layers import Layer, down, of_others, only_read, parts, reduces_data
from ..core.times import CLOCK_STEP_S, utc
from ..engines.catalogue import engine_of_plan, reference_program
from ..engines.engine import FILL_BLOCK_BYTES, FILL_BYTES_S, GRACE_S, Place
from ..linux import landlock
from ..linux.clients import own_file
from ..linux.daemon import log
from ..linux.disks import block_device, device_safety, reading_guard
from ..linux.disks.facts import Facts
from ..linux.watch import counters
from ..linux.watch import memory_use as memory
from ..linux.watch.meter import Meter, Series, added
from ..result import standstill, steady_state
from ..workload.point import Point, Server
from ..workload.workload import Workload, by_time, directions, extent
from . import beat, before_point, choices, duration, preparation, server_cache, standby
from .execution import Execution, Lengths, text_of

PR_SET_PDEATHSIG = 1
# So much of a layer may be left in the page cache: the kernel looks at the ends of a device whenever somebody has closed it.
RESIDENT_BYTES = 256 << 10
RESIDENT_SHARE = 0.001
DONE = "done"
SEEN_IN = ("point_id", "layer", "workload_id", "repetition")


def proven_layer(part: Layer, plan: dict[str, Any]) -> tuple[Facts, list[Failure]]:
    """(facts, overridden) of a layer that is proven: to be the testbed's own, or storage of others that it only reads."""
    if only_read(part):
        return reading_guard.guard(part), []
    if own_file.is_own(part):
        return own_file.guard(part), []
    return device_safety.guard(part, plan["allow_device"], plan["testbed_id"], plan["known_layers"])


class Supervisor:
    def __init__(self, folder: str, plan: dict[str, Any], program: str) -> None:
        self.folder, self.plan, self.program = folder, plan, program
        self.engine = engine_of_plan(plan)
        self.layers = {layer["name"]: layer for layer in plan["layers"]}
        self.known_layers = {layer["name"]: layer for layer in plan["known_layers"]}
        self.unanswered: set[str] = set()  # mounts whose server did not drop its cache
        self.preparation = preparation.Preparation(plan, self)
        self.flags: list[Any] = []
        self.samples: dict[str, dict[str, Any]] = {}  # of layers that are only read
        self.unpacked: list[Any] = []  # what was prepared or played since the last point
        self.mhz = counters.nominal_mhz()
        self.hits: float | None = None  # of the last warm-up
        self.clock: str | None = None  # as beat.clock_of
        self.stopping = False
        self.prctl = ctypes.CDLL(None).prctl
        self.state: dict[str, Any] = {"status": "running", "points": len(plan["points"]), "failed": 0}
        self.steps_s = duration.steps_s(plan)
        self.begun = self.points_begun = self.point_begun = time.monotonic()

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            self._know_host()
            self.points_begun = time.monotonic()
            rounds = beat.begins(self.plan["points"]) if self.plan.get("beat") else set()
            for index, point in enumerate(self.plan["points"], start=1):
                if self.stopping:
                    break
                self.point_begun = time.monotonic()
                self.state.update(
                    {"point": index, "repetitions": self.plan["repetitions"], **{key: point[key] for key in SEEN_IN}}
                )
                if index - 1 in rounds:
                    self._beat(point)
                if not self.stopping:
                    self._point(point)
                # An interrupted point is not finished.
                if not self.stopping:
                    self._hand_over(index, point["point_id"])
            outcome = "stopped" if self.stopping else "finished"
            if outcome == "finished" and self.plan.get("stays"):
                standby.announce(self.folder)
                outcome = "waiting"
        except Exception:
            log(self.folder, traceback.format_exc())
            outcome = "crashed"
        self.show(status=outcome, phase="end", remaining_s=0)

    def _know_host(self) -> None:
        """The measurement once per run, before anything else runs: how fast memory copies. The reference beat copies memory, too, and once is enough."""
        if not self.plan.get("beat"):
            self._know_copy(round(memory.copy_bytes_s()))
        host = read_json(os.path.join(self.folder, "host.json"))
        self.clock = host.get(beat.CLOCK)
        # A ceiling has no way of issuing I/O that another could beat.
        if self.plan.get("beat") and self.engine.ceiling and any(layer["path"] for layer in self.plan["layers"]):
            self._know_choices()
        if host["cpu"].get("governor", "performance") != "performance":
            self.flags.append("governor")

    def _know_copy(self, bytes_s: int) -> None:
        path = os.path.join(self.folder, "host.json")
        host = read_json(path)
        host.setdefault("memory_copy_bytes_s", bytes_s)
        write_json(path, host)

    def _know_choices(self) -> None:
        """The rate of each way of issuing I/O on this host: as this run knows it from an earlier turn, else measured now."""
        known = self.plan.get(choices.FIGURES) or choices.play(self.program, self.folder, self.die_with_me, self.clock)
        path = os.path.join(self.folder, "host.json")
        write_json(path, {**read_json(path), **({choices.FIGURES: known} if known else {})})

    def die_with_me(self) -> None:
        """Runs in the new process: a supervisor that is killed takes the engine with it."""
        self.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.stopping = True

    def is_stopping(self) -> bool:
        return self.stopping

    def show(self, **news: Any) -> None:
        self.state.update(news)
        self.state["updated"] = round(time.monotonic() - self.begun, 1)
        write_json(os.path.join(self.folder, "state.json"), self.state)

    def remaining_s(self) -> float:
        gone_s, before_s = time.monotonic() - self.point_begun, self.point_begun - self.points_begun
        return round(duration.remaining_s(self.steps_s, self.state["point"], gone_s, before_s), 1)

    def _beat(self, point: Point) -> None:
        """Play the reference beat of the round that this point begins."""
        played = beat.play(reference_program(self.engine, self.program), self.folder, self.die_with_me, self.clock)
        of = {"round": point["repetition"], **{key: point[key] for key in ("variant",) if key in point}}
        write_json(os.path.join(self.folder, beat.FILE), {**of, **played})
        if "memory_copy_bytes_s" in played:
            self._know_copy(played["memory_copy_bytes_s"])
        self.unpacked.append(beat.FILE)

    def _hand_over(self, number: int, point_id: str) -> None:
        """Pack what there is of a finished point, whole or not at all, for the controller to take."""
        packed = io.BytesIO()
        # Quickly rather than small: the next point waits for it.
        pack(packed, self.folder, ["host.json", f"points/{point_id}", *self.unpacked], level=1)
        write_whole(os.path.join(self.folder, DONE, str(number)), base64.encodebytes(packed.getvalue()))
        self.unpacked = []
        self.state["done"] = self.state.get("done", 0) + 1

    # ------------------------------------------------------------ one point

    def _point(self, point: Point) -> None:
        folder = os.path.join(self.folder, "points", point["point_id"])
        os.makedirs(folder)
        layer, held = self.layers[point["layer"]], []
        meta: dict[str, Any] = {
            "point_id": point["point_id"],
            "failures": [],
            "flags": list(self.flags),
            "overridden": [],
        }
        clock_ahead_s = before_point.clock_ahead_s()
        try:
            files: list[Any] = []
            for part in parts(layer) if layer["path"] is not None else []:
                facts, overridden = proven_layer(part, self.plan)
                files.append(facts["resolved"])
                meta["overridden"] += [item.code for item in overridden if item.code not in meta["overridden"]]
                # Held open while it is measured, so that its number cannot be given to another device at that time.
                held.append(device_safety.hold(facts))
            job: Point = {
                **point,
                "path": files[0] if files else None,
                "size_bytes": layer["size_bytes"],
                "reduces_data": reduces_data(self.known_layers, layer),
                **({"files": files} if len(files) > 1 else {}),
            }
            if only_read(layer):
                job["sampled"] = self._sampled(layer, files[0])
            self.preparation.before([job], meta)
            storage_cache = self._storage_cache(layer)
            if storage_cache:
                meta["preparation"]["storage_cache"] = storage_cache
                meta["flags"] += ["cache_unknown"] if storage_cache == "unknown" else []
            if preparation.reads_unwritten(job["workload"], meta):
                meta["flags"].append("not_filled")
            meta["memory"] = before_point.memory_of(job)
            cached = meta["memory"].get("cached_bytes")
            if preparation.reads_partly_cached(
                job["workload"], self.preparation.prepare, cached, before_point.used_bytes(job)
            ):
                meta["flags"].append("partly_cached")
            self._measure(folder, job, meta)
        except Failure as failure:
            meta["failures"].append(failure.as_fault())
        except Exception as error:
            # Such as a probe of the device that hangs. The others may be measured all the same.
            log(self.folder, f"{point['point_id']}\n{traceback.format_exc()}")
            message = f"{type(error).__name__}: {str(error).rstrip('.')}. The supervisor's log has all of it."
            meta["failures"].append(Failure("unexpected", message).as_fault())
        finally:
            for handle in held:
                os.close(handle)
        if abs(before_point.clock_ahead_s() - clock_ahead_s) > CLOCK_STEP_S:
            meta["flags"].append("clock_stepped")
        if meta.pop("timed_out", False):
            meta["failures"].append(
                Failure(
                    "engine_timeout", f"{self.engine.name} did not end within {meta['wall_s']:.0f} s and was ended."
                ).as_fault()
            )
        self.state["failed"] += bool(meta["failures"] or meta.get("exit_code"))
        write_json(os.path.join(folder, "meta.json"), meta)

    def _storage_cache(self, layer: Layer) -> str | None:
        """The state of the caches of the storage's server, dropped or unknown; None of storage whose caches are this host's own."""
        if of_others(layer):
            return "unknown"
        if layer["path"] is None or not server_cache.over_own_export(down(self.known_layers, layer)):
            return None
        mounted = (layer.get("detail") or {}).get("provider") == "nfs"
        place = str(layer["identity"].get("mount_point") or "")
        if not (mounted and place and self.preparation.prepare["drop_caches"]) or place in self.unanswered:
            return "unknown"
        if server_cache.dropped(place):
            return "dropped"
        # A server that does not answer is not waited for before each point.
        self.unanswered.add(place)
        return "unknown"

    def _sampled(self, layer: Layer, path: str) -> dict[str, object]:
        """Facts about a layer that is only read: of its contents, and who keeps the engine from writing to it."""
        name = layer["name"]
        if name not in self.samples:
            # A mount that the kernel holds read-only is a wall already.
            mounted = layer["identity"].get("mount_point")
            wall = "read_only_mount" if mounted else "landlock" if self.walls_hold else "read_only_open"
            self.samples[name] = {**reading_guard.sampled(path, layer["size_bytes"]), "wall": wall}
        return self.samples[name]

    @functools.cached_property
    def walls_hold(self) -> bool:
        return landlock.holds(self.folder)

    # ------------------------------------------------------------ preparation, as preparation.Executor says it

    remedy = "Look at the device and the host's kernel log."

    def instance(self, job: Point) -> str | None:
        return block_device.instance(job["path"]) if job["path"] is not None else None

    def write(self, job: Point, writing: preparation.Writing, _instance: str | None) -> preparation.Written:
        folder = self._preparation_folder(f"{writing.phase}-{job['layer']}")
        run = self._execute(folder, job, phase=writing.phase, fill=writing)
        error, output = run["error"], os.path.join(folder, self.engine.raw_file)
        if not error:
            written = sum(result.get("write", {}).get("bytes", 0) for result in self._results(output))
            wanted = preparation.whole_bytes(job) * writing.passes
            error = None if written == wanted else f"{written} of {wanted} bytes were written."
        # Among many hosts, the one that failed.
        error = (error and self._of_servers(output, job.get("servers", []))) or error
        return preparation.Written(error, run["ended"] - run["begun"])

    def warm_up(self, job: Point, seconds: float) -> str | None:
        workload: Workload = {**job["workload"], "ramp_s": 0, "runtime_s": math.ceil(seconds)}
        folder = self._preparation_folder(f"warmup-{job['layer']}.{job['workload_id']}")
        before = counters.sample()
        ran = self._execute(folder, {**job, "workload": workload}, phase="warmup")
        # From start to end, because no figure is made of it: the seconds in which the engine surely did I/O may be none of a short turn.
        self.hits = counters.hit_percent(counters.difference(before, counters.sample()))
        error: str | None = ran["error"]
        return error

    def hit_percent(self) -> float | None:
        return self.hits

    def drop_page_cache(self, job: Point) -> bool:
        if not memory.drop_page_cache():
            return False
        limit = max(RESIDENT_BYTES, RESIDENT_SHARE * extent(job["workload"], job["size_bytes"])[1])
        return all(cached <= limit for cached in before_point.cached_bytes(job))

    def _preparation_folder(self, name: str) -> str:
        folder = os.path.join(self.folder, "preparation", name)
        # A preparation that failed for one point is tried again for the next.
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        if f"preparation/{name}" not in self.unpacked:
            self.unpacked.append(f"preparation/{name}")
        return folder

    def _measure(self, folder: str, job: Point, meta: dict[str, Any]) -> None:
        """The point itself: one run of the engine, or rounds of it until they are steady or the budget is used up."""
        device = counters.device_number(job["path"])
        seen_by_device = before_point.seen_by_device(job, device)
        # Devices that the I/O goes through on this host count in the same seconds; other hosts have observers.
        layer = self.layers[job["layer"]]
        here = [below for below in down(self.known_layers, layer) if below["host"] == layer["host"] and below["path"]]
        job = {**job, "counted": counters.layer_devices({below["name"]: below["path"] for below in here})}
        series = Series(*seen_by_device) if self.plan.get("series", True) else None
        if self.plan.get("steady_state") is None:
            runs = window = [self._execute(folder, job, device=device, series=series)]
        else:
            limits = steady_state.normalise(self.plan["steady_state"], job["workload"]["runtime_s"])
            runs, values = self._rounds(folder, job, limits, device, series)
            window = runs[-limits["window"] :]
            meta["steady_state"] = steady_state.judgement(values, limits)
        first, last = runs[0], runs[-1]
        meta.update(
            {
                **{key: last[key] for key in ("exit_code", "timed_out", "finished_utc")},
                "started_utc": first["started_utc"],
                "wall_s": round(last["ended"] - first["begun"], 3),
                "windows": [run["windows"] for run in window],
                **self._counted(window, seen_by_device),
            }
        )
        if series is not None:
            write_json(os.path.join(folder, "series.json"), series.content())
        for name, key in (
            (self.engine.raw_file, "raw_sha256"),
            (self.engine.job_file, "job_sha256"),
            ("series.json", "series_sha256"),
        ):
            if os.path.exists(os.path.join(folder, name)):
                with open(os.path.join(folder, name), "rb") as handle:
                    meta[key] = hashlib.sha256(handle.read()).hexdigest()

    def _rounds(
        self, folder: str, job: Point, limits: dict[str, Any], device: str | None, series: Series | None
    ) -> tuple[list[dict[str, Any]], list[float]]:
        """(runs, values of the metric). Only the first round has a ramp; what the rounds leave is kept one after another, byte for byte."""
        runs, values = [], []
        below = os.path.join(folder, "round")
        for number in range(1, steady_state.rounds(limits) + 1):
            os.makedirs(below)
            workload: Workload = {
                **job["workload"],
                "runtime_s": limits["round_s"],
                **({"ramp_s": 0} if number > 1 else {}),
            }
            # Other offsets in every round, and a name that distinguishes one round's document from the next.
            round_job: Point = {
                **job,
                "workload": workload,
                "seed": job["seed"] + number - 1,
                "point_id": f"{job['point_id']}.round{number}",
            }
            runs.append(self._execute(below, round_job, device=device, series=series))
            value = self._metric(os.path.join(below, self.engine.raw_file), limits["metric"])
            self._append(below, folder, f"round {number}")
            shutil.rmtree(below)
            if value is not None:
                values.append(value)
            if runs[-1]["exit_code"] or value is None or self.stopping or steady_state.judge(values, limits)["steady"]:
                break
        return runs, values

    def _counted(self, runs: list[dict[str, Any]], seen_by_device: tuple[bool, bool]) -> dict[str, float]:
        """The host's counters in the measured time of these runs of the engine, as far as all of them have them."""
        counted: dict[str, Any] = {key: max(run[key] for run in runs) for key in ("late_s", "stopped_s")}
        if all(run["changed"] for run in runs):
            counted["counters"] = counters.figures_of(counters.total([run["changed"] for run in runs]))
            # When that was, so that what other hosts counted can be cut to it.
            counted["counters"].update(
                started_utc=utc(runs[0]["span_unix_s"][0]), finished_utc=utc(runs[-1]["span_unix_s"][1])
            )
            if self.mhz and counted["counters"]["cpu"]:
                counted["counters"]["cpu"]["mhz"] = self.mhz
        on_device, ios_too = seen_by_device
        if on_device and all(run["seen"] and not run["exit_code"] for run in runs):
            counted["device_seen"] = {**added([run["seen"] for run in runs]), "ios_comparable": ios_too}
        return counted

    # ------------------------------------------------------------ one start of the engine

    def _execute(
        self,
        folder: str,
        job: Point,
        phase: str = "",
        fill: preparation.Writing | None = None,
        device: str | None = None,
        series: Series | None = None,
    ) -> dict[str, Any]:
        """Run one job to its end and say how it went, with error, why it failed if it measures nothing. Never raises for what the engine does."""
        workload, lengths = job["workload"], self._lengths(job, fill)
        logs = self.engine.moments_file and not (fill or phase or "servers" in job)
        # Servers of many hosts leave their logs there.
        log_ms = standstill.window_ms(workload["runtime_s"]) if logs else None
        place = Place(folder, log_ms=log_ms, layers=self.known_layers, clock=self.clock)
        if fill:
            block_bytes = FILL_BLOCK_BYTES if fill.block_bytes is None else fill.block_bytes
            start = self.engine.fill(job, block_bytes, passes=fill.passes)[0](place)
        else:
            start = self.engine.command([job], place)
        measured_s = lengths.runtime_s if by_time(workload) else None
        meter = Meter(device, lengths.ramp_s, measured_s, job.get("counted"))
        walled = only_read(self.layers[job["layer"]]) and self.walls_hold
        counted = directions(workload) if log_ms and "on_error" in workload else ()
        execution = Execution(self.engine, self.program, folder, self, phase, walled, counted)
        done = execution.run(start, meter, lengths, series, log_ms)
        return {**done, "error": execution.error(done)}

    def _lengths(self, job: Point, fill: preparation.Writing | None) -> Lengths:
        grace_s = self.plan.get("grace_s", GRACE_S)
        if fill:
            return Lengths(0, preparation.whole_bytes(job) * fill.passes / FILL_BYTES_S, grace_s)
        return Lengths(job["workload"]["ramp_s"], job["workload"]["runtime_s"], grace_s)

    def _results(self, path: str, servers: list[Any] | None = None) -> list[Any]:
        return self.engine.results(text_of(path), servers)

    def _of_servers(self, output: str, servers: list[Server]) -> str:
        """The messages of the hosts that failed in a job of many; empty when nothing is known of any."""
        with contextlib.suppress(Failure):
            results = self._results(output, servers) if servers else []
            return messages(fault for result in results for fault in result["failures"])
        return ""

    def _metric(self, path: str, metric: str) -> float | None:
        """The figure of a round that has just ended, None when the engine left none."""
        try:
            results = self._results(path)
        except (FileNotFoundError, Failure):
            return None
        figure: float | None = results[0].get("total", {}).get(metric) if len(results) == 1 else None
        return figure

    def _append(self, source: str, target: str, mark: str) -> None:
        """Add what one round left to what the rounds before it left."""
        for name in (self.engine.job_file, self.engine.raw_file, "stderr.txt"):
            path = os.path.join(source, name)
            if os.path.exists(path):
                begin = f"{self.engine.comment}{mark}\n" if name == self.engine.job_file else ""
                kept = os.path.join(target, name)
                with naming(kept), open(path, "rb") as piece, open(kept, "ab") as whole:
                    whole.write(begin.encode() + piece.read())


def pack(target: IO[bytes], folder: str, names: list[str], level: int = 6) -> None:
    """Write a tar.gz of these parts of a run's folder to a binary stream."""
    with tarfile.open(fileobj=target, mode="w:gz", compresslevel=level) as archive:
        for name in names:
            if os.path.exists(os.path.join(folder, name)):
                archive.add(os.path.join(folder, name), arcname=name)
