# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of the playbook failover: which layer is measured while which target has which events, under which settings of the initiator, with which load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...module_utils.core.failure import bad_value
from ...module_utils.run.path_event import EVENTS
from ...module_utils.workload.workload import parse_size

NAME = "testbed_failover"
USUAL: dict[str, Any] = {
    "layer": "",
    # Without settings the initiator stays as it is.
    "settings": {},
    "events": {"dropped": {"for_s": 0}, "away": {"for_s": 20}},
    "rounds": 4,
    "rate_iops": 50,
    "block_size": "4k",
    "queue_depth": 4,
    # I/O before the event, from which its rate is known, and after its end, in which it may come back.
    "before_s": 20,
    "rest_s": 40,
}
EVENT_KEYS = ("kind", "for_s")
# {word of a setting: the least that it may be}
SETTINGS = {"replacement_timeout_s": 1}
WORD = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
LEAST_BEFORE_S, LEAST_REST_S = 10, 10


def plan(given: Mapping[str, Any], layers: Mapping[str, Any]) -> dict[str, Any]:
    """{layer, host, target, target_host, rounds, variants, workload} of a description {key of USUAL: …} and the published layers.

    variants: [{name, vars: {setting, event}}] for the role benchmark, without the tasks that bring a host to them. Failure 'bad_value' names what is wrong.
    """
    wanted = checked(given)
    settings, events = wanted["settings"], wanted["events"]
    layer = _layer(wanted["layer"], layers)
    target = layers[layer["parent"]]
    longest_s = wanted["before_s"] + max(event["for_s"] for event in events.values()) + wanted["rest_s"]
    workload = _workload(wanted, longest_s)
    if workload["io_bytes"] > layer["size_bytes"]:
        # So that no block is written twice (fio_job.py).
        raise bad_value(
            f"{NAME}.rate_iops",
            wanted["rate_iops"],
            f"In {longest_s} s that writes {workload['io_bytes']} bytes, and {layer['name']} has {layer['size_bytes']}: use a larger disk, a lower rate, "
            "smaller blocks, or less of before_s, for_s and rest_s.",
        )
    return {
        "layer": layer["name"],
        "host": layer["host"],
        "target": layer["identity"]["target_iqn"],
        "target_host": target["host"],
        "rounds": wanted["rounds"],
        "before_s": wanted["before_s"],
        "deadline_s": 10 * longest_s,
        "variants": [
            {
                "name": f"{event}-{setting}" if settings else event,
                "vars": {"event": events[event], "setting": settings.get(setting, {})},
            }
            for event in events
            for setting in settings or {"": {}}
        ],
        "workload": workload,
    }


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The complete description."""
    if not isinstance(given, dict):
        raise bad_value(NAME, given, "Give a mapping; docs/failover.md has its keys.")
    for key in given:
        if key not in USUAL:
            raise bad_value(f"{NAME}.{key}", given[key], f"There is no such key; use {', '.join(USUAL)}.")
    wanted = {**USUAL, **given}
    for key, least in (
        ("rounds", 1),
        ("rate_iops", 1),
        ("queue_depth", 1),
        ("before_s", LEAST_BEFORE_S),
        ("rest_s", LEAST_REST_S),
    ):
        wanted[key] = _number(f"{NAME}.{key}", wanted[key], least)
    wanted["settings"] = {
        name: {
            word: _number(f"{NAME}.settings.{name}.{word}", value, SETTINGS[word])
            for word, value in _words(f"{NAME}.settings.{name}", setting, SETTINGS).items()
        }
        for name, setting in _named(f"{NAME}.settings", wanted["settings"]).items()
    }
    wanted["events"] = {
        name: _event(f"{NAME}.events.{name}", event)
        for name, event in _named(f"{NAME}.events", wanted["events"]).items()
    }
    parse_size(wanted["block_size"], f"{NAME}.block_size")
    if not wanted["events"]:
        raise bad_value(f"{NAME}.events", wanted["events"], "Give at least one event.")
    return wanted


def _workload(wanted: Mapping[str, Any], longest_s: int) -> dict[str, Any]:
    """A load that lasts so long where nothing happens."""
    return {
        "block_size": wanted["block_size"],
        "read_percent": 0,
        "random_percent": 100,
        "queue_depth": wanted["queue_depth"],
        "rate_iops": wanted["rate_iops"],
        "rate_process": "poisson",
        "io_bytes": wanted["rate_iops"] * longest_s * parse_size(wanted["block_size"]),
        # The longest that it may take, with all that had to wait.
        "runtime_s": 2 * longest_s,
        "verify": "crc32c",
        "on_error": "continue",
    }


def _named(variable: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise bad_value(variable, value, "Give a mapping of names.")
    for name in value:
        if not isinstance(name, str) or not WORD.fullmatch(name):
            raise bad_value(variable, name, "Write a name in small letters and digits, joined by hyphens.")
    return value


def _words(variable: str, value: Any, known: Mapping[str, object] | tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise bad_value(variable, value, f"Give a mapping with {', '.join(known)}.")
    for key in value:
        if key not in known:
            raise bad_value(f"{variable}.{key}", value[key], f"There is no such key; use {', '.join(known)}.")
    return value


def _event(variable: str, value: Any) -> dict[str, Any]:
    words = {"kind": "target_off", "for_s": 0, **_words(variable, value, EVENT_KEYS)}
    if words["kind"] not in EVENTS:
        raise bad_value(f"{variable}.kind", words["kind"], f"Use one of {', '.join(EVENTS)}.")
    return {**words, "for_s": _number(f"{variable}.for_s", words["for_s"], 0)}


def _number(variable: str, value: Any, least: int) -> int:
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise bad_value(variable, value, f"Give a whole number of at least {least}.")
    return value


def _layer(name: str, layers: Mapping[str, Any]) -> dict[str, Any]:
    """The layer with this name, or the only one that can be measured so."""
    fit = {known: layer for known, layer in layers.items() if _fits(layer, layers)}
    if name in fit:
        chosen: dict[str, Any] = fit[name]
    elif not name and len(fit) == 1:
        chosen = next(iter(fit.values()))
    else:
        raise bad_value(
            f"{NAME}.layer",
            name,
            "Name a disk of an initiator that raw benchmarks may overwrite, on a target of the kernel's iSCSI server that the testbed made: "
            f"{', '.join(sorted(fit)) or 'this testbed has none'}.",
        )
    _refuse_others(chosen, layers)
    return chosen


def _refuse_others(chosen: Mapping[str, Any], layers: Mapping[str, Any]) -> None:
    """A target goes with all of its LUNs, and a file system on one of them would lose writes."""
    target = chosen["identity"]["target_iqn"]
    others = sorted(
        name
        for name, layer in layers.items()
        if layer.get("identity", {}).get("target_iqn") == target
        and layer.get("kind") == "initiator"
        and layer.get("purpose") != "scratch"
    )
    if others:
        raise bad_value(
            f"{NAME}.layer",
            chosen["name"],
            f"Its target {target} also has {', '.join(others)}, which keeps data and would be lost for that time; "
            "measure a testbed of disks without datastores.",
        )


def _fits(layer: Mapping[str, Any], layers: Mapping[str, Any]) -> bool:
    """Whether it is a disk of open-iscsi on an own target. Who made the target is known on its host alone, which refuses a wrong one (path_event.py)."""
    target = layers.get(str(layer.get("parent")), {})
    return (
        layer.get("kind") == "initiator"
        and layer.get("purpose") == "scratch"
        and "target_iqn" in layer.get("identity", {})
        and (layer.get("detail") or {}).get("provider") == "open_iscsi"
        and target.get("kind") == "target"
    )
