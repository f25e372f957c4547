# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers of a Windows host; documentation in plugins/modules/win_recording.py."""

from __future__ import annotations

from typing import ClassVar

from ..module_utils.core import pseudonyms
from ..plugin_utils.windows import recording
from ..plugin_utils.windows.action import WindowsAction


class ActionModule(WindowsAction):
    SPEC: ClassVar[dict] = pseudonyms.SPEC

    def present(self, params: dict, state: dict) -> dict:
        names = {self.task_vars["inventory_hostname"], *params["names"]}
        scrubbed = recording.scrubbed(state, params["key"].encode(), names)
        return {"changed": False, "recording": {"format": 1, "kind": "windows", "state": scrubbed}}
