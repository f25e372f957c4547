# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sentences of a report: findings, notes, whether the figures can be believed, the verdict and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils.core import units
from ...module_utils.core.layers import Layer
from ...module_utils.lab import links
from ...module_utils.result.result import GENERATOR_PERCENT
from ...module_utils.result.schema import Result
from ...module_utils.workload.description import describe
from ...module_utils.workload.meanings import DIFFERENCES
from ...module_utils.workload.workload import Workload
from ..compare import beats
from ..store import verify
from ..store.cells import Cell
from . import databases
from .beside import Beside
from .nouns import Report, Step, Waterfall

ENOUGH_REPETITIONS = 4
BUSY = 0.5  # load a core, from which on a host was under load
# The name of a step, by the kind of its layer and its provider; by the kind alone where the provider adds nothing.
STEP_WORDS = {
    ("backing", "raid"): "the RAID array itself",
    ("backing", "cache_tier"): "the disk with its cache",
    ("backing", ""): "the RAM disk itself",
    ("target", "nfs"): "the export over NFS",
    ("target", "nvme_tcp"): "the export over NVMe",
    ("target", ""): "the export over iSCSI",
    ("initiator", ""): "the network and the initiator",
    # An export over NFS cannot be measured where it is made.
    ("datastore", "nfs"): "the export over NFS and the network",
    ("datastore", ""): "the file system",
    ("guest", ""): "virtualisation",
}
FLAG_WORDS = {
    "generator_bound": f"more than {GENERATOR_PERCENT}% of what the generator alone can do on this host, so the figure partly measures the generator",
    "choice_bound": "more than half of what this I/O engine reaches on this host without storage, where another way is faster (docs/benchmark.md)",
    "percentiles_not_mergeable": "a repetition has no histogram, so only bounds of the merged percentiles are known",
    "buffered_io": "the page cache was in use",
    "synchronous_submission": "the device completes while I/O is submitted, so queue depth has little effect",
    "completion_percentiles": "percentiles are of completion latency, without submission time; means include both",
    "rarely_in_flight": "on average fewer than 0.1 I/Os were on their way, and no option explains it; the latencies leave out the time in between",
    "other_mixture": "reads and writes were not of the share that the workload asks for, by more than chance allows: the engine did another mixture",
    "sync_latency_unknown": "the workload flushes, but fio before 3.31 does not report correctly how long that took with an asynchronous engine",
    "not_filled": "blocks that were never written may have been read",
    "cache_unknown": "it is not known what the caches of the storage or of its server held; read more than its memory to be sure",
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
    "stalled": "no I/O was completed for a tenth of the run time or more, without evidence that the host stood still itself; the figures include the pause",
    "io_errors": "I/Os failed, and the workload went on as it was to; the figures are of those that were answered",
    "too_long": "the last answers were late, so the measurement took longer than was asked for; the figures are of the whole time",
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


def step_words(kind: str, provider: str | None) -> str:
    return STEP_WORDS.get((kind, provider or "")) or STEP_WORDS.get((kind, ""), kind)


def workload_words(workload: Workload) -> str:
    """'4 KiB random, 70 % read, queue depth 8, 1 worker' in as far as the workload says so; a foreign one may say nothing that is understood."""
    try:
        return describe(workload)
    except (AttributeError, KeyError, TypeError, ValueError):
        return "workload"


def detail(layers: dict[str, Layer], name: str) -> dict[str, object]:
    return layers.get(name, {}).get("detail") or {}


def notes_of(step: Step, layers: dict[str, Layer], between: list[str]) -> list[str]:
    """Notes of a step, in their order; between: the unmeasured layers between both of its ends."""
    if step.below is None:
        return []
    return [text for of in NOTES for text in [of(step, step.below, layers, between)] if text]


def _engines_note(step: Step, below: Cell, layers: dict[str, Layer], between: list[str]) -> str:
    cell = step.cell
    if step.relation == "ceiling":
        return (
            f"{below.layer} issues no I/O at all ({below.ioengine} engine): it shows what the generator alone can do. "
            "Layers are compared with it for scale; the difference is not the cost of a layer."
        )
    if step.comparable:
        return ""
    return (
        f"{cell.layer} was measured with {cell.engine} ({cell.ioengine}) and {below.layer} with {below.engine} ({below.ioengine}): "
        "the difference is shown, but it is not comparable as a cost."
    )


def _transport_note(step: Step, below: Cell, layers: dict[str, Layer], between: list[str]) -> str:
    transport = detail(layers, step.cell.layer).get("transport")
    if not transport or step.relation == "ceiling":
        return ""
    return f"{step.cell.layer} reaches the layer below over {transport}, so the step includes the cost of that path."


def _page_cache_note(step: Step, below: Cell, layers: dict[str, Layer], between: list[str]) -> str:
    cached = [name for name in (step.cell.layer, *between) if detail(layers, name).get("page_cache") == "used"]
    if not cached or step.relation == "ceiling":
        return ""
    return (
        f"{' and '.join(cached)} {'serves' if len(cached) == 1 else 'serve'} from the page cache of the host: requests answered from memory "
        "never reached the layers below, so the step is not the cost of the protocol alone."
    )


def _twin_note(step: Step, below: Cell, layers: dict[str, Layer], between: list[str]) -> str:
    if step.relation != "other_lane":
        return ""
    return (
        f"{step.cell.layer} is compared with {below.layer}, its twin on the scratch LUN: below {step.cell.layer} is {between[-1]}, "
        "which contains data and is never overwritten by a raw benchmark."
    )


def _between_note(step: Step, below: Cell, layers: dict[str, Layer], between: list[str]) -> str:
    if step.relation == "through":
        return (
            f"{step.cell.layer} is compared with {below.layer}; between them {' and '.join(between)} "
            f"{'was' if len(between) == 1 else 'were'} not measured, so the step includes the cost of {'both' if len(between) == 1 else 'all'}."
        )
    if step.holds:
        return (
            f"Between {step.cell.layer} and {below.layer} {'is' if len(step.holds) == 1 else 'are'} {' and '.join(step.holds)}, which "
            f"{'was' if len(step.holds) == 1 else 'were'} not measured, so the step includes the cost of {'both' if len(step.holds) == 1 else 'all'}."
        )
    return ""


def _overlap_note(step: Step, below: Cell, layers: dict[str, Layer], between: list[str]) -> str:
    if not step.overlap or not step.comparable:
        return ""
    return f"The repetitions of {step.cell.layer} and {below.layer} overlap, so this difference may be noise."


def _faster_note(step: Step, below: Cell, layers: dict[str, Layer], between: list[str]) -> str:
    if step.added_mean_ns is None or step.added_mean_ns >= 0 or step.relation == "ceiling":
        return ""
    return f"{step.cell.layer} answers faster than {below.layer} below it. A layer cannot save time: this is noise, a cache, or a host of a different speed."


# A note more is a function here.
NOTES = (_engines_note, _transport_note, _page_cache_note, _twin_note, _between_note, _overlap_note, _faster_note)


def reason(result: Result) -> str:
    messages = [str(failure.get("message") or failure.get("code")) for failure in result.get("failures") or []]
    return " ".join(messages) or f"status {result['status']}, without a reason"


def unmeasured(layer: Layer) -> str:
    return (
        "a layer that contains data is measured only through files on it"
        if layer["purpose"] == "data"
        else "no point of this run"
    )


Finding = dict[str, str]  # level (warning or note), text


def flags(report: Report, environments: dict[str, object]) -> list[Finding]:
    """Findings that a reader has to know before believing a figure, loudest first."""
    return sorted(
        (finding for of in FINDINGS for finding in of(report, environments)),
        key=lambda finding: finding["level"] != "warning",
    )


def differing(known: dict[str, object] | None) -> list[Finding]:
    """That verify_results finds other figures than those stored."""
    differs = known and not known["outdated"] and known["verdict"] == "differs"
    return [_warning(verify.sentence(known))] if known and differs else []


def _warning(text: str) -> Finding:
    return {"level": "warning", "text": text}


def _note(text: str) -> Finding:
    return {"level": "note", "text": text}


def _machines(report: Report, environments: Mapping[str, object]) -> list[Finding]:
    findings = []
    for make, kind, text in (
        (
            _warning,
            "emulated",
            "{hosts}: emulated hardware, without hardware virtualisation. "
            "The figures show how the layers relate, not how fast any real machine is.",
        ),
        (_note, "virtual", "{hosts}: virtual machine. Its neighbours and its hypervisor are part of every figure."),
        (_note, "unknown", "{hosts}: it is not recorded whether the hardware is real, virtual or emulated."),
    ):
        hosts = [machine["host"] for machine in report.machines if machine["machine"] == kind]
        if hosts:
            findings.append(make(text.format(hosts=", ".join(hosts))))
    return findings


def _simulated(report: Report, environments: Mapping[str, object]) -> list[Finding]:
    return [
        _warning(f"{machine['host']}: simulated ({machine['simulated']}), a stand-in for the real component.")
        for machine in report.machines
        if machine["simulated"]
    ]


def _moved_beats(report: Report, environments: Mapping[str, object]) -> list[Finding]:
    return [_warning(beats.moved_words(move)) for move in report.beats if move["verdict"] in ("slower", "faster")]


def _failed(report: Report, environments: Mapping[str, object]) -> list[Finding]:
    failed, points = len(report.failed), len(report.points)
    text = f"{failed} of {points} points failed; they are listed below and excluded from all figures."
    return [_warning(text)] if failed else []


def _damaged(report: Report, environments: Mapping[str, object]) -> list[Finding]:
    text = f"{len(report.damaged)} files of the run, or tests in them, could not be used or were changed; they are listed below."
    return [_warning(text)] if report.damaged else []


def _bad_files(report: Report, environments: Mapping[str, object]) -> list[Finding]:
    bad = sum(
        file["state"] != "matches" and file["state"] in ("missing", "differs")
        for result in report.points
        for file in result.get("files", {}).values()
    )
    text = f"{bad} raw or job files are missing or differ from the checksum recorded when they were measured."
    return [_warning(text)] if bad else []


def _few_repetitions(report: Report, environments: Mapping[str, object]) -> list[Finding]:
    low, high = report.repetitions
    if not 0 < low < ENOUGH_REPETITIONS:
        return []
    count = f"{low}" if low == high else f"{low} to {high}"
    return [
        _note(
            f"{count} repetition{'' if high == 1 else 's'} per layer: too few to separate a small difference from noise; "
            f"at least {ENOUGH_REPETITIONS} are needed."
        )
    ]


def _of_cells(report: Report, environments: dict[str, Any]) -> list[Finding]:
    """A finding per flag, with the layers and workloads that have it."""
    seen: dict[str, Any] = {}
    loaded: dict[str, Any] = {}
    for waterfall in report.waterfalls:
        for step in waterfall.steps:
            for flag in step.cell.flags:
                seen.setdefault(str(flag), []).append(f"{step.cell.layer} ({waterfall.workload_id})")
                if flag == "faster_than_ceiling" and (load := _load(environments.get(step.cell.host))):
                    loaded[step.cell.host] = load
    findings = []
    for flag, where in seen.items():
        some = ", ".join(where[:4]) + (f" and {len(where) - 4} more" if len(where) > 4 else "")
        words = FLAG_WORDS.get(flag, flag)
        if flag == "faster_than_ceiling" and loaded:
            loads = ", ".join(f"{host}: {load}" for host, load in loaded.items())
            words += f". Or the memory only seemed slow, because its speed was measured under load ({loads})"
        findings.append((_warning if flag in LOUD else _note)(f"{some}: {words}."))
    return findings


def _backing(report: Report, environments: Mapping[str, object]) -> list[Finding]:
    """Changes to the disks at the bottom, on purpose or by the kernel, while they were measured."""
    findings = []
    for layer in report.layers:
        detail = layer.get("detail") or {}
        slow, array = detail.get("emulated_delay") or {}, detail.get("raid") or {}
        units_of = {"iops": "I/Os per second", "mib_s": "MiB per second"}
        limits = [f"{slow[key]} {words}" for key, words in units_of.items() if slow.get(key)]
        if slow:
            limited = f" to {' and '.join(limits)} each" if limits else ""
            text = f"{layer['name']}: its disks were made slow on purpose, by {slow.get('by', 'the testbed')}{limited}."
            findings.append(_note(text))
        if array.get("resync") == "running":
            text = f"{layer['name']}: the RAID array was still synchronising its members, which slowed them down."
            findings.append(_warning(text))
        if array.get("scrub"):
            text = f"{layer['name']}: the kernel compared the members of the RAID array ({array['scrub']}) when it was built, which took part of their speed."
            findings.append(_warning(text))
        if array.get("resync") == "skipped":
            text = f"{layer['name']}: the members of the RAID array were assumed to be in sync and never synchronised."
            findings.append(_note(text))
    return findings


def _links(report: Report, environments: dict[str, Any]) -> list[Finding]:
    """Hosts with a network that was made slower on purpose."""
    findings = []
    for host, fingerprint in sorted(environments.items()):
        shaped = links.in_words(str(((fingerprint or {}).get("kernel") or {}).get("command_line") or ""))
        if shaped:
            text = f"{host}: its outgoing traffic was shaped on purpose: {shaped}."
            findings.append(_note(text))
    return findings


def _load(fingerprint: dict[str, Any] | None) -> str:
    """'load 3.1 on 2 cores' for a host that was busy when its memory was measured; empty for one that was idle or reported nothing."""
    load: Any = (fingerprint or {}).get("load_1min")
    cores: Any = ((fingerprint or {}).get("cpu") or {}).get("cores")
    known = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (load, cores))
    return f"load {load:.1f} on {cores} core{'' if cores == 1 else 's'}" if known and load >= BUSY * cores else ""


# In the order in which they are read. A finding more is a function here.
FINDINGS = (
    _machines,
    _simulated,
    _backing,
    _links,
    _moved_beats,
    _failed,
    _damaged,
    _bad_files,
    _few_repetitions,
    _of_cells,
)


def trust(report: Report) -> str:
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


def verified(known: dict[str, object] | None) -> str:
    if known is None:
        return ""
    if known["outdated"]:
        return "The results have changed since they were verified: run verify_results again."
    return f"{verify.sentence(known)} Checked {known['checked_utc']}."


def next_step(report: Report) -> str:
    """The next step: repair what failed before measuring more, measure more before concluding, and then change one thing."""
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
    known = {flag for waterfall in report.waterfalls for step in waterfall.steps for flag in step.cell.flags}
    if "faster_than_ceiling" in known:
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


def verdict(report: Report, shown: list[Waterfall]) -> str:
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
    """A careful reader's question about the headline: whether the repetitions distinguish the step from none."""
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
