#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says how many tasks of the roles were executed, and which never, from the lines that tests/executed_tasks wrote in any number of runs.

    python tests/tools/role_coverage.py .cache/executed/tasks

A block and a static import are no tasks of their own: Ansible executes what is in them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import yaml

BLOCK = ("block", "rescue", "always")
STATIC = tuple(f"{prefix}import_{kind}" for prefix in ("", "ansible.builtin.") for kind in ("tasks", "role"))
# A role is run from the checkout, by the link of the collection, and from a built and installed artefact.
PLACE = re.compile(r"(?:^|/)(roles/[^/]+/tasks/.+):(\d+)$")


def tasks(text: str) -> dict[int, str]:
    """{line: name} of each task of one file."""
    names: dict[int, str] = {}
    document = yaml.compose(text, Loader=yaml.SafeLoader)
    waiting = list(document.value) if document is not None else []
    while waiting:
        node = waiting.pop()
        entries = {key.value: value for key, value in node.value}
        parts = [entries[key] for key in BLOCK if key in entries]
        for part in parts:
            waiting.extend(part.value)
        if not parts and not any(key in entries for key in STATIC):
            names[node.start_mark.line + 1] = entries["name"].value if "name" in entries else ""
    return names


def known(roles: Path) -> dict[str, dict[int, str]]:
    """{roles/…/tasks/….yml: {line: name}}."""
    return {
        path.relative_to(roles.parent).as_posix(): tasks(path.read_text(encoding="utf-8"))
        for path in sorted(roles.glob("*/tasks/**/*.yml"))
    }


def executed(text: str) -> set[tuple[str, int]]:
    places = (PLACE.search(line) for line in text.splitlines())
    return {(match[1], int(match[2])) for match in places if match}


def lines(files: dict[str, dict[int, str]], reached: set[tuple[str, int]]) -> list[str]:
    never = [
        (name, line, title)
        for name, rows in files.items()
        for line, title in sorted(rows.items())
        if (name, line) not in reached
    ]
    number = sum(len(rows) for rows in files.values())
    percent = 100 * (number - len(never)) / number if number else 100.0
    return [
        *(f"{name}:{line}  {title}" for name, line, title in never),
        f"{percent:.1f} % of {number} tasks of the roles executed, {len(never)} never",
    ]


if __name__ == "__main__":
    written = Path(sys.argv[1])
    if not written.is_file():
        sys.exit(
            f"{written} is not there: no task was written down. Run `make integration TASKS=yes` or `make molecule TASKS=yes` first."
        )
    roles = Path(__file__).resolve().parents[2] / "roles"
    print("\n".join(lines(known(roles), executed(written.read_text(encoding="utf-8")))))
