# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Baseline against candidate: which points belong together, is a difference real, and were the two alike but for what is under test.

Pure: results in, a mapping out that every form of the report is made of. Here is the order of things; points says what is paired,
alike whether the sides were, stats has the methods, gate the verdicts and what they stop, words the sentences. docs/comparison.md explains them.
"""

from __future__ import annotations

import math
import statistics
from fnmatch import fnmatchcase

from ...module_utils.core.failure import Failure, bad_value
from ..store.cells import Cell, pool
from . import gate, points, stats
from .alike import differences, facts, refuse_unlike
from .gate import MARGIN_PERCENT, VERDICTS
from .points import FIELDS, LEAST_REPETITIONS, LEAST_ROUNDS, SELECTORS, SIDES, Metric, field_of
from .words import headline

SCHEMA = "storlab.comparison/1"


def compare(
    baseline: list,
    candidate: list,
    metrics: list | None = None,
    margin_percent: float = MARGIN_PERCENT,
    compared: tuple | None = None,
) -> dict:
    """Every figure of every point that both sides have, each with its verdict.

    baseline, candidate: results of schema storlab.result/1, or summaries of them. compared: the fields of FIELDS that may differ between the
    sides; points are matched by the others. None means those that have but one value on each side. Returns {schema, margin_percent,
    design, counts, verdict, headline, rows, unmatched, failed}; docs/comparison.md describes them. What was not measured is absent.
    """
    if isinstance(margin_percent, bool) or not isinstance(margin_percent, (int, float)) or not 0 < margin_percent < 100:
        raise bad_value("margin_percent", margin_percent, "Use a number above 0 and below 100.")
    given = dict(zip(SIDES, (baseline, candidate)))
    for side, results in given.items():
        points.checked(results, side)
    failed = [
        {"side": side, "point_id": points.name_of(result), "reason": points.reason_of(result)}
        for side, results in given.items()
        for result in results
        if result.get("status", "measured") != "measured"
    ]
    if compared is None:
        compared = tuple(
            field
            for field in FIELDS
            if all(len({field_of(result, field) for result in results}) == 1 for results in given.values())
        )
    matched_by = [field for field in FIELDS if field not in compared]
    groups = {side: points.groups_of(results, matched_by, side) for side, results in given.items()}
    both = sorted(
        (key for key in groups["baseline"] if key in groups["candidate"]),
        key=lambda key: points.order_of(groups["baseline"][key]),
    )
    unmatched = [
        {"side": side, "point": points.label(groups[side][key])}
        for side, other in (SIDES, SIDES[::-1])
        for key in sorted(groups[side], key=lambda key: points.order_of(groups[side][key]))
        if key not in groups[other]
    ]
    if not both:
        raise Failure(
            "nothing_to_compare",
            f"Baseline and candidate have no measured point in common: the baseline has {points.some_of(groups['baseline'])}, "
            f"the candidate {points.some_of(groups['candidate'])}.",
            "Compare runs of the same layers and workloads, or name a layer or variant on both sides.",
            unmatched=unmatched,
            failed=failed,
        )
    pairs = [(groups["baseline"][key], groups["candidate"][key]) for key in both]
    paired = all(points.interleaved(*pair) for pair in pairs)
    rows = []
    for pair in pairs:
        shown = [_pooled(group) for group in pair]
        for metric in points.wanted_metrics(metrics):
            values = [
                {
                    number: value
                    for number, result in group.items()
                    if (value := points.value_of(result, metric)) is not None
                }
                for group in pair
            ]
            if all(values):
                rows.append(_row(pair, metric, values, shown, paired))
            elif any(values):
                unmatched.append(
                    {"side": SIDES[bool(values[1])], "point": points.label(pair[0], pair[1]), "metric": metric.name}
                )
    _judge(rows, paired, margin_percent)
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}
    return {
        "schema": SCHEMA,
        "margin_percent": margin_percent,
        "design": "interleaved" if paired else "apart",
        "counts": counts,
        "verdict": gate.overall(counts),
        "headline": headline(rows, margin_percent),
        "rows": [{key: value for key, value in row.items() if not key.startswith("_")} for row in rows],
        "unmatched": unmatched,
        "failed": failed,
    }


def _pooled(group: dict) -> Cell | None:
    """The repetitions as the report shows them; None for a summary that the report could not show, of which only medians are known."""
    try:
        return pool([group[number] for number in sorted(group)])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _row(pair: tuple, metric: Metric, values: list, shown: list, paired: bool) -> dict:
    """What is known of a figure before any verdict; keys with an underscore are for _judge alone."""
    sides = {}
    for side, group, found, cell in zip(SIDES, pair, values, shown):
        pooled = (
            cell.value(metric.path[1], metric.path[0])
            if cell and metric.path[0] in ("read", "write", "total")
            else None
        )
        ordered = [found[number] for number in sorted(found)]
        shown_value = pooled if pooled is not None and math.isfinite(pooled) else statistics.median(ordered)
        sides[side] = {
            "value": shown_value,
            "low": min(ordered),
            "high": max(ordered),
            "repetitions": len(ordered),
            "points": [points.name_of(group[number]) for number in sorted(found)],
        }
        if len(ordered) > 1 and statistics.fmean(ordered):
            sides[side]["variation_percent"] = 100 * statistics.stdev(ordered) / abs(statistics.fmean(ordered))
    row = {
        "point": points.label(*pair),
        **{field: points.either(*(field_of(next(iter(group.values())), field) for group in pair)) for field in FIELDS},
        "metric": metric.name,
        "better": "higher" if metric.higher_is_better else "lower",
        **sides,
        "verdict": "no_verdict",
    }
    fewest = min(side["repetitions"] for side in sides.values())
    if min(side["low"] for side in sides.values()) <= 0:
        row["why"] = "a value is 0 or less, so there is no ratio"
    elif fewest < LEAST_REPETITIONS:
        row.update(why=f"{fewest} of at least {LEAST_REPETITIONS} repetitions", run_more=LEAST_REPETITIONS - fewest)
    elif not paired or len(set(values[0]) & set(values[1])) >= LEAST_ROUNDS:
        row["_logs"] = [{number: math.log(value) for number, value in found.items()} for found in values]
    else:
        row.update(
            why=f"fewer than {LEAST_ROUNDS} common rounds", run_more=LEAST_ROUNDS - len(set(values[0]) & set(values[1]))
        )
    return row


def _judge(rows: list, paired: bool, margin_percent: float) -> None:
    """Adds effect, interval, p and verdict to the rows that have repetitions enough, all of them together."""
    judged = [row for row in rows if "_logs" in row]
    together = stats.family([row["_logs"] for row in judged], paired)
    for row, corrected in zip(judged, together["p"]):
        a, b = row["_logs"]
        rounds = sorted(set(a) & set(b))
        differences = [b[number] - a[number] for number in rounds]
        counts = (len(rounds), len(rounds)) if paired else (len(a), len(b))
        if paired:
            found, raw, scatter = (
                stats.paired_shift(differences),
                stats.signed_rank(differences),
                statistics.stdev(differences),
            )
        else:
            ours, theirs = list(a.values()), list(b.values())
            found, raw, scatter = stats.shift(ours, theirs), stats.mann_whitney(ours, theirs), stats.noise(ours, theirs)
        # Each row's share of ALPHA, as the relabellings tell it; none of them can tell when there are too few.
        freedom = stats.degrees(*counts, paired)
        each = (
            stats.t_tails(stats.critical_t(together["critical"], freedom), freedom)
            if together["critical"]
            else stats.ALPHA / len(judged)
        )
        seen = math.expm1(
            stats.visible(scatter, stats.threshold(min(each, stats.ALPHA), *counts, paired), *counts, paired)
        )
        row.update(
            change_percent=_percent(found["estimate"]),
            change_low_percent=_percent(found["low"]),
            change_high_percent=_percent(found["high"]),
            confidence_percent=100 * found["confidence"],
            p=raw,
            p_corrected=max(raw, corrected),
            visible_percent=100 * seen,
        )
        row["verdict"] = gate.verdict(row, margin_percent)
        if row["verdict"] == "cannot_tell":
            needed = stats.repetitions_needed(
                found["estimate"],
                scatter,
                min(each, stats.ALPHA),
                math.log1p(margin_percent / 100),
                min(counts),
                paired,
            )
            if needed:
                row["run_more"] = needed - min(counts)


def _percent(logarithm: float) -> float:
    return 100 * math.expm1(logarithm)


def compare_runs(
    baseline: dict,
    candidate: dict,
    under_test: list,
    metrics: list | None = None,
    margin_percent: float = MARGIN_PERCENT,
) -> dict:
    """compare(), after the environments were found alike. Each side: {run: Run, selector: {layer, variant, workload}, label}."""
    sides = (baseline, candidate)
    selectors = [{field: side["selector"].get(key) for field, key in SELECTORS.items()} for side in sides]
    if selectors[0] == selectors[1] and baseline["run"].folder == candidate["run"].folder:
        raise bad_value(
            "candidate",
            candidate["label"],
            "It is the baseline itself; name another run, or another layer, variant or workload of this one.",
        )
    for name, side in zip(SIDES, sides):
        points.checked(side["run"].results, name)
    chosen = [points.select(side["run"].results, side["selector"], name) for name, side in zip(SIDES, sides)]
    # A variant is a name that the user gave, so one side may be without.
    compared = tuple(
        field
        for field in FIELDS
        if selectors[0][field] != selectors[1][field]
        and (field == "variant" or None not in (selectors[0][field], selectors[1][field]))
    )
    # What a side has alone is listed, and its environment is no reason to refuse the rest.
    places = [{points.place_of(result, compared) for result in results} for results in chosen]
    common = [
        [result for result in results if points.place_of(result, compared) in places[0] & places[1]]
        for results in chosen
    ]
    alike: list = []
    if all(common):
        layers = {result["layer"] for results in common for result in results}
        automatic = [
            pattern
            for field, pattern in (("layer", "layers.compared.*"), ("workload_id", "workloads.compared.*"))
            if field in compared
        ]
        known = [facts(side["run"], results, layers, compared) for side, results in zip(sides, common)]
        alike = differences(known[0], known[1], [*under_test, *automatic])
        refuse_unlike(alike, (baseline["label"], candidate["label"]))
    found = compare(*chosen, metrics=metrics, margin_percent=margin_percent, compared=compared)
    named = [pattern for pattern in under_test if not any(fnmatchcase(entry["fact"], pattern) for entry in alike)]
    return {
        **found,
        **{
            name: {
                "label": side["label"],
                "testbed_id": side["run"].testbed_id,
                "run_id": side["run"].run_id,
                "run_dir": side["run"].folder,
                **{key: value for key, value in side["selector"].items() if value is not None},
            }
            for name, side in zip(SIDES, sides)
        },
        "environment": alike,
        "under_test": under_test,
        "under_test_same": named,
        "damaged": [{"side": name, **entry} for name, side in zip(SIDES, sides) for entry in side["run"].damaged],
    }
