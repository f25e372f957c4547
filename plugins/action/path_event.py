# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adds to results what an event on the way to the layer cost; documentation in plugins/modules/path_event.py."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from ..module_utils.core.failure import Failure, bad_value
from ..module_utils.core.files import read_json
from ..module_utils.result import event as event_of
from ..module_utils.run import path_event
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.store import run_folder

RUN_MODULE = "storlab.testbed.path_event_run"


class ActionModule(CollectionAction):
    SPEC: ClassVar = {
        "state": {"type": "str", "choices": ["armed", "collected", "stopped"], "default": "armed"},
        "testbed_id": {"type": "str", "required": True},
        "run_id": {"type": "str"},
        "results_dir": {"type": "path"},
        "variant": {"type": "str"},
        "repetition": {"type": "int"},
        **path_event.SPEC,
    }

    def perform(self, params: dict) -> dict:
        state = params["state"]
        needed = {"armed": ("variant", "repetition", "target"), "collected": ("run_id", "results_dir")}
        for key in needed.get(state, ()):
            if not params[key]:
                raise bad_value(key, params[key], f"It is needed for the state {state}.")
        if state == "stopped":
            return self._module({"action": "stop"}, params)
        if state == "armed":
            name = event_of.name_of(params["variant"], params["repetition"])
            return self._module(
                {"action": "arm", "name": name, **{key: params[key] for key in path_event.SPEC}}, params
            )
        return {"changed": False} if self._task.check_mode else self._collect(params)

    def _collect(self, params: dict) -> dict:
        host = self.task_vars["inventory_hostname"]
        host = self._task.delegate_to or host
        run_dir = os.path.join(self._loader.path_dwim(params["results_dir"]), params["testbed_id"], params["run_id"])
        made = self._module({"action": "events"}, params)["events"]
        clocks, results, fresh, missed = run_folder.clocks(run_dir), {}, {}, {}
        for name, result in run_folder.results(run_dir):
            event = made.get(event_of.name_of(result.get("variant"), result["repetition"]))
            if event is None:
                continue
            clock = run_folder.clock_between(clocks[host], clocks.get(result["host"])) if host in clocks else None
            if clock is None:
                missed[name] = f"The clocks of {host} and {result['host']} are not known; start the observer on both."
                continue
            figures = event_of.of_event(result, windows_of(run_dir, name), event, clock)
            if isinstance(figures, str):
                missed[name] = figures
                continue
            results[name], fresh[name] = result, {"event": {**figures, "host": host}}
        run_folder.add(run_dir, f"event.{host}", results, fresh)
        return {"changed": bool(fresh), "added": sorted(fresh), "missed": missed}

    def _module(self, module_args: dict, params: dict) -> dict:
        done = self._execute_module(
            module_name=RUN_MODULE,
            module_args={**module_args, "testbed_id": params["testbed_id"]},
            task_vars=self.task_vars,
        )
        if done.get("failed"):
            raise Failure.of_result(done)
        return {key: done[key] for key in ("changed", "events", "undone") if key in done}


def windows_of(run_dir: str, point_id: str) -> dict[str, Any]:
    """The runner's notes on the load of a point, empty where it left none."""
    meta = read_json(os.path.join(run_dir, "points", point_id, "meta.json")) or {}
    windows = meta.get("windows") if isinstance(meta, dict) else None
    return windows[0] if isinstance(windows, list) and len(windows) == 1 and isinstance(windows[0], dict) else {}
