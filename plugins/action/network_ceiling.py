# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures the network between two hosts; documentation in plugins/modules/network_ceiling.py."""

from __future__ import annotations

import os

from ..module_utils.core.failure import Failure, bad_value
from ..module_utils.core.times import utc
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.store import run_folder

RUN_MODULE = "storlab.testbed.network_ceiling_run"


ARGUMENTS = {
    "state": {"type": "str", "choices": ["listening", "measured"], "required": True},
    **{key: {"type": "str", "required": True} for key in ("testbed_id", "run_id", "host", "target", "address")},
    "results_dir": {"type": "path", "required": True},
    "token": {"type": "str", "required": True, "no_log": True},
    "listening": {"type": "dict"},
}


class ActionModule(CollectionAction):
    SPEC = ARGUMENTS

    def perform(self, params: dict) -> dict:
        run_dir = os.path.join(self._loader.path_dwim(params["results_dir"]), params["testbed_id"], params["run_id"])
        link = {key: params[key] for key in ("host", "target", "address")}
        known = run_folder.network_known(run_dir, **link)
        if self._task.check_mode or (known and "note" not in known):
            return {"changed": False, **({"network": known} if known else {})}
        if params["state"] == "listening":
            done = self._on_host(params, state="listening")
            return (
                {"changed": False, "note": done["msg"]}
                if done.get("failed")
                else {"changed": False, "port": done["port"]}
            )
        listening = params["listening"]
        if not listening:
            raise bad_value("listening", listening, "Give what the task with state=listening returned.")
        if listening.get("port"):
            done = self._on_host(params, state="measured", port=listening["port"])
            if done.get("failed"):
                raise Failure.of_result(done)
            figures = done["measured"]
        else:
            figures = {
                "started_utc": utc(),
                "note": str(listening.get("note") or listening.get("msg") or "the target does not listen"),
            }
        line = {**link, **figures}
        run_folder.add_network(run_dir, line)
        return {"changed": True, "network": line}

    def _on_host(self, params: dict, **more) -> dict:
        return self._execute_module(
            module_name=RUN_MODULE,
            module_args={"address": params["address"], "token": params["token"], **more},
            task_vars=self.task_vars,
        )
