# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as one HTML page that needs nothing from outside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...module_utils.core import units
from . import charts, databases, plot, points_table, views
from .chain_chart import Chain, chain_chart
from .markup import asset, pieces, style, templates
from .nouns import Report, Step
from .plot import Plot
from .points_table import POINT_METRICS, figure, traces
from .rows import takes_away
from .sentences import workload_words
from .tables import Field, Table, bounds, cell, words
from .waterfall import lane
from .workload_section import section

WIDE, NARROW = 1040, 360  # of the chain


def html(report: Report) -> str:
    return "".join(html_pieces(report))


def html_pieces(report: Report) -> Iterator[str]:
    """The page in pieces, none of which has more than one section."""
    return pieces("report.html.j2", **content(report))


def content(report: Report) -> dict[str, Any]:
    """The values for the page's template."""
    choices = views.base.Choices(report)
    pictured, apart = views.base.drawn(report, views.base.DISTRIBUTIONS), views.base.drawn(report, views.base.SECTIONS)
    sections = [
        section(index, waterfall, report, choices, waterfall.workload_id in pictured)
        for index, waterfall in enumerate(report.waterfalls)
        if waterfall.workload_id in apart
    ]
    grouped = len(report.points) > views.base.POINTS_APART
    # The workload measured at the most layers is what the report is about; the others follow after what they say together.
    first = next((section for section in sections if section["waterfall"] is report.headline), None)
    loads = databases.published(report.record)
    parts = {
        "first": first,
        "others": [section for section in sections if section is not first],
        "views": views.of_run(report, choices),
        "steady": views.steady.of_run(report, choices),
        "networks": views.networks.of_run(report),
        "beats": views.beats.of_run(report),
        "clients": views.clients.of_run(report, choices),
        "published": views.published.table(report, choices),
        "limits": any(figure.get("limit") for figure in views.figures.figures_of(report)),
        "installations": _installations(report),
        "installation_verdicts": [row["sentence"] for row in report.installation_verdicts],
        "databases": databases.table(report.databases, loads),
        "databases_by": databases.driven(report.databases),
        "overview": _overview(report),
        "published_loads": loads,
    }
    return {
        **parts,
        "iops": units.iops,
        "latency": units.latency,
        "tint": charts.tint,
        "words": workload_words,
        "report": report,
        "sections": _sections(parts),
        "choices": choices,
        "metric_words": views.base.METRIC_WORDS,
        "checks": views.checks.of_run(report),
        "profiles": views.figures.profiles(report),
        "chain": _chain(report),
        "tiles": _tiles(report),
        "further": _further(report, choices, apart),
        "points": (points_table.grouped if grouped else points_table.each)(report, choices),
        "grouped": grouped,
        "style": style(choices.coloured()),
        "script": asset("script.js"),
    }


def drawn(content: dict[str, Any]) -> list[Chain | Plot]:
    """Every chart of a page, in its order."""
    drawings = [*content["chain"], *(_drawn_of(content["first"]) if content["first"] else [])]
    drawings += [drawing.chart for view in content["views"] for panel in view.panels for drawing in panel.charts]
    return drawings + [chart for part in content["others"] for chart in _drawn_of(part)]


def _drawn_of(part: dict[str, Any]) -> list[object]:
    times = part["time"]["charts"] if part["time"] else []
    return [
        chart for chart in (part["distribution"], part["histogram"], *(drawing.chart for drawing in times)) if chart
    ]


def _sections(parts: dict[str, Any]) -> list[tuple[str, str]]:
    """[(id, name)] of the sections that the page has, as its navigation names them."""
    first = parts["first"]
    return [
        ("chain", "Chain"),
        *([("overview", "Workloads")] if parts["overview"] else []),
        *([(first["id"], "Layers")] if first else []),
        *((view.id, view.title) for view in parts["views"]),
        *(
            (name, words)
            for name, words in (
                ("installations", "Installations"),
                ("databases", "Databases"),
                ("published", "Published"),
                ("clients", "Clients"),
                ("networks", "Network"),
                ("beats", "Reference check"),
                ("steady", "Steady state"),
            )
            if parts[name]
        ),
        ("findings", "Findings"),
        ("environment", "Environment"),
        ("points", "Points"),
    ]


def _further(report: Report, choices: views.base.Choices, apart: set[str]) -> dict[str, object] | None:
    """{workloads, table} of the workloads without a section of their own: a row per layer, with the figures of a waterfall."""
    waterfalls = [
        (index, waterfall) for index, waterfall in enumerate(report.waterfalls) if waterfall.workload_id not in apart
    ]
    rows = []
    for index, waterfall in waterfalls:
        for number, step in enumerate(waterfall.steps):
            measured = step.cell
            # Where the list of all workloads leads to.
            ident = f"w{index + 1}" if not number else ""
            fields = [
                bounds(limits) if (limits := measured.between(metric)) else figure(measured.value(metric), word)
                for metric, word in POINT_METRICS
            ]
            rows.append(
                (
                    f"{choices.only(measured.layer)} {choices.pattern(waterfall.workload)}",
                    measured.layer,
                    [Field(waterfall.workload_id, ident=ident), *fields, words(takes_away(step))],
                )
            )
    head = [
        ("Layer", False),
        ("Workload", False),
        ("IOPS", True),
        ("MB/s", True),
        ("mean", True),
        ("p50", True),
        ("p99", True),
        ("Adds", False),
    ]
    return {"workloads": len(waterfalls), "table": Table("Further workloads", head, rows)} if rows else None


def _installations(report: Report) -> Table | None:
    """A row per installation: how long it took, and how many commands per second its datastore served at that time."""
    rows = []
    for timed in report.installations:
        counters = timed.get("counters") or {}
        rates = (counters.get("datastore") or {}).get("commands_s") or {}
        simulated = " (simulated)" if timed.get("simulated") else ""
        repetition = f" {timed['repetition']}" if "repetition" in timed else ""
        rows.append(
            (
                "",
                f"{timed['guest']}{repetition}{simulated}",
                [
                    words(timed["datastore"]),
                    cell(timed["duration_s"], units.latency(timed["duration_s"] * 1e9)),
                    *(figure(rates.get(key), units.iops) for key in ("mean", "p95", "max")),
                    figure(counters.get("samples"), str),
                    words(timed["iso"]),
                    words(timed["ended_by"].replace("_", " ")),
                    Field(templates().get_template("table.html.j2").module.traces(traces(timed["files"]))),
                ],
            )
        )
    head = [
        ("Guest", False),
        ("Datastore", False),
        ("Time", True),
        ("Commands/s", True),
        ("95 % at most", True),
        ("highest", True),
        ("Samples", True),
        ("Image", False),
        ("Ended by", False),
        ("Their file and SHA-256", False),
    ]
    return Table("Installations", head, rows) if rows else None


def _chain(report: Report) -> list[plot.Chart]:
    """The chain, wide and narrow."""
    figures = {}
    for step in report.headline.steps if report.headline else []:
        figures[step.cell.layer] = (
            f"{units.iops(step.cell.value('iops'))} IOPS · {units.latency(step.cell.value('latency_mean_ns'))}"
        )
    for waterfall in report.waterfalls:
        for step in waterfall.steps:
            figures.setdefault(step.cell.layer, "measured")
    drawn = (
        chain_chart(ident, report.layers, figures, width) for ident, width in (("chain-w", WIDE), ("chain-n", NARROW))
    )
    return [chart for chart in drawn if chart]


def _step_tile(step: Step) -> dict[str, object]:
    """Cost of the most expensive step, with its interval; where that holds none, too, the interval is all there is to take home."""
    repetitions = min(step.cell.repetitions, step.below.repetitions if step.below else step.cell.repetitions)
    below, between = f"{step.below.layer if step.below else ''} → {step.cell.layer}", step.added_between_ns
    added = units.added_latency(step.added_mean_ns)
    tile = {"label": "Most expensive step", "kind": step.cell.kind}
    if between is None:
        return {**tile, "value": added, "below": f"one repetition, no interval · {below}"}
    span = " to ".join(units.added_latency(value) for value in between)
    if between[0] <= 0 <= between[1]:
        return {
            **tile,
            "value": span,
            "unsure": True,
            "below": f"95 % interval; with {repetitions} repetitions this may be noise ({added} measured) · {below}",
        }
    return {**tile, "value": added, "below": f"95 %: {span} · {below}"}


def _tiles(report: Report) -> list[dict[str, object]]:
    """The four figures to take home: (label, value, line below)."""
    measured = len(report.points) - len(report.failed)
    low, high = report.repetitions
    often = (
        f"{low} repetition{'' if low == 1 else 's'} per layer"
        if low == high
        else f"{low} to {high} repetitions per layer"
    )
    tiles = []
    if report.headline:
        if report.headline.costliest:
            tiles.append(_step_tile(report.headline.costliest))
        cells = lane(report)
        ends = list(zip(("Top of the lane", "Lowest measured in it"), [cells[0], cells[-1]] if len(cells) > 1 else []))
        if report.beside:
            # No layer is above another here.
            by_name = {step.cell.layer: step.cell for step in report.headline.steps}
            sides = [by_name[name] for name in (report.beside.most, report.beside.least) if name in by_name]
            ends = list(zip(("One side", "The other side"), sides))
        for label, cell in ends:
            tiles.append(
                {
                    "label": label,
                    "value": f"{units.iops(cell.value('iops'))} IOPS",
                    "below": f"{cell.layer} · {units.latency(cell.value('latency_mean_ns'))} mean",
                    "kind": cell.kind,
                }
            )
    tiles.append(
        {
            "label": "Points measured",
            "value": f"{measured} of {len(report.points)}",
            "below": often if measured else "none succeeded",
            "kind": "",
        }
    )
    return tiles


def _overview(report: Report) -> dict[str, object] | None:
    """Workloads against layers; worth a table only when there is more than one workload."""
    if len(report.waterfalls) < 2:
        return None
    layers = [
        layer
        for layer in report.layers
        if any(step.cell.layer == layer["name"] for waterfall in report.waterfalls for step in waterfall.steps)
    ]
    rows = [
        (f"w{index + 1}", waterfall, {step.cell.layer: step.cell for step in waterfall.steps})
        for index, waterfall in enumerate(report.waterfalls)
    ]
    return {"layers": layers, "rows": rows}
