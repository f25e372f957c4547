# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outcome of the figures: a verdict each, one over all, and the reason for a pipeline to stop."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypedDict

from ...module_utils.core.failure import Failure, bad_value
from . import stats
from .nouns import Comparison, Row
from .points import wanted_metrics
from .words import verdict_words

MARGIN_PERCENT = 5.0
VERDICTS = ("worse", "better", "different", "cannot_tell", "no_verdict", "no_difference")


class Rule(TypedDict):
    """A rule of fail_on; metric: None where it is on all of them."""

    rule: str  # as the user wrote it
    metric: str | None
    condition: str
    percent: float


class Hit(TypedDict):
    """A figure or a point that a rule objects to, or that it cannot judge."""

    rule: str
    point: str
    metric: str
    text: str


class SideHit(Hit):
    """The same of one of several sides."""

    side: str


def verdict(row: Row, fits: bool, turns: bool) -> str:
    """Within the margin first: a difference too small to matter is none, however certain it is.

    fits: whether the interval, at the level that all figures together allow, is within the margin. turns: whether the effect of time is not a
    explanation: the sides took turns, the baseline is a history, or the difference is larger than what time can do (beyond_time).
    """
    if fits:
        return "no_difference"
    low, high = row["change_low_percent"], row["change_high_percent"]
    if row["p_corrected"] <= stats.LOOK and (low > 0 or high < 0):
        if not turns:
            return "different"
        return "better" if (low > 0) == (row["better"] == "higher") else "worse"
    return "cannot_tell"


def overall(counts: Mapping[str, object]) -> str:
    """One verdict over all: the first of these that any figure has."""
    return next(
        (verdict for verdict in ("worse", "different", "cannot_tell", "no_verdict", "better") if counts[verdict]),
        "no_difference",
    )


RULE = re.compile(
    r"(?:(?P<metric>[A-Za-z_][\w.]*) )?(?P<condition>regression|different|cannot_tell|missing)(?: > (?P<percent>\d+(?:\.\d+)?) ?%)?"
)


def rules(given: list[str], metrics: list[str] | None = None) -> list[Rule]:
    """[{rule, metric, condition, percent}] of 'regression > 5 %', 'latency_p99_ns regression', 'cannot_tell', 'missing'."""
    names = [metric.name for metric in wanted_metrics(metrics)]
    parsed: list[Rule] = []
    for text in given:
        match = RULE.fullmatch(text.strip()) if isinstance(text, str) else None
        if (
            not match
            or (match["percent"] and match["condition"] not in ("regression", "different"))
            or (match["condition"] == "different" and not match["percent"])
            or (match["metric"] and match["condition"] == "missing")
        ):
            raise bad_value(
                "fail_on",
                text,
                "Write 'regression', 'regression > 5 %', 'different > 20 %', 'cannot_tell' or 'missing'; all but the last also after a metric.",
            )
        if match["metric"] and match["metric"] not in names:
            raise bad_value("fail_on", text, f"{match['metric']} is not compared; use one of {', '.join(names)}.")
        parsed.append(
            {
                "rule": text.strip(),
                "metric": match["metric"],
                "condition": match["condition"],
                "percent": float(match["percent"] or 0),
            }
        )
    return parsed


def hits(comparison: Comparison, wanted: list[Rule]) -> list[Hit]:
    """[{rule, point, metric, text}] of what the rules object to. A rule on a metric that nothing measured is a Failure: it could never object."""
    refuse_unmeasured({row["metric"] for row in comparison["rows"]}, wanted)
    return objections(comparison, wanted)


def refuse_unmeasured(measured: set[str], wanted: Sequence[Rule]) -> None:
    for rule in wanted:
        if rule["metric"] and rule["metric"] not in measured:
            raise Failure(
                "metric_missing",
                f"fail_on {rule['rule']!r} watches {rule['metric']}, which no point of both sides has measured.",
                "Remove the rule, or measure the metric.",
                rule=rule["rule"],
                measured=sorted(measured),
            )


def objections(comparison: Comparison, wanted: list[Rule]) -> list[Hit]:
    """The objections of the rules, see hits."""
    met: list[Hit] = []
    for rule in wanted:
        if rule["condition"] == "missing":
            met += [
                {
                    "rule": rule["rule"],
                    "point": entry["point"],
                    "metric": entry.get("metric", ""),
                    "text": "measured in the baseline only",
                }
                for entry in comparison["unmatched"]
                if entry["side"] == "baseline"
            ]
            met += [
                {"rule": rule["rule"], "point": entry["point_id"], "metric": "", "text": f"failed: {entry['reason']}"}
                for entry in comparison["failed"]
                if entry["side"] == "candidate"
            ]
            continue
        for row in comparison["rows"]:
            if rule["metric"] in (None, row["metric"]) and _objects(rule, row):
                met.append(
                    {
                        "rule": rule["rule"],
                        "point": row["point"],
                        "metric": row["metric"],
                        "text": verdict_words(row, comparison["margin_percent"]),
                    }
                )
    return met


def _objects(rule: Rule, row: Row) -> bool:
    if rule["condition"] == "cannot_tell":
        return row["verdict"] in ("different", "cannot_tell", "no_verdict")
    if rule["condition"] == "different":
        # By more than that for certain: the near end of the interval.
        return row["verdict"] in ("different", "worse") and worst_percent(row, near=True) > rule["percent"]
    return row["verdict"] == "worse" and bool(abs(row["change_percent"]) > rule["percent"])


def worst_percent(row: Row, near: bool = False) -> float:
    """By how many percent the figure can be worse, at most; near: at least. Negative where it is better."""
    lower_is_worse = row["better"] == "higher"
    if near:
        return float(-row["change_high_percent"] if lower_is_worse else row["change_low_percent"])
    return float(-row["change_low_percent"] if lower_is_worse else row["change_high_percent"])


def outcome(hits: Sequence[object], unjudged: Sequence[object]) -> str:
    """The outcome for a pipeline: 'failed' where a rule objects, 'inconclusive' where one could not be judged, else 'passed'."""
    return "failed" if hits else "inconclusive" if unjudged else "passed"


def concluded(fail_on: list[str], hits: Sequence[object], unjudged: Sequence[object]) -> dict[str, object]:
    """{fail_on, hits, unjudged, outcome} as a comparison carries them; without rules there is no outcome."""
    judged = {"outcome": outcome(hits, unjudged)} if fail_on else {}
    return {"fail_on": fail_on, "hits": hits, "unjudged": unjudged, **judged}


def unjudged(comparison: Comparison, wanted: list[Rule]) -> list[Hit]:
    """[{rule, point, metric, text}] of what the rules could neither object to nor let pass.

    A figure without a verdict passes a rule all the same where its interval leaves out what the rule objects to.
    """
    left: list[Hit] = []
    for rule in wanted:
        if rule["condition"] not in ("regression", "different"):
            continue
        mine = [row for row in comparison["rows"] if rule["metric"] in (None, row["metric"])]
        left += [
            {
                "rule": rule["rule"],
                "point": row["point"],
                "metric": row["metric"],
                "text": verdict_words(row, comparison["margin_percent"]),
            }
            for row in mine
            if not _objects(rule, row) and _open(rule, row)
        ]
        if not mine:
            left.append(
                {"rule": rule["rule"], "point": "", "metric": "", "text": "no figure of both sides was compared"}
            )
    return left


def _open(rule: Rule, row: Row) -> bool:
    if row["verdict"] not in ("different", "cannot_tell", "no_verdict"):
        return False
    return "change_percent" not in row or worst_percent(row) > rule["percent"]
