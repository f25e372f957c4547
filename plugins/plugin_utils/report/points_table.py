# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The points of a run as rows of the page, each with its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ...module_utils.core import units
from ...module_utils.result.schema import Result
from ..store.cells import bounds_of
from . import views
from .nouns import Report
from .tables import Field, bounds, cell, words

POINT_METRICS = (
    ("iops", units.iops),
    ("bandwidth_bytes_s", units.bandwidth),
    ("latency_mean_ns", units.latency),
    ("latency_p50_ns", units.latency),
    ("latency_p99_ns", units.latency),
)


def figure(value: object, word: Callable[[Any], str]) -> Field:
    return cell(value, "" if value is None else word(value))


def each(report: Report, choices: views.base.Choices) -> list[tuple[Any, ...]]:
    """A row per point: (name that links lead to, css, layer, fields, why it failed, kinds of files beside it, other files)."""
    linked = _linked(report)
    rows, absent = [], Field(units.ABSENT, css="absent")
    for point in report.points:
        layer, total = point["layer"], point.get("total") or point.get("read") or point.get("write") or {}
        failed = point["status"] != "measured"
        only = choices.only(layer)
        fields = [words(point["workload_id"]), words(point["repetition"])]
        if not failed:
            fields += [
                Field(word(value), value)
                if (value := total.get(metric)) is not None
                else bounds(limits)
                if (limits := bounds_of([total], metric))
                else absent
                for metric, word in POINT_METRICS
            ]
        cpu = [point["cpu"].get(key) for key in ("user_percent", "system_percent")]
        known = all(isinstance(value, (int, float)) for value in cpu)
        fields += [
            words("+".join(f"{value:.0f}" for value in cpu) + " %") if known else absent,
            words(_started(point, report.started_utc)),
        ]
        rows.append(
            (
                point["point_id"] if point["point_id"] in linked else "",
                f"{only} bad" if failed else only,
                layer,
                fields,
                _reasons(point) if failed else "",
                " ".join(kind for kind, file in point["files"].items() if _usual(kind, file)),
                traces(point["files"]),
            )
        )
    return rows


def grouped(report: Report, choices: views.base.Choices) -> list[tuple[Any, ...]]:
    """A row per layer and workload with the raw file of each repetition: the figures and checksums of ten thousand points are not for reading, but data.

    (css, layer, workload, [(name that links lead to, words, path, state)]).
    """
    linked = _linked(report)
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for point in report.points:
        groups.setdefault((point["workload_id"], point["layer"]), []).append(point)
    return [
        (choices.only(layer), layer, workload, _raw_files(points, linked))
        for (workload, layer), points in groups.items()
    ]


def _raw_files(points: list[dict[str, Any]], linked: set[str]) -> Iterator[tuple[str, str, str, str]]:
    """Made while the page is written: the rows of all points at once take as much memory as the page."""
    for point in points:
        raw = point["files"].get("raw")
        yield (
            point["point_id"] if point["point_id"] in linked else "",
            f"{point['repetition']}{'' if point['status'] == 'measured' else ' failed'}",
            quote(raw["path"]) if raw and raw["path"] else "",
            raw["state"] if raw else "matches",
        )


def _linked(report: Report) -> set[str]:
    """Only what something points at needs a name: the first point of each cell, and those that failed or did not pass."""
    linked = {step.cell.points[0] for waterfall in report.waterfalls for step in waterfall.steps}
    return linked | {
        point["point_id"] for point in report.points if point["status"] != "measured" or not views.checks.passed(point)
    }


def _started(point: Mapping[str, object], run_began: str) -> str:
    """The time of day, with the date only where it is not that of the run."""
    utc = str(point.get("started_utc") or units.ABSENT)
    return (utc[11:] if utc[:10] == run_began[:10] else utc.replace("T", " ")).replace("Z", "") or units.ABSENT


def _reasons(point: Result) -> str:
    return (
        " ".join(str(failure.get("message") or failure.get("code")) for failure in point.get("failures") or [])
        or "no reason was recorded"
    )


BESIDE = {"job": "job.fio", "series": "series.json"}


def _usual(kind: str, file: Mapping[str, object]) -> bool:
    """Whether the page's script can link it from the raw file's address: a thousand times the same words are spared."""
    return bool(file["name"] == BESIDE.get(kind) and file["state"] == "matches")


def traces(files: dict[str, dict[str, str]]) -> list[tuple[str, ...]]:
    """[(name, path, checksum, state)] of the raw file, and of the files beside it only of those that are not as usual."""
    return [
        (
            file["name"],
            quote(file["path"]) if file["path"] else "",
            str(file["sha256"] or "no checksum") if kind == "raw" else "",
            file["state"],
        )
        for kind, file in files.items()
        if not _usual(kind, file)
    ]
