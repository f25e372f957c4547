# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compares stored runs; documentation in plugins/modules/compare.py."""

from __future__ import annotations

import os
import re
from dataclasses import replace

from ..module_utils.core.failure import Failure, bad_value
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.compare import comparison, gate, points, statements
from ..plugin_utils.compare import sides as several
from ..plugin_utils.report import compare_render, scrub, sides_render
from ..plugin_utils.report.pages import apply, plan, text_of
from ..plugin_utils.store import load

SELECTOR = {
    "type": "dict",
    "required": True,
    "options": {
        "run_dir": {"type": "path"},
        "results_dir": {"type": "path"},
        "testbed_id": {"type": "str"},
        "run_id": {"type": "str", "default": "latest"},
        "run_ids": {"type": "list", "elements": "str"},
        "last": {"type": "int"},
        "layer": {"type": "str"},
        "variant": {"type": "str"},
        "workload": {"type": "str"},
    },
}
# Two of them and their selectors make the name of a folder.
LONGEST_LABEL = 80
ARGUMENTS = {
    "baseline": SELECTOR,
    "candidate": {**SELECTOR, "required": False},
    "candidates": {
        "type": "list",
        "elements": "dict",
        "options": {"name": {"type": "str", "required": True}, **SELECTOR["options"]},
    },
    "under_test": {"type": "list", "elements": "str", "default": []},
    "metrics": {"type": "list", "elements": "str"},
    "margin_percent": {"type": "float", "default": gate.MARGIN_PERCENT},
    "fail_on": {"type": "list", "elements": "str", "default": []},
    "statements": statements.SPEC,
    "output_dir": {"type": "path"},
    "scrub": {"type": "bool", "default": False},
}


class ActionModule(CollectionAction):
    SPEC = ARGUMENTS
    UNWRITABLE = ("report_unwritable", "The comparison")

    def arguments(self) -> dict:
        arguments = super().arguments()
        candidates = arguments.get("candidates")
        if candidates is not None and not (
            isinstance(candidates, list)
            and candidates
            and all(isinstance(selector, dict) and "name" in selector for selector in candidates)
        ):
            raise bad_value(
                "candidates",
                candidates,
                "Give each candidate a name, in testbed_candidates as {zram: [z1, z2, z3], file: [f1, f2, f3]}.",
            )
        return arguments

    def perform(self, args: dict) -> dict:
        # First what can be wrong without reading anything.
        rules = gate.rules(args["fail_on"], args["metrics"])
        claims = statements.parsed(args["statements"])
        given = _candidates(args)
        # A history ends before the candidates, so these come first there.
        history = args["baseline"]["last"] is not None or any("*" in name for name in args["baseline"]["run_ids"] or ())
        sides = [] if history else [self._side("baseline", args["baseline"])]
        sides += [self._side(f"candidates.{name}" if name else "candidate", selector) for name, selector in given]
        if history:
            sides.insert(0, self._side("baseline", args["baseline"], [side["runs"][0].folder for side in sides]))
        output_dir = self._output_dir(args, sides[1])
        names = [name for name, _selector in given]
        if args["scrub"]:
            pseudonyms = scrub.Pseudonyms([run for side in sides for run in side["runs"]])
            sides = [_scrubbed(side, pseudonyms) for side in sides]
            # A name in the arguments has its pseudonym too.
            args["under_test"] = [pseudonyms.text(pattern) for pattern in args["under_test"]]
            names = [name and pseudonyms.text(name) for name in names]
        if len({side["runs"][0].testbed_id for side in sides}) > 1:
            sides = [{**side, "label": f"{safe(side['runs'][0].testbed_id)}.{side['label']}"} for side in sides]
        how = {key: args[key] for key in ("under_test", "metrics", "margin_percent")}
        if args["candidates"] is None:
            compared = comparison.compare_runs(*sides, **how)
            compared.update(gate.concluded(args["fail_on"], gate.hits(compared, rules), gate.unjudged(compared, rules)))
            compared["statements"] = statements.judged(claims, [{**compared, "name": ""}])
            desired, table, facts = compare_render.render(compared), compare_render.table(compared), _facts(compared)
        else:
            compared = several.compare_sides(sides[0], dict(zip(names, sides[1:])), **how)
            compared.update(
                gate.concluded(args["fail_on"], several.hits(compared, rules), several.unjudged(compared, rules))
            )
            compared["statements"] = statements.judged(claims, compared["sides"])
            desired, table = sides_render.render(compared), sides_render.table(compared)
            facts = {"sides": [{"name": side["name"], **_facts(side)} for side in compared["sides"]]}
        folder = os.path.join(output_dir, f"{_joined([side['label'] for side in sides[1:]])}-vs-{sides[0]['label']}")
        steps = plan(folder, desired)
        answer = {
            "changed": bool(steps),
            "written": [step["path"] for step in steps],
            "compare_dir": folder,
            "index": os.path.join(folder, "index.html"),
            "files": {name: os.path.join(folder, name) for name in desired},
            "table": table,
            **{
                key: compared[key]
                for key in (
                    "verdict",
                    "headline",
                    "counts",
                    "method",
                    "under_test_same",
                    "hits",
                    "unjudged",
                    "statements",
                )
            },
            **({"outcome": compared["outcome"], "conclusion": compare_render.gate_words(compared)} if rules else {}),
            **facts,
        }
        if self._task.diff:
            answer["diff"] = [
                {
                    "before_header": step["path"],
                    "after_header": step["path"],
                    "before": text_of(step["path"]),
                    "after": step["text"],
                }
                for step in steps
                if step["path"].endswith(".md")
            ]
        if not self._task.check_mode:
            apply(folder, steps)
        if compared["hits"]:
            first = compared["hits"][0]
            whose = dict.fromkeys(hit.get("side", sides[1]["label"]) for hit in compared["hits"])
            stop = Failure(
                "regression",
                f"{len(compared['hits'])} figures of {', '.join(whose)} meet fail_on, first {first['metric']} of {first['point']}: "
                f"{first['text']}.",
                f"Read {answer['index']}, and repair it or raise the limit.",
                hits=compared["hits"],
            )
            answer.update(failed=True, **stop.as_result())
        return answer

    def _side(self, name: str, given: dict, candidates: list[str] | None = None) -> dict:
        """The runs of one side. candidates: of the baseline, the folders of the first run of each candidate, before which a history ends."""
        run_dir, results_dir, testbed_id = (given[key] for key in ("run_dir", "results_dir", "testbed_id"))
        if bool(run_dir) == bool(results_dir and testbed_id) or (run_dir and (results_dir or testbed_id)):
            raise bad_value(name, given, "Give either run_dir, or results_dir and testbed_id.")
        if given["run_ids"] is not None and (run_dir or not given["run_ids"]):
            raise bad_value(name, given, "Name at least one run in run_ids, of results_dir and testbed_id.")
        if given["last"] is not None and (run_dir or given["run_ids"] or candidates is None or given["last"] < 1):
            raise bad_value(
                f"{name}.last",
                given["last"],
                "It is how many runs of results_dir and testbed_id before the candidate are the baseline; use it there alone, with 1 or more.",
            )
        if given["last"] is None and not run_dir and not given["run_ids"] and given["run_id"] == "":
            names = load.run_names(self._loader.path_dwim(results_dir), testbed_id)
            raise Failure(
                "bad_value",
                f"{name} (testbed_{name.partition('.')[0]}) names no run.",
                f"Name one of: {', '.join(names)}."
                if names
                else f"Testbed {testbed_id} has none in {results_dir}; run benchmark first.",
                variable=name,
                runs=names,
            )
        folders = (
            [run_dir]
            if run_dir
            else load.runs_before(self._loader.path_dwim(results_dir), testbed_id, candidates or [], given["last"])
            if given["last"] is not None
            else load.named_runs(
                self._loader.path_dwim(results_dir), testbed_id, given["run_ids"] or [given["run_id"]], candidates or []
            )
        )
        runs = [load.read_run(os.path.abspath(self._loader.path_dwim(folder))) for folder in folders]
        selector = {key: given[key] for key in points.SELECTORS.values()}
        return {"runs": runs, "selector": selector, "label": _label(runs, selector)}

    def _output_dir(self, args: dict, candidate: dict) -> str:
        """Beside the runs of the candidate's testbed, where no run has this name because it holds no points."""
        return (
            self._loader.path_dwim(args["output_dir"])
            if args["output_dir"]
            else os.path.join(os.path.dirname(candidate["runs"][0].folder), "compare")
        )


def _candidates(args: dict) -> list[tuple[str, dict]]:
    """[(name, selector)] of what is judged; a single candidate has no name."""
    if (args["candidate"] is None) == (args["candidates"] is None):
        both = args["candidate"] is not None
        raise Failure(
            "bad_value",
            f"candidate and candidates (testbed_candidate and testbed_candidates) are {'both given' if both else 'both missing'}.",
            "Give candidate for one side, or candidates for several in one table.",
            variable="candidates",
        )
    if args["candidates"] is None:
        return [("", args["candidate"])]
    names = [selector["name"] for selector in args["candidates"]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise bad_value("candidates.name", twice[0], "Listed twice; give each candidate a different name.")
    return list(zip(names, args["candidates"]))


def _facts(compared: dict) -> dict:
    """The part of a task's result about a candidate."""
    return {
        **{
            key: compared[key]
            for key in (
                "verdict",
                "summary",
                "headline",
                "counts",
                "design",
                "method",
                "machines",
                "rows",
                "unmatched",
                "damaged",
                "under_test_same",
            )
        },
        # Not 'failed': a task that returns it has failed.
        "failed_points": compared["failed"],
        "differences": [entry for entry in compared["environment"] if entry["status"] != "ignored"],
    }


def _joined(labels: list[str]) -> str:
    names = "_".join(labels)
    return names if len(labels) == 1 or len(names) <= LONGEST_LABEL else f"{labels[0]}_and_{len(labels) - 1}_more"


def _label(runs: list, selector: dict) -> str:
    """Names the folder of the comparison: the run, or all of them as long as that is no longer than a name may be."""
    names = "_".join(run.run_id for run in runs)
    if len(names) > LONGEST_LABEL:
        names = f"{runs[0].run_id}_and_{len(runs) - 1}_more"
    return safe(".".join([names, *(selector[key] for key in ("layer", "variant", "workload") if selector[key])]))


def safe(name: str) -> str:
    """Fit for the name of a folder: names come out of files that anybody may have written."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)


def _scrubbed(side: dict, names: scrub.Pseudonyms) -> dict:
    """The side under its pseudonyms; of its folder nothing is left but what the run is called."""
    runs = [names.run(run) for run in side["runs"]]
    return {
        "runs": [replace(run, folder=os.path.join(run.testbed_id, run.run_id)) for run in runs],
        "label": safe(names.text(side["label"])),
        "selector": {field: name and names.text(name) for field, name in side["selector"].items()},
    }
