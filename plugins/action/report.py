# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Renders the report of a stored run; documentation in plugins/modules/report.py."""

from __future__ import annotations

import os
from typing import ClassVar

from ..module_utils.core.failure import bad_value
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.report import index, junit, model, render, rows, scrub, static, terminal, verdicts
from ..plugin_utils.report.pages import apply, find_browser, plan, text_of
from ..plugin_utils.store import load
from ..plugin_utils.store.store import runs

FILES = (*render.FILES, "junit.xml")


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {
        "run_dir": {"type": "path"},
        "results_dir": {"type": "path"},
        "testbed_id": {"type": "str"},
        "run_id": {"type": "str", "default": "latest"},
        "title": {"type": "str"},
        "scrub": {"type": "bool", "default": False},
        "static": {"type": "list", "elements": "str", "choices": ["svg", "png"], "default": []},
        "targets": {"type": "list", "elements": "str", "default": []},
        "index": {"type": "bool", "default": True},
        "state": {"type": "str", "choices": ["present", "absent", "listed"], "default": "present"},
    }
    UNWRITABLE = ("report_unwritable", "The report")

    def arguments(self) -> dict:
        given = super().arguments()
        if isinstance(given.get("static"), str):
            given["static"] = [form.strip() for form in given["static"].split(",") if form.strip()]
        return given

    def perform(self, args: dict) -> dict:
        if args["state"] == "listed":
            return self._list(args)
        state, listed, formats = args["state"], args["index"], sorted(set(args["static"]))
        wanted_targets = verdicts.parsed(args["targets"])
        run_dir = self._run_dir(args)
        folder, testbed_dir = os.path.join(run_dir, "report"), os.path.dirname(run_dir)
        answer = {"run_dir": run_dir, "report_dir": folder, "index": os.path.join(folder, "index.html")}
        browser = find_browser() if state == "present" and "png" in formats else None
        if state == "present":
            run = load.read_run(run_dir)
            # Only where a run lies as benchmark stores it does the folder above belong to its testbed.
            listed = listed and (os.path.basename(testbed_dir), os.path.basename(run_dir)) == (
                run.testbed_id,
                run.run_id,
            )
            names = scrub.Pseudonyms([run]) if args["scrub"] else None
            title = args["title"] or None
            report = (
                names.unlinked(model.build(names.run(run), title and names.text(title)))
                if names
                else model.build(run, title)
            )
            if names:
                # A name of a layer has its pseudonym too.
                wanted_targets = verdicts.parsed([names.text(target.text) for target in wanted_targets])
            run.forget_bins()
            report.targets = verdicts.judge(report, wanted_targets)
            desired = {**render.files(report), "junit.xml": junit.junit(report)}
            desired.update(static.files(report, formats))
            answer.update(
                testbed_id=report.testbed_id,
                run_id=report.run_id,
                verdict=report.verdict,
                trust=report.trust,
                next_step=report.next_step,
                summary=rows.summary(report),
                table=terminal.table(report),
                points=len(report.points),
                points_failed=len(report.failed),
                damaged=report.damaged,
                targets=report.targets,
                flags=report.flags,
            )
        else:
            desired = dict.fromkeys(FILES)
            listed = listed and _listing(testbed_dir)
        wanted = [name for name, text in desired.items() if text is not None]
        desired.update(dict.fromkeys(name for name in _charts(folder) if name not in desired))
        answer["files"] = {name: os.path.join(folder, name) for name in wanted or FILES}
        steps = plan(folder, desired)
        if listed:
            steps += plan(testbed_dir, _index(testbed_dir, os.path.basename(run_dir), state == "present"))
            answer["runs"] = os.path.join(testbed_dir, "index.html")
        if self._task.diff:
            answer["diff"] = [
                {
                    "before_header": step["path"],
                    "after_header": step["path"],
                    "before": text_of(step["path"]),
                    "after": step["text"] or "",
                }
                for step in steps
                if step["path"].endswith(".md")
            ]
        if not self._task.check_mode:
            apply(folder, steps, browser)
        return {
            "changed": bool(steps),
            "written" if state == "present" else "removed": [step["path"] for step in steps],
            **answer,
        }

    def _list(self, args: dict) -> dict:
        """The page of all runs alone."""
        results_dir, testbed_id = args["results_dir"], args["testbed_id"]
        if args["run_dir"] or not (results_dir and testbed_id):
            raise bad_value("state", "listed", "Give results_dir and testbed_id with it, and no run_dir.")
        load.check_testbed(testbed_id)
        folder = os.path.abspath(os.path.join(results_dir, testbed_id))
        steps = plan(folder, _pages(folder, _reported(folder))) if runs(*os.path.split(folder)) else []
        if steps and not self._task.check_mode:
            apply(folder, steps)
        return {
            "changed": bool(steps),
            "written": [step["path"] for step in steps],
            "runs": os.path.join(folder, "index.html"),
        }

    def _run_dir(self, args: dict) -> str:
        run_dir, results_dir, testbed_id = (args[name] or None for name in ("run_dir", "results_dir", "testbed_id"))
        if run_dir and (results_dir or testbed_id):
            raise bad_value("run_dir", run_dir, "Give either run_dir, or results_dir and testbed_id.")
        if run_dir:
            return os.path.abspath(run_dir)
        if not (results_dir and testbed_id):
            raise bad_value("run_dir", run_dir, "Give run_dir, or results_dir and testbed_id.")
        return os.path.abspath(load.find_run(results_dir, testbed_id, args["run_id"]))


def _charts(folder: str) -> list:
    """The pictures that an earlier report left."""
    charts = os.path.join(folder, static.CHARTS)
    return [
        f"{static.CHARTS}/{name}"
        for name in sorted(os.listdir(charts) if os.path.isdir(charts) else [])
        if name.endswith((".svg", ".png")) or name == static.CAPTIONS
    ]


def _listing(testbed_dir: str) -> bool:
    """Whether the folder has a page of all runs that is ours."""
    return index.SCHEMA in text_of(os.path.join(testbed_dir, "index.json"))


def _index(testbed_dir: str, run: str, present: bool) -> dict:
    """The files of the page of all runs, as it is with or without this run's report; without any report there is none."""
    reported = _reported(testbed_dir) - {run} | ({run} if present else set())
    return _pages(testbed_dir, reported) if reported else dict.fromkeys(index.FILES)


def _reported(testbed_dir: str) -> set:
    """Names of the runs that have a report."""
    names = {os.path.basename(folder) for folder in runs(*os.path.split(testbed_dir))}
    return {name for name in names if os.path.isfile(os.path.join(testbed_dir, name, "report", "index.html"))}


def _pages(testbed_dir: str, reported: set) -> dict:
    return index.files(index.build(testbed_dir, reported))
