# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the points of one host, on that host, without a connection to anybody.

``start`` leaves a supervisor behind that does one point after another. Each point that is finished lies packed in ``done`` until the controller has it
on its own disk and removes it there: what is in ``done`` exists nowhere else, and nothing here deletes it without being told to. The supervisor lives on
when the connection breaks, and nothing of fio outlives the supervisor.

    <state_dir>/plan.json supervisor.json state.json supervisor.log host.json archive.tar.gz
    <state_dir>/done/<number of the point in the plan>   base64 of a tar.gz: host.json, points/<point_id>/…, preparation/…, beat.json
    <state_dir>/beat.json                                the reference beat of the round that began last
    <state_dir>/points/<point_id>/job.fio fio.json stderr.txt series.json meta.json
    <state_dir>/preparation/<fill, precondition, zero or warmup>.<layer>…/job.fio fio.json stderr.txt
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import hashlib
import io
import math
import os
import select
import shutil
import signal
import stat
import subprocess
import tarfile
import time
import traceback
from types import FrameType
from typing import IO, Any

from ..core.failure import Failure, bad_value, exit_words, messages
from ..core.files import make_folder, read_json, write_json, write_whole
from ..core.layers import Layer, down, only_read, parts, reduces_data
from ..core.times import utc
from ..engines import fio, fio_distributed
from ..linux import memory_limits
from ..linux.daemon import alive, detach, end, log, log_tail, remove_empty, supervisor_of
from ..linux.disks import block_device, device_safety, reading_guard
from ..linux.host import read_text
from ..linux.own_folder import base_dir, private_folder, proven
from ..linux.watch import counters, environment
from ..linux.watch import memory_use as memory
from ..linux.watch.meter import STALE_S, Meter, Series, added
from ..result import standstill, steady_state
from ..workload.point import Point
from ..workload.wanted import greatest_buffers
from ..workload.workload import Workload, block_bounds, by_time, extent
from . import beat, duration, preparation

PR_SET_PDEATHSIG = 1
# A point may take this much longer than asked for: starting up, waiting for I/O in flight. Emulated machines are slow.
GRACE_S = 60
# How long fio may take to end when it is asked to, before it is made to.
POLITE_S = 5
# No disk worth measuring writes slower than this.
FILL_BYTES_S = 1 << 20
STATE_INTERVAL_S = 1.0
CHUNK_BYTES = 4 << 20
# So much of a layer may be left in the page cache: the kernel looks at the ends of a device whenever somebody has closed it.
RESIDENT_BYTES = 256 << 10
RESIDENT_SHARE = 0.001
DONE = "done"
# A clock that is set right while a point is measured steps by more than this; one that is only steered stays far below.
CLOCK_STEP_S = 0.5
SEEN_IN = ("point_id", "layer", "workload_id", "repetition")

# ---------------------------------------------------------------- where

# What a benchmark keeps on a host, each in a folder of the testbed: its runs, servers of fio, an observer.
AREAS = ("bench", "observer", "server")


def state_dir(testbed_id: str, run_id: str, base: str | None = None) -> str:
    """Where a run is kept, proven to be this user's as far as it is there."""
    return proven(base or base_dir(), testbed_id, "bench", run_id)


# ---------------------------------------------------------------- the module's actions


def start(plan: dict[str, Any], base: str | None = None) -> dict[str, Any]:
    """Prove every layer safe, then leave a supervisor running: {state_dir, pid, joined, alive, boot_id}.

    A run that is measuring these very points already is joined. So is one that has ended and left points which no controller has taken, whatever they
    are (alive: false): take them, then start again.
    """
    folder = state_dir(plan["testbed_id"], plan["run_id"], base)
    joined = _existing(folder, plan)
    if joined:
        return joined
    _refuse_second_run(folder)
    engine = find_engine()
    fio_distributed.check_versions([server for point in plan["points"] for server in point.get("servers", ())], engine)
    check_layers(plan)
    private_folder(base or base_dir(), plan["testbed_id"], "bench", plan["run_id"])
    for name in ("points", DONE):
        make_folder(os.path.join(folder, name), 0o700)
    write_json(os.path.join(folder, "plan.json"), {"plan": plan, "boot_id": boot_id()})
    write_json(os.path.join(folder, "host.json"), environment.fingerprint(plan["layers"], engine))
    write_json(
        os.path.join(folder, "state.json"),
        {"status": "running", "phase": "start", "point": 0, "points": len(plan["points"])},
    )
    pid = detach(lambda: Supervisor(folder, plan, engine).run(), folder)
    return {"state_dir": folder, "pid": pid, "joined": False, "alive": True, "boot_id": boot_id()}


def status(testbed_id: str, run_id: str, base: str | None = None) -> dict[str, Any]:
    folder = state_dir(testbed_id, run_id, base)
    return {
        "state_dir": folder,
        "alive": alive(folder),
        "state": read_json(os.path.join(folder, "state.json")),
        "log": log_tail(folder),
    }


def stop(
    testbed_id: str,
    run_id: str | None = None,
    remove: bool = False,
    base: str | None = None,
    dry_run: bool = False,
    discard: bool = False,
) -> dict[str, Any]:
    """End one run, or all runs of the testbed, and everything they started; with ``remove`` their folders go as well.

    Failure 'run_uncollected', and nothing is ended, when that would delete finished points that no controller has; ``discard`` deletes them.
    """
    above = os.path.dirname(state_dir(testbed_id, "x", base))
    names = [run_id] if run_id else sorted(os.listdir(above)) if os.path.isdir(above) else []
    folders = [state_dir(testbed_id, name, base) for name in names if os.path.isdir(os.path.join(above, name))]
    stopped = [folder for folder in folders if alive(folder)]
    removed = folders if remove else []
    if remove and not discard:
        _refuse_uncollected(folders)
    if not dry_run:
        for folder in stopped:
            end(folder)
        if remove and not discard:
            # One more may have been finished meanwhile.
            _refuse_uncollected(folders)
        for folder in removed:
            shutil.rmtree(folder)
        if remove:
            remove_empty(above, os.path.dirname(above), os.path.dirname(os.path.dirname(above)))
    held = {} if remove else _held(folders)
    areas = [area for area in AREAS if os.path.isdir(os.path.join(os.path.dirname(above), area))]
    return {"changed": bool(stopped or removed), "stopped": stopped, "removed": removed, "areas": areas} | (
        {"uncollected": held} if held else {}
    )


def _held(folders: list[str]) -> dict[str, Any]:
    """{run_id: how many finished points of it are nowhere else}"""
    held = {os.path.basename(folder): len(uncollected(folder)) for folder in folders}
    return {run: number for run, number in held.items() if number}


def _refuse_uncollected(folders: list[str]) -> None:
    held = _held(folders)
    if held:
        run, number = next(iter(held.items()))
        raise Failure(
            "run_uncollected",
            f"Run {run} has {number} finished point{'s' * (number != 1)} on this host that no controller has taken.",
            f"Run the same benchmark again with run_id {run}, which takes them, or set benchmark_discard (discard of benchmark_run) to delete them.",
            runs=held,
        )


def uncollected(folder: str) -> list[int]:
    """Numbers of the finished points of a run that are nowhere else."""
    path = os.path.join(folder, DONE)
    return sorted(int(name) for name in os.listdir(path) if name.isdigit()) if os.path.isdir(path) else []


def boot_id() -> str:
    """Tells this start of the machine from every other one."""
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def collect(testbed_id: str, run_id: str, offset: int = 0, base: str | None = None) -> dict[str, Any]:
    """A piece of the archive of a run that has ended; ``next_offset`` is absent in the last one."""
    folder = state_dir(testbed_id, run_id, base)
    if alive(folder):
        raise Failure("run_active", f"Run {run_id} is still measuring.", "Wait for it, or stop it.", state_dir=folder)
    if read_json(os.path.join(folder, "plan.json")) is None:
        raise Failure("run_missing", f"This host has no run {run_id}.", "Start it.", state_dir=folder)
    path = os.path.join(folder, "archive.tar.gz")
    if not os.path.exists(path):
        whole = io.BytesIO()
        pack(whole, folder, ["host.json", "points", "preparation"])
        write_whole(path, whole.getvalue(), mode=0o600)
    with open(path, "rb") as handle:
        digest = hashlib.sha256(handle.read()).hexdigest() if offset == 0 else None
        handle.seek(offset)
        piece = handle.read(CHUNK_BYTES)
    size = os.path.getsize(path)
    result = {
        "content": base64.b64encode(piece).decode(),
        "size_bytes": size,
        "state": read_json(os.path.join(folder, "state.json")),
    }
    if digest:
        result["sha256"] = digest
    if offset + len(piece) < size:
        result["next_offset"] = offset + len(piece)
    return result


# ---------------------------------------------------------------- before anything runs


def find_engine() -> str:
    path = shutil.which("fio")
    if not path:
        raise Failure(
            "engine_missing",
            "fio is not installed on this host.",
            "Install the package fio, or set benchmark_install_packages to true.",
        )
    return os.path.realpath(path)


def check_layers(plan: dict[str, Any]) -> None:
    """The guard for every layer before the first byte of I/O. What an engine cannot express was refused when the points were made."""
    layers = {layer["name"]: layer for layer in plan["layers"]}
    reading_guard.refuse_writing_points(plan["points"], layers, plan.get("prepare", {}))
    for name in dict.fromkeys(point["layer"] for point in plan["points"]):
        if layers[name]["path"] is not None:
            for part in parts(layers[name]):
                _guard(part, plan)
    _refuse_short_memory(plan)
    many = next((point["point_id"] for point in plan["points"] if "servers" in point), None)
    if many and plan.get("steady_state") is not None:
        raise bad_value(
            "steady_state",
            plan["steady_state"],
            f"{many} is measured on many hosts, which is done once; leave it out.",
        )


def _guard(part: Layer, plan: dict[str, Any]) -> tuple[dict[str, Any], list[Failure]]:
    """(facts, overridden) of a layer that is proven: to be the testbed's own, or storage of others that it only reads."""
    if only_read(part):
        return reading_guard.guard(part), []
    return device_safety.guard(part, plan["allow_device"], plan["testbed_id"], plan["known_layers"])


def _refuse_short_memory(plan: dict[str, Any]) -> None:
    """The engine takes its buffers at once: without them it fails in the middle, or pushes the RAM disks' own host out of memory."""
    needed, arithmetic = greatest_buffers([point["workload"] for point in plan["points"] if "servers" not in point])
    there = memory_limits.memory(read_text)
    if needed > (there.available_bytes or 0):
        raise Failure(
            "memory_short",
            f"The buffers of {arithmetic} are {needed / (1 << 20):g} MiB, and {there.words()}.",
            f"Use fewer workers, a smaller queue_depth or smaller blocks, or {there.remedy()}.",
            needed_bytes=needed,
            available_bytes=there.available_bytes or 0,
            limit=there.limit,
        )


def _existing(folder: str, plan: dict[str, Any]) -> dict[str, Any] | None:
    known = read_json(os.path.join(folder, "plan.json"), kind={"plan": {"points": [dict], "layers": [dict]}})
    if known is None:
        return None
    # A process of this number after a restart is somebody else's.
    running = alive(folder) and known.get("boot_id", boot_id()) == boot_id()
    if running and not covers(known["plan"], plan):
        raise Failure(
            "run_exists",
            f"This run is already measuring something else ({folder}).",
            "Wait for it, stop it, or choose another run_id.",
        )
    if running or uncollected(folder):
        pid = (supervisor_of(folder) or {}).get("pid")
        return {
            "state_dir": folder,
            "pid": pid,
            "joined": True,
            "alive": running,
            "boot_id": known.get("boot_id", boot_id()),
        }
    shutil.rmtree(folder)
    return None


def covers(known: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether one plan measures every point of another in the same way. The controller asks for fewer points the more of them it has."""
    for name in ("points", "layers"):
        if not all(point in known[name] for point in wanted[name]):
            return False
    # What follows from the points, grows while they are measured, or lies beside them.
    loose = {"points", "layers", "prepared", "repetitions", "beat"}
    return {key: value for key, value in known.items() if key not in loose} == {
        key: value for key, value in wanted.items() if key not in loose
    }


def _refuse_second_run(folder: str) -> None:
    base = os.path.dirname(os.path.dirname(os.path.dirname(folder)))
    for testbed in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        above = os.path.join(base, testbed, "bench")
        for run in sorted(os.listdir(above)) if os.path.isdir(above) else []:
            if _measures(base, testbed, run):
                raise Failure(
                    "run_active",
                    f"Run {run} of testbed {testbed} is measuring on this host; two at once would measure each other.",
                    "Wait for it, or stop it.",
                    state_dir=os.path.join(above, run),
                )


def _measures(base: str, testbed: str, run: str) -> bool:
    try:
        return alive(state_dir(testbed, run, base))
    except Failure:
        return False  # somebody else's folder, which no run of ours lies in


# ---------------------------------------------------------------- the supervisor


class Supervisor:
    def __init__(self, folder: str, plan: dict[str, Any], engine: str) -> None:
        self.folder, self.plan, self.engine = folder, plan, engine
        self.layers = {layer["name"]: layer for layer in plan["layers"]}
        self.known_layers = {layer["name"]: layer for layer in plan["known_layers"]}
        self.preparation = preparation.Preparation(plan, self)
        self.flags: list[Any] = []
        self.samples: dict[str, dict[str, Any]] = {}  # of layers that are only read
        self.unpacked: list[Any] = []  # what was prepared or played since the last point
        self.mhz = counters.nominal_mhz()
        self.hits: float | None = None  # of the last warm-up
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
                # What was interrupted is not finished.
                if not self.stopping:
                    self._hand_over(index, point["point_id"])
            outcome = "stopped" if self.stopping else "finished"
        except Exception:
            log(self.folder, traceback.format_exc())
            outcome = "crashed"
        self._tell(status=outcome, phase="end", remaining_s=0)

    def _know_host(self) -> None:
        """What is measured once a run, before anything else runs: how fast memory copies. The reference beat copies memory, too, and once is enough."""
        if not self.plan.get("beat"):
            self._know_copy(round(memory.copy_bytes_s()))
        host = read_json(os.path.join(self.folder, "host.json"))
        if host["cpu"].get("governor", "performance") != "performance":
            self.flags.append("governor")

    def _know_copy(self, bytes_s: int) -> None:
        path = os.path.join(self.folder, "host.json")
        host = read_json(path)
        host.setdefault("memory_copy_bytes_s", bytes_s)
        write_json(path, host)

    def _die_with_me(self) -> None:
        """Runs in the new process: a supervisor that is killed takes fio with it."""
        self.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.stopping = True

    def _tell(self, **news: Any) -> None:
        self.state.update(news)
        self.state["updated"] = round(time.monotonic() - self.begun, 1)
        write_json(os.path.join(self.folder, "state.json"), self.state)

    def _remaining(self) -> float:
        gone_s, before_s = time.monotonic() - self.point_begun, self.point_begun - self.points_begun
        return round(duration.remaining_s(self.steps_s, self.state["point"], gone_s, before_s), 1)

    def _beat(self, point: Point) -> None:
        """Play the reference beat of the round that this point begins."""
        played = beat.play(self.engine, self.folder, self._die_with_me)
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
        clock_ahead_s = _clock_ahead_s()
        try:
            files: list[Any] = []
            for part in parts(layer) if layer["path"] is not None else []:
                facts, overridden = _guard(part, self.plan)
                files.append(facts["resolved"])
                meta["overridden"] += [item.code for item in overridden if item.code not in meta["overridden"]]
                # Held open while it is measured, so that its number cannot be given to another device meanwhile.
                held.append(device_safety.hold(facts))
            job: Point = {
                **point,
                "path": files[0] if files else None,
                "size_bytes": layer["size_bytes"],
                "reduces_data": reduces_data(self.known_layers, layer),
                **({"files": files} if len(files) > 1 else {}),
            }
            if only_read(layer):
                job["sampled"] = self._sampled(layer["name"], files[0], layer["size_bytes"])
                meta["flags"].append("cache_unknown")
            self.preparation.before([job], meta)
            if preparation.reads_unwritten(job["workload"], meta):
                meta["flags"].append("not_filled")
            meta["memory"] = _memory(job)
            cached = meta["memory"].get("cached_bytes")
            if preparation.reads_partly_cached(job["workload"], self.preparation.prepare, cached, _used_bytes(job)):
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
        if abs(_clock_ahead_s() - clock_ahead_s) > CLOCK_STEP_S:
            meta["flags"].append("clock_stepped")
        if meta.pop("timed_out", False):
            meta["failures"].append(
                Failure("engine_timeout", f"fio did not end within {meta['wall_s']:.0f} s and was ended.").as_fault()
            )
        self.state["failed"] += bool(meta["failures"] or meta.get("exit_code"))
        write_json(os.path.join(folder, "meta.json"), meta)

    def _sampled(self, name: str, path: str, size_bytes: int) -> dict[str, Any]:
        if name not in self.samples:
            self.samples[name] = reading_guard.sampled(path, size_bytes)
        return self.samples[name]

    # ------------------------------------------------------------ preparation, as preparation.Executor says it

    remedy = "Look at the device and the host's kernel log."

    def instance(self, job: Point) -> str | None:
        return block_device.instance(job["path"]) if job["path"] is not None else None

    def write(self, job: Point, writing: preparation.Writing, _instance: str | None) -> preparation.Written:
        fill = {
            "passes": writing.passes,
            **({"block_bytes": writing.block_bytes} if writing.block_bytes is not None else {}),
        }
        folder = self._preparation_folder(f"{writing.phase}-{job['layer']}")
        run = self._fio(folder, job, phase=writing.phase, fill=fill)
        error = _exit_error(run, folder)
        output = os.path.join(folder, "fio.json")
        if not error:
            written = sum(result.get("write", {}).get("bytes", 0) for result in fio.results(_text(output)))
            wanted = preparation.whole_bytes(job) * writing.passes
            error = None if written == wanted else f"{written} of {wanted} bytes were written."
        # Of many hosts, the one that failed.
        error = (error and _of_servers(output, job.get("servers", []))) or error
        return preparation.Written(error, run["ended"] - run["begun"])

    def warm_up(self, job: Point, seconds: float) -> str | None:
        workload: Workload = {**job["workload"], "ramp_s": 0, "runtime_s": math.ceil(seconds)}
        folder = self._preparation_folder(f"warmup-{job['layer']}.{job['workload_id']}")
        before = counters.sample()
        ran = self._fio(folder, {**job, "workload": workload}, phase="warmup")
        # From start to end, because no figure is made of it: the seconds in which fio surely did I/O may be none of a short turn.
        self.hits = counters.hit_percent(counters.difference(before, counters.sample()))
        return _exit_error(ran, folder)

    def hit_percent(self) -> float | None:
        return self.hits

    def drop_page_cache(self, job: Point) -> bool:
        if not memory.drop_page_cache():
            return False
        limit = max(RESIDENT_BYTES, RESIDENT_SHARE * extent(job["workload"], job["size_bytes"])[1])
        return all(cached <= limit for cached in _cached_bytes(job))

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
        seen_by_device = _seen_by_device(job, device)
        # What the I/O goes through on this host counts in the same seconds; of other hosts their observers tell.
        layer = self.layers[job["layer"]]
        here = [below for below in down(self.known_layers, layer) if below["host"] == layer["host"] and below["path"]]
        job = {**job, "counted": counters.layer_devices({below["name"]: below["path"] for below in here})}
        series = Series(*seen_by_device) if self.plan.get("series", True) else None
        if self.plan.get("steady_state") is None:
            runs = window = [self._fio(folder, job, device=device, series=series)]
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
        for name, key in (("fio.json", "raw_sha256"), ("job.fio", "job_sha256"), ("series.json", "series_sha256")):
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
            # Other offsets in every round, and a name that tells one round's document from the next.
            round_job: Point = {
                **job,
                "workload": workload,
                "seed": job["seed"] + number - 1,
                "point_id": f"{job['point_id']}.round{number}",
            }
            runs.append(self._fio(below, round_job, device=device, series=series))
            value = _metric(os.path.join(below, "fio.json"), limits["metric"])
            _append(below, folder, f"; round {number}\n")
            shutil.rmtree(below)
            if value is not None:
                values.append(value)
            if runs[-1]["exit_code"] or value is None or self.stopping or steady_state.judge(values, limits)["steady"]:
                break
        return runs, values

    def _counted(self, runs: list[dict[str, Any]], seen_by_device: tuple[bool, bool]) -> dict[str, Any]:
        """What the host counted in the measured time of these runs of the engine, as far as all of them tell."""
        counted = {}
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

    # ------------------------------------------------------------ one run of the engine

    def _job(self, job: Point, folder: str, fill: dict[str, Any] | None, log_ms: int | None) -> tuple[str, list[str]]:
        """(text, fio's arguments) of the job that measures a point or fills its layer; on many hosts when the point has servers."""
        if "servers" not in job:
            return fio.fill_file(job, **fill) if fill else fio.job_file(job, log_ms), ["job.fio"]
        texts = (
            fio_distributed.fill_files(job, self.known_layers, **fill)
            if fill
            else fio_distributed.job_files(job, self.known_layers)
        )
        return fio_distributed.joined(job["servers"], texts), fio_distributed.arguments(folder, job["servers"], texts)

    def _fio(
        self,
        folder: str,
        job: Point,
        phase: str = "",
        fill: dict[str, Any] | None = None,
        device: str | None = None,
        series: Series | None = None,
    ) -> dict[str, Any]:
        """Run one job to its end and say how it went. Never raises for what fio does."""
        workload = job["workload"]
        # Servers of many hosts leave their logs there.
        log_ms = None if fill or phase or "servers" in job else standstill.window_ms(workload["runtime_s"])
        text, arguments = self._job(job, folder, fill, log_ms)
        with open(os.path.join(folder, "job.fio"), "w", encoding="utf-8") as handle:
            handle.write(text)
        ramp_s, runtime_s = (
            (0, preparation.whole_bytes(job) * fill["passes"] / FILL_BYTES_S)
            if fill
            else (workload["ramp_s"], workload["runtime_s"])
        )
        argv = [
            self.engine,
            "--output-format=json+",
            "--output=fio.json",
            "--eta=always",
            "--eta-newline=1",
            *(["--readonly"] if "sampled" in job else []),
            *arguments,
        ]
        meter, started = Meter(device, ramp_s, runtime_s if by_time(workload) else None, job.get("counted")), utc()
        with open(os.path.join(folder, "stderr.txt"), "wb") as errors:
            process = subprocess.Popen(
                argv,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                preexec_fn=self._die_with_me,
            )
        timed_out = self._watch(process, meter, (ramp_s, runtime_s), phase, series)
        meter.end()
        seen, ended = meter.device_seen(), time.monotonic()
        if os.path.getsize(os.path.join(folder, "stderr.txt")) == 0:
            os.unlink(os.path.join(folder, "stderr.txt"))
        return {
            "exit_code": process.returncode,
            "timed_out": timed_out,
            "started_utc": started,
            "finished_utc": utc(),
            "begun": meter.begun,
            "ended": ended,
            "changed": meter.changed(),
            "span_unix_s": meter.span_unix_s(),
            "seen": seen,
            "windows": _windows(os.path.join(folder, fio.WINDOWS_LOG), log_ms) if log_ms else None,
        }

    def _watch(
        self,
        process: subprocess.Popen[bytes],
        meter: Meter,
        lengths: tuple[float, float],
        phase: str,
        series: Series | None,
    ) -> bool:
        """Keep state.json true and the meter reading until the process ends; end it, and its whole group, at the deadline or when told to stop."""
        pipe: int = process.stdout.fileno()  # type: ignore[union-attr] # it was started with a pipe
        recent, heard_s, tick_s, (ramp_s, runtime_s) = b"", 0.0, 0.0, lengths
        deadline_s = ramp_s + runtime_s + self.plan.get("grace_s", GRACE_S)
        while True:
            meter.look(process.pid)
            elapsed = meter.elapsed_s()
            if elapsed >= tick_s:
                in_ramp, sample = elapsed < ramp_s, meter.sample(process.pid)
                if series is not None and tick_s == 0:
                    series.started(sample)
                elif series is not None:
                    fresh = recent if elapsed - heard_s <= STALE_S and not 0 < ramp_s > elapsed - STALE_S else b""
                    # A row is of the second that has gone by, and belongs to where most of it was.
                    series.add(
                        "ramp" if elapsed - STATE_INTERVAL_S / 2 < ramp_s else "measure",
                        sample,
                        fio.live_iops(fresh),
                        fio.live_bandwidth_bytes_s(fresh),
                    )
                self._tell(
                    phase=phase or ("ramp" if in_ramp else "measure"),
                    elapsed_s=round(elapsed if in_ramp else elapsed - ramp_s, 1),
                    phase_s=round(ramp_s if in_ramp else runtime_s, 1),
                    iops=fio.live_iops(recent),
                    remaining_s=self._remaining(),
                )
                tick_s = max(tick_s + STATE_INTERVAL_S, elapsed)
            if elapsed > deadline_s or self.stopping:
                # Where this process stood still itself, fio may have ended long ago.
                late = elapsed > deadline_s and process.poll() is None
                _end_group(process)
                return late
            wait_s = min(tick_s - elapsed, meter.next_s(), deadline_s - elapsed)
            if select.select([pipe], [], [], max(wait_s, 0))[0]:
                chunk = os.read(pipe, 65536)
                if not chunk:
                    process.wait()
                    return False
                recent, heard_s = (recent + chunk)[-4096:], meter.elapsed_s()


def _of_servers(output: str, servers: list[dict[str, Any]]) -> str:
    """What is said of the hosts that failed in a job of many; empty when nothing is known of any."""
    with contextlib.suppress(Failure):
        results = fio_distributed.results(_text(output), servers) if servers else []
        return messages(fault for result in results for fault in result["failures"])
    return ""


def _memory(job: Point) -> dict[str, Any]:
    """What the host has left just before a point; of one through the page cache also how much of its range is there already."""
    host_memory: dict[str, Any] = {"available_bytes": memory_limits.memory(read_text).available_bytes or 0}
    if job["path"] is not None and not job["workload"]["direct"]:
        host_memory["cached_bytes"] = sum(_cached_bytes(job))
    return host_memory


def _cached_bytes(job: Point) -> list[Any]:
    """How much of what a point uses is in the page cache, of each file."""
    offset, size = extent(job["workload"], job["size_bytes"])
    return [memory.resident_bytes(path, offset, size) for path in _used_files(job)]


def _used_files(job: Point) -> list[str]:
    """What a point measures: of a layer with a file per worker, those of its workers."""
    return list(job["files"][: job["workload"]["workers"]]) if "files" in job else [job["path"]]


def _used_bytes(job: Point) -> int:
    return int(extent(job["workload"], job["size_bytes"])[1]) * len(_used_files(job))


def _clock_ahead_s() -> float:
    """By how much the clock on the wall is ahead of the one that only counts."""
    return time.time() - time.monotonic()


def _seen_by_device(job: Point, device: str | None) -> tuple[bool, bool]:
    """(whether the device counts the bytes of this job and nothing else, whether its I/Os too)."""
    # What is written to a page cache or a file system reaches the device in other pieces, and verifying reads are no reads of the workload.
    if (
        device is None
        or not job["workload"]["direct"]
        or "verify" in job["workload"]
        or not stat.S_ISBLK(os.stat(job["path"]).st_mode)
    ):
        return False, False
    whole = counters.unsplit_bytes(device)
    return True, whole is not None and block_bounds(job["workload"])[1] <= whole


def _windows(path: str, log_ms: int) -> dict[str, Any] | None:
    """In which windows of its measured time a run of fio completed I/O, as standstill.seen tells it. The log is not kept."""
    try:
        windows = standstill.seen(fio.log_moments_ms(_text(path)), log_ms)
    except FileNotFoundError:
        return None
    os.unlink(path)
    return windows


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as handle:
        return handle.read()


def _exit_error(done: dict[str, Any], folder: str) -> str | None:
    """Why a preparation failed, with fio's own words, which it puts before the JSON; None when it did not."""
    if not done["timed_out"] and not done["exit_code"]:
        return None
    paths = (os.path.join(folder, name) for name in ("stderr.txt", "fio.json"))
    words = " ".join(_text(path) for path in paths if os.path.exists(path)).partition("{")[0].split("\n")
    reason = next((f" It says: {line.strip()[:200]}." for line in words if line.strip()), "")
    return f"fio {exit_words(done['exit_code'])}{' after it was asked to' if done['timed_out'] else ''}.{reason}"


def _metric(path: str, metric: str) -> float | None:
    """The figure of a round that has just ended, None when fio left none."""
    try:
        results = fio.results(_text(path))
    except (FileNotFoundError, Failure):
        return None
    figure: float | None = results[0].get("total", {}).get(metric) if len(results) == 1 else None
    return figure


def _append(source: str, target: str, mark: str) -> None:
    """Add what one round left to what the rounds before it left."""
    for name in ("job.fio", "fio.json", "stderr.txt"):
        path = os.path.join(source, name)
        if os.path.exists(path):
            with open(path, "rb") as piece, open(os.path.join(target, name), "ab") as whole:
                whole.write((mark.encode() if name == "job.fio" else b"") + piece.read())


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for number, patience in ((signal.SIGTERM, POLITE_S), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass  # it ended by itself just now
        try:
            process.wait(patience)
            return
        except subprocess.TimeoutExpired:
            continue  # the next, harder signal; after the last one it is stuck in the kernel, and the guard refuses its device


def pack(target: IO[bytes], folder: str, names: list[str], level: int = 6) -> None:
    """Write a tar.gz of these parts of a run's folder to a binary stream."""
    with tarfile.open(fileobj=target, mode="w:gz", compresslevel=level) as archive:
        for name in names:
            if os.path.exists(os.path.join(folder, name)):
                archive.add(os.path.join(folder, name), arcname=name)
