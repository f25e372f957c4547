# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reference beats of a run: ``<run>/beats.jsonl``, to which a line is added for each host and round, and nothing is ever changed::

    {host, round, started_utc, variant?, null_iops?, memory_copy_bytes_s?, note?}

``note`` says why a figure is absent. A host that plays no beats at all has one line, {host, note}. A beat is described in module_utils/run/beat.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import json_lines

FILE = "beats.jsonl"
FIGURES = ("null_iops", "memory_copy_bytes_s")


def read(run_dir: str, parse: Callable[[bytes], Any]) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """(the lines by host in the order of time, [{file, reason}] of what cannot be used). parse: makes JSON of bytes, or raises ValueError."""
    lines, damaged = json_lines.read(run_dir, FILE, parse, _problem)
    return sorted(lines, key=lambda line: (line["host"], line.get("started_utc", ""))), damaged


def _problem(line: object) -> str | None:
    """Why this is not a beat, None when it is one."""
    if not isinstance(line, dict) or not isinstance(line.get("host"), str):
        return "it is not the beat of a host"
    if any(
        not isinstance(line.get(key, kind()), kind)
        for key, kind in (("started_utc", str), ("note", str), ("variant", str))
    ):
        return "its words are not text"
    for key in FIGURES:
        figure = line.get(key, 1)
        if type(figure) not in (int, float) or not math.isfinite(figure) or figure <= 0:
            return f"its {key} is not a rate"
    played = any(key in line for key in FIGURES)
    if played and not (type(line.get("round")) is int and line.get("started_utc")):
        return "it has no round or no time"
    if not played and not line.get("note"):
        return "it has no figure and no reason"
    return None
