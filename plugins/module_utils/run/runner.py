# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the points of one host, on that host, without a connection to anybody.

``start`` leaves a supervisor behind that does one point after another. Each point that is finished lies packed in ``done`` until the controller has it
on its own disk and removes it there: the points in ``done`` exist nowhere else, and nothing here deletes them without a request. The supervisor lives on
when the connection breaks, and nothing of the engine outlives the supervisor.

    <state_dir>/plan.json supervisor.json state.json supervisor.log host.json archive.tar.gz
    <state_dir>/done/<number of the point in the plan>   base64 of a tar.gz: host.json, points/<point_id>/…, preparation/…, beat.json
    <state_dir>/beat.json                                the reference beat of the round that began last
    <state_dir>/points/<point_id>/<job_file and raw_file of the engine> stderr.txt series.json meta.json
    <state_dir>/preparation/<fill, precondition, zero or warmup>.<layer>…/<job_file and raw_file of the engine> stderr.txt
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import os
import shutil
import traceback
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.files import make_folder, read_json, write_json, write_whole
from ..core.layers import parts
from ..engines.catalogue import USUAL, engine_of, engine_of_plan, reference_program
from ..linux import memory_limits
from ..linux.daemon import alive, detach, end, log, log_tail, remove_empty, supervisor_of
from ..linux.disks import reading_guard
from ..linux.host import read_text
from ..linux.own_folder import base_dir, private_folder, proven
from ..linux.watch import environment
from ..workload.wanted import greatest_buffers
from . import beat, choices, standby
from .supervisor import DONE, Supervisor, pack, proven_layer

CHUNK_BYTES = 4 << 20

# ---------------------------------------------------------------- where

# The things that a benchmark keeps on a host, each in a folder of the testbed: its runs, servers of its engine, an observer, an event.
AREAS = ("bench", "observer", "server", "event")


def state_dir(testbed_id: str, run_id: str, base: str | None = None) -> str:
    """Where a run is kept, proven to be this user's as far as it is there."""
    return proven(base or base_dir(), testbed_id, "bench", run_id)


# ---------------------------------------------------------------- the module's actions


def start(plan: dict[str, Any], base: str | None = None) -> dict[str, object]:
    """Prove every layer safe, then leave a supervisor running: {state_dir, pid, joined, alive, boot_id}.

    A run that is measuring these very points already is joined. So is one that has ended and left points which no controller has taken, whatever they
    are (alive: false): take them, then start again.
    """
    folder = state_dir(plan["testbed_id"], plan["run_id"], base)
    joined = _existing(folder, plan)
    if joined:
        return joined
    _refuse_second_run(folder)
    program = _proven_engine(plan)
    private_folder(base or base_dir(), plan["testbed_id"], "bench", plan["run_id"])
    _lay_out(folder, plan, program)
    pid = detach(lambda: _serve(folder, plan, program), folder)
    return {"state_dir": folder, "pid": pid, "joined": False, "alive": True, "boot_id": boot_id()}


def _proven_engine(plan: dict[str, Any]) -> str:
    """The path of the engine's program, once every layer of the plan is proven safe."""
    engine = engine_of_plan(plan)
    program = find_engine(engine.name)
    engine.check_program(program, plan["points"])
    check_layers(plan)
    return program


def _lay_out(folder: str, plan: dict[str, Any], program: str) -> None:
    """Write what the run's folder holds before its first point."""
    for name in ("points", DONE):
        make_folder(os.path.join(folder, name), 0o700)
    write_json(os.path.join(folder, "plan.json"), {"plan": plan, "boot_id": boot_id()})
    host = environment.fingerprint(plan["layers"], program)
    clock = plan.get(beat.CLOCK) or beat.clock_of(reference_program(engine_of_plan(plan), program))
    write_json(os.path.join(folder, "host.json"), {**host, **({beat.CLOCK: clock} if clock else {})})
    write_json(
        os.path.join(folder, "state.json"),
        {"status": "running", "phase": "start", "point": 0, "points": len(plan["points"])},
    )


def _serve(folder: str, plan: dict[str, Any], program: str) -> None:
    """Measure the plan, and the plans of the host's next turns for as long as each says that one more follows."""
    names = {key: plan[key] for key in ("testbed_id", "run_id")}
    while True:
        supervisor = Supervisor(folder, plan, program)
        supervisor.run()
        if not standby.waits(folder):
            return
        following = standby.next_plan(folder, supervisor.is_stopping)
        if following is None:
            if not supervisor.stopping and not uncollected(folder):
                # No turn came, and everything was taken: no controller comes to clear this away.
                _remove(folder)
            return
        plan = {**following, **names}
        try:
            _clear_turn(folder)
            program = _proven_engine(plan)
            _lay_out(folder, plan, program)
        except Exception as error:
            # The controller starts the turn by the module then, which fails with the reason.
            if not isinstance(error, Failure):
                log(folder, traceback.format_exc())
            write_json(os.path.join(folder, "state.json"), {"status": "refused"})
            return


def _remove(folder: str) -> None:
    shutil.rmtree(folder)
    above = os.path.dirname(folder)
    remove_empty(above, os.path.dirname(above), os.path.dirname(os.path.dirname(above)))


def _clear_turn(folder: str) -> None:
    """Remove what the turn before left, all of which the controller has."""
    if uncollected(folder):
        raise Failure("run_uncollected", "The turn before has points that no controller has taken.", "Take them.")
    for name in ("points", "preparation"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    for name in (beat.FILE, "archive.tar.gz", standby.CLAIMED):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))


def status(testbed_id: str, run_id: str, base: str | None = None) -> dict[str, object]:
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
) -> dict[str, object]:
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
            # One more may have been finished since.
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


def _held(folders: list[str]) -> dict[str, object]:
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


def collect(testbed_id: str, run_id: str, offset: int = 0, base: str | None = None) -> dict[str, object]:
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


def find_engine(name: str = USUAL) -> str:
    """The path of an engine's program on this host."""
    engine = engine_of(name)
    path = shutil.which(engine.program)
    if not path:
        remedy = f"Install the package {engine.package}, or set benchmark_install_packages to true."
        if not engine.package:
            remedy = (
                f"Install {engine.name}, which no package of Debian brings; docs/engines.md says where it comes from."
            )
        raise Failure("engine_missing", f"{engine.program} is not installed on this host.", remedy)
    return os.path.realpath(path)


def check_layers(plan: dict[str, Any]) -> None:
    """The guard for every layer before the first byte of I/O. A word that an engine cannot express was refused when the points were made."""
    layers = {layer["name"]: layer for layer in plan["layers"]}
    reading_guard.refuse_writing_points(plan["points"], layers, plan.get("prepare", {}))
    for name in dict.fromkeys(point["layer"] for point in plan["points"]):
        if layers[name]["path"] is not None:
            for part in parts(layers[name]):
                proven_layer(part, plan)
    _refuse_short_memory(plan)
    many = next((point["point_id"] for point in plan["points"] if "servers" in point), None)
    if many and plan.get("steady_state") is not None:
        raise bad_value(
            "steady_state",
            plan["steady_state"],
            f"{many} is measured on many hosts, which is done once; leave it out.",
        )


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


def _existing(folder: str, plan: dict[str, object]) -> dict[str, Any] | None:
    known = read_json(os.path.join(folder, "plan.json"), kind={"plan": {"points": [dict], "layers": [dict]}})
    if known is None:
        return None
    # A process of this number after a restart is somebody else's.
    running = alive(folder) and known.get("boot_id", boot_id()) == boot_id()
    if running and standby.waits(folder):
        # It measures nothing, and whoever let it wait would have claimed it.
        end(folder)
        running = False
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
    # An earlier version began its runs without it.
    known = {"engine": USUAL, **known}
    # Files that follow from the points, grow while they are measured, or are beside them.
    loose = {choices.FIGURES, beat.CLOCK, "points", "layers", "prepared", "repetitions", "beat", "stays"}
    return {key: value for key, value in known.items() if key not in loose} == {
        key: value for key, value in {"engine": USUAL, **wanted}.items() if key not in loose
    }


def _refuse_second_run(folder: str) -> None:
    own_folder = os.path.dirname(os.path.dirname(folder))
    base, own = os.path.split(own_folder)
    for testbed in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        above = os.path.join(base, testbed, "bench")
        for run in sorted(os.listdir(above)) if os.path.isdir(above) else []:
            if _measures(base, testbed, run):
                waiting = os.path.join(above, run)
                if testbed == own and standby.waits(waiting):
                    # Its playbook ended between two turns, and this playbook has the testbed now.
                    end(waiting)
                    continue
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
