# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The work on a layer before it is measured, so that figures are of the layer and not of its being new.

- *fill*: every block is written once before anything is measured. Blocks that were never written are read from nowhere, and fast; and the first write to a
  block of a thin device or a sparse file has to find room for it, which no later one has.
- *precondition*: the whole layer is written so many times in a row, sequentially, in blocks of 128 KiB: SNIA's workload-independent
  preconditioning, which takes two passes. It fills too.
- *warm-up*: the point's own workload for a while, before its first repetition; its figures are kept apart. On a host with a cache again and again, until
  the hit rates of two turns in a row are alike, when more than one turn is allowed.
- *dropped caches*: before each buffered point, and checked.
- *zeroes*: the whole layer is written with zeroes before each point, each case or each round, where that is asked for.

Filling and preconditioning are done before the first point of a layer, never between points: that would end the state in which the others
were measured. Zeroes are written between points, which is what they are for: each then begins with the same contents, whatever those before it
wrote. Written once is written, so a layer that an earlier part of the same run prepared is not written again, provided that the very same
instance of the device is still there.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from ..core.failure import Failure
from ..core.times import utc
from ..workload.point import Point
from ..workload.workload import Workload, directions

# As argument specs have them.
OPTIONS: dict[str, Any] = {
    "fill": {"type": "bool", "default": True},
    "precondition_passes": {"type": "int", "default": 0},
    "precondition_block_bytes": {"type": "raw", "default": 128 << 10},  # or a size such as 1m
    "warmup_s": {"type": "float", "default": 0},
    "warmup_turns": {"type": "int", "default": 1},
    "drop_caches": {"type": "bool", "default": True},
    "zero_before": {"type": "str", "choices": ["nothing", "round", "case", "point"], "default": "nothing"},
}
DEFAULTS = {name: option["default"] for name, option in OPTIONS.items()}
# The parts of a point that change when zeroes are written again. A case is a workload on a layer: its repetitions are one where they follow each other.
ZEROED_FOR = {"round": "repetition", "case": "workload_id", "point": "point_id"}


# So many of the sampled blocks of storage of others may hold nothing but zeros.
ZEROS_PERCENT = 5

# So near are the hit rates of a cache that is warm, in percentage points.
STEADY_HITS = 2


class Writing(NamedTuple):
    """How a whole layer is written."""

    phase: str  # fill, precondition or zero
    passes: int
    block_bytes: int | None  # None: the engine chooses


class Written(NamedTuple):
    """The result of a Writing."""

    error: str | None  # why it failed
    wall_s: float | None  # how long it took; None when nobody knows


class Executor(Protocol):
    """The work of one kind of host for a Preparation. A job is a point of the plan with the path and size_bytes of its layer."""

    remedy: str  # what the user should look at when a preparation fails, one sentence

    def instance(self, job: Point) -> str | None:
        """The mark that distinguishes this very device from a later one of the same name; None when there is none."""

    def write(self, job: Point, writing: Writing, instance: str | None) -> Written:
        """Write every block of the layer with the data of the job's workload."""

    def warm_up(self, job: Point, seconds: float) -> str | None:
        """Run the job's workload for so long; why that failed, or None."""

    def hit_percent(self) -> float | None:
        """The caches of the host during the last warm-up; None without a cache."""

    def drop_page_cache(self, job: Point) -> bool:
        """Empty the page cache; whether nothing of the layer is left in it."""


class Preparation:
    """Prepares the layers of one plan, point after point, by the hands of an executor, and remembers what has been done."""

    def __init__(self, plan: dict[str, Any], executor: Executor) -> None:
        self.prepare, self.earlier = of_plan(plan), plan.get("prepared", {})
        self.executor = executor
        self.written: dict[
            str, dict[str, Any] | Failure
        ] = {}  # layer -> {utc, instance?}, or the Failure of the only attempt
        self.warmed: dict[
            tuple[str, str], list[float]
        ] = {}  # (layer, workload_id) -> hit rates of a cache, turn after turn
        self.zeroed: dict[str, Any] = {}  # layer -> point, case or round that it was written with zeroes for

    def before(self, jobs: list[Point], meta: dict[str, Any]) -> None:
        """Do what precedes these jobs, which one run of the engine measures on one layer.

        Adds ``preparation``, ``prepared`` and flags to meta, the notes on the jobs, as far as it comes; raises Failure fill_failed or warmup_failed.
        """
        job = jobs[0]
        # There is nothing to write where no device is, except on the hosts of the point's servers.
        if job["path"] is None and "servers" not in job:
            return
        wanted = of_layer(self.prepare)
        if "sampled" in job:
            # Storage of others is taken as it is.
            meta["preparation"] = {"access": "read", **job["sampled"]}
        elif zeroes(self.prepare):
            # A device that reduces data keeps no zeroes, and answers them from nowhere.
            meta["preparation"] = {**wanted, "filled": not job.get("reduces_data"), **self._zero(job)}
        else:
            if wanted:
                meta["prepared"] = self._written(job, wanted)
            meta["preparation"] = dict(wanted)
        if self.prepare["warmup_s"]:
            hits = [self._warm_up(measured) for measured in jobs]
            meta["preparation"]["warmup_s"] = self.prepare["warmup_s"]
            if hits[0]:
                meta["preparation"]["warmup_hit_percent"] = hits[0]
        if job["path"] is not None:
            meta["preparation"]["page_cache"] = self._page_cache(jobs)
            if meta["preparation"]["page_cache"] == "not_dropped" and self.prepare["drop_caches"]:
                meta["flags"].append("page_cache_not_dropped")

    def _written(self, job: Point, wanted: dict[str, Any]) -> dict[str, Any]:
        name = job["layer"]
        if name not in self.written:
            try:
                self.written[name] = self._write(job, wanted)
            except Failure as failure:
                # Tried once: the layer's other points fail for the same reason.
                self.written[name] = failure
        written = self.written[name]
        if isinstance(written, Failure):
            raise written
        return written

    def _write(self, job: Point, wanted: dict[str, Any]) -> dict[str, Any]:
        """Write the layer unless this very device was written earlier; {utc, instance?} of when that was and of which device."""
        instance, earlier = self.executor.instance(job), self.earlier.get(job["layer"], {})
        if instance and earlier.get("instance") == instance and covers(earlier, wanted):
            return {key: earlier[key] for key in ("utc", "instance") if key in earlier}
        written = self.executor.write(job, writing(self.prepare, wanted), instance)
        if written.error:
            raise Failure(
                "fill_failed",
                f"{job['layer']} could not be written once before it is measured: {written.error}",
                self.executor.remedy,
            )
        return {"utc": utc(), **({"instance": instance} if instance else {})}

    def _zero(self, job: Point) -> dict[str, Any]:
        """Write zeroes unless that was done for the same point, case or round; what the result says of it, empty when it was not done now.

        Nothing of an earlier call counts: a run that goes on writes zeroes before the first point that is missing.
        """
        name, what = job["layer"], dict(job)[ZEROED_FOR[self.prepare["zero_before"]]]
        if self.zeroed.get(name) == what:
            return {}
        zero: Point = {**job, "workload": {**job["workload"], "data": {"pattern": "zero"}}}
        written = self.executor.write(zero, Writing("zero", 1, None), self.executor.instance(job))
        if written.error:
            raise Failure(
                "fill_failed", f"{name} could not be written with zeroes: {written.error}", self.executor.remedy
            )
        self.zeroed[name] = what
        return {
            "zeroed_bytes": whole_bytes(job),
            **({"zeroed_s": round(written.wall_s, 3)} if written.wall_s is not None else {}),
        }

    def _warm_up(self, job: Point) -> list[float]:
        """The hit rate of the host's caches in each turn; empty without a cache, or with one turn only."""
        key = (job["layer"], job["workload_id"])
        if key in self.warmed:
            return self.warmed[key]
        hits: list[float] = []
        for _turn in range(self.prepare["warmup_turns"]):
            error = self.executor.warm_up(job, self.prepare["warmup_s"])
            if error:
                raise Failure("warmup_failed", f"{job['layer']} could not be warmed up: {error}", self.executor.remedy)
            hit_percent = self.executor.hit_percent() if self.prepare["warmup_turns"] > 1 else None
            if hit_percent is None:
                break
            hits.append(hit_percent)
            if len(hits) > 1 and abs(hits[-1] - hits[-2]) <= STEADY_HITS:
                break
        self.warmed[key] = hits
        return hits

    def _page_cache(self, jobs: list[Point]) -> str:
        buffered = [job for job in jobs if not job["workload"]["direct"]]
        if not buffered:
            return "not_used"
        return (
            "dropped" if self.prepare["drop_caches"] and self.executor.drop_page_cache(buffered[0]) else "not_dropped"
        )


def of_plan(plan: dict[str, Any]) -> dict[str, Any]:
    """The preparation that a plan asks for, with every key of DEFAULTS."""
    return {**DEFAULTS, **plan.get("prepare", {})}


def of_layer(prepare: dict[str, Any]) -> dict[str, Any]:
    """The ``preparation`` of a result, as far as it is about writing the layer: empty when it is not written."""
    passes = prepare["precondition_passes"]
    return {
        **({"filled": True} if passes or prepare["fill"] or zeroes(prepare) else {}),
        **({"preconditioned_passes": passes} if passes else {}),
    }


def zeroes(prepare: dict[str, Any]) -> bool:
    """Whether layers are written with zeroes between points, which makes a fill before all of them needless."""
    return bool(prepare["zero_before"] != "nothing")


def whole_bytes(job: Point) -> int:
    """All bytes of a job's layer, of every file."""
    return int(job["size_bytes"]) * len(job.get("files", [job["path"]]))


def writing(prepare: dict[str, Any], wanted: dict[str, Any]) -> Writing:
    """wanted: as of_layer makes it, not empty."""
    if "preconditioned_passes" in wanted:
        return Writing("precondition", wanted["preconditioned_passes"], prepare["precondition_block_bytes"])
    return Writing("fill", 1, None)


def covers(earlier: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether a layer that was prepared so earlier need not be prepared as wanted."""
    return bool(earlier.get("filled")) and earlier.get("preconditioned_passes", 0) >= wanted.get(
        "preconditioned_passes", 0
    )


def reads_partly_cached(
    workload: Workload, prepare: dict[str, object], cached_bytes: int | None, range_bytes: int
) -> bool:
    """Whether a point reads through a page cache that was kept and that lacks a part of its range, so that the devices answer too.

    prepare: as of_plan makes it. cached_bytes: how much of range_bytes, which are all that the point uses, is there when it begins; None of direct I/O.
    A cache that is dropped before each point is meant to lack all of it.
    """
    kept = cached_bytes is not None and not prepare["drop_caches"]
    return kept and "read" in directions(workload) and (cached_bytes or 0) < range_bytes


def reads_unwritten(workload: Workload, meta: dict[str, Any]) -> bool:
    """Whether a point may have read blocks that were never written. meta: the notes on it, as Preparation.before leaves them.

    Samples decide about storage of others, which is not filled.
    """
    preparation = meta.get("preparation", {"filled": True})
    if "zero_percent" in preparation:
        return bool(preparation["zero_percent"] > ZEROS_PERCENT)
    return not preparation.get("filled") and "read" in directions(workload)
