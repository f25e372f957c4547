# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several experiments on one page: what each is, when it ran, what failed, what was found, and the published figures beside the measured ones.

An experiment that failed is on the page with its message, taken from the output of ansible-playbook; what was measured before it failed is there, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import yaml

from ...module_utils.core import units
from . import databases, views
from .markup import asset, fill, style
from .nouns import Report
from .results_json import json_of

SCHEMA = "storlab.experiments/1"
FAILURES_SHOWN = 3  # of one experiment; the log has all
LINES_SHOWN = 3  # of a log that names no failed task

TASK = re.compile(r"^(?:TASK|RUNNING HANDLER) \[(?P<task>.*)\] \**$")
FAILED = re.compile(
    r"^(?:fatal|failed): \[(?P<host>[^\]]+?)(?: -> [^\]]+)?\](?:: (?:FAILED|UNREACHABLE)!)?(?: \(item=.*?\))? => (?P<result>\{.*\})$"
)
RECAP = re.compile(r"^(?P<host>\S+)\s+: ok=\d+ .*unreachable=(?P<unreachable>\d+)\s+failed=(?P<failed>\d+)")
# What Ansible says of a loop; its items have said more.
OF_ITEMS = ("One or more items failed", "All items failed")


class Outcome(NamedTuple):
    """The files of an experiment: its results, the place of their page (empty: there is none), the testbed that it was measured on, and what was
    compared within its run, each {headline, href}."""

    report: Report
    href: str
    testbed_id: str
    comparisons: tuple[dict[str, str], ...] = ()


# -- what failed -----------------------------------------------------------------------------------------------------


def failures(log: str) -> list[dict[str, str]]:
    """[{host, task, message}] of the tasks that ended an experiment, as in its output, each message once.

    log: what ansible-playbook wrote with callback_result_format=json, of one or several runs. An ignored or rescued failure has ended nothing. In output
    without a failed task, such as that of a playbook that cannot be read, its errors, else the last lines.
    """
    lines = log.splitlines()
    failed = list(_failed_tasks(lines))
    recaps = [match for line in lines if (match := RECAP.match(line))]
    hosts = {match["host"] for match in recaps if int(match["failed"]) or int(match["unreachable"])}
    if recaps:
        failed = [failure for failure in failed if failure["host"] in hosts]
    if not failed:
        written = [line.strip() for line in lines if line.strip()]
        # An interruption is reported as such, and Ansible's summary after it is not used.
        last = (
            list(dict.fromkeys(line for line in written if line.startswith(("[ERROR]", "ERROR!"))))
            or written[-LINES_SHOWN:]
        )
        return [{"host": "", "task": "", "message": " ".join(last) or "It said nothing."}]
    return list({failure["message"]: failure for failure in reversed(failed)}.values())[::-1]


def _failed_tasks(lines: list[str]) -> Iterator[dict[str, str]]:
    task = ""
    for line, following in zip(lines, [*lines[1:], ""]):
        begun, failed = TASK.match(line), FAILED.match(line)
        task = begun["task"] if begun else task
        if failed is None or following.strip() == "...ignoring":
            continue
        message = _message(failed["result"])
        if message not in OF_ITEMS:
            yield {"host": failed["host"], "task": task, "message": message}


def _message(result: str) -> str:
    try:
        content = json.loads(result)
    except ValueError:
        return result
    return " ".join(str(content.get("msg") or result).split())


# -- the page --------------------------------------------------------------------------------------------------------


def build(experiments: list[dict[str, Any]], outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """The content of index.json: {schema, experiments}.

    experiments, in their order: {name, title, run_id, rc, attempts, started_utc, finished_utc, words (what the inventory says of it), published (loads
    of a database, of which a run that measured none does not know; may be absent), log (text), log_href}. outcomes: name -> what it has left, absent
    where it has left no readable result. Unknown facts of an experiment are absent.
    """
    return {
        "schema": SCHEMA,
        "experiments": [_row(experiment, outcomes.get(experiment["name"])) for experiment in experiments],
    }


def _row(experiment: dict[str, Any], outcome: Outcome | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        **{
            key: experiment[key]
            for key in ("name", "title", "run_id", "rc", "attempts", "started_utc", "finished_utc", "log_href")
        },
        "took_s": _between(experiment["started_utc"], experiment["finished_utc"]),
        "failed": experiment["rc"] != 0,
        "failures": failures(experiment["log"]) if experiment["rc"] != 0 else [],
    }
    if outcome:
        report = outcome.report
        row.update(
            testbed_id=outcome.testbed_id,
            scaled_down=outcome.testbed_id != experiment["name"],
            words=_words(experiment["words"]) if outcome.testbed_id != experiment["name"] else "",
            points=len(report.points),
            points_failed=len(report.failed),
            repetitions=list(report.repetitions),
            headline=report.verdict,
            machines=_machines(report),
            mind=[flag["text"] for flag in report.flags if flag["level"] == "warning"],
            notes=[flag["text"] for flag in report.flags if flag["level"] != "warning"],
            **({"report": outcome.href} if outcome.href else {}),
            **({"comparisons": list(outcome.comparisons)} if outcome.comparisons else {}),
            **_database(report, experiment.get("published") or []),
        )
    return row


def _database(report: Report, known: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """{database: {published, measured}} where a load of a database was published; measured is empty where the run has none."""
    published = databases.published(report.record, known)
    measured = [
        {key: load[key] for key in ("layer", "workload_id", "repetitions", *databases.RATES)}
        for load in report.databases
    ]
    return {"database": {"published": published, "measured": measured}} if published else {}


def _between(started: str, finished: str) -> int:
    first, last = (datetime.fromisoformat(moment.replace("Z", "+00:00")) for moment in (started, finished))
    return int((last - first).total_seconds())


def _words(words: Mapping[str, object]) -> str:
    """As it may be in an inventory, in one line."""
    if not words:
        return ""
    # Values from an inventory are of Ansible's own types, which YAML does not know.
    plain = json.loads(json.dumps(words))
    return yaml.safe_dump(plain, default_flow_style=True, width=float("inf"), allow_unicode=True).strip()


def _machines(report: Report) -> dict[str, list[str]]:
    """'emulated' -> hosts; a simulated host is that, whatever runs it."""
    kinds: dict[str, list[str]] = {}
    for machine in report.machines:
        kinds.setdefault("simulated" if machine["simulated"] else machine["machine"], []).append(machine["host"])
    return kinds


def files(index: dict[str, object], outcomes: dict[str, Outcome]) -> dict[str, str]:
    """File name -> text. index: as build makes it, of the same outcomes."""
    return {"index.html": html(index, outcomes), "index.json": json_of(index)}


def html(index: dict[str, Any], outcomes: dict[str, Outcome]) -> str:
    published = {
        name: views.published.table(outcome.report, views.base.Choices(outcome.report))
        for name, outcome in outcomes.items()
    }
    loads = {
        row["name"]: databases.beside(row["database"]["published"], row["database"]["measured"])
        for row in index["experiments"]
        if "database" in row
    }
    return fill(
        "experiments.html.j2",
        experiments=index["experiments"],
        published=published,
        loads=loads,
        verdict=verdict(index),
        shown=FAILURES_SHOWN,
        minutes=minutes,
        moment=units.moment,
        style=style((), "experiments.css"),
        script=asset("script.js"),
    )


def verdict(index: dict[str, Any]) -> str:
    """'2 of 3 experiments ended without a failure, in 31 min 4 s; failed: e5.'"""
    failed = [row["name"] for row in index["experiments"] if row["failed"]]
    whole, every = len(index["experiments"]) - len(failed), len(index["experiments"])
    spent = minutes(sum(row["took_s"] for row in index["experiments"]))
    sentence = f"{whole} of {every} experiment{'' if every == 1 else 's'} ended without a failure, in {spent}"
    return f"{sentence}; failed: {', '.join(failed)}." if failed else f"{sentence}."


def minutes(seconds: int) -> str:
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"


def summary(index: dict[str, Any]) -> list[str]:
    """A line per experiment, for a terminal."""
    lines = []
    for row in index["experiments"]:
        points = (
            f"{row['points'] - row['points_failed']} of {row['points']} points measured"
            if "points" in row
            else "no report"
        )
        result = f"failed (rc {row['rc']}): {row['failures'][0]['message']}" if row["failed"] else "done"
        lines.append(f"{row['name']}: {result} ({points}, {minutes(row['took_s'])})")
    return lines
