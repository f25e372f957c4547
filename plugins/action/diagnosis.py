# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says of a stored run whether it was the storage, the network or the machine; documentation in plugins/modules/diagnosis.py."""

from __future__ import annotations

import os
from typing import ClassVar

from ..plugin_utils.action import CollectionAction
from ..plugin_utils.report import diagnosis
from ..plugin_utils.report.pages import apply, plan
from ..plugin_utils.store import load


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {
        "results_dir": {"type": "path", "required": True},
        "testbed_id": {"type": "str", "required": True},
        "run_id": {"type": "str", "default": "latest"},
        "ways": {"type": "dict", "default": {}},
    }
    UNWRITABLE = ("report_unwritable", "The diagnosis")

    def perform(self, args: dict) -> dict:
        run_dir = os.path.abspath(load.find_run(args["results_dir"], args["testbed_id"], args["run_id"]))
        run = load.read_run(run_dir)
        answers = diagnosis.of_run(run.layers, run.results, args["ways"], run.networks)
        folder = os.path.join(run_dir, "report")
        steps = plan(
            folder,
            {
                "diagnosis.md": diagnosis.page(run.testbed_id, run.run_id, answers),
                "diagnosis.json": diagnosis.as_json(answers),
            },
        )
        if not self._task.check_mode:
            apply(folder, steps, None)
        return {
            "changed": bool(steps),
            "run_dir": run_dir,
            "answers": answers,
            "lines": diagnosis.lines(answers),
            "page": os.path.join(folder, "diagnosis.md"),
        }
