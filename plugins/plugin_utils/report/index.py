# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All runs of a testbed on one page: what each measured and found, how a figure went from run to run, and where the environment changed.

Read through the store's rows, so no histogram is opened. A figure of a run is the median of its repetitions with their range, percentiles too: the
histograms that would give the percentile of all repetitions together stay closed here. The reports have it.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypedDict, cast
from urllib.parse import quote

from ...module_utils.core import units
from ...module_utils.core.failure import Failure
from ...module_utils.core.layers import KINDS
from ...module_utils.result.schema import Result
from ..compare import alike
from ..store import load, store
from ..store.cells import Figure
from ..store.flatten import flatten
from . import charts, model, plot, views
from .markup import asset, fill, joined, shapes, style
from .results_json import json_of
from .sentences import workload_words
from .tables import Table, cell, words

SCHEMA = "storlab.runs/1"
FILES = ("index.html", "index.json")
# The place of a figure in a row.
METRICS = {
    "iops": "total.iops",
    "bandwidth_bytes_s": "total.bandwidth_bytes_s",
    "latency_mean_ns": "total.latency_mean_ns",
    "latency_p99_ns": "total.latency_p99_ns",
    "us_per_io": "cpu.us_per_io",
}
FIGURES_EMBEDDED = 20_000  # in the page; index.json has all
CHANGES_NAMED = 4  # of one run, in the page

# [index of the run, median, lowest, highest]
Point = list[Any]
# {workload_id: {layer: {metric: [Point]}}}
Trends = dict[str, dict[str, dict[str, list[Point]]]]
# (workload_id, layer, metric) of the trend that is drawn
Place = tuple[str, str, str]


class Entry(TypedDict, total=False):
    """A run, as the list of all runs has it; a run that holds no readable result has a reason alone."""

    name: str
    reason: str
    started_utc: str
    profiles: list[str]
    verdict: str
    report: str
    changed: dict[str, list[str]]


class Mark(TypedDict):
    """A run before which the environment changed. facts: in words; more: the number of those that are left out."""

    run: int
    number: int
    facts: list[str]
    more: int


class Index(TypedDict):
    """The content of index.json."""

    schema: str
    testbed_id: str
    runs: list[Entry]
    trends: Trends
    workloads: dict[str, str]


def build(testbed_dir: str, reported: set[str]) -> Index:
    """The content of index.json: {schema, testbed_id, runs, trends}.

    reported: names of the runs whose report is linked. runs, oldest first: store.overview and {name, profiles, verdict, report, changed}; a run that
    holds no readable result has a ``reason`` instead. trends: workload_id -> layer -> metric -> [[index of the run, median, lowest, highest]].
    """
    loaded = [_run(folder) for folder in store.runs(*os.path.split(testbed_dir))]
    loaded.sort(key=lambda pair: (pair[0].get("started_utc", ""), pair[0]["name"]))
    known: dict[str, Any] = {}
    for run, _figures_of, facts in loaded:
        run["changed"] = {fact: [known[fact], text] for fact, text in facts.items() if known.get(fact, text) != text}
        known.update(facts)
        if run["name"] in reported:
            run["report"] = f"{quote(run['name'])}/report/index.html"
    trends: Trends = {}
    words: dict[str, str] = {}
    for index, (_overview, figures, _facts) in enumerate(loaded):
        words.update(figures.words)
        for (workload, layer, metric), line in figures.lines.items():
            trends.setdefault(workload, {}).setdefault(layer, {}).setdefault(metric, []).append([index, *line])
    return {
        "schema": SCHEMA,
        "testbed_id": os.path.basename(testbed_dir),
        "runs": [run for run, _figures, _facts in loaded],
        "trends": trends,
        "workloads": words,
    }


def _run(folder: str) -> tuple[Entry, Figures, dict[str, str]]:
    """(what the list says of the run, its figures, {fact of its environment: text}). No row outlives it: of ten thousand runs they would take a gigabyte."""
    name = os.path.basename(folder)
    try:
        rows = store.open_run(folder)
        run = load.read_around(folder)
    except (Failure, OSError) as error:
        return {"name": name, "reason": getattr(error, "what", str(error))}, Figures({}, {}), {}
    about: Any = {
        "name": name,
        **{key: value for key, value in rows.overview().items() if key not in ("folder", "run_id", "testbed_id")},
    }
    run.results = [cast(Result, row) for row in rows.rows if load.completed(row) is None]
    if not run.results:
        about["reason"] = f"none of its {len(rows.damaged)} results can be read"
        return about, Figures({}, {}), {}
    for row in run.results:
        row["files"] = {}
    report = model.build(run)
    profiles = [
        " ".join(str(profile[key]) for key in ("name", "version") if profile.get(key))
        for profile in views.figures.profiles(report)
    ]
    facts = {fact: text for fact, text in flatten(run.environments, "hosts") if text}
    engines = {
        f"engine.{row['engine'].get('name')}": str(row["engine"]["version"])
        for row in run.results
        if row["engine"].get("version")
    }
    collection = (
        {"collection_version": str(run.record["collection_version"])} if run.record.get("collection_version") else {}
    )
    lasting = {
        fact: text for fact, text in facts.items() if not any(fnmatchcase(fact, pattern) for pattern in alike.IGNORED)
    }
    about.update(profiles=profiles, verdict=report.verdict)
    return (
        about,
        _figures([row for row in run.results if row["status"] == "measured"]),
        {**lasting, **engines, **collection},
    )


class Figures(NamedTuple):
    """One run. lines: (workload_id, layer, metric) -> (median, lowest, highest) of the repetitions. words: workload_id -> the workload in words."""

    lines: dict[tuple[str, str, str], tuple[float, float, float]]
    words: dict[str, str]


def _figures(rows: list[Result]) -> Figures:
    values: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        layer = model.varied(row["layer"], str(row["variant"])) if row.get("variant") else row["layer"]
        for metric, path in METRICS.items():
            value = store.value(row, path)
            if isinstance(value, (int, float)):
                values.setdefault((row["workload_id"], layer, metric), []).append(value)
    return Figures(
        {place: (statistics.median(each), min(each), max(each)) for place, each in values.items()},
        {row["workload_id"]: workload_words(row["workload"]) for row in rows},
    )


# -- the page --------------------------------------------------------------------------------------------------------


def files(index: Index) -> dict[str, str]:
    """File name -> text."""
    return {"index.html": html(index), "index.json": json_of(index)}


def html(index: Index) -> str:
    runs = index["runs"]
    chosen = _chosen(index)
    marks = _marks(runs)
    data: dict[str, Any] = {
        "runs": [{"label": label, "name": run["name"]} for label, run in zip(_labels(runs), runs)],
        "marks": marks,
        "words": index["workloads"],
        "metrics": {name: {"title": views.base.METRICS[name][1], "unit": _unit(name)} for name in METRICS},
        "chosen": chosen,
        "trends": _embedded(index, chosen),
    }
    return fill(
        "index.html.j2",
        index=index,
        runs=runs,
        readable=[run for run in runs if "verdict" in run],
        marks=marks,
        number_of={runs[mark["run"]]["name"]: mark["number"] for mark in marks},
        chosen=chosen,
        chart=_chart(index, chosen, marks) if chosen and len(_line(index, chosen)[0]) > 1 else None,
        single=_single(index, chosen) if chosen else None,
        table=_table(index, chosen) if chosen else None,
        title=f"Runs of {index['testbed_id']}",
        metric_words=views.base.METRIC_WORDS,
        data=json.dumps(data, sort_keys=True).replace("<", "\\u003c"),
        complete=sum(map(len, _series(data["trends"]))) == sum(map(len, _series(index["trends"]))),
        moment=units.moment,
        style=style((), "index.css"),
        script=asset("script.js") + asset("index.js"),
    )


def _series(trends: Trends) -> list[list[Point]]:
    return [line for layers in trends.values() for metrics in layers.values() for line in metrics.values()]


def _chosen(index: Index) -> Place | None:
    """The trend that the page begins with: in most runs, then of the newest, then the highest in the chain."""

    def rank(place: tuple[str, str]) -> tuple[object, ...]:
        workload, layer = place
        line = index["trends"][workload][layer]["iops"]
        kind = layer.partition("-")[0]
        return len(line), line[-1][0], KINDS.index(kind) if kind in KINDS else -1, place

    places = [
        (workload, layer)
        for workload, layers in index["trends"].items()
        for layer, metrics in layers.items()
        if "iops" in metrics
    ]
    return (*max(places, key=rank), "iops") if places else None


def _embedded(index: Index, chosen: Place | None) -> Trends:
    """As much of the trends as a page can carry: of the places with most runs first. Four digits are more than can be seen."""
    places = sorted(
        ((workload, layer) for workload, layers in index["trends"].items() for layer in layers),
        key=lambda place: (
            place != (chosen or ())[:2],
            -max(map(len, index["trends"][place[0]][place[1]].values())),
            place,
        ),
    )
    left = FIGURES_EMBEDDED
    trends: Trends = {}
    for workload, layer in places:
        metrics = index["trends"][workload][layer]
        left -= sum(map(len, metrics.values()))
        if left < 0 and trends:
            break
        trends.setdefault(workload, {})[layer] = {
            metric: [[at, *(float(f"{value:.4g}") for value in values)] for at, *values in line]
            for metric, line in metrics.items()
        }
    return trends


def _labels(runs: list[Entry]) -> list[str]:
    """When each run began, as short as the runs allow: without the year where there is but one, with the time where a day has several."""
    starts = [run.get("started_utc", "") for run in runs]
    days = [start[:10] for start in starts if start]
    begin, end = 5 if len({day[:4] for day in days}) == 1 else 0, 16 if len(set(days)) < len(days) else 10
    return [start[begin:end].replace("T", " ") for start in starts]


def _marks(runs: list[Entry]) -> list[Mark]:
    """[{run, letter, facts in words, more}] of the runs before which the environment changed."""
    marks: list[Mark] = []
    for index, run in enumerate(runs):
        if run.get("changed"):
            facts = [f"{fact}: {old} → {new}" for fact, (old, new) in sorted(run["changed"].items())]
            marks.append(
                {
                    "run": index,
                    "number": len(marks) + 1,
                    "facts": facts[:CHANGES_NAMED],
                    "more": len(facts[CHANGES_NAMED:]),
                }
            )
    return marks


def _unit(metric: str) -> str:
    return {"iops": "iops", "bandwidth_bytes_s": "MB/s", "us_per_io": "us"}.get(metric, "ns")


def _line(index: Index, chosen: Place) -> tuple[list[tuple[int, Figure]], Callable[[float], str]]:
    """([[run, Figure]], how the metric is written)."""
    workload, layer, metric = chosen
    return [(at, Figure(*values)) for at, *values in index["trends"][workload][layer][metric]], views.base.METRICS[
        metric
    ][2]


def _single(index: Index, chosen: Place) -> dict[str, str] | None:
    """The figure in the place of a trend that one run alone has, as index.js writes it."""
    line, word = _line(index, chosen)
    if len(line) > 1:
        return None
    ((at, figure),) = line
    return {
        "value": word(figure.value),
        "title": views.base.METRICS[chosen[2]][1],
        "span": "" if word(figure.low) == word(figure.high) else f"{word(figure.low)}–{word(figure.high)}",
        "run": index["runs"][at]["name"],
    }


def _chart(index: Index, chosen: Place, marks: list[Mark]) -> plot.Chart:
    line, word = _line(index, chosen)
    runs, labels = index["runs"], _labels(index["runs"])
    x = plot.Axis("linear", -0.5, len(runs) - 0.5, tuple(enumerate(labels)), "runs, oldest first")
    spans = [value for _at, figure in line for value in (figure.low, figure.high)]
    y = charts.value_axis(spans, word, views.base.METRICS[chosen[2]][1], _unit(chosen[2]), log=False)
    height = 260
    drawn = plot.line([(at, figure.value) for at, figure in line], x, y, "c0") + plot.bars(
        [((at, at, at), (figure.value, figure.low, figure.high)) for at, figure in line], x, y, "c0"
    )
    changed = joined(shapes().changed(f"{100 * x.at(mark['run'] - 0.5):.2f}", height, mark["number"]) for mark in marks)
    dots = [
        plot.dot(at, figure.value, x, y, height, f"{labels[at] or runs[at]['name']}: {views.base.spread(figure, word)}")
        for at, figure in line
    ]
    description = f"{len(line)} runs, from {word(line[0][1].value)} to {word(line[-1][1].value)}; the environment changed {len(marks)} times."
    return plot.frame(
        "trend",
        f"{views.base.METRICS[chosen[2]][0]}: {index['workloads'][chosen[0]]}, {chosen[1]}",
        description,
        x,
        y,
        height,
        drawn,
        changed + shapes().group("c0", dots),
        css="trend",
        about=plot.ABOUT,
    )


def _table(index: Index, chosen: Place) -> Table:
    line, word = _line(index, chosen)
    rows = [
        (
            "",
            index["runs"][at]["name"],
            [
                words(units.moment(index["runs"][at].get("started_utc"))),
                cell(figure.value, word(figure.value)),
                cell(figure.low, word(figure.low)),
                cell(figure.high, word(figure.high)),
            ],
        )
        for at, figure in line
    ]
    return Table(
        "The trend's figures",
        [
            ("Run", False),
            ("Began", False),
            (f"{views.base.METRICS[chosen[2]][1]}, median", True),
            ("lowest", True),
            ("highest", True),
        ],
        rows,
    )
