# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Were the two sides alike but for what is under test: the facts that figures depend on, and which differences of them matter."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from ...module_utils.core.failure import Failure
from ...module_utils.core.layers import Layer, lasting_identity
from ...module_utils.result.schema import Result
from ..store.flatten import flatten
from ..store.load import Run, under
from .nouns import SIDES
from .points import field_of, mapping

# Differences that never matter: what changes from one minute or one start to the next, and names the kernel assigns.
IGNORED = (
    "hosts.*.load_1min",
    "hosts.*.uptime*",
    "hosts.*.boot_id",
    "hosts.*.*_utc",
    "hosts.*.clock_offset*",
    "hosts.*.memory_copy_bytes_s",
    "hosts.*.fio_choices.*",
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
    "layers.*.detail.raid.members.*.device",
    "layers.*.detail.cache_tier.origin.device",
    "layers.*.detail.cache_tier.fast.device",
    "layers.*.detail.accel_reason",
)
# From the request: the rest is in each result.
REQUESTED = ("engine", "order", "profile.name", "profile.version", "prepare", "steady_state")
# From a preparation: its measurements, where the others are its settings.
CAME_OF_IT = ("warmup_hit_percent", "zeroed_s")


def facts(run: Run, results: list[Result], layers: set[str], compared: tuple[str, ...] = ()) -> dict[str, Any]:
    """{dotted name: text} of all that the figures of these results depend on.

    layers: the layers whose chains and hosts count. compared: the fields of FIELDS that are compared, whose own names are then no difference.
    """
    texts_by_fact: dict[str, Any] = {}
    chain = {name for layer in layers for name in _chain(run.layers, layer)}
    hosts = {host for layer in layers for host in chain_hosts(run.layers, layer)} | {
        field_of(result, "host") for result in results
    }
    for host in hosts - {""}:
        environment = run.environments.get(host)
        if not isinstance(environment, dict):
            texts_by_fact[f"hosts.{host}"] = "not recorded"
            continue
        # A host is as it was under the variant that is compared.
        variants = mapping(environment.get("variants"))
        here = mapping(
            next(
                (
                    variants[name]
                    for name in sorted({field_of(result, "variant") for result in results})
                    if name in variants
                ),
                environment,
            )
        )
        devices = {
            name: _by_generation(mapping(device), run.layers.get(name))
            for name, device in mapping(here.get("devices")).items()
            if name in chain
        }
        texts_by_fact.update(
            _flat(
                f"hosts.{host}",
                {**{key: value for key, value in here.items() if key not in ("host", "variants")}, "devices": devices},
            )
        )
    for name in chain:
        if name in run.layers:
            known = under(run.layers[name], *sorted({field_of(result, "variant") for result in results} - {""}))
            layer: dict[str, Any] = {key: value for key, value in known.items() if key != "name"}
            if isinstance(layer.get("identity"), dict):
                layer["identity"] = lasting_identity(known)
                layer["of_contents"] = _without(known["identity"], layer["identity"])
            texts_by_fact.update(_flat(f"layers.{name}", layer))
    sets: dict[str, Any] = {}
    for result in results:
        layer_name, workload = (
            "compared" if field in compared else field_of(result, field) for field in ("layer", "workload_id")
        )
        kinds = {
            f"engine.{layer_name}": {
                key: value for key, value in mapping(result.get("engine")).items() if key != "randseed"
            },
            f"preparation.{layer_name}": _prepared(mapping(result.get("preparation"))),
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
    requests = run.record.get("requests")
    for request in requests if isinstance(requests, list) else []:
        for key, text in _flat("run", request).items():
            if any(key == f"run.{name}" or key.startswith(f"run.{name}.") for name in REQUESTED):
                sets.setdefault(key, set()).add(text)
    texts_by_fact.update({key: " + ".join(sorted(texts)) for key, texts in sets.items()})
    texts_by_fact["repetitions"] = str(max(result["repetition"] for result in results))
    if run.record.get("collection_version"):
        texts_by_fact["run.collection_version"] = str(run.record["collection_version"])
    return texts_by_fact


def _prepared(preparation: Mapping[str, object]) -> dict[str, object]:
    """The settings of a preparation. A server whose cache was proven to be empty is like storage without a server; one whose cache is unknown is not."""
    empty = preparation.get("storage_cache") == "dropped"
    # Who keeps the engine from writing does not change what is read.
    left_out = (*CAME_OF_IT, "wall", *(["storage_cache"] if empty else []))
    return {key: value for key, value in preparation.items() if key not in left_out}


def _by_generation(device: dict[str, object], layer: Layer | None) -> dict[str, object]:
    """A host's facts of a device, with those apart that go with the contents of a disk that the testbed makes."""
    lasting = lasting_identity({"identity": device, "detail": mapping((layer or {}).get("detail"))})
    return {**lasting, "of_contents": _without(device, lasting)}


def _without(all_of_it: Mapping[str, object], part: Mapping[str, object]) -> dict[str, Any]:
    return {key: value for key, value in all_of_it.items() if key not in part}


def _flat(prefix: str, value: Any) -> dict[str, str]:
    return {name: text for name, text in flatten(value, prefix) if text}


def chain_hosts(layers: dict[str, Layer], name: str) -> set[str]:
    """The hosts of a layer and of all layers below it."""
    return {str(layers[below].get("host") or "") for below in _chain(layers, name) if below in layers} - {""}


def _chain(layers: dict[str, Layer], name: object) -> list[str]:
    chain: list[str] = []
    while isinstance(name, str) and name not in chain:
        chain.append(name)
        name = layers.get(name, {}).get("parent")
    return chain


def differences(
    baseline: Mapping[str, object], candidate: Mapping[str, object], under_test: list[str]
) -> list[dict[str, Any]]:
    """[{fact, baseline, candidate, status}] of two mappings of facts; status is unexpected, under_test or ignored. A fact of one side lacks the other."""
    entries = []
    for fact in sorted({*baseline, *candidate}):
        values: dict[str, object] = {
            side: facts_of[fact] for side, facts_of in zip(SIDES, (baseline, candidate)) if fact in facts_of
        }
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
        entries.append({"fact": fact, **values, "status": status})
    return entries


def refuse_unlike(differing: list[dict[str, Any]], labels: tuple[str, str]) -> None:
    """Failure 'unlike_runs' that names every unexpected difference."""
    unlike = [entry for entry in differing if entry["status"] == "unexpected"]
    if unlike:
        named = "; ".join(
            f"{entry['fact']} ({_short(entry.get('baseline'))} → {_short(entry.get('candidate'))})" for entry in unlike
        )
        raise Failure(
            "unlike_runs",
            f"{labels[0][:1].upper()}{labels[0][1:]} and {labels[1]} differ in {len(unlike)} fact{'' if len(unlike) == 1 else 's'} "
            f"not named in under_test: {named}.",
            "Measure both in the same environment, or name the intended difference in under_test.",
            differences=unlike,
        )


def _short(text: str | None) -> str:
    return "absent" if text is None else text if len(text) <= 60 else text[:57] + "…"
