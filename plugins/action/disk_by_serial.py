# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disk with a serial; documentation in plugins/modules/disk_by_serial.py, which does the work on hosts with Python."""

from __future__ import annotations

from ansible.plugins.action import ActionBase

from ..module_utils.core.steps import shown
from ..module_utils.linux.disks.disk_serial import SPEC, missing, pick
from ..plugin_utils.windows.action import WindowsAction
from ..plugin_utils.windows.host import drive_path, plain_serial, ready_steps, refuse_disk


def find(state: dict, serial: str, size_bytes: int) -> dict | None:
    disks = {drive_path(disk["number"]): disk for disk in state["disks"]}
    known = [(path, plain_serial(disk["serial"]), disk["size_bytes"]) for path, disk in disks.items()]
    return disks.get(pick(known, plain_serial(serial), size_bytes))


class ActionModule(WindowsAction):
    SPEC = SPEC

    def run(self, tmp=None, task_vars=None):
        task_vars = task_vars or {}
        if not getattr(self._connection._shell, "_IS_WINDOWS", False):
            return {**ActionBase.run(self, tmp, task_vars), **self._execute_module(task_vars=task_vars)}
        # The host that failures name is the one with the disk.
        return super().run(
            tmp, {**task_vars, "inventory_hostname": self._task.delegate_to or task_vars["inventory_hostname"]}
        )

    def present(self, params: dict, state: dict) -> dict:
        wanted = (params["serial"], params["size_bytes"])
        disk = find(state, *wanted) or self.wait_for(lambda: find(self._rescanned(), *wanted), params["timeout_s"])
        if not disk:
            raise missing(params["serial"])
        refuse_disk(disk, f"The disk with the serial {params['serial']}", proven=True)
        steps = ready_steps(disk)
        self.apply(steps)
        return {**shown(steps), "path": drive_path(disk["number"]), "unique_id": disk["unique_id"]}

    def _rescanned(self) -> dict:
        """Windows may notice an attached disk late; asking it to look changes nothing of the host's."""
        if not self._task.check_mode:
            self.script("disk_rescan")
        return self.state()
