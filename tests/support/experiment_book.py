# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks of the published experiments, as they are played: with the end that several of them share."""

from __future__ import annotations

from typing import Any

import yaml
from places import ROOT

BOOKS = ROOT / "playbooks" / "experiments"
IMPORT = "ansible.builtin.import_playbook"
# Ends of the names of files that are parts; the others are whole experiments.
PARTS = ("_testbed", "_teardown", "_machine", "_turn", "_end")


def plays(name: str) -> list[dict[str, Any]]:
    """The plays of an experiment; a shared end is in the place of its import."""
    listed = yaml.safe_load((BOOKS / f"{name}.yml").read_text(encoding="utf-8"))
    result: list[dict[str, Any]] = []
    for play in listed:
        other = play.get(IMPORT, "").removesuffix(".yml")
        result += plays(other) if other.endswith("_end") else [play]
    return result
