# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each chart of a report as a file of its own, for a paper or a wiki: light, with the styles it needs and nothing from outside.

The charts are the page's, out of the same templates (chart.svg.j2, chart.css.j2); around them a file has a title and says where it is from.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from ...module_utils.core import units
from . import charts, html_page, plot, theme, views
from .markup import fill, templates
from .nouns import Report, Waterfall
from .sentences import workload_words

CHARTS, CAPTIONS = "charts", "captions.md"
WIDE = 920  # pixels of a chart with its margins
ROW, NAME, MARK, GAP, TAKES = (
    46,
    190,
    190,
    42,
    250,
)  # of the waterfall: height of a row, widths of its columns and between them
HEAD = 34  # pixels of the waterfall above its first row
TITLE, FOOT, EDGE = 44, 30, 18  # pixels above, below and beside a chart
# Pixels that the labels of a plot need above, below and left of it.
ABOVE, BELOW, LEFT = 28, 46, {"lanes": 14, "heat": 46}
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
PNG_SOURCE = b"storlab-source\0"  # keyword of the text chunk that says which SVG a PNG was made of


def files(report: Report, formats: list[str]) -> dict[str, str]:
    """File name -> text of every chart in these formats, with their captions; nothing without a format."""
    named = _named(report) if formats else {}
    drawn = {f"{CHARTS}/{name}.{form}": svg for name, (_chart, svg) in named.items() for form in formats}
    return {**drawn, **({f"{CHARTS}/{CAPTIONS}": captions(report, named)} if named else {})}


def captions(report: Report, named: Mapping[str, object]) -> str:
    """For an author: of each chart what it shows in words, and the line that says where its figures are from."""
    return fill("captions.md.j2", charts=named, source=source(report))


def source(report: Report) -> str:
    """'Testbed t, run r, 2026-11-21 14:00 UTC; fio-3.33, 2 repetitions; hosts …': what a figure is cited with."""
    low, high = report.repetitions
    often = f"{low}" if low == high else f"{low} to {high}"
    hosts = ", ".join(
        f"{machine['host']} ({machine['machine']})" if machine["machine"] != "unknown" else machine["host"]
        for machine in report.machines
    )
    return (
        f"Testbed {report.testbed_id}, run {report.run_id}, {units.moment(report.started_utc)}; "
        f"{', '.join(report.engines) or 'generator unknown'}, {often} repetition{'' if high == 1 else 's'} per layer; {hosts}. "
        "Measured and drawn with storlab.testbed."
    )


def _named(report: Report) -> dict[str, Any]:
    """Name -> (chart, SVG); charts of one title are numbered."""
    choices = views.base.Choices(report)
    apart = views.base.drawn(report, views.base.SECTIONS)
    drawn: list[Any] = [
        waterfall_chart(waterfall, choices)
        for waterfall in report.waterfalls
        if waterfall.steps and waterfall.workload_id in apart
    ]
    drawn += [chart for chart in html_page.drawn(html_page.content(report)) if "narrow" not in chart.css.split()]
    named: dict[str, Any] = {}
    caption = f"{report.testbed_id} · {report.run_id}"
    for chart in drawn:
        name = re.sub(r"[^a-z0-9]+", "-", chart.title.lower().replace("µ", "u")).strip("-")[:120]
        same = sum(re.fullmatch(rf"{re.escape(name)}(-\d+)?", other) is not None for other in named)
        named[f"{name}-{same + 1}" if same else name] = (chart, alone(chart, caption, choices.coloured()))
    return named


def alone(chart: plot.Chart, caption: str, coloured: list[tuple[str, str]]) -> str:
    """The chart between its title and where it comes from, on a page of its own."""
    if isinstance(chart, plot.Plot) and chart.upper:
        # In the page it is above others that share its axis of time, and only the lowest names it.
        chart = replace(chart, upper=False, css=chart.css.replace(" upper", ""))
    if chart.width:
        left, top, wide, high = EDGE, TITLE, chart.width + 2 * EDGE, TITLE + chart.height + FOOT
        width = chart.width
    else:
        begin = next((pixels for css, pixels in LEFT.items() if css in chart.css.split()), 58)
        left, top, wide = EDGE + begin, TITLE + ABOVE, WIDE
        width, high = wide - left - int(chart.right) - EDGE, top + chart.height + BELOW + FOOT
    return fill(
        "file.svg.j2",
        chart=chart,
        caption=caption,
        place={"left": left, "top": top, "width": width, "wide": wide, "high": high, "edge": EDGE},
        theme=theme,
        c=theme.PLAIN,
        alone=True,
        coloured=(*theme.COLOURED, *coloured),
    )


# -- the waterfall, which in the page is a table ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Ladder(plot.Chart):
    """ticks: [(x, label)]; columns: [(x, title)]; rows: [{css, y, texts: [(css, x, y, text)], marks: [(x, mark)]}]."""

    columns: list[Any]
    ticks: list[Any]
    rows: list[Any]
    mark = MARK

    @property
    def body(self) -> Markup:
        markup: Markup = templates().get_template("ladder.svg.j2").module.ladder(self)
        return markup


def waterfall_chart(waterfall: Waterfall, choices: views.base.Choices) -> Ladder:
    """Layer, IOPS on a log axis, mean latency on a linear one, and what the layer takes away, from the bottom of the chain to its top."""
    steps = waterfall.steps
    rates = [figure for step in steps if (figure := step.cell.figure("iops")) and figure.low > 0]
    scale = charts.log_ticks(min(figure.low for figure in rates), max(figure.high for figure in rates)) if rates else []
    full = max((value for step in steps if (value := step.cell.value("latency_mean_ns")) is not None), default=0)
    rate_at, mean_at, takes_at = NAME, NAME + MARK + GAP, NAME + 2 * (MARK + GAP)
    rows = []
    for index, step in enumerate(steps):
        cell, top = step.cell, HEAD + ROW * index
        rate, mean = cell.figure("iops"), cell.value("latency_mean_ns")
        below = step.below.value("latency_mean_ns") if step.below and step.relation != "ceiling" else 0
        texts = [("node-name", 0, top + 19, cell.layer), ("node-path", 0, top + 35, cell.host)]
        marks = []
        if rate and rate.low > 0:
            marks.append((rate_at, charts.rate_mark(rate, scale)))
            texts.append(("node-figure", rate_at, top + 40, views.base.spread(rate, units.iops)))
        if mean is not None and full:
            solid = step.comparable or step.relation == "ceiling"
            marks.append((mean_at, charts.added_mark(below or 0, mean, full, solid)))
            texts.append(("node-figure", mean_at, top + 40, units.latency(mean)))
        if step.below:
            added = units.added_latency(step.added_mean_ns) if step.comparable else "not comparable"
            texts.append(("node-name", takes_at, top + 19, added))
            texts.append(
                ("node-path", takes_at, top + 35, f"IOPS {units.ratio(step.iops_ratio)} of {step.below.layer}")
            )
        rows.append({"css": choices.layer(cell.layer), "y": top, "texts": texts, "marks": marks})
    shares = (0, 0.5, 1) if full else ()
    return Ladder(
        "waterfall",
        f"Layer waterfall: {workload_words(waterfall.workload)}",
        f"{len(steps)} layers, from the bottom of the chain to its top.",
        "chain",
        HEAD + ROW * len(steps),
        takes_at + TAKES,
        columns=[(rate_at, "IOPS, log"), (mean_at, "mean latency"), (takes_at, "adds")],
        ticks=[
            *(
                (f"{rate_at + MARK * charts.log_position(tick, scale):.1f}", units.tick(units.iops(tick)))
                for tick in scale
            ),
            *((f"{mean_at + MARK * share:.1f}", units.latency(full * share) if share else "0") for share in shares),
        ],
        rows=rows,
    )


# -- PNG -------------------------------------------------------------------------------------------------------------


def size(svg: str) -> tuple[int, int]:
    """Width and height of one of these pictures, in whole pixels."""
    match = re.match(r'<svg[^>]* width="([\d.]+)" height="([\d.]+)"', svg)
    if match is None:
        raise ValueError("this is not one of these pictures")
    return round(float(match[1])), round(float(match[2]))


def with_source(png: bytes, sha256: str) -> bytes:
    """The PNG with a text chunk (PNG specification, 11.3.3.2) that names its SVG, so that it is drawn again only for a different one."""
    content = b"tEXt" + PNG_SOURCE + sha256.encode("ascii")
    end = png.rindex(b"IEND") - 4
    return (
        png[:end] + struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content)) + png[end:]
    )


def source_of(png: bytes) -> str | None:
    """SHA-256 of the SVG that this PNG was made of; None when it does not say."""
    match = re.search(re.escape(PNG_SOURCE) + rb"([0-9a-f]{64})", png) if png.startswith(PNG_SIGNATURE) else None
    return match[1].decode("ascii") if match else None
