# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RAM disks of Windows hosts; documentation in plugins/modules/win_ramdisk.py."""

from __future__ import annotations

from ..module_utils.core.failure import Failure
from ..module_utils.core.steps import shown
from ..plugin_utils.windows import aim, ntfs, ramdisk
from ..plugin_utils.windows.action import WindowsAction, WindowsRecord

# How long Windows may take to show a new drive.
APPEARS_S = 30.0


class ActionModule(WindowsAction):
    SPEC, AREA = ramdisk.SPEC, "ramdisk"

    def present(self, params: dict, state: dict) -> dict:
        disks, provider = ramdisk.check(params), params["provider"]
        if provider == "aim":
            return self.present_aim(params, disks, state)
        if ramdisk.needs_target_server(state, provider) and not self._task.check_mode:
            raise Failure(
                "service_stopped",
                "The iSCSI target service of this host does not run.",
                "Run storlab.testbed.win_target_server first.",
            )
        steps = ramdisk.plan(state, provider, disks, self.memory.data, params["testbed_id"], self.carrying(params))
        self.remember(ramdisk.remember(self.memory.data, state, provider, disks))
        self.apply(steps)
        return {
            **shown(steps),
            "layers": ramdisk.layers_of(state, provider, disks, params["testbed_id"]),
            "reboot_required": False,
        }

    def absent(self, params: dict, state: dict) -> dict:
        # In check mode nothing was taken away above.
        carrying = self.carrying(params) if self._task.check_mode else frozenset()
        free, left = not self._task.check_mode, {}
        steps = ramdisk.absent_plan(state, self.memory.data, params["testbed_id"], free, carrying)
        if aim.may_be_there(self.memory.data, state):
            listed = self.listed(params)
            steps += aim.with_program(aim.absent_plan(state, listed, self.memory.data, carrying), params["aim_program"])
            left = aim.left(self.memory.data, listed, steps)
        self.apply([step for step in steps if step["op"] != "driver"])
        reboot = self.driver([step for step in steps if step["op"] == "driver"])
        self.leave(left)
        return {**shown(steps), "reboot_required": reboot}

    def carrying(self, params: dict) -> frozenset:
        """Unique ids of the disks that carry datastores of this testbed, by the record of these."""
        host = self.task_vars["inventory_hostname"]
        record = WindowsRecord(params["state_dir"], ntfs.AREA, params["testbed_id"], host).data
        return frozenset(record.get("disks", {}).values())

    # ---- Arsenal Image Mounter

    def present_aim(self, params: dict, disks: list, state: dict) -> dict:
        program, listed = params["aim_program"], self.listed(params)
        steps = aim.with_program(aim.driver_steps(listed, params["aim_driver_folder"]), program)
        if steps and not self._task.check_mode:
            if self.driver(steps):
                return {**shown(steps), "layers": [], "reboot_required": True}
            listed = self.listed(params)
        carrying = self.carrying(params)
        made = aim.with_program(aim.plan(state, listed, disks, self.memory.data, carrying), program)
        record = aim.remember(self.memory.data, state, listed, made)
        self.remember(record)
        self.apply(made)
        fresh = tuple(step["name"] for step in made if step["op"] == "make_disk")
        if made and not self._task.check_mode:
            state, there = self.there(params, record, disks, fresh)
        else:
            there = aim.present_disks(record, state, listed)
        there = {disk["name"]: there.get(disk["name"]) or aim.new_disk(disk["size_bytes"]) for disk in disks}
        record = aim.identified(record, there)
        self.remember(record)
        more = aim.dressing(there, record, state, fresh, carrying)
        self.apply(more)
        self.remember(aim.identified(record, there, ready=True))
        return {**shown(steps + made + more), "layers": aim.layers_of(disks, there, record), "reboot_required": False}

    def listed(self, params: dict) -> dict:
        return aim.listing(self.script("aim_list", {"Program": params["aim_program"]}), params["aim_program"])

    def script(self, name: str, parameters: dict | None = None, secret: tuple | None = None) -> dict:
        answer = super().script(name, parameters, secret)
        if name == "aim_run":
            aim.check_answer(parameters["Arguments"], answer)
        return answer

    def driver(self, steps: list) -> bool:
        """Install or remove the driver; whether the host must restart for it. One that was refused is not this testbed's."""
        before = self.memory.data
        if self._task.check_mode or not steps:
            return False
        self.remember({**before, "driver": True})
        try:
            return self.script("aim_run", steps[0]["parameters"])["exit_code"] == aim.RESTART
        except Failure:
            self.remember(before)
            raise

    def there(self, params: dict, record: dict, disks: list, fresh: tuple) -> tuple:
        """The state of the host and the disks of the devices, once Windows shows them all."""
        seen: dict = {}

        def complete() -> bool:
            seen["state"] = self.state()
            seen["disks"] = aim.present_disks(record, seen["state"], self.listed(params), fresh)
            if len(seen["disks"]) == len(disks):
                return True
            self.script("disk_rescan")
            return False

        if not self.wait_for(complete, APPEARS_S):
            missing = sorted({disk["name"] for disk in disks} - set(seen["disks"]))
            raise Failure(
                "device_missing",
                f"RAM disk {missing[0]} was made, and Windows shows no drive for it.",
                "Look at the host's event log.",
                missing=missing,
            )
        return seen["state"], seen["disks"]
