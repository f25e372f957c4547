# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adds to results what an ESXi host counted meanwhile; documentation in plugins/modules/esxi_counters.py."""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
import os

from ansible.plugins.action import ActionBase

from ..module_utils import esxi_counters, observer, run_folder
from ..module_utils.failure import Failure, bad_value

MODULE = "storlab.testbed.esxi_counters"


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("ca_path", "esxi_host", "finished_utc", "hostname", "password", "port", "run_dir", "started_utc", "state", "timeout_s", "username",
                             "validate_certs", "wait_s"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        args = dict(self._task.args)
        try:
            if args.get("run_dir"):
                result.update(self._add(args, task_vars or {}))
            elif args.get("state") == "recorded":
                raise bad_value("run_dir", None, "Name the run whose folder the samples are kept in.")
            else:
                result.update(self._execute_module(module_name=MODULE, module_args=args, task_vars=task_vars))
        except Failure as failure:
            result.update(failed=True, **failure.as_result())
        return result

    def _add(self, args: dict, task_vars: dict) -> dict:
        for key in ("started_utc", "finished_utc"):
            if args.get(key):
                raise bad_value(key, args[key], "Leave it out: with run_dir it is the time of the run's points.")
        run_dir, host = self._loader.path_dwim(args.pop("run_dir")), task_vars["inventory_hostname"]
        if not os.path.isdir(run_dir):
            # Nothing was measured yet that figures could be added to.
            if self._task.check_mode:
                return {"changed": False, "added": [], "missed": {}}
            raise Failure("run_missing", f"run_dir {run_dir} is no folder.", "Name the folder of a run that benchmark wrote.", run_dir=run_dir)
        kept = os.path.join(run_dir, "samples", f"{host}.json")
        if args.pop("state", "collected") == "recorded":
            return self._record(kept, args, task_vars)
        points, missed = waiting(run_dir, host)
        if not points:
            return {"changed": False, "added": [], "missed": missed}
        starts, ends = zip(*(span for span, _clock, _path in points.values()))
        args = {**args, "started_utc": utc(min(starts)), "finished_utc": utc(max(ends))}
        found = self._execute_module(module_name=MODULE, module_args=args, task_vars=task_vars)
        if found.get("failed"):
            return found
        samples = esxi_counters.merge(read(kept), found["samples"])
        added, flagged, unseen = add(run_dir, host, samples, points, self._task.check_mode)
        return {"changed": bool(added or flagged), "added": added, "missed": {**missed, **unseen}, "clock": found["clock"]}

    def _record(self, kept: str, args: dict, task_vars: dict) -> dict:
        found = self._execute_module(module_name=MODULE, module_args=args, task_vars=task_vars)
        if found.get("failed"):
            return found
        if not self._task.check_mode:
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            run_folder.write_whole(kept, json.dumps(esxi_counters.merge(read(kept), found["samples"]), sort_keys=True).encode())
        return {"changed": True, "clock": found["clock"]}


# ---------------------------------------------------------------- on the controller's disk


def waiting(run_dir: str, host: str) -> tuple:
    """({point_id: ((started_s, finished_s) by the controller's clock, the measuring host's clock, path)}, {point_id: why not}) of the points whose I/O passes
    the host and that do not say yet what it counted, nor that they were too short for that."""
    clocks, known = run_folder.clocks(run_dir), run_folder.layers(run_dir)
    points, missed = {}, {}
    for name, result in run_folder.results(run_dir):
        told = result.get("counters", {}).get("esxi", {})
        if result["status"] != "measured" or told.get("host") == host or esxi_counters.SHORT_FLAG in result["flags"] or result["layer"] not in known:
            continue
        try:
            path = esxi_counters.behind(known, result["layer"], host)
        except Failure as failure:
            missed[name] = str(failure)
            continue
        if path is None:
            continue
        span, clock = esxi_counters.interval(result), clocks.get(result["host"])
        if span is None:
            missed[name] = "No time is known that certainly was measured without a pause; measure longer."
        elif clock is None:
            missed[name] = f"The clock of {result['host']} is not known; run benchmark_observer there."
        else:
            points[name] = (tuple(moment_s - clock["offset_s"] for moment_s in span), clock, path)
    return points, missed


def add(run_dir: str, host: str, samples: dict, points: dict, dry_run: bool) -> tuple:
    """Give the points of ``waiting`` their figures. Returns ([points that got them], [points that were only flagged], {point_id: why it got none})."""
    added, flagged, missed = [], [], {}
    for name, (span, clock, path) in points.items():
        between = run_folder.clock_between(samples["clock"], clock)
        if between["clock_uncertain_s"] > observer.CLOCK_TOLERANCE_S:
            missed[name] = f"The clocks of {host} and of the measuring host can be compared to {between['clock_uncertain_s']:.2f} s only."
            continue
        own_span = [moment_s + samples["clock"]["offset_s"] for moment_s in span]
        own = esxi_counters.cut(samples, *own_span, path)
        content = json.dumps(own, indent=1, sort_keys=True).encode()
        raw = {"file": f"esxi.{host}.json", "sha256": hashlib.sha256(content).hexdigest()}
        try:
            told = esxi_counters.figures(own, *own_span)
        except Failure as failure:
            missed[name] = str(failure)
            if failure.code == "interval_too_short":
                flagged.append(name)
                if not dry_run:
                    run_folder.change_result(run_dir, name, functools.partial(observer.add_flag, flag=esxi_counters.SHORT_FLAG))
            continue
        added.append(name)
        if not dry_run:
            run_folder.write_whole(os.path.join(run_dir, "points", name, raw["file"]), content)
            figured = functools.partial(esxi_counters.add_to, host=host, told=told, samples=own, raw=raw, clock=between, path=path)
            run_folder.change_result(run_dir, name, figured)
            if abs(between["clock_offset_s"]) > observer.CLOCK_TOLERANCE_S:
                run_folder.change_result(run_dir, name, functools.partial(observer.add_flag, flag="clocks_differ"))
    if added and not dry_run and not run_folder.environment(run_dir, host):
        run_folder.write_host(run_dir, host, esxi_counters.environment(samples))
    if added and not dry_run:
        run_folder.remember_clock(run_dir, host, samples["clock"])
    return added, flagged, missed


def read(path: str) -> dict | None:
    try:
        with open(path, encoding="utf-8") as handle:
            return json.load(handle)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise Failure("record_damaged", f"{path} cannot be read: {error}.", "Restore it from a copy, or remove it; its samples are lost then.",
                      path=path) from None


def utc(moment_s: float) -> str:
    return datetime.datetime.fromtimestamp(moment_s, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
