# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Baseline against candidate: which points belong together, is a difference real, and were the two alike but for what is under test.

Pure: results in, a mapping out that every form of the report is made of. Here is the order of things: points says what is paired, alike whether
the sides were, timeline in which order they were measured, stats has the methods, gate the verdicts and what they stop, words the
sentences. docs/comparison.md explains them.
"""

from __future__ import annotations

import glob
import math
import statistics
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, cast

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.result.result import PARTS
from ...module_utils.result.schema import Result
from ..store.cells import Cell, pool
from . import beats, blocks, gate, judgement, networks, points, stats, timeline
from .alike import chain_hosts, differences, facts, refuse_unlike
from .gate import MARGIN_PERCENT, VERDICTS
from .nouns import SIDES, Comparison, Group, Groups, Pair, Repetition, Row, Side, SideFigure
from .points import FIELDS, LEAST_REPETITIONS, SELECTORS, Metric, field_of, mapping
from .timeline import LEAST_HISTORY, LEAST_ROUNDS, LEAST_RUNS
from .words import design_words, headline, line_of_counts

SCHEMA = "storlab.comparison/1"


def compare(
    baseline: list[Result],
    candidate: list[Result],
    metrics: list[str] | None = None,
    margin_percent: float = MARGIN_PERCENT,
    compared: tuple[str, ...] | None = None,
    machines: blocks.Machines | None = None,
) -> Comparison:
    """Every figure of every point that both sides have, each with its verdict.

    baseline, candidate: results of schema storlab.result/1, or summaries of them. compared: the fields of FIELDS that may differ between the
    sides; points are matched by the others. None means those that have but one value on each side. machines: what is known of the hosts
    themselves, see blocks. Returns {schema, margin_percent,
    design, counts, verdict, headline, rows, unmatched, failed}; docs/comparison.md describes them. Values that were not measured are absent.
    """
    check_margin(margin_percent)
    match = matched(baseline, candidate, compared)
    rows, lacking = figures(match, metrics, match.design)
    judgement.judge(rows, match.design.method, margin_percent, machines=machines)
    return summary(match, rows, lacking, margin_percent, match.design)


def check_margin(margin_percent: float) -> None:
    if isinstance(margin_percent, bool) or not isinstance(margin_percent, (int, float)) or not 0 < margin_percent < 100:
        raise bad_value("margin_percent", margin_percent, "Use a number above 0 and below 100.")


@dataclass(frozen=True)
class Match:
    """Which points of a candidate belong to which points of the baseline, and the order of the two in time; no figure has been looked at yet."""

    pairs: list[Pair]
    design: timeline.Design
    unmatched: list[dict[str, str]]
    failed: list[dict[str, str]]


def matched(
    baseline: list[Result],
    candidate: list[Result],
    compared: tuple[str, ...] | None = None,
    names: tuple[str, ...] = SIDES,
) -> Match:
    """The points that both sides have, in order. names: what the sides are called where something is wrong with them."""
    given = dict(zip(SIDES, (baseline, candidate)))
    called = dict(zip(SIDES, names))
    for side, results in given.items():
        points.checked(results, called[side])
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
    groups = {side: points.groups_of(results, matched_by, called[side]) for side, results in given.items()}
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
            f"Baseline and {names[1]} have no measured point in common: the baseline has {points.some_of(groups['baseline'])}, "
            f"the candidate {points.some_of(groups['candidate'])}.",
            _advice(list(groups.values()), matched_by),
            unmatched=unmatched,
            failed=failed,
        )
    pairs = [(groups["baseline"][key], groups["candidate"][key]) for key in both]
    return Match(pairs, timeline.design_of(pairs), unmatched, failed)


def _advice(groups: list[Groups], matched_by: list[str]) -> str:
    """The advice where the sides have no point in common: where each has but one layer, these two are probably meant."""
    firsts = [[next(iter(group.values())) for group in side.values()] for side in groups]
    layers = [{field_of(result, "layer") for result in side} for side in firsts]
    workloads = [{field_of(result, "workload_id") for result in side} for side in firsts]
    if "layer" in matched_by and all(len(names) == 1 for names in layers) and workloads[0] & workloads[1]:
        ours, theirs = (next(iter(names)) for names in layers)
        return f"Name the layers to compare: layer: {ours} for the baseline, layer: {theirs} for the candidate."
    return "Compare runs of the same layers and workloads, or name a layer or variant on both sides."


def figures(match: Match, metrics: list[str] | None, design: timeline.Design) -> tuple[list[Row], list[dict[str, str]]]:
    """(rows, unmatched): every figure that both sides have measured, not judged yet, and those that one of them lacks."""
    rows: list[Row] = []
    lacking: list[dict[str, str]] = []
    for pair in match.pairs:
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
            if metric.quiet is not None and {metric.quiet}.issuperset(
                value for side in values for value in side.values()
            ):
                continue
            if all(values):
                rows.append(_row(pair, metric, values, shown, design))
            elif any(values):
                lacking.append(
                    {"side": SIDES[bool(values[1])], "point": points.label(pair[0], pair[1]), "metric": metric.name}
                )
    return rows, lacking


def summary(
    match: Match,
    rows: list[Row],
    lacking: list[dict[str, str]],
    margin_percent: float,
    design: timeline.Design,
) -> Comparison:
    """A judged comparison as a mapping, see compare."""
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}
    return {
        "schema": SCHEMA,
        "margin_percent": margin_percent,
        "design": design.order,
        "method": design.method,
        "counts": counts,
        "verdict": gate.overall(counts),
        "summary": line_of_counts(counts, margin_percent),
        "headline": headline(rows, margin_percent, how(match, design)),
        "rows": [_shown(row) for row in rows],
        "unmatched": match.unmatched + lacking,
        "failed": match.failed,
    }


def _shown(row: Row) -> Row:
    """Without the keys for the judge alone."""
    return cast(Row, {key: value for key, value in row.items() if not key.startswith("_")})


def how(match: Match, design: timeline.Design) -> str:
    """The sentence that says how the sides were measured."""
    return design_words(design.order, design.method, _counts(match.pairs, design))


def _counts(pairs: list[Pair], design: timeline.Design) -> tuple[int, int]:
    """The fewest of a point's runs, common rounds or repetitions, a side."""
    if design.method == "pairs":
        rounds = min(len(set(ours) & set(theirs)) for ours, theirs in pairs)
        return rounds, rounds
    baseline, candidate = (
        min(len(timeline.runs_of(pair[side]) if design.method in ("runs", "history") else pair[side]) for pair in pairs)
        for side in (0, 1)
    )
    return baseline, candidate


def _pooled(group: Group) -> Cell | None:
    """The repetitions as the report shows them; None for a summary that the report could not show, of which only medians are known."""
    try:
        return pool([group[number] for number in sorted(group)])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _row(
    pair: Pair,
    metric: Metric,
    values: list[dict[Repetition, float]],
    shown: list[Cell | None],
    design: timeline.Design,
) -> Row:
    """The facts about a figure before any verdict; keys with an underscore are for judge alone."""
    sides: dict[str, SideFigure] = {}
    for side, group, measured, cell in zip(SIDES, pair, values, shown):
        pooled = cell.value(metric.path[1], metric.path[0]) if cell and metric.path[0] in PARTS else None
        ordered = [measured[number] for number in sorted(measured)]
        shown_value = pooled if pooled is not None and math.isfinite(pooled) else statistics.median(ordered)
        sides[side] = {
            "value": shown_value,
            "low": min(ordered),
            "high": max(ordered),
            "repetitions": len(ordered),
            "points": [points.name_of(group[number]) for number in sorted(measured)],
        }
        if len(ordered) > 1 and statistics.fmean(ordered):
            sides[side]["variation_percent"] = 100 * statistics.stdev(ordered) / abs(statistics.fmean(ordered))
    row: Any = {
        "point": points.label(*pair),
        **{field: points.either(*(field_of(next(iter(group.values())), field) for group in pair)) for field in FIELDS},
        "metric": metric.name,
        "better": "higher" if metric.higher_is_better else "lower",
        **sides,
        "verdict": "no_verdict",
        "_baseline": {field: field_of(next(iter(pair[0].values())), field) for field in FIELDS},
    }
    if min(side["low"] for side in sides.values()) + metric.floor <= 0:
        row["why"] = "a value is 0 or less, so there is no ratio"
        return cast(Row, row)
    thin = next(filter(None, (points.thin(group, metric) for group in pair)), None)
    if thin:
        row["why"] = thin
        return cast(Row, row)
    logs: list[Any] = [
        {number: math.log(value + metric.floor) for number, value in measured.items()} for measured in values
    ]
    least, what, has = LEAST_REPETITIONS, "repetitions", min(map(len, logs))
    if design.method in ("runs", "history"):
        logs = [dict(_of_runs(group, of_side)) for group, of_side in zip(pair, logs)]
        for side, of_runs in zip(SIDES, logs):
            row[side]["runs"] = len(of_runs)
        least, what, has = LEAST_RUNS, "runs", min(map(len, logs))
        if design.method == "history":
            least, what, has = LEAST_HISTORY, "runs of the baseline", len(logs[0])
            logs[1] = {"candidate": statistics.fmean(logs[1].values())}
    elif design.method == "pairs":
        least, what, has = LEAST_ROUNDS, "common rounds", len(set(logs[0]) & set(logs[1]))
    if has < least:
        row.update(why=f"{has} of at least {least} {what}", run_more=least - has)
    else:
        row["_logs"], row["_rest"] = (
            _weaker(logs, _drift_within(pair, logs)) if design.method == "pairs" else (logs, 0.0)
        )
        row["_ordered"] = [
            timeline.in_time(group, {number: value + metric.floor for number, value in measured.items()})
            for group, measured in zip(pair, values)
        ]
        row["_order"] = design.order
        row["_turns"] = design.turns
    return cast(Row, row)


def _of_runs(group: Group, logs: dict[Repetition, float]) -> dict[tuple[str, str], float]:
    """{run: mean of its logarithms}: the contribution of one run, however often it repeated."""
    return {
        run: statistics.fmean(logs[number] for number in mine)
        for run in timeline.runs_of(group)
        if (mine := [number for number in logs if timeline.run_of(group[number]) == run])
    }


def _drift_within(pair: Pair, logs: list[dict[Repetition, float]]) -> float:
    """How much of the difference (a logarithm) a steady drift makes where the same side always came first in its round.

    Where the order was drawn it is 0: the later one is as often this side as that.
    """
    rounds = sorted(set(logs[0]) & set(logs[1]))
    times = timeline.times_of(pair[0], pair[1], rounds)
    gaps = [late - early for early, late in zip(*times)]
    if not (all(gap > 0 for gap in gaps) or all(gap < 0 for gap in gaps)):
        return 0.0
    slope = stats.common_slope(
        [[(time, side[number]) for time, number in zip(where, rounds)] for where, side in zip(times, logs)]
    )
    return slope * statistics.fmean(gaps)


def _weaker(logs: list[dict[Repetition, float]], drift: float) -> tuple[list[dict[Repetition, float]], float]:
    """(logarithms, rest): without the drift or as they are, whichever shows the smaller difference, and how far the other is above.

    It is unknown whether what drifted from round to round went on within the rounds.
    """
    common = set(logs[0]) & set(logs[1])
    plain = statistics.fmean(logs[1][number] - logs[0][number] for number in common)
    if abs(plain) <= abs(plain - drift):
        return logs, -drift
    return [logs[0], {number: value - drift for number, value in logs[1].items()}], drift


def compare_runs(
    baseline: Side,
    candidate: Side,
    under_test: list[str],
    metrics: list[str] | None = None,
    margin_percent: float = MARGIN_PERCENT,
) -> Comparison:
    """compare(), after the environments were found alike. Each side: {runs: [Run], selector: {layer, variant, workload}, label}."""
    chosen = choose(baseline, candidate, under_test)
    comparison = compare(
        chosen.results(0),
        chosen.results(1),
        metrics=metrics,
        margin_percent=margin_percent,
        compared=chosen.compared,
        machines=_machines(chosen),
    )
    return with_runs(comparison, chosen, under_test)


def _machines(chosen: Chosen) -> blocks.Machines:
    """The conclusion from the reference checks of both sides about the hosts behind a figure."""
    lines = _beats(chosen)
    changed, known = beats.changes(*lines), beats.hosts_of_both(*lines)

    def of_row(row: Row) -> float | None:
        hosts = _hosts_of(row, chosen, known)
        if not hosts or not hosts <= known:
            return None
        moved = beats.greatest(changed, hosts)
        return abs(math.log1p(moved["change_percent"] / 100)) if moved else 0.0

    return of_row


def _beats(chosen: Chosen) -> list[list[list[dict[str, Any]]]]:
    """The lines of each run of each side, for the variants that are compared."""
    return [
        [
            [
                line
                for line in run.beats
                if line.get("variant", "") in {field_of(result, "variant") for result in results}
            ]
            for run, results in zip(side["runs"], of)
        ]
        for side, of in zip(chosen.sides, chosen.of)
    ]


def _hosts_of(row: Row, chosen: Chosen, every: set[str]) -> set[str]:
    """The hosts that the I/O of a figure goes through; for two layers, which are not read as a single chain, ``every`` host."""
    if "layer" in chosen.compared:
        return every
    return {host for side in chosen.sides for run in side["runs"] for host in chain_hosts(run.layers, row["layer"])} | {
        field_of(result, "host")
        for side in (0, 1)
        for result in chosen.results(side)
        if result["layer"] == row["layer"]
    }


@dataclass(frozen=True)
class Chosen:
    """Two sides whose runs were found alike: what of them is compared, and how their facts differ all the same.

    of: [[results of a run] a run] of either side. compared: the fields of FIELDS in which the sides differ. alike: see alike.differences.
    """

    sides: tuple[Side, Side]
    of: list[list[list[Result]]]
    compared: tuple[str, ...]
    alike: list[dict[str, Any]]

    def results(self, side: int) -> list[Result]:
        return [result for results in self.of[side] for result in results]


def choose(baseline: Side, candidate: Side, under_test: list[str], names: tuple[str, ...] = SIDES) -> Chosen:
    """The parts of both sides that are compared, once their environments are alike. names: the names of the sides where something is wrong with them."""
    sides = (baseline, candidate)
    selectors = [{field: side["selector"].get(key) for field, key in SELECTORS.items()} for side in sides]
    folders = [[run.folder for run in side["runs"]] for side in sides]
    for name, mine in zip(names, folders):
        twice = sorted({folder for folder in mine if mine.count(folder) > 1})
        if twice:
            raise bad_value(name, twice[0], "It is listed twice; list each run once.")
    both = sorted(set(folders[0]) & set(folders[1]))
    if selectors[0] == selectors[1] and both:
        raise bad_value(
            names[1],
            candidate["label"],
            "It is the baseline itself, or has a run in common with it; name other runs, or another layer, variant or workload of this one.",
        )
    for name, side in zip(names, sides):
        for run in side["runs"]:
            points.checked(run.results, name)
    chosen = [
        [points.select(run.results, side["selector"], name) for run in side["runs"]] for name, side in zip(names, sides)
    ]
    # A variant is a name that the user gave, so one side may be without.
    compared = tuple(
        field
        for field in FIELDS
        if selectors[0][field] != selectors[1][field]
        and (field == "variant" or None not in (selectors[0][field], selectors[1][field]))
    )
    # A point that only one side has is listed, and its environment is not a reason to refuse the rest.
    places = [{points.place_of(result, compared) for results in of for result in results} for of in chosen]
    common = [
        [[result for result in results if points.place_of(result, compared) in places[0] & places[1]] for results in of]
        for of in chosen
    ]
    alike: list[Any] = []
    if all(results for of in common for results in of):
        layers = {result["layer"] for of in common for results in of for result in results}
        automatic = [
            pattern
            for field, pattern in (("layer", "layers.compared.*"), ("workload_id", "workloads.compared.*"))
            if field in compared
        ]
        if "layer" in compared:
            # Named on both sides, the two layers themselves are under test; the layers below them and their hosts are not.
            named = [glob.escape(str(selector["layer"])) for selector in selectors]
            automatic += [f"{place}.{name}.*" for name in named for place in ("layers", "hosts.*.devices")]
        facts_of = [
            [facts(run, results, layers, compared) for run, results in zip(side["runs"], of)]
            for side, of in zip(sides, common)
        ]
        # Runs of one side are repetitions of each other: nothing is under test between them.
        for side, each in zip(sides, facts_of):
            for run, other in zip(side["runs"][1:], each[1:]):
                refuse_unlike(
                    differences(each[0], other, []), (f"{side['runs'][0].run_id} (a run of one side)", run.run_id)
                )
        alike = differences(facts_of[0][0], facts_of[1][0], [*under_test, *automatic])
        refuse_unlike(
            alike, (f"baseline {baseline['label']}", f"candidate {candidate.get('name', candidate['label'])}")
        )
    return Chosen(sides, chosen, compared, alike)


def _unknown_caches(chosen: Chosen) -> str:
    """A sentence where both sides measured storage whose caches cannot be looked at, else nothing. Runs are unlike where one side alone knows its caches."""
    layers = sorted(
        {
            result["layer"]
            for side in (0, 1)
            for result in chosen.results(side)
            if mapping(result.get("preparation")).get("storage_cache") == "unknown"
        }
    )
    if not layers:
        return ""
    return f"Neither side knows what the caches of the storage held ({', '.join(layers)}): a difference may be theirs."


def with_runs(comparison: Comparison, chosen: Chosen, under_test: list[str]) -> Comparison:
    """A comparison with what is known of the runs that it compares."""
    sides = chosen.sides
    changed = beats.changes(*_beats(chosen))
    for row in comparison["rows"]:
        machine = beats.greatest(changed, _hosts_of(row, chosen, {change["host"] for change in changed}))
        if machine:
            row["machine"] = machine
    named = [
        pattern for pattern in under_test if not any(fnmatchcase(entry["fact"], pattern) for entry in chosen.alike)
    ]
    whole: Any = {
        **comparison,
        "headline": " ".join(filter(None, (comparison["headline"], _unknown_caches(chosen), beats.headline(changed)))),
        "machines": changed,
        "networks": [
            {"side": name, "text": text}
            for name, side in zip(SIDES, sides)
            for text in dict.fromkeys(networks.sentence(line) for run in side["runs"] for line in run.networks)
        ],
        **{
            name: {
                "label": side["label"],
                "testbed_id": side["runs"][0].testbed_id,
                "run_id": ", ".join(run.run_id for run in side["runs"]),
                "run_dir": side["runs"][0].folder,
                **({"run_dirs": [run.folder for run in side["runs"]]} if len(side["runs"]) > 1 else {}),
                **{key: value for key, value in side["selector"].items() if value is not None},
            }
            for name, side in zip(SIDES, sides)
        },
        "environment": chosen.alike,
        "under_test": under_test,
        "under_test_same": named,
        "damaged": [
            {"side": name, **entry} for name, side in zip(SIDES, sides) for run in side["runs"] for entry in run.damaged
        ],
    }
    return cast(Comparison, whole)
