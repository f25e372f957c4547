# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Baseline against candidate: which points belong together, is a difference real, and were the two alike but for what is under test.

Pure: results in, a mapping out that every form of the report is made of. The methods are in stats.py and explained in docs/comparison.md.
"""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ...module_utils.core.failure import Failure, bad_value
from ...module_utils.core.layers import KINDS, lasting_identity
from ..store.cells import Cell, pool
from ..store.flatten import flatten
from ..store.load import Run
from . import stats

SCHEMA = "storlab.comparison/1"
SIDES = ("baseline", "candidate")
MARGIN_PERCENT = 5.0
# With three a side no rank test can reach 5 %: the best p is 0.1.
LEAST_REPETITIONS = 4
# With five rounds Wilcoxon's test cannot reach 5 %: the best p is 0.0625.
LEAST_ROUNDS = 6
VERDICTS = ("worse", "better", "cannot_tell", "no_verdict", "no_difference")
# What tells points apart, and how a selector names it.
SELECTORS = {"layer": "layer", "workload_id": "workload", "variant": "variant"}
FIELDS = tuple(SELECTORS)


@dataclass(frozen=True)
class Metric:
    """One figure of a result: where it stands, and which way is good."""

    name: str
    path: tuple
    higher_is_better: bool


def _of_total(name: str, higher: bool) -> Metric:
    return Metric(name, ("total", name), higher)


KNOWN = {
    metric.name: metric
    for metric in (
        _of_total("iops", True),
        _of_total("bandwidth_bytes_s", True),
        _of_total("latency_mean_ns", False),
        _of_total("latency_p50_ns", False),
        _of_total("latency_p95_ns", False),
        _of_total("latency_p99_ns", False),
        _of_total("latency_p99_9_ns", False),
        _of_total("latency_p99_99_ns", False),
        Metric("us_per_io", ("cpu", "us_per_io"), False),
        Metric("mhz_per_iops", ("cpu", "mhz_per_iops"), False),
        Metric("tpm", ("tpm",), True),
        Metric("nopm", ("nopm",), True),
    )
}
# p99.99 needs more I/Os than a short repetition has; whoever wants it names it.
DEFAULT = (
    "iops",
    "bandwidth_bytes_s",
    "latency_mean_ns",
    "latency_p50_ns",
    "latency_p99_ns",
    "latency_p99_9_ns",
    "us_per_io",
    "mhz_per_iops",
    "tpm",
    "nopm",
)


TITLES = {
    "iops": "IOPS",
    "bandwidth_bytes_s": "Bandwidth",
    "latency_mean_ns": "Mean latency",
    "us_per_io": "Processor time per I/O",
    "mhz_per_iops": "Processor MHz per IOPS",
    "tpm": "Transactions per minute",
    "nopm": "New orders per minute",
}


def wanted_metrics(given: list | None) -> list:
    """[Metric] of 'iops', 'write.latency_p99_ns' or 'database.orders_s higher'."""
    found = []
    for text in given or DEFAULT:
        match = re.fullmatch(r"([A-Za-z_]\w*(?:\.\w+)*)(?: (higher|lower))?", text) if isinstance(text, str) else None
        if not match:
            raise bad_value(
                "metrics",
                text,
                "Write the name of a metric, or the dotted place of one in a result and higher or lower for what is good.",
            )
        name, better = match.groups()
        part, _dot, last = name.partition(".")
        if better:
            found.append(Metric(name, tuple(name.split(".")), better == "higher"))
        elif name in KNOWN:
            found.append(KNOWN[name])
        elif part in ("read", "write", "total") and last in KNOWN and KNOWN[last].path[0] == "total":
            found.append(Metric(name, (part, last), KNOWN[last].higher_is_better))
        else:
            raise bad_value(
                "metrics", text, f"Add higher or lower for what is better, or use one of {', '.join(KNOWN)}."
            )
    return found


# -- which results belong together ------------------------------------------------------------------------------------


def select(results: list, selector: dict, side: str) -> list:
    """Results of the layer, variant and workload that a selector names; a name that none of them has is a Failure."""
    for key, field in SELECTORS.items():
        wanted = selector.get(field)
        if wanted is None:
            continue
        known = sorted({_field(result, key) for result in results} - {""})
        results = [result for result in results if _field(result, key) == wanted]
        if not results:
            raise bad_value(
                f"{side}.{field}", wanted, f"Name one of: {', '.join(known)}." if known else f"The run has no {field}s."
            )
    return results


def _field(result: dict, key: str) -> str:
    return str(result.get(key) or "")


def _mapping(value) -> dict:
    """What should be a mapping in a file that anybody may have written."""
    return value if isinstance(value, dict) else {}


def compare(
    baseline: list,
    candidate: list,
    metrics: list | None = None,
    margin_percent: float = MARGIN_PERCENT,
    compared: tuple | None = None,
) -> dict:
    """Every figure of every point that both sides have, each with its verdict.

    baseline, candidate: results of schema storlab.result/1, or summaries of them. compared: the fields of FIELDS that may differ between the
    sides; points are matched by the others. None means those that have but one value on each side. Returns {schema, margin_percent,
    design, counts, verdict, headline, rows, unmatched, failed}; docs/comparison.md describes them. What was not measured is absent.
    """
    if isinstance(margin_percent, bool) or not isinstance(margin_percent, (int, float)) or not 0 < margin_percent < 100:
        raise bad_value("margin_percent", margin_percent, "Use a number above 0 and below 100.")
    given = dict(zip(SIDES, (baseline, candidate)))
    for side, results in given.items():
        _check(results, side)
    failed = [
        {"side": side, "point_id": _name(result), "reason": _reason(result)}
        for side, results in given.items()
        for result in results
        if result.get("status", "measured") != "measured"
    ]
    if compared is None:
        compared = tuple(
            field
            for field in FIELDS
            if all(len({_field(result, field) for result in results}) == 1 for results in given.values())
        )
    matched_by = [field for field in FIELDS if field not in compared]
    groups = {side: _groups(results, matched_by, side) for side, results in given.items()}
    both = sorted(
        (key for key in groups["baseline"] if key in groups["candidate"]),
        key=lambda key: _order(groups["baseline"][key]),
    )
    unmatched = [
        {"side": side, "point": _label(groups[side][key])}
        for side, other in (SIDES, SIDES[::-1])
        for key in sorted(groups[side], key=lambda key: _order(groups[side][key]))
        if key not in groups[other]
    ]
    if not both:
        raise Failure(
            "nothing_to_compare",
            f"Baseline and candidate have no measured point in common: the baseline has {_some(groups['baseline'])}, "
            f"the candidate {_some(groups['candidate'])}.",
            "Compare runs of the same layers and workloads, or name a layer or variant on both sides.",
            unmatched=unmatched,
            failed=failed,
        )
    pairs = [(groups["baseline"][key], groups["candidate"][key]) for key in both]
    paired = all(_interleaved(*pair) for pair in pairs)
    rows = []
    for pair in pairs:
        shown = [_pooled(group) for group in pair]
        for metric in wanted_metrics(metrics):
            values = [
                {number: value for number, result in group.items() if (value := _value(result, metric)) is not None}
                for group in pair
            ]
            if all(values):
                rows.append(_row(pair, metric, values, shown, paired))
            elif any(values):
                unmatched.append(
                    {"side": SIDES[bool(values[1])], "point": _label(pair[0], pair[1]), "metric": metric.name}
                )
    _judge(rows, paired, margin_percent)
    counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}
    return {
        "schema": SCHEMA,
        "margin_percent": margin_percent,
        "design": "interleaved" if paired else "apart",
        "counts": counts,
        "verdict": overall(counts),
        "headline": headline(rows, margin_percent),
        "rows": [{key: value for key, value in row.items() if not key.startswith("_")} for row in rows],
        "unmatched": unmatched,
        "failed": failed,
    }


def _check(results, side: str) -> None:
    if not isinstance(results, list) or not results:
        raise bad_value(side, results, "Give a list of results that is not empty.")
    for result in results:
        missing = [
            key for key in ("layer", "workload_id", "repetition") if not isinstance(result, dict) or key not in result
        ]
        if missing:
            raise bad_value(
                side,
                _name(result) if isinstance(result, dict) else result,
                f"It is no result: it lacks {', '.join(missing)}.",
            )
        if not isinstance(result["repetition"], int) or isinstance(result["repetition"], bool):
            raise bad_value(side, _name(result), f"Its repetition is {result['repetition']!r}; use 1, 2, 3 and so on.")


def _name(result: dict) -> str:
    return str(
        result.get("point_id") or f"{result.get('layer')}.{result.get('workload_id')}.r{result.get('repetition')}"
    )


def _reason(result: dict) -> str:
    said = [
        failure.get("message") or failure.get("code")
        for failure in result.get("failures") or []
        if isinstance(failure, dict)
    ]
    return " ".join(map(str, said)) or "no reason was recorded"


def _groups(results: list, matched_by: list, side: str) -> dict:
    """{what a point is matched by: {repetition: result}} of what was measured."""
    found: dict = {}
    for result in results:
        if result.get("status", "measured") != "measured":
            continue
        repetitions = found.setdefault(tuple(_field(result, field) for field in matched_by), {})
        if result["repetition"] in repetitions:
            raise bad_value(
                side,
                _name(result),
                f"Repetition {result['repetition']} of this point is there twice; give one run or one variant a side.",
            )
        repetitions[result["repetition"]] = result
    return found


def _order(group: dict) -> tuple:
    first = next(iter(group.values()))
    kind, size_bytes = first.get("layer_kind"), _mapping(first.get("workload")).get("block_size_bytes")
    return (
        KINDS.index(kind) if kind in KINDS else len(KINDS),
        _field(first, "layer"),
        size_bytes if isinstance(size_bytes, int) else 0,
        _field(first, "workload_id"),
        _field(first, "variant"),
    )


def _label(group: dict, other: dict | None = None) -> str:
    """'initiator-bench 4k-r70-rnd100-qd8-w1', and 'a → b' for a field that is compared."""
    ours = next(iter(group.values()))
    theirs = next(iter((other or group).values()))
    return " ".join(text for field in FIELDS if (text := _words(_field(ours, field), _field(theirs, field))))


def _words(ours: str, theirs: str) -> str:
    return ours if ours == theirs else f"{ours or 'none'} → {theirs or 'none'}"


def _some(groups: dict) -> str:
    names = sorted(_label(group) for group in groups.values())
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") or "none"


def _interleaved(*groups) -> bool:
    """Whether every round measured both sides before the next round began, and there are rounds enough to be compared one by one."""
    rounds = sorted(set(groups[0]) & set(groups[1]))
    times = [[str(group[number].get("started_utc") or "") for group in groups] for number in rounds]
    return (
        len(rounds) >= LEAST_ROUNDS
        and all(all(pair) for pair in times)
        and all(max(early) < min(late) for early, late in zip(times, times[1:]))
    )


def _value(result: dict, metric: Metric):
    place = result
    for part in metric.path:
        if part == "total" and "total" not in place:
            # A summary of a run in one direction may leave its total out.
            found = [place[name] for name in ("read", "write") if place.get(name)]
            place = found[0] if len(found) == 1 else {}
        else:
            place = place.get(part) if isinstance(place, dict) else None
    return place if isinstance(place, (int, float)) and not isinstance(place, bool) and math.isfinite(place) else None


# -- is the difference real -------------------------------------------------------------------------------------------


def _pooled(group: dict) -> Cell | None:
    """The repetitions as the report shows them; None for a summary that the report could not show, of which only medians are known."""
    try:
        return pool([group[number] for number in sorted(group)])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _row(pair: tuple, metric: Metric, values: list, shown: list, paired: bool) -> dict:
    """What is known of a figure before any verdict; keys with an underscore are for _judge alone."""
    sides = {}
    for side, group, found, cell in zip(SIDES, pair, values, shown):
        pooled = (
            cell.value(metric.path[1], metric.path[0])
            if cell and metric.path[0] in ("read", "write", "total")
            else None
        )
        ordered = [found[number] for number in sorted(found)]
        shown_value = pooled if pooled is not None and math.isfinite(pooled) else statistics.median(ordered)
        sides[side] = {
            "value": shown_value,
            "low": min(ordered),
            "high": max(ordered),
            "repetitions": len(ordered),
            "points": [_name(group[number]) for number in sorted(found)],
        }
        if len(ordered) > 1 and statistics.fmean(ordered):
            sides[side]["variation_percent"] = 100 * statistics.stdev(ordered) / abs(statistics.fmean(ordered))
    row = {
        "point": _label(*pair),
        **{field: _words(*(_field(next(iter(group.values())), field) for group in pair)) for field in FIELDS},
        "metric": metric.name,
        "better": "higher" if metric.higher_is_better else "lower",
        **sides,
        "verdict": "no_verdict",
    }
    fewest = min(side["repetitions"] for side in sides.values())
    if min(side["low"] for side in sides.values()) <= 0:
        row["why"] = "a value is 0 or less, so there is no ratio"
    elif fewest < LEAST_REPETITIONS:
        row.update(why=f"{fewest} of at least {LEAST_REPETITIONS} repetitions", run_more=LEAST_REPETITIONS - fewest)
    elif not paired or len(set(values[0]) & set(values[1])) >= LEAST_ROUNDS:
        row["_logs"] = [{number: math.log(value) for number, value in found.items()} for found in values]
    else:
        row.update(
            why=f"fewer than {LEAST_ROUNDS} common rounds", run_more=LEAST_ROUNDS - len(set(values[0]) & set(values[1]))
        )
    return row


def _judge(rows: list, paired: bool, margin_percent: float) -> None:
    """Adds effect, interval, p and verdict to the rows that have repetitions enough, all of them together."""
    judged = [row for row in rows if "_logs" in row]
    together = stats.family([row["_logs"] for row in judged], paired)
    for row, corrected in zip(judged, together["p"]):
        a, b = row["_logs"]
        rounds = sorted(set(a) & set(b))
        differences = [b[number] - a[number] for number in rounds]
        counts = (len(rounds), len(rounds)) if paired else (len(a), len(b))
        if paired:
            found, raw, scatter = (
                stats.paired_shift(differences),
                stats.signed_rank(differences),
                statistics.stdev(differences),
            )
        else:
            ours, theirs = list(a.values()), list(b.values())
            found, raw, scatter = stats.shift(ours, theirs), stats.mann_whitney(ours, theirs), stats.noise(ours, theirs)
        # Each row's share of ALPHA, as the relabellings tell it; none of them can tell when there are too few.
        freedom = stats.degrees(*counts, paired)
        each = (
            stats.t_tails(stats.critical_t(together["critical"], freedom), freedom)
            if together["critical"]
            else stats.ALPHA / len(judged)
        )
        seen = math.expm1(
            stats.visible(scatter, stats.threshold(min(each, stats.ALPHA), *counts, paired), *counts, paired)
        )
        row.update(
            change_percent=_percent(found["estimate"]),
            change_low_percent=_percent(found["low"]),
            change_high_percent=_percent(found["high"]),
            confidence_percent=100 * found["confidence"],
            p=raw,
            p_corrected=max(raw, corrected),
            visible_percent=100 * seen,
        )
        row["verdict"] = _verdict(row, margin_percent)
        if row["verdict"] == "cannot_tell":
            needed = stats.repetitions_needed(
                found["estimate"],
                scatter,
                min(each, stats.ALPHA),
                math.log1p(margin_percent / 100),
                min(counts),
                paired,
            )
            if needed:
                row["run_more"] = needed - min(counts)


def _percent(logarithm: float) -> float:
    return 100 * math.expm1(logarithm)


def _verdict(row: dict, margin_percent: float) -> str:
    """Within the margin first: a difference too small to matter is none, however certain it is."""
    low, high = row["change_low_percent"], row["change_high_percent"]
    if -margin_percent <= low and high <= margin_percent:
        return "no_difference"
    if row["p_corrected"] <= stats.ALPHA and (low > 0 or high < 0):
        return "better" if (low > 0) == (row["better"] == "higher") else "worse"
    return "cannot_tell"


# -- words ------------------------------------------------------------------------------------------------------------


def title(metric: str) -> str:
    """'latency_p99_9_ns' -> 'Latency p99.9', 'write.iops' -> 'IOPS of writes'."""
    part, _dot, last = metric.rpartition(".")
    match = re.fullmatch(r"latency_p(\d+)(?:_(\d+))?_ns", last)
    name = f"Latency p{match[1]}{'.' + match[2] if match[2] else ''}" if match else TITLES.get(last, last)
    return name + {"": "", "total": "", "read": " of reads", "write": " of writes"}.get(part, f" ({part})")


def _inside(name: str) -> str:
    """A title in the middle of a sentence; what is written in capitals stays."""
    return name if name[1:2].isupper() else name[:1].lower() + name[1:]


def overall(counts: dict) -> str:
    """One verdict over all: the first of these that any figure has."""
    return next(
        (verdict for verdict in ("worse", "cannot_tell", "no_verdict", "better") if counts[verdict]), "no_difference"
    )


def amount(percent: float) -> str:
    """'0.3 %', '4.7 %', '160 %', and from tenfold on '×58', which is easier to imagine than 5700 %."""
    if percent >= 900:
        return f"×{1 + percent / 100:.0f}"
    if 99 < percent < 100:
        # Rounded it would be all of it, and nothing falls by that much.
        return f"{math.floor(10 * percent) / 10:.1f} %"
    return (f"{percent:.1f}" if abs(percent) < 9.95 else f"{percent:.0f}") + " %"


def margin_words(percent: float) -> str:
    """'5 %', '2.5 %': as the user gave it."""
    return f"{percent:g} %"


def interval(row: dict) -> str:
    """'2.1 to 7.5 %': how much better or worse, nearer end first."""
    ends = sorted((abs(row["change_low_percent"]), abs(row["change_high_percent"])))
    near, far = map(amount, ends)
    return f"{near.removesuffix(' %') if far.endswith('%') else near} to {far}"


def verdict_words(row: dict, margin_percent: float) -> str:
    """The verdict as a reader gets it, with what it would take where there is none."""
    verdict = row["verdict"]
    if verdict in ("better", "worse"):
        return f"{verdict}, by {interval(row)}"
    if verdict == "no_difference":
        return f"no difference larger than {margin_words(margin_percent)}"
    more = f"run {row['run_more']} more" if row.get("run_more") else None
    if verdict == "cannot_tell":
        return f"cannot tell: {more or f'it would take over {stats.MOST_REPETITIONS} repetitions, so lower the noise'}"
    return f"no verdict: {row['why']}" + (f", {more}" if more else "")


def headline(rows: list, margin_percent: float) -> str:
    """The whole comparison in a sentence or two."""
    total = len(rows)
    said = []
    for verdict in ("worse", "better"):
        found = [row for row in rows if row["verdict"] == verdict]
        if found:
            most = max(found, key=lambda row: abs(math.log1p(max(row["change_percent"], -99.999) / 100)))
            what = f"{_inside(title(most['metric']))} of {most['point']} ({verdict_words(most, margin_percent)})"
            said.append(
                f"{len(found)} of {total} figures {'is' if len(found) == 1 else 'are'} {verdict}, "
                f"{'namely' if len(found) == 1 else 'most of all'} {what}."
            )
    same = sum(row["verdict"] == "no_difference" for row in rows)
    if same:
        said.append(
            f"{'None' if same == total else same} of {total} figures {'differs' if same == total else 'can be shown not to differ'} "
            f"by more than {margin_words(margin_percent)}."
        )
    open_rows = [row for row in rows if row["verdict"] in ("cannot_tell", "no_verdict")]
    if open_rows:
        advice = max((row.get("run_more", 0) for row in open_rows), default=0)
        noisy = sum(row["verdict"] == "cannot_tell" and "run_more" not in row for row in open_rows)
        steps = [f"run {advice} more repetition{'' if advice == 1 else 's'}"] if advice else []
        if noisy:
            which = f"{noisy} of them" if noisy < len(open_rows) else "it"
            steps.append(f"{which} would take over {stats.MOST_REPETITIONS} repetitions, so lower the noise")
        said.append(
            f"{'Nothing' if len(open_rows) == total else f'For {len(open_rows)} of {total} nothing'} can be told yet"
            + (f": {'; '.join(steps)}." if steps else ".")
        )
    return " ".join(said) or "Nothing that both sides measured can be compared."


# -- were the two alike -----------------------------------------------------------------------------------------------

# Differences that never matter: what changes from one minute or one start to the next, and names the kernel assigns.
IGNORED = (
    "hosts.*.load_1min",
    "hosts.*.uptime*",
    "hosts.*.boot_id",
    "hosts.*.*_utc",
    "hosts.*.clock_offset*",
    "hosts.*.memory_copy_bytes_s",
    "hosts.*.cpu.*mhz",
    "hosts.*.memory_free_bytes",
    "hosts.*.python",
    "hosts.*.devices.*.major_minor",
    "hosts.*.devices.*.path",
    "hosts.*.devices.*.resolved",
    "hosts.*.devices.*.source",
    "layers.*.path",
    "layers.*.identity.major_minor",
    "layers.*.identity.layers.*.identity.major_minor",
    "layers.*.detail.generation",
    "layers.*.of_contents.*",
    "hosts.*.devices.*.of_contents.*",
    "layers.*.detail.device",
    "layers.*.detail.accel_reason",
)
# Of what was asked for: the rest stands in each result.
ASKED = ("engine", "order", "profile.name", "profile.version", "prepare", "steady_state")


def facts(run: Run, results: list, layers: set, compared: tuple = ()) -> dict:
    """{dotted name: text} of all that the figures of these results depend on.

    layers: the layers whose chains and hosts count. compared: the fields of FIELDS that are compared, whose own names are then no difference.
    """
    found: dict = {}
    chain = {name for layer in layers for name in _chain(run.layers, layer)}
    hosts = {_field(run.layers[name], "host") for name in chain if name in run.layers} | {
        _field(result, "host") for result in results
    }
    for host in hosts - {""}:
        environment = run.environments.get(host)
        if not isinstance(environment, dict):
            found[f"hosts.{host}"] = "not recorded"
            continue
        # A host is as it was under the variant that is compared.
        variants = _mapping(environment.get("variants"))
        here = _mapping(
            next(
                (
                    variants[name]
                    for name in sorted({_field(result, "variant") for result in results})
                    if name in variants
                ),
                environment,
            )
        )
        devices = {
            name: _by_generation(_mapping(device), run.layers.get(name))
            for name, device in _mapping(here.get("devices")).items()
            if name in chain
        }
        found.update(
            _flat(
                f"hosts.{host}",
                {**{key: value for key, value in here.items() if key not in ("host", "variants")}, "devices": devices},
            )
        )
    for name in chain:
        if name in run.layers:
            layer = {key: value for key, value in run.layers[name].items() if key != "name"}
            if isinstance(layer.get("identity"), dict):
                layer["identity"] = lasting_identity(run.layers[name])
                layer["of_contents"] = _without(run.layers[name]["identity"], layer["identity"])
            found.update(_flat(f"layers.{name}", layer))
    sets: dict = {}
    for result in results:
        layer, workload = (
            "compared" if field in compared else _field(result, field) for field in ("layer", "workload_id")
        )
        kinds = {
            f"engine.{layer}": {
                key: value for key, value in _mapping(result.get("engine")).items() if key != "randseed"
            },
            f"preparation.{layer}": result.get("preparation"),
            f"workloads.{workload}": result.get("workload"),
        }
        if "layer" in compared:
            kinds["layers.compared"] = {
                "name": result["layer"],
                "kind": result.get("layer_kind"),
                "host": result.get("host"),
                "size_bytes": run.layers.get(result["layer"], {}).get("size_bytes"),
            }
        for prefix, part in kinds.items():
            for key, text in _flat(prefix, part).items():
                sets.setdefault(key, set()).add(text)
    requests = run.asked.get("requests")
    for request in requests if isinstance(requests, list) else []:
        for key, text in _flat("run", request).items():
            if any(key == f"run.{name}" or key.startswith(f"run.{name}.") for name in ASKED):
                sets.setdefault(key, set()).add(text)
    found.update({key: " + ".join(sorted(texts)) for key, texts in sets.items()})
    found["repetitions"] = str(max(result["repetition"] for result in results))
    if run.asked.get("collection_version"):
        found["run.collection_version"] = str(run.asked["collection_version"])
    return found


def _by_generation(device: dict, layer: dict | None) -> dict:
    """A host's facts of a device, with those apart that go with the contents of a disk that the testbed makes."""
    lasting = lasting_identity({"identity": device, "detail": _mapping((layer or {}).get("detail"))})
    return {**lasting, "of_contents": _without(device, lasting)}


def _without(all_of_it: dict, part: dict) -> dict:
    return {key: value for key, value in all_of_it.items() if key not in part}


def _flat(prefix: str, value) -> dict:
    return {name: text for name, text in flatten(value, prefix) if text}


def _chain(layers: dict, name: str) -> list:
    found: list = []
    while isinstance(name, str) and name not in found:
        found.append(name)
        name = layers.get(name, {}).get("parent")
    return found


def differences(baseline: dict, candidate: dict, under_test: list) -> list:
    """[{fact, baseline, candidate, status}] of two mappings of facts; status is unexpected, under_test or ignored. A fact of one side lacks the other."""
    found = []
    for fact in sorted({*baseline, *candidate}):
        values = {side: facts_of[fact] for side, facts_of in zip(SIDES, (baseline, candidate)) if fact in facts_of}
        if len(set(values.values())) == 1 and len(values) == 2:
            continue
        status = next(
            (
                name
                for name, patterns in (("under_test", under_test), ("ignored", IGNORED))
                if any(fnmatchcase(fact, pattern) for pattern in patterns)
            ),
            "unexpected",
        )
        found.append({"fact": fact, **values, "status": status})
    return found


def refuse_unlike(found: list, labels: tuple) -> None:
    """Failure 'unlike_runs' that names every unexpected difference."""
    unlike = [entry for entry in found if entry["status"] == "unexpected"]
    if unlike:
        named = "; ".join(
            f"{entry['fact']} ({_short(entry.get('baseline'))} → {_short(entry.get('candidate'))})" for entry in unlike
        )
        raise Failure(
            "unlike_runs",
            f"Baseline {labels[0]} and candidate {labels[1]} differ in {len(unlike)} thing{'' if len(unlike) == 1 else 's'} "
            f"beside what is under test: {named}.",
            "Measure both alike, or name what is meant to differ in under_test.",
            differences=unlike,
        )


def _short(text: str | None) -> str:
    return "absent" if text is None else text if len(text) <= 60 else text[:57] + "…"


def compare_runs(
    baseline: dict,
    candidate: dict,
    under_test: list,
    metrics: list | None = None,
    margin_percent: float = MARGIN_PERCENT,
) -> dict:
    """compare(), after the environments were found alike. Each side: {run: Run, selector: {layer, variant, workload}, label}."""
    sides = (baseline, candidate)
    selectors = [{field: side["selector"].get(key) for field, key in SELECTORS.items()} for side in sides]
    if selectors[0] == selectors[1] and baseline["run"].folder == candidate["run"].folder:
        raise bad_value(
            "candidate",
            candidate["label"],
            "It is the baseline itself; name another run, or another layer, variant or workload of this one.",
        )
    for name, side in zip(SIDES, sides):
        _check(side["run"].results, name)
    chosen = [select(side["run"].results, side["selector"], name) for name, side in zip(SIDES, sides)]
    # A variant is a name that the user gave, so one side may be without.
    compared = tuple(
        field
        for field in FIELDS
        if selectors[0][field] != selectors[1][field]
        and (field == "variant" or None not in (selectors[0][field], selectors[1][field]))
    )
    # What a side has alone is listed, and its environment is no reason to refuse the rest.
    places = [{_place(result, compared) for result in results} for results in chosen]
    common = [[result for result in results if _place(result, compared) in places[0] & places[1]] for results in chosen]
    alike: list = []
    if all(common):
        layers = {result["layer"] for results in common for result in results}
        automatic = [
            pattern
            for field, pattern in (("layer", "layers.compared.*"), ("workload_id", "workloads.compared.*"))
            if field in compared
        ]
        alike = differences(
            *(facts(side["run"], results, layers, compared) for side, results in zip(sides, common)),
            [*under_test, *automatic],
        )
        refuse_unlike(alike, (baseline["label"], candidate["label"]))
    found = compare(*chosen, metrics=metrics, margin_percent=margin_percent, compared=compared)
    named = [pattern for pattern in under_test if not any(fnmatchcase(entry["fact"], pattern) for entry in alike)]
    return {
        **found,
        **{
            name: {
                "label": side["label"],
                "testbed_id": side["run"].testbed_id,
                "run_id": side["run"].run_id,
                "run_dir": side["run"].folder,
                **{key: value for key, value in side["selector"].items() if value is not None},
            }
            for name, side in zip(SIDES, sides)
        },
        "environment": alike,
        "under_test": under_test,
        "under_test_same": named,
        "damaged": [{"side": name, **entry} for name, side in zip(SIDES, sides) for entry in side["run"].damaged],
    }


def _place(result: dict, compared: tuple) -> tuple:
    return tuple(_field(result, field) for field in FIELDS if field not in compared)


# -- what makes a pipeline stop ---------------------------------------------------------------------------------------

RULE = re.compile(
    r"(?:(?P<metric>[A-Za-z_][\w.]*) )?(?P<condition>regression|cannot_tell|missing)(?: > (?P<percent>\d+(?:\.\d+)?) ?%)?"
)


def rules(given: list, metrics: list | None = None) -> list:
    """[{rule, metric, condition, percent}] of 'regression > 5 %', 'latency_p99_ns regression', 'cannot_tell', 'missing'."""
    names = [metric.name for metric in wanted_metrics(metrics)]
    found = []
    for text in given:
        match = RULE.fullmatch(text.strip()) if isinstance(text, str) else None
        if (
            not match
            or (match["percent"] and match["condition"] != "regression")
            or (match["metric"] and match["condition"] == "missing")
        ):
            raise bad_value(
                "fail_on",
                text,
                "Write 'regression', 'regression > 5 %', 'cannot_tell' or 'missing'; all but the last also after a metric.",
            )
        if match["metric"] and match["metric"] not in names:
            raise bad_value("fail_on", text, f"{match['metric']} is not compared; use one of {', '.join(names)}.")
        found.append(
            {
                "rule": text.strip(),
                "metric": match["metric"],
                "condition": match["condition"],
                "percent": float(match["percent"] or 0),
            }
        )
    return found


def hits(comparison: dict, wanted: list) -> list:
    """[{rule, point, metric, text}] of what the rules object to. A rule on a metric that nothing measured is a Failure: it could never object."""
    measured = {row["metric"] for row in comparison["rows"]}
    found = []
    for rule in wanted:
        if rule["metric"] and rule["metric"] not in measured:
            raise Failure(
                "metric_missing",
                f"fail_on {rule['rule']!r} watches {rule['metric']}, which no point of both sides has measured.",
                "Remove the rule, or measure the metric.",
                rule=rule["rule"],
                measured=sorted(measured),
            )
        if rule["condition"] == "missing":
            found += [
                {
                    "rule": rule["rule"],
                    "point": entry["point"],
                    "metric": entry.get("metric", ""),
                    "text": "measured in the baseline only",
                }
                for entry in comparison["unmatched"]
                if entry["side"] == "baseline"
            ]
            found += [
                {"rule": rule["rule"], "point": entry["point_id"], "metric": "", "text": f"failed: {entry['reason']}"}
                for entry in comparison["failed"]
                if entry["side"] == "candidate"
            ]
            continue
        for row in comparison["rows"]:
            if rule["metric"] in (None, row["metric"]) and _objects(rule, row):
                found.append(
                    {
                        "rule": rule["rule"],
                        "point": row["point"],
                        "metric": row["metric"],
                        "text": verdict_words(row, comparison["margin_percent"]),
                    }
                )
    return found


def _objects(rule: dict, row: dict) -> bool:
    if rule["condition"] == "cannot_tell":
        return row["verdict"] in ("cannot_tell", "no_verdict")
    return row["verdict"] == "worse" and abs(row["change_percent"]) > rule["percent"]
