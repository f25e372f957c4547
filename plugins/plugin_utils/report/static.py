# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each chart of a report as a file of its own, for a paper or a wiki: light, with the styles it needs and nothing from outside.

The charts are those of the page. Its style sheet is cut down to what a chart uses and said without variables and mixed colours, which only browsers
know: the colour of a layer becomes ``currentColor``, a mixture with the background becomes an opacity.
"""

from __future__ import annotations

import re
import struct
import zlib
from html import escape, unescape

from ...module_utils.core import units
from . import charts, views
from .model import Report, Waterfall, workload_words

WIDE = 920  # pixels of a chart with its margins
ROW, NAME, MARK, GAP = 46, 190, 190, 42  # of the waterfall: height of a row, widths of its columns and between them
TITLE, FOOT, EDGE = 44, 30, 18  # pixels above, below and beside a chart
KEPT = (
    "fill",
    "stroke",
    "opacity",
    "font",
    "text-anchor",
    "text-decoration",
    "paint-order",
    "vector-effect",
    "transform",
    "color",
)
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
PNG_SOURCE = b"storlab-source\0"  # keyword of the text chunk that says which SVG a PNG was made of


def pictures(report: Report, page: str) -> dict:
    """File name -> SVG of every chart of the page that render.html made of the report."""
    css = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    sheet = Sheet(css)
    caption = f"{report.testbed_id} · {report.run_id}"
    choices = views.Choices(report)
    apart = views.drawn(report, views.SECTIONS)
    drawn = [
        waterfall_chart(waterfall, choices)
        for waterfall in report.waterfalls
        if waterfall.steps and waterfall.workload_id in apart
    ]
    drawn += [chart for chart in _charts(page) if not re.match(r'<svg class="[^"]*\bnarrow\b', chart)]
    found: dict = {}
    for chart in drawn:
        title = unescape(re.search(r"<title[^>]*>(.*?)</title>", chart, re.DOTALL)[1])
        name = re.sub(r"[^a-z0-9]+", "-", title.lower().replace("µ", "u")).strip("-")[:120]
        same = sum(re.fullmatch(rf"charts/{re.escape(name)}(-\d+)?\.svg", other) is not None for other in found)
        found[f"charts/{name}{f'-{same + 1}' if same else ''}.svg"] = _alone(chart, title, caption, sheet)
    return found


def _charts(page: str) -> list:
    """The text of each chart, with what is nested in it."""
    found = []
    for match in re.finditer(r'<svg class="chart ', page):
        depth = 0
        for tag in re.finditer(r"<svg\b|</svg>", page[match.start() :]):
            depth += 1 if tag.group() == "<svg" else -1
            if not depth:
                found.append(page[match.start() : match.start() + tag.end()])
                break
    return found


def _alone(chart: str, title: str, caption: str, sheet: Sheet) -> str:
    """The chart between its title and where it comes from, on a page of its own."""
    # In the page it stands above others that share its axis of time, and only the lowest names it.
    if 'class="chart plot time upper"' in chart:
        chart = chart.replace(" upper", "", 1).replace('"></text>', f'">{charts.SECONDS}</text>', 1)
    head, rest = re.match(r"(<svg[^>]*>)(.*)", chart, re.DOTALL).groups()
    classes = re.search(r'class="([^"]*)"', head)[1].split()
    box, style = re.search(r'viewBox="0 0 (\S+) (\S+)"', head), dict(re.findall(r"([\w-]+):(\d+)px", head))
    if box:
        width, height = (float(side) for side in box.groups())
        left, top, wide, high = EDGE, TITLE, width + 2 * EDGE, TITLE + height + FOOT
    else:
        over, right, below, begin = sheet.margins(classes, float(style["--r"]))
        height, left, top, wide = float(style["height"]), EDGE + begin, TITLE + over, WIDE
        width, high = wide - left - right - EDGE, top + height + below + FOOT
    attributes = f'x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" overflow="visible"'
    head = re.sub(r' style="[^"]*"| data-[xy]="[^"]*"', "", head)[:-1] + f" {attributes}>"
    head = head.replace("<svg", '<svg font-family="sans-serif"', 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{high:g}" viewBox="0 0 {wide:g} {high:g}" color="{sheet.colour("dim")}">'
        f"<style>{sheet.of(chart)}</style>"
        f'<rect width="100%" height="100%" fill="{sheet.colour("panel")}"/>'
        f'<text x="{EDGE}" y="26" font-family="sans-serif" font-size="15" font-weight="600" fill="{sheet.colour("ink")}">{escape(title)}</text>'
        f'<text x="{EDGE}" y="{high - 10:g}" font-family="sans-serif" font-size="11" fill="{sheet.colour("dim")}">{escape(caption)}</text>'
        f"{head}{rest}</svg>\n"
    )


# -- the waterfall, which in the page is a table ---------------------------------------------------------------------


def waterfall_chart(waterfall: Waterfall, choices: views.Choices) -> str:
    """Layer, IOPS on a log axis, mean latency on a linear one, and what the layer takes away, from the bottom of the chain to its top."""
    steps = waterfall.steps
    rates = [figure for step in steps if (figure := step.cell.figure("iops")) and figure.low > 0]
    ticks = charts.log_ticks(min(figure.low for figure in rates), max(figure.high for figure in rates)) if rates else []
    full = max((value for step in steps if (value := step.cell.value("latency_mean_ns")) is not None), default=0)
    columns = [NAME, NAME + MARK + GAP, NAME + 2 * (MARK + GAP)]
    height, title = 34 + ROW * len(steps), escape(f"Layer waterfall: {workload_words(waterfall.workload)}")
    out = [
        f'<svg class="chart chain" viewBox="0 0 {columns[2] + 250} {height}" role="img"><title>{title}</title><g class="axis">'
        f'<text class="up" x="{columns[0]}" y="12">IOPS, log</text><text class="up" x="{columns[1]}" y="12">mean latency</text>'
        f'<text class="up" x="{columns[2]}" y="12">takes away</text>'
    ]
    out += [
        f'<text x="{columns[0] + MARK * charts.log_position(tick, ticks):.1f}" y="28">{units.tick(units.iops(tick))}</text>'
        for tick in ticks
    ]
    out += [
        f'<text x="{columns[1] + MARK * share:.1f}" y="28">{escape(units.latency(full * share)) if share else "0"}</text>'
        for share in (0, 0.5, 1)
        if full
    ]
    out.append("</g>")
    for index, step in enumerate(steps):
        cell, top = step.cell, 34 + ROW * index
        rate, mean = cell.figure("iops"), cell.value("latency_mean_ns")
        below = step.below.value("latency_mean_ns") if step.below and step.relation != "ceiling" else 0
        out.append(
            f'<g class="{choices.layer(cell.layer)}"><path class="grid" d="M0 {top}H{columns[2] + 250}"/>'
            f'<text class="node-name" x="0" y="{top + 19}">{escape(cell.layer)}</text>'
            f'<text class="node-path" x="0" y="{top + 35}">{escape(cell.host)}</text>'
        )
        if rate and rate.low > 0:
            out.append(
                _placed(charts.rate_mark(rate, ticks), columns[0], top)
                + f'<text class="node-figure" x="{columns[0]}" y="{top + 40}">'
                f"{escape(views.spread(rate, units.iops))}</text>"
            )
        if mean is not None and full:
            out.append(
                _placed(
                    charts.added_mark(below or 0, mean, full, step.comparable or step.relation == "ceiling"),
                    columns[1],
                    top,
                )
                + f'<text class="node-figure" x="{columns[1]}" y="{top + 40}">{escape(units.latency(mean))}</text>'
            )
        added = units.added_latency(step.added_mean_ns) if step.comparable else "not comparable"
        if step.below:
            out.append(
                f'<text class="node-name" x="{columns[2]}" y="{top + 19}">{escape(added)}</text><text class="node-path" x="{columns[2]}" y="{top + 35}">'
                f"IOPS {units.ratio(step.iops_ratio)} of {escape(step.below.layer)}</text>"
            )
        out.append("</g>")
    return "".join(out) + "</svg>"


def _placed(mark: str, left: float, top: float) -> str:
    return str(mark).replace(
        'aria-hidden="true"', f'x="{left}" y="{top + 4}" width="{MARK}" height="22" overflow="visible"', 1
    )


# -- its style sheet -------------------------------------------------------------------------------------------------


class Sheet:
    """The page's style sheet as far as it says how pictures look on a screen in the light."""

    def __init__(self, css: str):
        css = re.sub(
            r"/\*.*?\*/|@page[^{]*\{[^}]*\}|@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", css, flags=re.DOTALL
        )
        self.rules = [
            (part.strip(), declarations)
            for selectors, declarations in re.findall(r"([^{}]+)\{([^{}]*)\}", css)
            for part in selectors.split(",")
        ]
        self.variables = dict(
            re.findall(
                r"--([\w-]+):\s*([^;]+)", next(declarations for part, declarations in self.rules if part == ":root")
            )
        )

    def colour(self, name: str) -> str:
        return self.variables[name].strip()

    def margins(self, classes: list, right: float) -> tuple:
        """Pixels above, right of, below and left of a plot of these classes."""
        over = below = left = 0.0
        for part, declarations in self.rules:
            if re.fullmatch(r"(\.[\w-]+)+", part) and set(part[1:].split(".")) <= set(classes):
                around = re.search(r"margin: (\d+)px var\(--r\) (\d+)px", declarations)
                over, below = (float(around[1]), float(around[2])) if around else (over, below)
                below = float(found[1]) if (found := re.search(r"margin-bottom: (\d+)px", declarations)) else below
                left = float(found[1]) if (found := re.search(r"--l: (\d+)px", declarations)) else left
        return over, right, below, left

    def of(self, chart: str) -> str:
        """The rules that something in the chart can meet."""
        classes = {name for names in re.findall(r'class="([^"]*)"', chart) for name in names.split()}
        tags = set(re.findall(r"<(\w+)", chart))
        found = []
        for part, declarations in self.rules:
            used = set(re.findall(r"\.([\w-]+)", part))
            if used and used <= classes and set(re.findall(r"(?:^|[\s>+~])([a-z][\w-]*)", part)) <= tags:
                kept = [said for said in map(self._plain, declarations.split(";")) if said]
                if kept:
                    found.append(f"{part}{{{';'.join(kept)}}}")
        return escape("".join(found), quote=False)

    def _plain(self, declaration: str) -> str:
        """One declaration without variables; empty when it says nothing about a picture."""
        name, _colon, value = (text.strip() for text in declaration.partition(":"))
        name = "color" if name == "--k" else name
        if not name.startswith(KEPT):
            return ""
        value = re.sub(r"var\(--k\)", "currentColor", value)
        value = re.sub(r"var\(--([\w-]+)\)", lambda match: self.colour(match[1]), value)
        mixed = re.match(r"color-mix\(in srgb, (\S+) (\d+)%,.*\)$", value)
        return f"{name}:{mixed[1]};{name}-opacity:{int(mixed[2]) / 100:g}" if mixed else f"{name}:{value}"


def size(svg: str) -> tuple:
    """Width and height of one of these pictures, in whole pixels."""
    return tuple(round(float(side)) for side in re.match(r'<svg[^>]* width="([\d.]+)" height="([\d.]+)"', svg).groups())


# -- PNG -------------------------------------------------------------------------------------------------------------


def with_source(png: bytes, sha256: str) -> bytes:
    """The PNG with a text chunk (PNG specification, 11.3.3.2) that says of which SVG it is, so that it is drawn anew only for another one."""
    content = b"tEXt" + PNG_SOURCE + sha256.encode("ascii")
    end = png.rindex(b"IEND") - 4
    return (
        png[:end] + struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content)) + png[end:]
    )


def source_of(png: bytes) -> str | None:
    """SHA-256 of the SVG that this PNG was made of; None when it does not say."""
    found = re.search(re.escape(PNG_SOURCE) + rb"([0-9a-f]{64})", png) if png.startswith(PNG_SIGNATURE) else None
    return found[1].decode("ascii") if found else None
