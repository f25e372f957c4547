# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets of Windows Server; documentation in plugins/modules/win_iscsi_target.py."""

from __future__ import annotations

from ..module_utils.core.failure import Failure
from ..module_utils.core.steps import shown
from ..module_utils.linux.exports import iscsi_target
from ..plugin_utils.windows import target, target_want
from ..plugin_utils.windows.action import WindowsAction
from ..plugin_utils.windows.host import serving


class ActionModule(WindowsAction):
    SPEC, AREA = target.SPEC, target.AREA

    def files(self, params: dict) -> list:
        files = [lun["vhdx"]["path"] for wanted in params["targets"] for lun in wanted["luns"] if lun["vhdx"]]
        return sorted(set(files) | set(self.memory.data.get("files", [])))

    def present(self, params: dict, state: dict) -> dict:
        targets = target_want.check(params)
        if not serving(state) and not self._task.check_mode:
            raise Failure(
                "service_stopped",
                "The iSCSI target service of this host does not run.",
                "Run storlab.testbed.win_target_server first.",
            )
        steps = target.plan(
            state,
            targets,
            self.memory.data,
            params["testbed_id"],
            params["allow_any_address"],
            expect_disks=not self._task.check_mode,
        )
        cut = target.cut_off(state, targets, self.memory.data)
        wanted = [{**mine, "name": mine["iqn"]} for mine in targets]
        iscsi_target.refuse_withdrawn(iscsi_target.withdrawn([], wanted, params["layers"], cut), params["uses"])
        self.remember(target.remember(self.memory.data, state, targets, steps))
        self.apply(steps, target.note_secret)
        return {**shown(steps), "layers": target.layers_of(targets, params["layers"])}

    def absent(self, params: dict, state: dict) -> dict:
        steps = target.absent_plan(state, self.memory.data, params["testbed_id"], expect_free=not self._task.check_mode)
        if not self._task.check_mode:
            left = iscsi_target.left_behind(target.exported_luns(state, steps), params["layers"], [])
            iscsi_target.refuse_withdrawn(left, params["uses"])
        self.apply(steps)
        if steps and steps[0]["op"] == "service" and not self._task.check_mode:
            state = self.state(self.files(params))
            later = target.absent_plan(state, self.memory.data, params["testbed_id"])
            self.apply(later)
            steps += later
        self.leave(target.still_to_give_back(self.memory.data, state, params["testbed_id"]))
        return shown(steps)
