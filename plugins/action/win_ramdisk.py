# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RAM disks of Windows hosts; documentation in plugins/modules/win_ramdisk.py."""

from __future__ import annotations

from ..module_utils.failure import Failure
from ..module_utils.windows import ramdisk, told
from ..plugin_utils.windows_action import WindowsAction


class ActionModule(WindowsAction):
    SPEC, AREA = ramdisk.SPEC, "ramdisk"
    _VALID_ARGS = frozenset(("disks", "provider", "state", "state_dir", "testbed_id"))

    def present(self, params: dict, state: dict) -> dict:
        disks, provider = ramdisk.check(params), params["provider"]
        if ramdisk.needs_target_server(state, provider) and not self._task.check_mode:
            raise Failure("service_stopped", "The iSCSI target service of this host does not run.", "Run storlab.testbed.win_target_server first.")
        steps = ramdisk.plan(state, provider, disks, self.memory.data, params["testbed_id"])
        self.remember(ramdisk.remember(self.memory.data, state, provider, disks))
        self.apply(steps)
        return {**told(steps), "layers": ramdisk.layers_of(state, provider, disks, params["testbed_id"])}

    def absent(self, params: dict, state: dict) -> dict:
        steps = ramdisk.absent_plan(state, self.memory.data, params["testbed_id"])
        self.apply(steps)
        self.forget()
        return told(steps)
