# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The counters of a host while another host is measured, e.g. the target while the initiator issues the I/O.

A daemon takes one ``counters.sample`` a second and keeps the newest of them. Its samples are cut to the time of a benchmark afterwards,
by wall clocks, whose difference the controller has measured.

    <base>/<testbed_id>/observer/supervisor.json deadline.json samples.jsonl samples.older.jsonl supervisor.log
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from types import FrameType
from typing import Any

from ..core.failure import Failure
from ..core.files import naming, read_json, write_json
from ..core.layers import Layer, down
from ..core.shape import NUMBER
from ..core.times import unix_s
from ..linux.daemon import alive, detach, end, remove_empty
from ..linux.own_folder import base_dir, private_folder, proven
from ..linux.watch import counters
from ..result.derived import cpu_cost
from . import server_cache, standby

INTERVAL_S = 1.0
# The folder may be in memory. Two files of this size are the most that is kept: hours on a large machine, a day on a small one.
FILE_BYTES = 16 << 20
# Neighbouring samples are this far apart at most; more means that the observer was not there.
MOST_GAP_S = 3 * INTERVAL_S
# A clock that was set in the middle, or that cannot be compared better than this, does not say which samples are the benchmark's.
CLOCK_TOLERANCE_S = 0.5
# Less says little where processor time is counted in hundredths of a second.
LEAST_INTERVAL_S = 0.5
# So much of a measured time may be pauses between rounds before the figures of other hosts are of something else.
MOST_PAUSE_SHARE = 0.1


def observer_dir(testbed_id: str, base: str | None = None) -> str:
    return proven(base or base_dir(), testbed_id, "observer")


# ---------------------------------------------------------------- the module's actions


def start(
    testbed_id: str, paths: dict[str, str], deadline_s: float, base: str | None = None, dry_run: bool = False
) -> dict[str, object]:
    """Observe this host and the devices of its layers, {layer: path}; one that observes the same goes on, with the new deadline.

    layers: the layers that are counted. A path that is not a device, or one without statistics, is not.
    """
    folder = observer_dir(testbed_id, base)
    layers = counters.layer_devices(paths)
    known = read_json(os.path.join(folder, "asked.json")) if alive(folder) else None
    same = known == {"layers": layers}
    answer = {"changed": not same, "layers": sorted(layers)}
    if dry_run:
        return answer
    if same:
        write_json(os.path.join(folder, "deadline.json"), time.monotonic() + deadline_s)
        return answer
    _remove(folder)
    private_folder(base or base_dir(), testbed_id, "observer")
    write_json(os.path.join(folder, "asked.json"), {"layers": layers})
    write_json(os.path.join(folder, "deadline.json"), time.monotonic() + deadline_s)
    detach(lambda: Observer(folder, layers).run(), folder)
    return answer


def collect(
    testbed_id: str,
    intervals: dict[str, Any],
    clock_offset_s: float,
    base: str | None = None,
    clock_uncertain_s: float = 0.0,
) -> dict[str, object]:
    """{observed: {name: figures}, missed: {name: reason}} of the intervals {name: [started_s, finished_s]}, seconds since 1970 by a clock that this
    host's is ``clock_offset_s`` ahead of, known to ``clock_uncertain_s``."""
    folder = observer_dir(testbed_id, base)
    if not os.path.isdir(folder):
        raise Failure(
            "observer_missing",
            "This host is not observed.",
            "Start the observer before the benchmark.",
            testbed_id=testbed_id,
        )
    samples, mhz = read_samples(folder), counters.nominal_mhz()
    observed, missed = {}, {}
    for name, (started_s, finished_s) in intervals.items():
        try:
            figures = cut(samples, started_s, finished_s, clock_offset_s, clock_uncertain_s)
        except Failure as failure:
            missed[name] = str(failure)
            continue
        observed[name] = {**figures, "cpu": {**figures["cpu"], **({"mhz": mhz} if mhz else {})}}
    return {"observed": observed, "missed": missed}


def stop(testbed_id: str, base: str | None = None, dry_run: bool = False) -> dict[str, object]:
    folder = observer_dir(testbed_id, base)
    there = os.path.isdir(folder)
    if there and not dry_run:
        _remove(folder)
        remove_empty(os.path.dirname(folder), os.path.dirname(os.path.dirname(folder)))
    return {"changed": there}


def _remove(folder: str) -> None:
    if alive(folder):
        end(folder)
    if os.path.isdir(folder):
        shutil.rmtree(folder)


# ---------------------------------------------------------------- the daemon


class Observer:
    def __init__(self, folder: str, layers: dict[str, str]) -> None:
        self.folder, self.layers, self.stopping = folder, layers, False
        self.path = os.path.join(folder, "samples.jsonl")
        # Below the testbed's own folder, beside the observer's.
        self.runs = os.path.join(os.path.dirname(folder), "bench")

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        due = time.monotonic()
        while not self.stopping and time.monotonic() < read_json(
            os.path.join(self.folder, "deadline.json"), kind=NUMBER
        ):
            if not self._measured_here():
                self._keep(json.dumps(counters.sample(layers=self.layers), separators=(",", ":")))
                testbed = os.path.dirname(self.folder)
                server_cache.serve(os.path.dirname(testbed), os.path.basename(testbed))
            # A grid, so that samples do not drift; what a busy host missed is not made up for.
            due = max(due + INTERVAL_S, time.monotonic())
            while not self.stopping and time.monotonic() < due:
                time.sleep(min(due - time.monotonic(), INTERVAL_S))

    def _measured_here(self) -> bool:
        """While this host itself is measured nothing else should run on it, and the runner counts the same things."""
        names = os.listdir(self.runs) if os.path.isdir(self.runs) else ()
        folders = [os.path.join(self.runs, name) for name in names]
        return any(alive(folder) and not standby.waits(folder) for folder in folders)

    def _keep(self, line: str) -> None:
        if os.path.exists(self.path) and os.path.getsize(self.path) + len(line) > FILE_BYTES:
            os.replace(self.path, os.path.join(self.folder, "samples.older.jsonl"))
        with naming(self.path), open(self.path, "a", encoding="ascii") as handle:
            handle.write(f"{line}\n")

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.stopping = True


def read_samples(folder: str) -> list[counters.Sample]:
    """All samples that are kept, oldest first; a last line that is still being written is left out."""
    samples = []
    for name in ("samples.older.jsonl", "samples.jsonl"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            with open(path, encoding="ascii", errors="replace") as handle:
                samples += [json.loads(line) for line in handle if line.endswith("}\n")]
    return samples


# ---------------------------------------------------------------- pure


def cut(
    samples: list[counters.Sample],
    started_s: float,
    finished_s: float,
    clock_offset_s: float = 0.0,
    clock_uncertain_s: float = 0.0,
) -> counters.HostFigures:
    """The figures (see ``counters.figures_of``) of exactly this time, out of samples that were taken about once a second.

    started_s, finished_s: seconds since 1970 by a clock that the samples' is clock_offset_s ahead of. The count at either edge is
    interpolated between the two samples around it, as if it had grown evenly between them; ``edges`` says so. Failure 'not_observed' when
    the samples do not cover the time, 'clock_set' when the clock was set in it.

    Devices of layers (``layers``) are reported by the samples that are certainly inside, with the time between these as ``interval_s``: after the end of a
    measurement a device stands still, which interpolation would spread over the last second.
    """
    first, last = (at(samples, moment_s + clock_offset_s) for moment_s in (started_s, finished_s))
    within = [sample for sample in samples if started_s <= sample["unix_s"] - clock_offset_s <= finished_s]
    chain = [first, *within, last]
    gap_s = max((later["unix_s"] - earlier["unix_s"] for earlier, later in zip(chain, chain[1:])), default=0)
    if gap_s > MOST_GAP_S:
        raise Failure(
            "not_observed",
            f"The samples have a gap of {gap_s:.1f} s in the measured time.",
            "Keep the observer running during the benchmark.",
        )
    starts = [sample["unix_s"] - sample["monotonic_s"] for sample in chain]
    if max(starts) - min(starts) > CLOCK_TOLERANCE_S:
        raise Failure(
            "clock_set",
            f"The observing host's clock was set by {max(starts) - min(starts):.1f} s in the measured time.",
            "Let its clock settle, and measure again.",
        )
    figures: counters.HostFigures = {**counters.delta(first, last), "edges": "interpolated"}
    figures.pop("layers", None)
    inside = [
        sample
        for sample in within
        if started_s + clock_uncertain_s <= sample["unix_s"] - clock_offset_s <= finished_s - clock_uncertain_s
    ]
    if inside and inside[-1]["monotonic_s"] - inside[0]["monotonic_s"] >= LEAST_INTERVAL_S:
        layers = counters.layer_figures(counters.difference(inside[0], inside[-1]))
        if layers:
            figures["layers"] = layers
    return figures


def at(samples: list[counters.Sample], moment_s: float) -> counters.Sample:
    """The sample that would have been taken then, by its own clock: interpolated between the last one before and the first one after."""
    before = [sample for sample in samples if sample["unix_s"] <= moment_s]
    after = [sample for sample in samples if sample["unix_s"] >= moment_s]
    if not before or not after or after[0]["unix_s"] - before[-1]["unix_s"] > MOST_GAP_S:
        raise Failure(
            "not_observed",
            "Part of the measured time was not observed.",
            "Start the observer before the benchmark and stop it afterwards.",
        )
    last, following = before[-1], after[0]
    width_s = following["unix_s"] - last["unix_s"]
    share = (moment_s - last["unix_s"]) / width_s if width_s else 0

    def between(first: float, second: float) -> float:
        value = first + (second - first) * share
        return round(value) if isinstance(first, int) else value

    interpolated: counters.Sample = counters.combine(last, following, between)
    return interpolated


def measured_interval(result: dict[str, Any]) -> tuple[float, float] | None:
    """(started_s, finished_s) of time that certainly was measured, by the clock of the result's host; None where none is certain.

    It is that host's own count, so that the counts of others are of the same I/O. For many hosts it is only known when their client was
    started and when it had ended, and how long they measured: the latest possible beginning, and the earliest possible end.
    """
    if "clients" in result:
        runtime_s = min((client["runtime_s"] for client in result["clients"] if "runtime_s" in client), default=0)
        latest_s = unix_s(result["finished_utc"]) - runtime_s
        earliest_s = unix_s(result["started_utc"]) + result["workload"]["ramp_s"] + runtime_s
        return (latest_s, earliest_s) if earliest_s - latest_s >= LEAST_INTERVAL_S else None
    counted = result.get("counters", {})
    if not {"started_utc", "finished_utc", "interval_s"} <= set(counted):
        return None
    started_s, finished_s = unix_s(counted["started_utc"]), unix_s(counted["finished_utc"])
    # Rounds have pauses between them, and the clock may have been set.
    if abs(finished_s - started_s - counted["interval_s"]) > MOST_PAUSE_SHARE * counted["interval_s"]:
        return None
    return started_s, finished_s


def clock_offset(exchanges: list[tuple[float, float, float]]) -> tuple[float, float]:
    """(offset_s, uncertain_s): how far a host's clock is ahead of ours, from exchanges (sent, its time, received).

    Its time was read after sending and before receiving, so each exchange bounds the difference from both sides, and all of them hold (the
    intersection algorithm of Marzullo and Owicki, 1983, without the part for liars). Failure 'clock_set' when they contradict each other.
    """
    least = max(theirs - received for _sent, theirs, received in exchanges)
    most = min(theirs - sent for sent, theirs, _received in exchanges)
    if least > most:
        raise Failure(
            "clock_set",
            f"A clock was set by {least - most:.1f} s while it was compared.",
            "Let the clocks settle, and try again.",
        )
    return (least + most) / 2, (most - least) / 2


def addition(
    result: dict[str, Any], host: str, figures: dict[str, Any], known_layers: dict[str, Layer]
) -> dict[str, object]:
    """The counters of another host at that time, as an addition to the result: ``counters.hosts.<host>``; its processor's cost is of the result's I/O, and of
    its own layers those that this I/O goes through are kept: what it says of the layers of others is not."""
    cpu = figures["cpu"]
    cost = cpu_cost(cpu, figures["interval_s"], result["total"].get("iops"), cpu.get("mhz"))
    through = [
        layer["name"] for layer in down(known_layers, known_layers.get(result["layer"])) if layer["host"] == host
    ]
    counted = figures.get("layers", {})
    kept = {"layers": {name: counted[name] for name in through if name in counted}}
    others = {key: value for key, value in figures.items() if key != "layers"}
    return {"counters": {"hosts": {host: {**others, **(kept if kept["layers"] else {}), "cpu": {**cpu, **cost}}}}}
