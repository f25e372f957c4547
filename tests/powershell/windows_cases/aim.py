# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripts that run the program of Arsenal Image Mounter. A program of the case's own folder stands in for it, and says what it was given."""

from __future__ import annotations

from cases import WILD, WILD_NAME, Case, at

SPEAKS = {"tool.exe": "#!/bin/sh\nprintf '%s|' \"$@\"\nprintf warned >&2\nexit 3\n"}
# More than a pipe holds, on both, so that neither may be left unread.
FLOODS = {"tool.exe": "#!/bin/sh\nhead -c 300000 /dev/zero | tr '\\0' o\nhead -c 300000 /dev/zero | tr '\\0' e >&2\n"}
LISTED = {"found": True, "exit_code": 3, "output": "-l|", "errors": "warned"}
NOT_THERE = {"found": False, "exit_code": None, "output": "", "errors": ""}
CASES = [
    Case(
        "aim_list", "its devices", {"Program": at("tool.exe")}, result=LISTED, changed=False, files=SPEAKS, linux=True
    ),
    Case(
        "aim_list",
        "in check mode, too",
        {"Program": at("tool.exe")},
        result=LISTED,
        changed=False,
        check=True,
        files=SPEAKS,
        linux=True,
    ),
    Case("aim_list", "a program that is not there", {"Program": at("none.exe")}, result=NOT_THERE, changed=False),
    Case("aim_list", "a name that looks like a script", {"Program": WILD}, result=NOT_THERE, changed=False),
    Case(
        "aim_run",
        "its words and its exit code",
        {"Program": at("tool.exe"), "Arguments": '-a -t vm -s "4096 M" $HOME `x`'},
        result={"exit_code": 3, "output": "-a|-t|vm|-s|4096 M|$HOME|`x`|", "errors": "warned"},
        files=SPEAKS,
        linux=True,
    ),
    Case(
        "aim_run",
        "names that look like a script",
        {"Program": at(f"{WILD_NAME}.exe"), "Arguments": "日本 $(exit)"},
        result={"exit_code": 3, "output": "日本|$(exit)|", "errors": "warned"},
        files={f"{WILD_NAME}.exe": SPEAKS["tool.exe"]},
        linux=True,
    ),
    Case(
        "aim_run",
        "much on both pipes",
        {"Program": at("tool.exe"), "Arguments": ""},
        result={"exit_code": 0, "output": "o" * 300000, "errors": "e" * 300000},
        files=FLOODS,
        linux=True,
    ),
    Case(
        "aim_run",
        "a program that is not there",
        {"Program": at("none.exe"), "Arguments": "-d"},
        error=f"{at('none.exe')} is missing or cannot be started: name the program of Arsenal Image Mounter in ramdisk_aim_program.",
    ),
]
