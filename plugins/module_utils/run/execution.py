# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One start of an engine on this host, watched to its end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ..core.failure import exit_words
from ..core.files import naming
from ..core.times import utc
from ..engines.engine import GRACE_S, Engine, Start
from ..linux import landlock
from ..linux.watch import counters
from ..linux.watch.meter import STALE_S, Meter, Series
from ..result import dip, standstill
from ..result.schema import Windows
from ..workload.workload import Direction

# How long an engine may take to end when it is asked to, before it is made to.
POLITE_S = 5
STATE_INTERVAL_S = 1.0
# The supervisor wakes up so often. By how much it is late shows whether this host stood still.
HEARTBEAT_S = 0.25


class Watcher(Protocol):
    """Who starts an engine."""

    stopping: bool

    def die_with_me(self) -> None:
        """Runs in the new process."""

    def show(self, **news: Any) -> None:
        """Say in state.json what goes on."""

    def remaining_s(self) -> float:
        """How long the run still takes."""


class Lengths(NamedTuple):
    """The time that a start was asked for, in seconds."""

    ramp_s: float
    runtime_s: float
    grace_s: float = GRACE_S


class Execution:
    """A start in a folder. phase: what it is called while it runs, '' of a point that is measured; walled: it may write to nothing but its folder.

    counted: the directions whose I/Os are counted window by window, and whose first error is noted, of a workload that goes on over errors.
    """

    def __init__(
        self,
        engine: Engine,
        program: str,
        folder: str,
        watcher: Watcher,
        phase: str = "",
        walled: bool = False,
        counted: Sequence[Direction] = (),
    ) -> None:
        self.engine, self.program, self.folder, self.watcher, self.phase = engine, program, folder, watcher, phase
        self.walled, self.counted = walled, counted
        # Between which times the engine wrote of its first error.
        self.first_error_unix_s: list[float] = []
        self._looked_unix_s = 0.0
        self.late_s = 0.0
        # The longest time between two looks at the engine that both found it stopped, and the first of these looks.
        self.stopped_s = 0.0
        self._stopped_since_s: float | None = None

    def run(
        self, start: Start, meter: Meter, lengths: Lengths, series: Series | None, log_ms: int | None
    ) -> dict[str, Any]:
        """Run it to its end and say how it went. Never raises for what the engine does."""
        for name, text in {**start["files"], **start["job"]}.items():
            path = os.path.join(self.folder, name)
            with naming(path), open(path, "w", encoding="utf-8") as handle:
                handle.write(text)
        started, errors_path = utc(), os.path.join(self.folder, "stderr.txt")
        process = self._started(start["arguments"], errors_path)
        self._looked_unix_s = time.time()
        timed_out = self._watch(process, meter, lengths, series)
        if self.counted and not self.first_error_unix_s:
            # Between its last look and the engine's end.
            self._note_error()
        meter.end()
        seen, ended = meter.device_seen(), time.monotonic()
        if os.path.getsize(errors_path) == 0:
            os.unlink(errors_path)
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
            "windows": self._windows(log_ms) if log_ms else None,
            "late_s": round(self.late_s, 3),
            "stopped_s": round(self.stopped_s, 3),
        }

    def _started(self, arguments: list[str], errors_path: str) -> subprocess.Popen[bytes]:
        """The engine's process. A wall that was to hold and does not is a failure, and nothing is started."""
        wall = landlock.Wall(self.folder) if self.walled else None

        def begin() -> None:
            self.watcher.die_with_me()
            if wall:
                wall.enter()

        try:
            with open(errors_path, "wb") as errors:
                return subprocess.Popen(
                    [self.program, *arguments],
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                    preexec_fn=begin,
                )
        finally:
            if wall:
                wall.close()

    def _watch(self, process: subprocess.Popen[bytes], meter: Meter, lengths: Lengths, series: Series | None) -> bool:
        """Keep state.json true and the meter reading until the process ends; end it, and its whole group, at the deadline or when stopped.

        Whether it was ended at the deadline.
        """
        pipe: int = process.stdout.fileno()  # type: ignore[union-attr] # it was started with a pipe
        recent, heard_s, tick_s = b"", 0.0, 0.0
        deadline_s, due_s = sum(lengths), time.monotonic()
        while True:
            self.late_s = max(self.late_s, time.monotonic() - due_s)
            if self.counted and not self.first_error_unix_s:
                self._note_error()
            meter.look(process.pid)
            elapsed = meter.elapsed_s()
            self._note_stop(elapsed >= lengths.ramp_s and counters.stopped(process.pid))
            if elapsed >= tick_s:
                self._tick(meter.sample(process.pid), elapsed, lengths, series, (recent, heard_s, tick_s == 0))
                tick_s = max(tick_s + STATE_INTERVAL_S, elapsed)
            if elapsed > deadline_s or self.watcher.stopping:
                # Where this process stood still itself, the engine may have ended long ago.
                late = elapsed > deadline_s and process.poll() is None
                end_group(process)
                return late
            wait_s = max(min(tick_s - elapsed, meter.next_s(), deadline_s - elapsed, HEARTBEAT_S), 0)
            due_s = time.monotonic() + wait_s
            if select.select([pipe], [], [], wait_s)[0]:
                chunk = os.read(pipe, 65536)
                if not chunk:
                    process.wait()
                    return False
                recent, heard_s = (recent + chunk)[-4096:], meter.elapsed_s()

    def _note_error(self) -> None:
        """Note between which looks the engine's first word of a failed I/O came."""
        now_s = time.time()
        if self.engine.reports_error(text_of(os.path.join(self.folder, "stderr.txt"))):
            self.first_error_unix_s = [round(self._looked_unix_s, 3), round(now_s, 3)]
        self._looked_unix_s = now_s

    def _note_stop(self, stopped: bool) -> None:
        """Note the state of the engine's process at this look. A process that is stopped asks no device, so the pause is not the storage's."""
        now_s = time.monotonic()
        since_s = self._stopped_since_s if self._stopped_since_s is not None else now_s
        self.stopped_s = max(self.stopped_s, now_s - since_s if stopped else 0.0)
        self._stopped_since_s = since_s if stopped else None

    def _tick(
        self,
        sample: Any,
        elapsed: float,
        lengths: Lengths,
        series: Series | None,
        heard: tuple[bytes, float, bool],
    ) -> None:
        """Once a second. heard: (the end of what the engine printed, when, whether this is the first time)."""
        ramp_s, runtime_s = lengths.ramp_s, lengths.runtime_s
        recent, heard_s, first = heard
        in_ramp = elapsed < ramp_s
        if series is not None and first:
            series.started(sample)
        elif series is not None:
            fresh = recent if elapsed - heard_s <= STALE_S and not 0 < ramp_s > elapsed - STALE_S else b""
            # A row is of the second that has gone by, and belongs to where most of it was.
            phase = "ramp" if elapsed - STATE_INTERVAL_S / 2 < ramp_s else "measure"
            series.add(phase, sample, *self.engine.live(fresh))
        self.watcher.show(
            phase=self.phase or ("ramp" if in_ramp else "measure"),
            elapsed_s=round(elapsed if in_ramp else elapsed - ramp_s, 1),
            phase_s=round(ramp_s if in_ramp else runtime_s, 1),
            iops=self.engine.live(recent)[0],
            remaining_s=self.watcher.remaining_s(),
        )

    def _windows(self, log_ms: int) -> Windows | None:
        """In which windows of its measured time it completed I/O, as standstill.seen says it. The log is not kept."""
        path = os.path.join(self.folder, self.engine.moments_file)
        try:
            text = text_of(path)
        except FileNotFoundError:
            return None
        os.unlink(path)
        if not self.counted:
            return standstill.seen(self.engine.moments_ms(text), log_ms)
        rates = self.engine.counted(text, self.counted)
        begin, true_ms, counts = dip.counts_of(rates, log_ms)
        windows = standstill.seen([end - begin for end, _rate in rates], log_ms)
        if windows:
            windows.update(
                {
                    "counts": counts,
                    "counts_from_unix_s": round(begin / 1000, 3),
                    "counts_window_s": round(true_ms / 1000, 6),
                }
            )
            windows.update({"first_error_unix_s": self.first_error_unix_s} if self.first_error_unix_s else {})
        return windows

    def error(self, done: dict[str, Any]) -> str | None:
        """Why a start failed that measures nothing, with the engine's own words; None when it did not. done: as run returns it."""
        if not done["timed_out"] and not done["exit_code"]:
            return None
        paths = (os.path.join(self.folder, name) for name in ("stderr.txt", self.engine.raw_file))
        # Its words stand before its figures.
        words = " ".join(text_of(path) for path in paths if os.path.exists(path))
        lines = words.partition(self.engine.begins)[0].split("\n")
        reason = next((f" It says: {line.strip()[:200]}." for line in lines if line.strip()), "")
        ended = f"{self.engine.name} {exit_words(done['exit_code'])}"
        return f"{ended}{' after it was asked to' if done['timed_out'] else ''}.{reason}"


def text_of(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as handle:
        return handle.read()


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started."""
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
