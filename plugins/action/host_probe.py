# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Holds the host's clock against the controller's around the module host_probe, which looks at all the rest."""

from __future__ import annotations

import time

from ansible.plugins.action import ActionBase


def ahead_s(before: float, after: float, there: float) -> float:
    """How far a clock that showed ``there`` between the controller's times before and after is certainly off; 0 when it may be right."""
    if there < before:
        return there - before
    return max(0.0, there - after)


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        before = time.time()
        result.update(
            self._execute_module(
                module_name="storlab.testbed.host_probe", module_args=dict(self._task.args), task_vars=task_vars
            )
        )
        if "probe" in result:
            result["probe"]["clock_ahead_s"] = round(ahead_s(before, time.time(), result["probe"]["utc_s"]), 3)
        return result
