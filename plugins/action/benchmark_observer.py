# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adds to results what other hosts counted at the same time; documentation in plugins/modules/benchmark_observer.py."""

from __future__ import annotations

import os
import time

from ..module_utils.core.failure import Failure, bad_value
from ..module_utils.run import observer
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.store import installations, run_folder
from ..plugin_utils.windows.action import refuse_unmarked

ARGUMENTS = {
    "state": {"type": "str", "choices": ["started", "collected", "stopped"], "default": "started"},
    "testbed_id": {"type": "str", "required": True},
    "run_id": {"type": "str"},
    "results_dir": {"type": "path"},
    "layers": {"type": "dict"},
    "deadline_s": {"type": "int", "default": 14400},
}
RUN_MODULE = "storlab.testbed.benchmark_observer_run"
# Each bounds the clocks' difference from both sides; the first one may have to connect. Enough is known when it is known so well.
MOST_EXCHANGES = 24
LEAST_EXCHANGES = 3
ENOUGH_S = 0.1
# A host that is slow to answer shows little more in further exchanges: after so many, half of what can be tolerated is enough.
FEW_EXCHANGES, FAIR_S = 6, observer.CLOCK_TOLERANCE_S / 2


class ActionModule(CollectionAction):
    SPEC = ARGUMENTS

    def perform(self, params: dict) -> dict:
        return self._observe(params, self.task_vars)

    def _observe(self, args: dict, task_vars: dict) -> dict:
        state = args["state"]
        refuse_unmarked(self._connection, task_vars["inventory_hostname"])
        if state == "stopped":
            return {"changed": self._module({"action": "stop"}, args, task_vars)["changed"]}
        for key in ("run_id", "results_dir"):
            if not args[key]:
                raise bad_value(key, args[key], "Name the run whose results get what this host counts.")
        run_dir = os.path.join(self._loader.path_dwim(args["results_dir"]), args["testbed_id"], args["run_id"])
        host = task_vars["inventory_hostname"]
        if state == "collected":
            return {"changed": False} if self._task.check_mode else self._collect(run_dir, host, args, task_vars)
        published = task_vars.get("ansible_facts", {}).get("storlab_layers", {})
        paths = paths_of(published if args["layers"] is None else args["layers"], host)
        clock = {}
        if not self._task.check_mode:
            clock = {"clock": self._clock(host)}
            run_folder.remember_clock(run_dir, host, clock["clock"])
        order = {"action": "start", "paths": paths, "deadline_s": args["deadline_s"]}
        started = self._module(order, args, task_vars)
        # A measurement on another host depends on this one, too. One that is measured itself has reported more, its engine with it.
        if not self._task.check_mode and "engine" not in run_folder.environment(run_dir, host):
            run_folder.write_host(run_dir, host, started["environment"])
        return {"changed": started["changed"], "layers": started["layers"], **clock}

    def _collect(self, run_dir: str, host: str, args: dict, task_vars: dict) -> dict:
        clocks, added, missed = run_folder.clocks(run_dir), [], {}
        layers = run_folder.layers(run_dir)
        if host not in clocks:
            raise Failure(
                "observer_missing",
                f"{host} was not observed during run {args['run_id']}.",
                "Start the observer before the benchmark.",
            )
        # By the host that measured, because each has a clock of its own.
        for measuring, results in unobserved(run_dir, host).items():
            clock = run_folder.clock_between(clocks[host], clocks.get(measuring))
            if clock is None:
                missed.update(
                    dict.fromkeys(results, f"The clock of {measuring} is not known; start the observer there, too.")
                )
                continue
            intervals = {name: observer.measured_interval(result) for name, result in results.items()}
            wanted = {name: interval for name, interval in intervals.items() if interval}
            missed.update(
                dict.fromkeys(
                    set(results) - set(wanted),
                    "No time is known that certainly was measured without a pause; measure longer.",
                )
            )
            if clock["clock_uncertain_s"] > observer.CLOCK_TOLERANCE_S:
                missed.update(
                    dict.fromkeys(
                        wanted,
                        f"The clocks of {host} and {measuring} can be compared to {clock['clock_uncertain_s']:.2f} s only.",
                    )
                )
                unknown = {name: {"flags": ["clock_unknown"]} for name in wanted}
                run_folder.add(run_dir, f"observer.{host}", results, unknown)
                continue
            collected = self._module({"action": "collect", "intervals": wanted, **clock}, args, task_vars)
            missed.update(collected["missed"])
            flags = {"flags": ["clocks_differ"]} if abs(clock["clock_offset_s"]) > observer.CLOCK_TOLERANCE_S else {}
            # Only of what it was asked.
            fresh = {
                name: {**observer.addition(results[name], host, {**figures, **clock}, layers), **flags}
                for name, figures in collected["observed"].items()
                if name in wanted
            }
            run_folder.add(run_dir, f"observer.{host}", results, fresh)
            added += fresh
        for timed in installations.kept(run_dir):
            reason = self._add_to_installation(run_dir, host, timed, (clocks, layers), args, task_vars)
            if reason is None:
                added.append(timed["point_id"])
            elif reason:
                missed[timed["point_id"]] = reason
        return {"changed": bool(added), "added": sorted(added), "missed": missed}

    def _add_to_installation(
        self, run_dir: str, host: str, timed: dict, known: tuple, args: dict, task_vars: dict
    ) -> str | None:
        """None when what this host counted of the datastore's device was added, why not otherwise; '' when it has not that device, or it was done before."""
        clocks, layers = known
        layer = installations.storage_of(layers, timed)
        if layer is None or layer["host"] != host or run_folder.added_by(run_dir, f"observer.{host}", timed):
            return ""
        clock = run_folder.clock_between(clocks[host], clocks.get(timed["host"]))
        if clock is None:
            return f"The clock of {timed['host']} is not known; start the observer there, too."
        if clock["clock_uncertain_s"] > observer.CLOCK_TOLERANCE_S:
            return (
                f"The clocks of {host} and {timed['host']} can be compared to {clock['clock_uncertain_s']:.2f} s only."
            )
        wanted = {"action": "collect", "intervals": installations.intervals(timed), **clock}
        collected = self._module(wanted, args, task_vars)
        addition = installations.addition(host, layer, collected["observed"])
        if addition is None:
            return str(collected["missed"].get("whole") or f"The device of {layer['name']} was not counted.")
        run_folder.add(run_dir, f"observer.{host}", {timed["point_id"]: timed}, {timed["point_id"]: addition})
        return None

    def _clock(self, host: str) -> dict:
        """How far the host's clock is ahead of the controller's, {offset_s, uncertain_s}."""
        exchanges: list = []
        while len(exchanges) < LEAST_EXCHANGES or not _is_known(exchanges):
            sent = time.time()
            done = self.on_host("date +%s.%N", become=False)
            received = time.time()
            try:
                exchanges.append((sent, float(done["stdout"]), received))
            except ValueError:
                raise Failure(
                    "clock_unreadable",
                    f"{host} does not report its time: {done['stdout'].strip() or done['stderr'].strip()!r}.",
                    "Install coreutils on it; date must know %N.",
                ) from None
        offset_s, uncertain_s = observer.clock_offset(exchanges)
        return {"offset_s": round(offset_s, 4), "uncertain_s": round(uncertain_s, 4)}

    def _module(self, module_args: dict, args: dict, task_vars: dict) -> dict:
        done = self._execute_module(
            module_name=RUN_MODULE, module_args={**module_args, "testbed_id": args["testbed_id"]}, task_vars=task_vars
        )
        if done.get("failed"):
            raise Failure.of_result(done)
        return done


# ---------------------------------------------------------------- pure


def _is_known(exchanges: list) -> bool:
    """Whether further exchanges with a host are not worth their time."""
    uncertain_s = observer.clock_offset(exchanges)[1]
    enough_s = FAIR_S if len(exchanges) >= FEW_EXCHANGES else ENOUGH_S
    return uncertain_s <= enough_s or len(exchanges) >= MOST_EXCHANGES


def paths_of(layers: dict, host: str) -> dict:
    """{layer: path} of the layers of this host that can be read there."""
    return {
        name: layer["path"]
        for name, layer in layers.items()
        if layer["host"] == host and layer["path"] and layer["kind"] != "ceiling"
    }


# ---------------------------------------------------------------- on the controller's disk


def unobserved(run_dir: str, host: str) -> dict:
    """{measuring host: {point_id: result}} of the results of other hosts that do not have yet what this one counted."""
    results: dict = {}
    for name, result in run_folder.results(run_dir):
        if result["host"] != host and "total" in result and host not in result.get("counters", {}).get("hosts", {}):
            results.setdefault(result["host"], {})[name] = result
    return results
