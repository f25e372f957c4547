# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of a shell command between marks of its own, because others write to the same terminal.

sudo prints a blank line after the password, a lecture or a warning; a .bashrc greets; a terminal turns line ends into two characters and joins both
streams. So the command says where its output begins, where its messages begin with what exit code, and where they end. Everything else is noise.
"""

from __future__ import annotations

import re


def marked(command: str, token: str) -> str:
    """The command, with marks around its output and its messages. token: 16 characters that nothing else prints; the text itself has it in two pieces."""
    mark = f"printf '\\n%s%s %s\\n' {token[:8]} {token[8:]}"
    return (
        f"{mark} begin; {{ messages=$({{ {command}; }} 2>&1 1>&3 3>&-); }} 3>&1; status=$?; "
        f"{mark} $status; printf '%s' \"$messages\"; {mark} end"
    )


def between(output: str, token: str) -> tuple[int, str, str] | None:
    """(exit code, output, messages) of a marked command; None where a mark is missing, because the command did not run to its end."""
    whole = re.search(
        rf"^{token} begin\n(.*)\n{token} (\d+)\n(.*)\n{token} end$",
        output.replace("\r", ""),
        re.DOTALL | re.MULTILINE,
    )
    return (int(whole[2]), whole[1], whole[3]) if whole else None


def begun(output: str, token: str) -> bool:
    """Whether the command was started at all."""
    return f"{token} begin" in output
