# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nested mappings as dotted keys and texts, so that what was recorded of hosts can be listed and compared."""

from __future__ import annotations


def flatten(value: object, prefix: str = "") -> list[tuple[str, str]]:
    """[(dotted key, text)] of every leaf, in the order of the mapping."""
    if isinstance(value, dict):
        return [
            pair for key, part in value.items() for pair in flatten(part, f"{prefix}.{key}" if prefix else str(key))
        ]
    if isinstance(value, list):
        if all(not isinstance(part, (dict, list)) for part in value):
            return [(prefix, ", ".join(_text(part) for part in value))]
        return [pair for index, part in enumerate(value) for pair in flatten(part, f"{prefix}.{index}")]
    return [(prefix, _text(value))]


def _text(value: object) -> str:
    return "" if value is None else "yes" if value is True else "no" if value is False else str(value)
