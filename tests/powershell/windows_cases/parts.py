# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts that can be asked more by themselves than through their scripts: a script of the case's own calls them."""

from __future__ import annotations

from cases import Case, Like, at

LOOPS = {"tool.exe": "#!/bin/sh\nprintf begun\nexec sleep 60\n"}
CASES = [
    # The limits of aim_list and aim_run are minutes.
    Case(
        "aim_run",
        "its program is ended at its limit",
        {"Program": at("tool.exe"), "Arguments": ""},
        result={"exit_code": None, "output": "begun", "errors": ""},
        files=LOOPS,
        edit=("-LimitMs 300000", "-LimitMs 700"),
        linux=True,
    ),
    # Which PowerShell this is, in its own words: 7 is refused, 5.1 is not.
    Case(
        "folder_private",
        "is asked for by PowerShell 7",
        {"Folder": at("x")},
        error=Like(r"PowerShell 7\..* ran this script; Windows PowerShell 5\.1 is needed\."),
        whole=True,
        core=True,
    ),
]
