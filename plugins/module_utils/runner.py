# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the points of one host, on that host, without a connection to anybody.

``start`` leaves a supervisor behind that does one point after another; the controller reads state.json and collects an
archive at the end. The supervisor lives on when the connection breaks, and nothing of fio outlives the supervisor.

    <state_dir>/plan.json supervisor.json state.json supervisor.log host.json archive.tar.gz
    <state_dir>/points/<point_id>/job.fio fio.json stderr.txt meta.json
"""

from __future__ import annotations

import base64
import ctypes
import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import tarfile
import time
import traceback

from . import device_safety, environment
from .daemon import alive, base_dir, detach, end, log, log_tail, private_folder, read_json, remove_empty, utc, write_json
from .engines import fio, fio_distributed
from .failure import Failure
from .workload import directions

PR_SET_PDEATHSIG = 1
# A point may take this much longer than asked for: starting up, waiting for I/O in flight. Emulated machines are slow.
GRACE_S = 60
# How long fio may take to end when it is asked to, before it is made to.
POLITE_S = 5
# No disk worth measuring writes slower than this.
FILL_BYTES_S = 1 << 20
STATE_INTERVAL_S = 1.0
CHUNK_BYTES = 4 << 20
SEEN_IN = ("point_id", "layer", "workload_id", "repetition")

# ---------------------------------------------------------------- where


def state_dir(testbed_id: str, run_id: str, base: str | None = None) -> str:
    return os.path.join(base or base_dir(), testbed_id, "bench", run_id)


# ---------------------------------------------------------------- the module's actions


def start(plan: dict, base: str | None = None) -> dict:
    """Prove every layer safe, then leave a supervisor running. A run of the same plan that is there already is joined."""
    folder = state_dir(plan["testbed_id"], plan["run_id"], base)
    digest = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
    joined = _existing(folder, digest)
    if joined:
        return joined
    _refuse_second_run(folder)
    engine = find_engine()
    fio_distributed.check_versions([server for point in plan["points"] for server in point.get("servers", ())], engine)
    check_layers(plan)
    private_folder(os.path.dirname(os.path.dirname(os.path.dirname(folder))), folder)
    os.makedirs(os.path.join(folder, "points"))
    write_json(os.path.join(folder, "plan.json"), {"sha256": digest, "plan": plan})
    write_json(os.path.join(folder, "host.json"), environment.fingerprint(plan["layers"], engine))
    write_json(os.path.join(folder, "state.json"), {"status": "running", "phase": "start", "point": 0, "points": len(plan["points"])})
    pid = detach(lambda: Supervisor(folder, plan, engine).run(), folder)
    return {"state_dir": folder, "pid": pid, "joined": False}


def status(testbed_id: str, run_id: str, base: str | None = None) -> dict:
    folder = state_dir(testbed_id, run_id, base)
    return {"state_dir": folder, "alive": alive(folder), "state": read_json(os.path.join(folder, "state.json")), "log": log_tail(folder)}


def stop(testbed_id: str, run_id: str | None = None, remove: bool = False, base: str | None = None, dry_run: bool = False) -> dict:
    """End one run, or all runs of the testbed, and everything they started; with ``remove`` their folders go as well."""
    above = os.path.dirname(state_dir(testbed_id, "x", base))
    names = [run_id] if run_id else sorted(os.listdir(above)) if os.path.isdir(above) else []
    folders = [os.path.join(above, name) for name in names if os.path.isdir(os.path.join(above, name))]
    stopped = [folder for folder in folders if alive(folder)]
    removed = folders if remove else []
    if not dry_run:
        for folder in stopped:
            end(folder)
        for folder in removed:
            shutil.rmtree(folder)
        if remove:
            remove_empty(above, os.path.dirname(above), os.path.dirname(os.path.dirname(above)))
    return {"changed": bool(stopped or removed), "stopped": stopped, "removed": removed}


def collect(testbed_id: str, run_id: str, offset: int = 0, base: str | None = None) -> dict:
    """A piece of the archive of a run that has ended; ``next_offset`` is absent in the last one."""
    folder = state_dir(testbed_id, run_id, base)
    if alive(folder):
        raise Failure("run_active", f"Run {run_id} is still measuring.", "Wait for it, or stop it.", state_dir=folder)
    if read_json(os.path.join(folder, "plan.json")) is None:
        raise Failure("run_missing", f"This host has no run {run_id}.", "Start it.", state_dir=folder)
    path = os.path.join(folder, "archive.tar.gz")
    if not os.path.exists(path):
        # The supervisor was killed; what it had measured until then is still there.
        pack(folder)
    with open(path, "rb") as handle:
        digest = hashlib.sha256(handle.read()).hexdigest() if offset == 0 else None
        handle.seek(offset)
        piece = handle.read(CHUNK_BYTES)
    size = os.path.getsize(path)
    result = {"content": base64.b64encode(piece).decode(), "size_bytes": size, "state": read_json(os.path.join(folder, "state.json"))}
    if digest:
        result["sha256"] = digest
    if offset + len(piece) < size:
        result["next_offset"] = offset + len(piece)
    return result


# ---------------------------------------------------------------- before anything runs


def find_engine() -> str:
    path = shutil.which("fio")
    if not path:
        raise Failure("engine_missing", "fio is not installed on this host.", "Install the package fio, or set benchmark_install_packages to true.")
    return os.path.realpath(path)


def check_layers(plan: dict) -> None:
    """The guard for every layer, and every job file written once, before the first byte of I/O."""
    layers = {layer["name"]: layer for layer in plan["layers"]}
    for name in dict.fromkeys(point["layer"] for point in plan["points"]):
        if layers[name]["path"] is not None:
            device_safety.guard(layers[name], plan["allow_device"], plan["testbed_id"], plan["known_layers"])
    known = {layer["name"]: layer for layer in plan["known_layers"]}
    for point in plan["points"]:
        if "servers" in point:
            # Each server's host proved its layer when it started the server.
            fio_distributed.job_files(point, known)
        else:
            fio.job_file({**point, "path": layers[point["layer"]]["path"], "size_bytes": layers[point["layer"]]["size_bytes"]})


def _existing(folder: str, digest: str) -> dict | None:
    known = read_json(os.path.join(folder, "plan.json"))
    if known is None:
        return None
    running = alive(folder)
    finished = (read_json(os.path.join(folder, "state.json")) or {}).get("status") == "finished"
    if known["sha256"] == digest and (running or finished):
        return {"state_dir": folder, "pid": read_json(os.path.join(folder, "supervisor.json"))["pid"], "joined": True}
    if running:
        raise Failure("run_exists", f"This run is already measuring something else ({folder}).", "Wait for it, stop it, or choose another run_id.")
    shutil.rmtree(folder)
    return None


def _refuse_second_run(folder: str) -> None:
    base = os.path.dirname(os.path.dirname(os.path.dirname(folder)))
    for testbed in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        above = os.path.join(base, testbed, "bench")
        for run in sorted(os.listdir(above)) if os.path.isdir(above) else []:
            if alive(os.path.join(above, run)):
                raise Failure("run_active", f"Run {run} of testbed {testbed} is measuring on this host; two at once would measure each other.",
                              "Wait for it, or stop it.", state_dir=os.path.join(above, run))


# ---------------------------------------------------------------- the supervisor


class Supervisor:
    def __init__(self, folder: str, plan: dict, engine: str):
        self.folder, self.plan, self.engine = folder, plan, engine
        self.layers = {layer["name"]: layer for layer in plan["layers"]}
        self.known_layers = {layer["name"]: layer for layer in plan["known_layers"]}
        self.fills: dict = {}
        self.stopping = False
        self.prctl = ctypes.CDLL(None).prctl
        self.state: dict = {"status": "running", "points": len(plan["points"]), "failed": 0}
        self.begun = time.monotonic()
        self.current_s = 0.0

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            for index, point in enumerate(self.plan["points"], start=1):
                if self.stopping:
                    break
                self.current_s = expected_s(point["workload"])
                self.state.update({"point": index, "repetitions": self.plan["repetitions"], **{key: point[key] for key in SEEN_IN}})
                self._point(point)
            outcome = "stopped" if self.stopping else "finished"
        except Exception:
            log(self.folder, traceback.format_exc())
            outcome = "crashed"
        pack(self.folder)
        self._tell(status=outcome, phase="end", remaining_s=0)

    def _die_with_me(self) -> None:
        """Runs in the new process: a supervisor that is killed takes fio with it."""
        self.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def _on_signal(self, _number, _frame) -> None:
        self.stopping = True

    def _tell(self, **news) -> None:
        self.state.update(news)
        self.state["updated"] = round(time.monotonic() - self.begun, 1)
        write_json(os.path.join(self.folder, "state.json"), self.state)

    def _remaining(self, of_this_point: float) -> float:
        later = self.plan["points"][self.state["point"]:]
        return round(max(of_this_point, 0) + sum(expected_s(point["workload"]) for point in later), 1)

    def _point(self, point: dict) -> None:
        folder = os.path.join(self.folder, "points", point["point_id"])
        os.makedirs(folder)
        layer, meta, held = self.layers[point["layer"]], {"point_id": point["point_id"], "failures": [], "flags": [], "overridden": []}, None
        try:
            path = None
            if layer["path"] is not None:
                facts, overridden = device_safety.guard(layer, self.plan["allow_device"], self.plan["testbed_id"], self.plan["known_layers"])
                path, meta["overridden"] = facts["resolved"], [item["code"] for item in overridden]
                # Held open while it is measured, so that its number cannot be given to another device meanwhile.
                held = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            job = {**point, "path": path, "size_bytes": layer["size_bytes"]}
            if (path is not None or "servers" in point) and "read" in directions(point["workload"]):
                meta["flags"] += self._fill(job)
            meta.update(self._fio(folder, *self._job(job, folder), point["workload"]["ramp_s"], point["workload"]["runtime_s"]))
        except Failure as failure:
            meta["failures"].append({"code": failure.code, "message": str(failure)})
        finally:
            if held is not None:
                os.close(held)
        if meta.pop("timed_out", False):
            meta["failures"].append({"code": "engine_timeout", "message": f"fio did not end within {meta['wall_s']:.0f} s and was ended."})
        self.state["failed"] += bool(meta["failures"] or meta.get("exit_code"))
        write_json(os.path.join(folder, "meta.json"), meta)

    def _fill(self, job: dict) -> list:
        """Write every block of the layer once: what was never written is read from nowhere, and fast. Returns flags."""
        if not self.plan["fill"]:
            return ["not_filled"]
        name = job["layer"]
        if name not in self.fills:
            folder = os.path.join(self.folder, "fills", name)
            os.makedirs(folder)
            seconds = job["size_bytes"] / FILL_BYTES_S
            done = self._fio(folder, *self._job(job, folder, fill=True), 0, seconds, phase="fill")
            self.fills[name] = self._fill_error(folder, done, job["size_bytes"])
        if self.fills[name]:
            raise Failure("fill_failed", f"{name} could not be written once before reading: {self.fills[name]}",
                          "Look at the device and the host's kernel log.")
        return []

    def _fill_error(self, folder: str, done: dict, size_bytes: int) -> str | None:
        if done["timed_out"] or done["exit_code"]:
            return f"fio ended with exit code {done['exit_code']}{' after it was told to' if done['timed_out'] else ''}."
        with open(os.path.join(folder, "fio.json"), encoding="utf-8", errors="surrogateescape") as handle:
            written = sum(found.get("write", {}).get("bytes", 0) for found in fio.results(handle.read()))
        return None if written == size_bytes else f"{written} of {size_bytes} bytes were written."

    def _job(self, job: dict, folder: str, fill: bool = False) -> tuple:
        """(text, fio's arguments) of the job that measures a point or fills its layer; on many hosts when the point has servers."""
        if "servers" not in job:
            return (fio.fill_file if fill else fio.job_file)(job), ["job.fio"]
        texts = (fio_distributed.fill_files if fill else fio_distributed.job_files)(job, self.known_layers)
        return fio_distributed.joined(job["servers"], texts), fio_distributed.arguments(folder, job["servers"], texts)

    def _fio(self, folder: str, job_text: str, arguments: list, ramp_s: float, runtime_s: float, phase: str = "") -> dict:
        """Run one job to its end and say how it went. Never raises for what fio does."""
        with open(os.path.join(folder, "job.fio"), "w", encoding="utf-8") as handle:
            handle.write(job_text)
        argv = [self.engine, "--output-format=json+", "--output=fio.json", "--eta=always", "--eta-newline=1", *arguments]
        before, started, begun = _processor_times(), utc(), time.monotonic()
        deadline = begun + ramp_s + runtime_s + self.plan.get("grace_s", GRACE_S)
        with open(os.path.join(folder, "stderr.txt"), "wb") as errors:
            process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                                       start_new_session=True, preexec_fn=self._die_with_me)
        timed_out = self._watch(process, begun, deadline, ramp_s, runtime_s, phase)
        result = {"exit_code": process.returncode, "timed_out": timed_out, "started_utc": started, "finished_utc": utc(),
                  "wall_s": round(time.monotonic() - begun, 3), **_busy(before, _processor_times())}
        if os.path.getsize(os.path.join(folder, "stderr.txt")) == 0:
            os.unlink(os.path.join(folder, "stderr.txt"))
        for name, key in (("fio.json", "raw_sha256"), ("job.fio", "job_sha256")):
            if os.path.exists(os.path.join(folder, name)):
                with open(os.path.join(folder, name), "rb") as handle:
                    result[key] = hashlib.sha256(handle.read()).hexdigest()
        return result

    def _watch(self, process, begun: float, deadline: float, ramp_s: float, runtime_s: float, phase: str) -> bool:
        """Keep state.json true until the process ends; end it, and its whole group, at the deadline or when told to stop."""
        pipe, recent, told = process.stdout.fileno(), b"", 0.0
        while True:
            now = time.monotonic()
            if now - told >= STATE_INTERVAL_S:
                elapsed = now - begun
                in_ramp = elapsed < ramp_s
                self._tell(phase=phase or ("ramp" if in_ramp else "measure"), elapsed_s=round(elapsed if in_ramp else elapsed - ramp_s, 1),
                           phase_s=round(ramp_s if in_ramp else runtime_s, 1), iops=fio.live_iops(recent),
                           remaining_s=self._remaining(self.current_s - (0 if phase else elapsed)))
                told = now
            if now > deadline or self.stopping:
                _end_group(process)
                return now > deadline
            if select.select([pipe], [], [], min(STATE_INTERVAL_S, max(deadline - now, 0)))[0]:
                chunk = os.read(pipe, 65536)
                if not chunk:
                    process.wait()
                    return False
                recent = (recent + chunk)[-4096:]


def _end_group(process) -> None:
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


def expected_s(workload: dict) -> float:
    """How long a point takes, as far as can be said before."""
    return workload["ramp_s"] + workload["runtime_s"] + 0.5


def pack(folder: str) -> None:
    """One archive of all that was measured."""
    path = os.path.join(folder, "archive.tar.gz")
    with tarfile.open(f"{path}.new", "w:gz", compresslevel=6) as archive:
        for name in ("host.json", "points"):
            archive.add(os.path.join(folder, name), arcname=name)
    os.replace(f"{path}.new", path)


def _processor_times() -> list:
    with open("/proc/stat", encoding="utf-8") as handle:
        return [int(field) for field in handle.readline().split()[1:9]]


def _busy(before: list, after: list) -> dict:
    """Shares of all processors' time: user nice system idle iowait irq softirq steal."""
    spent = [late - early for early, late in zip(before, after)]
    total = sum(spent)
    if total <= 0:
        return {}
    return {"host_busy_percent": round(100 * (total - spent[3] - spent[4]) / total, 2), "host_steal_percent": round(100 * spent[7] / total, 2)}
