# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as Markdown."""

from __future__ import annotations

from typing import Any

from ...module_utils.core.layers import DECLARED, Layer, link
from . import databases, views
from .markup import fill
from .nouns import Report
from .rows import flushes, latency, not_measured, takes_away
from .sentences import workload_words


def markdown(report: Report) -> str:
    choices = views.base.Choices(report)
    return fill(
        "report.md.j2",
        report=report,
        latency=latency,
        takes_away=takes_away,
        not_measured=not_measured,
        flushes=lambda waterfall: flushes(report, waterfall, choices),
        splits=views.counters.tables,
        published_loads=databases.published(report.record),
        lanes=_lanes(report),
        links=_links(report),
        words=workload_words,
    )


def _links(report: Report) -> dict[str, str]:
    """{layer: the arrow from the layer below it}."""
    by_name = {layer["name"]: layer for layer in report.layers}
    return {name: "⇢ (declared)" if link(by_name, layer) == DECLARED else "→" for name, layer in by_name.items()}


def _lanes(report: Report) -> list[list[Layer]]:
    """Each chain bottom first, for Markdown, where there is no picture."""
    by_name = {layer["name"]: layer for layer in report.layers}
    parents = {layer.get("parent") for layer in report.layers}
    lanes = []
    for layer in report.layers:
        if layer["name"] in parents or layer["kind"] == "ceiling":
            continue
        lane: list[Layer] = []
        name: Any = layer["name"]
        while name in by_name and by_name[name] not in lane:
            lane.insert(0, by_name[name])
            name = by_name[name].get("parent")
        lanes.append(lane)
    return lanes
