# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a benchmark: which points, in which order, prepared how. Everything is validated here, to the last job file, before any I/O."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ...module_utils.core.failure import bad_value
from ...module_utils.core.layers import Layer, lasting_identity, only_read, parts, refuse_writing, validate_layer
from ...module_utils.engines import fio_distributed
from ...module_utils.engines.catalogue import ENGINES, check_options
from ...module_utils.result import steady_state
from ...module_utils.result.choices import CHOICES
from ...module_utils.result.schema import Result
from ...module_utils.run import beat, choices, duration, preparation
from ...module_utils.workload.point import Point, Server
from ...module_utils.workload.sweep import refuse_repeated
from ...module_utils.workload.wanted import wanted_workloads
from ...module_utils.workload.workload import Workload, by_time, directions, parse_size, workload_id
from . import search as searches
from .search import Search

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
ORDERS = ("interleaved", "random", "as_listed")


def validate(args: dict[str, Any], profile: dict[str, Any] | None = None) -> dict[str, Any]:
    """The request, complete and in one shape, out of the arguments of the task. profile: as module_utils/workload/profile.py returns it."""
    for key in ("testbed_id", "run_id"):
        if not NAME.fullmatch(args[key]) or args[key] == "latest":
            raise bad_value(key, args[key], "Use letters, digits, dot, dash and underscore, and not the word latest.")
    if args["variant"] is not None and not NAME.fullmatch(args["variant"]):
        raise bad_value("variant", args["variant"], "Use letters, digits, dot, dash and underscore.")
    if args["repetitions"] < 1:
        raise bad_value("repetitions", args["repetitions"], "Use at least 1.")
    only = sorted(set(args["only_repetitions"] or range(1, args["repetitions"] + 1)))
    if only[0] < 1 or only[-1] > args["repetitions"]:
        raise bad_value(
            "only_repetitions",
            args["only_repetitions"],
            f"Use numbers from 1 to repetitions, which is {args['repetitions']}.",
        )
    if args["servers"] and args["steady_state"] is not None:
        raise bad_value(
            "steady_state", args["steady_state"], "It is judged on one host only; measure many hosts without it."
        )
    fio_distributed.check_servers(args["servers"])
    options = {
        key: args[key]
        for key in (
            "testbed_id",
            "run_id",
            "engine",
            "repetitions",
            "order",
            "variant",
            "series",
            "beat",
            "allow_device",
            "servers",
        )
    }
    # A coordinating host sees nothing of the others' seconds.
    options.update(series=options["series"] and not options["servers"])
    options.update(
        only_repetitions=only,
        prepare=validate_prepare(args["prepare"], args["engine"]),
        steady_state=None if args["steady_state"] is None else plain(args["steady_state"]),
        seed=_number(args["run_id"]) if args["seed"] is None else args["seed"],
        search=None if args["search"] is None else searches.validate(plain(args["search"])),
        workloads=wanted_workloads(args, profile),
    )
    check_options(options["workloads"])
    for workload in options["workloads"]:
        _steady(options, workload)
    if options["search"]:
        metric = options["search"].get("metric", "latency_mean_ns")
        if metric != "latency_mean_ns" and not ENGINES[options["engine"]].distributions:
            raise bad_value(
                "search.max_iops_at.metric",
                metric,
                f"{options['engine']} does not write what is needed to merge percentiles of repetitions; use latency_mean_ns, or fio.",
            )
        if args["only_repetitions"]:
            raise bad_value(
                "only_repetitions", args["only_repetitions"], "A search itself decides what is measured; leave it out."
            )
        refuse_repeated(
            [
                searches.at_load(options["search"], base, _first_load(options["search"]))
                for base in options["workloads"]
            ],
            "workloads of a search",
        )
    return options


def validate_prepare(given: dict[str, Any], engine: str = "fio") -> dict[str, Any]:
    """The preparation of the measurement, out of the argument of that name: preparation.DEFAULTS with other values, sizes in bytes."""
    prepare = {**preparation.DEFAULTS, **plain(given)}
    prepare["precondition_block_bytes"] = parse_size(
        prepare["precondition_block_bytes"], "prepare.precondition_block_bytes"
    )
    if not 512 <= prepare["precondition_block_bytes"] <= 1 << 30 or prepare["precondition_block_bytes"] % 512:
        raise bad_value(
            "prepare.precondition_block_bytes",
            given["precondition_block_bytes"],
            "Use a multiple of 512 bytes, up to 1g.",
        )
    for key in ("precondition_passes", "warmup_s"):
        if prepare[key] < 0:
            raise bad_value(f"prepare.{key}", prepare[key], "Use a number of at least 0.")
    if prepare["warmup_turns"] < 1:
        raise bad_value("prepare.warmup_turns", prepare["warmup_turns"], "Use a number of at least 1.")
    if preparation.zeroes(prepare) and prepare["precondition_passes"]:
        raise bad_value(
            "prepare.zero_before",
            prepare["zero_before"],
            f"Zeroes would end the state that precondition_passes, {prepare['precondition_passes']}, brings about; leave out one of both.",
        )
    if preparation.zeroes(prepare) and not ENGINES[engine].zeroes:
        raise bad_value(
            "prepare.zero_before", prepare["zero_before"], "IOMeter cannot write zeroes; use fio or diskspd."
        )
    return prepare


def steady_argument(given: object) -> dict[str, object] | None:
    """The argument steady_state as a mapping: true means the limits of the specification, as for an empty mapping, and false means none."""
    if given is None or isinstance(given, dict):
        return given
    try:
        # A value from a command line (-e testbed_steady_state=true) is text.
        return {} if boolean(given) else None
    except TypeError as error:
        raise bad_value(
            "steady_state", given, f"Use true, false or a mapping of {', '.join(steady_state.KEYS)}."
        ) from error


def plain(value: object) -> Any:
    """Without what was not given, and whole numbers as whole numbers: 5.0 and 5 are the same measurement."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _steady(options: dict[str, Any], workload: Workload) -> dict[str, object] | None:
    if options["steady_state"] is None:
        return None
    if not by_time(workload):
        raise bad_value(
            "steady_state",
            options["steady_state"],
            f"Its rounds are of a time, but {workload_id(workload)} ends after an amount; leave out "
            "one of steady_state and loops or io_bytes.",
        )
    return steady_state.normalise(options["steady_state"], workload["runtime_s"])


# ---------------------------------------------------------------- layers


def choose_layers(given: Any, known: dict[str, object], host: str, ceiling: bool = True) -> dict[str, Any]:
    """{measured, skipped, known} of the layers that were given (a list or a mapping; None means the known ones) and are on this host.

    ceiling: whether the engine can measure itself.
    """
    given = known if given is None else given
    given = [validate_layer(layer) for layer in (given.values() if isinstance(given, dict) else given)]
    here = [
        layer for layer in given if layer["host"] == host and (layer["path"] is not None or layer["kind"] == "ceiling")
    ]
    # A data layer is measured through the files on it, which are layers of their own.
    measured = [layer for layer in here if layer["purpose"] != "data" and (ceiling or layer["kind"] != "ceiling")]
    for layer in measured:
        if not NAME.fullmatch(layer["name"]):
            raise bad_value("layer name", layer["name"], "Use letters, digits, dot, dash and underscore.")
    everything = {layer["name"]: layer for layer in [*known.values(), *given]}
    return {
        "measured": measured,
        "skipped": [layer["name"] for layer in here if layer not in measured],
        "known": list(everything.values()),
    }


def choose_servers(
    servers: list[Server], name: str | None, given: Any, known: dict[str, Any], host: str
) -> dict[str, Any]:
    """The return of choose_layers, for one layer that represents the layers of all servers and is coordinated by this host."""
    chosen = choose_layers(given, known, host)
    layers = {layer["name"]: layer for layer in chosen["known"]}
    group = fio_distributed.group_layer(name, [fio_distributed.layer_of(server, layers) for server in servers], host)
    if group["name"] in layers or not NAME.fullmatch(group["name"]):
        raise bad_value(
            "servers_layer",
            group["name"],
            "Use letters, digits, dot, dash and underscore, and a name that no layer has.",
        )
    return {"measured": [group], "skipped": [], "known": [*chosen["known"], group]}


# ---------------------------------------------------------------- points


def planned(options: dict[str, Any], layers: list[Layer]) -> list[Point]:
    """All points of a plan without a search, in the order they are measured."""
    points = in_order(
        options,
        [
            make_point(options, workload, layer, repetition)
            for repetition in range(1, options["repetitions"] + 1)
            for workload in options["workloads"]
            for layer in (turned(layers, options["seed"], repetition) if options["order"] == "interleaved" else layers)
        ],
    )
    return [point for point in numbered(points, 1) if point["repetition"] in options["only_repetitions"]]


def turned(layers: list[Layer], seed: int, repetition: int) -> list[Layer]:
    """The layers of a round: a different one begins in each, by the seed, so that what drifts within a round falls on all alike."""
    first = _number(f"{seed}/{repetition}") % len(layers) if layers else 0
    return layers[first:] + layers[:first]


def searched(options: dict[str, Any], layers: list[Layer], results: dict[str, Result]) -> list[Point]:
    """All points that a search wants by now, given the results that it has, {point_id: result}."""
    points = []
    for base in options["workloads"]:
        for layer in layers:
            if options["search"]["kind"] == "rate_ladder":
                # Which rates it asks for is known after the peak, whether the engine keeps rates before.
                make_point(options, searches.at_load(options["search"], base, base["workers"]), layer, 1)
            for workload, count in searches.wanted(
                options["search"], base, options["repetitions"], measured_on(layer, results)
            ):
                points += [make_point(options, workload, layer, repetition) for repetition in range(1, count + 1)]
    return in_order(options, sorted(points, key=lambda point: point["repetition"]))


def measured_on(layer: Layer, results: dict[str, Result]) -> dict[str, list[Result]]:
    """{workload_id: [results]} of one layer."""
    results_by_id: dict[str, list[Result]] = {}
    for result in results.values():
        if result["layer"] == layer["name"]:
            results_by_id.setdefault(result["workload_id"], []).append(result)
    return results_by_id


def in_order(options: dict[str, Any], points: list[Point]) -> list[Point]:
    """Points that come by repetition, in the order of the plan.

    interleaved: repetitions outermost, so that what drifts over time shows as spread and not as a difference between workloads, and another layer first in
    each (see turned). random: the same, each
    round shuffled by the seed. as_listed: all repetitions of a point one after the other.
    """
    if options["order"] == "random":
        # A hash, because it is the same with every version of Python.
        return sorted(
            points, key=lambda point: (point["repetition"], _number(f"{options['seed']}/{point['point_id']}"))
        )
    if options["order"] == "as_listed":
        places: dict[tuple[str, str], int] = {}
        for point in points:
            places.setdefault((point["layer"], point["workload_id"]), len(places))
        return sorted(points, key=lambda point: (places[point["layer"], point["workload_id"]], point["repetition"]))
    if ENGINES[options["engine"]].shares_runs:
        # Points that alternate between layers would be a run for each point.
        turns = list(dict.fromkeys((point["repetition"], point["layer"]) for point in points))
        return sorted(
            points, key=lambda point: (point["repetition"], turns.index((point["repetition"], point["layer"])))
        )
    return points


def numbered(points: list[Point], first: int) -> list[Point]:
    return [{**point, "order": number} for number, point in enumerate(points, start=first)]


def refuse_writers(options: dict[str, Any], layers: list[Layer]) -> None:
    """Raise layer_read_only, before anything is measured, for what would write to storage of others."""
    prepare = options["prepare"]
    for layer in filter(only_read, layers):
        for key, harmless in (("precondition_passes", 0), ("zero_before", "nothing")):
            if prepare[key] != harmless:
                refuse_writing(layer, f"prepare.{key} {prepare[key]}")
        for workload in options["workloads"]:
            if "write" in directions(workload) or "verify" in workload:
                refuse_writing(layer, f"Workload {workload_id(workload)}")


def make_point(options: dict[str, Any], workload: Workload, layer: Layer, repetition: int) -> Point:
    short, variant = workload_id(workload), options["variant"]
    point: Point = {
        "point_id": ".".join([layer["name"], short, *([variant] if variant else []), f"r{repetition}"]),
        "layer": layer["name"],
        "workload": workload,
        "workload_id": short,
        "repetition": repetition,
        **({"variant": variant} if variant else {}),
        **({"servers": options["servers"]} if options["servers"] else {}),
    }
    point["seed"] = _number(f"{options['run_id']}/{point['point_id']}")
    prepare = options["prepare"]
    same = {
        # A run goes on after its testbed was built again, so that what comes with the contents of a disk makes no difference.
        "layer": {
            **{key: layer[key] for key in ("name", "kind", "host", "size_bytes")},
            "identity": lasting_identity(layer),
            # Only where it is used: results of versions that did not know it yet stay the same points.
            **({"files": len(parts(layer))} if len(parts(layer)) > 1 else {}),
        },
        "workload": workload,
        "engine": options["engine"],
        "fill": prepare["fill"],
        "repetition": repetition,
    }
    # Only what is used is part of the fingerprint: results of versions that did not know it yet stay the same points.
    used = {key: prepare[key] for key in ("precondition_passes", "warmup_s") if prepare[key]}
    if prepare["precondition_passes"]:
        used["precondition_block_bytes"] = prepare["precondition_block_bytes"]
    if prepare["warmup_s"] and prepare["warmup_turns"] > 1:
        used["warmup_turns"] = prepare["warmup_turns"]
    if not workload["direct"]:
        used["drop_caches"] = prepare["drop_caches"]
    if preparation.zeroes(prepare):
        used["zero_before"] = prepare["zero_before"]
    same.update(
        {
            key: value
            for key, value in (("prepare", used), ("steady_state", _steady(options, workload)), ("variant", variant))
            if value
        }
    )
    point["fingerprint"] = hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()
    # A word that cannot be expressed is refused now, not in the middle of the run.
    for place in layer["detail"]["members"] if options["servers"] else [layer]:
        files = (layer.get("detail") or {}).get("files")
        ENGINES[options["engine"]].check(
            {**point, "path": place["path"], "size_bytes": place["size_bytes"], **({"files": files} if files else {})}
        )
    return point


def for_host(
    options: dict[str, Any], layers: dict[str, list[Layer]], points: list[Point], prepared: Mapping[str, object]
) -> dict[str, object]:
    """The plan for the host. layers: as choose_layers returns them. prepared: what is known of layers that this run has written already."""
    used = {point["layer"] for point in points}
    return {
        "points": points,
        "layers": [layer for layer in layers["measured"] if layer["name"] in used],
        "known_layers": layers["known"],
        "prepared": {name: known for name, known in prepared.items() if name in used},
        # A search repeats more often what is in doubt.
        "repetitions": max([options["repetitions"], *(point["repetition"] for point in points)]),
        **{key: options[key] for key in ("engine", "prepare", "steady_state", "series", "beat", "allow_device")},
    }


def same_host(environment: Mapping[str, object]) -> dict[str, object]:
    """{fio_clock, fio_choices} of a plan for a host that this run has measured before; empty for another. environment: the host's fingerprint."""
    clock, figures = environment.get(beat.CLOCK), environment.get(choices.FIGURES)
    known = {
        choice.name: figures[choice.name]
        for choice in CHOICES
        if isinstance(figures, dict) and isinstance(figures.get(choice.name), int)
    }
    return {**({beat.CLOCK: clock} if clock in beat.CLOCKS else {}), **({choices.FIGURES: known} if known else {})}


def prepared_by(results: dict[str, Result]) -> dict[str, object]:
    """{layer: {utc, instance?, filled, preconditioned_passes?}} of the layers that were written for these results, as for_host wants it."""
    prepared: dict[str, Any] = {}
    for result in sorted(
        (result for result in results.values() if "prepared" in result), key=lambda result: result["prepared"]["utc"]
    ):
        state = {
            key: value
            for key, value in result.get("preparation", {}).items()
            if key in ("filled", "preconditioned_passes")
        }
        prepared[result["layer"]] = {**result["prepared"], **state}
    return prepared


def shown(point: Point, options: dict[str, Any], status: str) -> dict[str, Any]:
    """A point as the task returns it."""
    return {
        **{
            key: point[key]
            for key in ("order", "point_id", "layer", "workload_id", "repetition", "variant")
            if key in point
        },
        "duration_s": duration.point_s(point["workload"], options["steady_state"]),
        "status": status,
    }


def most_s(options: dict[str, Any], layers: list[Layer]) -> float:
    """How long a search may take from its beginning, unless a device contradicts itself."""
    each = searches.most_points(options["search"], options["repetitions"]) * len(layers)
    return sum(each * duration.point_s(workload, options["steady_state"]) for workload in options["workloads"])


def request(options: dict[str, Any], profile: Mapping[str, object] | None) -> dict[str, Any]:
    """The part of the request that run.json keeps. The repetitions that a single call measures are not in it."""
    kept = {
        key: options[key]
        for key in (
            "engine",
            "repetitions",
            "order",
            "seed",
            "prepare",
            "steady_state",
            "series",
            "search",
            "variant",
            "workloads",
        )
        if options[key] is not None
    }
    if options["allow_device"]:
        kept["allow_device"] = options["allow_device"]
    if options["servers"]:
        kept["servers"] = [{key: server[key] for key in ("host", "layer", "version")} for server in options["servers"]]
    if profile is not None:
        kept["profile"] = {key: value for key, value in profile.items() if key not in ("workloads", "sweep", "exclude")}
    return kept


def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:7], 16)


def _first_load(search: Search) -> Any:
    return search["values"][0] if search["kind"] == "knee" else search.get("low")
