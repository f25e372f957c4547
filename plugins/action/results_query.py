# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters and summarises stored points; documentation in plugins/modules/results_query.py."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from ..module_utils.core.failure import bad_value
from ..module_utils.workload import words
from ..module_utils.workload.workload import parse_size
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.report import groups
from ..plugin_utils.store import query
from ..plugin_utils.store.load import find_runs

WORDS = {"type": "list", "elements": "str"}
NUMBERS = {"type": "list", "elements": "int"}
ARGUMENTS = {
    "run_dir": {"type": "path"},
    "results_dir": {"type": "path"},
    "testbed_id": {"type": "str"},
    "run_ids": {**WORDS, "default": []},
    "where": {
        "type": "dict",
        "default": {},
        "options": {
            "layer": WORDS,
            "layer_kind": WORDS,
            "host": WORDS,
            "workload": WORDS,
            "variant": WORDS,
            "profile": WORDS,
            "status": {**WORDS, "choices": ["measured", "failed"]},
            **{word.name: NUMBERS if word.kind == "integer" else WORDS for word in words.WORDS if word.indexed},
            "started_from": {"type": "str"},
            "started_before": {"type": "str"},
            "flagged": {"type": "bool"},
            "flags": WORDS,
        },
    },
    "by": {**WORDS, "choices": list(query.GROUPS), "default": ["layer", "workload_id"]},
    "limit": {"type": "int", "default": 0},
}


class ActionModule(CollectionAction):
    SPEC = ARGUMENTS
    RULES: ClassVar[dict] = {
        "mutually_exclusive": [("run_dir", "results_dir"), ("run_dir", "testbed_id"), ("run_dir", "run_ids")],
        "required_one_of": [("run_dir", "results_dir")],
        "required_by": {"testbed_id": ("results_dir",)},
    }

    def perform(self, args: dict) -> dict:
        where, by = _conditions(args["where"]), list(dict.fromkeys(args["by"]))
        if args["limit"] < 0:
            raise bad_value("limit", args["limit"], "Say how many points to list, 0 for none.")
        if args["run_ids"] and args["testbed_id"] is None:
            raise bad_value("run_ids", args["run_ids"], "Name their testbed with testbed_id.")
        folders = (
            [self._path(args["run_dir"])]
            if args["run_dir"]
            else find_runs(self._path(args["results_dir"]), args["testbed_id"], args["run_ids"])
        )
        answer = {"changed": False, **query.query(folders, where, by, args["limit"])}
        answer["table"] = groups.table(answer["groups"], by)
        warnings = [] if answer["matched"] else query.unmet(folders, where)
        if answer["damaged"]:
            first = answer["damaged"][0]
            warnings.append(
                f"{len(answer['damaged'])} results could not be read and count for nothing, first {first['run_dir']}/{first['file']}: {first['reason']}."
            )
        return {**answer, **({"warnings": warnings} if warnings else {})}

    def _path(self, path: str) -> str:
        return os.path.abspath(self._loader.path_dwim(os.path.expanduser(path)))


def _conditions(where: dict[str, Any]) -> dict[str, Any]:
    """The filters as query.py takes them."""
    conditions = {name: value for name, value in where.items() if value is not None}
    if "block_size" in conditions:
        conditions["block_size"] = [_bytes(size) for size in conditions["block_size"]]
    for name in query.TIMES:
        if name in conditions:
            try:
                conditions[name] = query.moment_s(conditions[name])
            except ValueError as error:
                raise bad_value(
                    f"where.{name}",
                    conditions[name],
                    "Write a day, 2026-11-21, or a time in UTC, 2026-11-21T16:33:10Z.",
                ) from error
    return conditions


def _bytes(size: str) -> int:
    return parse_size(int(size) if size.isdecimal() else size, "where.block_size")
