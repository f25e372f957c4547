# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage ``benchmark``: the measured hosts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar, cast

from ....module_utils.core.failure import Failure
from ....module_utils.engines.catalogue import misplaced
from ....module_utils.result import targets
from ....module_utils.workload.sweep import expand
from ....module_utils.workload.wanted import greatest_buffers
from ..nouns import Lab, Published
from ..shape import Problem, did_you_mean, shown
from ..stage import Judge, Needs, Stage
from ..testbed import Context, Host, Testbed, addresses_of, mappings


class Benchmark(Stage):
    name = "benchmark"
    packages: ClassVar = {"fio": ("fio", "fio"), "blkid": ("util-linux", "util-linux")}
    variables = (
        "benchmark_ceiling",
        "benchmark_networks",
        "benchmark_platform",
        "benchmark_profile",
        "benchmark_server_address",
        "benchmark_workloads",
    )

    def derive(self, context: Context) -> None:
        _measured(context)

    def runs_on(self, context: Context, host: Host) -> bool:
        return "benchmark_platform" in host.variables

    def checks(self) -> dict[str, Judge]:
        return {"measured": _unfit_measured}

    def memory_mib(self, lab: Lab, host: Host) -> tuple[int, str, str] | None:
        measured = lab.get("workloads", {}).get(host.name, []) if self.name in host.stages else []
        buffers, arithmetic = greatest_buffers(measured)
        remedy = "lower queue_depth, workers or block_size"
        return (buffers >> 20, f"the buffers of {arithmetic}", remedy) if buffers >> 20 else None

    def needs(self, testbed: Testbed, host: Host) -> Needs:
        return ["fio", "blkid"], []


def _measured(context: Context) -> None:
    # The embedded lab makes its guests: one that is not described is not there.
    listed = [mappings(host.variables.get("guest_vm_guests")) for host in context.testbed.hosts.values()]
    made = {guest.get("host") for guests in listed for guest in guests}
    unmade = set(context.testbed.groups.get("guests", [])) - made if context.testbed.embedded else set()
    for name in context.testbed.targets + context.testbed.initiators + context.testbed.groups.get("guests", []):
        host = context.testbed.hosts[name]
        if name in unmade:
            continue
        windows = host.platform == "windows"
        runs = f"{name} runs {host.platform.capitalize()}"
        # Nothing is measured on an ESXi host; what it counts is kept after each round.
        context.derive(host, "benchmark_platform", host.platform, runs)
        links = _links(context, host) if host.platform == "linux" else []
        because = (
            "the targets that it logs in to or mounts from"
            if links
            else "no Linux target that it reaches over a network"
        )
        context.derive(host, "benchmark_networks", links, because)
        profile = context.derive(host, "benchmark_profile", "", "none is named")
        if profile and host.own.get("benchmark_workloads"):
            host.own["benchmark_workloads"] = []
        context.derive(host, "benchmark_workloads", [], "benchmark_profile")
        target, fio = name in context.testbed.targets, host.own.get("benchmark_engine", "fio") == "fio"
        if host.platform == "esxi":
            context.derive(host, "benchmark_ceiling", False, runs)
        elif context.testbed.embedded:
            # The machines have the same emulated processor.
            context.derive(
                host,
                "benchmark_ceiling",
                target,
                "all machines have the same processor, so only the targets matter",
            )
        else:
            context.derive(host, "benchmark_ceiling", not windows or (fio and not target), runs)
        own = addresses_of(host.own)
        context.derive(host, "benchmark_server_address", own[0][0] if own else "", f"testbed_address of {name}")


def _links(context: Context, host: Host) -> list[dict[str, str]]:
    """[{target, address}] of the Linux targets on other machines that a host's sessions and mounts go to, each once."""
    sessions = [
        (place, target, session)
        for session in mappings(host.variables.get("iscsi_initiator_targets"))
        for place, target in dict.fromkeys(context.testbed.exporters.get(session.get("iqn"), []))
    ]
    links = []
    for _place, target, session in sorted(sessions, key=lambda entry: entry[0]):
        ways = [session.get("portal"), *mappings(session.get("other_portals"))]
        links += [(target, way.get("address")) for way in mappings(ways)]
    for store in context.testbed.stores:
        if store.over and host.name in store.hosts:
            addresses = addresses_of(context.testbed.hosts[store.over.target].own)
            links += [(store.over.target, address) for address, _port in addresses[:1]]
    return [
        {"target": target, "address": str(address)}
        for target, address in dict.fromkeys(links)
        if address and target != host.name and context.testbed.hosts[target].platform == "linux"
    ]


def _unfit_measured(lab: Lab, testbed: Testbed) -> list[Problem]:
    layers = [layer for published in lab.get("published", {}).values() for layer in published]
    layers += [cast(Published, layer) for layer in testbed.layers]
    known = {layer["name"]: layer for layer in layers}
    problems: list[Problem] = []
    reported: set[str] = set()
    for host in testbed.hosts.values():
        # A fault of a variable that many hosts share is one problem.
        for key, problem in (*_profile(host.own, lab["profiles"]), *_report_targets(host.own)):
            if key not in reported:
                reported.add(key)
                problems.append(problem)
        problems += [*_engine(host), *_server_layer(host, known)]
        for key, problem in _workloads(host.own):
            if key not in reported:
                reported.add(key)
                problems.append(problem)
    return problems


def _profile(own: dict[str, Any], profiles: Collection[str]) -> Iterator[tuple[str, Problem]]:
    profile = own.get("benchmark_profile")
    if profile and not own.get("benchmark_profile_dirs") and profile not in profiles:
        why = "which is not a known profile"
        yield profile, Problem("benchmark_profile", shown(profile), why, did_you_mean(profile, profiles))


def _report_targets(own: dict[str, Any]) -> Iterator[tuple[str, Problem]]:
    for text in own["report_targets"] if isinstance(own.get("report_targets"), list) else []:
        if targets.parse(text) is None:
            yield str(text), Problem("report_targets", shown(text), "which is not a target", targets.EXAMPLE)


def _engine(host: Host) -> Iterator[Problem]:
    engine = host.own.get("benchmark_engine")
    wrong = misplaced(engine, host.platform) if "benchmark" in host.stages else None
    if wrong:
        yield Problem(f"benchmark_engine of {host.name}", shown(engine), *wrong)


def _server_layer(host: Host, known: Mapping[str, Published]) -> Iterator[Problem]:
    layer = host.own.get("benchmark_server_layer")
    variable = f"benchmark_server_layer of {host.name}"
    if layer and layer not in known and not layer.startswith("ceiling-"):
        yield Problem(variable, shown(layer), "which is not a layer of this testbed", did_you_mean(layer, list(known)))
    elif layer and layer in known and known[layer].get("purpose") == "data":
        raw = [name for name, other in known.items() if other["purpose"] == "scratch" and other["host"] == host.name]
        remedy = f"use {' or '.join(raw)}" if raw else "use a disk without a datastore"
        yield Problem(variable, shown(layer), "which contains data that a raw benchmark would destroy", remedy)


def _workloads(own: dict[str, Any]) -> Iterator[tuple[str, Problem]]:
    for index, workload in enumerate(own.get("benchmark_workloads") or []):
        variable = f"benchmark_workloads[{index}]"
        try:
            expand(dict(workload) if isinstance(workload, dict) else workload, None, variable)
        except Failure as failure:
            value = failure.details.get("value")
            where = str(failure.details.get("variable", variable))
            yield str(failure), Problem(where, None if value is None else shown(value), "", failure.remedy)
