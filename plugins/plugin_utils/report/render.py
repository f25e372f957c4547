# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report in its forms: HTML, Markdown, CSV, JSON and lines for the terminal. Text out, nothing is written here."""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from ...module_utils.core import units
from ...module_utils.core.layers import Layer
from ...module_utils.result.result import PARTS, PERCENTILES
from ...module_utils.workload.workload import Workload
from ..store.cells import Cell, bounds_of
from ..store.spreadsheet import harmless
from . import charts, databases, plot, views
from .markup import added_between, asset, fill, style, templates
from .model import SAMPLED, Report, Step, Waterfall, lane, workload_words
from .tables import Field, Table, bounds, cell, words

FILES = ("index.html", "report.md", "results.csv", "results.json")
METRICS = (
    "ios",
    "bytes",
    "iops",
    "bandwidth_bytes_s",
    "latency_mean_ns",
    "latency_min_ns",
    "latency_max_ns",
    "latency_stddev_ns",
    *PERCENTILES.values(),
)
CPU = ("user_percent", "system_percent", "host_busy_percent", "busiest_core_percent", "us_per_io", "mhz_per_iops")
STEADY = ("steady", "metric", "excursion_percent", "slope_percent")
WIDE, NARROW = 1040, 360  # of the chain


def files(report: Report) -> dict[str, str | Callable[[], Iterator[str]]]:
    """File name -> text of every file of the report, or what makes its text anew in pieces: those that grow with all that is known of each point."""
    return {
        "index.html": html(report),
        "report.md": markdown(report),
        "results.csv": functools.partial(results_csv, report),
        "results.json": functools.partial(results_json, report),
    }


def render(report: Report) -> dict[str, str]:
    """File name -> text of every file of the report."""
    return {name: text if isinstance(text, str) else "".join(text()) for name, text in files(report).items()}


# -- rows that every form shares -------------------------------------------------------------------------------------


def summary(report: Report) -> list[dict[str, Any]]:
    """One row per layer and workload, plain values; what was not measured is absent."""
    return [_row(step) for waterfall in report.waterfalls for step in waterfall.steps]


def _row(step: Step) -> dict[str, Any]:
    cell = step.cell
    row = {
        "workload_id": cell.workload_id,
        "layer": cell.layer,
        "layer_kind": cell.kind,
        "host": cell.host,
        "ioengine": cell.ioengine,
        "repetitions": cell.repetitions,
        **{
            metric: cell.value(metric)
            for metric in ("iops", "bandwidth_bytes_s", "latency_mean_ns", *PERCENTILES.values())
        },
        **{
            f"{metric.removesuffix('_ns')}_{edge}_ns": value
            for metric, limits in cell.bounds.get("total", {}).items()
            for edge, value in zip(("lower", "upper"), limits)
        },
        "below": step.below.layer if step.below else None,
        "relation": step.relation,
        "comparable": step.comparable if step.below else None,
        "overlap": step.overlap if step.below and step.comparable else None,
        "added_mean_ns": step.added_mean_ns,
        "added_mean_between_ns": step.added_between_ns,
        "latency_ratio": step.latency_ratio,
        "iops_ratio": step.iops_ratio,
        "share": step.share,
    }
    return {key: value for key, value in row.items() if value is not None}


def table(report: Report) -> list[str]:
    """The waterfalls as lines for a terminal."""
    lines: list[str] = []
    choices = views.Choices(report)
    head = ("layer", "host", "IOPS", "MB/s", "mean", "p50", "p99", "adds", "IOPS against")
    for waterfall in report.waterfalls:
        rows = [head] + [
            (
                step.cell.layer,
                step.cell.host,
                units.iops(step.cell.value("iops")),
                units.bandwidth(step.cell.value("bandwidth_bytes_s")),
                *(latency(step.cell, metric) for metric in ("latency_mean_ns", "latency_p50_ns", "latency_p99_ns")),
                units.added_latency(step.added_mean_ns if step.comparable else None),
                _against(step),
            )
            for step in waterfall.steps
        ]
        widths = [max(len(row[index]) for row in rows) for index in range(len(head))]
        lines.append(f"{waterfall.workload_id}: {workload_words(waterfall.workload)}")
        for row in rows:
            cells = [
                text.ljust(width) if index in (0, 1, 8) else text.rjust(width)
                for index, (text, width) in enumerate(zip(row, widths))
            ]
            lines.append(("  " + "  ".join(cells)).rstrip())
        lines.extend(f"  {text}" for text in flushes(report, waterfall, choices))
        lines.extend(f"  {shares.verdict}" for shares in waterfall.splits if shares.verdict)
        lines.extend(f"  not measured: {text}" for text in not_measured(waterfall))
    return lines + [f"target {judged['verdict']}: {judged['target']} ({judged['why']})" for judged in report.targets]


def latency(cell: Cell, metric: str) -> str:
    """A latency in words; of a percentile that no histogram tells, the bounds it lies between."""
    return units.latency_between(cell.between(metric)) if cell.between(metric) else units.latency(cell.value(metric))


def _against(step: Step) -> str:
    if step.below is None:
        return units.ABSENT
    remark = ", not comparable" if not step.comparable else ", repetitions overlap" if step.overlap else ""
    return f"{units.ratio(step.iops_ratio)} {step.below.layer}{remark}"


def not_measured(waterfall: Waterfall) -> list[str]:
    """'backing-ds1, initiator-ds1: it holds data …', one line a reason."""
    reasons: dict[str, Any] = {}
    for entry in waterfall.missing:
        reasons.setdefault(entry["reason"], []).append(entry["layer"])
    return [f"{', '.join(layers)}: {reason}" for reason, layers in reasons.items()]


def flushes(report: Report, waterfall: Waterfall, choices: views.Choices) -> list[str]:
    """'guest-guest01, flushes: mean 1.2 ms, p99 5.5 ms', one line per layer, and what was published of them."""
    flushed = views.flushes(waterfall, report, choices)
    names = [name for name, _number in flushed.head[1:]] if flushed else []
    return [
        f"{first}, flushes: "
        + ", ".join(f"{name} {field.text}" for name, field in zip(names, fields) if field.value is not None)
        for _css, first, fields in (flushed.rows if flushed else ())
    ]


def takes_away(step: Step) -> str:
    """'+1.21 ms (95 %: +1.10 ms to +1.32 ms), IOPS 0.31× of target-bench'."""
    if step.below is None:
        return units.ABSENT
    if not step.comparable:
        return f"not comparable, IOPS {units.ratio(step.iops_ratio)} of {step.below.layer}"
    return f"{units.added_latency(step.added_mean_ns)}{added_between(step)}, IOPS {units.ratio(step.iops_ratio)} of {step.below.layer}"


# -- CSV and JSON ----------------------------------------------------------------------------------------------------


class _Pieces:
    """What csv.writer takes for a file: a list of what it writes."""

    def __init__(self, pieces: list[str]) -> None:
        self.write = pieces.append


def results_csv(report: Report) -> Iterator[str]:
    """One row per point, full precision, an empty cell where nothing was measured; a row per piece."""
    workload = sorted(
        {
            key
            for point in report.points
            for key, value in point["workload"].items()
            if not isinstance(value, (dict, list))
        }
    )
    fixed = [
        "point_id",
        "layer",
        "layer_kind",
        "host",
        "path",
        "workload_id",
        "repetition",
        "status",
        "variant",
        "order",
        "started_utc",
        "finished_utc",
        "runtime_s",
    ]
    measures = [(direction, metric) for direction in ("total", "read", "write") for metric in METRICS]
    # Of percentiles that no histogram tells, where some result has them.
    bounds = sorted(
        {
            (direction, key)
            for direction in ("total", "read", "write")
            for key in set().union(*(point.get(direction) or {} for point in report.points))
            if key.endswith(("_lower_ns", "_upper_ns"))
        }
    )
    # Where some point flushed.
    sync = [metric for metric in METRICS if any(metric in (point.get("sync") or {}) for point in report.points)]
    written: list[str] = []
    writer = csv.writer(_Pieces(written), lineterminator="\n")
    writer.writerow(
        [
            *fixed,
            "engine",
            "engine_version",
            "ioengine",
            # What was asked for and what was measured are two columns: runtime_s is the measured one.
            *(f"workload_{key}" if key in fixed else key for key in workload),
            *(f"{direction}_{metric}" for direction, metric in measures),
            *(f"cpu_{key}" for key in CPU),
            *(f"steady_state_{key}" for key in STEADY),
            *(f"{kind}_{key}" for kind in ("raw", "job") for key in ("file", "sha256", "state")),
            "flags",
            "failures",
            *(f"{direction}_{key}" for direction, key in bounds),
            *(f"sync_{metric}" for metric in sync),
        ]
    )
    for point in report.points:
        engine, cpu, steady = point["engine"], point["cpu"], point.get("steady_state") or {}
        parts = {direction: point.get(direction) or {} for direction in ("total", "read", "write")}
        files = [point["files"].get(kind) or {} for kind in ("raw", "job")]
        writer.writerow(
            map(
                harmless,
                [
                    *map(point.get, fixed),
                    *map(engine.get, ("name", "version", "ioengine")),
                    *map(point["workload"].get, workload),
                    *(figure for part in parts.values() for figure in map(part.get, METRICS)),
                    *map(cpu.get, CPU),
                    *map(steady.get, STEADY),
                    *(
                        value
                        for file in files
                        for value in (file.get("path") or file.get("name"), file.get("sha256"), file.get("state"))
                    ),
                    " ".join(map(str, point["flags"])),
                    "; ".join(str(failure.get("message") or failure.get("code")) for failure in point["failures"]),
                    *(parts[direction].get(key) for direction, key in bounds),
                    *((point.get("sync") or {}).get(metric) for metric in sync),
                ],
            )
        )
        yield "".join(written)
        written.clear()


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
        "points": map(_without_histograms, report.points),
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


def json_of(content: dict[str, Any]) -> str:
    """A line per key, and of lists a line per element: readable, diffable, and written by the encoder in C, which indents nothing."""
    return "".join(_json_pieces(content))


def _json_pieces(content: dict[str, Any]) -> Iterator[str]:
    """The same in pieces. A list may be an iterator."""
    for number, key in enumerate(sorted(content)):
        value = content[key]
        yield f"{',' if number else '{'}\n{_json(key)}: "
        if isinstance(value, (list, Iterator)):
            began = False
            for element in value:
                yield f"{',' if began else '['}\n{_json(element)}"
                began = True
            yield "\n]" if began else "[]"
        else:
            yield _json(value)
    yield "\n}\n"


_json = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


def _of_workload(waterfall: Waterfall) -> dict[str, Any]:
    return {
        "workload_id": waterfall.workload_id,
        "workload": waterfall.workload,
        "notes": waterfall.notes,
        "missing": waterfall.missing,
        "layers": [
            {**_row(step), "flags": step.cell.flags, "points": step.cell.points, "figures": _figures(step.cell)}
            for step in waterfall.steps
        ],
        **({"splits": [asdict(shares) for shares in waterfall.splits]} if waterfall.splits else {}),
    }


def _figures(cell: Cell) -> dict[str, Any]:
    return {
        direction: {
            metric: {"value": figure.value, "low": figure.low, "high": figure.high}
            for metric, figure in figures.items()
        }
        for direction, figures in cell.figures.items()
    }


def _without_histograms(point: dict[str, Any]) -> dict[str, Any]:
    return {
        key: {name: part for name, part in value.items() if name != "histogram"} if key in PARTS and value else value
        for key, value in point.items()
    }


# -- Markdown --------------------------------------------------------------------------------------------------------


def markdown(report: Report) -> str:
    choices = views.Choices(report)
    return fill(
        "report.md.j2",
        report=report,
        latency=latency,
        takes_away=takes_away,
        not_measured=not_measured,
        flushes=lambda waterfall: flushes(report, waterfall, choices),
        splits=views.splits,
        published_loads=databases.published(report.record),
        lanes=_lanes_in_words(report),
        words=workload_words,
    )


def _lanes_in_words(report: Report) -> list[list[Layer]]:
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


# -- HTML ------------------------------------------------------------------------------------------------------------


def html(report: Report) -> str:
    return fill("report.html.j2", **content(report))


def content(report: Report) -> dict[str, Any]:
    """What the page's template fills in."""
    choices = views.Choices(report)
    pictured, apart = views.drawn(report, views.DISTRIBUTIONS), views.drawn(report, views.SECTIONS)
    sections = [
        _section(index, waterfall, report, choices, waterfall.workload_id in pictured)
        for index, waterfall in enumerate(report.waterfalls)
        if waterfall.workload_id in apart
    ]
    grouped = len(report.points) > views.POINTS_APART
    # The workload measured at the most layers is what the report is about; the others follow after what they say together.
    first = next((section for section in sections if section["waterfall"] is report.headline), None)
    loads = databases.published(report.record)
    parts = {
        "first": first,
        "others": [section for section in sections if section is not first],
        "views": views.of_run(report, choices),
        "steady": views.steady_states(report, choices),
        "networks": views.networks(report),
        "beats": views.beats(report),
        "clients": views.clients(report, choices),
        "published": views.published(report, choices),
        "limits": any(figure.get("limit") for figure in views.figures_of(report)),
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
        "metric_words": views.METRIC_WORDS,
        "checks": views.checks(report),
        "profiles": views.profiles(report),
        "chain": _chain(report),
        "tiles": _tiles(report),
        "further": _further(report, choices, apart),
        "points": (_points_grouped if grouped else _points)(report, choices),
        "grouped": grouped,
        "style": style(choices.coloured()),
        "script": asset("script.js"),
    }


def drawn(content: dict[str, Any]) -> list[Any]:
    """Every chart of a page, in its order."""
    drawings = [*content["chain"], *(_drawn_of(content["first"]) if content["first"] else [])]
    drawings += [
        drawing["chart"] for view in content["views"] for panel in view["panels"] for drawing in panel["charts"]
    ]
    return drawings + [chart for section in content["others"] for chart in _drawn_of(section)]


def _drawn_of(section: dict[str, Any]) -> list[Any]:
    times = section["time"]["charts"] if section["time"] else []
    return [
        chart
        for chart in (section["distribution"], section["histogram"], *(drawing["chart"] for drawing in times))
        if chart
    ]


def _sections(parts: dict[str, Any]) -> list[tuple[Any, ...]]:
    """[(id, name)] of the sections that the page has, as its navigation names them."""
    first = parts["first"]
    return [
        ("chain", "Chain"),
        *([("overview", "Workloads")] if parts["overview"] else []),
        *([(first["id"], "Layers")] if first else []),
        *((view["id"], view["title"]) for view in parts["views"]),
        *(
            (name, words)
            for name, words in (
                ("installations", "Installations"),
                ("databases", "Databases"),
                ("published", "Published"),
                ("clients", "Clients"),
                ("networks", "Network"),
                ("beats", "Beat"),
                ("steady", "Steady state"),
            )
            if parts[name]
        ),
        ("findings", "Findings"),
        ("environment", "Environment"),
        ("points", "Points"),
    ]


def _further(report: Report, choices: views.Choices, apart: set[str]) -> dict[str, Any] | None:
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
                bounds(limits) if (limits := measured.between(metric)) else _field(measured.value(metric), word)
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
    """A row per installation: how long it took, and how many commands per second its datastore served meanwhile."""
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
                    *(_field(rates.get(key), units.iops) for key in ("mean", "p95", "max")),
                    _field(counters.get("samples"), str),
                    words(timed["iso"]),
                    words(timed["ended_by"].replace("_", " ")),
                    Field(templates().get_template("table.html.j2").module.traces(_traces(timed["files"]))),
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


POINT_METRICS = (
    ("iops", units.iops),
    ("bandwidth_bytes_s", units.bandwidth),
    ("latency_mean_ns", units.latency),
    ("latency_p50_ns", units.latency),
    ("latency_p99_ns", units.latency),
)


def _field(value: Any, word: Callable[[Any], str]) -> Field:
    return cell(value, "" if value is None else word(value))


def _points(report: Report, choices: views.Choices) -> list[tuple[Any, ...]]:
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
                _traces(point["files"]),
            )
        )
    return rows


def _points_grouped(report: Report, choices: views.Choices) -> list[tuple[Any, ...]]:
    """A row per layer and workload with the raw file of each repetition: the figures and checksums of ten thousand points are no reading, but data.

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
    """Made while the page is written: those of all points at once take as much memory as the page."""
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
        point["point_id"] for point in report.points if point["status"] != "measured" or not views.passed(point)
    }


def _started(point: dict[str, Any], run_began: str) -> str:
    """The time of day, with the date only where it is not that of the run."""
    utc = str(point.get("started_utc") or units.ABSENT)
    return (utc[11:] if utc[:10] == run_began[:10] else utc.replace("T", " ")).replace("Z", "") or units.ABSENT


def _reasons(point: dict[str, Any]) -> str:
    return (
        " ".join(str(failure.get("message") or failure.get("code")) for failure in point.get("failures") or [])
        or "no reason was recorded"
    )


BESIDE = {"job": "job.fio", "series": "series.json"}


def _usual(kind: str, file: dict[str, Any]) -> bool:
    """Whether the page's script can link it from the raw file's address: a thousand times the same words are spared."""
    return bool(file["name"] == BESIDE.get(kind) and file["state"] == "matches")


def _traces(files: dict[str, Any]) -> list[tuple[Any, ...]]:
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
        charts.chain_chart(ident, report.layers, figures, width)
        for ident, width in (("chain-w", WIDE), ("chain-n", NARROW))
    )
    return [chart for chart in drawn if chart]


def _section(
    index: int, waterfall: Waterfall, report: Report, choices: views.Choices, pictured: bool
) -> dict[str, Any]:
    """What the template needs to draw one workload: marks, axis and distribution beside the figures themselves."""
    rates = [figure for step in waterfall.steps if (figure := step.cell.figure("iops")) and figure.low > 0]
    ticks = charts.log_ticks(min(figure.low for figure in rates), max(figure.high for figure in rates)) if rates else []
    full = max(
        (value for step in waterfall.steps if (value := step.cell.value("latency_mean_ns")) is not None), default=0
    )
    rows = []
    for step in waterfall.steps:
        cell = step.cell
        rate, mean = cell.figure("iops"), cell.value("latency_mean_ns")
        below = step.below.value("latency_mean_ns") if step.below and step.relation != "ceiling" else 0
        solid = step.comparable or step.relation == "ceiling"
        rows.append(
            {
                "step": step,
                "cell": cell,
                "css": choices.only(cell.layer),
                "rate_mark": charts.rate_mark(rate, ticks) if rate and rate.low > 0 else "",
                "added_mark": charts.added_mark(below or 0, mean, full, solid) if mean is not None and full else "",
            }
        )
    title, ident = workload_words(waterfall.workload), f"w{index + 1}"
    known = [(step.cell, choices.layer(step.cell.layer)) for step in waterfall.steps if step.cell.bins]
    curves, lanes = [], []
    if pictured:
        room = views.room(views.CURVE_POINTS, sum(len(other.steps) for other in report.waterfalls), 24, 60)
        curves = [(cell.layer, css, charts.percentile_curve(cell.bins, room)) for cell, css in known]
        lanes = [
            (cell.layer, css, cell.bins, cell.value("latency_p50_ns"), cell.value("latency_p99_ns"))
            for cell, css in known
        ]
    room = views.room(
        views.LINE_SAMPLES, len(views.COLUMNS) * len(waterfall.steps) * min(SAMPLED, len(report.waterfalls)), 24, 300
    )
    return {
        "id": ident,
        "waterfall": waterfall,
        "rows": rows,
        "full": full,
        "not_measured": not_measured(waterfall),
        "conditions": _conditions(waterfall.workload),
        "pattern": choices.pattern(waterfall.workload),
        "ticks": [(100 * charts.log_position(tick, ticks), units.tick(units.iops(tick))) for tick in ticks],
        "mixed": any("read" in step.cell.figures and "write" in step.cell.figures for step in waterfall.steps),
        "distribution": charts.percentile_chart(f"{ident}-d", f"Latency distribution, {title}", curves),
        "histogram": charts.histogram_chart(f"{ident}-h", f"Latency histogram, {title}", lanes),
        "legend": [(cell.layer, css) for cell, css in known],
        "bounded": any(step.cell.bounds.get("total") for step in waterfall.steps),
        "time": views.time_series(ident, waterfall, report, choices, room),
        "cpu": views.cpu_cost(waterfall, choices),
        "flushes": views.flushes(waterfall, report, choices),
        "esxi": views.esxi_split(waterfall, choices),
        "splits": views.splits(waterfall),
    }


def _conditions(workload: Workload) -> list[str]:
    """How a workload was run: time, ramp, cache, and what kept I/Os in flight."""
    conditions = []
    if "runtime_s" in workload:
        ramp = f" after {workload['ramp_s']} s of ramp" if "ramp_s" in workload else ""
        conditions.append(f"{workload['runtime_s']} s per repetition{ramp}")
    if "direct" in workload:
        conditions.append(f"{'direct' if workload['direct'] else 'buffered'} I/O")
    depth = workload.get("queue_depth")
    if "rate_iops" in workload:
        conditions.append(f"a requested rate of {workload['rate_iops']} IOPS")
    elif depth is not None:
        waits = ", so waiting in the queue is part of every latency" if depth > 1 else ""
        conditions.append(f"closed loop: {depth} I/O{'' if depth == 1 else 's'} in flight per worker{waits}")
    return conditions


def _step_tile(step: Step) -> dict[str, Any]:
    """What the most expensive step adds, with its interval; where that holds none, too, the interval is all there is to take home."""
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
            "below": f"95 % interval: it may add nothing ({added} measured) · {below}",
        }
    return {**tile, "value": added, "below": f"95 %: {span} · {below}"}


def _tiles(report: Report) -> list[dict[str, Any]]:
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


def _overview(report: Report) -> dict[str, Any] | None:
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
