# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From stored results to what the report says: repetitions pooled, each layer set against what its I/O goes through next.

Everything here is computed from the run alone, so the same results give the same report.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ...module_utils.core import units
from ...module_utils.core.layers import KINDS, Layer, down
from ...module_utils.lab import links
from ...module_utils.result import histogram
from ...module_utils.result.result import GENERATOR_PERCENT, PERCENTILES, generator_percent
from ...module_utils.workload.meanings import DIFFERENCES
from ...module_utils.workload.workload import Workload, describe
from ..compare import beats, networks
from ..compare import installations as compare_installations
from ..store import load, verify
from ..store.cells import Cell, by_time, directions_of, is_measured, pool
from ..store.database import is_database
from ..store.load import Run, under
from . import databases, environment
from . import split as splitting
from .beside import Beside, extremes

ENOUGH_REPETITIONS = 4
BEYOND = 10  # I/Os above a percentile that it needs to be told
BUSY = 0.5  # load a core, from which on a host was under load
# How many workloads are drawn over time, so that a large run stays one page.
SAMPLED = 8
SECTIONS = 60  # workloads with a section of their own; what is beyond has a row per layer in one table

# What a step is, by the kind of its layer and who provides it; by the kind alone where that tells nothing.
STEP_WORDS = {
    ("backing", "raid"): "the RAID array itself",
    ("backing", "cache_tier"): "the disk with its cache",
    ("backing", ""): "the RAM disk itself",
    ("target", "nfs"): "the export over NFS",
    ("target", ""): "the export over iSCSI",
    ("initiator", ""): "the network and the initiator",
    # An export over NFS cannot be measured where it is made.
    ("datastore", "nfs"): "the export over NFS and the network",
    ("datastore", ""): "the file system",
    ("guest", ""): "virtualisation",
}


def step_words(kind: str, provider: str | None) -> str:
    return STEP_WORDS.get((kind, provider or "")) or STEP_WORDS.get((kind, ""), kind)


@dataclass
class Step:
    """A cell, and what it takes away from the layer below it."""

    cell: Cell
    below: Cell | None = None
    relation: str = "bottom"  # bottom | parent | through (unmeasured layers between) | other_lane | ceiling
    holds: list[str] = field(default_factory=list)  # unmeasured layers between both, whose cost is in the step too
    comparable: bool = True
    added_mean_ns: float | None = None
    added_between_ns: tuple[Any, ...] | None = (
        None  # 95 % interval of it, by the repetitions of both; None with a single one
    )
    latency_ratio: float | None = None
    iops_ratio: float | None = None
    overlap: bool = False  # the repetitions of both overlap, so the difference may be noise
    share: float | None = None  # of the mean latency at the top of this chain
    share_of: str = ""  # the layer at that top
    notes: list[Any] = field(default_factory=list)  # indexes into Waterfall.notes


@dataclass
class Waterfall:
    workload_id: str
    workload: Workload
    steps: list[Step]
    missing: list[dict[str, Any]]  # {layer, kind, host, failed, reason}
    notes: list[str]
    costliest: Step | None
    splits: list[splitting.Split] = field(default_factory=list)  # of the layers at the top, by counters


@dataclass
class Report:
    title: str
    testbed_id: str
    run_id: str
    started_utc: str
    finished_utc: str
    layers: list[Layer]
    waterfalls: list[Waterfall]
    points: list[Any]
    failed: list[Any]
    damaged: list[Any]
    flags: list[Any]
    machines: list[Any]
    repetitions: tuple[Any, ...]
    verdict: str
    headline: Waterfall | None
    record: dict[str, Any] = field(default_factory=dict)  # run.json
    samples: dict[str, Any] = field(
        default_factory=dict
    )  # point_id -> series of the points that stand for their layers
    judged: dict[str, Any] = field(default_factory=dict)  # point_id -> steady_state of the points that were judged
    installations: list[Any] = field(default_factory=list)
    installation_verdicts: list[Any] = field(default_factory=list)  # by compare/installations.py
    databases: list[Any] = field(default_factory=list)  # by databases.py
    engines: list[Any] = field(default_factory=list)  # 'fio-3.33': what issued the I/Os, each once
    ios: int = 0  # of all measured points together
    trust: str = ""  # whether the figures can be believed, in a sentence
    next_step: str = ""
    targets: list[Any] = field(default_factory=list)  # {target, verdict, why}, by verdicts.judge
    beats: list[Any] = field(default_factory=list)  # {host, figure, values, verdict, …}, by compare/beats.py
    networks: list[Any] = field(default_factory=list)  # lines of network.jsonl, each with used, by compare/networks.py
    unplayed: list[Any] = field(default_factory=list)  # {host, note}: which beats were not played, and why
    verified: str = ""  # what verify_results said of these results; empty when it was not asked
    beside: Beside | None = None  # where no measured layer lies beneath another


def build(run: Run, title: str | None = None) -> Report:
    run = _variants_apart(run)
    # What was measured in transactions stands in a table of its own: no layer's I/O can be set against it.
    measured = [result for result in run.results if is_measured(result)]
    failed = [
        result
        for result in run.results
        if result["status"] != "measured" or not (is_database(result) or is_measured(result))
    ]
    layers = _layers(run)
    workloads = {
        workload_id: index
        for index, workload_id in enumerate(dict.fromkeys(result["workload_id"] for result in by_time(run.results)))
    }
    by_workload: dict[str, Any] = {workload_id: ([], []) for workload_id in workloads}
    for index, results in enumerate((measured, failed)):
        for result in results:
            by_workload[result["workload_id"]][index].append(result)
    of_io = {result["workload_id"] for result in run.results if not is_database(result)}
    waterfalls = [_waterfall(name, layers, *by_workload[name]) for name in workloads if name in of_io]
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
    report.flags = _flags(report, run.environments)
    if run.verified and not run.verified["outdated"] and run.verified["verdict"] == "differs":
        report.flags.insert(0, {"level": "warning", "text": verify.sentence(run.verified)})
    report.verdict = _verdict(report, shown)
    report.verified = _verified(run.verified)
    report.trust = _trust(report)
    report.next_step = _next_step(report)
    return report


def _beside(layers: list[Layer], waterfalls: list[Waterfall], measured: list[Any]) -> Beside | None:
    """What can be told of a run whose layers are no chain: only if no workload has a step."""
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
    """The links, each with the point that used most of it, where that can be told."""
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


def _engines(measured: list[Any]) -> list[str]:
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
    results = [
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
    # Ceilings belong to hosts, so they stand in the order in which an I/O meets the hosts.
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


# -- one workload at every layer -------------------------------------------------------------------------------------


def _waterfall(workload_id: str, layers: list[Layer], measured: list[Any], failed: list[Any]) -> Waterfall:
    """measured, failed: the results of this workload."""
    cells, means, thin = {}, {}, {}
    for layer in layers:
        results = [result for result in measured if result["layer"] == layer["name"]]
        if results:
            means[layer["name"]] = _means(results)
            cells[layer["name"]] = cell = pool(
                sorted(results, key=lambda result: (result["repetition"], result["point_id"]))
            )
            _weigh_ceiling(cell, results)
            thin[layer["name"]] = _without_thin_percentiles(cell, results)
    by_name = {layer["name"]: layer for layer in layers}
    notes: list[Any] = []
    steps = [_step(cells[layer["name"]], by_name, cells, means, notes) for layer in layers if layer["name"] in cells]
    for step in steps:
        for note in thin[step.cell.layer]:
            notes.append(note)
            step.notes.append(len(notes) - 1)
    _shares(steps)
    _generator_bound(steps)
    missing = []
    for layer in layers:
        reasons = [_reason(result) for result in failed if result["layer"] == layer["name"]]
        if layer["name"] not in cells and (reasons or layer["path"]):
            missing.append(
                {
                    "layer": layer["name"],
                    "kind": layer["kind"],
                    "host": layer["host"],
                    "failed": bool(reasons),
                    "reason": "; ".join(dict.fromkeys(reasons)) or _unmeasured(layer),
                }
            )
    # A difference that may be noise is shown with its remark, and is no headline.
    costs = [step for step in steps if step.comparable and not step.overlap and (step.added_mean_ns or 0) > 0]
    workloads: list[Workload] = [result["workload"] for result in measured + failed]
    workload: Workload = workloads[0] if workloads else {}
    splits = [
        shares
        for step in _tops(steps)
        if (shares := _split(step.cell.layer, measured, by_name, cells, means)) is not None
    ]
    return Waterfall(
        workload_id,
        workload,
        steps,
        missing,
        notes,
        max(costs, key=lambda step: step.added_mean_ns or 0, default=None),
        splits,
    )


def _tops(steps: list[Step]) -> list[Step]:
    """The measured layers that no other one goes through; a ceiling is none."""
    carried = {step.below.layer for step in steps if step.below}
    return [step for step in steps if step.cell.layer not in carried and step.cell.kind != "ceiling"]


def lane(report: Report) -> list[Cell]:
    """The measured layers of one lane of the headline, top first: of that with the most expensive step, else of that in which most was measured."""
    steps = report.headline.steps if report.headline else []
    cells = {step.cell.layer: step.cell for step in steps}
    layers = {layer["name"]: layer for layer in report.layers}
    lanes = [
        [cells[layer["name"]] for layer in down(layers, layers[top.cell.layer]) if layer["name"] in cells]
        for top in steps
        if top.cell.layer in layers and top.cell.kind != "ceiling"
    ]
    step = report.headline.costliest if report.headline else None
    costliest = step.cell if step else None
    return max(lanes, key=lambda of: (costliest in of, len(of)), default=[])


def _split(
    name: str, measured: list[Any], layers: dict[str, Layer], cells: dict[str, Cell], means: dict[str, Any]
) -> splitting.Split | None:
    """What the devices below a layer counted while it was measured, beside what was measured at them, or at their twins, by themselves."""
    chain = down(layers, layers[name])
    stands = {layer["name"]: cells.get(layer["name"]) or _twin(layer, layers, cells) for layer in chain}
    waterfall = {
        layer: (latency, means[cell.layer])
        for layer, cell in stands.items()
        if cell and (latency := cell.value("latency_mean_ns")) is not None
    }
    return splitting.split([result for result in measured if result["layer"] == name], chain, waterfall)


def _weigh_ceiling(cell: Cell, results: list[dict[str, Any]]) -> None:
    """That a layer was faster than its ceiling is said of it only if most repetitions were."""
    faster = sum("faster_than_ceiling" in (result.get("flags") or []) for result in results)
    if faster and 2 * faster <= len(results):
        cell.flags[cell.flags.index("faster_than_ceiling")] = "sometimes_faster_than_ceiling"


def _without_thin_percentiles(cell: Cell, results: list[dict[str, Any]]) -> list[str]:
    """Take from the cell the percentiles with fewer than BEYOND I/Os above them, that is of fewer than BEYOND / (1 - p) I/Os; notes that say which."""
    taken = [directions_of(result) for result in results]
    notes = []
    for direction, figures in cell.figures.items():
        counts = [part[direction].get("ios") for part in taken if direction in part]
        if None in counts or not counts:
            continue
        ios = sum(counts)
        few = [
            (percent, metric)
            for percent, metric in PERCENTILES.items()
            if ios * (100 - percent) < 100 * BEYOND * (1 - 1e-9)
        ]
        gone = [percent for percent, metric in few if metric in figures or metric in cell.bounds.get(direction, {})]
        for _percent, metric in few:
            figures.pop(metric, None)
            cell.bounds.get(direction, {}).pop(metric, None)
        what = {"total": "I/Os", "sync": "flushes"}.get(direction)
        if gone and what:
            notes.append(
                f"{cell.layer} did {ios:.0f} {what} in all, too few for {' and '.join(f'p{percent:g}' for percent in gone)}: "
                f"a percentile p needs {BEYOND} / (1 − p), so that {BEYOND} {what} are beyond it."
            )
    return notes


def _reason(result: dict[str, Any]) -> str:
    messages = [str(failure.get("message") or failure.get("code")) for failure in result.get("failures") or []]
    return " ".join(messages) or f"status {result['status']}, without a reason"


def _unmeasured(layer: Layer) -> str:
    return (
        "a layer that contains data is measured only through files on it"
        if layer["purpose"] == "data"
        else "no point of this run"
    )


def _detail(layers: dict[str, Layer], name: str) -> dict[str, Any]:
    return layers.get(name, {}).get("detail") or {}


def _means(results: list[dict[str, Any]]) -> dict[str, Any]:
    """{repetition: mean latency} of a layer; imports may have several results of one number, and none of those is paired."""
    latencies: dict[str, Any] = {}
    for result in results:
        latencies.setdefault(result["repetition"], []).append(directions_of(result)["total"].get("latency_mean_ns"))
    return {number: values[0] for number, values in latencies.items() if len(values) == 1 and values[0] is not None}


def _difference_between(ours: dict[str, Any], theirs: dict[str, Any]) -> tuple[float, float] | None:
    """95 % interval of the mean difference of paired repetitions, by Student's t; None when fewer than two are in both.

    A repetition is a round in which every layer is measured once, so what a round has in common, such as a warm machine, is in neither side.
    """
    return splitting.interval([ours[number] - theirs[number] for number in sorted(ours.keys() & theirs.keys())])


def _step(
    cell: Cell, layers: dict[str, Layer], cells: dict[str, Cell], means: dict[str, Any], notes: list[str]
) -> Step:
    below, relation, between = _below(cell, layers, cells)
    # The lowest of the unmeasured layers of another lane is what the twin stands for.
    step = Step(cell, below, relation, {"through": between, "other_lane": between[:-1]}.get(relation, []))

    def note(text: str) -> None:
        if text not in notes:
            notes.append(text)
        step.notes.append(notes.index(text))

    if below is None:
        return step
    if below.ioengine != cell.ioengine or below.engine != cell.engine:
        step.comparable = False
    if relation == "ceiling":
        note(
            f"{below.layer} issues no I/O at all ({below.ioengine} engine): it shows what the generator alone can do. "
            "Layers are compared with it for scale; the difference is not the cost of a layer."
        )
        step.comparable = False
    elif not step.comparable:
        note(
            f"{cell.layer} was measured with {cell.engine} ({cell.ioengine}) and {below.layer} with {below.engine} ({below.ioengine}): "
            "the difference is shown, but it is not comparable as a cost."
        )
    transport = _detail(layers, cell.layer).get("transport")
    if transport and relation != "ceiling":
        note(f"{cell.layer} reaches the layer below over {transport}, so the step includes the cost of that path.")
    cached = [name for name in (cell.layer, *between) if _detail(layers, name).get("page_cache") == "used"]
    if cached and relation != "ceiling":
        note(
            f"{' and '.join(cached)} {'serves' if len(cached) == 1 else 'serve'} from the page cache of the host: requests answered from memory "
            "never reached the layers below, so the step is not the cost of the protocol alone."
        )
    if relation == "other_lane":
        note(
            f"{cell.layer} is compared with {below.layer}, its twin on the scratch LUN: below {cell.layer} is {between[-1]}, "
            "which contains data and is never overwritten by a raw benchmark."
        )
    if relation == "through":
        note(
            f"{cell.layer} is compared with {below.layer}; between them {' and '.join(between)} "
            f"{'was' if len(between) == 1 else 'were'} not measured, so the step includes the cost of {'both' if len(between) == 1 else 'all'}."
        )
    elif step.holds:
        note(
            f"Between {cell.layer} and {below.layer} {'is' if len(step.holds) == 1 else 'are'} {' and '.join(step.holds)}, which "
            f"{'was' if len(step.holds) == 1 else 'were'} not measured, so the step includes the cost of {'both' if len(step.holds) == 1 else 'all'}."
        )
    ours, theirs = cell.value("latency_mean_ns"), below.value("latency_mean_ns")
    if ours is not None and theirs is not None:
        step.added_mean_ns = ours - theirs
        step.added_between_ns = _difference_between(means[cell.layer], means[below.layer])
        step.latency_ratio = ours / theirs if theirs else None
        own, other = cell.figure("latency_mean_ns"), below.figure("latency_mean_ns")
        if own and other:
            step.overlap = own.low <= other.high and other.low <= own.high and cell.repetitions + below.repetitions > 2
        if step.overlap and step.comparable:
            note(f"The repetitions of {cell.layer} and {below.layer} overlap, so this difference may be noise.")
        if step.added_mean_ns < 0 and relation != "ceiling":
            note(
                f"{cell.layer} answers faster than {below.layer} below it. A layer cannot save time: this is noise, a cache, or a host of a different speed."
            )
    rate, rate_below = cell.value("iops"), below.value("iops")
    if rate is not None and rate_below:
        step.iops_ratio = rate / rate_below
    return step


def _below(cell: Cell, layers: dict[str, Layer], cells: dict[str, Cell]) -> tuple[Cell | None, str, list[str]]:
    """(what the cell is set against, how they are related, the unmeasured layers between them).

    The nearest measured layer down the parents. A parent that was not measured may have a twin: the same kind by the same
    provider on the same host in another lane of the same chain, as a scratch LUN is to a data LUN.
    """
    between: list[str] = []
    name, seen = (layers.get(cell.layer) or {}).get("parent"), {cell.layer}
    while name is not None and name not in seen:
        seen.add(name)
        if name in cells:
            return cells[name], "through" if between else "parent", between
        layer = layers.get(name)
        if layer is None:
            break
        between.append(name)
        twin = _twin(layer, layers, cells)
        if twin:
            return twin, "other_lane", between
        name = layer["parent"]
    ceilings = [other for other in cells.values() if other.kind == "ceiling"]
    if cell.kind == "ceiling" or not ceilings:
        return None, "bottom", []
    return next((other for other in ceilings if other.host == cell.host), ceilings[0]), "ceiling", []


def _twin(layer: Layer, layers: dict[str, Layer], cells: dict[str, Cell]) -> Cell | None:
    """What stands for a layer that was not measured: the same kind by the same provider on the same host in another lane."""
    made_by = _detail(layers, layer["name"]).get("provider")
    return next(
        (
            other
            for other in cells.values()
            if (other.kind, other.host) == (layer["kind"], layer["host"])
            and _detail(layers, other.layer).get("provider") == made_by
        ),
        None,
    )


def _shares(steps: list[Step]) -> None:
    """Each step's share of the mean latency at the top of the chain it belongs to."""
    by_layer = {step.cell.layer: step for step in steps}
    for top in reversed(_tops(steps)):
        total = top.cell.value("latency_mean_ns")
        step: Step | None = top
        while total and step is not None and step.share is None:
            step.share_of = top.cell.layer
            if step.relation == "ceiling" or step.below is None:
                own = step.cell.value("latency_mean_ns")
                step.share = own / total if own is not None and step.cell.kind != "ceiling" else None
                break
            step.share = step.added_mean_ns / total if step.added_mean_ns is not None else None
            step = by_layer.get(step.below.layer)


def _generator_bound(steps: list[Step]) -> None:
    ceilings = {step.cell.host: step.cell.value("iops") for step in steps if step.cell.kind == "ceiling"}
    for step in steps:
        ceiling, iops = ceilings.get(step.cell.host), step.cell.value("iops")
        if (
            step.cell.kind != "ceiling"
            and ceiling
            and iops
            and generator_percent(iops, ceiling) > GENERATOR_PERCENT
            and "generator_bound" not in step.cell.flags
        ):
            step.cell.flags.append("generator_bound")


# -- words -----------------------------------------------------------------------------------------------------------


FLAG_WORDS = {
    "generator_bound": f"more than {GENERATOR_PERCENT}% of what the generator alone can do on this host, so the figure partly measures the generator",
    "percentiles_not_mergeable": "a repetition has no histogram, so only bounds of the merged percentiles are known",
    "buffered_io": "the page cache was in use",
    "synchronous_submission": "the device completes while I/O is submitted, so queue depth has little effect",
    "completion_percentiles": "percentiles are of completion latency, without submission time; means include both",
    "sync_latency_unknown": "the workload flushes, but fio before 3.31 does not report correctly how long that took with an asynchronous engine",
    "not_filled": "blocks that were never written may have been read",
    "guard_overridden": "a refusal of the device guard was overridden by the user",
    "faster_than_ceiling": "faster than the generator or the memory can be: a cache answers, not the layer",
    "sometimes_faster_than_ceiling": "at most half of the repetitions were faster than the generator or the memory can be, so chance is as likely as a cache",
    "not_steady": "the steady state was not reached within the time allowed; the figures are of the last rounds",
    "device_counters_differ": "the device's own counters disagree with what the generator says it did",
    "page_cache_not_dropped": "the page cache could not be emptied before measuring",
    "partly_cached": "the page cache was kept, but part of the data was not in it when the point began, so the devices are partly measured",
    "clocks_differ": "the clocks of the hosts are more than half a second apart; that was measured and taken into account",
    "clock_unknown": "the offset of the hosts' clocks is not known to half a second, so the other host's counters were left out",
    "clock_stepped": "the host's clock was set while the point was measured, so its times do not match the times at which other hosts counted",
    "steal": "other virtual machines took processor time from this host during the measurement",
    "esxi_interval_too_short": "no complete sample of the ESXi host is within the measured time, so its counters are not shown; measure for 40 s or more",
    "restart_pending": "options of the ESXi host take effect only after a restart, so the host did not run as configured",
    "paths_degraded": "the ESXi host had only one path to the LUN, or some were down, so fewer paths carried the I/O than the lab has",
    "governor": "the processor's frequency governor is not 'performance', so its speed varies",
    "shared_target": "another load used the same target at the same time, so the figure covers only part of the device's capacity",
    "clients_ended_early": "a client ended before the others, so its rate was included for a time in which it did not run",
    **DIFFERENCES,
    "repeating_data": "the same bytes were written repeatedly, which can be compressed and deduplicated",
}
# These say that a figure is not what it seems; the others are notes.
LOUD = (
    "faster_than_ceiling",
    "not_filled",
    "device_counters_differ",
    "page_cache_not_dropped",
    "partly_cached",
    "clock_stepped",
    "clients_ended_early",
    "shared_target",
    "restart_pending",
)


def _flags(report: Report, environments: dict[str, Any]) -> list[dict[str, Any]]:
    """[{level, text}], loudest first: what a reader has to know before believing a figure."""
    flags = []
    for level, kind, text in (
        (
            "warning",
            "emulated",
            "{hosts}: emulated hardware, without hardware virtualisation. "
            "The figures show how the layers relate, not how fast any real machine is.",
        ),
        ("note", "virtual", "{hosts}: virtual machine. Its neighbours and its hypervisor are part of every figure."),
        ("note", "unknown", "{hosts}: it is not recorded whether the hardware is real, virtual or emulated."),
    ):
        hosts = [machine["host"] for machine in report.machines if machine["machine"] == kind]
        if hosts:
            flags.append({"level": level, "text": text.format(hosts=", ".join(hosts))})
    for machine in report.machines:
        if machine["simulated"]:
            flags.append(
                {
                    "level": "warning",
                    "text": f"{machine['host']}: simulated ({machine['simulated']}), a stand-in for the real component.",
                }
            )
    flags += _backing_flags(report.layers)
    flags += _link_flags(environments)
    flags += [
        {"level": "warning", "text": beats.moved_words(move)}
        for move in report.beats
        if move["verdict"] in ("slower", "faster")
    ]
    if report.failed:
        flags.append(
            {
                "level": "warning",
                "text": f"{len(report.failed)} of {len(report.points)} points failed; they are listed below and excluded from all figures.",
            }
        )
    if report.damaged:
        flags.append(
            {
                "level": "warning",
                "text": f"{len(report.damaged)} files of the run, or tests in them, could not be used or were changed; they are listed below.",
            }
        )
    bad = [
        result
        for result in report.points
        for file in result.get("files", {}).values()
        if file["state"] in ("missing", "differs")
    ]
    if bad:
        flags.append(
            {
                "level": "warning",
                "text": f"{len(bad)} raw or job files are missing or differ from the checksum recorded when they were measured.",
            }
        )
    if 0 < report.repetitions[0] < ENOUGH_REPETITIONS:
        low, high = report.repetitions
        count = f"{low}" if low == high else f"{low} to {high}"
        flags.append(
            {
                "level": "note",
                "text": f"{count} repetition{'' if high == 1 else 's'} per layer: too few to tell a small difference from noise; "
                f"at least {ENOUGH_REPETITIONS} are needed.",
            }
        )
    seen: dict[str, Any] = {}
    loaded: dict[str, Any] = {}
    for waterfall in report.waterfalls:
        for step in waterfall.steps:
            for flag in step.cell.flags:
                seen.setdefault(str(flag), []).append(f"{step.cell.layer} ({waterfall.workload_id})")
                if flag == "faster_than_ceiling" and (load := _load(environments.get(step.cell.host))):
                    loaded[step.cell.host] = load
    for flag, where in seen.items():
        some = ", ".join(where[:4]) + (f" and {len(where) - 4} more" if len(where) > 4 else "")
        words = FLAG_WORDS.get(flag, flag)
        if flag == "faster_than_ceiling" and loaded:
            loads = ", ".join(f"{host}: {load}" for host, load in loaded.items())
            words += f". Or the memory only seemed slow, because its speed was measured under load ({loads})"
        flags.append({"level": "warning" if flag in LOUD else "note", "text": f"{some}: {words}."})
    return sorted(flags, key=lambda flag: flag["level"] != "warning")


def _backing_flags(layers: list[Layer]) -> list[dict[str, Any]]:
    """What was done to the disks at the bottom, on purpose or by the kernel, while they were measured."""
    flags = []
    for layer in layers:
        detail = layer.get("detail") or {}
        slow, array = detail.get("emulated_delay") or {}, detail.get("raid") or {}
        units_of = {"iops": "I/Os per second", "mib_s": "MiB per second"}
        limits = [f"{slow[key]} {words}" for key, words in units_of.items() if slow.get(key)]
        if slow:
            limited = f" to {' and '.join(limits)} each" if limits else ""
            text = f"{layer['name']}: its disks were made slow on purpose, by {slow.get('by', 'the testbed')}{limited}."
            flags.append({"level": "note", "text": text})
        if array.get("resync") == "running":
            text = f"{layer['name']}: the RAID array was still synchronising its members, which slowed them down."
            flags.append({"level": "warning", "text": text})
        if array.get("scrub"):
            text = f"{layer['name']}: the kernel compared the members of the RAID array ({array['scrub']}) when it was built, which took part of their speed."
            flags.append({"level": "warning", "text": text})
        if array.get("resync") == "skipped":
            text = f"{layer['name']}: the members of the RAID array were assumed to be in sync and never synchronised."
            flags.append({"level": "note", "text": text})
    return flags


def _link_flags(environments: dict[str, Any]) -> list[dict[str, Any]]:
    """Whose network was made slower on purpose."""
    flags = []
    for host, fingerprint in sorted(environments.items()):
        shaped = links.in_words(str(((fingerprint or {}).get("kernel") or {}).get("command_line") or ""))
        if shaped:
            text = f"{host}: its outgoing traffic was shaped on purpose: {shaped}."
            flags.append({"level": "note", "text": text})
    return flags


def _load(fingerprint: dict[str, Any] | None) -> str:
    """'load 3.1 on 2 cores' of a host that was busy when its memory was measured; empty of one that was idle or told nothing."""
    load: Any = (fingerprint or {}).get("load_1min")
    cores: Any = ((fingerprint or {}).get("cpu") or {}).get("cores")
    known = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (load, cores))
    return f"load {load:.1f} on {cores} core{'' if cores == 1 else 's'}" if known and load >= BUSY * cores else ""


def _trust(report: Report) -> str:
    """Whether the figures can be believed, in a sentence."""
    if not report.headline and not report.databases:
        return "There are no figures."
    warnings = sum(flag["level"] == "warning" for flag in report.flags)
    counts = [load["repetitions"] for load in report.databases] + ([report.repetitions[0]] if report.headline else [])
    few = min(counts) < ENOUGH_REPETITIONS
    if warnings:
        return f"Only with care: {warnings} warning{'' if warnings == 1 else 's'}, listed first among the findings."
    if few:
        return f"Large differences only: fewer than {ENOUGH_REPETITIONS} repetitions."
    return "No check found a problem with the figures."


def _verified(verified: dict[str, Any] | None) -> str:
    if verified is None:
        return ""
    if verified["outdated"]:
        return "The results have changed since they were verified: run verify_results again."
    return f"{verify.sentence(verified)} Checked {verified['checked_utc']}."


def _next_step(report: Report) -> str:
    """What to do now: repair what failed before measuring more, measure more before concluding, and then change one thing."""
    if report.failed:
        return (
            f"Fix the cause of the failures of {len(report.failed)} of {len(report.points)} points, and measure again."
        )
    if not report.headline and report.databases:
        return "Change one thing below the database, measure again, and compare the two runs."
    if not report.headline:
        return "Measure again."
    kinds = {layer["kind"] for layer in report.layers}
    if kinds == {"imported"}:
        return "Compare these results with other results of the same workload."
    flags = {flag for waterfall in report.waterfalls for step in waterfall.steps for flag in step.cell.flags}
    if "faster_than_ceiling" in flags:
        return "Find the cache that serves the I/O: measure a larger range with direct I/O, on an idle host."
    if report.repetitions[0] < ENOUGH_REPETITIONS:
        return f"Measure {ENOUGH_REPETITIONS} repetitions or more (benchmark_repetitions), so that small differences can be distinguished from noise."
    if report.beside:
        return "Change one thing below one of them, measure again, and compare the two runs."
    step = report.headline.costliest
    if step is None and any(step.overlap for step in report.headline.steps):
        return "Measure more repetitions, or for longer, until the ranges of the layers no longer overlap."
    if step is None:
        return "Measure two layers of one chain with the same engine, so that they can be compared."
    below = step.below.layer if step.below else ""
    return f"Change one thing in the step from {below} to {step.cell.layer}, measure again, and compare the two runs."


def _verdict(report: Report, shown: list[Waterfall]) -> str:
    if not shown and report.databases:
        return " ".join(databases.sentence(load) for load in report.databases)
    if not shown or not report.headline:
        return "Nothing was measured: every point of this run failed."
    step = report.headline.costliest
    if step is None and {layer["kind"] for layer in report.layers} == {"imported"}:
        return "These are imported results: the path of their I/O is unknown, so layers are not compared."
    if report.beside:
        single = " One repetition cannot show whether that is noise." if report.repetitions[1] == 1 else ""
        return f"{_beside_sentence(report.beside)}{single}"
    measured = {other.cell.layer for waterfall in shown for other in waterfall.steps if other.cell.kind != "ceiling"}
    if step is None and len(measured) == 1:
        return f"Only {measured.pop()} was measured, so the cost of the layers below and above it is unknown."
    if step is None and any(step.overlap and step.comparable for step in report.headline.steps):
        return "No step can be called the most expensive: the repetitions of the layers overlap, so the differences may be noise."
    if step is None:
        return "The measured layers cannot be compared with each other, so no step can be called the most expensive."
    share = (
        f", {units.percent(step.share)} of what {step.share_of} waits"
        if step.share is not None and step.share <= 1
        else ""
    )
    providers = {layer["name"]: (layer.get("detail") or {}).get("provider") for layer in report.layers}
    agree = sum(1 for other in shown if other.costliest and other.costliest.cell.kind == step.cell.kind)
    often = f" It is the most expensive step in {agree} of {len(shown)} workloads." if len(shown) > 1 else ""
    below = step.below.layer if step.below else ""
    with_others = f" together with {' and '.join(step.holds)}" if step.holds else ""
    return (
        f"The most expensive step is {step_words(step.cell.kind, providers.get(step.cell.layer))}{with_others}: {below} → {step.cell.layer} adds "
        f"{units.latency(step.added_mean_ns)} to each I/O{share}.{often}{_open(step)}"
    )


def _open(step: Step) -> str:
    """What a careful reader asks of the headline: whether the repetitions tell the step from none."""
    between = step.added_between_ns
    if between is None or not between[0] <= 0 <= between[1]:
        return ""
    return (
        " The repetitions cannot yet distinguish it from zero (95 %: "
        f"{units.added_latency(between[0])} to {units.added_latency(between[1])})."
    )


def _beside_sentence(sides: Beside) -> str:
    words = f"{sides.most} does {units.significant(sides.ratio, 3)} times the IOPS of {sides.least}"
    if sides.between:
        low, high = (units.significant(ratio, 3) for ratio in sides.between)
        words += f" (95 %: {low} to {high})"
    if sides.workloads > 1:
        low, high = (units.significant(ratio, 3) for ratio in sides.by_workload)
        words += f" over {sides.workloads} workloads, {low} to {high} times in single ones"
    may_be_noise = sides.between and sides.between[0] <= 1 <= sides.between[1]
    return f"{words}.{' The difference may be noise.' if may_be_noise else ''}"


def workload_words(workload: Workload) -> str:
    """'4 KiB random, 70 % read, queue depth 8, 1 worker' in as far as the workload says so; a foreign one may say nothing that is understood."""
    try:
        return describe(workload)
    except (AttributeError, KeyError, TypeError, ValueError):
        return "workload"
