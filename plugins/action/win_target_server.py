# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role iSCSI Target Server of Windows Server; documentation in plugins/modules/win_target_server.py."""

from __future__ import annotations

from ..module_utils.core.steps import shown
from ..plugin_utils.windows import server
from ..plugin_utils.windows.action import WindowsAction


class ActionModule(WindowsAction):
    SPEC, AREA = server.SPEC, "server"

    def present(self, params: dict, state: dict) -> dict:
        networks = server.check(params)
        result = self.made(self.planned(params, networks, state))
        if params["loopback"] and result["changed"] and not result["reboot_required"] and not self._task.check_mode:
            # A service that has just come with the role has started before the switch was set.
            later = self.made(self.planned(params, networks, self.state()))
            result = {**shown(result["steps"] + later["steps"]), "reboot_required": later["reboot_required"]}
        return result

    def planned(self, params: dict, networks: list | None, state: dict) -> list:
        calls = server.plan(
            state, networks, params["ports"], params["testbed_id"], params["loopback"], self.memory.data
        )
        self.remember(server.remember(self.memory.data, state, calls))
        return calls

    def absent(self, params: dict, state: dict) -> dict:
        calls = server.absent_plan(state, self.memory.data, params["testbed_id"])
        result, restart = self.made(calls), server.half_installed(state, self.memory.data)
        self.leave(server.still_to_give_back(self.memory.data, state, calls))
        if restart:
            result = {**shown(result["steps"] + restart), "reboot_required": True}
        return {**result, "unfinished": bool(restart)}

    def made(self, calls: list) -> dict:
        done = self.call(calls)
        self.remember(server.noted(self.memory.data, done))
        return {
            **shown(self.changes(done)),
            "reboot_required": any(call["answer"].get("reboot_required") for call in done),
        }
