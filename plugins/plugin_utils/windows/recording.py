# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a Windows host as it is lent to others: without what identifies the host and its lab."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils.core.pseudonyms import Pseudonyms

# Keys whose texts are a serial number or a name, as a whole.
IDENTIFYING = ("serial", "unique_id", "chap_user", "reverse_chap_user", "description")
# Keys whose texts are names that other texts may hold, too.
NAMING = ("label",)


def scrubbed(state: Mapping[str, object], key: bytes, names: set[str]) -> dict[str, object]:
    """The state with other names, addresses, identifiers and serial numbers, each the same everywhere."""
    pseudonyms = Pseudonyms(key, names | set(_names_in(state)))

    def value(item: Any, under: str = "") -> Any:
        if isinstance(item, dict):
            return {pseudonyms.text(name): value(part, name) for name, part in item.items()}
        if isinstance(item, list):
            return [value(part, under) for part in item]
        if not isinstance(item, str):
            return item
        return pseudonyms.like(item) if under in IDENTIFYING else pseudonyms.text(item)

    return {name: value(part, name) for name, part in state.items()}


def _names_in(item: object, under: str = "") -> list[str]:
    if isinstance(item, dict):
        return [name for key, part in item.items() for name in _names_in(part, key)]
    if isinstance(item, list):
        return [name for part in item for name in _names_in(part, under)]
    return [item] if isinstance(item, str) and item and under in NAMING else []
