# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: executed_tasks
type: aggregate
short_description: Writes down which tasks of which files were executed, for tests only
description:
  - Adds file and line of each task that a host executed, whether it went well or not, to the file that the environment variable E(EXECUTED_TASKS) names.
  - A task that every host skipped was not executed. One that includes others was, when it included them.
author:
  - The storlab.testbed developers
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "executed_tasks"

    def __init__(self):
        super().__init__()
        self.written = set()

    def _executed(self, task):
        place = task.get_path()
        if place in self.written or not os.environ.get("EXECUTED_TASKS"):
            return
        self.written.add(place)
        # One write a line: several playbooks may run at once.
        with open(os.environ["EXECUTED_TASKS"], "a", encoding="utf-8") as handle:
            handle.write(f"{place}\n")

    def v2_runner_on_ok(self, result):
        self._executed(result.task if hasattr(result, "task") else result._task)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self.v2_runner_on_ok(result)

    def v2_playbook_on_include(self, included_file):
        self._executed(included_file._task)
