# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repeats what failed in a log of Molecule, so that a reader of the end of a long log sees it.

Molecule draws a box around each command and closes it with the return code. Of each box whose code is not 0: its end, up to the recap.
The first that failed comes last: what failed after it is mostly the cleaning up, and of a long log often only the very end is read.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# How many lines of the end of a failed command are repeated.
MOST_LINES = 80


def failures(log: str) -> Iterator[list[str]]:
    """The last lines of each command that ended with another return code than 0, the return code last."""
    box: list[str] = []
    for line in re.sub(r"\x1b\[[0-9;]*m", "", log).splitlines():
        if line.lstrip().startswith("┌─"):
            box = []
        elif end := re.match(r"\s*└─ Return code: (\d+)", line):
            if end[1] != "0":
                recap = next((at for at, text in enumerate(box) if text.startswith("PLAY RECAP")), len(box))
                yield [*box[:recap][-MOST_LINES:], f"Return code: {end[1]}"]
            box = []
        else:
            box.append(re.sub(r"^\s*│ ?", "", line).rstrip())


if __name__ == "__main__":
    for lines in reversed([*failures(Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace"))]):
        print("What failed:", *lines, sep="\n  ")
