# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters beside one run of the engine, cut to the time that the engine measures, and the series of a point.

No engine reports when it begins to measure. It does so at the earliest when the ramp is over since its start, and at the latest so long before its
end as it measures. So it surely measures from its end less the run time until its start plus ramp and run time, which is known when it has ended.
"""

from __future__ import annotations

import time
from typing import Any

from . import counters
from .counters import Counts, Direction, Moved, Sample

# The first reading after the ramp, by when an engine on a machine with time has begun its I/O.
SETTLE_S = 0.5
# Too short an interval says nothing where the kernel counts processor time in hundredths of a second.
LEAST_INTERVAL_S = 0.2
# The device is read so often just after the ramp, because it is unknown when exactly the engine began to count. All is read so long after the first
# reading, and after twice that time again and again, for an engine that began late.
EDGE_S = 0.1
# A reading that is asked for at a time comes a little later.
EARLY_S = 0.03
INTERVAL_S = 1
MOST_ROWS = 3600
# The engine speaks once a second; what it said longer ago is not the rate of this second, and what it says first after the ramp, when it has
# begun to count again, is not a rate.
STALE_S = 1.5
COLUMNS = (
    "t_s",
    "phase",
    "iops",
    "bandwidth_bytes_s",
    "latency_mean_ns",
    "cpu_busy_percent",
    *counters.LOADS,
    "memory_used_percent",
)
# For a host with a cache tier.
CACHE_COLUMN = "cache_hit_percent"


class Meter:
    """Reads counters while the engine runs; make it just before the engine is started.

    device: 'major:minor' or None. layers: {layer: 'major:minor'} of what else is counted.
    runtime_s None: it ends after an amount of I/O, so only its exit shows when.
    """

    def __init__(
        self,
        device: str | None,
        ramp_s: float,
        runtime_s: float | None,
        layers: dict[str, str] | None = None,
    ) -> None:
        self.layers = layers or {}
        self.device, self.ramp_s, self.runtime_s = device, ramp_s, runtime_s
        self.begun = time.monotonic()
        self.ended_s = float("inf")
        # Readings after the ramp from which on the engine may surely measure.
        self.firsts: list[Sample] = []
        self.last: Sample | None = None
        self.inside = (ramp_s + SETTLE_S, float("inf"))
        due = []
        if runtime_s is not None:
            self.inside = (ramp_s + min(SETTLE_S, runtime_s / 4), ramp_s + runtime_s)
            due = [self.inside[0], self.inside[1] - EARLY_S]
            late_s = EDGE_S
            while self.inside[0] + late_s < self.inside[1]:
                due.append(self.inside[0] + late_s)
                late_s *= 2
        edges = [ramp_s - EARLY_S, *(ramp_s + EDGE_S * step for step in range(1, 11))] if device and ramp_s else []
        self.due = sorted([(moment, True) for moment in due] + [(moment, False) for moment in edges])
        before = counters.device_counts(device) if device else None
        # (begin and end of the reading, what it said)
        self.counts = [(0.0, 0.0, before["counts"])] if before else []

    def elapsed_s(self) -> float:
        return time.monotonic() - self.begun

    def next_s(self) -> float:
        """How long nothing has to be read."""
        return max(self.due[0][0] - self.elapsed_s(), 0) if self.due else float("inf")

    def look(self, pid: int) -> None:
        """Take the readings that are due."""
        whole = None
        while self.due and self.due[0][0] <= self.elapsed_s():
            whole = self.due.pop(0)[1] or whole or False
        if whole:
            reading = self.sample(pid)
            if reading is self.last and reading is not self.firsts[-1]:
                self.firsts.append(reading)
        elif whole is False:
            begun = self.elapsed_s()
            # Only a device is read at the edges of the ramp.
            self._count(counters.device_counts(self.device) if self.device else None, begun)

    def sample(self, pid: int) -> Sample:
        reading = counters.sample(self.device, pid, self.layers)
        begun, ended = reading["monotonic_s"] - self.begun, self.elapsed_s()
        self._count(reading.get("device"), begun)
        if self.inside[0] <= begun and ended <= self.inside[1] and "engine_ticks" in reading:
            self.firsts, self.last = self.firsts or [reading], reading
        return reading

    def end(self) -> None:
        """The engine has just ended."""
        self.ended_s = self.elapsed_s()

    @property
    def first(self) -> Sample | None:
        """The first reading in which the engine surely measures. There is none for one that ends after an amount of I/O."""
        surely_s = 0.0 if self.runtime_s is None else self.ended_s - self.runtime_s
        return next((reading for reading in self.firsts if reading["monotonic_s"] - self.begun >= surely_s), None)

    def _count(self, device: Counts | None, begun: float) -> None:
        if device and self.counts:
            self.counts.append((begun, self.elapsed_s(), device["counts"]))

    def span_unix_s(self) -> tuple[float, float] | None:
        """(begin, end) of what ``changed`` is of, in seconds since 1970; other hosts' counters are cut to it."""
        first = self.first
        return None if first is None or self.last is None else (first["unix_s"], self.last["unix_s"])

    def changed(self) -> Sample | None:
        """The host's counters in measured time, as a difference of two samples; None when it was too short to say. Call end() before."""
        first = self.first
        if first is None or self.last is None:
            return None
        if self.last["monotonic_s"] - first["monotonic_s"] < LEAST_INTERVAL_S:
            return None
        return counters.difference(first, self.last)

    def device_seen(self) -> dict[str, dict[Direction, Moved]] | None:
        """{least, most}: between what bounds the device's counts of the measured time lie. Call it just after end().

        Without a ramp that is all since the start, exactly. With one, the engine began to count at the earliest when the ramp was over since
        its start, and at the latest so long before its end as it measured.
        """
        after = counters.device_counts(self.device) if self.device else None
        if not after or not self.counts:
            return None
        earliest = latest = self.counts[0][2]
        if self.ramp_s:
            if self.runtime_s is None:
                return None
            later = [counts for begun, _ended, counts in self.counts if begun >= self.ended_s - self.runtime_s]
            earliest = [counts for _begun, ended, counts in self.counts if ended <= self.ramp_s][-1]
            latest = later[0] if later else after["counts"]
        return {"least": _between(latest, after["counts"]), "most": _between(earliest, after["counts"])}


def _between(before: list[int], after: list[int]) -> dict[Direction, Moved]:
    """{read: {ios, bytes}, write: …}; requests that the kernel merged into others count as the I/Os that they were."""
    moved = [late - early for early, late in zip(before, after)]
    counts = counters.direction_counts(moved)
    for name, start in counters.DIRECTIONS.items():
        counts[name]["ios"] += moved[start + 1]
    return counts


def added(seen: list[dict[str, dict[Direction, Moved]]]) -> dict[str, dict[Direction, Moved]]:
    """The device's counters over several runs of the engine."""
    return {
        bound: {
            name: {
                "ios": sum(piece[bound][name]["ios"] for piece in seen),
                "bytes": sum(piece[bound][name]["bytes"] for piece in seen),
            }
            for name in counters.DIRECTIONS
        }
        for bound in ("least", "most")
    }


class Series:
    """One row per second of a point, whatever number of engine runs it takes.

    Rates and latency are the device's own where it does nothing but the workload's I/O (on_device), request for request (ios_too). Where it
    does not, rates are what the engine says of itself, to three digits, and there is no latency.
    Longer points keep every second, fourth … row, so that a series has at most MOST_ROWS; a row is always of one second.
    """

    def __init__(self, on_device: bool = False, ios_too: bool = False) -> None:
        self.rows: list[list[Any]] = []
        self.on_device, self.ios_too = on_device, ios_too
        self.begun = time.monotonic()
        self.step, self.ticks = 1, 0
        self.previous: Sample = {}
        self.cached = False

    def started(self, sample: Sample) -> None:
        """The engine was started: the next row is of the time since this sample."""
        self.previous = sample
        self.cached = self.cached or "caches" in sample

    def add(self, phase: str, sample: Sample, iops: float | None, bandwidth_bytes_s: float | None) -> None:
        """A row up to this sample; iops and bandwidth_bytes_s as the engine says, None when it does not."""
        moved, latency = counters.difference(self.previous, sample), None
        figures, self.previous = counters.figures_of(moved), sample
        self.ticks += 1
        if self.ticks % self.step:
            return
        if self.on_device and "device" in figures:
            device, interval_s = figures["device"], moved["monotonic_s"]
            latency = device.get("latency_mean_ns")
            bandwidth_bytes_s = round(sum(device[name]["bytes"] for name in counters.DIRECTIONS) / interval_s)
            if self.ios_too:
                iops = round(sum(device[name]["ios"] for name in counters.DIRECTIONS) / interval_s, 1)
        levels = counters.levels()
        self.rows.append(
            [
                round(sample["monotonic_s"] - self.begun, 2),
                phase,
                iops,
                bandwidth_bytes_s,
                latency,
                figures["cpu"].get("host_busy_percent"),
                *(levels.get(name) for name in counters.LOADS),
                levels.get("memory_used_percent"),
                *([counters.hit_percent(moved)] if self.cached else []),
            ]
        )
        if len(self.rows) > MOST_ROWS:
            self.step *= 2
            self.rows = self.rows[1::2]

    def content(self) -> dict[str, Any]:
        """The content of series.json."""
        return {
            "interval_s": self.step * INTERVAL_S,
            "columns": [*COLUMNS, *([CACHE_COLUMN] if self.cached else [])],
            "rows": self.rows,
        }
