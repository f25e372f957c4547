# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sentences of others about a comparison, such as the one that the author of an experiment drew, and whether each holds here: yes, no or cannot tell.

A sentence is a range of the change of a candidate against the baseline. It holds where the interval of each figure that it is about is within that range,
and it does not where one is outside. These are the intervals of all figures of the comparison together, so that a sentence about many figures is not
denied by chance. A figure that may be drift answers nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypedDict

from ...module_utils.core.failure import bad_value
from .nouns import Row
from .points import wanted_metrics
from .words import amount, title

SPEC: dict[str, Any] = {
    "type": "list",
    "elements": "dict",
    "default": [],
    "options": {
        "text": {"type": "str", "required": True},
        "source": {"type": "str"},
        "metric": {"type": "str", "required": True},
        "side": {"type": "str", "default": "*"},
        "point": {"type": "str", "default": "*"},
        "least_percent": {"type": "float"},
        "most_percent": {"type": "float"},
    },
}
YES, NO, CANNOT_TELL = "yes", "no", "cannot tell"
# Verdicts that say that a difference is not what time did, however the sides were measured.
CERTAIN = ("better", "worse", "no_difference")
# Designs in which time does not explain a difference.
TURNS = ("interleaved", "alternating", "history")
SHOWN = 3


class Side(TypedDict):
    """A judged comparison of one candidate, as far as statements are about it."""

    name: str
    design: str
    rows: list[Row]


class Figure(TypedDict, total=False):
    side: str
    point: str
    metric: str
    verdict: str
    change_percent: float
    low_percent: float
    high_percent: float
    why: str


class Answer(TypedDict):
    text: str
    source: str
    verdict: str
    figures: list[Figure]
    why: str
    line: str


@dataclass(frozen=True)
class Statement:
    text: str
    source: str
    metric: str
    side: str
    point: str
    low: float
    high: float


def parsed(given: list[dict[str, Any]]) -> list[Statement]:
    """The statements; raises bad_value for one that no figure could contradict."""
    statements = []
    for place, entry in enumerate(given):
        low, high = entry.get("least_percent"), entry.get("most_percent")
        if low is None and high is None:
            raise bad_value(
                f"statements[{place}]",
                entry["text"],
                "Set least_percent or most_percent, so that figures can contradict it.",
            )
        if low is not None and high is not None and low >= high:
            raise bad_value(
                f"statements[{place}].least_percent", low, f"Use less than most_percent, which is {high:g}."
            )
        wanted_metrics([entry["metric"]])
        statements.append(
            Statement(
                entry["text"],
                entry.get("source") or "",
                entry["metric"],
                entry.get("side") or "*",
                entry.get("point") or "*",
                -math.inf if low is None else low,
                math.inf if high is None else high,
            )
        )
    return statements


def judged(statements: list[Statement], sides: list[Side]) -> list[Answer]:
    """[{text, source, verdict, why, figures}] with the sentence to be shown as ``line``. sides: [{name, design, rows}] of comparisons."""
    return [_judged(statement, sides) for statement in statements]


def _judged(statement: Statement, sides: list[Side]) -> Answer:
    figures = [
        _figure(statement, side, row)
        for side in sides
        if fnmatchcase(side["name"], statement.side)
        for row in side["rows"]
        if row["metric"] == statement.metric and fnmatchcase(row["point"], statement.point)
    ]
    verdicts = {figure["verdict"] for figure in figures}
    verdict = NO if NO in verdicts else YES if verdicts == {YES} else CANNOT_TELL
    # Those that decide come first.
    shown = sorted(figures, key=lambda figure: figure["verdict"] != verdict)
    parts = [_words(figure) for figure in shown[:SHOWN]] or ["neither side has measured it"]
    more = f"; and {len(figures) - SHOWN} more figures" if len(figures) > SHOWN else ""
    why = f"{title(statement.metric)}: {'; '.join(parts)}{more}"
    source = f" ({statement.source})" if statement.source else ""
    return {
        "text": statement.text,
        "source": statement.source,
        "verdict": verdict,
        "figures": figures,
        "why": why,
        "line": f"“{statement.text}”{source} Does it hold here? {verdict.capitalize()}. {why}.",
    }


def _figure(statement: Statement, side: Side, row: Row) -> Figure:
    figure: Figure = {"side": side["name"], "point": row["point"], "metric": row["metric"], "verdict": CANNOT_TELL}
    if "joint_low_percent" not in row:
        figure["why"] = str(row.get("why", "no interval"))
        return figure
    low, high = row["joint_low_percent"], row["joint_high_percent"]
    figure["change_percent"], figure["low_percent"], figure["high_percent"] = row["change_percent"], low, high
    certain = side["design"] in TURNS or row["verdict"] in CERTAIN
    if "drift" in row or row["verdict"] == "different" or not certain:
        figure["why"] = "it may be drift"
    elif statement.low <= low and high <= statement.high:
        figure["verdict"] = YES
    elif high < statement.low or low > statement.high:
        figure["verdict"] = NO
    else:
        figure["why"] = "the interval reaches beyond it"
    return figure


def _words(figure: Figure) -> str:
    where = ", ".join(filter(None, (figure["side"], figure["point"])))
    why = f", {figure['why']}" if "why" in figure else ""
    if "low_percent" not in figure:
        return f"{where}{why}"
    low, high = _signed(figure["low_percent"]), _signed(figure["high_percent"])
    return f"{where} {_signed(figure['change_percent'])} ({low} … {high}){why}"


def _signed(percent: float) -> str:
    text = amount(abs(percent))
    return text if text == "0.0 %" or text[0] == "×" else ("−" if percent < 0 else "+") + text
