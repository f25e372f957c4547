# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a state folder is: the inventory's that it was made for. Two labs that shared one would take each other's hosts, layers and baselines for their own.

The folder keeps the way from it to the inventory, so that both can be moved together. An inventory that is not there any more owns nothing.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from ...module_utils.core.failure import Failure
from ...module_utils.core.files import read_json, write_json
from .shape import Problem, shown

FILE = "inventory.json"


def inventories(task_vars: dict[str, Any]) -> list[str]:
    """The folders and files that name the hosts: a folder where it is an inventory as a whole, as one with group_vars is."""
    paths = []
    for own in task_vars["hostvars"].values():
        file, folder = str(own.get("inventory_file") or ""), str(own.get("inventory_dir") or "")
        if file and folder:
            whole = any(os.path.isdir(os.path.join(folder, name)) for name in ("group_vars", "host_vars"))
            paths.append(os.path.realpath(folder if whole or Path(file).stem == "hosts" else file))
    return sorted(set(paths))


def problems(state_dir: str, testbed_id: str, paths: list[str]) -> list[Problem]:
    """One when the state folder belongs to another inventory."""
    file = os.path.join(state_dir, FILE)
    owners = [path for path in _kept(state_dir) if os.path.exists(path)]
    if not owners or not paths or any(os.path.samefile(path, owner) for path in paths for owner in owners):
        return []
    return [
        Problem(
            "testbed_id",
            shown(testbed_id),
            f"whose state folder {state_dir} belongs to the inventory {owners[0]}",
            f"give this one a testbed_id of its own; if that inventory has no testbed of this name any more, remove {file}",
        )
    ]


def claim(state_dir: str, paths: list[str]) -> None:
    """The folder is these inventories' from now on, unless it is already."""
    if not paths or any(os.path.exists(path) for path in _kept(state_dir)):
        return
    # Who may not write there changes nothing of the testbed either, and hears of it then.
    with contextlib.suppress(OSError):
        os.makedirs(state_dir, exist_ok=True)
        ways = [os.path.relpath(path, os.path.realpath(state_dir)) for path in paths]
        write_json(os.path.join(state_dir, FILE), {"inventories": ways}, indent=1)


def _kept(state_dir: str) -> list[str]:
    """Paths of the owners. A damaged file names none."""
    try:
        kept = read_json(os.path.join(state_dir, FILE))
    except (Failure, OSError):
        return []
    ways = kept.get("inventories") if isinstance(kept, dict) else None
    ways = ways if isinstance(ways, list) else []
    return [
        os.path.normpath(os.path.join(os.path.realpath(state_dir), way)) for way in ways if isinstance(way, str) and way
    ]
