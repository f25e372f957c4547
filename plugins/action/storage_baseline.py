# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps and verifies storage states; documentation in plugins/modules/storage_baseline.py."""

from __future__ import annotations

import json
import os

from ansible.plugins.action import ActionBase

from ..module_utils.failure import Failure, bad_value
from ..module_utils.storage_state import strays
from ..plugin_utils.windows_action import refuse_unmarked


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("ignore", "state", "state_dir", "storage_state", "testbed_id"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        try:
            result.update(self._apply(self._task.args, task_vars))
        except Failure as failure:
            result.update(failed=True, **failure.as_result())
        return result

    def _apply(self, args: dict, task_vars: dict) -> dict:
        state, host = args.get("state"), task_vars["inventory_hostname"]
        if state not in ("captured", "verified"):
            raise bad_value("state", state, "Use captured or verified.")
        if not args.get("state_dir"):
            raise bad_value("state_dir", args.get("state_dir"), "Name the folder that keeps the testbed's state.")
        if not args.get("storage_state"):
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
            raise Failure("no_baseline", f"No state of {host} before the build is kept in {args['state_dir']}.",
                          "Run build first: it captures the state before it changes anything.", host=host)
        found = strays(kept["state"], self._read(args, task_vars), args.get("ignore") or ())
        if found:
            raise Failure("not_clean", f"{host} is not as it was before the build: {'; '.join(found)}.",
                          "Run teardown again, and remove by hand what is not the testbed's.", host=host, strays=found)
        self._keep(path, {**kept, "verified": True})
        return {"changed": False, "path": path, "strays": found}

    def _read(self, args: dict, task_vars: dict) -> dict:
        if args.get("storage_state"):
            return args["storage_state"]
        answer = self._execute_module("storlab.testbed.storage_state", module_args={"testbed_id": args.get("testbed_id") or ""}, task_vars=task_vars)
        if answer.get("failed"):
            raise Failure("state_unreadable", f"The storage state could not be read: {answer.get('msg')}.",
                          "Repair the host's connection or Python and run again.")
        return answer["storage_state"]

    def _keep(self, path: str, content: dict) -> None:
        if self._task.check_mode:
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w", encoding="utf-8") as handle:
            json.dump(content, handle, indent=1, sort_keys=True)
        os.replace(path + ".new", path)
