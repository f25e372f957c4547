# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fails with what failed in the turns of a host; documentation in plugins/modules/benchmark_failures.py."""

from __future__ import annotations

from typing import ClassVar

from ..module_utils.core.failure import Failure
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.benchmark.outcome import of_turns


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {
        "failures": {"type": "list", "elements": "dict", "required": True},
        "points": {"type": "int", "required": True},
    }

    def perform(self, params: dict) -> dict:
        failures = [Failure.of_result({"failure": failure}) for failure in params["failures"]]
        if failures:
            raise of_turns(self.task_vars["inventory_hostname"], failures, params["points"])
        return {"changed": False}
