# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes and gives back the lock of a testbed; documentation in plugins/modules/testbed_lock.py."""

from __future__ import annotations

import os
from typing import ClassVar

from ..module_utils.core.failure import Failure
from ..module_utils.linux import testbed_lock as lock
from ..plugin_utils.action import CollectionAction


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {
        "state": {"type": "str", "choices": ["held", "released"], "default": "held"},
        "where": {"type": "str", "choices": ["controller", "host"], "default": "controller"},
        "testbed_id": {"type": "str", "required": True},
        "state_dir": {"type": "path"},
        "purpose": {"type": "str", "required": True},
        "take_over": {"type": "str", "default": ""},
    }
    RULES: ClassVar[dict] = {"required_if": [("where", "controller", ["state_dir"])]}
    UNWRITABLE = ("lock_unwritable", "The lock of the testbed")

    def perform(self, params: dict) -> dict:
        # Who only looks needs no lock, and shows what is there even while somebody changes it.
        if self._task.check_mode:
            return {"changed": False}
        # The process of the playbook: tasks have one each, which ends with them.
        pid = os.getppid()
        mine = lock.holder(pid, params["purpose"])
        if params["state"] == "released":
            self._release(params, mine)
            return {"changed": False}
        other = self._take(params, mine, None)
        if other and self._may_replace(other, params["take_over"]):
            other = self._take(params, mine, other)
        if other and lock.standing(other) != lock.MINE:
            where = "the controller" if params["where"] == "controller" else self.task_vars["inventory_hostname"]
            raise lock.busy(params["testbed_id"], where, other)
        return {"changed": False, "holder": other or mine}

    @staticmethod
    def _may_replace(other: dict, take_over: str) -> bool:
        standing = lock.standing(other)
        return standing == lock.GONE or (standing == lock.UNSEEN and take_over == lock.name(other))

    def _take(self, params: dict, mine: dict, instead_of: dict | None) -> dict | None:
        if params["where"] == "controller":
            os.makedirs(params["state_dir"], exist_ok=True)
            return lock.take(self._path(params), mine, instead_of)
        return self._on_host({"holder": mine, "instead_of": instead_of}, params).get("holder")

    def _release(self, params: dict, mine: dict) -> None:
        if params["where"] == "controller":
            lock.release(self._path(params), mine)
        else:
            self._on_host({"state": "released", "holder": mine}, params)

    def _path(self, params: dict) -> str:
        return os.path.join(params["state_dir"], "lock")

    def _on_host(self, arguments: dict, params: dict) -> dict:
        answer = self._execute_module(
            "storlab.testbed.testbed_lock_file",
            module_args={**arguments, "testbed_id": params["testbed_id"]},
            task_vars=self.task_vars,
        )
        if answer.get("failed"):
            raise Failure.of_result(answer)
        return answer
