# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says whether the results of a run follow from their raw files; documentation in plugins/modules/verify_results.py."""

from __future__ import annotations

import os
import time
from typing import ClassVar

from ..module_utils.core.failure import Failure
from ..module_utils.core.files import write_json
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.store import store, verify
from ..plugin_utils.store.load import find_run

# So many are listed in the failure; all of them are in the file.
SHOWN = 20


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {
        "run_dir": {"type": "path"},
        "results_dir": {"type": "path"},
        "testbed_id": {"type": "str"},
        "run_id": {"type": "str", "default": "latest"},
    }
    RULES: ClassVar[dict] = {
        "mutually_exclusive": [("run_dir", "results_dir"), ("run_dir", "testbed_id")],
        "required_one_of": [("run_dir", "results_dir")],
        "required_together": [("results_dir", "testbed_id")],
    }
    UNWRITABLE = ("verdict_unwritable", "The verdict")

    def perform(self, args: dict) -> dict:
        run_dir = os.path.abspath(args["run_dir"] or find_run(args["results_dir"], args["testbed_id"], args["run_id"]))
        store.points_of(run_dir)
        verdict = verify.verify(run_dir)
        answer = {
            "run_dir": run_dir,
            **{key: verdict[key] for key in ("verdict", "ledger", "points")},
            **{key: verdict[key][:SHOWN] for key in ("findings", "unproven")},
            "summary": verify.sentence(verdict),
            "file": os.path.join(run_dir, verify.FILE),
        }
        answer["changed"] = self._keep(run_dir, {"schema": verify.SCHEMA, "of": verify.state_of(run_dir), **verdict})
        if verdict["verdict"] != "differs":
            return answer
        first = verdict["findings"][0]
        where = first["file"] + (f", {first['field']}" if "field" in first else "")
        failure = Failure(
            "results_differ",
            f"{answer['summary']} First {where}: {first['reason']}.",
            f"All of them are in {answer['file']}; restore the files from a copy, or measure these points again.",
            findings=len(verdict["findings"]),
        )
        return {**answer, "failed": True, **failure.as_result()}

    def _keep(self, run_dir: str, verdict: dict) -> bool:
        """Whether it is another verdict than the one that is there; the same one keeps its date."""
        before = verify.kept(run_dir) or {}
        if all(before.get(key) == value for key, value in verdict.items()):
            return False
        if not self._task.check_mode:
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            write_json(os.path.join(run_dir, verify.FILE), {**verdict, "checked_utc": now}, indent=1)
        return True
