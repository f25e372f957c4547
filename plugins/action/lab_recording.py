# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps recordings on the controller, with a page to look at; documentation in plugins/modules/lab_recording.py."""

from __future__ import annotations

import json
import os
from typing import ClassVar

from ..module_utils.core.failure import bad_value
from ..module_utils.core.files import write_whole
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.recording import page

PAGE = "LOOK_AT_THIS_FIRST.md"


class ActionModule(CollectionAction):
    _supports_check_mode = True
    SPEC: ClassVar[dict] = {
        "folder": {"type": "path", "required": True},
        "recordings": {"type": "list", "elements": "dict", "required": True},
    }

    def perform(self, params: dict) -> dict:
        if not params["recordings"]:
            raise bad_value("recordings", [], "No host answered; the messages above say why.")
        folder = self._loader.path_dwim(params["folder"])
        if os.path.isdir(folder) and os.listdir(folder):
            raise bad_value("folder", folder, "It holds files already; name a new folder.")
        counts: dict[str, int] = {}
        kept = {}
        for recording in params["recordings"]:
            kind = recording["kind"]
            counts[kind] = counts.get(kind, 0) + 1
            kept[f"{kind}-{counts[kind]}.json"] = recording
        if not self._task.check_mode:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            for name, recording in kept.items():
                write_whole(os.path.join(folder, name), json.dumps(recording, indent=1, sort_keys=True).encode())
            write_whole(os.path.join(folder, PAGE), page.markdown(kept).encode())
        return {"changed": True, "files": sorted(kept), "page": os.path.join(folder, PAGE)}
