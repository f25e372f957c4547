# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Publishes layers; documentation in plugins/modules/layer.py."""

from __future__ import annotations

import json
import os
from typing import ClassVar

from ..module_utils.core.files import write_json
from ..module_utils.core.layers import validate_layer
from ..plugin_utils.action import CollectionAction


def read_layers(state_dir: str | None) -> dict:
    folder = os.path.join(state_dir, "layers") if state_dir else None
    layers = {}
    for entry in sorted(os.listdir(folder)) if folder and os.path.isdir(folder) else []:
        if entry.endswith(".json"):
            with open(os.path.join(folder, entry), encoding="utf-8") as handle:
                layer = json.load(handle)
            layers[layer["name"]] = layer
    return layers


def write_layer(state_dir: str, layer: dict) -> None:
    folder = os.path.join(state_dir, "layers")
    os.makedirs(folder, exist_ok=True)
    # A layer is replaced whole or not at all: other hosts' tasks read this folder while this one writes.
    write_json(os.path.join(folder, f"{layer['name']}.json"), layer, mode=0o600, indent=1)


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {
        "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
        "layers": {"type": "list", "elements": "dict", "default": []},
        "names": {"type": "list", "elements": "str", "default": []},
        "suffix": {"type": "str", "default": ""},
        "state_dir": {"type": "path"},
    }

    def perform(self, params: dict) -> dict:
        state, state_dir, suffix = params["state"], params["state_dir"] or None, params["suffix"]
        known, kept = self.task_vars.get("ansible_facts", {}).get("storlab_layers", {}), read_layers(state_dir)
        # In check mode nothing is kept, so what this playbook would have published is newer.
        before = {**kept, **known} if self._task.check_mode else {**known, **kept}
        after = dict(before)
        if state == "present":
            for layer in params["layers"]:
                layer = validate_layer(
                    {**layer, "name": f"{layer['name']}{suffix}"} if suffix and "name" in layer else layer
                )
                after[layer["name"]] = layer
        elif state == "absent":
            for name in params["names"]:
                after.pop(f"{name}{suffix}", None)
        if state_dir and not self._task.check_mode:
            for name, layer in after.items():
                if before.get(name) != layer:
                    write_layer(state_dir, layer)
            for name in set(before) - set(after):
                path = os.path.join(state_dir, "layers", f"{name}.json")
                if os.path.exists(path):
                    os.unlink(path)
        # Publishing describes the testbed, it does not change it: never "changed".
        return {"changed": False, "ansible_facts": {"storlab_layers": after}}
