# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network ceilings of a run: ``<run>/network.jsonl``, a line for each link that was measured before the points, and nothing is ever changed::

    {host, target, address, started_utc, seconds?, streams?, to_target_bits_s?, from_target_bits_s?, round_trip_ns?, round_trip_least_ns?, note?}

``note`` says why the figures are absent. The measurement: module_utils/run/net_ceiling.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import json_lines

FILE = "network.jsonl"
FIGURES = ("to_target_bits_s", "from_target_bits_s", "round_trip_ns", "round_trip_least_ns")
WORDS = ("host", "target", "address", "started_utc")


def read(run_dir: str, parse: Callable[[bytes], Any]) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """(the newest line of each link, in the order of host, target and address, [{file, reason}] of what cannot be used)."""
    lines, damaged = json_lines.read(run_dir, FILE, parse, _problem)
    links: dict[tuple[str, ...], dict[str, Any]] = {}
    for line in lines:
        link = (line["host"], line["target"], line["address"])
        # A measurement that failed takes no figure away.
        if "note" not in line or link not in links:
            links[link] = line
    return [links[link] for link in sorted(links)], damaged


def _problem(line: object) -> str | None:
    if not isinstance(line, dict) or any(not isinstance(line.get(key), str) for key in WORDS):
        return "it is not a link between two hosts"
    if "note" in line:
        return None if isinstance(line["note"], str) and line["note"] else "its note says nothing"
    for key in FIGURES:
        figure = line.get(key, 0)
        if type(figure) not in (int, float) or not math.isfinite(figure) or figure <= 0:
            return f"its {key} is neither a rate nor a time"
    return None
