# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints lines as they are; documentation in plugins/modules/lines.py."""

from __future__ import annotations

import os
import re
import textwrap
from typing import ClassVar

from ansible import constants
from ansible.utils.display import Display

from ..module_utils.core.visible import CONTROLS
from ..plugin_utils.action import CollectionAction

# The other output of these is read by a program, so the lines are in the task's result alone.
FOR_PROGRAMS = ("json", "jsonl")
# The lines of a drawing in front of a text.
BRANCH = re.compile(r"[ │]*[├└]─ ")
# The columns of a table in front of its last one, which is the wide one.
COLUMNS = re.compile(r" *\S.*\S {2,}(?=\S)")
GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
display = Display()


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {"lines": {"type": "list", "elements": "str", "required": True}}

    def perform(self, params: dict) -> dict:
        lines = printable(params["lines"])
        if constants.DEFAULT_STDOUT_CALLBACK.rpartition(".")[2] not in FOR_PROGRAMS:
            # Some callbacks print the name of the task after it only.
            columns = display.columns if at_a_terminal() else None
            for line in ["", *lines]:
                display.display(folded(line, columns) if columns else line)
        return {"changed": False, "msg": "\n".join(lines)}


def at_a_terminal() -> bool:
    """Whether Ansible prints to a terminal. It runs an action in a process of its own, whose output it has closed, so the parent's is looked at."""
    try:
        return os.readlink(f"/proc/{os.getppid()}/fd/1").startswith(("/dev/pts/", "/dev/tty"))
    except OSError:  # no Linux: a wide line is broken by the terminal itself
        return False


def printable(texts: list[str]) -> list[str]:
    """The lines of the texts, without what a terminal would obey. Each mark stays one letter wide, so that the columns of a table stay."""
    return [CONTROLS.sub("?", line) for text in texts for line in text.split("\n")]


def folded(line: str, columns: int) -> str:
    """A wide line of a drawing, or of a table with a wide last column, goes on below its own text; other lines stay as they are."""
    branch = BRANCH.match(line)
    before = branch or COLUMNS.match(line)
    if before is None or len(line) <= columns:
        return line
    if before.end() > columns // 2 and not branch:
        # Below its own beginning it would become a tower.
        first = before[0].rstrip()
        return (
            f"{first}\n{' ' * 8}{line[before.end() :]}" if len(first) <= columns else "\n".join(in_rows(line, columns))
        )
    # A branch goes on beside what follows it; the last one has ended.
    below = before[0].replace("├─", "│ ").replace("└─", "  ") + "  " if branch else " " * before.end()
    return textwrap.fill(
        line[before.end() :],
        columns,
        initial_indent=before[0],
        subsequent_indent=below,
        break_long_words=False,
        break_on_hyphens=False,
    )


def in_rows(line: str, columns: int) -> list[str]:
    """The columns of a line of a table, as many as fit into each row; a terminal would break them in the middle of a word."""
    first, *others = GAP.split(line.rstrip())
    rows = [first]
    for column in others:
        if len(rows[-1]) + 2 + len(column) <= columns:
            rows[-1] += f"  {column}"
        else:
            rows.append(f"{' ' * 8}{column}")
    return rows
