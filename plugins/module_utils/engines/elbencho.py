# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""elbencho on a block device or a file: its command line, and results out of its JSON lines. Options and output belong to 3.1, which was built and run.

It measures whole microseconds, rounded down, and counts latencies in bins that grow by 19 %, so percentiles are known as bounds. It has no ramp.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from ..core.failure import Failure, bad_value
from ..result import result as schema
from ..workload.point import Point
from ..workload.workload import WHOLE_RANGE, Workload, by_time, extent, natural_alignment, unsupported
from .engine import FILL_BYTES_S, GRACE_S, Engine, Make, Place, Start, start
from .iometer import bounds

_US = 1000
# Options that only tune how I/O is issued, each with a value.
ALLOWED = ("blockvaralgo", "blockvarpct", "cores", "fadv", "randalgo", "zones")
_BIN = re.compile(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)us")
_NO_ANSWER = "Look at what it printed, and run it by hand with the arguments in elbencho.txt."


class Elbencho(Engine):
    name, job_file, raw_file, begins = "elbencho", "elbencho.txt", "elbencho.json", "{"
    linux, windows, program = True, False, "elbencho"
    workers_apart = True

    def check(self, point: Point) -> None:
        workload = point["workload"]
        extent(workload, point["size_bytes"])
        _refuse(workload)
        if not re.fullmatch(r"/[A-Za-z0-9/._:+@=,%-]*", point["path"] or ""):
            remedy = "elbencho cannot be given this path; use letters, digits and / . _ : + @ = , % - only."
            raise bad_value("layer path", point["path"], remedy)
        if point.get("files"):
            raise unsupported("elbencho", "files", len(point["files"]), "Use a layer of one file.")

    def command(self, points: list[Point], place: Place) -> Start:
        (point,) = points
        workload, size = point["workload"], extent(point["workload"], point["size_bytes"])[1]
        share = workload["read_percent"]
        words = ["-r"] if share == 100 else ["-w", *(["--rwmixpct", str(share)] if share else [])]
        words += ["-b", str(workload["block_size_bytes"]), "-t", str(workload["workers"])]
        words += ["--iodepth", str(workload["queue_depth"]), *(["--rand"] if workload["random_percent"] else [])]
        words += ["--timelimit", str(workload["runtime_s"]), "--infloop"]
        for name, value in workload.get("engine_options", {}).get("elbencho", {}).items():
            words += [f"--{name}", value]
        return self._start(words, point, size, workload["runtime_s"] + GRACE_S)

    def fill(
        self, job: Point, block_bytes: int, position: int = 0, bytes_s: float | None = None, passes: int = 1
    ) -> tuple[Make, Point]:
        size = job["size_bytes"]
        words = ["-w", "-b", str(math.gcd(size, block_bytes)), "-t", "1", "--iodepth", "4", "-i", str(passes)]
        # Buffered writes that are still on their way would be charged to the first point.
        words += [] if job["workload"]["direct"] else ["--sync"]
        limit_s = passes * size / FILL_BYTES_S + GRACE_S
        return lambda _place: self._start(words, job, size, limit_s), {**job, "least_bytes": passes * size}

    def _start(self, words: list[str], point: Point, size: int, limit_s: float) -> Start:
        words = [*words, *(["--direct"] if point["workload"]["direct"] else []), "-s", str(size)]
        # Its other files would go to /var/tmp, and brackets in a path would be expanded.
        words += [
            "--lat",
            "--lathisto",
            "--jsonfile",
            self.raw_file,
            "--csvfile",
            "/dev/null",
            "--resfile",
            "/dev/null",
        ]
        words += ["--livecsv", "stdout", "--liveint", "1000", "--nolive", "--nopathexp", point["path"]]
        return start(words, {self.job_file: " ".join([self.program, *words]) + "\n"}, limit_s)

    def live(self, printed: bytes) -> tuple[float | None, float | None]:
        # A line of a time for each direction; the last may be cut off.
        rows = [row.split(",") for row in printed.decode("ascii", "replace").split("\n")[:-1]]
        rows = [row for row in rows if len(row) > 9 and row[9].isdigit() and row[8].isdigit()]
        last = [row for row in rows if row[3] == rows[-1][3]]
        if not last:
            return None, None
        return float(sum(int(row[9]) for row in last)), float(sum(int(row[8]) for row in last) << 20)

    def results(self, text: str, servers: Sequence[object] | None = None) -> list[Any]:
        return results(text)


def _refuse(workload: Workload) -> None:
    """Failure 'workload_unsupported' for what elbencho cannot do."""
    size = workload.get("block_size_bytes")
    limits: list[tuple[str, Any, bool, str]] = [
        (
            "ramp_s",
            workload["ramp_s"],
            bool(workload["ramp_s"]),
            "It has no ramp; set ramp_s to 0, and prepare.warmup_s.",
        ),
        ("random_percent", workload["random_percent"], workload["random_percent"] not in (0, 100), "Use 0 or 100."),
        ("block_size", "a mix of sizes", size is None, "Use one block size."),
        (
            "alignment",
            workload["alignment_bytes"],
            size is not None and workload["alignment_bytes"] != natural_alignment(workload),
            "Its offsets are multiples of the block size; leave alignment out.",
        ),
        (
            "range.offset_bytes",
            workload["range"]["offset_bytes"],
            workload["range"]["offset_bytes"] != WHOLE_RANGE["offset_bytes"],
            "It begins at the first byte; leave the offset out.",
        ),
        ("runtime_s", workload["runtime_s"], workload["runtime_s"] != int(workload["runtime_s"]), "Use whole seconds."),
    ]
    kept: Any = workload
    for name in ("distribution", "think_time_us", "rate_iops", "rate_bytes_s", "sync", "verify", "on_error"):
        limits.append((name, kept.get(name), name in workload, "Leave it out, or use fio."))
    amount = "loops" if "loops" in workload else "io_bytes"
    limits.append((amount, kept.get(amount), not by_time(workload), "It is run for a time; leave the amount out."))
    # It fills what it writes with random data before each I/O.
    data = workload.get("data")
    limits.append(
        (
            "data",
            data,
            data not in (None, {"pattern": "random", "refill": True}),
            "It writes random data; leave data out.",
        )
    )
    for variable, value, broken, remedy in limits:
        if broken:
            raise unsupported("elbencho", variable, value, remedy)
    for name, value in workload.get("engine_options", {}).get("elbencho", {}).items():
        if name not in ALLOWED:
            raise unsupported(
                "elbencho", f"engine_options.elbencho.{name}", value, f"Passed on are {', '.join(ALLOWED)}."
            )


# ---------------------------------------------------------------- results


def results(text: str) -> list[Any]:
    """A result of schema storlab.result/1 for each phase that read or wrote."""
    made = []
    for number, line in enumerate(text.splitlines(), start=1):
        # It ends a line with a comma where it has more phases than one.
        line = line.strip().rstrip(",")
        if not line:
            continue
        try:
            phase = json.loads(line)
            if re.fullmatch(r"READ|WRITE|RWMIX\d+", phase["phase_type"]):
                made.append(_result(phase))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            words = f"Line {number} of elbencho's output cannot be read: {type(error).__name__} {error}."
            raise Failure("no_result", words, _NO_ANSWER) from error
    if not made:
        raise Failure("no_result", "elbencho's output has no phase that read or wrote.", _NO_ANSWER)
    return made


def _result(phase: dict[str, Any]) -> dict[str, Any]:
    config, last = phase["config"], phase["last_done"]
    block, seconds = int(config["block_size"]), int(last["elapsed_time_ms"]) / 1000
    latency = last.get("latency", {}).get("IO", {})
    first = "read" if phase["phase_type"] == "READ" else "write"
    sources = {first: (last, latency, latency.get("histogram", {}))}
    if "rwmix_read" in last:
        sources["read"] = (last["rwmix_read"], latency["rwmix_read"], latency["histogram"]["rwmix_read"])
    parts: dict[str, Any] = {}
    counts: dict[tuple[float, float], int] = {}
    for name, (figures, times, bins) in sources.items():
        size = int(figures["bytes"])
        known: Any = {"samples": size // block, "mean": int(times["avg_us"]) * _US or None} if times else {}
        if times:
            known.update(min=int(times["min_us"]) * _US or None, max=int(times["max_us"]) * _US)
        parts[name] = schema.direction(size // block, size, size / block / seconds, size / seconds, known)
        for entry in bins.get("buckets", ()):
            low, high = (float(edge) for edge in _BIN.fullmatch(entry["range"]).groups())  # type: ignore[union-attr]
            counts[low, high] = counts.get((low, high), 0) + int(entry["count"])
    parts = {name: part for name, part in parts.items() if part["ios"]}
    result = {
        "engine": {"name": "elbencho", "version": config["version"]},
        "failures": [],
        "flags": [],
        "runtime_s": seconds,
        "errors": {"total": 0},
        **parts,
    }
    if parts:
        result["total"] = schema.merge_directions(list(parts.values()))
        if sum(counts.values()) == result["total"]["ios"]:
            result["latency_bins"] = _bins(counts)
            result["total"].update(bounds(result["latency_bins"], result["total"].get("latency_max_ns")))
    return result


def _bins(counts: dict[tuple[float, float], int]) -> dict[str, Any]:
    """Counted are whole microseconds, so that an I/O may have taken up to one more than its bin says."""
    edges = sorted(counts)
    return {
        "unit": "ns",
        "lower": [round(low * _US) for low, _high in edges],
        "upper": [round((high + 1) * _US) for _low, high in edges],
        "counts": [counts[edge] for edge in edges],
    }
