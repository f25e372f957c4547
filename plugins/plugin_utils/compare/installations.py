# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times of installations judged: each datastore of a run against the first one by name, by the statistics of every other figure."""

from __future__ import annotations

import json
from typing import Any, cast

from ...module_utils.result.schema import Result
from . import comparison, judgement
from .gate import MARGIN_PERCENT
from .nouns import SIDES, Row, SideFigure
from .words import design_words, verdict_words

# Shorter is better.
METRIC = "duration_s lower"
WHAT = "installation"


def verdicts(installations: list[dict[str, Any]]) -> list[dict[str, object]]:
    """[{baseline, candidate: {datastore, layer, value, low, high, repetitions}, verdict, change_percent …, sentence}], empty where there is but one datastore.

    Only those that have a number of repetition are compared, of the same packages or image on virtual machines that are alike but for their datastore.
    """
    rows_made: list[dict[str, Any]] = []
    media: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for timed in installations:
        if "repetition" in timed and timed.get("layer") and isinstance(timed.get("medium"), str):
            media.setdefault((timed["medium"], _machine(timed)), {}).setdefault(timed["layer"], []).append(timed)
    for layers in media.values():
        (first, baseline), *others = sorted(layers.items())
        judged: dict[str, list[Row]] = {}
        matches = []
        for layer, candidate in others:
            match = comparison.matched(_results(baseline), _results(candidate), ("layer",), (first, layer))
            rows, _lacking = comparison.figures(match, [METRIC], match.design)
            judged.setdefault(match.design.method, []).extend(rows)
            matches += [(match, row, baseline[0], candidate[0]) for row in rows]
        for method, rows in judged.items():
            judgement.judge(rows, method, MARGIN_PERCENT, len(others))
        rows_made += [_with_sentence(*match) for match in matches]
    return rows_made


def _machine(timed: dict[str, Any]) -> str:
    """The virtual machine that was installed, without its name: processors, memory, and its disk with the controller."""
    machine = timed.get("vm") if isinstance(timed.get("vm"), dict) else {}
    return json.dumps({key: value for key, value in (machine or {}).items() if key != "name"}, sort_keys=True)


def _results(installations: list[dict[str, object]]) -> list[Result]:
    """As the points that a comparison takes."""
    return [cast(Result, {**timed, "workload_id": WHAT, "status": "measured"}) for timed in installations]


def _with_sentence(
    match: comparison.Match, row: Row, baseline: dict[str, str], candidate: dict[str, str]
) -> dict[str, object]:
    kept: dict[str, object] = {key: value for key, value in row.items() if not key.startswith("_")}
    for side, timed in zip(SIDES, (baseline, candidate)):
        kept[side] = {**row[side], "datastore": timed["datastore"], "layer": timed["layer"]}
    pair = match.pairs[0]
    design = design_words(match.design.order, match.design.method, (len(pair[0]), len(pair[1])))
    kept["sentence"] = (
        f"{candidate['datastore']} against {baseline['datastore']}: installed in {_seconds(row['candidate'])} against {_seconds(row['baseline'])}: "
        f"{verdict_words(row, MARGIN_PERCENT)}. {design}"
    )
    return kept


def _seconds(side: SideFigure) -> str:
    """'41.2 s (40.9 to 43.0)': the median of the repetitions, and their span."""
    return f"{side['value']:.1f} s ({side['low']:.1f} to {side['high']:.1f})"
