# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes what ended runs have left on a host; documentation in plugins/modules/benchmark_collect.py."""

from __future__ import annotations

import os
from typing import ClassVar

from ..module_utils.core.failure import Failure
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.benchmark import theirs
from ..plugin_utils.benchmark.keep import keep_of_others
from ..plugin_utils.benchmark.linux_runner import LinuxRun
from ..plugin_utils.store import run_folder
from ..plugin_utils.windows.action import refuse_unmarked

RUN_MODULE = "storlab.testbed.benchmark_run"


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {
        "testbed_id": {"type": "str", "required": True},
        "results_dir": {"type": "path", "required": True},
    }

    def perform(self, params: dict) -> dict:
        self.host = self.task_vars["inventory_hostname"]
        refuse_unmarked(self._connection, self.host)
        stopped = self._module({"action": "stop"}, params)
        answer = {"changed": stopped["changed"], "taken": {}, "left": {}, "areas": stopped["areas"]}
        for run_id, number in sorted(stopped.get("uncollected", {}).items()):
            run_dir = os.path.join(self._loader.path_dwim(params["results_dir"]), params["testbed_id"], run_id)
            if not os.path.exists(os.path.join(run_dir, "run.json")):
                # The run is another controller's, or its results were removed: no one here knows the request.
                answer["left"][run_id] = number
            elif self._task.check_mode:
                answer.update(changed=True, taken={**answer["taken"], run_id: number})
            else:
                answer.update(changed=True, taken={**answer["taken"], run_id: self._take(run_id, run_dir, params)})
        return answer

    def _take(self, run_id: str, run_dir: str, params: dict) -> int:
        """How many points of the run are here now that were not."""
        run_folder.refuse_unfit(run_dir)
        request, names = {"engine": "fio", "testbed_id": params["testbed_id"], "run_id": run_id}, set()
        span = theirs.Span(self.host, theirs.first_seen_s(os.path.dirname(run_dir), run_id))

        def take(archive: bytes, plan_there: dict | None) -> None:
            names.update(keep_of_others(run_dir, self.host, request, archive, plan_there or {}, span))

        run = LinuxRun(
            self.host,
            run_dir,
            lambda arguments: self._module({**arguments, "run_id": run_id}, params),
            lambda: None,
            self.on_host,
            take,
            lambda _state: None,
            span,
        )
        run.take_left(self._module({"action": "status", "run_id": run_id}, params)["state_dir"])
        return len(names)

    def _module(self, module_args: dict, params: dict) -> dict:
        answer = self._execute_module(
            module_name=RUN_MODULE,
            module_args={**module_args, "testbed_id": params["testbed_id"]},
            task_vars=self.task_vars,
        )
        if answer.get("failed"):
            raise Failure.of_result(answer)
        return answer
