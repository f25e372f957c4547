# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installations of operating systems in a run: how they are named, the counters of other hosts at that time, and each in a line."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

from ...module_utils.core import layers as core_layers
from ...module_utils.core.files import read_json
from ...module_utils.core.layers import Layer
from ...module_utils.core.times import unix_s
from ...module_utils.esxi.installation_plan import SCHEMA

FOLDER = "installations"
# Commands per second are reported as means of so many seconds: the shortest time in which a host that counts once a second certainly has several readings.
SAMPLE_S = 5


def name_of(layer: str, repetition: int) -> str:
    return f"{layer.removeprefix('guest-')}.r{repetition}"


def file_of(name: str) -> str:
    return f"{FOLDER}/{name}.json"


def named(file: str, timed: dict[str, Any]) -> bool:
    """Whether one with a number of repetition is in the file of that number, so that no number is there twice."""
    number = timed.get("repetition")
    if number is None:
        return True
    whole = isinstance(number, int) and not isinstance(number, bool)
    return whole and isinstance(timed.get("layer"), str) and file == file_of(f"{timed.get('guest')}.r{number}")


def of_debian(params: dict[str, Any], layer: Layer, measured: dict[str, Any]) -> dict[str, object]:
    """The installation as it is kept, of what the host has measured."""
    stepped = measured.pop("clock_stepped", False)
    packages, size_mb = measured["packages"], measured["package_bytes"] / 1e6
    return {
        "schema": SCHEMA,
        "testbed_id": params["testbed_id"],
        "run_id": params["run_id"],
        "guest": layer["name"].removeprefix("guest-"),
        "host": layer["host"],
        "layer": layer["name"],
        "repetition": params["repetition"],
        # Later additions find it by this name, as it does points.
        "point_id": f"installation.{name_of(layer['name'], params['repetition'])}",
        "datastore": str(layer.get("parent") or layer["name"]).removeprefix("datastore-"),
        "iso": f"Debian scaled down to {packages} packages, {size_mb:.1f} MB",
        "medium": params["medium"]["index_sha256"],
        "ended_by": "completed",
        "emulated": bool((layer.get("detail") or {}).get("emulated")),
        **measured,
        **({"counters_missed": "The host's clock was set during that time."} if stepped else {}),
    }


def line(timed: dict[str, Any]) -> str:
    """The installation in a line for a terminal."""
    phases = ", ".join(f"{name.removesuffix('_s')} {seconds:.1f} s" for name, seconds in timed["phases"].items())
    return f"{timed['guest']} on {timed['datastore']}, repetition {timed['repetition']}: installed in {timed['duration_s']:.1f} s ({phases})"


def kept(run_dir: str) -> Iterator[dict[str, Any]]:
    """Those of this run that others may add to."""
    folder = os.path.join(run_dir, FOLDER)
    for entry in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if entry.endswith(".json"):
            timed = read_json(os.path.join(folder, entry))
            if isinstance(timed, dict) and "point_id" in timed and "counters_missed" not in timed:
                yield timed


def storage_of(layers: dict[str, Layer], timed: dict[str, Any]) -> Layer | None:
    """The layer whose device carries the datastore with the guest's disk: the first disk below the guest."""
    below = core_layers.down(layers, layers.get(timed["layer"]))[1:]
    return next((layer for layer in below if layer["kind"] != "datastore" and layer.get("path")), None)


def intervals(timed: dict[str, Any]) -> dict[str, list[float]]:
    """{name: [begin, end]} to ask an observer for: the installation as a whole, and the whole samples within it."""
    begin, end = unix_s(timed["started_utc"]), unix_s(timed["finished_utc"])
    count = math.floor((end - begin) / SAMPLE_S)
    samples = {str(number): [begin + number * SAMPLE_S, begin + (number + 1) * SAMPLE_S] for number in range(count)}
    return {"whole": [begin, end], **samples}


def addition(host: str, layer: Layer, observed: dict[str, Any]) -> dict[str, object] | None:
    """The counters of a host for the datastore's device, as an addition to the installation; None when it counted nothing of it.

    observed: {name of an interval: figures}, as the observer answers.
    """
    whole = observed.get("whole", {})
    device = whole.get("layers", {}).get(layer["name"])
    if not device:
        return None
    rates = sorted(
        _rate(counted)
        for name, figures in observed.items()
        if name != "whole" and (counted := figures.get("layers", {}).get(layer["name"]))
    )
    place = math.ceil(0.95 * len(rates)) - 1
    mean = _rate(device)
    spread = {"p95": rates[place], "max": rates[-1]} if rates else {"p95": mean, "max": mean}
    others = {key: value for key, value in whole.items() if key != "layers"}
    return {
        "counters": {
            "hosts": {host: {**others, "layers": {layer["name"]: device}}},
            "datastore": {
                "host": host,
                "layer": layer["name"],
                "commands_s": {"mean": mean, **spread},
            },
            "samples": len(rates),
            "sample_s": SAMPLE_S,
        }
    }


def _rate(device: dict[str, Any]) -> float:
    commands = sum(device[way]["ios"] for way in ("read", "write"))
    return round(float(commands / device["interval_s"]), 1)
