# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Publishes layers; documentation in plugins/modules/layer.py."""

from __future__ import annotations

import json
import os
import tempfile

from ansible.plugins.action import ActionBase

from ..module_utils.failure import Failure, bad_value
from ..module_utils.layers import validate_layer


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
    handle, temporary = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump(layer, stream, indent=1, sort_keys=True)
    os.replace(temporary, os.path.join(folder, f"{layer['name']}.json"))


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("layers", "names", "state", "state_dir", "suffix"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        args, task_vars = self._task.args, task_vars or {}
        try:
            result.update(self._apply(args, task_vars))
        except Failure as failure:
            result.update(failed=True, **failure.as_result())
        return result

    def _apply(self, args: dict, task_vars: dict) -> dict:
        state, state_dir = args.get("state", "present"), args.get("state_dir") or None
        if state not in ("present", "absent", "gathered"):
            raise bad_value("state", state, "Use present, absent or gathered.")
        suffix = args.get("suffix") or ""
        known, kept = task_vars.get("ansible_facts", {}).get("storlab_layers", {}), read_layers(state_dir)
        # In check mode nothing is kept, so what this playbook would have published is newer.
        before = {**kept, **known} if self._task.check_mode else {**known, **kept}
        after = dict(before)
        if state == "present":
            for layer in args.get("layers") or []:
                layer = validate_layer({**layer, "name": f"{layer['name']}{suffix}"} if suffix and "name" in layer else layer)
                after[layer["name"]] = layer
        elif state == "absent":
            for name in args.get("names") or []:
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
