# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A comparison in its forms: HTML, Markdown, CSV, JSON, JUnit XML and lines for the terminal. Text out, nothing is written here."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from markupsafe import Markup

from ...module_utils.core import units
from ..compare import words as wording
from ..compare.nouns import SIDES, Compared, Comparison, Row
from ..store.spreadsheet import harmless
from .junit import attribute, printable
from .markup import asset, fill, shapes, style

VERDICT_TITLES = {
    "worse": "Worse",
    "better": "Better",
    "different": "Different, or drift",
    "no_difference": "No difference",
    "cannot_tell": "Cannot tell",
    "no_verdict": "No verdict",
}
# Changes that are worth a mark on an axis on which halving and doubling lie equally far from nothing.
MARKS = (
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    400,
    900,
    1900,
    4900,
    -1,
    -2,
    -5,
    -10,
    -20,
    -33,
    -50,
    -67,
    -80,
    -90,
    -95,
    -98,
    -99,
)
# Keys of ``typical`` of a row.
TYPICAL = ("change_percent", "low_percent", "high_percent")
TICK_GAP = 0.3


def render(comparison: Comparison) -> dict[str, str]:
    """File name -> text of every file of the comparison ``found`` by comparison.compare_runs, with its ``hits``."""
    return {
        "index.html": html(comparison),
        "report.md": markdown(comparison),
        "comparison.csv": comparison_csv(comparison),
        "comparison.json": comparison_json(comparison),
        "junit.xml": junit(comparison),
        "github.txt": workflow_commands(comparison),
    }


# -- figures in words -------------------------------------------------------------------------------------------------


def value(metric: str, number: float) -> str:
    last = metric.rpartition(".")[2]
    if last.startswith("latency_"):
        return units.latency(number)
    if last == "bandwidth_bytes_s":
        return units.bandwidth(number) + " MB/s"
    if last == "running_percent":
        return f"{number:.1f} %"
    if last == "stall_longest_s":
        return f"{number:.2f} s"
    if last == "us_per_io":
        return units.latency(number * 1000)
    return units.iops(number)


def signed(percent: float) -> str:
    """'+4.7 %', '−12 %', '0.0 %', '×58'."""
    text = wording.amount(abs(percent))
    return text if text == "0.0 %" or text[0] == "×" else ("−" if percent < 0 else "+") + text


def probability(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.0995 else f"{p:.2f}"


def words(row: Row, margin_percent: float) -> str:
    return wording.verdict_words(row, margin_percent)


# The columns of a figure after its name; the last one is the wide one.
FIGURES = ("baseline", "candidate", "change", "95 %", "could see", "verdict")


def table(comparison: Comparison) -> list[str]:
    """The comparison as lines for a terminal."""
    rows = [
        (row["point"], (wording.title(row["metric"]), *figure_cells(row, comparison["margin_percent"])))
        for row in comparison["rows"]
    ]
    return by_points(("metric", *FIGURES), rows)


def figure_cells(row: Row, margin_percent: float) -> tuple[str, ...]:
    """The cells of a figure. p is left out: the others fit into 80 columns so, and a verdict accounts for it."""
    judged = "change_percent" in row
    return (
        value(row["metric"], row["baseline"]["value"]),
        value(row["metric"], row["candidate"]["value"]),
        signed(row["change_percent"]) if judged else units.ABSENT,
        _short(interval(row)) if judged else units.ABSENT,
        wording.amount(row["visible_percent"]) if judged else units.ABSENT,
        words(row, margin_percent),
    )


def _short(ends: str) -> str:
    """'+28 … +32 %' for '+28 % … +32 %'."""
    return ends.replace(" % …", " …") if ends.endswith("%") else ends


def by_points(head: tuple[str, ...], rows: Sequence[tuple[str, tuple[str, ...]]]) -> list[str]:
    """The lines of a table of (point, cells), with each point as a heading: its name may be as wide as a terminal."""
    widths = [
        max(len(cells[index]) for cells in (head, *(cells for _point, cells in rows))) for index in range(len(head))
    ]
    names = len(head) - len(FIGURES)

    def line(cells: tuple[str, ...]) -> str:
        padded = [
            text.rjust(width) if names <= index < len(head) - 1 else text.ljust(width)
            for index, (text, width) in enumerate(zip(cells, widths))
        ]
        return ("  " + "  ".join(padded)).rstrip()

    of_point: dict[str, list[str]] = {}
    for point, cells in rows:
        of_point.setdefault(point, []).append(line(cells))
    return [line(head), *(text for point, lines in of_point.items() for text in (point, *lines))]


def interval(row: Row) -> str:
    return f"{signed(row['change_low_percent'])} … {signed(row['change_high_percent'])}"


# -- JSON, CSV, JUnit -------------------------------------------------------------------------------------------------


def comparison_json(comparison: Mapping[str, object]) -> str:
    return json.dumps(comparison, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def comparison_csv(comparison: Comparison, first: tuple[str, ...] = ()) -> str:
    """One row per figure, full precision, an empty cell where nothing was measured. first: columns before all others."""
    plain_columns = [*first, "layer", "workload_id", "variant", "metric", "better"]
    of_sides = [
        f"{side}_{key}" for side in SIDES for key in ("value", "low", "high", "repetitions", "variation_percent")
    ]
    effect = [
        "change_percent",
        "change_low_percent",
        "change_high_percent",
        "confidence_percent",
        "p",
        "p_corrected",
        "visible_percent",
        *(f"typical_{key}" for key in TYPICAL),
        "verdict",
        "run_more",
        "why",
    ]
    stream = io.StringIO()
    writer = csv.DictWriter(
        stream, [*plain_columns, *of_sides, *effect], restval="", lineterminator="\n", extrasaction="ignore"
    )
    writer.writeheader()
    for row in comparison["rows"]:
        sides = {f"{side}_{key}": part for side in SIDES for key, part in row[side].items()}
        typical = {f"typical_{key}": part for key, part in row.get("typical", {}).items()}
        writer.writerow({key: harmless(value) for key, value in {**row, **sides, **typical}.items()})
    return stream.getvalue()


def junit(comparison: Comparison) -> str:
    return suites([(f"{comparison['candidate']['label']} against {comparison['baseline']['label']}", comparison)])


def suites(comparisons: list[tuple[str, Comparison]]) -> str:
    """Each comparison a suite of this name."""
    texts = "\n".join(_suite(name, comparison) for name, comparison in comparisons)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>{texts}</testsuites>\n'


def workflow_commands(compared: Comparison | Compared) -> str:
    """The objections of the rules and the rules that could not be judged, as workflow commands of GitHub Actions, one line each; empty without rules.

    Source: docs.github.com, Workflow commands for GitHub Actions, "Setting an error message"; values are escaped as its toolkit escapes them.
    """
    lines = [
        f"::{kind} title=storlab.testbed::{_command(gate_line(entry))}"
        for kind, entries in (("error", compared["hits"]), ("warning", compared["unjudged"]))
        for entry in entries
    ]
    if compared["fail_on"] and not lines:
        lines = [f"::notice title=storlab.testbed::{_command(gate_words(compared))}"]
    return "".join(f"{line}\n" for line in lines)


def _command(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def gate_line(entry: dict[str, str]) -> str:
    """'zram: backing-a 4k, IOPS: worse, by 13 to 21 %': one of hits or unjudged."""
    figure = ", ".join(filter(None, (entry["point"], wording.title(entry["metric"]) if entry["metric"] else "")))
    return ": ".join(filter(None, (entry.get("side", ""), figure, entry["text"])))


def gate_words(compared: Comparison | Compared) -> str:
    """The outcome in a sentence; empty without rules."""
    rules = ", ".join(compared["fail_on"])
    if not rules:
        return ""
    if compared["outcome"] == "failed":
        return f"Failed: {rules} {'is' if len(compared['hits']) == 1 else 'are'} met by {_figures(compared['hits'])}."
    if compared["outcome"] == "inconclusive":
        return f"Inconclusive: {rules} could not be judged for {_figures(compared['unjudged'])}."
    return f"Passed: no figure meets {rules}."


def _figures(entries: Sequence[Mapping[str, object]]) -> str:
    count = len({(entry.get("side"), entry["point"], entry["metric"]) for entry in entries})
    return f"{count} figure{'' if count == 1 else 's'}"


def _suite(name: str, comparison: Comparison) -> str:
    """Each figure a test case: failed where a rule of fail_on objects, skipped where there is no verdict."""
    objections: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for hit in comparison["hits"]:
        objections.setdefault((hit["point"], hit["metric"]), []).append(hit)
    unjudged = {(entry["point"], entry["metric"]): entry for entry in comparison["unjudged"]}
    cases, known = [], set()
    for row in comparison["rows"]:
        place = (row["point"], row["metric"])
        known.add(place)
        verdict = words(row, comparison["margin_percent"])
        inner = (
            _objection(objections[place])
            if place in objections
            else (
                f"<skipped message={attribute(verdict)}/>"
                if place in unjudged or row["verdict"] in ("different", "cannot_tell", "no_verdict")
                else ""
            )
        )
        cases.append((place, inner + f"<system-out>{escape(printable(verdict))}</system-out>"))
    cases += [(place, _objection(hits)) for place, hits in objections.items() if place not in known]
    cases += [
        (place, f"<skipped message={attribute(entry['text'])}/>")
        for place, entry in unjudged.items()
        if place not in known and place not in objections
    ]
    failures = sum(inner.startswith("<failure") for _place, inner in cases)
    skipped = sum(inner.startswith("<skipped") for _place, inner in cases)
    # How it was measured decides what a verdict is worth, so that it stands here too.
    properties = [
        f"<property name={attribute(key)} value={attribute(comparison[key])}/>"
        for key in ("design", "method", "summary", "headline", "outcome")
        if key in comparison
    ]
    lines = [
        f'<testsuite name={attribute(name)} tests="{len(cases)}" failures="{failures}" errors="0" skipped="{skipped}">',
        f"<properties>{''.join(properties)}</properties>",
    ]
    lines += [
        f"<testcase classname={attribute(point)} name={attribute(metric or 'point')}>{inner}</testcase>"
        for (point, metric), inner in cases
    ]
    return "\n".join([*lines, "</testsuite>"])


def _objection(hits: Sequence[Mapping[str, object]]) -> str:
    reasons = "; ".join(f"{hit['rule']}: {hit['text']}" for hit in hits)
    return f'<failure type="regression" message={attribute(reasons)}/>'


# -- Markdown and HTML ------------------------------------------------------------------------------------------------


def markdown(comparison: Comparison) -> str:
    changed = [row for row in comparison["rows"] if row["verdict"] != "no_difference"]
    alike = [row for row in comparison["rows"] if row["verdict"] == "no_difference"]
    return filled(
        "compare.md.j2",
        comparison=comparison,
        tables=[(changed, ""), (alike, f"{len(alike)} without a difference")],
        left_out=left_out(comparison),
    )


def html(comparison: Comparison) -> str:
    matrix: dict[str, Any] = {}
    for row in comparison["rows"]:
        matrix.setdefault(row["point"], {})[row["metric"]] = row
    return filled(
        "compare.html.j2",
        comparison=comparison,
        sections=sections(comparison),
        matrix=matrix,
        left_out=left_out(comparison),
        tiles=[
            (verdict, VERDICT_TITLES[verdict], comparison["counts"][verdict])
            for verdict in shown_verdicts(comparison["counts"])
        ],
        style=style((), "compare.css"),
        script=asset("script.js"),
    )


def gate_class(compared: Comparison | Compared) -> str:
    """The class of the box with the outcome. A pass is green only where no figure is worse: within a rule, worse is still worse."""
    if compared["outcome"] == "failed":
        return "stopped"
    return "clear" if compared["outcome"] == "passed" and not compared["counts"]["worse"] else "open"


def left_out(comparison: Comparison) -> str:
    """'1 point failed, 2 were measured on one side only'; empty when nothing was left out."""
    failed, unmatched, damaged = (len(comparison[key]) for key in ("failed", "unmatched", "damaged"))
    parts = (
        (failed, f"{failed} point{'' if failed == 1 else 's'} failed"),
        (unmatched, f"{unmatched} {'was' if unmatched == 1 else 'were'} measured on one side only"),
        (damaged, f"{damaged} file{'' if damaged == 1 else 's'} could not be read"),
    )
    return ", ".join(text for count, text in parts if count)


def shown_verdicts(counts: Mapping[str, object]) -> list[str]:
    return [
        verdict
        for verdict in ("worse", "better", "different", "no_difference", "cannot_tell", "no_verdict")
        if verdict not in ("different", "no_verdict") or counts[verdict]
    ]


def heading(candidate: str, baseline: str) -> str:
    """'qd8 against qd1' of the labels of sides. A common beginning, such as one run, is left out: the page names both sides in full."""
    sides = [label.split(".") for label in (candidate, baseline)]
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*sides))
    alike = min(len(list(pairs)), *(len(side) - 1 for side in sides))
    return " against ".join(".".join(side[alike:]) for side in sides)


def filled(name: str, **content: object) -> str:
    """The template with what both forms of a comparison say alike."""
    return fill(
        name,
        **content,
        signed=signed,
        probability=probability,
        amount=wording.amount,
        title=wording.title,
        margin=wording.margin_words,
        value=value,
        words=words,
        heading=heading,
        gate_words=gate_words,
        gate_class=gate_class,
        gate_line=gate_line,
        interval=interval,
        absent=units.ABSENT,
    )


def sections(comparison: Comparison) -> list[dict[str, Any]]:
    """One a metric, with an axis of its own that all its points share."""
    parts = []
    for index, metric in enumerate(dict.fromkeys(row["metric"] for row in comparison["rows"])):
        rows = [row for row in comparison["rows"] if row["metric"] == metric]
        ends = [row[key] for row in rows for key in ("change_low_percent", "change_high_percent") if key in row]
        margin = comparison["margin_percent"]
        span = 1.12 * max(abs(_log(percent)) for percent in [*ends, margin, -margin])
        parts.append(
            {
                "id": f"m{index + 1}",
                "metric": metric,
                "better": rows[0]["better"],
                "rows": [(row, effect_mark(row, margin, span)) for row in rows],
                "ticks": [
                    (50 + 50 * _log(percent) / span, signed(percent).removesuffix(" %").removesuffix(".0"))
                    for percent in _ticks(span)
                ],
            }
        )
    return parts


def _log(percent: float) -> float:
    return math.log1p(max(percent, -99.99) / 100)


def _ticks(span: float) -> list[float]:
    """Marks within +-span, the outermost first, each with room for its text, and 0."""
    kept = []
    for sign in (-1, 1):
        last = None
        for percent in sorted(
            (mark for mark in MARKS if mark * sign > 0 and abs(_log(mark)) <= 0.93 * span), key=abs, reverse=True
        ):
            place = abs(_log(percent)) / span
            if place >= TICK_GAP and (last is None or last - place >= TICK_GAP):
                kept.append(percent)
                last = place
    return sorted([*kept, 0])


def effect_mark(row: Row, margin_percent: float, span: float) -> Markup:
    """A line of a forest plot: the margin as a band, the estimate as a dot, its interval as a line."""

    def at(percent: float) -> float:
        return 50 + 50 * _log(percent) / span

    judged = "change_percent" in row
    ends = (row["change_low_percent"], row["change_high_percent"], row["change_percent"]) if judged else ()
    markup: Markup = shapes().effect(
        row["verdict"] if judged else "",
        f"{at(-margin_percent):.2f}",
        f"{at(margin_percent) - at(-margin_percent):.2f}",
        *([f"{at(end):.2f}" for end in ends] or [""] * 3),
    )
    return markup
