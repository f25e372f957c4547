# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage state of a Windows host; documentation in plugins/modules/win_state.py."""

from __future__ import annotations

from typing import ClassVar

from ..plugin_utils.windows import storage_state
from ..plugin_utils.windows.action import WindowsAction


class ActionModule(WindowsAction):
    SPEC: ClassVar[dict] = {"testbed_id": {"type": "str", "default": ""}}

    def present(self, params: dict, state: dict) -> dict:
        testbed_id = params["testbed_id"]
        ours = storage_state.ours(state, testbed_id) if testbed_id else {}
        seen = {
            "volumes": [{key: volume[key] for key in ("letter", "label", "size_bytes")} for volume in state["volumes"]],
            "disks": [{key: disk[key] for key in ("number", "name", "size_bytes")} for disk in state["disks"]],
        }
        return {"changed": False, "seen": seen, "storage_state": storage_state.lines(state, testbed_id), "ours": ours}
