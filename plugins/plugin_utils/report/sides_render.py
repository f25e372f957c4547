# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several candidates against one baseline in the forms of a comparison of two: a table of points by sides, and a chart of each figure with all sides."""

from __future__ import annotations

import json
from typing import Any

from ...module_utils.core import units
from ..compare import words as wording
from ..compare.nouns import Compared, Row, SideFigure
from . import charts, plot
from .compare_render import (
    FIGURES,
    VERDICT_TITLES,
    by_points,
    comparison_csv,
    figure_cells,
    filled,
    interval,
    sections,
    shown_verdicts,
    signed,
    suites,
    value,
    words,
    workflow_commands,
)
from .markup import asset, joined, shapes, style

# Pixels of a chart: a point's name, a side below it, and room before the next point.
HEAD, ROW, REST = 24, 18, 8
# Characters of a name that stand left of a chart.
NAME = 15
# Pixels across on a phone, beside the names.
NARROW = 180
BASELINE = "c5"
COLOURS = ("c0", "c1", "c2", "c3", "c4")


def render(compared: Compared) -> dict[str, str]:
    """File name -> text of every file of what sides.compare_sides returned, with ``fail_on`` and its ``hits``."""
    return {
        "index.html": html(compared),
        "report.md": markdown(compared),
        "comparison.csv": comparison_csv({"rows": _rows(compared)}, ("side",)),
        "comparison.json": json.dumps(compared, indent=1, sort_keys=True, ensure_ascii=False) + "\n",
        "junit.xml": suites(
            [
                (
                    f"{side['name']} against {compared['baseline']['label']}",
                    {
                        **side,
                        "hits": [entry for entry in compared["hits"] if entry["side"] == side["name"]],
                        "unjudged": [entry for entry in compared["unjudged"] if entry["side"] == side["name"]],
                    },
                )
                for side in compared["sides"]
            ]
        ),
        "github.txt": workflow_commands(compared),
    }


def title(compared: Compared) -> str:
    """'zram, file and loop against brd', or how many there are."""
    names = [side["name"] for side in compared["sides"]]
    text = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"{text if len(text) <= 60 else f'{len(names)} sides'} against {compared['baseline']['label']}"


def _rows(compared: Compared) -> list[Row]:
    return [{**row, "side": side["name"]} for side in compared["sides"] for row in side["rows"]]


def lines_of(compared: Compared) -> dict[str, list[tuple[str, dict[str, Row]]]]:
    """{metric: [(name of the row, {side: row})]}, in order."""
    by_metric: dict[str, dict[str, dict[str, Row]]] = {}
    for row in _rows(compared):
        by_metric.setdefault(row["metric"], {}).setdefault(row["row"], {})[row["side"]] = row
    return {metric: list(lines.items()) for metric, lines in by_metric.items()}


def table(compared: Compared) -> list[str]:
    """The table as lines for a terminal: below each point its figures, a line per side."""
    rows = [
        (name, (wording.title(metric), side, *figure_cells(row, compared["margin_percent"])))
        for metric, lines in lines_of(compared).items()
        for name, of in lines
        for side, row in of.items()
    ]
    return by_points(("metric", "side", *FIGURES), rows)


def cell(row: Row, margin_percent: float) -> str:
    """'26.1k, +30 % (+28 % … +32 %), better': the figure, its change with the interval, and the verdict."""
    shown = value(row["metric"], row["candidate"]["value"])
    if "change_percent" not in row:
        return f"{shown}, {words(row, margin_percent)}"
    # The interval is there already.
    brief = row["verdict"] in ("better", "worse", "different", "no_difference")
    verdict = VERDICT_TITLES[row["verdict"]].lower() if brief else words(row, margin_percent)
    return f"{shown}, {signed(row['change_percent'])} ({interval(row)}), {verdict}"


# -- Markdown and HTML ------------------------------------------------------------------------------------------------


def markdown(compared: Compared) -> str:
    return filled("sides.md.j2", **_content(compared))


def html(compared: Compared) -> str:
    lines = lines_of(compared)
    figures = sections({"rows": _rows(compared), "margin_percent": compared["margin_percent"]})
    return filled(
        "sides.html.j2",
        **_content(compared),
        marks={(row["side"], row["row"], row["metric"]): mark for section in figures for row, mark in section["rows"]},
        # A column is too narrow for more than the ends and the middle.
        axes={
            section["metric"]: sorted({section["ticks"][0], (50.0, "0"), section["ticks"][-1]}) for section in figures
        },
        charts={
            metric: shapes().chart(chart(f"m{index}-chart", metric, of, [side["name"] for side in compared["sides"]]))
            for index, (metric, of) in enumerate(lines.items(), 1)
        },
        tiles=[(verdict, VERDICT_TITLES[verdict]) for verdict in shown_verdicts(compared["counts"])],
        style=style((), "compare.css", "sides.css"),
        script=asset("script.js"),
    )


def _content(compared: Compared) -> dict[str, object]:
    """The sentences that page and Markdown share."""
    return {
        "compared": compared,
        "title_of_all": title(compared),
        "names": [side["name"] for side in compared["sides"]],
        "lines": lines_of(compared),
        "environment": environment(compared),
        "left_out": left_out(compared),
        "cell": cell,
        "confidence": f"{100 - 5 / len(compared['sides']):.4g} %",
        "figures": sum(compared["counts"].values()),
    }


def environment(compared: Compared) -> list[dict[str, object]]:
    """[{fact, status, baseline, sides: {name: text, None where it is that of the baseline}}] of every fact in which a side differs from the baseline."""
    entries: dict[str, dict[str, Any]] = {}
    for side in compared["sides"]:
        for difference in side["environment"]:
            entry = entries.setdefault(
                difference["fact"],
                {
                    "fact": difference["fact"],
                    "status": difference["status"],
                    "baseline": difference.get("baseline", units.ABSENT),
                    "sides": dict.fromkeys(other["name"] for other in compared["sides"]),
                },
            )
            entry["sides"][side["name"]] = difference.get("candidate", units.ABSENT)
    return [entries[fact] for fact in sorted(entries)]


def left_out(compared: Compared) -> list[tuple[str, list[str]]]:
    """[(heading, [sentence])] of what counts in no figure; what is the baseline's own stands once."""
    unmatched: list[str] = []
    failed: list[str] = []
    damaged: list[str] = []
    for side in compared["sides"]:
        for entry in side["unmatched"]:
            what = entry["point"] + (f", {wording.title(entry['metric'])}" if "metric" in entry else "")
            unmatched.append(
                f"{side['name']} lacks {what}" if entry["side"] == "baseline" else f"only {side['name']} has {what}"
            )
        for entries, sentences, key in ((side["failed"], failed, "point_id"), (side["damaged"], damaged, "file")):
            for entry in entries:
                who = "baseline" if entry["side"] == "baseline" else side["name"]
                sentences.append(f"{who}: {entry[key]}: {entry['reason']}")
    headings = (
        ("Measured on one side only", unmatched),
        ("Points that failed", failed),
        ("Files that could not be used", damaged),
    )
    return [(heading, list(dict.fromkeys(sentences))) for heading, sentences in headings if sentences]


# -- the chart of a figure --------------------------------------------------------------------------------------------


def chart(ident: str, metric: str, lines: list[tuple[str, dict[str, Row]]], names: list[str]) -> plot.Chart:
    """All sides at all points on one axis: a dot the figure, a bar over its repetitions, dashed where the baseline lies."""
    height = sum(HEAD + ROW * (1 + len(of)) + REST for _name, of in lines)
    values: list[float] = []
    rows: list[tuple[str, str, float, SideFigure, str]] = []  # name, class, pixels from the top, side of a row, change
    places, references = [], []
    top = 0
    for name, of in lines:
        places.append((top, name))
        first = next(iter(of.values()))
        begin = top + HEAD
        rows.append(("baseline", BASELINE, begin + ROW / 2, first["baseline"], ""))
        for index, (side, row) in enumerate(of.items(), 1):
            change = signed(row["change_percent"]) if "change_percent" in row else ""
            css = COLOURS[names.index(side) % len(COLOURS)]
            rows.append((side, css, begin + ROW * (index + 0.5), row["candidate"], change))
        references.append((first["baseline"]["value"], begin, begin + ROW * (1 + len(of))))
        top = begin + ROW * (1 + len(of)) + REST
    for _name, _css, _at, part, _change in rows:
        values += [part["value"], part["low"], part["high"]]
    x = charts.value_axis(values, lambda number: value(metric, number), wording.title(metric), _unit(metric))
    y = plot.Axis(
        "linear",
        0,
        height,
        tuple((height - at, _short(name)) for name, _css, at, _part, _change in reversed(rows)),
        "",
    )

    def down(pixels: float) -> int:
        return round(plot.UP * pixels / height)

    bars = joined(
        plot.bars([((part["value"], part["low"], part["high"]), (height - at,) * 3)], x, y, css)
        for _name, css, at, part, _change in rows
    )
    dashed = "".join(f"M{round(plot.ACROSS * x.at(at))} {down(begin)}V{down(end)}" for at, begin, end in references)
    dots = joined(
        shapes().group(
            css, [plot.dot(part["value"], height - at, x, y, height, f"{name}: {_words(metric, part, change)}")]
        )
        for name, css, at, part, change in rows
    )
    titles = joined(shapes().lane_name("", False, at + 16, name) for at, name in places)
    described = "; ".join(
        f"{name}: "
        + ", ".join(
            [
                f"baseline {value(metric, next(iter(of.values()))['baseline']['value'])}",
                *(f"{side} {value(metric, row['candidate']['value'])}" for side, row in of.items()),
            ]
        )
        for name, of in lines
    )
    return plot.frame(
        ident,
        f"{wording.title(metric)} of all sides",
        f"{described}.",
        x,
        y,
        height,
        shapes().path("reference", dashed) + bars,
        titles + dots,
        ends=[
            (" ".join(filter(None, (value(metric, part["value"]), change))), css, 1 - at / height)
            for _name, css, at, part, change in rows
        ],
        css="sides",
        about=plot.ABOUT - 220,
        phone=NARROW,
    )


def _short(name: str) -> str:
    return name if len(name) <= NAME else name[: NAME - 1] + "…"


def _words(metric: str, part: SideFigure, change: str) -> str:
    """'26.1k (25.8k to 26.4k), +30 %'."""
    text = value(metric, part["value"])
    if part["low"] != part["high"]:
        text += f" ({value(metric, part['low'])} to {value(metric, part['high'])})"
    return text + (f", {change}" if change else "")


def _unit(metric: str) -> str:
    last = metric.rpartition(".")[2]
    return "ns" if last.startswith("latency_") else "iops" if last == "iops" else ""
