# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the points of a Windows host from the controller, one run of an engine after another.

Each run is a scheduled task of its own on the host, so it lives on when the connection breaks. Its folder is named after what it does: the same
task of a playbook finds it again, waits for its end and takes its output. Finished points are handed over after each run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

from ...module_utils.core.failure import Failure, Fault, bad_value, messages
from ...module_utils.core.layers import Layer, down, of_others, only_read
from ...module_utils.core.times import CLOCK_STEP_S, unix_s
from ...module_utils.engines.catalogue import ENGINES
from ...module_utils.engines.engine import FILL_BLOCK_BYTES, Make, Place, Start
from ...module_utils.run import duration, preparation, server_cache
from ...module_utils.workload.point import Point
from ..store import local_times
from ..store.archive import LARGEST_FILE_BYTES
from ..windows import device_safety, existing, install, own_file, script_text
from ..windows import engines as windows_engines
from ..windows.action import WindowsScripts, lost
from ..windows.state import State

CHUNK_BYTES = 1 << 20
POLL_S = 2.0
LAST_POLL_S = 0.3
# A connection may be gone for so long before the task gives up. The run itself goes on.
CONNECTION_PATIENCE_S = 120.0
# Beyond the time at which the host ends a run by itself.
OVERDUE_S = 120.0
# The length of a run's folder without its unique part; with the names of the files in it, Windows takes 259.
LONGEST_FOLDER = 200
TIMES = ("started_utc", "finished_utc")
SINGLE_POINT_NOTES = (*TIMES, "wall_s", "late_s")
SEEN_IN = ("point_id", "layer", "workload_id", "repetition")


def task_name(testbed_id: str, folder: str) -> str:
    return f"storlab {testbed_id} {folder.rpartition(chr(92))[2]}"


class WindowsRun(WindowsScripts):
    """options: as plan.validate makes it.

    tell(state) is called while something runs, with a state as runner.py writes it; say(text) now and then, warn(text) of things that need a look.
    """

    def __init__(
        self,
        execute_module: Callable[..., dict[str, Any]],
        reset: Callable[[], object],
        task_vars: dict[str, Any],
        options: dict[str, Any],
        settings: dict[str, Any],
        tell: Callable[[dict[str, Any]], object],
        say: Callable[[str], object],
        warn: Callable[[str], object],
    ) -> None:
        self._execute_module, self._reset, self.task_vars = execute_module, reset, task_vars
        self.tell, self.say, self.warn = tell, say, warn
        self.options, self.settings = options, windows_engines.check(settings)
        self.engine = ENGINES[options["engine"]]
        self.host = task_vars["inventory_hostname"]

    # ---- before anything runs

    def begin(self, plan: dict[str, Any]) -> dict[str, object]:
        """See that the engine is there, every layer safe and nothing else measuring; the host's fingerprint. plan: as plan.for_host makes it."""
        if len("\\".join([self.settings["root"], self.options["testbed_id"], self.options["run_id"]])) > LONGEST_FOLDER:
            raise bad_value(
                "run_id", self.options["run_id"], "Use a shorter name: it becomes part of paths on the Windows host."
            )
        self.plan, self.preparation = plan, preparation.Preparation(plan, self)
        self.layers = {layer["name"]: layer for layer in plan["layers"]}
        self.preparations: dict[str, dict[str, bytes]] = {}
        self.folders: list[str] = []
        self.samples: dict[str, dict[str, object]] = {}
        self.failed, self.begun = 0, time.monotonic()
        self.steps_s = duration.steps_s(plan)
        program: dict[str, Any] = {}
        for wanted in [self.settings["program"]] if self.settings["program"] else self.engine.programs:
            program = self.reached("engine_host", {"Program": wanted})
            if program["program"]:
                break
        else:
            raise Failure(
                "engine_missing",
                f"{self.host} has no program {wanted}.",
                "Install it, or name it in full in benchmark_windows.program.",
                program=wanted,
            )
        self.program, self.session = (
            program["program"],
            self.engine.session if self.settings["session"] == "auto" else self.settings["session"],
        )
        if self.session == "interactive" and program["console_user"].lower() != program["account"].lower():
            who = program["console_user"] or "no user"
            raise Failure(
                "no_session",
                f"{self.engine.name} needs a desktop, but {who} is logged on at the console of {self.host}.",
                f"Log on there as {program['account']}, or set benchmark_windows.session to service; see docs/windows.md.",
                account=program["account"],
                console_user=program["console_user"],
            )
        state, devices = self._state(), {}
        for layer in plan["layers"]:
            if layer["path"] is not None:
                self._guard(state, layer)
                self._refuse_open_for_writing(layer)
                self.engine.check_disk(layer["path"], device_safety.inspect(state, layer["path"])["disk"])
                devices[layer["name"]] = {"path": layer["path"], "size_bytes": layer["size_bytes"], **layer["identity"]}
        self._wait_for_earlier()
        return windows_engines.environment(program, devices, self.engine.name)

    def _state(self) -> State:
        return cast(State, self.reached("state", {"Files": []}))

    def _guard(self, state: State, layer: Layer) -> list[str]:
        """Codes of what was overridden; raises for a layer that is not proven safe."""
        if only_read(layer):
            self._guard_reading(state, layer)
            return []
        if own_file.is_own(layer):
            look = cast(own_file.OwnLook, self.reached("own_look", own_file.question_of(layer)))
            existing.refuse(layer, own_file.refusals(layer, look))
            return []
        return [
            refusal.code
            for refusal in device_safety.guard(
                state, layer, self.plan["allow_device"], self.options["testbed_id"], self.plan["known_layers"]
            )[1]
        ]

    def _guard_reading(self, state: State, layer: Layer) -> None:
        """Raise for a path that is not the storage of others that the layer means. Nothing here allows writing."""
        folder = layer["identity"].get("mount_point")
        if folder:
            look = self.reached("volume_look", existing.question(folder, str(layer["path"])))
            reasons = existing.file_refusals(layer, cast(existing.Look, look))
        else:
            disk = device_safety.inspect(state, str(layer["path"]))["disk"]
            reasons = existing.refusals(layer, disk)
        existing.refuse(layer, reasons)

    def _sampled(self, layer: Layer) -> dict[str, object]:
        """Facts about storage of others for its results; none where its zeros cannot be counted; it is measured all the same."""
        if layer["name"] not in self.samples:
            question = existing.zero_question(layer)
            try:
                look = cast(existing.ZeroLook, self.reached("zero_look", question))
                self.samples[layer["name"]] = existing.zero_facts(look, question)
            except Failure as failure:
                if failure.code != "windows_script_failed":
                    raise
                self.warn(f"[{self.host}] {layer['name']}: zeros are not looked for: {failure.what}")
                self.samples[layer["name"]] = {}
        return self.samples[layer["name"]]

    def _refuse_open_for_writing(self, layer: Layer) -> None:
        """An engine that opens what it measures for reading and writing, or makes a second name for it, is not for storage of others."""
        if only_read(layer) and not self.engine.opens_for_reading:
            raise Failure(
                "layer_read_only",
                f"{self.engine.name} opens what it measures for writing, too, but {layer['name']} on {self.host} is storage of others and only read.",
                "Set benchmark_engine to fio or diskspd for this host.",
                layer=layer["name"],
                engine=self.engine.name,
            )
        if own_file.is_own(layer) and not self.engine.opens_for_reading:
            raise Failure(
                "workload_unsupported",
                f"{self.engine.name} works under a second name at the top of the drive, and {layer['name']} on {self.host} is a file in a folder of others.",
                "Set benchmark_engine to fio or diskspd for this host.",
                engine=self.engine.name,
                path=layer["path"],
            )

    def _wait_for_earlier(self) -> None:
        """A process that an interrupted task of this run left is waited for; beside anything else nothing is measured."""
        for run in self._runs():
            if run["state"] != "running":
                continue
            if not self._own(run):
                raise Failure(
                    "run_active",
                    f"{run['name']} of testbed {run['testbed_id']} is measuring on {self.host}; two at once would measure each other.",
                    "Wait for it, or end it: role benchmark with benchmark_state absent.",
                    folder=run["folder"],
                )
            self.say(f"[{self.host}] {run['name']} of an interrupted task is still running, and is waited for")
            while (
                self.reached("engine_status", {"Folder": run["folder"], "TaskName": run["task"]})["state"] == "running"
            ):
                time.sleep(POLL_S)

    def _runs(self) -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = self.reached("engine_list", {"Root": self.settings["root"], "TestbedId": ""})[
            "runs"
        ]
        return runs

    def _own(self, run: dict[str, Any]) -> bool:
        ours: bool = run["testbed_id"] == self.options["testbed_id"]
        return ours and run["name"].rpartition("-")[0] == self.options["run_id"]

    # ---- points

    def measure(self) -> Iterator[tuple[dict[str, Any], dict[str, dict[str, bytes]]]]:
        """({point_id: {file name: content}}, {preparation: {file name: content}}) after each run of the engine; then that is removed from the host."""
        # A point that is warmed up by its own workload, or finds zeroes, cannot share a run with others.
        points: list[Point] = self.plan["points"]
        jobs: list[Point] = [
            {
                **point,
                "path": self.layers[point["layer"]]["path"],
                "size_bytes": self.layers[point["layer"]]["size_bytes"],
            }
            for point in points
        ]
        first = 1
        alone = self.preparation.prepare["warmup_s"] or preparation.zeroes(self.preparation.prepare)
        for batch in [[job] for job in jobs] if alone else self.engine.batches(jobs):
            self.preparations, self.first, self.point_begun = {}, first, time.monotonic()
            files = self._batch(batch)
            yield files, self.preparations
            while self.folders:
                folder = self.folders.pop()
                self._remove({"Folder": folder, "TaskName": task_name(self.options["testbed_id"], folder)})
            first += len(batch)
        for run in self._runs():
            if self._own(run) and not install.uncollected([run]):
                self._remove({"Folder": run["folder"], "TaskName": run["task"]})
            elif self._own(run):
                # The files are of another plan of this name: only the task that began it knows what it measured.
                self.warn(
                    f"[{self.host}] {run['name']} has ended, but its results were not collected; they are kept there until that benchmark runs again."
                )

    def _batch(self, jobs: list[Point]) -> dict[str, Any]:
        meta: dict[str, Any] = {"failures": [], "flags": [], "overridden": []}
        files: dict[str, Any] = {}
        run: dict[str, str] = {}
        try:
            if jobs[0]["path"] is not None:
                self.seen = self._state()
                layer = self.layers[jobs[0]["layer"]]
                meta["overridden"] = self._guard(self.seen, layer)
                if only_read(layer):
                    for job in jobs:
                        job["sampled"] = self._sampled(layer)
                self.preparation.before(jobs, meta)
                known = {layer["name"]: layer for layer in self.plan["known_layers"]}
                if of_others(layer) or server_cache.over_own_export(down(known, layer)):
                    meta["preparation"]["storage_cache"] = "unknown"
                    meta["flags"].append("cache_unknown")
            done = self._execute("measure", jobs, lambda place: self.engine.command(jobs, place))
            files, meta["exit_code"] = done["files"], done["exit_code"]
            meta["failures"] += done["failures"]
            # For several points in one run no one notes during which of them the host stood still; when each was, the engine's own stamps show.
            run = {key: done[key] for key in TIMES if key in done}
            if len(jobs) == 1:
                meta.update({key: done[key] for key in SINGLE_POINT_NOTES if key in done})
                meta["flags"] += ["clock_stepped"] if done["clock_step_s"] > CLOCK_STEP_S else []
        except Failure as failure:
            if failure.code == "host_unreachable":
                raise
            meta["failures"].append(failure.as_fault())
        return self._divided(jobs, meta, files, run)

    def _divided(
        self, jobs: list[Point], meta: dict[str, Any], files: dict[str, bytes], run: dict[str, str]
    ) -> dict[str, dict[str, bytes]]:
        """The files of each point: what the engine left of all of them, which of its tests was whose, and when it was. run: its TIMES."""
        text, whole = files.get(self.engine.raw_file, b"").decode("utf-8", "surrogateescape"), list[Any]()
        try:
            tests, whole = self.engine.tests(text, jobs)
            series = self.engine.series(text) if self.options["series"] and text else []
            spans = (
                local_times.of_run(self.engine.results(text), *(run.get(key, "") for key in TIMES))
                if run and len(jobs) > 1
                else []
            )
        except Failure:
            # Whoever reads the results of each point will say why they cannot be read.
            tests, series, spans = dict.fromkeys((job["point_id"] for job in jobs), 0), [], []
        divided = {}
        for job in jobs:
            own, test = dict(meta), tests[job["point_id"]]
            flags = list(meta["flags"])
            if preparation.reads_unwritten(job["workload"], meta):
                flags.append("not_filled")
            if self.engine.shares_runs:
                own["test"] = test
                if test is None:
                    own["failures"] = [*meta["failures"], *whole]
                else:
                    # It was measured before whatever ended the engine.
                    own.update(failures=[], exit_code=0)
                    own.update(spans[test] if spans else {})
            own.update(point_id=job["point_id"], flags=flags)
            left = dict(files)
            if test is not None and test < len(series) and series[test]:
                left["series.json"] = json.dumps(series[test]).encode()
            for name, key in (
                (self.engine.raw_file, "raw_sha256"),
                (self.engine.job_file, "job_sha256"),
                ("series.json", "series_sha256"),
            ):
                if name in left:
                    own[key] = hashlib.sha256(left[name]).hexdigest()
            self.failed += bool(own["failures"])
            divided[job["point_id"]] = {**left, "meta.json": json.dumps(own).encode()}
        return divided

    # ---- preparation, as preparation.Executor says it

    remedy = "Look at the device, and at the host's event log."

    def instance(self, job: Point) -> str | None:
        return device_safety.instance(self.seen, self.layers[job["layer"]])

    def write(self, job: Point, writing: preparation.Writing, instance: str | None) -> preparation.Written:
        block_bytes = FILL_BLOCK_BYTES if writing.block_bytes is None else writing.block_bytes
        times_s: list[float | None] = []
        for number in range(1, writing.passes + 1):
            # For another device of that name, or before a restart, it would prove nothing.
            once = cast(Point, {**job, "pass": f"{number} of {instance}"})
            error = self._write_once(once, f"{writing.phase}-{job['layer']}", block_bytes, times_s)
            if error:
                return preparation.Written(error, None)
        known_s = [time_s for time_s in times_s if time_s is not None]
        return preparation.Written(None, sum(known_s) if len(known_s) == len(times_s) else None)

    def _write_once(self, job: Point, name: str, block_bytes: int, times_s: list[float | None]) -> str | None:
        """Why it failed, or None. times_s: gets what each run of the engine took, None of one that did not say so."""
        position, bytes_s = 0, None
        while position < job["size_bytes"]:
            run, point = self.engine.fill(job, block_bytes, position, bytes_s)
            done = self._execute(name.partition("-")[0], [point], run, name)
            if done["failures"]:
                return messages(done["failures"]).rstrip(".") + "."
            output = done["files"].get(self.engine.raw_file, b"").decode("utf-8", "surrogateescape")
            written, bytes_s = self.engine.filled(output, point)
            if written < point["least_bytes"]:
                return f"{written} of {job['size_bytes'] - position} bytes were written."
            position += written
            times_s.append(done.get("wall_s"))
        return None

    def hit_percent(self) -> float | None:
        return None

    def warm_up(self, job: Point, seconds: float) -> str | None:
        point: Point = {**job, "workload": {**job["workload"], "ramp_s": 0, "runtime_s": math.ceil(seconds)}}
        done = self._execute(
            "warmup",
            [point],
            lambda place: self.engine.command([point], place),
            f"warmup-{job['layer']}.{job['workload_id']}",
        )
        if done["failures"]:
            return messages(done["failures"])
        return f"{self.engine.name} ended with exit code {done['exit_code']}." if done["exit_code"] else None

    def drop_page_cache(self, _job: Point) -> bool:
        """Windows has no way to empty it."""
        return False

    # ---- one run of the engine

    def _execute(self, phase: str, jobs: list[Point], make: Make, name: str = "") -> dict[str, Any]:
        """A run to its end: {files, exit_code, failures, started_utc, finished_utc, wall_s, late_s, clock_step_s}.

        make says what is run. name: of the preparation that its files belong to, if it is one.
        """
        keyed = [
            {key: job[key] for key in ("point_id", "workload", "seed", "path", "size_bytes")}
            | {"pass": job.get("pass")}
            for job in jobs
        ]
        digest = hashlib.sha256(
            json.dumps([phase, name, self.engine.name, keyed], sort_keys=True).encode()
        ).hexdigest()[:10]
        # The preparation of the points is marked: it may be lost, as it would be done again.
        mark = install.PREPARATION if name else ""
        folder = "\\".join(
            [self.settings["root"], self.options["testbed_id"], f"{self.options['run_id']}-{mark}{digest}"]
        )
        place, run = (
            {"Folder": folder, "TaskName": task_name(self.options["testbed_id"], folder)},
            make(Place(folder, windows=True, version=self.settings["iometer_version"])),
        )
        self.folders.append(folder)
        if self.reached("engine_status", place)["state"] == "lost":
            self._remove(place)
        self._start(place, run)
        status = self._wait(place, run, phase, jobs)
        ended, files = _ended(status) or {}, {key: text.encode() for key, text in run["job"].items()}
        for file in status["files"]:
            if file["name"] in (self.engine.raw_file, "stderr.txt") and file["size_bytes"]:
                files[file["name"]] = self._read(f"{folder}\\{file['name']}")
        if name:
            kept = self.preparations.setdefault(name, {})
            for key, content in files.items():
                kept[key] = kept.get(key, b"") + content
        outcome = {
            "files": files,
            "exit_code": None if ended.get("exit_code") is None else ended["exit_code"] & 0xFFFFFFFF,
            "failures": [],
            **{key: ended[key] for key in ("started_utc", "finished_utc") if ended.get(key)},
            # A run that an earlier version started notes neither.
            "late_s": (ended.get("late_ms") or 0) / 1000,
            "clock_step_s": (ended.get("clock_step_ms") or 0) / 1000,
        }
        if "started_utc" in outcome and "finished_utc" in outcome:
            outcome["wall_s"] = round(unix_s(ended["finished_utc"]) - unix_s(ended["started_utc"]), 3)
        outcome["failures"] = self._failures(status, run)
        self._name_left(ended.get("left") or [])
        return outcome

    def _remove(self, place: dict[str, str]) -> None:
        self._name_left(self.reached("engine_remove", place).get("left") or [])

    def _name_left(self, left: list[dict[str, object]]) -> None:
        if left:
            self.warn(f"[{self.host}] {install.left_words(left)}")

    def _failures(self, status: dict[str, Any], run: Start) -> list[Fault]:
        ended = _ended(status)
        if status["state"] == "overdue" or (ended and ended["timed_out"]):
            silent = not any(file["name"] == self.engine.raw_file and file["size_bytes"] for file in status["files"])
            return [
                Failure(
                    "engine_timeout",
                    f"{self.engine.name} did not end within {run['limit_s']} s and was ended."
                    + (self.engine.silence if silent else ""),
                ).as_fault()
            ]
        if ended is None:
            return [
                Failure(
                    "run_lost",
                    f"The task that ran {self.engine.name} is gone from {self.host}: the host was restarted, or someone ended it.",
                ).as_fault()
            ]
        if ended["error"]:
            return [
                Failure(
                    "engine_start_failed", f"{self.engine.name} could not be run: {str(ended['error']).rstrip('.')}."
                ).as_fault()
            ]
        return []

    def _start(self, place: dict[str, str], run: Start) -> None:
        """Start it, unless it is there already. An answer that was lost says nothing about whether it was started."""
        while self.reached("engine_status", place)["state"] == "missing":
            try:
                self.script(
                    "engine_start",
                    {
                        **place,
                        "Names": list(run["files"]),
                        "Contents": [_base64(text) for text in run["files"].values()],
                        "Runner": _base64(script_text.script("engine_run")),
                        "Program": self.program,
                        "Arguments": subprocess.list2cmdline(run["arguments"]),
                        "Output": run["output"],
                        "LimitS": run["limit_s"],
                        "Session": self.session,
                        "Link": run["link"],
                        "LinkTarget": run["link_target"],
                        "LicenceVersion": run["licence_version"],
                        "Leaves": run["leaves"],
                        "Mark": run["mark"],
                    },
                )
                return
            except Exception as error:
                if not lost(error):
                    raise
                self._connect_again()

    def _wait(self, place: dict[str, str], run: Start, phase: str, jobs: list[Point]) -> dict[str, Any]:
        begun, expected_s = time.monotonic(), sum(duration.point_s(job["workload"]) for job in jobs)
        interval = max(POLL_S, expected_s / 200)
        while True:
            status = self.reached("engine_status", place)
            if status["state"] != "running":
                return status
            elapsed = time.monotonic() - begun
            if elapsed > run["limit_s"] + OVERDUE_S:
                return {**status, "state": "overdue"}
            self._tell(phase, jobs, elapsed)
            # Not beyond the expected end, so that a short run is not waited for.
            time.sleep(min(interval, max(expected_s - elapsed, LAST_POLL_S)))

    def _tell(self, phase: str, jobs: list[Point], elapsed: float) -> None:
        position = 0
        while position + 1 < len(jobs) and elapsed > duration.point_s(jobs[position]["workload"]):
            elapsed -= duration.point_s(jobs[position]["workload"])
            position += 1
        job, number, now = jobs[position], self.first + position, time.monotonic()
        in_ramp = phase == "measure" and elapsed < job["workload"]["ramp_s"]
        left = sum(self.steps_s[self.first - 1 :]) - (now - self.point_begun)
        self.tell(
            {
                "status": "running",
                "point": number,
                "points": len(self.plan["points"]),
                "repetitions": self.plan["repetitions"],
                "failed": self.failed,
                **{key: dict(job)[key] for key in SEEN_IN},
                "phase": "ramp" if in_ramp else phase,
                "updated": round(now - self.begun, 1),
                "elapsed_s": round(
                    elapsed if in_ramp or phase != "measure" else elapsed - job["workload"]["ramp_s"], 1
                ),
                "phase_s": job["workload"]["ramp_s" if in_ramp else "runtime_s"],
                "remaining_s": round(max(left, 0), 1),
            }
        )

    def _read(self, path: str) -> bytes:
        content = b""
        while True:
            piece = self.reached("file_read", {"Path": path, "Offset": len(content), "Bytes": CHUNK_BYTES})
            content += base64.b64decode(piece["content"])
            if len(content) > LARGEST_FILE_BYTES:
                raise Failure(
                    "transfer_damaged",
                    f"{path} on {self.host} has more than {LARGEST_FILE_BYTES} bytes.",
                    "Look at that file; the output of a point has some megabytes.",
                )
            if not piece["content"] or len(content) >= piece["size_bytes"]:
                return content

    def reached(self, name: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """The answer of a script, waiting for a host that is out of reach for a while."""
        deadline = time.monotonic() + CONNECTION_PATIENCE_S
        while True:
            try:
                return self.script(name, parameters)
            except Exception as error:
                if not lost(error):
                    raise
                if time.monotonic() > deadline:
                    raise Failure(
                        "host_unreachable",
                        f"{self.host} has not been reached for {CONNECTION_PATIENCE_S:.0f} s ({error}), so it is unknown whether it still measures.",
                        "Run the same task again: it continues a run that is still going on, and measures lost points again.",
                    ) from error
                time.sleep(POLL_S)
                self._connect_again()

    def _connect_again(self) -> None:
        """The connection plugins for Windows keep a shell that is open, and do not notice that it is gone."""
        try:
            self._reset()
        except Exception as error:
            if not lost(error):
                raise


def _ended(status: dict[str, Any]) -> dict[str, Any] | None:
    """The host's runner's note of a run's end, None before it."""
    return json.loads(status["ended"]) if status["ended"] else None


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
