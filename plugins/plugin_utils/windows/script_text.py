# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PowerShell scripts as they are sent: each with the parts that its second line names.

A script begins ``# storlab: <name>`` and, when it needs parts, ``# parts: <part>, <part>``. A part is a file of functions in ``scripts/parts``.
Those in ``scripts/parts/windows_only`` ask for what no other system has (accounts, rights of folders, the registry); all the rest runs in any
PowerShell. This file imports nothing of the collection, so that tests without Ansible can read it.
"""

from __future__ import annotations

import os
import re
from typing import Any

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts")
WINDOWS_ONLY = "windows_only/"
PARTS = re.compile(r"# parts: (.+)")


def read(name: str, scripts: str = SCRIPTS) -> str:
    """The text of one file: a script, or a part as 'parts/<part>'."""
    with open(os.path.join(scripts, *f"{name}.ps1".split("/")), encoding="utf-8") as handle:
        return handle.read()


def parts(text: str) -> list[Any]:
    """The parts that a script names, in its order."""
    lines = text.splitlines()
    named = PARTS.fullmatch(lines[1]) if len(lines) > 1 else None
    return named[1].split(", ") if named else []


def script(name: str, windows_only: bool = True, scripts: str = SCRIPTS) -> str:
    """The text of a script with its parts, which are behind its parameters: PowerShell wants those first.

    windows_only: False leaves out the parts that run on Windows alone, for tests that replace them.
    """
    text = read(name, scripts)
    wanted = [part for part in parts(text) if windows_only or not part.startswith(WINDOWS_ONLY)]
    if not wanted:
        return text
    lines = text.splitlines(keepends=True)
    heads = [number for number, line in enumerate(lines) if line.startswith("param(")]
    first_code = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    at = heads[0] + 1 if heads else first_code
    return "".join([*lines[:at], *(read(f"parts/{part}", scripts) for part in wanted), *lines[at:]])
