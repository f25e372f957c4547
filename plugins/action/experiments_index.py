# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the page of several experiments; documentation in plugins/modules/experiments_index.py."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import ClassVar
from urllib.parse import quote

from ..module_utils.core.failure import Failure
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.report import experiments, model
from ..plugin_utils.report.pages import apply, plan, text_of
from ..plugin_utils.store import database, load

FOLDER = "experiments"


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {
        "results_dir": {"type": "path", "required": True},
        "experiments": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {
                "name": {"type": "str", "required": True},
                "title": {"type": "str", "required": True},
                "run_id": {"type": "str", "required": True},
                "rc": {"type": "int", "required": True},
                "attempts": {"type": "int", "default": 1},
                "started_utc": {"type": "str", "required": True},
                "finished_utc": {"type": "str", "required": True},
                "words": {"type": "dict", "default": {}},
                "published": {"type": "list", "elements": "dict", "default": [], "options": database.PUBLISHED},
                "log": {"type": "path", "required": True},
            },
        },
    }
    UNWRITABLE = ("report_unwritable", "The page of the experiments")

    def perform(self, args: dict) -> dict:
        folder = os.path.join(os.path.abspath(args["results_dir"]), FOLDER)
        outcomes = {
            experiment["name"]: outcome
            for experiment in args["experiments"]
            if (outcome := _outcome(args["results_dir"], folder, experiment))
        }
        ran = [
            {**experiment, "log": text_of(experiment["log"]), "log_href": _href(experiment["log"], folder)}
            for experiment in args["experiments"]
        ]
        index = experiments.build(ran, outcomes)
        steps = plan(folder, experiments.files(index, outcomes))
        if not self._task.check_mode:
            apply(folder, steps)
        return {
            "changed": bool(steps),
            "index": os.path.join(folder, "index.html"),
            "summary": experiments.summary(index),
            "failed_experiments": [row["name"] for row in index["experiments"] if row["failed"]],
        }


def _outcome(results_dir: str, folder: str, experiment: dict) -> experiments.Outcome | None:
    """The files that the run of an experiment has left. Its testbed has its name, or says that it is scaled down."""
    for testbed_id in (experiment["name"], f"{experiment['name']}-scaled-down"):
        with contextlib.suppress(Failure):
            run_dir = load.find_run(results_dir, testbed_id, experiment["run_id"])
            report = model.build(load.read_run(run_dir))
            page = os.path.join(run_dir, "report", "index.html")
            # Points measured before an experiment failed may have no report.
            href = _href(page, folder) if os.path.exists(page) else ""
            return experiments.Outcome(report, href, testbed_id, tuple(_comparisons(run_dir, folder)))
    return None


def _comparisons(run_dir: str, folder: str) -> Iterator[dict[str, str]]:
    """{headline, href} of what was compared within this run: layers or variants, not other runs."""
    compared_in = os.path.join(os.path.dirname(run_dir), "compare")
    for name in sorted(os.listdir(compared_in)) if os.path.isdir(compared_in) else ():
        page = os.path.join(compared_in, name, "index.html")
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            with open(os.path.join(compared_in, name, "comparison.json"), encoding="utf-8") as handle:
                compared = json.load(handle)
            candidates = [side["candidate"] for side in compared.get("sides", [compared])]
            runs = {side["run_id"] for side in (compared["baseline"], *candidates)}
            if runs == {os.path.basename(run_dir)} and os.path.isfile(page):
                yield {"headline": str(compared["headline"]), "href": _href(page, folder)}


def _href(path: str, folder: str) -> str:
    return quote(os.path.relpath(path, folder))
