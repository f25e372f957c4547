# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures layers; documentation in plugins/modules/benchmark.py."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import io
import json
import os
import re
import shlex
import tarfile
import tempfile
import time

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils import result as schema
from ..module_utils.engines import fio
from ..module_utils.failure import Failure, bad_value
from ..module_utils.layers import validate_layer
from ..module_utils.sweep import expand, refuse_repeated
from ..module_utils.workload import workload_id

ARGUMENTS = {
    "testbed_id": {"type": "str", "required": True},
    "run_id": {"type": "str", "required": True},
    "results_dir": {"type": "path", "required": True},
    "layers": {"type": "raw"},
    "workload": {"type": "dict"},
    "workloads": {"type": "list", "elements": "dict"},
    "sweep": {"type": "dict"},
    "repetitions": {"type": "int", "default": 1},
    "engine": {"type": "str", "choices": ["fio"], "default": "fio"},
    "fill": {"type": "bool", "default": True},
    "allow_device": {"type": "list", "elements": "str", "default": []},
    "force": {"type": "bool", "default": False},
    "progress": {"type": "str", "choices": ["auto", "line", "none"], "default": "auto"},
}
RUN_MODULE = "storlab.testbed.benchmark_run"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
ENDED = ("finished", "stopped", "crashed")
POLL_S = 2.0
LAST_POLL_S = 0.2
# The supervisor speaks every second; after this silence it is asked whether it lives.
SILENCE_S = 20.0
# A connection may be gone for so long before the task gives up. The run itself goes on.
CONNECTION_PATIENCE_S = 120.0
# Seconds between two lines of one host: at least, and at most when nothing changes.
LINE_S = {"auto": (5.0, 30.0), "line": (0.0, POLL_S)}
FILES = ("meta.json", "fio.json", "job.fio", "stderr.txt")
LARGEST_FILE_BYTES = 256 << 20

display = Display()


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("allow_device", "engine", "fill", "force", "layers", "progress", "repetitions", "results_dir", "run_id", "sweep", "testbed_id",
                             "workload", "workloads"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _checked, args = self.validate_argument_spec(argument_spec=ARGUMENTS)
        task_vars = task_vars or {}
        try:
            result.update(self._benchmark(args, task_vars))
        except Failure as failure:
            result.update(failed=True, **failure.as_result())
        return result

    def _benchmark(self, args: dict, task_vars: dict) -> dict:
        host, facts = task_vars["inventory_hostname"], task_vars.get("ansible_facts", {})
        plan = make_plan(args, facts.get("storlab_layers", {}), host)
        run_dir = os.path.join(self._loader.path_dwim(args["results_dir"]), args["testbed_id"], args["run_id"])
        kept = {} if args["force"] else stored(run_dir, plan["points"])
        missing = [point for point in plan["points"] if point["point_id"] not in kept]
        answer = {"changed": bool(missing), "run_id": args["run_id"], "run_dir": run_dir, "skipped_layers": plan["skipped_layers"],
                  "estimated_s": round(sum(seconds(point) for point in missing), 1)}
        if not plan["points"]:
            return {**answer, "points": [], "msg": f"{host} has no layer to measure."}
        if self._task.check_mode:
            return {**answer, "points": [shown(point, "stored" if point["point_id"] in kept else "planned") for point in plan["points"]]}
        results = dict(kept)
        if missing:
            results.update(self._measure(args, plan, missing, run_dir, host, task_vars))
        results = {point["point_id"]: results[point["point_id"]] for point in plan["points"]}
        answer["points"] = [shown(point, results[point["point_id"]]["status"]) for point in plan["points"]]
        answer["ansible_facts"] = {"storlab_benchmarks": merged_facts(facts.get("storlab_benchmarks", {}), args, run_dir, results)}
        failed = {name: found["failures"] for name, found in results.items() if found["status"] == "failed"}
        if failed:
            first, why = next(iter(failed.items()))
            raise_failed = Failure("points_failed", f"{len(failed)} of {len(results)} points on {host} failed, first {first}: {why[0]['message']}",
                                   f"The measured points are kept in {run_dir}; repair it and run again, only the missing ones are measured.",
                                   failed=failed, measured=len(results) - len(failed), run_dir=run_dir)
            answer.update(failed=True, **raise_failed.as_result())
        return answer

    # ------------------------------------------------------------ on the host

    def _measure(self, args: dict, plan: dict, points: list, run_dir: str, host: str, task_vars: dict) -> dict:
        sent = [{key: value for key, value in point.items() if key != "fingerprint"} for point in points]
        used = {point["layer"] for point in points}
        host_plan = {"points": sent, "layers": [layer for layer in plan["layers"] if layer["name"] in used], "known_layers": plan["known_layers"],
                     "repetitions": args["repetitions"], "fill": args["fill"], "allow_device": args["allow_device"]}
        started = self._module({"action": "start", "plan": host_plan}, args, task_vars)
        begun = time.monotonic()
        self._watch(started["state_dir"], args, host, sum(map(seconds, points)), task_vars)
        files, state = unpack(self._collect(args, task_vars), {point["point_id"] for point in points})
        names = {layer["name"]: layer for layer in plan["layers"]}
        results = {point["point_id"]: read_point(point, names[point["layer"]], args, files.get(point["point_id"], {})) for point in points}
        for name, found in results.items():
            write_point(run_dir, name, found, files.get(name, {}))
        write_run(run_dir, host, state, {layer["name"]: layer for layer in plan["known_layers"]})
        # Only now: until the results are on the controller's disk, the host has the only copy.
        folder, above = shlex.quote(started["state_dir"]), shlex.quote(os.path.dirname(started["state_dir"]))
        self._low_level_execute_command(f"rm -rf -- {folder} && rmdir -p --ignore-fail-on-non-empty -- {above}", sudoable=True)
        good = sum(found["status"] == "measured" for found in results.values())
        if args["progress"] != "none":
            display.display(f"[{host}] {good} of {len(results)} points measured in {time.monotonic() - begun:.0f} s")
        return results

    def _module(self, module_args: dict, args: dict, task_vars: dict) -> dict:
        done = self._execute_module(module_name=RUN_MODULE, module_args={**module_args, "testbed_id": args["testbed_id"], "run_id": args["run_id"]},
                                    task_vars=task_vars)
        if done.get("failed"):
            if "failure" not in done:
                told = " ".join(str(done[key]).strip() for key in ("msg", "module_stderr", "exception") if done.get(key))
                raise Failure("module_failed", f"The runner's module broke off: {told[-1000:]}", "Look at the host with -vvv.")
            what, _dot, remedy = done["msg"].partition(". ")
            raise Failure(done["failure"]["code"], f"{what}." if remedy else what, remedy, **done["failure"]["details"])
        return done

    def _watch(self, state_dir: str, args: dict, host: str, total_s: float, task_vars: dict) -> None:
        """Until the run has ended: read its state now and then, and say it."""
        interval, lines = max(POLL_S, total_s / 200), Lines(host, args["progress"])
        spoken, heard = None, time.monotonic()
        while True:
            state = self._state(state_dir, host)
            if state["status"] in ENDED:
                return
            lines.show(state)
            if state.get("updated") != spoken:
                spoken, heard = state.get("updated"), time.monotonic()
            elif time.monotonic() - heard > SILENCE_S:
                if not self._module({"action": "status"}, args, task_vars)["alive"]:
                    return
                heard = time.monotonic()
            # Not beyond the expected end, so that a short run is not waited for.
            left = state.get("remaining_s", 0) - (time.monotonic() - heard)
            time.sleep(min(interval, max(left, LAST_POLL_S)))

    def _state(self, state_dir: str, host: str) -> dict:
        deadline = time.monotonic() + CONNECTION_PATIENCE_S
        while True:
            try:
                done = self._low_level_execute_command("cat " + shlex.quote(os.path.join(state_dir, "state.json")), sudoable=True)
            except AnsibleConnectionFailure as error:
                if time.monotonic() > deadline:
                    raise Failure("host_unreachable", f"{host} has not been reached for {CONNECTION_PATIENCE_S:.0f} s: {error}.",
                                  "The run goes on there; run the same task again to pick it up.", state_dir=state_dir) from error
                time.sleep(POLL_S)
                continue
            if done["rc"]:
                raise Failure("run_lost", f"The run on {host} is gone ({done['stderr'].strip()}).", "The host was restarted or cleaned; run the task again.",
                              state_dir=state_dir)
            return json.loads(done["stdout"])

    def _collect(self, args: dict, task_vars: dict) -> bytes:
        pieces, offset, digest = [], 0, None
        while offset is not None:
            done = self._module({"action": "collect", "offset": offset}, args, task_vars)
            pieces.append(base64.b64decode(done["content"]))
            digest, offset = digest or done.get("sha256"), done.get("next_offset")
        archive = b"".join(pieces)
        if hashlib.sha256(archive).hexdigest() != digest:
            raise Failure("transfer_damaged", "The results arrived damaged: the archive's checksum is another.", "Run the task again; the host still has them.")
        return archive


class Lines:
    """Progress as plain lines: whole lines of many hosts can interleave, and a log can keep them."""

    def __init__(self, host: str, mode: str):
        self.host, self.mode, self.seen, self.shown = host, mode, None, float("-inf")

    def show(self, state: dict) -> None:
        if self.mode == "none":
            return
        now, position = time.monotonic(), (state.get("point"), state.get("phase"))
        least, most = LINE_S[self.mode]
        due = least if position != self.seen else most
        if state.get("point") and now - self.shown >= due:
            self.seen, self.shown = position, now
            display.display(progress_line(self.host, state))


# ---------------------------------------------------------------- pure


def progress_line(host: str, state: dict) -> str:
    """[target01] 3/12 backing-bench 4k-r70-rnd100-qd8-w1 rep 1/3 measure 5/10 s 57.4k IOPS 41 s left"""
    words = [f"[{host}] {state['point']}/{state['points']} {state['layer']} {state['workload_id']}"]
    if state.get("repetitions", 1) > 1:
        words.append(f"rep {state['repetition']}/{state['repetitions']}")
    if "elapsed_s" in state:
        words.append(f"{state['phase']} {state['elapsed_s']:.0f}" + (" s" if state["phase"] == "fill" else f"/{state['phase_s']:.0f} s"))
    if state.get("iops") is not None:
        words.append(f"{short_number(state['iops'])} IOPS")
    words.append(f"{state.get('remaining_s', 0):.0f} s left")
    if state.get("failed"):
        words.append(f"({state['failed']} failed)")
    return " ".join(words)


def short_number(value: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.0f}"


def seconds(point: dict) -> float:
    return point["workload"]["ramp_s"] + point["workload"]["runtime_s"] + 0.5


def shown(point: dict, status: str) -> dict:
    return {**{key: point[key] for key in ("point_id", "layer", "workload_id", "repetition")}, "duration_s": seconds(point), "status": status}


def make_plan(args: dict, known_layers: dict, host: str) -> dict:
    """What this host measures, validated to the last job file: {points, layers, known_layers, skipped_layers}."""
    for key in ("testbed_id", "run_id"):
        if not NAME.fullmatch(args[key]) or args[key] == "latest":
            raise bad_value(key, args[key], "Use letters, digits, dot, dash and underscore, and not the word latest.")
    if args["repetitions"] < 1:
        raise bad_value("repetitions", args["repetitions"], "Use at least 1.")
    given = known_layers if args["layers"] is None else args["layers"]
    given = [validate_layer(layer) for layer in (given.values() if isinstance(given, dict) else given)]
    here = [layer for layer in given if layer["host"] == host and (layer["path"] is not None or layer["kind"] == "ceiling")]
    # A data layer is measured through the files on it, which are layers of their own.
    layers = [layer for layer in here if layer["purpose"] == "scratch"]
    for layer in layers:
        if not NAME.fullmatch(layer["name"]):
            raise bad_value("layer name", layer["name"], "Use letters, digits, dot, dash and underscore.")
    workloads = wanted_workloads(args)
    points = []
    # Repetitions outermost: what drifts over time then shows as spread instead of as a difference between workloads.
    for repetition in range(1, args["repetitions"] + 1):
        for workload in workloads:
            for layer in layers:
                points.append(make_point(args, workload, layer, repetition))
    everything = {layer["name"]: layer for layer in [*known_layers.values(), *given]}
    return {"points": points, "layers": layers, "known_layers": list(everything.values()),
            "skipped_layers": [layer["name"] for layer in here if layer not in layers]}


def wanted_workloads(args: dict) -> list:
    if args["workload"] is not None and args["workloads"] is not None:
        raise bad_value("workload", args["workload"], "Give workload or workloads, not both.")
    if args["workload"] is None and args["workloads"] is None and args["sweep"] is None:
        raise bad_value("workload", None, "Give workload, workloads or sweep.")
    if args["workloads"] is None:
        return expand(args["workload"], args["sweep"])
    found = [one for index, base in enumerate(args["workloads"]) for one in expand(base, args["sweep"], f"workloads[{index}]")]
    refuse_repeated(found, "workloads")
    return found


def make_point(args: dict, workload: dict, layer: dict, repetition: int) -> dict:
    short = workload_id(workload)
    point = {"point_id": f"{layer['name']}.{short}.r{repetition}", "layer": layer["name"], "workload": workload, "workload_id": short,
             "repetition": repetition}
    point["seed"] = int(hashlib.sha256(f"{args['run_id']}/{point['point_id']}".encode()).hexdigest()[:7], 16)
    same = {"layer": {key: layer[key] for key in ("name", "kind", "host", "size_bytes", "identity")}, "workload": workload,
            "engine": args["engine"], "fill": args["fill"], "repetition": repetition}
    point["fingerprint"] = hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()
    # What cannot be expressed is said now, not in the middle of the run.
    fio.job_file({**point, "path": layer["path"], "size_bytes": layer["size_bytes"]})
    return point


def stored(run_dir: str, points: list) -> dict:
    """Results of these points that are there already. What was measured differently is never written over."""
    found = {}
    for point in points:
        path = os.path.join(run_dir, "points", point["point_id"], "result.json")
        if not os.path.exists(path):
            continue
        result = schema.load(path)
        if result["status"] != "measured":
            continue
        if result.get("fingerprint") != point["fingerprint"]:
            raise Failure("run_exists", f"Point {point['point_id']} of this run was measured with another workload or on another device.",
                          "Choose another run_id, or set force to replace it.", path=path)
        found[point["point_id"]] = result
    return found


def unpack(archive: bytes, point_ids: set) -> tuple:
    """({point_id: {file name: content}}, the host's fingerprint). Only names that are expected are taken out of the archive."""
    files: dict = {}
    environment: dict = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for member in tar:
            parts = member.name.split("/")
            if not member.isfile() or member.size > LARGEST_FILE_BYTES:
                continue
            if member.name == "host.json":
                environment = json.loads(tar.extractfile(member).read())
            elif len(parts) == 3 and parts[0] == "points" and parts[1] in point_ids and parts[2] in FILES:
                files.setdefault(parts[1], {})[parts[2]] = tar.extractfile(member).read()
    return files, environment


def read_point(point: dict, layer: dict, args: dict, files: dict) -> dict:
    """The result of a point out of the files its host left."""
    meta = json.loads(files["meta.json"]) if "meta.json" in files else None
    identity = {"testbed_id": args["testbed_id"], "run_id": args["run_id"], "point_id": point["point_id"], "layer": layer["name"],
                "layer_kind": layer["kind"], "host": layer["host"], "path": layer["path"], "workload": point["workload"],
                "workload_id": point["workload_id"], "repetition": point["repetition"], "fingerprint": point["fingerprint"],
                "engine": {"name": args["engine"], "ioengine": fio.ioengine(layer["path"]), "randseed": point["seed"]}}
    measured = []
    for name, key, where in (("fio.json", "raw_sha256", "raw"), ("job.fio", "job_sha256", "job")):
        if name in files:
            digest = hashlib.sha256(files[name]).hexdigest()
            if meta and meta.get(key, digest) != digest:
                raise Failure("transfer_damaged", f"{name} of point {point['point_id']} arrived damaged.", "Run the task again; the host still has it.")
            identity[where] = {"file": name, "sha256": digest}
    text = files.get("fio.json", b"").decode("utf-8", "surrogateescape")
    if text:
        try:
            measured = fio.results(text)
        except Failure as failure:
            if meta and not meta["failures"]:
                meta["failures"].append({"code": failure.code, "message": str(failure)})
    return schema.of_point(identity, meta, measured, first_words(files.get("stderr.txt", b"").decode("utf-8", "replace") + text))


def first_words(text: str) -> str | None:
    """What fio said in plain words before its JSON, if anything."""
    lines = [line.strip() for line in text.partition("{")[0].splitlines() if line.strip()]
    return lines[0][:300] if lines else None


def merged_facts(earlier: dict, args: dict, run_dir: str, results: dict) -> dict:
    """All runs this host knows of: a fact replaces the earlier fact of its name, so the earlier ones are part of it."""
    points = earlier.get(args["run_id"], {}).get("points", {})
    run = {"testbed_id": args["testbed_id"], "run_id": args["run_id"], "run_dir": run_dir,
           "points": {**points, **{name: schema.summary(found) for name, found in results.items()}}}
    return {**earlier, args["run_id"]: run}


# ---------------------------------------------------------------- on the controller's disk


def write_point(run_dir: str, point_id: str, result: dict, files: dict) -> None:
    folder = os.path.join(run_dir, "points", point_id)
    os.makedirs(folder, exist_ok=True)
    for name in FILES:
        path = os.path.join(folder, name)
        if name != "meta.json" and name in files:
            write_whole(path, files[name])
        elif os.path.exists(path):
            os.unlink(path)
    # Last, because a result without the file it was made of could not be traced.
    write_whole(os.path.join(folder, "result.json"), schema.dump(result).encode("utf-8", "surrogateescape"))


def write_run(run_dir: str, host: str, environment: dict, layers: dict) -> None:
    """hosts/<host>.json, and layers.json, to which every host of the run adds what it knows."""
    os.makedirs(os.path.join(run_dir, "hosts"), exist_ok=True)
    write_whole(os.path.join(run_dir, "hosts", f"{host}.json"), json.dumps({"host": host, **environment}, indent=1, sort_keys=True).encode())
    path = os.path.join(run_dir, "layers.json")
    with locked(run_dir):
        known = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as handle:
                known = json.load(handle)
        write_whole(path, json.dumps({**known, **layers}, indent=1, sort_keys=True).encode())


@contextlib.contextmanager
def locked(folder: str):
    """Hosts are measured by processes of their own that write into one folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_whole(path: str, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path))
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)
