# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role iSCSI Target Server of Windows Server; documentation in plugins/modules/win_target_server.py."""

from __future__ import annotations

from ..module_utils.windows import server, told
from ..plugin_utils.windows_action import WindowsAction


class ActionModule(WindowsAction):
    SPEC, AREA = server.SPEC, "server"
    _VALID_ARGS = frozenset(("networks", "ports", "state", "state_dir", "testbed_id"))

    def present(self, params: dict, state: dict) -> dict:
        calls = server.plan(state, server.check(params), params["ports"], params["testbed_id"])
        self.remember(server.remember(self.memory.data, state, calls))
        return self.made(calls)

    def absent(self, params: dict, state: dict) -> dict:
        calls = server.absent_plan(state, self.memory.data, params["testbed_id"])
        result = self.made(calls)
        # While others use the role, what it was before is still to be given back.
        if any(call["op"] in ("feature", "service") for call in calls) or not self.memory.data:
            self.forget()
        return result

    def made(self, calls: list) -> dict:
        done = self.call(calls)
        return {**told(self.changes(done)), "reboot_required": any(one["answer"].get("reboot_required") for one in done)}
