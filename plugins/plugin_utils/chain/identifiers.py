# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that are derived from other names: each belongs to one owner, or the inventory is refused.

An iSCSI name has fewer letters than the name of a host, an interface fewer characters, and Windows and ESXi do not distinguish capitals from small letters. Two
hosts with one initiator name would each get the other's LUNs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .testbed import Host

# Platforms whose names of files and datastores are the same in capitals and in small letters.
CASELESS = ("windows", "esxi")


def shared(entries: Iterable[tuple[Any, str]]) -> Iterator[tuple[Any, list[str]]]:
    """(name, [owner]) of each name that is there more than once. entries: (name, owner)."""
    owners: dict[Any, list[str]] = {}
    for name, owner in entries:
        owners.setdefault(name, []).append(owner)
    return ((name, several) for name, several in owners.items() if len(several) > 1)


def same_case(host: Host, name: Any) -> str:
    """The name as the host compares it."""
    return str(name).casefold() if host.platform in CASELESS else str(name)
