# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks and volumes of a Windows host that were there before; documentation in plugins/modules/win_existing.py."""

from __future__ import annotations

import copy
import secrets
from typing import cast

from ..module_utils.core.layers import Layer
from ..module_utils.core.steps import Step, shown
from ..plugin_utils.windows import existing, own_file
from ..plugin_utils.windows.action import WindowsAction
from ..plugin_utils.windows.state import State


class ActionModule(WindowsAction):
    SPEC, AREA = existing.SPEC, "existing"

    def present(self, params: dict, state: State) -> dict:
        entries, kept = existing.check(params), self.recall(params)
        wanted = {
            entry["name"]: own_file.place_of(params["testbed_id"], entry["name"], existing.folder_of(entry))
            for entry in entries
            if existing.has_own_file(entry)
        }
        steps, left = self.leave_folders([name for name in kept if kept[name]["own"] != wanted.get(name)])
        layers = []
        for entry in entries:
            if entry["kind"] == "disk":
                layers.append(existing.disk_layer(entry, state))
            elif entry["name"] in wanted:
                layer, more = self.own_layer(entry, wanted[entry["name"]])
                layers.append(layer)
                steps += more
            else:
                layers.append(self.file_layer(entry, params["layers"]))
        for layer in layers:
            known = existing.link(state, layers, layer)
            layer["detail"].update({"link": known} if known else {})
        return {**shown(steps), "layers": layers, "kept": left}

    def absent(self, params: dict, state: State) -> dict:
        """Folders of our own go. Files that others put there stay, and are named."""
        steps, left = self.leave_folders(list(self.recall(params)))
        return {**shown(steps), "kept": left}

    # ---- what is only read

    def file_layer(self, entry: dict, layers: list) -> Layer:
        folder, wanted = existing.folder_of(entry), existing.named(entry)
        path = wanted or existing.before(entry, layers)
        look = cast(existing.Look, self.script("volume_look", existing.question(folder, path)))
        if path and not wanted and look["file"] is None:
            # That of the last build is gone.
            look = cast(existing.Look, self.script("volume_look", existing.question(folder)))
        return existing.file_layer(entry, look)

    # ---- folders of our own

    def recall(self, params: dict) -> dict[str, own_file.Kept]:
        """{name: folder of our own} by the record, or by published layers where it is lost. A call without a folder for records has made none."""
        if not params["state_dir"]:
            self.kept: dict[str, own_file.Kept] = {}
        else:
            recorded = copy.deepcopy(self.memory.data.get("folders", {}))
            self.kept = {**own_file.recalled(params["layers"]), **recorded}
        return self.kept

    def note(self) -> None:
        # A copy: the record is written when it differs from what it was.
        self.leave({"folders": copy.deepcopy(self.kept)} if self.kept else {})

    def look(self, kept: own_file.Kept) -> own_file.OwnLook:
        return cast(own_file.OwnLook, self.script("own_look", own_file.question(kept["folder"], kept["own"])))

    def own_layer(self, entry: dict, place: str) -> tuple[Layer, list[Step]]:
        name, size = entry["name"], entry["benchmark_file_mib"] << 20
        question = own_file.question(existing.folder_of(entry), place)
        look = cast(own_file.OwnLook, self.script("own_look", question))
        kept = self.kept.get(name)
        steps = own_file.plan(name, look, kept, size, place)
        if kept is None:
            token, volume = secrets.token_hex(16), look["volume"]
            kept = {"folder": question["Folder"], "own": place, "token": token, "volume": volume, "stamped": False}
        if not self._task.check_mode:
            self.make(name, kept, steps, size)
        return own_file.layer_of(entry, look, kept), steps

    def make(self, name: str, kept: own_file.Kept, steps: list[Step], size: int) -> None:
        """Each step is on record before it is done, so that a call that is killed leaves nothing behind that is on no record."""
        self.kept[name] = kept
        self.note()
        for step in steps:
            if step["op"] == "make":
                stamp = {"Stamp": own_file.STAMP, "Content": own_file.stamp(kept["token"])}
                self.script("own_new", {"Own": kept["own"], **stamp})
                kept["stamped"] = True
                self.note()
            else:
                path = own_file.path_in(kept["own"], own_file.BENCHMARK_FILE)
                self.script("file_write", {"Path": path, "SizeBytes": size})

    def leave_folders(self, names: list[str]) -> tuple[list[Step], list[str]]:
        """Take folders of our own away; the steps, and the paths that stay because others put them there."""
        steps: list[Step] = []
        left: list[str] = []
        for name in sorted(names):
            kept = self.kept[name]
            look = self.look(kept)
            ours, others = own_file.leaving(look, kept)
            left += others
            if look["own"] is not None and not others:
                steps.append({"op": "remove", "target": name, "was": kept["own"], "will": None})
                if not self._task.check_mode:
                    self.script("own_remove", {"Own": kept["own"], "Names": ours})
            del self.kept[name]
            if not self._task.check_mode:
                self.note()
        return steps, left
