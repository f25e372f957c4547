# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several candidates against one baseline: each is set against it as comparison.py does, and all figures of all of them are judged together.

The chance of one false alarm in all of it is that of a comparison of two. No candidate is set against another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...module_utils.core.failure import Failure, bad_value
from . import comparison, gate, judgement, timeline
from .gate import MARGIN_PERCENT, VERDICTS
from .nouns import Compared, Comparison, Row, RunName, Side
from .points import FIELDS

SCHEMA = "storlab.sides/1"
# A name is above a column and beside a mark of a chart.
LONGEST_NAME = 40
# From the one that says most to the one that any sides allow.
METHODS = ("pairs", "groups", "runs")


def compare_sides(
    baseline: Side,
    candidates: dict[str, Side],
    under_test: list[str],
    metrics: list[str] | None = None,
    margin_percent: float = MARGIN_PERCENT,
) -> Compared:
    """{schema, margin_percent, method, counts, verdict, headline, baseline, sides, under_test, under_test_same}.

    baseline and each of candidates: a side as comparison.compare_runs takes it. sides: [{name, and what compare_runs returns of it}], in the order given;
    rows also have ``row``, the part of a point that is the same on all sides.
    """
    comparison.check_margin(margin_percent)
    check(baseline, candidates)
    chosen = _chosen(baseline, candidates, under_test)
    matches = {
        name: comparison.matched(of.results(0), of.results(1), of.compared, names=("baseline", f"candidates.{name}"))
        for name, of in chosen.items()
    }
    designs, rows, lacking = judged(matches, metrics, margin_percent)
    everywhere = {field for field in FIELDS if all(field in of.compared for of in chosen.values())}
    sides: list[Comparison] = []
    sentences = []
    for name, match in matches.items():
        for row in rows[name]:
            parts = [text for field, text in row["_baseline"].items() if text and field not in everywhere]
            row["row"] = " ".join(parts) or row["point"]
        summary = comparison.summary(match, rows[name], lacking[name], margin_percent, designs[name])
        side: Comparison = {"name": name, **comparison.with_runs(summary, chosen[name], under_test)}
        sides.append(side)
        how = comparison.how(match, designs[name])
        sentences.append((name, how, side["headline"].removeprefix(how).strip()))
    counts = {verdict: sum(side["counts"][verdict] for side in sides) for verdict in VERDICTS}
    return {
        "schema": SCHEMA,
        "margin_percent": margin_percent,
        "method": sides[0]["method"],
        "counts": counts,
        "verdict": gate.overall(counts),
        "headline": _headline(baseline["label"], sentences),
        "baseline": sides[0]["baseline"],
        "sides": sides,
        "under_test": under_test,
        "under_test_same": [
            pattern for pattern in under_test if all(pattern in side["under_test_same"] for side in sides)
        ],
    }


def judged(
    matches: dict[str, comparison.Match], metrics: list[str] | None, margin_percent: float
) -> tuple[dict[str, timeline.Design], dict[str, list[Row]], dict[str, list[dict[str, str]]]]:
    """(designs, rows, unmatched) of each name: all rows of all of them judged together."""
    # One method for all, because what is judged together is relabelled together.
    method = max((match.design.method for match in matches.values()), key=METHODS.index)
    designs = {name: replace(match.design, method=method) for name, match in matches.items()}
    rows: dict[str, list[Row]] = {}
    lacking: dict[str, list[dict[str, str]]] = {}
    for name, match in matches.items():
        rows[name], lacking[name] = comparison.figures(match, metrics, designs[name])
        if method == "runs":
            _number_runs(rows[name], match)
    judgement.judge([row for of in rows.values() for row in of], method, margin_percent, len(matches))
    return designs, rows, lacking


def check(baseline: Side, candidates: dict[str, Side]) -> None:
    """Raises bad_value for candidates of which no table can be made."""
    if not candidates:
        raise bad_value("candidates", candidates, "Name at least one.")
    for name in candidates:
        if not 0 < len(name.strip()) <= LONGEST_NAME or name == "baseline":
            raise bad_value(
                "candidates.name", name, f"Use a name of 1 to {LONGEST_NAME} characters, other than baseline."
            )
    several = len(baseline["runs"]) > 1
    earlier: list[tuple[str, dict[str, Any], set[str]]] = []
    for name, side in candidates.items():
        if (len(side["runs"]) > 1) != several:
            raise bad_value(
                f"candidates.{name}",
                side["label"],
                "Give a list of runs, as for the baseline, or one run on every side."
                if several
                else "Give one run, as for the baseline, or a list of runs on every side.",
            )
        folders = {run.folder for run in side["runs"]}
        for other, selector, taken in earlier:
            if selector == side["selector"] and folders & taken:
                raise bad_value(
                    f"candidates.{name}",
                    side["label"],
                    f"It is {other} again, or has a run in common with it; name other runs, or another layer, variant or workload.",
                )
        earlier.append((name, side["selector"], folders))


def _chosen(baseline: Side, candidates: dict[str, Side], under_test: list[str]) -> dict[str, comparison.Chosen]:
    """Each candidate with the baseline, see comparison.choose; all that are unlike it are refused together."""
    chosen, unlike = {}, {}
    for name, side in candidates.items():
        try:
            chosen[name] = comparison.choose(
                baseline, {**side, "name": name}, under_test, names=("baseline", f"candidates.{name}")
            )
        except Failure as failure:
            if failure.code != "unlike_runs":
                raise
            unlike[name] = failure
    if unlike:
        first = next(iter(unlike.values()))
        raise Failure(
            "unlike_runs",
            " ".join(failure.what for failure in unlike.values()),
            first.remedy,
            sides={name: failure.details["differences"] for name, failure in unlike.items()},
        )
    return chosen


def _number_runs(rows: list[Row], match: comparison.Match) -> None:
    """Runs by their place in time among the runs of their side: the runs that take turns are the first runs of all sides, the second and so on."""
    numbers = []
    for side in (0, 1):
        first: dict[RunName, str] = {}
        for pair in match.pairs:
            for run, results in timeline.runs_of(pair[side]).items():
                first[run] = min([*map(timeline.started, results), *([first[run]] if run in first else [])])
        numbers.append({run: place for place, run in enumerate(sorted(first, key=lambda run: (first[run], run)))})
    for row in rows:
        if "_logs" in row:
            row["_logs"] = [
                {number[run]: value for run, value in logs.items()} for number, logs in zip(numbers, row["_logs"])
            ]


def _headline(baseline: str, sentences: list[tuple[str, str, str]]) -> str:
    """How it was measured, once where that is the same for all, and what is to be said of each side. sentences: (its name, how, what)."""
    how = {words for _name, words, _text in sentences}
    alike = next(iter(how)) if len(how) == 1 else ""
    parts = [f"{name}: {text}" if alike else f"{name}: {words} {text}" for name, words, text in sentences]
    count = f"{len(sentences)} side{'' if len(sentences) == 1 else 's'} against {baseline}."
    return " ".join(part for part in (count, alike, *parts) if part)


def hits(compared: Compared, wanted: list[gate.Rule]) -> list[gate.SideHit]:
    """[{side, rule, point, metric, text}] of what the rules object to, see gate.hits. A rule on a metric that no side has measured is a Failure."""
    gate.refuse_unmeasured({row["metric"] for side in compared["sides"] for row in side["rows"]}, wanted)
    return [{"side": side["name"], **hit} for side in compared["sides"] for hit in gate.objections(side, wanted)]


def unjudged(compared: Compared, wanted: list[gate.Rule]) -> list[gate.SideHit]:
    """[{side, rule, point, metric, text}] of what the rules could not judge, see gate.unjudged."""
    return [{"side": side["name"], **entry} for side in compared["sides"] for entry in gate.unjudged(side, wanted)]
