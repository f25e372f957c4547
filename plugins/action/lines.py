# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints lines as they are; documentation in plugins/modules/lines.py."""

from __future__ import annotations

from typing import ClassVar

from ansible import constants
from ansible.utils.display import Display

from ..module_utils.core.visible import CONTROLS
from ..plugin_utils.action import CollectionAction

# What else these print is read by a program, so the lines are in the task's result alone.
FOR_PROGRAMS = ("json", "jsonl")
display = Display()


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {"lines": {"type": "list", "elements": "str", "required": True}}

    def perform(self, params: dict) -> dict:
        lines = printable(params["lines"])
        if constants.DEFAULT_STDOUT_CALLBACK.rpartition(".")[2] not in FOR_PROGRAMS:
            # Some callbacks print the name of the task after it only.
            for line in ["", *lines]:
                display.display(line)
        return {"changed": False, "msg": "\n".join(lines)}


def printable(texts: list[str]) -> list[str]:
    """The lines of the texts, without what a terminal would obey. Each mark stays one letter wide, so that the columns of a table stay."""
    return [CONTROLS.sub("?", line) for text in texts for line in text.split("\n")]
