# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words for what has changed since a testbed was built. A change is (the user's word, its value or None, why it cannot be followed)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .nouns import Kept
from .shape import shown
from .testbed import Testbed, mappings

Change = tuple[str, "str | None", str]
# Looks at the record of the built testbed, the record that would be made now, and the testbed.
Changes = Callable[[Kept, Kept, Testbed], "list[Change]"]


def each(before: Kept, after: Kept, variable: str) -> Iterator[tuple[str, object, object]]:
    """(host, what was, what is) of a variable on every host that had it."""
    for name, values in before["hosts"].items():
        if variable in values:
            yield name, values[variable], after["hosts"].get(name, {}).get(variable)


def word_of(testbed: Testbed, host: str, variable: str, word: str) -> str:
    """The user's word: the description's, or the role's variable where the inventory sets it."""
    return f"{variable} of {host}" if variable in testbed.hosts[host].own else word


def change_text(name: str, was: dict[str, object] | None, now: dict[str, object] | None) -> str:
    """'has made ds1 of size_mib 128 one of 256', 'has lost ds1', 'has a new ds2'."""
    if was is None or now is None:
        return f"has {'lost' if now is None else 'a new'} {name}"
    keys = [key for key in {**was, **now} if was.get(key) != now.get(key)]
    return f"has changed {', '.join(keys)} of {name} from {_values(was, keys)} to {_values(now, keys)}"


def _values(entry: dict[str, object], keys: list[str]) -> str:
    return ", ".join(shown(entry[key]) if key in entry else "nothing" for key in keys)


def entries_kept(
    word: str, what: str, was: object, now: object, keys: tuple[str, ...], host: str, name: str = "name"
) -> list[Change]:
    """Entries that were must be still, with the same keys; more may come."""
    have, want = ({entry.get(name): entry for entry in mappings(entries)} for entries in (was, now))
    changes: list[Change] = []
    for label, entry in have.items():
        was_is = {key: entry.get(key) for key in keys}
        now_is = {key: want[label].get(key) for key in keys} if label in want else None
        if was_is != now_is:
            changes.append((word, None, f"{change_text(f'the {what} {label}', was_is, now_is)} on {host}"))
    return changes


def values_kept(variable: str) -> Changes:
    """Refuses another value of a variable that has one as long as the testbed is built."""

    def look(before: Kept, after: Kept, _testbed: Testbed) -> list[Change]:
        return [
            (f"{variable} of {host}", shown(now), f"but the built testbed has {shown(was)}")
            for host, was, now in each(before, after, variable)
            if was != now
        ]

    return look
