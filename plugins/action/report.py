# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Renders the report of a stored run; documentation in plugins/modules/report.py."""

from __future__ import annotations

import os
import tempfile

from ansible.plugins.action import ActionBase

from ..module_utils.failure import Failure, bad_value
from ..module_utils.report import load, model, render


def plan(folder: str, desired: dict) -> list[dict]:
    """[{path, text}] of what differs from what is wanted; a text of None is a file to remove."""
    steps = []
    for name, text in desired.items():
        path = os.path.join(folder, name)
        if _read(path) != text:
            steps.append({"path": path, "text": text})
    return steps


def apply(folder: str, steps: list[dict]) -> None:
    for step in steps:
        if step["text"] is None:
            os.unlink(step["path"])
            continue
        os.makedirs(folder, exist_ok=True)
        # Replaced whole: somebody may have the old report open.
        handle, temporary = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(step["text"])
        os.chmod(temporary, 0o644)
        os.replace(temporary, step["path"])
    if os.path.isdir(folder) and not os.listdir(folder):
        os.rmdir(folder)


def _read(path: str) -> str | None:
    if not os.path.exists(path):
        return None
    # As bytes, so that no line ending is translated and a file of another encoding is merely different.
    with open(path, "rb") as handle:
        return handle.read().decode("utf-8", errors="surrogateescape")


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("results_dir", "testbed_id", "run_id", "run_dir", "title", "state"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        try:
            result.update(self._report(self._task.args))
        except Failure as failure:
            result.update(failed=True, **failure.as_result())
        except OSError as error:
            unwritable = Failure("report_unwritable", f"The report cannot be written: {error}.", "Give the controller's user the right to write there.",
                                 path=error.filename)
            result.update(failed=True, **unwritable.as_result())
        return result

    def _report(self, args: dict) -> dict:
        state = args.get("state") or "present"
        if state not in ("present", "absent"):
            raise bad_value("state", state, "Use present or absent.")
        run_dir = self._run_dir(args)
        folder = os.path.join(run_dir, "report")
        found = {"run_dir": run_dir, "report_dir": folder, "files": {name: os.path.join(folder, name) for name in render.FILES},
                 "index": os.path.join(folder, "index.html")}
        if state == "present":
            report = model.build(load.read_run(run_dir), args.get("title") or None)
            desired = render.render(report)
            found.update(testbed_id=report.testbed_id, run_id=report.run_id, verdict=report.verdict, summary=render.summary(report), table=render.table(report),
                         points=len(report.points), points_failed=len(report.failed), damaged=report.damaged, flags=report.flags)
        else:
            desired = dict.fromkeys(render.FILES)
        steps = plan(folder, desired)
        if self._task.diff:
            found["diff"] = [{"before_header": step["path"], "after_header": step["path"], "before": _read(step["path"]) or "", "after": step["text"] or ""}
                             for step in steps if step["path"].endswith(".md")]
        if not self._task.check_mode:
            apply(folder, steps)
        return {"changed": bool(steps), "written" if state == "present" else "removed": [step["path"] for step in steps], **found}

    def _run_dir(self, args: dict) -> str:
        run_dir, results_dir, testbed_id = (args.get(name) or None for name in ("run_dir", "results_dir", "testbed_id"))
        if run_dir and (results_dir or testbed_id):
            raise bad_value("run_dir", run_dir, "Give either run_dir, or results_dir and testbed_id.")
        if run_dir:
            return os.path.abspath(os.path.expanduser(str(run_dir)))
        if not (results_dir and testbed_id):
            raise bad_value("run_dir", run_dir, "Give run_dir, or results_dir and testbed_id.")
        return os.path.abspath(load.find_run(os.path.expanduser(str(results_dir)), str(testbed_id), str(args.get("run_id") or "latest")))
