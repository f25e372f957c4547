# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts of the steady-state checks."""

from __future__ import annotations

from ....module_utils.core import units
from .. import charts
from ..markup import NOTHING
from ..nouns import Report
from ..tables import Field, Table, cell, words
from .base import METRIC_WORDS, Choices

ROWS_SHOWN = 60  # beyond that a list of verdicts names only those that are not good


def of_run(report: Report, choices: Choices) -> dict[str, object] | None:
    """{steady, judged, table, shown}: every verdict of a small run; of a large one those that are not good."""
    judged = [
        (point, report.judged[point["point_id"]]) for point in report.points if point["point_id"] in report.judged
    ]
    if not judged:
        return None
    shown = (
        judged
        if len(judged) <= ROWS_SHOWN
        else [(point, verdict) for point, verdict in judged if not verdict.get("steady")]
    )
    rows = []
    for point, verdict in shown:
        rounds = [value for value in verdict.get("rounds") or [] if isinstance(value, (int, float))]
        limits = verdict.get("limits") if isinstance(verdict.get("limits"), dict) else {}
        mark = NOTHING
        if rounds:
            window = (
                rounds[-verdict["window"] :]
                if isinstance(verdict.get("window"), int) and verdict["window"] > 0
                else rounds
            )
            mean, half = sum(window) / len(window), (limits.get("excursion_percent") or 0) / 200
            mark = charts.sparkline(rounds, mean * (1 - half), mean * (1 + half))
        rows.append(
            (
                choices.only(point["layer"]),
                point["layer"],
                [
                    words(point["workload_id"]),
                    cell(point["repetition"], str(point["repetition"])),
                    words("steady", "good") if verdict.get("steady") else words("not steady", "warn"),
                    Field(mark, css="c-bar"),
                    cell(len(rounds), str(len(rounds))),
                    *(
                        _against_limit(verdict.get(key), limits.get(key))
                        for key in ("excursion_percent", "slope_percent")
                    ),
                ],
            )
        )
    head = [
        ("Layer", False),
        ("Workload", False),
        ("Rep.", True),
        ("Verdict", False),
        ("Rounds", False),
        ("count", True),
        ("excursion (limit)", True),
        ("slope (limit)", True),
    ]
    return {
        "steady": sum(1 for _point, verdict in judged if verdict.get("steady")),
        "judged": len(judged),
        "all": len(shown) == len(judged),
        "metrics": ", ".join(
            sorted(
                {METRIC_WORDS.get(str(verdict.get("metric")), str(verdict.get("metric"))) for _point, verdict in judged}
            )
        ),
        "table": Table("Steady state", head, rows) if rows else None,
    }


def _against_limit(value: object, limit: object) -> Field:
    if not isinstance(value, (int, float)):
        return cell(None, "")
    return cell(
        value,
        units.whole_percent(value) + (f" ({units.whole_percent(limit)})" if isinstance(limit, (int, float)) else ""),
    )
