# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole report as JSON, for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from ...module_utils.result.result import PARTS
from ..store.alike import Ordered, lent
from ..store.cells import Cell
from ..store.point_index import Texts
from .nouns import Report, Waterfall
from .rows import row


def results_json(report: Report) -> Iterator[str]:
    """Everything the report says, for programs, in pieces; the histograms stay in the points' own files."""
    content = {
        "schema": "storlab.report/1",
        **{
            key: getattr(report, key)
            for key in (
                "title",
                "testbed_id",
                "run_id",
                "started_utc",
                "finished_utc",
                "verdict",
                "trust",
                "verified",
                "next_step",
                "engines",
                "ios",
                "targets",
                "flags",
                "damaged",
                "layers",
            )
        },
        "workloads": map(_of_workload, report.waterfalls),
        "points": _points(report.points),
        "installations": report.installations,
        **({"installation_verdicts": report.installation_verdicts} if report.installation_verdicts else {}),
        "databases": report.databases,
        **({"beats": report.beats, "beats_unplayed": report.unplayed} if report.beats or report.unplayed else {}),
        **({"networks": report.networks} if report.networks else {}),
        "hosts": {
            machine["host"]: {"machine": machine["machine"], "environment": dict(machine["all"])}
            for machine in report.machines
        },
    }
    return _json_pieces(content)


def json_of(content: Mapping[str, object]) -> str:
    """A line per key, and of lists a line per element: readable, diffable, and written by the encoder in C, which indents nothing."""
    return "".join(_json_pieces(content))


def _json_pieces(content: Mapping[str, object]) -> Iterator[str]:
    """The same in pieces. A list may be an iterator."""
    for number, key in enumerate(sorted(content)):
        value = content[key]
        yield f"{',' if number else '{'}\n{_json(key)}: "
        if isinstance(value, (list, Iterator)):
            began = False
            for element in value:
                yield f"{',' if began else '['}\n{element.text if isinstance(element, _Written) else _json(element)}"
                began = True
            yield "\n]" if began else "[]"
        else:
            yield _json(value)
    yield "\n}\n"


_json = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode
_json_ordered = json.JSONEncoder(ensure_ascii=False).encode  # sorting the keys of a point takes as long as writing it


class _Written(NamedTuple):
    """An element of a list that is JSON already."""

    text: str


def _of_workload(waterfall: Waterfall) -> dict[str, object]:
    return {
        "workload_id": waterfall.workload_id,
        "workload": waterfall.workload,
        "notes": waterfall.notes,
        "missing": waterfall.missing,
        "layers": [
            {**row(step), "flags": step.cell.flags, "points": step.cell.points, "figures": _figures(step.cell)}
            for step in waterfall.steps
        ],
        **({"splits": [asdict(shares) for shares in waterfall.splits]} if waterfall.splits else {}),
    }


def _figures(cell: Cell) -> dict[str, object]:
    return {
        direction: {
            metric: {"value": figure.value, "low": figure.low, "high": figure.high}
            for metric, figure in figures.items()
        }
        for direction, figures in cell.figures.items()
    }


def _points(points: list[dict[str, Any]]) -> Iterator[_Written]:
    """The points without their histograms, from the index where that has their text."""
    for point, known in lent(points, Texts.results):
        yield _Written(known) if known else _point(point)


def _point(point: dict[str, Any]) -> _Written:
    """The point without its histograms."""
    bare = {
        key: {name: part for name, part in value.items() if name != "histogram"}
        if key in PARTS and value and "histogram" in value
        else value
        for key, value in point.items()
    }
    if not isinstance(point, Ordered):
        return _Written(_json(bare))
    bare["files"] = dict(sorted(point["files"].items()))
    return _Written(_json_ordered(bare))
