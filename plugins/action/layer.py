# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Publishes layers; documentation in plugins/modules/layer.py."""

from __future__ import annotations

import hashlib
import json
import os
from typing import ClassVar

from ..module_utils.core.failure import Failure
from ..module_utils.core.files import read_json, write_json
from ..module_utils.core.layers import SHAPE, validate_layer
from ..plugin_utils.action import CollectionAction

CHECKSUM = "sha256"


def read_layers(state_dir: str | None, trusted: tuple = ()) -> dict:
    """{name: layer} of what was published. Failure 'layer_edited' for a file that says something else than what was published, unless its name is trusted.

    A path that was changed by hand would be overwritten by the next benchmark, and the identity that proves the device could have been changed with it.
    One without a checksum was changed, too.
    """
    folder = os.path.join(state_dir, "layers") if state_dir else None
    layers = {}
    for entry in sorted(os.listdir(folder)) if folder and os.path.isdir(folder) else []:
        if entry.endswith(".json"):
            path = os.path.join(folder, entry)
            try:
                layer = read_json(path, "Remove it, and run again; a build publishes the layer again.", SHAPE)
            except Failure:
                if entry[: -len(".json")] in trusted:
                    continue  # it is published anew or removed, whatever it says
                raise
            if layer is None:
                continue  # the task of another host has just removed it
            stored = layer.pop(CHECKSUM, None)
            if stored != checksum(layer) and layer["name"] not in trusted:
                raise edited(path, stored is None)
            layers[layer["name"]] = layer
    return layers


def edited(path: str, unsigned: bool) -> Failure:
    """The refusal of a layer. unsigned: it has no checksum, so it cannot be trusted: an edit of the path would have left it out, too."""
    if unsigned:
        what = f"{path} has no checksum: a version before 1.0 published it, or it was edited."
        remedy = "Remove it. A teardown goes on without it, and a build publishes the layer again."
    else:
        what = f"{path} differs from what was published."
        remedy = "Restore it, or remove it and build again, which publishes the layer as it is."
    return Failure("layer_edited", what, remedy, path=path)


def write_layer(state_dir: str, layer: dict) -> None:
    folder = os.path.join(state_dir, "layers")
    os.makedirs(folder, exist_ok=True)
    # A layer is replaced whole or not at all: other hosts' tasks read this folder while this one writes.
    kept = {**layer, CHECKSUM: checksum(layer)}
    write_json(os.path.join(folder, f"{layer['name']}.json"), kept, mode=0o600, indent=1)


def unbuilt(described: list[str], published: dict) -> list[str]:
    """The described layers that were never published; Failure 'nothing_built' where that is all of them."""
    missing = [name for name in described if name not in published]
    if described and missing == described:
        raise Failure(
            "nothing_built",
            f"None of the described layers is built: {', '.join(missing)}.",
            "Build the testbed first, with the playbook storlab.testbed.build.",
            layers=missing,
        )
    return missing


def checksum(layer: dict) -> str:
    """The words of a layer's file, in whatever layout."""
    known = {key: value for key, value in layer.items() if key != CHECKSUM}
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {
        "state": {"type": "str", "choices": ["present", "absent", "gathered"], "default": "present"},
        "layers": {"type": "list", "elements": "dict", "default": []},
        "names": {"type": "list", "elements": "str", "default": []},
        "suffix": {"type": "str", "default": ""},
        "state_dir": {"type": "path"},
        "described": {"type": "list", "elements": "str", "default": []},
    }

    def perform(self, params: dict) -> dict:
        state, state_dir, suffix = params["state"], params["state_dir"] or None, params["suffix"]
        known = self.task_vars.get("ansible_facts", {}).get("storlab_layers", {})
        kept = read_layers(state_dir, self._trusted(state_dir, params))
        # A layer that this host knows from earlier in the playbook may have gone since. In check mode nothing is kept, and the playbook knows the newer ones.
        before = {**kept, **known} if self._task.check_mode or not state_dir else kept
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
            absent = {f"{name}{suffix}" for name in params["names"]} if state == "absent" else set()
            for name in (set(before) | absent) - set(after):
                path = os.path.join(state_dir, "layers", f"{name}.json")
                if os.path.exists(path):
                    os.unlink(path)
        missing = unbuilt(params["described"], after)
        warning = f"These layers are described and not built, so they are not measured: {', '.join(missing)}."
        # Publishing describes the testbed, it does not change it: never "changed".
        return {
            "changed": False,
            "ansible_facts": {"storlab_layers": after},
            "unbuilt": missing,
            **({"warnings": [warning]} if missing else {}),
        }

    def _trusted(self, state_dir: str | None, params: dict) -> tuple:
        """Names of layers whose files need not be what was published: what is published now, and all of them when layers are only removed."""
        if params["state"] == "absent" and state_dir:
            folder = os.path.join(state_dir, "layers")
            return tuple(name[: -len(".json")] for name in os.listdir(folder)) if os.path.isdir(folder) else ()
        return tuple(f"{layer.get('name')}{params['suffix']}" for layer in params["layers"])
