# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks and volumes of a Windows host that were there before; documentation in plugins/modules/win_existing.py."""

from __future__ import annotations

from typing import cast

from ..module_utils.core.layers import Layer
from ..module_utils.core.steps import shown
from ..plugin_utils.windows import existing
from ..plugin_utils.windows.action import WindowsAction
from ..plugin_utils.windows.state import State


class ActionModule(WindowsAction):
    SPEC, AREA = existing.SPEC, "existing"

    def present(self, params: dict, state: State) -> dict:
        layers = [self.layer(state, entry, params["layers"]) for entry in existing.check(params)]
        for layer in layers:
            known = existing.link(state, layers, layer)
            layer["detail"].update({"link": known} if known else {})
        return {**shown([]), "layers": layers}

    def absent(self, params: dict, state: State) -> dict:
        """Nothing was changed for it."""
        return shown([])

    def layer(self, state: State, entry: dict, layers: list) -> Layer:
        if entry["kind"] == "disk":
            return existing.disk_layer(entry, existing.disk_of(state, entry))
        folder, wanted = existing.folder_of(entry), existing.named(entry)
        path = wanted or existing.before(entry, layers)
        look = cast(existing.Look, self.script("volume_look", existing.question(folder, path)))
        if path and not wanted and look["file"] is None:
            # That of the last build is gone.
            look = cast(existing.Look, self.script("volume_look", existing.question(folder)))
        return existing.file_layer(entry, look)
