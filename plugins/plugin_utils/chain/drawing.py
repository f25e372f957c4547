# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A testbed as people read it: a drawing of its layers in text, and its derived variables as YAML, each with what made it so."""

from __future__ import annotations

from typing import Any

import yaml

from ...module_utils.core.layers import Layer
from . import devices
from .shape import SECRET
from .stages import STAGES
from .testbed import Testbed

MASK = "********"
# The one in C writes the same ten times as fast; not every controller has it.
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def masked(value: Any) -> Any:
    """The value with all secrets replaced."""
    if isinstance(value, dict):
        return {key: MASK if SECRET.search(str(key)) and entry else masked(entry) for key, entry in value.items()}
    return [masked(entry) for entry in value] if isinstance(value, list) else value


def draw(testbed: Testbed) -> list[str]:
    """The layers as a forest, from the disks of the targets up; one line each."""
    lines = [f"testbed {testbed.testbed_id}"]
    names = {layer["name"] for layer in testbed.layers}
    above: dict[str | None, list[Layer]] = {}
    for layer in testbed.layers:
        above.setdefault(layer["parent"] if layer["parent"] in names else None, []).append(layer)

    lost = devices.lost(testbed)
    # An array has several disks; those are below the drawing.
    notes = {
        device.layer: f", {device.text()}: {device.fate}" for device in lost if not device.layer.startswith("backing-")
    }

    def grow(layer: Layer, stem: str, last: bool) -> None:
        measured = "raw" if layer["purpose"] == "scratch" and layer["kind"] != "datastore" else ""
        note = ", measured raw: overwritten" if measured and layer["kind"] == "backing" else ""
        note = notes.get(layer["name"], note)
        lines.append(f"{stem}{'└─' if last else '├─'} {layer['name']} on {layer['host']}: {layer['what']}{note}")
        branches = above.get(layer["name"], [])
        for branch in branches:
            grow(branch, f"{stem}{'   ' if last else '│  '}", branch is branches[-1])

    roots = above.get(None, [])
    for root in roots:
        grow(root, "", root is roots[-1])
    if not roots:
        why = "nothing is made of testbed.disks" if testbed.disks else "testbed.disks is empty"
        lines.append(f"└─ nothing: {why}")
    for name, host in testbed.hosts.items():
        if host.depends_on:
            lines.append(f"{name} needs {', '.join(host.depends_on)}")
    lines += [line for host in testbed.hosts.values() for stage in STAGES for line in stage.remarks(testbed, host)]
    return [
        *lines,
        *(["The contents of these devices will be lost:"] if lost else []),
        *(f"- {device.sentence()}" for device in lost),
    ]


def as_yaml(testbed: Testbed) -> str:
    """All derived variables, host by host; after each, what made it so."""
    lines = [
        "---",
        f"testbed_id: {testbed.testbed_id}",
        f"testbed_state_dir: {testbed.state_dir}",
        f"testbed_results_dir: {testbed.results_dir}",
    ]
    for name, host in testbed.hosts.items():
        lines += ["", f"# {name} runs {host.platform.capitalize()}", f"{name}:"]
        for variable in sorted(host.variables):
            text = yaml.dump(masked({variable: host.variables[variable]}), Dumper=DUMPER, sort_keys=False, width=140)
            lines.append(f"  # from: {host.because[variable]}")
            lines += [f"  {line}" for line in text.rstrip("\n").split("\n")]
        if not host.variables:
            lines[-1] += " {}"
    return "\n".join(lines) + "\n"
