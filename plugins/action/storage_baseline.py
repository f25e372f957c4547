# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps and verifies storage states; documentation in plugins/modules/storage_baseline.py."""

from __future__ import annotations

import os
import re
from typing import ClassVar

from ..module_utils.core.failure import Failure, bad_value
from ..module_utils.core.files import read_json, write_json
from ..module_utils.linux.watch import leftovers
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.windows.action import refuse_unmarked


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {
        "state": {"type": "str", "choices": ["captured", "verified"], "required": True},
        "testbed_id": {"type": "str", "default": ""},
        "state_dir": {"type": "path", "required": True},
        "storage_state": {"type": "dict"},
        "ours": {"type": "dict", "default": {}},
        "kept_for_others": {"type": "dict", "default": {}},
        "own_names": {"type": "list", "elements": "str", "default": []},
        "ignore": {"type": "list", "elements": "str", "default": []},
    }

    def perform(self, params: dict) -> dict:
        host = self.task_vars["inventory_hostname"]
        if not params["state_dir"]:
            raise bad_value("state_dir", params["state_dir"], "Name the folder that keeps the testbed's state.")
        if not params["storage_state"]:
            refuse_unmarked(self._connection, host)
        path = os.path.join(params["state_dir"], "before", f"{host}.json")
        made_path = os.path.join(params["state_dir"], "made", f"{host}.json")
        kept, made = _read_back(path, "state", "verified"), _read_back(made_path, "areas") or {}
        if params["state"] == "captured":
            # A proof that failed has been reported. The next build starts from the present state, and what is left of the testbed stays a stray.
            if kept is None or kept["verified"] or kept.get("failed"):
                now = self._read(params, made)
                state = leftovers.as_before(leftovers.without(now["lines"], now["ours"]), params["kept_for_others"])
                self._keep(path, {"host": host, "verified": False, "state": state, "boot_id": now["boot_id"]})
            return {"changed": False, "path": path}
        now = self._read(params, made)
        if kept is None:
            raise _without_baseline(params, host, now)
        answer = self._verified(params, host, path, kept, made, now)
        if os.path.exists(made_path) and not self._task.check_mode:
            os.unlink(made_path)
        return answer

    def _verified(self, params: dict, host: str, path: str, kept: dict, made: dict, now: dict) -> dict:
        restarted = kept.get("boot_id", now["boot_id"]) != now["boot_id"]
        # States that another module has read come from hosts without records.
        names = None if params["storage_state"] else made
        verdict = leftovers.judge(
            kept["state"], now["lines"], now["ours"], names, restarted, params["ignore"], params["kept_for_others"]
        )
        if verdict.strays:
            self._keep(path, {**kept, "failed": True})
            raise Failure(
                "not_clean",
                f"{host} is not as it was before the build: {'; '.join(verdict.strays)}.",
                "Run teardown again, remove by hand what it leaves of the testbed, and restore what is missing. The next build starts from that state.",
                host=host,
                **verdict._asdict(),
            )
        self._keep(path, {**kept, "verified": True, "failed": False})
        return {"changed": False, "path": path, **verdict._asdict()}

    def _read(self, params: dict, made: dict) -> dict:
        """{lines, ours, boot_id} of the host now; ours has the sections only in which the platform says whose things are."""
        if params["storage_state"]:
            return {"lines": params["storage_state"], "ours": params["ours"], "boot_id": ""}
        answer = self._execute_module(
            "storlab.testbed.storage_state",
            module_args={"testbed_id": params["testbed_id"], "own_names": params["own_names"], "made": made},
            task_vars=self.task_vars,
        )
        if answer.get("failed"):
            raise Failure(
                "state_unreadable",
                f"The storage state could not be read: {answer.get('msg')}.",
                "Repair the host's connection or Python and run again.",
            )
        return {"lines": answer["storage_state"], "ours": answer["ours"], "boot_id": answer["boot_id"]}

    def _keep(self, path: str, content: dict) -> None:
        if self._task.check_mode:
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_json(path, content, indent=1)


def _read_back(path: str, *keys: str) -> dict | None:
    """The state of the host that this or another task has kept."""
    remedy = "Restore it from a copy, or remove it: the next build records it again."
    kept = read_json(path, remedy)
    whole = isinstance(kept, dict) and all(key in kept for key in keys) and isinstance(kept.get("state", {}), dict)
    if kept is not None and not whole:
        raise Failure("record_damaged", f"{path} does not contain the record of a host.", remedy, path=path)
    return kept


def _without_baseline(params: dict, host: str, now: dict) -> Failure:
    """Nothing can be compared, so what carries the name of the testbed is listed."""
    testbed_id = params["testbed_id"]
    name = re.compile(rf"storlab[:-]{re.escape(testbed_id)}(?![A-Za-z0-9_.])") if testbed_id else None
    named = [
        f"{section.replace('_', ' ')}: {line}"
        for section, lines in sorted(now["lines"].items())
        for line in lines
        if line in now["ours"].get(section, ()) or (name and name.search(line))
    ]
    what = f"No state of {host} before the build is kept in {params['state_dir']}, so there is nothing to compare with."
    if not named:
        return Failure(
            "no_baseline",
            f"{what} Nothing on {host} carries the name of the testbed.",
            "If it was built with another testbed_state_dir, verify it with that one; a host that was never built on needs no proof.",
            host=host,
            named=[],
        )
    return Failure(
        "no_baseline",
        f"{what} The name of the testbed is on: {'; '.join(named)}.",
        "Run teardown with the testbed_state_dir that it was built with; if that folder is lost, remove these by hand, those on top of others first.",
        host=host,
        named=named,
    )
