# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference checks of each host over the rounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from ....module_utils.core import units
from ...compare.beats import LEAST_TREND, moved_words
from ...compare.words import BEATS
from .. import charts
from ..nouns import Report
from ..tables import Field, Table, cell, words

# Figure of a reference beat: how it is written; verdict of beats.drifts: the same in a table.
BEAT_UNITS: dict[str, Callable[[float], str]] = {
    "null_iops": units.iops,
    "memory_copy_bytes_s": lambda value: f"{units.bandwidth(value)} MB/s",
}
BEAT_VERDICTS = {
    "slower": "became slower",
    "faster": "became faster",
    "steady": "no trend",
    "too_few": "too few rounds",
}


def of_run(report: Report) -> dict[str, object] | None:
    """{said, unplayed, table}: the reference beats of each host over the rounds, and the conclusion from them in a sentence each."""
    if not report.beats and not report.unplayed:
        return None
    rows = []
    for move in report.beats:
        values, unit = move["values"], BEAT_UNITS[move["figure"]]
        middle, spread = statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0
        change = move.get("change_percent")
        rows.append(
            (
                "",
                move["host"],
                [
                    words(BEATS[move["figure"]]),
                    Field(charts.sparkline(values, middle - spread, middle + spread), css="c-bar"),
                    cell(len(values), str(len(values))),
                    *(cell(value, unit(value)) for value in (min(values), statistics.median(values), max(values))),
                    cell(change, "" if change is None else f"{change:+.1f} %".replace("-", "−")),
                    words(BEAT_VERDICTS[move["verdict"]], "warn" if move["verdict"] in ("slower", "faster") else ""),
                ],
            )
        )
    head = [
        ("Host", False),
        ("Check", False),
        ("Rounds", False),
        ("count", True),
        ("lowest", True),
        ("median", True),
        ("highest", True),
        ("first to last", True),
        ("Verdict", False),
    ]
    return {
        "said": [moved_words(move) for move in report.beats if move["verdict"] in ("slower", "faster")],
        "judged": any(move["verdict"] != "too_few" for move in report.beats),
        "least": LEAST_TREND,
        "unplayed": report.unplayed,
        "table": Table("Reference check", head, rows) if rows else None,
    }
