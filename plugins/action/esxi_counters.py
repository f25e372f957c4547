# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adds to results what an ESXi host counted at the same time; documentation in plugins/modules/esxi_counters.py."""

from __future__ import annotations

import hashlib
import json
import os
from typing import ClassVar, NamedTuple

from ansible.module_utils.basic import env_fallback
from ansible.utils.display import Display

from ..module_utils.core.failure import Failure, bad_value, messages
from ..module_utils.core.files import read_json, write_whole
from ..module_utils.core.times import utc
from ..module_utils.core.visible import visible
from ..module_utils.esxi import counters as esxi_counters
from ..module_utils.esxi import counters_result, session
from ..module_utils.run import observer
from ..plugin_utils.action import AroundModule
from ..plugin_utils.store import run_folder

MODULE = "storlab.testbed.esxi_counters"
LOST = "Restore it from a copy, or remove it; its samples are lost then."
display = Display()


class Added(NamedTuple):
    """points: those that got figures; flagged: those that were only flagged; missed: {point: why it got none}; failed: {point: why the host failed it}."""

    points: list
    flagged: list
    missed: dict
    failed: dict


class ActionModule(AroundModule):
    SPEC: ClassVar[dict] = {**session.spec(env_fallback), **esxi_counters.SPEC}

    def perform(self, params: dict) -> dict:
        if params.get("run_dir"):
            return self._add(params, self.task_vars)
        if params.get("state") == "recorded":
            raise bad_value("run_dir", None, "Name the run whose folder the samples are kept in.")
        return self._execute_module(module_name=MODULE, module_args=params, task_vars=self.task_vars)

    def _add(self, args: dict, task_vars: dict) -> dict:
        for key in ("started_utc", "finished_utc"):
            if args.get(key):
                raise bad_value(key, args[key], "Leave it out: with run_dir it is the time of the run's points.")
        run_dir, host = self._loader.path_dwim(args.pop("run_dir")), task_vars["inventory_hostname"]
        if not os.path.isdir(run_dir):
            # Nothing was measured yet that figures could be added to.
            if self._task.check_mode:
                return {"changed": False, "added": [], "missed": {}, "failed_points": {}}
            raise Failure(
                "run_missing",
                f"run_dir {run_dir} is not a folder.",
                "Name the folder of a run that benchmark wrote.",
                run_dir=run_dir,
            )
        kept = os.path.join(run_dir, "samples", f"{host}.json")
        if args.pop("state", "collected") == "recorded":
            return self._record(kept, args, task_vars)
        pending = flag_pending(run_dir, host, self._task.check_mode)
        points, missed = waiting(run_dir, host)
        if not points:
            return {"changed": bool(pending), "added": [], "missed": missed, "failed_points": {}}
        starts, ends = zip(*(span for span, _clock, _path in points.values()))
        args = {**args, "started_utc": utc(min(starts)), "finished_utc": utc(max(ends))}
        collected = self._execute_module(module_name=MODULE, module_args=args, task_vars=task_vars)
        if collected.get("failed"):
            return collected
        samples = esxi_counters.merge(read_json(kept, LOST), collected["samples"])
        added = add(run_dir, host, samples, points, self._task.check_mode)
        for name, why in added.failed.items():
            display.warning(visible(f"{name} counts as failed: {why}"))
        return {
            "changed": bool(added.points or added.flagged or pending),
            "added": added.points,
            "missed": {**missed, **added.missed},
            "failed_points": added.failed,
            "clock": collected["clock"],
        }

    def _record(self, kept: str, args: dict, task_vars: dict) -> dict:
        collected = self._execute_module(module_name=MODULE, module_args=args, task_vars=task_vars)
        if collected.get("failed"):
            return collected
        if not self._task.check_mode:
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            write_whole(
                kept,
                json.dumps(esxi_counters.merge(read_json(kept, LOST), collected["samples"]), sort_keys=True).encode(),
            )
        return {"changed": True, "clock": collected["clock"]}


# ---------------------------------------------------------------- on the controller's disk


def waiting(run_dir: str, host: str) -> tuple:
    """({point_id: ((started_s, finished_s) by the controller's clock, the measuring host's clock, path)}, {point_id: why not}) of the points whose I/O passes
    the host and that do not say yet what it counted, nor that they were too short for that."""
    clocks, known = run_folder.clocks(run_dir), run_folder.layers(run_dir)
    points, missed = {}, {}
    for name, result in run_folder.results(run_dir):
        counters = result.get("counters", {}).get("esxi", {})
        if (
            result["status"] != "measured"
            or counters.get("host") == host
            or esxi_counters.SHORT_FLAG in result["flags"]
            or result["layer"] not in known
        ):
            continue
        try:
            path = counters_result.behind(known, result["layer"], host)
        except Failure as failure:
            missed[name] = str(failure)
            continue
        if path is None:
            continue
        span, clock = counters_result.interval(result), clocks.get(result["host"])
        if span is None:
            missed[name] = "No time is known that certainly was measured without a pause; measure longer."
        elif clock is None:
            missed[name] = f"The clock of {result['host']} is not known; run benchmark_observer there."
        else:
            points[name] = (tuple(moment_s - clock["offset_s"] for moment_s in span), clock, path)
    return points, missed


def flag_pending(run_dir: str, host: str, dry_run: bool) -> list:
    """Flag the points that were measured over layers of the host that say so: options set and not yet in force, paths down; returns them."""
    known, results = run_folder.layers(run_dir), dict(run_folder.results(run_dir))
    flags = {name: counters_result.layer_flags(known, result["layer"], host) for name, result in results.items()}
    flagged = {name: {"flags": flags[name]} for name in flags if set(flags[name]) - set(results[name]["flags"])}
    if flagged and not dry_run:
        run_folder.add(run_dir, f"restart.{host}", results, flagged)
    return sorted(flagged)


def add(run_dir: str, host: str, samples: dict, points: dict, dry_run: bool) -> Added:
    """Give the points of ``waiting`` their figures."""
    fresh, flagged, missed = {}, {}, {}
    results = {name: result for name, result in run_folder.results(run_dir) if name in points}
    for name, (span, clock, path) in points.items():
        between = run_folder.clock_between(samples["clock"], clock)
        if between["clock_uncertain_s"] > observer.CLOCK_TOLERANCE_S:
            missed[name] = (
                f"The clocks of {host} and of the measuring host can be compared to {between['clock_uncertain_s']:.2f} s only."
            )
            continue
        own_span = [moment_s + samples["clock"]["offset_s"] for moment_s in span]
        own = counters_result.cut(samples, *own_span, path)
        content = json.dumps(own, indent=1, sort_keys=True).encode()
        raw = {"file": f"esxi.{host}.json", "sha256": hashlib.sha256(content).hexdigest()}
        try:
            figures = esxi_counters.figures(own, *own_span)
        except Failure as failure:
            missed[name] = str(failure)
            if failure.code == "interval_too_short":
                flagged[name] = {"flags": [esxi_counters.SHORT_FLAG]}
            continue
        flags = ["clocks_differ"] if abs(between["clock_offset_s"]) > observer.CLOCK_TOLERANCE_S else []
        flags += counters_result.paths_flags(samples, path)
        addition = counters_result.addition(results[name], host, figures, own, raw, between, path)
        fresh[name] = {**addition, **({"flags": flags} if flags else {})}
        if not dry_run:
            run_folder.write_files(run_dir, {f"points/{name}/{raw['file']}": content})
    if not dry_run:
        run_folder.add(run_dir, f"esxi.{host}", results, {**fresh, **flagged})
        if fresh:
            # Points of several variants that are reported at once were not all measured under the settings of now.
            variants = {results[name].get("variant") for name in fresh}
            run_folder.write_host(
                run_dir,
                host,
                counters_result.environment(samples, run_folder.layers(run_dir), host),
                variants.pop() if len(variants) == 1 else None,
            )
            run_folder.remember_clock(run_dir, host, samples["clock"])
    failed = {name: messages(addition["failures"]) for name, addition in fresh.items() if "failures" in addition}
    return Added(list(fresh), list(flagged), missed, failed)
