# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NTFS volumes on LUNs; documentation in plugins/modules/win_datastore.py."""

from __future__ import annotations

from ..module_utils.core.steps import shown
from ..plugin_utils.windows import ntfs, target
from ..plugin_utils.windows.action import WindowsAction, WindowsRecord


class ActionModule(WindowsAction):
    SPEC, AREA = ntfs.SPEC, ntfs.AREA

    def present(self, params: dict, state: dict) -> dict:
        wanted = ntfs.check(params)
        steps = ntfs.plan(state, wanted, self.memory.data)
        if not self._task.check_mode:
            self.remember(ntfs.remember(self.memory.data, state, wanted))
        self.apply(steps)
        return {**shown(steps), "layers": ntfs.layers_of(wanted)}

    def absent(self, params: dict, state: dict) -> dict:
        steps = ntfs.absent_plan(state, self.memory.data, params["discard_contents"], self.going(params))
        self.apply(steps)
        self.forget()
        return shown(steps)

    def going(self, params: dict) -> set:
        """In check mode, the files of the testbed's targets, which were not removed above."""
        host = self.task_vars["inventory_hostname"]
        record = WindowsRecord(params["state_dir"], target.AREA, params["testbed_id"], host).data
        return {path.lower() for path in record.get("files", [])} if self._task.check_mode else set()
