# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From stored results to what the report says: repetitions pooled, each layer set against what its I/O goes through next.

Everything here is computed from the run alone, so the same results give the same report.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...module_utils.core.layers import KINDS, Layer
from ...module_utils.result import histogram
from ...module_utils.result.schema import Result
from ..compare import beats, networks
from ..compare import installations as compare_installations
from ..store import load
from ..store.cells import by_time, is_measured
from ..store.collector import without_collector
from ..store.database import is_database
from ..store.load import Run, under
from . import databases, environment, sentences
from .beside import Beside, extremes
from .nouns import Report, Waterfall
from .waterfall import waterfall_of

# How many workloads are drawn over time, so that a large run stays one page.
SAMPLED = 8
SECTIONS = 60  # workloads with a section of their own; what is beyond has a row per layer in one table


@without_collector()
def build(run: Run, title: str | None = None) -> Report:
    # Beyond 60 lines, because it names each part of a report once.
    run = _variants_apart(run)
    # Points measured in transactions are in a table of their own: no layer's I/O can be set against it.
    measured, failed = [], []
    for result in run.results:
        if is_measured(result):
            measured.append(result)
        elif result["status"] != "measured" or not is_database(result):
            failed.append(result)
    layers = _layers(run)
    workloads = {
        workload_id: index
        for index, workload_id in enumerate(dict.fromkeys(result["workload_id"] for result in by_time(run.results)))
    }
    waterfalls = _waterfalls(run, layers, list(workloads), measured, failed)
    shown = [waterfall for waterfall in waterfalls if waterfall.steps]
    headline = max(shown, key=lambda waterfall: len(waterfall.steps), default=None)
    for waterfall in ranked(shown, headline)[SECTIONS:]:
        for step in waterfall.steps:
            step.cell.bins = histogram.Packed({})  # which nobody draws
    machines = [environment.describe(host, run.environments.get(host)) for host in _hosts(run, layers)]
    times = [result[key] for result in run.results for key in ("started_utc", "finished_utc") if result.get(key)]
    counts = [step.cell.repetitions for waterfall in shown for step in waterfall.steps]
    report = Report(
        title=title or f"Testbed {run.testbed_id}: what each layer costs",
        testbed_id=run.testbed_id,
        run_id=run.run_id,
        started_utc=min(times, default=""),
        finished_utc=max(times, default=""),
        layers=layers,
        waterfalls=waterfalls,
        points=sorted(
            run.results,
            key=lambda r: (
                workloads[r["workload_id"]],
                _rank(r["layer_kind"]),
                r["layer"],
                r["repetition"],
                r["point_id"],
            ),
        ),
        failed=failed,
        damaged=run.damaged,
        flags=[],
        machines=machines,
        repetitions=(min(counts, default=0), max(counts, default=0)),
        verdict="",
        headline=headline,
        record=run.record,
        samples=_samples(run, ranked(shown, headline)[:SAMPLED]),
        judged={result["point_id"]: result["steady_state"] for result in run.results if result.get("steady_state")},
        installations=run.installations,
        installation_verdicts=compare_installations.verdicts(run.installations),
        databases=databases.loads(run.results),
        beats=beats.drifts(run.beats),
        unplayed=_unplayed(run.beats),
        networks=_networks(run.networks, waterfalls),
        engines=_engines([*measured, *(result for result in run.results if is_database(result))]),
        ios=sum(round((result.get("total") or {}).get("ios") or 0) for result in measured),
    )
    report.beside = _beside(layers, waterfalls, measured)
    if report.beside and not title:
        report.title = f"Testbed {run.testbed_id}: {report.beside.most} beside {report.beside.least}"
    _say(report, run, shown)
    return report


def _say(report: Report, run: Run, shown: list[Waterfall]) -> None:
    """The sentences, each of which may look at everything computed before it."""
    report.flags = sentences.differing(run.verified) + sentences.flags(report, run.environments)
    report.verdict = sentences.verdict(report, shown)
    report.verified = sentences.verified(run.verified)
    report.trust = sentences.trust(report)
    report.next_step = sentences.next_step(report)


def _waterfalls(
    run: Run, layers: list[Layer], workloads: list[str], measured: list[Result], failed: list[Result]
) -> list[Waterfall]:
    """One per workload that was asked of a device, in the order in which they were measured first."""
    by_workload: dict[str, Any] = {workload_id: ([], []) for workload_id in workloads}
    for index, results in enumerate((measured, failed)):
        for result in results:
            by_workload[result["workload_id"]][index].append(result)
    of_io = {result["workload_id"] for result in run.results if not is_database(result)}
    return [waterfall_of(name, layers, *by_workload[name]) for name in workloads if name in of_io]


def _beside(layers: list[Layer], waterfalls: list[Waterfall], measured: list[Result]) -> Beside | None:
    """The statement about a run whose layers are not a chain: only if no workload has a step."""
    steps = [step for waterfall in waterfalls for step in waterfall.steps if step.cell.kind != "ceiling"]
    if any(step.below and step.relation != "ceiling" for step in steps) or {step.cell.kind for step in steps} == {
        "imported"
    }:
        return None
    names = {step.cell.layer for step in steps}
    return extremes(measured, [layer["name"] for layer in layers if layer["name"] in names])


def _unplayed(lines: list[Any]) -> list[dict[str, str]]:
    """Why beats lack figures, each host and reason once."""
    reasons = dict.fromkeys((line["host"], line["note"]) for line in lines if line.get("note"))
    return [{"host": host, "note": note} for host, note in reasons]


def _networks(lines: list[Any], waterfalls: list[Waterfall]) -> list[dict[str, Any]]:
    """The links, each with the point that used most of it, where that is known."""
    rates = [
        (step.cell.host, step.cell.layer, step.cell.workload_id, way, figures["bandwidth_bytes_s"].value)
        for waterfall in waterfalls
        for step in waterfall.steps
        if step.cell.kind in networks.OVER_NETWORK
        for way, figures in step.cell.figures.items()
        if "bandwidth_bytes_s" in figures
    ]
    return [
        {**line, "sentence": networks.sentence(line), **({"used": most} if most else {})}
        for line in lines
        for most in [networks.used(line, lines, rates)]
    ]


def _engines(measured: list[Result]) -> list[str]:
    """'fio-3.33', 'diskspd 2.2': name and version of what issued the I/Os, each once."""
    versions = []
    for result in measured:
        name, version = (str((result.get("engine") or {}).get(key) or "") for key in ("name", "version"))
        versions.append(version if version.startswith(name) else f"{name} {version}".strip())
    return list(dict.fromkeys(filter(None, versions)))


def _variants_apart(run: Run) -> Run:
    """The same run in which a layer that was measured in several variants stands once for each, named 'layer (variant)'.

    Its children of the same variant go through it; so A and B of one run are never pooled.
    """
    variants = {(result["layer"], str(result["variant"])) for result in run.results if result.get("variant")}
    if not variants:
        return run
    plain = {result["layer"] for result in run.results if not result.get("variant")}
    layers = {}
    for name, layer in run.layers.items():
        mine = sorted(variant for of, variant in variants if of == name)
        if name in plain or not mine:
            layers[name] = layer
        for variant in mine:
            parent = (
                varied(layer["parent"], variant) if (layer.get("parent"), variant) in variants else layer.get("parent")
            )
            layers[varied(name, variant)] = {**under(layer, variant), "name": varied(name, variant), "parent": parent}
    results: list[Result] = [
        {**result, "layer": varied(result["layer"], str(result["variant"]))} if result.get("variant") else result
        for result in run.results
    ]
    return replace(run, layers=layers, results=results)


def varied(name: str, variant: str) -> str:
    return f"{name} ({variant})"


def ranked(waterfalls: list[Waterfall], headline: Waterfall | None) -> list[Waterfall]:
    """Those that get pictures of their own before others: measured at the most layers, then first."""
    return sorted(waterfalls, key=lambda waterfall: (waterfall is not headline, -len(waterfall.steps)))


def _samples(run: Run, shown: list[Waterfall]) -> dict[str, Any]:
    """point_id -> series of one repetition per layer, of the workloads whose samples are drawn."""
    wanted = {step.cell.shown for waterfall in shown for step in waterfall.steps}
    samples = {
        result["point_id"]: load.read_series(run.folder, result)
        for result in run.results
        if result["point_id"] in wanted
    }
    return {point: series for point, series in samples.items() if series}


def _rank(kind: str) -> int:
    return KINDS.index(kind) if kind in KINDS else len(KINDS)


def _layers(run: Run) -> list[Layer]:
    """All layers, bottom first; those that only results speak of are added, so that a lost layers.json loses no figures."""
    known: dict[str, Layer] = {
        name: {
            "path": None,
            "parent": None,
            "detail": {},
            "purpose": None,
            "size_bytes": None,
            "kind": "",
            "host": "",
            **layer,
        }
        for name, layer in run.layers.items()
    }
    for result in run.results:
        known.setdefault(
            result["layer"],
            {
                "name": result["layer"],
                "kind": result["layer_kind"],
                "host": result["host"],
                "path": result.get("path"),
                "parent": None,
                "purpose": None,
                "size_bytes": None,
                "detail": {},
                "unpublished": True,
            },
        )
    ordered = sorted(known.values(), key=lambda layer: (_rank(layer["kind"]), layer["name"]))
    # Ceilings belong to hosts, so they are in the order in which an I/O meets the hosts.
    hosts = list(dict.fromkeys(layer["host"] for layer in ordered if layer["kind"] != "ceiling"))
    return sorted(
        ordered,
        key=lambda layer: (
            _rank(layer["kind"]),
            hosts.index(layer["host"]) if layer["kind"] == "ceiling" and layer["host"] in hosts else 0,
        ),
    )


def _hosts(run: Run, layers: list[Layer]) -> list[str]:
    """Bottom of the chain first."""
    above = [layer["host"] for layer in layers if layer["kind"] != "ceiling"]
    return list(
        dict.fromkeys(host for host in above + [layer["host"] for layer in layers] + sorted(run.environments) if host)
    )
