# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes stored results for other tools; documentation in plugins/modules/results_export.py."""

from __future__ import annotations

import hashlib
import os
from typing import ClassVar

from ..module_utils.core.failure import bad_value
from ..module_utils.core.files import write_whole
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.store import export, store
from ..plugin_utils.store.load import find_run

ARGUMENTS = {
    "run_dir": {"type": "path"},
    "results_dir": {"type": "path"},
    "testbed_id": {"type": "str"},
    "run_id": {"type": "str", "default": "latest"},
    "format": {"type": "str", "required": True, "choices": sorted(export.WRITERS)},
    "dest": {"type": "str", "required": True},
    "full": {"type": "bool", "default": False},
}


class ActionModule(CollectionAction):
    SPEC = ARGUMENTS
    RULES: ClassVar[dict] = {
        "mutually_exclusive": [("run_dir", "results_dir"), ("run_dir", "testbed_id")],
        "required_one_of": [("run_dir", "results_dir")],
        "required_together": [("results_dir", "testbed_id")],
    }
    UNWRITABLE = ("export_unwritable", "The export")

    def perform(self, args: dict) -> dict:
        kind, dest = args["format"], self._path(args["dest"])
        if args["full"] and kind != "jsonl":
            raise bad_value("full", True, "Only the format jsonl has room for histograms.")
        if os.path.isdir(dest):
            raise bad_value("dest", args["dest"], "It is a folder; name a file in it.")
        run_dir = (
            self._path(args["run_dir"])
            if args["run_dir"]
            else find_run(self._path(args["results_dir"]), args["testbed_id"], args["run_id"])
        )
        opened = store.open_run(run_dir)
        # A point that never ran has no time, and one made up would put it anywhere.
        rows = opened.rows if kind != "influx" else opened.select(finished_utc=bool)
        after = export.WRITERS[kind]([opened.full(row["point_id"]) for row in rows] if args["full"] else rows)
        before = _read(dest)
        answer = {
            "changed": before != after,
            "dest": dest,
            "run_dir": opened.folder,
            "points": len(rows),
            "bytes": len(after),
            "sha256": hashlib.sha256(after).hexdigest(),
            "damaged": opened.damaged,
            "left_out": sorted({row["point_id"] for row in opened.rows} - {row["point_id"] for row in rows}),
        }
        if opened.damaged:
            answer["warnings"] = [
                f"{len(opened.damaged)} results could not be read and are not in {dest}, first {opened.damaged[0]['file']}: "
                f"{opened.damaged[0]['reason']}."
            ]
        if self._task.diff and before != after:
            answer["diff"] = {
                "before_header": dest,
                "after_header": dest,
                "before": _shown(before, kind),
                "after": _shown(after, kind),
            }
        if before != after and not self._task.check_mode:
            write_whole(dest, after)
        return answer

    def _path(self, path: str) -> str:
        return os.path.abspath(self._loader.path_dwim(os.path.expanduser(path)))


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except FileNotFoundError:
        return None


def _shown(content: bytes | None, kind: str) -> str:
    if content is None:
        return ""
    return (
        f"{len(content)} bytes of Parquet, SHA-256 {hashlib.sha256(content).hexdigest()}\n"
        if kind == "parquet"
        else content.decode("utf-8", "replace")
    )
