# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps and verifies storage states; documentation in plugins/modules/storage_baseline.py."""

from __future__ import annotations

import json
import os
from typing import ClassVar

from ..module_utils.core.failure import Failure, bad_value
from ..module_utils.core.files import write_json
from ..module_utils.linux.storage_state import strays
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.windows.action import refuse_unmarked


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {
        "state": {"type": "str", "choices": ["captured", "verified"], "required": True},
        "testbed_id": {"type": "str", "default": ""},
        "state_dir": {"type": "path", "required": True},
        "storage_state": {"type": "dict"},
        "own_names": {"type": "list", "elements": "str", "default": []},
        "ignore": {"type": "list", "elements": "str", "default": []},
    }

    def perform(self, params: dict) -> dict:
        return self._apply(params, self.task_vars)

    def _apply(self, args: dict, task_vars: dict) -> dict:
        state, host = args["state"], task_vars["inventory_hostname"]
        if not args["state_dir"]:
            raise bad_value("state_dir", args["state_dir"], "Name the folder that keeps the testbed's state.")
        if not args["storage_state"]:
            refuse_unmarked(self._connection, host)
        path = os.path.join(args["state_dir"], "before", f"{host}.json")
        kept = None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as handle:
                kept = json.load(handle)
        if state == "captured":
            if kept is None or kept["verified"]:
                self._keep(path, {"host": host, "verified": False, "state": self._read(args, task_vars)})
            return {"changed": False, "path": path}
        if kept is None:
            raise Failure(
                "no_baseline",
                f"No state of {host} before the build is kept in {args['state_dir']}.",
                "Run build first: it captures the state before it changes anything.",
                host=host,
            )
        differing = strays(kept["state"], self._read(args, task_vars), args["ignore"])
        if differing:
            raise Failure(
                "not_clean",
                f"{host} is not as it was before the build: {'; '.join(differing)}.",
                "Run teardown again, and remove by hand what is not the testbed's.",
                host=host,
                strays=differing,
            )
        self._keep(path, {**kept, "verified": True})
        return {"changed": False, "path": path, "strays": differing}

    def _read(self, args: dict, task_vars: dict) -> dict:
        if args["storage_state"]:
            return args["storage_state"]
        answer = self._execute_module(
            "storlab.testbed.storage_state",
            module_args={"testbed_id": args["testbed_id"], "own_names": args["own_names"]},
            task_vars=task_vars,
        )
        if answer.get("failed"):
            raise Failure(
                "state_unreadable",
                f"The storage state could not be read: {answer.get('msg')}.",
                "Repair the host's connection or Python and run again.",
            )
        return answer["storage_state"]

    def _keep(self, path: str, content: dict) -> None:
        if self._task.check_mode:
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_json(path, content, indent=1)
