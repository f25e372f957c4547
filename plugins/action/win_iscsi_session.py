# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sessions of the Windows initiator; documentation in plugins/modules/win_iscsi_session.py."""

from __future__ import annotations

from ..module_utils.core.steps import shown
from ..plugin_utils.windows import session
from ..plugin_utils.windows.action import WindowsAction


class ActionModule(WindowsAction):
    SPEC, AREA = session.SPEC, "session"

    def present(self, params: dict, state: dict) -> dict:
        targets = session.check(params)
        steps = session.plan(
            state, params["initiator_name"], targets, self.memory.data, expect_loopback=not self._task.check_mode
        )
        if steps and steps[0]["op"] == "service" and not self._task.check_mode:
            # Only a running service reports portals and sessions, so the plan is made again.
            self.remember(session.remember(self.memory.data, state, [], []))
            self.apply(steps[:1])
            state = self.state()
            steps = steps[:1] + session.plan(state, params["initiator_name"], targets, self.memory.data)
        if steps or targets:
            self.remember(session.remember(self.memory.data, state, targets, steps))
        self.apply([step for step in steps if step["op"] != "service"], session.note_login)
        if any(step["op"] == "login" for step in steps) and not self._task.check_mode:
            self.remember(session.note_sessions(self.memory.data, state, self.state()))
        disks = (
            self.disks(targets, params["wait_s"])
            if targets and not self._task.check_mode
            else session.present_disks(state, targets, self.memory.data)
        )
        more = session.disk_steps(disks, targets)
        self.apply(more)
        return {**shown(steps + more), "layers": session.layers_of(targets, disks)}

    def disks(self, targets: list, wait_s: float) -> dict:
        """The disks of the LUNs, once Windows shows them all."""
        disks: dict = {}

        def complete() -> bool:
            disks.clear()
            disks.update(session.present_disks(self.state(), targets, self.memory.data))
            if session.missing(disks, targets):
                self.script("disk_rescan")
                return False
            return True

        if not self.wait_for(complete, wait_s):
            raise session.lun_missing(session.missing(disks, targets), disks)
        return disks

    def absent(self, params: dict, state: dict) -> dict:
        steps = session.absent_plan(state, self.memory.data, expect_free=not self._task.check_mode)
        self.apply(steps)
        if steps and steps[0]["will"] == "running" and not self._task.check_mode:
            state = self.state()
            later = session.absent_plan(state, self.memory.data)
            self.apply(later)
            steps += later
        self.leave(session.still_to_give_back(self.memory.data, state, steps))
        return shown(steps)
